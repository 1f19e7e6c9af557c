/* SPDX-License-Identifier: Apache-2.0 */
/* Ingress and IngressClass: what is stored, what is refused and how, columns, protobuf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/builtin/builtin.h"
#include "kube/builtin/protobuf.h"
#include "kube/table/table.h"

#define META "metadata: {name: i, namespace: n}"
#define SUBDOMAIN                                                                                  \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "   \
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "  \
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
#define WILDCARD                                                                                   \
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "      \
    "which must consist of lower case alphanumeric characters, '-' or '.' and end with an "        \
    "alphanumeric character (e.g. '*.example.com', regex used for validation is "                  \
    "'\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"

static const struct sw_builtin *kind(const char *name)
{
    const struct sw_builtin *b =
        sw_builtin_kind(SW_SLICE_LIT("networking.k8s.io"), sw_slice_str(name));

    assert_non_null(b);
    return b;
}

static const char *admit(struct sw_arena *a, const char *name, struct sw_json *obj,
                         const struct sw_json *old)
{
    return t_admit_kind(a, kind(name), obj, old);
}

static const struct {
    const char *spec;
    const char *errs;
} ingresses[] = {
    {"defaultBackend: {service: {name: s, port: {number: 80}}}", ""},
    {"defaultBackend: {service: {name: s, port: {name: http}}}", ""},
    {"defaultBackend: {resource: {apiGroup: k.example.com, kind: K, name: x}}", ""},
    {"rules: [{host: '*.example.com'}, {http: {paths: [{pathType: ImplementationSpecific, backend: "
     "{service: {name: s, port: {number: 80}}}}]}}], tls: [{}, {hosts: [a.b, '*.b'], secretName: "
     "x}]",
     ""},
    {"ingressClassName: x",
     "spec: Invalid value: []networking.IngressRule(nil): either `defaultBackend` or `rules` must "
     "be specified"},
    {"defaultBackend: {}",
     "spec.defaultBackend: Invalid value: \"\": resource or service backend is required"},
    {"defaultBackend: {service: {name: s, port: {number: 80}}, resource: {kind: K, name: x}}",
     "spec.defaultBackend: Invalid value: \"\": cannot set both resource and service backends"},
    {"defaultBackend: {service: {name: s}}",
     "spec.defaultBackend: Required value: port name or number is required"},
    {"defaultBackend: {service: {name: s, port: {name: a, number: 1}}}",
     "spec.defaultBackend: Invalid value: \"\": cannot set both port name & port number"},
    {"defaultBackend: {service: {port: {number: 65536}}}",
     "spec.defaultBackend.service.name: Required value\nspec.defaultBackend.service.port.number: "
     "Invalid value: 65536: must be between 1 and 65535, inclusive"},
    {"defaultBackend: {service: {name: s, port: {name: '80'}}}",
     "spec.defaultBackend.service.port.name: Invalid value: \"80\": must contain at least one "
     "letter (a-z)"},
    {"defaultBackend: {resource: {apiGroup: A_B, kind: a/b}}",
     "spec.defaultBackend.resource.apiGroup: Invalid value: \"A_B\": " SUBDOMAIN
     "\nspec.defaultBackend.resource.kind: Invalid value: \"a/b\": may not contain "
     "'/'\nspec.defaultBackend.resource.name: Required value"},
    {"rules: [{host: 192.0.2.1}, {host: '*'}, {host: 'a.*.b'}, {host: A.b}]",
     "spec.rules[0].host: Invalid value: \"192.0.2.1\": must be a DNS name, not an IP "
     "address\nspec.rules[1].host: Invalid value: \"*\": " WILDCARD
     "\nspec.rules[2].host: Invalid value: \"a.*.b\": " WILDCARD
     "\nspec.rules[3].host: Invalid value: \"A.b\": " SUBDOMAIN},
    {"rules: [{http: {}}]", "spec.rules[0].http.paths: Required value"},
    {"rules: [{http: {paths: [{path: /, backend: {}}, {path: /, pathType: Regex, backend: "
     "{service: {name: s, port: {number: 1}}}}]}}]",
     "spec.rules[0].http.paths[0].pathType: Required value: pathType must be "
     "specified\nspec.rules[0].http.paths[1].pathType: Unsupported value: \"Regex\": supported "
     "values: \"Exact\", \"ImplementationSpecific\", \"Prefix\""},
    {"rules: [{http: {paths: [{path: a//b/.., pathType: Prefix, backend: {service: {name: s, port: "
     "{number: 1}}}}, {pathType: Exact, backend: {service: {name: s, port: {number: 1}}}}, {path: "
     "x//y, pathType: ImplementationSpecific, backend: {service: {name: s, port: {number: "
     "1}}}}]}}]",
     "spec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": cannot end with "
     "'/..'\nspec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": must be an absolute "
     "path\nspec.rules[0].http.paths[0].path: Invalid value: \"a//b/..\": must not contain "
     "'//'\nspec.rules[0].http.paths[1].path: Invalid value: \"\": must be an absolute "
     "path\nspec.rules[0].http.paths[2].path: Invalid value: \"x//y\": must be an absolute path"},
    {"rules: [{host: a.b}], tls: [{hosts: ['*a.b', B], secretName: X}], ingressClassName: a/b",
     "spec.ingressClassName: Invalid value: \"a/b\": " SUBDOMAIN
     "\nspec.tls[0].hosts[0]: Invalid value: \"*a.b\": " WILDCARD
     "\nspec.tls[0].hosts[1]: Invalid value: \"B\": " SUBDOMAIN
     "\nspec.tls[0].secretName: Invalid value: \"X\": " SUBDOMAIN},
    {"rules: [{host: 5}]",
     "json: cannot unmarshal number into Go struct field spec.rules[0].host of type string"},
};

static void rules_of_ingresses(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(ingresses); i++) {
        SW_ARENA_AUTO a = {0};
        const char *text = sw_arena_printf(&a, "{" META ", spec: {%s}}", ingresses[i].spec);

        assert_string_equal(admit(&a, "Ingress", t_yaml(&a, text), NULL), ingresses[i].errs);
    }
}

static void ingresses_as_stored(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = t_yaml(&a, "{" META ", spec: {ingressClassName: c, tls: [], rules: [{host: "
                                   "'', http: {paths: [{path: /, pathType: Prefix, backend: "
                                   "{service: {name: s, port: {number: 80, name: ''}}}}]}}]}, "
                                   "status: {loadBalancer: {ingress: [{ip: 192.0.2.1}]}}}");
    struct sw_json *old;

    assert_string_equal(admit(&a, "Ingress", v, NULL), "");
    assert_string_equal(t_json(&a, v),
                        "{\"metadata\":{\"name\":\"i\",\"namespace\":\"n\"},\"spec\":{"
                        "\"ingressClassName\":\"c\",\"rules\":[{\"http\":{\"paths\":[{\"backend\":"
                        "{\"service\":{\"name\":\"s\",\"port\":{\"number\":80}}},\"path\":\"/\","
                        "\"pathType\":\"Prefix\"}]}}]},\"status\":{\"loadBalancer\":{}}}");
    old = v;
    v = sw_json_copy(&a, old);
    sw_json_put(&a, v, "status",
                t_yaml(&a, "{loadBalancer: {ingress: [{ip: x}, {hostname: 192.0.2.1}, {hostname: "
                           "a.b, ip: '2001:db8::1'}]}}"));
    assert_string_equal(admit(&a, "Ingress", v, old),
                        "status.loadBalancer.ingress[0].ip: Invalid value: \"x\": must be a valid "
                        "IP address, (e.g. 10.9.8.7 or "
                        "2001:db8::ffff)\nstatus.loadBalancer.ingress[1].hostname: Invalid value: "
                        "\"192.0.2.1\": must be a DNS name, not an IP address");
}

#define NOTED(more)                                                                                \
    "{metadata: {name: i, namespace: n, annotations: {kubernetes.io/ingress.class: a}}, spec: "    \
    "{" more "rules: [{host: x}]}}"

/* The annotation and the field: one of them, or the same twice; only new objects are asked. */
static void class_by_annotation(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_texts warnings = {.arena = &a};
    struct sw_field_errs e;
    struct sw_json *both = t_yaml(&a, NOTED("ingressClassName: b,"));

    assert_string_equal(admit(&a, "Ingress", both, NULL),
                        "annotations.kubernetes.io/ingress.class: Invalid value: \"a\": must match "
                        "`ingressClassName` when both are specified");
    assert_string_equal(admit(&a, "Ingress", both, both), "");
    assert_string_equal(admit(&a, "Ingress", t_yaml(&a, NOTED("ingressClassName: a,")), NULL), "");
    sw_field_errs_init(&e, &a);
    e.warnings = &warnings;
    sw_builtin_validate(kind("Ingress"), t_yaml(&a, NOTED("")), NULL, &e);
    assert_int_equal(e.n, 0);
    assert_int_equal(warnings.n, 1);
    assert_string_equal(warnings.p[0], "annotation \"kubernetes.io/ingress.class\" is deprecated, "
                                       "please use 'spec.ingressClassName' instead");
}

