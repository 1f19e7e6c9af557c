/* SPDX-License-Identifier: Apache-2.0 */
/* `spanwire status links`: peers, imports and exports, and what their conditions say. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "cmd/api.h"

/* Prints tables, or the objects as JSON. *ret_good: every condition of every object is True. */
SW_NODISCARD int sw_status_links(struct sw_cmd_api *api, uint64_t timeout_ns, bool json,
                                 bool *ret_good, struct sw_err *err);
