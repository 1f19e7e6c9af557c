/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys and certificates of the server under DIR/pki: the root (made once), the key that signs
 * service-account tokens (made once), the server's certificate (new at each start, for the names it
 * has now), the administrator's token and kubeconfig.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "apiserver/api/api.h"
#include "apiserver/auth/auth.h"
#include "apiserver/boot/boot.h"
#include "base/base64.h"
#include "base/dirs.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rand.h"
#include "base/secret.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"
#include "tls/crypto/jws.h"

enum { NAMES_MAX = 32 };
static const uint64_t leaf_ttl_s = UINT64_C(3650) * 86400;

static int load_ca(struct sw_api *api, const char *dir, struct sw_err *err)
{
    SW_AUTO_FREE char *cert = sw_asprintf("%s/%s", dir, SW_CA_ROOT_CERT);

    if (access(cert, F_OK) == 0) {
        api->ca = sw_ca_load(dir, err);
        return api->ca ? SW_OK : err->rc;
    }
    api->ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), UINT64_C(20) * 365 * 86400, err);
    if (!api->ca)
        return err->rc;
    return sw_ca_save(api->ca, dir, err);
}

static int load_token_key(struct sw_api *api, const char *dir, struct sw_err *err)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/token.key", dir);
    SW_BUF_SECRET pem = {.max = 65536};
    int rc = sw_pemfile_read(path, &pem, err);

    if (rc == SW_OK) {
        api->token_key = sw_jws_key_from_pem(sw_buf_slice(&pem), err);
        return api->token_key ? SW_OK : sw_err_prefix(err, "%s", path);
    }
    if (rc != SW_ENOENT)
        return rc;
    api->token_key = sw_jws_key_new(err);
    if (!api->token_key)
        return err->rc;
    rc = sw_jws_key_pem(api->token_key, &pem, err);
    if (rc == SW_OK)
        rc = sw_file_write(path, sw_buf_slice(&pem), 0600, false, err);
    return rc;
}

static int load_admin_token(struct sw_api *api, const char *dir, struct sw_err *err)
{
    SW_AUTO_FREE char *path = sw_asprintf("%s/admin.token", dir);
    SW_BUF_AUTO text = {.max = 4096};
    struct api_static_token *t;
    uint8_t raw[32];
    int rc = sw_pemfile_read(path, &text, err);

    if (rc == SW_ENOENT) {
        sw_rand_bytes(raw, sizeof(raw));
        rc = sw_base64url_append(&text, sw_slice(raw, sizeof(raw)));
        if (rc == SW_OK)
            rc = sw_file_write(path, sw_buf_slice(&text), 0600, false, err);
    }
    if (rc != SW_OK)
        return rc;
    t = SW_ARENA_NEW(&api->arena, struct api_static_token);
    t->token = sw_arena_slice(&api->arena, sw_slice_trim(sw_buf_slice(&text)));
    while (t->token.n && (t->token.p[t->token.n - 1] == '\n' || t->token.p[t->token.n - 1] == '\r'))
        t->token.n--;
    if (t->token.n < 16)
        return sw_err_set(err, SW_EINVAL, "'%s' holds no token of at least 16 characters", path);
    t->user = SW_SLICE_LIT("admin");
    t->group = SW_SLICE_LIT("system:masters");
    sw_vec_push(&api->tokens.all, t);
    return SW_OK;
}

/* "host:port" without the port; a name that has none as it is. */
static const char *advertised_host(struct sw_api *api, const char *advertise)
{
    struct sw_slice host;
    uint16_t port;

    if (sw_authority_split(sw_slice_str(advertise), &host, &port, NULL) == SW_OK)
        return sw_arena_dup(&api->arena, host);
    return sw_arena_dup(&api->arena, sw_slice_str(advertise));
}

