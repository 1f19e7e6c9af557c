/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that are no resources: health, version, keys, the index. */
#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/docs/docs.h"
#include "apiserver/health.h"
#include "apiserver/pages.h"
#include "base/search.h"
#include "base/time.h"
#include "tls/crypto/jws.h"

static const uint64_t store_stuck_ns = 10 * SW_NS_PER_S;

static void version(struct api_req *r)
{
    static const struct sw_json_field pairs[] = {
        {"major", .str = "1"},
        {"minor", .str = "33"},
        {"gitVersion", .str = "v1.33.0+spanwire-" SW_VERSION},
        {"gitCommit", .str = ""},
        {"gitTreeState", .str = "clean"},
        {"buildDate", .str = "1970-01-01T00:00:00Z"},
        {"goVersion", .str = "none"},
        {"compiler", .str = "cc"},
        {"platform", .str = "linux/amd64"},
    };
    r->out.pretty = true;
    api_reply(r, 200, sw_json_of(r->arena, pairs, SW_ARRAY_LEN(pairs)));
}

static bool excluded(const struct api_req *r, const char *name)
{
    for (size_t i = 0; i < r->query.n; i++) {
        if (sw_slice_eq_str(r->query.params[i].name, "exclude") &&
            sw_slice_eq_str(r->query.params[i].value, name))
            return true;
    }
    return false;
}

/*
 * Writes wait and none gets done: the disk hangs. A full disk is another thing: writes are answered
 * then, and reads are as good as ever.
 */
static const char *store_amiss(struct sw_api *api)
{
    struct sw_store_stats st;
    uint64_t now = sw_now_ns();
    uint64_t done;

    sw_store_stats(api->store, &st);
    done = st.writes + st.failed;
    if (api->writes == 0 || done != api->health.done || !api->health.done_ns) {
        api->health.done = done;
        api->health.done_ns = now;
    }
    return now - api->health.done_ns > store_stuck_ns ? "writes wait for the disk" : NULL;
}

static const char *bootstrap_amiss(struct sw_api *api)
{
    return api->phase.ready ? NULL : "the first objects are still being written";
}

static const char *shutdown_amiss(struct sw_api *api)
{
    return api->phase.stopping ? "process is shutting down" : NULL;
}

static const char *nothing_amiss(struct sw_api *api)
{
    return NULL;
}

static const struct check {
    const char *name;
    const char *(*amiss)(struct sw_api *api); /* why it fails; NULL: it does not */
    bool ready_only;
} checks[] = {
    {"ping", nothing_amiss, false},     {"log", nothing_amiss, false},
    {"store", store_amiss, true},       {"bootstrap", bootstrap_amiss, true},
    {"shutdown", shutdown_amiss, true},
};

static bool asked(const struct check *c, const char *kind)
{
    return !c->ready_only || strcmp(kind, "readyz") == 0;
}

/* "/livez/ping" */
static void one_check(struct api_req *r, const char *kind)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(checks); i++) {
        const char *why;

        if (!asked(&checks[i], kind) || !sw_slice_eq_str(r->path_segments.rest[1], checks[i].name))
            continue;
        why = checks[i].amiss(r->api);
        if (why)
            api_reply_text(
                r, 500,
                sw_slice_str(sw_arena_printf(r->arena, "internal server error: %s\n", why)));
        else
            api_reply_text(r, 200, SW_SLICE_LIT("ok"));
        return;
    }
    api_no_such_resource(r);
}

/* Names in "exclude" that are no checks: a typo there should not go unseen. */
static const char *strange_exclusions(const struct api_req *r, const char *kind)
{
    struct sw_texts strange = {.arena = r->arena};

    for (size_t i = 0; i < r->query.n; i++) {
        bool known = false;

        if (!sw_slice_eq_str(r->query.params[i].name, "exclude"))
            continue;
        for (size_t k = 0; k < SW_ARRAY_LEN(checks); k++)
            known = known || (asked(&checks[k], kind) &&
                              sw_slice_eq_str(r->query.params[i].value, checks[k].name));
        if (!known)
            sw_texts_add(&strange, sw_go_quote(r->arena, r->query.params[i].value));
    }
    return sw_texts_join(&strange);
}

static void health(struct api_req *r, const char *kind)
{
    SW_BUF_AUTO b = {.max = 8192};
    const char *strange = strange_exclusions(r, kind);
    bool all = true;
    int rc = SW_OK;

    for (size_t i = 0; i < SW_ARRAY_LEN(checks) && rc == SW_OK; i++) {
        const struct check *c = &checks[i];
        bool ok;

        if (!asked(c, kind))
            continue;
        if (excluded(r, c->name)) {
            rc = sw_buf_printf(&b, "[+]%s excluded: ok\n", c->name);
            continue;
        }
        ok = c->amiss(r->api) == NULL;
        all = all && ok;
        rc = sw_buf_printf(&b, ok ? "[+]%s ok\n" : "[-]%s failed: reason withheld\n", c->name);
    }
    if (rc == SW_OK && *strange)
        rc = sw_buf_printf(&b, "warn: some health checks cannot be excluded: no matches for %s\n",
                           strange);
    if (all && !sw_query_get(&r->query, "verbose")) {
        api_reply_text(r, 200, SW_SLICE_LIT("ok"));
        return;
    }
    if (rc == SW_OK)
        (void)!sw_buf_printf(&b, all ? "%s check passed\n" : "%s check failed\n", kind);
    api_reply_text(r, all ? 200 : 500, sw_buf_slice(&b));
}

