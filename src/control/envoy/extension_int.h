/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the extension server share. Not for others. */
#pragma once

#include "control/envoy/extension.h"

struct Sw__Cluster;
struct Sw__PostTranslateModifyRequest;

bool sw_gwx_is_tunnel(const struct Sw__Cluster *c);
/* Clusters and routes of rules that have connectors behind them, changed in place. */
void sw_gwx_apply_rules(const struct sw_extension *x, struct sw_arena *a,
                        struct Sw__PostTranslateModifyRequest *in);
