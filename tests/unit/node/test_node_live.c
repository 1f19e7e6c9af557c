/* SPDX-License-Identifier: Apache-2.0 */
/* The builder over time: every snapshot equals one made at once of the same resources. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/rand.h"
#include "base/thread.h"
#include "base/time.h"
#include "fixture.h"
#include "node/state/smap.h"

/* ---- the map ---- */

static uint64_t spread(uint64_t i)
{
    return (i + 1) * 0x9e3779b97f4a7c15U;
}

static const void *number(uint64_t i)
{
    return (const void *)(uintptr_t)(i + 1);
}

static bool has(const struct sw_smap *m, uint64_t i)
{
    SW_SMAP_PROBE (m, spread(i), it) {
        if (sw_smap_value(it) == number(i))
            return true;
    }
    return false;
}

static void frozen_maps_do_not_change(void **state)
{
    enum { N = 20000 };
    struct sw_smap_bin bin = {{0}};
    struct sw_smap_edit ed = {.number = 1, .bin = &bin};
    struct sw_smap m = {0};
    struct sw_smap old;
    struct sw_smap_walk walk;
    size_t n = 0;

    (void)state;
    for (uint64_t i = 0; i < N; i++)
        sw_smap_add(&m, &ed, spread(i), number(i));
    assert_int_equal(bin.old.n, 0); /* nothing was frozen */
    old = m;
    ed.number++;
    for (uint64_t i = 0; i < N; i += 2)
        sw_smap_del(&m, &ed, spread(i), number(i));
    for (uint64_t i = 1; i < N; i += 4)
        sw_smap_set(&m, &ed, spread(i), number(i), number(N + i));
    assert_int_equal(m.n, N / 2);
    for (uint64_t i = 0; i < N; i++) {
        assert_true(has(&old, i));
        assert_int_equal(has(&m, i), i % 4 == 3);
    }
    walk = (struct sw_smap_walk){.map = &old};
    while (sw_smap_next(&walk))
        n++;
    assert_int_equal(n, N);
    sw_smap_free(&m);
    for (size_t i = 0; i < bin.old.n; i++)
        sw_free(bin.old.p[i]);
    sw_vec_done(&bin.old);
}

static void entries_of_one_hash_keep_their_order(void **state)
{
    struct sw_smap_bin bin = {{0}};
    struct sw_smap_edit ed = {.number = 1, .bin = &bin};
    struct sw_smap m = {0};
    uint64_t seen = 0;

    (void)state;
    for (uint64_t i = 0; i < 100; i++) {
        sw_smap_add(&m, &ed, 7, number(i));
        sw_smap_add(&m, &ed, spread(i), number(i));
    }
    SW_SMAP_PROBE (&m, 7, it)
        assert_ptr_equal(sw_smap_value(it), number(seen++));
    assert_int_equal(seen, 100);
    sw_smap_free(&m);
}

/* ---- resources by number: each has a few shapes, so that changes change something ---- */

enum { WORKLOADS = 40, SERVICES = 8, POLICIES = 6, ROUNDS = 400 };

struct world {
    int workload[WORKLOADS]; /* its shape; -1: there is none */
    int service[SERVICES];
    int policy[POLICIES];
};

static void put_workload(struct sw_state_builder *b, unsigned i, int shape)
{
    char uid[32];
    char name[16];
    char keys[2][16];
    char policy[16];
    struct sw_ip ips[2] = {{.family = 4, .b = {10, 0, 0, (uint8_t)i}},
                           {.family = 4, .b = {10, 0, 1, (uint8_t)(i / 2)}}};
    struct sw_port_pair port = {80, (uint16_t)(8000 + shape)};
    struct sw_membership_spec in[2] = {{.ports = &port, .n_ports = 1}, {.ports = NULL}};
    struct sw_slice listed;
    struct sw_workload_spec w = {.ns = i % 2 ? S("a") : S("b"),
                                 .ips = ips,
                                 .n_ips = 1U + (shape & 1),
                                 .services = in,
                                 .n_services = (size_t)shape % 3,
                                 .policies = &listed,
                                 .n_policies = shape == 3,
                                 .unhealthy = shape == 2,
                                 .node = shape == 1 ? S("here") : S("there"),
                                 .protocol = shape & 1,
                                 .hostname = shape == 4 ? S("h.x") : S("")};

    (void)snprintf(name, sizeof(name), "p%u", i);
    (void)snprintf(uid, sizeof(uid), "c//Pod/ns/p%u", i);
    (void)snprintf(keys[0], sizeof(keys[0]), "a/s%u", i % SERVICES);
    (void)snprintf(keys[1], sizeof(keys[1]), "a/s%u", (i + 3) % SERVICES);
    (void)snprintf(policy, sizeof(policy), "a/p%u", i % POLICIES);
    listed = sw_slice_str(policy);
    w.uid = sw_slice_str(uid);
    w.name = sw_slice_str(name);
    in[0].key = sw_slice_str(keys[0]);
    in[1].key = sw_slice_str(keys[1]);
    assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
}

