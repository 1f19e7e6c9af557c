/* SPDX-License-Identifier: Apache-2.0 */
/* HTTP/1 between parser and exchange: what both codecs of the gateway share. */
#pragma once

#include <assert.h>
#include <string.h>

#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "http/h1.h"
#include "io/conn/conn.h"

/* A parser lent by the worker, reset; limits NULL: defaults. */
struct sw_h1 *gw_h1_lend(struct sw_gw_worker *w, enum sw_h1_kind kind,
                         const struct sw_h1_limits *limits);
/* Gives it back; returns NULL. NULL is fine. */
struct sw_h1 *gw_h1_return(struct sw_gw_worker *w, struct sw_h1 *p, enum sw_h1_kind kind);

/* The next event of what is behind *used, which grows by what was taken. As sw_h1_next. */
static inline int gw_h1_next(struct sw_h1 *p, struct sw_slice in, size_t *used,
                             enum sw_h1_event *ret)
{
    size_t k = 0;
    int rc = sw_h1_next(p, sw_slice_from(in, *used), &k, ret, NULL);

    *used += k;
    return rc;
}

/* Copies the request head into the exchange, without what is between two hops. */
void gw_h1_take_request(struct sw_exchange *x, const struct sw_h1_msg *m);
/* The same for a response. */
void gw_h1_take_response(struct sw_exchange *x, const struct sw_h1_msg *m);
void gw_h1_take_trailers(struct sw_exchange *x, struct sw_gw_fields *to,
                         const struct sw_h1_field *f, size_t n);

/* Writes a head piece by piece into a connection's output, or to the heap when it is larger. */
struct gw_h1_out {
    struct sw_conn *conn;
    uint8_t *p;   /* where the next byte goes */
    uint8_t *end; /* of the room */
    uint8_t *from;
    uint8_t *heap; /* owned, when there is no such room */
};

/* Room for n bytes in all. */
void gw_h1_out_begin(struct gw_h1_out *o, struct sw_conn *c, size_t n);
void gw_h1_out_field(struct gw_h1_out *o, struct sw_slice name, struct sw_slice value);
void gw_h1_out_u64(struct gw_h1_out *o, uint64_t v);
void gw_h1_out_end(struct gw_h1_out *o);

static inline void gw_h1_out_put(struct gw_h1_out *o, struct sw_slice s)
{
    assert((size_t)(o->end - o->p) >= s.n);
    memcpy(o->p, s.p, s.n);
    o->p += s.n;
}
#define gw_h1_out_lit(o, s) gw_h1_out_put((o), SW_SLICE_LIT(s))

/* Bytes the fields need in a head. */
size_t gw_h1_fields_size(const struct sw_gw_fields *f);
void gw_h1_put_fields(struct gw_h1_out *o, const struct sw_gw_fields *f);

/* A chunk of a chunked body; an empty one is left out. */
void gw_h1_send_chunk(struct sw_conn *c, struct sw_slice data);
/* Last chunk and trailer. */
void gw_h1_send_last_chunk(struct sw_conn *c, const struct sw_gw_fields *trailers);
