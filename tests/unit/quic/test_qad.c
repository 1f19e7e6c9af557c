/* SPDX-License-Identifier: Apache-2.0 */
/* Address discovery: server and client of one process, on loopback and a clock of our own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

#include "bare.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/dgram.h"
#include "io/sock.h"
#include "quic/qad/qad_int.h"
#include "quic/wire/frames.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/cert/x509.h"

struct rig {
    struct sw_loop *loop;
    struct sw_ca *ca;
    struct sw_tls_cred *roots;
    uint8_t pin[SW_QAD_PIN];
    struct sw_qad_server *server;
    struct sw_addr at;
    size_t events[SW_QAD_REFUSED + 1];
    char why[200]; /* of the last refusal or failure */

    struct sw_qad_client *client;
    struct sw_watch watch;
    int fd; /* the endpoint's socket */
    unsigned observed;
    struct sw_addr seen;
    unsigned ended;
    char end_why[200];
    bool free_when_told;
    unsigned lose; /* datagrams of the client that get lost next */
    unsigned lose_in;
};

/* What is forged in packets, see below. */
static struct {
    const uint8_t (*ids)[2]; /* sequence numbers and Retire Prior To of the next three IDs */
    size_t n_ids;
    bool report_first;     /* of a server: they come behind its report */
    const uint8_t *frames; /* of the client's next PING, with PADDING behind */
    size_t n_frames;
    size_t grown;   /* by so much is it longer */
    bool flip;      /* and the lowest bit of its number */
    uint8_t number; /* lowest byte of that */
    uint8_t other;  /* of the last packet that was not forged */
    bool swap;
    unsigned n_sent;
    uint8_t held[1200];
    size_t n_held;
} forge;

static uint64_t now;

static uint64_t clock_now(void)
{
    return now;
}

/* ---- the server ---- */

static void on_event(void *arg, enum sw_qad_event e, const char *why)
{
    struct rig *r = arg;

    r->events[e]++;
    if (why[0])
        (void)snprintf(r->why, sizeof(r->why), "%s", why);
}

static void make_cred(struct rig *r, const char *name)
{
    static const char *sans[2];
    SW_BUF_AUTO chain;
    SW_BUF_AUTO key;
    const struct sw_tls_cert_info *info;
    struct sw_tls_cred *cred;
    struct sw_err err = {0};

    sans[0] = name;
    sw_buf_init(&chain, 65536);
    sw_buf_init(&key, 65536);
    assert_int_equal(
        sw_ca_issue_web(r->ca,
                        &(struct sw_ca_web){.cn = name, .sans = sans, .server = true, .ttl_s = 600},
                        &chain, &key, &err),
        SW_OK);
    cred = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){.chain = sw_slice(sw_buf_data(&chain), sw_buf_len(&chain)),
                                  .key = sw_slice(sw_buf_data(&key), sw_buf_len(&key)),
                                  .any_identity = true,
                                  .trust_nobody = true},
        &err);
    assert_non_null(cred);
    assert_int_equal(sw_tls_cred_chain(cred, &info), 1);
    assert_int_equal(sw_qad_pin(cred, r->pin, &err), SW_OK);
    sw_qad_server_set_cred(r->server, cred);
}

static void rig_start(struct rig *r, const char *listen, const struct sw_qad_server_config *cfg)
{
    struct sw_qad_server_config c = cfg ? *cfg : (struct sw_qad_server_config){0};
    struct sw_err err = {0};

    *r = (struct rig){.fd = -1};
    now = 1000 * SW_NS_PER_S;
    r->loop = sw_loop_new(&err);
    assert_non_null(r->loop);
    sw_loop_set_clock(r->loop, clock_now);
    r->ca = sw_ca_new(SW_SLICE_LIT("t"), 0, &err);
    r->roots = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){.roots = sw_ca_root_pem(r->ca), .any_identity = true}, &err);
    assert_non_null(r->roots);
    assert_int_equal(sw_addr_parse(sw_slice_str(listen), &c.listen, &err), SW_OK);
    c.event = on_event;
    c.arg = r;
    r->server = sw_qad_server_new(r->loop, &c, &err);
    assert_non_null(r->server);
    r->at = sw_qad_server_bound(r->server);
    make_cred(r, "relay.test");
}

