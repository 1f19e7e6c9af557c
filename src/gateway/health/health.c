/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Active health checks, on the main loop: one checker per member and check. A member is out when a
 * check failed often enough in a row and back when it succeeded often enough; workers see a flag.
 * The same timer lets ejected members (outlier.c) back.
 */
#include "gateway/health/health_int.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "gateway/config/config.h"
#include "gateway/health/h2.h"
#include "gateway/health/health.h"
#include "gateway/upstream/cluster.h"
#include "gateway/upstream/outlier.h"
#include "http/client.h"
#include "http/grammar.h"
#include "http/grpc/grpc.h"
#include "io/egress.h"

static void begin(struct checker *k);

/* ---- results ---- */

/* A member is out as long as one of its checks fails. */
static bool is_down_elsewhere(const struct checker *k)
{
    SW_LIST_EACH (const struct checker, o, &k->health->checkers, link) {
        if (o != k && o->member == k->member && o->down)
            return true;
    }
    return false;
}

static void mark(struct checker *k, bool down)
{
    k->down = down;
    if (down)
        atomic_fetch_or_explicit(&k->member->health, SW_GW_FAILED_ACTIVE, memory_order_release);
    else if (!is_down_elsewhere(k))
        atomic_fetch_and_explicit(&k->member->health, ~(uint32_t)SW_GW_FAILED_ACTIVE,
                                  memory_order_release);
    atomic_fetch_add_explicit(&k->health->cluster->state->health_version, 1, memory_order_release);
}

static void set_flag(struct checker *k, bool down)
{
    mark(k, down);
    sw_log_info("health", "'%.*s' of cluster '%.*s' is %s", SW_SLICE_ARG(k->member->text),
                SW_SLICE_ARG(k->health->cluster->spec->name), down ? "failing" : "healthy");
}

static void drop_io(struct checker *k, bool now)
{
    if (k->call)
        sw_http_call_cancel(k->call);
    k->call = NULL;
    if (k->rpc)
        sw_grpc_cancel(k->rpc);
    k->rpc = NULL;
    sw_gw_probe_free(k->probe, now);
    k->probe = NULL;
    checker_drop_tcp(k, now);
}

static void on_next(struct sw_timer *t)
{
    begin(SW_CONTAINER_OF(t, struct checker, timer));
}

/* no_traffic_interval holds until the first request goes to the cluster. */
static bool had_traffic(const struct sw_gw_cluster *c)
{
    for (unsigned i = 0; i < c->state->n_cells; i++) {
        if (atomic_load_explicit(&c->state->cells[i].rq, memory_order_relaxed))
            return true;
    }
    return false;
}

void checker_finish(struct checker *k, bool ok, const char *why)
{
    const struct sw_gw_check *c = k->check;
    uint64_t wait = c->interval_ns;

    if (!k->running)
        return;
    k->running = false;
    drop_io(k, false);
    k->good = ok ? k->good + 1 : 0;
    k->bad = ok ? 0 : k->bad + 1;
    if (!ok)
        sw_log_debug("health", "'%.*s': %s", SW_SLICE_ARG(k->member->text), why);
    /* The first result counts at once: a new member is not left waiting, nor a dead one serving. */
    if (!ok && !k->down && (!k->known || k->bad >= c->unhealthy_threshold))
        set_flag(k, true);
    else if (ok && k->down && k->good >= c->healthy_threshold)
        set_flag(k, false);
    k->known = true;
    if (k->down)
        wait = c->unhealthy_interval_ns;
    if (c->no_traffic_interval_ns && !had_traffic(k->health->cluster))
        wait = c->no_traffic_interval_ns;
    if (c->jitter_ns)
        wait += sw_rand_below(c->jitter_ns);
    sw_timer_start(k->health->loop, &k->timer, wait, on_next);
}

static void on_deadline(struct sw_timer *t)
{
    checker_finish(SW_CONTAINER_OF(t, struct checker, timer), false, "timeout");
}

struct sw_addr checker_target(const struct checker *k)
{
    struct sw_addr a = k->member->check_addr.ip;

    if (k->check->alt_port)
        a.port = k->check->alt_port;
    return a;
}

struct sw_slice checker_host(const struct checker *k)
{
    struct sw_slice name = k->health->cluster->spec->name;

    if (k->member->check_host.n)
        return k->member->check_host;
    if (k->check->host.n)
        return k->check->host;
    return sw_http_host_valid(name) ? name : sw_slice(NULL, 0);
}

static const struct sw_gw_tls *tls_of(const struct checker *k)
{
    return sw_gw_tls_for(k->health->cluster->tls, k->member->metadata);
}

/* The server name as connections for requests would have it. */
static const char *server_name(struct checker *k)
{
    const struct sw_gw_tls *t = tls_of(k);
    struct sw_slice host = checker_host(k);

    if (!t)
        return NULL;
    if (t->auto_sni && host.n) {
        ptrdiff_t colon = sw_slice_find(host, ':');

        k->name = sw_slice_dup(colon >= 0 ? sw_slice_head(host, (size_t)colon) : host);
    } else if (t->auto_host_sni && k->member->hostname.n) {
        k->name = sw_slice_dup(k->member->hostname);
    }
    return k->name ? k->name : t->sni;
}

