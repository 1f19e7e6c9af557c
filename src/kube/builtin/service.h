/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Service gets from the server beyond defaults: cluster addresses, families and node ports,
 * and what goes when its type changes. Pure: the pool knows which addresses are in use.
 */
#pragma once

#include "base/arena.h"
#include "base/json.h"
#include "kube/errs.h"
#include "kube/schema/schema.h"

enum {
    SW_SERVICE_PORT_MIN = 30000,
    SW_SERVICE_PORT_MAX = 32767,
};

/* Addresses of 10.96.0.0/12 and the node ports. */
struct sw_service_pool {
    void *arg;
    /* True when another Service has it. */
    bool (*ip_taken)(void *arg, struct sw_slice ip);
    bool (*port_taken)(void *arg, uint16_t port);
    /* A number below the bound. */
    uint64_t (*random)(uint64_t bound);
};

/*
 * Settles addresses and ports of a decoded and defaulted Service in place; old is the stored one,
 * NULL when it is new. Takes what was given or stored before it takes anything new.
 *
 * Returns SW_OK; SW_EINVAL when errors were added; SW_ELIMIT with the reason in *ret_why when a
 * range is exhausted or a port cannot be had.
 */
SW_NODISCARD int sw_service_settle(struct sw_arena *a, struct sw_json *svc,
                                   const struct sw_json *old, const struct sw_service_pool *pool,
                                   struct sw_field_errs *e, const char **ret_why);

/* Warnings about a Service that is valid. */
void sw_service_warnings(const struct sw_json *svc, struct sw_texts *out);
