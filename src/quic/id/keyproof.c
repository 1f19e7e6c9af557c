/* SPDX-License-Identifier: Apache-2.0 */
#include "quic/id/keyproof.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/mem.h"
#include "tls/crypto/jws.h"

static const char domain[] = "spanwire connector key proof v1";

enum {
    DOMAIN = sizeof(domain), /* with its NUL */
    MESSAGE = DOMAIN + 3 * (2 + SW_KEYPROOF_FIELD) + SW_NODEID_LEN + 8,
    MEMO = 1 << 15, /* results; a power of two */
};

/* ---- the message ---- */

static uint8_t *put_field(uint8_t *at, struct sw_slice s)
{
    *at++ = (uint8_t)(s.n >> 8);
    *at++ = (uint8_t)s.n;
    memcpy(at, s.p, s.n);
    return at + s.n;
}

static bool fits(struct sw_slice s)
{
    return s.n && s.n <= SW_KEYPROOF_FIELD;
}

/* 0: a field is empty or too long. */
static size_t message(const struct sw_keyproof_of *of, const struct sw_nodeid *id,
                      uint8_t ret[MESSAGE])
{
    uint8_t *at = ret;

    if (!fits(of->uid) || !fits(of->ns) || !fits(of->name))
        return 0;
    memcpy(at, domain, DOMAIN);
    at = put_field(at + DOMAIN, of->uid);
    at = put_field(at, of->ns);
    at = put_field(at, of->name);
    memcpy(at, id->b, SW_NODEID_LEN);
    at += SW_NODEID_LEN;
    for (int shift = 56; shift >= 0; shift -= 8)
        *at++ = (uint8_t)(of->version >> shift);
    return (size_t)(at - ret);
}

int sw_keyproof_sign(const struct sw_rawkey *key, const struct sw_keyproof_of *of,
                     char ret[SW_KEYPROOF_TEXT], struct sw_err *err)
{
    uint8_t msg[MESSAGE];
    uint8_t sig[SW_ED25519_SIG];
    char hex[2 * SW_ED25519_SIG + 1];
    size_t n = message(of, sw_rawkey_id(key), msg);
    int rc;

    if (!n)
        return sw_err_set(err, SW_EINVAL, "a Connector without uid, namespace or name");
    rc = sw_rawkey_sign(key, sw_slice(msg, n), sig, err);
    if (rc != SW_OK)
        return rc;
    *sw_hex_write(hex, sig, sizeof(sig)) = '\0';
    (void)snprintf(ret, SW_KEYPROOF_TEXT, "v1.%llu.%s", (unsigned long long)of->version, hex);
    return SW_OK;
}

/* ---- reading ---- */

static bool plain_number(struct sw_slice s, uint64_t *ret)
{
    return s.n && (s.n == 1 || s.p[0] != '0') && sw_slice_to_u64(s, UINT64_MAX, ret);
}

int sw_keyproof_parse(struct sw_slice text, uint64_t *ret_version, uint8_t ret_sig[SW_ED25519_SIG])
{
    struct sw_slice rest = text;
    struct sw_slice form;
    struct sw_slice number;
    uint64_t version;
    uint8_t sig[SW_ED25519_SIG];

    if (text.n >= SW_KEYPROOF_TEXT)
        return SW_EINVAL;
    form = sw_slice_cut(&rest, '.');
    number = rest.p ? sw_slice_cut(&rest, '.') : sw_slice(NULL, 0);
    if (!rest.p || !sw_slice_eq_str(form, "v1") || !plain_number(number, &version) ||
        !sw_hex_read_lower(rest, sig, sizeof(sig)))
        return SW_EINVAL;
    memcpy(ret_sig, sig, sizeof(sig));
    *ret_version = version;
    return SW_OK;
}

uint64_t sw_keyproof_version(const struct sw_json *obj)
{
    uint64_t v = 0;

    return plain_number(sw_json_str(sw_json_walk(obj, "metadata", "resourceVersion", NULL)), &v)
               ? v
               : 0;
}

/* ---- results of signatures ---- */

/*
 * Builds judge every Connector each time, and a verification is some 100 microseconds. Wrong
 * signatures are remembered too: they would cost the same again. An entry is replaced by the next
 * one that falls on its place.
 */
