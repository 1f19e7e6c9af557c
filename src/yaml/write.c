/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A JSON tree as YAML text in the form Kubernetes' tools print: block style, keys in their natural
 * order, lists not indented under their key, lines folded behind column 80.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hex.h"
#include "base/json.h"
#include "base/search.h"
#include "yaml/yaml.h"

enum { WIDTH = 80, KEY_MOST = 128, DEPTH_MOST = 400 };

struct writer {
    struct sw_buf *out;
    size_t col; /* characters since the line began */
    int rc;
};

static void put(struct writer *w, const char *p, size_t n)
{
    if (w->rc == SW_OK)
        w->rc = sw_buf_append(w->out, p, n);
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\n')
            w->col = 0;
        else if (((unsigned char)p[i] & 0xc0) != 0x80)
            w->col++;
    }
}

static void puts_(struct writer *w, const char *s)
{
    put(w, s, strlen(s));
}

static void spaces(struct writer *w, size_t n)
{
    while (n-- > 0)
        put(w, " ", 1);
}

static void line(struct writer *w, size_t indent)
{
    put(w, "\n", 1);
    spaces(w, indent);
}

/* ---- what a plain text would be read as ---- */

static size_t digits(struct sw_slice s, size_t i)
{
    size_t n = 0;

    while (i + n < s.n && isdigit((unsigned char)s.p[i + n]))
        n++;
    return n;
}

static bool like_based(struct sw_slice s)
{
    size_t i = s.n && (s.p[0] == '-' || s.p[0] == '+');
    const char *set;

    if (s.n < i + 3 || s.p[i] != '0')
        return false;
    switch (s.p[i + 1]) {
    case 'x':
    case 'X':
        set = "0123456789abcdefABCDEF";
        break;
    case 'o':
    case 'O':
        set = "01234567";
        break;
    case 'b':
    case 'B':
        set = "01";
        break;
    default:
        return false;
    }
    for (i += 2; i < s.n; i++) {
        if (!s.p[i] || !strchr(set, s.p[i]))
            return false;
    }
    return true;
}

/* "190:20:30" was a number once */
static bool like_base60(struct sw_slice s)
{
    size_t i = s.n && (s.p[0] == '-' || s.p[0] == '+');
    bool colon = false;

    if (i >= s.n || !isdigit((unsigned char)s.p[i]))
        return false;
    for (; i < s.n; i++) {
        if (s.p[i] == ':' && i + 1 < s.n && isdigit((unsigned char)s.p[i + 1]))
            colon = true;
        else if (!isdigit((unsigned char)s.p[i]) && s.p[i] != '_' && !(colon && s.p[i] == '.'))
            return false;
    }
    return colon;
}

/* A date, or a date with a time */
static bool like_time(struct sw_slice s)
{
    size_t i = digits(s, 0);
    size_t n;

    if (i != 4)
        return false;
    for (int k = 0; k < 2; k++) {
        if (i >= s.n || s.p[i] != '-')
            return false;
        n = digits(s, ++i);
        if (n < 1 || n > 2)
            return false;
        i += n;
    }
    if (i == s.n)
        return true;
    if (s.p[i] != 'T' && s.p[i] != 't' && s.p[i] != ' ')
        return false;
    for (int k = 0; k < 3; k++) {
        n = digits(s, ++i);
        if (n < 1 || n > 2)
            return false;
        i += n;
        if (k < 2 && (i >= s.n || s.p[i] != ':'))
            return false;
    }
    return true;
}

/* The text would not come back as a string. */
static bool means_more(struct sw_slice s)
{
    static const char *const words[] = {
        "",     "~",     "null",  "Null",  "NULL",  "y",     "Y",     "yes",   "Yes",   "YES",
        "true", "True",  "TRUE",  "on",    "On",    "ON",    "n",     "N",     "no",    "No",
        "NO",   "false", "False", "FALSE", "off",   "Off",   "OFF",   ".nan",  ".NaN",  ".NAN",
        ".inf", ".Inf",  ".INF",  "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF", NULL,
    };
    char bare[64];
    size_t n = 0;

    if (sw_word_in(s, words))
        return true;
    if (!isdigit((unsigned char)s.p[0]) && !strchr("+-.", s.p[0]))
        return false;
    if (like_time(s) || like_base60(s))
        return true;
    for (size_t i = 0; i < s.n && n < sizeof(bare); i++) {
        if (s.p[i] != '_')
            bare[n++] = s.p[i];
    }
    return n < sizeof(bare) &&
           (sw_yaml_decimal(sw_slice(bare, n)) || like_based(sw_slice(bare, n)));
}

