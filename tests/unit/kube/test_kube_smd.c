/* SPDX-License-Identifier: Apache-2.0 */
/* Server-side apply and managedFields, against sequences recorded from a kube-apiserver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/apply/managed.h"
#include "kube/apply/smd.h"
#include "kube/builtin/builtin.h"
#include "kube/crd/schema.h"

struct world {
    struct sw_arena a;
    struct sw_schema_set set;
    const struct sw_schema *schema;
    const char *kind;
    const char *api;
    struct sw_json *live;
    const char *now;
    bool status_sub;
};

static const char *const reset_main[] = {"status", NULL};
static const char *const reset_status[] = {"spec", "metadata", NULL};

static void open_world(struct world *w, const char *file, const char *kind)
{
    size_t n;
    struct sw_json **docs;

    *w = (struct world){.kind = kind,
                        .api = "lab.example.com/v1",
                        .now = "2026-01-01T00:00:00Z",
                        .status_sub = true};
    docs = t_yaml_file(&w->a, sw_arena_printf(&w->a, "%s/%s", KUBE_TEST_DATA, file), &n);
    assert_int_equal(n, 1);
    t_compile_crd(&w->set, docs[0], "v1");
    w->schema = w->set.root;
}

static void close_world(struct world *w)
{
    sw_schema_set_done(&w->set);
    sw_arena_clear(&w->a);
}

static struct sw_smd context(struct world *w, const char *manager, const char *sub)
{
    return (struct sw_smd){.arena = &w->a,
                           .schema = w->schema,
                           .metadata = sw_object_meta_schema(),
                           .api_version = sw_slice_str(w->api),
                           .manager = sw_slice_str(manager),
                           .subresource = sw_slice_str(sub),
                           .now = w->now,
                           .reset = *sub            ? reset_status
                                    : w->status_sub ? reset_main
                                                    : NULL};
}

static struct sw_json *object(struct world *w, const char *body)
{
    return t_yaml(&w->a, sw_arena_printf(&w->a,
                                         "{apiVersion: %s, kind: %s, metadata: {name: m, "
                                         "namespace: ns}, %s}",
                                         w->api, w->kind, body));
}

static const char *apply_as(struct world *w, const char *manager, const char *sub, const char *body,
                            bool force)
{
    struct sw_smd c = context(w, manager, sub);
    struct sw_smd_result r = sw_smd_apply(&c, w->live, object(w, body), force);

    if (r.status != SW_SMD_OK)
        return r.message;
    sw_schema_drop_nulls(r.object, w->schema);
    sw_schema_default(&w->a, r.object, w->schema);
    if (w->live && *sub) {
        struct sw_json *spec = sw_json_find(w->live, "spec");

        if (spec)
            sw_json_put(&w->a, r.object, "spec", spec);
    }
    if (!*sub)
        sw_json_put(&w->a, sw_json_find(r.object, "metadata"), "uid", sw_json_new_str(&w->a, "u"));
    if (r.changed)
        w->live = r.object;
    return r.changed ? "" : "unchanged";
}

static const char *apply(struct world *w, const char *manager, const char *spec, bool force)
{
    return apply_as(w, manager, "", sw_arena_printf(&w->a, "spec: {%s}", spec), force);
}

static void update(struct world *w, const char *manager, const char *sub, const char *body)
{
    struct sw_smd c = context(w, manager, sub);
    struct sw_json *obj = object(w, body);

    sw_schema_drop_nulls(obj, w->schema);
    sw_schema_default(&w->a, obj, w->schema);
    sw_smd_update(&c, w->live, obj);
    sw_json_put(&w->a, sw_json_find(obj, "metadata"), "uid", sw_json_new_str(&w->a, "u"));
    w->live = obj;
}

static const char *spec_of(struct world *w)
{
    return t_json(&w->a, sw_json_find(w->live, "spec"));
}

/* "Apply m1 {...}" lines. */
static const char *owners(struct world *w)
{
    const struct sw_json *list = sw_json_walk(w->live, "metadata", "managedFields", NULL);
    const char *out = "";

    for (size_t i = 0; i < sw_json_len(list); i++) {
        const struct sw_json *e = sw_json_at(list, i);
        struct sw_slice sub = sw_json_str(sw_json_find(e, "subresource"));

        out = sw_arena_printf(&w->a, "%s%s%.*s %.*s%s%.*s %s", out, i ? "\n" : "",
                              SW_SLICE_ARG(sw_json_str(sw_json_find(e, "operation"))),
                              SW_SLICE_ARG(sw_json_str(sw_json_find(e, "manager"))),
                              sub.n ? "/" : "", SW_SLICE_ARG(sub),
                              sw_json_text(&w->a, sw_json_find(e, "fieldsV1"), NULL).p);
    }
    return out;
}

