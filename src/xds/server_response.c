/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is due to a client and when. The difference between the snapshot a client has (base) and the
 * one it shall have (target) is found by walking both; whatever is the same is the same pointer.
 * Types with a rank wait for each other: what a change adds is there before anything refers to it,
 * and what it removes goes when nothing does any more.
 */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "proto/pb.h"
#include "xds/server_int.h"

#include <proto/discovery.pb-c.h>

/* How long removals wait for clients that name their clusters: after an answer, and in all. */
static const uint64_t linger_ns = SW_NS_PER_S;
static const uint64_t linger_max_ns = 5 * SW_NS_PER_S;

/* One step of a walk over two snapshots. */
struct step {
    struct sw_xds_res *was; /* NULL: new */
    struct sw_xds_res *is;  /* NULL: removed */
};

/* The next difference from (*i, *j) on, or false at the end. */
static bool walk(const struct sw_xds_snap *a, const struct sw_xds_snap *b, size_t *i, size_t *j,
                 struct step *ret)
{
    size_t na = a ? a->n : 0;

    while (*i < na || *j < b->n) {
        struct sw_xds_res *x = *i < na ? a->res[*i] : NULL;
        struct sw_xds_res *y = *j < b->n ? b->res[*j] : NULL;
        int cmp;

        if (x == y) {
            ++*i;
            ++*j;
            continue;
        }
        cmp = !x ? 1 : !y ? -1 : sw_slice_cmp(x->name, y->name);
        *ret = (struct step){.was = cmp <= 0 ? x : NULL, .is = cmp >= 0 ? y : NULL};
        *i += cmp <= 0;
        *j += cmp >= 0;
        return true;
    }
    return false;
}

/* --- warming --- */

/*
 * A cluster that is new or changed warms in the client until an endpoint response names it, also
 * when its endpoints stayed the same and the client subscribed to them long ago.
 */
static void warm_endpoints(struct xds_sub *clusters, const struct sw_xds_res *res)
{
    struct xds_sub *eds = xds_sub_find(clusters->stream, SW_SLICE_LIT(SW_XDS_ENDPOINT));
    SW_ARENA_AUTO a = {0};
    const Sw__ClusterRefs *c;
    struct sw_slice name = res->name;

    if (!eds)
        return;
    c = SW_PB_UNPACK(&a, Sw__ClusterRefs, sw__cluster_refs, res->value, NULL, NULL);
    if (c && c->eds_cluster_config && c->eds_cluster_config->service_name.len)
        name = SW_PB_SLICE(c->eds_cluster_config->service_name);
    xds_sub_force(eds, name);
}

static void note_sent(struct xds_sub *u, const struct sw_xds_res *res)
{
    /* Not for the first state: endpoints subscribed to beside it are answered anyway. */
    if (u->base && u->kind->rank && strcmp(u->url, SW_XDS_CLUSTER) == 0)
        warm_endpoints(u, res);
}

/* --- what is sent ahead --- */

static void set_ahead(struct xds_sub *u, struct xds_name *n, struct sw_xds_res *res)
{
    u->n_ahead -= n->ahead != NULL;
    sw_xds_res_unref(n->ahead);
    n->ahead = res ? sw_xds_res_ref(res) : NULL;
    u->n_ahead += n->ahead != NULL;
}

/* An explicit question was answered; when the walk comes by, it need not do so again. */
static void sent_ahead(struct xds_sub *u, struct xds_name *n, struct sw_xds_res *res)
{
    set_ahead(u, n, res && res != sw_xds_snap_get(u->base, n->name) ? res : NULL);
}

static bool was_sent_ahead(struct xds_sub *u, const struct sw_xds_res *res)
{
    struct xds_name *n = u->n_ahead ? sw_map_get(&u->names, res->name) : NULL;
    bool yes = n && n->ahead == res;

    if (n)
        set_ahead(u, n, NULL);
    return yes;
}

/* What was sent ahead and is gone before base came to have it. */
static void take_back_ahead(struct xds_sub *u, const struct sw_xds_snap *now)
{
    if (!u->n_ahead)
        return;
    SW_MAP_EACH (struct xds_name, n, &u->names) {
        const struct sw_xds_res *res = n->ahead ? sw_xds_snap_get(now, n->name) : NULL;

        if (!n->ahead || (res && res != sw_xds_snap_get(u->base, n->name)))
            continue;
        set_ahead(u, n, NULL);
        if (!res)
            xds_sub_force(u, n->name);
    }
}

