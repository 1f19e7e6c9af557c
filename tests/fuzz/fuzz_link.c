/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the data plane of links reads from others: resources, answers of the control plane and of
 * reviews, the answer of a peer to a CONNECT, and requests at the external port. The first byte
 * chooses.
 */
#include <assert.h>
#include <string.h>

#include "base/arena.h"
#include "http/grammar.h"
#include "http/h1.h"
#include "link/control.h"
#include "link/review.h"
#include "link/snap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void resources(struct sw_slice in, bool listener)
{
    struct sw_slice name = sw_slice_cut(&in, '\n');
    struct sw_err err = {0};
    struct link_res *r;

    if (!in.p)
        return;
    r = listener ? link_res_listener(name, in, &err) : link_res_cluster(name, in, &err);
    if (!r) {
        assert(err.rc != SW_OK);
        return;
    }
    assert(r->name.n <= LINK_NAME_MAX && r->n_ends <= LINK_GATEWAYS_MAX);
    assert(listener ? r->at.port != 0 && r->at.ip.family : r->n_ends > 0);
    assert(r->kind != LINK_PEER || (strlen(r->host) == r->name.n && r->authority.n));
    (void)link_res_unref(r);
}

static void secret(struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    struct link_secret s = {0};
    struct sw_err err = {0};

    if (link_secret_parse(&a, in, &s, &err) == SW_OK)
        assert((s.chain.n && s.key.n) || s.roots.n);
}

static void check(struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    struct link_answer r = {0};
    struct sw_err err = {0};

    if (link_check_decode(&a, in, &r, &err) != SW_OK)
        return;
    assert(r.status == 200 || (r.status >= 400 && r.status < 600));
    assert(!r.host.n || sw_http_value_valid(r.host));
    assert(!r.authorization.n || sw_http_value_valid(r.authorization));
}

static void on_line(void *arg, size_t line, struct sw_slice reason)
{
    (void)reason;
    assert(line < 8);
    ++*(size_t *)arg;
}

static void review(struct sw_slice in)
{
    size_t denied = 0;

    if (link_review_parse(in, 8, on_line, &denied) != SW_OK)
        assert(denied == 0);
}

/* One message after the other, as the connection would read them. */
static void heads(struct sw_slice in, enum sw_h1_kind kind)
{
    static const struct sw_h1_limits limits = {
        .line = 10 << 10, .head = 10 << 10, .body = 64 << 10, .bare_host = true};
    struct sw_h1 *p = sw_h1_new(kind, &limits);
    int messages = 0;

    if (kind == SW_H1_RESPONSE)
        sw_h1_answer_to(p, SW_SLICE_LIT("CONNECT"));
    while (messages < 4) {
        enum sw_h1_event event = SW_H1_HEAD;
        struct sw_err err = {0};
        size_t used = 0;

        if (sw_h1_next(p, in, &used, &event, &err) != SW_OK)
            break;
        assert(used <= in.n);
        if (event == SW_H1_HEAD && kind == SW_H1_RESPONSE)
            assert(sw_h1_msg(p)->status != 200 || sw_h1_msg(p)->framing == SW_H1_TUNNEL);
        if (event == SW_H1_HEAD && sw_slice_eq_str(sw_h1_msg(p)->method, "CONNECT"))
            assert(sw_http_host_valid(sw_h1_msg(p)->authority));
        in = sw_slice_from(in, used);
        if (event != SW_H1_END)
            continue;
        if (sw_h1_msg(p)->framing == SW_H1_TUNNEL)
            break;
        messages++;
        sw_h1_reset(p);
    }
    sw_h1_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sw_slice in;

    if (size == 0)
        return 0;
    in = sw_slice(data + 1, size - 1);
    switch (data[0] % 7) {
    case 0:
        resources(in, false);
        break;
    case 1:
        resources(in, true);
        break;
    case 2:
        secret(in);
        break;
    case 3:
        check(in);
        break;
    case 4:
        review(in);
        break;
    case 5:
        heads(in, SW_H1_RESPONSE);
        break;
    default:
        heads(in, SW_H1_REQUEST);
        break;
    }
    return 0;
}
