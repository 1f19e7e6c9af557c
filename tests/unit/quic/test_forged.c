/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A peer whose packets ngtcp2 would not make: numbers in another order, frames before their time.
 * The linker leads what seals packets here.
 */
#include <ngtcp2/ngtcp2.h>
#include <ngtcp2/ngtcp2_crypto.h>

#include "io/sock.h"
#include "middle.h"
#include "rig.h"
#include "tls/crypto/aead.h"

enum {
    HEAD = 3, /* of a DATAGRAM that is longer than 63 bytes */
    DATA = 200,
};

static struct {
    const uint8_t *frames; /* instead of the next datagram, and PADDING behind */
    size_t n;
    bool sent;
    uint8_t number; /* of that packet; 0: as it is */
    const struct sw_quic *b;
    uint8_t of_b; /* lowest byte of the number of its last packet under the application's keys */
    struct {
        unsigned seen; /* of a client */
        bool on;
    } initial;
    bool hello;     /* the first packet under the application's keys has the frames */
    bool preferred; /* servers have a preferred address, and an ID for it */
} forge;

static const uint8_t mark[16] = {0xa7, 0xa7, 0xa7, 0xa7, 0xa7, 0xa7, 0xa7, 0xa7,
                                 0xa7, 0xa7, 0xa7, 0xa7, 0xa7, 0xa7, 0xa7, 0xa7};

__typeof__(sw_aead_seal) __real_sw_aead_seal;
__typeof__(sw_aead_seal) __wrap_sw_aead_seal;
__typeof__(ngtcp2_crypto_encrypt_cb) __real_ngtcp2_crypto_encrypt_cb;
__typeof__(ngtcp2_crypto_encrypt_cb) __wrap_ngtcp2_crypto_encrypt_cb;
__typeof__(ngtcp2_conn_server_new_versioned) __real_ngtcp2_conn_server_new_versioned;
__typeof__(ngtcp2_conn_server_new_versioned) __wrap_ngtcp2_conn_server_new_versioned;

/* The header lies in the packet: it is written again, as ngtcp2 has still to mask it. */
static void renumber(uint8_t nonce[SW_AEAD_NONCE], const uint8_t *aad, size_t aad_n, uint8_t to)
{
    union {
        const uint8_t *in;
        uint8_t *out;
    } head = {.in = aad};

    nonce[SW_AEAD_NONCE - 1] ^= aad[aad_n - 1] ^ to;
    head.out[aad_n - 1] = to;
}

void __wrap_sw_aead_seal(const struct sw_aead_sched *s, const struct sw_aead_input *in,
                         uint8_t *out)
{
    static uint8_t copy[SW_DGRAM_MAX];
    struct sw_aead_input changed = *in;
    uint8_t number[SW_AEAD_NONCE];
    uint8_t *at;

    memcpy(copy, in->p, in->n);
    memcpy(number, in->nonce, sizeof(number));
    if (out >= forge.b->scratch.tx && out < forge.b->scratch.tx + SW_DGRAM_SEND_MAX)
        forge.of_b = in->aad[in->aad_len - 1];
    at = memmem(copy, in->n, mark, sizeof(mark));
    if (at) {
        memset(at - HEAD, 0, HEAD + DATA);
        memcpy(at - HEAD, forge.frames, forge.n);
        if (forge.number)
            renumber(number, in->aad, in->aad_len, forge.number);
        forge.sent = true;
    }
    if (forge.hello) {
        memset(copy, 0, in->n);
        memcpy(copy, forge.frames, forge.n);
        forge.hello = false;
    }
    changed.nonce = number;
    changed.p = copy;
    __real_sw_aead_seal(s, &changed, out);
}

/* The first two packets of a client change places, and the one that is late acknowledges. */
int __wrap_ngtcp2_crypto_encrypt_cb(uint8_t *out, const ngtcp2_crypto_aead *aead,
                                    const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *p, size_t n,
                                    const uint8_t *nonce, size_t nonce_n, const uint8_t *aad,
                                    size_t aad_n)
{
    static const uint8_t late[] = {0x02, 0, 0, 0, 0, 0x01}; /* ACK of number 0, PING */
    static uint8_t copy[SW_DGRAM_MAX];
    uint8_t number[SW_AEAD_NONCE];

    memcpy(copy, p, n);
    memcpy(number, nonce, sizeof(number));
    /* The hello's is the only one of that size. */
    if (forge.initial.on && (aad[0] & 0xf0) == 0xc0 && n > 1000) {
        if (forge.initial.seen++ > 0) {
            memset(copy, 0, n);
            memcpy(copy, late, sizeof(late));
        }
        renumber(number, aad, aad_n, aad[aad_n - 1] ^ 1);
    }
    return __real_ngtcp2_crypto_encrypt_cb(out, aead, ctx, copy, n, number, nonce_n, aad, aad_n);
}

