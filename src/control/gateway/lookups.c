/* SPDX-License-Identifier: Apache-2.0 */
#include "control/gateway/lookups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "control/gateway/build/build.h"
#include "io/egress.h"
#include "io/resolver.h"
#include "telemetry/metrics.h"

enum {
    FAILING_MAX = 1,                        /* lookups at once of names that failed the last time */
    UNPROVEN_MAX = SW_RESOLVER_THREADS - 1, /* those, and of names that never had an address */
    LINES_PER_PERIOD = 10,
};

#define REFRESH_NS      (5 * SW_NS_PER_S)    /* as Envoy does it, and our gateway */
#define SPACING_NS      (10 * SW_NS_PER_MS)  /* many names are asked for less often */
#define BACKOFF_MOST_NS (60 * SW_NS_PER_S)   /* between lookups that fail */
#define GONE_NS         (30 * SW_NS_PER_S)   /* a name answered with NXDOMAIN keeps its addresses */
#define SETTLE_NS       (500 * SW_NS_PER_MS) /* the first answer is waited for */
/* The same at the start: data planes that reconnect keep what they had meanwhile. */
#define SETTLE_FIRST_NS (3 * SW_NS_PER_S)
#define FIRST_RETRY_NS  (SW_NS_PER_S / 2)  /* of a lookup that failed in this time */
#define PERIOD_NS       (10 * SW_NS_PER_S) /* of log lines */

/*
 * What is known of a name decides with whom it shares the threads: names without an answer take
 * them for many seconds each, and must not take them all.
 */
enum lane {
    LANE_FRESH,   /* no address yet, not failed */
    LANE_GOOD,    /* the last lookup gave addresses */
    LANE_FAILING, /* the last lookup failed */
    LANES,
};

/* A lookup under way. Outlives its host, and the table. */
struct flight {
    struct sw_resolve r;
    struct sw_list link;  /* of the table */
    struct sw_lookups *l; /* NULL: freed */
    struct host *host;    /* NULL: not wanted any more */
    enum lane lane;
};

struct host {
    struct sw_lookups *l;
    struct sw_slice name; /* owned */
    struct sw_list sets;  /* of struct set */
    struct sw_list due;   /* of a lane: waits for a thread */
    struct sw_timer again;
    struct flight *flight; /* NULL: none */
    bool settled;          /* answered once, or waited for long enough */
    unsigned failures;     /* in a row */
    uint64_t gone_ns;      /* since when the answer is NXDOMAIN; 0: it is not */
    size_t n;
    struct sw_ip ips[SW_RESOLVE_MAX]; /* as the resolver orders them */
};

/* Addresses of a name under one port. */
struct set {
    struct sw_list link;  /* of the host */
    struct host *host;    /* NULL: beyond the bound, it stays empty */
    struct sw_slice name; /* owned */
    uint16_t port;
    bool wanted;   /* by the newest plan */
    bool reported; /* what follows was reported */
    size_t n;
    struct sw_ip ips[SW_RESOLVE_MAX];
    size_t n_denied;
    struct sw_ip denied[SW_RESOLVE_MAX]; /* those the last answer had */
};

struct sw_lookups {
    struct sw_lookups_opts o;
    struct sw_map sets;  /* by name */
    struct sw_map hosts; /* by name */
    struct sw_list lanes[LANES];
    struct sw_list flights;
    size_t flying[LANES];
    enum sw_lookups_mode mode;
    size_t unsettled;
    bool begun; /* the names of the first plan are settled */
    struct sw_timer settle;
    struct sw_ip clients[SW_LOOKUPS_CLIENTS];
    size_t n_clients;
    size_t beyond; /* sets without a host when it was last logged */
    uint64_t period_ns;
    unsigned lines;
};

static bool may_log(struct sw_lookups *l)
{
    uint64_t now = sw_loop_now(l->o.loop);

    if (l->period_ns == 0 || now - l->period_ns >= PERIOD_NS) {
        l->period_ns = now;
        l->lines = 0;
    }
    return l->lines++ < LINES_PER_PERIOD;
}

