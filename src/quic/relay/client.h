/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to one relay (iroh's protocol over WebSocket), kept up for ever: packets for other
 * nodes go in with their key, packets from them come out. The endpoint (quic.h) owns these.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"
#include "io/addr.h"
#include "io/loop.h"
#include "io/resolver.h"
#include "tls/cert/rawkey.h"

struct sw_relay_client;
struct sw_tls_cred;

struct sw_relay_client_ops {
    /* Packets of 'segment' bytes each, the last may be shorter; the buffer may be written to. */
    void (*packets)(void *arg, const struct sw_nodeid *from, uint8_t ecn, uint8_t *p, size_t n,
                    size_t segment);
    /* Authenticated and usable, or not any more; why is for the log. */
    void (*state)(void *arg, bool up, const char *why);
    /* The relay reports that this node is gone. May be NULL. */
    void (*gone)(void *arg, const struct sw_nodeid *id);
    /* Something was refused, and logged: reason is a counter label. May be NULL. */
    void (*refused)(void *arg, const char *reason);
};

/* Counter labels. */
#define SW_RELAY_REFUSED_LIST      "relay_not_listed"
#define SW_RELAY_REFUSED_TOKEN     "relay_token_withheld"
#define SW_RELAY_REFUSED_CHALLENGE "relay_challenge"

struct sw_relay_client_config {
    struct sw_slice url; /* http or https; the path is replaced */
    const struct sw_rawkey *key;
    struct sw_slice token; /* bearer; empty: none. Sent over TLS only */
    /*
     * Sign a challenge over TLS too, for a relay behind a proxy that ends TLS. Without it only the
     * proof bound to the TLS connection is given. Plain connections have nothing but challenges.
     */
    bool sign_over_tls;
    const char *ca_file;         /* NULL: the system's roots */
    uint64_t connect_timeout_ns; /* [10 s] */
    const struct sw_relay_client_ops *ops;
    void *arg;
};

/* NULL with SW_EINVAL when the URL is none. Connects from the loop. Everything is copied but key.
 */
SW_NODISCARD struct sw_relay_client *
sw_relay_client_new(struct sw_loop *l, const struct sw_relay_client_config *c, struct sw_err *err);
void sw_relay_client_free(struct sw_relay_client *c);
bool sw_relay_client_up(const struct sw_relay_client *c);
/* SW_OK: taken; SW_EAGAIN: not connected or the queue is full, dropped as UDP would. */
int sw_relay_client_send(struct sw_relay_client *c, const struct sw_nodeid *to, uint8_t ecn,
                         const uint8_t *p, size_t n, size_t segment);
/* Checks the connection now (the network changed, or after sleep). */
void sw_relay_client_probe(struct sw_relay_client *c);
/* Loop time of the last packet either way. */
uint64_t sw_relay_client_last_used(const struct sw_relay_client *c);

/* Where a relay answers address discovery, and how it proves itself there (quic/qad/qad.h). */
struct sw_relay_qad {
    struct sw_addr addrs[SW_RESOLVE_MAX]; /* of the relay's host, with the port */
    size_t n_addrs;
    const char *host;         /* this and the next two: as long as the client lives */
    struct sw_tls_cred *cred; /* NULL for http */
    const uint8_t *pin;       /* NULL: the certificate must be of 'cred' and for 'host' */
};
/*
 * False: not connected, or it offers none. A relay of ours sends port and pin in its answer to the
 * upgrade; of others with https, iroh's port is tried.
 */
bool sw_relay_client_qad(const struct sw_relay_client *c, struct sw_relay_qad *ret);