static void close_socket(struct rig *r)
{
    if (r->fd < 0)
        return;
    sw_watch_stop(&r->watch);
    sw_sock_close(r->fd);
    r->fd = -1;
}

static void rig_stop(struct rig *r)
{
    sw_qad_client_free(r->client);
    sw_qad_server_free(r->server);
    close_socket(r);
    (void)sw_tls_cred_unref(r->roots);
    sw_ca_free(r->ca);
    sw_loop_free(r->loop);
}

/* ---- the endpoint ---- */

static void on_send(void *arg, const struct sw_addr *to, const uint8_t *p, size_t n)
{
    struct rig *r = arg;

    if (r->lose) {
        r->lose--;
        return;
    }
    /* What ends the handshake, after the next one. */
    if (forge.swap && (p[0] & 0x80) && forge.n_sent++ > 0) {
        memcpy(forge.held, p, n);
        forge.n_held = n;
        return;
    }
    assert_int_equal(sw_dgram_send(r->fd, p, n + forge.grown, to), SW_OK);
    if (forge.n_held)
        assert_int_equal(sw_dgram_send(r->fd, forge.held, forge.n_held, to), SW_OK);
    forge.grown = forge.n_held = 0;
}

static void on_observed(void *arg, const struct sw_addr *at)
{
    struct rig *r = arg;

    r->observed++;
    r->seen = *at;
    if (r->free_when_told) {
        sw_qad_client_free(r->client);
        r->client = NULL;
    }
}

static void on_ended(void *arg, const char *why)
{
    struct rig *r = arg;

    r->ended++;
    (void)snprintf(r->end_why, sizeof(r->end_why), "%s", why);
    if (r->free_when_told) {
        sw_qad_client_free(r->client);
        r->client = NULL;
    }
}

static const struct sw_qad_client_ops client_ops = {
    .send = on_send, .observed = on_observed, .ended = on_ended};

static void on_socket(struct sw_watch *w, unsigned events)
{
    struct rig *r = SW_CONTAINER_OF(w, struct rig, watch);
    uint8_t buf[2000];
    struct sw_addr from;
    ssize_t n;

    while ((n = sw_dgram_recv(r->fd, buf, sizeof(buf), &from)) > 0) {
        if (r->lose_in) {
            r->lose_in--;
            continue;
        }
        if (r->client)
            (void)sw_qad_client_packet(r->client, &from, buf, (size_t)n);
    }
}

static void open_socket(struct rig *r, const char *at)
{
    struct sw_addr a;
    struct sw_err err = {0};

    assert_int_equal(sw_addr_parse(sw_slice_str(at), &a, &err), SW_OK);
    assert_int_equal(sw_dgram_bind(&a, NULL, &r->fd, &err), SW_OK);
    assert_int_equal(sw_watch_start(r->loop, &r->watch, r->fd, on_socket, &err), SW_OK);
}

static void connect_with(struct rig *r, const char *host, const uint8_t *pin)
{
    struct sw_err err = {0};

    if (r->fd < 0)
        open_socket(r, r->at.ip.family == 6 ? "[::1]:0" : "127.0.0.1:0");
    r->client = sw_qad_client_new(r->loop,
                                  &(struct sw_qad_client_config){.relay = r->at,
                                                                 .host = host,
                                                                 .cred = pin ? NULL : r->roots,
                                                                 .pin = pin,
                                                                 .ops = &client_ops,
                                                                 .arg = r},
                                  &err);
    assert_non_null(r->client);
}

/* Turns the loop, a millisecond of its clock each, until *n is at least want. */
static bool turn_until(struct rig *r, const unsigned *n, unsigned want, unsigned ms)
{
    for (unsigned i = 0; i < ms && *n < want; i++) {
        sw_loop_turn(r->loop, 0);
        sw_loop_turn(r->loop, 0);
        now += SW_NS_PER_MS;
    }
    return *n >= want;
}

