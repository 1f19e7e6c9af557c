/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking resources in: check, copy, share. Strings exist once per snapshot, and so do classes,
 * places and gateways: their key is the bytes of their interned pointers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/mem.h"
#include "node/state_int.h"

enum { TEXT_BLOCK = 32 * 1024, KEY_MAX = 4 << 20, IPS_MAX = 255, TEXT_MAX = 65535 };

struct sw_state_builder *sw_state_builder_new(struct sw_slice node, bool wire_defaults)
{
    static atomic_uint_fast64_t versions;
    struct sw_state_builder *b = SW_NEW(struct sw_state_builder);

    b->s = SW_NEW(struct sw_state);
    atomic_init(&b->s->refs, 1);
    b->s->version = atomic_fetch_add(&versions, 1) + 1;
    b->node = sw_state_text(b, node);
    b->wire_defaults = wire_defaults;
    return b;
}

void sw_state_builder_free(struct sw_state_builder *b)
{
    if (!b)
        return;
    (void)sw_state_unref(b->s);
    sw_vec_done(&b->drafts);
    sw_vec_done(&b->ips);
    sw_vec_done(&b->services);
    sw_vec_done(&b->policies);
    sw_vec_done(&b->classes);
    sw_vec_done(&b->claims);
    sw_map_done(&b->uids);
    sw_map_done(&b->service_keys);
    sw_map_done(&b->policy_keys);
    sw_map_done(&b->strings);
    sw_map_done(&b->shared);
    sw_arena_clear(&b->scratch);
    sw_free(b);
}

/* ---- sharing ---- */

struct sw_slice sw_state_text(struct sw_state_builder *b, struct sw_slice s)
{
    char *p;

    if (s.n + 1 > (size_t)(b->text_end - b->text_at)) {
        if (s.n >= TEXT_BLOCK / 8)
            return sw_arena_slice(&b->s->arena, s);
        b->text_at = sw_arena_alloc(&b->s->arena, TEXT_BLOCK);
        b->text_end = b->text_at + TEXT_BLOCK;
    }
    p = b->text_at;
    if (s.n)
        memcpy(p, s.p, s.n);
    p[s.n] = '\0';
    b->text_at += s.n + 1;
    return sw_slice(p, s.n);
}

struct sw_slice sw_state_intern(struct sw_state_builder *b, struct sw_slice s)
{
    const char *known;
    struct sw_slice copy;

    if (s.n == 0)
        return sw_slice("", 0);
    known = sw_map_get(&b->strings, s);
    if (known)
        return sw_slice(known, s.n);
    copy = sw_state_text(b, s);
    (void)sw_map_put(&b->strings, copy, (void *)(uintptr_t)copy.p);
    return copy;
}

/* Finds or stores 'size' bytes of 'proto' under the key collected in *key. */
static void *share(struct sw_state_builder *b, const struct sw_buf *key, const void *proto,
                   size_t size, bool *ret_new)
{
    void *p = sw_map_get(&b->shared, sw_buf_slice(key));

    *ret_new = !p;
    if (p)
        return p;
    p = sw_arena_alloc(&b->s->arena, size);
    memcpy(p, proto, size);
    (void)sw_map_put(&b->shared, sw_arena_slice(&b->s->arena, sw_buf_slice(key)), p);
    return p;
}

static void key_u64(struct sw_buf *key, uint64_t v)
{
    if (sw_buf_append(key, &v, sizeof(v)) != SW_OK)
        abort(); /* sizes were checked on the way in */
}

/* Interned text: its address and length say everything. */
static void key_text(struct sw_buf *key, struct sw_slice s)
{
    key_u64(key, s.n ? (uint64_t)(uintptr_t)s.p : 0);
    key_u64(key, s.n);
}

static const void *keep(struct sw_state_builder *b, const void *p, size_t n, size_t size)
{
    void *to;

    if (n == 0)
        return NULL;
    to = sw_arena_array(&b->s->arena, n, size);
    memcpy(to, p, n * size);
    return to;
}

/* The lists of a proto are scratch; those of a class that is new move to the snapshot. */
static void keep_lists(struct sw_state_builder *b, struct sw_workload_class *c)
{
    struct sw_membership *m = sw_arena_array(&b->s->arena, c->n_services, sizeof(*m));

    for (size_t i = 0; i < c->n_services; i++) {
        m[i] = c->services[i];
        m[i].ports = keep(b, m[i].ports, m[i].n_ports, sizeof(*m[i].ports));
    }
    c->services = m;
    c->policy_keys = keep(b, c->policy_keys, c->n_policy_keys, sizeof(*c->policy_keys));
}

