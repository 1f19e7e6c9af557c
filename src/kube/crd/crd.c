/* SPDX-License-Identifier: Apache-2.0 */
/* See crd.h. */
#include "kube/crd/crd.h"

#include "base/mem.h"
#include "kube/crd/crd_int.h"
#include "kube/crd/schema.h"

/* ---- versions ---- */

/* With a status subresource the root may only have keywords that its parts may have, too. */
static void check_root(const struct sw_json *schema, bool status, const struct sw_fpath *path,
                       struct sw_field_errs *e)
{
    static const char *const allowed[] = {"description",
                                          "type",
                                          "format",
                                          "title",
                                          "maximum",
                                          "exclusiveMaximum",
                                          "minimum",
                                          "exclusiveMinimum",
                                          "maxLength",
                                          "minLength",
                                          "pattern",
                                          "maxItems",
                                          "minItems",
                                          "uniqueItems",
                                          "multipleOf",
                                          "required",
                                          "items",
                                          "properties",
                                          "externalDocs",
                                          "example",
                                          "x-kubernetes-preserve-unknown-fields",
                                          "x-kubernetes-validations"};
    struct sw_fpath at_null = sw_fpath_str(path, "nullable");
    bool ok = true;

    SW_JSON_MEMBERS (m, schema) {
        bool known = !status || (m->value->type == SW_JSON_BOOL && !m->value->boolean);

        for (size_t k = 0; k < SW_ARRAY_LEN(allowed); k++)
            known = known || sw_slice_eq_str(m->key, allowed[k]);
        ok = ok && known;
    }
    if (!ok)
        sw_ferr_invalid(e, path, schema,
                        "only [Description Type Format Title Maximum ExclusiveMaximum Minimum "
                        "ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems "
                        "UniqueItems MultipleOf Required Items Properties ExternalDocs Example "
                        "XPreserveUnknownFields XValidations] fields are allowed at the root of "
                        "the schema if the status subresource is enabled");
    if (sw_json_true(sw_json_find(schema, "nullable")))
        sw_ferr_forbidden(e, &at_null, "nullable cannot be true at the root");
}

static const struct sw_json *schema_of(const struct sw_json *version)
{
    return sw_json_walk(version, "schema", "openAPIV3Schema", NULL);
}

/* The schema that a version of this name had before. */
static const struct sw_json *old_schema(const struct sw_json *old, struct sw_slice name)
{
    const struct sw_json *list = sw_json_walk(old, "spec", "versions", NULL);

    return schema_of(sw_json_find_item(list, "name", name));
}

static void compile_version(const struct sw_json *v, const struct sw_json *old,
                            struct sw_crd_version *out, const struct sw_fpath *path, bool shared,
                            struct sw_field_errs *e)
{
    const struct sw_json *schema = schema_of(v);
    const struct sw_json *was = old_schema(old, sw_field_text(v, "name"));
    struct sw_schema_opts o = {.unchanged =
                                   schema && was && sw_json_equal(schema, was, SW_JSON_EQ_VALUE),
                               .rules = sw_json_walk(old, "spec", "versions", NULL)};
    struct sw_fpath at_schema = sw_fpath_str(path, "schema");
    struct sw_fpath at_own = sw_fpath_str(&at_schema, "openAPIV3Schema");
    struct sw_fpath at = shared ? sw_fpath_str(NULL, "spec.validation.openAPIV3Schema") : at_own;

    out->name = sw_field_text(v, "name");
    out->served = sw_json_true(sw_json_find(v, "served"));
    out->deprecated = sw_json_true(sw_json_find(v, "deprecated"));
    out->status = sw_json_walk(v, "subresources", "status", NULL);
    if (!schema) {
        sw_ferr_required(e, &at_own, "schemas are required");
        return;
    }
    check_root(schema, out->status, &at, e);
    if (sw_schema_compile_as(&out->schema, schema, &o, &at, e) < 0)
        out->schema.root = NULL;
}

/* The warning of a deprecated version names the best version that is not. */
static void set_warnings(struct sw_crd *c)
{
    for (size_t i = 0; i < c->nversions; i++) {
        struct sw_crd_version *v = &c->versions[i];
        const struct sw_crd_version *best = NULL;
        const struct sw_json *given = sw_json_find(
            sw_json_at(sw_json_walk(c->object, "spec", "versions", NULL), i), "deprecationWarning");

        if (!v->deprecated)
            continue;
        for (size_t k = 0; k < c->nversions; k++) {
            if (c->versions[k].served && !c->versions[k].deprecated &&
                (!best || sw_version_cmp(c->versions[k].name, best->name) < 0))
                best = &c->versions[k];
        }
        v->warning = sw_slice_str(sw_arena_printf(&c->arena, "%.*s/%.*s %.*s is deprecated",
                                                  SW_SLICE_ARG(c->group), SW_SLICE_ARG(v->name),
                                                  SW_SLICE_ARG(c->kind)));
        if (best)
            v->warning = sw_slice_str(sw_arena_printf(
                &c->arena, "%.*s; use %.*s/%.*s %.*s", SW_SLICE_ARG(v->warning),
                SW_SLICE_ARG(c->group), SW_SLICE_ARG(best->name), SW_SLICE_ARG(c->kind)));
        if (sw_json_str(given).n)
            v->warning = sw_json_str(given);
    }
}

