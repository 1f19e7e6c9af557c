/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workers of a relay on the test's thread and clock, and clients that speak bytes over socket
 * pairs: who is let in, who gets what, and how fast.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "quic/id/nodeid.h"
#include "relay/relay_int.h"

enum { WORKERS_MAX = 2 };

static uint64_t now_ns = 1000 * SW_NS_PER_S;

static uint64_t test_clock(void)
{
    return now_ns;
}

struct rig {
    struct sw_relay_config cfg;
    struct sw_relay relay;
    struct relay_worker workers[WORKERS_MAX];
};

/* A client, seen from outside. */
struct peer {
    struct rig *r;
    int fd;
    struct sw_rawkey *key;
    struct sw_ws ws;
    struct sw_buf in;
    uint8_t msg[SW_RELAY_MESSAGE_MAX]; /* the last one */
    size_t n;
    unsigned version;
    bool eof;
};

static void turn(struct rig *r)
{
    for (size_t i = 0; i < r->relay.n_workers; i++)
        sw_loop_turn(r->workers[i].loop, 0);
}

static void settle(struct rig *r)
{
    for (int i = 0; i < 30; i++)
        turn(r);
}

static void set_access(struct rig *r, const struct sw_relay_access_files *f)
{
    struct sw_err err = {0};

    for (size_t i = 0; i < r->relay.n_workers; i++) {
        struct sw_relay_access *a = sw_relay_access_load(f, &err);

        if (!a)
            fail_msg("%s", err.msg);
        relay_worker_send_access(&r->workers[i], a);
    }
    settle(r);
}

static struct rig *rig_new(const struct sw_relay_config *cfg, size_t n_workers)
{
    struct rig *r = SW_NEW(struct rig);
    struct sw_err err = {0};

    r->cfg = *cfg;
    r->cfg.max_clients = r->cfg.max_clients ? r->cfg.max_clients : 100;
    r->cfg.queue = r->cfg.queue ? r->cfg.queue : 100;
    r->cfg.write_timeout_ns = 10 * SW_NS_PER_S;
    r->cfg.establish_ns = 5 * SW_NS_PER_S;
    r->relay.config = &r->cfg;
    r->relay.process.loop = sw_loop_new(NULL);
    r->relay.process.metrics = sw_metrics_new(&(struct sw_metrics_opts){0});
    r->relay.workers = r->workers;
    sw_crew_init(&r->relay.process.crew, "relay", r->relay.process.loop);
    for (size_t i = 0; i < n_workers; i++) {
        struct relay_worker *w = &r->workers[i];

        r->relay.n_workers++;
        assert_int_equal(relay_worker_init(w, &r->relay, &err), SW_OK);
        sw_loop_set_clock(w->loop, test_clock);
        w->out = SW_NEW_ARRAY(struct relay_block *, n_workers);
        w->in_flight = sw_calloc(n_workers, sizeof(*w->in_flight));
    }
    set_access(r, &(struct sw_relay_access_files){0});
    return r;
}

static void rig_free(struct rig *r)
{
    for (size_t i = 0; i < r->relay.n_workers; i++) {
        SW_LIST_FOREACH (it, &r->workers[i].clients)
            relay_client_kill(SW_CONTAINER_OF(it, struct relay_client, link));
    }
    settle(r);
    sw_crew_end(&r->relay.process.crew);
    for (size_t i = 0; i < r->relay.n_workers; i++)
        relay_worker_stop(&r->workers[i]);
    for (size_t i = 0; i < r->relay.n_workers; i++)
        relay_worker_done(&r->workers[i]);
    sw_metrics_free(r->relay.process.metrics);
    sw_loop_free(r->relay.process.loop);
    sw_free(r);
}

