/* SPDX-License-Identifier: Apache-2.0 */
/* Bearer tokens that are kept in files. */
#pragma once

#include "base/err.h"
#include "base/slice.h"

enum { SW_BEARER_MAX = 64 << 10 }; /* bytes of such a file */

/*
 * Reads the token of a file, without the white space around it, into *ret (NUL-terminated, heap,
 * the caller's: sw_slice_free_secret). SW_ENOENT, SW_ESYS and SW_ELIMIT as sw_file_read, SW_EINVAL
 * for an empty file and for bytes that no header field can carry. Messages name the file.
 */
SW_NODISCARD int sw_bearer_read(const char *path, struct sw_slice *ret, struct sw_err *err);
