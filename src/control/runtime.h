/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a controller: watches its kinds, gives an immutable view of them to a pure function, and
 * brings what that wants into the world. Published resources go out on every replica; writes to
 * the API (child objects, statuses, deletions) are the leader's. A change is built at once when
 * things are quiet; under load changes gather while a build runs.
 *
 * The loop's thread owns everything here but the build itself, which may run on a thread of its
 * own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "base/slice.h"
#include "kube/client/client.h"
#include "kube/client/informer.h"

struct sw_control;
struct sw_view;
struct sw_output;

enum {
    SW_CONTROL_KINDS_MAX = 64,
    SW_CONTROL_TROUBLES_MAX = 4096, /* that Events are, or may be due for, at once */
};

/* A kind to watch. All borrowed for the life of the runtime. */
struct sw_control_kind {
    const struct sw_kube_gvr *gvr;
    /* Where the API does not serve gvr: older versions, newest first, then NULL. May be NULL. */
    const struct sw_kube_gvr *const *older;
    bool optional; /* the API may not have it: then there are none */
    bool needed;   /* the same, but the process is not ready until it does (sw_kube_synced) */
    /*
     * What the build wants to see; the rest neither enters the view nor causes a build. NULL: all.
     * Must depend on the object only. Selectors narrow the watch itself, where most objects of a
     * kind will never matter (NULL: none).
     */
    bool (*relevant)(const struct sw_kube_obj *o);
    bool forget; /* of what is not relevant only the name is kept: nothing may be applied to it */
    const char *label_selector;
    const char *field_selector;
    /*
     * The build does not look at status but to see whether it has to be written: an update that
     * only brings the status this controller wanted causes no build.
     */
    bool own_status;
    bool managed;        /* keep metadata.managedFields: the times in it are the API's */
    const char *manager; /* field manager of statuses; NULL: the controller's name */
};

/* ---- the view: what the build reads; may be read from any thread ---- */

