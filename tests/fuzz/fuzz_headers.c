/* SPDX-License-Identifier: Apache-2.0 */
/* Headers a peer sends: what was understood survives being written and read again. */
#include <assert.h>

#include "node/headers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_baggage(struct sw_slice in)
{
    SW_BUF_AUTO once = {.max = 1 << 20};
    SW_BUF_AUTO twice = {.max = 1 << 20};
    struct sw_baggage b;

    sw_baggage_parse(in, &b);
    assert(sw_baggage_build(&b, &once) == SW_OK);
    for (size_t i = 0; i < sw_buf_len(&once); i++)
        assert(sw_buf_data(&once)[i] > 0x20 && sw_buf_data(&once)[i] < 0x7f);
    sw_baggage_parse(sw_buf_slice(&once), &b);
    assert(sw_baggage_build(&b, &twice) == SW_OK);
    assert(sw_slice_eq(sw_buf_slice(&once), sw_buf_slice(&twice)));
}

static void check_forwarded(struct sw_slice in)
{
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_forwarded f;
    struct sw_forwarded again;

    sw_forwarded_parse(in, &f);
    assert(!f.has_for || f.client.ip.family);
    assert(sw_forwarded_build(&f.client, f.host, &out) == SW_OK);
    sw_forwarded_parse(sw_buf_slice(&out), &again);
    assert(sw_slice_eq(f.host, again.host));
    assert(f.has_for == again.has_for);
    assert(!f.has_for || sw_addr_eq(&f.client, &again.client));
}

static void check_trace(struct sw_slice in)
{
    static const uint8_t random[24] = {1};
    struct sw_trace child;
    struct sw_trace t;
    char text[SW_TRACE_TEXT];

    if (!sw_trace_parse(in, &t))
        return;
    assert(in.n == 55);
    (void)sw_trace_text(&t, text);
    assert(memcmp(text + 2, in.p + 2, 53) == 0); /* we write version 00 whatever came */
    sw_trace_make(&t, random, &child);
    assert(memcmp(child.trace_id, t.trace_id, 16) == 0);
    assert(sw_trace_parse(sw_slice_str(sw_trace_text(&child, text)), &t));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in = sw_slice(data, n);

    check_baggage(in);
    check_forwarded(in);
    check_trace(in);
    return 0;
}
