/* SPDX-License-Identifier: Apache-2.0 */
/* The worlds of xds_rig.h. */
#include "xds_rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "control/gateway/resolved.h"

/* --- clusters that many cases use --- */

static const struct sw_model_cluster web = {.name = L("shop/web/80/1a2b"),
                                            .endpoints = L("shop/web/80")};
static const struct sw_model_cluster api = {.name = L("shop/api/8080/3c4d"),
                                            .endpoints = L("shop/api/8080"),
                                            .proto = SW_MODEL_PROTO_HTTP2};
static const struct sw_model_cluster chat = {
    .name = L("shop/chat/80/5e6f"), .endpoints = L("shop/chat/80"), .proto = SW_MODEL_PROTO_WS};
static const struct sw_model_cluster tcp = {
    .name = L("shop/db/5432/7788"), .endpoints = L("shop/db/5432"), .proto = SW_MODEL_PROTO_TCP};
static const struct sw_model_cluster tcp2 = {
    .name = L("shop/db2/5432/99aa"), .endpoints = L("shop/db2/5432"), .proto = SW_MODEL_PROTO_TCP};
static const struct sw_model_cluster dns = {
    .name = L("shop/dns/53/bbcc"), .endpoints = L("shop/dns/53"), .proto = SW_MODEL_PROTO_UDP};
static const struct sw_model_cluster dns2 = {
    .name = L("shop/dns2/53/ddee"), .endpoints = L("shop/dns2/53"), .proto = SW_MODEL_PROTO_UDP};

static const struct sw_model_backend to_web[] = {{.cluster = &web, .weight = 1}};
static const struct sw_model_backend to_api[] = {{.cluster = &api, .weight = 1}};
static const struct sw_model_backend to_chat[] = {{.cluster = &chat, .weight = 1}};

#define PREFIX(p)                                                                                  \
    {                                                                                              \
        .path_kind = SW_MODEL_PATH_PREFIX, .path = L(p)                                            \
    }
#define NO_TIMEOUT .request_timeout_ms = -1, .backend_timeout_ms = -1
#define TO(b)      .backends = (b), .n_backends = N(b), .invalid_status = 500, NO_TIMEOUT

/* --- putting a model together --- */

struct rig {
    struct sw_arena *a;
    SW_VEC(const struct sw_model_listener *) listeners;
    SW_VEC(const struct sw_model_table *) tables;
    SW_VEC(const struct sw_model_cluster *) clusters;
    SW_VEC(const struct sw_model_secret *) secrets;
    SW_VEC(const struct sw_model_endpoints *) sets;
};

static void want(struct rig *r, const struct sw_model_cluster *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < r->clusters.n; i++) {
        if (r->clusters.p[i] == c)
            return;
    }
    sw_vec_push(&r->clusters, c);
}

static void want_all(struct rig *r, const struct sw_model_backend *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        want(r, b[i].cluster);
}

static void add_listener(struct rig *r, const struct sw_model_listener *l)
{
    sw_vec_push(&r->listeners, l);
    for (size_t i = 0; i < l->n_chains; i++) {
        const struct sw_model_chain *c = l->chains[i];

        want_all(r, c->backends, c->n_backends);
        if (!c->table)
            continue;
        sw_vec_push(&r->tables, c->table);
        for (size_t v = 0; v < c->table->n_vhosts; v++) {
            const struct sw_model_vhost *host = c->table->vhosts[v];

            for (size_t k = 0; k < host->n_routes; k++) {
                want_all(r, host->routes[k]->backends, host->routes[k]->n_backends);
                for (size_t m = 0; m < host->routes[k]->n_mirrors; m++)
                    want(r, host->routes[k]->mirrors[m].cluster);
                if (host->routes[k]->auth)
                    want(r, host->routes[k]->auth->cluster);
            }
        }
    }
}

static void add_set(struct rig *r, const char *name, const struct sw_model_endpoint *p, size_t n)
{
    struct sw_model_endpoints *s = SW_ARENA_NEW(r->a, struct sw_model_endpoints);

    *s = (struct sw_model_endpoints){.name = sw_slice_str(name), .p = p, .n = n};
    sw_vec_push(&r->sets, s);
}

#define BY_NAME(fn, type)                                                                          \
    static int fn(const void *x, const void *y)                                                    \
    {                                                                                              \
        const type *const *a = x;                                                                  \
        const type *const *b = y;                                                                  \
                                                                                                   \
        return sw_slice_cmp((*a)->name, (*b)->name);                                               \
    }
BY_NAME(by_listener, struct sw_model_listener)
BY_NAME(by_table, struct sw_model_table)
BY_NAME(by_cluster, struct sw_model_cluster)
BY_NAME(by_secret, struct sw_model_secret)
BY_NAME(by_set, struct sw_model_endpoints)

static void *keep(struct rig *r, const void *p, size_t n, int (*cmp)(const void *, const void *))
{
    const void **out = sw_arena_array(r->a, n + 1, sizeof(void *));

    if (n)
        memcpy(out, p, n * sizeof(void *));
    qsort(out, n, sizeof(void *), cmp);
    return out;
}

