/* SPDX-License-Identifier: Apache-2.0 */
/* DNS over TCP on a socket pair: framing, back-pressure, answers that come later, idle times. */
#include "rig.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "dns/tcp.h"
#include "io/sock.h"

enum { IDLE_MS = 1000, BIG = 60000 };

static struct sw_loop *loop;
static struct sw_dns_tcp_set set;
static uint64_t now_ns;

static uint64_t fake_clock(void)
{
    return now_ns;
}

static void pass_ms(uint64_t ms)
{
    now_ns += ms * SW_NS_PER_MS;
    for (int i = 0; i < 8; i++)
        sw_loop_turn(loop, 0);
}

/* A server's connection, and the client's end of it. Static in each test: stop() closes it. */
struct conn {
    struct sw_dns_tcp tcp;
    int client;
    unsigned messages, closes, frees;
    unsigned fills; /* messages that fill() still sends */
    bool idle;      /* as on_close had it */
    bool later;     /* answers are sent by the test */
    bool big;       /* answers are of BIG bytes */
    char last[16];
};

static struct conn *conn_of(struct sw_dns_tcp *t)
{
    return SW_CONTAINER_OF(t, struct conn, tcp);
}

static void answer(struct conn *c)
{
    static uint8_t big[BIG];

    if (c->big)
        sw_dns_tcp_send(&c->tcp, big, sizeof(big));
    else
        sw_dns_tcp_send(&c->tcp, (const uint8_t *)c->last, strlen(c->last));
}

static bool on_message(struct sw_dns_tcp *t, struct sw_slice msg)
{
    struct conn *c = conn_of(t);

    c->messages++;
    (void)snprintf(c->last, sizeof(c->last), "%.*s", SW_SLICE_ARG(msg));
    if (strcmp(c->last, "bad") == 0)
        return false;
    if (strcmp(c->last, "close") == 0)
        sw_dns_tcp_close(t);
    else if (c->later)
        t->pending++;
    else
        answer(c);
    return true;
}

static bool fill(struct sw_dns_tcp *t)
{
    struct conn *c = conn_of(t);

    while (c->fills && !sw_dns_tcp_full(t)) {
        c->fills--;
        answer(c);
    }
    return c->fills;
}

static void on_close(struct sw_dns_tcp *t, bool idle)
{
    conn_of(t)->closes++;
    conn_of(t)->idle = idle;
}

static void on_free(struct sw_dns_tcp *t)
{
    conn_of(t)->frees++;
}

static const struct sw_dns_tcp_ops ops = {
    .on_message = on_message, .fill = fill, .on_close = on_close, .free = on_free};

static int start(void **state)
{
    (void)state;
    now_ns = SW_NS_PER_S;
    loop = sw_loop_new(NULL);
    sw_loop_set_clock(loop, fake_clock);
    sw_dns_tcp_set_init(&set, loop, &ops);
    set.idle_ns = IDLE_MS * SW_NS_PER_MS;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    while (set.n)
        sw_dns_tcp_evict(&set);
    pass_ms(0);
    sw_loop_free(loop);
    return 0;
}

static void open_conn(struct conn *c)
{
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    c->client = fd[1];
    sw_dns_tcp_open(&c->tcp, &set, fd[0]);
}

/* Bytes as they are; the first of them are a length. */
static void put(struct conn *c, const char *bytes, size_t n)
{
    assert_int_equal(write(c->client, bytes, n), (ssize_t)n);
    pass_ms(0);
}

#define PUT(c, bytes) put(c, bytes, sizeof(bytes) - 1)

static void expect(struct conn *c, const char *bytes, size_t n)
{
    char got[64];

    assert_int_equal(read(c->client, got, sizeof(got)), (ssize_t)n);
    assert_memory_equal(got, bytes, n);
}

#define EXPECT(c, bytes) expect(c, bytes, sizeof(bytes) - 1)

static void messages_are_cut_by_their_lengths(void **state)
{
    static struct conn c;

    (void)state;
    open_conn(&c);
    PUT(&c, "\0\1a\0\2bb\0");
    assert_int_equal(c.messages, 2);
    EXPECT(&c, "\0\1a\0\2bb");
    PUT(&c, "\3c");
    assert_int_equal(c.messages, 2);
    PUT(&c, "cc");
    EXPECT(&c, "\0\3ccc");
    (void)close(c.client);
    pass_ms(0);
    assert_int_equal(c.closes, 1);
    assert_int_equal(c.frees, 1);
    assert_false(c.idle);
}

