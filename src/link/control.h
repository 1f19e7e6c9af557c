/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions to the site's control plane, one client per worker. Two forms of the same four
 * questions: our own over HTTP/2, and ClusterLink's gRPC Check. Each has a deadline, and there is
 * a bound on how many are under way.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"

struct link_ask;
struct link_control;
struct sw_grpc_call;
struct sw_h2call;
struct sw_metrics_shard;
struct sw_tls_cred;

enum link_ask_kind {
    LINK_ASK_EGRESS,  /* may this client use this import, and where does it go */
    LINK_ASK_INGRESS, /* what is this token good for */
    LINK_ASK_TOKEN,   /* a peer asks for one: POST /authz */
    LINK_ASK_HEALTH,  /* a peer's heartbeat */
};

/* Slices live for the call of link_ask_start. Which are read depends on the kind. */
struct link_question {
    enum link_ask_kind kind;
    struct sw_ip client;           /* egress */
    struct sw_slice ns;            /* egress: of the import */
    struct sw_slice name;          /* egress */
    struct sw_slice exclude;       /* egress: "peer/ns/name,...", sources that failed */
    struct sw_slice authorization; /* ingress: the field as it came */
    struct sw_slice peer;          /* all but egress: the peer's name by its certificate */
    struct sw_slice fingerprint;   /* hex */
    struct sw_slice certificate;   /* PEM, percent-encoded, as Envoy sends it; Check form only */
    struct sw_slice body;          /* token */
};

/* Lives for the callback. Absent fields are empty. */
struct link_answer {
    unsigned status; /* HTTP; 503: the control plane did not answer */
    bool reached;    /* the control plane answered */
    struct sw_slice host;
    struct sw_slice authorization; /* "Bearer TOKEN" */
    struct sw_slice export;
    struct sw_slice grant;
    struct sw_slice source;
    struct sw_slice policy;
    struct sw_slice labels;
    struct sw_slice reason; /* one line, for the log */
    struct sw_slice body;   /* for the peer */
};

typedef void (*link_ask_cb)(struct link_ask *a, const struct link_answer *answer);

/* Embedded in what asks. */
struct link_ask {
    struct link_control *control; /* NULL: not under way */
    enum link_ask_kind kind;
    link_ask_cb cb;
    uint64_t start_ns;
    struct sw_arena arena; /* of the answer */
    struct link_answer answer;
    struct sw_h2call *call;
    struct sw_grpc_call *check;
};

struct link_control_opts {
    struct sw_loop *loop;
    struct sw_metrics_shard *shard; /* borrowed; NULL: not counted */
    bool clusterlink;
    struct sw_slice host;
    uint16_t port;
    struct sw_slice tls_name;
    struct sw_tls_cred *cred; /* a reference is taken */
    uint64_t timeout_ns;
};

SW_NODISCARD struct link_control *link_control_new(const struct link_control_opts *o,
                                                   struct sw_err *err);
/* Nothing is under way. NULL is fine. */
void link_control_free(struct link_control *c);
void link_control_set_cred(struct link_control *c, struct sw_tls_cred *cred);

/* SW_OK: cb follows, never from inside. SW_ELIMIT: too many questions are under way. */
SW_NODISCARD int link_ask_start(struct link_control *c, struct link_ask *a,
                                const struct link_question *q, link_ask_cb cb);
/* No callback any more. Harmless when nothing is under way. */
void link_ask_cancel(struct link_ask *a);

/*
 * Our form only: asks about grants, one per line. cb gets SW_OK with the answer's body, or why
 * not; never from inside. One at a time.
 */
typedef void (*link_review_cb)(void *arg, int rc, struct sw_slice body, const struct sw_err *err);
void link_control_review(struct link_control *c, struct sw_slice grants, link_review_cb cb,
                         void *arg);
void link_control_review_cancel(struct link_control *c);

/* ---- between control.c and the forms ---- */

struct sw_h2client;
struct sw_grpc_client;

struct link_control {
    struct link_control_opts o;
    struct sw_h2client *http;
    struct sw_grpc_client *grpc;
    struct sw_h2call *review;
    link_review_cb review_cb;
    void *review_arg;
    unsigned review_status;
    size_t n_asks;
};

/* The answer is complete: calls the asker back. */
void link_ask_answered(struct link_ask *a);
/* There was none. */
void link_ask_failed(struct link_ask *a, int rc, const char *why);
/* control_http.c */
SW_NODISCARD int link_http_open(struct link_control *c, struct sw_err *err);
void link_http_ask(struct link_ask *a, const struct link_question *q);
/* control_check.c */
SW_NODISCARD int link_check_open(struct link_control *c, struct sw_err *err);
void link_check_ask(struct link_ask *a, const struct link_question *q);
/* The encoded CheckRequest, in the arena; and an answer read. For tests, too. */
struct sw_slice link_check_encode(struct sw_arena *a, const struct link_question *q);
SW_NODISCARD int link_check_decode(struct sw_arena *a, struct sw_slice msg, struct link_answer *ret,
                                   struct sw_err *err);
