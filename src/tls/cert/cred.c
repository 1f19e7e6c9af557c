/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/cred.h"

#include <stdatomic.h>
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "tls/cert/cred_core.h"
#include "tls/cert/x509.h"
#include "tls/crypto/gnutls.h"

enum { RSA_BITS_MIN = 2048 }; /* what TLS libraries of today still take */

/*
 * Everything but the revocations, which come and go more often. Never written to after it was
 * built: GnuTLS lets any number of threads read credentials and trust lists.
 */
struct core {
    atomic_uint refs;
    struct sw_arena arena; /* owns every text below */
    gnutls_certificate_credentials_t xcred;
    gnutls_x509_trust_list_t trust;
    gnutls_x509_crt_t *roots; /* owned array of owned certificates; trust borrows them */
    gnutls_x509_crt_t *chain; /* likewise */
    size_t n_roots;
    size_t n_chain;
    struct sw_tls_cert_info *root_info;
    struct sw_tls_cert_info *chain_info;
    struct sw_slice uri; /* identity of the leaf */
    struct sw_spiffe id;
    uint8_t roots_hash[32];
};

struct sw_tls_cred {
    atomic_uint refs;
    struct core *core;
    struct sw_arena arena;
    struct sw_map revoked; /* issuer name followed by serial, both DER -> anything */
    bool has_crl;
    uint8_t bundle_hash[32];
};

static void crts_free(gnutls_x509_crt_t *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        gnutls_x509_crt_deinit(list[i]);
    gnutls_free(list);
}

static void core_unref(struct core *c)
{
    if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (c->xcred)
        gnutls_certificate_free_credentials(c->xcred);
    if (c->trust)
        gnutls_x509_trust_list_deinit(c->trust, 0);
    crts_free(c->roots, c->n_roots);
    crts_free(c->chain, c->n_chain);
    sw_arena_clear(&c->arena);
    sw_free(c);
}

static int import_list(struct sw_slice pem, const char *what, size_t max, gnutls_x509_crt_t **ret,
                       size_t *ret_n, struct sw_err *err)
{
    gnutls_datum_t d = SW_DATUM(pem);
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;
    int rc;

    if (pem.n > SW_TLS_PEM_MAX)
        return sw_err_set(err, SW_ELIMIT, "%s is larger than %d bytes", what, SW_TLS_PEM_MAX);
    rc = gnutls_x509_crt_list_import2(&list, &n, &d, GNUTLS_X509_FMT_PEM, 0);
    if (rc < 0)
        return sw_err_set(err, SW_EINVAL, "%s: no usable certificate (%s)", what,
                          gnutls_strerror(rc));
    if (n == 0 || n > max) {
        crts_free(list, n);
        return sw_err_set(err, n ? SW_ELIMIT : SW_EINVAL,
                          "%s has %u certificates, allowed are 1 to %zu", what, n, max);
    }
    *ret = list;
    *ret_n = n;
    return SW_OK;
}

static struct sw_tls_cert_info *describe(struct sw_arena *a, gnutls_x509_crt_t *list, size_t n)
{
    struct sw_tls_cert_info *info = sw_arena_array(a, n ? n : 1, sizeof(*info));

    for (size_t i = 0; i < n; i++) {
        SW_AUTO_DATUM pem = {0};

        if (gnutls_x509_crt_export2(list[i], GNUTLS_X509_FMT_PEM, &pem) >= 0)
            info[i].pem = sw_arena_slice(a, sw_slice(pem.data, pem.size));
        info[i].serial = sw_x509_decimal(sw_x509_serial(list[i], a), a);
        info[i].not_before_s = sw_x509_not_before(list[i]);
        info[i].not_after_s = sw_x509_not_after(list[i]);
    }
    return info;
}

static int load_roots(struct core *c, struct sw_slice pem, bool nobody, struct sw_err *err)
{
    struct sw_slice *pems;
    int rc = SW_OK;

    if (pem.n == 0 && !nobody)
        return sw_err_set(err, SW_EINVAL, "no trusted roots given");
    if (pem.n)
        rc = import_list(pem, "trusted roots", SW_TLS_ROOTS_MAX, &c->roots, &c->n_roots, err);
    if (rc != SW_OK)
        return rc;
    rc = gnutls_x509_trust_list_init(&c->trust, 0);
    if (rc >= 0 && c->n_roots)
        rc = gnutls_x509_trust_list_add_cas(c->trust, c->roots, (unsigned)c->n_roots, 0);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "trusted roots");
    c->root_info = describe(&c->arena, c->roots, c->n_roots);
    pems = SW_NEW_ARRAY(struct sw_slice, c->n_roots + 1);
    for (size_t i = 0; i < c->n_roots; i++)
        pems[i] = c->root_info[i].pem;
    sw_x509_digest(pems, c->n_roots, c->roots_hash);
    sw_free(pems);
    return SW_OK;
}

