/* SPDX-License-Identifier: Apache-2.0 */
/* Facts from objects, the order of sources, pods, and both sides' decisions. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "control/link/auth/auth.h"
#include "control/link/auth/balance.h"
#include "control/link/auth/judge.h"
#include "control/link/auth/peers.h"
#include "control/link/auth/pods.h"
#include "control/link/facts.h"
#include "io/loop.h"

#define S(x) SW_SLICE_LIT(x)

static struct sw_json *parse(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
    return v;
}

#define IMPORT                                                                                     \
    "{\"metadata\":{\"namespace\":\"default\",\"name\":\"web\",\"labels\":{\"tier\":\"front\"},"   \
    "\"annotations\":{\"link.spanwire.dev/weights\":\"a=3, c=0\"}},"                               \
    "\"spec\":{\"lbScheme\":\"%s\",\"sources\":[{\"peer\":\"a\"},{\"peer\":\"b\",\"exportName\":"  \
    "\"x\",\"exportNamespace\":\"y\"},{\"peer\":\"c\"}]}}"

static struct sw_link_facts *facts_with(struct sw_arena *a, const char *scheme, const char *policy)
{
    static const struct sw_slice valid;
    struct sw_link_facts_builder *b = sw_link_facts_begin();

    sw_link_facts_add_import(b, parse(a, sw_arena_printf(a, IMPORT, scheme)), valid);
    sw_link_facts_add_export(b,
                             parse(a, "{\"metadata\":{\"namespace\":\"default\",\"name\":\"web\","
                                      "\"labels\":{\"tier\":\"front\"}}}"),
                             valid);
    sw_link_facts_add_peer(b, parse(a, "{\"metadata\":{\"name\":\"b\"},\"spec\":{\"gateways\":["
                                       "{\"host\":\"h\",\"port\":443},{\"host\":\"\",\"port\":1},"
                                       "{\"host\":\"x\",\"port\":70000}]}}"));
    if (policy)
        (void)!sw_link_facts_add_policy(b, parse(a, policy), NULL);
    return sw_link_facts_end(b);
}

static void facts_read_objects(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_link_facts *f = facts_with(&a, "", NULL);
    struct sw_link_facts *again = facts_with(&a, "", NULL);
    struct sw_link_facts *other = facts_with(&a, "static", NULL);
    const struct sw_link_import *i = sw_link_facts_import(f, S("default/web"));
    const struct sw_link_peer *p = sw_link_facts_peer(f, S("b"));

    (void)state;
    assert_non_null(i);
    assert_true(i->valid);
    assert_int_equal(i->n, 3);
    assert_true(sw_slice_eq_str(i->sources[0].export_name, "web"));
    assert_true(sw_slice_eq_str(i->sources[1].export_ns, "y"));
    assert_int_equal(i->sources[0].weight, 3);
    assert_int_equal(i->sources[1].weight, 1);
    assert_int_equal(i->sources[2].weight, 0);
    assert_true(sw_slice_eq_str(i->labels.p[0].key, SW_LINK_EXPORT_LABELS "tier"));
    assert_int_equal(p->n, 1); /* what cannot be dialled is left out */
    assert_null(sw_link_facts_import(f, S("default/none")));
    assert_null(sw_link_facts_export(f, S("other/web")));
    assert_int_equal(sw_link_facts_hash(f), sw_link_facts_hash(again));
    assert_int_not_equal(sw_link_facts_hash(f), sw_link_facts_hash(other));
    (void)sw_link_facts_unref(f);
    (void)sw_link_facts_unref(again);
    (void)sw_link_facts_unref(other);
}