/* A series of the metrics' text, 0 when it is not there. */
static unsigned long metric(struct rig *r, const char *series)
{
    SW_BUF_AUTO out = {.max = 1 << 20};
    SW_AUTO_FREE char *line = sw_asprintf("\n%s ", series);
    const char *at;

    assert_int_equal(sw_metrics_write(r->relay.process.metrics, SW_METRICS_PROMETHEUS, &out),
                     SW_OK);
    assert_int_equal(sw_buf_putc(&out, 0), SW_OK);
    at = strstr(sw_buf_data(&out), line);
    return at ? strtoul(at + strlen(line), NULL, 10) : 0;
}

/* ---- clients ---- */

static void say(struct peer *p, const void *bytes, size_t n)
{
    assert_int_equal(sw_sock_write(p->fd, bytes, n), n);
}

static void send_message(struct peer *p, const uint8_t *bytes, size_t n)
{
    static const uint8_t mask[4] = {1, 2, 3, 4};
    uint8_t frame[SW_WS_HEAD_MAX + SW_RELAY_MESSAGE_MAX];
    size_t head = sw_ws_put_head(frame, SW_WS_BINARY, n, mask);

    memcpy(frame + head, bytes, n);
    sw_ws_mask(frame + head, n, mask);
    say(p, frame, head + n);
}

static void take_bytes(struct peer *p)
{
    char buf[16384];
    ssize_t n;

    while ((n = sw_sock_read(p->fd, buf, sizeof(buf))) > 0)
        assert_int_equal(sw_buf_append(&p->in, buf, (size_t)n), SW_OK);
    p->eof = n != SW_EAGAIN;
}

/* The next message's type, or -1 - close code, or -1: nothing comes. */
static int next(struct peer *p)
{
    for (int i = 0; i < 100; i++) {
        struct sw_ws_event ev = {0};
        struct sw_err err = {0};
        size_t used = 0;
        int rc = sw_buf_len(&p->in) ? sw_ws_next(&p->ws, (uint8_t *)p->in.p + p->in.off,
                                                 sw_buf_len(&p->in), &used, &ev, &err)
                                    : SW_EAGAIN;

        if (rc == SW_OK) {
            int type = ev.op == SW_WS_CLOSE ? -1 - ev.code : -1;

            p->n = ev.n;
            if (ev.n)
                memcpy(p->msg, ev.p, ev.n);
            sw_buf_consume(&p->in, used);
            if (ev.op == SW_WS_BINARY)
                type = p->msg[0];
            return type;
        }
        assert_int_equal(rc, SW_EAGAIN);
        turn(p->r);
        take_bytes(p);
    }
    return -1;
}

static void expect_at(struct peer *p, int type, int line)
{
    int got = next(p);

    if (got != type)
        fail_msg("line %d: %d instead of %d", line, got, type);
}
#define expect(p, type) expect_at(p, type, __LINE__)

static const char *head_end(const struct peer *p)
{
    struct sw_slice in = sw_buf_slice(&p->in);
    const char *end = in.n ? memmem(in.p, in.n, "\r\n\r\n", 4) : NULL;

    return end ? end + 4 : NULL;
}

static struct peer *peer_connect(struct rig *r, size_t worker, const char *extra, unsigned version)
{
    struct peer *p = SW_NEW(struct peer);
    const struct sw_addr at = {.ip = {.family = 4, .b = {192, 0, 2, 1}}, .port = 7};
    SW_AUTO_FREE char *head = sw_asprintf(
        "GET /relay%s HTTP/1.1\r\nHost: relay\r\nConnection: Upgrade\r\nUpgrade: "
        "websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
        "AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Protocol: %s\r\n%s\r\n",
        *extra == '?' ? extra : "", version == SW_RELAY_V1 ? SW_RELAY_V1_NAME : SW_RELAY_V2_NAME,
        *extra == '?' ? "" : extra);
    const char *end = NULL;
    int fds[2];

