/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames of opened packets, one packet after the other: a byte of length, and so many bytes.
 * Nothing outside is touched, what is blanked stays blanked, and no ID below a Retire Prior To
 * passes twice.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "quic/wire/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { KEPT = 64 };

/* What ngtcp2 does: it retires whatever is named below the highest Retire Prior To. */
struct model {
    uint64_t prior;
    uint64_t retired[KEPT];
    size_t n;
};

static void see(struct model *m, const uint8_t *p, size_t n)
{
    struct sw_qreader r = {.p = p, .n = n};
    uint64_t type;

    while (r.at < r.n && sw_qread_varint(&r, &type)) {
        struct sw_qreader in = r;
        uint64_t seq;
        uint64_t prior;

        if (!sw_qread_skip_frame(&r, type))
            return;
        if (type != 0x18 || !sw_qread_varint(&in, &seq) || !sw_qread_varint(&in, &prior))
            continue;
        if (prior > seq)
            return; /* ends the connection */
        if (prior > m->prior)
            m->prior = prior;
        else if (seq < m->prior) {
            for (size_t i = 0; i < m->n; i++)
                assert(m->retired[i] != seq);
            if (m->n < KEPT)
                m->retired[m->n++] = seq;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model m = {0};
    struct sw_qids s;

    sw_qids_init(&s, size % 2);
    while (size > 1) {
        size_t n = sw_min((size_t)data[0], size - 1);
        uint8_t *p = sw_malloc(n + 1);

        memcpy(p, data + 1, n);
        p[n] = 0xa5;
        if (sw_qids_screen(&s, p, n))
            see(&m, p, n);
        (void)sw_qids_screen(NULL, p, n);
        assert(p[n] == 0xa5);
        sw_free(p);
        data += 1 + n;
        size -= 1 + n;
        sw_qids_settled(&s);
    }
    return 0;
}
