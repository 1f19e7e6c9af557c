/* SPDX-License-Identifier: Apache-2.0 */
/* Facts read out of certificates, shared by the files of this directory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

struct gnutls_x509_crt_int;
struct gnutls_x509_privkey_int;

/*
 * The largest keys of peers whose signatures are checked. What a signature costs grows with the
 * cube of the numbers, which the peer chooses: with 64 KiB of them it takes minutes.
 */
enum {
    SW_RSA_BITS_MAX = 8192,
    SW_RSA_EXPONENT_MAX = 8, /* bytes; the usual one is 65537 */
};
/* Big-endian numbers; zeros in front do not count. */
bool sw_rsa_too_large(struct sw_slice modulus, struct sw_slice exponent);
/* True for a certificate (DER) with such a key; false also when it does not parse. */
bool sw_x509_key_too_large(struct sw_slice der);

/*
 * URI SANs of a certificate that parse as SPIFFE identities, in order, copied into a. Others are
 * passed over. Returns SW_OK with *ret_n possibly 0, SW_EINVAL (extension does not parse) or
 * SW_ELIMIT (more than max identities).
 */
SW_NODISCARD int sw_x509_spiffe_uris(struct gnutls_x509_crt_int *crt, struct sw_arena *a,
                                     size_t max, struct sw_slice *ret_uris, size_t *ret_n,
                                     struct sw_err *err);

/*
 * How many URI SANs have the scheme "spiffe", in a known form or not. A certificate has one
 * identity (SPIFFE X.509-SVID, 2): with two, one rule could look at the first and another at the
 * second.
 */
size_t sw_x509_count_spiffe(struct gnutls_x509_crt_int *crt);

/* All URI SANs as they are, invalid ones included, at most max of them. */
size_t sw_x509_uris(struct gnutls_x509_crt_int *crt, struct sw_arena *a, size_t max,
                    struct sw_slice *ret_uris);

/* Serial number as bytes (big-endian) and as decimal text, copied into a. */
struct sw_slice sw_x509_serial(struct gnutls_x509_crt_int *crt, struct sw_arena *a);
struct sw_slice sw_x509_decimal(struct sw_slice big_endian, struct sw_arena *a);
/* Issuer's and subject's names as DER, copied into a. */
struct sw_slice sw_x509_issuer(struct gnutls_x509_crt_int *crt, struct sw_arena *a);

/*
 * Common name (the first; empty when there is none) and organisations of the subject, in order and
 * copied into a. Returns how many organisations there are, at most max; values that are not plain
 * text are passed over.
 */
size_t sw_x509_subject_names(struct gnutls_x509_crt_int *crt, struct sw_arena *a,
                             struct sw_slice *ret_cn, size_t max, struct sw_slice *ret_orgs);

/* Seconds since the epoch; 0 when the library cannot tell. */
uint64_t sw_x509_not_before(struct gnutls_x509_crt_int *crt);
uint64_t sw_x509_not_after(struct gnutls_x509_crt_int *crt);

/* SHA-256 over several pieces, each preceded by its length, so that no two lists collide. */
void sw_x509_digest(const struct sw_slice *pieces, size_t n, uint8_t ret[32]);

/* True when the certificate is for the public half of this key. */
bool sw_x509_same_key(struct gnutls_x509_crt_int *crt, struct gnutls_x509_privkey_int *key);

/* The bytes of an IP address, as certificates have them: 4, 16, or 0 when the text is none. */
unsigned sw_x509_ip_bytes(const char *text, uint8_t ret[16]);

/*
 * Is the certificate (DER) for this host? DNS names are compared without case against the dNSName
 * entries, where "*" stands for exactly one whole leftmost label; IP addresses against the
 * iPAddress entries, bytewise. The common name does not count (RFC 6125, 6.4.4; RFC 9525).
 *
 * Returns SW_OK, or SW_EDENIED naming what the certificate is for.
 */
SW_NODISCARD int sw_x509_check_host(struct sw_slice der, struct sw_slice host, struct sw_err *err);

/* A subject alternative name as text: addresses as people write them. */
enum sw_x509_san_kind { SW_X509_SAN_EMAIL, SW_X509_SAN_DNS, SW_X509_SAN_URI, SW_X509_SAN_IP };

struct sw_x509_san {
    enum sw_x509_san_kind kind;
    struct sw_slice text;
};

enum { SW_X509_SANS_MAX = 1024 };

/*
 * Calls fn for every subject alternative name of a certificate (DER) of these kinds, until it
 * returns true; names with a NUL inside are passed over. True when fn returned true; false too when
 * the certificate does not parse.
 */
bool sw_x509_any_san(struct sw_slice der, bool (*fn)(const struct sw_x509_san *san, void *arg),
                     void *arg);
/* Is a dNSName entry (maybe "*.x") for this name? The rules of sw_x509_check_host. */
bool sw_x509_name_covers(struct sw_slice entry, struct sw_slice name);
/* Is the name this domain or below it? */
bool sw_x509_name_under(struct sw_slice name, struct sw_slice domain);
/* SHA-256 of the certificate's SubjectPublicKeyInfo (RFC 7469). SW_EINVAL: it does not parse. */
SW_NODISCARD int sw_x509_spki_sha256(struct sw_slice der, uint8_t ret[32], struct sw_err *err);
