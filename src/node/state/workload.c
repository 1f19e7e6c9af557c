/* SPDX-License-Identifier: Apache-2.0 */
/* Workloads in and out of the builder: check, copy, index. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "node/state/state_int.h"

enum {
    IPS_MAX = 255,
    LINKS_MAX = 10000,
    PORTS_MAX = 1 << 18,
    FEW = 16, /* of these every pair is compared */
};

/* ---- pieces ---- */

int sw_state_check_gateway(const struct sw_gateway_addr *g, const char *what, struct sw_err *err)
{
    if (g->by_hostname ? g->hostname.n == 0 : g->ip.family == 0)
        return sw_err_set(err, SW_EINVAL, "%s has no destination", what);
    if (sw_slice_find(g->ns, '\0') >= 0 || sw_slice_find(g->hostname, '\0') >= 0 ||
        sw_slice_find(g->network, '\0') >= 0)
        return sw_err_set(err, SW_EINVAL, "%s has a NUL byte in its name", what);
    return SW_OK;
}

const struct sw_gateway_addr *sw_state_take_gateway(struct sw_arena *a,
                                                    const struct sw_gateway_addr *g)
{
    struct sw_gateway_addr *to;

    if (!g)
        return NULL;
    to = SW_ARENA_NEW(a, struct sw_gateway_addr);
    *to = *g;
    to->network = sw_arena_slice(a, g->network);
    to->ns = sw_arena_slice(a, g->ns);
    to->hostname = sw_arena_slice(a, g->hostname);
    return to;
}

static int by_service_port(const void *a, const void *b)
{
    const struct sw_port_pair *x = a;
    const struct sw_port_pair *y = b;

    return (int)x->service_port - (int)y->service_port;
}

const struct sw_port_pair *sw_state_take_ports(struct sw_arena *a, const struct sw_port_pair *from,
                                               size_t n, size_t *ret_n)
{
    struct sw_port_pair *to;

    *ret_n = n;
    if (n == 0)
        return NULL;
    to = sw_arena_array(a, n, sizeof(*to));
    memcpy(to, from, n * sizeof(*to));
    qsort(to, n, sizeof(*to), by_service_port);
    return to;
}

/* ---- checks ---- */

static int check_workload(const struct sw_workload_spec *w, struct sw_err *err)
{
    const struct sw_slice texts[] = {w->uid,        w->name,          w->ns,
                                     w->network,    w->trust_domain,  w->service_account,
                                     w->node,       w->workload_name, w->canonical_name,
                                     w->cluster_id, w->hostname,      w->canonical_revision,
                                     w->region,     w->zone,          w->subzone};

    if (w->uid.n == 0)
        return sw_err_set(err, SW_EINVAL, "workload without a uid");
    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        if (texts[i].n > SW_STATE_TEXT_MAX)
            return sw_err_set(err, SW_ELIMIT, "a text of %zu bytes is too long", texts[i].n);
        if (sw_slice_find(texts[i], '\0') >= 0)
            return sw_err_set(err, SW_EINVAL, "a text has a NUL byte");
    }
    if (w->protocol == 2)
        return sw_err_set(err, SW_EINVAL, "tunnel protocol LEGACY_ISTIO_MTLS is not supported");
    if (w->protocol != SW_TUNNEL_NONE && w->protocol != SW_TUNNEL_HBONE)
        return sw_err_set(err, SW_EINVAL, "unknown tunnel protocol %d", w->protocol);
    if (w->type < SW_WORKLOAD_DEPLOYMENT || w->type > SW_WORKLOAD_JOB)
        return sw_err_set(err, SW_EINVAL, "unknown workload type %d", w->type);
    if (w->app_tunnel != SW_APP_TUNNEL_NONE && w->app_tunnel != SW_APP_TUNNEL_PROXY)
        return sw_err_set(err, SW_EINVAL, "unknown application tunnel protocol %d", w->app_tunnel);
    if (w->n_ips > IPS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d addresses", IPS_MAX);
    for (size_t i = 0; i < w->n_ips; i++) {
        if (w->ips[i].family == 0)
            return sw_err_set(err, SW_EINVAL, "an address is neither IPv4 nor IPv6");
    }
    return SW_OK;
}

