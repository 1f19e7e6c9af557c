/* SPDX-License-Identifier: Apache-2.0 */
/* The stages in their order, and the model put together from what they left. */
#include "control/gateway/build/build.h"

#include <stdlib.h>

#include "base/search.h"
#include "control/gateway/build/build_int.h"

/* ---- what is used ---- */

struct used {
    struct builder *b;
    struct sw_map secrets;
    SW_VEC(struct sw_model_cluster *) clusters;
};

static void use_secret(struct used *u, struct sw_slice name)
{
    struct sw_model_secret *s = name.n ? sw_map_get(&u->b->secrets, name) : NULL;

    if (s)
        (void)sw_map_put(&u->secrets, s->name, s);
}

static void use_cluster(struct used *u, const struct sw_model_cluster *c)
{
    struct own_cluster *own;

    if (!c)
        return;
    own = own_cluster(c);
    if (own->used)
        return;
    own->used = true;
    sw_vec_push(&u->clusters, &own->c);
    if (c->tls) {
        use_secret(u, c->tls->ca);
        use_secret(u, c->tls->client_cert);
    }
}

static void use_backends(struct used *u, const struct sw_model_backend *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        use_cluster(u, p[i].cluster);
}

static void use_table(struct used *u, const struct sw_model_table *t)
{
    for (size_t i = 0; t && i < t->n_vhosts; i++) {
        for (size_t k = 0; k < t->vhosts[i]->n_routes; k++) {
            const struct sw_model_route *r = t->vhosts[i]->routes[k];

            use_backends(u, r->backends, r->n_backends);
            for (size_t m = 0; m < r->n_mirrors; m++)
                use_cluster(u, r->mirrors[m].cluster);
            if (r->auth)
                use_cluster(u, r->auth->cluster);
        }
    }
}

static void use_chain(struct used *u, const struct sw_model_chain *c)
{
    for (size_t i = 0; i < c->n_certs; i++)
        use_secret(u, c->certs[i]);
    use_secret(u, c->client_ca);
    use_backends(u, c->backends, c->n_backends);
    use_table(u, c->table);
}

/* ---- the model ---- */

/* Names of clusters begin with their endpoints': as a rule these are in order already. */
static void list_endpoints(struct builder *b, struct sw_model *m)
{
    struct sw_slice *names = sw_arena_array(b->a, m->n_clusters + 1, sizeof(*names));
    bool sorted = true;
    size_t n = 0;

    for (size_t i = 0; i < m->n_clusters; i++) {
        names[i] = m->clusters[i]->endpoints;
        sorted &= !i || sw_slice_cmp(names[i - 1], names[i]) <= 0;
    }
    if (!sorted)
        sw_slice_sort(names, m->n_clusters);
    for (size_t i = 0; i < m->n_clusters; i++) {
        if (names[i].n && (!n || !sw_slice_eq(names[n - 1], names[i])))
            names[n++] = names[i];
    }
    m->endpoints = names;
    m->n_endpoints = n;
}

static void list_gateways(struct builder *b, struct sw_model *m)
{
    struct sw_slice *names = sw_arena_array(b->a, b->gateways.n + 1, sizeof(*names));

    for (size_t i = 0; i < b->gateways.n; i++)
        names[i] = b->gateways.p[i]->parent.obj->key;
    sw_slice_sort(names, b->gateways.n);
    m->gateways = names;
    m->n_gateways = b->gateways.n;
}

static const struct sw_model *assemble(struct builder *b)
{
    struct sw_model *m = SW_ARENA_NEW(b->a, struct sw_model);
    struct used u = {.b = b};

    if (b->out_listeners.n)
        SW_SORT_POINTERS_BY(b->out_listeners.p, b->out_listeners.n, name);
    if (b->out_tables.n)
        SW_SORT_POINTERS_BY(b->out_tables.p, b->out_tables.n, name);
    for (size_t i = 0; i < b->out_listeners.n; i++) {
        for (size_t k = 0; k < b->out_listeners.p[i]->n_chains; k++)
            use_chain(&u, b->out_listeners.p[i]->chains[k]);
    }
    if (u.clusters.n)
        SW_SORT_POINTERS_BY(u.clusters.p, u.clusters.n, name);
    m->listeners = CN_COPY_VEC(b->a, &b->out_listeners);
    m->n_listeners = b->out_listeners.n;
    m->tables = CN_COPY_VEC(b->a, &b->out_tables);
    m->n_tables = b->out_tables.n;
    m->clusters = CN_COPY_VEC(b->a, &u.clusters);
    m->n_clusters = u.clusters.n;
    m->secrets = (void *)sorted_values(b->a, &u.secrets);
    m->n_secrets = u.secrets.n;
    list_endpoints(b, m);
    list_gateways(b, m);
    sw_vec_done(&u.clusters);
    sw_map_done(&u.secrets);
    return m;
}

