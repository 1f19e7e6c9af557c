/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a snapshot: references, lookups and the names of things. */
#include "node/state.h"

#include "base/mem.h"
#include "node/state_int.h"

struct sw_state *sw_state_ref(const struct sw_state *s)
{
    struct sw_state *w = (struct sw_state *)(uintptr_t)s; /* only the count is ever written */

    if (w)
        (void)atomic_fetch_add_explicit(&w->refs, 1, memory_order_relaxed);
    return w;
}

struct sw_state *sw_state_unref(const struct sw_state *s)
{
    struct sw_state *w = (struct sw_state *)(uintptr_t)s;

    if (w && atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) == 1) {
        sw_map_done(&w->by_policy);
        sw_map_done(&w->policies_of_ns);
        sw_arena_clear(&w->arena);
        sw_free(w);
    }
    return NULL;
}

uint64_t sw_state_version(const struct sw_state *s)
{
    return s->version;
}

size_t sw_state_bytes(const struct sw_state *s)
{
    return sizeof(*s) + s->arena.total +
           (s->by_policy.cap + s->policies_of_ns.cap) * sizeof(struct sw_map_slot);
}

size_t sw_state_workload_count(const struct sw_state *s)
{
    return s->n_workloads;
}

const struct sw_workload *sw_state_workload_at(const struct sw_state *s, size_t i)
{
    return i < s->n_workloads ? &s->workloads[i] : NULL;
}

size_t sw_state_service_count(const struct sw_state *s)
{
    return s->n_services;
}

const struct sw_service *sw_state_service_at(const struct sw_state *s, size_t i)
{
    return i < s->n_services ? s->services[i] : NULL;
}

size_t sw_state_policy_count(const struct sw_state *s)
{
    return s->n_policies;
}

const struct sw_policy *sw_state_policy_at(const struct sw_state *s, size_t i)
{
    return i < s->n_policies ? s->policies[i] : NULL;
}

size_t sw_state_staged_count(const struct sw_state *s)
{
    return s->n_staged;
}

struct sw_slice sw_state_staged_at(const struct sw_state *s, size_t i)
{
    return i < s->n_staged ? s->staged[i] : sw_slice("", 0);
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

const struct sw_workload *sw_state_workload_by_uid(const struct sw_state *s, struct sw_slice uid)
{
    uint64_t hash = sw_state_hash_text(uid, sw_slice("", 0));

    SW_STATE_PROBE (&s->by_uid, hash, at) {
        const struct sw_workload *w = &s->workloads[s->by_uid.slots[at].id - 1];

        if (sw_slice_eq(sw_workload_uid(w), uid))
            return w;
    }
    return NULL;
}

const struct sw_workload *sw_state_workload_by_ip(const struct sw_state *s, struct sw_slice network,
                                                  const struct sw_ip *ip)
{
    uint64_t hash = sw_state_hash_ip(network, ip, 0);

    SW_STATE_PROBE (&s->by_ip, hash, at) {
        const struct sw_workload *w = &s->workloads[s->by_ip.slots[at].id - 1];

        if (sw_workload_has_ip(w, ip) && sw_slice_eq(w->at->network, network))
            return w;
    }
    return NULL;
}

const struct sw_workload *sw_state_workload_by_hostname(const struct sw_state *s,
                                                        struct sw_slice ns,
                                                        struct sw_slice hostname)
{
    uint64_t hash = sw_state_hash_text(hostname, ns);

    SW_STATE_PROBE (&s->by_hostname, hash, at) {
        const struct sw_workload *w = &s->workloads[s->by_hostname.slots[at].id - 1];

        if (sw_slice_eq(sw_workload_hostname(w), hostname) && sw_slice_eq(w->c->ns, ns))
            return w;
    }
    return NULL;
}

const struct sw_workload *sw_state_local_workload(const struct sw_state *s, struct sw_slice ns,
                                                  struct sw_slice name, struct sw_slice sa)
{
    uint64_t hash = sw_state_hash_text(name, ns);

