/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a model that belongs to some Gateways. Nothing gets in because it is not known to be
 * another's: a chain or host without one of these owners is left out, and clusters, secrets and
 * endpoints are those that what is left refers to.
 */

#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"
#include "control/gateway/build/build.h"
#include "control/objects.h"

struct scope {
    struct sw_arena *a;
    const struct sw_slice *gateways; /* sorted */
    size_t n;
    struct sw_map clusters;
    struct sw_map secrets;
    struct sw_map endpoints;
    SW_VEC(const struct sw_model_listener *) listeners;
    SW_VEC(const struct sw_model_table *) tables;
};

static bool ours(const struct scope *s, struct sw_slice owner)
{
    for (size_t i = 0; i < s->n && owner.n; i++) {
        if (sw_slice_eq(s->gateways[i], owner))
            return true;
    }
    return false;
}

/* ---- what is referred to ---- */

static void use(struct sw_map *m, struct sw_slice name)
{
    if (name.n)
        (void)sw_map_put(m, name, m);
}

static void use_cluster(struct scope *s, const struct sw_model_cluster *c)
{
    if (!c)
        return;
    use(&s->clusters, c->name);
    use(&s->endpoints, c->endpoints);
    if (c->tls) {
        use(&s->secrets, c->tls->ca);
        use(&s->secrets, c->tls->client_cert);
    }
}

static void use_backends(struct scope *s, const struct sw_model_backend *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        use_cluster(s, b[i].cluster);
}

static void use_route(struct scope *s, const struct sw_model_route *r)
{
    use_backends(s, r->backends, r->n_backends);
    for (size_t i = 0; i < r->n_mirrors; i++)
        use_cluster(s, r->mirrors[i].cluster);
    if (r->auth)
        use_cluster(s, r->auth->cluster);
}

static void use_chain(struct scope *s, const struct sw_model_chain *c)
{
    for (size_t i = 0; i < c->n_certs; i++)
        use(&s->secrets, c->certs[i]);
    use(&s->secrets, c->client_ca);
    use_backends(s, c->backends, c->n_backends);
}

/* ---- what is kept ---- */

/* Without the routes of Ingresses, which belong to no Gateway. */
static const struct sw_model_vhost *keep_vhost(struct scope *s, const struct sw_model_vhost *v)
{
    struct sw_model_vhost *out = SW_ARENA_NEW(s->a, struct sw_model_vhost);
    const struct sw_model_route **list = sw_arena_array(s->a, v->n_routes + 1, sizeof(*list));

    *out = *v;
    out->routes = list;
    out->n_routes = 0;
    for (size_t i = 0; i < v->n_routes; i++) {
        if (sw_slice_has_prefix(v->routes[i]->name, SW_SLICE_LIT("ingress/")))
            continue;
        use_route(s, v->routes[i]);
        list[out->n_routes++] = v->routes[i];
    }
    return out;
}

/* NULL: none of its hosts is ours. */
static const struct sw_model_table *keep_table(struct scope *s, const struct sw_model_table *t)
{
    struct sw_model_table *out = SW_ARENA_NEW(s->a, struct sw_model_table);
    const struct sw_model_vhost **list = sw_arena_array(s->a, t->n_vhosts + 1, sizeof(*list));

    *out = (struct sw_model_table){.name = t->name, .vhosts = list};
    for (size_t i = 0; i < t->n_vhosts; i++) {
        if (ours(s, t->vhosts[i]->owner))
            list[out->n_vhosts++] = keep_vhost(s, t->vhosts[i]);
    }
    return out->n_vhosts ? out : NULL;
}

/* NULL: it is others'. */
static const struct sw_model_chain *keep_chain(struct scope *s, const struct sw_model_chain *c)
{
    struct sw_model_chain *out;
    const struct sw_model_table *table = NULL;

    if (c->owner.n && !ours(s, c->owner))
        return NULL;
    if (c->table)
        table = keep_table(s, c->table);
    /* The chain of plain HTTP is shared: its hosts decide. One with TLS has one owner, or none. */
    if (!c->owner.n && (!table || c->tls != SW_MODEL_TLS_NONE))
        return NULL;
    out = SW_ARENA_NEW(s->a, struct sw_model_chain);
    *out = *c;
    out->table = table;
    if (table)
        sw_vec_push(&s->tables, table);
    use_chain(s, out);
    return out;
}

static void keep_listener(struct scope *s, const struct sw_model_listener *l)
{
    struct sw_model_listener *out = SW_ARENA_NEW(s->a, struct sw_model_listener);
    const struct sw_model_chain **list = sw_arena_array(s->a, l->n_chains + 1, sizeof(*list));
    bool serves = false;

    *out = *l;
    out->chains = list;
    out->n_chains = 0;
    for (size_t i = 0; i < l->n_chains; i++) {
        const struct sw_model_chain *c = keep_chain(s, l->chains[i]);

        if (!c)
            continue;
        list[out->n_chains++] = c;
        serves |= c->kind != SW_MODEL_CHAIN_REFUSE;
    }
    if (serves)
        sw_vec_push(&s->listeners, out);
}

/* Pointers to structs that begin with their name, and whose name is used. */
static void *keep_named(struct scope *s, const void *list, size_t n, const struct sw_map *used,
                        size_t *ret_n)
{
    const struct sw_slice *const *p = list;
    const void **out = sw_arena_array(s->a, n + 1, sizeof(*out));

    *ret_n = 0;
    for (size_t i = 0; i < n; i++) {
        if (sw_map_get(used, *p[i]))
            out[(*ret_n)++] = p[i];
    }
    return out;
}

static const struct sw_slice *keep_endpoints(struct scope *s, const struct sw_model *m,
                                             size_t *ret_n)
{
    struct sw_slice *list = sw_arena_array(s->a, m->n_endpoints + 1, sizeof(*list));

    *ret_n = 0;
    for (size_t i = 0; i < m->n_endpoints; i++) {
        if (sw_map_get(&s->endpoints, m->endpoints[i]))
            list[(*ret_n)++] = m->endpoints[i];
    }
    return list;
}

void sw_model_scope(const struct sw_model *m, const struct sw_slice *gateways, size_t n,
                    struct sw_arena *a, struct sw_model *ret)
{
    struct scope s = {.a = a, .gateways = gateways, .n = n};

    for (size_t i = 0; i < m->n_listeners; i++)
        keep_listener(&s, m->listeners[i]);
    if (s.tables.n > 1)
        SW_SORT_POINTERS_BY(s.tables.p, s.tables.n, name);
    *ret = (struct sw_model){.listeners = CN_COPY_VEC(a, &s.listeners),
                             .n_listeners = s.listeners.n,
                             .tables = CN_COPY_VEC(a, &s.tables),
                             .n_tables = s.tables.n,
                             .gateways = gateways,
                             .n_gateways = n};
    ret->clusters = keep_named(&s, m->clusters, m->n_clusters, &s.clusters, &ret->n_clusters);
    ret->secrets = keep_named(&s, m->secrets, m->n_secrets, &s.secrets, &ret->n_secrets);
    ret->endpoints = keep_endpoints(&s, m, &ret->n_endpoints);
    sw_vec_done(&s.listeners);
    sw_vec_done(&s.tables);
    sw_map_done(&s.clusters);
    sw_map_done(&s.secrets);
    sw_map_done(&s.endpoints);
}
