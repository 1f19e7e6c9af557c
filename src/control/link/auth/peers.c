/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/peers.h"

#include "base/hash.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"
#include "control/link/auth/beat.h"
#include "control/link/auth/race.h"
#include "http/client.h"
#include "http/h2client.h"
#include "io/loop.h"
#include "telemetry/metrics.h"
#include "tls/cert/cred.h"

enum {
    CONNS_MAX = 32, /* to one gateway; further requests wait for one of them */
};

struct gateway {
    char *host;
    uint16_t port;
};

struct peer {
    char *name;
    struct sw_link_peers *owner;
    struct gateway gateways[SW_LINK_GATEWAYS_MAX];
    struct sw_link_door doors[SW_LINK_GATEWAYS_MAX]; /* closed without a credential */
    enum sw_link_form form;
    size_t n;
    struct sw_link_beat beat;
    struct sw_timer timer;
    struct sw_link_race *probe; /* under way */
    uint64_t since_s;
    struct sw_arena arena;  /* of the labels */
    struct sw_attrs labels; /* as the peer says them */
    struct sw_attrs attrs;  /* the same as attributes */
    struct sw_list asks;
    size_t n_asks;
    struct sw_metric *gauge;
    bool swallowed; /* the last probe was not answered at all */
    bool seen;      /* while the set is compared */
};

struct sw_link_peers {
    struct sw_loop *loop;
    struct sw_link_peers_opts o;
    struct sw_tls_cred *cred;
    struct sw_map peers; /* name -> struct peer */
    size_t n_asks;       /* of all peers */
};

struct sw_link_ask {
    struct sw_list link;
    struct peer *peer;
    struct sw_link_race *race;
    void (*done)(void *arg, const struct sw_link_race_result *r);
    void *arg;
};

struct sw_link_peers *sw_link_peers_new(struct sw_loop *l, const struct sw_link_peers_opts *o)
{
    struct sw_link_peers *p = SW_NEW(struct sw_link_peers);

    p->loop = l;
    p->o = *o;
    return p;
}

/* ---- metrics ---- */

static void count_beat(const struct peer *p, bool ok)
{
    struct sw_slice values[] = {sw_slice_str(p->name), sw_slice_str(ok ? "ok" : "failed")};

    if (p->owner->o.metrics)
        sw_metric_add(sw_metric_get(p->owner->o.metrics, SW_METRIC_LINK_HEARTBEATS, values), 1);
}

static void show_reachable(struct peer *p)
{
    if (!p->owner->o.metrics)
        return;
    if (!p->gauge)
        p->gauge = sw_metric_get1(p->owner->o.metrics, SW_METRIC_LINK_PEER_REACHABLE, p->name);
    sw_metric_set(p->gauge, p->beat.reachable);
}

/* ---- heartbeats ---- */

static void on_timer(struct sw_timer *t);

static bool labels_equal(const struct sw_attrs *a, const struct sw_attrs *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        if (!sw_slice_eq(a->p[i].key, b->p[i].key) || !sw_slice_eq(a->p[i].value, b->p[i].value))
            return false;
    }
    return true;
}

/* Copies labels into an arena of their own; false when they are what they were. */
static bool set_labels(struct peer *p, const struct sw_attrs *labels)
{
    struct sw_arena fresh = {0};
    struct sw_attr *plain;
    struct sw_attr *attrs;
    size_t n = labels->n;

    if (labels_equal(&p->labels, labels))
        return false;
    plain = sw_arena_array(&fresh, n, sizeof(*plain));
    attrs = sw_arena_array(&fresh, n, sizeof(*attrs));
    for (size_t i = 0; i < n; i++) {
        plain[i].key = sw_arena_slice(&fresh, labels->p[i].key);
        plain[i].value = sw_arena_slice(&fresh, labels->p[i].value);
        attrs[i].key = sw_slice_str(
            sw_arena_printf(&fresh, "%s%.*s", SW_LINK_PEER_LABELS, SW_SLICE_ARG(plain[i].key)));
        attrs[i].value = plain[i].value;
    }
    sw_arena_clear(&p->arena);
    p->arena = fresh;
    p->labels = (struct sw_attrs){plain, n};
    p->attrs = (struct sw_attrs){attrs, n}; /* a common prefix keeps the order */
    return true;
}

