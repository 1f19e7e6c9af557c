/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of HTTP/2 streams: listeners and their connections, with TLS or without, bounded, with a
 * graceful end. What a stream carries is its owner's business (gRPC: http/grpc/grpc.h).
 * Everything here runs on the loop's thread.
 */
#pragma once

#include "http/h2conn.h"

struct sw_h2serve;

/* Zero in a field means the default in brackets. */
struct sw_h2serve_opts {
    struct sw_h2conn_opts conn; /* for all connections; server, ops and arg are set here */
    size_t max_conns; /* then those without a stream are closed, else the new one [1024] */
    void (*on_request)(struct sw_h2stream *s, const struct sw_h2_head *head, void *arg);
    void *arg;
};

SW_NODISCARD struct sw_h2serve *sw_h2serve_new(struct sw_loop *l, const struct sw_h2serve_opts *o);
/* Closes everything at once. NULL is fine. Not from a callback. */
void sw_h2serve_free(struct sw_h2serve *s);
/* May be called several times. Port 0 takes a free one; ret_bound may be NULL. */
SW_NODISCARD int sw_h2serve_listen(struct sw_h2serve *s, const struct sw_addr *at,
                                   struct sw_addr *ret_bound, struct sw_err *err);
/* Serves an already connected descriptor, which it takes over. */
void sw_h2serve_adopt(struct sw_h2serve *s, int fd);
/* Another credential for new connections. */
void sw_h2serve_set_cred(struct sw_h2serve *s, struct sw_tls_cred *cred);
/*
 * Stops listening and sends GOAWAY; connections end with their last stream, or after deadline_ns.
 * Then on_done (may be NULL) is called, once, from the loop.
 */
void sw_h2serve_stop(struct sw_h2serve *s, uint64_t deadline_ns, void (*on_done)(void *arg),
                     void *arg);
