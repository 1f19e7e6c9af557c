/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/links.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "control/mesh/ledger.h"
#include "control/mesh/names.h"
#include "control/mesh/scope.h"
#include "control/mesh/service.h"
#include "control/mesh/waypoint.h"
#include "control/mesh/workload.h"

enum { KEY_MAX = 1024 };

static void mark(struct sw_list *queue, struct sw_list *link)
{
    if (!sw_list_linked(link))
        sw_list_push_back(queue, link);
}

/* ---- namespaces and nodes ---- */

struct mesh_ns *mesh_ns_get(struct sw_mesh_index *ix, struct sw_slice name)
{
    struct mesh_ns *ns = sw_map_get(&ix->namespaces, name);

    if (ns)
        return ns;
    ns = SW_NEW(struct mesh_ns);
    ns->name = mesh_text(&ix->pool, name);
    ns->visibility = mesh_visibility(ix, NULL);
    sw_list_init(&ns->groups);
    sw_list_init(&ns->services);
    sw_list_init(&ns->slices);
    (void)sw_map_put(&ix->namespaces, mesh_str(ns->name), ns);
    return ns;
}

void mesh_ns_release(struct sw_mesh_index *ix, struct mesh_ns *ns)
{
    if (ns->known || !sw_list_empty(&ns->groups) || !sw_list_empty(&ns->services) ||
        !sw_list_empty(&ns->slices))
        return;
    (void)sw_map_del(&ix->namespaces, mesh_str(ns->name));
    mesh_text_drop(&ix->pool, &ns->name);
    mesh_text_drop(&ix->pool, &ns->labels);
    mesh_text_drop(&ix->pool, &ns->distribution);
    mesh_text_drop(&ix->pool, &ns->canary_weight);
    sw_free(ns);
}

struct mesh_node *mesh_node_get(struct sw_mesh_index *ix, struct sw_slice name)
{
    struct mesh_node *n = sw_map_get(&ix->nodes, name);

    if (n)
        return n;
    n = SW_NEW(struct mesh_node);
    n->name = mesh_text(&ix->pool, name);
    sw_list_init(&n->pods);
    (void)sw_map_put(&ix->nodes, mesh_str(n->name), n);
    return n;
}

void mesh_node_release(struct sw_mesh_index *ix, struct mesh_node *n)
{
    if (n->known || !sw_list_empty(&n->pods))
        return;
    (void)sw_map_del(&ix->nodes, mesh_str(n->name));
    mesh_text_drop(&ix->pool, &n->name);
    mesh_text_drop(&ix->pool, &n->region);
    mesh_text_drop(&ix->pool, &n->zone);
    mesh_text_drop(&ix->pool, &n->subzone);
    sw_free(n);
}

/* ---- marks ---- */

void mesh_mark_workload(struct sw_mesh_index *ix, struct mesh_workload *w)
{
    mark(&ix->dirty_workloads, &w->dirty);
}

static void mark_hosts(struct sw_mesh_index *ix, struct mesh_svc *s)
{
    for (size_t i = 0; i < s->n_offers; i++)
        mark(&ix->dirty_hosts, &s->offers[i].host->dirty);
}

void mesh_mark_host(struct sw_mesh_index *ix, struct sw_slice key)
{
    struct sw_slice host = key;
    struct mesh_host *h;

    (void)sw_slice_cut(&host, '/');
    h = sw_map_get(&ix->hosts, host);
    if (h)
        mark(&ix->dirty_hosts, &h->dirty);
}

static void mark_entry(struct sw_mesh_index *ix, struct mesh_svc *s)
{
    if (s->entry)
        mark(&ix->dirty_entries, &s->dirty);
}

void mesh_mark_policies(struct sw_mesh_index *ix, struct mesh_ns *ns)
{
    SW_LIST_FOREACH (l, &ns->groups)
        mark(&ix->dirty_groups, &SW_CONTAINER_OF(l, struct mesh_group, in_ns)->dirty);
    SW_LIST_FOREACH (l, &ns->services)
        mark_entry(ix, SW_CONTAINER_OF(l, struct mesh_svc, in_ns));
}

void mesh_mark_ns(struct sw_mesh_index *ix, struct mesh_ns *ns)
{
    mesh_mark_policies(ix, ns);
    SW_LIST_FOREACH (l, &ns->services)
        mark_hosts(ix, SW_CONTAINER_OF(l, struct mesh_svc, in_ns));
}

void mesh_mark_all(struct sw_mesh_index *ix)
{
    SW_MAP_EACH (struct mesh_ns, ns, &ix->namespaces) {
        mesh_mark_ns(ix, ns);
        SW_LIST_EACH (struct mesh_slice, s, &ns->slices, in_ns)
            mark(&ix->dirty_slices, &s->dirty);
        SW_LIST_EACH (struct mesh_group, g, &ns->groups, in_ns) {
            SW_LIST_EACH (struct mesh_workload, w, &g->members, in_group)
                mesh_mark_workload(ix, w);
        }
    }
}