/* Objects of a kind (by its index), ordered by namespace and name. */
size_t sw_view_count(const struct sw_view *v, size_t kind);
const struct sw_kube_obj *sw_view_at(const struct sw_view *v, size_t kind, size_t i);
/* All of them; NULL when there are none. For SW_VIEW_EACH, which visits each in turn. */
const struct sw_kube_obj *const *sw_view_all(const struct sw_view *v, size_t kind);
#define SW_VIEW_EACH(it, v, kind)                                                                  \
    for (const struct sw_kube_obj *it, *const *sw_at_##it = sw_view_all((v), (kind));              \
         sw_at_##it && sw_at_##it < sw_view_all((v), (kind)) + sw_view_count((v), (kind)) &&       \
         (it = *sw_at_##it, true);                                                                 \
         sw_at_##it++)
/* NULL when there is none. ns is empty for kinds without namespaces. */
const struct sw_kube_obj *sw_view_find(const struct sw_view *v, size_t kind, struct sw_slice ns,
                                       struct sw_slice name);
/* False when the API does not have the kind, in any version. */
bool sw_view_served(const struct sw_view *v, size_t kind);
/*
 * The resource version up to which the view has seen this kind; 0: not known. What happened to its
 * objects up to then is in the view.
 */
uint64_t sw_view_revision(const struct sw_view *v, size_t kind);
/* What sw_control_set_input gave last. */
struct sw_slice sw_view_input(const struct sw_view *v);
/* Wall clock when the view was made: an input like any other. 0 unless the controller is timed. */
uint64_t sw_view_wall_ns(const struct sw_view *v);
/*
 * Wall clock since which changes are followed without a gap: when the first view was complete, or
 * the API answered again. What ran out before may only look so. 0 unless the controller is timed.
 */
uint64_t sw_view_since_ns(const struct sw_view *v);

/* ---- the output: what the build writes ---- */

/* Memory for the build, gone when the output is. */
struct sw_arena *sw_out_arena(struct sw_output *out);
/*
 * A resource for the data plane, or for the controller itself. kind tells the controller what it
 * is: a literal, or text in the output's arena. A name given twice within a kind keeps the first.
 * Name and bytes are copied.
 */
void sw_out_publish(struct sw_output *out, const char *kind, struct sw_slice name,
                    struct sw_slice bytes);
/* What an operator should read once, published as kind SW_OUT_NOTE. reason is a literal. */
#define SW_OUT_NOTE "note"
void sw_out_note(struct sw_output *out, const char *reason, struct sw_slice subject,
                 struct sw_slice text);
/*
 * An object that shall exist with at least these fields (server-side apply, forced: they are ours).
 * obj lives in the output's arena and has metadata.name (and namespace), apiVersion and kind.
 */
void sw_out_apply(struct sw_output *out, size_t kind, const struct sw_json *obj);
/* Status of an object of the view; 'status' holds the members to set, whole. */
void sw_out_status(struct sw_output *out, size_t kind, const struct sw_kube_obj *of,
                   const struct sw_json *status);
/* A finalizer that an object of the view shall have, or have no more; others stay. */
void sw_out_finalizer(struct sw_output *out, size_t kind, const struct sw_kube_obj *of,
                      struct sw_slice finalizer, bool wanted);
/*
 * Something about an object of the view that people should know and that no status says: an Event,
 * once, if it is so in outputs for a while. One for each object and reason (a CamelCase word).
 */
void sw_out_notice(struct sw_output *out, size_t kind, const struct sw_kube_obj *of,
                   const char *reason, struct sw_slice text);
/* An object of the view that shall go. */
void sw_out_delete(struct sw_output *out, size_t kind, const struct sw_kube_obj *obj);
/*
 * The output holds until this time at most: then it is built anew. The earliest counts; for timed
 * controllers.
 */
void sw_out_expires(struct sw_output *out, uint64_t wall_ns);

/*
 * Must be pure: no I/O, no clock but the view's, no randomness, nothing remembered; equal views
 * give equal outputs, byte for byte. arg may only lead to constants.
 */
typedef void (*sw_build_fn)(const struct sw_view *v, struct sw_output *out, void *arg);

/*
 * A difference to what was published before; bytes.p == NULL: it is gone. Ordered by kind, reason
 * and name.
 */
struct sw_change {
    const char *kind;
    const char *reason; /* of a note; "" otherwise */
    struct sw_slice name;
    struct sw_slice bytes;
};

/* Of one leader among replicas, by a Lease. An empty name: we are alone and lead. */
struct sw_control_election {
    struct sw_slice ns;
    struct sw_slice name;
    struct sw_slice identity;
};

/* Without ns there is no election; identity may be NULL. All borrowed. */
struct sw_control_election sw_control_election(const char *ns, const char *name,
                                               const char *identity);

struct sw_control_opts {
    const char *name; /* field manager and log scope; a literal */
    const struct sw_control_kind *kinds;
    size_t n_kinds;
    sw_build_fn build;
    void *build_arg;
    /* From the loop, after a build that changed something. May be NULL. */
    void (*publish)(void *arg, const struct sw_change *changes, size_t n, uint64_t version);
    void *arg;
    /*
     * Last touch to a status right before it is written: what a pure build cannot know, the time.
     * Must leave a status that holds all of the one given. May be NULL.
     */
    const struct sw_json *(*stamp)(struct sw_arena *a, const struct sw_json *status,
                                   uint64_t wall_ns);
    bool threaded; /* build on a thread of its own */
    bool events;   /* write Events: notices, conditions that change, elections */
    bool timed;    /* views know the time, and outputs may expire */
    struct sw_control_election election;
    uint64_t max_gap_ns; /* longest pause between two builds under load [1 s] */
    size_t max_writes;   /* under way at once [16] */
};

/* NULL with SW_EINVAL. The client is borrowed and must outlive it. */
SW_NODISCARD struct sw_control *sw_control_new(struct sw_kube_client *c,
                                               const struct sw_control_opts *o, struct sw_err *err);
/* Waits for a build under way. The lease, if held, is left to expire (see sw_control_stop). */
void sw_control_free(struct sw_control *c);
void sw_control_start(struct sw_control *c);
/* Stops building and writing, gives the lease back; done (may be NULL) comes from the loop. */
void sw_control_stop(struct sw_control *c, void (*done)(void *arg), void *arg);
/* Something the build depends on besides objects: roots, settings. Copied; builds when different.
 */
void sw_control_set_input(struct sw_control *c, struct sw_slice input);

bool sw_control_synced(const struct sw_control *c);
bool sw_control_leading(const struct sw_control *c);
/* True when nothing is left to do: built, published and written. */
bool sw_control_idle(const struct sw_control *c);

struct sw_control_stats {
    uint64_t builds;
    uint64_t published; /* changes */
    uint64_t writes;    /* that the API accepted */
    uint64_t conflicts;
    uint64_t failures;       /* of writes */
    uint64_t held_back;      /* writes that had to wait: the object was written too often */
    uint64_t build_ns;       /* the last one took */
    uint64_t events;         /* written, repetitions too */
    uint64_t events_dropped; /* too many, or not allowed */
};
struct sw_control_stats sw_control_stats(const struct sw_control *c);
