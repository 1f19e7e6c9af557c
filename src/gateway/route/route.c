/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of the exchange: route a request, change the response. */
#include "gateway/route/route.h"
#include "base/hash.h"
#include "base/rand.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/state.h"
#include "gateway/exchange/vars.h"
#include "gateway/filter/filter.h"
#include "gateway/message/fields.h"
#include "gateway/message/match.h"
#include "gateway/observe/accesslog.h"
#include "gateway/route/action.h"
#include "gateway/route/match.h"
#include "http/grammar.h"
#include "http/url.h"
#include "tls/tls.h"

enum {
    METHOD_MAX = 32,      /* twice the longest that is registered */
    WORK_STEPS = 4000000, /* of regular expressions for one request: milliseconds */
};

/* A fixed key: every worker and every gateway of a fleet must send a session to the same host. */
#define HASH_KEY0 UINT64_C(0x73706e7769726530)
#define HASH_KEY1 UINT64_C(0x676174657761790a)

static struct sw_slice find_field(const struct sw_gw_fields *f, struct sw_slice name)
{
    const struct sw_slice *v = sw_gw_fields_find(f, name);

    return v ? *v : sw_slice(NULL, 0);
}

/* ---- header changes ---- */

static void apply_add(struct sw_exchange *x, struct sw_gw_fields *f,
                      const struct sw_gw_header_add *h, struct sw_gw_vars *vars, bool *have_vars)
{
    struct sw_slice value = sw_gw_format_literal(h->value);

    if (!value.p) {
        if (!*have_vars)
            sw_gw_vars_fill(x, vars);
        *have_vars = true;
        value = sw_gw_format_text(h->value, vars, &x->arena);
        if (value.n && !sw_http_value_valid(value))
            return; /* what a client sent must not reshape a head */
    }
    if (value.n == 0 && !h->keep_empty)
        return;
    switch (h->action) {
    case SW_GW_APPEND_OR_ADD:
        sw_gw_fields_add(&x->arena, f, h->name, value);
        break;
    case SW_GW_ADD_IF_ABSENT:
        if (!sw_gw_fields_find(f, h->name))
            sw_gw_fields_add(&x->arena, f, h->name, value);
        break;
    case SW_GW_OVERWRITE_OR_ADD:
        sw_gw_fields_set(&x->arena, f, h->name, value);
        break;
    case SW_GW_OVERWRITE_IF_EXISTS:
        if (sw_gw_fields_find(f, h->name))
            sw_gw_fields_set(&x->arena, f, h->name, value);
        break;
    }
}

static void apply_ops(struct sw_exchange *x, struct sw_gw_fields *f,
                      const struct sw_gw_header_ops *ops)
{
    struct sw_gw_vars vars;
    bool have_vars = false;

    for (size_t i = 0; i < ops->n_remove; i++)
        sw_gw_fields_remove(f, ops->remove[i]);
    for (size_t i = 0; i < ops->n_add; i++)
        apply_add(x, f, &ops->add[i], &vars, &have_vars);
}

/* From the most specific level to the least, or the other way round when the specific is to win. */
static void apply_levels(struct sw_exchange *x, bool response)
{
    const struct sw_gw_route_state *rs = x->rs;
    struct sw_gw_fields *f = response ? &x->resp.fields : &x->req.fields;
    const struct sw_gw_header_ops *levels[4];
    size_t n = 0;

    if (rs->weight)
        levels[n++] = response ? &rs->weight->resp : &rs->weight->req;
    if (x->route)
        levels[n++] = response ? &x->route->resp : &x->route->req;
    if (rs->vhost)
        levels[n++] = response ? &rs->vhost->resp : &rs->vhost->req;
    levels[n++] = response ? &rs->table->resp : &rs->table->req;
    for (size_t i = 0; i < n; i++) {
        const struct sw_gw_header_ops *ops = levels[rs->table->specific_wins ? n - 1 - i : i];

        if (ops->n_remove + ops->n_add)
            apply_ops(x, f, ops);
    }
}

/* ---- the request ---- */

static int not_found(struct sw_exchange *x)
{
    x->flags |= SW_GW_FLAG_NR;
    sw_exchange_reply(x, 404, sw_slice(NULL, 0), "route_not_found");
    return SW_GW_REPLIED;
}

