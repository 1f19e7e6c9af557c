/* SPDX-License-Identifier: Apache-2.0 */
/* DELETE of objects and collections. */
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/body.h"
#include "apiserver/api/work.h"
#include "apiserver/verbs/verbs.h"
#include "base/search.h"
#include "base/vec.h"
#include "kube/fields.h"

struct options {
    struct sw_slice policy; /* "" when not given */
    bool policy_set;
    struct sw_slice uid;
    struct sw_slice rv;
    bool has_uid, has_rv;
    bool orphan_set, orphan;
};

struct removal {
    struct api_write w;
    struct options o;
};

static void check_policy(struct api_req *r, const struct options *o, struct sw_field_errs *e)
{
    static const char *const policies[] = {"Foreground", "Background", "Orphan", NULL};
    static const char *const known[] = {"Foreground", "Background", "Orphan", "nil", NULL};
    struct sw_fpath p = sw_fpath_str(NULL, "propagationPolicy");

    if (o->orphan_set && o->policy_set)
        sw_ferr_invalid_str(e, &p, o->policy,
                            "orphanDependents and deletionPropagation cannot be both set");
    if (o->policy_set && !sw_word_in(o->policy, policies))
        sw_ferr_unsupported(e, &p, sw_json_new_string(r->arena, o->policy), known);
}

static bool read_body_options(struct api_req *r, struct options *o, struct sw_field_errs *e)
{
    struct sw_json *v = NULL;
    struct sw_json_dups dups;
    const struct sw_json *pre;
    const struct sw_json *orphan;

    if (r->body.n == 0 && !r->own.json)
        return true;
    if (!api_decode_body(r, &v, &dups))
        return false;
    if (!sw_json_is(v, SW_JSON_OBJECT)) {
        api_bad_request(r, "the body is not a DeleteOptions object");
        return false;
    }
    o->policy = api_str(v, "propagationPolicy");
    o->policy_set = sw_json_is(sw_json_find(v, "propagationPolicy"), SW_JSON_STRING);
    pre = sw_json_find(v, "preconditions");
    o->has_uid = sw_json_is(sw_json_find(pre, "uid"), SW_JSON_STRING);
    o->has_rv = sw_json_is(sw_json_find(pre, "resourceVersion"), SW_JSON_STRING);
    o->uid = api_str(pre, "uid");
    o->rv = api_str(pre, "resourceVersion");
    orphan = sw_json_find(v, "orphanDependents");
    if (sw_json_is(orphan, SW_JSON_BOOL)) {
        o->orphan_set = true;
        o->orphan = orphan->boolean;
    }
    api_take_dry_run(r, e, sw_json_find(v, "dryRun"));
    return true;
}

static bool read_options(struct api_req *r, struct options *o)
{
    const struct sw_query_param *q = sw_query_get(&r->query, "propagationPolicy");
    struct sw_field_errs e;
    int64_t grace;

    *o = (struct options){0};
    sw_field_errs_init(&e, r->arena);
    if (!api_write_options(r, "DeleteOptions") || !read_body_options(r, o, &e) ||
        !api_param_int(r, "gracePeriodSeconds", &grace))
        return false;
    if (q && !o->policy_set) {
        o->policy = q->value;
        o->policy_set = true;
    }
    if (!o->orphan_set && sw_query_get(&r->query, "orphanDependents")) {
        o->orphan_set = true;
        o->orphan = api_param_bool(r, "orphanDependents");
    }
    check_policy(r, o, &e);
    if (!api_options_ok(r, "DeleteOptions", &e))
        return false;
    if (o->orphan_set)
        o->policy = o->orphan ? SW_SLICE_LIT("Orphan") : SW_SLICE_LIT("Background");
    return true;
}

/* --- finalizers ------------------------------------------------------------------------- */

static bool gc_finalizer(struct sw_slice s)
{
    return sw_slice_eq_str(s, "orphan") || sw_slice_eq_str(s, "foregroundDeletion");
}

/* The finalizers the object waits for, after the policy had its say. */
static struct sw_json *settle_finalizers(struct api_req *r, const struct options *o,
                                         const struct sw_json *meta)
{
    struct sw_arena *a = r->arena;
    const struct sw_json *old = sw_json_find(meta, "finalizers");
    struct sw_json *out = sw_json_new_array(a);
    bool settled = o->policy.n > 0;

    SW_JSON_ITEMS (f, old) {
        settled = settled || gc_finalizer(sw_json_str(f));
        if (o->policy.n && gc_finalizer(sw_json_str(f)))
            continue;
        sw_json_push(a, out, f);
    }
    if (sw_slice_eq_str(o->policy, "Orphan") ||
        (!settled && (r->x || r->own.on_behalf) && (r->res->flags & SW_B_ORPHANS) &&
         !sw_json_find(meta, "deletionTimestamp")))
        sw_json_push(a, out, sw_json_new_str(a, "orphan"));
    else if (sw_slice_eq_str(o->policy, "Foreground"))
        sw_json_push(a, out, sw_json_new_str(a, "foregroundDeletion"));
    if (r->res->builtin && strcmp(r->res->group, "apiextensions.k8s.io") == 0) {
        struct sw_slice cleanup = SW_SLICE_LIT("customresourcecleanup.apiextensions.k8s.io");

        if (!sw_field_list_has(out, cleanup) && !sw_json_find(meta, "deletionTimestamp"))
            sw_json_push(a, out, sw_json_new_string(a, cleanup));
    }
    return out;
}

