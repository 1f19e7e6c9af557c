/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the user. */
#pragma once

#include "base/err.h"

/* Every missing directory of the path, mode 0700. SW_EINVAL (too long), SW_ESYS. */
SW_NODISCARD int sw_make_dirs(const char *path, struct sw_err *err);
/* Where a device keeps its key when nothing else is said; the caller frees. */
char *sw_default_data(void);
