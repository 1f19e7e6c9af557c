/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Lease that shows that a device is alive: made by the controller, renewed by us for as long as
 * we run. Its holderIdentity names the process, so that a second one with the same key is detected
 * instead of both carrying half of the traffic.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "kube/client/client.h"

struct sw_hold;

/*
 * The API's clock as its answers show it. Times in a Lease are judged by the API's side, so ours
 * must not matter: it may be wrong, and it may be set while we run.
 */
struct sw_api_clock {
    bool known;
    int64_t ahead_ns; /* of the API's wall clock over our monotonic one */
};

/* An answer had Date date_s (0: none) and was under way from sent_ns to now_ns, monotonic. */
void sw_api_clock_note(struct sw_api_clock *c, uint64_t date_s, uint64_t sent_ns, uint64_t now_ns);
/*
 * The time there. Dates are whole seconds: when our own wall clock agrees with it to two of them,
 * or nothing is known, ours is taken for the finer one.
 */
uint64_t sw_api_clock_now(const struct sw_api_clock *c, uint64_t now_ns, uint64_t wall_ns);

struct sw_hold_opts {
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice identity; /* the same after a restart of the same installation */
    /* The result of every attempt: code as in sw_kube_reply, 0 without an answer. */
    void (*renewed)(void *arg, bool ok, int code, struct sw_slice message);
    /* The Lease does not exist (any more): nothing is tried until sw_hold_network_changed. */
    void (*gone)(void *arg);
    /* Another process holds the Lease and may be alive: we wait for it to expire or be renewed. */
    void (*foreign)(void *arg);
    /* Another process renews it: we stopped. holder lives for the call. */
    void (*taken)(void *arg, struct sw_slice holder);
    void *arg;
};

/* Starts at once. Texts are copied. */
SW_NODISCARD struct sw_hold *sw_hold_new(struct sw_kube_client *c, const struct sw_hold_opts *o);
/* NULL is fine. */
void sw_hold_free(struct sw_hold *h);
/* Renew now: after sleep, during which it may have run out, or when the network is back. */
void sw_hold_network_changed(struct sw_hold *h, bool slept);
/* The API works, it seems: a renewal that waits after a failure is tried now. */
void sw_hold_again(struct sw_hold *h);
/* The API is reachable again: a renewal that waits for its timer is sent now, due or not. */
void sw_hold_renew_now(struct sw_hold *h);
/* Stops and clears the holder, so that others need not wait; done comes from the loop. */
void sw_hold_release(struct sw_hold *h, void (*done)(void *arg), void *arg);
/* Confirmed and not expired since. */
bool sw_hold_live(const struct sw_hold *h);

/*
 * Does another process hold the lease, and was it renewed lately by the wall clock? Half a duration
 * more than it claims is allowed for clocks that differ.
 */
bool sw_hold_foreign(const struct sw_json *lease, struct sw_slice identity, uint64_t wall_ns);
/* leaseDurationSeconds, 30 when it makes no sense. */
uint32_t sw_hold_duration_s(const struct sw_json *lease);
/* Time to the next renewal: half the duration and up to a tenth more. */
uint64_t sw_hold_interval_ns(uint32_t duration_s, uint64_t random);
/*
 * Time to the next attempt after so many that failed in a row (1, 2, ...). An API that does not
 * answer is tried every few seconds for as long as it takes, because its return ends an outage for
 * us; one that refuses, ever more seldom. Never all devices at the same moment.
 */
uint64_t sw_hold_retry_ns(unsigned failures, uint32_t duration_s, bool answered, uint64_t random);
