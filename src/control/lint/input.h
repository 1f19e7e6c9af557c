/* SPDX-License-Identifier: Apache-2.0 */
/* Where the linter's resources come from: files, and servers. */
#pragma once

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/vec.h"
#include "control/gateway/xds/xds.h"

struct sw_tls_cred;

enum { SW_XDS_INPUT_MAX = 64 << 20 };

/* Zeroed: empty. Resources live in the arena. */
struct sw_xds_set {
    struct sw_arena arena;
    SW_VEC(struct sw_model_resource) list;
};

void sw_xds_set_done(struct sw_xds_set *s);

/*
 * Adds the resources of one file. Text is JSON or YAML: "resources" with a list of objects that
 * say their "@type", such a list alone, or one such object; several documents are fine. Otherwise
 * the bytes are an encoded DiscoveryResponse or DeltaDiscoveryResponse. SW_EINVAL, SW_EPROTO,
 * SW_ELIMIT; what was added before stays.
 */
SW_NODISCARD int sw_xds_set_add(struct sw_xds_set *s, struct sw_slice in, bool text,
                                struct sw_err *err);

/* Zero or NULL in a field means none. */
struct sw_xds_fetch {
    struct sw_slice host;
    uint16_t port;
    struct sw_tls_cred *cred; /* NULL: plain HTTP/2 */
    const char *token_file;
    struct sw_slice node_id;
    uint64_t timeout_ns;
};

/*
 * Subscribes to everything of the five types, delta and aggregated, and adds what comes. A type
 * that a server is silent about counts as empty once the others have come and a second passed.
 * SW_ETIME when no listeners and clusters come in time. Runs a loop of its own.
 */
SW_NODISCARD int sw_xds_set_fetch(struct sw_xds_set *s, const struct sw_xds_fetch *f,
                                  struct sw_err *err);
