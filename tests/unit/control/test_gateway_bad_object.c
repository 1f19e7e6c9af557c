/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One bad object harms nobody else. Every object of every golden manifest is spoilt in one place at
 * a time, in ways an API with loose definitions would let through. What was the same with the good
 * object and without it, it had no part in: that must be the same with the bad one, and in the same
 * order. So is said of the model, the endpoints, the statuses and the notes, line by line.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "control/gateway/xds/xds.h"
#include "control/lint/lint.h"
#include "control/runtime_int.h"
#include "gateway_rig.h"

enum { LEVELS = 8, SAID_MAX = 12, WAYS_PER_PLACE = 2 };

/* The same object stands in the view of the build and in that of endpoints. */
struct places {
    size_t kind[4];
    size_t at[4];
    size_t n;
};

struct lines {
    SW_VEC(struct sw_slice) all; /* each with what it belongs to before it */
    struct sw_map set;
};

static uint64_t seed;
static size_t builds;
static size_t harmed;

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 40) % n;
}

/* ---- results as lines ---- */

/* How many routes a listener has is about all of them. */
static struct sw_slice without_count(struct sw_arena *a, struct sw_slice line)
{
    const char *p = memmem(line.p, line.n, " attached=", 10);
    const char *end;

    if (!p)
        return line;
    end = memchr(p + 1, ' ', line.n - (size_t)(p + 1 - line.p));
    return sw_slice_str(sw_arena_printf(a, "%.*s%.*s", (int)(p - line.p), line.p,
                                        end ? (int)(line.p + line.n - end) : 0, end ? end : ""));
}

/* What these are is said by the lines below them. */
static bool is_head(struct sw_slice line)
{
    static const char *const heads[] = {"route ", "chain ", "listener ", "parent ", "ancestor "};
    size_t indent = 0;

    while (indent < line.n && line.p[indent] == ' ')
        indent++;
    for (size_t i = 0; i < SW_ARRAY_LEN(heads); i++) {
        if (indent && sw_slice_has_prefix(sw_slice_from(line, indent), sw_slice_str(heads[i])))
            return true;
    }
    return sw_slice_has_prefix(line, SW_SLICE_LIT("endpoints "));
}

/* Named by their content, listed again for somebody who needs them, or counts of all. */
static bool is_part(struct sw_slice line)
{
    static const char *const parts[] = {"cluster ", "secret ", "needs ", "endpoints "};
    const char *last = memrchr(line.p, '\n', line.n);

    for (size_t i = 0; i < SW_ARRAY_LEN(parts); i++) {
        if (sw_slice_has_prefix(line, sw_slice_str(parts[i])))
            return true;
    }
    return last && sw_slice_has_prefix(sw_slice_from(line, (size_t)(last - line.p) + 1),
                                       SW_SLICE_LIT("  sets "));
}

static size_t level_of(struct sw_slice line)
{
    size_t level = 0;

    while (level * 2 < line.n && level < LEVELS - 1 && line.p[level * 2] == ' ')
        level++;
    return level;
}

static void lines_read(struct sw_arena *a, const char *text, struct lines *ret)
{
    struct sw_slice rest = sw_slice_str(text);
    struct sw_slice above[LEVELS] = {0};

    while (rest.n) {
        const char *begin = rest.p;
        struct sw_slice line = sw_slice_cut(&rest, '\n');
        size_t level = level_of(line);

        if (is_head(line)) {
            while (rest.n && level_of(rest) > level)
                (void)sw_slice_cut(&rest, '\n');
            line = sw_slice(begin, (size_t)(rest.p - begin));
            while (line.n && line.p[line.n - 1] == '\n')
                line.n--;
        }
        line = without_count(a, line);
        if (level)
            line = sw_slice_str(sw_arena_printf(a, "%.*s\n%.*s", SW_SLICE_ARG(above[level - 1]),
                                                SW_SLICE_ARG(line)));
        else
            line = sw_arena_slice(a, line);
        above[level] = line;
        if (is_part(line))
            continue;
        sw_vec_push(&ret->all, line);
        (void)sw_map_put(&ret->set, line, ret);
    }
}

