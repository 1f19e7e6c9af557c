/* SPDX-License-Identifier: Apache-2.0 */
/* Making what a server has from its first start, and bringing it up to date at later ones. */
#include <string.h>

#include "apiserver/boot/boot_int.h"
#include "base/log.h"
#include "kube/schema/bundled.h"

struct sw_json *boot_parse(struct sw_arena *a, const char *text)
{
    char *p = sw_arena_dup(a, sw_slice_str(text));
    struct sw_json *v = NULL;
    struct sw_err err = {0};

    for (char *c = p; *c; c++) {
        if (*c == '\'')
            *c = '"';
    }
    if (sw_json_parse(a, sw_slice_str(p), NULL, &v, &err) != SW_OK) {
        sw_log_error("api", "built-in object: %s", err.msg);
        return sw_json_new_object(a);
    }
    return v;
}

/* Words that spaces separate; NULL for NULL. */
static struct sw_json *words_json(struct sw_arena *a, const char *words)
{
    struct sw_slice rest = sw_slice_str(words);
    struct sw_json *list = words ? sw_json_new_array(a) : NULL;

    while (rest.n) {
        struct sw_slice word = sw_slice_cut(&rest, ' ');

        sw_json_push(a, list,
                     sw_json_new_string(a, sw_slice_eq_str(word, "-") ? sw_slice("", 0) : word));
    }
    return list;
}

struct sw_json *boot_rules(struct sw_arena *a, const struct boot_rule *r, size_t n)
{
    struct sw_json *out = sw_json_new_array(a);

    for (size_t i = 0; i < n; i++) {
        struct sw_json *v = SW_JSON_OF(a, {"apiGroups", .json = words_json(a, r[i].groups)},
                                       {"resources", .json = words_json(a, r[i].resources)},
                                       {"resourceNames", .json = words_json(a, r[i].names)},
                                       {"nonResourceURLs", .json = words_json(a, r[i].urls)},
                                       {"verbs", .json = words_json(a, r[i].verbs)});

        sw_json_push(a, out, v);
    }
    return out;
}

struct sw_json *boot_named(struct sw_arena *a, const char *name)
{
    return boot_parse(a, sw_arena_printf(a,
                                         "{'metadata':{'name':'%s','labels':{'kubernetes.io/"
                                         "bootstrapping':'rbac-defaults'}}}",
                                         name));
}

struct sw_json *boot_binding_json(struct sw_arena *a, const char *name, const char *kind,
                                  const char *role, const char *subjects)
{
    struct sw_json *obj = boot_named(a, name);
    struct sw_json *rest = boot_parse(
        a, sw_arena_printf(
               a, "[{'apiGroup':'rbac.authorization.k8s.io','kind':'%s','name':'%s'},[%s]]", kind,
               role, subjects));

    sw_json_put(a, obj, "roleRef", sw_json_at(rest, 0));
    sw_json_put(a, obj, "subjects", sw_json_at(rest, 1));
    return obj;
}

void boot_done(struct sw_api *api)
{
    if (--api->phase.starting > 0)
        return;
    api_accounts_issue(api);
    api->phase.ready = true;
}

static void on_made(struct api_req *r, int code, const struct sw_json *body)
{
    if (code >= 400 && code != 409)
        sw_log_warn("api", "cannot make the built-in object %s '%.*s': %.*s", r->res->plural,
                    SW_SLICE_ARG(api_meta_str(r->own.json, "name")),
                    SW_SLICE_ARG(api_str(body, "message")));
    if (sw_slice_eq_str(r->resource, "namespaces"))
        boot_namespace(r->api, api_meta_str(r->own.json, "name"));
    boot_done(r->api);
}

static const struct api_res *res_of(struct sw_api *api, const struct boot_place *at)
{
    return api_registry_v1(&api->reg, at->group, at->plural);
}

/* What is stored, copied into the arena; NULL: nothing. */
static struct sw_json *stored(struct sw_api *api, struct sw_arena *a, const struct boot_place *at,
                              struct sw_slice name)
{
    return api_stored(api, a, res_of(api, at), sw_slice_str(at->ns), name);
}

