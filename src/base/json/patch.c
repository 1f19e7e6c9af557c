/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json/patch.h"

enum { COPY_BYTES = 32 << 20, WORK_BYTES = 1 << 30, REMOVE_COST = 64 };

/* ---- JSON Pointer ---- */

/*
 * Cuts the next reference token off *rest (which begins with '/') and decodes it. The arena is
 * only used when there is something to decode.
 */
static int next_token(struct sw_arena *a, struct sw_slice *rest, struct sw_slice *ret,
                      struct sw_err *err)
{
    struct sw_slice raw;
    ptrdiff_t end;
    char *text;
    size_t n = 0;

    if (rest->p[0] != '/')
        return sw_err_set(err, SW_EINVAL, "pointer does not begin with '/'");
    *rest = sw_slice_from(*rest, 1);
    end = sw_slice_find(*rest, '/');
    raw = end < 0 ? *rest : sw_slice_head(*rest, (size_t)end);
    *rest = sw_slice_from(*rest, raw.n);
    if (sw_slice_find(raw, '~') < 0) {
        *ret = raw;
        return SW_OK;
    }
    text = sw_arena_alloc(a, raw.n);
    for (size_t i = 0; i < raw.n; i++) {
        char c = raw.p[i];

        if (c == '~') {
            i++;
            if (i == raw.n || (raw.p[i] != '0' && raw.p[i] != '1'))
                return sw_err_set(err, SW_EINVAL, "bad '~' escape in a pointer");
            c = raw.p[i] == '0' ? '~' : '/';
        }
        text[n++] = c;
    }
    *ret = sw_slice(text, n);
    return SW_OK;
}

/* Array position: no sign, no leading zeros. */
static int array_pos(struct sw_slice token, size_t *ret, struct sw_err *err)
{
    uint64_t n = 0;

    if ((token.n > 1 && token.p[0] == '0') || !sw_slice_to_u64(token, UINT32_MAX, &n))
        return sw_err_set(err, SW_EINVAL, "'%.*s' is not an array position",
                          (int)sw_min(token.n, 60), token.p);
    *ret = (size_t)n;
    return SW_OK;
}

static int step(const struct sw_json *at, struct sw_slice token, struct sw_json **ret,
                struct sw_err *err)
{
    struct sw_json *next = NULL;
    size_t pos = 0;

    if (at->type == SW_JSON_ARRAY) {
        if (array_pos(token, &pos, err) != SW_OK)
            return SW_EINVAL;
        next = sw_json_at(at, pos);
    } else if (at->type == SW_JSON_OBJECT) {
        next = sw_json_get(at, token);
    } else {
        return sw_err_set(err, SW_ENOENT, "'%.*s' is inside a %s, not a container",
                          (int)sw_min(token.n, 60), token.p, sw_json_type_name(at->type));
    }
    if (!next)
        return sw_err_set(err, SW_ENOENT, "there is no '%.*s'", (int)sw_min(token.n, 60), token.p);
    *ret = next;
    return SW_OK;
}

int sw_json_pointer_get(const struct sw_json *doc, struct sw_slice pointer, struct sw_json **ret,
                        struct sw_err *err)
{
    SW_ARENA_AUTO tmp = {0};
    /* As with strchr: the walk changes nothing, the caller knows what it may change. */
    struct sw_json *at = (struct sw_json *)(uintptr_t)doc;
    struct sw_slice token = {0};
    int rc;

    while (pointer.n) {
        rc = next_token(&tmp, &pointer, &token, err);
        if (rc == SW_OK)
            rc = step(at, token, &at, err);
        if (rc != SW_OK)
            return rc;
    }
    *ret = at;
    return SW_OK;
}

/* ---- JSON Patch ---- */

struct patcher {
    struct sw_arena *arena;
    struct sw_json *doc;
    size_t copy_left;
    struct sw_err *err;
    size_t work_left; /* bytes that operations may go over, see pay() */
};

/* A place named by a pointer: its container and the last token. No container for "". */
struct place {
    struct sw_json *parent;
    struct sw_slice token;
    unsigned depth;
};

