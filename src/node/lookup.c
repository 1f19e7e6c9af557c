/* SPDX-License-Identifier: Apache-2.0 */
#include "node/lookup.h"

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "node/route_int.h"

enum { LOOKUP_S = 5, CHOSEN_MAX = 4096 };

/* ---- what is missing ---- */

static char *address_key(struct sw_slice network, const struct sw_ip *ip)
{
    char text[SW_IP_TEXT];

    return sw_asprintf("%.*s/%s", SW_SLICE_ARG(network), sw_ip_text(ip, text));
}

/* The key, unless the answer to it is known. */
static char *unless_asked(const struct sw_lookup_book *ls, char *key)
{
    if (!sw_map_get(&ls->answered, sw_slice_str(key)))
        return key;
    sw_free(key);
    return NULL;
}

static char *gateway_key(const struct sw_lookup_book *ls, const struct sw_state *s,
                         const struct sw_gateway_addr *gw, struct sw_slice client_ns)
{
    const struct sw_service *svc = NULL;
    const struct sw_workload *wl = NULL;

    if (!gw)
        return NULL;
    sw_gateway_find(s, gw, client_ns, &svc, &wl);
    if (svc || wl)
        return NULL;
    return unless_asked(ls, gw->by_hostname ? sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(gw->ns),
                                                          SW_SLICE_ARG(gw->hostname))
                                            : address_key(gw->network, &gw->ip));
}

static char *service_gateways(const struct sw_lookup_book *ls, const struct sw_state *s,
                              const struct sw_service *svc, struct sw_slice client_ns)
{
    char *key = gateway_key(ls, s, svc->waypoint, client_ns);

    for (size_t i = 0; !key && i < svc->n_weighted; i++)
        key = gateway_key(ls, s, &svc->weighted[i].to, client_ns);
    /* Endpoints come with the service; those of other networks name their gateway. */
    for (size_t i = 0; !key && i < svc->n_endpoints; i++)
        key = gateway_key(ls, s, svc->endpoints[i]->c->network_gateway, client_ns);
    return key;
}

char *sw_lookup_missing(const struct sw_lookup_book *ls, const struct sw_state *s,
                        const struct sw_workload *source, const struct sw_addr *dst)
{
    struct sw_slice network = source->at->network;
    struct sw_slice ns = source->c->ns;
    const struct sw_service *svc = sw_state_service_by_vip(s, network, &dst->ip, ns);
    const struct sw_workload *wl = sw_state_workload_by_ip(s, network, &dst->ip);
    char *key;

    if (sw_ip_is_loopback(&dst->ip))
        return NULL;
    if (!svc && !wl)
        return unless_asked(ls, address_key(network, &dst->ip));
    key = svc ? service_gateways(ls, s, svc, ns) : NULL;
    if (!key && wl)
        key = gateway_key(ls, s, wl->c->waypoint, ns);
    if (!key && wl)
        key = gateway_key(ls, s, wl->c->network_gateway, ns);
    return key;
}

/* Services of the workload: those that the authority names, and the waypoints of those known. */
static char *own_services(const struct sw_lookup_book *ls, const struct sw_state *s,
                          const struct sw_workload *w, struct sw_slice host)
{
    char *key = NULL;

    for (size_t i = 0; !key && i < w->c->n_services; i++) {
        const struct sw_membership *m = &w->c->services[i];
        const struct sw_service *svc = sw_state_service_by_key(s, m->ns, m->hostname);

        if (svc)
            key = service_gateways(ls, s, svc, w->c->ns);
        else if (host.n && sw_slice_eq(m->hostname, host))
            key = unless_asked(ls, sw_slice_dup(sw_membership_key(m)));
    }
    return key;
}

/*
 * An address that the other side chose, unless it has chosen too many. Each counts once, however
 * many tunnels wait for it, or waited in vain.
 */
static char *chosen_address(struct sw_lookup_book *ls, struct sw_slice network,
                            const struct sw_ip *ip)
{
    char *key = unless_asked(ls, address_key(network, ip));
    char *own;

    if (!key || sw_map_get(&ls->chosen, sw_slice_str(key)))
        return key;
    if (ls->chosen.n >= CHOSEN_MAX) {
        sw_free(key);
        return NULL;
    }
    own = sw_strdup(key);
    (void)sw_map_put(&ls->chosen, sw_slice_str(own), own);
    return key;
}

