/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connectors and HTTPProxies: every file of tests/golden/connector against the text beside it, and
 * the same again with what was asked for done, when nothing may be wanted any more.
 * SW_UPDATE_GOLDEN=1 writes the texts anew; read the difference before you commit it.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/time.h"
#include "control/connector/build_int.h"
#include "control/runtime_int.h"
#include "yaml/yaml.h"

enum { OBJECTS_MAX = 256, FILES_MAX = 100, PATH_LEN = 512, ROUNDS = 6 };

struct world {
    struct sw_arena arena;
    struct sw_json *objs[OBJECTS_MAX];
    size_t n;
    struct sw_connector_conf conf;
    uint64_t now;
    unsigned made; /* uids given */
};

static char names[FILES_MAX][128];
static size_t n_names;

/* ---- objects ---- */

static void configure(struct world *w, const struct sw_json *v)
{
    const struct sw_json *ids = sw_json_find(v, "gatewayIds");
    struct sw_slice *list =
        sw_arena_array(&w->arena, sw_json_len(ids) + 1, sizeof(struct sw_slice));

    for (size_t i = 0; i < sw_json_len(ids); i++)
        list[i] = sw_json_str(sw_json_at(ids, i));
    w->conf.gateway_ids = list;
    w->conf.n_gateway_ids = sw_json_len(ids);
    w->conf.issuer = js_or(v, "issuer", "");
    w->conf.relay_url = js_or(v, "relay", "");
    w->conf.patch_policies = sw_json_true(sw_json_find(v, "patchPolicies"));
    w->conf.envoy_gateway = sw_json_true(sw_json_find(v, "envoyGateway"));
    w->conf.dns = sw_json_true(sw_json_find(v, "dns"));
    w->conf.dns_stale_ns = 600 * SW_NS_PER_S;
}

static void add_object(struct world *w, struct sw_json *v)
{
    struct sw_json *meta = sw_json_find(v, "metadata");

    if (sw_json_str_eq(sw_json_find(v, "kind"), "TestConfig")) {
        configure(w, v);
        return;
    }
    assert_true(w->n < OBJECTS_MAX && meta);
    if (!sw_json_find(meta, "uid"))
        sw_json_put_str(&w->arena, meta, "uid",
                        sw_slice_str(sw_arena_printf(&w->arena, "uid-%u", ++w->made)));
    if (!sw_json_find(meta, "generation"))
        sw_json_put(&w->arena, meta, "generation", sw_json_new_i64(&w->arena, 1));
    w->objs[w->n++] = v;
}

static void path_of(char out[PATH_LEN], const char *name, const char *suffix)
{
    const char *d = getenv("SW_GOLDEN");

    (void)snprintf(out, PATH_LEN, "%s/connector/%s%s", d ? d : "tests/golden", name, suffix);
}

static char *read_all(const char *path)
{
    FILE *f = fopen(path, "re");
    struct sw_buf b;
    char chunk[4096];
    size_t n;

    if (!f)
        return NULL;
    sw_buf_init(&b, 8 * 1024 * 1024);
    while ((n = fread(chunk, 1, sizeof(chunk), f)) > 0)
        assert_int_equal(sw_buf_append(&b, chunk, n), SW_OK);
    (void)fclose(f);
    return sw_buf_take_str(&b);
}

static void load(struct world *w, const char *name)
{
    char path[PATH_LEN];
    char *text;
    struct sw_yaml_stream docs;
    struct sw_err err = {0};

    *w = (struct world){.conf = {.gateway_class = SW_SLICE_LIT("spanwire"),
                                 .gateway_controller = SW_SLICE_LIT("spanwire.dev/gateway"),
                                 .target_domain = SW_SLICE_LIT("connect.test"),
                                 .port_offset = 8000}};
    assert_true(cn_time(SW_SLICE_LIT("2026-11-15T12:00:00Z"), &w->now));
    path_of(path, name, ".yaml");
    text = read_all(path);
    assert_non_null(text);
    if (sw_yaml_parse(&w->arena, sw_slice_str(text), NULL, &docs, &err) != SW_OK)
        fail_msg("%s: %s", name, err.msg);
    for (size_t i = 0; i < docs.n; i++)
        add_object(w, sw_json_copy(&w->arena, sw_yaml_to_json(&w->arena, docs.docs[i])));
    sw_free(text);
}

static bool of_gvr(const struct sw_json *v, const struct sw_kube_gvr *gvr)
{
    char api[128];

    (void)snprintf(api, sizeof(api), "%s%s%s", gvr->group, gvr->group[0] ? "/" : "", gvr->version);
    return sw_json_str_eq(sw_json_find(v, "kind"), gvr->kind) &&
           sw_json_str_eq(sw_json_find(v, "apiVersion"), api);
}

