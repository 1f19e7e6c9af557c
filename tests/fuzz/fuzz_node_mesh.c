/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes as resources of a mesh control plane, or as a stored state: refused with a reason, or a
 * snapshot that holds together and that, written and read again, is the same. The first byte
 * chooses: an Address, an Authorization, or a stored file. Resources are called what they call
 * themselves, or hardly any would be accepted; several may follow each other, each with a length
 * byte in front, and those of odd length are removed again.
 */
#include <string.h>

#include "mesh_state.h"
#include "node/mesh/mesh.h"
#include "node/mesh/store.h"
#include "proto/pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A field of a message by its number; empty when it is not there. */
static struct sw_slice field(struct sw_slice in, uint32_t number)
{
    struct sw_slice found = {0};
    struct sw_pb_field f;

    while (in.n && sw_pb_next(&in, &f) == SW_OK) {
        if (f.number == number && f.bytes.p)
            found = f.bytes;
    }
    return found;
}

static struct sw_slice join(struct sw_arena *a, struct sw_slice x, struct sw_slice y)
{
    return sw_slice_str(sw_arena_printf(a, "%.*s/%.*s", SW_SLICE_ARG(x), SW_SLICE_ARG(y)));
}

static struct sw_slice address_name(struct sw_arena *a, struct sw_slice value)
{
    struct sw_slice workload = field(value, 1);
    struct sw_slice service = field(value, 2);

    return workload.p ? field(workload, 20) : join(a, field(service, 2), field(service, 3));
}

static void put(struct sw_state_builder *b, bool policy, struct sw_slice value)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct sw_mesh_item it = {.version = SW_SLICE_LIT("v1"), .value = value};
    int rc;

    it.name = policy ? join(&a, field(value, 2), field(value, 1)) : address_name(&a, value);
    rc = policy ? sw_mesh_put_policy(b, &it, &a, &err) : sw_mesh_put_address(b, &it, &a, &err);
    assert((rc == SW_OK) == (err.msg[0] == '\0'));
    if (rc == SW_OK && value.n % 2)
        assert(policy ? sw_state_remove_policy(b, it.name) : sw_mesh_remove_address(b, it.name));
}

static struct sw_slice written(struct sw_buf *out, const struct sw_state *s)
{
    int rc = sw_mesh_stored_write(s, out);

    assert(rc == SW_OK);
    return sw_buf_slice(out);
}

/* What is written makes the same again: as many records, and as many bytes. */
static void round_trip(const struct sw_state *s)
{
    SW_BUF_AUTO first = {.max = 64 << 20};
    SW_BUF_AUTO second = {.max = 64 << 20};
    struct sw_state_builder *b = sw_state_builder_new(sw_slice("", 0), true);
    struct sw_err err = {0};
    int rc = sw_mesh_stored_read(written(&first, s), b, &err);
    struct sw_state *again = sw_state_finish(b);

    assert(rc == SW_OK);
    assert(sw_state_workload_count(s) == sw_state_workload_count(again));
    assert(sw_state_service_count(s) == sw_state_service_count(again));
    assert(sw_state_policy_count(s) == sw_state_policy_count(again));
    assert(written(&second, again).n == sw_buf_len(&first));
    check_state(again);
    (void)sw_state_unref(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct sw_state_builder *b;
    struct sw_slice in = sw_slice(data, n);
    struct sw_err err = {0};
    struct sw_state *s;
    int rc = SW_OK;

    if (n == 0 || n > 1 << 16)
        return 0;
    b = sw_state_builder_new(sw_slice("", 0), true);
    in = sw_slice_from(in, 1);
    if (data[0] % 3 == 2) {
        rc = sw_mesh_stored_read(in, b, &err);
        assert((rc == SW_OK) == (err.msg[0] == '\0'));
        in.n = 0;
    }
    while (in.n) {
        size_t len = (uint8_t)in.p[0];

        in = sw_slice_from(in, 1);
        len = len == 255 ? in.n : sw_min(len, in.n);
        put(b, data[0] % 3 == 1, sw_slice_head(in, len));
        in = sw_slice_from(in, len);
    }
    s = sw_state_finish(b);
    check_state(s);
    if (rc == SW_OK)
        round_trip(s);
    (void)sw_state_unref(s);
    return 0;
}