#define REF "controller: a.b/c, parameters: "

static const struct {
    const char *spec;
    const char *errs;
} classes[] = {
    {"controller: spanwire.dev/ingress", ""},
    {"controller: 'a.b/c/d~%20'", ""},
    {REF "{kind: K, name: x}", ""},
    {REF "{kind: K, name: x, scope: Namespace, namespace: n}", ""},
    {"", "spec.controller: Required value"},
    {"controller: plain", "spec.controller: Invalid value: \"plain\": must be a domain-prefixed "
                          "path (such as \"acme.io/foo\")"},
    {"controller: a.b/", "spec.controller: Invalid value: \"a.b/\": must be a domain-prefixed path "
                         "(such as \"acme.io/foo\")"},
    {"controller: A.b/c", "spec.controller: Invalid value: \"A.b\": " SUBDOMAIN},
    {"controller: 'a.b/c?d'",
     "spec.controller: Invalid value: \"c?d\": Invalid path (regex used for validation is "
     "'[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')"},
    {REF "{}", "spec.parameters.kind: Required value\nspec.parameters.name: Required value"},
    {REF "{kind: K, name: x, scope: World}",
     "spec.parameters.scope: Unsupported value: \"World\": supported values: \"Cluster\", "
     "\"Namespace\""},
    {REF "{kind: K, name: x, scope: Namespace}",
     "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"},
    {REF "{kind: K, name: x, namespace: n}",
     "spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"},
};

