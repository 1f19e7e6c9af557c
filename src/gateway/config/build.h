/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the compilers of listeners, routes, clusters and secrets share. Message types appear by
 * their struct tags: only .c files include the generated headers.
 */
#pragma once

#include "base/err.h"
#include "base/vec.h"
#include "gateway/config/config.h"

struct Sw__Address;
struct Sw__Any;
struct Sw__BoolValue;
struct Sw__DataSource;
struct Sw__Duration;
struct Sw__Http2ProtocolOptions;
struct Sw__Metadata;
struct Sw__StringMatcher;
struct Sw__Struct;
struct Sw__UInt32Value;
struct Sw__HeaderMatcher;
struct Sw__RuntimeFractionalPercent;
struct sw_gw_accesslog;
struct sw_gw_creds;
struct sw_gw_store;
struct ProtobufCBinaryData;
struct ProtobufCMessageDescriptor;

/* In the order of subscription: what others need comes first, so that little has to wait. */
enum sw_gw_type {
    SW_GW_TYPE_CLUSTER,
    SW_GW_TYPE_ENDPOINTS,
    SW_GW_TYPE_LISTENER,
    SW_GW_TYPE_ROUTES,
    SW_GW_TYPE_SECRET,
};
enum { SW_GW_TYPES = 5 };

/* Where compilers find other resources. */
struct sw_gw_source {
    /* False: it is not there. */
    bool (*find)(const struct sw_gw_source *s, enum sw_gw_type t, struct sw_slice name,
                 struct sw_slice *ret_bytes);
    struct sw_gw_store *store; /* for find */
    struct sw_gw_creds *creds; /* cred.h; NULL: none are kept */
};

/* One thing an object needs; it waits while that is missing and is built again when it changes. */
struct sw_gw_dep {
    enum sw_gw_type type;
    struct sw_slice name; /* heap */
};

/* One compilation. */
struct sw_gw_build {
    struct sw_arena *arena; /* of the object being made */
    struct sw_arena *tmp;   /* decoded messages; gone afterwards */
    struct sw_err *err;
    const struct sw_gw_source *source; /* NULL: nothing to look up */
    SW_VEC(struct sw_regex *) regexes;
    size_t regex_size; /* of all of them */
    bool known_bad;    /* errors of a host were logged when the same bytes came before */
    SW_VEC(struct sw_gw_dep) deps;
    SW_VEC(struct sw_gw_accesslog *) logs; /* references of the object */
    sw_gw_unref_log unref_log;             /* set with the first of them */
    bool missing;                          /* something named is not there yet */
    bool give_up; /* the wait timed out: missing routes and endpoints count as empty */
};

/* SW_EINVAL, with the reason in b->err: printf's format and values. */
#define SW_GW_BAD(b, ...) sw_err_set((b)->err, SW_EINVAL, __VA_ARGS__)

/* Frees what was collected and not taken over. */
void sw_gw_build_done(struct sw_gw_build *b);

/* Copies into the object's arena. */
struct sw_slice sw_gw_text(struct sw_gw_build *b, const struct ProtobufCBinaryData *t);
struct sw_slice sw_gw_lower(struct sw_gw_build *b, struct sw_slice s);
/* Nanoseconds; 'otherwise' without a message. Negative and absurd values count as 0 and a century.
 */
uint64_t sw_gw_duration(const struct Sw__Duration *d, uint64_t otherwise);
/* The value; 'otherwise' without a message. */
bool sw_gw_bool(const struct Sw__BoolValue *v, bool otherwise);
uint32_t sw_gw_u32(const struct Sw__UInt32Value *v, uint32_t otherwise);
/* All return SW_OK or SW_EINVAL with b->err filled. */
SW_NODISCARD int sw_gw_build_regex(struct sw_gw_build *b, struct sw_slice pattern, bool whole,
                                   const struct sw_regex **ret);
/* The expressions collected since there were 'first' of them, for an object of their own. */
struct sw_regex **sw_gw_take_regexes(struct sw_gw_build *b, size_t first, size_t *ret_n);
SW_NODISCARD int sw_gw_build_str_match(struct sw_gw_build *b, const struct Sw__StringMatcher *m,
                                       struct sw_gw_str_match *ret);
SW_NODISCARD int sw_gw_build_addr(struct sw_gw_build *b, const struct Sw__Address *a, bool names,
                                  struct sw_gw_addr *ret, struct sw_slice *ret_host);
SW_NODISCARD int sw_gw_build_source(struct sw_gw_build *b, const struct Sw__DataSource *d,
                                    size_t max, struct sw_slice *ret);
/* {"ns": {...}} from filter_metadata; NULL without any. */
const struct sw_json *sw_gw_build_metadata(struct sw_gw_build *b, const struct Sw__Metadata *m);
const struct sw_json *sw_gw_build_struct(struct sw_gw_build *b, const struct Sw__Struct *m);
void sw_gw_build_h2(const struct Sw__Http2ProtocolOptions *o, struct sw_gw_h2_opts *ret);
/*
 * Decodes a resource of that type into b->tmp. NULL with SW_EINVAL: malformed, too large, or it
 * sets a field that has to be refused (xds/fields.h).
 */
void *sw_gw_unpack(struct sw_gw_build *b, const struct ProtobufCMessageDescriptor *type,
                   struct sw_slice bytes);
/* The same for the message inside an Any, which is of the wanted type. */
void *sw_gw_open_any(struct sw_gw_build *b, const struct Sw__Any *any,
                     const struct ProtobufCMessageDescriptor *type);
SW_NODISCARD int sw_gw_build_header_match(struct sw_gw_build *b, const struct Sw__HeaderMatcher *in,
                                          struct sw_gw_header_match *m);
/* In millionths; all of them without a message. */
uint32_t sw_gw_build_fraction(const struct Sw__RuntimeFractionalPercent *f);

/* Notes that the object needs this. */
void sw_gw_need(struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name);
/* Encoded bytes of a secret, noting the need; p == NULL (and b->missing) when there is none. */
struct sw_slice sw_gw_need_secret(struct sw_gw_build *b, struct sw_slice name);
/* True when the resource is there, noting the need; otherwise b->missing is set. */
bool sw_gw_need_present(struct sw_gw_build *b, enum sw_gw_type t, struct sw_slice name);
