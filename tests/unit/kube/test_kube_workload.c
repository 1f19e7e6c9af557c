/* SPDX-License-Identifier: Apache-2.0 */
/* Deployment, ReplicaSet, DaemonSet: what is filled in, what is refused and how. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "helper.h"
#include "kube/builtin/builtin.h"
#include "kube/builtin/protobuf.h"

#define POD                                                                                        \
    "template: {metadata: {labels: {app: a}}, spec: {containers: [{name: c, image: 'i:1'}]}}"
#define GOOD "selector: {matchLabels: {app: a}}, " POD

static const struct sw_builtin *kind(const char *name)
{
    const struct sw_builtin *b = sw_builtin_kind(SW_SLICE_LIT("apps"), sw_slice_str(name));

    assert_non_null(b);
    return b;
}

static struct sw_json *object(struct sw_arena *a, const char *spec)
{
    return t_yaml(a, sw_arena_printf(a, "{metadata: {name: w, namespace: n}, spec: {%s}}", spec));
}

static const char *admit(struct sw_arena *a, const char *name, struct sw_json *obj,
                         const struct sw_json *old)
{
    return t_admit_kind(a, kind(name), obj, old);
}

static const struct {
    const char *kind;
    const char *spec;
    const char *errs; /* how it begins; "" = none at all */
} cases[] = {
    {"Deployment", GOOD, ""},
    {"ReplicaSet", GOOD, ""},
    {"DaemonSet", GOOD, ""},
    {"Deployment", "replicas: 0, strategy: {type: Recreate}, " GOOD, ""},
    {"Deployment", "selector: {matchExpressions: [{key: app, operator: In, values: [a, b]}]}, " POD,
     ""},
    {"Deployment", POD, "spec.selector: Required value"},
    {"Deployment", "selector: {}, " POD, "spec.selector: Invalid value"},
    {"DaemonSet", "selector: {matchLabels: {app: b}}, " POD,
     "spec.template.metadata.labels: Invalid value"},
    {"Deployment", "selector: {matchExpressions: [{key: app, operator: Near}]}, " POD,
     "spec.selector: Invalid value"},
    {"Deployment", "replicas: -1, " GOOD, "spec.replicas: Invalid value: -1"},
    {"ReplicaSet", "selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}}",
     "spec.template.spec.containers: Required value"},
    {"ReplicaSet",
     "selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: "
     "{restartPolicy: Never, containers: [{name: c, image: i}]}}",
     "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: "
     "\"Always\""},
    {"Deployment", "strategy: {type: Twice}, " GOOD,
     "spec.strategy.type: Unsupported value: \"Twice\""},
    {"DaemonSet", "updateStrategy: {type: Recreate}, " GOOD,
     "spec.updateStrategy.type: Unsupported value: \"Recreate\""},
    {"Deployment", "replicas: many, " GOOD, "json: cannot unmarshal string"},
};

static void rules(void **state)
{
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        const char *errs = admit(&a, cases[i].kind, object(&a, cases[i].spec), NULL);
        size_t n = strlen(cases[i].errs);

        if (n == 0 || strncmp(errs, cases[i].errs, n) != 0)
            assert_string_equal(errs, cases[i].errs);
    }
}

static void defaults(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *d = object(&a, GOOD);
    struct sw_json *s = object(&a, GOOD);
    struct sw_json *spec;

    sw_json_put(&a, d, "status", t_yaml(&a, "{replicas: 7}"));
    assert_string_equal(admit(&a, "Deployment", d, NULL), "");
    assert_string_equal(t_json(&a, sw_json_find(d, "status")), "{}");
    spec = sw_json_find(d, "spec");
    assert_string_equal(t_json(&a, sw_json_find(spec, "strategy")),
                        "{\"rollingUpdate\":{\"maxSurge\":\"25%\",\"maxUnavailable\":\"25%\"},"
                        "\"type\":\"RollingUpdate\"}");
    assert_string_equal(t_json(&a, sw_json_find(spec, "replicas")), "1");
    assert_string_equal(t_json(&a, sw_json_find(spec, "revisionHistoryLimit")), "10");
    assert_string_equal(t_json(&a, sw_json_find(spec, "progressDeadlineSeconds")), "600");
    spec = sw_json_walk(spec, "template", "spec", NULL);
    assert_string_equal(t_json(&a, sw_json_find(spec, "dnsPolicy")), "\"ClusterFirst\"");
    assert_string_equal(t_json(&a, sw_json_find(sw_json_at(sw_json_find(spec, "containers"), 0),
                                                "imagePullPolicy")),
                        "\"IfNotPresent\"");
    assert_string_equal(admit(&a, "DaemonSet", s, NULL), "");
    assert_string_equal(t_json(&a, sw_json_walk(s, "spec", "updateStrategy", NULL)),
                        "{\"rollingUpdate\":{\"maxSurge\":0,\"maxUnavailable\":1},\"type\":"
                        "\"RollingUpdate\"}");
    assert_null(sw_json_walk(s, "spec", "replicas", NULL));
}

