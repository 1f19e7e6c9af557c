/* SPDX-License-Identifier: Apache-2.0 */
/* A service as a snapshot holds it: addresses, ports, endpoints and how to choose among them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/workload.h"

enum sw_lb_mode {
    SW_LB_STANDARD = 0, /* any endpoint */
    SW_LB_STRICT = 1,
    SW_LB_FAILOVER = 2,
    SW_LB_PASSTHROUGH = 3,
};

enum sw_lb_scope {
    SW_LB_REGION = 1,
    SW_LB_ZONE = 2,
    SW_LB_SUBZONE = 3,
    SW_LB_NODE = 4,
    SW_LB_CLUSTER = 5,
    SW_LB_NETWORK = 6,
};

enum sw_ip_families {
    SW_FAMILIES_AUTO = 0,
    SW_FAMILIES_V4 = 1,
    SW_FAMILIES_V6 = 2,
    SW_FAMILIES_DUAL = 3,
};

struct sw_network_addr {
    struct sw_slice network;
    struct sw_ip ip;
};

struct sw_network_cidr {
    struct sw_slice network;
    struct sw_cidr cidr;
};

struct sw_weighted_waypoint {
    struct sw_gateway_addr to;
    uint32_t weight;
};

enum { SW_LB_SCOPES_MAX = 8 };

struct sw_service {
    struct sw_slice name;
    struct sw_slice ns;
    struct sw_slice hostname;
    struct sw_slice version; /* of the resource it came from; empty: none */
    const struct sw_network_addr *vips;
    const struct sw_network_cidr *cidr_vips;
    const struct sw_port_pair *ports;       /* sorted by service_port */
    const struct sw_slice *sans;            /* only those that are SPIFFE names */
    const struct sw_gateway_addr *waypoint; /* or NULL */
    const struct sw_weighted_waypoint *weighted;
    const struct sw_workload *const *endpoints; /* usable ones only */
    uint32_t n_ports;
    uint32_t n_sans;
    uint32_t n_weighted;
    uint32_t n_endpoints;
    uint16_t n_vips;
    uint16_t n_cidr_vips;
    uint8_t prefs[SW_LB_SCOPES_MAX]; /* enum sw_lb_scope */
    uint8_t n_prefs;
    enum sw_lb_mode mode : 8;
    enum sw_ip_families families : 8;
    bool allow_unhealthy : 1; /* health_policy ALLOW_ALL */
    bool canonical : 1;
    bool namespace_only : 1; /* visibility NAMESPACE */
    bool uniform : 1;        /* every endpoint has an IP and capacity 1: choose by index */
};

/* May a client of this namespace use it? */
static inline bool sw_service_visible(const struct sw_service *s, struct sw_slice client_ns)
{
    return !s->namespace_only || sw_slice_eq(s->ns, client_ns);
}

/* Weights that are all zero count as none. */
static inline bool sw_service_has_waypoint(const struct sw_service *s)
{
    for (size_t i = 0; i < s->n_weighted; i++) {
        if (s->weighted[i].weight)
            return true;
    }
    return s->waypoint != NULL;
}

/* Target port this workload maps the service's port to; 0 when it maps none. */
uint16_t sw_workload_target_port(const struct sw_workload *w, const struct sw_service *svc,
                                 uint16_t service_port);
/* True when the workload lists the service, healthy or not. svc may be NULL. */
bool sw_workload_in_service(const struct sw_workload *w, const struct sw_service *svc);
/* What the workload says of its part in the service; NULL: it has none. */
const struct sw_membership *sw_workload_membership(const struct sw_workload *w,
                                                   const struct sw_service *svc);
/* The declared port, or NULL. */
const struct sw_port_pair *sw_service_port(const struct sw_service *s, uint16_t service_port);
const char *sw_lb_mode_name(enum sw_lb_mode mode);    /* as in the local file: "Standard" ... */
const char *sw_lb_scope_name(enum sw_lb_scope scope); /* "Region" ... */
bool sw_ip_family_allowed(enum sw_ip_families families, uint8_t family);
const char *sw_ip_families_name(enum sw_ip_families f); /* "IPv4", "IPv6", "Dual", "" for auto */
