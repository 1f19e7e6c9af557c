/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matching and deciding. A list keeps four groups (enforced or dry-run, deny or allow). Inside an
 * enforced group, a policy all of whose rules demand certain exact callers is filed under a hash
 * of each of them; the others are always evaluated. A hash only ever nominates: the whole policy
 * is evaluated afterwards, so a collision costs time and never changes a verdict.
 */
#include <stdio.h>

#include "base/hash.h"
#include "policy/policy.h"

enum {
    INDEX_FROM = 8, /* fewer policies than this are simply all looked at */
    PRINCIPAL_MAX = SW_SPIFFE_MAX,
    KIND_PRINCIPAL = 1,
    KIND_NAMESPACE = 2,
    KIND_ACCOUNT = 3,
    NONE = -1,
};

struct slot {
    uint64_t hash;
    uint32_t policy; /* index into the group */
    bool used;
};

struct group {
    const struct sw_policy **p;
    size_t n;
    const uint32_t *always; /* ascending */
    size_t n_always;
    const struct slot *slots; /* open addressing, equal hashes sit in one probe run */
    size_t mask;              /* slots - 1; 0: no index */
};

enum group_id { DENY, ALLOW, DRY_DENY, DRY_ALLOW, GROUPS };

struct sw_policy_list {
    const struct sw_policy *const *all;
    size_t n;
    struct group g[GROUPS];
};

/* A request with what is derived from it once. */
struct ctx {
    const struct sw_policy_request *req;
    struct sw_slice ns; /* "" without an identity */
    struct sw_slice principal;
    char text[PRINCIPAL_MAX];
};

static uint64_t mix(uint64_t h, unsigned kind)
{
    return (h ^ kind) * 0x9e3779b97f4a7c15U;
}

static uint64_t hash_text(unsigned kind, struct sw_slice s)
{
    return mix(sw_hash(s.p ? s.p : "", s.n), kind);
}

static uint64_t hash_account(struct sw_slice ns, struct sw_slice sa)
{
    return mix(hash_text(KIND_ACCOUNT, ns) + hash_text(KIND_NAMESPACE, sa), KIND_ACCOUNT);
}

/* False when the caller's name does not fit: no such name exists. */
static bool ctx_init(struct ctx *c, const struct sw_policy_request *req)
{
    const struct sw_spiffe *id = req->src;
    int n;

    c->req = req;
    c->ns = id ? id->ns : sw_slice("", 0);
    c->principal = sw_slice("", 0);
    if (!id)
        return true;
    n = snprintf(c->text, sizeof(c->text), "%.*s/ns/%.*s/sa/%.*s", SW_SLICE_ARG(id->trust_domain),
                 SW_SLICE_ARG(id->ns), SW_SLICE_ARG(id->sa));
    if (n < 0 || (size_t)n >= sizeof(c->text))
        return false;
    c->principal = sw_slice(c->text, (size_t)n);
    return true;
}

/* ---- one match ---- */

bool sw_strmatch_holds(const struct sw_strmatch *m, struct sw_slice s)
{
    switch (m->kind) {
    case SW_STRMATCH_EXACT:
        return sw_slice_eq(s, m->text);
    case SW_STRMATCH_PREFIX:
        return sw_slice_has_prefix(s, m->text);
    case SW_STRMATCH_SUFFIX:
        return sw_slice_has_suffix(s, m->text);
    case SW_STRMATCH_PRESENCE:
        return s.n > 0;
    }
    return false;
}

bool sw_strmatch_any(struct sw_strmatch_list l, struct sw_slice s)
{
    for (size_t i = 0; i < l.n; i++) {
        if (sw_strmatch_holds(&l.p[i], s))
            return true;
    }
    return false;
}

static bool any_account(struct sw_sa_match_list l, const struct sw_spiffe *id)
{
    for (size_t i = 0; id && i < l.n; i++) {
        if (sw_slice_eq(l.p[i].ns, id->ns) && sw_slice_eq(l.p[i].sa, id->sa))
            return true;
    }
    return false;
}

