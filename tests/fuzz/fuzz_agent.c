/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the node agent reads of others. The first byte chooses: the body of a plugin's call, a Pod
 * with its annotations and probes, a process' cgroup, the agent's own record of a pod.
 */
#include <assert.h>
#include <ctype.h>
#include <string.h>

#include "cni/agent/agent_int.h"
#include "cni/agent/enrol.h"
#include "cni/agent/netns.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_call(struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    struct sw_json *body = NULL;
    struct agent_add add;

    if (agent_body_parse(&a, in, &body, NULL) != SW_OK) {
        assert(!body);
        return;
    }
    assert(sw_json_is(body, SW_JSON_OBJECT));
    if (!agent_add_parse(&a, body, &add))
        return;
    assert(add.netns[0] == '/' && strlen(add.netns) <= 1024);
    assert(add.name[0] && strlen(add.name) <= 253 && add.ns[0] && strlen(add.ns) <= 253);
    assert(strlen(add.uid) <= 128 && strlen(add.container_id) <= 255);
}

static void check_pod(struct sw_slice in)
{
    static const char *const excluded[] = {"kube-system"};
    SW_ARENA_AUTO a = {0};
    SW_BUF_AUTO rules = {.max = 1 << 20};
    struct sw_json *pod = NULL;
    struct sw_ip ips[SW_ENROL_IPS_MAX];
    uint16_t ports[SW_ENROL_PORTS_MAX];
    struct sw_redirect r;
    size_t count;

    if (sw_json_parse(&a, in, NULL, &pod, NULL) != SW_OK)
        return;
    /* One that belongs to the mesh by itself does so wherever its namespace does not forbid it. */
    if (!sw_enrol_why_not(pod, pod, excluded, 0) && sw_enrol_terminal(pod))
        assert(sw_json_find(pod, "status"));
    (void)sw_enrol_up_to_namespace(pod, excluded, SW_ARRAY_LEN(excluded));
    (void)sw_enrol_state(pod);
    (void)sw_enrol_account(pod);
    count = sw_enrol_ips(pod, ips);
    assert(count <= SW_ENROL_IPS_MAX);
    for (size_t i = 0; i < count; i++)
        assert(ips[i].family == 4 || ips[i].family == 6);
    count = sw_enrol_probe_ports(pod, ports);
    assert(count <= SW_ENROL_PORTS_MAX);
    for (size_t i = 0; i < count; i++)
        assert(ports[i]);
    sw_redirect_init(&r);
    sw_enrol_redirect(pod, &a, &r);
    if (sw_redirect_check(&r, NULL) == SW_OK)
        assert(sw_redirect_ruleset(&r, &rules) == SW_OK);
}

static void check_cgroup(struct sw_slice in)
{
    char uid[SW_POD_UID_LEN + 1];

    if (!sw_pod_uid_of_cgroup(in, uid))
        return;
    assert(strlen(uid) == SW_POD_UID_LEN || strlen(uid) == SW_POD_DIGEST_LEN);
    for (size_t i = 0; uid[i]; i++)
        assert(uid[i] == '-' || isxdigit((unsigned char)uid[i]));
}

static void check_record(struct sw_slice in)
{
    SW_ARENA_AUTO a = {0};
    struct agent_record r;

    if (agent_record_parse(&a, in, &r))
        assert(r.netns[0] && r.container_id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static void (*const checks[])(struct sw_slice in) = {check_call, check_pod, check_cgroup,
                                                         check_record};

    if (n)
        checks[(uint8_t)(data[0] - 48) % SW_ARRAY_LEN(checks)](sw_slice(data + 1, n - 1));
    return 0;
}
