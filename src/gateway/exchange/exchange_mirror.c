/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of a request for other clusters. A copy is an exchange without a client: its answer is
 * read and forgotten. It never slows the original down: one whose host does not keep up with the
 * body is given up.
 */
#include "base/mem.h"
#include "base/rand.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/exchange/side.h"
#include "gateway/exchange/state.h"
#include "gateway/message/fields.h"

enum { COPIES_MAX = 16 };

struct sw_gw_copies {
    struct sw_exchange *copy[COPIES_MAX]; /* NULL: over */
    size_t n;
};

struct copy_link {
    struct sw_gw_copies *from; /* NULL once the original is over */
    size_t index;
    bool paused;
};

/* ---- as a copy sees its client ---- */

static void ignore_head(struct sw_exchange *x, bool end)
{
}

static void ignore_data(struct sw_exchange *x, struct sw_slice data)
{
}

static void ignore(struct sw_exchange *x)
{
}

static void pause_copy(struct sw_gw_side *s)
{
    ((struct copy_link *)s->stream)->paused = true;
}

static void resume_copy(struct sw_gw_side *s)
{
    ((struct copy_link *)s->stream)->paused = false;
}

static void detach(struct sw_exchange *x)
{
    struct copy_link *l = gw_side_detach(&x->down);

    if (l->from)
        l->from->copy[l->index] = NULL;
}

static const struct sw_gw_side_ops side = {
    .send_head = ignore_head,
    .send_data = ignore_data,
    .send_end = ignore,
    .flush = gw_side_nothing,
    .blocked = gw_side_never_blocked,
    .pause = pause_copy,
    .resume = resume_copy,
    .abort = detach,
    .done = detach,
    .send_info = gw_side_no_info,
};

/* ---- making copies ---- */

static void copy_fields(struct sw_exchange *to, const struct sw_gw_fields *from)
{
    sw_gw_fields_init(&to->arena, &to->req.fields, from->n + 4);
    for (uint32_t i = 0; i < from->n; i++)
        sw_gw_fields_add(&to->arena, &to->req.fields, sw_arena_slice(&to->arena, from->p[i].name),
                         sw_arena_slice(&to->arena, from->p[i].value));
}

static struct sw_slice copy_authority(struct sw_exchange *m, const struct sw_exchange *x,
                                      const struct sw_gw_mirror *policy)
{
    struct sw_slice host = x->plan.authority.p ? x->plan.authority : x->req.authority;

    if (policy->host_rewrite.n)
        return sw_arena_slice(&m->arena, policy->host_rewrite);
    if (policy->keep_host)
        return sw_arena_slice(&m->arena, host);
    return sw_slice_str(sw_arena_printf(&m->arena, "%.*s-shadow", SW_SLICE_ARG(host)));
}

/* What came while a filter waited. */
static void give_kept(const struct sw_exchange *x, struct sw_exchange *m)
{
    m->sending_kept = true;
    sw_exchange_down_data(m, sw_slice(x->kept.p, x->kept.n));
    m->sending_kept = false;
    if (x->down.end_got)
        sw_exchange_down_end(m);
}

struct sw_exchange *sw_exchange_new_inner(const struct sw_exchange *x, struct sw_slice cluster)
{
    struct sw_exchange *m = sw_exchange_new(x->worker);

    m->mirror = true;
    m->from.listener = x->from.listener ? sw_gw_listener_ref(x->from.listener) : NULL;
    m->from.peer = x->from.peer;
    m->from.local = x->from.local;
    m->rs = SW_ARENA_NEW(&m->arena, struct sw_gw_route_state);
    m->rs->cluster = sw_arena_slice(&m->arena, cluster);
    return m;
}

static void start_copy(struct sw_exchange *x, struct sw_gw_copies *all,
                       const struct sw_gw_mirror *policy)
{
    struct sw_exchange *m = sw_exchange_new_inner(x, policy->cluster);
    struct copy_link *l = SW_ARENA_NEW(&m->arena, struct copy_link);

    m->req = x->req;
    m->req.method = sw_arena_slice(&m->arena, x->req.method);
    m->req.path = sw_arena_slice(&m->arena, x->plan.path.p ? x->plan.path : x->req.path);
    m->req.authority = copy_authority(m, x, policy);
    m->req.upgrade = sw_slice(NULL, 0);
    m->req.expect_continue = false;
    m->req.work = NULL; /* of the original, which may be gone first */
    m->req.trailers = (struct sw_gw_fields){0};
    copy_fields(m, &x->req.fields);
    m->rs->pick.has_hash = x->rs->pick.has_hash;
    m->rs->pick.hash = x->rs->pick.hash;
    m->plan.timeout_ns = x->plan.timeout_ns;
    m->plan.idle_timeout_ns = x->plan.idle_timeout_ns;
    m->down.ops = &side;
    m->down.stream = l;
    l->from = all;
    l->index = all->n;
    all->copy[all->n++] = m;
    sw_exchange_start(m, x->down.end_got && x->kept.n == 0);
    if (x->kept.n && all->copy[l->index])
        give_kept(x, m);
}

static void start_list(struct sw_exchange *x, const struct sw_gw_mirror *p, size_t n)
{
    for (size_t i = 0; i < n && x->copies->n < COPIES_MAX; i++) {
        if (p[i].millionths >= 1000000 || sw_rand_below(1000000) < p[i].millionths)
            start_copy(x, x->copies, &p[i]);
    }
}

void sw_gw_mirror_start(struct sw_exchange *x)
{
    const struct sw_gw_forward *f = &x->route->forward;
    const struct sw_gw_vhost *v = x->rs->vhost;
    const struct sw_gw_routes *t = x->rs->table;

    if (f->n_mirrors + v->n_mirrors + t->n_mirrors == 0 || x->req.length == SW_GW_LENGTH_TUNNEL)
        return;
    x->copies = SW_NEW(struct sw_gw_copies);
    /* The most specific list counts, as for everything that is not merged. */
    if (f->n_mirrors)
        start_list(x, f->mirrors, f->n_mirrors);
    else if (v->n_mirrors)
        start_list(x, v->mirrors, v->n_mirrors);
    else
        start_list(x, t->mirrors, t->n_mirrors);
}

/* ---- the original continues ---- */

void gw_mirror_data(struct sw_exchange *x, struct sw_slice data)
{
    struct sw_gw_copies *c = x->copies;

    for (size_t i = 0; i < c->n; i++) {
        struct sw_exchange *m = c->copy[i];

        if (!m)
            continue;
        if (((struct copy_link *)m->down.stream)->paused)
            sw_exchange_kill(m); /* detaches */
        else
            sw_exchange_down_data(m, data);
    }
}

void gw_mirror_end(struct sw_exchange *x)
{
    for (size_t i = 0; i < x->copies->n; i++) {
        if (x->copies->copy[i])
            sw_exchange_down_end(x->copies->copy[i]);
    }
}

void gw_mirror_gone(struct sw_exchange *x)
{
    struct sw_gw_copies *c = x->copies;

    x->copies = NULL;
    for (size_t i = 0; i < c->n; i++) {
        struct sw_exchange *m = c->copy[i];

        if (!m)
            continue;
        ((struct copy_link *)m->down.stream)->from = NULL;
        if (!m->down.end_got)
            sw_exchange_kill(m); /* the rest of its body will never come */
    }
    sw_free(c);
}
