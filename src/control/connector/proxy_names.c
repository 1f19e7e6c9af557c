/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of HTTPProxies. Canonical ones are the HTTPProxy's for as long as it lives and cannot be
 * requested; all others belong to the holder of the recorded claim (control/claims.h). No claim is
 * made on what other namespaces serve by other means, nor on names of the fabric itself.
 */
#include <stdlib.h>

#include "control/connector/proxy_int.h"

static struct sw_slice domain_of(const struct sw_connector_conf *c)
{
    return c->target_domain.n ? c->target_domain : SW_SLICE_LIT("connect.localhost");
}

/* What decides about names without a claim. */
struct naming {
    const struct sw_view *v;
    const struct sw_connector_conf *conf;
    struct sw_arena *a;
    const struct hp_names *names;
};

/* What it was given once, or what its Gateway makes; empty: it has no name yet. */
static struct sw_slice canonical_name(const struct sw_view *v, const struct sw_connector_conf *conf,
                                      struct sw_arena *a, const struct sw_kube_obj *o)
{
    struct sw_slice given = sw_json_str(sw_json_walk(o->json, "status", "canonicalHostname", NULL));
    const struct sw_kube_obj *gw = sw_view_find(v, SW_HP_GATEWAY, o->ns, o->name);
    struct sw_slice rest = given;
    struct sw_slice label = sw_slice_cut(&rest, '.');

    if (given.n && hp_is_label(label) && rest.p && sw_slice_eq(rest, domain_of(conf)))
        return given;
    return gw && cn_owned_by(gw, o->uid) ? sw_connector_hostname(a, gw->uid, domain_of(conf))
                                         : sw_slice("", 0);
}

static void index_canonical(const struct sw_view *v, const struct sw_connector_conf *conf,
                            struct sw_arena *a, struct sw_map *ret)
{
    size_t n = sw_view_count(v, SW_HP_PROXY);
    const struct sw_kube_obj **all = sw_arena_array(a, n + 1, sizeof(void *));

    for (size_t i = 0; i < n; i++)
        all[i] = sw_view_at(v, SW_HP_PROXY, i);
    if (n > 1)
        qsort(all, n, sizeof(*all), cn_oldest_first);
    for (size_t i = 0; i < n; i++) {
        struct sw_slice name = canonical_name(v, conf, a, all[i]);

        if (name.n && !sw_map_get(ret, name))
            (void)sw_map_put(ret, name, (void *)(uintptr_t)all[i]);
    }
}

/* Its status, which only we write, says that the name is its own. */
static bool is_served(const struct sw_kube_obj *o, struct sw_slice name)
{
    return cn_is_true(hp_host_conditions(o, name), "Available");
}

/* The claim on record is its own. */
static bool is_recorded(const struct sw_view *v, struct sw_arena *a, const struct sw_kube_obj *o,
                        struct sw_slice name)
{
    const struct sw_kube_obj *c =
        sw_view_find(v, SW_HP_CLAIM, sw_slice("", 0), sw_claim_name(a, SW_CLAIM_HOSTNAME, name));

    return c && o->uid.n &&
           sw_slice_eq(sw_json_str(sw_json_walk(c->json, "spec", "holder", "uid", NULL)), o->uid);
}

/* The object that serves the name without a claim; NULL: none. What it has already it keeps from
 * others. */
static const char *unclaimed_holder(const struct naming *n, const struct sw_kube_obj *o,
                                    struct sw_slice name)
{
    if (hp_is_fabrics(n->names, domain_of(n->conf), name, o))
        return "the fabric itself";
    if (!is_served(o, name) && hp_served_elsewhere(n->names, n->a, name, o->ns) &&
        !is_recorded(n->v, n->a, o, name))
        return "a Gateway, a route or an Ingress of another namespace";
    return NULL;
}

