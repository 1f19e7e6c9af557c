/* SPDX-License-Identifier: Apache-2.0 */
/* Host names of backends to endpoint sets: what is asked, kept, denied and bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/gateway/build/build.h"
#include "control/gateway/lookups.h"
#include "io/egress.h"
#include "io/resolver.h"
#include "telemetry/metrics.h"

enum { ASKED_MAX = 64 };

static struct {
    struct sw_loop *loop;
    struct sw_lookups *l;
    struct sw_egress *egress;
    struct sw_metrics *metrics;
    struct sw_metrics_shard *shard;
    struct sw_arena arena;
    struct sw_map sets; /* name -> text of what was reported last */
    struct sw_resolve *asked[ASKED_MAX];
    size_t n_asked;
    unsigned reports;
    unsigned settled;
} w;

static uint64_t now_ns;

static uint64_t fake_clock(void)
{
    return now_ns;
}

static void ask(struct sw_resolve *r)
{
    assert_true(w.n_asked < ASKED_MAX);
    w.asked[w.n_asked++] = r;
}

static void on_set(void *arg, const struct sw_resolved *r)
{
    const char *text = r->ips ? "" : "gone";
    char ip[SW_IP_TEXT];

    (void)arg;
    w.reports++;
    for (size_t i = 0; i < r->n; i++)
        text = sw_arena_printf(&w.arena, "%s%s%s", text, i ? " " : "", sw_ip_text(&r->ips[i], ip));
    (void)sw_map_put(&w.sets, sw_arena_slice(&w.arena, r->set),
                     sw_arena_dup(&w.arena, sw_slice_str(text)));
}

static void on_settled(void *arg)
{
    (void)arg;
    w.settled++;
}

static int begin(void **state)
{
    static const char *const allow[] = {"10.9.0.1"};
    static const char *const deny[] = {"10.8.0.0/16"};
    const struct sw_egress_opts eo = {.allow = allow, .n_allow = 1, .deny = deny, .n_deny = 1};

    (void)state;
    memset(&w, 0, sizeof(w));
    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    w.loop = sw_loop_new(NULL);
    now_ns = SW_NS_PER_S;
    sw_loop_set_clock(w.loop, fake_clock);
    w.egress = sw_egress_new(w.loop, &eo, NULL);
    assert_non_null(w.egress);
    w.metrics = sw_metrics_new(&(struct sw_metrics_opts){.component = "control"});
    w.shard = sw_metrics_shard_new(w.metrics);
    w.l = sw_lookups_new(&(struct sw_lookups_opts){.loop = w.loop,
                                                   .egress = w.egress,
                                                   .metrics = w.shard,
                                                   .ask = ask,
                                                   .on_set = on_set,
                                                   .on_settled = on_settled});
    return 0;
}

static void respond(size_t i, int rc, bool unknown, const char *ips);

static int end(void **state)
{
    (void)state;
    sw_lookups_free(w.l);
    while (w.n_asked) /* answers that nobody waits for any more */
        respond(0, SW_ENOENT, true, NULL);
    sw_egress_free(w.egress);
    sw_metrics_shard_free(w.shard);
    sw_metrics_free(w.metrics);
    sw_loop_free(w.loop);
    sw_map_done(&w.sets);
    sw_arena_clear(&w.arena);
    return 0;
}

/* ---- steps ---- */

static void mode(enum sw_lookups_mode m, const char *client)
{
    struct sw_ip ip = {0};

    if (client)
        assert_int_equal(sw_ip_parse(sw_slice_str(client), &ip, NULL), SW_OK);
    sw_lookups_mode(w.l, m, &ip, client != NULL);
}

static void plan(const char *text)
{
    sw_lookups_plan(w.l, sw_slice_str(text));
}

static void pass(uint64_t ns)
{
    now_ns += ns;
    sw_loop_turn(w.loop, 0);
}

static void respond(size_t i, int rc, bool unknown, const char *ips)
{
    struct sw_resolve *r = w.asked[i];
    struct sw_slice rest = sw_slice_str(ips ? ips : "");

    memmove(&w.asked[i], &w.asked[i + 1], (--w.n_asked - i) * sizeof(*w.asked));
    r->rc = rc;
    r->unknown = unknown;
    r->n = 0;
    while (rest.n)
        assert_int_equal(sw_ip_parse(sw_slice_cut(&rest, ' '), &r->ips[r->n++], NULL), SW_OK);
    r->cb(r);
}

