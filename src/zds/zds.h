/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages by which a node agent hands pods to a node proxy (istio.workload.zds), one per
 * packet. Bytes only: who sends what and when is the business of the agent (cni) and the node.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    SW_ZDS_PACKET_MAX = 1024, /* both sides refuse longer ones */
    SW_ZDS_NAME_MAX = 253,    /* of a namespace, pod or service account */
    SW_ZDS_UID_MAX = 128,
};

enum sw_zds_kind {
    SW_ZDS_ADD,      /* with one descriptor: the pod's network namespace */
    SW_ZDS_KEEP,     /* the agent knows the pod, but has no namespace at hand */
    SW_ZDS_DEL,      /* the pod is gone */
    SW_ZDS_SNAPSHOT, /* all pods there are were named */
};

struct sw_zds_request {
    enum sw_zds_kind kind;
    struct sw_slice uid; /* all but SW_ZDS_SNAPSHOT */
    struct sw_slice ns;  /* this and the next two: SW_ZDS_ADD */
    struct sw_slice name;
    struct sw_slice sa;
};

/*
 * Slices live in the arena. SW_EPROTO: no such message, a kind this version does not have, no uid,
 * an ADD without workload_info. SW_EINVAL: names that are empty, too long or hold control bytes.
 */
SW_NODISCARD int sw_zds_request_decode(struct sw_arena *a, struct sw_slice in,
                                       struct sw_zds_request *ret, struct sw_err *err);
/* SW_ELIMIT: longer than a packet may be. */
SW_NODISCARD int sw_zds_request_encode(struct sw_arena *a, const struct sw_zds_request *r,
                                       struct sw_slice *ret, struct sw_err *err);

/* *ret_error is empty when the request was fulfilled. SW_EPROTO: not an acknowledgement. */
SW_NODISCARD int sw_zds_response_decode(struct sw_arena *a, struct sw_slice in,
                                        struct sw_slice *ret_error, struct sw_err *err);
/* error: empty for success; cut so that it fits a packet. */
struct sw_slice sw_zds_response_encode(struct sw_arena *a, struct sw_slice error);

/* SW_EPROTO unless it is the hello of version 1. */
SW_NODISCARD int sw_zds_hello_decode(struct sw_arena *a, struct sw_slice in, struct sw_err *err);
struct sw_slice sw_zds_hello_encode(struct sw_arena *a);
