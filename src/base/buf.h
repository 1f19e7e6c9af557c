/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A growable byte buffer that is given its maximum when it is made: nothing a peer
 * sends can grow it past that. Bytes are appended at the end and consumed in front.
 */
#pragma once

#include <stdarg.h>
#include <stdint.h>

#include "base/def.h"
#include "base/slice.h"

struct sw_buf {
    char *p;    /* owned */
    size_t off; /* first unconsumed byte */
    size_t n;   /* end of the content */
    size_t cap;
    size_t max; /* content never exceeds this */
};

/* An empty buffer; no allocation until the first append. */
void sw_buf_init(struct sw_buf *b, size_t max);
/* Frees the storage; the buffer is empty and usable again. */
void sw_buf_done(struct sw_buf *b);

static inline size_t sw_buf_len(const struct sw_buf *b)
{
    return b->n - b->off;
}

static inline const char *sw_buf_data(const struct sw_buf *b)
{
    return b->p ? b->p + b->off : "";
}

static inline struct sw_slice sw_buf_slice(const struct sw_buf *b)
{
    return sw_slice(b->p ? b->p + b->off : "", b->n - b->off);
}

/* All return SW_OK, or SW_ELIMIT with the buffer unchanged when the maximum would be passed. */
SW_NODISCARD int sw_buf_append(struct sw_buf *b, const void *p, size_t n);
SW_NODISCARD int sw_buf_append_slice(struct sw_buf *b, struct sw_slice s);
SW_NODISCARD int sw_buf_append_str(struct sw_buf *b, const char *s);
/* As text of an HTML page or of a quoted attribute. SW_ELIMIT: a part may have been appended. */
SW_NODISCARD int sw_buf_append_html(struct sw_buf *b, struct sw_slice s);
SW_NODISCARD int sw_buf_putc(struct sw_buf *b, char c);
SW_NODISCARD int sw_buf_printf(struct sw_buf *b, const char *fmt, ...) SW_PRINTF(2, 3);
SW_NODISCARD int sw_buf_vprintf(struct sw_buf *b, const char *fmt, va_list ap) SW_PRINTF(2, 0);

/* Makes room for n more bytes and returns where to write them (then call sw_buf_commit); NULL at
 * the limit. */
SW_NODISCARD char *sw_buf_reserve(struct sw_buf *b, size_t n);
void sw_buf_commit(struct sw_buf *b, size_t n);

/* Drops n bytes (at most all) in front. An empty buffer gives its storage back when it is large. */
void sw_buf_consume(struct sw_buf *b, size_t n);
/* Forgets the content, keeps the storage. */
void sw_buf_clear(struct sw_buf *b);
/* Content as a NUL-terminated heap string owned by the caller; the buffer is empty afterwards. */
char *sw_buf_take_str(struct sw_buf *b);

/*
 * Buffers on the heap, in objects that are many and hold something only now and then: NULL is an
 * empty one.
 */
struct sw_buf *sw_heapbuf_new(size_t max);
/* Frees it, if there is one. */
void sw_heapbuf_free(struct sw_buf **b);
/* As sw_buf_consume; the buffer goes with its last byte. */
void sw_heapbuf_consume(struct sw_buf **b, size_t n);

#define SW_BUF_AUTO __attribute__((cleanup(sw_buf_done))) struct sw_buf

/*
 * Text appended to a buffer piece by piece. The first failure sticks: nothing more is appended, and
 * rc is looked at once, at the end.
 */
struct sw_print {
    struct sw_buf *to; /* borrowed */
    int rc;            /* SW_OK, or SW_ELIMIT: the buffer holds a part */
};

void sw_print_str(struct sw_print *p, const char *s);
void sw_print_slice(struct sw_print *p, struct sw_slice s);
void sw_print_char(struct sw_print *p, char c);
/* As sw_buf_append_html. */
void sw_print_html(struct sw_print *p, struct sw_slice s);
void sw_print_fmt(struct sw_print *p, const char *fmt, ...) SW_PRINTF(2, 3);
