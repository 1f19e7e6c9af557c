/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/lease.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "kube/client/informer.h"

static const struct sw_kube_gvr lease_gvr = {.group = "coordination.k8s.io",
                                             .version = "v1",
                                             .resource = "leases",
                                             .kind = "Lease",
                                             .namespaced = true};

struct sw_lease {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_lease_opts o; /* slices owned below */
    char *ns;
    char *name;
    char *identity;
    struct sw_timer tick;
    struct sw_timer deadline;  /* while leading: when it ends without a renewal */
    struct sw_kube_call *call; /* at most one */
    struct sw_kube_obj *seen;  /* the record as last seen; NULL: none */
    uint64_t seen_ns;          /* when we first saw it in this form, by our clock */
    uint64_t asked_ns;         /* when the request under way was made */
    bool leading;
    bool running;
    bool release_again;
    bool doubt;  /* the record may not be what we saw last */
    bool logged; /* that it may not be had; until it may */
    void (*released)(void *arg);
    void *released_arg;
};

static void look(struct sw_lease *l);

static const struct sw_json *spec_of(const struct sw_lease *l)
{
    return l->seen ? sw_json_find(l->seen->json, "spec") : NULL;
}

struct sw_slice sw_lease_holder(const struct sw_lease *l)
{
    return sw_json_str(sw_json_find(spec_of(l), "holderIdentity"));
}

struct sw_slice sw_lease_uid(const struct sw_lease *l)
{
    return l->seen ? l->seen->uid : sw_slice("", 0);
}

static bool is_ours(const struct sw_lease *l)
{
    return sw_slice_eq(sw_lease_holder(l), l->o.identity);
}

/* --- leading or not --- */

static void stop_leading(struct sw_lease *l, const char *why)
{
    sw_timer_stop(l->loop, &l->deadline);
    if (!l->leading)
        return;
    l->leading = false;
    sw_log_info("kube", "lease '%s': no longer leading (%s)", l->name, why);
    if (l->o.lost)
        l->o.lost(l->o.arg);
}

static void on_deadline(struct sw_timer *t)
{
    stop_leading(SW_CONTAINER_OF(t, struct sw_lease, deadline), "could not renew in time");
}

/* The server confirmed us; the time counts from when the request was sent, not from its answer. */
static void confirmed(struct sw_lease *l)
{
    uint64_t now = sw_loop_now(l->loop);
    uint64_t end = l->asked_ns + l->o.renew_deadline_ns;

    if (now >= end)
        return; /* too late to rely on: the next look decides */
    sw_timer_start(l->loop, &l->deadline, end - now, on_deadline);
    if (l->leading)
        return;
    l->leading = true;
    sw_log_info("kube", "lease '%s': leading as '%s'", l->name, l->identity);
    if (l->o.led)
        l->o.led(l->o.arg);
}

/* --- the record --- */

static bool same_spec(const struct sw_lease *l, const struct sw_kube_obj *o)
{
    return l->seen && sw_json_equal(spec_of(l), sw_json_find(o->json, "spec"), SW_JSON_EQ_TEXT);
}

/* Takes a state of the record in; the clock of its expiry begins when it changes. */
static void observe(struct sw_lease *l, struct sw_kube_reply *r)
{
    struct sw_kube_obj *o = r->object ? sw_kube_obj_new(r->object) : NULL;
    struct sw_slice before = sw_lease_holder(l);
    bool other_now;

    if (!o)
        return;
    if (!same_spec(l, o))
        l->seen_ns = sw_loop_now(l->loop);
    other_now =
        !sw_slice_eq(before, sw_json_str(sw_json_walk(o->json, "spec", "holderIdentity", NULL)));
    sw_kube_obj_unref(l->seen);
    l->seen = o;
    l->doubt = false;
    if (other_now && sw_lease_holder(l).n && !is_ours(l) && l->o.other)
        l->o.other(l->o.arg, sw_lease_holder(l));
}

/* Another process holds it and it is not expired, judged by how long we have seen it unchanged. */
static bool held_by_other(const struct sw_lease *l)
{
    int64_t s = 0;

    if (!l->seen || !sw_lease_holder(l).n || is_ours(l))
        return false;
    if (!sw_json_i64(sw_json_find(spec_of(l), "leaseDurationSeconds"), &s) || s < 0 || s > 86400)
        s = l->o.duration_s;
    return l->seen_ns + (uint64_t)s * SW_NS_PER_S > sw_loop_now(l->loop);
}

/* The record as we want it, from what is there. */
static struct sw_json *wanted(struct sw_lease *l, struct sw_arena *a, bool release)
{
    struct sw_json *obj;
    struct sw_json *spec;
    char now[SW_RFC3339_LEN];
    int64_t transitions = 0;
    bool ours = l->seen && is_ours(l);

