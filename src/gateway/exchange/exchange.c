/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of an exchange: route, attempt, stream, retry, finish. Which side may send what in which
 * state:
 *
 *   state     downstream body goes            upstream may
 *   CONNECT   into 'kept', then downstream     (not attached)
 *             pauses
 *   SEND      upstream, and into 'kept'        answer, or fail: retried or answered here
 *             while a retry is possible
 *   BACKOFF   as CONNECT                       (not attached)
 *   ANSWER    upstream                         stream; a failure aborts downstream
 */
#include "gateway/exchange/exchange.h"

#include <string.h>

#include "base/mem.h"
#include "gateway/config/config.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/upstream/host.h"
#include "http/gzip.h"
#include "tls/verify.h"

enum {
    KEEP_SMALL = 16 * 1024, /* bodies up to this are kept for a stale connection */
    KEEP_MAX = 64 * 1024,   /* ... and up to this for a retry policy */
    ARENA_MAX = 64 * 1024,  /* larger arenas are not recycled */
};

/* ---- pool ---- */

struct sw_exchange *sw_exchange_new(struct sw_gw_worker *w)
{
    struct sw_exchange *x = w->spare.n ? w->spare.p[--w->spare.n] : SW_NEW(struct sw_exchange);

    x->worker = w;
    sw_list_init(&x->link);
    sw_list_init(&x->queue);
    return x;
}

void sw_exchange_discard(struct sw_exchange *x)
{
    struct sw_gw_worker *w = x->worker;
    struct sw_arena arena;
    struct sw_timer timer;

    sw_free(x->kept.p);
    sw_gzip_stream_free(x->gzip);
    (void)sw_peer_unref(x->from.client);
    (void)sw_gw_listener_unref(x->from.listener);
    (void)sw_gw_view_unref(x->view);
    if (w->spare.n == SW_GW_SPARE_EXCHANGES) {
        sw_timer_stop(w->loop, &x->clock.timer);
        sw_arena_clear(&x->arena);
        sw_free(x);
        return;
    }
    sw_arena_reset(&x->arena, ARENA_MAX);
    arena = x->arena;
    timer = x->clock.timer; /* runs on: see gw_arm */
    memset(x, 0, sizeof(*x));
    x->arena = arena;
    x->clock.timer = timer;
    sw_vec_push(&w->spare, x);
}

void sw_exchange_reap(struct sw_gw_worker *w)
{
    struct sw_exchange *x;

    while ((x = SW_LIST_POP(&w->ended, struct sw_exchange, link)) != NULL)
        sw_exchange_discard(x);
}

static void on_reap(struct sw_defer *d)
{
    sw_exchange_reap(SW_CONTAINER_OF(d, struct sw_gw_worker, reap));
}

/* Detaches whatever is left; the exchange is freed once no caller up the stack can refer to it. */
void gw_leave_upstream(struct sw_exchange *x)
{
    if (sw_list_linked(&x->queue))
        x->worker->calls->cancel(x);
    if (x->up.ops)
        x->up.ops->abort(x);
    if (x->host)
        gw_host_done(x, SW_GW_DOWNSTREAM_GONE, 0);
}

void gw_finish(struct sw_exchange *x)
{
    struct sw_gw_worker *w = x->worker;

    if (x->state == SW_GW_X_DONE)
        return;
    x->state = SW_GW_X_DONE;
    if (x->copies)
        gw_mirror_gone(x);
    gw_leave_upstream(x);
    if (x->down.ops)
        x->down.ops->abort(x);
    gw_log_done(x);
    sw_list_unlink(&x->link);
    sw_list_push_back(&w->ended, &x->link);
    w->n_exchanges--;
    sw_loop_defer(w->loop, &w->reap, on_reap);
}

void sw_exchange_kill(struct sw_exchange *x)
{
    gw_finish(x);
}

/* ---- deadlines ---- */

static void on_timer(struct sw_timer *t);

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a == 0 ? b : b == 0 ? a : sw_min(a, b);
}

