/* SPDX-License-Identifier: Apache-2.0 */
/* Roots: new ones, and others for the same key that may sign less. */
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509-ext.h>
#include <gnutls/x509.h>

#include "base/mem.h"
#include "base/time.h"
#include "tls/cert/ca.h"
#include "tls/cert/ca_core.h"
#include "tls/cert/constraints.h"
#include "tls/cert/spiffe.h"
#include "tls/cert/x509.h"
#include "tls/crypto/gnutls.h"

enum { DAY_S = 86400, BACK_DATE_S = 60, CN_MAX = 64, EXT_MAX = 65536 };
#define ROOT_TTL_S       ((uint64_t)3652 * DAY_S)
#define ROOT_NAME        "spanwire root of "
#define NAME_CONSTRAINTS "2.5.29.30"

/* ---- name constraints ---- */

/* A kind of name that is not mentioned is not constrained: so addresses are excluded, all of them.
 */
static int add_domains(gnutls_x509_name_constraints_t nc, const struct sw_ca_scope *s)
{
    static const char no_address[32] = {0}; /* address and mask */
    gnutls_datum_t v4 = SW_DATUM(sw_slice(no_address, 8));
    gnutls_datum_t v6 = SW_DATUM(sw_slice(no_address, 32));
    int rc = 0;

    for (size_t i = 0; i < s->n_domains && rc >= 0; i++) {
        gnutls_datum_t d = SW_DATUM(s->domains[i]);

        rc = gnutls_x509_name_constraints_add_permitted(nc, GNUTLS_SAN_DNSNAME, &d);
    }
    if (rc >= 0 && s->n_domains)
        rc = gnutls_x509_name_constraints_add_excluded(nc, GNUTLS_SAN_IPADDRESS, &v4);
    if (rc >= 0 && s->n_domains)
        rc = gnutls_x509_name_constraints_add_excluded(nc, GNUTLS_SAN_IPADDRESS, &v6);
    return rc;
}

/* The extension's value, appended to out; nothing when the scope constrains nothing. */
static int put_constraints(const struct sw_ca_scope *s, struct sw_buf *out)
{
    gnutls_x509_name_constraints_t nc = NULL;
    SW_AUTO_DATUM ext = {0};
    gnutls_datum_t td = SW_DATUM(s->trust_domain);
    int rc;

    if (s->any_trust_domain && !s->n_domains)
        return 0;
    rc = gnutls_x509_name_constraints_init(&nc);
    if (rc >= 0)
        rc = add_domains(nc, s);
    if (rc >= 0 && !s->any_trust_domain)
        rc = gnutls_x509_name_constraints_add_permitted(nc, GNUTLS_SAN_URI, &td);
    if (rc >= 0)
        rc = gnutls_x509_ext_export_name_constraints(nc, &ext);
    if (rc >= 0 && sw_buf_append(out, ext.data, ext.size) != SW_OK)
        rc = GNUTLS_E_SHORT_MEMORY_BUFFER;
    if (nc)
        gnutls_x509_name_constraints_deinit(nc);
    return rc;
}

static bool same_constraints(gnutls_x509_crt_t crt, struct sw_slice want)
{
    SW_AUTO_DATUM have = {0};
    int rc = gnutls_x509_crt_get_extension_by_oid2(crt, NAME_CONSTRAINTS, 0, &have, NULL);

    return rc < 0 ? want.n == 0 : sw_slice_eq(sw_slice(have.data, have.size), want);
}

/* ---- the certificate ---- */

/* Of the key; a renewed root keeps the ID it had, because what it signed names that. */
static int set_key_ids(const struct sw_ca *ca, gnutls_x509_crt_t crt)
{
    uint8_t id[64];
    size_t n = sizeof(id);
    int rc;

    if (!ca->root || gnutls_x509_crt_get_subject_key_id(ca->root, id, &n, NULL) < 0)
        return sw_ca_set_key_ids(crt, crt);
    rc = gnutls_x509_crt_set_subject_key_id(crt, id, n);
    return rc < 0 ? rc : gnutls_x509_crt_set_authority_key_id(crt, id, n);
}

static int sign_root(const struct sw_ca *ca, const struct sw_ca_scope *s, uint64_t from_s,
                     uint64_t to_s, gnutls_x509_crt_t *ret)
{
    SW_AUTO_FREE char *name = sw_asprintf(ROOT_NAME "%.*s", SW_SLICE_ARG(s->trust_domain));
    SW_AUTO_FREE char *uri = sw_asprintf("spiffe://%.*s", SW_SLICE_ARG(s->trust_domain));
    SW_BUF_AUTO ext = {.max = EXT_MAX};
    SW_AUTO_CRT crt = NULL;
    int rc = gnutls_x509_crt_init(&crt);

    if (rc >= 0)
        rc = sw_ca_begin(crt, from_s, to_s);
    if (rc >= 0)
        rc = gnutls_x509_crt_set_key(crt, ca->key);
    if (rc >= 0) /* X.520 allows 64 characters in a common name */
        rc = gnutls_x509_crt_set_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                           (unsigned)sw_min(strlen(name), CN_MAX));
    if (rc >= 0)
        rc = sw_ca_set_usage(crt, 1, GNUTLS_KEY_KEY_CERT_SIGN | GNUTLS_KEY_CRL_SIGN);
    if (rc >= 0)
        rc = sw_ca_set_uri(crt, sw_slice_str(uri), 0);
    if (rc >= 0)
        rc = put_constraints(s, &ext);
    if (rc >= 0 && sw_buf_len(&ext))
        rc = gnutls_x509_crt_set_extension_by_oid(crt, NAME_CONSTRAINTS, sw_buf_data(&ext),
                                                  sw_buf_len(&ext), 1);
    if (rc >= 0)
        rc = set_key_ids(ca, crt);
    if (rc >= 0)
        rc = gnutls_x509_crt_sign2(crt, crt, ca->key, GNUTLS_DIG_SHA256, 0);
    if (rc >= 0)
        *ret = SW_TAKE(crt);
    return rc;
}

