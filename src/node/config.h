/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of `spanwire node`: one table gives the flags, ztunnel's environment names, the keys of
 * --config, the defaults, the help text and the manual page.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/log.h"
#include "io/addr.h"
#include "opts/admin.h"
#include "opts/opts.h"
#include "opts/upstream.h"

enum sw_node_mode {
    SW_NODE_SHARED,    /* many pods, each in its network namespace */
    SW_NODE_DEDICATED, /* one workload, our own namespace */
};

enum sw_node_auto {
    SW_NODE_AUTO, /* try, and continue without */
    SW_NODE_ON,   /* required */
    SW_NODE_OFF,
};

enum sw_node_aead {
    SW_NODE_AEAD_AUTO,
    SW_NODE_AEAD_IMB,
    SW_NODE_AEAD_GNUTLS,
};

/* "NAMESPACE/NAME/SERVICE-ACCOUNT"; all NULL when absent. */
struct sw_node_workload {
    const char *ns;
    const char *name;
    const char *sa;
};

struct sw_node_pod {
    struct sw_node_workload who;
    const char *netns; /* path of its network namespace */
};

/* Fields in the order of the table. Strings and arrays live in the arena. */
struct sw_node_config {
    struct sw_arena arena; /* owned */

    struct {                       /* whom to serve */
        int mode;                  /* enum sw_node_mode */
        const char *workload_text; /* as given */
        struct sw_opt_list pod_texts;
        bool proxy;
        struct sw_node_workload workload; /* dedicated: whom we serve */
        struct sw_node_pod *pods;         /* shared: n_pods of them */
        size_t n_pods;
        const char *agent_socket; /* socket of the node agent; NULL: none */
    } serve;

    struct {
        const char *local_path;
        const char *local_inline;
        const char *address; /* derived when absent; NULL: none */
        const char *root_ca;
        const char *alt_hostname;
        bool on_demand;
        uint32_t on_demand_max;
        const char *state_dir;
    } xds;

    struct {
        const char *local;
        const char *address; /* derived when absent; NULL: none, or --local-ca */
        const char *root_ca;
        const char *alt_hostname;
        const char *auth_token;  /* derived when absent; NULL: none */
        const char *machine_dir; /* of a machine that joined; NULL: none */
        const char *crl;
        uint64_t secret_ttl_ns;
    } ca;

    struct {
        const char *compliance_policy;
        bool tls12; /* besides 1.3 */
        int aead;   /* enum sw_node_aead */
    } crypto;

    struct {
        const char *node;
        const char *network;
        const char *cluster_id;
        const char *cluster_domain;
        const char *trust_domain;
        const char *pod; /* with the next two: the self-proxy listener's workload */
        const char *pod_namespace;
        const char *service_account;
        const char *instance_ip;
        bool self_proxy; /* derived: shared mode and the three names are known */
    } names;

    struct sw_upstream_opts upstream; /* what host names of workloads may resolve to */

    struct {
        struct sw_ip ip; /* family 0: the wildcard */
        bool ipv6;
        bool port_reuse;
        bool socks5;
    } listen;

    struct { /* admin, metrics and readiness ports */
        struct sw_admin_access access;
        struct sw_addr addr; /* admin also listens on [::1] when this is the default */
        bool is_default;     /* derived: neither flag nor PROXY_CONFIG named an address */
        struct sw_addr stats_addr;
        struct sw_addr ready_addr;
    } admin;

    struct {
        const char *capture_text;
        bool capture; /* derived */
        const char *addr_text;
        struct sw_addr addr; /* derived */
        bool localhost;      /* derived: 127.0.0.1 and [::1] */
        const char *resolv_conf;
        const char *preferred_namespace;
    } dns;

    struct {
        const char *workers_text;
        const char *limit; /* CPUs this process may count on */
        const char *resource_limit;
        const char *resource_request;
        uint32_t workers; /* derived */
    } cpu;

    struct {
        uint64_t ns;
        const char *text;
        const char *grace_text;
    } drain;

    struct {
        uint32_t packet_mark; /* derived; 0 = none */
        const char *packet_mark_text;
        int orig_src; /* enum sw_node_auto */
        bool localhost_app_tunnel;
    } sockets;

    struct {
        bool enforce_waypoint;
        bool fast_path;
        bool early_data; /* the first bytes go with the CONNECT */
        bool response_baggage;
        uint32_t pool_max_streams;
        uint64_t pool_unused_release_ns;
    } tunnel;

    struct {
        uint32_t stream_window;
        uint32_t connection_window;
        uint32_t frame_size;
    } h2;

    struct {
        bool on;
        uint64_t time_ns;
        uint64_t interval_ns;
        uint32_t retries;
        bool user_timeout;
        uint32_t user_timeout_ms; /* derived; 0 = off */
    } keepalive;

    struct {
        const char *level;
        int format; /* enum sw_log_format */
        bool authz_info;
    } log;

    struct {                  /* PROXY_CONFIG */
        const char *config;   /* YAML text */
        struct sw_node_meta { /* its proxyMetadata */
            struct sw_slice key;
            struct sw_slice value;
        } * metadata;
        size_t n_metadata;
    } istio;
};

/* The table, for `help node` and the manual page. */
extern const struct sw_opts_cmd sw_node_options;

/*
 * Reads argv[1..], the environment and --config into *c and works out what follows from it.
 * Returns SW_OK; SW_EOF when --help was asked for; otherwise one line in err that begins "node: ".
 * Call sw_node_config_done in every case.
 */
SW_NODISCARD int sw_node_config_read(struct sw_node_config *c, int argc, char **argv,
                                     struct sw_err *err);
void sw_node_config_done(struct sw_node_config *c);

/*
 * How many worker threads: text is "auto", "N", "N%" or "0" (all CPUs); request and limit are CPU
 * quantities such as "1.5" or "500m" and may be NULL. At least 1, at most 1024.
 */
SW_NODISCARD int sw_node_workers(const char *text, uint32_t cpus, const char *request,
                                 const char *limit, uint32_t *ret, struct sw_err *err);

/* "namespace/name/service-account"; refuses empty and surplus parts. Strings go to the arena. */
SW_NODISCARD int sw_node_workload_parse(struct sw_slice text, struct sw_arena *arena,
                                        struct sw_node_workload *ret, struct sw_err *err);