/* Who selects what may not change; a spec that stays is not judged again. */
static void changes(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *old = object(&a, GOOD);
    struct sw_json *other =
        object(&a, "selector: {matchLabels: {app: a, tier: x}}, template: {metadata: {labels: "
                   "{app: a, tier: x}}, spec: {containers: [{name: c, image: 'i:1'}]}}");
    struct sw_json *more = object(&a, "replicas: 3, " GOOD);
    const char *errs;

    assert_string_equal(admit(&a, "Deployment", old, NULL), "");
    assert_string_equal(admit(&a, "Deployment", more, old), "");
    errs = admit(&a, "Deployment", other, old);
    assert_non_null(strstr(errs, "spec.selector: Invalid value"));
    assert_non_null(strstr(errs, "field is immutable"));
    (void)sw_json_remove(sw_json_find(old, "spec"), SW_SLICE_LIT("selector"));
    assert_string_equal(admit(&a, "Deployment", sw_json_copy(&a, old), old), "");
}

/* Typed clients send protobuf: messages JSON does not show (volume, handler, reference),
 * quantities. */
static void templates_in_protobuf(void **state)
{
    static const char body[] = "k8s\0"
                               "\x0a\x15\x0a\x07"
                               "apps/v1\x12\x0a"
                               "Deployment\x12M\x12K\x08\x00\x1aG\x12"
                               "E\x0a\x0f\x0a\x01v\x12\x0a\x9a\x01\x07\x0a\x03\x0a\x01m \x01"
                               "\x12.\x0a\x01"
                               "c\x12\x01iB\x13\x0a\x0a\x0a\x03"
                               "cpu\x12\x03\x0a\x01"
                               "1\x0a\x05\x0a\x01x\x12\x00R\x11\x0a\x0d\x12\x0b\x0a\x03/ok"
                               "\x12\x04\x08\x00\x10P\x18\x05r\x02\x10\x00";
    static const char cut[] = "k8s\0"
                              "\x0a\x0c\x0a\x02v1\x12\x03Pod\x1a\x01x"
                              "\x12\x08\x12\x06\x0a\x04\x10\x07\x08\x00";
    SW_ARENA_AUTO a = {0};
    struct sw_err err = {0};
    struct sw_json *v = NULL;

    assert_int_equal(sw_pb_decode(&a, sw_slice(body, sizeof(body) - 1), &v, &err), SW_OK);
    assert_string_equal(
        t_json(&a, sw_json_find(v, "spec")),
        "{\"replicas\":0,\"template\":{\"spec\":{\"containers\":[{\"image\":\"i\","
        "\"livenessProbe\":"
        "{\"httpGet\":{\"path\":\"/ok\",\"port\":80},\"timeoutSeconds\":5},\"name\":\"c\","
        "\"resources\":{\"limits\":{\"cpu\":\"1\",\"x\":\"0\"}}}],\"securityContext\":"
        "{\"runAsUser\":0},\"volumes\":[{\"configMap\":{\"name\":\"m\",\"optional\":true},"
        "\"name\":\"v\"}]}}}");
    /* A volume's source is a message; here it is a number. */
    assert_int_equal(sw_pb_decode(&a, sw_slice(cut, sizeof(cut) - 1), &v, &err), SW_EINVAL);
    assert_string_equal(err.msg, "malformed protobuf: unexpected wire type");
}

/* A kind without a type in the table would be found by the first reader of the API's description.
 */
static void every_kind_has_a_type(void **state)
{
    size_t n;
    const struct sw_builtin *b = sw_builtins(&n);

    for (size_t i = 0; i < n; i++)
        assert_non_null(sw_builtin_schema(b[i].type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules),
        cmocka_unit_test(defaults),
        cmocka_unit_test(changes),
        cmocka_unit_test(templates_in_protobuf),
        cmocka_unit_test(every_kind_has_a_type),
    };

    return cmocka_run_group_tests_name("kube workloads", tests, NULL, NULL);
}
