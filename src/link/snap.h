/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the control plane configured, immutable and counted: resources are shared by the snapshots
 * that contain them, workers hold one snapshot, connections hold the resources they need.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/map.h"
#include "base/slice.h"
#include "io/addr.h"

struct sw_tls_cred;

enum {
    LINK_GATEWAYS_MAX = 32, /* of a peer; further ones are ignored */
    LINK_NAME_MAX = 512,    /* bytes of a resource's name */
    LINK_EPOCH_MAX = 64,
};

enum link_kind { LINK_PEER, LINK_EXPORT, LINK_IMPORT };

/* The protocol for a peer. */
enum link_wire {
    LINK_WIRE_AUTO,        /* as agreed in the handshake */
    LINK_WIRE_SPANWIRE,    /* HTTP/2 or nothing */
    LINK_WIRE_CLUSTERLINK, /* one connection per tunnel */
};

struct link_endpoint {
    struct sw_slice host;
    struct sw_ip ip; /* family 0: host is a name */
    uint16_t port;
};

/* A resource. Slices live as long as it does. */
struct link_res {
    atomic_uint refs;
    struct sw_arena arena;
    enum link_kind kind;
    struct sw_slice name;      /* without the prefix of its kind: "peer1", "ns/name" */
    const char *host;          /* peers: the name as text, for TLS */
    struct sw_slice authority; /* peers: "peer1:443" */
    struct sw_slice ns;        /* imports */
    struct sw_slice base;      /* imports: the name without the namespace */
    struct sw_addr at;         /* imports */
    enum link_wire wire;
    struct link_endpoint ends[LINK_GATEWAYS_MAX]; /* gateways of a peer, or the export's service */
    size_t n_ends;
};

struct link_res *link_res_ref(struct link_res *r);
/* Accepts NULL; always returns NULL. */
struct link_res *link_res_unref(struct link_res *r);

struct link_snap {
    atomic_uint refs;
    uint64_t version;
    struct sw_map peers;      /* link_res by name; a reference each */
    struct sw_map exports;    /* the same */
    struct sw_map imports;    /* the same */
    struct sw_tls_cred *cred; /* a reference; NULL: the secrets have not come yet */
    uint64_t cred_version;
    bool complete; /* clusters, listeners and secrets came */
    uint8_t epoch[LINK_EPOCH_MAX];
    size_t n_epoch; /* 0: none */
};

struct link_snap *link_snap_ref(struct link_snap *s);
/* Accepts NULL; always returns NULL. */
struct link_snap *link_snap_unref(struct link_snap *s);

/*
 * A cluster or a listener, decoded: 'name' says the kind by its prefix. NULL with SW_EINVAL and a
 * reason that names the field; SW_ENOENT: a resource of another kind, to be ignored.
 */
SW_NODISCARD struct link_res *link_res_cluster(struct sw_slice name, struct sw_slice bytes,
                                               struct sw_err *err);
SW_NODISCARD struct link_res *link_res_listener(struct sw_slice name, struct sw_slice bytes,
                                                struct sw_err *err);

/* The parts of a Secret; slices live in the arena. Fields that it does not have stay as they are.
 */
struct link_secret {
    struct sw_slice chain;
    struct sw_slice key;
    struct sw_slice roots;
};
SW_NODISCARD int link_secret_parse(struct sw_arena *a, struct sw_slice bytes,
                                   struct link_secret *ret, struct sw_err *err);
