/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of an HTTPProxy. Its finalizer holds it until everything that was made for it is on its
 * way out, so that nothing serves a name without an owner. What is still there is read from
 * the API each time: a controller that restarts half way resumes there.
 */
#include "control/connector/proxy_int.h"

/* Whatever we made of one kind goes. Returns how much is not going yet. */
static size_t sweep(struct hp *h, size_t kind)
{
    size_t left = 0;

    SW_VIEW_EACH (o, h->v, kind) {
        /* Others' finalizers on a child are their business, not a reason to wait for ever. */
        if (!sw_slice_eq(o->ns, h->obj->ns) || !cn_owned_by(o, h->obj->uid) || cn_deleting(o))
            continue;
        sw_out_delete(h->out, kind, o);
        left++;
    }
    return left;
}

void hp_cleanup(struct hp *h)
{
    static const size_t kinds[] = {SW_HP_ROUTE,   SW_HP_TCPROUTE, SW_HP_TLSROUTE,
                                   SW_HP_PATCH,   SW_HP_GATEWAY,  SW_HP_SLICE,
                                   SW_HP_BACKEND, SW_HP_SECRET,   SW_HP_CA};
    size_t left = 0;

    if (!cn_has_finalizer(h->obj, SW_SLICE_LIT(SW_CONNECTOR_PROXY_CLEANUP)))
        return; /* garbage collection does the rest */
    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++)
        left += sweep(h, kinds[i]);
    if (!left)
        sw_out_finalizer(h->out, SW_HP_PROXY, h->obj, SW_SLICE_LIT(SW_CONNECTOR_PROXY_CLEANUP),
                         false);
}
