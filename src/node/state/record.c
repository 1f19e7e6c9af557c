/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a workload: how its texts lie behind it (node/workload.c reads them). */
#include <stddef.h>
#include <string.h>

#include "base/hex.h"
#include "base/mem.h"
#include "node/state/state_int.h"

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
