/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watcher of handshakes: what it tells must not depend on how the bytes were cut, and a verdict
 * stays. Input as for fuzz_peek: records of one byte (0x80: from the origin; the rest a length) and
 * that many bytes.
 */
#include <assert.h>
#include <stdint.h>

#include "base/def.h"
#include "connector/inspect/tlswatch.h"

static enum sw_tlswatch_state watch(const uint8_t *data, size_t n, size_t piece)
{
    struct sw_tlswatch w = {0};

    while (n > 0) {
        size_t len = sw_min(*data & 0x7f, n - 1);
        bool down = *data & 0x80;

        data++;
        n--;
        for (size_t i = 0; i < len; i += piece) {
            enum sw_tlswatch_state before = w.state;

            sw_tlswatch_bytes(&w, down, data + i, sw_min(piece, len - i));
            assert(before <= SW_TLSWATCH_PENDING || w.state == before);
            assert(w.up.have <= sizeof(w.up.head) && w.down.have <= sizeof(w.down.head));
        }
        data += len;
        n -= len;
    }
    sw_tlswatch_end(&w);
    assert(w.state != SW_TLSWATCH_PENDING);
    return w.state;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    assert(watch(data, n, 128) == watch(data, n, 1));
    return 0;
}
