/* SPDX-License-Identifier: Apache-2.0 */
/* Resources of a mesh control plane: defaults, refusals, and what is stored of them. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "fixture.h"
#include "node/mesh/identify.h"
#include "node/mesh/mesh.h"
#include "node/mesh/store.h"
#include "proto/json.h"
#include "proto/pb.h"

#include <proto/workload.pb-c.h>

/* A message written as its JSON form; bytes are text, as they are in our schemas. */
static struct sw_slice encode(struct sw_arena *a, const ProtobufCMessageDescriptor *type,
                              const char *json)
{
    struct sw_slice out = {0};
    struct sw_err err = {0};
    struct sw_json *v;

    if (sw_json_parse(a, sw_slice_str(json), NULL, &v, &err) != SW_OK ||
        sw_pb_from_json(a, type, v, &out, &err) != SW_OK)
        fail_msg("%s: %s", json, err.msg);
    return out;
}

static int put_named(struct sw_state_builder *b, const char *name, struct sw_slice value,
                     struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_mesh_item it = {sw_slice_str(name), S("v7"), value};

    return sw_mesh_put_address(b, &it, &a, err);
}

static int put_address(struct sw_state_builder *b, const char *name, const char *json,
                       struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};

    return put_named(b, name, encode(&a, &sw__mesh_address__descriptor, json), err);
}

static int put_policy(struct sw_state_builder *b, const char *name, const char *json,
                      struct sw_err *err)
{
    SW_ARENA_AUTO a = {0};
    struct sw_mesh_item it = {sw_slice_str(name), S("v8"),
                              encode(&a, &sw__mesh_authorization__descriptor, json)};

    return sw_mesh_put_policy(b, &it, &a, err);
}

static void empty_fields_have_defaults(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    const struct sw_workload *w;
    STATE_AUTO s = NULL;

    (void)state;
    assert_int_equal(put_address(b, "u", "{\"workload\": {\"uid\": \"u\"}}", NULL), SW_OK);
    s = sw_state_finish(b);
    w = workload(s, "u");
    assert_slice(w->c->trust_domain, "cluster.local");
    assert_slice(w->c->service_account, "default");
    assert_slice(w->at->cluster_id, "Kubernetes");
    assert_slice(w->at->network, "");
    assert_int_equal(sw_workload_capacity(w), 1);
    assert_int_equal(w->c->protocol, SW_TUNNEL_NONE);
    assert_true(w->healthy);
    assert_slice(version_of(w), "v7");
}

#define W(more) "{\"workload\": {\"uid\": \"x\"" more "}}"
#define V(more) "{\"service\": {\"namespace\": \"n\", \"hostname\": \"h\"" more "}}"

static void refusals_name_their_reason(void **state)
{
    static const struct {
        const char *name;
        const char *json;
        const char *why;
    } cases[] = {
        {"x", "{}", "neither a workload nor a service"},
        {"x", "{\"workload\": {}}", "calls itself"},
        {"y", W(""), "calls itself 'x'"},
        {"x", W(", \"addresses\": [\"abc\"]"), "an address has 3 bytes"},
        {"x", W(", \"addresses\": [\"\"]"), "an address has 0 bytes"},
        {"x", W(", \"tunnelProtocol\": 2"), "LEGACY_ISTIO_MTLS"},
        {"x", W(", \"tunnelProtocol\": 3"), "unknown tunnel protocol 3"},
        {"x", W(", \"workloadType\": 4"), "unknown workload type 4"},
        {"x", W(", \"status\": 2"), "unknown status 2"},
        {"x", W(", \"networkMode\": 2"), "unknown network mode 2"},
        {"x", W(", \"applicationTunnel\": {\"protocol\": 2}"), "application tunnel protocol 2"},
        {"x", W(", \"applicationTunnel\": {\"port\": 65536}"), "65536 is out of range"},
        {"x", W(", \"waypoint\": {}"), "waypoint has no destination"},
        {"x", W(", \"networkGateway\": {\"hboneMtlsPort\": 1}"), "gateway has no destination"},
        {"x", W(", \"waypoint\": {\"address\": {}}"), "an address has 0 bytes"},
        {"x", W(", \"services\": {\"nonamespace\": {}}"), "is not NAMESPACE/HOSTNAME"},
        {"x", W(", \"services\": {\"a/b\": {\"ports\": [{\"servicePort\": 70000}]}}"),
         "service port 70000"},
        {"n/h", V(", \"ports\": [{\"appProtocol\": 9}]"), "unknown application protocol 9"},
        {"n/h", V(", \"ipFamilies\": 4"), "unknown IP families 4"},
        {"n/h", V(", \"loadBalancing\": {\"mode\": 4}"), "load balancing mode 4"},
        {"n/h", V(", \"loadBalancing\": {\"healthPolicy\": 2}"), "health policy 2"},
        {"n/h", V(", \"loadBalancing\": {\"routingPreference\": [0]}"), "routing preference 0"},
        {"n/h",
         V(", \"addresses\": [{\"address\": \"\\u000a\\u0000\\u0000\\u0000\", \"length\": 33}]"),
         "prefix length 33"},
        {"n/h", V(", \"weightedWaypoints\": [{\"weight\": 1}]"), "has no destination"},
        {"m/h", V(""), "calls itself 'n/h'"},
        {"n/", "{\"service\": {\"namespace\": \"n\"}}", "without a hostname"},
    };
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    STATE_AUTO s = NULL;

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};

        if (put_address(b, cases[i].name, cases[i].json, &err) == SW_OK ||
            !strstr(err.msg, cases[i].why))
            fail_msg("%s: '%s' does not say '%s'", cases[i].json, err.msg, cases[i].why);
    }
    s = sw_state_finish(b);
    assert_int_equal(sw_state_workload_count(s) + sw_state_service_count(s), 0);
}

