/* SPDX-License-Identifier: Apache-2.0 */
/* A table of the model as a RouteConfiguration. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/buf.h"
#include "control/gateway/xds_route_int.h"
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

static void set_redirect_path(struct enc *e, const struct sw_gw_route *r, Sw__RedirectAction *to)
{
    const struct sw_gw_redirect *d = r->redirect;
    struct sw_slice prefix;
    struct sw_slice pattern;

    switch (d->path_edit) {
    case SW_GW_PATH_KEEP:
        return;
    case SW_GW_PATH_FULL:
        to->path_rewrite_specifier_case = SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_PATH_REDIRECT;
        to->path_redirect = SW_PB_BYTES(d->path.n ? d->path : SW_SLICE_LIT("/"));
        return;
    case SW_GW_PATH_REPLACE_PREFIX:
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

static Sw__RedirectAction *redirect(struct enc *e, const struct sw_gw_route *r)
{
    const struct sw_gw_redirect *d = r->redirect;
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

static Sw__DirectResponseAction *respond(struct enc *e, uint16_t status)
{
    Sw__DirectResponseAction *to =
        SW_PB_NEW(e->a, Sw__DirectResponseAction, sw__direct_response_action);

    to->status = status;
    return to;
}

static Sw__Route *route(struct enc *e, const struct sw_gw_route *r)
{
    Sw__Route *to = SW_PB_NEW(e->a, Sw__Route, sw__route);

    to->name = SW_PB_BYTES(r->name);
    to->match = sw_gwx_route_match(e, &r->match);
    switch (r->action) {
    case SW_GW_FORWARD:
        to->action_case = SW__ROUTE__ACTION_ROUTE;
        to->route = sw_gwx_route_action(e, r);
        break;
    case SW_GW_REDIRECT:
        to->action_case = SW__ROUTE__ACTION_REDIRECT;
        to->redirect = redirect(e, r);
        break;
    case SW_GW_RESPOND:
        to->action_case = SW__ROUTE__ACTION_DIRECT_RESPONSE;
        to->direct_response = respond(e, r->status);
        break;
    }
    to->request_headers_to_add =
        sw_gwx_header_options(e, &r->request, &to->n_request_headers_to_add);
    to->response_headers_to_add =
        sw_gwx_header_options(e, &r->response, &to->n_response_headers_to_add);
    to->request_headers_to_remove =
        sw_gwx_header_removals(e, &r->request, &to->n_request_headers_to_remove);
    to->response_headers_to_remove =
        sw_gwx_header_removals(e, &r->response, &to->n_response_headers_to_remove);
    sw_gwx_route_filters(e, r, to);
    return to;
}

/* A host that another chain of the same port serves: whoever asks here has the wrong connection. */
static Sw__Route *misdirected(struct enc *e)
{
    static const struct sw_gw_match all = {.path_kind = SW_GW_PATH_PREFIX,
                                           .path = {.p = "/", .n = 1}};
    Sw__Route *to = SW_PB_NEW(e->a, Sw__Route, sw__route);

    to->name = SW_PB_LIT("misdirected");
    to->match = sw_gwx_route_match(e, &all);
    to->action_case = SW__ROUTE__ACTION_DIRECT_RESPONSE;
    to->direct_response = respond(e, 421);
    return to;
}

static Sw__VirtualHost *vhost(struct enc *e, const struct sw_gw_vhost *v)
{
    Sw__VirtualHost *to = SW_PB_NEW(e->a, Sw__VirtualHost, sw__virtual_host);

    to->name = SW_PB_BYTES(v->host);
    to->domains = sw_arena_array(e->a, 1, sizeof(*to->domains));
    to->domains[0] = SW_PB_BYTES(v->host);
    to->n_domains = 1;
    if (v->misdirected) {
        to->routes = sw_gwx_one(e, misdirected(e));
        to->n_routes = 1;
        return to;
    }
    to->routes = sw_arena_array(e->a, v->n_routes + 1, sizeof(*to->routes));
    for (size_t i = 0; i < v->n_routes; i++)
        to->routes[to->n_routes++] = route(e, v->routes[i]);
    return to;
}

void sw_gwx_encode_table(struct enc *e, const struct sw_gw_table *t)
{
    Sw__RouteConfiguration *to = SW_PB_NEW(e->a, Sw__RouteConfiguration, sw__route_configuration);

    to->name = SW_PB_BYTES(t->name);
    to->ignore_port_in_host_matching = true;
    to->virtual_hosts = sw_arena_array(e->a, t->n_vhosts + 1, sizeof(*to->virtual_hosts));
    for (size_t i = 0; i < t->n_vhosts; i++)
        to->virtual_hosts[to->n_virtual_hosts++] = vhost(e, t->vhosts[i]);
    sw_gwx_enc_add(e, SW_TYPE_ROUTE, t->name, &to->base);
}
