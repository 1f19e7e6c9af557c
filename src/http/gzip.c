/* SPDX-License-Identifier: Apache-2.0 */
#include "http/gzip.h"

#define ZLIB_CONST
#include <zlib.h>

#include "base/err.h"
#include "base/mem.h"

enum {
    GZIP_WRAPPER = 16, /* added to the window: asks zlib for it */
    STEP = 16384,
    FEED_MAX = 1 << 30, /* zlib counts in unsigned int */
};

struct sw_gzip_stream {
    z_stream z;
    char out[STEP + 1];
};

static voidpf z_alloc(voidpf arg, uInt items, uInt size)
{
    return sw_calloc(items, size);
}

static void z_free(voidpf arg, voidpf p)
{
    sw_free(p);
}

struct sw_gzip_stream *sw_gzip_stream_new(const struct sw_gzip_opts *o)
{
    struct sw_gzip_stream *z = SW_NEW(struct sw_gzip_stream);

    z->z.zalloc = z_alloc;
    z->z.zfree = z_free;
    if (deflateInit2(&z->z, o->level, Z_DEFLATED, o->window_bits + GZIP_WRAPPER, o->memory,
                     o->strategy) != Z_OK) {
        sw_free(z);
        return NULL;
    }
    return z;
}

void sw_gzip_stream_free(struct sw_gzip_stream *z)
{
    if (!z)
        return;
    (void)deflateEnd(&z->z);
    sw_free(z);
}

/* zlib cannot fail here: the state is its own and there is always room. */
static void drive(struct sw_gzip_stream *z, int flush, void (*sink)(void *arg, struct sw_slice out),
                  void *arg)
{
    do {
        z->z.next_out = (Bytef *)z->out;
        z->z.avail_out = STEP;
        (void)deflate(&z->z, flush);
        if (z->z.avail_out < STEP)
            sink(arg, sw_slice(z->out, STEP - z->z.avail_out));
    } while (z->z.avail_out == 0);
}

void sw_gzip_stream_write(struct sw_gzip_stream *z, struct sw_slice in, bool end,
                          void (*sink)(void *arg, struct sw_slice out), void *arg)
{
    do {
        struct sw_slice piece = sw_slice_head(in, FEED_MAX);

        in = sw_slice_from(in, piece.n);
        z->z.next_in = (const Bytef *)piece.p;
        z->z.avail_in = (uInt)piece.n;
        drive(z, end && in.n == 0 ? Z_FINISH : Z_SYNC_FLUSH, sink, arg);
    } while (in.n);
}

struct collect {
    struct sw_buf *to;
    int rc;
};

static void collect(void *arg, struct sw_slice out)
{
    struct collect *c = arg;

    if (c->rc == SW_OK)
        c->rc = sw_buf_append(c->to, out.p, out.n);
}

int sw_gzip(struct sw_slice in, struct sw_buf *out)
{
    static const struct sw_gzip_opts quick = {
        .level = Z_BEST_SPEED, .window_bits = 15, .memory = 8, .strategy = Z_DEFAULT_STRATEGY};
    struct sw_gzip_stream *z = sw_gzip_stream_new(&quick);
    struct collect c = {.to = out};

    if (!z)
        return SW_EINVAL;
    sw_gzip_stream_write(z, in, true, collect, &c);
    sw_gzip_stream_free(z);
    return c.rc;
}

/* "q=0", "q=0.0", ...: anything that is all zeros refuses. */
static bool q_is_zero(struct sw_slice params)
{
    struct sw_slice rest = params;

    while (rest.p) {
        struct sw_slice p = sw_slice_trim(sw_slice_cut(&rest, ';'));
        bool zero = p.n > 2;

        if (p.n < 2 || (p.p[0] | 0x20) != 'q' || p.p[1] != '=')
            continue;
        for (size_t i = 2; i < p.n; i++)
            zero &= p.p[i] == '0' || p.p[i] == '.';
        return zero;
    }
    return false;
}

bool sw_gzip_accepted(struct sw_slice accept_encoding)
{
    struct sw_slice rest = accept_encoding;
    bool any = false;

    while (rest.p) {
        struct sw_slice params = sw_slice_cut(&rest, ',');
        struct sw_slice coding = sw_slice_trim(sw_slice_cut(&params, ';'));

        if (sw_slice_ieq(coding, SW_SLICE_LIT("gzip")))
            return !q_is_zero(params);
        if (sw_slice_eq_str(coding, "*"))
            any = !q_is_zero(params);
    }
    return any;
}
