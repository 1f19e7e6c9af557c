/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that sees PCRE2. */
#include "kube/regex.h"

#include <ctype.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

enum {
    PATTERN_MAX = 8192,
    MATCH_LIMIT = 200000,
    DEPTH_LIMIT = 2000,
    HEAP_LIMIT_KB = 2048,
    NEST_MAX = 250,
    REPEAT_MAX = 1000,   /* of RE2, for the product of nested repeats too */
    SIZE_LIMIT = 100000, /* instructions; RE2 has memory for somewhat more */
    SIZE_CLASS = 1,      /* ... of a class, at least */
    SIZE_PROPERTY = 4,   /* ... of a Unicode property */
};

struct sw_regex {
    pcre2_code *code;         /* owned */
    pcre2_match_context *ctx; /* owned */
    size_t cost;
};

/* Position of the ']' that closes the class opened at i, or n. */
static size_t class_end(struct sw_slice p, size_t i)
{
    i++;
    if (i < p.n && p.p[i] == '^')
        i++;
    if (i < p.n && p.p[i] == ']')
        i++;
    while (i < p.n && p.p[i] != ']') {
        if (p.p[i] == '\\') {
            i++;
        } else if (p.p[i] == '[' && i + 1 < p.n && p.p[i + 1] == ':') {
            const char *close = memmem(p.p + i, p.n - i, ":]", 2);

            if (close)
                i = (size_t)(close - p.p) + 1;
        }
        i++;
    }
    return sw_min(i, p.n); /* a backslash at the very end steps over it */
}

/* What stands behind "(?" in RE2: flags, "(?:", or a named group. */
static bool group_known(struct sw_slice rest)
{
    size_t i = 0;

    if (rest.n >= 2 && rest.p[0] == 'P')
        return rest.p[1] == '<';
    if (rest.n >= 2 && rest.p[0] == '<')
        return rest.p[1] != '=' && rest.p[1] != '!';
    while (i < rest.n && strchr("imsU-", rest.p[i]) && rest.p[i])
        i++;
    if (i > 0 && rest.p[i - 1] == '-')
        return false;
    return i < rest.n && (rest.p[i] == ':' || (rest.p[i] == ')' && i > 0));
}

static int refuse(struct sw_err *err, size_t at, const char *what)
{
    return sw_err_at(err, SW_EINVAL, at, "error parsing regexp: %s", what);
}

/* A pattern as RE2 counts it: what an inner repeat and those around it multiply to. */
struct measure {
    struct {
        size_t repeat; /* the largest product of repeats within */
        size_t size;   /* about as many instructions */
    } group[NEST_MAX + 1], last;
    size_t depth;
    enum { ATOM, REPEATED, LAZY } before;
};

static void add_atom(struct measure *m, size_t size)
{
    m->last.repeat = 1;
    m->last.size = size;
    m->group[m->depth].size += size;
    m->before = ATOM;
}

/* A repeat "{n}", "{n,}" or "{n,m}" at i: its end, and how often at most; others are literal. */
static bool repeat_at(struct sw_slice p, size_t i, size_t *ret_end, size_t *ret_max)
{
    size_t v[2] = {0, 0};
    size_t k = 0;
    bool digits = false;

    for (i++; i < p.n && p.p[i] != '}'; i++) {
        if (p.p[i] == ',' && k == 0 && digits) {
            k = 1;
            digits = false;
        } else if (p.p[i] >= '0' && p.p[i] <= '9') {
            v[k] = sw_min(v[k] * 10 + (size_t)(p.p[i] - '0'), REPEAT_MAX + 1);
            digits = true;
        } else {
            return false;
        }
    }
    if (i == p.n || (k == 0 && !digits))
        return false;
    *ret_end = i;
    *ret_max = sw_max(v[0], v[1]);
    return true;
}

static int repeat_last(struct measure *m, size_t at, size_t times, struct sw_err *err)
{
    if (m->before != ATOM)
        return refuse(err, at, "invalid nested repetition operator");
    m->before = REPEATED;
    if (times == 0)
        return SW_OK;
    m->group[m->depth].size += m->last.size * (times - 1);
    m->last.repeat *= times;
    m->last.size *= times;
    if (m->last.repeat > REPEAT_MAX)
        return refuse(err, at, "invalid repeat count");
    m->group[m->depth].repeat = sw_max(m->group[m->depth].repeat, m->last.repeat);
    if (m->group[m->depth].size > SIZE_LIMIT)
        return refuse(err, at, "expression too large");
    return SW_OK;
}

/* Letters RE2 knows behind a backslash are in 'letters'; digits and bytes of UTF-8 it refuses. */
static bool escape_known(char e, const char *letters)
{
    if ((e >= 'a' && e <= 'z') || (e >= 'A' && e <= 'Z'))
        return strchr(letters, e) != NULL;
    return !(e >= '1' && e <= '9') && !((unsigned char)e & 0x80);
}