    SW_STATE_PROBE (&s->local, hash, at) {
        const struct sw_workload *w = &s->workloads[s->local.slots[at].id - 1];

        if (sw_slice_eq(sw_workload_name(w), name) && sw_slice_eq(w->c->ns, ns) &&
            sw_slice_eq(w->c->service_account, sa))
            return w;
    }
    return NULL;
}

const char *sw_workload_type_name(enum sw_workload_type type)
{
    switch (type) {
    case SW_WORKLOAD_DEPLOYMENT:
        return "deployment";
    case SW_WORKLOAD_CRONJOB:
        return "cronjob";
    case SW_WORKLOAD_POD:
        return "pod";
    case SW_WORKLOAD_JOB:
        break;
    }
    return "job";
}

static const struct sw_membership *membership(const struct sw_workload *w,
                                              const struct sw_service *svc)
{
    for (size_t i = 0; i < w->c->n_services; i++) {
        if (w->c->services[i].service == svc)
            return &w->c->services[i];
    }
    return NULL;
}

static const struct sw_port_pair *find_port(const struct sw_port_pair *p, size_t n, uint16_t port)
{
    while (n) {
        size_t half = n / 2;

        if (p[half].service_port == port)
            return &p[half];
        if (p[half].service_port < port) {
            p += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return NULL;
}

uint16_t sw_workload_target_port(const struct sw_workload *w, const struct sw_service *svc,
                                 uint16_t service_port)
{
    const struct sw_membership *m = membership(w, svc);
    const struct sw_port_pair *p = m ? find_port(m->ports, m->n_ports, service_port) : NULL;

    return p ? p->target_port : 0;
}

bool sw_workload_in_service(const struct sw_workload *w, const struct sw_service *svc)
{
    return svc && membership(w, svc);
}

/* ---- services ---- */

/* Same namespace (2) before canonical (1) before any (0). */
static int preference(const struct sw_service *svc, struct sw_slice client_ns)
{
    return sw_slice_eq(svc->ns, client_ns) ? 2 : svc->canonical ? 1 : 0;
}

static const struct sw_service *by_exact_vip(const struct sw_state *s, struct sw_slice network,
                                             const struct sw_ip *ip, struct sw_slice client_ns)
{
    uint64_t hash = sw_state_hash_ip(network, ip, 0);
    const struct sw_service *best = NULL;

    SW_STATE_PROBE (&s->by_vip, hash, at) {
        const struct sw_state_vip *e = &s->vips[s->by_vip.slots[at].id - 1];

        if (!sw_ip_eq(&e->ip, ip) || !sw_slice_eq(e->network, network) ||
            !sw_service_visible(e->service, client_ns))
            continue;
        if (!best || preference(e->service, client_ns) > preference(best, client_ns))
            best = e->service;
    }
    return best;
}

/* The best service with a block of exactly this length around ip. */
static const struct sw_service *by_block(const struct sw_state *s, struct sw_slice network,
                                         const struct sw_ip *ip, unsigned len,
                                         struct sw_slice client_ns)
{
    struct sw_ip net = sw_state_mask(ip, len);
    uint64_t hash = sw_state_hash_ip(network, &net, len + 1);
    const struct sw_service *best = NULL;

    SW_STATE_PROBE (&s->by_cidr, hash, at) {
        const struct sw_state_cidr *e = &s->cidrs[s->by_cidr.slots[at].id - 1];

        if (e->cidr.len != len || !sw_ip_eq(&e->cidr.ip, &net) ||
            !sw_slice_eq(e->network, network) || !sw_service_visible(e->service, client_ns))
            continue;
        if (!best || sw_slice_eq(e->service->ns, client_ns) > sw_slice_eq(best->ns, client_ns) ||
            (sw_slice_eq(e->service->ns, client_ns) == sw_slice_eq(best->ns, client_ns) &&
             e->service->canonical && !best->canonical))
            best = e->service;
    }
    return best;
}

/* Longest first; a block of the client's own namespace beats any longer one of others. */
static const struct sw_service *by_cidr(const struct sw_state *s, struct sw_slice network,
                                        const struct sw_ip *ip, struct sw_slice client_ns)
{
    const uint64_t *lens = ip->family == 4 ? s->cidr_lens4 : s->cidr_lens6;
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

const struct sw_service *sw_state_service_by_key(const struct sw_state *s, struct sw_slice ns,
                                                 struct sw_slice hostname)
{
    uint64_t hash = sw_state_hash_text(hostname, sw_slice("", 0));

    SW_STATE_PROBE (&s->by_service, hash, at) {
        const struct sw_service *svc = s->services[s->by_service.slots[at].id - 1];

        if (sw_slice_eq(svc->hostname, hostname) && sw_slice_eq(svc->ns, ns))
            return svc;
    }
    return NULL;
}

const struct sw_service *sw_state_service_by_hostname(const struct sw_state *s,
                                                      struct sw_slice hostname,
                                                      struct sw_slice client_ns)
{
    uint64_t hash = sw_state_hash_text(hostname, sw_slice("", 0));
    const struct sw_service *best = NULL;

    SW_STATE_PROBE (&s->by_service, hash, at) {
        const struct sw_service *svc = s->services[s->by_service.slots[at].id - 1];

        if (!sw_slice_eq(svc->hostname, hostname) || !sw_service_visible(svc, client_ns))
            continue;
        if (!best || preference(svc, client_ns) > preference(best, client_ns))
            best = svc;
    }
    return best;
}

const struct sw_port_pair *sw_service_port(const struct sw_service *s, uint16_t service_port)
{
    return find_port(s->ports, s->n_ports, service_port);
}

const char *sw_lb_mode_name(enum sw_lb_mode mode)
{
    static const char *const names[] = {"Standard", "Strict", "Failover", "Passthrough"};

    return names[mode];
}

const char *sw_lb_scope_name(enum sw_lb_scope scope)
{
    static const char *const names[] = {"",     "Region",  "Zone",   "Subzone",
                                        "Node", "Cluster", "Network"};

    return names[scope];
}

bool sw_ip_family_allowed(enum sw_ip_families families, uint8_t family)
{
    switch (families) {
    case SW_FAMILIES_V4:
        return family == 4;
    case SW_FAMILIES_V6:
        return family == 6;
    case SW_FAMILIES_AUTO:
    case SW_FAMILIES_DUAL:
        break;
    }
    return true;
}

const char *sw_ip_families_name(enum sw_ip_families f)
{
    static const char *const names[] = {"", "IPv4", "IPv6", "Dual"};

    return names[f];
}

/* ---- policies ---- */

const struct sw_policy *sw_state_policy_by_key(const struct sw_state *s, struct sw_slice key)
{
    return sw_map_get(&s->by_policy, key);
}

struct sw_policy_set sw_state_policies_for(const struct sw_state *s, const struct sw_workload *w)
{
    return (struct sw_policy_set){
        .part = {s->global_policies, sw_map_get(&s->policies_of_ns, w->c->ns), w->c->policies},
        .missing = w->c->missing_policy};
}
