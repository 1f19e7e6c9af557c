/* SPDX-License-Identifier: Apache-2.0 */
/* Objects in, changes out; what lies between is in the other files of this room. */
#include "control/mesh/index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "control/mesh/endpoint.h"
#include "control/mesh/ledger.h"
#include "control/mesh/links.h"
#include "control/mesh/model.h"
#include "control/mesh/names.h"
#include "control/mesh/netgw.h"
#include "control/mesh/read/read.h"
#include "control/mesh/scope.h"
#include "control/mesh/service.h"
#include "control/mesh/workload.h"
#include "control/objects.h"

enum { KEY_MAX = 1024, TMP_KEEP = 16384, WORK_UNIT = 512 };

static struct sw_slice or_default(struct sw_slice s, const char *def)
{
    return s.n ? s : sw_slice_str(def);
}

struct sw_mesh_index *sw_mesh_index_new(const struct sw_mesh_conf *conf)
{
    struct sw_mesh_index *ix = SW_NEW(struct sw_mesh_index);
    struct sw_list *const lists[] = {&ix->dirty_hosts, &ix->dirty_slices, &ix->dirty_groups,
                                     &ix->dirty_entries, &ix->dirty_workloads};

    ix->conf = *conf;
    ix->conf.cluster = or_default(conf->cluster, "Kubernetes");
    ix->conf.trust_domain = or_default(conf->trust_domain, "cluster.local");
    ix->conf.domain = or_default(conf->domain, "cluster.local");
    ix->conf.root_ns = or_default(conf->root_ns, "istio-system");
    for (size_t i = 0; i < SW_ARRAY_LEN(lists); i++)
        sw_list_init(lists[i]);
    ix->network = mesh_text(&ix->pool, conf->network);
    return ix;
}

/* ---- namespaces, nodes, gateways ---- */

/* Takes over the reference 'now'; true when the text is another. */
static bool replace(struct sw_mesh_index *ix, struct mesh_text **have, struct mesh_text *now)
{
    bool same = *have == now;

    mesh_text_drop(&ix->pool, have);
    *have = now;
    return !same;
}

static void set_network(struct sw_mesh_index *ix, struct sw_slice network)
{
    if (replace(ix, &ix->network, mesh_text(&ix->pool, network))) {
        mesh_netgws_renew(ix);
        mesh_mark_all(ix);
    }
}

/* m: without labels and annotations when the namespace goes. */
static void put_ns(struct sw_mesh_index *ix, const struct mesh_meta *m, bool known)
{
    struct mesh_ns *ns = mesh_ns_get(ix, m->name);
    bool changed = replace(ix, &ns->labels, mesh_labels(&ix->pool, m->labels, NULL));

    changed |= replace(ix, &ns->distribution,
                       mesh_text(&ix->pool, js_or(m->annotations, MESH_DISTRIBUTION, "")));
    changed |= replace(ix, &ns->canary_weight,
                       mesh_text(&ix->pool, js_or(m->annotations, MESH_CANARY_WEIGHT, "")));
    ns->known = known;
    ns->visibility = mesh_visibility(ix, ns->labels);
    if (changed)
        mesh_mark_ns(ix, ns);
    if (sw_slice_eq(m->name, ix->conf.root_ns)) {
        struct sw_slice network = js_or(m->labels, MESH_NETWORK, "");

        set_network(ix, mesh_read_is_name(network) ? network : ix->conf.network);
    }
    mesh_ns_release(ix, ns);
}

static void put_node(struct sw_mesh_index *ix, const struct mesh_meta *m, bool known)
{
    struct mesh_node *n = mesh_node_get(ix, m->name);
    bool changed = replace(ix, &n->region, mesh_text(&ix->pool, js_or(m->labels, MESH_REGION, "")));

    changed |= replace(ix, &n->zone, mesh_text(&ix->pool, js_or(m->labels, MESH_ZONE, "")));
    changed |= replace(ix, &n->subzone, mesh_text(&ix->pool, js_or(m->labels, MESH_SUBZONE, "")));
    n->known = known;
    for (struct sw_list *l = n->pods.next; changed && l != &n->pods; l = l->next)
        mesh_mark_workload(ix, SW_CONTAINER_OF(l, struct mesh_workload, in_node));
    mesh_node_release(ix, n);
}

static void mark_class(struct sw_mesh_index *ix, struct sw_slice name)
{
    SW_MAP_EACH (const struct mesh_gateway, g, &ix->gateways) {
        if (sw_slice_eq(g->class, name))
            mesh_mark_gateway(ix, g);
    }
}

