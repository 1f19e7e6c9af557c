/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of the UDP proxy: udp.c has the sockets of listeners, udp_session.c their clients. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "gateway/l4/udp.h"
#include "io/addr.h"
#include "io/loop.h"

struct sw_gw_host;
struct sw_gw_listener;
struct sw_gw_lstats;

enum { UDP_KEY = 19 };

struct udp_session {
    struct sw_watch watch;
    struct sw_list link;  /* listener->sessions, used last first */
    struct sw_defer more; /* answers are left in the socket */
    struct udp_listener *listener;
    struct sw_gw_host *host;         /* a reference while it is counted */
    struct sw_gw_udp_tunnel *tunnel; /* instead of host and fd; owned */
    struct sw_addr client;
    char key[UDP_KEY];         /* of client */
    int fd;                    /* -1: none */
    uint64_t refused_until_ns; /* the tunnel ended badly: nothing is sent before; 0: not so */
    uint32_t dropped;          /* datagrams for which the tunnel had no room */
    char failure[96];
    uint64_t start_ns;
    uint64_t start_wall_ns;
    uint64_t active_ns;
    uint64_t rx;
    uint64_t tx;
};

struct udp_listener {
    struct sw_list link;
    struct sw_watch watch;
    struct sw_gw_worker *worker;
    struct sw_gw_listener *config; /* a reference */
    struct sw_gw_lstats *stats;
    struct sw_addr at;
    int fd;
    int mark;                         /* of the shared port */
    struct sw_map sessions_by_client; /* client address -> struct udp_session */
    struct sw_list sessions;
    struct sw_timer sweep;
    struct sw_defer more;
    uint64_t drain_until_ns; /* 0: it is not draining */
    bool gone;
};

struct udp {
    struct sw_list listeners;
    uint8_t *room; /* owned */
    uint8_t *buf;  /* in it: SW_DGRAM_MAX bytes, with what tunnels want around them */
    size_t n_listeners;
    size_t n_sockets; /* of sessions */
    size_t max_sockets;
};

/* A datagram of a client: through its session, which is made where there is none. p has the room
 * around it that tunnels want. */
void udp_forward(struct udp_listener *l, const struct sw_addr *client, uint8_t *p, size_t n);
/* Those in which nothing moved for so long. */
void udp_end_idle(struct udp_listener *l, uint64_t idle_ns);
void udp_end_sessions(struct udp_listener *l);
