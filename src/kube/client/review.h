/* SPDX-License-Identifier: Apache-2.0 */
/* Reviews of an API, which store no object: whose a token is, and what a user may do. */
#pragma once

#include "kube/client/client.h"

/* A review object of a kind with an empty spec; both in the arena. */
struct sw_json *sw_kube_review_new(struct sw_arena *a, const struct sw_kube_gvr *gvr,
                                   struct sw_json **ret_spec);
/* A TokenReview. audience may be NULL: the API's own. As sw_kube_create. */
struct sw_kube_call *sw_kube_review_token(struct sw_kube_client *c, struct sw_slice token,
                                          const char *audience, sw_kube_cb cb, void *arg);
