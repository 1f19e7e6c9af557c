/* SPDX-License-Identifier: Apache-2.0 */
/* Two HTTP/2 connections joined in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/mem.h"
#include "http/h2.h"

enum { STREAMS = 300 };

struct side {
    struct sw_h2 *h;
    struct sw_buf out;
    size_t room; /* emit refuses beyond this many waiting bytes; 0: no limit */
    /* what was seen */
    int heads;
    unsigned status;
    bool too_large;
    size_t n_fields;
    char authority[64];
    size_t data[STREAMS];
    bool ended[STREAMS];
    int closes[STREAMS];
    uint32_t code[STREAMS];
    int windows;
    int settings;
    int goaways;
    int32_t goaway_id;
    uint32_t goaway_code;
    int pongs;
    /* what it does */
    bool answer;
    size_t to_send[STREAMS];
    bool end_after;
    size_t trailers; /* behind the body */
    int tags[STREAMS];
};

static struct side *side_of(struct sw_h2 *h)
{
    return sw_h2_owner(h);
}

static void on_head(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head,
                    bool end)
{
    struct side *x = side_of(h);
    static const struct sw_h2_header ok = {SW_SLICE_LIT(":status"), SW_SLICE_LIT("200")};

    (void)stream;
    x->heads++;
    x->status = head->status;
    x->too_large = head->too_large;
    x->n_fields = head->n;
    (void)snprintf(x->authority, sizeof(x->authority), "%.*s", SW_SLICE_ARG(head->authority));
    if (end)
        x->ended[id] = true;
    if (x->answer) {
        assert_int_equal(sw_h2_respond(h, id, &ok, 1, false, NULL), SW_OK);
        sw_h2_set_stream(h, id, &x->tags[id]);
    }
}

static void on_data(struct sw_h2 *h, int32_t id, void *stream, struct sw_slice data)
{
    (void)stream;
    side_of(h)->data[id] += data.n;
}

static void on_end(struct sw_h2 *h, int32_t id, void *stream)
{
    (void)stream;
    side_of(h)->ended[id] = true;
}

static void on_close(struct sw_h2 *h, int32_t id, void *stream, uint32_t code)
{
    (void)stream;
    side_of(h)->closes[id]++;
    side_of(h)->code[id] = code;
}

static void on_window(struct sw_h2 *h, int32_t id, void *stream)
{
    (void)id;
    (void)stream;
    side_of(h)->windows++;
}

static void on_settings(struct sw_h2 *h)
{
    side_of(h)->settings++;
}

static void on_goaway(struct sw_h2 *h, int32_t last_id, uint32_t code)
{
    side_of(h)->goaways++;
    side_of(h)->goaway_id = last_id;
    side_of(h)->goaway_code = code;
}

static void on_pong(struct sw_h2 *h)
{
    side_of(h)->pongs++;
}

static int emit(struct sw_h2 *h, const uint8_t *p, size_t n)
{
    struct side *x = side_of(h);

    if (x->room && sw_buf_len(&x->out) + n > x->room)
        return SW_EAGAIN;
    return sw_buf_append(&x->out, p, n);
}

static ssize_t pull(struct sw_h2 *h, int32_t id, void *stream, size_t max, bool *ret_end)
{
    struct side *x = side_of(h);
    size_t n = sw_min(x->to_send[id], max);

    (void)stream;
    *ret_end = x->end_after && n == x->to_send[id];
    return n || *ret_end ? (ssize_t)n : SW_EAGAIN;
}

static size_t trailers(struct sw_h2 *h, int32_t id, void *stream, struct sw_h2_header *out,
                       size_t max)
{
    size_t n = side_of(h)->trailers;

    (void)id;
    (void)stream;
    if (n > max)
        return 0;
    for (size_t i = 0; i < n; i++)
        out[i] = (struct sw_h2_header){SW_SLICE_LIT("x-part"), SW_SLICE_LIT("v")};
    return n;
}

static void on_trailers(struct sw_h2 *h, int32_t id, void *stream, const struct sw_h2_head *head)
{
    (void)id;
    (void)stream;
    side_of(h)->n_fields = head->n;
}

