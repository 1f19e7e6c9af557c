/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights one hands on: nobody writes a role or a binding that grants more than he has, unless he
 * may "escalate" or "bind". Rules are taken apart into single rights, and each is looked for.
 */
#include <stdlib.h>
#include <string.h>

#include "apiserver/api.h"
#include "apiserver/authz_int.h"
#include "base/mem.h"
#include "base/vec.h"

enum { LACKS_MAX = 1000 };

/* One verb on one thing: what rules are made of. */
struct atom {
    struct sw_slice verb, group, resource, name, url;
    bool named, is_url;
};

typedef void (*atom_fn)(void *arg, const struct atom *t);

static void each_resource_atom(const struct api_rule *r, struct atom *t, atom_fn f, void *arg)
{
    for (size_t v = 0; v < sw_json_len(r->verbs); v++) {
        t->verb = sw_json_str(sw_json_at(r->verbs, v));
        t->named = sw_json_len(r->names) > 0;
        if (!t->named)
            f(arg, t);
        for (size_t i = 0; i < sw_json_len(r->names); i++) {
            t->name = sw_json_str(sw_json_at(r->names, i));
            f(arg, t);
        }
    }
}

static void each_atom(const struct api_rule *r, atom_fn f, void *arg)
{
    struct atom t = {0};

    for (size_t g = 0; g < sw_json_len(r->groups); g++) {
        t.group = sw_json_str(sw_json_at(r->groups, g));
        for (size_t i = 0; i < sw_json_len(r->resources); i++) {
            t.resource = sw_json_str(sw_json_at(r->resources, i));
            each_resource_atom(r, &t, f, arg);
        }
    }
    t = (struct atom){.is_url = true};
    for (size_t i = 0; i < sw_json_len(r->urls); i++) {
        t.url = sw_json_str(sw_json_at(r->urls, i));
        for (size_t v = 0; v < sw_json_len(r->verbs); v++) {
            t.verb = sw_json_str(sw_json_at(r->verbs, v));
            f(arg, &t);
        }
    }
}

static bool holds_atom(struct api_authz *z, const struct api_user *u, struct sw_slice ns,
                       const struct atom *t)
{
    struct sw_slice rest = t->resource;
    struct api_attrs at = {.user = u, .verb = t->verb, .path = t->url};

    if (t->is_url)
        return api_holds(z, u, sw_slice("", 0), &at);
    at.is_resource = true;
    at.group = t->group;
    at.resource = sw_slice_cut(&rest, '/');
    at.sub = rest.p ? rest : sw_slice("", 0);
    at.name = t->named ? t->name : sw_slice("", 0);
    return api_holds(z, u, ns, &at);
}

/* What a user lacks of some rules: a line per thing, with the verbs missing on it. */
struct lacking {
    struct api_req *r;
    SW_VEC(struct lack) all;
    bool cut; /* there are more */
};

struct lack {
    struct atom what;
    const char *verbs; /* quoted, in the order asked for */
};

static bool same_thing(const struct atom *a, const struct atom *b)
{
    return !a->is_url && !b->is_url && sw_slice_eq(a->group, b->group) &&
           sw_slice_eq(a->resource, b->resource) && a->named == b->named &&
           sw_slice_eq(a->name, b->name);
}

static void add_lack(void *arg, const struct atom *t)
{
    struct lacking *l = arg;
    struct sw_arena *a = l->r->arena;
    const char *verb;

    if (holds_atom(l->r->api->authz, &l->r->user, l->r->ns, t))
        return;
    verb = sw_go_quote(a, t->verb);
    for (size_t i = 0; i < l->all.n; i++) {
        struct lack *k = &l->all.p[i];

        if (same_thing(&k->what, t)) {
            if (!strstr(k->verbs, verb))
                k->verbs = sw_arena_printf(a, "%s %s", k->verbs, verb);
            return;
        }
    }
    if (l->all.n < LACKS_MAX)
        sw_vec_push(&l->all, ((struct lack){.what = *t, .verbs = verb}));
    else
        l->cut = true;
}

