/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/auth.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "control/link/auth/auth_int.h"
#include "kube/names.h"
#include "telemetry/metrics.h"
#include "tls/peer.h"

/* Changes in a row make one epoch. */
static const uint64_t epoch_delay_ns = 50 * SW_NS_PER_MS;

struct turn {
    struct sw_slice import; /* owned */
    uint64_t n;
};

uint64_t auth_now_s(const struct sw_link_auth *a)
{
    return a->o.wall_s ? a->o.wall_s() : sw_wall_ns() / SW_NS_PER_S;
}

/* ---- the epoch ---- */

static uint64_t compute_epoch(const struct sw_link_auth *a)
{
    const uint64_t parts[] = {a->boot, a->pod_change, sw_link_peers_hash(a->peers),
                              a->facts ? sw_link_facts_hash(a->facts) : 0};

    return sw_siphash13(1, 2, parts, sizeof(parts));
}

static void on_epoch_timer(struct sw_timer *t)
{
    struct sw_link_auth *a = SW_CONTAINER_OF(t, struct sw_link_auth, epoch_timer);
    uint64_t now = compute_epoch(a);

    if (now == a->epoch)
        return;
    a->epoch = now;
    if (a->o.on_epoch)
        a->o.on_epoch(a->o.arg, now);
}

static void touch_epoch(struct sw_link_auth *a)
{
    if (!sw_timer_running(&a->epoch_timer))
        sw_timer_start(a->loop, &a->epoch_timer, epoch_delay_ns, on_epoch_timer);
}

static void on_pod_change(void *arg)
{
    struct sw_link_auth *a = arg;

    a->pod_change++;
    touch_epoch(a);
}

static void on_peer_change(void *arg)
{
    SW_ARENA_AUTO tmp = {0};
    struct sw_link_auth *a = arg;
    struct sw_link_reach *reach;
    size_t n;

    touch_epoch(a);
    if (!a->o.on_reach)
        return;
    n = sw_link_peers_reach(a->peers, &tmp, &reach);
    a->o.on_reach(a->o.arg, sw_link_reach_json(&tmp, reach, n));
}

/* ---- life ---- */

static void take_labels(struct sw_link_auth *a)
{
    size_t n = sw_min(a->o.labels.n, SW_ATTRS_MAX);
    struct sw_attr *p = sw_arena_array(&a->arena, n, sizeof(*p));

    for (size_t i = 0; i < n; i++) {
        p[i].key = sw_slice_str(sw_arena_printf(&a->arena, "%s%.*s", SW_LINK_PEER_LABELS,
                                                SW_SLICE_ARG(a->o.labels.p[i].key)));
        p[i].value = sw_arena_slice(&a->arena, a->o.labels.p[i].value);
    }
    sw_attrs_sort(p, &n);
    a->self.labels = (struct sw_attrs){p, n};
    a->labels = sw_link_labels_encode(&a->arena, &a->o.labels);
}

struct sw_link_auth *sw_link_auth_new(struct sw_loop *l, const struct sw_link_auth_opts *o)
{
    struct sw_link_auth *a = SW_NEW(struct sw_link_auth);

    a->loop = l;
    a->o = *o;
    a->born_ns = sw_loop_now(l);
    a->born_ms = sw_wall_ns() / SW_NS_PER_MS;
    a->self.name = sw_slice("", 0);
    sw_list_init(&a->egress);
    sw_rand_bytes(&a->boot, sizeof(a->boot));
    take_labels(a);
    a->pods = sw_link_pods_new(on_pod_change, a);
    a->once = sw_link_once_new(AUTH_USED_MAX);
    a->peers = sw_link_peers_new(
        l, &(struct sw_link_peers_opts){
               .egress = o->egress, .metrics = o->metrics, .on_change = on_peer_change, .arg = a});
    return a;
}

static void drop_turns(struct sw_link_auth *a, const struct sw_link_facts *keep)
{
    SW_MAP_EACH (struct turn, t, &a->turns) {
        if (keep && sw_link_facts_import(keep, t->import))
            continue;
        (void)sw_map_del(&a->turns, t->import);
        sw_slice_free(&t->import);
        sw_free(t);
    }
}

void sw_link_auth_free(struct sw_link_auth *a)
{
    if (!a)
        return;
    a->o.on_reach = NULL;
    a->o.on_epoch = NULL;
    while (!sw_list_empty(&a->egress))
        sw_link_egress_cancel(auth_egress_of(a->egress.next));
    sw_timer_stop(a->loop, &a->epoch_timer);
    sw_link_peers_free(a->peers);
    sw_timer_stop(a->loop, &a->epoch_timer);
    sw_link_pods_free(a->pods);
    sw_link_once_free(a->once);
    drop_turns(a, NULL);
    sw_map_done(&a->turns);
    (void)sw_link_facts_unref(a->facts);
    sw_arena_clear(&a->arena);
    explicit_bzero(&a->key, sizeof(a->key));
    explicit_bzero(&a->before, sizeof(a->before));
    sw_free(a->name);
    sw_free(a);
}