static void conflicts_forced_and_not(void **state)
{
    struct world w;

    open_world(&w, "merges.yaml", "Merge");
    assert_string_equal(apply(&w, "one", "title: x, count: 1", false), "");
    assert_string_equal(apply(&w, "two", "title: z", false),
                        "Apply failed with 1 conflict: conflict with \"one\": .spec.title");
    assert_string_equal(apply(&w, "two", "title: z, count: 2", false),
                        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.count\n- "
                        ".spec.title");
    assert_string_equal(apply(&w, "two", "title: x", false), "");
    assert_string_equal(apply(&w, "one", "title: changed, count: 1", false),
                        "Apply failed with 1 conflict: conflict with \"two\": .spec.title");
    assert_string_equal(apply(&w, "two", "title: z", true), "");
    assert_string_equal(spec_of(&w), "{\"count\":1,\"level\":3,\"title\":\"z\"}");
    assert_string_equal(apply(&w, "one", "title: x, count: 1", false),
                        "Apply failed with 1 conflict: conflict with \"two\": .spec.title");
    assert_string_equal(apply(&w, "one", "count: 5", false), "");
    assert_string_equal(apply(&w, "three", "count: 6, title: q, level: 9", false),
                        "Apply failed with 2 conflicts: conflicts with \"one\":\n- "
                        ".spec.count\nconflicts with \"two\":\n- .spec.title");
    assert_string_equal(apply(&w, "three", "count: 6, title: q, level: 9", true), "");
    assert_string_equal(owners(&w),
                        "Apply three {\"f:spec\":{\"f:count\":{},\"f:level\":{},\"f:title\":{}}}");
    close_world(&w);
}

static void removal_by_leaving_out(void **state)
{
    struct world w;

    open_world(&w, "merges.yaml", "Merge");
    apply(&w, "one", "title: t, count: 1, map: {a: '1', b: '2'}, nested: {left: {v: 1, w: 2}}",
          false);
    assert_string_equal(
        apply(&w, "two", "count: 1, map: {b: '2', c: '3'}, nested: {right: {v: 3}}", false), "");
    assert_string_equal(spec_of(&w), "{\"count\":1,\"level\":3,\"map\":{\"a\":\"1\",\"b\":\"2\","
                                     "\"c\":\"3\"},\"nested\":{\"left\":{\"v\":1,\"w\":2},"
                                     "\"right\":{\"v\":3}},\"title\":\"t\"}");
    apply(&w, "one", "map: {a: '1'}", false);
    assert_string_equal(spec_of(&w), "{\"count\":1,\"level\":3,\"map\":{\"a\":\"1\",\"b\":\"2\","
                                     "\"c\":\"3\"},\"nested\":{\"right\":{\"v\":3}}}");
    apply(&w, "two", "map: {c: '3'}", false);
    assert_string_equal(spec_of(&w), "{\"level\":3,\"map\":{\"a\":\"1\",\"c\":\"3\"}}");
    apply(&w, "one", "title: back", false);
    assert_string_equal(spec_of(&w), "{\"level\":3,\"map\":{\"c\":\"3\"},\"title\":\"back\"}");
    apply(&w, "two", "", false);
    assert_string_equal(spec_of(&w), "{\"level\":3,\"title\":\"back\"}");
    apply(&w, "one", "level: 3", false);
    assert_string_equal(spec_of(&w), "{\"level\":3}");
    assert_string_equal(owners(&w), "Apply one {\"f:spec\":{\"f:level\":{}}}\nApply two "
                                    "{\"f:spec\":{}}");
    close_world(&w);
}

