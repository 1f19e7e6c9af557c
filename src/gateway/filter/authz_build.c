/* SPDX-License-Identifier: Apache-2.0 */
/* Outside authorisation, compiled from its configuration. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>

#include "gateway/config/build.h"
#include "gateway/filter/authz.h"
#include "gateway/filter/authz_int.h"
#include "http/grammar.h"
#include "proto/pb.h"

/* Names the headers that are shown, where a route sets it (control/gateway/xds/xds.h). */
#define SHOWN "spanwire.dev/allowed-headers"

enum { NAMES_MAX = 256 };

static int build_names(struct sw_gw_build *b, const Sw__ListStringMatcher *in,
                       struct sw_gw_names *ret)
{
    struct sw_gw_str_match *list;

    if (!in)
        return SW_OK;
    if (in->n_patterns > NAMES_MAX)
        return SW_GW_BAD(b, "ext_authz: more than %d patterns", NAMES_MAX);
    list = sw_arena_array(b->arena, in->n_patterns + 1, sizeof(*list));
    for (size_t i = 0; i < in->n_patterns; i++) {
        int rc = sw_gw_build_str_match(b, in->patterns[i], &list[i]);

        if (rc < 0)
            return rc;
    }
    *ret = (struct sw_gw_names){.p = list, .n = in->n_patterns, .given = true};
    return SW_OK;
}

static int build_fields(struct sw_gw_build *b, Sw__HeaderValue *const *in, size_t n,
                        struct sw_gw_authz_service *s)
{
    struct sw_h1_field *list = sw_arena_array(b->arena, n + 1, sizeof(*list));

    for (size_t i = 0; i < n; i++) {
        list[i].name = sw_gw_lower(b, SW_PB_SLICE(in[i]->key));
        list[i].value = sw_gw_text(b, &in[i]->value);
        if (!sw_http_token_valid(list[i].name) ||
            (list[i].value.n && !sw_http_value_valid(list[i].value)))
            return SW_GW_BAD(b, "ext_authz: a header that cannot be sent");
    }
    s->add = list;
    s->n_add = n;
    return SW_OK;
}

static int build_grpc(struct sw_gw_build *b, const Sw__GrpcService *in,
                      struct sw_gw_authz_service *s)
{
    if (in->target_specifier_case != SW__GRPC_SERVICE__TARGET_SPECIFIER_ENVOY_GRPC ||
        in->envoy_grpc->cluster_name.len == 0)
        return SW_GW_BAD(b, "ext_authz: grpc_service without a cluster");
    s->grpc = true;
    s->cluster = sw_gw_text(b, &in->envoy_grpc->cluster_name);
    s->authority = sw_gw_text(b, &in->envoy_grpc->authority);
    s->timeout_ns = sw_gw_duration(in->timeout, 200 * SW_NS_PER_MS);
    return build_fields(b, in->initial_metadata, in->n_initial_metadata, s);
}

static int build_http(struct sw_gw_build *b, const Sw__ExtAuthzHttpService *in,
                      struct sw_gw_authz_service *s)
{
    const Sw__HttpUri *uri = in->server_uri;
    const Sw__ExtAuthzAuthorizationResponse *r = in->authorization_response;
    const Sw__ExtAuthzAuthorizationRequest *q = in->authorization_request;
    int rc;

    if (!uri || uri->http_upstream_type_case != SW__HTTP_URI__HTTP_UPSTREAM_TYPE_CLUSTER ||
        uri->cluster.len == 0)
        return SW_GW_BAD(b, "ext_authz: http_service without a cluster");
    s->cluster = sw_gw_text(b, &uri->cluster);
    s->timeout_ns = sw_gw_duration(uri->timeout, 200 * SW_NS_PER_MS);
    s->prefix = sw_gw_text(b, &in->path_prefix);
    if (s->prefix.n && (s->prefix.p[0] != '/' || !sw_http_value_valid(s->prefix) ||
                        sw_slice_find(s->prefix, ' ') >= 0))
        return SW_GW_BAD(b, "ext_authz: path_prefix is no path");
    rc = q ? build_fields(b, q->headers_to_add, q->n_headers_to_add, s) : SW_OK;
    if (rc < 0 || !r)
        return rc;
    rc = build_names(b, r->allowed_upstream_headers, &s->copied);
    if (rc == SW_OK)
        rc = build_names(b, r->allowed_upstream_headers_to_append, &s->appended);
    if (rc == SW_OK)
        rc = build_names(b, r->allowed_client_headers, &s->client);
    if (rc == SW_OK)
        rc = build_names(b, r->allowed_client_headers_on_success, &s->client_ok);
    return rc;
}

static void build_body(const Sw__ExtAuthzBufferSettings *in, struct sw_gw_authz_body *ret)
{
    if (!in)
        return;
    ret->max = (uint32_t)sw_min(in->max_request_bytes, BODY_MAX);
    ret->partial = in->allow_partial_message;
    ret->raw = in->pack_as_bytes;
}