void sw_link_auth_set_facts(struct sw_link_auth *a, struct sw_link_facts *f)
{
    struct sw_link_facts *before = a->facts;

    a->facts = sw_link_facts_ref(f);
    sw_link_peers_set(a->peers, f);
    drop_turns(a, f);
    touch_epoch(a);
    (void)sw_link_facts_unref(before);
}

void sw_link_auth_set_fabric(struct sw_link_auth *a, struct sw_slice name, struct sw_tls_cred *cred)
{
    sw_free(a->name);
    a->name = sw_slice_dup(name);
    a->self.name = sw_slice_str(a->name);
    sw_link_peers_set_cred(a->peers, cred);
    touch_epoch(a);
}

int sw_link_auth_set_key(struct sw_link_auth *a, struct sw_slice key, struct sw_err *err)
{
    struct sw_link_key fresh = {0};
    int rc = sw_link_key_set(&fresh, key, err);

    if (rc != SW_OK)
        return rc;
    if (a->has_key && memcmp(&fresh, &a->key, sizeof(fresh)) != 0) {
        a->before = a->key;
        a->has_before = true;
    }
    a->key = fresh;
    a->has_key = true;
    explicit_bzero(&fresh, sizeof(fresh));
    return SW_OK;
}

struct sw_link_pods *sw_link_auth_pods(struct sw_link_auth *a)
{
    return a->pods;
}

struct sw_slice sw_link_auth_labels(const struct sw_link_auth *a)
{
    return a->labels;
}

void sw_link_auth_serve(struct sw_link_auth *a, struct sw_grpc_server *s)
{
    auth_serve_check(a, s);
    auth_serve_http(a, s);
}

bool auth_is_plane(const struct sw_tls_peer *cert)
{
    return cert && sw_slice_eq_str(cert->cn, "cl-dataplane");
}

/* ---- what decisions share ---- */

bool auth_admits(const struct sw_link_auth *a, struct sw_slice peer)
{
    return !a->o.known_peers_only || sw_link_facts_peer(a->facts, peer);
}

uint64_t auth_turn(struct sw_link_auth *a, struct sw_slice import)
{
    struct turn *t = sw_map_get(&a->turns, import);

    if (!t) {
        t = SW_NEW(struct turn);
        t->import = sw_slice(sw_slice_dup(import), import.n);
        (void)sw_map_put(&a->turns, t->import, t);
    }
    return ++t->n;
}

struct sw_slice auth_source(struct sw_arena *arena, const struct sw_attrs *src)
{
    const struct sw_slice *ns = sw_attrs_get(src, SW_SLICE_LIT(SW_LINK_CLIENT_NS));
    const struct sw_slice *sa = sw_attrs_get(src, SW_SLICE_LIT(SW_LINK_CLIENT_SA));

    if (!ns || !sa)
        return sw_slice("", 0);
    return sw_name_key(arena, *ns, *sa);
}

void auth_refuse(struct sw_link_answer *answer, int status, const char *reason, const char *fmt,
                 ...)
{
    va_list ap;

    answer->status = status;
    answer->reason = reason;
    va_start(ap, fmt);
    (void)vsnprintf(answer->text, sizeof(answer->text), fmt, ap);
    va_end(ap);
    /* It goes into a header field, a line of a review and the log; parts come from peers. */
    for (char *c = answer->text; *c; c++) {
        if (*c < ' ' || *c > '~')
            *c = '?';
    }
}

void auth_count_token(struct sw_link_auth *a, const char *result)
{
    if (a->o.metrics)
        sw_metric_add(sw_metric_get1(a->o.metrics, SW_METRIC_LINK_TOKENS, result), 1);
}

static void count(struct sw_link_auth *a, const struct auth_subject *s,
                  const struct sw_link_answer *answer)
{
    const char *result = answer->status == 200                            ? "allowed"
                         : answer->status == 403 || answer->status == 404 ? "denied"
                                                                          : "failed";
    struct sw_slice values[] = {sw_slice_str(s->side), sw_slice_str(result),
                                sw_slice_str(answer->reason)};

    if (a->o.metrics)
        sw_metric_add(sw_metric_get(a->o.metrics, SW_METRIC_LINK_DECISIONS, values), 1);
}

static void log_part(struct sw_log_line *l, const char *key, struct sw_slice value)
{
    if (value.n)
        sw_log_str(l, key, sw_slice_head(value, 256));
}

void auth_record(struct sw_link_auth *a, const struct auth_subject *s,
                 const struct sw_link_answer *answer)
{
    struct sw_log_line l;

    count(a, s, answer);
    if (answer->status == 200 || !sw_log_limit_take(&a->refused, sw_loop_now(a->loop)))
        return;
    sw_log_begin(&l, SW_LOG_WARN, "link", "connection refused");
    sw_log_cstr(&l, "side", s->side);
    log_part(&l, "import", s->import);
    log_part(&l, "export", s->exported);
    log_part(&l, "client", s->client);
    log_part(&l, "peer", s->peer);
    log_part(&l, "policy", s->policy);
    sw_log_u64(&l, "status", (uint64_t)answer->status);
    sw_log_cstr(&l, "reason", answer->text);
    log_part(&l, "detail", sw_slice_str(s->detail));
    sw_log_limit_put(&a->refused, &l);
    sw_log_end(&l);
}
