/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of every change: read what is stored, compute what shall be, write it under the
 * condition that nothing changed meanwhile, and start again if it did.
 */
#include <string.h>

#include "apiserver/api.h"
#include "base/log.h"
#include "base/rand.h"
#include "kube/smd.h"

enum { TRIES_MAX = 100 };
static const size_t object_max = 1536 * 1024; /* bytes of one stored object */

static void attempt(struct api_write *w);

/* What other parts of the server keep in memory follows at once: the next request sees it. */
static void note_change(struct sw_api *api, const struct api_res *res, struct sw_slice name)
{
    if (strcmp(res->group, "rbac.authorization.k8s.io") == 0)
        api_authz_changed(api);
    if (strcmp(res->group, "apiextensions.k8s.io") == 0)
        api_crd_changed(api, name);
}

static struct sw_json *success_status(struct api_req *r, const struct sw_json *obj)
{
    struct sw_arena *a = r->arena;
    struct sw_json *s = sw_json_new_object(a);
    struct sw_json *d = sw_json_new_object(a);

    sw_json_put_str(a, s, "kind", SW_SLICE_LIT("Status"));
    sw_json_put_str(a, s, "apiVersion", SW_SLICE_LIT("v1"));
    sw_json_put(a, s, "metadata", sw_json_new_object(a));
    sw_json_put_str(a, s, "status", SW_SLICE_LIT("Success"));
    sw_json_put_str(a, d, "name", api_meta_str(obj, "name"));
    if (*r->res->group)
        sw_json_put_str(a, d, "group", sw_slice_str(r->res->group));
    sw_json_put_str(a, d, "kind", sw_slice_str(r->res->plural));
    sw_json_put_str(a, d, "uid", api_meta_str(obj, "uid"));
    sw_json_put(a, s, "details", d);
    return s;
}

/* The object in the shape of this endpoint's resource. */
static void answer(struct api_write *w, uint64_t revision)
{
    struct api_req *r = w->r;

    if (w->answer_status) {
        api_reply(r, 200, success_status(r, w->obj));
        return;
    }
    if (revision)
        api_set_rv(r->arena, w->obj, revision);
    if (w->committed) {
        w->committed(w, revision);
        return;
    }
    api_reply_object(r, w->code ? w->code : 200, w->obj);
}

static void on_written(void *arg, const struct sw_store_result *res)
{
    struct api_write *w = arg;
    struct api_req *r = w->r;

    if (res->rc == SW_OK) {
        note_change(r->api, r->res, api_meta_str(w->obj, "name"));
        answer(w, res->revision);
        return;
    }
    if ((res->rc == SW_STORE_CONFLICT || res->rc == SW_STORE_EXISTS || res->rc == SW_ENOENT) &&
        w->tries < TRIES_MAX) {
        /* The build decides again what that means: 404, 409, or another try. */
        attempt(w);
        return;
    }
    if (res->rc == SW_STORE_CONFLICT || res->rc == SW_STORE_EXISTS || res->rc == SW_ENOENT) {
        api_conflict(r, "the object has been modified; please apply your changes to the latest "
                        "version and try again");
        return;
    }
    sw_log_error("api", "write failed: %s", res->msg ? res->msg : sw_rc_name(res->rc));
    api_fail(r, res->rc == SW_ELIMIT ? 507 : 500, "InternalError", "Internal error occurred: %s",
             res->msg ? res->msg : "the store refused the write");
}

static bool too_big(struct api_write *w, struct sw_slice *value)
{
    struct sw_json *meta = api_meta(w->r->arena, w->obj);

    if (value->n <= object_max)
        return false;
    if (!w->r->sub.n && sw_json_remove(meta, SW_SLICE_LIT("managedFields"))) {
        *value = api_encode(w->r->arena, w->obj);
        if (value->n <= object_max)
            return false;
    }
    return true;
}

