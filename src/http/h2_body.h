/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For owners of a connection who keep the body of each stream in a buffer, and what leaves in one
 * bounded buffer of the connection: pull and emit_data of struct sw_h2_ops.
 */
#pragma once

#include "base/buf.h"
#include "http/h2.h"

/*
 * How much of a body may be framed into 'out' now, as pull answers it; 'end': nothing comes behind
 * what is there. SW_EAGAIN with *ret_stuck true: not before 'out' has room again.
 */
static inline ssize_t sw_h2_body_pull(const struct sw_buf *out, const struct sw_buf *body, bool end,
                                      size_t max, bool *ret_end, bool *ret_stuck)
{
    size_t room = out->max - sw_buf_len(out);
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

/* Moves a frame of n bytes. False: it did not fit, which pull had made sure of. */
SW_NODISCARD static inline bool sw_h2_body_emit(struct sw_buf *out, struct sw_buf *body,
                                                const uint8_t head[SW_H2_FRAME_HEAD], size_t n)
{
    bool fits = sw_buf_append(out, head, SW_H2_FRAME_HEAD) == SW_OK &&
                sw_buf_append(out, sw_buf_data(body), n) == SW_OK;

    sw_buf_consume(body, n);
    return fits;
}
