/* SPDX-License-Identifier: Apache-2.0 */
/* The connectors' part of `spanwire control`: their controllers, and the CA of public names. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "opts/opts.h"

struct sw_connector_controller;
struct sw_control_connector;
struct sw_kube_client;
struct sw_metrics_shard;

struct sw_control_connector_opts {
    uint64_t lease;                  /* ns; how long a renewal of a Connector's Lease counts */
    const char *gateway_class;       /* of the Gateways made for HTTPProxies */
    const char *target_domain;       /* canonical names are below it */
    struct sw_opt_list gateway_ids;  /* NodeIDs of gateways besides those in the API */
    const char *relay_url;           /* what devices without a relay should use */
    bool certificates;               /* issue certificates for HTTPProxies */
    struct sw_opt_list cert_domains; /* for names of these domains, besides target_domain */
    bool envoy_gateway;              /* it serves the Gateways, by the extension server */
    bool patch_policies;             /* write EnvoyPatchPolicies */
    /* Not flags of their own: */
    const char *data;               /* directory; the CA is in its connect-ca */
    const char *gateway_controller; /* of the class, where that is missing */
    const char *device_ports;       /* "FIRST-LAST"; NULL: none */
    uint32_t port_offset;
    const char *lease_ns;  /* leader election; NULL: we are alone and lead */
    const char *identity;  /* in the lease; NULL: made up */
    bool dns;              /* keys are published: IrohDNSPublished is written */
    uint64_t dns_stale_ns; /* withdrawn when silent for so long */
};

/* Everything is borrowed and must outlive it, o included. NULL with what was wrong. */
SW_NODISCARD struct sw_control_connector *
sw_control_connector_new(struct sw_kube_client *client, struct sw_metrics_shard *metrics,
                         const struct sw_control_connector_opts *o, struct sw_err *err);
/* For sw_control_gateway_rules. */
struct sw_connector_controller *sw_control_connector_of(struct sw_control_connector *c);
/* Stops building and writing; done comes from the loop. */
void sw_control_connector_stop(struct sw_control_connector *c, void (*done)(void *arg), void *arg);
/* NULL is fine. */
void sw_control_connector_free(struct sw_control_connector *c);
