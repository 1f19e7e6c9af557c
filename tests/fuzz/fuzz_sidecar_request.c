/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A gateway's request over HTTP/1.1: what the sidecar passes on is a head that a device
 * understands, for the node and target the request named, without the fields of the contract.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "sidecar/request.h"

static void check(const struct side_out *o)
{
    struct sw_h1 *p = sw_h1_new(SW_H1_REQUEST, &sw_qhead_limits);
    struct sw_err err = {0};
    struct sw_qhead h = {0};
    enum sw_h1_event event;
    size_t used = 0;
    SW_BUF_AUTO target = {.max = 512};

    assert(o->head.n <= SW_QHEAD_MAX);
    assert(sw_h1_next(p, o->head, &used, &event, &err) == SW_OK && used == o->head.n);
    assert(sw_qhead_read(sw_h1_msg(p), &h, &err) == SW_OK);
    assert((h.kind == SW_QKIND_TCP) == (o->kind == SIDE_CONNECT));
    assert((h.kind == SW_QKIND_UDP) == (o->kind == SIDE_UDP));
    assert(sw_qhead_put_authority(&target, h.host, h.port) == SW_OK);
    assert(sw_slice_ieq(sw_buf_slice(&target), o->target));
    assert(!sw_h1_field(sw_h1_msg(p), "x-iroh-endpoint-id"));
    assert(!sw_h1_field(sw_h1_msg(p), "x-datum-target-port"));
    assert(!sw_h1_field(sw_h1_msg(p), "datum-node-id"));
    sw_h1_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const struct side_aliases aliases = {
        .p = {{SW_SLICE_LIT("x-iroh-endpoint-id"), SW_SLICE_LIT("n")}}, .n = 1};
    SW_ARENA_AUTO a = {0};
    struct sw_h1 *parser = sw_h1_new(SW_H1_REQUEST, NULL);
    struct sw_err err = {0};
    enum sw_h1_event event;
    size_t used = 0;

    if (sw_h1_next(parser, sw_slice(p, n), &used, &event, &err) == SW_OK) {
        const struct sw_h1_msg *m = sw_h1_msg(parser);
        bool connect = m->form == SW_H1_AUTHORITY;
        struct side_in in = {
            .method = m->method,
            .authority = m->authority,
            .path = connect ? sw_slice(NULL, 0) : m->path_query,
            .protocol = connect ? sw_slice(NULL, 0) : m->upgrade,
            .fields = m->fields,
            .n = m->nfields,
            .msg = m,
            .length_known = m->framing == SW_H1_LENGTH,
            .length = m->content_length,
        };
        struct side_refusal why = {0};
        struct side_out out;

        if (side_request_read(&a, &aliases, &in, &out, &why))
            check(&out);
        else
            assert(why.status >= 400 && why.reason && why.text);
    }
    sw_h1_free(parser);
    return 0;
}