static void log_flip(const struct peer *p, const char *why)
{
    if (p->beat.reachable)
        sw_log_info("link", "peer '%s' is reachable", p->name);
    else
        sw_log_warn("link", "peer '%s' is unreachable: %s", p->name, why);
}

/* Labels stay what they were while a peer is silent: it is still the same site. */
static void take_result(struct peer *p, bool ok, const struct sw_attrs *labels, const char *why)
{
    bool flipped = sw_link_beat_take(&p->beat, ok);
    bool changed = ok && set_labels(p, labels);

    count_beat(p, ok);
    if (flipped) {
        p->since_s = sw_wall_ns() / SW_NS_PER_S;
        show_reachable(p);
        log_flip(p, why);
    }
    sw_timer_start(p->owner->loop, &p->timer, sw_link_beat_delay(&p->beat), on_timer);
    if (flipped || changed)
        p->owner->o.on_change(p->owner->o.arg);
}

static void on_probed(void *arg, const struct sw_link_race_result *r)
{
    SW_ARENA_AUTO a = {0};
    struct peer *p = arg;
    struct sw_attrs labels = {0};
    struct sw_err err = {0};

    p->probe = NULL;
    p->swallowed = r->status == 0 && r->err->rc == SW_ETIME;
    if (r->status == 0)
        err = *r->err;
    else if (r->status != 200)
        (void)sw_err_set(&err, SW_EDENIED, "heartbeat answered with status %d", r->status);
    else
        (void)!sw_link_labels_decode(&a, r->value, &labels, &err);
    take_result(p, err.rc == SW_OK, &labels, err.msg);
}

static void probe(struct peer *p)
{
    struct sw_err err = {0};

    if (!p->owner->cred)
        return; /* comes with it */
    p->probe = sw_link_race_start(&(struct sw_link_race_opts){.loop = p->owner->loop,
                                                              .doors = p->doors,
                                                              .n = p->n,
                                                              .method = "GET",
                                                              .path = "/healthz",
                                                              .field = "clusterlinkpeerlabels",
                                                              .timeout_ns = SW_LINK_PEER_TIMEOUT_NS,
                                                              .done = on_probed,
                                                              .arg = p},
                                  &err);
    if (!p->probe)
        take_result(p, false, NULL, err.msg);
}

/* A path that swallows what is sent: new connections may find another. */
static void retire_connections(struct peer *p)
{
    for (size_t i = 0; i < p->n; i++) {
        if (p->doors[i].h2)
            sw_h2client_retire(p->doors[i].h2);
    }
}

static void on_timer(struct sw_timer *t)
{
    struct peer *p = SW_CONTAINER_OF(t, struct peer, timer);

    if (p->swallowed)
        retire_connections(p);
    p->swallowed = false;
    if (!p->probe)
        probe(p);
}

/* ---- requests ---- */

static void ask_free(struct sw_link_ask *ask)
{
    ask->peer->n_asks--;
    ask->peer->owner->n_asks--;
    sw_list_unlink(&ask->link);
    sw_free(ask);
}

static void on_answer(void *arg, const struct sw_link_race_result *r)
{
    struct sw_link_ask *ask = arg;
    void (*done)(void *arg, const struct sw_link_race_result *r) = ask->done;
    void *done_arg = ask->arg;

    ask_free(ask);
    done(done_arg, r);
}

void sw_link_ask_cancel(struct sw_link_ask *ask)
{
    if (!ask)
        return;
    sw_link_race_cancel(ask->race);
    ask_free(ask);
}

static int check_share(const struct peer *p, struct sw_err *err)
{
    if (p->owner->n_asks >= SW_LINK_ASKS_MAX)
        return sw_err_set(err, SW_ELIMIT, "%d requests to peers are under way", SW_LINK_ASKS_MAX);
    if (!sw_link_share_left(p->n_asks, p->owner->n_asks))
        return sw_err_set(err, SW_ELIMIT,
                          "%zu requests to peer '%s' are under way, its share of %d", p->n_asks,
                          p->name, SW_LINK_ASKS_MAX);
    return SW_OK;
}