/* ---- judging ---- */

static bool has(const struct sw_ip *ips, size_t n, const struct sw_ip *ip)
{
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&ips[i], ip, sizeof(*ip)) == 0)
            return true;
    }
    return false;
}

static int by_bytes(const void *x, const void *y)
{
    return memcmp(x, y, sizeof(struct sw_ip));
}

static enum sw_egress_class judge(const struct sw_lookups *l, const struct sw_addr *to)
{
    enum sw_egress_class c =
        l->o.egress ? sw_egress_judge(l->o.egress, to) : sw_egress_classify(&to->ip);

    if (c == SW_EGRESS_OK && has(l->clients, l->n_clients, &to->ip) &&
        !sw_egress_allowed(l->o.egress, to))
        return SW_EGRESS_OWN;
    return c;
}

static void report_denied(struct set *s, const struct sw_ip *ip, enum sw_egress_class c)
{
    struct sw_lookups *l = s->host->l;
    char text[SW_IP_TEXT];

    if (l->o.metrics)
        sw_metric_add(
            sw_metric_get1(l->o.metrics, SW_METRIC_UPSTREAM_DENIED, sw_egress_class_text(c)), 1);
    if (may_log(l))
        sw_log_warn("egress",
                    "name '%.*s' resolves to %s, denied: %s address, not in --upstream-allow; data "
                    "planes get the cluster's endpoints without it",
                    SW_SLICE_ARG(s->host->name), sw_ip_text(ip, text), sw_egress_class_text(c));
}

static void tell(struct set *s, struct sw_lookups *l)
{
    struct sw_resolved r = {.set = s->name, .port = s->port, .ips = s->ips, .n = s->n};

    (void)sw_resolved_parse(s->name, &r.host, NULL);
    s->reported = true;
    l->o.on_set(l->o.arg, &r);
}

/*
 * What the set holds by the last answer: addresses of one family, that of the first one allowed,
 * since a data plane without a route to the other family would fail at every second request.
 */
static void judge_set(struct set *s)
{
    const struct host *h = s->host;
    struct sw_lookups *l = h->l;
    struct sw_ip ok[SW_RESOLVE_MAX];
    struct sw_ip denied[SW_RESOLVE_MAX];
    size_t n = 0;
    size_t n_denied = 0;

    for (size_t i = 0; i < h->n; i++) {
        const struct sw_addr to = {.ip = h->ips[i], .port = s->port};
        enum sw_egress_class c = judge(l, &to);

        if (c == SW_EGRESS_OK) {
            if (n == 0 || (ok[0].family == to.ip.family && !has(ok, n, &to.ip)))
                ok[n++] = to.ip;
            continue;
        }
        if (l->mode == SW_LOOKUPS_QUIET || has(denied, n_denied, &to.ip))
            continue;
        denied[n_denied++] = to.ip;
        if (!has(s->denied, s->n_denied, &to.ip))
            report_denied(s, &to.ip, c);
    }
    memcpy(s->denied, denied, n_denied * sizeof(*denied));
    s->n_denied = n_denied;
    if (n > 1)
        qsort(ok, n, sizeof(*ok), by_bytes);
    if (s->reported && s->n == n && memcmp(s->ips, ok, n * sizeof(*ok)) == 0)
        return;
    memcpy(s->ips, ok, n * sizeof(*ok));
    s->n = n;
    tell(s, l);
}

static void judge_host(struct host *h)
{
    SW_LIST_FOREACH (it, &h->sets)
        judge_set(SW_CONTAINER_OF(it, struct set, link));
}

/* ---- names that never had an answer ---- */

static void settled(struct sw_lookups *l)
{
    l->begun = true;
    sw_timer_stop(l->o.loop, &l->settle);
    if (l->o.on_settled)
        l->o.on_settled(l->o.arg);
}