/* A presented chain never holds the root: peers have it or do not trust it. */
static void drop_root(struct core *c)
{
    gnutls_x509_crt_t last = c->chain[c->n_chain - 1];

    if (c->n_chain > 1 && gnutls_x509_crt_check_issuer(last, last)) {
        gnutls_x509_crt_deinit(last);
        c->n_chain--;
    }
}

static int find_identity(struct core *c, bool any, struct sw_err *err)
{
    struct sw_slice uris[16];
    size_t n = 0;
    int rc = sw_x509_spiffe_uris(c->chain[0], &c->arena, SW_ARRAY_LEN(uris), uris, &n, err);

    if (rc == SW_OK && n == 0 && any)
        return SW_OK;
    if (rc == SW_OK && n == 0)
        rc = sw_err_set(err, SW_EINVAL, "certificate has no SPIFFE identity");
    if (rc == SW_OK && !any && sw_x509_count_spiffe(c->chain[0]) > 1)
        rc = sw_err_set(err, SW_EINVAL, "certificate has more than one SPIFFE identity");
    if (rc == SW_OK)
        rc = sw_spiffe_parse(uris[0], &c->id, err);
    if (rc == SW_OK)
        c->uri = uris[0];
    return rc;
}

/*
 * The library loses the key it was given when a certificate turns out to be unusable, so that is
 * found out beforehand.
 */
static int check_usable(const struct core *c, gnutls_x509_privkey_t key, struct sw_err *err)
{
    unsigned bits = 0;
    int alg;

    for (size_t i = 0; i < c->n_chain; i++) {
        gnutls_pubkey_t pub = NULL;
        int rc = gnutls_pubkey_init(&pub);

        if (rc >= 0)
            rc = gnutls_pubkey_import_x509(pub, c->chain[i], 0);
        gnutls_pubkey_deinit(pub);
        if (rc < 0)
            return sw_gnutls_err(err, SW_EINVAL, rc, "certificate chain");
    }
    if (!sw_x509_same_key(c->chain[0], key))
        return sw_err_set(err, SW_EINVAL, "certificate and private key do not belong together");
    alg = gnutls_x509_privkey_get_pk_algorithm2(key, &bits);
    if ((alg == GNUTLS_PK_RSA || alg == GNUTLS_PK_RSA_PSS) && bits < RSA_BITS_MIN)
        return sw_err_set(err, SW_EINVAL, "an RSA key of %u bits: peers want %d at least", bits,
                          RSA_BITS_MIN);
    return SW_OK;
}

static int load_chain(struct core *c, const struct sw_tls_cred_pem *pem, struct sw_err *err)
{
    SW_AUTO_KEY key = NULL;
    int rc =
        import_list(pem->chain, "certificate chain", SW_TLS_CHAIN_MAX, &c->chain, &c->n_chain, err);

    if (rc != SW_OK)
        return rc;
    if (pem->key.n > SW_TLS_PEM_MAX)
        return sw_err_set(err, SW_ELIMIT, "private key is larger than %d bytes", SW_TLS_PEM_MAX);
    drop_root(c);
    rc = find_identity(c, pem->any_identity, err);
    if (rc != SW_OK)
        return rc;
    c->chain_info = describe(&c->arena, c->chain, c->n_chain);
    rc = sw_key_import(pem->key, &key);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "private key");
    rc = check_usable(c, key, err);
    if (rc != SW_OK)
        return rc;
    rc = gnutls_certificate_set_x509_key(c->xcred, c->chain, (int)c->n_chain, key);
    return rc < 0 ? sw_gnutls_err(err, SW_EINVAL, rc, "certificate chain") : SW_OK;
}

static struct core *core_new(const struct sw_tls_cred_pem *pem, struct sw_err *err)
{
    struct core *c = SW_NEW(struct core);
    int rc;

    atomic_init(&c->refs, 1);
    rc = gnutls_certificate_allocate_credentials(&c->xcred);
    if (rc < 0)
        rc = sw_gnutls_err(err, SW_EINVAL, rc, "credentials");
    else
        rc = load_roots(c, pem->roots, pem->trust_nobody, err);
    if (rc == SW_OK && (pem->chain.n || pem->key.n))
        rc = load_chain(c, pem, err);
    if (rc != SW_OK) {
        core_unref(c);
        return NULL;
    }
    return c;
}

