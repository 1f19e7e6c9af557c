/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PeerAuthentication: on which ports of a workload plaintext is refused. One function decides both
 * which key a workload lists and what the resource of that key says, so that no key is listed
 * without a resource and no refusal is lost between the two.
 */
#pragma once

#include "control/mesh/policy/labels.h"
#include "policy/policy.h"

/* The stricter, the greater. */
enum mesh_mtls {
    MESH_MTLS_UNSET,
    MESH_MTLS_DISABLE,
    MESH_MTLS_PERMISSIVE,
    MESH_MTLS_STRICT,
};

enum mesh_peer_level {
    MESH_PEER_MESH,
    MESH_PEER_NAMESPACE,
    MESH_PEER_WORKLOAD,
    MESH_PEER_IGNORED, /* a selector in the root namespace */
};

struct mesh_peer_port {
    uint16_t port;
    enum mesh_mtls mode;
};

struct mesh_peer {
    struct sw_slice key; /* "namespace/name" */
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice created; /* RFC 3339, empty: before all others */
    enum mesh_peer_level level;
    enum mesh_mtls mode;
    struct mesh_selector selector;
    const struct mesh_peer_port *ports; /* of workload level, ascending */
    size_t n_ports;
};

/* Fills everything but key, ns, name and created, in the arena. An unknown mode counts as STRICT.
 */
void mesh_peer_read(struct sw_arena *a, const struct sw_json *spec, bool in_root,
                    struct mesh_peer *ret);
/* True when x wins against y of the same level: older, then by name. y may be NULL. */
bool mesh_peer_wins(const struct mesh_peer *x, const struct mesh_peer *y);

/* What a workload lists for the policies that are in force; each of them may be NULL. */
enum mesh_peer_list {
    MESH_PEER_LISTS_NONE,
    MESH_PEER_LISTS_STATIC,    /* plaintext is refused on all ports */
    MESH_PEER_LISTS_CONVERTED, /* the workload's own, as mesh_peer_policy makes it */
};
enum mesh_peer_list mesh_peer_decide(const struct mesh_peer *mesh, const struct mesh_peer *space,
                                     const struct mesh_peer *workload);
/* The policy of a workload's own, where mesh_peer_decide says CONVERTED; in the arena. */
struct sw_policy mesh_peer_policy(struct sw_arena *a, const struct mesh_peer *mesh,
                                  const struct mesh_peer *space, const struct mesh_peer *workload);
/* The policy that refuses plaintext on all ports. */
struct sw_policy mesh_peer_static(struct sw_arena *a, struct sw_slice root_ns);

#define MESH_PEER_STATIC    "istio_converted_static_strict"
#define MESH_PEER_CONVERTED "converted_peer_authentication_"
