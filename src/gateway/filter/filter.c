/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP filters at work: CORS, sticky sessions, answers about our own health, and (files of
 * their own) outside authorisation and compression. build.c makes them.
 */
#include "gateway/filter/filter.h"

#include "base/base64.h"
#include "base/rand.h"
#include "gateway/config/config.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/state.h"
#include "gateway/filter/authz.h"
#include "gateway/filter/gzip.h"
#include "gateway/message/fields.h"
#include "gateway/message/match.h"

enum { SESSION_MAX = 256 };

static const struct sw_gw_per_filter *find_per(const struct sw_gw_per_filter *p, size_t n,
                                               const struct sw_gw_filter *f)
{
    for (size_t i = 0; i < n; i++) {
        if ((p[i].kind == f->kind || p[i].kind == SW_GW_FILTER_NAMED) &&
            sw_slice_eq(p[i].name, f->name))
            return &p[i];
    }
    return NULL;
}

/* The configuration that counts for this request: the most specific; NULL: the filter does nothing.
 */
static const void *effective(const struct sw_exchange *x, const struct sw_gw_filter *f)
{
    const struct sw_gw_route_state *rs = x->rs;
    const struct sw_gw_per_filter *p = NULL;

    if (rs->weight)
        p = find_per(rs->weight->filters, rs->weight->n_filters, f);
    if (!p && x->route)
        p = find_per(x->route->filters, x->route->n_filters, f);
    if (!p && rs->vhost)
        p = find_per(rs->vhost->filters, rs->vhost->n_filters, f);
    if (!p)
        p = find_per(rs->table->filters, rs->table->n_filters, f);
    if (p && p->kind != SW_GW_FILTER_NAMED)
        return p->disabled ? NULL : p->config;
    if (f->kind == SW_GW_FILTER_UNKNOWN)
        return p && !p->disabled ? f : NULL;
    return (p ? p->disabled : f->disabled) ? NULL : f->config;
}

static bool origin_allowed(const struct sw_gw_cors *c, struct sw_slice origin, struct sw_budget *b)
{
    for (size_t i = 0; i < c->n_origins; i++) {
        const struct sw_gw_str_match *m = &c->origins[i];

        if (m->kind == SW_GW_STR_EXACT && sw_slice_eq_str(m->text, "*"))
            return true;
        if (sw_gw_str_matches(m, origin, b))
            return true;
    }
    return false;
}

static void add(struct sw_exchange *x, const char *name, struct sw_slice value)
{
    if (value.n)
        sw_gw_fields_set(&x->arena, &x->resp.fields, sw_slice_str(name), value);
}

/* "*" may not be answered together with credentials: the browser's own list is, instead. */
static struct sw_slice star(const struct sw_gw_cors *c, struct sw_slice configured,
                            const struct sw_slice *asked)
{
    if (!sw_slice_eq_str(configured, "*") || !c->credentials)
        return configured;
    return asked ? *asked : sw_slice(NULL, 0);
}

static int cors_request(struct sw_exchange *x, const struct sw_gw_cors *c)
{
    const struct sw_slice *origin = sw_gw_fields_find(&x->req.fields, SW_SLICE_LIT("origin"));
    const struct sw_slice *method =
        sw_gw_fields_find(&x->req.fields, SW_SLICE_LIT("access-control-request-method"));
    const struct sw_slice *headers =
        sw_gw_fields_find(&x->req.fields, SW_SLICE_LIT("access-control-request-headers"));
    bool preflight = origin && method && sw_slice_eq_str(x->req.method, "OPTIONS");

    if (!origin || origin->n == 0)
        return SW_OK;
    if (c->millionths < 1000000 && sw_rand_below(1000000) >= c->millionths)
        return SW_OK;
    if (!origin_allowed(c, *origin, x->req.work)) {
        if (!preflight || c->forward_preflights)
            return SW_OK;
        sw_exchange_reply(x, 200, sw_slice(NULL, 0), "cors_response");
        return SW_GW_REPLIED;
    }
    x->rs->cors = c;
    x->rs->cors_origin = *origin;
    if (!preflight)
        return SW_OK;
    add(x, "access-control-allow-methods", star(c, c->methods, method));
    add(x, "access-control-allow-headers", star(c, c->headers, headers));
    add(x, "access-control-max-age", c->max_age);
    if (c->private_network &&
        sw_gw_fields_find(&x->req.fields, SW_SLICE_LIT("access-control-request-private-network")))
        add(x, "access-control-allow-private-network", SW_SLICE_LIT("true"));
    sw_exchange_reply(x, 200, sw_slice(NULL, 0), "cors_response");
    return SW_GW_REPLIED;
}

static void cors_response(struct sw_exchange *x)
{
    const struct sw_gw_cors *c = x->rs->cors;

    if (!c)
        return;
    add(x, "access-control-allow-origin", x->rs->cors_origin);
    if (c->credentials)
        add(x, "access-control-allow-credentials", SW_SLICE_LIT("true"));
    if (!sw_slice_eq_str(c->expose, "*") || !c->credentials)
        add(x, "access-control-expose-headers", c->expose);
}

