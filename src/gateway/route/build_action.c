/* SPDX-License-Identifier: Apache-2.0 */
/* What a route does: forward, redirect, answer; retries, mirrors, hash policies. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/time.h"
#include "gateway/config/build.h"
#include "gateway/filter/build.h"
#include "gateway/observe/accesslog.h"
#include "gateway/route/build.h"
#include "http/grammar.h"
#include "proto/pb.h"

#define DEFAULT_TIMEOUT_NS (15 * SW_NS_PER_S)
#define DEFAULT_BASE_NS    (25 * SW_NS_PER_MS)
#define BASE_MAX_NS        (3600 * SW_NS_PER_S)

enum { CLUSTERS_MAX = 10000, CODES_MAX = 200, MIRRORS_MAX = 64 };

static const struct {
    const char *name;
    uint32_t bits;
    uint32_t grpc; /* codes */
} retry_words[] = {
    {"5xx", SW_GW_RETRY_5XX, 0},
    {"gateway-error", SW_GW_RETRY_GATEWAY_ERROR, 0},
    {"reset", SW_GW_RETRY_RESET, 0},
    {"reset-before-request", SW_GW_RETRY_RESET_BEFORE_REQUEST, 0},
    {"connect-failure", SW_GW_RETRY_CONNECT_FAILURE, 0},
    {"refused-stream", SW_GW_RETRY_REFUSED_STREAM, 0},
    {"retriable-status-codes", SW_GW_RETRY_STATUS_CODES, 0},
    {"retriable-4xx", SW_GW_RETRY_4XX, 0},
    {"envoy-ratelimited", 0, 0},
    {"retriable-headers", 0, 0},
    {"http3-post-connect-failure", 0, 0},
    {"cancelled", SW_GW_RETRY_GRPC, 1u << 1},
    {"deadline-exceeded", SW_GW_RETRY_GRPC, 1u << 4},
    {"resource-exhausted", SW_GW_RETRY_GRPC, 1u << 8},
    {"internal", SW_GW_RETRY_GRPC, 1u << 13},
    {"unavailable", SW_GW_RETRY_GRPC, 1u << 14},
};

static int build_retry_on(struct sw_gw_build *b, struct sw_slice list, struct sw_gw_retry *r)
{
    while (list.p) {
        struct sw_slice word = sw_slice_trim(sw_slice_cut(&list, ','));
        bool known = word.n == 0;

        for (size_t i = 0; i < SW_ARRAY_LEN(retry_words); i++) {
            if (!sw_slice_eq_str(word, retry_words[i].name))
                continue;
            r->on |= retry_words[i].bits;
            r->grpc_codes |= retry_words[i].grpc;
            known = true;
        }
        if (!known)
            return SW_GW_BAD(b, "retry_on: unknown word '%.*s'", SW_SLICE_ARG_MAX(word, 40));
    }
    return SW_OK;
}

int sw_gw_build_retry(struct sw_gw_build *b, const struct Sw__RetryPolicy *in,
                      const struct sw_gw_retry **ret)
{
    struct sw_gw_retry *r = SW_ARENA_NEW(b->arena, struct sw_gw_retry);
    uint16_t *codes;
    int rc;

    if (in->n_retriable_status_codes > CODES_MAX)
        return SW_GW_BAD(b, "too many retriable_status_codes");
    codes = sw_arena_array(b->arena, in->n_retriable_status_codes + 1, sizeof(*codes));
    for (size_t i = 0; i < in->n_retriable_status_codes; i++)
        codes[i] = (uint16_t)in->retriable_status_codes[i];
    r->codes = codes;
    r->n_codes = in->n_retriable_status_codes;
    r->num = in->num_retries ? in->num_retries->value : 1;
    r->per_try_timeout_ns = sw_gw_duration(in->per_try_timeout, 0);
    r->base_ns = DEFAULT_BASE_NS;
    if (in->retry_back_off)
        r->base_ns = sw_gw_duration(in->retry_back_off->base_interval, DEFAULT_BASE_NS);
    r->base_ns = sw_min(sw_max(r->base_ns, SW_NS_PER_MS), BASE_MAX_NS);
    r->max_ns = r->base_ns * 10;
    if (in->retry_back_off)
        r->max_ns =
            sw_max(sw_gw_duration(in->retry_back_off->max_interval, r->max_ns), SW_NS_PER_MS);
    if (r->max_ns < r->base_ns)
        return SW_GW_BAD(b, "retry_back_off: max_interval below base_interval");
    for (size_t i = 0; i < in->n_retry_host_predicate; i++) {
        if (!sw_slice_eq_str(SW_PB_SLICE(in->retry_host_predicate[i]->name),
                             "envoy.retry_host_predicates.previous_hosts"))
            return SW_GW_BAD(b, "retry_host_predicate not supported");
        r->avoid_previous = true;
    }
    rc = build_retry_on(b, SW_PB_SLICE(in->retry_on), r);
    *ret = r;
    return rc;
}

