/* SPDX-License-Identifier: Apache-2.0 */
/* EndpointSlices of a Service as a function of its pods: families, limits, and what stays put. */
#include "apiserver/gc/slices.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/map.h"

#define NS SW_SLICE_LIT("ns")

static struct sw_json *json(struct sw_arena *a, const char *text)
{
    char *copy = sw_arena_dup(a, sw_slice_str(text));
    struct sw_json *v = NULL;

    for (char *c = copy; *c; c++)
        *c = *c == '\'' ? '"' : *c;
    assert_int_equal(sw_json_parse(a, sw_slice_str(copy), NULL, &v, NULL), SW_OK);
    return v;
}

static struct sw_json *service(struct sw_arena *a, const char *spec)
{
    return json(a, sw_arena_printf(a,
                                   "{'metadata':{'namespace':'ns','name':'s','uid':'u'},'spec':{"
                                   "'selector':{'app':'a'},'ports':[{'port':80,'targetPort':80,"
                                   "'protocol':'TCP'}]%s}}",
                                   spec));
}

static void on_service(void *arg, struct sw_slice key)
{
    (void)key;
    ++*(size_t *)arg;
}

/* Ips like "'ip':'10.0.0.1'},{'ip':'10.0.0.2'"; returns how many Services heard of it. */
static size_t set_pod(struct gc_pods *pods, const char *name, const char *app, const char *ips)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *pod =
        json(&a, sw_arena_printf(&a,
                                 "{'metadata':{'uid':'u-%s','labels':{'app':'%s'}},'spec':{},"
                                 "'status':{'phase':'Running','podIPs':[{%s}]}}",
                                 name, app, ips));
    size_t heard = 0;

    gc_pods_set(pods, NS, sw_slice_str(name), gc_pod_digest(&a, pod), on_service, &heard);
    return heard;
}

static struct sw_slice no_zone(void *arg, struct sw_slice node)
{
    (void)arg;
    (void)node;
    return sw_slice("", 0);
}

static void plan(struct gc_slices *s, struct sw_arena *a, const struct sw_json *svc,
                 const struct gc_pods *pods)
{
    s->arena = a;
    s->service = svc;
    s->zone = no_zone;
    gc_slices_plan(s, pods);
}

/* "IPv4 10.0.0.1 10.0.0.2;IPv6 ..." of what shall be there. */
static const char *text_of(struct sw_arena *a, const struct gc_slices *s)
{
    const char *out = "";

    for (size_t i = 0; i < s->all.n; i++) {
        const struct sw_json *list = sw_json_find(s->all.p[i].want, "endpoints");

        if (!s->all.p[i].want)
            continue;
        out = sw_arena_printf(
            a, "%s%s%.*s", out, *out ? ";" : "",
            SW_SLICE_ARG(sw_json_str(sw_json_find(s->all.p[i].want, "addressType"))));
        for (size_t k = 0; k < sw_json_len(list); k++) {
            struct sw_slice ip =
                sw_json_str(sw_json_at(sw_json_find(sw_json_at(list, k), "addresses"), 0));

            out = sw_arena_printf(a, "%s %.*s", out, SW_SLICE_ARG(ip));
        }
    }
    return out;
}

static void families_and_addresses(void **state)
{
    static const struct {
        const char *spec;
        bool loopback_ok;
        const char *ips;
        const char *text;
    } cases[] = {
        {"", false, "'ip':'10.0.0.1'", "IPv4 10.0.0.1"},
        {"", false, "'ip':'2001:db8::1'},{'ip':'10.0.0.1'", "IPv4 10.0.0.1"},
        {",'ipFamilies':['IPv6']", false, "'ip':'2001:db8::1'},{'ip':'10.0.0.1'",
         "IPv6 2001:db8::1"},
        {",'ipFamilies':['IPv6','IPv4']", false, "'ip':'2001:DB8::1'},{'ip':'10.0.0.1'",
         "IPv4 10.0.0.1;IPv6 2001:db8::1"},
        {"", false, "'ip':'10.0.0.1'},{'ip':'10.0.0.1'", "IPv4 10.0.0.1"},
        {"", false, "'ip':'127.0.0.1'},{'ip':'0.0.0.0'},{'ip':'169.254.1.1'},{'ip':'224.0.0.1'",
         ""},
        {",'ipFamilies':['IPv6']", false,
         "'ip':'::1'},{'ip':'fe80::1'},{'ip':'::'},{'ip':'ff02::1'", ""},
        {"", true, "'ip':'127.0.0.1'", "IPv4 127.0.0.1"},
        {"", false, "'ip':'no address'},{'ip':7},{", ""},
        {",'type':'ExternalName'", false, "'ip':'10.0.0.1'", ""},
        {",'selector':{}", false, "'ip':'10.0.0.1'", ""},
        {",'selector':{'app':'b'}", false, "'ip':'10.0.0.1'", ""},
        {",'selector':{'app':'a','x':'y'}", false, "'ip':'10.0.0.1'", ""},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct gc_pods *pods = gc_pods_new();
        struct gc_slices s = {.loopback_ok = cases[i].loopback_ok};
        const char *spec = cases[i].spec;
        const struct sw_json *svc;

        if (strstr(spec, "selector")) /* instead of the usual one */
            svc = json(&a, sw_arena_printf(&a,
                                           "{'metadata':{'namespace':'ns','name':'s'},"
                                           "'spec':{%s}}",
                                           spec + 1));
        else
            svc = service(&a, spec);
        (void)set_pod(pods, "p", "a", cases[i].ips);
        plan(&s, &a, svc, pods);
        assert_string_equal(text_of(&a, &s), cases[i].text);
        sw_vec_done(&s.all);
        gc_pods_free(pods);
    }
}

