/* SPDX-License-Identifier: Apache-2.0 */
#include "store/db_int.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/hash.h"
#include "base/mem.h"

#define APPLICATION_ID 0x53705773 /* "SpWs" */
#define SCHEMA_VERSION 1
#define TEXT_OF_(x)    #x
#define TEXT_OF(x)     TEXT_OF_(x)

enum {
    BUSY_MS = 10000,
    WAL_KEEP_BYTES = 16 * 1024 * 1024,
    WAL_GROW_BYTES = 4 * 1024 * 1024,
    WAL_ROOM_BYTES = 1024 * 1024, /* left when it grows */
    WAL_FRAME_BYTES = 4096 + 24,
    WAL_SPARE = 16, /* times as much as it grows must be free */
    CACHE_KIB = 8192,
};

enum statement {
    ST_BEGIN,
    ST_COMMIT,
    ST_ROLLBACK,
    ST_INSERT,
    ST_META_GET,
    ST_META_PUT,
    ST_DROP_SUPERSEDED,
    ST_DROP_DELETED,
    ST_COUNT,
};

static const char *const statement_sql[ST_COUNT] = {
    [ST_BEGIN] = "BEGIN IMMEDIATE",
    [ST_COMMIT] = "COMMIT",
    [ST_ROLLBACK] = "ROLLBACK",
    [ST_INSERT] = "INSERT INTO log(rev, type, created, prev, at, sum, key, value) "
                  "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    [ST_META_GET] = "SELECT v FROM meta WHERE k = ?1",
    [ST_META_PUT] = "INSERT INTO meta(k, v) VALUES(?1, ?2) "
                    "ON CONFLICT(k) DO UPDATE SET v = excluded.v",
    [ST_DROP_SUPERSEDED] = "DELETE FROM log WHERE rev IN "
                           "(SELECT prev FROM log WHERE rev > ?1 AND rev <= ?2 AND prev > 0)",
    [ST_DROP_DELETED] = "DELETE FROM log WHERE rev > ?1 AND rev <= ?2 AND type = 3",
};

