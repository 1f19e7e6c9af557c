/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/wire/qad.h"

#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "quic/wire/frames.h"

enum {
    FRAME_PING = 0x01,
    FRAME_DATAGRAM = 0x30,
    FRAME_DATAGRAM_LEN = 0x31,
    PARAM_DATAGRAM = 0x20,
    TYPE_LEN = 4,    /* of OBSERVED_ADDRESS, as a varint */
    SEQ_LEN = 4,     /* of the sequence numbers we send */
    MARK_LEN = 2,    /* before the sequence number in a DATAGRAM: family and a zero */
    REPORT_CAP = 64, /* one byte of length says it */
};

static const uint64_t observed_v4 = 0x9f81a6;
static const uint64_t observed_v6 = 0x9f81a7;
static const uint64_t param_role = 0x9f81a176;

static bool is_observed(uint64_t type)
{
    return type == observed_v4 || type == observed_v6;
}

/* ---- the field of HTTP ---- */

char *sw_qad_put_field(char out[SW_QAD_FIELD_MAX], uint16_t port, const uint8_t *pin)
{
    int n = snprintf(out, SW_QAD_FIELD_MAX, "%u%s", port, pin ? " " : "");

    if (pin)
        *sw_hex_write(out + n, pin, SW_QAD_PIN) = 0;
    return out;
}

int sw_qad_get_field(struct sw_slice text, uint16_t *ret_port, uint8_t *ret_pin, bool *ret_pinned,
                     struct sw_err *err)
{
    struct sw_slice rest = text;
    struct sw_slice number = sw_slice_cut(&rest, ' ');
    uint8_t pin[SW_QAD_PIN];
    uint64_t port;

    if (!sw_slice_to_u64(number, UINT16_MAX, &port) || port == 0 ||
        (rest.p && !sw_hex_read(rest, pin, SW_QAD_PIN)))
        return sw_err_set(err, SW_EPROTO, SW_QAD_FIELD ": neither a port nor a port and a digest");
    *ret_port = (uint16_t)port;
    *ret_pinned = rest.p != NULL;
    if (rest.p)
        memcpy(ret_pin, pin, sizeof(pin));
    return SW_OK;
}

/* ---- transport parameters ---- */

static void put_u32(uint8_t *out, uint64_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(v >> (24 - 8 * i));
}

void sw_qad_put_param(uint8_t *out, enum sw_qad_role role)
{
    put_u32(out, 0xc0000000); /* the number needs eight bytes as a varint */
    put_u32(out + 4, param_role);
    out[8] = 1;
    out[9] = (uint8_t)role;
}

static int read_role(const uint8_t *p, size_t n, enum sw_qad_role *role, struct sw_err *err)
{
    struct sw_qreader r = {.p = p, .n = n};
    uint64_t v;

    if (*role != SW_QAD_NONE)
        return sw_err_set(err, SW_EPROTO, "transport parameter 0x9f81a176 twice");
    if (!sw_qread_varint(&r, &v) || r.at != n || v > SW_QAD_BOTH)
        return sw_err_set(err, SW_EPROTO, "transport parameter 0x9f81a176 has no known value");
    *role = (enum sw_qad_role)v;
    return SW_OK;
}

int sw_qad_params_in(struct sw_slice in, uint8_t *out, size_t *ret_n, enum sw_qad_role *ret_role,
                     struct sw_err *err)
{
    struct sw_qreader r = {.p = (const uint8_t *)in.p, .n = in.n};
    enum sw_qad_role role = SW_QAD_NONE;
    size_t n = 0;

    while (r.at < r.n) {
        size_t from = r.at;
        uint64_t id;
        uint64_t len;
        int rc = SW_OK;

        if (!sw_qread_varint(&r, &id) || !sw_qread_varint(&r, &len) || !sw_qread_skip(&r, len))
            return sw_err_set(err, SW_EPROTO, "transport parameters are cut at byte %zu", from);
        if (id == param_role)
            rc = read_role(r.p + r.at - len, len, &role, err);
        if (rc != SW_OK)
            return rc;
        if (id == PARAM_DATAGRAM || id == param_role)
            continue;
        memcpy(out + n, r.p + from, r.at - from);
        n += r.at - from;
    }
    out[n++] = PARAM_DATAGRAM;
    out[n++] = 2;
    out[n++] = 0x40 | SW_QAD_DATAGRAM_FRAME >> 8;
    out[n++] = SW_QAD_DATAGRAM_FRAME & 0xff;
    *ret_n = n;
    *ret_role = role;
    return SW_OK;
}