/* Sorted lists as the build makes them; clusters without endpoints of their own get one. */
static void finish(struct rig *r, struct sw_model *m, struct sw_endpoint_model *ep)
{
    static const struct sw_model_endpoint one[] = {{.address = L("10.0.0.1"), .port = 8080}};

    for (size_t i = 0; i < r->clusters.n; i++) {
        bool found = r->clusters.p[i]->endpoints.n == 0;

        for (size_t k = 0; k < r->sets.n; k++)
            found |= sw_slice_eq(r->sets.p[k]->name, r->clusters.p[i]->endpoints);
        if (!found)
            add_set(r, r->clusters.p[i]->endpoints.p, one, 1);
    }
    m->listeners = keep(r, r->listeners.p, r->listeners.n, by_listener);
    m->n_listeners = r->listeners.n;
    m->tables = keep(r, r->tables.p, r->tables.n, by_table);
    m->n_tables = r->tables.n;
    m->clusters = keep(r, r->clusters.p, r->clusters.n, by_cluster);
    m->n_clusters = r->clusters.n;
    m->secrets = keep(r, r->secrets.p, r->secrets.n, by_secret);
    m->n_secrets = r->secrets.n;
    ep->sets = keep(r, r->sets.p, r->sets.n, by_set);
    ep->n_sets = r->sets.n;
    sw_vec_done(&r->listeners);
    sw_vec_done(&r->tables);
    sw_vec_done(&r->clusters);
    sw_vec_done(&r->secrets);
    sw_vec_done(&r->sets);
}

/* One plain HTTP listener, one host, these routes in this order. */
static void add_http(struct rig *r, const struct sw_model_route *routes, size_t n)
{
    const struct sw_model_route **order = sw_arena_array(r->a, n + 1, sizeof(*order));
    struct sw_model_vhost *host = SW_ARENA_NEW(r->a, struct sw_model_vhost);
    struct sw_model_table *table = SW_ARENA_NEW(r->a, struct sw_model_table);
    struct sw_model_chain *chain = SW_ARENA_NEW(r->a, struct sw_model_chain);
    struct sw_model_listener *l = SW_ARENA_NEW(r->a, struct sw_model_listener);
    const struct sw_model_vhost **hosts = sw_arena_array(r->a, 1, sizeof(*hosts));
    const struct sw_model_chain **chains = sw_arena_array(r->a, 1, sizeof(*chains));

    for (size_t i = 0; i < n; i++)
        order[i] = &routes[i];
    *host = (struct sw_model_vhost){.host = L("*"), .routes = order, .n_routes = n};
    hosts[0] = host;
    *table = (struct sw_model_table){.name = L("http/80"), .vhosts = hosts, .n_vhosts = 1};
    *chain =
        (struct sw_model_chain){.name = L("http/80"), .kind = SW_MODEL_CHAIN_HTTP, .table = table};
    chains[0] = chain;
    *l = (struct sw_model_listener){.name = L("tcp/0.0.0.0/8080"),
                                    .bind = L("0.0.0.0"),
                                    .bind_port = 8080,
                                    .port = 80,
                                    .chains = chains,
                                    .n_chains = 1};
    add_listener(r, l);
}

#define HTTP_CASE(fn, routes)                                                                      \
    static void fn(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)           \
    {                                                                                              \
        struct rig r = {.a = a};                                                                   \
                                                                                                   \
        add_http(&r, routes, N(routes));                                                           \
        finish(&r, m, ep);                                                                         \
    }

/* --- matches --- */

static const struct sw_model_value_match two_headers[] = {
    {.name = L("version"), .value = L("two")},
    {.name = L("color"), .kind = SW_MODEL_MATCH_REGEX, .value = L("gr[ae]y|blue")}};
static const struct sw_model_value_match two_queries[] = {
    {.name = L("animal"), .value = L("whale")},
    {.name = L("size"), .kind = SW_MODEL_MATCH_REGEX, .value = L("[0-9]+")}};
static const struct sw_model_route match_routes[] = {
    {.name = L("httproute/shop/a/rule/0/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_EXACT, .path = L("/exact")},
     .websocket = true,
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/1/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_REGEX, .path = L("/v[0-9]+/.*")},
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/2/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_PREFIX, .path = L("/v2/items"), .method = L("POST")},
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/3/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_PREFIX,
               .path = L("/v2"),
               .headers = two_headers,
               .n_headers = N(two_headers)},
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/4/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_PREFIX,
               .path = L("/"),
               .queries = two_queries,
               .n_queries = N(two_queries)},
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/5/match/0"), .match = PREFIX("/"), TO(to_chat)},
};
HTTP_CASE(make_matches, match_routes)