/* Within a class: no assertions, no quotes, and no range that ends in a set. */
static int check_class(struct sw_slice p, size_t from, size_t end, struct sw_err *err)
{
    for (size_t i = from + 1; i + 1 < end; i++) {
        if (p.p[i] != '\\')
            continue;
        if (!escape_known(p.p[i + 1], "dDwWsSpPafnrtvx"))
            return refuse(err, i, "invalid escape sequence");
        if (i > from + 2 && p.p[i - 1] == '-' && isalnum((unsigned char)p.p[i - 2]) &&
            p.p[i - 3] != '-' && strchr("dDwWsSpP", p.p[i + 1]))
            return refuse(err, i, "invalid character class range");
        i++;
    }
    return SW_OK;
}

/* Passes over an escape at *i, to its last byte. */
static int skip_escape(struct measure *m, struct sw_slice p, size_t *i, struct sw_err *err)
{
    char e = *i + 1 < p.n ? p.p[*i + 1] : '\0';
    const char *end = NULL;

    if (!escape_known(e, "AbBdDwWsSzpPafnrtvxQ"))
        return refuse(err, *i, "invalid escape sequence");
    *i += 1;
    if (e == 'Q') {
        end = memmem(p.p + *i, p.n - *i, "\\E", 2);
        add_atom(m, (end ? (size_t)(end - p.p) : p.n) - *i);
        *i = end ? (size_t)(end - p.p) + 1 : p.n;
        m->last.size = 1; /* a repeat takes the last character alone */
        return SW_OK;
    }
    add_atom(m, e == 'p' || e == 'P' ? SIZE_PROPERTY : SIZE_CLASS);
    if (e && strchr("pPx", e) && *i + 1 < p.n && p.p[*i + 1] == '{')
        end = memchr(p.p + *i, '}', p.n - *i);
    if (end)
        *i = (size_t)(end - p.p);
    else if ((e == 'p' || e == 'P') && *i + 1 < p.n)
        *i += 1;
    return SW_OK;
}

static int open_group(struct measure *m, struct sw_slice p, size_t *i, struct sw_err *err)
{
    struct sw_slice rest = sw_slice_from(p, *i + 1);

    if (rest.n && rest.p[0] == '*')
        return refuse(err, *i, "missing argument to repetition operator: `*`");
    if (rest.n && rest.p[0] == '?' && !group_known(sw_slice_from(rest, 1)))
        return refuse(err, *i, "invalid or unsupported Perl syntax");
    if (m->depth == NEST_MAX)
        return refuse(err, *i, "expression nests too deeply");
    if (rest.n && rest.p[0] == '?')
        *i += 1;
    m->depth++;
    m->group[m->depth].repeat = 1;
    m->group[m->depth].size = 2;
    m->before = ATOM;
    return SW_OK;
}

static void close_group(struct measure *m)
{
    if (m->depth == 0)
        return; /* the compiler says so */
    m->last = m->group[m->depth];
    m->depth--;
    m->group[m->depth].repeat = sw_max(m->group[m->depth].repeat, m->last.repeat);
    m->group[m->depth].size += m->last.size;
    m->before = ATOM;
}

/* Everything that is no escape; *i goes to the last byte of it. */
static int check_one(struct measure *m, struct sw_slice p, size_t *i, struct sw_err *err)
{
    size_t times;
    size_t end;
    size_t at;

    switch (p.p[*i]) {
    case '[':
        end = class_end(p, *i);
        add_atom(m, SIZE_CLASS + (end - *i) / 2); /* each range costs */
        at = *i;
        *i = end;
        return check_class(p, at, end, err);
    case '(':
        return open_group(m, p, i, err);
    case ')':
        close_group(m);
        return SW_OK;
    case '?':
        if (m->before == REPEATED) {
            m->before = LAZY;
            return SW_OK;
        }
        return repeat_last(m, *i, 1, err);
    case '*':
    case '+':
        return repeat_last(m, *i, 1, err);
    case '{':
        if (repeat_at(p, *i, i, &times))
            return repeat_last(m, *i, times, err);
        add_atom(m, 1);
        return SW_OK;
    case '.':
        add_atom(m, SIZE_CLASS);
        return SW_OK;
    default:
        add_atom(m, 1);
        return SW_OK;
    }
}

/* Refuses what RE2 lacks of PCRE2's syntax, and repeats that RE2 would not unfold. */
static int check_syntax(struct sw_slice p, struct sw_err *err)
{
    struct measure m = {.group[0].repeat = 1};
    int rc = SW_OK;

    for (size_t i = 0; i < p.n && rc == SW_OK; i++)
        rc = p.p[i] == '\\' ? skip_escape(&m, p, &i, err) : check_one(&m, p, &i, err);
    if (rc == SW_OK && m.group[0].size > SIZE_LIMIT)
        return refuse(err, 0, "expression too large");
    return rc;
}

