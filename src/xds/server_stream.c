/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's requests: identity of the node, subscriptions, ACK and NACK. */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "proto/pb.h"
#include "xds/limits.h"
#include "xds/server_int.h"
#include "xds/table.h"

#include <proto/discovery.pb-c.h>

enum { NODE_TEXT_MAX = 1024, REQUEST_DEPTH = 32 };

static void on_again(struct sw_defer *d)
{
    xds_stream_push(SW_CONTAINER_OF(d, struct xds_stream, again));
}

void xds_stream_wake(struct xds_stream *st)
{
    sw_loop_defer(st->server->loop, &st->again, on_again);
}

/* --- the cache speaks --- */

static void on_change(struct sw_xds_listener *l)
{
    xds_stream_wake(SW_CONTAINER_OF(l, struct xds_stream, listener));
}

static void on_gone(struct sw_xds_listener *l)
{
    struct xds_stream *st = SW_CONTAINER_OF(l, struct xds_stream, listener);

    st->cache = NULL;
    sw_grpc_finish(st->call, SW_GRPC_UNAVAILABLE, "configuration is gone");
}

/* --- life --- */

struct xds_stream *xds_stream_new(struct sw_xds_server *s, struct sw_grpc_call *call,
                                  const char *fixed, bool delta)
{
    struct xds_stream *st = SW_NEW(struct xds_stream);

    st->server = s;
    st->call = call;
    st->fixed = fixed;
    st->delta = delta;
    st->since_ns = sw_loop_now(s->loop);
    st->listener.on_change = on_change;
    st->listener.on_gone = on_gone;
    sw_list_init(&st->listener.link);
    sw_list_init(&st->subs);
    sw_list_push_back(&s->streams, &st->link);
    s->n_streams++;
    if (s->m_streams)
        sw_metric_add(s->m_streams, 1);
    return st;
}

void xds_stream_free(struct xds_stream *st)
{
    struct sw_xds_server *s = st->server;

    sw_xds_cache_unlisten(&st->listener);
    sw_defer_cancel(&st->again);
    sw_timer_stop(s->loop, &st->timer);
    sw_timer_stop(s->loop, &st->review);
    SW_LIST_EACH (struct xds_sub, u, &st->subs, link)
        xds_sub_free(u);
    sw_xds_snap_unref(st->settled);
    sw_list_unlink(&st->link);
    xds_server_changed(s);
    s->n_streams--;
    if (st->waiting)
        s->n_waiting--;
    if (s->m_streams)
        sw_metric_sub(s->m_streams, 1);
    sw_slice_free(&st->node_id);
    sw_slice_free(&st->node_cluster);
    sw_slice_free(&st->node_name);
    sw_slice_free(&st->node_ns);
    sw_slice_free(&st->node_sa);
    if (st->token)
        sw_free_secret(st->token, strlen(st->token));
    sw_free(st);
}

struct sw_xds_client_id xds_stream_id(const struct xds_stream *st)
{
    return (struct sw_xds_client_id){.addr = st->addr,
                                     .cert = st->cert,
                                     .token = sw_slice_str(st->token),
                                     .node_id = st->node_id,
                                     .node_cluster = st->node_cluster,
                                     .node_ns = st->node_ns,
                                     .node_sa = st->node_sa,
                                     .resolves = st->resolves};
}

static void log_closing(const struct xds_stream *st, struct sw_slice why)
{
    struct sw_xds_server *s = st->server;
    char text[SW_ADDR_TEXT];

    sw_log_limited(st->waiting ? &s->strangers : &s->clients, sw_loop_now(s->loop), SW_LOG_WARN,
                   "xds", "closing the stream of client %s, node '%.*s': %.*s",
                   sw_addr_text(&st->addr, text), SW_SLICE_ARG(st->node_id), SW_SLICE_ARG(why));
}

void xds_stream_close(struct xds_stream *st, enum sw_grpc_status status, const char *why)
{
    if (st->shut_out)
        return;
    log_closing(st, sw_slice_str(why));
    xds_count_refusal(st->server, status);
    st->shut_out = true;
    sw_grpc_finish(st->call, status, "%s", why);
}

bool xds_stream_judge(struct xds_stream *st)
{
    const struct sw_xds_server *s = st->server;
    const struct sw_xds_client_id id = xds_stream_id(st);
    struct sw_err err = {0};

    if (st->waiting || st->shut_out)
        return true;
    if (s->o.revoked && s->o.revoked(s->o.arg, &id, &err)) {
        xds_stream_close(st, SW_GRPC_UNAUTHENTICATED, err.msg);
        return false;
    }
    return !st->cache || xds_stream_look(st);
}

