/* SPDX-License-Identifier: Apache-2.0 */
/* Inside the CEL interpreter: syntax tree, types and values. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/budget.h"
#include "base/json.h"
#include "base/vec.h"
#include "kube/cel/cel.h"
#include "kube/schema/schema.h"

struct sw_regex;

/*
 * Kinds of types and values, with the names of the types and those that type() answers with. DYN
 * (anything) is of types only, ERROR of values.
 */
#define CEL_KINDS(X)                                                                               \
    X(CEL_DYN, "dyn", "dyn")                                                                       \
    X(CEL_NULL, "null", "null_type")                                                               \
    X(CEL_BOOL, "bool", "bool")                                                                    \
    X(CEL_INT, "int", "int")                                                                       \
    X(CEL_UINT, "uint", "uint")                                                                    \
    X(CEL_DOUBLE, "double", "double")                                                              \
    X(CEL_STRING, "string", "string")                                                              \
    X(CEL_BYTES, "bytes", "bytes")                                                                 \
    X(CEL_LIST, "list", "list")                                                                    \
    X(CEL_MAP, "map", "map")                                                                       \
    X(CEL_OBJECT, "object", "map")                                                                 \
    X(CEL_DURATION, "duration", "google.protobuf.Duration")                                        \
    X(CEL_TIMESTAMP, "timestamp", "google.protobuf.Timestamp")                                     \
    X(CEL_TYPE, "type", "type")                                                                    \
    X(CEL_OPTIONAL, "optional_type", "optional_type")                                              \
    X(CEL_FORMAT, "kubernetes.NamedFormat", "kubernetes.NamedFormat")                              \
    X(CEL_URL, "kubernetes.URL", "kubernetes.URL")                                                 \
    X(CEL_IP, "net.IP", "net.IP")                                                                  \
    X(CEL_CIDR, "net.CIDR", "net.CIDR")                                                            \
    X(CEL_QUANTITY, "kubernetes.Quantity", "kubernetes.Quantity")                                  \
    X(CEL_AUTHORIZER, "kubernetes.authorization.Authorizer",                                       \
      "kubernetes.authorization.Authorizer")                                                       \
    X(CEL_PATH_CHECK, "kubernetes.authorization.PathCheck", "kubernetes.authorization.PathCheck")  \
    X(CEL_GROUP_CHECK, "kubernetes.authorization.GroupCheck",                                      \
      "kubernetes.authorization.GroupCheck")                                                       \
    X(CEL_RESOURCE_CHECK, "kubernetes.authorization.ResourceCheck",                                \
      "kubernetes.authorization.ResourceCheck")                                                    \
    X(CEL_DECISION, "kubernetes.authorization.Decision", "kubernetes.authorization.Decision")      \
    X(CEL_ERROR, "error", "error")

enum cel_kind {
#define X(kind, type_name, value_name) kind,
    CEL_KINDS(X)
#undef X
};

struct cel_type {
    enum cel_kind k;
    bool nullable;
    bool resource;                  /* objects: apiVersion, kind, metadata are there */
    const struct cel_type *elem;    /* list, map value, optional */
    const struct sw_schema *schema; /* objects */
};

struct cel_list;
struct cel_map;
struct cel_quantity;
struct sw_cel_access;
struct sw_cel_scope;
struct sw_cel_run;

struct cel_val {
    enum cel_kind k;
    union {
        bool b;
        int64_t i; /* int; duration in ns; timestamp seconds */
        uint64_t u;
        double d;
        struct sw_slice s;         /* string, bytes, type name, error text; URL, address, prefix */
        struct cel_list *lst;      /* list, when json is NULL */
        struct cel_map *map;       /* map, when json is NULL */
        const struct cel_val *opt; /* optional; NULL = none */
        const struct cel_quantity *qty;
        const struct sw_cel_access *access; /* authorizer to decision */
    };
    int32_t ns; /* timestamps */
    bool decision;
    const char *reason;         /* of a decision */
    const struct sw_json *json; /* backing tree of lists, maps and objects */
    const struct sw_schema *schema;
};

