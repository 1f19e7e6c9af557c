/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the sidecar share: sidecar.c (life, listeners), down_h1.c and down_h2.c (the
 * gateway's side), where.c (finding nodes), api.c (the control plane), side_stats.c.
 */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "http/capsule.h"
#include "io/accept.h"
#include "quic/id/addrs.h"
#include "quic/path.h"
#include "quic/quic.h"
#include "sidecar/request.h"
#include "sidecar/sidecar.h"
#include "telemetry/metrics.h"
#include "tunnel/qdial.h"

struct sw_rawkey;
struct side_where;
struct side_api;
struct side_relays;
struct sw_kube_client;

enum side_source {
    SIDE_UDS,
    SIDE_TCP,
};

enum { SIDE_LISTENERS_MAX = 8 };

struct side_listener {
    struct sw_acceptor acceptor;
    char *path; /* of a Unix socket, removed at the end */
    bool tls;
    enum side_source source;
};

struct side_stats {
    struct sw_metrics_shard *shard; /* NULL: not counted */
    struct sw_quic_stats last;      /* of the endpoint, at the last scrape */
};

struct sw_sidecar {
    struct sw_loop *loop;
    const struct sw_sidecar_config *c;
    struct sw_ready *ready;
    struct sw_egress *egress; /* judges addresses that devices and DNS name */
    struct sw_rawkey *key;
    struct sw_tls_cred *cred;    /* of listeners with TLS */
    struct sw_slice relay_token; /* owned, secret */
    struct side_relays *relays;
    struct sw_quic *quic;
    struct sw_qdial *dial;
    struct side_where *where;
    struct {
        struct sw_addr_watch *watch;
        struct sw_addr_list list; /* what is registered: as advertised, else all, best first */
    } places;
    struct side_api *api;
    struct side_aliases aliases;
    struct side_stats stats;
    struct sw_accept_group accept;
    struct side_listener listeners[SIDE_LISTENERS_MAX];
    size_t n_listeners;
    struct sw_list sniffing; /* struct side_sniff */
    struct sw_list h1;       /* connections */
    struct sw_list h2;
    struct sw_list h2x; /* their exchanges */
    size_t n_conns;
    size_t n_requests;
    bool draining;
    struct sw_timer poll; /* while draining */
    void (*done)(void *arg);
    void *done_arg;
};

/* ---- one request, as both protocols have it ---- */

enum side_version {
    SIDE_H1,
    SIDE_H2,
};

struct side_log {
    struct sw_nodeid node;
    enum side_kind kind;
    enum side_source source;
    enum side_version version;
    char target[80];
    char id[64]; /* x-request-id, cut; empty: none */
    uint64_t begin_ns;
    unsigned status;
    uint64_t up;   /* bytes to the node */
    uint64_t down; /* bytes from it */
    char why[40];  /* a refusal of the node in its own words; empty: none */
};

/* Begins the books of a request that was understood. */
void side_begin(struct sw_sidecar *s, struct side_log *l, const struct side_out *o,
                enum side_source source, enum side_version version);
/* The node answered: remembers a refusal for the log, and counts errors. */
void side_answered(struct sw_sidecar *s, struct side_log *l, const struct sw_h1_msg *m);
/* Ends them: one line, and the counters. reason NULL: well, unless the node refused. */
void side_end(struct sw_sidecar *s, struct side_log *l, const char *reason);
/* May a request that was understood be passed on? False: *why is filled. */
bool side_may(const struct sw_sidecar *s, const struct side_out *o, struct side_refusal *why);
/* A request that was not: one line, one counter. */
void side_denied(struct sw_sidecar *s, const struct side_refusal *why);
/* An error answer of ours or of a node. */
void side_error(struct sw_sidecar *s, unsigned status);
/* The way to the node failed. */
void side_failed(struct sw_sidecar *s, const struct side_log *l, enum sw_qfail why);

/* ---- side_stats.c ---- */
void side_stats_init(struct sw_sidecar *s, struct sw_metrics *m);
void side_stats_done(struct sw_sidecar *s);
void side_conn_opened(struct sw_sidecar *s, enum sw_qpath path);
void side_conn_closed(struct sw_sidecar *s, enum sw_qpath path, bool idle, bool error);
void side_event(struct sw_sidecar *s, const char *event);
/* As relay_refused of sw_quic_config; arg: the sidecar. */
void side_relay_refused(void *arg, const char *reason);

/* ---- down_h1.c, down_h2.c: both take the descriptor over ---- */
void side_h1_serve(struct sw_sidecar *s, int fd, enum side_source source);
void side_h1_kill_all(struct sw_sidecar *s);
/* Closes what waits between requests. */
void side_h1_drain(struct sw_sidecar *s);
void side_h2_serve(struct sw_sidecar *s, int fd, enum side_source source, bool tls);
void side_h2_kill_all(struct sw_sidecar *s);
void side_h2_drain(struct sw_sidecar *s);

/* ---- side_udp.c ---- */
/*
 * Capsules from the gateway to a call whose node takes datagrams; adds the payload's bytes. SW_OK,
 * or SW_ELIMIT: not capsules.
 */
SW_NODISCARD int side_udp_up(struct sw_capsule_reader *r, struct sw_qcall *q, struct sw_slice in,
                             uint64_t *bytes);

/* ---- relays.c: which relays we may connect to ---- */

/* With those of the options. NULL with SW_EINVAL. */
struct side_relays *side_relays_new(const struct sw_sidecar_config *c, struct sw_err *err);
void side_relays_free(struct side_relays *r);
/* One that the operator named. SW_EINVAL. */
SW_NODISCARD int side_relays_add(struct side_relays *r, struct sw_slice url, struct sw_err *err);
bool side_relays_allow(const struct side_relays *r, struct sw_slice url);
/* Adds those of the control plane, and keeps up with them. Unfollow before the client goes. */
void side_relays_follow(struct side_relays *r, struct sw_kube_client *client, const char *ns);
void side_relays_unfollow(struct side_relays *r);

/* ---- places.c: where we are ourselves ---- */

/* Finds out, and follows changes until s->places.watch is freed. */
void side_places_start(struct sw_sidecar *s);
/* The endpoint learnt how others see us. */
void side_places_changed(struct sw_sidecar *s);

/* ---- where.c ---- */
struct side_where *side_where_new(struct sw_sidecar *s, struct sw_err *err);
void side_where_free(struct side_where *w);
void side_where_resolve(struct side_where *w, struct sw_qlookup *l);
void side_where_cancel(struct side_where *w, struct sw_qlookup *l);
/* A dial failed: records from DNS may be outdated. */
void side_where_failed(struct side_where *w, const struct sw_nodeid *id);

/* ---- api.c ---- */
enum side_known {
    SIDE_UNKNOWN,
    SIDE_ONLINE,
    SIDE_OFFLINE,
    SIDE_NOT_SYNCED, /* nothing is known yet */
};
struct side_api *side_api_new(struct sw_sidecar *s, struct sw_err *err);
void side_api_free(struct side_api *a);
/* Our addresses changed: they are registered again soon. */
void side_api_moved(struct side_api *a);
/* A node in the control plane's state; the target lives in the arena. */
enum side_known side_api_find(struct side_api *a, const struct sw_nodeid *id,
                              struct sw_arena *arena, struct sw_quic_target *ret);
/* The control plane knows the node, and that it does not offer UDP. */
bool side_api_refuses_udp(const struct side_api *a, const struct sw_nodeid *id);
/* Called back from the loop once the first list is there, for lookups that came too early. */
void side_where_synced(struct side_where *w);
