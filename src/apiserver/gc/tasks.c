/* SPDX-License-Identifier: Apache-2.0 */
/* Housekeeping, second half: what is done with each thing that was queued. */
#include <stdlib.h>
#include <string.h>

#include "apiserver/gc/gc_int.h"
#include "base/mem.h"
#include "kube/fields.h"
#include "kube/select/selector.h"
#include "tls/cert/ca.h"

struct gc_at gc_resolve(struct sw_api *api, struct sw_slice key)
{
    struct gc_at at = {.ns = sw_slice("", 0), .name = sw_slice("", 0)};
    struct sw_slice rest = key;
    struct sw_slice group = sw_slice_cut(&rest, '/');
    struct sw_slice plural = rest.p ? sw_slice_cut(&rest, '/') : sw_slice("", 0);

    for (size_t i = 0; !at.res && i < api->reg.n_builtins; i++) {
        const struct api_res *r = &api->reg.builtins[i];

        if (sw_slice_eq_str(group, r->group) && sw_slice_eq_str(plural, r->plural))
            at.res = r;
    }
    if (!at.res) {
        SW_ARENA_AUTO a = {0};
        struct api_crd *c = sw_map_get(
            &api->reg.crds, sw_slice_str(sw_arena_printf(&a, "%.*s.%.*s", SW_SLICE_ARG(plural),
                                                         SW_SLICE_ARG(group))));

        for (size_t i = 0; c && !at.res && i < c->n; i++) {
            if (c->vers[i].served)
                at.res = &c->vers[i];
        }
    }
    if (at.res)
        api_split_key(at.res, key, &at.ns, &at.name);
    return at;
}

struct sw_json *gc_load(struct sw_api *api, struct sw_arena *a, const struct gc_at *at)
{
    return api_stored(api, a, at->res, at->ns, at->name);
}

/* A merge patch that only applies to the state we looked at; key, if any, is of the metadata. */
static struct sw_json *meta_patch(struct sw_arena *a, const struct sw_json *obj, const char *key,
                                  struct sw_json *value)
{
    struct sw_json *m = SW_JSON_OF(
        a, {"resourceVersion", .text = api_meta_str(obj, "resourceVersion")}, {key, .json = value});

    return SW_JSON_OF(a, {"metadata", .json = m});
}

/* The finalizers at a place without one; NULL: it is not there. */
static struct sw_json *finalizers_without(struct sw_arena *a, const struct sw_json *list,
                                          const char *finalizer)
{
    struct sw_json *left = sw_json_new_array(a);

    SW_JSON_ITEMS (it, list) {
        if (!sw_json_str_eq(it, finalizer))
            sw_json_push(a, left, it);
    }
    return sw_json_len(left) < sw_json_len(list) ? left : NULL;
}

static void drop_finalizer(struct gc_task *t, struct sw_arena *a, const struct gc_at *at,
                           const struct sw_json *obj, const char *finalizer)
{
    struct sw_json *left =
        finalizers_without(a, sw_json_walk(obj, "metadata", "finalizers", NULL), finalizer);

    if (left)
        gc_request(t, API_PATCH, at, NULL, meta_patch(a, obj, "finalizers", left));
}

static bool has_finalizer(const struct sw_json *obj, const char *f)
{
    return sw_field_list_has(sw_json_walk(obj, "metadata", "finalizers", NULL), sw_slice_str(f));
}

/* --- dependents ------------------------------------------------------------------------- */

enum owner_state { OWNER_SOLID, OWNER_ABSENT, OWNER_WAITS };

static enum owner_state look_up(struct api_gc *g, const struct sw_json *ref, struct sw_slice ns)
{
    SW_ARENA_AUTO a = {0}; /* an object may have a thousand owners, and an owner be large */
    const struct api_res *res = gc_owner_res(g->api, ref);
    const struct sw_json *obj;

    if (!res)
        return OWNER_SOLID; /* a kind we do not know: never delete on a guess */
    if (res->namespaced && ns.n == 0)
        return OWNER_ABSENT;
    obj = api_stored(g->api, &a, res, ns, api_str(ref, "name"));
    if (!obj || !sw_slice_eq(api_meta_str(obj, "uid"), api_str(ref, "uid")))
        return OWNER_ABSENT;
    return api_is_going(obj) && has_finalizer(obj, "foregroundDeletion") ? OWNER_WAITS
                                                                         : OWNER_SOLID;
}

