/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision tables: where a connection goes, over which protocol, whom to expect there, or why
 * not. Pure functions of a snapshot; the proxy executes what they return. Everything a decision
 * points to lives in the snapshot it was made from, so hold a reference while using it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/addr.h"
#include "node/state.h"

enum {
    SW_PORT_HBONE = 15008,
    SW_PORT_INBOUND_PLAIN = 15006,
    SW_PORT_OUTBOUND = 15001,
    SW_PORT_SOCKS5 = 15080,
    SW_ROUTE_REASON = 200,
    SW_ROUTE_AUTHORITY = 272, /* 255 of host name, colon, port, NUL */
};

/* Uniform in [0, bound), bound > 0; sw_rand_below fits. */
typedef uint64_t (*sw_route_rng)(uint64_t bound);

struct sw_route_env {
    struct sw_slice network; /* own NETWORK */
    bool socks5;             /* 15080 counts as one of our own ports */
    bool enforce_waypoint;
    bool localhost_app_tunnel;
    sw_route_rng rng; /* NULL: sw_rand_below */
};

/* Is this one of the proxy's own listening ports (loop protection)? */
bool sw_route_own_port(const struct sw_route_env *env, uint16_t port);

/* Accepted SPIFFE names of a peer: the service's, then the workload's own. */
struct sw_route_sans {
    const struct sw_slice *service;
    size_t n_service;
    struct sw_slice own; /* empty: none */
};
size_t sw_route_sans_count(const struct sw_route_sans *s);
struct sw_slice sw_route_sans_at(const struct sw_route_sans *s, size_t i);

enum sw_route_kind {
    SW_ROUTE_DROP,
    SW_ROUTE_TCP,
    SW_ROUTE_HBONE,
    SW_ROUTE_DOUBLE_HBONE,
};

enum sw_route_drop {
    SW_DROP_NONE = 0,
    SW_DROP_SELF_CALL,   /* O0 */
    SW_DROP_NO_UPSTREAM, /* O3a */
    SW_DROP_WAYPOINT,    /* a waypoint is named and cannot be resolved */
    SW_DROP_GATEWAY,     /* another network and no way there */
    SW_DROP_NO_ADDRESS,  /* the chosen workload cannot be dialled */
    SW_DROP_EXHAUSTED,   /* all candidates were tried already: report the last connect error */
};

struct sw_route_outbound {
    enum sw_route_kind kind;
    enum sw_route_drop drop;
    char reason[SW_ROUTE_REASON]; /* for DROP */

    struct sw_addr target;        /* dial this; family 0 when 'hostname' has to be resolved first */
    struct sw_slice hostname;     /* non-empty: resolve, then call sw_route_resolved */
    uint8_t prefer_family;        /* 4 or 6: which answers to prefer */
    enum sw_ip_families families; /* which answers are allowed */

    char authority[SW_ROUTE_AUTHORITY];       /* :authority of (the outer) CONNECT; "" for TCP */
    struct sw_route_sans sans;                /* expected of the (outer) TLS peer */
    char inner_authority[SW_ROUTE_AUTHORITY]; /* DOUBLE_HBONE */
    struct sw_route_sans inner_sans;          /* DOUBLE_HBONE; empty means it cannot succeed */

    const struct sw_workload *workload; /* next hop (waypoint and gateway included), or NULL */
    const struct sw_service *service;   /* the service intended by the client, or NULL */
    bool via_waypoint;
    bool via_gateway;
    bool authority_is_target; /* the authority carries the dialled pod's address (O6) */
    uint16_t app_port;        /* O6: port inside the tunnel */
};

/* Endpoints that were tried for this connection already and failed to connect. */
struct sw_route_tried {
    const struct sw_workload *const *list;
    size_t n;
};

/*
 * Outbound table O0, O2-O7 for a connection of 'source' to 'dst' (O1, the unknown local workload,
 * is the caller's). 'tried' may be NULL; to retry, append ret->workload and ask again.
 */
void sw_route_outbound(const struct sw_state *s, const struct sw_route_env *env,
                       const struct sw_workload *source, const struct sw_addr *dst,
                       const struct sw_route_tried *tried, struct sw_route_outbound *ret);
/* Fills target and, where it depends on it, the authority once 'hostname' is resolved. */
void sw_route_resolved(struct sw_route_outbound *r, const struct sw_ip *ip);

/* Inbound plaintext (P0): false and a reason when the connection must be dropped. */
bool sw_route_inbound_plain(const struct sw_route_env *env, const struct sw_addr *dst,
                            char reason[SW_ROUTE_REASON]);

/*
 * Waypoint enforcement for a connection to an address (plaintext: src is NULL): false when 'local'
 * may be reached through its waypoint only and the caller is not that.
 */
bool sw_route_may_pass(const struct sw_state *s, const struct sw_route_env *env,
                       const struct sw_workload *local, const struct sw_ip *peer,
                       const struct sw_spiffe *src, const struct sw_addr *dst);

struct sw_route_inbound_request {
    const struct sw_workload *local; /* the workload the connection arrived at */
    struct sw_addr conn_dst;         /* local address of the connection (podIP:15008) */
    struct sw_ip peer_ip;            /* TCP peer */
    const struct sw_spiffe *src;     /* verified caller, NULL: no SPIFFE name */
    struct sw_slice authority;       /* :authority */
    struct sw_slice forwarded;       /* header value, may be empty */
};

struct sw_route_inbound {
    int status;                   /* 200, or the refusal to send: 400, 401, 503 */
    char reason[SW_ROUTE_REASON]; /* for a refusal */
    bool early;                   /* refusal is an early-deny log line (else access log, DENY) */

    struct sw_addr rbac_dst;          /* destination for the policy engine */
    struct sw_addr connect;           /* dial this (loopback for a local application tunnel) */
    bool from_loopback;               /* connect from loopback, no spoofing */
    bool proxy_protocol;              /* write a PROXY v2 header after the 200 */
    struct sw_addr proxy_dst;         /* its destination */
    struct sw_addr spoof;             /* source to show to the application: peer ip, port 0 = any */
    bool forwarded_honoured;          /* spoof comes from the Forwarded header of a waypoint */
    bool by_address;                  /* the authority was one, not a host name */
    bool from_waypoint;               /* caller is a waypoint of this destination */
    const struct sw_service *service; /* service of a hostname authority, or the telemetry guess */
};

/*
 * Inbound HBONE: authority, destination validation, next hop and waypoint enforcement (spec 3.4
 * steps 2-3). RBAC follows, by the caller, on rbac_dst.
 */
void sw_route_inbound_hbone(const struct sw_state *s, const struct sw_route_env *env,
                            const struct sw_route_inbound_request *req,
                            struct sw_route_inbound *ret);

/* Does this identity belong to a waypoint of the workload (its own or one of its services')? */
bool sw_route_is_waypoint_of(const struct sw_state *s, const struct sw_workload *w,
                             const struct sw_spiffe *id);

/*
 * The service an inbound connection was probably meant for (telemetry only): the forwarded host
 * when it is one of the workload's services, else the first that leads to the port. NULL: none.
 */
const struct sw_service *sw_route_guess_service(const struct sw_state *s,
                                                const struct sw_workload *w,
                                                struct sw_slice forwarded_host, uint16_t dst_port);
