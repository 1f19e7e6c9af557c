/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration of HTTP filters for single routes: cross-origin requests, outside authorisation,
 * session state. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/buf.h"
#include "control/gateway/xds/route_int.h"
#include "proto/pb.h"
#include "proto/types.h"

/* --- cross-origin requests --- */

/* "a, b" or "a,b": lists of names in one text. */
static struct sw_slice join(struct enc *e, const struct sw_slice *v, size_t n)
{
    size_t len = 0;
    char *p;

    for (size_t i = 0; i < n; i++)
        len += v[i].n + 2;
    p = sw_arena_alloc(e->a, len + 1);
    len = 0;
    for (size_t i = 0; i < n; i++) {
        if (i) {
            p[len++] = ',';
            p[len++] = ' ';
        }
        if (v[i].n)
            memcpy(p + len, v[i].p, v[i].n);
        len += v[i].n;
    }
    return sw_slice(p, len);
}

/* A star stands for anything up to the end of the host. */
static Sw__StringMatcher *origin(struct enc *e, struct sw_slice o)
{
    ptrdiff_t star = sw_slice_find(o, '*');
    struct sw_slice head;
    struct sw_slice tail;

    if (star < 0)
        return sw_gwx_string_match(e, SW_MODEL_MATCH_EXACT, o);
    if (o.n == 1)
        return sw_gwx_string_match(e, SW_MODEL_MATCH_REGEX, SW_SLICE_LIT(".*"));
    head = sw_gwx_regex_quote(e, sw_slice_head(o, (size_t)star));
    tail = sw_gwx_regex_quote(e, sw_slice_from(o, (size_t)star + 1));
    return sw_gwx_string_match(e, SW_MODEL_MATCH_REGEX,
                               sw_slice_str(sw_arena_printf(
                                   e->a, "%.*s[^/]+%.*s", SW_SLICE_ARG(head), SW_SLICE_ARG(tail))));
}

static Sw__Any *cors(struct enc *e, const struct sw_model_cors *c)
{
    Sw__CorsPolicy *p = SW_PB_NEW(e->a, Sw__CorsPolicy, sw__cors_policy);

    p->allow_origin_string_match =
        sw_arena_array(e->a, c->n_origins + 1, sizeof(*p->allow_origin_string_match));
    for (size_t i = 0; i < c->n_origins; i++)
        p->allow_origin_string_match[p->n_allow_origin_string_match++] = origin(e, c->origins[i]);
    p->allow_methods = SW_PB_BYTES(join(e, c->methods, c->n_methods));
    p->allow_headers = SW_PB_BYTES(join(e, c->headers, c->n_headers));
    p->expose_headers = SW_PB_BYTES(join(e, c->expose, c->n_expose));
    p->max_age = SW_PB_BYTES(sw_slice_str(sw_arena_printf(e->a, "%u", c->max_age_s)));
    if (c->credentials)
        p->allow_credentials = sw_gwx_bool(e, true);
    p->forward_not_matching_preflights = sw_gwx_bool(e, false);
    return sw_pb_any(e->a, &p->base);
}

/* --- sessions --- */

static Sw__TypedExtensionConfig *session_state(struct enc *e, const struct sw_model_session *s)
{
    Sw__TypedExtensionConfig *x =
        SW_PB_NEW(e->a, Sw__TypedExtensionConfig, sw__typed_extension_config);
    Sw__CookieBasedSessionState *cookie;
    Sw__HeaderBasedSessionState *header;

    switch (s->kind) {
    case SW_MODEL_SESSION_COOKIE:
        cookie = SW_PB_NEW(e->a, Sw__CookieBasedSessionState, sw__cookie_based_session_state);
        cookie->cookie = SW_PB_NEW(e->a, Sw__SessionCookie, sw__session_cookie);
        cookie->cookie->name = SW_PB_BYTES(s->name);
        if (s->permanent && s->ttl_ms)
            cookie->cookie->ttl = sw_gwx_duration(e, s->ttl_ms);
        cookie->cookie->path = SW_PB_BYTES(s->path);
        x->name = SW_PB_LIT("envoy.http.stateful_session.cookie");
        x->typed_config = sw_pb_any(e->a, &cookie->base);
        break;
    case SW_MODEL_SESSION_HEADER:
        header = SW_PB_NEW(e->a, Sw__HeaderBasedSessionState, sw__header_based_session_state);
        header->name = SW_PB_BYTES(s->name);
        x->name = SW_PB_LIT("envoy.http.stateful_session.header");
        x->typed_config = sw_pb_any(e->a, &header->base);
        break;
    }
    return x;
}