    (void)sw_rfc3339(sw_wall_ns(), 1, now);
    if (l->seen)
        obj = sw_json_copy(a, l->seen->json);
    else
        obj =
            SW_JSON_OF(a, {"apiVersion", .str = "coordination.k8s.io/v1"}, {"kind", .str = "Lease"},
                       {"metadata", .json = SW_JSON_OF(a, {"namespace", .text = l->o.ns},
                                                       {"name", .text = l->o.name})});
    spec = sw_json_need(a, obj, "spec", SW_JSON_OBJECT);
    (void)!sw_json_i64(sw_json_find(spec, "leaseTransitions"), &transitions);
    sw_json_put_str(a, spec, "holderIdentity", release ? SW_SLICE_LIT("") : l->o.identity);
    sw_json_put(a, spec, "leaseDurationSeconds", sw_json_new_u64(a, release ? 1 : l->o.duration_s));
    sw_json_put(a, spec, "renewTime", sw_json_new_str(a, now));
    if (!ours || !sw_json_find(spec, "acquireTime"))
        sw_json_put(a, spec, "acquireTime", sw_json_new_str(a, now));
    sw_json_put(a, spec, "leaseTransitions",
                sw_json_new_i64(a, l->seen && !ours ? transitions + 1 : transitions));
    return obj;
}

/* --- requests --- */

static void on_tick(struct sw_timer *t)
{
    look(SW_CONTAINER_OF(t, struct sw_lease, tick));
}

static void next_tick(struct sw_lease *l)
{
    uint64_t wait = l->o.retry_ns;

    if (!l->running)
        return;
    if (!l->leading)
        wait += sw_rand_below(l->o.retry_ns + l->o.retry_ns / 5 + 1);
    sw_timer_start(l->loop, &l->tick, wait, on_tick);
}

static void write_record(struct sw_lease *l, sw_kube_cb cb, bool release)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *obj = wanted(l, &a, release);
    const struct sw_kube_req req = {.verb = l->seen ? SW_KUBE_UPDATE : SW_KUBE_CREATE,
                                    .gvr = &lease_gvr,
                                    .ns = l->o.ns,
                                    .name = l->o.name,
                                    .body = obj,
                                    .timeout_ns = l->o.renew_deadline_ns / 2,
                                    .once = true};

    l->asked_ns = sw_loop_now(l->loop);
    l->call = sw_kube_do(l->client, &req, cb, l);
}

/*
 * Lasting errors are logged once: no process leads until an operator repairs them. A Lease that was
 * deleted meanwhile is created anew; one that cannot be created has no namespace.
 */
static void complain(struct sw_lease *l, const struct sw_kube_reply *r)
{
    bool lasting = r->code == 401 || r->code == 403 || (r->code == 404 && !l->seen);
    struct sw_slice why = sw_slice_head(r->message, 200);

    if (lasting && !l->logged)
        sw_log_warn("kube", "lease '%s': cannot acquire, no leader: %.*s", l->name,
                    SW_SLICE_ARG(why));
    else
        sw_log_debug("kube", "lease '%s': %.*s", l->name, SW_SLICE_ARG(why));
    l->logged |= lasting;
}

static void on_written(void *arg, struct sw_kube_reply *r)
{
    struct sw_lease *l = arg;

    l->call = NULL;
    if (r->rc == SW_OK) {
        l->logged = false;
        observe(l, r);
        if (is_ours(l))
            confirmed(l);
    } else {
        complain(l, r);
        l->doubt = true;
        if (l->leading && r->code == 409) {
            look(l);
            return;
        }
    }
    next_tick(l);
}

static void judge(struct sw_lease *l)
{
    if (held_by_other(l)) {
        l->logged = false; /* another process can lead */
        stop_leading(l, "another holder");
        next_tick(l);
        return;
    }
    write_record(l, on_written, false);
}

static void on_read(void *arg, struct sw_kube_reply *r)
{
    struct sw_lease *l = arg;

    l->call = NULL;
    if (r->code == 404) {
        l->seen = sw_kube_obj_unref(l->seen);
        judge(l);
    } else if (r->rc == SW_OK) {
        observe(l, r);
        judge(l);
    } else {
        complain(l, r);
        next_tick(l);
    }
}

