/* SPDX-License-Identifier: Apache-2.0 */
/* See crd.h. */
#include "kube/crd.h"

#include "base/mem.h"
#include "kube/builtin.h"
#include "kube/jsonpath.h"
#include "kube/names.h"
#include "kube/text.h"

static struct sw_slice text_of(const struct sw_json *v, const char *key)
{
    struct sw_slice s = sw_json_str(sw_json_find(v, key));

    return s.p ? s : sw_slice("", 0);
}

static struct sw_slice lower(struct sw_arena *a, struct sw_slice s)
{
    char *p = sw_arena_dup(a, s);

    for (size_t i = 0; i < s.n; i++)
        p[i] = sw_tx_lower(p[i]);
    return sw_slice(p, s.n);
}

/* ---- names ---- */

static void check_name(const struct sw_json *names, const char *key, bool mixed_case,
                       const struct sw_fpath *path, struct sw_field_errs *e)
{
    struct sw_fpath at = sw_fpath_str(path, key);
    struct sw_slice s = text_of(names, key);
    struct sw_name_msgs m;

    if (!s.n) {
        sw_ferr_required(e, &at, NULL);
        return;
    }
    m = sw_name_dns1035_label(mixed_case ? lower(e->arena, s) : s);
    if (m.n)
        sw_ferr_invalid_str(e, &at, s,
                            sw_arena_printf(e->arena, "%s%s",
                                            mixed_case ? "may have mixed case, but should "
                                                         "otherwise match: "
                                                       : "",
                                            sw_name_join(e->arena, m, ",")));
}

static void check_name_list(const struct sw_json *names, const char *key,
                            const struct sw_fpath *path, struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(names, key);
    struct sw_fpath up = sw_fpath_str(path, key);

    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_slice s = sw_json_str(sw_json_at(list, i));
        struct sw_name_msgs m = sw_name_dns1035_label(s.p ? s : sw_slice("", 0));
        struct sw_fpath at = sw_fpath_index(&up, i);

        if (m.n)
            sw_ferr_invalid_str(e, &at, s, sw_name_join(e->arena, m, ","));
    }
}

static void check_names(const struct sw_json *spec, const struct sw_fpath *path,
                        struct sw_field_errs *e)
{
    const struct sw_json *names = sw_json_find(spec, "names");
    struct sw_fpath at = sw_fpath_str(path, "names");
    struct sw_fpath at_list = sw_fpath_str(&at, "listKind");

    check_name(names, "plural", false, &at, e);
    check_name(names, "singular", false, &at, e);
    check_name(names, "kind", true, &at, e);
    check_name(names, "listKind", true, &at, e);
    check_name_list(names, "shortNames", &at, e);
    check_name_list(names, "categories", &at, e);
    if (text_of(names, "kind").n && sw_slice_eq(text_of(names, "kind"), text_of(names, "listKind")))
        sw_ferr_invalid_str(e, &at_list, text_of(names, "listKind"),
                            "kind and listKind may not be the same");
}

static void check_group_and_scope(const struct sw_json *spec, const struct sw_fpath *path,
                                  struct sw_field_errs *e)
{
    static const char *const scopes[] = {"Cluster", "Namespaced", NULL};
    struct sw_fpath at_group = sw_fpath_str(path, "group");
    struct sw_fpath at_scope = sw_fpath_str(path, "scope");
    struct sw_slice group = text_of(spec, "group");
    struct sw_name_msgs m = sw_name_dns1123_subdomain(group);
    const struct sw_json *scope = sw_json_find(spec, "scope");

    if (!group.n)
        sw_ferr_required(e, &at_group, NULL);
    else if (m.n)
        sw_ferr_invalid_str(e, &at_group, group, sw_name_join(e->arena, m, ","));
    else if (sw_slice_find(group, '.') < 0)
        sw_ferr_invalid_str(e, &at_group, group, "should be a domain with at least one dot");
    if (!text_of(spec, "scope").n)
        sw_ferr_required(e, &at_scope, NULL);
    else if (!sw_json_str_eq(scope, scopes[0]) && !sw_json_str_eq(scope, scopes[1]))
        sw_ferr_unsupported(e, &at_scope, scope, scopes);
}

