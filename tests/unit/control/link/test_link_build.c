/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers, Exports, Imports and policies: every file of tests/golden/link against the text beside it
 * (see golden.h), in any order of objects, and again with what was asked for done, when nothing may
 * be wanted any more.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../golden.h"
#include "../world.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/time.h"
#include "control/link/link_int.h"
#include "proto/pb.h"
#include "proto/text.h"
#include "proto/types.h"

enum { ROUNDS = 8, LIST_MAX = 16 };

static struct golden files;
static struct sw_link_conf conf;
static struct sw_link_ports reserved[] = {{2000, 2009}};

static size_t read_list(struct world *w, const struct sw_json *v, const struct sw_slice **ret)
{
    struct sw_slice *p = sw_arena_array(&w->arena, LIST_MAX, sizeof(*p));
    size_t n = sw_min(sw_json_len(v), LIST_MAX);

    for (size_t i = 0; i < n; i++)
        p[i] = sw_json_str(sw_json_at(v, i));
    *ret = p;
    return n;
}

static void configure(struct world *w, const struct sw_json *v)
{
    const struct sw_json *input = sw_json_find(v, "input");

    conf.direct = sw_json_true(sw_json_find(v, "direct"));
    conf.n_addresses = read_list(w, sw_json_find(v, "addresses"), &conf.addresses);
    conf.n_export_hosts = read_list(w, sw_json_find(v, "exportHosts"), &conf.export_hosts);
    if (input)
        w->input = sw_json_text(&w->arena, input, NULL);
}

static void begin(struct world *w)
{
    *w = (struct world){
        .revision = UINT64_MAX, .configure = configure, .now = UINT64_C(1794744000) * SW_NS_PER_S};
    conf = (struct sw_link_conf){.ns = SW_SLICE_LIT(SW_LINK_NAMESPACE),
                                 .domain = SW_SLICE_LIT("cluster.local"),
                                 .reserved = reserved,
                                 .n_reserved = SW_ARRAY_LEN(reserved)};
}

static struct sw_output *build_view(const struct sw_view *v)
{
    struct sw_output *out = output_new();
    struct sw_link_facts *facts = NULL;

    sw_link_build(v, &conf, out, &facts);
    assert_non_null(facts);
    facts = sw_link_facts_unref(facts);
    return out;
}

static struct sw_output *build(struct world *w)
{
    struct sw_view *v = world_view(w, sw_link_kinds, SW_LK_COUNT(&conf));
    struct sw_output *out = build_view(v);

    view_unref(v);
    return out;
}

/* ---- text ---- */

static void put_resource(struct sw_buf *out, const struct sw_change *c)
{
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    const struct ProtobufCMessageDescriptor *type = sw_pb_type_find(sw_slice_str(c->kind));
    struct ProtobufCMessage *m;

    assert_non_null(type);
    m = sw_pb_unpack(&a, type, c->bytes, NULL, &err);
    if (!m)
        fail_msg("%s", err.msg);
    assert_int_equal(sw_pb_text(out, m), SW_OK);
}

static void put_published(struct sw_buf *out, const struct sw_output *o)
{
    size_t n = 0;
    struct sw_change *list = world_published(o, &n);

    for (size_t i = 0; i < n; i++) {
        const struct sw_change *c = &list[i];

        if (strcmp(c->kind, SW_LINK_FACTS) == 0)
            continue;
        assert_int_equal(sw_buf_printf(out, "publish %s|%s%s%.*s", c->kind, c->reason,
                                       c->reason[0] ? "|" : "", SW_SLICE_ARG(c->name)),
                         SW_OK);
        if (strcmp(c->kind, SW_OUT_NOTE) == 0) {
            assert_int_equal(sw_buf_printf(out, " = %.*s\n", SW_SLICE_ARG(c->bytes)), SW_OK);
            continue;
        }
        assert_int_equal(sw_buf_printf(out, "\n"), SW_OK);
        put_resource(out, c);
    }
    sw_free(list);
}

