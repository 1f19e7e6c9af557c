/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of gateways, from the Connector's annotation. Pure. */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "quic/path.h"
#include "quic/quic.h"

/* Of a Connector: "ID=ADDR[,ADDR...][;ID=...]". */
#define SW_CONNECTOR_GATEWAY_ADDRS "spanwire.dev/gateway-addresses"

struct sw_places {
    struct sw_quic_place p[SW_QUIC_PLACES_MAX];
    size_t n;
};

/*
 * Gateways take turns when there are too many addresses: each one's first comes before the second
 * of any. What is no address is left out; returns how many, with the reason of the last in err.
 */
SW_NODISCARD size_t sw_places_read(struct sw_slice text, struct sw_places *ret, struct sw_err *err);
