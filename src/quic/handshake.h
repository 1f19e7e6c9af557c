/* SPDX-License-Identifier: Apache-2.0 */
/* The TLS handshake of a connection, and its keys. */
#pragma once

#include "quic/conn.h"

struct ngtcp2_callbacks;

/* What all handshakes of an endpoint share: our key and the protocols. */
struct sw_qtls *sw_qtls_new(const struct sw_rawkey *key, const struct sw_slice *alpns, size_t n,
                            struct sw_err *err);
void sw_qtls_free(struct sw_qtls *t);
/* One handshake. c->nc must exist. alpn: of a client; empty: server. */
int sw_qhs_start(struct sw_qconn *c, bool server, struct sw_err *err);
void sw_qhs_free(struct sw_qhs *hs);
/* The protocol agreed on; empty: none yet. */
struct sw_slice sw_qhs_alpn(const struct sw_qhs *hs);
/* The parts of the table that are cryptography. */
void sw_qhs_callbacks(struct ngtcp2_callbacks *cb);

/* handshake_keys.c */

/*
 * Application keys are ours: faster, and without a TLS session behind them. c->keys.aead says
 * which; n is 32 or 48. A packet that is opened with them and is no copy sets c->heard.genuine. 0,
 * or -1.
 */
int sw_qkeys_install(struct sw_qconn *c, bool tx, const uint8_t *secret, size_t n);
void sw_qkeys_callbacks(struct ngtcp2_callbacks *cb);
/* Whose packet is read now, in this thread; NULL: none is any more. */
void sw_qkeys_reading(struct sw_qconn *c);
