/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message to one server and its answer: UDP from a port and with an id of its own, TCP when the
 * answer was truncated. For code that forwards messages unchanged.
 */
#pragma once

#include "base/slice.h"
#include "dns/wire.h"
#include "io/loop.h"
#include "io/sock.h"

struct sw_dns_exchange;

struct sw_dns_exchange_opts {
    struct sw_addr server;
    struct sw_slice msg; /* copied; its id is replaced on the wire */
    uint64_t timeout_ns; /* for all of it, TCP included */
    bool tcp;            /* no UDP first */
    struct sw_sock_opts sock;
};

/*
 * SW_OK with the answer, its id as in the message that was given (borrowed for the call); SW_ETIME;
 * SW_ECLOSED: unreachable or cut off; SW_EPROTO: nothing but strays; SW_ESYS.
 */
typedef void (*sw_dns_exchange_cb)(void *arg, int rc, struct sw_slice answer);

/*
 * Does the message answer the question: an answer, same opcode and, unless it reports an error or
 * answers no query, the same question? Ids are not compared.
 */
bool sw_dns_answers(struct sw_slice question, struct sw_slice msg);

/* The callback always comes, later, from the loop, unless cancelled. A message needs a header. */
struct sw_dns_exchange *sw_dns_exchange_start(struct sw_loop *l,
                                              const struct sw_dns_exchange_opts *o,
                                              sw_dns_exchange_cb cb, void *arg);
/* No callback will come. Only before it did; the pointer is invalid afterwards (as after it). */
void sw_dns_exchange_cancel(struct sw_dns_exchange *x);