/* One attempt to become or stay the leader: the leader renews what it knows, others look first. */
static void look(struct sw_lease *l)
{
    const struct sw_kube_req req = {.verb = SW_KUBE_GET,
                                    .gvr = &lease_gvr,
                                    .ns = l->o.ns,
                                    .name = l->o.name,
                                    .timeout_ns = l->o.renew_deadline_ns / 2,
                                    .once = true};

    if (l->call || !l->running)
        return;
    if (l->leading && !l->doubt) {
        write_record(l, on_written, false);
        return;
    }
    l->asked_ns = sw_loop_now(l->loop);
    l->call = sw_kube_do(l->client, &req, on_read, l);
}

/* --- from outside --- */

static char *make_identity(void)
{
    char host[256] = "unknown";
    uint64_t r[2];

    (void)gethostname(host, sizeof(host) - 1);
    sw_rand_bytes(r, sizeof(r));
    return sw_asprintf("%s_%016llx%016llx", host, (unsigned long long)r[0],
                       (unsigned long long)r[1]);
}

struct sw_lease *sw_lease_new(struct sw_kube_client *c, const struct sw_lease_opts *o,
                              struct sw_err *err)
{
    struct sw_lease_opts v = *o;
    struct sw_lease *l;

    v.duration_s = v.duration_s ? v.duration_s : 15;
    v.renew_deadline_ns = v.renew_deadline_ns ? v.renew_deadline_ns : 10 * SW_NS_PER_S;
    v.retry_ns = v.retry_ns ? v.retry_ns : 2 * SW_NS_PER_S;
    if (v.duration_s * SW_NS_PER_S <= v.renew_deadline_ns ||
        v.renew_deadline_ns <= v.retry_ns + v.retry_ns / 5 || !v.name.n || !v.ns.n) {
        (void)sw_err_set(err, SW_EINVAL,
                         "a lease needs a name, a namespace, and "
                         "duration > renew deadline > 1.2 retry period");
        return NULL;
    }
    l = SW_NEW(struct sw_lease);
    l->client = c;
    l->loop = sw_kube_client_loop(c);
    l->o = v;
    l->ns = sw_slice_dup(v.ns);
    l->name = sw_slice_dup(v.name);
    l->identity = v.identity.n ? sw_slice_dup(v.identity) : make_identity();
    l->o.ns = sw_slice_str(l->ns);
    l->o.name = sw_slice_str(l->name);
    l->o.identity = sw_slice_str(l->identity);
    return l;
}

void sw_lease_free(struct sw_lease *l)
{
    if (!l)
        return;
    sw_timer_stop(l->loop, &l->tick);
    sw_timer_stop(l->loop, &l->deadline);
    sw_kube_call_cancel(l->call);
    sw_kube_obj_unref(l->seen);
    sw_free(l->ns);
    sw_free(l->name);
    sw_free(l->identity);
    sw_free(l);
}

void sw_lease_start(struct sw_lease *l)
{
    if (l->running)
        return;
    l->running = true;
    sw_timer_start(l->loop, &l->tick, 0, on_tick);
}

static void release_over(struct sw_lease *l)
{
    if (l->released)
        l->released(l->released_arg);
}

static void on_released(void *arg, struct sw_kube_reply *r);

/* A renewal was under way at the release: release once more with its result. */
static void on_release_read(void *arg, struct sw_kube_reply *r)
{
    struct sw_lease *l = arg;

    l->call = NULL;
    if (r->rc == SW_OK)
        observe(l, r);
    if (r->rc == SW_OK && is_ours(l))
        write_record(l, on_released, true);
    else
        release_over(l);
}

static void on_released(void *arg, struct sw_kube_reply *r)
{
    struct sw_lease *l = arg;

    l->call = NULL;
    if (r->code == 409 && !l->release_again) {
        l->release_again = true;
        l->call = sw_kube_get(l->client, &lease_gvr, l->o.ns, l->o.name, on_release_read, l);
        return;
    }
    if (r->rc == SW_OK)
        observe(l, r);
    release_over(l);
}

static void on_nothing_to_release(struct sw_timer *t)
{
    release_over(SW_CONTAINER_OF(t, struct sw_lease, tick));
}

void sw_lease_release(struct sw_lease *l, void (*done)(void *arg), void *arg)
{
    bool ours = l->leading && l->seen && is_ours(l);

    sw_kube_call_cancel(l->call);
    l->call = NULL;
    sw_timer_stop(l->loop, &l->tick);
    sw_timer_stop(l->loop, &l->deadline);
    l->running = false;
    l->leading = false;
    l->release_again = false;
    l->released = done;
    l->released_arg = arg;
    if (ours)
        write_record(l, on_released, true);
    else
        sw_timer_start(l->loop, &l->tick, 0, on_nothing_to_release);
}

bool sw_lease_is_leader(const struct sw_lease *l)
{
    return l->leading;
}

struct sw_slice sw_lease_identity(const struct sw_lease *l)
{
    return l->o.identity;
}
