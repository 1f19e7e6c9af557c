/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of outside authorisation. */
#pragma once

#include "base/buf.h"
#include "base/time.h"
#include "gateway/exchange/state.h"
#include "gateway/filter/authz.h"

enum { ANSWER_MAX = 256 * 1024, BODY_MAX = 1024 * 1024 };
#define BODY_WAIT_NS (300 * SW_NS_PER_S)

enum authz_verdict { AUTHZ_FAILED, AUTHZ_OK, AUTHZ_DENIED };

struct authz_change {
    enum { CHANGE_SET, CHANGE_ADD, CHANGE_ADD_NEW, CHANGE_SET_OLD, CHANGE_REMOVE } how;
    struct sw_slice name;
    struct sw_slice value;
};

/* Of an exchange that waits, or waited; in its arena. */
struct sw_gw_authz_state {
    struct sw_exchange *x;
    struct sw_gw_authz_state *before; /* of a filter that ran before; NULL: none */
    struct sw_exchange *sub;          /* the check request; NULL: not sent, or answered */
    const struct sw_gw_authz *filter;
    const struct sw_gw_authz *route; /* NULL: none */
    const struct sw_gw_authz_service *service;
    const struct sw_gw_names *shown;
    struct sw_gw_authz_body body;
    bool open;  /* no judgement yet */
    bool asked; /* the question is on its way */
    bool whole; /* the answer came to its end */
    bool cut;   /* it is too long */
    struct sw_buf answer;
    struct sw_defer defer;
    struct sw_timer timer; /* for a body that does not come */
    /* The answer, all of it in x's arena. */
    enum authz_verdict verdict;
    uint16_t status;              /* DENIED */
    struct sw_slice text;         /* DENIED */
    struct sw_gw_fields client;   /* DENIED: fields of the answer */
    struct authz_change *changes; /* OK: of the request, in order */
    size_t n_changes;
    struct sw_gw_fields response; /* OK: fields to add */
};

/* ---- authz_talk.c ---- */

/* Fill the head of m; return the body, in m's arena. */
struct sw_slice authz_http_question(struct sw_gw_authz_state *s, struct sw_exchange *m);
struct sw_slice authz_grpc_question(struct sw_gw_authz_state *s, struct sw_exchange *m);
/* Reads m's answer, which came whole, into s. */
void authz_read_answer(struct sw_gw_authz_state *s, struct sw_exchange *m);
void authz_change_request(struct sw_gw_authz_state *s);