static void put_notices(struct sw_buf *out, const struct sw_output *o)
{
    SW_VEC(const struct out_notice *) list = {0};

    SW_MAP_FOREACH (it, &o->notices)
        sw_vec_push(&list, it->value);
    /* Few: sorted by insertion. */
    for (size_t i = 1; i < list.n; i++) {
        for (size_t k = i; k && sw_slice_cmp(list.p[k]->id, list.p[k - 1]->id) < 0; k--) {
            const struct out_notice *t = list.p[k];

            list.p[k] = list.p[k - 1];
            list.p[k - 1] = t;
        }
    }
    for (size_t i = 0; i < list.n; i++)
        assert_int_equal(sw_buf_printf(out, "event %s %s: %s\n", list.p[i]->key, list.p[i]->reason,
                                       list.p[i]->text),
                         SW_OK);
    sw_vec_done(&list);
}

/* What is wanted, and with 'all' what is published, too. */
static char *text_of(struct world *w, const struct sw_output *o, bool all)
{
    struct sw_buf out;

    sw_buf_init(&out, 8 * 1024 * 1024);
    world_put_writes(w, sw_link_kinds, o, &out);
    if (!all)
        return sw_buf_take_str(&out);
    put_published(&out, o);
    put_notices(&out, o);
    return sw_buf_take_str(&out);
}

/* ---- */

/* What every site has is not what these files are about. */
static void settle_roles(struct world *w)
{
    struct sw_output *o = build(w);

    for (size_t i = 0; i < o->writes.n; i++) {
        const struct out_write *x = o->writes.p[i];

        if (x->op == OUT_APPLY && (x->kind == SW_LK_ROLE || x->kind == SW_LK_NAMESPACE))
            world_add(w, sw_json_copy(&w->arena, x->json));
    }
    output_free(o);
}

/* Later steps of a file: objects that replace those of the same name, or go. */
static void load(struct world *w, const char *name)
{
    char *text = golden_read(&files, name, ".yaml");
    struct sw_err err = {0};

    begin(w);
    if (world_load(w, sw_slice_str(text), &err) != SW_OK)
        fail_msg("%s: %s", name, err.msg);
    sw_free(text);
    settle_roles(w);
}

static void golden(void **state)
{
    const char *name = *state;
    struct world w;
    struct sw_output *o;
    struct sw_buf all;
    char *first;
    char *again;
    size_t round = 0;

    load(&w, name);
    o = build(&w);
    first = text_of(&w, o, true);
    /* The order in which objects came does not matter. */
    output_free(o);
    world_reverse(&w);
    o = build(&w);
    again = text_of(&w, o, true);
    assert_string_equal(first, again);
    sw_free(again);
    /* Then what is wanted once that is done, until nothing is. */
    sw_buf_init(&all, 16 * 1024 * 1024);
    assert_int_equal(sw_buf_append_str(&all, first), SW_OK);
    while (world_obey(&w, sw_link_kinds, o)) {
        assert_true(++round < ROUNDS);
        output_free(o);
        o = build(&w);
        again = text_of(&w, o, false);
        assert_int_equal(sw_buf_printf(&all, "---- then\n%s", again), SW_OK);
        sw_free(again);
    }
    output_free(o);
    sw_free(first);
    first = sw_buf_take_str(&all);
    golden_compare(&files, name, first);
    sw_free(first);
    world_end(&w);
}

/* ---- one bad object ---- */

/* The bad one is younger: of two of one age the name decides who has a port. */
#define IMPORT(name, day, more)                                                                    \
    "apiVersion: clusterlink.net/v1alpha1\nkind: Import\nmetadata: {name: " name                   \
    ", namespace: shop, creationTimestamp: \"2026-01-" day                                         \
    "T00:00:00Z\"}\nspec: {port: 80, sources: "                                                    \
    "[{peer: east, exportName: web, exportNamespace: shop}]" more "}\n---\n"

/* Whatever is called 'bad' is the bad object's. */
static bool is_bad(struct sw_slice name)
{
    return memmem(name.p, name.n, "bad", 3) != NULL;
}

