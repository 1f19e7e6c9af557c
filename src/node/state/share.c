/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What many workloads have in common exists once: the class of a deployment's pods, the place of a
 * node's, and the list of policies. Found by their contents, counted by their users.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "node/state/state_int.h"

/* ---- keys: contents as bytes, every part with its length ---- */

static struct sw_buf *start_key(struct sw_state_builder *b, uint64_t kind)
{
    sw_buf_clear(&b->key);
    if (sw_buf_append(&b->key, &kind, sizeof(kind)) != SW_OK)
        abort(); /* unreachable: the buffer takes what memory takes */
    return &b->key;
}

static void key_u64(struct sw_buf *key, uint64_t v)
{
    if (sw_buf_append(key, &v, sizeof(v)) != SW_OK)
        abort();
}

static void key_text(struct sw_buf *key, struct sw_slice s)
{
    uint64_t n = s.n;
    char *to = sw_buf_reserve(key, sizeof(n) + s.n);

    if (!to)
        abort();
    memcpy(to, &n, sizeof(n));
    if (s.n)
        memcpy(to + sizeof(n), s.p, s.n);
    sw_buf_commit(key, sizeof(n) + s.n);
}

static void key_gateway(struct sw_buf *key, const struct sw_gateway_addr *g)
{
    key_u64(key, g != NULL);
    if (!g)
        return;
    key_text(key, g->network);
    key_text(key, g->ns);
    key_text(key, g->hostname);
    key_u64(key, (uint64_t)g->hbone_port << 16 | (uint64_t)g->ip.family << 8 | g->by_hostname);
    key_text(key, sw_slice(g->ip.b, sizeof(g->ip.b)));
}

static struct sw_slice or_default(const struct sw_state_builder *b, struct sw_slice s,
                                  const char *value)
{
    return s.n == 0 && b->wire_defaults ? sw_slice_str(value) : s;
}

/* ---- the tables ---- */

/* 128 bits under a key of our own stand for the contents, which are kept once already. */
static void digest(const struct sw_state_builder *b, uint64_t ret[2])
{
    struct sw_slice key = sw_buf_slice(&b->key);

    sw_siphash13_128(b->digest_k[0], b->digest_k[1], key.p, key.n, ret);
}

/* What has the contents in b->key, or NULL. */
static void *shared_get(const struct sw_state_builder *b, const struct sw_smap *m)
{
    uint64_t d[2];

    digest(b, d);
    return (void *)(uintptr_t)SW_SMAP_FIND(const struct sw_counted, s, m, d[0],
                                           s->digest[0] == d[0] &&
                                               s->digest[1] == d[1]); /* the builder's to write */
}

/*
 * A new object with 'size' bytes before its contents that starts with a struct sw_counted, of the
 * contents in b->key. The contents were made in the draft once, and are made again in *ret, which
 * is just as large.
 */
static void *share_new(struct sw_state_builder *b, struct sw_smap *m, size_t size,
                       struct sw_arena *ret)
{
    size_t room = sw_arena_used(&b->draft);
    struct sw_counted *s = sw_calloc(1, size + room);

    *ret = sw_arena_over((char *)s + size, room);
    sw_arena_reset(&b->draft, SW_STATE_DRAFT);
    digest(b, s->digest);
    sw_smap_add(m, &b->own_edit, s->digest[0], s);
    return s;
}

static void release(struct sw_state_builder *b, struct sw_smap *m, struct sw_counted *s)
{
    if (--s->refs)
        return;
    sw_smap_del(m, &b->own_edit, s->digest[0], s);
    sw_state_junk(b, s);
}

/* ---- selectors ---- */

static const struct sw_slice *take_keys(struct sw_arena *a, const struct sw_workload_spec *w)
{
    struct sw_slice *keys = sw_arena_array(a, w->n_policies, sizeof(*keys));

    for (size_t i = 0; i < w->n_policies; i++)
        keys[i] = sw_arena_slice(a, w->policies[i]);
    return keys;
}

