/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates from a CA directory on this machine: signed at once, in the process. */
#include "base/mem.h"
#include "node/cert/issuer.h"
#include "tls/cert/ca.h"

struct local {
    struct sw_issuer base;
    char *dir;
};

/* The CA is read again each time: it may have been replaced. */
static void start(struct sw_issuer *x, struct sw_issue *i)
{
    struct local *l = SW_CONTAINER_OF(x, struct local, base);
    struct sw_ca_leaf leaf = {.id = i->identity, .ttl_s = i->ttl_s, .foreign_trust_domain = true};
    struct sw_tls_cred *cred = NULL;
    struct sw_err err = {0};
    struct sw_ca *ca = sw_ca_load(l->dir, &err);

    if (ca)
        cred = sw_ca_issue_cred(ca, &leaf, i->crl, &err);
    sw_ca_free(ca);
    i->cb(i, cred, &err);
}

/* Requests end before 'start' returns. */
static void cancel(struct sw_issuer *x, struct sw_issue *i)
{
}

static void local_free(struct sw_issuer *x)
{
    struct local *l = SW_CONTAINER_OF(x, struct local, base);

    sw_free(l->dir);
    sw_free(l);
}

static const struct sw_issuer_ops ops = {.start = start, .cancel = cancel, .free = local_free};

struct sw_issuer *sw_issuer_local_new(const char *dir, struct sw_err *err)
{
    struct sw_ca *ca = sw_ca_load(dir, err);
    struct local *l;

    if (!ca)
        return NULL;
    sw_ca_free(ca);
    l = SW_NEW(struct local);
    l->dir = sw_strdup(dir);
    l->base = (struct sw_issuer){.ops = &ops, .name = l->dir};
    return &l->base;
}
