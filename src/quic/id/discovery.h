/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a node is, by DNS: TXT records at _iroh.<z-base-32 of the NodeID>.<origin>, one per fact
 * ("relay=<url>", "addr=<ip:port>"). Nothing vouches for them but the handshake that follows.
 */
#pragma once

#include "dns/stub.h"
#include "quic/id/nodeid.h"

/* "_iroh.<z32>.<origin>". SW_EINVAL when origin is no name. */
SW_NODISCARD int sw_discovery_name(const struct sw_nodeid *id, struct sw_slice origin,
                                   struct sw_dns_name *ret, struct sw_err *err);
/*
 * Reads the records of a node, each with its strings joined. One without '=' or with an unknown
 * key makes the whole answer invalid, a value that is no URL or address is skipped, a value ends
 * at a second '=', the first relay counts. The target lives in the arena. SW_EPROTO: invalid, or
 * nothing usable in it.
 */
SW_NODISCARD int sw_discovery_parse(struct sw_arena *a, const struct sw_nodeid *id,
                                    const struct sw_slice *txt, size_t n,
                                    struct sw_quic_target *ret, struct sw_err *err);
/*
 * The records of a target: relay first, then addresses in order, doubles left out. A relay with '='
 * in it cannot be expressed and is left out. Returns how many; in the arena.
 */
size_t sw_discovery_write(struct sw_arena *a, const struct sw_quic_target *t,
                          struct sw_slice **ret_txt);

/* ---- asking ---- */

struct sw_discovery;

struct sw_discovery_result {
    int rc; /* SW_OK; SW_ENOENT: not published; SW_ETIME, SW_EPROTO, SW_ELIMIT */
    const struct sw_quic_target *target; /* with SW_OK; borrowed for the callback */
    struct sw_err err;
};
typedef void (*sw_discovery_cb)(void *arg, const struct sw_discovery_result *r);

/*
 * origin: where nodes are published. The callback always comes, later, from the stub's loop, unless
 * cancelled. Never NULL.
 */
struct sw_discovery *sw_discovery_start(struct sw_dns_stub *s, const struct sw_nodeid *id,
                                        const struct sw_dns_name *origin, sw_discovery_cb cb,
                                        void *arg);
/* No callback will come; only before it did. */
void sw_discovery_cancel(struct sw_discovery *d);