static void turn(struct rig *r, unsigned ms)
{
    unsigned never = 0;

    (void)turn_until(r, &never, 1, ms);
}

/* ---- forged packets: the linker leads what seals them here ---- */

__typeof__(ngtcp2_crypto_encrypt_cb) __real_ngtcp2_crypto_encrypt_cb;
__typeof__(ngtcp2_crypto_encrypt_cb) __wrap_ngtcp2_crypto_encrypt_cb;

static void forge_ids(uint8_t *p, size_t n)
{
    struct sw_qreader r = {.p = p, .n = n};

    for (size_t k = 0; r.at < r.n;) {
        size_t from = r.at;
        uint64_t type;

        if (!sw_qread_varint(&r, &type) || !sw_qread_skip_frame(&r, type))
            return;
        if (type != 0x18 || k == forge.n_ids)
            continue;
        memcpy(p + from + 1, forge.ids[k++], 2);
    }
}

/* A server's first packet: three IDs, HANDSHAKE_DONE, the report. */
static void put_report_first(uint8_t *p, size_t n)
{
    enum { IDS = 3 * 28 };
    uint8_t ids[IDS];

    if (n <= IDS + 1 || p[0] != 0x18 || p[IDS + 1] != 0x80)
        return;
    memcpy(ids, p, IDS);
    memmove(p, p + IDS, n - IDS);
    memcpy(p + n - IDS, ids, IDS);
    forge.report_first = false;
}

int __wrap_ngtcp2_crypto_encrypt_cb(uint8_t *out, const ngtcp2_crypto_aead *aead,
                                    const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *p, size_t n,
                                    const uint8_t *nonce, size_t nonce_n, const uint8_t *aad,
                                    size_t aad_n)
{
    uint8_t copy[2000];
    uint8_t number[12];
    union {
        const uint8_t *in;
        uint8_t *out;
    } head = {.in = aad}; /* lies in the packet, and is still to be masked */

    memcpy(copy, p, n);
    memcpy(number, nonce, sizeof(number));
    if (!(aad[0] & 0x80)) {
        forge.other = aad[aad_n - 1];
        if (forge.n_ids)
            forge_ids(copy, n);
        if (forge.report_first)
            put_report_first(copy, n);
        if (forge.n_frames) {
            forge.number = aad[aad_n - 1];
            forge.grown = n < forge.n_frames ? forge.n_frames - n : 0;
            n += forge.grown;
            memset(copy, 0, n);
            memcpy(copy, forge.frames, forge.n_frames);
            forge.n_frames = 0;
        }
        number[11] ^= forge.flip;
        head.out[aad_n - 1] ^= forge.flip;
        forge.flip = false;
    }
    return __real_ngtcp2_crypto_encrypt_cb(out, aead, ctx, copy, n, number, nonce_n, aad, aad_n);
}

static void ping_forged(struct rig *r, const uint8_t *frames, size_t n, bool flip)
{
    forge.frames = frames;
    forge.n_frames = n;
    forge.flip = flip;
    sw_qad_client_probe(r->client);
    assert_int_equal(forge.n_frames, 0);
}

/* ---- tests ---- */

static void tells_the_address(const char *listen)
{
    struct rig r;
    struct sw_addr mine;

    rig_start(&r, listen, NULL);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    mine = sw_sock_local(r.fd);
    assert_true(sw_addr_eq(&r.seen, &mine));
    assert_int_equal(r.events[SW_QAD_INCOMING], 1);
    assert_int_equal(r.events[SW_QAD_ESTABLISHED], 1);
    turn(&r, 100);
    assert_true(sw_qad_client_rtt_ns(r.client) > 0);
    assert_int_equal(r.observed, 1);
    assert_int_equal(r.events[SW_QAD_REPORTED], 1);
    assert_int_equal(sw_qad_server_conns(r.server), 1);
    sw_qad_client_free(r.client);
    r.client = NULL;
    turn(&r, 100);
    assert_int_equal(sw_qad_server_conns(r.server), 0);
    assert_int_equal(r.events[SW_QAD_CLOSED], 1);
    assert_int_equal(r.events[SW_QAD_FAILED], 0);
    rig_stop(&r);
}

