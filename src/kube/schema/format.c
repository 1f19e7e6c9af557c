/* SPDX-License-Identifier: Apache-2.0 */
/* The string formats of schemas. A format that is not known here is not checked. */
#include <ctype.h>
#include <stdatomic.h>

#include "base/hex.h"
#include "kube/names.h"
#include "kube/schema/schema.h"
#include "regex/regex.h"

static bool digits(struct sw_slice s, size_t at, size_t n, unsigned *ret)
{
    *ret = 0;
    if (at + n > s.n)
        return false;
    for (size_t i = at; i < at + n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        *ret = *ret * 10 + (unsigned)(s.p[i] - '0');
    }
    return true;
}

static unsigned month_days(unsigned y, unsigned m)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

    return days[m - 1] + (m == 2 && leap);
}

static bool is_date(struct sw_slice s)
{
    unsigned y, m, d;

    return s.n == 10 && digits(s, 0, 4, &y) && s.p[4] == '-' && digits(s, 5, 2, &m) &&
           s.p[7] == '-' && digits(s, 8, 2, &d) && m >= 1 && m <= 12 && d >= 1 &&
           d <= month_days(y, m);
}

static bool is_date_time(struct sw_slice s)
{
    unsigned h, m, sec, zh, zm;
    size_t i = 19;

    if (s.n < 20 || !is_date(sw_slice_head(s, 10)) || (s.p[10] | 0x20) != 't')
        return false;
    if (!digits(s, 11, 2, &h) || s.p[13] != ':' || !digits(s, 14, 2, &m) || s.p[16] != ':' ||
        !digits(s, 17, 2, &sec) || h > 23 || m > 59 || sec > 59)
        return false;
    if (s.p[i] == '.') {
        size_t from = ++i;

        while (i < s.n && isdigit((unsigned char)s.p[i]))
            i++;
        if (i == from)
            return false;
    }
    if (i + 1 == s.n)
        return (s.p[i] | 0x20) == 'z';
    return i + 6 == s.n && (s.p[i] == '+' || s.p[i] == '-') && digits(s, i + 1, 2, &zh) &&
           s.p[i + 3] == ':' && digits(s, i + 4, 2, &zm);
}

static bool is_uri(struct sw_slice s)
{
    size_t i = 0;

    for (size_t j = 0; j < s.n; j++) {
        unsigned char c = (unsigned char)s.p[j];

        if (c <= 0x20 || c == 0x7f)
            return false;
        if (c == '%' && sw_hex_escape(s, j) < 0)
            return false;
    }
    if (s.n && s.p[0] == '/')
        return true;
    while (i < s.n && (isalnum((unsigned char)s.p[i]) || (i && strchr("+-.", s.p[i]))))
        i++;
    return i > 0 && isalpha((unsigned char)s.p[0]) && i < s.n && s.p[i] == ':' && i + 1 < s.n;
}

/* Formats that are an expression. */
static const struct {
    const char *name;
    const char *re;
} patterns[] = {
    {"email", "^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
              "(\\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$"},
    {"hostname", "^([a-zA-Z0-9\\p{S}\\p{L}]((-?[a-zA-Z0-9\\p{S}\\p{L}]{0,62})?)|"
                 "([a-zA-Z0-9\\p{S}\\p{L}](([a-zA-Z0-9-\\p{S}\\p{L}]{0,61}"
                 "[a-zA-Z0-9\\p{S}\\p{L}])?)(\\.)){1,}([a-zA-Z\\p{L}]){2,63})$"},
    {"uuid", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$"},
    {"uuid3", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$"},
    {"uuid4", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"},
    {"uuid5", "(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$"},
    {"byte", "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$"},
    {"mac", "^[0-9A-Fa-f]{2}([:-][0-9A-Fa-f]{2}){5}$|^([0-9A-Fa-f]{4}\\.){2}[0-9A-Fa-f]{4}$"},
    {"hexcolor", "^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"},
    {"rgbcolor", "^rgb\\(\\s*(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|25[0-5])\\s*,\\s*"
                 "(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|25[0-5])\\s*,\\s*"
                 "(0|[1-9]\\d?|1\\d\\d?|2[0-4]\\d|25[0-5])\\s*\\)$"},
    {"bsonobjectid", "^[0-9a-fA-F]{24}$"},
    {"ssn", "^\\d{3}[- ]?\\d{2}[- ]?\\d{4}$"},
    {"duration", "^[+-]?(0|([0-9]+\\.?[0-9]*|\\.[0-9]+)(ns|us|\xc2\xb5s|\xce\xbcs|ms|s|m|h)"
                 "(([0-9]+\\.?[0-9]*|\\.[0-9]+)(ns|us|\xc2\xb5s|\xce\xbcs|ms|s|m|h))*)$|"
                 "^\\s*(\\d+(\\.\\d+)?\\s*(ns|nanos?|nanoseconds?|us|micros?|microseconds?|ms|"
                 "millis?|milliseconds?|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|"
                 "weeks?)\\s*)$"},
};

/* The expression of a format, compiled at its first use and kept. NULL: it is none. */
static const struct sw_regex *pattern_at(size_t i)
{
    static _Atomic(struct sw_regex *) made[SW_ARRAY_LEN(patterns)];
    struct sw_regex *known = atomic_load_explicit(&made[i], memory_order_acquire);
    struct sw_regex *re;

    if (known)
        return known;
    if (sw_regex_new(sw_slice_str(patterns[i].re), &re, NULL) < 0)
        return NULL;
    if (atomic_compare_exchange_strong(&made[i], &known, re))
        return re;
    sw_regex_free(re); /* another thread was first */
    return known;
}

static bool match_pattern(struct sw_slice format, struct sw_slice text, struct sw_budget *b)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(patterns); i++) {
        const struct sw_regex *re;

        if (!sw_slice_eq_str(format, patterns[i].name))
            continue;
        re = pattern_at(i);
        return re && sw_regex_match(re, text, b) == 1;
    }
    return true;
}

bool sw_format_ok(struct sw_slice format, struct sw_slice text, struct sw_budget *b)
{
    static const struct {
        const char *name;
        bool (*ok)(struct sw_slice);
    } checks[] = {
        {"date", is_date},    {"date-time", is_date_time}, {"datetime", is_date_time},
        {"ipv4", sw_is_ipv4}, {"ipv6", sw_is_ipv6},        {"cidr", sw_is_cidr},
        {"uri", is_uri},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(checks); i++) {
        if (sw_slice_eq_str(format, checks[i].name))
            return checks[i].ok(text);
    }
    return match_pattern(format, text, b);
}
