/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/crypto/gnutls.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

int sw_gnutls_err(struct sw_err *err, int rc, int gnutls_rc, const char *what)
{
    return sw_err_set(err, rc, "%s: %s", what, gnutls_strerror(gnutls_rc));
}

bool sw_number_fixed(struct sw_slice number, size_t n, uint8_t *ret)
{
    while (number.n > n && *number.p == 0)
        number = sw_slice_from(number, 1);
    if (number.n > n)
        return false;
    memset(ret, 0, n - number.n);
    memcpy(ret + n - number.n, number.p, number.n);
    return true;
}

void sw_datum_done(void *datum)
{
    gnutls_datum_t *d = datum;

    gnutls_free(d->data);
    d->data = NULL;
}

void sw_crt_done(gnutls_x509_crt_t *crt)
{
    if (*crt)
        gnutls_x509_crt_deinit(*crt);
    *crt = NULL;
}

void sw_key_done(gnutls_x509_privkey_t *key)
{
    if (*key)
        gnutls_x509_privkey_deinit(*key);
    *key = NULL;
}

int sw_crt_import(struct sw_slice in, bool pem, gnutls_x509_crt_t *ret)
{
    gnutls_datum_t d = SW_DATUM(in);
    int rc = gnutls_x509_crt_init(ret);

    if (rc >= 0)
        rc = gnutls_x509_crt_import(*ret, &d, pem ? GNUTLS_X509_FMT_PEM : GNUTLS_X509_FMT_DER);
    else
        *ret = NULL;
    if (rc < 0)
        sw_crt_done(ret);
    return rc;
}

/* Imports pem, or makes a key. */
static int key_new(struct sw_slice pem, bool import, gnutls_x509_privkey_t *ret)
{
    gnutls_datum_t d = SW_DATUM(pem);
    int rc = gnutls_x509_privkey_init(ret);

    if (rc < 0)
        *ret = NULL;
    else if (import)
        rc = gnutls_x509_privkey_import2(*ret, &d, GNUTLS_X509_FMT_PEM, NULL, 0);
    else
        rc = gnutls_x509_privkey_generate(*ret, GNUTLS_PK_ECDSA,
                                          GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0);
    if (rc < 0)
        sw_key_done(ret);
    return rc;
}

int sw_key_import(struct sw_slice pem, gnutls_x509_privkey_t *ret)
{
    return key_new(pem, true, ret);
}

int sw_key_generate(gnutls_x509_privkey_t *ret)
{
    return key_new(sw_slice(NULL, 0), false, ret);
}
