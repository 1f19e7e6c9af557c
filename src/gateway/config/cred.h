/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials that were made a short time ago, by their content. */
#pragma once

#include "base/err.h"
#include "base/map.h"
#include <stdint.h>

struct sw_tls_cred;
struct sw_tls_cred_pem;

struct sw_gw_creds {
    struct sw_map by_digest;
    uint64_t swept_ns;
};

/*
 * As sw_tls_cred_new, but one that was made from the same texts a short time ago is used again.
 * s may be NULL.
 */
struct sw_tls_cred *sw_gw_cred_get(struct sw_gw_creds *s, const struct sw_tls_cred_pem *pem,
                                   struct sw_err *err);
void sw_gw_creds_free(struct sw_gw_creds *s);
