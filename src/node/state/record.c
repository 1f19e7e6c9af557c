/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a workload: how its texts lie behind it, and how they are read. */
#include <stddef.h>
#include <string.h>

#include "base/hex.h"
#include "base/mem.h"
#include "node/state/state_int.h"

/* ---- writing ---- */

static bool all_v4(const struct sw_workload_spec *spec)
{
    for (size_t i = 0; i < spec->n_ips; i++) {
        if (spec->ips[i].family != 4)
            return false;
    }
    return true;
}

static void put_ip(struct sw_workload *w, size_t i, const struct sw_ip *ip)
{
    if (w->only_v4)
        memcpy(w->bytes + 4 * i, ip->b, 4);
    else
        memcpy(w->bytes + sizeof(*ip) * i, ip, sizeof(*ip));
}

/*
 * A uid is cut before a name that is its end, as pods are called, or not at all: a name with a
 * slash is not cut off, so that a kind in the uid is whole. What is too long for a byte is all
 * head.
 */
static struct sw_slice uid_tail(const struct sw_workload_spec *spec)
{
    struct sw_slice all = spec->uid;
    bool whole = spec->name.n == 0 || !sw_slice_has_suffix(all, spec->name) ||
                 sw_slice_find(spec->name, '/') >= 0;
    size_t n = whole ? all.n : spec->name.n;

    return sw_slice_from(all, n <= UINT8_MAX ? all.n - n : all.n);
}

/* Versions are digests as a rule. Upper-case digits would not come back. */
static bool is_hex(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!(s.p[i] >= '0' && s.p[i] <= '9') && !(s.p[i] >= 'a' && s.p[i] <= 'f'))
            return false;
    }
    return s.n % 2 == 0;
}

static char *put_bytes(char *at, const void *p, size_t n)
{
    if (n)
        memcpy(at, p, n);
    return at + n;
}

static char *put_text(char *at, struct sw_slice s)
{
    uint16_t n = (uint16_t)s.n;

    return put_bytes(put_bytes(at, &n, sizeof(n)), s.p, s.n);
}

static char *put_version(char *at, const struct sw_workload *w, struct sw_slice version)
{
    if (!w->hex_version)
        return put_bytes(at, version.p, version.n);
    (void)sw_hex_read(version, at, version.n / 2);
    return at + version.n / 2;
}

/* One block: the record, its addresses and what is its own of the texts. */
struct sw_workload *sw_state_record(const struct sw_workload_spec *spec)
{
    struct sw_slice tail = uid_tail(spec);
    struct sw_slice version =
        spec->version.n > SW_WORKLOAD_VERSION_MAX ? sw_slice("", 0) : spec->version;
    uint32_t capacity = spec->has_capacity ? spec->capacity : 1;
    struct sw_workload draft = {.uid_n = (uint8_t)tail.n,
                                .n_ips = (uint8_t)spec->n_ips,
                                .healthy = !spec->unhealthy,
                                .only_v4 = all_v4(spec),
                                .hex_version = is_hex(version),
                                .has_capacity = capacity != 1,
                                .name_apart = !sw_slice_eq(spec->name, tail),
                                .has_hostname = spec->hostname.n != 0};
    size_t ips = spec->n_ips * sw_workload_ip_size(&draft);
    struct sw_workload *w;
    size_t size;
    char *at;

    draft.version_n = (uint8_t)(draft.hex_version ? version.n / 2 : version.n);
    size = offsetof(struct sw_workload, bytes) + ips + tail.n + draft.version_n +
           (draft.has_capacity ? sizeof(capacity) : 0) +
           (draft.name_apart ? sizeof(uint16_t) + spec->name.n : 0) +
           (draft.has_hostname ? sizeof(uint16_t) + spec->hostname.n : 0);
    w = sw_malloc(sw_max(size, sizeof(*w)));
    *w = draft;
    for (size_t i = 0; i < spec->n_ips; i++)
        put_ip(w, i, &spec->ips[i]);
    at = put_version(put_bytes(w->bytes + ips, tail.p, tail.n), w, version);
    if (draft.has_capacity)
        at = put_bytes(at, &capacity, sizeof(capacity));
    if (draft.name_apart)
        at = put_text(at, spec->name);
    if (draft.has_hostname)
        (void)put_text(at, spec->hostname);
    return w;
}