static void put_service(struct sw_state_builder *b, unsigned i, int shape)
{
    char host[16];
    struct sw_network_addr vip = {.ip = {.family = 4, .b = {20, 0, 0, (uint8_t)i}}};
    struct sw_network_cidr block = {.cidr = {{.family = 4, .b = {30, (uint8_t)i}}, 16}};
    struct sw_service_spec s = {.ns = S("a"),
                                .vips = &vip,
                                .n_vips = shape != 1,
                                .cidr_vips = &block,
                                .n_cidr_vips = shape == 2,
                                .health_policy = shape == 3,
                                .canonical = shape == 4};

    (void)snprintf(host, sizeof(host), "s%u", i);
    s.hostname = sw_slice_str(host);
    assert_int_equal(sw_state_add_service(b, &s, NULL), SW_OK);
}

static void put_policy(struct sw_state_builder *b, unsigned i, int shape)
{
    char name[16];
    struct sw_policy p = {.ns = S("a"),
                          .scope = (enum sw_policy_scope)(shape % 3),
                          .action = (enum sw_policy_action)(shape / 3)};

    (void)snprintf(name, sizeof(name), "p%u", i);
    p.name = sw_slice_str(name);
    assert_int_equal(sw_state_add_policy(b, &p, S(""), NULL), SW_OK);
}

static void remove_one(struct sw_state_builder *b, unsigned kind, unsigned i, bool there)
{
    char key[32];

    if (kind == 0) {
        (void)snprintf(key, sizeof(key), "c//Pod/ns/p%u", i);
        assert_int_equal(sw_state_remove_workload(b, sw_slice_str(key)), there);
    } else if (kind == 1) {
        (void)snprintf(key, sizeof(key), "s%u", i);
        assert_int_equal(sw_state_remove_service(b, S("a"), sw_slice_str(key)), there);
    } else {
        (void)snprintf(key, sizeof(key), "a/p%u", i);
        assert_int_equal(sw_state_remove_policy(b, sw_slice_str(key)), there);
    }
}

static void change_something(struct sw_state_builder *b, struct world *w)
{
    unsigned kind = (unsigned)sw_rand_below(3);
    static const unsigned most[] = {WORKLOADS, SERVICES, POLICIES};
    unsigned i = (unsigned)sw_rand_below(most[kind]);
    int shape = (int)sw_rand_below(6) - 1;
    int *now = kind == 0 ? &w->workload[i] : kind == 1 ? &w->service[i] : &w->policy[i];

    if (shape < 0)
        remove_one(b, kind, i, *now >= 0);
    else if (kind == 0)
        put_workload(b, i, shape);
    else if (kind == 1)
        put_service(b, i, shape);
    else
        put_policy(b, i, shape);
    *now = shape;
}

static struct sw_state *made_at_once(const struct world *w)
{
    struct sw_state_builder *b = sw_state_builder_new(S("here"), true);

    for (unsigned i = 0; i < POLICIES; i++) {
        if (w->policy[i] >= 0)
            put_policy(b, i, w->policy[i]);
    }
    for (unsigned i = 0; i < SERVICES; i++) {
        if (w->service[i] >= 0)
            put_service(b, i, w->service[i]);
    }
    for (unsigned i = 0; i < WORKLOADS; i++) {
        if (w->workload[i] >= 0)
            put_workload(b, i, w->workload[i]);
    }
    return sw_state_finish(b);
}