static void put_object(struct sw_buf *out, const struct sw_json *o)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json *parts[] = {sw_json_find(o, "spec"),
                                     sw_json_walk(o, "status", "conditions", NULL)};
    struct sw_slice name = js(sw_json_find(o, "metadata"), "name");

    if (is_bad(name))
        return;
    assert_int_equal(sw_buf_append_slice(out, name), SW_OK);
    for (size_t i = 0; i < SW_ARRAY_LEN(parts); i++) {
        if (parts[i])
            assert_int_equal(sw_buf_append_slice(out, sw_json_text(&a, parts[i], NULL)), SW_OK);
    }
    assert_int_equal(sw_buf_append_str(out, "\n"), SW_OK);
}

static char *good_part(const char *bad)
{
    static const char good[] =
        "apiVersion: clusterlink.net/v1alpha1\nkind: Export\n"
        "metadata: {name: api, namespace: shop}\nspec: {port: 80}\n---\n"
        "apiVersion: v1\nkind: Service\n"
        "metadata: {name: api, namespace: shop}\nspec: {ports: [{port: 80}]}\n---\n"
        "apiVersion: clusterlink.net/v1alpha1\nkind: Peer\n"
        "metadata: {name: east, namespace: clusterlink-system}\n"
        "spec: {gateways: [{host: 192.0.2.1, port: 443}]}\n---\n" IMPORT(
            "web", "01", ", targetPort: 3000, lbScheme: static");
    char *yaml = sw_asprintf("%s%s", good, bad);
    struct world w;
    struct sw_output *o;
    struct sw_err err = {0};
    struct sw_buf out;
    size_t n = 0;
    struct sw_change *list;

    begin(&w);
    if (world_load(&w, sw_slice_str(yaml), &err) != SW_OK)
        fail_msg("%s: %s", bad, err.msg);
    settle_roles(&w);
    for (;;) {
        o = build(&w);
        if (!world_obey(&w, sw_link_kinds, o))
            break;
        output_free(o);
    }
    sw_buf_init(&out, 1 << 20);
    list = world_published(o, &n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(list[i].kind, SW_OUT_NOTE) == 0 || strcmp(list[i].kind, SW_LINK_FACTS) == 0 ||
            is_bad(list[i].name))
            continue;
        assert_int_equal(
            sw_buf_printf(&out, "%s %.*s %016llx\n", list[i].kind, SW_SLICE_ARG(list[i].name),
                          (unsigned long long)sw_hash(list[i].bytes.p, list[i].bytes.n)),
            SW_OK);
    }
    sw_free(list);
    for (size_t i = 0; i < w.n; i++)
        put_object(&out, w.objs[i]);
    output_free(o);
    world_end(&w);
    sw_free(yaml);
    return sw_buf_take_str(&out);
}

static void a_bad_object_changes_nothing_else(void **state)
{
    static const char *const bad[] = {
        IMPORT("bad", "02", ", targetPort: 3000"),
        IMPORT("bad", "02", ", targetPort: 70000"),
        IMPORT("bad", "02", ", targetPort: -1"),
        IMPORT("bad", "02", ", targetPort: 4443"),
        IMPORT("bad", "02", ", targetPort: 2005"),
        IMPORT("bad", "02", ", targetPort: x"),
        IMPORT("bad", "02", ", targetPort: 3001, lbScheme: nearest"),
        "apiVersion: clusterlink.net/v1alpha1\nkind: Import\nmetadata: {name: bad, namespace: "
        "shop}\nspec: {port: 0, targetPort: 3002, sources: []}\n",
        "apiVersion: clusterlink.net/v1alpha1\nkind: Import\nmetadata: {name: bad, namespace: "
        "shop}\n",
        "apiVersion: clusterlink.net/v1alpha1\nkind: Import\nmetadata: {name: bad, namespace: "
        "shop, labels: {import.clusterlink.net/merge: \"true\"}}\nspec: {port: 1, targetPort: "
        "3003, sources: []}\n",
        "apiVersion: clusterlink.net/v1alpha1\nkind: Export\nmetadata: {name: bad, namespace: "
        "shop}\nspec: {port: 99999999999999999999}\n",
        "apiVersion: clusterlink.net/v1alpha1\nkind: Export\nmetadata: {name: bad, namespace: "
        "shop}\nspec: {host: 127.1, port: 80}\n",
        "apiVersion: clusterlink.net/v1alpha1\nkind: Peer\nmetadata: {name: bad, namespace: "
        "clusterlink-system}\nspec: {gateways: [{host: \"a b\", port: 1}, {host: h, port: 0}]}\n",
        "apiVersion: clusterlink.net/v1alpha1\nkind: Peer\nmetadata: {name: bad, namespace: "
        "clusterlink-system}\n",
        "apiVersion: clusterlink.net/v1alpha1\nkind: AccessPolicy\nmetadata: {name: bad, "
        "namespace: shop}\nspec: {action: maybe, from: [], to: []}\n",
        "apiVersion: v1\nkind: Service\nmetadata: {name: bad, namespace: shop, labels: "
        "{app.kubernetes.io/managed-by: clusterlink.net, clusterlink.net/import-name: web, "
        "clusterlink.net/import-namespace: shop}}\nspec: {}\n",
    };
    char *alone = good_part("");

    (void)state;
    assert_non_null(strstr(alone, "import-shop/web"));
    for (size_t i = 0; i < SW_ARRAY_LEN(bad); i++) {
        char *with = good_part(bad[i]);

        if (strcmp(alone, with) != 0)
            fail_msg("'%s' changed\n%s\nto\n%s", bad[i], alone, with);
        sw_free(with);
    }
    sw_free(alone);
}

