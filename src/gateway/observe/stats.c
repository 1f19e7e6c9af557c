/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/observe/stats.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "gateway/conn/worker.h"
#include "telemetry/metrics.h"

enum {
    LISTENERS_MAX = 512,
    LOG_EVERY_S = 5,
    CLASSES = 6,
    REASONS_MAX = 24,
};

static const char *const class_names[CLASSES] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};

static struct sw_metric *pair(struct sw_metrics_shard *s, enum sw_metric_id id, struct sw_slice a,
                              const char *b)
{
    struct sw_slice v[2] = {a, sw_slice_str(b)};

    return sw_metric_get(s, id, v);
}

/* ---- listeners ---- */

/* When a refusal for this reason was logged last. */
struct logged {
    const char *reason; /* static; NULL: free */
    uint64_t ns;
};

struct sw_gw_lstats {
    struct sw_slice name; /* owned */
    struct sw_metrics_shard *shard;
    struct sw_loop *loop;
    struct sw_metric *requests[CLASSES]; /* NULL: none yet */
    struct sw_metric *seconds;
    struct sw_metric *connections;
    uint64_t logged_ns;
    struct logged logged[REASONS_MAX];
};

struct sw_gw_lstats *sw_gw_lstats(struct sw_gw_worker *w, struct sw_slice listener)
{
    struct sw_gw_lstats *s = sw_map_get(&w->lstats, listener);

    if (!s && w->lstats.n >= LISTENERS_MAX) {
        listener = SW_SLICE_LIT("overflow");
        s = sw_map_get(&w->lstats, listener);
    }
    if (s)
        return s;
    s = SW_NEW(struct sw_gw_lstats);
    s->name = sw_slice_copy(listener);
    s->shard = w->shard;
    s->loop = w->loop;
    s->seconds = sw_metric_get(w->shard, SW_METRIC_GW_SECONDS, &s->name);
    s->connections = sw_metric_get(w->shard, SW_METRIC_GW_CONNECTIONS, &s->name);
    (void)sw_map_put(&w->lstats, s->name, s);
    return s;
}

void sw_gw_lstats_done(struct sw_gw_worker *w)
{
    SW_MAP_EACH (struct sw_gw_lstats, s, &w->lstats) {
        sw_slice_free(&s->name);
        sw_free(s);
    }
    sw_map_done(&w->lstats);
}

void sw_gw_lstats_conn(struct sw_gw_lstats *s, int by)
{
    if (!s)
        return;
    if (by > 0)
        sw_metric_add(s->connections, 1);
    else
        sw_metric_sub(s->connections, 1);
}

void sw_gw_lstats_tls_refused(struct sw_gw_lstats *s, const char *reason)
{
    if (s)
        sw_metric_add(pair(s->shard, SW_METRIC_GW_TLS_FAILURES, s->name, reason), 1);
}

void sw_gw_lstats_refused(struct sw_gw_lstats *s, const char *reason)
{
    if (s)
        sw_metric_add(pair(s->shard, SW_METRIC_GW_REFUSED, s->name, reason), 1);
}

void sw_gw_lstats_tls_failed(struct sw_gw_lstats *s, const struct sw_err *err)
{
    const char *reason = "other";

    if (err->rc == SW_EDENIED)
        reason = "certificate";
    else if (err->rc == SW_EPROTO)
        reason = "protocol";
    else if (err->rc == SW_ETIME)
        reason = "timeout";
    else if (err->rc == SW_EOF || err->rc == SW_ECLOSED || err->rc == SW_ESYS)
        reason = "closed";
    sw_gw_lstats_tls_refused(s, reason);
}

static void count_class(struct sw_gw_lstats *s, unsigned class)
{
    if (class >= CLASSES)
        class = 0;
    if (!s->requests[class])
        s->requests[class] = pair(s->shard, SW_METRIC_GW_REQUESTS, s->name, class_names[class]);
    sw_metric_add(s->requests[class], 1);
}

void sw_gw_lstats_early_reply(struct sw_gw_lstats *s, int status, const char *reason)
{
    if (!s)
        return;
    count_class(s, (unsigned)status / 100);
    sw_metric_add(pair(s->shard, SW_METRIC_GW_LOCAL_REPLIES, s->name, reason), 1);
}

void sw_gw_lstats_request(struct sw_gw_lstats *s, int status, uint64_t start_ns, const char *detail)
{
    if (!s)
        return;
    count_class(s, (unsigned)status / 100);
    sw_metric_observe(s->seconds, (double)(sw_loop_now(s->loop) - start_ns) / 1e9);
    if (detail) /* static texts of ours: a bounded set */
        sw_metric_add(pair(s->shard, SW_METRIC_GW_LOCAL_REPLIES, s->name, detail), 1);
}

static bool may_log(struct sw_loop *l, uint64_t *logged_ns)
{
    uint64_t now = sw_loop_now(l);

    if (*logged_ns && now - *logged_ns < LOG_EVERY_S * SW_NS_PER_S)
        return false;
    *logged_ns = now;
    return true;
}

bool sw_gw_lstats_may_log(struct sw_gw_lstats *s)
{
    return !s || may_log(s->loop, &s->logged_ns);
}

void sw_gw_lstats_log_refusal(struct sw_gw_lstats *s, const char *reason,
                              const struct sw_addr *peer, const char *why)
{
    size_t at = 0;
    char text[SW_ADDR_TEXT];

    if (!s)
        return;
    while (at < REASONS_MAX - 1 && s->logged[at].reason &&
           strcmp(s->logged[at].reason, reason) != 0)
        at++;
    s->logged[at].reason = reason; /* those beyond the table share its last place */
    if (may_log(s->loop, &s->logged[at].ns))
        sw_log_info("gateway", "listener '%.*s': %s refused: %s", SW_SLICE_ARG(s->name),
                    sw_addr_text(peer, text), why);
}
