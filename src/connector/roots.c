/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/roots.h"

#include "base/buf.h"
#include "tls/cert/cred.h"
#include "tls/cert/pemfile.h"

struct sw_tls_cred *sw_roots_load(struct sw_slice pem, struct sw_err *err)
{
    static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                          "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
    SW_BUF_AUTO system = {.max = SW_TLS_PEM_MAX};
    int rc = pem.n ? SW_OK : SW_ENOENT;

    for (size_t i = 0; rc == SW_ENOENT && i < SW_ARRAY_LEN(bundles); i++)
        rc = sw_pemfile_read(bundles[i], &system, err);
    if (rc != SW_OK)
        return NULL;
    return sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = pem.n ? pem : sw_buf_slice(&system),
                                                     .any_identity = true},
                           err);
}
