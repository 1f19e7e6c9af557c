/* SPDX-License-Identifier: Apache-2.0 */
/* Whose certificates a node needs, and which worker gets them. On the main thread. */
#pragma once

#include "node/main.h"

/* Has certificates of our pods, and of workloads recorded on this node, which may be ours soon. */
void node_want_identities(struct sw_node *n);
/* Gives every worker the credential of each pod that is up: of the identity the pod has now. */
void node_send_creds(struct sw_node *n, bool only_new);
/* Pods came or went: both of the above, from the loop. */
void node_pods_changed(struct sw_node *n);
/* The callback of the certificates: a credential, or why there is none; arg is the node. */
void node_take_cred(void *arg, struct sw_slice identity, struct sw_tls_cred *cred,
                    const char *error);
/* The workers' callback: a connection waits for the certificate of the pod, which is given up. */
void node_need_cred(void *arg, struct sw_pod *pod);
