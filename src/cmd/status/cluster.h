/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `spanwire status` where the API server is not ours: Gateways are read from the API, and the pods
 * of `spanwire control` are asked through the API server's proxy, one by one.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "cmd/api.h"

/*
 * The status: "gateways", "replicas" with what each answered or an "error", and their "clients"
 * together, as in /debug/xds. In the arena of the client. NULL: neither Gateways nor pods could be
 * read, see err. ns: of the pods; timeout_ns: of each request.
 */
struct sw_json *sw_status_cluster(struct sw_cmd_api *api, const char *ns, uint64_t timeout_ns,
                                  struct sw_err *err);
