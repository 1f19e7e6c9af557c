/* SPDX-License-Identifier: Apache-2.0 */
/* Probes and lists of addresses: what is accepted is written back as the same bytes. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "quic/wire/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static void probe(const uint8_t *p, size_t n)
{
    static const uint8_t key[PROBE_KEY] = {7};
    struct sw_probe m;
    uint8_t back[PROBE_LEN];

    if (sw_probe_read(p, n, &m, NULL) != SW_OK)
        return;
    assert(sw_probe_is(p, n));
    (void)sw_probe_genuine(p, key);
    sw_probe_write(&m, key, back);
    assert(sw_probe_genuine(back, key));
    if (m.seen.ip.family)
        assert(memcmp(p, back, PROBE_LEN - 16) == 0); /* all but the sum */
}

static void list(const uint8_t *p, size_t n)
{
    struct sw_reach m;
    uint8_t back[REACH_MAX];

    if (sw_reach_read(p, n, &m, NULL) != SW_OK)
        return;
    assert(m.n <= SW_QUIC_ADDRS_MAX && n <= REACH_MAX);
    assert(sw_reach_write(&m, back) == n && memcmp(p, back, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    probe(p, n);
    list(p, n);
    return 0;
}
