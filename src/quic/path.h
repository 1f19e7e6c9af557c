/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The paths of a connection, and what an endpoint knows of its own place: which way packets go, and
 * how two endpoints that meet on a relay come to a direct path.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "io/addr.h"
#include "quic/id/nodeid.h"

struct sw_qconn;
struct sw_quic;

enum sw_qpath {
    SW_QPATH_NONE, /* not decided yet */
    SW_QPATH_DIRECT,
    SW_QPATH_RELAY,
};

enum sw_qpath sw_qconn_path(const struct sw_qconn *c);
/* The peer's address on a direct path; family 0 on a relay. */
struct sw_addr sw_qconn_addr(const struct sw_qconn *c);
/* Why it stays on the relay, for people; empty: not known yet, or it is on a direct path. */
const char *sw_qconn_path_note(const struct sw_qconn *c);
/* Further addresses of a dialled peer, learnt later: tried when on a relay. */
void sw_qconn_more_addrs(struct sw_qconn *c, const struct sw_addr *addrs, size_t n);
/* The home relay: kept connected. Empty: none. */
void sw_quic_set_home_relay(struct sw_quic *q, struct sw_slice url);

enum {
    SW_QUIC_MAPPED_MAX = 6,
    SW_QUIC_PLACES_MAX = 32,
};

/* Our candidates: sent to peers of ours whose connections run through a relay. Copied. */
void sw_quic_set_candidates(struct sw_quic *q, const struct sw_addr *addrs, size_t n);
/* An address of a node that may dial us. */
struct sw_quic_place {
    struct sw_nodeid id;
    struct sw_addr addr;
};
/*
 * Lets their packets in through a NAT before us: each gets a small datagram every few seconds, and
 * says which address it sees. At most SW_QUIC_PLACES_MAX; loopback ones only with candidates there.
 */
void sw_quic_set_openings(struct sw_quic *q, const struct sw_quic_place *places, size_t n);
/* A relay saw us at this address; family 0: it does not say any more. */
void sw_quic_observed(struct sw_quic *q, const struct sw_addr *by, const struct sw_addr *at);
/* All addresses that others see us at. */
size_t sw_quic_mapped(const struct sw_quic *q, struct sw_addr ret[SW_QUIC_MAPPED_MAX]);
/* They differ by observer: a symmetric NAT. */
bool sw_quic_mapping_varies(const struct sw_quic *q, uint8_t family);