static int by_key(const void *x, const void *y)
{
    const struct sw_kube_obj *const *p = x;
    const struct sw_kube_obj *const *q = y;

    return sw_slice_cmp((*p)->key, (*q)->key);
}

static struct sw_view *view_of(struct world *w, const struct sw_control_kind *kinds, size_t n)
{
    struct view_kind *list[SW_CONTROL_KINDS_MAX];
    struct view_input *input = view_input_new(sw_slice("", 0));
    struct sw_view *v;

    for (size_t k = 0; k < n; k++) {
        struct sw_kube_obj *objs[OBJECTS_MAX];
        size_t count = 0;

        for (size_t i = 0; i < w->n; i++) {
            struct sw_kube_obj *o =
                of_gvr(w->objs[i], kinds[k].gvr) ? sw_kube_obj_new(w->objs[i]) : NULL;

            if (o && (!kinds[k].relevant || kinds[k].relevant(o)))
                objs[count++] = o;
            else
                sw_kube_obj_unref(o);
        }
        if (count > 1)
            qsort(objs, count, sizeof(void *), by_key);
        list[k] = view_kind_new(objs, count);
    }
    v = view_new(list, n, input);
    v->wall_ns = w->now;
    for (size_t k = 0; k < n; k++)
        view_kind_unref(list[k]);
    view_input_unref(input);
    return v;
}

/* ---- builds ---- */

struct builds {
    struct sw_output *out[2];
};

static const struct {
    const struct sw_control_kind *kinds;
    size_t n;
    void (*build)(const struct sw_view *v, const struct sw_connector_conf *c, struct sw_output *o);
} both[] = {{sw_connector_kinds, SW_CN_KINDS, sw_connector_build},
            {sw_httpproxy_kinds, SW_HP_KINDS, sw_httpproxy_build}};

static struct builds build(struct world *w)
{
    struct builds b;

    for (size_t i = 0; i < 2; i++) {
        struct sw_view *v = view_of(w, both[i].kinds, both[i].n);

        b.out[i] = output_new();
        both[i].build(v, &w->conf, b.out[i]);
        view_unref(v);
    }
    return b;
}

static void builds_free(struct builds *b)
{
    for (size_t i = 0; i < 2; i++)
        output_free(b->out[i]);
}

static struct sw_json *find_object(struct world *w, size_t at, const struct out_write *o)
{
    for (size_t i = 0; i < w->n; i++) {
        const struct sw_json *m = sw_json_find(w->objs[i], "metadata");
        char key[600];
        struct sw_slice ns = js_or(m, "namespace", "");

        (void)snprintf(key, sizeof(key), "%.*s%s%.*s", SW_SLICE_ARG(ns), ns.n ? "/" : "",
                       SW_SLICE_ARG(js(m, "name")));
        if (of_gvr(w->objs[i], both[at].kinds[o->kind].gvr) && sw_slice_eq_str(o->key, key))
            return w->objs[i];
    }
    return NULL;
}

static bool is_done(struct world *w, size_t at, const struct out_write *o)
{
    struct sw_json *have = find_object(w, at, o);

    if (o->op == OUT_DELETE)
        return !have;
    if (o->op == OUT_STATUS)
        return have && json_within(o->json, sw_json_find(have, "status"));
    return have && json_within(o->json, have);
}

static void merge(struct sw_arena *a, struct sw_json *to, const struct sw_json *from)
{
    for (size_t i = 0; i < sw_json_len(from); i++) {
        const struct sw_json_member *m = sw_json_member_at(from, i);
        struct sw_json *have = sw_json_get(to, m->key);

        if (sw_json_is(have, SW_JSON_OBJECT) && sw_json_is(m->value, SW_JSON_OBJECT))
            merge(a, have, m->value);
        else
            sw_json_set(a, to, m->key, sw_json_copy(a, m->value));
    }
}

/* What an API would do. Returns how much there was to do. */
static size_t obey(struct world *w, struct builds *b)
{
    size_t did = 0;

    for (size_t at = 0; at < 2; at++) {
        for (size_t i = 0; i < b->out[at]->writes.n; i++) {
            const struct out_write *o = b->out[at]->writes.p[i];
            struct sw_json *have = find_object(w, at, o);

            if (is_done(w, at, o))
                continue;
            did++;
            if (o->op == OUT_APPLY && !have) {
                add_object(w, sw_json_copy(&w->arena, o->json));
            } else if (o->op == OUT_APPLY) {
                merge(&w->arena, have, o->json);
            } else if (o->op == OUT_STATUS) {
                const struct sw_json *s = sw_gateway_stamp(&w->arena, o->json, w->now);

                assert_non_null(have);
                if (!sw_json_find(have, "status"))
                    sw_json_put(&w->arena, have, "status", sw_json_new_object(&w->arena));
                merge(&w->arena, sw_json_find(have, "status"), s);
            } else {
                for (size_t k = 0; k < w->n; k++) {
                    if (w->objs[k] == have)
                        w->objs[k] = w->objs[--w->n];
                }
            }
        }
    }
    return did;
}

