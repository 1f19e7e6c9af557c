/* SPDX-License-Identifier: Apache-2.0 */
/* The tree: look-up, comparison, copying and editing. */
#include "base/json.h"

#include <assert.h>
#include <stdarg.h>

#include "base/json/index.h"
#include "base/search.h"

const char *sw_json_type_name(enum sw_json_type type)
{
    static const char *const names[] = {"null", "boolean", "number", "string", "array", "object"};

    return names[type];
}

struct sw_json *sw_json_at(const struct sw_json *v, size_t i)
{
    return sw_json_is(v, SW_JSON_ARRAY) && i < v->arr.n ? v->arr.items[i] : NULL;
}

const struct sw_json_member *sw_json_member_at(const struct sw_json *v, size_t i)
{
    return sw_json_is(v, SW_JSON_OBJECT) && i < v->obj.n ? &v->obj.members[i] : NULL;
}

ptrdiff_t sw_json_index_of(const struct sw_json *v, struct sw_slice key)
{
    if (!sw_json_is(v, SW_JSON_OBJECT))
        return -1;
    if (v->obj.index)
        return sw_json_index_find(v->obj.index, v->obj.members, key, sw_json_index_hash(key));
    for (uint32_t i = 0; i < v->obj.n; i++) {
        if (sw_slice_eq(v->obj.members[i].key, key))
            return (ptrdiff_t)i;
    }
    return -1;
}

struct sw_json *sw_json_get(const struct sw_json *v, struct sw_slice key)
{
    ptrdiff_t i = sw_json_index_of(v, key);

    return i < 0 ? NULL : v->obj.members[i].value;
}

struct sw_json *sw_json_find(const struct sw_json *v, const char *key)
{
    return sw_json_get(v, sw_slice_str(key));
}

struct sw_json *sw_json_find_item(const struct sw_json *list, const char *key, struct sw_slice text)
{
    for (size_t i = 0; i < sw_json_len(list); i++) {
        struct sw_json *item = sw_json_at(list, i);

        if (sw_slice_eq(sw_json_str(sw_json_find(item, key)), text))
            return item;
    }
    return NULL;
}

struct sw_json *sw_json_walk(const struct sw_json *v, ...)
{
    struct sw_json *at = NULL;
    const char *key;
    va_list ap;

    va_start(ap, v);
    while ((key = va_arg(ap, const char *)) != NULL) {
        at = sw_json_find(v, key);
        v = at;
    }
    va_end(ap);
    return at;
}

unsigned sw_json_depth(const struct sw_json *v)
{
    unsigned most = 0;

    if (!sw_json_is(v, SW_JSON_ARRAY) && !sw_json_is(v, SW_JSON_OBJECT))
        return 0;
    for (size_t i = 0; i < sw_json_len(v); i++) {
        unsigned d =
            sw_json_depth(v->type == SW_JSON_ARRAY ? v->arr.items[i] : v->obj.members[i].value);

        most = d > most ? d : most;
    }
    return most + 1;
}

/* ---- comparing and copying ---- */

static bool object_equal(const struct sw_json *a, const struct sw_json *b, int how)
{
    if (a->obj.n != b->obj.n)
        return false;
    for (uint32_t i = 0; i < a->obj.n; i++) {
        const struct sw_json_member *m = &a->obj.members[i];
        const struct sw_json *other;

        /* Equal trees mostly have the same order: look at the same place first. */
        if (sw_slice_eq(b->obj.members[i].key, m->key))
            other = b->obj.members[i].value;
        else
            other = sw_json_get(b, m->key);
        if (!other || !sw_json_equal(m->value, other, how))
            return false;
    }
    return true;
}

static bool array_equal(const struct sw_json *a, const struct sw_json *b, int how)
{
    if (a->arr.n != b->arr.n)
        return false;
    for (uint32_t i = 0; i < a->arr.n; i++) {
        if (!sw_json_equal(a->arr.items[i], b->arr.items[i], how))
            return false;
    }
    return true;
}

