/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connector controllers: Connectors and their Leases, ConnectorAdvertisements, HTTPProxies, and
 * the certificates that HTTPProxies need. All they do shows in the API; data planes get it through
 * the gateway controller.
 */
#pragma once

#include "control/connector/connector.h"
#include "control/envoy/extension.h"
#include "kube/client/client.h"

struct sw_ca;
struct sw_metrics_shard;
struct sw_connector_controller;

struct sw_connector_controller_opts {
    struct sw_connector_conf conf; /* what it points to is borrowed for the controller's life */
    const struct sw_ca *ca;        /* borrowed; issues certificates. NULL: conf.issuer is empty */
    struct sw_metrics_shard *metrics; /* borrowed, of the loop's thread; may be NULL */
    bool threaded;                    /* build on threads of their own */
    struct sw_control_election election;
};

/* NULL with SW_EINVAL, SW_ESYS. */
SW_NODISCARD struct sw_connector_controller *
sw_connector_controller_new(struct sw_kube_client *c, const struct sw_connector_controller_opts *o,
                            struct sw_err *err);
/* NULL is fine. */
void sw_connector_controller_free(struct sw_connector_controller *c);
void sw_connector_controller_start(struct sw_connector_controller *c);
/* Gives the leases back; done (may be NULL) comes from the loop. */
void sw_connector_controller_stop(struct sw_connector_controller *c, void (*done)(void *arg),
                                  void *arg);
/* True when nothing is left to do: built, written, and no certificate is due. */

/* For struct sw_extension: what rules of HTTPProxies mean, and what Connectors do. */
enum sw_extension_rule_state sw_connector_controller_rule(void *controller, struct sw_slice ns,
                                                          struct sw_slice proxy, uint32_t index,
                                                          struct sw_arena *a,
                                                          struct sw_extension_rule *ret);
/*
 * A Connector as Envoy Gateway sent it: one that the controller has as online, with a target
 * ("host:port") in its annotation SW_CONNECTOR_DIAL.
 */
bool sw_connector_resolve(void *controller, const struct sw_json *object, struct sw_arena *a,
                          struct sw_slice *ret_target, struct sw_slice *ret_id);
