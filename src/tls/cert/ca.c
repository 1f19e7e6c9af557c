/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/ca.h"

#include <string.h>
#include <sys/stat.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509-ext.h>
#include <gnutls/x509.h>

#include "base/arena.h"
#include "base/dirs.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"
#include "base/time.h"
#include "tls/cert/ca_core.h"
#include "tls/cert/constraints.h"
#include "tls/cert/pemfile.h"
#include "tls/cert/spiffe.h"
#include "tls/cert/x509.h"
#include "tls/crypto/gnutls.h"
#include "tls/crypto/pkcs8.h"

enum {
    SERIAL_LEN = 16,
    BACK_DATE_S = 60, /* clocks of peers differ a little */
    DAY_S = 86400,
    CRL_S = 7 * DAY_S,
};
#define SPAN_MAX_S ((uint64_t)36525 * DAY_S / 10 * 4) /* forty years */

static uint64_t wall_s(void)
{
    return sw_wall_ns() / SW_NS_PER_S;
}

void sw_ca_free(struct sw_ca *ca)
{
    if (!ca)
        return;
    sw_crt_done(&ca->root);
    sw_key_done(&ca->key);
    sw_arena_clear(&ca->arena);
    sw_free(ca);
}

struct sw_slice sw_ca_root_pem(const struct sw_ca *ca)
{
    return ca->root_pem;
}

struct sw_slice sw_ca_trust_domain(const struct sw_ca *ca)
{
    return ca->trust_domain;
}

uint64_t sw_ca_not_before(const struct sw_ca *ca)
{
    return sw_x509_not_before(ca->root);
}

uint64_t sw_ca_not_after(const struct sw_ca *ca)
{
    return sw_x509_not_after(ca->root);
}

/* "spiffe://TD" of the root, as SPIFFE requires of signing certificates. */
static void find_trust_domain(struct sw_ca *ca)
{
    const struct sw_slice scheme = SW_SLICE_LIT("spiffe://");
    struct sw_slice uris[8];
    size_t n = sw_x509_uris(ca->root, &ca->arena, SW_ARRAY_LEN(uris), uris);

    for (size_t i = 0; i < n; i++) {
        struct sw_slice td = sw_slice_from(uris[i], scheme.n);

        if (sw_slice_has_prefix(uris[i], scheme) && sw_spiffe_trust_domain_ok(td)) {
            ca->trust_domain = td;
            return;
        }
    }
}

int sw_ca_finish_root(struct sw_ca *ca, struct sw_err *err)
{
    SW_AUTO_DATUM pem = {0};
    int rc = gnutls_x509_crt_export2(ca->root, GNUTLS_X509_FMT_PEM, &pem);

    if (rc >= 0) {
        ca->root_pem = sw_arena_slice(&ca->arena, sw_slice(pem.data, pem.size));
        /* A certificate just built lacks what the library notes while parsing: names to compare. */
        sw_crt_done(&ca->root);
        rc = sw_crt_import(ca->root_pem, true, &ca->root);
    }
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "root certificate");
    find_trust_domain(ca);
    return SW_OK;
}

int sw_ca_begin(gnutls_x509_crt_t crt, uint64_t from_s, uint64_t to_s)
{
    uint8_t serial[SERIAL_LEN];
    int rc = gnutls_x509_crt_set_version(crt, 3);

    sw_rand_bytes(serial, sizeof(serial));
    serial[0] = (uint8_t)((serial[0] & 0x7f) | 0x40); /* positive, and always as long */
    if (rc >= 0)
        rc = gnutls_x509_crt_set_serial(crt, serial, sizeof(serial));
    if (rc >= 0)
        rc = gnutls_x509_crt_set_activation_time(crt, (time_t)from_s);
    return rc < 0 ? rc : gnutls_x509_crt_set_expiration_time(crt, (time_t)to_s);
}

int sw_ca_set_usage(gnutls_x509_crt_t crt, unsigned is_ca, unsigned usage)
{
    int rc = gnutls_x509_crt_set_basic_constraints(crt, is_ca, -1);

    return rc < 0 ? rc : gnutls_x509_crt_set_key_usage(crt, usage);
}

int sw_ca_uri_san(struct sw_slice uri, struct sw_buf *ret)
{
    gnutls_datum_t d = SW_DATUM(uri);
    gnutls_subject_alt_names_t sans = NULL;
    SW_AUTO_DATUM ext = {0};
    int rc = gnutls_subject_alt_names_init(&sans);

    if (rc >= 0)
        rc = gnutls_subject_alt_names_set(sans, GNUTLS_SAN_URI, &d, NULL);
    if (rc >= 0)
        rc = gnutls_x509_ext_export_subject_alt_names(sans, &ext);
    if (rc >= 0 && sw_buf_append(ret, ext.data, ext.size) != SW_OK)
        rc = GNUTLS_E_MEMORY_ERROR;
    if (sans)
        gnutls_subject_alt_names_deinit(sans);
    return rc;
}

