/* SPDX-License-Identifier: Apache-2.0 */
/* Connections and credentials of the client: files that are renewed, tokens, TLS. Not for others.
 */
#pragma once

#include "http/client.h"
#include "kube/client/kubeconfig.h"

enum { SW_KUBE_AUTH_FIELDS = SW_KUBE_AS_GROUPS_MAX + 4 };

struct sw_kube_transport {
    struct sw_loop *loop;
    struct sw_kube_config cfg; /* owned */
    struct sw_http_client *http;
    char *auth; /* value of Authorization; owned, NULL: none */
    struct sw_slice ca;
    struct sw_slice cert;
    struct sw_slice key; /* what the current credential was made of; owned */
    uint64_t read_ns;    /* when files were read last */
};

/* The certificate authorities of the system, PEM; the caller's. SW_ENOENT when it has none. */
SW_NODISCARD int sw_kube_system_roots(struct sw_slice *ret, struct sw_err *err);
/* Takes cfg over. SW_OK, or the reason why nothing can be sent. */
SW_NODISCARD int sw_kube_transport_init(struct sw_kube_transport *t, struct sw_loop *l,
                                        struct sw_kube_config *cfg, size_t max_conns,
                                        struct sw_err *err);
void sw_kube_transport_done(struct sw_kube_transport *t);
/*
 * Reads the files again when a minute went by, or now. True when the token changed. A file that
 * cannot be read leaves what we have.
 */
bool sw_kube_transport_refresh(struct sw_kube_transport *t, bool now);
/* Authorization and impersonation; returns how many fields. They live until the next refresh. */
size_t sw_kube_transport_fields(const struct sw_kube_transport *t,
                                struct sw_h1_field out[SW_KUBE_AUTH_FIELDS]);
