/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/verify.h"

#include <pthread.h>
#include <string.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/time.h"
#include "base/vec.h"
#include "tls/cert/constraints.h"
#include "tls/cert/cred_core.h"
#include "tls/cert/x509.h"
#include "tls/crypto/gnutls.h"
#include "tls/crypto/jws.h"
#include "tls/record.h"

/* What is known about a chain before it is packed. */
struct facts {
    gnutls_x509_crt_t crt[SW_TLS_CHAIN_MAX];
    size_t n;
    struct sw_slice uris[SW_TLS_PEER_IDS_MAX];
    size_t n_uris;
    bool several; /* SPIFFE URIs, whether their form is known or not */
    struct sw_tls_cert_ref refs[SW_TLS_CHAIN_MAX];
    struct sw_slice cn;
    struct sw_slice orgs[SW_TLS_ORGS_MAX];
    size_t n_orgs;
    struct sw_arena arena;
};

static struct sw_slice pack(char **at, struct sw_slice s)
{
    struct sw_slice copy = sw_slice(*at, s.n);

    if (s.n)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return copy;
}

static struct sw_tls_peer *peer_new(const struct facts *f, struct sw_slice leaf)
{
    size_t bytes = f->n_uris * sizeof(struct sw_tls_peer_id) +
                   f->n * sizeof(struct sw_tls_cert_ref) + f->n_orgs * sizeof(struct sw_slice) +
                   f->cn.n;
    struct sw_slice *orgs;
    struct sw_tls_peer_id *ids;
    struct sw_tls_cert_ref *certs;
    struct sw_tls_peer *p;
    void *room;
    char *at;

    for (size_t i = 0; i < f->n_uris; i++)
        bytes += f->uris[i].n;
    for (size_t i = 0; i < f->n; i++)
        bytes += f->refs[i].issuer.n + f->refs[i].serial.n;
    for (size_t i = 0; i < f->n_orgs; i++)
        bytes += f->orgs[i].n;
    p = sw_peer_new(bytes, &room);
    ids = room;
    certs = (struct sw_tls_cert_ref *)(void *)(ids + f->n_uris);
    orgs = (struct sw_slice *)(void *)(certs + f->n);
    at = (char *)(orgs + f->n_orgs);
    for (size_t i = 0; i < f->n_orgs; i++)
        orgs[i] = pack(&at, f->orgs[i]);
    p->cn = pack(&at, f->cn);
    p->orgs = orgs;
    p->n_orgs = (uint32_t)f->n_orgs;
    for (size_t i = 0; i < f->n_uris; i++) {
        ids[i].uri = pack(&at, f->uris[i]);
        (void)!sw_spiffe_parse(ids[i].uri, &ids[i].id, NULL); /* it parsed before */
    }
    p->not_after_s = UINT64_MAX;
    for (size_t i = 0; i < f->n; i++) {
        uint64_t from = sw_x509_not_before(f->crt[i]);
        uint64_t to = sw_x509_not_after(f->crt[i]);

        certs[i].issuer = pack(&at, f->refs[i].issuer);
        certs[i].serial = pack(&at, f->refs[i].serial);
        p->not_before_s = from > p->not_before_s ? from : p->not_before_s;
        p->not_after_s = to < p->not_after_s ? to : p->not_after_s;
    }
    p->n_ids = (uint32_t)f->n_uris;
    p->several = f->several;
    p->n_certs = (uint32_t)f->n;
    p->ids = ids;
    p->certs = certs;
    sw_digest_sha256(leaf, p->fingerprint);
    return p;
}

/* --- verdicts remembered per thread --- */

enum { VERDICT_S = 3600 };

struct verdict {
    uint8_t key[32];
    const struct sw_tls_peer *peer; /* a reference */
    size_t at;                      /* its place in all[] */
    uint64_t until_ns;              /* so that an expired root is noticed too */
};

struct cache {
    struct sw_map map;            /* key -> struct verdict */
    SW_VEC(struct verdict *) all; /* the same, for picking one at random */
    uint64_t hits;
};

static _Thread_local struct cache *mine;
static pthread_key_t at_exit_key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void cache_empty(struct cache *c)
{
    for (size_t i = 0; i < c->all.n; i++) {
        sw_peer_unref(c->all.p[i]->peer);
        sw_free(c->all.p[i]);
    }
    sw_map_done(&c->map);
    c->map = (struct sw_map){0};
    c->all.n = 0;
}

static void cache_free(void *arg)
{
    struct cache *c = arg;

    cache_empty(c);
    sw_vec_done(&c->all);
    sw_free(c);
    mine = NULL;
}

static void make_key(void)
{
    if (pthread_key_create(&at_exit_key, cache_free) != 0)
        __builtin_trap();
}