bool xds_stream_look(struct xds_stream *st)
{
    const struct sw_xds_server *s = st->server;
    const struct sw_xds_client_id id = xds_stream_id(st);
    char view[SW_XDS_VIEW_MAX] = "";
    struct sw_err err = {0};
    int rc = s->o.view ? s->o.view(s->o.arg, &id, view, &err) : SW_OK;

    if (rc == SW_EPENDING) { /* not known yet: it keeps its view, at first none */
        if (!st->looked)
            (void)snprintf(st->view, sizeof(st->view), "?");
        return true;
    }
    if (rc != SW_OK) {
        xds_stream_close(st, xds_refusal_status(rc), err.msg);
        return false;
    }
    st->looked = true;
    if (strcmp(view, st->view) == 0)
        return true;
    /* What the client has is compared with what the new view has, as with any change. */
    memcpy(st->view, view, sizeof(st->view));
    xds_stream_wake(st);
    return true;
}

struct sw_xds_snap *xds_stream_snap(const struct xds_stream *st, struct sw_slice type)
{
    char name[SW_XDS_VIEW_MAX + 1 + SW_XDS_TYPE_MAX];
    int n;

    if (!st->view[0])
        return sw_xds_cache_get(st->cache, type);
    n = snprintf(name, sizeof(name), "%s#%.*s", st->view, SW_SLICE_ARG(type));
    return sw_xds_cache_get(st->cache, sw_slice(name, (size_t)n));
}

bool xds_stream_blind(const struct xds_stream *st)
{
    return st->view[0] && xds_stream_snap(st, SW_SLICE_LIT(SW_XDS_VIEW))->n == 0;
}

static void on_review(struct sw_timer *t)
{
    struct xds_stream *st = SW_CONTAINER_OF(t, struct xds_stream, review);

    if (!st->shut_out && xds_stream_judge(st))
        xds_stream_review(st);
}

void xds_stream_review(struct xds_stream *st)
{
    const struct sw_xds_server *s = st->server;

    if (s->o.revoked || s->o.view)
        sw_timer_start(s->loop, &st->review, s->o.review_ns, on_review);
}

static bool has_feature(const Sw__Node *node, const char *name)
{
    for (size_t i = 0; i < node->n_client_features; i++) {
        if (sw_slice_eq_str(SW_PB_SLICE(node->client_features[i]), name))
            return true;
    }
    return false;
}

static struct sw_slice copy_text(struct sw_slice text)
{
    text = sw_slice_head(text, NODE_TEXT_MAX);
    return sw_slice_copy(text);
}

/* A copy of a text in the node's metadata; empty when there is none. */
static struct sw_slice copy_meta(const Sw__Node *node, const char *key)
{
    const Sw__Struct *m = node->metadata;

    for (size_t i = 0; m && i < m->n_fields; i++) {
        const Sw__Value *v = m->fields[i]->value;

        if (v && v->kind_case == SW__VALUE__KIND_STRING_VALUE &&
            sw_slice_eq_str(SW_PB_SLICE(m->fields[i]->key), key))
            return copy_text(SW_PB_SLICE(v->string_value));
    }
    return copy_text(sw_slice("", 0));
}

static void refuse_node(struct xds_stream *st, const struct sw_err *err)
{
    enum sw_grpc_status status =
        err->rc == SW_EINVAL ? SW_GRPC_INVALID_ARGUMENT : SW_GRPC_PERMISSION_DENIED;
    const char *why = err->rc ? err->msg : "nothing to serve for this node";
    char text[SW_ADDR_TEXT];

    sw_log_limited(&st->server->clients, sw_loop_now(st->server->loop), SW_LOG_INFO, "xds",
                   "client %s, node '%.*s', refused: %s", sw_addr_text(&st->addr, text),
                   SW_SLICE_ARG(st->node_id), why);
    xds_count_refusal(st->server, status);
    sw_grpc_finish(st->call, status, "%s", why);
}

