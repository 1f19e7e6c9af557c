/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes of TLS records, for the record layer and for the buffers of its users. */
#pragma once

enum {
    SW_TLS_HEADER = 5,             /* bytes of a record's header */
    SW_TLS_PLAIN_MAX = 16384,      /* most plaintext in one record */
    SW_TLS_RECORD_MAX = 5 + 16640, /* largest record a peer may send, header included */
    SW_TLS_CTRL_ROOM = 128,        /* enough for every pending control record at once */
};
/* Bytes sw_tls_seal may write for n bytes of plaintext. */
#define SW_TLS_SEAL_ROOM(n) ((n) + SW_TLS_CTRL_ROOM)