static int locate(struct patcher *p, struct sw_slice pointer, struct place *ret)
{
    struct place at = {0};
    struct sw_json *next = p->doc;
    int rc;

    while (pointer.n) {
        at.parent = next;
        at.depth++;
        rc = next_token(p->arena, &pointer, &at.token, p->err);
        if (rc == SW_OK && pointer.n)
            rc = step(at.parent, at.token, &next, p->err);
        if (rc != SW_OK)
            return rc;
    }
    *ret = at;
    return SW_OK;
}

/* The same for a value that goes there: the depth of the result is bounded. */
static int locate_for(struct patcher *p, struct sw_slice pointer, const struct sw_json *value,
                      struct place *ret)
{
    int rc = locate(p, pointer, ret);

    if (rc == SW_OK && ret->depth + sw_json_depth(value) > SW_JSON_DEPTH_MAX)
        return sw_err_set(p->err, SW_ELIMIT, "the result is nested too deeply");
    return rc;
}

/*
 * Bounds what small operations do to large containers: bytes that are gone over to move a value, to
 * make room in an array, to find names again after one is gone.
 */
static int pay(struct patcher *p, size_t bytes)
{
    if (bytes > p->work_left)
        return sw_err_set(p->err, SW_ELIMIT, "the patch moves too much");
    p->work_left -= bytes;
    return SW_OK;
}

static int op_add(struct patcher *p, struct sw_slice path, struct sw_json *value)
{
    struct place at = {0};
    size_t pos = 0;
    int rc = locate_for(p, path, value, &at);

    if (rc != SW_OK)
        return rc;
    if (!at.parent) {
        p->doc = value;
    } else if (at.parent->type == SW_JSON_OBJECT) {
        sw_json_set(p->arena, at.parent, at.token, value);
    } else if (at.parent->type == SW_JSON_ARRAY) {
        pos = at.parent->arr.n;
        if (!sw_slice_eq_str(at.token, "-") && array_pos(at.token, &pos, p->err) != SW_OK)
            return SW_EINVAL;
        if (pos > at.parent->arr.n)
            return sw_err_set(p->err, SW_ENOENT, "position %zu is past the end of the array", pos);
        if (pay(p, (at.parent->arr.n - pos) * sizeof(void *)) != SW_OK)
            return SW_ELIMIT;
        sw_json_insert_item(p->arena, at.parent, pos, value);
    } else {
        return sw_err_set(p->err, SW_ENOENT, "cannot add inside a %s",
                          sw_json_type_name(at.parent->type));
    }
    return SW_OK;
}

static int op_remove(struct patcher *p, struct sw_slice path, struct sw_json **ret)
{
    struct place at = {0};
    struct sw_json *gone = NULL;
    size_t pos = 0;
    int rc = locate(p, path, &at);

    if (rc != SW_OK)
        return rc;
    if (!at.parent)
        return sw_err_set(p->err, SW_EINVAL, "the whole document cannot be removed");
    rc = step(at.parent, at.token, &gone, p->err);
    if (rc != SW_OK)
        return rc;
    rc = pay(p, sw_json_len(at.parent) *
                    (at.parent->type == SW_JSON_OBJECT ? REMOVE_COST : sizeof(void *)));
    if (rc != SW_OK)
        return rc;
    if (at.parent->type == SW_JSON_OBJECT) {
        (void)sw_json_remove(at.parent, at.token);
    } else {
        rc = array_pos(at.token, &pos, p->err);
        if (rc != SW_OK)
            return rc;
        (void)sw_json_remove_at(at.parent, pos);
    }
    if (ret)
        *ret = gone;
    return SW_OK;
}

static int op_replace(struct patcher *p, struct sw_slice path, struct sw_json *value)
{
    struct place at = {0};
    struct sw_json *old = NULL;
    int rc = locate_for(p, path, value, &at);

    if (rc != SW_OK)
        return rc;
    if (!at.parent) {
        p->doc = value;
        return SW_OK;
    }
    rc = step(at.parent, at.token, &old, p->err);
    if (rc == SW_OK && old)
        *old = *value;
    return rc;
}

