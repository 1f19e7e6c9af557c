/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input: 'b' or 'u' for bytes or UTF-8, the pattern, a newline, the text. Whatever is accepted
 * compiles again when written out, takes at most text times program steps, and matches as a naive
 * matcher does.
 */
#include <stdlib.h>

#include "../unit/regex/naive.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(x)                                                                                    \
    do {                                                                                           \
        if (!(x))                                                                                  \
            abort();                                                                               \
    } while (0)

static bool is_utf8(struct sw_slice s)
{
    for (size_t i = 0; i < s.n;) {
        size_t n = sw_utf8_len(s.p + i, s.n - i);

        if (!n)
            return false;
        i += n;
    }
    return true;
}

static uint64_t bound(const struct sw_regex *re, size_t n)
{
    return 100 * (n + 2) * (sw_regex_size(re) + 10);
}

static int compile(struct sw_slice pattern, bool bytes, struct sw_regex **ret)
{
    return bytes ? sw_regex_new_bytes(pattern, ret, NULL) : sw_regex_new(pattern, ret, NULL);
}

static void compare(const struct sw_regex *re, const struct re_tree *t, bool bytes,
                    struct sw_slice text)
{
    struct naive m = {.text = text, .bytes = bytes};
    struct sw_slice got[NAIVE_GROUPS];
    struct sw_budget b = {.steps = bound(re, text.n)};
    int want = naive_search(&m, t, 0);
    int n = sw_regex_groups(re, text, 0, NAIVE_GROUPS, got, &b);

    MUST(n >= 0);
    MUST(sw_regex_match(re, text, NULL) == (n > 0));
    MUST(naive_nfa_agrees(t, bytes, text, got, n));
    if (want < 0)
        return;
    MUST((n > 0) == (want == 1));
    if (n == 0 || naive_loops(t->root))
        return;
    for (int i = 0; i < n; i++) {
        if (m.at[2 * i] == SIZE_MAX || m.at[2 * i + 1] == SIZE_MAX)
            MUST(!got[i].p);
        else
            MUST(got[i].p == text.p + m.at[2 * i] && got[i].n == m.at[2 * i + 1] - m.at[2 * i]);
    }
}

static void rewrite(const struct re_tree *t, bool bytes, struct sw_slice text, bool matched)
{
    SW_BUF_AUTO b = {.max = SW_REGEX_PATTERN_MAX};
    struct sw_regex *re = NULL;

    if (naive_write(&b, t->root) < 0 || compile(sw_buf_slice(&b), bytes, &re) < 0)
        return; /* too long, or "[^...]" above what bytes have */
    MUST((sw_regex_match(re, text, NULL) == 1) == matched);
    sw_regex_free(re);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice rest = sw_slice((const char *)data, size);
    struct sw_slice pattern;
    struct sw_slice text;
    struct re_tree t = {0};
    struct sw_regex *re = NULL;
    struct sw_err err = {0};
    bool bytes;
    int rc;

    if (size < 1)
        return 0;
    bytes = data[0] == 'b';
    rest = sw_slice_from(rest, 1);
    pattern = sw_slice_cut(&rest, '\n');
    text = rest.p ? sw_slice_head(rest, 200) : sw_slice("", 0);
    rc = bytes ? sw_regex_new_bytes(pattern, &re, &err) : sw_regex_new(pattern, &re, &err);
    MUST(rc == SW_OK || err.msg[0]);
    if (rc < 0 || (!bytes && !is_utf8(text))) {
        sw_regex_free(re);
        return 0;
    }
    MUST(re_parse(&a, pattern, bytes, &t, NULL) == SW_OK);
    if (sw_regex_size(re) < 5000) {
        compare(re, &t, bytes, text);
        rewrite(&t, bytes, text, sw_regex_match(re, text, NULL) == 1);
    }
    sw_regex_free(re);
    return 0;
}