static const struct sw_selector *selector(struct sw_state_builder *b,
                                          const struct sw_workload_spec *w)
{
    struct sw_buf *key = start_key(b, 's');
    struct sw_selector *s;
    struct sw_arena a;

    if (w->n_policies == 0)
        return NULL;
    for (size_t i = 0; i < w->n_policies; i++)
        key_text(key, w->policies[i]);
    s = shared_get(b, &b->selectors);
    if (!s) {
        (void)take_keys(&b->draft, w);
        s = share_new(b, &b->selectors, offsetof(struct sw_selector, contents), &a);
        s->hash = s->h.digest[0];
        s->keys = take_keys(&a, w);
        s->n = w->n_policies;
        b->fresh_selectors = true;
    }
    s->h.refs++;
    return s;
}

static void selector_release(struct sw_state_builder *b, const struct sw_selector *c)
{
    struct sw_selector *s = (struct sw_selector *)(uintptr_t)c; /* the builder's to write */

    if (s->h.refs == 1 && s->now) {
        sw_smap_del(&b->t.selected, &b->edit, s->hash, s->now);
        sw_state_junk_shared(b, &s->now->h);
        s->now = NULL;
    }
    release(b, &b->selectors, &s->h);
}

/* ---- classes ---- */

static void class_key(struct sw_state_builder *b, const struct sw_workload_spec *w,
                      struct sw_slice uid_head)
{
    struct sw_buf *key = start_key(b, 'c');

    key_text(key, uid_head);
    key_text(key, w->ns);
    key_text(key, w->workload_name);
    key_text(key, w->canonical_name);
    key_text(key, w->canonical_revision);
    key_text(key, or_default(b, w->trust_domain, "cluster.local"));
    key_text(key, or_default(b, w->service_account, "default"));
    key_u64(key, (uint64_t)w->type | (uint64_t)w->protocol << 8 | (uint64_t)w->app_tunnel << 16 |
                     (uint64_t)w->app_tunnel_port << 24 | (uint64_t)w->has_app_tunnel << 40 |
                     (uint64_t)w->host_network << 41 | (uint64_t)w->native_tunnel << 42);
    key_gateway(key, w->waypoint);
    key_gateway(key, w->network_gateway);
    key_u64(key, w->n_services);
    for (size_t i = 0; i < w->n_services; i++) {
        key_text(key, w->services[i].key);
        key_text(key, sw_slice(w->services[i].ports,
                               w->services[i].n_ports * sizeof(*w->services[i].ports)));
    }
    for (size_t i = 0; i < w->n_policies; i++)
        key_text(key, w->policies[i]);
}

static void take_services(struct sw_arena *a, const struct sw_workload_spec *w,
                          struct sw_workload_class *c)
{
    struct sw_membership *to = sw_arena_array(a, w->n_services, sizeof(*to));

    for (size_t i = 0; i < w->n_services; i++) {
        struct sw_slice host = sw_arena_slice(a, w->services[i].key);

        to[i].ns = sw_slice_cut(&host, '/');
        to[i].hostname = host;
        to[i].ports =
            sw_state_take_ports(a, w->services[i].ports, w->services[i].n_ports, &to[i].n_ports);
    }
    c->services = to;
    c->n_services = (uint16_t)w->n_services;
}

/* Its parts point into it. */
static void take_identity(const struct sw_state_builder *b, const struct sw_workload_spec *w,
                          struct sw_arena *a, struct sw_workload_class *c)
{
    struct sw_slice domain = or_default(b, w->trust_domain, "cluster.local");
    struct sw_slice account = or_default(b, w->service_account, "default");
    const char *p = sw_arena_printf(a, "spiffe://%.*s/ns/%.*s/sa/%.*s", SW_SLICE_ARG(domain),
                                    SW_SLICE_ARG(w->ns), SW_SLICE_ARG(account));

    c->identity = sw_slice_str(p);
    c->trust_domain = sw_slice(p + strlen("spiffe://"), domain.n);
    c->ns = sw_slice(c->trust_domain.p + domain.n + strlen("/ns/"), w->ns.n);
    c->service_account = sw_slice(c->ns.p + w->ns.n + strlen("/sa/"), account.n);
}

/* Names of a deployment are the same as a rule: then they are one text. */
static struct sw_slice take_name(struct sw_arena *a, struct sw_slice s, struct sw_slice like)
{
    return sw_slice_eq(s, like) ? like : sw_arena_slice(a, s);
}

