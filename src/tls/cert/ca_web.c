/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates for HTTPS servers and for users, signed by our own root. */
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/time.h"
#include "tls/cert/ca.h"
#include "tls/cert/ca_core.h"
#include "tls/cert/constraints.h"
#include "tls/cert/x509.h"
#include "tls/crypto/gnutls.h"

enum { NAME_MAX_LEN = 253, BACK_DATE_S = 60 };

static int set_names(gnutls_x509_crt_t crt, const struct sw_ca_web *web)
{
    int rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, web->cn,
                                           (unsigned)strlen(web->cn));

    for (const char *const *o = web->orgs; o && *o && rc >= 0; o++)
        rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, 0, *o,
                                           (unsigned)strlen(*o));
    return rc;
}

static int set_san(gnutls_x509_crt_t crt, const char *name)
{
    uint8_t ip[16];
    unsigned n = sw_x509_ip_bytes(name, ip);

    if (n > 0)
        return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_IPADDRESS, ip, n,
                                                    GNUTLS_FSAN_APPEND);
    return gnutls_x509_crt_set_subject_alt_name(crt, GNUTLS_SAN_DNSNAME, name,
                                                (unsigned)strlen(name), GNUTLS_FSAN_APPEND);
}

/* Everything but the key, which is there. */
static int build(const struct sw_ca *ca, gnutls_x509_crt_t crt, const struct sw_ca_web *web)
{
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;
    uint64_t end = sw_x509_not_after(ca->root);
    uint64_t to_s = end - now < web->ttl_s ? end : now + web->ttl_s;
    int rc = sw_ca_begin(crt, now - BACK_DATE_S - web->backdate_s, to_s - web->backdate_s);

    if (rc >= 0)
        rc = set_names(crt, web);
    for (const char *const *s = web->sans; s && *s && rc >= 0; s++)
        rc = set_san(crt, *s);
    if (rc >= 0)
        rc = sw_ca_set_usage(crt, 0, GNUTLS_KEY_DIGITAL_SIGNATURE);
    if (rc >= 0)
        rc = sw_ca_set_purposes(crt, web->server || web->both, !web->server || web->both);
    return rc < 0 ? rc : sw_ca_end(ca, crt);
}

static int check_san(const struct sw_ca *ca, const char *name, struct sw_err *err)
{
    struct sw_slice s = sw_slice_str(name);
    uint8_t ip[16];
    bool address = sw_x509_ip_bytes(name, ip) > 0;
    bool found = ca->n_domains == 0;

    for (size_t i = 0; i < ca->n_domains && !address; i++)
        found = found || sw_x509_name_under(s, ca->domains[i]);
    if (!found)
        return sw_err_set(err, SW_EDENIED, "'%.*s' is not under a domain this CA signs for",
                          SW_SLICE_ARG(sw_slice_head(s, 100)));
    return address ? SW_OK : sw_x509_ca_allows_dns(ca->root, s, err);
}

static int check(const struct sw_ca *ca, const struct sw_ca_web *web, struct sw_err *err)
{
    int rc = SW_OK;

    if (!web->cn || !*web->cn || strlen(web->cn) > NAME_MAX_LEN)
        return sw_err_set(err, SW_EINVAL, "a certificate needs a common name");
    if (sw_x509_not_after(ca->root) <= sw_wall_ns() / SW_NS_PER_S)
        return sw_err_set(err, SW_EDENIED, "the CA's root has expired");
    for (const char *const *s = web->sans; s && *s && rc == SW_OK; s++)
        rc = check_san(ca, *s, err);
    return rc;
}

int sw_ca_issue_web(const struct sw_ca *ca, const struct sw_ca_web *web, struct sw_buf *ret_chain,
                    struct sw_buf *ret_key, struct sw_err *err)
{
    SW_AUTO_KEY key = NULL;
    SW_AUTO_CRT crt = NULL;
    int rc = check(ca, web, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_ca_begin_leaf(&crt, &key);
    if (rc >= 0)
        rc = build(ca, crt, web);
    return sw_ca_end_leaf(rc, crt, key, ret_chain, ret_key, err);
}

static int sign_key(const struct sw_ca *ca, const struct sw_ca_web *web, gnutls_pubkey_t key,
                    struct sw_buf *ret_cert, struct sw_err *err)
{
    SW_AUTO_CRT crt = NULL;
    int rc = gnutls_x509_crt_init(&crt);

    if (rc >= 0)
        rc = gnutls_x509_crt_set_pubkey(crt, key);
    if (rc >= 0)
        rc = build(ca, crt, web);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "cannot sign the certificate");
    return sw_ca_export(crt, ret_cert, err);
}

int sw_ca_sign_web(const struct sw_ca *ca, const struct sw_ca_web *web, struct sw_slice csr,
                   struct sw_buf *ret_cert, struct sw_err *err)
{
    gnutls_pubkey_t key = NULL;
    int rc = check(ca, web, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_ca_read_csr(csr, &key, err);
    if (rc != SW_OK)
        return rc;
    rc = sign_key(ca, web, key, ret_cert, err);
    gnutls_pubkey_deinit(key);
    return rc;
}
