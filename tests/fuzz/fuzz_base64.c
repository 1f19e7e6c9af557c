/* SPDX-License-Identifier: Apache-2.0 */
/* Properties: decode(encode(x)) is x; an accepted text is the one encoding of its bytes; a refused
 * one leaves no output. */
#include <stdint.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/err.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in = sw_slice(data, n);
    SW_BUF_AUTO text = {.max = SIZE_MAX / 2};
    SW_BUF_AUTO back = {.max = SIZE_MAX / 2};
    SW_BUF_AUTO bytes = {.max = SIZE_MAX / 2};
    SW_BUF_AUTO again = {.max = SIZE_MAX / 2};
    SW_BUF_AUTO small = {.max = 7};

    check(sw_base64_append(&text, in) == SW_OK);
    check(sw_buf_len(&text) == (n + 2) / 3 * 4);
    check(sw_base64_decode(&back, sw_buf_slice(&text)) == SW_OK);
    check(sw_slice_eq(sw_buf_slice(&back), in));
    if (sw_base64_decode(&bytes, in) == SW_OK) {
        check(sw_base64_append(&again, sw_buf_slice(&bytes)) == SW_OK);
        check(sw_slice_eq(sw_buf_slice(&again), in));
    } else {
        check(sw_buf_len(&bytes) == 0);
    }
    if (sw_base64_decode(&small, in) != SW_OK)
        check(sw_buf_len(&small) == 0);
    return 0;
}
