/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of every change: read what is stored, compute what shall be, write it under the
 * condition that nothing changed meanwhile, and start again if it did.
 */
#include <string.h>

#include "apiserver/admission/chain.h"
#include "apiserver/admission/policies.h"
#include "apiserver/admission/quota.h"
#include "apiserver/admission/webhook.h"
#include "apiserver/api/api.h"
#include "apiserver/api/limits.h"
#include "apiserver/api/work.h"
#include "apiserver/auth/auth.h"
#include "apiserver/verbs/verbs_int.h"
#include "base/log.h"
#include "kube/apply/smd.h"
#include "kube/cel/cel.h"
#include "kube/crd/schema.h"
#include "kube/fields.h"
#include "kube/schema/meta.h"

enum { TRIES_MAX = 100, INLINE_STEPS = 2000000 };
/* All that rules may cost, and the rest. */
static const uint64_t validate_steps =
    API_VALIDATE_STEPS + (uint64_t)SW_CEL_OBJECT_COST * SW_CEL_STEPS;
static const size_t object_max = (size_t)1536 * 1024; /* bytes of one stored object */

static void attempt(struct api_write *w);

/* What other parts of the server keep in memory follows at once: the next request sees it. */
static void note_change(struct sw_api *api, const struct api_res *res, struct sw_slice name)
{
    if (strcmp(res->group, "rbac.authorization.k8s.io") == 0)
        api_authz_changed(api);
    if (strcmp(res->group, "apiextensions.k8s.io") == 0)
        api_crd_changed(api, name);
    if (strcmp(res->group, "admissionregistration.k8s.io") == 0) {
        api_webhooks_changed(api);
        api_policies_changed(api);
    }
}

static struct sw_json *success_status(struct api_req *r, const struct sw_json *obj)
{
    struct sw_arena *a = r->arena;
    struct sw_json *details =
        SW_JSON_OF(a, {"name", .text = api_meta_str(obj, "name")},
                   {"group", .some = sw_slice_str(r->res->group)}, {"kind", .str = r->res->plural},
                   {"uid", .text = api_meta_str(obj, "uid")});

    return SW_JSON_OF(a, {"kind", .str = "Status"}, {"apiVersion", .str = "v1"},
                      {"metadata", .json = sw_json_new_object(a)}, {"status", .str = "Success"},
                      {"details", .json = details});
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

static void answer_later(struct api_req *r, void *arg)
{
    struct api_write *w = arg;

    answer(w, w->revision);
}

static void attempt_later(struct api_req *r, void *arg)
{
    attempt(arg);
}

static void on_written(void *arg, const struct sw_store_result *res)
{
    struct api_write *w = arg;
    struct api_req *r = w->r;

    r->api->writes--;
    api_quota_settle(w, res);
    if (!r->api->store) { /* closed meanwhile: the write is safe or it is not, nothing follows */
        if (res->rc == SW_OK)
            answer(w, res->revision);
        else
            api_shutting_down(r);
        return;
    }
    if (res->rc == SW_OK) {
        note_change(r->api, r->res, api_meta_str(w->obj, "name"));
        api_revoker_note(r->api, r->res, w->remove || api_is_going(w->obj));
        api_service_written(w);
        w->revision = res->revision;
        api_work_resume(r, answer_later, w);
        return;
    }
    if (res->rc == SW_STORE_CONFLICT || res->rc == SW_STORE_EXISTS || res->rc == SW_ENOENT) {
        /* The build decides again what that means: 404, 409, or another try. */
        if (w->tries < TRIES_MAX)
            api_work_resume(r, attempt_later, w);
        else
            api_conflict(r, "the object has been modified; please apply your changes to the "
                            "latest version and try again");
        return;
    }
    /* The store logs it once for the operator; the client gets the error every time. */
    sw_log_debug("api", "write failed: %s", res->msg ? res->msg : sw_rc_name(res->rc));
    api_fail(r, res->rc == SW_ELIMIT ? 507 : 500, "InternalError", "Internal error occurred: %s",
             res->msg ? res->msg : "the store refused the write");
}

static bool too_big(struct api_write *w, struct sw_json *stored, struct sw_slice *value)
{
    struct sw_json *meta = api_meta(w->r->arena, stored);

    if (value->n <= object_max)
        return false;
    if (!w->r->sub.n && sw_json_remove(meta, SW_SLICE_LIT("managedFields"))) {
        *value = api_encode(w->r->arena, w->r->res, stored);
        if (value->n <= object_max)
            return false;
    }
    return true;
}

static void submit(struct api_write *w, struct sw_json *stored)
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
    struct sw_err err = {0};
    bool fits;
    int rc;

