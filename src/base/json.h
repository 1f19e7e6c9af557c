/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as a tree inside an arena, and the writer. Member order is kept, numbers keep their text,
 * strings are decoded UTF-8 slices (they may hold NULs, and nothing terminates them). Nodes never
 * move: a pointer to a node stays good while its parent is edited, until the arena is cleared.
 * Reading changes nothing, so a tree that is not edited may be read from several threads.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum sw_json_type {
    SW_JSON_NULL,
    SW_JSON_BOOL,
    SW_JSON_NUMBER,
    SW_JSON_STRING,
    SW_JSON_ARRAY,
    SW_JSON_OBJECT,
};

struct sw_json_index; /* hash over the keys of a big object */
struct sw_json;

struct sw_json_member {
    struct sw_slice key;
    struct sw_json *value; /* never NULL */
};

/*
 * One value. Read the fields freely; change containers only through the functions below.
 * Overwriting a whole node (*dst = *src) is allowed and makes both share their children.
 */
struct sw_json {
    enum sw_json_type type;
    bool boolean;
    union {
        struct sw_slice text; /* string: decoded content; number: its text as written */
        struct {
            struct sw_json **items;
            uint32_t n;
            uint32_t cap;
        } arr;
        struct {
            struct sw_json_member *members;
            uint32_t n;
            uint32_t cap;
            struct sw_json_index *index; /* NULL while small */
        } obj;
    };
};

/* ---- parsing ---- */

enum {
    SW_JSON_DEPTH_MAX = 1000, /* no tree from the parser is deeper, whatever the caller asks */
    SW_JSON_DUPS_MAX = 100,   /* duplicates recorded per document; the rest is only resolved */
};

/* A member name seen again, e.g. "spec.containers[0].name"; offset of the later name. */
struct sw_json_dup {
    struct sw_slice path;
    size_t offset;
};

struct sw_json_dups {
    struct sw_json_dup *p; /* in the arena, in document order */
    size_t n;
};

struct sw_json_opts {
    size_t max_bytes;          /* of the input; 0 = no bound */
    size_t max_nodes;          /* values in the tree; 0 = no bound */
    unsigned max_depth;        /* nested containers; 0 or too large = SW_JSON_DEPTH_MAX */
    bool borrow;               /* strings may point into the input, which then must outlive them */
    struct sw_json_dups *dups; /* NULL: a duplicate name is an error. Otherwise the last value wins
                                  (at the place of the first) and the duplicates are listed here */
};

/*
 * Parses exactly one JSON text (RFC 8259: strict UTF-8, surrogate escapes in pairs, no trailing
 * bytes, no byte order mark). opts may be NULL: no bounds but the depth, duplicates refused.
 *
 * Returns SW_OK with the tree in the arena; SW_EINVAL for malformed text or a duplicate name,
 * SW_ELIMIT when a bound of opts was passed; err then has the byte offset, and its message starts
 * with "line L, column C: " (column in bytes). What the arena got meanwhile stays there unused.
 */
SW_NODISCARD int sw_json_parse(struct sw_arena *a, struct sw_slice in,
                               const struct sw_json_opts *opts, struct sw_json **ret,
                               struct sw_err *err);

/* ---- reading; all accept v == NULL as "not there" ---- */

static inline bool sw_json_is(const struct sw_json *v, enum sw_json_type type)
{
    return v && v->type == type;
}

/* Items of an array or members of an object; 0 for anything else. */
static inline size_t sw_json_len(const struct sw_json *v)
{
    if (sw_json_is(v, SW_JSON_ARRAY))
        return v->arr.n;
    return sw_json_is(v, SW_JSON_OBJECT) ? v->obj.n : 0;
}

/* Item i of an array, NULL when v is no array or i is past the end. */
struct sw_json *sw_json_at(const struct sw_json *v, size_t i);

/* Member i of an object in document order, NULL when there is none. */
const struct sw_json_member *sw_json_member_at(const struct sw_json *v, size_t i);

/* For the two loops below: the end of the items or members, *ret_first is where they begin. */
static inline struct sw_json **sw_json_items(const struct sw_json *v, struct sw_json ***ret_first)
{
    *ret_first = sw_json_is(v, SW_JSON_ARRAY) ? v->arr.items : NULL;
    return *ret_first ? *ret_first + v->arr.n : NULL;
}

