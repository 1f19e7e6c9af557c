/* SPDX-License-Identifier: Apache-2.0 */
#include "xds/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/mem.h"
#include "proto/pb.h"

#include <proto/discovery.pb-c.h>

#define T1 "type.googleapis.com/a.One"
#define T2 "type.googleapis.com/a.Two"

struct heard {
    struct sw_xds_listener l;
    int changes;
    int gone;
};

static void on_change(struct sw_xds_listener *l)
{
    SW_CONTAINER_OF(l, struct heard, l)->changes++;
}

static void on_gone(struct sw_xds_listener *l)
{
    SW_CONTAINER_OF(l, struct heard, l)->gone++;
}

static void put(struct sw_xds_txn *t, const char *type, const char *name, const char *value)
{
    assert_int_equal(sw_xds_txn_put(t, type, sw_slice_str(name), sw_slice_str(value), NULL), SW_OK);
}

static void set(struct sw_xds_txn *t, const char *type, const char *name, const char *value)
{
    assert_int_equal(sw_xds_txn_set(t, type, sw_slice_str(name), sw_slice_str(value), NULL), SW_OK);
}

static struct sw_xds_snap *get(struct sw_xds_cache *c, const char *type)
{
    return sw_xds_cache_get(c, sw_slice_str(type));
}

static void a_resource_is_encoded_for_both_variants(void **state)
{
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();
    SW_ARENA_AUTO a = {0};
    struct sw_xds_res *r;
    Sw__Resource *res;
    Sw__Any *any;

    (void)state;
    put(t, T1, "x", "value");
    put(t, T1, "empty", "");
    (void)sw_xds_cache_commit(c, t);
    r = sw_xds_snap_get(get(c, T1), SW_SLICE_LIT("x"));
    assert_non_null(r);
    any = SW_PB_UNPACK(&a, Sw__Any, sw__any, r->any, NULL, NULL);
    res = SW_PB_UNPACK(&a, Sw__Resource, sw__resource, r->resource, NULL, NULL);
    assert_non_null(any);
    assert_non_null(res);
    assert_true(sw_slice_eq_str(SW_PB_SLICE(any->type_url), T1));
    assert_true(sw_slice_eq_str(SW_PB_SLICE(any->value), "value"));
    assert_true(sw_slice_eq_str(SW_PB_SLICE(res->name), "x"));
    assert_true(sw_slice_eq(SW_PB_SLICE(res->version), r->version));
    assert_true(sw_slice_eq(SW_PB_SLICE(res->resource->value), r->value));
    assert_int_equal(r->version.n, SW_XDS_VERSION_LEN);
    r = sw_xds_snap_get(get(c, T1), SW_SLICE_LIT("empty"));
    assert_true(sw_slice_eq(
        r->any, sw_pb_pack(&a, &(Sw__Any){.base = any->base, .type_url = SW_PB_LIT(T1)}.base)));
    sw_xds_cache_free(c);
}

static void aliases_follow_the_resource_in_its_encoding(void **state)
{
    const struct sw_slice names[] = {SW_SLICE_LIT("net/10.0.0.1"), SW_SLICE_LIT("net/fd00::1")};
    const struct sw_slice services[] = {SW_SLICE_LIT("ns/svc")};
    const struct sw_xds_extra x = {.aliases = names,
                                   .n_aliases = 2,
                                   .node = SW_SLICE_LIT("node-1"),
                                   .services = services,
                                   .n_services = 1};
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct sw_xds_res *r;
    Sw__Resource *res;

    (void)state;
    assert_int_equal(sw_xds_txn_set_extra(t, T1, SW_SLICE_LIT("x"), SW_SLICE_LIT("v"), &x, &err),
                     SW_OK);
    (void)sw_xds_cache_commit(c, t);
    r = sw_xds_snap_get(get(c, T1), SW_SLICE_LIT("x"));
    assert_non_null(r);
    res = SW_PB_UNPACK(&a, Sw__Resource, sw__resource, r->resource, NULL, NULL);
    assert_non_null(res);
    assert_int_equal(res->n_aliases, 0);
    res = SW_PB_UNPACK(&a, Sw__Resource, sw__resource, r->aliased, NULL, NULL);
    assert_non_null(res);
    assert_int_equal(res->n_aliases, 2);
    assert_true(sw_slice_eq(SW_PB_SLICE(res->aliases[1]), names[1]));
    assert_true(sw_slice_eq_str(SW_PB_SLICE(res->name), "x"));
    assert_true(sw_slice_eq(sw_xds_res_alias(r, 0), names[0]));
    assert_true(sw_slice_eq(sw_xds_res_service(r, 0), services[0]));
    assert_true(sw_slice_eq_str(r->node, "node-1"));
    sw_xds_cache_free(c);
}

