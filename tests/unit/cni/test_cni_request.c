/* SPDX-License-Identifier: Apache-2.0 */
/* What runtimes send to a plugin, and what it answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/time.h"
#include "cni/plugin/request.h"

#define ARGS "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web-1;K8S_POD_UID=u-1;X=Y=Z"

static const struct sw_cni_env add_env = {.command = "ADD",
                                          .container_id = "abc",
                                          .netns = "/run/netns/x",
                                          .ifname = "eth0",
                                          .args = ARGS};

static int parse(struct sw_arena *a, const struct sw_cni_env *env, const char *text,
                 struct sw_cni_request *ret, enum sw_cni_code *code)
{
    struct sw_err err = {0};
    int rc = sw_cni_request_parse(a, env, sw_slice_str(text), ret, code, &err);

    assert_true(rc == SW_OK || err.msg[0]);
    return rc;
}

static void reads_a_chained_add(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_cni_request r;
    enum sw_cni_code code;

    (void)state;
    assert_int_equal(
        parse(
            &a, &add_env,
            "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"type\":\"spanwire-cni\","
            "\"agentSocket\":\"/tmp/s\",\"timeout\":\"3s\",\"excludeNamespaces\":[\"kube-system\"],"
            "\"other\":{},\"prevResult\":{\"ips\":[{\"address\":\"10.0.0.5/24\"}]}}",
            &r, &code),
        SW_OK);
    assert_int_equal(code, SW_CNI_OK);
    assert_int_equal(r.command, SW_CNI_ADD);
    assert_true(sw_slice_eq_str(r.pod_ns, "shop"));
    assert_true(sw_slice_eq_str(r.pod_name, "web-1"));
    assert_true(sw_slice_eq_str(r.pod_uid, "u-1"));
    assert_string_equal(r.socket, "/tmp/s");
    assert_int_equal(r.timeout_ns, 3 * SW_NS_PER_S);
    assert_false(sw_cni_passes(&r));
    assert_string_equal(
        sw_json_text(&a, sw_cni_agent_body(&a, &r), NULL).p,
        "{\"Netns\":\"/run/netns/x\",\"PodName\":\"web-1\",\"PodNamespace\":\"shop\","
        "\"IPs\":[{\"Address\":{\"IP\":\"10.0.0.5\"}}],\"PodUID\":\"u-1\","
        "\"ContainerID\":\"abc\",\"IfName\":\"eth0\"}");
}

static void passes_what_is_not_kubernetes_or_excluded(void **state)
{
    static const struct {
        const char *args;
        bool passes;
    } cases[] = {
        {NULL, true},
        {"", true},
        {"K8S_POD_NAMESPACE=shop", true},
        {"K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=dns", true},
        {"K8S_POD_NAMESPACE=kube-system2;K8S_POD_NAME=dns", false},
        {"K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web", false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_cni_env env = add_env;
        struct sw_cni_request r;
        enum sw_cni_code code;

        env.args = cases[i].args;
        assert_int_equal(parse(&a, &env,
                               "{\"cniVersion\":\"1.1.0\",\"excludeNamespaces\":[\"kube-system\"]}",
                               &r, &code),
                         SW_OK);
        assert_int_equal(sw_cni_passes(&r), cases[i].passes);
    }
}

static void refuses_with_the_right_code(void **state)
{
    static const struct {
        struct sw_cni_env env;
        const char *text;
        enum sw_cni_code code;
    } cases[] = {
        {{.command = "FLY"}, "{}", SW_CNI_BAD_ENV},
        {{0}, "{}", SW_CNI_BAD_ENV},
        {{.command = "ADD"}, "{}", SW_CNI_BAD_ENV},
        {{"ADD", "-x", "/n", "eth0", NULL}, "{}", SW_CNI_BAD_ENV},
        {{"ADD", "x", "/n", "eth0/1", NULL}, "{}", SW_CNI_BAD_ENV},
        {{"ADD", "x", "/n", "interface-too-long", NULL}, "{}", SW_CNI_BAD_ENV},
        {{"ADD", "x", NULL, "eth0", NULL}, "{}", SW_CNI_BAD_ENV},
        {{"CHECK", "x", "", "eth0", NULL}, "{}", SW_CNI_BAD_ENV},
        {{"ADD", "x", "/n", "eth0", NULL}, "{", SW_CNI_DECODE},
        {{"ADD", "x", "/n", "eth0", NULL}, "[]", SW_CNI_DECODE},
        {{"ADD", "x", "/n", "eth0", NULL}, "{}", SW_CNI_BAD_VERSION},
        {{"ADD", "x", "/n", "eth0", NULL}, "{\"cniVersion\":\"0.2.0\"}", SW_CNI_BAD_VERSION},
        {{"ADD", "x", "/n", "eth0", NULL}, "{\"cniVersion\":\"2.0.0\"}", SW_CNI_BAD_VERSION},
        {{"ADD", "x", "/n", "eth0", NULL},
         "{\"cniVersion\":\"1.0.0\",\"prevResult\":7}",
         SW_CNI_BAD_CONFIG},
        {{"ADD", "x", "/n", "eth0", NULL},
         "{\"cniVersion\":\"1.0.0\",\"agentSocket\":\"relative\"}",
         SW_CNI_BAD_CONFIG},
        {{"ADD", "x", "/n", "eth0", NULL},
         "{\"cniVersion\":\"1.0.0\",\"timeout\":\"soon\"}",
         SW_CNI_BAD_CONFIG},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_cni_request r;
        enum sw_cni_code code = SW_CNI_OK;

        assert_int_not_equal(parse(&a, &cases[i].env, cases[i].text, &r, &code), SW_OK);
        assert_int_equal(code, cases[i].code);
    }
}

static void del_needs_no_namespace_and_version_no_input(void **state)
{
    static const struct sw_cni_env del = {"DEL", "x", NULL, "eth0", NULL};
    static const struct sw_cni_env version = {.command = "VERSION"};
    SW_ARENA_AUTO a = {0};
    struct sw_cni_request r;
    enum sw_cni_code code;

    (void)state;
    assert_int_equal(parse(&a, &del, "{\"cniVersion\":\"0.4.0\"}", &r, &code), SW_OK);
    assert_int_equal(parse(&a, &version, "", &r, &code), SW_OK);
    assert_int_equal(parse(&a, &version, " \n\r\n", &r, &code), SW_OK);
    assert_int_equal(parse(&a, &version, "{\"cniVersion\":\"0.2.0\"}", &r, &code), SW_OK);
    assert_string_equal(sw_json_text(&a, sw_cni_versions(&a, r.version), NULL).p,
                        "{\"cniVersion\":\"0.2.0\",\"supportedVersions\":[\"0.3.0\",\"0.3.1\","
                        "\"0.4.0\",\"1.0.0\",\"1.1.0\"]}");
}

static void gc_without_a_list_names_none(void **state)
{
    static const struct sw_cni_env gc = {.command = "GC"};
    static const struct {
        const char *list;
        int rc;
        bool named;
    } cases[] = {
        {"", SW_OK, false},
        {",\"cni.dev/valid-attachments\":null", SW_OK, false},
        {",\"cni.dev/valid-attachments\":[]", SW_OK, true},
        {",\"cni.dev/valid-attachments\":{}", SW_EINVAL, false},
        {",\"cni.dev/valid-attachments\":\"\"", SW_EINVAL, false},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_cni_request r;
        enum sw_cni_code code;
        const char *text = sw_arena_printf(&a, "{\"cniVersion\":\"1.1.0\"%s}", cases[i].list);

        assert_int_equal(parse(&a, &gc, text, &r, &code), cases[i].rc);
        if (cases[i].rc == SW_OK)
            assert_int_equal(sw_json_find(sw_cni_agent_body(&a, &r), "ValidAttachments") != NULL,
                             cases[i].named);
    }
}

static void converts_the_previous_result(void **state)
{
    static const struct {
        const char *version;
        const char *prev;
        const char *out; /* NULL: refused */
    } cases[] = {
        {"1.1.0", "null", "{\"cniVersion\":\"1.1.0\"}"},
        {"0.3.1",
         "{\"cniVersion\":\"1.1.0\",\"ips\":[{\"address\":\"fd00::1/64\"}],"
         "\"interfaces\":[{\"name\":\"eth0\",\"mtu\":1500}],\"routes\":[{\"dst\":\"d\","
         "\"scope\":1}],\"x\":[]}",
         "{\"cniVersion\":\"0.3.1\",\"ips\":[{\"address\":\"fd00::1/64\",\"version\":\"6\"}],"
         "\"interfaces\":[{\"name\":\"eth0\"}],\"routes\":[{\"dst\":\"d\"}],\"x\":[]}"},
        {"1.0.0",
         "{\"cniVersion\":\"0.4.0\",\"ips\":[{\"version\":\"4\",\"address\":\"1.2.3.4/8\"}]}",
         "{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"1.2.3.4/8\"}]}"},
        {"1.1.0", "{\"interfaces\":[{\"name\":\"eth0\",\"mtu\":1500}]}",
         "{\"interfaces\":[{\"name\":\"eth0\",\"mtu\":1500}],\"cniVersion\":\"1.1.0\"}"},
        {"1.0.0", "{\"ips\":[7,null],\"interfaces\":[1],\"routes\":\"x\"}",
         "{\"ips\":[7,null],\"interfaces\":[1],\"routes\":\"x\",\"cniVersion\":\"1.0.0\"}"},
        {"1.0.0", "{\"cniVersion\":\"0.2.0\",\"ip4\":{}}", NULL},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_cni_request r;
        enum sw_cni_code code;
        struct sw_json *out = NULL;
        struct sw_err err = {0};
        const char *text = sw_arena_printf(&a, "{\"cniVersion\":\"%s\",\"prevResult\":%s}",
                                           cases[i].version, cases[i].prev);

        assert_int_equal(parse(&a, &add_env, text, &r, &code), SW_OK);
        assert_int_equal(sw_cni_result(&a, &r, &out, &err), cases[i].out ? SW_OK : SW_EINVAL);
        if (cases[i].out)
            assert_string_equal(sw_json_text(&a, out, NULL).p, cases[i].out);
    }
}

static void error_objects_have_a_version_runtimes_know(void **state)
{
    SW_ARENA_AUTO a = {0};

    (void)state;
    assert_string_equal(
        sw_json_text(&a, sw_cni_error(&a, sw_slice("", 0), SW_CNI_TRY_LATER, "no"), NULL).p,
        "{\"cniVersion\":\"1.1.0\",\"code\":11,\"msg\":\"no\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_a_chained_add),
        cmocka_unit_test(passes_what_is_not_kubernetes_or_excluded),
        cmocka_unit_test(refuses_with_the_right_code),
        cmocka_unit_test(del_needs_no_namespace_and_version_no_input),
        cmocka_unit_test(gc_without_a_list_names_none),
        cmocka_unit_test(converts_the_previous_result),
        cmocka_unit_test(error_objects_have_a_version_runtimes_know),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
