/* SPDX-License-Identifier: Apache-2.0 */
#include "node/cert/certs.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "node/cert/crl.h"

enum {
    CONCURRENT = 8,
    BACKOFF_FIRST_S = 1,
    BACKOFF_MOST_S = 150,
    DEMAND_S = 5,     /* between two tries while connections are refused without it; */
    DENIED_S = 30,    /* an authority that answers is asked for the same less often */
    CLOCK_S = 60,     /* at most between two looks at the clock of the wall, which may be set */
    ROOTS_AGE_S = 60, /* a certificate this young is not renewed for the sake of its roots */
};

/* Whose request goes first: the last one. */
enum priority { RENEWAL, PREFETCH, SERVED, TRAFFIC, PRIORITIES };

struct cert {
    struct sw_list link; /* in a queue */
    struct sw_certs *certs;
    char *identity; /* owned */
    struct sw_tls_cred *cred;
    struct sw_issue issue;
    struct sw_timer timer; /* renewal or the next try */
    struct sw_metric *expiry;
    struct sw_backoff backoff;
    uint64_t issued_ns;
    uint64_t demand_ns;   /* when a refused connection may have it asked for again */
    uint64_t due_ns;      /* of the renewal, by the loop's clock, */
    uint64_t due_wall_ns; /* and by that of the wall: whichever is first */
    enum priority wish;   /* of a first request */
    enum priority queued; /* in which queue, while linked */
    bool asking;
    bool wanted;
    char error[200]; /* of the last try; empty: it succeeded, or there was none */
};

struct sw_certs {
    struct sw_loop *loop;
    struct sw_certs_opts opts;
    struct sw_crl *crl;
    struct sw_slice crl_text; /* in force; lives in crl */
    struct sw_map index;      /* identity -> struct cert */
    SW_VEC(struct cert *) list;
    bool sorted;
    struct sw_list queues[PRIORITIES];
    size_t n_asking;
    bool pumping;
};

/* ---- the queue ---- */

static void on_issued(struct sw_issue *i, struct sw_tls_cred *cred, const struct sw_err *err);

static void ask(struct cert *c)
{
    struct sw_certs *all = c->certs;

    c->asking = true;
    all->n_asking++;
    sw_timer_stop(all->loop, &c->timer);
    c->issue = (struct sw_issue){
        .identity = sw_slice_str(c->identity),
        .ttl_s = sw_max(all->opts.ttl_ns / SW_NS_PER_S, 1),
        .crl = all->crl_text,
        .cb = on_issued,
    };
    sw_issuer_start(all->opts.issuer, &c->issue);
}

static struct cert *next_queued(struct sw_certs *all)
{
    for (int p = PRIORITIES - 1; p >= 0; p--) {
        struct cert *c = SW_LIST_POP(&all->queues[p], struct cert, link);

        if (c)
            return c;
    }
    return NULL;
}

/* An issuer may answer from inside: the loop continues, no recursion. */
static void pump(struct sw_certs *all)
{
    struct cert *c;

    if (all->pumping)
        return;
    all->pumping = true;
    while (all->n_asking < CONCURRENT && (c = next_queued(all)))
        ask(c);
    all->pumping = false;
}

/* Queues a request; one that waits already only moves up. */
static void enqueue(struct cert *c, enum priority p)
{
    if (c->asking || (sw_list_linked(&c->link) && p <= c->queued))
        return;
    if (sw_list_linked(&c->link))
        sw_list_unlink(&c->link);
    c->queued = p;
    sw_list_push_back(&c->certs->queues[p], &c->link);
    pump(c->certs);
}

static uint64_t wall_ns(const struct sw_certs *all)
{
    return all->opts.wall_ns ? all->opts.wall_ns() : sw_wall_ns();
}

static void on_due(struct sw_timer *t);

/*
 * The loop's clock stands still while a machine sleeps, and that of the wall is set: after one long
 * timer a certificate would have expired long ago.
 */
