/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The built-in kinds as data: names, scope, verbs, subresources, schemas (from one table that also
 * feeds protobuf, strategic merge and server-side apply), and the rules of defaulting and
 * validation that schemas cannot say.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/json.h"
#include "kube/errs.h"
#include "kube/names.h"
#include "kube/schema/schema.h"

enum sw_verbs {
    SW_VERB_CREATE = 1,
    SW_VERB_DELETE = 2,
    SW_VERB_DELETECOLLECTION = 4,
    SW_VERB_GET = 8,
    SW_VERB_LIST = 16,
    SW_VERB_PATCH = 32,
    SW_VERB_UPDATE = 64,
    SW_VERB_WATCH = 128,
    SW_VERBS_ALL = 255,
};

enum sw_builtin_flags {
    SW_B_GENERATION = 1,       /* metadata.generation is kept */
    SW_B_UNCONDITIONAL = 2,    /* PUT without resourceVersion is allowed */
    SW_B_CREATE_ON_UPDATE = 4, /* PUT of a missing object creates it */
    SW_B_RETURNS_OBJECT = 8,   /* DELETE answers with the object, not a Status */
    SW_B_NOT_STORED = 16,      /* reviews */
    SW_B_STRICT_SELECTOR = 32, /* the other wording for unknown field selectors */
    SW_B_KUBE_FINALIZERS = 64, /* finalizers must be qualified or standard */
    SW_B_ORPHANS = 128,        /* DELETE without a policy leaves the dependents */
};

/* A subresource of a built-in kind. */
struct sw_builtin_sub {
    const char *name;
    const char *group; /* of its kind; NULL: the same as the resource's */
    const char *version;
    const char *kind;
    unsigned verbs;
};

struct sw_builtin {
    const char *group; /* "" = core */
    const char *version;
    const char *kind;
    const char *plural;
    const char *singular;
    const char *short_names; /* comma-separated, "" when none */
    const char *categories;  /* the same */
    bool namespaced;
    unsigned verbs;
    unsigned flags;
    const char *type; /* in the type table */
    sw_name_fn name_check;
    const struct sw_builtin_sub *subs; /* ends with name == NULL */
    const char *const *selectors;      /* field selectors, NULL-terminated */
};

/* All kinds; *ret_n of them. */
const struct sw_builtin *sw_builtins(size_t *ret_n);
/* By group and kind in its newest version, or by plural; NULL when there is none. */
const struct sw_builtin *sw_builtin_kind(struct sw_slice group, struct sw_slice kind);
/* By "group/version" and kind. */
const struct sw_builtin *sw_builtin_find(struct sw_slice api_version, struct sw_slice kind);

/* Schema of a type of the table ("ConfigMap", "ObjectMeta"); NULL when unknown. Thread-safe. */
const struct sw_schema *sw_builtin_schema(const char *type);
static inline const struct sw_schema *sw_object_meta_schema(void)
{
    return sw_builtin_schema("ObjectMeta");
}

/*
 * What decoding into a typed object does: unknown fields go (their paths are collected when unknown
 * is not NULL), nulls and empty values of optional fields go, times take their canonical form.
 * Returns SW_OK, or SW_EINVAL with the reason in *ret_why for a value of a wrong type.
 */
SW_NODISCARD int sw_builtin_decode(struct sw_arena *a, const struct sw_schema *s, struct sw_json *v,
                                   struct sw_texts *unknown, const char **ret_why);

/* The metadata of a custom resource through the same door: 'metadata' must be an object. */
SW_NODISCARD int sw_meta_decode(struct sw_arena *a, struct sw_json *obj, struct sw_texts *unknown,
                                const char **ret_why);

/*
 * Decodes the metadata of resources embedded in a custom one (x-kubernetes-embedded-resource):
 * unknown fields are removed and noted. SW_EINVAL with the reason for values of a wrong type.
 */
SW_NODISCARD int sw_embedded_decode(struct sw_arena *a, struct sw_json *v,
                                    const struct sw_schema *root, struct sw_texts *unknown,
                                    const char **ret_why);

/* Fills the defaults of a kind; obj was decoded before. Also stringData, Namespace's labels ... */
void sw_builtin_default(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj);
/* What the server adds to a new object when its owners are noted down already. */
void sw_builtin_admit_new(struct sw_arena *a, const struct sw_builtin *b, struct sw_json *obj);
/* Validates an object of a kind; old is NULL on create. Metadata included. */
void sw_builtin_validate(const struct sw_builtin *b, const struct sw_json *obj,
                         const struct sw_json *old, struct sw_field_errs *e);

/*
 * A HorizontalPodAutoscaler of autoscaling/v2, in which it is stored, as v1 shows it and back. What
 * v1 has no field for is kept in annotations.
 */
void sw_hpa_to_v1(struct sw_arena *a, struct sw_json *obj);
void sw_hpa_from_v1(struct sw_arena *a, struct sw_json *obj);

/*
 * What a name in the hard limits of a ResourceQuota counts: the plural, with its group; empty when
 * it counts no objects.
 */
struct sw_slice sw_quota_counts(struct sw_slice name, struct sw_slice *ret_group);
/* A limit as a whole number; false when it is none. */
bool sw_quota_number(const struct sw_json *v, uint64_t *ret);

/* ---- protobuf descriptors of the same types ---- */

enum sw_pb_kind {
    SW_PB_STRING,
    SW_PB_INT,
    SW_PB_BOOL,
    SW_PB_BYTES,
    SW_PB_TIME,
    SW_PB_MICROTIME,
    SW_PB_INT_OR_STRING,
    SW_PB_QUANTITY, /* message with a text in field 1; text or number in JSON */
    SW_PB_JSON,     /* message with raw JSON in field 1 */
    SW_PB_MESSAGE,
    SW_PB_ITEMS, /* message with repeated strings in field 1, an array in JSON */
};

struct sw_pb_type;

struct sw_kube_pb_field {
    uint32_t number;   /* 0: not on the wire */
    uint32_t outer[2]; /* numbers of the messages around it that JSON does not show */
    uint32_t nouter;
    struct sw_slice name;
    enum sw_pb_kind kind;
    bool repeated;
    bool map;     /* map<string, ...> */
    bool keep;    /* zero values are kept in JSON */
    bool always;  /* an empty struct is written when the field is missing */
    bool wrapped; /* on the wire it is field 1 of a message that JSON does not show */
    struct sw_slice type_name;
    const struct sw_pb_type *type; /* messages */
};

struct sw_pb_type {
    struct sw_slice name;
    struct sw_kube_pb_field *fields;
    size_t nfields;
    bool atomic;
    struct sw_schema *schema;
};

const struct sw_pb_type *sw_builtin_type(struct sw_slice name);
