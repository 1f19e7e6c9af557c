/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for route configurations. */
#include <string.h>

#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/route.pb-c.h>

#include "control/lint/lint_int.h"
#include "proto/pb.h"

enum {
    BODY_DEFAULT = 4096, /* bytes of a direct response unless the configuration says otherwise */
};

/* --- matches --- */

/* Envoy wants something that neither is "/" nor ends in it: whole segments are compared. */
static void check_separated_prefix(struct lint *l, struct sw_slice p)
{
    if (p.n < 2 || p.p[p.n - 1] == '/' || memchr(p.p, '?', p.n) || memchr(p.p, '#', p.n))
        sw_lint_error(l, "path_separated_prefix", "'%.*s' ends in '/', or holds '?' or '#'",
                      SW_SLICE_ARG(sw_slice_head(p, 80)));
}

static void route_match(struct lint *l, const void *msg)
{
    const Sw__RouteMatch *m = msg;

    if (m->path_specifier_case == SW__ROUTE_MATCH__PATH_SPECIFIER_PATH_SEPARATED_PREFIX)
        check_separated_prefix(l, SW_PB_SLICE(m->path_separated_prefix));
}

static void check_text(struct lint *l, struct sw_slice s, const char *field)
{
    if (s.n && (memchr(s.p, '\n', s.n) || memchr(s.p, '\r', s.n) || memchr(s.p, '\0', s.n)))
        sw_lint_warn(l, field, "holds CR, LF or NUL, which no header does");
}

static void header_matcher(struct lint *l, const void *msg)
{
    const Sw__HeaderMatcher *m = msg;

    sw_lint_header_name(l, SW_PB_SLICE(m->name), "name", true);
    if (m->header_match_specifier_case == SW__HEADER_MATCHER__HEADER_MATCH_SPECIFIER_STRING_MATCH &&
        m->string_match->match_pattern_case == SW__STRING_MATCHER__MATCH_PATTERN_EXACT)
        check_text(l, SW_PB_SLICE(m->string_match->exact), "string_match.exact");
}

/* --- actions --- */

static void weighted_cluster(struct lint *l, const void *msg)
{
    const Sw__WeightedCluster *m = msg;
    uint64_t sum = 0;

    for (size_t i = 0; i < m->n_clusters; i++)
        sum += m->clusters[i]->weight ? m->clusters[i]->weight->value : 0;
    if (m->n_clusters && (sum == 0 || sum > UINT32_MAX))
        sw_lint_error(l, "clusters", "weights add up to %llu", (unsigned long long)sum);
}

/* Here alone Envoy takes an empty name. */
static void removed_by_share(struct lint *l, const ProtobufCBinaryData *p, size_t n,
                             const char *field)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i].len)
            sw_lint_removed(l, &p[i], 1, field);
        else
            sw_lint_warn(l, field, "a name is empty");
    }
}

static void cluster_weight(struct lint *l, const void *msg)
{
    const Sw__WeightedCluster__ClusterWeight *m = msg;

    if (m->name.len == 0 && m->cluster_header.len == 0)
        sw_lint_error(l, "name", "is empty");
    sw_lint_ref(l, REF_CLUSTER, SW_PB_SLICE(m->name), "name");
    if (m->host_rewrite_specifier_case ==
        SW__WEIGHTED_CLUSTER__CLUSTER_WEIGHT__HOST_REWRITE_SPECIFIER_HOST_REWRITE_LITERAL)
        sw_lint_header_value(l, SW_PB_SLICE(m->host_rewrite_literal), "host_rewrite_literal");
    removed_by_share(l, m->request_headers_to_remove, m->n_request_headers_to_remove,
                     "request_headers_to_remove");
    removed_by_share(l, m->response_headers_to_remove, m->n_response_headers_to_remove,
                     "response_headers_to_remove");
}

static void check_upgrades(struct lint *l, const Sw__RouteAction *m)
{
    for (size_t i = 0; i < m->n_upgrade_configs; i++) {
        struct sw_slice type = SW_PB_SLICE(m->upgrade_configs[i]->upgrade_type);

        sw_lint_header_value(l, type, "upgrade_configs");
        for (size_t k = 0; k < i; k++) {
            if (sw_slice_ieq(type, SW_PB_SLICE(m->upgrade_configs[k]->upgrade_type)))
                sw_lint_error(l, "upgrade_configs", "'%.*s' is there twice",
                              SW_SLICE_ARG(sw_slice_head(type, 40)));
        }
    }
}

