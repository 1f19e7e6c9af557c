/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a client sends first: a ClientHello, or a request head as the downstream codec takes it.
 * Whatever the parser lets through must come out without the fields that belong to one hop, with
 * texts that can be written again, and with one meaning only.
 */
#include <stdint.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/list.h"
#include "gateway/codec/h1.h"
#include "gateway/conn/worker.h"
#include "gateway/exchange/exchange.h"
#include "gateway/message/fields.h"
#include "gateway/worker/listen_hello.h"
#include "http/grammar.h"
#include "http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            abort();                                                                               \
    } while (0)

static void check_hello(struct sw_slice in)
{
    struct sw_gw_hello whole;
    struct sw_gw_hello part;
    int rc = sw_gw_hello_parse(in, &whole);

    CHECK(rc == SW_OK || rc == SW_EAGAIN || rc == SW_EPROTO);
    CHECK(whole.sni.n < sizeof(whole.sni_text) && whole.n_alpn <= SW_GW_HELLO_ALPN);
    CHECK(rc == SW_OK || (whole.sni.n == 0 && whole.n_alpn == 0));
    for (size_t i = 0; i < whole.sni.n; i++)
        CHECK(whole.sni.p[i] != 0 && !(whole.sni.p[i] >= 'A' && whole.sni.p[i] <= 'Z'));
    /* A decision is not taken back when more bytes come. */
    if (in.n > 1 && sw_gw_hello_parse(sw_slice_head(in, in.n / 2), &part) == SW_EPROTO)
        CHECK(rc == SW_EPROTO);
}

static void check_fields(const struct sw_gw_fields *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        CHECK(sw_http_token_valid(f->p[i].name) && sw_http_value_valid(f->p[i].value));
        CHECK(f->hid[i] == sw_gw_hid(f->p[i].name));
        CHECK(f->hid[i] != SW_GW_H_HOST && f->hid[i] != SW_GW_H_CONNECTION &&
              f->hid[i] != SW_GW_H_CONTENT_LENGTH && f->hid[i] != SW_GW_H_TRANSFER_ENCODING &&
              f->hid[i] != SW_GW_H_UPGRADE && f->hid[i] != SW_GW_H_TE &&
              f->hid[i] != SW_GW_H_KEEP_ALIVE);
    }
}

static void check_head(struct sw_gw_worker *w, struct sw_slice in)
{
    struct sw_h1 *p = gw_h1_lend(w, SW_H1_REQUEST, NULL);
    enum sw_h1_event event;
    size_t used = 0;

    if (sw_h1_next(p, in, &used, &event, NULL) == SW_OK) {
        struct sw_exchange *x = sw_exchange_new(w);
        const struct sw_h1_msg *m = sw_h1_msg(p);

        gw_h1_take_request(x, m);
        check_fields(&x->req.fields);
        CHECK(sw_slice_eq(x->req.method, m->method));
        CHECK(sw_slice_eq(x->req.authority, m->authority));
        CHECK(x->req.connect ||
              (x->req.path.n && (x->req.path.p[0] == '/' || sw_slice_eq_str(x->req.path, "*"))));
        CHECK((x->req.upgrade.n == 0 && !x->req.connect) || x->req.length == SW_GW_LENGTH_TUNNEL);
        /* Nothing may point into the caller's bytes: they go. */
        CHECK(x->req.method.p < in.p || x->req.method.p >= in.p + in.n);
        sw_exchange_discard(x);
    }
    (void)gw_h1_return(w, p, SW_H1_REQUEST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sw_gw_worker w;

    if (!w.exchanges.next)
        sw_list_init(&w.exchanges);
    check_hello(sw_slice(data, size));
    check_head(&w, sw_slice(data, size));
    return 0;
}
