/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the relay protocol: what is taken lies inside the message and can be written again
 * byte for byte; and the header of a client, which either is refused or has its fixed size.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "quic/relay/auth.h"
#include "quic/wire/relay.h"

static void check_again(const struct sw_relay_frame *f, const uint8_t *in, size_t n)
{
    uint8_t out[256];
    size_t head = 0;

    if (f->type >= SW_RELAY_SEND && f->type <= SW_RELAY_RECV_BATCH) {
        head = sw_relay_put_datagram(out, f->type, f->id, in[1 + SW_NODEID_LEN], f->segment);
        assert(head + f->n == n && f->ecn <= 3);
    } else if (f->type == SW_RELAY_AUTH) {
        head = sw_relay_put_auth(out, f->id, f->p);
        assert(head == n);
    } else if (f->type == SW_RELAY_RESTARTING) {
        head = sw_relay_put_restarting(out, f->reconnect_ms, f->try_ms);
        assert(head == n);
    }
    assert(memcmp(out, in, head) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_relay_header h;
    struct sw_err err;

    for (unsigned mode = 0; mode < 4; mode++) {
        uint8_t *in = sw_malloc(size + 1);
        struct sw_relay_frame f;

        memcpy(in, data, size);
        if (sw_relay_parse(in, size, mode & 1, 1 + mode / 2, &f, &err) == SW_OK) {
            assert(size > 0);
            assert(f.p >= in && f.p + f.n <= in + size);
            check_again(&f, in, size);
        }
        sw_free(in);
    }
    if (sw_relay_header_parse(sw_slice(data, size), &h, &err) == SW_OK)
        assert(size == SW_RELAY_AUTH_HEADER - 1);
    return 0;
}
