/* SPDX-License-Identifier: Apache-2.0 */
/* A client with a valid certificate and bad manners: its frames are written by hand. */
#include "pair.h"

#include "io/conn/conn.h"

enum { DATA = 0, HEADERS = 1, RST = 3, SETTINGS = 4, PING = 6, GOAWAY = 7, WINDOW_UPDATE = 8 };
enum { END_STREAM = 1, ACK = 1, END_HEADERS = 4 };

struct raw {
    struct pair *p;
    struct sw_tls *tls;
    int fd;
    bool closed;
    struct sw_buf in;    /* sealed */
    struct sw_buf plain; /* frames of the server, not yet looked at */
};

static void raw_read(struct raw *r)
{
    static uint8_t buf[1 << 20];
    ssize_t n;

    while ((n = sw_sock_read(r->fd, buf, sizeof(buf))) > 0)
        assert_int_equal(sw_buf_append(&r->in, buf, (size_t)n), SW_OK);
    r->closed |= n != SW_EAGAIN;
}

static void raw_pump(struct raw *r)
{
    static uint8_t rec[32768];

    raw_read(r);
    for (;;) {
        struct sw_slice in = sw_buf_slice(&r->in);
        struct sw_slice plain;
        size_t n = sw_min(in.n, sizeof(rec));
        size_t used;
        int rc;

        if (n == 0)
            return;
        memcpy(rec, in.p, n);
        rc = sw_tls_open(r->tls, rec, n, &used, &plain, NULL);
        if (rc != SW_OK) {
            r->closed |= rc != SW_EAGAIN;
            return;
        }
        assert_int_equal(sw_buf_append_slice(&r->plain, plain), SW_OK);
        sw_buf_consume(&r->in, used);
    }
}

static void raw_send(struct raw *r, const void *p, size_t n)
{
    const uint8_t *at = p;

    while (n) {
        static uint8_t plain[16385];
        static uint8_t out[SW_TLS_SEAL_ROOM(16384)];
        size_t k = sw_min(n, 16384);
        size_t sealed;
        size_t sent = 0;

        memcpy(plain, at, k);
        sealed = sw_tls_seal(r->tls, plain, k, out);
        for (int i = 0; i < 2000 && sent < sealed && !r->closed; i++) {
            ssize_t w = sw_sock_write(r->fd, out + sent, sealed - sent);

            sent += w > 0 ? (size_t)w : 0;
            if (w < 0 && w != SW_EAGAIN)
                r->closed = true;
            if (sent < sealed)
                sw_loop_turn(r->p->loop, 0);
        }
        at += k;
        n -= k;
    }
}

