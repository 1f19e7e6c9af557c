/* SPDX-License-Identifier: Apache-2.0 */
/* TLS session tickets. */
#pragma once

#include "base/err.h"

struct Sw__DownstreamTlsContext;
struct sw_gw_build;
struct sw_gw_listener;
struct sw_gw_tls;

/* What is said of session tickets; then, when all chains are made, their keys. */
SW_NODISCARD int sw_gw_build_tickets(struct sw_gw_build *b,
                                     const struct Sw__DownstreamTlsContext *in,
                                     struct sw_gw_tls *t);
SW_NODISCARD int sw_gw_seal_tickets(struct sw_gw_listener *l, struct sw_err *err);
