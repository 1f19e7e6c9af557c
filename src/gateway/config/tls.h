/* SPDX-License-Identifier: Apache-2.0 */
/* Requirements on a TLS peer, for code that opens or accepts connections. */
#pragma once

#include "gateway/config/config.h"
#include "tls/tls.h"

struct Sw__CertificateValidationContext;
struct Sw__TlsParameters;
struct Sw__TransportSocket;
struct sw_arena;
struct sw_gw_build;

/*
 * The peer a connection expects. Lives as long as its handshake. 'host' is the server name of a
 * client, NULL: none. It is sent as SNI unless it is an address. The certificate must be for it
 * unless the context lists names of its own.
 */
struct sw_gw_tls_want {
    const struct sw_gw_tls *tls;
    const char *host;
};

/*
 * leaf_ok of sw_tls_params; arg is a struct sw_gw_tls_want. One of the context's names must be in
 * the certificate, or it must be for 'host'; and it must be one of those pinned, if any is. Without
 * names, host and pins the chain alone decides, which only roots of one's own can. SW_EDENIED
 * otherwise.
 */
SW_NODISCARD int sw_gw_tls_leaf_ok(void *arg, struct sw_slice leaf, struct sw_err *err);
/* The same for a server judging its client: arg is the struct sw_gw_tls. */
SW_NODISCARD int sw_gw_tls_client_leaf_ok(void *arg, struct sw_slice leaf, struct sw_err *err);
/* All parameters of a client's handshake; 'w' stays borrowed until it ends. */
void sw_gw_tls_client_params(const struct sw_gw_tls_want *w, struct sw_tls_params *p);

/*
 * After the handshake: did the client authenticate as the filter chain requires? *ret_why: for
 * logs.
 */
SW_NODISCARD bool sw_gw_tls_client_ok(const struct sw_gw_chain *chain, const struct sw_tls *tls,
                                      const char **ret_why);

/* The server side of a handshake as the chain wants it, certificate chosen by SNI; NULL with err.
 */
struct sw_tls *sw_gw_tls_accept(const struct sw_gw_chain *chain, struct sw_slice sni,
                                struct sw_err *err);

/* Names and pins of a validation context, added to those of t. */
SW_NODISCARD int sw_gw_build_peer_rules(struct sw_gw_build *b, struct sw_gw_tls *t,
                                        const struct Sw__CertificateValidationContext *v);
/* Refuses (SW_EINVAL) rules that would check nothing or that no certificate could pass. */
SW_NODISCARD int sw_gw_check_peer_rules(const struct sw_gw_tls *t, bool roots, bool client,
                                        struct sw_err *err);

/* Versions and algorithms. */
SW_NODISCARD int sw_gw_build_tls_params(struct sw_gw_build *b, const struct Sw__TlsParameters *in,
                                        struct sw_gw_tls *t);
/* The TLS of a transport socket. *ret is NULL for raw_buffer (and while a secret is missing). */
SW_NODISCARD int sw_gw_build_tls_down(struct sw_gw_build *b, const struct Sw__TransportSocket *s,
                                      struct sw_gw_tls **ret);
/* Where the names of an upstream TLS context come from, by the cluster's settings. */
struct sw_gw_up_names {
    bool auto_sni; /* the request's host is the server name */
    bool auto_san; /* the certificate must be for it */
};
SW_NODISCARD int sw_gw_build_tls_up(struct sw_gw_build *b, const struct Sw__TransportSocket *s,
                                    const struct sw_gw_up_names *names, struct sw_gw_tls **ret);
/* Refuses a secret that could never be used. */
SW_NODISCARD int sw_gw_check_secret(struct sw_slice bytes, struct sw_slice *ret_name,
                                    struct sw_arena *a, struct sw_err *err);
/* The certificate for a server name: one that is for it, else the first. NULL: there is none. */
struct sw_tls_cred *sw_gw_tls_cred_for(const struct sw_gw_tls *t, struct sw_slice sni);
