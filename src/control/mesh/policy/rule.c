/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/rule.h"

#include <stddef.h>
#include <string.h>

enum { PAIRS_MAX = 4096 }; /* of trust domains and principals in one source */

/* What the values of an attribute are. */
enum value_kind {
    VALUE_NAMESPACE,
    VALUE_PRINCIPAL,
    VALUE_ACCOUNT,
    VALUE_TRUST_DOMAIN,
    VALUE_SOURCE_IP,
    VALUE_DESTINATION_IP,
    VALUE_PORT,
};

struct attribute {
    const char *yes; /* the positive list, or the key of a condition */
    const char *no;
    enum value_kind kind;
};

static const struct attribute of_source[] = {
    {"ipBlocks", "notIpBlocks", VALUE_SOURCE_IP},
    {"namespaces", "notNamespaces", VALUE_NAMESPACE},
    {"serviceAccounts", "notServiceAccounts", VALUE_ACCOUNT},
    {"principals", "notPrincipals", VALUE_PRINCIPAL},
    {"trustDomains", "notTrustDomains", VALUE_TRUST_DOMAIN},
};

static const struct attribute of_operation[] = {{"ports", "notPorts", VALUE_PORT}};

static const struct attribute of_condition[] = {
    {"source.ip", NULL, VALUE_SOURCE_IP},
    {"source.namespace", NULL, VALUE_NAMESPACE},
    {"source.principal", NULL, VALUE_PRINCIPAL},
    {"source.serviceAccount", NULL, VALUE_ACCOUNT},
    {"source.trustDomain", NULL, VALUE_TRUST_DOMAIN},
    {"destination.ip", NULL, VALUE_DESTINATION_IP},
    {"destination.port", NULL, VALUE_PORT},
};

static const char *const http_source[] = {"remoteIpBlocks", "notRemoteIpBlocks",
                                          "requestPrincipals", "notRequestPrincipals", NULL};
static const char *const http_operation[] = {"hosts", "notHosts", "methods", "notMethods",
                                             "paths", "notPaths", NULL};

/* A match that is being put together. */
struct draft {
    struct sw_policy_match m;
    struct sw_strmatch_list domains; /* principals that are in the trust domains */
    bool never;                      /* the match holds for no peer */
};

/* One list of values of an attribute. */
struct values {
    const struct sw_json *list;
    const char *name;
    bool no;
    size_t bad;
};

static void note_http(struct mesh_rules *c, const char *name)
{
    sw_vec_push(&c->http, name);
}

static void note_bad(struct mesh_rules *c, struct values *v, const struct sw_json *x)
{
    v->bad++;
    if (!c->bad)
        c->bad = sw_arena_printf(c->arena, "%s: '%.*s'", v->name,
                                 SW_SLICE_ARG(sw_slice_head(sw_json_str(x), 64)));
}

/* ---- values ---- */

/* Items of a list; p is of the arena. */
struct items {
    const void *p;
    size_t n;
};

/* False: the text is none. */
typedef bool (*read_cb)(struct mesh_rules *c, struct sw_slice s, void *item);

static struct items read_list(struct mesh_rules *c, struct values *v, size_t size, read_cb read)
{
    char *p = sw_arena_array(c->arena, sw_json_len(v->list), size);
    size_t n = 0;

    SW_JSON_ITEMS (x, v->list) {
        if (read(c, sw_json_str(x), p + size * n))
            n++;
        else
            note_bad(c, v, x);
    }
    return (struct items){p, n};
}

static bool read_string(struct mesh_rules *c, struct sw_slice s, void *item)
{
    struct sw_strmatch *ret = item;

    if (!s.n)
        return false;
    *ret = (struct sw_strmatch){.kind = SW_STRMATCH_EXACT, .text = s};
    if (s.n == 1 && s.p[0] == '*')
        *ret = (struct sw_strmatch){.kind = SW_STRMATCH_PRESENCE};
    else if (s.p[0] == '*')
        *ret = (struct sw_strmatch){.kind = SW_STRMATCH_SUFFIX, .text = sw_slice_from(s, 1)};
    else if (s.p[s.n - 1] == '*')
        *ret = (struct sw_strmatch){.kind = SW_STRMATCH_PREFIX, .text = sw_slice_head(s, s.n - 1)};
    return true;
}