static void answers_that_come_later_hold_the_connection(void **state)
{
    static struct conn c = {.later = true};

    (void)state;
    set.max_pending = 2;
    open_conn(&c);
    PUT(&c, "\0\1a\0\1b\0\1c");
    assert_int_equal(c.messages, 2); /* the third waits */
    assert_int_equal(shutdown(c.client, SHUT_WR), 0);
    pass_ms(3 * IDLE_MS);
    assert_int_equal(c.closes, 0);
    c.tcp.pending--;
    answer(&c);
    pass_ms(0);
    assert_int_equal(c.messages, 3);
    c.tcp.pending -= 2;
    answer(&c);
    pass_ms(0);
    EXPECT(&c, "\0\1b\0\1c");
    assert_int_equal(c.closes, 1); /* all is answered, and no more can come */
    (void)close(c.client);
}

static void a_client_that_does_not_read_gets_no_more_work(void **state)
{
    static struct conn c = {.big = true};
    char sink[BIG];
    unsigned before;

    (void)state;
    open_conn(&c);
    for (int i = 0; i < 200; i++)
        PUT(&c, "\0\1a");
    before = c.messages;
    assert_true(before < 100);
    assert_int_equal(c.closes, 0);
    while (c.messages < 200) {
        while (read(c.client, sink, sizeof(sink)) > 0)
            ;
        pass_ms(1);
    }
    (void)close(c.client);
}

static void filled_output_keeps_its_turn(void **state)
{
    static struct conn c = {.big = true, .fills = 40};
    size_t got = 0;
    char sink[BIG];

    (void)state;
    open_conn(&c);
    PUT(&c, "\0\1a");
    assert_int_equal(c.messages, 0); /* behind the output that is under way */
    while (c.messages == 0 || got < 41 * (size_t)(BIG + 2)) {
        ssize_t n = read(c.client, sink, sizeof(sink));

        got += n > 0 ? (size_t)n : 0;
        pass_ms(n > 0 ? 0 : 1);
    }
    assert_int_equal(got, 41 * (size_t)(BIG + 2));
    (void)close(c.client);
}

static void what_is_no_dns_ends_after_what_is_queued(void **state)
{
    static struct conn c;

    (void)state;
    open_conn(&c);
    PUT(&c, "\0\1a\0\3bad\0\1b");
    assert_int_equal(c.closes, 1);
    EXPECT(&c, "\0\1a\0\1b"); /* what came with it is answered */
    (void)close(c.client);
}

static void idle_connections_end_and_single_bytes_are_no_progress(void **state)
{
    static struct conn c;

    (void)state;
    open_conn(&c);
    pass_ms(IDLE_MS - 1);
    PUT(&c, "\0\1a");
    pass_ms(IDLE_MS - 1);
    assert_int_equal(c.closes, 0);
    PUT(&c, "\0");
    pass_ms(2);
    assert_int_equal(c.closes, 1);
    assert_true(c.idle);
    (void)close(c.client);
}

static void the_longest_idle_makes_room(void **state)
{
    static struct conn a;
    static struct conn b;

    (void)state;
    open_conn(&a);
    open_conn(&b);
    PUT(&a, "\0\1a");
    sw_dns_tcp_evict(&set);
    assert_int_equal(b.closes, 1);
    assert_int_equal(a.closes, 0);
    assert_int_equal(set.n, 1);
    (void)close(a.client);
    (void)close(b.client);
}

static void closing_inside_a_message_is_safe(void **state)
{
    static struct conn c;

    (void)state;
    open_conn(&c);
    PUT(&c, "\0\5close\0\1a");
    assert_int_equal(c.messages, 1);
    assert_int_equal(c.closes, 1);
    assert_int_equal(c.frees, 1);
    sw_dns_tcp_close(&c.tcp);
    assert_int_equal(c.closes, 1);
    (void)close(c.client);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(messages_are_cut_by_their_lengths),
        CASE(answers_that_come_later_hold_the_connection),
        CASE(a_client_that_does_not_read_gets_no_more_work),
        CASE(filled_output_keeps_its_turn),
        CASE(what_is_no_dns_ends_after_what_is_queued),
        CASE(idle_connections_end_and_single_bytes_are_no_progress),
        CASE(the_longest_idle_makes_room),
        CASE(closing_inside_a_message_is_safe),
    };

    return cmocka_run_group_tests_name("dns tcp", tests, NULL, NULL);
}
