/* SPDX-License-Identifier: Apache-2.0 */
#include "power.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/rand.h"

enum { SECTOR = 512 };

/* What was done to a file and is not synced. */
struct change {
    struct sw_list link;
    bool truncation; /* to 'at' bytes; else a write of n bytes there */
    uint64_t at;
    size_t n;
    unsigned char data[];
};

struct disk_file {
    struct sw_list link;
    char *path;            /* owned */
    unsigned char *synced; /* owned: what a sync has put there */
    size_t n_synced;
    struct sw_list changes;
    bool removed;
};

/* As SQLite sees it; the real VFS's file follows. */
struct open_file {
    sqlite3_file base;
    struct disk_file *file; /* NULL: a file that holds no data of a database */
};

static struct {
    pthread_mutex_t lock;
    sqlite3_vfs vfs;
    sqlite3_vfs *real;
    sqlite3_io_methods methods;
    struct sw_list files;
    bool limited;
    bool out;
    uint64_t left;
    uint32_t sync_fails;
    struct power_counts counts;
} disk = {.lock = PTHREAD_MUTEX_INITIALIZER, .files = {&disk.files, &disk.files}};

static sqlite3_file *real_of(sqlite3_file *f)
{
    return (sqlite3_file *)((char *)f + sizeof(struct open_file));
}

static struct disk_file *file_of(sqlite3_file *f)
{
    return ((struct open_file *)f)->file;
}

/* ---- what the disk holds ---- */

static void resize(struct disk_file *d, size_t n)
{
    d->synced = sw_realloc(d->synced, n ? n : 1);
    if (n > d->n_synced)
        memset(d->synced + d->n_synced, 0, n - d->n_synced);
    d->n_synced = n;
}

static void put(struct disk_file *d, const unsigned char *data, uint64_t at, size_t n)
{
    if (at + n > d->n_synced)
        resize(d, (size_t)at + n);
    memcpy(d->synced + at, data, n);
}

/* Sectors of a write that reach the disk, 'percent' of them. */
static void put_some(struct disk_file *d, const struct change *c, uint32_t percent)
{
    if (percent == 100) {
        put(d, c->data, c->at, c->n);
        return;
    }
    for (size_t done = 0; done < c->n;) {
        uint64_t at = c->at + done;
        size_t n = sw_min((size_t)(SECTOR - at % SECTOR), c->n - done);

        if (sw_rand_below(100) < percent) {
            put(d, c->data + done, at, n);
            disk.counts.kept_sectors++;
        } else {
            disk.counts.lost_sectors++;
        }
        done += n;
    }
}

static void settle(struct disk_file *d, uint32_t percent)
{
    SW_LIST_FOREACH (it, &d->changes) {
        struct change *c = SW_CONTAINER_OF(it, struct change, link);

        if (!c->truncation)
            put_some(d, c, percent);
        else if (sw_rand_below(100) < percent)
            resize(d, (size_t)c->at);
        else
            disk.counts.undone++;
        sw_list_unlink(&c->link);
        sw_free(c);
    }
}

