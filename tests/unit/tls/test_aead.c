/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/crypto/aead.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "base/mem.h"
#include "base/rand.h"
#include "base/slice.h"

#include "test.h"

enum { MAX_LEN = 16640 };

struct vector {
    enum sw_aead_alg alg;
    const char *key;
    const char *nonce;
    const char *aad;
    const char *plain;
    const char *sealed; /* ciphertext and tag */
};

#define GCM_PLAIN                                                                                  \
    "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6" \
    "b525b16aedf5aa0de657ba637b39"

/* GCM specification test cases 4 and 16; RFC 8439 section 2.8.2. */
static const struct vector vectors[] = {
    {SW_AEAD_AES_128_GCM, "feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "feedfacedeadbeeffeedfacedeadbeefabaddad2", GCM_PLAIN,
     "42831ec2217774244b7221b784d0d49ce3aa212f2c02a4e035c17e2329aca12e21d514b25466931c7d8f6a5aac84"
     "aa051ba30b396a0aac973d58e0915bc94fbc3221a5db94fae95ae7121a47"},
    {SW_AEAD_AES_256_GCM, "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308",
     "cafebabefacedbaddecaf888", "feedfacedeadbeeffeedfacedeadbeefabaddad2", GCM_PLAIN,
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b105682"
     "8838c5f61e6393ba7a0abcc9f66276fc6ece0f4e1768cddf8853bb2d551b"},
    {SW_AEAD_CHACHA20_POLY1305, "808182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9f",
     "070000004041424344454647", "50515253c0c1c2c3c4c5c6c7",
     "4c616469657320616e642047656e746c656d656e206f662074686520636c617373206f66202739393a2049662049"
     "20636f756c64206f6666657220796f75206f6e6c79206f6e652074697020666f7220746865206675747572652c20"
     "73756e73637265656e20776f756c642062652069742e",
     "d31a8d34648e60db7b86afbc53ef7ec2a4aded51296e08fea9e2b5a736ee62d63dbea45e8ca9671282fafb69da92"
     "728b1a71de0a9e060b2905d6a5b67ecd3b3692ddbd7f2d778b8c9803aee328091b58fab324e4fad675945585808b"
     "4831d7bc3ff4def08e4b7a9de576d26586cec64b61161ae10b594f09e26a7e902ecbd0600691"},
};

static size_t unhex(const char *hex, uint8_t *out)
{
    size_t n = strlen(hex) / 2;

    for (size_t i = 0; i < n; i++) {
        unsigned v = 0;

        assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
        out[i] = (uint8_t)v;
    }
    return n;
}

static void check_vectors(const struct sw_aead_ops *ops)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(vectors); i++) {
        uint8_t key[32], nonce[12], aad[64], plain[256], want[256], got[256];
        size_t n_aad = unhex(vectors[i].aad, aad);
        size_t n = unhex(vectors[i].plain, plain);
        struct sw_aead_sched s;

        assert_int_equal(unhex(vectors[i].key, key), sw_aead_key_len(vectors[i].alg));
        (void)unhex(vectors[i].nonce, nonce);
        assert_int_equal(unhex(vectors[i].sealed, want), n + SW_AEAD_TAG);
        sw_aead_expand_with(ops, vectors[i].alg, key, &s);
        sw_aead_seal(&s, &(struct sw_aead_input){nonce, aad, n_aad, plain, n}, got);
        assert_memory_equal(got, want, n + SW_AEAD_TAG);
        assert_int_equal(sw_aead_open(&s, nonce, aad, n_aad, got, n + SW_AEAD_TAG), 0);
        assert_memory_equal(got, plain, n);
        sw_aead_wipe(&s);
        assert_int_equal(s.live, 0);
        sw_aead_wipe(&s);
    }
}

static void published_vectors(void **state)
{
    struct sw_err err;
    const struct sw_aead_ops *imb;

    (void)state;
    check_vectors(sw_aead_backend(SW_AEAD_GNUTLS, &err));
    imb = sw_aead_backend(SW_AEAD_IMB, &err);
    if (imb)
        check_vectors(imb);
    else
        print_message("# imb: %s\n", err.msg);
}

