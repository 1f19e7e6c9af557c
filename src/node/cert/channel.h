/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gRPC channel to a service of the control plane as ztunnel's settings describe it: an address,
 * where its root is, a second server name, a bearer token, extra headers. Runs on one loop.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"
#include "http/grpc/grpc.h"
#include "io/loop.h"

struct sw_channel;

/* Strings are borrowed for the life of the channel; NULL: not given. */
struct sw_channel_opts {
    const char *scope; /* of log lines */
    /* "https://HOST:PORT"; without a scheme https. "http://" is for tests and sidecars. */
    const char *address;
    const char *root;          /* file, PEM text, or "SYSTEM" for the system's authorities */
    const char *alt_name;      /* second name the server's certificate may have */
    const char *token;         /* file if there is one of that name, else the token itself */
    const char *machine;       /* directory of a machine that joined: it signs tokens instead */
    const char *cluster_id;    /* sent as 'clusterid' */
    uint32_t mark;             /* SO_MARK of its sockets; 0: none */
    size_t max_message;        /* of an answer [4 MiB] */
    size_t max_queue;          /* of a call [64 MiB] */
    uint32_t window;           /* bytes of an answer on the way [256 KiB] */
    const char *header_prefix; /* PREFIX_name=value of the environment: sent as 'name: value' */
};

/* NULL with SW_EINVAL. Connects when something is asked. */
SW_NODISCARD struct sw_channel *sw_channel_new(struct sw_loop *l, const struct sw_channel_opts *o,
                                               struct sw_err *err);
/* Calls get on_done. NULL is fine. Not from a callback of theirs. */
void sw_channel_free(struct sw_channel *c);
/* Starts a call as sw_grpc_call does. Root and token are read again. NULL with the reason. */
SW_NODISCARD struct sw_grpc_call *sw_channel_call(struct sw_channel *c, struct sw_slice path,
                                                  uint64_t timeout_ns,
                                                  const struct sw_grpc_ops *ops, void *arg,
                                                  struct sw_err *err);
/* "https://HOST:PORT", for logs. */
const char *sw_channel_name(const struct sw_channel *c);
