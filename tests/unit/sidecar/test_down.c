/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 from the gateway to a node and back: requests come over a socket pair, the node is a
 * script behind an endpoint in memory.
 */
#include "../tunnel/wild.h"
#include "base/log.h"
#include "sidecar/sidecar_int.h"

#define ID "d3aafc04c9dc9a9608ed9738f2b7c30d9834538e3147ef5f14fe8c725d6baf8f"
#define TO "x-iroh-endpoint-id: " ID "\r\n"
#define AT TO "x-datum-target-host: h\r\nx-datum-target-port: 80\r\n"

/* Of sidecar.c, which would bring the real endpoint along. */
bool side_may(const struct sw_sidecar *s, const struct side_out *o, struct side_refusal *why)
{
    (void)s;
    (void)o;
    (void)why;
    return true;
}

void sw_quic_stats(const struct sw_quic *q, struct sw_quic_stats *ret)
{
    (void)q;
    *ret = (struct sw_quic_stats){0};
}

struct world {
    struct qrig *r;
    struct wild node;
    struct sw_sidecar_config cfg;
    struct sw_sidecar s;
    int fd; /* the gateway's end */
    struct sw_buf got;
    bool eof;
};

static struct world *world_new(struct sw_slice say, bool fin)
{
    struct world *w = SW_NEW(struct world);
    int fds[2];

    w->r = qrig_new();
    w->node = (struct wild){.say = say, .fin = fin};
    w->r->fake.accepted = w_accepted;
    w->r->fake.arg = &w->node;
    w->cfg.answer_ns = 15 * SW_NS_PER_S;
    w->cfg.tunnel_idle_ns = 60 * SW_NS_PER_S;
    w->s.loop = w->r->loop;
    w->s.c = &w->cfg;
    sw_list_init(&w->s.h1);
    sw_buf_init(&w->got, 1 << 20);
    qrig_start(w->r);
    w->s.dial = w->r->dial;
    unix_pair(fds);
    w->fd = fds[0];
    side_h1_serve(&w->s, fds[1], SIDE_UDS);
    return w;
}

static void world_free(struct world *w)
{
    sw_sock_close(w->fd);
    side_h1_kill_all(&w->s);
    assert_int_equal(w->s.n_conns, 0);
    rig_settle(w->r->loop);
    qrig_free(w->r);
    sw_buf_done(&w->got);
    sw_free(w);
}

static void take(struct world *w)
{
    char buf[4096];
    ssize_t n;

    rig_settle(w->r->loop);
    while ((n = sw_sock_read(w->fd, buf, sizeof(buf))) > 0) {
        assert_int_equal(sw_buf_append(&w->got, buf, (size_t)n), SW_OK);
        rig_settle(w->r->loop);
    }
    w->eof = n != SW_EAGAIN;
}

/* What came, as text. */
static const char *got(struct world *w)
{
    assert_int_equal(sw_buf_putc(&w->got, 0), SW_OK);
    w->got.n--;
    return sw_buf_data(&w->got);
}

enum after {
    KEPT,   /* another request may follow */
    CLOSED, /* by the sidecar, without waiting for the client */
};

