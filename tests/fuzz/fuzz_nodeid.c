/* SPDX-License-Identifier: Apache-2.0 */
/* Every text form of an accepted NodeID is accepted, and leads back to it. */
#include <assert.h>
#include <stdint.h>

#include "quic/id/nodeid.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    struct sw_slice in = sw_slice(p, n);
    struct sw_nodeid id;
    struct sw_nodeid back;
    char hex[SW_NODEID_HEX];
    char b32[SW_NODEID_B32];

    if (n == SW_NODEID_LEN) {
        memcpy(id.b, p, n);
        if (!sw_nodeid_valid(&id))
            return 0;
    } else if (sw_nodeid_parse(in, &id, NULL) != SW_OK &&
               sw_nodeid_parse_z32(in, &id, NULL) != SW_OK) {
        return 0;
    }
    assert(sw_nodeid_parse(sw_slice_str(sw_nodeid_hex(&id, hex)), &back, NULL) == SW_OK);
    assert(sw_nodeid_eq(&id, &back));
    assert(sw_nodeid_parse(sw_slice_str(sw_nodeid_b32(&id, b32)), &back, NULL) == SW_OK);
    assert(sw_nodeid_eq(&id, &back));
    assert(sw_nodeid_parse_z32(sw_slice_str(sw_nodeid_z32(&id, b32)), &back, NULL) == SW_OK);
    assert(sw_nodeid_eq(&id, &back));
    return 0;
}