static const struct sw_model_route grpc_routes[] = {
    {.name = L("grpcroute/shop/g/rule/0/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_EXACT, .path = L("/shop.Cart/Add"), .grpc = true},
     TO(to_api)},
    {.name = L("grpcroute/shop/g/rule/1/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_START, .path = L("/shop.Cart/"), .grpc = true},
     TO(to_api)},
    {.name = L("grpcroute/shop/g/rule/2/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_REGEX, .path = L("/[^/]+/Ping"), .grpc = true},
     TO(to_api)},
    {.name = L("grpcroute/shop/g/rule/3/match/0"),
     .match = {.path_kind = SW_MODEL_PATH_PREFIX, .path = L("/"), .grpc = true},
     .action = SW_MODEL_RESPOND,
     .status = 503},
};
HTTP_CASE(make_grpc, grpc_routes)

/* --- backends --- */

static const struct sw_model_header set_one[] = {{.name = L("x-share"), .value = L("100%")}};
static const struct sw_model_header add_one[] = {{.name = L("x-tag"), .value = L("b")}};
static const struct sw_slice remove_one[] = {L("x-secret")};
static const struct sw_model_backend shares[] = {
    {.cluster = &web, .weight = 80},
    {.cluster = &chat, .weight = 0},
    {.cluster = NULL, .weight = 10},
    {.cluster = &api,
     .weight = 10,
     .request = {.set = set_one,
                 .n_set = 1,
                 .add = add_one,
                 .n_add = 1,
                 .remove = remove_one,
                 .n_remove = 1},
     .response = {.set = set_one, .n_set = 1},
     .host_rewrite = L("api.example")},
};
static const struct sw_model_backend invalid_grpc[] = {{.cluster = &api, .weight = 1},
                                                       {.cluster = NULL, .weight = 1}};
static const struct sw_model_backend with_zero[] = {{.cluster = &web, .weight = 3},
                                                    {.cluster = &chat, .weight = 0}};
static const struct sw_model_route share_routes[] = {
    {.name = L("httproute/shop/w/rule/0/match/0"), .match = PREFIX("/shares"), TO(shares)},
    {.name = L("httproute/shop/w/rule/1/match/0"), .match = PREFIX("/zero"), TO(with_zero)},
    {.name = L("grpcroute/shop/w/rule/0/match/0"),
     .match = PREFIX("/grpc"),
     .backends = invalid_grpc,
     .n_backends = N(invalid_grpc),
     .invalid_status = 503,
     NO_TIMEOUT},
    {.name = L("httproute/shop/w/rule/2/match/0"),
     .match = PREFIX("/none"),
     .action = SW_MODEL_RESPOND,
     .status = 500},
};
HTTP_CASE(make_shares, share_routes)

/* --- filters --- */

static const struct sw_model_redirect to_https = {.scheme = L("https"), .status = 301};
static const struct sw_model_redirect to_host = {
    .host = L("new.example"), .port = 8443, .status = 302, .scheme = L("https")};
static const struct sw_model_redirect full = {
    .path_edit = SW_MODEL_PATH_FULL, .path = L("/all"), .status = 303};
static const struct sw_model_redirect swap = {
    .path_edit = SW_MODEL_PATH_REPLACE_PREFIX, .path = L("/new/"), .status = 307};
static const struct sw_model_redirect cut = {
    .path_edit = SW_MODEL_PATH_REPLACE_PREFIX, .path = L("/"), .status = 308};
#define REDIRECT(n, p, to)                                                                         \
    {                                                                                              \
        .name = L("httproute/shop/r/rule/" #n "/match/0"), .match = PREFIX(p),                     \
        .action = SW_MODEL_REDIRECT, .redirect = &(to)                                             \
    }
static const struct sw_model_route redirect_routes[] = {
    REDIRECT(0, "/scheme", to_https), REDIRECT(1, "/host", to_host), REDIRECT(2, "/full", full),
    REDIRECT(3, "/swap", swap),       REDIRECT(4, "/cut", cut),
};
HTTP_CASE(make_redirects, redirect_routes)

static const struct sw_model_rewrite rw_host = {.host = L("inner.example")};
static const struct sw_model_rewrite rw_full = {.path_edit = SW_MODEL_PATH_FULL,
                                                .path = L("/a\\1")};
static const struct sw_model_rewrite rw_swap = {.path_edit = SW_MODEL_PATH_REPLACE_PREFIX,
                                                .path = L("/xyz/")};
static const struct sw_model_rewrite rw_cut = {.path_edit = SW_MODEL_PATH_REPLACE_PREFIX};
#define REWRITE(n, p, how)                                                                         \
    {                                                                                              \
        .name = L("httproute/shop/u/rule/" #n "/match/0"), .match = PREFIX(p), .rewrite = &(how),  \
        TO(to_web)                                                                                 \
    }
static const struct sw_model_route rewrite_routes[] = {
    REWRITE(0, "/host", rw_host), REWRITE(1, "/full", rw_full), REWRITE(2, "/foo", rw_swap),
    REWRITE(3, "/a.b+c", rw_cut), REWRITE(4, "/", rw_swap),
};
HTTP_CASE(make_rewrites, rewrite_routes)

#define EDITS                                                                                      \
    {                                                                                              \
        .set = set_one, .n_set = 1, .add = add_one, .n_add = 1, .remove = remove_one,              \
        .n_remove = 1                                                                              \
    }
static const struct sw_model_route header_routes[] = {
    {.name = L("httproute/shop/h/rule/0/match/0"),
     .match = PREFIX("/"),
     .request = EDITS,
     .response = EDITS,
     TO(to_web)},
};
HTTP_CASE(make_headers, header_routes)

static const struct sw_model_mirror mirrors[] = {
    {.cluster = &chat, .numerator = 100, .denominator = 100},
    {.cluster = &api, .numerator = 1, .denominator = 3}};
static const struct sw_model_route mirror_routes[] = {
    {.name = L("httproute/shop/m/rule/0/match/0"),
     .match = PREFIX("/"),
     .mirrors = mirrors,
     .n_mirrors = N(mirrors),
     TO(to_web)},
};
HTTP_CASE(make_mirrors, mirror_routes)

static const struct sw_slice origins[] = {L("https://www.foo.com"), L("https://*.bar.com"),
                                          L("http://*")};
static const struct sw_slice any_origin[] = {L("*")};
static const struct sw_slice methods[] = {L("GET"), L("OPTIONS")};
static const struct sw_slice some_headers[] = {L("x-a"), L("x-b")};
static const struct sw_model_cors cors_some = {.origins = origins,
                                               .n_origins = N(origins),
                                               .methods = methods,
                                               .n_methods = N(methods),
                                               .headers = some_headers,
                                               .n_headers = N(some_headers),
                                               .expose = some_headers,
                                               .n_expose = 1,
                                               .credentials = true,
                                               .max_age_s = 3600};
static const struct sw_model_cors cors_any = {
    .origins = any_origin, .n_origins = 1, .methods = any_origin, .n_methods = 1, .max_age_s = 5};
static const struct sw_model_route cors_routes[] = {
    {.name = L("httproute/shop/c/rule/0/match/0"),
     .match = PREFIX("/some"),
     .cors = &cors_some,
     TO(to_web)},
    {.name = L("httproute/shop/c/rule/1/match/0"),
     .match = PREFIX("/any"),
     .cors = &cors_any,
     TO(to_web)},
};
HTTP_CASE(make_cors, cors_routes)

/* --- outside authorisation, and routes for shares --- */

static const struct sw_model_auth auth_http = {.cluster = &chat,
                                               .path = L("/check"),
                                               .headers = some_headers,
                                               .n_headers = N(some_headers),
                                               .copied = some_headers,
                                               .n_copied = 1,
                                               .body_max = 4096};
static const struct sw_model_auth auth_plain = {.cluster = &chat};
static const struct sw_model_auth auth_grpc = {
    .cluster = &api, .grpc = true, .headers = some_headers, .n_headers = 1};
static const struct sw_model_rewrite to_left = {.path_edit = SW_MODEL_PATH_FULL,
                                                .path = L("/left")};
static const struct sw_model_redirect away = {.host = L("b.test"), .status = 302};
static const struct sw_model_route auth_routes[] = {
    {.name = L("httproute/shop/a/rule/0/match/0"),
     .match = PREFIX("/http"),
     .auth = &auth_http,
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/1/match/0"),
     .match = PREFIX("/plain"),
     .auth = &auth_plain,
     .cors = &cors_any,
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/2/match/0"),
     .match = PREFIX("/grpc"),
     .auth = &auth_grpc,
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/3/match/0/share/0"),
     .match = PREFIX("/shares"),
     .share = 250000,
     .rewrite = &to_left,
     TO(to_web)},
    {.name = L("httproute/shop/a/rule/3/match/0/share/1"),
     .match = PREFIX("/shares"),
     .share = 333333,
     .action = SW_MODEL_REDIRECT,
     .redirect = &away,
     NO_TIMEOUT},
    {.name = L("httproute/shop/a/rule/3/match/0/share/2"), .match = PREFIX("/shares"), TO(to_api)},
};
HTTP_CASE(make_auth, auth_routes)

/* --- time --- */

static const uint16_t codes[] = {500, 503};
static const struct sw_model_retry retry = {
    .codes = codes, .n_codes = N(codes), .attempts = 3, .backoff_ms = 250};
static const struct sw_model_retry retry_plain = {.attempts = 1};
#define TIMED(n, p, whole, one, again)                                                             \
    {                                                                                              \
        .name = L("httproute/shop/t/rule/" #n "/match/0"), .match = PREFIX(p), .backends = to_web, \
        .n_backends = 1, .request_timeout_ms = (whole), .backend_timeout_ms = (one),               \
        .retry = (again)                                                                           \
    }
static const struct sw_model_route time_routes[] = {
    TIMED(0, "/none", -1, -1, NULL),          TIMED(1, "/off", 0, -1, NULL),
    TIMED(2, "/whole", 1500, -1, NULL),       TIMED(3, "/one", -1, 500, NULL),
    TIMED(4, "/both", 1500, 500, NULL),       TIMED(5, "/retry", 5000, 500, &retry),
    TIMED(6, "/again", -1, -1, &retry_plain),
};
HTTP_CASE(make_times, time_routes)

static const struct sw_model_session cookie = {
    .name = L("sticky"), .ttl_ms = 3600000, .permanent = true, .path = L("/a")};
static const struct sw_model_session browser = {
    .name = L("sticky"), .ttl_ms = 1000, .path = L("/")};
static const struct sw_model_session header = {.kind = SW_MODEL_SESSION_HEADER,
                                               .name = L("x-session")};
#define KEEPS(n, p, how)                                                                           \
    {                                                                                              \
        .name = L("httproute/shop/s/rule/" #n "/match/0"), .match = PREFIX(p), .session = &(how),  \
        TO(to_web)                                                                                 \
    }
static const struct sw_model_route session_routes[] = {
    KEEPS(0, "/a", cookie), KEEPS(1, "/b", browser), KEEPS(2, "/c", header)};
HTTP_CASE(make_sessions, session_routes)

/* --- HTTPS --- */

static const struct sw_model_route root = {
    .name = L("httproute/shop/a/rule/0/match/0"), .match = PREFIX("/"), TO(to_web)};
static const struct sw_model_route *const root_only[] = {&root};
static const struct sw_model_vhost vh_a = {
    .host = L("a.example"), .routes = root_only, .n_routes = 1};
static const struct sw_model_vhost vh_any = {.host = L("*"), .routes = root_only, .n_routes = 1};
static const struct sw_model_vhost vh_wild = {.host = L("*.wild.example")};
static const struct sw_model_vhost not_any = {.host = L("*"), .misdirected = true};
static const struct sw_model_vhost not_a = {.host = L("a.example"), .misdirected = true};
static const struct sw_model_vhost *const hosts_a[] = {&not_any, &vh_a};
static const struct sw_model_vhost *const hosts_any[] = {&vh_any, &not_a};
static const struct sw_model_vhost *const hosts_wild[] = {&vh_wild, &not_a};
static const struct sw_model_table table_a = {
    .name = L("https/443/a.example"), .vhosts = hosts_a, .n_vhosts = N(hosts_a)};
static const struct sw_model_table table_any = {
    .name = L("https/443/*"), .vhosts = hosts_any, .n_vhosts = N(hosts_any)};
static const struct sw_model_table table_wild = {
    .name = L("https/443/*.wild.example"), .vhosts = hosts_wild, .n_vhosts = N(hosts_wild)};
static const struct sw_slice sni_a[] = {L("a.example")};
static const struct sw_slice sni_wild[] = {L("*.wild.example")};
static const struct sw_slice certs[] = {L("cert/shop/a")};
static const struct sw_slice two_certs[] = {L("cert/shop/a"), L("cert/shop/b")};
#define HTTPS .kind = SW_MODEL_CHAIN_HTTP, .tls = SW_MODEL_TLS_TERMINATE, .alpn_http = true
static const struct sw_model_chain chain_a = {.name = L("https/443/a.example"),
                                              HTTPS,
                                              .server_names = sni_a,
                                              .n_server_names = 1,
                                              .certs = certs,
                                              .n_certs = 1,
                                              .client_mode = SW_MODEL_CLIENT_REQUIRE,
                                              .client_ca = L("ca/shop/clients"),
                                              .table = &table_a};
static const struct sw_model_chain chain_any = {
    .name = L("https/443/*"), HTTPS, .certs = two_certs, .n_certs = 2, .table = &table_any};
static const struct sw_model_chain chain_wild = {.name = L("https/443/*.wild.example"),
                                                 HTTPS,
                                                 .server_names = sni_wild,
                                                 .n_server_names = 1,
                                                 .certs = certs,
                                                 .n_certs = 1,
                                                 .client_mode = SW_MODEL_CLIENT_INSECURE,
                                                 .client_ca = L("ca/shop/clients"),
                                                 .table = &table_wild};
static const struct sw_model_chain *const https_chains[] = {&chain_any, &chain_wild, &chain_a};
static const struct sw_model_listener https = {.name = L("tcp/::/8443"),
                                               .bind = L("::"),
                                               .bind_port = 8443,
                                               .port = 443,
                                               .inspect_tls = true,
                                               .chains = https_chains,
                                               .n_chains = N(https_chains)};
static const struct sw_model_secret cert_a = {
    .name = L("cert/shop/a"), .chain_pem = L("CHAIN A\n"), .key_pem = L("KEY A\n")};
static const struct sw_model_secret cert_b = {
    .name = L("cert/shop/b"), .chain_pem = L("CHAIN B\n"), .key_pem = L("KEY B\n")};
static const struct sw_model_secret ca_clients = {
    .name = L("ca/shop/clients"), .kind = SW_MODEL_SECRET_CA, .chain_pem = L("ROOTS\n")};

static void make_https(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    add_listener(&r, &https);
    sw_vec_push(&r.secrets, &cert_a);
    sw_vec_push(&r.secrets, &cert_b);
    sw_vec_push(&r.secrets, &ca_clients);
    finish(&r, m, ep);
}

/* --- TLS to backends --- */

static const struct sw_model_san two_sans[] = {
    {.value = L("db.example")}, {.kind = SW_MODEL_SAN_URI, .value = L("spiffe://td/ns/a/sa/b")}};
static const struct sw_model_backend_tls tls_ca = {.sni = L("db.example"),
                                                   .ca = L("ca/shop/clients"),
                                                   .sans = two_sans,
                                                   .n_sans = 2,
                                                   .client_cert = L("cert/shop/a")};
static const struct sw_model_backend_tls tls_system = {
    .sni = L("db.example"), .sans = two_sans, .n_sans = 1};
static const struct sw_model_cluster secure = {
    .name = L("shop/secure/443/0001"), .endpoints = L("shop/secure/443"), .tls = &tls_ca};
static const struct sw_model_cluster secure_h2 = {.name = L("shop/secure/443/0002"),
                                                  .endpoints = L("shop/secure/443"),
                                                  .proto = SW_MODEL_PROTO_HTTP2,
                                                  .tls = &tls_system};
static const struct sw_model_backend to_secure[] = {{.cluster = &secure, .weight = 1},
                                                    {.cluster = &secure_h2, .weight = 1}};
static const struct sw_model_route secure_routes[] = {
    {.name = L("httproute/shop/b/rule/0/match/0"), .match = PREFIX("/"), TO(to_secure)}};

static void make_backend_tls(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    add_http(&r, secure_routes, N(secure_routes));
    sw_vec_push(&r.secrets, &cert_a);
    sw_vec_push(&r.secrets, &ca_clients);
    finish(&r, m, ep);
}

/* --- bytes --- */

static const struct sw_model_backend tcp_shares[] = {{.cluster = &tcp, .weight = 9},
                                                     {.cluster = &tcp2, .weight = 0},
                                                     {.cluster = NULL, .weight = 1}};
static const struct sw_model_backend tcp_one[] = {{.cluster = &tcp2, .weight = 1}};
static const struct sw_slice sni_b[] = {L("*.b.example"), L("b.example")};
static const struct sw_model_chain pass = {.name = L("tls/8443/a.example"),
                                           .kind = SW_MODEL_CHAIN_L4,
                                           .tls = SW_MODEL_TLS_PASSTHROUGH,
                                           .server_names = sni_a,
                                           .n_server_names = 1,
                                           .backends = tcp_shares,
                                           .n_backends = N(tcp_shares)};
static const struct sw_model_chain term = {.name = L("tls/8443/b.example"),
                                           .kind = SW_MODEL_CHAIN_L4,
                                           .tls = SW_MODEL_TLS_TERMINATE,
                                           .server_names = sni_b,
                                           .n_server_names = 2,
                                           .certs = certs,
                                           .n_certs = 1,
                                           .backends = tcp_one,
                                           .n_backends = 1};
static const struct sw_model_chain refuse = {.name = L("tls/8443/wild"),
                                             .kind = SW_MODEL_CHAIN_REFUSE,
                                             .tls = SW_MODEL_TLS_TERMINATE,
                                             .server_names = sni_wild,
                                             .n_server_names = 1};
static const struct sw_model_chain *const tls_chains[] = {&pass, &term, &refuse};
static const struct sw_model_listener tls = {.name = L("tcp/0.0.0.0/8443"),
                                             .bind = L("0.0.0.0"),
                                             .bind_port = 8443,
                                             .port = 8443,
                                             .inspect_tls = true,
                                             .chains = tls_chains,
                                             .n_chains = N(tls_chains)};
static const struct sw_model_chain plain_tcp = {
    .name = L("tcp/5432"), .kind = SW_MODEL_CHAIN_L4, .backends = tcp_one, .n_backends = 1};
static const struct sw_model_chain empty_tcp = {.name = L("tcp/5433"), .kind = SW_MODEL_CHAIN_L4};
static const struct sw_model_chain *const tcp_chains[] = {&plain_tcp};
static const struct sw_model_chain *const empty_chains[] = {&empty_tcp};
static const struct sw_model_listener tcp_listener = {.name = L("tcp/0.0.0.0/5432"),
                                                      .bind = L("0.0.0.0"),
                                                      .bind_port = 5432,
                                                      .port = 5432,
                                                      .chains = tcp_chains,
                                                      .n_chains = 1};
static const struct sw_model_listener empty_listener = {.name = L("tcp/0.0.0.0/5433"),
                                                        .bind = L("0.0.0.0"),
                                                        .bind_port = 5433,
                                                        .port = 5433,
                                                        .chains = empty_chains,
                                                        .n_chains = 1};

static void make_tls(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    add_listener(&r, &tls);
    sw_vec_push(&r.secrets, &cert_a);
    finish(&r, m, ep);
}

static void make_tcp(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    add_listener(&r, &tcp_listener);
    add_listener(&r, &empty_listener);
    finish(&r, m, ep);
}

static const struct sw_model_backend udp_one[] = {{.cluster = &dns, .weight = 1}};
static const struct sw_model_backend udp_two[] = {{.cluster = &dns, .weight = 3},
                                                  {.cluster = NULL, .weight = 5},
                                                  {.cluster = &dns2, .weight = 1}};
static const struct sw_model_chain udp_plain = {
    .name = L("udp/53"), .kind = SW_MODEL_CHAIN_L4, .backends = udp_one, .n_backends = 1};
static const struct sw_model_chain udp_split = {
    .name = L("udp/54"), .kind = SW_MODEL_CHAIN_L4, .backends = udp_two, .n_backends = N(udp_two)};
static const struct sw_model_chain *const udp_plain_chains[] = {&udp_plain};
static const struct sw_model_chain *const udp_split_chains[] = {&udp_split};
static const struct sw_model_listener udp_a = {.name = L("udp/0.0.0.0/8053"),
                                               .bind = L("0.0.0.0"),
                                               .bind_port = 8053,
                                               .port = 53,
                                               .udp = true,
                                               .chains = udp_plain_chains,
                                               .n_chains = 1};
static const struct sw_model_listener udp_b = {.name = L("udp/0.0.0.0/8054"),
                                               .bind = L("0.0.0.0"),
                                               .bind_port = 8054,
                                               .port = 54,
                                               .udp = true,
                                               .chains = udp_split_chains,
                                               .n_chains = 1};

static void make_udp(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    add_listener(&r, &udp_a);
    add_listener(&r, &udp_b);
    finish(&r, m, ep);
}

#define UDP_ID "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"
static const struct sw_model_cluster resolver = {.name =
                                                     L("connector/home/laptop/127.0.0.1:53/0c0c"),
                                                 .proto = SW_MODEL_PROTO_UDP,
                                                 .tunnel = true,
                                                 .udp_host = L("127.0.0.1"),
                                                 .udp_port = 53,
                                                 .udp_id = L(UDP_ID)};
static const struct sw_model_cluster lost = {.name = L("connector/home/lost/127.0.0.1:53/0d0d"),
                                             .proto = SW_MODEL_PROTO_UDP,
                                             .tunnel = true,
                                             .udp_host = L("127.0.0.1"),
                                             .udp_port = 53};
static const struct sw_model_backend to_resolver[] = {{.cluster = &resolver, .weight = 1}};
static const struct sw_model_backend to_lost[] = {{.cluster = &lost, .weight = 1}};
static const struct sw_model_chain udp_resolver = {
    .name = L("udp/53"), .kind = SW_MODEL_CHAIN_L4, .backends = to_resolver, .n_backends = 1};
static const struct sw_model_chain udp_lost = {
    .name = L("udp/54"), .kind = SW_MODEL_CHAIN_L4, .backends = to_lost, .n_backends = 1};
static const struct sw_model_chain *const udp_resolver_chains[] = {&udp_resolver};
static const struct sw_model_chain *const udp_lost_chains[] = {&udp_lost};
static const struct sw_model_listener udp_c = {.name = L("udp/0.0.0.0/8053"),
                                               .bind = L("0.0.0.0"),
                                               .bind_port = 8053,
                                               .port = 53,
                                               .udp = true,
                                               .chains = udp_resolver_chains,
                                               .n_chains = 1};
static const struct sw_model_listener udp_d = {.name = L("udp/0.0.0.0/8054"),
                                               .bind = L("0.0.0.0"),
                                               .bind_port = 8054,
                                               .port = 54,
                                               .udp = true,
                                               .chains = udp_lost_chains,
                                               .n_chains = 1};

static void make_udp_tunnel(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    add_listener(&r, &udp_c);
    add_listener(&r, &udp_d);
    finish(&r, m, ep);
}

/* --- tunnels and endpoints --- */

static const struct sw_model_cluster laptop = {
    .name = L("home/laptop/8000/0a0a"), .endpoints = L("home/laptop/8000"), .tunnel = true};
static const struct sw_model_cluster laptop_tls = {.name = L("home/laptop/8443/0b0b"),
                                                   .endpoints = L("home/laptop/8443"),
                                                   .tls = &tls_system,
                                                   .tunnel = true};
static const struct sw_model_backend to_laptop[] = {{.cluster = &laptop, .weight = 1},
                                                    {.cluster = &laptop_tls, .weight = 1}};
static const struct sw_model_endpoint laptop_ep[] = {
    {.tunnel_target = L("localhost:8000"), .tunnel_id = L("ae58ff8833241ac82d6ff7611046ed67")}};
static const struct sw_model_endpoint laptop_tls_ep[] = {
    {.tunnel_target = L("localhost:8443"), .tunnel_id = L("ae58ff8833241ac82d6ff7611046ed67")}};
static const struct sw_model_route tunnel_routes[] = {
    {.name = L("httproute/home/l/rule/0/match/0"), .match = PREFIX("/"), TO(to_laptop)}};

static void make_tunnel(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    add_http(&r, tunnel_routes, N(tunnel_routes));
    add_set(&r, "home/laptop/8000", laptop_ep, 1);
    add_set(&r, "home/laptop/8443", laptop_tls_ep, 1);
    finish(&r, m, ep);
}

static const struct sw_model_endpoint zones[] = {
    {.address = L("10.0.0.9"), .port = 80},
    {.address = L("10.0.1.1"), .port = 80, .zone = L("a")},
    {.address = L("10.0.1.2"), .port = 80, .zone = L("a"), .draining = true},
    {.address = L("fd00::1"), .port = 80, .zone = L("b")},
};
static const struct sw_model_endpoint leaving[] = {
    {.address = L("10.0.1.2"), .port = 80, .zone = L("a"), .draining = true}};
static const struct sw_model_backend to_all[] = {{.cluster = &web, .weight = 1},
                                                 {.cluster = &api, .weight = 1},
                                                 {.cluster = &chat, .weight = 1}};
static const struct sw_model_route endpoint_routes[] = {
    {.name = L("httproute/shop/e/rule/0/match/0"), .match = PREFIX("/"), TO(to_all)}};

static void make_endpoints(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    add_http(&r, endpoint_routes, N(endpoint_routes));
    add_set(&r, "shop/web/80", zones, N(zones));
    add_set(&r, "shop/api/8080", NULL, 0);
    add_set(&r, "shop/chat/80", leaving, N(leaving));
    finish(&r, m, ep);
}

/* Backends that are host names; with conf.clients_resolve as before. */
static const struct sw_model_san outside_san[] = {
    {.kind = SW_MODEL_SAN_DNS, .value = L("origin.test")}};
static const struct sw_model_backend_tls outside_tls = {
    .sni = L("origin.test"), .sans = outside_san, .n_sans = 1};
static const struct sw_model_cluster outside = {.name = L("dns/origin.test/443/eeff"),
                                                .endpoints = L("resolved/tcp/origin.test/443"),
                                                .tls = &outside_tls,
                                                .dns_host = L("origin.test"),
                                                .dns_port = 443};
static const struct sw_model_backend to_outside[] = {{.cluster = &outside, .weight = 1}};
static const struct sw_model_route names_routes[] = {
    {.name = L("httproute/shop/out"), .match = PREFIX("/"), TO(to_outside)}};
HTTP_CASE(make_names, names_routes)

static void make_nothing(struct sw_arena *a, struct sw_model *m, struct sw_endpoint_model *ep)
{
    struct rig r = {.a = a};

    finish(&r, m, ep);
}

const struct xds_case xds_cases[] = {
    {.name = "matches", .make = make_matches},
    {.name = "grpc", .make = make_grpc},
    {.name = "shares", .make = make_shares},
    {.name = "redirects", .make = make_redirects},
    {.name = "rewrites", .make = make_rewrites},
    {.name = "headers", .make = make_headers},
    {.name = "mirrors", .make = make_mirrors},
    {.name = "cors", .make = make_cors},
    {.name = "auth", .make = make_auth},
    {.name = "times", .make = make_times},
    {.name = "sessions", .make = make_sessions},
    {.name = "https", .make = make_https},
    {.name = "backend-tls", .make = make_backend_tls},
    {.name = "tls", .make = make_tls},
    {.name = "tcp", .make = make_tcp},
    {.name = "udp", .make = make_udp},
    {.name = "udp-tunnel", .make = make_udp_tunnel},
    {.name = "tunnel", .make = make_tunnel},
    {.name = "tunnel-socket",
     .make = make_tunnel,
     .conf = {.connect_proxy = L("/run/spanwire/connect.sock"), .connect_proxy_h2 = true}},
    {.name = "endpoints", .make = make_endpoints},
    {.name = "access-log", .make = make_headers, .conf = {.access_log = true}},
    {.name = "gzip", .make = make_headers, .conf = {.gzip = true}},
    {.name = "names", .make = make_names},
    {.name = "names-unchecked", .make = make_names, .conf = {.clients_resolve = true}},
    {.name = "nothing", .make = make_nothing},
};
const size_t n_xds_cases = N(xds_cases);

/* Sets of host names come from lookups. */
static struct sw_model_resource resolved(struct sw_arena *a, const struct sw_model *m,
                                         const struct sw_model_resource *r)
{
    static const struct sw_ip ips[] = {{4, {203, 0, 113, 7}}, {4, {203, 0, 113, 8}}};

    for (size_t i = 0; i < m->n_clusters; i++) {
        const struct sw_model_cluster *c = m->clusters[i];

        if (c->dns_host.n && sw_slice_eq(c->endpoints, r->name))
            return sw_model_xds_encode_resolved(
                a, &(struct sw_resolved){c->endpoints, c->dns_host, c->dns_port, ips, N(ips)});
    }
    return *r;
}

void xds_case_encode(const struct xds_case *c, struct sw_arena *a, struct sw_model_resources *ret)
{
    struct sw_model m = {0};
    struct sw_endpoint_model ep = {0};
    struct sw_model_resources most;
    struct sw_model_resources eds;
    struct sw_model_resource *all;

    c->make(a, &m, &ep);
    sw_model_xds_encode(&m, &c->conf, a, &most);
    sw_model_xds_encode_endpoints(&m, &ep, a, &eds);
    all = sw_arena_array(a, most.n + eds.n + 1, sizeof(*all));
    if (most.n)
        memcpy(all, most.p, most.n * sizeof(*all));
    for (size_t i = 0; i < eds.n; i++)
        all[most.n + i] = resolved(a, &m, &eds.p[i]);
    *ret = (struct sw_model_resources){.p = all, .n = most.n + eds.n};
}
