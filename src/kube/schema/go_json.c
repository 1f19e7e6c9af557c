/* SPDX-License-Identifier: Apache-2.0 */
/* The words of Go's JSON scanner, for texts the API repeats to its clients. */
#include "kube/schema/go_json.h"

#include "kube/errs.h"

struct scan {
    struct sw_arena *a;
    struct sw_slice in;
    size_t at;
    const char *why; /* NULL while it is JSON */
};

static void value(struct scan *s, unsigned depth);

static void blank(struct scan *s)
{
    while (s->at < s->in.n && s->in.p[s->at] && strchr(" \t\r\n", s->in.p[s->at]))
        s->at++;
}

/* The next byte, 0 at the end. */
static char peek(const struct scan *s)
{
    return s->at < s->in.n ? s->in.p[s->at] : 0;
}

static void fail(struct scan *s, const char *where)
{
    const char *q;

    if (s->why)
        return;
    if (s->at >= s->in.n) {
        s->why = "unexpected end of JSON input";
        return;
    }
    q = sw_go_quote(s->a, sw_slice(s->in.p + s->at, 1));
    if (s->in.p[s->at] == '\'')
        q = "\"\\'\"";
    else if (s->in.p[s->at] == '"')
        q = "\"\"\"";
    s->why = sw_arena_printf(s->a, "invalid character '%.*s' %s", (int)strlen(q) - 2, q + 1, where);
}

static void word(struct scan *s, const char *w)
{
    for (size_t i = 0; w[i]; i++, s->at++) {
        if (peek(s) != w[i]) {
            fail(s, sw_arena_printf(s->a, "in literal %s (expecting '%c')", w, w[i]));
            return;
        }
    }
}

static void escape(struct scan *s)
{
    s->at++;
    if (!peek(s) || !strchr("bfnrt\\/\"u", peek(s))) {
        fail(s, "in string escape code");
        return;
    }
    if (peek(s) == 'u') {
        for (int i = 0; i < 4; i++) {
            s->at++;
            if (!peek(s) || !strchr("0123456789abcdefABCDEF", peek(s))) {
                fail(s, "in \\u hexadecimal character escape");
                return;
            }
        }
    }
    s->at++;
}

static void string(struct scan *s)
{
    s->at++;
    while (!s->why) {
        unsigned char c = (unsigned char)peek(s);

        if (s->at >= s->in.n || c < 0x20) {
            fail(s, "in string literal");
        } else if (c == '"') {
            s->at++;
            return;
        } else if (c == '\\') {
            escape(s);
        } else {
            s->at++;
        }
    }
}

static bool digits(struct scan *s)
{
    size_t from = s->at;

    while (peek(s) >= '0' && peek(s) <= '9')
        s->at++;
    return s->at > from;
}

static void number(struct scan *s)
{
    if (peek(s) == '-')
        s->at++;
    if (peek(s) == '0')
        s->at++;
    else if (!digits(s))
        fail(s, "in numeric literal");
    if (!s->why && peek(s) == '.') {
        s->at++;
        if (!digits(s))
            fail(s, "after decimal point in numeric literal");
    }
    if (!s->why && (peek(s) == 'e' || peek(s) == 'E')) {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-')
            s->at++;
        if (!digits(s))
            fail(s, "in exponent of numeric literal");
    }
}

static void object_key(struct scan *s)
{
    blank(s);
    if (peek(s) != '"') {
        fail(s, "looking for beginning of object key string");
        return;
    }
    string(s);
    blank(s);
    if (!s->why && peek(s) != ':')
        fail(s, "after object key");
    s->at++;
}

/* An object or an array, whose bracket is next. */
static void container(struct scan *s, unsigned depth)
{
    bool map = peek(s) == '{';
    char end = map ? '}' : ']';

    s->at++;
    blank(s);
    if (peek(s) == end) {
        s->at++;
        return;
    }
    while (!s->why) {
        if (map)
            object_key(s);
        if (!s->why)
            value(s, depth + 1);
        blank(s);
        if (!s->why && peek(s) == end) {
            s->at++;
            return;
        }
        if (!s->why && peek(s) != ',')
            fail(s, map ? "after object key:value pair" : "after array element");
        s->at++;
    }
}

static void value(struct scan *s, unsigned depth)
{
    blank(s);
    if (depth > 1000)
        s->why = "exceeded max depth";
    else if (peek(s) == '{' || peek(s) == '[')
        container(s, depth);
    else if (peek(s) == '"')
        string(s);
    else if (peek(s) == 't')
        word(s, "true");
    else if (peek(s) == 'f')
        word(s, "false");
    else if (peek(s) == 'n')
        word(s, "null");
    else if (peek(s) == '-' || (peek(s) >= '0' && peek(s) <= '9'))
        number(s);
    else
        fail(s, "looking for beginning of value");
}

const char *sw_go_json_error(struct sw_arena *a, struct sw_slice text)
{
    struct scan s = {.a = a, .in = text};

    value(&s, 0);
    blank(&s);
    if (!s.why && s.at < s.in.n)
        fail(&s, "after top-level value");
    return s.why ? s.why : "invalid JSON";
}
