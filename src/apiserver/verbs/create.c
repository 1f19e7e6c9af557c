/* SPDX-License-Identifier: Apache-2.0 */
/* POST: a new object, from the body to what is stored. */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/work.h"
#include "apiserver/auth/auth.h"
#include "apiserver/verbs/verbs_int.h"
#include "base/rand.h"
#include "kube/apply/managed.h"
#include "kube/apply/smd.h"

static bool namespace_ok(struct api_req *r, struct sw_slice name)
{
    const struct api_res *nsres = api_registry_core(&r->api->reg, "namespaces");
    struct sw_store_obj *o;
    struct sw_json *ns;
    struct sw_json *d;
    struct sw_json *causes;
    struct sw_json *c;
    struct sw_arena *a = r->arena;

    if (!r->res->namespaced)
        return true;
    o = sw_store_snap_get(r->snap, api_key(a, nsres, sw_slice("", 0), r->ns));
    if (!o) {
        r->res = nsres;
        r->crd = api_crd_unref(r->crd);
        r->name = r->ns;
        api_not_found(r);
        return false;
    }
    ns = api_load(a, nsres, o);
    if (!sw_json_walk(ns, "metadata", "deletionTimestamp", NULL))
        return true;
    d = sw_json_new_object(a);
    causes = sw_json_new_array(a);
    c = sw_json_new_object(a);
    sw_json_put_str(a, d, "name", name);
    if (*r->res->group)
        sw_json_put_str(a, d, "group", sw_slice_str(r->res->group));
    sw_json_put_str(a, d, "kind", sw_slice_str(r->res->plural));
    sw_json_put_str(a, c, "reason", SW_SLICE_LIT("NamespaceTerminating"));
    sw_json_put_str(a, c, "message",
                    sw_slice_str(sw_arena_printf(a, "namespace %.*s is being terminated",
                                                 SW_SLICE_ARG(r->ns))));
    sw_json_put_str(a, c, "field", SW_SLICE_LIT("metadata.namespace"));
    sw_json_push(a, causes, c);
    sw_json_put(a, d, "causes", causes);
    api_fail_details(r, 403, "Forbidden",
                     sw_arena_printf(a,
                                     "%s \"%.*s\" is forbidden: unable to create new content in "
                                     "namespace %.*s because it is being terminated",
                                     api_gr(a, r->res), SW_SLICE_ARG(name), SW_SLICE_ARG(r->ns)),
                     d);
    return false;
}

static void wipe_system_fields(struct sw_json *meta)
{
    static const char *const gone[] = {
        "uid",      "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
        "selfLink", "generation"};

    for (size_t i = 0; i < SW_ARRAY_LEN(gone); i++)
        (void)sw_json_remove(meta, sw_slice_str(gone[i]));
}

static bool has_text(const struct sw_json *v, const char *key)
{
    return api_str(v, key).n > 0;
}

static bool filled(const struct sw_json_member *m, const void *arg)
{
    (void)arg;
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
    if (r->res->builtin && has_text(meta, "name"))
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
    wipe_system_fields(api_meta(r->arena, obj));
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
    struct api_attrs at = {.user = &r->user,
                           .verb = SW_SLICE_LIT("create"),
                           .is_resource = true,
                           .group = r->group,
                           .resource = r->resource,
                           .sub = r->sub,
                           .ns = r->ns,
                           .name = r->name};

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
    const char *pre =
        sw_json_walk(old, "metadata", "deletionTimestamp", NULL) ? "object is being deleted: " : "";

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
    struct sw_fpath m = sw_fpath_str(NULL, "metadata");
    struct sw_fpath p = sw_fpath_str(&m, "name");

    if (r->res->namespaced && ns.n && !sw_slice_eq(ns, r->ns)) {
        api_bad_request(r, "the namespace of the provided object does not match the namespace sent "
                           "on the request");
        return false;
    }
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
        sw_ferr_required(&e, &p, "name or generateName is required");
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
