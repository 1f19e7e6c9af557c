/* SPDX-License-Identifier: Apache-2.0 */
#include "opts/admin.h"

const char *const sw_admin_auths[] = {"token", "none", NULL};
