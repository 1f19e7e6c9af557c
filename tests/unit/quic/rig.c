/* SPDX-License-Identifier: Apache-2.0 */
#include "rig.h"

#include <stdio.h>
#include <string.h>

uint8_t rig_pattern(uint64_t at)
{
    return (uint8_t)(at ^ (at >> 8) * 7 ^ (at >> 16) * 13);
}

void rig_pump(struct rig_stream *t)
{
    struct iovec room[2];
    int n;

    while (t->to_write > 0 && (n = sw_qstream_reserve(t->s, room)) > 0) {
        size_t done = 0;

        for (int i = 0; i < n; i++) {
            size_t k = sw_min(room[i].iov_len, t->to_write - done);
            uint8_t *p = room[i].iov_base;

            for (size_t j = 0; j < k; j++)
                p[j] = rig_pattern(t->written + done + j);
            done += k;
        }
        sw_qstream_commit(t->s, done);
        t->written += done;
        t->to_write -= done;
    }
    if (t->to_write == 0 && t->finish)
        sw_qstream_finish(t->s);
}

static size_t on_data(struct sw_qstream *s, const uint8_t *p, size_t n, bool fin)
{
    struct rig_stream *t = sw_qstream_arg(s);
    size_t take = t->read + n > t->hold_after ? t->hold_after - t->read : n;

    for (size_t i = 0; i < take; i++)
        if (p[i] != rig_pattern(t->read + i))
            t->mismatch = true;
    t->read += take;
    t->biggest = sw_max(t->biggest, n);
    if (fin && take == n)
        t->fin = true;
    if (t->echo) {
        t->to_write += take;
        t->finish = t->fin;
        rig_pump(t);
    }
    return take;
}

static void on_writable(struct sw_qstream *s)
{
    rig_pump(sw_qstream_arg(s));
}

static void on_stopped(struct sw_qstream *s, uint64_t code)
{
    struct rig_stream *t = sw_qstream_arg(s);

    t->stopped = true;
    t->stop_code = code;
    t->to_write = 0;
}

static void on_reset(struct sw_qstream *s, uint64_t code)
{
    struct rig_stream *t = sw_qstream_arg(s);

    t->reset = true;
    t->reset_code = code;
}

static void on_stream_closed(struct sw_qstream *s, bool lost)
{
    struct rig_stream *t = sw_qstream_arg(s);

    assert_false(t->closed);
    t->closed = true;
    t->lost = lost;
    t->s = NULL;
}

const struct sw_qstream_ops rig_stream_ops = {.data = on_data,
                                              .writable = on_writable,
                                              .stopped = on_stopped,
                                              .reset = on_reset,
                                              .closed = on_stream_closed};

static void on_ready(struct sw_qconn *c)
{
    struct rig_side *d = sw_qconn_arg(c);

    d->ready++;
}

static void on_stream(struct sw_qconn *c, struct sw_qstream *s)
{
    struct rig_side *d = sw_qconn_arg(c);
    struct rig_stream *t = &d->in[d->n_in % SW_ARRAY_LEN(d->in)];

    if (d->no_attach)
        return;
    d->n_in++;
    *t = (struct rig_stream){.s = s, .echo = d->echo, .hold_after = d->hold_after};
    sw_qstream_attach(s, &rig_stream_ops, t);
}

static void on_datagram(struct sw_qconn *c, const uint8_t *p, size_t n)
{
    struct rig_side *d = sw_qconn_arg(c);

    d->dgrams++;
    d->dgram_n = sw_min(n, sizeof(d->dgram));
    memcpy(d->dgram, p, d->dgram_n);
    if (d->echo)
        assert_int_equal(sw_qconn_datagram(c, p, n), SW_OK);
}

static void on_path(struct sw_qconn *c)
{
    struct rig_side *d = sw_qconn_arg(c);

    d->paths++;
}

static void on_room(struct sw_qconn *c)
{
    struct rig_side *d = sw_qconn_arg(c);

    d->rooms++;
}

static void on_closed(struct sw_qconn *c, const struct sw_qclose *why)
{
    struct rig_side *d = sw_qconn_arg(c);

    d->closed++;
    d->why = *why;
    (void)snprintf(d->why_text, sizeof(d->why_text), "%.*s", SW_SLICE_ARG(why->text));
    if (d->c == c)
        d->c = NULL;
}