int sw_gw_build_mirrors(struct sw_gw_build *b,
                        struct Sw__RouteAction__RequestMirrorPolicy *const *in, size_t n,
                        const struct sw_gw_mirror **ret, size_t *ret_n)
{
    struct sw_gw_mirror *out = sw_arena_array(b->arena, n + 1, sizeof(*out));

    if (n > MIRRORS_MAX)
        return SW_GW_BAD(b, "request_mirror_policies: more than %d", MIRRORS_MAX);
    for (size_t i = 0; i < n; i++) {
        out[i].cluster = sw_gw_text(b, &in[i]->cluster);
        if (out[i].cluster.n == 0)
            return SW_GW_BAD(b, "request_mirror_policies[%zu]: cluster missing", i);
        out[i].millionths = sw_gw_build_fraction(in[i]->runtime_fraction);
        out[i].keep_host = in[i]->disable_shadow_host_suffix_append;
        out[i].host_rewrite = sw_gw_text(b, &in[i]->host_rewrite_literal);
    }
    *ret = out;
    *ret_n = n;
    return SW_OK;
}

static int build_rewrite(struct sw_gw_build *b, const Sw__RegexMatchAndSubstitute *in,
                         const struct sw_gw_regex_rewrite **ret)
{
    struct sw_gw_regex_rewrite *rw = SW_ARENA_NEW(b->arena, struct sw_gw_regex_rewrite);

    rw->substitution = sw_gw_text(b, &in->substitution);
    if (!sw_http_target_valid(rw->substitution))
        return SW_GW_BAD(b, "regex_rewrite: bad substitution");
    *ret = rw;
    return sw_gw_build_regex(b, SW_PB_SLICE(in->pattern->regex), false, &rw->re);
}

/* ---- forwarding ---- */

static int build_weight(struct sw_gw_build *b, const Sw__WeightedCluster__ClusterWeight *in,
                        struct sw_gw_weight *w)
{
    int rc;

    w->cluster = sw_gw_text(b, &in->name);
    w->cluster_header = sw_gw_lower(b, SW_PB_SLICE(in->cluster_header));
    w->weight = in->weight ? in->weight->value : 0;
    if (w->cluster.n == 0 && w->cluster_header.n == 0)
        return SW_GW_BAD(b, "weighted cluster without a name");
    if (in->host_rewrite_specifier_case ==
        SW__WEIGHTED_CLUSTER__CLUSTER_WEIGHT__HOST_REWRITE_SPECIFIER_HOST_REWRITE_LITERAL)
        w->host = sw_gw_text(b, &in->host_rewrite_literal);
    if (w->host.n && !sw_http_host_valid(w->host))
        return SW_GW_BAD(b, "host_rewrite_literal is not a host");
    rc = sw_gw_build_header_ops(b, in->request_headers_to_add, in->n_request_headers_to_add,
                                in->request_headers_to_remove, in->n_request_headers_to_remove,
                                &w->req);
    if (rc == SW_OK)
        rc = sw_gw_build_header_ops(b, in->response_headers_to_add, in->n_response_headers_to_add,
                                    in->response_headers_to_remove,
                                    in->n_response_headers_to_remove, &w->resp);
    if (rc == SW_OK)
        rc = sw_gw_build_per_filter(b, in->typed_per_filter_config, in->n_typed_per_filter_config,
                                    &w->filters, &w->n_filters);
    return rc;
}

static int build_weights(struct sw_gw_build *b, const Sw__WeightedCluster *in,
                         struct sw_gw_forward *f)
{
    struct sw_gw_weight *w;
    int rc = SW_OK;

