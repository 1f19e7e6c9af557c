/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/2 between engine (http/h2.h) and exchange: connections and streams as both codecs of the
 * gateway have them. Payload is framed straight from where it was received when the window is open;
 * otherwise it waits with its stream.
 */
#pragma once

#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "http/h2.h"
#include "io/conn/conn.h"

struct gw_h2 {
    struct sw_conn *conn;
    struct sw_loop *loop;   /* of conn */
    struct sw_h2 *h2;       /* owned */
    struct sw_list streams; /* gw_h2_stream */
    struct sw_list stuck;   /* those that wait for the connection's output to drain */
    struct sw_list graves;  /* closed; freed later, since callers may still use them */
    struct sw_defer flush;
    struct sw_timer rest;      /* runs while streams without exchange are not over */
    struct sw_timer ping;      /* runs while gw_h2_keep_alive is in force */
    uint64_t ping_interval_ns; /* between the end of one and the next */
    uint64_t ping_timeout_ns;  /* for the answer */
    void (*on_silent)(struct gw_h2 *g);
    uint32_t n_streams;
    bool in_h2 : 1; /* inside feed or flush: only record */
    bool dead : 1;
    bool upstream : 1;
    bool goaway : 1;    /* sent or received: no new streams */
    bool ping_sent : 1; /* the timer is for its answer */
    bool ping_due : 1;  /* and that has not come */
    struct sw_err err;
};

struct gw_h2_stream {
    struct sw_list link;
    struct sw_list stuck;
    struct gw_h2 *g;
    struct sw_exchange *x; /* NULL: over, only the rest is sent */
    int32_t id;
    struct sw_slice live;          /* to send, valid during one call */
    struct sw_conn_bytes *pend;    /* owned: what could not be sent yet */
    struct sw_h2_header *trailers; /* owned copy, when the exchange goes before them */
    size_t n_trailers;
    uint64_t left;     /* of a known length */
    uint64_t moved_ns; /* without exchange: when it went, or payload was framed last */
    uint32_t credit;   /* received and not given back to the peer's window */
    bool known : 1;
    bool end : 1;      /* after live and pend nothing follows */
    bool end_out : 1;  /* the end was handed to the engine */
    bool bare : 1;     /* the head was the end */
    bool headroom : 1; /* of live */
    bool was_high : 1;
    bool paused : 1; /* the exchange does not want data */
};

/* Settings of the engine on both sides; windows as configured, within reason. */
struct sw_h2_config gw_h2_config(const struct sw_gw_h2_opts *o);
void gw_h2_init(struct gw_h2 *g, struct sw_conn *c, const struct sw_h2_config *config,
                const struct sw_h2_ops *ops);
void gw_h2_done(struct gw_h2 *g);
/* Pings the peer at intervals; on_silent when it does not answer, and no more pings then. */
void gw_h2_keep_alive(struct gw_h2 *g, uint64_t interval_ns, uint64_t timeout_ns,
                      void (*on_silent)(struct gw_h2 *g));
/* A stream that the engine will know as its stream. */
struct gw_h2_stream *gw_h2_stream_new(struct gw_h2 *g, struct sw_exchange *x);
/*
 * Its exchange is over and was detached. What is left of the stream must make progress: after
 * SW_CONN_STUCK_MS without it is reset, and a connection that takes nothing and has no other fails.
 */
void gw_h2_stream_rest(struct gw_h2_stream *s);
/* From on_close: unlinks now, frees later. */
void gw_h2_stream_free(struct gw_h2_stream *s);

/* Feeds received bytes; SW_OK or SW_EPROTO (g->err). */
SW_NODISCARD int gw_h2_feed(struct gw_h2 *g, struct sw_slice in);
/* Frames what can go now; it leaves at the end of the turn. */
void gw_h2_flush(struct gw_h2 *g);
/* The same from the loop, together with what is still to come in this turn. */
void gw_h2_flush_later(struct gw_h2 *g);
/* Output drained: streams that waited continue. */
void gw_h2_drained(struct gw_h2 *g);

/* Sending on a stream. 'local': not received bytes, no room in front of them. */
void gw_h2_send(struct gw_h2_stream *s, struct sw_slice data, bool local);
void gw_h2_send_end(struct gw_h2_stream *s);

/* Fields in the engine's shape, names lowered in the arena; out has room for f->n. */
size_t gw_h2_put_fields(struct sw_exchange *x, const struct sw_gw_fields *f,
                        struct sw_h2_header *out);
/* The fields of a head or trailer that are forwarded. Texts stay where they are. */
void gw_h2_take_fields(struct sw_exchange *x, struct sw_gw_fields *to,
                       const struct sw_h2_head *head, bool copy);
/* A content-length field; its text lives in 'text'. */
struct sw_h2_header gw_h2_put_length(char text[24], uint64_t length);
/* The content-length of a head. False: there is none, or no number. */
bool gw_h2_length(const struct sw_h2_head *head, uint64_t *ret);

/* Of sw_gw_side_ops, for a side whose stream is a gw_h2_stream. */
void gw_h2_side_flush(struct sw_gw_side *s);
bool gw_h2_side_blocked(const struct sw_gw_side *s);
void gw_h2_side_pause(struct sw_gw_side *s);
void gw_h2_side_resume(struct sw_gw_side *s);
#define GW_H2_SIDE_OPS                                                                             \
    .flush = gw_h2_side_flush, .blocked = gw_h2_side_blocked, .pause = gw_h2_side_pause,           \
    .resume = gw_h2_side_resume

/* Callbacks of the engine that are the same for both sides. */
int gw_h2_emit(struct sw_h2 *h, const uint8_t *p, size_t n);
ssize_t gw_h2_pull(struct sw_h2 *h, int32_t id, void *stream, size_t max, bool *ret_end);
void gw_h2_emit_data(struct sw_h2 *h, int32_t id, void *stream,
                     const uint8_t head[SW_H2_FRAME_HEAD], size_t n);
size_t gw_h2_trailers(struct sw_h2 *h, int32_t id, void *stream, struct sw_h2_header *out,
                      size_t max);
void gw_h2_on_data(struct sw_h2 *h, int32_t id, void *stream, struct sw_slice data);
void gw_h2_on_trailers(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head);
void gw_h2_on_pong(struct sw_h2 *h);
#define GW_H2_ENGINE_OPS                                                                           \
    .on_data = gw_h2_on_data, .on_pong = gw_h2_on_pong, .emit = gw_h2_emit, .pull = gw_h2_pull,    \
    .trailers = gw_h2_trailers, .emit_data = gw_h2_emit_data
