/* SPDX-License-Identifier: Apache-2.0 */
/* AuthorizationPolicies as nodes get them, what workloads list, and what their conditions say. */
#include "policy_rig.h"

#include <string.h>

#define AP SW_MESH_AUTHORIZATION_POLICY
#define PA SW_MESH_PEER_AUTHENTICATION

#define CART "'selector':{'matchLabels':{'app':'cart'}}"

static const char accepted[] = "ZtunnelAccepted=True Accepted attached to ztunnel";
#define HTTP(found, tail)                                                                          \
    "ZtunnelAccepted=True UnsupportedValue ztunnel does not support HTTP attributes "              \
    "(found: " found                                                                               \
    "). In ambient mode you must use a waypoint proxy to enforce HTTP rules. " tail
#define OMITTED                                                                                    \
    "Within an ALLOW policy, rules matching HTTP attributes are omitted. This will be more "       \
    "restrictive than requested."
#define WIDER                                                                                      \
    "DENY policy with HTTP attributes is enforced without the HTTP rules. This will be more "      \
    "restrictive than requested."
#define NO_EFFECT                                                                                  \
    "After omitting unsupported HTTP attributes, this DENY policy has no enforceable rules at "    \
    "ztunnel and will have no effect. Deploy a waypoint proxy and use a targetRef to enforce "     \
    "this policy."
#define REFUSED "ZtunnelAccepted=False "

