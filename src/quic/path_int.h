/* SPDX-License-Identifier: Apache-2.0 */
/* The paths of a connection, for the files of the core: routes, their table, and what the files
 * path_*.c do. */
#pragma once

#include "base/list.h"
#include "quic/id/addrs.h"
#include "quic/path.h"
#include "quic/relay/client.h"
#include "quic/wire/probe.h"

struct ngtcp2_path;
struct ngtcp2_path_storage;

enum {
    QUIC_PATHS_MAX = 8,
    QUIC_ROUTES_MAX = SW_QUIC_ADDRS_MAX + 1, /* every address and the relay */
};

/* A relay, ours or a peer's. */
struct sw_qrelay {
    struct sw_list link;            /* q->relays */
    struct sw_quic *q;              /* borrowed */
    struct sw_slice url;            /* owned */
    struct sw_relay_client *client; /* owned */
    struct sw_qseen_by *seen_by;    /* owned; NULL: was never queried */
    bool home;
    bool up;
};

/* Where packets really go, and come from. */
struct sw_qroute {
    struct sw_qrelay *relay; /* borrowed; NULL: direct */
    struct sw_nodeid node;   /* by relay */
    uint8_t sock;            /* direct: index in q->sock */
    struct sw_ip local;      /* our address; family 0: the kernel chooses */
    struct sw_addr remote;
};

struct sw_qpathent {
    uint16_t id;  /* 0: free */
    bool genuine; /* an authenticated packet came by it */
    bool left;    /* accepted: ngtcp2 moved to another one */
    struct sw_qroute route;
};

/* What only a dialled connection has: the places its peer may be reached at. */
struct sw_qroutes {
    struct sw_qroute route[QUIC_ROUTES_MAX];
    uint8_t n;
    bool racing;     /* packets go to all of them */
    uint8_t *flight; /* owned: what was sent last while racing, for a relay that comes up later */
    size_t flight_n;
    size_t flight_segment;
    uint8_t next;  /* the one to try next for a better path */
    uint8_t tries; /* made since the addresses were learnt */
    uint64_t retry_at_ns;
    uint16_t trying;        /* path under validation; 0: none */
    uint64_t trying_ns;     /* since */
    uint16_t proving;       /* path that was moved to before its validation; 0: none */
    uint64_t proving_ns;    /* since */
    bool anew;              /* our network changed: the present route needs a new path */
    struct sw_qroute stray; /* where packets came from while the path was silent */
    uint64_t stray_ns;      /* when the last one did; 0: none that was not tried */
    uint64_t stray_at_ns;   /* none is tried before */
    uint64_t relay_at_ns;   /* the relay is not tried before */
    uint8_t relay_tries;    /* in a row */
};

/* path_table.c */

bool sw_qroute_eq(const struct sw_qroute *a, const struct sw_qroute *b);
/* The route to an address; false: no socket of that family. */
bool sw_qroute_direct(const struct sw_quic *q, const struct sw_addr *a, struct sw_qroute *ret);
/* The path of a route; made when 'make'. NULL: none. */
struct sw_qpathent *sw_qpath_of(struct sw_qconn *c, const struct sw_qroute *r, bool make);
/* Accepted: it has had all the numbers there are. One that came back might be ngtcp2's fallback. */
bool sw_qpath_exhausted(const struct sw_qconn *c);
/* A further path, also when there is one of that route. */
struct sw_qpathent *sw_qpath_add(struct sw_qconn *c, const struct sw_qroute *r);
struct sw_qpathent *sw_qpath_get(struct sw_qconn *c, uint16_t id);
/* The present path; NULL: it was forgotten. */
const struct sw_qpathent *sw_qpath_now(const struct sw_qconn *c);
/* The path as ngtcp2 knows it. */
void sw_qpath_fill(const struct sw_qpathent *p, struct ngtcp2_path_storage *ps);
/* The same for one received packet: valid until the next call. */
const struct ngtcp2_path *sw_qpath_lib(const struct sw_qconn *c, const struct sw_qpathent *p);
/* Of an endpoint; sw_free it. */
struct sw_qpathlib *sw_qpathlib_new(void);
/* The number ngtcp2's path carries. */
uint16_t sw_qpath_id(const struct ngtcp2_path *p);
/* A relay is going away: nothing may point to it. */
void sw_qpath_forget_relay(struct sw_qconn *c, const struct sw_qrelay *r);
bool sw_qpath_uses_relay(const struct sw_qconn *c, const struct sw_qrelay *r);

/* path_move.c */