int sw_ca_set_uri(gnutls_x509_crt_t crt, struct sw_slice uri, unsigned critical)
{
    SW_BUF_AUTO san = {.max = SW_CA_SAN_MAX};
    int rc = sw_ca_uri_san(uri, &san);

    return rc < 0 ? rc
                  : gnutls_x509_crt_set_extension_by_oid(
                        crt, GNUTLS_X509EXT_OID_SAN, sw_buf_data(&san), sw_buf_len(&san), critical);
}

/* The SHA-1 of the key is only a name for it (RFC 5280 section 4.2.1.2). */
int sw_ca_set_key_ids(gnutls_x509_crt_t crt, gnutls_x509_crt_t issuer)
{
    uint8_t id[64];
    size_t n = sizeof(id);
    int rc = gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA1, id, &n);

    if (rc >= 0)
        rc = gnutls_x509_crt_set_subject_key_id(crt, id, n);
    n = sizeof(id);
    if (rc >= 0)
        rc = gnutls_x509_crt_get_subject_key_id(issuer, id, &n, NULL);
    if (rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return 0;
    return rc < 0 ? rc : gnutls_x509_crt_set_authority_key_id(crt, id, n);
}

int sw_ca_set_purposes(gnutls_x509_crt_t crt, bool server, bool client)
{
    int rc = 0;

    if (server)
        rc = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_SERVER, 0);
    if (rc >= 0 && client)
        rc = gnutls_x509_crt_set_key_purpose_oid(crt, GNUTLS_KP_TLS_WWW_CLIENT, 0);
    return rc;
}

int sw_ca_end(const struct sw_ca *ca, gnutls_x509_crt_t crt)
{
    int rc = sw_ca_set_key_ids(crt, ca->root);

    return rc < 0 ? rc : gnutls_x509_crt_sign2(crt, ca->root, ca->key, GNUTLS_DIG_SHA256, 0);
}

/* --- loading and saving --- */

static int parse_ca(struct sw_ca *ca, struct sw_slice cert, struct sw_slice key, struct sw_err *err)
{
    int rc;

    if (cert.n > SW_TLS_PEM_MAX || key.n > SW_TLS_PEM_MAX)
        return sw_err_set(err, SW_ELIMIT, "root certificate or key is too large");
    rc = sw_crt_import(cert, true, &ca->root);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "the root certificate does not parse");
    rc = sw_key_import(key, &ca->key);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "the root key does not parse");
    if (gnutls_x509_crt_get_ca_status(ca->root, NULL) <= 0)
        return sw_err_set(err, SW_EINVAL, "the root certificate is not that of a CA");
    if (!sw_x509_same_key(ca->root, ca->key))
        return sw_err_set(err, SW_EINVAL, "the root key is not the key of the root certificate");
    return sw_ca_finish_root(ca, err);
}

struct sw_ca *sw_ca_from_pem(struct sw_slice cert, struct sw_slice key, struct sw_err *err)
{
    struct sw_ca *ca = SW_NEW(struct sw_ca);

    if (parse_ca(ca, cert, key, err) == SW_OK)
        return ca;
    sw_ca_free(ca);
    return NULL;
}

struct sw_ca *sw_ca_load(const char *dir, struct sw_err *err)
{
    SW_AUTO_FREE char *cert_path = sw_asprintf("%s/%s", dir, SW_CA_ROOT_CERT);
    SW_AUTO_FREE char *key_path = sw_asprintf("%s/%s", dir, SW_CA_ROOT_KEY);
    SW_BUF_AUTO cert = {.max = SW_TLS_PEM_MAX};
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    struct sw_ca *ca = NULL;

    if (sw_pemfile_read(cert_path, &cert, err) == SW_OK &&
        sw_pemfile_read(key_path, &key, err) == SW_OK) {
        ca = sw_ca_from_pem(sw_buf_slice(&cert), sw_buf_slice(&key), err);
        if (!ca)
            (void)sw_err_prefix(err, "CA in '%s'", dir);
    }
    return ca;
}

int sw_ca_key_pem(const struct sw_ca *ca, struct sw_buf *ret_key, struct sw_err *err)
{
    int rc = sw_pkcs8_pem(ca->key, ret_key, err);

    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "root key");
}

int sw_ca_save_cert(const struct sw_ca *ca, const char *dir, struct sw_err *err)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/%s", dir, SW_CA_ROOT_CERT);

    return sw_file_write(path, ca->root_pem, 0644, true, err);
}

