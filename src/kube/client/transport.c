/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client/transport.h"

#include <string.h>

#include "base/base64.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/secret.h"
#include "base/time.h"
#include "http/bearer.h"
#include "http/grammar.h"
#include "tls/cert/cred.h"

static const uint64_t reread_ns = 60 * SW_NS_PER_S;

/* Where distributions keep the public roots. */
static const char *const system_roots[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
};

/* The content as it is now; the caller's. */
static int blob_read(const struct sw_kube_blob *b, struct sw_slice *ret, struct sw_err *err)
{
    if (b->data.n) {
        *ret = sw_slice(sw_slice_dup(b->data), b->data.n);
        return SW_OK;
    }
    if (b->file)
        return sw_file_read(b->file, SW_KUBE_FILE_MAX, ret, err);
    *ret = sw_slice(NULL, 0);
    return SW_OK;
}

int sw_kube_system_roots(struct sw_slice *ret, struct sw_err *err)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(system_roots); i++) {
        int rc = sw_file_read(system_roots[i], SW_TLS_PEM_MAX, ret, err);

        if (rc != SW_ENOENT)
            return rc;
    }
    return sw_err_set(err, SW_ENOENT,
                      "no certificate authority is configured and the system has none");
}

static int roots_read(const struct sw_kube_config *c, struct sw_slice *ret, struct sw_err *err)
{
    if (c->insecure || c->ca.data.n || c->ca.file)
        return blob_read(&c->ca, ret, err);
    return sw_kube_system_roots(ret, err);
}

/* Reads what TLS needs; *ret_cred stays NULL when nothing changed. */
static int load_cred(struct sw_kube_transport *t, struct sw_tls_cred **ret_cred, struct sw_err *err)
{
    struct sw_slice ca = {0};
    struct sw_slice cert = {0};
    struct sw_slice key = {0};
    int rc = roots_read(&t->cfg, &ca, err);

    if (rc == SW_OK)
        rc = blob_read(&t->cfg.cert, &cert, err);
    if (rc == SW_OK)
        rc = blob_read(&t->cfg.key, &key, err);
    if (rc == SW_OK && t->http && sw_slice_eq(ca, t->ca) && sw_slice_eq(cert, t->cert) &&
        sw_slice_eq(key, t->key)) {
        sw_slice_free_secret(&ca);
        sw_slice_free_secret(&cert);
        sw_slice_free_secret(&key);
        return SW_OK;
    }
    if (rc == SW_OK) {
        struct sw_tls_cred_pem pem = {.roots = ca,
                                      .chain = cert,
                                      .key = key,
                                      .any_identity = true,
                                      .trust_nobody = t->cfg.insecure};

        *ret_cred = sw_tls_cred_new(&pem, err);
        rc = *ret_cred ? SW_OK : SW_EINVAL;
    }
    if (rc != SW_OK) {
        sw_slice_free_secret(&ca);
        sw_slice_free_secret(&cert);
        sw_slice_free_secret(&key);
        return rc;
    }
    sw_slice_free_secret(&t->ca);
    sw_slice_free_secret(&t->cert);
    sw_slice_free_secret(&t->key);
    t->ca = ca;
    t->cert = cert;
    t->key = key;
    return SW_OK;
}

static char *basic_auth(const struct sw_kube_config *c)
{
    SW_BUF_AUTO plain = {.max = 1 << 16};
    SW_BUF_AUTO out = {.max = 1 << 17};

    if (sw_buf_printf(&plain, "%.*s:%.*s", SW_SLICE_ARG(c->username), SW_SLICE_ARG(c->password)) !=
            SW_OK ||
        sw_buf_append_str(&out, "Basic ") != SW_OK ||
        sw_base64_append(&out, sw_buf_slice(&plain)) != SW_OK)
        return NULL;
    return sw_buf_take_str(&out);
}

