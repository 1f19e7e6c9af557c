/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/convert.h"

#include <string.h>

#include "base/buf.h"
#include "base/search.h"
#include "control/mesh/policy/check.h"
#include "control/mesh/policy/rule.h"
#include "policy/pack.h"

enum { MESSAGE_MAX = 4096 };

static const char http_head[] = "ztunnel does not support HTTP attributes (found: ";
static const char http_hint[] =
    "). In ambient mode you must use a waypoint proxy to enforce HTTP rules. ";
static const char http_allow[] =
    "Within an ALLOW policy, rules matching HTTP attributes are omitted. This will be more "
    "restrictive than requested.";
static const char http_deny[] =
    "DENY policy with HTTP attributes is enforced without the HTTP rules. This will be more "
    "restrictive than requested.";
static const char http_no_effect[] =
    "After omitting unsupported HTTP attributes, this DENY policy has no enforceable rules at "
    "ztunnel and will have no effect. Deploy a waypoint proxy and use a targetRef to enforce this "
    "policy.";

static void judge(struct mesh_authz *p, bool status, const char *reason, struct sw_slice message)
{
    p->judged = true;
    p->condition = (struct sw_mesh_condition){
        .type = "ZtunnelAccepted", .status = status, .reason = reason, .message = message};
}

/* The attributes found, in order and once each. */
static struct sw_slice http_message(struct mesh_rules *c, const char *tail)
{
    SW_BUF_AUTO b = {.max = MESSAGE_MAX};
    bool ok = sw_buf_append_str(&b, http_head) == SW_OK;

    sw_text_sort(c->http.p, c->http.n);
    for (size_t i = 0; i < c->http.n && ok; i++) {
        if (i && strcmp(c->http.p[i - 1], c->http.p[i]) == 0)
            continue;
        /* the rest of the message always has room */
        ok = sw_buf_len(&b) + strlen(c->http.p[i]) < MESSAGE_MAX / 2 &&
             sw_buf_printf(&b, "%s%s", i ? ", " : "", c->http.p[i]) == SW_OK;
    }
    (void)!sw_buf_append_str(&b, http_hint);
    (void)!sw_buf_append_str(&b, tail);
    return sw_arena_slice(c->arena, sw_buf_slice(&b));
}

static bool any_effective(const struct sw_policy *p)
{
    for (size_t i = 0; i < p->n; i++) {
        if (mesh_rule_effective(&p->rules[i]))
            return true;
    }
    return false;
}

/* Go's strconv.ParseBool; what cannot be read is false. */
static bool is_true(struct sw_slice s)
{
    static const char *const yes[] = {"1", "t", "T", "TRUE", "true", "True"};

    for (size_t i = 0; i < SW_ARRAY_LEN(yes); i++) {
        if (sw_slice_eq_str(s, yes[i]))
            return true;
    }
    return false;
}

static bool for_waypoints(const struct sw_json *spec)
{
    return sw_json_is(sw_json_find(spec, "targetRef"), SW_JSON_OBJECT) ||
           sw_json_len(sw_json_find(spec, "targetRefs")) > 0;
}

/* False: the action is not one of nodes, and the condition says so. */
static bool read_action(struct sw_arena *a, const struct sw_json *spec, struct mesh_authz *ret,
                        enum sw_policy_action *ret_action)
{
    const struct sw_json *v = sw_json_find(spec, "action");

    *ret_action = SW_POLICY_ALLOW;
    if (!v || v->type == SW_JSON_NULL || sw_json_str_eq(v, "ALLOW"))
        return true;
    *ret_action = SW_POLICY_DENY;
    if (sw_json_str_eq(v, "DENY"))
        return true;
    judge(ret, false, "UnsupportedValue",
          sw_slice_str(sw_arena_printf(a, "ztunnel does not support the %.*s action",
                                       SW_SLICE_ARG(sw_slice_head(sw_json_str(v), 64)))));
    return false;
}

