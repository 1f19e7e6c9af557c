/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for the small messages that occur everywhere. */
#include <string.h>

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>

#include "control/lint/lint_int.h"
#include "proto/pb.h"
#include "regex/regex.h"

enum {
    HEADER_MAX = 16384,
    REGEX_MAX = 4096, /* bytes; Envoy bounds the compiled program, which we cannot measure */
};

/* --- shared checks --- */

static bool is_token(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c));
}

static bool all_tokens(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!is_token(s.p[i]))
            return false;
    }
    return true;
}

static bool has_line_ends(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\r' || s.p[i] == '\n' || s.p[i] == '\0')
            return true;
    }
    return false;
}

void sw_lint_header_name(struct lint *l, struct sw_slice name, const char *field, bool pseudo)
{
    if (name.n == 0 || name.n > HEADER_MAX)
        sw_lint_error(l, field, "must have 1 to %d bytes", (int)HEADER_MAX);
    else if (has_line_ends(name))
        sw_lint_error(l, field, "holds CR, LF or NUL");
    else if (!all_tokens(name.p[0] == ':' && pseudo ? sw_slice_from(name, 1) : name))
        sw_lint_warn(l, field, "is not the name of a header");
}

void sw_lint_header_value(struct lint *l, struct sw_slice value, const char *field)
{
    if (has_line_ends(value))
        sw_lint_error(l, field, "holds CR, LF or NUL");
    if (value.n > HEADER_MAX)
        sw_lint_error(l, field, "has more than %d bytes", (int)HEADER_MAX);
}

/* The headers that only host_rewrite and the like may touch. */
static void check_mutable(struct lint *l, struct sw_slice name, const char *field)
{
    sw_lint_header_name(l, name, field, true);
    if (sw_slice_has_prefix(name, SW_SLICE_LIT(":")) || sw_slice_ieq(name, SW_SLICE_LIT("host")))
        sw_lint_error(l, field, "may not be changed: '%.*s'",
                      SW_SLICE_ARG(sw_slice_head(name, 40)));
}

void sw_lint_removed(struct lint *l, const ProtobufCBinaryData *p, size_t n, const char *field)
{
    for (size_t i = 0; i < n; i++)
        check_mutable(l, SW_PB_SLICE(p[i]), field);
}

void sw_lint_format(struct lint *l, struct sw_slice s, const char *field)
{
    size_t i = 0;

    while (i < s.n) {
        const char *end;

        if (s.p[i] != '%') {
            i++;
            continue;
        }
        end = memchr(s.p + i + 1, '%', s.n - i - 1);
        if (!end) {
            sw_lint_error(l, field, "has a '%%' without a partner");
            return;
        }
        i = (size_t)(end - s.p) + 1;
    }
}

/* --- rules --- */

static void duration(struct lint *l, const void *msg)
{
    const Sw__Duration *m = msg;
    bool signs = (m->seconds > 0 && m->nanos < 0) || (m->seconds < 0 && m->nanos > 0);

    if (signs || m->nanos <= -1000000000 || m->nanos >= 1000000000 || m->seconds > 315576000000 ||
        m->seconds < -315576000000)
        sw_lint_error(l, "", "is not a valid duration");
    else if (m->seconds < 0 || m->nanos < 0)
        sw_lint_error(l, "", "is negative");
}

static void header_value_option(struct lint *l, const void *msg)
{
    const Sw__HeaderValueOption *m = msg;

    if (!m->header) {
        sw_lint_error(l, "header", "is missing");
        return;
    }
    check_mutable(l, SW_PB_SLICE(m->header->key), "header.key");
    sw_lint_header_value(l, SW_PB_SLICE(m->header->value), "header.value");
    sw_lint_format(l, SW_PB_SLICE(m->header->value), "header.value");
    if (m->append_action > SW__HEADER_VALUE_OPTION__HEADER_APPEND_ACTION__OVERWRITE_IF_EXISTS)
        sw_lint_error(l, "append_action", "is not defined");
}

static void internal_address(struct lint *l, const void *msg)
{
    const Sw__EnvoyInternalAddress *m = msg;

    if (m->address_name_specifier_case ==
            SW__ENVOY_INTERNAL_ADDRESS__ADDRESS_NAME_SPECIFIER_SERVER_LISTENER_NAME &&
        m->server_listener_name.len == 0)
        sw_lint_warn(l, "server_listener_name", "is empty: no upstream");
    sw_lint_ref(l, REF_INTERNAL, SW_PB_SLICE(m->server_listener_name), "server_listener_name");
}

static void check_version(struct lint *l, Sw__ApiVersion v, const char *field)
{
    if (v < SW__API_VERSION__V3)
        sw_lint_warn(l, field, "is not V3");
}

static void config_source(struct lint *l, const void *msg)
{
    check_version(l, ((const Sw__ConfigSource *)msg)->resource_api_version, "resource_api_version");
}

