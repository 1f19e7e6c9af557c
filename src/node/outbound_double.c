/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Double HBONE: a tunnel through a network gateway that carries a second TLS connection to the
 * real destination. The outer stream is joined to the inner connection by a socket pair, so both
 * are ordinary sessions. The inner one is never pooled: each carries one tunnel.
 */
#include "base/mem.h"
#include "node/outbound.h"

struct double_hbone {
    struct outbound *out; /* NULL once it lost interest */
    struct sw_loop *loop;
    struct sw_tstream outer;
    bool outer_open;
    struct sw_session *inner;
    struct sw_slice *sans; /* owned array of owned texts, for the inner handshake */
    size_t n_sans;
    struct sw_defer reap;
};

static void on_reap(struct sw_defer *d)
{
    struct double_hbone *x = SW_CONTAINER_OF(d, struct double_hbone, reap);

    for (size_t i = 0; i < x->n_sans; i++)
        sw_slice_free(&x->sans[i]);
    sw_free(x->sans);
    sw_free(x);
}

static void check_over(struct double_hbone *x)
{
    if (!x->outer_open && !x->inner) {
        if (x->out)
            x->out->twice = NULL;
        sw_loop_defer(x->loop, &x->reap, on_reap);
    }
}

static void fail(struct double_hbone *x, enum sw_response_flag flag, const char *why)
{
    struct outbound *o = x->out;

    if (!o)
        return;
    /* Let go first: the next attempt may make another of these at once. */
    outbound_double_abandon(o);
    if (o->setup)
        outbound_retry(o, flag, why);
    else
        outbound_finish(o, flag, why);
}

/* ---- inner ---- */

static void on_inner_ready(struct sw_session *s)
{
    struct double_hbone *x = sw_session_owner(s);
    struct outbound *o = x->out;
    struct sw_err err = {0};
    int rc;

    if (!o || !o->setup) {
        sw_session_drain(s);
        return;
    }
    rc = outbound_connect(o, s, &o->u.stream, &outbound_stream_ops, true, &err);
    if (rc == SW_OK)
        o->streaming = true;
    else
        fail(x, SW_FLAG_H2_HANDSHAKE_FAILURE, err.msg);
}

static void on_inner_request(struct sw_session *s, int32_t id, const struct sw_h2_head *head)
{
    sw_session_refuse(s, id, 400);
}

static void on_inner_room(struct sw_session *s)
{
    struct double_hbone *x = sw_session_owner(s);

    /* Its only tunnel ended. */
    if (sw_session_streams(s) == 0 && (!x->out || !x->out->setup))
        sw_session_drain(s);
}

static void on_inner_closed(struct sw_session *s, int rc, const struct sw_err *err, bool handshaken)
{
    struct double_hbone *x = sw_session_owner(s);

    x->inner = NULL;
    if (x->out && x->out->setup)
        fail(x, SW_FLAG_CONNECT, rc == SW_OK ? "inner connection closed" : err->msg);
    if (x->outer_open) {
        sw_tstream_abort(&x->outer, SW_H2_CANCEL);
        x->outer_open = false;
    }
    check_over(x);
}

static const struct sw_session_ops inner_ops = {
    .on_ready = on_inner_ready,
    .on_request = on_inner_request,
    .on_room = on_inner_room,
    .on_closed = on_inner_closed,
};

static void start_inner(struct double_hbone *x)
{
    struct outbound *o = x->out;
    struct sw_worker *w = outbound_worker(o);
    struct sw_tls_params tls = {
        .alpn = "h2", .cred = o->live.pod->cred, .expect = x->sans, .n_expect = x->n_sans};
    const struct sw_session_setup setup = {
        .tls = &tls, .config = &w->session_config, .ops = &inner_ops, .owner = x};
    struct sw_err err = {0};
    int pair[2];

    if (sw_sock_pair(pair, &err) != SW_OK) {
        fail(x, SW_FLAG_CONNECT, err.msg);
        return;
    }
    x->inner = sw_session_new(w->loop, pair[1], &setup, &err);
    if (!x->inner) {
        sw_sock_close(pair[0]);
        fail(x, SW_FLAG_TLS_FAILURE, err.msg);
        return;
    }
    sw_tstream_relay(&x->outer, pair[0]);
}

/* ---- outer ---- */

static void on_outer_response(struct sw_tstream *t, const struct sw_h2_head *head)
{
    struct double_hbone *x = SW_CONTAINER_OF(t, struct double_hbone, outer);
    char text[SW_ERRTEXT];

    if (!x->out || x->inner)
        return;
    if (head->status == 200) {
        start_inner(x);
        return;
    }
    fail(x, SW_FLAG_CONNECT, sw_errtext_status(head->status, text));
}

static void on_outer_moved(struct sw_tstream *t, size_t up, size_t down)
{
    (void)t; /* what counts is what the application sees: the inner stream */
}

static void on_outer_done(struct sw_tstream *t, int rc, const struct sw_err *err)
{
    struct double_hbone *x = SW_CONTAINER_OF(t, struct double_hbone, outer);

    x->outer_open = false;
    /* With an inner session the closed socket pair shows it. */
    if (!x->inner)
        fail(x, SW_FLAG_CONNECT, err ? err->msg : "gateway closed the tunnel");
    check_over(x);
}

static const struct sw_tstream_ops outer_ops = {
    .on_response = on_outer_response,
    .on_moved = on_outer_moved,
    .on_done = on_outer_done,
};

void outbound_double(struct outbound *o, struct sw_session *s)
{
    const struct sw_route_sans *sans = &o->setup->route.inner_sans;
    struct double_hbone *x = SW_NEW(struct double_hbone);
    struct sw_err err = {0};

    x->out = o;
    x->loop = outbound_worker(o)->loop;
    x->n_sans = sw_route_sans_count(sans);
    x->sans = SW_NEW_ARRAY(struct sw_slice, x->n_sans);
    for (size_t i = 0; i < x->n_sans; i++) {
        struct sw_slice name = sw_route_sans_at(sans, i);

        x->sans[i] = sw_slice_copy(name);
    }
    o->twice = x;
    if (outbound_connect(o, s, &x->outer, &outer_ops, false, &err) != SW_OK) {
        outbound_double_abandon(o);
        outbound_retry(o, SW_FLAG_H2_HANDSHAKE_FAILURE, err.msg);
        return;
    }
    x->outer_open = true;
}

void outbound_double_abandon(struct outbound *o)
{
    struct double_hbone *x = o->twice;

    if (!x)
        return;
    o->twice = NULL;
    x->out = NULL;
    if (x->inner) {
        /* Established or not, its stream is or will be gone; it says goodbye by itself. */
        sw_session_drain(x->inner);
    } else if (x->outer_open) {
        sw_tstream_abort(&x->outer, SW_H2_CANCEL);
        x->outer_open = false;
    }
    check_over(x);
}
