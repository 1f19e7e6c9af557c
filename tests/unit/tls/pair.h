/* SPDX-License-Identifier: Apache-2.0 */
/* Two connections joined in memory. */
#pragma once

#include "base/buf.h"
#include "tls/tls.h"

/* What became of a handshake, per side. */
struct pair_result {
    int client_rc;
    int server_rc;
    struct sw_err client_err;
    struct sw_err server_err;
    struct sw_buf to_server; /* bytes not consumed: first application records or alerts */
    struct sw_buf to_client;
};

static inline size_t pair_feed(struct sw_tls *t, int *rc, struct sw_buf *in, struct sw_buf *out,
                               size_t chunk, struct sw_err *err)
{
    struct sw_slice s = sw_slice_head(sw_buf_slice(in), chunk);
    size_t used = 0;

    if (*rc != SW_EAGAIN)
        return 0;
    *rc = sw_tls_handshake(t, s, &used, out, err);
    sw_buf_consume(in, used);
    return used;
}

/* Runs both until neither moves; never more than 'chunk' bytes are delivered at once. */
static inline void pair_run(struct sw_tls *c, struct sw_tls *s, size_t chunk, struct pair_result *r)
{
    *r = (struct pair_result){.client_rc = SW_EAGAIN, .server_rc = SW_EAGAIN};
    sw_buf_init(&r->to_server, 1 << 20);
    sw_buf_init(&r->to_client, 1 << 20);
    (void)pair_feed(c, &r->client_rc, &r->to_client, &r->to_server, 0, &r->client_err);
    for (;;) {
        size_t moved =
            pair_feed(s, &r->server_rc, &r->to_server, &r->to_client, chunk, &r->server_err);

        moved += pair_feed(c, &r->client_rc, &r->to_client, &r->to_server, chunk, &r->client_err);
        if (moved == 0)
            return;
    }
}

static inline void pair_done(struct pair_result *r)
{
    sw_buf_done(&r->to_server);
    sw_buf_done(&r->to_client);
}
