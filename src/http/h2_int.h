/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of h2 share: the connection, and what nghttp2 is given. Not for others. */
#pragma once

#include "base/arena.h"
#include "base/rate.h"
#include "base/vec.h"
#include "http/h2.h"

struct nghttp2_session;
struct nghttp2_session_callbacks;

enum { H2_GAPS = 4, H2_ENDED = 16 };

/* Identifiers of a client's streams; see h2_ids.c. */
struct h2_ids {
    int32_t last; /* highest */
    uint32_t n_gaps;
    uint32_t n_ended;
    struct h2_gap {
        int32_t from;
        int32_t to;
    } gaps[H2_GAPS];         /* skipped */
    int32_t ended[H2_ENDED]; /* closed after the client had ended them */
};

enum h2_id_use { H2_ID_FINE, H2_ID_SKIPPED, H2_ID_ENDED };

/* A HEADERS frame for a stream that is not open: a new one, or one the client may not send any
 * more. */
enum h2_id_use h2_ids_head(struct h2_ids *s, int32_t id);
/* A stream closed, and the client had sent END_STREAM. */
void h2_ids_ended(struct h2_ids *s, int32_t id);

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
    bool stalled;      /* emit had no room */
    bool preface_due;  /* client: not sent yet */
    struct h2_ids ids; /* server */
    unsigned empty_frames;
    size_t unpassed; /* bytes given to on_data that the owner has not consumed yet */
    struct sw_rate early_resets;
    const char *fault;     /* why we ended the connection ourselves */
    const char *broken;    /* what was wrong with the last frame the library refused */
    const char *complaint; /* the same, until it is read */
};

/*
 * A session of nghttp2 that calls `callbacks` with h, as server or client and with the frame buffer
 * h->config asks for. The caller ends it with nghttp2_session_del.
 */
struct nghttp2_session *sw_h2_session_new(const struct nghttp2_session_callbacks *callbacks,
                                          struct sw_h2 *h);