/* ---- styles ---- */

enum style { PLAIN, SINGLE, DOUBLE, LITERAL };

struct look {
    bool indicator; /* would be taken for structure */
    bool special;   /* cannot be shown as it is */
    bool breaks;
    bool lead_space, lead_break, trail_space, trail_break;
    bool break_space, space_break;
};

static bool white(struct sw_slice s, size_t i)
{
    return i >= s.n || s.p[i] == ' ' || s.p[i] == '\t' || s.p[i] == '\n' || s.p[i] == '\r';
}

static bool is_indicator(struct sw_slice s, size_t i)
{
    char c = s.p[i];

    if (i == 0 && strchr("#,[]{}&*!|>'\"%@`", c))
        return true;
    if (i == 0 && (c == '?' || c == '-'))
        return white(s, 1);
    if (c == ':')
        return white(s, i + 1);
    return i && c == '#' && white(s, i - 1);
}

/* Bytes of UTF-8 that tools print escaped: controls, and the two line separators. */
static bool is_special(struct sw_slice s, size_t i)
{
    unsigned char c = (unsigned char)s.p[i];
    const char *p = s.p + i;

    if (c < 0x20)
        return c != '\n';
    if (c == 0x7f)
        return true;
    if (c == 0xc2 && i + 1 < s.n)
        return (unsigned char)p[1] < 0xa0;
    if (s.n - i < 3)
        return false;
    return memcmp(p, "\xe2\x80\xa8", 3) == 0 || memcmp(p, "\xe2\x80\xa9", 3) == 0 ||
           memcmp(p, "\xef\xbb\xbf", 3) == 0;
}

static struct look look_at(struct sw_slice s)
{
    struct look l = {0};
    bool space = false;
    bool brk = false;

    if (s.n >= 3 && (memcmp(s.p, "---", 3) == 0 || memcmp(s.p, "...", 3) == 0))
        l.indicator = true;
    for (size_t i = 0; i < s.n; i++) {
        bool last = i + 1 == s.n;

        l.indicator = l.indicator || is_indicator(s, i);
        l.special = l.special || is_special(s, i);
        if (s.p[i] == ' ') {
            l.lead_space = l.lead_space || i == 0;
            l.trail_space = l.trail_space || last;
            l.break_space = l.break_space || brk;
            space = true;
            brk = false;
        } else if (s.p[i] == '\n') {
            l.breaks = true;
            l.lead_break = l.lead_break || i == 0;
            l.trail_break = l.trail_break || last;
            l.space_break = l.space_break || space;
            brk = true;
            space = false;
        } else {
            space = brk = false;
        }
    }
    return l;
}

static enum style choose(struct sw_slice s, bool key)
{
    struct look l = look_at(s);
    bool single = !l.break_space && !l.space_break && !l.special;

    if (l.breaks)
        return !key && !l.trail_space && !l.space_break && !l.special ? LITERAL : DOUBLE;
    if (means_more(s))
        return DOUBLE;
    if (!l.indicator && !l.special && !l.lead_space && !l.trail_space)
        return PLAIN;
    return single ? SINGLE : DOUBLE;
}

/* ---- scalars ---- */

/* Where a long line continues below. */
static bool fold_here(const struct writer *w, struct sw_slice s, size_t i, bool after_space)
{
    return !after_space && w->col > WIDTH && i && i + 1 < s.n && s.p[i + 1] != ' ';
}

static void put_plain(struct writer *w, struct sw_slice s, size_t indent, bool fold, bool quote)
{
    bool after = false;

    for (size_t i = 0; i < s.n; i++) {
        bool space = s.p[i] == ' ';

        if (space && fold && fold_here(w, s, i, after))
            line(w, indent);
        else
            put(w, s.p + i, 1);
        if (quote && s.p[i] == '\'')
            put(w, "'", 1);
        after = space;
    }
}