static void respond_to(const char *name, int rc, bool unknown, const char *ips)
{
    for (size_t i = 0; i < w.n_asked; i++) {
        if (strcmp(w.asked[i]->name, name) == 0) {
            respond(i, rc, unknown, ips);
            return;
        }
    }
    fail_msg("'%s' was not asked for", name);
}

static void found(const char *name, const char *ips)
{
    respond_to(name, SW_OK, false, ips);
}

static const char *holds(const char *set)
{
    const char *text = sw_map_get(&w.sets, sw_slice_str(set));

    return text ? text : "nothing";
}

/* A counter of the page of metrics. */
static int counted(const char *name, const char *reason)
{
    SW_BUF_AUTO page = {.max = 1 << 20};
    SW_ARENA_AUTO a = {0};
    const char *line = sw_arena_printf(&a, "\n%s_total{reason=\"%s\"} ", name, reason);
    const char *at;

    assert_int_equal(sw_metrics_write(w.metrics, SW_METRICS_PROMETHEUS, &page), SW_OK);
    assert_int_equal(sw_buf_append(&page, "", 1), SW_OK);
    at = strstr(sw_buf_data(&page), line);
    return at ? (int)strtol(at + strlen(line), NULL, 10) : 0;
}

static int denied(const char *class)
{
    return counted("spanwire_upstream_denied", class);
}

#define A "resolved/tcp/a.test/80"
#define B "resolved/tcp/b.test/80"

/* ---- what comes out ---- */

static void an_answer_becomes_a_set(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("set app/web/80\nresolved " A "\nresolved resolved/tcp/a.test/81\n");
    assert_int_equal(w.n_asked, 1); /* one lookup for both ports */
    assert_false(sw_lookups_settled(w.l));
    found("a.test", "10.1.0.2 10.1.0.1 10.1.0.2");
    assert_string_equal(holds(A), "10.1.0.1 10.1.0.2");
    assert_string_equal(holds("resolved/tcp/a.test/81"), "10.1.0.1 10.1.0.2");
    assert_true(sw_lookups_settled(w.l));
    assert_int_equal(w.settled, 1);
}

static void the_order_of_an_answer_changes_nothing(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\n");
    found("a.test", "10.1.0.1 10.1.0.2");
    pass(6 * SW_NS_PER_S);
    found("a.test", "10.1.0.2 10.1.0.1");
    assert_int_equal(w.reports, 1);
}

static void one_family_goes_out(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\nresolved " B "\n");
    found("a.test", "2001:db8::1 10.1.0.1 2001:db8::2");
    found("b.test", "::1 10.1.0.1 2001:db8::2"); /* the first that may be dialled decides */
    assert_string_equal(holds(A), "2001:db8::1 2001:db8::2");
    assert_string_equal(holds(B), "10.1.0.1");
}

static void special_addresses_are_left_out(void **state)
{
    static const struct {
        const char *ips;
        const char *left;
        const char *class;
    } cases[] = {
        {"127.0.0.1", "", "loopback"},
        {"127.8.9.1 10.1.0.1", "10.1.0.1", "loopback"},
        {"::1", "", "loopback"},
        {"::ffff:127.0.0.1", "", "loopback"},
        {"64:ff9b::7f00:1", "", "loopback"},
        {"169.254.169.254", "", "link-local"},
        {"fe80::1", "", "link-local"},
        {"0.0.0.0", "", "unspecified"},
        {"224.0.0.1", "", "multicast"},
        {"168.63.129.16", "", "metadata"},
        {"10.8.1.1 10.7.0.1", "10.7.0.1", "listed"},
    };

    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\n");
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        int before = denied(cases[i].class);

        found("a.test", cases[i].ips);
        assert_string_equal(holds(A), cases[i].left);
        assert_int_equal(denied(cases[i].class), before + 1);
        pass(6 * SW_NS_PER_S);
        found("a.test", cases[i].ips); /* the same again is no news */
        assert_int_equal(denied(cases[i].class), before + 1);
        pass(6 * SW_NS_PER_S);
    }
}

static void a_rebound_name_loses_its_endpoint(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\n");
    found("a.test", "10.1.0.1");
    pass(6 * SW_NS_PER_S);
    found("a.test", "127.0.0.1");
    assert_string_equal(holds(A), "");
}

static void data_planes_are_not_led_to_themselves(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, "10.2.0.1");
    plan("resolved " A "\n");
    found("a.test", "10.2.0.1 10.9.0.1");
    assert_string_equal(holds(A), "10.9.0.1");
    assert_int_equal(denied("own"), 1);
    mode(SW_LOOKUPS_ON, "10.9.0.1"); /* which the allow list names */
    assert_string_equal(holds(A), "10.2.0.1 10.9.0.1");
}

