/* SPDX-License-Identifier: Apache-2.0 */
/* /config_dump: everything the node knows, as JSON with ztunnel's keys. Runs on the main loop. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "node/node_impl.h"
#include "policy/write.h"

static void put_str(struct sw_jw *j, const char *key, struct sw_slice s)
{
    if (s.n == 0)
        return;
    sw_jw_name(j, key);
    sw_jw_string(j, s);
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
    sw_jw_name(j, key);
    sw_jw_object(j);
    sw_jw_name(j, "destination");
    if (g->by_hostname) {
        char *all = sw_asprintf("%.*s/%.*s", SW_SLICE_ARG(g->ns), SW_SLICE_ARG(g->hostname));

        sw_jw_str(j, all);
        sw_free(all);
    } else {
        put_network_ip(j, g->network, &g->ip);
    }
    sw_jw_name(j, "hboneMtlsPort");
    sw_jw_u64(j, g->hbone_port);
    sw_jw_object_end(j);
}

static void put_ports(struct sw_jw *j, const struct sw_port_pair *p, size_t n)
{
    sw_jw_object(j);
    for (size_t i = 0; i < n; i++) {
        char key[8];

        (void)snprintf(key, sizeof(key), "%u", p[i].service_port);
        sw_jw_name(j, key);
        sw_jw_u64(j, p[i].target_port);
    }
    sw_jw_object_end(j);
}

static void put_locality(struct sw_jw *j, const struct sw_workload_place *at)
{
    if (at->region.n + at->zone.n + at->subzone.n == 0)
        return;
    sw_jw_name(j, "locality");
    sw_jw_object(j);
    put_str(j, "region", at->region);
    put_str(j, "zone", at->zone);
    put_str(j, "subzone", at->subzone);
    sw_jw_object_end(j);
}

static void put_memberships(struct sw_jw *j, const struct sw_workload_class *c)
{
    sw_jw_name(j, "services");
    sw_jw_array(j);
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
    sw_jw_name(j, "applicationTunnel");
    sw_jw_object(j);
    sw_jw_name(j, "protocol");
    sw_jw_str(j, c->app_tunnel == SW_APP_TUNNEL_PROXY ? "PROXY" : "NONE");
    if (c->app_tunnel_port) {
        sw_jw_name(j, "port");
        sw_jw_u64(j, c->app_tunnel_port);
    }
    sw_jw_object_end(j);
}

static void put_workload(struct sw_jw *j, const struct sw_workload *w)
{
    const struct sw_workload_class *c = w->c;

    sw_jw_object(j);
    sw_jw_name(j, "workloadIps");
    sw_jw_array(j);
    for (unsigned i = 0; i < w->n_ips; i++)
        put_ip(j, &w->ips[i]);
    sw_jw_array_end(j);
    put_gateway(j, "waypoint", c->waypoint);
    put_gateway(j, "networkGateway", c->network_gateway);
    sw_jw_name(j, "protocol");
    sw_jw_str(j, c->protocol == SW_TUNNEL_HBONE ? "HBONE" : "TCP");
    sw_jw_name(j, "networkMode");
    sw_jw_str(j, c->host_network ? "HostNetwork" : "Standard");
    put_str(j, "uid", sw_workload_uid(w));
    put_str(j, "name", sw_workload_name(w));
    put_str(j, "namespace", c->ns);
    put_str(j, "trustDomain", c->trust_domain);
    put_str(j, "serviceAccount", c->service_account);
    put_str(j, "network", w->at->network);
    put_str(j, "workloadName", c->workload_name);
    sw_jw_name(j, "workloadType");
    sw_jw_str(j, sw_workload_type_name(c->type));
    put_str(j, "canonicalName", c->canonical_name);
    put_str(j, "canonicalRevision", c->canonical_revision);
    put_str(j, "hostname", sw_workload_hostname(w));
    put_str(j, "node", w->at->node);
    if (c->native_tunnel) {
        sw_jw_name(j, "nativeTunnel");
        sw_jw_bool(j, true);
    }
    put_app_tunnel(j, c);
    sw_jw_name(j, "authorizationPolicies");
    sw_jw_array(j);
    for (size_t i = 0; i < c->n_policy_keys; i++)
        sw_jw_string(j, c->policy_keys[i]);
    sw_jw_array_end(j);
    sw_jw_name(j, "status");
    sw_jw_str(j, w->healthy ? "Healthy" : "Unhealthy");
    put_str(j, "clusterId", w->at->cluster_id);
    put_locality(j, w->at);
    put_memberships(j, c);
    sw_jw_name(j, "capacity");
    sw_jw_u64(j, w->capacity);
    sw_jw_object_end(j);
}

static int by_uid(const void *a, const void *b)
{
    const struct sw_workload *const *x = a;
    const struct sw_workload *const *y = b;

    return sw_slice_cmp(sw_workload_uid(*x), sw_workload_uid(*y));
}

static void put_endpoints(struct sw_jw *j, const struct sw_service *s)
{
    SW_AUTO_FREE const struct sw_workload **sorted =
        SW_NEW_ARRAY(const struct sw_workload *, s->n_endpoints + 1);

    for (size_t i = 0; i < s->n_endpoints; i++)
        sorted[i] = s->endpoints[i];
    qsort(sorted, s->n_endpoints, sizeof(*sorted), by_uid);
    sw_jw_name(j, "endpoints");
    sw_jw_object(j);
    for (size_t i = 0; i < s->n_endpoints; i++) {
        const struct sw_workload *w = sorted[i];

        sw_jw_key(j, sw_workload_uid(w));
        sw_jw_object(j);
        put_str(j, "workloadUid", sw_workload_uid(w));
        sw_jw_name(j, "status");
        sw_jw_str(j, w->healthy ? "Healthy" : "Unhealthy");
        sw_jw_object_end(j);
    }
    sw_jw_object_end(j);
}

static void put_balancer(struct sw_jw *j, const struct sw_service *s)
{
    if (s->mode == SW_LB_STANDARD && s->n_prefs == 0 && !s->allow_unhealthy)
        return;
    sw_jw_name(j, "loadBalancer");
    sw_jw_object(j);
    sw_jw_name(j, "routingPreferences");
    sw_jw_array(j);
    for (unsigned i = 0; i < s->n_prefs; i++)
        sw_jw_str(j, sw_lb_scope_name(s->prefs[i]));
    sw_jw_array_end(j);
    sw_jw_name(j, "mode");
    sw_jw_str(j, sw_lb_mode_name(s->mode));
    sw_jw_name(j, "healthPolicy");
    sw_jw_str(j, s->allow_unhealthy ? "AllowAll" : "OnlyHealthy");
    sw_jw_object_end(j);
}

static void put_weighted(struct sw_jw *j, const struct sw_service *s)
{
    if (s->n_weighted == 0)
        return;
    sw_jw_name(j, "weightedWaypoints");
    sw_jw_array(j);
    for (size_t i = 0; i < s->n_weighted; i++) {
        sw_jw_object(j);
        put_gateway(j, "destination", &s->weighted[i].to);
        sw_jw_name(j, "weight");
        sw_jw_u64(j, s->weighted[i].weight);
        sw_jw_object_end(j);
    }
    sw_jw_array_end(j);
}

static void put_service(struct sw_jw *j, const struct sw_service *s)
{
    sw_jw_object(j);
    put_str(j, "name", s->name);
    put_str(j, "namespace", s->ns);
    put_str(j, "hostname", s->hostname);
    sw_jw_name(j, "vips");
    sw_jw_array(j);
    for (size_t i = 0; i < s->n_vips; i++)
        put_network_ip(j, s->vips[i].network, &s->vips[i].ip);
    sw_jw_array_end(j);
    sw_jw_name(j, "ports");
    put_ports(j, s->ports, s->n_ports);
    put_endpoints(j, s);
    sw_jw_name(j, "subjectAltNames");
    sw_jw_array(j);
    for (size_t i = 0; i < s->n_sans; i++)
        sw_jw_string(j, s->sans[i]);
    sw_jw_array_end(j);
    put_gateway(j, "waypoint", s->waypoint);
    put_weighted(j, s);
    put_balancer(j, s);
    put_cstr(j, "ipFamilies", sw_ip_families_name(s->families));
    sw_jw_name(j, "canonical");
    sw_jw_bool(j, s->canonical);
    sw_jw_name(j, "visibility");
    sw_jw_str(j, s->namespace_only ? "Namespace" : "Public");
    sw_jw_object_end(j);
}

static int by_hostname(const void *a, const void *b)
{
    const struct sw_service *const *x = a;
    const struct sw_service *const *y = b;
    int c = sw_slice_cmp((*x)->hostname, (*y)->hostname);

    return c ? c : sw_slice_cmp((*x)->ns, (*y)->ns);
}

static void put_services(struct sw_jw *j, const struct sw_state *s)
{
    size_t n = sw_state_service_count(s);
    const struct sw_service **list = sw_state_list_services(s);

    qsort(list, n, sizeof(struct sw_service *), by_hostname);
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
    sw_jw_name(j, "scope");
    sw_jw_str(j, scopes[p->scope]);
    sw_jw_name(j, "action");
    sw_jw_str(j, p->action == SW_POLICY_DENY ? "Deny" : "Allow");
    sw_jw_name(j, "dryRun");
    sw_jw_bool(j, p->dry_run);
    sw_jw_name(j, "rules");
    sw_policy_write_rules(j, p);
    sw_jw_object_end(j);
}

static void put_state(struct sw_jw *j, const struct sw_state *s)
{
    SW_AUTO_FREE const struct sw_workload **workloads = sw_state_list_workloads(s);
    SW_AUTO_FREE const struct sw_policy **policies = sw_state_list_policies(s);
    SW_AUTO_FREE struct sw_slice *staged = sw_state_list_staged(s);

    sw_jw_name(j, "workloads");
    sw_jw_array(j);
    for (size_t i = 0; i < sw_state_workload_count(s); i++)
        put_workload(j, workloads[i]);
    sw_jw_array_end(j);
    sw_jw_name(j, "services");
    sw_jw_array(j);
    put_services(j, s);
    sw_jw_array_end(j);
    sw_jw_name(j, "policies");
    sw_jw_array(j);
    for (size_t i = 0; i < sw_state_policy_count(s); i++)
        put_policy(j, policies[i]);
    sw_jw_array_end(j);
    sw_jw_name(j, "stagedServices");
    sw_jw_array(j);
    for (size_t i = 0; i < sw_state_staged_count(s); i++)
        sw_jw_string(j, staged[i]);
    sw_jw_array_end(j);
}

static void put_certificate(struct sw_jw *j, const struct sw_tls_cert_info *c)
{
    char when[SW_RFC3339_LEN];
    SW_BUF_AUTO b64 = {.max = 1 << 20};

    sw_jw_object(j);
    if (sw_base64_append(&b64, c->pem) == SW_OK)
        put_str(j, "pem", sw_buf_slice(&b64));
    put_str(j, "serialNumber", c->serial);
    sw_jw_name(j, "validFrom");
    sw_jw_str(j, sw_rfc3339(c->not_before_s * SW_NS_PER_S, 0, when));
    sw_jw_name(j, "expirationTime");
    sw_jw_str(j, sw_rfc3339(c->not_after_s * SW_NS_PER_S, 0, when));
    sw_jw_object_end(j);
}

static void put_certificates(struct sw_jw *j, const char *key, const struct sw_tls_cert_info *c,
                             size_t n)
{
    sw_jw_name(j, key);
    sw_jw_array(j);
    for (size_t i = 0; i < n; i++)
        put_certificate(j, &c[i]);
    sw_jw_array_end(j);
}

static void put_certs(struct sw_jw *j, struct sw_certs *certs)
{
    sw_jw_name(j, "certificates");
    sw_jw_array(j);
    for (size_t i = 0; i < sw_certs_count(certs); i++) {
        struct sw_certs_entry e = sw_certs_at(certs, i);
        const struct sw_tls_cert_info *list = NULL;
        char state[256];
        size_t n;

        sw_jw_object(j);
        put_str(j, "identity", e.identity);
        sw_jw_name(j, "state");
        if (e.error && !e.cred)
            (void)snprintf(state, sizeof(state), "Unavailable: %s", e.error);
        else
            (void)snprintf(state, sizeof(state), "%s", e.cred ? "Available" : "Initializing");
        sw_jw_str(j, state);
        n = e.cred ? sw_tls_cred_chain(e.cred, &list) : 0;
        put_certificates(j, "certChain", list, n);
        n = e.cred ? sw_tls_cred_roots(e.cred, &list) : 0;
        put_certificates(j, "rootCerts", list, n);
        sw_jw_object_end(j);
    }
    sw_jw_array_end(j);
}

/* ---- open connections, asked of every worker ---- */