/* Zeros that were appended without SQLite: they are there as a whole or in part. */
static size_t size_now(const struct disk_file *d)
{
    struct stat st;

    return stat(d->path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void settle_all(struct disk_file *d)
{
    settle(d, 100);
    if (size_now(d) > d->n_synced)
        resize(d, size_now(d));
}

static void load(struct disk_file *d)
{
    int fd = open(d->path, O_RDONLY | O_CLOEXEC);
    size_t got = 0;

    if (fd < 0)
        return;
    resize(d, size_now(d));
    while (got < d->n_synced) {
        ssize_t n = read(fd, d->synced + got, d->n_synced - got);

        if (n <= 0)
            abort();
        got += (size_t)n;
    }
    (void)close(fd);
}

static void store(const struct disk_file *d)
{
    int fd = open(d->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    size_t done = 0;

    if (fd < 0)
        abort();
    while (done < d->n_synced) {
        ssize_t n = write(fd, d->synced + done, d->n_synced - done);

        if (n <= 0)
            abort();
        done += (size_t)n;
    }
    (void)close(fd);
}

static struct disk_file *find(const char *path)
{
    SW_LIST_FOREACH (it, &disk.files) {
        struct disk_file *d = SW_CONTAINER_OF(it, struct disk_file, link);

        if (strcmp(d->path, path) == 0)
            return d;
    }
    return NULL;
}

static struct disk_file *add(const char *path)
{
    struct disk_file *d = SW_NEW(struct disk_file);

    d->path = sw_strdup(path);
    sw_list_init(&d->changes);
    sw_list_push_back(&disk.files, &d->link);
    load(d);
    return d;
}

static void drop(struct disk_file *d)
{
    SW_LIST_FOREACH (it, &d->changes)
        sw_free(SW_CONTAINER_OF(it, struct change, link));
    sw_list_unlink(&d->link);
    sw_free(d->synced);
    sw_free(d->path);
    sw_free(d);
}

/* Counts an operation: false when the power is gone. The one that meets the end is not done. */
static bool powered(void)
{
    if (disk.limited && disk.left > 0 && --disk.left == 0)
        disk.out = true;
    return !disk.out;
}

static void note(struct disk_file *d, bool truncation, const void *data, size_t n, uint64_t at)
{
    struct change *c = sw_malloc(sizeof(*c) + n);

    *c = (struct change){.truncation = truncation, .at = at, .n = n};
    if (n)
        memcpy(c->data, data, n);
    sw_list_push_back(&d->changes, &c->link);
}

/* ---- the VFS ---- */

static int on_write(sqlite3_file *f, const void *data, int n, sqlite3_int64 at)
{
    struct disk_file *d = file_of(f);
    bool ok = true;

    if (d) {
        (void)pthread_mutex_lock(&disk.lock);
        if (!disk.out)
            note(d, false, data, (size_t)n, (uint64_t)at); /* the last one may be torn */
        ok = powered();
        (void)pthread_mutex_unlock(&disk.lock);
    }
    return ok ? real_of(f)->pMethods->xWrite(real_of(f), data, n, at) : SQLITE_IOERR_WRITE;
}

static int on_truncate(sqlite3_file *f, sqlite3_int64 n)
{
    struct disk_file *d = file_of(f);
    bool ok = true;

    if (d) {
        (void)pthread_mutex_lock(&disk.lock);
        if (!disk.out)
            note(d, true, NULL, 0, (uint64_t)n);
        ok = powered();
        (void)pthread_mutex_unlock(&disk.lock);
    }
    return ok ? real_of(f)->pMethods->xTruncate(real_of(f), n) : SQLITE_IOERR_TRUNCATE;
}

/* The real file is not synced: this disk is only as real as the test. */
static int on_sync(sqlite3_file *f, int flags)
{
    struct disk_file *d = file_of(f);
    int rc = SQLITE_OK;

    (void)flags;
    if (!d)
        return SQLITE_OK;
    (void)pthread_mutex_lock(&disk.lock);
    if (!powered()) {
        rc = SQLITE_IOERR_FSYNC;
    } else if (disk.sync_fails && sw_rand_below(disk.sync_fails) == 0) {
        /* As Linux does: the pages count as clean now, though they are not on the disk. */
        settle(d, 50);
        disk.counts.failed_syncs++;
        rc = SQLITE_IOERR_FSYNC;
    } else {
        settle_all(d);
        disk.counts.syncs++;
    }
    (void)pthread_mutex_unlock(&disk.lock);
    return rc;
}

static int on_close(sqlite3_file *f)
{
    return real_of(f)->pMethods->xClose(real_of(f));
}

static int on_read(sqlite3_file *f, void *data, int n, sqlite3_int64 at)
{
    return real_of(f)->pMethods->xRead(real_of(f), data, n, at);
}

static int on_size(sqlite3_file *f, sqlite3_int64 *ret)
{
    return real_of(f)->pMethods->xFileSize(real_of(f), ret);
}

static int on_lock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xLock(real_of(f), level);
}

static int on_unlock(sqlite3_file *f, int level)
{
    return real_of(f)->pMethods->xUnlock(real_of(f), level);
}

static int on_check_lock(sqlite3_file *f, int *ret)
{
    return real_of(f)->pMethods->xCheckReservedLock(real_of(f), ret);
}

static int on_control(sqlite3_file *f, int op, void *arg)
{
    return real_of(f)->pMethods->xFileControl(real_of(f), op, arg);
}

static int on_sector_size(sqlite3_file *f)
{
    (void)f;
    return SECTOR;
}

/* A write leaves its neighbours alone, as everywhere today; nothing is promised of appends or
 * order. */
static int on_characteristics(sqlite3_file *f)
{
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f)) &
           SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

static int on_shm_map(sqlite3_file *f, int page, int size, int extend, void volatile **ret)
{
    return real_of(f)->pMethods->xShmMap(real_of(f), page, size, extend, ret);
}

static int on_shm_lock(sqlite3_file *f, int at, int n, int flags)
{
    return real_of(f)->pMethods->xShmLock(real_of(f), at, n, flags);
}

static void on_shm_barrier(sqlite3_file *f)
{
    real_of(f)->pMethods->xShmBarrier(real_of(f));
}

static int on_shm_unmap(sqlite3_file *f, int remove)
{
    return real_of(f)->pMethods->xShmUnmap(real_of(f), remove);
}

static int on_open(sqlite3_vfs *v, const char *path, sqlite3_file *f, int flags, int *out)
{
    const int data = SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL;
    struct open_file *o = (struct open_file *)f;
    struct disk_file *d = NULL;
    int rc;

    (void)v;
    o->base.pMethods = NULL;
    o->file = NULL;
    if (path && (flags & data)) {
        (void)pthread_mutex_lock(&disk.lock);
        d = find(path);
        if (d && d->removed) {
            drop(d); /* a new file of the same name */
            d = NULL;
        }
        if (!d)
            d = add(path);
        (void)pthread_mutex_unlock(&disk.lock);
    }
    rc = disk.real->xOpen(disk.real, path, real_of(f), flags, out);
    if (rc == SQLITE_OK) {
        o->file = d;
        o->base.pMethods = &disk.methods;
    }
    return rc;
}

static int on_delete(sqlite3_vfs *v, const char *path, int sync_dir)
{
    struct disk_file *d;
    bool ok = true;

    (void)v;
    (void)pthread_mutex_lock(&disk.lock);
    d = find(path);
    if (d) {
        if (!disk.out)
            d->removed = true;
        ok = powered();
        if (ok && sync_dir)
            drop(d);
    }
    (void)pthread_mutex_unlock(&disk.lock);
    return ok ? disk.real->xDelete(disk.real, path, 0) : SQLITE_IOERR_DELETE;
}

void power_install(void)
{
    disk.real = sqlite3_vfs_find(NULL);
    disk.vfs = *disk.real;
    disk.vfs.zName = "power";
    disk.vfs.pNext = NULL;
    disk.vfs.szOsFile = (int)sizeof(struct open_file) + disk.real->szOsFile;
    disk.vfs.xOpen = on_open;
    disk.vfs.xDelete = on_delete;
    disk.methods = (sqlite3_io_methods){
        .iVersion = 2,
        .xClose = on_close,
        .xRead = on_read,
        .xWrite = on_write,
        .xTruncate = on_truncate,
        .xSync = on_sync,
        .xFileSize = on_size,
        .xLock = on_lock,
        .xUnlock = on_unlock,
        .xCheckReservedLock = on_check_lock,
        .xFileControl = on_control,
        .xSectorSize = on_sector_size,
        .xDeviceCharacteristics = on_characteristics,
        .xShmMap = on_shm_map,
        .xShmLock = on_shm_lock,
        .xShmBarrier = on_shm_barrier,
        .xShmUnmap = on_shm_unmap,
    };
    if (sqlite3_vfs_register(&disk.vfs, 1) != SQLITE_OK)
        abort();
}

void power_lasts(uint64_t operations)
{
    (void)pthread_mutex_lock(&disk.lock);
    disk.limited = operations > 0;
    disk.left = operations;
    disk.out = false;
    (void)pthread_mutex_unlock(&disk.lock);
}

void power_sync_fails(uint32_t one_in)
{
    (void)pthread_mutex_lock(&disk.lock);
    disk.sync_fails = one_in;
    (void)pthread_mutex_unlock(&disk.lock);
}

void power_lose(void)
{
    static const uint32_t percents[] = {0, 20, 50, 90, 100};
    (void)pthread_mutex_lock(&disk.lock);
    SW_LIST_FOREACH (it, &disk.files) {
        struct disk_file *d = SW_CONTAINER_OF(it, struct disk_file, link);
        uint32_t percent = percents[sw_rand_below(SW_ARRAY_LEN(percents))];
        size_t longest = size_now(d);

        settle(d, percent);
        if (longest > d->n_synced)
            resize(d, d->n_synced + sw_rand_below(longest - d->n_synced + 1));
        if (d->removed && sw_rand_below(2) == 0) {
            (void)unlink(d->path);
        } else {
            disk.counts.undone += d->removed;
            store(d);
        }
        drop(d);
    }
    (void)pthread_mutex_unlock(&disk.lock);
}

struct power_counts power_counts(void)
{
    struct power_counts c;

    (void)pthread_mutex_lock(&disk.lock);
    c = disk.counts;
    (void)pthread_mutex_unlock(&disk.lock);
    return c;
}
