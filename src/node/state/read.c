/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a snapshot: lookups and the names of things. */
#include "node/state.h"

#include "node/state/state_int.h"

static const struct sw_slice none = {"", 0};

uint64_t sw_state_version(const struct sw_state *s)
{
    return s->version;
}

uint64_t sw_state_local_version(const struct sw_state *s)
{
    return s->t.local_version;
}

uint64_t sw_state_authz_version(const struct sw_state *s)
{
    return s->t.authz_version;
}

uint64_t sw_state_places_version(const struct sw_state *s)
{
    return s->t.places_version;
}

size_t sw_state_workload_count(const struct sw_state *s)
{
    return s->t.by_uid.n;
}

size_t sw_state_service_count(const struct sw_state *s)
{
    return s->t.by_service.n;
}

size_t sw_state_policy_count(const struct sw_state *s)
{
    return s->t.by_policy.n;
}

size_t sw_state_staged_count(const struct sw_state *s)
{
    return s->t.staged.n;
}

/* ---- hashing ---- */

uint64_t sw_state_hash_text(struct sw_slice a, struct sw_slice b)
{
    uint64_t h = sw_hash(a.n ? a.p : "", a.n);

    return b.n ? h * 0x9e3779b97f4a7c15U + sw_hash(b.p, b.n) : h;
}

uint64_t sw_state_hash_ip(struct sw_slice network, const struct sw_ip *ip, unsigned len)
{
    uint8_t key[18 + 64];
    size_t n = sw_ip_len(ip);

    key[0] = ip->family;
    key[1] = (uint8_t)len;
    memcpy(key + 2, ip->b, n);
    n += 2;
    if (network.n > 64)
        return sw_hash(key, n) * 0x9e3779b97f4a7c15U + sw_hash(network.p, network.n);
    if (network.n)
        memcpy(key + n, network.p, network.n);
    return sw_hash(key, n + network.n);
}

struct sw_ip sw_state_mask(const struct sw_ip *ip, unsigned len)
{
    struct sw_ip out = *ip;

    for (unsigned i = 0; i < sizeof(out.b); i++) {
        if (len >= (i + 1) * 8)
            continue;
        out.b[i] &= len <= i * 8 ? 0 : (uint8_t)(0xff00U >> (len - i * 8));
    }
    return out;
}

/* ---- workloads ---- */

const struct sw_workload *sw_state_find_uid(const struct sw_state_tables *t, struct sw_slice uid)
{
    return SW_SMAP_FIND(const struct sw_workload, w, &t->by_uid, sw_state_hash_text(uid, none),
                        sw_workload_is(w, uid));
}

const struct sw_workload *sw_state_workload_by_uid(const struct sw_state *s, struct sw_slice uid)
{
    return sw_state_find_uid(&s->t, uid);
}

bool sw_workload_is_pod(const struct sw_workload *w)
{
    struct sw_slice head = w->c->uid_head;
    struct sw_slice tail = sw_workload_uid_tail(w);

    return memmem(head.p, head.n, "//Pod/", 6) || memmem(tail.p, tail.n, "//Pod/", 6);
}

/* Of several workloads on one address: pods before others, HBONE before plain. */
static int rank(const struct sw_workload *w)
{
    return (sw_workload_is_pod(w) ? 2 : 0) + (w->c->protocol == SW_TUNNEL_HBONE ? 1 : 0);
}

/*
 * A pod that comes has the address of one that goes. An entry says what its writer likes: one of
 * another namespace takes no address from who has it, whatever it says of tunnels.
 */
static bool supplants(const struct sw_workload *w, const struct sw_workload *best)
{
    if (!sw_workload_is_pod(w) && !sw_slice_eq(w->c->ns, best->c->ns))
        return false;
    return rank(w) >= rank(best);
}

const struct sw_workload *sw_state_workload_by_ip(const struct sw_state *s, struct sw_slice network,
                                                  const struct sw_ip *ip)
{
    uint64_t hash = sw_state_hash_ip(network, ip, 0);
    const struct sw_workload *best = NULL;

    SW_SMAP_PROBE (&s->t.by_ip, hash, it) {
        const struct sw_workload *w = sw_smap_value(it);

        if (!sw_workload_has_ip(w, ip) || !sw_slice_eq(w->at->network, network))
            continue;
        if (!best || supplants(w, best))
            best = w;
    }
    return best;
}