int sw_gw_build_authz(struct sw_gw_build *b, const struct Sw__Any *any, const void **ret)
{
    const Sw__ExtAuthz *in = sw_gw_open_any(b, any, &sw__ext_authz__descriptor);
    struct sw_gw_authz *c = SW_ARENA_NEW(b->arena, struct sw_gw_authz);
    int rc;

    if (!in)
        return SW_EINVAL;
    switch (in->services_case) {
    case SW__EXT_AUTHZ__SERVICES_GRPC_SERVICE:
        rc = build_grpc(b, in->grpc_service, &c->service);
        break;
    case SW__EXT_AUTHZ__SERVICES_HTTP_SERVICE:
        rc = build_http(b, in->http_service, &c->service);
        break;
    case SW__EXT_AUTHZ__SERVICES__NOT_SET:
    case _SW__EXT_AUTHZ__SERVICES__CASE_IS_INT_SIZE:
    default:
        rc = SW_GW_BAD(b, "ext_authz: no service to ask");
        break;
    }
    if (rc == SW_OK)
        rc = build_names(b, in->allowed_headers, &c->shown);
    build_body(in->with_request_body, &c->body);
    c->let_pass = in->failure_mode_allow;
    c->failure = 403;
    if (in->status_on_error && in->status_on_error->code >= 400 && in->status_on_error->code < 600)
        c->failure = (uint16_t)in->status_on_error->code;
    *ret = c;
    return rc;
}

/* ---- routes ---- */

/* "a, b": exact names. */
static void build_shown(struct sw_gw_build *b, struct sw_slice text, struct sw_gw_names *ret)
{
    struct sw_gw_str_match *list = sw_arena_array(b->arena, NAMES_MAX, sizeof(*list));
    size_t n = 0;

    while (text.p && n < NAMES_MAX) {
        struct sw_slice name = sw_slice_trim(sw_slice_cut(&text, ','));

        if (name.n)
            list[n++] =
                (struct sw_gw_str_match){.kind = SW_GW_STR_EXACT, .text = sw_gw_lower(b, name)};
    }
    *ret = (struct sw_gw_names){.p = list, .n = n, .given = true};
}

static int build_settings(struct sw_gw_build *b, const Sw__ExtAuthzCheckSettings *in,
                          struct sw_gw_authz *c)
{
    struct sw_h1_field *context =
        sw_arena_array(b->arena, in->n_context_extensions + 1, sizeof(*context));

    for (size_t i = 0; i < in->n_context_extensions; i++) {
        const Sw__ExtAuthzContextExtensionsEntry *e = in->context_extensions[i];

        if (sw_slice_eq_str(SW_PB_SLICE(e->key), SHOWN)) {
            build_shown(b, SW_PB_SLICE(e->value), &c->shown);
            continue;
        }
        context[c->n_context].name = sw_gw_text(b, &e->key);
        context[c->n_context++].value = sw_gw_text(b, &e->value);
    }
    c->context = context;
    c->no_body = in->disable_request_body_buffering;
    build_body(in->with_request_body, &c->body);
    switch (in->service_override_case) {
    case SW__EXT_AUTHZ_CHECK_SETTINGS__SERVICE_OVERRIDE_GRPC_SERVICE:
        return build_grpc(b, in->grpc_service, &c->service);
    case SW__EXT_AUTHZ_CHECK_SETTINGS__SERVICE_OVERRIDE_HTTP_SERVICE:
        return build_http(b, in->http_service, &c->service);
    case SW__EXT_AUTHZ_CHECK_SETTINGS__SERVICE_OVERRIDE__NOT_SET:
    case _SW__EXT_AUTHZ_CHECK_SETTINGS__SERVICE_OVERRIDE__CASE_IS_INT_SIZE:
        break;
    }
    return SW_OK;
}

int sw_gw_build_authz_route(struct sw_gw_build *b, const struct Sw__Any *any,
                            struct sw_gw_per_filter *p)
{
    const Sw__ExtAuthzPerRoute *in = sw_gw_open_any(b, any, &sw__ext_authz_per_route__descriptor);
    struct sw_gw_authz *c;

    if (!in)
        return SW_EINVAL;
    p->kind = SW_GW_FILTER_AUTHZ;
    if (in->override_case == SW__EXT_AUTHZ_PER_ROUTE__OVERRIDE_DISABLED) {
        p->disabled = in->disabled;
        if (!p->disabled)
            return SW_GW_BAD(b, "ext_authz: a route that sets nothing");
        return SW_OK;
    }
    if (in->override_case != SW__EXT_AUTHZ_PER_ROUTE__OVERRIDE_CHECK_SETTINGS)
        return SW_GW_BAD(b, "ext_authz: a route that sets nothing");
    c = SW_ARENA_NEW(b->arena, struct sw_gw_authz);
    p->config = c;
    return build_settings(b, in->check_settings, c);
}
