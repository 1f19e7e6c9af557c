/* SPDX-License-Identifier: Apache-2.0 */
/* The client's stream: requests, responses, and coming back after it broke. */
#include "xds/client.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "http/bearer.h"
#include "proto/pb.h"
#include "xds/cache.h"
#include "xds/client_int.h"

#include <proto/discovery.pb-c.h>

enum {
    SILENT_S = 5,
    SETTLED_S = 60, /* a stream that lasted so long was a good one, however it ended */
};
#define METHOD "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

/* --- requests --- */

static Sw__Node *node_message(struct sw_xds_client *c, struct sw_arena *a)
{
    Sw__Node *n = SW_PB_NEW(a, Sw__Node, sw__node);

    n->id = SW_PB_BYTES(c->node_id);
    n->cluster = SW_PB_BYTES(c->node_cluster);
    n->user_agent_name = SW_PB_BYTES(c->user_agent);
    n->user_agent_version_type_case = SW__NODE__USER_AGENT_VERSION_TYPE_USER_AGENT_VERSION;
    n->user_agent_version = SW_PB_LIT(SW_VERSION);
    if (c->feature.n) {
        n->client_features = sw_arena_array(a, 1, sizeof(*n->client_features));
        n->client_features[n->n_client_features++] = SW_PB_BYTES(c->feature);
    }
    if (c->node_metadata.n)
        n->metadata = SW_PB_UNPACK(a, Sw__Struct, sw__struct, c->node_metadata, NULL, NULL);
    return n;
}

/* The stream is of no use any more: it ends, and the next one comes after a pause. */
static void give_up(struct sw_xds_client *c, const char *why);

static void send_request(struct sw_xds_client *c, struct sw_arena *a, Sw__DeltaDiscoveryRequest *r)
{
    int rc;

    if (!c->node_sent)
        r->node = node_message(c, a);
    c->node_sent = true;
    rc = sw_grpc_send(c->call, sw_pb_pack(a, &r->base));
    if (rc != SW_OK)
        give_up(c, "server does not read requests");
}

static Sw__DeltaDiscoveryRequest *request_for(struct sw_arena *a, const struct xc_type *t)
{
    Sw__DeltaDiscoveryRequest *r =
        SW_PB_NEW(a, Sw__DeltaDiscoveryRequest, sw__delta_discovery_request);

    r->type_url = SW_PB_BYTES(sw_slice_str(t->url));
    return r;
}

static ProtobufCBinaryData *bytes_array(struct sw_arena *a, size_t n)
{
    return n ? sw_arena_array(a, n, sizeof(ProtobufCBinaryData)) : NULL;
}

struct versions {
    struct sw_arena *a;
    SW_VEC(Sw__ResourceVersion *) list;
};

static void add_version(void *ctx, struct sw_slice name, struct sw_slice version)
{
    struct versions *to = ctx;
    Sw__ResourceVersion *v = SW_PB_NEW(to->a, Sw__ResourceVersion, sw__resource_version);

    v->key = SW_PB_BYTES(sw_arena_slice(to->a, name));
    v->value = SW_PB_BYTES(sw_arena_slice(to->a, version));
    sw_vec_push(&to->list, v);
}

static void each_held(const struct xc_type *t, struct versions *to)
{
    if (t->each) {
        t->each(t->each_arg, add_version, to);
        return;
    }
    SW_MAP_EACH (const struct xc_held, h, &t->held)
        add_version(to, h->name, h->version);
}

/* Everything that is wanted and held. */
static void send_first(struct sw_xds_client *c, struct xc_type *t)
{
    SW_ARENA_AUTO a = {0};
    Sw__DeltaDiscoveryRequest *r = request_for(&a, t);
    struct versions held = {.a = &a};
    size_t n = 0;

    r->resource_names_subscribe = bytes_array(&a, t->names.n + 1);
    if (t->on_demand || (t->wildcard && (t->names.n || !c->o.bare_wildcard)))
        r->resource_names_subscribe[n++] = SW_PB_LIT("*");
    SW_MAP_FOREACH (it, &t->names)
        r->resource_names_subscribe[n++] = SW_PB_BYTES(it->key);
    r->n_resource_names_subscribe = n;
    if (t->on_demand) {
        r->resource_names_unsubscribe = bytes_array(&a, 1);
        r->resource_names_unsubscribe[r->n_resource_names_unsubscribe++] = SW_PB_LIT("*");
    }
    each_held(t, &held);
    r->initial_resource_versions = held.list.p;
    r->n_initial_resource_versions = held.list.n;
    xc_type_forget_changes(t);
    t->announced = true;
    send_request(c, &a, r);
    sw_vec_done(&held.list);
}

