/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mutual TLS between workloads, bytes in and bytes out: no sockets, no loop, no timers. GnuTLS runs
 * the handshake; afterwards our own record layer takes over and the library's session is freed.
 * One connection belongs to one thread at a time.
 *
 * Life: sw_tls_new, sw_tls_handshake until it is not SW_EAGAIN, then sw_tls_open and sw_tls_seal,
 * sw_tls_close_notify, sw_tls_free.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"
#include "tls/cert/cred.h"
#include "tls/peer.h"
#include "tls/record_size.h"

struct sw_tls;

enum {
    SW_TLS_HANDSHAKE_OUT_MAX = 65536, /* a handshake never has more than this to send */
};

/*
 * A judgement beyond the built-in ones, called once per handshake after all of them passed and
 * before the handshake ends. Returns SW_OK, or anything else (with err filled) to refuse the peer.
 */
typedef int (*sw_tls_verify_cb)(void *arg, const struct sw_tls_peer *peer, struct sw_err *err);

/*
 * 'web' only: checks the peer's leaf certificate (DER), after its chain was verified. On a client
 * it takes the place of the check against 'host'; with insecure_skip it is the only check of the
 * server. On a server a leaf it refuses counts as a certificate that was not accepted.
 */
typedef int (*sw_tls_leaf_cb)(void *arg, struct sw_slice leaf, struct sw_err *err);

/*
 * Algorithms that a handshake does without. TLS 1.2 and 1.3 share the ciphers; how the server's key
 * is used matters to TLS 1.2 alone.
 */
enum {
    SW_TLS_NO_AES_128 = 1,
    SW_TLS_NO_AES_256 = 2,
    SW_TLS_NO_CHACHA = 4,
    SW_TLS_NO_ECDSA = 8,
    SW_TLS_NO_RSA = 16,
    SW_TLS_NO_X25519 = 32,
    SW_TLS_NO_P256 = 64,
    SW_TLS_NO_P384 = 128,
};

struct sw_tls_params {
    bool server;
    bool tls12;        /* also speak TLS 1.2 */
    bool tls12_only;   /* speak nothing newer */
    bool chacha;       /* also accept ChaCha20-Poly1305; HBONE does not */
    uint8_t without;   /* SW_TLS_NO_..., bits */
    bool insecure_any; /* client: any chain that verifies will do, whatever its identity */
    /*
     * Server of ordinary HTTPS instead of a mesh peer: a client certificate is requested but not
     * required, one that does not verify counts as none (sw_tls_peer_refused), SPIFFE rules do not
     * apply and a client that offers no ALPN protocol is served.
     * Client of an ordinary HTTPS server: the chain must verify against the credential's roots and
     * the leaf must be for 'host'; SPIFFE rules and 'expect' do not apply, ALPN is an offer.
     */
    bool web;
    bool no_client_cert; /* 'web' server: send no CertificateRequest */
    /* 'web' server: a client without a certificate that is accepted fails the handshake. */
    bool need_client_cert;
    /*
     * 'web' server: SW_TLS_TICKET_KEY bytes that seal session tickets (ticket.h), borrowed for
     * sw_tls_new; NULL: none are given or taken. The certificate of a client that resumes is judged
     * again by the rules of this connection.
     */
    const uint8_t *ticket_key;
    uint32_t ticket_life_s; /* 0: two hours */
    /*
     * 'web' client: DNS name or IP address the server's certificate must be for (RFC 6125; subject
     * alternative names only). Borrowed until the handshake ends.
     */
    const char *host;
    bool insecure_skip; /* 'web' client: accept any certificate; only where the user chose it */
    bool exporter;      /* keep what sw_tls_export needs */
    struct sw_tls_cred *cred; /* a reference is taken */
    /*
     * "h2", or a comma-separated list by preference; NULL: no ALPN. When given, the handshake
     * fails (no_application_protocol) unless one of them is agreed on. Borrowed until the
     * handshake ends.
     */
    const char *alpn;
    bool alpn_optional; /* server: a client that offers no ALPN at all is served */
    /* Client: identities (URIs) one of which the server must have. Borrowed until the handshake
     * ends. */
    const struct sw_slice *expect;
    size_t n_expect;
    const char *sni;         /* client: server name to send; NULL: none */
    sw_tls_verify_cb verify; /* optional */
    void *verify_arg;
    sw_tls_leaf_cb leaf_ok; /* optional */
    void *leaf_arg;         /* borrowed until the handshake ends */
};

/*
 * Returns a connection owned by the caller, or NULL with SW_EINVAL (a server without a key, a 'web'
 * client without a host, a bad ALPN list).
 */
struct sw_tls *sw_tls_new(const struct sw_tls_params *p, struct sw_err *err);
/* Wipes and frees; sends nothing. Accepts NULL. */
void sw_tls_free(struct sw_tls *t);

