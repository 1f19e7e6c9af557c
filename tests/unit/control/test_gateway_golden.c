/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects in, model and statuses out: every file of tests/golden/gateway against the text beside
 * it (golden.h).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "gateway_rig.h"
#include "golden.h"

static struct rig *rig;
static struct golden files;

static void load(const char *name)
{
    char path[GOLDEN_PATH];

    rig_clear(rig);
    golden_path(&files, "_common", ".yaml", path);
    assert_true(rig_load(rig, path));
    golden_path(&files, name, ".yaml", path);
    assert_true(rig_load(rig, path));
}

/* The text is as recorded, and the order objects came in is of no importance. */
static void golden(void **state)
{
    const char *name = *state;
    char *first;

    load(name);
    first = rig_run(rig, NULL);
    golden_compare(&files, name, first);
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

int main(void)
{
    struct CMUnitTest *tests;
    int rc;

    golden_find(&files, "gateway");
    if (!files.n) {
        (void)fprintf(stderr, "no golden files\n");
        return 1;
    }
    rig = rig_new();
    tests = SW_NEW_ARRAY(struct CMUnitTest, files.n * 2);
    for (size_t i = 0; i < files.n; i++) {
        char *name = files.names[i];

        tests[i * 2] =
            (struct CMUnitTest){.name = name, .test_func = golden, .initial_state = name};
        tests[i * 2 + 1] =
            (struct CMUnitTest){.name = name, .test_func = settles, .initial_state = name};
    }
    rc = _cmocka_run_group_tests("gateway_golden", tests, files.n * 2, NULL, NULL);
    sw_free(tests);
    rig_free(rig);
    return rc;
}
