/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "gateway/config/routes.h"
#include "gateway/exchange/exchange.h"

/* True when the policy covers this end of an attempt. */
bool sw_gw_retry_wants(const struct sw_gw_retry *r, enum sw_gw_outcome how, int status,
                       const struct sw_gw_response *resp);
/* Random below base * 2^(n-1), at most max; n counts from 1. */
uint64_t sw_gw_retry_delay(const struct sw_gw_retry *r, unsigned n, uint64_t rnd);
