/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TCP connections of a DNS server: messages with their lengths, bounded buffers, back-pressure,
 * idle times. What a message means is its user's business.
 */
#pragma once

#include "base/buf.h"
#include "base/list.h"
#include "io/loop.h"

struct sw_dns_tcp;

struct sw_dns_tcp_ops {
    /*
     * One whole message, which may be answered at once, later (sw_dns_tcp.pending counts those) or
     * by closing the connection. False: this is no DNS client, nothing more is read.
     */
    bool (*on_message)(struct sw_dns_tcp *c, struct sw_slice msg);
    /* Queues output that is not an answer to the next message, a zone transfer. True: there is
     * more. NULL: there is none. */
    bool (*fill)(struct sw_dns_tcp *c);
    void (*on_close)(struct sw_dns_tcp *c, bool idle); /* it is off the list already */
    void (*free)(struct sw_dns_tcp *c);                /* from the loop, after on_close */
};

/* The connections of one server. */
struct sw_dns_tcp_set {
    struct sw_loop *loop; /* borrowed */
    const struct sw_dns_tcp_ops *ops;
    uint64_t idle_ns;    /* no progress for so long ends a connection */
    size_t max_pending;  /* answers to come, of one connection; 0: all come at once */
    struct sw_list list; /* idle for longest first */
    size_t n;
};

/* Part of its user's connection; the user sets 'pending'. */
struct sw_dns_tcp {
    struct sw_list link;
    struct sw_dns_tcp_set *set;
    int fd; /* -1: closed */
    struct sw_watch watch;
    struct sw_timer idle;
    struct sw_buf in;
    struct sw_buf out;
    size_t pending; /* answers to come: neither idle nor ended by the client's end of input */
    bool eof;       /* nothing more to read */
    bool stepping;
    struct sw_defer again;
    struct sw_defer free;
};

void sw_dns_tcp_set_init(struct sw_dns_tcp_set *s, struct sw_loop *l,
                         const struct sw_dns_tcp_ops *ops);

/* Serves fd, which is taken over; it may be closed before this returns. */
void sw_dns_tcp_open(struct sw_dns_tcp *c, struct sw_dns_tcp_set *s, int fd);
/* Nothing happens when it is closed already. */
void sw_dns_tcp_close(struct sw_dns_tcp *c);
/* Closes the connection that is idle for longest. */
void sw_dns_tcp_evict(struct sw_dns_tcp_set *s);
/* True: the client reads too slowly for more output. */
bool sw_dns_tcp_full(const struct sw_dns_tcp *c);
/* Queues a message; without room for it the connection is closed. */
void sw_dns_tcp_send(struct sw_dns_tcp *c, const uint8_t *p, size_t n);
