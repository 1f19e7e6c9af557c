/* SPDX-License-Identifier: Apache-2.0 */
/* Heads: what a proxy changes in every message. */
#include <stdio.h>
#include <string.h>

#include "base/hex.h"
#include "base/rand.h"
#include "gateway/config/config.h"
#include "gateway/exchange/exchange.h"
#include "gateway/exchange/exchange_int.h"
#include "gateway/message/fields.h"
#include "tls/tls.h"

/* ---- requests ---- */

void sw_exchange_meet(struct sw_exchange *x, const struct sw_tls *tls)
{
    const struct sw_tls_peer *peer = tls ? sw_tls_peer(tls) : NULL;

    x->from.tls = tls != NULL;
    x->from.cipher = tls ? sw_tls_cipher(tls) : NULL;
    x->from.client = peer ? sw_peer_ref(peer) : NULL;
}

static struct sw_slice joined(struct sw_exchange *x, struct sw_slice a, struct sw_slice b)
{
    char *p = sw_arena_alloc(&x->arena, a.n + b.n + 3);

    memcpy(p, a.p, a.n);
    memcpy(p + a.n, ", ", 2);
    memcpy(p + a.n + 2, b.p, b.n);
    return sw_slice(p, a.n + b.n + 2);
}

/* Several fields of one name become the last of them, with all values in order; returns its value.
 */
static struct sw_slice *join_all(struct sw_exchange *x, struct sw_gw_fields *f, enum sw_gw_hid id)
{
    struct sw_slice *at = &f->p[0].value; /* there are some */
    uint32_t last = 0;
    uint32_t k = 0;
    size_t room = 0;
    size_t n = 0;
    char *p;

    for (uint32_t i = 0; i < f->n; i++) {
        if (f->hid[i] == id) {
            room += f->p[i].value.n + 2;
            last = i;
        }
    }
    p = sw_arena_alloc(&x->arena, room + 1);
    for (uint32_t i = 0; i < f->n; i++) {
        struct sw_slice v = f->hid[i] == id ? f->p[i].value : sw_slice(NULL, 0);

        if (v.n) {
            memcpy(p + n, ", ", n ? 2 : 0);
            n += n ? 2 : 0;
            memcpy(p + n, v.p, v.n);
            n += v.n;
        }
        if (f->hid[i] == id && i < last)
            continue;
        f->p[k] = f->p[i];
        f->hid[k] = f->hid[i];
        if (i == last)
            at = &f->p[k].value;
        k++;
    }
    f->n = k;
    *at = sw_slice(p, n);
    return at;
}

/*
 * Appends to a list field, or makes it. Several fields of the name become one: a recipient that
 * reads only the first or the last must not miss values of the others.
 */
static void append(struct sw_exchange *x, struct sw_gw_fields *f, enum sw_gw_hid id,
                   struct sw_slice name, struct sw_slice value)
{
    struct sw_slice *at = NULL;
    unsigned n = 0;

    for (uint32_t i = 0; i < f->n; i++) {
        if (f->hid[i] == id) {
            at = &f->p[i].value;
            n++;
        }
    }
    if (n > 1)
        at = join_all(x, f, id);
    if (at && at->n)
        *at = joined(x, *at, value);
    else if (at)
        *at = value;
    else
        sw_gw_fields_add_known(&x->arena, f, id, name, value);
}

static void put(struct sw_exchange *x, enum sw_gw_hid id, struct sw_slice name,
                struct sw_slice value)
{
    if (sw_gw_fields_get(&x->req.fields, id))
        sw_gw_fields_remove(&x->req.fields, name);
    sw_gw_fields_add_known(&x->arena, &x->req.fields, id, name, value);
}

/* Eight hexadecimal digits from the low half of each byte. */
static uint64_t hex8(uint64_t v)
{
    uint64_t low = v & 0x0f0f0f0f0f0f0f0fU;
    uint64_t letters = ((low + 0x0606060606060606U) >> 4) & 0x0101010101010101U;

    return low + 0x3030303030303030U + letters * ('a' - '0' - 10);
}