static void texts_that_are_no_text_are_refused(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    struct sw_err err = {0};

    (void)state;
    assert_int_equal(put_named(b, "x", S("\x0a\x08\xa2\x01\x01x\x0a\x02\xff\xfe"), &err),
                     SW_EPROTO);
    assert_int_equal(put_named(b, "x", S("\x0a\x7f"), &err), SW_EPROTO);
    sw_state_builder_free(b);
}

static void visibility_that_is_unknown_is_public(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    STATE_AUTO s = NULL;

    (void)state;
    assert_int_equal(put_address(b, "n/h", V(", \"visibility\": 7"), NULL), SW_OK);
    s = sw_state_finish(b);
    assert_false(service_at(s, 0)->namespace_only);
}

static void blocks_are_addresses_of_another_length(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    struct sw_ip in = ip("10.0.7.8");
    STATE_AUTO s = NULL;

    (void)state;
    assert_int_equal(
        put_address(
            b, "n/h",
            V(", \"addresses\": [{\"address\": \"\\u000a\\u0000\\u0000\\u0000\", \"length\": 16}, "
              "{\"address\": \"\\u000b\\u0000\\u0000\\u0001\", \"length\": 32}, "
              "{\"address\": \"\\u000b\\u0000\\u0000\\u0002\"}]"),
            NULL),
        SW_OK);
    s = sw_state_finish(b);
    assert_int_equal(service_at(s, 0)->n_vips, 2);
    assert_int_equal(service_at(s, 0)->n_cidr_vips, 1);
    assert_non_null(sw_state_service_by_vip(s, S(""), &in, S("z")));
}

static void removals_are_by_name(void **state)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);

    (void)state;
    assert_int_equal(put_address(b, "x", W(""), NULL), SW_OK);
    assert_int_equal(put_address(b, "n/h", V(""), NULL), SW_OK);
    assert_false(sw_mesh_remove_address(b, S("n/h/i")));
    assert_false(sw_mesh_remove_address(b, S("h")));
    assert_true(sw_mesh_remove_address(b, S("x")));
    assert_true(sw_mesh_remove_address(b, S("n/h")));
    assert_false(sw_mesh_remove_address(b, S("n/h")));
    sw_state_builder_free(b);
}

/* ---- policies ---- */

static bool allowed(const char *action, const char *match)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    struct sw_policy_request req = {.src_ip = ip("10.0.0.1"), .dst_port = 80};
    struct sw_policy_verdict v;
    struct sw_policy_set set;
    char json[512];
    STATE_AUTO s = NULL;

    (void)snprintf(json, sizeof(json),
                   "{\"name\": \"p\", \"namespace\": \"n\", \"scope\": 0, \"action\": \"%s\", "
                   "\"rules\": [{\"clauses\": [{\"matches\": [%s]}]}]}",
                   action, match);
    assert_int_equal(put_policy(b, "n/p", json, NULL), SW_OK);
    assert_int_equal(put_address(b, "x", W(""), NULL), SW_OK);
    s = sw_state_finish(b);
    set = sw_state_policies_for(s, workload(s, "x"));
    return sw_policy_decide(&set, &req, &v);
}

