/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Revisioned objects on SQLite: one increasing revision for every change of every object, the
 * current state and a window of recent changes in memory, a durable log below. One thread writes
 * and commits in groups; readers use immutable snapshots and never wait for a commit.
 *
 * Keys are opaque bytes ordered bytewise, values are opaque bytes. An acknowledged write survives
 * a crash (with durable sync also power loss). A revision is never given out twice, not even
 * after a restore from a backup: a restored store continues far above the backup and counts
 * everything before as compacted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/slice.h"
#include "store/object.h"

struct sw_loop;
struct sw_store;
struct sw_store_snap;
struct sw_store_feed;

/* Results of the store beside those of base/err.h. */
enum sw_store_rc {
    SW_STORE_EXISTS = -40,   /* create: there is an object with this key */
    SW_STORE_CONFLICT = -41, /* the object has another revision than expected */
    SW_STORE_TOO_OLD = -42,  /* the revision was compacted away */
    SW_STORE_TOO_NEW = -43,  /* the revision has not happened yet */
    SW_STORE_LOCKED = -44,   /* another process has the file open */
};

/* ---- opening ---- */

struct sw_store_opts {
    bool relaxed_sync;          /* synchronous=NORMAL: power loss may take the last commits */
    bool skip_check;            /* no SQLite page check at open; rows are verified anyway */
    size_t max_key;             /* bytes; 0 = 1024 */
    size_t max_value;           /* bytes; 0 = 8 MiB */
    size_t max_queue;           /* writes waiting; 0 = 4096 */
    size_t max_queue_bytes;     /* 0 = 64 MiB */
    size_t max_batch;           /* writes per commit; 0 = 512 */
    uint64_t keep_ms;           /* changes this young are kept; 0 = 5 min */
    size_t keep_events;         /* and older ones while there are no more than this; 0 = 10000 */
    size_t keep_bytes;          /* and no larger than this together; 0 = 4 MiB */
    size_t max_events;          /* but never more than this, however young; 0 = 100000 */
    size_t max_bytes;           /* nor larger than this; 0 = 128 MiB */
    uint64_t compact_every_ms;  /* how often the age is looked at; 0 = 30 s */
    uint64_t (*clock_ms)(void); /* wall clock; NULL = the real one */
};

/*
 * Opens or creates the store, loads and verifies everything, starts the writer. opts may be NULL.
 *
 * Returns NULL with err: SW_STORE_LOCKED when another process has it, SW_EINVAL when the file is
 * not a store, is damaged or comes from a newer version, SW_ESYS for system errors. A file that is
 * refused is left as it is.
 */
SW_NODISCARD struct sw_store *sw_store_open(const char *path, const struct sw_store_opts *opts,
                                            struct sw_err *err);
/*
 * Commits what is queued, ends the writer, closes the file. Completions that were not delivered
 * yet are still posted to their loops. All feeds must be gone; snapshots may outlive the store.
 */
void sw_store_close(struct sw_store *s);

struct sw_store_stats {
    uint64_t revision; /* of the last durable change */
    uint64_t floor;    /* changes up to here are compacted */
    uint64_t epoch;    /* restores this store went through */
    uint64_t objects;
    uint64_t events;      /* in the window */
    uint64_t event_bytes; /* keys and values of their objects */
    uint64_t queued;
    uint64_t writes;  /* durable changes since the start */
    uint64_t commits; /* transactions they took */
    uint64_t largest_batch;
    uint64_t refused; /* writes turned away because the queue was full */
    uint64_t failed;  /* writes lost to database errors (and reported so) */
};
void sw_store_stats(struct sw_store *s, struct sw_store_stats *ret);

/* ---- writing ---- */

enum sw_store_verb {
    SW_STORE_CREATE,  /* refused when the key exists */
    SW_STORE_UPDATE,  /* refused when the key does not exist or has another revision */
    SW_STORE_PUT,     /* creates or replaces */
    SW_STORE_DELETE,  /* as UPDATE; a value given is the final state shown in the event */
    SW_STORE_COMPACT, /* forgets the changes up to 'expect' */
};

