/* SPDX-License-Identifier: Apache-2.0 */
#include "apiserver/api/res.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "kube/crd/crd.h"
#include "kube/crd/schema.h"

static const char *join_version(struct sw_arena *a, const char *group, const char *version)
{
    return *group ? sw_arena_printf(a, "%s/%s", group, version)
                  : sw_arena_dup(a, sw_slice_str(version));
}

static bool has_sub(const struct sw_builtin *b, const char *name)
{
    for (const struct sw_builtin_sub *s = b->subs; s && s->name; s++) {
        if (strcmp(s->name, name) == 0)
            return true;
    }
    return false;
}

/* Both groups of events are views of one set of objects, as are both versions of autoscaling. */
static const char *storage_group(const struct sw_builtin *b)
{
    return strcmp(b->group, "events.k8s.io") == 0 ? "" : b->group;
}

static bool is_stored_shape(const struct sw_builtin *b)
{
    return strcmp(b->group, "events.k8s.io") != 0 &&
           strcmp(b->type, "HorizontalPodAutoscalerV1") != 0;
}

void api_registry_init(struct api_registry *g)
{
    size_t n;
    const struct sw_builtin *b = sw_builtins(&n);

    *g = (struct api_registry){.n_builtins = n, .generation = 1};
    g->builtins = sw_arena_array(&g->arena, n + 1, sizeof(*g->builtins));
    for (size_t i = 0; i < n; i++) {
        struct api_res *r = &g->builtins[i];

        *r = (struct api_res){
            .group = b[i].group,
            .version = b[i].version,
            .api_version = join_version(&g->arena, b[i].group, b[i].version),
            .plural = b[i].plural,
            .singular = b[i].singular,
            .kind = b[i].kind,
            .list_kind = sw_arena_printf(&g->arena, "%sList", b[i].kind),
            .short_names = b[i].short_names,
            .categories = b[i].categories,
            .prefix = sw_arena_printf(&g->arena, "%s/%s/", storage_group(&b[i]), b[i].plural),
            .namespaced = b[i].namespaced,
            .verbs = b[i].verbs,
            .flags = b[i].flags,
            .has_status = has_sub(&b[i], "status"),
            .builtin = &b[i],
            .schema = sw_builtin_schema(b[i].type),
            .selectors = b[i].selectors,
            .served = true,
            .storage = is_stored_shape(&b[i]),
        };
        if (has_sub(&b[i], "scale")) {
            r->has_scale = true;
            r->scale_spec = ".spec.replicas";
            r->scale_status = ".status.replicas";
            r->scale_selector = ".spec.selector";
        }
        if (strcmp(b[i].type, "Endpoints") == 0)
            r->deprecated = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 "
                            "EndpointSlice";
    }
}

struct api_crd *api_crd_ref(struct api_crd *c)
{
    c->refs++;
    return c;
}

struct api_crd *api_crd_unref(struct api_crd *c)
{
    if (c && --c->refs == 0) {
        for (size_t i = 0; i < c->n; i++)
            sw_schema_set_done(&c->sets[i]);
        sw_arena_clear(&c->arena);
        sw_free(c);
    }
    return NULL;
}

void api_registry_done(struct api_registry *g)
{
    SW_MAP_DRAIN(&g->crds, api_crd_unref);
    sw_arena_clear(&g->arena);
}

static bool is(const char *s, struct sw_slice x)
{
    return sw_slice_eq(sw_slice_str(s), x);
}

const struct api_res *api_registry_find(const struct api_registry *g, struct sw_slice group,
                                        struct sw_slice version, struct sw_slice plural)
{
    SW_ARENA_AUTO tmp = {0};
    struct api_crd *c;

    for (size_t i = 0; i < g->n_builtins; i++) {
        const struct api_res *r = &g->builtins[i];

        if (is(r->plural, plural) && is(r->group, group) && is(r->version, version))
            return r;
    }
    c = sw_map_get(&g->crds, sw_slice_str(sw_arena_printf(&tmp, "%.*s.%.*s", SW_SLICE_ARG(plural),
                                                          SW_SLICE_ARG(group))));
    for (size_t i = 0; c && c->established && i < c->n; i++) {
        if (c->vers[i].served && is(c->vers[i].version, version))
            return &c->vers[i];
    }
    return NULL;
}

const struct api_res *api_registry_v1(const struct api_registry *g, const char *group,
                                      const char *plural)
{
    return api_registry_find(g, sw_slice_str(group), SW_SLICE_LIT("v1"), sw_slice_str(plural));
}

const struct api_res *api_registry_core(const struct api_registry *g, const char *plural)
{
    return api_registry_v1(g, "", plural);
}

/* The first that is served of these; p == NULL: any. */
static const struct api_res *first_of(const struct api_registry *g, struct sw_slice group,
                                      struct sw_slice version, struct sw_slice kind)
{
    for (size_t i = 0; i < g->n_builtins; i++) {
        const struct api_res *r = &g->builtins[i];

        if ((!kind.p || is(r->kind, kind)) && is(r->group, group) &&
            (!version.p || is(r->version, version)))
            return r;
    }
    SW_MAP_EACH (const struct api_crd, c, &g->crds) {
        for (size_t i = 0; c->established && is(c->group, group) && i < c->n; i++) {
            if (c->vers[i].served && (!version.p || is(c->vers[i].version, version)) &&
                (!kind.p || is(c->vers[i].kind, kind)))
                return &c->vers[i];
        }
    }
    return NULL;
}