static Sw__Any *session(struct enc *e, const struct sw_model_session *s)
{
    Sw__StatefulSessionPerRoute *p =
        SW_PB_NEW(e->a, Sw__StatefulSessionPerRoute, sw__stateful_session_per_route);

    p->override_case = SW__STATEFUL_SESSION_PER_ROUTE__OVERRIDE_STATEFUL_SESSION;
    p->stateful_session = SW_PB_NEW(e->a, Sw__StatefulSession, sw__stateful_session);
    p->stateful_session->session_state = session_state(e, s);
    return sw_pb_any(e->a, &p->base);
}

/* --- outside authorisation --- */

enum { AUTH_TIMEOUT_MS = 5000 };

/*
 * Everything but what frames a message or names a host: RE2 knows no "not", so names that begin
 * like one of those stay behind too.
 */
#define COPIED                                                                                     \
    "[^:chkptu].*|c([^o].*)?|co([^n].*)?|h([^o].*)?|k([^e].*)?|p([^r].*)?|t([^er].*)?|u([^p].*)?"

static Sw__ListStringMatcher *copied(struct enc *e, const struct sw_model_auth *x)
{
    Sw__ListStringMatcher *to = SW_PB_NEW(e->a, Sw__ListStringMatcher, sw__list_string_matcher);

    to->patterns = sw_arena_array(e->a, x->n_copied + 1, sizeof(*to->patterns));
    for (size_t i = 0; i < x->n_copied; i++)
        to->patterns[to->n_patterns++] = sw_gwx_string_match(e, SW_MODEL_MATCH_EXACT, x->copied[i]);
    if (!x->n_copied)
        to->patterns[to->n_patterns++] =
            sw_gwx_string_match(e, SW_MODEL_MATCH_REGEX, SW_SLICE_LIT(COPIED));
    return to;
}

Sw__ExtAuthzHttpService *sw_gwx_auth_service(struct enc *e, struct sw_slice cluster)
{
    Sw__ExtAuthzHttpService *to =
        SW_PB_NEW(e->a, Sw__ExtAuthzHttpService, sw__ext_authz_http_service);

    to->server_uri = SW_PB_NEW(e->a, Sw__HttpUri, sw__http_uri);
    to->server_uri->uri = SW_PB_LIT("http://ext-authz"); /* the cluster says where it is */
    to->server_uri->http_upstream_type_case = SW__HTTP_URI__HTTP_UPSTREAM_TYPE_CLUSTER;
    to->server_uri->cluster = SW_PB_BYTES(cluster);
    to->server_uri->timeout = sw_gwx_duration(e, AUTH_TIMEOUT_MS);
    return to;
}

static void set_http_auth(struct enc *e, const struct sw_model_auth *x,
                          Sw__ExtAuthzCheckSettings *to)
{
    Sw__ExtAuthzHttpService *s = sw_gwx_auth_service(e, x->cluster->name);

    s->path_prefix = SW_PB_BYTES(x->path);
    s->authorization_response =
        SW_PB_NEW(e->a, Sw__ExtAuthzAuthorizationResponse, sw__ext_authz_authorization_response);
    s->authorization_response->allowed_upstream_headers = copied(e, x);
    to->service_override_case = SW__EXT_AUTHZ_CHECK_SETTINGS__SERVICE_OVERRIDE_HTTP_SERVICE;
    to->http_service = s;
}

/* A cluster's name has slashes, which servers may find odd in an authority. */
static struct sw_slice authority(struct enc *e, struct sw_slice endpoints)
{
    struct sw_slice ns = sw_slice_cut(&endpoints, '/');
    struct sw_slice name = sw_slice_cut(&endpoints, '/');

