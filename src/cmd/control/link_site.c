/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/control/link_site.h"

#include <string.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/secret.h"
#include "identity/fabric.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"

/* As the reference: a site is trusted as long as its files are. */
static const uint64_t ttl_s = UINT64_C(10) * 365 * 86400;

static char *path_of(const char *dir, const char *name)
{
    return sw_asprintf("%s/%s", dir, name);
}

static bool exists(const char *dir, const char *name)
{
    char *path SW_AUTO_FREE = path_of(dir, name);

    return access(path, F_OK) == 0;
}

static int write_file(const char *dir, const char *name, struct sw_slice text, struct sw_err *err)
{
    char *path SW_AUTO_FREE = path_of(dir, name);
    bool secret = sw_slice_has_suffix(sw_slice_str(name), SW_SLICE_LIT(".key"));

    return sw_file_write(path, text, secret ? 0600 : 0644, false, err);
}

static int read_file(const char *dir, const char *name, struct sw_buf *out, struct sw_err *err)
{
    char *path SW_AUTO_FREE = path_of(dir, name);

    sw_buf_init(out, SW_TLS_PEM_MAX);
    return sw_pemfile_read(path, out, err);
}

/* ---- making ---- */

static struct sw_ca *make_ca(const char *dir, struct sw_err *err)
{
    struct sw_ca *ca = sw_ca_new(SW_SLICE_LIT("cluster.local"), ttl_s, err);
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    int rc = ca ? sw_ca_key_pem(ca, &key, err) : err->rc;

    if (rc == SW_OK)
        rc = write_file(dir, "ca.key", sw_buf_slice(&key), err);
    if (rc == SW_OK)
        rc = write_file(dir, "ca.pem", sw_ca_root_pem(ca), err);
    if (rc == SW_OK)
        return ca;
    sw_ca_free(ca);
    return NULL;
}

struct leaf {
    const char *cert;
    const char *key;
    const char *cn;
    bool server;
};

static int issue(const struct sw_ca *ca, const char *dir, const struct leaf *l, struct sw_err *err)
{
    const char *sans[] = {l->cn, l->server ? "localhost" : NULL, "127.0.0.1", "::1", NULL};
    const struct sw_ca_web web = {.cn = l->cn, .sans = sans, .server = l->server, .ttl_s = ttl_s};
    SW_BUF_AUTO chain = {.max = SW_TLS_PEM_MAX};
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    int rc = sw_ca_issue_web(ca, &web, &chain, &key, err);

    if (rc == SW_OK)
        rc = write_file(dir, l->key, sw_buf_slice(&key), err);
    if (rc == SW_OK)
        rc = write_file(dir, l->cert, sw_buf_slice(&chain), err);
    return rc;
}

int sw_control_link_site_make(const char *dir, struct sw_err *err)
{
    static const struct leaf leaves[] = {{"control.pem", "control.key", "cl-controlplane", true},
                                         {"dataplane.pem", "dataplane.key", "cl-dataplane", false}};
    struct sw_ca *ca = NULL;
    int rc = sw_make_dirs(dir, err);

    for (size_t i = 0; i < SW_ARRAY_LEN(leaves) && rc == SW_OK; i++) {
        if (exists(dir, leaves[i].cert))
            continue;
        if (!ca)
            ca = exists(dir, "ca.pem") ? sw_fabric_load(dir, err) : make_ca(dir, err);
        rc = ca ? issue(ca, dir, &leaves[i], err) : err->rc;
    }
    sw_ca_free(ca);
    return rc == SW_OK ? SW_OK : sw_err_prefix(err, "--link-site");
}

/* ---- using ---- */

struct sw_tls_cred *sw_control_link_site_cred(const char *dir, struct sw_err *err)
{
    SW_BUF_AUTO roots = {0};
    SW_BUF_AUTO chain = {0};
    SW_BUF_SECRET key = {0};
    struct sw_tls_cred *cred = NULL;

    if (read_file(dir, "ca.pem", &roots, err) == SW_OK &&
        read_file(dir, "control.pem", &chain, err) == SW_OK &&
        read_file(dir, "control.key", &key, err) == SW_OK)
        cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&chain),
                                                         .key = sw_buf_slice(&key),
                                                         .roots = sw_buf_slice(&roots),
                                                         .any_identity = true},
                               err);
    return cred;
}
