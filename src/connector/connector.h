/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device: serves tunnels that the fabric's gateways open to it, to the destinations it
 * advertises. One loop, one thread; `spanwire connector run` is nothing else, `spanwire expose`
 * adds the objects that give it a public name.
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
#include "quic/quic.h"

struct sw_connector;
struct sw_kube_client;
struct sw_kube_obj;
struct sw_inspect_request;

struct sw_connector_config {
    bool standalone;        /* no API: only what the options say */
    const char *kubeconfig; /* NULL: searched */
    const char *context;
    const char *ns;         /* NULL: the context's */
    const char *name;       /* NULL: found by the key */
    bool any_name;          /* a Connector of another name that has our key will do */
    bool take_over;         /* a Connector of our name that has another key, and is offline */
    const char *class_name; /* NULL: chosen */
    const char *data;       /* NULL: the user's data directory */
    const char *relay;      /* NULL: from the Connector's annotation, if it has one */
    const char *relay_ca;
    const char *relay_token_file; /* for 'relay' alone */
    bool relay_sign_over_tls;
    struct sw_upstream_opts upstream;
    struct sw_slice target; /* a name whose addresses need no permission: the owner's; or empty */
    struct sw_addr bind;    /* family 0: any address, any port */
    struct sw_opt_list addresses;
    struct sw_opt_list allow;
    struct sw_opt_list gateways;
    bool open;
    bool udp;
    uint32_t max_conns;
    uint32_t max_streams;
    uint32_t max_buffered; /* MiB */
    int congestion;        /* enum sw_qcc */
    uint64_t drain_ns;
    struct sw_addr admin;
    struct sw_admin_access access;
    bool inspect;         /* requests are captured, and pages show them */
    bool inspect_secrets; /* with the values of fields that carry secrets */
    const char *log_level;
    int log_format;
};

/* The rows of an option table for a struct T whose member M is a struct sw_connector_config. */
/* clang-format off */
#define SW_CONNECTOR_OPTS_API(T, M) \
    {.type = SW_OPT_GROUP, .help = "API"}, \
    {"kubeconfig", NULL, SW_OPT_STR, offsetof(T, M.kubeconfig), .arg = "FILE", \
     .help = "How to reach the API [$KUBECONFIG, the pod's service account, ~/.kube/config, " \
             "./spanwire-data/admin.kubeconfig]."}, \
    {"context", NULL, SW_OPT_STR, offsetof(T, M.context), .arg = "NAME", \
     .help = "Context of the kubeconfig, if not the current one."}, \
    {"namespace", "SPANWIRE_NAMESPACE", SW_OPT_STR, offsetof(T, M.ns), .arg = "NAME", \
     .help = "Namespace of the objects [the context's]."}, \
    {"class", NULL, SW_OPT_STR, offsetof(T, M.class_name), .arg = "NAME", \
     .help = "ConnectorClass of a Connector that is made ['datum-connect', else the first]."}, \
    {"take-over", NULL, SW_OPT_BOOL, offsetof(T, M.take_over), .def = "false", \
     .help = "Take the name of another device that is offline. Needs the right to (verb " \
             "'take-over')."}

#define SW_CONNECTOR_OPTS_NET(T, M) \
    {.type = SW_OPT_GROUP, .help = "Network"}, \
    {"data", "SPANWIRE_CONNECTOR_DATA", SW_OPT_STR, offsetof(T, M.data), .arg = "DIR", \
     .help = "Directory of the device's key, made when missing " \
             "[$XDG_DATA_HOME/spanwire/connector, ~/.local/share/spanwire/connector]."}, \
    {"bind", "SPANWIRE_BIND", SW_OPT_ADDR, offsetof(T, M.bind), \
     .help = "UDP address to serve on [every address, any port]."}, \
    {"address", NULL, SW_OPT_LIST, offsetof(T, M.addresses), .arg = "IP[:PORT]", \
     .help = "Further address gateways may reach the device at, e.g. of a forwarded port; may be " \
             "repeated."}, \
    {"relay", "SPANWIRE_RELAY", SW_OPT_STR, offsetof(T, M.relay), .arg = "URL", \
     .help = "Home relay [what the Connector's annotation spanwire.dev/relay says]."}, \
    {"relay-ca", NULL, SW_OPT_STR, offsetof(T, M.relay_ca), .arg = "FILE", \
     .help = "Certificates the relay's must come from [the system's]."}, \
    {"relay-token-file", NULL, SW_OPT_STR, offsetof(T, M.relay_token_file), .arg = "FILE", \
     .help = "Bearer token for the relay of --relay; sent to no other, and over https only."}, \
    {"relay-sign-challenges", NULL, SW_OPT_BOOL, offsetof(T, M.relay_sign_over_tls), \
     .help = "Sign challenges of an https relay too, for one behind a proxy that ends TLS."}