static void too_many_aliases_are_refused(void **state)
{
    struct sw_slice *names = SW_NEW_ARRAY(struct sw_slice, SW_XDS_ALIASES_MAX + 1);
    const struct sw_xds_extra x = {.aliases = names, .n_aliases = SW_XDS_ALIASES_MAX + 1};
    struct sw_xds_txn *t = sw_xds_txn_new();
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(sw_xds_txn_set_extra(t, T1, SW_SLICE_LIT("x"), SW_SLICE_LIT("v"), &x, &err),
                     SW_EINVAL);
    sw_xds_txn_free(t);
    sw_free(names);
}

static void a_commit_replaces_the_types_it_names(void **state)
{
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct heard h = {.l = {.on_change = on_change, .on_gone = on_gone}};
    struct sw_xds_txn *t = sw_xds_txn_new();
    struct sw_xds_diff d;
    struct sw_xds_res *b;

    (void)state;
    sw_xds_cache_listen(c, &h.l);
    put(t, T1, "b", "1");
    put(t, T1, "a", "0");
    put(t, T1, "a", "1"); /* the last one wins */
    put(t, T2, "z", "1");
    d = sw_xds_cache_commit(c, t);
    assert_int_equal(d.added, 3);
    assert_int_equal(h.changes, 1);
    b = sw_xds_snap_get(get(c, T1), SW_SLICE_LIT("b"));
    assert_true(sw_slice_eq_str(get(c, T1)->res[0]->value, "1"));

    t = sw_xds_txn_new();
    put(t, T1, "b", "1");
    put(t, T1, "c", "1");
    d = sw_xds_cache_commit(c, t);
    assert_int_equal(d.added, 1);
    assert_int_equal(d.removed, 1);
    assert_int_equal(d.changed, 0);
    assert_ptr_equal(sw_xds_snap_get(get(c, T1), SW_SLICE_LIT("b")), b);
    assert_int_equal(get(c, T2)->n, 1);
    assert_int_equal(h.changes, 2);

    t = sw_xds_txn_new();
    put(t, T1, "c", "1");
    put(t, T1, "b", "1");
    d = sw_xds_cache_commit(c, t);
    assert_int_equal(d.added + d.removed + d.changed, 0);
    assert_int_equal(h.changes, 2);

    t = sw_xds_txn_new();
    sw_xds_txn_clear(t, T1);
    d = sw_xds_cache_commit(c, t);
    assert_int_equal(d.removed, 2);
    assert_int_equal(get(c, T1)->n, 0);
    assert_int_equal(sw_xds_cache_generation(c), 3);
    sw_xds_cache_free(c);
    assert_int_equal(h.gone, 1);
}

static void single_changes_leave_the_rest(void **state)
{
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();
    struct sw_err err = {0};
    struct sw_xds_diff d;

    (void)state;
    put(t, T1, "a", "1");
    put(t, T1, "b", "1");
    (void)sw_xds_cache_commit(c, t);
    t = sw_xds_txn_new();
    set(t, T1, "b", "2");
    set(t, T1, "c", "1");
    assert_int_equal(sw_xds_txn_del(t, T1, SW_SLICE_LIT("a"), NULL), SW_OK);
    assert_int_equal(sw_xds_txn_del(t, T1, SW_SLICE_LIT("nothing"), NULL), SW_OK);
    assert_int_equal(sw_xds_txn_put(t, T1, SW_SLICE_LIT("x"), SW_SLICE_LIT(""), &err), SW_EINVAL);
    d = sw_xds_cache_commit(c, t);
    assert_int_equal(d.added, 1);
    assert_int_equal(d.changed, 1);
    assert_int_equal(d.removed, 1);
    assert_int_equal(get(c, T1)->n, 2);
    sw_xds_cache_free(c);
}

/* Removed and set again before the commit, as when builds come faster than endpoints are built. */
static void the_last_change_of_a_name_wins(void **state)
{
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();

    (void)state;
    set(t, T1, "a", "1");
    set(t, T1, "b", "1");
    (void)sw_xds_cache_commit(c, t);
    t = sw_xds_txn_new();
    assert_int_equal(sw_xds_txn_del(t, T1, SW_SLICE_LIT("a"), NULL), SW_OK);
    set(t, T1, "a", "2");
    set(t, T1, "b", "2");
    assert_int_equal(sw_xds_txn_del(t, T1, SW_SLICE_LIT("b"), NULL), SW_OK);
    assert_int_equal(sw_xds_txn_del(t, T1, SW_SLICE_LIT("new"), NULL), SW_OK);
    set(t, T1, "new", "1");
    (void)sw_xds_cache_commit(c, t);
    assert_non_null(sw_xds_snap_get(get(c, T1), SW_SLICE_LIT("a")));
    assert_null(sw_xds_snap_get(get(c, T1), SW_SLICE_LIT("b")));
    assert_non_null(sw_xds_snap_get(get(c, T1), SW_SLICE_LIT("new")));
    sw_xds_cache_free(c);
}

