/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of our messages an Any holds: the table from Envoy's full type names to the generated
 * descriptors, and helpers to open and fill an Any.
 */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

struct ProtobufCMessage;
struct ProtobufCMessageDescriptor;
struct Sw__Any;
struct sw_pb_limits;

/* The types that are resources of their own, as discovery names them. */
#define SW_TYPE_PREFIX        "type.googleapis.com/"
#define SW_TYPE_LISTENER      SW_TYPE_PREFIX "envoy.config.listener.v3.Listener"
#define SW_TYPE_ROUTE         SW_TYPE_PREFIX "envoy.config.route.v3.RouteConfiguration"
#define SW_TYPE_CLUSTER       SW_TYPE_PREFIX "envoy.config.cluster.v3.Cluster"
#define SW_TYPE_ENDPOINT      SW_TYPE_PREFIX "envoy.config.endpoint.v3.ClusterLoadAssignment"
#define SW_TYPE_SECRET        SW_TYPE_PREFIX "envoy.extensions.transport_sockets.tls.v3.Secret"
#define SW_TYPE_ADDRESS       SW_TYPE_PREFIX "istio.workload.Address"
#define SW_TYPE_WORKLOAD      SW_TYPE_PREFIX "istio.workload.Workload"
#define SW_TYPE_AUTHORIZATION SW_TYPE_PREFIX "istio.security.Authorization"
/* Of our own, between control plane and data planes of links: doc/internals/link.md. */
#define SW_TYPE_LINK_EPOCH SW_TYPE_PREFIX "spanwire.link.v1.Epoch"
/* Filter metadata of a peer's cluster; its field "form" is the protocol for the peer. */
#define SW_LINK_METADATA "spanwire.link"

/*
 * Descriptor for a type URL, or for a bare type name; NULL when it is not one of ours. Only types
 * that travel in an Any are known.
 */
const struct ProtobufCMessageDescriptor *sw_pb_type_find(struct sw_slice type_url);
/* Envoy's full name of a message ("envoy.config.listener.v3.Listener"); NULL when not in the table.
 */
const char *sw_pb_type_of(const struct ProtobufCMessageDescriptor *type);

/*
 * An Sw__Any (<proto/google.pb-c.h>) in the arena that holds 'm' packed under its full type name.
 * The type of m must be in the table.
 */
struct Sw__Any *sw_pb_any(struct sw_arena *a, const struct ProtobufCMessage *m);

/*
 * Decodes what an Any holds, if it is of the wanted type. NULL with SW_EPROTO (malformed, or
 * another type) or SW_ELIMIT; the message names the type.
 */
SW_NODISCARD struct ProtobufCMessage *
sw_pb_any_unpack(struct sw_arena *a, const struct Sw__Any *any,
                 const struct ProtobufCMessageDescriptor *type, const struct sw_pb_limits *limits,
                 struct sw_err *err);

/* True when the Any claims to hold that type. NULL is no type at all. */
bool sw_pb_any_is(const struct Sw__Any *any, const struct ProtobufCMessageDescriptor *type);
