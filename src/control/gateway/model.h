/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a gateway serves, in terms that belong to no data plane: sockets, filter chains, virtual
 * hosts, routes, clusters, secrets, endpoints. Made from objects by build.h, turned into xDS by
 * xds/xds.h. Everything lives in one arena, is sorted where order carries no meaning, and never
 * changes once made: equal objects give equal models.
 *
 * Slices are empty (n == 0) where the object has no value. Arrays come as pointer and count.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"

/* ---- secrets: published by name (SDS); only the content changes under a name ---- */

enum sw_model_secret_kind {
    SW_MODEL_SECRET_CERT, /* chain and key of ours */
    SW_MODEL_SECRET_CA,   /* certificates to verify others with */
};

struct sw_model_secret {
    struct sw_slice name; /* "cert/<ns>/<name>", "ca/<ns>/<name>[+<ns>/<name>...]" */
    enum sw_model_secret_kind kind;
    struct sw_slice chain_pem; /* CERT: the chain; CA: the bundle */
    struct sw_slice key_pem;   /* CERT */
};

/* ---- clusters ---- */

enum sw_model_proto {
    SW_MODEL_PROTO_HTTP1,
    SW_MODEL_PROTO_HTTP2, /* prior knowledge on plain connections, ALPN h2 under TLS */
    SW_MODEL_PROTO_WS,    /* HTTP/1.1, and websocket upgrades pass */
    SW_MODEL_PROTO_TCP,
    SW_MODEL_PROTO_UDP,
};

enum sw_model_san_kind {
    SW_MODEL_SAN_DNS,
    SW_MODEL_SAN_URI,
};

struct sw_model_san {
    enum sw_model_san_kind kind;
    struct sw_slice value;
};

/* TLS towards a backend. */
struct sw_model_backend_tls {
    struct sw_slice sni;
    struct sw_slice ca;              /* a secret's name; empty: the system's roots */
    const struct sw_model_san *sans; /* one of them must be in the certificate; never empty */
    size_t n_sans;
    struct sw_slice client_cert; /* a secret's name; empty: none is presented */
};

/*
 * Where requests go. The name holds a hash of every field that shapes it, so what a name means
 * never changes under traffic.
 */
struct sw_model_cluster {
    struct sw_slice name;      /* "<ns>/<service>/<port>/<hash>" */
    struct sw_slice endpoints; /* name of the endpoint set (EDS service name) */
    enum sw_model_proto proto;
    const struct sw_model_backend_tls *tls; /* NULL: plain */
    bool sticky; /* some route keeps sessions on one endpoint; not part of the name */
    bool tunnel; /* endpoints are connectors: reached by CONNECT through the local proxy */
    struct sw_slice dns_host; /* not empty: a host name, whose addresses are the set (resolved.h) */
    uint16_t dns_port;
    /* With 'tunnel', of datagrams: there is no set, the listener says what to ask for and whom. */
    struct sw_slice udp_host;
    uint16_t udp_port;
    struct sw_slice udp_id; /* the connector's public key; empty: it is offline */
};

/* Datagrams through a connector. */
static inline bool sw_model_is_udp_tunnel(const struct sw_model_cluster *c)
{
    return c && c->tunnel && c->proto == SW_MODEL_PROTO_UDP;
}

/* ---- endpoints: kept apart, they come and go without any of the rest ---- */

struct sw_model_endpoint {
    struct sw_slice address; /* IP */
    uint16_t port;
    struct sw_slice zone; /* may be empty */
    bool draining;        /* serving but on its way out; only when nothing else is left */
    /* Of a cluster with 'tunnel', instead of address and port: what CONNECT asks for, and whom. */
    struct sw_slice tunnel_target; /* "host:port" */
    struct sw_slice tunnel_id;     /* the connector's public key */
    struct sw_slice tunnel_device; /* the connector's name; may be empty */
};

struct sw_model_endpoints {
    struct sw_slice name;              /* "<ns>/<service>/<port>[+udp]" */
    const struct sw_model_endpoint *p; /* by zone, address, port; may be none: 503 */
    size_t n;
};

/* ---- backends of a route ---- */

struct sw_model_header {
    struct sw_slice name;
    struct sw_slice value;
};

/* Changes to headers: remove, then set (overwrite or add), then add (append). */
struct sw_model_headers {
    const struct sw_model_header *set;
    size_t n_set;
    const struct sw_model_header *add;
    size_t n_add;
    const struct sw_slice *remove;
    size_t n_remove;
};

/* A share of the traffic. */
struct sw_model_backend {
    const struct sw_model_cluster *cluster; /* NULL: not to be resolved, the share is answered by
                                            the route's invalid_status, or closed */
    uint32_t weight;                        /* 0: listed, never chosen */
    struct sw_model_headers request;
    struct sw_model_headers response;
    struct sw_slice host_rewrite;
};

/* ---- L7 routes ---- */

