/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/config/routes.h"

#include "base/mem.h"
#include "regex/regex.h"

struct sw_gw_routes *sw_gw_routes_ref(struct sw_gw_routes *r)
{
    sw_gw_take_ref(&r->refs);
    return r;
}

void sw_gw_vhost_unref(struct sw_gw_vhost *v)
{
    if (!v || !sw_gw_drop_ref(&v->refs))
        return;
    sw_map_done(&v->exact);
    sw_map_done(&v->prefix);
    for (size_t i = 0; i < v->n_regexes; i++)
        sw_regex_free(v->regexes[i]);
    sw_free(v->regexes);
    sw_arena_clear(&v->arena);
    sw_free(v);
}

static void routes_free(struct sw_gw_routes *r)
{
    sw_map_done(&r->exact);
    sw_map_done(&r->suffix);
    sw_map_done(&r->prefix);
    for (size_t i = 0; i < r->n_vhosts; i++)
        sw_gw_vhost_unref(r->vhosts[i]);
    for (size_t i = 0; i < r->n_regexes; i++)
        sw_regex_free(r->regexes[i]);
    sw_free(r->regexes);
    sw_arena_clear(&r->arena);
    sw_free(r);
}

struct sw_gw_routes *sw_gw_routes_unref(struct sw_gw_routes *r)
{
    if (r && sw_gw_drop_ref(&r->refs))
        routes_free(r);
    return NULL;
}
