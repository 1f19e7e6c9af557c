/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/crypto/hmac.h"

#include <assert.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

void sw_hmac_sha256(struct sw_slice key, const struct sw_slice *parts, size_t n,
                    uint8_t ret[SW_HMAC_SHA256])
{
    gnutls_hmac_hd_t h;
    int rc = gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, key.p, key.n);

    assert(rc == 0); /* the algorithm is always there, keys of any length are fine */
    for (size_t i = 0; i < n && rc == 0; i++)
        rc = parts[i].n ? gnutls_hmac(h, parts[i].p, parts[i].n) : 0;
    assert(rc == 0);
    gnutls_hmac_deinit(h, ret);
}

bool sw_secret_eq(const void *a, const void *b, size_t n)
{
    return gnutls_memcmp(a, b, n) == 0;
}
