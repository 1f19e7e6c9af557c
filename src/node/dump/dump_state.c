/* SPDX-License-Identifier: Apache-2.0 */
#include "node/dump/dump.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/vec.h"
#include "node/service.h"
#include "node/state.h"
#include "node/workload.h"
#include "policy/write.h"

static void put_str(struct sw_jw *j, const char *key, struct sw_slice s)
{
    if (s.n == 0)
        return;
    sw_jw_put_string(j, key, s);
}

static void put_cstr(struct sw_jw *j, const char *key, const char *s)
{
    if (s)
        put_str(j, key, sw_slice_str(s));
}

static void put_ip(struct sw_jw *j, const struct sw_ip *ip)
{
    char text[SW_IP_TEXT];

    sw_jw_str(j, sw_ip_text(ip, text));
}

static void put_network_ip(struct sw_jw *j, struct sw_slice network, const struct sw_ip *ip)
{
    char text[SW_IP_TEXT];
    char *all = sw_asprintf("%.*s/%s", SW_SLICE_ARG(network), sw_ip_text(ip, text));

    sw_jw_str(j, all);
    sw_free(all);
}

static void put_gateway(struct sw_jw *j, const char *key, const struct sw_gateway_addr *g)
{
    if (!g)
        return;
    sw_jw_put_object(j, key);
    sw_jw_name(j, "destination");
    if (g->by_hostname) {
        char *all = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(g->ns), SW_SLICE_ARG(g->hostname));

        sw_jw_str(j, all);
        sw_free(all);
    } else {
        put_network_ip(j, g->network, &g->ip);
    }
    sw_jw_put_u64(j, "hboneMtlsPort", g->hbone_port);
    sw_jw_object_end(j);
}

static void put_ports(struct sw_jw *j, const struct sw_port_pair *p, size_t n)
{
    sw_jw_object(j);
    for (size_t i = 0; i < n; i++) {
        char key[8];

        (void)snprintf(key, sizeof(key), "%u", p[i].service_port);
        sw_jw_put_u64(j, key, p[i].target_port);
    }
    sw_jw_object_end(j);
}

static void put_locality(struct sw_jw *j, const struct sw_workload_place *at)
{
    if (at->region.n + at->zone.n + at->subzone.n == 0)
        return;
    sw_jw_put_object(j, "locality");
    put_str(j, "region", at->region);
    put_str(j, "zone", at->zone);
    put_str(j, "subzone", at->subzone);
    sw_jw_object_end(j);
}

static void put_memberships(struct sw_jw *j, const struct sw_workload_class *c)
{
    sw_jw_put_array(j, "services");
    for (size_t i = 0; i < c->n_services; i++) {
        char *key = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(c->services[i].ns),
                                SW_SLICE_ARG(c->services[i].hostname));

        sw_jw_str(j, key);
        sw_free(key);
    }
    sw_jw_array_end(j);
}

static void put_app_tunnel(struct sw_jw *j, const struct sw_workload_class *c)
{
    if (!c->has_app_tunnel)
        return;
    sw_jw_put_object(j, "applicationTunnel");
    sw_jw_put_str(j, "protocol", c->app_tunnel == SW_APP_TUNNEL_PROXY ? "PROXY" : "NONE");
    if (c->app_tunnel_port)
        sw_jw_put_u64(j, "port", c->app_tunnel_port);
    sw_jw_object_end(j);
}

static void put_workload(struct sw_jw *j, const struct sw_workload *w)
{
    const struct sw_workload_class *c = w->c;
    SW_ARENA_AUTO a = {0};

    sw_jw_object(j);
    sw_jw_put_array(j, "workloadIps");
    for (unsigned i = 0; i < w->n_ips; i++) {
        struct sw_ip ip = sw_workload_ip(w, i);

        put_ip(j, &ip);
    }
    sw_jw_array_end(j);
    put_gateway(j, "waypoint", c->waypoint);
    put_gateway(j, "networkGateway", c->network_gateway);
    sw_jw_put_str(j, "protocol", c->protocol == SW_TUNNEL_HBONE ? "HBONE" : "TCP");
    sw_jw_put_str(j, "networkMode", c->host_network ? "HostNetwork" : "Standard");
    put_str(j, "uid", sw_workload_uid(w, &a));
    put_str(j, "name", sw_workload_name(w));
    put_str(j, "namespace", c->ns);
    put_str(j, "trustDomain", c->trust_domain);
    put_str(j, "serviceAccount", c->service_account);
    put_str(j, "network", w->at->network);
    put_str(j, "workloadName", c->workload_name);
    sw_jw_put_str(j, "workloadType", sw_workload_type_name(c->type));
    put_str(j, "canonicalName", c->canonical_name);
    put_str(j, "canonicalRevision", c->canonical_revision);
    put_str(j, "hostname", sw_workload_hostname(w));
    put_str(j, "node", w->at->node);
    if (c->native_tunnel)
        sw_jw_put_bool(j, "nativeTunnel", true);
    put_app_tunnel(j, c);
    sw_jw_put_array(j, "authorizationPolicies");
    for (size_t i = 0; i < c->n_policy_keys; i++)
        sw_jw_string(j, c->policy_keys[i]);
    sw_jw_array_end(j);
    sw_jw_put_str(j, "status", w->healthy ? "Healthy" : "Unhealthy");
    put_str(j, "clusterId", w->at->cluster_id);
    put_locality(j, w->at);
    put_memberships(j, c);
    sw_jw_put_u64(j, "capacity", sw_workload_capacity(w));
    sw_jw_object_end(j);
}

