/* SPDX-License-Identifier: Apache-2.0 */
#include "identity/fabric.h"

#include <string.h>
#include <unistd.h>

#include "base/dirs.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/secret.h"
#include "kube/names.h"
#include "tls/cert/ca.h"
#include "tls/cert/csr.h"
#include "tls/cert/pemfile.h"

#define DOMAIN       "fabric.spanwire.dev"
#define ANY_IDENTITY "spiffe://fabric.invalid/ns/none/sa/none" /* the signature covers one */

static char *path_of(const char *dir, const char *name)
{
    return sw_asprintf("%s/%s", dir, name);
}

bool sw_fabric_name_ok(struct sw_slice name)
{
    return sw_name_dns1123_label(name).n == 0;
}

bool sw_fabric_signs(const char *dir)
{
    char *path SW_AUTO_FREE = path_of(dir, SW_FABRIC_CA_KEY);

    return access(path, F_OK) == 0;
}

static int check_free(const char *dir, struct sw_err *err)
{
    static const char *const files[] = {SW_FABRIC_CA, SW_FABRIC_CA_KEY, SW_FABRIC_CERT,
                                        SW_FABRIC_KEY};

    for (size_t i = 0; i < SW_ARRAY_LEN(files); i++) {
        char *path SW_AUTO_FREE = path_of(dir, files[i]);

        if (access(path, F_OK) == 0)
            return sw_err_set(err, SW_EINVAL, "'%s' is there already; nothing is replaced", path);
    }
    return SW_OK;
}

static int write_file(const char *dir, const char *name, struct sw_slice text, struct sw_err *err)
{
    char *path SW_AUTO_FREE = path_of(dir, name);
    bool secret = strstr(name, "key") != NULL;

    return sw_file_write(path, text, secret ? 0600 : 0644, false, err);
}

static int read_file(const char *dir, const char *name, struct sw_buf *out, struct sw_err *err)
{
    char *path SW_AUTO_FREE = path_of(dir, name);

    return sw_pemfile_read(path, out, err);
}

struct sw_ca *sw_fabric_load(const char *dir, struct sw_err *err)
{
    SW_BUF_AUTO cert = {.max = SW_TLS_PEM_MAX};
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    struct sw_ca *ca = NULL;

    if (read_file(dir, SW_FABRIC_CA, &cert, err) == SW_OK &&
        read_file(dir, SW_FABRIC_CA_KEY, &key, err) == SW_OK) {
        ca = sw_ca_from_pem(sw_buf_slice(&cert), sw_buf_slice(&key), err);
        if (!ca)
            (void)sw_err_prefix(err, "authority in '%s'", dir);
    }
    return ca;
}

/* ---- certificates of peers ---- */

static int check_name(const char *name, struct sw_err *err)
{
    if (sw_fabric_name_ok(sw_slice_str(name)))
        return SW_OK;
    return sw_err_set(err, SW_EINVAL,
                      "'%.80s' is no name of a peer: at most 63 of a-z, 0-9 and '-'", name);
}

static int write_peer(const struct sw_ca *ca, const char *dir, const char *name, uint64_t ttl_s,
                      struct sw_err *err)
{
    const char *sans[] = {name, NULL};
    const struct sw_ca_web web = {.cn = name, .sans = sans, .both = true, .ttl_s = ttl_s};
    SW_BUF_AUTO chain = {.max = SW_TLS_PEM_MAX};
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    int rc = sw_ca_issue_web(ca, &web, &chain, &key, err);

    if (rc == SW_OK)
        rc = write_file(dir, SW_FABRIC_KEY, sw_buf_slice(&key), err);
    if (rc == SW_OK)
        rc = write_file(dir, SW_FABRIC_CERT, sw_buf_slice(&chain), err);
    return rc;
}

int sw_fabric_issue(const struct sw_ca *ca, const char *out, const char *name, uint64_t ttl_s,
                    struct sw_err *err)
{
    int rc = check_name(name, err);

    if (rc == SW_OK)
        rc = check_free(out, err);
    if (rc == SW_OK)
        rc = sw_make_dirs(out, err);
    if (rc == SW_OK)
        rc = write_peer(ca, out, name, ttl_s, err);
    return rc == SW_OK ? write_file(out, SW_FABRIC_CA, sw_ca_root_pem(ca), err) : rc;
}

int sw_fabric_sign(const struct sw_ca *ca, const char *name, uint64_t ttl_s, struct sw_slice csr,
                   struct sw_buf *ret_cert, struct sw_err *err)
{
    const char *sans[] = {name, NULL};
    const struct sw_ca_web web = {.cn = name, .sans = sans, .both = true, .ttl_s = ttl_s};
    int rc = check_name(name, err);

    return rc == SW_OK ? sw_ca_sign_web(ca, &web, csr, ret_cert, err) : rc;
}

/* Whose key a request is for is all that is read of it. */
static int own_request(const char *dir, struct sw_buf *ret_csr, struct sw_err *err)
{
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    int rc = read_file(dir, SW_FABRIC_KEY, &key, err);

    if (rc == SW_OK)
        rc = sw_csr_of_key(SW_SLICE_LIT(ANY_IDENTITY), sw_buf_slice(&key), ret_csr, err);
    return rc;
}

int sw_fabric_renew(const char *dir, const char *name, uint64_t ttl_s, struct sw_err *err)
{
    SW_BUF_AUTO csr = {.max = SW_TLS_PEM_MAX};
    SW_BUF_AUTO cert = {.max = SW_TLS_PEM_MAX};
    char *path SW_AUTO_FREE = path_of(dir, SW_FABRIC_CERT);
    struct sw_ca *ca = sw_fabric_load(dir, err);
    int rc = ca ? own_request(dir, &csr, err) : err->rc;

    if (rc == SW_OK)
        rc = sw_fabric_sign(ca, name, ttl_s, sw_buf_slice(&csr), &cert, err);
    if (rc == SW_OK)
        rc = sw_file_write(path, sw_buf_slice(&cert), 0644, true, err);
    sw_ca_free(ca);
    return rc;
}

/* ---- a new fabric ---- */

static int write_ca(const struct sw_ca *ca, const char *dir, struct sw_err *err)
{
    SW_BUF_SECRET key = {.max = SW_TLS_PEM_MAX};
    int rc = sw_ca_key_pem(ca, &key, err);

    if (rc == SW_OK)
        rc = write_file(dir, SW_FABRIC_CA_KEY, sw_buf_slice(&key), err);
    if (rc == SW_OK)
        rc = write_file(dir, SW_FABRIC_CA, sw_ca_root_pem(ca), err);
    return rc;
}

int sw_fabric_create(const char *dir, const char *name, uint64_t ttl_s, struct sw_err *err)
{
    struct sw_ca *ca = NULL;
    int rc = check_name(name, err);

    if (rc == SW_OK)
        rc = check_free(dir, err);
    if (rc == SW_OK)
        rc = sw_make_dirs(dir, err);
    if (rc == SW_OK) {
        ca = sw_ca_new(SW_SLICE_LIT(DOMAIN), 0, err);
        rc = ca ? write_ca(ca, dir, err) : err->rc;
    }
    if (rc == SW_OK)
        rc = write_peer(ca, dir, name, ttl_s, err);
    sw_ca_free(ca);
    return rc;
}
