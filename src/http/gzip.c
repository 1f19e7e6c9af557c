/* SPDX-License-Identifier: Apache-2.0 */
#include "http/gzip.h"

#define ZLIB_CONST
#include <zlib.h>

#include "base/err.h"
#include "base/mem.h"

enum {
    GZIP_WINDOW = 15 + 16, /* 16 asks zlib for the gzip wrapper */
    GZIP_MEMORY = 8,
    STEP = 16384,
};

static voidpf z_alloc(voidpf arg, uInt items, uInt size)
{
    (void)arg;
    return sw_calloc(items, size);
}

static void z_free(voidpf arg, voidpf p)
{
    (void)arg;
    sw_free(p);
}

int sw_gzip(struct sw_slice in, struct sw_buf *out)
{
    z_stream z = {.zalloc = z_alloc, .zfree = z_free};
    int rc = SW_OK;
    int zrc = Z_OK;

    if (in.n > UINT32_MAX)
        return SW_ELIMIT;
    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return SW_EINVAL;
    z.next_in = (const Bytef *)in.p;
    z.avail_in = (uInt)in.n;
    while (zrc != Z_STREAM_END && rc == SW_OK) {
        char *to = sw_buf_reserve(out, STEP);

        if (!to) {
            rc = SW_ELIMIT;
            break;
        }
        z.next_out = (Bytef *)to;
        z.avail_out = STEP;
        zrc = deflate(&z, Z_FINISH);
        if (zrc != Z_OK && zrc != Z_STREAM_END && zrc != Z_BUF_ERROR)
            rc = SW_EINVAL;
        sw_buf_commit(out, STEP - z.avail_out);
    }
    (void)deflateEnd(&z);
    return rc;
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