static void settle(struct host *h)
{
    if (h->settled)
        return;
    h->settled = true;
    if (--h->l->unsettled == 0)
        settled(h->l);
}

/* A set that does not exist keeps an Envoy from taking its cluster, and what comes behind. */
static void on_settle(struct sw_timer *t)
{
    struct sw_lookups *l = SW_CONTAINER_OF(t, struct sw_lookups, settle);

    SW_MAP_EACH (struct host, h, &l->hosts) {
        if (h->settled)
            continue;
        h->settled = true;
        judge_host(h);
    }
    l->unsettled = 0;
    settled(l);
}

static void await_settle(struct sw_lookups *l)
{
    bool first = !l->begun && l->mode == SW_LOOKUPS_QUIET;

    if (l->unsettled && l->mode != SW_LOOKUPS_OFF && !sw_timer_running(&l->settle))
        sw_timer_start(l->o.loop, &l->settle, first ? SETTLE_FIRST_NS : SETTLE_NS, on_settle);
}

/* ---- lookups ---- */

static enum lane lane_of(const struct host *h)
{
    if (h->failures)
        return LANE_FAILING;
    return h->n ? LANE_GOOD : LANE_FRESH;
}

static void on_answer(struct sw_resolve *r);

static void ask(struct host *h)
{
    struct sw_lookups *l = h->l;
    struct flight *f = SW_NEW(struct flight);

    f->l = l;
    f->host = h;
    f->lane = lane_of(h);
    f->r.loop = l->o.loop;
    f->r.cb = on_answer;
    (void)snprintf(f->r.name, sizeof(f->r.name), "%.*s", SW_SLICE_ARG(h->name));
    sw_list_push_back(&l->flights, &f->link);
    l->flying[f->lane]++;
    h->flight = f;
    (l->o.ask ? l->o.ask : sw_resolve_start)(&f->r);
}

static struct host *next_due(struct sw_lookups *l)
{
    size_t unproven = l->flying[LANE_FRESH] + l->flying[LANE_FAILING];
    struct sw_list *m = NULL;

    if (unproven + l->flying[LANE_GOOD] >= SW_RESOLVER_THREADS)
        return NULL;
    if (unproven < UNPROVEN_MAX)
        m = sw_list_pop_front(&l->lanes[LANE_FRESH]);
    if (!m)
        m = sw_list_pop_front(&l->lanes[LANE_GOOD]);
    if (!m && unproven < UNPROVEN_MAX && l->flying[LANE_FAILING] < FAILING_MAX)
        m = sw_list_pop_front(&l->lanes[LANE_FAILING]);
    return m ? SW_CONTAINER_OF(m, struct host, due) : NULL;
}

static void pump(struct sw_lookups *l)
{
    struct host *h;

    while (l->mode != SW_LOOKUPS_OFF && (h = next_due(l)))
        ask(h);
}

static void enqueue(struct host *h)
{
    if (!h->flight && !sw_list_linked(&h->due))
        sw_list_push_back(&h->l->lanes[lane_of(h)], &h->due);
}

static void on_due(struct sw_timer *t)
{
    struct host *h = SW_CONTAINER_OF(t, struct host, again);

    enqueue(h);
    pump(h->l);
}

static void ask_again(struct host *h)
{
    struct sw_lookups *l = h->l;
    uint64_t wait = sw_max(REFRESH_NS, l->hosts.n * SPACING_NS);

    if (l->mode == SW_LOOKUPS_OFF)
        return;
    if (!h->settled && !l->begun)
        wait = FIRST_RETRY_NS;
    else if (h->failures)
        wait = sw_max(wait, sw_min(REFRESH_NS << sw_min(h->failures - 1, 8U), BACKOFF_MOST_NS));
    sw_timer_start(l->o.loop, &h->again, wait + sw_rand_below(wait / 10), on_due);
}