static void wait_for_renewal(struct cert *c)
{
    uint64_t now = sw_loop_now(c->certs->loop);
    uint64_t wall = wall_ns(c->certs);
    uint64_t left = c->due_ns > now ? c->due_ns - now : 0;

    left = c->due_wall_ns > wall ? sw_min(left, c->due_wall_ns - wall) : 0;
    if (left)
        sw_timer_start(c->certs->loop, &c->timer, sw_min(left, CLOCK_S * SW_NS_PER_S), on_due);
    else
        enqueue(c, RENEWAL);
}

static void on_due(struct sw_timer *t)
{
    struct cert *c = SW_CONTAINER_OF(t, struct cert, timer);

    if (c->cred && !c->backoff.ns)
        wait_for_renewal(c);
    else
        enqueue(c, c->cred ? RENEWAL : c->wish);
}

/* ---- answers ---- */

/* Half of the lifetime, but never in a tight loop. */
static uint64_t refresh_delay(const struct sw_tls_cred *cred, uint64_t now_ns)
{
    uint64_t begin = sw_tls_cred_not_before(cred);
    uint64_t end = sw_tls_cred_not_after(cred);
    uint64_t at_ns = begin * SW_NS_PER_S + (end - begin) * SW_NS_PER_S / 2;

    /* A back-dated begin can put the middle of a short life into the past. */
    if (at_ns <= now_ns)
        at_ns = now_ns + (end * SW_NS_PER_S > now_ns ? (end * SW_NS_PER_S - now_ns) / 2 : 0);
    return sw_max(at_ns - now_ns, SW_NS_PER_S / 2);
}

static void count(const struct sw_certs *all, const char *result)
{
    sw_metric_add(sw_metric_get1(all->opts.shard, SW_METRIC_CERT_REQUESTS, result), 1);
}

static void tell(const struct cert *c)
{
    c->certs->opts.cb(c->certs->opts.arg, sw_slice_str(c->identity), c->cred,
                      c->cred ? NULL : c->error);
}

/* Nodes that failed at the same time do not come back at the same time. */
static uint64_t spread(uint64_t ns)
{
    return ns - ns / 5 + sw_rand_below(ns * 2 / 5);
}

static void failed(struct cert *c, const struct sw_err *err)
{
    uint64_t end_ns = c->cred ? sw_tls_cred_not_after(c->cred) * SW_NS_PER_S : 0;
    uint64_t now_ns = wall_ns(c->certs);
    uint64_t wait_ns =
        sw_backoff_next(&c->backoff, BACKOFF_FIRST_S * SW_NS_PER_S, BACKOFF_MOST_S * SW_NS_PER_S);

    count(c->certs, err->rc == SW_EUNAVAIL  ? "unavailable"
                    : err->rc == SW_EDENIED ? "denied"
                                            : "invalid");
    c->demand_ns = sw_loop_now(c->certs->loop) +
                   spread((err->rc == SW_EUNAVAIL ? DEMAND_S : DENIED_S) * SW_NS_PER_S);
    (void)snprintf(c->error, sizeof(c->error), "%s", err->msg);
    /* Up to the end of the old one, there is a try in time for it. */
    if (end_ns > now_ns)
        wait_ns = sw_min(wait_ns, sw_max(end_ns - now_ns, SW_NS_PER_S / 2));
    sw_log_error("certs", "cannot get a certificate for %s: %s; %s, retrying in %llu ms",
                 c->identity, err->msg,
                 end_ns > now_ns ? "the previous one is still valid"
                                 : "connections that need it are refused",
                 (unsigned long long)(wait_ns / SW_NS_PER_MS));
    sw_timer_start(c->certs->loop, &c->timer, wait_ns, on_due);
    if (end_ns > now_ns)
        return;
    c->cred = sw_tls_cred_unref(c->cred);
    tell(c);
}

static void install(struct cert *c, struct sw_tls_cred *cred)
{
    (void)sw_tls_cred_unref(c->cred);
    c->cred = cred;
    sw_metric_set(c->expiry, (int64_t)sw_tls_cred_not_after(cred));
    tell(c);
}

static bool same_roots(const struct sw_tls_cred *a, const struct sw_tls_cred *b)
{
    const struct sw_tls_cert_info *x;
    const struct sw_tls_cert_info *y;
    size_t n = sw_tls_cred_roots(a, &x);

    if (n != sw_tls_cred_roots(b, &y))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!sw_slice_eq(x[i].pem, y[i].pem))
            return false;
    }
    return true;
}

