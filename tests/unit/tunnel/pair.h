/* SPDX-License-Identifier: Apache-2.0 */
/* A client session and a server session joined by a socket pair, and tunnels between them. */
#pragma once

#include "rig.h"

enum { TUNS = 256 };

struct tun {
    struct sw_tstream stream;
    int app; /* the local application's end; -1 before the relay */
    unsigned status;
    int done;
    int rc;
    bool tcp;            /* the local connection is TCP, so that resets show */
    struct tun *give_up; /* whom, as soon as it hears that bytes reached the local connection */
    size_t up;
    size_t down;
    struct sw_err err;
};

struct pair {
    struct sw_loop *loop;
    struct creds creds;
    struct sw_session_config config;  /* the server's */
    struct sw_session_config cconfig; /* the client's */
    struct sw_session *client;
    struct sw_session *server;
    bool client_ready;
    bool server_ready;
    int client_closed;
    int server_closed;
    int client_rc;
    int server_rc;
    bool client_handshaken;
    int rooms;
    int goaways;
    struct sw_err client_err;
    struct sw_err server_err;
    /* What the server does with requests: 0 accept, 1 hold, else this status. */
    unsigned answer;
    bool close_on_request;
    bool tcp;
    struct tun c[TUNS];
    struct tun s[TUNS];
    size_t nc;
    size_t ns;
};

static inline void tun_moved(struct sw_tstream *t, size_t up, size_t down)
{
    struct tun *x = SW_CONTAINER_OF(t, struct tun, stream);

    x->up += up;
    x->down += down;
    if (x->give_up && down)
        sw_tstream_abort(&x->give_up->stream, SW_H2_CONNECT_ERROR);
}

static inline void tun_done(struct sw_tstream *t, int rc, const struct sw_err *err)
{
    struct tun *x = SW_CONTAINER_OF(t, struct tun, stream);

    x->done++;
    x->rc = rc;
    if (err)
        x->err = *err;
}

static inline void tun_relay(struct tun *x)
{
    int fds[2];

    if (x->tcp)
        tcp_pair(fds);
    else
        unix_pair(fds);
    x->app = fds[0];
    sw_tstream_relay(&x->stream, fds[1]);
}

static inline void tun_response(struct sw_tstream *t, const struct sw_h2_head *head)
{
    struct tun *x = SW_CONTAINER_OF(t, struct tun, stream);

    x->status = head->status;
    if (head->status == 200)
        tun_relay(x);
}

static const struct sw_tstream_ops tun_ops = {
    .on_response = tun_response,
    .on_moved = tun_moved,
    .on_done = tun_done,
};

static inline struct pair *pair_of(struct sw_session *s)
{
    return sw_session_owner(s);
}

static inline void client_ready(struct sw_session *s)
{
    pair_of(s)->client_ready = true;
}

static inline void server_ready(struct sw_session *s)
{
    pair_of(s)->server_ready = true;
}

static inline void client_request(struct sw_session *s, int32_t id, const struct sw_h2_head *head)
{
    (void)s;
    (void)id;
    (void)head;
    fail_msg("a client was asked");
}

static inline void tun_accept(struct tun *x)
{
    static const struct sw_h2_header extra = {SW_SLICE_LIT("baggage"), SW_SLICE_LIT("a=b")};

    sw_tstream_accept(&x->stream, &extra, 1);
    tun_relay(x);
}

static inline void server_request(struct sw_session *s, int32_t id, const struct sw_h2_head *head)
{
    struct pair *p = pair_of(s);
    struct tun *x;

    if (p->close_on_request) {
        sw_session_close(s, SW_EDENIED, NULL);
        return;
    }
    if (p->answer > 1 || p->ns == TUNS) {
        sw_session_refuse(s, id, p->answer);
        return;
    }
    assert_true(sw_slice_eq_str(head->method, "CONNECT"));
    x = &p->s[p->ns++];
    *x = (struct tun){.app = -1, .tcp = p->tcp};
    sw_tstream_attach(s, id, &x->stream, &tun_ops);
    if (p->answer == 0)
        tun_accept(x);
}

static inline void client_room(struct sw_session *s)
{
    pair_of(s)->rooms++;
}

static inline void client_goaway(struct sw_session *s)
{
    pair_of(s)->goaways++;
}

