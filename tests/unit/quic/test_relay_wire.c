/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "quic/relay/auth.h"
#include "quic/wire/relay.h"

static struct sw_rawkey *key_of(uint8_t byte)
{
    uint8_t seed[SW_SEED_LEN];
    struct sw_err err;

    memset(seed, byte, sizeof(seed));
    return sw_rawkey_from_seed(seed, &err);
}

static size_t unhex(const char *text, uint8_t *out)
{
    size_t n = 0;

    for (; text[0] && text[1]; text += 2) {
        unsigned v = 0;

        for (int i = 0; i < 2; i++)
            v = v * 16 + (unsigned)(text[i] <= '9' ? text[i] - '0' : text[i] - 'a' + 10);
        out[n++] = (uint8_t)v;
    }
    return n;
}

static void test_challenge_of_the_specification(void **state)
{
    static const uint8_t zero[SW_RELAY_CHALLENGE_LEN];
    struct sw_rawkey *key = key_of(0x2a);
    uint8_t want[64];
    uint8_t digest[32];
    uint8_t sig[SW_ED25519_SIG];
    struct sw_err err;

    (void)state;
    sw_relay_challenge_digest(zero, digest);
    (void)unhex("8105e7bd9963194e6d6d80225a3f1b071da3b6e65edcd12531e16233f33de9d6", want);
    assert_memory_equal(digest, want, 32);
    assert_int_equal(sw_relay_answer(key, zero, sig, &err), SW_OK);
    (void)unhex("661ffa2a241b3803f8d5f0e04fc3251c2b2785f8ed605b1d8b58825b92c3ba2b"
                "2b5d84d01c405f917f4fc602000442b0cbd867ab0143034f37bd089cb987d80b",
                want);
    assert_memory_equal(sig, want, 64);
    assert_true(sw_relay_answer_ok(sw_rawkey_id(key), zero, sig));
    sig[3] ^= 1;
    assert_false(sw_relay_answer_ok(sw_rawkey_id(key), zero, sig));
    sw_rawkey_free(key);
}

static void test_header_proves_one_connection_only(void **state)
{
    struct sw_rawkey *key = key_of(0x11);
    char text[SW_RELAY_AUTH_HEADER];
    struct sw_relay_header h;
    uint8_t km[SW_RELAY_KM_LEN];
    struct sw_err err;

    (void)state;
    for (size_t i = 0; i < sizeof(km); i++)
        km[i] = (uint8_t)(250 + i);
    assert_int_equal(sw_relay_header_make(key, km, text, &err), SW_OK);
    assert_int_equal(strlen(text), 151);
    assert_null(strpbrk(text, "+/="));
    assert_int_equal(sw_relay_header_parse(sw_slice_str(text), &h, &err), SW_OK);
    assert_true(sw_nodeid_eq(&h.id, sw_rawkey_id(key)));
    assert_true(sw_relay_header_ok(&h, km));
    km[31] ^= 1;
    assert_false(sw_relay_header_ok(&h, km));
    km[31] ^= 1;
    km[0] ^= 1;
    assert_false(sw_relay_header_ok(&h, km));
    assert_int_equal(sw_relay_header_parse(sw_slice(text, 150), &h, &err), SW_EINVAL);
    text[10] = '+';
    assert_int_equal(sw_relay_header_parse(sw_slice_str(text), &h, &err), SW_EINVAL);
    sw_rawkey_free(key);
}

#define ID_2A "197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61"

