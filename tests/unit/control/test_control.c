/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime and the trust controller against a small API. */
#include <pthread.h>

#include "base/log.h"
#include "control/runtime.h"
#include "control/trust.h"
#include "kube/client/client_int.h"

#include "mini_api.h"

static const struct sw_kube_gvr widgets = {"x.example", "v1", "widgets", "Widget", true};
static const struct sw_kube_gvr parts = {"x.example", "v1", "parts", "Part", true};

/* Only those that are ours. */
static bool is_mine(const struct sw_kube_obj *o)
{
    return !sw_json_true(sw_json_walk(o->json, "spec", "foreign", NULL));
}

static const struct sw_control_kind kinds[] = {
    {.gvr = &widgets, .relevant = is_mine},
    {.gvr = &parts},
};

struct world {
    struct mini m;
    struct sw_control *c[2];
    int publishes;
    char last[256];
    int n_changes;
    int stopped;
};

/* Publishes each widget's spec, wants a part for each, a status on each, and no other parts. */
static void build(const struct sw_view *v, struct sw_output *out, void *arg)
{
    struct sw_arena *a = sw_out_arena(out);

    (void)arg;
    for (size_t i = 0; i < sw_view_count(v, 0); i++) {
        const struct sw_kube_obj *w = sw_view_at(v, 0, i);
        struct sw_json *part = sw_json_new_object(a);
        struct sw_json *meta = sw_json_new_object(a);
        struct sw_json *status = sw_json_new_object(a);

        sw_out_publish(out, "thing", w->name, sw_json_text(a, sw_json_find(w->json, "spec"), NULL));
        sw_json_put(a, part, "apiVersion", sw_json_new_str(a, "x.example/v1"));
        sw_json_put(a, part, "kind", sw_json_new_str(a, "Part"));
        sw_json_put_str(a, meta, "name", w->name);
        sw_json_put_str(a, meta, "namespace", w->ns);
        sw_json_put(a, part, "metadata", meta);
        sw_json_put(a, part, "spec", sw_json_copy(a, sw_json_find(w->json, "spec")));
        sw_out_apply(out, 1, part);
        sw_json_put(a, status, "seen", sw_json_copy(a, sw_json_find(w->json, "spec")));
        sw_out_status(out, 0, w, status);
    }
    for (size_t i = 0; i < sw_view_count(v, 1); i++) {
        const struct sw_kube_obj *p = sw_view_at(v, 1, i);

        if (!sw_view_find(v, 0, p->ns, p->name))
            sw_out_delete(out, 1, p);
    }
}

static void on_publish(void *arg, const struct sw_change *changes, size_t n, uint64_t version)
{
    struct world *w = arg;
    size_t at = 0;

    assert_true(version > 0);
    w->publishes++;
    w->n_changes = (int)n;
    for (size_t i = 0; i < n; i++) {
        if (i)
            assert_true(sw_slice_cmp(changes[i - 1].name, changes[i].name) < 0);
        at += (size_t)snprintf(w->last + at, sizeof(w->last) - at, "%.*s=%.*s;",
                               SW_SLICE_ARG(changes[i].name), SW_SLICE_ARG(changes[i].bytes));
        if (at >= sizeof(w->last))
            break;
    }
}

static struct sw_control *control(struct world *w, bool threaded, const char *lease,
                                  const char *identity)
{
    const struct sw_control_opts o = {.name = "test",
                                      .kinds = kinds,
                                      .n_kinds = 2,
                                      .build = build,
                                      .publish = on_publish,
                                      .arg = w,
                                      .threaded = threaded,
                                      .election = {.ns = SW_SLICE_LIT("kube-system"),
                                                   .name = sw_slice_str(lease),
                                                   .identity = sw_slice_str(identity)}};
    struct sw_control *c = sw_control_new(w->m.b.client, &o, NULL);

    assert_non_null(c);
    return c;
}

