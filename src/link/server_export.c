/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request of a peer: asked about at the control plane, and, for a tunnel, the way to the
 * exported service: its name resolved, its address judged, connected.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "io/resolver.h"
#include "link/server.h"

enum { ADDRS_MAX = 4 }; /* of a service that are tried */

/* What is needed only until the service is connected. */
struct export_dial {
    struct sw_dial dial;
    struct link_export *e;
    struct link_res *res; /* a reference */
    struct sw_resolve *resolve;
    struct sw_addr addrs[ADDRS_MAX];
    size_t n;
    size_t at;
    struct sw_err err;
};

static void dial_free(struct link_export *e)
{
    struct export_dial *d = SW_TAKE(e->dial);

    if (!d)
        return;
    sw_dial_cancel(&d->dial);
    if (d->resolve)
        d->resolve->arg = NULL;
    (void)link_res_unref(d->res);
    sw_free(d);
}

static void on_reap(struct sw_defer *defer)
{
    struct link_export *e = SW_CONTAINER_OF(defer, struct link_export, reap);

    dial_free(e);
    sw_free(e);
}

void link_export_end(struct link_export *e, const char *result, const char *why)
{
    if (e->over)
        return;
    e->over = true;
    link_ask_cancel(&e->ask);
    sw_timer_stop(e->server->w->loop, &e->timer);
    if (e->dial)
        sw_dial_cancel(&e->dial->dial);
    if (e->tunnel)
        link_conn_end(&e->conn, result, why);
    if (!e->stream.session) /* otherwise with the stream */
        link_export_free(e);
}

void link_export_free(struct link_export *e)
{
    sw_loop_defer(e->server->w->loop, &e->reap, on_reap);
}

void link_export_init(struct link_export *e, struct link_server *s, bool tunnel)
{
    e->server = s;
    e->tunnel = tunnel;
    e->stream.fd = -1;
    if (!tunnel)
        return;
    link_conn_init(&e->conn, s->w, false, &s->addr);
    link_conn_set(&e->conn.peer, sw_slice_str(s->peer));
}

static void reply(struct link_export *e, const struct link_reply *r)
{
    if (e->h2)
        link_h2_reply(e, r);
    else
        link_h1_reply(e, r);
}

/* The tunnel is refused: the log has the reason, the peer the status and a sentence. */
static void refuse(struct link_export *e, unsigned status, const char *result, const char *why)
{
    struct link_reply r = {.status = status, .body = sw_slice_str(why)};

    link_export_end(e, result, why);
    reply(e, &r);
}

/* ---- the service ---- */

static void dial_next(struct export_dial *d);

static void on_dialled(struct sw_dial *dial, int rc, const struct sw_err *err)
{
    struct export_dial *d = SW_CONTAINER_OF(dial, struct export_dial, dial);
    struct link_export *e = d->e;
    struct sw_dialled dialled;

    if (rc != SW_OK) {
        d->err = *err;
        dial_next(d);
        return;
    }
    e->conn.dst = d->addrs[d->at - 1];
    sw_dial_take(dial, &dialled);
    dial_free(e);
    link_conn_opened(&e->conn);
    if (e->h2)
        link_h2_connected(e, &dialled);
    else
        link_h1_connected(e, &dialled);
}

static void dial_next(struct export_dial *d)
{
    struct link_export *e = d->e;
    struct link_worker *w = e->server->w;
    struct sw_sock_opts o = SW_SOCK_OPTS_INIT;
    char why[320];

    if (d->at == d->n) {
        (void)snprintf(why, sizeof(why), "cannot connect to '%.*s': %s",
                       SW_SLICE_ARG_MAX(d->res->name, 80), d->err.msg);
        sw_log_warn("link", "export '%.*s': %s", SW_SLICE_ARG(d->res->name), d->err.msg);
        link_export_end(e, "service_unreachable", why);
        reply(e, &(struct link_reply){.status = 503, .body = SW_SLICE_LIT("service unreachable")});
        return;
    }
    o.egress = w->link->egress;
    sw_dial_start(&d->dial, w->loop,
                  &(struct sw_dial_target){
                      .to = &d->addrs[d->at++], .opts = &o, .timeout_ns = w->config->connect_ns},
                  on_dialled);
}

static void on_resolved(struct sw_resolve *q)
{
    struct export_dial *d = q->arg;

    if (d) {
        d->resolve = NULL;
        for (size_t i = 0; q->rc == SW_OK && i < q->n && d->n < ADDRS_MAX; i++)
            d->addrs[d->n++] = (struct sw_addr){.ip = q->ips[i], .port = d->res->ends[0].port};
        if (d->n == 0)
            (void)sw_err_set(&d->err, SW_ENOENT, "cannot resolve host '%.*s'",
                             SW_SLICE_ARG_MAX(d->res->ends[0].host, 100));
        dial_next(d);
    }
    sw_free(q);
}

/* Any of the addresses, and those behind it, should it refuse. */
static void take_addresses(struct export_dial *d)
{
    const struct link_res *res = d->res;
    size_t first = res->n_ends > 1 ? sw_rand_below(res->n_ends) : 0;

    for (size_t i = 0; i < res->n_ends && d->n < ADDRS_MAX; i++) {
        const struct link_endpoint *to = &res->ends[(first + i) % res->n_ends];

        if (to->ip.family)
            d->addrs[d->n++] = (struct sw_addr){.ip = to->ip, .port = to->port};
    }
}

static void connect_service(struct link_export *e, struct link_res *res)
{
    struct export_dial *d = SW_NEW(struct export_dial);

    e->dial = d;
    d->e = e;
    d->res = link_res_ref(res);
    take_addresses(d);
    if (d->n)
        dial_next(d);
    else
        d->resolve = sw_resolve_new(e->server->w->loop, res->ends[0].host, on_resolved, d);
}

