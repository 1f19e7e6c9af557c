/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a value is of its schema's types, in the words of the original. */
#include "kube/apply/smd_int.h"
#include "kube/text.h"

struct typed {
    const struct sw_smd *c;
    struct sw_texts out;
};

static void typed_error(struct typed *t, const char *path, const char *text)
{
    if (t->out.n < 50)
        sw_texts_add(&t->out, sw_arena_printf(t->c->arena, "%s: %s", path, text));
}

static void check_typed(struct typed *t, struct smd_place p, const struct sw_json *v,
                        const char *path);

static void check_typed_list(struct typed *t, struct smd_place p, const struct sw_json *v,
                             const char *path)
{
    bool atomic = smd_untyped(p.s) || p.s->list_type == SW_LIST_ATOMIC;
    struct smd_index x = {0};

    if (!atomic)
        smd_index_list(t->c, p.s, v, &x);

    for (size_t i = 0; i < sw_json_len(v); i++) {
        struct sw_pe pe = {.kind = SW_PE_INDEX, .index = i};
        const char *why = NULL;

        if (!atomic && !smd_item_pe(t->c, p.s, sw_json_at(v, i), &pe, &why)) {
            typed_error(t, path, sw_arena_printf(t->c->arena, "element %zu: %s", i, why));
            continue;
        }
        /* The index keeps the first of equal items: another value pointer is a repetition. */
        if (!atomic && smd_index_find(&x, &pe)->v != sw_json_at(v, i))
            typed_error(t, path,
                        sw_arena_printf(t->c->arena, "duplicate entries for key %s",
                                        sw_pe_text(t->c->arena, &pe)));
        check_typed(t, smd_item(p), sw_json_at(v, i),
                    sw_arena_printf(t->c->arena, "%s%s", path, sw_pe_text(t->c->arena, &pe)));
    }
}

static void check_typed_map(struct typed *t, struct smd_place p, const struct sw_json *v,
                            const char *path)
{
    SW_JSON_MEMBERS (m, v) {
        const char *at = sw_arena_printf(t->c->arena, "%s.%.*s", path, SW_SLICE_ARG(m->key));
        struct smd_place q;
        bool declared;

        if (smd_child(t->c, p, m->key, &q, &declared))
            check_typed(t, q, m->value, at);
        else
            typed_error(t, at, "field not declared in schema");
    }
}

static void check_typed(struct typed *t, struct smd_place p, const struct sw_json *v,
                        const char *path)
{
    const char *want = NULL;

    if (v->type == SW_JSON_NULL)
        return;
    if (smd_untyped(p.s)) {
        if (v->type == SW_JSON_OBJECT)
            check_typed_map(t, p, v, path);
        return;
    }
    if (p.s->type == SW_T_OBJECT && v->type == SW_JSON_OBJECT) {
        check_typed_map(t, p, v, path);
        return;
    }
    if (p.s->type == SW_T_ARRAY && v->type == SW_JSON_ARRAY) {
        check_typed_list(t, p, v, path);
        return;
    }
    if (p.s->type == SW_T_OBJECT)
        want = "map";
    else if (p.s->type == SW_T_ARRAY)
        want = "list";
    else if (p.s->int_or_string)
        want = v->type == SW_JSON_OBJECT || v->type == SW_JSON_ARRAY ? "scalar" : NULL;
    else if (p.s->type == SW_T_STRING && v->type != SW_JSON_STRING)
        want = "string";
    else if (p.s->type == SW_T_BOOLEAN && v->type != SW_JSON_BOOL)
        want = "boolean";
    else if ((p.s->type == SW_T_INTEGER || p.s->type == SW_T_NUMBER) && v->type != SW_JSON_NUMBER)
        want = "numeric (int or float)";
    if (want)
        typed_error(t, path,
                    sw_arena_printf(t->c->arena,
                                    "expected %s, got &value.valueUnstructured{Value:%s}", want,
                                    sw_go_value(t->c->arena, v)));
}

const char *sw_smd_typed_errors(const struct sw_smd *ctx, const struct sw_json *v)
{
    struct typed t = {.c = ctx, .out = {.arena = ctx->arena}};
    const char *all = "errors:";

    check_typed(&t, smd_root(ctx), v, "");
    if (!t.out.n)
        return NULL;
    if (t.out.n == 1)
        return t.out.p[0];
    for (size_t i = 0; i < t.out.n; i++)
        all = sw_arena_printf(ctx->arena, "%s\n  %s", all, t.out.p[i]);
    return all;
}