static void check_object_name(const struct sw_json *obj, struct sw_field_errs *e)
{
    const struct sw_json *spec = sw_json_find(obj, "spec");
    struct sw_fpath path = sw_fpath_str(NULL, "metadata");
    struct sw_fpath at = sw_fpath_str(&path, "name");
    struct sw_slice name = text_of(sw_json_find(obj, "metadata"), "name");
    const char *want = sw_arena_printf(e->arena, "%.*s.%.*s",
                                       SW_SLICE_ARG(text_of(sw_json_find(spec, "names"), "plural")),
                                       SW_SLICE_ARG(text_of(spec, "group")));

    sw_meta_validate(obj, false, sw_name_dns1123_subdomain, e);
    if (name.n && !sw_slice_eq_str(name, want))
        sw_ferr_invalid_str(e, &at, name, "must be spec.names.plural+\".\"+spec.group");
}

/* ---- versions ---- */

static void check_versions(const struct sw_json *spec, const struct sw_fpath *path,
                           struct sw_field_errs *e)
{
    const struct sw_json *list = sw_json_find(spec, "versions");
    struct sw_fpath up = sw_fpath_str(path, "versions");
    size_t storage = 0;
    bool unique = true;

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *v = sw_json_at(list, i);
        struct sw_fpath at = sw_fpath_index(&up, i);
        struct sw_fpath at_name = sw_fpath_str(&at, "name");
        struct sw_name_msgs m = sw_name_dns1035_label(text_of(v, "name"));

        storage += sw_json_true(sw_json_find(v, "storage"));
        if (m.n)
            sw_ferr_invalid_str(e, &at_name, text_of(v, "name"), sw_name_join(e->arena, m, ","));
        for (size_t j = 0; j < i; j++)
            unique =
                unique && !sw_slice_eq(text_of(sw_json_at(list, j), "name"), text_of(v, "name"));
    }
    if (!unique)
        sw_ferr_invalid(e, &up, list, "must contain unique version names");
    if (storage != 1)
        sw_ferr_invalid(e, &up, list, "must have exactly one version marked as storage version");
}

static void check_update(const struct sw_json *obj, const struct sw_json *old,
                         struct sw_field_errs *e)
{
    static const char *const fixed[][2] = {
        {"group", NULL}, {"scope", NULL}, {"names", "plural"}, {"names", "kind"}};
    const struct sw_json *stored = sw_json_walk(old, "status", "storedVersions", NULL);
    const struct sw_json *versions = sw_json_walk(obj, "spec", "versions", NULL);
    struct sw_fpath up = sw_fpath_str(NULL, "status.storedVersions");

    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++) {
        struct sw_fpath spec = sw_fpath_str(NULL, "spec");
        struct sw_fpath at = sw_fpath_str(&spec, fixed[i][0]);
        struct sw_fpath at2 = sw_fpath_str(&at, fixed[i][1] ? fixed[i][1] : "");
        const struct sw_json *x = sw_json_walk(obj, "spec", fixed[i][0], fixed[i][1], NULL);
        const struct sw_json *y = sw_json_walk(old, "spec", fixed[i][0], fixed[i][1], NULL);

        if (!sw_json_equal(x, y, SW_JSON_EQ_VALUE))
            sw_ferr_invalid(e, fixed[i][1] ? &at2 : &at, x, "field is immutable");
    }
    for (size_t i = 0; i < sw_json_len(stored); i++) {
        struct sw_slice name = sw_json_str(sw_json_at(stored, i));
        struct sw_fpath at = sw_fpath_index(&up, i);
        bool there = false;

        for (size_t k = 0; k < sw_json_len(versions); k++)
            there = there || sw_slice_eq(text_of(sw_json_at(versions, k), "name"), name);
        if (!there)
            sw_ferr_invalid_str(
                e, &at, name,
                sw_arena_printf(e->arena,
                                "missing from spec.versions; %.*s was previously a storage "
                                "version, and must remain in spec.versions until a storage "
                                "migration ensures no data remains persisted in %.*s and removes "
                                "%.*s from status.storedVersions",
                                SW_SLICE_ARG(name), SW_SLICE_ARG(name), SW_SLICE_ARG(name)));
    }
}

