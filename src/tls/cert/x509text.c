/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/x509text.h"

#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/arena.h"
#include "base/time.h"
#include "tls/cert/constraints.h"
#include "tls/cert/cred.h"
#include "tls/cert/spiffe.h"
#include "tls/cert/x509.h"
#include "tls/crypto/gnutls.h"

struct printer {
    struct sw_buf *out;
    struct sw_arena arena;
    uint64_t now_s;
    bool full;
};

static void put(struct printer *p, const char *fmt, ...) SW_PRINTF(2, 3);

static void put(struct printer *p, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    if (sw_buf_vprintf(p->out, fmt, ap) != SW_OK)
        p->full = true;
    va_end(ap);
}

/* Untrusted bytes: everything but printable ASCII as \xNN. */
static void put_text(struct printer *p, struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];

        if (c >= ' ' && c < 0x7f && c != '\\')
            put(p, "%c", c);
        else
            put(p, "\\x%02x", c);
    }
}

static void put_field(struct printer *p, const char *name, struct sw_slice value)
{
    put(p, "  %-12s ", name);
    put_text(p, value);
    put(p, "\n");
}

static void put_dn(struct printer *p, const char *name, gnutls_datum_t *dn, int rc)
{
    if (rc < 0 || dn->size == 0)
        put(p, "  %-12s (empty)\n", name);
    else
        put_field(p, name, sw_slice(dn->data, dn->size));
    sw_datum_done(dn);
}

/* "3d4h", "2h5m", "40s": the two largest units are enough. */
static void put_span(struct printer *p, uint64_t s)
{
    if (s >= 86400)
        put(p, "%llud%lluh", (unsigned long long)(s / 86400),
            (unsigned long long)(s % 86400 / 3600));
    else if (s >= 3600)
        put(p, "%lluh%llum", (unsigned long long)(s / 3600), (unsigned long long)(s % 3600 / 60));
    else if (s >= 60)
        put(p, "%llum%llus", (unsigned long long)(s / 60), (unsigned long long)(s % 60));
    else
        put(p, "%llus", (unsigned long long)s);
}

static void put_time(struct printer *p, const char *name, uint64_t s)
{
    char text[SW_RFC3339_LEN];

    /* The text form ends with year 9999, and so do certificates. */
    if (s > UINT64_C(253402300799))
        put(p, "  %-12s never\n", name);
    else
        put(p, "  %-12s %s\n", name, sw_rfc3339(s * SW_NS_PER_S, 0, text));
}

static void put_validity(struct printer *p, uint64_t from, uint64_t to)
{
    put_time(p, "not before", from);
    put_time(p, "not after", to);
    put(p, "  %-12s ", "status");
    if (p->now_s < from) {
        put(p, "not valid yet, begins in ");
        put_span(p, from - p->now_s);
    } else if (p->now_s > to) {
        put(p, "EXPIRED ");
        put_span(p, p->now_s - to);
        put(p, " ago");
    } else {
        put(p, "valid, ");
        put_span(p, to - p->now_s);
        put(p, " left");
    }
    put(p, "\n");
}

static void put_key_type(struct printer *p, int alg, unsigned bits, gnutls_ecc_curve_t curve)
{
    const char *name = alg >= 0 ? gnutls_pk_get_name((gnutls_pk_algorithm_t)alg) : NULL;

    put(p, "  %-12s %s", "key", name ? name : "unknown");
    if (curve != GNUTLS_ECC_CURVE_INVALID && gnutls_ecc_curve_get_name(curve))
        put(p, " %s", gnutls_ecc_curve_get_name(curve));
    put(p, ", %u bits\n", bits);
}

static void put_hex(struct printer *p, struct sw_slice bytes)
{
    for (size_t i = 0; i < bytes.n; i++)
        put(p, "%02x", (unsigned char)bytes.p[i]);
}

static void put_digest(struct printer *p, const char *name, const uint8_t *b, size_t n)
{
    put(p, "  %-12s ", name);
    put_hex(p, sw_slice(b, n));
    put(p, "\n");
}

static void put_identities(struct printer *p, gnutls_x509_crt_t crt)
{
    struct sw_slice uris[32];
    size_t n = sw_x509_uris(crt, &p->arena, SW_ARRAY_LEN(uris), uris);
    struct sw_spiffe id;

    for (size_t i = 0; i < n; i++) {
        bool workload = sw_spiffe_parse(uris[i], &id, NULL) == SW_OK;

        put_field(p, workload ? "identity" : "other URI", uris[i]);
    }
}

