/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to one server over one HTTP/2 connection: small bodies both ways, a deadline each. Calls
 * beyond what the server allows at once wait for their turn. Everything runs on the loop's thread.
 */
#pragma once

#include "http/h2origin.h"

struct sw_h2client;
struct sw_h2call;

enum { SW_H2CALL_FIELDS = 16 };

struct sw_h2call_opts {
    struct sw_slice method;
    struct sw_slice path;
    const struct sw_h2_header *fields; /* lower case, at most SW_H2CALL_FIELDS; copied */
    size_t n;
    struct sw_slice body; /* copied; empty: none */
    uint64_t timeout_ns;
    size_t max_body; /* of the answer: more fails the call with SW_ELIMIT */
    /* The head of the answer, for the call; may be NULL. */
    void (*on_head)(void *arg, const struct sw_h2_head *head);
    /*
     * The end, once, never from inside sw_h2call_start; the call is gone when it returns. SW_OK
     * with the whole body of an answer with any status; SW_ETIME; SW_ELIMIT; SW_ECLOSED: no
     * connection, or it was lost.
     */
    void (*on_done)(void *arg, int rc, struct sw_slice body, const struct sw_err *err);
    void *arg;
};

/* Options as for the origin; on_open and on_down are set here. NULL with SW_EINVAL. */
SW_NODISCARD struct sw_h2client *
sw_h2client_new(struct sw_loop *l, const struct sw_h2origin_opts *o, struct sw_err *err);
/* Calls get on_done. NULL is fine. Not from a callback. */
void sw_h2client_free(struct sw_h2client *c);
/* Calls from now on use it; those under way end on their connection. Not from a callback. */
void sw_h2client_set_cred(struct sw_h2client *c, struct sw_tls_cred *cred);
/* The same with the credential it has: for a connection that does not answer. */
void sw_h2client_retire(struct sw_h2client *c);
/* need_alpn: calls failed because the server does not agree on HTTP/2. */
bool sw_h2client_disagreed(const struct sw_h2client *c);
struct sw_h2call *sw_h2call_start(struct sw_h2client *c, const struct sw_h2call_opts *o);
/* No callback any more. */
void sw_h2call_cancel(struct sw_h2call *call);
