/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/tlsbuf.h"

#include <string.h>

#include "tls/tls.h"

int sw_tls_seal_buf(struct sw_tls *t, struct sw_buf *plain, struct sw_buf *wire, size_t high)
{
    static _Thread_local uint8_t scratch[SW_TLS_PLAIN_MAX + 1];

    while (sw_buf_len(plain) && sw_buf_len(wire) < high) {
        struct sw_slice s = sw_slice_head(sw_buf_slice(plain), sw_tls_max_plain(t));
        char *to = sw_buf_reserve(wire, SW_TLS_SEAL_ROOM(s.n));
        size_t n;

        if (!to)
            return SW_ELIMIT;
        memcpy(scratch, s.p, s.n);
        n = sw_tls_seal(t, scratch, s.n, (uint8_t *)to);
        explicit_bzero(scratch, s.n);
        if (n == 0)
            return SW_ECLOSED;
        sw_buf_commit(wire, n);
        sw_buf_consume(plain, s.n);
    }
    return SW_OK;
}

static void put_control(struct sw_tls *t, struct sw_buf *wire,
                        size_t (*write)(struct sw_tls *, uint8_t *, size_t))
{
    char *to = sw_buf_reserve(wire, SW_TLS_CTRL_ROOM);

    if (to)
        sw_buf_commit(wire, write(t, (uint8_t *)to, SW_TLS_CTRL_ROOM));
}

void sw_tls_flush_buf(struct sw_tls *t, struct sw_buf *wire)
{
    if (sw_tls_wants_flush(t))
        put_control(t, wire, sw_tls_flush);
}

void sw_tls_close_buf(struct sw_tls *t, struct sw_buf *wire)
{
    put_control(t, wire, sw_tls_close_notify);
}