/* The first request identifies the client, and so what it is served. False: refused. */
static bool identify(struct xds_stream *st, const Sw__Node *node)
{
    struct sw_xds_server *s = st->server;
    struct sw_err err = {0};
    struct sw_xds_client_id id;

    if (st->known)
        return st->cache != NULL;
    st->known = true;
    if (node) {
        st->node_id = copy_text(SW_PB_SLICE(node->id));
        st->node_cluster = copy_text(SW_PB_SLICE(node->cluster));
        st->node_name = copy_meta(node, "NODE_NAME");
        st->node_ns = copy_meta(node, "NAMESPACE");
        st->node_sa = copy_meta(node, "SERVICE_ACCOUNT");
        st->resolves = has_feature(node, SW_XDS_RESOLVES);
    }
    id = xds_stream_id(st);
    st->cache = s->o.select ? s->o.select(s->o.arg, &id, &err) : s->o.cache;
    if (!st->cache) {
        refuse_node(st, &err);
        return false;
    }
    if (!xds_stream_look(st)) {
        st->cache = NULL;
        return false;
    }
    sw_xds_cache_listen(st->cache, &st->listener);
    xds_server_changed(s);
    sw_log_debug("xds", "stream of node '%.*s' is open", SW_SLICE_ARG(st->node_id));
    return true;
}

/*
 * Some types have no producer here: an empty answer would read as if there were no resources. While
 * a large type is incomplete there is nothing to compare with what its clients hold.
 */
static bool type_ready(struct xds_stream *st, struct sw_slice url)
{
    bool large = xds_table_for(url);
    char text[SW_ADDR_TEXT];

    if (!sw_xds_cache_offers(st->cache, url) ||
        (large && (st->view[0] || !sw_xds_cache_table(st->cache, url)))) {
        sw_log_limited(&st->server->clients, sw_loop_now(st->server->loop), SW_LOG_INFO, "xds",
                       "client %s, node '%.*s', asks for type %.*s, which is not served",
                       sw_addr_text(&st->addr, text), SW_SLICE_ARG(st->node_id), SW_SLICE_ARG(url));
        xds_count_refusal(st->server, SW_GRPC_UNIMPLEMENTED);
        sw_grpc_finish(st->call, SW_GRPC_UNIMPLEMENTED, "type %.*s is not served here",
                       SW_SLICE_ARG(url));
        return false;
    }
    if (!large || !(sw_xds_cache_held(st->cache) || sw_xds_cache_awaits(st->cache, url)))
        return true;
    sw_grpc_finish(st->call, SW_GRPC_UNAVAILABLE,
                   "server is not ready to serve discovery information");
    return false;
}

/* The subscription a request speaks of; NULL when the stream was ended. */
static struct xds_sub *sub_for(struct xds_stream *st, struct sw_slice url, bool *ret_new)
{
    struct xds_sub *u;

    if (st->fixed && url.n == 0)
        url = sw_slice_str(st->fixed);
    if (url.n == 0 || url.n > SW_XDS_TYPE_MAX || memchr(url.p, 0, url.n) ||
        memchr(url.p, '#', url.n) || /* a view's */
        (st->fixed && !sw_slice_eq_str(url, st->fixed))) {
        xds_stream_close(st, SW_GRPC_INVALID_ARGUMENT, "bad type_url");
        return NULL;
    }
    if (!type_ready(st, url))
        return NULL;
    u = xds_sub_get(st, url, ret_new);
    if (!u)
        xds_stream_close(st, SW_GRPC_RESOURCE_EXHAUSTED, "too many types on one stream");
    return u;
}

static bool nonce_is(const struct xds_sub *u, ProtobufCBinaryData nonce)
{
    uint64_t n;

    return u->nonce && sw_slice_to_u64(SW_PB_SLICE(nonce), UINT64_MAX, &n) && n == u->nonce;
}

static void answered(struct xds_sub *u, const Sw__Status *error)
{
    struct sw_slice text;

    /*
     * Subscription changes of state of the world repeat the nonce of what was answered before. A
     * delta client that does has learnt something since: a port it could not bind, or now can.
     */
    if (!u->pending && !(u->stream->delta && (error || u->retries)))
        return;
    text = error ? SW_PB_SLICE(error->message) : (struct sw_slice){0};
    xds_sub_answered(u, error ? &text : NULL, error && error->code == SW_GRPC_UNAVAILABLE);
}

static bool is_star(struct sw_slice name)
{
    return name.n == 1 && name.p[0] == '*';
}

static void too_many(struct xds_stream *st)
{
    xds_stream_close(st, SW_GRPC_RESOURCE_EXHAUSTED, "too many names, or one too long");
}

/* --- delta --- */

