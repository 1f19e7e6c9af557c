/* SPDX-License-Identifier: Apache-2.0 */
/*
 * YAML text to a tree in an arena, every node with its line and column. It is for configuration
 * and manifests: bounded in size, depth, nodes and aliases, duplicate keys refused, keys are
 * scalars. All errors read "line L column C: what is wrong".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

enum sw_yaml_kind {
    SW_YAML_SCALAR,
    SW_YAML_SEQ,
    SW_YAML_MAP,
};

/* What a scalar means under the YAML 1.2 core schema; quoted scalars are always strings. */
enum sw_yaml_type {
    SW_YAML_NULL,
    SW_YAML_BOOL,
    SW_YAML_INT,
    SW_YAML_FLOAT,
    SW_YAML_STR,
};

struct sw_yaml {
    enum sw_yaml_kind kind;
    bool plain;                /* scalar without quotes, tag or block style: its type is resolved */
    uint32_t line;             /* 1-based */
    uint32_t column;           /* 1-based, in characters */
    uint32_t count;            /* elements of a sequence, entries of a map */
    struct sw_slice tag;       /* "!Name" when limits allow such tags, else empty */
    struct sw_slice text;      /* scalar content, NUL-terminated behind the slice */
    const struct sw_yaml *key; /* for a map's value: its key (a scalar) */
    const struct sw_yaml *first; /* children: elements, or the values of a map */
    const struct sw_yaml *next;  /* sibling */
};

/* All bounds; zero means the default in parentheses. */
struct sw_yaml_limits {
    size_t bytes;     /* input (64 MiB) */
    uint32_t depth;   /* nesting (64) */
    uint32_t nodes;   /* nodes of all documents, alias copies included (4 million) */
    uint32_t aliases; /* uses of '*anchor' (1000) */
    uint32_t docs;    /* documents of a stream (10000) */
    bool local_tags;  /* keep '!Name' tags; otherwise they are refused */
};

struct sw_yaml_stream {
    const struct sw_yaml *const *docs; /* in the arena */
    size_t n;
};

/*
 * Reads a stream of documents. The tree borrows nothing from 'in' and lives as long as the arena.
 * An empty input gives no document. On failure *ret is untouched (the arena may hold leftovers).
 * SW_EINVAL for malformed text, SW_ELIMIT for a bound; limits may be NULL.
 */
SW_NODISCARD int sw_yaml_parse(struct sw_arena *a, struct sw_slice in,
                               const struct sw_yaml_limits *limits, struct sw_yaml_stream *ret,
                               struct sw_err *err);
/* Same for input that must be exactly one document; an empty input gives a null scalar. */
SW_NODISCARD int sw_yaml_parse_one(struct sw_arena *a, struct sw_slice in,
                                   const struct sw_yaml_limits *limits, const struct sw_yaml **ret,
                                   struct sw_err *err);

/* A decimal number, with or without a point and an exponent. */
bool sw_yaml_decimal(struct sw_slice s);
/* The one place where scalar typing is decided. Only for scalars. */
enum sw_yaml_type sw_yaml_type(const struct sw_yaml *node);
/* "a map", "a list", "a string" ... for messages. */
const char *sw_yaml_describe(const struct sw_yaml *node);
static inline bool sw_yaml_is_null(const struct sw_yaml *node)
{
    return node->kind == SW_YAML_SCALAR && sw_yaml_type(node) == SW_YAML_NULL;
}

/* Sets *err to "line L column C: ..." at the node and returns SW_EINVAL. */
int sw_yaml_error(const struct sw_yaml *at, struct sw_err *err, const char *fmt, ...)
    SW_PRINTF(3, 4);

/* Value under a key of a map, or NULL. */
const struct sw_yaml *sw_yaml_get(const struct sw_yaml *map, const char *key);

/*
 * Typed reads; each returns SW_OK or SW_EINVAL with the place. Numbers and booleans are not
 * accepted as strings unless quoted, except by sw_yaml_text which takes any non-null scalar as it
 * stands (names such as 1234 or true are common in hand-written files).
 */
SW_NODISCARD int sw_yaml_text(const struct sw_yaml *node, struct sw_slice *ret, struct sw_err *err);
SW_NODISCARD int sw_yaml_str(const struct sw_yaml *node, struct sw_slice *ret, struct sw_err *err);
SW_NODISCARD int sw_yaml_bool(const struct sw_yaml *node, bool *ret, struct sw_err *err);
SW_NODISCARD int sw_yaml_int(const struct sw_yaml *node, int64_t min, int64_t max, int64_t *ret,
                             struct sw_err *err);
/* Index into 'names' (NULL-terminated, compared exactly); the error lists what is allowed. */
SW_NODISCARD int sw_yaml_enum(const struct sw_yaml *node, const char *const *names, int *ret,
                              struct sw_err *err);
/* Fails unless the node is of that kind. */
SW_NODISCARD int sw_yaml_expect(const struct sw_yaml *node, enum sw_yaml_kind kind,
                                struct sw_err *err);
/* Fails at the first key of the map that is not in 'known' (NULL-terminated). */
SW_NODISCARD int sw_yaml_known_keys(const struct sw_yaml *map, const char *const *known,
                                    struct sw_err *err);

struct sw_buf;
struct sw_json;
/*
 * Appends a JSON tree as YAML, in the form Kubernetes' tools print it, with a line break at the
 * end. Returns SW_OK, or SW_ELIMIT when the buffer is full or the tree too deep.
 */
SW_NODISCARD int sw_yaml_write(struct sw_buf *out, const struct sw_json *v);
/*
 * A document as a JSON tree in the arena, which may borrow its texts. Scalars are what the core
 * schema says; numbers in a form that JSON has not stay text. What is nested deeper than the
 * parser allows by default becomes null.
 */
struct sw_json *sw_yaml_to_json(struct sw_arena *a, const struct sw_yaml *y);

/* Elements of a sequence or values of a map (with it->key). Nothing for scalars. */
#define SW_YAML_FOREACH(it, node) for (const struct sw_yaml *it = (node)->first; it; it = it->next)
