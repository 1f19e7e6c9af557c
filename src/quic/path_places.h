/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places where the peer of a connection may be: those it named, and those its pings came from.
 * What is known of each, and which one is the best. No I/O and no clock.
 */
#pragma once

#include "quic/core.h"
#include "quic/path_int.h"

enum {
    PLACE_PINGS = 9,                    /* to each, in a round */
    PLACES_MAX = SW_QUIC_ADDRS_MAX + 8, /* named ones, and those that pings came from */
};

/* Round trips have to differ by that much for a move from one direct path to another. */
#define PLACE_GAIN_NS  (5 * UINT64_C(1000000))
#define PLACE_FRESH_NS (5 * UINT64_C(1000000000)) /* an answer counts so long */

struct sw_qplace {
    struct sw_qroute route;
    uint8_t tx[PROBE_TX]; /* of this round; the last byte counts pings */
    uint64_t sent_ns[PLACE_PINGS];
    uint8_t sent;
    uint64_t next_ns; /* UINT64_MAX: no more */
    uint64_t rtt_ns;  /* 0: has not answered */
    uint64_t heard_ns;
    uint64_t barred_ns; /* not to be used before */
    uint64_t since_ns;  /* known */
    struct sw_qbucket pongs;
};

struct sw_qplaces {
    struct sw_qplace at[PLACES_MAX];
    size_t n;
    size_t named; /* of them: the first ones */
    uint64_t moved_ns;
};

/* NULL: not known. */
struct sw_qplace *sw_qplaces_find(struct sw_qplaces *s, const struct sw_qroute *at);
/* The peer's new list, each place once. Known ones keep what is known of them, others go. */
void sw_qplaces_name(struct sw_qplaces *s, const struct sw_qroute *routes, size_t n);
/*
 * A ping came from there. When the table is full, the oldest of the places that were found this way
 * and never answered makes room. NULL: there is none.
 */
struct sw_qplace *sw_qplaces_learn(struct sw_qplaces *s, const struct sw_qroute *from,
                                   uint64_t now_ns);
/* A round of pings begins. */
void sw_qplace_begin(struct sw_qplace *k, uint64_t now_ns);
/* A pong came from there; false: to no ping of this round. */
bool sw_qplace_answered(struct sw_qplace *k, const uint8_t tx[PROBE_TX], uint64_t now_ns);

struct sw_qplaces_now {
    const struct sw_qroute *on; /* the direct route in use; NULL: a relay */
    bool urgent;                /* that one is silent, any other will do */
    uint64_t heard_ns;          /* the peer, by the path in use */
    uint64_t now_ns;
};

/* The route to go to; NULL: stay. */
const struct sw_qroute *sw_qplaces_best(struct sw_qplaces *s, const struct sw_qplaces_now *now);
