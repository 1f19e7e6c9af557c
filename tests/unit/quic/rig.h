/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two endpoints of one process on loopback, and applications that do what a test tells them: a
 * 'side' writes a pattern, checks what it reads against the same pattern, and counts.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "quic/cid.h"
#include "quic/endpoint.h"
#include "quic/memory.h"
#include "quic/pace.h"
#include "quic/send.h"
#include "quic/stateless.h"
#include "quic/stream.h"

struct rig_stream {
    struct sw_qstream *s;
    uint64_t to_write; /* bytes still to be written */
    uint64_t written;
    uint64_t read;
    uint64_t hold_after; /* take no more than this; UINT64_MAX: everything */
    uint64_t reset_code;
    uint64_t stop_code;
    bool echo;
    bool finish; /* when everything was written */
    bool fin;
    bool reset;
    bool stopped;
    bool closed;
    bool lost;
    bool mismatch;
    size_t biggest; /* chunk given to data */
};

struct rig_side {
    struct sw_rawkey *key;
    struct sw_quic *q;
    struct sw_qconn *c; /* the last one */
    struct rig_stream in[64];
    size_t n_in;
    size_t ready;
    size_t accepted;
    size_t closed;
    size_t rooms;
    size_t paths;
    struct sw_qclose why;
    char why_text[200];
    bool echo; /* accepted streams answer */
    bool deny;
    bool no_attach;
    uint64_t hold_after; /* of accepted streams */
    uint8_t dgram[2000];
    size_t dgram_n;
    size_t dgrams;
};

struct rig {
    struct sw_loop *loop;
    struct rig_side a; /* dials */
    struct rig_side b; /* accepts */
};

extern const struct sw_qconn_ops rig_conn_ops;
extern const struct sw_qstream_ops rig_stream_ops;

/* The byte written, and expected, at a place of a stream. */
uint8_t rig_pattern(uint64_t at);
/* Options for both; NULL: defaults. */
void rig_start(struct rig *r, const struct sw_quic_config *a, const struct sw_quic_config *b);
void rig_stop(struct rig *r);
/* a dials b by its bound address. */
struct sw_qconn *rig_dial(struct rig *r, const char *alpn);
/* Until *flag is at least n, or the patience ends: then the test fails. */
void rig_until_at(struct rig *r, const size_t *flag, size_t n, const char *what);
#define rig_until(r, flag, n) rig_until_at(r, flag, n, #flag)
void rig_until_true_at(struct rig *r, const bool *flag, const char *what);
#define rig_until_true(r, flag) rig_until_true_at(r, flag, #flag)
/* Lets time pass: at least that, with some turns even when the process could not run in it. */
void rig_idle(struct rig *r, unsigned ms);
/* Goes on as long as the condition holds; fails when that is much too long. */
#define rig_while(r, cond)                                                                         \
    do {                                                                                           \
        uint64_t end_ = sw_now_ns() + 40 * SW_NS_PER_S;                                            \
                                                                                                   \
        while (cond) {                                                                             \
            if (sw_now_ns() > end_)                                                                \
                fail_msg("line %d: still so: %s", __LINE__, #cond);                                \
            sw_loop_turn((r)->loop, 10);                                                           \
        }                                                                                          \
    } while (0)
void rig_connect(struct rig *r);
/* A stream of a to b that writes n bytes of the pattern and ends. */
void rig_open(struct rig *r, struct rig_stream *t, uint64_t n);
/* Writes what it can. */
void rig_pump(struct rig_stream *t);
