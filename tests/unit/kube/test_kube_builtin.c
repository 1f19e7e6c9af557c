/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in kinds: decoding, defaults, validation, tables, strategic merge, protobuf. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/apply/patch.h"
#include "kube/builtin/protobuf.h"
#include "kube/select/jsonpath.h"
#include "kube/table/table.h"
#include "service_admit.h"

struct service_case {
    const char *name;
    const char *spec;
    const char *errs;
};

#include "service_cases.h"

static void recorded_services(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(services); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *obj =
            t_yaml(&a, sw_arena_printf(&a,
                                       "{apiVersion: v1, kind: Service, metadata: {name: %s, "
                                       "namespace: ns}, spec: {%s}}",
                                       services[i].name, services[i].spec));

        assert_string_equal(admit(&a, kind("", "Service"), obj, NULL), services[i].errs);
    }
}

static void services_as_stored(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v =
        t_yaml(&a, "{apiVersion: v1, kind: Service, metadata: {name: head, namespace: n, labels: "
                   "{}}, spec: {clusterIP: None, selector: {app: head}, ports: [{name: a, port: "
                   "80, targetPort: 8080}, {name: b, port: 443, nodePort: 0}]}, status: {}}");

    assert_string_equal(admit(&a, kind("", "Service"), v, NULL), "");
    assert_string_equal(
        t_json(&a, v),
        "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{\"name\":\"head\",\"namespace\":"
        "\"n\"},\"spec\":{\"clusterIP\":\"None\",\"clusterIPs\":[\"None\"],"
        "\"internalTrafficPolicy\":\"Cluster\",\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":"
        "\"SingleStack\",\"ports\":[{\"name\":\"a\",\"port\":80,\"protocol\":\"TCP\","
        "\"targetPort\":8080},{\"name\":\"b\",\"port\":443,\"protocol\":\"TCP\",\"targetPort\":443}"
        "]"
        ",\"selector\":{\"app\":\"head\"},\"sessionAffinity\":\"None\",\"type\":\"ClusterIP\"},"
        "\"status\":{\"loadBalancer\":{}}}");
    v = t_yaml(&a, "{metadata: {name: ext, namespace: n}, spec: {type: ExternalName, externalName: "
                   "db.example.com, selector: {app: ext}}}");
    assert_string_equal(admit(&a, kind("", "Service"), v, NULL), "");
    assert_string_equal(t_json(&a, v),
                        "{\"metadata\":{\"name\":\"ext\",\"namespace\":\"n\"},\"spec\":{"
                        "\"externalName\":\"db.example.com\",\"selector\":{\"app\":\"ext\"},"
                        "\"sessionAffinity\":\"None\",\"type\":\"ExternalName\"},\"status\":{"
                        "\"loadBalancer\":{}}}");
}

#define SUBDOMAIN                                                                                  \
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "   \
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "  \
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
#define NAME_PART                                                                                  \
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "  \
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for " \
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"

