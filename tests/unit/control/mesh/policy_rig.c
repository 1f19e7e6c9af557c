/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_rig.h"

#include <string.h>

#include <proto/workload.pb-c.h>

#include "base/buf.h"
#include "base/mem.h"
#include "proto/pb.h"

void rig_open(struct rig *r, const struct sw_mesh_policy_conf *conf)
{
    static const struct sw_mesh_policy_conf plain = {0};

    *r = (struct rig){0};
    r->ix = sw_mesh_policies_new(conf ? conf : &plain);
}

static void resource_free(struct resource *x)
{
    sw_slice_free(&x->key);
    sw_slice_free(&x->value);
    sw_free(x);
}

void rig_close(struct rig *r)
{
    sw_mesh_policies_free(r->ix);
    SW_MAP_FOREACH (it, &r->resources)
        resource_free(it->value);
    sw_map_done(&r->resources);
    sw_vec_done(&r->scopes);
    sw_vec_done(&r->statuses);
    sw_arena_clear(&r->arena);
}

struct sw_json *rig_json(struct sw_arena *a, const char *text)
{
    char *copy = sw_arena_dup(a, sw_slice_str(text));
    struct sw_json *v = NULL;
    struct sw_err err = {0};

    for (char *c = copy; *c; c++) {
        if (*c == '\'')
            *c = '"';
    }
    if (sw_json_parse(a, sw_slice_str(copy), NULL, &v, &err) != SW_OK)
        fail_msg("%s: %s", text, err.msg);
    return v;
}

void rig_set_created(struct rig *r, enum sw_mesh_policy_kind kind, const char *ns, const char *name,
                     const char *spec, const char *created)
{
    SW_ARENA_AUTO a = {0};
    const char *text = sw_arena_printf(&a,
                                       "{'metadata':{'namespace':'%s','name':'%s',"
                                       "'creationTimestamp':'%s'},'spec':%s}",
                                       ns, name, created, spec);

    sw_mesh_policies_set(r->ix, kind, rig_json(&a, text));
}

void rig_set(struct rig *r, enum sw_mesh_policy_kind kind, const char *ns, const char *name,
             const char *spec)
{
    rig_set_created(r, kind, ns, name, spec, "2026-01-01T00:00:00Z");
}

void rig_del(struct rig *r, enum sw_mesh_policy_kind kind, const char *ns, const char *name)
{
    sw_mesh_policies_del(r->ix, kind, sw_slice_str(ns), sw_slice_str(name));
}

static void on_resource(void *arg, struct sw_slice key, struct sw_slice value)
{
    struct rig *r = arg;
    struct resource *old = sw_map_del(&r->resources, key);
    struct resource *x;

    r->changes++;
    if (!value.p) {
        assert_non_null(old);
        resource_free(old);
        return;
    }
    if (old)
        assert_false(sw_slice_eq(old->value, value)); /* handed out although nothing changed */
    x = SW_NEW(struct resource);
    x->key = sw_slice(sw_slice_dup(key), key.n);
    x->value = sw_slice(sw_slice_dup(value), value.n);
    (void)sw_map_put(&r->resources, x->key, x);
    if (old)
        resource_free(old);
}

static void on_affected(void *arg, const struct sw_mesh_policy_scope *s)
{
    struct rig *r = arg;
    struct sw_mesh_label *labels = sw_arena_array(&r->arena, s->n, sizeof(*labels));
    struct sw_mesh_policy_scope copy = *s;

    for (size_t i = 0; i < s->n; i++) {
        labels[i].key = sw_arena_slice(&r->arena, s->labels[i].key);
        labels[i].value = sw_arena_slice(&r->arena, s->labels[i].value);
    }
    copy.labels = labels;
    copy.ns = sw_arena_slice(&r->arena, s->ns);
    copy.waypoint = sw_arena_slice(&r->arena, s->waypoint);
    sw_vec_push(&r->scopes, copy);
}

