/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/peer.h"

#include <stdatomic.h>
#include <stdbool.h>

#include "base/def.h"
#include "base/mem.h"

/* One allocation: this, then what its pointers point to. */
struct peer {
    atomic_uint refs;
    struct sw_tls_peer pub;
};

static struct peer *peer_of(const struct sw_tls_peer *p)
{
    return SW_CONTAINER_OF((struct sw_tls_peer *)(uintptr_t)p, struct peer, pub);
}

struct sw_tls_peer *sw_peer_new(size_t extra, void **ret_room)
{
    struct peer *p = sw_calloc(1, sizeof(*p) + extra);

    atomic_init(&p->refs, 1);
    *ret_room = p + 1;
    return &p->pub;
}

const struct sw_tls_peer *sw_peer_ref(const struct sw_tls_peer *p)
{
    atomic_fetch_add_explicit(&peer_of(p)->refs, 1, memory_order_relaxed);
    return p;
}

const struct sw_tls_peer *sw_peer_unref(const struct sw_tls_peer *p)
{
    if (p && atomic_fetch_sub_explicit(&peer_of(p)->refs, 1, memory_order_acq_rel) == 1)
        sw_free(peer_of(p));
    return NULL;
}

const struct sw_tls_peer_id *sw_tls_peer_identity(const struct sw_tls_peer *p)
{
    return p && p->n_ids == 1 && !p->several ? &p->ids[0] : NULL;
}