    if (in->n_clusters > CLUSTERS_MAX)
        return SW_GW_BAD(b, "weighted_clusters is too long");
    w = sw_arena_array(b->arena, in->n_clusters, sizeof(*w));
    for (size_t i = 0; rc == SW_OK && i < in->n_clusters; i++) {
        rc = build_weight(b, in->clusters[i], &w[i]);
        f->total_weight += w[i].weight;
    }
    if (rc == SW_OK && (f->total_weight == 0 || f->total_weight > UINT32_MAX))
        return SW_GW_BAD(b, "weighted_clusters: the sum of weights is out of range");
    f->weights = w;
    f->n_weights = in->n_clusters;
    return rc;
}

static int build_target(struct sw_gw_build *b, const Sw__RouteAction *in, struct sw_gw_forward *f)
{
    struct sw_gw_weight *w;

    if (in->cluster_specifier_case == SW__ROUTE_ACTION__CLUSTER_SPECIFIER_WEIGHTED_CLUSTERS)
        return build_weights(b, in->weighted_clusters, f);
    w = SW_ARENA_NEW(b->arena, struct sw_gw_weight);
    w->weight = 1;
    f->weights = w;
    f->n_weights = 1;
    f->total_weight = 1;
    if (in->cluster_specifier_case == SW__ROUTE_ACTION__CLUSTER_SPECIFIER_CLUSTER)
        w->cluster = sw_gw_text(b, &in->cluster);
    else if (in->cluster_specifier_case == SW__ROUTE_ACTION__CLUSTER_SPECIFIER_CLUSTER_HEADER)
        w->cluster_header = sw_gw_lower(b, SW_PB_SLICE(in->cluster_header));
    if (w->cluster.n == 0 && w->cluster_header.n == 0)
        return SW_GW_BAD(b, "unsupported cluster specifier in route");
    return SW_OK;
}

static int build_hashes(struct sw_gw_build *b, const Sw__RouteAction *in, struct sw_gw_forward *f)
{
    struct sw_gw_hash_policy *out = sw_arena_array(b->arena, in->n_hash_policy + 1, sizeof(*out));

    for (size_t i = 0; i < in->n_hash_policy; i++) {
        const Sw__RouteAction__HashPolicy *h = in->hash_policy[i];

        out[i].terminal = h->terminal;
        switch ((int)h->policy_specifier_case) {
        case SW__ROUTE_ACTION__HASH_POLICY__POLICY_SPECIFIER_HEADER:
            out[i].kind = SW_GW_HASH_HEADER;
            out[i].name = sw_gw_lower(b, SW_PB_SLICE(h->header->header_name));
            break;
        case SW__ROUTE_ACTION__HASH_POLICY__POLICY_SPECIFIER_COOKIE:
            out[i].kind = SW_GW_HASH_COOKIE;
            out[i].name = sw_gw_text(b, &h->cookie->name);
            out[i].make_cookie = h->cookie->ttl != NULL;
            out[i].ttl_s = sw_gw_duration(h->cookie->ttl, 0) / SW_NS_PER_S;
            out[i].path = sw_gw_text(b, &h->cookie->path);
            if (!sw_http_token_valid(out[i].name) ||
                (out[i].path.n && !sw_http_value_valid(out[i].path)))
                return SW_GW_BAD(b, "hash_policy: bad cookie");
            break;
        case SW__ROUTE_ACTION__HASH_POLICY__POLICY_SPECIFIER_CONNECTION_PROPERTIES:
            out[i].kind = SW_GW_HASH_SOURCE_IP;
            if (!h->connection_properties->source_ip)
                return SW_GW_BAD(b, "hash_policy: source_ip has to be true");
            break;
        case SW__ROUTE_ACTION__HASH_POLICY__POLICY_SPECIFIER_QUERY_PARAMETER:
            out[i].kind = SW_GW_HASH_QUERY;
            out[i].name = sw_gw_text(b, &h->query_parameter->name);
            break;
        default:
            return SW_GW_BAD(b, "hash_policy of a kind that is not supported");
        }
        if (out[i].kind != SW_GW_HASH_SOURCE_IP && out[i].name.n == 0)
            return SW_GW_BAD(b, "hash_policy without a name");
    }
    f->hashes = out;
    f->n_hashes = in->n_hash_policy;
    return SW_OK;
}