static void emit_data(struct sw_h2 *h, int32_t id, void *stream,
                      const uint8_t head[SW_H2_FRAME_HEAD], size_t n)
{
    static const char zeros[16384];
    struct side *x = side_of(h);

    (void)stream;
    assert_int_equal((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2], n);
    assert_int_equal(sw_buf_append(&x->out, head, SW_H2_FRAME_HEAD), SW_OK);
    for (size_t left = n; left;) {
        size_t k = sw_min(left, sizeof(zeros));

        assert_int_equal(sw_buf_append(&x->out, zeros, k), SW_OK);
        left -= k;
    }
    x->to_send[id] -= n;
}

static const struct sw_h2_ops ops = {
    .on_head = on_head,
    .on_data = on_data,
    .on_end = on_end,
    .on_close = on_close,
    .on_window = on_window,
    .on_settings = on_settings,
    .on_goaway = on_goaway,
    .on_pong = on_pong,
    .emit = emit,
    .pull = pull,
    .trailers = trailers,
    .on_trailers = on_trailers,
    .emit_data = emit_data,
};

struct fix {
    struct side c;
    struct side s;
    struct sw_h2_config cc;
    struct sw_h2_config sc;
};

static struct fix *fix_new(void)
{
    struct fix *f = SW_NEW(struct fix);

    f->cc = (struct sw_h2_config){.stream_window = 100000,
                                  .connection_window = 200000,
                                  .max_frame = 16384,
                                  .max_send_frame = 10000,
                                  .max_header_list = 16384};
    f->sc = f->cc;
    f->sc.server = true;
    f->sc.max_header_list = 65536;
    f->sc.max_streams = 10;
    f->s.answer = true;
    return f;
}

static void fix_start(struct fix *f)
{
    sw_buf_init(&f->c.out, 16 << 20);
    sw_buf_init(&f->s.out, 16 << 20);
    f->c.h = sw_h2_new(&f->cc, &ops, &f->c);
    f->s.h = sw_h2_new(&f->sc, &ops, &f->s);
}

/* Moves bytes both ways until nothing more comes; returns the first failure. */
static int run(struct fix *f)
{
    int rc = SW_OK;

    for (int i = 0; i < 1000 && rc == SW_OK; i++) {
        struct side *from = i % 2 ? &f->s : &f->c;
        struct side *to = i % 2 ? &f->c : &f->s;
        struct sw_slice bytes;

        rc = sw_h2_flush(from->h, NULL);
        if (rc == SW_EAGAIN)
            rc = SW_OK;
        bytes = sw_buf_slice(&from->out);
        if (rc == SW_OK && bytes.n)
            rc = sw_h2_feed(to->h, bytes, NULL);
        sw_buf_clear(&from->out);
        if (i > 4 && !bytes.n && !sw_h2_wants_write(f->c.h) && !sw_h2_wants_write(f->s.h))
            break;
    }
    return rc;
}

static void fix_done(struct fix *f)
{
    sw_h2_free(f->c.h);
    sw_h2_free(f->s.h);
    sw_h2_free(NULL);
    sw_buf_done(&f->c.out);
    sw_buf_done(&f->s.out);
    sw_free(f);
}

static int32_t request(struct fix *f)
{
    static const struct sw_h2_header h[] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("CONNECT")},
        {SW_SLICE_LIT(":authority"), SW_SLICE_LIT("10.0.0.1:80")},
        {SW_SLICE_LIT("baggage"), SW_SLICE_LIT("k=v")},
    };

    return sw_h2_request(f->c.h, h, SW_ARRAY_LEN(h), false, &f->c.tags[0], NULL);
}

static void a_request_is_answered_and_both_ends_close(void **state)
{
    struct fix *f = fix_new();
    int32_t id;

    (void)state;
    fix_start(f);
    id = request(f);
    assert_int_equal(id, 1);
    f->c.to_send[id] = 5;
    f->c.end_after = true;
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.settings, 1);
    assert_int_equal(f->s.settings, 1);
    assert_string_equal(f->s.authority, "10.0.0.1:80");
    assert_int_equal(f->s.n_fields, 1);
    assert_int_equal(f->c.status, 200);
    assert_int_equal(f->s.data[id], 5);
    assert_true(f->s.ended[id]);
    assert_int_equal(f->s.closes[id], 0);
    f->s.to_send[id] = 7;
    f->s.end_after = true;
    sw_h2_resume(f->s.h, id);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.data[id], 7);
    assert_int_equal(f->c.closes[id], 1);
    assert_int_equal(f->s.closes[id], 1);
    assert_int_equal(f->c.code[id], SW_H2_NO_ERROR);
    fix_done(f);
}

