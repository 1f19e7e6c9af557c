/* SPDX-License-Identifier: Apache-2.0 */
/* Policies as data: deep copies into an arena, checked on the way in. */
#include "policy/policy.h"

static struct sw_strmatch_list copy_strings(struct sw_arena *a, struct sw_strmatch_list from)
{
    struct sw_strmatch *to = sw_arena_array(a, from.n, sizeof(*to));

    for (size_t i = 0; i < from.n; i++)
        to[i] = (struct sw_strmatch){from.p[i].kind, sw_arena_slice(a, from.p[i].text)};
    return (struct sw_strmatch_list){to, from.n};
}

static struct sw_sa_match_list copy_accounts(struct sw_arena *a, struct sw_sa_match_list from)
{
    struct sw_sa_match *to = sw_arena_array(a, from.n, sizeof(*to));

    for (size_t i = 0; i < from.n; i++) {
        to[i].ns = sw_arena_slice(a, from.p[i].ns);
        to[i].sa = sw_arena_slice(a, from.p[i].sa);
    }
    return (struct sw_sa_match_list){to, from.n};
}

static const void *copy_bytes(struct sw_arena *a, const void *p, size_t n, size_t size)
{
    return n ? memcpy(sw_arena_array(a, n, size), p, n * size) : NULL;
}

static struct sw_cidr_list copy_cidrs(struct sw_arena *a, struct sw_cidr_list from)
{
    return (struct sw_cidr_list){copy_bytes(a, from.p, from.n, sizeof(*from.p)), from.n};
}

static struct sw_port_list copy_ports(struct sw_arena *a, struct sw_port_list from)
{
    return (struct sw_port_list){copy_bytes(a, from.p, from.n, sizeof(*from.p)), from.n};
}

static struct sw_policy_match copy_match(struct sw_arena *a, const struct sw_policy_match *from)
{
    struct sw_policy_match to = {.unknown = from->unknown};

#define COPY(copy, list, key, not_key)                                                             \
    to.list = copy(a, from->list);                                                                 \
    to.not_##list = copy(a, from->not_##list);
    SW_POLICY_LISTS(COPY, copy_strings, copy_accounts, copy_cidrs, copy_ports)
#undef COPY
    return to;
}

static const struct sw_policy_clause *copy_clauses(struct sw_arena *a,
                                                   const struct sw_policy_rule *from)
{
    struct sw_policy_clause *to = sw_arena_array(a, from->n, sizeof(*to));

    for (size_t i = 0; i < from->n; i++) {
        const struct sw_policy_clause *c = &from->clauses[i];
        struct sw_policy_match *matches = sw_arena_array(a, c->n, sizeof(*matches));

        for (size_t j = 0; j < c->n; j++)
            matches[j] = copy_match(a, &c->matches[j]);
        to[i] = (struct sw_policy_clause){.matches = matches, .n = c->n};
    }
    return to;
}

static int check_cidrs(struct sw_cidr_list l, struct sw_err *err)
{
    for (size_t i = 0; i < l.n; i++) {
        size_t bytes = sw_ip_len(&l.p[i].ip);

        if (bytes == 0 || l.p[i].len > bytes * 8)
            return sw_err_set(err, SW_EINVAL, "prefix length %u is too long", l.p[i].len);
    }
    return SW_OK;
}

static int check_match(const struct sw_policy_match *m, struct sw_err *err)
{
    const struct sw_cidr_list lists[] = {m->source_ips, m->not_source_ips, m->destination_ips,
                                         m->not_destination_ips};
    const struct sw_strmatch_list strings[] = {m->namespaces, m->not_namespaces, m->principals,
                                               m->not_principals};

    for (size_t i = 0; i < SW_ARRAY_LEN(lists); i++) {
        int rc = check_cidrs(lists[i], err);

        if (rc != SW_OK)
            return rc;
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(strings); i++) {
        for (size_t j = 0; j < strings[i].n; j++) {
            if ((unsigned)strings[i].p[j].kind > SW_STRMATCH_PRESENCE)
                return sw_err_set(err, SW_EINVAL, "unknown kind of string match");
        }
    }
    return SW_OK;
}

static int check(const struct sw_policy *p, struct sw_err *err)
{
    if (p->name.n == 0)
        return sw_err_set(err, SW_EINVAL, "policy without a name");
    /* The key would end there, and stand for another policy. */
    if (sw_slice_find(p->name, '\0') >= 0 || sw_slice_find(p->ns, '\0') >= 0)
        return sw_err_set(err, SW_EINVAL, "a NUL byte in the name");
    if ((unsigned)p->scope > SW_POLICY_SELECTOR)
        return sw_err_set(err, SW_EINVAL, "unknown scope %d", (int)p->scope);
    if ((unsigned)p->action > SW_POLICY_DENY)
        return sw_err_set(err, SW_EINVAL, "unknown action %d", (int)p->action);
    for (size_t i = 0; i < p->n; i++) {
        for (size_t j = 0; j < p->rules[i].n; j++) {
            const struct sw_policy_clause *c = &p->rules[i].clauses[j];

            for (size_t k = 0; k < c->n; k++) {
                int rc = check_match(&c->matches[k], err);

                if (rc != SW_OK)
                    return rc;
            }
        }
    }
    return SW_OK;
}

int sw_policy_copy(struct sw_arena *a, const struct sw_policy *from, struct sw_policy **ret,
                   struct sw_err *err)
{
    struct sw_policy_rule *rules;
    struct sw_policy *to;
    int rc = check(from, err);

    if (rc != SW_OK)
        return rc;
    to = SW_ARENA_NEW(a, struct sw_policy);
    *to = *from;
    to->key = sw_slice_str(
        sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(from->ns), SW_SLICE_ARG(from->name)));
    to->ns = sw_arena_slice(a, from->ns);
    to->name = sw_arena_slice(a, from->name);
    rules = sw_arena_array(a, from->n, sizeof(*rules));
    for (size_t i = 0; i < from->n; i++) {
        rules[i].clauses = copy_clauses(a, &from->rules[i]);
        rules[i].n = from->rules[i].n;
    }
    to->rules = rules;
    *ret = to;
    return SW_OK;
}

bool sw_policy_caller_is(const struct sw_spiffe *id, struct sw_slice uri)
{
    const struct sw_slice parts[] = {SW_SLICE_LIT("spiffe://"), id->trust_domain,
                                     SW_SLICE_LIT("/ns/"),      id->ns,
                                     SW_SLICE_LIT("/sa/"),      id->sa};

    for (size_t i = 0; i < SW_ARRAY_LEN(parts); i++) {
        if (!sw_slice_has_prefix(uri, parts[i]))
            return false;
        uri = sw_slice_from(uri, parts[i].n);
    }
    return uri.n == 0;
}
