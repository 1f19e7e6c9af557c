/* SPDX-License-Identifier: Apache-2.0 */
/* The host of an attempt: chosen, judged, and followed by another. */
#include "base/rand.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/exchange/retry.h"
#include "gateway/exchange/state.h"
#include "gateway/message/fields.h"
#include "gateway/upstream/pick.h"

int gw_pick_host(struct sw_exchange *x, int *ret_status)
{
    struct sw_gw_route_state *rs = x->rs;
    int rc = sw_gw_lb_pick(x->worker->hosts, x->view->config, rs->cluster, &rs->pick, &x->host);

    if (rc == SW_OK) {
        (void)sw_gw_member_unref(rs->member);
        rs->member = sw_gw_member_ref(x->host->member);
        if (x->route && x->route->forward.auto_host && x->host->member->hostname.n)
            x->plan.authority = x->host->member->hostname;
        if (rs->vhost && rs->vhost->attempt_count)
            sw_gw_fields_set(&x->arena, &x->req.fields, SW_SLICE_LIT("x-envoy-attempt-count"),
                             sw_slice_str(sw_arena_printf(&x->arena, "%u", x->attempts)));
        return SW_OK;
    }
    *ret_status = rc == SW_ENOENT && x->route ? x->route->forward.not_found_status : 503;
    x->flags |= rc == SW_ENOENT ? SW_GW_FLAG_NC : rc == SW_ELIMIT ? SW_GW_FLAG_UO : SW_GW_FLAG_UH;
    x->detail = rc == SW_ENOENT   ? "cluster_not_found"
                : rc == SW_ELIMIT ? "overflow"
                                  : "no_healthy_upstream";
    return rc == SW_ELIMIT ? SW_ELIMIT : SW_ENOENT;
}

void gw_give_retry_slot(struct sw_exchange *x)
{
    if (x->rs && x->rs->retry_slot)
        sw_gw_retry_give(x->worker->hosts, x->rs->cluster);
    if (x->rs)
        x->rs->retry_slot = false;
}

void gw_host_done(struct sw_exchange *x, enum sw_gw_outcome how, int status)
{
    static const enum sw_gw_result results[] = {
        [SW_GW_OK] = SW_GW_RESULT_OK,
        [SW_GW_STATUS] = SW_GW_RESULT_OK,
        [SW_GW_CONNECT_FAILED] = SW_GW_RESULT_LOCAL,
        [SW_GW_TLS_FAILED] = SW_GW_RESULT_LOCAL,
        [SW_GW_RESET_BEFORE] = SW_GW_RESULT_BROKEN,
        [SW_GW_RESET_AFTER] = SW_GW_RESULT_BROKEN,
        [SW_GW_BAD_RESPONSE] = SW_GW_RESULT_BROKEN,
        [SW_GW_TIMEOUT] = SW_GW_RESULT_BROKEN,
        [SW_GW_UNSENT] = SW_GW_RESULT_NEUTRAL,
        [SW_GW_STALE] = SW_GW_RESULT_NEUTRAL,
        [SW_GW_REFUSED_STREAM] = SW_GW_RESULT_NEUTRAL,
        [SW_GW_OVERFLOW] = SW_GW_RESULT_NEUTRAL,
        [SW_GW_DOWNSTREAM_GONE] = SW_GW_RESULT_NEUTRAL,
    };
    enum sw_gw_result result = results[how];

    if (!x->host)
        return;
    if (how == SW_GW_TIMEOUT)
        sw_gw_bump(&x->host->cluster->state->cells[x->worker->index].timeouts);
    if (result != SW_GW_RESULT_NEUTRAL && x->rs->retry && x->rs->retry->avoid_previous)
        sw_gw_pick_tried(&x->rs->pick, x->host->member);
    sw_gw_lb_done(x->worker->hosts, x->host, result, status);
    x->host = NULL;
}

bool gw_should_retry(struct sw_exchange *x, enum sw_gw_outcome how, int status,
                     uint64_t *ret_delay_ns)
{
    struct sw_gw_route_state *rs = x->rs;

    *ret_delay_ns = 0;
    if (!rs->retry || !sw_gw_retry_wants(rs->retry, how, status, &x->resp))
        return false;
    if (rs->retries >= rs->retry->num) {
        x->flags |= SW_GW_FLAG_URX;
        return false;
    }
    if (rs->pick.session.n && how != SW_GW_STATUS)
        rs->pick.session = rs->pick.session_strict ? rs->pick.session : sw_slice(NULL, 0);
    gw_give_retry_slot(x);
    if (!sw_gw_retry_take(x->worker->hosts, rs->cluster))
        return false;
    rs->retry_slot = true;
    rs->retries++;
    *ret_delay_ns = sw_gw_retry_delay(rs->retry, rs->retries, sw_rand_u64());
    return true;
}