static const struct sw_gw_weight *choose_weight(const struct sw_gw_forward *f, uint64_t rnd)
{
    uint64_t at;

    if (f->n_weights == 1)
        return &f->weights[0];
    at = rnd % f->total_weight;
    for (size_t i = 0; i < f->n_weights; i++) {
        if (at < f->weights[i].weight)
            return &f->weights[i];
        at -= f->weights[i].weight;
    }
    return &f->weights[f->n_weights - 1];
}

static uint64_t mix(uint64_t old, struct sw_slice v)
{
    uint64_t h = sw_siphash13(HASH_KEY0, HASH_KEY1, v.p, v.n);

    return ((old << 1) | (old >> 63)) ^ h;
}

static void make_hash_cookie(struct sw_exchange *x, const struct sw_gw_hash_policy *p,
                             uint64_t *hash)
{
    struct sw_gw_route_state *rs = x->rs;
    char *value = sw_arena_printf(&x->arena, "%016llx", (unsigned long long)sw_rand_u64());
    char *age = p->ttl_s
                    ? sw_arena_printf(&x->arena, "; Max-Age=%llu", (unsigned long long)p->ttl_s)
                    : sw_arena_printf(&x->arena, "%s", "");

    rs->hash_cookie = sw_slice_str(
        sw_arena_printf(&x->arena, "%.*s=\"%s\"%s%s%.*s; HttpOnly", SW_SLICE_ARG(p->name), value,
                        age, p->path.n ? "; Path=" : "", SW_SLICE_ARG(p->path)));
    *hash = mix(*hash, sw_slice_str(value));
}

static void compute_hash(struct sw_exchange *x, const struct sw_gw_forward *f)
{
    uint64_t hash = 0;
    bool any = false;

    for (size_t i = 0; i < f->n_hashes && !(any && i && f->hashes[i - 1].terminal); i++) {
        const struct sw_gw_hash_policy *p = &f->hashes[i];
        struct sw_slice v = {NULL, 0};

        switch (p->kind) {
        case SW_GW_HASH_HEADER:
            v = sw_slice_eq_str(p->name, ":authority") ? x->req.authority
                : sw_slice_eq_str(p->name, ":path")    ? x->req.path
                                                       : find_field(&x->req.fields, p->name);
            break;
        case SW_GW_HASH_COOKIE:
            v = sw_gw_cookie(&x->req.fields, p->name);
            if (!v.p && p->make_cookie) {
                make_hash_cookie(x, p, &hash);
                any = true;
            }
            break;
        case SW_GW_HASH_SOURCE_IP:
            v = sw_slice(x->from.peer.ip.b, sw_ip_len(&x->from.peer.ip));
            break;
        case SW_GW_HASH_QUERY:
            (void)sw_gw_query(x->req.path, p->name, &v);
            break;
        }
        if (v.p) {
            hash = mix(hash, v);
            any = true;
        }
    }
    x->rs->pick.has_hash = any;
    x->rs->pick.hash = hash;
}

static bool upgrade_allowed(const struct sw_exchange *x, const struct sw_gw_forward *f,
                            bool *ret_terminate)
{
    struct sw_slice type = x->req.connect ? SW_SLICE_LIT("connect") : x->req.upgrade;

    *ret_terminate = false;
    for (size_t i = 0; i < f->n_upgrades; i++) {
        if (!sw_slice_ieq(f->upgrades[i].type, type))
            continue;
        *ret_terminate = f->upgrades[i].terminate;
        return f->upgrades[i].enabled;
    }
    for (size_t i = 0; i < x->hcm->n_upgrades; i++) {
        if (sw_slice_ieq(x->hcm->upgrades[i], type))
            return true;
    }
    return false;
}

static void plan_authority(struct sw_exchange *x, const struct sw_gw_forward *f)
{
    struct sw_slice host = x->rs->weight->host.n ? x->rs->weight->host : f->host;

    if (host.n == 0 && f->host_header.n)
        host = find_field(&x->req.fields, f->host_header);
    if (host.n == 0 && f->host_path_regex) {
        struct sw_slice bare;
        struct sw_slice query;

        sw_target_split(x->req.path, &bare, &query);
        host = sw_gw_regex_apply(f->host_path_regex, bare, &x->arena, x->req.work);
    }
    if (host.n && sw_http_host_valid(host)) {
        if (f->append_host)
            sw_gw_fields_add(&x->arena, &x->req.fields, SW_SLICE_LIT("x-forwarded-host"),
                             x->req.authority);
        x->plan.authority = host;
    }
}