struct sw_workload_class *sw_state_share_class(struct sw_state_builder *b,
                                               const struct sw_workload_class *c)
{
    struct sw_workload_class *shared;
    SW_BUF_AUTO key = {.max = KEY_MAX};
    bool fresh;

    key_u64(&key, 'c');
    key_text(&key, c->ns);
    key_text(&key, c->identity);
    key_text(&key, c->workload_name);
    key_text(&key, c->canonical_name);
    key_text(&key, c->canonical_revision);
    key_u64(&key, (uint64_t)c->type | (uint64_t)c->protocol << 8 | (uint64_t)c->app_tunnel << 16 |
                      (uint64_t)c->app_tunnel_port << 24 | (uint64_t)c->has_app_tunnel << 40 |
                      (uint64_t)c->host_network << 41 | (uint64_t)c->native_tunnel << 42);
    key_text(&key, c->trust_domain);
    key_text(&key, c->service_account);
    key_u64(&key, (uintptr_t)c->waypoint);
    key_u64(&key, (uintptr_t)c->network_gateway);
    key_u64(&key, c->n_services);
    for (size_t i = 0; i < c->n_services; i++) {
        key_text(&key, c->services[i].ns);
        key_text(&key, c->services[i].hostname);
        key_u64(&key, c->services[i].n_ports);
        for (size_t j = 0; j < c->services[i].n_ports; j++)
            key_u64(&key, (uint64_t)c->services[i].ports[j].service_port << 16 |
                              c->services[i].ports[j].target_port);
    }
    for (size_t i = 0; i < c->n_policy_keys; i++)
        key_text(&key, c->policy_keys[i]);
    shared = share(b, &key, c, sizeof(*c), &fresh);
    if (fresh) {
        keep_lists(b, shared);
        sw_vec_push(&b->classes, shared);
    }
    return shared;
}

static const struct sw_workload_place *share_place(struct sw_state_builder *b,
                                                   const struct sw_workload_place *at)
{
    SW_BUF_AUTO key = {.max = KEY_MAX};
    bool fresh;

    key_u64(&key, 'p');
    key_text(&key, at->network);
    key_text(&key, at->cluster_id);
    key_text(&key, at->node);
    key_text(&key, at->region);
    key_text(&key, at->zone);
    key_text(&key, at->subzone);
    return share(b, &key, at, sizeof(*at), &fresh);
}

/* ---- pieces ---- */

static int check_gateway(const struct sw_gateway_spec *g, const char *what, struct sw_err *err)
{
    if (g->by_hostname ? g->hostname.n == 0 : g->ip.family == 0)
        return sw_err_set(err, SW_EINVAL, "%s has no destination", what);
    return SW_OK;
}

static struct sw_gateway_addr take_gateway(struct sw_state_builder *b,
                                           const struct sw_gateway_spec *g)
{
    return (struct sw_gateway_addr){.by_hostname = g->by_hostname,
                                    .network = sw_state_intern(b, g->network),
                                    .ip = g->ip,
                                    .ns = sw_state_intern(b, g->ns),
                                    .hostname = sw_state_intern(b, g->hostname),
                                    .hbone_port = g->hbone_port};
}

static const struct sw_gateway_addr *share_gateway(struct sw_state_builder *b,
                                                   const struct sw_gateway_spec *spec)
{
    struct sw_gateway_addr g;
    SW_BUF_AUTO key = {.max = KEY_MAX};
    bool fresh;

    if (!spec)
        return NULL;
    g = take_gateway(b, spec);
    key_u64(&key, 'g');
    key_text(&key, g.network);
    key_text(&key, g.ns);
    key_text(&key, g.hostname);
    key_u64(&key, (uint64_t)g.hbone_port << 16 | (uint64_t)g.ip.family << 8 | g.by_hostname);
    for (size_t i = 0; i < sizeof(g.ip.b); i++)
        key_u64(&key, g.ip.b[i]);
    return share(b, &key, &g, sizeof(g), &fresh);
}

static int by_service_port(const void *a, const void *b)
{
    const struct sw_port_pair *x = a;
    const struct sw_port_pair *y = b;

    return (int)x->service_port - (int)y->service_port;
}