static bool any_cidr(struct sw_cidr_list l, const struct sw_ip *ip)
{
    for (size_t i = 0; i < l.n; i++) {
        if (sw_cidr_contains(&l.p[i], ip))
            return true;
    }
    return false;
}

static bool any_port(struct sw_port_list l, uint16_t port)
{
    for (size_t i = 0; i < l.n; i++) {
        if (l.p[i] == port)
            return true;
    }
    return false;
}

static bool any_principal(struct sw_strmatch_list l, const struct ctx *c)
{
    return c->req->src && sw_strmatch_any(l, c->principal);
}

bool sw_policy_match_is_empty(const struct sw_policy_match *m)
{
#define OR_N(any, list, key, not_key) | m->list.n | m->not_##list.n
    return (0 SW_POLICY_LISTS(OR_N, , , , )) == 0;
#undef OR_N
}

static bool caller_matches(const struct sw_policy_match *m, const struct ctx *c)
{
    const struct sw_spiffe *id = c->req->src;

    if (m->principals.n && !any_principal(m->principals, c))
        return false;
    if (m->namespaces.n && !sw_strmatch_any(m->namespaces, c->ns))
        return false;
    if (m->service_accounts.n && !any_account(m->service_accounts, id))
        return false;
    return !any_principal(m->not_principals, c) && !sw_strmatch_any(m->not_namespaces, c->ns) &&
           !any_account(m->not_service_accounts, id);
}

static bool address_matches(const struct sw_policy_match *m, const struct sw_policy_request *r)
{
    if (m->destination_ports.n && !any_port(m->destination_ports, r->dst_port))
        return false;
    if (m->source_ips.n && !any_cidr(m->source_ips, &r->src_ip))
        return false;
    if (m->destination_ips.n && !any_cidr(m->destination_ips, &r->dst_ip))
        return false;
    return !any_port(m->not_destination_ports, r->dst_port) &&
           !any_cidr(m->not_source_ips, &r->src_ip) &&
           !any_cidr(m->not_destination_ips, &r->dst_ip);
}

static bool match_holds(const struct sw_policy_match *m, enum sw_policy_action action,
                        const struct ctx *c)
{
    if (m->unknown) {
        if (action == SW_POLICY_ALLOW)
            return false;
    } else if (sw_policy_match_is_empty(m)) {
        return false;
    }
    return caller_matches(m, c) && address_matches(m, c->req);
}

static bool clause_holds(const struct sw_policy_clause *cl, enum sw_policy_action action,
                         const struct ctx *c)
{
    for (size_t i = 0; i < cl->n; i++) {
        if (match_holds(&cl->matches[i], action, c))
            return true;
    }
    return cl->n == 0;
}

/* Index of the first rule that holds, or the number of rules. */
static size_t matching_rule(const struct sw_policy *p, const struct ctx *c)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct sw_policy_rule *r = &p->rules[i];
        size_t j = 0;

        while (j < r->n && clause_holds(&r->clauses[j], p->action, c))
            j++;
        if (j == r->n)
            return i;
    }
    return p->n;
}

static bool policy_matches(const struct sw_policy *p, const struct ctx *c)
{
    return matching_rule(p, c) < p->n;
}

bool sw_policy_matches(const struct sw_policy *p, const struct sw_policy_request *req)
{
    struct ctx c;

    return ctx_init(&c, req) && policy_matches(p, &c);
}

/* ---- the index ---- */

/* Where the keys of a policy go: counted first, stored in a second pass. */
struct sink {
    struct slot *slots;
    size_t mask;
    size_t n;
    uint32_t policy;
};

