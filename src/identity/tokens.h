/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose service-account tokens these are, by TokenReview of a Kubernetes API, ours or another.
 * Answers are kept for a minute; the first to come with a token waits for one. Everything runs on
 * the loop of the client.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_kube_client;
struct sw_tokens;

/* Who has a token. */
struct sw_caller {
    struct sw_slice ns;
    struct sw_slice account;
    struct sw_slice pod; /* the token is bound to it; empty: to none */
    struct sw_slice pod_uid;
};

struct sw_tokens_opts {
    const char *audience; /* borrowed */
    uint64_t fresh_ns;    /* how long an answer counts [1 min] */
    /* An answer came: whoever got SW_EPENDING may ask again. changed: open streams may be
     * concerned.
     */
    void (*on_answer)(void *arg, bool changed);
    void *arg;
};

/* The client is borrowed and outlives it. */
struct sw_tokens *sw_tokens_new(struct sw_kube_client *client, const struct sw_tokens_opts *o);
/* NULL is fine. */
void sw_tokens_free(struct sw_tokens *t);
/*
 * SW_OK with *ret, until the loop continues; SW_EPENDING while it is reviewed; SW_EDENIED: unknown,
 * or for another audience; SW_ETIME: the API could not be asked.
 */
SW_NODISCARD int sw_tokens_check(struct sw_tokens *t, struct sw_slice token,
                                 const struct sw_caller **ret, struct sw_err *err);
/* Whose token it was when it was last found good; NULL: it never was. Until the loop continues. */
const struct sw_caller *sw_tokens_owner(const struct sw_tokens *t, struct sw_slice token);
/*
 * For a stream that is open: reviewed again unless that was just done. False with err: the token is
 * not good any more. True also while that is unknown.
 */
bool sw_tokens_still_good(struct sw_tokens *t, struct sw_slice token, struct sw_err *err);