/* ---- authorisation ---- */

static void allowed(struct link_export *e, const struct link_answer *a)
{
    static const struct sw_slice prefix = SW_SLICE_LIT("export-");
    struct link_worker *w = e->server->w;
    struct link_res *res;

    link_conn_set(&e->conn.service, sw_slice_from(a->host, prefix.n));
    link_conn_set(&e->conn.source, a->source);
    link_conn_set(&e->conn.policy, a->policy);
    link_conn_granted(&e->conn, a->grant);
    res = sw_slice_has_prefix(a->host, prefix) && w->snap
              ? sw_map_get(&w->snap->exports, sw_slice_from(a->host, prefix.n))
              : NULL;
    if (!res)
        refuse(e, 503, "unknown_export", "export is not configured");
    else
        connect_service(e, res);
}

static void on_tunnel_answer(struct link_export *e, const struct link_answer *a)
{
    char why[200];

    if (a->status == 200) {
        allowed(e, a);
        return;
    }
    (void)snprintf(why, sizeof(why), "%.*s", SW_SLICE_ARG_MAX(a->reason, 190));
    link_export_end(e, link_refusal(a), why);
    reply(e, &(struct link_reply){.status = a->status, .body = a->body.n ? a->body : a->reason});
}

static void on_answered(struct link_ask *ask, const struct link_answer *a)
{
    struct link_export *e = SW_CONTAINER_OF(ask, struct link_export, ask);
    struct link_reply r = {.status = a->status, .body = a->body};

    if (e->tunnel) {
        on_tunnel_answer(e, a);
        return;
    }
    if (a->status == 200) {
        r.labels = a->labels;
        r.authorization = a->authorization;
    } else if (a->status < 400) {
        r.status = 500; /* an answer of another kind is none */
    }
    if (!r.body.n && a->status != 200)
        r.body = a->reason;
    /* Without it peers take us for unreachable. */
    if (ask->kind == LINK_ASK_HEALTH && a->status == 200 && !r.labels.n)
        r.labels = SW_SLICE_LIT("bnVsbA==");
    link_export_end(e, "", NULL);
    reply(e, &r);
}

void link_export_ask(struct link_export *e, const struct link_question *q)
{
    struct link_reply busy = {.status = 503, .body = SW_SLICE_LIT("too many requests under way")};

    if (e->tunnel)
        link_conn_asked(&e->conn);
    if (link_ask_start(e->server->w->control, &e->ask, q, on_answered) == SW_OK)
        return;
    link_refused(e->server->w, "overload", &e->server->addr, "too many authorisations under way");
    link_export_end(e, "overload", "too many authorisations under way");
    reply(e, &busy);
}

static struct link_question question(const struct link_server *s, enum link_ask_kind kind)
{
    return (struct link_question){.kind = kind,
                                  .peer = sw_slice_str(s->peer),
                                  .fingerprint = sw_slice_str(s->fingerprint),
                                  .certificate = sw_slice_str(s->certificate)};
}

struct link_question link_export_token(const struct link_server *s, struct sw_slice body)
{
    struct link_question q = question(s, LINK_ASK_TOKEN);

    q.body = body;
    return q;
}

bool link_export_question(const struct link_server *s, struct sw_slice method, struct sw_slice path,
                          struct link_question *q, struct link_reply *ret, struct sw_buf *text)
{
    static const struct {
        const char *method;
        const char *path; /* NULL: any */
        enum link_ask_kind kind;
    } requests[] = {
        {"CONNECT", NULL, LINK_ASK_INGRESS},
        {"GET", "/healthz", LINK_ASK_HEALTH},
        {"POST", "/authz", LINK_ASK_TOKEN},
    };
    struct sw_slice rest = path;
    struct sw_slice bare = sw_slice_cut(&rest, '?');

    for (size_t i = 0; i < SW_ARRAY_LEN(requests); i++) {
        if (!sw_slice_eq_str(method, requests[i].method) ||
            (requests[i].path && !sw_slice_eq_str(bare, requests[i].path)))
            continue;
        *q = question(s, requests[i].kind);
        return true;
    }
    (void)!sw_buf_printf(text, "No handler defined for %.*s %.*s.", SW_SLICE_ARG_MAX(method, 20),
                         SW_SLICE_ARG_MAX(path, 100));
    *ret = (struct link_reply){.status = 400, .body = sw_buf_slice(text)};
    return false;
}

bool link_export_ok(struct link_server *s, const struct link_question *q, struct link_reply *ret)
{
    struct link_worker *w = s->w;

    if (q->kind != LINK_ASK_INGRESS)
        return true;
    *ret = (struct link_reply){.status = 400};
    if (!q->authorization.n)
        ret->body = SW_SLICE_LIT("Missing 'authorization' header.");
    else if (!sw_slice_has_prefix(q->authorization, SW_SLICE_LIT("Bearer ")))
        ret->body = SW_SLICE_LIT("Authorization header is not using the bearer scheme.");
    if (ret->body.n) {
        link_refused(w, "no_token", &s->addr, s->peer);
        return false;
    }
    if (link_conn_room(w, &s->addr))
        return true;
    *ret = (struct link_reply){.status = 503, .body = SW_SLICE_LIT("too many connections")};
    return false;
}

void link_export_closed(struct link_export *e, bool well, const struct sw_err *err)
{
    if (e->tunnel && !e->conn.open)
        link_export_end(e, "client_left", err ? err->msg : "peer left before the answer");
    else if (well)
        link_export_end(e, "ok", NULL);
    else
        link_export_end(e, "lost", err ? err->msg : "connection lost");
}
