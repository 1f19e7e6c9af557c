/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one build leaves for the next: routes compiled and attached, with the memory they live in,
 * and the clusters they name. All of that follows from the route's object, from Services, grants,
 * policies and secrets, and from Gateways, ListenerSets and namespaces; while none of these changed
 * it is taken as it is. Everything else is made anew each time, so that there is little to go
 * stale.
 */
#include "base/mem.h"
#include "control/connector/build.h"
#include "control/gateway/build_int.h"
#include "control/runtime_int.h"

/* Clusters nobody names any more stay until the cache is emptied; that is when. */
enum { COMPILED_MAX = 20000 };

struct kept_list {
    struct kept **p;
    size_t n;
    size_t at; /* of the old list: the next that may be reused */
};

struct sw_gateway_cache {
    struct sw_view *view; /* of the last build: keeps alive what is pointed to */
    struct sw_arena arena;
    struct sw_map clusters;
    struct kept_list lists[RK_COUNT];
    struct kept_list fresh[RK_COUNT]; /* of the build under way */
    size_t compiled;                  /* since it was emptied */
};

struct sw_gateway_cache *sw_gateway_cache_new(void)
{
    return SW_NEW(struct sw_gateway_cache);
}

static void kept_free(struct kept *k)
{
    sw_vec_done(&k->route.services);
    sw_vec_done(&k->route.sticky);
    sw_arena_clear(&k->arena);
    sw_free(k);
}

static void drop_routes(struct kept_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        if (l->p[i])
            kept_free(l->p[i]);
    }
    sw_free(l->p);
    *l = (struct kept_list){0};
}

static void empty(struct sw_gateway_cache *c)
{
    for (size_t k = 0; k < RK_COUNT; k++)
        drop_routes(&c->lists[k]);
    sw_map_done(&c->clusters);
    c->clusters = (struct sw_map){0};
    sw_arena_clear(&c->arena);
    c->compiled = 0;
}

void sw_gateway_cache_free(struct sw_gateway_cache *c)
{
    if (!c)
        return;
    empty(c);
    view_unref(c->view);
    sw_free(c);
}

/* True when the kind has the same objects, or the same but for their statuses. */
static bool same_kind(const struct sw_view *x, const struct sw_view *y, enum sw_gw_kind kind,
                      bool status_too)
{
    size_t n = sw_view_count(x, kind);

    if (x->kinds[kind] == y->kinds[kind])
        return true;
    if (n != sw_view_count(y, kind))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct sw_kube_obj *a = sw_view_at(x, kind, i);
        const struct sw_kube_obj *b = sw_view_at(y, kind, i);

        if (a == b)
            continue;
        /* Addresses are read from statuses; the rest of them is only written. */
        if (status_too || !sw_slice_eq(a->uid, b->uid) || !a->uid.n || !generation_of(a) ||
            generation_of(a) != generation_of(b) ||
            !sw_json_equal(sw_json_walk(a->json, "status", "addresses", NULL),
                           sw_json_walk(b->json, "status", "addresses", NULL), SW_JSON_EQ_TEXT))
            return false;
    }
    return true;
}

/* Of Connectors it only matters who is there and who is away. */
static bool same_connectors(const struct sw_view *x, const struct sw_view *y)
{
    size_t n = sw_view_count(x, SW_GW_CONNECTOR);

    if (x->kinds[SW_GW_CONNECTOR] == y->kinds[SW_GW_CONNECTOR])
        return true;
    if (n != sw_view_count(y, SW_GW_CONNECTOR))
        return false;
    for (size_t i = 0; i < n; i++) {
        const struct sw_kube_obj *a = sw_view_at(x, SW_GW_CONNECTOR, i);
        const struct sw_kube_obj *b = sw_view_at(y, SW_GW_CONNECTOR, i);

        if (a != b && (!sw_slice_eq(a->key, b->key) ||
                       !sw_connector_online(a->json).n != !sw_connector_online(b->json).n ||
                       !sw_json_equal(sw_json_walk(a->json, "metadata", "annotations", NULL),
                                      sw_json_walk(b->json, "metadata", "annotations", NULL),
                                      SW_JSON_EQ_TEXT)))
            return false;
    }
    return true;
}