/* ---- failures ---- */

static void a_server_that_fails_changes_nothing(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\n");
    found("a.test", "10.1.0.1");
    for (int i = 0; i < 10; i++) {
        pass(70 * SW_NS_PER_S);
        respond_to("a.test", i % 2 ? SW_ENOENT : SW_ELIMIT, i % 2, NULL);
    }
    assert_string_equal(holds(A), "10.1.0.1");
    pass(70 * SW_NS_PER_S);
    found("a.test", "10.1.0.9");
    assert_string_equal(holds(A), "10.1.0.9");
    pass(6 * SW_NS_PER_S); /* and it is asked for often again */
    assert_int_equal(w.n_asked, 1);
}

static void a_name_that_is_gone_loses_its_addresses_after_a_while(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\n");
    found("a.test", "10.1.0.1");
    pass(6 * SW_NS_PER_S);
    respond_to("a.test", SW_ENOENT, false, NULL);
    assert_string_equal(holds(A), "10.1.0.1");
    for (int i = 0; i < 40 && strcmp(holds(A), "") != 0; i++) {
        pass(SW_NS_PER_S);
        while (w.n_asked)
            respond_to("a.test", SW_ENOENT, false, NULL);
        if (i < 28)
            assert_string_equal(holds(A), "10.1.0.1");
    }
    assert_string_equal(holds(A), "");
}

static void a_first_answer_is_not_waited_for_long(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\n");
    assert_string_equal(holds(A), "nothing");
    pass(SW_NS_PER_S);
    assert_string_equal(holds(A), ""); /* a set that does not exist would hold an Envoy up */
    assert_true(sw_lookups_settled(w.l));
    assert_int_equal(w.settled, 1);
    found("a.test", "10.1.0.1");
    assert_string_equal(holds(A), "10.1.0.1");
}

/* After a restart sets that are there and hold nothing would take endpoints away. */
static void first_answers_are_waited_for_longer_at_the_start(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_QUIET, NULL);
    plan("resolved " A "\n");
    pass(SW_NS_PER_S);
    respond_to("a.test", SW_ENOENT, true, NULL);
    pass(SW_NS_PER_S);
    assert_int_equal(w.n_asked, 1); /* again, and soon */
    assert_false(sw_lookups_settled(w.l));
    mode(SW_LOOKUPS_ON, "10.2.0.1"); /* one came back */
    assert_string_equal(holds(A), "nothing");
    pass(2 * SW_NS_PER_S);
    assert_true(sw_lookups_settled(w.l));
    assert_string_equal(holds(A), "");
    plan("resolved " A "\nresolved " B "\n");
    pass(SW_NS_PER_S);
    assert_string_equal(holds(B), "");
}

/* ---- bounds ---- */

static void add_names(struct sw_buf *out, const char *prefix, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(sw_buf_printf(out, "resolved resolved/tcp/%s%d.test/80\n", prefix, i), 0);
}

static void few_are_asked_for_at_once(void **state)
{
    SW_BUF_AUTO text = {.max = 1 << 20};

    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    add_names(&text, "n", 100);
    sw_lookups_plan(w.l, sw_buf_slice(&text));
    assert_int_equal(w.n_asked, SW_RESOLVER_THREADS - 1);
    for (int i = 0; i < 100; i++)
        respond(0, SW_OK, false, "10.1.0.1");
    assert_int_equal(w.n_asked, 0);
    assert_int_equal(w.settled, 1);
}

/* Names of one tenant that nobody answers for, and a name of another that works. */
static void names_without_an_answer_leave_room_for_the_others(void **state)
{
    SW_BUF_AUTO text = {.max = 1 << 20};
    int asked = 0;

    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\n");
    found("a.test", "10.1.0.1");
    assert_int_equal(sw_buf_printf(&text, "resolved " A "\n"), 0);
    add_names(&text, "slow", 50);
    sw_lookups_plan(w.l, sw_buf_slice(&text));
    assert_int_equal(w.n_asked, SW_RESOLVER_THREADS - 1);
    for (int i = 0; i < 20; i++) {
        pass(6 * SW_NS_PER_S); /* those that are under way do not come back */
        found("a.test", "10.1.0.1");
        asked++;
    }
    assert_int_equal(asked, 20);
    while (w.n_asked)
        respond(0, SW_ENOENT, true, NULL);
    pass(6 * SW_NS_PER_S);
    assert_int_equal(w.n_asked, 2); /* a.test, and one of those that failed */
}

