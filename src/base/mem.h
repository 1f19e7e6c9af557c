/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap allocation that never returns NULL: running out of memory aborts. Callers
 * bound sizes that come from the wire before they get here.
 */
#pragma once

#include <stddef.h>
#include <string.h>

#include "base/def.h"

void *sw_malloc(size_t n) __attribute__((malloc, returns_nonnull, alloc_size(1)));
void *sw_calloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *sw_realloc(void *p, size_t n) __attribute__((returns_nonnull));
/* Memory whose address is a multiple of align (a power of two); release with sw_free. */
void *sw_aligned_alloc(size_t align, size_t n) __attribute__((malloc, returns_nonnull));
void sw_free(void *p);

/* A NUL-terminated copy of n bytes. */
char *sw_strndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *sw_strdup(const char *s) __attribute__((malloc, returns_nonnull));
char *sw_asprintf(const char *fmt, ...) SW_PRINTF(1, 2) __attribute__((returns_nonnull));

/* Overwrites a secret in a way the compiler keeps, then frees it. NULL is fine. */
void sw_free_secret(void *p, size_t n);

#define SW_NEW(type)          ((type *)sw_calloc(1, sizeof(type)))
#define SW_NEW_ARRAY(type, n) ((type *)sw_calloc((n), sizeof(type)))

static inline void sw_free_indirect(void *pp)
{
    void *p;

    memcpy(&p, pp, sizeof(p));
    sw_free(p);
}
#define SW_AUTO_FREE __attribute__((cleanup(sw_free_indirect)))

void sw_close_indirect(const int *fd);
#define SW_AUTO_FD __attribute__((cleanup(sw_close_indirect))) int
