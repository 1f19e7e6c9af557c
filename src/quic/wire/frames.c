/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/wire/frames.h"

#include <string.h>

enum { FRAME_PING = 0x01, FRAME_ACK = 0x02, FRAME_ACK_ECN = 0x03, FRAME_NEW_CID = 0x18 };

/* ---- reading ---- */

bool sw_qread_skip(struct sw_qreader *r, uint64_t n)
{
    if (n > r->n - r->at)
        return false;
    r->at += n;
    return true;
}

/* RFC 9000, 16. */
bool sw_qread_varint(struct sw_qreader *r, uint64_t *ret)
{
    size_t len;
    uint64_t v;

    if (r->at == r->n)
        return false;
    len = (size_t)1 << (r->p[r->at] >> 6);
    if (len > r->n - r->at)
        return false;
    v = r->p[r->at] & 0x3f;
    for (size_t i = 1; i < len; i++)
        v = v << 8 | r->p[r->at + i];
    r->at += len;
    *ret = v;
    return true;
}

bool sw_qread_skip_varints(struct sw_qreader *r, uint64_t n)
{
    uint64_t v;

    while (n-- > 0)
        if (!sw_qread_varint(r, &v))
            return false;
    return true;
}

/* Bytes with their length in front. */
static bool skip_counted(struct sw_qreader *r)
{
    uint64_t n;

    return sw_qread_varint(r, &n) && sw_qread_skip(r, n);
}

static bool skip_ack(struct sw_qreader *r, bool ecn)
{
    uint64_t ranges;

    return sw_qread_skip_varints(r, 2) && sw_qread_varint(r, &ranges) && ranges <= r->n &&
           sw_qread_skip_varints(r, 1 + 2 * ranges) && sw_qread_skip_varints(r, ecn ? 3 : 0);
}

static bool skip_stream(struct sw_qreader *r, uint64_t type)
{
    if (!sw_qread_skip_varints(r, (type & 4) ? 2 : 1))
        return false;
    return (type & 2) ? skip_counted(r) : sw_qread_skip(r, r->n - r->at);
}

static bool skip_new_cid(struct sw_qreader *r)
{
    return sw_qread_skip_varints(r, 2) && r->at < r->n &&
           sw_qread_skip(r, 1 + (uint64_t)r->p[r->at] + 16);
}

/* What follows the type of a frame of RFC 9000 or 9221. False: cut, or not one of them. */
bool sw_qread_skip_frame(struct sw_qreader *r, uint64_t type)
{
    switch (type) {
    case 0x00: /* PADDING */
    case FRAME_PING:
    case 0x1e: /* HANDSHAKE_DONE */
        return true;
    case FRAME_ACK:
    case FRAME_ACK_ECN:
        return skip_ack(r, type == FRAME_ACK_ECN);
    case 0x04: /* RESET_STREAM */
        return sw_qread_skip_varints(r, 3);
    case 0x05: /* STOP_SENDING */
    case 0x11: /* MAX_STREAM_DATA */
    case 0x15: /* STREAM_DATA_BLOCKED */
        return sw_qread_skip_varints(r, 2);
    case 0x06: /* CRYPTO */
        return sw_qread_skip_varints(r, 1) && skip_counted(r);
    case 0x07: /* NEW_TOKEN */
    case 0x31: /* DATAGRAM with a length */
        return skip_counted(r);
    case 0x10: /* MAX_DATA, MAX_STREAMS, DATA_BLOCKED, STREAMS_BLOCKED, RETIRE_CONNECTION_ID */
    case 0x12:
    case 0x13:
    case 0x14:
    case 0x16:
    case 0x17:
    case 0x19:
        return sw_qread_skip_varints(r, 1);
    case FRAME_NEW_CID:
        return skip_new_cid(r);
    case 0x1a: /* PATH_CHALLENGE, PATH_RESPONSE */
    case 0x1b:
        return sw_qread_skip(r, 8);
    case 0x1c: /* CONNECTION_CLOSE */
        return sw_qread_skip_varints(r, 2) && skip_counted(r);
    case 0x1d:
        return sw_qread_skip_varints(r, 1) && skip_counted(r);
    case 0x30: /* DATAGRAM */
        return sw_qread_skip(r, r->n - r->at);
    default:
        return type >= 0x08 && type <= 0x0f && skip_stream(r, type);
    }
}

/* An ACK frame, from behind its type: the ranges beside the first one. */
static bool has_gaps(const uint8_t *p, size_t n)
{
    struct sw_qreader r = {.p = p, .n = n};
    uint64_t ranges;

    return !sw_qread_skip_varints(&r, 2) || !sw_qread_varint(&r, &ranges) || ranges > 0;
}

static bool allows_ack_delay(uint64_t type, const uint8_t *body, size_t n)
{
    if (type == FRAME_ACK || type == FRAME_ACK_ECN)
        return !has_gaps(body, n);
    /* Of streams and their credit, DATAGRAM. */
    return type <= FRAME_PING || type == 0x04 || type == 0x05 || (type >= 0x08 && type <= 0x17) ||
           type == 0x30 || type == 0x31;
}

