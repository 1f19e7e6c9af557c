/* SPDX-License-Identifier: Apache-2.0 */
/* Directories that hold our state. */
#pragma once

#include "base/err.h"

/* Makes every missing directory of the path, mode 0700. SW_EINVAL (empty, too long), SW_ESYS. */
SW_NODISCARD int sw_make_dirs(const char *path, struct sw_err *err);