static void class_free(struct sw_mesh_index *ix, struct mesh_class *c)
{
    mesh_text_drop(&ix->pool, &c->traffic);
    mesh_text_drop(&ix->pool, &c->binding);
    sw_slice_free(&c->name);
    sw_free(c);
}

static void drop_class(struct sw_mesh_index *ix, struct sw_slice name)
{
    struct mesh_class *c = sw_map_del(&ix->classes, name);

    if (!c)
        return;
    mark_class(ix, name);
    class_free(ix, c);
}

static void put_class(struct sw_mesh_index *ix, const struct mesh_meta *m)
{
    struct mesh_class *c = sw_map_get(&ix->classes, m->name);
    bool changed = !c;

    if (!c) {
        c = SW_NEW(struct mesh_class);
        c->name = sw_slice(sw_slice_dup(m->name), m->name.n);
        (void)sw_map_put(&ix->classes, c->name, c);
    }
    changed |=
        replace(ix, &c->traffic, mesh_text(&ix->pool, js_or(m->labels, MESH_WAYPOINT_FOR, "")));
    changed |= replace(ix, &c->binding,
                       mesh_text(&ix->pool, js_or(m->annotations, MESH_INBOUND_BINDING, "")));
    if (changed)
        mark_class(ix, m->name);
}

/* ---- gateways ---- */

/* now: NULL when it goes. */
static void put_gateway(struct sw_mesh_index *ix, struct sw_slice key, struct mesh_gateway *now)
{
    struct mesh_gateway *old = sw_map_get(&ix->gateways, key);
    bool doors = mesh_is_netgw(old) || mesh_is_netgw(now);

    if (old && now && old->digest == now->digest) {
        mesh_gateway_free(now);
        return;
    }
    if (now)
        (void)sw_map_put(&ix->gateways, now->key, now);
    else if (old)
        (void)sw_map_del(&ix->gateways, key);
    if (now || old)
        mesh_mark_gateway(ix, now ? now : old);
    if (doors) {
        mesh_netgws_renew(ix);
        mesh_mark_all(ix);
    }
    mesh_gateway_free(old);
}

/* ---- objects ---- */

static bool of_revision(const struct sw_mesh_index *ix, const struct mesh_meta *m)
{
    struct sw_slice rev = js_or(m->labels, MESH_REVISION, "");

    return !rev.n || !ix->conf.revision.n || sw_slice_eq(rev, ix->conf.revision);
}

static struct sw_slice key_of(char text[KEY_MAX], struct sw_slice ns, struct sw_slice name)
{
    int n = snprintf(text, KEY_MAX, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));

    return n < 0 || n >= KEY_MAX ? sw_slice("", 0) : sw_slice(text, (size_t)n);
}

void sw_mesh_index_del(struct sw_mesh_index *ix, enum sw_mesh_kind kind, struct sw_slice ns,
                       struct sw_slice name)
{
    const struct mesh_meta gone = {.name = name};
    char text[KEY_MAX];
    struct sw_slice key = key_of(text, ns, name);

    switch (kind) {
    case SW_MESH_NAMESPACE:
        if (mesh_read_is_name(name))
            put_ns(ix, &gone, false);
        break;
    case SW_MESH_NODE:
        if (mesh_read_is_name(name))
            put_node(ix, &gone, false);
        break;
    case SW_MESH_CLASS:
        drop_class(ix, name);
        break;
    case SW_MESH_GATEWAY:
        put_gateway(ix, key, NULL);
        break;
    case SW_MESH_SERVICE:
        mesh_drop_service(ix, false, key);
        break;
    case SW_MESH_SERVICE_ENTRY:
        mesh_drop_service(ix, true, key);
        break;
    case SW_MESH_WORKLOAD_ENTRY:
        mesh_drop_workload(ix, &ix->workload_entries, key);
        break;
    case SW_MESH_SLICE:
        mesh_drop_slice(ix, key);
        break;
    case SW_MESH_POD:
        mesh_drop_workload(ix, &ix->pods, key);
        break;
    case SW_MESH_KINDS:
        break;
    }
}

static bool set_workload(struct sw_mesh_index *ix, bool pod, const struct sw_json *obj,
                         const struct mesh_meta *m, const char **why)
{
    struct mesh_place place = {0};
    struct mesh_workload *w = NULL;

    if (pod)
        w = mesh_read_pod(ix, obj, m, &place);
    else if (of_revision(ix, m))
        w = mesh_read_workload_entry(ix, obj, m, &place, why);
    if (w)
        mesh_put_workload(ix, pod ? &ix->pods : &ix->workload_entries, w, &place);
    return w != NULL;
}

