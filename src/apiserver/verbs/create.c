/* SPDX-License-Identifier: Apache-2.0 */
/* POST: a new object, from the body to what is stored. */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/body.h"
#include "apiserver/api/work.h"
#include "apiserver/auth/auth.h"
#include "apiserver/verbs/verbs_int.h"
#include "base/rand.h"
#include "kube/apply/managed.h"
#include "kube/apply/smd.h"
#include "kube/at.h"

static bool namespace_ok(struct api_req *r, struct sw_slice name)
{
    const struct api_res *nsres = api_registry_core(&r->api->reg, "namespaces");
    struct sw_arena *a = r->arena;
    const struct sw_json *ns;
    struct sw_json *cause;
    const char *why;

    if (!r->res->namespaced)
        return true;
    ns = api_in_snap(r, nsres, sw_slice("", 0), r->ns);
    if (!ns) {
        r->res = nsres;
        r->crd = api_crd_unref(r->crd);
        r->name = r->ns;
        api_not_found(r);
        return false;
    }
    if (!api_is_going(ns))
        return true;
    why = sw_arena_printf(a, "namespace %.*s is being terminated", SW_SLICE_ARG(r->ns));
    cause = SW_JSON_OF(a, {"reason", .str = "NamespaceTerminating"}, {"message", .str = why},
                       {"field", .str = "metadata.namespace"});
    api_fail_details(
        r, 403, "Forbidden",
        sw_arena_printf(a,
                        "%s \"%.*s\" is forbidden: unable to create new content in namespace %.*s "
                        "because it is being terminated",
                        api_gr(a, r->res), SW_SLICE_ARG(name), SW_SLICE_ARG(r->ns)),
        SW_JSON_OF(a, {"name", .text = name}, {"group", .some = sw_slice_str(r->res->group)},
                   {"kind", .str = r->res->plural},
                   {"causes", .json = sw_json_new_list(a, cause)}));
    return false;
}

static bool filled(const struct sw_json_member *m, const void *arg)
{
    return m->value->type != SW_JSON_NULL &&
           (m->value->type != SW_JSON_STRING || sw_json_str(m->value).n > 0);
}

/* Fields that an event has by its defaults alone have no owner. */
static void track_create(struct api_req *r, struct sw_json *obj)
{
    struct sw_smd smd = api_smd(r);
    bool event = r->res->builtin && strcmp(r->res->kind, "Event") == 0;

    if (event)
        (void)sw_json_filter(obj, filled, NULL);
    sw_smd_update(&smd, NULL, obj);
    if (event)
        sw_builtin_default(r->arena, r->res->builtin, obj);
}

/* What follows when webhooks had their say. */
static bool finish_create(struct api_write *w, struct sw_json *obj)
{
    struct api_req *r = w->r;
    struct sw_arena *a = r->arena;

    if (api_is_crd_kind(r->res))
        api_crd_settle(r, obj, NULL);
    if (r->res->builtin)
        sw_builtin_admit_new(a, r->res->builtin, obj);
    api_ingress_settle(r, obj);
    if (!api_service_settle(w, obj, NULL))
        return false;
    if (!api_validate(r, obj, NULL))
        return false;
    if (r->x && strcmp(r->res->group, "rbac.authorization.k8s.io") == 0 &&
        !api_escalation_ok(r, obj, NULL))
        return false;
    w->obj = obj;
    w->code = 201;
    return true;
}

bool api_prepare_create(struct api_write *w, struct sw_json *obj)
{
    struct api_req *r = w->r;
    struct sw_arena *a = r->arena;
    struct sw_json *meta = api_meta(a, obj);

    if (!namespace_ok(r, api_str(meta, "name")))
        return false;
    sw_json_put_str(a, meta, "uid", sw_slice_str(api_uuid(a)));
    sw_json_put_str(a, meta, "creationTimestamp", sw_slice_str(api_now(a)));
    if (r->res->namespaced)
        sw_json_put_str(a, meta, "namespace", r->ns);
    if (api_keeps_generation(r->res))
        sw_json_put(a, meta, "generation", sw_json_new_i64(a, 1));
    api_off_loop();
    if (r->res->builtin && api_str(meta, "name").n)
        sw_builtin_default(a, r->res->builtin, obj); /* names made from generateName count too */
    if (!sw_json_find(meta, "managedFields") || r->verb == API_CREATE || r->verb == API_UPDATE)
        track_create(r, obj);
    api_on_loop();
    if (api_work_ended(r))
        return false;
    return api_write_prepared(w, obj, finish_create);
}

void api_wipe_for_create(struct api_req *r, struct sw_json *obj)
{
    static const char *const gone[] = {
        "uid",      "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
        "selfLink", "generation"};

    for (size_t i = 0; i < SW_ARRAY_LEN(gone); i++)
        (void)sw_json_remove(api_meta(r->arena, obj), sw_slice_str(gone[i]));
    if (r->res->has_status && (r->res->crd || api_is_crd_kind(r->res)))
        (void)sw_json_remove(obj, SW_SLICE_LIT("status"));
    /* Defaults of a schema reach into status as well. */
    if (r->res->crd)
        sw_schema_default(r->arena, obj, api_res_schema(r->res));
}