/* No walk from base tells that these are gone. Strays may be on their way until all is answered. */
static void take_back(struct xds_sub *u, const struct sw_xds_snap *now)
{
    take_back_ahead(u, now);
    SW_LIST_EACH (struct xds_name, n, &u->leaving, forced) {
        if (xds_sub_wants(u, n->name) && !sw_xds_snap_get(now, n->name))
            xds_sub_echo(u, n->name);
    }
    xds_names_done(&u->leaving);
    if (u->pending)
        return;
    for (size_t i = 0; u->stray && i < u->stray->n; i++) {
        struct sw_slice name = u->stray->res[i]->name;

        if (xds_sub_wants(u, name) && !sw_xds_snap_get(now, name))
            xds_sub_echo(u, name);
    }
    sw_xds_snap_set(&u->stray, NULL);
}

/* --- delta --- */

/* Already held by a client that came back: nothing to send, once. */
static bool held_initially(struct xds_sub *u, const struct sw_xds_res *res)
{
    const char *version = sw_map_get(&u->initial, res->name);

    return version && sw_slice_eq_str(res->version, version);
}

/* Answers a name whatever the client has of it, once per response. */
static void delta_append(struct xds_msg *r, struct sw_slice name, const struct sw_xds_snap *now)
{
    struct sw_xds_res *res = sw_xds_snap_get(now, name);

    if (sw_map_put(&r->answered, name, r))
        return;
    if (res)
        xds_msg_put(r, res->resource);
    else
        xds_msg_remove(r, name);
}

static void delta_forced(struct xds_sub *u, struct sw_xds_snap *now, struct xds_msg *r,
                         size_t piece)
{
    struct xds_name *n;

    while (xds_msg_size(r) < piece &&
           (n = SW_LIST_POP(&u->forced, struct xds_name, forced)) != NULL) {
        delta_append(r, n->name, now);
        sent_ahead(u, n, sw_xds_snap_get(now, n->name));
    }
    while (xds_msg_size(r) < piece &&
           (n = SW_LIST_POP(&u->gone, struct xds_name, forced)) != NULL) {
        sw_list_push_back(&r->names, &n->forced);
        u->n_gone--;
        delta_append(r, n->name, now);
        if (sw_xds_snap_get(now, n->name) != sw_xds_snap_get(u->base, n->name))
            xds_sub_stray(u, now);
    }
}

/* Continues with the walk to u->target until the piece is full. True: at its end. */
static bool delta_walk(struct xds_sub *u, struct xds_msg *r, size_t piece)
{
    struct step s;

    while (xds_msg_size(r) < piece) {
        if (!walk(u->base, u->target, &u->at_base, &u->at_target, &s))
            return true;
        if (!xds_sub_wants(u, (s.is ? s.is : s.was)->name) ||
            (r->answered.n && sw_map_get(&r->answered, (s.is ? s.is : s.was)->name)))
            continue;
        if (!s.is) {
            xds_msg_remove(r, s.was->name);
        } else if (!held_initially(u, s.is) && !was_sent_ahead(u, s.is)) {
            xds_msg_put(r, s.is->resource);
            note_sent(u, s.is);
        }
    }
    return false;
}

/* Removes what a reconnected client holds and no longer exists. Its routes may still name it. */
static void delta_initial_gone(struct xds_sub *u, const struct sw_xds_snap *now, bool last)
{
    if (!u->wildcard || u->initial.n == 0)
        return;
    SW_MAP_FOREACH (it, &u->initial) {
        if (sw_xds_snap_get(now, it->key))
            continue;
        if (last)
            xds_sub_echo(u, it->key);
        else
            xds_sub_leave(u, it->key);
    }
}

static void advance(struct xds_sub *u)
{
    sw_xds_snap_set(&u->base, u->target);
    u->target = NULL;
    xds_initial_done(u);
}

/* Nothing that this client wants differs. */
static bool same(const struct xds_sub *u, const struct sw_xds_snap *to)
{
    struct step s;
    size_t i = 0;
    size_t j = 0;

    if (u->base == to)
        return true;
    while (walk(u->base, to, &i, &j, &s)) {
        if (xds_sub_wants(u, (s.is ? s.is : s.was)->name))
            return false;
    }
    return true;
}

static bool due(const struct xds_sub *u)
{
    return u->answer || u->target || !sw_list_empty(&u->forced) || !sw_list_empty(&u->gone);
}

