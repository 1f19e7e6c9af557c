/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/store share among themselves. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/loop.h"
#include "store/db.h"
#include "store/load.h"
#include "store/store.h"
#include "store/tree.h"
#include "store/window.h"

/* The lock that keeps a second process out. SW_STORE_LOCKED when someone has it. */
SW_NODISCARD int sw_store_lock(const char *path, int *ret_fd, struct sw_err *err);

struct sw_store_snap {
    atomic_uint refs;
    uint64_t revision;
    struct sw_tree *root; /* owned */
};
/* Takes over the tree's reference. */
struct sw_store_snap *sw_store_snap_new(struct sw_tree *root, uint64_t revision);

/* A write on its way through the queue and back. */
struct sw_store_request {
    struct sw_msg msg; /* for the way back */
    struct sw_store_request *next;
    enum sw_store_verb verb;
    uint64_t expect;
    size_t bytes;
    struct sw_store_obj *obj; /* owned: key and value; not visible before the commit */
    bool has_value;
    struct sw_loop *loop;
    sw_store_done_cb cb;
    void *arg;
    /* result */
    int rc;
    uint64_t revision;
    struct sw_store_obj *there; /* owned: the version in the way, or the one replaced */
    struct sw_err err;
};

enum { HISTORY_SNAPS = 4 };

struct sw_store {
    struct sw_store_opts opts; /* defaults filled in */
    char *path;                /* owned */
    int lock_fd;               /* owned */
    struct sw_db *db;          /* owned; the writer's after the start */
    pthread_t thread;

    /* Queue: guarded by queue_lock. */
    pthread_mutex_t queue_lock;
    pthread_cond_t queue_wake;
    struct sw_store_request *queue_head;
    struct sw_store_request **queue_tail;
    size_t queue_n;
    size_t queue_bytes;
    uint64_t refused;
    bool closing;

    /* What readers see: guarded by lock, which is never held over anything slow. */
    pthread_mutex_t lock;
    struct sw_store_snap *snap; /* owned */
    struct sw_window window;
    uint64_t floor;
    struct sw_list feeds;
    struct sw_store_snap *history[HISTORY_SNAPS]; /* owned; older states read recently */
    unsigned history_next;
    struct sw_store_stats stats;

    /* The writer's own. */
    uint64_t last;       /* highest revision given out, also to writes that failed */
    uint64_t compact_to; /* compaction continues in steps until the floor is here */
    uint64_t compact_next_ms;
    uint64_t upkeep_retry_ns;  /* after a failed checkpoint or compaction: not before this */
    uint64_t upkeep_wait_ms;   /* how long it waited for that; 0: the last one worked */
    const char *upkeep_failed; /* which of them, a literal */
    uint64_t failing_said_ns;  /* when failing writes were last logged */
    bool failing;              /* and their recovery was not logged yet */
    atomic_ullong edits;       /* edit numbers of the tree */
};

/* Called by the writer after a publication, with s->lock held. */
void sw_store_feeds_wake_locked(struct sw_store *s);

void *sw_store_writer_main(void *arg);
