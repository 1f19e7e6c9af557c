/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only file that knows nghttp2. Header blocks are collected in an arena per connection (only
 * one block can be in flight), limits that the library does not have are counted here.
 */
#include "http/h2.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/time.h"
#include "base/vec.h"

enum {
    HEADER_OVERHEAD = 32,    /* RFC 9113 6.5.2: each field costs 32 bytes more */
    HEADERS_MAX = 256,       /* fields of one block */
    HEAD_FACTOR = 4,         /* a block this many times too large ends the connection */
    EARLY_RESETS_MAX = 200,  /* streams cancelled before an answer, then calm down */
    EARLY_RESETS_PER_S = 50, /* how fast that allowance comes back */
    EMPTY_FRAMES_MAX = 1000, /* DATA frames in a row that carry nothing */
    ACKS_MAX = 1000,         /* queued PING and SETTINGS answers */
    FRAME_BUF = 20000,       /* more than a frame of 16 KiB and its head */
    FRAME_BUF_LEAST = 16384,
    DEFAULT_PEER_STREAMS = 100 /* until the peer's SETTINGS tell */
};

struct sw_h2 {
    nghttp2_session *ng; /* owned */
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
    unsigned early_resets;
    uint64_t early_since_ns;
    const char *fault;     /* why we ended the connection ourselves */
    const char *broken;    /* what was wrong with the last frame the library refused */
    const char *complaint; /* the same, until somebody asked */
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

    (void)ng;
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

/* Ends the connection at once with a GOAWAY that says why. */
static int punish(struct sw_h2 *h, const char *why)
{
    if (!h->fault)
        h->fault = why;
    (void)nghttp2_session_terminate_session(h->ng, NGHTTP2_ENHANCE_YOUR_CALM);
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

    (void)ng;
    (void)frame;
    (void)flags;
    h->head_bytes += name_len + value_len + HEADER_OVERHEAD;
    if (h->head_bytes > h->config.max_header_list || h->fields.n >= HEADERS_MAX)
        h->head.too_large = true;
    /* One that never ends costs work and no memory: no reason to go on. */
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

    (void)ng;
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
            h->ops->on_settings(h);
        }
        break;
    case NGHTTP2_WINDOW_UPDATE:
        h->ops->on_window(h, id, id ? stream_of(h, id) : NULL);
        break;
    case NGHTTP2_PING:
        if (frame->hd.flags & NGHTTP2_FLAG_ACK)
            h->ops->on_pong(h);
        else if (h->ops->on_control)
            h->ops->on_control(h);
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

    (void)ng;
    (void)frame;
    h->broken = nghttp2_strerror(code);
    h->complaint = h->broken;
    return 0;
}

static int on_data_chunk(nghttp2_session *ng, uint8_t flags, int32_t id, const uint8_t *data,
                         size_t len, void *arg)
{
    struct sw_h2 *h = arg;

    (void)ng;
    (void)flags;
    h->ops->on_data(h, id, stream_of(h, id), sw_slice(data, len));
    return 0;
}

void sw_h2_calm(struct sw_h2 *h, const char *why)
{
    (void)punish(h, why);
}

void sw_h2_count_early_reset(struct sw_h2 *h, uint64_t now_ns)
{
    uint64_t back = (now_ns - h->early_since_ns) * EARLY_RESETS_PER_S / SW_NS_PER_S;

    if (back > 0) {
        h->early_resets -= (unsigned)sw_min(h->early_resets, back);
        h->early_since_ns = now_ns;
    }
    if (++h->early_resets > EARLY_RESETS_MAX)
        (void)punish(h, "too many streams reset before they were answered");
}