/* Writers of policies are tenants, and each decision of their namespace looks at all of them. */
static void policies_of_a_namespace_are_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO values = {.max = 1 << 20};
    struct sw_link_facts_builder *b = sw_link_facts_begin();
    struct sw_err err = {0};
    size_t good = 0;
    int last = SW_OK;

    (void)state;
    for (unsigned i = 0; i < 4000; i++)
        assert_int_equal(sw_buf_printf(&values, "%s\"v%u\"", i ? "," : "", i), SW_OK);
    for (unsigned i = 0; i < 40; i++) {
        last = sw_link_facts_add_policy(
            b,
            parse(&a, sw_arena_printf(&a,
                                      "{\"metadata\":{\"namespace\":\"many\",\"name\":\"p%u\"},"
                                      "\"spec\":{\"action\":\"deny\",\"from\":[{"
                                      "\"workloadSelector\":{\"matchExpressions\":[{\"key\":\"k\","
                                      "\"operator\":\"In\",\"values\":[%.*s]}]}}],\"to\":[{"
                                      "\"workloadSelector\":{}}]}}",
                                      i, SW_SLICE_ARG(sw_buf_slice(&values)))),
            &err);
        good += last == SW_OK;
    }
    assert_int_equal(last, SW_ELIMIT);
    assert_int_equal(good, SW_LINK_TERMS_MAX / 4003);
    /* Another namespace does not notice. */
    assert_int_equal(sw_link_facts_add_policy(
                         b,
                         parse(&a, "{\"metadata\":{\"namespace\":\"z\",\"name\":\"p\"},\"spec\":{"
                                   "\"action\":\"allow\",\"from\":[{\"workloadSelector\":{}}],"
                                   "\"to\":[{\"workloadSelector\":{}}]}}"),
                         &err),
                     SW_OK);
    sw_link_facts_abort(b);
}

/* ---- the order of sources ---- */

static uint64_t lowest(void *arg, uint64_t bound)
{
    (void)arg;
    assert_true(bound > 0);
    return 0;
}

static uint64_t highest(void *arg, uint64_t bound)
{
    (void)arg;
    return bound - 1;
}

static bool not_b(void *arg, const struct sw_link_source *s)
{
    (void)arg;
    return !sw_slice_eq_str(s->peer, "b");
}

static bool only_a(void *arg, const struct sw_link_source *s)
{
    (void)arg;
    return sw_slice_eq_str(s->peer, "a");
}

static int by_letter(void *arg, const struct sw_link_source *s)
{
    (void)arg;
    return 'c' - s->peer.p[0];
}

static const struct {
    const char *scheme;
    struct sw_link_choice choice;
    const char *order;
} orders[] = {
    {"round-robin", {.turn = 1}, "bca"}, /* the first connection goes to the second source */
    {"round-robin", {.turn = 2}, "cab"},
    {"round-robin", {.turn = 3}, "abc"},
    {"round-robin", {.turn = 1, .reachable = not_b}, "cab"},
    {"round-robin", {.turn = 1, .excluded = only_a}, "bc"},
    {"static", {.turn = 1}, "abc"},
    {"static", {.turn = 2, .reachable = not_b}, "acb"},
    {"random", {.random = lowest}, "abc"},
    {"random", {.random = highest}, "cab"},
    {"weighted", {.random = lowest}, "abc"},
    {"weighted", {.random = highest}, "bac"}, /* weight 0 is last whatever is drawn */
    {"weighted", {.random = highest, .reachable = only_a}, "abc"},
    {"locality", {.turn = 1, .distance = by_letter}, "cba"},
    {"locality", {.turn = 1, .distance = by_letter, .reachable = only_a}, "acb"},
    {"nearest", {.turn = 1}, ""},
};

static void sources_are_ordered_by_scheme(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(orders); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_link_facts *f = facts_with(&a, orders[i].scheme, NULL);
        const struct sw_link_import *in = sw_link_facts_import(f, S("default/web"));
        uint32_t order[SW_LINK_SOURCES_MAX];
        size_t n = sw_link_order(in, &orders[i].choice, order);
        char text[8] = "";

        for (size_t k = 0; k < n; k++)
            text[k] = in->sources[order[k]].peer.p[0];
        if (strcmp(text, orders[i].order) != 0)
            fail_msg("row %zu, %s: %s", i, orders[i].scheme, text);
        assert_int_equal(in->valid, orders[i].order[0] != '\0');
        (void)sw_link_facts_unref(f);
    }
}

/* ---- decisions ---- */

#define POLICY(action, from, to)                                                                   \
    "{\"metadata\":{\"namespace\":\"default\",\"name\":\"p\"},\"spec\":{\"action\":\"" action      \
    "\",\"from\":[{\"workloadSelector\":" from "}],\"to\":[{\"workloadSelector\":" to "}]}}"
#define LABEL(key, value) "{\"matchLabels\":{\"" key "\":\"" value "\"}}"

static const struct sw_attr known[] = {{S(SW_LINK_CLIENT_LABELS "app"), S("shop")},
                                       {S(SW_LINK_CLIENT_NS), S("default")}};
static const struct sw_attr own_labels[] = {{S(SW_LINK_PEER_LABELS "zone"), S("a")}};
static const struct sw_attr peer_labels[] = {{S(SW_LINK_PEER_LABELS "zone"), S("b")}};

