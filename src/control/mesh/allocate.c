/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/allocate.h"

#include <stdlib.h>
#include <string.h>

#include "base/share.h"
#include "control/mesh/model.h"
#include "control/mesh/names.h"
#include "control/objects.h"

enum { FAMILIES = 2 };

/* A host of an entry, and what it has. */
struct claim {
    struct sw_slice host;
    struct sw_ip ips[FAMILIES]; /* IPv4, IPv6; family 0: none yet */
};

struct entry {
    const struct sw_kube_obj *of;
    size_t at; /* in the view */
    struct claim *claims;
    size_t n;
};

struct allocator {
    struct sw_arena *a;
    struct sw_cidr prefixes[FAMILIES];
    struct sw_ip next[FAMILIES]; /* everything up to here is taken */
    bool full[FAMILIES];
    struct sw_map used; /* bytes of an address -> anything */
    struct sw_shares shares[FAMILIES];
};

static struct sw_slice key_of(const struct sw_ip *ip)
{
    return sw_slice(ip->b, sw_ip_len(ip));
}

static size_t family_of(const struct sw_ip *ip)
{
    return ip->family == 6;
}

/* False when it is taken. */
static bool take(struct allocator *al, const struct sw_ip *ip, struct sw_slice ns)
{
    struct sw_slice key = key_of(ip);

    if (sw_map_get(&al->used, key))
        return false;
    (void)sw_map_put(&al->used, sw_arena_slice(al->a, key), al);
    sw_shares_take(&al->shares[family_of(ip)], ns);
    return true;
}

/* The first address of a block is not allocated. */
static size_t size_of(const struct sw_cidr *c)
{
    const unsigned bits = 8 * (unsigned)sw_ip_len(&c->ip) - c->len;

    return ((size_t)1 << sw_min(bits, 48u)) - 1;
}

/* False at the end of all addresses. */
static bool advance(struct sw_ip *ip)
{
    for (size_t i = sw_ip_len(ip); i > 0; i--) {
        if (++ip->b[i - 1])
            return true;
    }
    return false;
}

/* The lowest free one; family 0 when the block is full, or the namespace has its share. */
static struct sw_ip allocate(struct allocator *al, size_t family, struct sw_slice ns)
{
    struct sw_ip *next = &al->next[family];

    while (!al->full[family] && sw_shares_left(&al->shares[family], ns)) {
        al->full[family] = !advance(next) || !sw_cidr_contains(&al->prefixes[family], next);
        if (!al->full[family] && take(al, next, ns))
            return *next;
    }
    return (struct sw_ip){0};
}

/* ---- what entries want and have ---- */

static bool is_eligible(const struct sw_json *obj)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_slice resolution = js_or(spec, "resolution", "NONE");

    return sw_json_len(sw_json_find(spec, "addresses")) == 0 &&
           !sw_slice_eq_str(resolution, "NONE") &&
           !sw_slice_eq_str(
               js_or(sw_json_walk(obj, "metadata", "labels", NULL), MESH_AUTOALLOCATE, ""),
               "false");
}

static void read_claims(struct allocator *al, struct entry *e)
{
    const struct sw_json *spec = sw_json_find(e->of->json, "spec");
    const struct sw_json *hosts = sw_json_find(spec, "hosts");
    bool dynamic = sw_slice_eq_str(js_or(spec, "resolution", ""), "DYNAMIC_DNS");
    size_t n = sw_json_is(hosts, SW_JSON_ARRAY) ? sw_min(sw_json_len(hosts), MESH_HOSTS_MAX) : 0;

    e->claims = sw_arena_array(al->a, n + 1, sizeof(*e->claims));
    for (size_t i = 0; is_eligible(e->of->json) && i < n; i++) {
        struct sw_slice host = sw_json_str(sw_json_at(hosts, i));
        bool twice = false;

        for (size_t k = 0; k < e->n; k++)
            twice |= sw_slice_eq(e->claims[k].host, host);
        if (host.n && !twice && (host.p[0] != '*' || dynamic))
            e->claims[e->n++].host = host;
    }
}