static int on_stream_close(nghttp2_session *ng, int32_t id, uint32_t code, void *arg)
{
    struct sw_h2 *h = arg;

    (void)ng;
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

    (void)ng;
    (void)flags;
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

/* Usually few and short fields: on the stack in nghttp2's shape; longer lists on the heap. */
enum { SEND_FIELDS_MAX = 32 };

static nghttp2_nv *nv_room(nghttp2_nv *few, size_t n)
{
    return n <= SEND_FIELDS_MAX ? few : SW_NEW_ARRAY(nghttp2_nv, n);
}

static void nv_done(const nghttp2_nv *few, nghttp2_nv *used)
{
    if (used != few)
        sw_free(used);
}

static size_t to_ng(const struct sw_h2_header *fields, size_t n, nghttp2_nv *out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] = (nghttp2_nv){.namelen = fields[i].name.n, .valuelen = fields[i].value.n};
        memcpy(&out[i].name, &fields[i].name.p, sizeof(out[i].name));
        memcpy(&out[i].value, &fields[i].value.p, sizeof(out[i].value));
    }
    return n;
}

/* True: the stream ends with these instead of its last DATA frame. */
static bool submit_trailers(struct sw_h2 *h, int32_t id)
{
    struct sw_h2_header fields[SEND_FIELDS_MAX];
    nghttp2_nv nv[SEND_FIELDS_MAX];
    size_t n = 0;

    if (h->ops->trailers)
        n = h->ops->trailers(h, id, stream_of(h, id), fields, SEND_FIELDS_MAX);
    return n && nghttp2_submit_trailer(h->ng, id, nv, to_ng(fields, n, nv)) == 0;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): the type is nghttp2's */
static ssize_t on_pull(nghttp2_session *ng, int32_t id, uint8_t *buf, size_t max,
                       uint32_t *data_flags, nghttp2_data_source *source, void *arg)
{
    struct sw_h2 *h = arg;
    bool end = false;
    ssize_t n = h->ops->pull(h, id, stream_of(h, id), max, &end);

    (void)ng;
    (void)buf;
    (void)source;
    if (n == SW_EAGAIN)
        return NGHTTP2_ERR_DEFERRED;
    if (n < 0)
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    *data_flags = NGHTTP2_DATA_FLAG_NO_COPY;
    if (end)
        *data_flags |= NGHTTP2_DATA_FLAG_EOF;
    if (end && submit_trailers(h, id))
        *data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return n;
}

static int on_send_data(nghttp2_session *ng, nghttp2_frame *frame, const uint8_t *framehd,
                        size_t length, nghttp2_data_source *source, void *arg)
{
    struct sw_h2 *h = arg;
    int32_t id = frame->hd.stream_id;

    (void)ng;
    (void)source;
    h->ops->emit_data(h, id, stream_of(h, id), framehd, length);
    return 0;
}

static ssize_t on_read_length(nghttp2_session *ng, uint8_t type, int32_t id, int32_t conn_window,
                              int32_t stream_window, uint32_t peer_max_frame, void *arg)
{
    struct sw_h2 *h = arg;
    size_t n = sw_min(peer_max_frame, h->config.max_send_frame);

    (void)ng;
    (void)type;
    (void)id;
    n = sw_min(n, conn_window > 0 ? (size_t)conn_window : 0);
    return (ssize_t)sw_min(n, stream_window > 0 ? (size_t)stream_window : 0);
}

/* Made once; every connection copies from them. */
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;
static nghttp2_session_callbacks *callbacks;
static nghttp2_option *options;

static nghttp2_session_callbacks *make_callbacks(void)
{
    nghttp2_session_callbacks *cb;

    if (nghttp2_session_callbacks_new(&cb) != 0)
        __builtin_trap();
    nghttp2_session_callbacks_set_send_callback(cb, on_send);
    nghttp2_session_callbacks_set_send_data_callback(cb, on_send_data);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_sent);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(cb, on_invalid_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_data_source_read_length_callback(cb, on_read_length);
    return cb;
}

