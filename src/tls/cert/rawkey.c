/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/rawkey.h"

#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"
#include "tls/cert/pemfile.h"
#include "tls/cert/vault.h"
#include "tls/crypto/curve25519.h"
#include "tls/crypto/gnutls.h"

/* The seed is what must not leak, so the struct lives in the vault. */
struct sw_rawkey {
    uint8_t seed[SW_SEED_LEN];
    struct sw_nodeid id;
    gnutls_privkey_t priv; /* owned; only read after it was made */
};

/* PKCS#8 (RFC 8410) of an Ed25519 key is this and the seed. */
static const uint8_t pkcs8_head[] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                     0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};

static void put_pkcs8(const uint8_t *seed, uint8_t ret[SW_RAWKEY_PKCS8])
{
    memcpy(ret, pkcs8_head, sizeof(pkcs8_head));
    memcpy(ret + sizeof(pkcs8_head), seed, SW_SEED_LEN);
}

void sw_rawkey_pkcs8(const struct sw_rawkey *k, uint8_t ret[SW_RAWKEY_PKCS8])
{
    put_pkcs8(k->seed, ret);
}

static int import_seed(gnutls_privkey_t priv, const uint8_t *seed)
{
    uint8_t der[SW_RAWKEY_PKCS8];
    gnutls_datum_t d = {.data = der, .size = sizeof(der)};
    int rc;

    put_pkcs8(seed, der);
    rc = gnutls_privkey_import_x509_raw(priv, &d, GNUTLS_X509_FMT_DER, NULL, 0);
    explicit_bzero(der, sizeof(der));
    return rc;
}

static int derive_id(gnutls_privkey_t priv, struct sw_nodeid *ret)
{
    gnutls_pubkey_t pub;
    gnutls_ecc_curve_t curve;
    SW_AUTO_DATUM x = {0};
    int rc = gnutls_pubkey_init(&pub);

    if (rc != 0)
        return rc;
    rc = gnutls_pubkey_import_privkey(pub, priv, GNUTLS_KEY_DIGITAL_SIGNATURE, 0);
    if (rc == 0)
        rc = gnutls_pubkey_export_ecc_raw2(pub, &curve, &x, NULL, GNUTLS_EXPORT_FLAG_NO_LZ);
    if (rc == 0 && x.size == SW_NODEID_LEN)
        memcpy(ret->b, x.data, SW_NODEID_LEN);
    else if (rc == 0)
        rc = GNUTLS_E_INTERNAL_ERROR;
    gnutls_pubkey_deinit(pub);
    return rc;
}

struct sw_rawkey *sw_rawkey_from_seed(const uint8_t seed[SW_SEED_LEN], struct sw_err *err)
{
    struct sw_rawkey *k = sw_vault_alloc(sizeof(*k));
    int rc = gnutls_privkey_init(&k->priv);

    if (rc == 0)
        rc = import_seed(k->priv, seed);
    if (rc == 0)
        rc = derive_id(k->priv, &k->id);
    if (rc != 0) {
        (void)sw_err_set(err, SW_EINVAL, "cannot make an Ed25519 key: %s", gnutls_strerror(rc));
        sw_rawkey_free(k);
        return NULL;
    }
    memcpy(k->seed, seed, SW_SEED_LEN);
    return k;
}

struct sw_rawkey *sw_rawkey_generate(struct sw_err *err)
{
    uint8_t seed[SW_SEED_LEN];
    struct sw_rawkey *k;

    sw_rand_bytes(seed, sizeof(seed));
    k = sw_rawkey_from_seed(seed, err);
    explicit_bzero(seed, sizeof(seed));
    return k;
}

static int read_seed(const char *path, uint8_t seed[SW_SEED_LEN], struct sw_err *err)
{
    SW_BUF_SECRET b = {.max = SW_SEED_LEN + 1};
    struct stat st;
    int rc = sw_pemfile_read(path, &b, err);

    if (rc == SW_ELIMIT || (rc == SW_OK && sw_buf_len(&b) != SW_SEED_LEN))
        rc = sw_err_set(err, SW_EINVAL, "key file '%s' does not have %d bytes", path, SW_SEED_LEN);
    else if (rc == SW_OK && stat(path, &st) == 0 && (st.st_mode & 077) != 0)
        rc = sw_err_set(err, SW_EINVAL, "key file '%s' may be used by others (mode %03o)", path,
                        (unsigned)st.st_mode & 0777);
    if (rc == SW_OK)
        memcpy(seed, b.p + b.off, SW_SEED_LEN);
    return rc;
}

struct sw_rawkey *sw_rawkey_open(const char *path, struct sw_err *err)
{
    uint8_t seed[SW_SEED_LEN];
    struct sw_rawkey *k = NULL;
    int rc = read_seed(path, seed, err);

    if (rc == SW_ENOENT) {
        sw_rand_bytes(seed, sizeof(seed));
        rc = sw_file_write(path, sw_slice(seed, sizeof(seed)), 0600, false, err);
        /* Another process was faster: use its key. */
        if (rc == SW_EINVAL)
            rc = read_seed(path, seed, err);
    }
    if (rc == SW_OK)
        k = sw_rawkey_from_seed(seed, err);
    explicit_bzero(seed, sizeof(seed));
    return k;
}

void sw_rawkey_free(struct sw_rawkey *k)
{
    if (!k)
        return;
    gnutls_privkey_deinit(k->priv);
    sw_vault_free(k);
}

const struct sw_nodeid *sw_rawkey_id(const struct sw_rawkey *k)
{
    return &k->id;
}

const uint8_t *sw_rawkey_seed(const struct sw_rawkey *k)
{
    return k->seed;
}

int sw_rawkey_sign(const struct sw_rawkey *k, struct sw_slice msg, uint8_t ret_sig[SW_ED25519_SIG],
                   struct sw_err *err)
{
    gnutls_datum_t in = SW_DATUM(msg);
    SW_AUTO_DATUM sig = {0};
    int rc = gnutls_privkey_sign_data2(k->priv, GNUTLS_SIGN_EDDSA_ED25519, 0, &in, &sig);

    if (rc == 0 && sig.size != SW_ED25519_SIG)
        rc = GNUTLS_E_INTERNAL_ERROR;
    if (rc != 0)
        return sw_err_set(err, SW_EINVAL, "cannot sign: %s", gnutls_strerror(rc));
    memcpy(ret_sig, sig.data, SW_ED25519_SIG);
    return SW_OK;
}

bool sw_rawkey_verify(const struct sw_nodeid *id, struct sw_slice msg,
                      const uint8_t sig[SW_ED25519_SIG])
{
    gnutls_datum_t in = SW_DATUM(msg);
    gnutls_datum_t x = SW_DATUM(sw_slice(id->b, SW_NODEID_LEN));
    gnutls_datum_t s = SW_DATUM(sw_slice(sig, SW_ED25519_SIG));
    gnutls_pubkey_t pub;
    bool ok;

    if (!sw_nodeid_valid(id) || gnutls_pubkey_init(&pub) != 0)
        return false;
    ok = gnutls_pubkey_import_ecc_raw(pub, GNUTLS_ECC_CURVE_ED25519, &x, NULL) == 0 &&
         gnutls_pubkey_verify_data2(pub, GNUTLS_SIGN_EDDSA_ED25519, 0, &in, &s) >= 0;
    gnutls_pubkey_deinit(pub);
    return ok;
}

bool sw_nodeid_valid(const struct sw_nodeid *id)
{
    return sw_ed25519_point_ok(id->b);
}