static void fail(struct host *h, const struct sw_resolve *r)
{
    struct sw_lookups *l = h->l;
    uint64_t now = sw_loop_now(l->o.loop);
    bool exists = r->unknown || r->rc == SW_ELIMIT;

    h->failures++;
    if (!exists && h->gone_ns == 0)
        h->gone_ns = now;
    if (!exists && now - h->gone_ns >= GONE_NS)
        h->n = 0;
    if (h->failures == 1 && l->mode == SW_LOOKUPS_ON && may_log(l))
        sw_log_warn("egress", "name '%.*s' cannot be resolved: %s; keeping %zu addresses of before",
                    SW_SLICE_ARG(h->name),
                    exists ? "no DNS server answers for it" : "no such name, or no address", h->n);
}

static void take(struct host *h, const struct sw_resolve *r)
{
    h->flight = NULL;
    if (r->rc == SW_OK) {
        h->failures = 0;
        h->gone_ns = 0;
        memcpy(h->ips, r->ips, r->n * sizeof(*r->ips));
        h->n = r->n;
    } else {
        fail(h, r);
    }
    if (h->failures && !h->settled &&
        !h->l->begun) { /* on_settle reports it, unless a better answer comes */
        ask_again(h);
        return;
    }
    judge_host(h);
    settle(h);
    ask_again(h);
}

static void on_answer(struct sw_resolve *r)
{
    struct flight *f = SW_CONTAINER_OF(r, struct flight, r);
    struct sw_lookups *l = f->l;

    if (l) {
        sw_list_unlink(&f->link);
        l->flying[f->lane]--;
        if (f->host)
            take(f->host, r);
        pump(l);
    }
    sw_free(f);
}

/* ---- names ---- */

static struct host *find_host(struct sw_lookups *l, struct sw_slice name)
{
    struct host *h = sw_map_get(&l->hosts, name);

    if (h || l->hosts.n >= SW_LOOKUPS_MAX)
        return h;
    h = SW_NEW(struct host);
    h->l = l;
    h->name = sw_slice(sw_slice_dup(name), name.n);
    sw_list_init(&h->sets);
    (void)sw_map_put(&l->hosts, h->name, h);
    l->unsettled++;
    enqueue(h);
    return h;
}

static void host_free(struct host *h)
{
    struct sw_lookups *l = h->l;

    (void)sw_map_del(&l->hosts, h->name);
    sw_timer_stop(l->o.loop, &h->again);
    sw_list_unlink(&h->due);
    if (h->flight)
        h->flight->host = NULL;
    settle(h);
    sw_slice_free(&h->name);
    sw_free(h);
}

static void set_free(struct sw_lookups *l, struct set *s)
{
    struct host *h = s->host;

    (void)sw_map_del(&l->sets, s->name);
    if (h) {
        sw_list_unlink(&s->link);
        if (sw_list_empty(&h->sets))
            host_free(h);
    }
    sw_slice_free(&s->name);
    sw_free(s);
}

static struct set *find_set(struct sw_lookups *l, struct sw_slice name, uint16_t port)
{
    struct set *s = sw_map_get(&l->sets, name);

    if (s)
        return s;
    s = SW_NEW(struct set);
    s->name = sw_slice(sw_slice_dup(name), name.n);
    s->port = port;
    (void)sw_map_put(&l->sets, s->name, s);
    return s;
}

static void want(void *arg, struct sw_slice name)
{
    struct sw_lookups *l = arg;
    struct sw_slice host;
    uint16_t port;
    struct set *s;

    if (!sw_resolved_parse(name, &host, &port) || host.n >= SW_RESOLVE_NAME)
        return;
    s = find_set(l, name, port);
    s->wanted = true;
    if (s->host)
        return;
    s->host = find_host(l, host);
    if (s->host) {
        sw_list_push_back(&s->host->sets, &s->link);
        if (s->host->settled)
            judge_set(s);
    } else if (!s->reported) {
        tell(s, l);
    }
}

