/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration of HTTP filters for single routes: cross-origin requests, session state. */
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/httpfilter.pb-c.h>
#include <proto/route.pb-c.h>

#include "base/buf.h"
#include "control/gateway/xds_route_int.h"
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
        return sw_gwx_string_match(e, SW_GW_MATCH_EXACT, o);
    if (o.n == 1)
        return sw_gwx_string_match(e, SW_GW_MATCH_REGEX, SW_SLICE_LIT(".*"));
    head = sw_gwx_regex_quote(e, sw_slice_head(o, (size_t)star));
    tail = sw_gwx_regex_quote(e, sw_slice_from(o, (size_t)star + 1));
    return sw_gwx_string_match(e, SW_GW_MATCH_REGEX,
                               sw_slice_str(sw_arena_printf(
                                   e->a, "%.*s[^/]+%.*s", SW_SLICE_ARG(head), SW_SLICE_ARG(tail))));
}

static Sw__Any *cors(struct enc *e, const struct sw_gw_cors *c)
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

static Sw__TypedExtensionConfig *session_state(struct enc *e, const struct sw_gw_session *s)
{
    Sw__TypedExtensionConfig *x =
        SW_PB_NEW(e->a, Sw__TypedExtensionConfig, sw__typed_extension_config);
    Sw__CookieBasedSessionState *cookie;
    Sw__HeaderBasedSessionState *header;

    switch (s->kind) {
    case SW_GW_SESSION_COOKIE:
        cookie = SW_PB_NEW(e->a, Sw__CookieBasedSessionState, sw__cookie_based_session_state);
        cookie->cookie = SW_PB_NEW(e->a, Sw__SessionCookie, sw__session_cookie);
        cookie->cookie->name = SW_PB_BYTES(s->name);
        if (s->permanent && s->ttl_ms)
            cookie->cookie->ttl = sw_gwx_duration(e, s->ttl_ms);
        cookie->cookie->path = SW_PB_BYTES(s->path);
        x->name = SW_PB_LIT("envoy.http.stateful_session.cookie");
        x->typed_config = sw_pb_any(e->a, &cookie->base);
        break;
    case SW_GW_SESSION_HEADER:
        header = SW_PB_NEW(e->a, Sw__HeaderBasedSessionState, sw__header_based_session_state);
        header->name = SW_PB_BYTES(s->name);
        x->name = SW_PB_LIT("envoy.http.stateful_session.header");
        x->typed_config = sw_pb_any(e->a, &header->base);
        break;
    }
    return x;
}

static Sw__Any *session(struct enc *e, const struct sw_gw_session *s)
{
    Sw__StatefulSessionPerRoute *p =
        SW_PB_NEW(e->a, Sw__StatefulSessionPerRoute, sw__stateful_session_per_route);

    p->override_case = SW__STATEFUL_SESSION_PER_ROUTE__OVERRIDE_STATEFUL_SESSION;
    p->stateful_session = SW_PB_NEW(e->a, Sw__StatefulSession, sw__stateful_session);
    p->stateful_session->session_state = session_state(e, s);
    return sw_pb_any(e->a, &p->base);
}

static void add(struct enc *e, Sw__Route *to, const char *filter, Sw__Any *config)
{
    Sw__FilterConfigEntry *entry = SW_PB_NEW(e->a, Sw__FilterConfigEntry, sw__filter_config_entry);

    entry->key = SW_PB_BYTES(sw_slice_str(filter));
    entry->value = config;
    to->typed_per_filter_config[to->n_typed_per_filter_config++] = entry;
}

void sw_gwx_route_filters(struct enc *e, const struct sw_gw_route *r, Sw__Route *to)
{
    bool keeps = r->session && r->action == SW_GW_FORWARD;

    if (!r->cors && !keeps)
        return;
    to->typed_per_filter_config = sw_arena_array(e->a, 2, sizeof(*to->typed_per_filter_config));
    /* A map: by key. */
    if (r->cors)
        add(e, to, "envoy.filters.http.cors", cors(e, r->cors));
    if (keeps)
        add(e, to, "envoy.filters.http.stateful_session", session(e, r->session));
}