/* Rough size of a tree in memory, counting no further than 'most'. */
static size_t weight(const struct sw_json *v, size_t most)
{
    size_t n = sizeof(*v);

    switch (v->type) {
    case SW_JSON_NULL:
    case SW_JSON_BOOL:
        break;
    case SW_JSON_NUMBER:
    case SW_JSON_STRING:
        n += v->text.n;
        break;
    case SW_JSON_ARRAY:
        for (uint32_t i = 0; i < v->arr.n && n <= most; i++)
            n += weight(v->arr.items[i], most - n);
        break;
    case SW_JSON_OBJECT:
        for (uint32_t i = 0; i < v->obj.n && n <= most; i++)
            n += v->obj.members[i].key.n + weight(v->obj.members[i].value, most - n);
        break;
    }
    return n;
}

static int op_copy(struct patcher *p, struct sw_slice from, struct sw_slice path)
{
    struct sw_json *source = NULL;
    size_t cost;
    int rc = sw_json_pointer_get(p->doc, from, &source, p->err);

    if (rc != SW_OK)
        return sw_err_prefix(p->err, "from '%.*s'", (int)sw_min(from.n, 60), from.p), rc;
    cost = weight(source, p->copy_left);
    if (cost > p->copy_left)
        return sw_err_set(p->err, SW_ELIMIT, "the patch copies too much");
    p->copy_left -= cost;
    return op_add(p, path, sw_json_copy(p->arena, source));
}

static int op_move(struct patcher *p, struct sw_slice from, struct sw_slice path)
{
    struct sw_json *value = NULL;
    int rc;

    if (sw_slice_eq(from, path)) /* nothing moves, but the place must exist */
        return sw_json_pointer_get(p->doc, from, &value, p->err);
    if (sw_slice_has_prefix(path, from) && path.p[from.n] == '/')
        return sw_err_set(p->err, SW_EINVAL, "a value cannot move into itself");
    rc = op_remove(p, from, &value);
    if (rc != SW_OK)
        return sw_err_prefix(p->err, "from '%.*s'", (int)sw_min(from.n, 60), from.p), rc;
    rc = value ? pay(p, weight(value, p->work_left)) : SW_OK;
    return rc == SW_OK ? op_add(p, path, value) : rc;
}

/* A member that an object lacks counts as null: clients test for null before they add a member. */
static int op_test(struct patcher *p, struct sw_slice path, const struct sw_json *value)
{
    struct sw_json *at = NULL;
    struct place place = {0};
    int rc = locate(p, path, &place);

    if (rc == SW_OK && value->type == SW_JSON_NULL && sw_json_is(place.parent, SW_JSON_OBJECT) &&
        !sw_json_get(place.parent, place.token))
        return SW_OK;
    if (rc == SW_OK && !place.parent)
        at = p->doc;
    else if (rc == SW_OK)
        rc = step(place.parent, place.token, &at, p->err);
    if (rc == SW_OK && !sw_json_equal(at, value, SW_JSON_EQ_VALUE))
        return sw_err_set(p->err, SW_EDENIED, "the value there is another");
    return rc;
}

static int apply(struct patcher *p, const struct sw_json *op, struct sw_slice name,
                 struct sw_slice path)
{
    const struct sw_json *value = sw_json_find(op, "value");
    const struct sw_json *from = sw_json_find(op, "from");
    bool add = sw_slice_eq_str(name, "add");
    bool replace = sw_slice_eq_str(name, "replace");
    bool copy = sw_slice_eq_str(name, "copy");

    if (sw_slice_eq_str(name, "remove"))
        return op_remove(p, path, NULL);
    if (add || replace || sw_slice_eq_str(name, "test")) {
        if (!value)
            return sw_err_set(p->err, SW_EINVAL, "'value' is missing");
        if (add)
            return op_add(p, path, sw_json_copy(p->arena, value));
        return replace ? op_replace(p, path, sw_json_copy(p->arena, value))
                       : op_test(p, path, value);
    }
    if (copy || sw_slice_eq_str(name, "move")) {
        if (!sw_json_is(from, SW_JSON_STRING))
            return sw_err_set(p->err, SW_EINVAL, "'from' is missing");
        return copy ? op_copy(p, from->text, path) : op_move(p, from->text, path);
    }
    return sw_err_set(p->err, SW_EINVAL, "unknown operation");
}

