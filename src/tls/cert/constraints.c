/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/cert/constraints.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#include "base/arena.h"
#include "tls/cert/x509.h"

enum { URIS_MAX = 64, CONSTRAINTS_MAX = 4096 };

/* ---- one name, one constraint ---- */

static bool host_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

static bool all_digits(struct sw_slice s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
    }
    return true;
}

/* Names do not end in a number (RFC 1123, 2.1), addresses in all their spellings do. */
static bool is_address(struct sw_slice host)
{
    return all_digits(sw_slice_from(host, (size_t)(sw_slice_rfind(host, '.') + 1)));
}

bool sw_uri_host(struct sw_slice uri, struct sw_slice *ret_host)
{
    ptrdiff_t scheme = sw_slice_find(uri, ':');
    struct sw_slice rest = scheme > 0 ? sw_slice_from(uri, (size_t)scheme) : sw_slice("", 0);
    struct sw_slice host;
    size_t n = 0;

    if (!sw_slice_has_prefix(rest, SW_SLICE_LIT("://")))
        return false;
    rest = sw_slice_from(rest, 3);
    while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?' && rest.p[n] != '#' &&
           rest.p[n] != ':')
        n++;
    host = sw_slice_head(rest, n);
    if (n < rest.n && rest.p[n] == ':') {
        size_t end = n + 1;

        while (end < rest.n && rest.p[end] != '/' && rest.p[end] != '?' && rest.p[end] != '#')
            end++;
        if (!all_digits(sw_slice(rest.p + n + 1, end - n - 1)))
            return false; /* also "user:password@host" */
    }
    for (size_t i = 0; i < host.n; i++) {
        if (!host_byte(host.p[i]))
            return false;
    }
    if (host.n > 1 && host.p[host.n - 1] == '.')
        host.n--;
    if (host.n == 0 || host.p[0] == '.' || is_address(host))
        return false;
    *ret_host = host;
    return true;
}

bool sw_uri_constraint_covers(struct sw_slice constraint, struct sw_slice host)
{
    if (constraint.n == 0)
        return true;
    if (constraint.p[0] == '.')
        return host.n > constraint.n &&
               sw_slice_ieq(sw_slice_from(host, host.n - constraint.n), constraint);
    return sw_slice_ieq(constraint, host);
}

bool sw_dns_constraint_covers(struct sw_slice constraint, struct sw_slice name)
{
    size_t below = name.n - constraint.n;

    if (constraint.n == 0)
        return true;
    if (name.n < constraint.n || !sw_slice_ieq(sw_slice_from(name, below), constraint))
        return false;
    if (constraint.p[0] == '.')
        return below > 0;
    return below == 0 || name.p[below - 1] == '.';
}

/* ---- the constraints of a CA ---- */

static gnutls_x509_name_constraints_t open_constraints(gnutls_x509_crt_t ca, bool *ret_bad)
{
    gnutls_x509_name_constraints_t nc = NULL;
    int rc = gnutls_x509_name_constraints_init(&nc);

    *ret_bad = rc < 0;
    if (rc < 0)
        return NULL;
    rc = gnutls_x509_crt_get_name_constraints(ca, nc, 0, NULL);
    if (rc >= 0)
        return nc;
    gnutls_x509_name_constraints_deinit(nc);
    *ret_bad = rc != GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE;
    return NULL;
}

typedef int (*subtree_fn)(gnutls_x509_name_constraints_t nc, unsigned idx, unsigned *type,
                          gnutls_datum_t *name);

typedef bool (*covers_fn)(struct sw_slice constraint, struct sw_slice host);

/* A kind of name and its rule. */
struct kind {
    unsigned type; /* GNUTLS_SAN_* */
    covers_fn covers;
};

/* How many subtrees of the kind there are, and whether one covers the host (NULL: none does). */
static size_t look(gnutls_x509_name_constraints_t nc, subtree_fn get, const struct kind *k,
                   const struct sw_slice *host, bool *ret_covered)
{
    gnutls_datum_t d;
    unsigned type;
    size_t n = 0;

    *ret_covered = false;
    for (unsigned i = 0; i < CONSTRAINTS_MAX && get(nc, i, &type, &d) >= 0; i++) {
        if (type != k->type)
            continue;
        n++;
        if (host && k->covers(sw_slice(d.data, d.size), *host))
            *ret_covered = true;
    }
    return n;
}

/* host NULL: a name without one, which only a CA without constraints of the kind allows. */
static bool allows(gnutls_x509_name_constraints_t nc, const struct kind *k,
                   const struct sw_slice *host)
{
    bool permitted;
    bool excluded;
    size_t n_permitted = look(nc, gnutls_x509_name_constraints_get_permitted, k, host, &permitted);
    size_t n_excluded = look(nc, gnutls_x509_name_constraints_get_excluded, k, host, &excluded);

    if (n_permitted + n_excluded == 0)
        return true;
    return host && !excluded && (permitted || n_permitted == 0);
}