static void check_columns(const struct sw_json *v, const struct sw_fpath *path,
                          struct sw_field_errs *e)
{
    static const char *const types[] = {"boolean", "date", "integer", "number", "string", NULL};
    const struct sw_json *list = sw_json_find(v, "additionalPrinterColumns");
    struct sw_fpath up = sw_fpath_str(path, "additionalPrinterColumns");

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *c = sw_json_at(list, i);
        struct sw_fpath at = sw_fpath_index(&up, i);
        struct sw_fpath at_name = sw_fpath_str(&at, "name");
        struct sw_fpath at_type = sw_fpath_str(&at, "type");
        struct sw_fpath at_path = sw_fpath_str(&at, "jsonPath");
        bool known = false;

        for (size_t k = 0; types[k]; k++)
            known = known || sw_json_str_eq(sw_json_find(c, "type"), types[k]);
        if (!text_of(c, "name").n)
            sw_ferr_required(e, &at_name, NULL);
        if (!text_of(c, "type").n)
            sw_ferr_required(e, &at_type, "must be one of boolean,date,integer,number,string");
        else if (!known)
            sw_ferr_invalid(e, &at_type, sw_json_find(c, "type"),
                            "must be one of boolean,date,integer,number,string");
        if (!text_of(c, "jsonPath").n)
            sw_ferr_required(e, &at_path, NULL);
        else if (!sw_jsonpath_valid(text_of(c, "jsonPath")))
            sw_ferr_invalid_str(e, &at_path, text_of(c, "jsonPath"),
                                "must be a simple json path starting with .");
    }
}

/* Equal schemas of all versions are reported once, at the place they had in the old form. */
static bool one_schema(const struct sw_json *versions)
{
    const struct sw_json *first = sw_json_find(sw_json_at(versions, 0), "schema");

    for (size_t i = 1; i < sw_json_len(versions); i++) {
        if (!sw_json_equal(first, sw_json_find(sw_json_at(versions, i), "schema"),
                           SW_JSON_EQ_VALUE))
            return false;
    }
    return true;
}

static void compile_version(struct sw_crd *c, const struct sw_json *v, struct sw_crd_version *out,
                            const struct sw_fpath *path, bool shared, struct sw_field_errs *e)
{
    const struct sw_json *schema = sw_json_walk(v, "schema", "openAPIV3Schema", NULL);
    struct sw_fpath at_schema = sw_fpath_str(path, "schema");
    struct sw_fpath at = shared ? sw_fpath_str(NULL, "spec.validation.openAPIV3Schema")
                                : sw_fpath_str(&at_schema, "openAPIV3Schema");

    out->name = text_of(v, "name");
    out->served = sw_json_true(sw_json_find(v, "served"));
    out->storage = sw_json_true(sw_json_find(v, "storage"));
    out->deprecated = sw_json_true(sw_json_find(v, "deprecated"));
    out->status = sw_json_walk(v, "subresources", "status", NULL);
    out->scale = sw_json_walk(v, "subresources", "scale", NULL);
    out->columns = sw_json_find(v, "additionalPrinterColumns");
    out->selectors = sw_json_find(v, "selectableFields");
    check_columns(v, path, e);
    if (!schema)
        sw_ferr_required(e, &at, "schemas are required");
    else if (sw_schema_compile(&out->schema, schema, &at, e) < 0)
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
    size_t before = e->n;
    bool shared;

    c->object = sw_json_copy(&c->arena, obj);
    spec = sw_json_find(c->object, "spec");
    names = sw_json_find(spec, "names");
    versions = sw_json_find(spec, "versions");
    c->group = text_of(spec, "group");
    c->kind = text_of(names, "kind");
    c->list_kind = text_of(names, "listKind");
    c->plural = text_of(names, "plural");
    c->singular = text_of(names, "singular");
    c->namespaced = sw_json_str_eq(sw_json_find(spec, "scope"), "Namespaced");
    if (old)
        check_update(c->object, old, e);
    if (e->n == before) {
        check_object_name(c->object, e);
        check_group_and_scope(spec, &path, e);
        check_names(spec, &path, e);
        check_versions(spec, &path, e);
    }
    c->versions = sw_arena_array(&c->arena, sw_json_len(versions) + 1, sizeof(*c->versions));
    shared = one_schema(versions);
    for (size_t i = 0; i < sw_json_len(versions); i++) {
        struct sw_fpath at = sw_fpath_index(&up, i);
        struct sw_field_errs scratch;

        /* A shared schema is reported for the first version only. */
        sw_field_errs_init(&scratch, e->arena);
        compile_version(c, sw_json_at(versions, i), &c->versions[c->nversions++], &at, shared,
                        shared && i ? &scratch : e);
    }
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
