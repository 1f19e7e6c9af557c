/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of the configuration for data planes that serve some Gateways only. Which there are is an
 * input of the build, a line each: "view NAME NS/GATEWAY NS/GATEWAY ...". Their resources are in
 * the same cache, under types that begin with the view's name (xds/cache.h).
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"
#include "control/gateway/model.h"
#include "control/gateway/xds/xds.h"

struct sw_xds_cache;

typedef void (*sw_plane_view_put)(void *arg, const char *type, struct sw_slice name,
                                  struct sw_slice value);

/*
 * Encodes every view that the input names, and hands its resources to put. Beside them goes one of
 * type NAME#SW_XDS_VIEW: the names of the endpoint sets it needs, a line each.
 */
void sw_plane_views_encode(const struct sw_model *m, const struct sw_model_xds_conf *conf,
                           struct sw_slice input, struct sw_arena *a, sw_plane_view_put put,
                           void *arg);

/* Forgets the endpoints of views that were and are not any more. */
void sw_plane_views_drop(struct sw_xds_cache *c, struct sw_slice before, struct sw_slice now);
/* Gives the views named in the input the endpoints they need, out of all that the cache has. */
void sw_plane_views_endpoints(struct sw_xds_cache *c, struct sw_slice input);
