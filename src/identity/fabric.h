/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate authority of a fabric of sites, in a directory: ca.pem and ca.key, and beside
 * them, for links, this site's own certificate (cert.pem, key.pem). A peer's name is the one DNS
 * name of its certificate, which serves for both ends of a connection.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/slice.h"

struct sw_ca;

#define SW_FABRIC_CA     "ca.pem"
#define SW_FABRIC_CA_KEY "ca.key"
#define SW_FABRIC_CERT   "cert.pem"
#define SW_FABRIC_KEY    "key.pem"

/* A label of DNS names. */
bool sw_fabric_name_ok(struct sw_slice name);
/*
 * Makes the authority and the certificate of its own site. SW_EINVAL when any of the four files is
 * there: nothing is replaced.
 */
SW_NODISCARD int sw_fabric_create(const char *dir, const char *name, uint64_t ttl_s,
                                  struct sw_err *err);
/* Its authority; NULL with err, SW_ENOENT when the directory has none. */
struct sw_ca *sw_fabric_load(const char *dir, struct sw_err *err);
/* Does the directory have the key of an authority? */
bool sw_fabric_signs(const char *dir);
/* Writes ca.pem, cert.pem and key.pem of another peer into a directory of its own. */
SW_NODISCARD int sw_fabric_issue(const struct sw_ca *ca, const char *out, const char *name,
                                 uint64_t ttl_s, struct sw_err *err);
/*
 * Replaces the site's own certificate in a directory that has the authority's key. The site's key
 * stays, so that one file changes, and a kill -9 leaves a pair that fits.
 */
SW_NODISCARD int sw_fabric_renew(const char *dir, const char *name, uint64_t ttl_s,
                                 struct sw_err *err);
/* A certificate for the key of a request, whose other contents are ignored; appended (PEM). */
SW_NODISCARD int sw_fabric_sign(const struct sw_ca *ca, const char *name, uint64_t ttl_s,
                                struct sw_slice csr, struct sw_buf *ret_cert, struct sw_err *err);
