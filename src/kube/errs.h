/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors about fields in the words of the Kubernetes API: a list of (reason, path, text), and the
 * Status object made of it. Clients show these texts and programs match them, so they are fixed.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"

enum sw_cause {
    SW_CAUSE_REQUIRED,
    SW_CAUSE_INVALID,
    SW_CAUSE_TYPE_INVALID,
    SW_CAUSE_NOT_SUPPORTED,
    SW_CAUSE_DUPLICATE,
    SW_CAUSE_TOO_LONG,
    SW_CAUSE_TOO_MANY,
    SW_CAUSE_FORBIDDEN,
    SW_CAUSE_NOT_FOUND,
    SW_CAUSE_INTERNAL,
};

/* One step of a field path; steps live on the stack of the walk that makes them. */
struct sw_fpath {
    const struct sw_fpath *up; /* NULL at the first step */
    struct sw_slice name;      /* p == NULL: an index */
    size_t index;
    bool key; /* print as [name] */
};

struct sw_field_err {
    enum sw_cause cause;
    const char *field; /* "<nil>" when the error is about the whole object */
    const char *text;  /* without the field */
};

/* Grows inside the arena; keeps the first SW_FIELD_ERRS_MAX, drops the rest. */
enum { SW_FIELD_ERRS_MAX = 1000 };
struct sw_budget;
struct sw_texts;
struct sw_field_errs {
    struct sw_arena *arena;    /* borrowed */
    struct sw_texts *warnings; /* what is reported without a refusal; NULL: not wanted */
    struct sw_budget *budget;  /* of the checks that add to it; NULL: unlimited */
    bool loopback_ok;          /* endpoints may be on this machine, which Kubernetes refuses */
    struct sw_field_err *p;
    size_t n;
    size_t cap;
};

static inline struct sw_fpath sw_fpath_field(const struct sw_fpath *up, struct sw_slice name)
{
    return (struct sw_fpath){.up = up, .name = name};
}
static inline struct sw_fpath sw_fpath_str(const struct sw_fpath *up, const char *name)
{
    return sw_fpath_field(up, sw_slice_str(name));
}
static inline struct sw_fpath sw_fpath_index(const struct sw_fpath *up, size_t i)
{
    return (struct sw_fpath){.up = up, .index = i};
}
static inline struct sw_fpath sw_fpath_key(const struct sw_fpath *up, struct sw_slice name)
{
    return (struct sw_fpath){.up = up, .name = name, .key = true};
}
/* "spec.ports[0].name"; "<nil>" for NULL. */
const char *sw_fpath_text(struct sw_arena *a, const struct sw_fpath *path);

static inline void sw_field_errs_init(struct sw_field_errs *e, struct sw_arena *a)
{
    *e = (struct sw_field_errs){.arena = a};
}

/* The general form: text is the whole text behind "field: ". */
void sw_ferr(struct sw_field_errs *e, enum sw_cause cause, const struct sw_fpath *path,
             const char *text);
/* Adds all errors of a list. */
void sw_ferr_append(struct sw_field_errs *to, const struct sw_field_errs *from);
/* detail may be NULL or empty. */
void sw_ferr_required(struct sw_field_errs *e, const struct sw_fpath *path, const char *detail);
void sw_ferr_forbidden(struct sw_field_errs *e, const struct sw_fpath *path, const char *detail);
/* value may be NULL (prints as "null"). */
void sw_ferr_invalid(struct sw_field_errs *e, const struct sw_fpath *path,
                     const struct sw_json *value, const char *detail);
void sw_ferr_invalid_str(struct sw_field_errs *e, const struct sw_fpath *path,
                         struct sw_slice value, const char *detail);
void sw_ferr_type(struct sw_field_errs *e, const struct sw_fpath *path, struct sw_slice value,
                  const char *detail);
void sw_ferr_duplicate(struct sw_field_errs *e, const struct sw_fpath *path,
                       const struct sw_json *value);
/* The list of supported values ends with NULL. */
void sw_ferr_unsupported(struct sw_field_errs *e, const struct sw_fpath *path,
                         const struct sw_json *value, const char *const *supported);
void sw_ferr_too_long(struct sw_field_errs *e, const struct sw_fpath *path, uint64_t max);
void sw_ferr_too_many(struct sw_field_errs *e, const struct sw_fpath *path, uint64_t n,
                      uint64_t max);

/* "FieldValueInvalid" and so on. */
const char *sw_cause_reason(enum sw_cause cause);

/*
 * The message of a 422: 'Kind.group "name" is invalid: ...' (group may be empty), each distinct
 * error once.
 */
const char *sw_invalid_message(struct sw_arena *a, const char *kind, const char *group,
                               struct sw_slice name, const struct sw_field_errs *e);
/* The causes array of Status.details. */
struct sw_json *sw_invalid_causes(struct sw_arena *a, const struct sw_field_errs *e);

/* ---- Go's notations, which the texts contain ---- */

/* Go's %q of a string. */
const char *sw_go_quote(struct sw_arena *a, struct sw_slice s);
/* Go's %v of a float64. */
const char *sw_go_float(struct sw_arena *a, double d);
/* How a field error prints a value: scalars as %v or %q, the rest as %#v. */
const char *sw_go_value(struct sw_arena *a, const struct sw_json *v);
/* Go's %v: map[a:1 b:[x y]]. */
const char *sw_go_plain(struct sw_arena *a, const struct sw_json *v);
