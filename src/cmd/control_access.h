/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may use a URL, by the word of an API server elsewhere: tokens are reviewed there, and their
 * owners' rights. Answers are remembered for a while. A stream cannot wait for one: the first to
 * come with a token is sent away, and let in when it comes back a moment later.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

struct sw_kube_client;
struct sw_control_access;

/* path: a literal. The client is borrowed and must outlive it. */
struct sw_control_access *sw_control_access_new(struct sw_kube_client *client, const char *path);
/* NULL is fine. */
void sw_control_access_free(struct sw_control_access *a);
/* SW_OK, or SW_EDENIED and why: also while nobody knows yet. */
SW_NODISCARD int sw_control_access_check(struct sw_control_access *a, struct sw_slice token,
                                         struct sw_err *err);
