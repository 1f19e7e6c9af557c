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

/* What is in force of a resource. Keys live as long as the object, not as the resource. */
static void add_active(struct sw_gw_set *set, const struct sw_gw_res *r)
{
    if (r->listener)
        (void)sw_map_put(&set->map, r->listener->name, sw_gw_listener_ref(r->listener));
    else if (r->routes)
        (void)sw_map_put(&set->map, r->routes->name, sw_gw_routes_ref(r->routes));
    else if (r->cluster)
        (void)sw_map_put(&set->map, r->cluster->spec->name, sw_gw_cluster_ref(r->cluster));
}

static struct sw_gw_set *make_set(struct sw_gw_store *s, enum sw_gw_type t, void (*unref)(void *))
{
    struct sw_gw_set *set;

    if (!s->dirty[t] && s->sets[t]) {
        sw_gw_take_ref(&s->sets[t]->refs);
        return s->sets[t];
    }
    set = SW_NEW(struct sw_gw_set);
    atomic_init(&set->refs, 2); /* the store's and the snapshot's */
    set->unref = unref;
    SW_MAP_EACH (const struct sw_gw_res, r, &s->res[t])
        add_active(set, r);
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
    for (size_t k = 0; k < s->shard_res[i].n; k++)
        add_active(set, s->shard_res[i].p[k]);
    return set;
}

static struct sw_gw_shards *make_shards(struct sw_gw_store *s)
{
    const struct sw_gw_shards *old = s->shards;
    struct sw_gw_shards *now;

    if (old && !s->dirty[SW_GW_TYPE_CLUSTER]) {
        sw_gw_take_ref(&s->shards->refs);
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
            sw_gw_take_ref(&now->set[i]->refs);
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