struct cel_list {
    struct cel_val *p;
    size_t n;
    size_t cap;
};

struct cel_map {
    struct cel_val *keys;
    struct cel_val *vals;
    size_t n;
};

/* Kinds of nodes, with the functions that check, evaluate and expand them. */
#define CEL_NODES(X)                                                                               \
    X(N_CONST, check_const, eval_const, expand_const)                                              \
    X(N_IDENT, check_ident, eval_ident, expand_ident)                                              \
    X(N_SELECT, check_select, eval_select, expand_select)                                          \
    X(N_INDEX, check_index, eval_index, expand_index)                                              \
    X(N_CALL, check_call, eval_call, expand_call)                                                  \
    X(N_LIST, check_literal, eval_literal, expand_aggregate)                                       \
    X(N_MAP, check_literal, eval_literal, expand_aggregate)                                        \
    X(N_HAS, check_has, eval_has, expand_select)                                                   \
    X(N_AND, check_logic, eval_logic, expand_logic)                                                \
    X(N_OR, check_logic, eval_logic, expand_logic)                                                 \
    X(N_NOT, check_logic, eval_unary, expand_unary)                                                \
    X(N_NEG, check_neg, eval_unary, expand_unary)                                                  \
    X(N_COND, check_cond, eval_cond, expand_cond)                                                  \
    X(N_BINARY, check_binary, eval_binary, expand_binary)                                          \
    X(N_ALL, check_macro, eval_macro, expand_quantifier)                                           \
    X(N_EXISTS, check_macro, eval_macro, expand_quantifier)                                        \
    X(N_EXISTS_ONE, check_macro, eval_macro, expand_exists_one)                                    \
    X(N_FILTER, check_macro, eval_macro, expand_collect)                                           \
    X(N_MAPPED, check_macro, eval_macro, expand_collect)                                           \
    X(N_MAPPED_MAP, check_macro, eval_macro, expand_collect_map) /* transformMap */                \
    X(N_BIND, check_bind, eval_bind, expand_bind)                                                  \
    X(N_OPT_MAP, check_bind, eval_bind, expand_opt_map)                                            \
    X(N_OPT_FLAT_MAP, check_bind, eval_bind, expand_opt_map)                                       \
    X(N_VARIABLE, check_made, eval_variable, expand_nothing)        /* variables.x of a policy */  \
    X(N_REQUEST_RESOURCE, check_made, eval_request, expand_nothing) /* authorizer.requestResource  \
                                                                     */

enum cel_node_kind {
#define X(kind, check, eval, expand) kind,
    CEL_NODES(X)
#undef X
};

enum cel_op {
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_MOD,
};

struct cel_env;
struct cel_node;
typedef struct cel_val (*cel_fn_ptr)(struct cel_env *env, const struct cel_node *n,
                                     struct cel_val *args, size_t nargs);

/*
 * args by kind: SELECT {operand}; INDEX {operand, index}; CALL target and arguments in one list;
 * COND {test, yes, no}; macros {range, body[, transform]}; BIND {value, body}.
 */
struct cel_node {
    enum cel_node_kind kind;
    enum cel_op op;
    bool optional;   /* .?name and [?i] */
    bool has_target; /* call written as target.name(...) */
    bool unescaped;  /* a field with a reserved name, written as it is */
    bool entry;      /* transformMapEntry: the body makes the entries */
    uint32_t pos;    /* byte offset in the source */
    int slot;        /* identifier or macro variable */
    int slot2;       /* second macro variable */
    struct sw_slice name;
    struct sw_slice name2; /* second variable of a macro; p == NULL when there is none */
    struct cel_val value;  /* constants */
    struct cel_node **args;
    size_t nargs;
    cel_fn_ptr fn;       /* of calls */
    struct sw_regex *re; /* constant pattern; owned by the program */
    const struct cel_type *type;
};

struct sw_cel {
    struct sw_arena arena;
    struct sw_slice src;
    struct cel_node *root;
    unsigned flags;
    int slots; /* variables needed */
    bool uses_old;
    bool failed;
    bool unplaced; /* the failure is about the whole expression */
    const char *why;
    size_t why_pos;
    const struct sw_schema *self;
    const struct sw_cel_scope *scope; /* admission expressions; NULL: over self and oldSelf */
    size_t nvars;                     /* variables of the scope this one may use */
    SW_VEC(struct sw_regex *) regexes;
};

