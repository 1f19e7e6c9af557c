/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RBAC. The roles and bindings are read from the store into one index, made anew after any of them
 * changed; a request walks the bindings that name its user. Only grants exist, no denials.
 */
#include <stdlib.h>
#include <string.h>

#include "apiserver/api.h"
#include "base/mem.h"
#include "base/vec.h"

enum { DANGLING_MAX = 16, LACKS_MAX = 1000 };

struct rule {
    const struct sw_json *verbs, *groups, *resources, *names, *urls;
};

struct role {
    struct sw_slice key; /* "ns/name", cluster roles: "/name" */
    struct rule *rules;
    size_t n;
};

struct binding {
    struct sw_slice ns; /* empty: everywhere */
    struct sw_slice name;
    const struct sw_json *subjects;
    bool cluster_role;
    struct sw_slice role_name;
    const struct role *role; /* NULL: the role does not exist */
};

struct api_authz {
    struct sw_api *api;
    struct sw_arena arena;
    struct sw_map roles;
    struct sw_store_snap *snap; /* the trees borrow from it */
    SW_VEC(struct binding) bindings;
    bool fresh;
};

static const struct sw_slice rbac_group = SW_SLICE_LIT("rbac.authorization.k8s.io");

struct api_authz *api_authz_new(struct sw_api *api)
{
    struct api_authz *z = SW_NEW(struct api_authz);

    z->api = api;
    return z;
}

static void forget(struct api_authz *z)
{
    sw_map_done(&z->roles);
    z->roles = (struct sw_map){0};
    z->bindings.n = 0;
    sw_arena_clear(&z->arena);
    z->snap = sw_store_snap_unref(z->snap);
    z->fresh = false;
}

void api_authz_free(struct api_authz *z)
{
    if (!z)
        return;
    forget(z);
    sw_vec_done(&z->bindings);
    sw_free(z);
}

void api_authz_changed(struct sw_api *api)
{
    api->authz->fresh = false;
}

/* --- the index -------------------------------------------------------------------------- */

static struct rule read_rule(const struct sw_json *v)
{
    return (struct rule){.verbs = sw_json_find(v, "verbs"),
                         .groups = sw_json_find(v, "apiGroups"),
                         .resources = sw_json_find(v, "resources"),
                         .names = sw_json_find(v, "resourceNames"),
                         .urls = sw_json_find(v, "nonResourceURLs")};
}

static void read_rules(struct sw_arena *a, const struct sw_json *list, struct rule **ret,
                       size_t *ret_n)
{
    size_t n = sw_json_len(list);
    struct rule *p = sw_arena_array(a, n + 1, sizeof(*p));

    for (size_t i = 0; i < n; i++)
        p[i] = read_rule(sw_json_at(list, i));
    *ret = p;
    *ret_n = n;
}

typedef void (*each_fn)(struct api_authz *z, const struct sw_json *obj);

static void each(struct api_authz *z, const char *plural, each_fn f)
{
    const struct api_res *res =
        api_registry_find(&z->api->reg, rbac_group, SW_SLICE_LIT("v1"), sw_slice_str(plural));
    struct sw_store_iter it;
    struct sw_store_obj *o;

    sw_store_iter_init(&it, z->snap, sw_slice_str(res->prefix), sw_slice("", 0));
    while ((o = sw_store_iter_next(&it))) {
        const struct sw_json *obj = api_load(&z->arena, res, o);

        if (obj)
            f(z, obj);
    }
}

static struct sw_slice role_key(struct sw_arena *a, struct sw_slice ns, struct sw_slice name)
{
    return sw_slice_str(sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(ns), SW_SLICE_ARG(name)));
}

static void add_role(struct api_authz *z, const struct sw_json *obj)
{
    struct role *r = SW_ARENA_NEW(&z->arena, struct role);

    r->key = role_key(&z->arena, api_meta_str(obj, "namespace"), api_meta_str(obj, "name"));
    read_rules(&z->arena, sw_json_find(obj, "rules"), &r->rules, &r->n);
    (void)sw_map_put(&z->roles, r->key, r);
}

