/* SPDX-License-Identifier: Apache-2.0 */
/* The housekeeping controllers: their queue and the graph of owners. Not for others. */
#pragma once

#include "apiserver/api/api.h"
#include "base/vec.h"

enum gc_kind {
    GC_DEPENDENT,  /* an object with owners: are they still there? */
    GC_FOREGROUND, /* an owner that waits for its dependents */
    GC_ORPHAN,     /* an owner whose dependents shall be orphaned */
    GC_NAMESPACE,  /* a namespace: fill it when new, empty it when it goes */
    GC_CRD,        /* a CRD that goes: its objects first */
    GC_AGGREGATE,  /* cluster roles made of others */
    GC_TOKEN,      /* a Secret that shall hold a token of a service account */
    GC_QUOTA,      /* a ResourceQuota: what is used of it */
    GC_SLICES,     /* a Service with a selector: its EndpointSlices */
};

/* A task is done once per event, however many events queued it meanwhile. */
struct gc_task {
    struct sw_list link;
    struct sw_timer timer;
    struct api_gc *gc;
    enum gc_kind kind;
    struct sw_slice id; /* kind and key; owned, in the map */
    struct sw_slice key;
    bool queued;
    unsigned running; /* requests under way */
    unsigned failures;
    bool again; /* queued meanwhile */
};

struct gc_owner;
struct gc_pods;

/* An object that has owners. */
struct gc_dep {
    struct sw_slice key; /* owned */
    SW_VEC(struct gc_owner *) owners;
    SW_VEC(bool) blocks; /* blockOwnerDeletion, parallel */
};

/* A uid that ownerReferences name. */
struct gc_owner {
    struct sw_slice uid; /* owned */
    struct sw_slice key; /* owned: its own store key as the references say; may be empty */
    SW_VEC(struct gc_dep *) deps;
};

struct api_gc {
    struct sw_api *api;
    struct sw_store_watch watch;
    struct sw_map deps;   /* store key -> gc_dep */
    struct sw_map owners; /* uid -> gc_owner */
    struct sw_map tasks;  /* id -> gc_task */
    struct gc_pods *pods; /* endpoints of Services */
    struct sw_list queue;
    struct sw_defer run;
    struct sw_timer sweep;
};

void gc_queue(struct api_gc *g, enum gc_kind kind, struct sw_slice key);
/* The running task continues in so much time, unless it is queued before. */
void gc_later(struct gc_task *t, uint64_t ns);
/* Does the task; requests it makes count in t->running. */
void gc_run(struct gc_task *t);
/* The place of an object in the API; ns is empty where there is none. */
struct gc_at {
    const struct api_res *res; /* NULL: not served any more */
    struct sw_slice ns;
    struct sw_slice name; /* empty in requests that create */
};
/* What an owner reference is about; NULL: such a kind is not served. */
const struct api_res *gc_owner_res(const struct sw_api *api, const struct sw_json *ref);
/* That of a store key. */
struct gc_at gc_resolve(struct sw_api *api, struct sw_slice key);
/* The newest state of what is there, as a tree that owns its memory; NULL when gone. */
struct sw_json *gc_load(struct sw_api *api, struct sw_arena *a, const struct gc_at *at);
/* A request of the task, for a subresource unless sub is NULL; its end is accounted for. */
void gc_request(struct gc_task *t, enum api_verb verb, const struct gc_at *at, const char *sub,
                const struct sw_json *body);

/* --- gc_conditions.c: why a namespace is still there --- */

struct gc_count {
    const char *name;
    size_t n;
};

/* What is left in a namespace. */
struct gc_left {
    struct sw_arena *arena;
    SW_VEC(struct gc_count) kinds;      /* "widgets.lab.example.com" */
    SW_VEC(struct gc_count) finalizers; /* "example.com/hold" */
};

void gc_left_add(struct gc_left *l, const struct api_res *res, const struct sw_store_obj *o);
void gc_left_done(struct gc_left *l);
/* Puts the conditions into the namespace's status; true when something changed. */
bool gc_left_report(struct gc_left *l, struct sw_json *ns);

/* --- gc_quota.c --- */
/* An object came, changed or went: the quotas of its namespace count again. */
void gc_quota_changed(struct api_gc *g, struct sw_slice key);
void gc_run_quota(struct gc_task *t);

/* --- gc_tokens.c --- */

#define GC_TOKEN_TYPE "\"kubernetes.io/service-account-token\""
void gc_run_token(struct gc_task *t);
/* A service account is gone: its tokens go too. */
void gc_account_gone(struct api_gc *g, struct sw_slice ns);

/* --- endpoints.c --- */

/* An object was written, or is gone (now is NULL): the slices of Services may be others now. */
void gc_endpoints_changed(struct api_gc *g, struct sw_slice key, const struct sw_store_obj *now,
                          const struct sw_store_obj *was);
void gc_run_slices(struct gc_task *t);