    p->r = r;
    p->version = version;
    sw_ws_init(&p->ws, true, SW_RELAY_MESSAGE_MAX);
    sw_buf_init(&p->in, 64 << 20);
    p->key = sw_rawkey_generate(NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    p->fd = fds[0];
    (void)atomic_fetch_add(&r->workers[worker].relay->n_clients, 1);
    assert_true(relay_client_start(&r->workers[worker], fds[1], &at, false));
    say(p, head, strlen(head));
    for (int i = 0; i < 100 && !(end = head_end(p)); i++) {
        turn(r);
        take_bytes(p);
    }
    assert_non_null(end);
    assert_memory_equal(sw_buf_data(&p->in), "HTTP/1.1 101", 12);
    sw_buf_consume(&p->in, (size_t)(end - sw_buf_data(&p->in)));
    return p;
}

/* Answers the challenge; 'spoil' changes the signature. */
static void prove(struct peer *p, bool spoil)
{
    uint8_t auth[SW_RELAY_AUTH_LEN];
    uint8_t sig[SW_ED25519_SIG];

    expect(p, SW_RELAY_CHALLENGE);
    assert_int_equal(sw_relay_answer(p->key, p->msg + 1, sig, NULL), SW_OK);
    sig[5] ^= spoil;
    send_message(p, auth, sw_relay_put_auth(auth, sw_rawkey_id(p->key), sig));
}

static struct peer *peer_new(struct rig *r, size_t worker)
{
    struct peer *p = peer_connect(r, worker, "", SW_RELAY_V2);

    prove(p, false);
    expect(p, SW_RELAY_CONFIRMED);
    return p;
}

static void peer_close(struct peer *p)
{
    sw_sock_close(p->fd);
    p->fd = -1;
    settle(p->r);
}

static void peer_free(struct peer *p)
{
    if (p->fd >= 0)
        peer_close(p);
    sw_ws_done(&p->ws);
    sw_buf_done(&p->in);
    sw_rawkey_free(p->key);
    sw_free(p);
}

static void send_datagram(struct peer *p, const struct sw_nodeid *to, enum sw_relay_type type,
                          const char *text)
{
    uint8_t msg[SW_RELAY_BATCH_HEAD + 4096];
    size_t n = sw_relay_put_datagram(msg, type, to, 2, 7);

    memcpy(msg + n, text, strlen(text));
    send_message(p, msg, n + strlen(text));
}

static void expect_datagram_at(struct peer *p, const struct peer *from, enum sw_relay_type type,
                               const char *text, int line)
{
    struct sw_relay_frame f;
    struct sw_err err = {0};

    expect_at(p, (int)type, line);
    assert_int_equal(sw_relay_parse(p->msg, p->n, false, p->version, &f, &err), SW_OK);
    assert_true(sw_nodeid_eq(f.id, sw_rawkey_id(from->key)));
    assert_int_equal(f.ecn, 2);
    assert_int_equal(f.segment, type == SW_RELAY_RECV_BATCH ? 7 : 0);
    assert_int_equal(f.n, strlen(text));
    assert_memory_equal(f.p, text, f.n);
}
#define expect_datagram(p, from, type, text) expect_datagram_at(p, from, type, text, __LINE__)

static const struct sw_nodeid *id_of(const struct peer *p)
{
    return sw_rawkey_id(p->key);
}

/* ---- access ---- */

static char list_path[] = "/tmp/spanwire-relay-XXXXXX";

static const char *list_of(const char *text)
{
    FILE *f = fopen(list_path, "we");

    assert_non_null(f);
    (void)fputs(text, f);
    (void)fclose(f);
    return list_path;
}

static const char *list_of_id(const struct peer *p)
{
    char text[SW_NODEID_HEX];

    return list_of(sw_nodeid_hex(id_of(p), text));
}

static void expect_denied_at(struct peer *p, const char *reason, int line)
{
    expect_at(p, SW_RELAY_DENIED, line);
    if (!memmem(p->msg, p->n, reason, strlen(reason)))
        fail_msg("line %d: %.*s", line, (int)p->n, (const char *)p->msg);
    expect_at(p, -1 - SW_WS_POLICY, line);
}
#define expect_denied(p, reason) expect_denied_at(p, reason, __LINE__)

static void a_key_is_proved_before_it_is_served(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);
    struct peer *p = peer_connect(r, 0, "", SW_RELAY_V2);
    struct peer *early;

