/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/health/tls.h"

#include <string.h>

#include "base/mem.h"
#include "gateway/config/tls.h"
#include "io/sock.h"
#include "tls/tls.h"

enum { RAW_MAX = 128 * 1024 };

struct sw_gw_check_tls {
    struct sw_tls *tls;
    int fd;
    bool open;
    struct sw_buf raw; /* received, not opened yet */
};

/* Little is said in a check: a socket that does not take it at once is as good as dead. */
static int send_all(const struct sw_gw_check_tls *t, const void *p, size_t n, struct sw_err *err)
{
    if (n && sw_sock_write(t->fd, p, n) != (ssize_t)n)
        return sw_err_set(err, SW_ECLOSED, "cannot send");
    return SW_OK;
}

static int shake(struct sw_gw_check_tls *t, struct sw_err *err)
{
    SW_BUF_AUTO out = {0};
    size_t used = 0;
    int sent;
    int rc;

    sw_buf_init(&out, SW_TLS_HANDSHAKE_OUT_MAX);
    rc = sw_tls_handshake(t->tls, sw_buf_slice(&t->raw), &used, &out, err);
    sw_buf_consume(&t->raw, used);
    if (rc != SW_OK && rc != SW_EAGAIN) {
        (void)!sw_sock_write(t->fd, sw_buf_slice(&out).p, sw_buf_len(&out)); /* the alert */
        return rc;
    }
    sent = send_all(t, sw_buf_slice(&out).p, sw_buf_len(&out), err);
    t->open = rc == SW_OK;
    return sent == SW_OK ? rc : sent;
}

static int open_records(struct sw_gw_check_tls *t, struct sw_buf *plain, struct sw_err *err)
{
    for (;;) {
        struct sw_slice in = sw_buf_slice(&t->raw);
        struct sw_slice said = {0};
        size_t used = 0;
        int rc = sw_tls_open(t->tls, (uint8_t *)(uintptr_t)in.p, in.n, &used, &said, err);

        if (rc != SW_OK)
            return rc == SW_EOF ? sw_err_set(err, SW_EOF, "connection closed") : rc;
        if (said.n && sw_buf_append_slice(plain, said) != SW_OK)
            return sw_err_set(err, SW_ELIMIT, "answer too long");
        sw_buf_consume(&t->raw, used);
        if (!sw_buf_len(&t->raw))
            return SW_EAGAIN;
    }
}

struct sw_gw_check_tls *sw_gw_check_tls_new(const struct sw_gw_tls_want *want, int fd,
                                            struct sw_err *err)
{
    struct sw_gw_check_tls *t = SW_NEW(struct sw_gw_check_tls);
    struct sw_tls_params p = {0};
    int rc;

    sw_gw_tls_client_params(want, &p);
    t->fd = fd;
    sw_buf_init(&t->raw, RAW_MAX);
    t->tls = sw_tls_new(&p, err);
    rc = t->tls ? shake(t, err) : err->rc;
    if (rc == SW_EAGAIN)
        return t;
    sw_gw_check_tls_free(t);
    return NULL;
}

void sw_gw_check_tls_free(struct sw_gw_check_tls *t)
{
    if (!t)
        return;
    sw_tls_free(t->tls);
    sw_buf_done(&t->raw);
    sw_free(t);
}

bool sw_gw_check_tls_open(const struct sw_gw_check_tls *t)
{
    return t->open;
}

int sw_gw_check_tls_read(struct sw_gw_check_tls *t, struct sw_buf *plain, struct sw_err *err)
{
    char buf[4096];

    for (;;) {
        ssize_t n = sw_sock_read(t->fd, buf, sizeof(buf));
        int rc;

        if (n == SW_EAGAIN)
            return SW_EAGAIN;
        if (n <= 0)
            return sw_err_set(err, SW_EOF, "connection closed");
        if (sw_buf_append(&t->raw, buf, (size_t)n) != SW_OK)
            return sw_err_set(err, SW_ELIMIT, "answer too long");
        rc = t->open ? SW_OK : shake(t, err);
        if (rc == SW_OK && sw_buf_len(&t->raw))
            rc = open_records(t, plain, err);
        if (rc != SW_OK && rc != SW_EAGAIN)
            return rc;
    }
}

int sw_gw_check_tls_write(struct sw_gw_check_tls *t, struct sw_slice data, struct sw_err *err)
{
    uint8_t *plain SW_AUTO_FREE = NULL;
    uint8_t *out SW_AUTO_FREE = NULL;
    size_t n;

    if (data.n > sw_tls_max_plain(t->tls))
        return sw_err_set(err, SW_ELIMIT, "too much to send");
    plain = sw_calloc(1, data.n + 1); /* sealing wants a byte behind */
    out = sw_calloc(1, SW_TLS_SEAL_ROOM(data.n));
    memcpy(plain, data.p, data.n);
    n = sw_tls_seal(t->tls, plain, data.n, out);
    return n ? send_all(t, out, n, err) : sw_err_set(err, SW_ECLOSED, "cannot send");
}
