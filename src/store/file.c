/* SPDX-License-Identifier: Apache-2.0 */
/* Check, backup and restore of store files. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "store/store_int.h"

/*
 * A restored store must not give out a revision the lost one gave out after the backup. It cannot
 * have written faster than this, so the age of the backup bounds how far it can have come.
 */
#define REVISIONS_PER_SECOND UINT64_C(100000)
#define REVISIONS_GAP        UINT64_C(1000000)

static uint64_t now_ms(void)
{
    return sw_wall_ns() / SW_NS_PER_MS;
}

static int check_open(struct sw_db *db, const char *path, bool full, struct sw_store_report *ret,
                      struct sw_db_meta *ret_meta, struct sw_err *err)
{
    struct sw_load load;
    int rc = sw_db_verify(db, full, err);

    if (rc == SW_OK)
        rc = sw_load_run(&load, db, path, err);
    if (rc != SW_OK)
        return rc;
    *ret = (struct sw_store_report){
        .revision = load.revision,
        .floor = load.meta.floor,
        .epoch = load.meta.epoch,
        .objects = sw_tree_count(load.tree),
        .rows = load.rows,
    };
    if (ret_meta)
        *ret_meta = load.meta;
    sw_load_done(&load);
    return SW_OK;
}

int sw_store_check(const char *path, struct sw_store_report *ret, struct sw_err *err)
{
    struct sw_db *db;
    int rc = sw_db_open(path, SW_DB_READ, &db, err);

    if (rc != SW_OK)
        return rc;
    rc = check_open(db, path, true, ret, NULL, err);
    sw_db_close(db);
    return rc;
}

/* Refuses to overwrite a file, unless forced; never overwrites the source itself. */
static int check_target(const char *from, const char *to, bool force, struct sw_err *err)
{
    struct stat a;
    struct stat b;

    if (stat(to, &b) != 0)
        return errno == ENOENT ? SW_OK : sw_err_sys(err, errno, "cannot look at '%s'", to);
    if (!S_ISREG(b.st_mode))
        return sw_err_set(err, SW_EINVAL, "'%s' is not a regular file", to);
    if (stat(from, &a) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return sw_err_set(err, SW_EINVAL, "'%s' and '%s' are the same file", from, to);
    if (!force)
        return sw_err_set(err, SW_EINVAL, "'%s' exists already (--force overwrites it)", to);
    return SW_OK;
}

int sw_store_backup(const char *path, const char *out, bool force, struct sw_store_report *ret,
                    struct sw_err *err)
{
    SW_AUTO_FREE char *part = sw_asprintf("%s.part", out);
    struct sw_db *db;
    int rc = check_target(path, out, force, err);

    if (rc == SW_OK)
        rc = sw_db_open(path, SW_DB_READ, &db, err);
    if (rc != SW_OK)
        return rc;
    rc = sw_db_copy(db, part, now_ms(), err);
    sw_db_close(db);
    if (rc == SW_OK)
        rc = sw_store_check(part, ret, err);
    if (rc == SW_OK)
        rc = sw_db_rename(part, out, err);
    if (rc != SW_OK)
        (void)unlink(part);
    return rc;
}

/* ---- restore ---- */

/* Highest revision of the store about to be replaced; 0 when it cannot be read any more. */
static uint64_t retire_old(const char *path)
{
    struct sw_store_report report = {0};
    struct sw_db *db;

    if (sw_db_open(path, SW_DB_WRITE, &db, NULL) != SW_OK)
        return 0;
    if (check_open(db, path, false, &report, NULL, NULL) != SW_OK)
        report.revision = 0;
    /* Its log must not be taken for one of the new file. */
    (void)!sw_db_checkpoint(db, true, NULL);
    sw_db_close(db);
    return report.revision;
}

/* Lifts the copy above everything that was given out before, and forgets its history. */
static int lift(const char *path, uint64_t revision, uint64_t epoch, struct sw_err *err)
{
    struct sw_db_meta meta = {.floor = revision, .revision = revision, .epoch = epoch};
    struct sw_db *db;
    int rc = sw_db_open(path, SW_DB_WRITE, &db, err);

    if (rc != SW_OK)
        return rc;
    rc = sw_db_begin(db, err);
    if (rc == SW_OK)
        rc = sw_db_compact(db, 0, revision, err);
    if (rc == SW_OK)
        rc = sw_db_meta_put(db, &meta, err);
    if (rc == SW_OK)
        rc = sw_db_commit(db, err);
    if (rc == SW_OK)
        rc = sw_db_checkpoint(db, true, err);
    sw_db_close(db);
    return rc;
}

static uint64_t above_all(uint64_t revision, uint64_t backup_ms)
{
    uint64_t now = now_ms();
    uint64_t age_s = now > backup_ms ? (now - backup_ms) / 1000 + 1 : 1;

    return revision + REVISIONS_GAP + age_s * REVISIONS_PER_SECOND;
}

/* Copies the backup beside the target and checks it before anything is replaced. */
static int stage(const char *backup, const char *part, struct sw_store_report *ret,
                 uint64_t *ret_ms, struct sw_err *err)
{
    struct sw_db_meta meta;
    struct sw_db *db;
    int rc = sw_db_open(backup, SW_DB_READ, &db, err);

    if (rc != SW_OK)
        return rc;
    rc = check_open(db, backup, true, ret, &meta, err);
    if (rc == SW_OK)
        rc = sw_db_copy(db, part, 0, err);
    sw_db_close(db);
    if (rc == SW_OK)
        *ret_ms = meta.wall_ms;
    return rc;
}

int sw_store_restore(const char *backup, const char *path, bool force, struct sw_store_report *ret,
                     struct sw_err *err)
{
    SW_AUTO_FREE char *part = sw_asprintf("%s.part", path);
    SW_AUTO_FD lock = -1;
    struct sw_store_report report;
    uint64_t made_ms = 0;
    uint64_t old;
    int rc = sw_store_lock(path, &lock, err);

    if (rc == SW_OK)
        rc = check_target(backup, path, force, err);
    if (rc == SW_OK)
        rc = stage(backup, part, &report, &made_ms, err);
    if (rc == SW_OK) {
        old = retire_old(path);
        if (report.revision < old)
            report.revision = old;
        /* A plain copy of a store file carries no date: assume it is ten years old. */
        if (made_ms == 0)
            made_ms = now_ms() - UINT64_C(10) * 366 * 86400 * 1000;
        report.revision = above_all(report.revision, made_ms);
        report.floor = report.revision;
        report.epoch++;
        rc = lift(part, report.revision, report.epoch, err);
    }
    if (rc == SW_OK) {
        sw_db_remove_side_files(path);
        rc = sw_db_rename(part, path, err);
    }
    if (rc == SW_OK) {
        report.rows = report.objects;
        *ret = report;
    } else if (lock >= 0) {
        (void)unlink(part);
        sw_db_remove_side_files(part);
    }
    return rc;
}