static void lines_done(struct lines *l)
{
    sw_vec_done(&l->all);
    sw_map_done(&l->set);
}

static struct lines run(struct rig *r, struct sw_arena *a)
{
    struct lines out = {0};
    char *text = rig_run(r, NULL);

    builds++;
    lines_read(a, text, &out);
    sw_free(text);
    return out;
}

/* ---- spoiling ---- */

static size_t count_nodes(const struct sw_json *v)
{
    size_t n = 1;

    for (size_t i = 0; i < sw_json_len(v); i++)
        n += count_nodes(v->type == SW_JSON_ARRAY ? sw_json_at(v, i)
                                                  : sw_json_member_at(v, i)->value);
    return n;
}

enum way {
    WAY_GONE,
    WAY_NULL,
    WAY_EMPTY_TEXT,
    WAY_OTHER_TEXT,
    WAY_BYTES,
    WAY_PATH,
    WAY_PATTERN,
    WAY_STAR,
    WAY_LONG_TEXT,
    WAY_NEGATIVE,
    WAY_BIG,
    WAY_FRACTION,
    WAY_TRUE,
    WAY_EMPTY_LIST,
    WAY_EMPTY_OBJECT,
    WAY_IN_LIST,
    WAY_TWICE, /* lists: every item; others: a list of two */
    WAY_DEEP,
    WAYS,
};

static struct sw_json *long_text(struct sw_arena *a)
{
    char *p = sw_arena_alloc(a, 5000);

    memset(p, 'a', 5000);
    return sw_json_new_string(a, sw_slice(p, 5000));
}

static struct sw_json *twice(struct sw_arena *a, const struct sw_json *v)
{
    struct sw_json *list = sw_json_new_array(a);

    for (int k = 0; k < 2; k++) {
        if (v->type != SW_JSON_ARRAY)
            sw_json_push(a, list, sw_json_copy(a, v));
        for (size_t i = 0; v->type == SW_JSON_ARRAY && i < sw_json_len(v); i++)
            sw_json_push(a, list, sw_json_copy(a, sw_json_at(v, i)));
    }
    return list;
}

static struct sw_json *deep(struct sw_arena *a)
{
    struct sw_json *v = sw_json_new_str(a, "x");

    for (int i = 0; i < 50; i++) {
        struct sw_json *o = sw_json_new_object(a);

        sw_json_put(a, o, "name", v);
        v = o;
    }
    return v;
}

/* NULL: it shall be gone. */
static struct sw_json *spoilt(struct sw_arena *a, const struct sw_json *v, enum way way)
{
    struct sw_json *list;

    switch (way) {
    case WAY_GONE:
    case WAYS:
        return NULL;
    case WAY_NULL:
        return sw_json_new_null(a);
    case WAY_EMPTY_TEXT:
        return sw_json_new_str(a, "");
    case WAY_OTHER_TEXT:
        return sw_json_new_str(a, "no-such-thing");
    case WAY_BYTES:
        return sw_json_new_string(a, SW_SLICE_LIT("a\0b\r\n\x7f*/..%s"));
    case WAY_PATH:
        return sw_json_new_str(a, "/a\x01 \r\n?#%zz");
    case WAY_PATTERN:
        return sw_json_new_str(a, "/([a");
    case WAY_STAR:
        return sw_json_new_str(a, "*.");
    case WAY_LONG_TEXT:
        return long_text(a);
    case WAY_NEGATIVE:
        return sw_json_new_i64(a, -1);
    case WAY_BIG:
        return sw_json_new_u64(a, UINT64_MAX);
    case WAY_FRACTION:
        return sw_json_new_number(a, SW_SLICE_LIT("1.5e300"));
    case WAY_TRUE:
        return sw_json_new_bool(a, true);
    case WAY_EMPTY_LIST:
        return sw_json_new_array(a);
    case WAY_EMPTY_OBJECT:
        return sw_json_new_object(a);
    case WAY_IN_LIST:
        list = sw_json_new_array(a);
        sw_json_push(a, list, sw_json_copy(a, v));
        return list;
    case WAY_TWICE:
        return twice(a, v);
    case WAY_DEEP:
        return deep(a);
    }
    return NULL;
}

