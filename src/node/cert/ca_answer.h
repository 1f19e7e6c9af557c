/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a certificate authority and its answers as bytes (istio.v1.auth). No I/O. */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "tls/cert/cred.h"

enum {
    SW_CA_ANSWER_MAX = 1 << 20, /* bytes of an answer */
    SW_CA_ELEMENTS_MAX = 32,    /* of its list: leaf, intermediates, root bundle */
};

/*
 * An encoded IstioCertificateRequest, in the arena. 'impersonate' names the identity in the
 * metadata, as a node does that asks for its workloads; empty: the caller's own certificate.
 */
struct sw_slice sw_ca_request(struct sw_arena *a, struct sw_slice csr, uint64_t ttl_s,
                              struct sw_slice impersonate);

struct sw_ca_expect {
    struct sw_slice identity; /* the leaf must have it */
    struct sw_slice key;      /* PKCS#8 PEM of the request */
    struct sw_slice crl;
};

/*
 * The credential an encoded IstioCertificateResponse makes: the leaf first, then intermediates (of
 * each element only the first certificate counts), the bundle of roots last. Refuses, with
 * SW_EPROTO or SW_EDENIED and the reason: no such message, fewer than two elements, a leaf of
 * another identity or another key, a chain that leads to none of the roots, one not valid now.
 */
SW_NODISCARD struct sw_tls_cred *sw_ca_answer(struct sw_slice msg, const struct sw_ca_expect *e,
                                              struct sw_err *err);
