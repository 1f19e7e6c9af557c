/* SPDX-License-Identifier: Apache-2.0 */
/* Answers made here: errors, redirects, direct responses; for gRPC in its own words. */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/message/fields.h"
#include "http/grpc/grpc.h"

enum { MESSAGE_MAX = 1024 }; /* bytes of a body that become grpc-message */

/* grpc-status for the HTTP status of a response that is not gRPC (http-grpc-status-mapping). */
static const char *grpc_status(int status)
{
    switch (status) {
    case 400:
        return "13"; /* INTERNAL */
    case 401:
        return "16"; /* UNAUTHENTICATED */
    case 403:
        return "7"; /* PERMISSION_DENIED */
    case 404:
        return "12"; /* UNIMPLEMENTED */
    case 429:
    case 502:
    case 503:
    case 504:
        return "14"; /* UNAVAILABLE */
    default:
        return "2"; /* UNKNOWN */
    }
}

static struct sw_slice grpc_message(struct sw_exchange *x, struct sw_slice text)
{
    SW_BUF_AUTO out = {.max = 3 * MESSAGE_MAX};

    sw_grpc_message_encode(sw_slice_head(text, MESSAGE_MAX), &out);
    return sw_arena_slice(&x->arena, sw_buf_slice(&out));
}

static void fill_grpc(struct sw_exchange *x, int status, struct sw_slice body)
{
    struct sw_gw_fields *f = &x->resp.fields;

    x->resp.status = 200;
    x->resp.length = SW_GW_LENGTH_NONE;
    sw_gw_fields_set(&x->arena, f, SW_SLICE_LIT("content-type"), SW_SLICE_LIT("application/grpc"));
    sw_gw_fields_set(&x->arena, f, SW_SLICE_LIT("grpc-status"), sw_slice_str(grpc_status(status)));
    if (body.n)
        sw_gw_fields_set(&x->arena, f, SW_SLICE_LIT("grpc-message"), grpc_message(x, body));
}

static void fill(struct sw_exchange *x, int status, struct sw_slice body)
{
    x->resp.status = (uint16_t)status;
    x->resp.content_length = body.n;
    x->resp.has_length = true;
    x->resp.length = body.n ? SW_GW_LENGTH_KNOWN : SW_GW_LENGTH_NONE;
    if (body.n && !sw_gw_fields_get(&x->resp.fields, SW_GW_H_CONTENT_TYPE))
        sw_gw_fields_add(&x->arena, &x->resp.fields, SW_SLICE_LIT("content-type"),
                         SW_SLICE_LIT("text/plain"));
}

void sw_exchange_reply(struct sw_exchange *x, int status, struct sw_slice body, const char *detail)
{
    bool grpc = x->req.grpc && x->req.version == SW_GW_HTTP2 && !x->resp.local;
    bool end;

    if (x->state == SW_GW_X_DONE)
        return;
    if (!x->detail)
        x->detail = detail;
    if (x->down.head_sent || !x->down.ops) {
        gw_finish(x); /* too late for an answer: the client sees the break */
        return;
    }
    gw_leave_upstream(x);
    if (!x->resp.local && x->times.response_ns)
        memset(&x->resp, 0, sizeof(x->resp)); /* an upstream's head that was not passed on */
    x->resp.local = true;
    body = sw_arena_slice(&x->arena, body);
    if (grpc && status >= 400)
        fill_grpc(x, status, body);
    else
        fill(x, status, body = gw_page_body(x, status, body));
    end = x->resp.length == SW_GW_LENGTH_NONE || x->req.head;
    gw_send_answer(x, end);
    if (!end && x->down.ops) {
        x->tx_bytes += body.n;
        x->down.ops->send_data(x, body);
        x->down.end_sent = true;
        if (x->down.ops) /* HTTP/2 ends with the last byte of a known length */
            x->down.ops->send_end(x);
    }
    if (x->down.ops)
        x->down.ops->done(x);
    gw_finish(x);
}

uint64_t sw_exchange_start_wall(struct sw_exchange *x)
{
    if (!x->times.start_wall_ns)
        x->times.start_wall_ns = sw_wall_ns() - (sw_now_ns() - x->times.start_ns);
    return x->times.start_wall_ns;
}