struct create {
    struct api_write w;
    struct sw_json *obj; /* as decoded */
    struct sw_slice generate;
};

bool api_may_create(struct api_req *r)
{
    struct api_attrs at = api_attrs_on(&r->user, "create", r->group, r->resource, r->ns, r->name);

    at.sub = r->sub;
    if (!r->x || api_allowed(r->api, r->arena, &at, NULL))
        return true;
    api_fail_res(r, 403, "Forbidden", r->name, "%s", api_denied_text(r->arena, &at, NULL));
    return false;
}

static const char *generated_name(struct sw_arena *a, struct sw_slice prefix);

void api_already_exists(struct api_write *w)
{
    struct create *c = SW_CONTAINER_OF(w, struct create, w);
    struct api_req *r = w->r;
    const struct sw_store_obj *cur = sw_store_snap_get(r->snap, w->key);
    const struct sw_json *old = cur ? api_load(r->arena, r->res, cur) : NULL;
    const char *pre = api_is_going(old) ? "object is being deleted: " : "";

    if (c->generate.n)
        api_fail_res(r, 409, "AlreadyExists", r->name,
                     "%s \"%.*s\" already exists, the server was not able to generate a unique "
                     "name for the object",
                     api_gr(r->arena, r->res), SW_SLICE_ARG(r->name));
    else
        api_fail_res(r, 409, "AlreadyExists", r->name, "%s%s \"%.*s\" already exists", pre,
                     api_gr(r->arena, r->res), SW_SLICE_ARG(r->name));
}

static bool build_create(struct api_write *w, const struct sw_store_obj *cur)
{
    struct create *c = SW_CONTAINER_OF(w, struct create, w);
    struct api_req *r = w->r;
    struct sw_json *obj;

    if (cur && c->generate.n && w->tries < 8) {
        r->name = sw_slice_str(generated_name(r->arena, c->generate));
        w->key = api_key(r->arena, r->res, r->ns, r->name);
        sw_json_put_str(r->arena, api_meta(r->arena, c->obj), "name", r->name);
        if (sw_store_snap_get(r->snap, w->key)) {
            w->tries++;
            return build_create(w, cur);
        }
        cur = NULL;
        w->expect = 0;
    }
    if (!namespace_ok(r, r->name))
        return false;
    api_off_loop();
    obj = sw_json_copy(r->arena, c->obj);
    api_on_loop();
    if (!api_prepare_create(w, obj))
        return false;
    w->exists = cur != NULL;
    return true;
}

static const char *generated_name(struct sw_arena *a, struct sw_slice prefix)
{
    static const char letters[] = "bcdfghjklmnpqrstvwxz2456789";
    char tail[6] = {0};

    for (int i = 0; i < 5; i++)
        tail[i] = letters[sw_rand_below(sizeof(letters) - 1)];
    return sw_arena_printf(a, "%.*s%s", SW_SLICE_ARG(sw_slice_head(prefix, 58)), tail);
}

/* Name, generateName and namespace of a new object. False: an error was sent. */
static bool settle_name(struct api_req *r, struct create *c)
{
    struct sw_json *meta = api_meta(r->arena, c->obj);
    struct sw_slice name = api_str(meta, "name");
    struct sw_slice ns = api_str(meta, "namespace");
    struct sw_field_errs e;

    if (!api_check_namespace(r, ns))
        return false;
    if (r->name.n && name.n && !sw_slice_eq(name, r->name)) {
        api_bad_request(r,
                        "the name of the object (%.*s) does not match the name on the URL (%.*s)",
                        SW_SLICE_ARG(name), SW_SLICE_ARG(r->name));
        return false;
    }
    if (!r->res->namespaced)
        (void)sw_json_remove(meta, SW_SLICE_LIT("namespace"));
    if (name.n == 0)
        c->generate = api_str(meta, "generateName");
    if (name.n == 0 && c->generate.n) {
        name = sw_slice_str(generated_name(r->arena, c->generate));
        sw_json_put_str(r->arena, meta, "name", name);
    }
    if (name.n == 0) {
        sw_field_errs_init(&e, r->arena);
        sw_at_required(SW_IN(SW_WHOLE(c->obj, &e), "metadata.name"),
                       "name or generateName is required");
        api_invalid(r, sw_slice("", 0), &e);
        return false;
    }
    r->name = name;
    return true;
}

void api_create(struct api_req *r)
{
    struct create *c = SW_ARENA_NEW(r->arena, struct create);
    bool terminating = r->res->crd && r->crd->terminating;
    struct sw_json_dups dups;

    c->w = (struct api_write){.r = r, .build = build_create};
    api_off_loop();
    if (!api_write_options(r, "CreateOptions") || !api_decode_body(r, &c->obj, &dups))
        return;
    if (terminating) {
        api_fail(r, 405, "MethodNotAllowed",
                 "create not allowed while custom resource definition is terminating");
        return;
    }
    if (!api_admit_object(r, c->obj, &dups, false))
        return;
    if (api_meta_str(c->obj, "resourceVersion").n) {
        api_bad_request(r, "resourceVersion should not be set on objects to be created");
        return;
    }
    api_wipe_for_create(r, c->obj);
    if (!settle_name(r, c))
        return;
    api_on_loop();
    if (api_work_ended(r))
        return;
    api_write_run(&c->w);
}