static int judge_uri(gnutls_x509_name_constraints_t nc, struct sw_slice uri, struct sw_err *err)
{
    static const struct kind kind = {GNUTLS_SAN_URI, sw_uri_constraint_covers};
    struct sw_slice host;

    if (allows(nc, &kind, sw_uri_host(uri, &host) ? &host : NULL))
        return SW_OK;
    return sw_err_set(err, SW_EDENIED, "'%.*s' is outside the name constraints of its CA",
                      SW_SLICE_ARG(sw_slice_head(uri, 100)));
}

int sw_x509_ca_allows_uri(struct gnutls_x509_crt_int *ca, struct sw_slice uri, struct sw_err *err)
{
    bool bad;
    gnutls_x509_name_constraints_t nc = open_constraints(ca, &bad);
    int rc = SW_OK;

    if (bad)
        return sw_err_set(err, SW_EDENIED, "name constraints of a CA do not parse");
    if (nc) {
        rc = judge_uri(nc, uri, err);
        gnutls_x509_name_constraints_deinit(nc);
    }
    return rc;
}

int sw_x509_ca_allows_dns(struct gnutls_x509_crt_int *ca, struct sw_slice name, struct sw_err *err)
{
    static const struct kind kind = {GNUTLS_SAN_DNSNAME, sw_dns_constraint_covers};
    bool bad;
    gnutls_x509_name_constraints_t nc = open_constraints(ca, &bad);
    bool ok = !bad;

    if (nc) {
        ok = allows(nc, &kind, &name);
        gnutls_x509_name_constraints_deinit(nc);
    }
    if (ok)
        return SW_OK;
    return sw_err_set(err, SW_EDENIED, "'%.*s' is outside the name constraints of the CA",
                      SW_SLICE_ARG(sw_slice_head(name, 100)));
}

/* ---- a chain ---- */

static int check_below(gnutls_x509_crt_t ca, struct gnutls_x509_crt_int *const *below, size_t n,
                       struct sw_err *err)
{
    bool bad;
    gnutls_x509_name_constraints_t nc = open_constraints(ca, &bad);
    SW_ARENA_AUTO a = {0};
    int rc = SW_OK;

    if (bad)
        return sw_err_set(err, SW_EDENIED, "name constraints of a CA do not parse");
    for (size_t i = 0; nc && i < n && rc == SW_OK; i++) {
        struct sw_slice uris[URIS_MAX];
        size_t n_uris = sw_x509_uris(below[i], &a, URIS_MAX, uris);

        if (n_uris == URIS_MAX)
            rc = sw_err_set(err, SW_EDENIED, "certificate has %d URIs or more", URIS_MAX);
        for (size_t k = 0; k < n_uris && rc == SW_OK; k++)
            rc = judge_uri(nc, uris[k], err);
    }
    if (nc)
        gnutls_x509_name_constraints_deinit(nc);
    return rc;
}

/*
 * The path that was verified is one through these certificates; which one is the library's secret.
 * Applying what all of them say can only refuse more.
 */
int sw_x509_check_uris(struct gnutls_x509_trust_list_st *trust,
                       struct gnutls_x509_crt_int *const *chain, size_t n, struct sw_err *err)
{
    int rc = SW_OK;

    for (size_t i = 1; i < n && rc == SW_OK; i++)
        rc = check_below(chain[i], chain, i, err);
    for (size_t i = 0; i < n && rc == SW_OK; i++) {
        gnutls_x509_crt_t issuer = NULL;

        if (gnutls_x509_trust_list_get_issuer(trust, chain[i], &issuer, 0) >= 0)
            rc = check_below(issuer, chain, i + 1, err);
    }
    return rc;
}

/* ---- for people ---- */

static void each(gnutls_x509_name_constraints_t nc, bool permitted,
                 void (*fn)(void *arg, bool permitted, const char *kind, struct sw_slice name),
                 void *arg)
{
    subtree_fn get = permitted ? gnutls_x509_name_constraints_get_permitted
                               : gnutls_x509_name_constraints_get_excluded;
    gnutls_datum_t d;
    unsigned type;

    for (unsigned i = 0; i < CONSTRAINTS_MAX && get(nc, i, &type, &d) >= 0; i++) {
        const char *kind = type == GNUTLS_SAN_DNSNAME      ? "DNS"
                           : type == GNUTLS_SAN_URI        ? "URI"
                           : type == GNUTLS_SAN_RFC822NAME ? "email"
                           : type == GNUTLS_SAN_IPADDRESS  ? "IP"
                                                           : "other";

        fn(arg, permitted, kind, sw_slice(d.data, d.size));
    }
}

void sw_x509_each_constraint(struct gnutls_x509_crt_int *ca,
                             void (*fn)(void *arg, bool permitted, const char *kind,
                                        struct sw_slice name),
                             void *arg)
{
    bool bad;
    gnutls_x509_name_constraints_t nc = open_constraints(ca, &bad);

    if (!nc)
        return;
    each(nc, true, fn, arg);
    each(nc, false, fn, arg);
    gnutls_x509_name_constraints_deinit(nc);
}