/* ---- small things ---- */

static void services_have_the_names_of_clusterlink(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    assert_true(sw_slice_eq_str(
        sw_link_service_name(&a, SW_SLICE_LIT("default"), SW_SLICE_LIT("iperf3-server")),
        "import-iperf3-ser-default-d8454c071f23fa68160b0767f2f60240"));
}

static void hosts_of_exports(void **state)
{
    static const struct {
        const char *host;
        const char *service; /* "": none */
    } cases[] = {
        {"web", "web"},
        {"web.shop", "web"},
        {"web.shop.svc", "web"},
        {"web.shop.svc.cluster.local", "web"},
        {"WEB.SHOP.SVC.CLUSTER.LOCAL", "WEB"},
        {"web.shop.svc.cluster.local.", "web"},
        {"web.other.svc.cluster.local", ""},
        {"web.svc", ""},
        {"web.other", ""},
        {"a.web.shop.svc", ""},
        {"10.0.0.1", ""},
        {".shop", ""},
    };

    (void)state;
    begin(&(struct world){0});
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_slice got =
            lk_host_service(&conf, sw_slice_str(cases[i].host), SW_SLICE_LIT("shop"));

        if (!sw_slice_eq_str(got, cases[i].service))
            fail_msg("'%s' is '%.*s'", cases[i].host, SW_SLICE_ARG(got));
    }
}

static void allowed_hosts(void **state)
{
    static const struct sw_slice patterns[] = {SW_SLICE_LIT("10.0.0.0/8"),
                                               SW_SLICE_LIT("*.corp.test"), SW_SLICE_LIT("db.test"),
                                               SW_SLICE_LIT("2001:db8::/32")};
    static const struct {
        const char *host;
        bool allowed;
    } cases[] = {
        {"10.1.2.3", true},   {"11.0.0.1", false},       {"db.test", true},
        {"DB.test.", true},   {"x.db.test", false},      {"a.corp.test", true},
        {"corp.test", false}, {"xcorp.test", false},     {"2001:db8::1", true},
        {"10.1", false},      {"0x0a.0.0.1", false},     {"169.254.169.254", false},
        {"a b", false},       {"::ffff:10.1.2.3", true},
    };

    (void)state;
    begin(&(struct world){0});
    conf.export_hosts = patterns;
    conf.n_export_hosts = SW_ARRAY_LEN(patterns);
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        if (lk_host_allowed(&conf, sw_slice_str(cases[i].host)) != cases[i].allowed)
            fail_msg("'%s'", cases[i].host);
    }
}