struct open_conn {
    struct sw_addr src;
    struct sw_addr original_dst;
    struct sw_addr actual_dst;
    unsigned protocol; /* enum sw_live_protocol */
    bool inbound;
    const struct sw_pod *pod;
};

enum { CONNS_MAX = 100000, ASK_TIMEOUT_MS = 1000 };

/* Shared by the asker and one worker; the last of both frees it. */
struct ask {
    struct sw_msg msg;
    struct sw_worker *worker;
    sem_t done;
    atomic_int refs;
    SW_VEC(struct open_conn) conns;
};

static void ask_unref(struct ask *a)
{
    if (atomic_fetch_sub(&a->refs, 1) != 1)
        return;
    (void)sem_destroy(&a->done);
    sw_vec_done(&a->conns);
    sw_free(a);
}

static void on_ask(struct sw_msg *m)
{
    struct ask *a = SW_CONTAINER_OF(m, struct ask, msg);

    SW_LIST_FOREACH (it, &a->worker->lives) {
        struct sw_live *l = SW_CONTAINER_OF(it, struct sw_live, link);
        struct open_conn c = {l->src,      l->original_dst, l->actual_dst,
                              l->protocol, l->inbound,      l->pod->pod};

        if (a->conns.n < CONNS_MAX)
            sw_vec_push(&a->conns, c);
    }
    (void)sem_post(&a->done);
    ask_unref(a);
}