static void test_v4(void **state)
{
    tells_the_address("127.0.0.1:0");
}

static void test_v6(void **state)
{
    tells_the_address("[::1]:0");
}

static void test_both_families_of_one_port(void **state)
{
    struct rig r;
    struct sw_addr mine;

    rig_start(&r, "[::]:0", NULL);
    r.at.ip = (struct sw_ip){.family = 4, .b = {127, 0, 0, 1}};
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    mine = sw_sock_local(r.fd);
    assert_true(sw_addr_eq(&r.seen, &mine));
    rig_stop(&r);
}

/* What a NAT that forgets its mapping looks like: the same client from another port. */
static void test_says_it_again_when_the_address_changes(void **state)
{
    struct rig r;
    struct sw_addr mine;

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    turn(&r, 200);
    sw_qad_client_probe(r.client); /* its answer goes to the old port */
    close_socket(&r);
    open_socket(&r, "127.0.0.1:0");
    sw_qad_client_probe(r.client);
    assert_true(turn_until(&r, &r.observed, 2, 5000));
    mine = sw_sock_local(r.fd);
    assert_true(sw_addr_eq(&r.seen, &mine));
    assert_int_equal(r.events[SW_QAD_REPORTED], 2);
    /* Without a probe it is noticed by the keep-alive. */
    close_socket(&r);
    open_socket(&r, "127.0.0.1:0");
    assert_true(turn_until(&r, &r.observed, 3, 30000));
    mine = sw_sock_local(r.fd);
    assert_true(sw_addr_eq(&r.seen, &mine));
    assert_int_equal(r.ended, 0);
    rig_stop(&r);
}

/*
 * From another port, and back before that was validated. ngtcp2 0.12 aborts the process when it
 * sees the address it would fall back to.
 */
static void test_comes_back_before_the_new_address_is_validated(void **state)
{
    struct rig r;
    struct sw_addr mine;
    struct sw_addr any;
    int first;
    int second;

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    turn(&r, 200);
    first = r.fd;
    mine = sw_sock_local(first);
    any = mine;
    any.port = 0;
    assert_int_equal(sw_dgram_bind(&any, NULL, &second, &(struct sw_err){0}), SW_OK);
    for (unsigned i = 0; i < 20; i++) {
        r.fd = second; /* where nobody reads */
        sw_qad_client_probe(r.client);
        r.fd = first;
        sw_qad_client_probe(r.client);
        turn(&r, i % 5 * 400);
    }
    assert_true(turn_until(&r, &r.observed, 2, 20000));
    assert_true(sw_addr_eq(&r.seen, &mine));
    assert_int_equal(r.ended, 0);
    assert_int_equal(sw_qad_server_conns(r.server), 1);
    sw_sock_close(second);
    rig_stop(&r);
}

/* The server still reports to others. */
static void serves_others(struct rig *r)
{
    sw_qad_client_free(r->client);
    r->client = NULL;
    r->observed = 0;
    turn(r, 100);
    connect_with(r, "relay.test", NULL);
    assert_true(turn_until(r, &r->observed, 1, 2000));
}

/* ngtcp2 0.12 retires an ID below that each time it is named; the second time it aborts. */
static void test_names_a_retired_id_twice(void **state)
{
    static const uint8_t ids[][2] = {{20, 20}, {8, 0}, {8, 0}};
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    forge.ids = ids;
    forge.n_ids = 3;
    connect_with(&r, "relay.test", NULL);
    turn(&r, 500);
    forge.n_ids = 0;
    serves_others(&r);
    rig_stop(&r);
}

/* The same of a relay; its report is no frame of RFC 9000, what follows it is read nevertheless. */
static void test_relay_names_a_retired_id_twice(void **state)
{
    static const uint8_t ids[][2] = {{20, 20}, {8, 0}, {8, 0}};
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    forge.ids = ids;
    forge.n_ids = 3;
    forge.report_first = true;
    connect_with(&r, "relay.test", NULL);
    turn(&r, 500);
    assert_false(forge.report_first);
    forge.n_ids = 0;
    serves_others(&r);
    rig_stop(&r);
}

