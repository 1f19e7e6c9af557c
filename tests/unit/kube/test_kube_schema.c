/* SPDX-License-Identifier: Apache-2.0 */
/* Schemas: what a CRD may say, and what becomes of objects under it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/builtin/builtin.h"
#include "kube/crd/crd.h"

static struct sw_arena arena;
static struct sw_schema_set checks, widgets, rules;

struct refusal {
    const char *kind;
    const char *body;
    const char *errs;
};

#include "kube/crd/schema.h"
#include "schema_cases.h"

static void load(struct sw_schema_set *set, const char *file)
{
    size_t n;
    struct sw_json **docs =
        t_yaml_file(&arena, sw_arena_printf(&arena, "%s/%s", KUBE_TEST_DATA, file), &n);

    assert_int_equal(n, 1);
    t_compile_crd(set, docs[0], "v1");
}

static int setup(void **state)
{
    load(&checks, "checks.yaml");
    load(&widgets, "widgets.yaml");
    load(&rules, "rules.yaml");
    return 0;
}

static int teardown(void **state)
{
    sw_schema_set_done(&checks);
    sw_schema_set_done(&widgets);
    sw_schema_set_done(&rules);
    sw_arena_clear(&arena);
    return 0;
}

static const char *admit(struct sw_arena *a, const struct sw_schema *s, const char *kind,
                         const char *body, const struct sw_json *old, struct sw_json **ret)
{
    struct sw_json *obj = t_yaml(
        a, sw_arena_printf(a, "{apiVersion: x/v1, kind: %s, metadata: {name: w}, %s}", kind, body));

    if (ret)
        *ret = obj;
    return t_admit(a, s, obj, old);
}

static void recorded_refusals(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(recorded); i++) {
        SW_ARENA_AUTO a = {0};
        const struct sw_schema *s =
            strcmp(recorded[i].kind, "Check") == 0 ? checks.root : widgets.root;

        assert_string_equal(admit(&a, s, recorded[i].kind, recorded[i].body, NULL, NULL),
                            recorded[i].errs);
    }
}

static void formats_and_bounds(void **state)
{
    static const struct refusal cases[] = {
        {"", "word: Bad",
         "spec.word: Invalid value: \"Bad\": spec.word in body should match "
         "'^[a-z]+(-[a-z]+)*$'"},
        {"", "letter: delta",
         "spec.letter: Unsupported value: \"delta\": supported values: "
         "\"alpha\", \"beta\", \"gamma\""},
        {"", "digit: 2", "spec.digit: Unsupported value: 2: supported values: \"1\", \"3\", \"5\""},
        {"", "low: 9",
         "spec.low: Invalid value: 9: spec.low in body should be greater than or "
         "equal to 10"},
        {"", "over: 1.5",
         "spec.over: Invalid value: 1.5: spec.over in body should be greater than "
         "1.5"},
        {"", "under: 2.5",
         "spec.under: Invalid value: 2.5: spec.under in body should be less than "
         "2.5"},
        {"", "step: 7", "spec.step: Invalid value: 7: spec.step in body should be a multiple of 5"},
        {"", "when: tomorrow",
         "spec.when: Invalid value: \"tomorrow\": spec.when in body must be "
         "of type date-time: \"tomorrow\""},
        {"", "day: '2020-02-30'",
         "spec.day: Invalid value: \"2020-02-30\": spec.day in body must "
         "be of type date: \"2020-02-30\""},
        {"", "ip4: '1.2.3'",
         "spec.ip4: Invalid value: \"1.2.3\": spec.ip4 in body must be of type "
         "ipv4: \"1.2.3\""},
        {"", "net: 10.0.0.0/33",
         "spec.net: Invalid value: \"10.0.0.0/33\": spec.net in body must "
         "be of type cidr: \"10.0.0.0/33\""},
        {"", "mail: nobody",
         "spec.mail: Invalid value: \"nobody\": spec.mail in body must be of "
         "type email: \"nobody\""},
        {"", "id: 12",
         "spec.id: Invalid value: \"integer\": spec.id in body must be of type "
         "string: \"integer\""},
        {"", "blob: '***'",
         "spec.blob: Invalid value: \"***\": spec.blob in body must be of type "
         "byte: \"***\""},
        {"", "span: fast",
         "spec.span: Invalid value: \"fast\": spec.span in body must be of type "
         "duration: \"fast\""},
        {"", "either: true",
         "spec.either: Invalid value: \"boolean\": spec.either in body must be "
         "of type integer,string: \"boolean\""},
        {"", "bounded: 10",
         "spec.bounded: Invalid value: 10: spec.bounded in body should be less "
         "than or equal to 9"},
        {"", "bounded: abc",
         "spec.bounded: Invalid value: \"abc\": spec.bounded in body should "
         "match '^[0-9]+%$'"},
        {"", "embedded: {a: 1}",
         "spec.embedded.apiVersion: Required value: must not be empty\n"
         "spec.embedded.kind: Required value: must not be empty"},
        {"", "small: 2147483648", ""},
        {"",
         "when: '2020-01-02T03:04:05Z', day: '2020-02-29', ip4: 1.2.3.4, ip6: '::1', net: "
         "10.0.0.0/8, mail: a@example.com, host: a.example, link: 'https://a.example/x', id: "
         "00000000-0000-0000-0000-000000000001, blob: YQ==, span: 1h5m, either: 5, bounded: "
         "'50%', open: {known: 1, other: {x: 1}}",
         ""},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(admit(&a, checks.root, "Check",
                                  sw_arena_printf(&a, "spec: {%s}", cases[i].body), NULL, NULL),
                            cases[i].errs);
    }
}

static void defaults_and_nulls(void **state)
{
    static const struct {
        bool widget;
        const char *spec;
        const char *out;
    } cases[] = {
        {true, "size: 1",
         "{\"color\":\"blue\",\"enabled\":true,\"limits\":{\"cpu\":\"100m\"},"
         "\"replicas\":1,\"size\":1}"},
        {true, "size: 1, color: red, enabled: false, replicas: 0",
         "{\"color\":\"red\",\"enabled\":false,\"limits\":{\"cpu\":\"100m\"},\"replicas\":0,"
         "\"size\":1}"},
        {true, "size: 1, limits: {burst: 3}",
         "{\"color\":\"blue\",\"enabled\":true,\"limits\":{\"burst\":3,\"cpu\":\"100m\"},"
         "\"replicas\":1,\"size\":1}"},
        {true, "size: 1, color: null, limits: null",
         "{\"color\":\"blue\",\"enabled\":true,\"limits\":{\"cpu\":\"100m\"},\"replicas\":1,"
         "\"size\":1}"},
        {true, "size: 1, hosts: null, ports: [{name: x, port: 1}]",
         "{\"color\":\"blue\",\"enabled\":true,\"limits\":{\"cpu\":\"100m\"},\"ports\":[{\"name\":"
         "\"x\",\"port\":1,\"protocol\":\"TCP\"}],\"replicas\":1,\"size\":1}"},
        {false, "maybe: null, notnull: null", "{\"maybe\":null}"},
        {false, "keyed: [{host: h}, {host: h, port: 81}]",
         "{\"keyed\":[{\"host\":\"h\",\"port\":80},{\"host\":\"h\",\"port\":81}]}"},
        {false, "open: {known: 1, x: {y: null}}", "{\"open\":{\"known\":1,\"x\":{\"y\":null}}}"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *obj;

        assert_string_equal(admit(&a, cases[i].widget ? widgets.root : checks.root, "K",
                                  sw_arena_printf(&a, "spec: {%s}", cases[i].spec), NULL, &obj),
                            "");
        assert_string_equal(t_json(&a, sw_json_find(obj, "spec")), cases[i].out);
    }
}

static void unknown_fields_are_named(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_texts unknown = {.arena = &a};
    struct sw_json *obj =
        t_yaml(&a, "{apiVersion: a, kind: b, metadata: {x: 1}, top: 1, spec: {size: 1, bogus: 2, "
                   "limits: {more: 1}, ports: [{name: a}, {name: b, zz: 1}]}}");

    sw_schema_prune(obj, widgets.root, &unknown);
    assert_int_equal(unknown.n, 4);
    assert_string_equal(unknown.p[0], "top");
    assert_string_equal(unknown.p[1], "spec.bogus");
    assert_string_equal(unknown.p[2], "spec.limits.more");
    assert_string_equal(unknown.p[3], "spec.ports[1].zz");
    assert_string_equal(t_json(&a, obj),
                        "{\"apiVersion\":\"a\",\"kind\":\"b\",\"metadata\":{\"x\":1},\"spec\":{"
                        "\"limits\":{},\"ports\":[{\"name\":\"a\"},{\"name\":\"b\"}],\"size\":1}}");
}

static void untouched_values_are_not_held_to_a_new_schema(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *old = t_yaml(
        &a, "{spec: {size: 500, color: pink, enabled: true, replicas: 1, limits: {cpu: 100m}, "
            "ports: [{name: a, port: 0, protocol: TCP}]}}");

    assert_string_equal(admit(&a, widgets.root, "W",
                              "spec: {size: 500, color: pink, hosts: [h], ports: [{name: a, port: "
                              "0}, {name: b, port: 1}]}",
                              old, NULL),
                        "");
    assert_string_equal(admit(&a, widgets.root, "W", "spec: {size: 501, color: pink}", old, NULL),
                        "spec.size: Invalid value: 501: spec.size in body should be less than or "
                        "equal to 100");
}

static void transition_rules(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *old = t_yaml(&a, "{spec: {kind: a, counter: 5, items: [{name: main, port: 1, "
                                     "weight: 1, zone: z1}, {name: spare, port: 2, weight: 1}]}}");
    static const struct {
        const char *spec;
        const char *errs;
    } cases[] = {
        {"kind: b, counter: 5", "spec.kind: Invalid value: \"string\": kind is immutable"},
        {"counter: 5", "spec: Invalid value: \"object\": kind cannot be removed once set"},
        {"kind: a, counter: 4",
         "spec.counter: Invalid value: \"integer\": failed rule: self >= oldSelf"},
        {"kind: a, counter: 6", ""},
        {"kind: a, items: [{name: main, port: 1, zone: z2}]",
         "spec.items[0]: Invalid value: \"object\": zone is immutable"},
        {"kind: a, items: [{name: main, port: 3, zone: z1}, {name: extra, port: 4, zone: z9}]", ""},
        {"kind: a, items: [{name: main, port: 25, zone: z1}]",
         "spec.items[0]: Invalid value: \"object\": port 25 is not allowed"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_string_equal(admit(&a, rules.root, "Rule",
                                  sw_arena_printf(&a, "spec: {%s}", cases[i].spec), old, NULL),
                            cases[i].errs);
}

static void status_errors_name_relative_paths(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_field_errs e;
    struct sw_fpath path = sw_fpath_str(NULL, "status");

    sw_field_errs_init(&e, &a);
    sw_schema_check_object(sw_schema_prop(rules.root, SW_SLICE_LIT("status")),
                           t_yaml(&a, "{done: x}"), NULL, &path, &e);
    assert_string_equal(
        t_errs(&a, &e),
        "<nil>: Invalid value: \"null\": some validation rules were not checked because the object "
        "was invalid; correct the existing errors to complete validation\nstatus.done: Invalid "
        "value: \"string\": done in body must be of type integer: \"string\"");
}

/* A rule with nothing but an expression, as the reference prints it. */
#define GO_RULE(rule)                                                                              \
    "apiextensions.ValidationRule{Rule:" rule ", Message:\"\", MessageExpression:\"\", "           \
    "Reason:(*apiextensions.FieldValueErrorReason)(nil), FieldPath:\"\", "                         \
    "OptionalOldSelf:(*bool)(nil)}"