static void begin(struct checker *k)
{
    struct sw_addr to;
    struct sw_err err = {0};

    k->running = true;
    k->status = 0;
    if (checker_begin_pipe(k))
        return;
    to = checker_target(k);
    if (sw_egress_check(k->health->cluster->spec->egress, &to, &err) != SW_OK) {
        checker_finish(k, false, err.msg);
        return;
    }
    sw_timer_start(k->health->loop, &k->timer, k->check->timeout_ns, on_deadline);
    switch (k->check->kind) {
    case SW_GW_CHECK_HTTP:
        if (k->check->h2 || k->health->cluster->spec->protocol == SW_GW_UP_H2)
            checker_begin_h2(k);
        else
            checker_begin_http(k);
        break;
    case SW_GW_CHECK_GRPC:
        checker_begin_grpc(k);
        break;
    case SW_GW_CHECK_TCP:
        checker_begin_tcp(k);
        break;
    }
}

/* ---- life ---- */

/* Never from inside a callback of its own: only new versions of the cluster and its end come here.
 */
static void checker_stop(struct checker *k)
{
    k->running = false;
    sw_timer_stop(k->health->loop, &k->timer);
    drop_io(k, true);
    if (k->down)
        mark(k, false);
    sw_list_unlink(&k->link);
    sw_http_client_free(k->http);
    sw_grpc_client_free(k->grpc);
    sw_free(k->name);
    (void)sw_gw_member_unref(k->member);
    sw_free(k);
}

static struct checker *find(struct sw_gw_health *h, const struct sw_gw_member *m,
                            const struct sw_gw_check *c)
{
    SW_LIST_EACH (struct checker, k, &h->checkers, link) {
        if (k->member == m && k->check == c)
            return k;
    }
    return NULL;
}

static void want(struct sw_gw_health *h, struct sw_gw_member *m, const struct sw_gw_check *c)
{
    struct checker *k = find(h, m, c);

    if (!k) {
        k = SW_NEW(struct checker);
        k->health = h;
        k->member = sw_gw_member_ref(m);
        k->check = c;
        /* Of a check whose settings changed: what the one before found out counts until then. */
        k->down = atomic_load_explicit(&m->health, memory_order_relaxed) & SW_GW_FAILED_ACTIVE;
        k->known = k->down;
        k->want = (struct sw_gw_tls_want){.tls = tls_of(k), .host = server_name(k)};
        sw_list_init(&k->link);
        sw_list_push_back(&h->checkers, &k->link);
        /* Not all in one turn. */
        sw_timer_start(h->loop, &k->timer, sw_rand_below(c->interval_ns / 8 + 1), on_next);
    }
    k->seen = true;
}

/* Without outlier detection all are let back, once more when the workers know of it, too. */
static void on_sweep(struct sw_timer *t)
{
    struct sw_gw_health *h = SW_CONTAINER_OF(t, struct sw_gw_health, sweep);
    const struct sw_gw_outlier_opts *o = &h->cluster->spec->outlier;

    (void)sw_gw_outlier_sweep(h->cluster, o->on ? sw_loop_now(h->loop) : UINT64_MAX);
    if (o->on)
        sw_timer_start(h->loop, &h->sweep, o->interval_ns, on_sweep);
}

static void update_sweep(struct sw_gw_health *h)
{
    const struct sw_gw_outlier_opts *o = &h->cluster->spec->outlier;

    if (o->on && !sw_timer_running(&h->sweep)) {
        sw_timer_start(h->loop, &h->sweep, o->interval_ns + 1, on_sweep);
    } else if (!o->on && sw_timer_running(&h->sweep)) {
        (void)sw_gw_outlier_sweep(h->cluster, UINT64_MAX);
        sw_timer_start(h->loop, &h->sweep, SW_NS_PER_S, on_sweep);
    }
}

void sw_gw_health_update(struct sw_gw_health *h, struct sw_gw_cluster *c)
{
    struct sw_gw_cluster *old = h->cluster;

    h->cluster = sw_gw_cluster_ref(c);
    SW_LIST_EACH (struct checker, k, &h->checkers, link)
        k->seen = false;
    SW_GW_ENDPOINTS_EACH (e, c->members) {
        for (size_t n = 0; n < c->spec->n_checks && !e->member->no_active_check; n++)
            want(h, e->member, &c->spec->checks[n]);
    }
    SW_LIST_EACH (struct checker, k, &h->checkers, link) {
        if (!k->seen)
            checker_stop(k);
    }
    update_sweep(h);
    (void)sw_gw_cluster_unref(old);
}

struct sw_gw_health *sw_gw_health_new(struct sw_loop *l, struct sw_gw_cluster *c)
{
    struct sw_gw_health *h;

    if (c->spec->n_checks == 0 && !c->spec->outlier.on)
        return NULL;
    h = SW_NEW(struct sw_gw_health);
    h->loop = l;
    sw_list_init(&h->checkers);
    sw_gw_health_update(h, c);
    return h;
}

void sw_gw_health_free(struct sw_gw_health *h)
{
    if (!h)
        return;
    SW_LIST_EACH (struct checker, k, &h->checkers, link)
        checker_stop(k);
    sw_timer_stop(h->loop, &h->sweep);
    (void)sw_gw_cluster_unref(h->cluster);
    sw_free(h);
}
