/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cap on what BBR has under way. ngtcp2's keeps up to twice the product of bandwidth and delay
 * and 192 KB under way, whatever is lost: a queue of one product is full for ever, and who backs
 * off when packets are lost gets nothing. No I/O; the clock is the caller's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sw_qcap {
    uint64_t bytes;     /* under way at most; 0: no cap */
    uint64_t best;      /* the largest product of late */
    uint64_t round_ns;  /* begin of the present round trip; 0: none yet */
    uint64_t sent;      /* in it */
    uint64_t again;     /* in it, of what was lost */
    uint64_t peak;      /* under way in it, at most */
    uint64_t last_sent; /* of the one before */
    uint64_t last_peak;
    uint64_t calm_ns; /* no growth before that */
    uint8_t settling; /* round trips that show losses of what was sent before the last cut */
};

struct sw_qcap_path {
    uint64_t under_way;
    uint64_t rtt_ns;
    uint64_t min_rtt_ns;
    uint64_t product; /* bytes: the rate of delivery times the lowest round trip */
    uint64_t window;  /* of congestion control: a cap above it means nothing */
    uint64_t packet;  /* bytes of a large one */
};

/* A whole number of bytes of what a rate makes, 10^15 at most. */
uint64_t sw_qcap_bytes(double bytes);
/* Packets of n bytes went out; 'again' of them had been sent before. */
void sw_qcap_sent(struct sw_qcap *c, uint64_t n, uint64_t again);
/* Before a write pass. True: the cap was lowered. */
bool sw_qcap_look(struct sw_qcap *c, uint64_t now_ns, const struct sw_qcap_path *p);
/* As much is under way as may be. */
bool sw_qcap_reached(const struct sw_qcap *c, uint64_t under_way);
