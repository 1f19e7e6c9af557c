/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the record of a workload; node/state/record.c makes it. */
#include "node/workload.h"

#include "base/hex.h"

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

const char *sw_workload_type_name(enum sw_workload_type type)
{
    static const char *const names[] = {"deployment", "cronjob", "pod", "job"};

    return names[type];
}
