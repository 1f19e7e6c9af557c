/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time.h"

#include <stdio.h>
#include <time.h>

static uint64_t read_clock(clockid_t id)
{
    struct timespec ts;

    (void)clock_gettime(id, &ts);
    return (uint64_t)ts.tv_sec * SW_NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t sw_now_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t sw_wall_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

char *sw_rfc3339(uint64_t wall_ns, int micros, char out[SW_RFC3339_LEN])
{
    time_t sec = (time_t)(wall_ns / SW_NS_PER_S);
    struct tm tm;
    size_t n;

    (void)gmtime_r(&sec, &tm);
    n = strftime(out, SW_RFC3339_LEN, "%Y-%m-%dT%H:%M:%S", &tm);
    if (micros)
        (void)snprintf(out + n, SW_RFC3339_LEN - n, ".%06uZ",
                       (unsigned)(wall_ns % SW_NS_PER_S / 1000));
    else
        (void)snprintf(out + n, SW_RFC3339_LEN - n, "Z");
    return out;
}

static const struct {
    struct sw_slice name;
    uint64_t ns;
} units[] = {
    {{"ns", 2}, 1},
    {{"us", 2}, SW_NS_PER_US},
    {{"ms", 2}, SW_NS_PER_MS},
    {{"s", 1}, SW_NS_PER_S},
    {{"m", 1}, 60 * SW_NS_PER_S},
    {{"h", 1}, 3600 * SW_NS_PER_S},
    {{"d", 1}, 86400 * SW_NS_PER_S},
};

#define MAX_DURATION (UINT64_C(100) * 366 * 86400 * SW_NS_PER_S)

int sw_duration_parse(struct sw_slice in, uint64_t *ret_ns, struct sw_err *err)
{
    uint64_t total = 0;
    size_t at = 0;

    if (sw_slice_eq_str(in, "0")) {
        *ret_ns = 0;
        return SW_OK;
    }
    if (in.n == 0)
        return sw_err_set(err, SW_EINVAL, "empty duration");
    while (at < in.n) {
        size_t digits = at;
        size_t unit;
        uint64_t value;
        uint64_t scale = 0;

        while (digits < in.n && in.p[digits] >= '0' && in.p[digits] <= '9')
            digits++;
        unit = digits;
        while (unit < in.n && (in.p[unit] < '0' || in.p[unit] > '9'))
            unit++;
        if (!sw_slice_to_u64(sw_slice(in.p + at, digits - at), MAX_DURATION, &value))
            return sw_err_at(err, SW_EINVAL, at, "'%.*s' is not a duration such as '5s' or '10m'",
                             SW_SLICE_ARG(in));
        for (size_t i = 0; i < SW_ARRAY_LEN(units); i++) {
            if (sw_slice_eq(units[i].name, sw_slice(in.p + digits, unit - digits)))
                scale = units[i].ns;
        }
        if (scale == 0)
            return sw_err_at(err, SW_EINVAL, digits,
                             "duration '%.*s' needs a unit: ns, us, ms, s, m, h or d",
                             SW_SLICE_ARG(in));
        if (__builtin_mul_overflow(value, scale, &value) ||
            __builtin_add_overflow(total, value, &total) || total > MAX_DURATION)
            return sw_err_at(err, SW_EINVAL, at, "duration '%.*s' is too long", SW_SLICE_ARG(in));
        at = unit;
    }
    *ret_ns = total;
    return SW_OK;
}
