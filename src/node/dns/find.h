/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a name means to a client of the mesh: the name itself, the short forms of Kubernetes, names
 * that a resolver made longer with its search list, wildcards. Pure: reads a snapshot, no I/O.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"
#include "node/state.h"

enum {
    SW_DNSP_SEARCH_MAX = 8,     /* search domains that count */
    SW_DNSP_NAME_MAX = 256,     /* a name as text, with NUL */
    SW_DNSP_ADDRESSES_MAX = 256 /* of one answer */
};

/* Settings of the DNS proxy. Texts are lower case, without the last dot, and outlive their users.
 */
struct sw_dnsp_env {
    struct sw_slice domain;       /* of the cluster */
    struct sw_slice preferred_ns; /* tie-break among services of one name; empty: none */
    bool ipv6;                    /* AAAA may be answered */
    /* Search domains; 0: those of the client's namespace. */
    struct sw_slice search[SW_DNSP_SEARCH_MAX];
    size_t n_search;
};

struct sw_dnsp_match {
    const struct sw_service *service;   /* one of the two */
    const struct sw_workload *workload; /* else */
    /* Found by taking a search domain away, and not by a wildcard: the name that was left. */
    bool stripped;
    char name[SW_DNSP_NAME_MAX];
};

/*
 * Finds what a name (lower case, without the last dot) means to a client. False: it is none of the
 * mesh, ask others. The first candidate that names something wins: the name, its Kubernetes forms,
 * then the same for each search domain it ends with; of each the exact name before wildcards, the
 * longest first. A service must be visible to the client and have an address, or be one of the
 * cluster's own (headless).
 */
bool sw_dnsp_find(const struct sw_state *s, const struct sw_dnsp_env *env,
                  const struct sw_workload *client, struct sw_slice name,
                  struct sw_dnsp_match *ret);

/*
 * Addresses of that family, in random order: those of a service on the client's network, one of
 * each endpoint of a headless one, those of a workload. None when the family is not allowed.
 */
size_t sw_dnsp_addresses(const struct sw_dnsp_env *env, const struct sw_workload *client,
                         const struct sw_dnsp_match *m, uint8_t family,
                         struct sw_ip ret[SW_DNSP_ADDRESSES_MAX]);
