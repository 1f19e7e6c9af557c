/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Speaks TLS on standard input and output (which the test makes a connected socket) so that other
 * implementations can be tried against ours. Usage:
 *   tls_driver client|server CHAIN KEY ROOTS [expect=URI] [tls12] [chacha] [rekey=N] [send=BYTES]
 * Both roles echo what they receive; send=N makes us talk first, wait for N bytes back and compare.
 * With rekey=N we ask for new keys every N records. The end is reported on standard error in one
 * line.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "tls/cert/pemfile.h"
#include "tls/tls.h"
#include "tls/tls_int.h"

struct driver {
    struct sw_tls *t;
    struct sw_buf in;
    unsigned rekey;
    unsigned records;
    size_t to_send;  /* bytes we still have to say */
    size_t sent;     /* of the pattern */
    size_t received; /* of the pattern */
    size_t total;    /* length of the pattern; 0: echo */
};

static int finish(const struct driver *d, int rc, const struct sw_err *err)
{
    const struct sw_tls_peer *p = d->t ? sw_tls_peer(d->t) : NULL;
    struct sw_slice id = p && p->n_ids ? p->ids[0].uri : SW_SLICE_LIT("-");

    (void)fprintf(stderr,
                  "%s peer=%.*s cipher=%s alpn=%s max=%zu rx_keys=%u tx_keys=%u got=%zu %s\n",
                  sw_rc_name(rc), SW_SLICE_ARG(id), d->t ? sw_tls_cipher(d->t) : "-",
                  d->t ? sw_tls_alpn(d->t) : "-", d->t ? sw_tls_max_plain(d->t) : 0,
                  d->t ? d->t->rec.rx.gen : 0, d->t ? d->t->rec.tx.gen : 0, d->received,
                  rc == SW_OK || rc == SW_EOF ? "" : err->msg);
    return rc == SW_OK || rc == SW_EOF ? 0 : 1;
}

static bool write_all(const void *p, size_t n)
{
    const char *at = p;

    while (n > 0) {
        ssize_t w = write(1, at, n);

        if (w <= 0)
            return false;
        at += w;
        n -= (size_t)w;
    }
    return true;
}

static bool read_some(struct driver *d)
{
    char *to = sw_buf_reserve(&d->in, 65536);
    ssize_t n = to ? read(0, to, 65536) : -1;

    if (n > 0)
        sw_buf_commit(&d->in, (size_t)n);
    return n > 0;
}

static int handshake(struct driver *d, struct sw_err *err)
{
    int rc;

    do {
        SW_BUF_AUTO out = {.max = 1 << 20};
        size_t used;

        rc = sw_tls_handshake(d->t, sw_buf_slice(&d->in), &used, &out, err);
        sw_buf_consume(&d->in, used);
        if (!write_all(sw_buf_slice(&out).p, sw_buf_len(&out)))
            return sw_err_set(err, SW_ECLOSED, "cannot write");
        if (rc == SW_EAGAIN && !read_some(d))
            return sw_err_set(err, SW_ECLOSED, "peer is gone");
    } while (rc == SW_EAGAIN);
    return rc;
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 31 + (i >> 8) * 7);
}

static bool say(struct driver *d, uint8_t *plain, size_t n)
{
    static uint8_t wire[SW_TLS_SEAL_ROOM(SW_TLS_PLAIN_MAX)];

    if (d->rekey && ++d->records % d->rekey == 0)
        sw_tls_key_update(d->t, true);
    return write_all(wire, sw_tls_seal(d->t, plain, n, wire));
}

static bool say_pattern(struct driver *d)
{
    static uint8_t plain[SW_TLS_PLAIN_MAX + 1];
    size_t n = sw_min(sw_min(d->to_send, 5000 + d->sent % 9000), sw_tls_max_plain(d->t));

    for (size_t i = 0; i < n; i++)
        plain[i] = pattern(d->sent + i);
    d->sent += n;
    d->to_send -= n;
    return n == 0 || say(d, plain, n);
}