static void rules_of_classes(void **state)
{
    SW_ARENA_AUTO long_one = {0};
    char name[300] = "a.b/";

    for (size_t i = 0; i < SW_ARRAY_LEN(classes); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *v =
            t_yaml(&a, sw_arena_printf(&a, "{metadata: {name: c}, spec: {%s}}", classes[i].spec));

        assert_string_equal(admit(&a, "IngressClass", v, NULL), classes[i].errs);
        if (strcmp(classes[i].spec, REF "{kind: K, name: x}") == 0)
            assert_string_equal(t_json(&a, sw_json_walk(v, "spec", "parameters", NULL)),
                                "{\"kind\":\"K\",\"name\":\"x\",\"scope\":\"Cluster\"}");
    }
    memset(name + 4, 'x', 250);
    assert_string_equal(
        admit(&long_one, "IngressClass",
              t_yaml(&long_one,
                     sw_arena_printf(&long_one, "{metadata: {name: c}, spec: {controller: %s}}",
                                     name)),
              NULL),
        "spec.controller: Too long: may not be more than 250 bytes");
}

static void controller_is_immutable(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *old =
        t_yaml(&a, "{metadata: {name: c, resourceVersion: '1'}, spec: {controller: a.b/c}}");
    struct sw_json *v =
        t_yaml(&a, "{metadata: {name: c, resourceVersion: '1'}, spec: {controller: a.b/d}}");

    assert_string_equal(admit(&a, "IngressClass", v, old),
                        "spec.controller: Invalid value: \"a.b/d\": field is immutable");
}