static size_t frame_head(uint8_t *out, size_t len, uint8_t type, uint8_t flags, uint32_t id)
{
    const uint8_t h[9] = {
        (uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,       type,       flags,
        (uint8_t)(id >> 24),  (uint8_t)(id >> 16), (uint8_t)(id >> 8), (uint8_t)id};

    memcpy(out, h, sizeof(h));
    return sizeof(h);
}

static void raw_frame(struct raw *r, uint8_t type, uint8_t flags, uint32_t id, const void *p,
                      size_t n)
{
    uint8_t *all = sw_malloc(9 + n);
    size_t k = frame_head(all, n, type, flags, id);

    if (n)
        memcpy(all + k, p, n);
    raw_send(r, all, k + n);
    sw_free(all);
}

/* ":method: CONNECT", ":authority: h:1" as literals without indexing. */
static const char connect_block[] = "\x00\x07:method\x07"
                                    "CONNECT\x00\x0a:authority\x03h:1";

static void raw_connect_frame(struct raw *r, uint32_t id)
{
    raw_frame(r, HEADERS, END_HEADERS, id, connect_block, sizeof(connect_block) - 1);
}

/* The next frame of a type (others are skipped); false when none came. */
static bool raw_next(struct raw *r, uint8_t type, struct sw_slice *ret, uint32_t *ret_id)
{
    for (int i = 0; i < 500; i++) {
        raw_pump(r);
        while (sw_buf_len(&r->plain) >= 9) {
            const uint8_t *h = (const uint8_t *)sw_buf_data(&r->plain);
            size_t n = (size_t)h[0] << 16 | (size_t)h[1] << 8 | h[2];
            static uint8_t body[1 << 16];
            uint8_t got = h[3];

            if (sw_buf_len(&r->plain) < 9 + n)
                break;
            assert_true(n <= sizeof(body));
            *ret_id = (uint32_t)h[5] << 24 | (uint32_t)h[6] << 16 | (uint32_t)h[7] << 8 | h[8];
            memcpy(body, h + 9, n);
            sw_buf_consume(&r->plain, 9 + n);
            *ret = sw_slice(body, n);
            if (got == type)
                return true;
        }
        sw_loop_turn(r->p->loop, 1);
    }
    return false;
}

static uint32_t be32(struct sw_slice s, size_t at)
{
    const uint8_t *p = (const uint8_t *)s.p + at;

    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void raw_open(struct raw *r, struct pair *p)
{
    static const struct sw_slice expected = SW_SLICE_LIT(SERVER_ID);
    struct sw_tls_params cp = {
        .cred = p->creds.client, .alpn = "h2", .expect = &expected, .n_expect = 1};
    struct sw_buf out;
    size_t used;
    int fds[2];
    int rc;

    *r = (struct raw){.p = p};
    sw_buf_init(&r->in, 16 << 20);
    sw_buf_init(&r->plain, 16 << 20);
    sw_buf_init(&out, 1 << 20);
    unix_pair(fds);
    r->fd = fds[0];
    pair_serve(p, fds[1]);
    r->tls = sw_tls_new(&cp, NULL);
    rc = sw_tls_handshake(r->tls, sw_slice("", 0), &used, &out, NULL);
    for (int i = 0; i < 1000 && rc == SW_EAGAIN; i++) {
        if (sw_buf_len(&out)) {
            assert_int_equal(sw_sock_write(r->fd, sw_buf_data(&out), sw_buf_len(&out)),
                             sw_buf_len(&out));
            sw_buf_clear(&out);
        }
        sw_loop_turn(p->loop, 1);
        raw_read(r);
        rc = sw_tls_handshake(r->tls, sw_buf_slice(&r->in), &used, &out, NULL);
        sw_buf_consume(&r->in, used);
    }
    assert_int_equal(rc, SW_OK);
    assert_int_equal(sw_sock_write(r->fd, sw_buf_data(&out), sw_buf_len(&out)), sw_buf_len(&out));
    sw_buf_done(&out);
    raw_send(r, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    raw_frame(r, SETTINGS, 0, 0, NULL, 0);
    RUN_UNTIL(p->loop, p->server_ready);
    rig_settle(p->loop);
    raw_frame(r, SETTINGS, ACK, 0, NULL, 0);
}

static void raw_done(struct raw *r)
{
    sw_tls_free(r->tls);
    sw_buf_done(&r->in);
    sw_buf_done(&r->plain);
    sw_sock_close(r->fd);
    rig_settle(r->p->loop);
    pair_done(r->p);
}

static void expect_goaway(struct raw *r, uint32_t code)
{
    struct sw_slice body;
    uint32_t id;

    assert_true(raw_next(r, GOAWAY, &body, &id));
    assert_int_equal(be32(body, 4), code);
    RUN_UNTIL(r->p->loop, r->p->server_closed);
    assert_int_equal(r->p->server_rc, SW_EPROTO);
}

static void a_header_block_beyond_the_limit_is_answered_431(void **state)
{
    struct raw r;
    struct sw_slice body;
    uint32_t id;
    uint8_t *block = sw_malloc(200000);
    size_t n = sizeof(connect_block) - 1;

    (void)state;
    raw_open(&r, pair_new());
    memcpy(block, connect_block, n);
    for (int i = 0; i < 40; i++) { /* 40 fields of 2000 bytes */
        memcpy(block + n, "\x00\x01x\x7f\xd1\x0e", 6);
        memset(block + n + 6, 'v', 2000);
        n += 6 + 2000;
    }
    raw_frame(&r, HEADERS, END_HEADERS, 1, block, n);
    assert_true(raw_next(&r, HEADERS, &body, &id));
    assert_int_equal(id, 1);
    assert_true(memmem(body.p, body.n, "431", 3) || body.n < 12); /* may be Huffman coded */
    assert_true(raw_next(&r, RST, &body, &id));
    assert_int_equal(be32(body, 0), SW_H2_NO_ERROR);
    assert_int_equal(r.p->ns, 0);
    /* The connection lives. */
    raw_connect_frame(&r, 3);
    RUN_UNTIL(r.p->loop, r.p->ns == 1);
    sw_free(block);
    raw_done(&r);
}

static void streams_reset_before_their_answer_are_counted(void **state)
{
    struct raw r;
    const uint8_t cancel[4] = {0, 0, 0, SW_H2_CANCEL};

    (void)state;
    raw_open(&r, pair_new());
    r.p->answer = 1;
    for (uint32_t i = 0; i < 250 && !r.closed; i++) {
        raw_connect_frame(&r, 1 + 2 * i);
        raw_frame(&r, RST, 0, 1 + 2 * i, cancel, sizeof(cancel));
        sw_loop_turn(r.p->loop, 0);
    }
    expect_goaway(&r, SW_H2_ENHANCE_YOUR_CALM);
    for (size_t i = 0; i < r.p->ns; i++)
        assert_int_equal(r.p->s[i].done, 1);
    raw_done(&r);
}

static void answered_streams_may_be_reset_freely(void **state)
{
    struct raw r;
    const uint8_t cancel[4] = {0, 0, 0, SW_H2_CANCEL};

    (void)state;
    raw_open(&r, pair_new());
    for (uint32_t i = 0; i < 250; i++) {
        raw_connect_frame(&r, 1 + 2 * i);
        RUN_UNTIL(r.p->loop, r.p->ns == i + 1);
        raw_frame(&r, RST, 0, 1 + 2 * i, cancel, sizeof(cancel));
        raw_pump(&r);
        RUN_UNTIL(r.p->loop, r.p->s[i].done);
        assert_int_equal(r.p->s[i].rc, SW_OK); /* CANCEL is an end, not a reset */
        sw_sock_close(r.p->s[i].app);
        r.p->s[i].app = -1;
    }
    assert_int_equal(r.p->server_closed, 0);
    raw_done(&r);
}

static void empty_data_frames_are_limited(void **state)
{
    struct raw r;

    (void)state;
    raw_open(&r, pair_new());
    raw_connect_frame(&r, 1);
    for (int i = 0; i < 1100; i++)
        raw_frame(&r, DATA, 0, 1, NULL, 0);
    expect_goaway(&r, SW_H2_ENHANCE_YOUR_CALM);
    raw_done(&r);
}

/* PINGs of somebody who never reads the answers. */
static void unread_pings_are_limited(void **state)
{
    struct raw r;
    const uint8_t eight[8] = {0};

    (void)state;
    raw_open(&r, pair_new());
    for (int i = 0; i < 60000 && !r.p->server_closed; i++)
        raw_frame(&r, PING, 0, 0, eight, sizeof(eight));
    RUN_UNTIL(r.p->loop, r.p->server_closed);
    assert_int_equal(r.p->server_rc, SW_EPROTO);
    raw_done(&r);
}

enum loss {
    PEER_RESETS,       /* right behind the data */
    LOCAL_SIDE_CLOSES, /* the data is on its way then */
    OWNER_GIVES_UP,    /* having heard of a part of the data */
    SERVER_ABORTS,     /* before the data */
    LOSSES,
};

enum {
    LOST = 24, /* streams of 16,000 bytes each */
};

static void lose_stream(struct raw *r, enum loss how, uint32_t id, struct tun *t)
{
    static uint8_t frames[9 + 16000 + 9 + 4];
    static const int tiny = 1;
    size_t n = frame_head(frames, 16000, DATA, 0, id) + 16000;

    if (how == PEER_RESETS) {
        n += frame_head(frames + n, 4, RST, 0, id) + 4;
        frames[n - 1] = SW_H2_CONNECT_ERROR;
    } else if (how == OWNER_GIVES_UP) { /* the local socket takes a part */
        assert_int_equal(setsockopt(t->stream.fd, SOL_SOCKET, SO_SNDBUF, &tiny, sizeof(tiny)), 0);
        t->give_up = t;
    } else if (how == SERVER_ABORTS) {
        sw_tstream_abort(&t->stream, SW_H2_CONNECT_ERROR);
    }
    raw_send(r, frames, n);
    if (how == LOCAL_SIDE_CLOSES) {
        sw_sock_close(t->app);
        t->app = -1;
    }
    RUN_UNTIL(r->p->loop, r->p->server_closed || sw_session_streams(r->p->server) == 0);
    rig_settle(r->p->loop);
    assert_true(how != OWNER_GIVES_UP || (t->down > 0 && t->down < 16000));
}

/*
 * Three times the connection's window is sent on streams that get lost. Had the credit for any of
 * it gone with its stream, the server would find its window exceeded.
 */
static void lost_streams_give_the_credit_of_the_connection_back(void **state)
{
    (void)state;
    for (int how = 0; how < LOSSES; how++) {
        struct pair *p = pair_new();
        struct raw r;

        p->config.stream_window = 65535;
        p->config.connection_window = 131072;
        raw_open(&r, p);
        for (uint32_t i = 0; i < LOST; i++) {
            raw_connect_frame(&r, 1 + 2 * i);
            RUN_UNTIL(p->loop, p->ns == i + 1 || p->server_closed);
            if (p->server_closed)
                fail_msg("way %d: closed after %u streams: %s", how, i, p->server_err.msg);
            lose_stream(&r, (enum loss)how, 1 + 2 * i, &p->s[i]);
            sw_sock_close(p->s[i].app);
            p->s[i].app = -1;
            raw_pump(&r);
        }
        assert_int_equal(p->server_closed, 0);
        raw_done(&r);
    }
}

/* The same of streams whose data waits for its turn behind that of another, who gives them up. */
static void streams_given_up_by_others_give_the_credit_back(void **state)
{
    static uint8_t frames[9 + 1 + 9 + 16000];
    struct pair *p = pair_new();
    struct raw r;

    (void)state;
    p->config.stream_window = 65535;
    p->config.connection_window = 131072;
    raw_open(&r, p);
    raw_connect_frame(&r, 1);
    RUN_UNTIL(p->loop, p->ns == 1);
    for (uint32_t i = 1; i <= LOST; i++) {
        size_t n = frame_head(frames, 1, DATA, 0, 1) + 1;

        raw_connect_frame(&r, 1 + 2 * i);
        RUN_UNTIL(p->loop, p->ns == i + 1);
        p->s[0].give_up = &p->s[i];
        n += frame_head(frames + n, 16000, DATA, 0, 1 + 2 * i) + 16000;
        raw_send(&r, frames, n);
        RUN_UNTIL(p->loop, sw_session_streams(p->server) == 1);
        assert_int_equal(p->s[i].down, 0);
        sw_sock_close(p->s[i].app);
        p->s[i].app = -1;
        raw_pump(&r);
    }
    raw_done(&r);
}

/* The same of requests that are refused while their data is on its way. */
static void refused_requests_give_the_credit_of_the_connection_back(void **state)
{
    static uint8_t frames[9 + sizeof(connect_block) - 1 + 9 + 16000];
    struct pair *p = pair_new();
    struct raw r;

    (void)state;
    p->answer = 403;
    p->config.stream_window = 65535;
    p->config.connection_window = 131072;
    raw_open(&r, p);
    for (uint32_t i = 0; i < LOST; i++) {
        size_t n = frame_head(frames, sizeof(connect_block) - 1, HEADERS, END_HEADERS, 1 + 2 * i);

        memcpy(frames + n, connect_block, sizeof(connect_block) - 1);
        n += sizeof(connect_block) - 1;
        n += frame_head(frames + n, 16000, DATA, 0, 1 + 2 * i) + 16000;
        raw_send(&r, frames, n);
        rig_settle(p->loop);
        raw_pump(&r);
    }
    p->answer = 0;
    raw_connect_frame(&r, 1 + 2 * LOST);
    RUN_UNTIL(p->loop, p->ns == 1);
    raw_done(&r);
}

static void more_data_than_the_window_ends_the_stream(void **state)
{
    struct raw r;
    struct pair *p = pair_new();
    static uint8_t zeros[16384];

    (void)state;
    p->config.stream_window = 65535;
    p->answer = 1; /* never consumed */
    raw_open(&r, p);
    raw_connect_frame(&r, 1);
    for (int i = 0; i < 5; i++)
        raw_frame(&r, DATA, 0, 1, zeros, sizeof(zeros));
    RUN_UNTIL(p->loop, p->server_closed || (p->ns == 1 && p->s[0].done));
    raw_done(&r);
}

static void streams_beyond_the_limit_are_refused(void **state)
{
    struct raw r;
    struct pair *p = pair_new();
    struct sw_slice body;
    uint32_t id;

    (void)state;
    p->config.max_streams = 5;
    p->answer = 1;
    raw_open(&r, p);
    for (uint32_t i = 0; i < 8; i++)
        raw_connect_frame(&r, 1 + 2 * i);
    if (raw_next(&r, RST, &body, &id))
        assert_int_equal(be32(body, 0), SW_H2_REFUSED_STREAM);
    assert_int_equal(p->ns, 5);
    raw_done(&r);
}

static void a_request_with_end_of_stream_ends_the_local_write_side(void **state)
{
    struct raw r;

    (void)state;
    raw_open(&r, pair_new());
    raw_frame(&r, HEADERS, END_HEADERS | END_STREAM, 1, connect_block, sizeof(connect_block) - 1);
    RUN_UNTIL(r.p->loop, r.p->ns == 1);
    assert_int_equal(read_end(r.p->loop, r.p->s[0].app), SW_EOF);
    raw_done(&r);
}

static void other_methods_and_broken_frames_do_not_crash(void **state)
{
    static const struct {
        uint8_t type;
        uint8_t flags;
        uint32_t id;
        const char *body;
        size_t n;
    } cases[] = {
        {DATA, 0, 0, "x", 1},                                         /* DATA on stream 0 */
        {HEADERS, END_HEADERS, 2, "\x82", 1},                         /* even id */
        {HEADERS, END_HEADERS, 1, "\xff\xff\xff\xff\xff\xff\xff", 7}, /* bad HPACK */
        {SETTINGS, 0, 1, "", 0},
        {SETTINGS, 0, 0, "abc", 3},
        {WINDOW_UPDATE, 0, 0, "\0\0\0\0", 4},
        {WINDOW_UPDATE, 0, 0, "\x7f\xff\xff\xff", 4},
        {PING, 0, 0, "short", 5},
        {9, 0, 1, "x", 1}, /* CONTINUATION out of nowhere */
        {RST, 0, 99, "\0\0\0\x08", 4},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct raw r;

        raw_open(&r, pair_new());
        raw_frame(&r, cases[i].type, cases[i].flags, cases[i].id, cases[i].body, cases[i].n);
        RUN_UNTIL(r.p->loop, (raw_pump(&r), r.closed) || r.p->server_closed);
        raw_done(&r);
    }
}

/* A second carrier record behind a goodbye, and silence afterwards: the linger has an end. */
static void a_peer_that_never_closes_is_not_waited_for(void **state)
{
    struct raw r;
    struct sw_slice body;
    uint32_t id;
    const uint8_t bye[8] = {0};

    (void)state;
    raw_open(&r, pair_new());
    raw_frame(&r, GOAWAY, 0, 0, bye, sizeof(bye));
    assert_true(raw_next(&r, GOAWAY, &body, &id));
    assert_int_equal(r.p->server_closed, 0);
    rig_advance(r.p->loop, SW_CONN_LINGER_MS * SW_NS_PER_MS - SW_NS_PER_MS);
    assert_int_equal(r.p->server_closed, 0);
    rig_advance(r.p->loop, 2 * SW_NS_PER_MS);
    assert_int_equal(r.p->server_closed, 1);
    assert_int_equal(r.p->server_rc, SW_OK);
    raw_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_block_beyond_the_limit_is_answered_431),
        cmocka_unit_test(streams_reset_before_their_answer_are_counted),
        cmocka_unit_test(answered_streams_may_be_reset_freely),
        cmocka_unit_test(empty_data_frames_are_limited),
        cmocka_unit_test(unread_pings_are_limited),
        cmocka_unit_test(lost_streams_give_the_credit_of_the_connection_back),
        cmocka_unit_test(streams_given_up_by_others_give_the_credit_back),
        cmocka_unit_test(refused_requests_give_the_credit_of_the_connection_back),
        cmocka_unit_test(more_data_than_the_window_ends_the_stream),
        cmocka_unit_test(streams_beyond_the_limit_are_refused),
        cmocka_unit_test(a_request_with_end_of_stream_ends_the_local_write_side),
        cmocka_unit_test(other_methods_and_broken_frames_do_not_crash),
        cmocka_unit_test(a_peer_that_never_closes_is_not_waited_for),
    };

    return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
