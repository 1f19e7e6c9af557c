/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check request is an exchange of its own without a client, like a mirror, whose answer is read
 * whole. The answer is acted upon from the loop, never from inside the other exchange.
 */
#include "gateway/filter/authz.h"

#include "base/log.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/side.h"
#include "gateway/filter/authz_int.h"
#include "gateway/message/fields.h"
#include "gateway/observe/stats.h"

/* ---- as the question sees its client ---- */

static struct sw_gw_authz_state *state_of(const struct sw_exchange *m)
{
    return m->down.stream;
}

static void on_head(struct sw_exchange *m, bool end)
{
    struct sw_gw_authz_state *s = state_of(m);

    s->whole = end;
}

static void on_data(struct sw_exchange *m, struct sw_slice data)
{
    struct sw_gw_authz_state *s = state_of(m);

    s->cut |= sw_buf_append_slice(&s->answer, data) != SW_OK;
}

static void on_end(struct sw_exchange *m)
{
    state_of(m)->whole = true;
}

static void on_judged(struct sw_defer *d);

/* The other exchange ends: what its answer was is read before its memory goes. */
static void leave(struct sw_exchange *m)
{
    struct sw_gw_authz_state *s = state_of(m);

    (void)gw_side_detach(&m->down);
    s->sub = NULL;
    if (s->x->state == SW_GW_X_DONE)
        return;
    if (s->whole && !s->cut && !m->resp.local)
        authz_read_answer(s, m);
    sw_loop_defer(s->x->worker->loop, &s->defer, on_judged);
}

static const struct sw_gw_side_ops side = {
    .send_head = on_head,
    .send_data = on_data,
    .send_end = on_end,
    .flush = gw_side_nothing,
    .blocked = gw_side_never_blocked,
    .pause = gw_side_nothing,
    .resume = gw_side_nothing,
    .abort = leave,
    .done = leave,
    .send_info = gw_side_no_info,
};

/* ---- the judgement ---- */

static void refuse(struct sw_gw_authz_state *s, int status, struct sw_slice body,
                   const char *detail)
{
    struct sw_exchange *x = s->x;

    x->flags |= SW_GW_FLAG_UAEX;
    if (sw_gw_lstats_may_log(x->from.stats)) {
        struct sw_log_line l;

        sw_log_begin(&l, SW_LOG_INFO, "gateway", "request not authorised");
        sw_log_str(&l, "cluster", s->service->cluster);
        sw_log_str(&l, "authority", x->req.authority);
        sw_log_u64(&l, "status", (uint64_t)status);
        sw_log_str(&l, "reason", sw_slice_str(detail));
        sw_log_end(&l);
    }
    sw_exchange_reply(x, status, body, detail);
}

static void on_judged(struct sw_defer *d)
{
    struct sw_gw_authz_state *s = SW_CONTAINER_OF(d, struct sw_gw_authz_state, defer);
    struct sw_exchange *x = s->x;

    if (x->state != SW_GW_X_ROUTE)
        return;
    s->open = false;
    switch (s->verdict) {
    case AUTHZ_DENIED:
        for (uint32_t i = 0; i < s->client.n; i++)
            sw_gw_fields_add(&x->arena, &x->resp.fields, s->client.p[i].name, s->client.p[i].value);
        refuse(s, s->status, s->text, "ext_authz_denied");
        return;
    case AUTHZ_FAILED:
        if (!s->filter->let_pass) {
            refuse(s, s->filter->failure, sw_slice(NULL, 0), "ext_authz_error");
            return;
        }
        break;
    case AUTHZ_OK:
        authz_change_request(s);
        break;
    }
    x->worker->calls->route_continue(x);
}

/* ---- asking ---- */

static void start(struct sw_gw_authz_state *s)
{
    struct sw_exchange *x = s->x;
    struct sw_exchange *m = sw_exchange_new_inner(x, s->service->cluster);
    struct sw_slice body = {0};

    sw_timer_stop(x->worker->loop, &s->timer);
    s->asked = true;
    s->sub = m;
    m->plan.timeout_ns = s->service->timeout_ns;
    m->plan.idle_timeout_ns = s->service->timeout_ns;
    m->plan.idempotent = true;
    m->down.ops = &side;
    m->down.stream = s;
    if (s->service->grpc)
        body = authz_grpc_question(s, m);
    else
        body = authz_http_question(s, m);
    m->sending_kept = true; /* in front of the body is something else */
    sw_exchange_start(m, body.n == 0);
    if (body.n && s->sub)
        sw_exchange_down_data(m, body);
    if (body.n && s->sub)
        sw_exchange_down_end(m);
}

