/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the user. */
#pragma once

/* Where a device keeps its key when nothing else is said; the caller frees. */
char *sw_default_data(void);