static bool check_preconditions(struct api_req *r, const struct options *o,
                                const struct sw_json *live)
{
    struct sw_slice uid = api_meta_str(live, "uid");
    struct sw_slice rv = api_meta_str(live, "resourceVersion");
    const char *why = NULL;

    if (o->has_uid && !sw_slice_eq(o->uid, uid))
        why = sw_arena_printf(r->arena,
                              "the UID in the precondition (%.*s) does not match the UID in record "
                              "(%.*s). The object might have been deleted and then recreated",
                              SW_SLICE_ARG(o->uid), SW_SLICE_ARG(uid));
    else if (o->has_rv && !sw_slice_eq(o->rv, rv))
        why = sw_arena_printf(r->arena,
                              "the ResourceVersion in the precondition (%.*s) does not match the "
                              "ResourceVersion in record (%.*s). The object might have been "
                              "modified",
                              SW_SLICE_ARG(o->rv), SW_SLICE_ARG(rv));
    if (!why)
        return true;
    /* The reference names the kind here, not the resource. */
    api_fail_details(
        r, 409, "Conflict",
        sw_arena_printf(r->arena, "Operation cannot be fulfilled on %s%s%s \"%.*s\": %s",
                        r->res->kind, *r->res->group ? "." : "", r->res->group,
                        SW_SLICE_ARG(r->name), why),
        SW_JSON_OF(r->arena, {"name", .text = r->name},
                   {"group", .some = sw_slice_str(r->res->group)}, {"kind", .str = r->res->kind}));
    return false;
}

static bool protected_namespace(struct api_req *r)
{
    static const char *const names[] = {"default", "kube-system", "kube-public"};

    if (!r->res->builtin || strcmp(r->res->plural, "namespaces") != 0)
        return false;
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        if (sw_slice_eq_str(r->name, names[i])) {
            api_fail_res(r, 403, "Forbidden", r->name,
                         "namespaces \"%s\" is forbidden: this namespace may not be deleted",
                         names[i]);
            return true;
        }
    }
    return false;
}

/* What else the beginning of the end changes. */
static void mark_terminating(struct api_req *r, struct sw_json *obj)
{
    struct sw_arena *a = r->arena;

    if (!r->res->builtin)
        return;
    if (strcmp(r->res->plural, "namespaces") == 0)
        sw_json_put_str(a, sw_json_need(a, obj, "status", SW_JSON_OBJECT), "phase",
                        SW_SLICE_LIT("Terminating"));
    else if (strcmp(r->res->group, "apiextensions.k8s.io") == 0)
        (void)api_set_condition(a, sw_json_need(a, obj, "status", SW_JSON_OBJECT), "Terminating",
                                true, "InstanceDeletionInProgress",
                                "CustomResource deletion is in progress");
}

/* --- one object ------------------------------------------------------------------------- */

static void begin_end(struct api_req *r, struct sw_json *obj)
{
    struct sw_arena *a = r->arena;
    struct sw_json *meta = api_meta(a, obj);
    int64_t g = 0;

    if (sw_json_find(meta, "deletionTimestamp"))
        return;
    sw_json_put_str(a, meta, "deletionTimestamp", sw_slice_str(api_now(a)));
    /* Namespaces carry no grace period. */
    if (!(r->res->builtin && strcmp(r->res->plural, "namespaces") == 0))
        sw_json_put(a, meta, "deletionGracePeriodSeconds", sw_json_new_i64(a, 0));
    if (sw_json_i64(sw_json_find(meta, "generation"), &g))
        sw_json_put(a, meta, "generation", sw_json_new_i64(a, g + 1));
    mark_terminating(r, obj);
}

static bool build_delete(struct api_write *w, const struct sw_store_obj *cur)
{
    struct removal *d = SW_CONTAINER_OF(w, struct removal, w);
    struct api_req *r = w->r;
    struct sw_json *meta;
    struct sw_json *fin;
    struct sw_json *obj;
    bool ns_waits;

    if (!cur) {
        api_not_found(r);
        return false;
    }
    w->live = api_load(r->arena, r->res, cur);
    if (!check_preconditions(r, &d->o, w->live))
        return false;
    obj = sw_json_copy(r->arena, w->live);
    meta = api_meta(r->arena, obj);
    fin = settle_finalizers(r, &d->o, meta);
    ns_waits = r->res->builtin && strcmp(r->res->plural, "namespaces") == 0 &&
               sw_json_len(sw_json_walk(obj, "spec", "finalizers", NULL)) > 0;
    w->code = 200;
    w->obj = obj;
    if (sw_json_len(fin) || ns_waits) {
        if (sw_json_len(fin))
            sw_json_put(r->arena, meta, "finalizers", fin);
        else
            (void)sw_json_remove(meta, SW_SLICE_LIT("finalizers"));
        begin_end(r, obj);
        if (sw_json_equal(obj, w->live, SW_JSON_EQ_VALUE))
            w->noop = true;
        return true;
    }
    w->remove = true;
    w->answer_status = !(r->res->flags & SW_B_RETURNS_OBJECT);
    return true;
}

