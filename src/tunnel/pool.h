/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Client sessions shared by the tunnels of one worker. Key: own identity, expected peer,
 * destination, and source address. Many tunnels that want a new key at once make one connection and
 * wait for it; a connection at its stream limit is used again as soon as a stream ends; one whose
 * window is used up by tunnels with slow readers gets a sibling, up to a bound; one without streams
 * is released after a while.
 */
#pragma once

#include "base/list.h"
#include "io/sock.h"
#include "tunnel/session.h"

struct sw_pool;
struct sw_pool_conn;
struct sw_pool_wait;

/*
 * The peer agreed on another protocol than HTTP/2: one waiter gets the connection (the content of
 * *parts is its own from here on), the others of that connection get NULL and ask again, alone.
 */
typedef void (*sw_pool_other_cb)(struct sw_pool_wait *w, struct sw_session_parts *parts);

struct sw_pool_config {
    size_t max_streams;         /* own limit per connection; the peer's may be lower */
    uint64_t unused_release_ns; /* how long a connection without streams is kept */
    uint64_t connect_timeout_ns;
    bool tls12;
    const char *alpn;          /* what is offered; NULL: "h2". Borrowed */
    sw_pool_other_cb on_other; /* needed when alpn offers more than "h2" */
    struct sw_session_config session;
};

struct sw_pool_target {
    const void *owner;        /* part of the key: tunnels of different owners never share */
    struct sw_tls_cred *cred; /* used for a new connection; not part of the key, its identity is */
    const struct sw_slice *sans; /* accepted names of the peer */
    size_t n_sans;
    struct sw_slice place; /* what the caller calls the peer, for sw_pool_retire; part of the key */
    /*
     * Instead of sans: the DNS name the peer's certificate must be for, sent as server name, too.
     * NULL: identities are SPIFFE names.
     */
    const char *host;
    bool alone;       /* the peer speaks another protocol: a connection for this waiter */
    const char *alpn; /* offered instead of the pool's, with alone; NULL: that one. Borrowed */
    struct sw_addr addr;
    struct sw_ip src; /* part of the key; also bound when bind_src */
    bool bind_src;
    struct sw_sock_opts sock;
};

enum sw_pool_stage {
    SW_POOL_DIAL, /* TCP */
    SW_POOL_TLS,
    SW_POOL_H2, /* after TLS, before a valid frame of the peer */
};

/* Connections of one key whose windows may be used up before tunnels have to share them. */
enum { SW_POOL_STALLED_MAX = 8 };

/* What a tunnel gets. */
enum sw_pool_use {
    SW_POOL_HIT,     /* a connection that is open or being made */
    SW_POOL_NEW,     /* one of its own: there was none with room */
    SW_POOL_SIBLING, /* one of its own: the windows of those with room are used up */
    SW_POOL_STALLED, /* one whose window is used up: there are as many as may be */
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

/* A session with room for one more stream, or NULL: then cb follows from the loop. */
struct sw_session *sw_pool_get(struct sw_pool *p, const struct sw_pool_target *t,
                               struct sw_pool_wait *w, sw_pool_cb cb, enum sw_pool_use *ret_use);
/* No callback any more. No effect on one that is not waiting. */
void sw_pool_cancel(struct sw_pool_wait *w);
/* Closes all connections of an owner (its workload is gone); waiters are not called. */
void sw_pool_close_owner(struct sw_pool *p, const void *owner);
/*
 * Connections to peers that 'gone' names take no more tunnels; those without any end at once.
 * Returns how many.
 */
size_t sw_pool_retire(struct sw_pool *p,
                      bool (*gone)(struct sw_slice place, const struct sw_ip *ip, void *arg),
                      void *arg);
/* Calls fn for every open session; fn may close it. */
void sw_pool_each(struct sw_pool *p, void (*fn)(struct sw_session *s, const void *owner, void *arg),
                  void *arg);
size_t sw_pool_count(const struct sw_pool *p);
