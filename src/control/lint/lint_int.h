/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the linter. */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "control/lint/lint.h"
#include "proto/constraint.h"

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;

/* What a resource refers to. */
enum ref_kind {
    REF_CLUSTER,
    REF_ROUTE,
    REF_SECRET,
    REF_ENDPOINTS,
    REF_INTERNAL, /* a listener with 'internal_listener' */
    REF_KINDS,
};

struct ref {
    enum ref_kind kind;
    struct sw_slice name;
    struct sw_slice path;
    size_t resource; /* index */
};

/* A run of the linter. */
struct lint {
    struct sw_arena a;
    const struct sw_model_resource *res;
    size_t at;           /* resource being looked at */
    const char *type;    /* its type, short */
    struct sw_slice in;  /* path of the message being looked at */
    bool resolves;       /* the cluster at hand is STRICT_DNS */
    uint32_t body_limit; /* for direct responses of the route configuration at hand */
    sw_xds_on_finding fn;
    void *arg;
    size_t errors;
    SW_VEC(struct ref) refs;
    struct sw_map defined[REF_KINDS];
};

/*
 * A finding about a field ("" = the message itself) of the message being looked at. An error is
 * what Envoy refuses, a warning what it takes and cannot do as it is meant.
 */
void sw_lint_error(struct lint *l, const char *field, const char *fmt, ...) SW_PRINTF(3, 4);
void sw_lint_warn(struct lint *l, const char *field, const char *fmt, ...) SW_PRINTF(3, 4);
/* Notes that the resource needs another one. Empty names are another rule's business. */
void sw_lint_ref(struct lint *l, enum ref_kind kind, struct sw_slice name, const char *field);

/* A rule for one type of message. */
struct lint_rule {
    const struct ProtobufCMessageDescriptor *type;
    void (*check)(struct lint *l, const void *m);
};

/* Tables end with a NULL type. */
extern const struct sw_pb_constraint sw_lint_constraints[];
extern const struct lint_rule sw_lint_core_rules[];
extern const struct lint_rule sw_lint_route_rules[];
extern const struct lint_rule sw_lint_listener_rules[];
extern const struct lint_rule sw_lint_cluster_rules[];

/* --- checks that several rules need --- */

/*
 * A header's name: a token, or beginning with ':' where pseudo is set. Envoy refuses little of what
 * cannot be a name; the rest is a warning.
 */
void sw_lint_header_name(struct lint *l, struct sw_slice name, const char *field, bool pseudo);
void sw_lint_header_value(struct lint *l, struct sw_slice value, const char *field);
/* A text with %OPERATOR(...)%: percent signs come in pairs. */
void sw_lint_format(struct lint *l, struct sw_slice s, const char *field);
/* Names of headers that a route removes. */
void sw_lint_removed(struct lint *l, const struct ProtobufCBinaryData *p, size_t n,
                     const char *field);