static struct sw_json *delete_options(struct sw_arena *a, const struct sw_json *obj,
                                      const char *policy)
{
    struct sw_json *pre =
        SW_JSON_OF(a, {"uid", .text = api_meta_str(obj, "uid")},
                   {"resourceVersion", .text = api_meta_str(obj, "resourceVersion")});

    return SW_JSON_OF(a, {"propagationPolicy", .str = policy}, {"preconditions", .json = pre});
}

static bool has_dependents(struct api_gc *g, const struct sw_json *obj)
{
    const struct gc_owner *o = sw_map_get(&g->owners, api_meta_str(obj, "uid"));

    return o && o->deps.n;
}

static void run_dependent(struct gc_task *t)
{
    SW_ARENA_AUTO a = {0};
    struct gc_at at = gc_resolve(t->gc->api, t->key);
    struct sw_json *obj = gc_load(t->gc->api, &a, &at);
    const struct sw_json *refs = sw_json_walk(obj, "metadata", "ownerReferences", NULL);
    struct sw_json *solid = sw_json_new_array(&a);
    size_t waits = 0;
    size_t absent = 0;
    const char *policy = "Background";
    bool first; /* an owner waits: what depends on us goes before we do */

    if (!obj || sw_json_len(refs) == 0)
        return;
    if (api_is_going(obj)) {
        if (has_finalizer(obj, "foregroundDeletion"))
            gc_queue(t->gc, GC_FOREGROUND, t->key);
        return;
    }
    SW_JSON_ITEMS (it, refs) {
        enum owner_state st = look_up(t->gc, it, at.ns);

        waits += st == OWNER_WAITS;
        absent += st == OWNER_ABSENT;
        if (st == OWNER_SOLID)
            sw_json_push(&a, solid, it);
    }
    if (sw_json_len(solid)) {
        if (waits + absent)
            gc_request(t, API_PATCH, &at, NULL, meta_patch(&a, obj, "ownerReferences", solid));
        return;
    }
    first = waits && has_dependents(t->gc, obj);
    if (!first && has_finalizer(obj, "orphan"))
        policy = "Orphan";
    else if (first || has_finalizer(obj, "foregroundDeletion"))
        policy = "Foreground";
    gc_request(t, API_DELETE, &at, NULL, delete_options(&a, obj, policy));
}

static void run_foreground(struct gc_task *t)
{
    SW_ARENA_AUTO a = {0};
    struct gc_at at = gc_resolve(t->gc->api, t->key);
    struct sw_json *obj = gc_load(t->gc->api, &a, &at);
    const struct gc_owner *o;
    bool blocked = false;

    if (!obj || !api_is_going(obj) || !has_finalizer(obj, "foregroundDeletion"))
        return;
    o = sw_map_get(&t->gc->owners, api_meta_str(obj, "uid"));
    for (size_t i = 0; o && i < o->deps.n; i++) {
        const struct gc_dep *d = o->deps.p[i];

        for (size_t k = 0; k < d->owners.n; k++) {
            if (d->owners.p[k] == o && d->blocks.p[k])
                blocked = true;
        }
        gc_queue(t->gc, GC_DEPENDENT, d->key);
    }
    if (!blocked)
        drop_finalizer(t, &a, &at, obj, "foregroundDeletion");
}

static void let_go(struct gc_task *t, const struct gc_dep *d, struct sw_slice uid)
{
    SW_ARENA_AUTO a = {0};
    struct gc_at at = gc_resolve(t->gc->api, d->key);
    struct sw_json *obj = gc_load(t->gc->api, &a, &at);
    const struct sw_json *refs = sw_json_walk(obj, "metadata", "ownerReferences", NULL);
    struct sw_json *left = sw_json_new_array(&a);

    SW_JSON_ITEMS (it, refs) {
        if (!sw_slice_eq(api_str(it, "uid"), uid))
            sw_json_push(&a, left, it);
    }
    if (obj)
        gc_request(t, API_PATCH, &at, NULL, meta_patch(&a, obj, "ownerReferences", left));
}

static void run_orphan(struct gc_task *t)
{
    SW_ARENA_AUTO a = {0};
    struct gc_at at = gc_resolve(t->gc->api, t->key);
    struct sw_json *obj = gc_load(t->gc->api, &a, &at);
    const struct gc_owner *o;

    if (!obj || !api_is_going(obj) || !has_finalizer(obj, "orphan"))
        return;
    o = sw_map_get(&t->gc->owners, api_meta_str(obj, "uid"));
    if (!o || o->deps.n == 0) {
        drop_finalizer(t, &a, &at, obj, "orphan");
        return;
    }
    for (size_t i = 0; i < o->deps.n; i++)
        let_go(t, o->deps.p[i], o->uid);
    t->again = true; /* when they are free, the owner may go */
}

