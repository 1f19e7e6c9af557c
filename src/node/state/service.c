/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services in and out of the builder: check, copy, index. What a service says of itself is its
 * body; the record that snapshots show is the body with the endpoints of the moment, and is made
 * again whenever those change.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "node/state/state_int.h"

enum { ADDRESSES_MAX = 4096 };

static int check_service(const struct sw_service_spec *s, struct sw_err *err)
{
    if (s->hostname.n == 0)
        return sw_err_set(err, SW_EINVAL, "service without a hostname");
    if (s->hostname.n > 255 || s->ns.n > SW_STATE_TEXT_MAX || s->name.n > SW_STATE_TEXT_MAX)
        return sw_err_set(err, SW_ELIMIT, "the hostname is too long");
    if (sw_slice_find(s->hostname, '\0') >= 0 || sw_slice_find(s->ns, '\0') >= 0 ||
        sw_slice_find(s->name, '\0') >= 0)
        return sw_err_set(err, SW_EINVAL, "a NUL byte in the name");
    if (s->mode < SW_LB_STANDARD || s->mode > SW_LB_PASSTHROUGH)
        return sw_err_set(err, SW_EINVAL, "unknown load balancing mode %d", s->mode);
    if (s->families < SW_FAMILIES_AUTO || s->families > SW_FAMILIES_DUAL)
        return sw_err_set(err, SW_EINVAL, "unknown IP families %d", s->families);
    if (s->health_policy < 0 || s->health_policy > 1)
        return sw_err_set(err, SW_EINVAL, "unknown health policy %d", s->health_policy);
    if (s->n_prefs > SW_LB_SCOPES_MAX)
        return sw_err_set(err, SW_ELIMIT, "too many routing preferences");
    for (size_t i = 0; i < s->n_prefs; i++) {
        if (s->prefs[i] < SW_LB_REGION || s->prefs[i] > SW_LB_NETWORK)
            return sw_err_set(err, SW_EINVAL, "unknown routing preference %d", s->prefs[i]);
    }
    if (s->waypoint && sw_state_check_gateway(s->waypoint, "waypoint", err) != SW_OK)
        return SW_EINVAL;
    for (size_t i = 0; i < s->n_weighted; i++) {
        if (sw_state_check_gateway(&s->weighted[i].to, "weighted waypoint", err) != SW_OK)
            return SW_EINVAL;
    }
    return SW_OK;
}

