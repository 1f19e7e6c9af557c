/* SPDX-License-Identifier: Apache-2.0 */
/* Which pods there are and where they run, as far as identities depend on it. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"
#include "identity/nodes.h"

struct sw_pods;

struct sw_pod_info {
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice uid;
    struct sw_slice account; /* service account */
    struct sw_slice node;    /* empty: not scheduled */
    bool failed;             /* its phase is Failed: it has no identity any more */
};

struct sw_pods *sw_pods_new(void);
/* NULL is fine. */
void sw_pods_free(struct sw_pods *p);
/* Adds or replaces by namespace and name; texts are copied. */
void sw_pods_set(struct sw_pods *p, const struct sw_pod_info *pod);
void sw_pods_del(struct sw_pods *p, struct sw_slice ns, struct sw_slice name);
/* All pods there are were read once: those that are not here are not there. */
void sw_pods_complete(struct sw_pods *p);
/* For who asks where pods are. */
struct sw_pod_source sw_pods_source(const struct sw_pods *p);