static struct cache *cache_get(void)
{
    if (mine)
        return mine;
    (void)pthread_once(&once, make_key);
    mine = SW_NEW(struct cache);
    (void)pthread_setspecific(at_exit_key, mine);
    return mine;
}

static void cache_remove(struct cache *c, size_t i)
{
    struct verdict *v = c->all.p[i];

    (void)sw_map_del(&c->map, sw_slice(v->key, sizeof(v->key)));
    sw_vec_swap_remove(&c->all, i);
    if (i < c->all.n)
        c->all.p[i]->at = i;
    sw_peer_unref(v->peer);
    sw_free(v);
}

static void cache_put(const uint8_t key[32], const struct sw_tls_peer *peer)
{
    struct cache *c = cache_get();
    struct verdict *v;

    v = sw_map_get(&c->map, sw_slice(key, 32));
    if (v)
        cache_remove(c, v->at);
    if (c->all.n == SW_VERIFY_CACHE_MAX)
        cache_remove(c, (size_t)sw_rand_below(c->all.n));
    v = SW_NEW(struct verdict);
    memcpy(v->key, key, sizeof(v->key));
    v->peer = sw_peer_ref(peer);
    v->at = c->all.n;
    v->until_ns = sw_now_ns() + VERDICT_S * SW_NS_PER_S;
    sw_vec_push(&c->all, v);
    (void)sw_map_put(&c->map, sw_slice(v->key, sizeof(v->key)), v);
}

static bool valid_now(const struct verdict *v)
{
    uint64_t now = sw_wall_ns() / SW_NS_PER_S;

    return now >= v->peer->not_before_s && now <= v->peer->not_after_s && sw_now_ns() < v->until_ns;
}

uint64_t sw_verify_cache_hits(void)
{
    return mine ? mine->hits : 0;
}

void sw_verify_cache_clear(void)
{
    if (mine)
        cache_empty(mine);
}

/* --- judgement --- */

static void facts_done(struct facts *f)
{
    for (size_t i = 0; i < f->n; i++)
        gnutls_x509_crt_deinit(f->crt[i]);
    sw_arena_clear(&f->arena);
}

static int import_chain(struct facts *f, const struct sw_verify_in *in, struct sw_err *err)
{
    for (size_t i = 0; i < in->n; i++) {
        int rc = sw_crt_import(in->chain[i], false, &f->crt[i]);

        if (rc < 0)
            return sw_gnutls_err(err, SW_EDENIED, rc, "peer certificate does not parse");
        f->n = i + 1;
        f->refs[i].issuer = sw_x509_issuer(f->crt[i], &f->arena);
        f->refs[i].serial = sw_x509_serial(f->crt[i], &f->arena);
    }
    return SW_OK;
}

static int explain_status(unsigned status, uint8_t *ret_alert, struct sw_err *err)
{
    static const struct {
        unsigned bit;
        uint8_t alert;
        const char *text;
    } reasons[] = {
        {GNUTLS_CERT_REVOKED, SW_ALERT_CERTIFICATE_REVOKED, "has been revoked"},
        {GNUTLS_CERT_SIGNER_NOT_FOUND, SW_ALERT_UNKNOWN_CA, "is not signed by a trusted root"},
        {GNUTLS_CERT_SIGNER_NOT_CA, SW_ALERT_UNKNOWN_CA,
         "is signed by a certificate that is no CA"},
        {GNUTLS_CERT_EXPIRED, SW_ALERT_CERTIFICATE_EXPIRED, "has expired"},
        {GNUTLS_CERT_NOT_ACTIVATED, SW_ALERT_CERTIFICATE_EXPIRED, "is not valid yet"},
        {GNUTLS_CERT_PURPOSE_MISMATCH, SW_ALERT_BAD_CERTIFICATE,
         "key usage does not allow this use"},
        {GNUTLS_CERT_INSECURE_ALGORITHM, SW_ALERT_BAD_CERTIFICATE, "uses a weak algorithm"},
        {GNUTLS_CERT_UNKNOWN_CRIT_EXTENSIONS, SW_ALERT_BAD_CERTIFICATE,
         "has an unsupported critical extension"},
        {GNUTLS_CERT_SIGNER_CONSTRAINTS_FAILURE, SW_ALERT_BAD_CERTIFICATE,
         "is outside the name constraints of its CA"},
        {GNUTLS_CERT_SIGNATURE_FAILURE, SW_ALERT_BAD_CERTIFICATE, "has a wrong signature"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(reasons); i++) {
        if (status & reasons[i].bit) {
            *ret_alert = reasons[i].alert;
            return sw_err_set(err, SW_EDENIED, "peer certificate %s", reasons[i].text);
        }
    }
    return sw_err_set(err, SW_EDENIED, "peer certificate is not valid (status 0x%x)", status);
}

static int verify_path(const struct facts *f, const struct sw_verify_in *in, uint8_t *ret_alert,
                       struct sw_err *err)
{
    const char *oid = in->peer_is_client ? GNUTLS_KP_TLS_WWW_CLIENT : GNUTLS_KP_TLS_WWW_SERVER;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)(uintptr_t)oid};
    const unsigned flags = GNUTLS_PROFILE_TO_VFLAGS(GNUTLS_PROFILE_MEDIUM) |
                           GNUTLS_VERIFY_DO_NOT_ALLOW_X509_V1_CA_CRT |
                           GNUTLS_VERIFY_DISABLE_CRL_CHECKS;
    unsigned status = 0;
    gnutls_x509_crt_t list[SW_TLS_CHAIN_MAX];
    int rc;

    /* The library may sort the array it is given. */
    memcpy(list, f->crt, sizeof(list));
    rc = gnutls_x509_trust_list_verify_crt2(sw_cred_trust(in->cred), list, (unsigned)f->n, &purpose,
                                            1, flags, &status, NULL);
    if (rc < 0)
        return sw_gnutls_err(err, SW_EDENIED, rc, "peer certificate cannot be verified");
    return status ? explain_status(status, ret_alert, err) : SW_OK;
}

