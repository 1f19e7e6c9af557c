/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This site's certificate in the fabric: ca.pem, cert.pem and key.pem of a directory, or of the
 * Secret 'cl-peer'. Followed while they change; what cannot be used leaves the old one in force.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_control_link_fabric;
struct sw_kube_client;
struct sw_loop;
struct sw_metrics_shard;
struct sw_tls_cred;

/* A certificate in use: its name is the first DNS name of the leaf. Lives for the call. */
struct sw_control_link_identity {
    struct sw_slice name;
    struct sw_tls_cred *cred;
    struct sw_slice chain; /* PEM texts, for data planes */
    struct sw_slice key;
    struct sw_slice ca;
};

struct sw_control_link_fabric_opts {
    const char *dir;               /* NULL: the Secret */
    const char *ns;                /* of the Secret */
    struct sw_kube_client *client; /* for the Secret */
    uint64_t ttl_s;                /* of a certificate that this site signs for itself */
    struct sw_metrics_shard *metrics;
    void (*changed)(void *arg, const struct sw_control_link_identity *id);
    void *arg;
};

/* NULL with err: a directory whose files cannot be used. A Secret may come later. */
SW_NODISCARD struct sw_control_link_fabric *
sw_control_link_fabric_new(struct sw_loop *l, const struct sw_control_link_fabric_opts *o,
                           struct sw_err *err);
/* NULL is fine. */
void sw_control_link_fabric_free(struct sw_control_link_fabric *f);