/* Nothing that compiled routes follow from, besides the routes themselves, is different. */
static bool same_world(const struct sw_view *x, const struct sw_view *y)
{
    static const enum sw_gw_kind whole[] = {SW_GW_CLASS,    SW_GW_GRANT,  SW_GW_BACKENDTLS,
                                            SW_GW_SERVICE,  SW_GW_SECRET, SW_GW_CONFIGMAP,
                                            SW_GW_NAMESPACE};

    for (size_t i = 0; i < SW_ARRAY_LEN(whole); i++) {
        if (!same_kind(x, y, whole[i], true))
            return false;
    }
    if (!same_connectors(x, y) || !same_kind(x, y, SW_GW_BACKENDSLICE, true) ||
        !same_kind(x, y, SW_GW_ADVERTISEMENT, true))
        return false;
    /* Their statuses change whenever a route comes or goes. */
    return same_kind(x, y, SW_GW_GATEWAY, false) && same_kind(x, y, SW_GW_LISTENERSET, false);
}

void cache_begin(struct builder *b)
{
    struct sw_gateway_cache *c = b->cache;

    if (!c->view || c->compiled > COMPILED_MAX + 2 * c->lists[RK_HTTP].n ||
        !same_world(c->view, b->v))
        empty(c);
    b->keep = &c->arena;
    b->clusters = c->clusters;
    SW_MAP_FOREACH (it, &b->clusters) {
        struct own_cluster *own = own_cluster(it->value);

        own->used = false;
        own->c.sticky = false;
    }
    for (size_t k = 0; k < RK_COUNT; k++) {
        size_t n = sw_view_count(b->v, route_view_kinds[k]);

        c->lists[k].at = 0;
        c->fresh[k] = (struct kept_list){.p = SW_NEW_ARRAY(struct kept *, n + 1)};
    }
}

/* Both lists are ordered by key, so what is not passed over is found by going forward. */
static struct kept *take(struct kept_list *l, const struct sw_kube_obj *o)
{
    while (l->at < l->n) {
        struct kept *k = l->p[l->at];

        if (k->route.obj == o) {
            l->p[l->at++] = NULL;
            return k;
        }
        if (sw_slice_cmp(k->route.obj->key, o->key) > 0)
            return NULL;
        l->at++;
    }
    return NULL;
}

struct kept *cache_route(struct builder *b, enum route_kind kind, const struct sw_kube_obj *o)
{
    struct sw_gateway_cache *c = b->cache;
    struct kept *k = take(&c->lists[kind], o);

    if (!k) {
        k = SW_NEW(struct kept);
        k->route = (struct route){.obj = o, .kind = kind, .arena = &k->arena};
        c->compiled++;
    }
    c->fresh[kind].p[c->fresh[kind].n++] = k;
    for (size_t i = 0; i < k->route.sticky.n; i++)
        k->route.sticky.p[i]->sticky = true;
    return k;
}

void cache_end(struct builder *b)
{
    struct sw_gateway_cache *c = b->cache;

    for (size_t k = 0; k < RK_COUNT; k++) {
        drop_routes(&c->lists[k]);
        c->lists[k] = c->fresh[k];
        c->fresh[k] = (struct kept_list){0};
    }
    c->clusters = b->clusters;
    b->clusters = (struct sw_map){0};
    view_unref(c->view);
    c->view = view_ref((struct sw_view *)(uintptr_t)b->v);
}

struct sw_gw_memo *new_memo(const struct builder *b, const struct route *r)
{
    struct sw_gw_memo *m;

    if (!b->cache)
        return NULL;
    m = SW_ARENA_NEW(r->arena, struct sw_gw_memo);
    m->arena = r->arena;
    return m;
}
