/* SPDX-License-Identifier: Apache-2.0 */
/* Exported keying material (RFC 8446 section 7.5), from the secret kept at the hand-over. */
#include <gnutls/crypto.h>
#include <string.h>

#include "tls/cert/vault.h"
#include "tls/tls_int.h"

enum { OUT_MAX = 64, LABEL_MAX = 64 };

struct hash {
    gnutls_mac_algorithm_t mac;
    gnutls_digest_algorithm_t digest;
    size_t n;
};

/* HKDF-Expand-Label with a context that is a hash. */
static int expand(const struct hash *h, const uint8_t *secret, const char *label,
                  const uint8_t *context, uint8_t *out, size_t n)
{
    static const char prefix[6] = {'t', 'l', 's', '1', '3', ' '};
    uint8_t info[2 + 1 + 6 + LABEL_MAX + 1 + SW_RECORD_SECRET_MAX];
    struct sw_slice name = sw_slice_str(label);
    size_t len = name.n;
    gnutls_datum_t key = {.data = (unsigned char *)(uintptr_t)secret, .size = (unsigned)h->n};
    gnutls_datum_t inf = {.data = info, .size = (unsigned)(10 + len + h->n)};

    info[0] = (uint8_t)(n >> 8);
    info[1] = (uint8_t)n;
    info[2] = (uint8_t)(6 + len);
    memcpy(info + 3, prefix, sizeof(prefix));
    memcpy(info + 9, name.p, len);
    info[9 + len] = (uint8_t)h->n;
    memcpy(info + 10 + len, context, h->n);
    return gnutls_hkdf_expand(h->mac, &key, &inf, out, n);
}

int sw_tls_export(const struct sw_tls *t, const char *label, struct sw_slice context, uint8_t *out,
                  size_t n, struct sw_err *err)
{
    bool long_hash = t->rec.secret_len == 48;
    struct hash h = {
        .mac = long_hash ? GNUTLS_MAC_SHA384 : GNUTLS_MAC_SHA256,
        .digest = long_hash ? GNUTLS_DIG_SHA384 : GNUTLS_DIG_SHA256,
        .n = long_hash ? 48 : 32,
    };
    uint8_t digest[SW_RECORD_SECRET_MAX];
    uint8_t derived[SW_RECORD_SECRET_MAX];
    int rc;

    if (!t->exporter || !t->up || n > OUT_MAX || strlen(label) > LABEL_MAX)
        return sw_err_set(err, SW_EINVAL, "nothing can be exported from this connection");
    rc = gnutls_hash_fast(h.digest, "", 0, digest);
    if (rc == 0)
        rc = expand(&h, t->exporter, label, digest, derived, h.n);
    if (rc == 0)
        rc = gnutls_hash_fast(h.digest, context.p ? context.p : "", context.n, digest);
    if (rc == 0)
        rc = expand(&h, derived, "exporter", digest, out, n);
    explicit_bzero(derived, sizeof(derived));
    return rc == 0 ? SW_OK : sw_err_set(err, SW_EINVAL, "export: %s", gnutls_strerror(rc));
}

void sw_tls_export_done(struct sw_tls *t)
{
    sw_vault_free(t->exporter);
    t->exporter = NULL;
}
