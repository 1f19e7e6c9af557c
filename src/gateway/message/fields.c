/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/message/fields.h"

#include <string.h>

static const struct {
    struct sw_slice name;
    uint8_t hid;
} known[] = {
#define ROW(id, text) {SW_SLICE_LIT(text), SW_GW_H_##id},
    SW_GW_HEADERS(ROW)
#undef ROW
};

enum { KNOWN_MAX = 24 }; /* longer names are not known */

/* Candidates by length, filled from the table by the compiler's own reading of it. */
#define L(id) SW_GW_H_##id
static const uint8_t by_length[KNOWN_MAX + 1][4] = {
    [2] = {L(TE)},
    [3] = {L(VIA)},
    [4] = {L(HOST), L(DATE)},
    [6] = {L(SERVER), L(EXPECT)},
    [7] = {L(UPGRADE), L(TRAILER)},
    [9] = {L(FORWARDED)},
    [10] = {L(CONNECTION), L(KEEP_ALIVE)},
    [11] = {L(GRPC_STATUS)},
    [12] = {L(CONTENT_TYPE), L(X_REQUEST_ID), L(GRPC_TIMEOUT)},
    [14] = {L(CONTENT_LENGTH), L(HTTP2_SETTINGS)},
    [15] = {L(X_FORWARDED_FOR)},
    [16] = {L(X_FORWARDED_HOST), L(PROXY_CONNECTION)},
    [17] = {L(X_FORWARDED_PROTO), L(TRANSFER_ENCODING)},
    [23] = {L(X_FORWARDED_CLIENT_CERT)},
};
#undef L

/* Names are tokens: with bit 5 set, no other byte of theirs becomes a small letter or '-'. */
static bool same_name(const char *name, const char *small, size_t n)
{
    const uint64_t bit5 = 0x2020202020202020U;
    uint64_t a;
    uint64_t b;
    size_t i = 0;

    for (; i + 8 <= n; i += 8) {
        memcpy(&a, name + i, 8);
        memcpy(&b, small + i, 8);
        if ((a | bit5) != b)
            return false;
    }
    for (; i < n; i++) {
        if ((name[i] | 0x20) != small[i])
            return false;
    }
    return true;
}

enum sw_gw_hid sw_gw_hid(struct sw_slice name)
{
    if (name.n > KNOWN_MAX)
        return SW_GW_H_OTHER;
    for (const uint8_t *id = by_length[name.n]; id < by_length[name.n] + 4 && *id; id++) {
        if (same_name(name.p, known[*id - 1].name.p, name.n))
            return known[*id - 1].hid;
    }
    return SW_GW_H_OTHER;
}

void sw_gw_fields_init(struct sw_arena *a, struct sw_gw_fields *f, size_t cap)
{
    f->n = 0;
    f->cap = (uint32_t)cap;
    f->p = sw_arena_array(a, cap, sizeof(*f->p));
    f->hid = sw_arena_alloc(a, cap);
}

static void grow(struct sw_arena *a, struct sw_gw_fields *f)
{
    struct sw_gw_fields old = *f;

    sw_gw_fields_init(a, f, old.cap ? (size_t)old.cap * 2 : 16);
    if (old.n) {
        memcpy(f->p, old.p, old.n * sizeof(*f->p));
        memcpy(f->hid, old.hid, old.n);
    }
    f->n = old.n;
}

void sw_gw_fields_add_known(struct sw_arena *a, struct sw_gw_fields *f, enum sw_gw_hid id,
                            struct sw_slice name, struct sw_slice value)
{
    if (f->n == f->cap)
        grow(a, f);
    f->p[f->n] = (struct sw_h1_field){.name = name, .value = value};
    f->hid[f->n++] = (uint8_t)id;
}

void sw_gw_fields_add(struct sw_arena *a, struct sw_gw_fields *f, struct sw_slice name,
                      struct sw_slice value)
{
    sw_gw_fields_add_known(a, f, sw_gw_hid(name), name, value);
}

struct sw_slice *sw_gw_fields_get(const struct sw_gw_fields *f, enum sw_gw_hid id)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->hid[i] == id)
            return &f->p[i].value;
    }
    return NULL;
}

bool sw_gw_fields_grpc(const struct sw_gw_fields *f)
{
    const struct sw_slice *type = sw_gw_fields_get(f, SW_GW_H_CONTENT_TYPE);

    return type && type->n >= 16 &&
           sw_slice_ieq(sw_slice_head(*type, 16), SW_SLICE_LIT("application/grpc")) &&
           (type->n == 16 || type->p[16] == '+' || type->p[16] == ';');
}

struct sw_slice *sw_gw_fields_find(const struct sw_gw_fields *f, struct sw_slice name)
{
    for (uint32_t i = 0; i < f->n; i++) {
        if (sw_slice_ieq(f->p[i].name, name))
            return &f->p[i].value;
    }
    return NULL;
}

void sw_gw_fields_remove(struct sw_gw_fields *f, struct sw_slice name)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < f->n; i++) {
        if (sw_slice_ieq(f->p[i].name, name))
            continue;
        f->p[k] = f->p[i];
        f->hid[k++] = f->hid[i];
    }
    f->n = k;
}

bool sw_gw_fields_drop_underscored(struct sw_gw_fields *f)
{
    uint32_t n = f->n;
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (memchr(f->p[i].name.p, '_', f->p[i].name.n))
            continue;
        f->p[k] = f->p[i];
        f->hid[k++] = f->hid[i];
    }
    f->n = k;
    return k != n;
}

void sw_gw_fields_set(struct sw_arena *a, struct sw_gw_fields *f, struct sw_slice name,
                      struct sw_slice value)
{
    sw_gw_fields_remove(f, name);
    sw_gw_fields_add(a, f, name, value);
}