static char *named_address(struct sw_lookup_book *ls, const struct sw_state *s,
                           const struct sw_lookup_inbound *q, const struct sw_ip *ip)
{
    if (sw_ip_eq(ip, &q->conn_dst) || q->local->c->has_app_tunnel ||
        sw_state_workload_by_ip(s, q->network, ip) ||
        sw_state_service_by_vip(s, q->network, ip, q->local->c->ns))
        return NULL;
    return chosen_address(ls, q->network, ip);
}

static char *caller(struct sw_lookup_book *ls, const struct sw_state *s,
                    const struct sw_lookup_inbound *q)
{
    if (!q->peer.family || sw_state_workload_by_ip(s, q->network, &q->peer))
        return NULL;
    return chosen_address(ls, q->network, &q->peer);
}

char *sw_lookup_missing_inbound(struct sw_lookup_book *ls, const struct sw_state *s,
                                const struct sw_lookup_inbound *q)
{
    struct sw_slice host = {0};
    struct sw_addr to;
    uint16_t port;
    char *key = gateway_key(ls, s, q->local->c->waypoint, q->local->c->ns);
    bool by_address = sw_addr_parse(q->authority, &to, NULL) == SW_OK;

    if (!by_address && sw_authority_split(q->authority, &host, &port, NULL) != SW_OK)
        host = sw_slice("", 0);
    if (!key)
        key = own_services(ls, s, q->local, host);
    if (!key && by_address)
        key = named_address(ls, s, q, &to.ip);
    return key ? key : caller(ls, s, q);
}

/* ---- waiting ---- */

static void count(const struct sw_lookup_book *ls, const char *result)
{
    sw_metric_add(sw_metric_get1(ls->shard, SW_METRIC_MESH_LOOKUPS, result), 1);
}

static void end(struct sw_lookup *l, enum sw_lookup_end how)
{
    sw_lookup_cancel(l);
    l->cb(l, how);
}

static void on_deadline(struct sw_timer *t)
{
    struct sw_lookup *l = SW_CONTAINER_OF(t, struct sw_lookup, deadline);

    sw_log_warn("xds", "control plane did not answer the lookup of '%s' within %d s", l->key,
                LOOKUP_S);
    count(l->of, "timeout");
    end(l, SW_LOOKUP_TIMEOUT);
}

void sw_lookup_start(struct sw_lookup_book *ls, struct sw_lookup *l, char *key,
                     void (*cb)(struct sw_lookup *l, enum sw_lookup_end end))
{
    l->of = ls;
    l->key = key;
    l->cb = cb;
    sw_list_push_back(&ls->waiting, &l->link);
    sw_timer_start(ls->loop, &l->deadline, LOOKUP_S * SW_NS_PER_S, on_deadline);
    ls->ask(ls->arg, sw_slice_str(key));
}

void sw_lookup_cancel(struct sw_lookup *l)
{
    if (!l->of)
        return;
    sw_timer_stop(l->of->loop, &l->deadline);
    sw_list_unlink(&l->link);
    sw_free(l->key);
    l->key = NULL;
    l->of = NULL;
}

void sw_lookup_found(struct sw_lookup_book *ls, struct sw_slice key, enum sw_lookup_end how)
{
    struct sw_list mine;

    if (how == SW_LOOKUP_ANSWERED && !sw_map_get(&ls->answered, key)) {
        char *own = sw_slice_dup(key);

        (void)sw_map_put(&ls->answered, sw_slice(own, key.n), own);
    }
    /* What is ended may start the next wait: those that were here first are set apart. */
    sw_list_init(&mine);
    sw_list_splice(&mine, &ls->waiting);
    while (!sw_list_empty(&mine)) {
        struct sw_lookup *l = SW_CONTAINER_OF(mine.next, struct sw_lookup, link);

        sw_list_unlink(&l->link);
        sw_list_push_back(&ls->waiting, &l->link);
        if (!sw_slice_eq_str(key, l->key))
            continue;
        count(ls, how == SW_LOOKUP_ANSWERED ? "answered" : "limit");
        end(l, how);
    }
}

static void forget(struct sw_map *keys)
{
    SW_MAP_DRAIN(keys, sw_free);
}

void sw_lookup_forget(struct sw_lookup_book *ls)
{
    forget(&ls->answered);
}

void sw_lookup_book_done(struct sw_lookup_book *ls)
{
    forget(&ls->answered);
    forget(&ls->chosen);
}
