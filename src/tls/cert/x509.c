/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/x509.h"

#include <assert.h>
#include <string.h>

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509-ext.h>
#include <gnutls/x509.h>

#include "base/utf8.h"
#include "tls/cert/spiffe.h"
#include "tls/crypto/gnutls.h"

/* ---- sizes of keys ---- */

static size_t significant(struct sw_slice number)
{
    while (number.n && number.p[0] == 0)
        number = sw_slice_from(number, 1);
    return number.n;
}

bool sw_rsa_too_large(struct sw_slice modulus, struct sw_slice exponent)
{
    return significant(modulus) > SW_RSA_BITS_MAX / 8 ||
           significant(exponent) > SW_RSA_EXPONENT_MAX;
}

bool sw_x509_key_too_large(struct sw_slice der)
{
    SW_AUTO_DATUM m = {0};
    SW_AUTO_DATUM e = {0};
    SW_AUTO_CRT crt = NULL;
    int rc = sw_crt_import(der, false, &crt);

    if (rc == GNUTLS_E_MEMORY_ERROR)
        return true;
    return rc >= 0 && gnutls_x509_crt_get_pk_rsa_raw(crt, &m, &e) >= 0 &&
           sw_rsa_too_large(sw_slice(m.data, m.size), sw_slice(e.data, e.size));
}

/* ---- names ---- */

/* The URIs of a certificate's SAN extension, one after the other. */
struct uris {
    gnutls_subject_alt_names_t sans; /* NULL: there is none, or it is broken */
    unsigned next;
    bool bad; /* broken */
};

static void uris_done(struct uris *u)
{
    if (u->sans)
        gnutls_subject_alt_names_deinit(u->sans);
}

#define AUTO_URIS __attribute__((cleanup(uris_done))) struct uris

static struct uris uris_of(gnutls_x509_crt_t crt)
{
    struct uris u = {0};
    SW_AUTO_DATUM ext = {0};
    int rc = gnutls_x509_crt_get_extension_by_oid2(crt, GNUTLS_X509EXT_OID_SAN, 0, &ext, NULL);

    if (rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return u;
    u.bad = rc < 0 || gnutls_subject_alt_names_init(&u.sans) < 0;
    if (!u.bad && gnutls_x509_ext_import_subject_alt_names(&ext, u.sans, 0) < 0) {
        uris_done(&u);
        u = (struct uris){.bad = true};
    }
    return u;
}

static bool next_uri(struct uris *u, struct sw_slice *ret)
{
    gnutls_datum_t san;
    unsigned type;

    while (u->sans && gnutls_subject_alt_names_get(u->sans, u->next++, &type, &san, NULL) >= 0) {
        *ret = sw_slice(san.data, san.size);
        if (type == GNUTLS_SAN_URI)
            return true;
    }
    return false;
}

int sw_x509_spiffe_uris(struct gnutls_x509_crt_int *crt, struct sw_arena *a, size_t max,
                        struct sw_slice *ret_uris, size_t *ret_n, struct sw_err *err)
{
    AUTO_URIS u = uris_of(crt);
    struct sw_slice uri;
    struct sw_spiffe id;
    size_t n = 0;

    if (u.bad)
        return sw_err_set(err, SW_EINVAL, "certificate has a broken subjectAltName");
    while (next_uri(&u, &uri)) {
        if (sw_spiffe_parse(uri, &id, NULL) != SW_OK)
            continue;
        if (n == max)
            return sw_err_set(err, SW_ELIMIT, "certificate has more than %zu identities", max);
        ret_uris[n++] = sw_arena_slice(a, uri);
    }
    *ret_n = n;
    return SW_OK;
}

size_t sw_x509_count_spiffe(struct gnutls_x509_crt_int *crt)
{
    const struct sw_slice scheme = SW_SLICE_LIT("spiffe:");
    AUTO_URIS u = uris_of(crt);
    struct sw_slice uri;
    size_t n = 0;

    while (next_uri(&u, &uri))
        n += sw_slice_ieq(sw_slice_head(uri, scheme.n), scheme);
    return n;
}

size_t sw_x509_uris(struct gnutls_x509_crt_int *crt, struct sw_arena *a, size_t max,
                    struct sw_slice *ret_uris)
{
    AUTO_URIS u = uris_of(crt);
    struct sw_slice uri;
    size_t n = 0;

    while (n < max && next_uri(&u, &uri))
        ret_uris[n++] = sw_arena_slice(a, uri);
    return n;
}

struct sw_slice sw_x509_serial(struct gnutls_x509_crt_int *crt, struct sw_arena *a)
{
    uint8_t buf[256];
    size_t n = sizeof(buf);

