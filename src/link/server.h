/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The external port. A server is one TLS connection of a peer, HTTP/2 or HTTP/1.1; an export is one
 * request on it: a heartbeat, a question for a token, or a tunnel to an exported service.
 */
#pragma once

#include "base/time.h"
#include "http/h1.h"
#include "link/link_int.h"
#include "tunnel/session.h"
#include "tunnel/tconn.h"

struct link_export;

enum {
    LINK_BODY_MAX = 64 << 10, /* of POST /authz */
    LINK_HEAD_MAX = 10 << 10, /* of a request */
};

struct link_server {
    struct sw_list link; /* worker->servers */
    struct link_worker *w;
    struct sw_addr addr;
    char peer[LINK_PEER_NAME]; /* first DNS name of its certificate */
    char fingerprint[65];      /* SHA-256 of the certificate, hex */
    char *certificate;         /* owned; PEM, percent-encoded; NULL unless the form asks for it */
    struct peer_load *load;    /* counted there; NULL: not yet */
    bool handshake;            /* TLS is not done */
    bool draining;
    struct sw_session *session; /* HTTP/2, and the handshake */
    /* HTTP/1.1 */
    struct sw_tconn *tconn;
    struct sw_h1 *h1;
    struct sw_timer timer; /* of a head, a body, or an idle connection */
    struct sw_buf body;
    struct link_export *current; /* request that waits for its answer, or the tunnel */
    bool keep_alive;
    bool body_wanted; /* the head was read, its body comes */
    bool finished;    /* the last answer is on its way */
    struct sw_defer reap;
};

/* What a request may be answered with. Slices live for the call. */
struct link_reply {
    unsigned status;
    struct sw_slice labels;        /* of a heartbeat */
    struct sw_slice authorization; /* "Bearer TOKEN" for the one who asked */
    struct sw_slice body;
};

struct link_export {
    struct link_conn conn; /* tunnels only */
    struct link_server *server;
    struct link_ask ask;
    bool tunnel;
    bool h2;
    struct sw_tstream stream; /* HTTP/2 */
    struct export_dial *dial; /* owned, while the service is dialled */
    struct sw_defer reap;
    struct sw_timer timer; /* HTTP/2: of the body */
    bool asked;            /* HTTP/2: the body is complete */
    bool over;
};

/* ---- server.c ---- */
/* Frees it when the loop comes round; the connection is closed already. */
void link_server_gone(struct link_server *s);

/* How long the body of POST /authz may take. */
#define LINK_BODY_NS (10 * SW_NS_PER_S)

/* ---- server_export.c: what a request means, whatever carried it ---- */

void link_export_init(struct link_export *e, struct link_server *s, bool tunnel);
/*
 * Which question a request is, without its authorization and its body; false: none, and *ret is the
 * answer to give, with its text in the buffer.
 */
bool link_export_question(const struct link_server *s, struct sw_slice method, struct sw_slice path,
                          struct link_question *q, struct link_reply *ret, struct sw_buf *text);
/* The question that the body of POST /authz is. */
struct link_question link_export_token(const struct link_server *s, struct sw_slice body);
/*
 * May a tunnel be asked for: does it show a token, and is there room for another one? False: that
 * is logged and counted, and *ret is the answer to give. Other questions may.
 */
bool link_export_ok(struct link_server *s, const struct link_question *q, struct link_reply *ret);
/* A request without a body, or with all of it. Answers with link_h*_reply, or joins. */
void link_export_ask(struct link_export *e, const struct link_question *q);
/* The peer is gone, or something else ends it. */
void link_export_end(struct link_export *e, const char *result, const char *why);
/* What carried it has ended; well: not by an error. */
void link_export_closed(struct link_export *e, bool well, const struct sw_err *err);
/* From the loop's deferred calls: after the end, once no stream uses it any more. */
void link_export_free(struct link_export *e);

/* ---- server_h1.c, server_h2.c ---- */
void link_h1_serve(struct link_server *s, struct sw_session_parts *parts);
void link_h1_reply(struct link_export *e, const struct link_reply *r);
void link_h1_connected(struct link_export *e, struct sw_dialled *dialled);
void link_h1_drain(struct link_server *s);
void link_h2_request(struct sw_session *session, int32_t id, const struct sw_h2_head *head);
void link_h2_reply(struct link_export *e, const struct link_reply *r);
void link_h2_connected(struct link_export *e, struct sw_dialled *dialled);
