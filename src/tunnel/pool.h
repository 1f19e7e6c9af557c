/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client sessions shared by the tunnels of one worker. Key: who dials, whom it expects, where, and
 * from which address. Many tunnels that want a new key at once make one connection and wait for
 * it; a connection at its stream limit is used again as soon as a stream ends; one without streams
 * is released after a while.
 */
#pragma once

#include "base/list.h"
#include "io/sock.h"
#include "tunnel/session.h"

struct sw_pool;
struct sw_pool_conn;
struct sw_pool_wait;

struct sw_pool_config {
    size_t max_streams;         /* own limit per connection; the peer's may be lower */
    uint64_t unused_release_ns; /* how long a connection without streams is kept */
    uint64_t connect_timeout_ns;
    bool tls12;
    struct sw_session_config session;
};

struct sw_pool_target {
    const void *owner;        /* part of the key: tunnels of different owners never share */
    struct sw_tls_cred *cred; /* used for a new connection; not part of the key, its identity is */
    const struct sw_slice *sans; /* accepted names of the peer */
    size_t n_sans;
    struct sw_addr addr;
    struct sw_ip src; /* part of the key; also bound when bind_src */
    bool bind_src;
    struct sw_sock_opts sock;
};

enum sw_pool_stage {
    SW_POOL_DIAL, /* TCP */
    SW_POOL_TLS,
    SW_POOL_H2, /* after TLS, before the peer said anything sensible */
};

/*
 * rc SW_OK: open the stream now, inside the callback. SW_ELIMIT: this connection turned out to have
 * no room, ask again. Otherwise err and stage say what failed.
 */
typedef void (*sw_pool_cb)(struct sw_pool_wait *w, struct sw_session *s, int rc,
                           enum sw_pool_stage stage, const struct sw_err *err);

/* Embedded in the object that wants a tunnel. */
struct sw_pool_wait {
    struct sw_list link;
    sw_pool_cb cb;
};

struct sw_pool *sw_pool_new(struct sw_loop *l, const struct sw_pool_config *c);
/* Closes every connection at once; waiters are not called. */
void sw_pool_free(struct sw_pool *p);

/*
 * A session with room for one more stream, or NULL: then cb follows from the loop. *ret_hit tells
 * whether an existing connection (open or being made) serves.
 */
struct sw_session *sw_pool_get(struct sw_pool *p, const struct sw_pool_target *t,
                               struct sw_pool_wait *w, sw_pool_cb cb, bool *ret_hit);
/* No callback any more. Harmless on one that is not waiting. */
void sw_pool_cancel(struct sw_pool_wait *w);
/* Closes all connections of an owner (its workload is gone); waiters are not called. */
void sw_pool_close_owner(struct sw_pool *p, const void *owner);
/* Calls fn for every open session; fn may close it. */
void sw_pool_each(struct sw_pool *p, void (*fn)(struct sw_session *s, const void *owner, void *arg),
                  void *arg);
size_t sw_pool_count(const struct sw_pool *p);
