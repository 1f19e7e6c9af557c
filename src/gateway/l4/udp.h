/* SPDX-License-Identifier: Apache-2.0 */
/* The UDP proxy, and CONNECT-UDP tunnels for its sessions. */
#pragma once

#include "gateway/conn/worker.h"

/* Opens and closes sockets by the worker's newest view; sessions of listeners that stay continue.
 */
void sw_gw_udp_apply(struct sw_gw_worker *w);
/* Listeners close when their last session ends, at the latest after DRAIN_NS. */
void sw_gw_udp_drain(struct sw_gw_worker *w);
/* No session is left. */
bool sw_gw_udp_idle(const struct sw_gw_worker *w);
/* Closes everything. */
void sw_gw_udp_free(struct sw_gw_worker *w);

/* ---- udp_tunnel.c ---- */

enum {
    SW_GW_UDP_FRONT = 64, /* writable bytes in front of a datagram: heads of capsule and frame */
    SW_GW_UDP_BACK = 64,  /* and behind it */
};

struct sw_gw_udp_tunnel;

struct sw_gw_udp_tunnel_ops {
    /* From the far end. */
    void (*datagram)(void *arg, struct sw_slice payload);
    /*
     * It is over; from the loop, never from inside another call. reason: a short static text for
     * counters, NULL when the far end finished. why: for people, may be empty. The owner frees it.
     */
    void (*ended)(void *arg, const char *reason, const char *why);
};

struct sw_gw_udp_tunnel_opts {
    struct sw_gw_listener *listener;
    const struct sw_addr *client;
    const struct sw_addr *local;
    /* SW_DGRAM_MAX bytes with the room above around them; lent for as long as the tunnel lives. */
    uint8_t *scratch;
    const struct sw_gw_udp_tunnel_ops *ops;
    void *arg; /* of ops */
};

/*
 * Opens a tunnel through the listener's cluster to the target its tunneling_config names, for one
 * client. Never NULL: what cannot work ends it.
 */
struct sw_gw_udp_tunnel *sw_gw_udp_tunnel_new(struct sw_gw_worker *w,
                                              const struct sw_gw_udp_tunnel_opts *o);
/*
 * Sends a datagram, or keeps it while the tunnel is being made. p has SW_GW_UDP_FRONT and _BACK
 * bytes around it that may be written. False: dropped, for want of room.
 */
SW_NODISCARD bool sw_gw_udp_tunnel_send(struct sw_gw_udp_tunnel *t, uint8_t *p, size_t n);
/* No callbacks any more. NULL is fine. */
void sw_gw_udp_tunnel_free(struct sw_gw_udp_tunnel *t);
