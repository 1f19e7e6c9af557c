/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authorisation of links: who of this site may use an Import (egress), which peer gets a token for
 * an Export (token), which connection a token opens (ingress), and whether what is open may stay
 * (review). Served to data planes as gRPC Check, which Envoy and ClusterLink's Go data plane speak,
 * and as plain HTTP/2. Everything runs on the loop's thread; nothing waits but for peers.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "control/link/facts.h"

struct sw_egress;
struct sw_grpc_server;
struct sw_link_auth;
struct sw_link_egress;
struct sw_link_pods;
struct sw_loop;
struct sw_metrics_shard;
struct sw_tls_cred;

struct sw_link_auth_opts {
    struct sw_attrs labels;           /* of this site, keys as given; borrowed */
    bool known_peers_only;            /* tokens only for those with a Peer object */
    struct sw_egress *egress;         /* borrowed: judges gateways' addresses; NULL: any will do */
    struct sw_metrics_shard *metrics; /* may be NULL; borrowed */
    /* Heartbeats have news: the JSON of reach.h. May be NULL. */
    void (*on_reach)(void *arg, struct sw_slice json);
    /* What decisions depend on changed: data planes should review. May be NULL. */
    void (*on_epoch)(void *arg, uint64_t epoch);
    void *arg;
    uint64_t (*wall_s)(void); /* clock, for tests; NULL: the system's */
};

SW_NODISCARD struct sw_link_auth *sw_link_auth_new(struct sw_loop *l,
                                                   const struct sw_link_auth_opts *o);
/* After the server it serves on. NULL is fine. */
void sw_link_auth_free(struct sw_link_auth *a);

/* Another snapshot; a reference is taken. Until the first all is refused. */
void sw_link_auth_set_facts(struct sw_link_auth *a, struct sw_link_facts *f);
/* This site's name and what it shows to peers; a reference is taken. */
void sw_link_auth_set_fabric(struct sw_link_auth *a, struct sw_slice name,
                             struct sw_tls_cred *cred);
/* The secret of tokens, 32 bytes or more. */
SW_NODISCARD int sw_link_auth_set_key(struct sw_link_auth *a, struct sw_slice key,
                                      struct sw_err *err);
struct sw_link_pods *sw_link_auth_pods(struct sw_link_auth *a);
/* Serves both forms there; clients need a certificate that the server accepted. */
void sw_link_auth_serve(struct sw_link_auth *a, struct sw_grpc_server *s);

/* ---- decisions ---- */

enum { SW_LINK_TEXT = 512 };

/* An answer, as HTTP says it. Slices live for the call. */
struct sw_link_answer {
    int status;              /* 200: allowed; 400, 403, 404, 500, 503 */
    char text[SW_LINK_TEXT]; /* why not */
    const char *reason;      /* the same for metrics: a literal */
    size_t tried;            /* egress: all so many sources were tried in vain */
    struct sw_slice token;
    struct sw_slice host;     /* name of the xDS cluster to use */
    struct sw_slice exported; /* "ns/name" */
    struct sw_slice grant;
    struct sw_slice source; /* "ns/service-account" of the client; may be empty */
    struct sw_slice policy; /* that allowed */
};

/* Who asked, as the data plane saw it. */
struct sw_link_caller {
    struct sw_slice name;  /* first DNS name of the certificate; empty: not known */
    struct sw_slice thumb; /* SHA-256 of the certificate, hexadecimal; empty: not known */
};

struct sw_link_egress_req {
    struct sw_slice client;  /* address */
    struct sw_slice import;  /* "ns/name" */
    struct sw_slice exclude; /* "peer/ns/name,...": their tunnels failed */
};

/* done comes once, never from inside; NULL: it was answered before (done was called). */
typedef void (*sw_link_egress_cb)(void *arg, const struct sw_link_answer *answer);
struct sw_link_egress *sw_link_auth_egress(struct sw_link_auth *a,
                                           const struct sw_link_egress_req *req,
                                           sw_link_egress_cb done, void *arg);
/* The caller does not wait for it any more. NULL is fine. */
void sw_link_egress_cancel(struct sw_link_egress *e);

/* The other decisions are made locally. done is called once, from inside. */
void sw_link_auth_token(struct sw_link_auth *a, struct sw_slice body,
                        const struct sw_link_caller *who, sw_link_egress_cb done, void *arg);
/* authorization: the field's value; p == NULL: there was none. */
void sw_link_auth_ingress(struct sw_link_auth *a, struct sw_slice authorization,
                          const struct sw_link_caller *who, sw_link_egress_cb done, void *arg);

enum { SW_LINK_REVIEW_MAX = 1000, SW_LINK_REVIEW_BODY = 1 << 20 };

/* Appends a line for each line of 'grants'. SW_EINVAL: too many lines. */
struct sw_buf;
SW_NODISCARD int sw_link_auth_review(struct sw_link_auth *a, struct sw_slice grants,
                                     struct sw_buf *out, struct sw_err *err);
/* The answer to a heartbeat: base64 of our labels. Lives as long as a. */
struct sw_slice sw_link_auth_labels(const struct sw_link_auth *a);
