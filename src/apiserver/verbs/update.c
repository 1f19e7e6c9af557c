/* SPDX-License-Identifier: Apache-2.0 */
/* PUT, and what patches share with it: from a changed object to what is stored. */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/body.h"
#include "apiserver/api/work.h"
#include "apiserver/auth/auth.h"
#include "apiserver/verbs/verbs_int.h"
#include "kube/apply/managed.h"
#include "kube/apply/smd.h"
#include "kube/at.h"

/* Takes a member over from another object (or removes it). */
static void keep(struct sw_arena *a, struct sw_json *obj, const struct sw_json *old,
                 const char *key)
{
    struct sw_json *v = sw_json_find(old, key);

    if (v)
        sw_json_put(a, obj, key, v);
    else
        (void)sw_json_remove(obj, sw_slice_str(key));
}

/*
 * Labels, annotations, finalizers and owners that /status may change too, as kube-apiserver's does
 * for built-in kinds with few exceptions: node agents annotate pods by it, whose right it is.
 */
static void take_open_meta(struct api_req *r, const struct sw_json *obj, struct sw_json *to)
{
    static const char *const open[] = {"labels", "annotations", "finalizers", "ownerReferences"};
    const struct api_res *res = r->res;

    if (!res->builtin || api_is_crd_kind(res) ||
        strcmp(res->group, "admissionregistration.k8s.io") == 0)
        return;
    for (size_t i = 0; i < SW_ARRAY_LEN(open); i++) {
        bool pod = strcmp(res->plural, "pods") == 0 && strcmp(open[i], "ownerReferences") == 0;
        bool deployment = strcmp(res->plural, "deployments") == 0 && strcmp(open[i], "labels") == 0;

        if (!pod && !deployment)
            keep(r->arena, api_meta(r->arena, to), sw_json_find(obj, "metadata"), open[i]);
    }
}

/*
 * /status takes status and ownership, and of built-in kinds some metadata; the main door keeps the
 * stored status.
 */
static void split_doors(struct api_req *r, struct sw_json *obj, const struct sw_json *old)
{
    struct sw_arena *a = r->arena;

    if (sw_slice_eq_str(r->sub, "status")) {
        struct sw_json *mf = sw_json_walk(obj, "metadata", "managedFields", NULL);
        struct sw_json *rv = sw_json_walk(obj, "metadata", "resourceVersion", NULL);
        struct sw_json *copy = sw_json_copy(a, old);

        keep(a, copy, obj, "status");
        take_open_meta(r, obj, copy);
        if (mf)
            sw_json_put(a, api_meta(a, copy), "managedFields", mf);
        if (rv)
            sw_json_put(a, api_meta(a, copy), "resourceVersion", rv);
        *obj = *copy;
    } else if (sw_slice_eq_str(r->sub, "finalize")) {
        struct sw_json *copy = sw_json_copy(a, old);
        struct sw_json *spec = sw_json_find(copy, "spec");

        if (sw_json_is(spec, SW_JSON_OBJECT))
            keep(a, spec, sw_json_find(obj, "spec"), "finalizers");
        *obj = *copy;
    } else if (r->res->has_status) {
        keep(a, obj, old, "status");
        /* All there is in the spec of a namespace has a door of its own. */
        if (r->res->builtin && strcmp(r->res->plural, "namespaces") == 0)
            keep(a, obj, old, "spec");
    }
}

static bool content_changed(const struct api_res *res, const struct sw_json *obj,
                            const struct sw_json *old)
{
    const struct sw_json *pair[2] = {obj, old};

    for (int side = 0; side < 2; side++) {
        SW_JSON_MEMBERS (m, pair[side]) {
            if (sw_slice_eq_str(m->key, "metadata") || sw_slice_eq_str(m->key, "apiVersion") ||
                sw_slice_eq_str(m->key, "kind") ||
                (res->has_status && sw_slice_eq_str(m->key, "status")))
                continue;
            if (!sw_json_equal(m->value, sw_json_get(pair[1 - side], m->key), SW_JSON_EQ_VALUE))
                return true;
        }
    }
    return false;
}

