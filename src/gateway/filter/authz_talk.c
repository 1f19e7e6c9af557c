/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers of outside authorisation, on the wire: plain HTTP, and Envoy's gRPC. */
#include <string.h>

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>

#include "gateway/config/config.h"
#include "gateway/exchange/exchange.h"
#include "gateway/filter/authz_int.h"
#include "gateway/message/fields.h"
#include "http/grammar.h"
#include "http/grpc/grpc.h"
#include "http/url.h"
#include "proto/pb.h"

enum { CHANGES_MAX = 256 };

static bool in_list(const struct sw_gw_names *l, struct sw_slice name)
{
    for (size_t i = 0; i < l->n; i++) {
        if (sw_gw_str_matches(&l->p[i], name, NULL))
            return true;
    }
    return false;
}

/* What is shown of the body, copied for m. */
static struct sw_slice shown_body(const struct sw_gw_authz_state *s, struct sw_exchange *m)
{
    const struct sw_exchange *x = s->x;

    if (!s->body.max || !x->kept.n)
        return sw_slice("", 0);
    return sw_arena_slice(&m->arena, sw_slice(x->kept.p, sw_min(x->kept.n, s->body.max)));
}

static bool is_partial(const struct sw_gw_authz_state *s)
{
    return !s->x->down.end_got || s->x->kept.n > s->body.max;
}

static void add_copy(struct sw_exchange *m, struct sw_slice name, struct sw_slice value)
{
    sw_gw_fields_add(&m->arena, &m->req.fields, sw_arena_slice(&m->arena, name),
                     sw_arena_slice(&m->arena, value));
}

/* ---- questions over HTTP ---- */

static bool always_shown(struct sw_slice name)
{
    return sw_slice_ieq(name, SW_SLICE_LIT("authorization"));
}

struct sw_slice authz_http_question(struct sw_gw_authz_state *s, struct sw_exchange *m)
{
    const struct sw_exchange *x = s->x;
    const struct sw_gw_authz_service *to = s->service;
    struct sw_slice body = shown_body(s, m);
    bool connect = sw_slice_eq_str(x->req.method, "CONNECT");
    struct sw_slice path = x->req.path.n ? x->req.path : SW_SLICE_LIT("/");

    m->req.method = connect ? SW_SLICE_LIT("GET") : sw_arena_slice(&m->arena, x->req.method);
    m->req.head = x->req.head;
    m->req.scheme = sw_arena_slice(&m->arena, x->req.scheme);
    m->req.authority = sw_arena_slice(&m->arena, x->req.authority);
    if (path.p[0] != '/')
        path = SW_SLICE_LIT("/"); /* OPTIONS * */
    m->req.path = sw_slice_str(
        sw_arena_printf(&m->arena, "%.*s%.*s", SW_SLICE_ARG(to->prefix), SW_SLICE_ARG(path)));
    m->req.version = SW_GW_HTTP11;
    m->req.length = SW_GW_LENGTH_KNOWN;
    m->req.content_length = body.n;
    sw_gw_fields_init(&m->arena, &m->req.fields, 16);
    for (uint32_t i = 0; i < x->req.fields.n; i++) {
        const struct sw_h1_field *f = &x->req.fields.p[i];
        struct sw_slice name = sw_gw_lowered(&m->arena, f->name);

        if (always_shown(name) || in_list(s->shown, name))
            add_copy(m, name, f->value);
    }
    if (s->body.max)
        sw_gw_fields_set(&m->arena, &m->req.fields, SW_SLICE_LIT("x-envoy-auth-partial-body"),
                         is_partial(s) ? SW_SLICE_LIT("true") : SW_SLICE_LIT("false"));
    for (size_t i = 0; i < to->n_add; i++)
        sw_gw_fields_set(&m->arena, &m->req.fields, to->add[i].name, to->add[i].value);
    return body;
}

/* ---- questions by gRPC ---- */

static Sw__AuthMapEntry *entry(struct sw_arena *a, struct sw_slice key, struct sw_slice value)
{
    Sw__AuthMapEntry *e = SW_PB_NEW(a, Sw__AuthMapEntry, sw__auth_map_entry);

    e->key = SW_PB_BYTES(key);
    e->value = SW_PB_BYTES(value);
    return e;
}

