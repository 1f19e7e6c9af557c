/* SPDX-License-Identifier: Apache-2.0 */
/* Which certificates are asked for, when and in which order; the issuer is the test's. */
#include "fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/time.h"
#include "node/cert/certs.h"
#include "tls/cert/ca.h"

enum { ASKED_MAX = 64 };

static uint64_t now_ns;

static uint64_t wall_offset_ns; /* what the clock of the wall was set by */

static uint64_t fake_clock(void)
{
    return now_ns;
}

static uint64_t fake_wall(void)
{
    return sw_wall_ns() + wall_offset_ns;
}

/* ---- an issuer that waits for orders ---- */

static struct {
    struct sw_issuer base;
    struct sw_issue *open[ASKED_MAX]; /* in the order they came; NULL: over */
    size_t n;
    size_t cancelled;
    bool freed;
} fake;

static void fake_start(struct sw_issuer *x, struct sw_issue *i)
{
    (void)x;
    assert_true(fake.n < ASKED_MAX);
    i->call = &fake;
    fake.open[fake.n++] = i;
}

static void fake_cancel(struct sw_issuer *x, struct sw_issue *i)
{
    (void)x;
    for (size_t k = 0; k < fake.n; k++) {
        if (fake.open[k] == i)
            fake.open[k] = NULL;
    }
    i->call = NULL;
    fake.cancelled++;
}

static void fake_free(struct sw_issuer *x)
{
    (void)x;
    fake.freed = true;
}

static const struct sw_issuer_ops fake_ops = {
    .start = fake_start, .cancel = fake_cancel, .free = fake_free};

/* ---- the rig ---- */

static struct {
    struct sw_loop *loop;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard;
    struct sw_certs *certs;
    struct sw_ca *ca;
    unsigned calls;
    bool has_cred; /* of the last call */
    char error[64];
} rig;

static void on_cred(void *arg, struct sw_slice identity, struct sw_tls_cred *cred,
                    const char *error)
{
    (void)arg;
    (void)identity;
    rig.calls++;
    rig.has_cred = cred != NULL;
    assert_true(!cred == (error != NULL));
    (void)snprintf(rig.error, sizeof(rig.error), "%s", error ? error : "");
}

static int setup(void **state)
{
    struct sw_err err = {0};
    struct sw_certs_opts o = {.ttl_ns = 3600 * SW_NS_PER_S, .wall_ns = fake_wall, .cb = on_cred};

    (void)state;
    memset(&rig, 0, sizeof(rig));
    memset(&fake, 0, sizeof(fake));
    fake.base = (struct sw_issuer){.ops = &fake_ops, .name = "fake"};
    now_ns = SW_NS_PER_S;
    wall_offset_ns = 0;
    rig.loop = sw_loop_new(&err);
    sw_loop_set_clock(rig.loop, fake_clock);
    rig.metrics = sw_metrics_new(&(struct sw_metrics_opts){0});
    rig.shard = sw_metrics_shard_new(rig.metrics);
    o.issuer = &fake.base;
    o.shard = rig.shard;
    rig.certs = sw_certs_new(rig.loop, &o, &err);
    rig.ca = sw_ca_new(S("td"), 0, &err);
    return rig.certs && rig.ca ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    sw_certs_free(rig.certs);
    assert_true(fake.freed);
    sw_ca_free(rig.ca);
    sw_metrics_shard_free(rig.shard);
    sw_metrics_free(rig.metrics);
    sw_loop_free(rig.loop);
    return 0;
}

static struct sw_slice id(unsigned i)
{
    static char text[ASKED_MAX][64];

    (void)snprintf(text[i], sizeof(text[i]), "spiffe://td/ns/n/sa/a%u", i);
    return sw_slice_str(text[i]);
}

static void want(unsigned served, unsigned all)
{
    struct sw_slice ids[ASKED_MAX];

    for (unsigned i = 0; i < all; i++)
        ids[i] = id(i);
    sw_certs_want(rig.certs, ids, served, all);
}

static void grant_ttl(size_t i, uint64_t ttl_s)
{
    struct sw_issue *x = fake.open[i];
    struct sw_ca_leaf leaf = {.id = x->identity, .ttl_s = ttl_s};
    struct sw_err err = {0};
    struct sw_tls_cred *cred = sw_ca_issue_cred(rig.ca, &leaf, sw_slice("", 0), &err);

    assert_non_null(cred);
    fake.open[i] = NULL;
    x->call = NULL;
    x->cb(x, cred, &err);
}

static void grant(size_t i)
{
    grant_ttl(i, 3600);
}