/* --- namespaces ------------------------------------------------------------------------- */

/* Our root certificate, for clients inside the namespace; put right when it is another one's. */
static void publish_root(struct gc_task *t, struct sw_slice ns)
{
    SW_ARENA_AUTO a = {0};
    struct sw_api *api = t->gc->api;
    struct gc_at at = {api_registry_core(&api->reg, "configmaps"), ns,
                       SW_SLICE_LIT("kube-root-ca.crt")};
    struct sw_json *obj = gc_load(api, &a, &at);
    struct sw_json *data = SW_JSON_OF(&a, {"ca.crt", .text = sw_ca_root_pem(api->ca)});
    bool fresh = !obj;

    if (obj &&
        (api_is_going(obj) || sw_json_equal(sw_json_find(obj, "data"), data, SW_JSON_EQ_VALUE)))
        return;
    if (fresh)
        obj = sw_json_new_object(&a);
    sw_json_put_str(&a, api_meta(&a, obj), "name", at.name);
    sw_json_put(&a, obj, "data", data);
    if (fresh)
        at.name = sw_slice("", 0);
    gc_request(t, fresh ? API_CREATE : API_UPDATE, &at, NULL, obj);
}

/* What every namespace has: the default service account and our root certificate. */
static void fill_namespace(struct gc_task *t, struct sw_slice ns)
{
    SW_ARENA_AUTO a = {0};
    struct gc_at at = {api_registry_core(&t->gc->api->reg, "serviceaccounts"), ns,
                       SW_SLICE_LIT("default")};

    if (!gc_load(t->gc->api, &a, &at)) {
        struct sw_json *obj = sw_json_new_object(&a);

        sw_json_put_str(&a, api_meta(&a, obj), "name", at.name);
        at.name = sw_slice("", 0);
        gc_request(t, API_CREATE, &at, NULL, obj);
    }
    publish_root(t, ns);
}

enum { DELETES_AT_ONCE = 200 }; /* some milliseconds of the loop */

struct emptying {
    struct gc_task *t;
    struct sw_store_snap *snap;
    struct sw_slice ns;
    size_t left;
    unsigned before;        /* requests that were under way */
    struct gc_left *report; /* NULL: not requested */
};

/* Deletes all of one kind; counts what is still there. */
static void empty_kind(const struct api_res *res, void *arg)
{
    struct emptying *e = arg;
    SW_ARENA_AUTO a = {0};
    const struct sw_json *opts = SW_JSON_OF(&a, {"propagationPolicy", .str = "Background"});

    if (e->ns.n && !res->namespaced)
        return;
    SW_STORE_EACH (o, e->snap, api_prefix(&a, res, e->ns)) {
        struct gc_at at = {.res = res};
        bool going = memmem(o->value.p, o->value.n, "\"deletionTimestamp\"", 19) != NULL;

        e->left++;
        if (e->t->running > DELETES_AT_ONCE)
            return; /* the rest in the next round */
        /* While something is being deleted it is too early to tell what stays. */
        if (e->report && going && e->t->running == e->before)
            gc_left_add(e->report, res, o);
        if (going)
            continue; /* it waits for its finalizers */
        api_split_key(res, o->key, &at.ns, &at.name);
        gc_request(e->t, API_DELETE, &at, NULL, opts);
    }
}

static void run_namespace(struct gc_task *t)
{
    SW_ARENA_AUTO a = {0};
    struct sw_api *api = t->gc->api;
    struct gc_at at = gc_resolve(api, t->key);
    struct sw_json *obj = gc_load(api, &a, &at);
    struct gc_left left = {.arena = &a};
    struct emptying e = {.t = t, .ns = at.name, .before = t->running, .report = &left};
    struct sw_json *others;

    if (!obj)
        return;
    if (!api_is_going(obj)) {
        fill_namespace(t, at.name);
        return;
    }
    e.snap = sw_store_snapshot(api->store);
    api_registry_each_stored(&api->reg, empty_kind, &e);
    sw_store_snap_unref(e.snap);
    if (t->running > e.before)
        t->again = true; /* see what stays when these are done */
    else if (e.left && gc_left_report(&left, obj))
        gc_request(t, API_UPDATE, &at, "status", obj);
    gc_left_done(&left);
    others = finalizers_without(&a, sw_json_walk(obj, "spec", "finalizers", NULL), "kubernetes");
    if (e.left || !others)
        return; /* the last deletion brings us back */
    sw_json_put(&a, sw_json_find(obj, "spec"), "finalizers", others);
    gc_request(t, API_UPDATE, &at, "finalize", obj);
}

