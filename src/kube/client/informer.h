/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A local copy of all objects of one kind, kept current by list and watch. Handlers get every
 * change exactly once and in order; a server that restarts, closes, expires revisions or is
 * unreachable for a while only delays them. Everything runs on the loop's thread; the objects
 * themselves are immutable and may be read and released anywhere.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "kube/client/client.h"

/* One state of an object. Never changes; counted. */
struct sw_kube_obj {
    atomic_uint refs;
    struct sw_arena arena;
    const struct sw_json *json;
    struct sw_slice key; /* "namespace/name", or "name" without a namespace */
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice uid;
    struct sw_slice rv;
};

/* A copy of the tree; NULL when it has no name. */
struct sw_kube_obj *sw_kube_obj_new(const struct sw_json *json);
/* Takes over the arena (emptied) in which json lives; NULL, and the arena untouched, without a
 * name. */
struct sw_kube_obj *sw_kube_obj_take(struct sw_arena *arena, const struct sw_json *json);
/* A copy without metadata.managedFields, which is often most of an object; NULL without a name. */
struct sw_kube_obj *sw_kube_obj_slim(const struct sw_json *json);
/* Only what tells it apart: name, namespace, uid, resourceVersion; NULL without a name. */
struct sw_kube_obj *sw_kube_obj_stub(const struct sw_json *json);
struct sw_kube_obj *sw_kube_obj_ref(struct sw_kube_obj *o);
/* Accepts NULL; always returns NULL. */
struct sw_kube_obj *sw_kube_obj_unref(struct sw_kube_obj *o);

struct sw_informer;

/*
 * Borrowed objects: take a reference to keep one. The store already shows the new state. Handlers
 * must not stop or free the informer.
 */
struct sw_informer_cbs {
    /* A new state, whether the object was known or not: instead of the next two. */
    void (*set)(void *arg, struct sw_kube_obj *now);
    void (*add)(void *arg, struct sw_kube_obj *o);
    void (*update)(void *arg, struct sw_kube_obj *old, struct sw_kube_obj *now);
    void (*del)(void *arg, struct sw_kube_obj *last); /* its last known state */
    void (*synced)(void *arg);                        /* once; may be NULL */
    void (*opened)(void *arg); /* the server accepted a watch, also of an old store; may be NULL */
    /* The server began or ceased to serve the kind; may be NULL. */
    void (*presence)(void *arg);
};

/* Texts are copied, but for the gvr. */
struct sw_informer_opts {
    const struct sw_kube_gvr *gvr;
    /* Where gvr is not served: the same kind in older versions, newest first, then NULL. */
    const struct sw_kube_gvr *const *older;
    struct sw_slice ns; /* empty: all */
    const char *label_selector;
    const char *field_selector;
    uint32_t page;   /* objects per page of a list [500] */
    bool plain_list; /* do not request a streaming list first */
    bool optional;   /* a kind the server does not have (404) counts as empty, and is listed again
                        from time to time */
    bool needed;     /* the same, but see sw_kube_synced */
    bool slim;       /* keep objects without managedFields */
    bool eager;      /* while the API does not answer, try every second or two; for clients of which
                        there are few */
    /* Of others only stubs are kept, and handed out. NULL: all are wanted. */
    bool (*wanted)(const struct sw_kube_obj *o);
    /*
     * Objects are handed out and not kept, for kinds of which there may be a million: the store
     * knows names and revisions only. Handlers get each object as soon as it is read, also while a
     * list is under way; update's old is NULL, del's last may have nothing but a name. No
     * sw_informer_get, no sw_informer_list, no resync.
     */
    bool hollow;
    uint64_t resync_ns; /* repeat every object to update(o, o) so often; 0: never */
};

SW_NODISCARD struct sw_informer *sw_informer_new(struct sw_kube_client *c,
                                                 const struct sw_informer_opts *o,
                                                 const struct sw_informer_cbs *cbs, void *arg);
/* Before the client it uses. NULL is fine. */
void sw_informer_free(struct sw_informer *i);
void sw_informer_start(struct sw_informer *i);
/* The store stays as it is. */
void sw_informer_stop(struct sw_informer *i);

/* The version that is read now. */
const struct sw_kube_gvr *sw_informer_gvr(const struct sw_informer *i);
/* True when the server has no such kind, in none of the versions. */
bool sw_informer_absent(const struct sw_informer *i);
/* True once the store has been complete. */
bool sw_informer_synced(const struct sw_informer *i);
size_t sw_informer_count(const struct sw_informer *i);
/* Borrowed; NULL when there is none. */
struct sw_kube_obj *sw_informer_get(const struct sw_informer *i, struct sw_slice key);
/* All objects ordered by key, a reference each; the array (sw_free) is the caller's. */
size_t sw_informer_list(const struct sw_informer *i, struct sw_kube_obj ***ret);

/* For metrics and tests. */
struct sw_informer_stats {
    uint64_t lists;   /* complete replacements of the store, by list or stream */
    uint64_t watches; /* opened */
    uint64_t failures;
    uint64_t events;
};
struct sw_informer_stats sw_informer_stats(const struct sw_informer *i);
/* Revision the store has reached; empty before the first. */
struct sw_slice sw_informer_revision(const struct sw_informer *i);
