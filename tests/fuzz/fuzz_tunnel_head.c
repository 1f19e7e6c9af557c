/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heads of the tunnel protocol: what is understood names one host and one port, and writing that
 * gives a head that is understood the same way.
 */
#include <assert.h>
#include <stdint.h>

#include "http/h1.h"
#include "io/addr.h"
#include "tunnel/qhead.h"

static bool read_head(struct sw_slice in, struct sw_h1 **ret_parser, struct sw_qhead *ret)
{
    struct sw_err err = {0};
    enum sw_h1_event event;
    size_t used = 0;
    bool ok;

    *ret_parser = sw_h1_new(SW_H1_REQUEST, &sw_qhead_limits);
    ok = sw_h1_next(*ret_parser, in, &used, &event, &err) == SW_OK;
    if (ok) {
        assert(event == SW_H1_HEAD && used <= SW_QHEAD_MAX + 2);
        assert(sw_h1_msg(*ret_parser)->nfields <= SW_QHEAD_FIELDS);
        ok = sw_qhead_read(sw_h1_msg(*ret_parser), ret, &err) == SW_OK;
        if (!ok)
            assert(err.rc == SW_EPROTO && err.msg[0]);
    }
    return ok;
}

static int write_head(struct sw_buf *out, const struct sw_qhead *h, struct sw_slice method)
{
    int rc = SW_EINVAL;

    switch (h->kind) {
    case SW_QKIND_TCP:
        rc = sw_qhead_put_connect(out, h->host, h->port);
        return rc == SW_OK ? sw_h1_put_end(out) : rc;
    case SW_QKIND_UDP:
        return sw_qhead_put_udp(out, h->host, h->port, true);
    case SW_QKIND_HTTP:
    case SW_QKIND_UPGRADE:
        rc = sw_qhead_put_request(out, method, h->host, h->port, h->path);
        if (rc == SW_OK && h->kind == SW_QKIND_UPGRADE)
            rc = sw_buf_append_str(out, "connection: upgrade\r\nupgrade: websocket\r\n");
        break;
    }
    return rc == SW_OK ? sw_h1_put_end(out) : rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    SW_BUF_AUTO out = {.max = 2 * SW_QHEAD_MAX};
    struct sw_h1 *first = NULL;
    struct sw_h1 *second = NULL;
    struct sw_qhead a = {0};
    struct sw_qhead b = {0};

    if (read_head(sw_slice(p, n), &first, &a)) {
        assert(a.port && a.host.n && sw_slice_find(a.host, '[') < 0);
        assert((a.path.n > 0) == (a.kind == SW_QKIND_HTTP || a.kind == SW_QKIND_UPGRADE));
        if (write_head(&out, &a, sw_h1_msg(first)->method) == SW_OK &&
            sw_buf_len(&out) <= SW_QHEAD_MAX) {
            assert(read_head(sw_buf_slice(&out), &second, &b));
            assert(a.kind == b.kind && a.port == b.port);
            assert(sw_slice_ieq(a.host, b.host) && sw_slice_eq(a.path, b.path));
        }
    }
    sw_h1_free(first);
    sw_h1_free(second);
    return 0;
}
