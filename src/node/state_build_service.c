/* SPDX-License-Identifier: Apache-2.0 */
/* Taking services in: check and copy. Endpoints are linked when the snapshot is frozen. */
#include "base/mem.h"
#include "node/state_int.h"

static int check_service(const struct sw_service_spec *s, struct sw_err *err)
{
    if (s->hostname.n == 0)
        return sw_err_set(err, SW_EINVAL, "service without a hostname");
    if (s->hostname.n > 255 || s->ns.n > SW_STATE_TEXT_MAX || s->name.n > SW_STATE_TEXT_MAX)
        return sw_err_set(err, SW_ELIMIT, "the hostname is too long");
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

static void take_addresses(struct sw_state_builder *b, const struct sw_service_spec *from,
                           struct sw_service *to)
{
    struct sw_network_addr *vips = sw_arena_array(&b->s->arena, from->n_vips, sizeof(*vips));
    struct sw_network_cidr *cidrs = sw_arena_array(&b->s->arena, from->n_cidr_vips, sizeof(*cidrs));

    for (size_t i = 0; i < from->n_vips; i++) {
        vips[i].network = sw_state_intern(b, from->vips[i].network);
        vips[i].ip = from->vips[i].ip;
    }
    for (size_t i = 0; i < from->n_cidr_vips; i++) {
        const struct sw_cidr *c = &from->cidr_vips[i].cidr;

        cidrs[i].network = sw_state_intern(b, from->cidr_vips[i].network);
        cidrs[i].cidr = (struct sw_cidr){.ip = sw_state_mask(&c->ip, c->len), .len = c->len};
    }
    to->vips = vips;
    to->n_vips = from->n_vips;
    to->cidr_vips = cidrs;
    to->n_cidr_vips = from->n_cidr_vips;
}

static void take_sans(struct sw_state_builder *b, const struct sw_service_spec *from,
                      struct sw_service *to)
{
    struct sw_slice *sans = sw_arena_array(&b->s->arena, from->n_sans, sizeof(*sans));

    for (size_t i = 0; i < from->n_sans; i++) {
        struct sw_spiffe id;

        if (sw_spiffe_parse(from->sans[i], &id, NULL) == SW_OK)
            sans[to->n_sans++] = sw_state_intern(b, from->sans[i]);
    }
    to->sans = sans;
}

static void take_weighted(struct sw_state_builder *b, const struct sw_service_spec *from,
                          struct sw_service *to)
{
    struct sw_weighted_waypoint *w = sw_arena_array(&b->s->arena, from->n_weighted, sizeof(*w));

    for (size_t i = 0; i < from->n_weighted; i++) {
        w[i].to = sw_state_take_gateway(b, &from->weighted[i].to);
        w[i].weight = from->weighted[i].weight;
    }
    to->weighted = w;
    to->n_weighted = from->n_weighted;
}

static void take_claims(struct sw_state_builder *b, const struct sw_service_spec *from,
                        const struct sw_service *to)
{
    for (size_t i = 0; i < from->n_endpoints; i++) {
        struct sw_state_claim c = {.ns = to->ns,
                                   .hostname = to->hostname,
                                   .uid = sw_state_text(b, from->endpoints[i].uid)};

        c.ports = sw_state_take_ports(&b->s->arena, from->endpoints[i].ports,
                                      from->endpoints[i].n_ports, &c.n_ports);
        sw_vec_push(&b->claims, c);
    }
}

static struct sw_slice service_key(struct sw_state_builder *b, struct sw_slice ns,
                                   struct sw_slice hostname)
{
    SW_AUTO_FREE char *key = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(hostname));

    return sw_state_intern(b, sw_slice_str(key));
}

int sw_state_add_service(struct sw_state_builder *b, const struct sw_service_spec *from,
                         struct sw_err *err)
{
    struct sw_service *to;
    struct sw_slice key;
    uintptr_t old;
    int rc = check_service(from, err);

    if (rc == SW_OK)
        rc = check_addresses(from, err);
    if (rc != SW_OK)
        return rc;
    to = SW_ARENA_NEW(&b->s->arena, struct sw_service);
    to->name = sw_state_intern(b, from->name);
    to->ns = sw_state_intern(b, from->ns);
    to->hostname = sw_state_intern(b, from->hostname);
    to->ports = sw_state_take_ports(&b->s->arena, from->ports, from->n_ports, &to->n_ports);
    to->waypoint = sw_state_share_gateway(b, from->waypoint);
    to->mode = (enum sw_lb_mode)from->mode;
    to->n_prefs = (uint8_t)from->n_prefs;
    for (size_t i = 0; i < from->n_prefs; i++)
        to->prefs[i] = (enum sw_lb_scope)from->prefs[i];
    to->allow_unhealthy = from->health_policy == 1;
    to->families = (enum sw_ip_families)from->families;
    to->canonical = from->canonical;
    to->namespace_only = from->namespace_only;
    take_addresses(b, from, to);
    take_sans(b, from, to);
    take_weighted(b, from, to);
    take_claims(b, from, to);
    key = service_key(b, to->ns, to->hostname);
    old = (uintptr_t)sw_map_get(&b->service_keys, key);
    if (old) {
        b->services.p[old - 1] = to;
        return SW_OK;
    }
    sw_vec_push(&b->services, to);
    (void)sw_map_put(&b->service_keys, key, (void *)(uintptr_t)b->services.n);
    return SW_OK;
}
