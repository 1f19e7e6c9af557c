/* SPDX-License-Identifier: Apache-2.0 */
/*
 * QUIC address discovery (iroh's QAD): a node behind a NAT asks a relay, from the very socket it
 * uses for everything else, which address its packets come from. Server and client; both speak to
 * native iroh. See doc/decisions/0019-address-discovery.md.
 *
 * An endpoint makes a client per relay and address family (quic/path_seen_by.c). Each datagram that
 * comes from that address goes to sw_qad_client_packet before the endpoint's own connections see
 * it. The connection stays open: it is pinged every 25 s, so it keeps the NAT's mapping and notices
 * when that changes. Once ended, the owner makes another one after a pause of its choice.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/addr.h"
#include "io/loop.h"
#include "quic/wire/qad.h"

struct sw_tls_cred;

enum {
    SW_QAD_PORT = 7842, /* UDP, unless a relay names another */
};

/* The pin of the certificate a credential shows. SW_EINVAL: it has none. */
SW_NODISCARD int sw_qad_pin(const struct sw_tls_cred *cred, uint8_t ret[SW_QAD_PIN],
                            struct sw_err *err);

/* ---- client ---- */

struct sw_qad_client;

struct sw_qad_client_ops {
    /* Sends from the endpoint's own socket; it may be lost, as UDP may. */
    void (*send)(void *arg, const struct sw_addr *to, const uint8_t *p, size_t n);
    /* What the relay sees us as; never an IPv4-mapped address. May free the client. */
    void (*observed)(void *arg, const struct sw_addr *at);
    /* Last call, once. May free the client; nothing else is left to do with it. */
    void (*ended)(void *arg, const char *why);
};

struct sw_qad_client_config {
    struct sw_addr relay;
    const char *host;         /* of the relay's URL: must be in its certificate. Copied */
    struct sw_tls_cred *cred; /* the roots; a reference is taken. May be NULL with a pin */
    const uint8_t *pin;       /* SW_QAD_PIN bytes: exactly this certificate. NULL: roots and host */
    uint64_t timeout_ns;      /* until the first answer [3 s] */
    const struct sw_qad_client_ops *ops;
    void *arg;
};

/* The first packet is sent from the loop. NULL: SW_EINVAL, no TLS session can be made. */
SW_NODISCARD struct sw_qad_client *
sw_qad_client_new(struct sw_loop *l, const struct sw_qad_client_config *cfg, struct sw_err *err);
/* Closes as iroh does (application code 1, "finished"). Not ended. Accepts NULL. */
void sw_qad_client_free(struct sw_qad_client *c);
/*
 * A datagram the endpoint received. True: it was for this client and is used up; false: it is from
 * elsewhere or of another connection. May call observed and ended.
 */
bool sw_qad_client_packet(struct sw_qad_client *c, const struct sw_addr *from, uint8_t *p,
                          size_t n);
/* The network changed: queries again at once. */
void sw_qad_client_probe(struct sw_qad_client *c);
/* Smoothed round trip to the relay; 0: not known yet. */
uint64_t sw_qad_client_rtt_ns(const struct sw_qad_client *c);

/* ---- server ---- */

struct sw_qad_server;

/* Counter labels; each kind of refusal has its own. */
enum sw_qad_event {
    SW_QAD_INCOMING,    /* a handshake began */
    SW_QAD_ESTABLISHED, /* and is done */
    SW_QAD_FAILED,      /* a handshake or a connection ended by an error */
    SW_QAD_CLOSED,      /* an established connection is over */
    SW_QAD_RETRIED,     /* a client had to prove its address first */
    SW_QAD_REPORTED,    /* an address was observed: of a new connection, or of one that moved */
    SW_QAD_REFUSED,     /* too many connections, at all or of one address */
};

struct sw_qad_server_config {
    struct sw_addr listen;  /* [::] is IPv4 and IPv6 */
    const char *share;      /* port group (io/port.h); NULL: not shared. Borrowed */
    uint32_t max_conns;     /* [16384] */
    uint32_t max_half_open; /* handshakes under way before addresses must be proved [64] */
    uint32_t per_address;   /* new connections per second and address (IPv6: /64) [20] */
    /* May be NULL. why: for SW_QAD_REFUSED and SW_QAD_FAILED, to be logged by the caller. */
    void (*event)(void *arg, enum sw_qad_event e, const char *why);
    void *arg;
};

/* NULL: SW_ESYS, the port cannot be bound. Handshakes are dropped until a credential is set. */
SW_NODISCARD struct sw_qad_server *
sw_qad_server_new(struct sw_loop *l, const struct sw_qad_server_config *cfg, struct sw_err *err);
/* Closes the connections of all clients. Accepts NULL. */
void sw_qad_server_free(struct sw_qad_server *s);
/* What is shown from now on; the reference is taken over. */
void sw_qad_server_set_cred(struct sw_qad_server *s, struct sw_tls_cred *cred);
/* What the first socket is bound to. */
struct sw_addr sw_qad_server_bound(const struct sw_qad_server *s);
size_t sw_qad_server_conns(const struct sw_qad_server *s);