static void put_constraint(void *arg, bool permitted, const char *kind, struct sw_slice name)
{
    struct printer *p = arg;

    put(p, "  %-12s %s:", permitted ? "permitted" : "excluded", kind);
    if (strcmp(kind, "IP") == 0)
        put_hex(p, name);
    else
        put_text(p, name);
    put(p, "\n");
}

static void put_purposes(struct printer *p, gnutls_x509_crt_t crt)
{
    unsigned n = 0;

    for (unsigned i = 0; i < 16; i++) {
        char oid[128];
        size_t len = sizeof(oid);

        if (gnutls_x509_crt_get_key_purpose_oid(crt, i, oid, &len, NULL) < 0)
            break;
        if (n++)
            put(p, ", ");
        else
            put(p, "  %-12s ", "use");
        if (strcmp(oid, GNUTLS_KP_TLS_WWW_SERVER) == 0)
            put(p, "server");
        else if (strcmp(oid, GNUTLS_KP_TLS_WWW_CLIENT) == 0)
            put(p, "client");
        else
            put_text(p, sw_slice_str(oid));
    }
    if (n)
        put(p, "\n");
}

static int explain_crt(struct printer *p, struct sw_slice in, bool pem, unsigned nth,
                       struct sw_err *err)
{
    gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
    SW_AUTO_CRT crt = NULL;
    gnutls_datum_t dn = {0};
    uint8_t print[32];
    size_t print_len = sizeof(print);
    unsigned bits = 0;
    int alg;
    int rc = sw_crt_import(in, pem, &crt);

    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "broken certificate");
    put(p, "certificate %u%s\n", nth, gnutls_x509_crt_get_ca_status(crt, NULL) > 0 ? " (CA)" : "");
    put_identities(p, crt);
    rc = gnutls_x509_crt_get_dn3(crt, &dn, 0);
    put_dn(p, "subject", &dn, rc);
    rc = gnutls_x509_crt_get_issuer_dn3(crt, &dn, 0);
    put_dn(p, gnutls_x509_crt_check_issuer(crt, crt) ? "self-signed" : "issuer", &dn, rc);
    put_field(p, "serial", sw_x509_decimal(sw_x509_serial(crt, &p->arena), &p->arena));
    put_validity(p, sw_x509_not_before(crt), sw_x509_not_after(crt));
    alg = gnutls_x509_crt_get_pk_algorithm(crt, &bits);
    if (alg == GNUTLS_PK_ECDSA)
        (void)gnutls_x509_crt_get_pk_ecc_raw(crt, &curve, NULL, NULL);
    put_key_type(p, alg, bits, curve);
    put_purposes(p, crt);
    sw_x509_each_constraint(crt, put_constraint, p);
    if (gnutls_x509_crt_get_fingerprint(crt, GNUTLS_DIG_SHA256, print, &print_len) >= 0)
        put_digest(p, "sha256", print, print_len);
    return SW_OK;
}

static void put_revoked(struct printer *p, gnutls_x509_crl_t crl)
{
    gnutls_x509_crl_iter_t iter = NULL;
    uint8_t serial[256];
    size_t n = sizeof(serial);
    time_t when = 0;

    for (unsigned i = 0; i < 1000; i++) {
        if (gnutls_x509_crl_iter_crt_serial(crl, &iter, serial, &n, &when) < 0)
            break;
        put_field(p, "revoked", sw_x509_decimal(sw_slice(serial, n), &p->arena));
        n = sizeof(serial);
    }
    gnutls_x509_crl_iter_deinit(iter);
}

static int explain_crl(struct printer *p, struct sw_slice pem, unsigned nth, struct sw_err *err)
{
    gnutls_datum_t d = SW_DATUM(pem);
    gnutls_x509_crl_t crl = NULL;
    gnutls_datum_t dn = {0};
    time_t to;
    int rc = gnutls_x509_crl_init(&crl);

    if (rc >= 0)
        rc = gnutls_x509_crl_import(crl, &d, GNUTLS_X509_FMT_PEM);
    if (rc < 0) {
        if (crl)
            gnutls_x509_crl_deinit(crl);
        return sw_gnutls_err(err, SW_EINVAL, rc, "broken CRL");
    }
    put(p, "revocation list %u\n", nth);
    rc = gnutls_x509_crl_get_issuer_dn3(crl, &dn, 0);
    put_dn(p, "issuer", &dn, rc);
    to = gnutls_x509_crl_get_this_update(crl);
    put_time(p, "issued", to > 0 ? (uint64_t)to : 0);
    to = gnutls_x509_crl_get_next_update(crl);
    if (to > 0)
        put_time(p, "next", (uint64_t)to);
    rc = gnutls_x509_crl_get_crt_count(crl);
    put(p, "  %-12s %d\n", "certificates", rc > 0 ? rc : 0);
    put_revoked(p, crl);
    gnutls_x509_crl_deinit(crl);
    return SW_OK;
}

