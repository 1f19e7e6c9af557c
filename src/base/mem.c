/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that calls malloc and free. */
#include "base/mem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

SW_NORETURN SW_COLD static void out_of_memory(size_t n)
{
    (void)fprintf(stderr, "spanwire: out of memory (asked for %zu bytes)\n", n);
    abort();
}

void *sw_malloc(size_t n)
{
    void *p = malloc(n ? n : 1);

    if (SW_UNLIKELY(!p))
        out_of_memory(n);
    return p;
}

void *sw_calloc(size_t count, size_t size)
{
    void *p = calloc(count ? count : 1, size ? size : 1);

    if (SW_UNLIKELY(!p))
        out_of_memory(size);
    return p;
}

void *sw_realloc(void *p, size_t n)
{
    void *moved = realloc(p, n ? n : 1);

    if (SW_UNLIKELY(!moved))
        out_of_memory(n);
    return moved;
}

void *sw_aligned_alloc(size_t align, size_t n)
{
    void *p = aligned_alloc(align, (n + align - 1) & ~(align - 1));

    if (SW_UNLIKELY(!p))
        out_of_memory(n);
    return p;
}

void sw_free(void *p)
{
    free(p);
}

char *sw_strndup(const char *s, size_t n)
{
    char *p = sw_malloc(n + 1);

    if (n)
        memcpy(p, s, n);
    p[n] = '\0';
    return p;
}

char *sw_strdup(const char *s)
{
    return sw_strndup(s, strlen(s));
}

char *sw_asprintf(const char *fmt, ...)
{
    va_list ap;
    char *s = NULL;
    int n;

    va_start(ap, fmt);
    n = vasprintf(&s, fmt, ap);
    va_end(ap);
    if (n < 0 || !s)
        out_of_memory(0);
    return s;
}

void sw_free_secret(void *p, size_t n)
{
    if (!p)
        return;
    explicit_bzero(p, n);
    free(p);
}

void sw_close_indirect(const int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
}
