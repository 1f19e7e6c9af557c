/* SPDX-License-Identifier: Apache-2.0 */
/* Freezing a snapshot: link workloads, services and policies, and build the indexes. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/search.h"
#include "node/state_int.h"

void sw_state_index_init(struct sw_state_index *ix, struct sw_arena *a, size_t entries)
{
    size_t cap = 8;

    while (cap < entries + entries / 2 + 1)
        cap *= 2;
    ix->slots = sw_arena_array(a, cap, sizeof(*ix->slots));
    ix->mask = cap - 1;
}

void sw_state_index_add(struct sw_state_index *ix, uint64_t hash, size_t entry)
{
    uint64_t at = hash & ix->mask;

    while (ix->slots[at].id)
        at = (at + 1) & ix->mask;
    ix->slots[at] = (struct sw_state_slot){(uint32_t)(hash >> 32), (uint32_t)entry + 1};
}

/* ---- endpoints a service named itself ---- */

static void apply_claim(struct sw_state_builder *b, const struct sw_state_claim *claim)
{
    uintptr_t at = (uintptr_t)sw_map_get(&b->uids, claim->uid);
    struct sw_workload_class c;
    struct sw_membership *to;
    struct sw_workload *w;

    if (!at)
        return;
    w = &b->drafts.p[at - 1].w;
    c = *w->c;
    for (size_t i = 0; i < c.n_services; i++) {
        if (sw_slice_eq(c.services[i].ns, claim->ns) &&
            sw_slice_eq(c.services[i].hostname, claim->hostname))
            return; /* the workload's own word about its ports stands */
    }
    to = sw_arena_array(&b->scratch, c.n_services + 1, sizeof(*to));
    if (c.n_services)
        memcpy(to, c.services, c.n_services * sizeof(*to));
    to[c.n_services++] = (struct sw_membership){.ns = claim->ns,
                                                .hostname = claim->hostname,
                                                .ports = claim->ports,
                                                .n_ports = claim->n_ports};
    c.services = to;
    w->c = sw_state_share_class(b, &c);
    sw_arena_clear(&b->scratch);
}

/* ---- workloads ---- */

static int by_uid(const void *a, const void *b)
{
    const struct sw_state_draft *const *x = a;
    const struct sw_state_draft *const *y = b;

    return sw_slice_cmp(sw_workload_uid(&(*x)->w), sw_workload_uid(&(*y)->w));
}

/* Sorts drafts into the final array; order[i] is where draft i went. */
static void place_workloads(struct sw_state_builder *b, size_t *order)
{
    struct sw_state *s = b->s;
    size_t n = b->drafts.n;
    SW_AUTO_FREE const struct sw_state_draft **sorted =
        SW_NEW_ARRAY(const struct sw_state_draft *, n + 1);
    struct sw_ip *ips;
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        sorted[i] = &b->drafts.p[i];
        at += b->drafts.p[i].w.n_ips;
    }
    qsort(sorted, n, sizeof(*sorted), by_uid);
    ips = sw_arena_array(&s->arena, at, sizeof(*ips));
    s->workloads = sw_arena_array(&s->arena, n, sizeof(*s->workloads));
    s->n_workloads = n;
    for (size_t i = 0; i < n; i++) {
        struct sw_workload *w = &s->workloads[i];

        *w = sorted[i]->w;
        w->ips = ips;
        if (w->n_ips)
            memcpy(ips, &b->ips.p[sorted[i]->ip_at], w->n_ips * sizeof(*ips));
        ips += w->n_ips;
        order[sorted[i] - b->drafts.p] = i;
    }
}

/* Of several workloads on one address: pods before others, HBONE before plain. */
static int rank(const struct sw_workload *w)
{
    struct sw_slice uid = sw_workload_uid(w);
    bool pod = memmem(uid.p, uid.n, "//Pod/", 6) != NULL;

    return (pod ? 2 : 0) + (w->c->protocol == SW_TUNNEL_HBONE ? 1 : 0);
}

