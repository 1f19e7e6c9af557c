/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of nghttp2 as this program wants them: our memory, and a frame buffer per thread. */
#include "http/h2_int.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <nghttp2/nghttp2.h>

#include "base/mem.h"

enum {
    ACKS_MAX = 1000,   /* queued PING and SETTINGS answers */
    FRAME_BUF = 20000, /* more than a frame of 16 KiB and its head */
    FRAME_BUF_LEAST = 16384,
};

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
    return sw_malloc(n);
}

static void ng_free(void *p, void *arg)
{
    if (!is_frame_buf(p))
        sw_free(p);
}

static void *ng_calloc(size_t count, size_t size, void *arg)
{
    return sw_calloc(count, size);
}

static void *ng_realloc(void *p, size_t n, void *arg)
{
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

static pthread_once_t options_once = PTHREAD_ONCE_INIT;
static nghttp2_option *options; /* made once; every session copies from them */

static void make_options(void)
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
    options = opt;
}

struct nghttp2_session *sw_h2_session_new(const struct nghttp2_session_callbacks *callbacks,
                                          struct sw_h2 *h)
{
    nghttp2_session *ng = NULL;
    int rc;

    (void)pthread_once(&options_once, make_options);
    making = h->config.emit_takes_all;
    rc = h->config.server ? nghttp2_session_server_new3(&ng, callbacks, h, options, &ng_mem)
                          : nghttp2_session_client_new3(&ng, callbacks, h, options, &ng_mem);
    making = false;
    assert(rc == 0);
    (void)rc;
    return ng;
}