static void put_header(struct sw_arena *a, Sw__AuthHttpRequest *to, struct sw_slice name,
                       struct sw_slice value)
{
    for (size_t i = 0; i < to->n_headers; i++) {
        Sw__AuthMapEntry *e = to->headers[i];

        if (!sw_slice_eq(SW_PB_SLICE(e->key), name))
            continue;
        e->value = SW_PB_BYTES(sw_slice_str(sw_arena_printf(
            a, "%.*s,%.*s", SW_SLICE_ARG(SW_PB_SLICE(e->value)), SW_SLICE_ARG(value))));
        return;
    }
    to->headers[to->n_headers++] = entry(a, name, value);
}

static void put_headers(const struct sw_gw_authz_state *s, struct sw_arena *a,
                        Sw__AuthHttpRequest *to)
{
    const struct sw_gw_request *r = &s->x->req;
    bool all = !s->shown->given;

    to->headers = sw_arena_array(a, r->fields.n + 8, sizeof(*to->headers));
    if (all) {
        put_header(a, to, SW_SLICE_LIT(":authority"), r->authority);
        put_header(a, to, SW_SLICE_LIT(":method"), r->method);
        put_header(a, to, SW_SLICE_LIT(":path"), r->path);
        put_header(a, to, SW_SLICE_LIT(":scheme"), r->scheme);
    }
    for (uint32_t i = 0; i < r->fields.n; i++) {
        struct sw_slice name = sw_gw_lowered(a, r->fields.p[i].name);

        if (all || in_list(s->shown, name))
            put_header(a, to, name, r->fields.p[i].value);
    }
    if (s->body.max)
        put_header(a, to, SW_SLICE_LIT("x-envoy-auth-partial-body"),
                   is_partial(s) ? SW_SLICE_LIT("true") : SW_SLICE_LIT("false"));
    sw_pb_sort_entries(to->headers, to->n_headers);
}

static Sw__AuthPeer *peer(struct sw_arena *a, const struct sw_addr *at)
{
    Sw__AuthPeer *p = SW_PB_NEW(a, Sw__AuthPeer, sw__auth_peer);
    char *text = sw_arena_alloc(a, SW_IP_TEXT);

    p->address = SW_PB_NEW(a, Sw__Address, sw__address);
    p->address->address_case = SW__ADDRESS__ADDRESS_SOCKET_ADDRESS;
    p->address->socket_address = SW_PB_NEW(a, Sw__SocketAddress, sw__socket_address);
    p->address->socket_address->address = SW_PB_BYTES(sw_slice_str(sw_ip_text(&at->ip, text)));
    p->address->socket_address->port_specifier_case = SW__SOCKET_ADDRESS__PORT_SPECIFIER_PORT_VALUE;
    p->address->socket_address->port_value = at->port;
    return p;
}

static Sw__AuthHttpRequest *http_part(const struct sw_gw_authz_state *s, struct sw_exchange *m)
{
    static const char *const versions[] = {
        [SW_GW_HTTP10] = "HTTP/1.0", [SW_GW_HTTP11] = "HTTP/1.1", [SW_GW_HTTP2] = "HTTP/2"};
    struct sw_arena *a = &m->arena;
    const struct sw_gw_request *r = &s->x->req;
    Sw__AuthHttpRequest *to = SW_PB_NEW(a, Sw__AuthHttpRequest, sw__auth_http_request);
    const struct sw_slice *id = sw_gw_fields_get(&r->fields, SW_GW_H_X_REQUEST_ID);
    struct sw_slice bare;
    struct sw_slice query;
    struct sw_slice body = shown_body(s, m);

    if (id)
        to->id = SW_PB_BYTES(*id);
    to->method = SW_PB_BYTES(r->method);
    to->path = SW_PB_BYTES(r->path);
    to->host = SW_PB_BYTES(r->authority);
    to->scheme = SW_PB_BYTES(r->scheme);
    sw_target_split(r->path, &bare, &query);
    to->query = SW_PB_BYTES(query);
    to->size = r->length == SW_GW_LENGTH_KNOWN  ? (int64_t)r->content_length
               : r->length == SW_GW_LENGTH_NONE ? 0
                                                : -1;
    to->protocol = SW_PB_BYTES(sw_slice_str(versions[r->version]));
    if (s->body.raw)
        to->raw_body = SW_PB_BYTES(body);
    else
        to->body = SW_PB_BYTES(body);
    put_headers(s, a, to);
    return to;
}

