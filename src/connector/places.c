/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/places.h"

enum { GATEWAYS_MAX = SW_QUIC_PLACES_MAX };

struct gateway {
    struct sw_nodeid id;
    struct sw_slice addrs; /* left */
};

/* The next address of one gateway. */
static size_t take(struct gateway *g, struct sw_places *out, struct sw_err *err)
{
    struct sw_slice one = sw_slice_trim(sw_slice_cut(&g->addrs, ','));
    struct sw_quic_place *p = &out->p[out->n];

    if (one.n == 0)
        return 0;
    if (sw_addr_parse(one, &p->addr, err) != SW_OK)
        return 1;
    if (p->addr.port == 0)
        return (void)sw_err_set(err, SW_EINVAL, "port 0"), 1;
    p->id = g->id;
    out->n++;
    return 0;
}

size_t sw_places_read(struct sw_slice text, struct sw_places *ret, struct sw_err *err)
{
    struct gateway g[GATEWAYS_MAX];
    size_t n = 0;
    size_t bad = 0;
    bool more = true;

    ret->n = 0;
    while (text.p && n < GATEWAYS_MAX) {
        struct sw_slice addrs = sw_slice_trim(sw_slice_cut(&text, ';'));
        struct sw_slice id = sw_slice_trim(sw_slice_cut(&addrs, '='));

        if (id.n == 0 && !addrs.p)
            continue;
        if (sw_nodeid_parse(id, &g[n].id, err) != SW_OK) {
            bad++;
            continue;
        }
        g[n++].addrs = addrs;
    }
    while (more && ret->n < SW_QUIC_PLACES_MAX) {
        more = false;
        for (size_t i = 0; i < n && ret->n < SW_QUIC_PLACES_MAX; i++) {
            if (!g[i].addrs.p)
                continue;
            bad += take(&g[i], ret, err);
            more = true;
        }
    }
    return bad;
}