static void submit(struct api_write *w)
{
    struct api_req *r = w->r;
    struct sw_store_write sw = {
        .verb = w->remove   ? SW_STORE_DELETE
                : w->expect ? SW_STORE_UPDATE
                            : SW_STORE_CREATE,
        .key = w->key,
        .expect = w->expect,
        .loop = r->api->loop,
        .cb = on_written,
        .arg = w,
    };
    struct sw_json *stored = w->obj;
    struct sw_err err = {0};
    int rc;

    if (strcmp(r->res->group, "events.k8s.io") == 0) {
        stored = sw_json_copy(r->arena, w->obj);
        api_event_to_core(r->arena, r->res, stored);
    }
    sw.value = api_encode(r->arena, stored);
    if (!sw.value.p || too_big(w, &sw.value)) {
        api_fail(r, 413, "RequestEntityTooLarge", "Request entity too large: limit is %zu",
                 object_max);
        return;
    }
    rc = sw_store_submit(r->api->store, &sw, &err);
    if (rc == SW_ELIMIT)
        api_fail(r, 429, "TooManyRequests", "Too many requests, please try again later.");
    else if (rc != SW_OK)
        api_fail(r, 500, "InternalError", "Internal error occurred: %s", err.msg);
}

static void attempt(struct api_write *w)
{
    struct api_req *r = w->r;
    struct sw_store_obj *cur;

    w->tries++;
    r->snap = sw_store_snap_unref(r->snap);
    r->snap = sw_store_snapshot(r->api->store);
    cur = sw_store_snap_get(r->snap, w->key);
    w->obj = NULL;
    w->live = NULL;
    w->remove = false;
    w->noop = false;
    w->answer_status = false;
    w->expect = cur ? cur->revision : 0;
    if (!w->build(w, cur))
        return;
    if (w->noop || r->dry_run)
        answer(w, 0);
    else
        submit(w);
}

void api_write_run(struct api_write *w)
{
    if (!w->key.n)
        w->key = api_key(w->r->arena, w->r->res, w->r->ns, w->r->name);
    attempt(w);
}

/* --- ownership -------------------------------------------------------------------------- */

struct sw_smd api_smd(struct api_req *r)
{
    static const char *const main_reset[] = {"status", NULL};
    static const char *const status_reset[] = {"spec", NULL};
    struct sw_smd s = {
        .arena = r->arena,
        .schema = api_res_schema(r->res),
        .metadata = sw_object_meta_schema(),
        .api_version = sw_slice_str(r->res->api_version),
        .manager = r->manager,
        .subresource = r->sub,
        .now = api_now(r->arena),
    };

    if (sw_slice_eq_str(r->sub, "status"))
        s.reset = status_reset;
    else if (r->res->has_status)
        s.reset = main_reset;
    return s;
}

/* --- create ----------------------------------------------------------------------------- */