static const struct {
    const char *spec;
    const char *text;
    const char *status; /* NULL: accepted */
} conversions[] = {
    /* scopes and actions */
    {"{}", "ALLOW NAMESPACE", NULL},
    {"{'rules':[{}]}", "ALLOW NAMESPACE ()", NULL},
    {"{'action':'DENY','rules':[{}]}", "DENY NAMESPACE ()", NULL},
    {"{" CART ",'rules':[{}]}", "ALLOW SELECTOR ()", NULL},
    {"{'selector':{},'rules':[{}]}", "ALLOW NAMESPACE ()", NULL},
    {"{'selector':{'matchLabels':{}},'rules':[{}]}", "ALLOW NAMESPACE ()", NULL},
    {"{'action':'AUDIT','rules':[{}]}", "-",
     REFUSED "UnsupportedValue ztunnel does not support the AUDIT action"},
    {"{'action':'CUSTOM','provider':{'name':'x'},'rules':[{}]}", "-",
     REFUSED "UnsupportedValue ztunnel does not support the CUSTOM action"},
    {"{'targetRef':{'kind':'Gateway','name':'w'}}", "-", "-"},
    {"{'targetRefs':[{'kind':'Service','name':'s'}]}", "-", "-"},
    {"{'targetRefs':[],'rules':[{}]}", "ALLOW NAMESPACE ()", NULL},
    /* parts of a rule */
    {"{'rules':[{'to':[{'operation':{'ports':['80','443'],'notPorts':['8080']}}]}]}",
     "ALLOW NAMESPACE ({ port=80 port=443 !port=8080 })", NULL},
    {"{'rules':[{'from':[{'source':{'namespaces':['a','b*','*c','*'],'notNamespaces':['d']}}]}]}",
     "ALLOW NAMESPACE ({ ns=a ns=b* ns=*c ns=* !ns=d })", NULL},
    {"{'rules':[{'from':[{'source':{'principals':['td/ns/a/sa/b'],'notPrincipals':['*']}}]}]}",
     "ALLOW NAMESPACE ({ id=td/ns/a/sa/b !id=* })", NULL},
    {"{'rules':[{'from':[{'source':{'serviceAccounts':['b','x/c'],'notServiceAccounts':['d']}}]}]}",
     "ALLOW NAMESPACE ({ sa=shop/b sa=x/c !sa=shop/d })", NULL},
    {"{'rules':[{'from':[{'source':{'ipBlocks':['10.0.0.1','10.1.2.3/8','2001:db8::/32'],"
     "'notIpBlocks':['10.9.0.0/16']}}]}]}",
     "ALLOW NAMESPACE ({ src=10.0.0.1/32 src=10.0.0.0/8 src=2001:db8::/32 !src=10.9.0.0/16 })",
     NULL},
    {"{'rules':[{'from':[{'source':{'namespaces':['a']}},{'source':{'namespaces':['b']}}],"
     "'to':[{'operation':{'ports':['1']}},{'operation':{'ports':['2']}}],"
     "'when':[{'key':'source.ip','values':['10.0.0.0/8']},{'key':'destination.port',"
     "'notValues':['9']}]}]}",
     "ALLOW NAMESPACE ({ port=1 } | { port=2 } & { ns=a } | { ns=b } & { src=10.0.0.0/8 } & "
     "{ !port=9 })",
     NULL},
    {"{'rules':[{'to':[{'operation':{'ports':['1']}}]},{'from':[{'source':{'namespaces':['a']}}]}]"
     "}",
     "ALLOW NAMESPACE ({ port=1 }) ({ ns=a })", NULL},
    /* conditions */
    {"{'rules':[{'when':[{'key':'source.namespace','values':['a'],'notValues':['b']},"
     "{'key':'source.principal','values':['p']},{'key':'destination.ip','values':['10.0.0.1']},"
     "{'key':'source.serviceAccount','values':['x/y','z']},"
     "{'key':'source.trustDomain','values':['td'],'notValues':['ev*']}]}]}",
     "ALLOW NAMESPACE ({ ns=a !ns=b } & { id=p } & { dst=10.0.0.1/32 } & { sa=x/y sa=shop/z } & "
     "{ id=td/* !id=ev* })",
     NULL},
    /* trust domains */
    {"{'rules':[{'from':[{'source':{'trustDomains':['td','ab*','*'],'namespaces':['a']}}]}]}",
     "ALLOW NAMESPACE ({ ns=a id=td/* id=ab* id=* })", NULL},
    {"{'rules':[{'from':[{'source':{'trustDomains':['td'],'principals':['td/ns/a/sa/b',"
     "'other/ns/a/sa/b','t*','td/ns/x*','*']}}]}]}",
     "ALLOW NAMESPACE ({ id=td/ns/a/sa/b id=td/* id=td/ns/x* id=td/* })", NULL},
    {"{'rules':[{'from':[{'source':{'trustDomains':['td'],'principals':['x/ns/a/sa/b']}}]}]}",
     "ALLOW NAMESPACE ({ })", NULL},
    {"{'rules':[{'from':[{'source':{'notTrustDomains':['td'],'notPrincipals':['x']}}]}]}",
     "ALLOW NAMESPACE ({ !id=x !id=td/* })", NULL},
    {"{'rules':[{'from':[{'source':{'trustDomains':['*d']}}]}]}", "ALLOW NAMESPACE",
     HTTP("trustDomains", OMITTED)},
    {"{'rules':[{'from':[{'source':{'trustDomains':['td'],'principals':['*/sa/b']}}]}]}",
     "ALLOW NAMESPACE", HTTP("trustDomains", OMITTED)},
    {"{'action':'DENY','rules':[{'from':[{'source':{'trustDomains':['td'],"
     "'principals':['*/sa/b']}}]}]}",
     "DENY NAMESPACE ({ id=*/sa/b })", HTTP("trustDomains", WIDER)},
    /* HTTP attributes */
    {"{'rules':[{'to':[{'operation':{'paths':['/x'],'methods':['GET'],'ports':['80']}}]},"
     "{'from':[{'source':{'namespaces':['a']}}]}]}",
     "ALLOW NAMESPACE ({ ns=a })", HTTP("methods, paths", OMITTED)},
    {"{'rules':[{'when':[{'key':'request.headers[x]','values':['y']}]}]}", "ALLOW NAMESPACE",
     HTTP("request.headers[x]", OMITTED)},
    {"{'action':'DENY','rules':[{'to':[{'operation':{'hosts':['h'],'ports':['80']}}],"
     "'from':[{'source':{'namespaces':['a'],'remoteIpBlocks':['10.0.0.0/8']}}]}]}",
     "DENY NAMESPACE ({ port=80 } & { ns=a })", HTTP("hosts, remoteIpBlocks", WIDER)},
    {"{'action':'DENY','rules':[{'to':[{'operation':{'notPaths':['/x']}}],"
     "'from':[{'source':{'namespaces':['a']}}]}]}",
     "DENY NAMESPACE ({ } & { ns=a })", HTTP("notPaths", NO_EFFECT)},
    {"{'action':'DENY','rules':[{'to':[{'operation':{'paths':['/x']}}]},{}]}",
     "DENY NAMESPACE ({ }) ()", HTTP("paths", WIDER)},
    {"{'rules':[{'to':[{'operation':{'paths':[]}}]}]}", "ALLOW NAMESPACE ({ })", NULL},
    /* values that cannot be read never widen an ALLOW policy */
    {"{'rules':[{'to':[{'operation':{'ports':['http','65536'],'notPorts':['80']}}]}]}",
     "ALLOW NAMESPACE ({ })", REFUSED "Invalid invalid value in ports: 'http'"},
    {"{'rules':[{'to':[{'operation':{'ports':['http','80']}}]}]}", "ALLOW NAMESPACE ({ port=80 })",
     REFUSED "Invalid invalid value in ports: 'http'"},
    {"{'rules':[{'from':[{'source':{'namespaces':['a'],'notIpBlocks':['10.0.0.0/33']}},"
     "{'source':{'namespaces':['b']}}]}]}",
     "ALLOW NAMESPACE ({ } | { ns=b })",
     REFUSED "Invalid invalid value in notIpBlocks: '10.0.0.0/33'"},
    {"{'rules':[{'from':[{'source':{'namespaces':['']}}]}]}", "ALLOW NAMESPACE ({ })",
     REFUSED "Invalid invalid value in namespaces: ''"},
    {"{'rules':[{'from':[{'source':{'serviceAccounts':['a/b/c','*']}}]}]}", "ALLOW NAMESPACE ({ })",
     REFUSED "Invalid invalid value in serviceAccounts: 'a/b/c'"},
    {"{'action':'DENY','rules':[{'from':[{'source':{'namespaces':['a'],'ipBlocks':['x','10.0.0.1'],"
     "'notIpBlocks':['y']}}]}]}",
     "DENY NAMESPACE ({ ns=a src=10.0.0.1/32 })", REFUSED "Invalid invalid value in ipBlocks: 'x'"},
    {"{'rules':[{'from':{'source':1}},[],{'to':[{'operation':{'ports':80}}]}]}",
     "ALLOW NAMESPACE ({ })", REFUSED "Invalid invalid value in from"},
    {"{'selector':{'matchLabels':['a']},'rules':[{}]}", "ALLOW SELECTOR ()", NULL},
    /* what admission elsewhere refuses */
    {"{" CART ",'targetRef':{'name':'x'}}", "-", "-"},
    {"{'action':'DENY'}", "DENY NAMESPACE",
     REFUSED "Invalid a DENY policy without rules has no effect"},
    {"{'provider':{'name':'x'},'rules':[{}]}", "ALLOW NAMESPACE ()",
     REFUSED "Invalid provider is for the CUSTOM action only"},
    {"{'rules':[{'when':[{'key':'source.name','values':['y']}]}]}", "ALLOW NAMESPACE",
     REFUSED "Invalid rules[0].when[0]: unknown key 'source.name'"},
    {"{'rules':[{'when':[{'key':'source.ip'}]}]}", "ALLOW NAMESPACE ({ })",
     REFUSED "Invalid rules[0].when[0]: neither values nor notValues"},
};