static void on_status(void *arg, struct sw_slice ns, struct sw_slice name,
                      const struct sw_mesh_condition *c)
{
    struct rig *r = arg;
    const char *text =
        c ? sw_arena_printf(&r->arena, "%.*s/%.*s %s=%s %s %.*s", SW_SLICE_ARG(ns),
                            SW_SLICE_ARG(name), c->type, c->status ? "True" : "False", c->reason,
                            SW_SLICE_ARG(c->message))
          : sw_arena_printf(&r->arena, "%.*s/%.*s -", SW_SLICE_ARG(ns), SW_SLICE_ARG(name));

    sw_vec_push(&r->statuses, text);
}

void rig_flush(struct rig *r)
{
    const struct sw_mesh_policy_sink sink = {
        .resource = on_resource, .affected = on_affected, .status = on_status, .arg = r};

    r->changes = 0;
    r->scopes.n = 0;
    r->statuses.n = 0;
    sw_mesh_policies_flush(r->ix, &sink);
}

const struct sw_mesh_label *rig_labels(struct sw_arena *a, const char *text, size_t *ret_n)
{
    struct sw_mesh_label *p = sw_arena_array(a, strlen(text) + 1, sizeof(*p));
    struct sw_slice rest = sw_slice_str(text);
    size_t n = 0;

    while (rest.n) {
        struct sw_slice one = sw_slice_cut(&rest, ',');

        p[n].key = sw_slice_cut(&one, '=');
        p[n++].value = one;
    }
    *ret_n = n;
    return p;
}

const char *rig_keys(struct rig *r, const char *ns, const char *labels)
{
    size_t n;
    const struct sw_mesh_label *l = rig_labels(&r->arena, labels, &n);
    char *text = sw_arena_dup(&r->arena,
                              sw_mesh_workload_policies(r->ix, sw_slice_str(ns), l, n, &r->arena));

    for (char *c = text; *c; c++) {
        if (*c == '\n')
            *c = ' ';
    }
    return text;
}

/* ---- reading resources ---- */

static struct sw_strmatch_list strings(struct sw_arena *a, Sw__MeshStringMatch **from, size_t n)
{
    struct sw_strmatch *p = sw_arena_array(a, n, sizeof(*p));

    for (size_t i = 0; i < n; i++) {
        const Sw__MeshStringMatch *m = from[i];

        if (m->match_type_case == SW__MESH_STRING_MATCH__MATCH_TYPE_EXACT)
            p[i] = (struct sw_strmatch){SW_STRMATCH_EXACT, SW_PB_SLICE(m->exact)};
        else if (m->match_type_case == SW__MESH_STRING_MATCH__MATCH_TYPE_PREFIX)
            p[i] = (struct sw_strmatch){SW_STRMATCH_PREFIX, SW_PB_SLICE(m->prefix)};
        else if (m->match_type_case == SW__MESH_STRING_MATCH__MATCH_TYPE_SUFFIX)
            p[i] = (struct sw_strmatch){SW_STRMATCH_SUFFIX, SW_PB_SLICE(m->suffix)};
        else if (m->match_type_case == SW__MESH_STRING_MATCH__MATCH_TYPE_PRESENCE)
            p[i] = (struct sw_strmatch){.kind = SW_STRMATCH_PRESENCE};
        else
            fail_msg("a string match that says nothing");
    }
    return (struct sw_strmatch_list){p, n};
}

static struct sw_cidr_list cidrs(struct sw_arena *a, Sw__MeshAuthAddress **from, size_t n)
{
    struct sw_cidr *p = sw_arena_array(a, n, sizeof(*p));

    for (size_t i = 0; i < n; i++) {
        assert_int_equal(
            sw_ip_from_bytes(from[i]->address.data, from[i]->address.len, &p[i].ip, NULL), SW_OK);
        p[i].len = (uint8_t)from[i]->length;
    }
    return (struct sw_cidr_list){p, n};
}

