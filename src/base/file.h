/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files: read with a bound, written whole or not at all. All calls may block. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

/*
 * Appends what the descriptor gives up to its end. SW_ESYS, or SW_ELIMIT when it is more than out
 * takes; 'path' is for messages.
 */
SW_NODISCARD int sw_fd_read_all(int fd, const char *path, struct sw_buf *out, struct sw_err *err);

/* SW_OK when every byte was written, SW_ESYS with errno set otherwise. */
SW_NODISCARD int sw_fd_write_all(int fd, struct sw_slice s);

/*
 * Reads a whole file of at most max bytes into *ret (NUL-terminated, heap, the caller's). A pipe is
 * read to its end; one without a writer is empty. SW_ENOENT when there is no file, SW_ELIMIT when
 * it is longer, SW_ESYS otherwise; messages name the path.
 */
SW_NODISCARD int sw_file_read(const char *path, size_t max, struct sw_slice *ret,
                              struct sw_err *err);

/*
 * Writes a new file with exactly this mode by way of a temporary name in the same directory, and
 * syncs it. Without replace an existing file is left alone and SW_EINVAL returned.
 */
SW_NODISCARD int sw_file_write(const char *path, struct sw_slice content, mode_t mode, bool replace,
                               struct sw_err *err);

/* Removes from a directory what sw_file_write leaves there in a process that is killed. */
void sw_file_remove_temporary(const char *dir);