static void refusals_of_other_kinds(void **state)
{
    static const struct {
        const char *group;
        const char *kind;
        const char *obj;
        const char *errs;
    } cases[] = {
        {"", "ConfigMap", "{metadata: {name: Bad_Name, namespace: n}}",
         "metadata.name: Invalid value: \"Bad_Name\": " SUBDOMAIN},
        {"", "Namespace", "{metadata: {name: a.b}}",
         "metadata.name: Invalid value: \"a.b\": must not contain dots"},
        {"rbac.authorization.k8s.io", "Role", "{metadata: {name: a/b, namespace: n}, rules: []}",
         "metadata.name: Invalid value: \"a/b\": may not contain '/'"},
        {"rbac.authorization.k8s.io", "Role", "{metadata: {name: 'a:b_C', namespace: n}}", ""},
        {"", "ConfigMap", "{metadata: {name: c, namespace: n, labels: {bad key: x}}}",
         "metadata.labels: Invalid value: \"bad key\": " NAME_PART},
        {"", "ConfigMap", "{metadata: {name: c, namespace: n, annotations: {bad key: x}}}",
         "metadata.annotations: Invalid value: \"bad key\": " NAME_PART},
        {"", "ConfigMap", "{metadata: {name: c, namespace: n, finalizers: [plain]}}",
         "metadata.finalizers[0]: Invalid value: \"plain\": name is neither a standard finalizer "
         "name nor is it fully qualified"},
        {"", "ConfigMap", "{metadata: {name: c, namespace: n}, data: {a: 5}}",
         "json: cannot unmarshal number into Go struct field data.a of type string"},
        {"", "Secret", "{metadata: {name: c, namespace: n}, data: {a: '***'}}",
         "illegal base64 data"},
        {"", "Secret", "{metadata: {name: bad, namespace: n}, data: {a b: YQ==, ..: YQ==}}",
         "data[..]: Invalid value: \"..\": must not be '..'\ndata[a b]: Invalid value: \"a b\": a "
         "valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
         "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
         "'[-._a-zA-Z0-9]+')"},
        {"", "Secret",
         "{metadata: {name: t, namespace: n}, type: kubernetes.io/tls, data: {tls.crt: YQ==}}",
         "data[tls.key]: Required value"},
        {"coordination.k8s.io", "Lease",
         "{metadata: {name: b, namespace: n}, spec: {leaseDurationSeconds: 0, leaseTransitions: "
         "-1}}",
         "spec.leaseDurationSeconds: Invalid value: 0: must be greater than "
         "0\nspec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"},
        {"discovery.k8s.io", "EndpointSlice",
         "{metadata: {name: b, namespace: n}, addressType: IPv4, endpoints: [{addresses: "
         "['2001:db8::1']}, {addresses: []}]}",
         "endpoints[0].addresses: Invalid value: \"2001:db8::1\": must be an IPv4 "
         "address\nendpoints[1].addresses: Required value: must contain at least 1 address"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(
            admit(&a, kind(cases[i].group, cases[i].kind), t_yaml(&a, cases[i].obj), NULL),
            cases[i].errs);
    }
}

static void frozen_and_immutable(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *old = t_yaml(&a, "{metadata: {name: s, namespace: n}, type: Opaque, data: {a: "
                                     "YQ==}, immutable: true}");

    assert_string_equal(admit(&a, kind("", "Secret"),
                              t_yaml(&a, "{metadata: {name: s, namespace: n}, type: x, data: {a: "
                                         "YQ==}, stringData: {d: E}, immutable: true}"),
                              old),
                        "data: Forbidden: field is immutable when `immutable` is set\ntype: "
                        "Invalid value: \"x\": field is immutable");
    assert_string_equal(admit(&a, kind("", "Secret"),
                              t_yaml(&a, "{metadata: {name: s, namespace: n}, data: {a: YQ==}, "
                                         "immutable: false}"),
                              old),
                        "immutable: Forbidden: field is immutable when `immutable` is set");
}

static void decoding_normalizes(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_texts unknown = {.arena = &a};
    struct sw_json *v = t_yaml(
        &a,
        "{apiVersion: v1, kind: Lease, metadata: {name: l, creationTimestamp: null, labels: {}, "
        "bogus: 1}, spec: {renewTime: '2020-01-02T03:04:06Z', leaseTransitions: 0, x: {y: 1}}, "
        "nothing: 1}");
    const char *why;

    assert_int_equal(sw_builtin_decode(&a, sw_builtin_schema("Lease"), v, &unknown, &why), SW_OK);
    assert_string_equal(t_json(&a, v), "{\"apiVersion\":\"v1\",\"kind\":\"Lease\",\"metadata\":{"
                                       "\"name\":\"l\"},\"spec\":{\"leaseTransitions\":0,"
                                       "\"renewTime\":\"2020-01-02T03:04:06.000000Z\"}}");
    assert_int_equal(unknown.n, 3);
    assert_string_equal(unknown.p[0], "metadata.bogus");
    assert_string_equal(unknown.p[1], "spec.x");
    assert_string_equal(unknown.p[2], "nothing");
    v = t_yaml(&a, "{metadata: {name: ns}}");
    sw_builtin_default(&a, kind("", "Namespace"), v);
    sw_builtin_admit_new(&a, kind("", "Namespace"), v);
    assert_string_equal(t_json(&a, v),
                        "{\"metadata\":{\"labels\":{\"kubernetes.io/metadata.name\":\"ns\"},"
                        "\"name\":\"ns\"},\"spec\":{\"finalizers\":[\"kubernetes\"]},\"status\":{"
                        "\"phase\":\"Active\"}}");
}

/* The recorded sequence on Service ports. */
static void strategic_merge(void **state)
{
    static const struct {
        const char *patch;
        const char *ports; /* name:port->targetPort, then the selector */
    } steps[] = {
        {"{ports: [{port: 2, targetPort: 22}]}",
         "one:1 two:2/22 three:3 {\"a\":\"b\",\"c\":\"d\"}"},
        {"{ports: [{name: four, port: 4}]}", "four:4 one:1 two:2/22 three:3 {\"a\":\"b\",\"c\":"
                                             "\"d\"}"},
        {"{ports: [{$patch: delete, port: 1}]}",
         "four:4 two:2/22 three:3 {\"a\":\"b\",\"c\":\"d\"}"},
        {"{$setElementOrder/ports: [{port: 4}, {port: 3}, {port: 2}], ports: [{port: 3, "
         "targetPort: "
         "33}]}",
         "four:4 three:3/33 two:2/22 {\"a\":\"b\",\"c\":\"d\"}"},
        {"{selector: {a: null, e: f}}", "four:4 three:3/33 two:2/22 {\"c\":\"d\",\"e\":\"f\"}"},
        {"{selector: {$patch: replace, only: this}}",
         "four:4 three:3/33 two:2/22 {\"only\":\"this\"}"},
        {"{$retainKeys: [clusterIP, ports, selector, type], ports: [{port: 4, targetPort: 44}]}",
         "four:4/44 three:3/33 two:2/22 {\"only\":\"this\"}"},
        {"{ports: [{$patch: replace}, {name: fresh, port: 9}]}", "fresh:9 {\"only\":\"this\"}"},
        {"{selector: {$patch: delete}}", "fresh:9 {}"},
    };
    SW_ARENA_AUTO a = {0};
    const struct sw_schema *s = sw_builtin_schema("Service");
    struct sw_json *v =
        t_yaml(&a, "{spec: {clusterIP: None, selector: {a: b, c: d}, ports: [{name: one, port: 1}, "
                   "{name: two, port: 2}, {name: three, port: 3}]}}");
    const char *why = NULL;

    for (size_t i = 0; i < SW_ARRAY_LEN(steps); i++) {
        struct sw_json *patch = t_yaml(&a, sw_arena_printf(&a, "{spec: %s}", steps[i].patch));
        const struct sw_json *ports;
        const char *out = "";

        assert_int_equal(sw_strategic_patch(&a, s, v, patch, &v, &why), SW_OK);
        ports = sw_json_walk(v, "spec", "ports", NULL);
        for (size_t k = 0; k < sw_json_len(ports); k++) {
            const struct sw_json *p = sw_json_at(ports, k);
            const struct sw_json *t = sw_json_find(p, "targetPort");

            out = sw_arena_printf(&a, "%s%.*s:%.*s%s%.*s ", out,
                                  SW_SLICE_ARG(sw_json_str(sw_json_find(p, "name"))),
                                  SW_SLICE_ARG(sw_json_find(p, "port")->text), t ? "/" : "",
                                  t ? (int)t->text.n : 0, t ? t->text.p : "");
        }
        out =
            sw_arena_printf(&a, "%s%s", out, t_json(&a, sw_json_walk(v, "spec", "selector", NULL)));
        assert_string_equal(out, steps[i].ports);
    }
    assert_int_equal(
        sw_strategic_patch(&a, s, v, t_yaml(&a, "{spec: {ports: [{name: nokey}]}}"), &v, &why),
        SW_EINVAL);
    assert_non_null(strstr(why, "does not contain declared merge key: port"));
    assert_int_equal(sw_strategic_patch(&a, s, v,
                                        t_yaml(&a, "{spec: {ports: [{$patch: bogus, port: 9}]}}"),
                                        &v, &why),
                     SW_EINVAL);
    assert_non_null(strstr(why, "unknown patch type: bogus in map: "));
    assert_int_equal(
        sw_strategic_patch(&a, sw_builtin_schema("ConfigMap"),
                           t_yaml(&a, "{metadata: {finalizers: [a/b, c/d]}}"),
                           t_yaml(&a, "{metadata: {$deleteFromPrimitiveList/finalizers:"
                                      " [a/b], finalizers: [e/f, c/d]}}"),
                           &v, &why),
        SW_OK);
    assert_string_equal(t_json(&a, v), "{\"metadata\":{\"finalizers\":[\"e/f\",\"c/d\"]}}");
}

static void strategic_merge_keeps_the_order_of_lists(void **state)
{
    static const struct {
        const char *live;
        const char *patch;
        const char *out; /* of finalizers; NULL: refused */
    } cases[] = {
        {"[c, a, b]", "finalizers: [b, a]", "[\"c\",\"b\",\"a\"]"},
        {"[c, a, b]", "finalizers: [a, b]", "[\"c\",\"a\",\"b\"]"},
        {"[c, a, b]", "finalizers: [d]", "[\"d\",\"c\",\"a\",\"b\"]"},
        {"[c, a, b]", "$setElementOrder/finalizers: [b, c]", "[\"a\",\"b\",\"c\"]"},
        {"[c, a, b]", "$setElementOrder/finalizers: []", "[\"c\",\"a\",\"b\"]"},
        {"[c, a, b]", "$setElementOrder/finalizers: [], finalizers: [d]",
         "[\"c\",\"a\",\"b\",\"d\"]"},
        {"[c, a]", "$setElementOrder/finalizers: [n, c], finalizers: [n]", "[\"n\",\"c\",\"a\"]"},
        {"[c, a]", "$setElementOrder/finalizers: [c], finalizers: [n]", NULL},
        {"[c, a]", "$setElementOrder/finalizers: no", NULL},
        {"[c, a]", "finalizers: [{x: y}]", NULL},
    };
    SW_ARENA_AUTO a = {0};
    struct sw_json *v = NULL;
    const char *why = NULL;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        const struct sw_json *live =
            t_yaml(&a, sw_arena_printf(&a, "{metadata: {finalizers: %s}}", cases[i].live));
        const struct sw_json *patch =
            t_yaml(&a, sw_arena_printf(&a, "{metadata: {%s}}", cases[i].patch));
        int rc = sw_strategic_patch(&a, sw_builtin_schema("ConfigMap"), live, patch, &v, &why);

        assert_int_equal(rc, cases[i].out ? SW_OK : SW_EINVAL);
        if (cases[i].out)
            assert_string_equal(t_json(&a, sw_json_walk(v, "metadata", "finalizers", NULL)),
                                cases[i].out);
    }
    /* Two ports of one number differ in their protocol: neither is lost. */
    assert_int_equal(
        sw_strategic_patch(&a, sw_builtin_schema("Service"),
                           t_yaml(&a, "{spec: {ports: [{port: 53, protocol: TCP}, {port: 53, "
                                      "protocol: UDP}, {port: 80}]}}"),
                           t_yaml(&a, "{spec: {$setElementOrder/ports: [{port: 80}, {port: 53}]}}"),
                           &v, &why),
        SW_OK);
    assert_int_equal(sw_json_len(sw_json_walk(v, "spec", "ports", NULL)), 3);
    assert_int_equal(sw_strategic_patch(&a, sw_builtin_schema("ConfigMap"),
                                        t_yaml(&a, "{data: {a: b}}"),
                                        t_yaml(&a, "{data: {$retainKeys: [a], b: c}}"), &v, &why),
                     SW_EPROTO);
}

