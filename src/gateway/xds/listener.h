/* SPDX-License-Identifier: Apache-2.0 */
/* Listeners, compiled. */
#pragma once

#include "gateway/config/build.h"

struct Sw__Any;
struct Sw__Listener;

/* What a chain, or a listener for datagrams, ends in: listener_hcm.c, listener_l4.c. */
SW_NODISCARD int sw_gw_build_hcm(struct sw_gw_build *b, const struct Sw__Any *any,
                                 struct sw_gw_hcm *h);
SW_NODISCARD int sw_gw_build_tcp(struct sw_gw_build *b, const struct Sw__Any *any,
                                 struct sw_gw_tcp_proxy *t);
SW_NODISCARD int sw_gw_build_udp(struct sw_gw_build *b, const struct Sw__Listener *in,
                                 struct sw_gw_udp_proxy *u);

/* The object comes with one reference. */
struct sw_gw_listener *sw_gw_build_listener(struct sw_gw_build *b, struct sw_slice bytes);
