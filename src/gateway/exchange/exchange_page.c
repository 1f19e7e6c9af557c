/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of an answer that is made here: as the connection manager's local_reply_config wants it,
 * as it was given (direct responses, verdicts of an authorisation service), or as an error page.
 */
#include "gateway/config/config.h"
#include "gateway/exchange/errorpage.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/exchange/state.h"
#include "gateway/exchange/vars.h"
#include "gateway/message/fields.h"
#include "gateway/observe/accesslog.h"

enum { HOST_SHOWN = 253, ID_SHOWN = 128 };

static void set_type(struct sw_exchange *x, struct sw_slice type)
{
    sw_gw_fields_set(&x->arena, &x->resp.fields, SW_SLICE_LIT("content-type"), type);
}

static struct sw_slice formatted(struct sw_exchange *x, int status, struct sw_slice body)
{
    const struct sw_gw_body_format *f = x->hcm->local_body;
    struct sw_gw_vars vars;
    struct sw_slice text;

    sw_gw_vars_fill(x, &vars);
    vars.status = status;
    vars.local_body = body;
    text = sw_gw_body_text(f, &vars, &x->arena);
    set_type(x, sw_gw_body_type(f));
    return text;
}

/* The operator's page, or the built-in one where that cannot be written. */
static struct sw_slice page(struct sw_exchange *x, enum sw_gw_page_type type,
                            const struct sw_gw_page *p)
{
    struct sw_gw_pages *pages = sw_gw_pages_get();
    SW_BUF_AUTO out = {0};

    sw_buf_init(&out, SW_GW_PAGE_MAX);
    if (sw_gw_page_write(pages, type, p, &out) != SW_OK) {
        sw_buf_done(&out);
        sw_buf_init(&out, SW_GW_PAGE_MAX);
        (void)!sw_gw_page_write(NULL, type, p, &out);
    }
    (void)sw_gw_pages_unref(pages);
    return sw_arena_slice(&x->arena, sw_buf_slice(&out));
}

static enum sw_gw_page_type negotiate(const struct sw_exchange *x)
{
    const struct sw_gw_fields *f = &x->req.fields;
    struct sw_gw_accept a = {0};

    for (uint32_t i = 0; i < f->n; i++) {
        if (f->hid[i] == SW_GW_H_OTHER && sw_slice_ieq(f->p[i].name, SW_SLICE_LIT("accept")))
            sw_gw_accept_add(&a, f->p[i].value);
    }
    return sw_gw_accept_choose(&a);
}

static struct sw_slice error_page(struct sw_exchange *x, int status)
{
    enum sw_gw_page_type type = negotiate(x);
    struct sw_slice id = gw_request_id(x);
    struct sw_gw_page p = {.request_id = sw_slice_head(id, ID_SHOWN),
                           .host = sw_slice_head(x->req.authority, HOST_SHOWN)};
    struct sw_gw_fields *f = &x->resp.fields;

    sw_gw_page_explain(x, status, &p);
    set_type(x, sw_gw_page_content_type(type));
    sw_gw_fields_set(&x->arena, f, SW_SLICE_LIT("cache-control"), SW_SLICE_LIT("no-store"));
    if (!sw_gw_fields_find(f, SW_SLICE_LIT("x-request-id")))
        sw_gw_fields_add(&x->arena, f, SW_SLICE_LIT("x-request-id"), id);
    return page(x, type, &p);
}

/* The configuration or the authorisation service set this body: no error page replaces it. */
static bool chosen(const struct sw_exchange *x, struct sw_slice body)
{
    const struct sw_gw_route *r = x->route;

    if (x->flags & SW_GW_FLAG_DPE) /* a head that was refused: nothing of it is known */
        return true;
    if (x->flags & SW_GW_FLAG_UAEX)
        return body.n != 0;
    return r && r->action == SW_GW_DIRECT && !r->direct.reason.n;
}

struct sw_slice gw_page_body(struct sw_exchange *x, int status, struct sw_slice body)
{
    if (!x->hcm)
        return body;
    if (x->hcm->local_body && (status >= 400 || (status < 300 && body.n)))
        return formatted(x, status, body);
    return status < 400 || chosen(x, body) ? body : error_page(x, status);
}
