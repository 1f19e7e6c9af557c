/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Name constraints (RFC 5280, 4.2.1.10): which names certificates below a CA may have. GnuTLS
 * applies those for DNS names, addresses and mail to the chains of peers. Of those for URIs it
 * ignores the permitted and refuses every URI when there are excluded ones; here they are applied
 * as the RFC says. Names that are about to be signed are judged here alone: some releases of GnuTLS
 * compare DNS names with regard to case.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"

struct gnutls_x509_crt_int;
struct gnutls_x509_trust_list_st;

/* The host of a URI: letters, digits, '-', '_', '.'. False: it has none, an address, or others. */
bool sw_uri_host(struct sw_slice uri, struct sw_slice *ret_host);
/*
 * ".example.com" covers every host below it, but not example.com; "example.com" that host alone; ""
 * every host. Without regard to case.
 */
bool sw_uri_constraint_covers(struct sw_slice constraint, struct sw_slice host);
/*
 * "example.com" covers that name and every one below it, ".example.com" only those below; "" every
 * name. Without regard to case.
 */
bool sw_dns_constraint_covers(struct sw_slice constraint, struct sw_slice name);

/* May certificates below this CA have the URI, or the DNS name? SW_OK, or SW_EDENIED. */
SW_NODISCARD int sw_x509_ca_allows_uri(struct gnutls_x509_crt_int *ca, struct sw_slice uri,
                                       struct sw_err *err);
SW_NODISCARD int sw_x509_ca_allows_dns(struct gnutls_x509_crt_int *ca, struct sw_slice name,
                                       struct sw_err *err);

/*
 * A chain whose signatures were found good, leaf first: the URIs of each certificate against the
 * constraints of every one behind it and of the trusted ones above. SW_OK, or SW_EDENIED.
 */
SW_NODISCARD int sw_x509_check_uris(struct gnutls_x509_trust_list_st *trust,
                                    struct gnutls_x509_crt_int *const *chain, size_t n,
                                    struct sw_err *err);

/* Calls fn for every constraint as text ("DNS:x", "URI:x", "IP:n bytes"); for people. */
void sw_x509_each_constraint(struct gnutls_x509_crt_int *ca,
                             void (*fn)(void *arg, bool permitted, const char *kind,
                                        struct sw_slice name),
                             void *arg);
