/* SPDX-License-Identifier: Apache-2.0 */
/* Outbound through an HBONE tunnel: a pooled connection, one CONNECT, then bytes. */
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "node/outbound.h"

enum { SANS_MAX = 64 };

int outbound_connect(struct outbound *o, struct sw_session *s, struct sw_tstream *t,
                     const struct sw_tstream_ops *ops, bool inner, struct sw_err *err)
{
    struct outbound_setup *setup = o->setup;
    const char *authority = inner ? setup->route.inner_authority : setup->route.authority;
    struct sw_slice network = outbound_worker(o)->env.network;
    SW_BUF_AUTO baggage = {.max = 4096};
    SW_BUF_AUTO forwarded = {.max = 1024};
    struct sw_baggage own;
    char trace[SW_TRACE_TEXT];
    struct sw_slice host = setup->route.service ? setup->route.service->hostname : sw_slice("", 0);
    struct sw_h2_header f[6] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("CONNECT")},
        {SW_SLICE_LIT(":authority"), sw_slice_str(authority)},
    };
    size_t n = 2;

    sw_baggage_of(setup->local, &own);
    if (sw_baggage_build(&own, &baggage) != SW_OK ||
        sw_forwarded_build(&o->live.src, host, &forwarded) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "tunnel headers too long");
    f[n++] = (struct sw_h2_header){SW_SLICE_LIT("baggage"), sw_buf_slice(&baggage)};
    f[n++] = (struct sw_h2_header){SW_SLICE_LIT("forwarded"), sw_buf_slice(&forwarded)};
    (void)sw_trace_text(&setup->trace, trace);
    f[n++] = (struct sw_h2_header){SW_SLICE_LIT("traceparent"), sw_slice_str(trace)};
    if (inner && network.p)
        f[n++] = (struct sw_h2_header){SW_SLICE_LIT("x-forwarded-network"), network};
    return sw_tstream_open(s, t, ops, f, n, err);
}

/* The peer was going away (a restart, a drain) and had not looked at us: ask for a new connection.
 */
static void try_again(struct outbound *o, enum sw_response_flag flag, const char *why)
{
    if (o->setup->n_again++ < OUTBOUND_AGAIN)
        outbound_hbone(o);
    else
        outbound_retry(o, flag, why);
}

/* Another endpoint may take over only if no byte can have reached an application yet. */
static void give_up(struct outbound *o, bool passed_on, const char *why)
{
    if (passed_on)
        outbound_finish(o, SW_FLAG_CONNECT, why);
    else
        outbound_retry(o, SW_FLAG_CONNECT, why);
}

static void on_refused(struct sw_timer *t)
{
    struct outbound_setup *setup = SW_CONTAINER_OF(t, struct outbound_setup, answer);
    char text[SW_ERRTEXT];

    outbound_retry(setup->out, SW_FLAG_CONNECT, sw_errtext_status(503, text));
}

/*
 * 503: the peer could not connect to the application, so none has seen a byte of ours; what was
 * sent ahead is still in the socket. Another endpoint may do better. Its stream takes the place of
 * this one, which is in use until the callback returns.
 */
static void refused(struct outbound *o)
{
    sw_tstream_abort(&o->u.stream, SW_H2_CANCEL);
    o->streaming = false;
    sw_timer_start(outbound_worker(o)->loop, &o->setup->answer, 0, on_refused);
}

static void on_response(struct sw_tstream *t, const struct sw_h2_head *head)
{
    struct outbound *o = SW_CONTAINER_OF(t, struct outbound, u.stream);
    char text[SW_ERRTEXT];

    if (!o->setup) /* a second answer */
        return;
    if (head->status == 503) {
        refused(o);
        return;
    }
    if (head->status != 200) {
        outbound_finish(o, SW_FLAG_CONNECT, sw_errtext_status(head->status, text));
        return;
    }
    if (o->setup->route.kind == SW_ROUTE_DOUBLE_HBONE)
        outbound_open_inner(o, t->session, head);
    outbound_established(o);
    sw_tstream_relay(t, SW_TAKE_FD(o->fd));
}

