/* SPDX-License-Identifier: Apache-2.0 */
/* The lexer: one token after the other, literals decoded. */
#include "kube/cel/lex.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"
#include "base/utf8.h"

void *cel_fail(struct sw_cel *c, size_t pos, const char *fmt, ...)
{
    char msg[512];
    va_list ap;

    if (c->failed)
        return NULL;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    c->failed = true;
    c->why = sw_arena_dup(&c->arena, sw_slice_str(msg));
    c->why_pos = pos;
    return NULL;
}

static char peek_at(const struct cel_parser *p, size_t i)
{
    return i < p->c->src.n ? p->c->src.p[i] : '\0';
}

static void skip_blank(struct cel_parser *p)
{
    for (;;) {
        char c = peek_at(p, p->pos);

        if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f') {
            p->pos++;
        } else if (c == '/' && peek_at(p, p->pos + 1) == '/') {
            while (p->pos < p->c->src.n && p->c->src.p[p->pos] != '\n')
                p->pos++;
        } else {
            return;
        }
    }
}

static bool read_code(const struct cel_parser *p, size_t from, size_t n, unsigned base,
                      uint32_t *ret)
{
    *ret = 0;
    for (size_t i = from; i < from + n; i++) {
        int v = sw_hex_digit((char)peek_at(p, i));

        if (v < 0 || (unsigned)v >= base)
            return false;
        *ret = *ret * base + (unsigned)v;
    }
    return true;
}

/* One escape at p->pos (behind the backslash); returns bytes written, 0 on error. */
static size_t lex_escape(struct cel_parser *p, char *out, bool bytes)
{
    static const char from[] = "abfnrtv\\?\"'`";
    static const char to[] = "\a\b\f\n\r\t\v\\?\"'`";
    char c = peek_at(p, p->pos++);
    const char *at = c ? strchr(from, c) : NULL;
    size_t n = 0;
    uint32_t r;

    if (at) {
        out[0] = to[at - from];
        return 1;
    }
    if (c == 'x' || c == 'X')
        n = 2;
    else if (c == 'u' && !bytes)
        n = 4;
    else if (c == 'U' && !bytes)
        n = 8;
    if (n) {
        if (!read_code(p, p->pos, n, 16, &r))
            return 0;
        p->pos += n;
    } else {
        if (c < '0' || c > '3' || !read_code(p, p->pos - 1, 3, 8, &r))
            return 0;
        p->pos += 2;
    }
    if (bytes) {
        out[0] = (char)r;
        return 1;
    }
    if (r > 0x10ffff || (r >= 0xd800 && r < 0xe000))
        return 0;
    return sw_utf8_put(out, r);
}

static void lex_string(struct cel_parser *p, bool raw, bool bytes)
{
    char q = peek_at(p, p->pos);
    bool triple = peek_at(p, p->pos + 1) == q && peek_at(p, p->pos + 2) == q;
    size_t quotes = triple ? 3 : 1;
    char *out = sw_arena_alloc(&p->c->arena, p->c->src.n - p->pos + 8);
    size_t n = 0;

    p->pos += quotes;
    for (;;) {
        char c = peek_at(p, p->pos);

        if (p->pos >= p->c->src.n || (!triple && (c == '\n' || c == '\r'))) {
            cel_fail(p->c, p->at, "Syntax error: unterminated string");
            return;
        }
        if (c == q && (!triple || (peek_at(p, p->pos + 1) == q && peek_at(p, p->pos + 2) == q)))
            break;
        p->pos++;
        if (c == '\\' && !raw) {
            size_t k = lex_escape(p, out + n, bytes);

            if (!k) {
                cel_fail(p->c, p->pos, "Syntax error: invalid escape sequence");
                return;
            }
            n += k;
        } else {
            out[n++] = c;
        }
    }
    p->pos += quotes;
    p->text = sw_slice(out, n);
    p->tok = bytes ? T_BYTES : T_STRING;
    p->value = (struct cel_val){.k = bytes ? CEL_BYTES : CEL_STRING, .s = p->text};
}

static void lex_int(struct cel_parser *p, struct sw_slice t)
{
    char *end;
    bool hex = t.n > 2 && (t.p[1] == 'x' || t.p[1] == 'X');
    char last = peek_at(p, p->pos);
    unsigned long long v;

    errno = 0;
    v = strtoull(t.p, &end, hex ? 16 : 10);
    if (last == 'u' || last == 'U') {
        p->pos++;
        p->tok = T_UINT;
        p->value = (struct cel_val){.k = CEL_UINT, .u = v};
    } else {
        p->tok = T_INT;
        p->value = (struct cel_val){.k = CEL_INT, .i = (int64_t)v};
        /* One past the largest is kept for the literal behind a minus. */
        if (v > (unsigned long long)INT64_MAX + 1)
            errno = ERANGE;
    }
    if (errno)
        cel_fail(p->c, p->at, "invalid int literal");
}