static nghttp2_option *make_options(void)
{
    nghttp2_option *opt;

    if (nghttp2_option_new(&opt) != 0)
        __builtin_trap();
    nghttp2_option_set_no_auto_window_update(opt, 1);
    nghttp2_option_set_max_outbound_ack(opt, ACKS_MAX);
    nghttp2_option_set_no_closed_streams(opt, 1);
    /*
     * A tunnel's stream is reset whenever its TCP connection is, so resets as such are normal
     * here; sw_h2_count_early_reset catches the attack instead.
     */
    nghttp2_option_set_stream_reset_rate_limit(opt, 100000, 20000);
    return opt;
}

static void make_tables(void)
{
    callbacks = make_callbacks();
    options = make_options();
}

/*
 * A session keeps a 16 KiB buffer in which it builds each frame. Where emit takes every frame at
 * once, the buffer is empty between calls, so the sessions of a thread share one: it is handed out
 * while a session is made (later and larger requests are served from the heap). Sessions may
 * outlive their thread by a moment, so buffers are never freed: there is one per thread that ever
 * spoke HTTP/2.
 */
struct frame_buf {
    struct frame_buf *next;
    uint8_t bytes[FRAME_BUF];
};

static _Atomic(struct frame_buf *) frame_bufs;
static _Thread_local struct frame_buf *own_frame_buf;
static _Thread_local bool making;

static bool is_frame_buf(const void *p)
{
    for (struct frame_buf *b = atomic_load(&frame_bufs); b; b = b->next) {
        if (p == b->bytes)
            return true;
    }
    return false;
}

static void *lend_frame_buf(void)
{
    if (!own_frame_buf) {
        struct frame_buf *b = SW_NEW(struct frame_buf);

        b->next = atomic_load(&frame_bufs);
        while (!atomic_compare_exchange_weak(&frame_bufs, &b->next, b))
            ;
        own_frame_buf = b;
    }
    return own_frame_buf->bytes;
}

static void *ng_malloc(size_t n, void *arg)
{
    (void)arg;
    return sw_malloc(n);
}

static void ng_free(void *p, void *arg)
{
    (void)arg;
    if (!is_frame_buf(p))
        sw_free(p);
}

static void *ng_calloc(size_t count, size_t size, void *arg)
{
    (void)arg;
    return sw_calloc(count, size);
}

static void *ng_realloc(void *p, size_t n, void *arg)
{
    (void)arg;
    if (!p && making && n >= FRAME_BUF_LEAST && n <= FRAME_BUF)
        return lend_frame_buf();
    if (p && is_frame_buf(p)) { /* it outgrew the loan */
        void *fresh = sw_malloc(n);

        memcpy(fresh, p, sw_min(n, FRAME_BUF));
        return fresh;
    }
    return sw_realloc(p, n);
}

/* Out of memory aborts like everywhere else, so nghttp2's own handling of it is never reached. */
static nghttp2_mem ng_mem = {NULL, ng_malloc, ng_free, ng_calloc, ng_realloc};

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
    (void)pthread_once(&tables_once, make_tables);
    making = c->emit_takes_all;
    rc = c->server ? nghttp2_session_server_new3(&h->ng, callbacks, h, options, &ng_mem)
                   : nghttp2_session_client_new3(&h->ng, callbacks, h, options, &ng_mem);
    making = false;
    assert(rc == 0);
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

