/* SPDX-License-Identifier: Apache-2.0 */
#include "control/link/auth/token.h"

#include <string.h>

#include "base/json.h"
#include "base/rand.h"
#include "control/link/auth/attrs.h"
#include "tls/crypto/hmac.h"

enum { CLAIMS_DEPTH = 4 };

int sw_link_key_set(struct sw_link_key *k, struct sw_slice raw, struct sw_err *err)
{
    static const struct sw_slice label = SW_SLICE_LIT("spanwire link grant");

    if (raw.n < SW_JWS_HS256_KEY)
        return sw_err_set(err, SW_EINVAL, "key has %zu bytes, %d are needed", raw.n,
                          SW_JWS_HS256_KEY);
    /* A longer one is hashed, as HMAC itself would; 32 bytes are used as they are. */
    if (raw.n > SW_JWS_HS256_KEY)
        sw_digest_sha256(raw, k->token);
    else
        memcpy(k->token, raw.p, sizeof(k->token));
    sw_hmac_sha256(sw_slice(k->token, sizeof(k->token)), &label, 1, k->grant);
    return SW_OK;
}

/* ---- tokens ---- */

static struct sw_slice url64(struct sw_arena *a, const void *p, size_t n)
{
    SW_BUF_AUTO b = {.max = 256};

    (void)!sw_base64url_append(&b, sw_slice(p, n));
    return sw_arena_slice(a, sw_buf_slice(&b));
}

/* Members in the order of their names, as the reference writes them. */
static struct sw_slice token_claims(struct sw_arena *a, const struct sw_link_token *t,
                                    struct sw_slice *ret_src)
{
    struct sw_json *o = sw_json_new_object(a);
    struct sw_json *src = sw_link_attrs_json(a, &t->src);

    sw_json_put(a, o, "at_ms", sw_json_new_u64(a, t->at_ms));
    if (t->thumb.n) {
        struct sw_json *cnf = sw_json_new_object(a);

        sw_json_put_str(a, cnf, "x5t#S256", t->thumb);
        sw_json_put(a, o, "cnf", cnf);
    }
    sw_json_put(a, o, "exp", sw_json_new_u64(a, t->exp_s));
    sw_json_put_str(a, o, "export_name", t->export_name);
    sw_json_put_str(a, o, "export_namespace", t->export_ns);
    sw_json_put_str(a, o, "jti", url64(a, t->jti, sizeof(t->jti)));
    if (t->peer.n)
        sw_json_put_str(a, o, "peer", t->peer);
    sw_json_put(a, o, "src", src);
    *ret_src = sw_json_text(a, src, NULL);
    return sw_json_text(a, o, NULL);
}

int sw_link_token_mint(const struct sw_link_key *k, struct sw_link_token *t, uint64_t now_s,
                       struct sw_buf *out, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice claims;
    struct sw_slice src;

    t->exp_s = now_s + SW_LINK_TOKEN_LIFE_S;
    sw_rand_bytes(t->jti, sizeof(t->jti));
    claims = token_claims(&a, t, &src);
    if (src.n > SW_LINK_SRC_MAX || sw_jws_sign_hs256(k->token, claims, out) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "SrcAttributes are too long for a token");
    return SW_OK;
}

static int parse_claims(struct sw_arena *a, struct sw_slice payload, struct sw_json **ret,
                        struct sw_err *err)
{
    const struct sw_json_opts o = {.max_depth = CLAIMS_DEPTH};

    if (sw_json_parse(a, payload, &o, ret, NULL) != SW_OK || !sw_json_is(*ret, SW_JSON_OBJECT))
        return sw_err_set(err, SW_EDENIED, "claims do not parse");
    return SW_OK;
}

static int claim(const struct sw_json *v, const char *name, struct sw_slice *ret,
                 struct sw_err *err)
{
    *ret = sw_json_str(sw_json_find(v, name));
    return ret->n ? SW_OK : sw_err_set(err, SW_EDENIED, "claim '%s' is missing", name);
}

static int open_jws(const uint8_t key[SW_JWS_HS256_KEY], struct sw_arena *a, struct sw_slice text,
                    struct sw_json **ret, struct sw_err *err)
{
    struct sw_slice payload;
    int rc = sw_jws_verify_hs256(key, a, text, &payload, err);

