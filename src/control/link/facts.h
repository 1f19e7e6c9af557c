/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What authorisation of links needs to know of the objects: Imports, Exports, Peers and compiled
 * access policies. An immutable, counted snapshot; readable from any thread.
 *
 * Made from objects by a builder: sw_link_facts_begin, any number of adds, sw_link_facts_end. An
 * object that is not usable never keeps another out: it is left out, or marked, with the reason.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "policy/attr.h"

struct sw_json;

/* Attribute keys of ClusterLink. Labels follow the prefix as they are. */
#define SW_LINK_PEER_NAME     "peer.clusterlink.net/name"
#define SW_LINK_PEER_LABELS   "peer.clusterlink.net/labels."
#define SW_LINK_CLIENT_NS     "client.clusterlink.net/namespace"
#define SW_LINK_CLIENT_SA     "client.clusterlink.net/service-account"
#define SW_LINK_CLIENT_LABELS "client.clusterlink.net/labels."
#define SW_LINK_EXPORT_NAME   "export.clusterlink.net/name"
#define SW_LINK_EXPORT_NS     "export.clusterlink.net/namespace"
#define SW_LINK_EXPORT_LABELS "export.clusterlink.net/labels."

/* Annotations of ours. */
#define SW_LINK_WEIGHTS "link.spanwire.dev/weights" /* of an Import: "peer1=3,peer2=1" */
#define SW_LINK_FORM    "link.spanwire.dev/form"    /* of a Peer: auto, clusterlink, spanwire */

enum {
    SW_LINK_TERMS_MAX = 1 << 17, /* of the policies of one namespace */
    SW_LINK_SOURCES_MAX = 64,    /* of an Import; the rest is not used */
    SW_LINK_GATEWAYS_MAX = 16,   /* of a Peer; the rest is not used */
    SW_LINK_WEIGHT_MAX = 1000,
};

enum sw_link_scheme {
    SW_LINK_ROUND_ROBIN = 0,
    SW_LINK_RANDOM,
    SW_LINK_STATIC,
    SW_LINK_WEIGHTED,
    SW_LINK_LOCALITY,
    SW_LINK_SCHEME_UNKNOWN, /* the import refuses */
};

struct sw_link_source {
    struct sw_slice peer;
    struct sw_slice export_name;
    struct sw_slice export_ns;
    uint32_t weight; /* of scheme 'weighted' [1]; 0: only when nothing else is left */
};

struct sw_link_import {
    struct sw_slice key; /* "ns/name" */
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_attrs labels; /* as attributes: SW_LINK_EXPORT_LABELS and the key */
    const struct sw_link_source *sources;
    size_t n;
    enum sw_link_scheme scheme;
    bool valid;          /* false: refuses every connection */
    struct sw_slice why; /* it is not valid */
};

struct sw_link_export {
    struct sw_slice key;
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_attrs labels; /* the same */
    bool valid;
    struct sw_slice why;
};

enum sw_link_form { SW_LINK_AUTO = 0, SW_LINK_CLUSTERLINK, SW_LINK_SPANWIRE };

struct sw_link_gateway {
    struct sw_slice host;
    uint16_t port;
};

struct sw_link_peer {
    struct sw_slice name;
    const struct sw_link_gateway *gateways;
    size_t n;
    enum sw_link_form form;
    struct sw_attrs labels; /* of its status, keys as they are: from the last heartbeat */
};

struct sw_link_facts;

struct sw_link_facts *sw_link_facts_ref(struct sw_link_facts *f);
/* Accepts NULL; always returns NULL. */
struct sw_link_facts *sw_link_facts_unref(struct sw_link_facts *f);

/* All find functions: NULL when there is none. Names are unique; lists are sorted by key. */
const struct sw_link_import *sw_link_facts_import(const struct sw_link_facts *f,
                                                  struct sw_slice key);
const struct sw_link_export *sw_link_facts_export(const struct sw_link_facts *f,
                                                  struct sw_slice key);
const struct sw_link_peer *sw_link_facts_peer(const struct sw_link_facts *f, struct sw_slice name);
size_t sw_link_facts_peers(const struct sw_link_facts *f, const struct sw_link_peer **ret);
const struct sw_attr_list *sw_link_facts_policies(const struct sw_link_facts *f);
/* Equal content, equal value, in every process: decisions depend on nothing else in it. */
uint64_t sw_link_facts_hash(const struct sw_link_facts *f);

/* ---- making them ---- */

struct sw_link_facts_builder;

SW_NODISCARD struct sw_link_facts_builder *sw_link_facts_begin(void);
/*
 * Objects as the API has them; texts are copied. 'why' (empty: valid) is for those that the
 * controller found invalid; a condition ExportValid, ImportTargetPortValid or ImportServiceValid
 * that is False in their status says so, too.
 */
void sw_link_facts_add_import(struct sw_link_facts_builder *b, const struct sw_json *obj,
                              struct sw_slice why);
void sw_link_facts_add_export(struct sw_link_facts_builder *b, const struct sw_json *obj,
                              struct sw_slice why);
void sw_link_facts_add_peer(struct sw_link_facts_builder *b, const struct sw_json *obj);
/*
 * AccessPolicy, or PrivilegedAccessPolicy (without a namespace). SW_EINVAL: not usable, with the
 * reason. Fails closed: an unusable policy denies in its namespace (everywhere: privileged) what it
 * was to deny, i.e. a 'deny' that cannot be read denies all; an 'allow' allows nothing.
 */
SW_NODISCARD int sw_link_facts_add_policy(struct sw_link_facts_builder *b,
                                          const struct sw_json *obj, struct sw_err *err);
/* The snapshot, one reference; the builder is gone. */
SW_NODISCARD struct sw_link_facts *sw_link_facts_end(struct sw_link_facts_builder *b);
/* Without a snapshot. NULL is fine. */
void sw_link_facts_abort(struct sw_link_facts_builder *b);
