/* SPDX-License-Identifier: Apache-2.0 */
/* A connection of the API load tool: sockets, TLS and answers. */
#include "api.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static gnutls_certificate_credentials_t cred;
static gnutls_priority_t priority;

uint64_t api_now_ns(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

_Noreturn void api_die(const char *text)
{
    int saved = errno;

    printf("{\"mode\":\"api\",\"error\":\"");
    for (const char *p = text; *p; p++)
        putchar(*p < ' ' || *p == '"' || *p == '\\' ? ' ' : *p);
    printf("\",\"errno\":%d}\n", saved);
    (void)fflush(stdout);
    _exit(2);
}

void api_tls_init(const struct api_target *t)
{
    if (!t->ca)
        return;
    if (gnutls_certificate_allocate_credentials(&cred) < 0 ||
        gnutls_certificate_set_x509_trust_file(cred, t->ca, GNUTLS_X509_FMT_PEM) < 1 ||
        gnutls_certificate_set_x509_key_file(cred, t->cert, t->key, GNUTLS_X509_FMT_PEM) < 0 ||
        gnutls_priority_init(
            &priority,
            "NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+GROUP-X25519:+SIGN-ECDSA-SECP256R1-SHA256:"
            "+CTYPE-X509",
            NULL) < 0)
        api_die("certificate files not usable");
}

static ssize_t pull(gnutls_transport_ptr_t p, void *to, size_t n)
{
    struct api_conn *c = p;

    return recv(c->fd, to, n, c->wait ? 0 : MSG_DONTWAIT);
}

static ssize_t push(gnutls_transport_ptr_t p, const void *from, size_t n)
{
    struct api_conn *c = p;

    return send(c->fd, from, n, MSG_NOSIGNAL);
}

static void handshake(struct api_conn *c)
{
    gnutls_session_t s;
    int rc;

    if (gnutls_init(&s, GNUTLS_CLIENT) < 0 || gnutls_priority_set(s, priority) < 0 ||
        gnutls_credentials_set(s, GNUTLS_CRD_CERTIFICATE, cred) < 0)
        api_die("no TLS session");
    c->tls = s;
    gnutls_session_set_verify_cert(s, "127.0.0.1", 0);
    gnutls_transport_set_ptr(s, c);
    gnutls_transport_set_pull_function(s, pull);
    gnutls_transport_set_push_function(s, push);
    c->wait = true;
    do
        rc = gnutls_handshake(s);
    while (rc < 0 && !gnutls_error_is_fatal(rc));
    c->wait = false;
    if (rc < 0)
        api_die(gnutls_strerror(rc));
}

void api_open(struct api_conn *c, const struct api_target *t)
{
    struct timeval tv = {.tv_sec = API_IO_TIMEOUT_S};
    int one = 1;

    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 || setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)) < 0 ||
        setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv)) < 0 ||
        setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)) < 0 ||
        connect(c->fd, (const struct sockaddr *)&t->to, sizeof(t->to)) < 0)
        api_die("connect");
    if (t->ca)
        handshake(c);
}

void api_close(struct api_conn *c)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};

    if (c->tls)
        gnutls_deinit(c->tls);
    (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    (void)close(c->fd);
}

void api_send(struct api_conn *c, const void *p, size_t n)
{
    const char *at = p;

    c->state = API_HEAD;
    c->head_n = c->keep_n = 0;
    c->body_n = 0;
    c->busy = true;
    c->sent_ns = api_now_ns();
    while (n) {
        ssize_t put = c->tls ? gnutls_record_send(c->tls, at, n) : send(c->fd, at, n, MSG_NOSIGNAL);

        if (put <= 0)
            api_die("request not sent");
        at += put;
        n -= (size_t)put;
    }
}

/* --- answers ---------------------------------------------------------------------------- */

