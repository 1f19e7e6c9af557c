/* SPDX-License-Identifier: Apache-2.0 */
#include "node/dns/find.h"

#include <stdio.h>
#include <string.h>

#include "base/rand.h"

enum {
    SERVICES_MAX = 64, /* of one name, in all namespaces */
    LABELS_KUBE = 4,   /* names longer than this are no short forms */
    WILDCARDS_MAX = 16,
};

/* A search under way. */
struct search {
    const struct sw_state *state;
    const struct sw_dnsp_env *env;
    const struct sw_workload *client;
    struct sw_dnsp_match *match;
    struct sw_slice stripped; /* what was left of the name; p NULL: it is whole */
};

/* ---- one name ---- */

static bool usable(const struct search *x, const struct sw_service *s)
{
    struct sw_slice host = s->hostname;
    struct sw_slice domain = x->env->domain;
    const struct sw_slice svc = SW_SLICE_LIT(".svc.");

    if (!sw_service_visible(s, x->client->c->ns))
        return false;
    if (s->n_vips)
        return true;
    /* Without an address and not of the cluster, only the outside knows where it is. */
    return host.n > domain.n + svc.n && sw_slice_has_suffix(host, domain) &&
           sw_slice_has_suffix(sw_slice_head(host, host.n - domain.n), svc);
}

static int rank(const struct search *x, const struct sw_service *s)
{
    if (sw_slice_eq(s->ns, x->client->c->ns))
        return 3;
    if (s->canonical)
        return 2;
    return x->env->preferred_ns.n && sw_slice_eq(s->ns, x->env->preferred_ns) ? 1 : 0;
}

static bool look_up(struct search *x, struct sw_slice name)
{
    const struct sw_service *all[SERVICES_MAX];
    const struct sw_service *best = NULL;
    const struct sw_workload *wl;
    size_t n = sw_state_services_by_host(x->state, name, all, SERVICES_MAX);

    for (size_t i = 0; i < n; i++) {
        if (usable(x, all[i]) && (!best || rank(x, all[i]) > rank(x, best)))
            best = all[i];
    }
    x->match->service = best;
    if (best)
        return true;
    /* A workload that is only a host name is resolved by others. */
    wl = sw_state_workload_by_hostname(x->state, x->client->c->ns, name);
    x->match->workload = wl && wl->n_ips ? wl : NULL;
    return x->match->workload != NULL;
}

/* ---- a candidate: exact, then wildcards ---- */

static bool try_name(struct search *x, struct sw_slice name)
{
    char text[SW_DNSP_NAME_MAX + 2] = "*";
    struct sw_slice rest = name;

    if (!name.n)
        return false;
    if (look_up(x, name)) {
        x->match->stripped = x->stripped.p != NULL;
        if (x->match->stripped)
            (void)snprintf(x->match->name, sizeof(x->match->name), "%.*s",
                           SW_SLICE_ARG(x->stripped));
        return true;
    }
    for (int i = 0; i < WILDCARDS_MAX; i++) {
        ptrdiff_t dot = sw_slice_find(rest, '.');

        if (dot < 0)
            break;
        rest = sw_slice_from(rest, (size_t)dot);
        memcpy(text + 1, rest.p, rest.n);
        if (look_up(x, sw_slice(text, rest.n + 1)))
            return true;
        rest = sw_slice_from(rest, 1);
    }
    return false;
}

/* The name with these behind it, each after a dot; empty ones are left out. */
static bool try_with(struct search *x, struct sw_slice name, struct sw_slice ns, const char *svc)
{
    char text[SW_DNSP_NAME_MAX];
    int n = snprintf(text, sizeof(text), "%.*s%s%.*s%s%s.%.*s", SW_SLICE_ARG(name), ns.n ? "." : "",
                     SW_SLICE_ARG(ns), svc[0] ? "." : "", svc, SW_SLICE_ARG(x->env->domain));

    return n > 0 && (size_t)n < sizeof(text) && try_name(x, sw_slice(text, (size_t)n));
}

static size_t count_labels(struct sw_slice name)
{
    size_t n = 1;

    for (size_t i = 0; i < name.n; i++)
        n += name.p[i] == '.';
    return n;
}

