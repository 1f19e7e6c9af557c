/* SPDX-License-Identifier: Apache-2.0 */
#include "dns/zone.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/vec.h"

enum {
    APEX_TTL = 3600,
    NEGATIVE_TTL = 5,
    /* What secondaries do with a zone that changes within seconds and is announced by NOTIFY. */
    SOA_REFRESH = 60,
    SOA_RETRY = 10,
    SOA_EXPIRE = 604800,
};

/* One owner name. */
struct node {
    struct sw_dns_name key; /* lower case */
    const struct sw_dns_rrset *sets;
    size_t n;
};

struct sw_dns_zone {
    atomic_uint refs;
    struct sw_arena arena;
    struct sw_dns_name origin;
    uint32_t serial;
    uint32_t negative_ttl;
    struct sw_dns_rrset soa;
    struct sw_dns_rrset *sets;
    size_t n;
    struct sw_map nodes; /* of struct node, by key */
};

static void put(struct sw_dns_zone *z, const struct sw_dns_name *name, unsigned type, uint32_t ttl,
                const struct sw_slice *rdata, size_t n)
{
    z->sets[z->n++] = (struct sw_dns_rrset){
        .name = *name, .type = (uint16_t)type, .ttl = ttl, .rdata = rdata, .n = n};
}

/* ---- what every zone has ---- */

static void put_soa(struct sw_dns_zone *z, const struct sw_dns_zone_conf *c, uint32_t ttl)
{
    struct sw_dns_soa soa = {.mname = c->ns[0].name,
                             .rname = c->contact,
                             .serial = z->serial,
                             .refresh = SOA_REFRESH,
                             .retry = SOA_RETRY,
                             .expire = SOA_EXPIRE,
                             .minimum = z->negative_ttl};
    struct sw_slice *rdata = sw_arena_array(&z->arena, 1, sizeof(*rdata));

    if (!soa.rname.n &&
        sw_dns_name_join(SW_SLICE_LIT("hostmaster"), &z->origin, &soa.rname, NULL) != SW_OK)
        soa.rname = z->origin;
    rdata[0] = sw_dns_soa_rdata(&z->arena, &soa);
    z->soa = (struct sw_dns_rrset){
        .name = z->origin, .type = SW_DNS_SOA, .ttl = ttl, .rdata = rdata, .n = 1};
}

static void put_addresses(struct sw_dns_zone *z, const struct sw_dns_ns *ns, uint8_t family,
                          uint32_t ttl)
{
    struct sw_slice *rdata = sw_arena_array(&z->arena, SW_ARRAY_LEN(ns->ips), sizeof(*rdata));
    size_t n = 0;

    for (size_t i = 0; i < ns->n_ips; i++)
        if (ns->ips[i].family == family)
            rdata[n++] = sw_dns_ip_rdata(&z->arena, &ns->ips[i]);
    if (n)
        put(z, &ns->name, family == 4 ? SW_DNS_A : SW_DNS_AAAA, ttl, rdata, n);
}

static void put_apex(struct sw_dns_zone *z, const struct sw_dns_zone_conf *c)
{
    struct sw_slice *rdata = sw_arena_array(&z->arena, SW_DNS_NS_MAX, sizeof(*rdata));
    uint32_t ttl = c->apex_ttl ? c->apex_ttl : APEX_TTL;

    put_soa(z, c, ttl);
    for (size_t i = 0; i < c->n_ns; i++)
        rdata[i] = sw_dns_name_rdata(&z->arena, &c->ns[i].name);
    put(z, &z->origin, SW_DNS_NS, ttl, rdata, c->n_ns);
    for (size_t i = 0; i < c->n_ns; i++)
        if (sw_dns_name_under(&c->ns[i].name, &z->origin)) {
            put_addresses(z, &c->ns[i], 4, ttl);
            put_addresses(z, &c->ns[i], 6, ttl);
        }
}

/* ---- what is published ---- */

