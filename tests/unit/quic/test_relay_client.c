/* SPDX-License-Identifier: Apache-2.0 */
/* The client against a relay that does as each test tells it, on a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "http/h1.h"
#include "http/ws/wsconn.h"
#include "io/sock.h"
#include "quic/relay/auth.h"
#include "quic/relay/client.h"

enum greet { CHALLENGE, CONFIRM, DENY, HTTP_403, WRONG_VERSION };

struct relay {
    struct sw_watch watch;
    int fd;
    enum greet greet;
    struct sw_wsconn *ws; /* the newest connection */
    bool answers_pings;
    unsigned accepted;
    unsigned pings;
    unsigned proofs; /* that were right */
    size_t frames;
    size_t bytes;
    uint8_t last[128]; /* start of the last datagram */
    char token[64];
};

struct rig {
    struct sw_loop *loop;
    struct relay relay;
    struct sw_rawkey *key;
    struct sw_relay_client *client;
    char url[64];
    unsigned ups;
    unsigned downs;
    unsigned gone;
    size_t packets;
    size_t packet_bytes;
    size_t segment;
    bool free_in_packets;
};

static uint64_t now;
static struct rig *rig;

static uint64_t clock_now(void)
{
    return now;
}

/* ---- the relay ---- */

static const uint8_t challenge[SW_RELAY_CHALLENGE_LEN] = "0123456789abcdef";

static void say(struct sw_wsconn *ws, const void *p, size_t n)
{
    sw_wsconn_send(ws, SW_WS_BINARY, p, n);
}

static void greet(struct sw_wsconn *ws)
{
    uint8_t frame[2 + SW_RELAY_REASON_MAX] = {SW_RELAY_CHALLENGE};
    static const uint8_t yes[1] = {SW_RELAY_CONFIRMED};

    if (rig->relay.greet == CHALLENGE) {
        memcpy(frame + 1, challenge, sizeof(challenge));
        say(ws, frame, 1 + sizeof(challenge));
    } else if (rig->relay.greet == DENY) {
        say(ws, frame, sw_relay_put_denied(frame, "go away"));
    } else {
        say(ws, yes, 1);
    }
}

static size_t on_bytes(struct sw_wsconn *ws, struct sw_slice in)
{
    struct sw_h1 *h1 = sw_h1_new(SW_H1_REQUEST, NULL);
    enum sw_h1_event ev;
    struct sw_slice key;
    struct sw_err err;
    size_t used = 0;
    char text[256];
    char accept[SW_WS_ACCEPT];
    const struct sw_slice *auth;

    assert_int_equal(sw_h1_next(h1, in, &used, &ev, &err), SW_OK);
    assert_int_equal(sw_ws_check_request(sw_h1_msg(h1), &key, &err), SW_OK);
    assert_true(sw_slice_eq_str(sw_h1_msg(h1)->target, "/relay"));
    auth = sw_h1_field(sw_h1_msg(h1), "authorization");
    if (auth)
        (void)snprintf(rig->relay.token, sizeof(rig->relay.token), "%.*s", SW_SLICE_ARG(*auth));
    sw_ws_accept(key, accept);
    (void)snprintf(text, sizeof(text),
                   "HTTP/1.1 %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                   "Sec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: %s\r\n%s\r\n",
                   rig->relay.greet == HTTP_403 ? "403 Forbidden" : "101 Switching Protocols",
                   accept, rig->relay.greet == WRONG_VERSION ? "chat" : SW_RELAY_V2_NAME,
                   rig->relay.greet == HTTP_403 ? "Content-Length: 0\r\n" : "");
    sw_wsconn_put(ws, text, strlen(text));
    sw_wsconn_upgrade(ws);
    if (rig->relay.greet < HTTP_403)
        greet(ws);
    sw_h1_free(h1);
    return used;
}