/* A name and the names of the cluster it may be short for. */
static bool try_forms(struct search *x, struct sw_slice name)
{
    struct sw_slice ns = x->client->c->ns;
    struct sw_slice none = sw_slice("", 0);
    bool svc = sw_slice_has_suffix(name, SW_SLICE_LIT(".svc"));
    size_t labels = count_labels(name);

    if (try_name(x, name))
        return true;
    switch (labels) {
    case 1:
        return try_with(x, name, ns, "svc");
    case 2:
        return try_with(x, name, none, "svc") || try_with(x, name, ns, "svc");
    case 3:
        return (svc && try_with(x, name, none, "")) || try_with(x, name, none, "svc");
    case LABELS_KUBE:
        return svc && try_with(x, name, none, "");
    default:
        return false;
    }
}

/* The name without a domain it ends with; p NULL: it does not. */
static struct sw_slice strip(struct sw_slice name, struct sw_slice domain)
{
    if (domain.n && name.n > domain.n + 1 && sw_slice_has_suffix(name, domain) &&
        name.p[name.n - domain.n - 1] == '.')
        return sw_slice_head(name, name.n - domain.n - 1);
    return (struct sw_slice){0};
}

bool sw_dnsp_find(const struct sw_state *s, const struct sw_dnsp_env *env,
                  const struct sw_workload *client, struct sw_slice name, struct sw_dnsp_match *ret)
{
    struct search x = {.state = s, .env = env, .client = client, .match = ret};
    char own[2][SW_DNSP_NAME_MAX];
    struct sw_slice domains[SW_DNSP_SEARCH_MAX] = {{0}};
    size_t n = env->n_search;

    *ret = (struct sw_dnsp_match){0};
    if (!name.n || name.n >= SW_DNSP_NAME_MAX)
        return false;
    if (try_forms(&x, name))
        return true;
    memcpy(domains, env->search, sizeof(domains));
    if (!n) {
        (void)snprintf(own[0], sizeof(own[0]), "%.*s.svc.%.*s", SW_SLICE_ARG(client->c->ns),
                       SW_SLICE_ARG(env->domain));
        (void)snprintf(own[1], sizeof(own[1]), "svc.%.*s", SW_SLICE_ARG(env->domain));
        domains[n++] = sw_slice_str(own[0]);
        domains[n++] = sw_slice_str(own[1]);
        domains[n++] = env->domain;
    }
    for (size_t i = 0; i < n; i++) {
        x.stripped = strip(name, domains[i]);
        if (x.stripped.p && try_forms(&x, x.stripped))
            return true;
    }
    return false;
}

/* ---- addresses ---- */

static void shuffle(struct sw_ip *ips, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t k = sw_rand_below(i);
        struct sw_ip t = ips[i - 1];

        ips[i - 1] = ips[k];
        ips[k] = t;
    }
}

static size_t of_workload(const struct sw_workload *w, uint8_t family, size_t max,
                          struct sw_ip *ret)
{
    size_t n = 0;

    for (unsigned i = 0; i < w->n_ips && n < max; i++) {
        struct sw_ip ip = sw_workload_ip(w, i);

        if (ip.family == family)
            ret[n++] = ip;
    }
    return n;
}

/* Of more endpoints than an answer holds, as many from a random place on. */
static size_t of_endpoints(const struct sw_service *s, uint8_t family, struct sw_ip *ret)
{
    size_t start = s->n_endpoints ? sw_rand_below(s->n_endpoints) : 0;
    size_t n = 0;

    for (size_t i = 0; i < s->n_endpoints && n < SW_DNSP_ADDRESSES_MAX; i++)
        n += of_workload(s->endpoints[(start + i) % s->n_endpoints], family, 1, &ret[n]);
    return n;
}

static size_t of_service(const struct sw_service *s, struct sw_slice network, uint8_t family,
                         struct sw_ip *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n_vips && n < SW_DNSP_ADDRESSES_MAX; i++) {
        if (s->vips[i].ip.family == family && sw_slice_eq(s->vips[i].network, network))
            ret[n++] = s->vips[i].ip;
    }
    return n;
}

size_t sw_dnsp_addresses(const struct sw_dnsp_env *env, const struct sw_workload *client,
                         const struct sw_dnsp_match *m, uint8_t family,
                         struct sw_ip ret[SW_DNSP_ADDRESSES_MAX])
{
    size_t n;

    if (family == 6 && !env->ipv6)
        return 0;
    if (m->service && !sw_ip_family_allowed(m->service->families, family))
        return 0;
    if (!m->service)
        n = of_workload(m->workload, family, SW_DNSP_ADDRESSES_MAX, ret);
    else if (m->service->n_vips)
        n = of_service(m->service, client->at->network, family, ret);
    else
        n = of_endpoints(m->service, family, ret);
    shuffle(ret, n);
    return n;
}
