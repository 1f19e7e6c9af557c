/* SPDX-License-Identifier: Apache-2.0 */
/* Packets of the node agent and the node proxy: what is understood survives being written again. */
#include <assert.h>

#include "zds/zds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_request(struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    struct sw_zds_request r;
    struct sw_zds_request again;
    struct sw_slice out;

    if (sw_zds_request_decode(&a, in, &r, NULL) != SW_OK)
        return;
    assert(sw_zds_request_encode(&a, &r, &out, NULL) == SW_OK);
    assert(sw_zds_request_decode(&a, out, &again, NULL) == SW_OK);
    assert(r.kind == again.kind && sw_slice_eq(r.uid, again.uid) && sw_slice_eq(r.ns, again.ns) &&
           sw_slice_eq(r.name, again.name) && sw_slice_eq(r.sa, again.sa));
    assert(r.kind == SW_ZDS_SNAPSHOT || r.uid.n > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice in = sw_slice(data, n);
    struct sw_slice error;

    check_request(in);
    (void)!sw_zds_response_decode(&a, in, &error, NULL);
    (void)!sw_zds_hello_decode(&a, in, NULL);
    return 0;
}