bool boot_make(struct sw_api *api, const struct boot_place *at, const char *name,
               const struct sw_json *obj)
{
    SW_ARENA_AUTO a = {0};
    const struct api_res *res = res_of(api, at);

    if (!res || stored(api, &a, at, sw_slice_str(name)))
        return res != NULL;
    api->phase.starting++;
    (void)api_internal(api,
                       &(struct api_internal_request){.verb = API_CREATE,
                                                      .res = res,
                                                      .ns = sw_slice_str(at->ns),
                                                      .name = sw_slice("", 0),
                                                      .body = obj},
                       on_made, NULL);
    return false;
}

static void on_updated(struct api_req *r, int code, const struct sw_json *body)
{
    if (code >= 400)
        sw_log_warn("api", "cannot update the built-in object %s '%.*s': %.*s", r->res->plural,
                    SW_SLICE_ARG(r->name), SW_SLICE_ARG(api_str(body, "message")));
    boot_done(r->api);
}

/* Takes effect before the first request is served. */
static void change(struct sw_api *api, const struct boot_place *at, struct sw_slice name,
                   const struct sw_json *patch)
{
    api->phase.starting++;
    sw_log_info("api", "updating the built-in object %s '%.*s'", at->plural, SW_SLICE_ARG(name));
    (void)api_internal(api,
                       &(struct api_internal_request){.verb = API_PATCH,
                                                      .res = res_of(api, at),
                                                      .ns = sw_slice_str(at->ns),
                                                      .name = name,
                                                      .body = patch},
                       on_updated, NULL);
}

static void put_notes(struct sw_arena *a, struct sw_json *obj, const struct sw_json *rules)
{
    struct sw_slice note = rules ? sw_bundled_note(a, rules) : sw_slice(NULL, 0);

    sw_json_put(
        a, api_meta(a, obj), "annotations",
        SW_JSON_OF(a, {SW_BUNDLED_AUTOUPDATE, .str = "true"}, {SW_BUNDLED_RULES, .text = note}));
}

static void update_rules(struct sw_api *api, const struct boot_place *at, struct sw_slice name,
                         const struct sw_json *bundled, const struct sw_json *before)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *have = stored(api, &a, at, name);
    struct sw_json *patch = sw_json_new_object(&a);
    struct sw_json *rules;

    if (!have || sw_bundled_hands_off(have))
        return;
    rules = sw_bundled_rules(&a, have, bundled, before);
    if (sw_bundled_current(&a, have, rules, bundled))
        return;
    put_notes(&a, patch, bundled);
    sw_json_put(&a, patch, "rules", rules);
    change(api, at, name, patch);
}

void boot_role(struct sw_api *api, const struct boot_place *at, struct sw_json *obj,
               const struct sw_json *before)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice name = api_meta_str(obj, "name");
    const struct sw_json *rules = sw_json_find(obj, "rules");
    bool aggregated = sw_json_find(obj, "aggregationRule") != NULL;

    put_notes(&a, obj, aggregated ? NULL : rules);
    if (boot_make(api, at, sw_arena_dup(&a, name), obj) && !aggregated)
        update_rules(api, at, name, rules, before);
}

static bool has_subject(const struct sw_json *list, const struct sw_json *want)
{
    static const char *const keys[] = {"kind", "name", "namespace"};

    SW_JSON_ITEMS (s, list) {
        bool same = true;

        for (size_t k = 0; k < SW_ARRAY_LEN(keys) && same; k++)
            same = sw_slice_eq(api_str(s, keys[k]), api_str(want, keys[k]));
        if (same)
            return true;
    }
    return false;
}

void boot_binding(struct sw_api *api, const struct boot_place *at, struct sw_json *obj)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice name = api_meta_str(obj, "name");
    const struct sw_json *want = sw_json_find(obj, "subjects");
    struct sw_json *all = sw_json_new_array(&a);
    const struct sw_json *have;
    bool lacks = false;

    put_notes(&a, obj, NULL);
    if (!boot_make(api, at, sw_arena_dup(&a, name), obj))
        return;
    have = stored(api, &a, at, name);
    if (!have || sw_bundled_hands_off(have))
        return;
    SW_JSON_ITEMS (it, sw_json_find(have, "subjects"))
        sw_json_push(&a, all, it);
    SW_JSON_ITEMS (it, want) {
        if (has_subject(all, it))
            continue;
        sw_json_push(&a, all, sw_json_copy(&a, it));
        lacks = true;
    }
    if (lacks)
        change(api, at, name, SW_JSON_OF(&a, {"subjects", .json = all}));
}
