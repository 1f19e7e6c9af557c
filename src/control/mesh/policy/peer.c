/* SPDX-License-Identifier: Apache-2.0 */
#include "control/mesh/policy/peer.h"

#include <stdlib.h>

/* ---- reading ---- */

static enum mesh_mtls read_mode(const struct sw_json *mtls)
{
    static const struct {
        const char *name;
        enum mesh_mtls mode;
    } modes[] = {{"UNSET", MESH_MTLS_UNSET},
                 {"DISABLE", MESH_MTLS_DISABLE},
                 {"PERMISSIVE", MESH_MTLS_PERMISSIVE},
                 {"STRICT", MESH_MTLS_STRICT}};
    const struct sw_json *v = sw_json_find(mtls, "mode");

    if (!v || v->type == SW_JSON_NULL)
        return MESH_MTLS_UNSET;
    for (size_t i = 0; i < SW_ARRAY_LEN(modes); i++) {
        if (sw_json_str_eq(v, modes[i].name))
            return modes[i].mode;
    }
    return MESH_MTLS_STRICT; /* whatever it asks for, it is not plaintext */
}

static int by_port(const void *x, const void *y)
{
    const struct mesh_peer_port *a = x;
    const struct mesh_peer_port *b = y;

    return (int)a->port - (int)b->port;
}

/* "80" and "080" are one port, and the stricter of two modes counts. Returns how many are left. */
static size_t merge_ports(struct mesh_peer_port *p, size_t n)
{
    size_t left = 0;

    if (n > 1)
        qsort(p, n, sizeof(*p), by_port);
    for (size_t i = 0; i < n; i++) {
        if (!left || p[left - 1].port != p[i].port)
            p[left++] = p[i];
        else if (p[i].mode > p[left - 1].mode)
            p[left - 1].mode = p[i].mode;
    }
    return left;
}

static void read_ports(struct sw_arena *a, const struct sw_json *map, struct mesh_peer *ret)
{
    size_t n = sw_json_is(map, SW_JSON_OBJECT) ? sw_json_len(map) : 0;
    struct mesh_peer_port *p = sw_arena_array(a, n, sizeof(*p));

    for (size_t i = 0; i < n; i++) {
        const struct sw_json_member *m = sw_json_member_at(map, i);
        uint64_t port = 0;

        if (sw_slice_to_u64(m->key, UINT16_MAX, &port) && port)
            p[ret->n_ports++] = (struct mesh_peer_port){(uint16_t)port, read_mode(m->value)};
    }
    ret->n_ports = merge_ports(p, ret->n_ports);
    ret->ports = p;
}

void mesh_peer_read(struct sw_arena *a, const struct sw_json *spec, bool in_root,
                    struct mesh_peer *ret)
{
    ret->selector = mesh_selector_read(a, spec);
    ret->mode = read_mode(sw_json_find(spec, "mtls"));
    ret->n_ports = 0;
    ret->ports = NULL;
    if (ret->selector.n == 0) {
        ret->level = in_root ? MESH_PEER_MESH : MESH_PEER_NAMESPACE;
        return;
    }
    ret->level = in_root ? MESH_PEER_IGNORED : MESH_PEER_WORKLOAD;
    read_ports(a, sw_json_find(spec, "portLevelMtls"), ret);
}

bool mesh_peer_wins(const struct mesh_peer *x, const struct mesh_peer *y)
{
    int c = y ? sw_slice_cmp(x->created, y->created) : -1;

    return c < 0 || (c == 0 && sw_slice_cmp(x->name, y->name) < 0);
}

/* ---- deciding ---- */

/* Whether plaintext is refused on ports without a mode of their own. */
static bool base_strict(const struct mesh_peer *mesh, const struct mesh_peer *space,
                        const struct mesh_peer *workload)
{
    const struct mesh_peer *const levels[] = {mesh, space, workload};
    bool strict = false;

    for (size_t i = 0; i < SW_ARRAY_LEN(levels); i++) {
        if (levels[i] && levels[i]->mode != MESH_MTLS_UNSET)
            strict = levels[i]->mode == MESH_MTLS_STRICT;
    }
    return strict;
}

/* The port's own mode says otherwise than the rest of the workload. */
static bool is_exception(const struct mesh_peer_port *p, bool strict)
{
    return p->mode != MESH_MTLS_UNSET && (p->mode == MESH_MTLS_STRICT) != strict;
}