static const char *lack_text(struct sw_arena *a, const struct lack *k)
{
    const char *names = "";

    if (k->what.is_url)
        return sw_arena_printf(a, "{NonResourceURLs:[%s], Verbs:[%s]}", sw_go_quote(a, k->what.url),
                               k->verbs);
    if (k->what.named)
        names = sw_arena_printf(a, ", ResourceNames:[%s]", sw_go_quote(a, k->what.name));
    return sw_arena_printf(a, "{APIGroups:[%s], Resources:[%s]%s, Verbs:[%s]}",
                           sw_go_quote(a, k->what.group), sw_go_quote(a, k->what.resource), names,
                           k->verbs);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lines in alphabetical order, each once. */
static const char *lacks_text(const struct lacking *l)
{
    struct sw_arena *a = l->r->arena;
    const char **lines = sw_arena_array(a, l->all.n + 1, sizeof(*lines));
    SW_BUF_AUTO b = {.max = 1 << 20};
    int rc = SW_OK;

    for (size_t i = 0; i < l->all.n; i++)
        lines[i] = lack_text(a, &l->all.p[i]);
    qsort(lines, l->all.n, sizeof(*lines), by_text);
    for (size_t i = 0; i < l->all.n && rc == SW_OK; i++) {
        if (i == 0 || strcmp(lines[i], lines[i - 1]) != 0)
            rc = sw_buf_printf(&b, "\n%s", lines[i]);
    }
    if (rc == SW_OK && l->cut)
        rc = sw_buf_append_str(&b, "\n...");
    (void)rc;
    return sw_arena_dup(a, sw_buf_slice(&b));
}

static bool may(struct api_req *r, const char *verb, const char *resource, struct sw_slice ns,
                struct sw_slice name)
{
    struct api_attrs at = {.user = &r->user,
                           .verb = sw_slice_str(verb),
                           .is_resource = true,
                           .group = api_rbac_group,
                           .resource = sw_slice_str(resource),
                           .ns = ns,
                           .name = name};

    return api_allowed(r->api, r->arena, &at, NULL);
}

static bool may_grant(struct api_req *r, const struct sw_json *obj, const struct api_rule *rules,
                      size_t n)
{
    struct lacking l = {.r = r};
    struct sw_slice name = api_meta_str(obj, "name");
    const char *groups = "";

    for (size_t i = 0; i < n; i++)
        each_atom(&rules[i], add_lack, &l);
    if (l.all.n == 0)
        return true;
    for (size_t i = 0; i < r->user.ngroups; i++)
        groups = sw_arena_printf(r->arena, "%s%s%s", groups, i ? " " : "",
                                 sw_go_quote(r->arena, r->user.groups[i]));
    api_fail_res(r, 403, "Forbidden", name,
                 "%s \"%.*s\" is forbidden: user %s (groups=[%s]) is attempting to grant RBAC "
                 "permissions not currently held:%s",
                 api_gr(r->arena, r->res), SW_SLICE_ARG(name), sw_go_quote(r->arena, r->user.name),
                 groups, lacks_text(&l));
    sw_vec_done(&l.all);
    return false;
}

/*
 * An aggregation rule hands a role whatever other roles hold, now and later: writing one takes all
 * rights there are.
 */
static bool may_aggregate(struct api_req *r, const struct sw_json *obj, const struct sw_json *old)
{
    struct sw_json *all = sw_json_new_array(r->arena);
    const struct sw_json *none = sw_json_new_array(r->arena);
    const struct api_rule everything[] = {
        {.verbs = all, .groups = all, .resources = all, .names = none, .urls = none},
        {.verbs = all, .groups = none, .resources = none, .names = none, .urls = all},
    };
    const struct sw_json *now = sw_json_find(obj, "aggregationRule");
    struct lacking l = {.r = r};

    if (!now || sw_json_is(now, SW_JSON_NULL) ||
        (old && sw_json_equal(sw_json_find(old, "aggregationRule"), now, SW_JSON_EQ_VALUE)))
        return true;
    sw_json_push(r->arena, all, sw_json_new_str(r->arena, "*"));
    if (may(r, "escalate", r->res->plural, r->ns, api_meta_str(obj, "name")))
        return true;
    for (size_t i = 0; i < SW_ARRAY_LEN(everything); i++)
        each_atom(&everything[i], add_lack, &l);
    if (l.all.n == 0)
        return true;
    sw_vec_done(&l.all);
    api_fail_res(r, 403, "Forbidden", api_meta_str(obj, "name"),
                 "%s \"%.*s\" is forbidden: must have cluster-admin privileges to use the "
                 "aggregationRule",
                 api_gr(r->arena, r->res), SW_SLICE_ARG(api_meta_str(obj, "name")));
    return false;
}

/* A role that does not exist cannot be bound by those who need to hold its rights. */
static bool no_such_role(struct api_req *r, bool cluster, struct sw_slice name)
{
    struct sw_json *d = sw_json_new_object(r->arena);
    const char *plural = cluster ? "clusterroles" : "roles";

    sw_json_put_str(r->arena, d, "name", name);
    sw_json_put_str(r->arena, d, "group", api_rbac_group);
    sw_json_put_str(r->arena, d, "kind", sw_slice_str(plural));
    api_fail_details(r, 404, "NotFound",
                     sw_arena_printf(r->arena, "%s.rbac.authorization.k8s.io \"%.*s\" not found",
                                     plural, SW_SLICE_ARG(name)),
                     d);
    return false;
}

bool api_escalation_ok(struct api_req *r, const struct sw_json *obj, const struct sw_json *old)
{
    struct api_authz *z = r->api->authz;
    bool binding = strstr(r->res->plural, "bindings") != NULL;
    const struct sw_json *ref = sw_json_find(obj, "roleRef");
    const struct api_role *role = NULL;
    struct api_rule *rules = NULL;
    size_t n = 0;

    if (api_in_groups(&r->user, SW_SLICE_LIT("system:masters")))
        return true;
    api_authz_refresh(z);
    if (binding) {
        bool cluster = sw_json_str_eq(sw_json_find(ref, "kind"), "ClusterRole");
        struct sw_slice name = api_str(ref, "name");

        if (old && sw_json_equal(sw_json_find(old, "subjects"), sw_json_find(obj, "subjects"),
                                 SW_JSON_EQ_VALUE))
            return true;
        if (may(r, "bind", cluster ? "clusterroles" : "roles", r->ns, name))
            return true;
        role = api_role_find(z, cluster ? sw_slice("", 0) : r->ns, name);
        if (!role)
            return no_such_role(r, cluster, name);
        rules = role->rules;
        n = role->n;
    } else {
        if (!may_aggregate(r, obj, old))
            return false;
        if (old &&
            sw_json_equal(sw_json_find(old, "rules"), sw_json_find(obj, "rules"), SW_JSON_EQ_VALUE))
            return true;
        if (may(r, "escalate", r->res->plural, r->ns, api_meta_str(obj, "name")))
            return true;
        api_rules_read(r->arena, sw_json_find(obj, "rules"), &rules, &n);
    }
    return may_grant(r, obj, rules, n);
}
