/* SPDX-License-Identifier: Apache-2.0 */
/* The only file that sees PCRE2. */
#include "kube/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"

enum {
    PATTERN_MAX = 8192,
    MATCH_LIMIT = 200000,
    DEPTH_LIMIT = 2000,
    HEAP_LIMIT_KB = 2048,
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
    return i;
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
    return i < rest.n && (rest.p[i] == ':' || (rest.p[i] == ')' && i > 0));
}

static int refuse(struct sw_err *err, size_t at, const char *what)
{
    return sw_err_at(err, SW_EINVAL, at, "error parsing regexp: %s", what);
}

/* Repeats above 1000 are refused by RE2. */
static bool repeat_too_large(struct sw_slice p, size_t i)
{
    unsigned v = 0;

    for (i++; i < p.n && p.p[i] != '}'; i++) {
        if (p.p[i] == ',') {
            v = 0;
            continue;
        }
        if (p.p[i] < '0' || p.p[i] > '9')
            return false;
        v = v * 10 + (unsigned)(p.p[i] - '0');
        if (v > 1000)
            return true;
    }
    return false;
}

/* Refuses PCRE2's extensions of the syntax that RE2 lacks. */
static int check_syntax(struct sw_slice p, struct sw_err *err)
{
    bool quantified = false;

    for (size_t i = 0; i < p.n; i++) {
        char c = p.p[i];

        if (c == '\\') {
            char e = i + 1 < p.n ? p.p[i + 1] : '\0';

            if ((e >= '1' && e <= '9') || (e && strchr("gkKGRXCNZhHouecLUyY", e)))
                return refuse(err, i, "invalid escape sequence");
            i++;
            quantified = false;
        } else if (c == '[') {
            i = class_end(p, i);
            quantified = false;
        } else if (c == '(') {
            if (i + 1 < p.n && p.p[i + 1] == '*')
                return refuse(err, i, "missing argument to repetition operator: `*`");
            if (i + 1 < p.n && p.p[i + 1] == '?' && !group_known(sw_slice_from(p, i + 2)))
                return refuse(err, i, "invalid or unsupported Perl syntax");
            if (i + 1 < p.n && p.p[i + 1] == '?')
                i++;
            quantified = false;
        } else if (c == '+' && quantified) {
            return refuse(err, i, "invalid nested repetition operator: `+`");
        } else if (c == '*' || c == '+' || c == '}') {
            quantified = true;
        } else if (c == '?') {
            quantified = !quantified;
        } else {
            if (c == '{' && repeat_too_large(p, i))
                return refuse(err, i, "invalid repeat count");
            quantified = false;
        }
    }
    return SW_OK;
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

        for (; (size_t)n < have; n++) {
            ret[n] = sw_slice(NULL, 0);
            if (n < rc && o[2 * n] != PCRE2_UNSET && o[2 * n + 1] >= o[2 * n])
                ret[n] = sw_slice(text.p + o[2 * n], o[2 * n + 1] - o[2 * n]);
        }
    }
    pcre2_match_data_free(data);
    if (rc > 0)
        return n;
    return rc == PCRE2_ERROR_NOMATCH ? 0 : SW_ELIMIT;
}

size_t sw_regex_cost(const struct sw_regex *re)
{
    return re->cost;
}