static void refuse_for(size_t i, int rc)
{
    struct sw_issue *x = fake.open[i];
    struct sw_err err = {0};

    (void)sw_err_set(&err, rc, "not today");
    fake.open[i] = NULL;
    x->call = NULL;
    x->cb(x, NULL, &err);
}

static void refuse(size_t i)
{
    refuse_for(i, SW_EDENIED);
}

static void pass(uint64_t ns)
{
    now_ns += ns;
    sw_loop_turn(rig.loop, 0);
    sw_loop_turn(rig.loop, 0);
}

static bool asked(size_t i, unsigned who)
{
    return i < fake.n && fake.open[i] && sw_slice_eq(fake.open[i]->identity, id(who));
}

/* ---- tests ---- */

static void served_come_before_prefetched_and_eight_at_a_time(void **state)
{
    (void)state;
    want(0, 20); /* all of them ahead of time */
    assert_int_equal(fake.n, 8);
    want(12, 20); /* now 0 to 11 are served: 8 to 11 overtake */
    assert_int_equal(fake.n, 8);
    for (size_t i = 0; i < 4; i++)
        grant(i);
    assert_int_equal(fake.n, 12);
    for (unsigned i = 8; i < 12; i++)
        assert_true(asked(i, i));
}

static void traffic_comes_first(void **state)
{
    (void)state;
    want(20, 20);
    sw_certs_need(rig.certs, id(19));
    sw_certs_need(rig.certs, id(0)); /* asked already: nothing changes */
    grant(0);
    assert_true(asked(8, 19));
    grant(1);
    assert_true(asked(9, 8));
}

static void renewal_is_due_at_half_of_life(void **state)
{
    struct sw_certs_entry e;

    (void)state;
    want(1, 1);
    e = sw_certs_find(rig.certs, id(0));
    assert_null(e.cred);
    assert_null(e.error);
    grant(0);
    assert_true(rig.has_cred);
    pass(1700 * SW_NS_PER_S);
    assert_int_equal(fake.n, 1);
    pass(200 * SW_NS_PER_S);
    assert_true(asked(1, 0));
    assert_non_null(sw_certs_find(rig.certs, id(0)).cred);
    grant(1);
    assert_int_equal(rig.calls, 2);
}

static void failures_back_off(void **state)
{
    (void)state;
    want(1, 1);
    for (unsigned tries = 0; tries < 10; tries++) {
        uint64_t nominal = sw_min((uint64_t)1 << tries, 150) * SW_NS_PER_S;

        refuse(fake.n - 1);
        assert_false(rig.has_cred);
        assert_string_equal(rig.error, "not today");
        assert_string_equal(sw_certs_find(rig.certs, id(0)).error, "not today");
        /* Between half and all of it: base/backoff.h. */
        pass(nominal * 49 / 100);
        assert_int_equal(fake.n, tries + 1);
        pass(nominal * 52 / 100);
        assert_int_equal(fake.n, tries + 2);
    }
    grant(fake.n - 1);
    assert_true(rig.has_cred);
    assert_null(sw_certs_find(rig.certs, id(0)).error);
}

static void old_certificate_stays_while_it_is_valid(void **state)
{
    (void)state;
    want(1, 1);
    grant(0);
    pass(1900 * SW_NS_PER_S);
    refuse(1);
    assert_int_equal(rig.calls, 1); /* nobody is told */
    assert_non_null(sw_certs_find(rig.certs, id(0)).cred);
}

static void a_machine_that_slept_renews_at_once(void **state)
{
    (void)state;
    want(1, 1);
    grant(0);
    pass(61 * SW_NS_PER_S);
    assert_int_equal(fake.n, 1);
    wall_offset_ns = 2000 * SW_NS_PER_S; /* the loop's clock stood still meanwhile */
    pass(61 * SW_NS_PER_S);
    assert_true(asked(1, 0));
    wall_offset_ns = 0;
    grant(1);
    /* Set back: by the loop's clock it is due all the same. */
    wall_offset_ns = (uint64_t)-2000 * SW_NS_PER_S;
    pass(1700 * SW_NS_PER_S);
    assert_int_equal(fake.n, 2);
    pass(200 * SW_NS_PER_S);
    assert_true(asked(2, 0));
}

