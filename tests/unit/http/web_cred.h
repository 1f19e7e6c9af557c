/* SPDX-License-Identifier: Apache-2.0 */
/* A credential for HTTPS: a server's, for these names, or a client's that trusts the authority. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "tls/cert/ca.h"
#include "tls/cert/cred.h"

/* sans NULL: a client's. */
static inline struct sw_tls_cred *web_cred(struct sw_ca *ca, const char *const *sans)
{
    struct sw_ca_web web = {.cn = "x", .sans = sans, .server = true, .ttl_s = 3600};
    struct sw_tls_cred_pem pem = {.any_identity = true, .roots = sw_ca_root_pem(ca)};
    SW_BUF_AUTO chain = {.max = 1 << 16};
    SW_BUF_AUTO key = {.max = 1 << 16};
    struct sw_tls_cred *c;

    if (sans) {
        assert_int_equal(sw_ca_issue_web(ca, &web, &chain, &key, NULL), SW_OK);
        pem.chain = sw_buf_slice(&chain);
        pem.key = sw_buf_slice(&key);
    }
    c = sw_tls_cred_new(&pem, NULL);
    assert_non_null(c);
    return c;
}
