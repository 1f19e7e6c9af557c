/* SPDX-License-Identifier: Apache-2.0 */
/* Services from what a client sends to what is stored; Endpoints, Pods and the other small kinds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kube/schema/go_json.h"
#include "service_admit.h"

static bool everything_taken(void *arg, struct sw_slice ip)
{
    return true;
}

static struct sw_json *service(struct sw_arena *a, const char *spec)
{
    return t_yaml(a, sw_arena_printf(a, "{metadata: {name: s, namespace: n}, spec: {%s}}", spec));
}

static void new_services(void **state)
{
    static const struct {
        const char *spec;
        const char *stored;
    } cases[] = {
        {"ports: [{port: 80}]",
         "{\"clusterIP\":\"10.96.1.0\",\"clusterIPs\":[\"10.96.1.0\"],\"internalTrafficPolicy\":"
         "\"Cluster\",\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":\"SingleStack\",\"ports\":[{"
         "\"port\":80,\"protocol\":\"TCP\",\"targetPort\":80}],\"sessionAffinity\":\"None\","
         "\"type\":\"ClusterIP\"}"},
        {"type: NodePort, sessionAffinity: ClientIP, ports: [{name: t, port: 53}, {name: u, port: "
         "53, protocol: UDP}, {name: x, port: 80}]",
         "{\"clusterIP\":\"10.96.1.0\",\"clusterIPs\":[\"10.96.1.0\"],\"externalTrafficPolicy\":"
         "\"Cluster\",\"internalTrafficPolicy\":\"Cluster\",\"ipFamilies\":[\"IPv4\"],"
         "\"ipFamilyPolicy\":\"SingleStack\",\"ports\":[{\"name\":\"t\",\"nodePort\":30000,"
         "\"port\":53,\"protocol\":\"TCP\",\"targetPort\":53},{\"name\":\"u\",\"nodePort\":30000,"
         "\"port\":53,\"protocol\":\"UDP\",\"targetPort\":53},{\"name\":\"x\",\"nodePort\":30001,"
         "\"port\":80,\"protocol\":\"TCP\",\"targetPort\":80}],\"sessionAffinity\":\"ClientIP\","
         "\"sessionAffinityConfig\":{\"clientIP\":{\"timeoutSeconds\":10800}},\"type\":"
         "\"NodePort\"}"},
        {"type: LoadBalancer, externalTrafficPolicy: Local, allocateLoadBalancerNodePorts: false, "
         "ports: [{port: 80}]",
         "{\"allocateLoadBalancerNodePorts\":false,\"clusterIP\":\"10.96.1.0\",\"clusterIPs\":["
         "\"10.96.1.0\"],\"externalTrafficPolicy\":\"Local\",\"healthCheckNodePort\":30000,"
         "\"internalTrafficPolicy\":\"Cluster\",\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":"
         "\"SingleStack\",\"ports\":[{\"port\":80,\"protocol\":\"TCP\",\"targetPort\":80}],"
         "\"sessionAffinity\":\"None\",\"type\":\"LoadBalancer\"}"},
        {"clusterIP: None",
         "{\"clusterIP\":\"None\",\"clusterIPs\":[\"None\"],\"internalTrafficPolicy\":\"Cluster\","
         "\"ipFamilies\":[\"IPv4\",\"IPv6\"],\"ipFamilyPolicy\":\"RequireDualStack\","
         "\"sessionAffinity\":\"None\",\"type\":\"ClusterIP\"}"},
        {"ipFamilyPolicy: PreferDualStack, clusterIP: 10.97.3.4, externalIPs: [192.0.2.1], ports: "
         "[{port: 80}]",
         "{\"clusterIP\":\"10.97.3.4\",\"clusterIPs\":[\"10.97.3.4\"],\"externalIPs\":["
         "\"192.0.2.1\"],\"externalTrafficPolicy\":\"Cluster\",\"internalTrafficPolicy\":"
         "\"Cluster\",\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":\"PreferDualStack\",\"ports\":[{"
         "\"port\":80,\"protocol\":\"TCP\",\"targetPort\":80}],\"sessionAffinity\":\"None\","
         "\"type\":\"ClusterIP\"}"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *svc = service(&a, cases[i].spec);

        assert_string_equal(admit(&a, kind("", "Service"), svc, NULL), "");
        assert_string_equal(t_json(&a, sw_json_find(svc, "spec")), cases[i].stored);
    }
}

static void refused_services(void **state)
{
    static const struct {
        const char *spec;
        const char *errs;
    } cases[] = {
        {"clusterIP: 10.96.0.99, ports: [{port: 80}]",
         "spec.clusterIPs: Invalid value: []string{\"10.96.0.99\"}: failed to allocate IP "
         "10.96.0.99: provided IP is already allocated"},
        {"clusterIP: 192.0.2.7, ports: [{port: 80}]",
         "spec.clusterIPs: Invalid value: []string{\"192.0.2.7\"}: failed to allocate IP "
         "192.0.2.7: the provided network does not match the current range"},
        {"clusterIP: '2001:db8::1', ports: [{port: 80}]",
         "spec.clusterIPs[0]: Invalid value: []string{\"2001:db8::1\"}: IPv6 is not configured on "
         "this cluster"},
        {"clusterIPs: [None], ports: [{port: 80}]",
         "spec.clusterIPs: Invalid value: []string{\"None\"}: must be empty when `clusterIP` is "
         "not specified"},
        {"clusterIP: 10.96.0.1, clusterIPs: [10.96.0.2], ports: [{port: 80}]",
         "spec.clusterIPs: Invalid value: []string{\"10.96.0.2\"}: first value must match "
         "`clusterIP`"},
        {"clusterIP: None, clusterIPs: [None, 10.96.0.2]",
         "spec.clusterIPs: Invalid value: []string{\"None\", \"10.96.0.2\"}: 'None' must be the "
         "first and only value"},
        {"clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, 10.96.0.2], ports: [{port: 80}]",
         "spec.clusterIPs: Invalid value: []string{\"10.96.0.1\", \"10.96.0.2\"}: may specify no "
         "more than one IP for each IP family"},
        {"ipFamilyPolicy: RequireDualStack, ports: [{port: 80}]",
         "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured "
         "for dual-stack services"},
        {"ipFamilies: [IPv4, IPv6], ports: [{port: 80}]",
         "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or "
         "'PreferDualStack' when multiple IP families are specified"},
        {"type: NodePort, ports: [{port: 80, nodePort: 30099}]",
         "spec.ports[0].nodePort: Invalid value: 30099: provided port is already allocated"},
        {"type: NodePort, ports: [{port: 80, nodePort: 80}]",
         "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The "
         "range of valid ports is 30000-32767"},
        {"type: NodePort, ports: [{name: a, port: 80, nodePort: 30001}, {name: b, port: 81, "
         "nodePort: 30001}]",
         "spec.ports[1].nodePort: Invalid value: 30001: provided port is already allocated"},
        {"type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 80, ports: "
         "[{port: 80}]",
         "failed to allocate requested HealthCheck NodePort 80: provided port is not in the valid "
         "range. The range of valid ports is 30000-32767"},
        {"ports: [{port: 80, nodePort: 30000}]",
         "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"},
        {"type: LoadBalancer, clusterIP: None, ports: [{port: 80}]",
         "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer "
         "services"},
        {"type: LoadBalancer, ports: [{port: 10250}]",
         "spec.ports[0]: Invalid value: 10250: may not expose port 10250 externally since it is "
         "used by kubelet"},
        {"type: ExternalName, externalName: a.b, clusterIP: 10.96.0.1",
         "spec.clusterIPs: Forbidden: may not be set for ExternalName services"},
        {"externalTrafficPolicy: Local, ports: [{port: 80}]",
         "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for "
         "externally-accessible services"},
        {"internalTrafficPolicy: Foo, trafficDistribution: Bar, ports: [{port: 80}]",
         "spec.internalTrafficPolicy: Unsupported value: \"Foo\": supported values: \"Cluster\", "
         "\"Local\"\nspec.trafficDistribution: Unsupported value: \"Bar\": supported values: "
         "\"PreferClose\""},
        {"externalIPs: [127.0.0.1, '::', 169.254.0.1, nonsense], ports: [{port: 80}]",
         "spec.externalIPs[0]: Invalid value: \"127.0.0.1\": may not be in the loopback range "
         "(127.0.0.0/8, ::1/128)\nspec.externalIPs[1]: Invalid value: \"::\": may not be "
         "unspecified (::)\nspec.externalIPs[2]: Invalid value: \"169.254.0.1\": may not be in the "
         "link-local range (169.254.0.0/16, fe80::/10)\nspec.externalIPs[3]: Invalid value: "
         "\"nonsense\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"},
        {"sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 86401}}, "
         "ports: [{port: 80}]",
         "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be "
         "greater than 0 and less than 86400"},
        {"loadBalancerSourceRanges: [10.0.0.0/8, x], ports: [{port: 80}]",
         "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is "
         "'LoadBalancer'\nspec.LoadBalancerSourceRanges[1]: Invalid value: \"x\": must be a valid "
         "CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"},
        {"loadBalancerClass: x, allocateLoadBalancerNodePorts: false, healthCheckNodePort: 30001, "
         "ports: [{port: 80}]",
         "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is "
         "'LoadBalancer'\nspec.healthCheckNodePort: Invalid value: 30001: may only be set when "
         "`type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'\nspec.loadBalancerClass: "
         "Forbidden: may only be used when `type` is 'LoadBalancer'"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(admit(&a, kind("", "Service"), service(&a, cases[i].spec), NULL),
                            cases[i].errs);
    }
}

/* What a patch of the stored Service leaves, or why it is refused. */
static void changed_services(void **state)
{
    static const char stored_lb[] =
        "type: LoadBalancer, externalTrafficPolicy: Local, loadBalancerClass: a.b/c, ports: "
        "[{name: x, port: 80}]";
    static const struct {
        const char *old;
        const char *spec;
        const char *errs; /* or the spec that is stored */
    } cases[] = {
        /* What was given out stays when it is not mentioned. */
        {"type: NodePort, ports: [{name: x, port: 80}]",
         "type: NodePort, ports: [{name: y, port: 81}, {name: x, port: 82}]",
         "{\"clusterIP\":\"10.96.1.0\",\"clusterIPs\":[\"10.96.1.0\"],\"externalTrafficPolicy\":"
         "\"Cluster\",\"internalTrafficPolicy\":\"Cluster\",\"ipFamilies\":[\"IPv4\"],"
         "\"ipFamilyPolicy\":\"SingleStack\",\"ports\":[{\"name\":\"y\",\"nodePort\":30001,"
         "\"port\":81,\"protocol\":\"TCP\",\"targetPort\":81},{\"name\":\"x\",\"nodePort\":30000,"
         "\"port\":82,\"protocol\":\"TCP\",\"targetPort\":82}],\"sessionAffinity\":\"None\","
         "\"type\":\"NodePort\"}"},
        {stored_lb,
         "type: ClusterIP, allocateLoadBalancerNodePorts: true, clusterIP: 10.96.1.0, clusterIPs: "
         "[10.96.1.0], externalTrafficPolicy: Local, healthCheckNodePort: 30001, "
         "loadBalancerClass: a.b/c, ports: [{name: x, port: 80, nodePort: 30000}]",
         "{\"clusterIP\":\"10.96.1.0\",\"clusterIPs\":[\"10.96.1.0\"],\"internalTrafficPolicy\":"
         "\"Cluster\",\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":\"SingleStack\",\"ports\":[{"
         "\"name\":\"x\",\"port\":80,\"protocol\":\"TCP\",\"targetPort\":80}],\"sessionAffinity\":"
         "\"None\",\"type\":\"ClusterIP\"}"},
        {"ports: [{port: 80}]",
         "type: ExternalName, externalName: a.b, clusterIP: 10.96.1.0, clusterIPs: [10.96.1.0], "
         "ipFamilies: [IPv4], ipFamilyPolicy: SingleStack",
         "{\"externalName\":\"a.b\",\"sessionAffinity\":\"None\",\"type\":\"ExternalName\"}"},
        {"type: ExternalName, externalName: a.b", "ports: [{port: 80}]",
         "{\"clusterIP\":\"10.96.1.0\",\"clusterIPs\":[\"10.96.1.0\"],\"internalTrafficPolicy\":"
         "\"Cluster\",\"ipFamilies\":[\"IPv4\"],\"ipFamilyPolicy\":\"SingleStack\",\"ports\":[{"
         "\"port\":80,\"protocol\":\"TCP\",\"targetPort\":80}],\"sessionAffinity\":\"None\","
         "\"type\":\"ClusterIP\"}"},
        {"ports: [{port: 80}]",
         "clusterIP: 10.96.5.5, clusterIPs: [10.96.1.0], ports: [{port: 80}]",
         "spec.clusterIPs[0]: Invalid value: []string{\"10.96.5.5\"}: may not change once set"},
        {"ports: [{port: 80}]", "clusterIP: None, clusterIPs: [10.96.1.0], ports: [{port: 80}]",
         "spec.clusterIPs[0]: Invalid value: []string{\"None\"}: may not change once set"},
        {"ports: [{port: 80}]", "ipFamilies: [IPv6], ports: [{port: 80}]",
         "spec.clusterIPs[0]: Invalid value: \"10.96.1.0\": expected an IPv6 value as indicated by "
         "`ipFamilies[0]`"},
        {stored_lb,
         "type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 30077, ports: "
         "[{name: x, port: 80}]",
         "spec.healthCheckNodePort: Forbidden: field is immutable\nspec.loadBalancerClass: Invalid "
         "value: \"null\": may not change once set"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *old = service(&a, cases[i].old);
        struct sw_json *svc = service(&a, cases[i].spec);
        const char *errs;

        assert_string_equal(admit(&a, kind("", "Service"), old, NULL), "");
        errs = admit(&a, kind("", "Service"), svc, old);
        assert_string_equal(*errs ? errs : t_json(&a, sw_json_find(svc, "spec")), cases[i].errs);
    }
}

static void exhausted_range(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_service_pool full = pool;
    struct sw_json *svc = service(&a, "type: ClusterIP, ports: [{port: 80}]");
    struct sw_field_errs e;
    const char *why = NULL;

    full.ip_taken = everything_taken;
    sw_field_errs_init(&e, &a);
    assert_int_equal(sw_service_settle(&a, svc, NULL, &full, &e, &why), SW_ELIMIT);
    assert_string_equal(why, "failed to allocate a serviceIP: range is full");
}

static void service_warnings(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_texts w = {.arena = &a};

    sw_service_warnings(
        service(&a, "type: LoadBalancer, externalName: x, externalIPs: ['2001:DB8::1', 1.2.3.4], "
                    "loadBalancerSourceRanges: [192.12.2.8/24, 10.0.0.0/8]"),
        &w);
    assert_int_equal(w.n, 3);
    assert_string_equal(w.p[0],
                        "spec.externalIPs[0]: IPv6 address \"2001:DB8::1\" should be in RFC "
                        "5952 canonical format (\"2001:db8::1\")");
    assert_string_equal(w.p[1], "spec.loadBalancerSourceRanges[0]: CIDR value \"192.12.2.8/24\" is "
                                "ambiguous in this context (should be \"192.12.2.0/24\" or "
                                "\"192.12.2.8/32\"?)");
    assert_string_equal(w.p[2],
                        "spec.externalName is ignored when spec.type is not \"ExternalName\"");
}

#define RBAC_GROUP "rbac.authorization.k8s.io"
#define REQUIRED   "Required value"

static void refusals_of_small_kinds(void **state)
{
    static const struct {
        const char *group;
        const char *kind;
        const char *obj;
        const char *errs;
    } cases[] = {
        {"", "Secret", "{metadata: {name: s, namespace: n}, type: kubernetes.io/basic-auth}",
         "data[password]: " REQUIRED "\ndata[username]: " REQUIRED},
        {"", "Secret",
         "{metadata: {name: s, namespace: n}, type: kubernetes.io/ssh-auth, data: {ssh-privatekey: "
         "''}}",
         "data[ssh-privatekey]: " REQUIRED},
        {"", "Secret",
         "{metadata: {name: s, namespace: n}, type: kubernetes.io/service-account-token}",
         "metadata.annotations[kubernetes.io/service-account.name]: " REQUIRED},
        {"", "Secret",
         "{metadata: {name: s, namespace: n}, type: kubernetes.io/dockercfg, stringData: "
         "{.dockercfg: '{\"a\": 1,}'}}",
         "data[.dockercfg]: Invalid value: \"<secret contents redacted>\": invalid character '}' "
         "looking for beginning of object key string"},
        {"", "Secret",
         "{metadata: {name: s, namespace: n}, type: kubernetes.io/dockerconfigjson, stringData: "
         "{.dockerconfigjson: '\"text\"'}}",
         "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": json: cannot "
         "unmarshal string into Go value of type map[string]interface {}"},
        {"", "Endpoints",
         "{metadata: {name: e, namespace: n}, subsets: [{addresses: [{ip: 127.0.0.1}, {ip: x}], "
         "ports: [{port: 0}, {name: b, port: 80, protocol: X}]}, {}]}",
         "subsets[0].addresses[0].ip: Invalid value: \"127.0.0.1\": may not be in the loopback "
         "range (127.0.0.0/8, ::1/128)\nsubsets[0].addresses[1].ip: Invalid value: \"x\": must be "
         "a "
         "valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)\nsubsets[0].ports[0].name: " REQUIRED
         "\nsubsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, "
         "inclusive\nsubsets[0].ports[1].protocol: Unsupported value: \"X\": supported values: "
         "\"SCTP\", \"TCP\", \"UDP\"\nsubsets[1]: " REQUIRED
         ": must specify `addresses` or `notReadyAddresses`"},
        {"discovery.k8s.io", "EndpointSlice",
         "{metadata: {name: e, namespace: n}, addressType: FQDN, endpoints: [{addresses: [one]}]}",
         "endpoints[0].addresses[0]: Invalid value: \"one\": should be a domain with at least two "
         "segments separated by dots"},
        {RBAC_GROUP, "ClusterRole", "{metadata: {name: r}, aggregationRule: {}}",
         "aggregationRule.clusterRoleSelectors: " REQUIRED
         ": at least one clusterRoleSelector required if aggregationRule is non-nil"},
        {RBAC_GROUP, "RoleBinding",
         "{metadata: {name: r, namespace: n}, roleRef: {kind: Role, name: r, apiGroup: x}, "
         "subjects: [{kind: User}, {kind: Dog, name: d}]}",
         "roleRef.apiGroup: Unsupported value: \"x\": supported values: \"" RBAC_GROUP
         "\"\nsubjects[0].name: Invalid value: \"\": user name cannot be "
         "empty\nsubjects[0].name: " REQUIRED
         "\nsubjects[1].kind: Unsupported value: \"Dog\": supported values: "
         "\"ServiceAccount\", \"User\", \"Group\""},
        {RBAC_GROUP, "RoleBinding",
         "{metadata: {name: r, namespace: n}, roleRef: {name: r}, subjects: [{name: u}]}",
         "roleRef.kind: Unsupported value: \"\": supported values: \"Role\", "
         "\"ClusterRole\"\nsubjects[0].kind: Unsupported value: \"\": supported values: "
         "\"ServiceAccount\", \"User\", \"Group\""},
        {"", "Event",
         "{metadata: {name: e, namespace: n}, involvedObject: {kind: Pod, name: p, namespace: m}}",
         "involvedObject.namespace: Invalid value: \"m\": does not match event.namespace"},
        {"events.k8s.io", "Event",
         "{metadata: {name: e, namespace: n}, regarding: {namespace: n}, type: Odd, "
         "deprecatedCount: 3, series: {count: 1}}",
         "count: Invalid value: \"\": needs to be unset\neventTime: " REQUIRED
         "\nseries.count: Invalid value: \"\": should be at least "
         "2\nseries.lastObservedTime: " REQUIRED
         "\ntype: Invalid value: \"\": has invalid value: Odd"},
        {"", "Pod", "{metadata: {name: p, namespace: n}}", "spec.containers: " REQUIRED},
        {"", "Pod",
         "{metadata: {name: p, namespace: n}, spec: {restartPolicy: Odd, containers: [{name: a, "
         "ports: [{}]}, {name: a, image: x}]}}",
         "spec.containers[0].image: " REQUIRED
         "\nspec.containers[0].ports[0].containerPort: " REQUIRED
         "\nspec.containers[1].name: Duplicate value: \"a\"\nspec.restartPolicy: "
         "Unsupported value: \"Odd\": supported values: \"Always\", \"OnFailure\", \"Never\""},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(
            admit(&a, kind(cases[i].group, cases[i].kind), t_yaml(&a, cases[i].obj), NULL),
            cases[i].errs);
    }
}

static void pods_as_stored(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *v =
        t_yaml(&a, "{metadata: {name: p, namespace: n}, spec: {containers: [{name: a, image: "
                   "'reg:5000/x', ports: [{containerPort: 80}], resources: {limits: {cpu: '1'}}}], "
                   "volumes: [{name: v}], tolerations: [{operator: Exists}]}}");

    assert_string_equal(admit(&a, kind("", "Pod"), v, NULL), "");
    sw_builtin_admit_new(&a, kind("", "Pod"), v);
    assert_string_equal(
        t_json(&a, v),
        "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\"},\"spec\":{\"containers\":[{\"image\":"
        "\"reg:5000/x\",\"imagePullPolicy\":\"Always\",\"name\":\"a\",\"ports\":[{"
        "\"containerPort\":80,\"protocol\":\"TCP\"}],\"resources\":{\"limits\":{\"cpu\":\"1\"},"
        "\"requests\":{\"cpu\":\"1\"}},\"terminationMessagePath\":\"/dev/termination-log\","
        "\"terminationMessagePolicy\":\"File\"}],\"dnsPolicy\":\"ClusterFirst\","
        "\"enableServiceLinks\":true,\"preemptionPolicy\":\"PreemptLowerPriority\",\"priority\":0,"
        "\"restartPolicy\":\"Always\",\"schedulerName\":\"default-scheduler\",\"securityContext\":"
        "{},\"serviceAccount\":\"default\",\"serviceAccountName\":\"default\","
        "\"terminationGracePeriodSeconds\":30,\"tolerations\":[{\"operator\":\"Exists\"}],"
        "\"volumes\":[{\"emptyDir\":{},\"name\":\"v\"}]},\"status\":{\"phase\":\"Pending\","
        "\"qosClass\":\"Burstable\"}}");
}

static void go_json_words(void **state)
{
    static const char *const cases[][2] = {
        {"", "unexpected end of JSON input"},
        {"nope", "invalid character 'o' in literal null (expecting 'u')"},
        {"abc", "invalid character 'a' looking for beginning of value"},
        {"{a:1}", "invalid character 'a' looking for beginning of object key string"},
        {"{\"a\" 1}", "invalid character '1' after object key"},
        {"{\"a\":1 2}", "invalid character '2' after object key:value pair"},
        {"[1 2]", "invalid character '2' after array element"},
        {"{} x", "invalid character 'x' after top-level value"},
        {"\"\\q\"", "invalid character 'q' in string escape code"},
        {"\"\\u12g4\"", "invalid character 'g' in \\u hexadecimal character escape"},
        {"\"\n\"", "invalid character '\\n' in string literal"},
        {"-x", "invalid character 'x' in numeric literal"},
        {"1.x", "invalid character 'x' after decimal point in numeric literal"},
        {"1ex", "invalid character 'x' in exponent of numeric literal"},
        {"'", "invalid character '\\'' looking for beginning of value"},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};

        assert_string_equal(sw_go_json_error(&a, sw_slice_str(cases[i][0])), cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(new_services),     cmocka_unit_test(refused_services),
        cmocka_unit_test(changed_services), cmocka_unit_test(exhausted_range),
        cmocka_unit_test(service_warnings), cmocka_unit_test(refusals_of_small_kinds),
        cmocka_unit_test(pods_as_stored),   cmocka_unit_test(go_json_words),
    };

    return cmocka_run_group_tests_name("kube_services", tests, NULL, NULL);
}