static struct sw_sa_match_list accounts(struct sw_arena *a, Sw__MeshServiceAccountMatch **from,
                                        size_t n)
{
    struct sw_sa_match *p = sw_arena_array(a, n, sizeof(*p));

    for (size_t i = 0; i < n; i++)
        p[i] = (struct sw_sa_match){SW_PB_SLICE(from[i]->namespace_),
                                    SW_PB_SLICE(from[i]->service_account)};
    return (struct sw_sa_match_list){p, n};
}

static struct sw_port_list ports(struct sw_arena *a, const uint32_t *from, size_t n)
{
    uint16_t *p = sw_arena_array(a, n, sizeof(*p));

    for (size_t i = 0; i < n; i++) {
        assert_true(from[i] <= UINT16_MAX);
        p[i] = (uint16_t)from[i];
    }
    return (struct sw_port_list){p, n};
}

static struct sw_policy_match match(struct sw_arena *a, const Sw__MeshAuthMatch *m)
{
    struct sw_policy_match to = {0};

#define READ(read, list, key, not_key)                                                             \
    to.list = read(a, m->list, m->n_##list);                                                       \
    to.not_##list = read(a, m->not_##list, m->n_not_##list);
    SW_POLICY_LISTS(READ, strings, accounts, cidrs, ports)
#undef READ
    return to;
}

static struct sw_policy_rule rule(struct sw_arena *a, const Sw__MeshAuthRule *from)
{
    struct sw_policy_clause *c = sw_arena_array(a, from->n_clauses, sizeof(*c));

    for (size_t i = 0; i < from->n_clauses; i++) {
        const Sw__MeshAuthClause *x = from->clauses[i];
        struct sw_policy_match *m = sw_arena_array(a, x->n_matches, sizeof(*m));

        for (size_t k = 0; k < x->n_matches; k++)
            m[k] = match(a, x->matches[k]);
        c[i] = (struct sw_policy_clause){m, x->n_matches};
    }
    return (struct sw_policy_rule){c, from->n_clauses};
}

struct sw_policy *rig_policy(struct sw_arena *a, struct sw_slice value)
{
    struct sw_err err = {0};
    Sw__MeshAuthorization *m =
        SW_PB_UNPACK(a, Sw__MeshAuthorization, sw__mesh_authorization, value, NULL, &err);
    struct sw_policy_rule *rules;
    struct sw_policy *out = NULL;
    struct sw_policy p;