static void tables(void **state)
{
    SW_ARENA_AUTO a = {0};
    static const struct {
        const char *group;
        const char *kind;
        const char *obj;
        const char *cells;
    } cases[] = {
        {"", "ConfigMap",
         "{metadata: {name: c, creationTimestamp: '1970-01-01T00:00:10Z'}, data: "
         "{a: b}}",
         "[\"c\",1,\"90s\"]"},
        {"", "Service",
         "{metadata: {name: s, creationTimestamp: '1970-01-01T00:00:00Z'}, spec: {type: ClusterIP, "
         "clusterIP: None, selector: {b: c, a: b}, ports: [{port: 80, protocol: TCP}, {port: 443, "
         "protocol: TCP}]}}",
         "[\"s\",\"ClusterIP\",\"None\",\"<none>\",\"80/TCP,443/TCP\",\"100s\",\"a=b,b=c\"]"},
        {"", "Service", "{metadata: {name: e}, spec: {type: ExternalName, externalName: x.y}}",
         "[\"e\",\"ExternalName\",\"<none>\",\"x.y\",\"<none>\",\"<unknown>\",\"<none>\"]"},
        {"discovery.k8s.io", "EndpointSlice",
         "{metadata: {name: e, creationTimestamp: '1970-01-01T00:00:00Z'}, addressType: IPv4, "
         "ports: [{port: 80}, {port: 81}], endpoints: [{addresses: [192.0.2.1, 192.0.2.2]}, "
         "{addresses: [192.0.2.3, 192.0.2.4]}]}",
         "[\"e\",\"IPv4\",\"80,81\",\"192.0.2.1,192.0.2.2,192.0.2.3 + 1 more...\",\"100s\"]"},
        {"", "Event",
         "{metadata: {name: x}, involvedObject: {kind: Pod, name: p}, reason: R, message: m, type: "
         "Normal, lastTimestamp: '1970-01-01T00:01:00Z', source: {component: c}}",
         "[\"40s\",\"Normal\",\"R\",\"pod/p\",\"\",\"c\",\"m\",\"<unknown>\",1,\"x\"]"},
    };
    const struct sw_json *columns = t_yaml(
        &a, "[{name: Size, type: integer, jsonPath: .spec.size}, {name: Ready, type: string, "
            "jsonPath: '.status.conditions[?(@.type==\"Ready\")].status'}, {name: Hosts, "
            "type: string, jsonPath: .spec.hosts}, {name: First, type: string, jsonPath: "
            "'.spec.hosts[0]'}, {name: On, type: boolean, jsonPath: .spec.on}, {name: Age, "
            "type: date, jsonPath: .metadata.creationTimestamp}]");

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_string_equal(t_json(&a, sw_table_cells(&a, kind(cases[i].group, cases[i].kind), NULL,
                                                      t_yaml(&a, cases[i].obj), 100)),
                            cases[i].cells);
    assert_string_equal(
        t_json(&a, sw_table_cells(&a, NULL, columns,
                                  t_yaml(&a, "{metadata: {name: b, creationTimestamp: "
                                             "'1970-01-01T00:00:00Z'}, spec: {size: 20, on: true, "
                                             "hosts: [one, two]}, status: {conditions: [{type: "
                                             "Other, status: 'False'}, {type: Ready, status: "
                                             "'True'}]}}"),
                                  100)),
        "[\"b\",20,\"True\",\"[\\\"one\\\",\\\"two\\\"]\",\"one\",true,\"100s\"]");
    assert_string_equal(
        t_json(&a, sw_table_cells(&a, NULL, columns, t_yaml(&a, "{metadata: {name: a}}"), 100)),
        "[\"a\",null,null,null,null,null,null]");
    assert_int_equal(sw_json_len(sw_table_columns(&a, NULL, columns)), 7);
}

