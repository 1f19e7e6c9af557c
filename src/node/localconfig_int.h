/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the readers of the local file only. */
#pragma once

#include "base/arena.h"
#include "node/localconfig.h"
#include "yaml/yaml.h"

struct sw_local {
    struct sw_arena *arena; /* for the time of loading */
    struct sw_state_builder *b;
    const char *file;
    sw_localconfig_warn_cb warn;
    void *warn_ctx;
    struct sw_err *err;
};

void sw_local_warn(const struct sw_local *l, const struct sw_yaml *at, const char *fmt, ...)
    SW_PRINTF(3, 4);

/* The value, or NULL when the key is absent or null. */
const struct sw_yaml *sw_local_get(const struct sw_yaml *map, const char *key);
/* Required: fails naming the key when it is absent. */
int sw_local_need(struct sw_local *l, const struct sw_yaml *map, const char *key,
                  const struct sw_yaml **ret);
/* Optional fields: untouched when absent. */
int sw_local_text(struct sw_local *l, const struct sw_yaml *map, const char *key,
                  struct sw_slice *ret);
int sw_local_bool(struct sw_local *l, const struct sw_yaml *map, const char *key, bool *ret);
int sw_local_enum(struct sw_local *l, const struct sw_yaml *map, const char *key,
                  const char *const *names, int *ret);
int sw_local_u32(struct sw_local *l, const struct sw_yaml *map, const char *key, uint32_t max,
                 uint32_t *ret);
/* An array of the arena with one item for each of a sequence; empty without one. */
struct sw_local_list {
    void *p;
    size_t n;
};
typedef int (*sw_local_item_cb)(struct sw_local *l, const struct sw_yaml *node, void *item);
int sw_local_list(struct sw_local *l, const struct sw_yaml *list, size_t size,
                  sw_local_item_cb read, struct sw_local_list *ret);
int sw_local_texts(struct sw_local *l, const struct sw_yaml *map, const char *key,
                   const struct sw_slice **ret, size_t *ret_n);

/* "network/ip"; fails at the node. */
int sw_local_network_ip(struct sw_local *l, const struct sw_yaml *node, struct sw_slice *ret_net,
                        struct sw_ip *ret_ip);
/* {service port: target port}, or {ports: [{servicePort, targetPort}]}. */
int sw_local_ports(struct sw_local *l, const struct sw_yaml *node, const struct sw_port_pair **ret,
                   size_t *ret_n);
/* {destination, hboneMtlsPort}; NULL when the key is absent. */
int sw_local_gateway(struct sw_local *l, const struct sw_yaml *map, const char *key,
                     const struct sw_gateway_spec **ret);
/* "network/ip" or "ns/host". */
int sw_local_destination(struct sw_local *l, const struct sw_yaml *node,
                         struct sw_gateway_spec *ret);

int sw_local_service(struct sw_local *l, const struct sw_yaml *node);
int sw_local_policy(struct sw_local *l, const struct sw_yaml *node);