bool sw_json_equal(const struct sw_json *a, const struct sw_json *b, int how)
{
    if (a == b)
        return true;
    if (!a || !b || a->type != b->type)
        return false;
    switch (a->type) {
    case SW_JSON_NULL:
        return true;
    case SW_JSON_BOOL:
        return a->boolean == b->boolean;
    case SW_JSON_NUMBER:
        return sw_slice_eq(a->text, b->text) ||
               (how == SW_JSON_EQ_VALUE && sw_json_number_cmp(a->text, b->text) == 0);
    case SW_JSON_STRING:
        return sw_slice_eq(a->text, b->text);
    case SW_JSON_ARRAY:
        return array_equal(a, b, how);
    case SW_JSON_OBJECT:
        return object_equal(a, b, how);
    }
    return false;
}

static struct sw_json *new_value(struct sw_arena *a, enum sw_json_type type)
{
    struct sw_json *v = SW_ARENA_NEW(a, struct sw_json);

    v->type = type;
    return v;
}

static void build_index(struct sw_arena *a, struct sw_json *v, size_t room)
{
    v->obj.index = sw_json_index_new(a, room);
    for (uint32_t i = 0; i < v->obj.n; i++)
        sw_json_index_add(v->obj.index, sw_json_index_hash(v->obj.members[i].key), i);
}

static void copy_members(struct sw_arena *a, struct sw_json *to, const struct sw_json *from)
{
    uint32_t n = from->obj.n;

    if (n == 0)
        return;
    to->obj.members = sw_arena_array(a, n, sizeof(*to->obj.members));
    to->obj.cap = n;
    for (uint32_t i = 0; i < n; i++) {
        to->obj.members[i].key = sw_arena_slice(a, from->obj.members[i].key);
        to->obj.members[i].value = sw_json_copy(a, from->obj.members[i].value);
    }
    to->obj.n = n;
    if (n > SW_JSON_INDEX_MIN)
        build_index(a, to, n);
}

struct sw_json *sw_json_copy(struct sw_arena *a, const struct sw_json *v)
{
    struct sw_json *c = new_value(a, v->type);

    switch (v->type) {
    case SW_JSON_NULL:
        break;
    case SW_JSON_BOOL:
        c->boolean = v->boolean;
        break;
    case SW_JSON_NUMBER:
    case SW_JSON_STRING:
        c->text = sw_arena_slice(a, v->text);
        break;
    case SW_JSON_ARRAY:
        if (v->arr.n == 0)
            break;
        c->arr.items = sw_arena_array(a, v->arr.n, sizeof(struct sw_json *));
        c->arr.n = v->arr.n;
        c->arr.cap = v->arr.n;
        for (uint32_t i = 0; i < v->arr.n; i++)
            c->arr.items[i] = sw_json_copy(a, v->arr.items[i]);
        break;
    case SW_JSON_OBJECT:
        copy_members(a, c, v);
        break;
    }
    return c;
}

/* ---- building ---- */

struct sw_json *sw_json_new_null(struct sw_arena *a)
{
    return new_value(a, SW_JSON_NULL);
}

struct sw_json *sw_json_new_bool(struct sw_arena *a, bool b)
{
    struct sw_json *v = new_value(a, SW_JSON_BOOL);

    v->boolean = b;
    return v;
}

struct sw_json *sw_json_new_number(struct sw_arena *a, struct sw_slice text)
{
    struct sw_json *v = new_value(a, SW_JSON_NUMBER);

    assert(sw_json_number_valid(text));
    v->text = sw_arena_slice(a, text);
    return v;
}

struct sw_json *sw_json_new_string(struct sw_arena *a, struct sw_slice s)
{
    struct sw_json *v = new_value(a, SW_JSON_STRING);

    v->text = sw_arena_slice(a, s);
    return v;
}

