/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/crypto/jws.h"

#include <assert.h>
#include <string.h>

#include <gnutls/abstract.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/mem.h"
#include "tls/crypto/gnutls.h"
#include "tls/crypto/pkcs8.h"

enum { P256_LEN = 32 };

struct sw_jws_key {
    gnutls_privkey_t priv;
    gnutls_pubkey_t pub;
    struct sw_arena arena;
    struct sw_slice kid;
    struct sw_slice jwk;
};

/* --- texts --- */

int sw_base64url_append(struct sw_buf *out, struct sw_slice s)
{
    size_t from = sw_buf_len(out);
    int rc = sw_base64_append(out, s);

    if (rc != SW_OK)
        return rc;
    for (size_t i = out->off + from; i < out->n; i++) {
        if (out->p[i] == '+')
            out->p[i] = '-';
        else if (out->p[i] == '/')
            out->p[i] = '_';
    }
    while (out->n > out->off + from && out->p[out->n - 1] == '=')
        out->n--;
    return SW_OK;
}

int sw_base64url_decode(struct sw_buf *out, struct sw_slice text)
{
    SW_BUF_AUTO std = {.max = text.n + 4};
    int rc = SW_OK;

    if (text.n % 4 == 1)
        return SW_EINVAL;
    for (size_t i = 0; i < text.n && rc == SW_OK; i++) {
        char c = text.p[i];

        if (c == '+' || c == '/' || c == '=')
            return SW_EINVAL;
        if (c == '-')
            c = '+';
        else if (c == '_')
            c = '/';
        rc = sw_buf_putc(&std, c);
    }
    while (rc == SW_OK && sw_buf_len(&std) % 4)
        rc = sw_buf_putc(&std, '=');
    return rc == SW_OK ? sw_base64_decode(out, sw_buf_slice(&std)) : rc;
}

void sw_digest_sha256(struct sw_slice s, uint8_t ret[32])
{
    int rc = gnutls_hash_fast(GNUTLS_DIG_SHA256, s.p, s.n, ret);

    assert(rc >= 0);
}

void sw_digest_sha512(struct sw_slice s, uint8_t ret[64])
{
    int rc = gnutls_hash_fast(GNUTLS_DIG_SHA512, s.p, s.n, ret);

    assert(rc >= 0);
}

/* --- keys --- */

void sw_jws_key_free(struct sw_jws_key *k)
{
    if (!k)
        return;
    if (k->priv)
        gnutls_privkey_deinit(k->priv);
    if (k->pub)
        gnutls_pubkey_deinit(k->pub);
    sw_arena_clear(&k->arena);
    sw_free(k);
}

static struct sw_slice url64(struct sw_arena *a, struct sw_slice raw)
{
    SW_BUF_AUTO b = {.max = 4096};

    if (sw_base64url_append(&b, raw) != SW_OK)
        return sw_slice("", 0);
    return sw_arena_slice(a, sw_buf_slice(&b));
}

static struct sw_slice coordinate(struct sw_arena *a, const gnutls_datum_t *d)
{
    uint8_t raw[P256_LEN] = {0};

    (void)sw_number_fixed(sw_slice(d->data, d->size), P256_LEN, raw);
    return url64(a, sw_slice(raw, sizeof(raw)));
}