static void names_beyond_the_bound_have_no_address(void **state)
{
    SW_BUF_AUTO text = {.max = 1 << 22};

    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    add_names(&text, "n", SW_LOOKUPS_MAX + 2);
    sw_lookups_plan(w.l, sw_buf_slice(&text));
    assert_string_equal(holds("resolved/tcp/n8192.test/80"), "");
    assert_string_equal(holds("resolved/tcp/n8193.test/80"), "");
    assert_string_equal(holds("resolved/tcp/n8191.test/80"), "nothing");
    assert_int_equal(counted("spanwire_gateway_refusals", "EndpointNames"), 2);
    plan("resolved resolved/tcp/n8193.test/80\n"); /* still: nothing was swept yet */
    sw_lookups_sweep(w.l);
    plan("resolved resolved/tcp/n8193.test/80\n");
    while (w.n_asked)
        respond(0, SW_OK, false, "10.1.0.1");
    assert_string_equal(holds("resolved/tcp/n8193.test/80"), "10.1.0.1");
}

/* ---- when ---- */

static void a_set_goes_when_it_is_swept(void **state)
{
    (void)state;
    mode(SW_LOOKUPS_ON, NULL);
    plan("resolved " A "\nresolved " B "\n");
    found("a.test", "10.1.0.1");
    plan("resolved " B "\n");
    assert_string_equal(holds(A), "10.1.0.1");
    sw_lookups_sweep(w.l);
    assert_string_equal(holds(A), "gone");
    plan("");
    sw_lookups_sweep(w.l); /* with its lookup under way */
    assert_true(sw_lookups_settled(w.l));
    found("b.test", "10.1.0.1");
    assert_string_equal(holds(B), "nothing");
    pass(60 * SW_NS_PER_S);
    assert_int_equal(w.n_asked, 0);
}

static void nothing_is_asked_while_nobody_needs_it(void **state)
{
    (void)state;
    plan("resolved " A "\n");
    assert_int_equal(w.n_asked, 0);
    assert_true(sw_lookups_settled(w.l));
    mode(SW_LOOKUPS_QUIET, NULL);
    assert_false(sw_lookups_settled(w.l));
    found("a.test", "127.0.0.1 10.1.0.1");
    assert_string_equal(holds(A), "10.1.0.1");
    assert_int_equal(denied("loopback"), 0);
    mode(SW_LOOKUPS_ON, NULL);
    assert_int_equal(denied("loopback"), 1);
    mode(SW_LOOKUPS_OFF, NULL);
    pass(60 * SW_NS_PER_S);
    assert_int_equal(w.n_asked, 0);
    assert_string_equal(holds(A), "10.1.0.1"); /* what was checked stays */
    mode(SW_LOOKUPS_ON, NULL);
    assert_int_equal(w.n_asked, 1);
}

static void names_of_sets_are_told_apart(void **state)
{
    static const struct {
        const char *set;
        bool is;
    } cases[] = {
        {"resolved/tcp/a.test/80", true},
        {"resolved/tcp/80", false},
        {"resolved/tcp/80+udp", false},
        {"resolved/tcp/a.test/0", false},
        {"resolved/tcp/a.test/65536", false},
        {"resolved/tcp//80", false},
        {"resolved/tcp/a.test/80/x", false},
        {"slice/resolved/tcp/80", false},
        {"", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_int_equal(sw_resolved_parse(sw_slice_str(cases[i].set), NULL, NULL), cases[i].is);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_answer_becomes_a_set),
        TEST(the_order_of_an_answer_changes_nothing),
        TEST(one_family_goes_out),
        TEST(special_addresses_are_left_out),
        TEST(a_rebound_name_loses_its_endpoint),
        TEST(data_planes_are_not_led_to_themselves),
        TEST(a_server_that_fails_changes_nothing),
        TEST(a_name_that_is_gone_loses_its_addresses_after_a_while),
        TEST(a_first_answer_is_not_waited_for_long),
        TEST(first_answers_are_waited_for_longer_at_the_start),
        TEST(few_are_asked_for_at_once),
        TEST(names_without_an_answer_leave_room_for_the_others),
        TEST(names_beyond_the_bound_have_no_address),
        TEST(a_set_goes_when_it_is_swept),
        TEST(nothing_is_asked_while_nobody_needs_it),
        cmocka_unit_test(names_of_sets_are_told_apart),
    };

    return cmocka_run_group_tests_name("gateway lookups", tests, NULL, NULL);
}