static void warn_orphans(struct api_req *r, const struct options *o)
{
    if (!o->policy.n && r->res->builtin && strcmp(r->res->builtin->type, "Job") == 0)
        api_warn(r, "child pods are preserved by default when jobs are deleted; set "
                    "propagationPolicy=Background to remove them or set propagationPolicy=Orphan "
                    "to suppress this warning");
}

void api_delete(struct api_req *r)
{
    struct removal *d = SW_ARENA_NEW(r->arena, struct removal);

    d->w = (struct api_write){.r = r, .build = build_delete, .retry = true};
    if (!read_options(r, &d->o) || protected_namespace(r))
        return;
    warn_orphans(r, &d->o);
    api_write_run(&d->w);
}

/* --- collections ------------------------------------------------------------------------ */

enum { INLINE_SWEEP = 50 }; /* objects parsed on the loop itself */

struct sweep {
    struct api_req *r;
    struct sw_json *items; /* what is answered */
    struct sw_json *body;  /* options of each deletion */
    struct api_filter filter;
    int64_t limit;
    size_t next;
    uint64_t rv;
};

static void sweep_next(struct sweep *s);

static void on_swept(struct api_req *r, int code, const struct sw_json *body)
{
    struct sweep *s = r->own.done_arg;

    if (code == 404 || code < 400 || code == 409) { /* gone already, or it waits for finalizers */
        sweep_next(s);
        return;
    }
    api_reply(s->r, code, body); /* admission refused: so is the rest of the collection */
}

/* All are gone: the list of what there was. */
static void sweep_reply(struct api_req *r, void *arg)
{
    struct sweep *s = arg;
    struct sw_arena *a = r->arena;
    struct sw_json *list;

    api_off_loop();
    list = SW_JSON_OF(a, {"kind", .str = r->res->list_kind},
                      {"apiVersion", .str = r->res->api_version},
                      {"metadata", .json = sw_json_new_object(a)}, {"items", .json = s->items});
    api_set_rv(a, list, s->rv);
    SW_JSON_ITEMS (it, r->res->builtin ? s->items : NULL)
        api_drop_type(it);
    api_reply(r, 200, list);
}

static void sweep_next(struct sweep *s)
{
    struct api_req *r = s->r;

    if (s->next < sw_json_len(s->items)) {
        const struct sw_json *o = sw_json_at(s->items, s->next++);
        struct api_req *one;

        one = api_internal(r->api,
                           &(struct api_internal_request){.verb = API_DELETE,
                                                          .res = r->res,
                                                          .ns = api_meta_str(o, "namespace"),
                                                          .name = api_meta_str(o, "name"),
                                                          .body = s->body},
                           on_swept, s);
        one->own.on_behalf = r;
        return;
    }
    api_work_resume(r, sweep_reply, s);
}

/* Finds what is to be deleted; then it goes, one after the other. */
static void sweep_begin(struct api_req *r, void *arg)
{
    struct sweep *s = arg;
    const struct api_filter *f = &s->filter;
    struct sw_slice prefix = api_prefix(r->arena, r->res, r->ns);

    api_off_loop();
    SW_STORE_EACH (obj, r->snap, prefix) {
        struct sw_json *v;

        if (!sw_budget_ok(api_work_budget()))
            break;
        if ((f->has_labels || f->has_fields) && !api_filter_match(f, r->res, obj))
            continue;
        v = api_load(r->arena, r->res, obj);
        if (v)
            sw_json_push(r->arena, s->items, v);
        if (s->limit > 0 && sw_json_len(s->items) == (uint64_t)s->limit)
            break;
    }
    api_on_loop();
    if (!api_work_ended(r))
        sweep_next(s);
}

void api_delete_collection(struct api_req *r)
{
    struct sweep *s = SW_ARENA_NEW(r->arena, struct sweep);
    struct sw_slice prefix = api_prefix(r->arena, r->res, r->ns);
    struct options o;

    if (!read_options(r, &o) || !api_list_opts_check(r, &s->filter, &s->limit))
        return;
    r->snap = sw_store_snapshot(r->api->store);
    s->r = r;
    s->rv = sw_store_snap_revision(r->snap);
    s->items = sw_json_new_array(r->arena);
    warn_orphans(r, &o);
    s->body = SW_JSON_OF(r->arena, {"propagationPolicy", .some = o.policy},
                         {"dryRun", .json = api_dry_run_json(r)});
    if (r->x && sw_store_snap_count(r->snap, prefix, sw_slice("", 0)) > INLINE_SWEEP)
        api_work_run(r, sweep_begin, s);
    else
        sweep_begin(r, s);
}
