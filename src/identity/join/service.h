/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanwire.join.v1.Join on the mesh's port. Roots returns the roots, so that a machine can compare
 * them with its code before it sends its secret. Redeem takes a code, once; Renew and Leave are for
 * machines that joined. Refusals name what the caller can do about it; the log has all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"

struct sw_arena;
struct sw_authority;
struct sw_grpc_server;
struct sw_join_gateways;
struct sw_join_service;
struct sw_joins;
struct sw_json;
struct sw_kube_client;
struct sw_kube_gvr;
struct sw_metrics_shard;

#define SW_JOIN_SERVICE "/spanwire.join.v1.Join/"
#define SW_JOIN_ROOTS   SW_JOIN_SERVICE "Roots"
#define SW_JOIN_REDEEM  SW_JOIN_SERVICE "Redeem"
#define SW_JOIN_RENEW   SW_JOIN_SERVICE "Renew"
#define SW_JOIN_LEAVE   SW_JOIN_SERVICE "Leave"

/* What a peer gets for its request. Buffers are made by the caller of 'sign'. */
struct sw_join_peer_cert {
    struct sw_buf *certificate;  /* PEM, the leaf first */
    struct sw_buf *roots;        /* PEM */
    const char *const *gateways; /* "HOST:PORT", ends with NULL; borrowed; may stay NULL */
    const char *site;            /* what the site that signs is called; borrowed */
};

/* Who signs for peers: the control plane of links. */
struct sw_join_peers {
    int (*sign)(void *arg, struct sw_slice name, struct sw_slice csr, struct sw_join_peer_cert *ret,
                struct sw_err *err);
    /* The object that says where the peer is, in the arena. */
    struct sw_json *(*object)(void *arg, struct sw_arena *a, struct sw_slice name,
                              const struct sw_join_gateways *at);
    const struct sw_kube_gvr *gvr; /* of that object */
    void *arg;
};

/* Everything is borrowed. */
struct sw_join_service_opts {
    struct sw_kube_client *client;
    const struct sw_authority *authority;
    struct sw_joins *joins;
    struct sw_metrics_shard *metrics;  /* may be NULL */
    const struct sw_join_peers *peers; /* NULL: peers are refused */
    struct sw_slice cluster;           /* id */
};

struct sw_join_service *sw_join_service_new(struct sw_loop *l,
                                            const struct sw_join_service_opts *o);
/* After the server it was added to. NULL is fine. */
void sw_join_service_free(struct sw_join_service *s);
void sw_join_service_serve(struct sw_join_service *s, struct sw_grpc_server *g);
