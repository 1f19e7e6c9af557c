/* SPDX-License-Identifier: Apache-2.0 */
/*
 * envoy.service.auth.v3.Authorization/Check: how Envoy and ClusterLink's Go data plane ask. Texts
 * and codes are those of ClusterLink's control plane.
 */
#include <stdio.h>

#include "base/mem.h"
#include "control/link/auth/auth_int.h"
#include "control/link/auth/certificate.h"
#include "http/grpc/grpc.h"
#include "proto/pb.h"
#include "tls/peer.h"

#include <proto/httpfilter.pb-c.h>

#define PATH "/envoy.service.auth.v3.Authorization/Check"

enum { MESSAGE_MAX = 256 << 10, DEPTH_MAX = 16 };

/* One request. */
struct check {
    struct sw_link_auth *auth;
    struct sw_grpc_call *grpc;
    struct sw_link_egress *egress; /* waits for a peer */
    bool has;                      /* the message was received */
    bool egress_form;
    bool token_form;
};

/* ---- answering ---- */

static int code_of(int status)
{
    switch (status) {
    case 400:
        return SW_GRPC_INVALID_ARGUMENT;
    case 403:
        return SW_GRPC_PERMISSION_DENIED;
    case 404:
        return SW_GRPC_NOT_FOUND;
    case 503:
        return SW_GRPC_UNAVAILABLE;
    default:
        return SW_GRPC_INTERNAL;
    }
}

static void send_response(struct check *c, struct sw_arena *a, Sw__AuthCheckResponse *r, int code)
{
    r->status = SW_PB_NEW(a, Sw__Status, sw__status);
    r->status->code = code;
    sw_grpc_reply(c->grpc, sw_pb_pack(a, &r->base));
}

static void deny(struct check *c, int status, struct sw_slice text)
{
    SW_ARENA_AUTO a = {0};
    Sw__AuthCheckResponse *r = SW_PB_NEW(&a, Sw__AuthCheckResponse, sw__auth_check_response);
    Sw__AuthDenied *d = SW_PB_NEW(&a, Sw__AuthDenied, sw__auth_denied);

    d->status = SW_PB_NEW(&a, Sw__HttpStatus, sw__http_status);
    d->status->code = status;
    d->body = SW_PB_BYTES(text);
    r->http_response_case = SW__AUTH_CHECK_RESPONSE__HTTP_RESPONSE_DENIED_RESPONSE;
    r->denied_response = d;
    send_response(c, &a, r, code_of(status));
}

static void deny_text(struct check *c, int status, const char *text)
{
    deny(c, status, sw_slice_str(text));
}

struct fields {
    struct sw_arena *arena;
    Sw__HeaderValueOption **p;
    size_t n;
};

static void put(struct fields *f, const char *key, struct sw_slice value)
{
    Sw__HeaderValueOption *o = SW_PB_NEW(f->arena, Sw__HeaderValueOption, sw__header_value_option);

    o->header = SW_PB_NEW(f->arena, Sw__HeaderValue, sw__header_value);
    o->header->key = SW_PB_BYTES(sw_slice_str(key));
    o->header->value = SW_PB_BYTES(value);
    f->p[f->n++] = o;
}

static void allow(struct check *c, const struct sw_link_answer *answer)
{
    SW_ARENA_AUTO a = {0};
    Sw__AuthCheckResponse *r = SW_PB_NEW(&a, Sw__AuthCheckResponse, sw__auth_check_response);
    Sw__AuthOk *ok = SW_PB_NEW(&a, Sw__AuthOk, sw__auth_ok);
    struct fields f = {.arena = &a, .p = sw_arena_array(&a, 4, sizeof(*f.p))};

    if (c->token_form) {
        put(&f, "x-access-token", answer->token);
        ok->response_headers_to_add = f.p;
        ok->n_response_headers_to_add = f.n;
    } else {
        put(&f, "host", answer->host);
        if (c->egress_form)
            put(&f, "authorization",
                sw_slice_str(sw_arena_printf(&a, "Bearer %.*s", SW_SLICE_ARG(answer->token))));
        ok->headers = f.p;
        ok->n_headers = f.n;
    }
    r->http_response_case = SW__AUTH_CHECK_RESPONSE__HTTP_RESPONSE_OK_RESPONSE;
    r->ok_response = ok;
    send_response(c, &a, r, SW_GRPC_OK);
}

/* Egress refusals are 500 in this form, whatever the cause; data planes expect no other. */
static void on_answer(void *arg, const struct sw_link_answer *answer)
{
    struct check *c = arg;
    char text[SW_LINK_TEXT];

    c->egress = NULL;
    if (answer->status == 200) {
        allow(c, answer);
    } else if (!c->egress_form) {
        deny_text(c, answer->status, answer->text);
    } else if (answer->tried) {
        (void)snprintf(text, sizeof(text), "cannot select import source: tried out all %zu sources",
                       answer->tried);
        deny_text(c, 500, text);
    } else {
        deny_text(c, 500, answer->text);
    }
}

static void answer_heartbeat(struct check *c)
{
    SW_ARENA_AUTO a = {0};
    Sw__AuthCheckResponse *r = SW_PB_NEW(&a, Sw__AuthCheckResponse, sw__auth_check_response);
    Sw__AuthOk *ok = SW_PB_NEW(&a, Sw__AuthOk, sw__auth_ok);
    struct fields f = {.arena = &a, .p = sw_arena_array(&a, 1, sizeof(*f.p))};

    put(&f, "ClusterLinkPeerLabels", sw_link_auth_labels(c->auth));
    ok->response_headers_to_add = f.p;
    ok->n_response_headers_to_add = f.n;
    r->http_response_case = SW__AUTH_CHECK_RESPONSE__HTTP_RESPONSE_OK_RESPONSE;
    r->ok_response = ok;
    send_response(c, &a, r, SW_GRPC_OK);
}

