/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that dies together: allocations are bumped from chunks and released all at
 * once. A zeroed struct is a valid empty arena. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/def.h"
#include "base/slice.h"

struct sw_arena_chunk;

struct sw_arena {
    struct sw_arena_chunk *chunk; /* owned, newest first */
    char *at;
    char *end;
    size_t total; /* bytes taken from the heap, for accounting */
    bool tight;   /* texts lie without gaps at the end of chunks */
};

/* Zeroed memory aligned for any type; aborts when out of memory. */
void *sw_arena_alloc(struct sw_arena *a, size_t n) __attribute__((malloc, returns_nonnull));
/* Like sw_arena_alloc(count * size), refusing (abort) on overflow. */
void *sw_arena_array(struct sw_arena *a, size_t count, size_t size)
    __attribute__((malloc, returns_nonnull));
/* Room for an element behind the n of an array of 'cap': p itself, or a copy twice as large. */
void *sw_arena_grow(struct sw_arena *a, void *p, size_t n, size_t *cap, size_t size)
    __attribute__((returns_nonnull));
/* Of an empty arena: takes one chunk of n bytes now, for a caller that knows how much it needs. */
void sw_arena_reserve(struct sw_arena *a, size_t n);
/* What the allocations so far need of one chunk, at most. */
size_t sw_arena_used(const struct sw_arena *a);
/*
 * An arena over memory of the caller: zeroed, aligned for any pointer, and n bytes must suffice. It
 * is tight: what was put into an empty tight arena before takes sw_arena_used of it bytes in this
 * one. There is nothing to clear.
 */
struct sw_arena sw_arena_over(void *p, size_t n);
/* Zeroed room for n bytes of text, not aligned in a tight arena. */
char *sw_arena_text(struct sw_arena *a, size_t n);
/* NUL-terminated copy of a slice. */
char *sw_arena_dup(struct sw_arena *a, struct sw_slice s);
/* Same, returned as a slice (still NUL-terminated behind it). */
struct sw_slice sw_arena_slice(struct sw_arena *a, struct sw_slice s);
char *sw_arena_printf(struct sw_arena *a, const char *fmt, ...) SW_PRINTF(2, 3);
/* Releases everything; the arena is empty and usable again. */
void sw_arena_clear(struct sw_arena *a);
/* The same, but a last chunk of at most 'keep' bytes stays for the next use (zeroed). */
void sw_arena_reset(struct sw_arena *a, size_t keep);

#define SW_ARENA_NEW(a, type) ((type *)sw_arena_alloc((a), sizeof(type)))
#define SW_ARENA_AUTO         __attribute__((cleanup(sw_arena_clear))) struct sw_arena