/* The port or the status that is wanted for an Import. */
static void give(struct world *w, struct sw_json *import, const struct sw_output *o)
{
    static const enum out_op ops[] = {OUT_APPLY, OUT_STATUS};
    const struct sw_json *meta = sw_json_find(import, "metadata");

    for (size_t k = 0; k < SW_ARRAY_LEN(ops); k++) {
        char id[256];
        int n = snprintf(id, sizeof(id), "%d|%d|%.*s/%.*s", (int)ops[k], (int)SW_LK_IMPORT,
                         SW_SLICE_ARG(js_or(meta, "namespace", "")),
                         SW_SLICE_ARG(js_or(meta, "name", "")));
        const struct out_write *x = sw_map_get(&o->by_id, sw_slice(id, (size_t)n));

        if (x && x->op == OUT_APPLY)
            sw_json_put(&w->arena, sw_json_find(import, "spec"), "targetPort",
                        sw_json_copy(&w->arena, sw_json_walk(x->json, "spec", "targetPort", NULL)));
        else if (x)
            sw_json_put(&w->arena, import, "status",
                        sw_json_copy(&w->arena, sw_gateway_stamp(&w->arena, x->json, w->now)));
    }
}

/* As the API would have it: obeying 10,000 writes one by one is too slow in this rig. */
static void give_services(struct world *w)
{
    struct sw_output *o = build(w);
    size_t n = w->n;

    for (size_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < o->writes.n; i++) {
            const struct out_write *x = o->writes.p[i];

            if (x->op == OUT_APPLY && x->kind != SW_LK_IMPORT)
                world_add(w, sw_json_copy(&w->arena, x->json));
        }
        for (size_t i = 0; i < n; i++)
            give(w, w->objs[i], o);
        output_free(o);
        o = build(w);
    }
    output_free(o);
}

/* For the record: what a build costs. */
static struct sw_output *timed(struct world *w, const char *what)
{
    struct sw_view *v = world_view(w, sw_link_kinds, SW_LK_COUNT(&conf));
    uint64_t from = sw_now_ns();
    struct sw_output *o = build_view(v);

    print_message("%s: %llu ms, %zu MiB\n", what,
                  (unsigned long long)((sw_now_ns() - from) / SW_NS_PER_MS), o->arena.total >> 20);
    view_unref(v);
    return o;
}

/* Ports are distinct and none is reserved; once all is done nothing is wanted. */
static void many_imports_get_ports_of_their_own(void **state)
{
    enum { MANY = 10000 };
    static unsigned char used[SW_LINK_PORT_END];
    struct world w;
    struct sw_output *o;
    size_t given = 0;

    (void)state;
    begin(&w);
    conf.direct = true;
    conf.n_addresses = 1;
    conf.addresses = &(const struct sw_slice){"192.0.2.1", 9};
    for (unsigned i = 0; i < MANY; i++) {
        char *text = sw_asprintf("apiVersion: clusterlink.net/v1alpha1\nkind: Import\nmetadata: "
                                 "{name: i%u, namespace: n%u}\nspec: {port: 80, sources: []}\n",
                                 i, i % 100);
        struct sw_err err;

        assert_int_equal(world_load(&w, sw_slice_str(text), &err), SW_OK);
        sw_free(text);
    }
    settle_roles(&w);
    o = timed(&w, "10,000 Imports without ports");
    for (size_t i = 0; i < o->writes.n; i++) {
        int64_t port =
            js_int(sw_json_find(o->writes.p[i]->json, "spec"), "targetPort", UINT16_MAX, 0);

        if (o->writes.p[i]->kind != SW_LK_IMPORT)
            continue;
        assert_in_range(port, SW_LINK_PORT_FIRST, SW_LINK_PORT_END - 1);
        assert_false(used[port]++);
        assert_false(port >= 2000 && port < 2010);
        assert_false(port == 1500 || (port >= 4443 && port <= 4445));
        given++;
    }
    assert_int_equal(given, MANY);
    output_free(o);
    give_services(&w);
    o = timed(&w, "10,000 Imports with all they want");
    assert_int_equal(o->writes.n, 0);
    output_free(o);
    world_end(&w);
}

enum { LEASES = 40 };

/* Imports of a namespace, each a minute younger than the one before. */
struct wanting {
    const char *ns;
    size_t n;
    unsigned first; /* targetPort of the first, the next has the next; 0: none */
    bool granted;   /* by their conditions */
};