static void count_marks(struct api_conn *c, const char *p, size_t n)
{
    const char *end = p + n;

    while (p < end) {
        if (c->mark_at == 0) {
            p = memchr(p, c->mark[0], (size_t)(end - p));
            if (!p)
                return;
        }
        c->mark_at = *p == c->mark[c->mark_at] ? c->mark_at + 1 : *p == c->mark[0];
        p++;
        if (!c->mark[c->mark_at]) {
            c->marks++;
            c->mark_at = 0;
        }
    }
}

static void body(struct api_conn *c, const char *p, size_t n)
{
    size_t keep = API_KEEP - 1 - c->keep_n < n ? API_KEEP - 1 - c->keep_n : n;

    memcpy(c->keep + c->keep_n, p, keep);
    c->keep_n += keep;
    c->keep[c->keep_n] = '\0';
    c->body_n += n;
    c->left -= n;
    if (c->mark)
        count_marks(c, p, n);
}

/* The head is complete: what follows. True: nothing. */
static bool on_head(struct api_conn *c)
{
    const char *length = strcasestr(c->head, "\ncontent-length:");

    if (sscanf(c->head, "HTTP/1.1 %d", &c->status) != 1)
        api_die("not an HTTP answer");
    c->head_n = 0;
    if (strcasestr(c->head, "\ntransfer-encoding: chunked")) {
        c->state = API_CHUNK_SIZE;
        return false;
    }
    c->left = length ? strtoull(length + 16, NULL, 10) : 0;
    c->state = API_LENGTH;
    return c->left == 0;
}

/* One line of a head, chunk size or trailer; returns 1 when c->head holds all of it. */
static int line(struct api_conn *c, char ch)
{
    if (c->head_n + 2 > sizeof(c->head))
        api_die("head too long");
    c->head[c->head_n++] = ch;
    c->head[c->head_n] = '\0';
    if (ch != '\n')
        return 0;
    return c->state != API_HEAD ||
           (c->head_n >= 4 && memcmp(c->head + c->head_n - 4, "\r\n\r\n", 4) == 0);
}

/* What follows a line. 1: the answer is complete. */
static int after_line(struct api_conn *c)
{
    bool empty = c->head_n <= 2;

    switch (c->state) {
    case API_HEAD:
        return on_head(c);
    case API_CHUNK_SIZE:
        c->left = strtoull(c->head, NULL, 16);
        c->state = c->left ? API_CHUNK : API_TRAILER;
        break;
    case API_CHUNK_END:
        c->state = API_CHUNK_SIZE;
        break;
    case API_TRAILER:
        c->head_n = 0;
        return empty;
    case API_LENGTH:
    case API_CHUNK:
        break;
    }
    c->head_n = 0;
    return 0;
}

static int feed(struct api_conn *c, const char *p, size_t n)
{
    while (n) {
        size_t take;

        if (c->state != API_LENGTH && c->state != API_CHUNK) {
            n--;
            if (line(c, *p++) && after_line(c))
                return 1;
            continue;
        }
        take = c->left < n ? (size_t)c->left : n;
        body(c, p, take);
        p += take;
        n -= take;
        if (c->left == 0 && c->state == API_LENGTH)
            return 1;
        if (c->left == 0)
            c->state = API_CHUNK_END;
    }
    return 0;
}

int api_recv(struct api_conn *c)
{
    static char buf[256 * 1024];

    for (;;) {
        ssize_t n = c->tls ? gnutls_record_recv(c->tls, buf, sizeof(buf))
                           : recv(c->fd, buf, sizeof(buf), MSG_DONTWAIT);

        if (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED ||
            (!c->tls && n < 0 && errno == EAGAIN))
            return 0;
        if (n <= 0)
            api_die(c->tls && n ? gnutls_strerror((int)n) : "connection closed by the server");
        if (feed(c, buf, (size_t)n)) {
            c->busy = false;
            if (c->status / 100 != 2)
                api_die(c->keep);
            return 1;
        }
    }
}
