/* SPDX-License-Identifier: Apache-2.0 */
/* 15080: SOCKS5 for programs on the same host. */
#pragma once

#include "node/worker.h"

/* Takes a connection of a client; what it asks for is an outbound connection of the pod. */
void sw_socks5_accept(struct sw_wpod *p, int fd, const struct sw_addr *peer);