/* A relay came up: a dial that is still racing sends its packets again. */
void sw_qpath_repeat(struct sw_qconn *c, struct sw_qrelay *r);
/* A packet by this route was genuine: a dial that is still racing has its path. */
void sw_qpath_race_won(struct sw_qconn *c, const struct sw_qroute *by);
/* Where a packet from 'from' belongs: its path, or NULL to drop it. */
struct sw_qpathent *sw_qpath_enter(struct sw_qconn *c, const struct sw_qroute *from);
/* Accepted, after each packet: notices that ngtcp2 changed paths. */
void sw_qpath_follow(struct sw_qconn *c);
/* After packets or timers: the same, and looks for better ones. */
void sw_qpath_check(struct sw_qconn *c);
void sw_qpath_validated(struct sw_qconn *c, uint16_t id, bool ok);
/* Learns addresses; true when one is new. */
bool sw_qdial_add(struct sw_quic *q, struct sw_qroutes *d, const struct sw_addr *a);
/* Time of the next attempt at a better path; UINT64_MAX: none is planned. */
uint64_t sw_qpath_due(const struct sw_qconn *c);
/* The network changed: what is known about paths may be wrong. */
void sw_qpath_network_changed(struct sw_qconn *c);
/* A new number for the present route: congestion control begins anew. False: not now. */
bool sw_qpath_renew(struct sw_qconn *c);
/* It is on a relay that we have lost. */
bool sw_qpath_relay_down(const struct sw_qconn *c);

/* path_silence.c: peers that do not answer */

/* A packet went out on this path. */
void sw_qsilence_sent(struct sw_qconn *c, uint16_t path, const uint8_t *p, size_t n);
/* A packet of the peer arrived. */
void sw_qsilence_end(struct sw_qconn *c);
/* When sw_qsilence_check has something to do; UINT64_MAX: never. */
uint64_t sw_qsilence_due(const struct sw_qconn *c);
/* Repeats the probe, or gives the peer up. */
void sw_qsilence_check(struct sw_qconn *c);

/* path_reach.c: direct paths of connections by relay, between two of ours */

/* It was dialled and is on a relay: begins to request the peer's candidates. Once. */
void sw_qreach_start(struct sw_qconn *c);
void sw_qreach_free(struct sw_qconn *c);
/* Our addresses or the network changed: notifies the peer, and probes anew. */
void sw_qreach_restart(struct sw_qconn *c);
/* True when the datagram was ours, and nothing for the application. */
bool sw_qreach_datagram(struct sw_qconn *c, const uint8_t *p, size_t n);
/* A ping or a pong; p: its bytes. False: not genuine. */
bool sw_qreach_probe(struct sw_quic *q, const struct sw_qroute *from, const struct sw_probe *m,
                     const uint8_t *p);
/* The peer may still turn out to be one of ours. */
bool sw_qreach_pending(const struct sw_qconn *c);
/* It has. */
bool sw_qreach_known(const struct sw_qconn *c);
/*
 * The direct route to go to. now: the direct route it is on, NULL: on a relay. urgent: that one is
 * silent, any other will do.
 */
bool sw_qreach_best(struct sw_qconn *c, const struct sw_qroute *now, bool urgent,
                    struct sw_qroute *ret);
/* The direct path does not answer: probes all other candidates. */
void sw_qreach_silent(struct sw_qconn *c);
/* Whether datagrams may go to an address that another node named. */
bool sw_qprobe_allowed(const struct sw_quic *q, const struct sw_addr *a);
/* What became of an attempt to go there. */
void sw_qreach_outcome(struct sw_qconn *c, const struct sw_qroute *at, bool ok);

/* path_openings.c: before a dial */

struct sw_qopenings *sw_qopenings_new(struct sw_quic *q);
void sw_qopenings_free(struct sw_qopenings *s);
void sw_qopenings_network_changed(struct sw_quic *q);
/* A datagram that may be a probe. False: it is none, or no genuine one. */
bool sw_quic_probe(struct sw_quic *q, const struct sw_qroute *from, const uint8_t *p, size_t n);
/* All that is known of where we are. */
size_t sw_quic_candidates(const struct sw_quic *q, struct sw_addr ret[SW_QUIC_ADDRS_MAX]);

/* path_seen_by.c: how relays see us */

/* A relay came up, or the network changed: queries it anew. Not when it is down. */
void sw_qseen_by_start(struct sw_qrelay *r);
void sw_qseen_by_free(struct sw_qrelay *r);
/* True when the packet was an answer. */
bool sw_qseen_by_packet(struct sw_quic *q, const struct sw_qroute *from, uint8_t *p, size_t n);

/* path_relays.c */

/* The relay named for a peer. NULL: SW_EINVAL (no URL), SW_EDENIED (not allowed; logged). */
struct sw_qrelay *sw_qrelay_of_peer(struct sw_quic *q, const struct sw_nodeid *peer,
                                    struct sw_slice url, struct sw_err *err);
void sw_qrelays_sweep(struct sw_quic *q, bool all);
/* True when the packet was kept for later. */
bool sw_qrelay_hold(struct sw_quic *q, const struct sw_qroute *from, uint8_t ecn, const uint8_t *p,
                    size_t n);
/* A direct copy of an Initial came: the ones by relay are not needed. */
void sw_qrelay_unhold(struct sw_quic *q, const uint8_t *dcid, size_t n);
void sw_qrelay_held_done(struct sw_quic *q);