static void judge_converted(struct mesh_rules *c, const struct sw_policy *p,
                            const struct sw_json *spec, struct mesh_authz *ret)
{
    const char *why = mesh_policy_check(c->arena, spec);
    const char *tail = http_allow;

    if (!why && c->bad)
        why = sw_arena_printf(c->arena, "invalid value in %s", c->bad);
    if (p->action == SW_POLICY_DENY)
        tail = any_effective(p) ? http_deny : http_no_effect;
    if (why)
        judge(ret, false, "Invalid", sw_slice_str(why));
    else if (c->http.n)
        judge(ret, true, "UnsupportedValue", http_message(c, tail));
    else
        judge(ret, true, "Accepted", SW_SLICE_LIT("attached to ztunnel"));
}

static void convert(struct sw_arena *a, const struct sw_json *spec, struct sw_policy *p,
                    struct mesh_authz *ret)
{
    const struct sw_json *list = sw_json_find(spec, "rules");
    struct sw_policy_rule *rules = sw_arena_array(a, sw_json_len(list), sizeof(*rules));
    struct mesh_rules c = {.arena = a, .action = p->action, .ns = ret->ns};

    for (size_t i = 0; sw_json_is(list, SW_JSON_ARRAY) && i < sw_json_len(list); i++)
        p->n += mesh_rule_convert(&c, sw_json_at(list, i), &rules[p->n]);
    p->rules = rules;
    judge_converted(&c, p, spec, ret);
    ret->value = sw_policy_pack(a, p);
    mesh_rules_done(&c);
}

void mesh_authz_read(struct sw_arena *a, const struct sw_mesh_policy_conf *conf,
                     const struct sw_json *obj, struct mesh_authz *ret)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    const struct sw_json *dry =
        sw_json_walk(obj, "metadata", "annotations", "istio.io/dry-run", NULL);
    struct sw_policy p = {.name = ret->name, .ns = ret->ns, .dry_run = is_true(sw_json_str(dry))};

    if (for_waypoints(spec) || !read_action(a, spec, ret, &p.action))
        return;
    if (p.dry_run && !conf->dry_run) {
        const char *text = sw_arena_printf(
            a,
            "found policy \"%.*s\" using dry-run annotation, but support for ambient dry-run "
            "authorizationPolicies isn't enabled",
            SW_SLICE_ARG(ret->key));

        judge(ret, false, "UnsupportedValue", sw_slice_str(text));
        return;
    }
    ret->selector = mesh_selector_read(a, spec);
    if (ret->selector.n)
        p.scope = SW_POLICY_SELECTOR;
    else
        p.scope = sw_slice_eq(ret->ns, conf->root_ns) ? SW_POLICY_GLOBAL : SW_POLICY_NAMESPACE;
    convert(a, spec, &p, ret);
}

struct sw_slice mesh_authz_waypoint(struct sw_arena *a, const struct sw_mesh_policy_conf *conf,
                                    struct sw_slice ns, struct sw_slice name,
                                    const struct sw_slice *accounts, size_t n)
{
    struct sw_strmatch *who = sw_arena_array(a, n, sizeof(*who));
    struct sw_policy_match match = {.principals = {who, n}};
    struct sw_policy_clause clause = {&match, 1};
    struct sw_policy_rule rule = {&clause, 1};
    struct sw_policy p = {
        .ns = ns, .name = name, .scope = SW_POLICY_SELECTOR, .rules = &rule, .n = 1};

    for (size_t i = 0; i < n; i++)
        who[i] =
            (struct sw_strmatch){.kind = SW_STRMATCH_EXACT,
                                 .text = sw_slice_str(sw_arena_printf(
                                     a, "%.*s/ns/%.*s/sa/%.*s", SW_SLICE_ARG(conf->trust_domain),
                                     SW_SLICE_ARG(ns), SW_SLICE_ARG(accounts[i])))};
    return sw_policy_pack(a, &p);
}
