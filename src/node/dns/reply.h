/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the DNS proxy: what to do with a request, and the answers, as bytes. No I/O, no
 * clock. Nothing of a request but its id, flags, question and EDNS is believed.
 */
#pragma once

#include "dns/wire.h"
#include "node/dns/find.h"

enum sw_dnsp_verdict {
    SW_DNSP_DROP,    /* no DNS request at all: no answer */
    SW_DNSP_REPLY,   /* the answer is in 'out' */
    SW_DNSP_FORWARD, /* for the resolver behind us */
};

enum {
    SW_DNSP_TTL_S = 30,
    SW_DNSP_UDP_MOST = 4096, /* of our own answers, however much the client would take */
};

struct sw_dnsp_request {
    struct sw_slice msg;
    bool tcp;
    const struct sw_state *state;
    const struct sw_dnsp_env *env;
    const struct sw_workload *client; /* NULL: not known yet */
};

struct sw_dnsp_reply {
    enum sw_dnsp_verdict verdict;
    size_t n;           /* bytes of the answer */
    unsigned rcode;     /* of the answer */
    size_t n_addresses; /* in it */
    uint16_t id;        /* of the request, as are the next ones */
    uint16_t type;      /* of the question; 0: none was read */
    uint8_t opcode;
    size_t limit;                /* bytes the client takes by this transport */
    char name[SW_DNS_NAME_TEXT]; /* of the question, for logs; "": none */
};

/* out: SW_DNS_MSG_MAX bytes. */
void sw_dnsp_respond(const struct sw_dnsp_request *req, uint8_t *out, struct sw_dnsp_reply *ret);

/*
 * An answer of the resolver for the client that asked 'msg': passed on as it is, but for the id and
 * the AA flag of queries; one longer than the limit becomes the question with TC set. Returns the
 * length, 0 when it is unknown.
 */
size_t sw_dnsp_pass_on(const struct sw_dnsp_reply *asked, struct sw_slice msg,
                       struct sw_slice answer, uint8_t *out);
/* The question with an error code. Returns the length. */
size_t sw_dnsp_error(struct sw_slice msg, unsigned rcode, uint8_t *out);
/* "A", "AAAA", ...: a fixed set, "other" for the rest. */
const char *sw_dnsp_type_text(uint16_t type);
