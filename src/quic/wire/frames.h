/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of an opened packet: what is looked at before ngtcp2 reads them. No I/O and no clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sw_qreader {
    const uint8_t *p;
    size_t n;
    size_t at;
};

/* Each is false when the bytes end before. */
bool sw_qread_skip(struct sw_qreader *r, uint64_t n);
bool sw_qread_varint(struct sw_qreader *r, uint64_t *ret); /* RFC 9000, 16 */
bool sw_qread_skip_varints(struct sw_qreader *r, uint64_t n);
/* What follows the type of a frame of RFC 9000 or 9221. False also: not one of them. */
bool sw_qread_skip_frame(struct sw_qreader *r, uint64_t type);

/*
 * The peer needs no packet in return but an acknowledgement, which may be late: these frames report
 * no loss, move no path and change no connection IDs.
 */
bool sw_qframes_allow_ack_delay(const uint8_t *p, size_t n);

/*
 * The connection IDs a peer gave (NEW_CONNECTION_ID), as far as ngtcp2 0.12 has to be kept from
 * aborting the process:
 *
 * - an ID below a Retire Prior To is retired each time it is named, the second time is fatal;
 * - a 17th retirement that is not acknowledged, caused by a packet of a new path, is fatal. Only
 *   the accepting side is at risk.
 */
struct sw_qids {
    uint64_t prior; /* the highest Retire Prior To */
    uint64_t top;   /* the highest number */
    uint64_t seen;  /* bit i: top - i */
    bool bounded;
    uint8_t budget; /* bounded: new ones that may come until all is acknowledged */
};

/* bounded: on the accepting side. */
void sw_qids_init(struct sw_qids *s, bool bounded);
/* The peer gave that one without naming it in a frame. */
void sw_qids_given(struct sw_qids *s, uint64_t seq);
/* The budget should be restored as soon as nothing is under way. */
bool sw_qids_short(const struct sw_qids *s);
/* All that was sent is acknowledged, retirements among it. */
void sw_qids_settled(struct sw_qids *s);
/*
 * Frames that must not be seen become PING and PADDING. False: more IDs than the budget allows; the
 * packet has to be dropped, and comes again. Frames that do not parse end the work; judging them is
 * ngtcp2's. s NULL: all IDs are blanked, for connections that never move.
 */
bool sw_qids_screen(struct sw_qids *s, uint8_t *p, size_t n);

/*
 * Acknowledgements, for the same reason: ngtcp2 0.12 forgets a packet when its acknowledgement was
 * acknowledged. When it has forgotten the newest one and the one before that arrives, it computes a
 * gap of -1 between them, which is fatal. Only packets that are late, or are not counted because
 * they have an error, which is so before the handshake, make it forget the newest one.
 */
struct sw_qacks {
    uint64_t next; /* one above the highest number under the application's keys */
    bool initial;  /* one was opened */
    bool handshake;
};

/* The number of a packet, by what its key's IV was combined with (RFC 9001, 5.3). */
enum { SW_QIV_LEN = 12 };
uint64_t sw_qnumber(const uint8_t iv[SW_QIV_LEN], const uint8_t nonce[SW_QIV_LEN]);
/* A packet of that number, under the application's keys: a late one does not acknowledge. */
void sw_qacks_screen(struct sw_qacks *s, uint64_t number, uint8_t *p, size_t n);
/* One with a long header, which begins with 'first': acknowledges when it is the first of its kind.
 */
void sw_qacks_screen_long(struct sw_qacks *s, uint8_t first, uint8_t *p, size_t n);