static void openid(struct api_req *r)
{
    struct sw_buf out = {.max = 8192};
    int rc;

    if (sw_slice_eq_str(r->path, "/openid/v1/jwks")) {
        rc = sw_buf_printf(&out, "{\"keys\":[%.*s]}", SW_SLICE_ARG(sw_jws_jwk(r->api->token_key)));
        (void)rc;
        api_reply_buf(r, 200, "application/jwk-set+json", &out);
        return;
    }
    rc = sw_buf_printf(&out,
                       "{\"issuer\":\"%s\",\"jwks_uri\":\"https://%s/openid/v1/jwks\","
                       "\"response_types_supported\":[\"id_token\"],\"subject_types_supported\":"
                       "[\"public\"],\"id_token_signing_alg_values_supported\":[\"ES256\"]}",
                       r->api->issuer, r->api->advertise);
    (void)rc;
    api_reply_buf(r, 200, "application/json", &out);
}

static void add_path(const struct api_res *res, void *arg)
{
    struct api_req *r = arg;
    struct sw_json *paths = (struct sw_json *)r->own.done_arg;
    const char *p =
        *res->group ? sw_arena_printf(r->arena, "/apis/%s", res->api_version) : "/api/v1";

    if (sw_json_len(paths) && sw_json_str_eq(sw_json_at(paths, sw_json_len(paths) - 1), p))
        return;
    if (*res->group) {
        const char *g = sw_arena_printf(r->arena, "/apis/%s", res->group);
        struct sw_slice last = sw_json_str(sw_json_at(paths, sw_json_len(paths) - 1));

        if (!(sw_slice_has_prefix(last, sw_slice_str(g)) &&
              (last.n == strlen(g) || last.p[strlen(g)] == '/')))
            sw_json_push(r->arena, paths, sw_json_new_str(r->arena, g));
    }
    sw_json_push(r->arena, paths, sw_json_new_str(r->arena, p));
}

static void root(struct api_req *r)
{
    static const char *const more[] = {
        "/healthz",        "/livez",  "/openapi/v2", "/openapi/v3",
        "/openid/v1/jwks", "/readyz", "/version",    "/.well-known/openid-configuration"};
    struct sw_arena *a = r->arena;
    struct sw_json *paths = sw_json_new_list(a, sw_json_new_str(a, "/api"));

    sw_json_push(a, paths, sw_json_new_str(a, "/apis"));
    r->own.done_arg = paths;
    api_registry_each(&r->api->reg, add_path, r);
    r->own.done_arg = NULL;
    for (size_t i = 0; i < SW_ARRAY_LEN(more); i++)
        sw_json_push(a, paths, sw_json_new_str(a, more[i]));
    r->out.pretty = true;
    api_reply(r, 200, SW_JSON_OF(a, {"paths", .json = paths}));
}

void api_non_resource(struct api_req *r)
{
    static const char *const healths[] = {"healthz", "livez", "readyz"};
    static const char *const read_only[] = {"api", "apis", "version", "openapi", NULL};

    for (size_t i = 0; r->path_segments.n && i < SW_ARRAY_LEN(healths); i++) {
        if (!sw_slice_eq_str(r->path_segments.rest[0], healths[i]) || r->path_segments.n > 2)
            continue;
        if (r->path_segments.n == 2)
            one_check(r, healths[i]);
        else
            health(r, healths[i]);
        return;
    }
    if (!sw_slice_eq_str(r->method, "GET") && !sw_slice_eq_str(r->method, "HEAD")) {
        if (r->path_segments.n && sw_word_in(r->path_segments.rest[0], read_only))
            api_not_allowed(r);
        else
            api_no_such_resource(r);
        return;
    }
    if (r->path_segments.n == 0) {
        root(r);
        return;
    }
    if (sw_slice_eq_str(r->path_segments.rest[0], "version") && r->path_segments.n == 1)
        version(r);
    else if (sw_slice_eq_str(r->path_segments.rest[0], "api") ||
             sw_slice_eq_str(r->path_segments.rest[0], "apis"))
        api_discovery(r);
    else if (sw_slice_eq_str(r->path_segments.rest[0], "openapi"))
        api_openapi(r);
    else if (sw_slice_eq_str(r->path, "/openid/v1/jwks") ||
             sw_slice_eq_str(r->path, "/.well-known/openid-configuration"))
        openid(r);
    else if (!api_embedded_page(r))
        api_no_such_resource(r);
}
