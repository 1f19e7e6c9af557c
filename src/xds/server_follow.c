/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Subscriptions of large types: what a client has is a number in the table's log of changes, and a
 * response is what comes after it. Clients that subscribe on demand get what they ask for, the
 * endpoints of services among it, and the workloads of their own node.
 */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"
#include "proto/pb.h"
#include "xds/server_int.h"
#include "xds/table.h"

enum {
    FIRST_PIECE = 24 << 20,  /* bytes of a first answer in one response */
    FIRST_TOTAL = 256 << 20, /* bytes of first answers that clients have not taken yet */
    FIELD_REMOVED = 6,       /* removed_resources */
    GONE_MAX = 256 << 20,    /* bytes of names that a client holds and that do not exist */
};

struct xds_follow *xds_follow_new(const struct xds_table *table)
{
    struct xds_follow *f = SW_NEW(struct xds_follow);

    f->table = table;
    sw_buf_init(&f->gone, GONE_MAX);
    return f;
}

static void forget_held(struct xds_follow *f)
{
    sw_free(f->held);
    f->held = NULL;
    f->n_held = 0;
}

void xds_follow_release(struct xds_sub *u)
{
    struct sw_xds_server *s = u->stream->server;
    struct xds_follow *f = u->follow;

    if (!f || !f->charged)
        return;
    s->first_bytes -= f->charged;
    f->charged = 0;
    SW_LIST_EACH (struct xds_stream, st, &s->streams, link) {
        SW_LIST_EACH (const struct xds_sub, o, &st->subs, link) {
            if (o->follow && o->follow->queued)
                xds_stream_wake(st);
        }
    }
}

void xds_follow_free(struct xds_sub *u)
{
    if (!u->follow)
        return;
    u->follow->queued = false;
    xds_follow_release(u);
    forget_held(u->follow);
    sw_buf_done(&u->follow->gone);
    sw_free(u->follow);
}

/* --- joining --- */

