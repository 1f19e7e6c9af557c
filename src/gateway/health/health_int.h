/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One active health check between its parts: health.c keeps the checkers and judges results, http.c
 * checks by HTTP and gRPC, tcp.c by bytes.
 */
#pragma once

#include "base/list.h"
#include "gateway/config/config.h"
#include "gateway/config/tls.h"
#include "gateway/upstream/cluster.h"
#include "io/loop.h"

struct sw_gw_probe;
struct sw_gw_tcp_probe;
struct sw_grpc_call;
struct sw_grpc_client;
struct sw_http_call;
struct sw_http_client;

struct checker {
    struct sw_list link;
    struct sw_gw_health *health;
    const struct sw_gw_check *check; /* of the cluster's settings */
    struct sw_gw_member *member;     /* a reference */
    struct sw_timer timer;           /* the next check, or the deadline of this one */
    bool running;
    bool seen;  /* is in the newest version */
    bool known; /* a first result is there */
    bool down;
    uint32_t good; /* in a row */
    uint32_t bad;
    int status;
    struct sw_http_client *http;
    struct sw_http_call *call;
    struct sw_grpc_client *grpc;
    struct sw_grpc_call *rpc;
    bool grpc_serving;
    struct sw_gw_probe *probe;  /* HTTP/2 */
    struct sw_gw_tls_want want; /* with TLS */
    char *name;                 /* owned: want.host */
    struct sw_gw_tcp_probe *tcp;
};

struct sw_gw_health {
    struct sw_loop *loop;
    struct sw_gw_cluster *cluster; /* a reference: the newest version */
    struct sw_list checkers;
    struct sw_timer sweep;
};

/* The result of the check that runs; no effect when none does. why: of a failure. */
void checker_finish(struct checker *k, bool ok, const char *why);
/* Where the check goes. */
struct sw_addr checker_target(const struct checker *k);
/* The host name of the check: the member's own, the check's, the cluster's; empty: none. */
struct sw_slice checker_host(const struct checker *k);

/* Each begins one check; checker_finish follows, maybe from inside the call. */
void checker_begin_http(struct checker *k);
void checker_begin_h2(struct checker *k);
void checker_begin_grpc(struct checker *k);
void checker_begin_tcp(struct checker *k);
/* Ends a TCP check; no effect when none runs. now: at once, not allowed in its own callbacks. */
void checker_drop_tcp(struct checker *k, bool now);
/* Members without an IP address: true when this was the whole check. */
bool checker_begin_pipe(struct checker *k);
