/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AEAD by intel-ipsec-mb, opened at run time so that the same binary works without it and nothing
 * of it is mapped until the first key. Only the direct calls are used; they do not touch the
 * library's manager, so their addresses are kept and the manager (200 KB) is given back.
 */
#include "tls/crypto/aead_int.h"

#ifndef SW_HAVE_IMB

const struct sw_aead_ops *sw_aead_imb_load(struct sw_err *err)
{
    (void)sw_err_set(err, SW_EINVAL, "built without intel-ipsec-mb");
    return NULL;
}

#else

#include <dlfcn.h>
#include <stdalign.h>
#include <string.h>

#define NO_COMPAT_IMB_API_053 1
#include <intel-ipsec-mb.h>

#include "base/trim.h"

#if IMB_VERSION_NUM >= IMB_VERSION(2, 0, 0)
#define SONAME "libIPSec_MB.so.2"
#else
#define SONAME "libIPSec_MB.so.1"
#endif

/* The header aligns the structure only under a macro of its own: size is what we rely on. */
_Static_assert(sizeof(struct gcm_key_data) <= sizeof(((struct sw_aead_sched *)0)->state),
               "schedule too small");

/* The calls for this CPU; written once under the lock of aead.c. */
static struct {
    aes_gcm_pre_t pre[2];
    aes_gcm_enc_dec_t enc[2];
    aes_gcm_enc_dec_t dec[2];
    chacha_poly_init_t chacha_init;
    chacha_poly_enc_dec_update_t chacha_enc;
    chacha_poly_enc_dec_update_t chacha_dec;
    chacha_poly_finalize_t chacha_final;
    keyexp_t block_keys;
    aes_cfb_t block;
} fn;

static int size_of(const struct sw_aead_sched *s)
{
    return s->alg == SW_AEAD_AES_128_GCM ? 0 : 1;
}

static void expand(enum sw_aead_alg alg, const uint8_t *key, struct sw_aead_sched *s)
{
    if (alg == SW_AEAD_CHACHA20_POLY1305)
        memcpy(s->state, key, 32);
    else
        fn.pre[alg == SW_AEAD_AES_128_GCM ? 0 : 1](key, (struct gcm_key_data *)(void *)s->state);
}

static void wipe(struct sw_aead_sched *s)
{
    (void)s; /* the caller overwrites it; nothing else is held */
}

static void seal(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out)
{
    size_t n = in->n;

    if (s->alg == SW_AEAD_CHACHA20_POLY1305) {
        struct chacha20_poly1305_context_data ctx;

        fn.chacha_init(s->state, &ctx, in->nonce, in->aad, in->aad_len);
        if (n > 0)
            fn.chacha_enc(s->state, &ctx, out, in->p, n);
        fn.chacha_final(&ctx, out + n, SW_AEAD_TAG);
    } else {
        struct gcm_context_data ctx;

        fn.enc[size_of(s)]((const struct gcm_key_data *)(const void *)s->state, &ctx, out, in->p, n,
                           in->nonce, in->aad, in->aad_len, out + n, SW_AEAD_TAG);
    }
}

/* Looks at every byte whatever the outcome, so that time tells nothing about the tag. */
static int tags_differ(const uint8_t *a, const uint8_t *b)
{
    uint64_t x[2];
    uint64_t y[2];
    uint64_t diff;

    _Static_assert(sizeof(x) == SW_AEAD_TAG, "a tag is two words");
    memcpy(x, a, sizeof(x));
    memcpy(y, b, sizeof(y));
    diff = (x[0] ^ y[0]) | (x[1] ^ y[1]);
    __asm__("" : "+r"(diff)); /* or the compiler may compare word by word and stop early */
    return diff != 0;
}

static int open_to(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out)
{
    size_t len = in->n - SW_AEAD_TAG;
    uint8_t tag[SW_AEAD_TAG];

    if (s->alg == SW_AEAD_CHACHA20_POLY1305) {
        struct chacha20_poly1305_context_data ctx;

        fn.chacha_init(s->state, &ctx, in->nonce, in->aad, in->aad_len);
        if (len > 0)
            fn.chacha_dec(s->state, &ctx, out, in->p, len);
        fn.chacha_final(&ctx, tag, SW_AEAD_TAG);
    } else {
        struct gcm_context_data ctx;

        fn.dec[size_of(s)]((const struct gcm_key_data *)(const void *)s->state, &ctx, out, in->p,
                           len, in->nonce, in->aad, in->aad_len, tag, SW_AEAD_TAG);
    }
    if (tags_differ(tag, in->p + len)) {
        explicit_bzero(out, len);
        return -1;
    }
    return 0;
}

