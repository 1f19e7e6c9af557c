/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structural schemas (the OpenAPI v3 subset of CustomResourceDefinitions): parsing with the checks
 * that make a schema structural, pruning, defaulting and validation of objects. Built-in kinds use
 * the same struct. A compiled schema is immutable and may be read from several threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/budget.h"
#include "base/json.h"
#include "base/map.h"
#include "base/vec.h"
#include "kube/errs.h"

struct sw_regex;
struct sw_cel;

enum sw_stype {
    SW_T_NONE,
    SW_T_OBJECT,
    SW_T_ARRAY,
    SW_T_STRING,
    SW_T_INTEGER,
    SW_T_NUMBER,
    SW_T_BOOLEAN,
};

enum sw_list_type {
    SW_LIST_ATOMIC,
    SW_LIST_SET,
    SW_LIST_MAP,
};

struct sw_schema;

struct sw_prop {
    struct sw_slice name;
    struct sw_schema *schema;
};

/* One x-kubernetes-validations entry. */
struct sw_rule {
    struct sw_slice rule;
    struct sw_slice message;      /* trimmed; empty when not given */
    struct sw_slice message_expr; /* empty when not given */
    struct sw_slice field_path;   /* as given, e.g. ".spec.x" */
    struct sw_slice given_reason; /* as given */
    enum sw_cause reason;         /* REQUIRED, INVALID, FORBIDDEN or DUPLICATE */
    bool blank_message;           /* given, but only of spaces */
    bool blank_message_expr;
    bool optional_old;
    bool has_optional_old; /* the key is there */
    bool uses_old;
    struct sw_cel *cel;     /* NULL until compiled */
    struct sw_cel *cel_msg; /* NULL when there is no message expression */
};

struct sw_schema_list {
    struct sw_schema **p;
    size_t n;
};

struct sw_schema {
    enum sw_stype type;
    bool nullable;
    bool int_or_string;
    bool preserve; /* x-kubernetes-preserve-unknown-fields */
    bool embedded; /* x-kubernetes-embedded-resource */
    bool map_atomic;
    bool additional_any; /* additionalProperties: true */
    bool has_list_type;
    bool rules_below; /* this node or one inside it has rules */
    bool patch_merge; /* strategic merge: lists merge instead of being replaced */
    enum sw_list_type list_type;
    struct sw_slice *list_keys;
    size_t nlist_keys;
    struct sw_prop *props; /* sorted by name */
    size_t nprops;
    struct sw_schema *additional; /* NULL when not given as a schema */
    struct sw_schema *items;
    const struct sw_json *def;   /* default, NULL when none */
    const struct sw_json *enums; /* array, NULL when none */
    struct {
        bool has_min, has_max, has_multiple;
        bool ex_min, ex_max; /* the bound itself is outside */
        double min, max, multiple;
    } number;
    int64_t min_len, max_len, min_items, max_items, min_props, max_props; /* -1 = none */
    struct sw_regex *re;                                                  /* owned by the set */
    struct sw_slice pattern;
    struct sw_slice format;
    struct sw_slice *required;
    size_t nrequired;
    struct sw_schema_list all_of, any_of, one_of;
    struct sw_schema * not ;
    struct sw_rule *rules;
    size_t nrules;
    struct sw_slice merge_key; /* strategic merge key */
    struct sw_slice ref;       /* built-ins: name of the type, for OpenAPI documents */
    struct sw_slice description;
};

/* Owns a schema and everything hanging on it. */
struct sw_schema_set {
    struct sw_arena arena;
    SW_VEC(struct sw_regex *) regexes;
    size_t regex_size; /* of all of them */
    SW_VEC(struct sw_cel *) cels;
    void (*cel_free)(struct sw_cel *c); /* of the cels; set by the compiler of rules */
    struct sw_schema *root;
};

void sw_schema_set_done(struct sw_schema_set *set);

/*
 * Reads an openAPIV3Schema without compiling its rules. The JSON is copied into the set. Everything
 * wrong is reported under 'path' with the reference's texts. Returns SW_OK, or SW_EINVAL when
 * errors were added; the set must be released in both cases.
 */
SW_NODISCARD int sw_schema_read(struct sw_schema_set *set, const struct sw_json *v,
                                const struct sw_fpath *path, struct sw_field_errs *e);