static const struct {
    const char *policy;
    bool known;
    bool egress;
    bool ingress;
} decisions[] = {
    {NULL, true, false, false},
    {POLICY("allow", "{}", "{}"), true, true, true},
    {POLICY("allow", "{}", "{}"), false, true, true}, /* nobody looks at the client */
    {POLICY("allow", LABEL(SW_LINK_CLIENT_NS, "default"), "{}"), true, true, true},
    {POLICY("allow", LABEL(SW_LINK_CLIENT_NS, "default"), "{}"), false, false, false},
    {POLICY("deny", LABEL(SW_LINK_CLIENT_NS, "default"), "{}"), false, false, false},
    {POLICY("allow", LABEL(SW_LINK_PEER_NAME, "here"), "{}"), true, true, true},
    {POLICY("allow", LABEL(SW_LINK_PEER_LABELS "zone", "a"), "{}"), true, true, true},
    {POLICY("allow", "{}", LABEL(SW_LINK_PEER_NAME, "b")), true, true, false},
    {POLICY("allow", "{}", LABEL(SW_LINK_PEER_NAME, "here")), true, false, true},
    {POLICY("allow", "{}", LABEL(SW_LINK_PEER_LABELS "zone", "b")), true, true, false},
    {POLICY("allow", "{}", LABEL(SW_LINK_EXPORT_NAME, "x")), true, true, false},
    {POLICY("allow", "{}", LABEL(SW_LINK_EXPORT_NS, "default")), true, false, true},
    {POLICY("allow", "{}", LABEL(SW_LINK_EXPORT_LABELS "tier", "front")), true, true, true},
    {POLICY("deny", "{}", LABEL("a/b/c", "x")), true, false, false}, /* unreadable: denies all */
};

static void both_sides_decide(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(decisions); i++) {
        SW_ARENA_AUTO a = {0};
        const struct sw_link_self self = {.name = S("here"), .labels = {own_labels, 1}};
        const struct sw_attrs client = {known, SW_ARRAY_LEN(known)};
        const struct sw_attrs labels = {peer_labels, 1};
        struct sw_link_facts *f = facts_with(&a, "static", decisions[i].policy);
        const struct sw_link_import *in = sw_link_facts_import(f, S("default/web"));
        struct sw_attrs src = sw_link_src_attrs(&a, &self, decisions[i].known ? &client : NULL);
        const struct sw_attrs *const ends[] = {&src, &labels};
        struct sw_policy_verdict v;

        if (sw_link_judge_egress(&a, f, in, &in->sources[1], ends, &v) != decisions[i].egress)
            fail_msg("row %zu, egress", i);
        assert_int_equal(v.text[0] == '\0', decisions[i].egress);
        if (sw_link_judge_ingress(&a, f, &self, sw_link_facts_export(f, S("default/web")), &src,
                                  &v) != decisions[i].ingress)
            fail_msg("row %zu, ingress", i);
        (void)sw_link_facts_unref(f);
    }
}

/* ---- pods ---- */

static void count_change(void *arg)
{
    (*(int *)arg)++;
}

#define POD(name, label, status)                                                                   \
    "{\"metadata\":{\"namespace\":\"default\",\"name\":\"" name "\",\"labels\":{\"app\":\"" label  \
    "\"}},\"spec\":{},\"status\":" status "}"

static const char *app_of(struct sw_arena *a, struct sw_link_pods *p, const char *ip)
{
    const struct sw_attrs *at = sw_link_pods_find(p, sw_slice_str(ip));
    const struct sw_slice *v = at ? sw_attrs_get(at, S(SW_LINK_CLIENT_LABELS "app")) : NULL;

    return v ? sw_arena_dup(a, *v) : "";
}

