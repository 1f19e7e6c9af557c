/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON: what the parser accepts is written back and read again as the same tree, in every writer
 * mode; both kinds of duplicate handling agree; an error has an offset inside the input.
 */
#include <stdlib.h>

#include "base/json.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

static void round_trip(struct sw_arena *a, const struct sw_json *v, unsigned flags, unsigned indent)
{
    struct sw_json_write_opts opts = {.flags = flags, .indent = indent};
    struct sw_slice text = sw_json_text(a, v, &opts);
    struct sw_json *again = NULL;

    check(sw_utf8_valid(text));
    check(sw_json_parse(a, text, NULL, &again, NULL) == SW_OK);
    check(sw_json_equal(v, again, SW_JSON_EQ_TEXT));
    check(sw_slice_eq(sw_json_text(a, again, &opts), text));
}

static void numbers(const struct sw_json *v)
{
    int64_t i;
    int64_t exact;
    double d;

    for (size_t k = 0; k < sw_json_len(v); k++)
        numbers(v->type == SW_JSON_ARRAY ? v->arr.items[k] : v->obj.members[k].value);
    if (v->type != SW_JSON_NUMBER)
        return;
    check(sw_json_number_valid(v->text));
    check(sw_json_number_cmp(v->text, v->text) == 0);
    if (sw_json_i64(v, &i))
        check(sw_json_is_integer(v) && sw_json_exact_i64(v, &exact) && exact == i);
    if (sw_json_exact_i64(v, &exact)) {
        SW_ARENA_AUTO a = {0};

        check(sw_json_number_cmp(sw_json_new_i64(&a, exact)->text, v->text) == 0);
    }
    if (sw_json_double(v, &d)) {
        SW_ARENA_AUTO a = {0};
        double back;

        check(sw_json_double(sw_json_new_double(&a, d), &back) && back == d);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json_dups dups = {0};
    struct sw_json_opts strict = {.max_depth = 200};
    struct sw_json_opts loose = {.max_depth = 200, .borrow = true, .dups = &dups};
    struct sw_slice in = sw_slice(data, n);
    struct sw_json *v = NULL;
    struct sw_json *w = NULL;
    struct sw_err err = {0};
    int rc = sw_json_parse(&a, in, &strict, &v, &err);
    int rc2 = sw_json_parse(&a, in, &loose, &w, NULL);

    if (rc != SW_OK) {
        check(!v && err.offset <= n && err.msg[0]);
        if (rc2 == SW_OK)
            check(dups.n > 0);
    } else {
        check(rc2 == SW_OK && dups.n == 0 && sw_json_equal(v, w, SW_JSON_EQ_TEXT));
    }
    if (rc2 != SW_OK)
        return 0;
    check(sw_json_depth(w) <= 200);
    round_trip(&a, w, 0, 0);
    round_trip(&a, w, SW_JSON_GO_ESCAPE | SW_JSON_SORT_KEYS, 2);
    check(sw_json_equal(w, sw_json_copy(&a, w), SW_JSON_EQ_TEXT));
    numbers(w);
    return 0;
}