/* A UUID of version 4; the order of random digits does not matter. */
static struct sw_slice new_request_id(struct sw_exchange *x)
{
    uint64_t r[2] = {sw_rand_u64(), sw_rand_u64()};
    uint64_t digits[4] = {hex8(r[0]), hex8(r[0] >> 4), hex8(r[1]), hex8(r[1] >> 4)};
    char *p = sw_arena_alloc(&x->arena, 37);
    char d[32];

    memcpy(d, digits, sizeof(d));
    memcpy(p, d, 8);
    p[8] = '-';
    memcpy(p + 9, d + 8, 4);
    p[13] = '-';
    p[14] = '4';
    memcpy(p + 15, d + 12, 3);
    p[18] = '-';
    p[19] = "89ab"[d[15] & 3];
    memcpy(p + 20, d + 16, 3);
    p[23] = '-';
    memcpy(p + 24, d + 20, 12);
    return sw_slice(p, 36);
}

struct sw_slice gw_request_id(struct sw_exchange *x)
{
    const struct sw_slice *have = sw_gw_fields_get(&x->req.fields, SW_GW_H_X_REQUEST_ID);
    struct sw_slice id = have ? *have : new_request_id(x);

    if (!have)
        put(x, SW_GW_H_X_REQUEST_ID, SW_SLICE_LIT("x-request-id"), id);
    return id;
}

/* Our element of Forwarded (RFC 7239): the client of the request. */
static struct sw_slice forwarded_element(struct sw_exchange *x)
{
    char ip[SW_IP_TEXT];
    char text[SW_IP_TEXT + 32];
    bool v6 = strchr(sw_ip_text(&x->from.peer.ip, ip), ':') != NULL;

    (void)snprintf(text, sizeof(text), "for=%s%s%s;proto=%.*s", v6 ? "\"[" : "", ip,
                   v6 ? "]\"" : "", SW_SLICE_ARG_MAX(x->req.scheme, 8));
    return sw_arena_slice(&x->arena, sw_slice_str(text));
}

/* What only this proxy and those behind it may say goes. */
static void drop_foreign(struct sw_exchange *x)
{
    struct sw_gw_fields *f = &x->req.fields;
    uint32_t k = 0;

    for (uint32_t i = 0; i < f->n; i++) {
        struct sw_slice name = f->p[i].name;

        if (f->hid[i] == SW_GW_H_OTHER && name.n > 8 && (name.p[0] | 0x20) == 'x' &&
            sw_slice_ieq(sw_slice_head(name, 8), SW_SLICE_LIT("x-envoy-")))
            continue;
        if (k != i) {
            f->p[k] = f->p[i];
            f->hid[k] = f->hid[i];
        }
        k++;
    }
    f->n = k;
}

/* Recipients read these lists from the end: our entry comes last, after what the client claims. */
static void append_forwarded(struct sw_exchange *x)
{
    struct sw_gw_fields *f = &x->req.fields;
    char ip[SW_IP_TEXT];

    append(x, f, SW_GW_H_X_FORWARDED_FOR, SW_SLICE_LIT("x-forwarded-for"),
           sw_arena_slice(&x->arena, sw_slice_str(sw_ip_text(&x->from.peer.ip, ip))));
    if (sw_gw_fields_get(f, SW_GW_H_FORWARDED))
        append(x, f, SW_GW_H_FORWARDED, SW_SLICE_LIT("forwarded"), forwarded_element(x));
}

/* "Hash=...;URI=...": the certificate the client proved to have. */
static struct sw_slice cert_element(struct sw_exchange *x, const struct sw_tls_peer *peer)
{
    size_t n = 5 + 2 * sizeof(peer->fingerprint);
    char *p;
    char *at;