    (void)state;
    assert_null(relay_table_get(&r->workers[0], id_of(p)));
    prove(p, true);
    expect_denied(p, "signature invalid");
    assert_null(relay_table_get(&r->workers[0], id_of(p)));
    /* A datagram in place of the proof. */
    early = peer_connect(r, 0, "", SW_RELAY_V2);
    expect(early, SW_RELAY_CHALLENGE);
    send_datagram(early, id_of(p), SW_RELAY_SEND, "x");
    expect(early, -1 - SW_WS_PROTOCOL_ERROR);
    assert_int_equal(r->workers[0].ids.n, 0);
    peer_free(early);
    peer_free(p);
    rig_free(r);
}

static void who_does_not_answer_the_challenge_is_dropped(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);
    struct peer *p = peer_connect(r, 0, "", SW_RELAY_V2);

    (void)state;
    expect(p, SW_RELAY_CHALLENGE);
    now_ns += 5 * SW_NS_PER_S - SW_NS_PER_MS;
    settle(r);
    expect(p, -1);
    now_ns += 2 * SW_NS_PER_MS;
    expect(p, -1 - SW_WS_POLICY);
    peer_free(p);
    rig_free(r);
}

static void lists_decide_who_comes_in_and_who_stays(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);
    struct peer *a = peer_new(r, 0);
    struct peer *b = peer_new(r, 0);
    struct peer *late;

    (void)state;
    set_access(r, &(struct sw_relay_access_files){.deny = list_of_id(a)});
    expect(a, -1 - SW_WS_POLICY);
    assert_null(relay_table_get(&r->workers[0], id_of(a)));
    assert_non_null(relay_table_get(&r->workers[0], id_of(b)));
    set_access(r, &(struct sw_relay_access_files){.allow = list_of_id(b)});
    expect(b, -1);
    assert_non_null(relay_table_get(&r->workers[0], id_of(b)));
    late = peer_connect(r, 0, "", SW_RELAY_V2);
    prove(late, false);
    expect_denied(late, "id is not allowed");
    peer_free(late);
    peer_free(b);
    peer_free(a);
    rig_free(r);
}

static void a_token_may_be_needed(void **state)
{
    static const struct {
        const char *extra;
        bool ok;
    } cases[] = {
        {"", false},
        {"Authorization: Bearer secret\r\n", true},
        {"Authorization: bearer secret \r\n", true},
        {"Authorization: Bearer secre\r\n", false},
        {"Authorization: Basic secret\r\n", false},
        {"?token=secret", true},
        {"?token=%73ecret", true},
        {"?token=other", false},
        {"?tokens=secret", false},
    };
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);

    (void)state;
    set_access(r, &(struct sw_relay_access_files){.tokens = list_of("secret\n")});
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct peer *p = peer_connect(r, 0, cases[i].extra, SW_RELAY_V2);

        prove(p, false);
        if (cases[i].ok)
            expect(p, SW_RELAY_CONFIRMED);
        else
            expect_denied(p, "not authorized");
        peer_free(p);
    }
    rig_free(r);
}

/* ---- the table ---- */

