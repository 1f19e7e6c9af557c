/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the model as a RouteConfiguration. */
#include <stdlib.h>

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/buf.h"
#include "control/gateway/xds/route_int.h"
#include "proto/pb.h"
#include "proto/types.h"

/* --- redirects --- */

static Sw__RedirectAction__RedirectResponseCode redirect_code(uint16_t status)
{
    switch (status) {
    case 302:
        return SW__REDIRECT_ACTION__REDIRECT_RESPONSE_CODE__FOUND;
    case 303:
        return SW__REDIRECT_ACTION__REDIRECT_RESPONSE_CODE__SEE_OTHER;
    case 307:
        return SW__REDIRECT_ACTION__REDIRECT_RESPONSE_CODE__TEMPORARY_REDIRECT;
    case 308:
        return SW__REDIRECT_ACTION__REDIRECT_RESPONSE_CODE__PERMANENT_REDIRECT;
    default:
        return SW__REDIRECT_ACTION__REDIRECT_RESPONSE_CODE__MOVED_PERMANENTLY;
    }
}

static void set_redirect_path(struct enc *e, const struct sw_model_route *r, Sw__RedirectAction *to)
{
    const struct sw_model_redirect *d = r->redirect;
    struct sw_slice prefix;
    struct sw_slice pattern;

    switch (d->path_edit) {
    case SW_MODEL_PATH_KEEP:
        return;
    case SW_MODEL_PATH_FULL:
        to->path_rewrite_specifier_case = SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_PATH_REDIRECT;
        to->path_redirect = SW_PB_BYTES(d->path.n ? d->path : SW_SLICE_LIT("/"));
        return;
    case SW_MODEL_PATH_REPLACE_PREFIX:
        sw_gwx_prefix_swap(e, r->match.path, d->path, &prefix, &pattern);
        if (pattern.n) {
            to->path_rewrite_specifier_case =
                SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_REGEX_REWRITE;
            to->regex_rewrite = sw_gwx_substitute(e, pattern, SW_SLICE_LIT("/"));
        } else if (prefix.n) {
            to->path_rewrite_specifier_case =
                SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_PREFIX_REWRITE;
            to->prefix_rewrite = SW_PB_BYTES(prefix);
        }
        return;
    }
}

static Sw__RedirectAction *redirect(struct enc *e, const struct sw_model_route *r)
{
    const struct sw_model_redirect *d = r->redirect;
    Sw__RedirectAction *to = SW_PB_NEW(e->a, Sw__RedirectAction, sw__redirect_action);

    to->host_redirect = SW_PB_BYTES(d->host);
    if (d->scheme.n) {
        to->scheme_rewrite_specifier_case =
            SW__REDIRECT_ACTION__SCHEME_REWRITE_SPECIFIER_SCHEME_REDIRECT;
        to->scheme_redirect = SW_PB_BYTES(d->scheme);
    }
    to->port_redirect = d->port;
    to->response_code = redirect_code(d->status);
    set_redirect_path(e, r, to);
    return to;
}

/* --- routes --- */

static Sw__DirectResponseAction *respond(struct enc *e, uint16_t status, struct sw_slice body)
{
    Sw__DirectResponseAction *to =
        SW_PB_NEW(e->a, Sw__DirectResponseAction, sw__direct_response_action);

    to->status = status;
    if (body.n) {
        to->body = SW_PB_NEW(e->a, Sw__DataSource, sw__data_source);
        to->body->specifier_case = SW__DATA_SOURCE__SPECIFIER_INLINE_STRING;
        to->body->inline_string = SW_PB_BYTES(body);
    }
    return to;
}

/* Our data plane shows an error page that says why; others send the body. */
static Sw__Metadata *error_metadata(struct enc *e, const char *reason, struct sw_slice device)
{
    const struct sw_model_header fields[] = {
        {SW_SLICE_LIT("device"), device},
        {SW_SLICE_LIT("reason"), sw_slice_str(reason)},
    };

    return sw_gwx_text_metadata(e, SW_SLICE_LIT("spanwire"), fields, SW_ARRAY_LEN(fields));
}

static Sw__Route *route(struct enc *e, const struct sw_model_route *r)
{
    Sw__Route *to = SW_PB_NEW(e->a, Sw__Route, sw__route);

    to->name = SW_PB_BYTES(r->name);
    to->match = sw_gwx_route_match(e, &r->match);
    if (r->share)
        to->match->runtime_fraction = sw_gwx_fraction(e, r->share, SW_MODEL_SHARES);
    switch (r->action) {
    case SW_MODEL_FORWARD:
        to->action_case = SW__ROUTE__ACTION_ROUTE;
        to->route = sw_gwx_route_action(e, r);
        break;
    case SW_MODEL_REDIRECT:
        to->action_case = SW__ROUTE__ACTION_REDIRECT;
        to->redirect = redirect(e, r);
        break;
    case SW_MODEL_RESPOND:
        to->action_case = SW__ROUTE__ACTION_DIRECT_RESPONSE;
        to->direct_response = respond(e, r->status, r->body);
        to->metadata = error_metadata(e, r->reason ? r->reason : "invalid-backend", r->device);
        break;
    }
    SW_GWX_HEADERS(e, to, r);
    sw_gwx_route_filters(e, r, to);
    return to;
}