static void settle_generation(struct api_req *r, struct sw_json *obj, const struct sw_json *old)
{
    struct sw_json *meta = api_meta(r->arena, obj);
    const struct sw_json *g = sw_json_walk(old, "metadata", "generation", NULL);
    int64_t n = 0;

    keep(r->arena, meta, sw_json_find(old, "metadata"), "generation");
    if (!api_keeps_generation(r->res) || (r->sub.n && !sw_slice_eq_str(r->sub, "scale")))
        return;
    if (!g || !sw_json_i64(g, &n))
        n = 0;
    if (content_changed(r->res, obj, old))
        sw_json_put(r->arena, meta, "generation", sw_json_new_i64(r->arena, n + 1));
}

/* A patch may not change these; false: 422 was sent. PUT has the uid as a precondition. */
static bool metadata_kept(struct api_req *r, const struct sw_json *obj, const struct sw_json *old)
{
    static const char *const fixed[] = {"uid", "deletionTimestamp", "deletionGracePeriodSeconds"};
    struct sw_fpath m = sw_fpath_str(NULL, "metadata");
    struct sw_field_errs e;

    sw_field_errs_init(&e, r->arena);
    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++) {
        const struct sw_json *now = sw_json_walk(obj, "metadata", fixed[i], NULL);
        const struct sw_json *was = sw_json_walk(old, "metadata", fixed[i], NULL);
        struct sw_fpath at = sw_fpath_str(&m, fixed[i]);
        bool unset = !now || now->type == SW_JSON_NULL ||
                     (now->type == SW_JSON_STRING && !sw_json_str(now).n);

        if (!unset && !sw_json_equal(now, was, SW_JSON_EQ_VALUE))
            sw_ferr_invalid(&e, &at, now, "field is immutable");
    }
    if (!e.n)
        return true;
    api_invalid(r, r->name, &e);
    return false;
}

static bool check_conditions(struct api_write *w, const struct sw_json *obj,
                             const struct sw_store_obj *cur)
{
    struct api_req *r = w->r;
    struct sw_slice rv = api_meta_str(obj, "resourceVersion");
    struct sw_slice uid = api_meta_str(obj, "uid");
    struct sw_slice live_uid = api_meta_str(w->live, "uid");
    struct sw_field_errs e;
    const struct sw_at *at = SW_IN(SW_WHOLE(obj, &e), "metadata.resourceVersion");
    uint64_t n = 0;

    sw_field_errs_init(&e, r->arena);
    if (r->verb != API_UPDATE && !metadata_kept(r, obj, w->live))
        return false;
    if (uid.n && !sw_slice_eq(uid, live_uid)) {
        api_conflict(r, sw_arena_printf(r->arena,
                                        "Precondition failed: UID in precondition: %.*s, UID in "
                                        "object meta: %.*s",
                                        SW_SLICE_ARG(uid), SW_SLICE_ARG(live_uid)));
        return false;
    }
    if (rv.n && !sw_slice_to_u64(rv, INT64_MAX, &n)) {
        sw_at_invalid_text(
            at, sw_arena_printf(r->arena, "strconv.ParseUint: parsing \"%.*s\": invalid syntax",
                                SW_SLICE_ARG(rv)));
        api_invalid(r, r->name, &e);
        return false;
    }
    if (n && n != cur->revision) {
        api_conflict(r, "the object has been modified; please apply your changes to the latest "
                        "version and try again");
        return false;
    }
    if (!n && (r->verb == API_UPDATE || r->verb == API_PATCH) && r->x &&
        !sw_slice_eq_str(r->sub, "scale") && !(r->res->flags & SW_B_UNCONDITIONAL)) {
        sw_ferr(&e, SW_CAUSE_INVALID, &at->path,
                "Invalid value: 0x0: must be specified for an update");
        api_invalid(r, r->name, &e);
        return false;
    }
    return true;
}

static bool finalizers_left(const struct api_res *res, const struct sw_json *obj)
{
    if (sw_json_len(sw_json_walk(obj, "metadata", "finalizers", NULL)))
        return true;
    return res->builtin && strcmp(res->plural, "namespaces") == 0 &&
           sw_json_len(sw_json_walk(obj, "spec", "finalizers", NULL)) > 0;
}