static const char schema_sql[] =
    "BEGIN;"
    "CREATE TABLE meta(k TEXT PRIMARY KEY, v INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "CREATE TABLE log(rev INTEGER PRIMARY KEY, type INTEGER NOT NULL, created INTEGER NOT NULL,"
    " prev INTEGER NOT NULL, at INTEGER NOT NULL, sum INTEGER NOT NULL, key BLOB NOT NULL,"
    " value BLOB) STRICT;"
    "INSERT INTO meta(k, v) VALUES('floor', 0), ('revision', 0), ('epoch', 0), ('backup', 0);"
    "PRAGMA application_id = " TEXT_OF(APPLICATION_ID) ";"
                                                       "PRAGMA user_version = " TEXT_OF(
                                                           SCHEMA_VERSION) ";"
                                                                           "COMMIT;";

struct sw_db {
    sqlite3 *sql; /* owned */
    sqlite3_stmt *st[ST_COUNT];
    uint64_t wal_pages;
    uint64_t wal_end;  /* pages after the last commit */
    uint64_t wal_size; /* of the file as we left it; 0 = not known */
    char *path;        /* owned */
};

static SW_COLD int fail(struct sw_db *db, int code, const char *what, struct sw_err *err)
{
    int rc;

    switch (code & 0xff) {
    case SQLITE_NOTADB:
        return sw_err_set(err, SW_EINVAL, "'%s' is not a store (not an SQLite file)", db->path);
    case SQLITE_CORRUPT:
        return sw_err_set(err, SW_EINVAL, "'%s' is damaged: %s (%s)", db->path,
                          db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(code), what);
    case SQLITE_FULL:
        rc = sw_err_set(err, SW_ESYS, "'%s': no space left on the disk (%s)", db->path, what);
        if (err)
            err->sys_errno = ENOSPC;
        return rc;
    default:
        rc = sw_err_set(err, SW_ESYS, "'%s': %s: %s", db->path, what,
                        db->sql ? sqlite3_errmsg(db->sql) : sqlite3_errstr(code));
        if (err && db->sql)
            err->sys_errno = sqlite3_system_errno(db->sql);
        return rc;
    }
}

static int exec(struct sw_db *db, const char *sql, struct sw_err *err)
{
    int code = sqlite3_exec(db->sql, sql, NULL, NULL, NULL);

    return code == SQLITE_OK ? SW_OK : fail(db, code, sql, err);
}

/* A single integer, such as a pragma's value. */
static int query_int(struct sw_db *db, const char *sql, int64_t *ret, struct sw_err *err)
{
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(db->sql, sql, -1, &st, NULL);

    if (code == SQLITE_OK)
        code = sqlite3_step(st);
    if (code == SQLITE_ROW)
        *ret = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    return code == SQLITE_ROW ? SW_OK : fail(db, code, sql, err);
}

static int on_wal(void *arg, sqlite3 *sql, const char *name, int pages)
{
    struct sw_db *db = arg;

    db->wal_pages = (uint64_t)pages;
    if (db->wal_pages <= db->wal_end)
        db->wal_size = 0; /* began anew, perhaps in a shorter file */
    db->wal_end = db->wal_pages;
    return SQLITE_OK;
}

static int open_sql(struct sw_db *db, int flags, struct sw_err *err)
{
    int code = sqlite3_open_v2(db->path, &db->sql, flags | SQLITE_OPEN_NOMUTEX, NULL);

    if (code != SQLITE_OK)
        return fail(db, code, "open", err);
    (void)sqlite3_extended_result_codes(db->sql, 1);
    (void)sqlite3_busy_timeout(db->sql, BUSY_MS);
    (void)sqlite3_db_config(db->sql, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    (void)sqlite3_db_config(db->sql, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_db_config(db->sql, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    return SW_OK;
}

static struct sw_db *db_new(const char *path)
{
    struct sw_db *db = SW_NEW(struct sw_db);

    db->path = sw_strdup(path);
    return db;
}

void sw_db_close(struct sw_db *db)
{
    if (!db)
        return;
    for (int i = 0; i < ST_COUNT; i++)
        (void)sqlite3_finalize(db->st[i]);
    (void)sqlite3_close(db->sql);
    sw_free(db->path);
    sw_free(db);
}

/* ---- opening ---- */

static int check_identity(struct sw_db *db, struct sw_err *err)
{
    int64_t id = 0;
    int64_t version = 0;
    int rc = query_int(db, "PRAGMA application_id", &id, err);

    if (rc == SW_OK)
        rc = query_int(db, "PRAGMA user_version", &version, err);
    if (rc != SW_OK)
        return rc;
    if (id != APPLICATION_ID)
        return sw_err_set(err, SW_EINVAL, "'%s' is not a store (it belongs to another program)",
                          db->path);
    if (version > SCHEMA_VERSION)
        return sw_err_set(err, SW_EINVAL,
                          "'%s' was written by a newer version (format %" PRId64
                          ", this one knows up to %d)",
                          db->path, version, SCHEMA_VERSION);
    if (version < 1)
        return sw_err_set(err, SW_EINVAL, "'%s' has an unknown format %" PRId64, db->path, version);
    return SW_OK;
}

static int configure(struct sw_db *db, enum sw_db_mode mode, struct sw_err *err)
{
    char sql[320];
    int rc;

    (void)snprintf(
        sql, sizeof(sql),
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = %s; PRAGMA secure_delete = FAST;"
        "PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = %d;"
        "PRAGMA cache_size = -%d; PRAGMA temp_store = MEMORY;",
        mode == SW_DB_RELAXED ? "NORMAL" : "FULL", WAL_KEEP_BYTES, CACHE_KIB);
    rc = exec(db, sql, err);
    if (rc == SW_OK)
        (void)sqlite3_wal_hook(db->sql, on_wal, db);
    return rc;
}

static int prepare_all(struct sw_db *db, struct sw_err *err)
{
    for (int i = 0; i < ST_COUNT; i++) {
        int code = sqlite3_prepare_v3(db->sql, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &db->st[i], NULL);

        /* Tables or columns missing: the file has our header but not our schema. */
        if (code == SQLITE_ERROR)
            return sw_err_set(err, SW_EINVAL, "'%s' is damaged: %s", db->path,
                              sqlite3_errmsg(db->sql));
        if (code != SQLITE_OK)
            return fail(db, code, "prepare", err);
    }
    return SW_OK;
}

int sw_db_open(const char *path, enum sw_db_mode mode, struct sw_db **ret, struct sw_err *err)
{
    struct sw_db *db;
    struct stat st;
    int rc;

    if (stat(path, &st) != 0)
        return errno == ENOENT ? sw_err_set(err, SW_ENOENT, "there is no store at '%s'", path)
                               : sw_err_sys(err, errno, "cannot open '%s'", path);
    if (mode != SW_DB_READ) {
        rc = sw_db_check_header(path, err);
        if (rc != SW_OK)
            return rc;
        if (chmod(path, 0600) != 0)
            return sw_err_sys(err, errno, "cannot make '%s' private", path);
    }
    db = db_new(path);
    rc = open_sql(db, mode == SW_DB_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE, err);
    if (rc == SW_OK)
        rc = check_identity(db, err);
    if (rc == SW_OK && mode != SW_DB_READ)
        rc = configure(db, mode, err);
    if (rc == SW_OK)
        rc = prepare_all(db, err);
    if (rc != SW_OK) {
        sw_db_close(db);
        return rc;
    }
    *ret = db;
    return SW_OK;
}

int sw_db_create(const char *path, struct sw_err *err)
{
    SW_AUTO_FREE char *fresh = sw_asprintf("%s.new", path);
    struct sw_db *db;
    int rc = sw_db_touch(fresh, err);

    if (rc != SW_OK)
        return rc;
    db = db_new(fresh);
    rc = open_sql(db, SQLITE_OPEN_READWRITE, err);
    if (rc == SW_OK)
        rc = exec(db, "PRAGMA page_size = 4096; PRAGMA synchronous = FULL;", err);
    if (rc == SW_OK)
        rc = exec(db, schema_sql, err);
    /*
     * WAL before the rename: under its name it never has a rollback journal, which a reader could
     * not roll back.
     */
    if (rc == SW_OK)
        rc = exec(db, "PRAGMA journal_mode = WAL", err);
    sw_db_close(db);
    if (rc == SW_OK)
        rc = sw_db_rename(fresh, path, err);
    if (rc != SW_OK)
        (void)unlink(fresh);
    return rc;
}

int sw_db_verify(struct sw_db *db, bool full, struct sw_err *err)
{
    const char *sql = full ? "PRAGMA integrity_check(1)" : "PRAGMA quick_check(1)";
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(db->sql, sql, -1, &st, NULL);
    int rc = SW_OK;

    if (code == SQLITE_OK)
        code = sqlite3_step(st);
    if (code != SQLITE_ROW) {
        rc = fail(db, code, sql, err);
    } else {
        const char *says = (const char *)sqlite3_column_text(st, 0);

        if (!says || strcmp(says, "ok") != 0)
            rc = sw_err_set(err, SW_EINVAL, "'%s' is damaged: %.100s", db->path,
                            says ? says : "check failed");
    }
    (void)sqlite3_finalize(st);
    return rc;
}

/* ---- content ---- */

static int step_done(struct sw_db *db, enum statement which, struct sw_err *err)
{
    int code = sqlite3_step(db->st[which]);

    (void)sqlite3_reset(db->st[which]);
    return code == SQLITE_DONE ? SW_OK : fail(db, code, statement_sql[which], err);
}

static int meta_get(struct sw_db *db, const char *name, uint64_t *ret, struct sw_err *err)
{
    sqlite3_stmt *st = db->st[ST_META_GET];
    int rc = SW_OK;
    int code;

    (void)sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    code = sqlite3_step(st);
    if (code == SQLITE_ROW)
        *ret = (uint64_t)sqlite3_column_int64(st, 0);
    else if (code == SQLITE_DONE)
        rc = sw_err_set(err, SW_EINVAL, "'%s' is damaged: '%s' is missing", db->path, name);
    else
        rc = fail(db, code, "meta", err);
    (void)sqlite3_reset(st);
    return rc;
}

static int meta_put(struct sw_db *db, const char *name, uint64_t value, struct sw_err *err)
{
    sqlite3_stmt *st = db->st[ST_META_PUT];

    (void)sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(st, 2, (int64_t)value);
    return step_done(db, ST_META_PUT, err);
}

int sw_db_meta_get(struct sw_db *db, struct sw_db_meta *ret, struct sw_err *err)
{
    struct sw_db_meta m = {0};
    int rc = meta_get(db, "floor", &m.floor, err);

    if (rc == SW_OK)
        rc = meta_get(db, "revision", &m.revision, err);
    if (rc == SW_OK)
        rc = meta_get(db, "epoch", &m.epoch, err);
    if (rc == SW_OK)
        rc = meta_get(db, "backup", &m.wall_ms, err);
    if (rc == SW_OK)
        *ret = m;
    return rc;
}

int sw_db_meta_put(struct sw_db *db, const struct sw_db_meta *m, struct sw_err *err)
{
    int rc = meta_put(db, "floor", m->floor, err);

    if (rc == SW_OK)
        rc = meta_put(db, "revision", m->revision, err);
    if (rc == SW_OK)
        rc = meta_put(db, "epoch", m->epoch, err);
    return rc == SW_OK ? meta_put(db, "backup", m->wall_ms, err) : rc;
}

/* SQLite has no page checksums: this is what notices a flipped bit in a row. */
static int64_t row_sum(const struct sw_db_row *r)
{
    uint64_t head[7] = {r->revision,
                        r->type,
                        r->created,
                        r->prev,
                        r->wall_ms,
                        r->key.n,
                        r->value.p ? 1 + (uint64_t)r->value.n : 0};
    uint64_t h = sw_siphash13(APPLICATION_ID, SCHEMA_VERSION, head, sizeof(head));

    h = sw_siphash13(h, 1, r->key.p, r->key.n);
    return (int64_t)sw_siphash13(h, 2, r->value.p, r->value.n);
}

static void read_row(sqlite3_stmt *st, struct sw_db_row *r, int64_t *ret_sum)
{
    *r = (struct sw_db_row){
        .revision = (uint64_t)sqlite3_column_int64(st, 0),
        .type = (unsigned)sqlite3_column_int(st, 1),
        .created = (uint64_t)sqlite3_column_int64(st, 2),
        .prev = (uint64_t)sqlite3_column_int64(st, 3),
        .wall_ms = (uint64_t)sqlite3_column_int64(st, 4),
    };
    *ret_sum = sqlite3_column_int64(st, 5);
    r->key = sw_slice(sqlite3_column_blob(st, 6), (size_t)sqlite3_column_bytes(st, 6));
    r->value = sw_slice(sqlite3_column_blob(st, 7), (size_t)sqlite3_column_bytes(st, 7));
    if (!r->value.p && sqlite3_column_type(st, 7) != SQLITE_NULL)
        r->value.p = ""; /* an empty value is a value */
}

int sw_db_rows(struct sw_db *db, sw_db_row_cb cb, void *arg, struct sw_err *err)
{
    static const char sql[] =
        "SELECT rev, type, created, prev, at, sum, key, value FROM log ORDER BY rev";
    sqlite3_stmt *st = NULL;
    int code = sqlite3_prepare_v2(db->sql, sql, -1, &st, NULL);
    int rc = SW_OK;

    while (code == SQLITE_OK || code == SQLITE_ROW) {
        struct sw_db_row row;
        int64_t sum;

        code = sqlite3_step(st);
        if (code != SQLITE_ROW)
            break;
        read_row(st, &row, &sum);
        if (sum != row_sum(&row) || row.key.n == 0)
            rc = sw_err_set(err, SW_EINVAL, "'%s' is damaged: row %" PRIu64 " has a bad checksum",
                            db->path, row.revision);
        else
            rc = cb(arg, &row, err);
        if (rc != SW_OK)
            break;
    }
    if (rc == SW_OK && code != SQLITE_DONE)
        rc = fail(db, code, "read", err);
    (void)sqlite3_finalize(st);
    return rc;
}

int sw_db_begin(struct sw_db *db, struct sw_err *err)
{
    return step_done(db, ST_BEGIN, err);
}

int sw_db_insert(struct sw_db *db, const struct sw_db_row *r, struct sw_err *err)
{
    sqlite3_stmt *st = db->st[ST_INSERT];
    int rc;

    (void)sqlite3_bind_int64(st, 1, (int64_t)r->revision);
    (void)sqlite3_bind_int(st, 2, (int)r->type);
    (void)sqlite3_bind_int64(st, 3, (int64_t)r->created);
    (void)sqlite3_bind_int64(st, 4, (int64_t)r->prev);
    (void)sqlite3_bind_int64(st, 5, (int64_t)r->wall_ms);
    (void)sqlite3_bind_int64(st, 6, row_sum(r));
    (void)sqlite3_bind_blob64(st, 7, r->key.p, r->key.n, SQLITE_STATIC);
    if (r->value.p)
        (void)sqlite3_bind_blob64(st, 8, r->value.p, r->value.n, SQLITE_STATIC);
    else
        (void)sqlite3_bind_null(st, 8);
    rc = step_done(db, ST_INSERT, err);
    (void)sqlite3_clear_bindings(st);
    return rc;
}

int sw_db_commit(struct sw_db *db, struct sw_err *err)
{
    return step_done(db, ST_COMMIT, err);
}

void sw_db_rollback(struct sw_db *db)
{
    /* SQLite ends a transaction itself on some errors (disk full, I/O). */
    if (!sqlite3_get_autocommit(db->sql))
        (void)step_done(db, ST_ROLLBACK, NULL);
}

int sw_db_compact(struct sw_db *db, uint64_t from, uint64_t to, struct sw_err *err)
{
    static const enum statement order[] = {ST_DROP_SUPERSEDED, ST_DROP_DELETED};

    for (size_t i = 0; i < SW_ARRAY_LEN(order); i++) {
        int rc;

        (void)sqlite3_bind_int64(db->st[order[i]], 1, (int64_t)from);
        (void)sqlite3_bind_int64(db->st[order[i]], 2, (int64_t)to);
        rc = step_done(db, order[i], err);
        if (rc != SW_OK)
            return rc;
    }
    return meta_put(db, "floor", to, err);
}

uint64_t sw_db_wal_pages(const struct sw_db *db)
{
    return db->wal_pages;
}

/* The last space of a disk is for data. */
static bool has_space(int fd)
{
    struct statvfs fs;

    return fstatvfs(fd, &fs) == 0 &&
           (uint64_t)fs.f_bavail * fs.f_frsize >= (uint64_t)WAL_SPARE * WAL_GROW_BYTES;
}

/* Appends zeros to the file; takes them back when there is no space for all. */
static bool append_zeros(int fd, uint64_t from, size_t n)
{
    static const char zeros[64 * 1024];

    for (size_t done = 0; done < n;) {
        ssize_t put = pwrite(fd, zeros, sw_min(n - done, sizeof(zeros)), (off_t)(from + done));

        if (put <= 0) {
            (void)!ftruncate(fd, (off_t)from);
            return false;
        }
        done += (size_t)put;
    }
    return true;
}

void sw_db_prepare_log(struct sw_db *db)
{
    uint64_t used = db->wal_end * WAL_FRAME_BYTES;
    SW_AUTO_FREE char *path = NULL;
    struct stat st;

    if (used + WAL_ROOM_BYTES <= db->wal_size)
        return;
    path = sw_asprintf("%s-wal", db->path);
    SW_AUTO_FD fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);

    if (fd < 0 || fstat(fd, &st) != 0)
        return;
    db->wal_size = (uint64_t)st.st_size;
    if (used + WAL_ROOM_BYTES <= db->wal_size)
        return;
    if (has_space(fd) && append_zeros(fd, db->wal_size, WAL_GROW_BYTES))
        db->wal_size += WAL_GROW_BYTES;
    else
        db->wal_size = UINT64_MAX; /* not again before the log restarts */
}

int sw_db_checkpoint(struct sw_db *db, bool truncate, struct sw_err *err)
{
    int mode = truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE;
    int left = 0;
    int moved = 0;
    int code = sqlite3_wal_checkpoint_v2(db->sql, NULL, mode, &left, &moved);

    if (code != SQLITE_OK)
        return (code & 0xff) == SQLITE_BUSY ? SW_OK : fail(db, code, "checkpoint", err);
    db->wal_pages = left > moved ? (uint64_t)(left - moved) : 0;
    return SW_OK;
}

static int copy_pages(struct sw_db *from, struct sw_db *to, struct sw_err *err)
{
    sqlite3_backup *b = sqlite3_backup_init(to->sql, "main", from->sql, "main");
    int code;

    if (!b)
        return fail(to, sqlite3_errcode(to->sql), "copy", err);
    /* All pages in one step: one read transaction, so one consistent state. */
    code = sqlite3_backup_step(b, -1);
    (void)sqlite3_backup_finish(b);
    return code == SQLITE_DONE ? SW_OK : fail(to, code, "copy", err);
}

int sw_db_copy(struct sw_db *db, const char *to, uint64_t wall_ms, struct sw_err *err)
{
    struct sw_db *out;
    char stamp[96];
    int rc = sw_db_touch(to, err);

    if (rc != SW_OK)
        return rc;
    out = db_new(to);
    rc = open_sql(out, SQLITE_OPEN_READWRITE, err);
    if (rc == SW_OK)
        rc = copy_pages(db, out, err);
    /* A copy is one plain file that can be read from anywhere: no write-ahead log. */
    (void)snprintf(stamp, sizeof(stamp),
                   "PRAGMA journal_mode = DELETE; UPDATE meta SET v = %" PRIu64
                   " WHERE k = 'backup'",
                   wall_ms);
    if (rc == SW_OK)
        rc = exec(out, stamp, err);
    sw_db_close(out);
    if (rc != SW_OK)
        (void)unlink(to);
    return rc;
}