/* Workloads of the client's own node, which it needs before anything else. */
static int ask_local(struct xds_sub *u, const struct xds_table *t)
{
    struct xds_hits local;

    if (u->stream->node_name.n == 0)
        return SW_OK;
    xds_index_find(&t->nodes, u->stream->node_name, &local);
    SW_VEC_EACH (const struct xds_rec, r, &local) {
        int rc = xds_follow_ask(u, r->name, true);

        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

void xds_follow_join(struct xds_sub *u, bool wildcard)
{
    const struct xds_table *t = u->follow->table;
    struct xds_follow *f = u->follow;

    forget_held(f);
    f->since = t->seq;
    f->at = wildcard ? 0 : t->seq;
    f->removed_at = t->seq;
    f->first = wildcard;
    u->wildcard = wildcard;
    u->answer = true;
    if (!wildcard)
        (void)ask_local(u, t); /* beyond the limit they are sent when subscribed to */
}

/* Subscribes to a name, which is answered if force is set. */
static int add(struct xds_sub *u, struct sw_slice name, bool implied, bool force)
{
    int rc = xds_sub_add(u, name, force);
    struct xds_name *n = sw_map_get(&u->names, name);

    if (n)
        n->implied = implied;
    return rc;
}

int xds_follow_ask(struct xds_sub *u, struct sw_slice name, bool implied)
{
    if (implied && sw_map_get(&u->names, name))
        return SW_OK; /* the client has it, or will get it */
    return add(u, name, implied, true);
}

static void hold(struct xds_follow *f, const struct xds_table *t, const struct xds_rec *r)
{
    if (!f->held) {
        f->n_held = t->n_slots;
        f->held = sw_calloc(f->n_held / 8 + 1, 1);
    }
    if (r->slot < f->n_held)
        f->held[r->slot / 8] |= (uint8_t)(1u << r->slot % 8);
}

static bool holds(const struct xds_follow *f, const struct xds_rec *r)
{
    return r->seq <= f->since && r->slot < f->n_held && (f->held[r->slot / 8] >> r->slot % 8 & 1);
}

int xds_follow_holds(struct xds_sub *u, struct sw_slice name, struct sw_slice version)
{
    const struct xds_table *t = u->follow->table;
    const struct xds_rec *r = xds_table_get(t, name);
    bool current = r && sw_slice_eq(r->res->version, version);
    const struct xds_name *n = sw_map_get(&u->names, name);

    if (name.n > SW_XDS_NAME_MAX)
        return SW_ELIMIT;
    if (u->wildcard && !r)
        return sw_pb_put_bytes(&u->follow->gone, FIELD_REMOVED, name);
    if (u->wildcard) {
        if (current)
            hold(u->follow, t, r);
        return SW_OK;
    }
    /* On demand, what a client holds it has subscribed to. */
    if (n && current)
        xds_sub_drop(u, name); /* it was to be sent */
    return add(u, name, true, !current);
}

int xds_follow_resume(struct xds_sub *u)
{
    const struct xds_table *t = u->follow->table;
    SW_VEC(struct sw_slice) held = {0};
    int rc = SW_OK;

    SW_MAP_FOREACH (it, &u->names)
        sw_vec_push(&held, it->key);
    for (size_t i = 0; i < held.n && rc == SW_OK; i++) {
        struct xds_hits endpoints;

        xds_index_find(&t->services, held.p[i], &endpoints);
        for (size_t k = 0; k < endpoints.n && rc == SW_OK; k++)
            rc = xds_follow_ask(u, endpoints.p[k]->name, true);
    }
    sw_vec_done(&held);
    return rc;
}

/* --- sending --- */

static void put(const struct xds_sub *u, struct xds_msg *m, const struct sw_xds_res *res)
{
    if (!u->stream->delta)
        xds_msg_put(m, res->any);
    else
        xds_msg_put(m, u->wildcard ? res->resource : res->aliased);
}

static void too_many(struct xds_sub *u)
{
    xds_stream_close(u->stream, SW_GRPC_RESOURCE_EXHAUSTED, "too many names");
}

/* A subscribed resource, once per response. Endpoints of a service are included. */
static void put_record(struct xds_sub *u, struct xds_msg *m, struct xds_rec *r)
{
    const struct xds_table *t = u->follow->table;
    struct xds_hits endpoints;
    int rc = SW_OK;

    if (sw_map_put(&m->answered, r->name, r))
        return;
    put(u, m, r->res);
    if (u->wildcard || !u->stream->delta)
        return;
    if (!sw_map_get(&u->names, r->name)) /* found by alias */
        rc = add(u, r->name, true, false);
    xds_index_find(&t->services, r->name, &endpoints);
    for (size_t i = 0; i < endpoints.n && rc == SW_OK; i++)
        rc = xds_follow_ask(u, endpoints.p[i]->name, true);
    if (rc != SW_OK)
        too_many(u);
}

static void put_key(struct xds_sub *u, struct xds_msg *m, struct sw_slice key)
{
    const struct xds_table *t = u->follow->table;
    struct xds_rec *r = xds_table_get(t, key);
    struct xds_hits hits;

    if (r) {
        put_record(u, m, r);
        return;
    }
    xds_index_find(&t->aliases, key, &hits);
    SW_VEC_EACH (struct xds_rec, hit, &hits)
        put_record(u, m, hit);
    if (hits.n == 0 && u->stream->delta)
        xds_msg_remove(m, key);
}

static void put_forced(struct xds_sub *u, struct xds_msg *m, size_t max)
{
    struct xds_name *n;

    while (xds_msg_size(m) < max && (n = SW_LIST_POP(&u->forced, struct xds_name, forced)) != NULL)
        put_key(u, m, n->name);
}

/* True when the client subscribed to something that this resource comes along with. */
static bool comes_along(const struct xds_sub *u, const struct sw_xds_res *res)
{
    if (res->node.n && sw_slice_eq(res->node, u->stream->node_name))
        return true;
    for (size_t i = 0; i < res->n_aliases; i++) {
        if (sw_map_get(&u->names, sw_xds_res_alias(res, i)))
            return true;
    }
    for (size_t i = 0; i < res->n_services; i++) {
        if (sw_map_get(&u->names, sw_xds_res_service(res, i)))
            return true;
    }
    return false;
}

/* A service that was subscribed to before it existed brings its endpoints, too. */
static void put_change(struct xds_sub *u, struct xds_msg *m, struct xds_rec *r)
{
    if (holds(u->follow, r) || (m->answered.n && sw_map_get(&m->answered, r->name)))
        return;
    if (u->wildcard)
        put(u, m, r->res);
    else if (xds_sub_wants(u, r->name) || comes_along(u, r->res))
        put_record(u, m, r);
}

static void put_removal(struct xds_sub *u, struct xds_msg *m, const struct xds_rec *r)
{
    const struct xds_name *n = sw_map_get(&u->names, r->name);

    if (r->seq <= u->follow->since || (!u->wildcard && !n))
        return;
    xds_msg_remove(m, r->name);
    if (n && n->implied)
        xds_sub_drop(u, r->name);
}

/* Changes after *at, until the piece is full. True: at the end of the log. */
static bool put_log(struct xds_sub *u, struct xds_msg *m, size_t max, uint64_t *at, bool additions,
                    bool removals)
{
    const struct xds_table *t = u->follow->table;

    for (size_t i = xds_table_after(t, *at); i < t->log.n; i++) {
        const struct xds_change_at *c = &t->log.p[i];

        if (xds_msg_size(m) >= max)
            return false;
        *at = c->seq;
        if (!xds_change_counts(c))
            continue;
        if (c->rec->res && additions)
            put_change(u, m, c->rec);
        else if (!c->rec->res && removals)
            put_removal(u, m, c->rec);
    }
    *at = t->seq;
    return true;
}

/* Names that the client claimed to hold. */
static void put_gone(struct xds_follow *f, struct xds_msg *m, size_t max)
{
    while (sw_buf_len(&f->gone) && xds_msg_size(m) < max) {
        struct sw_slice rest = sw_buf_slice(&f->gone);
        size_t before = rest.n;
        struct sw_pb_field field;

        if (sw_pb_next(&rest, &field) != SW_OK)
            return; /* it is of our own making */
        xds_msg_remove(m, field.bytes);
        sw_buf_consume(&f->gone, before - rest.n);
    }
}

/* The client's own node first, and then in the order of the log, which skips those. */
static void put_local(struct xds_sub *u, struct xds_msg *m)
{
    const struct xds_table *t = u->follow->table;
    struct xds_follow *f = u->follow;
    struct xds_hits local;

    if (f->at > 0 || !f->first || u->stream->node_name.n == 0)
        return;
    xds_index_find(&t->nodes, u->stream->node_name, &local);
    SW_VEC_EACH (const struct xds_rec, r, &local) {
        if (holds(f, r))
            continue;
        put(u, m, r->res);
        hold(f, t, r);
    }
}

static void fill(struct xds_sub *u, struct xds_msg *m, size_t max, bool held, bool removals)
{
    struct xds_follow *f = u->follow;
    bool last = removals || !u->kind->removed_last;

    put_forced(u, m, max);
    if (!held || u->answer) {
        put_local(u, m);
        if (put_log(u, m, max, &f->at, true, !u->kind->removed_last))
            f->first = false;
        if (f->at >= f->since)
            forget_held(f);
    }
    if (!last || (held && !u->answer))
        return;
    put_gone(f, m, max);
    if (u->kind->removed_last)
        (void)put_log(u, m, max, &f->removed_at, false, true);
}

/* --- when --- */

/* Removals that the table does not know any more were not sent. */
static bool missed(const struct xds_sub *u, const struct xds_table *t)
{
    const struct xds_follow *f = u->follow;
    uint64_t at = u->kind->removed_last ? f->removed_at : f->at;

    return sw_max(at, f->since) < t->forgotten;
}

/* First answers are large: a few at a time. */
static bool must_queue(struct xds_sub *u)
{
    const struct sw_xds_server *s = u->stream->server;
    struct xds_follow *f = u->follow;

    f->queued = f->first && f->charged == 0 && s->first_bytes >= FIRST_TOTAL;
    return f->queued;
}

/* A client that reconnects is about to subscribe to what its resources refer to. */
static bool must_wait(struct xds_sub *u)
{
    struct xds_stream *st = u->stream;
    uint64_t now = sw_loop_now(st->server->loop);
    uint64_t until = u->follow->patient_ns;

    if (until == 0)
        return false;
    if (now >= until || xds_sub_before(u)) {
        u->follow->patient_ns = 0;
        return false;
    }
    sw_timer_start(st->server->loop, &st->timer, until - now + SW_NS_PER_MS, xds_stream_on_timer);
    return true;
}

static bool due(const struct xds_sub *u, const struct xds_table *t, bool held, bool removals)
{
    const struct xds_follow *f = u->follow;

    if (u->answer || !sw_list_empty(&u->forced))
        return true;
    if (held)
        return false;
    if (f->at < t->seq)
        return true;
    return (removals || !u->kind->removed_last) &&
           (sw_buf_len(&f->gone) || (u->kind->removed_last && f->removed_at < t->seq));
}

static bool send_delta(struct xds_sub *u, const struct xds_table *t, bool held, bool removals)
{
    struct xds_stream *st = u->stream;
    struct xds_follow *f = u->follow;
    bool first = f->first;
    struct xds_msg m;
    bool sent = false;

    xds_msg_init(&m, t->version, sw_max(st->server->o.max_response, (size_t)FIRST_PIECE * 3));
    fill(u, &m, first ? FIRST_PIECE : st->server->o.piece, held, removals);
    if (m.n || u->answer) {
        if (first) {
            f->charged += xds_msg_size(&m);
            st->server->first_bytes += xds_msg_size(&m);
        }
        sent = xds_msg_send(u, &m);
    }
    xds_msg_done(&m);
    return sent;
}

/* State of the world: all that is wanted, whenever any of it may have changed. */
static bool send_all(struct xds_sub *u, const struct xds_table *t)
{
    struct xds_msg m;
    bool sent;

    while (!sw_list_empty(&u->forced)) {
        sw_list_unlink(u->forced.next);
        u->answer = true;
    }
    if (!u->answer && strcmp(u->sent, t->version) == 0)
        return false;
    xds_msg_init(&m, t->version, u->stream->server->o.max_response);
    for (size_t i = 0; u->wildcard && i < t->log.n; i++) {
        const struct xds_rec *r = t->log.p[i].rec;

        if (xds_change_counts(&t->log.p[i]) && r->res)
            put(u, &m, r->res);
    }
    if (!u->wildcard) {
        SW_MAP_FOREACH (it, &u->names)
            put_key(u, &m, it->key);
    }
    sent = xds_msg_send(u, &m);
    xds_msg_done(&m);
    return sent;
}

bool xds_follow_push(struct xds_sub *u, bool held, bool removals)
{
    const struct xds_table *t = u->follow->table;

    if (!u->stream->delta)
        return !held && send_all(u, t);
    if (!due(u, t, held, removals) || must_wait(u) || must_queue(u))
        return false;
    if (missed(u, t)) {
        sw_log_limited(&u->stream->server->clients, sw_loop_now(u->stream->server->loop),
                       SW_LOG_INFO, "xds",
                       "node '%.*s' is more than %zu removals behind: its stream ends",
                       SW_SLICE_ARG(u->stream->node_id), t->n_removed);
        sw_grpc_finish(u->stream->call, SW_GRPC_UNAVAILABLE, "too far behind, reconnect");
        return false;
    }
    return send_delta(u, t, held, removals);
}

bool xds_follow_settled(const struct xds_sub *u)
{
    const struct xds_table *t = u->follow->table;

    if (!u->stream->cache || u->pending || u->answer || !sw_list_empty(&u->forced))
        return false;
    if (!u->stream->delta)
        return strcmp(u->sent, t->version) == 0;
    return u->follow->at == t->seq && sw_buf_len(&u->follow->gone) == 0 &&
           (!u->kind->removed_last || u->follow->removed_at == t->seq);
}