static void put_context(const struct sw_gw_authz *c, struct sw_arena *a, Sw__AuthAttributes *to)
{
    for (size_t i = 0; c && i < c->n_context; i++) {
        bool known = false;

        for (size_t k = 0; k < to->n_context_extensions; k++)
            known |= sw_slice_eq(SW_PB_SLICE(to->context_extensions[k]->key), c->context[i].name);
        if (!known)
            to->context_extensions[to->n_context_extensions++] =
                entry(a, c->context[i].name, c->context[i].value);
    }
}

static struct sw_slice check_request(const struct sw_gw_authz_state *s, struct sw_exchange *m)
{
    struct sw_arena *a = &m->arena;
    Sw__AuthCheckRequest *q = SW_PB_NEW(a, Sw__AuthCheckRequest, sw__auth_check_request);
    Sw__AuthAttributes *to = SW_PB_NEW(a, Sw__AuthAttributes, sw__auth_attributes);
    uint64_t wall = sw_exchange_start_wall(s->x);
    size_t n = s->filter->n_context + (s->route ? s->route->n_context : 0);

    q->attributes = to;
    to->source = peer(a, &s->x->from.peer);
    to->destination = peer(a, &s->x->from.local);
    to->request = SW_PB_NEW(a, Sw__AuthRequest, sw__auth_request);
    to->request->time = SW_PB_NEW(a, Sw__Timestamp, sw__timestamp);
    to->request->time->seconds = (int64_t)(wall / SW_NS_PER_S);
    to->request->time->nanos = (int32_t)(wall % SW_NS_PER_S);
    to->request->http = http_part(s, m);
    to->context_extensions = sw_arena_array(a, n + 1, sizeof(*to->context_extensions));
    put_context(s->route, a, to); /* the route's go before the filter's */
    put_context(s->filter, a, to);
    sw_pb_sort_entries(to->context_extensions, to->n_context_extensions);
    return sw_pb_pack(a, &q->base);
}

struct sw_slice authz_grpc_question(struct sw_gw_authz_state *s, struct sw_exchange *m)
{
    const struct sw_gw_authz_service *to = s->service;
    struct sw_slice msg = check_request(s, m);
    char *body = sw_arena_alloc(&m->arena, SW_GRPC_HEAD + msg.n + 1); /* sealing wants it */
    struct sw_gw_request *r = &m->req;

    sw_grpc_head(body, msg.n);
    memcpy(body + SW_GRPC_HEAD, msg.p, msg.n);
    r->method = SW_SLICE_LIT("POST");
    r->scheme = SW_SLICE_LIT("http");
    r->authority = sw_arena_slice(&m->arena, to->authority.n ? to->authority : to->cluster);
    r->path = SW_SLICE_LIT("/envoy.service.auth.v3.Authorization/Check");
    r->version = SW_GW_HTTP2;
    r->length = SW_GW_LENGTH_UNKNOWN;
    r->te_trailers = true;
    r->grpc = true;
    sw_gw_fields_init(&m->arena, &r->fields, 8);
    sw_gw_fields_add(&m->arena, &r->fields, SW_SLICE_LIT("content-type"),
                     SW_SLICE_LIT("application/grpc"));
    sw_gw_fields_add(&m->arena, &r->fields, SW_SLICE_LIT("grpc-timeout"),
                     sw_slice_str(sw_arena_printf(
                         &m->arena, "%llum", (unsigned long long)(to->timeout_ns / SW_NS_PER_MS))));
    for (size_t i = 0; i < to->n_add; i++)
        sw_gw_fields_set(&m->arena, &r->fields, to->add[i].name, to->add[i].value);
    return sw_slice(body, SW_GRPC_HEAD + msg.n);
}

/* ---- answers ---- */

/* The service must not set fields that change the destination or the framing of a request. */
static bool may_set(struct sw_slice name, struct sw_slice value)
{
    static const char *const never[] = {"host",       "content-length", "transfer-encoding",
                                        "connection", "upgrade",        "te",
                                        "trailer",    "keep-alive",     "proxy-connection"};

    if (!sw_http_token_valid(name) || (value.n && !sw_http_value_valid(value)))
        return false;
    for (size_t i = 0; i < SW_ARRAY_LEN(never); i++) {
        if (sw_slice_ieq(name, sw_slice_str(never[i])))
            return false;
    }
    return true;
}