/* uid: {workloadUid, port, status} */
static void put_endpoint(struct sw_jw *j, const struct sw_workload *w,
                         const struct sw_membership *m)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice uid = sw_workload_uid(w, &a);

    sw_jw_key(j, uid);
    sw_jw_object(j);
    put_str(j, "workloadUid", uid);
    sw_jw_name(j, "port");
    put_ports(j, m ? m->ports : NULL, m ? m->n_ports : 0);
    sw_jw_put_str(j, "status", w->healthy ? "Healthy" : "Unhealthy");
    sw_jw_object_end(j);
}

static int by_uid(const void *a, const void *b)
{
    const struct sw_workload *const *x = a;
    const struct sw_workload *const *y = b;

    return sw_workload_cmp(*x, *y);
}

static void put_endpoints(struct sw_jw *j, const struct sw_service *s)
{
    SW_AUTO_FREE const struct sw_workload **sorted =
        SW_NEW_ARRAY(const struct sw_workload *, s->n_endpoints + 1);

    for (size_t i = 0; i < s->n_endpoints; i++)
        sorted[i] = s->endpoints[i];
    qsort(sorted, s->n_endpoints, sizeof(*sorted), by_uid);
    sw_jw_put_object(j, "endpoints");
    for (size_t i = 0; i < s->n_endpoints; i++)
        put_endpoint(j, sorted[i], sw_workload_membership(sorted[i], s));
    sw_jw_object_end(j);
}

static void put_balancer(struct sw_jw *j, const struct sw_service *s)
{
    if (s->mode == SW_LB_STANDARD && s->n_prefs == 0 && !s->allow_unhealthy)
        return;
    sw_jw_put_object(j, "loadBalancer");
    sw_jw_put_array(j, "routingPreferences");
    for (unsigned i = 0; i < s->n_prefs; i++)
        sw_jw_str(j, sw_lb_scope_name(s->prefs[i]));
    sw_jw_array_end(j);
    sw_jw_put_str(j, "mode", sw_lb_mode_name(s->mode));
    sw_jw_put_str(j, "healthPolicy", s->allow_unhealthy ? "AllowAll" : "OnlyHealthy");
    sw_jw_object_end(j);
}

static void put_weighted(struct sw_jw *j, const struct sw_service *s)
{
    if (s->n_weighted == 0)
        return;
    sw_jw_put_array(j, "weightedWaypoints");
    for (size_t i = 0; i < s->n_weighted; i++) {
        sw_jw_object(j);
        put_gateway(j, "destination", &s->weighted[i].to);
        sw_jw_put_u64(j, "weight", s->weighted[i].weight);
        sw_jw_object_end(j);
    }
    sw_jw_array_end(j);
}

static void put_cidrs(struct sw_jw *j, const struct sw_service *s)
{
    char ip[SW_IP_TEXT];

    if (s->n_cidr_vips == 0)
        return;
    sw_jw_put_array(j, "cidrVips");
    for (size_t i = 0; i < s->n_cidr_vips; i++) {
        const struct sw_network_cidr *v = &s->cidr_vips[i];
        char *text = sw_asprintf("%s/%u", sw_ip_text(&v->cidr.ip, ip), v->cidr.len);

        sw_jw_object(j);
        sw_jw_put_string(j, "network", v->network);
        sw_jw_put_str(j, "cidr", text);
        sw_jw_object_end(j);
        sw_free(text);
    }
    sw_jw_array_end(j);
}