static size_t put_escape(struct writer *w, struct sw_slice s, size_t i)
{
    static const char codes[] = "\0\a\b\t\n\v\f\r\x1b\"\\";
    static const char names[] = "0abtnvfre\"\\";
    const char *at = memchr(codes, s.p[i], sizeof(codes) - 1);
    unsigned char c = (unsigned char)s.p[i];
    char text[12];

    if (at) {
        put(w, "\\", 1);
        put(w, &names[at - codes], 1);
        return 1;
    }
    if (c < 0x80 || c == 0xc2) {
        unsigned v = c < 0x80 ? c : (unsigned char)s.p[i + 1];

        if (v == 0x85) {
            puts_(w, "\\N");
        } else {
            text[0] = '\\';
            text[1] = 'x';
            text[2] = sw_hex_upper(v >> 4);
            text[3] = sw_hex_upper(v);
            put(w, text, 4);
        }
        return c < 0x80 ? 1 : 2;
    }
    puts_(w, c == 0xef ? "\\uFEFF" : (unsigned char)s.p[i + 2] == 0xa8 ? "\\L" : "\\P");
    return 3;
}

static void put_double(struct writer *w, struct sw_slice s, size_t indent, bool fold)
{
    bool after = false;

    put(w, "\"", 1);
    for (size_t i = 0; i < s.n;) {
        char c = s.p[i];

        if (c == '"' || c == '\\' || c == '\n' || is_special(s, i)) {
            i += put_escape(w, s, i);
            after = false;
            continue;
        }
        if (c == ' ' && fold && !after && w->col > WIDTH && i && i + 1 < s.n) {
            line(w, indent);
            if (s.p[i + 1] == ' ')
                put(w, "\\", 1);
        } else {
            put(w, &c, 1);
        }
        after = c == ' ';
        i++;
    }
    put(w, "\"", 1);
}

static void put_literal(struct writer *w, struct sw_slice s, size_t indent)
{
    bool start = true;

    put(w, "|", 1);
    if (s.p[0] == ' ' || s.p[0] == '\n')
        put(w, "2", 1);
    if (s.p[s.n - 1] != '\n')
        put(w, "-", 1);
    else if (s.n == 1 || s.p[s.n - 2] == '\n')
        put(w, "+", 1);
    put(w, "\n", 1);
    for (size_t i = 0; i < s.n; i++) {
        if (start && s.p[i] != '\n')
            spaces(w, indent);
        start = s.p[i] == '\n';
        /* The last break is the one every line ends with. */
        if (i + 1 < s.n || !start)
            put(w, s.p + i, 1);
    }
}

/* indent: of lines that follow */
static void put_text(struct writer *w, struct sw_slice s, size_t indent, bool key)
{
    switch (choose(s, key)) {
    case PLAIN:
        put_plain(w, s, indent, !key, false);
        break;
    case SINGLE:
        put(w, "'", 1);
        put_plain(w, s, indent, !key, true);
        put(w, "'", 1);
        break;
    case DOUBLE:
        put_double(w, s, indent, !key);
        break;
    case LITERAL:
        put_literal(w, s, indent);
        break;
    }
}

/* ---- collections ---- */

static bool letter(char c)
{
    return isalpha((unsigned char)c) || (unsigned char)c >= 0x80;
}

/* Numbers inside keys compare by value, other signs come before letters. */
static int natural(struct sw_slice a, struct sw_slice b)
{
    size_t i = 0;
    uint64_t an = 0;
    uint64_t bn = 0;
    size_t ai;
    size_t bi;

    while (i < a.n && i < b.n && a.p[i] == b.p[i])
        i++;
    if (i == a.n || i == b.n)
        return a.n < b.n ? -1 : a.n > b.n;
    if (letter(a.p[i]) && letter(b.p[i]))
        return (unsigned char)a.p[i] < (unsigned char)b.p[i] ? -1 : 1;
    if (letter(a.p[i]) || letter(b.p[i]))
        return letter(b.p[i]) ? -1 : 1;
    if (a.p[i] == '0' || b.p[i] == '0') {
        for (size_t j = i; j-- > 0 && isdigit((unsigned char)a.p[j]);) {
            if (a.p[j] != '0') {
                an = bn = 1;
                break;
            }
        }
    }
    for (ai = i; ai < a.n && isdigit((unsigned char)a.p[ai]); ai++)
        an = an * 10 + (uint64_t)(a.p[ai] - '0');
    for (bi = i; bi < b.n && isdigit((unsigned char)b.p[bi]); bi++)
        bn = bn * 10 + (uint64_t)(b.p[bi] - '0');
    if (an != bn)
        return an < bn ? -1 : 1;
    if (ai != bi)
        return ai < bi ? -1 : 1;
    return (unsigned char)a.p[i] < (unsigned char)b.p[i] ? -1 : 1;
}