/* See unit/quic/test_forged, here and below. */
static void test_updates_keys_by_tls(void **state)
{
    static const uint8_t frames[] = {0x06, 0, 5, 24, 0, 0, 1, 0};
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    forge.frames = frames;
    forge.n_frames = sizeof(frames);
    forge.swap = true;
    connect_with(&r, "relay.test", NULL);
    turn(&r, 500);
    assert_int_equal(forge.n_frames, 0);
    forge.swap = false;
    serves_others(&r);
    rig_stop(&r);
}

static void test_acknowledges_late(void **state)
{
    static const uint8_t ping[] = {0x01};
    uint8_t late[] = {0x02, 0, 0, 0, 0, 0x01}; /* ACK, PING */
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    turn(&r, 200);
    r.lose_in = 1000;
    ping_forged(&r, ping, sizeof(ping), false);
    if (forge.number % 2 == 0)
        ping_forged(&r, ping, sizeof(ping), false);
    turn(&r, 2);
    ping_forged(&r, ping, sizeof(ping), true);
    assert_int_equal(forge.number % 2, 0);
    turn(&r, 5);
    late[1] = forge.other; /* of the server's acknowledgement */
    ping_forged(&r, late, sizeof(late), true);
    assert_int_equal(forge.number % 2, 1);
    turn(&r, 100);
    r.lose_in = 0;
    assert_int_equal(sw_qad_server_conns(r.server), 1);
    serves_others(&r);
    rig_stop(&r);
}

/* Numbers of packets are known under every key: what is acknowledged stays so. */
static void test_updates_keys(void **state)
{
    struct rig r;
    struct sw_qadc *c;

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    c = (void *)r.client; /* its first member */
    for (int i = 0; i < 8; i++) {
        turn(&r, 2000);
        sw_qad_client_probe(r.client);
        turn(&r, 100);
        assert_int_equal(ngtcp2_conn_initiate_key_update(c->nc, now), 0);
        sw_qad_client_probe(r.client);
        assert_true(c->unacked);
        turn(&r, 100);
        assert_false(c->unacked);
    }
    assert_int_equal(sw_qad_server_conns(r.server), 1);
    rig_stop(&r);
}

/* The connection holds a NAT's mapping: it lives on by its pings, and ends without them. */
static void test_stays_and_idles_out(void **state)
{
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    turn(&r, 60000);
    /* Pings get lost, too, and are sent again. */
    for (unsigned i = 0; i < 10; i++) {
        r.lose = 3;
        turn(&r, 25000);
    }
    assert_int_equal(r.ended, 0);
    assert_int_equal(sw_qad_server_conns(r.server), 1);
    r.lose = 1000;
    assert_true(turn_until(&r, &r.ended, 1, 120000));
    turn(&r, 40000);
    assert_int_equal(sw_qad_server_conns(r.server), 0);
    rig_stop(&r);
}

static void test_lost_packets(void **state)
{
    for (unsigned out = 0; out < 5; out++) {
        for (unsigned in = 0; in < 5; in++) {
            struct rig r;

            rig_start(&r, "127.0.0.1:0", NULL);
            r.lose = out;
            r.lose_in = in;
            connect_with(&r, "relay.test", NULL);
            /* The client's own patience is 3 s: give it what a retry of the owner would. */
            for (unsigned i = 0; i < 5 && r.observed == 0; i++) {
                (void)turn_until(&r, &r.observed, 1, 3500);
                if (r.ended && r.observed == 0) {
                    sw_qad_client_free(r.client);
                    connect_with(&r, "relay.test", NULL);
                }
            }
            assert_int_equal(r.observed, 1);
            rig_stop(&r);
        }
    }
}

/* Only the packet with the report is lost: it is sent again, and the client needs no new one. */
static void test_lost_report(void **state)
{
    for (unsigned skip = 1; skip < 5; skip++) {
        struct rig r;

        rig_start(&r, "127.0.0.1:0", NULL);
        connect_with(&r, "relay.test", NULL);
        while (r.events[SW_QAD_REPORTED] == 0) {
            sw_loop_turn(r.loop, 0);
            now += SW_NS_PER_MS;
        }
        r.lose_in = r.observed ? 0 : skip;
        assert_true(turn_until(&r, &r.observed, 1, 2900));
        assert_int_equal(r.ended, 0);
        rig_stop(&r);
    }
}

