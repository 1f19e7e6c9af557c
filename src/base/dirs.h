/* SPDX-License-Identifier: Apache-2.0 */
/* Directories: made, and looked through. */
#pragma once

#include <dirent.h>

#include "base/err.h"

/* Makes every missing directory of the path, mode 0700. SW_EINVAL (empty, too long), SW_ESYS. */
SW_NODISCARD int sw_make_dirs(const char *path, struct sw_err *err);

/* The name of the next entry, '.' and '..' among them; NULL: there is none, or no directory. */
const char *sw_dir_next(DIR *d);
void sw_dir_close_indirect(DIR *const *d);

/* A local directory stream, or NULL. */
#define SW_AUTO_DIR __attribute__((cleanup(sw_dir_close_indirect))) DIR