/* ---- reports ---- */

const uint8_t sw_qad_ping[2] = {0, 0}; /* of no family */

size_t sw_qad_put_report(uint8_t out[SW_QAD_REPORT_MAX], const struct sw_addr *at, uint32_t seq)
{
    size_t len = sw_ip_len(&at->ip);
    uint8_t *p = out;

    *p++ = at->ip.family;
    *p++ = 0;
    put_u32(p, 0x80000000 | (seq & 0x3fffffff));
    p += SEQ_LEN;
    memcpy(p, at->ip.b, len);
    p += len;
    *p++ = (uint8_t)(at->port >> 8);
    *p++ = (uint8_t)at->port;
    return (size_t)(p - out);
}

bool sw_qad_get_report(const uint8_t *p, size_t n, struct sw_addr *ret_at, uint64_t *ret_seq)
{
    struct sw_qreader r = {.p = p, .n = n, .at = MARK_LEN};
    uint64_t seq;
    size_t len;
    struct sw_addr at = {0};

    if (n < MARK_LEN || (p[0] != 4 && p[0] != 6) || p[1] != 0 || !sw_qread_varint(&r, &seq))
        return false;
    len = p[0] == 4 ? 4 : 16;
    if (n - r.at != len + 2 || sw_ip_from_bytes(p + r.at, len, &at.ip, NULL) != SW_OK)
        return false;
    at.port = (uint16_t)(p[n - 2] << 8 | p[n - 1]);
    *ret_at = at;
    *ret_seq = seq;
    return true;
}

/* ---- frames ---- */

/* The DATAGRAM at p, of n bytes with its head, becomes OBSERVED_ADDRESS, or PING and PADDING. */
static bool report_out(uint8_t *p, size_t n)
{
    struct sw_addr at;
    uint64_t seq;

    if (n == 2 + sizeof(sw_qad_ping) && p[1] == sizeof(sw_qad_ping) &&
        memcmp(p + 2, sw_qad_ping, sizeof(sw_qad_ping)) == 0) {
        p[0] = FRAME_PING;
        p[1] = 0;
        return true;
    }
    if (n <= TYPE_LEN || p[1] != n - 2 || !sw_qad_get_report(p + 2, n - 2, &at, &seq))
        return false;
    put_u32(p, 0x80000000 | (p[2] == 4 ? observed_v4 : observed_v6));
    return true;
}

bool sw_qad_to_wire(uint8_t *p, size_t n)
{
    struct sw_qreader r = {.p = p, .n = n};

    while (r.at < r.n) {
        size_t from = r.at;
        uint64_t type;

        if (!sw_qread_varint(&r, &type) || !sw_qread_skip_frame(&r, type))
            return true;
        if ((type == FRAME_DATAGRAM || type == FRAME_DATAGRAM_LEN) &&
            !report_out(p + from, r.at - from))
            return false;
    }
    return true;
}

/* OBSERVED_ADDRESS at 'from', read up to its type: becomes a DATAGRAM. False: cut. */
static bool report_in(uint8_t *p, struct sw_qreader *r, size_t from, bool v6)
{
    if (r->at - from != TYPE_LEN || !sw_qread_skip_varints(r, 1) ||
        !sw_qread_skip(r, v6 ? 18 : 6) || r->at - from - 2 >= REPORT_CAP)
        return false;
    p[from] = FRAME_DATAGRAM_LEN;
    p[from + 1] = (uint8_t)(r->at - from - 2);
    p[from + 2] = v6 ? 6 : 4;
    p[from + 3] = 0;
    return true;
}

bool sw_qad_from_wire(uint8_t *p, size_t n)
{
    struct sw_qreader r = {.p = p, .n = n};

    while (r.at < r.n) {
        size_t from = r.at;
        uint64_t type;

        if (!sw_qread_varint(&r, &type))
            return true;
        if (type == FRAME_DATAGRAM || type == FRAME_DATAGRAM_LEN)
            return false;
        if (is_observed(type) ? !report_in(p, &r, from, type == observed_v6)
                              : !sw_qread_skip_frame(&r, type))
            return true;
    }
    return true;
}