static void add_binding(struct api_authz *z, const struct sw_json *obj)
{
    const struct sw_json *ref = sw_json_find(obj, "roleRef");
    struct binding b = {.ns = api_meta_str(obj, "namespace"),
                        .name = api_meta_str(obj, "name"),
                        .subjects = sw_json_find(obj, "subjects"),
                        .cluster_role = sw_json_str_eq(sw_json_find(ref, "kind"), "ClusterRole"),
                        .role_name = api_str(ref, "name")};

    b.role = sw_map_get(&z->roles,
                        role_key(&z->arena, b.cluster_role ? sw_slice("", 0) : b.ns, b.role_name));
    sw_vec_push(&z->bindings, b);
}

static void refresh(struct api_authz *z)
{
    if (z->fresh)
        return;
    forget(z);
    z->snap = sw_store_snapshot(z->api->store);
    each(z, "clusterroles", add_role);
    each(z, "roles", add_role);
    each(z, "clusterrolebindings", add_binding);
    each(z, "rolebindings", add_binding);
    z->fresh = true;
}

/* --- matching --------------------------------------------------------------------------- */

static bool lists(const struct sw_json *v, struct sw_slice s)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        struct sw_slice x = sw_json_str(sw_json_at(v, i));

        if (x.p && (sw_slice_eq_str(x, "*") || sw_slice_eq(x, s)))
            return true;
    }
    return false;
}

static bool lists_resource(const struct sw_json *v, struct sw_slice res, struct sw_slice sub)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        struct sw_slice x = sw_json_str(sw_json_at(v, i));
        ptrdiff_t slash;

        if (!x.p)
            continue;
        if (sw_slice_eq_str(x, "*"))
            return true;
        slash = sw_slice_find(x, '/');
        if (sub.n == 0) {
            if (sw_slice_eq(x, res))
                return true;
        } else if (slash >= 0) {
            struct sw_slice left = sw_slice_head(x, (size_t)slash);

            if (sw_slice_eq(sw_slice_from(x, (size_t)slash + 1), sub) &&
                (sw_slice_eq_str(left, "*") || sw_slice_eq(left, res)))
                return true;
        }
    }
    return false;
}

static bool lists_name(const struct sw_json *v, struct sw_slice name)
{
    if (sw_json_len(v) == 0)
        return true;
    for (size_t i = 0; i < sw_json_len(v); i++) {
        if (name.n && sw_slice_eq(sw_json_str(sw_json_at(v, i)), name))
            return true;
    }
    return false;
}

static bool lists_url(const struct sw_json *v, struct sw_slice path)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        struct sw_slice x = sw_json_str(sw_json_at(v, i));

        if (!x.p)
            continue;
        if (sw_slice_eq_str(x, "*") || sw_slice_eq(x, path))
            return true;
        if (x.n && x.p[x.n - 1] == '*' && sw_slice_has_prefix(path, sw_slice_head(x, x.n - 1)))
            return true;
    }
    return false;
}

static bool rule_allows(const struct rule *r, const struct api_attrs *at)
{
    if (!lists(r->verbs, at->verb))
        return false;
    if (!at->is_resource)
        return lists_url(r->urls, at->path);
    return lists(r->groups, at->group) && lists_resource(r->resources, at->resource, at->sub) &&
           lists_name(r->names, at->name);
}

static bool in_groups(const struct api_user *u, struct sw_slice g)
{
    for (size_t i = 0; i < u->ngroups; i++) {
        if (sw_slice_eq(u->groups[i], g))
            return true;
    }
    return false;
}

