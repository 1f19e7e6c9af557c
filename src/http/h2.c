/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection over nghttp2, which only the h2 files here know: what happens for each frame. Header
 * blocks are collected in an arena per connection (only one block can be in flight), limits that
 * the library does not have are counted here.
 */
#include "http/h2_int.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/mem.h"
#include "base/time.h"

enum {
    HEADER_OVERHEAD = 32,    /* RFC 9113 6.5.2: each field costs 32 bytes more */
    HEADERS_MAX = 256,       /* fields of one block */
    HEAD_FACTOR = 4,         /* a block this many times too large ends the connection */
    EARLY_RESETS_MAX = 200,  /* streams cancelled before an answer, then calm down */
    EARLY_RESETS_PER_S = 50, /* how fast that allowance refills */
    EMPTY_FRAMES_MAX = 1000, /* DATA frames in a row that carry nothing */
    QUEUED_MAX = 2000,       /* frames that wait for a client, besides ... */
    QUEUED_PER_STREAM = 4, /* ... a head, a trailer, a window update and a reset for each stream */
};

struct sw_slice sw_h2_head_get(const struct sw_h2_head *head, const char *name)
{
    for (size_t i = 0; i < head->n; i++) {
        if (sw_slice_eq_str(head->headers[i].name, name))
            return head->headers[i].value;
    }
    return (struct sw_slice){NULL, 0};
}

/*
 * Memory for one header block, passed from connection to connection of a thread: blocks are short
 * lived, and a connection at rest owns none.
 */
struct spare {
    struct sw_arena arena;
    SW_VEC(struct sw_h2_header) fields;
};

enum { SPARE_ARENA = 16 * 1024 };

static pthread_key_t spare_key;
static pthread_once_t spare_once = PTHREAD_ONCE_INIT;

static void spare_free(void *p)
{
    struct spare *s = p;

    sw_arena_clear(&s->arena);
    sw_vec_done(&s->fields);
    sw_free(s);
}

static void spare_init(void)
{
    if (pthread_key_create(&spare_key, spare_free) != 0)
        __builtin_trap();
}

static struct spare *spare(void)
{
    struct spare *s;

    (void)pthread_once(&spare_once, spare_init);
    s = pthread_getspecific(spare_key);
    if (!s) {
        s = SW_NEW(struct spare);
        (void)pthread_setspecific(spare_key, s);
    }
    return s;
}

static void head_reset(struct sw_h2 *h)
{
    struct spare *s = spare();

    if (h->fields.p && !s->fields.p) {
        s->fields.p = h->fields.p;
        s->fields.cap = h->fields.cap;
    } else {
        sw_free(h->fields.p);
    }
    memset(&h->fields, 0, sizeof(h->fields));
    if (h->arena.chunk && !s->arena.chunk) {
        sw_arena_reset(&h->arena, SPARE_ARENA);
        s->arena = h->arena;
        h->arena = (struct sw_arena){0};
    } else {
        sw_arena_clear(&h->arena);
    }
    h->head = (struct sw_h2_head){0};
    h->head_bytes = 0;
}

static void *stream_of(const struct sw_h2 *h, int32_t id);

static int on_begin_headers(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
    struct sw_h2 *h = arg;
    struct spare *s = spare();
    int32_t id = frame->hd.stream_id;

    head_reset(h);
    h->fields.p = s->fields.p;
    h->fields.cap = s->fields.cap;
    memset(&s->fields, 0, sizeof(s->fields));
    h->into = h->ops->on_begin ? h->ops->on_begin(h, id, stream_of(h, id)) : NULL;
    if (!h->into) {
        h->into = &h->arena;
        h->arena = s->arena;
        s->arena = (struct sw_arena){0};
    }
    return 0;
}

/* Ends the connection at once with a GOAWAY that carries the reason. */
static int end_with(struct sw_h2 *h, uint32_t code, const char *why)
{
    if (!h->fault)
        h->fault = why;
    (void)nghttp2_session_terminate_session(h->ng, code);
    return 0;
}

static int punish(struct sw_h2 *h, const char *why)
{
    return end_with(h, NGHTTP2_ENHANCE_YOUR_CALM, why);
}

