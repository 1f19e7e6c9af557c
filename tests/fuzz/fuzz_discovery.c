/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests and responses of xDS: what is accepted has one encoding, memory and nesting stay in
 * their bounds. The first byte chooses the message.
 */
#include <assert.h>
#include <stdint.h>

#include "base/arena.h"
#include "proto/pb.h"

#include <proto/discovery.pb-c.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        &sw__discovery_request__descriptor,  &sw__delta_discovery_request__descriptor,
        &sw__discovery_response__descriptor, &sw__delta_discovery_response__descriptor,
        &sw__cluster_refs__descriptor,       &sw__struct__descriptor,
    };
    const struct sw_pb_limits limits = {.bytes = 1 << 16, .memory = 1 << 21, .depth = 16};
    const ProtobufCMessageDescriptor *type;
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    ProtobufCMessage *m;
    struct sw_slice once;

    if (size == 0)
        return 0;
    type = types[data[0] % SW_ARRAY_LEN(types)];
    m = sw_pb_unpack(&a, type, sw_slice(data + 1, size - 1), &limits, &err);
    assert(a.total < (size_t)8 << 20);
    if (!m) {
        assert(err.rc == SW_EPROTO || err.rc == SW_ELIMIT);
        return 0;
    }
    once = sw_pb_pack(&a, m);
    assert(once.n == sw_pb_size(m));
    /* Our own bytes are accepted, and stay what they are. */
    m = sw_pb_unpack(&a, type, once, &limits, &err);
    assert(m);
    assert(sw_slice_eq(once, sw_pb_pack(&a, m)));
    return 0;
}
