/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/join/token.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "tls/crypto/jws.h"

#define ISSUER "spanwire-machine"

enum { SKEW_S = 60, FILE_MAX = 64 << 10 };

static const struct sw_json_opts bounds = {
    .max_bytes = SW_MACHINE_TOKEN_MAX, .max_nodes = 32, .max_depth = 4};

int sw_machine_token_sign(const struct sw_jws_key *key, struct sw_slice id,
                          struct sw_slice trust_domain, uint64_t now_s, struct sw_buf *out,
                          struct sw_err *err)
{
    SW_BUF_AUTO text = {.max = SW_MACHINE_TOKEN_MAX};
    struct sw_jw w;

    sw_jw_begin(&w, &text, NULL);
    sw_jw_object(&w);
    sw_jw_put_str(&w, "iss", ISSUER);
    sw_jw_put_string(&w, "sub", id);
    sw_jw_put_string(&w, "aud", trust_domain);
    sw_jw_put_u64(&w, "iat", now_s);
    sw_jw_put_u64(&w, "exp", now_s + SW_MACHINE_TOKEN_S);
    sw_jw_object_end(&w);
    if (sw_jw_end(&w) != SW_OK)
        return sw_err_set(err, SW_ELIMIT, "the token of the machine would be too long");
    return sw_jws_sign(key, sw_buf_slice(&text), out, err);
}

int sw_machine_token(const char *dir, struct sw_buf *out, struct sw_err *err)
{
    static const struct sw_json_opts of_file = {
        .max_bytes = FILE_MAX, .max_nodes = 256, .max_depth = 8};
    char *file SW_AUTO_FREE = sw_asprintf("%s/" SW_MACHINE_FILE, dir);
    char *key_file SW_AUTO_FREE = sw_asprintf("%s/" SW_MACHINE_KEY, dir);
    SW_ARENA_AUTO a = {0};
    struct sw_slice text = {0};
    struct sw_slice pem = {0};
    struct sw_jws_key *key = NULL;
    struct sw_json *m = NULL;
    int rc = sw_file_read(file, FILE_MAX, &text, err);

    if (rc == SW_OK)
        rc = sw_json_parse(&a, text, &of_file, &m, err);
    if (rc == SW_OK)
        rc = sw_file_read(key_file, FILE_MAX, &pem, err);
    if (rc == SW_OK) {
        key = sw_jws_key_from_pem(pem, err);
        rc = key ? sw_machine_token_sign(key, sw_json_str(sw_json_find(m, "id")),
                                         sw_json_str(sw_json_find(m, "trustDomain")),
                                         sw_wall_ns() / SW_NS_PER_S, out, err)
                 : err->rc;
    }
    sw_slice_free_secret(&pem);
    sw_slice_free(&text);
    sw_jws_key_free(key);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "this machine has not joined");
}

/* ---- the other side ---- */

static struct sw_json *claims_of(struct sw_arena *a, struct sw_slice payload)
{
    struct sw_json *v = NULL;

    if (sw_json_parse(a, payload, &bounds, &v, NULL) != SW_OK ||
        !sw_json_str_eq(sw_json_find(v, "iss"), ISSUER))
        return NULL;
    return v;
}

struct sw_slice sw_machine_token_id(struct sw_arena *a, struct sw_slice token)
{
    SW_BUF_AUTO payload = {.max = SW_MACHINE_TOKEN_MAX};
    struct sw_slice rest = token;

    (void)sw_slice_cut(&rest, '.');
    if (token.n > SW_MACHINE_TOKEN_MAX || !rest.p ||
        sw_base64url_decode(&payload, sw_slice_cut(&rest, '.')) != SW_OK)
        return sw_slice(NULL, 0);
    return sw_json_str(sw_json_find(claims_of(a, sw_buf_slice(&payload)), "sub"));
}

static int check_times(const struct sw_json *v, uint64_t now_s, struct sw_err *err)
{
    uint64_t from;
    uint64_t to;

    if (!sw_json_u64(sw_json_find(v, "iat"), &from) || !sw_json_u64(sw_json_find(v, "exp"), &to) ||
        to < from || to - from > SW_MACHINE_TOKEN_S)
        return sw_err_set(err, SW_EDENIED, "the machine's token has no times, or is good too long");
    if (from > now_s + SKEW_S)
        return sw_err_set(err, SW_EDENIED, "the machine's clock is %llu s ahead",
                          (unsigned long long)(from - now_s));
    if (to + SKEW_S < now_s)
        return sw_err_set(err, SW_EDENIED, "the machine's token expired %llu s ago",
                          (unsigned long long)(now_s - to));
    return SW_OK;
}

int sw_machine_token_verify(const struct sw_jws_key *key, struct sw_slice token, struct sw_slice id,
                            struct sw_slice trust_domain, uint64_t now_s, struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice payload;
    const struct sw_json *v;

    if (token.n > SW_MACHINE_TOKEN_MAX || sw_jws_verify(key, &a, token, &payload, err) != SW_OK)
        return sw_err_set(err, SW_EDENIED, "the machine's token is not signed by its key");
    v = claims_of(&a, payload);
    if (!v || !sw_slice_eq(sw_json_str(sw_json_find(v, "sub")), id) ||
        !sw_slice_eq(sw_json_str(sw_json_find(v, "aud")), trust_domain))
        return sw_err_set(err, SW_EDENIED, "the machine's token is for another machine or mesh");
    return check_times(v, now_s, err);
}
