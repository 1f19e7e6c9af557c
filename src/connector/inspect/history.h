/* SPDX-License-Identifier: Apache-2.0 */
/* The last requests that came through, for the status page and the live view. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/json.h"
#include "base/slice.h"
#include "quic/id/nodeid.h"

enum { SW_HISTORY_MAX = 200 };

/* Texts are cut to what fits, and hold printable bytes only. */
struct sw_inspect_request {
    uint64_t wall_ns; /* when it ended */
    uint64_t duration_ns;
    uint64_t bytes_in;
    uint64_t bytes_out;
    unsigned status;    /* 0: none was given */
    const char *kind;   /* "http", "tcp", "udp", "upgrade" */
    const char *reason; /* NULL: ended well */
    const char *note;   /* why it is not seen in more detail; NULL: nothing to say */
    uint64_t capture;   /* id of what is kept of it; 0: nothing */
    char peer[SW_NODEID_SHORT];
    char method[16];
    char host[128];
    char path[256];
    char id[64];     /* of the request, from the gateway; empty: none */
    char target[80]; /* of a tunnel that failed: host:port; empty: it is in host */
};

/* Reasons of tunnels to services that shall speak TLS: the handshake inside failed, or none came.
 */
#define SW_REQUEST_TLS_FAILED "origin_tls_failed"
#define SW_REQUEST_NO_TLS     "origin_speaks_no_tls"

/* Copies text into a field, control bytes and others that are not ASCII as '?'. */
void sw_request_text(char *to, size_t size, struct sw_slice from);

struct sw_history {
    struct sw_inspect_request *ring; /* owned; NULL while empty */
    size_t next;
    uint64_t total;
};

void sw_history_done(struct sw_history *h);
void sw_history_add(struct sw_history *h, const struct sw_inspect_request *r);
size_t sw_history_count(const struct sw_history *h);
/* i = 0 is the newest. */
const struct sw_inspect_request *sw_history_at(const struct sw_history *h, size_t i);
/* One request as a JSON object. */
void sw_request_json(struct sw_jw *w, const struct sw_inspect_request *r);
