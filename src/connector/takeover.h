/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taking over what belongs to another device that is offline: an HTTPProxy that goes to its
 * Connector, or the Connector itself. Needs the verb 'take-over' on the object, which the API
 * enforces (ValidatingAdmissionPolicies of control/connector/takeover.c); asked first, so that
 * nothing is touched half.
 */
#pragma once

#include "kube/client/client.h"

/* A SelfSubjectAccessReview. resource: "httpproxies" or "connectors". */
struct sw_kube_call *sw_takeover_ask(struct sw_kube_client *c, const char *resource,
                                     struct sw_slice ns, struct sw_slice name, sw_kube_cb cb,
                                     void *arg);
/* Whether its answer allows it. */
bool sw_takeover_allowed(const struct sw_kube_reply *r);
