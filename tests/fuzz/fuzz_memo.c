/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a device remembers of the control plane: text that is taken can be written, and what is
 * written is taken again and says the same. Input: the text behind the first line.
 */
#include <assert.h>
#include <stdint.h>

#include "base/buf.h"
#include "connector/memo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in = sw_slice((const char *)data, n);
    SW_BUF_AUTO one = {.max = 8 * SW_MEMO_MAX};
    SW_BUF_AUTO two = {.max = 8 * SW_MEMO_MAX};
    struct sw_memo m = {0};
    struct sw_memo again = {0};

    if (sw_memo_parse(in, &m, NULL) == SW_OK)
        sw_memo_done(&m);
    if (sw_memo_parse_body(in, &m, NULL) != SW_OK) {
        assert(!m.gateways.ids.n && !m.allow.entries.n && !m.server.p);
        return 0;
    }
    assert(m.gateways.ids.n <= SW_PEERS_MAX && m.allow.entries.n <= SW_ALLOW_MAX);
    assert(m.server.n <= SW_MEMO_TEXT_MAX && m.relay.n <= SW_MEMO_TEXT_MAX);
    assert(sw_memo_write(&m, 0, &one) == SW_OK);
    assert(sw_memo_parse(sw_buf_slice(&one), &again, NULL) == SW_OK);
    assert(again.allow.entries.n == m.allow.entries.n);
    assert(sw_peers_equal(&again.gateways, &m.gateways));
    assert(sw_memo_write(&again, 0, &two) == SW_OK);
    assert(sw_slice_eq(sw_buf_slice(&one), sw_buf_slice(&two)));
    sw_memo_done(&m);
    sw_memo_done(&again);
    return 0;
}
