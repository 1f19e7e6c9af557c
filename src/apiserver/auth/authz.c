/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RBAC. The roles and bindings are read from the store into one index, made anew after any of them
 * changed; a request walks the bindings that name its user. Only grants exist, no denials.
 */
#include <stdlib.h>
#include <string.h>

#include "apiserver/api/api.h"
#include "apiserver/auth/auth_int.h"
#include "base/mem.h"
#include "base/vec.h"
#include "kube/fields.h"
#include "kube/names.h"

enum { DANGLING_MAX = 16, REVIEW_RULES_MAX = 4096, REVIEW_ENTRIES_MAX = 65536 };

struct binding {
    struct sw_slice ns; /* empty: everywhere */
    struct sw_slice name;
    const struct sw_json *subjects;
    bool cluster_role;
    struct sw_slice role_name;
    const struct api_role *role; /* NULL: the role does not exist */
};

struct api_authz {
    struct sw_api *api;
    struct sw_arena arena;
    struct sw_map roles;
    struct sw_store_snap *snap; /* the trees borrow from it */
    SW_VEC(struct binding) bindings;
    bool fresh;
};

const char api_rules_cut[] = "the user has more rules than are listed";

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

static struct api_rule read_rule(const struct sw_json *v)
{
    return (struct api_rule){.verbs = sw_json_find(v, "verbs"),
                             .groups = sw_json_find(v, "apiGroups"),
                             .resources = sw_json_find(v, "resources"),
                             .names = sw_json_find(v, "resourceNames"),
                             .urls = sw_json_find(v, "nonResourceURLs")};
}

void api_rules_read(struct sw_arena *a, const struct sw_json *list, struct api_rule **ret,
                    size_t *ret_n)
{
    size_t n = sw_json_len(list);
    struct api_rule *p = sw_arena_array(a, n + 1, sizeof(*p));

    for (size_t i = 0; i < n; i++)
        p[i] = read_rule(sw_json_at(list, i));
    *ret = p;
    *ret_n = n;
}

typedef void (*each_fn)(struct api_authz *z, const struct sw_json *obj);

static void each(struct api_authz *z, const char *plural, each_fn f)
{
    const struct api_res *res = api_registry_v1(&z->api->reg, API_RBAC_GROUP, plural);

    SW_STORE_EACH (o, z->snap, sw_slice_str(res->prefix)) {
        const struct sw_json *obj = api_load(&z->arena, res, o);

        if (obj)
            f(z, obj);
    }
}

static void add_role(struct api_authz *z, const struct sw_json *obj)
{
    struct api_role *r = SW_ARENA_NEW(&z->arena, struct api_role);

    r->key = sw_name_key(&z->arena, api_meta_str(obj, "namespace"), api_meta_str(obj, "name"));
    api_rules_read(&z->arena, sw_json_find(obj, "rules"), &r->rules, &r->n);
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

    b.role = sw_map_get(
        &z->roles, sw_name_key(&z->arena, b.cluster_role ? sw_slice("", 0) : b.ns, b.role_name));
    sw_vec_push(&z->bindings, b);
}

void api_authz_refresh(struct api_authz *z)
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

const struct api_role *api_role_find(struct api_authz *z, struct sw_slice ns, struct sw_slice name)
{
    SW_ARENA_AUTO tmp = {0};

    return sw_map_get(&z->roles, sw_name_key(&tmp, ns, name));
}

/* --- matching --------------------------------------------------------------------------- */

static bool lists(const struct sw_json *v, struct sw_slice s)
{
    SW_JSON_ITEMS (it, v) {
        struct sw_slice x = sw_json_str(it);

        if (x.p && (sw_slice_eq_str(x, "*") || sw_slice_eq(x, s)))
            return true;
    }
    return false;
}

