/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the connector builds; see world.h. */
#pragma once

#include "control/connector/proxy_int.h"
#include "world.h"

/* The two builds. */
extern const struct both {
    const struct sw_control_kind *kinds;
    size_t n;
    void (*build)(const struct sw_view *v, const struct sw_connector_conf *c, struct sw_output *o);
} both[2];

struct builds {
    struct sw_output *out[2];
};

/* An empty world at noon. */
void world_begin(struct world *w);
struct builds build(struct world *w);
void builds_free(struct builds *b);
/* Does what is wanted. Returns how much there was to do. */
size_t obey(struct world *w, struct builds *b);