static void route_action(struct lint *l, const void *msg)
{
    const Sw__RouteAction *m = msg;

    if (m->cluster_specifier_case == SW__ROUTE_ACTION__CLUSTER_SPECIFIER_CLUSTER)
        sw_lint_ref(l, REF_CLUSTER, SW_PB_SLICE(m->cluster), "cluster");
    if (m->prefix_rewrite.len && m->regex_rewrite)
        sw_lint_error(l, "prefix_rewrite", "excludes regex_rewrite");
    sw_lint_header_value(l, SW_PB_SLICE(m->prefix_rewrite), "prefix_rewrite");
    if (m->host_rewrite_specifier_case ==
        SW__ROUTE_ACTION__HOST_REWRITE_SPECIFIER_HOST_REWRITE_LITERAL)
        sw_lint_header_value(l, SW_PB_SLICE(m->host_rewrite_literal), "host_rewrite_literal");
    check_upgrades(l, m);
}

static void mirror(struct lint *l, const void *msg)
{
    const Sw__RouteAction__RequestMirrorPolicy *m = msg;

    if (m->cluster.len == 0 && m->cluster_header.len == 0)
        sw_lint_error(l, "cluster", "is empty");
    sw_lint_ref(l, REF_CLUSTER, SW_PB_SLICE(m->cluster), "cluster");
}

static void retry_policy(struct lint *l, const void *msg)
{
    const Sw__RetryPolicy *m = msg;

    for (size_t i = 0; i < m->n_retriable_status_codes; i++) {
        if (m->retriable_status_codes[i] < 100 || m->retriable_status_codes[i] > 599)
            sw_lint_warn(l, "retriable_status_codes", "%u is no status",
                         m->retriable_status_codes[i]);
    }
}

static void redirect(struct lint *l, const void *msg)
{
    const Sw__RedirectAction *m = msg;

    sw_lint_header_value(l, SW_PB_SLICE(m->host_redirect), "host_redirect");
    if (m->path_rewrite_specifier_case == SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_PATH_REDIRECT)
        sw_lint_header_value(l, SW_PB_SLICE(m->path_redirect), "path_redirect");
    if (m->path_rewrite_specifier_case ==
        SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_PREFIX_REWRITE)
        sw_lint_header_value(l, SW_PB_SLICE(m->prefix_rewrite), "prefix_rewrite");
    if (m->port_redirect > 65535)
        sw_lint_warn(l, "port_redirect", "is above 65535");
}

static void direct_response(struct lint *l, const void *msg)
{
    const Sw__DirectResponseAction *m = msg;

    if (!m->body)
        return;
    if ((m->body->specifier_case == SW__DATA_SOURCE__SPECIFIER_INLINE_BYTES ||
         m->body->specifier_case == SW__DATA_SOURCE__SPECIFIER_INLINE_STRING) &&
        m->body->inline_bytes.len > l->body_limit)
        sw_lint_error(l, "body", "has more than %u bytes", l->body_limit);
}

static void route(struct lint *l, const void *msg)
{
    const Sw__Route *m = msg;

    sw_lint_removed(l, m->request_headers_to_remove, m->n_request_headers_to_remove,
                    "request_headers_to_remove");
    sw_lint_removed(l, m->response_headers_to_remove, m->n_response_headers_to_remove,
                    "response_headers_to_remove");
}

/* --- order --- */

/* True when a match takes every request on its path. */
static bool unconditional(const Sw__RouteMatch *m)
{
    return m->n_headers == 0 && m->n_query_parameters == 0 && !m->grpc && !m->runtime_fraction &&
           !m->tls_context && m->n_dynamic_metadata == 0 && m->n_filter_state == 0 &&
           m->n_cookies == 0 && (!m->case_sensitive || m->case_sensitive->value);
}

/* The path of a match that segments can be cut from; empty for regular expressions and the like. */
static struct sw_slice path_of(const Sw__RouteMatch *m)
{
    if (m->path_specifier_case == SW__ROUTE_MATCH__PATH_SPECIFIER_PATH)
        return SW_PB_SLICE(m->path);
    if (m->path_specifier_case == SW__ROUTE_MATCH__PATH_SPECIFIER_PATH_SEPARATED_PREFIX)
        return SW_PB_SLICE(m->path_separated_prefix);
    return (struct sw_slice){0};
}

/* Whether a route on 'path' comes after one that takes everything below one of its ancestors. */
static bool shadowed(const struct sw_map *taken, struct sw_slice path, bool exact)
{
    if (exact && sw_map_get(taken, path))
        return true;
    for (ptrdiff_t cut = sw_slice_rfind(path, '/'); cut > 0; cut = sw_slice_rfind(path, '/')) {
        path = sw_slice_head(path, (size_t)cut);
        if (sw_map_get(taken, path))
            return true;
    }
    return false;
}