static int delta_initial(struct xds_sub *u, const Sw__DeltaDiscoveryRequest *req)
{
    if (req->n_initial_resource_versions > u->stream->server->o.max_names)
        return SW_ELIMIT;
    for (size_t i = 0; i < req->n_initial_resource_versions; i++) {
        struct sw_slice k = SW_PB_SLICE(req->initial_resource_versions[i]->key);
        struct sw_slice v = SW_PB_SLICE(req->initial_resource_versions[i]->value);

        if (k.n > SW_XDS_NAME_MAX)
            return SW_ELIMIT;
        if (!sw_map_get(&u->initial, k))
            (void)sw_map_put(&u->initial, sw_slice_copy(k), sw_slice_dup(v));
    }
    return SW_OK;
}

/* The client claims to hold what we would send. */
static bool has_current(const struct xds_sub *u, struct sw_slice name)
{
    const char *version = sw_map_get(&u->initial, name);
    const struct sw_xds_snap *now = xds_stream_snap(u->stream, sw_slice_str(u->url));
    const struct sw_xds_res *r = version ? sw_xds_snap_get(now, name) : NULL;

    return r && sw_slice_eq_str(r->version, version);
}

/*
 * A client that reconnects with an old version can serve with it, and is brought up to date in
 * order. Types that others refer to are sent at once: the client may hold back an ACK for them.
 */
static void delta_ask(struct xds_sub *u, struct sw_slice name, bool first)
{
    if (first && has_current(u, name))
        return;
    if (first && sw_map_get(&u->initial, name) && !u->kind->removed_last)
        xds_sub_await(u, name);
    else
        xds_sub_force(u, name);
}

/*
 * A client that subscribes again to a name it held has dropped it: only the first request skips
 * held ones.
 */
static int delta_subscribe(struct xds_sub *u, const Sw__DeltaDiscoveryRequest *req, bool first)
{
    for (size_t i = 0; i < req->n_resource_names_subscribe; i++) {
        struct sw_slice name = SW_PB_SLICE(req->resource_names_subscribe[i]);
        int rc = SW_OK;

        if (is_star(name)) {
            xds_sub_set_wildcard(u, true);
            u->explicit_seen = true;
        } else {
            rc = xds_sub_add(u, name, false);
            if (rc == SW_OK)
                delta_ask(u, name, first);
        }
        if (rc != SW_OK)
            return rc;
    }
    return SW_OK;
}

static int delta_unsubscribe(struct xds_sub *u, const Sw__DeltaDiscoveryRequest *req)
{
    for (size_t i = 0; i < req->n_resource_names_unsubscribe; i++) {
        struct sw_slice name = SW_PB_SLICE(req->resource_names_unsubscribe[i]);
        bool had = sw_map_get(&u->names, name) != NULL;

        if (is_star(name))
            xds_sub_set_wildcard(u, false);
        xds_sub_drop(u, name);
        if (!had || !u->wildcard)
            continue;
        /* The wildcard still covers it: the client needs its present state. */
        xds_sub_echo(u, name);
        if (u->n_gone > u->stream->server->o.max_names)
            return SW_ELIMIT;
    }
    return SW_OK;
}

static void follow_request(struct xds_sub *u, const Sw__DeltaDiscoveryRequest *req,
                           struct sw_slice msg, bool fresh)
{
    int rc = xds_request_follow(u, req, msg, fresh);

    if (rc == SW_ELIMIT)
        too_many(u->stream);
    else if (rc != SW_OK)
        xds_stream_close(u->stream, SW_GRPC_INVALID_ARGUMENT, "malformed request");
}

/* What of a message is unpacked: large types read the list of what the client holds in place. */
static struct sw_slice to_unpack(struct sw_slice msg, size_t max, struct sw_buf *out)
{
    if (!xds_request_is_large(msg))
        return msg;
    sw_buf_init(out, max + 1);
    return xds_request_strip(msg, out) == SW_OK ? sw_buf_slice(out) : msg;
}

/* Whether a client that names nothing wants everything. */
static bool bare_is_all(const struct xds_sub *u)
{
    return !u->kind->named || u->stream->server->o.bare_is_all;
}

