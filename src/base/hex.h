/* SPDX-License-Identifier: Apache-2.0 */
/* Hexadecimal digits, and the percent escapes of URIs that are made of them. */
#pragma once

#include <stdbool.h>

#include "base/slice.h"

/* The value of a hexadecimal digit of either case; -1: it is none. */
static inline int sw_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static inline char sw_hex_lower(unsigned v)
{
    return "0123456789abcdef"[v & 15];
}

static inline char sw_hex_upper(unsigned v)
{
    return "0123456789ABCDEF"[v & 15];
}

/* Writes 2 * n small digits, and no NUL. Returns the place behind them. */
static inline char *sw_hex_write(char *to, const void *from, size_t n)
{
    const uint8_t *p = (const uint8_t *)from;

    for (size_t i = 0; i < n; i++) {
        *to++ = sw_hex_lower(p[i] >> 4);
        *to++ = sw_hex_lower(p[i]);
    }
    return to;
}

/*
 * Reads exactly 2 * n digits of either case into n bytes. False: another length, or a character
 * that is no digit; 'to' may be partly written then.
 */
static inline bool sw_hex_read(struct sw_slice s, void *to, size_t n)
{
    uint8_t *p = (uint8_t *)to;

    if (s.n % 2 || s.n / 2 != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        int hi = sw_hex_digit(s.p[2 * i]);
        int lo = sw_hex_digit(s.p[2 * i + 1]);

        if (hi < 0 || lo < 0)
            return false;
        p[i] = (uint8_t)(hi << 4 | lo);
    }
    return true;
}

/* The same for texts of one form only: capital digits are refused. */
static inline bool sw_hex_read_lower(struct sw_slice s, void *to, size_t n)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] >= 'A' && s.p[i] <= 'F')
            return false;
    }
    return sw_hex_read(s, to, n);
}

/* The byte that the percent escape at s.p[at] stands for; -1: none begins there. */
static inline int sw_hex_escape(struct sw_slice s, size_t at)
{
    int hi = at < s.n && s.n - at > 2 && s.p[at] == '%' ? sw_hex_digit(s.p[at + 1]) : -1;
    int lo = hi < 0 ? -1 : sw_hex_digit(s.p[at + 2]);

    return lo < 0 ? -1 : hi << 4 | lo;
}
