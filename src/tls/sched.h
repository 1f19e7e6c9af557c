/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expanded keys are a kilobyte each and cheap to make again, so connections keep only raw keys and
 * each thread keeps the expansions it used last, in a small table.
 */
#pragma once

#include <stdint.h>

#include "tls/crypto/aead.h"

enum { SW_SCHED_SLOTS = 64 };

/* A number no other connection of this process has. */
uint64_t sw_sched_new_id(void);

/*
 * The expansion of 'key', made now unless this thread still has it. (id, gen) names the key: id
 * from sw_sched_new_id times two plus the direction, gen changes with every key. Valid until the
 * next call on this thread.
 */
const struct sw_aead_sched *sw_sched_get(uint64_t id, uint32_t gen, enum sw_aead_alg alg,
                                         const uint8_t *key);

/* Overwrites this thread's expansion for id, if any: before a key is replaced or a connection
 * freed. */
void sw_sched_drop(uint64_t id);