/*
 * Trust domains as matches of the whole principal, which begins with them. One that is given by its
 * end cannot be matched on the principal: *ret_http.
 */
static struct sw_strmatch_list read_domains(struct mesh_rules *c, struct values *v, bool *ret_http)
{
    struct items l = read_list(c, v, sizeof(struct sw_strmatch), read_string);
    const struct sw_strmatch *from = l.p;
    struct sw_strmatch *p = sw_arena_array(c->arena, l.n, sizeof(*p));

    for (size_t i = 0; i < l.n; i++) {
        struct sw_slice s = from[i].text;

        p[i] = from[i];
        *ret_http = *ret_http || from[i].kind == SW_STRMATCH_SUFFIX || sw_slice_find(s, '/') >= 0;
        if (from[i].kind == SW_STRMATCH_EXACT)
            p[i] = (struct sw_strmatch){
                .kind = SW_STRMATCH_PREFIX,
                .text = sw_slice_str(sw_arena_printf(c->arena, "%.*s/", SW_SLICE_ARG(s)))};
    }
    return (struct sw_strmatch_list){p, l.n};
}

static bool read_account(struct mesh_rules *c, struct sw_slice s, void *item)
{
    struct sw_sa_match *ret = item;
    struct sw_slice ns = c->ns;

    if (sw_slice_find(s, '/') >= 0)
        ns = sw_slice_cut(&s, '/');
    *ret = (struct sw_sa_match){.ns = ns, .sa = s};
    return ns.n && s.n && sw_slice_find(s, '/') < 0 && sw_slice_find(s, '*') < 0 &&
           sw_slice_find(ns, '*') < 0;
}

static bool read_cidr(struct mesh_rules *c, struct sw_slice s, void *item)
{
    return sw_cidr_parse(s, item, NULL) == SW_OK;
}

static bool read_port(struct mesh_rules *c, struct sw_slice s, void *item)
{
    uint64_t port = 0;
    bool ok = sw_slice_to_u64(s, UINT16_MAX, &port);

    *(uint16_t *)item = (uint16_t)port;
    return ok;
}

/* ---- matches ---- */

/* Two lists as one. */
static struct sw_strmatch_list joined(struct sw_arena *a, struct sw_strmatch_list x,
                                      struct sw_strmatch_list y)
{
    struct sw_strmatch *p = sw_arena_array(a, x.n + y.n, sizeof(*p));

    for (size_t i = 0; i < x.n + y.n; i++)
        p[i] = i < x.n ? x.p[i] : y.p[i - x.n];
    return (struct sw_strmatch_list){p, x.n + y.n};
}

static size_t take_domains(struct mesh_rules *c, struct draft *d, struct values *v)
{
    bool http = false;
    struct sw_strmatch_list l = read_domains(c, v, &http);

    if (http) {
        note_http(c, v->name);
        return l.n; /* left out */
    }
    if (v->no) /* none of one list and none of the other: none of both */
        d->m.not_principals = joined(c->arena, d->m.not_principals, l);
    else
        d->domains = l;
    return l.n;
}

/* How the values of each kind are read, and the lists of a match that they go to. */
#define LISTS(yes, no, read)                                                                       \
    {                                                                                              \
        sizeof(*((struct sw_policy_match *)NULL)->yes.p), offsetof(struct sw_policy_match, yes),   \
            offsetof(struct sw_policy_match, no), read                                             \
    }
static const struct {
    size_t size;
    size_t yes;
    size_t no;
    read_cb read;
} kinds[] = {
    [VALUE_NAMESPACE] = LISTS(namespaces, not_namespaces, read_string),
    [VALUE_PRINCIPAL] = LISTS(principals, not_principals, read_string),
    [VALUE_ACCOUNT] = LISTS(service_accounts, not_service_accounts, read_account),
    [VALUE_SOURCE_IP] = LISTS(source_ips, not_source_ips, read_cidr),
    [VALUE_DESTINATION_IP] = LISTS(destination_ips, not_destination_ips, read_cidr),
    [VALUE_PORT] = LISTS(destination_ports, not_destination_ports, read_port),
};