static void lex_number(struct cel_parser *p)
{
    size_t i = p->pos;
    bool real = false;
    char buf[64];
    size_t len;

    if (peek_at(p, i) == '0' && (peek_at(p, i + 1) | 0x20) == 'x') {
        for (i += 2; isxdigit((unsigned char)peek_at(p, i)); i++)
            ;
    } else {
        while (isdigit((unsigned char)peek_at(p, i)))
            i++;
        if (peek_at(p, i) == '.' && isdigit((unsigned char)peek_at(p, i + 1))) {
            real = true;
            for (i++; isdigit((unsigned char)peek_at(p, i)); i++)
                ;
        }
        if ((peek_at(p, i) | 0x20) == 'e') {
            size_t j = i + 1;

            if (peek_at(p, j) == '+' || peek_at(p, j) == '-')
                j++;
            if (isdigit((unsigned char)peek_at(p, j))) {
                real = true;
                for (i = j; isdigit((unsigned char)peek_at(p, i)); i++)
                    ;
            }
        }
    }
    len = i - p->pos;
    if (len >= sizeof(buf)) {
        cel_fail(p->c, p->at, "Syntax error: number too long");
        return;
    }
    memcpy(buf, p->c->src.p + p->pos, len);
    buf[len] = 0;
    p->pos = i;
    if (!real) {
        lex_int(p, sw_slice(buf, len));
        return;
    }
    p->tok = T_DOUBLE;
    p->value = (struct cel_val){.k = CEL_DOUBLE, .d = strtod(buf, NULL)};
}

static void lex_punct(struct cel_parser *p)
{
    static const char *const two[] = {"==", "!=", "<=", ">=", "&&", "||"};
    size_t len = 1;
    char c = peek_at(p, p->pos);

    for (size_t i = 0; i < SW_ARRAY_LEN(two); i++) {
        if (c == two[i][0] && peek_at(p, p->pos + 1) == two[i][1])
            len = 2;
    }
    if (len == 1 && !(c && strchr("+-*/%<>!?:.,()[]{}", c))) {
        cel_fail(p->c, p->pos, "Syntax error: token recognition error at: '%c'",
                 isprint((unsigned char)c) ? c : '?');
        return;
    }
    p->tok = T_PUNCT;
    p->text = sw_slice(p->c->src.p + p->pos, len);
    p->pos += len;
}

static void lex_ident(struct cel_parser *p)
{
    size_t i = p->pos;
    char c = peek_at(p, i);
    char q = peek_at(p, i + 1);
    char q2 = peek_at(p, i + 2);
    bool raw = (c | 0x20) == 'r';
    bool bytes = (c | 0x20) == 'b';

    if ((raw || bytes) && (q == '"' || q == '\'')) {
        p->pos++;
        lex_string(p, raw, bytes);
        return;
    }
    if ((raw || bytes) && (q2 == '"' || q2 == '\'') &&
        ((raw && (q | 0x20) == 'b') || (bytes && (q | 0x20) == 'r'))) {
        p->pos += 2;
        lex_string(p, true, true);
        return;
    }
    while (isalnum((unsigned char)peek_at(p, i)) || peek_at(p, i) == '_')
        i++;
    p->tok = T_IDENT;
    p->text = sw_slice(p->c->src.p + p->pos, i - p->pos);
    p->pos = i;
}

void cel_advance(struct cel_parser *p)
{
    char c;

    if (p->c->failed) {
        p->tok = T_END;
        return;
    }
    skip_blank(p);
    p->at = p->pos;
    c = peek_at(p, p->pos);
    if (p->pos >= p->c->src.n)
        p->tok = T_END;
    else if (isdigit((unsigned char)c) ||
             (c == '.' && isdigit((unsigned char)peek_at(p, p->pos + 1))))
        lex_number(p);
    else if (c == '"' || c == '\'')
        lex_string(p, false, false);
    else if (isalpha((unsigned char)c) || c == '_')
        lex_ident(p);
    else
        lex_punct(p);
    if (p->c->failed)
        p->tok = T_END;
}
