/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WebSocket frames from a peer, whole and cut into pieces: the same messages come out, none is
 * larger than allowed, and what was refused stays refused with a code that may be sent.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "http/ws/ws.h"

enum { MAX = 300, EVENTS = 64 };

struct seen {
    size_t n;
    struct {
        int op;
        size_t len;
        uint64_t sum;
        uint16_t code;
    } ev[EVENTS];
    int rc;
    uint16_t refusal;
};

static uint64_t sum_of(const uint8_t *p, size_t n)
{
    uint64_t h = 1469598103934665603u;

    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 1099511628211u;
    return h;
}

/* Offers the input in steps of 'step' bytes more, as a socket would. */
static void run(const uint8_t *data, size_t n, bool client, size_t step, struct seen *out)
{
    uint8_t *buf = sw_malloc(n + 1);
    size_t at = 0;
    size_t have = 0;
    struct sw_ws w;

    memset(out, 0, sizeof(*out));
    memcpy(buf, data, n);
    sw_ws_init(&w, client, MAX);
    while (out->n < EVENTS) {
        struct sw_ws_event ev;
        struct sw_err err;
        size_t used = 0;
        int rc = sw_ws_next(&w, buf + at, have - at, &used, &ev, &err);

        assert(used <= have - at);
        at += used;
        if (rc == SW_OK) {
            assert(ev.n <= MAX);
            assert(ev.op < SW_WS_CLOSE || ev.n <= SW_WS_CONTROL_MAX);
            out->ev[out->n].op = (int)ev.op;
            out->ev[out->n].len = ev.n;
            out->ev[out->n].sum = sum_of(ev.p, ev.n);
            out->ev[out->n].code = ev.code;
            out->n++;
        } else if (rc != SW_EAGAIN) {
            assert(w.refusal >= 1000);
            out->rc = rc;
            out->refusal = w.refusal;
            break;
        } else if (used == 0) {
            if (have == n)
                break;
            have = sw_min(n, have + step);
        }
    }
    sw_ws_done(&w);
    sw_free(buf);
}

static void write_back(const uint8_t *data, size_t n)
{
    const uint8_t mask[4] = {data[0], 1, 2, data[n - 1]};
    uint8_t *buf = sw_malloc(n + SW_WS_HEAD_MAX);
    size_t head = sw_ws_put_head(buf, SW_WS_BINARY, n, mask);
    struct sw_ws_event ev;
    struct sw_err err;
    struct sw_ws w;
    size_t used;

    memcpy(buf + head, data, n);
    sw_ws_mask(buf + head, n, mask);
    sw_ws_init(&w, false, (uint32_t)n);
    assert(sw_ws_next(&w, buf, head + n, &used, &ev, &err) == SW_OK);
    assert(used == head + n && ev.n == n && memcmp(ev.p, data, n) == 0);
    sw_ws_done(&w);
    sw_free(buf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct seen whole;
    struct seen pieces;

    if (size < 2)
        return 0;
    run(data + 1, size - 1, data[0] & 1, size, &whole);
    run(data + 1, size - 1, data[0] & 1, 1 + (data[0] >> 4), &pieces);
    assert(memcmp(&whole, &pieces, sizeof(whole)) == 0);
    write_back(data, size);
    return 0;
}
