/* SPDX-License-Identifier: Apache-2.0 */
/* From a relay's URL to a WebSocket: name, addresses one after the other, TLS, upgrade. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/time.h"
#include "io/sock.h"
#include "quic/relay/auth.h"
#include "quic/relay/client_int.h"
#include "quic/wire/qad.h"
#include "tls/tls.h"

enum {
    ADDRESS_MS = 1500, /* of the time for the whole attempt */
    STALL_MS = 15000,
    HEAD_MAX = 4096,
};

int rc_set_roots(struct sw_relay_client *c, const char *ca_file, struct sw_err *err)
{
    static const char *const bundles[] = {"/etc/ssl/certs/ca-certificates.crt",
                                          "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"};
    struct sw_slice pem = {0};
    int rc = SW_ENOENT;

    if (ca_file)
        rc = sw_file_read(ca_file, SW_TLS_PEM_MAX, &pem, err);
    for (size_t i = 0; !ca_file && rc == SW_ENOENT && i < SW_ARRAY_LEN(bundles); i++)
        rc = sw_file_read(bundles[i], SW_TLS_PEM_MAX, &pem, err);
    if (rc != SW_OK)
        return sw_err_prefix(err, "roots for relays");
    c->cred = sw_tls_cred_new(&(struct sw_tls_cred_pem){.roots = pem, .any_identity = true}, err);
    sw_slice_free(&pem);
    return c->cred ? SW_OK : err->rc;
}

/* ---- the link ---- */

static void drop_link(struct sw_relay_client *c)
{
    if (c->link) {
        c->link->client = NULL;
        sw_wsconn_close(&c->link->ws);
    }
    c->link = NULL;
}

void rc_hang_up(struct sw_relay_client *c)
{
    drop_link(c);
    if (c->resolve)
        c->resolve->arg = NULL;
    c->resolve = NULL;
}

static struct rc_link *link_of(struct sw_wsconn *ws)
{
    return SW_CONTAINER_OF(ws, struct rc_link, ws);
}

static int put_auth_header(struct rc_link *k, struct sw_buf *out)
{
    const struct sw_rawkey *key = k->client->key;
    uint8_t km[SW_RELAY_KM_LEN];
    char text[SW_RELAY_AUTH_HEADER];
    struct sw_err err = {0};

    /* Without it, the relay sends a challenge: one round trip more. */
    if (sw_tls_export(sw_wsconn_tls(&k->ws), SW_RELAY_EXPORT_LABEL,
                      sw_slice(sw_rawkey_id(key)->b, SW_NODEID_LEN), km, sizeof(km),
                      &err) != SW_OK ||
        sw_relay_header_make(key, km, text, &err) != SW_OK)
        return SW_OK;
    sw_tls_export_done(sw_wsconn_tls(&k->ws));
    explicit_bzero(km, sizeof(km));
    return sw_h1_put_field_str(out, SW_RELAY_AUTH_FIELD, text);
}

static int put_request(struct rc_link *k, struct sw_buf *out)
{
    const struct sw_relay_client *c = k->client;
    int rc = sw_h1_put_request(out, SW_SLICE_LIT("GET"), SW_SLICE_LIT("/relay"), 1);

    sw_ws_new_key(k->key);
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Host", c->url.authority);
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Upgrade", "websocket");
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Connection", "Upgrade");
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Sec-WebSocket-Version", "13");
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Sec-WebSocket-Key", k->key);
    if (rc == SW_OK)
        rc = sw_h1_put_field_str(out, "Sec-WebSocket-Protocol",
                                 SW_RELAY_V2_NAME ", " SW_RELAY_V1_NAME);
    if (rc == SW_OK && c->token) {
        SW_AUTO_FREE char *value = sw_asprintf("Bearer %s", c->token);

        rc = sw_h1_put_field_str(out, "Authorization", value);
    }
    if (rc == SW_OK && sw_wsconn_tls(&k->ws))
        rc = put_auth_header(k, out);
    return rc == SW_OK ? sw_h1_put_end(out) : rc;
}

