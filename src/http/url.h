/* SPDX-License-Identifier: Apache-2.0 */
/* Request targets: path and query apart, percent-decoding, query parameters. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

enum { SW_QUERY_MAX = 64 }; /* parameters in one query */

struct sw_query_param {
    struct sw_slice name;
    struct sw_slice value; /* empty when there was no '=' */
    bool has_value;
};

struct sw_query {
    struct sw_query_param *params; /* in the arena, in the order sent */
    size_t n;
};

/* "/a/b?x=1" -> "/a/b" and "x=1". Without '?' the query is empty with p == NULL. */
void sw_target_split(struct sw_slice target, struct sw_slice *ret_path, struct sw_slice *ret_query);

/*
 * Decodes %XX (and '+' as a space with 'plus'). Refuses cut or non-hex escapes and an encoded NUL:
 * SW_EINVAL with err->offset. Nothing is copied when there is nothing to decode.
 */
SW_NODISCARD int sw_percent_decode(struct sw_arena *a, struct sw_slice in, bool plus,
                                   struct sw_slice *ret, struct sw_err *err);

/* Appends the text with every byte but the unreserved ones of RFC 3986 as %XX. SW_ELIMIT. */
SW_NODISCARD int sw_percent_encode(struct sw_buf *out, struct sw_slice in);

/*
 * Splits at '&', then at the first '=', then decodes both sides ('+' is a space). Empty pieces are
 * skipped. SW_EINVAL as above, SW_ELIMIT beyond SW_QUERY_MAX parameters.
 */
SW_NODISCARD int sw_query_parse(struct sw_arena *a, struct sw_slice query, struct sw_query *ret,
                                struct sw_err *err);
/* First parameter of that name, or NULL. */
const struct sw_query_param *sw_query_get(const struct sw_query *q, const char *name);
