/* SPDX-License-Identifier: Apache-2.0 */
/* A request to a Kubernetes API and its reply, as data. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slice.h"

/* A resource type. It and its texts are borrowed and must outlive the client: literals, as a rule.
 */
struct sw_kube_gvr {
    const char *group; /* "" for the core */
    const char *version;
    const char *resource; /* plural */
    const char *kind;
    bool namespaced;
};

enum sw_kube_verb {
    SW_KUBE_GET,
    SW_KUBE_LIST,
    SW_KUBE_CREATE,
    SW_KUBE_UPDATE,
    SW_KUBE_PATCH,
    SW_KUBE_DELETE,
    SW_KUBE_DELETE_COLLECTION,
};

enum sw_kube_patch {
    SW_KUBE_PATCH_JSON,
    SW_KUBE_PATCH_MERGE,
    SW_KUBE_PATCH_STRATEGIC, /* built-in kinds only */
    SW_KUBE_PATCH_APPLY,     /* server-side; needs a field manager */
};

/* One request. All borrowed for the call that takes it. Empty means absent. */
struct sw_kube_req {
    enum sw_kube_verb verb;
    const struct sw_kube_gvr *gvr;
    const char *path; /* instead of gvr, ns, name, sub: "/version" */
    struct sw_slice ns;
    struct sw_slice name;
    const char *sub; /* "status", "scale", "token" ... */
    const struct sw_json *body;
    enum sw_kube_patch patch;
    /* writes */
    const char *field_manager;
    const char *field_validation;
    bool force; /* apply: take over what others own */
    bool dry_run;
    /* lists */
    const char *label_selector;
    const char *field_selector;
    struct sw_slice resource_version;
    const char *resource_version_match;
    struct sw_slice continue_token;
    uint32_t limit;
    /* deletes */
    const char *propagation; /* "Background", "Foreground", "Orphan" */
    struct sw_slice if_uid;  /* preconditions */
    struct sw_slice if_resource_version;
    int64_t grace_s; /* < 0: none given; 0 is the default for our kinds and not sent either */

    uint64_t timeout_ns; /* retries included; 0: 60 s */
    bool once;           /* no retries at all */
    bool may_lack;       /* the caller continues without the right: its lack is not reported */
};

/* What came of it. */
struct sw_kube_reply {
    /*
     * SW_OK for 2xx. SW_ENOENT 404, SW_EDENIED 401 and 403, SW_EINVAL the other 4xx, SW_EUNAVAIL
     * 5xx (code is set for all these); without a code what the connection met (see http/client.h).
     */
    int rc;
    int code;               /* HTTP status, 0: no answer */
    struct sw_slice reason; /* Status.reason ("Conflict"); made from the code where there is none */
    struct sw_slice message;      /* for people, never empty on failure */
    const struct sw_json *object; /* 2xx: the answer; NULL when it has none */
    const struct sw_json *status; /* failures: the Status object; NULL when there is none */
    uint64_t retry_after_ns;      /* the server's wish; 0: none */
    uint64_t date_s;              /* the server's clock, by its Date field; 0: it has none */
    /* Holds all of it. A callback that wants to keep the object moves the struct out and zeroes it.
     */
    struct sw_arena *arena;
};

static inline bool sw_kube_is(const struct sw_kube_reply *r, const char *reason)
{
    return r->rc != SW_OK && sw_slice_eq_str(r->reason, reason);
}