static int build_host_rewrite(struct sw_gw_build *b, const Sw__RouteAction *in,
                              struct sw_gw_forward *f)
{
    switch ((int)in->host_rewrite_specifier_case) {
    case SW__ROUTE_ACTION__HOST_REWRITE_SPECIFIER__NOT_SET:
        return SW_OK;
    case SW__ROUTE_ACTION__HOST_REWRITE_SPECIFIER_HOST_REWRITE_LITERAL:
        f->host = sw_gw_text(b, &in->host_rewrite_literal);
        return f->host.n == 0 || sw_http_host_valid(f->host)
                   ? SW_OK
                   : SW_GW_BAD(b, "host_rewrite_literal is not a host");
    case SW__ROUTE_ACTION__HOST_REWRITE_SPECIFIER_AUTO_HOST_REWRITE:
        f->auto_host = in->auto_host_rewrite->value;
        return SW_OK;
    case SW__ROUTE_ACTION__HOST_REWRITE_SPECIFIER_HOST_REWRITE_HEADER:
        f->host_header = sw_gw_lower(b, SW_PB_SLICE(in->host_rewrite_header));
        return SW_OK;
    case SW__ROUTE_ACTION__HOST_REWRITE_SPECIFIER_HOST_REWRITE_PATH_REGEX:
        return build_rewrite(b, in->host_rewrite_path_regex, &f->host_path_regex);
    default:
        return SW_GW_BAD(b, "host rewrite of an unknown kind");
    }
}

static void build_upgrades(struct sw_gw_build *b, const Sw__RouteAction *in,
                           struct sw_gw_forward *f)
{
    struct sw_gw_upgrade *u = sw_arena_array(b->arena, in->n_upgrade_configs + 1, sizeof(*u));

    for (size_t i = 0; i < in->n_upgrade_configs; i++) {
        const Sw__RouteAction__UpgradeConfig *c = in->upgrade_configs[i];

        u[i].type = sw_gw_lower(b, SW_PB_SLICE(c->upgrade_type));
        u[i].enabled = !c->enabled || c->enabled->value;
        u[i].terminate = c->connect_config != NULL;
    }
    f->upgrades = u;
    f->n_upgrades = in->n_upgrade_configs;
}

static int build_forward(struct sw_gw_build *b, const Sw__RouteAction *in, struct sw_gw_forward *f)
{
    static const uint16_t not_found[] = {503, 404, 500};
    int rc = build_target(b, in, f);

    f->not_found_status = not_found[in->cluster_not_found_response_code];
    f->prefix_rewrite = sw_gw_text(b, &in->prefix_rewrite);
    if (!sw_http_target_valid(f->prefix_rewrite))
        return SW_GW_BAD(b, "prefix_rewrite is not a path");
    f->append_host = in->append_x_forwarded_host;
    f->timeout_ns = sw_gw_duration(in->timeout, DEFAULT_TIMEOUT_NS);
    f->idle_set = in->idle_timeout != NULL;
    f->idle_timeout_ns = sw_gw_duration(in->idle_timeout, 0);
    if (in->max_stream_duration)
        f->max_stream_ns = sw_gw_duration(in->max_stream_duration->max_stream_duration, 0);
    if (rc == SW_OK && in->regex_rewrite)
        rc = build_rewrite(b, in->regex_rewrite, &f->regex_rewrite);
    if (rc == SW_OK)
        rc = build_host_rewrite(b, in, f);
    if (rc == SW_OK && in->retry_policy)
        rc = sw_gw_build_retry(b, in->retry_policy, &f->retry);
    if (rc == SW_OK)
        rc = sw_gw_build_mirrors(b, in->request_mirror_policies, in->n_request_mirror_policies,
                                 &f->mirrors, &f->n_mirrors);
    if (rc == SW_OK)
        rc = build_hashes(b, in, f);
    build_upgrades(b, in, f);
    return rc;
}

/* ---- redirects and answers ---- */

static int build_redirect(struct sw_gw_build *b, const Sw__RedirectAction *in,
                          struct sw_gw_redirect *r)
{
    static const uint16_t codes[] = {301, 302, 303, 307, 308};