static void test_pin(void **state)
{
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, NULL, r.pin);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    sw_qad_client_free(r.client);
    r.pin[7] ^= 1;
    connect_with(&r, NULL, r.pin);
    assert_true(turn_until(&r, &r.ended, 1, 2000));
    assert_string_equal(r.end_why, "certificate is not the one the relay announced");
    assert_int_equal(r.observed, 1);
    turn(&r, 100);
    assert_int_equal(r.events[SW_QAD_FAILED], 1);
    rig_stop(&r);
}

static void test_wrong_name_and_wrong_root(void **state)
{
    struct rig r;
    struct sw_ca *other;
    struct sw_err err = {0};

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "other.test", NULL);
    assert_true(turn_until(&r, &r.ended, 1, 2000));
    assert_non_null(strstr(r.end_why, "other.test"));
    sw_qad_client_free(r.client);
    (void)sw_tls_cred_unref(r.roots);
    other = sw_ca_new(SW_SLICE_LIT("o"), 0, &err);
    r.roots = sw_tls_cred_new(
        &(struct sw_tls_cred_pem){.roots = sw_ca_root_pem(other), .any_identity = true}, &err);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.ended, 2, 2000));
    assert_int_equal(r.observed, 0);
    sw_ca_free(other);
    rig_stop(&r);
}

static void test_nobody_there(void **state)
{
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    r.lose = 1000;
    r.free_when_told = true;
    connect_with(&r, "relay.test", NULL);
    assert_false(turn_until(&r, &r.ended, 1, 2900));
    assert_true(turn_until(&r, &r.ended, 1, 200));
    assert_null(r.client);
    rig_stop(&r);
}

static void test_freed_in_callback(void **state)
{
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    r.free_when_told = true;
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    turn(&r, 100);
    assert_int_equal(sw_qad_server_conns(r.server), 0);
    rig_stop(&r);
}

static void test_server_says_goodbye(void **state)
{
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    sw_qad_server_free(r.server);
    r.server = NULL;
    assert_true(turn_until(&r, &r.ended, 1, 100));
    assert_non_null(strstr(r.end_why, "code 0x1: finished"));
    rig_stop(&r);
}

static void test_new_certificate(void **state)
{
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    make_cred(&r, "next.test");
    turn(&r, 30000); /* who is connected stays */
    assert_int_equal(r.ended, 0);
    sw_qad_client_free(r.client);
    connect_with(&r, "next.test", NULL);
    assert_true(turn_until(&r, &r.observed, 2, 2000));
    rig_stop(&r);
}

/* Of one address more than it may have: first it has to prove itself, then it is refused. */
static void test_rate_of_an_address(void **state)
{
    struct rig r;
    unsigned answered = 0;

    rig_start(&r, "127.0.0.1:0", &(struct sw_qad_server_config){.per_address = 1});
    for (unsigned i = 0; i < 12; i++) {
        r.ended = r.observed = 0;
        connect_with(&r, "relay.test", NULL);
        for (unsigned k = 0; k < 2000 && !r.ended && !r.observed; k++) {
            sw_loop_turn(r.loop, 0);
            if (k > 1000)
                now += SW_NS_PER_MS;
        }
        answered += r.observed;
        sw_qad_client_free(r.client);
        r.client = NULL;
        turn(&r, 1);
    }
    assert_true(answered >= 10 && answered < 12);
    assert_true(r.events[SW_QAD_RETRIED] >= 5);
    assert_true(r.events[SW_QAD_REFUSED] >= 1);
    assert_string_equal(r.why, "too many connections of one address");
    turn(&r, 10000); /* forgiven */
    r.ended = r.observed = 0;
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    rig_stop(&r);
}