static void log_beyond(struct sw_lookups *l)
{
    size_t n = 0;

    SW_MAP_FOREACH (it, &l->sets)
        n += !((const struct set *)it->value)->host;
    if (n > l->beyond && l->o.metrics)
        sw_metric_add(sw_metric_get1(l->o.metrics, SW_METRIC_GATEWAY_REFUSALS, "EndpointNames"),
                      n - l->beyond);
    if (n > l->beyond && may_log(l))
        sw_log_warn("egress",
                    "more than %d host names are backends: %zu endpoint sets get no address",
                    SW_LOOKUPS_MAX, n);
    l->beyond = n;
}

void sw_lookups_plan(struct sw_lookups *l, struct sw_slice plan)
{
    if (!l)
        return;
    SW_MAP_FOREACH (it, &l->sets)
        ((struct set *)it->value)->wanted = false;
    sw_resolved_wanted(plan, want, l);
    log_beyond(l);
    await_settle(l);
    l->begun |= l->unsettled == 0;
    pump(l);
}

void sw_lookups_sweep(struct sw_lookups *l)
{
    if (!l)
        return;
    SW_MAP_EACH (struct set, s, &l->sets) {
        struct sw_resolved gone = {.set = s->name, .port = s->port};

        if (s->wanted)
            continue;
        (void)sw_resolved_parse(s->name, &gone.host, NULL);
        if (s->reported)
            l->o.on_set(l->o.arg, &gone);
        set_free(l, s);
    }
}

/* ---- life ---- */

struct sw_lookups *sw_lookups_new(const struct sw_lookups_opts *o)
{
    struct sw_lookups *l = SW_NEW(struct sw_lookups);

    l->o = *o;
    for (size_t i = 0; i < LANES; i++)
        sw_list_init(&l->lanes[i]);
    sw_list_init(&l->flights);
    return l;
}

void sw_lookups_free(struct sw_lookups *l)
{
    if (!l)
        return;
    l->o.on_settled = NULL;
    SW_MAP_FOREACH (it, &l->sets)
        set_free(l, it->value);
    while (!sw_list_empty(&l->flights)) {
        struct flight *f = SW_CONTAINER_OF(l->flights.next, struct flight, link);

        sw_list_unlink(&f->link);
        f->l = NULL;
    }
    sw_timer_stop(l->o.loop, &l->settle);
    sw_map_done(&l->sets);
    sw_map_done(&l->hosts);
    sw_free(l);
}

static void resume(struct sw_lookups *l)
{
    SW_MAP_FOREACH (it, &l->hosts)
        enqueue(it->value);
    await_settle(l);
    pump(l);
}

static void pause_lookups(struct sw_lookups *l)
{
    SW_MAP_EACH (struct host, h, &l->hosts) {
        sw_timer_stop(l->o.loop, &h->again);
        sw_list_unlink(&h->due);
    }
    if (l->unsettled)
        settled(l);
}

void sw_lookups_mode(struct sw_lookups *l, enum sw_lookups_mode mode, const struct sw_ip *clients,
                     size_t n)
{
    enum sw_lookups_mode before;
    bool same;

    if (!l)
        return;
    n = sw_min(n, (size_t)SW_LOOKUPS_CLIENTS);
    same = n == l->n_clients && (n == 0 || memcmp(l->clients, clients, n * sizeof(*clients)) == 0);
    before = l->mode;
    l->mode = mode;
    if (!same && n)
        memcpy(l->clients, clients, n * sizeof(*clients));
    l->n_clients = n;
    if (mode == SW_LOOKUPS_OFF && before != SW_LOOKUPS_OFF)
        pause_lookups(l);
    if (mode != SW_LOOKUPS_OFF && before == SW_LOOKUPS_OFF)
        resume(l);
    if (!same || mode != before) {
        SW_MAP_FOREACH (it, &l->hosts) {
            if (((struct host *)it->value)->settled)
                judge_host(it->value);
        }
    }
}

bool sw_lookups_settled(const struct sw_lookups *l)
{
    return !l || l->mode == SW_LOOKUPS_OFF || l->unsettled == 0;
}
