/* SPDX-License-Identifier: Apache-2.0 */
#include "xds/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/types.h"

static struct sw_xds_res *make(const char *name, const char *value, const char *alias,
                               const char *node)
{
    const struct sw_slice aliases[] = {sw_slice_str(alias ? alias : "")};
    const struct sw_xds_extra x = {
        .aliases = aliases, .n_aliases = alias != NULL, .node = sw_slice_str(node ? node : "")};

    return sw_xds_res_new(SW_SLICE_LIT(SW_TYPE_ADDRESS), sw_slice_str(name), sw_slice_str(value),
                          &x);
}

static bool set(struct xds_table *t, const char *name, const char *value, const char *alias,
                const char *node)
{
    struct sw_xds_res *r = make(name, value, alias, node);
    bool fresh;
    bool changed = xds_table_set(t, r, &fresh);

    sw_xds_res_unref(r);
    return changed;
}

static size_t hits(const struct xds_index *x, const char *key)
{
    struct xds_hits h;

    xds_index_find(x, sw_slice_str(key), &h);
    return h.n;
}

static void records_are_found_by_name_alias_and_node(void **state)
{
    struct xds_table *t = xds_table_new();

    (void)state;
    assert_true(set(t, "a", "1", "n/10.0.0.1", "host"));
    assert_false(set(t, "a", "1", "n/10.0.0.1", "host"));
    assert_true(set(t, "b", "1", "n/10.0.0.1", "host"));
    assert_int_equal(hits(&t->aliases, "n/10.0.0.1"), 2);
    assert_int_equal(hits(&t->nodes, "host"), 2);
    /* The alias moves with the value. */
    assert_true(set(t, "a", "2", "n/10.0.0.2", "other"));
    assert_int_equal(hits(&t->aliases, "n/10.0.0.1"), 1);
    assert_int_equal(hits(&t->aliases, "n/10.0.0.2"), 1);
    assert_int_equal(hits(&t->nodes, "host"), 1);
    assert_true(xds_table_del(t, SW_SLICE_LIT("b")));
    assert_false(xds_table_del(t, SW_SLICE_LIT("b")));
    assert_int_equal(hits(&t->aliases, "n/10.0.0.1"), 0);
    assert_null(xds_table_get(t, SW_SLICE_LIT("b")));
    assert_non_null(xds_table_get(t, SW_SLICE_LIT("a")));
    assert_int_equal(t->n, 1);
    assert_int_equal(t->n_removed, 1);
    xds_table_free(t);
}

static void the_version_depends_on_the_content_only(void **state)
{
    struct xds_table *a = xds_table_new();
    struct xds_table *b = xds_table_new();

    (void)state;
    (void)set(a, "x", "1", NULL, NULL);
    (void)set(a, "y", "1", NULL, NULL);
    xds_table_seal(a);
    (void)set(b, "y", "0", NULL, NULL);
    (void)set(b, "z", "0", NULL, NULL);
    (void)set(b, "x", "1", NULL, NULL);
    (void)set(b, "y", "1", NULL, NULL);
    xds_table_seal(b);
    assert_string_not_equal(a->version, b->version);
    (void)xds_table_del(b, SW_SLICE_LIT("z"));
    xds_table_seal(b);
    assert_string_equal(a->version, b->version);
    xds_table_free(a);
    xds_table_free(b);
}

/* What a follower from 0 would be sent. */
static size_t live_in_log(const struct xds_table *t, size_t *ret_removed)
{
    size_t n = 0;

    *ret_removed = 0;
    for (size_t i = xds_table_after(t, 0); i < t->log.n; i++) {
        if (i)
            assert_true(t->log.p[i - 1].seq < t->log.p[i].seq);
        if (!xds_change_counts(&t->log.p[i]))
            continue;
        n += t->log.p[i].rec->res != NULL;
        *ret_removed += t->log.p[i].rec->res == NULL;
    }
    return n;
}

static void the_log_has_every_record_once_and_stays_small(void **state)
{
    struct xds_table *t = xds_table_new();
    uint32_t seed = 7;
    size_t removed;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        char name[16];
        char value[16];

        seed = seed * 1664525 + 1013904223;
        (void)snprintf(name, sizeof(name), "r%u", seed >> 8 & 1023);
        (void)snprintf(value, sizeof(value), "%d", i);
        if (seed >> 28 < 5)
            (void)xds_table_del(t, sw_slice_str(name));
        else
            assert_true(set(t, name, value, value, "node"));
        if (i % 100 == 0)
            xds_table_seal(t);
    }
    xds_table_seal(t);
    assert_int_equal(live_in_log(t, &removed), t->n);
    assert_int_equal(removed, t->n_removed);
    assert_true(t->log.n < 16384);
    assert_true(t->n_slots <= 1024);
    assert_int_equal(hits(&t->nodes, "node"), t->n);
    assert_int_equal(t->forgotten, 0);
    xds_table_free(t);
}

static void old_removals_are_forgotten_beyond_a_number(void **state)
{
    struct xds_table *t = xds_table_new();
    size_t removed;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "r%d", i);
        (void)set(t, name, "1", NULL, NULL);
        (void)xds_table_del(t, sw_slice_str(name));
        if (i % 100 == 0)
            xds_table_seal(t);
    }
    xds_table_seal(t);
    assert_true(t->n_removed <= 65536);
    assert_true(t->forgotten > 0);
    assert_true(t->names.n <= 65536);
    assert_true(t->n_slots <= 65536 + 200);
    assert_int_equal(live_in_log(t, &removed), 0);
    assert_int_equal(removed, t->n_removed);
    assert_true(t->log.p[0].seq > t->forgotten);
    xds_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_are_found_by_name_alias_and_node),
        cmocka_unit_test(the_version_depends_on_the_content_only),
        cmocka_unit_test(the_log_has_every_record_once_and_stays_small),
        cmocka_unit_test(old_removals_are_forgotten_beyond_a_number),
    };

    return cmocka_run_group_tests_name("xds table", tests, NULL, NULL);
}
