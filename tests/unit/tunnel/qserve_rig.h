/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the device half share on top of qrig.h: an origin behind it, requests for that
 * origin, and UDP. All inline: the clock of rig.h belongs to the file that includes it.
 */
#pragma once

#include "io/dgram.h"
#include "qrig.h"

struct origin {
    struct sw_addr at;
    int listener;
    int fd;
};

static inline void origin_open(struct origin *o)
{
    o->listener = tcp_listener(&o->at);
    o->fd = -1;
}

static inline void origin_accept(struct qrig *r, struct origin *o)
{
    struct sw_err err = {0};

    RUN_UNTIL(r->loop, sw_sock_accept(o->listener, &o->fd, NULL, &err) == SW_OK);
}

static inline void origin_done(struct origin *o)
{
    sw_sock_close(o->listener);
    sw_sock_close(o->fd);
}

static inline void origin_say(const struct origin *o, const char *s)
{
    assert_int_equal(write(o->fd, s, strlen(s)), strlen(s));
}

/* A rig that runs, with an origin behind its device. */
static inline struct qrig *served(struct origin *o)
{
    struct qrig *r = qrig_new();

    qrig_start(r);
    origin_open(o);
    return r;
}

static inline void served_done(struct qrig *r, struct origin *o, struct call *c)
{
    call_free(c);
    origin_done(o);
    qrig_free(r);
}

/* A request for "/p" with these further lines. */
static inline struct call *request(struct qrig *r, const struct origin *o, const char *method,
                                   const char *lines)
{
    char head[1024];

    (void)snprintf(head, sizeof(head),
                   "%s http://127.0.0.1:%u/p?q=1 HTTP/1.1\r\nhost: 127.0.0.1:%u\r\n%s\r\n", method,
                   o->at.port, o->at.port, lines);
    return call_text(r, 1, head);
}

static inline struct call *udp_call(struct qrig *r, const struct sw_addr *to, bool datagrams)
{
    SW_BUF_AUTO head = {.max = 1024};
    char ip[SW_IP_TEXT];

    assert_int_equal(
        sw_qhead_put_udp(&head, sw_slice_str(sw_ip_text(&to->ip, ip)), to->port, datagrams), SW_OK);
    return call_raw(r, 1, sw_buf_slice(&head), "GET");
}

static inline int udp_socket(struct sw_addr *ret)
{
    struct sw_addr at = {.ip = {.family = 4, .b = {127, 0, 0, 1}}};
    struct sw_err err = {0};
    int fd;

    assert_int_equal(sw_dgram_bind(&at, NULL, &fd, &err), SW_OK);
    *ret = sw_sock_local(fd);
    return fd;
}