/* Addresses of the blocks that a spec names are taken before all others. */
static void take_fixed(struct allocator *al, const struct sw_kube_obj *o)
{
    const struct sw_json *list = sw_json_walk(o->json, "spec", "addresses", NULL);
    struct sw_err err;
    struct sw_ip ip;

    for (size_t i = 0; i < sw_json_len(list) && i < MESH_ADDRESSES_MAX; i++) {
        if (sw_ip_parse(sw_json_str(sw_json_at(list, i)), &ip, &err) == SW_OK &&
            sw_cidr_contains(&al->prefixes[family_of(&ip)], &ip) &&
            sw_shares_left(&al->shares[family_of(&ip)], o->ns))
            (void)take(al, &ip, o->ns);
    }
}

/* What the status gives to hosts that still want it, and no older entry has. */
static void keep_old(struct allocator *al, struct entry *e)
{
    const struct sw_json *list = sw_json_walk(e->of->json, "status", "addresses", NULL);

    for (size_t i = 0; i < sw_json_len(list) && i < (size_t)4 * MESH_HOSTS_MAX; i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct sw_slice host = js_or(v, "host", "");
        struct sw_err err;
        struct sw_ip ip;

        if (sw_ip_parse(js_or(v, "value", ""), &ip, &err) != SW_OK)
            continue;
        for (size_t k = 0; k < e->n; k++) {
            struct sw_ip *slot = &e->claims[k].ips[family_of(&ip)];

            if (sw_slice_eq(e->claims[k].host, host) && !slot->family &&
                sw_cidr_contains(&al->prefixes[family_of(&ip)], &ip) && take(al, &ip, e->of->ns))
                *slot = ip;
        }
    }
}

static const struct sw_json *list_of(struct sw_arena *a, const struct entry *e)
{
    struct sw_json *list = sw_json_new_array(a);
    char text[SW_IP_TEXT];

    for (size_t i = 0; i < e->n; i++) {
        for (size_t f = 0; f < FAMILIES; f++) {
            struct sw_json *v;

            if (!e->claims[i].ips[f].family)
                continue;
            v = sw_json_new_object(a);
            sw_json_put_str(a, v, "value", sw_slice_str(sw_ip_text(&e->claims[i].ips[f], text)));
            sw_json_put_str(a, v, "host", e->claims[i].host);
            sw_json_push(a, list, v);
        }
    }
    return list;
}

static int oldest_first(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;

    return by_age(x->of, y->of);
}

/* Those that the entry lacks; how many it does not get. */
static size_t add_new(struct allocator *al, struct entry *e)
{
    size_t refused = 0;

    for (size_t k = 0; k < e->n; k++) {
        for (size_t f = 0; f < FAMILIES; f++) {
            struct sw_ip *slot = &e->claims[k].ips[f];

            if (!slot->family)
                *slot = allocate(al, f, e->of->ns);
            refused += !slot->family;
        }
    }
    return refused;
}

struct mesh_allocation *mesh_allocate(const struct sw_view *v,
                                      const struct sw_mesh_status_conf *conf, struct sw_arena *a)
{
    size_t n = sw_view_count(v, SW_MESH_ST_SERVICE_ENTRY);
    struct mesh_allocation *out = sw_arena_array(a, n + 1, sizeof(*out));
    struct entry *all = sw_arena_array(a, n + 1, sizeof(*all));
    struct allocator al = {
        .a = a,
        .prefixes = {conf->prefix4, conf->prefix6},
        .next = {conf->prefix4.ip, conf->prefix6.ip},
        .shares = {{.most = size_of(&conf->prefix4)}, {.most = size_of(&conf->prefix6)}}};

    for (size_t i = 0; i < n; i++) {
        all[i] = (struct entry){.of = sw_view_at(v, SW_MESH_ST_SERVICE_ENTRY, i), .at = i};
        read_claims(&al, &all[i]);
    }
    if (n > 1)
        qsort(all, n, sizeof(*all), oldest_first);
    for (size_t i = 0; i < n; i++)
        take_fixed(&al, all[i].of);
    for (size_t i = 0; i < n; i++)
        keep_old(&al, &all[i]);
    for (size_t i = 0; i < n; i++) {
        size_t refused = add_new(&al, &all[i]);

        out[all[i].at] = (struct mesh_allocation){all[i].of, list_of(a, &all[i]), refused};
    }
    sw_map_done(&al.used);
    for (size_t f = 0; f < FAMILIES; f++)
        sw_shares_done(&al.shares[f]);
    return out;
}
