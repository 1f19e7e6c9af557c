/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/csr.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "tls/cert/ca_core.h"
#include "tls/cert/spiffe.h"
#include "tls/crypto/gnutls.h"
#include "tls/crypto/pkcs8.h"

static int build(gnutls_x509_crq_t crq, gnutls_x509_privkey_t key, struct sw_slice identity)
{
    SW_BUF_AUTO san = {.max = SW_CA_SAN_MAX};
    int rc = sw_ca_uri_san(identity, &san);

    if (rc >= 0)
        rc = gnutls_x509_crq_set_version(crq, 1);
    if (rc >= 0)
        rc = gnutls_x509_crq_set_key(crq, key);
    if (rc >= 0)
        rc = gnutls_x509_crq_set_extension_by_oid(crq, GNUTLS_X509EXT_OID_SAN, sw_buf_data(&san),
                                                  sw_buf_len(&san), 1);
    return rc < 0 ? rc : gnutls_x509_crq_sign2(crq, key, GNUTLS_DIG_SHA256, 0);
}

static int export_request(gnutls_x509_crq_t crq, struct sw_buf *ret_csr)
{
    SW_AUTO_DATUM der = {0};
    SW_AUTO_DATUM pem = {0};
    int rc = gnutls_x509_crq_export2(crq, GNUTLS_X509_FMT_DER, &der);

    /* The library's own PEM label is NEW CERTIFICATE REQUEST, which RFC 7468 only tolerates. */
    if (rc >= 0)
        rc = gnutls_pem_base64_encode2("CERTIFICATE REQUEST", &der, &pem);
    if (rc >= 0 && sw_buf_append(ret_csr, pem.data, pem.size) != SW_OK)
        rc = GNUTLS_E_SHORT_MEMORY_BUFFER;
    return rc;
}

/* rc: of making the key. */
static int request(int rc, gnutls_x509_privkey_t key, struct sw_slice identity,
                   struct sw_buf *ret_csr, struct sw_err *err)
{
    gnutls_x509_crq_t crq = NULL;

    if (rc >= 0)
        rc = gnutls_x509_crq_init(&crq);
    if (rc >= 0)
        rc = build(crq, key, identity);
    if (rc >= 0)
        rc = export_request(crq, ret_csr);
    if (crq)
        gnutls_x509_crq_deinit(crq);
    if (rc == GNUTLS_E_SHORT_MEMORY_BUFFER)
        return sw_err_set(err, SW_ELIMIT, "no room for the signing request");
    return rc < 0 ? sw_gnutls_err(err, SW_EINVAL, rc, "cannot make a signing request") : SW_OK;
}

int sw_csr_new(struct sw_slice identity, struct sw_buf *ret_csr, struct sw_buf *ret_key,
               struct sw_err *err)
{
    SW_AUTO_KEY key = NULL;
    struct sw_spiffe id;
    int rc = sw_spiffe_parse(identity, &id, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_key_generate(&key);
    rc = request(rc, key, identity, ret_csr, err);
    return rc == SW_OK ? sw_pkcs8_pem(key, ret_key, err) : rc;
}

int sw_csr_of_key(struct sw_slice identity, struct sw_slice key_pem, struct sw_buf *ret_csr,
                  struct sw_err *err)
{
    SW_AUTO_KEY key = NULL;
    struct sw_spiffe id;
    int rc = sw_spiffe_parse(identity, &id, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_key_import(key_pem, &key);
    return request(rc, key, identity, ret_csr, err);
}

int sw_csr_public_key(struct sw_slice csr, struct sw_buf *ret_spki, struct sw_err *err)
{
    gnutls_pubkey_t key = NULL;
    SW_AUTO_DATUM spki = {0};
    int rc = sw_ca_read_csr(csr, &key, err);

    if (rc != SW_OK)
        return rc;
    if (gnutls_pubkey_export2(key, GNUTLS_X509_FMT_DER, &spki) < 0)
        rc = sw_err_set(err, SW_EINVAL, "CSR: the key cannot be written");
    if (rc == SW_OK && sw_buf_append(ret_spki, spki.data, spki.size) != SW_OK)
        rc = sw_err_set(err, SW_ELIMIT, "no room for the key of the CSR");
    gnutls_pubkey_deinit(key);
    return rc;
}
