/* SPDX-License-Identifier: Apache-2.0 */
/* Choice of the AEAD back end, its self-test, and the thin calls the record layer uses. */
#include "tls/crypto/aead.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/slice.h"
#include "tls/crypto/aead_int.h"

/*
 * One pattern for all: key byte i is i, nonce byte i is 0x40 + i, additional data are the 5 bytes
 * 17 03 03 04 11, plaintext byte i is 7 * i. The tag depends on every byte of the ciphertext, so
 * the tag alone is kept; 1025 bytes reach the widest loops and their remainders.
 */
enum { VECTOR_LEN = 1025 };

static const struct {
    enum sw_aead_alg alg;
    uint8_t tag[SW_AEAD_TAG];
} vectors[] = {
    {SW_AEAD_AES_128_GCM,
     {0x1e, 0xe0, 0xbf, 0xc3, 0x90, 0x4b, 0x3a, 0xbc, 0xd4, 0x49, 0xc3, 0xe6, 0x8e, 0xf4, 0xa1,
      0x2c}},
    {SW_AEAD_AES_256_GCM,
     {0x87, 0x2b, 0x5b, 0xee, 0xe0, 0xca, 0x7a, 0x15, 0x61, 0x64, 0x84, 0xe9, 0xb0, 0x5a, 0x5a,
      0xbd}},
    {SW_AEAD_CHACHA20_POLY1305,
     {0x35, 0x51, 0x08, 0xa2, 0x37, 0x8b, 0xba, 0xe7, 0x31, 0xce, 0xc5, 0x6a, 0xba, 0x33, 0xad,
      0x8c}},
};

static struct {
    pthread_mutex_t lock;
    enum sw_aead_choice choice;
    const struct sw_aead_ops *imb; /* loaded and tested, or NULL */
    struct sw_err imb_err;         /* why imb is NULL */
    bool imb_tried;
    _Atomic(const struct sw_aead_ops *) used;
} g = {.lock = PTHREAD_MUTEX_INITIALIZER};

size_t sw_aead_key_len(enum sw_aead_alg alg)
{
    return alg == SW_AEAD_AES_128_GCM ? 16 : 32;
}

static bool vector_passes(const struct sw_aead_ops *ops, enum sw_aead_alg alg,
                          const uint8_t tag[SW_AEAD_TAG])
{
    static const uint8_t aad[5] = {0x17, 0x03, 0x03, 0x04, 0x11};
    uint8_t key[SW_AEAD_KEY_MAX];
    uint8_t nonce[SW_AEAD_NONCE];
    uint8_t plain[VECTOR_LEN];
    uint8_t sealed[VECTOR_LEN + SW_AEAD_TAG];
    uint8_t broken[VECTOR_LEN + SW_AEAD_TAG];
    const struct sw_aead_input in = {nonce, aad, sizeof(aad), plain, sizeof(plain)};
    struct sw_aead_sched s;
    bool ok;

    for (size_t i = 0; i < sizeof(key); i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof(nonce); i++)
        nonce[i] = (uint8_t)(0x40 + i);
    for (size_t i = 0; i < sizeof(plain); i++)
        plain[i] = (uint8_t)(7 * i);
    sw_aead_expand_with(ops, alg, key, &s);
    ops->seal(&s, &in, sealed);
    ok = memcmp(sealed + VECTOR_LEN, tag, SW_AEAD_TAG) == 0;
    memcpy(broken, sealed, sizeof(broken));
    broken[VECTOR_LEN - 1] ^= 1;
    ok = ok && sw_aead_open(&s, nonce, aad, sizeof(aad), broken, sizeof(broken)) != 0;
    ok = ok && sw_aead_open(&s, nonce, aad, sizeof(aad), sealed, sizeof(sealed)) == 0;
    ok = ok && memcmp(sealed, plain, sizeof(plain)) == 0;
    sw_aead_wipe(&s);
    return ok;
}

/* FIPS 197, appendix B. */
static bool block_passes(const struct sw_aead_ops *ops)
{
    static const uint8_t key[SW_AEAD_BLOCK] = {0x2b, 0x7e, 0x15, 0x16, 0x28, 0xae, 0xd2, 0xa6,
                                               0xab, 0xf7, 0x15, 0x88, 0x09, 0xcf, 0x4f, 0x3c};
    static const uint8_t in[SW_AEAD_BLOCK] = {0x32, 0x43, 0xf6, 0xa8, 0x88, 0x5a, 0x30, 0x8d,
                                              0x31, 0x31, 0x98, 0xa2, 0xe0, 0x37, 0x07, 0x34};
    static const uint8_t sealed[SW_AEAD_BLOCK] = {0x39, 0x25, 0x84, 0x1d, 0x02, 0xdc, 0x09, 0xfb,
                                                  0xdc, 0x11, 0x85, 0x97, 0x19, 0x6a, 0x0b, 0x32};
    struct sw_aead_block b;
    uint8_t out[SW_AEAD_BLOCK];

    if (!ops->block)
        return true;
    ops->block_expand(key, b.state);
    ops->block(b.state, in, out);
    return memcmp(out, sealed, sizeof(out)) == 0;
}

static bool self_test(const struct sw_aead_ops *ops)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(vectors); i++) {
        if (!vector_passes(ops, vectors[i].alg, vectors[i].tag))
            return false;
    }
    return block_passes(ops);
}

