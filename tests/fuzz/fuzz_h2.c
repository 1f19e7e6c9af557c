/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First byte: role, whether the connection preface is put in front, how the bytes are cut.
 * Properties: a stream closes at most once and nothing of it is heard afterwards; no data after
 * its end; what waits to be sent stays bounded; bytes cut in pieces mean the same as in one.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "http/h2.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { OUT_MAX = 1 << 20, REQUESTS = 3 };

struct stream {
    int32_t id;
    bool headed;
    bool ended;
    bool closed;
    uint64_t bytes;
};

struct conn {
    struct sw_h2 *h;
    bool server;
    bool refuse; /* answers with an end instead of a body */
    size_t out;
    uint64_t digest;
    struct sw_map streams; /* by id */
};

static void note(struct conn *c, uint64_t a, uint64_t b)
{
    c->digest = (c->digest ^ a) * UINT64_C(0x100000001b3);
    c->digest = (c->digest ^ b) * UINT64_C(0x100000001b3);
}

static void check(bool ok)
{
    if (!ok)
        abort();
}

static struct stream *stream(struct conn *c, int32_t id)
{
    struct stream *s = sw_map_get(&c->streams, sw_slice(&id, sizeof(id)));

    if (!s) {
        s = SW_NEW(struct stream);
        s->id = id;
        (void)sw_map_put(&c->streams, sw_slice(&s->id, sizeof(s->id)), s);
    }
    return s;
}

static void on_head(struct sw_h2 *h, int32_t id, void *user, const struct sw_h2_head *head,
                    bool end)
{
    static const struct sw_h2_header ok = {SW_SLICE_LIT(":status"), SW_SLICE_LIT("200")};
    struct conn *c = sw_h2_owner(h);
    struct stream *s = stream(c, id);
    size_t bytes = 0;

    check(id > 0 && !s->closed && !s->ended && !s->headed);
    check(c->server ? id % 2 == 1 : user != NULL);
    for (size_t i = 0; i < head->n; i++)
        bytes += head->headers[i].name.n + head->headers[i].value.n + 32;
    check(bytes <= 65536);
    s->headed = true;
    s->ended = end;
    note(c, 1, (uint64_t)id << 32 | head->status << 2 | (unsigned)end << 1 | head->too_large);
    if (c->server) {
        (void)!sw_h2_respond(h, id, &ok, 1, c->refuse, NULL);
        sw_h2_set_stream(h, id, c);
    }
}

static void on_data(struct sw_h2 *h, int32_t id, void *user, struct sw_slice data)
{
    struct conn *c = sw_h2_owner(h);
    struct stream *s = stream(c, id);

    (void)user;
    check(!s->ended && !s->closed);
    s->bytes += data.n;
    sw_h2_consume_connection(h, data.n);
    if (s->bytes % 2)
        sw_h2_consume_stream(h, id, data.n);
}

static void on_end(struct sw_h2 *h, int32_t id, void *user)
{
    struct conn *c = sw_h2_owner(h);
    struct stream *s = stream(c, id);

    (void)user;
    check(!s->ended && !s->closed);
    s->ended = true;
    note(c, 2, (uint64_t)id << 32 ^ s->bytes);
}

static void on_close(struct sw_h2 *h, int32_t id, void *user, uint32_t code)
{
    struct conn *c = sw_h2_owner(h);
    struct stream *s = stream(c, id);

    (void)user;
    check(!s->closed);
    s->closed = true;
    note(c, 3, (uint64_t)id << 32 ^ code ^ s->bytes << 8);
}

static void on_window(struct sw_h2 *h, int32_t id, void *user)
{
    struct conn *c = sw_h2_owner(h);

    (void)user;
    note(c, 4, (uint64_t)id);
    if (id)
        sw_h2_resume(h, id);
}

static void on_settings(struct sw_h2 *h)
{
    note(sw_h2_owner(h), 5, sw_h2_peer_max_streams(h));
}

static void on_goaway(struct sw_h2 *h, int32_t last_id, uint32_t code)
{
    note(sw_h2_owner(h), 6, (uint64_t)last_id << 32 | code);
}

static void on_pong(struct sw_h2 *h)
{
    note(sw_h2_owner(h), 7, 0);
}

static int emit(struct sw_h2 *h, const uint8_t *p, size_t n)
{
    struct conn *c = sw_h2_owner(h);

    check(p && n);
    if (c->out + n > OUT_MAX)
        return SW_EAGAIN;
    c->out += n;
    return SW_OK;
}