static void policies_are_converted(void **state)
{
    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(conversions); i++) {
        const char *want = conversions[i].status ? conversions[i].status : accepted;
        struct rig r;

        rig_open(&r, NULL);
        rig_set(&r, AP, "shop", "p", conversions[i].spec);
        rig_flush(&r);
        if (strcmp(rig_text(&r, "shop/p"), conversions[i].text) != 0)
            fail_msg("%s: %s", conversions[i].spec, rig_text(&r, "shop/p"));
        assert_int_equal(r.statuses.n, 1);
        assert_string_equal(r.statuses.p[0] + strlen("shop/p "), want);
        rig_close(&r);
    }
}

static void a_root_policy_is_for_all_namespaces(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, &(struct sw_mesh_policy_conf){.root_ns = SW_SLICE_LIT("mesh")});
    rig_set(&r, AP, "mesh", "all", "{'rules':[{}]}");
    rig_set(&r, AP, "mesh", "carts", "{" CART ",'rules':[{}]}");
    rig_set(&r, AP, "istio-system", "plain", "{'rules':[{}]}");
    rig_flush(&r);
    assert_string_equal(rig_text(&r, "mesh/all"), "ALLOW GLOBAL ()");
    assert_string_equal(rig_text(&r, "mesh/carts"), "ALLOW SELECTOR ()");
    assert_string_equal(rig_text(&r, "istio-system/plain"), "ALLOW NAMESPACE ()");
    assert_string_equal(rig_keys(&r, "shop", "app=cart"), "mesh/carts");
    assert_string_equal(rig_keys(&r, "mesh", "app=cart,x=y"), "mesh/carts");
    assert_string_equal(rig_keys(&r, "shop", "app=car"), "");
    rig_close(&r);
}