static void the_window_stops_the_sender_until_credit_comes(void **state)
{
    struct fix *f = fix_new();
    int32_t id;

    (void)state;
    fix_start(f);
    id = request(f);
    assert_int_equal(run(f), SW_OK);
    f->c.to_send[id] = 1000000;
    sw_h2_resume(f->c.h, id);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->s.data[id], 100000);
    assert_int_equal(sw_h2_send_window(f->c.h, id), 0);
    sw_h2_consume_stream(f->s.h, id, 60000); /* the stream's alone */
    sw_h2_consume_connection(f->s.h, 60000);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->s.data[id], 160000);
    assert_true(f->c.windows > 0);
    sw_h2_consume_stream(f->s.h, id, 100000);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->s.data[id], 200000); /* the connection's credit is used up */
    sw_h2_consume_connection(f->s.h, 140000);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->s.data[id], 260000); /* now the stream's is */
    sw_h2_consume_stream(f->s.h, id, 100000);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->s.data[id], 360000);
    fix_done(f);
}

/* As many as a peer may send, so that a proxy loses none. */
static void many_trailers_end_a_stream(void **state)
{
    struct fix *f = fix_new();
    int32_t id;

    (void)state;
    f->s.trailers = 250;
    f->s.end_after = true;
    fix_start(f);
    id = request(f);
    f->s.to_send[id] = 10;
    assert_int_equal(run(f), SW_OK);
    assert_true(f->c.ended[id]);
    assert_int_equal(f->c.data[id], 10);
    assert_int_equal(f->c.n_fields, 250);
    fix_done(f);
}

static void a_reset_travels_with_its_code(void **state)
{
    struct fix *f = fix_new();
    int32_t id;

    (void)state;
    fix_start(f);
    id = request(f);
    assert_int_equal(run(f), SW_OK);
    sw_h2_reset(f->s.h, id, SW_H2_CONNECT_ERROR);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.closes[id], 1);
    assert_int_equal(f->c.code[id], SW_H2_CONNECT_ERROR);
    assert_int_equal(f->s.closes[id], 1);
    sw_h2_reset(f->c.h, id, SW_H2_CANCEL); /* gone already: harmless */
    sw_h2_resume(f->c.h, id);
    sw_h2_consume_stream(f->c.h, id, 10);
    sw_h2_set_stream(f->c.h, id, NULL);
    assert_int_equal(sw_h2_send_window(f->c.h, id), 0);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.closes[id], 1);
    fix_done(f);
}

static void limits_on_streams_are_learnt(void **state)
{
    struct fix *f = fix_new();

    (void)state;
    fix_start(f);
    assert_int_equal(sw_h2_peer_max_streams(f->c.h), 100); /* until told */
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(sw_h2_peer_max_streams(f->c.h), 10);
    fix_done(f);
}

static void pings_are_answered(void **state)
{
    struct fix *f = fix_new();

    (void)state;
    fix_start(f);
    sw_h2_ping(f->c.h);
    sw_h2_ping(f->s.h);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.pongs, 1);
    assert_int_equal(f->s.pongs, 1);
    fix_done(f);
}

static void a_graceful_end_takes_two_steps(void **state)
{
    struct fix *f = fix_new();
    int32_t id;

    (void)state;
    fix_start(f);
    id = request(f);
    assert_int_equal(run(f), SW_OK);
    sw_h2_shutdown_notice(f->s.h);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.goaways, 1);
    assert_int_equal(f->c.goaway_id, INT32_MAX);
    sw_h2_goaway(f->s.h, SW_H2_NO_ERROR);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.goaway_id, id);
    assert_int_equal(f->c.closes[id], 0);
    assert_false(sw_h2_finished(f->s.h));
    f->c.end_after = true;
    f->s.end_after = true;
    sw_h2_resume(f->c.h, id);
    sw_h2_resume(f->s.h, id);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.closes[id], 1);
    assert_true(sw_h2_finished(f->s.h));
    fix_done(f);
}