/* One record's worth: echo it, or compare it with the pattern. */
static int take(struct driver *d, struct sw_slice got, struct sw_err *err)
{
    static uint8_t plain[SW_TLS_PLAIN_MAX + 1];

    for (size_t i = 0; d->total && i < got.n; i++) {
        if ((uint8_t)got.p[i] != pattern(d->received + i))
            return sw_err_set(err, SW_EPROTO, "wrong byte at %zu", d->received + i);
    }
    d->received += got.n;
    while (!d->total && got.n > 0) {
        size_t n = sw_min(got.n, sw_tls_max_plain(d->t));

        memcpy(plain, got.p, n);
        if (!say(d, plain, n))
            return sw_err_set(err, SW_ECLOSED, "cannot write");
        got = sw_slice_from(got, n);
    }
    return SW_OK;
}

static int exchange(struct driver *d, struct sw_err *err)
{
    uint8_t ctrl[SW_TLS_CTRL_ROOM];

    for (;;) {
        struct sw_slice got;
        size_t used;
        struct sw_slice in = sw_buf_slice(&d->in);
        int rc = sw_tls_open(d->t, (uint8_t *)(uintptr_t)in.p, in.n, &used, &got, err);

        if (rc == SW_OK)
            rc = take(d, got, err);
        if (rc == SW_EAGAIN) {
            (void)write_all(ctrl, sw_tls_flush(d->t, ctrl, sizeof(ctrl)));
            if (!say_pattern(d) || !read_some(d))
                return sw_err_set(err, SW_ECLOSED, "peer is gone without close_notify");
            continue;
        }
        if (rc != SW_OK && rc != SW_EOF) {
            (void)write_all(ctrl, sw_tls_alert_for_err(d->t, err, ctrl, sizeof(ctrl)));
            return rc;
        }
        sw_buf_consume(&d->in, used);
        if (rc == SW_EOF || (d->total && d->received == d->total)) {
            (void)write_all(ctrl, sw_tls_close_notify(d->t, ctrl, sizeof(ctrl)));
            return rc;
        }
    }
}

static struct sw_tls_cred *load(char **argv, struct sw_err *err)
{
    struct sw_buf pem[3];
    struct sw_tls_cred *c = NULL;
    int rc = SW_OK;

    for (int i = 0; i < 3; i++) {
        sw_buf_init(&pem[i], SW_TLS_PEM_MAX);
        if (rc == SW_OK)
            rc = sw_pemfile_read(argv[i], &pem[i], err);
    }
    if (rc == SW_OK)
        c = sw_tls_cred_new(&(struct sw_tls_cred_pem){.chain = sw_buf_slice(&pem[0]),
                                                      .key = sw_buf_slice(&pem[1]),
                                                      .roots = sw_buf_slice(&pem[2])},
                            err);
    for (int i = 0; i < 3; i++)
        sw_buf_done(&pem[i]);
    return c;
}

int main(int argc, char **argv)
{
    struct sw_tls_params p = {.alpn = "h2", .alpn_optional = true};
    struct driver d = {0};
    struct sw_slice expect = {0};
    struct sw_err err = {0};
    int rc;

    if (argc < 5)
        return 2;
    sw_buf_init(&d.in, 1 << 20);
    p.server = strcmp(argv[1], "server") == 0;
    p.cred = load(argv + 2, &err);
    if (!p.cred)
        return finish(&d, err.rc, &err);
    for (int i = 5; i < argc; i++) {
        struct sw_slice value = sw_slice_str(argv[i]);
        struct sw_slice name = sw_slice_cut(&value, '=');

        p.tls12 = p.tls12 || sw_slice_eq_str(name, "tls12");
        p.chacha = p.chacha || sw_slice_eq_str(name, "chacha");
        if (sw_slice_eq_str(name, "expect"))
            expect = value;
        else if (sw_slice_eq_str(name, "rekey"))
            d.rekey = (unsigned)strtoul(value.p, NULL, 10);
        else if (sw_slice_eq_str(name, "send"))
            d.to_send = d.total = strtoul(value.p, NULL, 10);
    }
    p.expect = &expect;
    p.n_expect = expect.n > 0;
    d.t = sw_tls_new(&p, &err);
    rc = d.t ? handshake(&d, &err) : err.rc;
    if (rc == SW_OK)
        rc = exchange(&d, &err);
    rc = finish(&d, rc, &err);
    sw_tls_free(d.t);
    sw_tls_cred_unref(p.cred);
    sw_buf_done(&d.in);
    return rc;
}
