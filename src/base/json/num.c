/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers stay text in the tree; here they get a value, without rounding unless asked for. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/json/json_int.h"
#include "base/mem.h"

static inline const char *skip_digits(const char *s, const char *end)
{
    while (s < end && *s >= '0' && *s <= '9')
        s++;
    return s;
}

const char *sw_json_number_end(const char *s, const char *end, const char **ret_bad)
{
    const char *digits;

    *ret_bad = NULL;
    if (s < end && *s == '-')
        s++;
    digits = s;
    s = skip_digits(s, end);
    if (s == digits) {
        *ret_bad = s;
        return s;
    }
    if (*digits == '0' && s - digits > 1) {
        *ret_bad = digits + 1;
        return s;
    }
    if (s < end && *s == '.') {
        digits = ++s;
        s = skip_digits(s, end);
    }
    if (s == digits) {
        *ret_bad = s;
        return s;
    }
    if (s < end && (*s | 0x20) == 'e') {
        s++;
        if (s < end && (*s == '+' || *s == '-'))
            s++;
        digits = s;
        s = skip_digits(s, end);
        if (s == digits)
            *ret_bad = s;
    }
    return s;
}

bool sw_json_number_valid(struct sw_slice text)
{
    const char *bad;
    const char *end = text.n ? sw_json_number_end(text.p, text.p + text.n, &bad) : NULL;

    return end && !bad && end == text.p + text.n;
}

bool sw_json_is_integer(const struct sw_json *v)
{
    if (!sw_json_is(v, SW_JSON_NUMBER))
        return false;
    for (size_t i = 0; i < v->text.n; i++) {
        if (v->text.p[i] == '.' || (v->text.p[i] | 0x20) == 'e')
            return false;
    }
    return true;
}

bool sw_json_u64(const struct sw_json *v, uint64_t *ret)
{
    if (!sw_json_is(v, SW_JSON_NUMBER))
        return false;
    if (sw_slice_eq_str(v->text, "-0")) {
        *ret = 0;
        return true;
    }
    return sw_slice_to_u64(v->text, UINT64_MAX, ret);
}

bool sw_json_i64(const struct sw_json *v, int64_t *ret)
{
    bool negative;
    uint64_t n;

    if (!sw_json_is(v, SW_JSON_NUMBER) || v->text.n == 0)
        return false;
    negative = v->text.p[0] == '-';
    if (!sw_slice_to_u64(sw_slice_from(v->text, negative ? 1 : 0),
                         negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX, &n))
        return false;
    *ret = negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

/*
 * Value as sign * 0.D1D2D3... * 10^exp with D1 and the last digit not 0; zero has no digits.
 * Digits are not copied, so the point may stand between them.
 */
struct decimal {
    bool negative;
    const char *first; /* first and behind the last significant digit; a '.' may be between */
    const char *last;
    int64_t exp;
};

static int64_t parse_exponent(const char *s, const char *end)
{
    bool negative = s < end && *s == '-';
    int64_t e = 0;

    if (s < end && (*s == '-' || *s == '+'))
        s++;
    for (; s < end; s++) {
        if (e < INT64_C(1000000000000))
            e = e * 10 + (*s - '0');
    }
    return negative ? -e : e;
}

static struct decimal decompose(struct sw_slice t)
{
    struct decimal d = {0};
    const char *s = t.p;
    const char *end = t.p + t.n;
    const char *point = NULL;
    const char *mantissa_end;

    if (s < end && *s == '-') {
        d.negative = true;
        s++;
    }
    for (mantissa_end = s; mantissa_end < end && (*mantissa_end | 0x20) != 'e'; mantissa_end++) {
        if (*mantissa_end == '.')
            point = mantissa_end;
    }
    if (!point)
        point = mantissa_end;
    d.first = s;
    while (d.first < mantissa_end && (*d.first == '0' || *d.first == '.'))
        d.first++;
    d.last = mantissa_end;
    while (d.last > d.first && (d.last[-1] == '0' || d.last[-1] == '.'))
        d.last--;
    if (d.first == d.last) {
        d.negative = false; /* zero has one sign */
        return d;
    }
    d.exp = d.first < point ? point - d.first : -(d.first - point - 1);
    if (mantissa_end < end)
        d.exp += parse_exponent(mantissa_end + 1, end);
    return d;
}

static int cmp_digits(const struct decimal *a, const struct decimal *b)
{
    const char *x = a->first;
    const char *y = b->first;

    for (;;) {
        if (x < a->last && *x == '.')
            x++;
        if (y < b->last && *y == '.')
            y++;
        if (x == a->last || y == b->last)
            return (x < a->last) - (y < b->last);
        if (*x != *y)
            return *x < *y ? -1 : 1;
        x++;
        y++;
    }
}

int sw_json_number_cmp(struct sw_slice a, struct sw_slice b)
{
    struct decimal x = decompose(a);
    struct decimal y = decompose(b);
    bool x_zero = x.first == x.last;
    bool y_zero = y.first == y.last;
    int magnitude;

    if (x.negative != y.negative)
        return x.negative ? -1 : 1;
    if (x_zero || y_zero) {
        magnitude = (y_zero ? 1 : 0) - (x_zero ? 1 : 0);
    } else if (x.exp != y.exp) {
        magnitude = x.exp < y.exp ? -1 : 1;
    } else {
        magnitude = cmp_digits(&x, &y);
    }
    return x.negative ? -magnitude : magnitude;
}

bool sw_json_exact_i64(const struct sw_json *v, int64_t *ret)
{
    struct decimal d;
    uint64_t n = 0;
    int64_t digits = 0;

    if (!sw_json_is(v, SW_JSON_NUMBER))
        return false;
    d = decompose(v->text);
    if (d.exp > 19)
        return false;
    for (const char *s = d.first; s < d.last; s++) {
        if (*s == '.')
            continue;
        if (++digits > d.exp || __builtin_mul_overflow(n, 10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
            return false;
    }
    for (; digits < d.exp; digits++) {
        if (__builtin_mul_overflow(n, 10, &n))
            return false;
    }
    if (n > (uint64_t)INT64_MAX + (d.negative ? 1 : 0))
        return false;
    *ret = d.negative ? (int64_t)(0 - n) : (int64_t)n;
    return true;
}

bool sw_json_double(const struct sw_json *v, double *ret)
{
    char small[64];
    char *text = small;
    double d;

    if (!sw_json_is(v, SW_JSON_NUMBER))
        return false;
    if (v->text.n >= sizeof(small))
        text = sw_malloc(v->text.n + 1);
    memcpy(text, v->text.p, v->text.n);
    text[v->text.n] = '\0';
    d = strtod(text, NULL);
    if (text != small)
        sw_free(text);
    if (!isfinite(d))
        return false;
    *ret = d;
    return true;
}

struct sw_json *sw_json_new_i64(struct sw_arena *a, int64_t n)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRId64, n);
    return sw_json_new_number(a, sw_slice_str(text));
}

struct sw_json *sw_json_new_u64(struct sw_arena *a, uint64_t n)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%" PRIu64, n);
    return sw_json_new_number(a, sw_slice_str(text));
}