static size_t lease(struct sw_arena *a, const struct wanting *w, struct sw_link_lease *list,
                    size_t at)
{
    for (size_t i = 0; i < w->n; i++) {
        const char *port = w->first ? sw_arena_printf(a, ",\"targetPort\":%zu", w->first + i) : "";
        const char *condition = sw_arena_printf(
            a,
            ",\"status\":{\"conditions\":[{\"type\":\"ImportTargetPortValid\",\"status\":"
            "\"True\",\"message\":\"Target port %zu.\"}]}",
            w->first + i);
        const char *text = sw_arena_printf(
            a,
            "{\"metadata\":{\"namespace\":\"%s\",\"name\":\"i%zu\",\"creationTimestamp\":"
            "\"2026-01-01T00:%02zu:00Z\"},\"spec\":{\"port\":80%s}%s}",
            w->ns, at, at, port, w->granted ? condition : "");
        struct sw_json *v = NULL;

        assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
        assert_true(at < LEASES);
        list[at++] = (struct sw_link_lease){.import = sw_kube_obj_new(v)};
    }
    return at;
}

static size_t leased(const struct sw_link_lease *list, size_t n, const char *ns)
{
    size_t have = 0;

    for (size_t i = 0; i < n; i++) {
        if (!sw_slice_eq_str(list[i].import->ns, ns))
            continue;
        have += list[i].target != 0;
        assert_true((list[i].target != 0) == (list[i].why == NULL));
    }
    return have;
}

/* Ten ports: of a namespace that wants all of them, others get some in any case. */
static void no_namespace_leases_all_ports(void **state)
{
    static const struct {
        const char *what;
        struct wanting of[4];
        size_t have[2]; /* of greedy, late */
    } rows[] = {
        {"chosen", {{"greedy", 20, 0, false}, {"late", 3, 0, false}}, {5, 3}},
        {"named", {{"greedy", 10, 3000, false}, {"late", 3, 0, false}}, {5, 3}},
        {"named, and the late one names some of them",
         {{"greedy", 10, 3000, false}, {"late", 3, 3004, false}},
         {5, 2}},
        {"named and chosen",
         {{"greedy", 3, 3000, false}, {"greedy", 20, 0, false}, {"late", 9, 0, false}},
         {5, 3}},
        {"granted before there were shares", {{"greedy", 10, 3000, true}}, {10, 0}},
        {"granted, and no more",
         {{"greedy", 8, 3000, true}, {"greedy", 2, 0, false}, {"late", 2, 0, false}},
         {8, 1}},
    };
    struct sw_link_ports outside[2];

    (void)state;
    assert_int_equal(sw_link_ports_outside(SW_SLICE_LIT("3000-3009"), outside, NULL), SW_OK);
    for (size_t i = 0; i < SW_ARRAY_LEN(rows); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_link_lease list[LEASES];
        size_t n = 0;
        size_t greedy;
        size_t late;

        for (size_t k = 0; k < SW_ARRAY_LEN(rows[i].of); k++)
            n = lease(&a, &rows[i].of[k], list, n);
        sw_link_leases(&a, outside, 2, list, n);
        greedy = leased(list, n, "greedy");
        late = leased(list, n, "late");
        if (greedy != rows[i].have[0] || late != rows[i].have[1])
            fail_msg("%s: %zu and %zu", rows[i].what, greedy, late);
        for (size_t k = 0; k < n; k++)
            sw_kube_obj_unref((struct sw_kube_obj *)(uintptr_t)list[k].import);
    }
}

int main(void)
{
    static const struct CMUnitTest fixed[] = {
        cmocka_unit_test(services_have_the_names_of_clusterlink),
        cmocka_unit_test(hosts_of_exports),
        cmocka_unit_test(allowed_hosts),
        cmocka_unit_test(a_bad_object_changes_nothing_else),
        cmocka_unit_test(many_imports_get_ports_of_their_own),
        cmocka_unit_test(no_namespace_leases_all_ports),
    };
    static struct CMUnitTest all[GOLDEN_MAX + SW_ARRAY_LEN(fixed)];
    size_t n = 0;

    golden_find(&files, "link");
    for (size_t i = 0; i < files.n; i++)
        all[n++] = (struct CMUnitTest){files.names[i], golden, NULL, NULL, files.names[i]};
    for (size_t i = 0; i < SW_ARRAY_LEN(fixed); i++)
        all[n++] = fixed[i];
    return _cmocka_run_group_tests("link_build", all, n, NULL, NULL);
}