/* --- revocations --- */

static struct sw_slice revoked_key(struct sw_arena *a, struct sw_slice issuer,
                                   struct sw_slice serial)
{
    char *p = sw_arena_alloc(a, issuer.n + serial.n + 1);

    if (issuer.n)
        memcpy(p, issuer.p, issuer.n);
    if (serial.n)
        memcpy(p + issuer.n, serial.p, serial.n);
    return sw_slice(p, issuer.n + serial.n);
}

/*
 * The file is the operator's, and a CRL can only take access away, so one whose issuer we do not
 * know is obeyed. One that claims to come from an issuer we do know must carry its signature.
 */
static bool signed_by(gnutls_x509_crl_t crl, gnutls_x509_crt_t issuer)
{
    /* Set even where times are not to be checked; the library's clock is coarser than ours. */
    const unsigned times =
        GNUTLS_CERT_REVOCATION_DATA_ISSUED_IN_FUTURE | GNUTLS_CERT_REVOCATION_DATA_SUPERSEDED;
    unsigned status = 0;

    if (gnutls_x509_crl_verify(crl, &issuer, 1, GNUTLS_VERIFY_DISABLE_TIME_CHECKS, &status) < 0)
        return false;
    if (status & times)
        status &= ~(times | GNUTLS_CERT_INVALID);
    return status == 0;
}

static int check_crl_signature(const struct core *c, gnutls_x509_crl_t crl, struct sw_err *err)
{
    bool known = false;

    for (size_t i = 0; i < c->n_roots + c->n_chain; i++) {
        gnutls_x509_crt_t issuer = i < c->n_roots ? c->roots[i] : c->chain[i - c->n_roots];

        if (!gnutls_x509_crl_check_issuer(crl, issuer))
            continue;
        if (signed_by(crl, issuer))
            return SW_OK;
        known = true;
    }
    if (known)
        return sw_err_set(err, SW_EINVAL, "CRL is not signed by the issuer it names");
    return SW_OK;
}

static int add_crl(struct sw_tls_cred *t, gnutls_x509_crl_t crl, struct sw_err *err)
{
    gnutls_x509_crl_iter_t iter = NULL;
    SW_AUTO_DATUM dn = {0};
    uint8_t serial[256];
    size_t n = sizeof(serial);
    int rc = check_crl_signature(t->core, crl, err);

    if (rc != SW_OK)
        return rc;
    if (gnutls_x509_crl_get_raw_issuer_dn(crl, &dn) < 0)
        return sw_err_set(err, SW_EINVAL, "CRL without an issuer");
    while ((rc = gnutls_x509_crl_iter_crt_serial(crl, &iter, serial, &n, NULL)) >= 0) {
        struct sw_slice key =
            revoked_key(&t->arena, sw_slice(dn.data, dn.size), sw_slice(serial, n));

        (void)sw_map_put(&t->revoked, key, t);
        n = sizeof(serial);
    }
    gnutls_x509_crl_iter_deinit(iter);
    if (rc != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return sw_gnutls_err(err, SW_EINVAL, rc, "CRL");
    return SW_OK;
}

static bool blank(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != ' ' && s.p[i] != '\n' && s.p[i] != '\r' && s.p[i] != '\t')
            return false;
    }
    return true;
}

static int load_crls(struct sw_tls_cred *t, struct sw_slice in, struct sw_err *err)
{
    gnutls_datum_t d = SW_DATUM(in);
    bool pem = memmem(in.p, in.n, "-----BEGIN", 10) != NULL;
    gnutls_x509_crl_t *list = NULL;
    unsigned n = 0;
    int rc;

    if (in.n > SW_TLS_PEM_MAX)
        return sw_err_set(err, SW_ELIMIT, "CRL is larger than %d bytes", SW_TLS_PEM_MAX);
    rc = gnutls_x509_crl_list_import2(&list, &n, &d,
                                      pem ? GNUTLS_X509_FMT_PEM : GNUTLS_X509_FMT_DER, 0);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "CRL does not parse");
    rc = n ? SW_OK : sw_err_set(err, SW_EINVAL, "CRL file holds no CRL");
    for (unsigned i = 0; i < n; i++) {
        if (rc == SW_OK)
            rc = add_crl(t, list[i], err);
        gnutls_x509_crl_deinit(list[i]);
    }
    gnutls_free(list);
    t->has_crl = true;
    return rc;
}

/* Takes the reference to core. */
static struct sw_tls_cred *finish(struct core *core, struct sw_slice crl, struct sw_err *err)
{
    struct sw_tls_cred *t = SW_NEW(struct sw_tls_cred);
    struct sw_slice parts[2];
    int rc = SW_OK;

