/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First byte: kind, limits and what a response answers. Properties: parsing in one piece, byte by
 * byte and in odd pieces says the same; an accepted request written out again is accepted again
 * and says the same apart from the order of Host and framing fields.
 */
#include <stdint.h>
#include <stdlib.h>

#include "../unit/http/h1_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The first head of the input, written out and read again, must mean the same. */
static void check_rewrite(enum sw_h1_kind kind, const struct sw_h1_limits *limits,
                          struct sw_slice answers, struct sw_slice in)
{
    struct sw_h1 *p = sw_h1_new(kind, limits);
    struct sw_h1 *again = sw_h1_new(kind, NULL);
    SW_BUF_AUTO out = {.max = 1 << 20};
    const struct sw_h1_msg *a = sw_h1_msg(p);
    const struct sw_h1_msg *b = sw_h1_msg(again);
    enum sw_h1_event ev;
    size_t used;

    sw_h1_answer_to(p, answers);
    sw_h1_answer_to(again, answers);
    if (sw_h1_next(p, in, &used, &ev, NULL) == SW_OK) {
        trace_ok(sw_h1_put_msg(&out, a));
        trace_ok(sw_h1_next(again, sw_buf_slice(&out), &used, &ev, NULL));
        if (ev != SW_H1_HEAD || used != sw_buf_len(&out))
            abort();
        if (!sw_slice_eq(a->method, b->method) || !sw_slice_eq(a->target, b->target) ||
            a->form != b->form || !sw_slice_eq(a->authority, b->authority) ||
            !sw_slice_eq(a->path_query, b->path_query) || a->status != b->status ||
            a->framing != b->framing || a->keep_alive != b->keep_alive ||
            !sw_slice_eq(a->upgrade, b->upgrade) || a->expect_continue != b->expect_continue)
            abort();
        if (a->framing == SW_H1_LENGTH && a->content_length != b->content_length)
            abort();
    }
    sw_h1_free(p);
    sw_h1_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const struct sw_h1_limits small = {
        .line = 40, .head = 120, .headers = 4, .body = 30, .chunk_ext = 8};
    static const size_t steps[] = {1, 2, 3, 7, 61};
    const struct sw_h1_limits *limits;
    struct sw_slice answers;
    enum sw_h1_kind kind;
    struct sw_slice in;
    struct trace whole;

    if (n < 1 || n > 4096)
        return 0;
    kind = data[0] & 1 ? SW_H1_RESPONSE : SW_H1_REQUEST;
    limits = data[0] & 2 ? &small : NULL;
    answers = data[0] & 4   ? SW_SLICE_LIT("HEAD")
              : data[0] & 8 ? SW_SLICE_LIT("CONNECT")
                            : SW_SLICE_LIT("GET");
    in = sw_slice(data + 1, n - 1);
    trace_run(&whole, kind, limits, answers, in, n);
    for (size_t i = 0; i < SW_ARRAY_LEN(steps); i++) {
        struct trace cut;

        trace_run(&cut, kind, limits, answers, in, steps[i]);
        if (!sw_slice_eq(sw_buf_slice(&whole.out), sw_buf_slice(&cut.out)))
            abort();
        trace_done(&cut);
    }
    trace_done(&whole);
    check_rewrite(kind, limits, answers, in);
    return 0;
}
