/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters whose endpoints are host names: each name is looked up again and again, and its
 * addresses become the members. A lookup that fails leaves what was known.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "gateway/upstream/build.h"
#include "gateway/upstream/cluster.h"
#include "gateway/upstream/dns.h"
#include "io/resolver.h"

enum { NAMES_MAX = 1000 };

struct name {
    struct sw_gw_dns *dns;
    struct sw_slice text; /* of a member of 'base' */
    struct sw_timer again;
    struct sw_resolve *asking; /* NULL: none on the way */
    bool answered;
    size_t n;
    struct sw_ip ips[SW_RESOLVE_MAX];
};

struct sw_gw_dns {
    struct sw_loop *loop;
    const struct sw_gw_cluster_spec *spec; /* a reference is held by the owner */
    struct sw_gw_members *base;            /* a reference: as configured */
    struct sw_gw_members *last;            /* a reference: as reported; NULL before */
    unsigned n_workers;
    struct name *names; /* owned */
    size_t n_names;
    sw_gw_dns_cb cb;
    void *arg;
};

static struct name *find_name(struct sw_gw_dns *d, struct sw_slice text)
{
    for (size_t i = 0; i < d->n_names; i++) {
        if (sw_slice_eq(d->names[i].text, text))
            return &d->names[i];
    }
    return NULL;
}

static bool family_wanted(const struct sw_gw_dns *d, const struct sw_ip *ip)
{
    return d->spec->dns_family == 1 ? ip->family == 4 : d->spec->dns_family != 2 || ip->family == 6;
}

/* The member for one address of a name: an old one with the same key, or a new one. */
static struct sw_gw_member *member_for(struct sw_gw_dns *d, const struct sw_gw_member *base,
                                       const struct sw_ip *ip)
{
    struct sw_gw_member *m = sw_gw_member_new();
    char text[SW_ADDR_TEXT];

    m->addr.ip = (struct sw_addr){.ip = *ip, .port = base->addr.ip.port};
    m->check_addr = m->addr;
    if (base->check_addr.ip.port)
        m->check_addr.ip.port = base->check_addr.ip.port;
    m->text = sw_slice_str(sw_arena_printf(&m->arena, "%s", sw_addr_text(&m->addr.ip, text)));
    m->hostname = sw_arena_slice(&m->arena, base->hostname);
    m->check_host = sw_arena_slice(&m->arena, base->check_host);
    m->no_active_check = base->no_active_check;
    if (base->metadata)
        m->metadata = sw_json_copy(&m->arena, base->metadata);
    m->key = sw_slice_str(
        sw_arena_printf(&m->arena, "%.*s %.*s", SW_SLICE_ARG(base->key), SW_SLICE_ARG(m->text)));
    if (d->last) {
        SW_GW_ENDPOINTS_EACH (old, d->last) {
            if (sw_slice_eq(old->member->key, m->key)) {
                (void)sw_gw_member_unref(m);
                return sw_gw_member_ref(old->member);
            }
        }
    }
    sw_gw_member_add_cells(m, d->n_workers);
    return m;
}

static void expand(struct sw_gw_dns *d, struct sw_gw_members *ms, const struct sw_gw_locality *from,
                   struct sw_gw_locality *to)
{
    bool logical = d->spec->discovery == SW_GW_LOGICAL_DNS;

    *to = *from;
    to->n = 0;
    to->region = sw_arena_slice(&ms->arena, from->region);
    to->zone = sw_arena_slice(&ms->arena, from->zone);
    to->sub_zone = sw_arena_slice(&ms->arena, from->sub_zone);
    to->endpoints =
        sw_arena_array(&ms->arena, from->n * SW_RESOLVE_MAX + 1, sizeof(*to->endpoints));
    for (size_t i = 0; i < from->n; i++) {
        struct sw_gw_endpoint e = from->endpoints[i];
        const struct name *n = find_name(d, e.member->addr.name);

        if (e.member->addr.kind != SW_GW_ADDR_IP || e.member->addr.ip.ip.family || !n) {
            e.member = sw_gw_member_ref(e.member);
            to->endpoints[to->n++] = e;
            continue;
        }
        for (size_t k = 0; k < n->n && !(logical && k); k++) {
            e.member = member_for(d, from->endpoints[i].member, &n->ips[k]);
            to->endpoints[to->n++] = e;
        }
    }
    ms->n += to->n;
}

