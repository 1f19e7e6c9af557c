/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for keys that others made and keep. */
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/hex.h"
#include "base/time.h"
#include "tls/cert/ca.h"
#include "tls/cert/ca_core.h"
#include "tls/cert/x509.h"
#include "tls/crypto/gnutls.h"

enum { BACK_DATE_S = 120, DAY_S = 86400, SERIAL_MAX = 32 };

/* Nothing else of the request is needed to refuse it. */
static int check_size(gnutls_x509_crq_t crq, struct sw_err *err)
{
    SW_AUTO_DATUM m = {0};
    SW_AUTO_DATUM e = {0};

    if (gnutls_x509_crq_get_key_rsa_raw(crq, &m, &e) < 0)
        return SW_OK; /* of a kind whose sizes are fixed */
    if (!sw_rsa_too_large(sw_slice(m.data, m.size), sw_slice(e.data, e.size)))
        return SW_OK;
    return sw_err_set(err, SW_EINVAL,
                      "CSR: an RSA key of more than %d bits, or with an exponent of more than %d "
                      "bytes, is not signed",
                      SW_RSA_BITS_MAX, SW_RSA_EXPONENT_MAX);
}

/* Weak keys would outlive the request: no later step checks them again. */
static int check_key(gnutls_pubkey_t key, struct sw_err *err)
{
    unsigned bits = 0;
    int algo = gnutls_pubkey_get_pk_algorithm(key, &bits);

    if (algo < 0)
        return sw_gnutls_err(err, SW_EINVAL, algo, "CSR: key");
    if (algo != GNUTLS_PK_RSA && algo != GNUTLS_PK_ECDSA && algo != GNUTLS_PK_EDDSA_ED25519)
        return sw_err_set(err, SW_EINVAL, "CSR: keys of kind %s are not signed",
                          gnutls_pk_get_name((gnutls_pk_algorithm_t)algo));
    if (gnutls_pk_bits_to_sec_param((gnutls_pk_algorithm_t)algo, bits) < GNUTLS_SEC_PARAM_MEDIUM)
        return sw_err_set(err, SW_EINVAL, "CSR: a key of %u bits is too weak", bits);
    return SW_OK;
}

/* The key of a request whose signature is good: keys that are not signed are not computed with. */
static int take_key(gnutls_x509_crq_t crq, gnutls_pubkey_t key, struct sw_err *err)
{
    int rc;

    if (gnutls_pubkey_import_x509_crq(key, crq, 0) < 0)
        return sw_err_set(err, SW_EINVAL, "CSR: the key does not parse");
    rc = check_key(key, err);
    if (rc == SW_OK)
        rc = check_size(crq, err);
    if (rc == SW_OK && gnutls_x509_crq_verify(crq, 0) < 0)
        rc = sw_err_set(err, SW_EINVAL, "CSR: not signed by its own key");
    return rc;
}

int sw_ca_read_csr(struct sw_slice csr, gnutls_pubkey_t *ret, struct sw_err *err)
{
    gnutls_datum_t d = SW_DATUM(csr);
    gnutls_x509_crq_t crq = NULL;
    gnutls_pubkey_t key = NULL;
    int rc;

    if (csr.n > SW_CA_CSR_MAX)
        return sw_err_set(err, SW_EINVAL, "CSR: too large");
    rc = gnutls_x509_crq_init(&crq);
    if (rc >= 0)
        rc = gnutls_pubkey_init(&key);
    if (rc >= 0)
        rc = gnutls_x509_crq_import(crq, &d, GNUTLS_X509_FMT_PEM);
    if (rc < 0)
        rc = sw_gnutls_err(err, SW_EINVAL, rc, "CSR does not parse");
    else
        rc = take_key(crq, key, err);
    if (crq)
        gnutls_x509_crq_deinit(crq);
    if (rc == SW_OK)
        *ret = key;
    else if (key)
        gnutls_pubkey_deinit(key);
    return rc;
}

static void copy_serial(gnutls_x509_crt_t crt, char out[65])
{
    uint8_t serial[SERIAL_MAX];
    size_t n = sizeof(serial);

    out[0] = 0;
    if (gnutls_x509_crt_get_serial(crt, serial, &n) < 0)
        return;
    *sw_hex_write(out, serial, n) = 0;
}

static int sign(const struct sw_ca *ca, const struct sw_ca_leaf *leaf, gnutls_pubkey_t key,
                struct sw_buf *ret_cert, struct sw_ca_signed *ret, struct sw_err *err)
{
    int64_t begin = leaf->not_before_s ? leaf->not_before_s : -BACK_DATE_S;
    uint64_t from_s = (uint64_t)((int64_t)(sw_wall_ns() / SW_NS_PER_S) + begin);
    SW_AUTO_CRT crt = NULL;
    int rc = gnutls_x509_crt_init(&crt);

    if (rc >= 0)
        rc = gnutls_x509_crt_set_pubkey(crt, key);
    if (rc >= 0)
        rc = sw_ca_sign_leaf(ca, crt, leaf->id,
                             GNUTLS_KEY_DIGITAL_SIGNATURE | GNUTLS_KEY_KEY_ENCIPHERMENT, from_s,
                             ret->not_after_s);
    if (rc < 0)
        rc = sw_gnutls_err(err, SW_EINVAL, rc, "cannot sign");
    else
        rc = sw_ca_export(crt, ret_cert, err);
    if (rc == SW_OK)
        copy_serial(crt, ret->serial);
    return rc;
}

int sw_ca_sign(const struct sw_ca *ca, const struct sw_ca_leaf *leaf, struct sw_slice csr,
               struct sw_buf *ret_cert, struct sw_ca_signed *ret, struct sw_err *err)
{
    uint64_t to_s = sw_wall_ns() / SW_NS_PER_S + (leaf->ttl_s ? leaf->ttl_s : DAY_S);
    gnutls_pubkey_t key = NULL;
    int rc = sw_ca_check_leaf(ca, leaf, err);

    if (rc != SW_OK)
        return rc;
    *ret = (struct sw_ca_signed){.not_after_s = sw_min(to_s, sw_x509_not_after(ca->root))};
    rc = sw_ca_read_csr(csr, &key, err);
    if (rc != SW_OK)
        return rc;
    rc = sign(ca, leaf, key, ret_cert, ret, err);
    gnutls_pubkey_deinit(key);
    return rc;
}
