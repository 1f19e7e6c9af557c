/* SPDX-License-Identifier: Apache-2.0 */
/* A node that is not ours: it answers the first bytes of a stream with what a test wants. */
#pragma once

#include "qrig.h"

struct wild {
    struct sw_slice say;
    bool fin; /* ends the stream behind it */
    char heard[4096];
    size_t n_heard;
};

static inline size_t w_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    struct wild *w = sw_qstream_arg(s);

    (void)fin;
    if (n && n <= sizeof(w->heard) - w->n_heard) {
        memcpy(w->heard + w->n_heard, p, n);
        w->n_heard += n;
    }
    if (w->say.n)
        assert_int_equal(sw_qstream_write(s, w->say.p, w->say.n), w->say.n);
    if (w->fin)
        sw_qstream_finish(s);
    w->say.n = 0;
    return n;
}

static inline void w_none(struct sw_qstream *s)
{
    (void)s;
}

static inline void w_reset(struct sw_qstream *s, uint64_t code)
{
    (void)s;
    (void)code;
}

static inline void w_closed(struct sw_qstream *s, bool lost)
{
    (void)s;
    (void)lost;
}

static const struct sw_qstream_ops w_ops = {
    .data = w_data, .writable = w_none, .reset = w_reset, .closed = w_closed};

static inline void w_stream(struct sw_qconn *c, struct sw_qstream *s)
{
    sw_qstream_attach(s, &w_ops, sw_qconn_arg(c));
}

static inline void w_conn_closed(struct sw_qconn *c, const struct sw_qclose *why)
{
    (void)c;
    (void)why;
}

static const struct sw_qconn_ops w_conn_ops = {.stream = w_stream, .closed = w_conn_closed};

static inline void w_accepted(void *arg, struct sw_qconn *c)
{
    sw_qconn_set_ops(c, &w_conn_ops, arg);
}