int sw_ca_save(const struct sw_ca *ca, const char *dir, struct sw_err *err)
{
    SW_AUTO_FREE char *cert_path = sw_asprintf("%s/%s", dir, SW_CA_ROOT_CERT);
    SW_AUTO_FREE char *key_path = sw_asprintf("%s/%s", dir, SW_CA_ROOT_KEY);
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    struct stat st;
    int rc;

    rc = sw_make_dirs(dir, err);
    if (rc != SW_OK)
        return rc;
    if (stat(cert_path, &st) == 0 || stat(key_path, &st) == 0)
        return sw_err_set(err, SW_EINVAL, "'%s' already holds a CA", dir);
    rc = sw_ca_key_pem(ca, &key, err);
    if (rc == SW_OK)
        rc = sw_file_write(key_path, sw_buf_slice(&key), 0600, false, err);
    if (rc == SW_OK)
        rc = sw_file_write(cert_path, ca->root_pem, 0644, false, err);
    return rc;
}

/* --- issuing --- */

int sw_ca_sign_leaf(const struct sw_ca *ca, gnutls_x509_crt_t crt, struct sw_slice id,
                    unsigned usage, uint64_t from_s, uint64_t to_s)
{
    int rc = sw_ca_begin(crt, from_s, to_s);

    if (rc >= 0)
        rc = sw_ca_set_usage(crt, 0, usage);
    if (rc >= 0)
        rc = sw_ca_set_purposes(crt, true, true);
    /* The subject is empty, so the name in the SAN must be critical (RFC 5280 section 4.2.1.6). */
    if (rc >= 0)
        rc = sw_ca_set_uri(crt, id, 1);
    return rc < 0 ? rc : sw_ca_end(ca, crt);
}

int sw_ca_begin_leaf(gnutls_x509_crt_t *ret_crt, gnutls_x509_privkey_t *ret_key)
{
    int rc = gnutls_x509_crt_init(ret_crt);

    if (rc >= 0)
        rc = sw_key_generate(ret_key);
    return rc >= 0 ? gnutls_x509_crt_set_key(*ret_crt, *ret_key) : rc;
}

int sw_ca_export(gnutls_x509_crt_t crt, struct sw_buf *ret, struct sw_err *err)
{
    SW_AUTO_DATUM c = {0};
    int rc = gnutls_x509_crt_export2(crt, GNUTLS_X509_FMT_PEM, &c);

    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "cannot write the certificate");
    if (sw_buf_append(ret, c.data, c.size) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "no room for the certificate");
    return SW_OK;
}

int sw_ca_end_leaf(int rc, gnutls_x509_crt_t crt, gnutls_x509_privkey_t key,
                   struct sw_buf *ret_chain, struct sw_buf *ret_key, struct sw_err *err)
{
    if (rc < 0)
        rc = sw_gnutls_err(err, SW_EINVAL, rc, "cannot issue the certificate");
    else
        rc = sw_ca_export(crt, ret_chain, err);
    if (rc == SW_OK)
        rc = sw_pkcs8_pem(key, ret_key, err);
    return rc;
}

int sw_ca_check_leaf(const struct sw_ca *ca, const struct sw_ca_leaf *leaf, struct sw_err *err)
{
    struct sw_spiffe id;
    int rc = sw_spiffe_parse(leaf->id, &id, err);

    if (rc != SW_OK)
        return rc;
    if (!leaf->foreign_trust_domain && ca->trust_domain.n &&
        !sw_slice_eq(id.trust_domain, ca->trust_domain))
        return sw_err_set(err, SW_EDENIED, "trust domain of '%.*s' is not the CA's, '%.*s'",
                          SW_SLICE_ARG(sw_slice_head(leaf->id, 90)),
                          SW_SLICE_ARG(sw_slice_head(ca->trust_domain, 50)));
    rc = sw_x509_ca_allows_uri(ca->root, leaf->id, err);
    if (rc != SW_OK)
        return rc;
    if (sw_x509_not_after(ca->root) <= wall_s())
        return sw_err_set(err, SW_EDENIED, "the CA's root has expired");
    if (leaf->ttl_s > SPAN_MAX_S || leaf->backdate_s > SPAN_MAX_S ||
        (leaf->not_before_s ? leaf->not_before_s : -BACK_DATE_S) >=
            (int64_t)(leaf->ttl_s ? leaf->ttl_s : DAY_S))
        return sw_err_set(err, SW_EINVAL, "the certificate would end before it begins");
    return SW_OK;
}