struct sw_link_ask *sw_link_peers_ask(struct sw_link_peers *p, struct sw_slice name,
                                      const struct sw_link_ask_opts *o, struct sw_err *err)
{
    struct peer *to = sw_map_get(&p->peers, name);
    struct sw_link_ask *ask;
    struct sw_link_race *race;

    if (!to)
        return (void)sw_err_set(err, SW_ENOENT, "no Peer '%.*s'", SW_SLICE_ARG(name)), NULL;
    if (!p->cred)
        return (void)sw_err_set(err, SW_EINVAL, "no fabric certificate"), NULL;
    if (check_share(to, err) != SW_OK)
        return NULL;
    ask = SW_NEW(struct sw_link_ask);
    race = sw_link_race_start(&(struct sw_link_race_opts){.loop = p->loop,
                                                          .doors = to->doors,
                                                          .n = to->n,
                                                          .method = "POST",
                                                          .path = "/authz",
                                                          .body = o->body,
                                                          .field = "x-access-token",
                                                          .timeout_ns = o->timeout_ns,
                                                          .done = on_answer,
                                                          .arg = ask},
                              err);
    if (!race) {
        sw_free(ask);
        return NULL;
    }
    *ask = (struct sw_link_ask){.peer = to, .race = race, .done = o->done, .arg = o->arg};
    sw_list_push_back(&to->asks, &ask->link);
    to->n_asks++;
    p->n_asks++;
    return ask;
}

/* ---- peers come and go ---- */

static void close_clients(struct peer *p)
{
    for (size_t i = 0; i < p->n; i++) {
        struct sw_link_door d = p->doors[i];

        p->doors[i] = (struct sw_link_door){0};
        sw_h2client_free(d.h2);
        sw_http_client_free(d.h1);
    }
}

static void open_door(struct peer *p, const struct gateway *g, struct sw_link_door *d)
{
    const struct sw_http_client_opts o = {.scope = "link",
                                          .host = sw_slice_str(g->host),
                                          .port = g->port,
                                          .tls = true,
                                          .cred = p->owner->cred,
                                          .tls_name = sw_slice_str(p->name),
                                          .max_conns = CONNS_MAX,
                                          .max_waiting = SW_LINK_ASKS_MAX + 1,
                                          .connect_timeout_ns = SW_LINK_PEER_TIMEOUT_NS,
                                          .egress = p->owner->o.egress};
    const struct sw_h2origin_opts o2 = {
        .conn = {.scope = "link", .cred = o.cred, .open_timeout_ns = o.connect_timeout_ns},
        .host = o.host,
        .port = o.port,
        .tls_name = o.tls_name,
        .need_alpn = true,
        .egress = o.egress};
    struct sw_err err = {0};

    d->h1 = sw_http_client_new(p->owner->loop, &o, &err);
    if (d->h1 && p->form != SW_LINK_CLUSTERLINK)
        d->h2 = sw_h2client_new(p->owner->loop, &o2, &err);
    if (!d->h1 || err.rc != SW_OK)
        sw_log_warn("link", "gateway %s:%u of peer '%s' is not usable: %s", g->host, g->port,
                    p->name, err.msg);
}

static void open_clients(struct peer *p)
{
    for (size_t i = 0; i < p->n && p->owner->cred; i++)
        open_door(p, &p->gateways[i], &p->doors[i]);
}

static void drop_gateways(struct peer *p)
{
    close_clients(p);
    for (size_t i = 0; i < p->n; i++)
        sw_free(p->gateways[i].host);
    p->n = 0;
}

static void peer_free(struct peer *p)
{
    struct sw_link_peers *owner = p->owner;

    (void)sw_map_del(&owner->peers, sw_slice_str(p->name));
    sw_timer_stop(owner->loop, &p->timer);
    sw_link_race_cancel(p->probe);
    p->probe = NULL;
    drop_gateways(p); /* fails the requests in flight */
    if (p->gauge)
        sw_metric_drop(owner->o.metrics, p->gauge);
    sw_arena_clear(&p->arena);
    sw_free(p->name);
    sw_free(p);
}

static bool same_gateways(const struct peer *p, const struct sw_link_peer *now)
{
    if (p->n != now->n || p->form != now->form)
        return false;
    for (size_t i = 0; i < p->n; i++) {
        if (p->gateways[i].port != now->gateways[i].port ||
            !sw_slice_eq_str(now->gateways[i].host, p->gateways[i].host))
            return false;
    }
    return true;
}

