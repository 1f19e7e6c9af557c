/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

enum {
    ARENA_FIRST = 1024,
    ARENA_MOST = 256 * 1024,
    ARENA_ALIGN = 16,
    ARENA_TIGHT = 8, /* what the records of a tight arena need */
};

struct sw_arena_chunk {
    struct sw_arena_chunk *next;
    size_t size; /* of the payload */
    _Alignas(16) char data[];
};

static void add_chunk(struct sw_arena *a, size_t size)
{
    struct sw_arena_chunk *c = sw_calloc(1, sizeof(*c) + size);

    c->size = size;
    c->next = a->chunk;
    a->chunk = c;
    a->at = c->data;
    a->end = c->data + size;
    a->total += sizeof(*c) + size;
}

static void grow(struct sw_arena *a, size_t n)
{
    size_t size = a->chunk ? sw_min(a->chunk->size * 2, ARENA_MOST) : ARENA_FIRST;

    add_chunk(a, sw_max(size, n));
}

void sw_arena_reserve(struct sw_arena *a, size_t n)
{
    if (!a->chunk && n < SIZE_MAX / 2)
        add_chunk(a, n);
}

size_t sw_arena_used(const struct sw_arena *a)
{
    size_t n = 0;

    if (a->chunk)
        n = a->chunk->size - (size_t)(a->end - a->at);

    for (const struct sw_arena_chunk *c = a->chunk ? a->chunk->next : NULL; c; c = c->next)
        n += c->size;
    return n;
}

struct sw_arena sw_arena_over(void *p, size_t n)
{
    return (struct sw_arena){.at = p, .end = (char *)p + n, .tight = true};
}

void *sw_arena_alloc(struct sw_arena *a, size_t n)
{
    size_t align = a->tight ? ARENA_TIGHT : ARENA_ALIGN;
    char *p;

    if (n > SIZE_MAX / 2)
        abort();
    n = (n + align - 1) & ~(align - 1);
    if (!a->at || (size_t)(a->end - a->at) < n)
        grow(a, n);
    p = a->at;
    a->at += n;
    return p;
}

void *sw_arena_array(struct sw_arena *a, size_t count, size_t size)
{
    size_t n;

    if (__builtin_mul_overflow(count, size, &n))
        abort();
    return sw_arena_alloc(a, n);
}

void *sw_arena_grow(struct sw_arena *a, void *p, size_t n, size_t *cap, size_t size)
{
    void *fresh;

    if (n < *cap)
        return p;
    *cap = *cap ? *cap * 2 : 4;
    fresh = sw_arena_array(a, *cap, size);
    if (n)
        memcpy(fresh, p, n * size);
    return fresh;
}

char *sw_arena_text(struct sw_arena *a, size_t n)
{
    if (!a->tight)
        return sw_arena_alloc(a, n);
    if (n > SIZE_MAX / 2)
        abort();
    if (!a->at || (size_t)(a->end - a->at) < n)
        grow(a, n);
    a->end -= n;
    return a->end;
}

char *sw_arena_dup(struct sw_arena *a, struct sw_slice s)
{
    char *p = sw_arena_text(a, s.n + 1);

    if (s.n)
        memcpy(p, s.p, s.n);
    return p;
}

struct sw_slice sw_arena_slice(struct sw_arena *a, struct sw_slice s)
{
    return sw_slice(sw_arena_dup(a, s), s.n);
}

char *sw_arena_printf(struct sw_arena *a, const char *fmt, ...)
{
    va_list ap;
    char *p;
    int n;

    va_start(ap, fmt);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        abort();
    p = sw_arena_text(a, (size_t)n + 1);
    va_start(ap, fmt);
    (void)vsnprintf(p, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return p;
}

void sw_arena_reset(struct sw_arena *a, size_t keep)
{
    struct sw_arena_chunk *c = a->chunk;

    if (!c || c->size > keep) {
        sw_arena_clear(a);
        return;
    }
    while (c->next) {
        struct sw_arena_chunk *old = c->next;

        c->next = old->next;
        sw_free(old);
    }
    memset(c->data, 0, (size_t)(a->at - c->data));
    memset(a->end, 0, (size_t)(c->data + c->size - a->end));
    a->at = c->data;
    a->end = c->data + c->size;
    a->total = sizeof(*c) + c->size;
}

void sw_arena_clear(struct sw_arena *a)
{
    struct sw_arena_chunk *c = a->chunk;

    while (c) {
        struct sw_arena_chunk *next = c->next;

        sw_free(c);
        c = next;
    }
    *a = (struct sw_arena){.tight = a->tight};
}