static int by_object(const void *x, const void *y)
{
    const struct sw_model_status *p = x;
    const struct sw_model_status *q = y;

    return p->kind != q->kind ? (int)p->kind - (int)q->kind : sw_slice_cmp(p->of->key, q->of->key);
}

static void finish(struct builder *b, struct sw_model_result *ret)
{
    ret->model = assemble(b);
    if (b->statuses.n)
        qsort(b->statuses.p, b->statuses.n, sizeof(*b->statuses.p), by_object);
    if (b->notes.n)
        SW_SORT_BY2(b->notes.p, b->notes.n, subject, text);
    ret->statuses = CN_COPY_VEC(b->a, &b->statuses);
    ret->n_statuses = b->statuses.n;
    ret->wants = CN_COPY_VEC(b->a, &b->wants);
    ret->n_wants = b->wants.n;
    ret->notes = CN_COPY_VEC(b->a, &b->notes);
    ret->n_notes = b->notes.n;
    ret->notices = CN_COPY_VEC(b->a, &b->notices);
    ret->n_notices = b->notices.n;
}

static void builder_done(struct builder *b)
{
    struct sw_map *maps[] = {&b->classes,   &b->parents,        &b->policies,    &b->targets,
                             &b->clusters,  &b->secrets,        &b->sockets,     &b->bound,
                             &b->out_names, &b->recorded,       &b->claimed,     &b->names,
                             &b->refused,   &b->ingress_claims, &b->ingress_new, &b->ingress_tally,
                             &b->held};

    SW_VEC_EACH (struct socket, s, &b->socket_list) {
        sw_map_done(&s->hosts);
        sw_map_done(&s->ingress_tls);
        sw_vec_done(&s->listeners);
        sw_vec_done(&s->ingress);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(maps); i++)
        sw_map_done(maps[i]);
    sw_connector_keys_done(&b->keys);
    sw_map_done(&b->leases);
    refs_done(b);
    sw_vec_done(&b->parent_list);
    sw_vec_done(&b->gateways);
    sw_vec_done(&b->socket_list);
    sw_vec_done(&b->policy_list);
    sw_vec_done(&b->statuses);
    sw_vec_done(&b->wants);
    sw_vec_done(&b->notes);
    sw_vec_done(&b->notices);
    sw_vec_done(&b->l7);
    sw_vec_done(&b->out_listeners);
    sw_vec_done(&b->out_tables);
}

/* What has no chain that serves is nowhere bound, so no data plane answers for it. */
static void use_planes(struct builder *b, const struct sw_planes *planes)
{
    b->planes = planes;
    for (size_t i = 0; i < b->out_listeners.n; i++)
        (void)sw_map_put(&b->out_names, b->out_listeners.p[i]->name, b->out_listeners.p[i]);
}

void sw_gateway_rebuild(struct sw_gateway_cache *cache, const struct sw_view *v,
                        const struct sw_gateway_conf *conf, struct sw_arena *a,
                        struct sw_model_result *ret)
{
    struct builder b = {.v = v, .conf = conf, .a = a, .keep = a, .cache = cache};
    struct sw_planes planes = {0};

    if (b.cache)
        cache_begin(&b);
    refs_init(&b);
    sw_connector_keys_init(&b.keys, v,
                           &(const struct sw_connector_kinds){
                               SW_MODEL_CONNECTOR, SW_MODEL_CONNECTORCLASS, SW_MODEL_CLAIM},
                           a);
    names_init(&b);
    build_classes(&b);
    build_gateways(&b);
    notice_gateways(&b);
    claim_sockets(&b);
    build_policies(&b);
    build_slice_cas(&b);
    if (b.cache)
        cache_check(&b);
    build_routes(&b);
    build_ingress(&b);
    fit_tables(&b);
    build_sockets(&b);
    build_infrastructure(&b);
    if (sw_view_input(v).n) {
        sw_planes_read(&planes, sw_view_input(v));
        use_planes(&b, &planes);
    }
    status_gateways(&b);
    status_policies(&b);
    finish(&b, ret);
    if (b.cache)
        cache_end(&b);
    builder_done(&b);
    sw_planes_done(&planes);
}

void sw_gateway_build(const struct sw_view *v, const struct sw_gateway_conf *conf,
                      struct sw_arena *a, struct sw_model_result *ret)
{
    sw_gateway_rebuild(NULL, v, conf, a, ret);
}