static void keys_are_sorted_and_complete(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL);
    rig_set(&r, AP, "shop", "b", "{" CART ",'rules':[{}]}");
    rig_set(&r, AP, "shop", "a", "{'selector':{'matchLabels':{'app':'cart','tier':'x'}}}");
    rig_set(&r, AP, "istio-system", "z", "{" CART "}");
    rig_set(&r, AP, "shop", "wide", "{'rules':[{}]}");
    rig_set(&r, AP, "shop", "audit", "{" CART ",'action':'AUDIT'}");
    rig_set(&r, AP, "other", "c", "{" CART "}");
    rig_set(&r, PA, "shop", "default", "{'mtls':{'mode':'STRICT'}}");
    rig_flush(&r);
    assert_string_equal(rig_keys(&r, "shop", "app=cart"),
                        "istio-system/z shop/b istio-system/istio_converted_static_strict");
    assert_string_equal(rig_keys(&r, "shop", "app=cart,tier=x"),
                        "istio-system/z shop/a shop/b istio-system/istio_converted_static_strict");
    assert_string_equal(rig_keys(&r, "other", "app=cart"), "istio-system/z other/c");
    assert_string_equal(rig_keys(&r, "nobody", "app=cart"), "istio-system/z");
    rig_close(&r);
}

static void dry_run_needs_the_switch(void **state)
{
    static const char obj[] =
        "{'metadata':{'namespace':'shop','name':'p','annotations':{'istio.io/dry-run':'%s'}},"
        "'spec':{" CART ",'rules':[{}]}}";
    static const struct {
        const char *value;
        bool enabled;
        const char *text;
    } cases[] = {
        {"true", true, "ALLOW SELECTOR dry ()"},
        {"true", false, "-"},
        {"T", false, "-"},
        {"false", false, "ALLOW SELECTOR ()"},
        {"yes", false, "ALLOW SELECTOR ()"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct rig r;
        char *text = sw_arena_alloc(&a, sizeof(obj) + 16);

        (void)snprintf(text, sizeof(obj) + 16, obj, cases[i].value);
        rig_open(&r, &(struct sw_mesh_policy_conf){.dry_run = cases[i].enabled});
        sw_mesh_policies_set(r.ix, AP, rig_json(&a, text));
        rig_flush(&r);
        assert_string_equal(rig_text(&r, "shop/p"), cases[i].text);
        assert_string_equal(rig_keys(&r, "shop", "app=cart"),
                            cases[i].text[0] == '-' ? "" : "shop/p");
        if (cases[i].text[0] == '-')
            assert_string_equal(
                r.statuses.p[0],
                "shop/p ZtunnelAccepted=False UnsupportedValue found policy \"shop/p\" using "
                "dry-run annotation, but support for ambient dry-run authorizationPolicies isn't "
                "enabled");
        rig_close(&r);
    }
}

static void other_revisions_are_passed_over(void **state)
{
    static const char obj[] = "{'metadata':{'namespace':'shop','name':'p'%s},'spec':{}}";
    static const struct {
        const char *labels;
        const char *revision;
        bool taken;
    } cases[] = {{"", "blue", true},
                 {",'labels':{'istio.io/rev':'blue'}", "blue", true},
                 {",'labels':{'istio.io/rev':'green'}", "blue", false},
                 {",'labels':{'istio.io/rev':'green'}", "", true}};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct rig r;
        char text[200];

        (void)snprintf(text, sizeof(text), obj, cases[i].labels);
        rig_open(&r, &(struct sw_mesh_policy_conf){.revision = sw_slice_str(cases[i].revision)});
        rig_set(&r, AP, "shop", "p", "{}"); /* one that was there is gone when it is relabelled */
        rig_flush(&r);
        sw_mesh_policies_set(r.ix, AP, rig_json(&a, text));
        rig_flush(&r);
        assert_int_equal(r.resources.n, cases[i].taken);
        rig_close(&r);
    }
}

static void names_of_the_mesh_cannot_be_taken(void **state)
{
    static const char *const names[] = {"istio_converted_static_strict", "a/b", "", "a\\nb",
                                        "converted_peer_authentication_w"};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(names); i++) {
        struct rig r;

        rig_open(&r, NULL);
        rig_set(&r, AP, "istio-system", names[i], "{'rules':[{}]}");
        rig_set(&r, PA, "istio-system", names[i], "{}");
        rig_flush(&r);
        assert_int_equal(r.resources.n, 0);
        rig_close(&r);
    }
}

