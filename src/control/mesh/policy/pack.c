/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/pack.h"

#include <proto/authorization.pb-c.h>
#include <proto/google.pb-c.h>

#include "proto/pb.h"

static Sw__MeshStringMatch *string_match(struct sw_arena *a, const struct sw_strmatch *from)
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

static Sw__MeshStringMatch **strings(struct sw_arena *a, struct sw_strmatch_list l, size_t *ret_n)
{
    Sw__MeshStringMatch **p = sw_arena_array(a, l.n, sizeof(*p));

    for (size_t i = 0; i < l.n; i++)
        p[i] = string_match(a, &l.p[i]);
    *ret_n = l.n;
    return p;
}

static Sw__MeshAuthAddress **addresses(struct sw_arena *a, struct sw_cidr_list l, size_t *ret_n)
{
    Sw__MeshAuthAddress **p = sw_arena_array(a, l.n, sizeof(*p));

    for (size_t i = 0; i < l.n; i++) {
        p[i] = SW_PB_NEW(a, Sw__MeshAuthAddress, sw__mesh_auth_address);
        p[i]->address = SW_PB_BYTES(sw_slice(l.p[i].ip.b, sw_ip_len(&l.p[i].ip)));
        p[i]->length = l.p[i].len;
    }
    *ret_n = l.n;
    return p;
}

static Sw__MeshServiceAccountMatch **accounts(struct sw_arena *a, struct sw_sa_match_list l,
                                              size_t *ret_n)
{
    Sw__MeshServiceAccountMatch **p = sw_arena_array(a, l.n, sizeof(*p));

    for (size_t i = 0; i < l.n; i++) {
        p[i] = SW_PB_NEW(a, Sw__MeshServiceAccountMatch, sw__mesh_service_account_match);
        p[i]->namespace_ = SW_PB_BYTES(l.p[i].ns);
        p[i]->service_account = SW_PB_BYTES(l.p[i].sa);
    }
    *ret_n = l.n;
    return p;
}

static uint32_t *ports(struct sw_arena *a, struct sw_port_list l, size_t *ret_n)
{
    uint32_t *p = sw_arena_array(a, l.n, sizeof(*p));

    for (size_t i = 0; i < l.n; i++)
        p[i] = l.p[i];
    *ret_n = l.n;
    return p;
}

static Sw__MeshAuthMatch *match(struct sw_arena *a, const struct sw_policy_match *m)
{
    Sw__MeshAuthMatch *o = SW_PB_NEW(a, Sw__MeshAuthMatch, sw__mesh_auth_match);

    o->namespaces = strings(a, m->namespaces, &o->n_namespaces);
    o->not_namespaces = strings(a, m->not_namespaces, &o->n_not_namespaces);
    o->principals = strings(a, m->principals, &o->n_principals);
    o->not_principals = strings(a, m->not_principals, &o->n_not_principals);
    o->source_ips = addresses(a, m->source_ips, &o->n_source_ips);
    o->not_source_ips = addresses(a, m->not_source_ips, &o->n_not_source_ips);
    o->destination_ips = addresses(a, m->destination_ips, &o->n_destination_ips);
    o->not_destination_ips = addresses(a, m->not_destination_ips, &o->n_not_destination_ips);
    o->destination_ports = ports(a, m->destination_ports, &o->n_destination_ports);
    o->not_destination_ports = ports(a, m->not_destination_ports, &o->n_not_destination_ports);
    o->service_accounts = accounts(a, m->service_accounts, &o->n_service_accounts);
    o->not_service_accounts = accounts(a, m->not_service_accounts, &o->n_not_service_accounts);
    return o;
}

static Sw__MeshAuthClause *clause(struct sw_arena *a, const struct sw_policy_clause *c)
{
    Sw__MeshAuthClause *o = SW_PB_NEW(a, Sw__MeshAuthClause, sw__mesh_auth_clause);

    o->matches = sw_arena_array(a, c->n, sizeof(*o->matches));
    for (size_t i = 0; i < c->n; i++)
        o->matches[o->n_matches++] = match(a, &c->matches[i]);
    return o;
}

static Sw__MeshAuthRule *rule(struct sw_arena *a, const struct sw_policy_rule *r)
{
    Sw__MeshAuthRule *o = SW_PB_NEW(a, Sw__MeshAuthRule, sw__mesh_auth_rule);

    o->clauses = sw_arena_array(a, r->n, sizeof(*o->clauses));
    for (size_t i = 0; i < r->n; i++)
        o->clauses[o->n_clauses++] = clause(a, &r->clauses[i]);
    return o;
}

struct sw_slice mesh_policy_pack(struct sw_arena *a, const struct sw_policy *p)
{
    Sw__MeshAuthorization *o = SW_PB_NEW(a, Sw__MeshAuthorization, sw__mesh_authorization);

    o->name = SW_PB_BYTES(p->name);
    o->namespace_ = SW_PB_BYTES(p->ns);
    o->scope = (Sw__MeshAuthorization__Scope)p->scope; /* the numbers are the same */
    o->action = (Sw__MeshAuthorization__Action)p->action;
    o->dry_run = p->dry_run;
    o->rules = sw_arena_array(a, p->n, sizeof(*o->rules));
    for (size_t i = 0; i < p->n; i++)
        o->rules[o->n_rules++] = rule(a, &p->rules[i]);
    return sw_pb_pack(a, &o->base);
}
