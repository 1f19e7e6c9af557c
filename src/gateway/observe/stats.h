/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the gateway counts: per listener on the worker that served, per cluster from the cells the
 * workers write anyway. Names of listeners and clusters are the only labels from outside, and their
 * number is bounded: further ones are counted under 'overflow'.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_addr;
struct sw_gw_lstats;
struct sw_gw_worker;

/* The counters of a listener on this worker; live as long as the worker. Never NULL. */
struct sw_gw_lstats *sw_gw_lstats(struct sw_gw_worker *w, struct sw_slice listener);
/* Frees those of a worker, before its shard. */
void sw_gw_lstats_done(struct sw_gw_worker *w);
/* One connection more (1) or less (-1). NULL is fine, here and below. */
void sw_gw_lstats_conn(struct sw_gw_lstats *s, int by);
/* A handshake failed; the reason follows from err. */
void sw_gw_lstats_tls_failed(struct sw_gw_lstats *s, const struct sw_err *err);
/* The same for a reason of ours, a short static text. */
void sw_gw_lstats_tls_refused(struct sw_gw_lstats *s, const char *reason);
/* A connection was not served at all; a short static text. */
void sw_gw_lstats_refused(struct sw_gw_lstats *s, const char *reason);
/* A request that never became an exchange was answered; a short static text. */
void sw_gw_lstats_early_reply(struct sw_gw_lstats *s, int status, const char *reason);
/* An exchange is over. status 0: without an answer; detail: of one made here, a static text. */
void sw_gw_lstats_request(struct sw_gw_lstats *s, int status, uint64_t start_ns,
                          const char *detail);
/* True when a refusal may be logged: at most one line in a few seconds per listener and worker. */
bool sw_gw_lstats_may_log(struct sw_gw_lstats *s);
/*
 * Logs that something of this client was refused, and why: at most one line in a few seconds per
 * listener, worker and reason (a static text), so that no flood hides another refusal.
 */
void sw_gw_lstats_log_refusal(struct sw_gw_lstats *s, const char *reason,
                              const struct sw_addr *peer, const char *why);