static void set_gateways(struct peer *p, const struct sw_link_peer *now)
{
    sw_link_race_cancel(p->probe);
    p->probe = NULL;
    drop_gateways(p);
    for (size_t i = 0; i < now->n; i++) {
        p->gateways[i].host = sw_slice_dup(now->gateways[i].host);
        p->gateways[i].port = now->gateways[i].port;
    }
    p->n = now->n;
    p->form = now->form;
    open_clients(p);
    sw_timer_start(p->owner->loop, &p->timer, 0, on_timer);
}

/* Until its first answer its labels are those of its status, which outlive this process. */
static struct peer *peer_new(struct sw_link_peers *owner, const struct sw_link_peer *now)
{
    struct peer *p = SW_NEW(struct peer);

    p->owner = owner;
    p->name = sw_slice_dup(now->name);
    sw_list_init(&p->asks);
    (void)set_labels(p, &now->labels);
    (void)sw_map_put(&owner->peers, sw_slice_str(p->name), p);
    return p;
}

void sw_link_peers_set(struct sw_link_peers *p, const struct sw_link_facts *f)
{
    const struct sw_link_peer *now;
    size_t n = sw_link_facts_peers(f, &now);
    bool gone = false;

    for (size_t i = 0; i < n; i++) {
        struct peer *had = sw_map_get(&p->peers, now[i].name);
        struct peer *is = had ? had : peer_new(p, &now[i]);

        is->seen = true;
        if (!had || !same_gateways(is, &now[i]))
            set_gateways(is, &now[i]);
    }
    SW_MAP_EACH (struct peer, is, &p->peers) {
        if (!is->seen) {
            peer_free(is);
            gone = true;
        } else {
            is->seen = false;
        }
    }
    if (gone)
        p->o.on_change(p->o.arg);
}

void sw_link_peers_set_cred(struct sw_link_peers *p, struct sw_tls_cred *cred)
{
    bool first = !p->cred;

    (void)sw_tls_cred_unref(p->cred);
    p->cred = cred ? sw_tls_cred_ref(cred) : NULL;
    SW_MAP_EACH (struct peer, is, &p->peers) {
        for (size_t i = 0; i < is->n && !first && cred; i++) {
            if (is->doors[i].h1)
                sw_http_client_set_cred(is->doors[i].h1, cred);
            if (is->doors[i].h2)
                sw_h2client_set_cred(is->doors[i].h2, cred);
        }
        if (first)
            open_clients(is);
        if (!is->probe)
            sw_timer_start(p->loop, &is->timer, 0, on_timer);
    }
}

void sw_link_peers_free(struct sw_link_peers *p)
{
    if (!p)
        return;
    SW_MAP_DRAIN(&p->peers, peer_free);
    (void)sw_tls_cred_unref(p->cred);
    sw_free(p);
}

/* ---- reading ---- */

bool sw_link_peers_reachable(const struct sw_link_peers *p, struct sw_slice name)
{
    const struct peer *is = sw_map_get(&p->peers, name);

    return is && is->beat.reachable;
}

const struct sw_attrs *sw_link_peers_labels(const struct sw_link_peers *p, struct sw_slice name)
{
    static const struct sw_attrs none;
    const struct peer *is = sw_map_get(&p->peers, name);

    return is ? &is->attrs : &none;
}

size_t sw_link_peers_reach(const struct sw_link_peers *p, struct sw_arena *a,
                           struct sw_link_reach **ret)
{
    struct sw_link_reach *out = sw_arena_array(a, p->peers.n, sizeof(*out));
    size_t n = 0;

    SW_MAP_EACH (const struct peer, is, &p->peers) {
        if (is->beat.known)
            out[n++] = (struct sw_link_reach){.peer = sw_slice_str(is->name),
                                              .reachable = is->beat.reachable,
                                              .labels = is->labels,
                                              .since_s = is->since_s};
    }
    if (n)
        SW_SORT_BY(out, n, peer);
    *ret = out;
    return n;
}

/* Labels only: whether a peer answers changes which source is tried, not what is allowed. */
uint64_t sw_link_peers_hash(const struct sw_link_peers *p)
{
    SW_ARENA_AUTO a = {0};
    struct sw_link_reach *reach;
    size_t n = sw_link_peers_reach(p, &a, &reach);
    struct sw_slice json;

    for (size_t i = 0; i < n; i++) {
        reach[i].reachable = false;
        reach[i].since_s = 0;
    }
    json = sw_link_reach_json(&a, reach, n);
    return sw_siphash13(3, 5, json.p, json.n);
}