static bool names_in_endpoints(const struct mesh_svc *s, struct sw_slice own,
                               const struct mesh_gateway *g)
{
    for (size_t i = 0; i < s->n_endpoints; i++) {
        if (mesh_labels_name(s->endpoints[i].labels, own, g))
            return true;
    }
    return false;
}

void mesh_mark_gateway(struct sw_mesh_index *ix, const struct mesh_gateway *g)
{
    SW_MAP_EACH (struct mesh_ns, ns, &ix->namespaces) {
        struct sw_slice own = mesh_str(ns->name);
        bool home = sw_slice_eq(own, g->ns);

        if (mesh_labels_name(ns->labels, own, g)) {
            mesh_mark_ns(ix, ns);
            continue;
        }
        SW_LIST_EACH (struct mesh_svc, s, &ns->services, in_ns) {
            if (mesh_labels_name(s->labels, own, g))
                mark_hosts(ix, s);
            if (names_in_endpoints(s, own, g))
                mark_entry(ix, s);
        }
        SW_LIST_EACH (struct mesh_group, m, &ns->groups, in_ns) {
            if (mesh_labels_name(m->labels, own, g) ||
                (home && sw_slice_eq(mesh_labels_get(m->labels, MESH_GATEWAY_NAME), g->name)))
                mark(&ix->dirty_groups, &m->dirty);
        }
    }
}

static bool selects(const struct mesh_svc *s, const struct mesh_group *g)
{
    return s->selector && mesh_labels_within(s->selector, g->labels);
}

/* Of a Service only those that name it, not all of its namespace: there may be a slice for each. */
static void mark_slices(struct sw_mesh_index *ix, const struct mesh_svc *s)
{
    struct mesh_backing *b = s->entry ? NULL : sw_map_get(&ix->backings, s->key);

    if (!b)
        return;
    SW_LIST_FOREACH (l, &b->slices)
        mark(&ix->dirty_slices, &SW_CONTAINER_OF(l, struct mesh_slice, in_backing)->dirty);
}

void mesh_mark_service(struct sw_mesh_index *ix, struct mesh_svc *s)
{
    SW_LIST_EACH (struct mesh_group, g, &s->ns->groups, in_ns) {
        if (selects(s, g))
            mark(&ix->dirty_groups, &g->dirty);
    }
    mark_slices(ix, s);
    mark_entry(ix, s);
}

/* ---- workloads ---- */

/* Takes over the reference to the labels. */
static struct mesh_group *group_get(struct sw_mesh_index *ix, struct mesh_ns *ns,
                                    struct mesh_text *labels)
{
    const struct {
        const struct mesh_ns *ns;
        const struct mesh_text *labels;
    } key = {ns, labels};
    struct mesh_group *g = sw_map_get(&ix->groups, sw_slice(&key, sizeof(key)));

    if (g) {
        mesh_text_drop(&ix->pool, &labels);
        return g;
    }
    g = SW_NEW(struct mesh_group);
    g->ns = ns;
    g->labels = labels;
    g->fresh = true;
    sw_list_init(&g->dirty);
    sw_list_init(&g->members);
    sw_list_push_back(&ns->groups, &g->in_ns);
    (void)sw_map_put(&ix->groups, sw_slice(&g->ns, sizeof(key)), g);
    mark(&ix->dirty_groups, &g->dirty);
    return g;
}

static void group_release(struct sw_mesh_index *ix, struct mesh_group *g)
{
    struct mesh_ns *ns = g->ns;

    if (!sw_list_empty(&g->members))
        return;
    (void)sw_map_del(&ix->groups, sw_slice(&g->ns, sizeof(g->ns) + sizeof(g->labels)));
    sw_list_unlink(&g->in_ns);
    sw_list_unlink(&g->dirty);
    mesh_text_drop(&ix->pool, &g->labels);
    mesh_text_drop(&ix->pool, &g->policies);
    sw_free(g->offers);
    sw_free(g);
    mesh_ns_release(ix, ns);
}

/* A pod that is an instance of a Gateway came, or goes. */
static void mark_instance(struct sw_mesh_index *ix, const struct mesh_workload *w)
{
    struct sw_slice name = mesh_labels_get(w->group->labels, MESH_GATEWAY_NAME);
    char *key;

    if (w->we || !name.n || ix->closing)
        return;
    key = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(mesh_str(w->group->ns->name)), SW_SLICE_ARG(name));
    sw_free(sw_map_put(&ix->dirty_instances, sw_slice_str(key), key));
}

