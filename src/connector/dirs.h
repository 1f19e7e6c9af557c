/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the user. */
#pragma once

/* What the variable names, else the directory below $HOME; the caller frees. NULL: neither is set.
 */
char *sw_user_dir(const char *variable, const char *below_home);
/* Default directory for a device's key; the caller frees. */
char *sw_default_data(void);
