/* SPDX-License-Identifier: Apache-2.0 */
/* The scale subresource of custom resources: one number of the object, in a shape all clients know.
 */
#include <string.h>

#include "apiserver/api.h"
#include "base/json_patch.h"

/* Value at a path like ".spec.replicas"; NULL when missing. */
static struct sw_json *at_path(const struct sw_json *obj, const char *path)
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

static struct sw_json *to_scale(struct api_req *r, const struct sw_json *obj)
{
    static const char *const keep[] = {"name", "namespace", "uid", "resourceVersion",
                                       "creationTimestamp"};
    struct sw_arena *a = r->arena;
    struct sw_json *s = sw_json_new_object(a);
    struct sw_json *meta = sw_json_new_object(a);
    struct sw_json *spec = sw_json_new_object(a);
    struct sw_json *status = sw_json_new_object(a);
    const struct sw_json *n = at_path(obj, r->res->scale_spec);
    const struct sw_json *have = at_path(obj, r->res->scale_status);

    for (size_t i = 0; i < SW_ARRAY_LEN(keep); i++) {
        struct sw_json *v = sw_json_walk(obj, "metadata", keep[i], NULL);

        if (v)
            sw_json_put(a, meta, keep[i], v);
    }
    sw_json_put(a, s, "kind", sw_json_new_str(a, "Scale"));
    sw_json_put(a, s, "apiVersion", sw_json_new_str(a, "autoscaling/v1"));
    sw_json_put(a, s, "metadata", meta);
    if (n)
        sw_json_put(a, spec, "replicas", sw_json_copy(a, n));
    sw_json_put(a, s, "spec", spec);
    sw_json_put(a, status, "replicas", have ? sw_json_copy(a, have) : sw_json_new_i64(a, 0));
    if (r->res->scale_selector) {
        const struct sw_json *sel = at_path(obj, r->res->scale_selector);

        if (sw_json_is(sel, SW_JSON_STRING) && sel->text.n)
            sw_json_put(a, status, "selector", sw_json_copy(a, sel));
    }
    sw_json_put(a, s, "status", status);
    return s;
}

struct scaling {
    struct api_write w;
    struct sw_json *body;
    bool json_patch;
    bool put;
};

static void on_committed(struct api_write *w, uint64_t revision)
{
    (void)revision;
    w->r->as = API_AS_OBJECT;
    api_reply(w->r, 200, to_scale(w->r, w->obj));
}

static bool build(struct api_write *w, const struct sw_store_obj *cur)
{
    struct scaling *s = SW_CONTAINER_OF(w, struct scaling, w);
    struct api_req *r = w->r;
    struct sw_json *scale;
    struct sw_json *want = NULL;
    struct sw_json *obj;
    struct sw_slice rv;
    const struct sw_json *n;
    int64_t value = 0;

    if (!cur) {
        api_not_found(r);
        return false;
    }
    w->live = api_load(r->arena, r->res, cur);
    scale = to_scale(r, w->live);
    if (s->put) {
        want = s->body;
    } else if (s->json_patch) {
        if (sw_json_patch(r->arena, scale, s->body, NULL, &want, NULL) != SW_OK) {
            api_fail_details(r, 422, "Invalid",
                             "the server rejected our request due to an error in our request",
                             sw_json_new_object(r->arena));
            return false;
        }
    } else {
        want = sw_json_merge_patch(r->arena, scale, s->body);
    }
    n = sw_json_walk(want, "spec", "replicas", NULL);
    if (n && (!sw_json_i64(n, &value) || value < 0)) {
        struct sw_field_errs e;
        struct sw_fpath sp = sw_fpath_str(NULL, "spec");
        struct sw_fpath p = sw_fpath_str(&sp, "replicas");

        sw_field_errs_init(&e, r->arena);
        sw_ferr_invalid(&e, &p, n, "must be greater than or equal to 0");
        api_invalid_kind(r, "Scale", "autoscaling", r->name, &e);
        return false;
    }
    obj = sw_json_copy(r->arena, w->live);
    set_path(r->arena, obj, r->res->scale_spec, sw_json_new_i64(r->arena, value));
    rv = api_meta_str(want, "resourceVersion");
    if (rv.n)
        sw_json_put_str(r->arena, api_meta(r->arena, obj), "resourceVersion", rv);
    r->sub = sw_slice("", 0); /* the object itself changes, its generation too */
    if (!api_prepare_update(w, obj, cur))
        return false;
    r->sub = SW_SLICE_LIT("scale");
    return true;
}

void api_scale(struct api_req *r)
{
    struct scaling *s = SW_ARENA_NEW(r->arena, struct scaling);
    struct sw_json_dups dups;

    if (r->verb == API_GET) {
        struct sw_store_obj *o;

        r->snap = sw_store_snapshot(r->api->store);
        o = sw_store_snap_get(r->snap, api_key(r->arena, r->res, r->ns, r->name));
        if (o)
            api_reply(r, 200, to_scale(r, api_load(r->arena, r->res, o)));
        else
            api_not_found(r);
        return;
    }
    if (r->verb != API_UPDATE && r->verb != API_PATCH) {
        api_fail_details(r, 405, "MethodNotAllowed",
                         "the server does not allow this method on the requested resource",
                         sw_json_new_object(r->arena));
        return;
    }
    s->put = r->verb == API_UPDATE;
    s->json_patch =
        sw_slice_has_prefix(r->content_type, SW_SLICE_LIT("application/json-patch+json"));
    if (!s->put)
        r->content_type = SW_SLICE_LIT("application/json");
    s->w = (struct api_write){.r = r, .build = build, .committed = on_committed, .retry = true};
    if (!api_write_options(r, "PatchOptions") || !api_decode_body(r, &s->body, &dups))
        return;
    api_write_run(&s->w);
}