static void unlink_workload(struct sw_mesh_index *ix, struct mesh_workload *w)
{
    struct mesh_node *node = w->node;

    mark_instance(ix, w);
    mesh_workload_retire(ix, w);
    sw_list_unlink(&w->in_group);
    sw_list_unlink(&w->in_node);
    sw_list_unlink(&w->dirty);
    group_release(ix, w->group);
    if (node)
        mesh_node_release(ix, node);
    mesh_workload_free(ix, w);
}

void mesh_put_workload(struct sw_mesh_index *ix, struct sw_map *map, struct mesh_workload *w,
                       const struct mesh_place *place)
{
    struct sw_slice key = sw_slice(w->key, w->key_len);
    struct sw_slice ns = sw_slice_head(key, (size_t)sw_slice_find(key, '/'));
    struct mesh_workload *old;

    w->group = group_get(ix, mesh_ns_get(ix, ns), place->labels);
    sw_list_push_back(&w->group->members, &w->in_group);
    if (place->node.n) {
        w->node = mesh_node_get(ix, place->node);
        sw_list_push_back(&w->node->pods, &w->in_node);
    }
    mesh_mark_workload(ix, w);
    mark_instance(ix, w);
    old = sw_map_put(map, key, w);
    if (!old)
        return;
    w->emitted = old->emitted;
    old->emitted = 0;
    unlink_workload(ix, old);
}

void mesh_drop_workload(struct sw_mesh_index *ix, struct sw_map *map, struct sw_slice key)
{
    struct mesh_workload *w = sw_map_del(map, key);

    if (w)
        unlink_workload(ix, w);
}

/* ---- services ---- */

static struct mesh_host *host_get(struct sw_mesh_index *ix, struct sw_slice name)
{
    struct mesh_host *h = sw_map_get(&ix->hosts, name);

    if (h)
        return h;
    h = SW_NEW(struct mesh_host);
    h->name = mesh_text(&ix->pool, name);
    sw_list_init(&h->dirty);
    (void)sw_map_put(&ix->hosts, mesh_str(h->name), h);
    return h;
}

static void host_leave(struct sw_mesh_index *ix, struct mesh_offer *o)
{
    struct mesh_host *h = o->host;

    for (size_t i = 0; i < h->offers.n; i++) {
        if (h->offers.p[i] == o) {
            (void)sw_vec_swap_remove(&h->offers, i);
            break;
        }
    }
    if (h->offers.n) {
        mark(&ix->dirty_hosts, &h->dirty);
        return;
    }
    (void)sw_map_del(&ix->hosts, mesh_str(h->name));
    sw_list_unlink(&h->dirty);
    sw_vec_done(&h->offers);
    mesh_text_drop(&ix->pool, &h->name);
    sw_free(h);
}

static struct sw_map *services_of(struct sw_mesh_index *ix, bool entry)
{
    return entry ? &ix->service_entries : &ix->services;
}

static void slice_unbind(struct sw_mesh_index *ix, struct mesh_slice *s);

/* Nothing may point to the service afterwards. */
static void unlink_service(struct sw_mesh_index *ix, struct mesh_svc *s)
{
    struct mesh_ns *ns = s->ns;

    mesh_mark_service(ix, s);
    SW_LIST_EACH (struct mesh_group, g, &ns->groups, in_ns) {
        if (selects(s, g)) {
            sw_free(g->offers);
            g->offers = NULL;
            g->n_offers = 0;
        }
    }
    for (size_t i = 0; i < s->n_offers; i++) {
        mesh_offer_leave(ix, &s->offers[i]);
        mesh_retire(ix, &s->offers[i].emitted, s->offers[i].key);
        host_leave(ix, &s->offers[i]);
    }
    mesh_outs_retire(ix, &s->outs);
    sw_list_unlink(&s->dirty);
    sw_list_unlink(&s->in_ns);
    mesh_svc_free(ix, s);
    mesh_ns_release(ix, ns);
}

void mesh_put_service(struct sw_mesh_index *ix, struct mesh_svc *s, struct sw_slice ns)
{
    s->ns = mesh_ns_get(ix, ns);
    sw_list_push_back(&s->ns->services, &s->in_ns); /* keeps the namespace while the old one goes */
    mesh_drop_service(ix, s->entry, s->key);
    for (size_t i = 0; i < s->n_offers; i++) {
        struct mesh_offer *o = &s->offers[i];

        o->of = s;
        o->host = host_get(ix, sw_slice_from(o->key, ns.n + 1));
        sw_vec_push(&o->host->offers, o);
    }
    (void)sw_map_put(services_of(ix, s->entry), s->key, s);
    mark_hosts(ix, s);
    mesh_mark_service(ix, s);
}

void mesh_drop_service(struct sw_mesh_index *ix, bool entry, struct sw_slice key)
{
    struct mesh_svc *s = sw_map_del(services_of(ix, entry), key);

    if (s)
        unlink_service(ix, s);
}