static void test_frames_of_the_specification(void **state)
{
    static const struct {
        const char *hex;
        bool to_relay;
        enum sw_relay_type type;
        uint8_t ecn;
        uint16_t segment;
        const char *payload;
    } cases[] = {
        {"092a2a2a2a2a2a2a2a", true, SW_RELAY_PING, 0, 0, "********"},
        {"0a2a2a2a2a2a2a2a2a", false, SW_RELAY_PONG, 0, 0, "********"},
        {"04" ID_2A "0348656c6c6f20576f726c6421", true, SW_RELAY_SEND, 3, 0, "Hello World!"},
        {"06" ID_2A "0348656c6c6f20576f726c6421", false, SW_RELAY_RECV, 3, 0, "Hello World!"},
        {"05" ID_2A "03000648656c6c6f20576f726c6421", true, SW_RELAY_SEND_BATCH, 3, 6,
         "Hello World!"},
        {"07" ID_2A "03000648656c6c6f20576f726c6421", false, SW_RELAY_RECV_BATCH, 3, 6,
         "Hello World!"},
        {"08" ID_2A, false, SW_RELAY_GONE, 0, 0, ""},
        {"03026e6f", false, SW_RELAY_DENIED, 0, 0, "no"},
        {"02", false, SW_RELAY_CONFIRMED, 0, 0, ""},
    };
    struct sw_rawkey *key = key_of(0x2a);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        uint8_t in[128];
        size_t n = unhex(cases[i].hex, in);
        struct sw_relay_frame f;
        struct sw_err err;

        assert_int_equal(sw_relay_parse(in, n, cases[i].to_relay, SW_RELAY_V2, &f, &err), SW_OK);
        assert_int_equal(f.type, cases[i].type);
        assert_int_equal(f.ecn, cases[i].ecn);
        assert_int_equal(f.segment, cases[i].segment);
        assert_int_equal(f.n, strlen(cases[i].payload));
        assert_memory_equal(f.p, cases[i].payload, f.n);
        if (f.id)
            assert_true(sw_nodeid_eq(f.id, sw_rawkey_id(key)));
        if (f.segment || f.ecn) {
            uint8_t out[SW_RELAY_BATCH_HEAD];
            size_t head = sw_relay_put_datagram(out, f.type, f.id, f.ecn, f.segment);

            assert_memory_equal(out, in, head);
        }
    }
    sw_rawkey_free(key);
}

static void test_restarting_and_status(void **state)
{
    uint8_t in[16];
    uint8_t out[16];
    struct sw_relay_frame f;
    struct sw_err err;

    (void)state;
    assert_int_equal(sw_relay_put_restarting(out, 10, 20), unhex("0c0000000a00000014", in));
    assert_memory_equal(in, out, 9);
    assert_int_equal(sw_relay_parse(out, 9, false, SW_RELAY_V1, &f, &err), SW_OK);
    assert_int_equal(f.reconnect_ms, 10);
    assert_int_equal(f.try_ms, 20);
    assert_int_equal(sw_relay_parse(in, unhex("0d02", in), false, SW_RELAY_V2, &f, &err), SW_OK);
    assert_int_equal(f.status, SW_RELAY_RATE_LIMITED);
}

static void test_denials_survive_their_length(void **state)
{
    char reason[400];
    uint8_t out[2 + SW_RELAY_REASON_MAX];
    struct sw_relay_frame f;
    struct sw_err err;
    size_t n;

    (void)state;
    memset(reason, 'r', sizeof(reason));
    reason[sizeof(reason) - 1] = '\0';
    n = sw_relay_put_denied(out, reason);
    assert_int_equal(sw_relay_parse(out, n, false, SW_RELAY_V2, &f, &err), SW_OK);
    assert_int_equal(f.n, SW_RELAY_REASON_MAX);
}

static void test_refusals(void **state)
{
    static const struct {
        const char *hex;
        bool to_relay;
        unsigned version;
    } cases[] = {
        {"", true, 2},
        {"0e", false, 2},             /* unknown */
        {"ff", false, 2},             /* longer varint */
        {"4004", true, 2},            /* a type in two bytes */
        {"06" ID_2A "00", true, 2},   /* wrong direction */
        {"04" ID_2A "00", false, 2},  /* wrong direction */
        {"0b41", false, 2},           /* health is of version 1 */
        {"0d01", false, 1},           /* status is of version 2 */
        {"04" ID_2A, true, 2},        /* no ECN */
        {"05" ID_2A "0000", true, 2}, /* half a segment size */
        {"09aabb", true, 2},          /* short ping */
        {"0200", false, 2},           /* confirmed with a body */
        {"03056e6f", false, 2},       /* reason shorter than it says */
        {"0302ffff", false, 2},       /* reason no UTF-8 */
        {"03ffffff7f", false, 2},     /* length without end */
        {"0102", true, 2},            /* short auth */
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        uint8_t in[128];
        struct sw_relay_frame f;
        struct sw_err err;

        if (sw_relay_parse(in, unhex(cases[i].hex, in), cases[i].to_relay, cases[i].version, &f,
                           &err) != SW_EPROTO)
            fail_msg("'%s' was taken", cases[i].hex);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_challenge_of_the_specification),
        cmocka_unit_test(test_header_proves_one_connection_only),
        cmocka_unit_test(test_frames_of_the_specification),
        cmocka_unit_test(test_restarting_and_status),
        cmocka_unit_test(test_denials_survive_their_length),
        cmocka_unit_test(test_refusals),
    };

    return cmocka_run_group_tests_name("relay wire", tests, NULL, NULL);
}
