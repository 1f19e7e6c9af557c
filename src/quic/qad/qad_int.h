/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What server and client of address discovery share: one connection, run by ngtcp2 0.12. No
 * streams, no socket: packets come in by sw_qadc_read and leave by ops->send.
 */
#pragma once

#include "io/loop.h"
#include "quic/qad/qad.h"
#include "quic/wire/frames.h"
#include "quic/wire/qad.h"

struct ngtcp2_cid;
struct ngtcp2_conn;
struct ngtcp2_path;
struct ngtcp2_path_storage;
struct ngtcp2_pkt_hd;
struct sw_qadc;
struct sw_qad_tls;

#define SW_QAD_ALPN "/iroh-qad/0"

enum {
    QAD_CID_LEN = 8,
    QAD_PACKET = 1200, /* the largest packet sent */
    QAD_WHY = sizeof(((struct sw_err *)0)->msg),
    QAD_CLOSE_FINISHED = 1,
    QAD_MOVES = 4, /* changes of address that a server follows; then the client connects again */
};

/* None of these is called from inside ngtcp2 but cid and cid_gone. */
struct sw_qadc_ops {
    void (*send)(struct sw_qadc *c, const struct sw_addr *to, const struct sw_ip *from,
                 const uint8_t *p, size_t n);
    /* The connection answers to one more, or one less, connection ID. False: it is taken. */
    bool (*cid)(struct sw_qadc *c, const uint8_t *p, size_t n);
    void (*cid_gone)(struct sw_qadc *c, const uint8_t *p, size_t n);
    /* Something happened: look at the fields below. Called last; may free the connection. */
    void (*news)(struct sw_qadc *c);
};

struct sw_qadc {
    struct sw_loop *loop;          /* borrowed */
    const struct sw_qadc_ops *ops; /* borrowed */
    struct ngtcp2_conn *nc;        /* owned */
    struct sw_qad_tls *tls;        /* owned; NULL once the handshake is done */
    struct sw_timer timer;
    bool server;
    bool through; /* the handshake, with its last message written */
    enum sw_qad_role peer_role;
    /* news */
    bool established;
    bool ended;  /* nothing follows; why says what happened */
    bool failed; /* ended, and not by CONNECTION_CLOSE of the peer or by silence */
    bool fresh;  /* client: 'observed' is new */
    struct sw_addr observed;
    uint64_t observed_seq; /* plus one; 0: none yet */
    char why[QAD_WHY];
    /*
     * What is to be sent: the newest report of a server, a PING of a client. ngtcp2 retransmits
     * neither, like DATAGRAM frames.
     */
    uint32_t seq; /* of the newest; 0: none yet */
    bool due;     /* to be sent, or sent again */
    bool unacked;
    uint8_t tries;
    uint64_t again_ns;       /* when it counts as lost */
    uint64_t ping_ns;        /* client: time of the next PING; 0: not planned */
    struct sw_addr reported; /* server */
    /* Server: paths that were left. ngtcp2 0.12 aborts the process when a client returns to one. */
    struct sw_qadc_place {
        struct sw_addr local;
        struct sw_addr remote;
    } left[QAD_MOVES];
    uint8_t n_left;
    /* To know the numbers of packets: the first key's, then those of updates, three at a time. */
    struct {
        const void *key;
        uint8_t iv[SW_QIV_LEN];
    } rx[4];
    uint8_t updates;
    struct sw_qacks acks;
};

/* What a client must see. */
struct sw_qadc_trust {
    const char *host;
    struct sw_tls_cred *cred;
    const uint8_t *pin;
};

/* ---- qad_new.c ---- */

/* Both: SW_OK, or SW_EINVAL; sw_qadc_done is needed in any case. */
SW_NODISCARD int sw_qadc_connect(struct sw_qadc *c, const struct sw_addr *to,
                                 const struct sw_qadc_trust *trust, uint64_t timeout_ns,
                                 struct sw_err *err);
struct sw_qadc_first {
    const struct ngtcp2_pkt_hd *hd;
    const struct ngtcp2_cid *odcid; /* what the client chose first */
    bool retried;
    struct sw_ip to; /* our address */
    uint16_t port;
    struct sw_addr from;
};
SW_NODISCARD int sw_qadc_accept(struct sw_qadc *c, const struct sw_qadc_first *first,
                                struct sw_tls_cred *cred, struct sw_err *err);
/* ngtcp2 reads a packet: 0, or what it returns. */
int sw_qadc_read_lib(struct sw_qadc *c, const struct ngtcp2_path *path, const uint8_t *p, size_t n);
/* A path as ngtcp2 has it. */
void sw_qadc_path(struct ngtcp2_path_storage *ret, const struct sw_addr *local,
                  const struct sw_addr *remote);

/* ---- qad_conn.c ---- */

/* local: the address it came to. Ends in ops->news. */
void sw_qadc_read(struct sw_qadc *c, const struct sw_addr *local, const struct sw_addr *from,
                  uint8_t *p, size_t n);
/* Sends what there is to send. Ends in ops->news when that failed. */
void sw_qadc_write(struct sw_qadc *c);
/* A PING now. */
void sw_qadc_ping(struct sw_qadc *c);
/* Sends CONNECTION_CLOSE, unless it ended already. */
void sw_qadc_close(struct sw_qadc *c);
void sw_qadc_done(struct sw_qadc *c);
uint64_t sw_qadc_rtt_ns(const struct sw_qadc *c);

/* ---- handshake_qad.c ---- */

/* cred: of a server, what it shows. trust: of a client. Lives as long as trust does. */
SW_NODISCARD int sw_qad_tls_start(struct sw_qadc *c, struct sw_tls_cred *cred,
                                  const struct sw_qadc_trust *trust, struct sw_err *err);
void sw_qad_tls_free(struct sw_qadc *c);
