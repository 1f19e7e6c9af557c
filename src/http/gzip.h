/* SPDX-License-Identifier: Apache-2.0 */
/* gzip for response bodies, and the negotiation of it. zlib stays behind this header. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"

/* zlib's numbers: deflateInit2(3). */
struct sw_gzip_opts {
    int level;       /* 1 (fast) to 9 (small); -1: zlib's choice */
    int window_bits; /* 9 to 15 */
    int memory;      /* 1 to 9 */
    int strategy;    /* 0 to 4 */
};

struct sw_gzip_stream;

/* NULL: zlib does not take these options. Memory: 2^(window_bits + 2) + 2^(memory + 9) bytes. */
struct sw_gzip_stream *sw_gzip_stream_new(const struct sw_gzip_opts *o);
void sw_gzip_stream_free(struct sw_gzip_stream *z);
/*
 * Compresses all of 'in'. The sink gets the output in pieces, valid during the call and with a
 * writable byte behind; with the last of them everything given so far can be read by the peer.
 * end: nothing follows.
 */
void sw_gzip_stream_write(struct sw_gzip_stream *z, struct sw_slice in, bool end,
                          void (*sink)(void *arg, struct sw_slice out), void *arg);

/* Appends the compressed bytes. SW_ELIMIT when out is full (out may hold a part then). */
SW_NODISCARD int sw_gzip(struct sw_slice in, struct sw_buf *out);
/* True when this Accept-Encoding value allows gzip (q-values respected, "*" counts). */
bool sw_gzip_accepted(struct sw_slice accept_encoding);
