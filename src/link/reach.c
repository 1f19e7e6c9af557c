/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A carrier to one of a peer's gateways. Gateways take turns; one that failed is passed over for a
 * while, unless all did. Towards peers that agree on HTTP/2 connections are shared, otherwise each
 * tunnel has its own.
 */

#include "base/mem.h"
#include "base/time.h"
#include "io/resolver.h"
#include "link/link_int.h"

enum { BAD_S = 10, BAD_MAX = 256 };

/* ---- what is known about peers ---- */

static struct link_far *far_of(struct link_worker *w, struct sw_slice name)
{
    struct link_far *f = sw_map_get(&w->far, name);

    if (f)
        return f;
    f = SW_NEW(struct link_far);
    f->name = sw_slice_copy(name);
    (void)sw_map_put(&w->far, f->name, f);
    return f;
}

void link_reach_sweep(struct link_worker *w)
{
    SW_MAP_EACH (struct link_far, f, &w->far) {
        if (w->snap && sw_map_get(&w->snap->peers, f->name))
            continue;
        (void)sw_map_del(&w->far, f->name);
        sw_slice_free(&f->name);
        sw_free(f);
    }
}

static bool is_bad(const struct link_worker *w, const struct sw_addr *at)
{
    for (size_t i = 0; i < w->bad.n; i++) {
        if (sw_addr_eq(&w->bad.p[i].at, at))
            return w->bad.p[i].until_ns > sw_loop_now(w->loop);
    }
    return false;
}

static void set_bad(struct link_worker *w, const struct sw_addr *at)
{
    uint64_t now = sw_loop_now(w->loop);
    struct link_bad b = {.at = *at, .until_ns = now + BAD_S * SW_NS_PER_S};
    size_t i = 0;

    while (i < w->bad.n && !sw_addr_eq(&w->bad.p[i].at, at) && w->bad.p[i].until_ns > now)
        i++;
    if (i < w->bad.n)
        w->bad.p[i] = b;
    else if (w->bad.n < BAD_MAX)
        sw_vec_push(&w->bad, b);
}

/* ---- one gateway after the other ---- */

static void try_gateway(struct link_reach *r);
static void try_address(struct link_reach *r);

static void give_up(struct link_reach *r)
{
    struct sw_err err = r->err;

    if (err.rc == SW_OK)
        (void)sw_err_set(&err, SW_ENOENT, "peer has no gateway");
    (void)sw_err_prefix(&err, "peer '%.*s'", SW_SLICE_ARG(r->peer->name));
    r->cb(r, NULL, NULL, &err);
}

static void next_gateway(struct link_reach *r)
{
    r->tried++;
    try_gateway(r);
}

static void on_pool(struct sw_pool_wait *w, struct sw_session *s, int rc, enum sw_pool_stage stage,
                    const struct sw_err *err);

static void ask_pool(struct link_reach *r, bool alone)
{
    struct link_worker *w = r->w;
    struct sw_pool_target t = {
        /* Part of the key: after a renewal nothing opened before is used. */
        .owner = (const void *)(uintptr_t)w->snap->cred_version,
        .cred = w->snap->cred,
        .host = r->peer->host,
        .alone = alone,
        .alpn = r->peer->wire == LINK_WIRE_CLUSTERLINK ? "http/1.1" : NULL,
        .addr = r->at,
        .sock = SW_SOCK_OPTS_INIT,
    };
    struct sw_session *s;
    enum sw_pool_use use;

    t.sock.egress = w->link->egress;
    s = sw_pool_get(w->pool, &t, &r->wait, on_pool, &use);
    r->fed = s == NULL;
    if (s)
        r->cb(r, s, NULL, NULL);
}

void link_reach_next(struct link_reach *r, const struct sw_err *err)
{
    r->err = *err;
    set_bad(r->w, &r->at);
    try_address(r);
}

static void on_pool(struct sw_pool_wait *wait, struct sw_session *s, int rc,
                    enum sw_pool_stage stage, const struct sw_err *err)
{
    struct link_reach *r = SW_CONTAINER_OF(wait, struct link_reach, wait);

