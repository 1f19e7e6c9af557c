/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/crypto/pkcs8.h"

#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "tls/crypto/gnutls.h"

enum {
    FIELD_MAX = 66, /* P-521 */
    DER_MAX = 320,
    TAG_INTEGER = 0x02,
    TAG_BIT_STRING = 0x03,
    TAG_OCTET_STRING = 0x04,
    TAG_OID = 0x06,
    TAG_SEQUENCE = 0x30,
    TAG_PUBLIC_KEY = 0xa1, /* [1] of ECPrivateKey */
    UNCOMPRESSED = 0x04,
};

static const uint8_t oid_ec[] = {0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01}; /* id-ecPublicKey */

struct curve {
    gnutls_ecc_curve_t id;
    size_t len; /* of a coordinate, and of the private value */
    uint8_t oid[8];
    size_t oid_len;
};

static const struct curve curves[] = {
    {GNUTLS_ECC_CURVE_SECP256R1, 32, {0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07}, 8},
    {GNUTLS_ECC_CURVE_SECP384R1, 48, {0x2b, 0x81, 0x04, 0x00, 0x22}, 5},
    {GNUTLS_ECC_CURVE_SECP521R1, 66, {0x2b, 0x81, 0x04, 0x00, 0x23}, 5},
};

/* DER is written from its end to its begin: lengths are known then. */
struct der {
    uint8_t b[DER_MAX];
    size_t at; /* the first byte written */
};

static void put(struct der *d, const void *p, size_t n)
{
    d->at -= n;
    memcpy(d->b + d->at, p, n);
}

static void put_byte(struct der *d, unsigned b)
{
    d->b[--d->at] = (uint8_t)b;
}

/* Tag and length in front of everything written since 'end'. */
static void wrap(struct der *d, size_t end, unsigned tag)
{
    size_t n = end - d->at;

    put_byte(d, (unsigned)(n & 0xff));
    if (n > 0xff) {
        put_byte(d, (unsigned)(n >> 8));
        put_byte(d, 0x82);
    } else if (n > 0x7f) {
        put_byte(d, 0x81);
    }
    put_byte(d, tag);
}

static void put_tlv(struct der *d, unsigned tag, const void *p, size_t n)
{
    size_t end = d->at;

    put(d, p, n);
    wrap(d, end, tag);
}

struct ec_key {
    const struct curve *curve;
    uint8_t k[FIELD_MAX];
    uint8_t x[FIELD_MAX];
    uint8_t y[FIELD_MAX];
};

static const struct curve *curve_of(gnutls_ecc_curve_t id)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(curves); i++) {
        if (curves[i].id == id)
            return &curves[i];
    }
    return NULL;
}

static void wipe(gnutls_datum_t *d)
{
    if (d->data)
        explicit_bzero(d->data, d->size);
    gnutls_free(d->data);
}

/* False: not a key of one of the curves above. */
static bool read_ec(gnutls_x509_privkey_t key, struct ec_key *ret)
{
    SW_AUTO_DATUM x = {0};
    SW_AUTO_DATUM y = {0};
    gnutls_datum_t k = {0};
    gnutls_ecc_curve_t id = GNUTLS_ECC_CURVE_INVALID;
    bool ok = false;

    if (gnutls_x509_privkey_get_pk_algorithm(key) != GNUTLS_PK_ECDSA ||
        gnutls_x509_privkey_export_ecc_raw(key, &id, &x, &y, &k) < 0)
        return false;
    ret->curve = curve_of(id);
    if (ret->curve)
        ok = sw_number_fixed(sw_slice(k.data, k.size), ret->curve->len, ret->k) &&
             sw_number_fixed(sw_slice(x.data, x.size), ret->curve->len, ret->x) &&
             sw_number_fixed(sw_slice(y.data, y.size), ret->curve->len, ret->y);
    wipe(&k);
    return ok;
}

/* PrivateKeyInfo around ECPrivateKey (RFC 5915). */
static void write_ec(const struct ec_key *e, struct der *d)
{
    const struct curve *c = e->curve;
    static const uint8_t zero = 0;
    static const uint8_t one = 1;
    size_t end = d->at;

    put(d, e->y, c->len);
    put(d, e->x, c->len);
    put_byte(d, UNCOMPRESSED);
    put_byte(d, 0); /* no unused bits */
    wrap(d, end, TAG_BIT_STRING);
    wrap(d, end, TAG_PUBLIC_KEY);
    put_tlv(d, TAG_OCTET_STRING, e->k, c->len);
    put_tlv(d, TAG_INTEGER, &one, 1);
    wrap(d, end, TAG_SEQUENCE);
    wrap(d, end, TAG_OCTET_STRING);
    {
        size_t algorithm = d->at;

        put_tlv(d, TAG_OID, c->oid, c->oid_len);
        put_tlv(d, TAG_OID, oid_ec, sizeof(oid_ec));
        wrap(d, algorithm, TAG_SEQUENCE);
    }
    put_tlv(d, TAG_INTEGER, &zero, 1);
    wrap(d, end, TAG_SEQUENCE);
}

static int export_ec(const struct ec_key *e, gnutls_datum_t *ret)
{
    struct der d = {.at = DER_MAX};
    gnutls_datum_t der;
    int rc;

    write_ec(e, &d);
    der = (gnutls_datum_t){.data = d.b + d.at, .size = (unsigned)(DER_MAX - d.at)};
    rc = gnutls_pem_base64_encode2("PRIVATE KEY", &der, ret);
    explicit_bzero(&d, sizeof(d));
    return rc;
}

int sw_pkcs8_pem(gnutls_x509_privkey_t key, struct sw_buf *out, struct sw_err *err)
{
    struct ec_key e = {0};
    gnutls_datum_t pem = {0};
    int rc;

    if (read_ec(key, &e))
        rc = export_ec(&e, &pem);
    else
        rc = gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN,
                                               &pem);
    explicit_bzero(&e, sizeof(e));
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "cannot write the private key");
    rc = sw_buf_append(out, pem.data, pem.size);
    wipe(&pem);
    return rc == SW_OK ? SW_OK : sw_err_set(err, rc, "no room for the private key");
}