static bool namespace_ok(struct api_req *r, struct sw_slice name)
{
    const struct api_res *nsres = api_registry_find(&r->api->reg, sw_slice("", 0),
                                                    SW_SLICE_LIT("v1"), SW_SLICE_LIT("namespaces"));
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

static bool keeps_generation(const struct api_res *res)
{
    return res->crd || (res->flags & SW_B_GENERATION);
}

static void wipe_system_fields(struct sw_json *meta)
{
    static const char *const gone[] = {
        "uid",      "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds",
        "selfLink", "generation"};

    for (size_t i = 0; i < SW_ARRAY_LEN(gone); i++)
        (void)sw_json_remove(meta, sw_slice_str(gone[i]));
}

static bool is_crd_kind(const struct api_res *res)
{
    return res->builtin && strcmp(res->group, "apiextensions.k8s.io") == 0;
}

/* Adds qualification warnings and runs all validation; false: 422 was sent. */
static bool validate(struct api_req *r, struct sw_json *obj, const struct sw_json *old)
{
    struct sw_field_errs e;
    const struct sw_schema *schema = api_res_schema(r->res);

    sw_field_errs_init(&e, r->arena);
    if (r->res->builtin) {
        sw_builtin_validate(r->res->builtin, obj, old, &e);
        if (is_crd_kind(r->res))
            api_crd_validate(r, obj, old, &e);
    } else {
        sw_meta_validate(obj, r->res->namespaced, sw_name_dns1123_subdomain, &e);
        if (old)
            sw_meta_validate_update(obj, old, &e);
        if (sw_slice_eq_str(r->sub, "status")) {
            struct sw_fpath p = sw_fpath_str(NULL, "status");
            const struct sw_schema *s = sw_schema_declared(schema, SW_SLICE_LIT("status"));
            const struct sw_json *v = sw_json_find(obj, "status");

            if (s && v)
                sw_schema_check_object(s, v, sw_json_find(old, "status"), &p, &e);
        } else {
            sw_schema_check_object(schema, obj, old, NULL, &e);
        }
    }
    if (e.n == 0)
        return true;
    api_invalid(r, api_meta_str(obj, "name"), &e);
    return false;
}

static bool has_text(const struct sw_json *v, const char *key)
{
    return api_str(v, key).n > 0;
}

bool api_prepare_create(struct api_write *w, struct sw_json *obj)
{
    struct api_req *r = w->r;
    struct sw_arena *a = r->arena;
    struct sw_json *meta = api_meta(a, obj);
    struct sw_smd smd = api_smd(r);

    if (!namespace_ok(r, api_str(meta, "name")))
        return false;
    sw_json_put_str(a, meta, "uid", sw_slice_str(api_uuid(a)));
    sw_json_put_str(a, meta, "creationTimestamp", sw_slice_str(api_now(a)));
    if (r->res->namespaced)
        sw_json_put_str(a, meta, "namespace", r->ns);
    if (keeps_generation(r->res))
        sw_json_put(a, meta, "generation", sw_json_new_i64(a, 1));
    if (r->res->builtin && has_text(meta, "name"))
        sw_builtin_default(a, r->res->builtin, obj); /* names made from generateName count too */
    if (!sw_json_find(meta, "managedFields") || r->verb == API_CREATE || r->verb == API_UPDATE)
        sw_smd_update(&smd, NULL, obj);
    if (is_crd_kind(r->res))
        api_crd_settle(r, obj, NULL);
    if (!validate(r, obj, NULL))
        return false;
    if (r->x && strcmp(r->res->group, "rbac.authorization.k8s.io") == 0 &&
        !api_escalation_ok(r, obj, NULL))
        return false;
    w->obj = obj;
    w->code = 201;
    return true;
}

static void wipe_for_create(struct api_req *r, struct sw_json *obj)
{
    wipe_system_fields(api_meta(r->arena, obj));
    if (r->res->has_status && (r->res->crd || is_crd_kind(r->res)))
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

static const char *generated_name(struct sw_arena *a, struct sw_slice prefix);

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
    obj = sw_json_copy(r->arena, c->obj);
    if (!api_prepare_create(w, obj))
        return false;
    if (cur) {
        const struct sw_json *old = api_load(r->arena, r->res, cur);
        const char *pre = sw_json_walk(old, "metadata", "deletionTimestamp", NULL)
                              ? "object is being deleted: "
                              : "";

        if (c->generate.n)
            api_fail_res(r, 409, "AlreadyExists", r->name,
                         "%s \"%.*s\" already exists, the server was not able to generate a unique "
                         "name for the object",
                         api_gr(r->arena, r->res), SW_SLICE_ARG(r->name));
        else
            api_fail_res(r, 409, "AlreadyExists", r->name, "%s%s \"%.*s\" already exists", pre,
                         api_gr(r->arena, r->res), SW_SLICE_ARG(r->name));
        return false;
    }
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
    struct sw_json_dups dups;

    c->w = (struct api_write){.r = r, .build = build_create};
    if (!api_write_options(r, "CreateOptions") || !api_decode_body(r, &c->obj, &dups))
        return;
    if (r->res->crd && r->crd->terminating) {
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
    wipe_for_create(r, c->obj);
    if (!settle_name(r, c))
        return;
    api_write_run(&c->w);
}

/* --- update ----------------------------------------------------------------------------- */

/* Takes a metadata member over from the stored object (or removes it). */
static void keep_meta(struct sw_arena *a, struct sw_json *meta, const struct sw_json *old,
                      const char *key)
{
    struct sw_json *v = sw_json_find(old, key);

    if (v)
        sw_json_put(a, meta, key, v);
    else
        (void)sw_json_remove(meta, sw_slice_str(key));
}

static void keep_top(struct sw_arena *a, struct sw_json *obj, const struct sw_json *old,
                     const char *key)
{
    struct sw_json *v = sw_json_find(old, key);

    if (v)
        sw_json_put(a, obj, key, v);
    else
        (void)sw_json_remove(obj, sw_slice_str(key));
}

/* /status takes status and ownership, nothing else; the main door keeps the stored status. */
static void split_doors(struct api_req *r, struct sw_json *obj, const struct sw_json *old)
{
    struct sw_arena *a = r->arena;

    if (sw_slice_eq_str(r->sub, "status")) {
        struct sw_json *status = sw_json_find(obj, "status");
        struct sw_json *mf = sw_json_walk(obj, "metadata", "managedFields", NULL);
        struct sw_json *rv = sw_json_walk(obj, "metadata", "resourceVersion", NULL);
        struct sw_json *copy = sw_json_copy(a, old);

        if (status)
            sw_json_put(a, copy, "status", status);
        else
            (void)sw_json_remove(copy, SW_SLICE_LIT("status"));
        if (mf)
            sw_json_put(a, api_meta(a, copy), "managedFields", mf);
        if (rv)
            sw_json_put(a, api_meta(a, copy), "resourceVersion", rv);
        *obj = *copy;
    } else if (sw_slice_eq_str(r->sub, "finalize")) {
        struct sw_json *fin = sw_json_walk(obj, "spec", "finalizers", NULL);
        struct sw_json *copy = sw_json_copy(a, old);
        struct sw_json *spec = sw_json_find(copy, "spec");

        if (sw_json_is(spec, SW_JSON_OBJECT)) {
            if (fin)
                sw_json_put(a, spec, "finalizers", fin);
            else
                (void)sw_json_remove(spec, SW_SLICE_LIT("finalizers"));
        }
        *obj = *copy;
    } else if (r->res->has_status) {
        keep_top(a, obj, old, "status");
    }
}

static bool content_changed(const struct api_res *res, const struct sw_json *obj,
                            const struct sw_json *old)
{
    const struct sw_json *pair[2] = {obj, old};

    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < sw_json_len(pair[side]); i++) {
            const struct sw_json_member *m = sw_json_member_at(pair[side], i);

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

    keep_meta(r->arena, meta, sw_json_find(old, "metadata"), "generation");
    if (!keeps_generation(r->res) || r->sub.n)
        return;
    if (!g || !sw_json_i64(g, &n))
        n = 0;
    if (content_changed(r->res, obj, old))
        sw_json_put(r->arena, meta, "generation", sw_json_new_i64(r->arena, n + 1));
}

static bool check_conditions(struct api_write *w, const struct sw_json *obj,
                             const struct sw_store_obj *cur)
{
    struct api_req *r = w->r;
    struct sw_slice rv = api_meta_str(obj, "resourceVersion");
    struct sw_slice uid = api_meta_str(obj, "uid");
    struct sw_slice live_uid = api_meta_str(w->live, "uid");
    uint64_t n = 0;

    if (uid.n && !sw_slice_eq(uid, live_uid)) {
        api_conflict(r, sw_arena_printf(r->arena,
                                        "Precondition failed: UID in precondition: %.*s, UID in "
                                        "object meta: %.*s",
                                        SW_SLICE_ARG(uid), SW_SLICE_ARG(live_uid)));
        return false;
    }
    if (rv.n && !sw_slice_to_u64(rv, INT64_MAX, &n)) {
        struct sw_field_errs e;
        struct sw_fpath m = sw_fpath_str(NULL, "metadata");
        struct sw_fpath p = sw_fpath_str(&m, "resourceVersion");

        sw_field_errs_init(&e, r->arena);
        sw_ferr_invalid_str(&e, &p, rv,
                            sw_arena_printf(r->arena,
                                            "strconv.ParseUint: parsing \"%.*s\": invalid syntax",
                                            SW_SLICE_ARG(rv)));
        api_invalid(r, r->name, &e);
        return false;
    }
    if (n && n != cur->revision) {
        api_conflict(r, "the object has been modified; please apply your changes to the latest "
                        "version and try again");
        return false;
    }
    if (!n && r->verb == API_UPDATE && r->x && !(r->res->flags & SW_B_UNCONDITIONAL)) {
        struct sw_field_errs e;
        struct sw_fpath m = sw_fpath_str(NULL, "metadata");
        struct sw_fpath p = sw_fpath_str(&m, "resourceVersion");

        sw_field_errs_init(&e, r->arena);
        sw_ferr(&e, SW_CAUSE_INVALID, &p, "Invalid value: 0x0: must be specified for an update");
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

bool api_prepare_update(struct api_write *w, struct sw_json *obj, const struct sw_store_obj *cur)
{
    struct api_req *r = w->r;
    struct sw_arena *a = r->arena;
    const struct sw_json *old_meta = sw_json_find(w->live, "metadata");
    struct sw_smd smd = api_smd(r);
    bool applied = w->arg != NULL; /* ownership is settled already */
    struct sw_json *meta;

    if (!check_conditions(w, obj, cur))
        return false;
    split_doors(r, obj, w->live);
    meta = api_meta(a, obj);
    keep_meta(a, meta, old_meta, "uid");
    keep_meta(a, meta, old_meta, "creationTimestamp");
    keep_meta(a, meta, old_meta, "deletionTimestamp");
    keep_meta(a, meta, old_meta, "deletionGracePeriodSeconds");
    keep_meta(a, meta, old_meta, "resourceVersion");
    keep_meta(a, meta, old_meta, "name");
    keep_meta(a, meta, old_meta, "namespace");
    (void)sw_json_remove(meta, SW_SLICE_LIT("selfLink"));
    if (is_crd_kind(r->res))
        api_crd_settle(r, obj, w->live);
    settle_generation(r, obj, w->live);
    if (!applied)
        sw_smd_update(&smd, w->live, obj);
    if (!validate(r, obj, w->live))
        return false;
    if (r->x && strcmp(r->res->group, "rbac.authorization.k8s.io") == 0 &&
        !api_escalation_ok(r, obj, w->live))
        return false;
    w->code = 200;
    if (sw_smd_equal_but_times(a, obj, w->live)) {
        w->obj = w->live;
        w->noop = true;
        /* An object that only waits for its finalizers may have lost the last one before. */
        if (!(sw_json_find(meta, "deletionTimestamp") && !finalizers_left(r->res, obj)))
            return true;
        w->noop = false;
    }
    w->obj = obj;
    if (sw_json_find(meta, "deletionTimestamp") && !finalizers_left(r->res, obj)) {
        w->remove = true;
        w->obj = obj;
    }
    return true;
}

struct update {
    struct api_write w;
    struct sw_json *obj;
};

static bool build_update(struct api_write *w, const struct sw_store_obj *cur)
{
    struct update *u = SW_CONTAINER_OF(w, struct update, w);
    struct api_req *r = w->r;
    struct sw_json *obj = sw_json_copy(r->arena, u->obj);

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
        wipe_for_create(r, obj);
        (void)sw_json_remove(api_meta(r->arena, obj), SW_SLICE_LIT("resourceVersion"));
        return api_prepare_create(w, obj);
    }
    w->live = api_load(r->arena, r->res, cur);
    return api_prepare_update(w, obj, cur);
}

void api_update(struct api_req *r)
{
    struct update *u = SW_ARENA_NEW(r->arena, struct update);
    struct sw_json_dups dups;
    struct sw_slice name;
    struct sw_slice ns;

    u->w = (struct api_write){.r = r, .build = build_update};
    if (!api_write_options(r, "UpdateOptions") || !api_decode_body(r, &u->obj, &dups) ||
        !api_admit_object(r, u->obj, &dups, false))
        return;
    name = api_meta_str(u->obj, "name");
    ns = api_meta_str(u->obj, "namespace");
    if (name.n == 0) {
        api_bad_request(
            r,
            "the name of the object (%.*s based on URL) was undeterminable: name must be provided",
            SW_SLICE_ARG(r->name));
        return;
    }
    if (!sw_slice_eq(name, r->name)) {
        api_bad_request(r,
                        "the name of the object (%.*s) does not match the name on the URL (%.*s)",
                        SW_SLICE_ARG(name), SW_SLICE_ARG(r->name));
        return;
    }
    if (r->res->namespaced && ns.n && !sw_slice_eq(ns, r->ns)) {
        api_bad_request(r,
                        "the namespace of the object (%.*s) does not match the namespace on the "
                        "URL (%.*s)",
                        SW_SLICE_ARG(ns), SW_SLICE_ARG(r->ns));
        return;
    }
    if (r->res->namespaced)
        sw_json_put_str(r->arena, api_meta(r->arena, u->obj), "namespace", r->ns);
    api_write_run(&u->w);
}
