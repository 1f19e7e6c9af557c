/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For owners of a connection that keep the body of each stream in a buffer: emit, pull and
 * emit_data of struct sw_h2_ops on top of io/conn, with a bound of what may wait there.
 */
#pragma once

#include "base/buf.h"
#include "http/h2.h"
#include "io/conn/conn.h"

enum { SW_H2_UNSENT_MAX = 128 * 1024 };

/* Frames other than DATA. SW_EAGAIN: too much waits already. */
SW_NODISCARD static inline int sw_h2_body_control(struct sw_conn *io, const uint8_t *p, size_t n)
{
    if (sw_conn_unsent(io) + n > SW_H2_UNSENT_MAX)
        return SW_EAGAIN;
    sw_conn_put(io, p, n);
    return SW_OK;
}

/*
 * How much of a body may be framed now, as pull answers it; 'end': nothing comes behind what is
 * there. SW_EAGAIN with *ret_stuck true: not before io sent something.
 */
static inline ssize_t sw_h2_body_pull(const struct sw_conn *io, const struct sw_buf *body, bool end,
                                      size_t max, bool *ret_end, bool *ret_stuck)
{
    size_t room = SW_H2_UNSENT_MAX - sw_min(SW_H2_UNSENT_MAX, sw_conn_unsent(io));
    size_t have = sw_buf_len(body);

    *ret_stuck = false;
    if (have == 0 && !end)
        return SW_EAGAIN;
    if (room <= (size_t)2 * SW_H2_FRAME_HEAD + 1) {
        *ret_stuck = true;
        return SW_EAGAIN;
    }
    max = sw_min(max, room - (size_t)2 * SW_H2_FRAME_HEAD);
    *ret_end = end && have <= max;
    return (ssize_t)sw_min(max, have);
}

/* Moves a frame of n bytes. */
static inline void sw_h2_body_emit(struct sw_conn *io, struct sw_buf *body,
                                   const uint8_t head[SW_H2_FRAME_HEAD], size_t n)
{
    sw_conn_put(io, head, SW_H2_FRAME_HEAD);
    sw_conn_put(io, sw_buf_data(body), n);
    sw_buf_consume(body, n);
}
