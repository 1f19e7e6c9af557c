/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for objects that hold keys: kept out of core dumps, overwritten before it is reused.
 * Fixed-size cells from shared slabs; any thread may free what another allocated.
 */
#pragma once

#include <stddef.h>

#include "base/def.h"

enum { SW_VAULT_CELL = 512 }; /* largest object */

/* Zeroed; n is at most SW_VAULT_CELL. */
void *sw_vault_alloc(size_t n) __attribute__((malloc, returns_nonnull));
/* Overwrites and releases. Accepts NULL. */
void sw_vault_free(void *p);

/* Zeroed pages of n bytes, aligned to a page, kept out of core dumps. */
void *sw_vault_pages(size_t n) __attribute__((malloc, returns_nonnull));
void sw_vault_pages_free(void *p, size_t n);