struct sw_json *sw_json_new_str(struct sw_arena *a, const char *s)
{
    return sw_json_new_string(a, sw_slice_str(s));
}

struct sw_json *sw_json_new_array(struct sw_arena *a)
{
    return new_value(a, SW_JSON_ARRAY);
}

struct sw_json *sw_json_new_object(struct sw_arena *a)
{
    return new_value(a, SW_JSON_OBJECT);
}

/* ---- editing ---- */

/* An array of cap * size bytes with the first n elements of the old one. */
static void *grown(struct sw_arena *a, const void *old, uint32_t n, uint32_t *cap, size_t size)
{
    void *fresh;

    assert(*cap < UINT32_MAX / 4);
    *cap = *cap ? *cap * 2 : 4;
    fresh = sw_arena_array(a, *cap, size);
    if (n)
        memcpy(fresh, old, n * size);
    return fresh;
}

void sw_json_insert(struct sw_arena *a, struct sw_json *v, size_t pos, struct sw_slice key,
                    struct sw_json *value)
{
    ptrdiff_t old = sw_json_index_of(v, key);

    assert(v->type == SW_JSON_OBJECT && value);
    if (old >= 0) {
        v->obj.members[old].value = value;
        return;
    }
    assert(pos <= v->obj.n);
    if (v->obj.n == v->obj.cap)
        v->obj.members = grown(a, v->obj.members, v->obj.n, &v->obj.cap, sizeof(*v->obj.members));
    memmove(&v->obj.members[pos + 1], &v->obj.members[pos],
            (v->obj.n - pos) * sizeof(*v->obj.members));
    v->obj.members[pos].key = sw_arena_slice(a, key);
    v->obj.members[pos].value = value;
    v->obj.n++;
    if (v->obj.index && sw_json_index_has_room(v->obj.index)) {
        if (pos + 1 < v->obj.n)
            sw_json_index_shift(v->obj.index, pos);
        sw_json_index_add(v->obj.index, sw_json_index_hash(key), pos);
    } else if (v->obj.n > SW_JSON_INDEX_MIN) {
        build_index(a, v, (size_t)v->obj.n * 2);
    }
}

void sw_json_set(struct sw_arena *a, struct sw_json *v, struct sw_slice key, struct sw_json *value)
{
    sw_json_insert(a, v, sw_json_len(v), key, value);
}

void sw_json_put(struct sw_arena *a, struct sw_json *v, const char *key, struct sw_json *value)
{
    sw_json_set(a, v, sw_slice_str(key), value);
}

void sw_json_put_str(struct sw_arena *a, struct sw_json *v, const char *key, struct sw_slice s)
{
    sw_json_put(a, v, key, sw_json_new_string(a, s));
}

void sw_json_put_text(struct sw_arena *a, struct sw_json *v, const char *key, const char *s)
{
    sw_json_put(a, v, key, sw_json_new_str(a, s));
}

struct sw_json *sw_json_put_object(struct sw_arena *a, struct sw_json *v, const char *key)
{
    struct sw_json *o = sw_json_new_object(a);

    sw_json_put(a, v, key, o);
    return o;
}

struct sw_json *sw_json_put_array(struct sw_arena *a, struct sw_json *v, const char *key)
{
    struct sw_json *list = sw_json_new_array(a);

    sw_json_put(a, v, key, list);
    return list;
}

static struct sw_json *remove_member(struct sw_json *v, size_t pos)
{
    struct sw_json_member gone = v->obj.members[pos];

    v->obj.n--;
    memmove(&v->obj.members[pos], &v->obj.members[pos + 1],
            (v->obj.n - pos) * sizeof(*v->obj.members));
    if (v->obj.index)
        sw_json_index_del(v->obj.index, sw_json_index_hash(gone.key), pos);
    return gone.value;
}

struct sw_json *sw_json_remove(struct sw_json *v, struct sw_slice key)
{
    ptrdiff_t i = sw_json_index_of(v, key);