static void datagrams_reach_their_id(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);
    struct peer *a = peer_new(r, 0);
    struct peer *b = peer_new(r, 0);
    struct peer *c = peer_new(r, 0);
    static const struct sw_nodeid nobody = {{9}};

    (void)state;
    send_datagram(a, id_of(b), SW_RELAY_SEND, "one");
    expect_datagram(b, a, SW_RELAY_RECV, "one");
    send_datagram(a, id_of(c), SW_RELAY_SEND_BATCH, "several");
    expect_datagram(c, a, SW_RELAY_RECV_BATCH, "several");
    send_datagram(b, id_of(b), SW_RELAY_SEND, "to myself");
    expect_datagram(b, b, SW_RELAY_RECV, "to myself");
    send_datagram(a, &nobody, SW_RELAY_SEND, "lost");
    expect(a, -1);
    expect(b, -1);
    expect(c, -1);
    assert_int_equal(metric(r, "spanwire_relay_send_packets_dropped_total{reason=\"unknown\"}"), 1);
    peer_free(a);
    peer_free(b);
    peer_free(c);
    rig_free(r);
}

static void workers_pass_packets_to_each_other(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 2);
    struct peer *p[8];
    unsigned homes[2] = {0};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(p); i++) { /* accepted by 0; some move */
        unsigned home;

        p[i] = peer_new(r, 0);
        home = relay_home(&r->relay, id_of(p[i]));
        homes[home]++;
        assert_non_null(relay_table_get(&r->workers[home], id_of(p[i])));
        assert_null(relay_table_get(&r->workers[1 - home], id_of(p[i])));
    }
    assert_int_equal(r->workers[0].n_clients, homes[0]);
    assert_int_equal(r->workers[1].n_clients, homes[1]);
    for (size_t i = 0; i < SW_ARRAY_LEN(p); i++) {
        for (size_t k = 0; k < SW_ARRAY_LEN(p); k++) {
            send_datagram(p[i], id_of(p[k]), SW_RELAY_SEND, "across");
            expect_datagram(p[k], p[i], SW_RELAY_RECV, "across");
        }
    }
    peer_close(p[0]);
    for (size_t i = 1; i < SW_ARRAY_LEN(p); i++) {
        expect(p[i], SW_RELAY_GONE);
        assert_memory_equal(p[i]->msg + 1, id_of(p[0])->b, SW_NODEID_LEN);
    }
    for (size_t i = 0; i < SW_ARRAY_LEN(p); i++)
        peer_free(p[i]);
    rig_free(r);
}

static void only_those_it_sent_to_hear_that_it_went(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);
    struct peer *a = peer_new(r, 0);
    struct peer *b[9];
    struct peer *c = peer_new(r, 0);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(b); i++) { /* the set grows on the way */
        b[i] = peer_new(r, 0);
        for (int k = 0; k < 2; k++) {
            send_datagram(a, id_of(b[i]), SW_RELAY_SEND, "x");
            expect_datagram(b[i], a, SW_RELAY_RECV, "x");
        }
    }
    send_datagram(c, id_of(a), SW_RELAY_SEND, "y");
    expect_datagram(a, c, SW_RELAY_RECV, "y");
    assert_int_equal(relay_table_get(&r->workers[0], id_of(a))->sent_n, SW_ARRAY_LEN(b));
    peer_close(a);
    for (size_t i = 0; i < SW_ARRAY_LEN(b); i++) {
        expect(b[i], SW_RELAY_GONE);
        assert_memory_equal(b[i]->msg + 1, id_of(a)->b, SW_NODEID_LEN);
        expect(b[i], -1); /* once */
    }
    expect(c, -1);
    for (size_t i = 0; i < SW_ARRAY_LEN(b); i++)
        peer_free(b[i]);
    assert_int_equal(metric(r, "spanwire_relay_send_packets_dropped_total{reason=\"unknown\"}"), 0);
    peer_free(c);
    peer_free(a);
    assert_int_equal(r->workers[0].sent_slots, 0);
    assert_int_equal(r->workers[0].ids.n, 0);
    rig_free(r);
}

/* ---- one id, several connections ---- */

static struct peer *peer_again(const struct peer *p, unsigned version)
{
    struct peer *q = peer_connect(p->r, 0, "", version);

    sw_rawkey_free(q->key);
    q->key = sw_rawkey_from_seed(sw_rawkey_seed(p->key), NULL);
    prove(q, false);
    expect(q, SW_RELAY_CONFIRMED);
    return q;
}