static int check_links(const struct sw_workload_spec *w, struct sw_err *err)
{
    size_t ports = 0;

    if (w->n_services + w->n_policies > LINKS_MAX)
        return sw_err_set(err, SW_ELIMIT, "too many services or policies");
    for (size_t i = 0; i < w->n_services; i++) {
        struct sw_slice key = w->services[i].key;

        if (sw_slice_find(key, '\0') >= 0)
            return sw_err_set(err, SW_EINVAL, "a service has a NUL byte in its name");
        if (sw_slice_find(key, '/') < 0)
            return sw_err_set(err, SW_EINVAL, "service '%.*s' is not NAMESPACE/HOSTNAME",
                              SW_SLICE_ARG_MAX(key, 64));
        if (__builtin_add_overflow(ports, w->services[i].n_ports, &ports) || ports > PORTS_MAX ||
            key.n > SW_STATE_TEXT_MAX)
            return sw_err_set(err, SW_ELIMIT, "too many ports");
    }
    if (w->waypoint && sw_state_check_gateway(w->waypoint, "waypoint", err) != SW_OK)
        return SW_EINVAL;
    if (w->network_gateway &&
        sw_state_check_gateway(w->network_gateway, "network gateway", err) != SW_OK)
        return SW_EINVAL;
    return SW_OK;
}

/* ---- records ---- */

/* Addresses without repetitions: each has one entry in the index. */
static size_t distinct_ips(const struct sw_workload_spec *w, struct sw_ip out[IPS_MAX])
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_ips; i++) {
        size_t k = 0;

        while (k < n && !sw_ip_eq(&out[k], &w->ips[i]))
            k++;
        if (k == n)
            out[n++] = w->ips[i];
    }
    return n;
}

/* A service that is named twice: the last word counts, as in a map. */
static size_t distinct_services(const struct sw_workload_spec *w, struct sw_membership_spec *out)
{
    struct sw_map seen = {0};
    size_t n = 0;

    for (size_t i = 0; i < w->n_services; i++) {
        struct sw_slice key = w->services[i].key;
        size_t k = 0;

        if (w->n_services <= FEW) {
            while (k < n && !sw_slice_eq(out[k].key, key))
                k++;
        } else {
            uintptr_t at = (uintptr_t)sw_map_get(&seen, key);

            k = at ? at - 1 : n;
            (void)sw_map_put(&seen, key, (void *)(k + 1));
        }
        out[k] = w->services[i];
        n += k == n;
    }
    sw_map_done(&seen);
    return n;
}

/* ---- indexes ---- */

static bool on_own_node(const struct sw_state_builder *b, const struct sw_workload *w)
{
    return b->node[0] == '\0' || sw_slice_eq_str(w->at->node, b->node);
}

static bool owns_ip(const struct sw_workload *w, struct sw_slice network, const struct sw_ip *ip)
{
    return w && !w->c->host_network && sw_slice_eq(w->at->network, network) &&
           sw_workload_has_ip(w, ip);
}

static void index_ips(struct sw_state_builder *b, const struct sw_workload *old,
                      const struct sw_workload *new)
{
    for (unsigned i = 0; old && !old->c->host_network && i < old->n_ips; i++) {
        struct sw_ip ip = sw_workload_ip(old, i);
        uint64_t hash = sw_state_hash_ip(old->at->network, &ip, 0);

        sw_smap_set(&b->t.by_ip, &b->edit, hash, old,
                    owns_ip(new, old->at->network, &ip) ? new : NULL);
    }
    for (unsigned i = 0; new && !new->c->host_network &&i < new->n_ips; i++) {
        struct sw_ip ip = sw_workload_ip(new, i);

        if (!owns_ip(old, new->at->network, &ip))
            sw_smap_add(&b->t.by_ip, &b->edit, sw_state_hash_ip(new->at->network, &ip, 0), new);
    }
}

/* In an index with at most one entry for each workload: out with the old one, in with the new. */
static void index_one(struct sw_state_builder *b, struct sw_smap *m, const struct sw_workload *old,
                      uint64_t old_hash, const struct sw_workload *new, uint64_t new_hash)
{
    bool stays = old_hash == new_hash;

    sw_smap_set(m, &b->edit, old_hash, old, stays ? new : NULL);
    if (!stays)
        sw_smap_set(m, &b->edit, new_hash, NULL, new);
}

static uint64_t hostname_hash(const struct sw_workload *w)
{
    return w ? sw_state_hash_text(sw_workload_hostname(w), w->c->ns) : 0;
}

static uint64_t name_hash(const struct sw_workload *w)
{
    return w ? sw_state_hash_text(sw_workload_name(w), w->c->ns) : 0;
}