static void ages(void **state)
{
    static const struct {
        int64_t s;
        const char *text;
    } cases[] = {{0, "0s"},         {119, "119s"},  {120, "2m"},      {125, "2m5s"},
                 {599, "9m59s"},    {600, "10m"},   {10799, "179m"},  {10800, "3h"},
                 {10860, "3h1m"},   {28800, "8h"},  {172799, "47h"},  {172800, "2d"},
                 {176400, "2d1h"},  {691200, "8d"}, {63072000, "2y"}, {63158400, "2y1d"},
                 {252288000, "8y"}, {-1, "0s"},     {-5, "<invalid>"}};
    SW_ARENA_AUTO a = {0};

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++)
        assert_string_equal(sw_human_duration(&a, cases[i].s), cases[i].text);
}

/* ---- protobuf ---- */

struct enc {
    unsigned char p[1024];
    size_t n;
};

static void varint(struct enc *e, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        e->p[e->n++] = (unsigned char)(v | 0x80);
    e->p[e->n++] = (unsigned char)v;
}

static void bytes(struct enc *e, unsigned number, const void *p, size_t n)
{
    varint(e, number << 3 | 2);
    varint(e, n);
    memcpy(e->p + e->n, p, n);
    e->n += n;
}

static void text(struct enc *e, unsigned number, const char *s)
{
    bytes(e, number, s, strlen(s));
}

