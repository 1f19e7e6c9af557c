/* SPDX-License-Identifier: Apache-2.0 */
/* Who signs for peers that join: the authority of the fabric, where --link-fabric has its key. */
#pragma once

#include "base/err.h"
#include "opts/opts.h"

struct sw_control_link_opts;
struct sw_control_link_peers;
struct sw_join_peers;

/* o is borrowed. *ret NULL: there is no authority here. SW_EINVAL: a gateway is not HOST:PORT. */
SW_NODISCARD int sw_control_link_peers_new(const struct sw_control_link_opts *o,
                                           struct sw_control_link_peers **ret, struct sw_err *err);
/* NULL is fine. */
void sw_control_link_peers_free(struct sw_control_link_peers *p);
/* NULL for NULL. */
const struct sw_join_peers *sw_control_link_peers_hook(const struct sw_control_link_peers *p);