/* Sorted copy. */
static const struct sw_port_pair *take_ports(struct sw_arena *a, const struct sw_port_pair *from,
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

static struct sw_slice or_default(const struct sw_state_builder *b, struct sw_slice s,
                                  const char *value)
{
    return s.n == 0 && b->wire_defaults ? sw_slice_str(value) : s;
}

/* ---- workloads ---- */

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
        if (texts[i].n > TEXT_MAX)
            return sw_err_set(err, SW_ELIMIT, "a text of %zu bytes is too long", texts[i].n);
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
    if (w->n_services + w->n_policies > 10000)
        return sw_err_set(err, SW_ELIMIT, "too many services or policies");
    for (size_t i = 0; i < w->n_services; i++) {
        struct sw_slice key = w->services[i].key;

        if (sw_slice_find(key, '/') < 0)
            return sw_err_set(err, SW_EINVAL, "service '%.*s' is not NAMESPACE/HOSTNAME",
                              (int)sw_min(key.n, 64), key.p);
        if (w->services[i].n_ports > 65536 || key.n > TEXT_MAX)
            return sw_err_set(err, SW_ELIMIT, "too many ports");
    }
    if (w->waypoint && check_gateway(w->waypoint, "waypoint", err) != SW_OK)
        return SW_EINVAL;
    if (w->network_gateway && check_gateway(w->network_gateway, "network gateway", err) != SW_OK)
        return SW_EINVAL;
    return SW_OK;
}

static void take_services(struct sw_state_builder *b, const struct sw_workload_spec *w,
                          struct sw_workload_class *c)
{
    struct sw_membership *to;

    if (w->n_services == 0)
        return;
    to = sw_arena_array(&b->scratch, w->n_services, sizeof(*to));
    for (size_t i = 0; i < w->n_services; i++) {
        struct sw_slice host = w->services[i].key;
        struct sw_slice ns = sw_slice_cut(&host, '/');

        to[i].ns = sw_state_intern(b, ns);
        to[i].hostname = sw_state_intern(b, host);
        to[i].ports =
            take_ports(&b->scratch, w->services[i].ports, w->services[i].n_ports, &to[i].n_ports);
    }
    c->services = to;
    c->n_services = w->n_services;
}

static void take_policy_keys(struct sw_state_builder *b, const struct sw_workload_spec *w,
                             struct sw_workload_class *c)
{
    struct sw_slice *to;

    if (w->n_policies == 0)
        return;
    to = sw_arena_array(&b->scratch, w->n_policies, sizeof(*to));
    for (size_t i = 0; i < w->n_policies; i++)
        to[i] = sw_state_intern(b, w->policies[i]);
    c->policy_keys = to;
    c->n_policy_keys = w->n_policies;
}

static const struct sw_workload_class *take_class(struct sw_state_builder *b,
                                                  const struct sw_workload_spec *w)
{
    const struct sw_workload_class *shared;
    struct sw_workload_class c = {
        .ns = sw_state_intern(b, w->ns),
        .trust_domain = sw_state_intern(b, or_default(b, w->trust_domain, "cluster.local")),
        .service_account = sw_state_intern(b, or_default(b, w->service_account, "default")),
        .workload_name = sw_state_intern(b, w->workload_name),
        .canonical_name = sw_state_intern(b, w->canonical_name),
        .canonical_revision = sw_state_intern(b, w->canonical_revision),
        .type = (enum sw_workload_type)w->type,
        .protocol = (enum sw_tunnel_protocol)w->protocol,
        .app_tunnel = (enum sw_app_tunnel)w->app_tunnel,
        .app_tunnel_port = w->app_tunnel_port,
        .has_app_tunnel = w->has_app_tunnel,
        .host_network = w->host_network,
        .native_tunnel = w->native_tunnel,
        .waypoint = share_gateway(b, w->waypoint),
        .network_gateway = share_gateway(b, w->network_gateway),
    };
    SW_AUTO_FREE char *identity =
        sw_asprintf("spiffe://%.*s/ns/%.*s/sa/%.*s", SW_SLICE_ARG(c.trust_domain),
                    SW_SLICE_ARG(c.ns), SW_SLICE_ARG(c.service_account));

    c.identity = sw_state_intern(b, sw_slice_str(identity));
    take_services(b, w, &c);
    take_policy_keys(b, w, &c);
    shared = sw_state_share_class(b, &c);
    sw_arena_clear(&b->scratch);
    return shared;
}

static const struct sw_workload_place *take_place(struct sw_state_builder *b,
                                                  const struct sw_workload_spec *w)
{
    struct sw_workload_place at = {
        .network = sw_state_intern(b, w->network),
        .cluster_id = sw_state_intern(b, or_default(b, w->cluster_id, "Kubernetes")),
        .node = sw_state_intern(b, w->node),
        .region = sw_state_intern(b, w->region),
        .zone = sw_state_intern(b, w->zone),
        .subzone = sw_state_intern(b, w->subzone),
    };

    return share_place(b, &at);
}