static int set_up(void **state)
{
    struct world *w = SW_NEW(struct world);

    assert_int_equal(sw_log_filter(SW_SLICE_LIT("off"), true, NULL), SW_OK);
    mini_open(&w->m);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;

    sw_control_free(w->c[0]);
    sw_control_free(w->c[1]);
    mini_close(&w->m);
    sw_free(w);
    return 0;
}

#define WIDGET(n) "/apis/x.example/v1/namespaces/n/widgets/" n
#define PART(n)   "/apis/x.example/v1/namespaces/n/parts/" n

static bool settled(struct world *w)
{
    return sw_control_idle(w->c[0]);
}

static void run_changes(struct world *w)
{
    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":1}}");
    mini_put(&w->m, WIDGET("b"), "{\"spec\":{\"x\":2}}");
    mini_put(&w->m, WIDGET("c"), "{\"spec\":{\"x\":2,\"foreign\":true}}");
    mini_put(&w->m, PART("stale"), "{\"spec\":{}}");
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, settled(w));
    assert_string_equal(w->last, "a={\"x\":1};b={\"x\":2};");
    assert_int_equal(w->publishes, 1);
    assert_non_null(strstr(mini_get(&w->m, PART("a")), "\"spec\":{\"x\":1}"));
    assert_non_null(strstr(mini_get(&w->m, WIDGET("b")), "\"status\":{\"seen\":{\"x\":2}}"));
    assert_null(mini_get(&w->m, PART("stale")));
    assert_null(mini_get(&w->m, PART("c")));
    assert_null(strstr(mini_get(&w->m, WIDGET("c")), "status"));
    assert_int_equal(w->m.writes, 5);
    /* A change reaches exactly what depends on it. */
    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":9},\"status\":{\"seen\":{\"x\":1}}}");
    bench_until(&w->m.b, settled(w) && w->publishes == 2);
    assert_string_equal(w->last, "a={\"x\":9};");
    assert_non_null(strstr(mini_get(&w->m, PART("a")), "\"x\":9"));
    /* What somebody undid is done again; what is right is left alone. */
    w->m.writes = 0;
    assert_true(mini_delete(&w->m, PART("b")));
    bench_until(&w->m.b, mini_get(&w->m, PART("b")) && settled(w));
    assert_int_equal(w->m.writes, 1);
    /* Gone is gone. */
    assert_true(mini_delete(&w->m, WIDGET("b")));
    bench_until(&w->m.b, !mini_get(&w->m, PART("b")) && settled(w));
    assert_string_equal(w->last, "b=;");
    assert_int_equal(w->publishes, 3);
}

static void changes_reach_the_world(void **state)
{
    struct world *w = *state;

    w->c[0] = control(w, false, NULL, NULL);
    run_changes(w);
}

static void the_same_on_a_thread(void **state)
{
    struct world *w = *state;

    w->c[0] = control(w, true, NULL, NULL);
    run_changes(w);
    /* Freed while a build may be on its way. */
    for (int i = 0; i < 20; i++) {
        mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":3}}");
        bench_turns(&w->m.b, i % 4);
        sw_control_free(w->c[0]);
        w->c[0] = control(w, true, NULL, NULL);
        sw_control_start(w->c[0]);
        bench_turns(&w->m.b, i);
    }
    bench_until(&w->m.b, settled(w));
}

/* Many changes in one moment are one build. */
static void load_is_batched(void **state)
{
    struct world *w = *state;
    uint64_t before;

    w->c[0] = control(w, false, NULL, NULL);
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, settled(w));
    before = sw_control_stats(w->c[0]).builds;
    for (int i = 0; i < 200; i++) {
        char path[64];

        (void)snprintf(path, sizeof(path), WIDGET("w%d"), i);
        mini_put(&w->m, path, "{\"spec\":{\"x\":1}}");
    }
    bench_until(&w->m.b, w->m.writes >= 400 && settled(w));
    assert_int_equal(w->m.writes, 400);
    assert_true(sw_control_stats(w->c[0]).builds - before < 250);
    assert_true(w->publishes <= 20);
}