static int on_begin_frame(nghttp2_session *ng, const nghttp2_frame_hd *hd, void *arg)
{
    struct sw_h2 *h = arg;

    if (hd->type != NGHTTP2_HEADERS || !h->config.server || hd->stream_id % 2 == 0 ||
        nghttp2_session_find_stream(ng, hd->stream_id))
        return 0;
    switch (h2_ids_head(&h->ids, hd->stream_id)) {
    case H2_ID_FINE:
        break;
    case H2_ID_SKIPPED:
        return end_with(h, NGHTTP2_PROTOCOL_ERROR, "stream identifier lower than the last");
    case H2_ID_ENDED:
        return end_with(h, NGHTTP2_STREAM_CLOSED, "HEADERS for a stream that the client ended");
    }
    return 0;
}

static struct sw_slice *pseudo(struct sw_h2_head *head, struct sw_slice name)
{
    if (sw_slice_eq_str(name, ":method"))
        return &head->method;
    if (sw_slice_eq_str(name, ":authority"))
        return &head->authority;
    if (sw_slice_eq_str(name, ":scheme"))
        return &head->scheme;
    if (sw_slice_eq_str(name, ":path"))
        return &head->path;
    if (sw_slice_eq_str(name, ":protocol"))
        return &head->protocol;
    return NULL;
}

static int on_header(nghttp2_session *ng, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *arg)
{
    struct sw_h2 *h = arg;
    struct sw_slice k = sw_slice(name, name_len);
    struct sw_slice v = sw_slice(value, value_len);
    struct sw_slice *at;
    uint64_t status;

    h->head_bytes += name_len + value_len + HEADER_OVERHEAD;
    if (h->head_bytes > h->config.max_header_list || h->fields.n >= HEADERS_MAX)
        h->head.too_large = true;
    /* One that never ends costs work and no memory: no reason to continue. */
    if (h->head_bytes > (size_t)HEAD_FACTOR * h->config.max_header_list && !h->fault)
        return punish(h, "header block without end");
    if (h->head.too_large)
        return 0;
    v = sw_arena_slice(h->into, v);
    at = k.n && k.p[0] == ':' ? pseudo(&h->head, k) : NULL;
    if (at) {
        *at = v;
    } else if (sw_slice_eq_str(k, ":status")) {
        if (sw_slice_to_u64(v, 999, &status))
            h->head.status = (unsigned)status;
    } else {
        struct sw_h2_header f = {.name = sw_arena_slice(h->into, k), .value = v};

        sw_vec_push(&h->fields, f);
    }
    return 0;
}

static void *stream_of(const struct sw_h2 *h, int32_t id)
{
    return nghttp2_session_get_stream_user_data(h->ng, id);
}

static void got_trailers(struct sw_h2 *h, int32_t id, bool end)
{
    if (h->ops->on_trailers && end) {
        h->head.headers = h->fields.p;
        h->head.n = h->fields.n;
        h->ops->on_trailers(h, id, stream_of(h, id), &h->head);
    }
    head_reset(h);
    if (end)
        h->ops->on_end(h, id, stream_of(h, id));
}

static void got_headers(struct sw_h2 *h, const nghttp2_frame *frame)
{
    bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
    int32_t id = frame->hd.stream_id;

    if (frame->headers.cat == NGHTTP2_HCAT_HEADERS && (h->config.server || h->head.status == 0)) {
        got_trailers(h, id, end);
        return;
    }
    h->head.headers = h->fields.p;
    h->head.n = h->fields.n;
    if (h->head.status >= 100 && h->head.status < 200) {
        if (h->ops->on_info)
            h->ops->on_info(h, id, stream_of(h, id), &h->head);
        head_reset(h);
        return;
    }
    h->ops->on_head(h, id, stream_of(h, id), &h->head, end);
    head_reset(h);
}

static void got_data_frame(struct sw_h2 *h, const nghttp2_frame *frame)
{
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        h->ops->on_end(h, frame->hd.stream_id, stream_of(h, frame->hd.stream_id));
        return;
    }
    if (frame->hd.length > 0)
        h->empty_frames = 0;
    else if (++h->empty_frames > EMPTY_FRAMES_MAX)
        (void)punish(h, "too many empty DATA frames");
}

