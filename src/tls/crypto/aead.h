/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authenticated encryption for bulk data, over intel-ipsec-mb where it is installed and passes
 * our own vectors, over GnuTLS otherwise. Nothing is loaded before the first key is expanded.
 */
#pragma once

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/def.h"
#include "base/err.h"

enum sw_aead_alg {
    SW_AEAD_AES_128_GCM,
    SW_AEAD_AES_256_GCM,
    SW_AEAD_CHACHA20_POLY1305,
};

enum sw_aead_choice {
    SW_AEAD_AUTO,   /* imb when it works, else gnutls */
    SW_AEAD_IMB,    /* intel-ipsec-mb or failure */
    SW_AEAD_GNUTLS, /* GnuTLS even where imb is present */
};

enum {
    SW_AEAD_TAG = 16,
    SW_AEAD_NONCE = 12,
    SW_AEAD_KEY_MAX = 32,
    SW_AEAD_BLOCK = 16,
    SW_AEAD_BLOCK_STATE = 11 * SW_AEAD_BLOCK, /* a key for each round */
};

/* A key in the form the back end computes with. Secret: sw_aead_wipe it. Opaque. */
struct sw_aead_sched {
    alignas(64) uint8_t state[1008];
    uint8_t alg;
    uint8_t live; /* 0 after zeroing or wiping */
    uint8_t spare[6];
    const struct sw_aead_ops *ops; /* static */
};

/*
 * Fixes the back end for the life of the process. AUTO and GNUTLS only record the choice (loading
 * waits for the first key); IMB loads and tests the library now, so that a start-up can fail.
 * Without any call the choice is AUTO. Thread-safe.
 *
 * Returns SW_OK, or SW_EINVAL when imb was requested and does not work here, or when another choice
 * is already in use.
 */
SW_NODISCARD int sw_aead_init(enum sw_aead_choice choice, struct sw_err *err);

/* Name of the back end in use, with its kernels: "imb-avx512", "gnutls"; "none" before first use.
 */
const char *sw_aead_name(void);

/* Bytes of key the algorithm takes: 16 or 32. */
size_t sw_aead_key_len(enum sw_aead_alg alg);

/* The algorithm of a cipher of GnuTLS; -1: it is none of them. */
int sw_aead_of_gnutls(int cipher);

/* Prepares *ret_sched from a raw key. Must be undone with sw_aead_wipe. */
void sw_aead_expand(enum sw_aead_alg alg, const uint8_t *key, struct sw_aead_sched *ret_sched);

/* Overwrites and releases; no effect on a zeroed or wiped one. */
void sw_aead_wipe(struct sw_aead_sched *s);

/* What is sealed or opened. Everything is borrowed. */
struct sw_aead_input {
    const uint8_t *nonce; /* SW_AEAD_NONCE bytes */
    const uint8_t *aad;
    size_t aad_len;
    const uint8_t *p; /* plaintext, or ciphertext and tag */
    size_t n;
};

/*
 * Encrypts in->p[0..n) and writes n + 16 bytes to out. in->p and out are equal or do not overlap.
 * n up to 2^30.
 */
void sw_aead_seal(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out);

/*
 * Decrypts buf[0..n), tag included, in place: n - 16 bytes of plaintext remain in front.
 * Returns 0, or -1 when the tag is wrong or n < 16; then buf[0..n) is overwritten with zeros.
 */
SW_NODISCARD int sw_aead_open(const struct sw_aead_sched *s, const uint8_t nonce[SW_AEAD_NONCE],
                              const uint8_t *aad, size_t aad_len, uint8_t *buf, size_t n);

/*
 * As sw_aead_open, from in->p[0..n) to out[0..n - 16), which do not overlap; in->p is only read.
 * Returns 0, or -1 when the tag is wrong or n < 16; then out[0..n - 16) is overwritten with zeros.
 */
SW_NODISCARD int sw_aead_open_to(const struct sw_aead_sched *s, const struct sw_aead_input *in,
                                 uint8_t *out);

/* An AES-128 key for single blocks. Secret: overwrite it. Opaque. */
struct sw_aead_block {
    alignas(16) uint8_t state[SW_AEAD_BLOCK_STATE];
};

/*
 * Prepares *ret_block from a raw key of 16 bytes. False, and nothing is written, when the back end
 * in use computes no single blocks: the caller has to have another way.
 */
bool sw_aead_block_expand(const uint8_t key[SW_AEAD_BLOCK], struct sw_aead_block *ret_block);

/* Encrypts one block. in and out may be equal. */
void sw_aead_block(const struct sw_aead_block *b, const uint8_t in[SW_AEAD_BLOCK],
                   uint8_t out[SW_AEAD_BLOCK]);

/* What a back end provides; public so that tests can compare them. Contracts as above. */
struct sw_aead_ops {
    const char *name;
    void (*expand)(enum sw_aead_alg alg, const uint8_t *key, struct sw_aead_sched *s);
    void (*wipe)(struct sw_aead_sched *s);
    void (*seal)(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out);
    /* in->p and out are equal or do not overlap; n is at least 16. */
    int (*open)(const struct sw_aead_sched *s, const struct sw_aead_input *in, uint8_t *out);
    /* Both or neither. */
    void (*block_expand)(const uint8_t *key, uint8_t *state);
    void (*block)(const uint8_t *state, const uint8_t *in, uint8_t *out);
};

/*
 * One particular back end (AUTO: the one in use), loaded and tested, independent of the choice
 * made. NULL with SW_EINVAL in err when it does not work here. For tests and benchmarks.
 */
const struct sw_aead_ops *sw_aead_backend(enum sw_aead_choice which, struct sw_err *err);

/* As sw_aead_expand with a back end of one's own. */
void sw_aead_expand_with(const struct sw_aead_ops *ops, enum sw_aead_alg alg, const uint8_t *key,
                         struct sw_aead_sched *ret_sched);
