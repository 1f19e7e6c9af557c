/* SPDX-License-Identifier: Apache-2.0 */
/* Gives memory back that start-up touched and nothing needs any more. */
#pragma once

/*
 * Drops the clean pages of loaded libraries (those whose name contains 'part'; NULL: all, our own
 * code included) from the resident set; they come back from the page cache on demand.
 */
void sw_trim_text(const char *part);
/* Returns free heap pages to the system. */
void sw_trim_heap(void);