static void on_open(struct sw_wsconn *ws)
{
    struct rc_link *k = link_of(ws);
    SW_BUF_AUTO out = {.max = HEAD_MAX};

    if (!k->client)
        return;
    k->client->state = RC_UPGRADE;
    sw_timer_stop(k->client->loop, &k->client->tick);
    if (put_request(k, &out) != SW_OK)
        rc_lost(k->client, "cannot make a request of this URL and token");
    else
        sw_wsconn_put(ws, sw_buf_data(&out), sw_buf_len(&out));
}

/* The version the relay chose; 0: none of ours. */
static unsigned chosen_version(const struct sw_h1_msg *m)
{
    const struct sw_slice *v = sw_h1_field(m, "sec-websocket-protocol");

    if (v && sw_slice_eq_str(*v, SW_RELAY_V2_NAME))
        return SW_RELAY_V2;
    return v && sw_slice_eq_str(*v, SW_RELAY_V1_NAME) ? SW_RELAY_V1 : 0;
}

static void take_qad(struct sw_relay_client *c, const struct sw_slice *field)
{
    struct sw_err err = {0};

    c->qad_port = 0;
    c->qad_pinned = false;
    c->qad_offered = field != NULL;
    if (field && sw_qad_get_field(*field, &c->qad_port, c->qad_pin, &c->qad_pinned, &err) != SW_OK)
        sw_log_warn("relay", "'%s': %s, no address discovery", c->url.authority, err.msg);
}

bool sw_relay_client_qad(const struct sw_relay_client *c, struct sw_relay_qad *ret)
{
    uint16_t port = c->qad_offered ? c->qad_port : SW_QAD_PORT;

    /* Plain, and nothing vouches for a certificate. */
    if (c->state != RC_UP || port == 0 || (!c->url.tls && !c->qad_pinned))
        return false;
    *ret = (struct sw_relay_qad){
        .host = c->url.host, .cred = c->cred, .pin = c->qad_pinned ? c->qad_pin : NULL};
    for (size_t i = 0; i < c->n_addrs; i++)
        ret->addrs[ret->n_addrs++] = (struct sw_addr){.ip = c->addrs[i].ip, .port = port};
    return true;
}

static void on_answer(struct rc_link *k)
{
    const struct sw_h1_msg *m = sw_h1_msg(k->h1);
    struct sw_err err = {0};
    int rc = sw_ws_check_response(m, sw_slice_str(k->key), &err);

    k->version = chosen_version(m);
    if (rc == SW_OK && !k->version)
        (void)sw_err_set(&err, SW_EPROTO, "relay chose no version we speak");
    if (rc != SW_OK || !k->version) {
        rc_lost(k->client, err.msg);
        return;
    }
    take_qad(k->client, sw_h1_field(m, "x-spanwire-qad"));
    sw_wsconn_upgrade(&k->ws);
    rc_upgraded(k->client);
}

static size_t on_bytes(struct sw_wsconn *ws, struct sw_slice in)
{
    struct rc_link *k = link_of(ws);
    enum sw_h1_event ev = SW_H1_HEAD;
    struct sw_err err = {0};
    size_t used = 0;
    int rc;

    if (!k->client)
        return in.n;
    if (!k->h1)
        k->h1 = sw_h1_new(SW_H1_RESPONSE, &(struct sw_h1_limits){.head = (size_t)HEAD_MAX * 2});
    rc = sw_h1_next(k->h1, in, &used, &ev, &err);
    if (rc == SW_OK && ev == SW_H1_HEAD)
        on_answer(k);
    else if (rc != SW_EAGAIN)
        rc_lost(k->client, rc == SW_OK ? "no answer to the upgrade" : err.msg);
    if (ws->upgraded || !k->client) {
        sw_h1_free(k->h1);
        k->h1 = NULL;
    }
    return used;
}

static void on_message(struct sw_wsconn *ws, uint8_t *p, size_t n)
{
    struct rc_link *k = link_of(ws);

    if (k->client)
        rc_message(k->client, p, n);
}

/* Another address, or the attempt is over. */
static void connect_next(struct sw_relay_client *c, const char *why);

static void on_end(struct sw_wsconn *ws, const struct sw_err *why)
{
    struct rc_link *k = link_of(ws);
    struct sw_relay_client *c = k->client;

    if (!c)
        return;
    k->client = NULL;
    c->link = NULL;
    /* A certificate that does not fit is not a matter of the address. */
    if (c->state == RC_CONNECT && why->rc != SW_EDENIED)
        connect_next(c, why->msg);
    else
        rc_lost(c, why->msg);
}