static void conditions_that_are_not_understood_fail_closed(void **state)
{
    static const char *const strange[] = {
        "{\"namespaces\": [{}]}", "{\"sourceIps\": [{\"address\": \"ab\", \"length\": 8}]}",
        "{\"sourceIps\": [{\"address\": \"\\u000a\\u0000\\u0000\\u0000\", \"length\": 33}]}",
        "{\"destinationPorts\": [65616]}", /* 80, were it cut to 16 bits */
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(strange); i++) {
        assert_false(allowed("ALLOW", strange[i]));
        assert_false(allowed("DENY", strange[i]));
    }
    assert_true(allowed("ALLOW", "{\"destinationPorts\": [80]}"));
    assert_false(allowed("DENY", "{\"destinationPorts\": [80]}"));
    assert_true(allowed("DENY", "{\"destinationPorts\": [81]}"));
    assert_true(allowed(
        "ALLOW",
        "{\"sourceIps\": [{\"address\": \"\\u000a\\u0000\\u0000\\u0000\", \"length\": 8}]}"));
}

static void policies_are_refused_with_a_reason(void **state)
{
    static const struct {
        const char *name;
        const char *json;
        const char *why;
    } cases[] = {
        {"n/q", "{\"name\": \"p\", \"namespace\": \"n\"}", "calls itself 'n/p'"},
        {"n/", "{\"namespace\": \"n\"}", "without a name"},
        {"n/p", "{\"name\": \"p\", \"namespace\": \"n\", \"scope\": 3}", "unknown scope 3"},
        {"n/p", "{\"name\": \"p\", \"namespace\": \"n\", \"action\": 2}", "unknown action 2"},
    };
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct sw_err err = {0};

        assert_int_not_equal(put_policy(b, cases[i].name, cases[i].json, &err), SW_OK);
        if (!strstr(err.msg, cases[i].why))
            fail_msg("'%s' does not say '%s'", err.msg, cases[i].why);
    }
    sw_state_builder_free(b);
}

/* ---- the store ---- */

static struct sw_state *some_state(void)
{
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);

    assert_int_equal(
        put_address(b, "x",
                    W(", \"addresses\": [\"\\u000a\\u0000\\u0000\\u0001\"], \"tunnelProtocol\": 1, "
                      "\"node\": \"n1\", "
                      "\"services\": {\"n/h\": {\"ports\": [{\"servicePort\": 80, "
                      "\"targetPort\": 8080}]}}, \"waypoint\": {\"hostname\": {\"namespace\": "
                      "\"n\", \"hostname\": \"wp\"}, \"hboneMtlsPort\": 15008}, "
                      "\"authorizationPolicies\": [\"n/p\"], \"hostname\": \"x.y\", "
                      "\"locality\": {\"zone\": \"z\"}, \"capacity\": 3, "
                      "\"applicationTunnel\": {\"protocol\": 1, \"port\": 9}"),
                    NULL),
        SW_OK);
    assert_int_equal(
        put_address(
            b, "n/h",
            V(", \"addresses\": [{\"address\": \"\\u000a\\u0000\\u0000\\u0000\", \"length\": 16}]"
              ", \"ports\": [{\"servicePort\": 80}], \"canonical\": true, "
              "\"loadBalancing\": {\"mode\": 2, \"routingPreference\": "
              "[1, 6]}, \"visibility\": 1"),
            NULL),
        SW_OK);
    assert_int_equal(
        put_policy(
            b, "n/p",
            "{\"name\": \"p\", \"namespace\": \"n\", \"scope\": 2, "
            "\"action\": 1, \"dryRun\": true, \"rules\": [{\"clauses\": "
            "[{\"matches\": [{\"principals\": [{\"exact\": \"a\"}, "
            "{\"presence\": {}}], \"notSourceIps\": [{\"address\": "
            "\"\\u000a\\u0000\\u0000\\u0000\", \"length\": 8}], \"destinationPorts\": [1, 2], "
            "\"serviceAccounts\": [{\"namespace\": \"n\", "
            "\"serviceAccount\": \"s\"}], \"namespaces\": [{}]}]}]}]}",
            NULL),
        SW_OK);
    return sw_state_finish(b);
}