/* A copy of v with its *at-th node spoilt; counts *at down. */
static struct sw_json *spoil(struct sw_arena *a, const struct sw_json *v, size_t *at, enum way way)
{
    struct sw_json *out;

    if ((*at)-- == 0)
        return spoilt(a, v, way);
    if (v->type != SW_JSON_ARRAY && v->type != SW_JSON_OBJECT)
        return sw_json_copy(a, v);
    out = v->type == SW_JSON_ARRAY ? sw_json_new_array(a) : sw_json_new_object(a);
    for (size_t i = 0; i < sw_json_len(v); i++) {
        const struct sw_json *was =
            v->type == SW_JSON_ARRAY ? sw_json_at(v, i) : sw_json_member_at(v, i)->value;
        struct sw_json *now = spoil(a, was, at, way);

        if (now && v->type == SW_JSON_ARRAY)
            sw_json_push(a, out, now);
        else if (now)
            sw_json_set(a, out, sw_json_member_at(v, i)->key, now);
    }
    return out;
}

/* ---- objects of a rig ---- */

static const char *kind_name(size_t k)
{
    return k < SW_MODEL_KINDS ? sw_gateway_kinds[k].gvr->kind
                              : sw_gateway_endpoint_kinds[k - SW_MODEL_KINDS].gvr->kind;
}

static void find_places(const struct rig *r, size_t kind, size_t at, struct places *ret)
{
    ret->n = 0;
    for (size_t k = 0; k < SW_ARRAY_LEN(r->n); k++) {
        for (size_t i = 0; i < r->n[k] && ret->n < SW_ARRAY_LEN(ret->at); i++) {
            if (strcmp(kind_name(k), kind_name(kind)) == 0 &&
                sw_slice_eq(r->objs[k][i]->key, r->objs[kind][at]->key)) {
                ret->kind[ret->n] = k;
                ret->at[ret->n++] = i;
            }
        }
    }
}

/* NULL takes it away, and 'back' is what was there. */
static void put(struct rig *r, const struct places *p, struct sw_kube_obj *o)
{
    for (size_t i = 0; i < p->n; i++) {
        sw_kube_obj_unref(r->objs[p->kind[i]][p->at[i]]);
        r->objs[p->kind[i]][p->at[i]] = sw_kube_obj_ref(o);
    }
}

static struct lines run_without(struct rig *r, const struct places *p, struct sw_arena *a)
{
    struct sw_kube_obj *hidden[4];
    struct lines out;

    for (size_t i = 0; i < p->n; i++) {
        struct sw_kube_obj **list = r->objs[p->kind[i]];

        hidden[i] = list[p->at[i]];
        list[p->at[i]] = list[--r->n[p->kind[i]]];
    }
    out = run(r, a);
    for (size_t i = p->n; i-- > 0;) {
        struct sw_kube_obj **list = r->objs[p->kind[i]];

        list[r->n[p->kind[i]]++] = list[p->at[i]];
        list[p->at[i]] = hidden[i];
    }
    return out;
}

/* The youngest of all: conflicts it loses by right. */
static struct sw_kube_obj *young(const struct sw_kube_obj *o, struct sw_arena *a)
{
    struct sw_json *copy = sw_json_copy(a, o->json);

    sw_json_put(a, sw_json_find(copy, "metadata"), "creationTimestamp",
                sw_json_new_str(a, "2099-01-01T00:00:00Z"));
    return sw_kube_obj_new(copy);
}

