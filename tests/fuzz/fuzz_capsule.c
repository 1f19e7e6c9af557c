/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capsules: the values found do not depend on how the bytes were cut, nothing is longer than
 * allowed, and a path that is accepted is written back and accepted again.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "http/capsule.h"

static int run(const uint8_t *p, size_t n, size_t step, struct sw_buf *out)
{
    struct sw_capsule_reader r = {0};
    struct sw_slice in = sw_slice(p, n);
    struct sw_err err = {0};
    int rc = SW_EAGAIN;

    while (in.n && (rc == SW_OK || rc == SW_EAGAIN)) {
        struct sw_slice value = {0};
        struct sw_slice payload = {0};
        size_t used = 0;

        rc = sw_capsule_next(&r, sw_slice_head(in, step), &used, &value, &err);
        assert(used <= sw_min(step, in.n) && (rc != SW_EAGAIN || used == sw_min(step, in.n)));
        in = sw_slice_from(in, used);
        if (rc == SW_OK && sw_masque_udp_payload(value, &payload) == SW_OK) {
            uint8_t head[SW_CAPSULE_UDP_HEAD];

            assert(payload.n <= SW_UDP_PAYLOAD_MAX);
            (void)!sw_buf_append(out, head, sw_capsule_udp_head(head, payload.n));
            (void)!sw_buf_append_slice(out, payload);
        }
    }
    if (rc == SW_ELIMIT)
        (void)!sw_buf_putc(out, '!');
    sw_capsule_done(&r);
    return rc;
}

static void path(struct sw_slice in)
{
    char host[SW_MASQUE_HOST_MAX + 1];
    char again[SW_MASQUE_HOST_MAX + 1];
    SW_BUF_AUTO out = {.max = 4096};
    uint16_t port;
    uint16_t port2;
    struct sw_err err = {0};

    if (sw_masque_udp_path(in, host, &port, &err) != SW_OK)
        return;
    assert(port && host[0]);
    assert(sw_masque_put_udp_path(&out, sw_slice_str(host), port) == SW_OK);
    assert(sw_masque_udp_path(sw_buf_slice(&out), again, &port2, &err) == SW_OK);
    assert(strcmp(host, again) == 0 && port == port2);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    SW_BUF_AUTO whole = {.max = 1 << 20};
    SW_BUF_AUTO cut = {.max = 1 << 20};

    (void)run(p, n, n ? n : 1, &whole);
    (void)run(p, n, n ? 1 + p[0] % 7 : 1, &cut);
    assert(sw_slice_eq(sw_buf_slice(&whole), sw_buf_slice(&cut)));
    path(sw_slice(p, n));
    return 0;
}