static int check_revoked(const struct sw_tls_cred *cred, const struct sw_tls_cert_ref *refs,
                         size_t n, struct sw_err *err)
{
    for (size_t i = 0; i < n; i++) {
        SW_ARENA_AUTO tmp = {0};
        struct sw_slice serial;

        if (!sw_cred_revoked(cred, refs[i].issuer, refs[i].serial))
            continue;
        serial = sw_x509_decimal(refs[i].serial, &tmp);
        return sw_err_set(err, SW_EDENIED, "peer certificate has been revoked (serial %.*s)",
                          SW_SLICE_ARG(serial));
    }
    return SW_OK;
}

static int judge(struct facts *f, const struct sw_verify_in *in, uint8_t *ret_alert,
                 struct sw_err *err)
{
    int rc;

    *ret_alert = SW_ALERT_BAD_CERTIFICATE;
    rc = import_chain(f, in, err);
    if (rc == SW_OK)
        rc = verify_path(f, in, ret_alert, err);
    if (rc == SW_OK)
        rc = sw_x509_check_uris(sw_cred_trust(in->cred), f->crt, f->n, err);
    if (rc != SW_OK)
        return rc;
    rc = check_revoked(in->cred, f->refs, f->n, err);
    if (rc != SW_OK) {
        *ret_alert = SW_ALERT_CERTIFICATE_REVOKED;
        return rc;
    }
    if (sw_x509_spiffe_uris(f->crt[0], &f->arena, SW_TLS_PEER_IDS_MAX, f->uris, &f->n_uris, err) !=
        SW_OK)
        return SW_EDENIED;
    f->several = sw_x509_count_spiffe(f->crt[0]) > 1;
    f->n_orgs = sw_x509_subject_names(f->crt[0], &f->arena, &f->cn, SW_TLS_ORGS_MAX, f->orgs);
    return SW_OK;
}

static void chain_key(const struct sw_verify_in *in, uint8_t key[32])
{
    struct sw_slice pieces[SW_TLS_CHAIN_MAX + 2];

    pieces[0] = sw_cred_bundle_hash(in->cred);
    pieces[1] = in->peer_is_client ? SW_SLICE_LIT("client") : SW_SLICE_LIT("server");
    for (size_t i = 0; i < in->n; i++)
        pieces[i + 2] = in->chain[i];
    sw_x509_digest(pieces, in->n + 2, key);
}

int sw_verify_chain(const struct sw_verify_in *in, const struct sw_tls_peer **ret_peer,
                    uint8_t *ret_alert, struct sw_err *err)
{
    struct facts f = {0};
    struct verdict *v;
    uint8_t key[32];
    int rc;

    *ret_alert = SW_ALERT_BAD_CERTIFICATE;
    if (in->n == 0 || in->n > SW_TLS_CHAIN_MAX)
        return sw_err_set(err, SW_EDENIED, "peer sent %zu certificates, allowed are 1 to %d", in->n,
                          SW_TLS_CHAIN_MAX);
    chain_key(in, key);
    v = mine ? sw_map_get(&mine->map, sw_slice(key, sizeof(key))) : NULL;
    if (v && valid_now(v)) {
        mine->hits++;
        *ret_peer = sw_peer_ref(v->peer);
        return SW_OK;
    }
    rc = judge(&f, in, ret_alert, err);
    if (rc == SW_OK) {
        *ret_peer = peer_new(&f, in->chain[0]);
        cache_put(key, *ret_peer);
    }
    facts_done(&f);
    return rc;
}

int sw_verify_recheck(const struct sw_tls_peer *p, const struct sw_tls_cred *cred,
                      struct sw_err *err)
{
    return check_revoked(cred, p->certs, p->n_certs, err);
}