/* Puts the values where they belong; returns how many could be read. */
static size_t take_values(struct mesh_rules *c, struct draft *d, enum value_kind kind,
                          struct values *v)
{
    struct items l;

    if (kind == VALUE_TRUST_DOMAIN)
        return take_domains(c, d, v);
    l = read_list(c, v, kinds[kind].size, kinds[kind].read);
    /* Every list of a match is a pointer and a count. */
    memcpy((char *)&d->m + (v->no ? kinds[kind].no : kinds[kind].yes), &l, sizeof(l));
    return l.n;
}

/* A list of values; one that an ALLOW policy cannot keep makes the match hold for no peer. */
static void add(struct mesh_rules *c, struct draft *d, enum value_kind kind, struct values v)
{
    size_t n;

    if (!v.list || v.list->type == SW_JSON_NULL)
        return;
    if (!sw_json_is(v.list, SW_JSON_ARRAY)) {
        note_bad(c, &v, v.list);
        n = 0;
    } else {
        if (sw_json_len(v.list) == 0)
            return;
        n = take_values(c, d, kind, &v);
    }
    if (c->action == SW_POLICY_ALLOW && (v.no ? v.bad > 0 : n == 0))
        d->never = true;
}

/* Principals that match both; false when there are none. Suffixes cannot be put together. */
static bool both(const struct sw_strmatch *domain, const struct sw_strmatch *who,
                 struct sw_strmatch *ret)
{
    if (domain->kind == SW_STRMATCH_PRESENCE) {
        *ret = *who;
        return true;
    }
    *ret = *domain;
    if (who->kind == SW_STRMATCH_PRESENCE)
        return true;
    if (who->kind == SW_STRMATCH_PREFIX && sw_slice_has_prefix(domain->text, who->text))
        return true;
    *ret = *who;
    return sw_slice_has_prefix(who->text, domain->text);
}

/* Both a trust domain and a principal of the lists must match, which is one list for nodes. */
static bool join_domains(struct mesh_rules *c, struct draft *d)
{
    struct sw_strmatch_list who = d->m.principals;
    struct sw_strmatch *p;
    size_t pairs;
    size_t n = 0;

    if (d->domains.n == 0)
        return true;
    if (who.n == 0) {
        d->m.principals = d->domains;
        return true;
    }
    if (__builtin_mul_overflow(who.n, d->domains.n, &pairs) || pairs > PAIRS_MAX)
        return false;
    for (size_t i = 0; i < who.n; i++) {
        if (who.p[i].kind == SW_STRMATCH_SUFFIX)
            return false;
    }
    p = sw_arena_array(c->arena, pairs, sizeof(*p));
    for (size_t i = 0; i < pairs; i++)
        n += both(&d->domains.p[i % d->domains.n], &who.p[i / d->domains.n], &p[n]);
    d->m.principals = (struct sw_strmatch_list){p, n};
    d->never = d->never || n == 0;
    return true;
}

static struct sw_policy_match finish(struct mesh_rules *c, struct draft *d)
{
    if (!join_domains(c, d))
        note_http(c, "trustDomains");
    return d->never ? (struct sw_policy_match){0} : d->m;
}

static void find_http(struct mesh_rules *c, const struct sw_json *v, const char *const *names)
{
    for (; *names; names++) {
        const struct sw_json *x = sw_json_find(v, *names);

        if (x && x->type != SW_JSON_NULL && !(x->type == SW_JSON_ARRAY && sw_json_len(x) == 0))
            note_http(c, *names);
    }
}

/* The attributes of a source or an operation. */
static struct sw_policy_match read_match(struct mesh_rules *c, const struct sw_json *v,
                                         const struct attribute *attrs, size_t n)
{
    struct draft d = {0};

    for (size_t i = 0; i < n; i++) {
        add(c, &d, attrs[i].kind,
            (struct values){.list = sw_json_find(v, attrs[i].yes), .name = attrs[i].yes});
        add(c, &d, attrs[i].kind,
            (struct values){.list = sw_json_find(v, attrs[i].no), .name = attrs[i].no, .no = true});
    }
    return finish(c, &d);
}