/* A watch that lags behind must not make us write twice. */
static void echoes_are_awaited(void **state)
{
    struct world *w = *state;

    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":1}}");
    w->c[0] = control(w, false, NULL, NULL);
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, settled(w));
    w->m.hold_events = true;
    w->m.writes = 0;
    assert_true(mini_delete(&w->m, PART("a")));
    w->m.hold_events = false;
    mini_pump(&w->m);
    w->m.hold_events = true;
    bench_until(&w->m.b, w->m.writes == 1);
    for (int i = 0; i < 2000; i++) {
        test_now += SW_NS_PER_MS;
        sw_loop_turn(w->m.b.loop, 0);
    }
    assert_int_equal(w->m.writes, 1);
    w->m.hold_events = false;
    mini_pump(&w->m);
    bench_until(&w->m.b, settled(w));
    assert_int_equal(w->m.writes, 1);
}

/* Builds wait here while the gate is closed. */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int entered;

/* Wants the input as the state of each widget, and writes nothing that is there already. */
static void build_state(const struct sw_view *v, struct sw_output *out, void *arg)
{
    struct sw_arena *a = sw_out_arena(out);

    (void)arg;
    entered++;
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
    for (size_t i = 0; i < sw_view_count(v, 0); i++) {
        const struct sw_kube_obj *w = sw_view_at(v, 0, i);
        struct sw_json *status;

        if (sw_slice_eq(sw_json_str(sw_json_walk(w->json, "status", "state", NULL)),
                        sw_view_input(v)))
            continue;
        status = sw_json_new_object(a);
        sw_json_put_str(a, status, "state", sw_view_input(v));
        sw_out_status(out, 0, w, status);
    }
}

/* A write of the last output that is seen during the next build may not be what that one wants. */
static void an_echo_during_a_build_is_looked_at(void **state)
{
    static const struct sw_control_kind own[] = {{.gvr = &widgets, .own_status = true}};
    struct world *w = *state;
    const struct sw_control_opts o = {.name = "test",
                                      .kinds = own,
                                      .n_kinds = 1,
                                      .build = build_state,
                                      .publish = on_publish,
                                      .arg = w,
                                      .threaded = true};
    int before;

    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":1},\"status\":{\"state\":\"on\"}}");
    w->c[0] = sw_control_new(w->m.b.client, &o, NULL);
    assert_non_null(w->c[0]);
    sw_control_set_input(w->c[0], SW_SLICE_LIT("on"));
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, settled(w) && entered);
    w->m.hold_events = true;
    w->m.writes = 0;
    sw_control_set_input(w->c[0], SW_SLICE_LIT("off"));
    bench_until(&w->m.b, w->m.writes == 1);
    bench_turns(&w->m.b, 20);
    before = entered;
    (void)pthread_mutex_lock(&gate);
    sw_control_set_input(w->c[0], SW_SLICE_LIT("on"));
    test_now += SW_NS_PER_S;
    bench_until(&w->m.b, entered > before); /* its view shows "on" still */
    w->m.hold_events = false;
    mini_pump(&w->m);
    bench_turns(&w->m.b, 20);
    (void)pthread_mutex_unlock(&gate);
    bench_until(&w->m.b, strstr(mini_get(&w->m, WIDGET("a")), "\"state\":\"on\"") != NULL);
    assert_int_equal(w->m.writes, 2);
}

static void pass(struct world *w, int ms)
{
    for (int i = 0; i < ms; i++) {
        test_now += SW_NS_PER_MS;
        sw_loop_turn(w->m.b.loop, 0);
    }
}

/* An older schema: what it does not know is not written again with every build. */
static void fields_that_are_pruned_are_given_up(void **state)
{
    struct world *w = *state;

    w->m.prune_seen = true;
    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":1},\"status\":{}}");
    w->c[0] = control(w, false, NULL, NULL);
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, w->m.writes == 2); /* the part, the status */
    pass(w, 60000);
    mini_put(&w->m, WIDGET("b"), "{\"spec\":{\"x\":1},\"status\":{}}");
    bench_until(&w->m.b, w->m.writes == 4);
    pass(w, 60000);
    assert_int_equal(w->m.writes, 4);
    /* What changed is judged anew. */
    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":2},\"status\":{}}");
    bench_until(&w->m.b, w->m.writes == 6);
}