/* When the whole request must have come; 0: no limit, or it has. */
static uint64_t receive_by(const struct sw_exchange *x)
{
    if (!x->hcm || x->hcm->timeouts.request_ns == 0 || x->down.end_got ||
        x->req.length == SW_GW_LENGTH_TUNNEL)
        return 0;
    return x->times.start_ns + x->hcm->timeouts.request_ns;
}

/*
 * Sets the timer for the earliest deadline; one that runs too early is only corrected when it
 * fires. So it may as well outlive the exchange and serve the next: in the common case no request
 * moves anything in the heap.
 */
void gw_arm(struct sw_exchange *x)
{
    uint64_t now = sw_loop_now(x->worker->loop);
    uint64_t at =
        earlier(earlier(x->clock.deadline_ns, x->clock.try_deadline_ns), x->clock.retry_at_ns);

    at = earlier(earlier(at, x->clock.stream_deadline_ns), receive_by(x));
    if (x->plan.max_stream_ns)
        at = earlier(at, x->times.start_ns + x->plan.max_stream_ns);
    if (x->clock.idle_ns)
        at = earlier(at, x->clock.active_ns + x->clock.idle_ns);
    if (at == 0) {
        sw_timer_stop(x->worker->loop, &x->clock.timer);
        return;
    }
    if (sw_timer_running(&x->clock.timer) && x->clock.timer.deadline_ns <= at)
        return;
    sw_timer_start(x->worker->loop, &x->clock.timer, at > now ? at - now : 1, on_timer);
}

static void active(struct sw_exchange *x)
{
    x->clock.active_ns = sw_loop_now(x->worker->loop);
}

/* The attempt takes too long. */
static void end_attempt(struct sw_exchange *x, const char *why)
{
    x->clock.try_deadline_ns = x->clock.stream_deadline_ns = 0;
    if (sw_list_linked(&x->queue))
        x->worker->calls->cancel(x);
    if (x->up.ops)
        x->up.ops->abort(x);
    sw_exchange_up_failed(x, SW_GW_TIMEOUT, why);
}

static void on_timer(struct sw_timer *t)
{
    struct sw_exchange *x = SW_CONTAINER_OF(t, struct sw_exchange, clock.timer);
    uint64_t now;

    if (!x->worker || x->state == SW_GW_X_DONE) /* spare, or soon */
        return;
    now = sw_loop_now(x->worker->loop);

    if (x->clock.deadline_ns && now >= x->clock.deadline_ns) {
        x->flags |= SW_GW_FLAG_UT;
        if (x->host)
            gw_host_done(x, SW_GW_TIMEOUT, 0);
        sw_exchange_reply(x, 504, SW_SLICE_LIT("upstream request timeout"), "response_timeout");
        return;
    }
    if (x->plan.max_stream_ns && now >= x->times.start_ns + x->plan.max_stream_ns) {
        x->flags |= SW_GW_FLAG_DT;
        sw_exchange_reply(x, x->times.request_ns ? 504 : 408,
                          SW_SLICE_LIT("stream lasted too long"), "max_duration_timeout");
        return;
    }
    if (receive_by(x) && now >= receive_by(x)) {
        sw_exchange_reply(x, 408, SW_SLICE_LIT("request timeout"), "request_overall_timeout");
        return;
    }
    if (x->clock.stream_deadline_ns && now >= x->clock.stream_deadline_ns) {
        end_attempt(x, "max_stream_duration of the cluster");
        return;
    }
    if (x->clock.retry_at_ns && now >= x->clock.retry_at_ns) {
        x->clock.retry_at_ns = 0;
        gw_attempt(x);
        if (x->state != SW_GW_X_DONE)
            gw_arm(x); /* this timer has fired: the other deadlines still hold */
        return;
    }
    if (x->clock.try_deadline_ns && now >= x->clock.try_deadline_ns) {
        end_attempt(x, "per try timeout");
        return;
    }
    if (x->clock.idle_ns && now >= x->clock.active_ns + x->clock.idle_ns) {
        x->flags |= SW_GW_FLAG_SI;
        sw_exchange_reply(x, 408, SW_SLICE_LIT("stream timeout"), "stream_idle_timeout");
        return;
    }
    gw_arm(x);
}

