/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/at.h"

enum { ONE_OF_MAX = 16 };

struct sw_at sw_at_field(const struct sw_at *up, const char *keys)
{
    struct sw_slice rest = sw_slice_str(keys);
    const struct sw_json *v = up->v;

    while (rest.p && v)
        v = sw_json_get(v, sw_slice_cut(&rest, '.'));
    return (struct sw_at){v, sw_fpath_str(sw_at_fpath(up), keys), up->e, false};
}

struct sw_at sw_at_key(const struct sw_at *up, struct sw_slice key)
{
    return (struct sw_at){sw_json_get(up->v, key), sw_fpath_key(sw_at_fpath(up), key), up->e,
                          false};
}

bool sw_at_is_any(const struct sw_at *at, const char *words)
{
    struct sw_slice rest = sw_slice_str(words);
    bool found = false;

    if (!sw_json_is(at->v, SW_JSON_STRING))
        return false;
    while (rest.p && !found)
        found = sw_slice_eq(at->v->text, sw_slice_cut(&rest, ' '));
    return found;
}

int64_t sw_at_int(const struct sw_at *at)
{
    int64_t n = 0;

    return sw_json_exact_i64(at->v, &n) ? n : 0;
}

bool sw_at_empty(const struct sw_at *at)
{
    if (!at->v)
        return true;
    switch (at->v->type) {
    case SW_JSON_NULL:
        return true;
    case SW_JSON_STRING:
        return !at->v->text.n;
    case SW_JSON_NUMBER:
        return sw_at_int(at) == 0;
    case SW_JSON_ARRAY:
    case SW_JSON_OBJECT:
        return !sw_json_len(at->v);
    case SW_JSON_BOOL:
        break;
    }
    return false;
}

bool sw_at_need(const struct sw_at *at, const char *detail)
{
    bool there = !sw_at_empty(at);

    if (!there)
        sw_at_required(at, detail);
    return there;
}

void sw_at_set_name(const struct sw_at *at, sw_name_fn check)
{
    if (at->v)
        sw_name_report(at->e, &at->path, sw_at_text(at), check(sw_at_text(at)));
}

void sw_at_name(const struct sw_at *at, sw_name_fn check)
{
    if (sw_at_text(at).n)
        sw_at_set_name(at, check);
}

void sw_at_need_name(const struct sw_at *at, sw_name_fn check)
{
    if (sw_at_text(at).n)
        sw_at_set_name(at, check);
    else
        sw_at_required(at, NULL);
}

void sw_at_one_of(const struct sw_at *at, const char *words)
{
    struct sw_slice rest = sw_slice_str(words);
    const char *list[ONE_OF_MAX + 1] = {0};

    if (sw_at_is_any(at, words))
        return;
    for (size_t i = 0; rest.p && i < ONE_OF_MAX; i++)
        list[i] = sw_arena_dup(at->e->arena, sw_slice_cut(&rest, ' '));
    sw_ferr_unsupported(at->e, &at->path, at->v ? at->v : sw_json_new_str(at->e->arena, ""), list);
}

void sw_at_set_one_of(const struct sw_at *at, const char *words)
{
    if (at->v)
        sw_at_one_of(at, words);
}

bool sw_at_max(const struct sw_at *at, size_t max)
{
    if (sw_at_len(at) <= max)
        return true;
    sw_ferr_too_many(at->e, &at->path, sw_at_len(at), max);
    return false;
}

void sw_at_unique(const struct sw_at *at, struct sw_map *seen)
{
    if (sw_at_text(at).n && sw_map_put(seen, sw_at_text(at), seen))
        sw_at_duplicate(at);
}

void sw_at_count(const struct sw_at *at)
{
    if (sw_at_int(at) < 0)
        sw_at_invalid(at, "must be greater than or equal to 0");
}

void sw_at_same(const struct sw_at *at, const struct sw_json *was)
{
    if (!sw_json_equal(at->v, was, SW_JSON_EQ_VALUE))
        sw_at_invalid(at, "field is immutable");
}