static void services_hear_of_their_pods_only(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct gc_pods *pods = gc_pods_new();

    (void)state;
    gc_pods_set_service(pods, NS, SW_SLICE_LIT("/services/ns/a"), json(&a, "{'app':'a'}"));
    gc_pods_set_service(pods, NS, SW_SLICE_LIT("/services/ns/b"), json(&a, "{'app':'b'}"));
    gc_pods_set_service(pods, SW_SLICE_LIT("other"), SW_SLICE_LIT("/services/other/a"),
                        json(&a, "{'app':'a'}"));
    assert_int_equal(set_pod(pods, "p", "a", "'ip':'10.0.0.1'"), 1);
    assert_int_equal(set_pod(pods, "p", "a", "'ip':'10.0.0.1'"), 0); /* nothing that matters */
    assert_int_equal(set_pod(pods, "p", "b", "'ip':'10.0.0.1'"), 2); /* the old and the new one */
    assert_int_equal(set_pod(pods, "p", "c", "'ip':'10.0.0.1'"), 1);
    assert_int_equal(set_pod(pods, "p", "c", "'ip':'10.0.0.2'"), 0);
    assert_int_equal(set_pod(pods, "q", "b", "'ip':''"), 0); /* no address yet */
    assert_int_equal(set_pod(pods, "q", "b", "'ip':'10.0.0.3'"), 1);
    gc_pods_set_service(pods, NS, SW_SLICE_LIT("/services/ns/b"), NULL);
    assert_int_equal(set_pod(pods, "q", "b", "'ip':'10.0.0.4'"), 0);
    gc_pods_free(pods);
}

/* ---- what stays put ---- */

enum { PODS = 1200, STEPS = 150 };

static uint64_t seed = 1;

static unsigned below(unsigned n)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (unsigned)(seed >> 33) % n;
}

/* Each wanted endpoint is in one slice, and none is too long. */
static void check(const struct gc_slices *s, const bool there[PODS], size_t n)
{
    struct sw_map seen = {0};
    size_t found = 0;

    for (size_t i = 0; i < s->all.n; i++) {
        const struct sw_json *list = sw_json_find(s->all.p[i].want, "endpoints");

        assert_true(sw_json_len(list) <= GC_SLICE_ENDPOINTS);
        for (size_t k = 0; s->all.p[i].want && k < sw_json_len(list); k++) {
            struct sw_slice name =
                sw_json_str(sw_json_walk(sw_json_at(list, k), "targetRef", "name", NULL));
            uint64_t at = 0;

            assert_true(sw_slice_to_u64(sw_slice_from(name, 1), PODS - 1, &at));
            assert_true(there[at]);
            assert_null(sw_map_put(&seen, name, (void *)(uintptr_t)1));
            found++;
        }
    }
    assert_int_equal(found, n);
    sw_map_done(&seen);
}

static size_t count_changed(const struct gc_slices *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->all.n; i++)
        n += s->all.p[i].want != s->all.p[i].old;
    return n;
}

/* Slices live on from step to step as a server would keep them. */
static void few_slices_change_with_few_pods(void **state)
{
    struct sw_arena arenas[2] = {0};
    struct gc_pods *pods = gc_pods_new();
    struct gc_slices was = {0};
    bool there[PODS] = {0};
    size_t n = 0;

    (void)state;
    for (int step = 0; step < STEPS; step++) {
        struct sw_arena *a = &arenas[step % 2];
        struct gc_slices s = {0};
        unsigned changes = step % 10 == 0 ? 200 : 1;

        sw_arena_clear(a);
        for (size_t i = 0; i < was.all.n; i++) {
            if (was.all.p[i].want)
                sw_vec_push(&s.all, (struct gc_slice){.old = sw_json_copy(a, was.all.p[i].want)});
        }
        for (unsigned i = 0; i < changes; i++) {
            unsigned at = below(PODS);
            char name[16];
            char ip[32];

            there[at] = !there[at];
            n += there[at] ? 1 : (size_t)-1;
            (void)snprintf(name, sizeof(name), "p%u", at);
            (void)snprintf(ip, sizeof(ip), "'ip':'10.0.%u.%u'", at / 250, at % 250 + 1);
            (void)set_pod(pods, name, "a", there[at] ? ip : "");
        }
        plan(&s, a, service(a, ""), pods);
        check(&s, there, n);
        if (changes == 1)
            assert_true(count_changed(&s) <= 1);
        sw_vec_done(&was.all);
        was = s;
    }
    {
        struct gc_slices again = {0};
        SW_ARENA_AUTO a = {0};

        for (size_t i = 0; i < was.all.n; i++) {
            if (was.all.p[i].want)
                sw_vec_push(&again.all, (struct gc_slice){.old = was.all.p[i].want});
        }
        plan(&again, &a, service(&a, ""), pods);
        assert_int_equal(count_changed(&again), 0);
        sw_vec_done(&again.all);
    }
    sw_vec_done(&was.all);
    sw_arena_clear(&arenas[0]);
    sw_arena_clear(&arenas[1]);
    gc_pods_free(pods);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_and_addresses),
        cmocka_unit_test(services_hear_of_their_pods_only),
        cmocka_unit_test(few_slices_change_with_few_pods),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