static void emit(struct sink *s, uint64_t hash)
{
    s->n++;
    if (!s->slots)
        return;
    for (size_t i = hash & s->mask;; i = (i + 1) & s->mask) {
        if (!s->slots[i].used) {
            s->slots[i] = (struct slot){.hash = hash, .policy = s->policy, .used = true};
            return;
        }
    }
}

static bool all_exact(struct sw_strmatch_list l)
{
    for (size_t i = 0; i < l.n; i++) {
        if (l.p[i].kind != SW_STRMATCH_EXACT)
            return false;
    }
    return l.n > 0;
}

/* Emits the callers outside of which the match cannot hold; false when there is no such set. */
static bool match_keys(const struct sw_policy_match *m, struct sink *s)
{
    if (all_exact(m->principals)) {
        for (size_t i = 0; i < m->principals.n; i++)
            emit(s, hash_text(KIND_PRINCIPAL, m->principals.p[i].text));
        return true;
    }
    if (m->service_accounts.n) {
        for (size_t i = 0; i < m->service_accounts.n; i++)
            emit(s, hash_account(m->service_accounts.p[i].ns, m->service_accounts.p[i].sa));
        return true;
    }
    if (all_exact(m->namespaces)) {
        for (size_t i = 0; i < m->namespaces.n; i++)
            emit(s, hash_text(KIND_NAMESPACE, m->namespaces.p[i].text));
        return true;
    }
    return sw_policy_match_is_empty(m) && !m->unknown; /* never holds: no key needed */
}

static bool clause_keys(const struct sw_policy_clause *c, struct sink *s)
{
    for (size_t i = 0; i < c->n; i++) {
        if (!match_keys(&c->matches[i], s))
            return false;
    }
    return c->n > 0;
}

static bool rule_keys(const struct sw_policy_rule *r, struct sink *s)
{
    for (size_t i = 0; i < r->n; i++) {
        struct sink probe = {0};

        if (clause_keys(&r->clauses[i], &probe))
            return clause_keys(&r->clauses[i], s);
    }
    return false;
}

static bool policy_keys(const struct sw_policy *p, struct sink *s)
{
    for (size_t i = 0; i < p->n; i++) {
        if (!rule_keys(&p->rules[i], s))
            return false;
    }
    return true;
}

static void build_index(struct sw_arena *a, struct group *g)
{
    uint32_t *always = sw_arena_array(a, g->n, sizeof(*always));
    struct sink s = {0};
    size_t cap = 16;

    g->always = always;
    for (size_t i = 0; i < g->n; i++) {
        struct sink one = {0};

        if (policy_keys(g->p[i], &one))
            s.n += one.n;
        else
            always[g->n_always++] = (uint32_t)i;
    }
    while (cap < s.n * 2)
        cap *= 2;
    s.slots = sw_arena_array(a, cap, sizeof(*s.slots));
    s.mask = cap - 1;
    for (size_t i = 0; i < g->n; i++) {
        struct sink probe = {0};

        s.policy = (uint32_t)i;
        if (policy_keys(g->p[i], &probe))
            (void)policy_keys(g->p[i], &s);
    }
    g->slots = s.slots;
    g->mask = s.mask;
}

static enum group_id group_of(const struct sw_policy *p)
{
    if (p->dry_run)
        return p->action == SW_POLICY_DENY ? DRY_DENY : DRY_ALLOW;
    return p->action == SW_POLICY_DENY ? DENY : ALLOW;
}

static void build_group(struct sw_arena *a, struct group *g, bool index)
{
    uint32_t *always;

    if (index && g->n >= INDEX_FROM) {
        build_index(a, g);
        return;
    }
    always = sw_arena_array(a, g->n, sizeof(*always));
    for (size_t i = 0; i < g->n; i++)
        always[i] = (uint32_t)i;
    g->always = always;
    g->n_always = g->n;
}

