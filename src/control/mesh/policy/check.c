/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/check.h"

/* Keys of conditions. A trailing "[" stands for a name in brackets. */
static const char *const known_keys[] = {
    "source.ip",
    "source.namespace",
    "source.principal",
    "source.serviceAccount",
    "source.trustDomain",
    "remote.ip",
    "destination.ip",
    "destination.port",
    "connection.sni",
    "request.auth.principal",
    "request.auth.audiences",
    "request.auth.presenter",
    "request.auth.claims[",
    "request.headers[",
    "experimental.envoy.filters.",
};

/* Attributes that say who calls; an external authoriser is asked before that is known. */
static const char *const identity_attributes[] = {
    "principals",   "notPrincipals",   "requestPrincipals", "notRequestPrincipals",
    "namespaces",   "notNamespaces",   "serviceAccounts",   "notServiceAccounts",
    "trustDomains", "notTrustDomains",
};
static const char *const identity_keys[] = {"source.namespace", "source.principal",
                                            "source.serviceAccount", "source.trustDomain",
                                            "request.auth.principal"};

static bool key_known(struct sw_slice key)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(known_keys); i++) {
        struct sw_slice k = sw_slice_str(known_keys[i]);
        char last = k.p[k.n - 1];

        if (last == '[' && sw_slice_has_prefix(key, k) && key.n > k.n + 1 &&
            key.p[key.n - 1] == ']')
            return true;
        if (last == '.' ? sw_slice_has_prefix(key, k) : sw_slice_eq(key, k))
            return true;
    }
    return false;
}

static bool is_one_of(struct sw_slice s, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (sw_slice_eq_str(s, names[i]))
            return true;
    }
    return false;
}

static const char *check_when(struct sw_arena *a, const struct sw_json *when, size_t rule)
{
    for (size_t i = 0; i < sw_json_len(when); i++) {
        const struct sw_json *w = sw_json_at(when, i);
        struct sw_slice key = sw_json_str(sw_json_find(w, "key"));

        if (!key_known(key))
            return sw_arena_printf(a, "rules[%zu].when[%zu]: unknown key '%.*s'", rule, i,
                                   SW_SLICE_ARG(sw_slice_head(key, 64)));
        if (sw_json_len(sw_json_find(w, "values")) + sw_json_len(sw_json_find(w, "notValues")) == 0)
            return sw_arena_printf(a, "rules[%zu].when[%zu]: neither values nor notValues", rule,
                                   i);
    }
    return NULL;
}

/* The first attribute of a rule that says who calls; empty: none. */
static struct sw_slice identity_of(const struct sw_json *rule)
{
    const struct sw_json *from = sw_json_find(rule, "from");
    const struct sw_json *when = sw_json_find(rule, "when");

    for (size_t i = 0; i < sw_json_len(from); i++) {
        const struct sw_json *source = sw_json_find(sw_json_at(from, i), "source");

        for (size_t k = 0; k < SW_ARRAY_LEN(identity_attributes); k++) {
            if (sw_json_len(sw_json_find(source, identity_attributes[k])))
                return sw_slice_str(identity_attributes[k]);
        }
    }
    for (size_t i = 0; i < sw_json_len(when); i++) {
        struct sw_slice key = sw_json_str(sw_json_find(sw_json_at(when, i), "key"));

        if (is_one_of(key, identity_keys, SW_ARRAY_LEN(identity_keys)))
            return key;
    }
    return sw_slice("", 0);
}

static const char *check_custom(struct sw_arena *a, const struct sw_json *spec)
{
    const struct sw_json *rules = sw_json_find(spec, "rules");

    if (sw_json_len(rules) == 0)
        return "a CUSTOM policy without rules has no effect";
    if (!sw_json_str(sw_json_walk(spec, "provider", "name", NULL)).n)
        return "a CUSTOM policy needs provider.name";
    for (size_t i = 0; i < sw_json_len(rules); i++) {
        struct sw_slice found = identity_of(sw_json_at(rules, i));

        if (found.n)
            return sw_arena_printf(a, "rules[%zu]: '%.*s' cannot be used in a CUSTOM policy", i,
                                   SW_SLICE_ARG(found));
    }
    return NULL;
}

static const char *check_action(struct sw_arena *a, const struct sw_json *spec)
{
    const struct sw_json *action = sw_json_find(spec, "action");

    if (sw_json_str_eq(action, "CUSTOM"))
        return check_custom(a, spec);
    if (sw_json_is(sw_json_find(spec, "provider"), SW_JSON_OBJECT))
        return "provider is for the CUSTOM action only";
    if (sw_json_str_eq(action, "DENY") && sw_json_len(sw_json_find(spec, "rules")) == 0)
        return "a DENY policy without rules has no effect";
    return NULL;
}

const char *mesh_policy_check(struct sw_arena *a, const struct sw_json *spec)
{
    const struct sw_json *rules = sw_json_find(spec, "rules");
    int targets = sw_json_is(sw_json_find(spec, "selector"), SW_JSON_OBJECT) +
                  sw_json_is(sw_json_find(spec, "targetRef"), SW_JSON_OBJECT) +
                  (sw_json_len(sw_json_find(spec, "targetRefs")) > 0);
    const char *why = NULL;

    if (targets > 1)
        return "at most one of selector, targetRef and targetRefs may be set";
    why = check_action(a, spec);
    for (size_t i = 0; i < sw_json_len(rules) && !why; i++)
        why = check_when(a, sw_json_find(sw_json_at(rules, i), "when"), i);
    return why;
}
