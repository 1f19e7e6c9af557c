/* SPDX-License-Identifier: Apache-2.0 */
/* Access log lines and counters of an exchange that ended. */
#include "gateway/exchange/exchange_int.h"
#include "gateway/exchange/failure.h"
#include "gateway/exchange/state.h"
#include "gateway/exchange/vars.h"
#include "gateway/observe/accesslog.h"
#include "gateway/observe/stats.h"
#include "gateway/upstream/cluster.h"

static void count(const struct sw_exchange *x)
{
    sw_gw_lstats_request(x->from.stats, x->down.head_sent ? x->resp.status : 0, x->times.start_ns,
                         x->resp.local ? x->detail : NULL);
}

void gw_log_done(struct sw_exchange *x)
{
    struct sw_gw_accesslog *const *logs = x->hcm ? x->hcm->logs : NULL;
    size_t n_logs = x->hcm ? x->hcm->n_logs : 0;

    if (x->rs && x->rs->authz)
        x->worker->calls->leave_filters(x);
    gw_give_retry_slot(x);
    count(x);
    sw_gw_failure_note(x);
    if (!x->hcm && x->from.chain && x->from.chain->kind == SW_GW_CHAIN_TCP) {
        logs = x->from.chain->tcp.logs;
        n_logs = x->from.chain->tcp.n_logs;
    }
    if (n_logs) {
        struct sw_gw_vars vars;
        uint64_t now = sw_loop_now(x->worker->loop);

        sw_gw_vars_fill(x, &vars);
        vars.duration_ns = now - x->times.start_ns;
        vars.request_ns = x->times.request_ns ? x->times.request_ns - x->times.start_ns : 0;
        vars.response_ns = x->times.response_ns ? x->times.response_ns - x->times.start_ns : 0;
        vars.http = x->hcm != NULL;
        sw_gw_accesslog_write(logs, n_logs, &vars);
    }
    if (x->rs)
        x->rs->member = sw_gw_member_unref(x->rs->member);
}
