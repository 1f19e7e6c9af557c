/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the readers of the local file only. */
#pragma once

#include <stddef.h>

#include "base/arena.h"
#include "node/local/localconfig.h"
#include "yaml/yaml.h"

struct sw_local {
    struct sw_arena *arena; /* for the time of loading */
    struct sw_state_builder *b;
    const struct sw_localconfig *config;
    struct sw_err *err;
};

void sw_local_warn(const struct sw_local *l, const struct sw_yaml *at, const char *fmt, ...)
    SW_PRINTF(3, 4);

/*
 * A member of a map: how it is read, and what it fills. Tables of them are the file's format; what
 * a map has besides is an error.
 */
struct sw_local_field {
    const char *key;
    /* Gets the value, which is not null, and the struct to fill; NULL: accepted and not read. */
    int (*read)(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                void *to);
    size_t at; /* the field in the struct */
    bool needed;
    const char *const *names; /* sw_local_enum, sw_local_flag */
    /* sw_local_list: its items; the field is a pointer, with its count at n_at. */
    int (*item)(struct sw_local *l, const struct sw_yaml *v, void *item);
    size_t size;
    size_t n_at;
};

enum { SW_LOCAL_FIELDS_MAX = 32 };

/* Reads a map: its members in the table's order, once all keys are known. */
int sw_local_map(struct sw_local *l, const struct sw_yaml *map, const struct sw_local_field *fields,
                 size_t n, void *to);
/* Its two halves. */
int sw_local_known(const struct sw_yaml *map, const struct sw_local_field *fields, size_t n,
                   struct sw_err *err);
int sw_local_members(struct sw_local *l, const struct sw_yaml *map,
                     const struct sw_local_field *fields, size_t n, void *to);

/* Readers of fields. */
int sw_local_text(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to); /* struct sw_slice */
int sw_local_bool(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to);
int sw_local_enum(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to); /* int: the index in names */
int sw_local_flag(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to); /* bool: is it the second name? */
int sw_local_u32(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                 void *to);
int sw_local_port(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to); /* uint16_t */
int sw_local_list(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to);
/* {service port: target port}, or {ports: [{servicePort, targetPort}]}; a list's pointer. */
int sw_local_ports(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                   void *to);
/* {destination, hboneMtlsPort}; a pointer to struct sw_gateway_addr. */
int sw_local_gateway(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                     void *to);
/* "network/ip" or "ns/host"; struct sw_gateway_addr. */
int sw_local_destination(struct sw_local *l, const struct sw_yaml *v,
                         const struct sw_local_field *f, void *to);
/* An address block; struct sw_cidr. */
int sw_local_cidr(struct sw_local *l, const struct sw_yaml *v, const struct sw_local_field *f,
                  void *to);

/* A text as an item of a list. */
int sw_local_item_text(struct sw_local *l, const struct sw_yaml *v, void *item);

int sw_local_service(struct sw_local *l, const struct sw_yaml *node);
int sw_local_policy(struct sw_local *l, const struct sw_yaml *node);