static void the_newest_connection_of_an_id_gets_its_packets(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);
    struct peer *a = peer_new(r, 0);
    struct peer *old = peer_new(r, 0);
    struct peer *young = peer_again(old, SW_RELAY_V2);

    (void)state;
    expect(old, SW_RELAY_STATUS);
    assert_int_equal(old->msg[1], SW_RELAY_SAME_ID);
    send_datagram(a, id_of(old), SW_RELAY_SEND, "to the newest");
    expect_datagram(young, a, SW_RELAY_RECV, "to the newest");
    expect(old, -1);
    /* Sent by either, it is the same id. */
    send_datagram(old, id_of(a), SW_RELAY_SEND, "hello");
    expect_datagram(a, young, SW_RELAY_RECV, "hello");
    peer_close(young);
    expect(old, SW_RELAY_STATUS);
    assert_int_equal(old->msg[1], SW_RELAY_HEALTHY);
    expect(a, -1); /* the id is still here */
    send_datagram(a, id_of(old), SW_RELAY_SEND, "to the older one");
    expect_datagram(old, a, SW_RELAY_RECV, "to the older one");
    peer_free(young);
    /* One that is not active goes without a word to the one that is. */
    young = peer_again(old, SW_RELAY_V1);
    expect(old, SW_RELAY_STATUS);
    peer_close(old);
    expect(young, -1);
    send_datagram(a, id_of(old), SW_RELAY_SEND, "still there");
    expect_datagram(young, a, SW_RELAY_RECV, "still there");
    peer_close(young);
    expect(a, SW_RELAY_GONE);
    peer_free(young);
    peer_free(old);
    peer_free(a);
    rig_free(r);
}

/* ---- limits ---- */

static void packets_for_a_full_queue_are_dropped(void **state)
{
    static char big[4000];
    struct rig *r = rig_new(&(struct sw_relay_config){.queue = 4}, 1);
    struct peer *a = peer_new(r, 0);
    struct peer *b = peer_new(r, 0);
    struct relay_client *at_b;
    unsigned long dropped = 0;

    (void)state;
    memset(big, 'x', sizeof(big) - 1);
    at_b = SW_CONTAINER_OF(relay_table_get(&r->workers[0], id_of(b))->clients.next,
                           struct relay_client, same);
    for (int i = 0; i < 1000 && dropped == 0; i++) { /* b reads nothing */
        send_datagram(a, id_of(b), SW_RELAY_SEND, big);
        settle(r);
        dropped = metric(r, "spanwire_relay_send_packets_dropped_total{reason=\"queue\"}");
        assert_true(sw_wsconn_queued(&at_b->ws) <= 4);
    }
    assert_int_equal(dropped, 1);
    assert_int_equal(sw_wsconn_queued(&at_b->ws), 4);
    /* What waited arrives, and the next one too. */
    while (next(b) == SW_RELAY_RECV)
        ;
    send_datagram(a, id_of(b), SW_RELAY_SEND, "again");
    expect_datagram(b, a, SW_RELAY_RECV, "again");
    peer_free(a);
    peer_free(b);
    rig_free(r);
}

