/* SPDX-License-Identifier: Apache-2.0 */
/* What the parser's files share. Not for others. */
#pragma once

#include "base/vec.h"
#include "http/h1.h"

enum h1_state {
    H1_START,
    H1_FIELDS,
    H1_BODY_LENGTH,
    H1_BODY_CLOSE,
    H1_CHUNK_SIZE,
    H1_CHUNK_DATA,
    H1_CHUNK_CRLF,
    H1_TRAILER,
    H1_DONE,
    H1_FAILED,
};

/* A part of the head, as an offset because the caller's bytes may move between calls. */
struct h1_span {
    size_t off;
    size_t n;
};

struct h1_field_span {
    struct h1_span name;
    struct h1_span value;
};

typedef SW_VEC(struct h1_field_span) h1_spans;
typedef SW_VEC(struct sw_h1_field) h1_fields;

struct sw_h1 {
    enum sw_h1_kind kind;
    enum h1_state state;
    struct sw_h1_limits limits;
    bool answers_head;
    bool answers_connect;
    bool skipped_blank;
    size_t base; /* bytes of this message before 'in' */
    size_t pos;  /* start of the line being read, in 'in' */
    size_t scan; /* no line feed between pos and here */
    struct h1_span method, target, reason;
    h1_spans spans; /* reused for the trailer */
    h1_fields fields;
    h1_fields trailers;
    SW_VEC(struct sw_slice) listed; /* msg.listed; as long as the fields while it is made */
    uint64_t left;                  /* of the body or the chunk */
    uint64_t seen;                  /* decoded body bytes */
    size_t ext_seen;
    struct sw_h1_msg msg;
    struct sw_slice data;
    int error_status;
    struct sw_err error; /* kept to repeat it */
};

/* Fills msg.listed from the fields and the Connection fields among them. */
void h1_list_hops(struct sw_h1 *p);
/* Records the refusal; returns rc. For responses the status becomes 502. */
int h1_fail(struct sw_h1 *p, int status, int rc, size_t at, const char *fmt, ...) SW_PRINTF(5, 6);

/* The start line at in[line]; fills the parts of p->msg that are numbers, and the spans. */
SW_NODISCARD int h1_start_line(struct sw_h1 *p, struct sw_slice in, struct h1_span line);
/* One field line, appended to p->spans. */
SW_NODISCARD int h1_field_line(struct sw_h1 *p, struct sw_slice in, struct h1_span line);
/* The head is complete: spans become slices, framing and connection handling are decided. */
SW_NODISCARD int h1_head_done(struct sw_h1 *p, struct sw_slice in);
/* Spans become slices in dst. */
void h1_resolve(const struct sw_h1 *p, struct sw_slice in, h1_fields *dst);
