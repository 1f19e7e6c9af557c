/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the exchange core share. Not for others. */
#pragma once

#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"

/*
 * Fields the edge adds or replaces: x-forwarded-*, x-request-id, via; removes x-envoy-* of
 * untrusted clients.
 */
void gw_clean_request(struct sw_exchange *x);
/* The request's id; one is made when it has none. */
struct sw_slice gw_request_id(struct sw_exchange *x);
/* date, server and whatever else a proxy adds to an answer. */
void gw_clean_response(struct sw_exchange *x);

/* ---- exchange.c ---- */
/* Gives up the connection, waited for or had, and the host, without a verdict on either. */
void gw_leave_upstream(struct sw_exchange *x);
void gw_finish(struct sw_exchange *x);
/* Picks a host and requests a connection to it. */
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

/* ---- exchange_host.c ---- */
/*
 * Chooses an upstream host for the next attempt (x->attempts counts them, from 1 here) and counts
 * it as active: x->host gets a reference. SW_ENOENT (no such cluster, nothing healthy) or SW_ELIMIT
 * (circuit limit) after setting x->flags and x->detail; *ret_status is the answer then.
 */
SW_NODISCARD int gw_pick_host(struct sw_exchange *x, int *ret_status);
/* The attempt at x->host is over: outlier detection, counters, the slots taken by pick. Drops the
 * reference and clears x->host. status: 0 without a response. */
void gw_host_done(struct sw_exchange *x, enum sw_gw_outcome how, int status);
/* May it be tried again after this end? Counts retries, budgets and limits; *ret_delay_ns: back-off
 * before. Called after gw_host_done, and before a status is passed on (SW_GW_STATUS). */
SW_NODISCARD bool gw_should_retry(struct sw_exchange *x, enum sw_gw_outcome how, int status,
                                  uint64_t *ret_delay_ns);
/* Gives the cluster's retry slot back, if x holds one. */
void gw_give_retry_slot(struct sw_exchange *x);

/* ---- exchange_mirror.c ---- */
/* Mirrors of x: get its body, the body's end, and its own end. Only with x->copies. */
void gw_mirror_data(struct sw_exchange *x, struct sw_slice data);
void gw_mirror_end(struct sw_exchange *x);
void gw_mirror_gone(struct sw_exchange *x);

/* ---- exchange_log.c ---- */
/* The exchange is over: access log, metrics. */
void gw_log_done(struct sw_exchange *x);