    if (!m) {
        fail_msg("%s", err.msg);
        return NULL;
    }
    rules = sw_arena_array(a, m->n_rules, sizeof(*rules));
    for (size_t i = 0; i < m->n_rules; i++)
        rules[i] = rule(a, m->rules[i]);
    p = (struct sw_policy){.name = SW_PB_SLICE(m->name),
                           .ns = SW_PB_SLICE(m->namespace_),
                           .scope = (enum sw_policy_scope)m->scope,
                           .action = (enum sw_policy_action)m->action,
                           .dry_run = m->dry_run,
                           .rules = rules,
                           .n = m->n_rules};
    assert_int_equal(sw_policy_copy(a, &p, &out, &err), SW_OK);
    return out;
}

/* ---- text ---- */

static void put(struct sw_buf *b, const char *fmt, ...) SW_PRINTF(2, 3);
static void put(struct sw_buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    assert_int_equal(sw_buf_vprintf(b, fmt, ap), SW_OK);
    va_end(ap);
}

static void put_strings(struct sw_buf *b, const char *name, struct sw_strmatch_list l)
{
    for (size_t i = 0; i < l.n; i++) {
        const char *head = l.p[i].kind == SW_STRMATCH_SUFFIX ? "*" : "";
        const char *tail = l.p[i].kind == SW_STRMATCH_PREFIX ? "*" : "";

        put(b, " %s=%s%.*s%s", name, head, SW_SLICE_ARG(l.p[i].text), tail);
        if (l.p[i].kind == SW_STRMATCH_PRESENCE)
            put(b, "*");
    }
}

static void put_accounts(struct sw_buf *b, const char *name, struct sw_sa_match_list l)
{
    for (size_t i = 0; i < l.n; i++)
        put(b, " %s=%.*s/%.*s", name, SW_SLICE_ARG(l.p[i].ns), SW_SLICE_ARG(l.p[i].sa));
}

static void put_cidrs(struct sw_buf *b, const char *name, struct sw_cidr_list l)
{
    char text[SW_IP_TEXT];

    for (size_t i = 0; i < l.n; i++)
        put(b, " %s=%s/%u", name, sw_ip_text(&l.p[i].ip, text), l.p[i].len);
}

static void put_ports(struct sw_buf *b, const char *name, struct sw_port_list l)
{
    for (size_t i = 0; i < l.n; i++)
        put(b, " %s=%u", name, l.p[i]);
}

static void put_match(struct sw_buf *b, const struct sw_policy_match *m)
{
    put(b, "{");
    put_strings(b, "ns", m->namespaces);
    put_strings(b, "!ns", m->not_namespaces);
    put_strings(b, "id", m->principals);
    put_strings(b, "!id", m->not_principals);
    put_accounts(b, "sa", m->service_accounts);
    put_accounts(b, "!sa", m->not_service_accounts);
    put_cidrs(b, "src", m->source_ips);
    put_cidrs(b, "!src", m->not_source_ips);
    put_cidrs(b, "dst", m->destination_ips);
    put_cidrs(b, "!dst", m->not_destination_ips);
    put_ports(b, "port", m->destination_ports);
    put_ports(b, "!port", m->not_destination_ports);
    put(b, " }");
}

const char *rig_text(struct rig *r, const char *key)
{
    static const char *const scopes[] = {"GLOBAL", "NAMESPACE", "SELECTOR"};
    const struct resource *x = sw_map_get(&r->resources, sw_slice_str(key));
    SW_BUF_AUTO b = {.max = 1 << 16};
    const struct sw_policy *p;

    if (!x)
        return "-";
    p = rig_policy(&r->arena, x->value);
    put(&b, "%s %s%s", p->action == SW_POLICY_DENY ? "DENY" : "ALLOW", scopes[p->scope],
        p->dry_run ? " dry" : "");
    for (size_t i = 0; i < p->n; i++) {
        put(&b, " (");
        for (size_t k = 0; k < p->rules[i].n; k++) {
            const struct sw_policy_clause *c = &p->rules[i].clauses[k];

            put(&b, "%s", k ? " & " : "");
            for (size_t j = 0; j < c->n; j++) {
                put(&b, "%s", j ? " | " : "");
                put_match(&b, &c->matches[j]);
            }
        }
        put(&b, ")");
    }
    return sw_arena_dup(&r->arena, sw_buf_slice(&b));
}

/* ---- deciding ---- */

bool rig_allowed(struct rig *r, const char *ns, const char *labels,
                 const struct sw_policy_request *req)
{
    SW_ARENA_AUTO a = {0};
    struct sw_policy_set set = {0};
    struct sw_policy_verdict verdict;
    const struct sw_policy *all[64];
    struct sw_slice rest = sw_slice_str(rig_keys(r, ns, labels));
    size_t n = 0;

    SW_MAP_FOREACH (it, &r->resources) {
        const struct resource *x = it->value;
        const struct sw_policy *p = rig_policy(&a, x->value);

        assert_true(sw_slice_eq(p->key, x->key));
        if (p->scope == SW_POLICY_GLOBAL ||
            (p->scope == SW_POLICY_NAMESPACE && sw_slice_eq_str(p->ns, ns)))
            all[n++] = p;
    }
    while (rest.n) {
        struct sw_slice key = sw_slice_cut(&rest, ' ');
        const struct resource *x = sw_map_get(&r->resources, key);

        if (!x) {
            fail_msg("listed and not there: %.*s", SW_SLICE_ARG(key));
            return false;
        }
        assert_true(n < SW_ARRAY_LEN(all));
        all[n++] = rig_policy(&a, x->value);
    }
    set.part[0] = sw_policy_list_new(&a, all, n);
    return sw_policy_decide(&set, req, &verdict);
}
