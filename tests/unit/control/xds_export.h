/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of tests as files, for checks with other implementations. */
#pragma once

#include "control/gateway/xds/xds.h"

/* One DiscoveryResponse per type, as a server would send it: DIR/NAME.TYPE.pb. */
void xds_export(const char *dir, const char *name, const struct sw_model_resources *r);