    if (gnutls_x509_crt_get_serial(crt, buf, &n) < 0)
        n = 0;
    return sw_arena_slice(a, sw_slice(buf, n));
}

/* Repeated division by ten, a digit at a time; serials are at most 256 bytes. */
struct sw_slice sw_x509_decimal(struct sw_slice big_endian, struct sw_arena *a)
{
    uint8_t num[256];
    char digits[640];
    size_t n = sw_min(big_endian.n, sizeof(num));
    size_t at = sizeof(digits);
    bool zero = n == 0;

    if (n)
        memcpy(num, big_endian.p, n);
    do {
        unsigned rest = 0;

        zero = true;
        for (size_t i = 0; i < n; i++) {
            unsigned v = rest * 256 + num[i];

            num[i] = (uint8_t)(v / 10);
            rest = v % 10;
            zero = zero && num[i] == 0;
        }
        digits[--at] = (char)('0' + rest);
    } while (!zero && at > 0);
    return sw_arena_slice(a, sw_slice(digits + at, sizeof(digits) - at));
}

struct sw_slice sw_x509_issuer(struct gnutls_x509_crt_int *crt, struct sw_arena *a)
{
    SW_AUTO_DATUM d = {0};

    if (gnutls_x509_crt_get_raw_issuer_dn(crt, &d) < 0 || !d.data)
        return sw_slice("", 0);
    return sw_arena_slice(a, sw_slice(d.data, d.size));
}

uint64_t sw_x509_not_before(struct gnutls_x509_crt_int *crt)
{
    time_t t = gnutls_x509_crt_get_activation_time(crt);

    return t < 0 ? 0 : (uint64_t)t;
}

uint64_t sw_x509_not_after(struct gnutls_x509_crt_int *crt)
{
    time_t t = gnutls_x509_crt_get_expiration_time(crt);

    return t < 0 ? 0 : (uint64_t)t;
}

void sw_x509_digest(const struct sw_slice *pieces, size_t n, uint8_t ret[32])
{
    gnutls_hash_hd_t h = NULL;
    int rc = gnutls_hash_init(&h, GNUTLS_DIG_SHA256);

    assert(rc == 0);
    for (size_t i = 0; i < n; i++) {
        uint64_t len = pieces[i].n;

        (void)gnutls_hash(h, &len, sizeof(len));
        if (len)
            (void)gnutls_hash(h, pieces[i].p, pieces[i].n);
    }
    gnutls_hash_deinit(h, ret);
}

bool sw_x509_same_key(struct gnutls_x509_crt_int *crt, struct gnutls_x509_privkey_int *key)
{
    uint8_t a[64];
    uint8_t b[64];
    size_t na = sizeof(a);
    size_t nb = sizeof(b);

    return gnutls_x509_crt_get_key_id(crt, GNUTLS_KEYID_USE_SHA256, a, &na) >= 0 &&
           gnutls_x509_privkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, b, &nb) >= 0 && na == nb &&
           memcmp(a, b, na) == 0;
}

/* The text of a DER UTF8String, PrintableString or IA5String; p == NULL for anything else. */
static struct sw_slice der_text(const uint8_t *p, size_t n)
{
    size_t head = 2;
    size_t len;

    if (n < 2 || (p[0] != 0x0c && p[0] != 0x13 && p[0] != 0x16))
        return sw_slice(NULL, 0);
    len = p[1];
    if (len == 0x81 && n >= 3) {
        len = p[2];
        head = 3;
    } else if (len == 0x82 && n >= 4) {
        len = (size_t)p[2] << 8 | p[3];
        head = 4;
    } else if (len > 0x7f) {
        return sw_slice(NULL, 0);
    }
    return head + len == n ? sw_slice(p + head, len) : sw_slice(NULL, 0);
}

/* One value of the subject, raw so that nothing is escaped; false when there is no such index. */
static bool subject_value(struct gnutls_x509_crt_int *crt, const char *oid, unsigned index,
                          struct sw_arena *a, struct sw_slice *ret)
{
    uint8_t der[1024];
    size_t n = sizeof(der);
    int rc = gnutls_x509_crt_get_dn_by_oid(crt, oid, index, 1, der, &n);
    struct sw_slice text;

    *ret = sw_slice(NULL, 0);
    if (rc == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return false;
    if (rc < 0)
        return true;
    text = der_text(der, n);
    if (text.p && sw_utf8_valid(text))
        *ret = sw_arena_slice(a, text);
    return true;
}

size_t sw_x509_subject_names(struct gnutls_x509_crt_int *crt, struct sw_arena *a,
                             struct sw_slice *ret_cn, size_t max, struct sw_slice *ret_orgs)
{
    struct sw_slice v;
    size_t n = 0;

    (void)subject_value(crt, GNUTLS_OID_X520_COMMON_NAME, 0, a, ret_cn);
    for (unsigned i = 0; n < max; i++) {
        if (!subject_value(crt, GNUTLS_OID_X520_ORGANIZATION_NAME, i, a, &v) || i > 2 * max)
            break;
        if (v.p)
            ret_orgs[n++] = v;
    }
    return n;
}