/* Regular expressions used up their budget: whether they match is unknown. */
static int too_much(struct sw_exchange *x)
{
    sw_exchange_reply(x, 500, sw_slice(NULL, 0), "route_match_limit");
    return SW_GW_REPLIED;
}

static int plan_forward(struct sw_exchange *x)
{
    const struct sw_gw_forward *f = &x->route->forward;
    struct sw_gw_route_state *rs = x->rs;

    rs->cluster = rs->weight->cluster;
    if (rs->cluster.n == 0)
        rs->cluster = find_field(&x->req.fields, rs->weight->cluster_header);
    rs->retry = f->retry ? f->retry : rs->vhost->retry;
    x->plan.timeout_ns = f->timeout_ns;
    x->plan.idle_timeout_ns = f->idle_set ? f->idle_timeout_ns : x->hcm->timeouts.stream_idle_ns;
    x->plan.max_stream_ns = f->max_stream_ns ? f->max_stream_ns : x->hcm->timeouts.max_stream_ns;
    if (rs->retry) {
        x->plan.try_timeout_ns = rs->retry->per_try_timeout_ns;
        x->plan.retries = rs->retry->on != 0 && rs->retry->num > 0;
    }
    if (x->req.connect || x->req.upgrade.n) {
        bool terminate;

        x->plan.upgrade = upgrade_allowed(x, f, &terminate);
        x->plan.connect_terminate = terminate;
        if (!x->plan.upgrade) {
            sw_exchange_reply(x, 403, sw_slice(NULL, 0), "upgrade_failed");
            return SW_GW_REPLIED;
        }
        x->plan.timeout_ns = 0; /* a tunnel lasts as long as it is used */
    }
    compute_hash(x, f);
    apply_levels(x, false);
    plan_authority(x, f);
    if (f->regex_rewrite || f->prefix_rewrite.n) {
        struct sw_slice path = sw_gw_rewrite_path(x->route, x->req.path, &x->arena, x->req.work);

        if (!sw_slice_eq(path, x->req.path)) {
            rs->original_path = x->req.path;
            if (!x->hcm->suppress_envoy)
                sw_gw_fields_set(&x->arena, &x->req.fields, SW_SLICE_LIT("x-envoy-original-path"),
                                 x->req.path);
            x->plan.path = path;
        }
    }
    if (!sw_budget_ok(x->req.work))
        return too_much(x);
    sw_gw_mirror_start(x);
    return SW_OK;
}

static int answer_route(struct sw_exchange *x)
{
    if (x->route->action == SW_GW_REDIRECT) {
        struct sw_slice location =
            sw_gw_redirect_location(x->route, &x->req, &x->from.local, &x->arena);

        if (!sw_budget_ok(x->req.work))
            return too_much(x);
        if (!sw_http_value_valid(location)) {
            sw_exchange_reply(x, 400, sw_slice(NULL, 0), "bad_redirect");
            return SW_GW_REPLIED;
        }
        sw_gw_fields_add(&x->arena, &x->resp.fields, SW_SLICE_LIT("location"), location);
        sw_exchange_reply(x, x->route->redirect.status, sw_slice(NULL, 0), "direct_response");
    } else {
        const struct sw_gw_direct *d = &x->route->direct;
        struct sw_slice body = d->body;

        if (d->format) {
            struct sw_gw_vars vars;

            sw_gw_vars_fill(x, &vars);
            vars.status = d->status;
            body = sw_gw_format_text(d->format, &vars, &x->arena);
        }
        if (d->content_type.n)
            sw_gw_fields_add(&x->arena, &x->resp.fields, SW_SLICE_LIT("content-type"),
                             d->content_type);
        sw_exchange_reply(x, d->status, body, "direct_response");
    }
    return SW_GW_REPLIED;
}