/* True when it changed. */
static bool load_token(struct sw_kube_transport *t)
{
    const struct sw_kube_config *c = &t->cfg;
    struct sw_slice file = {0};
    struct sw_slice token = c->token.data;
    struct sw_err err = {0};
    char *auth = NULL;
    bool changed;

    if (c->token.file) {
        if (sw_bearer_read(c->token.file, &file, &err) != SW_OK)
            sw_log_warn("kube", "cannot use the token file: %s", err.msg);
        if (!file.p && t->auth)
            return false;
        token = file.p ? file : token;
    }
    if (token.n && sw_http_value_valid(token))
        auth = sw_asprintf("Bearer %.*s", SW_SLICE_ARG(token));
    else if (c->username.p)
        auth = basic_auth(c);
    if (auth && !c->tls) {
        /* Every hop on the path could read it. */
        if (!t->http)
            sw_log_warn("kube", "credentials are not sent to a server without TLS");
        sw_free(auth);
        auth = NULL;
    }
    sw_slice_free_secret(&file);
    changed = (auth != NULL) != (t->auth != NULL) || (auth && strcmp(auth, t->auth) != 0);
    if (t->auth)
        sw_free_secret(t->auth, strlen(t->auth));
    t->auth = auth;
    return changed;
}

int sw_kube_transport_init(struct sw_kube_transport *t, struct sw_loop *l,
                           struct sw_kube_config *cfg, size_t max_conns, struct sw_err *err)
{
    struct sw_tls_cred *cred = NULL;
    struct sw_http_client_opts o = {.scope = "kube"};
    int rc = SW_OK;

    *t = (struct sw_kube_transport){.loop = l, .cfg = *cfg};
    *cfg = (struct sw_kube_config){0};
    if (t->cfg.tls)
        rc = load_cred(t, &cred, err);
    if (rc == SW_OK) {
        (void)load_token(t);
        o.host = t->cfg.host;
        o.port = t->cfg.port;
        o.tls = t->cfg.tls;
        o.cred = cred;
        o.tls_name = t->cfg.tls_name;
        o.insecure_skip_verify = t->cfg.insecure;
        o.max_conns = max_conns;
        t->http = sw_http_client_new(l, &o, err);
        rc = t->http ? SW_OK : SW_EINVAL;
    }
    sw_tls_cred_unref(cred);
    t->read_ns = sw_loop_now(l);
    if (t->cfg.tls && t->cfg.insecure)
        sw_log_warn("kube", "the server's certificate is not verified (insecure-skip-tls-verify)");
    if (rc != SW_OK)
        sw_kube_transport_done(t);
    return rc;
}

void sw_kube_transport_done(struct sw_kube_transport *t)
{
    sw_http_client_free(t->http);
    if (t->auth)
        sw_free_secret(t->auth, strlen(t->auth));
    sw_slice_free_secret(&t->ca);
    sw_slice_free_secret(&t->cert);
    sw_slice_free_secret(&t->key);
    sw_kube_config_done(&t->cfg);
    *t = (struct sw_kube_transport){0};
}

bool sw_kube_transport_refresh(struct sw_kube_transport *t, bool now)
{
    struct sw_tls_cred *cred = NULL;
    struct sw_err err = {0};

    if (!now && sw_loop_now(t->loop) - t->read_ns < reread_ns)
        return false;
    t->read_ns = sw_loop_now(t->loop);
    if (t->cfg.tls && (t->cfg.ca.file || t->cfg.cert.file || t->cfg.key.file)) {
        if (load_cred(t, &cred, &err) != SW_OK)
            sw_log_warn("kube", "cannot reload credentials, keeping the previous ones: %s",
                        err.msg);
        if (cred)
            sw_http_client_set_cred(t->http, cred);
        sw_tls_cred_unref(cred);
    }
    return t->cfg.token.file && load_token(t);
}

size_t sw_kube_transport_fields(const struct sw_kube_transport *t,
                                struct sw_h1_field out[SW_KUBE_AUTH_FIELDS])
{
    const struct sw_kube_config *c = &t->cfg;
    size_t n = 0;

    if (t->auth)
        out[n++] = (struct sw_h1_field){SW_SLICE_LIT("Authorization"), sw_slice_str(t->auth)};
    if (c->as_user.n)
        out[n++] = (struct sw_h1_field){SW_SLICE_LIT("Impersonate-User"), c->as_user};
    if (c->as_uid.n)
        out[n++] = (struct sw_h1_field){SW_SLICE_LIT("Impersonate-Uid"), c->as_uid};
    for (size_t i = 0; i < c->n_as_groups; i++)
        out[n++] = (struct sw_h1_field){SW_SLICE_LIT("Impersonate-Group"), c->as_groups[i]};
    return n;
}
