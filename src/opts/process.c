/* SPDX-License-Identifier: Apache-2.0 */
#include "opts/process.h"

const char *const sw_log_formats[] = {"plain", "json", NULL};
const char *const sw_aeads[] = {"auto", "imb", "gnutls", NULL};