int __wrap_ngtcp2_conn_server_new_versioned(ngtcp2_conn **ret, const ngtcp2_cid *dcid,
                                            const ngtcp2_cid *scid, const ngtcp2_path *path,
                                            uint32_t version, int cb_version,
                                            const ngtcp2_callbacks *cb, int settings_version,
                                            const ngtcp2_settings *settings, int params_version,
                                            const ngtcp2_transport_params *params,
                                            const ngtcp2_mem *mem, void *user)
{
    ngtcp2_transport_params more = *params;

    if (forge.preferred) {
        more.preferred_address_present = 1;
        more.preferred_address.cid = (ngtcp2_cid){.datalen = 8, .data = {0xf0, 1, 2, 3}};
    }
    return __real_ngtcp2_conn_server_new_versioned(ret, dcid, scid, path, version, cb_version, cb,
                                                   settings_version, settings, params_version,
                                                   &more, mem, user);
}

static void send_forged(struct rig *r, struct middle *m, struct sw_qconn *c, const uint8_t *frames,
                        size_t n)
{
    uint8_t data[DATA];

    memset(data, 0xa7, sizeof(data));
    forge.frames = frames;
    forge.n = n;
    forge.sent = false;
    assert_int_equal(sw_qconn_datagram(c, data, sizeof(data)), SW_OK);
    while (!forge.sent)
        middle_turn(m, r);
}

static void start(struct rig *r)
{
    memset(&forge, 0, sizeof(forge));
    rig_start(r, &(struct sw_quic_config){.datagrams = true},
              &(struct sw_quic_config){.datagrams = true});
    r->b.echo = true;
    forge.b = r->b.q;
}

static void serves_others(struct rig *r)
{
    struct rig_stream t;

    r->a.ready = 0;
    r->b.accepted = 0;
    rig_connect(r);
    rig_open(r, &t, 1000);
    rig_until_true(r, &t.closed);
}

/*
 * The newest packet is acknowledged, that is acknowledged, and the one before it comes. ngtcp2 0.12
 * computes a gap of -1 between the two and aborts the process.
 */
static void a_late_packet_may_acknowledge(void **state)
{
    static const uint8_t ping[] = {0x01};
    uint8_t late[] = {0x02, 0, 0, 0, 0, 0x01}; /* ACK of all, PING */
    struct middle m;
    struct rig r;
    uint8_t before;

    start(&r);
    middle_connect(&m, &r);
    for (int i = 0; i < 50; i++)
        middle_turn(&m, &r);
    m.closed_back = true; /* a would not believe what is acknowledged */
    before = forge.of_b;
    forge.number = 101;
    send_forged(&r, &m, r.a.c, ping, sizeof(ping));
    while (forge.of_b == before)
        middle_turn(&m, &r);
    assert_true(forge.of_b < 64);
    late[1] = late[4] = forge.of_b;
    forge.number = 100;
    send_forged(&r, &m, r.a.c, late, sizeof(late));
    for (int i = 0; i < 50; i++)
        middle_turn(&m, &r);
    assert_int_equal(r.b.closed, 0);
    sw_qconn_close(r.a.c, 0, "");
    while (!r.b.closed)
        middle_turn(&m, &r);
    middle_close(&m);
    serves_others(&r);
    rig_stop(&r);
}

/* The same before there is a handshake, from anybody. */
static void a_late_first_packet_may_acknowledge(void **state)
{
    struct middle m;
    struct rig r;

    start(&r);
    forge.initial.on = true;
    middle_open(&m, &r);
    m.closed_back = true;
    middle_dial(&m, &r);
    rig_while(&r, (middle_forward(&m), forge.initial.seen < 3));
    for (int i = 0; i < 50; i++)
        middle_turn(&m, &r);
    forge.initial.on = false;
    sw_qconn_close(r.a.c, 0, "");
    middle_close(&m);
    serves_others(&r);
    rig_stop(&r);
}

/* b has keys of the application before a is through. */
static void send_early(struct rig *r, struct middle *m, const uint8_t *frames, size_t n)
{
    struct sw_qconn *c = SW_CONTAINER_OF(r->b.q->conns.next, struct sw_qconn, link);
    struct sw_addr to = sw_sock_local(m->back);
    uint8_t *out = r->b.q->scratch.tx;
    uint8_t data[DATA];
    ngtcp2_vec v = {.base = data, .len = sizeof(data)};
    ngtcp2_path_storage ps;
    ngtcp2_pkt_info pi;
    ngtcp2_ssize len;

    memset(data, 0xa7, sizeof(data));
    forge.frames = frames;
    forge.n = n;
    forge.sent = false;
    ngtcp2_path_storage_zero(&ps);
    len = ngtcp2_conn_writev_datagram(c->nc, &ps.path, &pi, out, QUIC_MTU_FIRST, NULL, 0, 0, &v, 1,
                                      sw_quic_now(r->b.q));
    assert_true(len > 0 && forge.sent);
    assert_int_equal(sw_dgram_send(r->b.q->sock[0].fd, out, (size_t)len, &to), SW_OK);
}