bool sw_qframes_allow_ack_delay(const uint8_t *p, size_t n)
{
    struct sw_qreader r = {.p = p, .n = n};

    while (r.at < r.n) {
        uint64_t type;
        size_t body;

        if (!sw_qread_varint(&r, &type))
            return false;
        body = r.at;
        if (!sw_qread_skip_frame(&r, type) || !allows_ack_delay(type, p + body, r.at - body))
            return false;
    }
    return true;
}

/* ---- connection IDs ---- */

enum {
    WINDOW = 64, /* bits of 'seen' */
    /*
     * ngtcp2 takes no more than 16 retirements that are not acknowledged. At most eleven IDs are
     * held at a time: seven by the limit we give, and four that are bound to paths, which it does
     * not count.
     */
    FIRST_BUDGET = 10, /* while but one is held */
    BUDGET = 5,
};

void sw_qids_init(struct sw_qids *s, bool bounded)
{
    *s = (struct sw_qids){.seen = 1, .bounded = bounded, .budget = FIRST_BUDGET};
}

bool sw_qids_short(const struct sw_qids *s)
{
    return s->bounded && s->budget < BUDGET;
}

void sw_qids_settled(struct sw_qids *s)
{
    s->budget = BUDGET;
}

static bool was_seen(const struct sw_qids *s, uint64_t seq)
{
    return seq <= s->top && (s->top - seq >= WINDOW || (s->seen >> (s->top - seq) & 1));
}

void sw_qids_given(struct sw_qids *s, uint64_t seq)
{
    if (seq > s->top) {
        s->seen = seq - s->top < WINDOW ? s->seen << (seq - s->top) : 0;
        s->top = seq;
    }
    if (s->top - seq < WINDOW)
        s->seen |= UINT64_C(1) << (s->top - seq);
}

/* The peer gets its acknowledgement, and ngtcp2 sees nothing of it. */
static void blank(uint8_t *p, size_t n)
{
    memset(p, 0, n); /* PADDING */
    p[0] = FRAME_PING;
}

/* A frame of a packet: its type is at 'from'. */
struct span {
    size_t from;
    size_t body;
    size_t end;
};

/* False: the packet must not continue. */
static bool screen_one(struct sw_qids *s, uint8_t *p, struct span at)
{
    struct sw_qreader r = {.p = p + at.body, .n = at.end - at.body};
    uint64_t seq, prior;
    bool seen;

    if (!sw_qread_varint(&r, &seq) || !sw_qread_varint(&r, &prior))
        return true;
    seen = was_seen(s, seq);
    if (!seen && s->bounded && s->budget == 0)
        return false;
    if (prior <= seq && prior > s->prior)
        s->prior = prior;
    if (seen && seq < s->prior)
        blank(p + at.from, at.end - at.from);
    if (!seen && s->budget > 0)
        s->budget--;
    sw_qids_given(s, seq);
    return true;
}

bool sw_qids_screen(struct sw_qids *s, uint8_t *p, size_t n)
{
    struct sw_qreader r = {.p = p, .n = n};

    while (r.at < r.n) {
        size_t from = r.at;
        size_t body;
        uint64_t type;

        if (!sw_qread_varint(&r, &type))
            return true;
        body = r.at;
        if (!sw_qread_skip_frame(&r, type))
            return true;
        if (type != FRAME_NEW_CID)
            continue;
        if (!s)
            blank(p + from, r.at - from);
        else if (!screen_one(s, p, (struct span){from, body, r.at}))
            return false;
    }
    return true;
}

/* ---- acknowledgements ---- */

static void hide_acks(uint8_t *p, size_t n)
{
    struct sw_qreader r = {.p = p, .n = n};

    while (r.at < r.n) {
        size_t from = r.at;
        uint64_t type;

        if (!sw_qread_varint(&r, &type) || !sw_qread_skip_frame(&r, type))
            return;
        if (type == FRAME_ACK || type == FRAME_ACK_ECN)
            memset(p + from, 0, r.at - from); /* PADDING */
    }
}

uint64_t sw_qnumber(const uint8_t iv[SW_QIV_LEN], const uint8_t nonce[SW_QIV_LEN])
{
    uint64_t pn = 0;

    for (size_t i = SW_QIV_LEN - sizeof(pn); i < SW_QIV_LEN; i++)
        pn = pn << 8 | (uint8_t)(nonce[i] ^ iv[i]);
    return pn;
}

void sw_qacks_screen(struct sw_qacks *s, uint64_t number, uint8_t *p, size_t n)
{
    if (number < s->next)
        hide_acks(p, n);
    else
        s->next = number + 1;
}

void sw_qacks_screen_long(struct sw_qacks *s, uint8_t first, uint8_t *p, size_t n)
{
    bool *opened = (first & 0x30) == 0 ? &s->initial : &s->handshake;

    if (*opened)
        hide_acks(p, n);
    *opened = true;
}
