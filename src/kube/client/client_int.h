/* SPDX-License-Identifier: Apache-2.0 */
/* What the client's files share. Not for others. */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "kube/client/client.h"
#include "kube/client/health.h"
#include "kube/client/transport.h"

struct sw_kube_client {
    struct sw_loop *loop;
    struct sw_kube_transport t;
    char *user_agent;
    size_t reply_max;
    size_t event_max;
    uint32_t tries;
    struct sw_list calls;
    struct sw_list watches;
    struct kube_health health;
    bool closing;
};

/* A request put into words: method, target, body; owned. */
struct kube_words {
    const char *method;
    const char *content_type; /* NULL: no body */
    struct sw_buf target;
    struct sw_buf body;
};

/* Extra query parameters of watches. */
struct kube_watch_params {
    bool bookmarks;
    bool initial;
    uint32_t timeout_s;
};

/* SW_EINVAL for names that would change the path, SW_ELIMIT for bodies too large. w NULL: no watch.
 */
SW_NODISCARD int kube_words_make(struct kube_words *words, const struct sw_kube_client *c,
                                 const struct sw_kube_req *req, const struct kube_watch_params *w,
                                 struct sw_err *err);
void kube_words_done(struct kube_words *words);

/* Starts the HTTP exchange; fills in credentials and the fields every request has. */
SW_NODISCARD struct sw_http_call *kube_send(struct sw_kube_client *c, const struct kube_words *w,
                                            struct sw_http_call_opts *o, struct sw_err *err);

/* Ends all watches with the given reason. */
void kube_watches_end(struct sw_kube_client *c, const struct sw_err *err);

/* Reads an answer of the given status. r->arena must be set; the body is borrowed for the call. */
void kube_reply_decode(struct sw_kube_reply *r, int code, struct sw_slice body);
/* The reply for a Status object (of an ERROR event). */
void kube_reply_from_status(struct sw_kube_reply *r, const struct sw_json *status);
/* The reply when there was no answer. */
void kube_reply_failed(struct sw_kube_reply *r, int rc, const struct sw_err *err);