/* --- CRDs ------------------------------------------------------------------------------- */

static void run_crd(struct gc_task *t)
{
    SW_ARENA_AUTO a = {0};
    struct sw_api *api = t->gc->api;
    struct gc_at at = gc_resolve(api, t->key);
    struct sw_json *obj = gc_load(api, &a, &at);
    struct api_crd *c = sw_map_get(&api->reg.crds, at.name);
    struct emptying e = {.t = t, .ns = sw_slice("", 0)};

    if (!obj || !api_is_going(obj))
        return;
    if (c && c->n) {
        e.snap = sw_store_snapshot(api->store);
        empty_kind(&c->vers[0], &e);
        sw_store_snap_unref(e.snap);
    }
    if (e.left == 0)
        drop_finalizer(t, &a, &at, obj, "customresourcecleanup.apiextensions.k8s.io");
}

/* --- aggregated cluster roles ----------------------------------------------------------- */

static void collect_rules(struct sw_arena *a, struct sw_json *const *roles, size_t n,
                          const struct sw_json *selectors, const struct sw_json *self,
                          struct sw_json *out)
{
    struct sw_map there = {0};

    SW_JSON_ITEMS (it, selectors) {
        struct sw_label_selector sel;
        const char *why;

        if (sw_label_selector_from_json(a, it, &sel, &why) != SW_OK)
            continue;
        for (size_t i = 0; i < n; i++) {
            const struct sw_json *rules = sw_json_find(roles[i], "rules");

            if (sw_slice_eq(api_meta_str(roles[i], "name"), api_meta_str(self, "name")) ||
                !sw_label_selector_match(&sel, sw_json_walk(roles[i], "metadata", "labels", NULL)))
                continue;
            SW_JSON_ITEMS (rule, rules) {
                if (!sw_map_put(&there, sw_json_sorted_text(a, rule), rule))
                    sw_json_push(a, out, rule);
            }
        }
    }
    sw_map_done(&there);
}

static void run_aggregate(struct gc_task *t)
{
    SW_ARENA_AUTO a = {0};
    struct sw_api *api = t->gc->api;
    const struct api_res *res =
        api_registry_v1(&api->reg, "rbac.authorization.k8s.io", "clusterroles");
    SW_STORE_SNAP_AUTO snap = sw_store_snapshot(api->store);
    SW_VEC(struct sw_json *) roles = {0};

    SW_STORE_EACH (o, snap, sw_slice_str(res->prefix)) {
        struct sw_json *obj = api_load(&a, res, o);

        if (obj)
            sw_vec_push(&roles, obj);
    }
    for (size_t i = 0; i < roles.n; i++) {
        const struct sw_json *sel =
            sw_json_walk(roles.p[i], "aggregationRule", "clusterRoleSelectors", NULL);
        struct sw_json *rules = sw_json_new_array(&a);
        struct sw_json *patch;

        if (!sel)
            continue;
        collect_rules(&a, roles.p, roles.n, sel, roles.p[i], rules);
        if (sw_json_equal(rules, sw_json_find(roles.p[i], "rules"), SW_JSON_EQ_VALUE) ||
            (sw_json_len(rules) == 0 && sw_json_len(sw_json_find(roles.p[i], "rules")) == 0))
            continue;
        patch = meta_patch(&a, roles.p[i], NULL, NULL);
        sw_json_put(&a, patch, "rules", rules);
        gc_request(t, API_PATCH,
                   &(struct gc_at){res, sw_slice("", 0), api_meta_str(roles.p[i], "name")}, NULL,
                   patch);
    }
    sw_vec_done(&roles);
}

void gc_run(struct gc_task *t)
{
    static void (*const runs[])(struct gc_task * t) = {
        [GC_DEPENDENT] = run_dependent,
        [GC_FOREGROUND] = run_foreground,
        [GC_ORPHAN] = run_orphan,
        [GC_NAMESPACE] = run_namespace,
        [GC_CRD] = run_crd,
        [GC_AGGREGATE] = run_aggregate,
        [GC_TOKEN] = gc_run_token,
        [GC_QUOTA] = gc_run_quota,
        [GC_SLICES] = gc_run_slices,
    };

    runs[t->kind](t);
}