/* ---- asking ---- */

static struct sw_slice header(const Sw__AuthHttpRequest *http, const char *name)
{
    for (size_t i = 0; i < http->n_headers; i++) {
        if (sw_slice_ieq(SW_PB_SLICE(http->headers[i]->key), sw_slice_str(name)))
            return SW_PB_SLICE(http->headers[i]->value);
    }
    return sw_slice(NULL, 0);
}

static void check_egress(struct check *c, const Sw__AuthHttpRequest *http)
{
    static const char *const needed[] = {"x-client-ip", "x-import-name", "x-import-namespace"};
    SW_ARENA_AUTO a = {0};
    struct sw_link_egress_req req = {0};
    struct sw_slice value[SW_ARRAY_LEN(needed)];

    c->egress_form = true;
    for (size_t i = 0; i < SW_ARRAY_LEN(needed); i++) {
        value[i] = header(http, needed[i]);
        if (!value[i].n) {
            deny_text(c, 400, sw_arena_printf(&a, "Missing '%s' header.", needed[i]));
            return;
        }
    }
    req.client = value[0];
    req.import = sw_slice_str(
        sw_arena_printf(&a, "%.*s/%.*s", SW_SLICE_ARG(value[2]), SW_SLICE_ARG(value[1])));
    c->egress = sw_link_auth_egress(c->auth, &req, on_answer, c);
}

static void check_ingress(struct check *c, const Sw__AuthPeer *source,
                          const Sw__AuthHttpRequest *http)
{
    SW_ARENA_AUTO a = {0};
    struct sw_link_caller who =
        sw_link_caller_of(&a, SW_PB_SLICE(source->principal), SW_PB_SLICE(source->certificate));
    struct sw_slice method = SW_PB_SLICE(http->method);
    struct sw_slice path = SW_PB_SLICE(http->path);

    if (sw_slice_eq_str(method, "CONNECT")) {
        sw_link_auth_ingress(c->auth, header(http, "authorization"), &who, on_answer, c);
    } else if (sw_slice_eq_str(method, "GET") && sw_slice_eq_str(path, "/healthz")) {
        answer_heartbeat(c);
    } else if (sw_slice_eq_str(method, "POST") && sw_slice_eq_str(path, "/authz")) {
        c->token_form = true;
        sw_link_auth_token(c->auth,
                           http->body.len ? SW_PB_SLICE(http->body) : SW_PB_SLICE(http->raw_body),
                           &who, on_answer, c);
    } else {
        deny_text(c, 400,
                  sw_arena_printf(&a, "No handler defined for %.*s %.*s.",
                                  SW_SLICE_ARG(sw_slice_head(method, 32)),
                                  SW_SLICE_ARG(sw_slice_head(path, 200))));
    }
}

static void on_message(struct sw_grpc_call *call, struct sw_slice msg, void *arg)
{
    const struct sw_pb_limits limits = {.bytes = MESSAGE_MAX, .depth = DEPTH_MAX};
    SW_ARENA_AUTO a = {0};
    struct check *c = arg;
    struct sw_err err = {0};
    const Sw__AuthCheckRequest *req;
    const Sw__AuthAttributes *at;

    if (c->has) {
        sw_grpc_finish(call, SW_GRPC_INVALID_ARGUMENT, "more than one message in a unary call");
        return;
    }
    c->has = true;
    req = SW_PB_UNPACK(&a, Sw__AuthCheckRequest, sw__auth_check_request, msg, &limits, &err);
    at = req ? req->attributes : NULL;
    if (!req)
        sw_grpc_finish(call, SW_GRPC_INVALID_ARGUMENT, "%s", err.msg);
    else if (!at || !at->source || !at->request || !at->request->http)
        sw_grpc_finish(call, SW_GRPC_INVALID_ARGUMENT, "source or HTTP request is missing");
    else if (at->source->address &&
             at->source->address->address_case == SW__ADDRESS__ADDRESS_ENVOY_INTERNAL_ADDRESS)
        check_egress(c, at->request->http);
    else
        check_ingress(c, at->source, at->request->http);
}

static void on_end(struct sw_grpc_call *call, void *arg)
{
    struct check *c = arg;

    if (!c->has)
        sw_grpc_finish(call, SW_GRPC_INVALID_ARGUMENT, "no message in a unary call");
}

static void on_done(struct sw_grpc_call *call, enum sw_grpc_status status, struct sw_slice message,
                    void *arg)
{
    struct check *c = arg;

    sw_link_egress_cancel(c->egress);
    sw_free(c);
}

static const struct sw_grpc_ops ops = {
    .on_message = on_message, .on_end = on_end, .on_done = on_done};

static void open_call(struct sw_grpc_call *call, const struct sw_grpc_request *req, void *arg)
{
    struct check *c;

    if (!auth_is_plane(req->cert)) {
        sw_grpc_finish(call, SW_GRPC_UNAUTHENTICATED, "a data plane's certificate is needed");
        return;
    }
    c = SW_NEW(struct check);
    c->auth = arg;
    c->grpc = call;
    sw_grpc_set_max(call, MESSAGE_MAX);
    sw_grpc_accept(call, &ops, c);
}

void auth_serve_check(struct sw_link_auth *a, struct sw_grpc_server *s)
{
    const struct sw_grpc_method m = {.path = PATH, .open = open_call, .arg = a, .judges = true};

    sw_grpc_server_methods(s, &m, 1);
}
