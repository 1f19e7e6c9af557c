/* SPDX-License-Identifier: Apache-2.0 */
/* The small grammars of HTTP: tokens, values, hosts, targets, dates. */
#include "http/grammar.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/search.h"
#include "io/addr.h"

enum { TCHAR = 1, HOST = 2 };

/* What a byte may be part of. */
static const uint8_t kinds[256] = {
    ['0' ... '9'] = TCHAR | HOST,
    ['a' ... 'z'] = TCHAR | HOST,
    ['A' ... 'Z'] = TCHAR | HOST,
    ['!'] = TCHAR,
    ['#'] = TCHAR,
    ['$'] = TCHAR,
    ['%'] = TCHAR,
    ['&'] = TCHAR,
    ['\''] = TCHAR,
    ['*'] = TCHAR,
    ['+'] = TCHAR,
    ['-'] = TCHAR | HOST,
    ['.'] = TCHAR | HOST,
    ['^'] = TCHAR,
    ['_'] = TCHAR | HOST,
    ['`'] = TCHAR,
    ['|'] = TCHAR,
    ['~'] = TCHAR,
};

size_t sw_http_token_len(struct sw_slice s)
{
    size_t n = 0;

    while (n < s.n && kinds[(unsigned char)s.p[n]] & TCHAR)
        n++;
    return n;
}

bool sw_http_token_valid(struct sw_slice s)
{
    return s.n > 0 && sw_http_token_len(s) == s.n;
}

/* True when none of eight bytes is a control character; HTAB is one. */
static bool no_control8(const char *p)
{
    uint64_t v;
    uint64_t del;

    memcpy(&v, p, sizeof(v));
    del = v ^ 0x7f7f7f7f7f7f7f7fU;
    /* Bit 7 of some byte is set when one is below ' ' or is DEL. */
    return ((((v - 0x2020202020202020U) & ~v) | ((del - 0x0101010101010101U) & ~del)) &
            0x8080808080808080U) == 0;
}

bool sw_http_value_valid(struct sw_slice s)
{
    size_t i = 0;

    if (s.n && (s.p[0] == ' ' || s.p[0] == '\t' || s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        return false;
    while (s.n - i >= 8 && no_control8(s.p + i))
        i += 8;
    if (s.n >= 8 && s.n - i < 8 && no_control8(s.p + s.n - 8))
        return true;
    for (; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return false;
    }
    return true;
}

bool sw_http_host_valid(struct sw_slice s)
{
    struct sw_slice port = {0};
    struct sw_ip ip;
    uint64_t number;
    size_t n = 0;

    if (s.n == 0)
        return false;
    if (s.p[0] == '[') {
        ptrdiff_t end = sw_slice_find(s, ']');
        struct sw_slice inner;

        if (end < 0)
            return false;
        inner = sw_slice(s.p + 1, (size_t)end - 1);
        if (sw_slice_find(inner, ':') < 0 || sw_ip_parse(inner, &ip, NULL) != SW_OK)
            return false;
        n = (size_t)end + 1;
    } else {
        while (n < s.n && s.p[n] != ':') {
            if (!(kinds[(unsigned char)s.p[n]] & HOST))
                return false;
            n++;
        }
        if (n == 0)
            return false;
    }
    if (n == s.n)
        return true;
    port = sw_slice_from(s, n + 1);
    return s.p[n] == ':' && sw_slice_to_u64(port, 65535, &number);
}

bool sw_http_is_framing(struct sw_slice name)
{
    static const char *const names[] = {"connection", "content-length",   "keep-alive",
                                        "te",         "trailer",          "transfer-encoding",
                                        "upgrade",    "proxy-connection", NULL};

    return sw_word_in_any_case(name, names);
}

bool sw_http_target_valid(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = (uint8_t)s.p[i];

        if (c <= ' ' || c == 0x7f || c == '#')
            return false;
    }
    return true;
}

/* By ranges: all visible ASCII but '"', '#', '<', '>' and '\\'. */
static const bool target_bytes[256] = {
    ['!'] = true, ['$' ... ';'] = true, ['='] = true, ['?' ... '['] = true, [']' ... '~'] = true,
};

bool sw_http_target_strict(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!target_bytes[(uint8_t)s.p[i]])
            return false;
    }
    return s.n > 0;
}

static const struct {
    int status;
    const char *text;
} reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {102, "Processing"},
    {103, "Early Hints"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {207, "Multi-Status"},
    {208, "Already Reported"},
    {226, "IM Used"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {506, "Variant Also Negotiates"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
    {511, "Network Authentication Required"},
};

const char *sw_http_reason(int status)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(reasons); i++) {
        if (reasons[i].status == status)
            return reasons[i].text;
    }
    return "Status";
}

/* ---- dates ---- */

static bool digits(struct sw_slice s, size_t at, size_t n, uint64_t max, uint64_t *ret)
{
    return sw_slice_to_u64(sw_slice(s.p + at, n), max, ret);
}

/* Days from 1970-01-01, in a calendar whose years begin in March: leap days come last. */
static uint64_t days_to(uint64_t year, uint64_t month, uint64_t day)
{
    uint64_t y = month < 3 ? year - 1 : year;
    uint64_t m = (month + 9) % 12;

    return y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
}

static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

char *sw_http_date(uint64_t epoch_s, char out[SW_HTTP_DATE_LEN])
{
    static const char days[] = "SunMonTueWedThuFriSat";
    time_t s = (time_t)epoch_s;
    struct tm tm = {.tm_mday = 1};

    (void)gmtime_r(&s, &tm);
    (void)snprintf(out, SW_HTTP_DATE_LEN, "%.3s, %02u %.3s %04u %02u:%02u:%02u GMT",
                   days + (size_t)tm.tm_wday * 3, (unsigned)tm.tm_mday % 100,
                   months + (size_t)tm.tm_mon * 3, ((unsigned)tm.tm_year + 1900) % 10000,
                   (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
                   (unsigned)tm.tm_sec % 100);
    return out;
}

bool sw_http_date_parse(struct sw_slice s, uint64_t *ret_s)
{
    static const char form[] = "???, ?? ??? ???? ??:??:?? GMT";
    uint64_t day, year, hour, minute, second;
    size_t month = 0;

    if (s.n != sizeof(form) - 1)
        return false;
    for (size_t i = 0; i < s.n; i++) {
        if (form[i] != '?' && form[i] != s.p[i])
            return false;
    }
    while (month < 12 && memcmp(months + 3 * month, s.p + 8, 3) != 0)
        month++;
    if (month == 12 || !digits(s, 5, 2, 31, &day) || day == 0 || !digits(s, 12, 4, 9999, &year) ||
        year < 1970 || !digits(s, 17, 2, 23, &hour) || !digits(s, 20, 2, 59, &minute) ||
        !digits(s, 23, 2, 60, &second))
        return false;
    *ret_s = days_to(year, month + 1, day) * 86400 + hour * 3600 + minute * 60 + second;
    return true;
}