    if (rc != SW_OK) {
        (void)sw_err_prefix(err, "failed to verify jws signature");
        return SW_EDENIED;
    }
    return parse_claims(a, payload, ret, err);
}

static int read_jti(struct sw_slice text, uint8_t ret[SW_LINK_JTI], struct sw_err *err)
{
    SW_BUF_AUTO raw = {.max = 64};

    if (sw_base64url_decode(&raw, text) != SW_OK || sw_buf_len(&raw) != SW_LINK_JTI)
        return sw_err_set(err, SW_EDENIED, "claim 'jti' does not parse");
    memcpy(ret, sw_buf_data(&raw), SW_LINK_JTI);
    return SW_OK;
}

int sw_link_token_open(const struct sw_link_key *k, struct sw_arena *a, struct sw_slice text,
                       uint64_t now_s, struct sw_link_token *ret, struct sw_err *err)
{
    struct sw_link_token t = {0};
    struct sw_json *v = NULL;
    struct sw_slice jti = {0};
    int rc = open_jws(k->token, a, text, &v, err);

    if (rc != SW_OK)
        return rc;
    if (!sw_json_u64(sw_json_find(v, "exp"), &t.exp_s))
        return sw_err_set(err, SW_EDENIED, "claim 'exp' is missing");
    if (now_s >= t.exp_s)
        return sw_err_set(err, SW_EDENIED, "exp not satisfied");
    rc = claim(v, "export_name", &t.export_name, err);
    if (rc == SW_OK)
        rc = claim(v, "export_namespace", &t.export_ns, err);
    if (rc == SW_OK)
        rc = claim(v, "jti", &jti, err);
    if (rc == SW_OK)
        rc = read_jti(jti, t.jti, err);
    if (rc != SW_OK)
        return rc;
    (void)!sw_json_u64(sw_json_find(v, "at_ms"), &t.at_ms); /* absent: as old as can be */
    t.peer = sw_json_str(sw_json_find(v, "peer"));
    t.thumb = sw_json_str(sw_json_walk(v, "cnf", "x5t#S256", NULL));
    if (sw_link_attrs_read(a, "", sw_json_find(v, "src"), &t.src, err) != SW_OK)
        return SW_EDENIED;
    *ret = t;
    return SW_OK;
}

/* ---- grants ---- */

int sw_link_grant_mint(const struct sw_link_key *k, const struct sw_link_grant *g,
                       struct sw_buf *out, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *o = sw_json_new_object(&a);

    sw_json_put_str(&a, o, "export", g->exported);
    sw_json_put_str(&a, o, "peer", g->peer);
    if (g->side == SW_LINK_EGRESS) {
        sw_json_put_str(&a, o, "import", g->import);
        sw_json_put_str(&a, o, "client", g->client);
    } else {
        sw_json_put(&a, o, "src", sw_link_attrs_json(&a, &g->src));
    }
    sw_json_put_str(&a, o, "typ", SW_SLICE_LIT("grant"));
    if (sw_jws_sign_hs256(k->grant, sw_json_text(&a, o, NULL), out) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "the grant is too long");
    return SW_OK;
}

int sw_link_grant_open(const struct sw_link_key *k, struct sw_arena *a, struct sw_slice text,
                       struct sw_link_grant *ret, struct sw_err *err)
{
    struct sw_link_grant g = {0};
    struct sw_json *v = NULL;
    int rc = open_jws(k->grant, a, text, &v, err);

    if (rc != SW_OK)
        return rc;
    if (!sw_json_str_eq(sw_json_find(v, "typ"), "grant"))
        return sw_err_set(err, SW_EDENIED, "not a grant");
    rc = claim(v, "export", &g.exported, err);
    if (rc != SW_OK)
        return rc;
    g.peer = sw_json_str(sw_json_find(v, "peer"));
    g.import = sw_json_str(sw_json_find(v, "import"));
    g.client = sw_json_str(sw_json_find(v, "client"));
    g.side = g.import.n ? SW_LINK_EGRESS : SW_LINK_INGRESS;
    if (sw_link_attrs_read(a, "", sw_json_find(v, "src"), &g.src, err) != SW_OK)
        return SW_EDENIED;
    *ret = g;
    return SW_OK;
}