/*
 * The authority gave out another bundle of roots: the others are renewed now, before it signs with
 * a root that their half of the node does not trust yet.
 */
static void spread_roots(struct sw_certs *all, const struct cert *from)
{
    uint64_t now = sw_loop_now(all->loop);

    SW_VEC_FOREACH (struct cert *, it, &all->list) {
        struct cert *c = *it;

        if (c != from && c->cred && now - c->issued_ns > ROOTS_AGE_S * SW_NS_PER_S &&
            !same_roots(c->cred, from->cred))
            enqueue(c, RENEWAL);
    }
}

static void on_issued(struct sw_issue *i, struct sw_tls_cred *cred, const struct sw_err *err)
{
    struct cert *c = SW_CONTAINER_OF(i, struct cert, issue);
    struct sw_certs *all = c->certs;
    bool new_roots = cred && c->cred && !same_roots(cred, c->cred);
    uint64_t delay_ns;

    c->asking = false;
    all->n_asking--;
    if (!cred) {
        failed(c, err);
        pump(all);
        return;
    }
    count(all, "issued");
    sw_log_debug("certs", "certificate issued for %s", c->identity);
    sw_backoff_reset(&c->backoff);
    c->error[0] = '\0';
    c->issued_ns = sw_loop_now(all->loop);
    delay_ns = refresh_delay(cred, wall_ns(all));
    c->due_ns = c->issued_ns + delay_ns;
    c->due_wall_ns = wall_ns(all) + delay_ns;
    wait_for_renewal(c);
    install(c, cred);
    if (new_roots) {
        sw_log_info("certs",
                    "root bundle changed: renewing certificates issued with the previous one");
        spread_roots(all, c);
    }
    pump(all);
}

/* ---- which identities ---- */

static void cert_free(struct cert *c)
{
    struct sw_certs *all = c->certs;

    if (c->asking) {
        sw_issuer_cancel(all->opts.issuer, &c->issue);
        all->n_asking--;
    }
    if (sw_list_linked(&c->link))
        sw_list_unlink(&c->link);
    sw_timer_stop(all->loop, &c->timer);
    (void)sw_tls_cred_unref(c->cred);
    sw_metric_drop(all->opts.shard, c->expiry);
    (void)sw_map_del(&all->index, sw_slice_str(c->identity));
    sw_free(c->identity);
    sw_free(c);
}

static struct cert *cert_new(struct sw_certs *all, struct sw_slice identity, enum priority p)
{
    struct cert *c = SW_NEW(struct cert);

    c->certs = all;
    c->identity = sw_slice_dup(identity);
    c->wish = p;
    c->expiry = sw_metric_get1(all->opts.shard, SW_METRIC_CERT_EXPIRY, c->identity);
    sw_vec_push(&all->list, c);
    all->sorted = false;
    (void)sw_map_put(&all->index, sw_slice_str(c->identity), c);
    return c;
}

static void want_one(struct sw_certs *all, struct sw_slice identity, enum priority p)
{
    struct cert *c = sw_map_get(&all->index, identity);

    if (c && c->wanted)
        return; /* named before, as one that is served */
    if (!c) {
        c = cert_new(all, identity, p);
        enqueue(c, p);
    } else if (p > c->wish && sw_list_linked(&c->link)) {
        enqueue(c, p);
    }
    c->wish = p;
    c->wanted = true;
}

static void drop_unwanted(struct sw_certs *all)
{
    size_t kept = 0;

    for (size_t i = 0; i < all->list.n; i++) {
        if (all->list.p[i]->wanted)
            all->list.p[kept++] = all->list.p[i];
        else
            cert_free(all->list.p[i]);
    }
    all->list.n = kept;
}

void sw_certs_want(struct sw_certs *c, const struct sw_slice *identities, size_t n_served, size_t n)
{
    if (!c->opts.issuer)
        return;
    SW_VEC_FOREACH (struct cert *, it, &c->list) {
        (*it)->wanted = false;
    }
    for (size_t i = 0; i < n; i++)
        want_one(c, identities[i], i < n_served ? SERVED : PREFETCH);
    drop_unwanted(c);
    pump(c);
}