static void report(struct sw_gw_dns *d)
{
    struct sw_gw_members *ms = sw_gw_members_empty();

    ms->overprovisioning = d->base->overprovisioning;
    ms->n_priorities = d->base->n_priorities;
    ms->localities = sw_arena_array(&ms->arena, d->base->n_localities + 1, sizeof(*ms->localities));
    for (size_t i = 0; i < d->base->n_localities; i++)
        expand(d, ms, &d->base->localities[i], &ms->localities[ms->n_localities++]);
    (void)sw_gw_members_unref(d->last);
    d->last = sw_gw_members_ref(ms);
    d->cb(ms, d->arg);
}

static void ask(struct name *n);

static void on_again(struct sw_timer *t)
{
    ask(SW_CONTAINER_OF(t, struct name, again));
}

static bool take(struct name *n, const struct sw_resolve *r)
{
    struct sw_ip ips[SW_RESOLVE_MAX];
    size_t k = 0;
    bool same;

    for (size_t i = 0; i < r->n; i++) {
        if (family_wanted(n->dns, &r->ips[i]))
            ips[k++] = r->ips[i];
    }
    if (k == 0)
        return false;
    same = k == n->n && memcmp(ips, n->ips, k * sizeof(*ips)) == 0;
    memcpy(n->ips, ips, k * sizeof(*ips));
    n->n = k;
    return !same;
}

static void on_answer(struct sw_resolve *r)
{
    struct name *n = r->arg;
    bool changed;

    if (n) {
        n->asking = NULL;
        changed = r->rc == SW_OK && take(n, r);
        if (r->rc != SW_OK && !n->answered)
            sw_log_warn("dns", "cluster '%.*s': '%s' cannot be resolved",
                        SW_SLICE_ARG(n->dns->spec->name), r->name);
        changed |= !n->answered;
        n->answered = true;
        sw_timer_start(n->dns->loop, &n->again,
                       n->dns->spec->dns_refresh_ns + sw_rand_below(SW_NS_PER_S / 2), on_again);
        if (changed)
            report(n->dns);
    }
    sw_free(r);
}

static void ask(struct name *n)
{
    struct sw_resolve *r = SW_NEW(struct sw_resolve);

    r->loop = n->dns->loop;
    r->cb = on_answer;
    r->arg = n;
    (void)snprintf(r->name, sizeof(r->name), "%.*s", (int)sw_min(n->text.n, SW_RESOLVE_NAME - 1),
                   n->text.p);
    n->asking = r;
    sw_resolve_start(r);
}

struct sw_gw_dns *sw_gw_dns_new(struct sw_loop *l, const struct sw_gw_cluster_spec *spec,
                                struct sw_gw_members *base, unsigned n_workers, sw_gw_dns_cb cb,
                                void *arg)
{
    struct sw_gw_dns *d = SW_NEW(struct sw_gw_dns);

    *d = (struct sw_gw_dns){.loop = l, .spec = spec, .n_workers = n_workers, .cb = cb, .arg = arg};
    d->base = sw_gw_members_ref(base);
    d->names = SW_NEW_ARRAY(struct name, NAMES_MAX);
    SW_GW_ENDPOINTS_EACH (e, base) {
        const struct sw_gw_addr *a = &e->member->addr;

        if (a->kind != SW_GW_ADDR_IP || a->ip.ip.family || d->n_names == NAMES_MAX ||
            find_name(d, a->name))
            continue;
        d->names[d->n_names].dns = d;
        d->names[d->n_names++].text = a->name;
    }
    if (d->n_names == 0) {
        sw_gw_dns_free(d);
        return NULL;
    }
    for (size_t i = 0; i < d->n_names; i++)
        ask(&d->names[i]);
    return d;
}

void sw_gw_dns_free(struct sw_gw_dns *d)
{
    if (!d)
        return;
    for (size_t i = 0; i < d->n_names; i++) {
        if (d->names[i].asking)
            d->names[i].asking->arg = NULL;
        sw_timer_stop(d->loop, &d->names[i].again);
    }
    (void)sw_gw_members_unref(d->last);
    (void)sw_gw_members_unref(d->base);
    sw_free(d->names);
    sw_free(d);
}