/* ---- text ---- */

static void put_body(struct sw_buf *out, const struct sw_json *v)
{
    SW_BUF_AUTO yaml = {.max = 1 << 20};
    struct sw_slice rest;

    assert_int_equal(sw_yaml_write(&yaml, v), SW_OK);
    rest = sw_buf_slice(&yaml);
    while (rest.p && rest.n) {
        struct sw_slice line = sw_slice_cut(&rest, '\n');

        assert_int_equal(sw_buf_printf(out, "  %.*s\n", SW_SLICE_ARG(line)), SW_OK);
    }
}

static int by_name(const void *x, const void *y)
{
    const struct sw_change *p = x;
    const struct sw_change *q = y;

    return sw_slice_cmp(p->name, q->name);
}

static void put_published(struct sw_buf *out, const struct sw_output *o)
{
    size_t n = 0;
    struct sw_change *list = output_diff(NULL, o, &n);

    if (n)
        qsort(list, n, sizeof(*list), by_name);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(sw_buf_printf(out, "publish %.*s = %.*s\n", SW_SLICE_ARG(list[i].name),
                                       SW_SLICE_ARG(list[i].bytes)),
                         SW_OK);
    sw_free(list);
}

/* Only what is not so yet. */
static char *text_of(struct world *w, const struct builds *b)
{
    static const char *const ops[] = {
        [OUT_APPLY] = "apply", [OUT_STATUS] = "status", [OUT_DELETE] = "delete"};
    char when[SW_RFC3339_LEN];
    struct sw_buf out;

    sw_buf_init(&out, 8 * 1024 * 1024);
    for (size_t at = 0; at < 2; at++) {
        for (size_t i = 0; i < b->out[at]->writes.n; i++) {
            const struct out_write *o = b->out[at]->writes.p[i];

            if (is_done(w, at, o))
                continue;
            assert_int_equal(sw_buf_printf(&out, "%s %s %.*s\n", ops[o->op],
                                           both[at].kinds[o->kind].gvr->kind, SW_SLICE_ARG(o->key)),
                             SW_OK);
            if (o->json)
                put_body(&out, o->json);
        }
        put_published(&out, b->out[at]);
        if (b->out[at]->expires_ns)
            assert_int_equal(
                sw_buf_printf(&out, "expires %s\n", sw_rfc3339(b->out[at]->expires_ns, 1, when)),
                SW_OK);
    }
    return sw_buf_take_str(&out);
}