static ssize_t pull(struct sw_h2 *h, int32_t id, void *user, size_t max, bool *ret_end)
{
    struct conn *c = sw_h2_owner(h);

    (void)user;
    check(max > 0);
    if (c->out + max + SW_H2_FRAME_HEAD > OUT_MAX)
        return SW_EAGAIN;
    *ret_end = id % 4 == 1;
    return *ret_end ? (ssize_t)sw_min(max, 5) : SW_EAGAIN;
}

static void emit_data(struct sw_h2 *h, int32_t id, void *user, const uint8_t head[SW_H2_FRAME_HEAD],
                      size_t n)
{
    struct conn *c = sw_h2_owner(h);

    (void)user;
    check(!stream(c, id)->closed);
    check(((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]) == n);
    c->out += SW_H2_FRAME_HEAD + n;
}

static const struct sw_h2_ops ops = {
    .on_head = on_head,
    .on_data = on_data,
    .on_end = on_end,
    .on_close = on_close,
    .on_window = on_window,
    .on_settings = on_settings,
    .on_goaway = on_goaway,
    .on_pong = on_pong,
    .emit = emit,
    .pull = pull,
    .emit_data = emit_data,
};

static void open_requests(struct conn *c)
{
    static const struct sw_h2_header f[] = {
        {SW_SLICE_LIT(":method"), SW_SLICE_LIT("CONNECT")},
        {SW_SLICE_LIT(":authority"), SW_SLICE_LIT("10.0.0.1:80")},
    };

    for (int i = 0; i < REQUESTS; i++)
        check(sw_h2_request(c->h, f, SW_ARRAY_LEN(f), false, c, NULL) > 0);
}

/*
 * Where cutting matters, and the digest is 0: nghttp2 counts the pieces a CONTINUATION's head
 * arrives in as frames, and looks only between pieces whether the connection is over.
 */
static bool cut_matters(const struct conn *c, const struct sw_err *err)
{
    return sw_h2_finished(c->h) || strstr(err->msg, "CONTINUATION") != NULL;
}

/* Feeds in pieces of 'step'; flushes between them only when asked. */
static uint64_t play(uint8_t mode, struct sw_slice in, size_t step, bool flush)
{
    struct conn c = {.server = mode & 1, .refuse = mode & 4};
    struct sw_h2_config config = {
        .server = c.server,
        .stream_window = 70000,
        .connection_window = 100000,
        .max_frame = 16384,
        .max_send_frame = 1000,
        .max_header_list = 8192,
        .max_streams = 5,
    };
    struct sw_err err = {0};
    int rc = SW_OK;

    c.h = sw_h2_new(&config, &ops, &c);
    if (!c.server)
        open_requests(&c);
    check(sw_h2_flush(c.h, NULL) == SW_OK);
    if (c.server && mode & 2)
        rc = sw_h2_feed(c.h, SW_SLICE_LIT("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"),
                        NULL);
    while (rc == SW_OK && in.n) {
        struct sw_slice piece = sw_slice_head(in, step);

        rc = sw_h2_feed(c.h, piece, &err);
        in = sw_slice_from(in, step);
        if (flush && rc == SW_OK) {
            rc = sw_h2_flush(c.h, NULL);
            rc = rc == SW_EAGAIN ? SW_OK : rc;
        }
    }
    note(&c, 8, (uint64_t)(rc == SW_OK));
    if (!flush) {
        (void)!sw_h2_flush(c.h, NULL);
        note(&c, 9, c.out);
    }
    check(c.out <= OUT_MAX);
    if (cut_matters(&c, &err))
        c.digest = 0;
    sw_h2_free(c.h);
    SW_MAP_FOREACH (it, &c.streams)
        sw_free(it->value);
    sw_map_done(&c.streams);
    return c.digest;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_slice in;
    uint64_t whole;
    uint64_t cut;

    if (n < 1 || n > 8192)
        return 0;
    in = sw_slice(data + 1, n - 1);
    whole = play(data[0], in, SIZE_MAX, false);
    cut = play(data[0], in, 1 + data[0] / 8u, false);
    check(cut == whole || cut == 0 || whole == 0);
    (void)play(data[0], in, 1 + data[0] / 8u, true);
    return 0;
}
