/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device without a control plane, for system tests and benchmarks: serves the tunnel protocol to
 * everybody, or to one gateway, for all targets or those listed.
 *
 *   qdevice KEYFILE [--allow HOST:PORT]... [--peer NODEID] [--bind ADDR] [--relay URL] [--more N]
 *           [--streams N]
 *
 * Prints "ID ADDRESS" and then one line per exchange; ends when standard input does. With --more,
 * N further devices of the same kind, each with a key and a socket of its own. --streams is what a
 * connection may have open at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/resolver.h"
#include "quic/path.h"
#include "quic/quic.h"
#include "tls/crypto/aead.h"
#include "tunnel/qserve.h"

enum { ALLOW_MAX = 16, MORE_MAX = 10000 };

struct device {
    struct sw_loop *loop;
    struct sw_quic *quic;
    struct sw_qserve *serve;
    const char *allow[ALLOW_MAX];
    size_t n_allow;
    struct sw_nodeid peer;
    bool one_peer;
    struct sw_watch input;
    size_t more;
    struct sw_rawkey *keys[MORE_MAX];
    struct sw_quic *others[MORE_MAX];
};

static void authorise(void *arg, const struct sw_qserve_ask *ask, struct sw_qserve_verdict *ret)
{
    const struct device *d = arg;
    char target[300];

    (void)snprintf(target, sizeof(target), "%.*s:%u", SW_SLICE_ARG(ask->host), ask->port);
    for (size_t i = 0; i < d->n_allow; i++) {
        if (strcmp(d->allow[i], target) == 0)
            return;
    }
    if (d->n_allow) {
        ret->status = 403;
        ret->reason = "not_advertised";
    }
}

static void ended(void *arg, const struct sw_qserve_record *r)
{
    (void)arg;
    (void)printf("%s %.*s %.*s:%u %.*s %u in=%llu out=%llu %s\n", sw_qkind_text(r->kind),
                 SW_SLICE_ARG(r->method), SW_SLICE_ARG(r->host), r->port, SW_SLICE_ARG(r->path),
                 r->status, (unsigned long long)r->bytes_in, (unsigned long long)r->bytes_out,
                 r->reason ? r->reason : "ok");
    (void)fflush(stdout);
}

static bool admit(void *arg, const struct sw_nodeid *peer, struct sw_slice alpn)
{
    const struct device *d = arg;

    (void)alpn;
    return !d->one_peer || sw_nodeid_eq(peer, &d->peer);
}

static void accepted(void *arg, struct sw_qconn *c)
{
    sw_qserve_adopt(((struct device *)arg)->serve, c);
}

static void on_input(struct sw_watch *w, unsigned events)
{
    struct device *d = SW_CONTAINER_OF(w, struct device, input);
    char byte;

    (void)events;
    if (read(STDIN_FILENO, &byte, 1) == 0)
        sw_loop_stop(d->loop);
}

static int parse(struct device *d, int argc, char **argv, struct sw_quic_config *q,
                 const char **relay, struct sw_err *err)
{
    int rc = argc >= 2 ? SW_OK : sw_err_set(err, SW_EINVAL, "which key file?");

    for (int i = 2; i + 1 < argc && rc == SW_OK; i += 2) {
        if (strcmp(argv[i], "--allow") == 0 && d->n_allow < ALLOW_MAX) {
            d->allow[d->n_allow++] = argv[i + 1];
        } else if (strcmp(argv[i], "--peer") == 0) {
            d->one_peer = true;
            rc = sw_nodeid_parse(sw_slice_str(argv[i + 1]), &d->peer, err);
        } else if (strcmp(argv[i], "--bind") == 0) {
            rc = sw_addr_parse(sw_slice_str(argv[i + 1]), &q->bind, err);
        } else if (strcmp(argv[i], "--relay") == 0) {
            *relay = argv[i + 1];
        } else if (strcmp(argv[i], "--more") == 0) {
            d->more = sw_min(strtoul(argv[i + 1], NULL, 10), MORE_MAX);
        } else if (strcmp(argv[i], "--streams") == 0) {
            q->max_streams = strtoul(argv[i + 1], NULL, 10);
        } else {
            rc = sw_err_set(err, SW_EINVAL, "unknown option '%s'", argv[i]);
        }
    }
    return rc;
}

static struct sw_quic *endpoint(struct device *d, struct sw_quic_config *q, const char *relay,
                                struct sw_err *err)
{
    struct sw_quic *e = sw_quic_new(d->loop, q, err);
    struct sw_addr bound[2];
    char hex[SW_NODEID_HEX];
    char at[SW_ADDR_TEXT];

    if (!e)
        return NULL;
    if (relay)
        sw_quic_set_home_relay(e, sw_slice_str(relay));
    if (sw_quic_bound(e, bound) == 0) {
        (void)sw_err_set(err, SW_ESYS, "not bound");
        sw_quic_free(e);
        return NULL;
    }
    (void)printf("%s %s\n", sw_nodeid_hex(sw_rawkey_id(q->key), hex), sw_addr_text(&bound[0], at));
    return e;
}

static int start(struct device *d, struct sw_quic_config *q, const char *relay, struct sw_err *err)
{
    struct sw_qserve_config c = {.authorise = authorise, .ended = ended, .arg = d};
    struct sw_quic_config more = *q;

    d->serve = sw_qserve_new(d->loop, &c);
    d->quic = endpoint(d, q, relay, err);
    if (!d->quic)
        return err->rc;
    more.bind.port = 0;
    for (size_t i = 0; i < d->more; i++) {
        more.key = d->keys[i] = sw_rawkey_generate(err);
        d->others[i] = more.key ? endpoint(d, &more, relay, err) : NULL;
        if (!d->others[i])
            return err->rc;
    }
    (void)fflush(stdout);
    (void)!sw_watch_start(d->loop, &d->input, STDIN_FILENO, on_input, err); /* not for files */
    return SW_OK;
}

int main(int argc, char **argv)
{
    static const struct sw_slice alpn = SW_SLICE_LIT(SW_QTUNNEL_ALPN);
    static struct device d;
    struct sw_err err = {0};
    struct sw_quic_config q = {
        .bind = {.ip = {.family = 4, .b = {127, 0, 0, 1}}},
        .alpns = &alpn,
        .n_alpns = 1,
        .datagrams = true,
        .admit = admit,
        .accepted = accepted,
        .arg = &d,
    };
    const char *relay = NULL;
    struct sw_rawkey *key = NULL;
    int rc = parse(&d, argc, argv, &q, &relay, &err);

    if (rc == SW_OK)
        rc = sw_aead_init(SW_AEAD_AUTO, &err);
    d.loop = rc == SW_OK ? sw_loop_new(&err) : NULL;
    key = d.loop ? sw_rawkey_open(argv[1], &err) : NULL;
    q.key = key;
    rc = key ? start(&d, &q, relay, &err) : err.rc;
    if (rc == SW_OK)
        sw_loop_run(d.loop);
    else
        (void)fprintf(stderr, "qdevice: %s\n", err.msg);
    sw_qserve_free(d.serve);
    if (d.quic)
        sw_quic_free(d.quic);
    for (size_t i = 0; i < d.more; i++) {
        if (d.others[i])
            sw_quic_free(d.others[i]);
        sw_rawkey_free(d.keys[i]);
    }
    sw_resolver_stop();
    sw_rawkey_free(key);
    if (d.loop)
        sw_loop_free(d.loop);
    return rc == SW_OK ? 0 : 1;
}