static struct {
    pthread_mutex_t lock;
    struct {
        uint8_t digest[32];
        bool used;
        bool good;
    } * at; /* MEMO of them, made at the first use; lives as long as the process */
} memo = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool recall(size_t place, const uint8_t digest[32], bool *ret_good)
{
    bool known;

    (void)pthread_mutex_lock(&memo.lock);
    if (!memo.at)
        memo.at = sw_calloc(MEMO, sizeof(*memo.at));
    known = memo.at[place].used && memcmp(memo.at[place].digest, digest, 32) == 0;
    *ret_good = known && memo.at[place].good;
    (void)pthread_mutex_unlock(&memo.lock);
    return known;
}

static void remember(size_t place, const uint8_t digest[32], bool good)
{
    (void)pthread_mutex_lock(&memo.lock);
    memcpy(memo.at[place].digest, digest, 32);
    memo.at[place].used = true;
    memo.at[place].good = good;
    (void)pthread_mutex_unlock(&memo.lock);
}

static bool verified(const struct sw_nodeid *id, const uint8_t *msg, size_t n,
                     const uint8_t sig[SW_ED25519_SIG])
{
    uint8_t both[MESSAGE + SW_ED25519_SIG]; /* the NodeID is in the message */
    uint8_t digest[32];
    size_t place;
    bool good;

    memcpy(both, msg, n);
    memcpy(both + n, sig, SW_ED25519_SIG);
    sw_digest_sha256(sw_slice(both, n + SW_ED25519_SIG), digest);
    place = sw_hash(digest, sizeof(digest)) % MEMO;
    if (recall(place, digest, &good))
        return good;
    good = sw_rawkey_verify(id, sw_slice(msg, n), sig);
    remember(place, digest, good);
    return good;
}

/* ---- judging ---- */

static struct sw_slice meta(const struct sw_json *obj, const char *field)
{
    return sw_json_str(sw_json_walk(obj, "metadata", field, NULL));
}

enum sw_keyproof sw_keyproof_check(const struct sw_json *connector, uint64_t *ret_version)
{
    struct sw_slice key = sw_json_str(
        sw_json_walk(connector, "status", "connectionDetails", "publicKey", "id", NULL));
    const struct sw_json *text =
        sw_json_walk(connector, "metadata", "annotations", SW_KEYPROOF, NULL);
    struct sw_keyproof_of of = {.uid = meta(connector, "uid"),
                                .ns = meta(connector, "namespace"),
                                .name = meta(connector, "name")};
    struct sw_nodeid id;
    uint8_t sig[SW_ED25519_SIG];
    uint8_t msg[MESSAGE];
    size_t n;

    if (ret_version)
        *ret_version = 0;
    /* One form of a key only: others would be the same key under another name. */
    if (key.n != SW_NODEID_HEX - 1 || sw_nodeid_parse(key, &id, NULL) != SW_OK)
        return SW_KEYPROOF_NO_KEY;
    if (!text)
        return SW_KEYPROOF_MISSING;
    if (sw_keyproof_parse(sw_json_str(text), &of.version, sig) != SW_OK)
        return SW_KEYPROOF_MALFORMED;
    if (of.version > sw_keyproof_version(connector))
        return SW_KEYPROOF_AHEAD;
    n = message(&of, &id, msg);
    if (!n || !verified(&id, msg, n, sig))
        return SW_KEYPROOF_WRONG;
    if (ret_version)
        *ret_version = of.version;
    return SW_KEYPROOF_VALID;
}

const char *sw_keyproof_text(enum sw_keyproof p)
{
    static const char *const texts[] = {
        [SW_KEYPROOF_VALID] = "it has",
        [SW_KEYPROOF_NO_KEY] = "status.connectionDetails names no key",
        [SW_KEYPROOF_MISSING] = "the annotation " SW_KEYPROOF " is missing",
        [SW_KEYPROOF_MALFORMED] = "the annotation " SW_KEYPROOF " is malformed",
        [SW_KEYPROOF_AHEAD] =
            "the annotation " SW_KEYPROOF " names a resourceVersion of the future",
        [SW_KEYPROOF_WRONG] =
            "the annotation " SW_KEYPROOF " is not signed by this key for this Connector",
    };

    return texts[p];
}
