/* SPDX-License-Identifier: Apache-2.0 */
/* Clients by address: attributes of the pods behind them. Host-network addresses belong to no pod.
 */
#pragma once

#include "base/json.h"
#include "io/addr.h"
#include "policy/attr.h"

struct sw_link_pods;

/* changed: a pod that was used for a decision has other attributes, or is gone. */
SW_NODISCARD struct sw_link_pods *sw_link_pods_new(void (*changed)(void *arg), void *arg);
/* NULL is fine. */
void sw_link_pods_free(struct sw_link_pods *p);
/* A Pod object; only name, labels, service account and addresses are kept. */
void sw_link_pods_set(struct sw_link_pods *p, const struct sw_json *pod);
void sw_link_pods_del(struct sw_link_pods *p, struct sw_slice ns, struct sw_slice name);
/* Client attributes, and the pod counts as used; NULL: no pod has the address. */
const struct sw_attrs *sw_link_pods_find(struct sw_link_pods *p, struct sw_slice address);
