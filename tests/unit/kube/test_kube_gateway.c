/* SPDX-License-Identifier: Apache-2.0 */
/* The Gateway API CRDs compile, their own conformance manifests pass, and every rule refuses. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "helper.h"

struct crd {
    char kind[64];
    char version[32];
    struct sw_schema_set set;
};

static struct sw_arena arena;
static struct crd *crds[2][64];
static size_t ncrds[2];
static size_t nrules[2];

static size_t count_rules(const struct sw_schema *s)
{
    size_t n = s->nrules;

    for (size_t i = 0; i < s->nprops; i++)
        n += count_rules(s->props[i].schema);
    return n + (s->items ? count_rules(s->items) : 0) +
           (s->additional ? count_rules(s->additional) : 0);
}

static void load_crd(const struct sw_json *doc, int channel)
{
    const struct sw_json *versions = sw_json_walk(doc, "spec", "versions", NULL);

    if (!sw_json_str_eq(sw_json_find(doc, "kind"), "CustomResourceDefinition"))
        return;
    for (size_t i = 0; i < sw_json_len(versions); i++) {
        struct crd *c = calloc(1, sizeof(*c));
        struct sw_slice kind = sw_json_str(sw_json_walk(doc, "spec", "names", "kind", NULL));
        struct sw_slice name = sw_json_str(sw_json_find(sw_json_at(versions, i), "name"));

        snprintf(c->kind, sizeof(c->kind), "%.*s", SW_SLICE_ARG(kind));
        snprintf(c->version, sizeof(c->version), "%.*s", SW_SLICE_ARG(name));
        t_compile_crd(&c->set, doc, c->version);
        nrules[channel] += count_rules(c->set.root);
        crds[channel][ncrds[channel]++] = c;
    }
}

static void load_dir(const char *dir, int channel)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    if (!d)
        return;
    while ((e = readdir(d))) {
        const char *path;
        struct sw_json **docs;
        size_t n;

        if (!strstr(e->d_name, ".yaml"))
            continue;
        path = sw_arena_printf(&arena, "%s/%s", dir, e->d_name);
        docs = t_yaml_file(&arena, path, &n);
        for (size_t i = 0; i < n; i++)
            load_crd(docs[i], channel);
    }
    closedir(d);
}

static int setup(void **state)
{
    static const char *const channels[] = {"standard", "experimental"};
    const char *shared = getenv("SW_SHARED");

    for (int i = 0; i < 2 && shared; i++) {
        load_dir(sw_arena_printf(&arena, "%s/data/gateway-api/crd/%s", shared, channels[i]), i);
    }
    return 0;
}

static int teardown(void **state)
{
    for (int c = 0; c < 2; c++) {
        for (size_t i = 0; i < ncrds[c]; i++) {
            sw_schema_set_done(&crds[c][i]->set);
            free(crds[c][i]);
        }
    }
    sw_arena_clear(&arena);
    return 0;
}

static const struct sw_schema *find(int channel, const char *kind, const char *version)
{
    for (size_t i = 0; i < ncrds[channel]; i++) {
        if (strcmp(crds[channel][i]->kind, kind) == 0 &&
            strcmp(crds[channel][i]->version, version) == 0)
            return crds[channel][i]->set.root;
    }
    return NULL;
}

static void all_crds_compile(void **state)
{
    if (!ncrds[0])
        skip();
    assert_int_equal(nrules[0], 295);
    assert_int_equal(nrules[1], 350);
}

#define OBJ " is invalid: "
struct refusal {
    const char *kind;
    const char *spec;
    const char *errs;
};

#include "gateway_cases.h"

static void run_cases(int channel, const struct refusal *p, size_t n)
{
    if (!ncrds[channel])
        skip();
    for (size_t i = 0; i < n; i++) {
        SW_ARENA_AUTO a = {0};
        const struct sw_schema *s = find(channel, p[i].kind, "v1");
        struct sw_json *obj;

        if (!s)
            s = find(channel, p[i].kind, "v1alpha1");
        assert_non_null(s);
        obj = t_yaml(&a, sw_arena_printf(&a, "{kind: %s, metadata: {name: x}, spec: {%s}}",
                                         p[i].kind, p[i].spec));
        if (strcmp(t_admit(&a, s, obj, NULL), p[i].errs) != 0)
            print_message("# %s {%s}\n", p[i].kind, p[i].spec);
        assert_string_equal(t_admit(&a, s, obj, NULL), p[i].errs);
    }
}

static void standard_rules_refuse(void **state)
{
    run_cases(0, standard_cases, sizeof(standard_cases) / sizeof(standard_cases[0]));
}

static void rules_beyond_the_recordings_refuse(void **state)
{
    run_cases(0, more_cases, sizeof(more_cases) / sizeof(more_cases[0]));
}

static void experimental_rules_refuse(void **state)
{
    run_cases(1, experimental_cases, sizeof(experimental_cases) / sizeof(experimental_cases[0]));
}

static size_t admit_file(const char *path)
{
    size_t n, seen = 0;
    struct sw_json **docs = t_yaml_file(&arena, path, &n);

    for (size_t i = 0; i < n; i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_slice api = sw_json_str(sw_json_find(docs[i], "apiVersion"));
        struct sw_slice kind = sw_json_str(sw_json_find(docs[i], "kind"));
        const struct sw_schema *s;
        const char *errs;

        /* GatewayClasses there carry placeholders too. */
        if (!sw_slice_has_prefix(api, SW_SLICE_LIT("gateway.networking.")) ||
            sw_slice_eq_str(kind, "GatewayClass"))
            continue;
        while (sw_slice_find(api, '/') >= 0)
            (void)sw_slice_cut(&api, '/');
        s = find(1, sw_arena_dup(&a, kind), sw_arena_dup(&a, api));
        if (!s)
            continue;
        errs = t_admit(&a, s, docs[i], NULL);
        if (*errs)
            print_message("# %s: %.*s: %s\n", path, SW_SLICE_ARG(kind), errs);
        assert_string_equal(errs, "");
        seen++;
    }
    return seen;
}

/* The upstream conformance suite's manifests are valid objects; all of them. */
static void conformance_manifests_pass(void **state)
{
    const char *shared = getenv("SW_SHARED");
    size_t seen = 0;
    const char *dir;
    DIR *d;
    struct dirent *e;

    if (!ncrds[1])
        skip();
    dir = sw_arena_printf(&arena, "%s/data/gateway-api/conformance/tests", shared);
    d = opendir(dir);
    while (d && (e = readdir(d))) {
        /* That one has placeholders which the suite replaces. */
        if (!strstr(e->d_name, ".yaml") || strstr(e->d_name, "static-addresses"))
            continue;
        seen += admit_file(sw_arena_printf(&arena, "%s/%s", dir, e->d_name));
    }
    if (d)
        closedir(d);
    assert_true(seen > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_crds_compile),
        cmocka_unit_test(standard_rules_refuse),
        cmocka_unit_test(rules_beyond_the_recordings_refuse),
        cmocka_unit_test(experimental_rules_refuse),
        cmocka_unit_test(conformance_manifests_pass),
    };

    const char *shared = getenv("SW_SHARED");
    char path[4096];

    (void)snprintf(path, sizeof(path), "%s/data/gateway-api/crd", shared ? shared : "");
    if (access(path, F_OK) != 0) {
        (void)printf("1..0 # SKIP no upstream manifests beside the checkout (data/gateway-api)\n");
        return 0;
    }
    return cmocka_run_group_tests_name("kube_gateway", tests, setup, teardown);
}
