/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of Pods: what state one is in takes a walk over its containers. */
#include "kube/cel/cel_priv.h"
#include "kube/table/table.h"
#include "kube/table/table_int.h"

struct summary {
    struct sw_arena *a;
    const struct sw_json *pod;
    const char *reason;
    int64_t restarts;
    int64_t last_s; /* when the last container ended; 0: never */
    size_t ready;
    size_t total;
};

static const struct sw_json *in(const struct sw_json *obj, const char *a, const char *b)
{
    const struct sw_json *v = sw_json_walk(obj, a, b, NULL);

    return sw_json_is(v, SW_JSON_NULL) ? NULL : v;
}

static bool truth(const struct sw_json *obj, const char *key)
{
    const struct sw_json *v = sw_json_find(obj, key);

    return sw_json_is(v, SW_JSON_BOOL) && v->boolean;
}

/* An init container that keeps running beside the others. */
static bool sidecar(const struct sw_json *pod, struct sw_slice name)
{
    const struct sw_json *list = sw_json_walk(pod, "spec", "initContainers", NULL);
    const struct sw_json *c = sw_json_find_item(list, "name", name);

    return sw_json_str_eq(sw_json_find(c, "restartPolicy"), "Always");
}

static void count_restarts(struct summary *s, const struct sw_json *status)
{
    int64_t sec;
    int32_t ns;
    struct sw_slice end = table_text(status, "lastState.terminated.finishedAt");

    s->restarts += table_number(status, "restartCount");
    if (end.n && cel_parse_time(end, &sec, &ns) && sec > s->last_s)
        s->last_s = sec;
}

/* "Error", "Signal:9" or "ExitCode:1" */
static const char *ended(struct sw_arena *a, const struct sw_json *t)
{
    struct sw_slice reason = table_text(t, "reason");

    if (reason.n)
        return sw_arena_dup(a, reason);
    if (table_number(t, "signal"))
        return sw_arena_printf(a, "Signal:%lld", (long long)table_number(t, "signal"));
    return sw_arena_printf(a, "ExitCode:%lld", (long long)table_number(t, "exitCode"));
}

/* True: this init container holds up the pod; s->reason says how. */
static bool init_waits(struct summary *s, const struct sw_json *c, size_t i)
{
    const struct sw_json *end = in(c, "state", "terminated");
    struct sw_slice wait = table_text(c, "state.waiting.reason");

    if (end && table_number(end, "exitCode") == 0)
        return false;
    if (sidecar(s->pod, table_text(c, "name")) && truth(c, "started")) {
        s->ready += truth(c, "ready");
        return false;
    }
    if (end)
        s->reason = sw_arena_printf(s->a, "Init:%s", ended(s->a, end));
    else if (wait.n && !sw_slice_eq_str(wait, "PodInitializing"))
        s->reason = sw_arena_printf(s->a, "Init:%.*s", SW_SLICE_ARG(wait));
    else
        s->reason =
            sw_arena_printf(s->a, "Init:%zu/%zu", i,
                            sw_json_len(sw_json_walk(s->pod, "spec", "initContainers", NULL)));
    return true;
}

static bool look_at_inits(struct summary *s)
{
    const struct sw_json *list = sw_json_walk(s->pod, "status", "initContainerStatuses", NULL);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        count_restarts(s, sw_json_at(list, i));
        if (init_waits(s, sw_json_at(list, i), i))
            return true;
    }
    return false;
}

/* Once the pod runs only sidecars count among the init containers. */
static void recount_sidecars(struct summary *s)
{
    const struct sw_json *list = sw_json_walk(s->pod, "status", "initContainerStatuses", NULL);

    s->restarts = 0;
    s->last_s = 0;
    SW_JSON_ITEMS (item, list) {
        if (sidecar(s->pod, table_text(item, "name")))
            count_restarts(s, item);
    }
}

