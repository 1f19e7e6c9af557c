/* SPDX-License-Identifier: Apache-2.0 */
/* TLS session tickets. */
#pragma once

#include "base/err.h"

struct Sw__DownstreamTlsContext;
struct sw_gw_build;
struct sw_gw_listener;
struct sw_gw_tls;

/* Reads the settings of session tickets; _seal_ adds the keys when all filter chains are built. */
SW_NODISCARD int sw_gw_build_tickets(struct sw_gw_build *b,
                                     const struct Sw__DownstreamTlsContext *in,
                                     struct sw_gw_tls *t);
SW_NODISCARD int sw_gw_seal_tickets(struct sw_gw_listener *l, struct sw_err *err);
