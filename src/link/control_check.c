/* SPDX-License-Identifier: Apache-2.0 */
/* ClusterLink's form: envoy.service.auth.v3.Authorization/Check, as its data planes send it. */
#include <stdio.h>

#include <proto/httpfilter.pb-c.h>

#include "http/grammar.h"
#include "http/grpc/grpc.h"
#include "link/control.h"
#include "proto/pb.h"

static const struct sw_slice check_path =
    SW_SLICE_LIT("/envoy.service.auth.v3.Authorization/Check");

enum { ANSWER_MAX = 64 << 10 };

int link_check_open(struct link_control *c, struct sw_err *err)
{
    struct sw_grpc_client_opts o = {
        .scope = "link",
        .host = c->o.host,
        .port = c->o.port,
        .cred = c->o.cred,
        .tls_name = c->o.tls_name,
        .max_message = ANSWER_MAX,
        .connect_timeout_ns = c->o.timeout_ns,
    };

    c->grpc = sw_grpc_client_new(c->o.loop, &o, err);
    return c->grpc ? SW_OK : err->rc;
}

/* ---- the question ---- */

struct builder {
    struct sw_arena *a;
    Sw__AuthHttpRequest *http;
};

static void add(struct builder *b, const char *key, struct sw_slice value)
{
    Sw__AuthMapEntry *e = SW_PB_NEW(b->a, Sw__AuthMapEntry, sw__auth_map_entry);

    e->key = SW_PB_BYTES(sw_slice_str(key));
    e->value = SW_PB_BYTES(value);
    b->http->headers[b->http->n_headers++] = e;
}

static Sw__Address *internal_address(struct sw_arena *a)
{
    Sw__Address *at = SW_PB_NEW(a, Sw__Address, sw__address);

    at->address_case = SW__ADDRESS__ADDRESS_ENVOY_INTERNAL_ADDRESS;
    at->envoy_internal_address = SW_PB_NEW(a, Sw__EnvoyInternalAddress, sw__envoy_internal_address);
    return at;
}

static void fill(struct builder *b, const struct link_question *q)
{
    char ip[SW_IP_TEXT];

    b->http->headers = sw_arena_array(b->a, 4, sizeof(*b->http->headers));
    switch (q->kind) {
    case LINK_ASK_EGRESS:
        add(b, "x-client-ip",
            sw_slice_str(sw_arena_dup(b->a, sw_slice_str(sw_ip_text(&q->client, ip)))));
        add(b, "x-import-name", q->name);
        add(b, "x-import-namespace", q->ns);
        break;
    case LINK_ASK_INGRESS:
        b->http->method = SW_PB_LIT("CONNECT");
        if (q->authorization.n)
            add(b, "authorization", q->authorization);
        break;
    case LINK_ASK_TOKEN:
        b->http->method = SW_PB_LIT("POST");
        b->http->path = SW_PB_LIT("/authz");
        b->http->body = SW_PB_BYTES(q->body);
        break;
    case LINK_ASK_HEALTH:
        b->http->method = SW_PB_LIT("GET");
        b->http->path = SW_PB_LIT("/healthz");
        break;
    }
}

struct sw_slice link_check_encode(struct sw_arena *a, const struct link_question *q)
{
    Sw__AuthCheckRequest *m = SW_PB_NEW(a, Sw__AuthCheckRequest, sw__auth_check_request);
    Sw__AuthAttributes *to = SW_PB_NEW(a, Sw__AuthAttributes, sw__auth_attributes);
    struct builder b = {a, SW_PB_NEW(a, Sw__AuthHttpRequest, sw__auth_http_request)};

    m->attributes = to;
    to->source = SW_PB_NEW(a, Sw__AuthPeer, sw__auth_peer);
    if (q->kind == LINK_ASK_EGRESS) /* this is how the control plane tells the directions apart */
        to->source->address = internal_address(a);
    to->source->principal = SW_PB_BYTES(q->peer);
    to->source->certificate = SW_PB_BYTES(q->certificate);
    to->request = SW_PB_NEW(a, Sw__AuthRequest, sw__auth_request);
    to->request->http = b.http;
    fill(&b, q);
    return sw_pb_pack(a, &m->base);
}

/* ---- the answer ---- */

