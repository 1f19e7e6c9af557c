/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deciding by attributes. A list keeps two tiers: privileged policies, and the others sorted by
 * namespace, so that a request looks at those of one namespace only.
 */
#include "policy/attr.h"

#include <stdio.h>

#include "base/search.h"

/* Policies of one tier and action; of the regular tier those of a namespace stand together. */
struct group {
    const struct sw_attr_policy **p;
    size_t n;
};

struct sw_attr_list {
    struct group g[2][2]; /* [privileged][action] */
};

/* ---- attributes ---- */

void sw_attrs_sort(struct sw_attr *p, size_t *n)
{
    size_t kept = 0;

    if (*n)
        SW_SORT_BY(p, *n, key);
    for (size_t i = 0; i < *n; i++) {
        if (kept == 0 || !sw_slice_eq(p[kept - 1].key, p[i].key))
            p[kept++] = p[i];
    }
    *n = kept;
}

const struct sw_slice *sw_attrs_get(const struct sw_attrs *a, struct sw_slice key)
{
    size_t i = sw_lower_bound(a->p, a->n, sizeof(*a->p), offsetof(struct sw_attr, key), key);

    return i < a->n && sw_slice_eq(a->p[i].key, key) ? &a->p[i].value : NULL;
}

/* ---- matching ---- */

static bool match_holds(const struct sw_attr_match *m, const struct sw_attrs *of)
{
    const struct sw_slice *v = sw_attrs_get(of, m->key);

    switch (m->op) {
    case SW_ATTR_IN:
        return v && sw_strmatch_any(m->values, *v);
    case SW_ATTR_NOT_IN:
        return !v || !sw_strmatch_any(m->values, *v);
    case SW_ATTR_EXISTS:
        return v != NULL;
    case SW_ATTR_NOT_EXISTS:
        return v == NULL;
    }
    return false;
}

static bool selects(const struct sw_attr_selector *s, const struct sw_attrs *of)
{
    size_t i = 0;

    while (i < s->n && match_holds(&s->p[i], of))
        i++;
    return i == s->n;
}

/* The first selector that holds, or NULL. */
static const struct sw_attr_selector *first_selecting(struct sw_attr_selectors l,
                                                      const struct sw_attrs *of)
{
    for (size_t i = 0; i < l.n; i++) {
        if (selects(&l.p[i], of))
            return &l.p[i];
    }
    return NULL;
}

static struct sw_slice attribute_of(const struct sw_attr_selector *from,
                                    const struct sw_attr_selector *to)
{
    if (from->n)
        return from->p[0].key;
    return to->n ? to->p[0].key : sw_slice("", 0);
}

static bool policy_matches(const struct sw_attr_policy *p, const struct sw_attr_request *req,
                           struct sw_policy_why *why)
{
    const struct sw_attr_selector *from = first_selecting(p->from, &req->src);
    const struct sw_attr_selector *to = from ? first_selecting(p->to, &req->dst) : NULL;

    if (!to)
        return false;
    *why = (struct sw_policy_why){.policy = p->key,
                                  .attribute = attribute_of(from, to),
                                  .rule = (size_t)(from - p->from.p),
                                  .privileged = p->ns.n == 0};
    return true;
}

/* ---- lists ---- */

const struct sw_attr_list *sw_attr_list_new(struct sw_arena *a,
                                            const struct sw_attr_policy *const *policies, size_t n)
{
    struct sw_attr_list *l = SW_ARENA_NEW(a, struct sw_attr_list);
    size_t count[2][2] = {0};

    for (size_t i = 0; i < n; i++)
        count[policies[i]->ns.n == 0][policies[i]->action]++;
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < 2; k++)
            l->g[t][k].p = sw_arena_array(a, count[t][k], sizeof(*l->g[t][k].p));
    }
    for (size_t i = 0; i < n; i++) {
        struct group *g = &l->g[policies[i]->ns.n == 0][policies[i]->action];

        g->p[g->n++] = policies[i];
    }
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < 2; k++) {
            if (l->g[t][k].n)
                SW_SORT_POINTERS_BY2(l->g[t][k].p, l->g[t][k].n, ns, name);
        }
    }
    return l;
}

/* The first policy of the namespace, or where it would stand. */
static size_t first_of(const struct group *g, struct sw_slice ns)
{
    size_t lo = 0;
    size_t hi = g->n;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (sw_slice_cmp(g->p[mid]->ns, ns) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool looks_at_source(const struct sw_attr_policy *p)
{
    for (size_t i = 0; i < p->from.n; i++) {
        if (p->from.p[i].n)
            return true;
    }
    return false;
}

static bool group_needs_source(const struct group *g, struct sw_slice ns)
{
    for (size_t i = first_of(g, ns); i < g->n && sw_slice_eq(g->p[i]->ns, ns); i++) {
        if (looks_at_source(g->p[i]))
            return true;
    }
    return false;
}

bool sw_attr_list_needs_source(const struct sw_attr_list *l, struct sw_slice ns)
{
    for (int k = 0; k < 2; k++) {
        if (group_needs_source(&l->g[1][k], sw_slice("", 0)) || group_needs_source(&l->g[0][k], ns))
            return true;
    }
    return false;
}

static bool group_matches(const struct group *g, struct sw_slice ns,
                          const struct sw_attr_request *req, struct sw_policy_why *why)
{
    for (size_t i = first_of(g, ns); i < g->n && sw_slice_eq(g->p[i]->ns, ns); i++) {
        if (policy_matches(g->p[i], req, why))
            return true;
    }
    return false;
}

/* ---- deciding ---- */

static void explain_denial(struct sw_policy_verdict *v)
{
    const struct sw_policy_why *w = &v->why;

    (void)snprintf(v->text, sizeof(v->text), "explicitly denied by: %s%.*s, from[%zu]%s%.*s",
                   w->privileged ? "privileged " : "", SW_SLICE_ARG(w->policy), w->rule,
                   w->attribute.n ? ", attribute " : "", SW_SLICE_ARG(w->attribute));
}

bool sw_attr_decide(const struct sw_attr_list *l, const struct sw_attr_request *req,
                    struct sw_policy_verdict *ret)
{
    static const enum sw_policy_action order[] = {SW_POLICY_DENY, SW_POLICY_ALLOW};

    sw_policy_verdict_init(ret);
    for (int privileged = 1; privileged >= 0; privileged--) {
        struct sw_slice ns = privileged ? sw_slice("", 0) : req->ns;

        for (size_t i = 0; i < SW_ARRAY_LEN(order); i++) {
            if (!group_matches(&l->g[privileged][order[i]], ns, req, &ret->why))
                continue;
            ret->allowed = ret->dry_allowed = order[i] == SW_POLICY_ALLOW;
            if (!ret->allowed)
                explain_denial(ret);
            return ret->allowed;
        }
    }
    (void)snprintf(ret->text, sizeof(ret->text), "no access policy allows it: <default deny>");
    return false;
}