enum { SLOT_SELF, SLOT_OLD, SLOT_FIRST };

/* Names of admission expressions; after them come the variables of the policy. */
enum {
    VAR_OBJECT,
    VAR_OLD_OBJECT,
    VAR_REQUEST,
    VAR_PARAMS,
    VAR_NAMESPACE,
    VAR_AUTHORIZER,
    VAR_FIXED,
};
/* Slot and type of a name, or of a variable of the policy; -1 when there is none. */
int cel_scope_find(struct sw_cel *c, struct sw_slice name, const struct cel_type **ret);
int cel_scope_variable(const struct sw_cel *c, struct sw_slice name, const struct cel_type **ret);
/* Type of authorizer.requestResource. */
const struct cel_type *cel_scope_request_resource(void);

/* Records the first error; returns NULL so that parsers write 'return cel_fail(...)'. */
void *cel_fail(struct sw_cel *c, size_t pos, const char *fmt, ...) SW_PRINTF(3, 4);

/* A program of a text that is not compiled yet; NULL with the reason: it is too long. */
struct sw_cel *cel_new(struct sw_slice src, const char **ret_why);
/* All of it: parse, check, literals. SW_EINVAL with c->why. */
SW_NODISCARD int cel_compile(struct sw_cel *c);
/* The compiler's message with the place in the source. */
const char *cel_explain(struct sw_arena *a, const struct sw_cel *c);
/* Syntax tree of c->src in c->root; on error c->failed. */
void cel_parse(struct sw_cel *c);
/* Words that no variable can have as its name. */
bool cel_reserved(struct sw_slice s);
/* Resolves names, checks types. */
void cel_check(struct sw_cel *c);
/* Then arguments that are written out and cannot be right. */
void cel_check_literals(struct sw_cel *c);
/* Types without anything inside. */
extern const struct cel_type cel_t_dyn;
extern const struct cel_type cel_t_null;
extern const struct cel_type cel_t_bool;
extern const struct cel_type cel_t_int;
extern const struct cel_type cel_t_uint;
extern const struct cel_type cel_t_double;
extern const struct cel_type cel_t_string;
extern const struct cel_type cel_t_bytes;
extern const struct cel_type cel_t_duration;
extern const struct cel_type cel_t_timestamp;
extern const struct cel_type cel_t_type;
/* Type of a schema; NULL when values of it cannot be reached from a rule. */
const struct cel_type *cel_type_of(struct sw_arena *a, const struct sw_schema *s, bool resource);
const char *cel_type_name(struct sw_arena *a, const struct cel_type *t);
/* A list, map or optional of elem. */
const struct cel_type *cel_type_container(struct sw_arena *a, enum cel_kind k,
                                          const struct cel_type *elem, bool nullable);
/* What an operator makes of two operands; NULL: it does not take them. */
const struct cel_type *cel_type_binary(enum cel_op op, const struct cel_type *x,
                                       const struct cel_type *y);
/* The type of something that is one or the other. */
const struct cel_type *cel_type_join(const struct cel_type *x, const struct cel_type *y);
/* True for types that no value has both of. */
bool cel_type_apart(const struct cel_type *x, const struct cel_type *y);
/* True for objects of two schemas, or an object and a map, or containers of them. */
bool cel_type_objects_apart(const struct cel_type *x, const struct cel_type *y);
/* "__dash__" and the like back to the property's name. */
struct sw_slice cel_unescape(struct sw_arena *a, struct sw_slice name);

/* ---- evaluation ---- */

struct cel_env {
    struct sw_arena *a;
    uint64_t cost;
    uint64_t limit;
    struct cel_val *slots;
    struct sw_cel_run *run;         /* admission expressions */
    struct sw_budget *work;         /* what regular expressions may cost; not NULL */
    const struct sw_budget *cancel; /* ends the evaluation; may be NULL */
    struct sw_regex *re;            /* the last that was no constant; owned */
    struct sw_slice re_text;
};