static void block_expand(const uint8_t *key, uint8_t *state)
{
    alignas(16) uint8_t unused[SW_AEAD_BLOCK_STATE]; /* for decryption */

    fn.block_keys(key, state, unused);
    explicit_bzero(unused, sizeof(unused));
}

/* One block of CFB is the encrypted IV, with the input, zeros, put over it. */
static void block(const uint8_t *state, const uint8_t *in, uint8_t *out)
{
    static const uint8_t zero[SW_AEAD_BLOCK];

    fn.block(out, zero, in, state, SW_AEAD_BLOCK);
}

static struct sw_aead_ops ops = {
    .name = "imb",
    .expand = expand,
    .wipe = wipe,
    .seal = seal,
    .open = open_to,
    .block_expand = block_expand,
    .block = block,
};

static const char *arch_name(IMB_ARCH arch)
{
    switch (arch) {
    case IMB_ARCH_SSE:
        return "imb-sse";
    case IMB_ARCH_AVX:
        return "imb-avx";
    case IMB_ARCH_AVX2:
        return "imb-avx2";
    case IMB_ARCH_AVX512:
        return "imb-avx512";
    case IMB_ARCH_NONE:
    case IMB_ARCH_NOAESNI:
    case IMB_ARCH_NUM:
    default:
        return NULL;
    }
}

static void take_calls(const IMB_MGR *m)
{
    fn.pre[0] = m->gcm128_pre;
    fn.pre[1] = m->gcm256_pre;
    fn.enc[0] = m->gcm128_enc;
    fn.enc[1] = m->gcm256_enc;
    fn.dec[0] = m->gcm128_dec;
    fn.dec[1] = m->gcm256_dec;
    fn.chacha_init = m->chacha20_poly1305_init;
    fn.chacha_enc = m->chacha20_poly1305_enc_update;
    fn.chacha_dec = m->chacha20_poly1305_dec_update;
    fn.chacha_final = m->chacha20_poly1305_finalize;
    fn.block_keys = m->keyexp_128;
    fn.block = m->aes128_cfb_one;
}

static const char *set_up(void *lib)
{
    IMB_MGR *(*alloc_mgr)(uint64_t);
    void (*init_mgr)(IMB_MGR *, IMB_ARCH *);
    void (*free_mgr)(IMB_MGR *);
    unsigned (*version)(void);
    IMB_ARCH arch = IMB_ARCH_NONE;
    const uint64_t tested = IMB_FEATURE_SELF_TEST | IMB_FEATURE_SELF_TEST_PASS;
    const char *why = NULL;
    IMB_MGR *m;

    *(void **)&alloc_mgr = dlsym(lib, "alloc_mb_mgr");
    *(void **)&init_mgr = dlsym(lib, "init_mb_mgr_auto");
    *(void **)&free_mgr = dlsym(lib, "free_mb_mgr");
    *(void **)&version = dlsym(lib, "imb_get_version");
    if (!alloc_mgr || !init_mgr || !free_mgr || !version)
        return "lacks the calls we need";
    /* The layout of the manager belongs to the version we were built for. */
    if (version() >> 16 != IMB_VERSION_NUM >> 16 || version() < IMB_VERSION_NUM)
        return "is another version than the one built for";
    m = alloc_mgr(0);
    if (!m)
        return "has no memory";
    init_mgr(m, &arch);
    if (arch_name(arch) == NULL || !m->gcm128_enc || !m->chacha20_poly1305_init || !m->keyexp_128 ||
        !m->aes128_cfb_one)
        why = "has no kernels for this CPU";
    else if ((m->features & tested) != tested)
        why = "fails its own self-test";
    else
        take_calls(m);
    if (!why)
        ops.name = arch_name(arch);
    free_mgr(m);
    return why;
}

const struct sw_aead_ops *sw_aead_imb_load(struct sw_err *err)
{
    /* Never closed: its code runs as long as the process does. */
    void *lib = dlopen(SONAME, RTLD_NOW | RTLD_LOCAL);
    const char *why = lib ? set_up(lib) : "is not installed";

    if (why) {
        if (lib)
            (void)dlclose(lib);
        (void)sw_err_set(err, SW_EINVAL, "intel-ipsec-mb (%s) %s", SONAME, why);
        return NULL;
    }
    sw_trim_text("libIPSec_MB"); /* the self-test walked through megabytes never run again */
    return &ops;
}

#endif