static int by_key(const void *a, const void *b)
{
    return natural((*(const struct sw_json_member *const *)a)->key,
                   (*(const struct sw_json_member *const *)b)->key);
}

static void put_map(struct writer *w, const struct sw_json *v, size_t indent, int depth);
static void put_list(struct writer *w, const struct sw_json *v, size_t indent, int depth);

static bool nested(const struct sw_json *v)
{
    return (v->type == SW_JSON_OBJECT || v->type == SW_JSON_ARRAY) && sw_json_len(v);
}

/* A value that stays on the line; indent: of the collection it is in. */
static void put_scalar(struct writer *w, const struct sw_json *v, size_t indent)
{
    switch (v->type) {
    case SW_JSON_NULL:
        puts_(w, "null");
        break;
    case SW_JSON_BOOL:
        puts_(w, v->boolean ? "true" : "false");
        break;
    case SW_JSON_NUMBER:
        put(w, v->text.p, v->text.n);
        break;
    case SW_JSON_STRING:
        put_text(w, v->text, indent + 2, false);
        break;
    case SW_JSON_ARRAY:
        puts_(w, "[]");
        break;
    case SW_JSON_OBJECT:
        puts_(w, "{}");
        break;
    }
}

static void put_member(struct writer *w, const struct sw_json_member *m, size_t indent, int depth)
{
    bool simple = m->key.n <= KEY_MOST;

    if (!simple)
        puts_(w, "? ");
    put_text(w, m->key, indent + 2, true);
    if (!simple)
        line(w, indent);
    put(w, ":", 1);
    if (!nested(m->value)) {
        put(w, " ", 1);
        put_scalar(w, m->value, indent);
    } else if (m->value->type == SW_JSON_OBJECT) {
        line(w, indent + 2);
        put_map(w, m->value, indent + 2, depth + 1);
    } else {
        line(w, indent);
        put_list(w, m->value, indent, depth + 1);
    }
}

/* The cursor stands at the indent. */
static void put_map(struct writer *w, const struct sw_json *v, size_t indent, int depth)
{
    struct sw_arena a = {0};
    size_t n = sw_json_len(v);
    const struct sw_json_member **p = sw_arena_array(&a, n, sizeof(*p));

    if (depth > DEPTH_MOST)
        w->rc = SW_ELIMIT;
    for (size_t i = 0; i < n; i++)
        p[i] = sw_json_member_at(v, i);
    qsort(p, n, sizeof(*p), by_key);
    for (size_t i = 0; i < n && w->rc == SW_OK; i++) {
        if (i)
            line(w, indent);
        put_member(w, p[i], indent, depth);
    }
    sw_arena_clear(&a);
}

static void put_list(struct writer *w, const struct sw_json *v, size_t indent, int depth)
{
    if (depth > DEPTH_MOST)
        w->rc = SW_ELIMIT;
    for (size_t i = 0; i < sw_json_len(v) && w->rc == SW_OK; i++) {
        const struct sw_json *item = sw_json_at(v, i);

        if (i)
            line(w, indent);
        puts_(w, "- ");
        if (!nested(item))
            put_scalar(w, item, indent);
        else if (item->type == SW_JSON_OBJECT)
            put_map(w, item, indent + 2, depth + 1);
        else
            put_list(w, item, indent + 2, depth + 1);
    }
}

int sw_yaml_write(struct sw_buf *out, const struct sw_json *v)
{
    struct writer w = {.out = out};

    if (!nested(v))
        put_scalar(&w, v, 0);
    else if (v->type == SW_JSON_OBJECT)
        put_map(&w, v, 0, 0);
    else
        put_list(&w, v, 0, 0);
    put(&w, "\n", 1);
    return w.rc;
}