/* The address inside is base64, as Envoy's header state does it; ours alone reads it. */
static void session_request(struct sw_exchange *x, const struct sw_gw_session *s)
{
    struct sw_slice v = sw_slice(NULL, 0);
    const struct sw_slice *field;
    SW_BUF_AUTO out = {0};

    x->rs->session = s;
    x->rs->pick.session_strict = s->strict;
    if (s->header) {
        field = sw_gw_fields_find(&x->req.fields, s->name);
        if (field)
            v = *field;
    } else {
        v = sw_gw_cookie(&x->req.fields, s->name);
    }
    sw_buf_init(&out, SESSION_MAX);
    if (v.n == 0 || sw_base64_decode(&out, v) < 0)
        return;
    x->rs->pick.session = sw_arena_slice(&x->arena, sw_buf_slice(&out));
}

static void session_response(struct sw_exchange *x)
{
    const struct sw_gw_session *s = x->rs->session;
    const struct sw_gw_member *m = x->host ? x->host->member : x->rs->member;
    SW_BUF_AUTO out = {0};

    if (!s || !m || x->resp.local || sw_slice_eq(m->text, x->rs->pick.session))
        return;
    sw_buf_init(&out, 4096 + SESSION_MAX);
    if (!s->header && sw_buf_printf(&out, "%.*s=\"", SW_SLICE_ARG(s->name)) < 0)
        return;
    if (sw_base64_append(&out, m->text) < 0)
        return;
    if (!s->header) {
        if (sw_buf_putc(&out, '"') < 0)
            return;
        if (s->ttl_s && sw_buf_printf(&out, "; Max-Age=%llu", (unsigned long long)s->ttl_s) < 0)
            return;
        if (s->path.n && sw_buf_printf(&out, "; Path=%.*s", SW_SLICE_ARG(s->path)) < 0)
            return;
        if (sw_buf_printf(&out, "%.*s; HttpOnly", SW_SLICE_ARG(s->attributes)) < 0)
            return;
        sw_gw_fields_add(&x->arena, &x->resp.fields, SW_SLICE_LIT("set-cookie"),
                         sw_arena_slice(&x->arena, sw_buf_slice(&out)));
        return;
    }
    sw_gw_fields_set(&x->arena, &x->resp.fields, s->name,
                     sw_arena_slice(&x->arena, sw_buf_slice(&out)));
}

static int alive_request(struct sw_exchange *x, const struct sw_gw_alive *h)
{
    for (size_t i = 0; i < h->n_headers; i++) {
        if (!sw_gw_header_matches(&h->headers[i], &x->req))
            return SW_OK;
    }
    sw_exchange_reply(x, 200, sw_slice(NULL, 0), "health_check_ok");
    return SW_GW_REPLIED;
}

static int directed_request(struct sw_exchange *x, const struct sw_gw_directed *d)
{
    struct sw_slice host = x->req.authority;
    ptrdiff_t colon = host.n ? sw_slice_find(host, ':') : -1;

    if (colon >= 0)
        host = sw_slice_head(host, (size_t)colon);
    if (sw_slice_ieq(host, d->host.n ? d->host : x->from.sni))
        return SW_OK;
    sw_exchange_reply(x, 421, SW_SLICE_LIT("misdirected request"), "misdirected_request");
    return SW_GW_REPLIED;
}

int sw_gw_filters_request(struct sw_exchange *x)
{
    while (x->rs->next_filter < x->hcm->n_filters) {
        const struct sw_gw_filter *f = &x->hcm->filters[x->rs->next_filter++];
        const void *config = effective(x, f);
        int rc = SW_OK;

        if (!config)
            continue;
        switch (f->kind) {
        case SW_GW_FILTER_CORS:
            rc = cors_request(x, config);
            break;
        case SW_GW_FILTER_SESSION:
            session_request(x, config);
            break;
        case SW_GW_FILTER_AUTHZ:
            rc = sw_gw_authz_request(x, f->config, config == f->config ? NULL : config);
            break;
        case SW_GW_FILTER_HEALTH:
            rc = alive_request(x, config);
            break;
        case SW_GW_FILTER_DIRECTED:
            rc = directed_request(x, config);
            break;
        case SW_GW_FILTER_GZIP:
            sw_gw_gzip_request(x, config);
            break;
        case SW_GW_FILTER_UNKNOWN:
            /* The filter may be access control: fail closed without it. */
            sw_exchange_reply(x, 500, SW_SLICE_LIT("the route needs a filter that is not here"),
                              "filter_not_supported");
            rc = SW_GW_REPLIED;
            break;
        case SW_GW_FILTER_NAMED: /* of routes only */
            break;
        }
        if (rc < 0)
            return rc;
    }
    return SW_OK;
}

bool sw_gw_filters_misdirected(struct sw_exchange *x)
{
    for (size_t i = 0; i < x->hcm->n_filters; i++) {
        const struct sw_gw_filter *f = &x->hcm->filters[i];

        if (f->kind == SW_GW_FILTER_DIRECTED && !f->disabled &&
            directed_request(x, f->config) != SW_OK)
            return true;
    }
    return false;
}

void sw_gw_filters_response(struct sw_exchange *x)
{
    cors_response(x);
    sw_gw_authz_response(x);
    session_response(x);
    sw_gw_gzip_response(x);
}