static void number(struct enc *e, unsigned field, uint64_t v)
{
    varint(e, field << 3);
    varint(e, v);
}

static void sub(struct enc *e, unsigned field, const struct enc *x)
{
    bytes(e, field, x->p, x->n);
}

static const char *decode(struct sw_arena *a, const char *api, const char *name,
                          const struct enc *raw)
{
    struct enc e = {.p = "k8s", .n = 4};
    struct enc type = {.n = 0};
    struct sw_err err = {0};
    struct sw_json *v;

    text(&type, 1, api);
    text(&type, 2, name);
    sub(&e, 1, &type);
    sub(&e, 2, raw);
    text(&e, 3, "");
    text(&e, 4, "");
    if (sw_pb_decode(a, sw_slice(e.p, e.n), &v, &err) < 0)
        return sw_arena_dup(a, sw_slice_str(err.msg));
    return t_json(a, v);
}

static void protobuf_bodies(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct enc meta = {.n = 0}, entry = {.n = 0}, obj = {.n = 0}, label = {.n = 0},
               empty = {.n = 0};
    struct enc port = {.n = 0}, target = {.n = 0}, spec = {.n = 0}, time = {.n = 0};

    text(&meta, 1, "s");
    text(&meta, 2, "");
    text(&meta, 3, "ns");
    number(&meta, 7, 0);
    sub(&meta, 8, &empty);
    text(&label, 1, "app");
    text(&label, 2, "x");
    sub(&meta, 11, &label);
    sub(&obj, 1, &meta);
    text(&entry, 1, "user");
    text(&entry, 2, "admin");
    sub(&obj, 2, &entry);
    text(&obj, 3, "Opaque");
    assert_string_equal(decode(&a, "v1", "Secret", &obj),
                        "{\"apiVersion\":\"v1\",\"data\":{\"user\":\"YWRtaW4=\"},\"kind\":"
                        "\"Secret\",\"metadata\":{\"labels\":{\"app\":\"x\"},\"name\":\"s\","
                        "\"namespace\":\"ns\"},\"type\":\"Opaque\"}");

    obj.n = 0;
    number(&target, 1, 0);
    number(&target, 2, 8080);
    text(&port, 1, "");
    text(&port, 2, "TCP");
    number(&port, 3, 80);
    sub(&port, 4, &target);
    number(&port, 5, 0);
    sub(&spec, 1, &port);
    text(&spec, 3, "None");
    number(&spec, 13, 0);
    sub(&obj, 2, &spec);
    assert_string_equal(
        decode(&a, "v1", "Service", &obj),
        "{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"spec\":{\"clusterIP\":"
        "\"None\",\"ports\":[{\"port\":80,\"protocol\":\"TCP\",\"targetPort\":8080}]"
        "}}");

    obj.n = 0;
    spec.n = 0;
    text(&spec, 1, "me");
    number(&spec, 5, 0);
    number(&time, 1, 1577934246);
    number(&time, 2, 123456000);
    sub(&spec, 4, &time);
    sub(&obj, 2, &spec);
    assert_string_equal(decode(&a, "coordination.k8s.io/v1", "Lease", &obj),
                        "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\",\"spec\":{"
                        "\"holderIdentity\":\"me\",\"leaseTransitions\":0,\"renewTime\":"
                        "\"2020-01-02T03:04:06.123456Z\"}}");
    assert_string_equal(decode(&a, "v1", "Unheard", &obj), "no protobuf form of kind 'Unheard'");
    obj.n = 0;
    number(&obj, 1, 5);
    assert_string_equal(decode(&a, "v1", "Secret", &obj),
                        "malformed protobuf: unexpected wire type");
}