/* A copy in canonical order without doubles. */
static int copy_set(struct sw_dns_zone *z, const struct sw_dns_rrset *s, struct sw_err *err)
{
    struct sw_slice *rdata = sw_arena_array(&z->arena, s->n + 1, sizeof(*rdata));
    char text[SW_DNS_NAME_TEXT];
    size_t bytes = 0;
    size_t n = 0;

    if (!sw_dns_name_under(&s->name, &z->origin))
        return sw_err_set(err, SW_EINVAL, "'%.100s' is outside of the zone",
                          sw_dns_name_text(&s->name, text));
    if (!s->n || s->type == SW_DNS_SOA || s->type == SW_DNS_NS || s->type == SW_DNS_OPT ||
        s->type >= SW_DNS_TSIG)
        return sw_err_set(err, SW_EINVAL, "'%.100s' has a set of type %u that cannot be published",
                          sw_dns_name_text(&s->name, text), s->type);
    for (size_t i = 0; i < s->n; i++) {
        rdata[i] = sw_arena_slice(&z->arena, s->rdata[i]);
        bytes += s->rdata[i].n + 12;
    }
    if (bytes > SW_DNS_SET_BYTES)
        return sw_err_set(err, SW_EINVAL, "'%.100s' has too much data",
                          sw_dns_name_text(&s->name, text));
    sw_slice_sort(rdata, s->n);
    for (size_t i = 0; i < s->n; i++)
        if (!n || !sw_slice_eq(rdata[n - 1], rdata[i]))
            rdata[n++] = rdata[i];
    put(z, &s->name, s->type, s->ttl, rdata, n);
    return SW_OK;
}

static int set_cmp(const void *a, const void *b)
{
    const struct sw_dns_rrset *x = a;
    const struct sw_dns_rrset *y = b;
    int d = sw_dns_name_cmp(&x->name, &y->name);

    return d ? d : x->type - y->type;
}

static void sort_sets(struct sw_dns_rrset *sets, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (set_cmp(&sets[i - 1], &sets[i]) > 0) {
            qsort(sets, n, sizeof(*sets), set_cmp);
            return;
        }
}

/* Puts the first 'apex' sets among the others, which are in order most of the time. */
static void order_sets(struct sw_dns_zone *z, size_t apex)
{
    struct sw_dns_rrset *out = sw_arena_array(&z->arena, z->n, sizeof(*out));
    size_t i = 0;
    size_t k = apex;

    sort_sets(z->sets, apex);
    sort_sets(z->sets + apex, z->n - apex);
    for (size_t n = 0; n < z->n; n++) {
        bool first = k == z->n || (i < apex && set_cmp(&z->sets[i], &z->sets[k]) <= 0);

        out[n] = z->sets[first ? i++ : k++];
    }
    z->sets = out;
}

/* ---- names ---- */

static struct node *node_at(const struct sw_dns_zone *z, const struct sw_dns_name *key)
{
    return sw_map_get(&z->nodes, sw_slice(key->b, key->n));
}

static struct node *add_node(struct sw_dns_zone *z, const struct sw_dns_name *key)
{
    struct node *node = SW_ARENA_NEW(&z->arena, struct node);

    node->key = *key;
    (void)sw_map_put(&z->nodes, sw_dns_name_bytes(&node->key), node);
    return node;
}

/* Every name between this one and the apex exists as well. */
static void add_parents(struct sw_dns_zone *z, const struct sw_dns_name *key)
{
    struct sw_dns_name up = *key;

    while (up.n > z->origin.n && sw_dns_name_parent(&up, &up) && !node_at(z, &up))
        (void)add_node(z, &up);
}

static int check_node(const struct node *node, struct sw_err *err)
{
    char text[SW_DNS_NAME_TEXT];

    for (size_t i = 0; i < node->n; i++) {
        if (i && node->sets[i].type == node->sets[i - 1].type)
            return sw_err_set(err, SW_EINVAL, "'%.100s' has two sets of one type",
                              sw_dns_name_text(&node->key, text));
        if (node->sets[i].type == SW_DNS_CNAME && node->n > 1)
            return sw_err_set(err, SW_EINVAL, "'%.100s' has a CNAME beside other records",
                              sw_dns_name_text(&node->key, text));
    }
    return SW_OK;
}