static struct ask *ask_worker(struct sw_worker *w)
{
    struct ask *a = SW_NEW(struct ask);

    a->msg.cb = on_ask;
    a->worker = w;
    a->refs = 2;
    (void)sem_init(&a->done, 0, 0);
    sw_loop_post(w->loop, &a->msg);
    return a;
}

static bool answered(struct ask *a)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ASK_TIMEOUT_MS / 1000;
    return sem_timedwait(&a->done, &until) == 0;
}

static void put_addr(struct sw_jw *j, const char *key, const struct sw_addr *a)
{
    char text[SW_ADDR_TEXT];

    sw_jw_name(j, key);
    sw_jw_str(j, sw_addr_text(a, text));
}

static void put_connections(struct sw_jw *j, struct ask *const *asks, const bool *ok, size_t n,
                            const struct sw_pod *pod, bool inbound)
{
    static const char *const protocols[] = {"TCP", "HBONE", "DOUBLE_HBONE", "SOCKS5"};

    sw_jw_name(j, inbound ? "inbound" : "outbound");
    sw_jw_array(j);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; ok[i] && k < asks[i]->conns.n; k++) {
            const struct open_conn *c = &asks[i]->conns.p[k];

            if (c->pod != pod || c->inbound != inbound)
                continue;
            sw_jw_object(j);
            put_addr(j, "src", &c->src);
            put_addr(j, "originalDst", &c->original_dst);
            put_addr(j, "actualDst", &c->actual_dst);
            put_cstr(j, "protocol", protocols[c->protocol]);
            sw_jw_object_end(j);
        }
    }
    sw_jw_array_end(j);
}