static const struct {
    const char *request;
    const char *node; /* what it says, then it ends */
    const char *answer;
    enum after after;
} cases[] = {
    /* A known length stays. */
    {"GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n",
     "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 5\r\n\r\nhello",
     "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 5\r\n\r\nhello", KEPT},
    /* Without one the body comes in chunks, or ends with the connection for HTTP/1.0. */
    {"GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n", "HTTP/1.1 200 OK\r\n\r\nhello",
     "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", KEPT},
    {"GET / HTTP/1.0\r\n" AT "\r\n", "HTTP/1.1 200 OK\r\n\r\nhello",
     "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhello", CLOSED},
    {"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n" AT "\r\n",
     "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx",
     "HTTP/1.1 200 OK\r\ncontent-length: 1\r\nconnection: close\r\n\r\nx", CLOSED},
    /* Answers without a body. */
    {"HEAD / HTTP/1.1\r\nhost: a\r\n" AT "\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n",
     "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", KEPT},
    {"GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n", "HTTP/1.1 204 No Content\r\n\r\n",
     "HTTP/1.1 204 No Content\r\n\r\n", KEPT},
    {"GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n", "HTTP/1.1 304 Not Modified\r\n\r\n",
     "HTTP/1.1 304 Not Modified\r\n\r\n", KEPT},
    /* Fields of the connection to the node are not passed on. */
    {"GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n",
     "HTTP/1.1 200 OK\r\nkeep-alive: 5\r\nconnection: close, x-own\r\nx-own: 1\r\nx-other: 2\r\n"
     "content-length: 0\r\n\r\n",
     "HTTP/1.1 200 OK\r\nx-other: 2\r\ncontent-length: 0\r\n\r\n", KEPT},
    /* A body that is cut, or too long, ends the connection. */
    {"GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello",
     "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello", CLOSED},
    {"GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nhello",
     "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n", CLOSED},
    {"GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n", "HTTP/1.1 101 Switching Protocols\r\n\r\n", "",
     CLOSED},
    /* The rest of a request that was answered early is in the way. */
    {"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n" AT "\r\nhel",
     "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
     "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n", CLOSED},
    {"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n" AT "\r\nhello",
     "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
     KEPT},
    /* A tunnel that the node refuses: its words are not for the client. */
    {"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n" TO "\r\n",
     "HTTP/1.1 403 Forbidden\r\nx: y\r\ncontent-length: 5\r\n\r\nhello",
     "HTTP/1.1 403 Forbidden\r\nx: y\r\nx-spanwire-reason: refused_by_node\r\ncontent-length: 0\r\n"
     "connection: close\r\n\r\n",
     CLOSED},
    {"CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n" TO "\r\n", "HTTP/1.1 200 OK\r\nx: y\r\n\r\nbytes",
     "HTTP/1.1 200 Connection Established\r\nx-spanwire-half-close: ?1\r\n\r\nbytes", CLOSED},
    {"GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n" AT "\r\n",
     "HTTP/1.1 101 Switching Protocols\r\nx: y\r\n\r\nbytes",
     "HTTP/1.1 101 Switching Protocols\r\nx: y\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
     "bytes",
     CLOSED},
};

static void answers_are_framed_for_the_client(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct world *w = world_new(sw_slice_str(cases[i].node), true);

        put(w->fd, cases[i].request);
        take(w);
        if (strcmp(got(w), cases[i].answer) != 0)
            fail_msg("case %zu: %s", i, got(w));
        if (w->eof != (cases[i].after == CLOSED))
            fail_msg("case %zu: %s", i, w->eof ? "closed" : "kept");
        world_free(w);
    }
}

