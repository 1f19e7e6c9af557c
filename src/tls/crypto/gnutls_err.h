/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of GnuTLS as ours. */
#pragma once

#include "base/err.h"

/* Text of a GnuTLS result. */
int sw_gnutls_err(struct sw_err *err, int rc, int gnutls_rc, const char *what);