static void on_message(struct sw_wsconn *ws, uint8_t *p, size_t n)
{
    struct sw_relay_frame f;
    struct sw_err err;
    static const uint8_t yes[1] = {SW_RELAY_CONFIRMED};

    assert_int_equal(sw_relay_parse(p, n, true, SW_RELAY_V2, &f, &err), SW_OK);
    if (f.type == SW_RELAY_AUTH) {
        rig->relay.proofs += sw_relay_answer_ok(f.id, challenge, f.p);
        say(ws, yes, 1);
    } else if (f.type == SW_RELAY_PING) {
        rig->relay.pings++;
        p[0] = SW_RELAY_PONG;
        if (rig->relay.answers_pings)
            say(ws, p, n);
    } else {
        rig->relay.frames++;
        rig->relay.bytes += f.n;
        memcpy(rig->relay.last, p, sw_min(n, sizeof(rig->relay.last)));
    }
}

static void on_end(struct sw_wsconn *ws, const struct sw_err *why)
{
    (void)why;
    if (rig->relay.ws == ws)
        rig->relay.ws = NULL;
}

static void on_free(struct sw_wsconn *ws)
{
    if (rig->relay.ws == ws)
        rig->relay.ws = NULL;
    sw_free(ws);
}

static const struct sw_wsconn_ops server_ops = {
    .on_bytes = on_bytes, .on_message = on_message, .on_end = on_end, .on_free = on_free};

static void on_accept(struct sw_watch *w, unsigned events)
{
    const struct sw_wsconn_opts o = {
        .ops = &server_ops, .message_max = SW_RELAY_MESSAGE_MAX, .stall_ms = 60000};
    struct sw_err err;
    int fd;

    (void)w;
    (void)events;
    while (sw_sock_accept(rig->relay.fd, &fd, NULL, &err) == SW_OK) {
        rig->relay.accepted++;
        rig->relay.ws = SW_NEW(struct sw_wsconn);
        assert_int_equal(sw_wsconn_init(rig->relay.ws, rig->loop, fd, &o, &err), SW_OK);
    }
}

/* ---- the client ---- */

static void on_packets(void *arg, const struct sw_nodeid *from, uint8_t ecn, uint8_t *p, size_t n,
                       size_t segment)
{
    struct rig *r = arg;

    (void)from;
    (void)ecn;
    (void)p;
    r->packets++;
    r->packet_bytes += n;
    r->segment = segment;
    if (r->free_in_packets) {
        sw_relay_client_free(r->client);
        r->client = NULL;
    }
}

static void on_state(void *arg, bool up, const char *why)
{
    struct rig *r = arg;

    (void)why;
    r->ups += up;
    r->downs += !up;
}

static void on_gone(void *arg, const struct sw_nodeid *id)
{
    (void)id;
    ((struct rig *)arg)->gone++;
}

static const struct sw_relay_client_ops ops = {
    .packets = on_packets, .state = on_state, .gone = on_gone};

static int set_up(void **state)
{
    static const struct sw_addr any = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_err err = {0};
    struct sw_addr at;

    now = 1000 * SW_NS_PER_S;
    rig = SW_NEW(struct rig);
    rig->loop = sw_loop_new(&err);
    sw_loop_set_clock(rig->loop, clock_now);
    sw_loop_turn(rig->loop, 0);
    rig->key = sw_rawkey_generate(&err);
    rig->relay.answers_pings = true;
    assert_int_equal(sw_sock_listen(&any, &so, &rig->relay.fd, &err), SW_OK);
    assert_int_equal(
        sw_watch_start_listener(rig->loop, &rig->relay.watch, rig->relay.fd, on_accept, &err),
        SW_OK);
    at = sw_sock_local(rig->relay.fd);
    (void)snprintf(rig->url, sizeof(rig->url), "http://127.0.0.1:%u/some/path?x", at.port);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    sw_relay_client_free(rig->client);
    if (rig->relay.ws)
        sw_wsconn_close(rig->relay.ws);
    for (int i = 0; i < 20; i++)
        sw_loop_turn(rig->loop, 0);
    sw_watch_stop(&rig->relay.watch);
    sw_sock_close(rig->relay.fd);
    sw_loop_free(rig->loop);
    sw_rawkey_free(rig->key);
    sw_free(rig);
    return 0;
}

