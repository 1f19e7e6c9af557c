/* SPDX-License-Identifier: Apache-2.0 */
/* Istio's labels and annotations; cgroup paths; the host's rules for probes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "cni/agent/enrol.h"
#include "cni/agent/netns.h"
#include "cni/agent/probes.h"

static struct sw_json *json(struct sw_arena *a, const char *text)
{
    struct sw_json *v = NULL;

    assert_int_equal(sw_json_parse(a, sw_slice_str(text), NULL, &v, NULL), SW_OK);
    return v;
}

#define AMBIENT "\"istio.io/dataplane-mode\":\"ambient\""
#define NONE    "\"istio.io/dataplane-mode\":\"none\""

static void enrols_by_labels(void **state)
{
    static const struct {
        const char *pod_labels;
        const char *annotations;
        const char *spec;
        const char *ns_labels;
        const char *ns;
        bool in;
    } cases[] = {
        {"", "", "", "", "shop", false},
        {"", "", "", AMBIENT, "shop", true},
        {AMBIENT, "", "", "", "shop", true},
        {NONE, "", "", AMBIENT, "shop", false},
        {AMBIENT, "", "", NONE, "shop", true},
        {"\"istio.io/dataplane-mode\":\"other\"", "", "", AMBIENT, "shop", true},
        {AMBIENT, "", "\"hostNetwork\":true", AMBIENT, "shop", false},
        {AMBIENT, "", "\"hostNetwork\":false", AMBIENT, "shop", true},
        {AMBIENT, "\"sidecar.istio.io/status\":\"{}\"", "", AMBIENT, "shop", false},
        {AMBIENT, "", "", AMBIENT, "kube-system", false},
        {"\"app\":\"ztunnel\"", "", "", AMBIENT, "shop", false},
    };
    static const char *const excluded[] = {"kube-system", "spanwire-system"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_json *pod =
            json(&a, sw_arena_printf(&a,
                                     "{\"metadata\":{\"namespace\":\"%s\",\"labels\":{%s},"
                                     "\"annotations\":{%s}},\"spec\":{%s}}",
                                     cases[i].ns, cases[i].pod_labels, cases[i].annotations,
                                     cases[i].spec));
        struct sw_json *ns =
            json(&a, sw_arena_printf(&a, "{\"metadata\":{\"labels\":{%s}}}", cases[i].ns_labels));

        assert_int_equal(sw_enrol_why_not(pod, ns, excluded, 2) == NULL, cases[i].in);
    }
}

static void reads_what_pods_are(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *pod = json(
        &a,
        "{\"metadata\":{\"annotations\":{\"ambient.istio.io/redirection\":\"enabled\","
        "\"ambient.istio.io/dns-capture\":\"true\","
        "\"ambient.istio.io/bypass-inbound-capture\":\"true\","
        "\"istio.io/reroute-virtual-interfaces\":\"a, b,,c\"}},\"spec\":{\"serviceAccountName\":"
        "\"web\"},\"status\":{\"phase\":\"Running\",\"podIP\":\"10.0.0.9\",\"podIPs\":["
        "{\"ip\":\"10.0.0.9\"},{\"ip\":\"fd00::9\"},{\"ip\":\"nonsense\"}]}}");
    struct sw_ip ips[SW_ENROL_IPS_MAX];
    struct sw_redirect r;

    (void)state;
    assert_true(sw_slice_eq_str(sw_enrol_state(pod), "enabled"));
    assert_true(sw_slice_eq_str(sw_enrol_account(pod), "web"));
    assert_false(sw_enrol_terminal(pod));
    assert_int_equal(sw_enrol_ips(pod, ips), 2);
    sw_redirect_init(&r);
    sw_enrol_redirect(pod, &a, &r);
    assert_true(r.dns);
    assert_false(r.inbound);
    assert_int_equal(r.n_virtual_ifs, 3);
    assert_string_equal(r.virtual_ifs[1], "b");

    pod = json(&a, "{\"status\":{\"phase\":\"Failed\",\"podIP\":\"10.0.0.9\"}}");
    assert_true(sw_enrol_terminal(pod));
    assert_int_equal(sw_enrol_ips(pod, ips), 1);
    assert_true(sw_slice_eq_str(sw_enrol_account(pod), "default"));
    assert_int_equal(sw_enrol_ips(json(&a, "{}"), ips), 0);
}

static void finds_the_ports_of_probes(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *pod = json(
        &a, "{\"spec\":{\"containers\":[{\"ports\":[{\"name\":\"http\",\"containerPort\":8080}],"
            "\"livenessProbe\":{\"httpGet\":{\"port\":\"http\"}},"
            "\"readinessProbe\":{\"tcpSocket\":{\"port\":8080}},"
            "\"startupProbe\":{\"grpc\":{\"port\":9000}},"
            "\"lifecycle\":{\"preStop\":{\"httpGet\":{\"port\":7000}}}},"
            "{\"livenessProbe\":{\"exec\":{}}},"
            "{\"livenessProbe\":{\"httpGet\":{\"port\":\"absent\"}}},"
            "{\"livenessProbe\":{\"httpGet\":{\"port\":70000}}}],"
            "\"initContainers\":[{\"startupProbe\":{\"tcpSocket\":{\"port\":6000}}}]}}");
    uint16_t ports[SW_ENROL_PORTS_MAX];

    (void)state;
    assert_int_equal(sw_enrol_probe_ports(pod, ports), 4);
    assert_int_equal(ports[0], 8080);
    assert_int_equal(ports[1], 9000);
    assert_int_equal(ports[2], 7000);
    assert_int_equal(ports[3], 6000);
}

static void reads_pod_uids_of_cgroups(void **state)
{
#define UID    "0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0"
#define DIGEST "8d19c3b8fcd8f5a7c8d1a0a9a0a1d2e3"
    static const struct {
        const char *text;
        const char *uid;
    } cases[] = {
        {"0::/kubepods/burstable/pod" UID "/abc\n", UID},
        {"12:pids:/kubepods/pod" UID "/x\n11:cpu:/\n", UID},
        {"0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-"
         "pod0b1c2d3e_4f50_6172_8394_a5b6c7d8e9f0.slice/cri-containerd-1.scope\n",
         UID},
        {"0::/kubepods/burstable/pod" DIGEST "/abc\n", DIGEST},
        {"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" DIGEST
         ".slice/cri-containerd-1.scope\n",
         DIGEST},
        {"0::/kubepods/pod" DIGEST, DIGEST},
        {"0::/kubepods/pod" DIGEST "0/abc\n", NULL},
        {"0::/kubepods/pod8d19c3b8fcd8f5a7c8d1a0a9a0a1d2e/abc\n", NULL},
        {"0::/system.slice/kubelet.service\n", NULL},
        {"0::/kubepods/podnot-a-uid/x\n", NULL},
        {"0::/tripod" UID "\n", NULL},
        {"pod", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        char uid[SW_POD_UID_LEN + 1];

        assert_int_equal(sw_pod_uid_of_cgroup(sw_slice_str(cases[i].text), uid),
                         cases[i].uid != NULL);
        if (cases[i].uid)
            assert_string_equal(uid, cases[i].uid);
    }
}

static void writes_the_hosts_rules(void **state)
{
    const struct sw_probe_target targets[] = {
        {{.family = 4, .b = {10, 0, 0, 5}}, 8080},
        {{.family = 4, .b = {10, 0, 0, 5}}, 9000},
        {{.family = 6, .b = {0xfd, 0, [15] = 5}}, 8080},
    };
    SW_BUF_AUTO out = {.max = 4096};
    char *text;

    (void)state;
    assert_int_equal(sw_probes_script(7, targets, 3, &out), SW_OK);
    text = sw_buf_take_str(&out);
    assert_string_equal(
        text, "table inet spanwire-probes\ndelete table inet spanwire-probes\n"
              "table inet spanwire-probes {\n"
              "\tset pods4 {\n\t\ttype ipv4_addr . inet_service;\n"
              "\t\telements = { 10.0.0.5 . 8080, 10.0.0.5 . 9000 }\n\t}\n"
              "\tset pods6 {\n\t\ttype ipv6_addr . inet_service;\n"
              "\t\telements = { fd00::5 . 8080 }\n\t}\n"
              "\tchain postrouting {\n\t\ttype nat hook postrouting priority 90; policy accept;\n"
              "\t\tmeta skuid 7 ip daddr . tcp dport @pods4 snat ip to 169.254.7.127\n"
              "\t\tmeta skuid 7 ip6 daddr . tcp dport @pods6 snat ip6 to "
              "fd16:9254:7127:1337:ffff:ffff:ffff:ffff\n\t}\n}\n");
    sw_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enrols_by_labels),          cmocka_unit_test(reads_what_pods_are),
        cmocka_unit_test(finds_the_ports_of_probes), cmocka_unit_test(reads_pod_uids_of_cgroups),
        cmocka_unit_test(writes_the_hosts_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