static void send_changes(struct sw_xds_client *c, struct xc_type *t)
{
    SW_ARENA_AUTO a = {0};
    Sw__DeltaDiscoveryRequest *r = request_for(&a, t);

    r->resource_names_subscribe = bytes_array(&a, t->add.n);
    SW_VEC_FOREACH (struct sw_slice, n, &t->add)
        r->resource_names_subscribe[r->n_resource_names_subscribe++] = SW_PB_BYTES(*n);
    r->resource_names_unsubscribe = bytes_array(&a, t->drop.n);
    SW_VEC_FOREACH (struct sw_slice, n, &t->drop)
        r->resource_names_unsubscribe[r->n_resource_names_unsubscribe++] = SW_PB_BYTES(*n);
    send_request(c, &a, r);
    xc_type_forget_changes(t);
}

void xc_flush_type(struct sw_xds_client *c, struct xc_type *t)
{
    if (!c->call)
        return;
    if (!t->announced && (t->wildcard || t->on_demand || t->names.n))
        send_first(c, t);
    else if (t->announced && (t->add.n || t->drop.n))
        send_changes(c, t);
}

static void flush(struct sw_xds_client *c)
{
    SW_LIST_EACH (struct xc_type, t, &c->types, link)
        xc_flush_type(c, t);
}

static void on_flush(struct sw_defer *d)
{
    flush(SW_CONTAINER_OF(d, struct sw_xds_client, flush));
}

void xc_flush_later(struct sw_xds_client *c)
{
    if (c->call)
        sw_loop_defer(c->loop, &c->flush, on_flush);
}

/* --- responses --- */

static void count(struct sw_xds_client *c, enum sw_metric_id id, const char *label, uint64_t n)
{
    if (c->o.metrics)
        sw_metric_add(sw_metric_get1(c->o.metrics, id, label), n);
}

static void set_connected(struct sw_xds_client *c, bool on, const struct sw_err *err)
{
    if (c->connected == on)
        return;
    c->connected = on;
    if (c->o.metrics)
        sw_metric_set(sw_metric_get(c->o.metrics, SW_METRIC_XDS_CONNECTED, NULL), on);
    if (c->o.on_state)
        c->o.on_state(c->o.arg, on, err);
}

/* Names that appear twice, or are not ours to keep, spoil the whole response. */
static int check_update(const struct sw_xds_client *c, const struct xc_type *t,
                        const struct sw_xds_update *u, struct sw_err *err)
{
    struct sw_map seen = {0};
    int rc = SW_OK;

    if (u->n_added > c->o.max_resources || t->held.n + u->n_added > 2 * c->o.max_resources)
        return sw_err_set(err, SW_ELIMIT, "too many resources");
    sw_map_reserve(&seen, u->n_added);
    for (size_t i = 0; i < u->n_added && rc == SW_OK; i++) {
        struct sw_slice name = u->added[i].name;

        if (name.n > SW_XDS_NAME_MAX)
            rc = sw_err_set(err, SW_ELIMIT, "name of a resource is too long");
        else if (sw_map_put(&seen, name, &seen))
            rc = sw_err_set(err, SW_EPROTO, "resource '%.*s' appears twice", SW_SLICE_ARG(name));
    }
    sw_map_done(&seen);
    return rc;
}

/*
 * A resource in flight when it was unsubscribed from is not recorded as held: otherwise the next
 * stream would not bring it to a later subscriber.
 */
static void hold(struct xc_type *t, struct sw_slice name, struct sw_slice version)
{
    if (!t->each && (t->wildcard || sw_map_get(&t->names, name)))
        xc_type_hold(t, name, version);
}

static void keep_versions(struct xc_type *t, const struct sw_xds_update *u)
{
    for (size_t i = 0; i < u->n_added; i++) {
        if (!t->refused_names.n || !sw_map_get(&t->refused_names, u->added[i].name))
            hold(t, u->added[i].name, u->added[i].version);
        else
            xc_type_release(t, u->added[i].name);
    }
    for (size_t i = 0; i < u->n_removed; i++)
        xc_type_release(t, u->removed[i]);
    t->ready = true;
}