static void open_client(enum greet how)
{
    struct sw_err err = {0};
    struct sw_relay_client_config c = {.url = sw_slice_str(rig->url),
                                       .key = rig->key,
                                       .token = SW_SLICE_LIT("sesame"),
                                       .ops = &ops,
                                       .arg = rig};

    rig->relay.greet = how;
    rig->client = sw_relay_client_new(rig->loop, &c, &err);
    assert_non_null(rig->client);
    now += SW_NS_PER_MS; /* it begins from the loop */
}

/* Turns until nothing happens any more; the kernel needs no time on the loopback. */
static void settle(void)
{
    for (int i = 0; i < 40; i++)
        sw_loop_turn(rig->loop, 0);
}

static void pass(uint64_t ms)
{
    now += ms * SW_NS_PER_MS;
    settle();
}

/* ---- tests ---- */

static void test_it_proves_its_key_and_pings_at_once(void **state)
{
    (void)state;
    open_client(CHALLENGE);
    settle();
    assert_true(sw_relay_client_up(rig->client));
    assert_int_equal(rig->ups, 1);
    assert_int_equal(rig->relay.proofs, 1);
    assert_int_equal(rig->relay.pings, 1);
    assert_string_equal(rig->relay.token, ""); /* not without TLS */
}

static void test_a_confirmation_without_challenge_is_enough(void **state)
{
    (void)state;
    open_client(CONFIRM);
    settle();
    assert_true(sw_relay_client_up(rig->client));
    assert_int_equal(rig->relay.proofs, 0);
}

static void test_refusals_are_tried_again_ever_more_slowly(void **state)
{
    static const enum greet ways[] = {DENY, HTTP_403, WRONG_VERSION};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(ways); i++) {
        unsigned before = rig->relay.accepted;

        open_client(ways[i]);
        settle();
        assert_false(sw_relay_client_up(rig->client));
        for (int k = 0; k < 200; k++)
            pass(20);
        /* 10, 20, 40 ... 2560 ms, each halved at the most: 4 s hold between 8 and 11 of them. */
        assert_in_range(rig->relay.accepted - before, 8, 12);
        sw_relay_client_free(rig->client);
        rig->client = NULL;
        settle();
    }
    assert_int_equal(rig->ups, 0);
}

static void test_packets_go_out_in_frames(void **state)
{
    static uint8_t data[60000];
    struct sw_nodeid to = {{7}};

    (void)state;
    open_client(CONFIRM);
    assert_int_equal(sw_relay_client_send(rig->client, &to, 0, data, 10, 0), SW_EAGAIN);
    settle();
    assert_int_equal(sw_relay_client_send(rig->client, &to, 3, data, 1200, 1200), SW_OK);
    settle();
    assert_int_equal(rig->relay.last[0], SW_RELAY_SEND);
    assert_int_equal(rig->relay.last[33], 3);
    assert_int_equal(sw_relay_client_send(rig->client, &to, 0, data, 50000, 1200), SW_OK);
    settle();
    assert_int_equal(rig->relay.last[0], SW_RELAY_SEND_BATCH);
    assert_int_equal(rig->relay.last[34] << 8 | rig->relay.last[35], 1200);
    assert_int_equal(rig->relay.frames, 2);
    assert_int_equal(rig->relay.bytes, 51200);
    assert_int_equal(sw_relay_client_last_used(rig->client), now);
}

static void test_the_queue_is_bounded(void **state)
{
    static uint8_t data[60000];
    struct sw_nodeid to = {{7}};
    int n = 0;

    (void)state;
    open_client(CONFIRM);
    settle();
    while (sw_relay_client_send(rig->client, &to, 0, data, sizeof(data), 1200) == SW_OK && n < 1000)
        n++;
    assert_in_range(n, 10, 40);
    settle();
    assert_int_equal(sw_relay_client_send(rig->client, &to, 0, data, sizeof(data), 1200), SW_OK);
}

