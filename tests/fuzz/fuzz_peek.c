/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The observer of tunnels: what it tells must not depend on how the bytes were cut, texts are
 * bounded, and nothing is told after it stopped looking. Input: records of one byte (0x80: from the
 * origin; the rest a length) and that many bytes.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "connector/inspect/capture.h"
#include "connector/inspect/peek.h"

struct told {
    struct sw_buf text;
    uint64_t n;
    struct sw_capture_store store;
};

/* What is kept of a message, in the same text: it must not depend on the cuts either. */
static void put_message(struct sw_buf *out, const struct sw_captured *m)
{
    struct sw_h1_field f;
    size_t at = 0;

    while (sw_captured_next(m, &at, &f))
        assert(sw_buf_printf(out, "%.*s=%.*s;", SW_SLICE_ARG(f.name), SW_SLICE_ARG(f.value)) ==
               SW_OK);
    assert(at == sw_buf_len(&m->head));
    assert(m->body_bytes >= sw_buf_len(&m->body) && sw_buf_len(&m->body) <= SW_CAPTURE_BODY);
    assert(m->cut_body == (m->body_bytes > sw_buf_len(&m->body)));
    assert(sw_buf_append_slice(out, sw_buf_slice(&m->body)) == SW_OK);
    assert(sw_buf_printf(out, "|%d\n", m->complete) == SW_OK);
}

static void on_observed(void *arg, const struct sw_peek_exchange *x)
{
    struct told *t = arg;

    assert(x->method.n > 0 && x->method.n <= SW_PEEK_METHOD);
    assert(x->host.n <= SW_PEEK_HOST && x->path.n <= SW_PEEK_PATH);
    assert(x->status == 0 || (x->status >= 100 && x->status <= 999));
    assert(!x->complete || x->status);
    assert(sw_buf_printf(&t->text, "%.*s|%.*s|%.*s|%d|%llu|%d\n", SW_SLICE_ARG(x->method),
                         SW_SLICE_ARG(x->host), SW_SLICE_ARG(x->path), x->status,
                         (unsigned long long)x->bytes_out, x->complete) == SW_OK);
    t->n++;
    assert(x->capture && t->store.bytes <= SW_CAPTURE_TOTAL);
    put_message(&t->text, &x->capture->req);
    put_message(&t->text, &x->capture->resp);
    if (t->n % 3)
        assert(sw_captures_find(&t->store, sw_capture_keep(x->capture)));
    else
        sw_capture_drop(x->capture);
    assert(t->store.n <= SW_CAPTURES_MAX);
}

static void watch(const uint8_t *data, size_t n, size_t piece, struct told *t)
{
    struct sw_peek *p;
    uint64_t before;

    sw_captures_init(&t->store);
    p = sw_peek_new(on_observed, t, &t->store);
    sw_buf_init(&t->text, 64 << 20);
    t->n = 0;
    while (n > 0) {
        bool down = *data & 0x80;
        size_t len = sw_min(*data & 0x7f, n - 1);

        data++;
        n--;
        for (size_t i = 0; i < len; i += piece)
            sw_peek_bytes(p, down, data + i, sw_min(piece, len - i), 1);
        data += len;
        n -= len;
    }
    sw_peek_end(p, 2);
    before = t->n;
    sw_peek_bytes(p, false, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27, 3);
    sw_peek_end(p, 4);
    assert(t->n == before && sw_peek_reported(p) == t->n);
    sw_peek_free(p);
    sw_captures_done(&t->store);
    assert(t->store.bytes == 0 && t->store.n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct told whole = {0};
    struct told bytes = {0};

    if (n > 1 << 16)
        return 0;
    watch(data, n, 128, &whole);
    watch(data, n, 1, &bytes);
    assert(sw_slice_eq(sw_buf_slice(&whole.text), sw_buf_slice(&bytes.text)));
    sw_buf_done(&whole.text);
    sw_buf_done(&bytes.text);
    return 0;
}
