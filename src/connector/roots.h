/* SPDX-License-Identifier: Apache-2.0 */
/* What a client of an ordinary HTTPS server trusts. */
#pragma once

#include "base/err.h"
#include "base/slice.h"

struct sw_tls_cred;

/* These certificates (PEM), or without any the system's. A reference; NULL: SW_ENOENT, SW_EINVAL.
 */
SW_NODISCARD struct sw_tls_cred *sw_roots_load(struct sw_slice pem, struct sw_err *err);