static const struct sw_aead_ops *imb_locked(struct sw_err *err)
{
    if (!g.imb_tried) {
        g.imb_tried = true;
        g.imb = sw_aead_imb_load(&g.imb_err);
        if (g.imb && !self_test(g.imb)) {
            (void)sw_err_set(&g.imb_err, SW_EINVAL, "intel-ipsec-mb fails our test vectors");
            g.imb = NULL;
        }
    }
    if (!g.imb && err)
        *err = g.imb_err;
    return g.imb;
}

static const struct sw_aead_ops *use_locked(void)
{
    const struct sw_aead_ops *ops = atomic_load_explicit(&g.used, memory_order_relaxed);
    struct sw_err err;

    if (ops)
        return ops;
    ops = &sw_aead_gnutls_ops;
    if (g.choice != SW_AEAD_GNUTLS) {
        const struct sw_aead_ops *imb = imb_locked(&err);

        if (imb)
            ops = imb;
        else
            sw_log_debug("tls", "records are sealed by gnutls: %s", err.msg);
    }
    /* Both have failed only on a broken machine; sealing wrongly would be worse than stopping. */
    if (ops == &sw_aead_gnutls_ops && !self_test(ops)) {
        sw_log_error("tls", "no working AEAD: gnutls fails our test vectors");
        abort();
    }
    atomic_store_explicit(&g.used, ops, memory_order_release);
    return ops;
}

static inline const struct sw_aead_ops *ops_in_use(void)
{
    const struct sw_aead_ops *ops = atomic_load_explicit(&g.used, memory_order_acquire);

    if (SW_LIKELY(ops != NULL))
        return ops;
    (void)pthread_mutex_lock(&g.lock);
    ops = use_locked();
    (void)pthread_mutex_unlock(&g.lock);
    return ops;
}

int sw_aead_init(enum sw_aead_choice choice, struct sw_err *err)
{
    const struct sw_aead_ops *used;
    int rc = SW_OK;

    (void)pthread_mutex_lock(&g.lock);
    used = atomic_load_explicit(&g.used, memory_order_relaxed);
    if (used && choice != g.choice)
        rc = sw_err_set(err, SW_EINVAL, "the AEAD back end is already in use (%s)", used->name);
    else if (choice == SW_AEAD_IMB && !imb_locked(err))
        rc = SW_EINVAL;
    else
        g.choice = choice;
    (void)pthread_mutex_unlock(&g.lock);
    return rc;
}

const char *sw_aead_name(void)
{
    const struct sw_aead_ops *ops = atomic_load_explicit(&g.used, memory_order_acquire);

    return ops ? ops->name : "none";
}

const struct sw_aead_ops *sw_aead_backend(enum sw_aead_choice which, struct sw_err *err)
{
    const struct sw_aead_ops *ops = NULL;

    switch (which) {
    case SW_AEAD_AUTO:
        return ops_in_use();
    case SW_AEAD_GNUTLS:
        if (self_test(&sw_aead_gnutls_ops))
            return &sw_aead_gnutls_ops;
        (void)sw_err_set(err, SW_EINVAL, "gnutls fails our test vectors");
        return NULL;
    case SW_AEAD_IMB:
        (void)pthread_mutex_lock(&g.lock);
        ops = imb_locked(err);
        (void)pthread_mutex_unlock(&g.lock);
        return ops;
    }
    return NULL;
}

void sw_aead_expand_with(const struct sw_aead_ops *ops, enum sw_aead_alg alg, const uint8_t *key,
                         struct sw_aead_sched *ret_sched)
{
    ret_sched->alg = (uint8_t)alg;
    ret_sched->ops = ops;
    ops->expand(alg, key, ret_sched);
    ret_sched->live = 1;
}

void sw_aead_expand(enum sw_aead_alg alg, const uint8_t *key, struct sw_aead_sched *ret_sched)
{
    sw_aead_expand_with(ops_in_use(), alg, key, ret_sched);
}

void sw_aead_wipe(struct sw_aead_sched *s)
{
    if (!s->live)
        return;
    s->ops->wipe(s);
    explicit_bzero(s, sizeof(*s));
}

void sw_aead_seal(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out)
{
    s->ops->seal(s, in, out);
}

int sw_aead_open(const struct sw_aead_sched *s, const uint8_t nonce[SW_AEAD_NONCE],
                 const uint8_t *aad, size_t aad_len, uint8_t *buf, size_t n)
{
    const struct sw_aead_input in = {nonce, aad, aad_len, buf, n};

    if (sw_aead_open_to(s, &in, buf) != 0) {
        memset(buf, 0, n);
        return -1;
    }
    return 0;
}

int sw_aead_open_to(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out)
{
    return in->n < SW_AEAD_TAG ? -1 : s->ops->open(s, in, out);
}

bool sw_aead_block_expand(const uint8_t key[SW_AEAD_BLOCK], struct sw_aead_block *ret_block)
{
    const struct sw_aead_ops *ops = ops_in_use();

    if (!ops->block)
        return false;
    ops->block_expand(key, ret_block->state);
    return true;
}

void sw_aead_block(const struct sw_aead_block *b, const uint8_t in[SW_AEAD_BLOCK],
                   uint8_t out[SW_AEAD_BLOCK])
{
    ops_in_use()->block(b->state, in, out);
}
