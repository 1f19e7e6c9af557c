/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which relay a URL names: scheme, host and port. The path is never used, so two URLs that differ
 * in nothing else name the same relay.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

enum {
    SW_RELAY_HOST_MAX = 256,
    SW_RELAY_AUTHORITY_MAX = SW_RELAY_HOST_MAX + 16, /* with brackets and port */
};

struct sw_relay_url {
    char host[SW_RELAY_HOST_MAX];           /* lower case, without brackets and final dot */
    char authority[SW_RELAY_AUTHORITY_MAX]; /* as written, for the field Host */
    uint16_t port;
    bool tls;
};

/* http, ws (plain), https, wss (TLS). Refuses userinfo, a bad host or port: SW_EINVAL. */
SW_NODISCARD int sw_relay_url_parse(struct sw_slice url, struct sw_relay_url *ret,
                                    struct sw_err *err);
/* Same kind of transport, host and port. */
bool sw_relay_url_same(const struct sw_relay_url *a, const struct sw_relay_url *b);
/* As above, for texts; false when one of them is no URL of a relay. */
bool sw_relay_url_same_text(struct sw_slice a, struct sw_slice b);
/* A literal loopback address. "localhost" is a name, and others may say what it stands for. */
bool sw_relay_url_loopback(const struct sw_relay_url *u);