static size_t count_exceptions(const struct mesh_peer *workload, bool strict)
{
    size_t n = 0;

    for (size_t i = 0; workload && i < workload->n_ports; i++)
        n += is_exception(&workload->ports[i], strict);
    return n;
}

enum mesh_peer_list mesh_peer_decide(const struct mesh_peer *mesh, const struct mesh_peer *space,
                                     const struct mesh_peer *workload)
{
    bool strict = base_strict(mesh, space, workload);

    if (count_exceptions(workload, strict))
        return MESH_PEER_LISTS_CONVERTED;
    return strict ? MESH_PEER_LISTS_STATIC : MESH_PEER_LISTS_NONE;
}

/* ---- policies ---- */

static const struct sw_strmatch anybody[] = {{.kind = SW_STRMATCH_PRESENCE}};
static const struct sw_strmatch_list no_identity = {anybody, 1}; /* as not_principals */

static struct sw_port_list one_port(struct sw_arena *a, uint16_t port)
{
    uint16_t *p = sw_arena_array(a, 1, sizeof(*p));

    *p = port;
    return (struct sw_port_list){p, 1};
}

static struct sw_policy_clause one_match(struct sw_arena *a, struct sw_policy_match m)
{
    struct sw_policy_match *p = SW_ARENA_NEW(a, struct sw_policy_match);

    *p = m;
    return (struct sw_policy_clause){p, 1};
}

static struct sw_policy_rule one_clause(struct sw_arena *a, struct sw_policy_match m)
{
    struct sw_policy_clause *c = SW_ARENA_NEW(a, struct sw_policy_clause);

    *c = one_match(a, m);
    return (struct sw_policy_rule){c, 1};
}

/* One rule: no identity, and on none of the exempt ports. */
static void deny_except(struct sw_arena *a, const struct mesh_peer *w, struct sw_policy *p)
{
    struct sw_policy_clause *c = sw_arena_array(a, w->n_ports + 1, sizeof(*c));
    struct sw_policy_rule *r = SW_ARENA_NEW(a, struct sw_policy_rule);

    c[r->n++] = one_match(a, (struct sw_policy_match){.not_principals = no_identity});
    for (size_t i = 0; i < w->n_ports; i++) {
        if (is_exception(&w->ports[i], true))
            c[r->n++] = one_match(a, (struct sw_policy_match){.not_destination_ports =
                                                                  one_port(a, w->ports[i].port)});
    }
    r->clauses = c;
    p->rules = r;
    p->n = 1;
}

/* A rule for each strict port: no identity, on that port. */
static void deny_ports(struct sw_arena *a, const struct mesh_peer *w, struct sw_policy *p)
{
    struct sw_policy_rule *r = sw_arena_array(a, w->n_ports, sizeof(*r));

    for (size_t i = 0; i < w->n_ports; i++) {
        if (is_exception(&w->ports[i], false))
            r[p->n++] = one_clause(
                a, (struct sw_policy_match){.not_principals = no_identity,
                                            .destination_ports = one_port(a, w->ports[i].port)});
    }
    p->rules = r;
}

struct sw_policy mesh_peer_policy(struct sw_arena *a, const struct mesh_peer *mesh,
                                  const struct mesh_peer *space, const struct mesh_peer *workload)
{
    struct sw_policy p = {.ns = workload->ns,
                          .scope = SW_POLICY_SELECTOR,
                          .action = SW_POLICY_DENY,
                          .name = sw_slice_str(sw_arena_printf(a, MESH_PEER_CONVERTED "%.*s",
                                                               SW_SLICE_ARG(workload->name)))};

    if (base_strict(mesh, space, workload))
        deny_except(a, workload, &p);
    else
        deny_ports(a, workload, &p);
    return p;
}

struct sw_policy mesh_peer_static(struct sw_arena *a, struct sw_slice root_ns)
{
    struct sw_policy_rule *r = SW_ARENA_NEW(a, struct sw_policy_rule);

    *r = one_clause(a, (struct sw_policy_match){.not_principals = no_identity});
    return (struct sw_policy){.ns = root_ns,
                              .name = SW_SLICE_LIT(MESH_PEER_STATIC),
                              .scope = SW_POLICY_SELECTOR,
                              .action = SW_POLICY_DENY,
                              .rules = r,
                              .n = 1};
}
