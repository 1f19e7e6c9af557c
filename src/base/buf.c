/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>

#include "base/err.h"
#include "base/mem.h"

enum {
    BUF_MIN_CAP = 64,
    BUF_KEEP_CAP = 4096, /* larger storage is released when the content is gone */
};

void sw_buf_init(struct sw_buf *b, size_t max)
{
    *b = (struct sw_buf){.max = max};
}

void sw_buf_done(struct sw_buf *b)
{
    sw_free(b->p);
    *b = (struct sw_buf){.max = b->max};
}

/* Content that starts at the front moves with its pages when it is large: nothing is copied. */
static void grow(struct sw_buf *b, size_t len, size_t want)
{
    char *fresh;

    if (b->off == 0) {
        b->p = sw_realloc(b->p, want);
    } else {
        fresh = sw_malloc(want);
        if (len)
            memcpy(fresh, b->p + b->off, len);
        sw_free(b->p);
        b->p = fresh;
    }
    b->cap = want;
}

char *sw_buf_reserve(struct sw_buf *b, size_t n)
{
    size_t len = b->n - b->off;
    size_t want;

    if (n > b->max || len > b->max - n)
        return NULL;
    if (b->n + n <= b->cap)
        return b->p + b->n;
    if (b->off && len + n <= b->cap) {
        memmove(b->p, b->p + b->off, len);
    } else {
        want = sw_max(BUF_MIN_CAP, b->cap);
        while (want < len + n)
            want *= 2;
        grow(b, len, sw_min(want, b->max));
    }
    b->off = 0;
    b->n = len;
    return b->p + len;
}

void sw_buf_commit(struct sw_buf *b, size_t n)
{
    assert(n <= b->cap - b->n);
    b->n += n;
}

int sw_buf_append(struct sw_buf *b, const void *p, size_t n)
{
    char *to;

    if (n == 0)
        return SW_OK;
    to = sw_buf_reserve(b, n);
    if (!to)
        return SW_ELIMIT;
    memcpy(to, p, n);
    b->n += n;
    return SW_OK;
}

int sw_buf_append_slice(struct sw_buf *b, struct sw_slice s)
{
    return sw_buf_append(b, s.p, s.n);
}

int sw_buf_append_str(struct sw_buf *b, const char *s)
{
    return sw_buf_append(b, s, strlen(s));
}

static const char *html_entity(char c)
{
    switch (c) {
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '&':
        return "&amp;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

int sw_buf_append_html(struct sw_buf *b, struct sw_slice s)
{
    int rc = SW_OK;

    for (size_t i = 0; i < s.n && rc == SW_OK; i++) {
        const char *entity = html_entity(s.p[i]);

        rc = entity ? sw_buf_append_str(b, entity) : sw_buf_putc(b, s.p[i]);
    }
    return rc;
}

int sw_buf_putc(struct sw_buf *b, char c)
{
    return sw_buf_append(b, &c, 1);
}

int sw_buf_vprintf(struct sw_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    char *to;
    int n;

    va_copy(again, ap);
    n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0)
        return SW_EINVAL;
    /* One more for the NUL that vsnprintf insists on; it is not content. */
    if ((size_t)n > b->max || sw_buf_len(b) > b->max - (size_t)n)
        return SW_ELIMIT;
    b->max++;
    to = sw_buf_reserve(b, (size_t)n + 1);
    b->max--;
    if (!to)
        return SW_ELIMIT;
    (void)vsnprintf(to, (size_t)n + 1, fmt, ap);
    b->n += (size_t)n;
    return SW_OK;
}

int sw_buf_printf(struct sw_buf *b, const char *fmt, ...)
{
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = sw_buf_vprintf(b, fmt, ap);
    va_end(ap);
    return rc;
}

void sw_buf_consume(struct sw_buf *b, size_t n)
{
    b->off += sw_min(n, b->n - b->off);
    if (b->off < b->n)
        return;
    if (b->cap > BUF_KEEP_CAP) {
        sw_buf_done(b);
    } else {
        b->off = 0;
        b->n = 0;
    }
}

void sw_buf_clear(struct sw_buf *b)
{
    b->off = 0;
    b->n = 0;
}

struct sw_buf *sw_heapbuf_new(size_t max)
{
    struct sw_buf *b = SW_NEW(struct sw_buf);

    b->max = max;
    return b;
}

void sw_heapbuf_free(struct sw_buf **b)
{
    if (*b)
        sw_buf_done(*b);
    sw_free(SW_TAKE(*b));
}

void sw_heapbuf_consume(struct sw_buf **b, size_t n)
{
    sw_buf_consume(*b, n);
    if (sw_buf_len(*b) == 0)
        sw_heapbuf_free(b);
}

char *sw_buf_take_str(struct sw_buf *b)
{
    char *s = sw_strndup(b->p ? b->p + b->off : "", b->n - b->off);

    sw_buf_done(b);
    return s;
}

void sw_print_str(struct sw_print *p, const char *s)
{
    sw_print_slice(p, sw_slice_str(s));
}

void sw_print_slice(struct sw_print *p, struct sw_slice s)
{
    if (p->rc == SW_OK)
        p->rc = sw_buf_append_slice(p->to, s);
}

void sw_print_char(struct sw_print *p, char c)
{
    if (p->rc == SW_OK)
        p->rc = sw_buf_putc(p->to, c);
}

void sw_print_html(struct sw_print *p, struct sw_slice s)
{
    if (p->rc == SW_OK)
        p->rc = sw_buf_append_html(p->to, s);
}

void sw_print_fmt(struct sw_print *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (p->rc == SW_OK)
        p->rc = sw_buf_vprintf(p->to, fmt, ap);
    va_end(ap);
}