static void compare(const char *name, const char *suffix, const char *got)
{
    char path[PATH_LEN];
    char *want;

    path_of(path, name, suffix);
    if (getenv("SW_UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "we");

        assert_non_null(f);
        (void)fputs(got, f);
        (void)fclose(f);
        return;
    }
    want = read_all(path);
    assert_non_null(want);
    if (strcmp(want, got) != 0)
        (void)fprintf(stderr, "--- got for %s:\n%s", name, got);
    assert_string_equal(want, got);
    sw_free(want);
}

static void reverse(struct world *w)
{
    for (size_t i = 0; i < w->n / 2; i++) {
        struct sw_json *t = w->objs[i];

        w->objs[i] = w->objs[w->n - 1 - i];
        w->objs[w->n - 1 - i] = t;
    }
}

static void golden(void **state)
{
    const char *name = *state;
    struct world w;
    struct builds b;
    char *first;
    char *again;
    size_t round = 0;

    load(&w, name);
    b = build(&w);
    first = text_of(&w, &b);
    compare(name, ".txt", first);
    /* The order in which objects came does not matter. */
    builds_free(&b);
    reverse(&w);
    b = build(&w);
    again = text_of(&w, &b);
    assert_string_equal(first, again);
    sw_free(again);
    /* Once all is done nothing is wanted. */
    while (obey(&w, &b)) {
        assert_true(++round < ROUNDS);
        builds_free(&b);
        b = build(&w);
    }
    builds_free(&b);
    sw_free(first);
    sw_arena_clear(&w.arena);
}

/* ---- small things ---- */

static void endpoints_are_read(void **state)
{
    static const struct {
        const char *url;
        const char *host; /* NULL: refused */
        uint16_t port;
        bool tls;
    } cases[] = {
        {"http://127.0.0.1:8080", "127.0.0.1", 8080, false},
        {"http://Example.COM", "example.com", 80, false},
        {"https://example.com/", "example.com", 443, true},
        {"http://[::1]:8080", "::1", 8080, false},
        {"http://[2001:DB8::1]", "2001:db8::1", 80, false},
        {"http://[::1", NULL, 0, false},
        {"http://[::1]x", NULL, 0, false},
        {"http://::1:80", NULL, 0, false},
        {"ftp://example.com", NULL, 0, false},
        {"http://a.b/path", NULL, 0, false},
        {"http://a.b?q", NULL, 0, false},
        {"http://a.b#f", NULL, 0, false},
        {"http://u@a.b", NULL, 0, false},
        {"http://a.b:0", NULL, 0, false},
        {"http://a.b:65536", NULL, 0, false},
        {"http://a.b:8x", NULL, 0, false},
        {"http://a.b:", NULL, 0, false},
        {"http://", NULL, 0, false},
        {"http://-a.b", NULL, 0, false},
        {"http://a..b", NULL, 0, false},
        {"http://a b", NULL, 0, false},
        {"", NULL, 0, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct hp_endpoint e = {0};
        const char *bad = hp_endpoint_read(&a, sw_slice_str(cases[i].url), &e);

        if (!cases[i].host != !!bad)
            fail_msg("'%s': %s", cases[i].url, bad ? bad : "accepted");
        if (bad)
            continue;
        assert_true(sw_slice_eq_str(e.host, cases[i].host));
        assert_int_equal(e.port, cases[i].port);
        assert_int_equal(e.tls, cases[i].tls);
    }
}

static void advertised_addresses(void **state)
{
    static const struct {
        const char *pattern;
        const char *host;
        bool hit;
    } cases[] = {
        {"127.0.0.1", "localhost", true},       {"localhost", "::1", true},
        {"[::1]", "127.0.0.1", true},           {"10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "10.0.0.2", false},        {"2001:db8::1", "2001:DB8:0::1", true},
        {"*.lan.test", "nas.lan.test", true},   {"*.lan.test", "a.b.lan.test", true},
        {"*.lan.test", "lan.test", false},      {"*.lan.test", "xlan.test", false},
        {"nas.lan.test", "NAS.lan.test", true}, {"*", "anything.test", true},
        {"10.0.0.1", "ten.test", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (cn_address_matches(sw_slice_str(cases[i].pattern), sw_slice_str(cases[i].host)) !=
            cases[i].hit)
            fail_msg("'%s' and '%s'", cases[i].pattern, cases[i].host);
    }
}

static void canonical_names_never_change(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice one = sw_connector_hostname(
        &a, SW_SLICE_LIT("5251a266-8453-4b34-98d2-7989d425ab17"), SW_SLICE_LIT("connect.test"));

    (void)state;
    assert_true(sw_slice_eq_str(one, "delta-blaze-ry6pb.connect.test"));
}

static void targets_have_brackets(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    assert_true(sw_slice_eq_str(sw_connector_target(&a, SW_SLICE_LIT("::1"), 80), "[::1]:80"));
    assert_true(sw_slice_eq_str(sw_connector_target(&a, SW_SLICE_LIT("a.b"), 80), "a.b:80"));
}

static int compare_names(const void *x, const void *y)
{
    return strcmp(x, y);
}

static void find_files(void)
{
    char path[PATH_LEN];
    struct dirent *e;
    DIR *d;

    path_of(path, "", "");
    d = opendir(path);
    if (!d)
        return;
    while ((e = readdir(d)) && n_names < FILES_MAX) {
        size_t n = strlen(e->d_name);

        if (n > 5 && n < sizeof(names[0]) && strcmp(e->d_name + n - 5, ".yaml") == 0) {
            (void)snprintf(names[n_names], sizeof(names[0]), "%.*s", (int)(n - 5), e->d_name);
            n_names++;
        }
    }
    (void)closedir(d);
    qsort(names, n_names, sizeof(names[0]), compare_names);
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(endpoints_are_read),
        cmocka_unit_test(advertised_addresses),
        cmocka_unit_test(canonical_names_never_change),
        cmocka_unit_test(targets_have_brackets),
    };
    struct CMUnitTest all[FILES_MAX + SW_ARRAY_LEN(fixed)];
    size_t n = 0;

    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++)
        all[n++] = fixed[i];
    find_files();
    for (size_t i = 0; i < n_names; i++)
        all[n++] =
            (struct CMUnitTest){.name = names[i], .test_func = golden, .initial_state = names[i]};
    return _cmocka_run_group_tests("connector", all, n, NULL, NULL);
}