/* The subject that means this user; NULL when none does. */
static const struct sw_json *find_subject(const struct binding *b, const struct api_user *u)
{
    for (size_t i = 0; i < sw_json_len(b->subjects); i++) {
        const struct sw_json *s = sw_json_at(b->subjects, i);
        struct sw_slice kind = api_str(s, "kind");
        struct sw_slice name = api_str(s, "name");

        if (sw_slice_eq_str(kind, "User") && sw_slice_eq(name, u->name))
            return s;
        if (sw_slice_eq_str(kind, "Group") && in_groups(u, name))
            return s;
        if (sw_slice_eq_str(kind, "ServiceAccount")) {
            SW_ARENA_AUTO a = {0};
            struct sw_slice ns = api_str(s, "namespace");

            ns = ns.n ? ns : b->ns;
            if (sw_slice_eq_str(u->name, sw_arena_printf(&a, "system:serviceaccount:%.*s:%.*s",
                                                         SW_SLICE_ARG(ns), SW_SLICE_ARG(name))))
                return s;
        }
    }
    return NULL;
}

static const char *explain(struct sw_arena *a, const struct binding *b, const struct sw_json *s)
{
    struct sw_slice ns = api_str(s, "namespace");
    struct sw_slice name = api_str(s, "name");
    const char *subject;
    bool sa = sw_json_str_eq(sw_json_find(s, "kind"), "ServiceAccount");

    ns = ns.n ? ns : b->ns;
    subject = sa ? sw_arena_printf(a, "ServiceAccount \"%.*s/%.*s\"", SW_SLICE_ARG(name),
                                   SW_SLICE_ARG(ns))
                 : sw_arena_printf(a, "%.*s \"%.*s\"", SW_SLICE_ARG(api_str(s, "kind")),
                                   SW_SLICE_ARG(name));
    if (b->ns.n)
        return sw_arena_printf(a, "RBAC: allowed by RoleBinding \"%.*s/%.*s\" of %s \"%.*s\" to %s",
                               SW_SLICE_ARG(b->name), SW_SLICE_ARG(b->ns),
                               b->cluster_role ? "ClusterRole" : "Role", SW_SLICE_ARG(b->role_name),
                               subject);
    return sw_arena_printf(a, "RBAC: allowed by ClusterRoleBinding \"%.*s\" of %s \"%.*s\" to %s",
                           SW_SLICE_ARG(b->name), b->cluster_role ? "ClusterRole" : "Role",
                           SW_SLICE_ARG(b->role_name), subject);
}

static bool applies(const struct binding *b, struct sw_slice ns)
{
    return b->ns.n == 0 || (ns.n && sw_slice_eq(b->ns, ns));
}

/* Bindings of the user to roles that do not exist: they grant nothing, and people wonder why. */
struct dangling {
    struct sw_texts all;
};

static void note_dangling(struct dangling *d, const struct binding *b)
{
    const char *text = sw_arena_printf(d->all.arena, "%s.rbac.authorization.k8s.io %s not found",
                                       b->cluster_role ? "clusterrole" : "role",
                                       sw_go_quote(d->all.arena, b->role_name));

    for (size_t i = 0; i < d->all.n; i++) {
        if (strcmp(d->all.p[i], text) == 0)
            return;
    }
    if (d->all.n < DANGLING_MAX)
        sw_texts_add(&d->all, text);
}

/* "a", or "[a, b]"; NULL for none. */
static const char *dangling_text(const struct dangling *d)
{
    const char *text = "";

    if (d->all.n <= 1)
        return d->all.n ? d->all.p[0] : NULL;
    for (size_t i = 0; i < d->all.n; i++)
        text = sw_arena_printf(d->all.arena, "%s%s%s", text, i ? ", " : "", d->all.p[i]);
    return sw_arena_printf(d->all.arena, "[%s]", text);
}

