/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where certificates of workloads come from: a CA directory on this machine, or a certificate
 * authority on the network. One interface, so that queueing, retries and renewal are the same for
 * both. Everything runs on the main loop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/loop.h"
#include "tls/cert/cred.h"

struct sw_issuer;
struct sw_issue;

/*
 * The request is over: a credential whose reference the callee takes over, or NULL with the reason.
 * May start further requests.
 */
typedef void (*sw_issue_cb)(struct sw_issue *i, struct sw_tls_cred *cred, const struct sw_err *err);

/* One request; memory of the asker, which keeps it until the callback or sw_issuer_cancel. */
struct sw_issue {
    struct sw_slice identity; /* spiffe://... */
    uint64_t ttl_s;
    struct sw_slice crl; /* revocations the credential obeys; lives as long as the request */
    sw_issue_cb cb;
    void *call; /* the issuer's own; NULL: not under way */
};

struct sw_issuer_ops {
    void (*start)(struct sw_issuer *x, struct sw_issue *i);
    void (*cancel)(struct sw_issuer *x, struct sw_issue *i);
    void (*free)(struct sw_issuer *x);
};

struct sw_issuer {
    const struct sw_issuer_ops *ops;
    const char *name; /* for logs: where requests go; owned by the issuer */
};

/* The callback comes once, from inside or later. */
static inline void sw_issuer_start(struct sw_issuer *x, struct sw_issue *i)
{
    x->ops->start(x, i);
}

/* No callback comes any more. A request that is not under way is fine. */
static inline void sw_issuer_cancel(struct sw_issuer *x, struct sw_issue *i)
{
    if (i->call)
        x->ops->cancel(x, i);
}

/* After all requests ended. NULL is fine. */
static inline void sw_issuer_free(struct sw_issuer *x)
{
    if (x)
        x->ops->free(x);
}

/* A directory made by 'spanwire cert ca'. NULL with err when it cannot be loaded now. */
SW_NODISCARD struct sw_issuer *sw_issuer_local_new(const char *dir, struct sw_err *err);

/* Strings are borrowed for the life of the issuer; NULL: not given. */
struct sw_issuer_ca_opts {
    const char *address;    /* "https://HOST:PORT", see node/cert/channel.h */
    const char *root;       /* file, PEM text or "SYSTEM" */
    const char *alt_name;   /* second name the server's certificate may have */
    const char *token;      /* file or the token itself */
    const char *machine;    /* directory of a machine that joined; NULL: none */
    const char *cluster_id; /* sent as 'clusterid' */
    uint32_t mark;          /* SO_MARK: redirection lets it through; 0: none */
    bool impersonate;       /* ask in the name of the workload (shared mode) */
};

/*
 * A client of istio.v1.auth.IstioCertificateService. NULL with SW_EINVAL for an address that does
 * not parse; whether the authority answers shows with the first request.
 */
SW_NODISCARD struct sw_issuer *
sw_issuer_ca_new(struct sw_loop *l, const struct sw_issuer_ca_opts *o, struct sw_err *err);