static void sets_and_atomics(void **state)
{
    struct world w;

    open_world(&w, "merges.yaml", "Merge");
    apply(&w, "one", "set: [a, b, c]", false);
    assert_string_equal(apply(&w, "two", "set: [x, b]", false), "");
    assert_string_equal(spec_of(&w), "{\"level\":3,\"set\":[\"a\",\"x\",\"b\",\"c\"]}");
    apply(&w, "one", "set: [c]", false);
    assert_string_equal(spec_of(&w), "{\"level\":3,\"set\":[\"x\",\"b\",\"c\"]}");
    assert_string_equal(apply(&w, "one", "set: [c, c]", false),
                        "failed to create typed patch object (ns/m; lab.example.com/v1, "
                        "Kind=Merge): .spec.set: duplicate entries for key [=\"c\"]");
    apply(&w, "one", "set: [c], atoms: [p, q]", false);
    assert_string_equal(apply(&w, "two", "set: [x, b], atoms: [p, q]", false), "");
    assert_string_equal(apply(&w, "two", "set: [x, b], atoms: [p]", false),
                        "Apply failed with 1 conflict: conflict with \"one\": .spec.atoms");
    apply(&w, "two", "atoms: [p]", true);
    assert_string_equal(spec_of(&w), "{\"atoms\":[\"p\"],\"level\":3,\"set\":[\"c\"]}");
    apply(&w, "one", "sealed: {a: '1'}", false);
    assert_string_equal(apply(&w, "two", "sealed: {b: '2'}", false),
                        "Apply failed with 1 conflict: conflict with \"one\": .spec.sealed");
    apply(&w, "two", "sealed: {b: '2'}", true);
    assert_string_equal(spec_of(&w), "{\"level\":3,\"sealed\":{\"b\":\"2\"}}");
    apply(&w, "one", "free: {x: {deep: [1, 2]}, l: [{name: a}]}", false);
    assert_string_equal(owners(&w),
                        "Apply one {\"f:spec\":{\"f:free\":{\"f:l\":{},\"f:x\":{\".\":{},"
                        "\"f:deep\":{}}}}}\nApply two {\"f:spec\":{\"f:sealed\":{}}}");
    close_world(&w);
}

static void typed_errors(void **state)
{
    static const struct {
        const char *body;
        const char *tail;
    } cases[] = {
        {"spec: {title: 5}", ".spec.title: expected string, got &value.valueUnstructured{Value:5}"},
        {"spec: {bogus: 5}", ".spec.bogus: field not declared in schema"},
        {"bogus: 5", ".bogus: field not declared in schema"},
        {"spec: {set: {a: b}}", ".spec.set: expected list, got"},
        {"spec: [1]", ".spec: expected map, got"},
    };
    struct world w;

    open_world(&w, "merges.yaml", "Merge");
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        const char *msg = apply_as(&w, "m", "", cases[i].body, false);

        assert_non_null(strstr(msg, "failed to create typed patch object (ns/m; "
                                    "lab.example.com/v1, Kind=Merge): "));
        assert_non_null(strstr(msg, cases[i].tail));
    }
    close_world(&w);
}

