/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the exchange core share. Not for others. */
#pragma once

#include "gateway/exchange/exchange.h"
#include "gateway/worker/worker.h"

/* Fields the edge adds or replaces: x-forwarded-*, x-request-id, via; x-envoy-* of strangers go. */
void gw_clean_request(struct sw_exchange *x);
/* The request's id; one is made when it has none. */
struct sw_slice gw_request_id(struct sw_exchange *x);
/* date, server and whatever else a proxy adds to an answer. */
void gw_clean_response(struct sw_exchange *x);

/* ---- exchange.c ---- */
void gw_finish(struct sw_exchange *x);
/* Picks a host and asks for a connection to it. */
void gw_attempt(struct sw_exchange *x);
/* A deadline changed. */
void gw_arm(struct sw_exchange *x);
/* Head and, when it is all, end of the answer in x->resp go downstream. */
void gw_send_answer(struct sw_exchange *x, bool end);

/* ---- exchange_reply.c, exchange_page.c ---- */
/* The body of an answer of ours, as visitors see it; sets content-type and the like. */
struct sw_slice gw_page_body(struct sw_exchange *x, int status, struct sw_slice body);

/* ---- exchange_fail.c ---- */
/* Tries again after such an end, if it may. False: nothing was done. */
bool gw_retry(struct sw_exchange *x, enum sw_gw_outcome how, int status);