bool api_allowed(struct sw_api *api, struct sw_arena *a, const struct api_attrs *at,
                 const char **ret_why)
{
    struct api_authz *z = api->authz;
    struct dangling lost = {.all = {.arena = a}};

    if (ret_why)
        *ret_why = "";
    if (in_groups(at->user, SW_SLICE_LIT("system:masters")))
        return true;
    refresh(z);
    for (size_t i = 0; i < z->bindings.n; i++) {
        const struct binding *b = &z->bindings.p[i];
        const struct sw_json *s;

        if (!applies(b, at->is_resource ? at->ns : sw_slice("", 0)))
            continue;
        s = find_subject(b, at->user);
        if (s && !b->role)
            note_dangling(&lost, b);
        for (size_t k = 0; s && b->role && k < b->role->n; k++) {
            if (rule_allows(&b->role->rules[k], at)) {
                if (ret_why)
                    *ret_why = explain(a, b, s);
                return true;
            }
        }
    }
    if (ret_why && lost.all.n)
        *ret_why = sw_arena_printf(a, "RBAC: %s", dangling_text(&lost));
    return false;
}

const char *api_denied_text(struct sw_arena *a, const struct api_attrs *at, const char *why)
{
    const char *what;
    const char *where;
    const char *colon = why && *why ? ": " : "";

    why = why ? why : "";
    if (!at->is_resource)
        return sw_arena_printf(a, "forbidden: User \"%.*s\" cannot %.*s path \"%.*s\"%s%s",
                               SW_SLICE_ARG(at->user->name), SW_SLICE_ARG(at->verb),
                               SW_SLICE_ARG(at->path), colon, why);
    what =
        sw_arena_printf(a, "%.*s%s%.*s%s", SW_SLICE_ARG(at->resource), at->group.n ? "." : "",
                        SW_SLICE_ARG(at->group),
                        at->name.n ? sw_arena_printf(a, " \"%.*s\"", SW_SLICE_ARG(at->name)) : "");
    where = at->ns.n ? sw_arena_printf(a, "in the namespace \"%.*s\"", SW_SLICE_ARG(at->ns))
                     : "at the cluster scope";
    return sw_arena_printf(a,
                           "%s is forbidden: User \"%.*s\" cannot %.*s resource \"%.*s%s%.*s\" in "
                           "API group \"%.*s\" %s%s%s",
                           what, SW_SLICE_ARG(at->user->name), SW_SLICE_ARG(at->verb),
                           SW_SLICE_ARG(at->resource), at->sub.n ? "/" : "", SW_SLICE_ARG(at->sub),
                           SW_SLICE_ARG(at->group), where, colon, why);
}

static const char *url_verb(struct sw_slice method)
{
    if (sw_slice_eq_str(method, "POST"))
        return "post";
    if (sw_slice_eq_str(method, "PUT"))
        return "put";
    if (sw_slice_eq_str(method, "PATCH"))
        return "patch";
    if (sw_slice_eq_str(method, "DELETE"))
        return "delete";
    return sw_slice_eq_str(method, "HEAD") ? "head" : "get";
}

bool api_authorize(struct api_req *r)
{
    struct api_attrs at = {.user = &r->user,
                           .verb = sw_slice_str(api_verb_name(r->verb)),
                           .is_resource = r->is_resource,
                           .group = r->group,
                           .resource = r->resource,
                           .sub = r->sub,
                           .ns = r->ns,
                           .name = r->name,
                           .path = r->path};

    const char *why;

    if (!r->is_resource)
        at.verb = sw_slice_str(url_verb(r->method));
    if (api_allowed(r->api, r->arena, &at, &why))
        return true;
    if (r->is_resource)
        api_fail_res(r, 403, "Forbidden", r->name, "%s", api_denied_text(r->arena, &at, why));
    else
        api_fail_details(r, 403, "Forbidden", api_denied_text(r->arena, &at, why),
                         sw_json_new_object(r->arena));
    return false;
}

/* --- rights one hands on ---------------------------------------------------------------- */

/* True when one of the user's rules grants this single right; "*" is granted by "*" only. */
static bool holds(struct api_authz *z, const struct api_user *u, struct sw_slice ns,
                  const struct api_attrs *at)
{
    for (size_t i = 0; i < z->bindings.n; i++) {
        const struct binding *b = &z->bindings.p[i];

        if (!b->role || !applies(b, ns) || !find_subject(b, u))
            continue;
        for (size_t k = 0; k < b->role->n; k++) {
            if (rule_allows(&b->role->rules[k], at))
                return true;
        }
    }
    return false;
}