    for (uint32_t i = 0; x->hcm->xfcc.uri && i < peer->n_ids; i++)
        n += 5 + peer->ids[i].uri.n;
    p = sw_arena_alloc(&x->arena, n);
    memcpy(p, "Hash=", 5);
    at = sw_hex_write(p + 5, peer->fingerprint, sizeof(peer->fingerprint));
    for (uint32_t i = 0; x->hcm->xfcc.uri && i < peer->n_ids; i++) {
        memcpy(at, ";URI=", 5);
        memcpy(at + 5, peer->ids[i].uri.p, peer->ids[i].uri.n);
        at += 5 + peer->ids[i].uri.n;
    }
    return sw_slice(p, n);
}

/* Removes x-forwarded-client-cert of clients that did not authenticate with a certificate. */
static void clean_client_cert(struct sw_exchange *x)
{
    struct sw_slice name = SW_SLICE_LIT("x-forwarded-client-cert");
    const struct sw_tls_peer *peer = x->from.client;
    enum sw_gw_xfcc mode = x->hcm->xfcc.mode;

    if (mode == SW_GW_XFCC_ALWAYS_FORWARD)
        return;
    if ((!peer || mode == SW_GW_XFCC_SANITIZE || mode == SW_GW_XFCC_SET) &&
        sw_gw_fields_get(&x->req.fields, SW_GW_H_X_FORWARDED_CLIENT_CERT))
        sw_gw_fields_remove(&x->req.fields, name);
    if (!peer || (mode != SW_GW_XFCC_SET && mode != SW_GW_XFCC_APPEND))
        return;
    append(x, &x->req.fields, SW_GW_H_X_FORWARDED_CLIENT_CERT, name, cert_element(x, peer));
}

void gw_clean_request(struct sw_exchange *x)
{
    const struct sw_gw_hcm *h = x->hcm;
    struct sw_gw_fields *f = &x->req.fields;
    bool edge = h->xff.use_remote_address && h->xff.trusted_hops == 0;

    clean_client_cert(x);
    if (h->xff.use_remote_address)
        drop_foreign(x);
    if (h->xff.use_remote_address && !h->xff.skip_append)
        append_forwarded(x);
    if (edge || !sw_gw_fields_get(f, SW_GW_H_X_FORWARDED_PROTO))
        put(x, SW_GW_H_X_FORWARDED_PROTO, SW_SLICE_LIT("x-forwarded-proto"), x->req.scheme);
    if (h->request_id.generate &&
        ((edge && !h->request_id.preserve) || !sw_gw_fields_get(f, SW_GW_H_X_REQUEST_ID)))
        put(x, SW_GW_H_X_REQUEST_ID, SW_SLICE_LIT("x-request-id"), new_request_id(x));
    if (h->via.n)
        append(x, f, SW_GW_H_VIA, SW_SLICE_LIT("via"), h->via);
}

/* ---- responses ---- */

void gw_clean_response(struct sw_exchange *x)
{
    struct sw_gw_fields *f = &x->resp.fields;
    const struct sw_gw_hcm *h = x->hcm;
    struct sw_slice *server = sw_gw_fields_get(f, SW_GW_H_SERVER);

    if (server && h->server_header == SW_GW_SERVER_OVERWRITE && !x->resp.local)
        *server = h->server_name;
    else if (!server && h->server_header != SW_GW_SERVER_PASS)
        sw_gw_fields_add_known(&x->arena, f, SW_GW_H_SERVER, SW_SLICE_LIT("server"),
                               h->server_name);
    if (h->via.n)
        append(x, f, SW_GW_H_VIA, SW_SLICE_LIT("via"), h->via);
    if (!sw_gw_fields_get(f, SW_GW_H_DATE))
        sw_gw_fields_add_known(&x->arena, f, SW_GW_H_DATE, SW_SLICE_LIT("date"),
                               sw_arena_slice(&x->arena, sw_gw_worker_date(x->worker)));
    if (h->request_id.in_response) {
        struct sw_slice *id = sw_gw_fields_get(&x->req.fields, SW_GW_H_X_REQUEST_ID);

        if (id && !sw_gw_fields_get(f, SW_GW_H_X_REQUEST_ID))
            sw_gw_fields_add(&x->arena, f, SW_SLICE_LIT("x-request-id"), *id);
    }
}