static void on_free(struct sw_wsconn *ws)
{
    struct rc_link *k = link_of(ws);

    sw_h1_free(k->h1);
    sw_free(k);
}

static const struct sw_wsconn_ops link_ops = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_message = on_message,
    .on_end = on_end,
    .on_free = on_free,
};

/* ---- connecting ---- */

static struct sw_tls *make_tls(const struct sw_relay_client *c, struct sw_err *err)
{
    struct sw_ip ip;
    bool literal = sw_ip_parse(sw_slice_str(c->url.host), &ip, NULL) == SW_OK;
    struct sw_tls_params p = {.web = true,
                              .tls12 = true,
                              .chacha = true,
                              .exporter = true,
                              .cred = c->cred,
                              .alpn = "http/1.1",
                              .host = c->url.host,
                              .sni = literal ? NULL : c->url.host};

    return sw_tls_new(&p, err);
}

static void on_address_timeout(struct sw_timer *t)
{
    struct sw_relay_client *c = SW_CONTAINER_OF(t, struct sw_relay_client, tick);

    connect_next(c, "address does not answer");
}

static int connect_to(struct sw_relay_client *c, const struct sw_addr *to, struct sw_err *err)
{
    struct sw_sock_opts so = SW_SOCK_OPTS_INIT;
    struct sw_wsconn_opts o = {.ops = &link_ops,
                               .dialled = true,
                               .message_max = SW_RELAY_MESSAGE_MAX,
                               .stall_ms = STALL_MS};
    struct rc_link *k;
    int fd;
    int rc = sw_sock_connect(to, NULL, &so, &fd, err);

    if (rc != SW_OK)
        return rc;
    sw_sock_tune(fd, &so);
    if (c->url.tls) {
        o.tls = make_tls(c, err);
        if (!o.tls) {
            sw_sock_close(fd);
            return err->rc;
        }
    }
    k = SW_NEW(struct rc_link);
    k->client = c;
    rc = sw_wsconn_init(&k->ws, c->loop, fd, &o, err);
    if (rc != SW_OK) {
        sw_free(k);
        return rc;
    }
    c->link = k;
    return SW_OK;
}

static void connect_next(struct sw_relay_client *c, const char *why)
{
    struct sw_err err = {0};

    drop_link(c);
    c->state = RC_CONNECT;
    (void)sw_err_set(&err, SW_ECLOSED, "%s", why);
    while (c->at_addr < c->n_addrs) {
        if (connect_to(c, &c->addrs[c->at_addr++], &err) == SW_OK) {
            /* The last address gets what is left of the time. */
            if (c->at_addr < c->n_addrs)
                sw_timer_start(c->loop, &c->tick, ADDRESS_MS * SW_NS_PER_MS, on_address_timeout);
            else
                sw_timer_stop(c->loop, &c->tick);
            return;
        }
    }
    rc_lost(c, err.msg);
}

static void on_resolved(struct sw_resolve *r)
{
    struct sw_relay_client *c = r->arg;

    if (c) {
        c->resolve = NULL;
        for (size_t i = 0; i < r->n && r->rc == SW_OK; i++)
            c->addrs[c->n_addrs++] = (struct sw_addr){.ip = r->ips[i], .port = c->url.port};
        connect_next(c, "host was not found");
    }
    sw_free(r);
}

void rc_dial(struct sw_relay_client *c)
{
    struct sw_ip ip;

    c->n_addrs = 0;
    c->at_addr = 0;
    if (sw_ip_parse(sw_slice_str(c->url.host), &ip, NULL) == SW_OK) {
        c->addrs[c->n_addrs++] = (struct sw_addr){.ip = ip, .port = c->url.port};
        connect_next(c, "");
        return;
    }
    c->state = RC_RESOLVE;
    c->resolve = SW_NEW(struct sw_resolve);
    c->resolve->loop = c->loop;
    c->resolve->cb = on_resolved;
    c->resolve->arg = c;
    (void)snprintf(c->resolve->name, sizeof(c->resolve->name), "%s", c->url.host);
    sw_resolve_start(c->resolve);
}