/*
 * Feeds bytes from the peer, appends what is to be sent to out (whose maximum should leave room for
 * SW_TLS_HANDSHAKE_OUT_MAX). A client is started with an empty 'in'. *ret_used is always written:
 * bytes of 'in' that were taken. Bytes left over after SW_OK are the first application records.
 *
 * Returns SW_OK when done (out may still hold bytes to send), SW_EAGAIN when input is missing,
 * otherwise the connection is dead and out ends with the alert to send: SW_EDENIED (identity or
 * certificate, ours or the peer's, was refused), SW_EPROTO, SW_EOF (peer closed), SW_ELIMIT (out is
 * full).
 */
SW_NODISCARD int sw_tls_handshake(struct sw_tls *t, struct sw_slice in, size_t *ret_used,
                                  struct sw_buf *out, struct sw_err *err);

/*
 * Opens the record at buf in place. On SW_OK and SW_EOF *ret_used is its length; *ret_plain lies
 * inside buf and is empty when the record carried none (tickets, key updates).
 *
 * Returns SW_OK, SW_EAGAIN (record incomplete, *ret_used = 0), SW_EOF (the peer will send no more;
 * we still may), SW_EDENIED ("peer refused our certificate (alert N)"), SW_EPROTO (broken record or
 * any other alert). After the last two the connection is dead: sw_tls_alert_for_err, then free.
 */
SW_NODISCARD int sw_tls_open(struct sw_tls *t, uint8_t *buf, size_t n, size_t *ret_used,
                             struct sw_slice *ret_plain, struct sw_err *err);

/*
 * Seals plain[0..n) as one record into out, which holds SW_TLS_SEAL_ROOM(n) bytes and does not
 * overlap; pending control records come out in front. n is at most sw_tls_max_plain(t). The byte
 * plain[n] must be writable: it is used and restored. n = 0 writes control records only.
 *
 * Returns the bytes written; 0 when the connection is dead or our side is closed.
 */
size_t sw_tls_seal(struct sw_tls *t, uint8_t *plain, size_t n, uint8_t *out);

/* True when sw_tls_flush has something to write: an answer to a KeyUpdate. */
bool sw_tls_wants_flush(const struct sw_tls *t);
/* Pending control records only; cap is at least SW_TLS_CTRL_ROOM. Returns the bytes written. */
size_t sw_tls_flush(struct sw_tls *t, uint8_t *out, size_t cap);
/* Ends our direction: pending control records and close_notify, once. cap as for sw_tls_flush. */
size_t sw_tls_close_notify(struct sw_tls *t, uint8_t *out, size_t cap);
/*
 * The fatal alert that belongs to a failure, and the end of our direction: after a failed
 * sw_tls_open the one it determined (nothing after an alert of the peer's); otherwise access_denied
 * for SW_EDENIED and internal_error for the rest. cap as for sw_tls_flush.
 */
size_t sw_tls_alert_for_err(struct sw_tls *t, const struct sw_err *err, uint8_t *out, size_t cap);
/* Updates the keys of both directions (request) or only ours; goes out with the next write. */
void sw_tls_key_update(struct sw_tls *t, bool request);

/* The rest is meaningful after the handshake. */

/* Lives as long as t; NULL before the handshake ended, for clients without certificate ('web') and
 * with insecure_skip. */
const struct sw_tls_peer *sw_tls_peer(const struct sw_tls *t);
/* With 'web': the client showed a certificate that was not accepted. */
bool sw_tls_peer_refused(const struct sw_tls *t);
/* True when the handshake failed because a certificate of the peer's chain is revoked. */
bool sw_tls_peer_revoked(const struct sw_tls *t);
/* Agreed protocol, "" when none. */
const char *sw_tls_alpn(const struct sw_tls *t);
/* Most plaintext one sw_tls_seal may carry: 16384, or a smaller limit that the peer set. */
size_t sw_tls_max_plain(const struct sw_tls *t);
/* "TLS1.3 AES-128-GCM" and the like, for logs. */
const char *sw_tls_cipher(const struct sw_tls *t);
/*
 * Keying material that only the two ends of this connection can make (RFC 8446 section 7.5): n <=
 * 64 bytes. SW_EINVAL: 'exporter' was not set, was released, or it is not TLS 1.3.
 */
SW_NODISCARD int sw_tls_export(const struct sw_tls *t, const char *label, struct sw_slice context,
                               uint8_t *out, size_t n, struct sw_err *err);
/* Wipes what sw_tls_export needs. */
void sw_tls_export_done(struct sw_tls *t);
/* Heap bytes this connection holds, its shared parts excluded. */
size_t sw_tls_mem(const struct sw_tls *t);

/*
 * Looks the peer's certificates up in newer revocations. Returns SW_OK, or SW_EDENIED naming the
 * revoked serial.
 */
SW_NODISCARD int sw_tls_recheck(const struct sw_tls *t, const struct sw_tls_cred *cred,
                                struct sw_err *err);