/* Adds what one HTTPProxy asks for. Returns how many there are now. */
static size_t ask_names(const struct naming *naming, const struct sw_kube_obj *o,
                        struct sw_claim_ask *asks, size_t n)
{
    const struct sw_json *list = sw_json_walk(o->json, "spec", "hostnames", NULL);

    if (cn_deleting(o))
        return n;
    for (size_t i = 0; i < sw_min(sw_json_len(list), HP_HOSTS_MAX - 1); i++) {
        struct sw_slice name = sw_json_str(sw_json_at(list, i));

        if (hp_is_hostname(name) && !sw_map_get(&naming->names->canonical, name) &&
            !unclaimed_holder(naming, o, name))
            asks[n++] = (struct sw_claim_ask){.value = name, .by = o, .served = is_served(o, name)};
    }
    return n;
}

void hp_claim_names(const struct sw_view *v, const struct sw_connector_conf *conf,
                    struct sw_output *out, struct hp_names *ret)
{
    const struct sw_claims_in in = HP_CLAIMS_IN(v, SW_CLAIM_HOSTNAME);
    const struct naming naming = {v, conf, sw_out_arena(out), ret};
    size_t count = sw_view_count(v, SW_HP_PROXY);
    struct sw_claim_ask *asks;
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        n += sw_json_len(
            sw_json_walk(sw_view_at(v, SW_HP_PROXY, i)->json, "spec", "hostnames", NULL));
    asks = sw_arena_array(sw_out_arena(out), n + 1, sizeof(*asks));
    n = 0;
    index_canonical(v, conf, sw_out_arena(out), &ret->canonical);
    hp_read_others(v, sw_out_arena(out), &ret->others);
    for (size_t i = 0; i < count; i++)
        n = ask_names(&naming, sw_view_at(v, SW_HP_PROXY, i), asks, n);
    sw_claims_decide(&in, asks, n, out, &ret->claims);
}

/* Names of objects in other namespaces are none of its business. */
const char *hp_holder_text(const struct hp *h, struct sw_slice ns, struct sw_slice name)
{
    if (!sw_slice_eq(ns, h->obj->ns))
        return "an HTTPProxy of another namespace";
    return cn_text(h->a, "HTTPProxy '%.*s/%.*s'", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));
}

static void add_host(struct hp *h, struct sw_slice name, bool canonical, size_t index)
{
    const struct sw_kube_obj *owner = sw_map_get(&h->names->canonical, name);
    const struct sw_claim *claim = owner ? NULL : sw_map_get(&h->names->claims, name);
    const struct naming naming = {h->v, h->conf, h->a, h->names};
    struct hp_host *host = &h->hosts[h->n_hosts++];
    const char *other = owner ? NULL : unclaimed_holder(&naming, h->obj, name);

    *host = (struct hp_host){.name = name, .canonical = canonical, .index = index};
    if (owner == h->obj || sw_claim_is(claim, h->obj)) {
        host->state = HP_NAME_OURS;
    } else if (other) {
        host->state = HP_NAME_IN_USE;
        host->holder = other;
    } else if (owner || claim) {
        host->state = HP_NAME_IN_USE;
        host->holder = owner ? hp_holder_text(h, owner->ns, owner->name)
                             : hp_holder_text(h, claim->ns, claim->name);
    } else {
        host->state = HP_NAME_UNRECORDED;
    }
}

void hp_read_hosts(struct hp *h)
{
    const struct sw_json *names = sw_json_find(h->spec, "hostnames");
    struct sw_slice canonical = canonical_name(h->v, h->conf, h->a, h->obj);

    if (!canonical.n)
        return;
    add_host(h, canonical, true, 0);
    for (size_t i = 0; i < sw_json_len(names) && h->n_hosts < HP_HOSTS_MAX; i++) {
        struct sw_slice name = sw_json_str(sw_json_at(names, i));

        if (!sw_slice_eq(name, canonical))
            add_host(h, name, false, i);
    }
}