struct sw_json *sw_json_new_double(struct sw_arena *a, double d)
{
    char text[SW_JSON_DOUBLE_LEN];

    return sw_json_new_number(a, sw_slice(text, sw_json_format_double(d, text)));
}

/* Plain notation of 0.DIGITS * 10^point. */
static size_t plain_double(char *to, const char *digits, int n, int point)
{
    size_t len = 0;

    if (point <= 0) {
        to[len++] = '0';
        to[len++] = '.';
        for (int i = point; i < 0; i++)
            to[len++] = '0';
    }
    for (int i = 0; i < n; i++) {
        if (i == point && i > 0)
            to[len++] = '.';
        to[len++] = digits[i];
    }
    for (int i = n; i < point; i++)
        to[len++] = '0';
    return len;
}

size_t sw_json_format_double(double d, char out[SW_JSON_DOUBLE_LEN])
{
    char sci[40]; /* d.ddde+XX */
    char digits[24] = {0};
    int n = 0;
    int exp10;
    size_t len = 0;
    const char *e;

    if (d == 0 || !isfinite(d)) {
        size_t zero = signbit(d) && d == 0 ? 2 : 1;

        memcpy(out, zero == 2 ? "-0" : "0", zero);
        return zero;
    }
    for (int precision = 0; precision < 17; precision++) {
        (void)snprintf(sci, sizeof(sci), "%.*e", precision, d);
        if (strtod(sci, NULL) == d)
            break;
    }
    e = strchr(sci, 'e');
    exp10 = (int)strtol(e + 1, NULL, 10);
    for (const char *s = sci; s < e; s++) {
        if (*s >= '0' && *s <= '9')
            digits[n++] = *s;
    }
    if (d < 0)
        out[len++] = '-';
    if (exp10 >= -6 && exp10 < 21)
        return len + plain_double(out + len, digits, n, exp10 + 1);
    out[len++] = digits[0];
    if (n > 1) {
        out[len++] = '.';
        memcpy(out + len, digits + 1, (size_t)n - 1);
        len += (size_t)n - 1;
    }
    return len + (size_t)snprintf(out + len, 8, "e%c%d", exp10 < 0 ? '-' : '+', abs(exp10));
}
