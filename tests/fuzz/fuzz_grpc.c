/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gRPC framing: however the bytes are cut, the same messages come out, and framing them again gives
 * the bytes that were consumed. Status texts survive being encoded.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "http/grpc/grpc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MESSAGE_MAX = 4096 };

/* Decodes in pieces of at most 'step' bytes; appends the messages, framed, to out. */
static int decode(struct sw_slice in, size_t step, struct sw_buf *out)
{
    struct sw_grpc_reader r;
    struct sw_slice msg;
    char head[SW_GRPC_HEAD];
    int rc = SW_EAGAIN;

    sw_grpc_reader_init(&r, MESSAGE_MAX);
    while (rc == SW_EAGAIN && in.n) {
        struct sw_slice piece = sw_slice_head(in, step);

        in = sw_slice_from(in, piece.n);
        rc = sw_grpc_reader_feed(&r, piece, NULL);
        assert(rc == SW_OK);
        while ((rc = sw_grpc_reader_next(&r, &msg, NULL)) == SW_OK) {
            assert(msg.n <= MESSAGE_MAX);
            sw_grpc_head(head, msg.n);
            rc = sw_buf_append(out, head, sizeof(head));
            assert(rc == SW_OK);
            rc = sw_buf_append_slice(out, msg);
            assert(rc == SW_OK);
        }
    }
    sw_grpc_reader_done(&r);
    return rc;
}

static void texts(struct sw_slice in)
{
    SW_BUF_AUTO wire;
    SW_BUF_AUTO back;

    sw_buf_init(&wire, 3 * in.n + 1);
    sw_buf_init(&back, in.n + 1);
    sw_grpc_message_encode(in, &wire);
    for (size_t i = 0; i < sw_buf_len(&wire); i++)
        assert(sw_buf_data(&wire)[i] >= 0x20 && sw_buf_data(&wire)[i] <= 0x7e);
    sw_grpc_message_decode(sw_buf_slice(&wire), &back);
    assert(sw_slice_eq(sw_buf_slice(&back), in));
    sw_buf_clear(&back);
    sw_grpc_message_decode(in, &back); /* anything may come from a peer */
    assert(sw_buf_len(&back) <= in.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_slice in = sw_slice(data, size);
    SW_BUF_AUTO whole;
    SW_BUF_AUTO cut;
    int a;
    int b;

    if (size > 65536)
        return 0;
    sw_buf_init(&whole, size + 1);
    sw_buf_init(&cut, size + 1);
    a = decode(in, size ? size : 1, &whole);
    b = decode(in, size ? 1 + data[0] % 7 : 1, &cut);
    assert(a == b);
    assert(sw_slice_eq(sw_buf_slice(&whole), sw_buf_slice(&cut)));
    assert(sw_slice_has_prefix(in, sw_buf_slice(&whole)));
    texts(in);
    return 0;
}