static void index_ip(struct sw_state *s, size_t entry, const struct sw_ip *ip)
{
    const struct sw_workload *w = &s->workloads[entry];
    uint64_t hash = sw_state_hash_ip(w->at->network, ip, 0);

    SW_STATE_PROBE (&s->by_ip, hash, at) {
        const struct sw_workload *other = &s->workloads[s->by_ip.slots[at].id - 1];

        if (!sw_slice_eq(other->at->network, w->at->network) || !sw_workload_has_ip(other, ip))
            continue;
        if (rank(w) >= rank(other)) /* ties: the last to arrive */
            s->by_ip.slots[at].id = (uint32_t)entry + 1;
        return;
    }
    sw_state_index_add(&s->by_ip, hash, entry);
}

static bool is_local(const struct sw_state_builder *b, const struct sw_workload *w)
{
    return b->node.n == 0 || sw_slice_eq(w->at->node, b->node);
}

static void index_workloads(struct sw_state_builder *b, const size_t *order)
{
    struct sw_state *s = b->s;
    size_t ips = 0;
    size_t hosts = 0;
    size_t locals = 0;

    for (size_t i = 0; i < s->n_workloads; i++) {
        const struct sw_workload *w = &s->workloads[i];

        ips += w->c->host_network ? 0 : w->n_ips;
        hosts += w->hostname_ != NULL;
        locals += is_local(b, w);
    }
    sw_state_index_init(&s->by_uid, &s->arena, s->n_workloads);
    sw_state_index_init(&s->by_ip, &s->arena, ips);
    sw_state_index_init(&s->by_hostname, &s->arena, hosts);
    sw_state_index_init(&s->local, &s->arena, locals);
    for (size_t i = 0; i < s->n_workloads; i++) {
        size_t at = order[i]; /* in order of arrival: it breaks ties */
        const struct sw_workload *w = &s->workloads[at];

        sw_state_index_add(&s->by_uid, sw_state_hash_text(sw_workload_uid(w), sw_slice("", 0)), at);
        for (unsigned k = 0; k < w->n_ips && !w->c->host_network; k++)
            index_ip(s, at, &w->ips[k]);
        if (w->hostname_)
            sw_state_index_add(&s->by_hostname, sw_state_hash_text(*w->hostname_, w->c->ns), at);
        if (is_local(b, w))
            sw_state_index_add(&s->local, sw_state_hash_text(sw_workload_name(w), w->c->ns), at);
    }
}

/* ---- services ---- */

static int by_service_key(const void *a, const void *b)
{
    const struct sw_service *const *x = a;
    const struct sw_service *const *y = b;
    int c = sw_slice_cmp((*x)->ns, (*y)->ns);

    return c ? c : sw_slice_cmp((*x)->hostname, (*y)->hostname);
}

/* One entry per (address, namespace): a later service takes the place of an earlier one. */
static void index_vip(struct sw_state *s, const struct sw_network_addr *vip,
                      const struct sw_service *svc, size_t *n)
{
    uint64_t hash = sw_state_hash_ip(vip->network, &vip->ip, 0);

    SW_STATE_PROBE (&s->by_vip, hash, at) {
        struct sw_state_vip *e = &s->vips[s->by_vip.slots[at].id - 1];

        if (sw_ip_eq(&e->ip, &vip->ip) && sw_slice_eq(e->network, vip->network) &&
            sw_slice_eq(e->service->ns, svc->ns)) {
            e->service = svc;
            return;
        }
    }
    s->vips[*n] = (struct sw_state_vip){vip->network, vip->ip, svc};
    sw_state_index_add(&s->by_vip, hash, *n);
    (*n)++;
}

static void index_cidr(struct sw_state *s, const struct sw_network_cidr *c,
                       const struct sw_service *svc, size_t *n)
{
    uint64_t *lens = c->cidr.ip.family == 4 ? s->cidr_lens4 : s->cidr_lens6;

    lens[c->cidr.len / 64] |= (uint64_t)1 << (c->cidr.len % 64);
    s->cidrs[*n] = (struct sw_state_cidr){c->network, c->cidr, svc};
    sw_state_index_add(&s->by_cidr, sw_state_hash_ip(c->network, &c->cidr.ip, c->cidr.len + 1U),
                       *n);
    (*n)++;
}

