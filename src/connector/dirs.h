/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the user. */
#pragma once

/* Default directory for a device's key; the caller frees. */
char *sw_default_data(void);
