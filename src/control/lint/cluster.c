/* SPDX-License-Identifier: Apache-2.0 */
/* Rules for clusters and endpoints. */
#include <proto/cluster.pb-c.h>
#include <proto/core.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>

#include "control/lint/lint_int.h"
#include "io/addr.h"
#include "proto/pb.h"

enum {
    PRIORITIES_MAX = 128,
};

/* --- clusters --- */

static bool is_ip(struct sw_slice s)
{
    struct sw_ip ip;

    return sw_ip_parse(s, &ip, NULL) == SW_OK;
}

/* Hosts of a cluster that resolves no names. */
static void check_static(struct lint *l, const Sw__ClusterLoadAssignment *la)
{
    for (size_t i = 0; i < la->n_endpoints; i++) {
        for (size_t k = 0; k < la->endpoints[i]->n_lb_endpoints; k++) {
            const Sw__LbEndpoint *e = la->endpoints[i]->lb_endpoints[k];
            const Sw__Address *at;

            if (e->host_identifier_case != SW__LB_ENDPOINT__HOST_IDENTIFIER_ENDPOINT ||
                !(at = e->endpoint->address))
                continue;
            if (at->address_case == SW__ADDRESS__ADDRESS_SOCKET_ADDRESS &&
                !is_ip(SW_PB_SLICE(at->socket_address->address)))
                sw_lint_error(
                    l, "", "endpoint '%.*s' is not an IP address",
                    SW_SLICE_ARG(sw_slice_head(SW_PB_SLICE(at->socket_address->address), 80)));
        }
    }
}

static void check_discovery(struct lint *l, const Sw__Cluster *m)
{
    struct sw_slice service;

    if (m->cluster_discovery_type_case == SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_CLUSTER_TYPE)
        return;
    if (m->type == SW__CLUSTER__DISCOVERY_TYPE__EDS) {
        if (!m->eds_cluster_config || !m->eds_cluster_config->eds_config) {
            sw_lint_error(l, "eds_cluster_config", "is missing");
            return;
        }
        service = SW_PB_SLICE(m->eds_cluster_config->service_name);
        sw_lint_ref(l, REF_ENDPOINTS, service.n ? service : SW_PB_SLICE(m->name),
                    "eds_cluster_config.service_name");
        if (m->load_assignment)
            sw_lint_error(l, "load_assignment", "is not for clusters with EDS");
        return;
    }
    if (m->eds_cluster_config)
        sw_lint_error(l, "eds_cluster_config", "is for clusters with EDS only");
    if (m->type >= SW__CLUSTER__DISCOVERY_TYPE__ORIGINAL_DST)
        return;
    if (!m->load_assignment)
        sw_lint_warn(l, "load_assignment", "is missing: there are no hosts");
    else if (m->type == SW__CLUSTER__DISCOVERY_TYPE__STATIC)
        check_static(l, m->load_assignment);
}

static void cluster(struct lint *l, const void *msg)
{
    const Sw__Cluster *m = msg;

    l->resolves = m->cluster_discovery_type_case == SW__CLUSTER__CLUSTER_DISCOVERY_TYPE_TYPE &&
                  m->type == SW__CLUSTER__DISCOVERY_TYPE__STRICT_DNS;
    check_discovery(l, m);
}

static void internal_upstream(struct lint *l, const void *msg)
{
    const Sw__InternalUpstreamTransport *m = msg;

    for (size_t i = 0; i < m->n_passthrough_metadata; i++) {
        const Sw__InternalUpstreamTransport__MetadataValueSource *s = m->passthrough_metadata[i];

        if (!s->kind || (s->kind->kind_case != SW__METADATA_KIND__KIND_HOST &&
                         s->kind->kind_case != SW__METADATA_KIND__KIND_CLUSTER))
            sw_lint_error(l, sw_arena_printf(&l->a, "passthrough_metadata[%zu]", i),
                          "only metadata of host or cluster passes");
    }
}

/* --- endpoints --- */

static void check_locality_weights(struct lint *l, const Sw__ClusterLoadAssignment *m)
{
    uint64_t sums[PRIORITIES_MAX + 1] = {0};

    for (size_t i = 0; i < m->n_endpoints; i++) {
        const Sw__LocalityLbEndpoints *e = m->endpoints[i];

        if (e->priority <= PRIORITIES_MAX && e->load_balancing_weight)
            sums[e->priority] += e->load_balancing_weight->value;
    }
    for (size_t i = 0; i <= PRIORITIES_MAX; i++) {
        if (sums[i] > UINT32_MAX)
            sw_lint_warn(l, "endpoints", "weights of priority %zu add up to too much", i);
    }
}

static void load_assignment(struct lint *l, const void *msg)
{
    const Sw__ClusterLoadAssignment *m = msg;

    check_locality_weights(l, m);
    if (sw_slice_eq_str(sw_slice_str(l->type), "ClusterLoadAssignment")) {
        l->resolves = false;
        check_static(l, m);
    }
}

/* Envoy takes it where it is to be resolved, and has one host less. */
static void no_host(struct lint *l, const char *field, const char *what)
{
    if (l->resolves)
        sw_lint_warn(l, field, "has no %s", what);
    else
        sw_lint_error(l, field, "has no %s", what);
}

static void locality(struct lint *l, const void *msg)
{
    const Sw__LocalityLbEndpoints *m = msg;
    uint64_t sum = 0;

    for (size_t i = 0; i < m->n_lb_endpoints; i++) {
        const Sw__LbEndpoint *e = m->lb_endpoints[i];
        const char *field = sw_arena_printf(&l->a, "lb_endpoints[%zu]", i);

        sum += e->load_balancing_weight ? e->load_balancing_weight->value : 1;
        if (e->host_identifier_case == SW__LB_ENDPOINT__HOST_IDENTIFIER__NOT_SET)
            no_host(l, field, "endpoint");
        else if (e->host_identifier_case == SW__LB_ENDPOINT__HOST_IDENTIFIER_ENDPOINT &&
                 !e->endpoint->address)
            no_host(l, field, "address");
    }
    if (sum > UINT32_MAX)
        sw_lint_warn(l, "lb_endpoints", "weights add up to too much");
}

const struct lint_rule sw_lint_cluster_rules[] = {
    {&sw__cluster__descriptor, cluster},
    {&sw__internal_upstream_transport__descriptor, internal_upstream},
    {&sw__cluster_load_assignment__descriptor, load_assignment},
    {&sw__locality_lb_endpoints__descriptor, locality},
    {NULL, NULL},
};
