/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificate of the xDS server where `spanwire control` works on a cluster elsewhere: from
 * files, from a CA in the data directory, or from a CA that all replicas share in a Secret.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "opts/opts.h"

struct sw_control_cert;
struct sw_kube_client;
struct sw_tls_cred;

/* All borrowed. */
struct sw_control_cert_opts {
    const char *cert; /* PEM files; NULL: not this way */
    const char *key;
    const char *secret; /* name of the Secret, and of the ConfigMap with its root; NULL: none */
    const char *ns;     /* of both */
    const char *data;   /* directory for a CA of our own; NULL: none */
    const struct sw_opt_list *names;
    /* A new certificate; from the loop. */
    void (*renewed)(void *arg, struct sw_tls_cred *cred);
    void *arg;
};

/*
 * NULL with what was wrong. Until the Secret was read the certificate is one that no data plane
 * trusts.
 */
SW_NODISCARD struct sw_control_cert *sw_control_cert_new(struct sw_kube_client *client,
                                                         const struct sw_control_cert_opts *o,
                                                         struct sw_err *err);
/* NULL is fine. Before the client. */
void sw_control_cert_free(struct sw_control_cert *c);
/* Borrowed. */
struct sw_tls_cred *sw_control_cert_cred(const struct sw_control_cert *c);
/* True when data planes can verify it; else appends what is waited for. */
bool sw_control_cert_ready(const struct sw_control_cert *c, struct sw_buf *ret_waits);