static void request_complete(struct sw_exchange *x)
{
    x->times.request_ns = sw_loop_now(x->worker->loop);
    if (x->plan.timeout_ns && x->req.length != SW_GW_LENGTH_TUNNEL) {
        x->clock.deadline_ns = x->times.request_ns + x->plan.timeout_ns;
        gw_arm(x);
    }
}

/* ---- the request ---- */

static void keep(struct sw_exchange *x, struct sw_slice data)
{
    if (x->kept.n + data.n > x->kept.cap) {
        size_t cap = sw_max(x->kept.n + data.n, (size_t)x->kept.cap * 2);

        x->kept.p = sw_realloc(x->kept.p, cap + 1); /* sealing wants a byte behind */
        x->kept.cap = (uint32_t)cap;
    }
    memcpy(x->kept.p + x->kept.n, data.p, data.n);
    x->kept.n += (uint32_t)data.n;
}

static void forget_kept(struct sw_exchange *x)
{
    sw_free(x->kept.p);
    memset(&x->kept, 0, sizeof(x->kept));
}

/* Whether body bytes that went upstream are worth remembering. */
static bool keeps(const struct sw_exchange *x, size_t more)
{
    size_t max = x->plan.retries ? KEEP_MAX : KEEP_SMALL;

    return !x->body_lost && x->state == SW_GW_X_SEND && x->req.length != SW_GW_LENGTH_TUNNEL &&
           x->kept.n + more <= max;
}

static void set_paused(struct sw_gw_side *s, bool pause)
{
    if (!s->ops || s->paused == pause)
        return;
    s->paused = pause;
    if (pause)
        s->ops->pause(s);
    else
        s->ops->resume(s);
}

void gw_attempt(struct sw_exchange *x)
{
    int status = 503;

    x->state = SW_GW_X_CONNECT;
    x->attempts++;
    if (gw_pick_host(x, &status) != SW_OK) {
        sw_exchange_reply(x, status, SW_SLICE_LIT("no healthy upstream"), x->detail);
        return;
    }
    if (x->plan.try_timeout_ns) {
        x->clock.try_deadline_ns = sw_loop_now(x->worker->loop) + x->plan.try_timeout_ns;
        gw_arm(x);
    }
    x->worker->calls->connect(x);
}

void sw_exchange_continue(struct sw_exchange *x)
{
    if (x->state != SW_GW_X_ROUTE)
        return;
    if (!x->plan.upgrade && x->req.length == SW_GW_LENGTH_TUNNEL) {
        sw_exchange_reply(x, 403, SW_SLICE_LIT("upgrade refused"), "upgrade_failed");
        return;
    }
    x->clock.idle_ns = x->plan.idle_timeout_ns;
    if (x->down.end_got)
        request_complete(x);
    else if (x->req.expect_continue && !x->continued)
        x->down.ops->send_info(x, 100);
    gw_arm(x);
    gw_attempt(x);
}

static void enter(struct sw_exchange *x)
{
    struct sw_gw_worker *w = x->worker;

    x->view = sw_gw_view_ref(w->view);
    sw_list_push_back(&w->exchanges, &x->link);
    w->n_exchanges++;
    x->times.start_ns = sw_loop_now(w->loop);
    x->clock.active_ns = x->times.start_ns;
    x->down.head_got = true;
}

void sw_exchange_refuse(struct sw_exchange *x, int status, const char *detail)
{
    enter(x);
    x->flags |= SW_GW_FLAG_DPE;
    sw_exchange_reply(x, status, (struct sw_slice){0}, detail);
}

/* The limits of the connection manager hold while a filter waits; the route's own come after. */
static void wait_for_filter(struct sw_exchange *x)
{
    x->plan.max_stream_ns = x->hcm->timeouts.max_stream_ns;
    x->clock.idle_ns = x->hcm->timeouts.stream_idle_ns;
    gw_arm(x);
}