static void take(struct sw_arena *a, const Sw__HeaderValueOption *o, struct link_answer *ret)
{
    struct sw_slice *to = NULL;
    struct sw_slice name;
    struct sw_slice value;

    if (!o->header)
        return;
    name = SW_PB_SLICE(o->header->key);
    value = SW_PB_SLICE(o->header->value);
    if (!value.n)
        value = SW_PB_SLICE(o->header->raw_value);
    if (sw_slice_ieq(name, SW_SLICE_LIT("host")))
        to = &ret->host;
    else if (sw_slice_ieq(name, SW_SLICE_LIT("authorization")))
        to = &ret->authorization;
    else if (sw_slice_ieq(name, SW_SLICE_LIT("clusterlinkpeerlabels")))
        to = &ret->labels;
    if (to && sw_http_value_valid(value))
        *to = sw_arena_slice(a, value);
    else if (sw_slice_ieq(name, SW_SLICE_LIT("x-access-token")) && value.n &&
             sw_http_value_valid(value))
        ret->authorization = sw_slice_str(sw_arena_printf(a, "Bearer %.*s", SW_SLICE_ARG(value)));
}

static void take_ok(struct sw_arena *a, const Sw__AuthOk *ok, struct link_answer *ret)
{
    ret->status = 200;
    for (size_t i = 0; ok && i < ok->n_headers; i++)
        take(a, ok->headers[i], ret);
    for (size_t i = 0; ok && i < ok->n_response_headers_to_add; i++)
        take(a, ok->response_headers_to_add[i], ret);
}

static void take_denied(struct sw_arena *a, const Sw__AuthDenied *d, struct link_answer *ret)
{
    ret->status = 403;
    if (!d)
        return;
    if (d->status && d->status->code >= 400 && d->status->code < 600)
        ret->status = (unsigned)d->status->code;
    ret->body = sw_arena_slice(a, sw_slice_head(SW_PB_SLICE(d->body), 4096));
    ret->reason = ret->body;
}

int link_check_decode(struct sw_arena *a, struct sw_slice msg, struct link_answer *ret,
                      struct sw_err *err)
{
    const Sw__AuthCheckResponse *r =
        SW_PB_UNPACK(a, Sw__AuthCheckResponse, sw__auth_check_response, msg, NULL, err);
    bool denied;

    if (!r)
        return err->rc;
    *ret = (struct link_answer){0};
    denied = r->http_response_case == SW__AUTH_CHECK_RESPONSE__HTTP_RESPONSE_DENIED_RESPONSE;
    if (denied || (r->status && r->status->code))
        take_denied(a, denied ? r->denied_response : NULL, ret);
    else
        take_ok(a,
                r->http_response_case == SW__AUTH_CHECK_RESPONSE__HTTP_RESPONSE_OK_RESPONSE
                    ? r->ok_response
                    : NULL,
                ret);
    return SW_OK;
}

static void on_message(struct sw_grpc_call *call, struct sw_slice msg, void *arg)
{
    struct link_ask *a = arg;
    struct sw_err err = {0};

    if (link_check_decode(&a->arena, msg, &a->answer, &err) != SW_OK)
        a->answer.status = 0;
}

static void on_done(struct sw_grpc_call *call, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct link_ask *a = arg;
    char why[160];

    a->check = NULL;
    if (status == SW_GRPC_OK && a->answer.status) {
        link_ask_answered(a);
        return;
    }
    (void)snprintf(why, sizeof(why), "gRPC status %d: %.*s", (int)status,
                   SW_SLICE_ARG_MAX(message, 100));
    link_ask_failed(a, status == SW_GRPC_DEADLINE_EXCEEDED ? SW_ETIME : SW_EUNAVAIL, why);
}

static const struct sw_grpc_ops check_ops = {.on_message = on_message, .on_done = on_done};

void link_check_ask(struct link_ask *a, const struct link_question *q)
{
    SW_ARENA_AUTO tmp = {0};

    a->check = sw_grpc_call(a->control->grpc, check_path, sw_slice(NULL, 0),
                            a->control->o.timeout_ns, &check_ops, a);
    (void)!sw_grpc_send(a->check, link_check_encode(&tmp, q)); /* far below its queue */
    sw_grpc_end(a->check);
}