static void back_ends_agree(void **state)
{
    struct sw_err err;
    const struct sw_aead_ops *a = sw_aead_backend(SW_AEAD_GNUTLS, &err);
    const struct sw_aead_ops *b = sw_aead_backend(SW_AEAD_IMB, &err);
    uint8_t *plain = sw_malloc(MAX_LEN);
    uint8_t *one = sw_malloc(MAX_LEN + SW_AEAD_TAG);
    uint8_t *two = sw_malloc(MAX_LEN + SW_AEAD_TAG);
    uint8_t *three = sw_malloc(MAX_LEN + 1);

    (void)state;
    for (int round = 0; b && round < 1500; round++) {
        enum sw_aead_alg alg = (enum sw_aead_alg)(round % 3);
        size_t n = round < 600 ? (size_t)round / 3 : (size_t)sw_rand_below(MAX_LEN + 1);
        size_t n_aad = (size_t)sw_rand_below(40);
        uint8_t key[32], nonce[12], aad[40];
        struct sw_aead_sched s, t;

        sw_rand_bytes(key, sizeof(key));
        sw_rand_bytes(nonce, sizeof(nonce));
        sw_rand_bytes(aad, sizeof(aad));
        sw_rand_bytes(plain, MAX_LEN);
        sw_aead_expand_with(a, alg, key, &s);
        sw_aead_expand_with(b, alg, key, &t);
        sw_aead_seal(&s, &(struct sw_aead_input){nonce, aad, n_aad, plain, n}, one);
        memcpy(two, plain, n);
        sw_aead_seal(&t, &(struct sw_aead_input){nonce, aad, n_aad, two, n}, two); /* in place */
        assert_memory_equal(one, two, n + SW_AEAD_TAG);
        memset(three, 0xee, n + 1);
        assert_int_equal(
            sw_aead_open_to(&s, &(struct sw_aead_input){nonce, aad, n_aad, two, n + SW_AEAD_TAG},
                            three),
            0);
        assert_memory_equal(three, plain, n);
        assert_int_equal(three[n], 0xee);
        memset(three, 0xee, n + 1);
        assert_int_equal(
            sw_aead_open_to(&t, &(struct sw_aead_input){nonce, aad, n_aad, two, n + SW_AEAD_TAG},
                            three),
            0);
        assert_memory_equal(three, plain, n);
        assert_int_equal(three[n], 0xee);
        assert_memory_equal(one, two, n + SW_AEAD_TAG); /* only read */
        assert_int_equal(sw_aead_open(&s, nonce, aad, n_aad, two, n + SW_AEAD_TAG), 0);
        assert_int_equal(sw_aead_open(&t, nonce, aad, n_aad, one, n + SW_AEAD_TAG), 0);
        assert_memory_equal(one, plain, n);
        assert_memory_equal(two, plain, n);
        sw_aead_seal(&s, &(struct sw_aead_input){nonce, aad, n_aad, two, n},
                     two); /* in place, the other one */
        sw_aead_seal(&t, &(struct sw_aead_input){nonce, aad, n_aad, one, n}, one);
        assert_memory_equal(one, two, n + SW_AEAD_TAG);
        sw_aead_wipe(&s);
        sw_aead_wipe(&t);
    }
    sw_free(plain);
    sw_free(one);
    sw_free(two);
    sw_free(three);
}

/* One block of CBC with a zero IV is the block cipher alone. */
static void single_blocks_agree_with_gnutls(void **state)
{
    struct sw_aead_block b;

    (void)state;
    for (int round = 0; round < 200; round++) {
        uint8_t key[SW_AEAD_BLOCK], in[SW_AEAD_BLOCK], want[SW_AEAD_BLOCK], got[SW_AEAD_BLOCK];
        uint8_t iv[SW_AEAD_BLOCK] = {0};
        gnutls_datum_t k = {.data = key, .size = sizeof(key)};
        gnutls_datum_t v = {.data = iv, .size = sizeof(iv)};
        gnutls_cipher_hd_t h;

        sw_rand_bytes(key, sizeof(key));
        sw_rand_bytes(in, sizeof(in));
        if (!sw_aead_block_expand(key, &b)) {
            print_message("# %s computes no single blocks\n", sw_aead_name());
            skip();
        }
        assert_int_equal(gnutls_cipher_init(&h, GNUTLS_CIPHER_AES_128_CBC, &k, &v), 0);
        assert_int_equal(gnutls_cipher_encrypt2(h, in, sizeof(in), want, sizeof(want)), 0);
        gnutls_cipher_deinit(h);
        sw_aead_block(&b, in, got);
        assert_memory_equal(got, want, sizeof(want));
        sw_aead_block(&b, in, in); /* in place */
        assert_memory_equal(in, want, sizeof(want));
    }
}