static int keep_domains(struct sw_ca *ca, const struct sw_ca_scope *s, struct sw_err *err)
{
    struct sw_slice *own = sw_arena_array(&ca->arena, s->n_domains + 1, sizeof(*own));

    for (size_t i = 0; i < s->n_domains; i++) {
        if (s->domains[i].n == 0 || s->domains[i].n > SW_SPIFFE_PART_MAX)
            return sw_err_set(err, SW_EINVAL, "a domain for certificates is empty or too long");
        own[i] = sw_arena_slice(&ca->arena, s->domains[i]);
    }
    ca->domains = own;
    ca->n_domains = s->n_domains;
    return SW_OK;
}

/* Constraints on URIs are about hosts. */
static bool is_host(struct sw_slice trust_domain)
{
    SW_AUTO_FREE char *uri = sw_asprintf("spiffe://%.*s/", SW_SLICE_ARG(trust_domain));
    struct sw_slice host;

    return sw_uri_host(sw_slice_str(uri), &host) && sw_slice_eq(host, trust_domain);
}

struct sw_ca *sw_ca_new_scoped(const struct sw_ca_scope *s, uint64_t ttl_s, struct sw_err *err)
{
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;
    struct sw_ca *ca;
    int rc;

    if (!sw_spiffe_trust_domain_ok(s->trust_domain) ||
        (!s->any_trust_domain && !is_host(s->trust_domain))) {
        (void)sw_err_set(err, SW_EINVAL, "'%.*s' is not a trust domain",
                         SW_SLICE_ARG(sw_slice_head(s->trust_domain, 80)));
        return NULL;
    }
    ca = SW_NEW(struct sw_ca);
    rc = keep_domains(ca, s, err);
    if (rc == SW_OK) {
        rc = sw_key_generate(&ca->key);
        if (rc >= 0)
            rc = sign_root(ca, s, now - BACK_DATE_S, now + (ttl_s ? ttl_s : ROOT_TTL_S), &ca->root);
        rc = rc < 0 ? sw_gnutls_err(err, SW_EINVAL, rc, "cannot make a root")
                    : sw_ca_finish_root(ca, err);
    }
    if (rc == SW_OK)
        return ca;
    sw_ca_free(ca);
    return NULL;
}

struct sw_ca *sw_ca_new(struct sw_slice trust_domain, uint64_t ttl_s, struct sw_err *err)
{
    return sw_ca_new_scoped(
        &(struct sw_ca_scope){.trust_domain = trust_domain, .any_trust_domain = true}, ttl_s, err);
}

/* Made by us for this trust domain: then the same names and key make the same CA. */
static bool is_ours(const struct sw_ca *ca, struct sw_slice trust_domain)
{
    SW_AUTO_FREE char *name = sw_asprintf(ROOT_NAME "%.*s", SW_SLICE_ARG(trust_domain));
    struct sw_slice orgs[1];
    struct sw_slice cn;
    SW_ARENA_AUTO a = {0};

    (void)sw_x509_subject_names(ca->root, &a, &cn, 1, orgs);
    return gnutls_x509_crt_check_issuer(ca->root, ca->root) &&
           sw_slice_eq(ca->trust_domain, trust_domain) &&
           sw_slice_eq(cn, sw_slice_head(sw_slice_str(name), CN_MAX));
}

int sw_ca_narrow(struct sw_ca *ca, const struct sw_ca_scope *s, bool *ret_renewed,
                 struct sw_err *err)
{
    SW_BUF_AUTO want = {.max = EXT_MAX};
    gnutls_x509_crt_t crt = NULL;
    int rc = keep_domains(ca, s, err);

    *ret_renewed = false;
    if (rc != SW_OK)
        return rc;
    rc = put_constraints(s, &want);
    if (rc >= 0 &&
        (same_constraints(ca->root, sw_buf_slice(&want)) || !is_ours(ca, s->trust_domain)))
        return SW_OK;
    if (rc >= 0)
        rc = sign_root(ca, s, sw_x509_not_before(ca->root), sw_x509_not_after(ca->root), &crt);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "cannot renew the root");
    sw_crt_done(&ca->root);
    ca->root = crt;
    *ret_renewed = true;
    return sw_ca_finish_root(ca, err);
}