static bool set_service(struct sw_mesh_index *ix, bool entry, const struct sw_json *obj,
                        const struct mesh_meta *m, const char **why)
{
    struct mesh_svc *s = NULL;

    if (!entry)
        s = mesh_read_service(ix, obj, m);
    else if (of_revision(ix, m))
        s = mesh_read_service_entry(ix, obj, m, why);
    if (s)
        mesh_put_service(ix, s, m->ns);
    return s != NULL;
}

static bool set_slice(struct sw_mesh_index *ix, const struct sw_json *obj,
                      const struct mesh_meta *m)
{
    struct mesh_slice *s = mesh_read_slice(ix, obj, m);

    if (s)
        mesh_put_slice(ix, s, m->ns);
    return s != NULL;
}

static bool set(struct sw_mesh_index *ix, enum sw_mesh_kind kind, const struct sw_json *obj,
                const struct mesh_meta *m, const char **why)
{
    switch (kind) {
    case SW_MESH_NAMESPACE:
        put_ns(ix, m, true);
        return true;
    case SW_MESH_NODE:
        put_node(ix, m, true);
        return true;
    case SW_MESH_CLASS:
        put_class(ix, m);
        return true;
    case SW_MESH_GATEWAY: {
        struct mesh_gateway *g = mesh_read_gateway(obj, m);

        put_gateway(ix, g->key, g);
        return true;
    }
    case SW_MESH_SERVICE:
    case SW_MESH_SERVICE_ENTRY:
        return set_service(ix, kind == SW_MESH_SERVICE_ENTRY, obj, m, why);
    case SW_MESH_WORKLOAD_ENTRY:
    case SW_MESH_POD:
        return set_workload(ix, kind == SW_MESH_POD, obj, m, why);
    case SW_MESH_SLICE:
        return set_slice(ix, obj, m);
    case SW_MESH_KINDS:
        break;
    }
    return true;
}

static bool is_namespaced(enum sw_mesh_kind kind)
{
    return kind != SW_MESH_NAMESPACE && kind != SW_MESH_NODE && kind != SW_MESH_CLASS;
}

void sw_mesh_index_set(struct sw_mesh_index *ix, enum sw_mesh_kind kind, const struct sw_json *obj,
                       const char **ret_why)
{
    const char *why = NULL;
    struct mesh_meta m;

    if (!mesh_read_meta(obj, is_namespaced(kind), &m))
        why = "metadata has no usable name";
    else if (!set(ix, kind, obj, &m, &why))
        sw_mesh_index_del(ix, kind, m.ns, m.name);
    sw_arena_reset(&ix->tmp, TMP_KEEP);
    if (ret_why)
        *ret_why = why;
}

void sw_mesh_index_policies_changed(struct sw_mesh_index *ix, struct sw_slice ns)
{
    struct mesh_ns *one = ns.n ? sw_map_get(&ix->namespaces, ns) : NULL;

    if (one)
        mesh_mark_policies(ix, one);
    SW_MAP_FOREACH (it, &ix->namespaces) {
        if (!ns.n)
            mesh_mark_policies(ix, it->value);
    }
}

/* ---- the flush ---- */

/* Takes the first off a queue; NULL when there is none, or no budget. */
static struct sw_list *take(struct sw_mesh_index *ix, struct sw_list *queue, size_t *left)
{
    sw_arena_reset(&ix->tmp, TMP_KEEP);
    if (!*left || sw_list_empty(queue))
        return NULL;
    (*left)--;
    return sw_list_pop_front(queue);
}

static void renew_group(struct sw_mesh_index *ix, struct mesh_group *g)
{
    if (!mesh_group_renew(ix, g))
        return;
    for (struct sw_list *l = g->members.next; l != &g->members; l = l->next)
        mesh_mark_workload(ix, SW_CONTAINER_OF(l, struct mesh_workload, in_group));
}

static void renew_slice(struct sw_mesh_index *ix, struct mesh_slice *s)
{
    mesh_slice_bind(ix, s);
    mesh_slice_emit(ix, s, mesh_slice_service(ix, s));
}

/* Steps are of very different sizes, and objects of tenants choose them: large ones count more. */
static void charge(struct sw_mesh_index *ix, size_t *left, uint64_t *before)
{
    uint64_t units = (ix->work - *before) / WORK_UNIT;

    *left -= (size_t)sw_min(units, (uint64_t)*left);
    *before = ix->work;
}

