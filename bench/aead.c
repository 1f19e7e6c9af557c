/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aead [256]: the floor under every encrypted path. Seals AES-128-GCM messages (or AES-256-GCM) of
 * record, packet and ping size in memory, opens those of record size, with each library the
 * product may use, and prints GB/s. No I/O, no record layer.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#ifdef HAVE_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif

enum { RUN_MS = 300, IV_LEN = 12, TAG_LEN = 16, MAX_LEN = 16384, BATCH = 64 };

static const size_t sizes[] = {16384, 1280, 64};
static const uint8_t key[32] = "benchmark key: 32 bytes or 16";
static size_t key_len = 16;
static const uint8_t zero_iv[IV_LEN];
static uint8_t in[MAX_LEN];
static uint8_t out[MAX_LEN + TAG_LEN];
static uint8_t aad[5];

typedef void (*aead_fn)(void *ctx, const uint8_t *iv, size_t len);

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void measure(aead_fn fn, void *ctx, size_t size, bool same_iv)
{
    uint8_t iv[IV_LEN] = {0};
    double start = now_s();
    double end = start + RUN_MS / 1e3;
    double now = start;
    uint64_t n = 0;

    while (now < end) {
        for (int k = 0; k < BATCH; k++) {
            n++;
            if (!same_iv)
                memcpy(iv, &n, sizeof(n));
            fn(ctx, iv, size);
        }
        now = now_s();
    }
    printf("  %5zu B %6.2f GB/s", size, (double)n * (double)size / (now - start) / 1e9);
}

/* Opens the one message that is right, again and again. */
static void report(const char *name, aead_fn seal, aead_fn open, void *ctx)
{
    printf("%-22s", name);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure(seal, ctx, sizes[i], false);
    printf("\n%-22s", name);
    seal(ctx, zero_iv, sizes[0]);
    measure(open, ctx, sizes[0], true);
    printf(" opened\n");
}

static void seal_gnutls(void *ctx, const uint8_t *iv, size_t len)
{
    size_t out_len = sizeof(out);

    (void)gnutls_aead_cipher_encrypt(ctx, iv, IV_LEN, aad, sizeof(aad), TAG_LEN, in, len, out,
                                     &out_len);
}

static void open_gnutls(void *ctx, const uint8_t *iv, size_t len)
{
    static uint8_t back[MAX_LEN];
    size_t back_len = sizeof(back);

    if (gnutls_aead_cipher_decrypt(ctx, iv, IV_LEN, aad, sizeof(aad), TAG_LEN, out, len + TAG_LEN,
                                   back, &back_len) < 0)
        abort();
}

static int run_gnutls(void)
{
    gnutls_datum_t k = {.size = (unsigned)key_len};
    gnutls_aead_cipher_hd_t h;
    uint8_t copy[sizeof(key)];

    memcpy(copy, key, sizeof(key));
    k.data = copy;
    if (gnutls_aead_cipher_init(
            &h, key_len == 32 ? GNUTLS_CIPHER_AES_256_GCM : GNUTLS_CIPHER_AES_128_GCM, &k) < 0)
        return 1;
    report("gnutls", seal_gnutls, open_gnutls, h);
    gnutls_aead_cipher_deinit(h);
    return 0;
}

#ifdef HAVE_IPSEC_MB
struct imb {
    IMB_MGR *mgr;
    _Alignas(64) struct gcm_key_data key; /* the library stores into it with aligned moves */
    struct gcm_context_data ctx;
};

static void seal_imb(void *arg, const uint8_t *iv, size_t len)
{
    struct imb *m = arg;

    if (key_len == 32)
        IMB_AES256_GCM_ENC(m->mgr, &m->key, &m->ctx, out, in, len, iv, aad, sizeof(aad), out + len,
                           TAG_LEN);
    else
        IMB_AES128_GCM_ENC(m->mgr, &m->key, &m->ctx, out, in, len, iv, aad, sizeof(aad), out + len,
                           TAG_LEN);
}

static void open_imb(void *arg, const uint8_t *iv, size_t len)
{
    static uint8_t back[MAX_LEN];
    uint8_t tag[TAG_LEN];
    struct imb *m = arg;

    if (key_len == 32)
        IMB_AES256_GCM_DEC(m->mgr, &m->key, &m->ctx, back, out, len, iv, aad, sizeof(aad), tag,
                           TAG_LEN);
    else
        IMB_AES128_GCM_DEC(m->mgr, &m->key, &m->ctx, back, out, len, iv, aad, sizeof(aad), tag,
                           TAG_LEN);
    if (memcmp(tag, out + len, TAG_LEN) != 0)
        abort();
}

static int run_imb(void)
{
    static struct imb m;
    IMB_ARCH arch;

    m.mgr = alloc_mb_mgr(0);
    if (!m.mgr)
        return 1;
    init_mb_mgr_auto(m.mgr, &arch);
    if (key_len == 32)
        IMB_AES256_GCM_PRE(m.mgr, key, &m.key);
    else
        IMB_AES128_GCM_PRE(m.mgr, key, &m.key);
    report("intel-ipsec-mb", seal_imb, open_imb, &m);
    free_mb_mgr(m.mgr);
    return 0;
}
#else
static int run_imb(void)
{
    printf("intel-ipsec-mb         absent\n");
    return 0;
}
#endif

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "256") == 0)
        key_len = 32;
    memset(in, 'x', sizeof(in));
    return run_imb() | run_gnutls();
}