static int check_addresses(const struct sw_service_spec *s, struct sw_err *err)
{
    if (s->n_vips > ADDRESSES_MAX || s->n_cidr_vips > ADDRESSES_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d addresses", ADDRESSES_MAX);
    for (size_t i = 0; i < s->n_vips; i++) {
        if (s->vips[i].ip.family == 0)
            return sw_err_set(err, SW_EINVAL, "an address is neither IPv4 nor IPv6");
    }
    for (size_t i = 0; i < s->n_cidr_vips; i++) {
        const struct sw_cidr *c = &s->cidr_vips[i].cidr;

        if (c->ip.family == 0 || c->len > sw_ip_len(&c->ip) * 8)
            return sw_err_set(err, SW_EINVAL, "an address block is malformed");
    }
    return SW_OK;
}

/* ---- the body ---- */

static bool same_vip(const struct sw_network_addr *a, const struct sw_network_addr *b)
{
    return sw_ip_eq(&a->ip, &b->ip) && sw_slice_eq(a->network, b->network);
}

static bool same_block(const struct sw_network_cidr *a, const struct sw_network_cidr *b)
{
    return a->cidr.len == b->cidr.len && sw_ip_eq(&a->cidr.ip, &b->cidr.ip) &&
           sw_slice_eq(a->network, b->network);
}

static bool has_vip(const struct sw_network_addr *list, size_t n, const struct sw_network_addr *v)
{
    for (size_t i = 0; i < n; i++) {
        if (same_vip(&list[i], v))
            return true;
    }
    return false;
}

static bool has_block(const struct sw_network_cidr *list, size_t n, const struct sw_network_cidr *c)
{
    for (size_t i = 0; i < n; i++) {
        if (same_block(&list[i], c))
            return true;
    }
    return false;
}

/* Without repetitions: each address has one entry in the index. */
static void take_addresses(struct sw_arena *a, const struct sw_service_spec *from,
                           struct sw_service *to)
{
    struct sw_network_addr *vips = sw_arena_array(a, from->n_vips, sizeof(*vips));
    struct sw_network_cidr *cidrs = sw_arena_array(a, from->n_cidr_vips, sizeof(*cidrs));

    for (size_t i = 0; i < from->n_vips; i++) {
        if (has_vip(vips, to->n_vips, &from->vips[i]))
            continue;
        vips[to->n_vips].network = sw_arena_slice(a, from->vips[i].network);
        vips[to->n_vips++].ip = from->vips[i].ip;
    }
    for (size_t i = 0; i < from->n_cidr_vips; i++) {
        const struct sw_cidr *c = &from->cidr_vips[i].cidr;
        struct sw_network_cidr masked = {
            .network = from->cidr_vips[i].network,
            .cidr = {.ip = sw_state_mask(&c->ip, c->len), .len = c->len}};

        if (has_block(cidrs, to->n_cidr_vips, &masked))
            continue;
        masked.network = sw_arena_slice(a, masked.network);
        cidrs[to->n_cidr_vips++] = masked;
    }
    to->vips = vips;
    to->cidr_vips = cidrs;
}

static void take_sans(struct sw_arena *a, const struct sw_service_spec *from, struct sw_service *to)
{
    struct sw_slice *sans = sw_arena_array(a, from->n_sans, sizeof(*sans));

    for (size_t i = 0; i < from->n_sans; i++) {
        struct sw_spiffe id;

        if (sw_spiffe_parse(from->sans[i], &id, NULL) == SW_OK)
            sans[to->n_sans++] = sw_arena_slice(a, from->sans[i]);
    }
    to->sans = sans;
}

static void take_weighted(struct sw_arena *a, const struct sw_service_spec *from,
                          struct sw_service *to)
{
    struct sw_weighted_waypoint *w = sw_arena_array(a, from->n_weighted, sizeof(*w));

    for (size_t i = 0; i < from->n_weighted; i++) {
        w[i].to = *sw_state_take_gateway(a, &from->weighted[i].to);
        w[i].weight = from->weighted[i].weight;
    }
    to->weighted = w;
    to->n_weighted = (uint32_t)from->n_weighted;
}

static void take_claims(struct sw_state_builder *b, const struct sw_service_spec *from,
                        struct sw_slice key)
{
    for (size_t i = 0; i < from->n_endpoints; i++) {
        struct sw_state_claim c = {.key = sw_arena_slice(&b->claim_arena, key),
                                   .uid = sw_arena_slice(&b->claim_arena, from->endpoints[i].uid)};

        c.ports = sw_state_take_ports(&b->claim_arena, from->endpoints[i].ports,
                                      from->endpoints[i].n_ports, &c.n_ports);
        sw_vec_push(&b->claims, c);
    }
}

/* Its namespace and host name lie as one text, "ns/hostname". */
static void fill_service(const struct sw_service_spec *from, struct sw_arena *a,
                         struct sw_service *to)
{
    size_t n_ports;
    char *key = sw_arena_text(a, from->ns.n + 1 + from->hostname.n + 1);

    if (from->ns.n)
        memcpy(key, from->ns.p, from->ns.n);
    key[from->ns.n] = '/';
    memcpy(key + from->ns.n + 1, from->hostname.p, from->hostname.n);
    to->ns = sw_slice(key, from->ns.n);
    to->hostname = sw_slice(key + from->ns.n + 1, from->hostname.n);
    to->name = sw_slice_has_prefix(to->hostname, from->name)
                   ? sw_slice_head(to->hostname, from->name.n)
                   : sw_arena_slice(a, from->name);
    to->version = sw_arena_slice(a, from->version.n > UINT8_MAX ? sw_slice("", 0) : from->version);
    to->ports = sw_state_take_ports(a, from->ports, from->n_ports, &n_ports);
    to->n_ports = (uint32_t)n_ports;
    to->waypoint = sw_state_take_gateway(a, from->waypoint);
    to->mode = (enum sw_lb_mode)from->mode;
    to->n_prefs = (uint8_t)from->n_prefs;
    for (size_t i = 0; i < from->n_prefs; i++)
        to->prefs[i] = (uint8_t)from->prefs[i];
    to->allow_unhealthy = from->health_policy == 1;
    to->families = (enum sw_ip_families)from->families;
    to->canonical = from->canonical;
    to->namespace_only = from->namespace_only;
    take_addresses(a, from, to);
    take_sans(a, from, to);
    take_weighted(a, from, to);
}

/* *ret_body is all that the record points to, in one block; both are the caller's. */
static struct sw_service *make_service(struct sw_state_builder *b,
                                       const struct sw_service_spec *from, void **ret_body)
{
    struct sw_service *to = SW_NEW(struct sw_service);
    struct sw_arena a;
    size_t room;

    fill_service(from, &b->draft, &(struct sw_service){0});
    room = sw_arena_used(&b->draft);
    sw_arena_reset(&b->draft, SW_STATE_DRAFT);
    *ret_body = sw_calloc(1, room);
    a = sw_arena_over(*ret_body, room);
    fill_service(from, &a, to);
    return to;
}

/* ---- indexes ---- */

static void count_block(struct sw_state_builder *b, const struct sw_cidr *c, bool more)
{
    uint32_t *count = c->ip.family == 4 ? &b->cidrs4[c->len] : &b->cidrs6[c->len];
    uint64_t *lens = c->ip.family == 4 ? b->t.cidr_lens4 : b->t.cidr_lens6;
    uint64_t bit = (uint64_t)1 << (c->len % 64);

    *count = more ? *count + 1 : *count - 1;
    if (*count)
        lens[c->len / 64] |= bit;
    else
        lens[c->len / 64] &= ~bit;
}

static uint64_t block_hash(const struct sw_network_cidr *c)
{
    return sw_state_hash_ip(c->network, &c->cidr.ip, c->cidr.len + 1U);
}

static void index_vips(struct sw_state_builder *b, const struct sw_service *old,
                       const struct sw_service *new)
{
    for (size_t i = 0; old && i < old->n_vips; i++) {
        const struct sw_network_addr *v = &old->vips[i];
        uint64_t hash = sw_state_hash_ip(v->network, &v->ip, 0);

        sw_smap_set(&b->t.by_vip, &b->edit, hash, old,
                    new &&has_vip(new->vips, new->n_vips, v) ? new : NULL);
    }
    for (size_t i = 0; new &&i < new->n_vips; i++) {
        const struct sw_network_addr *v = &new->vips[i];

        if (!old || !has_vip(old->vips, old->n_vips, v))
            sw_smap_add(&b->t.by_vip, &b->edit, sw_state_hash_ip(v->network, &v->ip, 0), new);
    }
}

static void index_blocks(struct sw_state_builder *b, const struct sw_service *old,
                         const struct sw_service *new)
{
    for (size_t i = 0; old && i < old->n_cidr_vips; i++) {
        const struct sw_network_cidr *c = &old->cidr_vips[i];

        bool stays = new &&has_block(new->cidr_vips, new->n_cidr_vips, c);

        sw_smap_set(&b->t.by_cidr, &b->edit, block_hash(c), old, stays ? new : NULL);
        if (!stays)
            count_block(b, &c->cidr, false);
    }
    for (size_t i = 0; new &&i < new->n_cidr_vips; i++) {
        const struct sw_network_cidr *c = &new->cidr_vips[i];

        if (old && has_block(old->cidr_vips, old->n_cidr_vips, c))
            continue;
        sw_smap_add(&b->t.by_cidr, &b->edit, block_hash(c), new);
        count_block(b, &c->cidr, true);
    }
}

void sw_state_relink_service(struct sw_state_builder *b, struct sw_service *from,
                             struct sw_service *to)
{
    uint64_t hash = sw_state_hash_text((from ? from : to)->hostname, sw_slice("", 0));

    sw_smap_set(&b->t.by_service, &b->edit, hash, from, to);
    index_vips(b, from, to);
    index_blocks(b, from, to);
    if (from)
        sw_state_junk(b, from);
}

static void set_service(struct sw_state_builder *b, struct sw_roster *r, struct sw_service *svc,
                        void *body)
{
    sw_state_relink_service(b, r->svc, svc);
    if (r->body)
        sw_state_junk(b, r->body);
    r->svc = svc;
    r->svc_edit = b->edit.number;
    r->body = body;
    sw_roster_touch(b, r);
    b->t.authz_version = sw_state_tick();
    b->changed = true;
}

int sw_state_add_service(struct sw_state_builder *b, const struct sw_service_spec *from,
                         struct sw_err *err)
{
    void *body;
    struct sw_service *svc;
    struct sw_slice key;
    int rc = check_service(from, err);

    if (rc == SW_OK)
        rc = check_addresses(from, err);
    if (rc != SW_OK)
        return rc;
    svc = make_service(b, from, &body);
    key = sw_slice(svc->ns.p, svc->ns.n + 1 + svc->hostname.n);
    take_claims(b, from, key);
    set_service(b, sw_roster_get(b, key), svc, body);
    return SW_OK;
}

static struct sw_roster *find_service(const struct sw_state_builder *b, struct sw_slice ns,
                                      struct sw_slice hostname)
{
    SW_AUTO_FREE char *key = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(hostname));
    struct sw_roster *r = sw_roster_find(b, sw_slice_str(key));

    return r && r->svc ? r : NULL;
}

bool sw_state_remove_service(struct sw_state_builder *b, struct sw_slice ns,
                             struct sw_slice hostname)
{
    struct sw_roster *r = find_service(b, ns, hostname);

    if (r)
        set_service(b, r, NULL, NULL);
    return r != NULL;
}

bool sw_state_has_service(const struct sw_state_builder *b, struct sw_slice ns,
                          struct sw_slice hostname)
{
    return find_service(b, ns, hostname) != NULL;
}