const struct sw_qconn_ops rig_conn_ops = {.ready = on_ready,
                                          .stream = on_stream,
                                          .datagram = on_datagram,
                                          .path = on_path,
                                          .room = on_room,
                                          .closed = on_closed};

static bool on_admit(void *arg, const struct sw_nodeid *peer, struct sw_slice alpn)
{
    struct rig_side *d = arg;

    return !d->deny;
}

static void on_accepted(void *arg, struct sw_qconn *c)
{
    struct rig_side *d = arg;

    d->accepted++;
    d->c = c;
    sw_qconn_set_ops(c, &rig_conn_ops, d);
}

static const struct sw_slice alpns[] = {{"test/1", 6}, {"test/2", 6}};

static void side_start(struct rig *r, struct rig_side *d, const struct sw_quic_config *cfg,
                       bool listens)
{
    struct sw_quic_config c = cfg ? *cfg : (struct sw_quic_config){0};
    struct sw_err err;

    d->key = sw_rawkey_generate(&err);
    d->hold_after = UINT64_MAX;
    c.key = d->key;
    if (!c.bind.ip.family)
        assert_int_equal(sw_addr_parse(SW_SLICE_LIT("127.0.0.1:0"), &c.bind, &err), SW_OK);
    c.alpns = alpns;
    c.n_alpns = listens ? SW_ARRAY_LEN(alpns) : 0;
    c.admit = on_admit;
    c.accepted = on_accepted;
    c.arg = d;
    d->q = sw_quic_new(r->loop, &c, &err);
    assert_non_null(d->q);
}

void rig_start(struct rig *r, const struct sw_quic_config *a, const struct sw_quic_config *b)
{
    *r = (struct rig){.loop = sw_loop_new(NULL)};
    side_start(r, &r->a, a, false);
    side_start(r, &r->b, b, true);
}

void rig_stop(struct rig *r)
{
    sw_quic_free(r->a.q);
    sw_quic_free(r->b.q);
    sw_rawkey_free(r->a.key);
    sw_rawkey_free(r->b.key);
    sw_loop_free(r->loop);
}

struct sw_qconn *rig_dial(struct rig *r, const char *alpn)
{
    struct sw_addr bound[2];
    struct sw_quic_target t = {.id = *sw_rawkey_id(r->b.key), .addrs = bound};
    struct sw_err err = {0};

    t.n_addrs = sw_quic_bound(r->b.q, bound);
    r->a.c = sw_quic_dial(r->a.q, &t, sw_slice_str(alpn), &rig_conn_ops, &r->a, &err);
    return r->a.c;
}

/* Sanitizers on a busy machine are slow; an honest failure may take its time. */
#define PATIENCE_NS (40 * SW_NS_PER_S)

void rig_until_at(struct rig *r, const size_t *flag, size_t n, const char *what)
{
    uint64_t end = sw_now_ns() + PATIENCE_NS;

    while (*(const volatile size_t *)flag < n) {
        if (sw_now_ns() > end)
            fail_msg("%s did not reach %zu (is %zu); a: '%s' b: '%s'", what, n, *flag,
                     r->a.why_text, r->b.why_text);
        sw_loop_turn(r->loop, 100);
    }
}

void rig_until_true_at(struct rig *r, const bool *flag, const char *what)
{
    uint64_t end = sw_now_ns() + PATIENCE_NS;

    while (!*(const volatile bool *)flag) {
        if (sw_now_ns() > end)
            fail_msg("%s did not come; a: '%s' b: '%s'", what, r->a.why_text, r->b.why_text);
        sw_loop_turn(r->loop, 100);
    }
}

void rig_idle(struct rig *r, unsigned ms)
{
    uint64_t end = sw_now_ns() + ms * SW_NS_PER_MS;

    /* A process that is stopped meanwhile must not take it for work done. */
    for (int turns = 0; sw_now_ns() < end || turns < 20; turns++)
        sw_loop_turn(r->loop, sw_now_ns() < end ? 1 + (int)ms / 10 : 0);
}

void rig_connect(struct rig *r)
{
    assert_non_null(rig_dial(r, "test/1"));
    rig_until(r, &r->a.ready, 1);
    rig_until(r, &r->b.accepted, 1);
}

void rig_open(struct rig *r, struct rig_stream *t, uint64_t n)
{
    *t = (struct rig_stream){.to_write = n, .finish = true, .hold_after = UINT64_MAX};
    assert_int_equal(sw_qstream_open(r->a.c, &rig_stream_ops, t, &t->s), SW_OK);
    rig_pump(t);
}
