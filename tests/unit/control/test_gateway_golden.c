/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in, model and statuses out: every file of tests/golden/gateway against the text beside
 * it. SW_UPDATE_GOLDEN=1 writes the texts anew; read the difference before you commit it.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gateway_rig.h"

enum { FILES_MAX = 400, PATH_LEN = 512 };

static struct rig *rig;
static char names[FILES_MAX][128];
static size_t n_names;

static const char *dir(void)
{
    const char *d = getenv("SW_GOLDEN");

    return d ? d : "tests/golden";
}

static void path_of(char out[PATH_LEN], const char *name, const char *suffix)
{
    (void)snprintf(out, PATH_LEN, "%s/gateway/%s%s", dir(), name, suffix);
}

static void load(const char *name)
{
    char path[PATH_LEN];

    rig_clear(rig);
    path_of(path, "_common", ".yaml");
    assert_true(rig_load(rig, path));
    path_of(path, name, ".yaml");
    assert_true(rig_load(rig, path));
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "re");
    struct sw_buf b;
    char chunk[4096];
    size_t n;

    if (!f)
        return NULL;
    sw_buf_init(&b, 8 * 1024 * 1024);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        assert_int_equal(sw_buf_append(&b, chunk, n), SW_OK);
    (void)fclose(f);
    return sw_buf_take_str(&b);
}

static void compare(const char *name, const char *got)
{
    char path[PATH_LEN];
    char *want;

    path_of(path, name, ".txt");
    if (getenv("SW_UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "we");

        assert_non_null(f);
        (void)fputs(got, f);
        (void)fclose(f);
        return;
    }
    want = read_all(path);
    assert_non_null(want);
    if (strcmp(want, got) != 0)
        (void)fprintf(stderr, "---- %s gives:\n%s----\n", name, got);
    assert_string_equal(got, want);
    sw_free(want);
}

/* The text is as recorded, and the order objects came in is of no importance. */
static void golden(void **state)
{
    const char *name = *state;
    char *first;

    load(name);
    first = rig_run(rig, NULL);
    compare(name, first);
    for (unsigned seed = 1; seed < 4; seed++) {
        char *again;

        rig_shuffle(rig, seed);
        again = rig_run(rig, NULL);
        assert_string_equal(again, first);
        sw_free(again);
    }
    sw_free(first);
}

/* Once written, statuses are not wanted again, and the model does not depend on them. */
static void settles(void **state)
{
    const char *name = *state;
    bool any = true;
    char *text;

    load(name);
    (void)rig_apply_statuses(rig, 1000000000000000000);
    text = rig_run(rig, &any);
    if (any)
        (void)fprintf(stderr, "%s still wants:\n%s\n", name, text);
    assert_false(any);
    sw_free(text);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(x, y);
}

static void find_names(void)
{
    char path[PATH_LEN];
    struct dirent *e;
    DIR *d;

    (void)snprintf(path, sizeof(path), "%s/gateway", dir());
    d = opendir(path);
    if (!d)
        return;
    while ((e = readdir(d)) && n_names < FILES_MAX) {
        size_t n = strlen(e->d_name);

        if (n < 6 || n > 100 || strcmp(e->d_name + n - 5, ".yaml") != 0 || e->d_name[0] == '_')
            continue;
        (void)snprintf(names[n_names++], sizeof(names[0]), "%.*s", (int)(n - 5), e->d_name);
    }
    (void)closedir(d);
    qsort(names, n_names, sizeof(names[0]), by_name);
}

int main(void)
{
    struct CMUnitTest *tests;
    int rc;

    find_names();
    if (!n_names) {
        (void)fprintf(stderr, "no golden files under %s\n", dir());
        return 1;
    }
    rig = rig_new();
    tests = SW_NEW_ARRAY(struct CMUnitTest, n_names * 2);
    for (size_t i = 0; i < n_names; i++) {
        tests[i * 2] =
            (struct CMUnitTest){.name = names[i], .test_func = golden, .initial_state = names[i]};
        tests[i * 2 + 1] =
            (struct CMUnitTest){.name = names[i], .test_func = settles, .initial_state = names[i]};
    }
    rc = _cmocka_run_group_tests("gateway_golden", tests, n_names * 2, NULL, NULL);
    sw_free(tests);
    rig_free(rig);
    return rc;
}
