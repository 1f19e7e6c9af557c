/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the gateways are, for devices behind NATs: they send there first, so that their NAT lets
 * the gateways' packets in. The gateways' own word, in the namespace where tenants cannot write;
 * what cannot be an address of another machine is left out.
 */
#include "control/connector/connector_int.h"
#include "quic/id/addrs.h"

enum {
    GATEWAYS_MAX = 16, /* named to a device; it needs no more to be reached */
    ADDRS_MAX = 4,     /* of each */
};

/* "ADDR,ADDR" of a registration, as far as it makes sense. */
static size_t put_addrs(struct sw_buf *out, struct sw_slice list)
{
    size_t n = 0;

    while (list.p && n < ADDRS_MAX) {
        struct sw_slice one = sw_slice_trim(sw_slice_cut(&list, ','));
        char text[SW_ADDR_TEXT];
        struct sw_addr a;

        if (sw_addr_parse(one, &a, NULL) != SW_OK || !a.port ||
            sw_addr_reach(&a.ip) > SW_REACH_PRIVATE)
            continue;
        if (sw_buf_printf(out, "%s%s", n ? "," : "", sw_addr_text(&a, text)) != SW_OK)
            break;
        n++;
    }
    return n;
}

struct sw_slice cn_gateway_addresses(const struct sw_view *v, struct sw_arena *a)
{
    SW_BUF_AUTO all = {.max = (size_t)GATEWAYS_MAX * (SW_NODEID_HEX + ADDRS_MAX * SW_ADDR_TEXT)};
    size_t n = 0;

    for (size_t i = 0; i < sw_view_count(v, SW_CN_IDENTITY) && n < GATEWAYS_MAX; i++) {
        const struct sw_kube_obj *o = sw_view_at(v, SW_CN_IDENTITY, i);
        struct sw_slice id = sw_json_str(sw_json_walk(o->json, "data", "id", NULL));
        SW_BUF_AUTO addrs = {.max = (size_t)ADDRS_MAX * SW_ADDR_TEXT};
        struct sw_nodeid node;

        if (!sw_slice_eq_str(o->ns, SW_CONNECTOR_SYSTEM_NS) || cn_deleting(o) ||
            id.n != SW_NODEID_HEX - 1 || sw_nodeid_parse(id, &node, NULL) != SW_OK ||
            !put_addrs(&addrs, sw_json_str(sw_json_walk(o->json, "data", "addresses", NULL))))
            continue;
        if (sw_buf_printf(&all, "%s%.*s=%.*s", n ? ";" : "", SW_SLICE_ARG(id),
                          SW_SLICE_ARG(sw_buf_slice(&addrs))) != SW_OK)
            break;
        n++;
    }
    return sw_arena_slice(a, sw_buf_slice(&all));
}
