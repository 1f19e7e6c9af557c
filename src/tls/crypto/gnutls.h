/* SPDX-License-Identifier: Apache-2.0 */
/* GnuTLS in our terms: results, texts, and objects that free themselves. */
#pragma once

#include "base/err.h"
#include "base/slice.h"

struct gnutls_x509_crt_int;
struct gnutls_x509_privkey_int;

/* Text of a GnuTLS result. */
int sw_gnutls_err(struct sw_err *err, int rc, int gnutls_rc, const char *what);

/* A big-endian number, zeros in front or not, in exactly n bytes. False: it needs more. */
bool sw_number_fixed(struct sw_slice number, size_t n, uint8_t *ret);

/* A slice as a gnutls_datum_t, which does not say that the library only reads it. */
#define SW_DATUM(s)                                                                                \
    ((gnutls_datum_t){.data = (unsigned char *)(uintptr_t)(s).p, .size = (unsigned)(s).n})

/* Local variables that free at the end of their scope what the library put into them. */
#define SW_AUTO_DATUM __attribute__((cleanup(sw_datum_done))) gnutls_datum_t
#define SW_AUTO_CRT   __attribute__((cleanup(sw_crt_done))) gnutls_x509_crt_t
#define SW_AUTO_KEY   __attribute__((cleanup(sw_key_done))) gnutls_x509_privkey_t
/* What they call; datum points to a gnutls_datum_t. Empty ones are fine, and left behind. */
void sw_datum_done(void *datum);
void sw_crt_done(struct gnutls_x509_crt_int **crt);
void sw_key_done(struct gnutls_x509_privkey_int **key);

/* A certificate: PEM or DER. A result of GnuTLS; nothing is left in *ret when it is negative. */
int sw_crt_import(struct sw_slice in, bool pem, struct gnutls_x509_crt_int **ret);
/* The same of a private key (PEM), and of a new one for P-256. */
int sw_key_import(struct sw_slice pem, struct gnutls_x509_privkey_int **ret);
int sw_key_generate(struct gnutls_x509_privkey_int **ret);
