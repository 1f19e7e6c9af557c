/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may use a URL, by the word of an API server elsewhere: tokens are reviewed there, and their
 * owners' rights. Answers are remembered for a while; the first to come with a token waits for one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_kube_client;
struct sw_control_access;

/* fresh_ns: how long an answer counts as new. The client is borrowed and must outlive it. */
struct sw_control_access *sw_control_access_new(struct sw_kube_client *client, uint64_t fresh_ns);
/* NULL is fine. */
void sw_control_access_free(struct sw_control_access *a);
/*
 * Called when an answer came, from the loop: a caller that got SW_EPENDING may ask again. changed:
 * it may matter to streams that are open.
 */
void sw_control_access_on_answer(struct sw_control_access *a, void (*cb)(void *arg, bool changed),
                                 void *arg);
/*
 * May the owner of the token get this URL? SW_OK; SW_EDENIED: the token is unknown, or no API could
 * be asked; SW_ENOENT: not permitted; SW_EPENDING while it is reviewed.
 */
SW_NODISCARD int sw_control_access_check(struct sw_control_access *a, struct sw_slice token,
                                         struct sw_slice path, struct sw_err *err);
/*
 * The same for a stream that is open: asks again unless the newest answer is new, and answers by
 * that one meanwhile. SW_EPENDING while it is unknown: what was admitted stays.
 */
SW_NODISCARD int sw_control_access_review(struct sw_control_access *a, struct sw_slice token,
                                          struct sw_slice path, struct sw_err *err);