static void ownership_of_ordinary_writes(void **state)
{
    struct world w;

    open_world(&w, "merges.yaml", "Merge");
    update(
        &w, "kubectl-create", "",
        "spec: {title: t, atoms: [x], set: [p, q], map: {k: v}, sealed: {a: '1'}, nested: {left: "
        "{v: 1}}, ports: [{port: 1, name: one, tags: [t]}, {port: 2, protocol: UDP}], free: "
        "{any: {thing: [1]}, z: null}}");
    assert_string_equal(
        owners(&w),
        "Update kubectl-create {\"f:spec\":{\".\":{},\"f:atoms\":{},\"f:free\":{\".\":{},"
        "\"f:any\":{\".\":{},\"f:thing\":{}},\"f:z\":{}},\"f:level\":{},\"f:map\":{\".\":{},"
        "\"f:k\":{}},\"f:nested\":{\".\":{},\"f:left\":{\".\":{},\"f:v\":{}}},\"f:ports\":{\".\":{"
        "},\"k:{\\\"port\\\":1,\\\"protocol\\\":\\\"TCP\\\"}\":{\".\":{},\"f:name\":{},\"f:port\":{"
        "},\"f:protocol\":{},\"f:tags\":{\".\":{},\"v:\\\"t\\\"\":{}}},\"k:{\\\"port\\\":2,"
        "\\\"protocol\\\":\\\"UDP\\\"}\":{\".\":{},\"f:port\":{},\"f:protocol\":{}}},\"f:sealed\":{"
        "},\"f:set\":{\".\":{},\"v:\\\"p\\\"\":{},\"v:\\\"q\\\"\":{}},\"f:title\":{}}}");
    w.now = "2026-01-01T00:00:05Z";
    update(
        &w, "kubectl-patch", "",
        "spec: {title: t, atoms: [x], set: [p, q], map: {k: v, k2: v2}, sealed: {a: '1'}, nested: "
        "{}, ports: [{port: 2, protocol: UDP, name: two}], free: {any: {thing: [1]}, z: null}}");
    update(
        &w, "kubectl-patch", "status",
        "spec: {title: t, atoms: [x], set: [p, q], map: {k: v, k2: v2}, sealed: {a: '1'}, nested: "
        "{}, ports: [{port: 2, protocol: UDP, name: two}], free: {any: {thing: [1]}, z: null}}, "
        "status: {seen: 4, conditions: [{type: Ready, status: 'True'}]}");
    assert_string_equal(
        owners(&w),
        "Update kubectl-create {\"f:spec\":{\".\":{},\"f:atoms\":{},\"f:free\":{\".\":{},"
        "\"f:any\":{\".\":{},\"f:thing\":{}},\"f:z\":{}},\"f:level\":{},\"f:map\":{\".\":{},"
        "\"f:k\":{}},\"f:nested\":{},\"f:ports\":{\".\":{},\"k:{\\\"port\\\":2,\\\"protocol\\\":"
        "\\\"UDP\\\"}\":{\".\":{},\"f:port\":{},\"f:protocol\":{}}},\"f:sealed\":{},\"f:set\":{\"."
        "\":{},\"v:\\\"p\\\"\":{},\"v:\\\"q\\\"\":{}},\"f:title\":{}}}\n"
        "Update kubectl-patch {\"f:spec\":{\"f:map\":{\"f:k2\":{}},\"f:ports\":{\"k:{\\\"port\\\":"
        "2,\\\"protocol\\\":\\\"UDP\\\"}\":{\"f:name\":{}}}}}\n"
        "Update kubectl-patch/status {\"f:status\":{\".\":{},\"f:conditions\":{\".\":{},\"k:{"
        "\\\"type\\\":\\\"Ready\\\"}\":{\".\":{},\"f:status\":{},\"f:type\":{}}},\"f:seen\":{}}}");
    close_world(&w);
}

static const char lab_schema[] =
    "{type: object, properties: {spec: {type: object, properties: {size: {type: integer}, color: "
    "{type: string, default: blue}, opts: {type: object, additionalProperties: {type: string}}, "
    "ports: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: "
    "{type: object, required: [name], properties: {name: {type: string}, proto: {type: string, "
    "default: TCP}}}}, free: {type: object, x-kubernetes-preserve-unknown-fields: true}}}, status: "
    "{type: object, properties: {replicas: {type: integer}}}}}";

static void lab_world(struct world *w)
{
    struct sw_field_errs e;

    *w = (struct world){.kind = "Widget",
                        .api = "lab.example.com/v1",
                        .now = "2026-01-01T00:00:00Z",
                        .status_sub = true};
    sw_field_errs_init(&e, &w->a);
    assert_int_equal(sw_schema_compile(&w->set, t_yaml(&w->a, lab_schema), NULL, &e), SW_OK);
    w->schema = w->set.root;
}