static inline struct sw_json_member *sw_json_members(const struct sw_json *v,
                                                     struct sw_json_member **ret_first)
{
    *ret_first = sw_json_is(v, SW_JSON_OBJECT) ? v->obj.members : NULL;
    return *ret_first ? *ret_first + v->obj.n : NULL;
}

/*
 * The items of an array, in order; none when v is no array. The body may edit an item, but neither
 * add nor remove one.
 */
#define SW_JSON_ITEMS(it, v)                                                                       \
    for (struct sw_json * *sw_at_##it, **sw_end_##it = sw_json_items((v), &sw_at_##it), *it;       \
         sw_at_##it < sw_end_##it && (it = *sw_at_##it, true); sw_at_##it++)

/* The members of an object, under the same rule: it->key, it->value. */
#define SW_JSON_MEMBERS(it, v)                                                                     \
    for (struct sw_json_member * it, *sw_end_##it = sw_json_members((v), &it); it < sw_end_##it;   \
         it++)

/* Value of a member; NULL when v is no object or has no such member. */
struct sw_json *sw_json_get(const struct sw_json *v, struct sw_slice key);
/* The same for a C string. */
struct sw_json *sw_json_find(const struct sw_json *v, const char *key);
/* Walks members by name, the list ends with NULL: sw_json_walk(v, "metadata", "name", NULL). */
struct sw_json *sw_json_walk(const struct sw_json *v, ...) __attribute__((sentinel));
/* Position of a member, or -1. */
ptrdiff_t sw_json_index_of(const struct sw_json *v, struct sw_slice key);

/* Content of a string; a slice with p == NULL when v is not one. */
static inline struct sw_slice sw_json_str(const struct sw_json *v)
{
    return sw_json_is(v, SW_JSON_STRING) ? v->text : sw_slice(NULL, 0);
}

static inline bool sw_json_str_eq(const struct sw_json *v, const char *s)
{
    return sw_json_is(v, SW_JSON_STRING) && sw_slice_eq_str(v->text, s);
}

/* The first item of an array whose member has this text (empty: or none); NULL: there is none. */
struct sw_json *sw_json_find_item(const struct sw_json *list, const char *key,
                                  struct sw_slice text);

/* True only for the value true. */
static inline bool sw_json_true(const struct sw_json *v)
{
    return sw_json_is(v, SW_JSON_BOOL) && v->boolean;
}

/* "null", "boolean", "number", "string", "array", "object". */
const char *sw_json_type_name(enum sw_json_type type);

/* Depth of the tree: 0 for a scalar, 1 for a container of scalars. */
unsigned sw_json_depth(const struct sw_json *v);

/* ---- numbers ---- */

/* True for a number written without fraction and exponent (what Go decodes into an int64). */
bool sw_json_is_integer(const struct sw_json *v);
/*
 * Value of a number written as an integer. False when v is no number, has a fraction or exponent
 * or does not fit: nothing is rounded.
 */
SW_NODISCARD bool sw_json_i64(const struct sw_json *v, int64_t *ret);
SW_NODISCARD bool sw_json_u64(const struct sw_json *v, uint64_t *ret);
/* As sw_json_i64, but by value: 1.0 and 12e2 are integers too. */
SW_NODISCARD bool sw_json_exact_i64(const struct sw_json *v, int64_t *ret);
/* Nearest double; false when v is no number or its magnitude is too large for one. */
SW_NODISCARD bool sw_json_double(const struct sw_json *v, double *ret);
/* Compares two number texts by exact decimal value; <0, 0, >0. */
int sw_json_number_cmp(struct sw_slice a, struct sw_slice b);
/* True when the text is a number in JSON's grammar. */
bool sw_json_number_valid(struct sw_slice text);

enum { SW_JSON_DOUBLE_LEN = 40 };
/* Shortest text that reads back as d, in Go's encoding/json notation; returns its length. */
size_t sw_json_format_double(double d, char out[SW_JSON_DOUBLE_LEN]);

/* ---- comparing and copying ---- */

enum {
    SW_JSON_EQ_TEXT = 0,  /* numbers are equal when their texts are */
    SW_JSON_EQ_VALUE = 1, /* 1, 1.0 and 10e-1 are equal; 1 and 1.0000000000000000001 are not */
};
/* Deep equality; the order of members does not count. Two NULLs are equal. */
bool sw_json_equal(const struct sw_json *a, const struct sw_json *b, int how);
/* Deep copy into an arena, strings included; nothing points back to the source. */
struct sw_json *sw_json_copy(struct sw_arena *a, const struct sw_json *v);

/* ---- building and editing; everything new is allocated in the arena given ---- */

struct sw_json *sw_json_new_null(struct sw_arena *a);
struct sw_json *sw_json_new_bool(struct sw_arena *a, bool b);
struct sw_json *sw_json_new_i64(struct sw_arena *a, int64_t n);
struct sw_json *sw_json_new_u64(struct sw_arena *a, uint64_t n);
/* Shortest text that reads back as d, formatted as Go does; d must be finite. */
struct sw_json *sw_json_new_double(struct sw_arena *a, double d);
/* The text is copied and must be a valid JSON number. */
struct sw_json *sw_json_new_number(struct sw_arena *a, struct sw_slice text);
/* The text is copied. */
struct sw_json *sw_json_new_string(struct sw_arena *a, struct sw_slice s);
struct sw_json *sw_json_new_str(struct sw_arena *a, const char *s);
struct sw_json *sw_json_new_array(struct sw_arena *a);
struct sw_json *sw_json_new_object(struct sw_arena *a);

/* An array of one item. */
struct sw_json *sw_json_new_list(struct sw_arena *a, struct sw_json *item);

/* A member of a new object: one value of these; with none of them there is no such member. */
struct sw_json_field {
    const char *key;
    const char *str;
    struct sw_slice text; /* copied, may be empty */
    struct sw_slice some; /* copied; empty is none */
    struct sw_json *json; /* becomes part of the object */
};
/* An object of these members. */
struct sw_json *sw_json_of(struct sw_arena *a, const struct sw_json_field *fields, size_t n);
/* SW_JSON_OF(a, {"kind", .str = "Status"}, {"name", .some = name}) */
#define SW_JSON_OF(a, ...)                                                                         \
    sw_json_of((a), (const struct sw_json_field[]){__VA_ARGS__},                                   \
               SW_ARRAY_LEN(((const struct sw_json_field[]){__VA_ARGS__})))

/* The member of that type; an empty one takes the place of anything else. Containers only. */
struct sw_json *sw_json_need(struct sw_arena *a, struct sw_json *v, const char *key,
                             enum sw_json_type type);

/*
 * Gives member 'key' the value, replacing in place or appending at the end (the key is copied).
 * v must be an object; the value becomes part of the tree, it is not copied.
 */
void sw_json_set(struct sw_arena *a, struct sw_json *v, struct sw_slice key, struct sw_json *value);
void sw_json_put(struct sw_arena *a, struct sw_json *v, const char *key, struct sw_json *value);
void sw_json_put_str(struct sw_arena *a, struct sw_json *v, const char *key, struct sw_slice s);
void sw_json_put_text(struct sw_arena *a, struct sw_json *v, const char *key, const char *s);
/* A new member that is an empty object or array; returns it. */
struct sw_json *sw_json_put_object(struct sw_arena *a, struct sw_json *v, const char *key);
struct sw_json *sw_json_put_array(struct sw_arena *a, struct sw_json *v, const char *key);
/* As sw_json_set, but a new member goes to position pos (at most the length). */
void sw_json_insert(struct sw_arena *a, struct sw_json *v, size_t pos, struct sw_slice key,
                    struct sw_json *value);
/* Takes the member out, order kept; returns its value or NULL when there was none. */
struct sw_json *sw_json_remove(struct sw_json *v, struct sw_slice key);
/* Takes member or item 'pos' out; NULL when there is none. */
struct sw_json *sw_json_remove_at(struct sw_json *v, size_t pos);
/* Removes all members for which keep returns false, order kept, in one pass. Returns how many. */
size_t sw_json_filter(struct sw_json *v,
                      bool (*keep)(const struct sw_json_member *m, const void *arg),
                      const void *arg);
/* Reorders the members by key, bytewise; not recursive. */
void sw_json_sort_members(struct sw_json *v);

/* v must be an array. */
void sw_json_push(struct sw_arena *a, struct sw_json *v, struct sw_json *item);
/* A new item that is an empty object; returns it. */
struct sw_json *sw_json_push_object(struct sw_arena *a, struct sw_json *v);
/* Puts an item in front of position pos (at most the length). */
void sw_json_insert_item(struct sw_arena *a, struct sw_json *v, size_t pos, struct sw_json *item);

/* ---- writing ---- */

enum {
    SW_JSON_SORT_KEYS = 1, /* members in bytewise key order (as Go writes maps) */
    SW_JSON_GO_ESCAPE = 2, /* as Go's encoding/json: < > & U+2028 U+2029 become \u003c ... */
};

struct sw_json_write_opts {
    unsigned flags;
    unsigned indent; /* spaces per level, laid out like Go's MarshalIndent; 0 = compact */
};

/*
 * Appends the text of v (compact and unsorted when opts is NULL). SW_ELIMIT when the buffer's
 * maximum is reached: the buffer then holds a part.
 */
SW_NODISCARD int sw_json_write(struct sw_buf *out, const struct sw_json *v,
                               const struct sw_json_write_opts *opts);
/* The text in the arena, NUL-terminated behind the slice. */
struct sw_slice sw_json_text(struct sw_arena *a, const struct sw_json *v,
                             const struct sw_json_write_opts *opts);
/* The same, compact and with sorted keys: equal trees have equal texts. */
struct sw_slice sw_json_sorted_text(struct sw_arena *a, const struct sw_json *v);
/* Appends s as a JSON string with its quotes. Bytes that are not UTF-8 become \ufffd. */
SW_NODISCARD int sw_json_write_string(struct sw_buf *out, struct sw_slice s, unsigned flags);

/*
 * Streaming writer: emits tokens without a tree. Separators and indentation are its work; errors
 * stick and come out of sw_jw_end. Calling in a wrong order is a programming error (assert).
 * (A value written by sw_jw_value honours flags and indentation; SW_JSON_SORT_KEYS does not
 * reorder keys given by sw_jw_key.)
 */
struct sw_jw {
    struct sw_buf *out; /* borrowed */
    struct sw_json_write_opts opts;
    int rc;
    unsigned depth;
    bool comma; /* something stands before, on this level */
    bool keyed; /* a key was written, its value is due */
};

void sw_jw_begin(struct sw_jw *w, struct sw_buf *out, const struct sw_json_write_opts *opts);
/* SW_OK or SW_ELIMIT. All containers must be closed. */
SW_NODISCARD int sw_jw_end(struct sw_jw *w);
void sw_jw_object(struct sw_jw *w);
void sw_jw_object_end(struct sw_jw *w);
void sw_jw_array(struct sw_jw *w);
void sw_jw_array_end(struct sw_jw *w);
void sw_jw_key(struct sw_jw *w, struct sw_slice key);
void sw_jw_name(struct sw_jw *w, const char *key);
void sw_jw_null(struct sw_jw *w);
void sw_jw_bool(struct sw_jw *w, bool b);
void sw_jw_i64(struct sw_jw *w, int64_t n);
void sw_jw_u64(struct sw_jw *w, uint64_t n);
void sw_jw_double(struct sw_jw *w, double d);
void sw_jw_string(struct sw_jw *w, struct sw_slice s);
void sw_jw_str(struct sw_jw *w, const char *s);
void sw_jw_value(struct sw_jw *w, const struct sw_json *v);
/* A member with its value. */
void sw_jw_put_null(struct sw_jw *w, const char *key);
void sw_jw_put_bool(struct sw_jw *w, const char *key, bool b);
void sw_jw_put_u64(struct sw_jw *w, const char *key, uint64_t n);
void sw_jw_put_str(struct sw_jw *w, const char *key, const char *s);
void sw_jw_put_string(struct sw_jw *w, const char *key, struct sw_slice s);
/* Begins a member that is an object or an array: sw_jw_object_end, sw_jw_array_end. */
void sw_jw_put_object(struct sw_jw *w, const char *key);
void sw_jw_put_array(struct sw_jw *w, const char *key);
/* A value already serialised; copied as it is, not checked. */
void sw_jw_raw(struct sw_jw *w, struct sw_slice json);