static int on_frame_recv(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
    struct sw_h2 *h = arg;
    int32_t id = frame->hd.stream_id;

    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        got_headers(h, frame);
        break;
    case NGHTTP2_DATA:
        got_data_frame(h, frame);
        break;
    case NGHTTP2_SETTINGS:
        if (!(frame->hd.flags & NGHTTP2_FLAG_ACK)) {
            h->settings_seen = true;
            if (h->ops->on_control)
                h->ops->on_control(h);
            if (h->ops->on_settings)
                h->ops->on_settings(h);
        }
        break;
    case NGHTTP2_WINDOW_UPDATE:
        if (h->ops->on_window)
            h->ops->on_window(h, id, id ? stream_of(h, id) : NULL);
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK) {
            if (h->ops->on_pong)
                h->ops->on_pong(h);
        } else if (h->ops->on_control) {
            h->ops->on_control(h);
        }
        break;
    case NGHTTP2_GOAWAY:
        h->ops->on_goaway(h, frame->goaway.last_stream_id, frame->goaway.error_code);
        break;
    default:
        break; /* unknown frames are ignored (RFC 9113 4.1) */
    }
    return 0;
}

/* nghttp2 answers a broken frame with GOAWAY or RST_STREAM by itself; remember why. */
static int on_invalid_frame(nghttp2_session *ng, const nghttp2_frame *frame, int code, void *arg)
{
    struct sw_h2 *h = arg;

    h->broken = nghttp2_strerror(code);
    h->complaint = h->broken;
    return 0;
}

static int on_data_chunk(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data,
                         size_t len, void *arg)
{
    struct sw_h2 *h = arg;

    h->unpassed += len;
    h->ops->on_data(h, id, stream_of(h, id), sw_slice(data, len));
    return 0;
}

void sw_h2_calm(struct sw_h2 *h, const char *why)
{
    (void)punish(h, why);
}

void sw_h2_count_early_reset(struct sw_h2 *h, uint64_t now_ns)
{
    if (sw_rate_add(&h->early_resets, 1, EARLY_RESETS_MAX + 1, SW_NS_PER_S / EARLY_RESETS_PER_S,
                    now_ns) > EARLY_RESETS_MAX)
        (void)punish(h, "too many streams reset before they were answered");
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
    struct sw_h2 *h = arg;

    if (h->config.server && nghttp2_session_get_stream_remote_close(ng, id) == 1)
        h2_ids_ended(&h->ids, id);
    h->ops->on_close(h, id, stream_of(h, id), code);
    return 0;
}

/*
 * An answer that ended the stream while the request's body is still open: the body is of no use any
 * more, and RST_STREAM(NO_ERROR) says so (RFC 9113 8.1). It must not be queued before the answer is
 * out, or it would take its place.
 */
static int on_frame_sent(nghttp2_session *ng, const nghttp2_frame *frame, void *arg)
{
    struct sw_h2 *h = arg;
    int32_t id = frame->hd.stream_id;

    if (h->config.server && frame->hd.type == NGHTTP2_HEADERS &&
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
        nghttp2_session_get_stream_remote_close(ng, id) == 0)
        (void)nghttp2_submit_rst_stream(ng, NGHTTP2_FLAG_NONE, id, NGHTTP2_NO_ERROR);
    return 0;
}

static ssize_t on_send(nghttp2_session *ng, const uint8_t *data, size_t n, int flags, void *arg)
{
    struct sw_h2 *h = arg;

    switch (h->ops->emit(h, data, n)) {
    case SW_OK:
        return (ssize_t)n;
    case SW_EAGAIN:
        assert(!h->config.emit_takes_all);
        h->stalled = true;
        return NGHTTP2_ERR_WOULDBLOCK;
    default:
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
}

static int on_send_data(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *framehd,
                        size_t length, nghttp2_data_source *source, void *arg)
{
    struct sw_h2 *h = arg;
    int32_t id = frame->hd.stream_id;

    h->ops->emit_data(h, id, stream_of(h, id), framehd, length);
    return 0;
}

static ssize_t on_read_length(nghttp2_session *ng, uint8_t type, int32_t id, int32_t conn_window,
                              int32_t stream_window, uint32_t peer_max_frame, void *arg)
{
    struct sw_h2 *h = arg;
    size_t n = sw_min(peer_max_frame, h->config.max_send_frame);

    n = sw_min(n, conn_window > 0 ? (size_t)conn_window : 0);
    return (ssize_t)sw_min(n, stream_window > 0 ? (size_t)stream_window : 0);
}

static pthread_once_t callbacks_once = PTHREAD_ONCE_INIT;
static nghttp2_session_callbacks *callbacks; /* made once; every connection copies from them */

static void make_callbacks(void)
{
    nghttp2_session_callbacks *cb;

    if (nghttp2_session_callbacks_new(&cb) != 0)
        __builtin_trap();
    nghttp2_session_callbacks_set_send_callback(cb, on_send);
    nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
    nghttp2_session_callbacks_set_on_begin_frame_callback(cb, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_data_source_read_length_callback(cb, on_read_length);
    callbacks = cb;
}

struct sw_h2 *sw_h2_new(const struct sw_h2_config *c, const struct sw_h2_ops *ops, void *owner)
{
    struct sw_h2 *h = SW_NEW(struct sw_h2);
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, c->stream_window},
        {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, c->max_frame},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, c->max_header_list},
        {c->server ? NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS : NGHTTP2_SETTINGS_ENABLE_PUSH,
         c->server ? c->max_streams : 0},
        {NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL, 1},
    };
    size_t n_settings = SW_ARRAY_LEN(settings) - (c->server && c->extended_connect ? 0 : 1);
    int rc;

    h->config = *c;
    h->ops = ops;
    h->owner = owner;
    (void)pthread_once(&callbacks_once, make_callbacks);
    h->ng = sw_h2_session_new(callbacks, h);
    if (!c->server) {
        /* The preface is already in the frame buffer, where another session would overwrite it. */
        const uint8_t *preface;
        ssize_t n = nghttp2_session_mem_send(h->ng, &preface);

        assert(n == NGHTTP2_CLIENT_MAGIC_LEN);
        (void)n;
        h->preface_due = true;
    }
    rc = nghttp2_submit_settings(h->ng, NGHTTP2_FLAG_NONE, settings, n_settings);
    assert(rc == 0);
    rc = nghttp2_session_set_local_window_size(h->ng, NGHTTP2_FLAG_NONE, 0,
                                               (int32_t)c->connection_window);
    assert(rc == 0);
    (void)rc;
    return h;
}

