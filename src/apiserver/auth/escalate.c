/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Privilege escalation: no user may write a role or a binding that grants more than he holds,
 * unless he may "escalate" or "bind". The comparison of rules is in cover.c.
 */
#include <stdio.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/api/limits.h"
#include "apiserver/api/work.h"
#include "apiserver/auth/auth_int.h"
#include "apiserver/auth/cover.h"
#include "base/log.h"
#include "base/search.h"

enum {
    INLINE_STEPS = 2000000, /* some milliseconds of the loop */
    TEXT_MAX = 1 << 16,     /* bytes of an answer that lists what is lacking */
};

static const char *verbs_text(struct sw_arena *a, const struct api_lack *k)
{
    SW_BUF_AUTO b = {.max = TEXT_MAX};
    int rc = SW_OK;

    for (size_t i = 0; i < k->nverbs && rc == SW_OK; i++)
        rc = sw_buf_printf(&b, "%s%s", i ? " " : "", sw_go_quote(a, k->verbs[i]));
    return sw_arena_dup(a, sw_buf_slice(&b));
}

static const char *url_lack_text(struct sw_arena *a, const struct api_lack *k, size_t verb)
{
    return sw_arena_printf(a, "{NonResourceURLs:[%s], Verbs:[%s]}", sw_go_quote(a, k->url),
                           sw_go_quote(a, k->verbs[verb]));
}

static const char *lack_text(struct sw_arena *a, const struct api_lack *k)
{
    const char *names = "";

    if (k->named)
        names = sw_arena_printf(a, ", ResourceNames:[%s]", sw_go_quote(a, k->name));
    return sw_arena_printf(a, "{APIGroups:[%s], Resources:[%s]%s, Verbs:[%s]}",
                           sw_go_quote(a, k->group), sw_go_quote(a, k->resource), names,
                           verbs_text(a, k));
}

/* Lines in alphabetical order, each once; a URL has one per verb. */
static const char *lacks_text(const struct api_lacks *l)
{
    struct sw_arena *a = l->arena;
    struct sw_texts lines = {.arena = a};
    SW_BUF_AUTO b = {.max = TEXT_MAX};
    size_t bytes = 0;
    int rc = SW_OK;

    for (size_t i = 0; i < l->n && bytes <= TEXT_MAX; i++) {
        for (size_t v = 0; v < l->p[i].nverbs && l->p[i].is_url && lines.n < API_LACKS_MAX; v++)
            sw_texts_add(&lines, url_lack_text(a, &l->p[i], v));
        if (!l->p[i].is_url)
            sw_texts_add(&lines, lack_text(a, &l->p[i]));
        bytes += lines.n ? strlen(lines.p[lines.n - 1]) : 0;
    }
    if (lines.n)
        sw_text_sort(lines.p, lines.n);
    for (size_t i = 0; i < lines.n && rc == SW_OK; i++) {
        if (i == 0 || strcmp(lines.p[i], lines.p[i - 1]) != 0)
            rc = sw_buf_printf(&b, "\n%s", lines.p[i]);
    }
    return sw_arena_printf(a, "%.*s%s", SW_SLICE_ARG(sw_buf_slice(&b)),
                           rc != SW_OK || l->cut || bytes > TEXT_MAX ? "\n..." : "");
}

static bool may(struct api_req *r, const char *verb, const char *resource, struct sw_slice ns,
                struct sw_slice name)
{
    struct api_attrs at = api_attrs_on(&r->user, verb, SW_SLICE_LIT(API_RBAC_GROUP),
                                       sw_slice_str(resource), ns, name);

    return api_allowed(r->api, r->arena, &at, NULL);
}

static void own_rules(struct sw_arena *a, struct api_rule *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct sw_json **lists[] = {&p[i].verbs, &p[i].groups, &p[i].resources, &p[i].names,
                                          &p[i].urls};

        for (size_t k = 0; k < SW_ARRAY_LEN(lists); k++)
            *lists[k] = *lists[k] ? sw_json_copy(a, *lists[k]) : NULL;
    }
}

/* What the user lacks of the rules; SW_ELIMIT when that is too much to find out. */
static int find_lacks(struct api_req *r, const struct api_rule *rules, size_t n, uint64_t steps,
                      struct api_lacks *ret)
{
    struct sw_budget b = {.steps = steps};
    struct api_holder h;
    size_t nrules;
    size_t nurls;
    struct api_rule *held = api_rules_held(r->api->authz, r->arena, &r->user, r->ns, &nrules);
    struct api_rule *urls =
        api_rules_held(r->api->authz, r->arena, &r->user, sw_slice("", 0), &nurls);
    struct api_rule *wanted = sw_arena_array(r->arena, n + 1, sizeof(*wanted));
    int rc;

