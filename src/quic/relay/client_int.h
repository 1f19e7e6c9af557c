/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the relay client share. Not for others. */
#pragma once

#include "base/backoff.h"
#include "http/h1.h"
#include "http/ws/wsconn.h"
#include "io/addr.h"
#include "io/resolver.h"
#include "quic/qad/qad.h"
#include "quic/relay/client.h"
#include "quic/wire/relay.h"
#include "quic/wire/relay_url.h"

struct rc_link;
struct sw_tls_cred;

enum rc_state {
    RC_WAIT,    /* for the next attempt */
    RC_RESOLVE, /* the name */
    RC_CONNECT, /* TCP and TLS */
    RC_UPGRADE, /* the request is sent */
    RC_AUTH,    /* WebSocket; our key is not proved yet */
    RC_UP,
};

struct sw_relay_client {
    struct sw_loop *loop;        /* borrowed */
    const struct sw_rawkey *key; /* borrowed */
    const struct sw_relay_client_ops *ops;
    void *arg;
    struct sw_relay_url url;
    char *token;           /* NULL: none, or withheld */
    bool sign_over_tls;    /* see sw_relay_client_config */
    bool challenge_logged; /* the refusal of a challenge was logged */
    struct sw_tls_cred *cred;
    uint16_t qad_port; /* from the upgrade's response; 0: absent or invalid */
    bool qad_pinned;
    bool qad_offered; /* the upgrade's response had the field */
    uint8_t qad_pin[SW_QAD_PIN];
    uint64_t connect_timeout_ns;

    enum rc_state state;
    struct sw_backoff backoff; /* since it was last of use */
    struct sw_resolve *resolve;
    struct sw_addr addrs[SW_RESOLVE_MAX];
    size_t n_addrs;
    size_t at_addr;
    struct rc_link *link;
    struct sw_timer deadline; /* of an attempt as a whole; RC_WAIT: its end */
    struct sw_timer tick;     /* of one address; when up: the next ping, or the end of waiting */
    uint64_t up_ns;           /* since when it is up */
    uint64_t rx_ns;           /* last message */
    uint64_t used_ns;         /* last packet either way */
    uint64_t ping_ns;         /* when the ping that is not answered yet was sent; 0: none */
    uint64_t rtt_ns;          /* 0: not known */
    uint64_t restart_ns;      /* restart delay that the relay requested; 0: none */
    uint8_t ping[SW_RELAY_PING_LEN];
    bool pinged; /* a pong came on this connection */
};

/* One connection. Outlives the client's interest by a turn of the loop. */
struct rc_link {
    struct sw_wsconn ws;
    struct sw_relay_client *client; /* NULL: given up */
    struct sw_h1 *h1;               /* until the upgrade */
    char key[SW_WS_KEY];
    unsigned version;
};

/* ---- client_dial.c ---- */

/* What is trusted with https. */
SW_NODISCARD int rc_set_roots(struct sw_relay_client *c, const char *ca_file, struct sw_err *err);
/* Begins an attempt; ends in rc_upgraded or rc_lost. */
void rc_dial(struct sw_relay_client *c);
/* Drops connection and question. */
void rc_hang_up(struct sw_relay_client *c);

/* ---- client.c ---- */
void rc_upgraded(struct sw_relay_client *c);
void rc_message(struct sw_relay_client *c, uint8_t *p, size_t n);
/* The connection or the attempt is over: another one follows. */
void rc_lost(struct sw_relay_client *c, const char *why);
