/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The SQLite file: one row per change, the row with the highest revision of a key is its current
 * version. Private to src/store. Used by one thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/slice.h"

struct sw_db;

struct sw_db_meta {
    uint64_t floor;    /* superseded changes up to here are gone */
    uint64_t revision; /* no revision up to here may be given out again */
    uint64_t epoch;    /* restores */
    uint64_t wall_ms;  /* when a backup was made, else 0 */
};

struct sw_db_row {
    uint64_t revision;
    unsigned type; /* enum sw_store_change */
    uint64_t created;
    uint64_t prev; /* revision of the version before, 0 = none */
    uint64_t wall_ms;
    struct sw_slice key;
    struct sw_slice value; /* p == NULL: none (a deletion) */
};

enum sw_db_mode {
    SW_DB_WRITE,   /* durable commits */
    SW_DB_RELAXED, /* commits may be lost on power failure, in order */
    SW_DB_READ,
};

/* Makes an empty store file; path must not exist. It appears complete or not at all. */
SW_NODISCARD int sw_db_create(const char *path, struct sw_err *err);
/*
 * Opens an existing store file. SW_EINVAL when it is none, is damaged or comes from a newer
 * version; SW_ENOENT when there is no file.
 */
SW_NODISCARD int sw_db_open(const char *path, enum sw_db_mode mode, struct sw_db **ret,
                            struct sw_err *err);
void sw_db_close(struct sw_db *db);

/* SQLite's own check of pages (and of indexes when 'full'). SW_EINVAL names the first fault. */
SW_NODISCARD int sw_db_verify(struct sw_db *db, bool full, struct sw_err *err);

SW_NODISCARD int sw_db_meta_get(struct sw_db *db, struct sw_db_meta *ret, struct sw_err *err);
SW_NODISCARD int sw_db_meta_put(struct sw_db *db, const struct sw_db_meta *m, struct sw_err *err);

typedef int (*sw_db_row_cb)(void *arg, const struct sw_db_row *row, struct sw_err *err);
/* All rows in order of revision, each verified against its checksum. Stops when cb fails. */
SW_NODISCARD int sw_db_rows(struct sw_db *db, sw_db_row_cb cb, void *arg, struct sw_err *err);

/* After a failed insert or commit call sw_db_rollback. */
SW_NODISCARD int sw_db_begin(struct sw_db *db, struct sw_err *err);
SW_NODISCARD int sw_db_insert(struct sw_db *db, const struct sw_db_row *row, struct sw_err *err);
SW_NODISCARD int sw_db_commit(struct sw_db *db, struct sw_err *err);
void sw_db_rollback(struct sw_db *db);

/*
 * Inside a transaction: removes what changes in (from, to] superseded or deleted and records the
 * new floor.
 */
SW_NODISCARD int sw_db_compact(struct sw_db *db, uint64_t from, uint64_t to, struct sw_err *err);

/* Pages in the write-ahead log since the last checkpoint. */
uint64_t sw_db_wal_pages(const struct sw_db *db);
/*
 * Keeps written blocks ahead of the end of the write-ahead log: a commit that overwrites them
 * waits for its data alone, one that makes the file longer also for the file system's journal.
 * SQLite takes the zeros for the end of the log. Only between transactions.
 */
void sw_db_prepare_log(struct sw_db *db);
/* Moves the log into the file; with 'truncate' also gives its space back. */
SW_NODISCARD int sw_db_checkpoint(struct sw_db *db, bool truncate, struct sw_err *err);

/* Copies one consistent state into a fresh file at 'to', noting the time it was made. */
SW_NODISCARD int sw_db_copy(struct sw_db *db, const char *to, uint64_t wall_ms, struct sw_err *err);

/* Deletes the log and journal files beside a database that is gone or about to be replaced. */
void sw_db_remove_side_files(const char *path);
/* fsync of the directory that holds path. */
SW_NODISCARD int sw_db_sync_dir(const char *path, struct sw_err *err);
/* fsync of the file and atomic rename, directory included. */
SW_NODISCARD int sw_db_rename(const char *from, const char *to, struct sw_err *err);