static void streams_behind_the_goaway_are_refused(void **state)
{
    struct fix *f = fix_new();
    int32_t id;

    (void)state;
    fix_start(f);
    assert_int_equal(run(f), SW_OK);
    sw_h2_goaway(f->s.h, SW_H2_NO_ERROR);
    assert_int_equal(sw_h2_flush(f->s.h, NULL), SW_OK);
    id = request(f);
    /* Both cross on the way: the request was sent, the server never looks at it. */
    assert_int_equal(sw_h2_flush(f->c.h, NULL), SW_OK);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->s.heads, 0);
    assert_int_equal(f->c.closes[id], 1);
    assert_int_equal(f->c.code[id], SW_H2_REFUSED_STREAM);
    fix_done(f);
}

static void a_large_header_block_is_marked(void **state)
{
    static char big[3000];
    struct sw_h2_header h[16] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("CONNECT")},
        {SW_SLICE_LIT(":authority"), SW_SLICE_LIT("h:1")},
    };
    struct fix *f = fix_new();

    (void)state;
    memset(big, 'b', sizeof(big));
    for (size_t i = 2; i < 16; i++)
        h[i] = (struct sw_h2_header){SW_SLICE_LIT("x-large"), {big, sizeof(big)}};
    f->sc.max_header_list = 30000;
    f->s.answer = false;
    fix_start(f);
    assert_int_equal(sw_h2_request(f->c.h, h, 16, false, NULL, NULL), 1);
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->s.heads, 1);
    assert_true(f->s.too_large);
    assert_true(f->s.n_fields < 14);
    fix_done(f);
}

static void too_many_early_resets_end_the_connection(void **state)
{
    struct fix *f = fix_new();

    (void)state;
    fix_start(f);
    assert_int_equal(run(f), SW_OK);
    for (int i = 0; i < 400; i++)
        sw_h2_count_early_reset(f->s.h, 1000);
    sw_h2_ping(f->c.h);
    assert_int_equal(run(f), SW_EPROTO);
    assert_int_equal(sw_h2_flush(f->s.h, NULL), SW_OK);
    assert_int_equal(sw_h2_feed(f->c.h, sw_buf_slice(&f->s.out), NULL), SW_OK);
    assert_int_equal(f->c.goaway_code, SW_H2_ENHANCE_YOUR_CALM);
    fix_done(f);
}

static void without_room_frames_wait(void **state)
{
    struct fix *f = fix_new();
    int32_t id;

    (void)state;
    fix_start(f);
    f->c.room = 10; /* less than the preface */
    id = request(f);
    assert_int_equal(sw_h2_flush(f->c.h, NULL), SW_EAGAIN);
    assert_true(sw_h2_wants_write(f->c.h));
    f->c.room = 0;
    assert_int_equal(run(f), SW_OK);
    assert_int_equal(f->c.status, 200);
    assert_int_equal(f->s.closes[id], 0);
    fix_done(f);
}

/* Each is made before the other has sent anything. */
static void sessions_of_a_thread_do_not_disturb_each_other(void **state)
{
    struct fix *f[3];

    (void)state;
    for (int i = 0; i < 3; i++) {
        f[i] = fix_new();
        f[i]->cc.emit_takes_all = true;
        f[i]->sc.emit_takes_all = true;
        fix_start(f[i]);
        assert_int_equal(request(f[i]), 1);
    }
    for (int i = 2; i >= 0; i--) {
        assert_int_equal(run(f[i]), SW_OK);
        assert_int_equal(f[i]->c.status, 200);
    }
    for (int i = 0; i < 3; i++)
        fix_done(f[i]);
}

/* HEADERS with END_STREAM and a whole block: GET http a /. */
static int feed_head(struct fix *f, unsigned id)
{
    const uint8_t frame[] = {0,           0,    6,    1,    5,    0,    0,  (uint8_t)(id >> 8),
                             (uint8_t)id, 0x82, 0x86, 0x84, 0x41, 0x01, 'a'};

    return sw_h2_feed(f->s.h, sw_slice(frame, sizeof(frame)), NULL);
}

/* Of the GOAWAY among the frames, -1: there is none. */
static int64_t goaway_code(struct sw_slice out)
{
    const uint8_t *p = (const uint8_t *)out.p;

    for (size_t at = 0; at + SW_H2_FRAME_HEAD <= out.n;) {
        if (p[at + 3] == 7)
            return p[at + SW_H2_FRAME_HEAD + 7];
        at += SW_H2_FRAME_HEAD + ((size_t)p[at] << 16 | (size_t)p[at + 1] << 8 | p[at + 2]);
    }
    return -1;
}