static void waypoints_are_let_in(void **state)
{
    const struct sw_slice accounts[] = {SW_SLICE_LIT("w2"), SW_SLICE_LIT("w1")};
    const struct sw_slice ns = SW_SLICE_LIT("shop");
    const struct sw_slice name = SW_SLICE_LIT("way");
    const char *key = "shop/istio_allow_waypoint_shop_way";
    struct rig r;

    (void)state;
    rig_open(&r, &(struct sw_mesh_policy_conf){.allow_waypoints = true,
                                               .trust_domain = SW_SLICE_LIT("td")});
    assert_int_equal(sw_mesh_waypoint_policy(r.ix, ns, name, &r.arena).n, 0);
    sw_mesh_policies_set_waypoint(r.ix, ns, name, accounts, 2);
    assert_true(sw_slice_eq_str(sw_mesh_waypoint_policy(r.ix, ns, name, &r.arena), key));
    rig_flush(&r);
    assert_string_equal(rig_text(&r, key),
                        "ALLOW SELECTOR ({ id=td/ns/shop/sa/w1 id=td/ns/shop/sa/w2 })");
    assert_int_equal(r.scopes.n, 1);
    assert_true(sw_slice_eq_str(r.scopes.p[0].waypoint, "shop/way"));
    sw_mesh_policies_set_waypoint(r.ix, ns, name, accounts, 1);
    rig_flush(&r);
    assert_string_equal(rig_text(&r, key), "ALLOW SELECTOR ({ id=td/ns/shop/sa/w2 })");
    assert_int_equal(r.scopes.n, 0); /* the key is the same */
    sw_mesh_policies_set_waypoint(r.ix, ns, name, NULL, 0);
    assert_int_equal(sw_mesh_waypoint_policy(r.ix, ns, name, &r.arena).n, 0);
    rig_flush(&r);
    assert_int_equal(r.resources.n, 0);
    assert_int_equal(r.scopes.n, 1);
    rig_close(&r);
    rig_open(&r, NULL); /* not asked for */
    sw_mesh_policies_set_waypoint(r.ix, ns, name, accounts, 2);
    assert_int_equal(sw_mesh_waypoint_policy(r.ix, ns, name, &r.arena).n, 0);
    rig_flush(&r);
    assert_int_equal(r.resources.n, 0);
    rig_close(&r);
}

static void nothing_is_handed_out_twice(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL);
    rig_set(&r, AP, "shop", "p", "{" CART ",'rules':[{}]}");
    rig_flush(&r);
    assert_int_equal(r.changes, 1);
    rig_set(&r, AP, "shop", "p", "{" CART ",'rules':[{}],'action':'ALLOW'}");
    rig_flush(&r);
    assert_int_equal(r.changes, 0);
    assert_int_equal(r.statuses.n, 1);
    rig_set(&r, AP, "shop", "p", "{'rules':[{}],'action':'DENY'}");
    rig_del(&r, AP, "shop", "p");
    rig_set(&r, AP, "shop", "p", "{" CART ",'rules':[{}]}");
    rig_flush(&r);
    assert_int_equal(r.changes, 0);
    rig_del(&r, AP, "shop", "p");
    rig_del(&r, AP, "shop", "q");
    rig_flush(&r);
    assert_int_equal(r.changes, 1);
    assert_int_equal(r.statuses.n, 0);
    assert_int_equal(r.resources.n, 0);
    rig_close(&r);
}

static void many_changes_affect_all(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL);
    for (int i = 0; i < 2000; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "p%d", i);
        rig_set(&r, AP, "shop", name, "{" CART ",'rules':[{}]}");
    }
    rig_flush(&r);
    assert_int_equal(r.scopes.n, 1);
    assert_int_equal(r.scopes.p[0].ns.n + r.scopes.p[0].n + r.scopes.p[0].waypoint.n, 0);
    assert_int_equal(r.changes, 2000);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(policies_are_converted),
        cmocka_unit_test(a_root_policy_is_for_all_namespaces),
        cmocka_unit_test(keys_are_sorted_and_complete),
        cmocka_unit_test(dry_run_needs_the_switch),
        cmocka_unit_test(other_revisions_are_passed_over),
        cmocka_unit_test(names_of_the_mesh_cannot_be_taken),
        cmocka_unit_test(waypoints_are_let_in),
        cmocka_unit_test(nothing_is_handed_out_twice),
        cmocka_unit_test(many_changes_affect_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