static void a_client_beyond_its_rate_waits(void **state)
{
    static char text[1000];
    struct rig *r = rig_new(&(struct sw_relay_config){.rate = 10000, .burst = 5000}, 1);
    struct peer *a = peer_new(r, 0);
    struct peer *b = peer_new(r, 0);

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < 5; i++) { /* 1.04 kB each: the fifth is beyond the burst */
        send_datagram(a, id_of(b), SW_RELAY_SEND, text);
        expect_datagram(b, a, SW_RELAY_RECV, text);
    }
    expect(a, SW_RELAY_STATUS);
    assert_int_equal(a->msg[1], SW_RELAY_RATE_LIMITED);
    send_datagram(a, id_of(b), SW_RELAY_SEND, text);
    settle(r);
    expect(b, -1); /* not read */
    assert_int_equal(metric(r, "spanwire_relay_conns_rx_ratelimited_total"), 1);
    /* 5.2 kB were read of 5 kB: the rest is paid with 20 ms and one more. */
    now_ns += 10 * SW_NS_PER_MS;
    settle(r);
    expect(b, -1);
    now_ns += 100 * SW_NS_PER_MS;
    settle(r);
    expect_datagram(b, a, SW_RELAY_RECV, text);
    /* It is told once. */
    for (int i = 0; i < 5; i++)
        send_datagram(a, id_of(b), SW_RELAY_SEND, text);
    for (int i = 0; i < 50; i++) {
        now_ns += 50 * SW_NS_PER_MS;
        settle(r);
    }
    for (int i = 0; i < 5; i++)
        expect_datagram(b, a, SW_RELAY_RECV, text);
    expect(a, -1);
    /* Who rests saves no more than the burst. */
    now_ns += 10 * SW_NS_PER_S;
    settle(r);
    for (int i = 0; i < 5; i++) {
        send_datagram(a, id_of(b), SW_RELAY_SEND, text);
        expect_datagram(b, a, SW_RELAY_RECV, text);
    }
    send_datagram(a, id_of(b), SW_RELAY_SEND, text);
    expect(b, -1);
    peer_free(a);
    peer_free(b);
    rig_free(r);
}

/* The bytes of 'n' datagrams from each of two connections of one key, and the time they took. */
static uint64_t time_of_two(struct rig *r, struct peer *one, struct peer *two, struct peer *to,
                            int n, const char *text)
{
    uint64_t began = now_ns;
    int got = 0;

    for (int i = 0; i < n; i++) {
        send_datagram(one, id_of(to), SW_RELAY_SEND, text);
        send_datagram(two, id_of(to), SW_RELAY_SEND, text);
    }
    while (got < 2 * n) {
        settle(r);
        while (next(to) == SW_RELAY_RECV)
            got++;
        now_ns += 10 * SW_NS_PER_MS;
        assert_true(now_ns - began < 60 * SW_NS_PER_S);
    }
    return now_ns - began;
}

static void connections_of_one_key_share_its_rate(void **state)
{
    static char text[1000];
    struct rig *r = rig_new(&(struct sw_relay_config){.rate = 10000, .burst = 5000}, 1);
    struct peer *one = peer_new(r, 0);
    struct peer *two = peer_connect(r, 0, "", SW_RELAY_V2);
    struct peer *b = peer_new(r, 0);
    struct sw_rawkey *own = two->key;
    uint64_t took;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    two->key = one->key;
    prove(two, false);
    expect(two, SW_RELAY_CONFIRMED);
    /* 31 kB, 5 of them at once and one more per connection before it waits. */
    took = time_of_two(r, one, two, b, 15, text);
    assert_in_range(took, 2 * SW_NS_PER_S, 3 * SW_NS_PER_S);
    /* What it owes is not forgiven when all of its connections end. */
    now_ns += 10 * SW_NS_PER_S;
    settle(r);
    for (int i = 0; i < 5; i++)
        send_datagram(one, id_of(b), SW_RELAY_SEND, text);
    for (int i = 0; i < 5; i++)
        expect(b, SW_RELAY_RECV);
    two->key = own;
    peer_free(two);
    peer_close(one);
    now_ns += 30 * SW_NS_PER_MS; /* one that waits is not read: its end shows later */
    expect(b, SW_RELAY_GONE);
    now_ns += 90 * SW_NS_PER_MS; /* 1 kB, for the proof and less than a datagram */
    two = peer_connect(r, 0, "", SW_RELAY_V2);
    own = two->key;
    two->key = one->key;
    prove(two, false);
    expect(two, SW_RELAY_CONFIRMED);
    send_datagram(two, id_of(b), SW_RELAY_SEND, text);
    expect(b, SW_RELAY_RECV);
    expect(two, SW_RELAY_STATUS);
    assert_int_equal(two->msg[1], SW_RELAY_RATE_LIMITED);
    two->key = own;
    peer_free(two);
    peer_free(one);
    peer_free(b);
    rig_free(r);
}

