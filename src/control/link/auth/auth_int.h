/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of authorisation share. Not for others. */
#pragma once

#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "control/link/auth/auth.h"
#include "control/link/auth/judge.h"
#include "control/link/auth/peers.h"
#include "control/link/auth/pods.h"
#include "control/link/auth/token.h"
#include "io/loop.h"

enum {
    AUTH_EGRESS_MAX = SW_LINK_ASKS_MAX, /* decisions that wait for peers */
    AUTH_USED_MAX = 1 << 18             /* tokens remembered as used */
};

struct sw_link_auth {
    struct sw_loop *loop;
    struct sw_link_auth_opts o;
    struct sw_link_facts *facts; /* NULL: not known yet */
    struct sw_link_self self;
    struct sw_arena arena; /* of the labels */
    char *name;
    struct sw_slice labels; /* of the heartbeat */
    struct sw_link_key key;
    bool has_key;
    struct sw_link_key before; /* the key before this one: open connections have grants of it */
    bool has_before;
    struct sw_link_pods *pods;
    struct sw_link_peers *peers;
    struct sw_link_once *once;
    struct sw_map turns; /* import -> struct turn */
    struct sw_list egress;
    size_t n_egress;
    struct sw_timer epoch_timer;
    uint64_t born_ns; /* on the loop's clock; the same on the wall's: */
    uint64_t born_ms;
    uint64_t boot;       /* a restart is a new epoch: grants may have changed unseen */
    uint64_t pod_change; /* pods that were used for decisions and changed */
    uint64_t epoch;
    struct sw_log_limit refused;
};

uint64_t auth_now_s(const struct sw_link_auth *a);
/* "ns/service-account" of attributes, in the arena; empty: not known. */
struct sw_slice auth_source(struct sw_arena *arena, const struct sw_attrs *src);
/* What a refusal is about. Empty ones are left out of the log line. */
struct auth_subject {
    const char *side;
    struct sw_slice import;
    struct sw_slice exported;
    struct sw_slice client;
    struct sw_slice peer;
    struct sw_slice policy;
    const char *detail; /* for the log alone; NULL: none */
};
/* Counts the answer, and logs a refusal. */
void auth_record(struct sw_link_auth *a, const struct auth_subject *s,
                 const struct sw_link_answer *answer);
void auth_refuse(struct sw_link_answer *answer, int status, const char *reason, const char *fmt,
                 ...) SW_PRINTF(4, 5);
void auth_count_token(struct sw_link_auth *a, const char *result);
/* Counter of an Import's connections, this one included. */
uint64_t auth_turn(struct sw_link_auth *a, struct sw_slice import);

/* May this peer have connections at all? */
bool auth_admits(const struct sw_link_auth *a, struct sw_slice peer);

struct sw_tls_peer;
/* True for a certificate of a data plane, which the server verified. */
bool auth_is_plane(const struct sw_tls_peer *cert);

/* --- egress.c --- */
/* The decision whose link this is, in sw_link_auth.egress. */
struct sw_link_egress *auth_egress_of(struct sw_list *link);

/* --- review.c --- */
struct sw_link_grant;
/* Would this be granted now? Refuses with the reason, or leaves the answer as it is. */
void auth_review_egress(struct sw_link_auth *a, struct sw_arena *arena,
                        const struct sw_link_grant *g, struct sw_link_answer *answer);

/* --- services --- */
void auth_serve_check(struct sw_link_auth *a, struct sw_grpc_server *s);
void auth_serve_http(struct sw_link_auth *a, struct sw_grpc_server *s);