/* A host that another chain of the same port serves: whoever asks here has the wrong connection. */
static Sw__Route *misdirected(struct enc *e)
{
    static const struct sw_model_match all = {.path_kind = SW_MODEL_PATH_PREFIX,
                                              .path = {.p = "/", .n = 1}};
    Sw__Route *to = SW_PB_NEW(e->a, Sw__Route, sw__route);

    to->name = SW_PB_LIT("misdirected");
    to->match = sw_gwx_route_match(e, &all);
    to->action_case = SW__ROUTE__ACTION_DIRECT_RESPONSE;
    to->direct_response = respond(e, 421, sw_slice("", 0));
    to->metadata = error_metadata(e, "misdirected_request", sw_slice("", 0));
    return to;
}

/* --- hosts --- */

/*
 * Tables of thousands of hosts are written anew whenever one of their routes changes, so they are
 * put together from encoded routes instead of messages. Fields in order of number, as packing does.
 */
enum {
    CONFIG_NAME = 1,
    CONFIG_VIRTUAL_HOSTS = 2,
    CONFIG_IGNORE_PORT = 14,
    HOST_NAME = 1,
    HOST_DOMAINS = 2,
    HOST_ROUTES = 3,
};

static struct sw_slice route_bytes(struct enc *e, const struct sw_model_route *r)
{
    struct sw_model_memo *memo = r->memo;
    struct sw_slice bytes;

    if (memo && memo->bytes.p)
        return memo->bytes;
    bytes = sw_pb_pack(e->a, &route(e, r)->base);
    if (memo)
        bytes = memo->bytes = sw_arena_slice(memo->arena, bytes);
    return bytes;
}

struct host {
    struct sw_slice name;
    const struct sw_slice *routes;
    size_t n_routes;
    size_t size;
};

static struct host measure(struct enc *e, const struct sw_model_vhost *v)
{
    size_t n = v->misdirected ? 1 : v->n_routes;
    struct sw_slice *routes = sw_arena_array(e->a, n + 1, sizeof(*routes));
    struct host h = {.name = v->host, .routes = routes, .n_routes = n};

    h.size = sw_pb_bytes_size(HOST_NAME, v->host.n) + sw_pb_bytes_size(HOST_DOMAINS, v->host.n);
    for (size_t i = 0; i < n; i++) {
        routes[i] =
            v->misdirected ? sw_pb_pack(e->a, &misdirected(e)->base) : route_bytes(e, v->routes[i]);
        h.size += sw_pb_bytes_size(HOST_ROUTES, routes[i].n);
    }
    return h;
}

static bool put_host(struct sw_buf *b, const struct host *h)
{
    bool ok = sw_pb_put_head(b, CONFIG_VIRTUAL_HOSTS, h->size) == SW_OK &&
              sw_pb_put_bytes(b, HOST_NAME, h->name) == SW_OK &&
              sw_pb_put_bytes(b, HOST_DOMAINS, h->name) == SW_OK;

    for (size_t i = 0; i < h->n_routes && ok; i++)
        ok = sw_pb_put_bytes(b, HOST_ROUTES, h->routes[i]) == SW_OK;
    return ok;
}

void sw_gwx_encode_table(struct enc *e, const struct sw_model_table *t)
{
    struct host *hosts = sw_arena_array(e->a, t->n_vhosts + 1, sizeof(*hosts));
    size_t total = sw_pb_bytes_size(CONFIG_NAME, t->name.n) + 2 /* ignore_port */;
    struct sw_buf b = {0};
    bool ok;

    for (size_t i = 0; i < t->n_vhosts; i++) {
        hosts[i] = measure(e, t->vhosts[i]);
        total += sw_pb_bytes_size(CONFIG_VIRTUAL_HOSTS, hosts[i].size);
    }
    /* The size is exact: the arena's memory is never replaced. */
    b = (struct sw_buf){.p = sw_arena_alloc(e->a, total), .cap = total, .max = total};
    ok = sw_pb_put_bytes(&b, CONFIG_NAME, t->name) == SW_OK;
    for (size_t i = 0; i < t->n_vhosts && ok; i++)
        ok = put_host(&b, &hosts[i]);
    ok = ok && sw_pb_put_varint(&b, CONFIG_IGNORE_PORT, 1) == SW_OK;
    if (!ok || b.n != total)
        abort();
    sw_gwx_enc_add_bytes(e, SW_TYPE_ROUTE, sw_arena_slice(e->a, t->name), sw_slice(b.p, b.n));
}