/* What follows when webhooks had their say. */
static bool finish_update(struct api_write *w, struct sw_json *obj)
{
    struct api_req *r = w->r;
    struct sw_arena *a = r->arena;
    bool same;

    if (api_is_crd_kind(r->res))
        api_crd_settle(r, obj, w->live);
    settle_generation(r, obj, w->live);
    if (!api_service_settle(w, obj, w->live))
        return false;
    if (!api_validate(r, obj, w->live))
        return false;
    if (r->x && strcmp(r->res->group, "rbac.authorization.k8s.io") == 0 &&
        !api_escalation_ok(r, obj, w->live))
        return false;
    w->code = 200;
    api_off_loop();
    same = sw_smd_equal_but_times(a, obj, w->live);
    api_on_loop();
    /* An object that only waits for its finalizers may have lost the last one before. */
    w->remove = api_is_going(obj) && !finalizers_left(r->res, obj);
    w->noop = same && !w->remove;
    w->obj = w->noop ? w->live : obj;
    return true;
}

bool api_prepare_update(struct api_write *w, struct sw_json *obj, const struct sw_store_obj *cur)
{
    static const char *const kept[] = {"uid",
                                       "creationTimestamp",
                                       "deletionTimestamp",
                                       "deletionGracePeriodSeconds",
                                       "resourceVersion",
                                       "name",
                                       "namespace"};
    struct api_req *r = w->r;
    struct sw_arena *a = r->arena;
    const struct sw_json *old_meta = sw_json_find(w->live, "metadata");
    struct sw_smd smd = api_smd(r);
    bool applied = w->arg != NULL; /* ownership is settled already */
    struct sw_json *meta;

    if (!check_conditions(w, obj, cur))
        return false;
    api_off_loop();
    split_doors(r, obj, w->live);
    meta = api_meta(a, obj);
    for (size_t i = 0; i < SW_ARRAY_LEN(kept); i++)
        keep(a, meta, old_meta, kept[i]);
    (void)sw_json_remove(meta, SW_SLICE_LIT("selfLink"));
    if (!applied)
        sw_smd_update(&smd, w->live, obj);
    api_on_loop();
    if (api_work_ended(r))
        return false;
    return api_write_prepared(w, obj, finish_update);
}

struct update {
    struct api_write w;
    struct sw_json *obj;
};

static bool build_update(struct api_write *w, const struct sw_store_obj *cur)
{
    struct update *u = SW_CONTAINER_OF(w, struct update, w);
    struct api_req *r = w->r;
    struct sw_json *obj;

    api_off_loop();
    obj = sw_json_copy(r->arena, u->obj);
    w->live = cur ? api_load(r->arena, r->res, cur) : NULL;
    api_on_loop();
    if (!cur) {
        if (!(r->res->flags & SW_B_CREATE_ON_UPDATE) || r->sub.n) {
            api_not_found(r);
            return false;
        }
        if (api_meta_str(obj, "uid").n) {
            api_conflict(r,
                         sw_arena_printf(
                             r->arena,
                             "Precondition failed: UID in precondition: %.*s, UID in object meta: ",
                             SW_SLICE_ARG(api_meta_str(obj, "uid"))));
            return false;
        }
        if (!api_may_create(r))
            return false;
        api_wipe_for_create(r, obj);
        (void)sw_json_remove(api_meta(r->arena, obj), SW_SLICE_LIT("resourceVersion"));
        return api_prepare_create(w, obj);
    }
    return api_prepare_update(w, obj, cur);
}

void api_update(struct api_req *r)
{
    struct update *u = SW_ARENA_NEW(r->arena, struct update);
    struct sw_json_dups dups;
    struct sw_slice ns;

    u->w = (struct api_write){.r = r, .build = build_update};
    api_off_loop();
    if (!api_write_options(r, "UpdateOptions") || !api_decode_body(r, &u->obj, &dups) ||
        !api_admit_object(r, u->obj, &dups, false))
        return;
    ns = api_meta_str(u->obj, "namespace");
    if (!api_check_name(r, u->obj))
        return;
    if (r->res->namespaced && ns.n && !sw_slice_eq(ns, r->ns)) {
        api_bad_request(r,
                        "the namespace of the object (%.*s) does not match the namespace on the "
                        "request (%.*s)",
                        SW_SLICE_ARG(ns), SW_SLICE_ARG(r->ns));
        return;
    }
    if (r->res->namespaced)
        sw_json_put_str(r->arena, api_meta(r->arena, u->obj), "namespace", r->ns);
    api_on_loop();
    if (!api_work_ended(r))
        api_write_run(&u->w);
}
