/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of h2 share: the connection, and what nghttp2 is given. Not for others. */
#pragma once

#include "base/arena.h"
#include "base/rate.h"
#include "base/vec.h"
#include "http/h2.h"

struct nghttp2_session;
struct nghttp2_session_callbacks;

struct sw_h2 {
    struct nghttp2_session *ng; /* owned */
    const struct sw_h2_ops *ops;
    void *owner;
    struct sw_h2_config config;
    struct sw_arena arena; /* of the header block being received */
    struct sw_arena *into; /* where its texts go: that, or the owner's */
    struct sw_h2_head head;
    SW_VEC(struct sw_h2_header) fields;
    size_t head_bytes;
    bool settings_seen;
    bool stalled;     /* emit had no room */
    bool preface_due; /* client: not sent yet */
    unsigned empty_frames;
    struct sw_rate early_resets;
    const char *fault;     /* why we ended the connection ourselves */
    const char *broken;    /* what was wrong with the last frame the library refused */
    const char *complaint; /* the same, until somebody asked */
};

/*
 * A session of nghttp2 that calls `callbacks` with h, as server or client and with the frame buffer
 * h->config asks for. The caller ends it with nghttp2_session_del.
 */
struct nghttp2_session *sw_h2_session_new(const struct nghttp2_session_callbacks *callbacks,
                                          struct sw_h2 *h);