void sw_h2_free(struct sw_h2 *h)
{
    static const struct sw_h2_ops silent;

    if (!h)
        return;
    h->ops = &silent; /* nghttp2_session_del makes no callbacks; make sure of it */
    nghttp2_session_del(h->ng);
    head_reset(h);
    sw_free(h);
}

void *sw_h2_owner(const struct sw_h2 *h)
{
    return h->owner;
}

/*
 * A client that reads nothing may send as many frames as it likes that are answered with one:
 * resets of streams refused or malformed. Only the answers to PING and SETTINGS are counted by the
 * library.
 */
static void bound_queue(struct sw_h2 *h)
{
    size_t most = QUEUED_MAX + (size_t)QUEUED_PER_STREAM * h->config.max_streams;

    if (h->config.server && nghttp2_session_get_outbound_queue_size(h->ng) > most)
        (void)punish(h, "too many frames wait for the peer");
}

int sw_h2_feed(struct sw_h2 *h, struct sw_slice in, struct sw_err *err)
{
    ssize_t n = nghttp2_session_mem_recv(h->ng, (const uint8_t *)in.p, in.n);

    bound_queue(h);
    if (h->fault)
        return sw_err_set(err, SW_EPROTO, "HTTP/2: %s", h->fault);
    if (n < 0)
        return sw_err_set(err, SW_EPROTO, "HTTP/2: %s", nghttp2_strerror((int)n));
    return SW_OK;
}

int sw_h2_flush(struct sw_h2 *h, struct sw_err *err)
{
    int rc;

    h->stalled = false;
    if (h->preface_due) {
        rc = h->ops->emit(h, (const uint8_t *)NGHTTP2_CLIENT_MAGIC, NGHTTP2_CLIENT_MAGIC_LEN);
        if (rc != SW_OK)
            return rc == SW_EAGAIN ? SW_EAGAIN : sw_err_set(err, SW_EPROTO, "no room to send");
        h->preface_due = false;
    }
    rc = nghttp2_session_send(h->ng);
    if (rc != 0)
        return sw_err_set(err, SW_EPROTO, "HTTP/2: %s", nghttp2_strerror(rc));
    return h->stalled ? SW_EAGAIN : SW_OK; /* the library counts that as success */
}

bool sw_h2_wants_write(const struct sw_h2 *h)
{
    return nghttp2_session_want_write(h->ng);
}

bool sw_h2_finished(const struct sw_h2 *h)
{
    return !nghttp2_session_want_write(h->ng) && !nghttp2_session_want_read(h->ng);
}

const char *sw_h2_complaint(struct sw_h2 *h)
{
    const char *why = h->complaint;

    h->complaint = NULL;
    return why;
}

const char *sw_h2_fault(const struct sw_h2 *h)
{
    return h->fault ? h->fault : h->broken ? h->broken : "connection ended";
}
