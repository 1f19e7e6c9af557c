/* SPDX-License-Identifier: Apache-2.0 */
/*
 * istio.v1.auth.IstioCertificateService: signs requests for the caller's own identity, and those of
 * node proxies for identities on their node. Refusals name little to the caller; the log has all.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"

struct sw_authority;
struct sw_caller;
struct sw_ca_service;
struct sw_grpc_server;
struct sw_issued;
struct sw_metrics_shard;
struct sw_nodes;
struct sw_tokens;

/* Everything is borrowed. Zero in a field means the default in brackets. */
struct sw_ca_service_opts {
    struct sw_authority *authority;
    struct sw_tokens *tokens;
    const struct sw_nodes *nodes;
    struct sw_issued *issued;         /* may be NULL */
    struct sw_metrics_shard *metrics; /* may be NULL */
    struct sw_slice cluster;          /* id of the cluster whose tokens and pods are known */
    /*
     * Whose token a machine outside the cluster shows: SW_OK with its namespace and service
     * account, until the loop continues; SW_ENOENT: not a machine's; SW_EDENIED; SW_ETIME. May be
     * NULL.
     */
    int (*machine)(void *arg, struct sw_slice token, struct sw_caller *ret, struct sw_err *err);
    void *machine_arg;
    /*
     * A certificate of the mesh renews itself, without a token. Then it is not checked whether the
     * pod is still there, or on that node, or whether the machine was removed.
     */
    bool by_certificate;
    uint64_t ttl_s;     /* of a certificate when nothing is asked for [24 h] */
    uint64_t max_ttl_s; /* [90 days] */
};

struct sw_ca_service *sw_ca_service_new(struct sw_loop *l, const struct sw_ca_service_opts *o);
/* After the server it was added to. NULL is fine. */
void sw_ca_service_free(struct sw_ca_service *s);
void sw_ca_service_serve(struct sw_ca_service *s, struct sw_grpc_server *g);
/* A token was reviewed: calls that wait are looked at again. */
void sw_ca_service_recheck(struct sw_ca_service *s);
