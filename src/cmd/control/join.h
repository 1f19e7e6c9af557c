/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joining, on the mesh's port of `spanwire control`: the records, the service, and the ConfigMap
 * 'spanwire-join' by which `spanwire token create` learns where machines join and whose root they
 * must find there.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"

struct sw_authority;
struct sw_caller;
struct sw_control_join;
struct sw_grpc_server;
struct sw_join_peers;
struct sw_kube_client;
struct sw_metrics_shard;

#define SW_CONTROL_JOIN_CONFIG    "spanwire-join"
#define SW_CONTROL_JOIN_SYSTEM_NS "spanwire-system"

/* Everything is borrowed. */
struct sw_control_join_opts {
    struct sw_authority *authority;
    struct sw_metrics_shard *metrics;  /* may be NULL */
    const struct sw_join_peers *peers; /* who signs for peers; NULL: they are refused */
    const char *address;               /* "HOST:PORT"; NULL: what is listened on */
    const char *system_ns;
    const char *cluster_id;
    void (*on_gone)(void *arg); /* a machine was removed */
    void *arg;
};

struct sw_control_join *sw_control_join_new(struct sw_kube_client *client,
                                            const struct sw_control_join_opts *o);
/* After the server. NULL is fine. */
void sw_control_join_free(struct sw_control_join *j);
/* The port is open at 'bound': joining is served there and made known. */
void sw_control_join_serve(struct sw_control_join *j, struct sw_grpc_server *g,
                           const struct sw_addr *bound);
/* The roots changed. */
void sw_control_join_roots(struct sw_control_join *j);

/*
 * Which node a machine's token is of (join may be NULL: none): SW_OK with its namespace and service
 * account, until the loop continues; SW_ENOENT: not a machine's; SW_EDENIED, also for machines that
 * are no nodes; SW_ETIME.
 */
SW_NODISCARD int sw_control_join_node(void *join, struct sw_slice token, struct sw_caller *ret,
                                      struct sw_err *err);
/* For an open stream: SW_OK, SW_ENOENT (not a machine's), or SW_EDENIED with the reason. */
SW_NODISCARD int sw_control_join_review(const struct sw_control_join *j, struct sw_slice token,
                                        struct sw_err *err);
