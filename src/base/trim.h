/* SPDX-License-Identifier: Apache-2.0 */
/* Gives memory back that start-up or a load touched and nothing needs any more. */
#pragma once

#include <stddef.h>

/*
 * Drops the clean pages of loaded libraries (those whose name contains 'part'; NULL: all, our own
 * code included) from the resident set; they come back from the page cache on demand.
 */
void sw_trim_text(const char *part);
/* Returns free heap pages to the system. */
void sw_trim_heap(void);
/*
 * From now on freed memory goes back to the system in pieces of 1 MiB, or 256 KiB at the end of a
 * heap. Without this glibc keeps as much as twice the largest block that was ever freed. Call it
 * before threads start.
 */
void sw_trim_on_free(void);
/* Gives the whole pages inside p[0..n) back. Their content is lost: they read as zero. */
void sw_trim_pages(void *p, size_t n);