static void same_workload(const struct sw_workload *x, const struct sw_workload *y)
{
    assert_true(sw_slice_eq(uid_of(x), uid_of(y)));
    assert_int_equal(x->n_ips, y->n_ips);
    assert_int_equal(x->healthy, y->healthy);
    assert_int_equal(x->c->n_services, y->c->n_services);
    assert_true(sw_slice_eq(x->at->node, y->at->node));
    for (size_t i = 0; i < x->c->n_services; i++)
        assert_true(sw_slice_eq(sw_membership_key(&x->c->services[i]),
                                sw_membership_key(&y->c->services[i])));
}

static bool is_endpoint(const struct sw_service *s, const struct sw_workload *w)
{
    for (size_t i = 0; i < s->n_endpoints; i++) {
        if (sw_slice_eq(uid_of(s->endpoints[i]), uid_of(w)))
            return true;
    }
    return false;
}

static void same_service(const struct sw_service *x, const struct sw_service *y)
{
    assert_true(sw_slice_eq(x->hostname, y->hostname));
    assert_int_equal(x->n_endpoints, y->n_endpoints);
    assert_int_equal(x->uniform, y->uniform);
    assert_int_equal(x->n_vips, y->n_vips);
    for (size_t i = 0; i < x->n_endpoints; i++)
        assert_true(is_endpoint(y, x->endpoints[i]));
}

static void same_policies(const struct sw_state *s, const struct sw_workload *x,
                          const struct sw_state *t, const struct sw_workload *y)
{
    struct sw_policy_set a = sw_state_policies_for(s, x);
    struct sw_policy_set b = sw_state_policies_for(t, y);

    assert_true(sw_slice_eq(a.missing, b.missing));
    for (size_t i = 0; i < SW_POLICY_PARTS; i++) {
        assert_int_equal(a.part[i] != NULL, b.part[i] != NULL);
        if (a.part[i])
            assert_int_equal(sw_policy_list_count(a.part[i]), sw_policy_list_count(b.part[i]));
    }
}

static void same_lookups(const struct sw_state *s, const struct sw_state *t)
{
    for (unsigned i = 0; i < WORKLOADS; i++) {
        struct sw_ip a = {.family = 4, .b = {10, 0, 0, (uint8_t)i}};
        const struct sw_workload *x = sw_state_workload_by_ip(s, S(""), &a);
        const struct sw_workload *y = sw_state_workload_by_ip(t, S(""), &a);

        assert_int_equal(x != NULL, y != NULL);
        if (x && y)
            same_workload(x, y);
    }
    for (unsigned i = 0; i < SERVICES; i++) {
        struct sw_ip vip = {.family = 4, .b = {20, 0, 0, (uint8_t)i}};
        struct sw_ip in = {.family = 4, .b = {30, (uint8_t)i, 3, 4}};

        assert_int_equal(sw_state_service_by_vip(s, S(""), &vip, S("z")) != NULL,
                         sw_state_service_by_vip(t, S(""), &vip, S("z")) != NULL);
        assert_int_equal(sw_state_service_by_vip(s, S(""), &in, S("z")) != NULL,
                         sw_state_service_by_vip(t, S(""), &in, S("z")) != NULL);
    }
}

static void count_one(void *arg, const struct sw_workload *w)
{
    assert_slice(w->at->node, "here");
    ++*(size_t *)arg;
}

static void assert_same(const struct sw_state *s, const struct sw_state *t)
{
    SW_AUTO_FREE struct sw_slice *staged = sw_state_list_staged(s);
    size_t locals[2] = {0};

    assert_int_equal(sw_state_workload_count(s), sw_state_workload_count(t));
    assert_int_equal(sw_state_service_count(s), sw_state_service_count(t));
    assert_int_equal(sw_state_policy_count(s), sw_state_policy_count(t));
    assert_int_equal(sw_state_staged_count(s), sw_state_staged_count(t));
    for (size_t i = 0; i < sw_state_staged_count(s); i++)
        assert_true(sw_slice_eq(staged[i], staged_at(t, i)));
    for (size_t i = 0; i < sw_state_workload_count(s); i++) {
        same_workload(workload_at(s, i), workload_at(t, i));
        same_policies(s, workload_at(s, i), t, workload_at(t, i));
    }
    for (size_t i = 0; i < sw_state_service_count(s); i++)
        same_service(service_at(s, i), service_at(t, i));
    for (size_t i = 0; i < sw_state_policy_count(s); i++)
        assert_int_equal(policy_at(s, i)->action, policy_at(t, i)->action);
    same_lookups(s, t);
    sw_state_each_local(s, count_one, &locals[0]);
    sw_state_each_local(t, count_one, &locals[1]);
    assert_int_equal(locals[0], locals[1]);
}