static void failed_writes_are_repeated(void **state)
{
    struct world *w = *state;

    w->m.conflicts = 3;
    w->m.failures = 3;
    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":1}}");
    w->c[0] = control(w, false, NULL, NULL);
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, settled(w));
    assert_int_equal(w->m.writes, 2);
    assert_int_equal(sw_control_stats(w->c[0]).conflicts, 3);
    assert_int_equal(sw_control_stats(w->c[0]).failures, 3);
}

/* A build wants a namespace and what is in it: whatever comes first is not waited for as an echo.
 */
static void an_apply_before_its_namespace_is_repeated(void **state)
{
    struct world *w = *state;

    w->m.no_namespace = 3;
    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":1}}");
    w->c[0] = control(w, false, NULL, NULL);
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, mini_get(&w->m, PART("a")) && settled(w));
    assert_int_equal(w->m.writes, 2);
    assert_int_equal(sw_control_stats(w->c[0]).failures, 3);
}

/* Somebody undoes what we do, at once and every time. */
static void two_who_disagree_do_not_storm(void **state)
{
    struct world *w = *state;

    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":1}}");
    w->c[0] = control(w, false, NULL, NULL);
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, settled(w));
    w->m.writes = 0;
    for (int i = 0; i < 4000; i++) {
        test_now += SW_NS_PER_MS;
        if (mini_find(&w->m, PART("a")))
            assert_true(mini_delete(&w->m, PART("a")));
        sw_loop_turn(w->m.b.loop, 0);
    }
    /* Twenty at once, then two a second. */
    assert_in_range(w->m.writes, 24, 32);
    assert_true(sw_control_stats(w->c[0]).held_back > 0);
    /* When the other one is gone all is put right. */
    bench_until(&w->m.b, (test_now += SW_NS_PER_MS, settled(w)));
    assert_non_null(mini_find(&w->m, PART("a")));
}

static void on_stopped(void *arg)
{
    ((struct world *)arg)->stopped++;
}

/* Both publish, one writes; the other takes over when it is let. */
static void only_the_leader_writes(void **state)
{
    struct world *w = *state;

    mini_put(&w->m, WIDGET("a"), "{\"spec\":{\"x\":1}}");
    w->c[0] = control(w, false, "l", "zero");
    w->c[1] = control(w, false, "l", "one");
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, sw_control_leading(w->c[0]) && settled(w));
    assert_int_equal(w->m.writes, 2);
    sw_control_start(w->c[1]);
    bench_until(&w->m.b, sw_control_idle(w->c[1]));
    assert_int_equal(w->publishes, 2);
    assert_false(sw_control_leading(w->c[1]));
    mini_put(&w->m, WIDGET("b"), "{\"spec\":{\"x\":1}}");
    bench_until(&w->m.b, settled(w) && sw_control_idle(w->c[1]) && w->publishes == 4);
    assert_int_equal(w->m.writes, 4);
    assert_int_equal(sw_control_stats(w->c[1]).writes, 0);
    sw_control_stop(w->c[0], on_stopped, w);
    bench_until(&w->m.b, w->stopped == 1 && sw_control_leading(w->c[1]));
    assert_int_equal(w->m.writes, 4); /* all was right already */
    assert_true(mini_delete(&w->m, PART("a")));
    bench_until(&w->m.b, mini_get(&w->m, PART("a")) && sw_control_idle(w->c[1]));
    assert_int_equal(sw_control_stats(w->c[1]).writes, 1);
    assert_int_equal(sw_control_stats(w->c[0]).writes, 4);
}

#define NS(n) "/api/v1/namespaces/" n
#define CM(n) "/api/v1/namespaces/" n "/configmaps/" SW_TRUST_CONFIGMAP

