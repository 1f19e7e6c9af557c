/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the device share: connector.c (life), serve.c (admission and destinations),
 * status.c.
 */
#pragma once

#include "base/list.h"
#include "base/log.h"
#include "connector/allow.h"
#include "connector/connector.h"
#include "connector/inspect/history.h"
#include "connector/inspect/inspect.h"
#include "connector/inspect/observe.h"
#include "connector/inspect/tlswatch.h"
#include "connector/memo.h"
#include "connector/peers.h"
#include "connector/reg/reg.h"
#include "quic/id/addrs.h"
#include "quic/path.h"
#include "quic/quic.h"
#include "telemetry/admin.h"
#include "telemetry/metrics.h"
#include "telemetry/ready.h"
#include "tunnel/qserve.h"

/* A gateway that is connected. */
struct conn {
    struct sw_list link;
    struct sw_qconn *q;
    uint64_t since_ns; /* wall */
};

struct sw_peek;

/* One exchange that was allowed: its tag. */
struct exchange {
    struct sw_connector *c;
    struct sw_peek *peek; /* tunnels only; made with the first byte */
    struct sw_tlswatch tls;
    char peer[SW_NODEID_SHORT];
    char host[256]; /* where it goes */
    uint16_t port;
};

struct sw_connector {
    struct sw_loop *loop;
    const struct sw_connector_config *config;
    struct sw_connector_hooks hooks;
    char *data;
    char *ns;
    char *server;         /* of the API, "host:port"; NULL: standalone */
    char *name;           /* of our Connector, as last seen; NULL: never */
    struct sw_memo known; /* at the start, until the API answers */
    char *identity;
    int lock_fd;              /* of the data directory */
    struct sw_egress *egress; /* judges what names of destinations resolve to */
    struct sw_rawkey *key;
    char id[SW_NODEID_HEX];
    struct sw_kube_client *client;
    struct sw_reg *reg;
    struct sw_quic *quic;
    struct sw_qserve *serve;
    struct sw_history history;
    struct sw_inspect inspect;

    struct { /* our addresses */
        struct sw_addr_watch *watch;
        struct sw_addr given[SW_QUIC_ADDRS_MAX]; /* --address */
        size_t n_given;
        struct sw_addr_list addrs;  /* as published */
        struct sw_observe *observe; /* of the relay in use; NULL: none can be queried */
        struct sw_ip observed[2];   /* what it saw, by family: IPv4, IPv6; family 0: nothing */
    } local;

    struct {                   /* the relay in use */
        char *url;             /* NULL: none */
        bool joined;           /* the relay in use, and every one after it: see join */
        struct sw_slice token; /* owned, secret */
        bool up;
    } home;

    struct {                         /* what may be asked for, and by which gateways */
        struct sw_allow allow_fixed; /* --allow */
        struct sw_allow allow;       /* with what is advertised */
        struct sw_peers peers_fixed;
        struct sw_peers peers_named; /* by the control plane */
        struct sw_peers peers;       /* both */
        struct sw_timer nobody;      /* while no gateway is admitted */
        struct sw_log_limit refused; /* lines about gateways that are not admitted */
    } admit;

    struct {                  /* from the control plane, kept in a file */
        struct sw_timer save; /* of the state from the control plane */
        uint64_t saved;       /* sum of it */
    } state;

    struct { /* paths in status.connectionDetails */
        struct sw_details_path paths[SW_DETAILS_PATHS];
        size_t n;
        uint32_t seq; /* of what is published */
        struct sw_timer timer;
        struct sw_timer again; /* to the next look at what was published */
        uint64_t told_ns;      /* loop */
    } published;

    struct sw_list conns;
    size_t n_conns;

    struct {
        struct sw_quic_stats told; /* what the metrics know */
        uint64_t overflows_logged;
        struct sw_metrics *metrics;
        struct sw_metrics_shard *shard;
    } meter;

    struct sw_ready *ready;
    struct sw_admin *admin;
    uint64_t started_ns; /* wall */

    struct { /* as of its last answer */
        bool asked;
        bool up;
        int code;
        char message[200];
        uint64_t since_ns;       /* wall */
        struct sw_timer silence; /* until the API counts as away */
        bool foreign;            /* another process with our key has the Lease */
    } api;

    struct { /* the end */
        bool draining;
        bool released;
        bool done_called;
        struct sw_timer timer;
        uint64_t until_ns;
        void (*drained)(void *arg);
        void *drained_arg;
    } drain;
};

/* open.c: everything that can fail for good; sw_connector_free takes back what was opened. */
SW_NODISCARD int connector_open(struct sw_connector *c, struct sw_err *err);

/* connector.c */
void connector_relay_state(void *arg, bool up);
void connector_mapped(void *arg);
/* Publishes our addresses: to the API, and to gateways on the relay. */
void connector_publish(struct sw_connector *c);

/* paths.c */
/* A gateway is connected, or reached another way. */
void connector_path_seen(struct sw_connector *c, const struct sw_qconn *q);
/* Other gateways are admitted: paths of those that are not any more are forgotten, soon. */
void connector_review_paths(struct sw_connector *c);
void connector_relay_refused(void *arg, const char *reason);

/* serve.c */
bool connector_admit(void *arg, const struct sw_nodeid *peer, struct sw_slice alpn);
void connector_accepted(void *arg, struct sw_qconn *q);
struct sw_qserve *connector_serve_new(struct sw_connector *c);
/* The advertisements changed: tunnels that they do not allow any more are reset. */
void connector_advertised(void *arg);
/* The gateways the Connector names; those not named any more are disconnected. */
void connector_set_peers(struct sw_connector *c, struct sw_slice list);
/* The same for lists that were recalled. Copied; flags add theirs. */
void connector_admit_peers(struct sw_connector *c, const struct sw_peers *named);
void connector_allow(struct sw_connector *c, const struct sw_allow *advertised);
void connector_forget_conns(struct sw_connector *c);

/* tell.c */
void connector_tap(void *tag, bool from_origin, const uint8_t *p, size_t n);
void connector_ended(void *arg, const struct sw_qserve_record *r);
/* A request ended, however it came. */
void connector_add_request(struct sw_connector *c, const struct sw_inspect_request *r);

/* recall.c */
/* Reads the state that the API sent before into 'known', if that is ours. */
void connector_recall(struct sw_connector *c);
/* Puts its lists in force. */
void connector_use_known(struct sw_connector *c);
/* State arrived from the API: it is saved soon, or now if that is still to be done. */
void connector_remember(struct sw_connector *c);
void connector_remember_now(struct sw_connector *c);

/* status.c */
bool connector_page(struct sw_http_req *req, struct sw_http_resp *resp, void *arg);
void connector_scrape(void *arg);