const struct sw_policy_list *sw_policy_list_new(struct sw_arena *a,
                                                const struct sw_policy *const *policies, size_t n)
{
    struct sw_policy_list *l = SW_ARENA_NEW(a, struct sw_policy_list);
    const struct sw_policy **all = sw_arena_array(a, n, sizeof(*all));
    size_t count[GROUPS] = {0};

    for (size_t i = 0; i < n; i++) {
        all[i] = policies[i];
        count[group_of(all[i])]++;
    }
    l->all = all;
    l->n = n;
    for (int id = 0; id < GROUPS; id++)
        l->g[id].p = sw_arena_array(a, count[id], sizeof(*l->g[id].p));
    for (size_t i = 0; i < n; i++) {
        struct group *g = &l->g[group_of(all[i])];

        g->p[g->n++] = all[i];
    }
    for (int id = 0; id < GROUPS; id++)
        build_group(a, &l->g[id], id == DENY || id == ALLOW);
    return l;
}

size_t sw_policy_list_count(const struct sw_policy_list *l)
{
    return l ? l->n : 0;
}

/* ---- explaining: only for the one policy that decided ---- */

/* What a match looks at first, by the name its field has in a configuration. */
static struct sw_slice attribute_of(const struct sw_policy_match *m)
{
    const struct {
        size_t n;
        struct sw_slice name;
    } lists[] = {
        {m->principals.n, SW_SLICE_LIT("principals")},
        {m->namespaces.n, SW_SLICE_LIT("namespaces")},
        {m->service_accounts.n, SW_SLICE_LIT("serviceAccounts")},
        {m->destination_ports.n, SW_SLICE_LIT("destinationPorts")},
        {m->source_ips.n, SW_SLICE_LIT("sourceIps")},
        {m->destination_ips.n, SW_SLICE_LIT("destinationIps")},
        {m->not_principals.n, SW_SLICE_LIT("notPrincipals")},
        {m->not_namespaces.n, SW_SLICE_LIT("notNamespaces")},
        {m->not_service_accounts.n, SW_SLICE_LIT("notServiceAccounts")},
        {m->not_destination_ports.n, SW_SLICE_LIT("notDestinationPorts")},
        {m->not_source_ips.n, SW_SLICE_LIT("notSourceIps")},
        {m->not_destination_ips.n, SW_SLICE_LIT("notDestinationIps")},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(lists); i++) {
        if (lists[i].n)
            return lists[i].name;
    }
    return sw_slice("", 0);
}

static void explain(const struct sw_policy *p, const struct ctx *c, struct sw_policy_why *why)
{
    const struct sw_policy_rule *r;

    why->policy = p->key;
    why->rule = matching_rule(p, c);
    r = &p->rules[why->rule];
    for (size_t i = 0; i < r->n && !why->attribute.n; i++) {
        const struct sw_policy_clause *cl = &r->clauses[i];

        for (size_t j = 0; j < cl->n && !why->attribute.n; j++) {
            if (match_holds(&cl->matches[j], p->action, c))
                why->attribute = attribute_of(&cl->matches[j]);
        }
    }
}

/* ---- deciding ---- */

static void consider(const struct group *g, uint32_t i, const struct ctx *c, int64_t *best)
{
    if ((*best == NONE || i < *best) && policy_matches(g->p[i], c))
        *best = i;
}

static void consider_hash(const struct group *g, uint64_t hash, const struct ctx *c, int64_t *best)
{
    for (size_t i = hash & g->mask; g->slots[i].used; i = (i + 1) & g->mask) {
        if (g->slots[i].hash == hash)
            consider(g, g->slots[i].policy, c, best);
    }
}

/* The first policy of the group that matches, or NULL. */
static const struct sw_policy *first_match(const struct group *g, const struct ctx *c)
{
    const struct sw_spiffe *id = c->req->src;
    int64_t best = NONE;

    for (size_t i = 0; i < g->n_always && best == NONE; i++)
        consider(g, g->always[i], c, &best);
    if (g->slots) {
        consider_hash(g, hash_text(KIND_NAMESPACE, c->ns), c, &best);
        if (id) {
            consider_hash(g, hash_text(KIND_PRINCIPAL, c->principal), c, &best);
            consider_hash(g, hash_account(id->ns, id->sa), c, &best);
        }
    }
    return best == NONE ? NULL : g->p[best];
}