static void recorded_vectors(void **state)
{
    struct world w;

    lab_world(&w);
    update(&w, "u", "", "spec: {size: 1}");
    assert_string_equal(owners(&w),
                        "Update u {\"f:spec\":{\".\":{},\"f:color\":{},\"f:size\":{}}}");
    w.live = NULL;
    apply(&w, "m1", "size: 1", false);
    assert_string_equal(owners(&w), "Apply m1 {\"f:spec\":{\"f:size\":{}}}");
    w.live = NULL;
    update(&w, "u", "", "spec: {ports: [{name: a}], free: {x: {y: 1}}}");
    assert_string_equal(
        owners(&w), "Update u {\"f:spec\":{\".\":{},\"f:color\":{},\"f:free\":{\".\":{},\"f:x\":"
                    "{\".\":{},\"f:y\":{}}},\"f:ports\":{\".\":{},\"k:{\\\"name\\\":\\\"a\\\"}\""
                    ":{\".\":{},\"f:name\":{},\"f:proto\":{}}}}}");
    w.live = NULL;
    apply(&w, "m1", "opts: {a: '1', b: '2'}, ports: [{name: p1}, {name: p2}]", false);
    assert_string_equal(apply(&w, "m3", "opts: {c: '3'}, ports: [{name: p3}, {name: p2}]", false),
                        "");
    assert_string_equal(spec_of(&w),
                        "{\"color\":\"blue\",\"opts\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"},"
                        "\"ports\":[{\"name\":\"p1\",\"proto\":\"TCP\"},{\"name\":\"p3\",\"proto\":"
                        "\"TCP\"},{\"name\":\"p2\",\"proto\":\"TCP\"}]}");
    apply(&w, "m1", "opts: {b: '2'}, ports: [{name: p1}]", false);
    assert_string_equal(spec_of(&w),
                        "{\"color\":\"blue\",\"opts\":{\"b\":\"2\",\"c\":\"3\"},\"ports\":[{"
                        "\"name\":\"p1\",\"proto\":\"TCP\"},{\"name\":\"p3\",\"proto\":\"TCP\"},{"
                        "\"name\":\"p2\",\"proto\":\"TCP\"}]}");
    assert_string_equal(owners(&w),
                        "Apply m1 {\"f:spec\":{\"f:opts\":{\"f:b\":{}},\"f:ports\":{\"k:{\\\"name\\"
                        "\":\\\"p1\\\"}\":{\".\":{},\"f:name\":{}}}}}\nApply m3 {\"f:spec\":{\"f:"
                        "opts\":{\"f:c\":{}},\"f:ports\":{\"k:{\\\"name\\\":\\\"p2\\\"}\":{\".\":{}"
                        ",\"f:name\":{}},\"k:{\\\"name\\\":\\\"p3\\\"}\":{\".\":{},\"f:name\":{}}}}"
                        "}");
    close_world(&w);
}

static void status_apply_ignores_spec(void **state)
{
    struct world w;

    lab_world(&w);
    update(&w, "unknown", "", "spec: {size: 9}");
    assert_string_equal(apply(&w, "m1", "size: 2", false),
                        "Apply failed with 1 conflict: conflict with \"unknown\" using "
                        "lab.example.com/v1: .spec.size");
    assert_string_equal(
        apply_as(&w, "m2", "status", "spec: {size: 5}, status: {replicas: 1}", false), "");
    assert_non_null(strstr(owners(&w), "Apply m2/status {\"f:status\":{\"f:replicas\":{}}}"));
    assert_string_equal(apply(&w, "m1", "size: 2, color: red", true), "");
    assert_non_null(strstr(owners(&w), "Apply m1 {\"f:spec\":{\"f:color\":{},\"f:size\":{}}}"));
    assert_non_null(strstr(owners(&w), "Update unknown {\"f:spec\":{}}"));
    close_world(&w);
}

static void times_move_only_with_the_set(void **state)
{
    struct world w;
    const char *before;

    lab_world(&w);
    apply(&w, "m1", "size: 1", false);
    before = t_json(&w.a, w.live);
    w.now = "2026-02-02T00:00:00Z";
    assert_string_equal(apply(&w, "m1", "size: 1", false), "unchanged");
    assert_string_equal(t_json(&w.a, w.live), before);
    assert_string_equal(apply(&w, "m1", "size: 2", false), "");
    assert_non_null(strstr(t_json(&w.a, w.live), "2026-02-02T00:00:00Z"));
    close_world(&w);
}

static void before_first_apply(void **state)
{
    struct world w;

    lab_world(&w);
    w.live = object(&w, "spec: {size: 1, color: red}");
    sw_json_put(&w.a, sw_json_find(w.live, "metadata"), "uid", sw_json_new_str(&w.a, "u"));
    assert_string_equal(apply(&w, "m1", "size: 2", false),
                        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using "
                        "lab.example.com/v1: .spec.size");
    assert_string_equal(apply(&w, "m1", "size: 1", false), "");
    assert_string_equal(owners(&w),
                        "Apply m1 {\"f:spec\":{\"f:size\":{}}}\nUpdate before-first-apply "
                        "{\"f:spec\":{\".\":{},\"f:color\":{},\"f:size\":{}}}");
    close_world(&w);
}

