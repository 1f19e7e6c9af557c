/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ports of the fabric itself where data planes share its machine. A listener of any tenant's
 * Gateway that names one would take it as soon as its owner restarts, and keep it: the API would
 * not come back.
 */
#include "control/gateway/build/build_int.h"

enum { RANGES_MAX = 64 };

static int read_range(struct sw_slice item, struct sw_gateway_ports *ret, struct sw_err *err)
{
    struct sw_slice last = item;
    struct sw_slice first = sw_slice_cut(&last, '-');
    uint64_t from = 0;
    uint64_t to = 0;

    if (!sw_slice_to_u64(first, UINT16_MAX, &from) ||
        !sw_slice_to_u64(last.p ? last : first, UINT16_MAX, &to) || !from || to < from)
        return sw_err_set(err, SW_EINVAL, "'%.*s' is neither PORT nor FIRST-LAST",
                          SW_SLICE_ARG(sw_slice_head(item, 40)));
    *ret = (struct sw_gateway_ports){(uint16_t)from, (uint16_t)to};
    return SW_OK;
}

int sw_gateway_ports_parse(struct sw_arena *a, struct sw_slice in, struct sw_gateway_ports **ret,
                           size_t *ret_n, struct sw_err *err)
{
    struct sw_gateway_ports *p = sw_arena_array(a, RANGES_MAX, sizeof(*p));
    size_t n = 0;

    while (in.p && in.n) {
        int rc = n == RANGES_MAX
                     ? sw_err_set(err, SW_ELIMIT, "more than %d ranges of ports", RANGES_MAX)
                     : read_range(sw_slice_trim(sw_slice_cut(&in, ',')), &p[n++], err);

        if (rc != SW_OK)
            return rc;
    }
    *ret = p;
    *ret_n = n;
    return SW_OK;
}

bool port_reserved(const struct builder *b, uint16_t bind_port)
{
    for (size_t i = 0; i < b->conf->n_reserved; i++) {
        const struct sw_gateway_ports *p = &b->conf->reserved[i];

        if (bind_port >= p->first && bind_port <= p->last)
            return true;
    }
    return false;
}
