/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a container runtime asks of a CNI plugin (specification 1.1.0, down to 0.3.0): environment
 * and configuration in, result or error object out. No I/O.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slice.h"

enum {
    SW_CNI_INPUT_MAX = 1 << 20,
    SW_CNI_IPS_MAX = 16,
};

enum sw_cni_command {
    SW_CNI_ADD,
    SW_CNI_DEL,
    SW_CNI_CHECK,
    SW_CNI_GC,
    SW_CNI_STATUS,
    SW_CNI_VERSION,
};

/* Codes of the specification. */
enum sw_cni_code {
    SW_CNI_OK = 0,
    SW_CNI_BAD_VERSION = 1,
    SW_CNI_BAD_ENV = 4,
    SW_CNI_IO = 5,
    SW_CNI_DECODE = 6,
    SW_CNI_BAD_CONFIG = 7,
    SW_CNI_TRY_LATER = 11,
    SW_CNI_REFUSED = 100, /* ours: the node agent refused */
};

/* Values of CNI_*; NULL: not set. */
struct sw_cni_env {
    const char *command;
    const char *container_id;
    const char *netns;
    const char *ifname;
    const char *args;
};

/* Texts are in the arena and NUL-terminated; empty when absent. */
struct sw_cni_request {
    enum sw_cni_command command;
    struct sw_slice container_id;
    struct sw_slice netns;
    struct sw_slice ifname;
    struct sw_slice pod_ns; /* this and the next two: what CNI_ARGS says */
    struct sw_slice pod_name;
    struct sw_slice pod_uid;
    struct sw_slice version;     /* cniVersion of the configuration */
    const struct sw_json *conf;  /* all of it */
    const struct sw_json *prev;  /* prevResult, NULL: none */
    const struct sw_json *valid; /* GC: cni.dev/valid-attachments, NULL: none */
    const char *socket;          /* of the node agent */
    uint64_t timeout_ns;         /* how long ADD may wait for it */
};

/*
 * Reads a request. On failure *ret_code is the code for the error object and err the message;
 * ret->version is set as far as it could be read.
 */
SW_NODISCARD int sw_cni_request_parse(struct sw_arena *a, const struct sw_cni_env *env,
                                      struct sw_slice input, struct sw_cni_request *ret,
                                      enum sw_cni_code *ret_code, struct sw_err *err);

/* True for a cniVersion that the plugin speaks. */
bool sw_cni_version_known(struct sw_slice v);

/* True when the pod is left alone without asking the node agent: not Kubernetes', or excluded. */
bool sw_cni_passes(const struct sw_cni_request *r);

/*
 * What ADD answers: prevResult in the form of the version asked for. SW_EINVAL: it cannot be
 * expressed.
 */
SW_NODISCARD int sw_cni_result(struct sw_arena *a, const struct sw_cni_request *r,
                               struct sw_json **ret, struct sw_err *err);
/* The answer to VERSION. */
struct sw_json *sw_cni_versions(struct sw_arena *a, struct sw_slice version);
struct sw_json *sw_cni_error(struct sw_arena *a, struct sw_slice version, enum sw_cni_code code,
                             const char *msg);
/* The request for the node agent's /cmdadd, in the form Istio's plugin has. */
struct sw_json *sw_cni_agent_body(struct sw_arena *a, const struct sw_cni_request *r);