struct sw_crd *sw_crd_compile(const struct sw_json *obj, const struct sw_json *old,
                              struct sw_field_errs *e)
{
    struct sw_crd *c = SW_NEW(struct sw_crd);
    const struct sw_json *spec, *names, *versions;
    struct sw_fpath path = sw_fpath_str(NULL, "spec");
    struct sw_fpath up = sw_fpath_str(&path, "versions");
    struct sw_field_errs own, shared;
    size_t before = e->n;
    bool one;

    c->object = sw_json_copy(&c->arena, obj);
    spec = sw_json_find(c->object, "spec");
    names = sw_json_find(spec, "names");
    versions = sw_json_find(spec, "versions");
    c->group = sw_field_text(spec, "group");
    c->kind = sw_field_text(names, "kind");
    c->plural = sw_field_text(names, "plural");
    c->versions = sw_arena_array(&c->arena, sw_json_len(versions) + 1, sizeof(*c->versions));
    one = sw_crd_common_schema(versions);
    sw_field_errs_init(&own, e->arena);
    sw_field_errs_init(&shared, e->arena);
    own.budget = shared.budget = e->budget;
    for (size_t i = 0; i < sw_json_len(versions); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);
        struct sw_field_errs scratch;
        bool given = sw_json_walk(sw_json_at(versions, i), "schema", "openAPIV3Schema", NULL);

        /* A shared schema is reported for the first version only. */
        sw_field_errs_init(&scratch, e->arena);
        scratch.budget = e->budget;
        compile_version(sw_json_at(versions, i), old, &c->versions[c->nversions++], &at,
                        one && given,
                        !one || !given ? &own
                        : i            ? &scratch
                                       : &shared);
    }
    sw_crd_check(c, old, &own, &shared, e);
    if (e->n != before) {
        sw_crd_free(c);
        return NULL;
    }
    set_warnings(c);
    return c;
}

void sw_crd_free(struct sw_crd *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < c->nversions; i++)
        sw_schema_set_done(&c->versions[i].schema);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

const struct sw_crd_version *sw_crd_version(const struct sw_crd *c, struct sw_slice name)
{
    for (size_t i = 0; i < c->nversions; i++) {
        if (sw_slice_eq(c->versions[i].name, name))
            return &c->versions[i];
    }
    return NULL;
}

/* ---- version order ---- */

struct parsed {
    bool ok;
    unsigned stage; /* 0 GA, 1 beta, 2 alpha */
    uint64_t major, minor;
};

static uint64_t take_number(struct sw_slice *s)
{
    uint64_t n = 0;

    while (s->n && s->p[0] >= '0' && s->p[0] <= '9' && n < 1000000) {
        n = n * 10 + (uint64_t)(s->p[0] - '0');
        *s = sw_slice_from(*s, 1);
    }
    return n;
}

static struct parsed parse_version(struct sw_slice s)
{
    struct parsed p = {0};
    size_t len;

    if (s.n < 2 || s.p[0] != 'v' || s.p[1] < '0' || s.p[1] > '9')
        return p;
    s = sw_slice_from(s, 1);
    p.major = take_number(&s);
    if (!s.n) {
        p.ok = true;
        return p;
    }
    p.stage = sw_slice_has_prefix(s, SW_SLICE_LIT("beta")) ? 1 : 2;
    len = p.stage == 1 ? 4 : 5;
    if (p.stage == 2 && !sw_slice_has_prefix(s, SW_SLICE_LIT("alpha")))
        return p;
    s = sw_slice_from(s, len);
    p.ok = s.n > 0;
    p.minor = take_number(&s);
    p.ok = p.ok && !s.n;
    return p;
}

int sw_version_cmp(struct sw_slice x, struct sw_slice y)
{
    struct parsed p = parse_version(x);
    struct parsed q = parse_version(y);

    if (p.ok != q.ok)
        return p.ok ? -1 : 1;
    if (!p.ok)
        return sw_slice_cmp(x, y);
    if (p.stage != q.stage)
        return (int)p.stage - (int)q.stage;
    if (p.major != q.major)
        return p.major > q.major ? -1 : 1;
    return p.minor == q.minor ? 0 : p.minor > q.minor ? -1 : 1;
}