static int explain_key(struct printer *p, struct sw_slice pem, unsigned nth, struct sw_err *err)
{
    gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
    SW_AUTO_KEY key = NULL;
    uint8_t id[64];
    size_t n = sizeof(id);
    unsigned bits = 0;
    int alg;
    int rc = sw_key_import(pem, &key);

    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "broken private key");
    alg = gnutls_x509_privkey_get_pk_algorithm2(key, &bits);
    if (alg == GNUTLS_PK_ECDSA)
        (void)gnutls_x509_privkey_export_ecc_raw(key, &curve, NULL, NULL, NULL);
    put(p, "private key %u (public half only)\n", nth);
    put_key_type(p, alg, bits, curve);
    if (gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, id, &n) >= 0)
        put_digest(p, "key sha256", id, n);
    return SW_OK;
}

/* One PEM block beginning at 'rest', its label, and the rest behind it. */
static bool next_block(struct sw_slice *rest, struct sw_slice *ret_block,
                       struct sw_slice *ret_label)
{
    static const char begin[] = "-----BEGIN ";
    static const char dashes[] = "-----";
    const char *from = memmem(rest->p, rest->n, begin, sizeof(begin) - 1);
    const char *label = from ? from + sizeof(begin) - 1 : NULL;
    const char *end = rest->p + rest->n;
    const char *stop = from ? memmem(label, (size_t)(end - label), dashes, 5) : NULL;
    const char *foot = stop ? memmem(stop + 5, (size_t)(end - stop - 5), "-----END ", 9) : NULL;
    const char *tail = foot ? memmem(foot + 9, (size_t)(end - foot - 9), dashes, 5) : NULL;

    if (!tail)
        return false;
    *ret_label = sw_slice(label, (size_t)(stop - label));
    *ret_block = sw_slice(from, (size_t)(tail + 5 - from));
    *rest = sw_slice(tail + 5, (size_t)(end - tail - 5));
    return true;
}

static int explain_block(struct printer *p, struct sw_slice block, struct sw_slice label,
                         unsigned count[3], struct sw_err *err)
{
    if (sw_slice_eq_str(label, "CERTIFICATE"))
        return explain_crt(p, block, true, ++count[0], err);
    if (sw_slice_eq_str(label, "X509 CRL"))
        return explain_crl(p, block, ++count[1], err);
    if (sw_slice_has_suffix(label, SW_SLICE_LIT("PRIVATE KEY")))
        return explain_key(p, block, ++count[2], err);
    return SW_OK; /* parameters and other company */
}

int sw_x509_explain(struct sw_slice content, uint64_t now_s, struct sw_buf *out, struct sw_err *err)
{
    struct printer p = {.out = out, .now_s = now_s};
    struct sw_slice rest = content;
    struct sw_slice block;
    struct sw_slice label;
    unsigned count[3] = {0};
    int rc = SW_OK;

    if (content.n > SW_TLS_PEM_MAX)
        return sw_err_set(err, SW_ELIMIT, "larger than %d bytes", SW_TLS_PEM_MAX);
    if (content.n > 1 && content.p[0] == 0x30) {
        rc = explain_crt(&p, content, false, ++count[0], err);
    } else {
        while (rc == SW_OK && next_block(&rest, &block, &label)) {
            if (count[0] + count[1] + count[2] == SW_X509_EXPLAIN_MAX)
                rc = sw_err_set(err, SW_ELIMIT, "more than %d objects", SW_X509_EXPLAIN_MAX);
            else
                rc = explain_block(&p, block, label, count, err);
        }
        if (rc == SW_OK && count[0] + count[1] + count[2] == 0)
            rc = sw_err_set(err, SW_EINVAL, "no certificate, CRL or key in there");
    }
    if (rc == SW_OK && p.full)
        rc = sw_err_set(err, SW_ELIMIT, "too much to print");
    sw_arena_clear(&p.arena);
    return rc;
}
