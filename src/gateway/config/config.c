/* SPDX-License-Identifier: Apache-2.0 */
/* The snapshot: its life, and lookups in it. */
#include "gateway/config/config.h"

#include "base/hash.h"
#include "base/mem.h"

struct sw_gw_set *sw_gw_set_unref(struct sw_gw_set *s)
{
    if (!s || !sw_gw_drop_ref(&s->refs))
        return NULL;
    SW_MAP_FOREACH (it, &s->map)
        s->unref(it->value);
    sw_map_done(&s->map);
    sw_free(s);
    return NULL;
}

struct sw_gw_shards *sw_gw_shards_unref(struct sw_gw_shards *s)
{
    if (!s || !sw_gw_drop_ref(&s->refs))
        return NULL;
    for (size_t i = 0; i < SW_GW_SHARDS; i++)
        (void)sw_gw_set_unref(s->set[i]);
    sw_free(s);
    return NULL;
}

unsigned sw_gw_shard_of(struct sw_slice name)
{
    return (unsigned)(sw_siphash13(5, 6, name.p, name.n) % SW_GW_SHARDS);
}

struct sw_gw_config *sw_gw_config_ref(struct sw_gw_config *c)
{
    sw_gw_take_ref(&c->refs);
    return c;
}

struct sw_gw_config *sw_gw_config_unref(struct sw_gw_config *c)
{
    if (!c || !sw_gw_drop_ref(&c->refs))
        return NULL;
    (void)sw_gw_set_unref(c->listeners);
    (void)sw_gw_set_unref(c->routes);
    (void)sw_gw_shards_unref(c->clusters);
    sw_free(c->list);
    sw_free(c);
    return NULL;
}

const struct sw_gw_listener *sw_gw_config_listener(const struct sw_gw_config *c,
                                                   struct sw_slice name)
{
    return sw_map_get(&c->listeners->map, name);
}

const struct sw_gw_routes *sw_gw_config_routes(const struct sw_gw_config *c,
                                               const struct sw_gw_hcm *hcm)
{
    return hcm->inline_routes ? hcm->inline_routes : sw_map_get(&c->routes->map, hcm->rds);
}

struct sw_gw_cluster *sw_gw_config_cluster(const struct sw_gw_config *c, struct sw_slice name)
{
    return sw_map_get(&c->clusters->set[sw_gw_shard_of(name)]->map, name);
}
