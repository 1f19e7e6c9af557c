/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error pages: first line an Accept field, second the values, the rest a template. A template that
 * is accepted is written without a placeholder left over; values cannot leave a JSON string or
 * become markup.
 */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/arena.h"
#include "base/json.h"
#include "gateway/exchange/errorpage.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_builtin(const struct sw_gw_page *p)
{
    for (int t = 0; t < SW_GW_PAGE_TYPES; t++) {
        SW_ARENA_AUTO a = {0};
        SW_BUF_AUTO out = {0};
        struct sw_json *v;
        int rc;

        sw_buf_init(&out, SW_GW_PAGE_MAX);
        rc = sw_gw_page_write(NULL, (enum sw_gw_page_type)t, p, &out);
        assert(rc == SW_OK);
        if (t == SW_GW_PAGE_JSON)
            assert(sw_json_parse(&a, sw_buf_slice(&out), NULL, &v, NULL) == SW_OK &&
                   sw_json_len(v) == 7);
        if (t == SW_GW_PAGE_HTML)
            assert(!memmem(out.p + out.off, sw_buf_len(&out), "<script", 7));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_slice rest = sw_slice(data, size);
    struct sw_slice accept = sw_slice_cut(&rest, '\n');
    struct sw_slice value = rest.p ? sw_slice_cut(&rest, '\n') : sw_slice("", 0);
    struct sw_gw_page p = {.status = 503,
                           .title = SW_SLICE_LIT("Service Unavailable"),
                           .reason = value,
                           .visitor = value,
                           .owner = value,
                           .request_id = value,
                           .host = value};
    struct sw_gw_accept a = {0};
    struct sw_err err = {0};

    sw_gw_accept_add(&a, accept);
    assert(sw_gw_accept_choose(&a) < SW_GW_PAGE_TYPES);
    for (int t = 0; t < SW_GW_PAGE_TYPES; t++)
        assert(a.of[t].q <= 1000 && a.of[t].precision <= 3);
    check_builtin(&p);
    if (rest.p && sw_gw_page_check(rest, &err) != SW_OK)
        assert(err.offset < rest.n && err.msg[0]);
    return 0;
}
