/* SPDX-License-Identifier: Apache-2.0 */
/* 15006: plaintext that was on its way to the pod. */
#pragma once

#include "node/worker.h"

/* Takes a connection that was redirected for the pod. */
void sw_plain_accept(struct sw_wpod *p, int fd, const struct sw_addr *peer);
