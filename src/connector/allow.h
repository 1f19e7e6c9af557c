/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a device lets tunnels go: what ConnectorAdvertisements name, and what its owner allowed on
 * the command line. Everything else is refused, whatever the peer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/slice.h"
#include "base/vec.h"
#include "io/addr.h"

enum { SW_ALLOW_MAX = 8192, SW_ALLOW_HOST_MAX = 253 };

struct sw_allow_entry {
    struct sw_slice host; /* lower case, no final dot, without the "*." of a wildcard */
    struct sw_ip ip;      /* family 0: host is a name */
    bool wildcard;        /* any name below host; below nothing: any name */
    bool udp;
    uint16_t port;
    struct sw_slice from; /* the advertisement, or "--allow" */
};

/* A zeroed struct is an empty list, which allows nothing. */
struct sw_allow {
    struct sw_arena arena;
    SW_VEC(struct sw_allow_entry) entries;
};

void sw_allow_done(struct sw_allow *a);

/*
 * Adds an address or a DNS name, which may be "*" or begin with "*."; 'localhost' is 127.0.0.1.
 * SW_EINVAL: neither, or port 0; SW_ELIMIT: the list is full. Texts are copied.
 */
SW_NODISCARD int sw_allow_add(struct sw_allow *a, struct sw_slice host, uint16_t port, bool udp,
                              struct sw_slice from, struct sw_err *err);
/* "host:port", "[v6]:port", both with "/udp" or "/tcp" behind. SW_EINVAL, SW_ELIMIT. */
SW_NODISCARD int sw_allow_add_text(struct sw_allow *a, struct sw_slice text, struct sw_err *err);
/*
 * Every service of a ConnectorAdvertisement. Services that cannot be used are left out; returns how
 * many, with the reason of the last in err.
 */
SW_NODISCARD size_t sw_allow_add_advertisement(struct sw_allow *a, const struct sw_json *obj,
                                               struct sw_err *err);

/*
 * The entry that lets host:port through, one without a wildcard before others, or NULL. An address
 * matches its entry only, never a name that would resolve to it; '::1' and 'localhost' count as
 * 127.0.0.1.
 */
const struct sw_allow_entry *sw_allow_find(const struct sw_allow *a, struct sw_slice host,
                                           uint16_t port, bool udp);

/* "host:port" as an advertisement would say it, with "/udp" where it is; in the arena. */
const char *sw_allow_text(struct sw_arena *arena, const struct sw_allow_entry *e);