/* ---- reading ---- */

static const char *behind_uid(const struct sw_workload *w)
{
    return w->bytes + w->n_ips * sw_workload_ip_size(w) + w->uid_n;
}

static const char *behind_version(const struct sw_workload *w)
{
    return behind_uid(w) + w->version_n;
}

static struct sw_slice get_text(const char *at)
{
    uint16_t n;

    memcpy(&n, at, sizeof(n));
    return sw_slice(at + sizeof(n), n);
}

static const char *behind_capacity(const struct sw_workload *w)
{
    return behind_version(w) + (w->has_capacity ? sizeof(uint32_t) : 0);
}

struct sw_slice sw_workload_uid(const struct sw_workload *w, struct sw_arena *a)
{
    struct sw_slice head = w->c->uid_head;
    struct sw_slice tail = sw_workload_uid_tail(w);
    char *to;

    if (!head.n)
        return tail;
    if (!tail.n)
        return head;
    to = sw_arena_alloc(a, head.n + tail.n);
    memcpy(to, head.p, head.n);
    memcpy(to + head.n, tail.p, tail.n);
    return sw_slice(to, head.n + tail.n);
}

bool sw_workload_is(const struct sw_workload *w, struct sw_slice uid)
{
    struct sw_slice tail = sw_workload_uid_tail(w);

    return sw_slice_has_suffix(uid, tail) &&
           sw_slice_eq(sw_slice_head(uid, uid.n - tail.n), w->c->uid_head);
}

static size_t uid_length(const struct sw_workload *w)
{
    return w->c->uid_head.n + w->uid_n;
}

static uint8_t uid_byte(const struct sw_workload *w, size_t i)
{
    struct sw_slice head = w->c->uid_head;

    return (uint8_t)(i < head.n ? head.p[i] : sw_workload_uid_tail(w).p[i - head.n]);
}

bool sw_workload_same(const struct sw_workload *a, const struct sw_workload *b)
{
    return uid_length(a) == uid_length(b) && sw_workload_cmp(a, b) == 0;
}

int sw_workload_cmp(const struct sw_workload *a, const struct sw_workload *b)
{
    size_t x = uid_length(a);
    size_t y = uid_length(b);

    if (sw_slice_eq(a->c->uid_head, b->c->uid_head))
        return sw_slice_cmp(sw_workload_uid_tail(a), sw_workload_uid_tail(b));
    for (size_t i = 0; i < x && i < y; i++) {
        if (uid_byte(a, i) != uid_byte(b, i))
            return uid_byte(a, i) < uid_byte(b, i) ? -1 : 1;
    }
    return x == y ? 0 : x < y ? -1 : 1;
}

struct sw_slice sw_workload_version(const struct sw_workload *w, struct sw_arena *a)
{
    const char *from = behind_uid(w);
    char *to;

    if (!w->hex_version)
        return sw_slice(from, w->version_n);
    to = sw_arena_alloc(a, 2 * (size_t)w->version_n);
    (void)sw_hex_write(to, from, w->version_n);
    return sw_slice(to, 2 * (size_t)w->version_n);
}

uint32_t sw_workload_capacity(const struct sw_workload *w)
{
    uint32_t capacity = 1;

    if (w->has_capacity)
        memcpy(&capacity, behind_version(w), sizeof(capacity));
    return capacity;
}

struct sw_slice sw_workload_name(const struct sw_workload *w)
{
    return w->name_apart ? get_text(behind_capacity(w)) : sw_workload_uid_tail(w);
}

struct sw_slice sw_workload_hostname(const struct sw_workload *w)
{
    const char *at = behind_capacity(w);

    if (!w->has_hostname)
        return sw_slice("", 0);
    if (w->name_apart)
        at += sizeof(uint16_t) + get_text(at).n;
    return get_text(at);
}
