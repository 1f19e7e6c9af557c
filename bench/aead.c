/* SPDX-License-Identifier: Apache-2.0 */
/*
 * aead: the floor under every encrypted path. Seals AES-128-GCM messages of
 * record, packet and ping size in memory, with each library the product may use,
 * and prints GB/s. No I/O, no record layer.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#ifdef HAVE_IPSEC_MB
#include <intel-ipsec-mb.h>
#endif

enum { RUN_MS = 300, IV_LEN = 12, TAG_LEN = 16, MAX_LEN = 16384, BATCH = 64 };

static const size_t sizes[] = {16384, 1280, 64};
static const uint8_t key[16] = "benchmark key 1";
static uint8_t in[MAX_LEN];
static uint8_t out[MAX_LEN + TAG_LEN];
static uint8_t aad[5];

typedef void (*seal_fn)(void *ctx, const uint8_t *iv, size_t len);

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void report(const char *name, seal_fn seal, void *ctx)
{
    uint8_t iv[IV_LEN] = {0};

    printf("%-22s", name);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        double start = now_s();
        double end = start + RUN_MS / 1e3;
        double now = start;
        uint64_t n = 0;

        while (now < end) {
            for (int k = 0; k < BATCH; k++) {
                n++;
                memcpy(iv, &n, sizeof(n));
                seal(ctx, iv, sizes[i]);
            }
            now = now_s();
        }
        printf("  %5zu B %6.2f GB/s", sizes[i], (double)n * (double)sizes[i] / (now - start) / 1e9);
    }
    printf("\n");
}

static void seal_gnutls(void *ctx, const uint8_t *iv, size_t len)
{
    size_t out_len = sizeof(out);

    (void)gnutls_aead_cipher_encrypt(ctx, iv, IV_LEN, aad, sizeof(aad), TAG_LEN, in, len, out,
                                     &out_len);
}

static int run_gnutls(void)
{
    gnutls_datum_t k = {.size = sizeof(key)};
    gnutls_aead_cipher_hd_t h;
    uint8_t copy[sizeof(key)];

    memcpy(copy, key, sizeof(key));
    k.data = copy;
    if (gnutls_aead_cipher_init(&h, GNUTLS_CIPHER_AES_128_GCM, &k) < 0)
        return 1;
    report("gnutls", seal_gnutls, h);
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

    IMB_AES128_GCM_ENC(m->mgr, &m->key, &m->ctx, out, in, len, iv, aad, sizeof(aad), out + len,
                       TAG_LEN);
}

static int run_imb(void)
{
    static struct imb m;
    IMB_ARCH arch;

    m.mgr = alloc_mb_mgr(0);
    if (!m.mgr)
        return 1;
    init_mb_mgr_auto(m.mgr, &arch);
    IMB_AES128_GCM_PRE(m.mgr, key, &m.key);
    report("intel-ipsec-mb", seal_imb, &m);
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

int main(void)
{
    memset(in, 'x', sizeof(in));
    return run_imb() | run_gnutls();
}
