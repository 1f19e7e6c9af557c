/* SPDX-License-Identifier: Apache-2.0 */
/* Durations and times. */
#include <ctype.h>
#include <stdlib.h>

#include "base/time.h"
#include "kube/cel/fn.h"
#include "kube/errs.h"

const char *cel_time_text(struct cel_env *env, const struct cel_val *v)
{
    char out[SW_RFC3339_LEN];

    if (v->i < 0)
        return sw_arena_printf(env->a, "%lld", (long long)v->i);
    return sw_arena_dup(
        env->a,
        sw_slice_str(sw_rfc3339((uint64_t)v->i * SW_NS_PER_S + (uint64_t)v->ns, v->ns != 0, out)));
}

FN(duration)
{
    struct cel_val r = {.k = CEL_DURATION};

    if (a[0].k == CEL_DURATION)
        return a[0];
    if (a[0].k != CEL_STRING)
        return cel_error(env, "no such overload");
    if (!cel_parse_duration(a[0].s, &r.i))
        return cel_error(env, "time: invalid duration %s", sw_go_quote(env->a, a[0].s));
    return r;
}

FN(timestamp)
{
    struct cel_val r = {.k = CEL_TIMESTAMP};

    if (a[0].k == CEL_TIMESTAMP)
        return a[0];
    if (a[0].k == CEL_INT) {
        r.i = a[0].i;
        return r;
    }
    if (a[0].k != CEL_STRING)
        return cel_error(env, "no such overload");
    if (!cel_parse_time(a[0].s, &r.i, &r.ns))
        return cel_error(env, "parsing time %s: invalid", sw_go_quote(env->a, a[0].s));
    return r;
}

/* Days since the epoch to a civil date. */
static void civil(int64_t days, int64_t *y, int *m, int *d)
{
    int64_t z = days + 719468;
    int64_t era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;

    *d = (int)(doy - (153 * mp + 2) / 5 + 1);
    *m = (int)(mp < 10 ? mp + 3 : mp - 9);
    *y = yoe + era * 400 + (*m <= 2);
}

static int64_t from_civil(int64_t y, int m, int d)
{
    int64_t era, yoe, doy, doe;

    y -= m <= 2;
    era = (y >= 0 ? y : y - 399) / 400;
    yoe = y - era * 400;
    doy = (153 * (m + (m > 2 ? -3 : 9)) + 2) / 5 + d - 1;
    doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    return era * 146097 + doe - 719468;
}

static int64_t date_part(struct sw_slice name, int64_t sec, int32_t ns)
{
    int64_t days = sec / 86400 - (sec % 86400 < 0);
    int64_t in_day = sec - days * 86400;
    int64_t y;
    int m, d;

    civil(days, &y, &m, &d);
    if (sw_slice_eq_str(name, "getFullYear"))
        return y;
    if (sw_slice_eq_str(name, "getMonth"))
        return m - 1;
    if (sw_slice_eq_str(name, "getDate"))
        return d;
    if (sw_slice_eq_str(name, "getDayOfMonth"))
        return d - 1;
    if (sw_slice_eq_str(name, "getDayOfWeek"))
        return ((days % 7) + 11) % 7;
    if (sw_slice_eq_str(name, "getDayOfYear"))
        return days - from_civil(y, 1, 1);
    if (sw_slice_eq_str(name, "getHours"))
        return in_day / 3600;
    if (sw_slice_eq_str(name, "getMinutes"))
        return in_day / 60 % 60;
    if (sw_slice_eq_str(name, "getSeconds"))
        return in_day % 60;
    return ns / 1000000;
}

FN(time_part)
{
    if (a[0].k == CEL_TIMESTAMP)
        return cel_int(date_part(n->name, a[0].i, a[0].ns));
    if (a[0].k != CEL_DURATION)
        return cel_error(env, "no such overload");
    if (sw_slice_eq_str(n->name, "getHours"))
        return cel_int(a[0].i / INT64_C(3600000000000));
    if (sw_slice_eq_str(n->name, "getMinutes"))
        return cel_int(a[0].i / INT64_C(60000000000));
    if (sw_slice_eq_str(n->name, "getSeconds"))
        return cel_int(a[0].i / INT64_C(1000000000));
    return cel_int(a[0].i / 1000000);
}

/* Two digits the format check has already seen. */
static int two(const char *p)
{
    return (p[0] - '0') * 10 + (p[1] - '0');
}

bool cel_parse_time(struct sw_slice s, int64_t *ret_sec, int32_t *ret_ns)
{
    char b[48];
    size_t i = 19;
    int64_t zone = 0;
    int32_t ns = 0;

    /* Afterwards every digit is where it belongs: YYYY-MM-DDTHH:MM:SS[.f](Z|+HH:MM). */
    if (!sw_format_ok(SW_SLICE_LIT("date-time"), s, NULL) || !cel_to_text(s, b, sizeof(b)))
        return false;
    if (b[i] == '.') {
        int32_t unit = 100000000;

        for (i++; isdigit((unsigned char)b[i]); i++, unit /= 10)
            ns += (b[i] - '0') * unit;
    }
    if (b[i] == '+' || b[i] == '-')
        zone = (b[i] == '-' ? -60 : 60) * ((int64_t)two(b + i + 1) * 60 + two(b + i + 4));
    *ret_sec = from_civil(two(b) * 100 + two(b + 2), two(b + 5), two(b + 8)) * 86400 +
               (int64_t)two(b + 11) * 3600 + (int64_t)two(b + 14) * 60 + two(b + 17) - zone;
    *ret_ns = ns;
    return true;
}

bool cel_parse_duration(struct sw_slice s, int64_t *ret_ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = {{"ns", 1},   {"us", 1e3},   {"\xc2\xb5s", 1e3}, {"\xce\xbcs", 1e3},
                 {"ms", 1e6}, {"h", 3.6e12}, {"m", 6e10},        {"s", 1e9}};
    long double total = 0;
    bool neg = false;

    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) {
        neg = s.p[0] == '-';
        s = sw_slice_from(s, 1);
    }
    if (sw_slice_eq_str(s, "0")) {
        *ret_ns = 0;
        return true;
    }
    if (!s.n)
        return false;
    while (s.n) {
        char num[32];
        size_t k = 0;
        size_t u = 0;

        while (k < s.n && k < sizeof(num) - 1 && (isdigit((unsigned char)s.p[k]) || s.p[k] == '.'))
            k++;
        if (!cel_to_text(sw_slice_head(s, k), num, sizeof(num)) ||
            strchr(num, '.') != strrchr(num, '.') || (k == 1 && num[0] == '.'))
            return false;
        s = sw_slice_from(s, k);
        while (u < SW_ARRAY_LEN(units) && !sw_slice_has_prefix(s, sw_slice_str(units[u].unit)))
            u++;
        if (u == SW_ARRAY_LEN(units))
            return false;
        s = sw_slice_from(s, strlen(units[u].unit));
        total += strtold(num, NULL) * (long double)units[u].ns;
    }
    if (total > 9.223372036854775e18L)
        return false;
    *ret_ns = neg ? -(int64_t)total : (int64_t)total;
    return true;
}
