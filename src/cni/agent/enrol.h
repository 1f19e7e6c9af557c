/* SPDX-License-Identifier: Apache-2.0 */
/* What a Pod and its Namespace say about the mesh: Istio's labels and annotations. No I/O. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "cni/redirect.h"
#include "io/addr.h"

enum { SW_ENROL_IPS_MAX = 16, SW_ENROL_PORTS_MAX = 64 };

#define SW_ENROL_ANNOTATION "ambient.istio.io/redirection"

/*
 * NULL when the pod belongs to the mesh, otherwise why it does not. Not: host network, injected
 * sidecar, an excluded namespace, the node proxy itself. It does by its label
 * istio.io/dataplane-mode=ambient, or by its namespace's unless its own says none.
 */
const char *sw_enrol_why_not(const struct sw_json *pod, const struct sw_json *ns,
                             const char *const *excluded, size_t n_excluded);
/* True when nothing but the label of its namespace decides. */
bool sw_enrol_up_to_namespace(const struct sw_json *pod, const char *const *excluded,
                              size_t n_excluded);
/* True when the namespace enrols the pods for which sw_enrol_up_to_namespace is true. */
bool sw_enrol_by_namespace(const struct sw_json *ns);
/*
 * True for the uid by which the runtime knows the pod: its own. A static pod has that of its file
 * there; the API shows a mirror of it, with a uid of its own and the other in an annotation.
 */
bool sw_enrol_has_uid(const struct sw_json *pod, struct sw_slice uid);
/* The second of them; empty: no static pod. Its cgroups have it too. */
struct sw_slice sw_enrol_static_uid(const struct sw_json *pod);
/* Phase Failed or Succeeded: nothing runs in it any more. */
bool sw_enrol_terminal(const struct sw_json *pod);
/* The annotation's value; empty: none. */
struct sw_slice sw_enrol_state(const struct sw_json *pod);
/* Addresses of the status, at most SW_ENROL_IPS_MAX. */
size_t sw_enrol_ips(const struct sw_json *pod, struct sw_ip *ret);
/* Service account, "default" where none is named. */
struct sw_slice sw_enrol_account(const struct sw_json *pod);
/*
 * Redirection as the pod's annotations want it, from the defaults in *r: dns-capture,
 * bypass-inbound-capture, reroute-virtual-interfaces (in the arena).
 */
void sw_enrol_redirect(const struct sw_json *pod, struct sw_arena *a, struct sw_redirect *r);
/* Ports the kubelet connects to: probes and life cycle hooks. At most SW_ENROL_PORTS_MAX. */
size_t sw_enrol_probe_ports(const struct sw_json *pod, uint16_t *ret);
