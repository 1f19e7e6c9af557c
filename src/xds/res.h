/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One resource of the cache: encoded once for all streams and immutable. References are counted
 * without atomics: a resource belongs to one thread at a time.
 */
#pragma once

#include <stdint.h>

#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

enum {
    SW_XDS_NAME_MAX = 4096,   /* bytes of a resource's name */
    SW_XDS_TYPE_MAX = 256,    /* bytes of a type URL */
    SW_XDS_VERSION_LEN = 32,  /* hex digits */
    SW_XDS_ALIASES_MAX = 4096 /* aliases, and services, of a resource */
};

/*
 * What the cache knows of a resource besides its value, so that clients find it on demand. All of
 * it must follow from the value: a new value is the only thing that makes it new.
 */
struct sw_xds_extra {
    const struct sw_slice *aliases; /* other names it is found by; sent in Resource.aliases */
    size_t n_aliases;
    struct sw_slice node;            /* it runs there, and that node subscribes to it by itself */
    const struct sw_slice *services; /* names of resources whose subscribers get this one too */
    size_t n_services;
};

/* Slices live as long as the resource. */
struct sw_xds_res {
    unsigned refs;
    uint32_t n_aliases;
    uint32_t n_services;
    uint64_t mix[2]; /* of name and version, for the version of the set */
    struct sw_slice name;
    struct sw_slice version;  /* hash of type and value, SW_XDS_VERSION_LEN hex digits */
    struct sw_slice value;    /* the message */
    struct sw_slice any;      /* google.protobuf.Any around it, encoded */
    struct sw_slice resource; /* envoy.service.discovery.v3.Resource around that, encoded */
    struct sw_slice aliased;  /* the same with the aliases */
    struct sw_slice node;     /* of sw_xds_extra */
    struct sw_slice extra[];  /* aliases, then services */
};

/*
 * A new resource. type is without a view; x may be NULL. The caller has checked the bounds above.
 */
struct sw_xds_res *sw_xds_res_new(struct sw_slice type, struct sw_slice name, struct sw_slice value,
                                  const struct sw_xds_extra *x);
struct sw_xds_res *sw_xds_res_ref(struct sw_xds_res *r);
/* Accepts NULL. */
void sw_xds_res_unref(struct sw_xds_res *r);
/* 128 bits as hex digits, with the end. */
void sw_xds_version_text(const uint64_t h[2], char out[SW_XDS_VERSION_LEN + 1]);

static inline struct sw_slice sw_xds_res_alias(const struct sw_xds_res *r, size_t i)
{
    return r->extra[i];
}

static inline struct sw_slice sw_xds_res_service(const struct sw_xds_res *r, size_t i)
{
    return r->extra[r->n_aliases + i];
}
