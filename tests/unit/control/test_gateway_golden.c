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
#include "control/runtime_int.h"
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

static char *dump(const struct sw_model *m)
{
    struct sw_buf out;

    sw_buf_init(&out, (size_t)64 << 20);
    assert_int_equal(sw_model_dump(m, &out), SW_OK);
    return sw_buf_take_str(&out);
}

static void owned_by(const struct sw_model *m, struct sw_slice gateway)
{
    for (size_t i = 0; i < m->n_listeners; i++) {
        for (size_t k = 0; k < m->listeners[i]->n_chains; k++) {
            struct sw_slice owner = m->listeners[i]->chains[k]->owner;

            assert_true(!owner.n || sw_slice_eq(owner, gateway));
        }
    }
    for (size_t i = 0; i < m->n_tables; i++) {
        for (size_t k = 0; k < m->tables[i]->n_vhosts; k++)
            assert_true(sw_slice_eq(m->tables[i]->vhosts[k]->owner, gateway));
    }
}

/* The parts of single Gateways are sound and theirs alone; the part of all of them is the whole. */
static void scopes(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_model part;
    struct sw_model_result res;
    struct sw_view *v;
    char *whole;
    char *all;

    load(*state);
    v = rig_view(rig);
    sw_gateway_build(v, &rig->conf, &a, &res);
    for (size_t i = 0; i < res.model->n_gateways; i++) {
        sw_model_scope(res.model, &res.model->gateways[i], 1, &a, &part);
        rig_check(&part);
        owned_by(&part, res.model->gateways[i]);
    }
    sw_model_scope(res.model, NULL, 0, &a, &part);
    assert_int_equal(part.n_listeners + part.n_clusters + part.n_secrets + part.n_endpoints, 0);
    sw_model_scope(res.model, res.model->gateways, res.model->n_gateways, &a, &part);
    rig_check(&part);
    whole = dump(res.model);
    all = dump(&part);
    if (rig->n[SW_MODEL_INGRESS] == 0)
        assert_string_equal(all, whole);
    sw_free(whole);
    sw_free(all);
    view_unref(v);
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
    tests = SW_NEW_ARRAY(struct CMUnitTest, files.n * 3);
    for (size_t i = 0; i < files.n; i++) {
        char *name = files.names[i];

        tests[i * 3] =
            (struct CMUnitTest){.name = name, .test_func = golden, .initial_state = name};
        tests[i * 3 + 1] =
            (struct CMUnitTest){.name = name, .test_func = settles, .initial_state = name};
        tests[i * 3 + 2] =
            (struct CMUnitTest){.name = name, .test_func = scopes, .initial_state = name};
    }
    rc = _cmocka_run_group_tests("gateway_golden", tests, files.n * 3, NULL, NULL);
    sw_free(tests);
    rig_free(rig);
    return rc;
}
