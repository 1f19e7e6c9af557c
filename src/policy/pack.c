/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/pack.h"

#include <proto/workload.pb-c.h>

#include "proto/pb.h"

static Sw__MeshStringMatch *string(struct sw_arena *a, const struct sw_strmatch *from)
{
    Sw__MeshStringMatch *m = SW_PB_NEW(a, Sw__MeshStringMatch, sw__mesh_string_match);

    switch (from->kind) {
    case SW_STRMATCH_EXACT:
        m->match_type_case = SW__MESH_STRING_MATCH__MATCH_TYPE_EXACT;
        m->exact = SW_PB_BYTES(from->text);
        break;
    case SW_STRMATCH_PREFIX:
        m->match_type_case = SW__MESH_STRING_MATCH__MATCH_TYPE_PREFIX;
        m->prefix = SW_PB_BYTES(from->text);
        break;
    case SW_STRMATCH_SUFFIX:
        m->match_type_case = SW__MESH_STRING_MATCH__MATCH_TYPE_SUFFIX;
        m->suffix = SW_PB_BYTES(from->text);
        break;
    case SW_STRMATCH_PRESENCE:
        m->match_type_case = SW__MESH_STRING_MATCH__MATCH_TYPE_PRESENCE;
        m->presence = SW_PB_NEW(a, Sw__Empty, sw__empty);
        break;
    }
    return m;
}

/* One more than there are: what a match did not understand is kept as an empty string match. */
static Sw__MeshStringMatch **strings(struct sw_arena *a, struct sw_strmatch_list from,
                                     size_t *ret_n)
{
    Sw__MeshStringMatch **to = sw_arena_array(a, from.n + 1, sizeof(Sw__MeshStringMatch *));

    for (size_t i = 0; i < from.n; i++)
        to[i] = string(a, &from.p[i]);
    *ret_n = from.n;
    return to;
}

static Sw__MeshServiceAccountMatch **accounts(struct sw_arena *a, struct sw_sa_match_list from,
                                              size_t *ret_n)
{
    Sw__MeshServiceAccountMatch **to =
        sw_arena_array(a, from.n, sizeof(Sw__MeshServiceAccountMatch *));

    for (size_t i = 0; i < from.n; i++) {
        to[i] = SW_PB_NEW(a, Sw__MeshServiceAccountMatch, sw__mesh_service_account_match);
        to[i]->namespace_ = SW_PB_BYTES(from.p[i].ns);
        to[i]->service_account = SW_PB_BYTES(from.p[i].sa);
    }
    *ret_n = from.n;
    return to;
}

static Sw__MeshAuthAddress **blocks(struct sw_arena *a, struct sw_cidr_list from, size_t *ret_n)
{
    Sw__MeshAuthAddress **to = sw_arena_array(a, from.n, sizeof(Sw__MeshAuthAddress *));

    for (size_t i = 0; i < from.n; i++) {
        to[i] = SW_PB_NEW(a, Sw__MeshAuthAddress, sw__mesh_auth_address);
        to[i]->address = SW_PB_BYTES(sw_slice(from.p[i].ip.b, sw_ip_len(&from.p[i].ip)));
        to[i]->length = from.p[i].len;
    }
    *ret_n = from.n;
    return to;
}

static uint32_t *ports(struct sw_arena *a, struct sw_port_list from, size_t *ret_n)
{
    uint32_t *to = sw_arena_array(a, from.n, sizeof(*to));

    for (size_t i = 0; i < from.n; i++)
        to[i] = from.p[i];
    *ret_n = from.n;
    return to;
}

static Sw__MeshAuthMatch *match(struct sw_arena *a, const struct sw_policy_match *from)
{
    Sw__MeshAuthMatch *m = SW_PB_NEW(a, Sw__MeshAuthMatch, sw__mesh_auth_match);

    m->namespaces = strings(a, from->namespaces, &m->n_namespaces);
    m->not_namespaces = strings(a, from->not_namespaces, &m->n_not_namespaces);
    m->principals = strings(a, from->principals, &m->n_principals);
    m->not_principals = strings(a, from->not_principals, &m->n_not_principals);
    m->service_accounts = accounts(a, from->service_accounts, &m->n_service_accounts);
    m->not_service_accounts = accounts(a, from->not_service_accounts, &m->n_not_service_accounts);
    m->source_ips = blocks(a, from->source_ips, &m->n_source_ips);
    m->not_source_ips = blocks(a, from->not_source_ips, &m->n_not_source_ips);
    m->destination_ips = blocks(a, from->destination_ips, &m->n_destination_ips);
    m->not_destination_ips = blocks(a, from->not_destination_ips, &m->n_not_destination_ips);
    m->destination_ports = ports(a, from->destination_ports, &m->n_destination_ports);
    m->not_destination_ports = ports(a, from->not_destination_ports, &m->n_not_destination_ports);
    if (from->unknown)
        m->namespaces[m->n_namespaces++] = SW_PB_NEW(a, Sw__MeshStringMatch, sw__mesh_string_match);
    return m;
}

static Sw__MeshAuthClause *clause(struct sw_arena *a, const struct sw_policy_clause *from)
{
    Sw__MeshAuthClause *m = SW_PB_NEW(a, Sw__MeshAuthClause, sw__mesh_auth_clause);

    m->matches = sw_arena_array(a, from->n, sizeof(*m->matches));
    for (size_t i = 0; i < from->n; i++)
        m->matches[m->n_matches++] = match(a, &from->matches[i]);
    return m;
}

struct sw_slice sw_policy_pack(struct sw_arena *a, const struct sw_policy *p)
{
    Sw__MeshAuthorization *m = SW_PB_NEW(a, Sw__MeshAuthorization, sw__mesh_authorization);

    m->name = SW_PB_BYTES(p->name);
    m->namespace_ = SW_PB_BYTES(p->ns);
    m->scope = (Sw__MeshAuthorization__Scope)p->scope; /* the numbers are the same */
    m->action = (Sw__MeshAuthorization__Action)p->action;
    m->dry_run = p->dry_run;
    m->rules = sw_arena_array(a, p->n, sizeof(*m->rules));
    for (size_t i = 0; i < p->n; i++) {
        Sw__MeshAuthRule *r = SW_PB_NEW(a, Sw__MeshAuthRule, sw__mesh_auth_rule);

        r->clauses = sw_arena_array(a, p->rules[i].n, sizeof(*r->clauses));
        for (size_t k = 0; k < p->rules[i].n; k++)
            r->clauses[r->n_clauses++] = clause(a, &p->rules[i].clauses[k]);
        m->rules[m->n_rules++] = r;
    }
    return sw_pb_pack(a, &m->base);
}
