/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The resources an xDS server offers, by type URL and name. Each is encoded once, has a hash of
 * its content as version and is shared by all streams; a type's set of resources is an immutable
 * snapshot that is replaced as a whole, so a slow client keeps at most one old one alive.
 *
 * A type may be kept once more for some clients only, as "VIEW#" and the type URL: its resources
 * are of that type all the same. A server looks types up under the view of a client (server.h).
 *
 * A transaction may be filled on any thread; everything else belongs to the thread of the loop on
 * which the server runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/def.h"
#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "xds/res.h"
#include "xds/txn.h"

#define SW_XDS_URL      "type.googleapis.com/"
#define SW_XDS_LISTENER SW_XDS_URL "envoy.config.listener.v3.Listener"
#define SW_XDS_ROUTE    SW_XDS_URL "envoy.config.route.v3.RouteConfiguration"
#define SW_XDS_SCOPED   SW_XDS_URL "envoy.config.route.v3.ScopedRouteConfiguration"
#define SW_XDS_VHOST    SW_XDS_URL "envoy.config.route.v3.VirtualHost"
#define SW_XDS_CLUSTER  SW_XDS_URL "envoy.config.cluster.v3.Cluster"
#define SW_XDS_ENDPOINT SW_XDS_URL "envoy.config.endpoint.v3.ClusterLoadAssignment"
#define SW_XDS_SECRET   SW_XDS_URL "envoy.extensions.transport_sockets.tls.v3.Secret"
#define SW_XDS_RUNTIME  SW_XDS_URL "envoy.service.runtime.v3.Runtime"
#define SW_XDS_EXTCONF  SW_XDS_URL "envoy.config.core.v3.TypedExtensionConfig"

/* Behind a view: has a resource once the view is complete. */
#define SW_XDS_VIEW "view"

enum {
    SW_XDS_VIEW_MAX = 40 /* bytes of a view's name, with the end */
};

struct sw_xds_cache;
struct xds_table;

/* All resources of one type at one moment, sorted by name. Immutable. */
struct sw_xds_snap {
    unsigned refs;
    size_t n;
    struct sw_xds_res **res;              /* a reference each */
    char version[SW_XDS_VERSION_LEN + 1]; /* hash over names and versions */
};

struct sw_xds_snap *sw_xds_snap_ref(struct sw_xds_snap *s);
/* Accepts NULL. */
void sw_xds_snap_unref(struct sw_xds_snap *s);
/* Puts another one, or NULL, in its place; the reference goes along. */
static inline void sw_xds_snap_set(struct sw_xds_snap **p, struct sw_xds_snap *now)
{
    sw_xds_snap_unref(*p);
    *p = now;
}
/* NULL when there is none. */
struct sw_xds_res *sw_xds_snap_get(const struct sw_xds_snap *s, struct sw_slice name);
/* b and what of a is not in b: a reference (to b itself when nothing is missing). */
struct sw_xds_snap *sw_xds_snap_union(const struct sw_xds_snap *a, struct sw_xds_snap *b);

/* --- changing --- */

/* What a commit did. */
struct sw_xds_diff {
    size_t added;
    size_t changed;
    size_t removed;
};

SW_NODISCARD struct sw_xds_cache *sw_xds_cache_new(void);
/* Streams served from it end. NULL is fine. */
void sw_xds_cache_free(struct sw_xds_cache *c);
/*
 * Applies and frees the transaction: types it speaks of change, others are kept. Streams are
 * notified once, however many types changed; resources with equal content keep their identity, so a
 * commit that changes nothing has no consequences.
 */
struct sw_xds_diff sw_xds_cache_commit(struct sw_xds_cache *c, struct sw_xds_txn *t);
/*
 * Makes the set of type 'to' those of 'from' with these names (sorted; others are passed over),
 * without copying them. Streams are notified if it changed anything.
 */
void sw_xds_cache_subset(struct sw_xds_cache *c, const char *to, const char *from,
                         const struct sw_slice *names, size_t n);
/*
 * Borrowed, until the next commit; never NULL: an unknown type has an empty snapshot, and so has
 * one that is kept as a table.
 */
struct sw_xds_snap *sw_xds_cache_get(const struct sw_xds_cache *c, struct sw_slice type);
/* Resources of a large type (table.h), as long as the cache. NULL: not such a type, or not yet. */
struct xds_table *sw_xds_cache_table(const struct sw_xds_cache *c, struct sw_slice type);
/*
 * The cache has resources of this type, or will have. Once any type is offered, requests for others
 * are refused. type is without a view.
 */
void sw_xds_cache_offer(struct sw_xds_cache *c, const char *type);
bool sw_xds_cache_offers(const struct sw_xds_cache *c, struct sw_slice type);
/*
 * Resources of a large type will come with a commit, and until then are not known: streams that
 * subscribe to them end with UNAVAILABLE.
 */
void sw_xds_cache_await(struct sw_xds_cache *c, const char *type);
bool sw_xds_cache_awaits(const struct sw_xds_cache *c, struct sw_slice type);
/*
 * While held, streams get no responses: for a server that listens before its first content is
 * there, lest clients that reconnect receive the removal of everything. Not held at first.
 */
void sw_xds_cache_hold(struct sw_xds_cache *c, bool hold);
bool sw_xds_cache_held(const struct sw_xds_cache *c);
/* Commits that changed something. */
uint64_t sw_xds_cache_generation(const struct sw_xds_cache *c);

/* --- listening --- */

/* Embedded in objects that follow commits; callbacks may not commit. */
struct sw_xds_listener {
    struct sw_list link;
    void (*on_change)(struct sw_xds_listener *l);
    void (*on_gone)(struct sw_xds_listener *l); /* the cache is being freed */
};
void sw_xds_cache_listen(struct sw_xds_cache *c, struct sw_xds_listener *l);
/* Idempotent. */
void sw_xds_cache_unlisten(struct sw_xds_listener *l);