static void test_most_connections(void **state)
{
    struct rig r;
    struct sw_qad_client *first;

    rig_start(&r, "127.0.0.1:0", &(struct sw_qad_server_config){.max_conns = 1});
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    first = r.client;
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.ended, 1, 3500));
    assert_int_equal(r.events[SW_QAD_REFUSED] >= 1, true);
    assert_non_null(strstr(r.end_why, "code 0x2"));
    sw_qad_client_free(first);
    rig_stop(&r);
}

/* First packets of nobody: no connection may be held by them for long, nor more than allowed. */
static void test_flood(void **state)
{
    struct rig r;
    uint8_t pkt[1200] = {0xc0, 0, 0, 0, 1, 8};
    struct sw_err err = {0};

    rig_start(&r, "127.0.0.1:0", NULL);
    open_socket(&r, "127.0.0.1:0");
    for (unsigned i = 0; i < 2000; i++) {
        memcpy(pkt + 6, &i, sizeof(i));
        pkt[14] = 8;
        pkt[23] = 0;    /* no token */
        pkt[24] = 0x44; /* length 1174 */
        pkt[25] = 0x96;
        (void)sw_dgram_send(r.fd, pkt, sizeof(pkt), &r.at);
        if (i % 8 == 0)
            sw_loop_turn(r.loop, 0);
    }
    turn(&r, 20);
    assert_true(sw_qad_server_conns(r.server) <= 64);
    turn(&r, 10000);
    assert_int_equal(sw_qad_server_conns(r.server), 0);
    close_socket(&r);
    r.fd = -1;
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    assert_int_equal(err.rc, 0);
    rig_stop(&r);
}

/* ngtcp2 would abort the process. */
static void test_hello_without_parameters(void **state)
{
    struct rig r;

    rig_start(&r, "127.0.0.1:0", NULL);
    open_socket(&r, "127.0.0.1:0");
    bare_hello(r.fd, &r.at, "/iroh-qad/0", NULL);
    turn(&r, 50);
    assert_int_equal(r.events[SW_QAD_FAILED], 1);
    assert_string_equal(r.why, "no transport parameters");
    assert_int_equal(sw_qad_server_conns(r.server), 0);
    connect_with(&r, "relay.test", NULL);
    assert_true(turn_until(&r, &r.observed, 1, 2000));
    rig_stop(&r);
}

static void test_other_packets_are_not_taken(void **state)
{
    struct rig r;
    uint8_t pkt[64] = {0x40};
    struct sw_addr other = {.ip = {.family = 4, .b = {127, 0, 0, 1}}, .port = 9};

    rig_start(&r, "127.0.0.1:0", NULL);
    connect_with(&r, "relay.test", NULL);
    assert_false(sw_qad_client_packet(r.client, &other, pkt, sizeof(pkt)));
    assert_false(sw_qad_client_packet(r.client, &r.at, pkt, sizeof(pkt)));
    assert_false(sw_qad_client_packet(r.client, &r.at, pkt, 1));
    assert_false(sw_qad_client_packet(r.client, &r.at, pkt, 0));
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v4),
        cmocka_unit_test(test_v6),
        cmocka_unit_test(test_both_families_of_one_port),
        cmocka_unit_test(test_says_it_again_when_the_address_changes),
        cmocka_unit_test(test_comes_back_before_the_new_address_is_validated),
        cmocka_unit_test(test_names_a_retired_id_twice),
        cmocka_unit_test(test_relay_names_a_retired_id_twice),
        cmocka_unit_test(test_updates_keys_by_tls),
        cmocka_unit_test(test_acknowledges_late),
        cmocka_unit_test(test_updates_keys),
        cmocka_unit_test(test_stays_and_idles_out),
        cmocka_unit_test(test_lost_packets),
        cmocka_unit_test(test_lost_report),
        cmocka_unit_test(test_pin),
        cmocka_unit_test(test_wrong_name_and_wrong_root),
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_freed_in_callback),
        cmocka_unit_test(test_server_says_goodbye),
        cmocka_unit_test(test_new_certificate),
        cmocka_unit_test(test_rate_of_an_address),
        cmocka_unit_test(test_most_connections),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_hello_without_parameters),
        cmocka_unit_test(test_other_packets_are_not_taken),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
