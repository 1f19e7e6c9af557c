/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Credentials by their content. A listener is built anew for each certificate that comes or goes,
 * and to check a key against its certificate takes longer than all the rest of a chain: with
 * hundreds of names on a port that would be most of what the process does. Credentials unused for a
 * minute are dropped, keys included.
 */
#include "gateway/config/cred.h"

#include "base/mem.h"
#include "base/time.h"
#include "tls/cert/cred.h"
#include "tls/crypto/jws.h"

enum { DIGEST = 32, PARTS = 4 };

static const uint64_t keep_ns = 60 * SW_NS_PER_S;

struct memo {
    uint8_t digest[DIGEST];
    struct sw_tls_cred *cred; /* a reference */
    uint64_t used_ns;
};

static void digest_of(const struct sw_tls_cred_pem *pem, uint8_t ret[DIGEST])
{
    uint8_t all[PARTS * DIGEST + 2];
    const struct sw_slice parts[PARTS] = {pem->chain, pem->key, pem->roots, pem->crl};

    for (size_t i = 0; i < PARTS; i++)
        sw_digest_sha256(parts[i].p ? parts[i] : sw_slice("", 0), all + i * DIGEST);
    all[(size_t)PARTS * DIGEST] = pem->any_identity;
    all[(size_t)PARTS * DIGEST + 1] = pem->trust_nobody;
    sw_digest_sha256(sw_slice(all, sizeof(all)), ret);
}

static void memo_free(struct memo *m)
{
    (void)sw_tls_cred_unref(m->cred);
    sw_free(m);
}

static void sweep(struct sw_gw_creds *s, uint64_t now)
{
    if (now - s->swept_ns < keep_ns / 4)
        return;
    s->swept_ns = now;
    SW_MAP_EACH (struct memo, m, &s->by_digest) {
        if (now - m->used_ns < keep_ns)
            continue;
        (void)sw_map_del(&s->by_digest, sw_slice(m->digest, DIGEST));
        memo_free(m);
    }
}

struct sw_tls_cred *sw_gw_cred_get(struct sw_gw_creds *s, const struct sw_tls_cred_pem *pem,
                                   struct sw_err *err)
{
    uint64_t now = sw_now_ns();
    uint8_t digest[DIGEST];
    struct sw_tls_cred *cred;
    struct memo *m;

    if (!s)
        return sw_tls_cred_new(pem, err);
    sweep(s, now);
    digest_of(pem, digest);
    m = sw_map_get(&s->by_digest, sw_slice(digest, DIGEST));
    if (!m) {
        cred = sw_tls_cred_new(pem, err);
        if (!cred)
            return NULL;
        m = SW_NEW(struct memo);
        memcpy(m->digest, digest, DIGEST);
        m->cred = cred;
        (void)sw_map_put(&s->by_digest, sw_slice(m->digest, DIGEST), m);
    }
    m->used_ns = now;
    return sw_tls_cred_ref(m->cred);
}

void sw_gw_creds_free(struct sw_gw_creds *s)
{
    SW_MAP_DRAIN(&s->by_digest, memo_free);
}