static const struct {
    const char *kind;
    const char *obj;
    const char *cells;
} tables[] = {
    {"Ingress", "{metadata: {name: i}, spec: {defaultBackend: {}}}",
     "[\"i\",\"<none>\",\"*\",\"\",\"80\",\"<unknown>\"]"},
    {"Ingress",
     "{metadata: {name: i, creationTimestamp: '1970-01-01T00:00:00Z'}, spec: {ingressClassName: c, "
     "tls: [{}], rules: [{host: a.b}, {}, {host: c.d}]}, status: {loadBalancer: {ingress: [{ip: "
     "192.0.2.2}, {hostname: x.y}, {ip: 192.0.2.1}]}}}",
     "[\"i\",\"c\",\"a.b,c.d\",\"192.0.2.1,192.0.2.2,x.y\",\"80, 443\",\"100s\"]"},
    {"Ingress",
     "{metadata: {name: i}, spec: {rules: [{host: a}, {host: b}, {host: c}, {host: d}, {}]}}",
     "[\"i\",\"<none>\",\"a,b,c + 2 more...\",\"\",\"80\",\"<unknown>\"]"},
    {"IngressClass", "{metadata: {name: c}, spec: {controller: a/b}}",
     "[\"c\",\"a/b\",\"<none>\",\"<unknown>\"]"},
    {"IngressClass",
     "{metadata: {name: c}, spec: {controller: a/b, parameters: {apiGroup: k.x, kind: K, name: "
     "n}}}",
     "[\"c\",\"a/b\",\"K.k.x/n\",\"<unknown>\"]"},
};

static void columns(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(tables); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(t_json(&a, sw_table_cells(&a, kind(tables[i].kind), NULL,
                                                      t_yaml(&a, tables[i].obj), 100)),
                            tables[i].cells);
    }
}

/* The value of a rule is in a message of its own on the wire, and in the rule in JSON. */
static void rules_in_protobuf(void **state)
{
    /* spec 2, rules 3: host 1, value 2, http 1, paths 1: path 1, backend 2, type 3 */
    static const char body[] = "k8s\0"
                               "\x0a\x1f\x0a\x14networking.k8s.io/v1\x12\x07Ingress"
                               "\x12\x32\x12\x30"
                               "\x1a\x27\x0a\x01h\x12\x22\x0a\x20\x0a\x1e\x0a\x02/a"
                               "\x12\x10\x22\x0e\x0a\x04main\x12\x06\x0a\x01x\x10\x90\x3f"
                               "\x1a\x06Prefix"
                               "\x1a\x05\x0a\x01g\x12\x00";
    static const char cut[] = "k8s\0"
                              "\x0a\x1f\x0a\x14networking.k8s.io/v1\x12\x07Ingress"
                              "\x12\x07\x12\x05\x1a\x03\x12\x01\x0a";
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct sw_json *v = NULL;

    assert_int_equal(sw_pb_decode(&a, sw_slice(body, sizeof(body) - 1), &v, &err), SW_OK);
    assert_string_equal(t_json(&a, v),
                        "{\"apiVersion\":\"networking.k8s.io/v1\",\"kind\":\"Ingress\",\"spec\":{"
                        "\"rules\":[{\"host\":\"h\",\"http\":{\"paths\":[{\"backend\":{\"service\":"
                        "{\"name\":\"main\",\"port\":{\"name\":\"x\",\"number\":8080}}},\"path\":"
                        "\"/a\",\"pathType\":\"Prefix\"}]}},{\"host\":\"g\"}]}}");
    assert_int_equal(sw_pb_decode(&a, sw_slice(cut, sizeof(cut) - 1), &v, &err), SW_EINVAL);
    assert_string_equal(err.msg, "malformed protobuf: wrapped field");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_of_ingresses),      cmocka_unit_test(ingresses_as_stored),
        cmocka_unit_test(class_by_annotation),     cmocka_unit_test(rules_of_classes),
        cmocka_unit_test(controller_is_immutable), cmocka_unit_test(columns),
        cmocka_unit_test(rules_in_protobuf),
    };

    return cmocka_run_group_tests_name("kube ingress", tests, NULL, NULL);
}