static void index_services(struct sw_state_builder *b)
{
    struct sw_state *s = b->s;
    size_t vips = 0;
    size_t cidrs = 0;

    s->n_services = b->services.n;
    s->services = sw_arena_array(&s->arena, s->n_services, sizeof(*s->services));
    for (size_t i = 0; i < b->services.n; i++) {
        vips += b->services.p[i]->n_vips;
        cidrs += b->services.p[i]->n_cidr_vips;
    }
    s->vips = sw_arena_array(&s->arena, vips, sizeof(*s->vips));
    s->cidrs = sw_arena_array(&s->arena, cidrs, sizeof(*s->cidrs));
    sw_state_index_init(&s->by_vip, &s->arena, vips);
    sw_state_index_init(&s->by_cidr, &s->arena, cidrs);
    sw_state_index_init(&s->by_service, &s->arena, s->n_services);
    if (s->n_services) {
        memcpy(s->services, b->services.p, s->n_services * sizeof(*s->services));
        qsort(s->services, s->n_services, sizeof(*s->services), by_service_key);
    }
    vips = 0;
    cidrs = 0;
    for (size_t i = 0; i < b->services.n; i++) {
        const struct sw_service *svc = b->services.p[i];

        for (size_t k = 0; k < svc->n_vips; k++)
            index_vip(s, &svc->vips[k], svc, &vips);
        for (size_t k = 0; k < svc->n_cidr_vips; k++)
            index_cidr(s, &svc->cidr_vips[k], svc, &cidrs);
    }
}

/* Needs the position in the sorted array, which is what the index holds. */
static void index_hostnames(struct sw_state_builder *b)
{
    struct sw_state *s = b->s;

    for (size_t i = 0; i < b->services.n; i++) {
        struct sw_service **found = bsearch(&b->services.p[i], s->services, s->n_services,
                                            sizeof(*s->services), by_service_key);

        if (found)
            sw_state_index_add(&s->by_service,
                               sw_state_hash_text(b->services.p[i]->hostname, sw_slice("", 0)),
                               (size_t)(found - s->services));
    }
}

/* ---- links ---- */

static void link_memberships(struct sw_state_builder *b)
{
    struct sw_state *s = b->s;
    SW_VEC(struct sw_slice) staged = {0};
    size_t n = 0;

    SW_VEC_FOREACH (struct sw_workload_class *, it, &b->classes) {
        struct sw_membership *linked = (struct sw_membership *)(uintptr_t)(*it)->services;

        for (size_t i = 0; i < (*it)->n_services; i++) {
            linked[i].service = sw_state_service_by_key(s, linked[i].ns, linked[i].hostname);
            if (!linked[i].service)
                sw_vec_push(&staged, sw_slice_str(sw_arena_printf(
                                         &s->arena, "%.*s/%.*s", SW_SLICE_ARG(linked[i].ns),
                                         SW_SLICE_ARG(linked[i].hostname))));
        }
    }
    s->staged = sw_arena_array(&s->arena, staged.n, sizeof(*s->staged));
    sw_slice_sort(staged.p, staged.n);
    for (size_t i = 0; i < staged.n; i++) {
        if (i == 0 || !sw_slice_eq(staged.p[i], staged.p[i - 1]))
            s->staged[n++] = staged.p[i];
    }
    s->n_staged = n;
    sw_vec_done(&staged);
}

/* Services are the builder's until the snapshot is handed out, so they may still be written. */
static struct sw_service *endpoint_of(const struct sw_workload *w, const struct sw_membership *m)
{
    if (!m->service || (!w->healthy && !m->service->allow_unhealthy))
        return NULL;
    return (struct sw_service *)(uintptr_t)m->service;
}

static void link_endpoints(struct sw_state *s)
{
    for (size_t i = 0; i < s->n_workloads; i++) {
        const struct sw_workload *w = &s->workloads[i];

        for (size_t k = 0; k < w->c->n_services; k++) {
            struct sw_service *svc = endpoint_of(w, &w->c->services[k]);

            if (svc)
                svc->n_endpoints++;
        }
    }
    for (size_t i = 0; i < s->n_services; i++) {
        struct sw_service *svc = s->services[i];

        svc->endpoints = sw_arena_array(&s->arena, svc->n_endpoints, sizeof(*svc->endpoints));
        svc->n_endpoints = 0;
        svc->uniform = true;
    }
    for (size_t i = 0; i < s->n_workloads; i++) {
        const struct sw_workload *w = &s->workloads[i];

        for (size_t k = 0; k < w->c->n_services; k++) {
            struct sw_service *svc = endpoint_of(w, &w->c->services[k]);

            if (!svc)
                continue;
            ((const struct sw_workload **)(uintptr_t)svc->endpoints)[svc->n_endpoints++] = w;
            svc->uniform = svc->uniform && w->n_ips && w->capacity == 1;
        }
    }
}

