/* SPDX-License-Identifier: Apache-2.0 */
/* The scale subresource: one number of the object, in a shape all clients know. */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/body.h"
#include "apiserver/verbs/verbs_int.h"
#include "base/json/patch.h"
#include "kube/apply/managed.h"
#include "kube/select/selector.h"

struct sw_json *api_at_path(const struct sw_json *obj, const char *path)
{
    struct sw_slice rest = sw_slice_str(path);
    const struct sw_json *v = obj;

    if (rest.n && rest.p[0] == '.')
        rest = sw_slice_from(rest, 1);
    while (rest.p && v)
        v = sw_json_get(v, sw_slice_cut(&rest, '.'));
    return (struct sw_json *)(uintptr_t)v;
}

static void set_path(struct sw_arena *a, struct sw_json *obj, const char *path,
                     struct sw_json *value)
{
    struct sw_slice rest = sw_slice_str(path);
    struct sw_json *v = obj;

    if (rest.n && rest.p[0] == '.')
        rest = sw_slice_from(rest, 1);
    for (;;) {
        struct sw_slice part = sw_slice_cut(&rest, '.');
        struct sw_json *next;

        if (!rest.p) {
            sw_json_set(a, v, part, value);
            return;
        }
        next = sw_json_get(v, part);
        if (!sw_json_is(next, SW_JSON_OBJECT)) {
            next = sw_json_new_object(a);
            sw_json_set(a, v, part, next);
        }
        v = next;
    }
}

/* Plain labels in the form of a LabelSelector. */
static struct sw_json *labels_selector(struct sw_arena *a, const struct sw_json *labels)
{
    bool some = sw_json_is(labels, SW_JSON_OBJECT);

    return SW_JSON_OF(a, {"matchLabels", .json = some ? sw_json_copy(a, labels) : NULL});
}

static struct sw_json *selector_text(struct sw_arena *a, const struct api_res *res,
                                     const struct sw_json *obj)
{
    const struct sw_json *sel = res->scale_selector ? api_at_path(obj, res->scale_selector) : NULL;
    struct sw_label_selector parsed;
    const char *why;

    if (sel && res->builtin && strcmp(res->kind, "ReplicationController") == 0)
        sel = labels_selector(a, sel);
    if (sw_json_is(sel, SW_JSON_STRING) && sel->text.n)
        return sw_json_copy(a, sel);
    if (sw_json_is(sel, SW_JSON_OBJECT) &&
        sw_label_selector_from_json(a, sel, &parsed, &why) == SW_OK)
        return sw_json_new_str(a, sw_label_selector_text(a, &parsed));
    return NULL;
}

static struct sw_json *to_scale(struct api_req *r, const struct sw_json *obj)
{
    static const char *const keep[] = {"name", "namespace", "uid", "resourceVersion",
                                       "creationTimestamp"};
    struct sw_arena *a = r->arena;
    struct sw_json *meta = sw_json_new_object(a);
    const struct sw_json *n = api_at_path(obj, r->res->scale_spec);
    const struct sw_json *have = api_at_path(obj, r->res->scale_status);
    struct sw_json *spec = SW_JSON_OF(a, {"replicas", .json = n ? sw_json_copy(a, n) : NULL});
    struct sw_json *status =
        SW_JSON_OF(a, {"replicas", .json = have ? sw_json_copy(a, have) : sw_json_new_i64(a, 0)},
                   {"selector", .json = selector_text(a, r->res, obj)});

    for (size_t i = 0; i < SW_ARRAY_LEN(keep); i++) {
        struct sw_json *v = sw_json_walk(obj, "metadata", keep[i], NULL);

        if (v)
            sw_json_put(a, meta, keep[i], v);
    }
    return SW_JSON_OF(a, {"kind", .str = "Scale"}, {"apiVersion", .str = "autoscaling/v1"},
                      {"metadata", .json = meta}, {"spec", .json = spec},
                      {"status", .json = status});
}

struct scaling {
    struct api_write w;
    struct sw_json *body;
    enum api_patch_kind kind;
    bool put;
};

static void on_committed(struct api_write *w, uint64_t revision)
{
    w->r->out.as = API_AS_OBJECT;
    api_reply(w->r, 200, to_scale(w->r, w->obj));
}

/* What the request makes of the scale; false: an error was sent. */
static bool wanted(struct scaling *s, struct sw_json *scale, struct sw_json **ret)
{
    struct api_req *r = s->w.r;

    if (!s->put &&
        !sw_json_walk(scale, "spec", "replicas", NULL)) /* patches see that it is unset */
        sw_json_put(r->arena, sw_json_find(scale, "spec"), "replicas",
                    sw_json_new_i64(r->arena, INT32_MIN));

    if (s->put) {
        *ret = s->body;
        return true;
    }
    if (s->kind == API_PATCH_JSON)
        return api_json_patched(r, scale, s->body, ret);
    *ret = sw_json_merge_patch(r->arena, scale, s->body);
    return true;
}

/* The requested number, as the Go type of it would take it; false: an error was sent. */
static bool read_replicas(struct scaling *s, const struct sw_json *want, int64_t *ret)
{
    struct api_req *r = s->w.r;
    const struct sw_json *n = sw_json_walk(want, "spec", "replicas", NULL);
    struct sw_fpath p = sw_fpath_str(NULL, "patch");
    struct sw_field_errs e;
    const char *why;

    *ret = 0;
    if (!n || n->type == SW_JSON_NULL ||
        (sw_json_i64(n, ret) && *ret >= INT32_MIN && *ret <= INT32_MAX))
        return true;
    why = sw_arena_printf(r->arena,
                          "Scale in version \"v1\" cannot be handled as a Scale: json: cannot "
                          "unmarshal %s%.*s into Go struct field ScaleSpec.spec.replicas of type "
                          "int32",
                          n->type == SW_JSON_BOOL ? "bool" : sw_json_type_name(n->type),
                          n->type == SW_JSON_NUMBER ? (int)n->text.n : 0, n->text.p);
    if (s->put) {
        api_bad_request(r, "%s", why);
        return false;
    }
    sw_field_errs_init(&e, r->arena);
    sw_ferr_invalid_str(&e, &p, sw_json_text(r->arena, want, NULL), why);
    api_invalid_kind(r, "", "", sw_slice("", 0), &e);
    return false;
}

