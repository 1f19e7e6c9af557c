/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trust controller: every namespace gets a ConfigMap with the fabric's root certificates, so
 * that workloads can verify their peers without a request to another service; or with the
 * revocation lists of a mesh. Namespaces on their way out are left alone; a ConfigMap that was
 * changed or deleted is restored.
 */
#pragma once

#include "base/slice.h"
#include "control/runtime.h"
#include "kube/client/client.h"

struct sw_trust;

/* What is handed out. Istio's have its names and label, and are not in every system namespace. */
enum sw_trust_what {
    SW_TRUST_ROOTS,       /* SW_TRUST_CONFIGMAP */
    SW_TRUST_ISTIO_ROOTS, /* istio-ca-root-cert */
    SW_TRUST_ISTIO_CRL,   /* istio-ca-crl */
};

struct sw_trust_opts {
    enum sw_trust_what what;
    struct sw_slice pem; /* may be changed later */
    bool threaded;
    struct sw_control_election election;
};

#define SW_TRUST_CONFIGMAP "spanwire-ca-root-cert"
#define SW_TRUST_KEY       "root-cert.pem"

SW_NODISCARD struct sw_trust *sw_trust_new(struct sw_kube_client *c, const struct sw_trust_opts *o,
                                           struct sw_err *err);
void sw_trust_free(struct sw_trust *t);
void sw_trust_start(struct sw_trust *t);
/* Gives the lease back; done comes from the loop. */
void sw_trust_stop(struct sw_trust *t, void (*done)(void *arg), void *arg);
/* The text changed: all ConfigMaps follow. An empty one leaves them as they are. */
void sw_trust_set(struct sw_trust *t, struct sw_slice pem);
/* The runtime under it, for status and metrics. */
struct sw_control;
const struct sw_control *sw_trust_control(const struct sw_trust *t);
