/* SPDX-License-Identifier: Apache-2.0 */
#include "connector/peers.h"

#include <string.h>

void sw_peers_done(struct sw_peers *p)
{
    sw_vec_done(&p->ids);
}

/* Where id is, or would be. */
static size_t place(const struct sw_peers *p, const struct sw_nodeid *id, bool *ret_there)
{
    size_t lo = 0;
    size_t hi = p->ids.n;

    *ret_there = false;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = memcmp(p->ids.p[mid].b, id->b, SW_NODEID_LEN);

        if (c == 0) {
            *ret_there = true;
            return mid;
        }
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

int sw_peers_add(struct sw_peers *p, const struct sw_nodeid *id, struct sw_err *err)
{
    bool there;
    size_t at = place(p, id, &there);

    if (there)
        return SW_OK;
    if (p->ids.n >= SW_PEERS_MAX)
        return sw_err_set(err, SW_ELIMIT, "more than %d gateways", SW_PEERS_MAX);
    sw_vec_push(&p->ids, *id);
    memmove(p->ids.p + at + 1, p->ids.p + at, (p->ids.n - 1 - at) * sizeof(*p->ids.p));
    p->ids.p[at] = *id;
    return SW_OK;
}

size_t sw_peers_add_list(struct sw_peers *p, struct sw_slice list, struct sw_err *err)
{
    struct sw_slice rest = list;
    size_t bad = 0;

    while (rest.p) {
        struct sw_slice one = sw_slice_trim(sw_slice_cut(&rest, ','));
        struct sw_nodeid id;

        if (one.n == 0)
            continue;
        if (sw_nodeid_parse(one, &id, err) != SW_OK || sw_peers_add(p, &id, err) != SW_OK)
            bad++;
    }
    return bad;
}

bool sw_peers_has(const struct sw_peers *p, const struct sw_nodeid *id)
{
    bool there;

    (void)place(p, id, &there);
    return there;
}

bool sw_peers_equal(const struct sw_peers *a, const struct sw_peers *b)
{
    return a->ids.n == b->ids.n &&
           (a->ids.n == 0 || memcmp(a->ids.p, b->ids.p, a->ids.n * sizeof(*a->ids.p)) == 0);
}