static void change(struct sw_gw_authz_state *s, int how, struct sw_slice name,
                   struct sw_slice value)
{
    struct sw_arena *a = &s->x->arena;

    if (s->n_changes == CHANGES_MAX || !may_set(name, value))
        return;
    if (!s->changes)
        s->changes = sw_arena_array(a, CHANGES_MAX, sizeof(*s->changes));
    s->changes[s->n_changes++] = (struct authz_change){
        .how = how, .name = sw_gw_lowered(a, name), .value = sw_arena_slice(a, value)};
}

static void tell(struct sw_gw_authz_state *s, struct sw_gw_fields *to, struct sw_slice name,
                 struct sw_slice value)
{
    struct sw_arena *a = &s->x->arena;

    if (may_set(name, value) && to->n < CHANGES_MAX)
        sw_gw_fields_add(&s->x->arena, to, sw_gw_lowered(a, name), sw_arena_slice(a, value));
}

void authz_change_request(struct sw_gw_authz_state *s)
{
    struct sw_exchange *x = s->x;
    struct sw_gw_fields *f = &x->req.fields;

    for (size_t i = 0; i < s->n_changes; i++) {
        const struct authz_change *c = &s->changes[i];

        switch (c->how) {
        case CHANGE_SET:
            sw_gw_fields_set(&x->arena, f, c->name, c->value);
            break;
        case CHANGE_ADD:
            sw_gw_fields_add(&x->arena, f, c->name, c->value);
            break;
        case CHANGE_ADD_NEW:
            if (!sw_gw_fields_find(f, c->name))
                sw_gw_fields_add(&x->arena, f, c->name, c->value);
            break;
        case CHANGE_SET_OLD:
            if (sw_gw_fields_find(f, c->name))
                sw_gw_fields_set(&x->arena, f, c->name, c->value);
            break;
        case CHANGE_REMOVE:
            sw_gw_fields_remove(f, c->name);
            break;
        }
    }
}

static void http_ok(struct sw_gw_authz_state *s, const struct sw_gw_fields *f)
{
    const struct sw_gw_authz_service *from = s->service;

    s->verdict = AUTHZ_OK;
    for (uint32_t i = 0; i < f->n; i++) {
        struct sw_slice name = sw_gw_lowered(&s->x->arena, f->p[i].name);

        if (in_list(&from->appended, name))
            change(s, CHANGE_ADD, name, f->p[i].value);
        else if (in_list(&from->copied, name))
            change(s, CHANGE_SET, name, f->p[i].value);
        if (in_list(&from->client_ok, name))
            tell(s, &s->response, name, f->p[i].value);
    }
}

static bool client_may_see(const struct sw_gw_authz_service *from, struct sw_slice name)
{
    return !from->client.given || in_list(&from->client, name) ||
           sw_slice_eq_str(name, "www-authenticate") || sw_slice_eq_str(name, "location");
}

static void http_denied(struct sw_gw_authz_state *s, const struct sw_exchange *m)
{
    s->verdict = AUTHZ_DENIED;
    s->status = m->resp.status;
    s->text = sw_arena_slice(&s->x->arena, sw_buf_slice(&s->answer));
    for (uint32_t i = 0; i < m->resp.fields.n; i++) {
        struct sw_slice name = sw_gw_lowered(&s->x->arena, m->resp.fields.p[i].name);

        if (client_may_see(s->service, name))
            tell(s, &s->client, name, m->resp.fields.p[i].value);
    }
}