/* Pods are called what their uid ends in: no second copy then. */
static const char *take_name(struct sw_state_builder *b, struct sw_slice uid, struct sw_slice name)
{
    if (sw_slice_has_suffix(uid, name))
        return uid.p + uid.n - name.n;
    return sw_state_text(b, name).p;
}

int sw_state_add_workload(struct sw_state_builder *b, const struct sw_workload_spec *spec,
                          struct sw_err *err)
{
    struct sw_state_draft d = {.ip_at = b->ips.n};
    struct sw_slice uid;
    uintptr_t old;
    int rc = check_workload(spec, err);

    if (rc == SW_OK)
        rc = check_links(spec, err);
    if (rc != SW_OK)
        return rc;
    old = (uintptr_t)sw_map_get(&b->uids, spec->uid);
    uid = old ? sw_workload_uid(&b->drafts.p[old - 1].w) : sw_state_text(b, spec->uid);
    d.w = (struct sw_workload){.c = take_class(b, spec),
                               .at = take_place(b, spec),
                               .uid_ = uid.p,
                               .uid_n = (uint16_t)uid.n,
                               .name_ = take_name(b, uid, spec->name),
                               .name_n = (uint16_t)spec->name.n,
                               .n_ips = (uint8_t)spec->n_ips,
                               .capacity = spec->has_capacity ? spec->capacity : 1,
                               .healthy = !spec->unhealthy};
    if (spec->hostname.n) {
        struct sw_slice *host = SW_ARENA_NEW(&b->s->arena, struct sw_slice);

        *host = sw_state_intern(b, spec->hostname);
        d.w.hostname_ = host;
    }
    for (size_t i = 0; i < spec->n_ips; i++)
        sw_vec_push(&b->ips, spec->ips[i]);
    if (old) {
        b->drafts.p[old - 1] = d;
        return SW_OK;
    }
    sw_vec_push(&b->drafts, d);
    /* The map wants a pointer: draft numbers are kept in its place. */
    (void)sw_map_put(&b->uids, uid, (void *)(uintptr_t)b->drafts.n);
    return SW_OK;
}

bool sw_state_has_workload(const struct sw_state_builder *b, struct sw_slice uid)
{
    return sw_map_get(&b->uids, uid) != NULL;
}

/* ---- services ---- */

static int check_service(const struct sw_service_spec *s, struct sw_err *err)
{
    if (s->hostname.n == 0)
        return sw_err_set(err, SW_EINVAL, "service without a hostname");
    if (s->hostname.n > 255 || s->ns.n > TEXT_MAX || s->name.n > TEXT_MAX)
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
    if (s->waypoint && check_gateway(s->waypoint, "waypoint", err) != SW_OK)
        return SW_EINVAL;
    for (size_t i = 0; i < s->n_weighted; i++) {
        if (check_gateway(&s->weighted[i].to, "weighted waypoint", err) != SW_OK)
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
        w[i].to = take_gateway(b, &from->weighted[i].to);
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

        c.ports = take_ports(&b->s->arena, from->endpoints[i].ports, from->endpoints[i].n_ports,
                             &c.n_ports);
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
    to->ports = take_ports(&b->s->arena, from->ports, from->n_ports, &to->n_ports);
    to->waypoint = share_gateway(b, from->waypoint);
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

static bool has_pair(const struct sw_map *m, struct sw_slice a, struct sw_slice b)
{
    SW_AUTO_FREE char *key = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(a), SW_SLICE_ARG(b));

    return sw_map_get(m, sw_slice_str(key)) != NULL;
}

bool sw_state_has_service(const struct sw_state_builder *b, struct sw_slice ns,
                          struct sw_slice hostname)
{
    return has_pair(&b->service_keys, ns, hostname);
}

/* ---- policies ---- */

int sw_state_add_policy(struct sw_state_builder *b, const struct sw_policy *p, struct sw_err *err)
{
    struct sw_policy *copy;
    uintptr_t old;
    int rc = sw_policy_copy(&b->s->arena, p, &copy, err);

    if (rc != SW_OK)
        return rc;
    old = (uintptr_t)sw_map_get(&b->policy_keys, copy->key);
    if (old) {
        b->policies.p[old - 1] = copy;
        return SW_OK;
    }
    sw_vec_push(&b->policies, copy);
    (void)sw_map_put(&b->policy_keys, copy->key, (void *)(uintptr_t)b->policies.n);
    return SW_OK;
}

bool sw_state_has_policy(const struct sw_state_builder *b, struct sw_slice ns, struct sw_slice name)
{
    return has_pair(&b->policy_keys, ns, name);
}