static bool lists_resource(const struct sw_json *v, struct sw_slice res, struct sw_slice sub)
{
    SW_JSON_ITEMS (it, v) {
        struct sw_slice rest = sw_json_str(it);
        struct sw_slice left;

        if (sw_json_str_eq(it, "*") || (rest.p && sub.n == 0 && sw_slice_eq(rest, res)))
            return true;
        left = rest.p ? sw_slice_cut(&rest, '/') : rest;
        if (sub.n && rest.p && sw_slice_eq(rest, sub) &&
            (sw_slice_eq_str(left, "*") || sw_slice_eq(left, res)))
            return true;
    }
    return false;
}

static bool lists_name(const struct sw_json *v, struct sw_slice name)
{
    return sw_json_len(v) == 0 || (name.n && sw_field_list_has(v, name));
}

static bool lists_url(const struct sw_json *v, struct sw_slice path)
{
    SW_JSON_ITEMS (it, v) {
        struct sw_slice x = sw_json_str(it);

        if (x.n && x.p[x.n - 1] == '*' ? sw_slice_has_prefix(path, sw_slice_head(x, x.n - 1))
                                       : x.p && sw_slice_eq(x, path))
            return true;
    }
    return false;
}

static bool rule_allows(const struct api_rule *r, const struct api_attrs *at)
{
    if (!lists(r->verbs, at->verb))
        return false;
    if (!at->is_resource)
        return lists_url(r->urls, at->path);
    return lists(r->groups, at->group) && lists_resource(r->resources, at->resource, at->sub) &&
           lists_name(r->names, at->name);
}

