/* SPDX-License-Identifier: Apache-2.0 */
/* Identities: what parses is printable, bounded, and formats back to the same bytes. */
#include <assert.h>
#include <stdint.h>

#include "tls/cert/spiffe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in = sw_slice(data, n);
    SW_BUF_AUTO out = {.max = 4096};
    struct sw_spiffe id;
    struct sw_spiffe again;
    struct sw_err err = {0};

    if (sw_spiffe_parse(in, &id, &err) != SW_OK) {
        assert(err.rc == SW_EINVAL && err.offset <= n + 1 + sizeof("spiffe://"));
        return 0;
    }
    assert(n <= SW_SPIFFE_MAX && id.trust_domain.n && id.ns.n && id.sa.n);
    for (size_t i = 0; i < n; i++)
        assert(data[i] > ' ' && data[i] < 0x7f);
    assert(sw_spiffe_format(&id, &out, &err) == SW_OK);
    assert(sw_slice_eq(sw_buf_slice(&out), in));
    assert(sw_spiffe_parse(sw_buf_slice(&out), &again, &err) == SW_OK);
    assert(sw_spiffe_eq(&id, &again));
    return 0;
}