enum sw_model_path_kind {
    SW_MODEL_PATH_EXACT,
    SW_MODEL_PATH_PREFIX, /* whole segments: value "/a" matches "/a" and "/a/b", not "/ab"; "/"
                          matches all; never ends in '/' otherwise */
    SW_MODEL_PATH_START,  /* bytes: value "/pkg.Svc/" matches what begins so */
    SW_MODEL_PATH_REGEX,  /* the whole path, without the query */
};

enum sw_model_match_kind {
    SW_MODEL_MATCH_EXACT,
    SW_MODEL_MATCH_REGEX, /* the whole value */
};

struct sw_model_value_match {
    struct sw_slice name; /* headers: lower case */
    enum sw_model_match_kind kind;
    struct sw_slice value;
};

struct sw_model_match {
    enum sw_model_path_kind path_kind;
    struct sw_slice path;
    struct sw_slice method; /* empty: any */
    const struct sw_model_value_match *headers;
    size_t n_headers;
    const struct sw_model_value_match *queries;
    size_t n_queries;
    bool grpc; /* only requests of gRPC (content-type application/grpc*) */
};

enum sw_model_path_edit {
    SW_MODEL_PATH_KEEP,
    SW_MODEL_PATH_FULL,           /* the path becomes 'path', the query stays */
    SW_MODEL_PATH_REPLACE_PREFIX, /* the matched prefix becomes 'path'; "/" or empty: goes away */
};

struct sw_model_redirect {
    struct sw_slice scheme; /* empty: the request's */
    struct sw_slice host;   /* empty: the request's */
    uint16_t port;          /* as Location shall show it; 0: none to be shown */
    enum sw_model_path_edit path_edit;
    struct sw_slice path;
    uint16_t status; /* 301, 302, 303, 307, 308 */
};

struct sw_model_rewrite {
    struct sw_slice host; /* empty: kept */
    enum sw_model_path_edit path_edit;
    struct sw_slice path;
};

struct sw_model_mirror {
    const struct sw_model_cluster *cluster; /* never NULL */
    uint32_t numerator;                     /* of the requests; */
    uint32_t denominator;                   /* 100/100: all */
};

struct sw_model_cors {
    const struct sw_slice *origins; /* "*", exact, or with "*" as (the start of) the host */
    size_t n_origins;
    const struct sw_slice *methods; /* may be "*" alone */
    size_t n_methods;
    const struct sw_slice *headers; /* may be "*" alone */
    size_t n_headers;
    const struct sw_slice *expose;
    size_t n_expose;
    bool credentials;
    uint32_t max_age_s;
};

struct sw_model_retry {
    const uint16_t *codes; /* sorted */
    size_t n_codes;
    uint32_t attempts;   /* retries, not tries; at least 1 */
    uint64_t backoff_ms; /* 0: the data plane's own */
};

enum sw_model_session_kind {
    SW_MODEL_SESSION_COOKIE,
    SW_MODEL_SESSION_HEADER,
};

struct sw_model_session {
    enum sw_model_session_kind kind;
    struct sw_slice name;
    uint64_t ttl_ms;      /* absoluteTimeout; 0: none */
    bool permanent;       /* cookie outlives the browser (Max-Age = ttl) */
    struct sw_slice path; /* of the cookie */
};

/* A service that authorises a request before it is forwarded. No answer is a refusal. */
struct sw_model_auth {
    const struct sw_model_cluster *cluster; /* never NULL */
    bool grpc;                      /* Envoy's Authorization service; otherwise plain HTTP */
    struct sw_slice path;           /* HTTP: goes before the request's own path */
    const struct sw_slice *headers; /* of the request to show; lower case. None: gRPC all,
                                       HTTP the few that always go */
    size_t n_headers;
    const struct sw_slice *copied; /* HTTP: of the answer into the request; lower case. None: all */
    size_t n_copied;
    uint32_t body_max; /* bytes of the body to show; 0: none. A longer one is refused */
};

enum sw_model_action {
    SW_MODEL_FORWARD,
    SW_MODEL_REDIRECT,
    SW_MODEL_RESPOND, /* answered here with 'status' */
};

/* Room for the encoder to keep a route's bytes where the route outlives one build. */
struct sw_model_memo {
    struct sw_arena *arena;
    struct sw_slice bytes; /* p == NULL: not encoded yet */
};

enum { SW_MODEL_SHARES = 1000000 }; /* what struct sw_model_route.share counts in */

struct sw_model_route {
    struct sw_model_memo *memo; /* NULL: nothing is kept */
    struct sw_slice name; /* "<kind>/<ns>/<name>/rule/<i>/match/<j>" (kind in lower case), unique in
                             its virtual host */
    struct sw_model_match match;
    /*
     * Of routes with equal matches one after the other: this one takes requests whose number, one
     * for the whole list and below a million, is less. 0: all that come this far.
     */
    uint32_t share;
    enum sw_model_action action;
    uint16_t status;        /* RESPOND */
    struct sw_slice body;   /* RESPOND; may be empty */
    const char *reason;     /* RESPOND: why; NULL: its references are not valid */
    struct sw_slice device; /* RESPOND: the connector that is missing; may be empty */
    const struct sw_model_redirect *redirect; /* REDIRECT */