/* The schema of a property: declared, else additionalProperties; NULL when neither. */
const struct sw_schema *sw_schema_prop(const struct sw_schema *s, struct sw_slice name);
/* The same for the value below a path; *ret_at is the path of the property. */
const struct sw_schema *sw_schema_step(const struct sw_schema *s, struct sw_slice name,
                                       const struct sw_fpath *path, struct sw_fpath *ret_at);
/* Calls 'visit' for a value and all below it that the schema knows, the outer ones first. */
typedef void sw_schema_visit(const struct sw_schema *s, const struct sw_json *v,
                             const struct sw_fpath *path, struct sw_field_errs *e);
void sw_schema_each(const struct sw_schema *s, const struct sw_json *v, const struct sw_fpath *path,
                    struct sw_field_errs *e, sw_schema_visit *visit);
/* Only declared properties. */
const struct sw_schema *sw_schema_declared(const struct sw_schema *s, struct sw_slice name);
/* An empty schema with all bounds unset. */
struct sw_schema *sw_schema_blank(struct sw_arena *a);

/* A list of texts in an arena. */
struct sw_texts {
    struct sw_arena *arena;
    const char **p;
    size_t n;
    size_t cap;
};
void sw_texts_add(struct sw_texts *t, const char *text);
bool sw_texts_has(const struct sw_texts *t, struct sw_slice text);
/* All of them with commas between, in the arena. */
const char *sw_texts_join(const struct sw_texts *t);

/*
 * Removes what the schema does not declare. At the root and at embedded resources apiVersion, kind
 * and metadata stay. The paths of removed fields ("spec.a[0].b") go to 'unknown' when not NULL, at
 * most 100.
 */
void sw_schema_prune(struct sw_json *v, const struct sw_schema *root, struct sw_texts *unknown);
/* The same for a value inside an object; true when something was removed. */
bool sw_schema_prune_part(struct sw_json *v, const struct sw_schema *s);
/* Drops nulls of declared properties that are not nullable. */
void sw_schema_drop_nulls(struct sw_json *v, const struct sw_schema *s);
/*
 * Fills defaults, in place; new nodes live in the arena and take their bytes from the budget. Items
 * of a list that is longer than its maximum are left: it will be refused. False when the budget
 * ended, with the place in *ret_where; the object is not complete then.
 */
SW_NODISCARD bool sw_schema_default_within(struct sw_arena *a, struct sw_json *v,
                                           const struct sw_schema *s, struct sw_budget *b,
                                           const char **ret_where);
/* The same within SW_DEFAULT_BYTES, for objects that were admitted before. */
enum { SW_DEFAULT_BYTES = 32 << 20 };
void sw_schema_default(struct sw_arena *a, struct sw_json *v, const struct sw_schema *s);

/*
 * Value validation. With 'old' (the stored object) unchanged parts are not checked again. Field
 * paths are 'prefix' followed by the path inside v; texts name only the inner path. Rules are not
 * evaluated here.
 */
void sw_schema_validate(const struct sw_schema *s, const struct sw_json *v,
                        const struct sw_json *old, const struct sw_fpath *prefix,
                        struct sw_field_errs *e);
/* Duplicates in lists of type set and map. */
void sw_schema_validate_lists(const struct sw_schema *s, const struct sw_json *v,
                              const struct sw_fpath *path, struct sw_field_errs *e);
/* apiVersion and kind of embedded resources. */
void sw_schema_validate_embedded(const struct sw_schema *s, const struct sw_json *v,
                                 const struct sw_fpath *path, struct sw_field_errs *e);
/* True when errors among these keep rules from being evaluated. */
bool sw_schema_blocks_rules(const struct sw_field_errs *e);

/*
 * True when the text has the format, or the format is not one that is checked; false when the
 * budget (may be NULL) ends before that is known.
 */
bool sw_format_ok(struct sw_slice format, struct sw_slice text, struct sw_budget *b);
/* Number of runes. */
size_t sw_rune_count(struct sw_slice s);
/*
 * Finds the old item with the same keys as a new one in lists of type map. Begin with the old list
 * (may be NULL), find any number of times, end.
 */
struct sw_correlator {
    struct sw_arena arena;
    struct sw_map map;
    const struct sw_schema *list; /* NULL: nothing correlates */
};
void sw_correlate_begin(struct sw_correlator *c, const struct sw_schema *list,
                        const struct sw_json *old);
const struct sw_json *sw_correlate_find(struct sw_correlator *c, const struct sw_json *item);
void sw_correlate_end(struct sw_correlator *c);
/* "object", "array", ... "" for none. */
const char *sw_stype_name(enum sw_stype type);