const struct api_res *api_registry_kind(const struct api_registry *g, struct sw_slice group,
                                        struct sw_slice version, struct sw_slice kind)
{
    return first_of(g, group, version.p ? version : sw_slice("", 0),
                    kind.p ? kind : sw_slice("", 0));
}

bool api_registry_has_group(const struct api_registry *g, struct sw_slice group,
                            struct sw_slice version)
{
    return first_of(g, group, version.n ? version : (struct sw_slice){0}, (struct sw_slice){0});
}

void api_registry_set_crd(struct api_registry *g, struct sw_slice name, struct api_crd *crd)
{
    struct api_crd *old = sw_map_del(&g->crds, name);

    api_crd_unref(old);
    if (crd)
        (void)sw_map_put(&g->crds, sw_slice_str(crd->name), crd);
    g->generation++;
}

/* Workers and the loop may both be the first to need a schema. */
static pthread_mutex_t compiling = PTHREAD_MUTEX_INITIALIZER;

bool api_res_compiled(const struct api_res *res)
{
    return !res->crd || atomic_load_explicit(&res->crd->ready[res->index], memory_order_acquire);
}

const struct sw_schema *api_res_schema(const struct api_res *res)
{
    static const struct sw_schema_opts stored = {.stored = true};
    struct sw_schema_set *set;
    struct sw_field_errs e;
    SW_ARENA_AUTO tmp = {0};

    const struct sw_schema *ready;

    if (!res->crd)
        return res->schema;
    set = &res->crd->sets[res->index];
    ready = atomic_load_explicit(&res->crd->ready[res->index], memory_order_acquire);
    if (ready)
        return ready;
    (void)pthread_mutex_lock(&compiling);
    ready = atomic_load_explicit(&res->crd->ready[res->index], memory_order_relaxed);
    if (!ready) {
        sw_field_errs_init(&e, &tmp);
        /* It compiled when it was admitted; a rule that does not any more refuses every object. */
        if (sw_schema_compile_as(set, res->raw, &stored, NULL, &e) != SW_OK && !set->root)
            set->root = sw_schema_blank(&set->arena);
        ready = set->root;
        atomic_store_explicit(&res->crd->ready[res->index], ready, memory_order_release);
    }
    (void)pthread_mutex_unlock(&compiling);
    return ready;
}

const char *api_gr(struct sw_arena *a, const struct api_res *res)
{
    return *res->group ? sw_arena_printf(a, "%s.%s", res->plural, res->group) : res->plural;
}

struct sw_slice api_key(struct sw_arena *a, const struct api_res *res, struct sw_slice ns,
                        struct sw_slice name)
{
    if (res->namespaced)
        return sw_slice_str(
            sw_arena_printf(a, "%s%.*s/%.*s", res->prefix, SW_SLICE_ARG(ns), SW_SLICE_ARG(name)));
    return sw_slice_str(sw_arena_printf(a, "%s%.*s", res->prefix, SW_SLICE_ARG(name)));
}

/* --- order ------------------------------------------------------------------------------ */

static int cmp_res(const void *a, const void *b)
{
    const struct api_res *const *x = a;
    const struct api_res *const *y = b;
    int c = strcmp((*x)->group, (*y)->group);

    if (c == 0)
        c = sw_version_cmp(sw_slice_str((*x)->version), sw_slice_str((*y)->version));
    return c ? c : strcmp((*x)->plural, (*y)->plural);
}

void api_registry_each(const struct api_registry *g, api_res_fn f, void *arg)
{
    SW_VEC(const struct api_res *) all = {0};

    for (size_t i = 0; i < g->n_builtins; i++)
        sw_vec_push(&all, &g->builtins[i]);
    SW_MAP_EACH (struct api_crd, c, &g->crds) {
        for (size_t i = 0; c->established && i < c->n; i++) {
            if (c->vers[i].served)
                sw_vec_push(&all, &c->vers[i]);
        }
    }
    if (all.n)
        qsort(all.p, all.n, sizeof(*all.p), cmp_res);
    for (size_t i = 0; i < all.n; i++)
        f(all.p[i], arg);
    sw_vec_done(&all);
}

void api_registry_each_stored(const struct api_registry *g, api_res_fn f, void *arg)
{
    for (size_t i = 0; i < g->n_builtins; i++) {
        const struct api_res *r = &g->builtins[i];

        if (!(r->flags & SW_B_NOT_STORED) && r->storage)
            f(r, arg);
    }
    SW_MAP_EACH (struct api_crd, c, &g->crds) {
        for (size_t i = 0; c->established && i < c->n; i++) {
            if (c->vers[i].storage)
                f(&c->vers[i], arg);
        }
    }
}

const char *api_no_conversion(struct sw_arena *a, const struct api_res *res,
                              const struct api_res *as)
{
    if (!res->crd || !res->crd->by_webhook || (res->storage && as->storage))
        return NULL;
    for (size_t i = 0; i < res->crd->n; i++) {
        const struct api_res *v = &res->crd->vers[i];

        if (v->storage)
            return sw_arena_printf(a,
                                   "conversion webhook for %s, Kind=%s is not supported: this "
                                   "server serves only the storage version %s",
                                   v->api_version, v->kind, v->version);
    }
    return NULL;
}