/* Path and authority as the connection manager wants them, before anything is matched. */
static int normalize(struct sw_exchange *x)
{
    const struct sw_gw_hcm *h = x->hcm;
    struct sw_slice path;
    int rc;

    if (h->path.normalize || h->path.merge_slashes || h->path.escaped_slash != SW_GW_SLASH_KEEP) {
        rc = sw_gw_normalize_path(h, x->req.path, &x->arena, &path);
        if (rc == SW_EINVAL) {
            sw_exchange_reply(x, 400, sw_slice(NULL, 0), "path_normalization_failed");
            return SW_GW_REPLIED;
        }
        if (rc == SW_GW_PATH_MOVED) {
            sw_gw_fields_add(&x->arena, &x->resp.fields, SW_SLICE_LIT("location"), path);
            sw_exchange_reply(x, 307, sw_slice(NULL, 0), "path_with_escaped_slashes_redirect");
            return SW_GW_REPLIED;
        }
        x->req.path = path;
    }
    if (h->strip.any_port || h->strip.matching_port || h->strip.trailing_dot) {
        ptrdiff_t at = sw_slice_rfind(x->req.authority, ':');
        uint64_t port = 0;

        if (at >= 0 && !x->req.connect &&
            sw_slice_to_u64(sw_slice_from(x->req.authority, (size_t)at + 1), 65535, &port) &&
            (h->strip.any_port || (h->strip.matching_port && port == x->from.local.port)))
            x->req.authority = sw_slice_head(x->req.authority, (size_t)at);
        if (h->strip.trailing_dot && x->req.authority.n > 1 &&
            x->req.authority.p[x->req.authority.n - 1] == '.')
            x->req.authority.n--;
    }
    return SW_OK;
}

static int require_tls(struct sw_exchange *x)
{
    struct sw_slice location = sw_slice_str(sw_arena_printf(
        &x->arena, "https://%.*s%.*s", SW_SLICE_ARG(x->req.authority), SW_SLICE_ARG(x->req.path)));

    sw_gw_fields_add(&x->arena, &x->resp.fields, SW_SLICE_LIT("location"), location);
    sw_exchange_reply(x, 301, sw_slice(NULL, 0), "tls_required");
    return SW_GW_REPLIED;
}

/* Filters, then the action of the route. */
static int act(struct sw_exchange *x)
{
    if (x->hcm->n_filters) {
        int rc = sw_gw_filters_request(x);

        if (rc < 0)
            return rc;
    }
    return x->route->action == SW_GW_FORWARD ? plan_forward(x) : answer_route(x);
}

int sw_gw_route_request(struct sw_exchange *x)
{
    const struct sw_gw_routes *table;
    struct sw_gw_facts facts = {.peer = x->from.peer, .tls = x->from.tls, .rnd = sw_rand_u64()};
    struct sw_gw_route_state *rs;
    int rc;

    if (x->rs) /* made here (TCP, mirrors): it knows where it goes */
        return SW_OK;
    if (x->req.method.n > METHOD_MAX) {
        sw_exchange_reply(x, 501, sw_slice(NULL, 0), "method_too_long");
        return SW_GW_REPLIED;
    }
    rs = SW_ARENA_NEW(&x->arena, struct sw_gw_route_state);
    rc = normalize(x);
    if (rc < 0)
        return rc;
    table = sw_gw_config_routes(x->view->config, x->hcm);
    if (!table)
        return not_found(x);
    rs->table = table;
    rs->work.steps = WORK_STEPS;
    x->req.work = &rs->work;
    x->rs = rs;
    rs->vhost = sw_gw_vhost_find(table, x->req.authority);
    if (!rs->vhost)
        return sw_gw_filters_misdirected(x) ? SW_GW_REPLIED : not_found(x);
    if (rs->vhost->require_tls == 2 && !x->from.tls)
        return require_tls(x);
    facts.cert_presented = x->from.client != NULL;
    facts.cert_validated = facts.cert_presented;
    x->route = sw_gw_route_find(rs->vhost, &x->req, &facts);
    if (!sw_budget_ok(&rs->work)) {
        x->route = NULL;
        return too_much(x);
    }
    if (!x->route)
        return not_found(x);
    if (x->route->action == SW_GW_FORWARD)
        rs->weight = choose_weight(&x->route->forward, sw_rand_u64());
    return act(x);
}

void sw_gw_route_continue(struct sw_exchange *x)
{
    if (act(x) == SW_OK)
        sw_exchange_continue(x);
}

/* ---- the response ---- */

void sw_gw_route_response(struct sw_exchange *x)
{
    struct sw_gw_route_state *rs = x->rs;

    if (!rs || !rs->table || !x->hcm)
        return;
    apply_levels(x, true);
    if (x->hcm->n_filters)
        sw_gw_filters_response(x);
    if (rs->hash_cookie.n)
        sw_gw_fields_add(&x->arena, &x->resp.fields, SW_SLICE_LIT("set-cookie"), rs->hash_cookie);
}