    return i < 0 ? NULL : remove_member(v, (size_t)i);
}

struct sw_json *sw_json_remove_at(struct sw_json *v, size_t pos)
{
    struct sw_json *gone;

    if (pos >= sw_json_len(v))
        return NULL;
    if (v->type == SW_JSON_OBJECT)
        return remove_member(v, pos);
    gone = v->arr.items[pos];
    v->arr.n--;
    memmove(&v->arr.items[pos], &v->arr.items[pos + 1],
            (v->arr.n - pos) * sizeof(struct sw_json *));
    return gone;
}

static void reindex(struct sw_json *v)
{
    if (!v->obj.index)
        return;
    sw_json_index_clear(v->obj.index);
    for (size_t i = 0; i < v->obj.n; i++)
        sw_json_index_add(v->obj.index, sw_json_index_hash(v->obj.members[i].key), i);
}

size_t sw_json_filter(struct sw_json *v,
                      bool (*keep)(const struct sw_json_member *m, const void *arg),
                      const void *arg)
{
    uint32_t n = 0;
    uint32_t gone;

    if (!sw_json_is(v, SW_JSON_OBJECT))
        return 0;
    for (uint32_t i = 0; i < v->obj.n; i++) {
        if (keep(&v->obj.members[i], arg))
            v->obj.members[n++] = v->obj.members[i];
    }
    gone = v->obj.n - n;
    v->obj.n = n;
    if (gone)
        reindex(v);
    return gone;
}

void sw_json_sort_members(struct sw_json *v)
{
    assert(v->type == SW_JSON_OBJECT);
    if (v->obj.n < 2)
        return;
    SW_SORT_BY(v->obj.members, v->obj.n, key);
    reindex(v);
}

void sw_json_insert_item(struct sw_arena *a, struct sw_json *v, size_t pos, struct sw_json *item)
{
    assert(v->type == SW_JSON_ARRAY && item && pos <= v->arr.n);
    if (v->arr.n == v->arr.cap)
        v->arr.items = grown(a, v->arr.items, v->arr.n, &v->arr.cap, sizeof(struct sw_json *));
    memmove(&v->arr.items[pos + 1], &v->arr.items[pos],
            (v->arr.n - pos) * sizeof(struct sw_json *));
    v->arr.items[pos] = item;
    v->arr.n++;
}

void sw_json_push(struct sw_arena *a, struct sw_json *v, struct sw_json *item)
{
    sw_json_insert_item(a, v, v->arr.n, item);
}

struct sw_json *sw_json_new_list(struct sw_arena *a, struct sw_json *item)
{
    struct sw_json *list = sw_json_new_array(a);

    sw_json_push(a, list, item);
    return list;
}

struct sw_json *sw_json_of(struct sw_arena *a, const struct sw_json_field *fields, size_t n)
{
    struct sw_json *v = sw_json_new_object(a);

    for (const struct sw_json_field *f = fields; f < fields + n; f++) {
        if (f->json)
            sw_json_put(a, v, f->key, f->json);
        else if (f->str)
            sw_json_put_str(a, v, f->key, sw_slice_str(f->str));
        else if (f->text.p || f->some.n)
            sw_json_put_str(a, v, f->key, f->text.p ? f->text : f->some);
    }
    return v;
}

struct sw_json *sw_json_need(struct sw_arena *a, struct sw_json *v, const char *key,
                             enum sw_json_type type)
{
    struct sw_json *m = sw_json_find(v, key);

    if (!sw_json_is(m, type)) {
        m = type == SW_JSON_ARRAY ? sw_json_new_array(a) : sw_json_new_object(a);
        sw_json_put(a, v, key, m);
    }
    return m;
}

struct sw_json *sw_json_push_object(struct sw_arena *a, struct sw_json *v)
{
    struct sw_json *o = sw_json_new_object(a);

    sw_json_push(a, v, o);
    return o;
}
