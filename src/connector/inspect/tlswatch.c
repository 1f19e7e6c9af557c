/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/inspect/tlswatch.h"

#include "base/def.h"

enum {
    CHANGE_CIPHER = 20,
    ALERT = 21,
    HANDSHAKE = 22,
    DATA = 23,
    HEADER = 5,
    RECORD_MAX = 16384 + 2048, /* RFC 5246, 6.2.3 */
    ALERT_BYTES = 2,
    /* An alert, its type and a tag of 16 bytes; the smallest Finished is 4 + 32 + 1 + 8. */
    SEALED_ALERT_MAX = 24,
    CLOSE_NOTIFY = 0,
};

static bool is_decided(const struct sw_tlswatch *w)
{
    return w->state != SW_TLSWATCH_BEGIN && w->state != SW_TLSWATCH_PENDING;
}

static bool is_header(const uint8_t *h, unsigned len)
{
    return h[0] >= CHANGE_CIPHER && h[0] <= DATA && h[1] == 3 && h[2] <= 4 && len <= RECORD_MAX;
}

/* What an encrypted record of the client reveals. */
static enum sw_tlswatch_state judge_sealed(unsigned type, unsigned len)
{
    if (type == ALERT || (type == DATA && len <= SEALED_ALERT_MAX))
        return SW_TLSWATCH_FAILED;
    return SW_TLSWATCH_OK;
}

/* A header is complete, and the two bytes of an alert in the clear. */
static void on_record(struct sw_tlswatch *w, bool down, struct sw_tlswatch_side *s, unsigned len)
{
    unsigned type = s->head[0];

    if (type == ALERT && !s->encrypted && len == ALERT_BYTES) {
        if (s->head[6] != CLOSE_NOTIFY)
            w->state = SW_TLSWATCH_FAILED;
    } else if (type == CHANGE_CIPHER) {
        s->encrypted = true;
    } else if (!down && (s->encrypted || type == DATA)) {
        w->state = judge_sealed(type, len);
    } else if (down && type == DATA) {
        s->encrypted = true;
    }
}

/* The next byte of a header; false: this is no TLS. */
static bool on_head_byte(struct sw_tlswatch *w, bool down, struct sw_tlswatch_side *s, uint8_t byte)
{
    unsigned len;
    size_t need = HEADER;

    s->head[s->have++] = byte;
    if (s->have < HEADER)
        return s->have > 1 || (byte >= CHANGE_CIPHER && byte <= DATA);
    len = (unsigned)s->head[3] << 8 | s->head[4];
    if (!is_header(s->head, len))
        return false;
    if (s->head[0] == ALERT && !s->encrypted && len == ALERT_BYTES)
        need += ALERT_BYTES;
    if (s->have < need)
        return true;
    s->skip = (uint32_t)(len - (need - HEADER));
    s->have = 0;
    on_record(w, down, s, len);
    return true;
}

void sw_tlswatch_bytes(struct sw_tlswatch *w, bool from_origin, const uint8_t *p, size_t n)
{
    struct sw_tlswatch_side *s = from_origin ? &w->down : &w->up;

    /* In TLS the client speaks first. */
    if (n && w->state == SW_TLSWATCH_BEGIN)
        w->state = !from_origin && p[0] == HANDSHAKE ? SW_TLSWATCH_PENDING : SW_TLSWATCH_OTHER;
    while (n && !is_decided(w)) {
        size_t take = sw_min(n, s->skip);

        if (!take && !on_head_byte(w, from_origin, s, *p))
            w->state = from_origin ? SW_TLSWATCH_NO_TLS : SW_TLSWATCH_OTHER;
        s->skip -= (uint32_t)take;
        p += take ? take : 1;
        n -= take ? take : 1;
    }
}

void sw_tlswatch_end(struct sw_tlswatch *w)
{
    if (w->state == SW_TLSWATCH_PENDING)
        w->state = SW_TLSWATCH_FAILED;
}
