/* SPDX-License-Identifier: Apache-2.0 */
/* Failed attempts: whether to retry, and what the client receives if not. */
#include <string.h>

#include "base/search.h"
#include "base/time.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/exchange/state.h"
#include "gateway/message/fields.h"
#include "gateway/upstream/host.h"
#include "gateway/upstream/pick.h"

/* The attempt at x->host is over; the next one comes from the loop. */
static void again(struct sw_exchange *x, enum sw_gw_outcome how, int status, uint64_t delay_ns)
{
    if (x->up.ops)
        x->up.ops->abort(x);
    if (x->host)
        gw_host_done(x, how, status);
    x->state = SW_GW_X_BACKOFF;
    x->clock.try_deadline_ns = x->clock.stream_deadline_ns = 0;
    memset(&x->up, 0, sizeof(x->up));
    memset(&x->resp, 0, sizeof(x->resp));
    x->clock.retry_at_ns = sw_loop_now(x->worker->loop) + sw_max(delay_ns, 1);
    gw_arm(x);
}

bool gw_retry(struct sw_exchange *x, enum sw_gw_outcome how, int status)
{
    uint64_t delay = 0;

    if (x->body_lost || x->state == SW_GW_X_ANSWER || !x->down.ops ||
        !gw_should_retry(x, how, status, &delay))
        return false;
    again(x, how, status, delay);
    return true;
}

bool sw_exchange_repeatable(const struct sw_exchange *x)
{
    static const char *const methods[] = {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", NULL};

    return sw_word_in(x->req.method, methods) || x->plan.idempotent ||
           x->req.length == SW_GW_LENGTH_TUNNEL;
}

/*
 * Whether to retry without a retry policy: no upstream can have processed the request, or it is
 * idempotent. Once only: a request that kills its server must not go from connection to connection.
 */
static bool may_repeat(const struct sw_exchange *x, enum sw_gw_outcome how)
{
    if (x->repeated || x->body_lost || !x->down.ops)
        return false;
    return how == SW_GW_UNSENT || how == SW_GW_REFUSED_STREAM ||
           (how == SW_GW_STALE && sw_exchange_repeatable(x));
}

/*
 * No connection could be made, so no byte of the request was sent: fail over to another host at
 * once, whatever the method and without a retry policy.
 */
static bool fail_over(struct sw_exchange *x, enum sw_gw_outcome how)
{
    if ((how != SW_GW_CONNECT_FAILED && how != SW_GW_TLS_FAILED) || x->body_lost || !x->down.ops ||
        !x->host || x->failovers >= SW_GW_HOSTS_MAX - 1 ||
        !sw_gw_lb_fail_over(x->worker->hosts, x->host, &x->rs->pick))
        return false;
    x->failovers++;
    again(x, how, 0, 0);
    return true;
}

static const struct {
    uint16_t status;
    uint32_t flag;
    const char *detail;
    const char *body;
} ends[] = {
    [SW_GW_CONNECT_FAILED] = {503, SW_GW_FLAG_UF, "upstream_connection_failure",
                              "upstream connect error"},
    [SW_GW_TLS_FAILED] = {503, SW_GW_FLAG_UF, "upstream_tls_failure", "upstream TLS error"},
    [SW_GW_UNSENT... SW_GW_RESET_BEFORE] = {503, SW_GW_FLAG_UC,
                                            "upstream_reset_before_response_started",
                                            "upstream connection closed"},
    [SW_GW_RESET_AFTER] = {503, SW_GW_FLAG_UC, "upstream_reset_after_response_started", ""},
    [SW_GW_REFUSED_STREAM] = {503, SW_GW_FLAG_UR, "upstream_refused_stream",
                              "upstream refused the stream"},
    [SW_GW_BAD_RESPONSE] = {502, SW_GW_FLAG_UPE, "upstream_protocol_error",
                            "upstream protocol error"},
    [SW_GW_OVERFLOW] = {503, SW_GW_FLAG_UO, "overflow", "upstream overflow"},
    [SW_GW_TIMEOUT] = {504, SW_GW_FLAG_UT, "upstream_per_try_timeout", "upstream request timeout"},
};

static void note_failure(struct sw_exchange *x, const char *why)
{
    size_t n = sw_min(strlen(why), sizeof(x->failure) - 1);

    memcpy(x->failure, why, n);
    x->failure[n] = '\0';
}

/*
 * Why the tunnel to the host of a connection that just broke was refused; NULL: it was not. A copy:
 * a host that left its cluster goes with the last that uses it.
 */
static const struct sw_gw_refusal *refusal_of(struct sw_exchange *x, enum sw_gw_outcome how)
{
    const struct sw_gw_refusal *r = x->host ? x->host->refusal : NULL;
    struct sw_gw_refusal *copy;

    if (!r || sw_loop_now(x->worker->loop) - r->at_ns > SW_NS_PER_S ||
        (how != SW_GW_RESET_BEFORE && how != SW_GW_TLS_FAILED))
        return NULL;
    copy = SW_ARENA_NEW(&x->arena, struct sw_gw_refusal);
    *copy = *r;
    return copy;
}

/* Denied, origin unreachable and dial timeout keep their status; the rest is "unavailable". */
static void reply_refused(struct sw_exchange *x, const struct sw_gw_refusal *r)
{
    int status = r->status == 403 || r->status == 502 || r->status == 504 ? r->status : 503;
    struct sw_slice reason = sw_arena_slice(&x->arena, sw_slice_str(r->reason));
    struct sw_slice proxy = sw_arena_slice(&x->arena, sw_slice_str(r->proxy_status));
    const char *body = sw_arena_printf(&x->arena, "tunnel refused: %s\n",
                                       reason.n ? r->reason : "no reason given");

    if (reason.n)
        sw_gw_fields_set(&x->arena, &x->resp.fields, SW_SLICE_LIT("x-spanwire-reason"), reason);
    if (proxy.n)
        sw_gw_fields_set(&x->arena, &x->resp.fields, SW_SLICE_LIT("proxy-status"), proxy);
    sw_exchange_reply(x, status, sw_slice_str(body), "tunnel_refused");
}

void sw_exchange_up_failed(struct sw_exchange *x, enum sw_gw_outcome how, const char *why)
{
    const struct sw_gw_refusal *refused;

    if (x->state == SW_GW_X_DONE)
        return;
    if (why)
        note_failure(x, why);
    if (x->state == SW_GW_X_ANSWER) {
        x->flags |= ends[how].flag;
        if (!x->detail)
            x->detail = "upstream_reset_after_response_started";
        if (x->host)
            gw_host_done(x, SW_GW_RESET_AFTER, x->resp.status);
        gw_finish(x);
        return;
    }
    if (may_repeat(x, how)) { /* not an attempt that counts, nor the host's fault */
        x->repeated = true;
        x->attempts--;
        again(x, how, 0, 0);
        return;
    }
    if (how == SW_GW_STALE || how == SW_GW_UNSENT)
        how = SW_GW_RESET_BEFORE;
    if (fail_over(x, how) || gw_retry(x, how, 0))
        return;
    refused = refusal_of(x, how);
    if (x->host)
        gw_host_done(x, how, 0);
    x->flags |= ends[how].flag;
    if (refused) {
        reply_refused(x, refused);
        return;
    }
    sw_exchange_reply(x, ends[how].status, sw_slice_str(ends[how].body), ends[how].detail);
}
