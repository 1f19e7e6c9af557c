/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patches. Input: document, newline, patch (JSON Patch when it is an array, merge patch anyway).
 * The inputs never change, results are well-formed trees, a failing patch gives no result, and a
 * merge difference leads from one to the other.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* Names in big objects must be found, once each. */
static void sound(const struct sw_json *v)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        if (v->type == SW_JSON_ARRAY) {
            sound(v->arr.items[i]);
        } else {
            check(sw_json_index_of(v, v->obj.members[i].key) == (ptrdiff_t)i);
            sound(v->obj.members[i].value);
        }
    }
}

static bool has_null(const struct sw_json *v)
{
    for (size_t i = 0; i < sw_json_len(v); i++) {
        if (has_null(v->type == SW_JSON_ARRAY ? v->arr.items[i] : v->obj.members[i].value))
            return true;
    }
    return v->type == SW_JSON_NULL;
}

static void json_patch(struct sw_arena *a, const struct sw_json *doc, const struct sw_json *patch)
{
    struct sw_json_patch_opts opts = {.max_ops = 100, .max_copy_bytes = 100000};
    struct sw_json *result = NULL;
    struct sw_err err = {0};
    int rc = sw_json_patch(a, doc, patch, &opts, &result, &err);

    check((rc == SW_OK) == (result != NULL));
    check(rc == SW_OK || err.msg[0]);
    if (rc != SW_OK)
        return;
    sound(result);
    check(sw_json_depth(result) <= SW_JSON_DEPTH_MAX);
}

static void merge_patch(struct sw_arena *a, const struct sw_json *doc, const struct sw_json *patch)
{
    struct sw_json *result = sw_json_merge_patch(a, doc, patch);

    sound(result);
    check(sw_json_equal(sw_json_merge_patch(a, result, patch), result, SW_JSON_EQ_TEXT));
    if (!has_null(patch)) {
        struct sw_json *diff = sw_json_merge_diff(a, doc, patch);

        check(sw_json_equal(sw_json_merge_patch(a, doc, diff), patch, SW_JSON_EQ_VALUE));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json_opts opts = {.max_depth = 100, .max_bytes = 20000};
    struct sw_slice rest = sw_slice(data, n);
    struct sw_slice first = sw_slice_cut(&rest, '\n');
    struct sw_json *doc;
    struct sw_json *patch;
    struct sw_slice doc_text;
    struct sw_slice patch_text;

    if (!rest.p || sw_json_parse(&a, first, &opts, &doc, NULL) != SW_OK ||
        sw_json_parse(&a, rest, &opts, &patch, NULL) != SW_OK)
        return 0;
    doc_text = sw_json_text(&a, doc, NULL);
    patch_text = sw_json_text(&a, patch, NULL);
    json_patch(&a, doc, patch);
    merge_patch(&a, doc, patch);
    check(sw_slice_eq(sw_json_text(&a, doc, NULL), doc_text));
    check(sw_slice_eq(sw_json_text(&a, patch, NULL), patch_text));
    return 0;
}
