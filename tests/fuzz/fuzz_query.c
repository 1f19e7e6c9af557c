/* SPDX-License-Identifier: Apache-2.0 */
/* Property: what a query decodes to, encoded again, decodes to the same. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "http/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void encode(struct sw_buf *out, struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\0')
            abort(); /* never comes out of the decoder, raw ones are filtered below */
        if (sw_buf_printf(out, "%%%02x", (unsigned)(unsigned char)s.p[i]) != SW_OK)
            abort();
    }
}

static bool same(const struct sw_query *a, const struct sw_query *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct sw_query_param *x = &a->params[i];
        const struct sw_query_param *y = &b->params[i];

        if (!sw_slice_eq(x->name, y->name) || !sw_slice_eq(x->value, y->value) ||
            x->has_value != y->has_value)
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO out = {.max = 1 << 20};
    struct sw_query q = {0};
    struct sw_query back = {0};
    struct sw_err err = {0};
    int rc;

    if (n > 4096 || (n && memchr(data, 0, n)))
        return 0;
    rc = sw_query_parse(&a, sw_slice(data, n), &q, &err);
    if (rc != SW_OK) {
        if (q.n || (rc != SW_EINVAL && rc != SW_ELIMIT) || err.rc != rc)
            abort();
        return 0;
    }
    if (q.n > SW_QUERY_MAX)
        abort();
    for (size_t i = 0; i < q.n; i++) {
        if (i && sw_buf_putc(&out, '&') != SW_OK)
            abort();
        encode(&out, q.params[i].name);
        if (q.params[i].has_value && sw_buf_putc(&out, '=') != SW_OK)
            abort();
        encode(&out, q.params[i].value);
    }
    if (sw_query_parse(&a, sw_buf_slice(&out), &back, &err) != SW_OK || !same(&q, &back))
        abort();
    return 0;
}