static void on_moved(struct sw_tstream *t, size_t up, size_t down)
{
    struct outbound *o = SW_CONTAINER_OF(t, struct outbound, u.stream);

    sw_ledger_moved(&o->rec, up, down);
}

static enum sw_response_flag flag_of(int rc)
{
    return rc == SW_EDENIED  ? SW_FLAG_CERT_REVOKED
           : rc == SW_EPROTO ? SW_FLAG_H2_HANDSHAKE_FAILURE
                             : SW_FLAG_CONNECT;
}

/*
 * A peer that restarts takes its connections along, and one may be used once more before its end
 * arrives. Asking again is idempotent as long as no byte went ahead: there was nothing to pass on.
 */
static bool was_dead(const struct outbound *o, const struct sw_tstream *t, int rc)
{
    return o->setup->pooled && t->lost && !t->ahead && (rc == SW_ECLOSED || rc == SW_EOF);
}

static void on_done(struct sw_tstream *t, int rc, const struct sw_err *err)
{
    struct outbound *o = SW_CONTAINER_OF(t, struct outbound, u.stream);
    const char *why = err ? err->msg : "tunnel closed";

    o->streaming = false;
    if (o->setup && (rc == SW_EREFUSED || was_dead(o, t, rc)))
        try_again(o, SW_FLAG_CONNECT, why); /* the peer did not take it */
    else if (o->setup && rc == SW_EDENIED)
        give_up(o, t->ahead, why);
    else if (!o->setup && (rc == SW_OK || rc == SW_ECLOSED))
        outbound_finish(o, SW_FLAG_NONE, NULL);
    else
        outbound_finish(o, flag_of(rc), why);
}

const struct sw_tstream_ops outbound_stream_ops = {
    .on_response = on_response,
    .on_moved = on_moved,
    .on_done = on_done,
};

static void on_no_answer(struct sw_timer *t)
{
    struct outbound_setup *setup = SW_CONTAINER_OF(t, struct outbound_setup, answer);
    struct outbound *o = setup->out;

    bool passed_on = o->streaming && o->u.stream.ahead;

    outbound_double_abandon(o);
    if (o->streaming)
        sw_tstream_abort(&o->u.stream, SW_H2_CANCEL);
    o->streaming = false;
    give_up(o, passed_on, "no answer to CONNECT");
}

static void use_session(struct outbound *o, struct sw_session *s)
{
    struct outbound_setup *setup = o->setup;
    struct sw_err err = {0};

    sw_timer_start(outbound_worker(o)->loop, &setup->answer, OUTBOUND_ANSWER_S * SW_NS_PER_S,
                   on_no_answer);
    if (setup->route.kind == SW_ROUTE_DOUBLE_HBONE) {
        outbound_double(o, s);
        return;
    }
    if (outbound_connect(o, s, &o->u.stream, &outbound_stream_ops, false, &err) != SW_OK) {
        try_again(o, SW_FLAG_H2_HANDSHAKE_FAILURE, err.msg);
        return;
    }
    o->streaming = true;
    o->live.tuned = true; /* the connection is the pool's */
    if (outbound_worker(o)->config->tunnel.early_data)
        sw_tstream_early(&o->u.stream, o->fd);
}

static void on_pool(struct sw_pool_wait *wait, struct sw_session *s, int rc,
                    enum sw_pool_stage stage, const struct sw_err *err)
{
    struct outbound_setup *setup = SW_CONTAINER_OF(wait, struct outbound_setup, wait);
    struct outbound *o = setup->out;
    char text[SW_ERRTEXT];