static void clients_are_pods_with_an_address_of_their_own(void **state)
{
    SW_ARENA_AUTO a = {0};
    int changes = 0;
    struct sw_link_pods *p = sw_link_pods_new(count_change, &changes);

    (void)state;
    sw_link_pods_set(p, parse(&a, POD("x", "one",
                                      "{\"podIPs\":[{\"ip\":\"10.0.0.1\"},{\"ip\":"
                                      "\"fd00:0::1\"}],\"hostIP\":\"192.168.0.1\"}")));
    sw_link_pods_set(p, parse(&a, POD("h", "host",
                                      "{\"podIPs\":[{\"ip\":\"192.168.0.1\"}],"
                                      "\"hostIP\":\"192.168.0.1\"}")));
    assert_string_equal(app_of(&a, p, "192.168.0.1"), "");
    assert_string_equal(app_of(&a, p, "10.0.0.9"), "");
    assert_string_equal(app_of(&a, p, "rubbish"), "");
    assert_int_equal(changes, 0);
    assert_string_equal(app_of(&a, p, "fd00::1"), "one");
    assert_string_equal(app_of(&a, p, "10.0.0.1"), "one");
    /* The same again changes nothing; other labels do, because it was asked for. */
    sw_link_pods_set(p, parse(&a, POD("x", "one",
                                      "{\"podIPs\":[{\"ip\":\"10.0.0.1\"},{\"ip\":"
                                      "\"fd00:0::1\"}],\"hostIP\":\"192.168.0.1\"}")));
    assert_int_equal(changes, 0);
    sw_link_pods_set(p, parse(&a, POD("x", "two", "{\"podIPs\":[{\"ip\":\"10.0.0.1\"}]}")));
    assert_int_equal(changes, 1);
    assert_string_equal(app_of(&a, p, "fd00::1"), "");
    assert_string_equal(app_of(&a, p, "10.0.0.1"), "two");
    /* The address passes to another pod; the old one goes later. */
    sw_link_pods_set(p, parse(&a, POD("y", "new", "{\"podIPs\":[{\"ip\":\"10.0.0.1\"}]}")));
    assert_string_equal(app_of(&a, p, "10.0.0.1"), "new");
    sw_link_pods_del(p, S("default"), S("x"));
    assert_string_equal(app_of(&a, p, "10.0.0.1"), "new");
    sw_link_pods_set(p, parse(&a, POD("y", "new",
                                      "{\"phase\":\"Failed\",\"podIPs\":[{\"ip\":\"10.0.0."
                                      "1\"}]}")));
    assert_string_equal(app_of(&a, p, "10.0.0.1"), "");
    sw_link_pods_free(p);
}

/* Requests that are never answered: how many of each peer are let in, one peer after the other. */
static void silent_peers_leave_places_for_others(void **state)
{
    size_t all = 0;

    (void)state;
    for (size_t peer = 0; peer < 8; peer++) {
        size_t own = 0;

        for (; sw_link_share_left(own, all); own++)
            all++;
        assert_true(own >= (size_t)SW_LINK_ASKS_MAX >> (peer + 1));
    }
    assert_true(all < SW_LINK_ASKS_MAX);
    assert_false(sw_link_share_left(0, SW_LINK_ASKS_MAX));
    assert_false(sw_link_share_left(0, SW_LINK_ASKS_MAX + 1));
    /* Who has its share gets no more while others have few. */
    assert_false(sw_link_share_left(SW_LINK_ASKS_MAX / 2, SW_LINK_ASKS_MAX / 2));
}

static void count_answer(void *arg, const struct sw_link_answer *answer)
{
    assert_int_equal(answer->status, 400);
    ++*(size_t *)arg;
}

/* Every refused connection is answered and counted; the log has some. */
static void a_flood_of_refusals_is_not_a_flood_of_lines(void **state)
{
    const struct sw_link_caller peer = {.name = S("far")};
    struct sw_loop *loop = sw_loop_new(NULL);
    struct sw_link_auth *auth = sw_link_auth_new(loop, &(struct sw_link_auth_opts){.wall_s = NULL});
    static char text[1 << 18];
    size_t answers = 0;
    size_t lines = 0;
    int fds[2];

    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    (void)fcntl(fds[0], F_SETPIPE_SZ, sizeof(text));
    sw_log_start(fds[1], SW_LOG_PLAIN);
    for (size_t i = 0; i < 500; i++)
        sw_link_auth_token(auth, S("{"), &peer, count_answer, &answers);
    sw_log_flush();
    sw_log_stop();
    assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
    for (const char *at = text; (at = strstr(at, "connection refused")); at++)
        lines++;
    assert_int_equal(answers, 500);
    assert_in_range(lines, 1, 100);
    sw_link_auth_free(auth);
    sw_loop_free(loop);
    (void)close(fds[0]);
    (void)close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_read_objects),
        cmocka_unit_test(policies_of_a_namespace_are_bounded),
        cmocka_unit_test(sources_are_ordered_by_scheme),
        cmocka_unit_test(both_sides_decide),
        cmocka_unit_test(clients_are_pods_with_an_address_of_their_own),
        cmocka_unit_test(silent_peers_leave_places_for_others),
        cmocka_unit_test(a_flood_of_refusals_is_not_a_flood_of_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