static void what_is_stored_comes_back(void **state)
{
    STATE_AUTO s = some_state();
    SW_BUF_AUTO first = {.max = 1 << 20};
    SW_BUF_AUTO second = {.max = 1 << 20};
    struct sw_state_builder *b = sw_state_builder_new(S(""), true);
    const struct sw_workload *w;
    struct sw_err err = {0};
    STATE_AUTO again = NULL;

    (void)state;
    assert_int_equal(sw_mesh_stored_write(s, &first), SW_OK);
    assert_int_equal(sw_mesh_stored_read(sw_buf_slice(&first), b, &err), SW_OK);
    again = sw_state_finish(b);
    assert_int_equal(sw_mesh_stored_write(again, &second), SW_OK);
    assert_true(sw_slice_eq(sw_buf_slice(&first), sw_buf_slice(&second)));
    w = workload(again, "x");
    assert_slice(version_of(w), "v7");
    assert_slice(sw_workload_hostname(w), "x.y");
    assert_int_equal(sw_workload_capacity(w), 3);
    assert_int_equal(sw_workload_target_port(w, service_at(again, 0), 80), 8080);
    assert_slice(w->c->waypoint->hostname, "wp");
    assert_true(policy_at(again, 0)->dry_run);
    assert_true(policy_at(again, 0)->rules[0].clauses[0].matches[0].unknown);
}

static void a_store_that_is_cut_off_is_refused(void **state)
{
    STATE_AUTO s = some_state();
    SW_BUF_AUTO file = {.max = 1 << 20};

    (void)state;
    assert_int_equal(sw_mesh_stored_write(s, &file), SW_OK);
    for (size_t n = 0; n < sw_buf_len(&file); n++) {
        struct sw_state_builder *b = sw_state_builder_new(S(""), true);
        struct sw_err err = {0};

        assert_int_not_equal(sw_mesh_stored_read(sw_slice_head(sw_buf_slice(&file), n), b, &err),
                             SW_OK);
        assert_true(err.msg[0]);
        sw_state_builder_free(b);
    }
}

/* ---- the node's name ---- */

static void the_node_says_who_it_is(void **state)
{
    SW_ARENA_AUTO a = {0};
    struct sw_node_meta meta[] = {{S("KIND"), S("ambient")}, {S("LATE"), S("overridden")}};
    const struct sw_node_config c = {.names.pod = "zt",
                                     .names.pod_namespace = "sys",
                                     .names.node = "n1",
                                     .istio.metadata = meta,
                                     .istio.n_metadata = 2};
    char env[][64] = {"ISTIO_META_LATE=1", "ISTIO_METAJSON_DEEP={\"x\": [true]}", "PATH=/bin"};
    char *list[] = {env[0], env[1], env[2], NULL};
    char bad[] = "ISTIO_METAJSON_BAD={";
    char *bad_list[] = {bad, NULL};
    struct sw_slice out = {0};
    struct sw_err err = {0};
    const struct sw_json *v;

    (void)state;
    assert_slice(sw_mesh_node_id(&c, &a), "ztunnel~1.1.1.1~zt.sys~sys.svc.cluster.local");
    assert_int_equal(sw_mesh_node_metadata(&c, list, &a, &out, &err), SW_OK);
    v = sw_pb_to_json(&a, sw_pb_unpack(&a, &sw__struct__descriptor, out, NULL, NULL), true);
    assert_true(sw_json_str_eq(sw_json_get(v, S("NAME")), "zt"));
    assert_true(sw_json_str_eq(sw_json_get(v, S("NODE_NAME")), "n1"));
    assert_true(sw_json_str_eq(sw_json_get(v, S("KIND")), "ambient"));
    assert_true(sw_json_str_eq(sw_json_get(v, S("LATE")), "1"));
    assert_non_null(sw_json_get(sw_json_get(v, S("DEEP")), S("x")));
    assert_null(sw_json_get(v, S("PATH")));
    assert_int_equal(sw_mesh_node_metadata(&c, bad_list, &a, &out, &err), SW_EINVAL);
    assert_non_null(strstr(err.msg, "ISTIO_METAJSON_BAD"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_fields_have_defaults),
        cmocka_unit_test(refusals_name_their_reason),
        cmocka_unit_test(texts_that_are_no_text_are_refused),
        cmocka_unit_test(visibility_that_is_unknown_is_public),
        cmocka_unit_test(blocks_are_addresses_of_another_length),
        cmocka_unit_test(removals_are_by_name),
        cmocka_unit_test(conditions_that_are_not_understood_fail_closed),
        cmocka_unit_test(policies_are_refused_with_a_reason),
        cmocka_unit_test(what_is_stored_comes_back),
        cmocka_unit_test(a_store_that_is_cut_off_is_refused),
        cmocka_unit_test(the_node_says_who_it_is),
    };

    return cmocka_run_group_tests_name("mesh", tests, NULL, NULL);
}