void sw_exchange_start(struct sw_exchange *x, bool end)
{
    int rc;

    enter(x);
    x->down.end_got = end;
    if (x->hcm) /* not for what was made here: mirrors, TCP */
        gw_clean_request(x);
    rc = x->worker->calls->route(x);
    if (rc == SW_OK)
        sw_exchange_continue(x);
    else if (rc == SW_EPENDING)
        wait_for_filter(x);
}

void sw_exchange_up_ready(struct sw_exchange *x)
{
    bool all = x->down.end_got && x->kept.n == 0 && x->req.trailers.n == 0;
    struct sw_gw_kept kept = x->kept;

    if (x->host && x->host->cluster->spec->max_stream_ns) {
        x->clock.stream_deadline_ns =
            sw_loop_now(x->worker->loop) + x->host->cluster->spec->max_stream_ns;
        gw_arm(x);
    }
    memset(&x->kept, 0, sizeof(x->kept)); /* a tunnel is answered from inside send_head */
    x->state = SW_GW_X_SEND;
    x->up.head_sent = true;
    x->up.tunnel = x->req.length == SW_GW_LENGTH_TUNNEL;
    x->up.ops->send_head(x, all);
    if (kept.n && x->up.ops) {
        x->sending_kept = true;
        x->up.ops->send_data(x, sw_slice(kept.p, kept.n));
        x->sending_kept = false;
    }
    x->up.end_sent = x->down.end_got;
    if (!all && x->down.end_got && x->up.ops)
        x->up.ops->send_end(x);
    /* BACKOFF: the head could not be sent, and another attempt will be made. */
    if (x->state == SW_GW_X_BACKOFF || (x->state == SW_GW_X_SEND && keeps(x, kept.n))) {
        x->kept = kept;
    } else {
        x->body_lost |= kept.n > 0;
        sw_free(kept.p);
    }
    if (!x->up.ops)
        return;
    x->up.ops->flush(&x->up);
    if (x->up.ops && !x->up.ops->blocked(&x->up))
        set_paused(&x->down, false);
}

void sw_exchange_down_data(struct sw_exchange *x, struct sw_slice data)
{
    x->rx_bytes += data.n;
    active(x);
    if (x->state == SW_GW_X_DONE)
        return;
    if (x->copies)
        gw_mirror_data(x, data);
    if (x->state < SW_GW_X_SEND || x->state == SW_GW_X_BACKOFF) {
        keep(x, data);
        if (x->kept.n >= sw_max(KEEP_MAX, x->plan.hold))
            set_paused(&x->down, true);
        if (x->state == SW_GW_X_ROUTE)
            x->worker->calls->more_body(x);
        return;
    }
    if (!x->up.ops || x->up.end_sent)
        return; /* answered already: what still comes is of no use */
    if (keeps(x, data.n)) {
        keep(x, data);
    } else {
        x->body_lost = true;
        forget_kept(x);
    }
    x->up.ops->send_data(x, data);
    if (x->up.ops && x->up.ops->blocked(&x->up))
        set_paused(&x->down, true);
}

static void maybe_complete(struct sw_exchange *x);

void sw_exchange_down_end(struct sw_exchange *x)
{
    if (x->down.end_got)
        return;
    x->down.end_got = true;
    if (x->state == SW_GW_X_DONE)
        return;
    if (x->copies)
        gw_mirror_end(x);
    active(x);
    request_complete(x);
    if (x->state == SW_GW_X_ROUTE)
        x->worker->calls->more_body(x);
    if (x->up.ops && !x->up.end_sent && x->up.head_sent) {
        x->up.end_sent = true;
        x->up.ops->send_end(x);
        if (x->up.ops)
            x->up.ops->flush(&x->up);
    }
    maybe_complete(x);
}

