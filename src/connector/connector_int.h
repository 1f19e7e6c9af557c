/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the device share: connector.c (life), serve.c (admission and destinations),
 * status.c.
 */
#pragma once

#include "base/list.h"
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
    struct sw_addr_watch *watch;
    struct sw_addr given[SW_QUIC_ADDRS_MAX]; /* --address */
    size_t n_given;
    struct sw_addr_list addrs;  /* as published */
    struct sw_observe *observe; /* of the relay in use; NULL: none can be queried */
    struct sw_ip observed[2];   /* what it saw, by family: IPv4, IPv6; family 0: nothing */
    char *relay;                /* in use; NULL: none */
    bool joined;                /* it, and every relay after it: see join */
    bool foreign;               /* another process with our key has the Lease */
    struct sw_timer silence;    /* until the API counts as away */
    char *relay_token;          /* owned, secret */
    struct sw_allow fixed;      /* --allow */
    struct sw_allow allow;      /* with what is advertised */
    struct sw_peers fixed_peers;
    struct sw_peers named_peers; /* by the control plane */
    struct sw_peers peers;       /* both */
    struct sw_timer save;        /* of the state from the control plane */
    uint64_t saved;              /* sum of it */
    struct sw_details_path paths[SW_DETAILS_PATHS];
    size_t n_paths;
    uint32_t paths_seq; /* of what is published */
    struct sw_timer paths_timer;
    uint64_t paths_told_ns; /* loop */
    struct sw_timer nobody; /* while no gateway is admitted */
    struct sw_list conns;
    size_t n_conns;
    struct sw_quic_stats told; /* what the metrics know */
    uint64_t told_overflows;
    struct sw_history history;
    struct sw_inspect inspect;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard;
    struct sw_ready *ready;
    struct sw_admin *admin;
    uint64_t started_ns; /* wall */
    /* the API, as of its last answer */
    bool api_asked;
    bool api_up;
    int api_code;
    char api_message[200];
    uint64_t api_since_ns; /* wall */
    bool relay_up;
    /* the end */
    bool draining;
    bool released;
    bool done_called;
    struct sw_timer drain_timer;
    uint64_t drain_until_ns;
    void (*drained)(void *arg);
    void *drained_arg;
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
