/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HBONE connections of peers, and the judgement every inbound HBONE tunnel passes, whether it came
 * over the network or from a pod of the same node: destination, waypoint, policy; then its record
 * is open.
 */
#pragma once

#include "node/ledger.h"
#include "node/worker.h"
#include "tunnel/dial.h"

/* Takes a connection that was accepted at 15008 for the pod. */
void sw_inbound_accept(struct sw_wpod *p, int fd, const struct sw_addr *peer);
/* Starts draining all inbound HBONE connections. */
void sw_inbound_drain(struct sw_worker *w);
/* Closes them; pod NULL: of all pods. */
void sw_inbound_close_all(struct sw_worker *w, const struct sw_wpod *pod, const char *why);
/* Closes carriers, of both directions, whose peer is revoked by now. */
void sw_inbound_recheck(struct sw_worker *w);

struct sw_inbound_ask {
    struct sw_wpod *dst;
    struct sw_addr peer;     /* who connected */
    struct sw_addr conn_dst; /* podIP:15008 */
    const struct sw_spiffe *src;
    struct sw_slice src_uri;
    struct sw_slice authority;
    struct sw_slice forwarded;
    struct sw_slice baggage;
    struct sw_slice traceparent;
    struct sw_slice from_network; /* x-forwarded-network */
};

/*
 * 200: *rec is open, *route tells what to dial. Otherwise the status to answer; the refusal is
 * counted and logged already.
 */
unsigned sw_inbound_judge(struct sw_worker *w, const struct sw_inbound_ask *ask,
                          struct sw_ledger *rec, struct sw_route_inbound *route);

/* Starts connecting to the application as the plan says. */
void sw_inbound_dial(struct sw_worker *w, const struct sw_wpod *dst,
                     const struct sw_route_inbound *route, struct sw_dial *d, sw_dial_cb cb);
/* Writes the PROXY header when the plan asks for one. False: the socket would not take it. */
bool sw_inbound_send_proxy_header(int fd, const struct sw_route_inbound *route,
                                  const struct sw_addr *peer, struct sw_slice src_uri);