int sw_h2_feed(struct sw_h2 *h, struct sw_slice in, struct sw_err *err)
{
    ssize_t n = nghttp2_session_mem_recv(h->ng, (const uint8_t *)in.p, in.n);

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

int32_t sw_h2_request_head(struct sw_h2 *h, const struct sw_h2_header *fields, size_t n, bool end,
                           void *stream, struct sw_err *err)
{
    nghttp2_data_provider body = {.read_callback = on_pull};
    nghttp2_nv few[SEND_FIELDS_MAX];
    nghttp2_nv *nv = nv_room(few, n);
    int32_t id =
        nghttp2_submit_request(h->ng, NULL, nv, to_ng(fields, n, nv), end ? NULL : &body, stream);

    nv_done(few, nv);
    if (id >= 0)
        return id;
    return sw_err_set(err, id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE ? SW_ELIMIT : SW_ECLOSED,
                      "HTTP/2: %s", nghttp2_strerror(id));
}

int32_t sw_h2_request(struct sw_h2 *h, const struct sw_h2_header *fields, size_t n, void *stream,
                      struct sw_err *err)
{
    return sw_h2_request_head(h, fields, n, false, stream, err);
}

int sw_h2_respond(struct sw_h2 *h, int32_t id, const struct sw_h2_header *fields, size_t n,
                  bool end, struct sw_err *err)
{
    nghttp2_data_provider body = {.read_callback = on_pull};
    nghttp2_nv few[SEND_FIELDS_MAX];
    nghttp2_nv *nv = nv_room(few, n);
    int rc = nghttp2_submit_response(h->ng, id, nv, to_ng(fields, n, nv), end ? NULL : &body);

    nv_done(few, nv);
    if (rc != 0)
        return sw_err_set(err, SW_ECLOSED, "HTTP/2: %s", nghttp2_strerror(rc));
    return SW_OK;
}

int sw_h2_inform(struct sw_h2 *h, int32_t id, const struct sw_h2_header *fields, size_t n,
                 struct sw_err *err)
{
    nghttp2_nv few[SEND_FIELDS_MAX];
    nghttp2_nv *nv = nv_room(few, n);
    int rc =
        nghttp2_submit_headers(h->ng, NGHTTP2_FLAG_NONE, id, NULL, nv, to_ng(fields, n, nv), NULL);

    nv_done(few, nv);
    if (rc < 0)
        return sw_err_set(err, SW_ECLOSED, "HTTP/2: %s", nghttp2_strerror(rc));
    return SW_OK;
}

void sw_h2_set_stream(struct sw_h2 *h, int32_t id, void *stream)
{
    (void)nghttp2_session_set_stream_user_data(h->ng, id, stream);
}

void sw_h2_resume(struct sw_h2 *h, int32_t id)
{
    (void)nghttp2_session_resume_data(h->ng, id);
}

void sw_h2_reset(struct sw_h2 *h, int32_t id, enum sw_h2_code code)
{
    (void)nghttp2_submit_rst_stream(h->ng, NGHTTP2_FLAG_NONE, id, (uint32_t)code);
}

void sw_h2_consume_stream(struct sw_h2 *h, int32_t id, size_t n)
{
    (void)nghttp2_session_consume_stream(h->ng, id, n);
}

void sw_h2_consume_connection(struct sw_h2 *h, size_t n)
{
    (void)nghttp2_session_consume_connection(h->ng, n);
}

size_t sw_h2_send_window(const struct sw_h2 *h, int32_t id)
{
    int32_t conn = nghttp2_session_get_remote_window_size(h->ng);
    int32_t stream = nghttp2_session_get_stream_remote_window_size(h->ng, id);

    return conn <= 0 || stream <= 0 ? 0 : sw_min((size_t)conn, (size_t)stream);
}

uint32_t sw_h2_peer_max_streams(const struct sw_h2 *h)
{
    if (!h->settings_seen)
        return DEFAULT_PEER_STREAMS;
    return nghttp2_session_get_remote_settings(h->ng, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

bool sw_h2_peer_extended_connect(const struct sw_h2 *h)
{
    return h->settings_seen && nghttp2_session_get_remote_settings(
                                   h->ng, NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL) == 1;
}

void sw_h2_ping(struct sw_h2 *h)
{
    (void)nghttp2_submit_ping(h->ng, NGHTTP2_FLAG_NONE, NULL);
}

void sw_h2_shutdown_notice(struct sw_h2 *h)
{
    if (h->config.server)
        (void)nghttp2_submit_shutdown_notice(h->ng);
}

void sw_h2_goaway(struct sw_h2 *h, enum sw_h2_code code)
{
    (void)nghttp2_submit_goaway(h->ng, NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(h->ng), (uint32_t)code,
                                NULL, 0);
}
