/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificate requests: whatever is in one, the certificate is for the identity that was decided
 * on. The first byte says whether the rest is PEM or to be wrapped as such.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/base64.h"
#include "base/buf.h"
#include "tls/cert/ca.h"

#define ID "spiffe://td/ns/a/sa/b"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sw_ca *ca;
    const struct sw_ca_leaf leaf = {.id = SW_SLICE_LIT(ID), .ttl_s = 3600};
    SW_BUF_AUTO pem = {.max = 1 << 18};
    SW_BUF_AUTO cert = {.max = 1 << 18};
    struct sw_ca_signed done;
    struct sw_err err = {0};
    struct sw_slice in;
    int rc;

    if (!ca)
        ca = sw_ca_new(SW_SLICE_LIT("td"), 0, NULL);
    if (size == 0 || size > 100000)
        return 0;
    in = sw_slice(data + 1, size - 1);
    if (data[0] & 1) {
        if (sw_buf_append_str(&pem, "-----BEGIN CERTIFICATE REQUEST-----\n") != SW_OK ||
            sw_base64_append(&pem, in) != SW_OK ||
            sw_buf_append_str(&pem, "\n-----END CERTIFICATE REQUEST-----\n") != SW_OK)
            return 0;
        in = sw_buf_slice(&pem);
    }
    rc = sw_ca_sign(ca, &leaf, in, &cert, &done, &err);
    assert(rc == SW_OK || rc == SW_EINVAL || rc == SW_ELIMIT);
    assert(rc == SW_OK ? sw_buf_len(&cert) > 0 && strlen(done.serial) == 32
                       : sw_buf_len(&cert) == 0 && err.rc);
    return 0;
}
