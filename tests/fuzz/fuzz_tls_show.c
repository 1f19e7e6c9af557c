/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, lists and keys from files: explained in plain text or refused, never half. */
#include <assert.h>
#include <stdint.h>

#include "tls/cert/cred.h"
#include "tls/cert/x509text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in = sw_slice(data, n);
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_err err = {0};
    struct sw_tls_cred *cred;

    if (sw_x509_explain(in, UINT64_C(1800000000), &out, &err) == SW_OK) {
        struct sw_slice text = sw_buf_slice(&out);

        assert(text.n > 0 && text.p[text.n - 1] == '\n');
        for (size_t i = 0; i < text.n; i++)
            assert(text.p[i] == '\n' || (text.p[i] >= ' ' && text.p[i] < 0x7f));
    } else {
        assert(err.rc < 0 && err.msg[0]);
    }
    err = (struct sw_err){0};
    cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = in, .crl = in}, &err);
    assert(cred || (err.rc < 0 && err.msg[0]));
    sw_tls_cred_unref(cred);
    err = (struct sw_err){0};
    cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = in, .chain = in, .key = in}, &err);
    assert(cred || (err.rc < 0 && err.msg[0]));
    if (cred)
        assert(sw_tls_cred_id(cred) && sw_tls_cred_uri(cred).n > 0);
    sw_tls_cred_unref(cred);
    return 0;
}
