/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that are no resources: health, version, keys, the index. */
#include <stdio.h>
#include <string.h>

#include "apiserver/api.h"
#include "tls/jws.h"

static void version(struct api_req *r)
{
    static const char *const pairs[][2] = {
        {"major", "1"},
        {"minor", "33"},
        {"gitVersion", "v1.33.0+spanwire-" SW_VERSION},
        {"gitCommit", ""},
        {"gitTreeState", "clean"},
        {"buildDate", "1970-01-01T00:00:00Z"},
        {"goVersion", "none"},
        {"compiler", "cc"},
        {"platform", "linux/amd64"},
    };
    struct sw_arena *a = r->arena;
    struct sw_json *v = sw_json_new_object(a);

    for (size_t i = 0; i < SW_ARRAY_LEN(pairs); i++)
        sw_json_put(a, v, pairs[i][0], sw_json_new_str(a, pairs[i][1]));
    r->pretty = true;
    api_reply(r, 200, v);
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

static void health(struct api_req *r, const char *kind)
{
    const struct {
        const char *name;
        bool ok;
    } checks[] = {{"ping", true},
                  {"log", true},
                  {"store", true},
                  {"bootstrap", strcmp(kind, "readyz") != 0 || r->api->ready},
                  {"shutdown", strcmp(kind, "readyz") != 0 || !r->api->stopping}};
    SW_BUF_AUTO b = {.max = 4096};
    bool all = true;
    int rc = SW_OK;

    for (size_t i = 0; i < SW_ARRAY_LEN(checks) && rc == SW_OK; i++) {
        if (r->nrest > 1 && !sw_slice_eq_str(r->rest[1], checks[i].name))
            continue;
        if (excluded(r, checks[i].name)) {
            rc = sw_buf_printf(&b, "[+]%s excluded: ok\n", checks[i].name);
            continue;
        }
        all = all && checks[i].ok;
        rc = sw_buf_printf(&b, checks[i].ok ? "[+]%s ok\n" : "[-]%s failed: reason withheld\n",
                           checks[i].name);
    }
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
    struct sw_json *paths = (struct sw_json *)r->done_arg;
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
    static const char *const more[] = {"/healthz",
                                       "/livez",
                                       "/openapi/v3",
                                       "/openid/v1/jwks",
                                       "/readyz",
                                       "/version",
                                       "/.well-known/openid-configuration"};
    struct sw_arena *a = r->arena;
    struct sw_json *v = sw_json_new_object(a);
    struct sw_json *paths = sw_json_new_array(a);

    sw_json_push(a, paths, sw_json_new_str(a, "/api"));
    sw_json_push(a, paths, sw_json_new_str(a, "/apis"));
    r->done_arg = paths;
    api_registry_each(&r->api->reg, add_path, r);
    r->done_arg = NULL;
    for (size_t i = 0; i < SW_ARRAY_LEN(more); i++)
        sw_json_push(a, paths, sw_json_new_str(a, more[i]));
    sw_json_put(a, v, "paths", paths);
    r->pretty = true;
    api_reply(r, 200, v);
}

void api_non_resource(struct api_req *r)
{
    static const char *const healths[] = {"healthz", "livez", "readyz"};

    if (!sw_slice_eq_str(r->method, "GET") && !sw_slice_eq_str(r->method, "HEAD")) {
        api_no_such_resource(r);
        return;
    }
    if (r->nrest == 0) {
        root(r);
        return;
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(healths); i++) {
        if (sw_slice_eq_str(r->rest[0], healths[i]) && r->nrest <= 2) {
            health(r, healths[i]);
            return;
        }
    }
    if (sw_slice_eq_str(r->rest[0], "version") && r->nrest == 1)
        version(r);
    else if (sw_slice_eq_str(r->rest[0], "api") || sw_slice_eq_str(r->rest[0], "apis"))
        api_discovery(r);
    else if (sw_slice_eq_str(r->rest[0], "openapi"))
        api_openapi(r);
    else if (sw_slice_eq_str(r->path, "/openid/v1/jwks") ||
             sw_slice_eq_str(r->path, "/.well-known/openid-configuration"))
        openid(r);
    else
        api_no_such_resource(r);
}
