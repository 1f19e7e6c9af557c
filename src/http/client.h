/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An HTTP/1.1 client for one origin, on one loop: connections are kept and reused, TLS verifies
 * chain and name, response bodies are streamed with back-pressure (a watch is an endless one).
 * It does not follow redirects, keeps no cookies and speaks to no proxy.
 * Everything here runs on the loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "http/h1.h"
#include "io/loop.h"
#include "tls/tls.h"

struct sw_tls_cred;
struct sw_egress;
struct sw_http_client;
struct sw_http_call;

/* Zero in a field means the default in brackets. */
struct sw_http_client_opts {
    const char *scope;    /* log scope, static ["http"] */
    struct sw_slice host; /* DNS name or IP address, without brackets; copied */
    uint16_t port;
    bool tls;
    struct sw_tls_cred *cred;    /* tls: what to trust and what to show; a reference is taken */
    struct sw_slice tls_name;    /* name the certificate must be for [host]; copied */
    bool insecure_skip_verify;   /* accept any certificate: only where the user asked for it */
    sw_tls_leaf_cb leaf_ok;      /* judges the certificate instead of tls_name; see tls/tls.h */
    void *leaf_arg;              /* borrowed */
    struct sw_slice host_header; /* Host to send [host and port]; copied */
    size_t max_conns;            /* at once, but for streams; further calls wait [64] */
    size_t max_streams;          /* streams at once, one connection each [1024] */
    size_t max_waiting;          /* calls that may wait [4096] */
    uint64_t connect_timeout_ns; /* name, connection and handshake together [10 s] */
    uint64_t idle_timeout_ns;    /* a kept connection without a call [60 s] */
    uint32_t keepalive_s;        /* TCP keep-alive [30] */
    struct sw_egress *egress;    /* borrowed: judges the addresses of host; NULL: any will do */
};

/* NULL with SW_EINVAL: no host, no port, TLS without a credential. */
SW_NODISCARD struct sw_http_client *
sw_http_client_new(struct sw_loop *l, const struct sw_http_client_opts *o, struct sw_err *err);
/*
 * Ends all calls (their on_done is called with SW_ECANCELED) and connections. NULL is fine. Not
 * from inside a callback of a call.
 */
void sw_http_client_free(struct sw_http_client *c);
/* Another credential for new connections; idle ones are closed, busy ones close when done. */
void sw_http_client_set_cred(struct sw_http_client *c, struct sw_tls_cred *cred);
/* Connections open or being opened. */
size_t sw_http_client_conns(const struct sw_http_client *c);

struct sw_http_call_opts {
    struct sw_slice method;
    struct sw_slice target;           /* "/path?query", already encoded */
    const struct sw_h1_field *fields; /* Host and framing are added here */
    size_t nfields;
    struct sw_slice body; /* copied; sent with a Content-Length when there is one */
    bool has_body;        /* send a Content-Length: 0 for an empty one */
    /*
     * From the start to the end of the response; for streams to the end of its head only.
     * 0: 60 seconds.
     */
    uint64_t timeout_ns;
    bool stream;
    uint64_t silence_ns; /* streams: longest pause between two pieces of the body; 0: no bound */
    uint64_t body_max;   /* of the response; 0: no bound (streams) */
    /*
     * on_head and on_body may be NULL. msg and data live for the call only. All may cancel, pause,
     * or start other calls. on_done comes exactly once, last, and never from inside
     * sw_http_call_start; the call is gone afterwards. rc: SW_OK (a complete response of any
     * status), SW_ETIME, SW_EDENIED (the server's certificate), SW_EPROTO, SW_ELIMIT, SW_ENOENT (no
     * such host), SW_ESYS, SW_ECLOSED, SW_ECANCELED.
     */
    void (*on_head)(struct sw_http_call *call, const struct sw_h1_msg *msg, void *arg);
    void (*on_body)(struct sw_http_call *call, struct sw_slice data, void *arg);
    void (*on_done)(struct sw_http_call *call, int rc, const struct sw_err *err, void *arg);
    void *arg;
};

/* NULL with SW_EINVAL (bad method, target or field) or SW_ELIMIT (too many calls wait). */
SW_NODISCARD struct sw_http_call *
sw_http_call_start(struct sw_http_client *c, const struct sw_http_call_opts *o, struct sw_err *err);
/* No callback of it comes any more; its connection is closed unless it was done with. */
void sw_http_call_cancel(struct sw_http_call *call);
/* Stops reading the body; the bytes already read stay. A stream's timer stands still meanwhile. */
void sw_http_call_pause(struct sw_http_call *call);
void sw_http_call_resume(struct sw_http_call *call);
/* True when a byte of the request may have reached the server: it cannot be repeated blindly. */
bool sw_http_call_sent(const struct sw_http_call *call);
