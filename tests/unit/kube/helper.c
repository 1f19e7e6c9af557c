/* SPDX-License-Identifier: Apache-2.0 */
#include "helper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kube/crd/schema.h"
#include "yaml/yaml.h"

static struct sw_json *convert(struct sw_arena *a, const struct sw_yaml *y)
{
    struct sw_json *v;

    if (y->kind == SW_YAML_SCALAR) {
        switch (sw_yaml_type(y)) {
        case SW_YAML_NULL:
            return sw_json_new_null(a);
        case SW_YAML_BOOL:
            return sw_json_new_bool(a, (y->text.p[0] | 0x20) == 't');
        case SW_YAML_INT:
        case SW_YAML_FLOAT:
            return sw_json_number_valid(y->text) ? sw_json_new_number(a, y->text)
                                                 : sw_json_new_string(a, y->text);
        case SW_YAML_STR:
            break;
        }
        return sw_json_new_string(a, y->text);
    }
    v = y->kind == SW_YAML_SEQ ? sw_json_new_array(a) : sw_json_new_object(a);
    for (const struct sw_yaml *c = y->first; c; c = c->next) {
        if (y->kind == SW_YAML_SEQ)
            sw_json_push(a, v, convert(a, c));
        else
            sw_json_set(a, v, c->key->text, convert(a, c));
    }
    return v;
}

struct sw_json *t_yaml(struct sw_arena *a, const char *text)
{
    const struct sw_yaml *y = NULL;
    struct sw_err err = {0};

    if (sw_yaml_parse_one(a, sw_slice_str(text), NULL, &y, &err) < 0)
        fail_msg("%s: %s", err.msg, text);
    return convert(a, y);
}

struct sw_json **t_yaml_file(struct sw_arena *a, const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "re");
    size_t cap = 4 << 20;
    char *p = sw_arena_alloc(a, cap);
    struct sw_yaml_stream docs = {0};
    struct sw_err err = {0};
    struct sw_json **out;
    size_t n;

    *ret_n = 0;
    if (!f)
        return NULL;
    n = fread(p, 1, cap, f);
    (void)fclose(f);
    if (sw_yaml_parse(a, sw_slice(p, n), NULL, &docs, &err) < 0)
        fail_msg("%s: %s", path, err.msg);
    out = sw_arena_array(a, docs.n + 1, sizeof(*out));
    for (size_t i = 0; i < docs.n; i++)
        out[i] = convert(a, docs.docs[i]);
    *ret_n = docs.n;
    return out;
}

const char *t_json(struct sw_arena *a, const struct sw_json *v)
{
    static const struct sw_json_write_opts opts = {.flags = SW_JSON_SORT_KEYS};

    return v ? sw_json_text(a, v, &opts).p : "(none)";
}

void t_compile_crd(struct sw_schema_set *set, const struct sw_json *crd, const char *version)
{
    const struct sw_json *versions = sw_json_walk(crd, "spec", "versions", NULL);
    SW_ARENA_AUTO a = {0};
    struct sw_field_errs e;

    sw_field_errs_init(&e, &a);
    for (size_t i = 0; i < sw_json_len(versions); i++) {
        const struct sw_json *v = sw_json_at(versions, i);
        struct sw_fpath path = sw_fpath_str(NULL, "spec.validation.openAPIV3Schema");

        if (!sw_json_str_eq(sw_json_find(v, "name"), version))
            continue;
        if (sw_schema_compile(set, sw_json_walk(v, "schema", "openAPIV3Schema", NULL), &path, &e) <
            0)
            fail_msg("%s", t_errs(&a, &e));
        return;
    }
    fail_msg("no version %s", version);
}

static int cmp(const void *x, const void *y)
{
    const char *const *p = x;
    const char *const *q = y;

    return strcmp(*p, *q);
}

const char *t_errs(struct sw_arena *a, const struct sw_field_errs *e)
{
    const char **lines = sw_arena_array(a, e->n + 1, sizeof(*lines));
    const char *out = "";

    for (size_t i = 0; i < e->n; i++)
        lines[i] = sw_arena_printf(a, "%s: %s", e->p[i].field, e->p[i].text);
    qsort(lines, e->n, sizeof(*lines), cmp);
    for (size_t i = 0; i < e->n; i++)
        out = sw_arena_printf(a, "%s%s%s", out, i ? "\n" : "", lines[i]);
    return out;
}

const char *t_admit(struct sw_arena *a, const struct sw_schema *s, struct sw_json *obj,
                    const struct sw_json *old)
{
    struct sw_field_errs e;

    sw_field_errs_init(&e, a);
    sw_schema_prune(obj, s, NULL);
    sw_schema_drop_nulls(obj, s);
    sw_schema_default(a, obj, s);
    sw_schema_check_object(s, obj, old, NULL, &e);
    return t_errs(a, &e);
}

const char *t_admit_kind(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj,
                         const struct sw_json *old)
{
    struct sw_field_errs e;
    const char *why = NULL;

    if (sw_builtin_decode(a, sw_builtin_schema(b->type), obj, NULL, &why) < 0)
        return why;
    sw_builtin_default(a, b, obj);
    if (!old)
        sw_builtin_admit_new(a, b, obj);
    sw_field_errs_init(&e, a);
    sw_builtin_validate(b, obj, old, &e);
    return t_errs(a, &e);
}