static const struct sw_policy *first_in(const struct sw_policy_set *set, enum group_id id,
                                        const struct ctx *c)
{
    for (int i = 0; i < SW_POLICY_PARTS; i++) {
        const struct sw_policy *p = set->part[i] ? first_match(&set->part[i]->g[id], c) : NULL;

        if (p)
            return p;
    }
    return NULL;
}

static size_t count_in(const struct sw_policy_set *set, enum group_id id)
{
    size_t n = 0;

    for (int i = 0; i < SW_POLICY_PARTS; i++)
        n += set->part[i] ? set->part[i]->g[id].n : 0;
    return n;
}

/* Records matching dry-run policies of one kind; true when there was one. */
static bool collect_dry(const struct sw_policy_set *set, enum group_id id, const struct ctx *c,
                        struct sw_policy_verdict *v)
{
    size_t before = v->n_dry;

    for (int i = 0; i < SW_POLICY_PARTS; i++) {
        const struct group *g = set->part[i] ? &set->part[i]->g[id] : NULL;

        for (size_t j = 0; g && j < g->n; j++) {
            if (!policy_matches(g->p[j], c))
                continue;
            if (v->n_dry < SW_POLICY_DRY_MAX)
                v->dry[v->n_dry] = g->p[j];
            v->n_dry++;
        }
    }
    return v->n_dry > before;
}

static bool decide_enforced(const struct sw_policy_set *set, const struct ctx *c,
                            struct sw_policy_verdict *v)
{
    v->by = first_in(set, DENY, c);
    if (v->by) {
        explain(v->by, c, &v->why);
        (void)snprintf(v->text, sizeof(v->text), "explicitly denied by: %.*s",
                       SW_SLICE_ARG(v->by->key));
        return false;
    }
    if (count_in(set, ALLOW) == 0)
        return true;
    v->by = first_in(set, ALLOW, c);
    if (v->by) {
        v->why.policy = v->by->key;
        return true;
    }
    (void)snprintf(v->text, sizeof(v->text), "allow policies exist, but none allowed");
    return false;
}

/* The verdict if dry-run policies counted too. */
static bool decide_dry(const struct sw_policy_set *set, const struct ctx *c,
                       struct sw_policy_verdict *v)
{
    bool denied = collect_dry(set, DRY_DENY, c, v);
    bool allowed = collect_dry(set, DRY_ALLOW, c, v);
    bool enforced_allow = v->allowed && v->by;
    bool enforced_deny = !v->allowed && v->by;

    if (denied || enforced_deny)
        return false;
    if (count_in(set, ALLOW) + count_in(set, DRY_ALLOW) == 0)
        return true;
    return allowed || enforced_allow;
}

bool sw_policy_decide(const struct sw_policy_set *set, const struct sw_policy_request *req,
                      struct sw_policy_verdict *ret)
{
    struct ctx c;

    sw_policy_verdict_init(ret);
    if (set->missing.n) {
        (void)snprintf(ret->text, sizeof(ret->text), "policy '%.*s' is not known",
                       SW_SLICE_ARG(set->missing));
        return false;
    }
    if (!ctx_init(&c, req)) {
        (void)snprintf(ret->text, sizeof(ret->text), "the caller's identity is too long");
        return false;
    }
    ret->allowed = decide_enforced(set, &c, ret);
    ret->dry_allowed = ret->allowed;
    if (count_in(set, DRY_DENY) + count_in(set, DRY_ALLOW))
        ret->dry_allowed = decide_dry(set, &c, ret);
    return ret->allowed;
}