/* The subject that means this user; NULL when none does. */
static const struct sw_json *find_subject(const struct binding *b, const struct api_user *u)
{
    SW_JSON_ITEMS (s, b->subjects) {
        struct sw_slice kind = api_str(s, "kind");
        struct sw_slice name = api_str(s, "name");

        if (sw_slice_eq_str(kind, "User") && sw_slice_eq(name, u->name))
            return s;
        if (sw_slice_eq_str(kind, "Group") && api_in_groups(u, name))
            return s;
        if (sw_slice_eq_str(kind, "ServiceAccount")) {
            SW_ARENA_AUTO a = {0};
            struct sw_slice ns = api_str(s, "namespace");

            ns = ns.n ? ns : b->ns;
            if (sw_slice_eq(u->name, api_account_name(&a, ns, name)))
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

struct api_rule *api_rules_held(struct api_authz *z, struct sw_arena *a, const struct api_user *u,
                                struct sw_slice ns, size_t *ret_n)
{
    SW_VEC(const struct api_role *) roles = {0};
    struct api_rule *p;
    size_t n = 0;

    for (size_t i = 0; i < z->bindings.n; i++) {
        const struct binding *b = &z->bindings.p[i];

        if (b->role && applies(b, ns) && find_subject(b, u)) {
            sw_vec_push(&roles, b->role);
            n += b->role->n;
        }
    }
    p = sw_arena_array(a, n + 1, sizeof(*p));
    *ret_n = n;
    n = 0;
    for (size_t i = 0; i < roles.n; i++) {
        if (roles.p[i]->n)
            memcpy(p + n, roles.p[i]->rules, roles.p[i]->n * sizeof(*p));
        n += roles.p[i]->n;
    }
    sw_vec_done(&roles);
    return p;
}

/* A binding of the user to a role that does not exist: it grants nothing, and people wonder why. */
static void note_dangling(struct sw_texts *lost, const struct binding *b)
{
    const char *text = sw_arena_printf(lost->arena, "%s.rbac.authorization.k8s.io %s not found",
                                       b->cluster_role ? "clusterrole" : "role",
                                       sw_go_quote(lost->arena, b->role_name));

    if (lost->n < DANGLING_MAX && !sw_texts_has(lost, sw_slice_str(text)))
        sw_texts_add(lost, text);
}

/* "a", or "[a, b]"; NULL for none. */
static const char *dangling_text(const struct sw_texts *lost)
{
    if (lost->n <= 1)
        return lost->n ? lost->p[0] : NULL;
    return sw_arena_printf(lost->arena, "[%s]", sw_texts_join(lost));
}

bool api_allowed(struct sw_api *api, struct sw_arena *a, const struct api_attrs *at,
                 const char **ret_why)
{
    struct api_authz *z = api->authz;
    struct sw_texts lost = {.arena = a};

    if (ret_why)
        *ret_why = "";
    if (api_in_groups(at->user, SW_SLICE_LIT("system:masters")))
        return true;
    api_authz_refresh(z);
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
    if (ret_why && lost.n)
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

/* The method in lower case. */
static const char *url_verb(struct sw_arena *a, struct sw_slice method)
{
    char *verb = sw_arena_dup(a, sw_slice_head(method, 32));

    for (char *c = verb; *c; c++)
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    return verb;
}

struct api_attrs api_attrs_on(const struct api_user *u, const char *verb, struct sw_slice group,
                              struct sw_slice resource, struct sw_slice ns, struct sw_slice name)
{
    return (struct api_attrs){.user = u,
                              .verb = sw_slice_str(verb),
                              .is_resource = true,
                              .group = group,
                              .resource = resource,
                              .ns = ns,
                              .name = name};
}

struct api_attrs api_attrs_of(const struct api_req *r, struct sw_arena *a)
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

    if (!r->is_resource)
        at.verb = sw_slice_str(url_verb(a, r->method));
    else if (r->unknown_method)
        at.verb = sw_slice("", 0);
    return at;
}

bool api_authorize(struct api_req *r)
{
    struct api_attrs at = api_attrs_of(r, r->arena);
    const char *why;

    if (api_allowed(r->api, r->arena, &at, &why))
        return true;
    if (r->is_resource)
        api_fail_res(r, 403, "Forbidden", r->name, "%s", api_denied_text(r->arena, &at, why));
    else
        api_fail_details(r, 403, "Forbidden", api_denied_text(r->arena, &at, why),
                         sw_json_new_object(r->arena));
    return false;
}

/* --- what a user may do ----------------------------------------------------------------- */

static struct sw_json *copy_of(struct sw_arena *a, const struct sw_json *v)
{
    return v ? sw_json_copy(a, v) : NULL;
}

static size_t rule_entries(const struct api_rule *r)
{
    return 1 + sw_json_len(r->verbs) + sw_json_len(r->groups) + sw_json_len(r->resources) +
           sw_json_len(r->names) + sw_json_len(r->urls);
}

static void add_rule(struct sw_arena *a, const struct api_rule *r, struct sw_json *resources,
                     struct sw_json *others)
{
    struct sw_json *verbs = copy_of(a, r->verbs);

    if (sw_json_len(r->urls))
        sw_json_push(a, others,
                     SW_JSON_OF(a, {"verbs", .json = verbs},
                                {"nonResourceURLs", .json = copy_of(a, r->urls)}));
    else
        sw_json_push(a, resources,
                     SW_JSON_OF(a, {"verbs", .json = verbs},
                                {"apiGroups", .json = copy_of(a, r->groups)},
                                {"resources", .json = copy_of(a, r->resources)},
                                {"resourceNames",
                                 .json = sw_json_len(r->names) ? copy_of(a, r->names) : NULL}));
}

const char *api_user_rules(struct sw_api *api, struct sw_arena *a, const struct api_user *u,
                           struct sw_slice ns, struct sw_json *resource_rules,
                           struct sw_json *other_rules)
{
    struct api_authz *z = api->authz;
    struct sw_texts lost = {.arena = a};
    size_t rules = 0;
    size_t entries = 0;

    api_authz_refresh(z);
    for (size_t i = 0; i < z->bindings.n; i++) {
        const struct binding *b = &z->bindings.p[i];

        if (!applies(b, ns) || !find_subject(b, u))
            continue;
        if (!b->role)
            note_dangling(&lost, b);
        for (size_t k = 0; b->role && k < b->role->n; k++) {
            entries += rule_entries(&b->role->rules[k]);
            if (++rules > REVIEW_RULES_MAX || entries > REVIEW_ENTRIES_MAX)
                return api_rules_cut;
            add_rule(a, &b->role->rules[k], resource_rules, other_rules);
        }
    }
    return dangling_text(&lost);
}
