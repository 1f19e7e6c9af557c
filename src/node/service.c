/* SPDX-License-Identifier: Apache-2.0 */
#include "node/service.h"

const struct sw_membership *sw_workload_membership(const struct sw_workload *w,
                                                   const struct sw_service *svc)
{
    for (size_t i = 0; i < w->c->n_services; i++) {
        if (sw_slice_eq(w->c->services[i].hostname, svc->hostname) &&
            sw_slice_eq(w->c->services[i].ns, svc->ns))
            return &w->c->services[i];
    }
    return NULL;
}

static const struct sw_port_pair *find_port(const struct sw_port_pair *p, size_t n, uint16_t port)
{
    while (n) {
        size_t half = n / 2;

        if (p[half].service_port == port)
            return &p[half];
        if (p[half].service_port < port) {
            p += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return NULL;
}

uint16_t sw_workload_target_port(const struct sw_workload *w, const struct sw_service *svc,
                                 uint16_t service_port)
{
    const struct sw_membership *m = sw_workload_membership(w, svc);
    const struct sw_port_pair *p = m ? find_port(m->ports, m->n_ports, service_port) : NULL;

    return p ? p->target_port : 0;
}

bool sw_workload_in_service(const struct sw_workload *w, const struct sw_service *svc)
{
    return svc && sw_workload_membership(w, svc);
}

const struct sw_port_pair *sw_service_port(const struct sw_service *s, uint16_t service_port)
{
    return find_port(s->ports, s->n_ports, service_port);
}

const char *sw_lb_mode_name(enum sw_lb_mode mode)
{
    static const char *const names[] = {"Standard", "Strict", "Failover", "Passthrough"};

    return names[mode];
}

const char *sw_lb_scope_name(enum sw_lb_scope scope)
{
    static const char *const names[] = {"",     "Region",  "Zone",   "Subzone",
                                        "Node", "Cluster", "Network"};

    return names[scope];
}

bool sw_ip_family_allowed(enum sw_ip_families families, uint8_t family)
{
    return families == SW_FAMILIES_V4   ? family == 4
           : families == SW_FAMILIES_V6 ? family == 6
                                        : true;
}

const char *sw_ip_families_name(enum sw_ip_families f)
{
    static const char *const names[] = {"", "IPv4", "IPv6", "Dual"};

    return names[f];
}
