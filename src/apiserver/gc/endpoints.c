/* SPDX-License-Identifier: Apache-2.0 */
/*
 * EndpointSlices of Services with selectors, as a cluster's controller makes them: pods and
 * Services are followed, and the slices of a Service are brought in line when one of its pods
 * changed.
 */
#include <string.h>

#include "apiserver/gc/gc_int.h"
#include "apiserver/gc/slices.h"
#include "base/time.h"
#include "kube/fields.h"

#define PODS     "/pods/"
#define SERVICES "/services/"
#define SLICES   "discovery.k8s.io/endpointslices/"

/*
 * All pods of a Service are looked at when one changed. While many change, this many times as long
 * as the last look took is left to others, and one look serves all changes until then.
 */
enum { REST = 9 };

static bool is_of(struct sw_slice key, const char *prefix)
{
    return sw_slice_has_prefix(key, sw_slice_str(prefix));
}

/* "PREFIX NS/NAME" apart. */
static void split(struct sw_slice key, const char *prefix, struct sw_slice *ret_ns,
                  struct sw_slice *ret_name)
{
    *ret_name = sw_slice_from(key, strlen(prefix));
    *ret_ns = sw_slice_cut(ret_name, '/');
}

static void queue_service(void *arg, struct sw_slice key)
{
    gc_queue(arg, GC_SLICES, key);
}

/* A slice of ours was written or deleted, maybe by another client: reconcile its Service. */
static void slice_changed(struct api_gc *g, const struct sw_store_obj *o)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice service;

    if (!memmem(o->value.p, o->value.n, GC_SLICE_MANAGER, strlen(GC_SLICE_MANAGER)))
        return;
    split(o->key, SLICES, &ns, &name);
    service = sw_json_str(sw_json_walk(api_parse_stored(&a, o), "metadata", "labels",
                                       "kubernetes.io/service-name", NULL));
    if (service.n)
        gc_queue(g, GC_SLICES,
                 sw_slice_str(sw_arena_printf(&a, SERVICES "%.*s/%.*s", SW_SLICE_ARG(ns),
                                              SW_SLICE_ARG(service))));
}

void gc_endpoints_changed(struct api_gc *g, struct sw_slice key, const struct sw_store_obj *now,
                          const struct sw_store_obj *was)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice digest = sw_slice("", 0);
    struct sw_slice ns;
    struct sw_slice name;

    if (is_of(key, PODS)) {
        split(key, PODS, &ns, &name);
        if (now)
            digest = gc_pod_digest(&a, api_parse_stored(&a, now));
        gc_pods_set(g->pods, ns, name, digest, queue_service, g);
    } else if (is_of(key, SERVICES)) { /* the slices of one that is gone go with their owner */
        const struct sw_json *svc = now ? api_parse_stored(&a, now) : NULL;

        split(key, SERVICES, &ns, &name);
        gc_pods_set_service(g->pods, ns, key, sw_json_walk(svc, "spec", "selector", NULL));
        if (now)
            gc_queue(g, GC_SLICES, key);
    } else if (is_of(key, SLICES) && (now || was)) {
        slice_changed(g, now ? now : was);
    }
}

/* ---- the task ---- */

struct zones {
    struct sw_api *api;
    struct sw_arena *arena;
    struct sw_map known; /* node -> text */
};

static struct sw_slice zone_of(void *arg, struct sw_slice node)
{
    struct zones *z = arg;
    const struct gc_at at = {
        .res = api_registry_core(&z->api->reg, "nodes"), .ns = sw_slice("", 0), .name = node};
    const char *text = sw_map_get(&z->known, node);

    if (!text) {
        text = sw_arena_dup(
            z->arena, sw_json_str(sw_json_walk(gc_load(z->api, z->arena, &at), "metadata", "labels",
                                               "topology.kubernetes.io/zone", NULL)));
        (void)sw_map_put(&z->known, sw_arena_slice(z->arena, node), (void *)(uintptr_t)text);
    }
    return sw_slice_str(text);
}

static const struct api_res *slices_res(struct sw_api *api)
{
    return api_registry_v1(&api->reg, "discovery.k8s.io", "endpointslices");
}

/* Slices whose owner is the Service and whose managed-by label names us. */
static void load_slices(struct api_gc *g, struct gc_slices *s, struct sw_slice uid)
{
    const struct gc_owner *owner = sw_map_get(&g->owners, uid);

    for (size_t i = 0; owner && i < owner->deps.n; i++) {
        struct gc_at at = gc_resolve(g->api, owner->deps.p[i]->key);
        struct gc_slice x = {0};

        if (!is_of(owner->deps.p[i]->key, SLICES))
            continue;
        x.old = gc_load(g->api, s->arena, &at);
        if (sw_json_str_eq(sw_json_walk(x.old, "metadata", "labels",
                                        "endpointslice.kubernetes.io/managed-by", NULL),
                           GC_SLICE_MANAGER) &&
            !api_is_going(x.old))
            sw_vec_push(&s->all, x);
    }
}

/* Writes the differences: new slices first, so that no endpoint is missing meanwhile. */
static void write_slices(struct gc_task *t, const struct gc_slices *s, struct sw_slice ns)
{
    struct gc_at at = {.res = slices_res(t->gc->api), .ns = ns, .name = sw_slice("", 0)};
    struct sw_json *none = sw_json_new_object(s->arena);

    for (size_t i = 0; i < s->all.n; i++) {
        if (!s->all.p[i].old)
            gc_request(t, API_CREATE, &at, NULL, s->all.p[i].want);
    }
    for (size_t i = 0; i < s->all.n; i++) {
        const struct gc_slice *x = &s->all.p[i];

        if (!x->old || x->want == x->old)
            continue;
        at.name = api_meta_str(x->old, "name");
        gc_request(t, x->want ? API_UPDATE : API_DELETE, &at, NULL, x->want ? x->want : none);
    }
}

static void make_slices(struct gc_task *t, const struct gc_at *at)
{
    SW_ARENA_AUTO a = {0};
    struct api_gc *g = t->gc;
    struct zones z = {.api = g->api, .arena = &a};
    struct gc_slices s = {.arena = &a,
                          .service = gc_load(g->api, &a, at),
                          .loopback_ok = g->api->loopback_endpoints,
                          .zone = zone_of,
                          .arg = &z};

    if (s.service && !api_is_going(s.service)) {
        load_slices(g, &s, api_meta_str(s.service, "uid"));
        gc_slices_plan(&s, g->pods);
        write_slices(t, &s, at->ns);
    }
    sw_vec_done(&s.all);
    sw_map_done(&z.known);
}

void gc_run_slices(struct gc_task *t)
{
    struct gc_at at = gc_resolve(t->gc->api, t->key);
    uint64_t *next_ns = gc_pods_pace(t->gc->pods, at.ns, t->key);
    uint64_t begin = sw_now_ns();

    if (next_ns && *next_ns > begin) {
        gc_later(t, *next_ns - begin);
        return;
    }
    make_slices(t, &at);
    if (next_ns)
        *next_ns = sw_now_ns() + (sw_now_ns() - begin) * REST;
}