void sw_exchange_down_gone(struct sw_exchange *x)
{
    if (x->state == SW_GW_X_DONE)
        return;
    x->flags |= SW_GW_FLAG_DC;
    if (!x->detail)
        x->detail = "downstream_remote_disconnect";
    gw_finish(x);
}

void sw_exchange_down_drained(struct sw_exchange *x)
{
    if (x->up.ops && x->down.ops && !x->down.ops->blocked(&x->down))
        set_paused(&x->up, false);
}

void sw_exchange_up_drained(struct sw_exchange *x)
{
    if (x->up.ops && x->down.ops && !x->up.ops->blocked(&x->up))
        set_paused(&x->down, false);
}

/* ---- the response ---- */

void gw_send_answer(struct sw_exchange *x, bool end)
{
    x->state = SW_GW_X_ANSWER;
    x->clock.try_deadline_ns = 0;
    forget_kept(x);
    if (!x->down.ops)
        return;
    x->worker->calls->response(x);
    if (x->hcm)
        gw_clean_response(x);
    x->down.head_sent = true;
    x->down.end_sent = end;
    x->down.ops->send_head(x, end);
}

/*
 * Both directions ended, or the response did and the upstream does not read the rest of the
 * request.
 */
static void maybe_complete(struct sw_exchange *x)
{
    bool tunnel = x->resp.length == SW_GW_LENGTH_TUNNEL;

    if (x->state != SW_GW_X_ANSWER || !x->up.end_got || !x->down.end_sent)
        return;
    if (tunnel && !x->down.end_got)
        return;
    if (x->host)
        gw_host_done(x, SW_GW_OK, x->resp.status);
    if (x->up.ops) {
        if (x->up.end_sent)
            x->up.ops->done(x);
        else
            x->up.ops->abort(x); /* it answered before it had read all: the rest is not sent */
    }
    if (x->down.ops)
        x->down.ops->done(x);
    gw_finish(x);
}

void sw_exchange_up_info(struct sw_exchange *x, int status)
{
    /* 100 was answered here already. HTTP/1.0 knows none of them. */
    if (status == 100 || !x->down.ops || x->state != SW_GW_X_SEND ||
        x->req.version == SW_GW_HTTP10 || x->infos == SW_GW_INFOS_MAX)
        return;
    x->infos++;
    x->down.ops->send_info(x, status);
}

void sw_exchange_up_head(struct sw_exchange *x, bool end)
{
    if (x->state == SW_GW_X_DONE)
        return;
    active(x);
    x->times.response_ns = x->clock.active_ns;
    x->up.head_got = true;
    x->up.end_got = end;
    if (x->plan.retries && gw_retry(x, SW_GW_STATUS, x->resp.status))
        return;
    x->failure[0] = '\0'; /* of an attempt before */
    if (x->req.length == SW_GW_LENGTH_TUNNEL && x->resp.length != SW_GW_LENGTH_TUNNEL) {
        /* No tunnel: the request was only its head. */
        x->down.end_got = true;
        x->up.end_sent = true;
    }
    gw_send_answer(x, end);
    if (end)
        maybe_complete(x);
}

void sw_exchange_up_data(struct sw_exchange *x, struct sw_slice data)
{
    if (x->state == SW_GW_X_DONE)
        return;
    active(x);
    if (!x->down.ops || x->down.end_sent)
        return;
    if (x->gzip) {
        x->worker->calls->encode(x, data);
    } else {
        x->tx_bytes += data.n;
        x->down.ops->send_data(x, data);
    }
    if (x->down.ops && x->down.ops->blocked(&x->down))
        set_paused(&x->up, true);
}

void sw_exchange_up_end(struct sw_exchange *x)
{
    if (x->state == SW_GW_X_DONE || x->up.end_got)
        return;
    active(x);
    x->up.end_got = true;
    if (x->gzip && x->down.ops && !x->down.end_sent)
        x->worker->calls->encode_end(x);
    if (x->down.ops && !x->down.end_sent) {
        x->down.end_sent = true;
        x->down.ops->send_end(x);
    }
    maybe_complete(x);
}