/*
 * Parts of a refused response may be in use. Which is not known here, so the next stream claims to
 * hold all of them in a version that no resource has: the server then sends the state of each.
 */
static void doubt_versions(struct xc_type *t, const struct sw_xds_update *u)
{
    for (size_t i = 0; i < u->n_added; i++)
        hold(t, u->added[i].name, sw_slice("", 0));
    for (size_t i = 0; i < u->n_removed; i++) {
        if (sw_map_get(&t->held, u->removed[i]))
            xc_type_hold(t, u->removed[i], sw_slice("", 0));
    }
}

static struct sw_slice reason(struct sw_arena *a, const struct xc_type *t)
{
    struct sw_slice text = sw_buf_slice(&t->refused);

    if (!t->refusal.rc)
        return t->trouble;
    if (text.n == 0)
        text = sw_slice_str(t->refusal.msg);
    return sw_slice_str(sw_arena_printf(a, "%.*s%s%.*s", SW_SLICE_ARG(text),
                                        t->trouble.n ? "\n" : "", SW_SLICE_ARG(t->trouble)));
}

/* ACK or NACK of the last response; also repeated when 'trouble' changed. */
static void answer(struct sw_xds_client *c, struct xc_type *t)
{
    SW_ARENA_AUTO a = {0};
    Sw__DeltaDiscoveryRequest *r = request_for(&a, t);

    t->hold = false;
    r->response_nonce = SW_PB_BYTES(t->nonce);
    if (t->refusal.rc || t->trouble.n) {
        r->error_detail = SW_PB_NEW(&a, Sw__Status, sw__status);
        r->error_detail->code = t->refusal.rc ? SW_GRPC_INVALID_ARGUMENT : SW_GRPC_UNAVAILABLE;
        r->error_detail->message = SW_PB_BYTES(reason(&a, t));
    }
    send_request(c, &a, r);
}

void sw_xds_client_hold_answer(struct sw_xds_client *c, const char *type)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));

    if (t)
        t->hold = true;
}

void sw_xds_client_send_held(struct sw_xds_client *c)
{
    SW_LIST_EACH (struct xc_type, t, &c->types, link) {
        if (t->hold && c->call)
            answer(c, t);
    }
}

void sw_xds_client_set_trouble(struct sw_xds_client *c, const char *type, struct sw_slice text)
{
    struct xc_type *t = xc_type_find(c, sw_slice_str(type));

    if (!t || sw_slice_eq(t->trouble, text))
        return;
    sw_slice_free(&t->trouble);
    t->trouble = text.n ? sw_slice_copy(text) : (struct sw_slice){0};
    if (t->nonce.n && !t->hold && c->call)
        answer(c, t);
}

/* Keeps the verdict on a response until its ACK or NACK is sent. */
static void keep_response(struct sw_xds_client *c, struct xc_type *t, struct sw_slice nonce,
                          const struct sw_err *refusal)
{
    sw_slice_free(&t->nonce);
    t->nonce = sw_slice_copy(nonce);
    t->refusal = *refusal;
    if (!refusal->rc)
        return;
    count(c, SW_METRIC_XDS_REFUSED, t->url, 1);
    sw_log_warn("xds", "response for type %s refused: %s", t->url, refusal->msg);
}

/* SW_OK: accepted, with what the user refused of it in t->refused. */
static int give(struct xc_type *t, const struct sw_xds_update *u, struct sw_err *err)
{
    int rc = t->fn(t->arg, u, err);

    if (rc == SW_OK)
        keep_versions(t, u);
    else
        doubt_versions(t, u);
    xc_type_forget_refused(t);
    if (rc != SW_OK) {
        sw_buf_clear(&t->refused); /* the refusal of the whole response says more */
        return rc;
    }
    if (sw_buf_len(&t->refused) == 0)
        return SW_OK;
    return sw_err_set(err, SW_EINVAL, "%.*s",
                      SW_SLICE_ARG(sw_slice_head(sw_buf_slice(&t->refused), sizeof(err->msg) - 1)));
}