    if (rc == SW_OK) {
        use_session(o, s);
        return;
    }
    if (rc == SW_ELIMIT && stage == SW_POOL_H2) {
        outbound_hbone(o);
        return;
    }
    if (stage == SW_POOL_DIAL && rc == SW_ETIME) {
        outbound_retry(o, SW_FLAG_NETWORK_POLICY, sw_errtext_hbone_timeout(text));
    } else if (stage == SW_POOL_DIAL) {
        outbound_retry(o, SW_FLAG_CONNECT, sw_errtext_io(err, text));
    } else if (rc == SW_ECLOSED || rc == SW_EOF) {
        try_again(o, SW_FLAG_CONNECT, err->msg);
    } else if (stage == SW_POOL_H2 && rc == SW_EPROTO) {
        outbound_retry(o, SW_FLAG_H2_HANDSHAKE_FAILURE, err->msg);
    } else {
        outbound_retry(o, SW_FLAG_CONNECT, err->msg);
    }
}

static void on_cred(struct sw_cred_wait *wait, const char *error)
{
    struct outbound_setup *setup = SW_CONTAINER_OF(wait, struct outbound_setup, cred_wait);
    char text[SW_ERRTEXT];

    if (error)
        outbound_finish(setup->out, SW_FLAG_IDENTITY_ERROR, sw_errtext_identity(error, text));
    else
        outbound_hbone(setup->out);
}

/* A certificate that is being fetched is waited for; one that cannot be had fails at once. */
static void without_cred(struct outbound *o)
{
    struct sw_wpod *p = o->live.pod;
    char text[SW_ERRTEXT];

    if (p->cred_error) {
        sw_worker_need_cred(p);
        outbound_finish(o, SW_FLAG_IDENTITY_ERROR, sw_errtext_identity(p->cred_error, text));
    } else {
        sw_worker_wait_cred(p, &o->setup->cred_wait, on_cred);
    }
}

/* Tunnels whose readers do not read have used up the connection window to this peer. */
static void report_stall(struct outbound *o, enum sw_pool_use use)
{
    struct sw_worker *w = outbound_worker(o);
    bool sibling = use == SW_POOL_SIBLING;
    char to[SW_ADDR_TEXT];

    sw_metric_add(sw_metric_get1(w->shard, SW_METRIC_POOL_STALLS, sibling ? "sibling" : "shared"),
                  1);
    /* At the bound every tunnel would log it. */
    if (sibling)
        sw_log_warn("outbound",
                    "connection window to %s is used up by tunnels whose readers stalled: opening "
                    "another connection",
                    sw_addr_text(&o->setup->route.target, to));
    else
        sw_log_debug("outbound",
                     "connection windows to %s are used up on %d connections: this tunnel waits",
                     sw_addr_text(&o->setup->route.target, to), SW_POOL_STALLED_MAX);
}

void outbound_hbone(struct outbound *o)
{
    struct outbound_setup *setup = o->setup;
    struct sw_worker *w = outbound_worker(o);
    SW_ARENA_AUTO a = {0};
    struct sw_slice sans[SANS_MAX];
    struct sw_pool_target t = {
        .owner = o->live.pod,
        .cred = o->live.pod->cred,
        .sans = sans,
        .n_sans = sw_min(sw_route_sans_count(&setup->route.sans), SANS_MAX),
        .place = sw_workload_uid(setup->route.workload, &a),
        .addr = setup->route.target,
        .src = o->live.src.ip,
        .sock = sw_worker_sock(w, o->live.pod),
    };
    struct sw_session *s;
    enum sw_pool_use use;

    if (!t.cred) {
        without_cred(o);
        return;
    }
    if (w->config->listen.ip.family) {
        t.src = w->config->listen.ip;
        t.bind_src = true;
    }
    for (size_t i = 0; i < t.n_sans; i++)
        sans[i] = sw_route_sans_at(&setup->route.sans, i);
    s = sw_pool_get(w->pool, &t, &setup->wait, on_pool, &use);
    setup->pooled = use == SW_POOL_HIT || use == SW_POOL_STALLED;
    sw_metric_add(setup->pooled ? w->pool_hits : w->pool_misses, 1);
    if (use == SW_POOL_SIBLING || use == SW_POOL_STALLED)
        report_stall(o, use);
    if (s)
        use_session(o, s);
}
