/* SPDX-License-Identifier: Apache-2.0 */
/* GRPCRoutes: a method is a path, a service is what paths begin with. */
#include "control/gateway/build/build_int.h"
#include "control/gateway/build/rule.h"

enum { MATCHES_MAX = 128, NAME_MAX_LEN = 1024 };

struct grpc_match {
    struct sw_model_match match;
    size_t service;
    size_t method;
};

static void exact_path(struct builder *b, struct sw_slice service, struct sw_slice method,
                       struct sw_model_match *m)
{
    if (service.n && method.n) {
        m->path_kind = SW_MODEL_PATH_EXACT;
        m->path = gw_printf(b, "/%.*s/%.*s", SW_SLICE_ARG(service), SW_SLICE_ARG(method));
    } else if (service.n) {
        m->path_kind = SW_MODEL_PATH_START;
        m->path = gw_printf(b, "/%.*s/", SW_SLICE_ARG(service));
    } else {
        /* An identifier: nothing in it needs quoting. */
        m->path_kind = SW_MODEL_PATH_REGEX;
        m->path = gw_printf(b, "/[^/]+/%.*s", SW_SLICE_ARG(method));
    }
}

static bool identifiers(struct sw_slice s)
{
    if (s.n > NAME_MAX_LEN)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];

        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') &&
            c != '_' && c != '.')
            return false;
    }
    return true;
}

static bool read_method(struct rule *r, const struct sw_json *json, struct grpc_match *g)
{
    struct sw_slice type = js_or(json, "type", "Exact");
    struct sw_slice service = js_or(json, "service", "");
    struct sw_slice method = js_or(json, "method", "");

    g->service = service.n;
    g->method = method.n;
    if (!service.n && !method.n) {
        g->match.path_kind = SW_MODEL_PATH_PREFIX;
        g->match.path = SW_SLICE_LIT("/");
        return true;
    }
    if (sw_slice_eq_str(type, "Exact")) {
        if (!identifiers(service) || !identifiers(method) || sw_slice_find(method, '.') >= 0) {
            rule_bad(r, "UnsupportedValue", "names of services and methods are identifiers");
            return false;
        }
        exact_path(r->b, service, method, &g->match);
        return true;
    }
    if (!sw_slice_eq_str(type, "RegularExpression")) {
        rule_bad(r, "UnsupportedValue", "method match of type '%.*s'", SW_SLICE_ARG(type));
        return false;
    }
    if (!service.n)
        service = SW_SLICE_LIT("[^/]+");
    if (!method.n)
        method = SW_SLICE_LIT("[^/]+");
    g->match.path_kind = SW_MODEL_PATH_REGEX;
    g->match.path =
        gw_printf(r->b, "/(?:%.*s)/(?:%.*s)", SW_SLICE_ARG(service), SW_SLICE_ARG(method));
    return regex_ok(r, service) && regex_ok(r, method) && regex_ok(r, g->match.path);
}

static void emit(struct rule *r, struct compiled *c, struct grpc_match *g, uint16_t index)
{
    const struct entry like = {
        .grpc = true, .len1 = (uint32_t)g->service, .len2 = (uint32_t)g->method, .match = index};

    g->match.grpc = true;
    rule_emit(r, c, &g->match, &like, "grpcroute");
}

void grpc_rule(struct rule *r, struct compiled *c)
{
    const struct sw_json *list = sw_json_find(r->json, "matches");
    size_t n = sw_min(sw_json_len(list), MATCHES_MAX);
    struct grpc_match *matches = sw_arena_array(r->b->a, n + 1, sizeof(*matches));
    size_t good = 0;

    rule_filters(r, sw_json_find(r->json, "filters"));
    rule_settings(r);
    rule_backends(r);
    if (!n)
        good += read_method(r, NULL, &matches[0]);
    for (size_t i = 0; i < n; i++) {
        const struct sw_json *m = sw_json_at(list, i);
        struct grpc_match *g = &matches[good];

        good += read_method(r, sw_json_find(m, "method"), g) &&
                read_value_matches(r, sw_json_find(m, "headers"), true, &g->match.headers,
                                   &g->match.n_headers);
    }
    if (!rule_finish(r))
        return;
    for (size_t i = 0; i < good; i++)
        emit(r, c, &matches[i], (uint16_t)i);
}