static int index_names(struct sw_dns_zone *z, struct sw_err *err)
{
    size_t i = 0;

    while (i < z->n) {
        struct sw_dns_name key = z->sets[i].name;
        struct node *node;
        size_t from = i;

        sw_dns_name_lower(&key);
        while (i < z->n && sw_dns_name_eq(&z->sets[i].name, &key))
            i++;
        node = node_at(z, &key);
        if (!node)
            node = add_node(z, &key);
        node->sets = z->sets + from;
        node->n = i - from;
        if (check_node(node, err) != SW_OK)
            return SW_EINVAL;
        add_parents(z, &key);
    }
    return SW_OK;
}

struct sw_dns_zone *sw_dns_zone_new(const struct sw_dns_zone_conf *conf,
                                    const struct sw_dns_rrset *sets, size_t n, uint32_t serial,
                                    struct sw_err *err)
{
    struct sw_dns_zone *z = SW_NEW(struct sw_dns_zone);
    size_t apex = 0;
    int rc = SW_OK;

    atomic_init(&z->refs, 1);
    z->origin = conf->origin;
    z->serial = serial;
    z->negative_ttl = conf->negative_ttl ? conf->negative_ttl : NEGATIVE_TTL;
    if (!conf->origin.n || !conf->n_ns || conf->n_ns > SW_DNS_NS_MAX || n > SW_DNS_SETS_MAX) {
        rc = sw_err_set(err, SW_EINVAL,
                        "a zone needs an origin, 1 to %d servers and at most %d sets",
                        SW_DNS_NS_MAX, SW_DNS_SETS_MAX);
    } else {
        z->sets = sw_arena_array(&z->arena, n + 1 + 2 * conf->n_ns, sizeof(*z->sets));
        put_apex(z, conf);
        apex = z->n;
        for (size_t i = 0; i < n && rc == SW_OK; i++)
            rc = copy_set(z, &sets[i], err);
    }
    if (rc == SW_OK) {
        order_sets(z, apex);
        rc = index_names(z, err);
    }
    return rc == SW_OK ? z : sw_dns_zone_unref(z);
}

struct sw_dns_zone *sw_dns_zone_ref(struct sw_dns_zone *z)
{
    if (z)
        (void)atomic_fetch_add_explicit(&z->refs, 1, memory_order_relaxed);
    return z;
}

struct sw_dns_zone *sw_dns_zone_unref(struct sw_dns_zone *z)
{
    if (z && atomic_fetch_sub_explicit(&z->refs, 1, memory_order_acq_rel) == 1) {
        sw_map_done(&z->nodes);
        sw_arena_clear(&z->arena);
        sw_free(z);
    }
    return NULL;
}

const struct sw_dns_name *sw_dns_zone_origin(const struct sw_dns_zone *z)
{
    return &z->origin;
}

uint32_t sw_dns_zone_serial(const struct sw_dns_zone *z)
{
    return z->serial;
}

const struct sw_dns_rrset *sw_dns_zone_soa(const struct sw_dns_zone *z)
{
    return &z->soa;
}

uint32_t sw_dns_zone_negative_ttl(const struct sw_dns_zone *z)
{
    return z->negative_ttl;
}

size_t sw_dns_zone_count(const struct sw_dns_zone *z)
{
    return z->n;
}

const struct sw_dns_rrset *sw_dns_zone_at(const struct sw_dns_zone *z, size_t i)
{
    return &z->sets[i];
}

struct sw_dns_found sw_dns_zone_find(const struct sw_dns_zone *z, const struct sw_dns_name *name)
{
    struct sw_dns_name key = *name;
    const struct node *node;

    sw_dns_name_lower(&key);
    node = node_at(z, &key);
    if (!node)
        return (struct sw_dns_found){0};
    return (struct sw_dns_found){.exists = true, .sets = node->sets, .n = node->n};
}

const struct sw_dns_rrset *sw_dns_zone_get(const struct sw_dns_zone *z,
                                           const struct sw_dns_name *name, unsigned type)
{
    struct sw_dns_found f = sw_dns_zone_find(z, name);

    if (type == SW_DNS_SOA)
        return sw_dns_name_eq(name, &z->origin) ? &z->soa : NULL;
    for (size_t i = 0; i < f.n; i++)
        if (f.sets[i].type == type)
            return &f.sets[i];
    return NULL;
}