static int describe(struct sw_jws_key *k)
{
    gnutls_ecc_curve_t curve = GNUTLS_ECC_CURVE_INVALID;
    SW_AUTO_DATUM spki = {0};
    SW_AUTO_DATUM x = {0};
    SW_AUTO_DATUM y = {0};
    uint8_t hash[32];
    int rc = gnutls_pubkey_export_ecc_raw2(k->pub, &curve, &x, &y, 0);

    if (rc >= 0 && curve != GNUTLS_ECC_CURVE_SECP256R1)
        rc = GNUTLS_E_UNSUPPORTED_SIGNATURE_ALGORITHM;
    if (rc >= 0)
        rc = gnutls_pubkey_export2(k->pub, GNUTLS_X509_FMT_DER, &spki);
    if (rc >= 0) {
        struct sw_slice cx = coordinate(&k->arena, &x);
        struct sw_slice cy = coordinate(&k->arena, &y);

        sw_digest_sha256(sw_slice(spki.data, spki.size), hash);
        k->kid = url64(&k->arena, sw_slice(hash, sizeof(hash)));
        k->jwk = sw_slice_str(sw_arena_printf(
            &k->arena,
            "{\"use\":\"sig\",\"kty\":\"EC\",\"kid\":\"%.*s\",\"crv\":\"P-256\",\"alg\":\"ES256\","
            "\"x\":\"%.*s\",\"y\":\"%.*s\"}",
            SW_SLICE_ARG(k->kid), SW_SLICE_ARG(cx), SW_SLICE_ARG(cy)));
    }
    return rc;
}

/* rc: of making the private key. */
static struct sw_jws_key *finish_key(gnutls_x509_privkey_t raw, int rc, struct sw_err *err)
{
    struct sw_jws_key *k = SW_NEW(struct sw_jws_key);

    if (rc >= 0)
        rc = gnutls_privkey_init(&k->priv);
    if (rc >= 0)
        rc = gnutls_privkey_import_x509(k->priv, raw, GNUTLS_PRIVKEY_IMPORT_COPY);
    if (rc >= 0)
        rc = gnutls_pubkey_init(&k->pub);
    if (rc >= 0)
        rc = gnutls_pubkey_import_privkey(k->pub, k->priv, 0, 0);
    if (rc >= 0)
        rc = describe(k);
    if (rc >= 0)
        return k;
    (void)sw_gnutls_err(err, SW_EINVAL, rc, "token key");
    sw_jws_key_free(k);
    return NULL;
}

struct sw_jws_key *sw_jws_key_new(struct sw_err *err)
{
    SW_AUTO_KEY raw = NULL;
    int rc = sw_key_generate(&raw);

    return finish_key(raw, rc, err);
}

struct sw_jws_key *sw_jws_key_from_pem(struct sw_slice pem, struct sw_err *err)
{
    SW_AUTO_KEY raw = NULL;
    int rc = sw_key_import(pem, &raw);

    return finish_key(raw, rc, err);
}

struct sw_jws_key *sw_jws_key_public(struct sw_slice spki, struct sw_err *err)
{
    gnutls_datum_t d = SW_DATUM(spki);
    struct sw_jws_key *k = SW_NEW(struct sw_jws_key);
    int rc = gnutls_pubkey_init(&k->pub);

    if (rc >= 0)
        rc = gnutls_pubkey_import(k->pub, &d, GNUTLS_X509_FMT_DER);
    if (rc >= 0)
        rc = describe(k);
    if (rc >= 0)
        return k;
    (void)sw_gnutls_err(err, SW_EINVAL, rc, "public key");
    sw_jws_key_free(k);
    return NULL;
}

int sw_jws_key_pem(const struct sw_jws_key *k, struct sw_buf *out, struct sw_err *err)
{
    SW_AUTO_KEY raw = NULL;
    int rc = gnutls_privkey_export_x509(k->priv, &raw);

    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "token key");
    rc = sw_pkcs8_pem(raw, out, err);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "token key");
}

struct sw_slice sw_jws_jwk(const struct sw_jws_key *k)
{
    return k->jwk;
}

/* --- tokens --- */

static int raw_signature(const gnutls_datum_t *der, uint8_t out[2 * P256_LEN])
{
    SW_AUTO_DATUM r = {0};
    SW_AUTO_DATUM s = {0};
    int rc = gnutls_decode_rs_value(der, &r, &s);

    if (rc >= 0 && !(sw_number_fixed(sw_slice(r.data, r.size), P256_LEN, out) &&
                     sw_number_fixed(sw_slice(s.data, s.size), P256_LEN, out + P256_LEN)))
        rc = GNUTLS_E_ASN1_DER_ERROR;
    return rc;
}