/* ---- the parts of a rule ---- */

/* "from" or "to": their items have one member each. */
struct part {
    const char *member;
    const char *const *http;
    const struct attribute *attrs;
    size_t n;
};

static const struct part from_part = {"source", http_source, of_source, SW_ARRAY_LEN(of_source)};
static const struct part to_part = {"operation", http_operation, of_operation,
                                    SW_ARRAY_LEN(of_operation)};

static struct sw_policy_clause read_part(struct mesh_rules *c, const struct sw_json *list,
                                         const struct part *part)
{
    size_t n = sw_json_len(list);
    struct sw_policy_match *m = sw_arena_array(c->arena, n, sizeof(*m));

    for (size_t i = 0; i < n; i++) {
        const struct sw_json *v = sw_json_find(sw_json_at(list, i), part->member);

        find_http(c, v, part->http);
        m[i] = read_match(c, v, part->attrs, part->n);
    }
    return (struct sw_policy_clause){m, n};
}

static struct sw_policy_clause read_when(struct mesh_rules *c, const struct sw_json *when)
{
    const struct sw_json *key = sw_json_find(when, "key");
    struct sw_policy_match *m = SW_ARENA_NEW(c->arena, struct sw_policy_match);
    struct draft d = {0};
    bool known = false;

    for (size_t i = 0; i < SW_ARRAY_LEN(of_condition); i++) {
        const struct attribute *at = &of_condition[i];

        if (!sw_json_str_eq(key, at->yes))
            continue;
        known = true;
        add(c, &d, at->kind,
            (struct values){.list = sw_json_find(when, "values"), .name = at->yes});
        add(c, &d, at->kind,
            (struct values){.list = sw_json_find(when, "notValues"), .name = at->yes, .no = true});
    }
    if (!known)
        note_http(c, sw_arena_dup(c->arena, sw_slice_head(sw_json_str(key), 256)));
    *m = finish(c, &d);
    return (struct sw_policy_clause){m, 1};
}

/* Absent, or a list; anything else cannot be read. */
static bool is_list(struct mesh_rules *c, const struct sw_json *v, const char *name)
{
    if (!v || v->type == SW_JSON_NULL || v->type == SW_JSON_ARRAY)
        return true;
    if (!c->bad)
        c->bad = name;
    return false;
}

bool mesh_rule_convert(struct mesh_rules *c, const struct sw_json *rule, struct sw_policy_rule *ret)
{
    const struct sw_json *to = sw_json_find(rule, "to");
    const struct sw_json *from = sw_json_find(rule, "from");
    const struct sw_json *when = sw_json_find(rule, "when");
    struct sw_policy_clause *p;
    size_t http = c->http.n;
    size_t n = 0;

    if (!sw_json_is(rule, SW_JSON_OBJECT) || !is_list(c, to, "to") || !is_list(c, from, "from") ||
        !is_list(c, when, "when"))
        return false;
    p = sw_arena_array(c->arena, sw_json_len(when) + 2, sizeof(*p));
    if (sw_json_len(to))
        p[n++] = read_part(c, to, &to_part);
    if (sw_json_len(from))
        p[n++] = read_part(c, from, &from_part);
    for (size_t i = 0; i < sw_json_len(when); i++)
        p[n++] = read_when(c, sw_json_at(when, i));
    *ret = (struct sw_policy_rule){p, n};
    return c->action == SW_POLICY_DENY || c->http.n == http;
}

static bool clause_effective(const struct sw_policy_clause *c)
{
    for (size_t i = 0; i < c->n; i++) {
        if (!sw_policy_match_is_empty(&c->matches[i]))
            return true;
    }
    return c->n == 0;
}

bool mesh_rule_effective(const struct sw_policy_rule *r)
{
    for (size_t i = 0; i < r->n; i++) {
        if (!clause_effective(&r->clauses[i]))
            return false;
    }
    return true;
}

void mesh_rules_done(struct mesh_rules *c)
{
    sw_vec_done(&c->http);
}
