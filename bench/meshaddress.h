/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources of a mesh as src/control/mesh makes them of a cluster of ordinary shape, that of
 * meshbuild.c: 30 pods a node, 10 a Deployment, a Service for each, 50 Deployments a namespace.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct sw_xds_cache;

/* Puts so many workloads, and the services they are of, into the cache. */
SW_NODISCARD int mesh_address_fill(struct sw_xds_cache *cache, size_t workloads);
