/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accepting connections, for everything that listens: as many per turn as came lately, a pause of
 * all listeners of a group when descriptors run out, and a queue that is served before it closes.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/list.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_acceptor;
struct sw_accept_group;
struct sw_sock_opts;

/* A connection; fd is the callee's from here on. It may close the acceptor, but not free it. */
typedef void (*sw_accept_cb)(struct sw_acceptor *a, int fd, const struct sw_addr *peer);

/* Listeners that share one supply of descriptors: those of a loop. */
struct sw_accept_group {
    struct sw_loop *loop;
    const char *scope; /* of log lines */
    /*
     * Few descriptors are left: closes idle connections. False: there is none, and accepting
     * pauses. NULL: as if it were false.
     */
    bool (*make_room)(struct sw_accept_group *g);
    /* Accepting paused (it was logged); may be NULL. */
    void (*on_pause)(struct sw_accept_group *g);
    struct sw_list all; /* sw_acceptor */
    struct sw_timer retry;
    uint64_t quiet_until_ns; /* the last pause was logged */
    int fd_ceiling;          /* descriptors from this number on make a pause; INT_MAX: none */
    bool paused;
    bool held;
};

/* A listening socket, embedded in what owns it. */
struct sw_acceptor {
    struct sw_list link;
    struct sw_watch watch;
    struct sw_accept_group *group;
    sw_accept_cb cb;
    unsigned burst; /* how many connections lately came at once */
    int fd;         /* owned; -1: closed */
    int mark;       /* of a shared port (io/port.h), owned, set after opening; -1: none */
    bool heap;      /* of sw_accept_listen: freed when closed */
};

/* An empty group. scope lives as long as the group. */
void sw_accept_init(struct sw_accept_group *g, struct sw_loop *loop, const char *scope);
/*
 * Keeps a tenth of the descriptors the process may have for the other halves of connections
 * already accepted, and raises their limit to what is allowed.
 */
void sw_accept_keep_spare(struct sw_accept_group *g);
/* While held nothing is accepted; connections wait in the queues. */
void sw_accept_hold(struct sw_accept_group *g, bool held);
/* Closes every listener without looking into the queues; the group may be used again. One that was
 * never initialised is fine. */
void sw_accept_done(struct sw_accept_group *g);

/*
 * Listens at an address; the group owns the acceptor until sw_accept_done. *ret_bound: with the
 * port the kernel gave (may be NULL).
 */
SW_NODISCARD int sw_accept_listen(struct sw_accept_group *g, const struct sw_addr *at,
                                  const struct sw_sock_opts *o, sw_accept_cb cb,
                                  struct sw_addr *ret_bound, struct sw_err *err);

/* Accepts on fd, which it takes, also when it fails: SW_ESYS when the kernel refuses the watch. */
SW_NODISCARD int sw_accept_open(struct sw_accept_group *g, struct sw_acceptor *a, int fd,
                                sw_accept_cb cb, struct sw_err *err);
/*
 * Serves what is in the queue, then closes: those connections are established for their clients.
 * With a successor on the port the kernel moves half-open ones over. No effect when closed.
 */
void sw_accept_finish(struct sw_acceptor *a);
/* Closes at once. No effect when closed. */
void sw_accept_close(struct sw_acceptor *a);
