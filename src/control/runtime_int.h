/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtime's files share. Not for others. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "base/vec.h"
#include "control/runtime.h"
#include "kube/client/events.h"
#include "kube/client/lease.h"
#include "kube/client/workqueue.h"

/* The objects of one kind at one moment; shared by the views in which they did not change. */
struct view_kind {
    atomic_uint refs;
    size_t n;
    struct sw_kube_obj *objs[]; /* a reference each, ordered */
};

struct view_input {
    atomic_uint refs;
    size_t n;
    char text[];
};

struct sw_view {
    atomic_uint refs;
    size_t n;
    uint64_t wall_ns;
    uint64_t since_ns;
    uint64_t absent;                          /* a bit for each kind that the API does not have */
    uint64_t revisions[SW_CONTROL_KINDS_MAX]; /* that each kind has reached; 0: not known */
    struct view_input *input;
    struct view_kind *kinds[];
};

enum out_op {
    OUT_APPLY,
    OUT_STATUS,
    OUT_DELETE,
    OUT_FINALIZER,
};

/* Something to be written to the API. */
struct out_write {
    struct sw_slice id; /* "op|kind|ns/name", also the work queue's key */
    enum out_op op;
    size_t kind;
    struct sw_slice key;        /* of the object */
    const struct sw_json *json; /* finalizer: its name */
    bool drop;                  /* finalizer: shall go */
    struct sw_slice uid;        /* delete: of exactly this one */
};

/* Something that an Event shall say. */
struct out_notice {
    struct sw_slice id;
    size_t kind;
    const char *key;
    const char *reason;
    const char *text;
};

struct sw_output {
    struct sw_arena arena;
    struct sw_map published;           /* "kind|reason|name" -> struct sw_change in the arena */
    SW_VEC(struct out_write *) writes; /* in the order wanted */
    struct sw_map by_id;               /* the same */
    struct sw_map notices;             /* id -> struct out_notice in the arena */
    uint64_t expires_ns;               /* wall clock; 0: never */
};

struct sw_view *view_ref(struct sw_view *v);
void view_unref(struct sw_view *v);
struct view_kind *view_kind_new(struct sw_kube_obj **objs, size_t n);
void view_kind_unref(struct view_kind *k);
struct view_input *view_input_new(struct sw_slice s);
void view_input_unref(struct view_input *i);
/* Takes references to all parts. */
struct sw_view *view_new(struct view_kind *const *kinds, size_t n, struct view_input *input);

struct sw_output *output_new(void);
void output_free(struct sw_output *o);
/* Differences between two outputs' resources, ordered by name; old may be NULL. Caller frees. */
struct sw_change *output_diff(const struct sw_output *old, const struct sw_output *now,
                              size_t *ret_n);

/* True when every field of 'want' is in 'have' with that value; lists must be equally long. */
bool json_within(const struct sw_json *want, const struct sw_json *have);

enum { CONTROL_PATCH_MAX = 64 };

struct control_kind {
    struct sw_control *control;
    const struct sw_control_kind *def;
    struct sw_informer *informer;
    struct view_kind *current; /* NULL: to be made anew */
    /* Keys of what changed since 'current' was made; more than fit, and it is made anew. */
    char *changed[CONTROL_PATCH_MAX];
    size_t n_changed;
};

/* A build on its way; outlives the runtime when that is freed meanwhile. */
struct build_job {
    struct sw_msg msg;
    struct sw_control *control; /* NULL: the result is not wanted any more */
    struct sw_loop *loop;
    struct sw_view *view;
    struct sw_output *out;
    uint64_t took_ns;
    sw_build_fn build;
    void *build_arg;
};

/* What became of the last write of its id. */
struct write_state {
    struct sw_slice id; /* behind the struct */
    struct sw_control *control;
    struct sw_kube_call *call; /* under way */
    enum out_op op;            /* of it */
    uint64_t hash;             /* of what was written */
    char *seen_rv;             /* revision of the object when it was; NULL: none was there */
    uint64_t at_ns;
    bool settled;   /* the API accepted it and the watch has not shown it yet */
    bool no_change; /* the API accepted it and the object stayed as it was: it has not these fields
                     */
    bool echoed;    /* the watch showed the object while the write was under way */
    uint64_t pending_hash;
    uint64_t event_hash; /* of what Events were considered for */
    uint64_t spent_ns;   /* writes are paid for until then: see may_write */
    bool logged;         /* that it is written too often */
};

struct sw_control {
    struct sw_kube_client *client;
    struct sw_loop *loop;
    struct sw_control_opts o;
    struct control_kind *kinds;
    struct view_input *input;
    struct sw_lease *lease;
    struct sw_workqueue *queue; /* ids of writes to look at */
    struct sw_map states;       /* id -> struct write_state */
    size_t writing;
    struct sw_output *last; /* newest output */
    uint64_t version;
    struct sw_defer run;
    struct sw_timer gap;
    struct sw_timer expiry; /* of the newest output */
    struct build_job *job;  /* under way */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct build_job *inbox; /* for the thread, under the lock */
    bool thread_stop;
    bool thread_up;
    bool started;
    bool dirty;
    bool synced;
    bool leading;
    bool away;         /* the API does not answer: nothing expires */
    uint64_t since_ns; /* wall clock, see sw_view_since_ns */
    uint64_t built_ns; /* end of the last build, loop time */
    struct sw_control_stats stats;
    struct sw_recorder *recorder; /* NULL: no Events */
    struct sw_map troubles;       /* id -> struct trouble, see runtime_events.c */
    struct sw_list pending;       /* those not reported yet */
    struct sw_timer grace;        /* until the first of them is due */
    void (*stopped)(void *arg);
    void *stopped_arg;
};

/* runtime_events.c; all of it nothing without a recorder */
/* The output is new: its notices. */
void control_events_renew(struct sw_control *c);
/* A status is about to be written: conditions that it changes. */
void control_events_status(struct sw_control *c, const struct out_write *w,
                           const struct sw_kube_obj *o);
/* "became leader", "stopped leading" */
void control_events_election(struct sw_control *c, const char *what);
/* Not leading any more: another replica reports. */
void control_events_clear(struct sw_control *c);

/* runtime_write.c */
/* The output is new: looks at all its writes. */
void control_writes_renew(struct sw_control *c);
/* Takes ids off the queue while there is room for requests. */
void control_write_ready(struct sw_workqueue *q, void *arg);
/* The watch showed the object: what we wrote about it is not awaited any more. */
void control_write_seen(struct sw_control *c, size_t kind, struct sw_slice key);
/* True when the object's status is what the newest output wants, and it wants one. */
bool control_status_wanted(const struct sw_control *c, size_t kind, const struct sw_kube_obj *o);
void control_writes_abort(struct sw_control *c);
void control_writes_free(struct sw_control *c);
