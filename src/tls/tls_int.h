/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a connection, for the files of this directory. */
#pragma once

#include <stdint.h>

#include "io/filter.h"
#include "tls/record.h"
#include "tls/tls.h"

struct gnutls_session_int;

/* Everything that is needed only until the handshake ends (or, for TLS 1.2, as long as it lasts).
 */
struct sw_tls_lib {
    struct gnutls_session_int *session;
    struct sw_tls_cred *cred;       /* a reference */
    struct sw_tls_params params;    /* its borrowed members are valid during the handshake only */
    unsigned n_alpn;                /* protocols in params.alpn */
    const struct sw_tls_peer *peer; /* a reference, set by the verification */
    struct sw_slice in;             /* what the pull function serves from */
    struct sw_buf *out;             /* handshake: where pushed bytes go */
    uint8_t *raw_out;               /* afterwards: the same, SW_TLS_SEAL_ROOM long */
    size_t raw_n;
    size_t raw_cap;
    uint8_t rx_secret[SW_RECORD_SECRET_MAX];
    uint8_t tx_secret[SW_RECORD_SECRET_MAX];
    size_t rx_len;
    size_t tx_len;
    uint8_t *exporter; /* params.exporter: vault memory, becomes the connection's */
    size_t in_total;
    uint16_t size_limit; /* record_size_limit of the peer; 0: none */
    uint8_t alert;       /* for verdict; 0: GnuTLS knows */
    bool tickets;        /* are given out */
    bool alpn_seen;      /* the peer sent the extension */
    bool tls13_seen;     /* server: the client offers it */
    bool out_full;
    bool refused; /* params.web: the certificate shown was not accepted */
    bool rx_closed;
    bool tx_closed;
    bool dead;
    struct sw_err verdict; /* why we refused, rc 0: we did not */
};

/* Kept small: this is all an idle connection costs, besides its share of the peer. */
struct sw_tls {
    struct sw_record rec;
    struct sw_filter filter;        /* while a connection drives it: connfilter.c */
    const struct sw_tls_peer *peer; /* a reference; NULL before the handshake ended */
    struct sw_tls_lib *lib;         /* owned: GnuTLS's side, NULL once the records are ours */
    uint8_t *exporter;              /* owned vault memory; NULL: nothing can be exported */
    char alpn[16];
    bool up;      /* handshake ended well */
    bool refused; /* 'web': the peer's certificate was not accepted */
    bool resumed;
};

/* The same as the calls of tls.h, for a connection whose records stay with GnuTLS. */
int sw_lib_open(struct sw_tls *t, uint8_t *buf, size_t n, size_t *ret_used,
                struct sw_slice *ret_plain, struct sw_err *err);
size_t sw_lib_seal(struct sw_tls *t, const uint8_t *plain, size_t n, uint8_t *out);
size_t sw_lib_close_notify(struct sw_tls *t, uint8_t *out);
size_t sw_lib_alert(struct sw_tls *t, const struct sw_err *err, uint8_t *out);
const char *sw_lib_cipher(const struct sw_tls *t);
void sw_lib_free(struct sw_tls_lib *l);
/* 0 when a protocol of ours was chosen, or none is demanded; otherwise GnuTLS's error, verdict set.
 */
int sw_lib_check_alpn(struct sw_tls_lib *l);
/* Server: the client offers only versions that are off. Returns what the hook returns. */
int sw_lib_refuse_version(struct sw_tls_lib *l);
/* Refuses certificates with keys that would cost too much (x509.h); 0 or an error of GnuTLS. */
int sw_lib_check_keys(struct sw_tls_lib *l, struct sw_slice msg);
/* Judges what the peer has shown: 0, or GnuTLS's error with alert and verdict set. */
int sw_lib_judge(struct sw_tls_lib *l);
/* Puts a failure of GnuTLS's into words; the rc of err. */
int sw_lib_explain(struct sw_tls_lib *l, int rc, struct sw_err *err);
