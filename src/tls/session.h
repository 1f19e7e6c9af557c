/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a connection, for the files of this directory. */
#pragma once

#include <stdint.h>

#include "tls/record.h"
#include "tls/tls.h"

struct sw_tls_lib;

/* Kept small: this is all an idle connection costs, besides its share of the peer. */
struct sw_tls {
    struct sw_record rec;
    const struct sw_tls_peer *peer; /* a reference; NULL before the handshake ended */
    struct sw_tls_lib *lib;         /* owned: GnuTLS's side, NULL once the records are ours */
    char alpn[16];
    bool up; /* handshake ended well */
};

/* The same as the calls of tls.h, for a connection whose records stay with GnuTLS. */
int sw_lib_open(struct sw_tls *t, uint8_t *buf, size_t n, size_t *ret_used,
                struct sw_slice *ret_plain, struct sw_err *err);
size_t sw_lib_seal(struct sw_tls *t, const uint8_t *plain, size_t n, uint8_t *out);
size_t sw_lib_close_notify(struct sw_tls *t, uint8_t *out);
size_t sw_lib_alert(struct sw_tls *t, const struct sw_err *err, uint8_t *out);
const char *sw_lib_cipher(const struct sw_tls *t);
void sw_lib_free(struct sw_tls_lib *l);