int sw_jws_sign(const struct sw_jws_key *k, struct sw_slice payload, struct sw_buf *out,
                struct sw_err *err)
{
    SW_BUF_AUTO text = {.max = SW_JWS_TOKEN_MAX};
    SW_AUTO_FREE char *head =
        sw_asprintf("{\"alg\":\"ES256\",\"kid\":\"%.*s\"}", SW_SLICE_ARG(k->kid));
    SW_AUTO_DATUM sig = {0};
    uint8_t raw[2 * P256_LEN];
    gnutls_datum_t d;
    int rc;

    if (sw_base64url_append(&text, sw_slice_str(head)) != SW_OK ||
        sw_buf_putc(&text, '.') != SW_OK || sw_base64url_append(&text, payload) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "the token would be too long");
    d = SW_DATUM(sw_buf_slice(&text));
    rc = gnutls_privkey_sign_data2(k->priv, GNUTLS_SIGN_ECDSA_SHA256, 0, &d, &sig);
    if (rc >= 0)
        rc = raw_signature(&sig, raw);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EINVAL, rc, "cannot sign a token");
    if (sw_buf_putc(&text, '.') != SW_OK ||
        sw_base64url_append(&text, sw_slice(raw, sizeof(raw))) != SW_OK ||
        sw_buf_append_slice(out, sw_buf_slice(&text)) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "the token would be too long");
    return SW_OK;
}

static int check_header(struct sw_slice head, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO text = {.max = 4096};
    struct sw_json_opts o = {.max_depth = 4};
    struct sw_json *v = NULL;

    if (sw_base64url_decode(&text, head) != SW_OK ||
        sw_json_parse(&a, sw_buf_slice(&text), &o, &v, NULL) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "token header does not parse");
    if (!sw_json_str_eq(sw_json_find(v, "alg"), "ES256") || sw_json_find(v, "crit"))
        return sw_err_set(err, SW_EINVAL, "token is not signed with ES256");
    return SW_OK;
}

static int check_signature(const struct sw_jws_key *k, struct sw_slice text, struct sw_slice sig)
{
    gnutls_datum_t r = SW_DATUM(sw_slice_head(sig, P256_LEN));
    gnutls_datum_t s = SW_DATUM(sw_slice_from(sig, P256_LEN));
    gnutls_datum_t d = SW_DATUM(text);
    SW_AUTO_DATUM der = {0};
    int rc = gnutls_encode_rs_value(&der, &r, &s);

    if (rc >= 0)
        rc = gnutls_pubkey_verify_data2(k->pub, GNUTLS_SIGN_ECDSA_SHA256, 0, &d, &der);
    return rc;
}

int sw_jws_verify(const struct sw_jws_key *k, struct sw_arena *a, struct sw_slice token,
                  struct sw_slice *ret_payload, struct sw_err *err)
{
    struct sw_slice rest = token;
    struct sw_slice head = sw_slice_cut(&rest, '.');
    struct sw_slice body = rest.p ? sw_slice_cut(&rest, '.') : sw_slice("", 0);
    SW_BUF_AUTO sig = {.max = 256};
    SW_BUF_AUTO payload = {.max = SW_JWS_TOKEN_MAX};
    int rc;

    if (token.n > SW_JWS_TOKEN_MAX || !rest.p || sw_slice_find(rest, '.') >= 0)
        return sw_err_set(err, SW_EINVAL, "not a token");
    rc = check_header(head, err);
    if (rc != SW_OK)
        return rc;
    if (sw_base64url_decode(&sig, rest) != SW_OK || sw_buf_len(&sig) != (size_t)2 * P256_LEN ||
        sw_base64url_decode(&payload, body) != SW_OK)
        return sw_err_set(err, SW_EINVAL, "token does not parse");
    rc = check_signature(k, sw_slice(token.p, head.n + 1 + body.n), sw_buf_slice(&sig));
    if (rc < 0)
        return sw_err_set(err, SW_EDENIED, "token has a wrong signature");
    *ret_payload = sw_arena_slice(a, sw_buf_slice(&payload));
    return SW_OK;
}