static void on_message(struct sw_grpc_call *call, struct sw_slice msg, void *arg)
{
    struct sw_xds_client *c = arg;
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct xc_update r;
    struct xc_type *t;
    int rc;

    if (msg.n > c->o.max_response) {
        give_up(c, "response is too large");
        return;
    }
    if (xc_update_read(&a, msg, msg.n * 8 + ((size_t)1 << 20), &r, &err) != SW_OK) {
        give_up(c, err.msg);
        return;
    }
    t = xc_type_find(c, r.u.type);
    if (!t) {
        give_up(c, "response of an unsubscribed type");
        return;
    }
    sw_timer_stop(c->loop, &c->silent);
    count(c, SW_METRIC_XDS_MESSAGES, t->url, 1);
    count(c, SW_METRIC_XDS_MESSAGE_BYTES, t->url, msg.n);
    set_connected(c, true, NULL);
    if (t->hold) {
        answer(c, t); /* the one before */
        if (!c->call)
            return;
    }
    sw_buf_clear(&t->refused);
    rc = check_update(c, t, &r.u, &err);
    if (rc == SW_OK)
        rc = give(t, &r.u, &err);
    if (rc == SW_OK)
        err = (struct sw_err){0};
    else if (err.rc == 0)
        (void)sw_err_set(&err, rc, "refused");
    keep_response(c, t, r.nonce, &err);
    /* Subscribes to what it references before the ACK, after which dependent types follow. */
    flush(c);
    if (c->call && !t->hold)
        answer(c, t);
}

/* --- coming and going --- */

static void open_stream(struct sw_xds_client *c);

static void on_retry(struct sw_timer *t)
{
    open_stream(SW_CONTAINER_OF(t, struct sw_xds_client, retry));
}

/* A server that answers each time, and then each time what ends the stream, is not asked at once.
 */
static bool was_healthy(const struct sw_xds_client *c, const char *reason)
{
    uint64_t lasted = sw_loop_now(c->loop) - c->since_ns;
    bool fault = sw_slice_eq_str(SW_SLICE_LIT("Error"), reason);
    uint64_t least = fault ? sw_max(c->o.healthy_ns, SETTLED_S * SW_NS_PER_S) : c->o.healthy_ns;

    return c->connected && lasted >= least;
}

static void ended(struct sw_xds_client *c, const char *reason, const char *why)
{
    struct sw_err err = {0};
    uint64_t wait;

    (void)sw_err_set(&err, SW_ECLOSED, "%s", why);
    c->call = NULL;
    sw_timer_stop(c->loop, &c->silent);
    count(c, SW_METRIC_XDS_TERMINATIONS, reason, 1);
    SW_LIST_EACH (struct xc_type, t, &c->types, link) {
        t->announced = false;
        xc_type_forget_changes(t);
        xc_type_forget_response(t);
    }
    if (was_healthy(c, reason))
        sw_backoff_reset(&c->backoff);
    wait = sw_backoff_next(&c->backoff, c->o.backoff_least_ns, c->o.backoff_most_ns);
    sw_log_warn("xds", "stream to the control plane ended: %s; reconnecting in %llu ms", err.msg,
                (unsigned long long)(wait / SW_NS_PER_MS));
    sw_timer_start(c->loop, &c->retry, wait, on_retry);
    set_connected(c, false, &err);
}

static void give_up(struct sw_xds_client *c, const char *why)
{
    if (!c->call)
        return;
    sw_grpc_cancel(c->call);
    ended(c, "Error", why);
}

/* Why a stream ended, in ztunnel's words. */
static const char *termination(const struct sw_xds_client *c, enum sw_grpc_status status)
{
    switch ((int)status) {
    case SW_GRPC_OK:
        return "Complete";
    case SW_GRPC_UNKNOWN:
    case SW_GRPC_CANCELLED:
    case SW_GRPC_DEADLINE_EXCEEDED:
        return "Reconnect";
    case SW_GRPC_UNAVAILABLE:
        return c->connected ? "Reconnect" : "ConnectionError";
    default:
        return "Error";
    }
}

static void on_done(struct sw_grpc_call *call, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct sw_xds_client *c = arg;
    char why[160];

    (void)snprintf(why, sizeof(why), "status %d%s%.*s", (int)status, message.n ? ": " : "",
                   SW_SLICE_ARG(sw_slice_head(message, 120)));
    ended(c, termination(c, status), why);
}

static const struct sw_grpc_ops call_ops = {.on_message = on_message, .on_done = on_done};

/* Empty, with the reason in the log, when it cannot be read: the server will say no. */
static struct sw_slice read_token(const struct sw_xds_client *c)
{
    struct sw_slice token = {0};
    struct sw_err err = {0};

    if (c->token_file && sw_bearer_read(c->token_file, &token, &err) != SW_OK)
        sw_log_warn("xds", "no bearer token: %s", err.msg);
    return token;
}