static void regex_matcher(struct lint *l, const void *msg)
{
    struct sw_slice regex = SW_PB_SLICE(((const Sw__RegexMatcher *)msg)->regex);
    struct sw_regex *re = NULL;
    struct sw_err err;

    if (regex.n == 0 || regex.n > REGEX_MAX) {
        sw_lint_error(l, "regex", "must have 1 to %d bytes", (int)REGEX_MAX);
        return;
    }
    if (sw_regex_new_bytes(regex, &re, &err) != SW_OK)
        sw_lint_error(l, "regex", "%s", err.msg);
    sw_regex_free(re);
}

static void regex_substitute(struct lint *l, const void *msg)
{
    sw_lint_header_value(l, SW_PB_SLICE(((const Sw__RegexMatchAndSubstitute *)msg)->substitution),
                         "substitution");
}

static void fractional_percent(struct lint *l, const void *msg)
{
    static const uint32_t whole[] = {100, 10000, 1000000};
    const Sw__FractionalPercent *m = msg;

    if (m->denominator < SW_ARRAY_LEN(whole) && m->numerator > whole[m->denominator])
        sw_lint_warn(l, "numerator", "is above %u", whole[m->denominator]);
}

static void envoy_grpc(struct lint *l, const void *msg)
{
    sw_lint_ref(l, REF_CLUSTER,
                SW_PB_SLICE(((const Sw__GrpcService__EnvoyGrpc *)msg)->cluster_name),
                "cluster_name");
}

static void http_uri(struct lint *l, const void *msg)
{
    const Sw__HttpUri *m = msg;

    if (m->http_upstream_type_case == SW__HTTP_URI__HTTP_UPSTREAM_TYPE_CLUSTER)
        sw_lint_ref(l, REF_CLUSTER, SW_PB_SLICE(m->cluster), "cluster");
}

/* Envoy finds the way of keeping sessions by its name, not by its type. */
static void stateful_session(struct lint *l, const void *msg)
{
    const Sw__TypedExtensionConfig *s = ((const Sw__StatefulSession *)msg)->session_state;

    if (s && s->name.len &&
        !sw_slice_has_prefix(SW_PB_SLICE(s->name), SW_SLICE_LIT("envoy.http.stateful_session.")))
        sw_lint_error(l, "session_state.name", "'%.*s' is no extension of Envoy's",
                      SW_SLICE_ARG(sw_slice_head(SW_PB_SLICE(s->name), 80)));
}

static void ext_authz(struct lint *l, const void *msg)
{
    const Sw__ExtAuthz *m = msg;

    if (m->services_case == SW__EXT_AUTHZ__SERVICES__NOT_SET)
        sw_lint_warn(l, "", "has no service to ask unless each route names one");
    check_version(l, m->transport_api_version, "transport_api_version");
}

static void ext_authz_http(struct lint *l, const void *msg)
{
    const Sw__ExtAuthzHttpService *m = msg;

    if (!m->server_uri)
        sw_lint_warn(l, "server_uri", "is missing: no authorization service");
    if (m->path_prefix.len && m->path_prefix.data[0] != '/')
        sw_lint_error(l, "path_prefix", "does not begin with '/'");
}

static void ext_authz_route(struct lint *l, const void *msg)
{
    const Sw__ExtAuthzPerRoute *m = msg;

    if (m->override_case == SW__EXT_AUTHZ_PER_ROUTE__OVERRIDE__NOT_SET ||
        (m->override_case == SW__EXT_AUTHZ_PER_ROUTE__OVERRIDE_DISABLED && !m->disabled))
        sw_lint_error(l, "", "neither disables nor sets anything");
}

static void session_header(struct lint *l, const void *msg)
{
    struct sw_slice name = SW_PB_SLICE(((const Sw__HeaderBasedSessionState *)msg)->name);

    if (!all_tokens(name))
        sw_lint_warn(l, "name", "is not the name of a header");
}

const struct lint_rule sw_lint_core_rules[] = {
    {&sw__duration__descriptor, duration},
    {&sw__header_value_option__descriptor, header_value_option},
    {&sw__envoy_internal_address__descriptor, internal_address},
    {&sw__config_source__descriptor, config_source},
    {&sw__regex_matcher__descriptor, regex_matcher},
    {&sw__regex_match_and_substitute__descriptor, regex_substitute},
    {&sw__fractional_percent__descriptor, fractional_percent},
    {&sw__grpc_service__envoy_grpc__descriptor, envoy_grpc},
    {&sw__http_uri__descriptor, http_uri},
    {&sw__stateful_session__descriptor, stateful_session},
    {&sw__ext_authz__descriptor, ext_authz},
    {&sw__ext_authz_http_service__descriptor, ext_authz_http},
    {&sw__ext_authz_per_route__descriptor, ext_authz_route},
    {&sw__header_based_session_state__descriptor, session_header},
    {NULL, NULL},
};