static void every_namespace_gets_the_roots(void **state)
{
    struct world *w = *state;
    const struct sw_trust_opts o = {.pem = SW_SLICE_LIT("PEM1"), .threaded = true};
    struct sw_trust *t = sw_trust_new(w->m.b.client, &o, NULL);

    assert_non_null(t);
    mini_put(&w->m, NS("default"), "{\"status\":{\"phase\":\"Active\"}}");
    mini_put(&w->m, NS("going"), "{\"status\":{\"phase\":\"Terminating\"}}");
    mini_put(&w->m, CM("default"), "{\"data\":{\"other\":\"kept\",\"root-cert.pem\":\"old\"}}");
    sw_trust_start(t);
    bench_until(&w->m.b, sw_control_idle(sw_trust_control(t)));
    assert_non_null(strstr(mini_get(&w->m, CM("default")), "\"root-cert.pem\":\"PEM1\""));
    assert_non_null(strstr(mini_get(&w->m, CM("default")), "\"other\":\"kept\""));
    assert_null(mini_get(&w->m, CM("going")));
    mini_put(&w->m, NS("new"), "{}");
    bench_until(&w->m.b, mini_get(&w->m, CM("new")) != NULL);
    sw_trust_set(t, SW_SLICE_LIT("PEM2"));
    bench_until(&w->m.b, strstr(mini_get(&w->m, CM("new")), "PEM2") &&
                             strstr(mini_get(&w->m, CM("default")), "PEM2"));
    /* Never an empty bundle. */
    w->m.writes = 0;
    sw_trust_set(t, sw_slice("", 0));
    bench_until(&w->m.b, sw_control_idle(sw_trust_control(t)));
    assert_int_equal(w->m.writes, 0);
    sw_trust_stop(t, on_stopped, w);
    bench_until(&w->m.b, w->stopped == 1);
    sw_trust_free(t);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

struct sinces {
    uint64_t last; /* since when changes are followed */
    size_t n;
};

static void build_until_now(const struct sw_view *v, struct sw_output *out, void *arg)
{
    struct sinces *s = arg;

    s->last = sw_view_since_ns(v);
    s->n++;
    assert_true(sw_view_since_ns(v) <= sw_view_wall_ns(v));
    sw_out_expires(out, sw_view_wall_ns(v) + SW_NS_PER_MS);
}

/* Nothing expires while the API does not answer, and views know that there was a gap. */
static void an_output_stays_while_the_api_is_away(void **state)
{
    struct world *w = *state;
    struct sinces s = {0};
    const struct sw_control_opts o = {.name = "test",
                                      .kinds = kinds,
                                      .n_kinds = 2,
                                      .build = build_until_now,
                                      .build_arg = &s,
                                      .timed = true};
    size_t before;
    uint64_t first;

    w->c[0] = sw_control_new(w->m.b.client, &o, NULL);
    sw_control_start(w->c[0]);
    bench_until(&w->m.b, s.n >= 1);
    first = s.last;
    bench_until(&w->m.b, s.n >= 3);
    assert_true(first > 0 && s.last == first);
    w->m.b.client->health.away[0] = 'x';
    assert_true(sw_kube_away(w->m.b.client));
    bench_turns(&w->m.b, 4); /* a build that was due */
    before = s.n;
    for (int i = 0; i < 200; i++) {
        test_now += 20 * SW_NS_PER_MS;
        bench_turns(&w->m.b, 1);
    }
    assert_int_equal(s.n, before);
    w->m.b.client->health.away[0] = '\0';
    bench_until(&w->m.b, s.n > before);
    assert_true(s.last > first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(changes_reach_the_world),
        T(the_same_on_a_thread),
        T(load_is_batched),
        T(echoes_are_awaited),
        T(an_echo_during_a_build_is_looked_at),
        T(fields_that_are_pruned_are_given_up),
        T(failed_writes_are_repeated),
        T(an_apply_before_its_namespace_is_repeated),
        T(two_who_disagree_do_not_storm),
        T(only_the_leader_writes),
        T(every_namespace_gets_the_roots),
        T(an_output_stays_while_the_api_is_away),
    };

    return cmocka_run_group_tests_name("control", tests, NULL, NULL);
}
