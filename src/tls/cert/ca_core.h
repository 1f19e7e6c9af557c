/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a CA, for the files of this directory. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

struct gnutls_x509_crt_int;
struct gnutls_pubkey_st;
struct gnutls_x509_privkey_int;

/* Immutable after it was made, so several threads may sign with it. */
struct sw_ca {
    struct gnutls_x509_crt_int *root;
    struct gnutls_x509_privkey_int *key;
    struct sw_arena arena;
    struct sw_slice root_pem;
    struct sw_slice trust_domain;
    const struct sw_slice *domains; /* of sw_ca_scope; in the arena */
    size_t n_domains;
};

enum { SW_CA_SAN_MAX = 4096 }; /* bytes of such an extension */

/* Results of GnuTLS: negative on failure. */
/* Version, a new serial number, and times. */
int sw_ca_begin(struct gnutls_x509_crt_int *crt, uint64_t from_s, uint64_t to_s);
int sw_ca_set_usage(struct gnutls_x509_crt_int *crt, unsigned is_ca, unsigned usage);
int sw_ca_set_purposes(struct gnutls_x509_crt_int *crt, bool server, bool client);
/* Names the keys of both, and signs. */
int sw_ca_end(const struct sw_ca *ca, struct gnutls_x509_crt_int *crt);
int sw_ca_set_key_ids(struct gnutls_x509_crt_int *crt, struct gnutls_x509_crt_int *issuer);
/* DER value of a subjectAltName extension with this one URI, appended to ret. */
int sw_ca_uri_san(struct sw_slice uri, struct sw_buf *ret);
int sw_ca_set_uri(struct gnutls_x509_crt_int *crt, struct sw_slice uri, unsigned critical);
/* The certificate was made or loaded: fills what is derived from it. SW_OK or an error of ours. */
int sw_ca_finish_root(struct sw_ca *ca, struct sw_err *err);
struct sw_ca_leaf;
/* May the CA sign this? SW_OK, SW_EINVAL or SW_EDENIED. */
int sw_ca_check_leaf(const struct sw_ca *ca, const struct sw_ca_leaf *leaf, struct sw_err *err);
/* A certificate for a new key, to be filled, signed and given to sw_ca_end_leaf. NULL before. */
int sw_ca_begin_leaf(struct gnutls_x509_crt_int **ret_crt,
                     struct gnutls_x509_privkey_int **ret_key);
/* Appends it as PEM. SW_OK or an error of ours. */
int sw_ca_export(struct gnutls_x509_crt_int *crt, struct sw_buf *ret, struct sw_err *err);
/* Fills and signs that of a workload, whose key is set. */
int sw_ca_sign_leaf(const struct sw_ca *ca, struct gnutls_x509_crt_int *crt, struct sw_slice id,
                    unsigned usage, uint64_t from_s, uint64_t to_s);
/* Appends both as PEM, unless rc, the result of GnuTLS so far, is an error. SW_OK or ours. */
int sw_ca_end_leaf(int rc, struct gnutls_x509_crt_int *crt, struct gnutls_x509_privkey_int *key,
                   struct sw_buf *ret_chain, struct sw_buf *ret_key, struct sw_err *err);
/*
 * The public key of a request (PEM) that proves to have the private one; the caller deinits it.
 * SW_OK or SW_EINVAL.
 */
int sw_ca_read_csr(struct sw_slice csr, struct gnutls_pubkey_st **ret, struct sw_err *err);