static bool moved(const struct sw_workload *old, const struct sw_workload *new)
{
    return !new || old->n_ips != new->n_ips || old->only_v4 != new->only_v4 ||
           memcmp(old->bytes, new->bytes, old->n_ips * sw_workload_ip_size(old)) != 0;
}

/* 'new' takes the place of 'old', which has the same uid; either may be NULL. */
static void relink(struct sw_state_builder *b, struct sw_slice name, const struct sw_workload *old,
                   const struct sw_workload *new)
{
    const struct sw_workload *was = old && old->has_hostname ? old : NULL;
    const struct sw_workload *is = new &&new->has_hostname ? new : NULL;
    uint64_t uid = sw_state_hash_text(name, sw_slice("", 0));

    index_one(b, &b->t.by_uid, old, uid, new, uid);
    index_one(b, &b->t.by_hostname, was, hostname_hash(was), is, hostname_hash(is));
    was = old && on_own_node(b, old) ? old : NULL;
    is = new &&on_own_node(b, new) ? new : NULL;
    index_one(b, &b->t.local, was, name_hash(was), is, name_hash(is));
    if (was || is) {
        b->t.local_version = sw_state_tick();
        b->t.authz_version = sw_state_tick();
    }
    if (old && moved(old, new))
        b->t.places_version = sw_state_tick();
    index_ips(b, old, new);
    for (size_t i = 0; old && i < old->c->n_services; i++)
        sw_roster_del(b, sw_membership_key(&old->c->services[i]), old);
    for (size_t i = 0; new &&i < new->c->n_services; i++)
        sw_roster_add(b, sw_membership_key(&new->c->services[i]), new);
    if (old) {
        sw_state_class_release(b, old->c);
        sw_state_place_release(b, old->at);
        sw_state_junk(b, old);
    }
    b->changed = true;
}

int sw_state_add_workload(struct sw_state_builder *b, const struct sw_workload_spec *spec,
                          struct sw_err *err)
{
    struct sw_ip ips[IPS_MAX];
    struct sw_workload_spec s = *spec;
    SW_AUTO_FREE struct sw_membership_spec *services = NULL;
    struct sw_workload *w;
    int rc = check_workload(spec, err);

    if (rc == SW_OK)
        rc = check_links(spec, err);
    if (rc != SW_OK)
        return rc;
    s.n_ips = distinct_ips(spec, ips);
    s.ips = ips;
    if (s.n_services > 1) {
        services = SW_NEW_ARRAY(struct sw_membership_spec, s.n_services);
        s.n_services = distinct_services(spec, services);
        s.services = services;
    }
    w = sw_state_record(&s);
    w->c = sw_state_class(b, &s, sw_slice_head(s.uid, s.uid.n - w->uid_n));
    w->at = sw_state_place(b, &s);
    relink(b, s.uid, sw_state_find_uid(&b->t, s.uid), w);
    return SW_OK;
}

bool sw_state_remove_workload(struct sw_state_builder *b, struct sw_slice uid)
{
    const struct sw_workload *old = sw_state_find_uid(&b->t, uid);

    if (old)
        relink(b, uid, old, NULL);
    return old != NULL;
}

bool sw_state_has_workload(const struct sw_state_builder *b, struct sw_slice uid)
{
    return sw_state_find_uid(&b->t, uid) != NULL;
}

/* ---- endpoints a service named itself ---- */

static void apply_claim(struct sw_state_builder *b, const struct sw_state_claim *claim)
{
    const struct sw_workload *w = sw_state_find_uid(&b->t, claim->uid);
    SW_ARENA_AUTO a = {0};
    struct sw_workload_spec spec;
    struct sw_membership_spec *services;

    if (!w)
        return;
    sw_state_spec_of(w, &a, &spec);
    services = sw_arena_array(&a, spec.n_services + 1, sizeof(*services));
    for (size_t i = 0; i < spec.n_services; i++) {
        services[i] = spec.services[i];
        if (sw_slice_eq(services[i].key, claim->key))
            return; /* the workload's own word about its ports stands */
    }
    services[spec.n_services++] = (struct sw_membership_spec){
        .key = claim->key, .ports = claim->ports, .n_ports = claim->n_ports};
    spec.services = services;
    /* Checked when it came in; with too many services it stays as it is. */
    (void)!sw_state_add_workload(b, &spec, NULL);
}

void sw_state_settle_claims(struct sw_state_builder *b)
{
    SW_VEC_FOREACH (struct sw_state_claim, it, &b->claims)
        apply_claim(b, it);
    sw_vec_done(&b->claims);
    sw_arena_clear(&b->claim_arena);
}