/* Apply of a Scale is apply of the one field of the object that it stands for. */
static bool build_apply(struct scaling *s, const struct sw_store_obj *cur)
{
    struct api_req *r = s->w.r;
    struct sw_arena *a = r->arena;
    struct sw_smd smd = api_smd(r);
    struct sw_json *meta =
        SW_JSON_OF(a, {"name", .text = r->name},
                   {"namespace", .some = r->res->namespaced ? r->ns : sw_slice("", 0)});
    struct sw_json *config = SW_JSON_OF(a, {"apiVersion", .str = r->res->api_version},
                                        {"kind", .str = r->res->kind}, {"metadata", .json = meta});
    struct sw_smd_result res;
    int64_t n;

    if (!read_replicas(s, s->body, &n))
        return false;
    set_path(a, config, r->res->scale_spec, sw_json_new_i64(a, n));
    res = sw_smd_apply(&smd, s->w.live, config, r->write.force);
    if (res.status != SW_SMD_OK) {
        api_apply_failed(r, &res);
        return false;
    }
    s->w.arg = s; /* ownership is settled */
    return api_prepare_update(&s->w, res.object, cur);
}

/* Fields a Scale does not have. */
static void note_unknown(struct api_req *r, const struct sw_json *want)
{
    struct sw_texts unknown = {.arena = r->arena};
    const char *why = "";

    if (r->write.validation == API_VALIDATE_IGNORE ||
        sw_builtin_decode(r->arena, sw_builtin_schema("Scale"), sw_json_copy(r->arena, want),
                          &unknown, &why) != SW_OK)
        return;
    for (size_t i = 0; i < unknown.n; i++)
        api_warn(r, "unknown field \"%s\"", unknown.p[i]);
}

static bool build(struct api_write *w, const struct sw_store_obj *cur)
{
    struct scaling *s = SW_CONTAINER_OF(w, struct scaling, w);
    struct api_req *r = w->r;
    struct sw_json *want = NULL;
    struct sw_json *obj;
    struct sw_slice rv;
    int64_t value;

    if (!cur) {
        api_not_found(r);
        return false;
    }
    w->live = api_load(r->arena, r->res, cur);
    if (!s->put && s->kind == API_PATCH_APPLY)
        return build_apply(s, cur);
    if (!wanted(s, to_scale(r, w->live), &want) || !read_replicas(s, want, &value))
        return false;
    if (!s->put && value == INT32_MIN) {
        api_bad_request(r, "the spec replicas field \"%s\" cannot be empty", r->res->scale_spec);
        return false;
    }
    note_unknown(r, want);
    obj = sw_json_copy(r->arena, w->live);
    set_path(r->arena, obj, r->res->scale_spec, sw_json_new_i64(r->arena, value));
    rv = api_meta_str(want, "resourceVersion");
    if (rv.n)
        sw_json_put_str(r->arena, api_meta(r->arena, obj), "resourceVersion", rv);
    return api_prepare_update(w, obj, cur);
}

/* The body of a PUT is a Scale of this name; false: an error was sent. */
static bool check_put(struct api_req *r, const struct sw_json *body)
{
    struct sw_slice kind = api_str(body, "kind");

    if (kind.n && !sw_slice_eq_str(kind, "Scale")) {
        api_bad_request(r,
                        "%.*s in version \"v1\" cannot be handled as a Scale: converting "
                        "(%.*s) to (v1.Scale): unknown conversion",
                        SW_SLICE_ARG(kind), SW_SLICE_ARG(kind));
        return false;
    }
    return api_check_name(r, body);
}

static void get_scale(struct api_req *r)
{
    const struct sw_json *obj;

    r->snap = sw_store_snapshot(r->api->store);
    obj = api_in_snap(r, r->res, r->ns, r->name);
    if (!obj) {
        api_not_found(r);
        return;
    }
    if (!api_at_path(obj, r->res->scale_spec)) {
        api_internal_error(r, sw_arena_printf(r->arena,
                                              "the spec replicas field \"%s\" does not exist",
                                              r->res->scale_spec));
        return;
    }
    api_reply(r, 200, to_scale(r, obj));
}

void api_scale(struct api_req *r)
{
    struct scaling *s = SW_ARENA_NEW(r->arena, struct scaling);
    struct sw_json_dups dups;

    if (r->verb == API_GET) {
        get_scale(r);
        return;
    }
    if (r->verb != API_UPDATE && r->verb != API_PATCH) {
        api_not_allowed(r);
        return;
    }
    s->put = r->verb == API_UPDATE;
    s->w = (struct api_write){
        .r = r, .build = build, .committed = on_committed, .view = to_scale, .retry = true};
    if (s->put) {
        if (!api_write_options(r, "UpdateOptions") || !api_decode_body(r, &s->body, &dups) ||
            !check_put(r, s->body))
            return;
    } else if (!api_patch_kind(r, &s->kind) || !api_patch_read(r, s->kind, &s->body, &dups) ||
               (s->kind == API_PATCH_APPLY && !api_need_manager(r))) {
        return;
    }
    api_write_run(&s->w);
}