    api_off_loop();
    stored = api_unview(r->arena, r->res, stored);
    sw.value = api_encode(r->arena, r->res, stored);
    fits = sw.value.p && !too_big(w, stored, &sw.value);
    api_on_loop();
    if (api_work_ended(r))
        return;
    if (!fits) {
        api_fail(r, 413, "RequestEntityTooLarge", "Request entity too large: limit is %zu",
                 object_max);
        return;
    }
    if (!api_quota_take(w, sw.value.n))
        return;
    rc = sw_store_submit(r->api->store, &sw, &err);
    if (rc == SW_OK) {
        r->api->writes++;
        api_service_submitted(w);
    } else {
        api_quota_settle(w, NULL);
    }
    if (rc == SW_ELIMIT)
        api_fail(r, 429, "TooManyRequests", "Too many requests, please try again later.");
    else if (rc != SW_OK)
        api_internal_error(r, err.msg);
}

static void on_admitted(struct api_admission *ad)
{
    struct api_write *w = ad->arg;
    struct sw_json *stored;

    if (w->exists) {
        api_already_exists(w);
        return;
    }
    if (w->noop) {
        answer(w, 0);
        return;
    }
    api_off_loop();
    stored = api_to_storage(w->r->arena, w->r->res, w->obj);
    api_on_loop();
    if (!w->r->write.dry_run) {
        submit(w, stored);
    } else if (api_quota_take(w, 0)) {
        api_quota_settle(w, NULL);
        answer(w, 0);
    }
}

static const struct sw_json *shown(struct api_write *w, const struct sw_json *obj)
{
    return obj && w->view ? w->view(w->r, obj) : obj;
}

static void admit(struct api_write *w)
{
    struct api_admission *ad = SW_ARENA_NEW(w->r->arena, struct api_admission);

    ad->r = w->r;
    ad->op = w->r->verb == API_DELETE ? API_OP_DELETE : w->live ? API_OP_UPDATE : API_OP_CREATE;
    ad->object = ad->op == API_OP_DELETE ? NULL : shown(w, w->obj);
    ad->old = shown(w, w->live);
    ad->then = on_admitted;
    ad->arg = w;
    sw_admission_validate(ad);
}

/* Answered (and perhaps gone), unless it turned out to take long while it was on the loop. */
static void build_failed(struct sw_api *api, struct api_req *r)
{
    if (api->restart != r)
        return;
    api->restart = NULL;
    api_restart(r);
}

static void finish_later(struct api_req *r, void *arg)
{
    struct api_write *w = arg;
    struct sw_api *api = r->api;

    if (w->finish(w, w->draft))
        admit(w);
    else
        build_failed(api, r);
}

static void on_mutated(struct api_write *w, struct sw_json *obj)
{
    w->draft = obj;
    api_work_resume(w->r, finish_later, w);
}

static void attempt(struct api_write *w)
{
    struct api_req *r = w->r;
    struct sw_api *api = r->api;
    struct sw_store_obj *cur;

    r->snap = sw_store_snap_unref(r->snap);
    r->snap = sw_store_snapshot(r->api->store);
    cur = sw_store_snap_get(r->snap, w->key);
    if (cur && cur->value.n + r->body.n > API_INLINE_WRITE && r->x && !api_work_here() &&
        !r->exec.long_work) {
        api_work_run(r, attempt_later, w);
        return;
    }
    w->tries++;
    w->obj = NULL;
    w->live = NULL;
    w->remove = false;
    w->noop = false;
    w->answer_status = false;
    w->exists = false;
    w->expect = cur ? cur->revision : 0;
    w->draft = NULL;
    if (!w->build(w, cur)) {
        build_failed(api, r);
        return;
    }
    if (w->draft)
        api_webhooks_run(w, on_mutated);
    else
        admit(w);
}

bool api_write_prepared(struct api_write *w, struct sw_json *obj,
                        bool (*finish)(struct api_write *w, struct sw_json *obj))
{
    if (!api_webhooks_mutate(w, obj))
        return finish(w, obj);
    w->draft = obj;
    w->finish = finish;
    return true;
}

bool api_check_name(struct api_req *r, const struct sw_json *obj)
{
    struct sw_slice name = api_meta_str(obj, "name");

    if (!name.n)
        api_bad_request(
            r,
            "the name of the object (%.*s based on URL) was undeterminable: name must be provided",
            SW_SLICE_ARG(r->name));
    else if (!sw_slice_eq(name, r->name))
        api_bad_request(r,
                        "the name of the object (%.*s) does not match the name on the URL (%.*s)",
                        SW_SLICE_ARG(name), SW_SLICE_ARG(r->name));
    return name.n && sw_slice_eq(name, r->name);
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
        .manager = r->write.manager,
        .subresource = r->sub,
        .now = api_now(r->arena),
    };

    if (sw_slice_eq_str(r->sub, "status"))
        s.reset = status_reset;
    else if (r->res->has_status)
        s.reset = main_reset;
    return s;
}

