/* SPDX-License-Identifier: Apache-2.0 */
/* The key of tokens: Secret 'jwk', made when it is missing and restored when it is deleted. */
#pragma once

#include "base/slice.h"

struct sw_control_link_key;
struct sw_kube_client;

/* changed: 32 bytes or more; live for the call. */
SW_NODISCARD struct sw_control_link_key *
sw_control_link_key_new(struct sw_kube_client *client, const char *ns,
                        void (*changed)(void *arg, struct sw_slice key), void *arg);
/* NULL is fine. */
void sw_control_link_key_free(struct sw_control_link_key *k);