static inline void client_closed(struct sw_session *s, int rc, const struct sw_err *err,
                                 bool handshaken)
{
    struct pair *p = pair_of(s);

    p->client_closed++;
    p->client_rc = rc;
    p->client_err = *err;
    p->client_handshaken = handshaken;
    p->client = NULL;
}

static inline void server_closed(struct sw_session *s, int rc, const struct sw_err *err,
                                 bool handshaken)
{
    struct pair *p = pair_of(s);

    (void)handshaken;
    p->server_closed++;
    p->server_rc = rc;
    p->server_err = *err;
    p->server = NULL;
}

static const struct sw_session_ops client_ops = {
    .on_ready = client_ready,
    .on_request = client_request,
    .on_room = client_room,
    .on_goaway = client_goaway,
    .on_closed = client_closed,
};

static const struct sw_session_ops server_ops = {
    .on_ready = server_ready,
    .on_request = server_request,
    .on_closed = server_closed,
};

static inline struct pair *pair_new(void)
{
    struct pair *p = SW_NEW(struct pair);

    p->loop = rig_loop();
    creds_make(&p->creds);
    p->config = rig_config();
    p->cconfig = rig_config();
    return p;
}

static inline void pair_serve(struct pair *p, int fd)
{
    struct sw_tls_params sp = {.server = true, .cred = p->creds.server, .alpn = "h2"};
    struct sw_err err = {0};

    p->server = sw_session_new(p->loop, fd,
                               &(struct sw_session_setup){&sp, &p->config, &server_ops, p}, &err);
    assert_non_null(p->server);
}

static inline void pair_connect(struct pair *p, int fd)
{
    static const struct sw_slice expected = SW_SLICE_LIT(SERVER_ID);
    struct sw_tls_params cp = {
        .cred = p->creds.client, .alpn = "h2", .expect = &expected, .n_expect = 1};
    struct sw_err err = {0};

    p->client = sw_session_new(p->loop, fd,
                               &(struct sw_session_setup){&cp, &p->cconfig, &client_ops, p}, &err);
    assert_non_null(p->client);
}

/* Both sessions, ready, over TCP or a Unix pair. */
static inline struct pair *pair_open(struct pair *p)
{
    int fds[2];

    if (p->tcp)
        tcp_pair(fds);
    else
        unix_pair(fds);
    pair_serve(p, fds[1]);
    pair_connect(p, fds[0]);
    RUN_UNTIL(p->loop, p->client_ready && p->server_ready);
    return p;
}

static inline struct pair *pair_start(void)
{
    return pair_open(pair_new());
}

/* Sends a CONNECT and waits for nothing. */
static inline struct tun *pair_request(struct pair *p)
{
    static const struct sw_h2_header f[] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("CONNECT")},
        {SW_SLICE_LIT(":authority"), SW_SLICE_LIT("10.0.0.1:80")},
    };
    struct tun *x = &p->c[p->nc++];

    assert_true(p->nc <= TUNS);
    *x = (struct tun){.app = -1, .tcp = p->tcp};
    assert_int_equal(sw_tstream_open(p->client, &x->stream, &tun_ops, f, SW_ARRAY_LEN(f), &x->err),
                     SW_OK);
    return x;
}

/* An open tunnel; the server's end is p->s[p->ns - 1]. */
static inline struct tun *pair_tunnel(struct pair *p)
{
    size_t before = p->ns;
    struct tun *x = pair_request(p);

    RUN_UNTIL(p->loop, x->status || x->done);
    assert_int_equal(x->status, 200);
    assert_int_equal(p->ns, before + 1);
    return x;
}

static inline void pair_done(struct pair *p)
{
    if (p->client)
        sw_session_close(p->client, SW_OK, NULL);
    if (p->server)
        sw_session_close(p->server, SW_OK, NULL);
    rig_settle(p->loop);
    assert_null(p->client);
    assert_null(p->server);
    for (size_t i = 0; i < p->nc; i++) {
        assert_null(p->c[i].stream.session);
        sw_sock_close(p->c[i].app);
    }
    for (size_t i = 0; i < p->ns; i++) {
        assert_null(p->s[i].stream.session);
        sw_sock_close(p->s[i].app);
    }
    creds_done(&p->creds);
    rig_loop_done(p->loop);
    sw_free(p);
}
