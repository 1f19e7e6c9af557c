/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the rules over every message of every resource, and checks the references at the end. */
#include "control/lint/lint.h"

#include <stdarg.h>
#include <stdio.h>

#include <proto/cluster.pb-c.h>
#include <proto/google.pb-c.h>
#include <proto/listener.pb-c.h>
#include <proto/route.pb-c.h>
#include <proto/tls.pb-c.h>

#include "control/lint/lint_int.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "proto/walk.h"
#include "xds/constraints.h"

enum {
    TEXT_MAX = 256,
    FINDINGS_MAX = 10000, /* reported; the rest is counted */
};

/* --- findings --- */

static void report(struct lint *l, enum sw_xds_severity severity, struct sw_slice path,
                   const char *text)
{
    struct sw_xds_finding f = {.severity = severity,
                               .type = l->type,
                               .resource = l->res[l->at].name,
                               .field = path,
                               .text = sw_slice_str(text)};

    if (severity == SW_XDS_ERROR)
        l->errors++;
    if (l->fn && l->errors <= FINDINGS_MAX)
        l->fn(l->arg, &f);
}

static struct sw_slice join_path(struct lint *l, struct sw_slice in, const char *field)
{
    if (in.n == 0)
        return sw_slice_str(field);
    if (*field == '\0')
        return in;
    return sw_slice_str(sw_arena_printf(&l->a, "%.*s.%s", SW_SLICE_ARG(in), field));
}

static void vreport(struct lint *l, enum sw_xds_severity severity, const char *field,
                    const char *fmt, va_list ap) SW_PRINTF(4, 0);

static void vreport(struct lint *l, enum sw_xds_severity severity, const char *field,
                    const char *fmt, va_list ap)
{
    char text[TEXT_MAX];

    (void)vsnprintf(text, sizeof(text), fmt, ap);
    report(l, severity, join_path(l, l->in, field), text);
}

void sw_lint_error(struct lint *l, const char *field, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vreport(l, SW_XDS_ERROR, field, fmt, ap);
    va_end(ap);
}

void sw_lint_warn(struct lint *l, const char *field, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vreport(l, SW_XDS_WARNING, field, fmt, ap);
    va_end(ap);
}

void sw_lint_ref(struct lint *l, enum ref_kind kind, struct sw_slice name, const char *field)
{
    struct ref r = {.kind = kind,
                    .name = name,
                    .path = sw_arena_slice(&l->a, join_path(l, l->in, field)),
                    .resource = l->at};

    if (name.n)
        sw_vec_push(&l->refs, r);
}

/* --- rules --- */

static const struct lint_rule *find_rule(const struct lint_rule *rules,
                                         const ProtobufCMessageDescriptor *type)
{
    for (; rules->type; rules++) {
        if (rules->type == type)
            return rules;
    }
    return NULL;
}

static void check_constraints(struct lint *l, const struct sw_pb_constraint *rows,
                              const ProtobufCMessage *m)
{
    struct sw_pb_broken broken;
    size_t at = 0;

    while (sw_pb_next_broken(rows, m, &at, &broken))
        sw_lint_error(l, broken.field, "%s", broken.why);
}

static void on_message(void *arg, const ProtobufCMessage *m, struct sw_slice path)
{
    const struct lint_rule *tables[] = {sw_lint_core_rules, sw_lint_route_rules,
                                        sw_lint_listener_rules, sw_lint_cluster_rules};
    struct lint *l = arg;

    l->in = path;
    check_constraints(l, sw_xds_constraints, m);
    check_constraints(l, sw_lint_constraints, m);
    for (size_t i = 0; i < SW_ARRAY_LEN(tables); i++) {
        const struct lint_rule *r = find_rule(tables[i], m->descriptor);

        if (r)
            r->check(l, m);
    }
}

static void on_closed(void *arg, const Sw__Any *any, struct sw_slice path, const char *why)
{
    struct sw_slice type = sw_slice_head(sw_pb_type_name(SW_PB_SLICE(any->type_url)), 120);
    struct lint *l = arg;

    l->in = path;
    sw_lint_error(l, "", "cannot open '%.*s': %s", SW_SLICE_ARG(type), why);
}

/* --- resources --- */