/* Frees what an evaluation kept beside its arena. */
void cel_env_done(struct cel_env *env);

#define CEL_OVER_BUDGET "operation cancelled: actual cost limit exceeded"

/* Pays for a step. True: that was more than there is. */
static inline bool cel_spent(struct cel_env *env, uint64_t more)
{
    env->cost += more;
    if (sw_budget_cancelled(env->cancel) && env->cost <= env->limit)
        env->cost = env->limit + 1;
    return env->cost > env->limit;
}

static inline bool cel_is_mapping(const struct cel_val *v)
{
    return v->k == CEL_MAP || v->k == CEL_OBJECT;
}

static inline struct cel_val cel_none(void)
{
    return (struct cel_val){.k = CEL_OPTIONAL};
}

struct cel_val cel_eval(struct cel_env *env, const struct cel_node *n);
/* Admission: a variable at its first use, the resource of the request, the authorizer. */
struct cel_val cel_run_variable(struct cel_env *env, int slot);
struct cel_val cel_run_request_resource(struct cel_env *env);
bool cel_run_allowed(struct cel_env *env, const struct sw_cel_access *x, const char **ret_reason);
/* A value of a tree node under its schema (NULL: by its own type). */
struct cel_val cel_from_json(struct cel_env *env, const struct sw_json *v,
                             const struct sw_schema *s);
struct cel_val cel_error(struct cel_env *env, const char *fmt, ...) SW_PRINTF(2, 3);
struct cel_val cel_no_overload(struct cel_env *env);
struct cel_val cel_over_budget(struct cel_env *env);
bool cel_equal(struct cel_env *env, const struct cel_val *x, const struct cel_val *y);
/* Quantities; NULL when the text is none. */
const struct cel_quantity *cel_quantity_parse(struct sw_arena *a, struct sw_slice s);
int cel_quantity_cmp(const struct cel_quantity *x, const struct cel_quantity *y);
/* Addresses and prefixes with the same meaning. */
bool cel_net_equal(const struct cel_val *x, const struct cel_val *y);
/* Lists of type set and map compare without their order. */
bool cel_unordered(const struct cel_val *v);
bool cel_list_has(struct cel_env *env, const struct cel_val *list, const struct cel_val *x);
/* False when the two have no order; otherwise *ret is <0, 0, >0. */
bool cel_order(const struct cel_val *x, const struct cel_val *y, int *ret);
size_t cel_len(const struct cel_val *v);
struct cel_val cel_at(struct cel_env *env, const struct cel_val *list, size_t i);
struct cel_val cel_key_at(struct cel_env *env, const struct cel_val *map, size_t i);
/* Value of a key; false when it is not there. */
bool cel_lookup(struct cel_env *env, const struct cel_val *map, const struct cel_val *key,
                struct cel_val *ret);
struct cel_val cel_new_list(struct cel_env *env);
void cel_push(struct cel_env *env, struct cel_val *list, struct cel_val item);
struct cel_val cel_string(struct sw_slice s);
struct cel_val cel_bool(bool b);
struct cel_val cel_int(int64_t i);
/* An optional that has v. */
struct cel_val cel_some(struct cel_env *env, struct cel_val v);
struct cel_val cel_binary(struct cel_env *env, enum cel_op op, struct cel_val x, struct cel_val y);

/* ---- functions ---- */

/*
 * Finds the function that a call means with arguments of these types and puts it there. Returns the
 * type of its result; NULL: there is none, and *ret_any tells whether the name exists at all.
 */
const struct cel_type *cel_call_find(struct sw_arena *a, struct cel_node *n,
                                     const struct cel_type *const *args, bool *ret_any);
/* True when some function of this (dotted) name exists. */
bool cel_fn_exists(struct sw_slice name);
/* Go's duration syntax ("1h2m", "1.5s"); RFC 3339 times. */
bool cel_parse_duration(struct sw_slice s, int64_t *ret_ns);
bool cel_parse_time(struct sw_slice s, int64_t *ret_sec, int32_t *ret_ns);
