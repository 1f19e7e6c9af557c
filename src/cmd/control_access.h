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

/* path: a literal; fresh_ns: how long an answer counts as new. The client is borrowed and must
 * outlive it. */
struct sw_control_access *sw_control_access_new(struct sw_kube_client *client, const char *path,
                                                uint64_t fresh_ns);
/* NULL is fine. */
void sw_control_access_free(struct sw_control_access *a);
/*
 * Called when an answer came, from the loop: a caller that got SW_EAGAIN may ask again. lost:
 * the token of a stream that may be open is not good any more.
 */
void sw_control_access_on_answer(struct sw_control_access *a, void (*cb)(void *arg, bool lost),
                                 void *arg);
/* SW_OK; SW_EDENIED and why; SW_EAGAIN while it is reviewed. */
SW_NODISCARD int sw_control_access_check(struct sw_control_access *a, struct sw_slice token,
                                         struct sw_err *err);
/*
 * True, and why, when the newest answer about a token that was good before is a no. Asks again
 * unless that answer is new; on_answer tells when it is another. False while nobody can be asked.
 */
bool sw_control_access_revoked(struct sw_control_access *a, struct sw_slice token,
                               struct sw_err *err);
