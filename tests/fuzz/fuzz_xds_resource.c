/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as a resource of each type: decoding, walking, linting and showing stay within bounds, and
 * what decodes packs to something that decodes to the same text. The first byte chooses the type,
 * of which the discovery messages are two.
 */
#include <assert.h>
#include <stdlib.h>

#include <proto/google.pb-c.h>

#include "base/arena.h"
#include "base/buf.h"
#include "control/envoy/extension.h"
#include "control/lint/input.h"
#include "control/lint/lint.h"
#include "proto/pb.h"
#include "proto/text.h"
#include "proto/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count(void *arg, const struct sw_xds_finding *f)
{
    assert(f->type && f->text.n);
    if (f->severity == SW_XDS_ERROR)
        ++*(size_t *)arg;
}

/* Decoded and packed again it means the same. */
static void round_trip(const ProtobufCMessageDescriptor *type, struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO x = {.max = 16 << 20};
    SW_BUF_AUTO y = {.max = 16 << 20};
    const ProtobufCMessage *m = sw_pb_unpack(&a, type, in, NULL, NULL);
    const ProtobufCMessage *again;

    if (!m)
        return;
    again = sw_pb_unpack(&a, type, sw_pb_pack(&a, m), NULL, NULL);
    assert(again);
    if (sw_pb_text(&x, m) != SW_OK)
        return;
    assert(sw_pb_text(&y, again) == SW_OK);
    assert(sw_slice_eq(sw_buf_slice(&x), sw_buf_slice(&y)));
}

static void lint(const char *type, struct sw_slice in)
{
    static const struct sw_xds_lint_opts closed = {.closed = true};
    struct sw_model_resource r = {.type = type, .name = SW_SLICE_LIT("x"), .value = in};
    size_t told = 0;
    size_t errors = sw_xds_lint(&r, 1, &closed, count, &told);

    /* Nothing is told twice, nothing is kept back below the bound. */
    assert(told == errors || told >= 10000);
}

static void discovery(struct sw_slice in)
{
    struct sw_xds_set set = {0};

    if (sw_xds_set_add(&set, in, false, NULL) == SW_OK)
        (void)sw_xds_lint(set.list.p, set.list.n, NULL, NULL, NULL);
    sw_xds_set_done(&set);
}

static void hooks(enum sw_extension_hook hook, struct sw_slice in)
{
    static const struct sw_extension x;
    SW_ARENA_AUTO a = {0};
    struct sw_slice out;
    struct sw_err err = {0};

    if (sw_extension_call(&x, hook, in, &a, &out, &err) != SW_OK)
        assert(err.msg[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const types[] = {SW_TYPE_LISTENER, SW_TYPE_ROUTE, SW_TYPE_CLUSTER,
                                        SW_TYPE_ENDPOINT, SW_TYPE_SECRET};
    struct sw_slice in;
    unsigned which;

    if (size == 0 || size > 64 * 1024)
        return 0;
    which = data[0] % (SW_ARRAY_LEN(types) + 1 + SW_EXTENSION_HOOKS);
    in = sw_slice(data + 1, size - 1);
    if (which < SW_ARRAY_LEN(types)) {
        round_trip(sw_pb_type_find(sw_slice_str(types[which])), in);
        lint(types[which], in);
    } else if (which == SW_ARRAY_LEN(types)) {
        discovery(in);
    } else {
        hooks((enum sw_extension_hook)(which - SW_ARRAY_LEN(types) - 1), in);
    }
    return 0;
}
