/* SPDX-License-Identifier: Apache-2.0 */
/* AEAD by GnuTLS: for CPUs without intel-ipsec-mb, and the reference the other is compared with. */
#include <assert.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include "tls/crypto/aead_int.h"

enum { AAD_MAX = 64 };

static const gnutls_cipher_algorithm_t ciphers[] = {
    [SW_AEAD_AES_128_GCM] = GNUTLS_CIPHER_AES_128_GCM,
    [SW_AEAD_AES_256_GCM] = GNUTLS_CIPHER_AES_256_GCM,
    [SW_AEAD_CHACHA20_POLY1305] = GNUTLS_CIPHER_CHACHA20_POLY1305,
};

int sw_aead_of_gnutls(int cipher)
{
    for (int i = 0; i < (int)SW_ARRAY_LEN(ciphers); i++)
        if ((int)ciphers[i] == cipher)
            return i;
    return -1;
}

/* All that the schedule holds. */
struct state {
    gnutls_aead_cipher_hd_t handle;
};

static gnutls_aead_cipher_hd_t handle_of(const struct sw_aead_sched *s)
{
    return ((const struct state *)(const void *)s->state)->handle;
}

static void expand(enum sw_aead_alg alg, const uint8_t *key, struct sw_aead_sched *s)
{
    uint8_t copy[SW_AEAD_KEY_MAX];
    gnutls_datum_t k = {.data = copy, .size = (unsigned)sw_aead_key_len(alg)};
    struct state *st = (struct state *)(void *)s->state;
    int rc;

    memcpy(copy, key, k.size);
    rc = gnutls_aead_cipher_init(&st->handle, ciphers[alg], &k);
    explicit_bzero(copy, sizeof(copy));
    /* Only memory can be missing: the algorithms were proven by the self-test. */
    assert(rc == 0);
}

static void wipe(struct sw_aead_sched *s)
{
    gnutls_aead_cipher_deinit(handle_of(s));
}

/* A vector is not const, the additional data may be. */
static giovec_t copy_aad(const struct sw_aead_input *in, uint8_t copy[AAD_MAX])
{
    assert(in->aad_len <= AAD_MAX);
    if (in->aad_len)
        memcpy(copy, in->aad, in->aad_len);
    return (giovec_t){.iov_base = copy, .iov_len = in->aad_len};
}

static void seal(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out)
{
    int rc;

    if (in->p != out || in->n == 0) {
        size_t out_len = in->n + SW_AEAD_TAG;

        rc = gnutls_aead_cipher_encrypt(handle_of(s), in->nonce, SW_AEAD_NONCE, in->aad,
                                        in->aad_len, SW_AEAD_TAG, in->p, in->n, out, &out_len);
        assert(rc == 0 && out_len == in->n + SW_AEAD_TAG);
    } else {
        size_t tag_len = SW_AEAD_TAG;
        uint8_t aad_copy[AAD_MAX];
        giovec_t a = copy_aad(in, aad_copy);
        giovec_t v = {.iov_base = out, .iov_len = in->n};

        rc = gnutls_aead_cipher_encryptv2(handle_of(s), in->nonce, SW_AEAD_NONCE, &a,
                                          a.iov_len ? 1 : 0, &v, 1, out + in->n, &tag_len);
        assert(rc == 0 && tag_len == SW_AEAD_TAG);
    }
}

/* GnuTLS decrypts vectors in place only. */
static int open_to(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out)
{
    size_t len = in->n - SW_AEAD_TAG;
    uint8_t tag[SW_AEAD_TAG];
    uint8_t aad_copy[AAD_MAX];
    giovec_t a = copy_aad(in, aad_copy);
    giovec_t v = {.iov_base = out, .iov_len = len};
    int rc;

    memcpy(tag, in->p + len, SW_AEAD_TAG);
    if (in->p != out && len)
        memcpy(out, in->p, len);
    rc = gnutls_aead_cipher_decryptv2(handle_of(s), in->nonce, SW_AEAD_NONCE, &a, a.iov_len ? 1 : 0,
                                      &v, len ? 1 : 0, tag, SW_AEAD_TAG);
    if (rc != 0) {
        explicit_bzero(out, len);
        return -1;
    }
    return 0;
}

const struct sw_aead_ops sw_aead_gnutls_ops = {
    .name = "gnutls",
    .expand = expand,
    .wipe = wipe,
    .seal = seal,
    .open = open_to,
};