/* First match wins, so a wide route before a narrow one makes the narrow one useless. */
static void check_order(struct lint *l, const Sw__VirtualHost *v)
{
    struct sw_map taken = {0}; /* separated prefixes without conditions */
    bool all = false;

    for (size_t i = 0; i < v->n_routes; i++) {
        const Sw__RouteMatch *m = v->routes[i]->match;
        struct sw_slice path;
        bool exact;

        if (!m)
            continue;
        path = path_of(m);
        exact = m->path_specifier_case == SW__ROUTE_MATCH__PATH_SPECIFIER_PATH;
        if (all || (path.n && shadowed(&taken, path, exact))) {
            sw_lint_warn(l, sw_arena_printf(&l->a, "routes[%zu]", i),
                         "unreachable: shadowed by an earlier route");
            continue;
        }
        if (!unconditional(m))
            continue;
        if (m->path_specifier_case == SW__ROUTE_MATCH__PATH_SPECIFIER_PREFIX)
            all = m->prefix.len <= 1;
        else if (path.n && !exact)
            (void)sw_map_put(&taken, path, &taken);
    }
    sw_map_done(&taken);
}

/* --- hosts --- */

static void virtual_host(struct lint *l, const void *msg)
{
    const Sw__VirtualHost *m = msg;

    sw_lint_removed(l, m->request_headers_to_remove, m->n_request_headers_to_remove,
                    "request_headers_to_remove");
    sw_lint_removed(l, m->response_headers_to_remove, m->n_response_headers_to_remove,
                    "response_headers_to_remove");
    check_order(l, m);
}

/* A star may stand alone, at the start or at the end. */
static bool good_domain(struct sw_slice d)
{
    ptrdiff_t star = sw_slice_find(d, '*');

    if (d.n == 0)
        return false;
    return star < 0 || ((star == 0 || (size_t)star == d.n - 1) && sw_slice_rfind(d, '*') == star);
}

static struct sw_slice lower(struct lint *l, struct sw_slice s)
{
    char *p = sw_arena_dup(&l->a, s);

    for (size_t i = 0; i < s.n; i++) {
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] + ('a' - 'A'));
    }
    return sw_slice(p, s.n);
}

static void check_domains(struct lint *l, const Sw__VirtualHost *v, size_t index,
                          struct sw_map *seen)
{
    for (size_t k = 0; k < v->n_domains; k++) {
        struct sw_slice d = lower(l, SW_PB_SLICE(v->domains[k]));
        const char *field = sw_arena_printf(&l->a, "virtual_hosts[%zu].domains[%zu]", index, k);

        sw_lint_header_value(l, d, field);
        if (!good_domain(d))
            sw_lint_warn(l, field, "is not a domain: no host is taken for it");
        if (sw_map_put(seen, d, seen))
            sw_lint_error(l, field, "duplicate domain '%.*s'", SW_SLICE_ARG(sw_slice_head(d, 80)));
    }
}

static void route_configuration(struct lint *l, const void *msg)
{
    const Sw__RouteConfiguration *m = msg;
    struct sw_map domains = {0};
    struct sw_map names = {0};

    l->body_limit = m->max_direct_response_body_size_bytes
                        ? m->max_direct_response_body_size_bytes->value
                        : BODY_DEFAULT;
    for (size_t i = 0; i < m->n_virtual_hosts; i++) {
        const Sw__VirtualHost *v = m->virtual_hosts[i];

        check_domains(l, v, i, &domains);
        if (v->name.len && sw_map_put(&names, SW_PB_SLICE(v->name), &names))
            sw_lint_error(l, sw_arena_printf(&l->a, "virtual_hosts[%zu].name", i),
                          "another virtual host has it too");
    }
    sw_map_done(&domains);
    sw_map_done(&names);
}

const struct lint_rule sw_lint_route_rules[] = {
    {&sw__route_configuration__descriptor, route_configuration},
    {&sw__virtual_host__descriptor, virtual_host},
    {&sw__route__descriptor, route},
    {&sw__route_match__descriptor, route_match},
    {&sw__header_matcher__descriptor, header_matcher},
    {&sw__route_action__descriptor, route_action},
    {&sw__weighted_cluster__descriptor, weighted_cluster},
    {&sw__weighted_cluster__cluster_weight__descriptor, cluster_weight},
    {&sw__route_action__request_mirror_policy__descriptor, mirror},
    {&sw__retry_policy__descriptor, retry_policy},
    {&sw__redirect_action__descriptor, redirect},
    {&sw__direct_response_action__descriptor, direct_response},
    {NULL, NULL},
};