/* ---- policies ---- */

static int by_policy_key(const void *a, const void *b)
{
    const struct sw_policy *const *x = a;
    const struct sw_policy *const *y = b;

    int c = sw_slice_cmp((*x)->ns, (*y)->ns);

    return c ? c : sw_slice_cmp((*x)->name, (*y)->name);
}

static const struct sw_policy_list *list_of(struct sw_state *s, enum sw_policy_scope scope,
                                            size_t from, size_t to)
{
    SW_VEC(const struct sw_policy *) found = {0};
    const struct sw_policy_list *l = NULL;

    for (size_t i = from; i < to; i++) {
        if (s->policies[i]->scope == scope)
            sw_vec_push(&found, s->policies[i]);
    }
    if (found.n)
        l = sw_policy_list_new(&s->arena, found.p, found.n);
    sw_vec_done(&found);
    return l;
}

static void index_policies(struct sw_state_builder *b)
{
    struct sw_state *s = b->s;
    size_t from = 0;

    s->n_policies = b->policies.n;
    s->policies = sw_arena_array(&s->arena, s->n_policies, sizeof(*s->policies));
    if (s->n_policies) {
        memcpy(s->policies, b->policies.p, s->n_policies * sizeof(*s->policies));
        qsort(s->policies, s->n_policies, sizeof(*s->policies), by_policy_key);
    }
    for (size_t i = 0; i < s->n_policies; i++)
        (void)sw_map_put(&s->by_policy, s->policies[i]->key, s->policies[i]);
    s->global_policies = list_of(s, SW_POLICY_GLOBAL, 0, s->n_policies);
    /* Sorted by namespace first, so its policies lie together. */
    for (size_t i = 0; i < s->n_policies; i++) {
        const struct sw_policy_list *l;

        if (i + 1 < s->n_policies && sw_slice_eq(s->policies[i]->ns, s->policies[i + 1]->ns))
            continue;
        l = list_of(s, SW_POLICY_NAMESPACE, from, i + 1);
        if (l)
            (void)sw_map_put(&s->policies_of_ns, s->policies[i]->ns, (void *)(uintptr_t)l);
        from = i + 1;
    }
}

static void link_policies(struct sw_state_builder *b, struct sw_workload_class *c,
                          struct sw_map *lists)
{
    struct sw_slice key = sw_slice(c->policy_keys, c->n_policy_keys * sizeof(*c->policy_keys));
    SW_VEC(const struct sw_policy *) found = {0};

    if (c->n_policy_keys == 0)
        return;
    for (size_t i = 0; i < c->n_policy_keys; i++) {
        const struct sw_policy *p = sw_state_policy_by_key(b->s, c->policy_keys[i]);

        if (p)
            sw_vec_push(&found, p);
        else if (c->missing_policy.n == 0)
            c->missing_policy = c->policy_keys[i];
    }
    if (found.n) {
        /* Keys are interned, so equal arrays of slices are equal lists. */
        c->policies = sw_map_get(lists, key);
        if (!c->policies) {
            c->policies = sw_policy_list_new(&b->s->arena, found.p, found.n);
            (void)sw_map_put(lists, key, (void *)(uintptr_t)c->policies);
        }
    }
    sw_vec_done(&found);
}

struct sw_state *sw_state_finish(struct sw_state_builder *b)
{
    SW_AUTO_FREE size_t *order = SW_NEW_ARRAY(size_t, b->drafts.n + 1);
    struct sw_state *s = b->s;
    struct sw_map lists = {0};

    SW_VEC_FOREACH (struct sw_state_claim, it, &b->claims)
        apply_claim(b, it);
    place_workloads(b, order);
    index_workloads(b, order);
    index_services(b);
    index_hostnames(b);
    link_memberships(b);
    link_endpoints(s);
    index_policies(b);
    SW_VEC_FOREACH (struct sw_workload_class *, it, &b->classes)
        link_policies(b, *it, &lists);
    sw_map_done(&lists);
    b->s = NULL;
    sw_state_builder_free(b);
    return s;
}
