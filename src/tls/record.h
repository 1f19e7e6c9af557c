/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS 1.3 record layer (RFC 8446 section 5) of an established connection, and the few handshake
 * messages that may follow a handshake: tickets are skipped, key updates obeyed. Knows keys and
 * bytes only; sw_tls wraps it. Public so that tests and fuzzers can set the state they need.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/def.h"
#include "base/err.h"
#include "base/slice.h"
#include "tls/crypto/aead.h"

enum {
    SW_RECORD_SECRET_MAX = 48,
    SW_RECORD_KEY_UPDATES = 32, /* received within SW_RECORD_KEY_UPDATE_S before it is a flood */
    SW_RECORD_KEY_UPDATE_S = 10,
    SW_RECORD_EMPTY_MAX = 32, /* records without content in a row */
    SW_RECORD_REKEY_RECORDS = 1 << 23,
    SW_RECORD_TICKET_MAX = 140000, /* two 64 KiB vectors and change */
};
#define SW_RECORD_REKEY_BYTES (UINT64_C(1) << 36)

/* Alert descriptions of RFC 8446 section 6 that we send. */
enum sw_alert {
    SW_ALERT_CLOSE_NOTIFY = 0,
    SW_ALERT_UNEXPECTED_MESSAGE = 10,
    SW_ALERT_BAD_RECORD_MAC = 20,
    SW_ALERT_RECORD_OVERFLOW = 22,
    SW_ALERT_BAD_CERTIFICATE = 42,
    SW_ALERT_CERTIFICATE_REVOKED = 44,
    SW_ALERT_CERTIFICATE_EXPIRED = 45,
    SW_ALERT_ILLEGAL_PARAMETER = 47,
    SW_ALERT_UNKNOWN_CA = 48,
    SW_ALERT_ACCESS_DENIED = 49,
    SW_ALERT_DECODE_ERROR = 50,
    SW_ALERT_PROTOCOL_VERSION = 70,
    SW_ALERT_INTERNAL_ERROR = 80,
    SW_ALERT_USER_CANCELED = 90,
    SW_ALERT_NO_APPLICATION_PROTOCOL = 120,
};

struct sw_record_dir {
    uint8_t secret[SW_RECORD_SECRET_MAX];
    uint8_t key[SW_AEAD_KEY_MAX];
    uint8_t iv[SW_AEAD_NONCE];
    uint32_t gen;   /* keys used so far: tells expansions of old keys apart */
    uint64_t seq;   /* next record under this key */
    uint64_t bytes; /* ciphertext written under this key (sending only) */
};

struct sw_record {
    struct sw_record_dir rx;
    struct sw_record_dir tx;
    uint64_t id;         /* for sw_sched */
    uint64_t ku_from_ns; /* begin of the window ku_count counts in */
    uint32_t hs_left;    /* bytes of the handshake message still to come */
    uint16_t max_plain;
    uint8_t alg;
    uint8_t secret_len; /* 32 or 48: tells the hash too */
    uint8_t hs_head[4]; /* header of the handshake message being received */
    uint8_t hs_head_n;
    uint8_t ku_count;
    uint8_t empty_run;
    uint8_t alert;   /* to send after a failure; 0: none */
    uint8_t ku_send; /* 0: none pending, 1: KeyUpdate, 2: KeyUpdate with update_requested */
    bool server;
    bool rx_closed; /* close_notify received */
    bool tx_closed; /* close_notify or a fatal alert sent */
    bool dead;
};

struct sw_record_keys {
    enum sw_aead_alg alg;
    bool server;
    size_t secret_len; /* 32 or 48 */
    size_t max_plain;
    const uint8_t *rx_secret;
    const uint8_t *tx_secret;
    uint64_t rx_seq;
    uint64_t tx_seq;
};

/* Sets up from traffic secrets (copied). secret_len is 32 (SHA-256) or 48 (SHA-384). */
void sw_record_init(struct sw_record *r, const struct sw_record_keys *k);
/* Overwrites everything. */
void sw_record_done(struct sw_record *r);

/* Contracts as for sw_tls_open, _seal, _flush, _close_notify, _alert_for_err and _key_update. */
SW_NODISCARD int sw_record_open(struct sw_record *r, uint8_t *buf, size_t n, size_t *ret_used,
                                struct sw_slice *ret_plain, struct sw_err *err);
size_t sw_record_seal(struct sw_record *r, uint8_t *plain, size_t n, uint8_t *out);
size_t sw_record_flush(struct sw_record *r, uint8_t *out);
size_t sw_record_close_notify(struct sw_record *r, uint8_t *out);
size_t sw_record_alert(struct sw_record *r, const struct sw_err *err, uint8_t *out);
void sw_record_key_update(struct sw_record *r, bool request);

/* One record of any inner type with 'pad' zero bytes behind it: for tests, which play bad peers. */
size_t sw_record_seal_raw(struct sw_record *r, uint8_t type, const uint8_t *p, size_t n, size_t pad,
                          uint8_t *out);

/* True when a peer's alert means that it does not accept our certificate. */
bool sw_alert_is_refusal(unsigned alert);
/* "bad_certificate" and the like; "unknown" for the rest. */
const char *sw_alert_name(unsigned alert);

/*
 * HKDF-Expand-Label (RFC 8446 section 7.1) with a context that is a hash; the secret's length, 32
 * or 48, picks the hash. 0, or an error of GnuTLS.
 */
enum { SW_HKDF_LABEL_MAX = 64 };
SW_NODISCARD int sw_hkdf_expand_label(struct sw_slice secret, const char *label,
                                      struct sw_slice context, uint8_t *out, size_t n);
/* The same with an empty context, which cannot fail. */
void sw_hkdf_label(const uint8_t *secret, size_t secret_len, const char *label, uint8_t *out,
                   size_t n);
