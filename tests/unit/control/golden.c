/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"

static const char *root(void)
{
    const char *d = getenv("SW_GOLDEN");

    return d ? d : "tests/golden";
}

void golden_path(const struct golden *g, const char *name, const char *suffix,
                 char out[GOLDEN_PATH])
{
    (void)snprintf(out, GOLDEN_PATH, "%s/%s/%s%s", root(), g->set, name, suffix);
}

static int by_name(const void *x, const void *y)
{
    return strcmp(x, y);
}

void golden_find(struct golden *g, const char *set)
{
    char path[GOLDEN_PATH];
    struct dirent *e;
    DIR *d;

    g->set = set;
    g->n = 0;
    golden_path(g, "", "", path);
    d = opendir(path);
    while (d && (e = readdir(d)) && g->n < GOLDEN_MAX) {
        size_t n = strlen(e->d_name);

        if (n < 6 || n > 100 || strcmp(e->d_name + n - 5, ".yaml") != 0 || e->d_name[0] == '_')
            continue;
        (void)snprintf(g->names[g->n++], sizeof(g->names[0]), "%.*s", (int)(n - 5), e->d_name);
    }
    if (d)
        (void)closedir(d);
    qsort(g->names, g->n, sizeof(g->names[0]), by_name);
}

char *golden_read(const struct golden *g, const char *name, const char *suffix)
{
    char path[GOLDEN_PATH];
    struct sw_buf b;
    char chunk[4096];
    size_t n;
    FILE *f;

    golden_path(g, name, suffix, path);
    f = fopen(path, "re");
    if (!f)
        fail_msg("no file '%s'", path);
    sw_buf_init(&b, 8 << 20);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        assert_int_equal(sw_buf_append(&b, chunk, n), SW_OK);
    (void)fclose(f);
    return sw_buf_take_str(&b);
}

void golden_compare(const struct golden *g, const char *name, const char *got)
{
    char path[GOLDEN_PATH];
    char *want;

    if (getenv("SW_UPDATE_GOLDEN")) {
        FILE *f;

        golden_path(g, name, ".txt", path);
        f = fopen(path, "we");
        assert_non_null(f);
        (void)fputs(got, f);
        assert_int_equal(fclose(f), 0);
        return;
    }
    want = golden_read(g, name, ".txt");
    if (strcmp(want, got) != 0)
        (void)fprintf(stderr, "---- %s gives:\n%s----\n", name, got);
    assert_string_equal(got, want);
    sw_free(want);
}