static void changes_one_by_one_equal_the_whole(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S("here"), true);
    struct sw_state *kept[3] = {NULL}; /* old snapshots that somebody still reads */
    struct world kept_of[3];
    struct world w;

    (void)state;
    memset(&w, 0xff, sizeof(w));
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct sw_state *s;
        STATE_AUTO whole = NULL;

        for (unsigned n = (unsigned)sw_rand_below(6); n; n--)
            change_something(b, &w);
        s = sw_state_commit(b);
        whole = made_at_once(&w);
        assert_same(s, whole);
        if (kept[i % 3]) {
            STATE_AUTO then = made_at_once(&kept_of[i % 3]);

            assert_same(kept[i % 3], then);
        }
        if (i % 3 == 0 || sw_rand_below(4) == 0) {
            (void)sw_state_unref(kept[i % 3]);
            kept[i % 3] = s;
            kept_of[i % 3] = w;
        } else {
            (void)sw_state_unref(s);
        }
    }
    sw_state_builder_free(b);
    for (unsigned i = 0; i < 3; i++)
        (void)sw_state_unref(kept[i]);
}

static void nothing_new_is_the_same_snapshot(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    STATE_AUTO first = sw_state_commit(b);
    STATE_AUTO again = sw_state_commit(b);
    STATE_AUTO third = NULL;

    (void)state;
    assert_ptr_equal(first, again);
    assert_false(sw_state_remove_workload(b, S("nobody")));
    put_policy(b, 1, 1);
    third = sw_state_commit(b);
    assert_true(sw_state_version(third) > sw_state_version(first));
    assert_true(sw_state_authz_version(third) > sw_state_authz_version(first));
    assert_int_equal(sw_state_local_version(third), sw_state_local_version(first));
    sw_state_builder_free(b);
}

static void a_replaced_service_keeps_its_endpoints(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    STATE_AUTO staged = NULL;
    STATE_AUTO known = NULL;
    STATE_AUTO replaced = NULL;
    STATE_AUTO gone = NULL;

    (void)state;
    put_workload(b, 1, 1); /* names a/s1 */
    put_workload(b, 9, 2); /* as well, and is unhealthy */
    staged = sw_state_commit(b);
    assert_int_equal(sw_state_staged_count(staged), 2);
    assert_slice(staged_at(staged, 0), "a/s1");
    put_service(b, 1, 0);
    known = sw_state_commit(b);
    assert_int_equal(sw_state_staged_count(known), 1);
    assert_int_equal(service_at(known, 0)->n_endpoints, 1);
    put_service(b, 1, 3); /* ALLOW_ALL */
    replaced = sw_state_commit(b);
    assert_int_equal(service_at(replaced, 0)->n_endpoints, 2);
    assert_int_equal(service_at(known, 0)->n_endpoints, 1);
    remove_one(b, 1, 1, true);
    gone = sw_state_commit(b);
    assert_int_equal(sw_state_service_count(gone), 0);
    assert_int_equal(sw_state_staged_count(gone), 2);
    sw_state_builder_free(b);
}

/* ---- readers on other threads ---- */

enum { READERS = 3, COMMITS = 3000 };

struct reader {
    pthread_t thread;
    _Atomic(struct sw_state *) inbox; /* a reference on its way */
    atomic_bool over;
    uint64_t looked;
};