/* ---- the comparison ---- */

static void tell_harm(const char *path, const struct sw_kube_obj *bad, struct sw_slice was,
                      struct sw_slice is)
{
    SW_ARENA_AUTO a = {0};

    if (harmed++ < SAID_MAX)
        (void)fprintf(stderr, "%s: %.*s spoilt as\n  %.*s\nwas: %.*s\nis:  %.*s\n", path,
                      SW_SLICE_ARG(bad->key),
                      SW_SLICE_ARG(sw_slice_head(sw_json_text(&a, bad->json, NULL), 900)),
                      SW_SLICE_ARG(was), SW_SLICE_ARG(is));
}

static void compare(const char *path, const struct sw_kube_obj *bad, const struct lines *good,
                    const struct lines *without, const struct lines *with_bad)
{
    size_t k = 0;

    for (size_t i = 0; i < good->all.n; i++) {
        struct sw_slice line = good->all.p[i];

        if (!sw_map_get(&without->set, line))
            continue; /* it had a part in that */
        while (k < with_bad->all.n && (!sw_map_get(&good->set, with_bad->all.p[k]) ||
                                       !sw_map_get(&without->set, with_bad->all.p[k])))
            k++;
        if (k == with_bad->all.n || !sw_slice_eq(with_bad->all.p[k], line)) {
            tell_harm(path, bad, line,
                      k < with_bad->all.n ? with_bad->all.p[k] : SW_SLICE_LIT("(nothing)"));
            return;
        }
        k++;
    }
}

static void complain(void *arg, const struct sw_xds_finding *f)
{
    const struct sw_kube_obj *bad = arg;
    SW_ARENA_AUTO a = {0};

    if (f->severity == SW_XDS_ERROR && harmed++ < SAID_MAX)
        (void)fprintf(stderr, "%s %.*s: %.*s: %.*s\nfor %.*s\n", f->type, SW_SLICE_ARG(f->resource),
                      SW_SLICE_ARG(sw_slice_head(f->field, 200)),
                      SW_SLICE_ARG(sw_slice_head(f->text, 200)),
                      SW_SLICE_ARG(sw_slice_head(sw_json_text(&a, bad->json, NULL), 900)));
}

/* A resource that a data plane refuses takes everybody's part of it away. */
static void check_resources(struct rig *r, struct sw_kube_obj *bad)
{
    static const struct sw_xds_lint_opts open = {.closed = false};
    static const struct sw_model_xds_conf conf;
    SW_ARENA_AUTO a = {0};
    struct sw_view *v = rig_view(r);
    struct sw_model_result result = {0};
    struct sw_model_resources res;

    sw_gateway_build(v, &r->conf, &a, &result);
    sw_model_xds_encode(result.model, &conf, &a, &res);
    (void)sw_xds_lint(res.p, res.n, &open, complain, bad);
    view_unref(v);
}

static bool may_be_spoilt(struct sw_slice member)
{
    return !sw_slice_eq_str(member, "apiVersion") && !sw_slice_eq_str(member, "kind") &&
           !sw_slice_eq_str(member, "metadata");
}

static struct sw_kube_obj *spoil_object(struct sw_arena *a, const struct sw_kube_obj *o,
                                        struct sw_slice member, size_t node, enum way way)
{
    struct sw_json *copy = sw_json_new_object(a);

    for (size_t i = 0; i < sw_json_len(o->json); i++) {
        const struct sw_json_member *m = sw_json_member_at(o->json, i);
        struct sw_json *v = sw_slice_eq(m->key, member) ? spoil(a, m->value, &node, way)
                                                        : sw_json_copy(a, m->value);

        if (v)
            sw_json_set(a, copy, m->key, v);
    }
    return sw_kube_obj_new(copy);
}

/*
 * Not of what routes name: what that is worth to them may change with every word in it. A grant
 * that says less permits more. A claim says whose a name is, and only we write it.
 */
