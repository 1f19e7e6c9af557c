/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A place in an object under validation: the value there, the path that leads to it, and the list
 * that errors about it go to. Places live on the stack of the walk that makes them.
 */
#pragma once

#include "base/map.h"
#include "kube/errs.h"
#include "kube/names.h"

struct sw_at {
    const struct sw_json *v; /* NULL: nothing is there */
    struct sw_fpath path;
    struct sw_field_errs *e;
    bool whole; /* the object itself: paths of its members have no step before them */
};

/* The object itself. */
static inline struct sw_at sw_at_whole(const struct sw_json *obj, struct sw_field_errs *e)
{
    return (struct sw_at){.v = obj, .e = e, .whole = true};
}
/* A value whose path is known; NULL is that of the object itself. */
static inline struct sw_at sw_at_path(const struct sw_json *v, const struct sw_fpath *path,
                                      struct sw_field_errs *e)
{
    return (struct sw_at){v, path ? *path : (struct sw_fpath){0}, e, !path};
}
/* A member, or one of a member: "template.spec". */
struct sw_at sw_at_field(const struct sw_at *up, const char *keys);
/* A member of a map, which stands in brackets in the path. */
struct sw_at sw_at_key(const struct sw_at *up, struct sw_slice key);
static inline struct sw_at sw_at_item(const struct sw_at *up, size_t i)
{
    return (struct sw_at){sw_json_at(up->v, i), sw_fpath_index(&up->path, i), up->e, false};
}

/* The same as pointers; what they point to lives as long as the block they stand in. */
#define SW_WHOLE(obj, e) ((const struct sw_at[1]){sw_at_whole(obj, e)})
#define SW_IN(up, keys)  ((const struct sw_at[1]){sw_at_field(up, keys)})
#define SW_KEY(up, key)  ((const struct sw_at[1]){sw_at_key(up, key)})
#define SW_ITEM(up, i)   ((const struct sw_at[1]){sw_at_item(up, i)})
/* Every item of the list at a place; struct sw_at item is the place of one. */
#define SW_AT_FOREACH(item, list)                                                                  \
    for (struct sw_at item = sw_at_item(list, 0); item.path.index < sw_json_len((list)->v);        \
         item = sw_at_item(list, item.path.index + 1))

/* ---- what is there ---- */

/* "" when there is none. */
static inline struct sw_slice sw_at_text(const struct sw_at *at)
{
    struct sw_slice s = sw_json_str(at->v);

    return s.p ? s : sw_slice("", 0);
}
static inline bool sw_at_is(const struct sw_at *at, const char *text)
{
    return sw_json_str_eq(at->v, text);
}
static inline size_t sw_at_len(const struct sw_at *at)
{
    return sw_json_len(at->v);
}
/* Whether the text there is one of some words with spaces between them. */
bool sw_at_is_any(const struct sw_at *at, const char *words);
/* 0 when there is none. */
int64_t sw_at_int(const struct sw_at *at);
/* Nothing, null, "", 0, or a list or an object without items. */
bool sw_at_empty(const struct sw_at *at);

/* ---- errors ---- */

static inline const struct sw_fpath *sw_at_fpath(const struct sw_at *at)
{
    return at->whole ? NULL : &at->path;
}

static inline void sw_at_required(const struct sw_at *at, const char *detail)
{
    sw_ferr_required(at->e, sw_at_fpath(at), detail);
}
static inline void sw_at_forbidden(const struct sw_at *at, const char *detail)
{
    sw_ferr_forbidden(at->e, sw_at_fpath(at), detail);
}
static inline void sw_at_invalid(const struct sw_at *at, const char *detail)
{
    sw_ferr_invalid(at->e, sw_at_fpath(at), at->v, detail);
}
/* The value is shown as text, "" when there is none. */
static inline void sw_at_invalid_text(const struct sw_at *at, const char *detail)
{
    sw_ferr_invalid_str(at->e, sw_at_fpath(at), sw_at_text(at), detail);
}
static inline void sw_at_duplicate(const struct sw_at *at)
{
    sw_ferr_duplicate(at->e, sw_at_fpath(at), at->v);
}

/* ---- checks: an error unless they hold; those that answer, answer true when they do ---- */

/* Something that is not empty is there. */
bool sw_at_need(const struct sw_at *at, const char *detail);
/* A text follows the rules of a kind of names; one that is empty does. */
void sw_at_name(const struct sw_at *at, sw_name_fn check);
/* The same, and it must not be empty. */
void sw_at_need_name(const struct sw_at *at, sw_name_fn check);
/* The same if it is there, even when it is empty. */
void sw_at_set_name(const struct sw_at *at, sw_name_fn check);
/* One of some words with spaces between them; missing counts as "". */
void sw_at_one_of(const struct sw_at *at, const char *words);
/* The same if it is there. */
void sw_at_set_one_of(const struct sw_at *at, const char *words);
/* At most so many items. */
bool sw_at_max(const struct sw_at *at, size_t max);
/* A text that seen, to which it is added, does not have; an empty one is left out. */
void sw_at_unique(const struct sw_at *at, struct sw_map *seen);
/* Not below 0. */
void sw_at_count(const struct sw_at *at);
/* As it was in the stored object. */
void sw_at_same(const struct sw_at *at, const struct sw_json *was);
