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

enum {
    TEXT_BLOCK = 32 * 1024,
    IPS_MAX = 255,
    LINKS_MAX = 10000,
    PORTS_MAX = 1 << 18,
};

struct sw_state_builder *sw_state_builder_new(struct sw_slice node, bool wire_defaults)
{
    static atomic_uint_fast64_t versions;
    struct sw_state_builder *b = SW_NEW(struct sw_state_builder);

    b->s = SW_NEW(struct sw_state);
    atomic_init(&b->s->refs, 1);
    b->s->version = atomic_fetch_add(&versions, 1) + 1;
    b->node = sw_state_text(b, node);
    b->wire_defaults = wire_defaults;
    sw_buf_init(&b->key, SIZE_MAX / 4); /* as large as what was accepted */
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
    sw_buf_done(&b->key);
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

/* Keys are made in one buffer, one at a time. */
static struct sw_buf *start_key(struct sw_state_builder *b)
{
    sw_buf_clear(&b->key);
    return &b->key;
}

static void key_u64(struct sw_buf *key, uint64_t v)
{
    if (sw_buf_append(key, &v, sizeof(v)) != SW_OK)
        abort(); /* unreachable: the buffer takes what memory takes */
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

static struct sw_slice make_identity(struct sw_state_builder *b, const struct sw_workload_class *c)
{
    SW_AUTO_FREE char *text =
        sw_asprintf("spiffe://%.*s/ns/%.*s/sa/%.*s", SW_SLICE_ARG(c->trust_domain),
                    SW_SLICE_ARG(c->ns), SW_SLICE_ARG(c->service_account));

    return sw_state_intern(b, sw_slice_str(text));
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
    c->identity = make_identity(b, c);
    c->policy_keys = keep(b, c->policy_keys, c->n_policy_keys, sizeof(*c->policy_keys));
}

struct sw_workload_class *sw_state_share_class(struct sw_state_builder *b,
                                               const struct sw_workload_class *c)
{
    struct sw_workload_class *shared;
    struct sw_buf *key = start_key(b);
    bool fresh;

    key_u64(key, 'c');
    key_text(key, c->ns);
    key_text(key, c->workload_name);
    key_text(key, c->canonical_name);
    key_text(key, c->canonical_revision);
    key_u64(key, (uint64_t)c->type | (uint64_t)c->protocol << 8 | (uint64_t)c->app_tunnel << 16 |
                     (uint64_t)c->app_tunnel_port << 24 | (uint64_t)c->has_app_tunnel << 40 |
                     (uint64_t)c->host_network << 41 | (uint64_t)c->native_tunnel << 42);
    key_text(key, c->trust_domain);
    key_text(key, c->service_account);
    key_u64(key, (uintptr_t)c->waypoint);
    key_u64(key, (uintptr_t)c->network_gateway);
    key_u64(key, c->n_services);
    for (size_t i = 0; i < c->n_services; i++) {
        key_text(key, c->services[i].ns);
        key_text(key, c->services[i].hostname);
        key_u64(key, c->services[i].n_ports);
        for (size_t j = 0; j < c->services[i].n_ports; j++)
            key_u64(key, (uint64_t)c->services[i].ports[j].service_port << 16 |
                             c->services[i].ports[j].target_port);
    }
    for (size_t i = 0; i < c->n_policy_keys; i++)
        key_text(key, c->policy_keys[i]);
    shared = share(b, key, c, sizeof(*c), &fresh);
    if (fresh) {
        keep_lists(b, shared);
        sw_vec_push(&b->classes, shared);
    }
    return shared;
}

static const struct sw_workload_place *share_place(struct sw_state_builder *b,
                                                   const struct sw_workload_place *at)
{
    struct sw_buf *key = start_key(b);
    bool fresh;

    key_u64(key, 'p');
    key_text(key, at->network);
    key_text(key, at->cluster_id);
    key_text(key, at->node);
    key_text(key, at->region);
    key_text(key, at->zone);
    key_text(key, at->subzone);
    return share(b, key, at, sizeof(*at), &fresh);
}

/* ---- pieces ---- */

int sw_state_check_gateway(const struct sw_gateway_spec *g, const char *what, struct sw_err *err)
{
    if (g->by_hostname ? g->hostname.n == 0 : g->ip.family == 0)
        return sw_err_set(err, SW_EINVAL, "%s has no destination", what);
    return SW_OK;
}

struct sw_gateway_addr sw_state_take_gateway(struct sw_state_builder *b,
                                             const struct sw_gateway_spec *g)
{
    return (struct sw_gateway_addr){.by_hostname = g->by_hostname,
                                    .network = sw_state_intern(b, g->network),
                                    .ip = g->ip,
                                    .ns = sw_state_intern(b, g->ns),
                                    .hostname = sw_state_intern(b, g->hostname),
                                    .hbone_port = g->hbone_port};
}

const struct sw_gateway_addr *sw_state_share_gateway(struct sw_state_builder *b,
                                                     const struct sw_gateway_spec *spec)
{
    struct sw_gateway_addr g;
    struct sw_buf *key = start_key(b);
    bool fresh;

    if (!spec)
        return NULL;
    g = sw_state_take_gateway(b, spec);
    key_u64(key, 'g');
    key_text(key, g.network);
    key_text(key, g.ns);
    key_text(key, g.hostname);
    key_u64(key, (uint64_t)g.hbone_port << 16 | (uint64_t)g.ip.family << 8 | g.by_hostname);
    for (size_t i = 0; i < sizeof(g.ip.b); i++)
        key_u64(key, g.ip.b[i]);
    return share(b, key, &g, sizeof(g), &fresh);
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
        if (texts[i].n > SW_STATE_TEXT_MAX)
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
    size_t ports = 0;

    if (w->n_services + w->n_policies > LINKS_MAX)
        return sw_err_set(err, SW_ELIMIT, "too many services or policies");
    for (size_t i = 0; i < w->n_services; i++) {
        struct sw_slice key = w->services[i].key;

        if (sw_slice_find(key, '/') < 0)
            return sw_err_set(err, SW_EINVAL, "service '%.*s' is not NAMESPACE/HOSTNAME",
                              (int)sw_min(key.n, 64), key.p);
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
        to[i].ports = sw_state_take_ports(&b->scratch, w->services[i].ports, w->services[i].n_ports,
                                          &to[i].n_ports);
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
        .waypoint = sw_state_share_gateway(b, w->waypoint),
        .network_gateway = sw_state_share_gateway(b, w->network_gateway),
    };

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

/* ---- questions ---- */

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
