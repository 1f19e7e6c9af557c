/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A small certificate authority: one self-signed root that signs workload certificates directly.
 * For fabrics without an outside CA, for development and for tests. Its root is never part of a
 * presented chain.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"
#include "tls/cert/cred.h"

struct sw_ca;

#define SW_CA_ROOT_CERT "root.crt"
#define SW_CA_ROOT_KEY  "root.key"

/* What a CA may sign. Its root carries that in name constraints, for every verifier. */
struct sw_ca_scope {
    struct sw_slice trust_domain;
    bool any_trust_domain;          /* identities of any trust domain */
    const struct sw_slice *domains; /* DNS names: these and all below them, and no addresses */
    size_t n_domains;               /* 0: any DNS names and addresses */
};

/* A new root: P-256, valid for ttl_s seconds (0: ten years). NULL with err. */
struct sw_ca *sw_ca_new_scoped(const struct sw_ca_scope *s, uint64_t ttl_s, struct sw_err *err);
/* The same without constraints, for the names of a process of ours. */
struct sw_ca *sw_ca_new(struct sw_slice trust_domain, uint64_t ttl_s, struct sw_err *err);
/*
 * Lets a CA that was loaded sign within this scope only. One of our own making whose root has other
 * constraints gets a new certificate with the same key, name and end (*ret_renewed; sw_ca_save_cert
 * keeps it): what it signed before stays valid below both. A root of another CA stays as it is.
 */
SW_NODISCARD int sw_ca_narrow(struct sw_ca *ca, const struct sw_ca_scope *s, bool *ret_renewed,
                              struct sw_err *err);
/* Replaces root.crt of the directory. */
SW_NODISCARD int sw_ca_save_cert(const struct sw_ca *ca, const char *dir, struct sw_err *err);
/* From PEM texts, of files of any name. Refuses a certificate that is no CA and a key that is not
 * its own. */
struct sw_ca *sw_ca_from_pem(struct sw_slice cert, struct sw_slice key, struct sw_err *err);
/* root.crt and root.key of a directory; messages name it. NULL with err. */
struct sw_ca *sw_ca_load(const char *dir, struct sw_err *err);
/* Writes both files (key 0600); makes the directory (0700) if need be; refuses to replace a CA. */
SW_NODISCARD int sw_ca_save(const struct sw_ca *ca, const char *dir, struct sw_err *err);
void sw_ca_free(struct sw_ca *ca);

/* Appends the root's key (PKCS#8 PEM); callers overwrite it after use. */
SW_NODISCARD int sw_ca_key_pem(const struct sw_ca *ca, struct sw_buf *ret_key, struct sw_err *err);
struct sw_slice sw_ca_root_pem(const struct sw_ca *ca);
/* The trust domain that the root names; empty: none. */
struct sw_slice sw_ca_trust_domain(const struct sw_ca *ca);
/* Life of the root, in seconds since the epoch. */
uint64_t sw_ca_not_before(const struct sw_ca *ca);
uint64_t sw_ca_not_after(const struct sw_ca *ca);

struct sw_ca_leaf {
    struct sw_slice id;        /* spiffe://... */
    uint64_t ttl_s;            /* from now; 0: 24 hours. Cut at the root's own end */
    int64_t not_before_s;      /* begin relative to now; 0: one minute back */
    uint64_t backdate_s;       /* moves begin and end into the past: an expired one for tests */
    bool foreign_trust_domain; /* allow an id outside the root's trust domain */
};

/*
 * A new P-256 key and a certificate for it: critical URI SAN, server and client use. Appends the
 * leaf alone (PEM) to ret_chain and the PKCS#8 key to ret_key; sw_buf_done does not wipe, callers
 * that care overwrite ret_key. Safe to call from several threads.
 *
 * Returns SW_OK, SW_EINVAL (bad id), SW_EDENIED (foreign trust domain, expired root), SW_ELIMIT.
 */
SW_NODISCARD int sw_ca_issue(const struct sw_ca *ca, const struct sw_ca_leaf *leaf,
                             struct sw_buf *ret_chain, struct sw_buf *ret_key, struct sw_err *err);

/* What was signed. */
struct sw_ca_signed {
    char serial[65]; /* hex digits */
    uint64_t not_after_s;
};

enum { SW_CA_CSR_MAX = 64 << 10 }; /* bytes of a request */

/*
 * Signs the key of a certificate request (PEM), which must be signed by that key; everything else
 * in it is ignored: the certificate is for leaf->id. Appends it (PEM) to ret_cert. Two minutes
 * backdated unless leaf says otherwise.
 *
 * Returns SW_OK, SW_EINVAL (bad request or id), SW_EDENIED as sw_ca_issue, SW_ELIMIT.
 */
SW_NODISCARD int sw_ca_sign(const struct sw_ca *ca, const struct sw_ca_leaf *leaf,
                            struct sw_slice csr, struct sw_buf *ret_cert, struct sw_ca_signed *ret,
                            struct sw_err *err);

/* The same straight into a credential that trusts this root; crl as in sw_tls_cred_pem. NULL with
 * err. */
struct sw_tls_cred *sw_ca_issue_cred(const struct sw_ca *ca, const struct sw_ca_leaf *leaf,
                                     struct sw_slice crl, struct sw_err *err);

/*
 * A CRL (PEM, appended to ret_pem) revoking every certificate in the n PEM texts, valid for a week.
 * Refuses certificates of other issuers.
 */
SW_NODISCARD int sw_ca_make_crl(const struct sw_ca *ca, const struct sw_slice *certs, size_t n,
                                struct sw_buf *ret_pem, struct sw_err *err);

/* A certificate for ordinary HTTPS: names instead of a SPIFFE identity. */
struct sw_ca_web {
    const char *cn;          /* common name: a user, or a name of the server */
    const char *const *orgs; /* organisations (groups of a user), ends with NULL; may be NULL */
    const char *const *sans; /* DNS names and IP addresses, ends with NULL; may be NULL */
    bool server;             /* for servers; otherwise for clients */
    bool both;               /* for either, whatever 'server' is */
    uint64_t ttl_s;          /* from now; cut at the root's own end */
    uint64_t backdate_s;     /* moves begin and end into the past: an expired one for tests */
};

/*
 * As sw_ca_issue, for such a certificate. SW_EINVAL for names that do not fit, SW_EDENIED for one
 * outside the CA's scope or the constraints of its root.
 */
SW_NODISCARD int sw_ca_issue_web(const struct sw_ca *ca, const struct sw_ca_web *web,
                                 struct sw_buf *ret_chain, struct sw_buf *ret_key,
                                 struct sw_err *err);
/* The same for the key of a certificate request, as sw_ca_sign. */
SW_NODISCARD int sw_ca_sign_web(const struct sw_ca *ca, const struct sw_ca_web *web,
                                struct sw_slice csr, struct sw_buf *ret_cert, struct sw_err *err);