    return sw_slice_str(sw_arena_printf(e->a, "%.*s.%.*s", SW_SLICE_ARG(name), SW_SLICE_ARG(ns)));
}

static void set_grpc_auth(struct enc *e, const struct sw_model_auth *x,
                          Sw__ExtAuthzCheckSettings *to)
{
    Sw__GrpcService *s = SW_PB_NEW(e->a, Sw__GrpcService, sw__grpc_service);

    s->target_specifier_case = SW__GRPC_SERVICE__TARGET_SPECIFIER_ENVOY_GRPC;
    s->envoy_grpc = SW_PB_NEW(e->a, Sw__GrpcService__EnvoyGrpc, sw__grpc_service__envoy_grpc);
    s->envoy_grpc->cluster_name = SW_PB_BYTES(x->cluster->name);
    s->envoy_grpc->authority = SW_PB_BYTES(authority(e, x->cluster->endpoints));
    s->timeout = sw_gwx_duration(e, AUTH_TIMEOUT_MS);
    to->service_override_case = SW__EXT_AUTHZ_CHECK_SETTINGS__SERVICE_OVERRIDE_GRPC_SERVICE;
    to->grpc_service = s;
}

/*
 * Which headers to show is a setting of the filter in Envoy, not of a route. Ours finds it among
 * the extensions; Envoy shows what it always does: to gRPC all, to HTTP the few that always go.
 */
static void set_shown(struct enc *e, const struct sw_model_auth *x, Sw__ExtAuthzCheckSettings *to)
{
    Sw__ExtAuthzContextExtensionsEntry *entry =
        SW_PB_NEW(e->a, Sw__ExtAuthzContextExtensionsEntry, sw__ext_authz_context_extensions_entry);

    if (!x->n_headers)
        return;
    entry->key = SW_PB_LIT(SW_MODEL_AUTH_HEADERS);
    entry->value = SW_PB_BYTES(join(e, x->headers, x->n_headers));
    SW_GWX_ONE(e, to, context_extensions, entry);
}

static Sw__Any *auth(struct enc *e, const struct sw_model_auth *x)
{
    Sw__ExtAuthzPerRoute *p = SW_PB_NEW(e->a, Sw__ExtAuthzPerRoute, sw__ext_authz_per_route);
    Sw__ExtAuthzCheckSettings *to =
        SW_PB_NEW(e->a, Sw__ExtAuthzCheckSettings, sw__ext_authz_check_settings);

    p->override_case = SW__EXT_AUTHZ_PER_ROUTE__OVERRIDE_CHECK_SETTINGS;
    p->check_settings = to;
    if (x->grpc)
        set_grpc_auth(e, x, to);
    else
        set_http_auth(e, x, to);
    set_shown(e, x, to);
    if (x->body_max) {
        to->with_request_body =
            SW_PB_NEW(e->a, Sw__ExtAuthzBufferSettings, sw__ext_authz_buffer_settings);
        to->with_request_body->max_request_bytes = x->body_max;
        to->with_request_body->pack_as_bytes = true;
    }
    return sw_pb_any(e->a, &p->base);
}

static void add(struct enc *e, Sw__Route *to, const char *filter, Sw__Any *config)
{
    Sw__FilterConfigEntry *entry = SW_PB_NEW(e->a, Sw__FilterConfigEntry, sw__filter_config_entry);

    entry->key = SW_PB_BYTES(sw_slice_str(filter));
    entry->value = config;
    to->typed_per_filter_config[to->n_typed_per_filter_config++] = entry;
}

void sw_gwx_route_filters(struct enc *e, const struct sw_model_route *r, Sw__Route *to)
{
    bool keeps = r->session && r->action == SW_MODEL_FORWARD;

    if (!r->cors && !r->auth && !keeps)
        return;
    to->typed_per_filter_config = sw_arena_array(e->a, 3, sizeof(*to->typed_per_filter_config));
    /* A map: by key. */
    if (r->cors)
        add(e, to, "envoy.filters.http.cors", cors(e, r->cors));
    if (r->auth)
        add(e, to, "envoy.filters.http.ext_authz", auth(e, r->auth));
    if (keeps)
        add(e, to, "envoy.filters.http.stateful_session", session(e, r->session));
}
