/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/exchange/failure.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/exchange/errorpage.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/exchange/state.h"
#include "gateway/observe/accesslog.h"
#include "telemetry/metrics.h"

enum { PATH_MAX_LOGGED = 256, HOST_MAX_LOGGED = 253, ID_MAX_LOGGED = 128, NODE_ID_SHOWN = 10 };

#define SUMMARY_NS (10 * SW_NS_PER_S)

/* The upstream, or we, broke it: whatever was sent before. A client that left is no failure. */
#define BROKEN                                                                                     \
    (SW_GW_FLAG_UF | SW_GW_FLAG_UC | SW_GW_FLAG_UT | SW_GW_FLAG_UH | SW_GW_FLAG_UO |               \
     SW_GW_FLAG_UR | SW_GW_FLAG_UPE | SW_GW_FLAG_SI | SW_GW_FLAG_DT)

static bool failed(const struct sw_exchange *x)
{
    bool configured = x->route && x->route->action == SW_GW_DIRECT;

    if (!x->hcm) /* tunnels inside of this process fail the request they are for */
        return !x->mirror && x->from.chain && x->from.listener && x->from.listener->n_addrs &&
               x->flags & BROKEN;
    if (!x->resp.local)
        return x->flags & BROKEN;
    return x->resp.status >= (configured && !x->route->direct.reason.n ? 500 : 400) ||
           (x->req.grpc && x->flags);
}

static void summarise(struct sw_gw_failures *f)
{
    if (f->unlogged)
        sw_log_warn("request", "%" PRIu64 " more failures not logged", f->unlogged);
    f->unlogged = 0;
}

static void on_summary(struct sw_timer *t)
{
    summarise(SW_CONTAINER_OF(t, struct sw_gw_failures, timer));
}

void sw_gw_failures_done(struct sw_gw_worker *w)
{
    sw_timer_stop(w->loop, &w->failures.timer);
    summarise(&w->failures);
}

/* True when there may be another line in this second. */
static bool may_log(struct sw_gw_worker *w)
{
    struct sw_gw_failures *f = &w->failures;
    uint64_t second = sw_loop_now(w->loop) / SW_NS_PER_S;

    if (second != f->second) {
        f->second = second;
        f->lines = 0;
    }
    if (f->lines < SW_GW_FAILURE_LINES) {
        f->lines++;
        return true;
    }
    f->unlogged++;
    sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_GW_FAILURES_UNLOGGED, NULL), 1);
    if (!sw_timer_running(&f->timer))
        sw_timer_start(w->loop, &f->timer, SUMMARY_NS, on_summary);
    return false;
}

static void put(struct sw_log_line *l, const char *key, struct sw_slice value, size_t max)
{
    if (value.n)
        sw_log_str(l, key, sw_slice_head(value, max));
}

static void put_request(struct sw_log_line *l, struct sw_exchange *x)
{
    put(l, "host", x->req.authority, HOST_MAX_LOGGED);
    put(l, "method", x->req.method, 32);
    put(l, "path", x->rs && x->rs->original_path.n ? x->rs->original_path : x->req.path,
        PATH_MAX_LOGGED);
    put(l, "request_id", gw_request_id(x), ID_MAX_LOGGED);
    sw_log_u64(l, "status", x->resp.status);
}

void sw_gw_failure_note(struct sw_exchange *x)
{
    bool server = !x->resp.local || x->resp.status >= 500 || x->req.grpc;
    uint64_t now = sw_loop_now(x->worker->loop);
    struct sw_log_line l;
    struct sw_slice flags;
    char text[128];
    char peer[SW_ADDR_TEXT];

    if (!failed(x) || !may_log(x->worker))
        return;
    sw_log_begin(&l, server ? SW_LOG_WARN : SW_LOG_INFO, "request",
                 x->hcm ? "request failed" : "connection failed");
    if (x->hcm)
        put_request(&l, x);
    else
        put(&l, "sni", x->from.sni, HOST_MAX_LOGGED);
    put(&l, "reason", sw_gw_exchange_reason(x), 64);
    flags = sw_gw_flags_text(x->flags, text, sizeof(text));
    sw_log_str(&l, "flags", flags.p ? flags : SW_SLICE_LIT("-"));
    put(&l, "why", sw_slice_str(x->failure), sizeof(x->failure));
    put(&l, "device", sw_gw_exchange_device(x), HOST_MAX_LOGGED);
    put(&l, "node", sw_gw_exchange_node_id(x), NODE_ID_SHOWN);
    put(&l, "cluster", x->rs ? x->rs->cluster : sw_slice(NULL, 0), HOST_MAX_LOGGED);
    sw_log_cstr(&l, "client", sw_addr_text(&x->from.peer, peer));
    sw_log_u64(&l, "ms", (now - x->times.start_ns) / SW_NS_PER_MS);
    sw_log_end(&l);
}
