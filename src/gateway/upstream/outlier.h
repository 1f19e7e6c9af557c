/* SPDX-License-Identifier: Apache-2.0 */
/* Members that fail too often are ejected for a while. */
#pragma once

#include "gateway/upstream/host.h"

/* Counts a result against the member and ejects it when it is time. */
void sw_gw_outlier_report(const struct sw_gw_cluster *c, struct sw_gw_member *m,
                          enum sw_gw_result how, int status, uint64_t now_ns);
/* Lets members back whose time has passed. True when some are still out. */
bool sw_gw_outlier_sweep(const struct sw_gw_cluster *c, uint64_t now_ns);