    atomic_init(&t->refs, 1);
    t->core = core;
    if (!blank(crl))
        rc = load_crls(t, crl, err);
    if (rc != SW_OK) {
        sw_tls_cred_unref(t);
        return NULL;
    }
    parts[0] = sw_slice(core->roots_hash, sizeof(core->roots_hash));
    parts[1] = crl;
    sw_x509_digest(parts, t->has_crl ? 2 : 1, t->bundle_hash);
    return t;
}

struct sw_tls_cred *sw_tls_cred_new(const struct sw_tls_cred_pem *pem, struct sw_err *err)
{
    struct core *core = core_new(pem, err);

    return core ? finish(core, pem->crl, err) : NULL;
}

struct sw_tls_cred *sw_tls_cred_with_crl(const struct sw_tls_cred *c, struct sw_slice crl,
                                         struct sw_err *err)
{
    atomic_fetch_add_explicit(&c->core->refs, 1, memory_order_relaxed);
    return finish(c->core, crl, err);
}

int sw_tls_cred_check_chain(const struct sw_tls_cred *c, struct sw_err *err)
{
    const struct core *core = c->core;
    gnutls_x509_crt_t list[SW_TLS_CHAIN_MAX];
    unsigned status = 0;
    int rc;

    if (!core->n_chain)
        return SW_OK;
    /* The library may sort the array it is given. */
    memcpy(list, core->chain, core->n_chain * sizeof(list[0]));
    rc = gnutls_x509_trust_list_verify_crt2(core->trust, list, (unsigned)core->n_chain, NULL, 0,
                                            GNUTLS_VERIFY_DISABLE_CRL_CHECKS, &status, NULL);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EDENIED, rc, "certificate chain cannot be verified");
    if (status & (GNUTLS_CERT_EXPIRED | GNUTLS_CERT_NOT_ACTIVATED))
        return sw_err_set(err, SW_EDENIED, "certificate is not valid at this time");
    if (status)
        return sw_err_set(err, SW_EDENIED,
                          "certificate chain does not lead to one of its roots (status 0x%x)",
                          status);
    return SW_OK;
}

struct sw_tls_cred *sw_tls_cred_ref(struct sw_tls_cred *c)
{
    atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    return c;
}

struct sw_tls_cred *sw_tls_cred_unref(struct sw_tls_cred *c)
{
    if (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) {
        core_unref(c->core);
        sw_map_done(&c->revoked);
        sw_arena_clear(&c->arena);
        sw_free(c);
    }
    return NULL;
}

const struct sw_spiffe *sw_tls_cred_id(const struct sw_tls_cred *c)
{
    return c->core->uri.n ? &c->core->id : NULL;
}

struct sw_slice sw_tls_cred_uri(const struct sw_tls_cred *c)
{
    return c->core->uri;
}

uint64_t sw_tls_cred_not_before(const struct sw_tls_cred *c)
{
    return c->core->n_chain ? c->core->chain_info[0].not_before_s : 0;
}

uint64_t sw_tls_cred_not_after(const struct sw_tls_cred *c)
{
    return c->core->n_chain ? c->core->chain_info[0].not_after_s : 0;
}

bool sw_tls_cred_has_crl(const struct sw_tls_cred *c)
{
    return c->has_crl;
}

size_t sw_tls_cred_chain(const struct sw_tls_cred *c, const struct sw_tls_cert_info **ret)
{
    *ret = c->core->chain_info;
    return c->core->n_chain;
}

size_t sw_tls_cred_roots(const struct sw_tls_cred *c, const struct sw_tls_cert_info **ret)
{
    *ret = c->core->root_info;
    return c->core->n_roots;
}

struct gnutls_certificate_credentials_st *sw_cred_gnutls(const struct sw_tls_cred *c)
{
    return c->core->xcred;
}

struct gnutls_x509_trust_list_st *sw_cred_trust(const struct sw_tls_cred *c)
{
    return c->core->trust;
}

bool sw_cred_can_serve(const struct sw_tls_cred *c)
{
    return c->core->n_chain > 0;
}

struct sw_slice sw_cred_bundle_hash(const struct sw_tls_cred *c)
{
    return sw_slice(c->bundle_hash, sizeof(c->bundle_hash));
}

bool sw_cred_revoked(const struct sw_tls_cred *c, struct sw_slice issuer, struct sw_slice serial)
{
    SW_ARENA_AUTO tmp = {0};

    if (c->revoked.n == 0)
        return false;
    return sw_map_get(&c->revoked, revoked_key(&tmp, issuer, serial)) != NULL;
}
