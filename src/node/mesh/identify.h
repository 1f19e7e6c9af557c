/* SPDX-License-Identifier: Apache-2.0 */
/* What a node says of itself to the control plane, as ztunnel does. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "node/config.h"

/* "ztunnel~IP~POD.NAMESPACE~NAMESPACE.svc.cluster.local". */
struct sw_slice sw_mesh_node_id(const struct sw_node_config *c, struct sw_arena *a);
/*
 * The node's metadata as an encoded google.protobuf.Struct: names, PROXY_CONFIG's proxyMetadata,
 * ISTIO_META_name as text, ISTIO_METAJSON_name as JSON. 'env' is the environment, NULL at its end.
 * SW_EINVAL: one of the last is not JSON.
 */
SW_NODISCARD int sw_mesh_node_metadata(const struct sw_node_config *c, char *const *env,
                                       struct sw_arena *a, struct sw_slice *ret,
                                       struct sw_err *err);