/* --- what creating and updating share --------------------------------------------------- */

bool api_keeps_generation(const struct api_res *res)
{
    return res->crd || (res->flags & SW_B_GENERATION);
}

bool api_is_crd_kind(const struct api_res *res)
{
    return res->builtin && strcmp(res->group, "apiextensions.k8s.io") == 0;
}

/* A number of replicas, where the scale subresource reads it. */
static void check_replicas(struct api_req *r, const struct sw_json *obj, const char *path,
                           struct sw_field_errs *e)
{
    const struct sw_json *v = api_at_path(obj, path);
    struct sw_fpath at = sw_fpath_str(NULL, path);
    int64_t n = 0;

    if (!v)
        return;
    if (!sw_json_i64(v, &n))
        sw_ferr_invalid(
            e, &at, sw_json_new_i64(r->arena, 0),
            sw_arena_printf(r->arena, "%s accessor error: %s is of the type %s, expected int64",
                            path, sw_go_value(r->arena, v), sw_json_type_name(v->type)));
    else if (n < 0)
        sw_ferr_invalid(e, &at, v, "should be a non-negative integer");
    else if (n > INT32_MAX)
        sw_ferr_invalid(e, &at, v, "should be less than or equal to 2147483647");
}

/* New finalizers without a domain. */
static void warn_finalizers(struct api_req *r, const struct sw_json *obj, const struct sw_json *old)
{
    const struct sw_json *list = sw_json_walk(obj, "metadata", "finalizers", NULL);
    const struct sw_json *had = sw_json_walk(old, "metadata", "finalizers", NULL);

    SW_JSON_ITEMS (it, list) {
        struct sw_slice f = sw_json_str(it);

        if (f.n && !memchr(f.p, '/', f.n) && !sw_field_list_has(had, f) &&
            !sw_slice_eq_str(f, "orphan") && !sw_slice_eq_str(f, "foregroundDeletion"))
            api_warn(r,
                     "metadata.finalizers: %s: prefer a domain-qualified finalizer name to avoid "
                     "accidental conflicts with other finalizer writers",
                     sw_go_quote(r->arena, f));
    }
}

/*
 * What validation may cost. A client's request that costs more than the loop can spare begins again
 * on a worker, where the deadline cancels it; the server's own are not moved.
 */
static struct sw_budget *validation_budget(const struct api_req *r, struct sw_budget *own)
{
    struct sw_budget *b = api_work_here() ? api_work_budget() : own;

    b->steps = b == own && r->exec.fresh ? INLINE_STEPS : validate_steps;
    b->bytes = UINT64_MAX / 2;
    b->spent = false;
    return b;
}

bool api_validate(struct api_req *r, struct sw_json *obj, const struct sw_json *old)
{
    struct sw_field_errs e;
    struct sw_texts warnings = {.arena = r->arena};
    struct sw_budget own = {0};
    const struct sw_schema *schema;

    api_off_loop();
    schema = api_res_schema(r->res);
    sw_field_errs_init(&e, r->arena);
    e.budget = validation_budget(r, &own);
    e.warnings = &warnings;
    e.loopback_ok = r->api->loopback_endpoints;
    if (r->res->builtin) {
        sw_builtin_validate(r->res->builtin, obj, old, &e);
        if (api_is_crd_kind(r->res))
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
        warn_finalizers(r, obj, old);
        if (r->res->has_scale) {
            check_replicas(r, obj, r->res->scale_spec, &e);
            check_replicas(r, obj, r->res->scale_status, &e);
        }
    }
    if (own.spent && r->exec.fresh) {
        r->api->restart = r;
        return false;
    }
    if (api_work_ended(r))
        return false;
    for (size_t i = 0; i < warnings.n; i++)
        api_warn(r, "%s", warnings.p[i]);
    if (e.n == 0 && sw_budget_ok(e.budget)) {
        api_on_loop();
        return true;
    }
    if (e.n == 0)
        sw_ferr(&e, SW_CAUSE_INTERNAL, NULL, "Internal error: validation takes too much work");
    if (!sw_budget_ok(e.budget))
        api_work_refused(r, API_WORK_VALIDATION, e.p[e.n - 1].field);
    api_invalid(r, api_meta_str(obj, "name"), &e);
    return false;
}