const struct sw_workload *sw_state_workload_by_hostname(const struct sw_state *s,
                                                        struct sw_slice ns,
                                                        struct sw_slice hostname)
{
    return SW_SMAP_FIND(
        const struct sw_workload, w, &s->t.by_hostname, sw_state_hash_text(hostname, ns),
        sw_slice_eq(sw_workload_hostname(w), hostname) && sw_slice_eq(w->c->ns, ns));
}

const struct sw_workload *sw_state_local_workload(const struct sw_state *s, struct sw_slice ns,
                                                  struct sw_slice name, struct sw_slice sa)
{
    return SW_SMAP_FIND(const struct sw_workload, w, &s->t.local, sw_state_hash_text(name, ns),
                        sw_slice_eq(sw_workload_name(w), name) && sw_slice_eq(w->c->ns, ns) &&
                            sw_slice_eq(w->c->service_account, sa));
}

/* ---- services ---- */

/* Same namespace (2) before canonical (1) before any (0). */
static int preference(const struct sw_service *svc, struct sw_slice client_ns)
{
    return sw_slice_eq(svc->ns, client_ns) ? 2 : svc->canonical ? 1 : 0;
}

/* The one that a client prefers, the first of several; best may be NULL. */
static const struct sw_service *better(const struct sw_service *best, const struct sw_service *svc,
                                       struct sw_slice client_ns)
{
    return best && preference(best, client_ns) >= preference(svc, client_ns) ? best : svc;
}

static bool has_vip(const struct sw_service *svc, struct sw_slice network, const struct sw_ip *ip)
{
    for (size_t i = 0; i < svc->n_vips; i++) {
        if (sw_ip_eq(&svc->vips[i].ip, ip) && sw_slice_eq(svc->vips[i].network, network))
            return true;
    }
    return false;
}

/* One service per (address, namespace): a later one takes the place of an earlier one. */
static bool superseded(const struct sw_smap_entry *at, const struct sw_smap_entry *end,
                       struct sw_slice network, const struct sw_ip *ip)
{
    const struct sw_service *svc = sw_smap_value(at);

    for (const struct sw_smap_entry *it = at + 1; it < end && sw_smap_part(it) == sw_smap_part(at);
         it++) {
        const struct sw_service *later = sw_smap_value(it);

        if (sw_slice_eq(later->ns, svc->ns) && has_vip(later, network, ip))
            return true;
    }
    return false;
}

static const struct sw_service *by_exact_vip(const struct sw_state *s, struct sw_slice network,
                                             const struct sw_ip *ip, struct sw_slice client_ns)
{
    uint64_t hash = sw_state_hash_ip(network, ip, 0);
    const struct sw_service *best = NULL;

    SW_SMAP_PROBE (&s->t.by_vip, hash, it) {
        const struct sw_service *svc = sw_smap_value(it);

        if (sw_service_visible(svc, client_ns) && has_vip(svc, network, ip) &&
            !superseded(it, it_end, network, ip))
            best = better(best, svc, client_ns);
    }
    return best;
}

static bool has_block(const struct sw_service *svc, struct sw_slice network,
                      const struct sw_ip *net, unsigned len)
{
    for (size_t i = 0; i < svc->n_cidr_vips; i++) {
        const struct sw_network_cidr *c = &svc->cidr_vips[i];

        if (c->cidr.len == len && sw_ip_eq(&c->cidr.ip, net) && sw_slice_eq(c->network, network))
            return true;
    }
    return false;
}

/* The best service with a block of exactly this length around ip. */
static const struct sw_service *by_block(const struct sw_state *s, struct sw_slice network,
                                         const struct sw_ip *ip, unsigned len,
                                         struct sw_slice client_ns)
{
    struct sw_ip net = sw_state_mask(ip, len);
    uint64_t hash = sw_state_hash_ip(network, &net, len + 1);
    const struct sw_service *best = NULL;

    SW_SMAP_PROBE (&s->t.by_cidr, hash, it) {
        const struct sw_service *svc = sw_smap_value(it);

        if (sw_service_visible(svc, client_ns) && has_block(svc, network, &net, len))
            best = better(best, svc, client_ns);
    }
    return best;
}

