/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The edge proxy: HTTP/1.1 and HTTP/2 from the gateway beside it, streams of QUIC connections to
 * nodes on the other side. One loop, one thread; runs as a process of its own or beside a gateway.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "io/addr.h"
#include "io/loop.h"
#include "opts/admin.h"
#include "opts/opts.h"
#include "opts/process.h"
#include "opts/upstream.h"
#include "quic/id/nodeid.h"

struct sw_metrics;
struct sw_ready;
struct sw_sidecar;

struct sw_sidecar_config {
    struct sw_arena arena;
    /* The side of the gateway. */
    struct sw_opt_list listen; /* a path, or an address */
    bool allow_remote;         /* addresses that are not loopback, with TLS */
    const char *tls_cert;
    const char *tls_key;
    const char *tls_ca; /* whose certificates clients must have */
    struct sw_opt_list aliases;
    uint32_t max_clients;
    /* The side of the nodes. */
    const char *key_file;
    struct sw_addr bind; /* UDP; family 0: any port */
    const char *relay;
    const char *relay_ca;
    const char *relay_token_file;   /* for 'relay' alone */
    struct sw_opt_list relay_allow; /* further relays we may connect to */
    bool relay_sign_over_tls;
    uint32_t max_nodes;
    uint32_t max_buffered; /* MiB */
    int congestion;        /* enum sw_qcc */
    uint64_t dial_ns;
    uint64_t answer_ns;
    uint64_t idle_ns;        /* of connections to nodes */
    uint64_t tunnel_idle_ns; /* of tunnels */
    bool udp_datagrams;      /* offer nodes UDP payloads in QUIC datagrams */
    /* Where nodes are. */
    struct sw_opt_list peers;
    const char *dns_origin;
    struct sw_opt_list dns_resolvers;
    const char *kubeconfig; /* NULL: no control plane */
    const char *context;
    const char *ns; /* where we register */
    bool no_register;
    struct sw_opt_list advertise;     /* addresses to register; none: those we are bound to */
    struct sw_upstream_opts upstream; /* what the control plane and DNS may name */
    /* Operation. */
    struct sw_process_config process;
};

extern const struct sw_opts_cmd sw_sidecar_options;

/* Flags, environment and file; results as sw_opts_parse. */
SW_NODISCARD int sw_sidecar_config_read(struct sw_sidecar_config *c, int argc, char **argv,
                                        struct sw_err *err);
void sw_sidecar_config_done(struct sw_sidecar_config *c);

/*
 * Listens and serves on the loop. c and the rest are borrowed for its life; metrics and ready may
 * be NULL. SW_EINVAL for what is forbidden (see allow_remote), SW_ESYS and others with a message.
 */
SW_NODISCARD struct sw_sidecar *sw_sidecar_new(struct sw_loop *l, const struct sw_sidecar_config *c,
                                               struct sw_metrics *metrics, struct sw_ready *ready,
                                               struct sw_err *err);
/* The filter of addresses, for the metrics. */
struct sw_egress *sw_sidecar_egress(const struct sw_sidecar *s);
/* Ends everything at once. NULL is fine. Not from one of its callbacks. */
void sw_sidecar_free(struct sw_sidecar *s);
/* No new requests; done comes from the loop, once, when the last one ended. */
void sw_sidecar_drain(struct sw_sidecar *s, void (*done)(void *arg), void *arg);
const struct sw_nodeid *sw_sidecar_id(const struct sw_sidecar *s);
/* Requests under way. */
size_t sw_sidecar_active(const struct sw_sidecar *s);
/* Before metrics are read: numbers that are sampled. */
void sw_sidecar_scrape(struct sw_sidecar *s);

/*
 * The whole role: loop, admin listeners, and, unless 'signals' is off, drain on SIGTERM. Blocks.
 * started (may be NULL) is called once everything listens: sw_sidecar_stop ends it.
 */
struct sw_sidecar_run;
SW_NODISCARD int sw_sidecar_run(const struct sw_sidecar_config *c, bool signals,
                                void (*started)(void *arg, struct sw_sidecar_run *r), void *arg,
                                struct sw_err *err);
/* From any thread: drains and ends. Once. */
void sw_sidecar_stop(struct sw_sidecar_run *r);