static void stream_numbers_only_go_up(void **state)
{
    static const struct {
        uint8_t ids[12];
        uint8_t bad;
        int code;
    } cases[] = {
        {{1, 3, 5}, 0, -1},
        {{7, 9, 21}, 0, -1},
        {{5}, 3, 1},
        {{5}, 1, 1},
        {{1, 9}, 7, 1},
        {{1, 9}, 3, 1},
        {{1, 3}, 1, 5}, /* it was ended */
        {{1}, 2, 1},    /* ours to give */
        {{5, 9, 13, 17, 21}, 19, 1},
        {{5, 9, 13, 17, 21}, 1, -1}, /* too long ago to be known: ignored */
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct fix *f = fix_new();

        fix_start(f);
        f->s.end_after = true;
        assert_int_equal(run(f), SW_OK); /* the preface */
        for (size_t k = 0; cases[i].ids[k]; k++) {
            assert_int_equal(feed_head(f, cases[i].ids[k]), SW_OK);
            assert_int_equal(sw_h2_flush(f->s.h, NULL), SW_OK);
            assert_int_equal(f->s.closes[cases[i].ids[k]], 1);
        }
        if (cases[i].bad) {
            int heads = f->s.heads;

            (void)!feed_head(f, cases[i].bad);
            assert_int_equal(f->s.heads, heads);
        }
        (void)!sw_h2_flush(f->s.h, NULL);
        if (goaway_code(sw_buf_slice(&f->s.out)) != cases[i].code)
            fail_msg("case %zu: GOAWAY with %d", i, (int)goaway_code(sw_buf_slice(&f->s.out)));
        fix_done(f);
    }
}

/* Streams beyond the limit are reset, and a client that has not acknowledged it may open them. */
static void a_client_that_reads_nothing_cannot_fill_the_queue(void **state)
{
    struct fix *f = fix_new();
    unsigned n = 0;
    int rc;

    (void)state;
    fix_start(f);
    f->s.room = 1; /* nothing leaves */
    assert_int_equal(sw_h2_flush(f->c.h, NULL), SW_OK);
    assert_int_equal(sw_h2_feed(f->s.h, sw_buf_slice(&f->c.out), NULL), SW_OK);
    do {
        assert_int_equal(sw_h2_flush(f->s.h, NULL), SW_EAGAIN);
        rc = feed_head(f, 2 * n + 1);
    } while (rc == SW_OK && ++n < 20000);
    assert_int_equal(rc, SW_EPROTO);
    assert_int_equal(f->s.heads, 10);
    assert_in_range(n, 1000, 4000);
    f->s.room = 0;
    assert_int_equal(sw_h2_flush(f->s.h, NULL), SW_OK);
    assert_int_equal(goaway_code(sw_buf_slice(&f->s.out)), SW_H2_ENHANCE_YOUR_CALM);
    fix_done(f);
}

static void rubbish_is_a_protocol_error(void **state)
{
    struct fix *f = fix_new();
    struct sw_err err = {0};

    (void)state;
    fix_start(f);
    assert_int_equal(sw_h2_feed(f->s.h, SW_SLICE_LIT("GET / HTTP/1.1\r\n\r\n       "), &err),
                     SW_EPROTO);
    assert_true(err.msg[0]);
    fix_done(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_is_answered_and_both_ends_close),
        cmocka_unit_test(the_window_stops_the_sender_until_credit_comes),
        cmocka_unit_test(many_trailers_end_a_stream),
        cmocka_unit_test(a_reset_travels_with_its_code),
        cmocka_unit_test(limits_on_streams_are_learnt),
        cmocka_unit_test(pings_are_answered),
        cmocka_unit_test(a_graceful_end_takes_two_steps),
        cmocka_unit_test(streams_behind_the_goaway_are_refused),
        cmocka_unit_test(a_large_header_block_is_marked),
        cmocka_unit_test(too_many_early_resets_end_the_connection),
        cmocka_unit_test(without_room_frames_wait),
        cmocka_unit_test(sessions_of_a_thread_do_not_disturb_each_other),
        cmocka_unit_test(stream_numbers_only_go_up),
        cmocka_unit_test(a_client_that_reads_nothing_cannot_fill_the_queue),
        cmocka_unit_test(rubbish_is_a_protocol_error),
    };

    return cmocka_run_group_tests_name("h2", tests, NULL, NULL);
}