    /* FORWARD; at least one backend, and at least one with a cluster and a weight */
    const struct sw_model_backend *backends;
    size_t n_backends;
    uint16_t invalid_status;                /* for shares without a cluster: 500, gRPC 503 */
    const struct sw_model_rewrite *rewrite; /* NULL: none. Those below too */
    const struct sw_model_mirror *mirrors;
    size_t n_mirrors;
    const struct sw_model_retry *retry;
    const struct sw_model_session *session;
    int64_t request_timeout_ms; /* whole exchange; -1: not given; 0: none */
    int64_t backend_timeout_ms; /* one attempt; -1: not given; 0: none */
    bool websocket;             /* upgrades pass (always true for HTTP routes) */

    /* any action */
    struct sw_model_headers request;
    struct sw_model_headers response;
    const struct sw_model_cors *cors;
    const struct sw_model_auth *auth;
};

/*
 * Requests for one host. Routes are tried in this order and the first match serves; none: 404
 * (for gRPC: UNIMPLEMENTED).
 */
struct sw_model_vhost {
    struct sw_slice host; /* "a.example", "*.example" (one or more labels), "*" */
    const struct sw_model_route *const *routes; /* may be none: everything is 404 */
    size_t n_routes;
    bool misdirected;      /* this host belongs to another chain: answer 421, no routes */
    struct sw_slice owner; /* the Gateway it is for, "ns/name"; empty: none (Ingresses) */
};

/* The hosts behind one chain (RDS). The port of Host is ignored; host matching has no case. */
struct sw_model_table {
    struct sw_slice name;                       /* of its chain */
    const struct sw_model_vhost *const *vhosts; /* by host */
    size_t n_vhosts;
};

/* ---- listeners ---- */

enum sw_model_chain_kind {
    SW_MODEL_CHAIN_HTTP,   /* table serves; HTTP/1.1, and HTTP/2 by ALPN or prior knowledge */
    SW_MODEL_CHAIN_L4,     /* bytes or datagrams go to the backends */
    SW_MODEL_CHAIN_REFUSE, /* handshake or connection must fail */
};

enum sw_model_tls_mode {
    SW_MODEL_TLS_NONE,
    SW_MODEL_TLS_TERMINATE,
    SW_MODEL_TLS_PASSTHROUGH, /* only looked at for its server name */
};

enum sw_model_client_mode {
    SW_MODEL_CLIENT_NONE,     /* no certificate is asked for */
    SW_MODEL_CLIENT_REQUIRE,  /* a valid one or no connection */
    SW_MODEL_CLIENT_INSECURE, /* asked for; none or a bad one is let in */
};

struct sw_model_chain {
    struct sw_slice name; /* unique in the model, e.g. "https/127.0.0.1/443/a.example" */
    enum sw_model_chain_kind kind;
    enum sw_model_tls_mode tls;
    const struct sw_slice *server_names; /* sorted: exact or "*.suffix" (any depth); none: all that
                                            no other chain takes. Empty without TLS */
    size_t n_server_names;

    /* TERMINATE */
    const struct sw_slice *certs; /* names of secrets, in order of preference; at least one */
    size_t n_certs;
    enum sw_model_client_mode client_mode;
    struct sw_slice client_ca; /* a secret's name; with REQUIRE and INSECURE */
    bool alpn_http;            /* offer h2 and http/1.1 (HTTP chains); otherwise no ALPN */

    const struct sw_model_table *table; /* HTTP */
    const struct sw_model_backend
        *backends; /* L4: none, or a share without cluster: closed/dropped */
    size_t n_backends;
    struct sw_slice route; /* L4: "<kind>/<ns>/<name>" for logs; may be empty */
    struct sw_slice owner; /* the Gateway it is for; empty: none, or its hosts say it one by one */
};

/* One socket. */
struct sw_model_listener {
    struct sw_slice name; /* "<tcp|udp>/<address>/<port>" with the port below */
    struct sw_slice bind; /* address to bind */
    uint16_t bind_port;
    uint16_t port; /* for clients; differs for privileged ports */
    bool udp;
    bool inspect_tls;                           /* some chain needs the server name */
    const struct sw_model_chain *const *chains; /* by name; server names do not repeat */
    size_t n_chains;
};

/* ---- all of it ---- */

/* Every list ordered by name, names unique in their list. */
struct sw_model {
    const struct sw_model_listener *const *listeners;
    size_t n_listeners;
    const struct sw_model_table *const *tables; /* the chains' tables once more */
    size_t n_tables;
    const struct sw_model_cluster *const *clusters;
    size_t n_clusters;
    const struct sw_model_secret *const *secrets;
    size_t n_secrets;
    const struct sw_slice *endpoints; /* names of the endpoint sets the clusters need */
    size_t n_endpoints;
    const struct sw_slice *gateways; /* that are served, "ns/name" */
    size_t n_gateways;
};

/* Endpoint sets alone, made by sw_gateway_endpoints. Ordered by name. */
struct sw_endpoint_model {
    const struct sw_model_endpoints *const *sets;
    size_t n_sets;
    const struct sw_model_note *dropped; /* addresses that are in objects and in no set; not all */
    size_t n_dropped;
};