static void fill_class(const struct sw_state_builder *b, const struct sw_workload_spec *w,
                       struct sw_slice uid_head, struct sw_arena *a, struct sw_workload_class *c)
{
    *c = (struct sw_workload_class){
        .uid_head = sw_arena_slice(a, uid_head),
        .canonical_revision = sw_arena_slice(a, w->canonical_revision),
        .type = (enum sw_workload_type)w->type,
        .protocol = (enum sw_tunnel_protocol)w->protocol,
        .app_tunnel = (enum sw_app_tunnel)w->app_tunnel,
        .app_tunnel_port = w->app_tunnel_port,
        .has_app_tunnel = w->has_app_tunnel,
        .host_network = w->host_network,
        .native_tunnel = w->native_tunnel,
        .waypoint = sw_state_take_gateway(a, w->waypoint),
        .network_gateway = sw_state_take_gateway(a, w->network_gateway),
    };
    take_identity(b, w, a, c);
    c->workload_name = take_name(a, w->workload_name, c->service_account);
    c->canonical_name = take_name(a, w->canonical_name, c->workload_name);
    take_services(a, w, c);
}

static void choose_policies(struct sw_state_builder *b, const struct sw_workload_spec *w,
                            struct sw_workload_class *c)
{
    c->selector = selector(b, w);
    if (c->selector) {
        c->policy_keys = c->selector->keys;
        c->n_policy_keys = (uint16_t)c->selector->n;
    }
}

const struct sw_workload_class *sw_state_class(struct sw_state_builder *b,
                                               const struct sw_workload_spec *w,
                                               struct sw_slice uid_head)
{
    struct sw_shared_class *s;
    struct sw_arena a;

    class_key(b, w, uid_head);
    s = shared_get(b, &b->shared);
    if (!s) {
        fill_class(b, w, uid_head, &b->draft, &(struct sw_workload_class){0});
        s = share_new(b, &b->shared, offsetof(struct sw_shared_class, contents), &a);
        fill_class(b, w, uid_head, &a, &s->c);
        choose_policies(b, w, &s->c);
    }
    s->h.refs++;
    return &s->c;
}

void sw_state_class_release(struct sw_state_builder *b, const struct sw_workload_class *c)
{
    struct sw_shared_class *s =
        SW_CONTAINER_OF((struct sw_workload_class *)(uintptr_t)c, struct sw_shared_class, c);

    if (s->h.refs == 1 && c->selector)
        selector_release(b, c->selector);
    release(b, &b->shared, &s->h);
}

/* ---- places ---- */

static struct sw_workload_place take_place(struct sw_arena *a, const struct sw_slice texts[6])
{
    return (struct sw_workload_place){
        .network = sw_arena_slice(a, texts[0]),
        .cluster_id = sw_arena_slice(a, texts[1]),
        .node = sw_arena_slice(a, texts[2]),
        .region = sw_arena_slice(a, texts[3]),
        .zone = sw_arena_slice(a, texts[4]),
        .subzone = sw_arena_slice(a, texts[5]),
    };
}

const struct sw_workload_place *sw_state_place(struct sw_state_builder *b,
                                               const struct sw_workload_spec *w)
{
    struct sw_slice cluster = or_default(b, w->cluster_id, "Kubernetes");
    const struct sw_slice texts[] = {w->network, cluster, w->node, w->region, w->zone, w->subzone};
    struct sw_buf *key = start_key(b, 'p');
    struct sw_shared_place *s;
    struct sw_arena a;

    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++)
        key_text(key, texts[i]);
    s = shared_get(b, &b->shared);
    if (!s) {
        (void)take_place(&b->draft, texts);
        s = share_new(b, &b->shared, offsetof(struct sw_shared_place, contents), &a);
        s->at = take_place(&a, texts);
    }
    s->h.refs++;
    return &s->at;
}

void sw_state_place_release(struct sw_state_builder *b, const struct sw_workload_place *at)
{
    struct sw_shared_place *s =
        SW_CONTAINER_OF((struct sw_workload_place *)(uintptr_t)at, struct sw_shared_place, at);

    release(b, &b->shared, &s->h);
}