static bool ignored_failures(size_t kind, enum way way)
{
    return kind != SW_MODEL_CONNECTOR && kind != SW_MODEL_ADVERTISEMENT &&
           kind != SW_MODEL_BACKENDSLICE && kind != SW_MODEL_HOSTCLAIM && kind != SW_MODEL_CLAIM &&
           (kind != SW_MODEL_GRANT || way != WAY_GONE);
}

/*
 * Manifests of names with a holder. A spoilt holder keeps his name, so what others get is neither
 * what they have beside a good one nor what they have without him.
 */
static bool names_are_held(const char *path)
{
    return strstr(path, "/ingress-claims.yaml") || strstr(path, "/names-held-by-routes.yaml");
}

static void spoil_everywhere(struct rig *r, const char *path, const struct places *p,
                             const struct sw_json_member *m, const struct lines *good,
                             const struct lines *without)
{
    struct sw_kube_obj *o = sw_kube_obj_ref(r->objs[p->kind[0]][p->at[0]]);
    size_t nodes = count_nodes(m->value);

    for (size_t node = 0; node < nodes; node++) {
        for (int i = 0; i < WAYS_PER_PLACE; i++) {
            SW_ARENA_AUTO a = {0};
            enum way way = (enum way)below(WAYS);
            struct sw_kube_obj *bad = spoil_object(&a, o, m->key, node, way);
            struct lines with_bad;

            put(r, p, bad);
            with_bad = run(r, &a);
            if (ignored_failures(p->kind[0], way) && !names_are_held(path))
                compare(path, bad, good, without, &with_bad);
            lines_done(&with_bad);
            check_resources(r, bad);
            put(r, p, o);
            sw_kube_obj_unref(bad);
        }
    }
    sw_kube_obj_unref(o);
}

static void one_object(struct rig *r, const char *path, size_t kind, size_t at)
{
    SW_ARENA_AUTO a = {0};
    struct sw_kube_obj *was = sw_kube_obj_ref(r->objs[kind][at]);
    struct sw_kube_obj *o = young(was, &a);
    struct places p;
    struct lines good;
    struct lines without;

    find_places(r, kind, at, &p);
    put(r, &p, o);
    good = run(r, &a);
    without = run_without(r, &p, &a);
    for (size_t i = 0; i < sw_json_len(o->json); i++) {
        const struct sw_json_member *m = sw_json_member_at(o->json, i);

        if (may_be_spoilt(m->key))
            spoil_everywhere(r, path, &p, m, &good, &without);
    }
    put(r, &p, was);
    lines_done(&good);
    lines_done(&without);
    sw_kube_obj_unref(o);
    sw_kube_obj_unref(was);
}

static void one_file(struct rig *r, const char *common, const char *path)
{
    size_t shared[SW_ARRAY_LEN(r->n)];

    rig_clear(r);
    assert_true(rig_load(r, common));
    memcpy(shared, r->n, sizeof(shared));
    assert_true(rig_load(r, path));
    for (size_t k = 0; k < SW_MODEL_KINDS; k++) {
        for (size_t i = shared[k]; i < r->n[k]; i++)
            one_object(r, path, k, i);
    }
}

static void one_bad_object_harms_nobody_else(void **state)
{
    struct rig *r = rig_new();
    const char *top = getenv("SW_GOLDEN");
    char common[4096];
    char pattern[4096];
    glob_t files;

    (void)state;
    assert_non_null(top);
    (void)snprintf(pattern, sizeof(pattern), "%s/gateway/[a-z]*.yaml", top);
    (void)snprintf(common, sizeof(common), "%s/gateway/_common.yaml", top);
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        seed = i + 1;
        one_file(r, common, files.gl_pathv[i]);
    }
    globfree(&files);
    rig_free(r);
    assert_true(builds > 10000);
    assert_int_equal(harmed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_bad_object_harms_nobody_else),
    };

    return cmocka_run_group_tests_name("gateway_bad_object", tests, NULL, NULL);
}