static void json_paths(void **state)
{
    static const struct {
        const char *path;
        const char *first; /* NULL: no result; "!" invalid */
    } cases[] = {
        {".a.b", "1"},
        {"{.a.b}", "1"},
        {"a.b", "1"},
        {"['a']['b']", "1"},
        {".l[0]", "\"x\""},
        {".l[-1]", "\"y\""},
        {".l[5]", NULL},
        {".l[*]", "\"x\""},
        {".c[?(@.t==\"R\")].s", "2"},
        {".c[?(@.s==2)].t", "\"R\""},
        {".none.more", NULL},
        {"['a.b']", "7"},
        {".a\\.b", "7"},
        {".a\\.b\\.c", NULL},
        {".a\\", "!"},
        {".a b", "!"},
        {".a..b", "!"},
        {".a[", "!"},
        {".c[?(@.t!=\"R\")].s", "1"},
    };
    SW_ARENA_AUTO a = {0};
    const struct sw_json *v = t_yaml(&a, "{a: {b: 1}, l: [x, y], c: [{t: O, s: 1}, {t: R, s: 2}], "
                                         "a.b: 7}");

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_jsonpath_results r = {0};
        int rc = sw_jsonpath(&a, sw_slice_str(cases[i].path), v, &r);

        if (cases[i].first && cases[i].first[0] == '!') {
            assert_int_equal(rc, SW_EINVAL);
            continue;
        }
        assert_int_equal(rc, SW_OK);
        if (cases[i].first)
            assert_string_equal(t_json(&a, r.n ? r.p[0] : NULL), cases[i].first);
        else
            assert_int_equal(r.n, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_services),
        cmocka_unit_test(services_as_stored),
        cmocka_unit_test(refusals_of_other_kinds),
        cmocka_unit_test(frozen_and_immutable),
        cmocka_unit_test(decoding_normalizes),
        cmocka_unit_test(strategic_merge),
        cmocka_unit_test(strategic_merge_keeps_the_order_of_lists),
        cmocka_unit_test(tables),
        cmocka_unit_test(ages),
        cmocka_unit_test(protobuf_bodies),
        cmocka_unit_test(json_paths),
    };

    return cmocka_run_group_tests_name("kube_builtin", tests, NULL, NULL);
}