static void put_pods(struct sw_jw *j, struct sw_node *n)
{
    struct ask **asks = SW_NEW_ARRAY(struct ask *, n->n_workers);
    bool *ok = SW_NEW_ARRAY(bool, n->n_workers);
    bool complete = true;

    for (size_t i = 0; i < n->n_workers; i++)
        asks[i] = ask_worker(&n->workers[i]);
    for (size_t i = 0; i < n->n_workers; i++) {
        ok[i] = answered(asks[i]);
        complete = complete && ok[i];
    }
    sw_jw_name(j, "workloadState");
    sw_jw_object(j);
    SW_VEC_FOREACH (struct node_pod, it, &n->pods) {
        const struct sw_pod *p = it->pod;

        sw_jw_name(j, p->uid);
        sw_jw_object(j);
        sw_jw_name(j, "state");
        sw_jw_str(j, it->up ? "Up" : "Pending");
        if (!it->up)
            put_cstr(j, "reason", it->why.msg);
        sw_jw_name(j, "info");
        sw_jw_object(j);
        put_cstr(j, "name", p->name);
        put_cstr(j, "namespace", p->ns);
        put_cstr(j, "serviceAccount", p->sa);
        sw_jw_object_end(j);
        sw_jw_name(j, "connections");
        sw_jw_object(j);
        put_connections(j, asks, ok, n->n_workers, p, true);
        put_connections(j, asks, ok, n->n_workers, p, false);
        sw_jw_object_end(j);
        sw_jw_object_end(j);
    }
    sw_jw_object_end(j);
    /* Not when a worker did not answer: its connections are missing, its state may be older. */
    sw_jw_name(j, "complete");
    sw_jw_bool(j, complete);
    for (size_t i = 0; i < n->n_workers; i++)
        ask_unref(asks[i]);
    sw_free(asks);
    sw_free(ok);
}

