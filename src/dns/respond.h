/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions of an authoritative server: from one message to one answer, without I/O. Transfers
 * have a verdict of their own, for the server to carry out.
 */
#pragma once

#include "dns/tsig.h"
#include "dns/zone.h"

enum sw_dns_verdict {
    SW_DNS_DROP,     /* not a question, or too broken for an answer */
    SW_DNS_REPLY,    /* 'out' holds the answer */
    SW_DNS_TRANSFER, /* send the whole zone: see sw_dns_xfer_start */
};

struct sw_dns_request {
    struct sw_slice msg;
    bool tcp;
    bool may_transfer; /* the address alone allows it */
    const struct sw_dns_key *keys;
    size_t n_keys;
    bool key_transfers; /* a request signed with one of the keys may transfer */
    uint64_t now_s;     /* wall clock, for signatures */
};

struct sw_dns_reply {
    enum sw_dns_verdict verdict;
    unsigned rcode;      /* with the extended bits; for counters */
    size_t n;            /* bytes of the answer */
    const char *refused; /* why, for the log; NULL when it was not refused */
    /* For transfers, and for what else must be signed. */
    uint16_t id;
    struct sw_dns_question question;
    const struct sw_dns_key *key; /* NULL: unsigned */
    struct sw_dns_mac mac;
};

/* z may be NULL: every question is answered SERVFAIL. out: 65535 bytes. */
void sw_dns_respond(const struct sw_dns_zone *z, const struct sw_dns_request *req, uint8_t *out,
                    struct sw_dns_reply *ret);
/*
 * The shortest answer: the question with TC set, so that a genuine client retries over TCP. msg
 * must have led to an answer before. Returns the length.
 */
size_t sw_dns_slip(struct sw_slice msg, uint8_t *out, size_t cap);

/* ---- transfers ---- */

/* A transfer under way (AXFR, RFC 5936). Holds no reference: the caller does. */
struct sw_dns_xfer {
    const struct sw_dns_zone *zone;
    struct sw_dns_question question;
    uint16_t id;
    const struct sw_dns_key *key;
    struct sw_dns_tsig_ctx tsig;
    size_t set; /* next to send, and the record in it */
    size_t rr;
    bool begun;
    bool done;
};

void sw_dns_xfer_start(struct sw_dns_xfer *x, const struct sw_dns_zone *z,
                       const struct sw_dns_reply *r, uint64_t now_s);
/* The next message, at most cap bytes; 0 when all was sent. */
size_t sw_dns_xfer_next(struct sw_dns_xfer *x, uint8_t *out, size_t cap);