/* Up to where b has sent its messages of the handshake, and a has none of them yet. */
static void begin(struct rig *r, struct middle *m)
{
    start(r);
    middle_open(m, r);
    middle_dial(m, r);
    while (sw_list_empty(&r->b.q->conns)) {
        sw_loop_turn(r->loop, 1);
        if (sw_list_empty(&r->b.q->conns))
            middle_forward(m);
    }
    sw_loop_turn(r->loop, 1);
}

static void forward_back(struct middle *m)
{
    ssize_t n;

    while ((n = sw_dgram_recv(m->back, m->buf, SW_DGRAM_MAX, NULL)) > 0)
        (void)sw_dgram_send(m->front, m->buf, (size_t)n, &m->a);
}

/*
 * ngtcp2 0.12 takes what ends the handshake, and new connection IDs, before it has sent its own
 * last message, and expects then that neither came.
 */
static void frames_of_the_server_may_come_early(void **state)
{
    static const uint8_t done[] = {0x1e};
    static const uint8_t id[28] = {0x18, 5, 5, 8, 1, 2, 3, 4, 5, 6, 7, 8};
    static const struct sw_slice early[] = {{(const char *)done, sizeof(done)},
                                            {(const char *)id, sizeof(id)}};

    for (size_t i = 0; i < SW_ARRAY_LEN(early); i++) {
        struct middle m;
        struct rig r;

        begin(&r, &m);
        send_early(&r, &m, (const uint8_t *)early[i].p, early[i].n);
        while (!r.a.ready || !r.b.accepted)
            middle_turn(&m, &r);
        middle_close(&m);
        serves_others(&r);
        rig_stop(&r);
    }
}

/*
 * A TLS KeyUpdate does not belong into QUIC (RFC 9001, 6). GnuTLS makes keys for it, and ngtcp2
 * 0.12 aborts the process when it gets them a second time.
 */
static const uint8_t key_update[] = {0x06, 0, 5, 24, 0, 0, 1, 0}; /* a CRYPTO frame */

static void a_server_may_not_update_keys_by_tls(void **state)
{
    struct middle m;
    struct rig r;

    begin(&r, &m);
    forward_back(&m);
    sw_loop_turn(r.loop, 1);
    assert_true(r.a.c->hs && r.a.c->shake.through);
    send_early(&r, &m, key_update, sizeof(key_update));
    while (!r.a.closed) {
        forward_back(&m);
        sw_loop_turn(r.loop, 1);
    }
    middle_close(&m);
    serves_others(&r);
    rig_stop(&r);
}

/* It comes before the last message of the handshake, and is kept until that is there. */
static void a_client_may_not_update_keys_by_tls(void **state)
{
    uint8_t held[2000];
    struct middle m;
    struct rig r;
    ssize_t n;

    begin(&r, &m);
    forge.frames = key_update;
    forge.n = sizeof(key_update);
    forge.hello = true;
    forward_back(&m);
    sw_loop_turn(r.loop, 1);
    assert_false(forge.hello);
    n = sw_dgram_recv(m.front, held, sizeof(held), NULL);
    assert_true(n > 0);
    middle_forward(&m);
    (void)sw_dgram_send(m.back, held, (size_t)n, &m.b);
    while (!r.a.closed)
        middle_turn(&m, &r);
    middle_close(&m);
    serves_others(&r);
    rig_stop(&r);
}

/*
 * The ID of a preferred address has the number 1 without being named; ngtcp2 0.12 aborts the
 * process when it is, after it was retired.
 */
static void the_id_of_a_preferred_address_may_be_named(void **state)
{
    static const uint8_t ids[2 * 28] = {
        0x18, 20, 20, 8, 1, [12] = 1, [28] = 0x18, 1, 0, 8, 0xf1, [40] = 2};
    struct middle m;
    struct rig r;

    start(&r);
    forge.preferred = true;
    middle_connect(&m, &r);
    for (int i = 0; i < 50; i++)
        middle_turn(&m, &r);
    send_forged(&r, &m, r.b.c, ids, sizeof(ids));
    for (int i = 0; i < 50; i++)
        middle_turn(&m, &r);
    sw_qconn_close(r.b.c, 0, "");
    while (!r.a.closed)
        middle_turn(&m, &r);
    middle_close(&m);
    serves_others(&r);
    rig_stop(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_late_packet_may_acknowledge),
        cmocka_unit_test(a_late_first_packet_may_acknowledge),
        cmocka_unit_test(frames_of_the_server_may_come_early),
        cmocka_unit_test(a_server_may_not_update_keys_by_tls),
        cmocka_unit_test(a_client_may_not_update_keys_by_tls),
        cmocka_unit_test(the_id_of_a_preferred_address_may_be_named),
    };

    return cmocka_run_group_tests_name("quic forged", tests, NULL, NULL);
}