/* The commonest mistakes in the words of RE2, with the part of the expression it would show. */
static int explain(struct sw_slice pattern, int code, size_t at, struct sw_err *err)
{
    PCRE2_UCHAR text[128];
    struct sw_slice shown = pattern;
    const char *what = NULL;

    if (code == PCRE2_ERROR_MISSING_CLOSING_PARENTHESIS) {
        what = "missing closing )";
    } else if (code == PCRE2_ERROR_UNMATCHED_CLOSING_PARENTHESIS) {
        what = "unexpected )";
    } else if (code == PCRE2_ERROR_END_BACKSLASH) {
        what = "trailing backslash at end of expression";
        shown = sw_slice("", 0);
    } else if (code == PCRE2_ERROR_QUANTIFIER_INVALID && at > 0) {
        what = "missing argument to repetition operator";
        shown = sw_slice(pattern.p + at - 1, 1);
    }
    if (what)
        return sw_err_at(err, SW_EINVAL, at, "error parsing regexp: %s: `%.*s`", what,
                         SW_SLICE_ARG(sw_slice_head(shown, 100)));
    pcre2_get_error_message(code, text, sizeof(text));
    return sw_err_at(err, SW_EINVAL, at, "error parsing regexp: %s", (const char *)text);
}

int sw_regex_new(struct sw_slice pattern, struct sw_regex **ret, struct sw_err *err)
{
    int code;
    PCRE2_SIZE at;
    pcre2_code *re;
    struct sw_regex *r;
    int rc;

    if (pattern.n > PATTERN_MAX)
        return sw_err_set(err, SW_ELIMIT, "expression longer than %d bytes", PATTERN_MAX);
    rc = check_syntax(pattern, err);
    if (rc < 0)
        return rc;
    re =
        pcre2_compile((PCRE2_SPTR)pattern.p, pattern.n,
                      PCRE2_UTF | PCRE2_NEVER_BACKSLASH_C | PCRE2_DOLLAR_ENDONLY, &code, &at, NULL);
    if (!re)
        return explain(pattern, code, at, err);
    r = SW_NEW(struct sw_regex);
    r->code = re;
    r->ctx = pcre2_match_context_create(NULL);
    r->cost = pattern.n;
    pcre2_set_match_limit(r->ctx, MATCH_LIMIT);
    pcre2_set_depth_limit(r->ctx, DEPTH_LIMIT);
    pcre2_set_heap_limit(r->ctx, HEAP_LIMIT_KB);
    *ret = r;
    return SW_OK;
}

void sw_regex_free(struct sw_regex *re)
{
    if (!re)
        return;
    pcre2_code_free(re->code);
    pcre2_match_context_free(re->ctx);
    sw_free(re);
}

int sw_regex_search(const struct sw_regex *re, struct sw_slice text, size_t from, size_t *ret_at,
                    size_t *ret_len)
{
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    int rc =
        pcre2_match(re->code, (PCRE2_SPTR)(text.p ? text.p : ""), text.n, from, 0, data, re->ctx);

    if (rc >= 0) {
        const PCRE2_SIZE *o = pcre2_get_ovector_pointer(data);

        if (ret_at)
            *ret_at = o[0];
        if (ret_len)
            *ret_len = o[1] > o[0] ? o[1] - o[0] : 0;
    }
    pcre2_match_data_free(data);
    if (rc >= 0)
        return 1;
    return rc == PCRE2_ERROR_NOMATCH ? 0 : SW_ELIMIT;
}

int sw_regex_groups(const struct sw_regex *re, struct sw_slice text, size_t from, size_t max,
                    struct sw_slice *ret)
{
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re->code, NULL);
    int rc =
        pcre2_match(re->code, (PCRE2_SPTR)(text.p ? text.p : ""), text.n, from, 0, data, re->ctx);
    int n = 0;

    if (rc > 0) {
        const PCRE2_SIZE *o = pcre2_get_ovector_pointer(data);
        size_t have = sw_min(max, pcre2_get_ovector_count(data));

        for (; (size_t)n < have; n++, o += 2) {
            ret[n] = sw_slice(NULL, 0);
            if (n < rc && o[0] != PCRE2_UNSET && o[1] >= o[0])
                ret[n] = sw_slice(text.p + o[0], o[1] - o[0]);
        }
    }
    pcre2_match_data_free(data);
    if (rc > 0)
        return n;
    return rc == PCRE2_ERROR_NOMATCH ? 0 : SW_ELIMIT;
}

bool sw_regex_fits_bytes(struct sw_slice pattern)
{
    const char *at = pattern.p;

    while (at && (at = memmem(at, (size_t)(pattern.p + pattern.n - at), "\\x{", 3)) != NULL) {
        struct sw_slice digits;

        at += 3;
        digits = sw_slice(at, (size_t)(pattern.p + pattern.n - at));
        while (digits.n && digits.p[0] == '0')
            digits = sw_slice_from(digits, 1);
        if (digits.n > 2 && digits.p[0] != '}' && digits.p[1] != '}' && digits.p[2] != '}')
            return false;
    }
    return true;
}

size_t sw_regex_cost(const struct sw_regex *re)
{
    return re->cost;
}
