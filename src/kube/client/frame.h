/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a watch stream into its JSON objects. Servers put each on a line of its own, but the cut is
 * made by the structure, so that indented or unseparated ones are understood too. Bytes in, frames
 * out: no I/O. Whether a frame is valid JSON is the parser's question.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_kube_frames {
    struct sw_buf buf;
    size_t scan;    /* bytes of buf already looked at */
    size_t frame;   /* length of the frame handed out last; dropped by the next call */
    unsigned depth; /* open braces and brackets */
    bool in_string;
    bool escaped;
    bool failed;
};

/* max: bytes of one object. */
void sw_kube_frames_init(struct sw_kube_frames *f, size_t max);
void sw_kube_frames_done(struct sw_kube_frames *f);
/* SW_ELIMIT: an object is larger than allowed. */
SW_NODISCARD int sw_kube_frames_push(struct sw_kube_frames *f, struct sw_slice in);
/*
 * The next complete object; the slice lives until the next call on f. SW_EAGAIN: more bytes are
 * needed. SW_EPROTO: something else than an object; repeated from then on.
 */
SW_NODISCARD int sw_kube_frames_next(struct sw_kube_frames *f, struct sw_slice *ret,
                                     struct sw_err *err);
/* True when the stream may end here: nothing is begun. */
bool sw_kube_frames_idle(struct sw_kube_frames *f);