    r->fed = false;
    if (rc == SW_OK) {
        far_of(r->w, r->peer->name)->h1 = false;
        r->cb(r, s, NULL, NULL);
    } else if (rc == SW_ELIMIT) {
        ask_pool(r, false); /* full meanwhile: another one */
    } else {
        link_reach_next(r, err);
    }
}

void link_reach_other(struct sw_pool_wait *wait, struct sw_session_parts *parts)
{
    struct link_reach *r = SW_CONTAINER_OF(wait, struct link_reach, wait);
    struct sw_err err = {0};

    r->fed = false;
    if (r->peer->wire == LINK_WIRE_SPANWIRE) {
        if (parts)
            sw_session_parts_close(parts);
        (void)sw_err_set(&err, SW_EPROTO, "gateway does not speak HTTP/2, which is demanded");
        link_reach_next(r, &err);
        return;
    }
    if (r->peer->wire == LINK_WIRE_AUTO) /* otherwise it was not asked */
        far_of(r->w, r->peer->name)->h1 = true;
    if (parts)
        r->cb(r, NULL, parts, NULL);
    else
        ask_pool(r, true);
}

static bool wants_own(const struct link_reach *r)
{
    if (r->peer->wire == LINK_WIRE_AUTO)
        return far_of(r->w, r->peer->name)->h1;
    return r->peer->wire == LINK_WIRE_CLUSTERLINK;
}

/* The addresses of one gateway. */
static void try_address(struct link_reach *r)
{
    while (r->at_addr < r->n_addrs) {
        r->at = r->addrs[r->at_addr++];
        if (!r->second && is_bad(r->w, &r->at)) {
            r->skipped = true;
            continue;
        }
        ask_pool(r, wants_own(r));
        return;
    }
    next_gateway(r);
}

static void on_resolved(struct sw_resolve *q)
{
    struct link_reach *r = q->arg;

    if (r) {
        const struct link_endpoint *e = &r->peer->ends[(r->turn + r->tried) % r->peer->n_ends];

        r->resolve = NULL;
        for (size_t i = 0; q->rc == SW_OK && i < q->n && i < SW_ARRAY_LEN(r->addrs); i++)
            r->addrs[r->n_addrs++] = (struct sw_addr){.ip = q->ips[i], .port = e->port};
        if (r->n_addrs == 0)
            (void)sw_err_set(&r->err, SW_ENOENT, "cannot resolve gateway '%.*s'",
                             SW_SLICE_ARG_MAX(e->host, 100));
        try_address(r);
    }
    sw_free(q);
}

static void try_gateway(struct link_reach *r)
{
    const struct link_endpoint *e;

    if (r->tried == r->peer->n_ends) {
        if (r->second || !r->skipped) {
            give_up(r);
            return;
        }
        r->second = true; /* those that failed lately are better than none */
        r->tried = 0;
    }
    e = &r->peer->ends[(r->turn + r->tried) % r->peer->n_ends];
    r->n_addrs = 0;
    r->at_addr = 0;
    if (!e->ip.family) {
        r->resolve = sw_resolve_new(r->w->loop, e->host, on_resolved, r);
        return;
    }
    r->addrs[r->n_addrs++] = (struct sw_addr){.ip = e->ip, .port = e->port};
    try_address(r);
}

void link_reach_start(struct link_reach *r, struct link_worker *w, struct link_res *peer,
                      link_reach_cb cb)
{
    *r = (struct link_reach){.w = w, .peer = link_res_ref(peer), .cb = cb};
    r->turn = far_of(w, peer->name)->turn++;
    try_gateway(r);
}

void link_reach_again(struct link_reach *r)
{
    ask_pool(r, false);
}

void link_reach_cancel(struct link_reach *r)
{
    if (!r->peer)
        return;
    if (r->resolve)
        r->resolve->arg = NULL;
    r->resolve = NULL;
    if (r->fed)
        sw_pool_cancel(&r->wait);
    r->peer = link_res_unref(r->peer);
}
