/* SPDX-License-Identifier: Apache-2.0 */
/* A call of spanwire.join.v1.Join, shared by the files that serve it. */
#pragma once

#include "base/list.h"
#include "base/log.h"
#include "http/grpc/grpc.h"
#include "identity/join/index.h"
#include "identity/join/request.h"
#include "identity/join/service.h"
#include "identity/join/throttle.h"

enum join_method { METHOD_ROOTS, METHOD_REDEEM, METHOD_RENEW, METHOD_LEAVE, METHODS };

/* The argument of a method. */
struct join_entry {
    struct sw_join_service *service;
    enum join_method method;
};

struct sw_join_service {
    struct sw_loop *loop;
    struct sw_join_service_opts o;
    struct sw_list calls;
    size_t n_calls;
    struct sw_join_throttle throttle;
    struct sw_log_limit refused;
    struct sw_log_limit granted;
    struct join_entry entries[METHODS];
};

struct join_call {
    struct sw_list link;
    struct sw_join_service *service;
    struct sw_grpc_call *grpc;
    enum join_method method;
    struct sw_timer deadline;
    struct sw_timer again;     /* the record was changed meanwhile: read again */
    struct sw_kube_call *kube; /* under way */
    struct sw_addr addr;
    char *token; /* of a machine; wiped at the end; NULL: none */
    struct sw_buf request;
    struct sw_arena arena;   /* of the record and what it was asked with */
    struct sw_join_record r; /* as it is granted; id is empty before */
    struct sw_slice csr;
    struct sw_join_gateways gateways;
    struct sw_slice msg; /* a peer's bundle, packed */
    bool has;
    bool forced; /* the WorkloadEntry is applied over what others wrote into it */
    bool answered;
};

/*
 * Ends the call: text for the caller, why for the log. Counts against the address when the caller
 * is to blame.
 */
void join_refuse(struct join_call *c, enum sw_grpc_status status, const char *text,
                 const char *why);
/* Ends the call with its bundle, or an empty message. */
void join_reply(struct join_call *c, struct sw_slice msg, const char *result);

/* ---- service_grant.c ---- */

/* Makes what the record says for its machine and answers. c->r is granted. */
void join_grant(struct join_call *c);
