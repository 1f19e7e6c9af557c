/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots out of the store: at most one per turn, sharing what did not change. */

#include "base/mem.h"
#include "base/search.h"
#include "gateway/config/config.h"
#include "gateway/config/routes.h"
#include "gateway/upstream/cluster.h"
#include "gateway/xds/store.h"
#include "gateway/xds/store_int.h"

static void publish(struct sw_gw_store *s);

static void on_publish(struct sw_defer *d);

void sw_gw_store_changed_cluster(struct sw_gw_store *s, struct sw_slice name)
{
    s->shard_dirty[sw_gw_shard_of(name)] = true;
    sw_gw_store_changed(s, SW_GW_TYPE_CLUSTER);
}

void sw_gw_store_changed(struct sw_gw_store *s, enum sw_gw_type t)
{
    s->dirty[t] = true;
    if (s->o.loop)
        sw_loop_defer(s->o.loop, &s->publish, on_publish);
}

static void unref_listener(void *p)
{
    (void)sw_gw_listener_unref(p);
}

static void unref_routes(void *p)
{
    (void)sw_gw_routes_unref(p);
}

static void unref_cluster(void *p)
{
    (void)sw_gw_cluster_unref(p);
}

static void *ref_active(struct sw_gw_res *r)
{
    switch (r->type) {
    case SW_GW_TYPE_LISTENER:
        return r->listener ? sw_gw_listener_ref(r->listener) : NULL;
    case SW_GW_TYPE_ROUTES:
        return r->routes ? sw_gw_routes_ref(r->routes) : NULL;
    case SW_GW_TYPE_CLUSTER:
        return r->cluster ? sw_gw_cluster_ref(r->cluster) : NULL;
    case SW_GW_TYPE_ENDPOINTS:
    case SW_GW_TYPE_SECRET:
        break;
    }
    return NULL;
}

static struct sw_slice active_name(const struct sw_gw_res *r, void *object)
{
    /* A key that lives as long as the object, not as the resource. */
    switch (r->type) {
    case SW_GW_TYPE_LISTENER:
        return ((struct sw_gw_listener *)object)->name;
    case SW_GW_TYPE_CLUSTER:
        return ((struct sw_gw_cluster *)object)->spec->name;
    case SW_GW_TYPE_ROUTES:
        return sw_gw_routes_name(object);
    case SW_GW_TYPE_ENDPOINTS:
    case SW_GW_TYPE_SECRET:
        break;
    }
    return r->name;
}

static struct sw_gw_set *make_set(struct sw_gw_store *s, enum sw_gw_type t, void (*unref)(void *))
{
    struct sw_gw_set *set;

    if (!s->dirty[t] && s->sets[t]) {
        atomic_fetch_add_explicit(&s->sets[t]->refs, 1, memory_order_relaxed);
        return s->sets[t];
    }
    set = SW_NEW(struct sw_gw_set);
    atomic_init(&set->refs, 2); /* the store's and the snapshot's */
    set->unref = unref;
    SW_MAP_EACH (struct sw_gw_res, r, &s->res[t]) {
        void *o = ref_active(r);

        if (o)
            (void)sw_map_put(&set->map, active_name(r, o), o);
    }
    (void)sw_gw_set_unref(s->sets[t]);
    s->sets[t] = set;
    s->dirty[t] = false;
    return set;
}

/* One set of clusters again. */
static struct sw_gw_set *make_shard(const struct sw_gw_store *s, unsigned i)
{
    struct sw_gw_set *set = SW_NEW(struct sw_gw_set);

    atomic_init(&set->refs, 1);
    set->unref = unref_cluster;
    for (size_t k = 0; k < s->shard_res[i].n; k++) {
        void *o = ref_active(s->shard_res[i].p[k]);

        if (o)
            (void)sw_map_put(&set->map, active_name(s->shard_res[i].p[k], o), o);
    }
    return set;
}

static struct sw_gw_shards *make_shards(struct sw_gw_store *s)
{
    const struct sw_gw_shards *old = s->shards;
    struct sw_gw_shards *now;

    if (old && !s->dirty[SW_GW_TYPE_CLUSTER]) {
        atomic_fetch_add_explicit(&s->shards->refs, 1, memory_order_relaxed);
        return s->shards;
    }
    now = SW_NEW(struct sw_gw_shards);
    atomic_init(&now->refs, 2); /* the store's and the snapshot's */
    now->serial = s->version;
    for (unsigned i = 0; i < SW_GW_SHARDS; i++) {
        if (!old || s->shard_dirty[i]) {
            now->set[i] = make_shard(s, i);
        } else {
            now->set[i] = old->set[i];
            atomic_fetch_add_explicit(&now->set[i]->refs, 1, memory_order_relaxed);
        }
        s->shard_dirty[i] = false;
    }
    s->dirty[SW_GW_TYPE_CLUSTER] = false;
    (void)sw_gw_shards_unref(s->shards);
    s->shards = now;
    return now;
}

static void on_publish(struct sw_defer *d)
{
    struct sw_gw_store *s = SW_CONTAINER_OF(d, struct sw_gw_store, publish);

    /* The first snapshot is complete: a worker must not become ready without its listeners. */
    if (s->version > 0 || sw_gw_store_ready(s))
        publish(s);
}

static void publish(struct sw_gw_store *s)
{
    struct sw_gw_config *c = SW_NEW(struct sw_gw_config);

    atomic_init(&c->refs, 1);
    c->version = ++s->version;
    c->listeners = make_set(s, SW_GW_TYPE_LISTENER, unref_listener);
    c->routes = make_set(s, SW_GW_TYPE_ROUTES, unref_routes);
    c->clusters = make_shards(s);
    c->list = SW_NEW_ARRAY(struct sw_gw_listener *, c->listeners->map.n + 1);
    SW_MAP_FOREACH (it, &c->listeners->map)
        c->list[c->n_list++] = it->value;
    SW_SORT_POINTERS_BY(c->list, c->n_list, name);
    (void)sw_gw_config_unref(s->current);
    s->current = sw_gw_config_ref(c);
    if (s->o.on_config)
        s->o.on_config(c, s->o.arg);
    else
        (void)sw_gw_config_unref(c);
}

void sw_gw_store_flush(struct sw_gw_store *s)
{
    sw_defer_cancel(&s->publish);
    publish(s);
}

bool sw_gw_store_rebinds(const struct sw_gw_store *s)
{
    return s->dirty[SW_GW_TYPE_LISTENER] && (s->version > 0 || sw_gw_store_ready(s));
}

struct sw_gw_config *sw_gw_store_config(struct sw_gw_store *s)
{
    return s->current;
}
