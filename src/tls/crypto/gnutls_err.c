/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/crypto/gnutls_err.h"

#include <gnutls/gnutls.h>

int sw_gnutls_err(struct sw_err *err, int rc, int gnutls_rc, const char *what)
{
    return sw_err_set(err, rc, "%s: %s", what, gnutls_strerror(gnutls_rc));
}