struct sw_store_result {
    int rc;
    uint64_t revision;         /* the change, when rc is SW_OK */
    struct sw_store_obj *obj;  /* borrowed: the version written; for SW_STORE_EXISTS and
                                  SW_STORE_CONFLICT the one that is there; NULL after a deletion */
    struct sw_store_obj *prev; /* borrowed: the version replaced or deleted, or NULL */
    const char *msg;           /* for people, when rc is not SW_OK */
};

typedef void (*sw_store_done_cb)(void *arg, const struct sw_store_result *r);

struct sw_store_write {
    enum sw_store_verb verb;
    struct sw_slice key;   /* copied */
    struct sw_slice value; /* copied */
    uint64_t expect;       /* UPDATE, PUT, DELETE: revision the object must have; 0 = any */
    struct sw_loop *loop;  /* where cb runs; NULL = on the writer thread, which it then delays */
    sw_store_done_cb cb;   /* once, after the commit is durable; may be NULL */
    void *arg;
};

/*
 * Queues a write, from any thread. Writes take effect in the order they are queued.
 * SW_ELIMIT when the queue is full, SW_EINVAL for an empty or too long key or value, SW_ECLOSED
 * while closing; cb is not called then.
 */
SW_NODISCARD int sw_store_submit(struct sw_store *s, const struct sw_store_write *w,
                                 struct sw_err *err);

/* ---- reading: any thread, never waits for the writer ---- */

/* The newest durable state. */
struct sw_store_snap *sw_store_snapshot(struct sw_store *s);
/*
 * The state as it was right after 'revision'. SW_STORE_TOO_OLD when it is compacted away (answer
 * 410 and offer to continue at the newest state), SW_STORE_TOO_NEW when it is in the future.
 */
SW_NODISCARD int sw_store_snapshot_at(struct sw_store *s, uint64_t revision,
                                      struct sw_store_snap **ret, struct sw_err *err);
struct sw_store_snap *sw_store_snap_ref(struct sw_store_snap *n);
struct sw_store_snap *sw_store_snap_unref(struct sw_store_snap *n); /* returns NULL */
uint64_t sw_store_snap_revision(const struct sw_store_snap *n);
/* Borrowed from the snapshot; NULL when there is none. */
struct sw_store_obj *sw_store_snap_get(const struct sw_store_snap *n, struct sw_slice key);
/* How many keys begin with prefix and are not below 'from' (empty: from the start). O(log n). */
size_t sw_store_snap_count(const struct sw_store_snap *n, struct sw_slice prefix,
                           struct sw_slice from);

/* The newest version with a reference of its own; NULL when there is none. */
struct sw_store_obj *sw_store_get(struct sw_store *s, struct sw_slice key);
/* Revision of the last durable change. */
uint64_t sw_store_revision(struct sw_store *s);

enum { SW_STORE_ITER_DEPTH = 160 };

struct sw_store_iter {
    struct sw_slice prefix; /* borrowed */
    unsigned depth;
    const void *stack[SW_STORE_ITER_DEPTH];
};
/*
 * Walks the keys that begin with prefix, in order, starting at the first one not below 'from'
 * (empty: at the start). The snapshot and prefix must outlive the walk. For paging use the last
 * key with a NUL byte appended as 'from'.
 */
void sw_store_iter_init(struct sw_store_iter *it, const struct sw_store_snap *n,
                        struct sw_slice prefix, struct sw_slice from);
/* Borrowed from the snapshot; NULL at the end. */
struct sw_store_obj *sw_store_iter_next(struct sw_store_iter *it);

static inline struct sw_store_iter sw_store_iter_of(const struct sw_store_snap *n,
                                                    struct sw_slice prefix)
{
    struct sw_store_iter it;

    sw_store_iter_init(&it, n, prefix, sw_slice("", 0));
    return it;
}