static int apply_at(struct patcher *p, const struct sw_json *op, size_t i)
{
    struct sw_slice name = sw_json_str(sw_json_find(op, "op"));
    struct sw_slice path = sw_json_str(sw_json_find(op, "path"));
    int rc;

    if (!sw_json_is(op, SW_JSON_OBJECT))
        return sw_err_at(p->err, SW_EINVAL, i, "operation %zu: not an object", i);
    if (!name.p || !path.p)
        return sw_err_at(p->err, SW_EINVAL, i, "operation %zu: '%s' is missing", i,
                         name.p ? "path" : "op");
    rc = apply(p, op, name, path);
    if (rc != SW_OK && p->err) {
        (void)sw_err_prefix(p->err, "operation %zu (%.*s '%.*s')", i, (int)sw_min(name.n, 16),
                            name.p, (int)sw_min(path.n, 80), path.p);
        p->err->offset = i;
    }
    return rc;
}

int sw_json_patch(struct sw_arena *a, const struct sw_json *doc, const struct sw_json *patch,
                  const struct sw_json_patch_opts *opts, struct sw_json **ret, struct sw_err *err)
{
    struct patcher p = {.arena = a, .err = err, .copy_left = COPY_BYTES, .work_left = WORK_BYTES};

    if (opts && opts->max_copy_bytes)
        p.copy_left = opts->max_copy_bytes;
    if (opts && opts->max_work_bytes)
        p.work_left = opts->max_work_bytes;
    if (!sw_json_is(patch, SW_JSON_ARRAY))
        return sw_err_set(err, SW_EINVAL, "a JSON patch is an array of operations");
    if (opts && opts->max_ops && patch->arr.n > opts->max_ops)
        return sw_err_set(err, SW_ELIMIT, "the patch has %u operations, at most %zu are allowed",
                          patch->arr.n, opts->max_ops);
    p.doc = sw_json_copy(a, doc);
    for (uint32_t i = 0; i < patch->arr.n; i++) {
        int rc = apply_at(&p, patch->arr.items[i], i);

        if (rc != SW_OK)
            return rc;
    }
    *ret = p.doc;
    return SW_OK;
}

/* ---- JSON Merge Patch ---- */

static bool not_null_in(const struct sw_json_member *m, const void *patch)
{
    return !sw_json_is(sw_json_get(patch, m->key), SW_JSON_NULL);
}

/* target is ours to change, or NULL. */
static struct sw_json *merge(struct sw_arena *a, struct sw_json *target,
                             const struct sw_json *patch)
{
    if (patch->type != SW_JSON_OBJECT)
        return sw_json_copy(a, patch);
    if (!sw_json_is(target, SW_JSON_OBJECT))
        target = sw_json_new_object(a);
    (void)sw_json_filter(target, not_null_in, patch);
    for (uint32_t i = 0; i < patch->obj.n; i++) {
        const struct sw_json_member *m = &patch->obj.members[i];

        if (m->value->type != SW_JSON_NULL)
            sw_json_set(a, target, m->key, merge(a, sw_json_get(target, m->key), m->value));
    }
    return target;
}

struct sw_json *sw_json_merge_patch(struct sw_arena *a, const struct sw_json *target,
                                    const struct sw_json *patch)
{
    return merge(a, target ? sw_json_copy(a, target) : NULL, patch);
}

struct sw_json *sw_json_merge_diff(struct sw_arena *a, const struct sw_json *from,
                                   const struct sw_json *to)
{
    struct sw_json *diff;

    if (!sw_json_is(from, SW_JSON_OBJECT) || !sw_json_is(to, SW_JSON_OBJECT))
        return sw_json_copy(a, to);
    diff = sw_json_new_object(a);
    for (uint32_t i = 0; i < to->obj.n; i++) {
        const struct sw_json_member *m = &to->obj.members[i];
        const struct sw_json *old = sw_json_get(from, m->key);

        if (!old || !sw_json_equal(old, m->value, SW_JSON_EQ_VALUE))
            sw_json_set(a, diff, m->key, sw_json_merge_diff(a, old, m->value));
    }
    for (size_t i = 0; i < sw_json_len(from); i++) {
        const struct sw_json_member *m = sw_json_member_at(from, i);

        if (m && !sw_json_get(to, m->key))
            sw_json_set(a, diff, m->key, sw_json_new_null(a));
    }
    return diff;
}