    if (n)
        memcpy(wanted, rules, n * sizeof(*wanted));
    if (api_work_here()) { /* the index may change meanwhile */
        own_rules(r->arena, held, nrules);
        own_rules(r->arena, urls, nurls);
        own_rules(r->arena, wanted, n);
    }
    h = (struct api_holder){.rules = held, .nrules = nrules, .urls = urls, .nurls = nurls};
    *ret = (struct api_lacks){.arena = r->arena};
    api_off_loop();
    rc = api_lacks_find(ret, &h, wanted, n, &b);
    api_lacks_done(ret);
    api_on_loop();
    return rc;
}

static bool may_grant(struct api_req *r, const struct sw_json *obj, const struct api_rule *rules,
                      size_t n)
{
    struct api_lacks l;
    struct sw_slice name = api_meta_str(obj, "name");
    const char *groups = "";

    bool moves = !api_work_here() && r->exec.fresh;
    int rc = find_lacks(r, rules, n, moves ? INLINE_STEPS : API_COVER_STEPS, &l);

    if (api_work_ended(r))
        return false;
    if (rc < 0 && moves) { /* more than the loop can spare */
        r->api->restart = r;
        return false;
    }
    if (rc < 0) {
        api_work_refused(r, API_WORK_ESCALATION, NULL);
        api_fail_res(r, 403, "Forbidden", name,
                     "%s \"%.*s\" is forbidden: its rules, compared with those of user %s, are "
                     "too many to be checked for escalation: use fewer entries, or split the role",
                     api_gr(r->arena, r->res), SW_SLICE_ARG(name),
                     sw_go_quote(r->arena, r->user.name));
        return false;
    }
    if (l.n == 0)
        return true;
    for (size_t i = 0; i < r->user.ngroups; i++)
        groups = sw_arena_printf(r->arena, "%s%s%s", groups, i ? " " : "",
                                 sw_go_quote(r->arena, r->user.groups[i]));
    api_fail_res(r, 403, "Forbidden", name,
                 "%s \"%.*s\" is forbidden: user %s (groups=[%s]) is attempting to grant RBAC "
                 "permissions not currently held:%s",
                 api_gr(r->arena, r->res), SW_SLICE_ARG(name), sw_go_quote(r->arena, r->user.name),
                 groups, lacks_text(&l));
    return false;
}

/*
 * An aggregation rule hands a role whatever other roles hold, now and later: writing one takes all
 * rights there are.
 */
static bool may_aggregate(struct api_req *r, const struct sw_json *obj, const struct sw_json *old)
{
    struct sw_json *all = sw_json_new_list(r->arena, sw_json_new_str(r->arena, "*"));
    const struct sw_json *none = sw_json_new_array(r->arena);
    const struct api_rule everything[] = {
        {.verbs = all, .groups = all, .resources = all, .names = none, .urls = none},
        {.verbs = all, .groups = none, .resources = none, .names = none, .urls = all},
    };
    const struct sw_json *now = sw_json_find(obj, "aggregationRule");
    struct api_lacks l;

    if (!now || sw_json_is(now, SW_JSON_NULL) ||
        (old && sw_json_equal(sw_json_find(old, "aggregationRule"), now, SW_JSON_EQ_VALUE)))
        return true;
    if (may(r, "escalate", r->res->plural, r->ns, api_meta_str(obj, "name")))
        return true;
    if (find_lacks(r, everything, SW_ARRAY_LEN(everything), API_COVER_STEPS, &l) == SW_OK &&
        l.n == 0)
        return true;
    api_fail_res(r, 403, "Forbidden", api_meta_str(obj, "name"),
                 "%s \"%.*s\" is forbidden: must have cluster-admin privileges to use the "
                 "aggregationRule",
                 api_gr(r->arena, r->res), SW_SLICE_ARG(api_meta_str(obj, "name")));
    return false;
}

/* Users without "bind" cannot bind a role that does not exist: its rights cannot be compared. */
static bool no_such_role(struct api_req *r, bool cluster, struct sw_slice name)
{
    const char *plural = cluster ? "clusterroles" : "roles";

    api_fail_details(r, 404, "NotFound",
                     sw_arena_printf(r->arena, "%s.rbac.authorization.k8s.io \"%.*s\" not found",
                                     plural, SW_SLICE_ARG(name)),
                     SW_JSON_OF(r->arena, {"name", .text = name}, {"group", .str = API_RBAC_GROUP},
                                {"kind", .str = plural}));
    return false;
}

