/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of the database share. Not for others. */
#pragma once

#include "store/db.h"

/*
 * Whether the file is a store, from its raw header, before SQLite touches it: a file that is
 * refused stays as it is. Only for the one process that holds the lock, since closing the
 * descriptor drops the POSIX locks of every connection of this process.
 */
SW_NODISCARD int sw_db_check_header(const char *path, struct sw_err *err);
/* An empty private file, replacing a left-over of an earlier attempt. */
SW_NODISCARD int sw_db_touch(const char *path, struct sw_err *err);