static void traffic_shortens_the_wait_after_failures(void **state)
{
    (void)state;
    want(1, 1);
    for (unsigned tries = 0; tries < 8; tries++) {
        refuse(fake.n - 1);
        pass(180 * SW_NS_PER_S);
    }
    refuse_for(fake.n - 1, SW_EUNAVAIL);
    assert_int_equal(fake.n, 9);
    sw_certs_need(rig.certs, id(0));
    pass(3 * SW_NS_PER_S);
    sw_certs_need(rig.certs, id(0));
    assert_int_equal(fake.n, 9); /* not for each connection */
    pass(4 * SW_NS_PER_S);
    assert_int_equal(fake.n, 10);
    refuse(9); /* it is there, and denies: not so soon */
    sw_certs_need(rig.certs, id(0));
    pass(23 * SW_NS_PER_S);
    assert_int_equal(fake.n, 10);
    pass(14 * SW_NS_PER_S);
    assert_int_equal(fake.n, 11);
    grant(10);
    sw_certs_need(rig.certs, id(0));
    pass(60 * SW_NS_PER_S);
    assert_int_equal(fake.n, 11);
}

/* The wait that was planned after a denial may end before the earliest try that traffic asks for.
 */
static void traffic_never_puts_a_retry_off(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 40; round++) {
        fake.n = 0;
        want(1, 1);
        for (unsigned tries = 0; tries < 5; tries++) {
            refuse(fake.n - 1);
            pass(SW_NS_PER_S << tries);
        }
        refuse(fake.n - 1);
        assert_int_equal(fake.n, 6);
        sw_certs_need(rig.certs, id(0));
        pass(16 * SW_NS_PER_S);
        sw_certs_need(rig.certs, id(0));
        pass(16 * SW_NS_PER_S);
        assert_int_equal(fake.n, 7);
        want(0, 0);
    }
}

static void expired_certificate_goes(void **state)
{
    struct sw_issue *x;
    struct sw_ca_leaf leaf = {.id = id(0), .ttl_s = 3600, .backdate_s = 7200};
    struct sw_err err = {0};

    (void)state;
    want(1, 1);
    x = fake.open[0];
    x->call = NULL;
    x->cb(x, sw_ca_issue_cred(rig.ca, &leaf, sw_slice("", 0), &err), &err);
    pass(SW_NS_PER_S);
    refuse(1);
    assert_false(rig.has_cred);
    assert_null(sw_certs_find(rig.certs, id(0)).cred);
}

static void unwanted_are_forgotten(void **state)
{
    (void)state;
    want(3, 3);
    grant(0);
    want(1, 1);
    assert_int_equal(fake.cancelled, 2);
    assert_int_equal(sw_certs_count(rig.certs), 1);
    want(3, 3);
    assert_int_equal(fake.n, 5);
    want(0, 0);
    assert_int_equal(sw_certs_count(rig.certs), 0);
}

static void new_roots_renew_the_others(void **state)
{
    struct sw_ca *old = rig.ca;
    struct sw_err err = {0};

    (void)state;
    want(3, 3);
    grant(0);
    grant(1);
    grant_ttl(2, 7200);
    pass(1900 * SW_NS_PER_S); /* the first two are due, the third is not */
    assert_int_equal(fake.n, 5);
    rig.ca = sw_ca_new(S("td"), 0, &err);
    grant(3);
    assert_true(asked(5, 2));
    sw_ca_free(old);
}

static void dump_is_sorted(void **state)
{
    (void)state;
    want(12, 12);
    for (size_t i = 1; i < sw_certs_count(rig.certs); i++)
        assert_true(sw_slice_cmp(sw_certs_at(rig.certs, i - 1).identity,
                                 sw_certs_at(rig.certs, i).identity) < 0);
}

static void without_an_issuer(void **state)
{
    struct sw_certs_opts o = {.ttl_ns = SW_NS_PER_S, .shard = rig.shard, .cb = on_cred};
    struct sw_err err = {0};
    struct sw_certs *c = sw_certs_new(rig.loop, &o, &err);
    struct sw_slice one = id(0);

    (void)state;
    sw_certs_want(c, &one, 1, 1);
    assert_non_null(sw_certs_find(c, one).error);
    sw_certs_free(c);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(served_come_before_prefetched_and_eight_at_a_time),
        T(traffic_comes_first),
        T(renewal_is_due_at_half_of_life),
        T(failures_back_off),
        T(old_certificate_stays_while_it_is_valid),
        T(a_machine_that_slept_renews_at_once),
        T(traffic_shortens_the_wait_after_failures),
        T(traffic_never_puts_a_retry_off),
        T(expired_certificate_goes),
        T(unwanted_are_forgotten),
        T(new_roots_renew_the_others),
        T(dump_is_sorted),
        T(without_an_issuer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