static void put_service(struct sw_jw *j, const struct sw_service *s)
{
    sw_jw_object(j);
    put_str(j, "name", s->name);
    put_str(j, "namespace", s->ns);
    put_str(j, "hostname", s->hostname);
    sw_jw_put_array(j, "vips");
    for (size_t i = 0; i < s->n_vips; i++)
        put_network_ip(j, s->vips[i].network, &s->vips[i].ip);
    sw_jw_array_end(j);
    put_cidrs(j, s);
    sw_jw_name(j, "ports");
    put_ports(j, s->ports, s->n_ports);
    put_endpoints(j, s);
    sw_jw_put_array(j, "subjectAltNames");
    for (size_t i = 0; i < s->n_sans; i++)
        sw_jw_string(j, s->sans[i]);
    sw_jw_array_end(j);
    put_gateway(j, "waypoint", s->waypoint);
    put_weighted(j, s);
    put_balancer(j, s);
    put_cstr(j, "ipFamilies", sw_ip_families_name(s->families));
    sw_jw_put_bool(j, "canonical", s->canonical);
    sw_jw_put_str(j, "visibility", s->namespace_only ? "Namespace" : "Public");
    sw_jw_object_end(j);
}

static void put_services(struct sw_jw *j, const struct sw_state *s)
{
    size_t n = sw_state_service_count(s);
    const struct sw_service **list = sw_state_list_services(s);

    SW_SORT_POINTERS_BY2(list, n, hostname, ns);
    for (size_t i = 0; i < n; i++)
        put_service(j, list[i]);
    sw_free(list);
}

static void put_policy(struct sw_jw *j, const struct sw_policy *p)
{
    static const char *const scopes[] = {"Global", "Namespace", "WorkloadSelector"};

    sw_jw_object(j);
    put_str(j, "name", p->name);
    put_str(j, "namespace", p->ns);
    sw_jw_put_str(j, "scope", scopes[p->scope]);
    sw_jw_put_str(j, "action", p->action == SW_POLICY_DENY ? "Deny" : "Allow");
    sw_jw_put_bool(j, "dryRun", p->dry_run);
    sw_jw_name(j, "rules");
    sw_policy_write_rules(j, p);
    sw_jw_object_end(j);
}

/* An endpoint of a service without a record (yet). */
struct staged {
    size_t key; /* of the sorted keys */
    const struct sw_workload *w;
    const struct sw_membership *m;
};

static int by_staged(const void *a, const void *b)
{
    const struct staged *x = a;
    const struct staged *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return sw_workload_cmp(x->w, y->w);
}

static int cmp_key(const void *key, const void *item)
{
    return sw_slice_cmp(*(const struct sw_slice *)key, *(const struct sw_slice *)item);
}

/* {"ns/hostname": {uid: endpoint}} */
static void put_staged(struct sw_jw *j, const struct sw_state *s,
                       const struct sw_workload *const *workloads)
{
    SW_AUTO_FREE struct sw_slice *keys = sw_state_list_staged(s);
    size_t n_keys = sw_state_staged_count(s);
    SW_VEC(struct staged) all = {0};

    for (size_t i = 0; n_keys && i < sw_state_workload_count(s); i++) {
        const struct sw_workload_class *c = workloads[i]->c;

        for (size_t k = 0; k < c->n_services; k++) {
            struct sw_slice key = sw_membership_key(&c->services[k]);
            const struct sw_slice *at = bsearch(&key, keys, n_keys, sizeof(*keys), cmp_key);

            if (at)
                sw_vec_push(&all,
                            ((struct staged){(size_t)(at - keys), workloads[i], &c->services[k]}));
        }
    }
    if (all.n)
        qsort(all.p, all.n, sizeof(*all.p), by_staged);
    sw_jw_put_object(j, "stagedServices");
    for (size_t i = 0; i < all.n;) {
        size_t key = all.p[i].key;

        sw_jw_key(j, keys[key]);
        sw_jw_object(j);
        for (; i < all.n && all.p[i].key == key; i++)
            put_endpoint(j, all.p[i].w, all.p[i].m);
        sw_jw_object_end(j);
    }
    sw_jw_object_end(j);
    sw_vec_done(&all);
}

void sw_dump_state(struct sw_jw *j, const struct sw_state *s)
{
    SW_AUTO_FREE const struct sw_workload **workloads = sw_state_list_workloads(s);
    SW_AUTO_FREE const struct sw_policy **policies = sw_state_list_policies(s);

    sw_jw_put_array(j, "workloads");
    for (size_t i = 0; i < sw_state_workload_count(s); i++)
        put_workload(j, workloads[i]);
    sw_jw_array_end(j);
    sw_jw_put_array(j, "services");
    put_services(j, s);
    sw_jw_array_end(j);
    sw_jw_put_array(j, "policies");
    for (size_t i = 0; i < sw_state_policy_count(s); i++)
        put_policy(j, policies[i]);
    sw_jw_array_end(j);
    put_staged(j, s, workloads);
}