void sw_certs_need(struct sw_certs *c, struct sw_slice identity)
{
    struct cert *x = sw_map_get(&c->index, identity);

    if (!x || x->cred)
        return;
    if (sw_list_linked(&x->link)) {
        enqueue(x, TRAFFIC);
    } else if (sw_timer_running(&x->timer) && x->demand_ns < x->timer.deadline_ns) {
        uint64_t now = sw_loop_now(c->loop);

        sw_timer_start(c->loop, &x->timer, x->demand_ns > now ? x->demand_ns - now : 0, on_due);
    }
}

static struct sw_certs_entry entry(const struct cert *x)
{
    return (struct sw_certs_entry){
        .identity = sw_slice_str(x->identity),
        .cred = x->cred,
        .error = x->error[0] ? x->error : NULL,
    };
}

struct sw_certs_entry sw_certs_find(const struct sw_certs *c, struct sw_slice identity)
{
    const struct cert *x = sw_map_get(&c->index, identity);

    if (x)
        return entry(x);
    return (struct sw_certs_entry){
        .identity = identity,
        .error = c->opts.issuer ? NULL : "no certificate authority is configured",
    };
}

size_t sw_certs_count(const struct sw_certs *c)
{
    return c->list.n;
}

static int by_identity(const void *a, const void *b)
{
    const struct cert *const *x = a;
    const struct cert *const *y = b;

    return strcmp((*x)->identity, (*y)->identity);
}

struct sw_certs_entry sw_certs_at(struct sw_certs *c, size_t i)
{
    if (!c->sorted)
        qsort(c->list.p, c->list.n, sizeof(c->list.p[0]), by_identity);
    c->sorted = true;
    return entry(c->list.p[i]);
}

/* ---- revocations ---- */

/* All credentials with the new revocations, or none: half of the node must not obey others. */
static int apply_crl(void *arg, struct sw_slice text, struct sw_err *err)
{
    struct sw_certs *c = arg;
    struct sw_tls_cred **made = SW_NEW_ARRAY(struct sw_tls_cred *, c->list.n + 1);
    int rc = SW_OK;

    for (size_t i = 0; i < c->list.n && rc == SW_OK; i++) {
        if (!c->list.p[i]->cred)
            continue;
        made[i] = sw_tls_cred_with_crl(c->list.p[i]->cred, text, err);
        rc = made[i] ? SW_OK : err->rc;
    }
    for (size_t i = 0; i < c->list.n; i++) {
        if (rc != SW_OK)
            (void)sw_tls_cred_unref(made[i]);
        else if (made[i])
            install(c->list.p[i], made[i]);
        if (rc == SW_OK)
            c->list.p[i]->issue.crl = text; /* of a request under way */
    }
    if (rc == SW_OK)
        c->crl_text = text;
    sw_free(made);
    return rc;
}

static int watch_crl(struct sw_certs *c, struct sw_err *err)
{
    struct sw_crl_opts o = {
        .path = c->opts.crl, .shard = c->opts.shard, .apply = apply_crl, .arg = c};

    c->crl = sw_crl_new(c->loop, &o, err);
    c->crl_text = sw_crl_text(c->crl);
    return c->crl ? SW_OK : err->rc;
}

/* ---- the whole ---- */

struct sw_certs *sw_certs_new(struct sw_loop *l, const struct sw_certs_opts *o, struct sw_err *err)
{
    struct sw_certs *c = SW_NEW(struct sw_certs);

    c->loop = l;
    c->opts = *o;
    for (int p = 0; p < PRIORITIES; p++)
        sw_list_init(&c->queues[p]);
    if (o->issuer && o->crl && watch_crl(c, err) != SW_OK) {
        sw_certs_free(c);
        return NULL;
    }
    return c;
}

void sw_certs_free(struct sw_certs *c)
{
    if (!c)
        return;
    SW_VEC_FOREACH (struct cert *, it, &c->list) {
        cert_free(*it);
    }
    sw_vec_done(&c->list);
    sw_map_done(&c->index);
    sw_crl_free(c->crl);
    sw_issuer_free(c->opts.issuer);
    sw_free(c);
}