int sw_ca_issue(const struct sw_ca *ca, const struct sw_ca_leaf *leaf, struct sw_buf *ret_chain,
                struct sw_buf *ret_key, struct sw_err *err)
{
    uint64_t now = wall_s();
    uint64_t to_s = now + (leaf->ttl_s ? leaf->ttl_s : DAY_S) - leaf->backdate_s;
    int64_t begin = leaf->not_before_s ? leaf->not_before_s : -BACK_DATE_S;
    SW_AUTO_KEY key = NULL;
    SW_AUTO_CRT crt = NULL;
    int rc = sw_ca_check_leaf(ca, leaf, err);

    if (rc != SW_OK)
        return rc;
    to_s = to_s < sw_x509_not_after(ca->root) ? to_s : sw_x509_not_after(ca->root);
    begin += (int64_t)(now - leaf->backdate_s);
    rc = sw_ca_begin_leaf(&crt, &key);
    if (rc >= 0)
        rc =
            sw_ca_sign_leaf(ca, crt, leaf->id, GNUTLS_KEY_DIGITAL_SIGNATURE, (uint64_t)begin, to_s);
    return sw_ca_end_leaf(rc, crt, key, ret_chain, ret_key, err);
}

struct sw_tls_cred *sw_ca_issue_cred(const struct sw_ca *ca, const struct sw_ca_leaf *leaf,
                                     struct sw_slice crl, struct sw_err *err)
{
    SW_BUF_AUTO chain = {.max = SW_TLS_PEM_MAX};
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};

    if (sw_ca_issue(ca, leaf, &chain, &key, err) != SW_OK)
        return NULL;
    return sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                     .key = sw_buf_slice(&key),
                                                     .roots = ca->root_pem,
                                                     .crl = crl},
                           err);
}

/* --- revoking --- */

/* Only the first certificate of each text is meant: the others are its issuers. */
static int revoke_text(const struct sw_ca *ca, gnutls_x509_crl_t crl, struct sw_slice pem,
                       struct sw_err *err)
{
    SW_AUTO_CRT crt = NULL;
    int rc = sw_crt_import(pem, true, &crt);

    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "not a certificate");
    if (!gnutls_x509_crt_check_issuer(crt, ca->root))
        return sw_err_set(err, SW_EINVAL, "the certificate was not issued by this CA");
    rc = gnutls_x509_crl_set_crt(crl, crt, (time_t)wall_s());
    return rc < 0 ? sw_gnutls_err(err, SW_EINVAL, rc, "cannot revoke") : SW_OK;
}

static int sign_crl(const struct sw_ca *ca, gnutls_x509_crl_t crl)
{
    uint64_t now = wall_s();
    uint8_t number[8];
    uint8_t id[64];
    size_t n = sizeof(id);
    int rc = gnutls_x509_crl_set_version(crl, 2);

    for (int i = 0; i < 8; i++)
        number[i] = (uint8_t)(sw_wall_ns() >> (56 - 8 * i));
    if (rc >= 0)
        rc = gnutls_x509_crl_set_this_update(crl, (time_t)now);
    if (rc >= 0)
        rc = gnutls_x509_crl_set_next_update(crl, (time_t)(now + CRL_S));
    if (rc >= 0)
        rc = gnutls_x509_crl_set_number(crl, number, sizeof(number));
    if (rc >= 0 && gnutls_x509_crt_get_subject_key_id(ca->root, id, &n, NULL) >= 0)
        rc = gnutls_x509_crl_set_authority_key_id(crl, id, n);
    if (rc >= 0)
        rc = gnutls_x509_crl_sign2(crl, ca->root, ca->key, GNUTLS_DIG_SHA256, 0);
    return rc;
}

int sw_ca_make_crl(const struct sw_ca *ca, const struct sw_slice *certs, size_t n,
                   struct sw_buf *ret_pem, struct sw_err *err)
{
    gnutls_x509_crl_t crl = NULL;
    SW_AUTO_DATUM pem = {0};
    int rc = gnutls_x509_crl_init(&crl);

    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "CRL");
    for (size_t i = 0; i < n && rc == SW_OK; i++)
        rc = revoke_text(ca, crl, certs[i], err);
    if (rc == SW_OK) {
        rc = sign_crl(ca, crl);
        if (rc >= 0)
            rc = gnutls_x509_crl_export2(crl, GNUTLS_X509_FMT_PEM, &pem);
        if (rc < 0)
            rc = sw_gnutls_err(err, SW_EINVAL, rc, "CRL");
        else if (sw_buf_append(ret_pem, pem.data, pem.size) != SW_OK)
            rc = sw_err_set(err, SW_ELIMIT, "no room for the CRL");
    }
    gnutls_x509_crl_deinit(crl);
    return rc;
}
