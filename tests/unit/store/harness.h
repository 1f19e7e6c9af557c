/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of its own and blocking calls for the store's tests. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "io/loop.h"
#include "store/store.h"

struct fixture {
    char dir[64];
    char path[96];
    struct sw_loop *loop;
    struct sw_store *store;
};

struct done {
    bool is;
    int rc;
    uint64_t revision;
    uint64_t there; /* revision of result.obj */
    uint64_t prev;
    char msg[184];
};

static inline int fixture_setup(void **state)
{
    struct fixture *f = SW_NEW(struct fixture);

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    (void)snprintf(f->dir, sizeof(f->dir), "%s/swstoreXXXXXX",
                   getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    (void)snprintf(f->path, sizeof(f->path), "%s/store.db", f->dir);
    f->loop = sw_loop_new(NULL);
    assert_non_null(f->loop);
    *state = f;
    return 0;
}

static inline int fixture_teardown(void **state)
{
    static const char *const names[] = {"store.db",      "store.db-wal", "store.db-shm",
                                        "store.db.lock", "backup.db",    "second.db",
                                        "second.db.lock"};
    struct fixture *f = *state;

    sw_store_close(f->store);
    sw_loop_free(f->loop);
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        char name[128];

        (void)snprintf(name, sizeof(name), "%s/%s", f->dir, names[i]);
        (void)unlink(name);
    }
    assert_int_equal(rmdir(f->dir), 0);
    sw_free(f);
    return 0;
}

static inline void open_store(struct fixture *f, const struct sw_store_opts *opts)
{
    struct sw_err err = {0};

    f->store = sw_store_open(f->path, opts, &err);
    if (!f->store)
        fail_msg("open: %s", err.msg);
}

static inline void close_store(struct fixture *f)
{
    sw_store_close(f->store);
    f->store = NULL;
}

static inline void on_done(void *arg, const struct sw_store_result *r)
{
    struct done *d = arg;

    assert_false(d->is);
    d->is = true;
    d->rc = r->rc;
    d->revision = r->revision;
    d->there = r->obj ? r->obj->revision : 0;
    d->prev = r->prev ? r->prev->revision : 0;
    if (r->rc != SW_OK)
        (void)snprintf(d->msg, sizeof(d->msg), "%s", r->msg);
}

/* Queues a write and turns the loop until it is durable. */
static inline struct done do_write(struct fixture *f, enum sw_store_verb verb, const char *key,
                                   const char *value, uint64_t expect)
{
    struct done d = {0};
    struct sw_err err = {0};
    struct sw_store_write w = {.verb = verb,
                               .key = sw_slice_str(key),
                               .value = sw_slice_str(value),
                               .expect = expect,
                               .loop = f->loop,
                               .cb = on_done,
                               .arg = &d};

    if (sw_store_submit(f->store, &w, &err) != SW_OK)
        fail_msg("submit: %s", err.msg);
    while (!d.is)
        sw_loop_turn(f->loop, 1000);
    return d;
}

static inline uint64_t put(struct fixture *f, const char *key, const char *value)
{
    struct done d = do_write(f, SW_STORE_PUT, key, value, 0);

    assert_int_equal(d.rc, SW_OK);
    return d.revision;
}

static inline uint64_t del(struct fixture *f, const char *key)
{
    struct done d = do_write(f, SW_STORE_DELETE, key, NULL, 0);

    assert_int_equal(d.rc, SW_OK);
    return d.revision;
}

static inline void compact(struct fixture *f, uint64_t revision)
{
    assert_int_equal(do_write(f, SW_STORE_COMPACT, NULL, NULL, revision).rc, SW_OK);
}

/* "key=value@revision ..." of everything under a prefix. */
static inline char *listing(const struct sw_store_snap *n, const char *prefix, const char *from)
{
    struct sw_store_iter it;
    struct sw_store_obj *o;
    char *all = sw_strdup("");

    sw_store_iter_init(&it, n, sw_slice_str(prefix), sw_slice_str(from));
    while ((o = sw_store_iter_next(&it)) != NULL) {
        char *more = sw_asprintf("%s%s%.*s=%.*s@%llu", all, *all ? " " : "", SW_SLICE_ARG(o->key),
                                 SW_SLICE_ARG(o->value), (unsigned long long)o->revision);

        sw_free(all);
        all = more;
    }
    return all;
}

static inline void assert_listing(struct sw_store_snap *n, const char *prefix, const char *want)
{
    char *got = listing(n, prefix, "");

    assert_string_equal(got, want);
    sw_free(got);
    (void)sw_store_snap_unref(n);
}

#define FIXTURE_TEST(t) cmocka_unit_test_setup_teardown(t, fixture_setup, fixture_teardown)
