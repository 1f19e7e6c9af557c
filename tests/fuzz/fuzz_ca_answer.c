/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the answer of a certificate authority: no credential without the key it was asked
 * for. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "node/cert/ca_answer.h"
#include "tls/cert/csr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IDENTITY "spiffe://td/ns/n/sa/me"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sw_buf csr = {.max = 1 << 14};
    static struct sw_buf key = {.max = 1 << 14};
    struct sw_ca_expect e = {.identity = SW_SLICE_LIT(IDENTITY)};
    struct sw_err err = {0};

    if (!sw_buf_len(&key))
        assert(sw_csr_new(e.identity, &csr, &key, &err) == SW_OK);
    e.key = sw_buf_slice(&key);
    assert(!sw_ca_answer(sw_slice(data, size), &e, &err)); /* the key is new in each process */
    assert(err.rc != SW_OK);
    return 0;
}