/* In the order of what depends on what: each step only marks for later ones. */
static void run(struct sw_mesh_index *ix, size_t *left)
{
    uint64_t before = ix->work;
    struct sw_list *l;

    for (; (l = take(ix, &ix->dirty_hosts, left)); charge(ix, left, &before))
        mesh_host_renew(ix, SW_CONTAINER_OF(l, struct mesh_host, dirty), mesh_mark_service);
    for (; (l = take(ix, &ix->dirty_slices, left)); charge(ix, left, &before))
        renew_slice(ix, SW_CONTAINER_OF(l, struct mesh_slice, dirty));
    for (; (l = take(ix, &ix->dirty_groups, left)); charge(ix, left, &before))
        renew_group(ix, SW_CONTAINER_OF(l, struct mesh_group, dirty));
    for (; (l = take(ix, &ix->dirty_entries, left)); charge(ix, left, &before))
        mesh_entry_emit(ix, SW_CONTAINER_OF(l, struct mesh_svc, dirty));
    for (; (l = take(ix, &ix->dirty_workloads, left)); charge(ix, left, &before))
        mesh_workload_emit(ix, SW_CONTAINER_OF(l, struct mesh_workload, dirty));
}

bool sw_mesh_index_flush(struct sw_mesh_index *ix, size_t most, sw_mesh_emit_fn emit, void *arg)
{
    size_t left = most ? most : SIZE_MAX;

    ix->emit = emit;
    ix->emit_arg = arg;
    run(ix, &left);
    if (!left)
        return false; /* perhaps nothing is left to do: the next call finds out */
    if (ix->dirty_networks)
        mesh_netgws_emit(ix);
    ix->dirty_networks = false;
    mesh_gone_flush(ix);
    sw_arena_reset(&ix->tmp, TMP_KEEP);
    return true;
}

/* ---- questions ---- */

struct sw_mesh_index_stats sw_mesh_index_stats(const struct sw_mesh_index *ix)
{
    return (struct sw_mesh_index_stats){.pods = ix->pods.n,
                                        .held = ix->missing[MESH_MISSING_HELD],
                                        .passed = ix->missing[MESH_MISSING_PASSED],
                                        .workload_entries = ix->workload_entries.n,
                                        .services = ix->services.n,
                                        .service_entries = ix->service_entries.n,
                                        .groups = ix->groups.n,
                                        .texts = ix->pool.texts.n,
                                        .computed = ix->computed,
                                        .emitted = ix->emitted};
}

/* ---- the end ---- */

static void drop_all(struct sw_mesh_index *ix, struct sw_map *map, enum sw_mesh_kind kind)
{
    SW_MAP_FOREACH (it, map) {
        struct sw_slice name = it->key;
        struct sw_slice ns = is_namespaced(kind) ? sw_slice_cut(&name, '/') : sw_slice("", 0);

        sw_mesh_index_del(ix, kind, ns, name);
        sw_arena_reset(&ix->tmp, TMP_KEEP);
    }
    sw_map_done(map);
}

static void drop_named(struct sw_mesh_index *ix)
{
    SW_MAP_EACH (struct mesh_ns, ns, &ix->namespaces) {
        ns->known = false;
        mesh_ns_release(ix, ns);
    }
    SW_MAP_EACH (struct mesh_node, n, &ix->nodes) {
        n->known = false;
        mesh_node_release(ix, n);
    }
}

void sw_mesh_index_clear(struct sw_mesh_index *ix)
{
    drop_all(ix, &ix->pods, SW_MESH_POD);
    drop_all(ix, &ix->workload_entries, SW_MESH_WORKLOAD_ENTRY);
    drop_all(ix, &ix->slices, SW_MESH_SLICE);
    drop_all(ix, &ix->services, SW_MESH_SERVICE);
    drop_all(ix, &ix->service_entries, SW_MESH_SERVICE_ENTRY);
    drop_all(ix, &ix->gateways, SW_MESH_GATEWAY);
    drop_all(ix, &ix->classes, SW_MESH_CLASS);
    drop_named(ix);
}

void sw_mesh_index_free(struct sw_mesh_index *ix)
{
    if (!ix)
        return;
    ix->closing = true;
    sw_mesh_index_clear(ix);
    mesh_far_gateways_done(ix);
    sw_map_done(&ix->namespaces);
    sw_map_done(&ix->nodes);
    sw_map_done(&ix->backings);
    sw_map_done(&ix->hosts);
    sw_map_done(&ix->groups);
    sw_map_done(&ix->targets);
    SW_MAP_DRAIN(&ix->dirty_instances, sw_free);
    mesh_outs_retire(ix, &ix->netgw_outs);
    mesh_gone_done(ix);
    sw_vec_done(&ix->netgws);
    mesh_text_drop(&ix->pool, &ix->network);
    mesh_pool_done(&ix->pool);
    sw_arena_clear(&ix->tmp);
    sw_free(ix);
}
