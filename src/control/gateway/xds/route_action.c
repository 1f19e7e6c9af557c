/* SPDX-License-Identifier: Apache-2.0 */
/* Where a request goes and what is done to it on the way. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/buf.h"
#include "control/gateway/xds/route_int.h"
#include "proto/pb.h"
#include "proto/types.h"

enum {
    HOST_TRIES = 5, /* picks before a retry settles for a host that was tried already */
};

/* --- clusters --- */

struct sw_slice sw_gwx_cluster_of(const struct sw_model_backend *b)
{
    return b->cluster ? b->cluster->name : SW_SLICE_LIT(SW_MODEL_INVALID_CLUSTER);
}

static Sw__WeightedCluster__ClusterWeight *share(struct enc *e, const struct sw_model_backend *b)
{
    Sw__WeightedCluster__ClusterWeight *w =
        SW_PB_NEW(e->a, Sw__WeightedCluster__ClusterWeight, sw__weighted_cluster__cluster_weight);

    w->name = SW_PB_BYTES(sw_gwx_cluster_of(b));
    w->weight = sw_gwx_u32(e, b->weight);
    SW_GWX_HEADERS(e, w, b);
    if (b->host_rewrite.n) {
        w->host_rewrite_specifier_case =
            SW__WEIGHTED_CLUSTER__CLUSTER_WEIGHT__HOST_REWRITE_SPECIFIER_HOST_REWRITE_LITERAL;
        w->host_rewrite_literal = SW_PB_BYTES(b->host_rewrite);
    }
    return w;
}

static bool has_headers(const struct sw_model_headers *h)
{
    return h->n_set || h->n_add || h->n_remove;
}

/* The only backend that gets anything, if the route can name it without a list. */
static const struct sw_model_backend *only_backend(const struct sw_model_route *r)
{
    const struct sw_model_backend *one = NULL;

    for (size_t i = 0; i < r->n_backends; i++) {
        if (r->backends[i].weight == 0)
            continue;
        if (one)
            return NULL;
        one = &r->backends[i];
    }
    if (one && (has_headers(&one->request) || has_headers(&one->response) || one->host_rewrite.n))
        return NULL;
    return one;
}

static void set_clusters(struct enc *e, const struct sw_model_route *r, Sw__RouteAction *to)
{
    const struct sw_model_backend *one = only_backend(r);
    Sw__WeightedCluster *w;

    if (one) {
        to->cluster_specifier_case = SW__ROUTE_ACTION__CLUSTER_SPECIFIER_CLUSTER;
        to->cluster = SW_PB_BYTES(sw_gwx_cluster_of(one));
        return;
    }
    w = SW_PB_NEW(e->a, Sw__WeightedCluster, sw__weighted_cluster);
    w->clusters = sw_arena_array(e->a, r->n_backends, sizeof(*w->clusters));
    for (size_t i = 0; i < r->n_backends; i++) {
        if (r->backends[i].weight)
            w->clusters[w->n_clusters++] = share(e, &r->backends[i]);
    }
    to->cluster_specifier_case = SW__ROUTE_ACTION__CLUSTER_SPECIFIER_WEIGHTED_CLUSTERS;
    to->weighted_clusters = w;
}

static void set_not_found(const struct sw_model_route *r, Sw__RouteAction *to)
{
    for (size_t i = 0; i < r->n_backends; i++) {
        if (r->backends[i].cluster || r->backends[i].weight == 0)
            continue;
        if (r->invalid_status == 500)
            to->cluster_not_found_response_code =
                SW__ROUTE_ACTION__CLUSTER_NOT_FOUND_RESPONSE_CODE__INTERNAL_SERVER_ERROR;
        return; /* 503 is Envoy's own answer */
    }
}

/* --- rewrites --- */

static struct sw_slice without_slash(struct sw_slice s)
{
    while (s.n && s.p[s.n - 1] == '/')
        s.n--;
    return s;
}

void sw_gwx_prefix_swap(struct enc *e, struct sw_slice matched, struct sw_slice replacement,
                        struct sw_slice *ret_prefix, struct sw_slice *ret_pattern)
{
    struct sw_slice from = without_slash(matched);
    struct sw_slice to = without_slash(replacement);

    *ret_prefix = *ret_pattern = (struct sw_slice){0};
    if (from.n == 0 && to.n == 0)
        return; /* "/" by "/" */
    if (from.n == 0) {
        /* The match is the slash itself: it goes with the prefix and has to come back. */
        *ret_prefix = sw_slice_str(sw_arena_printf(e->a, "%.*s/", SW_SLICE_ARG(to)));
    } else if (to.n == 0) {
        *ret_pattern = sw_slice_str(
            sw_arena_printf(e->a, "^%.*s/*", SW_SLICE_ARG(sw_gwx_regex_quote(e, from))));
    } else {
        *ret_prefix = to;
    }
}

static void set_rewrite(struct enc *e, const struct sw_model_route *r, Sw__RouteAction *to)
{
    const struct sw_model_rewrite *w = r->rewrite;
    struct sw_slice prefix;
    struct sw_slice pattern;

    if (w->host.n) {
        to->host_rewrite_specifier_case =
            SW__ROUTE_ACTION__HOST_REWRITE_SPECIFIER_HOST_REWRITE_LITERAL;
        to->host_rewrite_literal = SW_PB_BYTES(w->host);
    }
    switch (w->path_edit) {
    case SW_MODEL_PATH_KEEP:
        return;
    case SW_MODEL_PATH_FULL:
        to->regex_rewrite =
            sw_gwx_substitute(e, SW_SLICE_LIT("^/.*$"), w->path.n ? w->path : SW_SLICE_LIT("/"));
        return;
    case SW_MODEL_PATH_REPLACE_PREFIX:
        sw_gwx_prefix_swap(e, r->match.path, w->path, &prefix, &pattern);
        if (pattern.n)
            to->regex_rewrite = sw_gwx_substitute(e, pattern, SW_SLICE_LIT("/"));
        else
            to->prefix_rewrite = SW_PB_BYTES(prefix);
        return;
    }
}

