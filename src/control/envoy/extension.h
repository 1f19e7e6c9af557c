/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The extension server that Envoy Gateway calls while it translates: the six hooks of
 * envoygateway.extension.EnvoyGatewayExtension on a gRPC server. With it an Envoy that Envoy
 * Gateway programs reaches connectors: clusters of such backends become tunnels, and the listener
 * and the cluster that tunnels need join the lists. Everything else goes back as it came.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "control/gateway/xds/xds.h"

struct sw_grpc_server;

/* What is known of a rule of an HTTPProxy (and so of the HTTPRoute of that name). */
enum sw_extension_rule_state {
    SW_EXTENSION_RULE_OTHER,   /* no connector is behind it */
    SW_EXTENSION_RULE_ONLINE,  /* its cluster becomes a tunnel */
    SW_EXTENSION_RULE_OFFLINE, /* its routes answer 503 */
};

/* In the arena. */
struct sw_extension_rule {
    struct sw_slice target;   /* "host:port" */
    struct sw_slice id;       /* the connector's */
    struct sw_slice tls_name; /* not empty: TLS inside the tunnel, to this name */
};

/* Everything is borrowed and must outlive the server. */
struct sw_extension {
    struct sw_model_xds_conf conf; /* address and protocol of the proxy of tunnels */
    /*
     * Whom and what a custom backend means: the object as Envoy Gateway sent it. True with the
     * target ("host:port") and the connector's id, in the arena. False: the cluster stays as it
     * is. NULL: no object is known.
     */
    bool (*resolve)(void *arg, const struct sw_json *object, struct sw_arena *a,
                    struct sw_slice *ret_target, struct sw_slice *ret_id);
    void *arg;
    /*
     * By namespace, name and index of a rule: what Envoy Gateway names the rule's cluster after.
     * NULL: none is known.
     */
    enum sw_extension_rule_state (*rule)(void *arg, struct sw_slice ns, struct sw_slice route,
                                         uint32_t index, struct sw_arena *a,
                                         struct sw_extension_rule *ret);
    void *rule_arg;
    /*
     * Listener and proxy cluster of tunnels are in the Envoys' bootstrap: to send them again would
     * make Envoy refuse everything.
     */
    bool static_parts;
};

/* Adds the methods of the hooks to a server. */
void sw_extension_serve(struct sw_grpc_server *s, struct sw_extension *x);

/* The hooks, by the last part of their path. */
enum sw_extension_hook {
    SW_EXTENSION_HOOK_ROUTE,
    SW_EXTENSION_HOOK_VHOST,
    SW_EXTENSION_HOOK_LISTENER,
    SW_EXTENSION_HOOK_CLUSTER,
    SW_EXTENSION_HOOK_ENDPOINTS,
    SW_EXTENSION_HOOK_TRANSLATE,
    SW_EXTENSION_HOOKS,
};

/*
 * The answer to one call, in the arena: for tests and for other carriers. SW_EPROTO or SW_ELIMIT
 * when the request is not such a message.
 */
SW_NODISCARD int sw_extension_call(const struct sw_extension *x, enum sw_extension_hook hook,
                                   struct sw_slice request, struct sw_arena *a,
                                   struct sw_slice *ret, struct sw_err *err);