static void test_packets_come_in_and_the_owner_may_free_it_there(void **state)
{
    uint8_t frame[200];
    struct sw_nodeid from = {{9}};

    (void)state;
    open_client(CONFIRM);
    settle();
    (void)sw_relay_put_datagram(frame, SW_RELAY_RECV_BATCH, &from, 1, 50);
    say(rig->relay.ws, frame, sizeof(frame));
    frame[0] = SW_RELAY_GONE;
    say(rig->relay.ws, frame, 33);
    settle();
    assert_int_equal(rig->packets, 1);
    assert_int_equal(rig->packet_bytes, sizeof(frame) - SW_RELAY_BATCH_HEAD);
    assert_int_equal(rig->segment, 50);
    assert_int_equal(rig->gone, 1);
    rig->free_in_packets = true;
    for (int i = 0; i < 3; i++) {
        (void)sw_relay_put_datagram(frame, SW_RELAY_RECV, &from, 0, 0);
        say(rig->relay.ws, frame, sizeof(frame));
    }
    settle();
    assert_int_equal(rig->packets, 2);
    assert_null(rig->client);
}

static void test_silence_is_noticed_and_answered_by_another_connection(void **state)
{
    (void)state;
    open_client(CONFIRM);
    settle();
    pass(14000);
    assert_int_equal(rig->relay.pings, 1);
    pass(1500);
    assert_int_equal(rig->relay.pings, 2);
    rig->relay.answers_pings = false;
    pass(15500);
    assert_int_equal(rig->relay.pings, 3);
    assert_true(sw_relay_client_up(rig->client));
    pass(600); /* three round trips, half a second at least */
    assert_int_equal(rig->downs, 1);
    pass(20);
    assert_int_equal(rig->relay.accepted, 2);
    assert_true(sw_relay_client_up(rig->client));
}

static void test_it_comes_back_at_once_after_use(void **state)
{
    (void)state;
    open_client(CONFIRM);
    settle();
    pass(2000);
    sw_wsconn_close(rig->relay.ws);
    settle();
    pass(1);
    assert_int_equal(rig->downs, 1);
    assert_int_equal(rig->ups, 2);
    assert_true(sw_relay_client_up(rig->client));
}

static void test_a_probe_pings(void **state)
{
    (void)state;
    open_client(CONFIRM);
    settle();
    sw_relay_client_probe(rig->client);
    settle();
    assert_int_equal(rig->relay.pings, 2);
}

static void test_nonsense_of_a_relay_ends_the_connection(void **state)
{
    static const uint8_t frames[][2] = {
        {SW_RELAY_SEND, 0}, {SW_RELAY_CONFIRMED, 0}, {42, 0}, {SW_RELAY_HEALTH, 'x'}};

    (void)state;
    open_client(CONFIRM);
    for (unsigned i = 0; i < SW_ARRAY_LEN(frames); i++) {
        settle();
        pass(5000);
        assert_true(sw_relay_client_up(rig->client));
        say(rig->relay.ws, frames[i], frames[i][0] == SW_RELAY_CONFIRMED ? 1 : 2);
        settle();
        assert_int_equal(rig->downs, i + 1);
    }
}

static void test_urls(void **state)
{
    static const struct {
        const char *url;
        bool ok;
    } cases[] = {
        {"http://relay.example./", true},
        {"ws://[::1]:3340/x", true},
        {"HTTP://relay.example:80", true},
        {"ftp://relay.example/", false},
        {"http://", false},
        {"http://user@relay.example/", false},
        {"http://relay.example:0/", false},
        {"http://relay.example:65536/", false},
        {"relay.example", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};
        struct sw_relay_client_config c = {
            .url = sw_slice_str(cases[i].url), .key = rig->key, .ops = &ops, .arg = rig};
        struct sw_relay_client *client = sw_relay_client_new(rig->loop, &c, &err);

        if (!client != !cases[i].ok)
            fail_msg("%s", cases[i].url);
        sw_relay_client_free(client);
    }
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_it_proves_its_key_and_pings_at_once),
        T(test_a_confirmation_without_challenge_is_enough),
        T(test_refusals_are_tried_again_ever_more_slowly),
        T(test_packets_go_out_in_frames),
        T(test_the_queue_is_bounded),
        T(test_packets_come_in_and_the_owner_may_free_it_there),
        T(test_silence_is_noticed_and_answered_by_another_connection),
        T(test_it_comes_back_at_once_after_use),
        T(test_a_probe_pings),
        T(test_nonsense_of_a_relay_ends_the_connection),
        T(test_urls),
    };
#undef T

    return cmocka_run_group_tests_name("relay client", tests, NULL, NULL);
}