static void look_at_containers(struct summary *s)
{
    const struct sw_json *list = sw_json_walk(s->pod, "status", "containerStatuses", NULL);
    bool running = false;

    recount_sidecars(s);
    for (size_t i = sw_json_len(list); i-- > 0;) {
        const struct sw_json *c = sw_json_at(list, i);
        const struct sw_json *end = in(c, "state", "terminated");
        struct sw_slice wait = table_text(c, "state.waiting.reason");

        count_restarts(s, c);
        if (wait.n) {
            s->reason = sw_arena_dup(s->a, wait);
        } else if (end) {
            s->reason = ended(s->a, end);
        } else if (truth(c, "ready") && in(c, "state", "running")) {
            running = true;
            s->ready++;
        }
    }
    if (running && sw_slice_eq_str(sw_slice_str(s->reason), "Completed"))
        s->reason = table_condition_true(s->pod, SW_SLICE_LIT("Ready")) ? "Running" : "NotReady";
}

static bool gated(const struct sw_json *pod)
{
    const struct sw_json *list = sw_json_walk(pod, "status", "conditions", NULL);

    SW_JSON_ITEMS (c, list) {
        if (sw_json_str_eq(sw_json_find(c, "type"), "PodScheduled") &&
            sw_json_str_eq(sw_json_find(c, "reason"), "SchedulingGated"))
            return true;
    }
    return false;
}

static void summarize(const struct table_row *r, struct summary *s)
{
    const struct sw_json *inits = sw_json_walk(r->obj, "spec", "initContainers", NULL);
    struct sw_slice phase = table_text(r->obj, "status.phase");
    struct sw_slice reason = table_text(r->obj, "status.reason");
    bool waits;

    *s = (struct summary){.a = r->a, .pod = r->obj};
    s->reason = gated(r->obj) ? "SchedulingGated" : sw_arena_dup(r->a, reason.n ? reason : phase);
    s->total = sw_json_len(sw_json_walk(r->obj, "spec", "containers", NULL));
    SW_JSON_ITEMS (item, inits)
        s->total += sw_json_str_eq(sw_json_find(item, "restartPolicy"), "Always");
    waits = look_at_inits(s);
    if (!waits || table_condition_true(r->obj, SW_SLICE_LIT("Initialized")))
        look_at_containers(s);
    if (!in(r->obj, "metadata", "deletionTimestamp"))
        return;
    if (sw_slice_eq_str(reason, "NodeLost"))
        s->reason = "Unknown";
    else if (!sw_slice_eq_str(phase, "Failed") && !sw_slice_eq_str(phase, "Succeeded"))
        s->reason = "Terminating";
}

struct sw_json *table_pod_ready(const struct table_row *r, const char *none)
{
    struct summary s;

    summarize(r, &s);
    return sw_json_new_str(r->a, sw_arena_printf(r->a, "%zu/%zu", s.ready, s.total));
}

struct sw_json *table_pod_status(const struct table_row *r, const char *none)
{
    struct summary s;

    summarize(r, &s);
    return sw_json_new_str(r->a, s.reason);
}

struct sw_json *table_pod_restarts(const struct table_row *r, const char *none)
{
    struct summary s;
    const char *text;

    summarize(r, &s);
    text = sw_arena_printf(r->a, "%lld", (long long)s.restarts);
    if (s.restarts && s.last_s)
        text = sw_arena_printf(r->a, "%s (%s ago)", text,
                               sw_human_duration(r->a, r->now_s - s.last_s));
    return sw_json_new_str(r->a, text);
}

struct sw_json *table_pod_ip(const struct table_row *r, const char *none)
{
    const struct sw_json *ips = sw_json_walk(r->obj, "status", "podIPs", NULL);

    return table_or(r,
                    sw_json_len(ips) ? table_text(sw_json_at(ips, 0), "ip")
                                     : table_text(r->obj, "status.podIP"),
                    "<none>");
}

struct sw_json *table_pod_gates(const struct table_row *r, const char *none)
{
    const struct sw_json *gates = sw_json_walk(r->obj, "spec", "readinessGates", NULL);
    size_t n = 0;

    if (sw_json_len(gates) == 0)
        return sw_json_new_str(r->a, "<none>");
    SW_JSON_ITEMS (item, gates)
        n += table_condition_true(r->obj, table_text(item, "conditionType"));
    return sw_json_new_str(r->a, sw_arena_printf(r->a, "%zu/%zu", n, sw_json_len(gates)));
}
