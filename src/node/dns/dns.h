/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The DNS proxy: answers the pods' questions for names of the mesh, and passes the others on to the
 * resolvers of resolv.conf, from inside the pod's namespace. A thread of its own, so that neither
 * traffic nor a change of the configuration delays an answer.
 */
#pragma once

#include "node/worker.h"

struct sw_dns_proxy;

/* What it starts with; borrowed for its life but for the state. */
struct sw_dns_proxy_setup {
    const struct sw_node_config *config;
    struct sw_crew *crew;
    struct sw_metrics *metrics;
    struct sw_state *state; /* a reference is taken */
    const char *group;      /* processes that may share the ports; NULL: none */
};

/* One more thread of the crew, without pods. NULL with err. */
SW_NODISCARD struct sw_dns_proxy *sw_dns_proxy_new(const struct sw_dns_proxy_setup *from,
                                                   struct sw_err *err);
/*
 * Opens the ports in the pod's namespace and serves them, from the start on or at once. Takes a
 * reference to the pod. SW_ESYS: a port cannot be had; the pod is not served then.
 */
SW_NODISCARD int sw_dns_proxy_add(struct sw_dns_proxy *p, struct sw_pod *pod, struct sw_err *err);
/* Ends everything of the pod at once: it is gone. One that is not served is no matter, nor NULL. */
void sw_dns_proxy_remove(struct sw_dns_proxy *p, const char *uid);
SW_NODISCARD int sw_dns_proxy_start(struct sw_dns_proxy *p, struct sw_err *err);
/* A message; takes over the reference. NULL for p is fine. */
void sw_dns_proxy_send_state(struct sw_dns_proxy *p, struct sw_state *state);
/* After sw_crew_end. NULL is fine. */
void sw_dns_proxy_free(struct sw_dns_proxy *p);
