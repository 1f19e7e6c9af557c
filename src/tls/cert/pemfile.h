/* SPDX-License-Identifier: Apache-2.0 */
/* Small files that hold certificates and keys: read with a bound. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/def.h"
#include "base/err.h"

/*
 * Appends the file's content to out. Returns SW_OK, SW_ENOENT, SW_ESYS, SW_EINVAL (not a regular
 * file) or SW_ELIMIT (larger than out allows); messages name the path.
 */
SW_NODISCARD int sw_pemfile_read(const char *path, struct sw_buf *out, struct sw_err *err);

/*
 * Takes the next certificate, from its first dash to the end of its last line, off *rest.
 * SW_ENOENT: there is none. SW_EINVAL: it has no end.
 */
SW_NODISCARD int sw_pem_next_cert(struct sw_slice *rest, struct sw_slice *ret);

/* The first certificate of a PEM text as DER, in the arena; empty: there is none that is whole. */
struct sw_slice sw_pem_leaf_der(struct sw_arena *a, struct sw_slice pem);

/* True when both names lead to one existing file. */
bool sw_pemfile_same(const char *a, const char *b);
