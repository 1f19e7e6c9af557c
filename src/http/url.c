/* SPDX-License-Identifier: Apache-2.0 */
#include "http/url.h"

#include "base/hex.h"

void sw_target_split(struct sw_slice target, struct sw_slice *ret_path, struct sw_slice *ret_query)
{
    ptrdiff_t mark = sw_slice_find(target, '?');

    *ret_path = mark < 0 ? target : sw_slice_head(target, (size_t)mark);
    *ret_query = mark < 0 ? (struct sw_slice){0} : sw_slice_from(target, (size_t)mark + 1);
}

int sw_percent_decode(struct sw_arena *a, struct sw_slice in, bool plus, struct sw_slice *ret,
                      struct sw_err *err)
{
    size_t n = 0;
    char *out;

    if (sw_slice_find(in, '%') < 0 && (!plus || sw_slice_find(in, '+') < 0)) {
        *ret = in;
        return SW_OK;
    }
    out = sw_arena_alloc(a, in.n + 1);
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        int escaped;

        if (plus && c == '+')
            c = ' ';
        if (c != '%') {
            out[n++] = c;
            continue;
        }
        escaped = sw_hex_escape(in, i);
        if (escaped < 0)
            return sw_err_at(err, SW_EINVAL, i, "bad percent escape");
        if (escaped == 0)
            return sw_err_at(err, SW_EINVAL, i, "encoded NUL");
        out[n++] = (char)escaped;
        i += 2;
    }
    *ret = sw_slice(out, n);
    return SW_OK;
}

static bool unreserved(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int sw_percent_encode(struct sw_buf *out, struct sw_slice in)
{
    int rc = SW_OK;

    for (size_t i = 0; i < in.n && rc == SW_OK; i++) {
        uint8_t b = (uint8_t)in.p[i];
        char escape[3] = {'%', sw_hex_upper(b >> 4), sw_hex_upper(b)};

        rc = unreserved(in.p[i]) ? sw_buf_putc(out, in.p[i])
                                 : sw_buf_append(out, escape, sizeof(escape));
    }
    return rc;
}

int sw_query_parse(struct sw_arena *a, struct sw_slice query, struct sw_query *ret,
                   struct sw_err *err)
{
    struct sw_slice rest = query;
    struct sw_query q = {0};
    int rc = SW_OK;

    q.params = sw_arena_array(a, SW_QUERY_MAX, sizeof(*q.params));
    while (rest.p && rc == SW_OK) {
        struct sw_slice piece = sw_slice_cut(&rest, '&');
        struct sw_query_param *p = &q.params[q.n];
        ptrdiff_t eq = sw_slice_find(piece, '=');

        if (piece.n == 0)
            continue;
        if (q.n == SW_QUERY_MAX)
            return sw_err_set(err, SW_ELIMIT, "more than %d query parameters", SW_QUERY_MAX);
        p->has_value = eq >= 0;
        rc = sw_percent_decode(a, eq < 0 ? piece : sw_slice_head(piece, (size_t)eq), true, &p->name,
                               err);
        if (rc == SW_OK && eq >= 0)
            rc = sw_percent_decode(a, sw_slice_from(piece, (size_t)eq + 1), true, &p->value, err);
        q.n++;
    }
    if (rc == SW_OK)
        *ret = q;
    return rc;
}

const struct sw_query_param *sw_query_get(const struct sw_query *q, const char *name)
{
    for (size_t i = 0; i < q->n; i++) {
        if (sw_slice_eq_str(q->params[i].name, name))
            return &q->params[i];
    }
    return NULL;
}