/*
 * The rules of a cluster role also become those of the aggregated roles that select its labels, and
 * so of every subject bound to these. True when this write brings rules to an aggregated role that
 * the user may not escalate: then he has to hold them, whatever he may do with the role itself.
 */
static bool flows_on(struct api_req *r, const struct sw_json *obj, const struct sw_json *old,
                     bool same_rules)
{
    struct sw_slice *now;
    struct sw_slice *before = NULL;
    size_t n_before = 0;
    size_t n;

    if (strcmp(r->res->plural, "clusterroles") != 0)
        return false;
    n = api_aggregators(r, obj, &now);
    if (n && old && same_rules)
        n_before = api_aggregators(r, old, &before);
    for (size_t i = 0; i < n; i++) {
        if (!sw_slice_in(now[i], before, n_before) &&
            !may(r, "escalate", r->res->plural, r->ns, now[i]))
            return true;
    }
    return false;
}

/* What a role grants: an aggregated one also what it had, which comes back after a write. */
static const struct sw_json *granted(struct api_req *r, const struct sw_json *obj,
                                     const struct sw_json *old)
{
    const struct sw_json *lists_of[] = {sw_json_find(obj, "rules"), sw_json_find(old, "rules")};
    struct sw_json *all;

    if (!old || !sw_json_is(sw_json_find(obj, "aggregationRule"), SW_JSON_OBJECT))
        return lists_of[0];
    all = sw_json_new_array(r->arena);
    for (size_t k = 0; k < SW_ARRAY_LEN(lists_of); k++) {
        SW_JSON_ITEMS (it, lists_of[k])
            sw_json_push(r->arena, all, sw_json_copy(r->arena, it));
    }
    return all;
}

static bool role_ok(struct api_req *r, const struct sw_json *obj, const struct sw_json *old)
{
    bool same = old && sw_json_equal(sw_json_find(old, "rules"), sw_json_find(obj, "rules"),
                                     SW_JSON_EQ_VALUE);
    struct api_rule *rules = NULL;
    size_t n = 0;

    if (!may_aggregate(r, obj, old))
        return false;
    if ((same || may(r, "escalate", r->res->plural, r->ns, api_meta_str(obj, "name"))) &&
        !flows_on(r, obj, old, same))
        return true;
    api_rules_read(r->arena, granted(r, obj, old), &rules, &n);
    return may_grant(r, obj, rules, n);
}

static bool binding_ok(struct api_req *r, const struct sw_json *obj, const struct sw_json *old)
{
    const struct sw_json *ref = sw_json_find(obj, "roleRef");
    bool cluster = sw_json_str_eq(sw_json_find(ref, "kind"), "ClusterRole");
    struct sw_slice name = api_str(ref, "name");
    const struct api_role *role;

    if (old && sw_json_equal(sw_json_find(old, "subjects"), sw_json_find(obj, "subjects"),
                             SW_JSON_EQ_VALUE))
        return true;
    if (may(r, "bind", cluster ? "clusterroles" : "roles", r->ns, name))
        return true;
    role = api_role_find(r->api->authz, cluster ? sw_slice("", 0) : r->ns, name);
    return role ? may_grant(r, obj, role->rules, role->n) : no_such_role(r, cluster, name);
}

bool api_escalation_ok(struct api_req *r, const struct sw_json *obj, const struct sw_json *old)
{
    struct sw_api *api = r->api;
    struct sw_slice name = api_meta_str(obj, "name");
    char what[512]; /* the request is gone once it is answered */
    bool ok;

    if (api_in_groups(&r->user, SW_SLICE_LIT("system:masters")))
        return true;
    (void)snprintf(what, sizeof(what), "user '%.*s' may not write %s '%.*s'",
                   (int)sw_min(r->user.name.n, 200), r->user.name.p, r->res->plural,
                   (int)sw_min(name.n, 200), name.p);
    api_authz_refresh(api->authz);
    ok = strstr(r->res->plural, "bindings") ? binding_ok(r, obj, old) : role_ok(r, obj, old);
    if (!ok && api->restart != r) { /* else it is judged again, on a worker */
        api->refused.escalations++;
        sw_log_warn("api", "%s: it would grant more than that user holds", what);
    }
    return ok;
}