static void silence_is_asked_about_and_then_ended(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);
    struct peer *a = peer_new(r, 0);
    uint8_t pong[1 + SW_RELAY_PING_LEN] = {SW_RELAY_PONG};

    (void)state;
    for (int i = 0; i < 3; i++) {
        now_ns += 21 * SW_NS_PER_S;
        settle(r);
        expect(a, SW_RELAY_PING);
        memcpy(pong + 1, a->msg + 1, SW_RELAY_PING_LEN);
        send_message(a, pong, sizeof(pong));
        settle(r);
        now_ns += 6 * SW_NS_PER_S;
        settle(r);
        assert_non_null(relay_table_get(&r->workers[0], id_of(a)));
    }
    /* Another message in place of the answer is a sign of life, too. */
    now_ns += 21 * SW_NS_PER_S;
    settle(r);
    expect(a, SW_RELAY_PING);
    send_datagram(a, id_of(a), SW_RELAY_SEND, "alive");
    settle(r);
    now_ns += 4 * SW_NS_PER_S;
    send_datagram(a, id_of(a), SW_RELAY_SEND, "alive");
    settle(r);
    now_ns += 2 * SW_NS_PER_S;
    settle(r);
    assert_non_null(relay_table_get(&r->workers[0], id_of(a)));
    while (next(a) != -1)
        continue;
    now_ns += 21 * SW_NS_PER_S;
    settle(r);
    expect(a, SW_RELAY_PING);
    now_ns += 6 * SW_NS_PER_S;
    settle(r);
    assert_null(relay_table_get(&r->workers[0], id_of(a)));
    peer_free(a);
    rig_free(r);
}

static void draining_tells_clients_to_go(void **state)
{
    struct rig *r = rig_new(&(struct sw_relay_config){0}, 1);
    struct peer *a = peer_new(r, 0);

    (void)state;
    SW_LIST_FOREACH (it, &r->workers[0].clients)
        relay_client_drain(SW_CONTAINER_OF(it, struct relay_client, link));
    expect(a, SW_RELAY_RESTARTING);
    expect(a, -1 - SW_WS_GOING_AWAY);
    assert_null(relay_table_get(&r->workers[0], id_of(a)));
    peer_free(a);
    rig_free(r);
}

static int group_setup(void **state)
{
    int fd = mkstemp(list_path);

    (void)state;
    (void)close(fd);
    return fd >= 0 && sw_log_filter(SW_SLICE_LIT("off"), true, NULL) == SW_OK ? 0 : -1;
}

static int group_teardown(void **state)
{
    (void)state;
    return unlink(list_path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_proved_before_it_is_served),
        cmocka_unit_test(who_does_not_answer_the_challenge_is_dropped),
        cmocka_unit_test(lists_decide_who_comes_in_and_who_stays),
        cmocka_unit_test(a_token_may_be_needed),
        cmocka_unit_test(datagrams_reach_their_id),
        cmocka_unit_test(workers_pass_packets_to_each_other),
        cmocka_unit_test(only_those_it_sent_to_hear_that_it_went),
        cmocka_unit_test(the_newest_connection_of_an_id_gets_its_packets),
        cmocka_unit_test(packets_for_a_full_queue_are_dropped),
        cmocka_unit_test(a_client_beyond_its_rate_waits),
        cmocka_unit_test(connections_of_one_key_share_its_rate),
        cmocka_unit_test(silence_is_asked_about_and_then_ended),
        cmocka_unit_test(draining_tells_clients_to_go),
    };

    return cmocka_run_group_tests_name("relay", tests, group_setup, group_teardown);
}
