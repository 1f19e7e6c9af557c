/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests a policy, a binding or a webhook is about. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"

/* A request, as rules see it. */
struct sw_match_attrs {
    const char *operation; /* "CREATE", "UPDATE", "DELETE", "CONNECT" */
    struct sw_slice group, version, resource, sub, ns, name;
    const struct sw_slice *versions; /* of the same resource, served: for matchPolicy Equivalent */
    size_t nversions;
    bool is_namespace;            /* the object is a Namespace: rules see it without a namespace */
    const struct sw_json *object; /* NULL when there is none */
    const struct sw_json *old;
    const struct sw_json *ns_object; /* the Namespace of the object; NULL: cluster-scoped */
};

/*
 * True when a rule (operations, apiGroups, apiVersions, resources, scope) is about the request in
 * this version.
 */
bool sw_match_rule(const struct sw_json *rule, const struct sw_match_attrs *at,
                   struct sw_slice version);
/* Selectors {namespaceSelector, objectSelector} of m. *ret_why: a selector is malformed. */
bool sw_match_selectors(struct sw_arena *a, const struct sw_json *m,
                        const struct sw_match_attrs *at, const char **ret_why);
/*
 * MatchResources of a policy or a binding (NULL: everything). *ret_version is the version it
 * matched in, which differs from the request's with matchPolicy Equivalent. *ret_why: see above;
 * then the result is true for what would match otherwise.
 */
bool sw_match_resources(struct sw_arena *a, const struct sw_json *m,
                        const struct sw_match_attrs *at, struct sw_slice *ret_version,
                        const char **ret_why);
