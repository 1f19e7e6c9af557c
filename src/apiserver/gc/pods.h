/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Services with selectors need to know of pods: a digest of each pod, by namespace, and the
 * selectors, so that a change of one pod finds its Services without reading any other object.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"

struct gc_pods;

struct gc_pods *gc_pods_new(void);
void gc_pods_free(struct gc_pods *p);

/*
 * The part of a pod that endpoints are made of, as JSON text in the arena: uid, node, labels,
 * addresses, ready, terminating, hostname, subdomain, named ports. Empty: the pod is none (it has
 * no address, or has ended).
 */
struct sw_slice gc_pod_digest(struct sw_arena *a, const struct sw_json *pod);

/* Called with the store key of each Service that is concerned. */
typedef void (*gc_service_fn)(void *arg, struct sw_slice key);
/* The digest of a pod, empty when it is gone; calls f for Services that select or selected it. */
void gc_pods_set(struct gc_pods *p, struct sw_slice ns, struct sw_slice name,
                 struct sw_slice digest, gc_service_fn f, void *arg);
/* The selector of a Service under its store key; NULL or empty: none. */
void gc_pods_set_service(struct gc_pods *p, struct sw_slice ns, struct sw_slice key,
                         const struct sw_json *selector);

/*
 * When the slices of a Service may be made again, in ns of sw_now_ns(): 0 at first, and the
 * caller's to set. NULL: the Service has no selector.
 */
uint64_t *gc_pods_pace(struct gc_pods *p, struct sw_slice ns, struct sw_slice key);

/* One pod: its name, and the digest as a tree. Both are borrowed. */
typedef void (*gc_pod_fn)(void *arg, struct sw_slice name, const struct sw_json *digest);
/* Calls f for the pods of a namespace that the selector selects; in no order. */
void gc_pods_select(const struct gc_pods *p, struct sw_slice ns, const struct sw_json *selector,
                    gc_pod_fn f, void *arg);
