/* SPDX-License-Identifier: Apache-2.0 */
/* Policies as the control plane sends them. */
#include "base/utf8.h"
#include "node/mesh/mesh.h"
#include "proto/pb.h"

#include <proto/workload.pb-c.h>

struct reader {
    struct sw_arena *a;
    bool *unknown; /* of the match: something in it cannot be understood */
    bool bad_text;
};

static struct sw_slice text(struct reader *r, ProtobufCBinaryData in)
{
    struct sw_slice s = SW_PB_SLICE(in);

    r->bad_text = r->bad_text || !sw_utf8_valid(s);
    return s;
}

static bool read_string(struct reader *r, const Sw__MeshStringMatch *in, struct sw_strmatch *ret)
{
    switch ((int)in->match_type_case) {
    case SW__MESH_STRING_MATCH__MATCH_TYPE_EXACT:
        *ret = (struct sw_strmatch){SW_STRMATCH_EXACT, text(r, in->exact)};
        return true;
    case SW__MESH_STRING_MATCH__MATCH_TYPE_PREFIX:
        *ret = (struct sw_strmatch){SW_STRMATCH_PREFIX, text(r, in->prefix)};
        return true;
    case SW__MESH_STRING_MATCH__MATCH_TYPE_SUFFIX:
        *ret = (struct sw_strmatch){SW_STRMATCH_SUFFIX, text(r, in->suffix)};
        return true;
    case SW__MESH_STRING_MATCH__MATCH_TYPE_PRESENCE:
        *ret = (struct sw_strmatch){.kind = SW_STRMATCH_PRESENCE};
        return true;
    case SW__MESH_STRING_MATCH__MATCH_TYPE__NOT_SET:
    default:
        return false;
    }
}

static struct sw_strmatch_list strings(struct reader *r, Sw__MeshStringMatch *const *in, size_t n)
{
    struct sw_strmatch *to = sw_arena_array(r->a, n, sizeof(*to));
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        if (read_string(r, in[i], &to[out]))
            out++;
        else
            *r->unknown = true;
    }
    return (struct sw_strmatch_list){to, out};
}

static struct sw_sa_match_list accounts(struct reader *r, Sw__MeshServiceAccountMatch *const *in,
                                        size_t n)
{
    struct sw_sa_match *to = sw_arena_array(r->a, n, sizeof(*to));

    for (size_t i = 0; i < n; i++)
        to[i] = (struct sw_sa_match){text(r, in[i]->namespace_), text(r, in[i]->service_account)};
    return (struct sw_sa_match_list){to, n};
}

static bool read_block(const Sw__MeshAuthAddress *in, struct sw_cidr *ret)
{
    size_t lost;

    if (sw_ip_from_bytes(in->address.data, in->address.len, &ret->ip, NULL) != SW_OK)
        return false;
    /* IPv4 written as IPv6 has lost its first 96 bits. */
    lost = in->address.len * 8 - sw_ip_len(&ret->ip) * 8;
    if (in->length < lost || in->length > in->address.len * 8)
        return false;
    ret->len = (uint8_t)(in->length - lost);
    return true;
}

static struct sw_cidr_list cidrs(struct reader *r, Sw__MeshAuthAddress *const *in, size_t n)
{
    struct sw_cidr *to = sw_arena_array(r->a, n, sizeof(*to));
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        if (read_block(in[i], &to[out]))
            out++;
        else
            *r->unknown = true;
    }
    return (struct sw_cidr_list){to, out};
}

static struct sw_port_list ports(struct reader *r, const uint32_t *in, size_t n)
{
    uint16_t *to = sw_arena_array(r->a, n, sizeof(*to));
    size_t out = 0;

    for (size_t i = 0; i < n; i++) {
        if (in[i] <= UINT16_MAX)
            to[out++] = (uint16_t)in[i];
        else
            *r->unknown = true;
    }
    return (struct sw_port_list){to, out};
}

static void read_match(struct reader *r, const Sw__MeshAuthMatch *in, struct sw_policy_match *m)
{
    r->unknown = &m->unknown;
    m->unknown = in->base.n_unknown_fields > 0;
#define READ(read, list, key, not_key)                                                             \
    m->list = read(r, in->list, in->n_##list);                                                     \
    m->not_##list = read(r, in->not_##list, in->n_not_##list);
    SW_POLICY_LISTS(READ, strings, accounts, cidrs, ports)
#undef READ
}

static void read_clause(struct reader *r, const Sw__MeshAuthClause *in, struct sw_policy_clause *c)
{
    struct sw_policy_match *matches = sw_arena_array(r->a, in->n_matches, sizeof(*matches));

    for (size_t i = 0; i < in->n_matches; i++)
        read_match(r, in->matches[i], &matches[i]);
    c->matches = matches;
    c->n = in->n_matches;
}

static void read_rules(struct reader *r, const Sw__MeshAuthorization *in, struct sw_policy *p)
{
    struct sw_policy_rule *rules = sw_arena_array(r->a, in->n_rules, sizeof(*rules));

    for (size_t i = 0; i < in->n_rules; i++) {
        const Sw__MeshAuthRule *from = in->rules[i];
        struct sw_policy_clause *to = sw_arena_array(r->a, from->n_clauses, sizeof(*to));

        for (size_t k = 0; k < from->n_clauses; k++)
            read_clause(r, from->clauses[k], &to[k]);
        rules[i] = (struct sw_policy_rule){to, from->n_clauses};
    }
    p->rules = rules;
    p->n = in->n_rules;
}

static int check_name(struct sw_arena *a, const struct sw_policy *p, struct sw_slice name,
                      struct sw_err *err)
{
    const char *own = sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(p->ns), SW_SLICE_ARG(p->name));

    if (sw_slice_eq_str(name, own))
        return SW_OK;
    return sw_err_set(err, SW_EINVAL, "it calls itself '%.96s'", own);
}

int sw_mesh_put_policy(struct sw_state_builder *b, const struct sw_mesh_item *it,
                       struct sw_arena *scratch, struct sw_err *err)
{
    const Sw__MeshAuthorization *m =
        SW_PB_UNPACK(scratch, Sw__MeshAuthorization, sw__mesh_authorization, it->value, NULL, err);
    struct reader r = {.a = scratch};
    struct sw_policy p = {0};
    int rc;

    if (!m)
        return err->rc;
    p.name = text(&r, m->name);
    p.ns = text(&r, m->namespace_);
    p.scope = (enum sw_policy_scope)m->scope; /* these two are checked when it is copied */
    p.action = (enum sw_policy_action)m->action;
    p.dry_run = m->dry_run;
    read_rules(&r, m, &p);
    if (r.bad_text)
        return sw_err_set(err, SW_EPROTO, "a string is not UTF-8");
    rc = check_name(scratch, &p, it->name, err);
    return rc == SW_OK ? sw_state_add_policy(b, &p, it->version, err) : rc;
}