/* Begins a transfer to 'to' (reference taken over) unless nothing would come of it. */
static void delta_begin(struct xds_sub *u, struct sw_xds_snap *to, bool last)
{
    bool nothing = u->initial.n == 0 && same(u, to);

    if (nothing && !last) {
        sw_xds_snap_unref(to);
        return;
    }
    u->target = to;
    u->at_base = 0;
    u->at_target = 0;
    if (nothing)
        advance(u); /* differs only in resources outside the subscription */
    else
        delta_initial_gone(u, to, last);
}

static bool delta_send(struct xds_sub *u, struct sw_xds_snap *now)
{
    struct xds_stream *st = u->stream;
    size_t piece = st->server->o.piece;
    struct xds_msg r;
    bool sent = false;

    xds_msg_init(&r, now->version, st->server->o.max_response);
    delta_forced(u, u->target ? u->target : now, &r, piece);
    if (u->target && delta_walk(u, &r, piece))
        advance(u);
    if (r.n || u->answer)
        sent = xds_msg_send(u, &r);
    xds_msg_done(&r);
    return sent;
}

/* --- state of the world --- */

/* Everything a type of full state has for this client. */
static void sotw_all(struct xds_sub *u, const struct sw_xds_snap *to, struct xds_msg *r)
{
    for (size_t i = 0; i < to->n; i++) {
        if (xds_sub_wants(u, to->res[i]->name))
            xds_msg_put(r, to->res[i]->any);
    }
}

static void sotw_changes(struct xds_sub *u, const struct sw_xds_snap *to, bool walked,
                         struct xds_msg *r)
{
    struct step s;
    size_t i = 0;
    size_t j = 0;

    while (walked && walk(u->base, to, &i, &j, &s)) {
        if (!s.is || !xds_sub_wants(u, s.is->name))
            continue;
        if (!u->kind->full && !was_sent_ahead(u, s.is))
            xds_msg_put(r, s.is->any);
        note_sent(u, s.is);
    }
}

static void sotw_forced(struct xds_sub *u, const struct sw_xds_snap *to, struct xds_msg *r)
{
    while (!sw_list_empty(&u->forced)) {
        struct xds_name *n = SW_CONTAINER_OF(u->forced.next, struct xds_name, forced);
        struct sw_xds_res *res = sw_xds_snap_get(to, n->name);

        if (res && !u->kind->full)
            xds_msg_put(r, res->any);
        if (u->kind->full)
            u->answer = true;
        else
            sent_ahead(u, n, res);
        /* State of the world has no words for what does not exist. */
        if (!u->kind->full && !res && !n->owed) {
            n->owed = true;
            u->n_owed++;
        }
        sw_list_unlink(&n->forced);
    }
}

/*
 * A resource that was subscribed to before it existed is an answer when it appears, not a change
 * that waits for its turn: Envoy holds back the ACK of a cluster until it has the endpoints.
 */
static void sotw_owed(struct xds_sub *u, const struct sw_xds_snap *now)
{
    if (u->n_owed == 0 || u->base == now)
        return;
    SW_MAP_EACH (struct xds_name, n, &u->names) {
        if (!n->owed || !sw_xds_snap_get(now, n->name))
            continue;
        n->owed = false;
        u->n_owed--;
        xds_sub_force(u, n->name);
    }
}

/* 'to' differs from base (walked), or forced names are due. */
static bool sotw_send(struct xds_sub *u, struct sw_xds_snap *to, bool walked)
{
    struct xds_msg r;
    bool sent = false;

    xds_msg_init(&r, to->version, u->stream->server->o.max_response);
    sotw_forced(u, to, &r);
    walked = walked || (u->kind->full && u->answer); /* then all of it goes */
    sotw_changes(u, to, walked, &r);
    if (u->kind->full && walked) {
        sotw_all(u, to, &r);
        u->answer = true;
    }
    if (walked) {
        sw_xds_snap_set(&u->base, sw_xds_snap_ref(to));
    }
    if (r.n || u->answer)
        sent = xds_msg_send(u, &r);
    xds_msg_done(&r);
    return sent;
}

/* --- when --- */

static bool waiting(const struct xds_sub *u)
{
    const struct sw_xds_server *s = u->stream->server;

    return u->pending && sw_loop_now(s->loop) - u->sent_ns < s->o.ack_timeout_ns;
}

/* A client that reconnects with a wildcard serves what it holds until it is this type's turn. */
static bool can_wait(const struct xds_sub *u)
{
    return u->initial.n && !u->target && !u->kind->removed_last && sw_list_empty(&u->forced) &&
           sw_list_empty(&u->gone);
}

/*
 * One type in one pass. held: only what the client asked for explicitly may go. True: a response
 * went out.
 */