static void versions_follow_the_content_only(void **state)
{
    struct sw_xds_cache *a = sw_xds_cache_new();
    struct sw_xds_cache *b = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();

    (void)state;
    put(t, T1, "a", "1");
    put(t, T1, "b", "2");
    (void)sw_xds_cache_commit(a, t);
    t = sw_xds_txn_new();
    put(t, T1, "b", "2");
    (void)sw_xds_cache_commit(b, t);
    t = sw_xds_txn_new();
    set(t, T1, "a", "1");
    (void)sw_xds_cache_commit(b, t);
    assert_string_equal(get(a, T1)->version, get(b, T1)->version);
    assert_true(sw_slice_eq(get(a, T1)->res[0]->version, get(b, T1)->res[0]->version));
    assert_false(sw_slice_eq(get(a, T1)->res[0]->version, get(b, T1)->res[1]->version));
    /* Clients remember versions for longer than a process lives. */
    assert_true(sw_slice_eq_str(get(a, T1)->res[0]->version, "a0bead804318e255ecec781d0f82d3c5"));
    t = sw_xds_txn_new();
    set(t, T1, "a", "2");
    (void)sw_xds_cache_commit(b, t);
    assert_string_not_equal(get(a, T1)->version, get(b, T1)->version);
    sw_xds_cache_free(a);
    sw_xds_cache_free(b);
}

static void a_union_keeps_what_would_go(void **state)
{
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();
    struct sw_xds_snap *old;
    struct sw_xds_snap *u;

    (void)state;
    put(t, T1, "a", "1");
    put(t, T1, "b", "1");
    (void)sw_xds_cache_commit(c, t);
    old = sw_xds_snap_ref(get(c, T1));
    t = sw_xds_txn_new();
    put(t, T1, "b", "2");
    put(t, T1, "c", "1");
    (void)sw_xds_cache_commit(c, t);
    u = sw_xds_snap_union(old, get(c, T1));
    assert_int_equal(u->n, 3);
    assert_ptr_equal(u->res[0], old->res[0]);
    assert_ptr_equal(u->res[1], get(c, T1)->res[0]);
    sw_xds_snap_unref(u);
    u = sw_xds_snap_union(get(c, T1), get(c, T1));
    assert_ptr_equal(u, get(c, T1));
    sw_xds_snap_unref(u);
    u = sw_xds_snap_union(NULL, get(c, T1));
    assert_ptr_equal(u, get(c, T1));
    sw_xds_snap_unref(u);
    sw_xds_snap_unref(old);
    sw_xds_cache_free(c);
}

static void a_subset_shares_its_resources(void **state)
{
    const struct sw_slice names[] = {SW_SLICE_LIT("a"), SW_SLICE_LIT("c"), SW_SLICE_LIT("nobody")};
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();
    uint64_t generation;

    (void)state;
    put(t, T1, "a", "1");
    put(t, T1, "b", "2");
    put(t, T1, "c", "3");
    (void)sw_xds_cache_commit(c, t);
    sw_xds_cache_subset(c, "v#" T1, T1, names, 3);
    assert_int_equal(get(c, "v#" T1)->n, 2);
    assert_ptr_equal(get(c, "v#" T1)->res[1], get(c, T1)->res[2]);
    generation = sw_xds_cache_generation(c);
    sw_xds_cache_subset(c, "v#" T1, T1, names, 3);
    assert_int_equal(sw_xds_cache_generation(c), generation);
    sw_xds_cache_subset(c, "v#" T1, T1, NULL, 0);
    assert_int_equal(get(c, "v#" T1)->n, 0);
    assert_int_equal(get(c, T1)->n, 3);
    sw_xds_cache_free(c);
}

/* What is kept for a view is of the type that clients ask for. */
static void a_view_does_not_show_in_a_resource(void **state)
{
    struct sw_xds_cache *c = sw_xds_cache_new();
    struct sw_xds_txn *t = sw_xds_txn_new();

    (void)state;
    put(t, T1, "a", "1");
    put(t, "v#" T1, "a", "1");
    (void)sw_xds_cache_commit(c, t);
    assert_true(sw_slice_eq(get(c, "v#" T1)->res[0]->any, get(c, T1)->res[0]->any));
    sw_xds_cache_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_subset_shares_its_resources),
        cmocka_unit_test(a_view_does_not_show_in_a_resource),
        cmocka_unit_test(a_resource_is_encoded_for_both_variants),
        cmocka_unit_test(aliases_follow_the_resource_in_its_encoding),
        cmocka_unit_test(too_many_aliases_are_refused),
        cmocka_unit_test(a_commit_replaces_the_types_it_names),
        cmocka_unit_test(single_changes_leave_the_rest),
        cmocka_unit_test(the_last_change_of_a_name_wins),
        cmocka_unit_test(versions_follow_the_content_only),
        cmocka_unit_test(a_union_keeps_what_would_go),
    };

    return cmocka_run_group_tests_name("xds cache", tests, NULL, NULL);
}