/* The objects of a snapshot whose keys begin with prefix, in order; both outlive the loop. */
#define SW_STORE_EACH(o, snap, prefix)                                                             \
    for (struct sw_store_iter sw_it_##o = sw_store_iter_of((snap), (prefix)),                      \
                              *sw_all_##o = &sw_it_##o;                                            \
         sw_all_##o; sw_all_##o = NULL)                                                            \
        for (const struct sw_store_obj *o; (o = sw_store_iter_next(sw_all_##o));)

static inline void sw_store_snap_release(struct sw_store_snap **n)
{
    *n = sw_store_snap_unref(*n);
}
/* A reference that ends with its block. */
#define SW_STORE_SNAP_AUTO __attribute__((cleanup(sw_store_snap_release))) struct sw_store_snap *

/* ---- watching ---- */

/*
 * A feed brings the events of a store to one loop; watches belong to a feed. Everything about a
 * feed and its watches happens on the loop's thread.
 */
struct sw_store_feed *sw_store_feed_new(struct sw_store *s, struct sw_loop *loop);
/* All watches must be stopped. */
void sw_store_feed_free(struct sw_store_feed *f);

struct sw_store_watch;
/*
 * One event, borrowed (take a reference to keep it). At the end of the watch ev is NULL and rc
 * says why: SW_STORE_TOO_OLD when it was paused or behind for so long that the changes it needs
 * are compacted. The callback may pause or stop any watch of the feed.
 */
typedef void (*sw_store_watch_cb)(struct sw_store_watch *w, struct sw_store_event *ev, int rc);

struct sw_store_group;
struct sw_store_watch {
    struct sw_list link;          /* in its group, or in the feed's list of those behind */
    struct sw_store_feed *feed;   /* borrowed; NULL when stopped */
    struct sw_store_group *group; /* watches with the same prefix */
    uint64_t next;                /* first revision not delivered yet */
    bool live;                    /* in its group: has all the feed has seen */
    bool paused;
    sw_store_watch_cb cb;
};

/*
 * Delivers every change after 'revision' of keys that begin with prefix (copied), exactly once
 * and in order, past ones first. A revision in the future is fine: silence until it is reached.
 * SW_STORE_TOO_OLD when changes after it were compacted. Nothing is delivered before the loop
 * turns. A zeroed struct is a stopped watch.
 */
SW_NODISCARD int sw_store_watch_start(struct sw_store_feed *f, struct sw_store_watch *w,
                                      struct sw_slice prefix, uint64_t revision,
                                      sw_store_watch_cb cb, struct sw_err *err);
void sw_store_watch_stop(struct sw_store_watch *w);
/* No events until resumed; nothing is queued meanwhile, they come from the window then. */
void sw_store_watch_pause(struct sw_store_watch *w);
void sw_store_watch_resume(struct sw_store_watch *w);
/* Everything up to here was delivered (or did not match): what a bookmark may say. */
uint64_t sw_store_watch_revision(const struct sw_store_watch *w);

/* ---- the file ---- */

struct sw_store_report {
    uint64_t revision;
    uint64_t floor;
    uint64_t epoch;
    uint64_t objects;
    uint64_t rows;
};

/*
 * Verifies a store file: SQLite's integrity check and every row. Works while a server uses it.
 * SW_EINVAL with the first fault.
 */
SW_NODISCARD int sw_store_check(const char *path, struct sw_store_report *ret, struct sw_err *err);
/*
 * Copies a consistent state into 'out' (mode 0600, complete or absent: written beside and
 * renamed). Works while a server uses the store. SW_EINVAL when out exists and not 'force'.
 */
SW_NODISCARD int sw_store_backup(const char *path, const char *out, bool force,
                                 struct sw_store_report *ret, struct sw_err *err);
/*
 * Makes 'path' from a backup. Refuses when a server uses it, when the backup is damaged, and when
 * it exists and not 'force'. The new revision lies above any the lost store can have reached, and
 * everything before counts as compacted, so old clients get 410 and list again.
 */
SW_NODISCARD int sw_store_restore(const char *backup, const char *path, bool force,
                                  struct sw_store_report *ret, struct sw_err *err);