static void grpc_option(struct sw_gw_authz_state *s, const Sw__HeaderValueOption *o)
{
    static const int hows[] = {
        [SW__HEADER_VALUE_OPTION__HEADER_APPEND_ACTION__APPEND_IF_EXISTS_OR_ADD] = CHANGE_SET,
        [SW__HEADER_VALUE_OPTION__HEADER_APPEND_ACTION__ADD_IF_ABSENT] = CHANGE_ADD_NEW,
        [SW__HEADER_VALUE_OPTION__HEADER_APPEND_ACTION__OVERWRITE_IF_EXISTS_OR_ADD] = CHANGE_SET,
        [SW__HEADER_VALUE_OPTION__HEADER_APPEND_ACTION__OVERWRITE_IF_EXISTS] = CHANGE_SET_OLD,
    };
    int how = CHANGE_SET; /* here, unlike elsewhere, that is the default */

    if (!o->header)
        return;
    if ((size_t)o->append_action < SW_ARRAY_LEN(hows))
        how = hows[o->append_action];
    if (o->append && o->append->value)
        how = CHANGE_ADD;
    change(s, how, SW_PB_SLICE(o->header->key), SW_PB_SLICE(o->header->value));
}

static void grpc_ok(struct sw_gw_authz_state *s, const Sw__AuthOk *ok)
{
    s->verdict = AUTHZ_OK;
    if (!ok)
        return;
    for (size_t i = 0; i < ok->n_headers_to_remove; i++)
        change(s, CHANGE_REMOVE, SW_PB_SLICE(ok->headers_to_remove[i]), sw_slice("", 0));
    for (size_t i = 0; i < ok->n_headers; i++)
        grpc_option(s, ok->headers[i]);
    for (size_t i = 0; i < ok->n_response_headers_to_add; i++) {
        const Sw__HeaderValue *h = ok->response_headers_to_add[i]->header;

        if (h)
            tell(s, &s->response, SW_PB_SLICE(h->key), SW_PB_SLICE(h->value));
    }
}

static void grpc_denied(struct sw_gw_authz_state *s, const Sw__AuthDenied *d)
{
    s->verdict = AUTHZ_DENIED;
    s->status = 403;
    if (!d)
        return;
    if (d->status && d->status->code >= 300 && d->status->code < 600)
        s->status = (uint16_t)d->status->code;
    s->text = sw_arena_slice(&s->x->arena, SW_PB_SLICE(d->body));
    for (size_t i = 0; i < d->n_headers; i++) {
        const Sw__HeaderValue *h = d->headers[i]->header;

        if (h)
            tell(s, &s->client, SW_PB_SLICE(h->key), SW_PB_SLICE(h->value));
    }
}

static bool grpc_succeeded(const struct sw_exchange *m)
{
    const struct sw_slice *status = sw_gw_fields_get(&m->resp.trailers, SW_GW_H_GRPC_STATUS);

    if (!status)
        status = sw_gw_fields_get(&m->resp.fields, SW_GW_H_GRPC_STATUS);
    return m->resp.status == 200 && status && sw_slice_eq_str(*status, "0");
}

static void read_grpc(struct sw_gw_authz_state *s, struct sw_exchange *m)
{
    struct sw_slice in = sw_buf_slice(&s->answer);
    struct sw_slice msg = sw_slice_from(in, sw_min(in.n, SW_GRPC_HEAD));
    const Sw__AuthCheckResponse *r;
    char head[SW_GRPC_HEAD];
    struct sw_err err;

    if (!grpc_succeeded(m) || in.n < SW_GRPC_HEAD)
        return;
    sw_grpc_head(head, msg.n);
    if (memcmp(head, in.p, SW_GRPC_HEAD) != 0) /* one message, not compressed, and nothing behind */
        return;
    r = SW_PB_UNPACK(&m->arena, Sw__AuthCheckResponse, sw__auth_check_response, msg, NULL, &err);
    if (!r)
        return;
    if (r->status && r->status->code)
        grpc_denied(s,
                    r->http_response_case == SW__AUTH_CHECK_RESPONSE__HTTP_RESPONSE_DENIED_RESPONSE
                        ? r->denied_response
                        : NULL);
    else if (r->http_response_case != SW__AUTH_CHECK_RESPONSE__HTTP_RESPONSE_DENIED_RESPONSE)
        grpc_ok(s, r->http_response_case == SW__AUTH_CHECK_RESPONSE__HTTP_RESPONSE_OK_RESPONSE
                       ? r->ok_response
                       : NULL);
}

void authz_read_answer(struct sw_gw_authz_state *s, struct sw_exchange *m)
{
    if (s->service->grpc)
        read_grpc(s, m);
    else if (m->resp.status == 200)
        http_ok(s, &m->resp.fields);
    else if (m->resp.status >= 300 && m->resp.status < 500)
        http_denied(s, m);
}
