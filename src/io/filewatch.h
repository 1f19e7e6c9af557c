/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports that a file may have changed: written in place, replaced by rename, or a symbolic link on
 * its way exchanged (as Kubernetes does with mounted volumes). Watches the directory; several
 * changes in a row are reported once.
 */
#pragma once

#include "io/loop.h"

struct sw_filewatch;
typedef void (*sw_filewatch_cb)(void *arg);

/*
 * NULL with err when the directory cannot be watched. The file itself need not exist. A path that
 * ends in '/' watches all files of that directory.
 */
SW_NODISCARD struct sw_filewatch *sw_filewatch_new(struct sw_loop *l, const char *path,
                                                   sw_filewatch_cb cb, void *arg,
                                                   struct sw_err *err);
void sw_filewatch_free(struct sw_filewatch *f);