/* One verb on one thing: what rules are made of. */
struct atom {
    struct sw_slice verb, group, resource, name, url;
    bool named, is_url;
};

typedef void (*atom_fn)(void *arg, const struct atom *t);

static void each_resource_atom(const struct rule *r, struct atom *t, atom_fn f, void *arg)
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

static void each_atom(const struct rule *r, atom_fn f, void *arg)
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
        return holds(z, u, sw_slice("", 0), &at);
    at.is_resource = true;
    at.group = t->group;
    at.resource = sw_slice_cut(&rest, '/');
    at.sub = rest.p ? rest : sw_slice("", 0);
    at.name = t->named ? t->name : sw_slice("", 0);
    return holds(z, u, ns, &at);
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
                           .group = rbac_group,
                           .resource = sw_slice_str(resource),
                           .ns = ns,
                           .name = name};

    return api_allowed(r->api, r->arena, &at, NULL);
}

static bool may_grant(struct api_req *r, const struct sw_json *obj, const struct rule *rules,
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
    const struct rule everything[] = {
        {.verbs = all, .groups = all, .resources = all},
        {.verbs = all, .urls = all},
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
    sw_json_put_str(r->arena, d, "group", rbac_group);
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
    const struct role *role = NULL;
    struct rule *rules = NULL;
    size_t n = 0;

    if (in_groups(&r->user, SW_SLICE_LIT("system:masters")))
        return true;
    refresh(z);
    if (binding) {
        bool cluster = sw_json_str_eq(sw_json_find(ref, "kind"), "ClusterRole");
        struct sw_slice name = api_str(ref, "name");

        if (old && sw_json_equal(sw_json_find(old, "subjects"), sw_json_find(obj, "subjects"),
                                 SW_JSON_EQ_VALUE))
            return true;
        if (may(r, "bind", cluster ? "clusterroles" : "roles", r->ns, name))
            return true;
        role = sw_map_get(&z->roles, role_key(r->arena, cluster ? sw_slice("", 0) : r->ns, name));
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
        read_rules(r->arena, sw_json_find(obj, "rules"), &rules, &n);
    }
    return may_grant(r, obj, rules, n);
}

/* --- what a user may do ----------------------------------------------------------------- */

static void put_copy(struct sw_arena *a, struct sw_json *to, const char *key,
                     const struct sw_json *v)
{
    if (v)
        sw_json_put(a, to, key, sw_json_copy(a, v));
}

static void add_rule(struct sw_arena *a, const struct rule *r, struct sw_json *resources,
                     struct sw_json *others)
{
    struct sw_json *v = sw_json_new_object(a);

    put_copy(a, v, "verbs", r->verbs);
    if (sw_json_len(r->urls)) {
        put_copy(a, v, "nonResourceURLs", r->urls);
        sw_json_push(a, others, v);
        return;
    }
    put_copy(a, v, "apiGroups", r->groups);
    put_copy(a, v, "resources", r->resources);
    if (sw_json_len(r->names))
        put_copy(a, v, "resourceNames", r->names);
    sw_json_push(a, resources, v);
}

const char *api_user_rules(struct sw_api *api, struct sw_arena *a, const struct api_user *u,
                           struct sw_slice ns, struct sw_json *resource_rules,
                           struct sw_json *other_rules)
{
    struct api_authz *z = api->authz;
    struct dangling lost = {.all = {.arena = a}};

    refresh(z);
    for (size_t i = 0; i < z->bindings.n; i++) {
        const struct binding *b = &z->bindings.p[i];

        if (!applies(b, ns) || !find_subject(b, u))
            continue;
        if (!b->role)
            note_dangling(&lost, b);
        for (size_t k = 0; b->role && k < b->role->n; k++)
            add_rule(a, &b->role->rules[k], resource_rules, other_rules);
    }
    return dangling_text(&lost);
}