static void kubectl_takes_over_its_own_annotation(void **state)
{
    struct world w;
    struct sw_smd c;
    struct sw_smd_result r;

    lab_world(&w);
    w.live = object(&w, "spec: {size: 1}");
    sw_json_put(&w.a, sw_json_find(w.live, "metadata"), "annotations",
                t_yaml(&w.a, "{kubectl.kubernetes.io/last-applied-configuration: "
                             "'{\"apiVersion\":\"lab.example.com/v1\",\"kind\":\"Widget\","
                             "\"metadata\":{\"name\":\"m\"},\"spec\":{\"size\":1}}'}"));
    c = context(&w, "kubectl-client-side-apply", "");
    sw_smd_update(&c, NULL, w.live);
    assert_string_equal(apply(&w, "other", "size: 2", false),
                        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" "
                        "using lab.example.com/v1: .spec.size");
    c = context(&w, "kubectl", "");
    r = sw_smd_apply(&c, w.live, object(&w, "spec: {size: 2}"), false);
    assert_int_equal(r.status, SW_SMD_OK);
    assert_string_equal(
        t_json(&w.a, sw_json_walk(r.object, "metadata", "annotations", NULL)),
        "{\"kubectl.kubernetes.io/last-applied-configuration\":\"{\\\"apiVersion\\\":"
        "\\\"lab.example.com/v1\\\",\\\"kind\\\":\\\"Widget\\\",\\\"metadata\\\":{\\\"name\\\":"
        "\\\"m\\\",\\\"namespace\\\":\\\"ns\\\"},\\\"spec\\\":{\\\"size\\\":2}}\\n\"}");
    close_world(&w);
}

static void only_ten_update_managers_are_kept(void **state)
{
    struct world w;

    lab_world(&w);
    update(&w, "u0", "", "spec: {opts: {k0: v}}");
    for (int i = 1; i < 14; i++) {
        const char *body = "spec: {opts: {k0: v";

        for (int k = 1; k <= i; k++)
            body = sw_arena_printf(&w.a, "%s, k%d: v", body, k);
        w.now = sw_arena_printf(&w.a, "2026-01-01T00:00:%02dZ", i);
        update(&w, sw_arena_printf(&w.a, "u%d", i), "", sw_arena_printf(&w.a, "%s}}", body));
    }
    assert_int_equal(sw_json_len(sw_json_walk(w.live, "metadata", "managedFields", NULL)), 10);
    assert_non_null(strstr(owners(&w), "Update ancient-changes {\"f:spec\""));
    close_world(&w);
}

static void sets_encode_and_decode(void **state)
{
    SW_ARENA_AUTO a = {0};
    static const char *const texts[] = {
        "{}",
        "{\"f:a\":{}}",
        "{\"f:a\":{\".\":{},\"f:b\":{}},\"f:c\":{\"k:{\\\"x\\\":1}\":{\".\":{},\"f:x\":{}}}}",
        "{\"f:l\":{\"v:1\":{},\"v:2\":{},\"v:\\\"a\\\"\":{},\"v:true\":{}}}",
        "{\"f:l\":{\"i:0\":{},\"i:10\":{}}}",
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(texts); i++) {
        struct sw_json *v;

        assert_int_equal(sw_json_parse(&a, sw_slice_str(texts[i]), NULL, &v, NULL), SW_OK);
        assert_string_equal(sw_json_text(&a, sw_fset_encode(&a, sw_fset_decode(&a, v)), NULL).p,
                            texts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conflicts_forced_and_not),
        cmocka_unit_test(removal_by_leaving_out),
        cmocka_unit_test(sets_and_atomics),
        cmocka_unit_test(typed_errors),
        cmocka_unit_test(ownership_of_ordinary_writes),
        cmocka_unit_test(recorded_vectors),
        cmocka_unit_test(status_apply_ignores_spec),
        cmocka_unit_test(times_move_only_with_the_set),
        cmocka_unit_test(before_first_apply),
        cmocka_unit_test(kubectl_takes_over_its_own_annotation),
        cmocka_unit_test(only_ten_update_managers_are_kept),
        cmocka_unit_test(sets_encode_and_decode),
    };

    return cmocka_run_group_tests_name("kube_smd", tests, NULL, NULL);
}