static void check_forgery(const struct sw_aead_ops *ops, enum sw_aead_alg alg)
{
    static const uint8_t zero[64] = {0};
    uint8_t key[32] = {1};
    uint8_t nonce[12] = {2};
    uint8_t aad[5] = {3};
    uint8_t buf[64];
    uint8_t out[64];
    struct sw_aead_sched s;

    sw_aead_expand_with(ops, alg, key, &s);
    for (size_t at = 0; at < 48 + 17; at++) {
        memset(buf, 7, sizeof(buf));
        sw_aead_seal(&s, &(struct sw_aead_input){nonce, aad, 5, buf, 32}, buf);
        if (at < 48)
            buf[at] ^= 0x80;
        else if (at < 60)
            nonce[at - 48] ^= 1;
        else
            aad[at - 60] ^= 1;
        memset(out, 0xee, sizeof(out));
        assert_int_equal(sw_aead_open_to(&s, &(struct sw_aead_input){nonce, aad, 5, buf, 48}, out),
                         -1);
        assert_memory_equal(out, zero, 32);
        assert_int_equal(out[32], 0xee);
        assert_int_equal(sw_aead_open(&s, nonce, aad, 5, buf, 48), -1);
        assert_memory_equal(buf, zero, 48);
        memset(nonce, 0, sizeof(nonce));
        memset(aad, 0, sizeof(aad));
    }
    for (size_t n = 0; n < SW_AEAD_TAG; n++) {
        assert_int_equal(sw_aead_open(&s, nonce, aad, 5, buf, n), -1);
        assert_int_equal(sw_aead_open_to(&s, &(struct sw_aead_input){nonce, aad, 5, buf, n}, out),
                         -1);
    }
    sw_aead_wipe(&s);
}

static void forgeries_are_refused_and_wiped(void **state)
{
    struct sw_err err;
    const struct sw_aead_ops *imb = sw_aead_backend(SW_AEAD_IMB, &err);

    (void)state;
    for (int alg = 0; alg < 3; alg++) {
        check_forgery(sw_aead_backend(SW_AEAD_GNUTLS, &err), (enum sw_aead_alg)alg);
        if (imb)
            check_forgery(imb, (enum sw_aead_alg)alg);
    }
}

/* Last: it fixes the choice for the process. */
static void choice_is_made_once(void **state)
{
    struct sw_err err;
    uint8_t key[32] = {0};
    struct sw_aead_sched s;

    (void)state;
    assert_string_equal(sw_aead_name(), "none");
    assert_int_equal(sw_aead_init(SW_AEAD_AUTO, &err), SW_OK);
    assert_int_equal(sw_aead_init(SW_AEAD_GNUTLS, &err), SW_OK);
    assert_string_equal(sw_aead_name(), "none");
    sw_aead_expand(SW_AEAD_AES_128_GCM, key, &s);
    assert_string_equal(sw_aead_name(), "gnutls");
    sw_aead_wipe(&s);
    assert_int_equal(sw_aead_init(SW_AEAD_GNUTLS, &err), SW_OK);
    assert_int_equal(sw_aead_init(SW_AEAD_AUTO, &err), SW_EINVAL);
    assert_ptr_equal(sw_aead_backend(SW_AEAD_AUTO, &err), sw_aead_backend(SW_AEAD_GNUTLS, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors),
        cmocka_unit_test(back_ends_agree),
        cmocka_unit_test(forgeries_are_refused_and_wiped),
        cmocka_unit_test(choice_is_made_once),
        cmocka_unit_test(single_blocks_agree_with_gnutls),
    };

    return cmocka_run_group_tests_name("aead", tests, NULL, NULL);
}
