/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last state from the control plane, as a file in the data directory: a device that starts
 * while the API is unreachable serves as before. It holds only what came from the API, never what
 * flags allow, and it is invalid for another key, another API or another namespace. Pure but for
 * load and store.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "connector/allow.h"
#include "connector/peers.h"

enum {
    SW_MEMO_VERSION = 1,
    SW_MEMO_MAX = 4 << 20,  /* bytes of the file */
    SW_MEMO_TEXT_MAX = 512, /* of each text but destinations */
};

/* A zeroed struct is empty and allows nothing. */
struct sw_memo {
    struct sw_arena arena; /* of the texts, when it was parsed */
    struct sw_nodeid id;
    struct sw_slice server;
    struct sw_slice ns;
    struct sw_slice connector;
    struct sw_slice relay; /* empty: none */
    uint16_t ports[2]; /* of our sockets: gateways know them as long as the API is unreachable */
    size_t n_ports;
    struct sw_peers gateways;
    struct sw_allow allow;
};

void sw_memo_done(struct sw_memo *m);

/* Appends the text of the file; entries of 'allow' before the first_allow-th are left out. */
SW_NODISCARD int sw_memo_write(const struct sw_memo *m, size_t first_allow, struct sw_buf *out);
/*
 * The reverse. Refuses everything that sw_memo_write would not have written: another version, a
 * wrong sum, unknown or missing members, an entry that cannot be used. SW_EINVAL, SW_ELIMIT; *ret
 * is empty then.
 */
SW_NODISCARD int sw_memo_parse(struct sw_slice text, struct sw_memo *ret, struct sw_err *err);
/* The same for the text behind the first line, which has version and sum. */
SW_NODISCARD int sw_memo_parse_body(struct sw_slice body, struct sw_memo *ret, struct sw_err *err);

/*
 * Reads the file and refuses one that is not ours alone to write. SW_ENOENT: there is none; else as
 * sw_memo_parse, or SW_EDENIED, SW_ESYS.
 */
SW_NODISCARD int sw_memo_load(const char *path, struct sw_memo *ret, struct sw_err *err);