/* Holds a snapshot for a while, as a connection does, and releases it out of order. */
static void *read_snapshots(void *arg)
{
    struct reader *r = arg;
    struct sw_state *held[4] = {NULL};

    for (unsigned i = 0; !atomic_load(&r->over); i++) {
        struct sw_state *s = atomic_exchange(&r->inbox, NULL);

        if (s) {
            (void)sw_state_unref(held[i % 4]);
            held[i % 4] = s;
        }
        for (unsigned k = 0; k < 4; k++) {
            struct sw_ip a = {.family = 4, .b = {10, 0, 0, (uint8_t)(i % WORKLOADS)}};
            const struct sw_workload *w =
                held[k] ? sw_state_workload_by_ip(held[k], S(""), &a) : NULL;
            const struct sw_service *svc =
                held[k] ? sw_state_service_by_key(held[k], S("a"), S("s1")) : NULL;

            r->looked += w ? w->uid_n + w->c->n_services : 0;
            for (size_t e = 0; svc && e < svc->n_endpoints; e++)
                r->looked += svc->endpoints[e]->uid_n;
        }
    }
    for (unsigned k = 0; k < 4; k++)
        (void)sw_state_unref(held[k]);
    return NULL;
}

static void snapshots_are_read_while_the_next_are_made(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S("here"), true);
    struct reader readers[READERS] = {{0}};
    struct world w;

    (void)state;
    memset(&w, 0xff, sizeof(w));
    for (unsigned i = 0; i < READERS; i++)
        assert_int_equal(sw_thread_start(&readers[i].thread, read_snapshots, &readers[i], "reader"),
                         0);
    for (unsigned i = 0; i < COMMITS; i++) {
        struct sw_state *s;

        change_something(b, &w);
        s = sw_state_commit(b);
        (void)sw_state_unref(atomic_exchange(&readers[i % READERS].inbox, sw_state_ref(s)));
        (void)sw_state_unref(s);
    }
    /* The builder goes first: the last snapshot takes everything with it. */
    sw_state_builder_free(b);
    for (unsigned i = 0; i < READERS; i++) {
        atomic_store(&readers[i].over, true);
        assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
        (void)sw_state_unref(atomic_load(&readers[i].inbox));
    }
}

/* Says what a change costs; how long that may take is a matter of the benchmarks. */
static void one_change_among_many(void **state)
{
    enum { N = 100000, CHANGES = 10000 };
    struct sw_state_builder *b = sw_state_builder_new(S("here"), true);
    struct sw_state *s;
    uint64_t start = sw_now_ns();

    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < (round ? CHANGES : N); i++) {
            char uid[48];
            struct sw_ip ip = {.family = 4,
                               .b = {10, (uint8_t)(i >> 16), (uint8_t)(i >> 8), (uint8_t)i}};
            struct sw_membership_spec in = {.key = S("a/s0")};
            struct sw_workload_spec w = {.ips = &ip,
                                         .n_ips = 1,
                                         .ns = S("a"),
                                         .services = &in,
                                         .n_services = i < 1000,
                                         .unhealthy = round && i % 2};

            (void)snprintf(uid, sizeof(uid), "cluster//Pod/ns/pod-%u", i);
            w.uid = sw_slice_str(uid);
            assert_int_equal(sw_state_add_workload(b, &w, NULL), SW_OK);
            if (round)
                (void)sw_state_unref(sw_state_commit(b));
        }
        s = sw_state_commit(b);
        assert_int_equal(sw_state_workload_count(s), N);
        print_message("# %s: %llu ns each\n", round ? "changed and committed" : "loaded",
                      (unsigned long long)((sw_now_ns() - start) / (round ? CHANGES : N)));
        start = sw_now_ns();
        (void)sw_state_unref(s);
    }
    sw_state_builder_free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_maps_do_not_change),
        cmocka_unit_test(entries_of_one_hash_keep_their_order),
        cmocka_unit_test(changes_one_by_one_equal_the_whole),
        cmocka_unit_test(nothing_new_is_the_same_snapshot),
        cmocka_unit_test(a_replaced_service_keeps_its_endpoints),
        cmocka_unit_test(snapshots_are_read_while_the_next_are_made),
        cmocka_unit_test(one_change_among_many),
    };

    return cmocka_run_group_tests_name("live", tests, NULL, NULL);
}
