/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission webhooks as data: which requests a configuration matches, the AdmissionReview that is
 * sent and the one that is received. Functions without I/O; calling is for the API server.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slice.h"

enum {
    SW_REVIEW_BODY_MAX = 8 << 20, /* bytes of a response */
    SW_REVIEW_DEPTH_MAX = 100,
    SW_REVIEW_WARNINGS_MAX = 64,
};

/* What a request is about, as rules see it. */
struct sw_admit_target {
    const char *operation; /* "CREATE", "UPDATE", "DELETE" */
    struct sw_slice group;
    struct sw_slice version;
    struct sw_slice resource;
    struct sw_slice sub;
    bool cluster_scoped; /* Namespaces count as such */
};

/* True when a RuleWithOperations names the request. */
bool sw_admit_rule_matches(const struct sw_json *rule, const struct sw_admit_target *t);

/* A response, in the arena. */
struct sw_review_answer {
    bool allowed;
    const struct sw_json *status;      /* why not; may be NULL */
    const struct sw_json *patch;       /* operations of a JSON patch; NULL: none */
    const struct sw_json *warnings;    /* strings; may be NULL */
    const struct sw_json *annotations; /* object of strings; may be NULL */
};

/* The review that was sent. */
struct sw_review_sent {
    const char *api_version; /* "admission.k8s.io/v1" */
    struct sw_slice uid;
    bool mutating;
};

/*
 * Reads an AdmissionReview that answers the one sent. Anything that is not exactly an answer is
 * refused: a webhook that cannot be understood has not allowed anything.
 *
 * Returns SW_OK, or SW_EPROTO (SW_ELIMIT for bounds) with the reason in err.
 */
SW_NODISCARD int sw_review_parse(struct sw_arena *a, struct sw_slice body,
                                 const struct sw_review_sent *sent, struct sw_review_answer *ret,
                                 struct sw_err *err);

/* The Status a refusal is answered with: at least 400, in the words of Kubernetes. */
struct sw_json *sw_review_denial(struct sw_arena *a, struct sw_slice hook,
                                 const struct sw_json *status);

/* host, port and path of "https://host[:port][/path]"; false with the reason in *ret_why. */
bool sw_hook_url_split(struct sw_arena *a, struct sw_slice url, struct sw_slice *ret_host,
                       uint16_t *ret_port, struct sw_slice *ret_path, const char **ret_why);