static struct sw_slice own_name(const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const void *p = m;

    if (d == &sw__listener__descriptor)
        return SW_PB_SLICE(((const Sw__Listener *)p)->name);
    if (d == &sw__route_configuration__descriptor)
        return SW_PB_SLICE(((const Sw__RouteConfiguration *)p)->name);
    if (d == &sw__cluster__descriptor)
        return SW_PB_SLICE(((const Sw__Cluster *)p)->name);
    if (d == &sw__cluster_load_assignment__descriptor)
        return SW_PB_SLICE(((const Sw__ClusterLoadAssignment *)p)->cluster_name);
    if (d == &sw__secret__descriptor)
        return SW_PB_SLICE(((const Sw__Secret *)p)->name);
    return (struct sw_slice){0};
}

static int kind_of(const ProtobufCMessage *m)
{
    const ProtobufCMessageDescriptor *d = m->descriptor;
    const void *p = m;

    if (d == &sw__route_configuration__descriptor)
        return REF_ROUTE;
    if (d == &sw__cluster__descriptor)
        return REF_CLUSTER;
    if (d == &sw__cluster_load_assignment__descriptor)
        return REF_ENDPOINTS;
    if (d == &sw__secret__descriptor)
        return REF_SECRET;
    if (d == &sw__listener__descriptor && ((const Sw__Listener *)p)->listener_specifier_case ==
                                              SW__LISTENER__LISTENER_SPECIFIER_INTERNAL_LISTENER)
        return REF_INTERNAL;
    return -1;
}

static void check_resource(struct lint *l, struct sw_map *names)
{
    const struct sw_model_resource *r = &l->res[l->at];
    const ProtobufCMessageDescriptor *type = sw_pb_type_find(sw_slice_str(r->type));
    struct sw_pb_walker w = {.message = on_message, .closed = on_closed, .arg = l};
    ProtobufCMessage *m;
    struct sw_slice key;
    struct sw_err err;
    int kind;

    l->in = (struct sw_slice){0};
    l->type = type ? type->short_name : "Resource";
    if (!type) {
        sw_lint_error(l, "", "type '%.120s' is not known", r->type);
        return;
    }
    m = sw_pb_unpack(&l->a, type, r->value, NULL, &err);
    if (!m) {
        sw_lint_error(l, "", "%s", err.msg);
        return;
    }
    if (!sw_slice_eq(own_name(m), r->name))
        sw_lint_error(l, "name", "is not the name of the resource");
    key = sw_slice_str(sw_arena_printf(&l->a, "%s %.*s", l->type, SW_SLICE_ARG(r->name)));
    if (sw_map_put(names, key, m))
        sw_lint_error(l, "name", "another resource of this type has it too");
    kind = kind_of(m);
    if (kind >= 0)
        (void)sw_map_put(&l->defined[kind], r->name, m);
    if (sw_pb_walk(&l->a, m, &w) != SW_OK) {
        l->in = (struct sw_slice){0};
        sw_lint_error(l, "", "is nested too deeply");
    }
}

static void check_refs(struct lint *l)
{
    static const char *const what[REF_KINDS] = {[REF_CLUSTER] = "cluster",
                                                [REF_ROUTE] = "route configuration",
                                                [REF_SECRET] = "secret",
                                                [REF_ENDPOINTS] = "endpoint set",
                                                [REF_INTERNAL] = "internal listener"};

    SW_VEC_FOREACH (struct ref, r, &l->refs) {
        if (sw_map_get(&l->defined[r->kind], r->name))
            continue;
        if (r->kind == REF_CLUSTER && sw_slice_eq_str(r->name, SW_MODEL_INVALID_CLUSTER))
            continue;
        l->at = r->resource;
        l->type = sw_pb_type_find(sw_slice_str(l->res[l->at].type))->short_name;
        l->in = r->path;
        sw_lint_error(l, "", "no %s named '%.*s'", what[r->kind],
                      SW_SLICE_ARG(sw_slice_head(r->name, 120)));
    }
}

size_t sw_xds_lint(const struct sw_model_resource *r, size_t n, const struct sw_xds_lint_opts *o,
                   sw_xds_on_finding fn, void *arg)
{
    struct lint l = {.res = r, .fn = fn, .arg = arg};
    struct sw_map names = {0};

    for (l.at = 0; l.at < n; l.at++)
        check_resource(&l, &names);
    if (o && o->closed)
        check_refs(&l);
    sw_map_done(&names);
    for (size_t i = 0; i < REF_KINDS; i++)
        sw_map_done(&l.defined[i]);
    sw_vec_done(&l.refs);
    sw_arena_clear(&l.a);
    return l.errors;
}