static void on_slow(struct sw_timer *t)
{
    struct sw_gw_authz_state *s = SW_CONTAINER_OF(t, struct sw_gw_authz_state, timer);

    if (s->x->state != SW_GW_X_ROUTE)
        return;
    s->x->flags |= SW_GW_FLAG_SI;
    sw_exchange_reply(s->x, 408, SW_SLICE_LIT("stream timeout"), "stream_idle_timeout");
}

/* Starts when as much of the body is there as the check shall contain. */
static void look(struct sw_gw_authz_state *s)
{
    struct sw_exchange *x = s->x;

    if (x->kept.n > s->body.max && !s->body.partial) {
        s->open = false;
        refuse(s, 413, sw_slice(NULL, 0), "request_payload_too_large");
    } else if (x->down.end_got || x->kept.n >= s->body.max) {
        start(s);
    } else {
        uint64_t idle = x->hcm->timeouts.stream_idle_ns;

        sw_timer_start(x->worker->loop, &s->timer, idle ? idle : BODY_WAIT_NS, on_slow);
    }
}

static void on_look(struct sw_defer *d)
{
    struct sw_gw_authz_state *s = SW_CONTAINER_OF(d, struct sw_gw_authz_state, defer);

    if (s->x->state == SW_GW_X_ROUTE && s->open && !s->asked)
        look(s);
}

void sw_gw_authz_body(struct sw_exchange *x)
{
    struct sw_gw_authz_state *s = x->rs ? x->rs->authz : NULL;

    /* From the loop: the codec that brought the bytes is still at work on the connection. */
    if (s && s->open && !s->asked)
        sw_loop_defer(x->worker->loop, &s->defer, on_look);
}

int sw_gw_authz_request(struct sw_exchange *x, const struct sw_gw_authz *filter,
                        const struct sw_gw_authz *route)
{
    struct sw_gw_authz_state *s = SW_ARENA_NEW(&x->arena, struct sw_gw_authz_state);
    bool tunnel = x->req.length == SW_GW_LENGTH_TUNNEL;

    s->x = x;
    s->before = x->rs->authz;
    s->filter = filter;
    s->route = route;
    s->service = route && route->service.cluster.n ? &route->service : &filter->service;
    s->shown = route && route->shown.given ? &route->shown : &filter->shown;
    if (!route || !route->no_body)
        s->body = route && route->body.max ? route->body : filter->body;
    if (tunnel)
        s->body.max = 0;
    s->open = true;
    sw_buf_init(&s->answer, ANSWER_MAX);
    x->rs->authz = s;
    if (s->body.max == 0 || x->down.end_got) {
        start(s);
        return SW_EPENDING;
    }
    x->plan.hold = s->body.max;
    if (x->req.expect_continue && !x->continued)
        x->down.ops->send_info(x, 100);
    x->continued = true;
    sw_gw_authz_body(x);
    return SW_EPENDING;
}

void sw_gw_authz_response(struct sw_exchange *x)
{
    for (const struct sw_gw_authz_state *s = x->rs->authz; s; s = s->before) {
        for (uint32_t i = 0; s->verdict == AUTHZ_OK && i < s->response.n; i++)
            sw_gw_fields_add(&x->arena, &x->resp.fields, s->response.p[i].name,
                             s->response.p[i].value);
    }
}

void sw_gw_authz_gone(struct sw_exchange *x)
{
    for (struct sw_gw_authz_state *s = x->rs ? x->rs->authz : NULL; s; s = s->before) {
        sw_timer_stop(x->worker->loop, &s->timer);
        sw_defer_cancel(&s->defer);
        if (s->sub)
            sw_exchange_kill(s->sub); /* leaves */
        sw_buf_done(&s->answer);
    }
}