/* --- mirrors --- */

Sw__RuntimeFractionalPercent *sw_gwx_fraction(struct enc *e, uint32_t num, uint32_t den)
{
    Sw__RuntimeFractionalPercent *f =
        SW_PB_NEW(e->a, Sw__RuntimeFractionalPercent, sw__runtime_fractional_percent);

    f->default_value = SW_PB_NEW(e->a, Sw__FractionalPercent, sw__fractional_percent);
    if (den == 100) {
        f->default_value->numerator = num;
    } else {
        f->default_value->numerator = (uint32_t)((uint64_t)num * 1000000 / (den ? den : 1));
        f->default_value->denominator = SW__FRACTIONAL_PERCENT__DENOMINATOR_TYPE__MILLION;
    }
    return f;
}

static void set_mirrors(struct enc *e, const struct sw_model_route *r, Sw__RouteAction *to)
{
    if (r->n_mirrors == 0)
        return;
    to->request_mirror_policies =
        sw_arena_array(e->a, r->n_mirrors, sizeof(*to->request_mirror_policies));
    for (size_t i = 0; i < r->n_mirrors; i++) {
        Sw__RouteAction__RequestMirrorPolicy *m = SW_PB_NEW(
            e->a, Sw__RouteAction__RequestMirrorPolicy, sw__route_action__request_mirror_policy);

        m->cluster = SW_PB_BYTES(r->mirrors[i].cluster->name);
        m->runtime_fraction =
            sw_gwx_fraction(e, r->mirrors[i].numerator, r->mirrors[i].denominator);
        m->disable_shadow_host_suffix_append = true;
        to->request_mirror_policies[to->n_request_mirror_policies++] = m;
    }
}

/* --- time --- */

static void set_retry(struct enc *e, const struct sw_model_route *r, Sw__RouteAction *to)
{
    const struct sw_model_retry *in = r->retry;
    Sw__RetryPolicy *p = SW_PB_NEW(e->a, Sw__RetryPolicy, sw__retry_policy);
    Sw__RetryPolicy__RetryHostPredicate *other = SW_PB_NEW(
        e->a, Sw__RetryPolicy__RetryHostPredicate, sw__retry_policy__retry_host_predicate);
    Sw__PreviousHostsPredicate *previous =
        SW_PB_NEW(e->a, Sw__PreviousHostsPredicate, sw__previous_hosts_predicate);

    p->retry_on = in->n_codes ? SW_PB_LIT("connect-failure,refused-stream,reset,"
                                          "retriable-status-codes")
                              : SW_PB_LIT("connect-failure,refused-stream,reset");
    p->num_retries = sw_gwx_u32(e, in->attempts);
    if (r->backend_timeout_ms > 0)
        p->per_try_timeout = sw_gwx_duration(e, (uint64_t)r->backend_timeout_ms);
    SW_GWX_TYPED(e, other, "envoy.retry_host_predicates.previous_hosts",
                 SW__RETRY_POLICY__RETRY_HOST_PREDICATE__CONFIG_TYPE_TYPED_CONFIG, &previous->base);
    SW_GWX_ONE(e, p, retry_host_predicate, other);
    p->host_selection_retry_max_attempts = HOST_TRIES;
    p->n_retriable_status_codes = in->n_codes;
    p->retriable_status_codes =
        sw_arena_array(e->a, in->n_codes + 1, sizeof(*p->retriable_status_codes));
    for (size_t i = 0; i < in->n_codes; i++)
        p->retriable_status_codes[i] = in->codes[i];
    if (in->backoff_ms) {
        p->retry_back_off =
            SW_PB_NEW(e->a, Sw__RetryPolicy__RetryBackOff, sw__retry_policy__retry_back_off);
        p->retry_back_off->base_interval = sw_gwx_duration(e, in->backoff_ms);
    }
    to->retry_policy = p;
}

/*
 * Envoy's own default limit is 15 s, so one is always written; 0 is none. Without
 * retries one attempt is all there is, so the shorter of the two limits holds.
 */
static uint64_t whole_timeout(const struct sw_model_route *r)
{
    uint64_t all = r->request_timeout_ms > 0 ? (uint64_t)r->request_timeout_ms : 0;
    uint64_t one = r->backend_timeout_ms > 0 ? (uint64_t)r->backend_timeout_ms : 0;

    if (r->retry || one == 0)
        return all;
    return all ? sw_min(all, one) : one;
}

Sw__RouteAction *sw_gwx_route_action(struct enc *e, const struct sw_model_route *r)
{
    Sw__RouteAction *to = SW_PB_NEW(e->a, Sw__RouteAction, sw__route_action);

    set_clusters(e, r, to);
    set_not_found(r, to);
    if (r->rewrite)
        set_rewrite(e, r, to);
    set_mirrors(e, r, to);
    to->timeout = sw_gwx_duration(e, whole_timeout(r));
    if (r->retry)
        set_retry(e, r, to);
    if (r->websocket) {
        Sw__RouteAction__UpgradeConfig *u =
            SW_PB_NEW(e->a, Sw__RouteAction__UpgradeConfig, sw__route_action__upgrade_config);

        u->upgrade_type = SW_PB_LIT("websocket");
        SW_GWX_ONE(e, to, upgrade_configs, u);
    }
    return to;
}