static void schemas_must_be_structural(void **state)
{
    static const struct {
        const char *schema;
        const char *errs;
    } cases[] = {
        {"{}", "s.type: Required value: must not be empty at the root"},
        {"{type: array, items: {type: string}}",
         "s.type: Invalid value: \"array\": must be object at the root"},
        {"{type: object, properties: {a: {}}}",
         "s.properties[a].type: Required value: must not be empty for specified object fields"},
        {"{type: object, properties: {a: {type: array}}}",
         "s.properties[a].items: Required value: must be specified"},
        {"{type: object, properties: {a: {type: text}}}",
         "s.properties[a].type: Unsupported value: \"text\": supported values: \"array\", "
         "\"boolean\", \"integer\", \"number\", \"object\", \"string\""},
        {"{type: object, properties: {a: {type: object, properties: {b: {type: string}}, "
         "additionalProperties: {type: string}}}}",
         "s.properties[a].additionalProperties: Forbidden: additionalProperties and properties are "
         "mutual exclusive"},
        {"{type: object, properties: {a: {type: string, pattern: '('}}}",
         "s.properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but "
         "isn't: error parsing regexp: missing closing ): `(`"},
        {"{type: object, properties: {a: {type: array, uniqueItems: true, items: {type: string}}}}",
         "s.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the "
         "runtime complexity becomes quadratic"},
        {"{type: object, properties: {a: {type: string, x-kubernetes-list-type: set}}}",
         "s.properties[a].type: Invalid value: \"string\": must be array if x-kubernetes-list-type "
         "is specified"},
        {"{type: object, properties: {a: {type: array, x-kubernetes-list-type: map, items: {type: "
         "object, properties: {k: {type: string}}}}}}",
         "s.properties[a].x-kubernetes-list-map-keys: Required value: must not be empty if "
         "x-kubernetes-list-type is map"},
        {"{type: object, properties: {a: {type: integer, default: x}}}",
         "s.properties[a].default: Invalid value: \"string\":  in body must be of type integer: "
         "\"string\""},
        {"{type: object, properties: {a: {type: string, anyOf: [{type: string}]}}}",
         "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural"},
        {"{type: object, properties: {metadata: {type: object, properties: {labels: {type: "
         "object}}}}}",
         "s.properties[metadata]: Forbidden: must not specify anything other than name and "
         "generateName, but metadata is implicitly specified"},
        {"{type: object, properties: {a: {x-kubernetes-int-or-string: true, anyOf: [{type: "
         "integer}, {type: string}]}}}",
         ""},
        {"{type: object, $ref: x}", "s.$ref: Forbidden: $ref is not supported"},
        {"{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "
         "'self.b'}]}}}",
         "s.properties[a].x-kubernetes-validations[0].rule: Invalid value: " GO_RULE(
             "\"self.b\"") ": compilation failed: ERROR: <input>:1:5: type 'string' does not "
                           "support field selection\n | self.b\n | ....^"},
        {"{type: object, x-kubernetes-validations: [{rule: 'self.x > 1'}], properties: {y: {type: "
         "integer}}}",
         "s.x-kubernetes-validations[0].rule: Invalid value: " GO_RULE(
             "\"self.x > 1\"") ": compilation failed: ERROR: <input>:1:5: undefined field 'x'\n | "
                               "self.x > 1\n | ....^"},
        {"{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "
         "'jsonpatch(self)'}]}}}",
         "s.properties[a].x-kubernetes-validations[0].rule: Invalid value: " GO_RULE(
             "\"jsonpatch(self)\"") ": compilation failed: ERROR: <input>:1:10: undeclared "
                                    "reference to 'jsonpatch' (in container '')\n | "
                                    "jsonpatch(self)\n | .........^"},
        {"{type: object, properties: {a: {type: string, x-kubernetes-validations: [{rule: "
         "self}]}}}",
         "s.properties[a].x-kubernetes-validations[0].rule: Invalid value: " GO_RULE(
             "\"self\"") ": cel expression must evaluate to a bool"},
        {"{type: object, properties: {l: {type: array, maxItems: 9, items: {type: string, "
         "maxLength: "
         "9, x-kubernetes-validations: [{rule: self == oldSelf}]}}}}",
         "s.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \"self == "
         "oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within "
         "s.properties[l]"},
        {"{type: object, properties: {l: {type: object, x-kubernetes-map-type: atomic, properties: "
         "{a: {type: string, x-kubernetes-validations: [{rule: self == oldSelf}]}}}}}",
         "s.properties[l].properties[a].x-kubernetes-validations[0].rule: Invalid value: \"self == "
         "oldSelf\": oldSelf cannot be used on the uncorrelatable portion of the schema within "
         "s.properties[l]"},
        {"{type: object, x-kubernetes-validations: [{rule: 'true', optionalOldSelf: true}]}",
         "s.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if "
         "oldSelf is not used in rule"},
        {"{type: object, x-kubernetes-validations: [{rule: 'true', reason: Odd, message: '  ', "
         "fieldPath: .nope, messageExpression: ' '}]}",
         "s.x-kubernetes-validations[0].fieldPath: Invalid value: \".nope\": fieldPath must be a "
         "valid path\n"
         "s.x-kubernetes-validations[0].message: Invalid value: \"\": message must be non-empty if "
         "specified\n"
         "s.x-kubernetes-validations[0].messageExpression: Required value: messageExpression must "
         "be non-empty if specified\n"
         "s.x-kubernetes-validations[0].reason: Unsupported value: \"Odd\": supported values: "
         "\"FieldValueDuplicate\", \"FieldValueForbidden\", \"FieldValueInvalid\", "
         "\"FieldValueRequired\""},
        /* Defaults are held to the rules. */
        {"{type: object, properties: {a: {type: integer, default: 5, x-kubernetes-validations: "
         "[{rule: self < 5, message: too much}]}}}",
         "s.properties[a].default: Invalid value: \"integer\": too much"},
        {"{type: object, additionalProperties: false, properties: {a: {}, b: {type: array}}}",
         "s.additionalProperties: Forbidden: additionalProperties and properties are mutual "
         "exclusive\n"
         "s.additionalProperties: Forbidden: must not be used at the root\n"
         "s.properties[a].type: Required value: must not be empty for specified object fields\n"
         "s.properties[b].items: Required value: must be specified"},
        {"{type: object, properties: {a: {type: object}}, anyOf: [{properties: {b: {minLength: "
         "1}}}]}",
         "s.properties[b]: Required value: because it is defined in s.anyOf[0].properties[b]"},
        {"{type: object, properties: {l: {type: array, items: {type: string}, "
         "x-kubernetes-list-map-keys: [a]}}}",
         "s.properties[l].x-kubernetes-list-type: Required value: must be map if "
         "x-kubernetes-list-map-keys is non-empty"},
        {"{type: object, properties: {l: {type: array, x-kubernetes-list-type: map, "
         "x-kubernetes-list-map-keys: [a], items: {type: object, nullable: true, properties: {a: "
         "{type: string, nullable: true}}}}}}",
         "s.properties[l].items.nullable: Forbidden: cannot be nullable when "
         "x-kubernetes-list-type is map\n"
         "s.properties[l].items.properties[a].default: Required value: this property is in "
         "x-kubernetes-list-map-keys, so it must have a default or be a required property\n"
         "s.properties[l].items.properties[a].nullable: Forbidden: this property is in "
         "x-kubernetes-list-map-keys, so it cannot be nullable"},
        {"{type: object, properties: {a: {type: object, x-kubernetes-preserve-unknown-fields: "
         "false}}}",
         "s.properties[a].x-kubernetes-preserve-unknown-fields: Invalid value: false: must be true "
         "or undefined"},
        {"{type: object, properties: {metadata: {type: object, properties: {name: {type: string, "
         "default: x}}}}}",
         "s.properties[metadata].properties[name].default: Forbidden: must not be set in top-level "
         "metadata"},
        {"{type: object, properties: {a: {type: object, default: {b: 1}}}}",
         "s.properties[a].default: Invalid value: map[string]interface {}{\"b\":1}: must not have "
         "unknown fields"},
        {"{type: object, x-kubernetes-validations: [{rule: ''}]}",
         "s.x-kubernetes-validations[0].rule: Required value: rule is not specified"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_schema_set set = {0};
        struct sw_fpath path = sw_fpath_str(NULL, "s");
        struct sw_field_errs e;

        sw_field_errs_init(&e, &a);
        (void)!sw_schema_compile(&set, t_yaml(&a, cases[i].schema), &path, &e);
        assert_string_equal(t_errs(&a, &e), cases[i].errs);
        sw_schema_set_done(&set);
    }
}

static struct sw_json *make_crd(struct sw_arena *a, const char *scope, const char *kind,
                                const char *version)
{
    struct sw_json *v;
    SW_BUF_AUTO b = {0};

    sw_buf_init(&b, 4096);
    (void)!sw_buf_printf(&b,
                         "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, "
                         "metadata: {name: gadgets.a.example}, spec: {group: a.example, scope: %s, "
                         "names: {plural: gadgets, kind: %s}, versions: [{name: %s, served: true, "
                         "storage: true, schema: {openAPIV3Schema: {type: object}}}, {name: "
                         "v1alpha1, served: true, storage: false, deprecated: true, schema: "
                         "{openAPIV3Schema: {type: object}}}]}, status: {storedVersions: [v1], "
                         "conditions: [{type: Established, status: 'True'}]}}",
                         scope, kind, version);
    v = t_yaml(a, sw_arena_dup(a, sw_buf_slice(&b)));
    sw_builtin_default(a,
                       sw_builtin_kind(SW_SLICE_LIT("apiextensions.k8s.io"),
                                       SW_SLICE_LIT("CustomResourceDefinition")),
                       v);
    return v;
}

static int by_line(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

/* The lines of a text in the order t_errs gives them. */
static const char *sorted(struct sw_arena *a, const char *text)
{
    char *lines[32];
    size_t n = 0;
    const char *out = "";

    for (char *p = sw_arena_dup(a, sw_slice_str(text)); p; n++) {
        lines[n] = p;
        p = strchr(p, '\n');
        if (p)
            *p++ = 0;
    }
    qsort(lines, n, sizeof(*lines), by_line);
    for (size_t i = 0; i < n; i++)
        out = sw_arena_printf(a, "%s%s%s", out, i ? "\n" : "", lines[i]);
    return out;
}

/* One CRD with one version each: 'version' goes into the version, 'spec' into the spec. */
static void crds_are_checked(void **state)
{
    static const struct {
        const char *spec;
        const char *version;
        const char *errs;
    } cases[] = {
        {"", "", ""},
        {"",
         "subresources: {scale: {specReplicasPath: .replicas, statusReplicasPath: status.n, "
         "labelSelectorPath: .x}}",
         "spec.subresources.scale.specReplicasPath: Invalid value: \".replicas\": should be a json "
         "path under .spec\n"
         "spec.subresources.scale.statusReplicasPath: Invalid value: \"status.n\": must be a "
         "simple "
         "json path starting with .\n"
         "spec.subresources.scale.labelSelectorPath: Invalid value: \".x\": should be a json path "
         "under either .spec or .status"},
        {"", "subresources: {scale: {}}",
         "spec.subresources.scale.specReplicasPath: Required value\n"
         "spec.subresources.scale.statusReplicasPath: Required value"},
        {"",
         "additionalPrinterColumns: [{name: A, type: thing, jsonPath: spec.a, format: odd}, "
         "{type: string, jsonPath: .a}, {name: B, jsonPath: ''}]",
         "spec.additionalPrinterColumns[0].type: Invalid value: \"thing\": must be one of "
         "boolean,date,integer,number,string\n"
         "spec.additionalPrinterColumns[0].format: Invalid value: \"odd\": must be one of "
         "byte,date,date-time,double,float,int32,int64,password\n"
         "spec.additionalPrinterColumns[0].JSONPath: Invalid value: \"spec.a\": must be a simple "
         "json path starting with .\n"
         "spec.additionalPrinterColumns[1].name: Required value\n"
         "spec.additionalPrinterColumns[2].type: Required value: must be one of "
         "boolean,date,integer,number,string\n"
         "spec.additionalPrinterColumns[2].JSONPath: Required value"},
        {"",
         "selectableFields: [{jsonPath: .spec.color}, {jsonPath: .spec.color}, {jsonPath: "
         ".spec}, {jsonPath: .spec.nope}, {jsonPath: '.spec[0]'}, {jsonPath: spec}, {}]",
         "spec.selectableFields[1].jsonPath: Duplicate value: \".spec.color\"\n"
         "spec.selectableFields[2].jsonPath: Invalid value: \".spec\": must point to a field of "
         "type string, boolean or integer. Enum string fields and strings with formats are "
         "allowed.\n"
         "spec.selectableFields[3].jsonPath: Invalid value: \".spec.nope\": is an invalid path: "
         "does not refer to a valid field\n"
         "spec.selectableFields[4].jsonPath: Invalid value: \".spec[0]\": is an invalid path: "
         "array notation is not allowed\n"
         "spec.selectableFields[5].jsonPath: Invalid value: \"spec\": is an invalid path: expected "
         "[ or . but got: spec\n"
         "spec.selectableFields[6].jsonPath: Required value"},
        {"", "deprecationWarning: old",
         "spec.versions[0].deprecationWarning: Invalid value: \"old\": can only be set for "
         "deprecated versions"},
        {"", "deprecated: true, deprecationWarning: ''",
         "spec.versions[0].deprecationWarning: Invalid value: \"\": must not be an empty string"},
        {"preserveUnknownFields: true", "",
         "spec.preserveUnknownFields: Invalid value: true: cannot set to true, set "
         "x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"},
        {"conversion: {strategy: Odd}", "",
         "spec.conversion.strategy: Unsupported value: \"Odd\": supported values: \"None\", "
         "\"Webhook\""},
        {"conversion: {strategy: Webhook}", "",
         "spec.conversion.webhookClientConfig: Required value: required when strategy is set to "
         "Webhook\n"
         "spec.conversion.conversionReviewVersions: Required value"},
        {"conversion: {strategy: Webhook, webhook: {clientConfig: {url: 'https://a/'}, "
         "conversionReviewVersions: [v9, v9]}}",
         "",
         "spec.conversion.conversionReviewVersions[1]: Invalid value: \"v9\": duplicate version\n"
         "spec.conversion.conversionReviewVersions: Invalid value: []interface {}{\"v9\", "
         "\"v9\"}: must include at least one of v1, v1beta1"},
        /* What is stored needs no conversion. */
        {"conversion: {strategy: Webhook, webhook: {clientConfig: {url: 'https://a/'}, "
         "conversionReviewVersions: [v1]}}",
         "", ""},
        {"conversion: {strategy: None, webhook: {clientConfig: {url: 'https://a/'}}}", "",
         "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not "
         "set to Webhook"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_field_errs e;
        struct sw_json *v = t_yaml(
            &a,
            sw_arena_printf(
                &a,
                "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: "
                "{name: gadgets.a.example}, spec: {%s%s group: a.example, scope: Namespaced, "
                "names: {plural: gadgets, kind: Gadget, singular: gadget, listKind: GadgetList}, "
                "versions: [{%s%s name: v1, served: true, storage: true, schema: "
                "{openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: "
                "{color: {type: string}}}}}}}]}, status: {storedVersions: [v1]}}",
                cases[i].spec, *cases[i].spec ? "," : "", cases[i].version,
                *cases[i].version ? "," : ""));

        sw_field_errs_init(&e, &a);
        sw_crd_free(sw_crd_compile(v, NULL, &e));
        assert_string_equal(t_errs(&a, &e), sorted(&a, cases[i].errs));
    }
}

static void crds_compile_and_change(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = make_crd(&a, "Namespaced", "Gadget", "v1");
    struct sw_field_errs e;
    struct sw_crd *c;

    sw_field_errs_init(&e, &a);
    c = sw_crd_compile(v, NULL, &e);
    assert_string_equal(t_errs(&a, &e), "");
    assert_true(sw_slice_eq_str(sw_crd_version(c, SW_SLICE_LIT("v1alpha1"))->warning,
                                "a.example/v1alpha1 Gadget is deprecated; use a.example/v1 "
                                "Gadget"));
    sw_crd_free(c);
    assert_null(sw_crd_compile(make_crd(&a, "Cluster", "Gadget", "v1"), v, &e));
    assert_string_equal(t_errs(&a, &e),
                        "spec.scope: Invalid value: \"Cluster\": field is immutable");
    sw_field_errs_init(&e, &a);
    assert_null(sw_crd_compile(make_crd(&a, "Namespaced", "Other", "v1"), v, &e));
    assert_string_equal(t_errs(&a, &e),
                        "spec.names.kind: Invalid value: \"Other\": field is immutable");
    sw_field_errs_init(&e, &a);
    assert_null(sw_crd_compile(make_crd(&a, "Namespaced", "Gadget", "v2"), v, &e));
    assert_string_equal(
        t_errs(&a, &e),
        "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was "
        "previously a storage version, and must remain in spec.versions until a storage migration "
        "ensures no data remains persisted in v1 and removes v1 from status.storedVersions");
}

static void versions_have_an_order(void **state)
{
    static const char *const order[] = {"v10",     "v2",       "v1",  "v2beta1", "v1beta2",
                                        "v1beta1", "v1alpha1", "foo", "v1gamma"};

    for (size_t i = 0; i < SW_ARRAY_LEN(order); i++) {
        for (size_t k = 0; k < SW_ARRAY_LEN(order); k++) {
            int c = sw_version_cmp(sw_slice_str(order[i]), sw_slice_str(order[k]));

            assert_int_equal((c > 0) - (c < 0), (i > k) - (i < k));
        }
    }
}

/* Sizes come before patterns, work before the end of the object, and defaults stop. */
static void work_is_bounded(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_schema_set set = {0};
    struct sw_field_errs e;
    struct sw_json *schema = NULL;
    struct sw_json *v = NULL;
    struct sw_budget b = {.steps = 5000, .bytes = 5000};
    const char *where = NULL;

    sw_field_errs_init(&e, &a);
    assert_int_equal(
        sw_json_parse(&a,
                      SW_SLICE_LIT("{\"type\":\"object\",\"properties\":{"
                                   "\"few\":{\"type\":\"array\",\"maxItems\":1,\"items\":"
                                   "{\"type\":\"string\",\"pattern\":\"^x$\"}},"
                                   "\"many\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
                                   "\"properties\":{\"d\":{\"type\":\"string\",\"default\":\"v\"}"
                                   "}}}}}"),
                      NULL, &schema, NULL),
        SW_OK);
    assert_int_equal(sw_schema_compile(&set, schema, NULL, &e), SW_OK);
    assert_int_equal(sw_json_parse(&a, SW_SLICE_LIT("{\"few\":[\"y\",\"y\"]}"), NULL, &v, NULL),
                     SW_OK);
    sw_schema_validate(set.root, v, NULL, NULL, &e);
    assert_int_equal(e.n, 1); /* their number only */
    assert_int_equal(e.p[0].cause, SW_CAUSE_TOO_MANY);

    v = sw_json_new_object(&a);
    sw_json_put(&a, v, "many", sw_json_new_array(&a));
    for (int i = 0; i < 1000; i++)
        sw_json_push(&a, sw_json_find(v, "many"), sw_json_new_object(&a));
    assert_false(sw_schema_default_within(&a, v, set.root, &b, &where));
    assert_non_null(strstr(where, "many["));

    sw_field_errs_init(&e, &a);
    b = (struct sw_budget){.steps = 5000};
    e.budget = &b;
    sw_schema_check_object(set.root, v, NULL, NULL, &e);
    assert_true(b.spent);
    assert_int_equal(e.n, 1);
    assert_non_null(strstr(e.p[0].field, "many["));
    sw_schema_set_done(&set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_refusals),
        cmocka_unit_test(formats_and_bounds),
        cmocka_unit_test(defaults_and_nulls),
        cmocka_unit_test(unknown_fields_are_named),
        cmocka_unit_test(untouched_values_are_not_held_to_a_new_schema),
        cmocka_unit_test(transition_rules),
        cmocka_unit_test(status_errors_name_relative_paths),
        cmocka_unit_test(schemas_must_be_structural),
        cmocka_unit_test(crds_are_checked),
        cmocka_unit_test(crds_compile_and_change),
        cmocka_unit_test(versions_have_an_order),
        cmocka_unit_test(work_is_bounded),
    };

    return cmocka_run_group_tests_name("kube_schema", tests, setup, teardown);
}