/* ---- slices ---- */

struct mesh_svc *mesh_slice_service(const struct sw_mesh_index *ix, const struct mesh_slice *s)
{
    return sw_map_get(&ix->services, s->backing->key);
}

static void backing_join(struct sw_mesh_index *ix, struct mesh_slice *s)
{
    char *key = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(mesh_str(s->ns->name)),
                            SW_SLICE_ARG(mesh_str(s->service)));
    struct mesh_backing *b = sw_map_get(&ix->backings, sw_slice_str(key));

    if (b) {
        sw_free(key);
    } else {
        b = SW_NEW(struct mesh_backing);
        b->key = sw_slice_str(key);
        sw_list_init(&b->slices);
        (void)sw_map_put(&ix->backings, b->key, b);
    }
    s->backing = b;
    sw_list_push_back(&b->slices, &s->in_backing);
}

static void backing_leave(struct sw_mesh_index *ix, struct mesh_slice *s)
{
    struct mesh_backing *b = s->backing;

    sw_list_unlink(&s->in_backing);
    if (!sw_list_empty(&b->slices))
        return;
    (void)sw_map_del(&ix->backings, b->key);
    sw_slice_free(&b->key);
    sw_free(b);
}

static void target_leave(struct sw_mesh_index *ix, struct mesh_target *t,
                         const struct mesh_slice *s)
{
    for (size_t i = 0; i < t->refs.n;) {
        if (t->refs.p[i].slice == s)
            (void)sw_vec_swap_remove(&t->refs, i);
        else
            i++;
    }
    if (t->refs.n)
        return;
    (void)sw_map_del(&ix->targets, t->key);
    sw_vec_done(&t->refs);
    sw_slice_free(&t->key);
    sw_free(t);
}

static void target_join(struct sw_mesh_index *ix, struct sw_slice key, struct mesh_slice *s,
                        uint64_t uid)
{
    struct mesh_target *t = sw_map_get(&ix->targets, key);

    if (!t) {
        t = SW_NEW(struct mesh_target);
        t->key = sw_slice(sw_slice_dup(key), key.n);
        (void)sw_map_put(&ix->targets, t->key, t);
    }
    sw_vec_push(&t->refs, (struct mesh_target_ref){s, uid});
}

static void each_pod(struct sw_mesh_index *ix, struct mesh_slice *s, bool join)
{
    struct sw_slice rest = sw_slice(s->pods, s->pods_len);
    struct sw_slice ns = mesh_str(s->ns->name);
    struct mesh_slice_pod pod;
    char text[KEY_MAX];

    while (mesh_slice_pods_next(&rest, &pod)) {
        int n = snprintf(text, sizeof(text), "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(pod.name));
        struct sw_slice key = sw_slice(text, (size_t)n);
        struct mesh_workload *w = sw_map_get(&ix->pods, key);
        struct mesh_target *t = sw_map_get(&ix->targets, key);

        if (join)
            target_join(ix, key, s, pod.uid);
        else if (t)
            target_leave(ix, t, s);
        if (w)
            mesh_mark_workload(ix, w);
    }
}

static void slice_unbind(struct sw_mesh_index *ix, struct mesh_slice *s)
{
    if (s->bound)
        each_pod(ix, s, false);
    s->bound = false;
}

void mesh_slice_bind(struct sw_mesh_index *ix, struct mesh_slice *s)
{
    const struct mesh_svc *svc = mesh_slice_service(ix, s);

    slice_unbind(ix, s);
    if (!svc || svc->selector)
        return;
    each_pod(ix, s, true);
    s->bound = true;
}

static void unlink_slice(struct sw_mesh_index *ix, struct mesh_slice *s)
{
    struct mesh_ns *ns = s->ns;

    slice_unbind(ix, s);
    mesh_outs_retire(ix, &s->outs);
    sw_list_unlink(&s->dirty);
    sw_list_unlink(&s->in_ns);
    backing_leave(ix, s);
    mesh_slice_free(ix, s);
    mesh_ns_release(ix, ns);
}

void mesh_put_slice(struct sw_mesh_index *ix, struct mesh_slice *s, struct sw_slice ns)
{
    s->ns = mesh_ns_get(ix, ns);
    sw_list_push_back(&s->ns->slices, &s->in_ns);
    backing_join(ix, s);
    mesh_drop_slice(ix, s->key);
    (void)sw_map_put(&ix->slices, s->key, s);
    mark(&ix->dirty_slices, &s->dirty);
}

void mesh_drop_slice(struct sw_mesh_index *ix, struct sw_slice key)
{
    struct mesh_slice *s = sw_map_del(&ix->slices, key);

    if (s)
        unlink_slice(ix, s);
}
