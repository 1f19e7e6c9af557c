/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate authority of a mesh, read from a directory: a root of our own (root.crt,
 * root.key, made when the directory is empty; further trusted roots in roots.pem), or one plugged
 * in below another (ca-cert.pem, ca-key.pem, cert-chain.pem, root-cert.pem; or tls.crt, tls.key,
 * ca.crt). Changed files are read again: a new root bundle must contain the old one or be contained
 * in it, so that no peer is left with roots that nobody else trusts.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"

struct sw_authority;
struct sw_ca_signed;
struct sw_tls_cred;

struct sw_authority_opts {
    const char *dir;              /* copied */
    struct sw_slice trust_domain; /* copied */
    /* Roots or chain changed; from the loop. */
    void (*on_change)(void *arg);
    void *arg;
};

/* NULL with err: the directory holds no CA, or not all of one. */
SW_NODISCARD struct sw_authority *
sw_authority_new(struct sw_loop *l, const struct sw_authority_opts *o, struct sw_err *err);
/* NULL is fine. */
void sw_authority_free(struct sw_authority *a);

struct sw_slice sw_authority_trust_domain(const struct sw_authority *a);
/* Certificates between a leaf and the roots, one PEM text each, the signer's first. */
size_t sw_authority_chain(const struct sw_authority *a, const struct sw_slice **ret);
/* All roots that peers shall trust, PEM. Both live until on_change returns. */
struct sw_slice sw_authority_roots(const struct sw_authority *a);

/* As sw_ca_sign. */
SW_NODISCARD int sw_authority_sign(const struct sw_authority *a, struct sw_slice id, uint64_t ttl_s,
                                   struct sw_slice csr, struct sw_buf *ret_cert,
                                   struct sw_ca_signed *ret, struct sw_err *err);
/* A server's credential with these names (ends with NULL), which trusts the roots. NULL with err.
 */
SW_NODISCARD struct sw_tls_cred *sw_authority_cred(const struct sw_authority *a,
                                                   const char *const *names, struct sw_err *err);
