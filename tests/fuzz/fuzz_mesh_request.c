/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Delta requests for large types, read in place: nothing but the names in a request becomes a
 * subscription, and the stripped request unpacks like any other.
 */
#include <assert.h>
#include <stdint.h>

#include "base/mem.h"
#include "io/loop.h"
#include "proto/pb.h"
#include "proto/types.h"
#include "xds/server_int.h"

#include <proto/discovery.pb-c.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sw_xds_cache *make_cache(void)
{
    const struct sw_slice alias = SW_SLICE_LIT("n/10.0.0.1");
    const struct sw_slice service = SW_SLICE_LIT("s");
    const struct sw_xds_extra x = {
        .aliases = &alias, .n_aliases = 1, .services = &service, .n_services = 1};
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();

    assert(sw_xds_txn_set_extra(t, SW_TYPE_ADDRESS, SW_SLICE_LIT("a"), SW_SLICE_LIT("1"), &x,
                                NULL) == SW_OK);
    assert(sw_xds_txn_set(t, SW_TYPE_ADDRESS, SW_SLICE_LIT("s"), SW_SLICE_LIT("2"), NULL) == SW_OK);
    (void)sw_xds_cache_commit(c, t);
    return c;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sw_xds_cache *cache;
    static struct sw_xds_server server;
    struct xds_stream st = {.server = &server, .delta = true};
    const struct sw_pb_limits limits = {.bytes = 1 << 16, .memory = 1 << 21, .depth = 16};
    struct sw_slice msg = sw_slice(data, size);
    SW_ARENA_AUTO arena = {0};
    SW_BUF_AUTO rest = {.max = 1 << 16};
    SW_BUF_AUTO again = {.max = 1 << 16};
    const Sw__DeltaDiscoveryRequest *req;
    struct xds_sub *u;
    bool fresh;

    if (!cache) {
        cache = make_cache();
        server.loop = sw_loop_new(NULL);
        server.o.max_types = 4;
        server.o.max_names = 1000;
        sw_list_init(&server.streams);
    }
    (void)xds_request_is_large(msg);
    if (size > 1 << 16 || xds_request_strip(msg, &rest) != SW_OK)
        return 0;
    assert(xds_request_strip(sw_buf_slice(&rest), &again) == SW_OK);
    assert(sw_slice_eq(sw_buf_slice(&rest), sw_buf_slice(&again)));
    req = SW_PB_UNPACK(&arena, Sw__DeltaDiscoveryRequest, sw__delta_discovery_request,
                       sw_buf_slice(&rest), &limits, NULL);
    if (!req)
        return 0;
    assert(req->n_initial_resource_versions == 0);
    st.cache = cache;
    sw_list_init(&st.subs);
    u = xds_sub_get(&st, SW_SLICE_LIT(SW_TYPE_ADDRESS), &fresh);
    for (int i = 0; i < 2; i++) {
        int rc = xds_request_follow(u, req, msg, i == 0);

        assert(rc == SW_OK || rc == SW_ELIMIT || rc == SW_EPROTO);
        assert(st.n_names == u->names.n && st.n_names <= server.o.max_names);
    }
    xds_sub_free(u);
    assert(st.n_subs == 0 && st.n_names == 0);
    return 0;
}
