/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A watch stream cut at arbitrary places. However it is cut the frames are the same, and what the
 * framer takes for one object is what the JSON parser takes for one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "kube/client/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX = 1 << 16 };

static void require(bool ok)
{
    if (!ok)
        abort();
}

/* Frames, each followed by a NUL byte, then the verdict. */
static struct sw_buf cut(struct sw_slice in, const uint8_t *sizes, size_t n)
{
    struct sw_kube_frames f;
    struct sw_slice frame;
    struct sw_buf out;
    size_t k = 0;
    int rc = SW_EAGAIN;

    sw_buf_init(&out, 4 * MAX);
    sw_kube_frames_init(&f, MAX);
    while (in.n && rc == SW_EAGAIN) {
        struct sw_slice piece = sw_slice_head(in, n ? (size_t)sizes[k++ % n] + 1 : in.n);

        in = sw_slice_from(in, piece.n);
        rc = sw_kube_frames_push(&f, piece);
        while (rc == SW_OK) {
            rc = sw_kube_frames_next(&f, &frame, NULL);
            if (rc == SW_OK) {
                require(frame.n >= 2 && frame.p[0] == '{');
                require(sw_buf_append_slice(&out, frame) == SW_OK && sw_buf_putc(&out, 0) == SW_OK);
            }
        }
    }
    require(rc == SW_EAGAIN || rc == SW_EPROTO);
    require(sw_buf_putc(&out, (char)('0' - rc)) == SW_OK);
    require(rc != SW_EAGAIN || sw_kube_frames_idle(&f) == (sw_buf_len(&f.buf) == 0));
    sw_kube_frames_done(&f);
    return out;
}

/* An object the parser accepts whole is found whole. */
static void one_object(struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json_dups dups = {0};
    const struct sw_json_opts o = {.dups = &dups};
    struct sw_kube_frames f;
    struct sw_slice frame = {0};
    struct sw_json *v = NULL;

    if (sw_json_parse(&a, in, &o, &v, NULL) != SW_OK || v->type != SW_JSON_OBJECT)
        return;
    sw_kube_frames_init(&f, MAX);
    require(sw_kube_frames_push(&f, in) == SW_OK);
    require(sw_kube_frames_next(&f, &frame, NULL) == SW_OK);
    require(sw_json_parse(&a, frame, &o, &v, NULL) == SW_OK);
    require(sw_kube_frames_idle(&f));
    sw_kube_frames_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t n = size ? data[0] % 8 : 0;
    struct sw_slice in;
    struct sw_buf a;
    struct sw_buf b;

    if (size < n + 1 || size > MAX / 2)
        return 0;
    in = sw_slice(data + n + 1, size - n - 1);
    a = cut(in, NULL, 0);
    b = cut(in, data + 1, n);
    require(sw_slice_eq(sw_buf_slice(&a), sw_buf_slice(&b)));
    sw_buf_done(&a);
    sw_buf_done(&b);
    one_object(in);
    return 0;
}