/* Not an error: a server may have no resources. But operators that wait for them should know. */
static void on_silent(struct sw_timer *t)
{
    struct sw_xds_client *c = SW_CONTAINER_OF(t, struct sw_xds_client, silent);

    sw_log_warn("xds", "no answer of the control plane for %d s: is %u its xDS port?", SILENT_S,
                (unsigned)c->o.port);
}

static struct sw_grpc_call *open_call(struct sw_xds_client *c, struct sw_err *err)
{
    struct sw_grpc_call *call;
    struct sw_slice token;

    if (c->o.open)
        return c->o.open(c->o.open_arg, SW_SLICE_LIT(METHOD), &call_ops, c, err);
    token = read_token(c);
    call = sw_grpc_call(c->grpc, SW_SLICE_LIT(METHOD), token, 0, &call_ops, c);
    sw_slice_free_secret(&token);
    return call;
}

static void open_stream(struct sw_xds_client *c)
{
    struct sw_err err = {0};

    sw_timer_start(c->loop, &c->silent, SILENT_S * SW_NS_PER_S, on_silent);
    c->since_ns = sw_loop_now(c->loop);
    c->node_sent = false;
    c->call = open_call(c, &err);
    if (c->call)
        xc_flush_later(c);
    else
        ended(c, "Error", err.msg);
}

/* --- the whole --- */

static void set_opts(struct sw_xds_client *c, const struct sw_xds_client_opts *o)
{
    c->o = *o;
    c->o.max_response = o->max_response ? o->max_response : (size_t)64 << 20;
    c->o.max_resources = o->max_resources ? o->max_resources : 1000000;
    c->o.backoff_least_ns = o->backoff_least_ns ? o->backoff_least_ns : 500 * SW_NS_PER_MS;
    c->o.backoff_most_ns = o->backoff_most_ns ? o->backoff_most_ns : 30 * SW_NS_PER_S;
    c->o.healthy_ns = o->healthy_ns ? o->healthy_ns : 10 * SW_NS_PER_S;
    c->token_file = o->token_file ? sw_strdup(o->token_file) : NULL;
    c->node_id = sw_slice_copy(o->node_id);
    c->node_cluster = sw_slice_copy(o->node_cluster);
    c->user_agent = sw_slice_copy(o->user_agent.n ? o->user_agent : SW_SLICE_LIT("spanwire"));
    c->node_metadata = sw_slice_copy(o->node_metadata);
    c->feature = sw_slice_copy(o->feature);
}

struct sw_xds_client *sw_xds_client_new(struct sw_loop *l, const struct sw_xds_client_opts *o,
                                        struct sw_err *err)
{
    struct sw_grpc_client_opts g = {.scope = "xds",
                                    .host = o->host,
                                    .port = o->port,
                                    .cred = o->cred,
                                    .tls_name = o->tls_name,
                                    .max_message =
                                        o->max_response ? o->max_response : (size_t)64 << 20};
    struct sw_grpc_client *grpc = o->open ? NULL : sw_grpc_client_new(l, &g, err);
    struct sw_xds_client *c;

    if (!grpc && !o->open)
        return NULL;
    c = SW_NEW(struct sw_xds_client);
    c->loop = l;
    c->grpc = grpc;
    set_opts(c, o);
    sw_list_init(&c->types);
    return c;
}

void sw_xds_client_start(struct sw_xds_client *c)
{
    if (c->started)
        return;
    c->started = true;
    open_stream(c);
}

void sw_xds_client_free(struct sw_xds_client *c)
{
    if (!c)
        return;
    if (c->call)
        sw_grpc_cancel(c->call);
    sw_timer_stop(c->loop, &c->retry);
    sw_timer_stop(c->loop, &c->silent);
    sw_defer_cancel(&c->flush);
    sw_grpc_client_free(c->grpc);
    SW_LIST_EACH (struct xc_type, t, &c->types, link)
        xc_type_free(t);
    sw_slice_free(&c->node_id);
    sw_slice_free(&c->node_cluster);
    sw_slice_free(&c->user_agent);
    sw_slice_free(&c->node_metadata);
    sw_slice_free(&c->feature);
    sw_free(c->token_file);
    sw_free(c);
}

bool sw_xds_client_connected(const struct sw_xds_client *c)
{
    return c->connected;
}

void sw_xds_client_set_cred(struct sw_xds_client *c, struct sw_tls_cred *cred)
{
    sw_grpc_client_set_cred(c->grpc, cred);
}
