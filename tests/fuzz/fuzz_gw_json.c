/* SPDX-License-Identifier: Apache-2.0 */
/* JSON into wire format: what is accepted decodes, and comes back to the same bytes. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "proto/json.h"
#include "proto/pb.h"
#include "proto/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const types[] = {SW_TYPE_LISTENER, SW_TYPE_ROUTE, SW_TYPE_CLUSTER,
                                        SW_TYPE_ENDPOINT, SW_TYPE_SECRET};
    SW_ARENA_AUTO a = {0};
    const struct ProtobufCMessageDescriptor *d;
    struct sw_json *v;
    struct sw_slice one;
    struct sw_slice two;
    struct ProtobufCMessage *m;
    struct sw_err err = {0};

    if (n < 1)
        return 0;
    d = sw_pb_type_find(sw_slice_str(types[data[0] % 5]));
    if (sw_json_parse(&a, sw_slice(data + 1, n - 1), &(struct sw_json_opts){.max_depth = 60}, &v,
                      NULL) != SW_OK)
        return 0;
    if (sw_pb_from_json(&a, d, v, &one, &err) != SW_OK) {
        assert(err.msg[0]);
        return 0;
    }
    m = sw_pb_unpack(&a, d, one, NULL, &err);
    if (!m) /* deeper or larger than we take */
        return 0;
    assert(sw_pb_from_json(&a, d, sw_pb_to_json(&a, m, true), &two, &err) == SW_OK);
    assert(sw_slice_eq(two, sw_pb_pack(&a, m)));
    return 0;
}