static void put_settings(struct sw_jw *j, const struct sw_node *n)
{
    const struct sw_node_config *c = n->config;

    sw_jw_name(j, "version");
    sw_jw_object(j);
    put_cstr(j, "version", SW_VERSION);
    put_cstr(j, "buildTag", "spanwire");
    sw_jw_object_end(j);
    sw_jw_name(j, "config");
    sw_jw_object(j);
    put_cstr(j, "proxyMode", c->mode == SW_NODE_DEDICATED ? "Dedicated" : "Shared");
    put_cstr(j, "network", c->network);
    put_cstr(j, "localNode", c->node_name);
    put_cstr(j, "clusterId", c->cluster_id);
    put_cstr(j, "clusterDomain", c->cluster_domain);
    if (c->xds_address) {
        put_cstr(j, "xdsAddress", c->xds_address);
        sw_jw_name(j, "xdsOnDemand");
        sw_jw_bool(j, c->xds_on_demand);
    }
    sw_jw_name(j, "workers");
    sw_jw_u64(j, c->workers);
    sw_jw_name(j, "socks5");
    sw_jw_bool(j, c->socks5);
    sw_jw_name(j, "poolMaxStreamsPerConn");
    sw_jw_u64(j, c->pool_max_streams);
    sw_jw_name(j, "windowSize");
    sw_jw_u64(j, c->h2_stream_window);
    sw_jw_name(j, "connectionWindowSize");
    sw_jw_u64(j, c->h2_connection_window);
    sw_jw_name(j, "frameSize");
    sw_jw_u64(j, c->h2_frame_size);
    sw_jw_object_end(j);
}

int node_config_dump(struct sw_buf *out, void *arg)
{
    struct sw_node *n = arg;
    struct sw_json_write_opts opts = {.indent = 2};
    struct sw_jw j;

    sw_jw_begin(&j, out, &opts);
    sw_jw_object(&j);
    put_state(&j, n->state);
    put_str(&j, "staticConfig", n->text);
    put_settings(&j, n);
    put_certs(&j, n->certs);
    put_pods(&j, n);
    sw_jw_object_end(&j);
    return sw_jw_end(&j);
}