/* Longest first; a block of the client's own namespace beats any longer one of others. */
static const struct sw_service *by_cidr(const struct sw_state *s, struct sw_slice network,
                                        const struct sw_ip *ip, struct sw_slice client_ns)
{
    const uint64_t *lens = ip->family == 4 ? s->t.cidr_lens4 : s->t.cidr_lens6;
    const struct sw_service *best = NULL;

    for (unsigned len = (unsigned)sw_ip_len(ip) * 8 + 1; len-- > 0;) {
        const struct sw_service *svc;

        if (!(lens[len / 64] >> (len % 64) & 1))
            continue;
        svc = by_block(s, network, ip, len, client_ns);
        if (svc && sw_slice_eq(svc->ns, client_ns))
            return svc;
        if (!best)
            best = svc;
    }
    return best;
}

const struct sw_service *sw_state_service_by_vip(const struct sw_state *s, struct sw_slice network,
                                                 const struct sw_ip *ip, struct sw_slice client_ns)
{
    const struct sw_service *svc = by_exact_vip(s, network, ip, client_ns);

    if (svc || ip->family == 0)
        return svc;
    return by_cidr(s, network, ip, client_ns);
}

const struct sw_service *sw_state_find_service(const struct sw_state_tables *t, struct sw_slice ns,
                                               struct sw_slice hostname)
{
    return SW_SMAP_FIND(const struct sw_service, svc, &t->by_service,
                        sw_state_hash_text(hostname, none),
                        sw_slice_eq(svc->hostname, hostname) && sw_slice_eq(svc->ns, ns));
}

const struct sw_service *sw_state_service_by_key(const struct sw_state *s, struct sw_slice ns,
                                                 struct sw_slice hostname)
{
    return sw_state_find_service(&s->t, ns, hostname);
}

const struct sw_service *sw_state_service_by_hostname(const struct sw_state *s,
                                                      struct sw_slice hostname,
                                                      struct sw_slice client_ns)
{
    uint64_t hash = sw_state_hash_text(hostname, none);
    const struct sw_service *best = NULL;

    SW_SMAP_PROBE (&s->t.by_service, hash, it) {
        const struct sw_service *svc = sw_smap_value(it);

        if (sw_slice_eq(svc->hostname, hostname) && sw_service_visible(svc, client_ns))
            best = better(best, svc, client_ns);
    }
    return best;
}

size_t sw_state_services_by_host(const struct sw_state *s, struct sw_slice hostname,
                                 const struct sw_service **ret, size_t max)
{
    uint64_t hash = sw_state_hash_text(hostname, none);
    size_t n = 0;

    SW_SMAP_PROBE (&s->t.by_service, hash, it) {
        const struct sw_service *svc = sw_smap_value(it);

        if (n < max && sw_slice_eq(svc->hostname, hostname))
            ret[n++] = svc;
    }
    return n;
}

/* ---- policies ---- */

const struct sw_shared_policy *sw_state_find_policy(const struct sw_state_tables *t,
                                                    struct sw_slice key)
{
    return SW_SMAP_FIND(const struct sw_shared_policy, p, &t->by_policy,
                        sw_state_hash_text(key, none), sw_slice_eq(p->p->key, key));
}

const struct sw_scope_list *sw_state_find_scope(const struct sw_state_tables *t, struct sw_slice ns)
{
    return SW_SMAP_FIND(const struct sw_scope_list, l, &t->by_ns, sw_state_hash_text(ns, none),
                        sw_slice_eq(l->ns, ns));
}

static const struct sw_policy_list *list_of(const struct sw_scope_list *l)
{
    return l ? l->list : NULL;
}

static const struct sw_selected *selected(const struct sw_state *s, const struct sw_selector *sel)
{
    return SW_SMAP_FIND(const struct sw_selected, found, &s->t.selected, sel->hash,
                        found->of == sel);
}

struct sw_policy_set sw_state_policies_for(const struct sw_state *s, const struct sw_workload *w)
{
    const struct sw_selector *sel = w->c->selector;
    const struct sw_selected *own = sel ? selected(s, sel) : NULL;
    struct sw_policy_set set = {
        .part = {list_of(s->t.global), list_of(sw_state_find_scope(&s->t, w->c->ns))}};

    if (own) {
        set.part[2] = own->list;
        set.missing = own->missing;
    } else if (sel) {
        set.missing = sel->keys[0]; /* a record of another snapshot: nothing is known of it here */
    }
    return set;
}