static void a_kept_connection_carries_the_next_request(void **state)
{
    static const char ok[] = "HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx";
    struct world *w = world_new(sw_slice_str(ok), true);

    (void)state;
    for (int i = 0; i < 3; i++) {
        sw_buf_clear(&w->got);
        w->node.say = sw_slice_str(ok);
        put(w->fd, "GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n");
        take(w);
        assert_string_equal(got(w), ok);
        assert_false(w->eof);
    }
    assert_int_equal(w->r->fake.dials, 1); /* one connection to the node for all */
    /* One that it refuses itself is no reason to end it either. */
    sw_buf_clear(&w->got);
    put(w->fd, "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    take(w);
    assert_memory_equal(got(w), "HTTP/1.1 400 ", 13);
    assert_non_null(strstr(got(w), "x-spanwire-reason: missing_header_node_id\r\n"));
    assert_false(w->eof);
    /* But for one with a body, which is not read. */
    sw_buf_clear(&w->got);
    put(w->fd, "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\n");
    take(w);
    assert_non_null(strstr(got(w), "connection: close\r\n"));
    world_free(w);
}

static void a_node_out_of_reach_is_an_answer(void **state)
{
    static const struct {
        enum fake_dial mode;
        int lookup;
        const char *start;
        const char *part;
    } ways[] = {
        {FAKE_DIAL_REFUSED, 0, "HTTP/1.1 403 ", "x-spanwire-reason: not_admitted\r\n"},
        {FAKE_DIAL_IDENTITY, 0, "HTTP/1.1 502 ", "error=tls_certificate_error;"},
        {FAKE_DIAL_OK, SW_QFAIL_UNKNOWN_NODE, "HTTP/1.1 504 ", "error=destination_not_found;"},
        {FAKE_DIAL_OK, SW_QFAIL_OFFLINE, "HTTP/1.1 503 ", "retry-after: 5\r\n"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(ways); i++) {
        struct world *w = world_new(sw_slice("", 0), false);

        w->r->fake.mode = ways[i].mode;
        w->r->lookup = ways[i].lookup;
        put(w->fd, "GET / HTTP/1.1\r\nhost: a\r\n" AT "\r\n");
        take(w);
        if (strncmp(got(w), ways[i].start, strlen(ways[i].start)) != 0 ||
            !strstr(got(w), ways[i].part))
            fail_msg("case %zu: %s", i, got(w));
        assert_false(w->eof);
        world_free(w);
    }
}

static void bytes_behind_a_connect_reach_the_node_first(void **state)
{
    struct world *w = world_new(SW_SLICE_LIT("HTTP/1.1 200 OK\r\n\r\n"), false);

    (void)state;
    put(w->fd, "CONNECT a:1 HTTP/1.1\r\nhost: a:1\r\n" TO "\r\nearly");
    take(w);
    put(w->fd, " late");
    take(w);
    assert_true(sw_slice_has_suffix(sw_slice(w->node.heard, w->node.n_heard),
                                    SW_SLICE_LIT("\r\n\r\nearly late")));
    assert_false(w->eof);
    /* Nobody speaks for too long. */
    rig_advance(w->r->loop, 61 * SW_NS_PER_S);
    take(w);
    assert_true(w->eof);
    world_free(w);
}

/* The body is here before the stream takes any of it, framing between its pieces. */
static void a_body_that_came_early_is_passed_on_without_framing(void **state)
{
    struct world *w = world_new(sw_slice("", 0), false);

    (void)state;
    put(w->fd, "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n" AT
               "\r\n5\r\nhello\r\n6;x=y\r\n world\r\n");
    take(w);
    put(w->fd, "1\r\n!\r\n0\r\n\r\n");
    take(w);
    assert_true(sw_slice_has_suffix(sw_slice(w->node.heard, w->node.n_heard),
                                    SW_SLICE_LIT("\r\n\r\nhello world!")));
    assert_false(w->eof);
    world_free(w);
}

static void a_head_that_never_ends_is_not_waited_for(void **state)
{
    struct world *w = world_new(sw_slice("", 0), false);

    (void)state;
    put(w->fd, "GET / HTTP/1.1\r\n");
    take(w);
    rig_advance(w->r->loop, 9 * SW_NS_PER_S);
    take(w);
    assert_false(w->eof);
    rig_advance(w->r->loop, 2 * SW_NS_PER_S);
    take(w);
    assert_true(w->eof);
    world_free(w);
}

static int group_setup(void **state)
{
    (void)state;
    return sw_log_filter(SW_SLICE_LIT("off"), true, NULL) == SW_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_framed_for_the_client),
        cmocka_unit_test(a_kept_connection_carries_the_next_request),
        cmocka_unit_test(a_node_out_of_reach_is_an_answer),
        cmocka_unit_test(bytes_behind_a_connect_reach_the_node_first),
        cmocka_unit_test(a_body_that_came_early_is_passed_on_without_framing),
        cmocka_unit_test(a_head_that_never_ends_is_not_waited_for),
    };

    return cmocka_run_group_tests_name("sidecar down", tests, group_setup, NULL);
}