#define SW_CONNECTOR_OPTS_POLICY(T, M) \
    {.type = SW_OPT_GROUP, .help = "Who and what"}, \
    {"allow", NULL, SW_OPT_LIST, offsetof(T, M.allow), .arg = "HOST:PORT[/udp]", \
     .help = "Destination to allow beside those advertised; '*.name' for all names below; may be " \
             "repeated."}, \
    SW_OPT_UPSTREAM(offsetof(T, M.upstream)), \
    {"allow-gateway", NULL, SW_OPT_LIST, offsetof(T, M.gateways), .arg = "ID", \
     .help = "NodeID of a gateway to admit beside those the control plane names; may be " \
             "repeated."}, \
    {"open", NULL, SW_OPT_BOOL, offsetof(T, M.open), .def = "false", \
     .help = "Admit every client that knows the NodeID. What can be reached stays limited."}, \
    {"udp", NULL, SW_OPT_BOOL, offsetof(T, M.udp), .def = "true", \
     .help = "Serve UDP (capability ConnectUDP)."}, \
    {"max-connections", NULL, SW_OPT_U32, offsetof(T, M.max_conns), .def = "256", .min = 1, \
     .max = 100000, .help = "Gateways connected at once."}, \
    {"max-streams", NULL, SW_OPT_U32, offsetof(T, M.max_streams), .def = "4096", .min = 1, \
     .max = 1000000, .help = "Tunnels and requests at once; more are answered with 503."}, \
    {"max-buffered", NULL, SW_OPT_U32, offsetof(T, M.max_buffered), .def = "128", .min = 1, \
     .max = 1048576, .arg = "MIB", \
     .help = "Megabytes kept for readers that are slow, in both directions; what a stream may " \
             "have in any case (96 KiB) comes on top."}, \
    {"congestion", "SPANWIRE_CONGESTION", SW_OPT_ENUM, offsetof(T, M.congestion), .def = "bbr", \
     .choices = sw_qcc_names, \
     .help = "Congestion control of QUIC: bbr keeps its speed on lines that lose packets; cubic " \
             "slows down with every loss; bbr2 is a later draft of the first."}

#define SW_CONNECTOR_OPTS_RUN(T, M, ADMIN, DRAIN, LOG) \
    {.type = SW_OPT_GROUP, .help = "Operation"}, \
    {"admin-addr", "SPANWIRE_ADMIN_ADDR", SW_OPT_ADDR, offsetof(T, M.admin), .def = ADMIN, \
     .help = "Status page, /status, /metrics and /ready; port 0 takes a free one."}, \
    SW_OPT_ADMIN(offsetof(T, M.access)), \
    {"drain-time", "SPANWIRE_DRAIN_TIME", SW_OPT_DURATION, offsetof(T, M.drain_ns), .def = DRAIN, \
     .help = "How long tunnels may take to end after a signal."}, \
    {"log-level", "SPANWIRE_LOG_LEVEL", SW_OPT_STR, offsetof(T, M.log_level), .def = LOG, \
     .arg = "FILTER", \
     .help = "error, warn, info, debug or trace; per scope as in 'info,quic=debug'."}, \
    {"log-format", "SPANWIRE_LOG_FORMAT", SW_OPT_ENUM, offsetof(T, M.log_format), .def = "plain", \
     .choices = sw_log_formats, .help = "Form of the log lines."}
/* clang-format on */

/* Events for the program that runs the device. Any may be NULL. */
struct sw_connector_hooks {
    /* Each state of our Connector; NULL: it is gone. */
    void (*connector)(void *arg, const struct sw_kube_obj *o);
    /* A request ended. */
    void (*request)(void *arg, const struct sw_inspect_request *r);
    /* The API answers again (up), or does not; code 401 when it does not know us any more. */
    void (*api)(void *arg, bool up, int code, struct sw_slice message);
    /* Addresses changed, or the machine slept: connections of before may be dead. */
    void (*network)(void *arg);
    /* Nothing can be done: the caller ends. */
    void (*fatal)(void *arg, const struct sw_err *err);
    void *arg;
};

/*
 * Opens the key, the socket, the status page and begins to register. The API need not be there.
 * NULL: SW_EINVAL, SW_ENOENT, SW_ESYS for what can only be repaired by hand: configuration,
 * kubeconfig, key, ports, a second process with the same data directory. cfg is borrowed.
 */
SW_NODISCARD struct sw_connector *sw_connector_new(struct sw_loop *l,
                                                   const struct sw_connector_config *cfg,
                                                   const struct sw_connector_hooks *hooks,
                                                   struct sw_err *err);
/* NULL is fine. */
void sw_connector_free(struct sw_connector *c);
/*
 * Gives the Lease back, takes no new tunnels, waits for those that run up to the drain time. done
 * comes once, from the loop. A second call ends the waiting.
 */
void sw_connector_drain(struct sw_connector *c, void (*done)(void *arg), void *arg);

/* All borrowed. */
struct sw_kube_client *sw_connector_client(struct sw_connector *c); /* NULL: standalone */
struct sw_slice sw_connector_ns(const struct sw_connector *c);
const struct sw_kube_obj *sw_connector_object(const struct sw_connector *c); /* NULL: none yet */
struct sw_addr sw_connector_admin(const struct sw_connector *c);
const char *sw_connector_id(const struct sw_connector *c); /* hex */
/* Of the pages that show requests; empty: there are none. */
const char *sw_connector_inspect_token(const struct sw_connector *c);
/* True once the Lease was renewed, and as long as it is in time. */
bool sw_connector_live(const struct sw_connector *c);
/* Our Connector was not there before this process. */
bool sw_connector_created(const struct sw_connector *c);
/* connectionDetails of the device whose Connector this process took over; NULL: of none. */
const struct sw_json *sw_connector_taken_from(const struct sw_connector *c);

/* `spanwire connector run`: until a signal. SW_OK, or what went wrong. */
SW_NODISCARD int sw_connector_run(const struct sw_connector_config *cfg, struct sw_err *err);
