/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `spanwire status` where the API server is not ours: Gateways are read from the API, and the pods
 * of `spanwire control` are asked through the API server's proxy, one by one.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/json.h"

struct sw_kube_client;

/*
 * The status, for the call: "gateways", "replicas" with what each answered or an "error", and their
 * "clients" together, as in /debug/xds. NULL: neither Gateways nor pods could be read, see err.
 */
typedef void (*sw_status_cb)(void *arg, const struct sw_json *status, const struct sw_err *err);

/* ns: of the pods. cb comes once, from the loop; everything is borrowed until then. */
void sw_status_cluster(struct sw_kube_client *c, const char *ns, uint64_t timeout_ns,
                       sw_status_cb cb, void *arg);