    if (in->port_redirect > 65535)
        return SW_GW_BAD(b, "redirect: port above 65535");
    r->status = codes[in->response_code];
    r->host = sw_gw_text(b, &in->host_redirect);
    r->port = (uint16_t)in->port_redirect;
    r->strip_query = in->strip_query;
    if (in->scheme_rewrite_specifier_case ==
        SW__REDIRECT_ACTION__SCHEME_REWRITE_SPECIFIER_HTTPS_REDIRECT)
        r->scheme = in->https_redirect ? SW_SLICE_LIT("https") : sw_slice("", 0);
    else if (in->scheme_rewrite_specifier_case ==
             SW__REDIRECT_ACTION__SCHEME_REWRITE_SPECIFIER_SCHEME_REDIRECT)
        r->scheme = sw_gw_lower(b, SW_PB_SLICE(in->scheme_redirect));
    if ((r->host.n && !sw_http_value_valid(r->host)) ||
        (r->scheme.n && !sw_http_token_valid(r->scheme)))
        return SW_GW_BAD(b, "redirect: bad host or scheme");
    switch ((int)in->path_rewrite_specifier_case) {
    case SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER__NOT_SET:
        return SW_OK;
    case SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_PATH_REDIRECT:
        r->has_path = true;
        r->path = sw_gw_text(b, &in->path_redirect);
        break;
    case SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_PREFIX_REWRITE:
        r->has_prefix = true;
        r->prefix = sw_gw_text(b, &in->prefix_rewrite);
        break;
    case SW__REDIRECT_ACTION__PATH_REWRITE_SPECIFIER_REGEX_REWRITE:
        return build_rewrite(b, in->regex_rewrite, &r->regex);
    default:
        return SW_GW_BAD(b, "redirect: path rewrite of an unknown kind");
    }
    if ((r->path.n && !sw_http_value_valid(r->path)) ||
        (r->prefix.n && !sw_http_value_valid(r->prefix)))
        return SW_GW_BAD(b, "redirect: bad path");
    return SW_OK;
}

/* A control plane that makes a route answer instead of a backend gives the reason in metadata. */
static void build_reason(struct sw_gw_build *b, const Sw__Metadata *m, struct sw_gw_direct *d)
{
    const struct sw_json *said = m ? sw_json_find(sw_gw_build_metadata(b, m), "spanwire") : NULL;

    d->reason = sw_arena_slice(b->arena, sw_json_str(sw_json_find(said, "reason")));
    d->device = sw_arena_slice(b->arena, sw_json_str(sw_json_find(said, "device")));
}

static int build_direct(struct sw_gw_build *b, const Sw__DirectResponseAction *in, size_t body_max,
                        struct sw_gw_direct *d)
{
    d->status = (uint16_t)in->status;
    if (in->body_format) {
        const Sw__SubstitutionFormatString *f = in->body_format;

        d->content_type = sw_gw_text(b, &f->content_type);
        if (f->format_case != SW__SUBSTITUTION_FORMAT_STRING__FORMAT_TEXT_FORMAT)
            return SW_GW_BAD(b, "direct_response: only text_format is supported");
        return sw_gw_format_parse(b->arena, SW_PB_SLICE(f->text_format), &d->format, b->err);
    }
    return sw_gw_build_source(b, in->body, body_max, &d->body);
}

int sw_gw_build_action(struct sw_gw_build *b, const struct Sw__Route *in, size_t body_max,
                       struct sw_gw_route *r)
{
    switch ((int)in->action_case) {
    case SW__ROUTE__ACTION_ROUTE:
        r->action = SW_GW_FORWARD;
        return build_forward(b, in->route, &r->forward);
    case SW__ROUTE__ACTION_REDIRECT:
        r->action = SW_GW_REDIRECT;
        return build_redirect(b, in->redirect, &r->redirect);
    case SW__ROUTE__ACTION_DIRECT_RESPONSE:
        r->action = SW_GW_DIRECT;
        build_reason(b, in->metadata, &r->direct);
        return build_direct(b, in->direct_response, body_max, &r->direct);
    default:
        return SW_GW_BAD(b, "unsupported route action");
    }
}