static void delta_request(struct xds_stream *st, struct sw_arena *a, struct sw_slice msg,
                          const struct sw_pb_limits *limits, struct sw_err *err)
{
    SW_BUF_AUTO rest = {0};
    const Sw__DeltaDiscoveryRequest *req =
        SW_PB_UNPACK(a, Sw__DeltaDiscoveryRequest, sw__delta_discovery_request,
                     to_unpack(msg, limits->bytes, &rest), limits, err);
    struct xds_sub *u;
    bool fresh;
    int rc = SW_OK;

    if (!req || !identify(st, req->node))
        return;
    u = sub_for(st, SW_PB_SLICE(req->type_url), &fresh);
    if (!u)
        return;
    if (nonce_is(u, req->response_nonce))
        answered(u, req->error_detail);
    if (u->follow) {
        follow_request(u, req, msg, fresh);
        return;
    }
    if (fresh)
        rc = delta_initial(u, req);
    if (fresh && bare_is_all(u) && req->n_resource_names_subscribe == 0 &&
        req->n_resource_names_unsubscribe == 0)
        xds_sub_set_wildcard(u, true); /* the older way to say "*" */
    if (rc == SW_OK)
        rc = delta_subscribe(u, req, fresh);
    if (rc == SW_OK)
        rc = delta_unsubscribe(u, req);
    if (rc != SW_OK)
        too_many(st);
    if (!u->wildcard)
        xds_initial_done(u);
}

/* --- state of the world --- */

static int sotw_names(struct xds_sub *u, const Sw__DiscoveryRequest *req, bool *ret_wildcard)
{
    struct sw_map keep = {0};
    int rc = SW_OK;

    for (size_t i = 0; i < req->n_resource_names && rc == SW_OK; i++) {
        struct sw_slice name = SW_PB_SLICE(req->resource_names[i]);

        (void)sw_map_put(&keep, name, u);
        if (is_star(name)) {
            *ret_wildcard = true;
            u->explicit_seen = true;
        } else if (!sw_map_get(&u->names, name)) {
            rc = xds_sub_add(u, name, true);
        }
    }
    SW_MAP_EACH (const struct xds_name, n, &u->names) {
        if (!sw_map_get(&keep, n->name))
            xds_sub_drop(u, n->name);
    }
    sw_map_done(&keep);
    return rc;
}

static void sotw_request(struct xds_stream *st, struct sw_arena *a, struct sw_slice msg,
                         const struct sw_pb_limits *limits, struct sw_err *err)
{
    const Sw__DiscoveryRequest *req =
        SW_PB_UNPACK(a, Sw__DiscoveryRequest, sw__discovery_request, msg, limits, err);
    bool wildcard;
    struct xds_sub *u;
    bool fresh;

    if (!req || !identify(st, req->node))
        return;
    u = sub_for(st, SW_PB_SLICE(req->type_url), &fresh);
    if (!u)
        return;
    if (u->nonce && req->response_nonce.len) {
        if (!nonce_is(u, req->response_nonce))
            return; /* stale: the client will repeat itself */
        answered(u, req->error_detail);
    }
    wildcard = req->n_resource_names == 0 && bare_is_all(u) && !u->explicit_seen &&
               (!u->kind->named || fresh || u->wildcard);
    if (sotw_names(u, req, &wildcard) != SW_OK) {
        too_many(st);
        return;
    }
    xds_sub_set_wildcard(u, wildcard);
}

/* --- the call --- */

static void on_message(struct sw_grpc_call *c, struct sw_slice msg, void *arg)
{
    struct xds_stream *st = arg;
    struct sw_pb_limits limits = {.bytes = st->server->o.max_request, .depth = REQUEST_DEPTH};
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};

    if (st->delta)
        delta_request(st, &a, msg, &limits, &err);
    else
        sotw_request(st, &a, msg, &limits, &err);
    if (err.rc)
        xds_stream_close(st, SW_GRPC_INVALID_ARGUMENT, err.msg);
    xds_stream_wake(st);
}

static void on_end(struct sw_grpc_call *c, void *arg)
{
    sw_grpc_finish(c, SW_GRPC_OK, "%s", "");
}

static void on_drain(struct sw_grpc_call *c, void *arg)
{
    xds_stream_wake(arg);
}

static void on_done(struct sw_grpc_call *c, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct xds_stream *st = arg;

    if (message.n && !st->shut_out) { /* not gRPC, or beyond its limits */
        log_closing(st, message);
        xds_count_refusal(st->server, SW_GRPC_INVALID_ARGUMENT);
    }
    sw_log_debug("xds", "stream of node '%.*s' ended", SW_SLICE_ARG(st->node_id));
    xds_stream_free(st);
}

const struct sw_grpc_ops xds_stream_ops = {
    .on_message = on_message, .on_end = on_end, .on_drain = on_drain, .on_done = on_done};
