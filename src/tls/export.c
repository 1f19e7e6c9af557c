/* SPDX-License-Identifier: Apache-2.0 */
/* Exported keying material (RFC 8446 section 7.5), from the secret kept at the hand-over. */
#include <gnutls/crypto.h>
#include <string.h>

#include "tls/cert/vault.h"
#include "tls/tls_int.h"

enum { OUT_MAX = 64 };

int sw_tls_export(const struct sw_tls *t, const char *label, struct sw_slice context, uint8_t *out,
                  size_t n, struct sw_err *err)
{
    gnutls_digest_algorithm_t hash =
        t->rec.secret_len == 48 ? GNUTLS_DIG_SHA384 : GNUTLS_DIG_SHA256;
    uint8_t digest[SW_RECORD_SECRET_MAX];
    uint8_t derived[SW_RECORD_SECRET_MAX];
    struct sw_slice hashed = sw_slice(digest, t->rec.secret_len);
    int rc;

    if (!t->exporter || !t->up || n > OUT_MAX || strlen(label) > SW_HKDF_LABEL_MAX)
        return sw_err_set(err, SW_EINVAL, "nothing can be exported from this connection");
    rc = gnutls_hash_fast(hash, "", 0, digest);
    if (rc == 0)
        rc =
            sw_hkdf_expand_label(sw_slice(t->exporter, hashed.n), label, hashed, derived, hashed.n);
    if (rc == 0)
        rc = gnutls_hash_fast(hash, context.p ? context.p : "", context.n, digest);
    if (rc == 0)
        rc = sw_hkdf_expand_label(sw_slice(derived, hashed.n), "exporter", hashed, out, n);
    explicit_bzero(derived, sizeof(derived));
    return rc == 0 ? SW_OK : sw_err_set(err, SW_EINVAL, "export: %s", gnutls_strerror(rc));
}

void sw_tls_export_done(struct sw_tls *t)
{
    sw_vault_free(t->exporter);
    t->exporter = NULL;
}