static int server_cred(struct sw_api *api, const struct sw_api_config *c, struct sw_tls_cred **ret,
                       struct sw_err *err)
{
    static const char *const fixed[] = {"localhost",
                                        "127.0.0.1",
                                        "::1",
                                        "kubernetes",
                                        "kubernetes.default",
                                        "kubernetes.default.svc",
                                        "kubernetes.default.svc.cluster.local"};
    const char *names[NAMES_MAX + 1] = {0};
    struct sw_ca_web web = {
        .cn = "spanwire-control", .sans = names, .server = true, .ttl_s = leaf_ttl_s};
    SW_BUF_AUTO chain = {.max = 65536};
    SW_BUF_SECRET key = {.max = 65536};
    char ip[SW_IP_TEXT];
    char host[256] = "";
    size_t n = 0;
    int rc;

    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++)
        names[n++] = fixed[i];
    if (c->listen.ip.family && !sw_ip_is_any(&c->listen.ip))
        names[n++] = sw_ip_text(&c->listen.ip, ip);
    if (gethostname(host, sizeof(host) - 1) == 0 && *host)
        names[n++] = host;
    if (c->advertise)
        names[n++] = advertised_host(api, c->advertise);
    for (const char *const *s = c->names; s && *s && n < NAMES_MAX; s++)
        names[n++] = *s;
    rc = sw_ca_issue_web(api->ca, &web, &chain, &key, err);
    if (rc != SW_OK)
        return rc;
    *ret = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                     .key = sw_buf_slice(&key),
                                                     .roots = sw_ca_root_pem(api->ca),
                                                     .any_identity = true},
                           err);
    return *ret ? SW_OK : err->rc;
}

int api_pki_load(struct sw_api *api, const struct sw_api_config *c, struct sw_tls_cred **ret_cred,
                 struct sw_err *err)
{
    SW_AUTO_FREE char *dir = sw_asprintf("%s/pki", c->data_dir);
    int rc;

    rc = sw_make_dirs(dir, err);
    if (rc == SW_OK)
        rc = load_ca(api, dir, err);
    if (rc == SW_OK)
        rc = load_token_key(api, dir, err);
    if (rc == SW_OK)
        rc = load_admin_token(api, dir, err);
    if (rc == SW_OK)
        rc = server_cred(api, c, ret_cred, err);
    return rc;
}

static int put_base64(struct sw_buf *out, const char *key, struct sw_slice raw)
{
    int rc = sw_buf_printf(out, "    %s: ", key);

    if (rc == SW_OK)
        rc = sw_base64_append(out, raw);
    return rc == SW_OK ? sw_buf_putc(out, '\n') : rc;
}

int api_pki_kubeconfig(struct sw_api *api, const struct sw_api_config *c, struct sw_err *err)
{
    static const char *const groups[] = {"system:masters", NULL};
    struct sw_ca_web web = {.cn = "kubernetes-admin", .orgs = groups, .ttl_s = leaf_ttl_s};
    SW_AUTO_FREE char *path = sw_asprintf("%s/admin.kubeconfig", c->data_dir);
    SW_BUF_AUTO cert = {.max = 65536};
    SW_BUF_SECRET key = {.max = 65536};
    SW_BUF_SECRET out = {.max = 262144};
    int rc = sw_ca_issue_web(api->ca, &web, &cert, &key, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_buf_printf(&out,
                       "apiVersion: v1\nkind: Config\nclusters:\n- name: spanwire\n  cluster:\n"
                       "    server: https://%s\n",
                       api->advertise);
    if (rc == SW_OK)
        rc = put_base64(&out, "certificate-authority-data", sw_ca_root_pem(api->ca));
    if (rc == SW_OK)
        rc = sw_buf_append_str(&out, "users:\n- name: admin\n  user:\n");
    if (rc == SW_OK)
        rc = put_base64(&out, "client-certificate-data", sw_buf_slice(&cert));
    if (rc == SW_OK)
        rc = put_base64(&out, "client-key-data", sw_buf_slice(&key));
    if (rc == SW_OK)
        rc = sw_buf_append_str(&out,
                               "contexts:\n- name: spanwire\n  context:\n    cluster: spanwire\n"
                               "    user: admin\ncurrent-context: spanwire\n");
    if (rc == SW_OK)
        rc = sw_file_write(path, sw_buf_slice(&out), 0600, true, err);
    else
        rc = sw_err_set(err, SW_ELIMIT, "kubeconfig does not fit");
    return rc;
}