static bool push_sub(struct xds_sub *u, bool held, bool removals)
{
    struct sw_xds_snap *now = xds_stream_snap(u->stream, sw_slice_str(u->url));
    bool last = removals || !u->kind->removed_last;
    bool walked = false;
    struct sw_xds_snap *to;
    bool sent = false;

    if (u->follow)
        return xds_follow_push(u, held, removals);
    if (held && can_wait(u))
        return false;
    if (!held)
        sw_list_splice(&u->forced, &u->patient);
    if (!u->stream->delta)
        sotw_owed(u, now);
    else if (last && !held && !u->target)
        take_back(u, now);
    if (u->base == now && !due(u))
        return false;
    to = last ? sw_xds_snap_ref(now) : sw_xds_snap_union(u->base, now);
    if (u->stream->delta) {
        /* A wildcard subscription is an explicit request too. */
        if ((!held || u->answer) && !u->target && u->base != to)
            delta_begin(u, sw_xds_snap_ref(to), last);
        if (due(u))
            sent = delta_send(u, now);
    } else {
        walked = (!held || u->answer) && !same(u, to);
        if (walked || due(u)) {
            sent = sotw_send(u, to, walked);
        } else if (!held && last && u->base != to) {
            sw_xds_snap_set(&u->base, sw_xds_snap_ref(to));
        }
    }
    sw_xds_snap_unref(to);
    return sent;
}

void xds_stream_on_timer(struct sw_timer *t)
{
    xds_stream_wake(SW_CONTAINER_OF(t, struct xds_stream, timer));
}

/* False: nothing more may be sent now. */
static bool push_pass(struct xds_stream *st, bool removals, bool *held)
{
    SW_LIST_EACH (struct xds_sub, u, &st->subs, link) {
        bool busy = waiting(u);

        if (sw_grpc_queued(st->call) > st->server->o.piece)
            return false; /* continues when the client took it */
        if (!busy)
            busy = push_sub(u, u->kind->rank && *held, removals) || u->target;
        if (busy && u->kind->rank)
            *held = true;
    }
    return true;
}

/*
 * A client that names its clusters, as gRPC does, subscribes to the one a new route needs only when
 * it has that route, and uses the old one until then. Such a client gets removals a while after its
 * last ACK; by then it usually has dropped the name itself. Zero: now.
 */
static uint64_t removals_wait(struct xds_stream *st)
{
    uint64_t now = sw_loop_now(st->server->loop);
    bool named = false;
    uint64_t end;

    SW_LIST_EACH (const struct xds_sub, u, &st->subs, link) {
        if (u->kind->full && u->kind->removed_last && !u->wildcard && u->base)
            named |= u->base != xds_stream_snap(st, sw_slice_str(u->url));
    }
    if (!named)
        return 0;
    if (st->lingers_ns == 0)
        st->lingers_ns = now;
    end = sw_min(st->answered_ns + linger_ns, st->lingers_ns + linger_max_ns);
    return end > now ? end - now : 0;
}

static void push_removals(struct xds_stream *st, bool *held)
{
    uint64_t wait_ns = removals_wait(st);

    if (wait_ns) {
        sw_timer_start(st->server->loop, &st->timer, wait_ns + SW_NS_PER_MS, xds_stream_on_timer);
        return;
    }
    st->lingers_ns = 0;
    (void)push_pass(st, true, held);
}

void xds_stream_push(struct xds_stream *st)
{
    struct sw_xds_server *s = st->server;
    bool held = false;
    bool pending = false;

    if (!st->cache || sw_xds_cache_held(st->cache) || xds_stream_blind(st))
        return;
    if (push_pass(st, false, &held) && !held)
        push_removals(st, &held);
    SW_LIST_EACH (const struct xds_sub, u, &st->subs, link)
        pending |= waiting(u);
    if (pending && !sw_timer_running(&st->timer))
        sw_timer_start(s->loop, &st->timer, s->o.ack_timeout_ns + SW_NS_PER_MS,
                       xds_stream_on_timer);
    xds_stream_settle(st);
}

bool xds_sub_settled(const struct xds_sub *u)
{
    if (u->follow)
        return xds_follow_settled(u);
    return !u->pending && !due(u) && sw_list_empty(&u->patient) && sw_list_empty(&u->leaving) &&
           u->base == xds_stream_snap(u->stream, sw_slice_str(u->url));
}

bool xds_sub_synced(const struct xds_sub *u)
{
    return xds_sub_settled(u) && !u->nack;
}
