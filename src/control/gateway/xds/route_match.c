/* SPDX-License-Identifier: Apache-2.0 */
/* What a route matches. Order and precedence are the model's; nothing is sorted here. */
#include <proto/core.pb-c.h>
#include <proto/route.pb-c.h>

#include "control/gateway/xds/route_int.h"
#include "proto/pb.h"

static void set_path(struct enc *e, const struct sw_model_match *m, Sw__RouteMatch *to)
{
    switch (m->path_kind) {
    case SW_MODEL_PATH_EXACT:
        to->path_specifier_case = SW__ROUTE_MATCH__PATH_SPECIFIER_PATH;
        to->path = SW_PB_BYTES(m->path);
        return;
    case SW_MODEL_PATH_PREFIX:
        if (m->path.n <= 1)
            break; /* "/": Envoy refuses it as a separated prefix */
        to->path_specifier_case = SW__ROUTE_MATCH__PATH_SPECIFIER_PATH_SEPARATED_PREFIX;
        to->path_separated_prefix = SW_PB_BYTES(m->path);
        return;
    case SW_MODEL_PATH_START:
        to->path_specifier_case = SW__ROUTE_MATCH__PATH_SPECIFIER_PREFIX;
        to->prefix = SW_PB_BYTES(m->path);
        return;
    case SW_MODEL_PATH_REGEX:
        to->path_specifier_case = SW__ROUTE_MATCH__PATH_SPECIFIER_SAFE_REGEX;
        to->safe_regex = sw_gwx_regex(e, m->path);
        return;
    }
    to->path_specifier_case = SW__ROUTE_MATCH__PATH_SPECIFIER_PREFIX;
    to->prefix = SW_PB_LIT("/");
}

static Sw__HeaderMatcher *header(struct enc *e, struct sw_slice name, enum sw_model_match_kind kind,
                                 struct sw_slice value)
{
    Sw__HeaderMatcher *m = SW_PB_NEW(e->a, Sw__HeaderMatcher, sw__header_matcher);

    m->name = SW_PB_BYTES(name);
    m->header_match_specifier_case = SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_STRING_MATCH;
    m->string_match = sw_gwx_string_match(e, kind, value);
    return m;
}

static void set_headers(struct enc *e, const struct sw_model_match *m, Sw__RouteMatch *to)
{
    size_t n = 0;

    if (m->n_headers == 0 && m->method.n == 0)
        return;
    to->headers = sw_arena_array(e->a, m->n_headers + 1, sizeof(*to->headers));
    if (m->method.n)
        to->headers[n++] = header(e, SW_SLICE_LIT(":method"), SW_MODEL_MATCH_EXACT, m->method);
    for (size_t i = 0; i < m->n_headers; i++)
        to->headers[n++] = header(e, m->headers[i].name, m->headers[i].kind, m->headers[i].value);
    to->n_headers = n;
}

static void set_queries(struct enc *e, const struct sw_model_match *m, Sw__RouteMatch *to)
{
    if (m->n_queries == 0)
        return;
    to->query_parameters = sw_arena_array(e->a, m->n_queries, sizeof(*to->query_parameters));
    for (size_t i = 0; i < m->n_queries; i++) {
        const struct sw_model_value_match *q = &m->queries[i];
        Sw__QueryParameterMatcher *p =
            SW_PB_NEW(e->a, Sw__QueryParameterMatcher, sw__query_parameter_matcher);

        p->name = SW_PB_BYTES(q->name);
        p->query_parameter_match_specifier_case =
            SW__QUERY_PARAMETER_MATCHER__QUERY_PARAMETER_MATCH_SPECIFIER_STRING_MATCH;
        p->string_match = sw_gwx_string_match(e, q->kind, q->value);
        to->query_parameters[to->n_query_parameters++] = p;
    }
}

Sw__RouteMatch *sw_gwx_route_match(struct enc *e, const struct sw_model_match *m)
{
    Sw__RouteMatch *to = SW_PB_NEW(e->a, Sw__RouteMatch, sw__route_match);

    set_path(e, m, to);
    set_headers(e, m, to);
    set_queries(e, m, to);
    if (m->grpc)
        to->grpc = SW_PB_NEW(e->a, Sw__RouteMatch__GrpcRouteMatchOptions,
                             sw__route_match__grpc_route_match_options);
    return to;
}
