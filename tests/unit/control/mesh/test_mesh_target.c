/* SPDX-License-Identifier: Apache-2.0 */
/* The condition of AuthorizationPolicies for waypoints. */
#include "control/mesh/policy/target.h"

#include "policy_rig.h"

/* "bound" is bound to shop/way, "free" is not; anything else is not there. */
static bool find(void *arg, struct sw_slice ns, struct sw_slice name, struct sw_slice *ret)
{
    (void)arg;
    if (sw_slice_eq_str(ns, "shop") && sw_slice_eq_str(name, "bound"))
        *ret = SW_SLICE_LIT("shop/way");
    return sw_slice_eq_str(ns, "shop") && (ret->n || sw_slice_eq_str(name, "free"));
}

static bool find_waypoint(void *arg, struct sw_slice ns, struct sw_slice name)
{
    (void)arg;
    return sw_slice_eq_str(ns, "shop") && sw_slice_eq_str(name, "way");
}

static bool find_class(void *arg, struct sw_slice name, struct sw_slice *ret)
{
    (void)arg;
    if (sw_slice_eq_str(name, "waypoints"))
        *ret = SW_SLICE_LIT("istio.io/mesh-controller");
    else if (sw_slice_eq_str(name, "others"))
        *ret = SW_SLICE_LIT("example.com/gateway");
    return ret->n > 0;
}

static void conditions(void **state)
{
#define GATEWAY "'kind':'Gateway','group':'gateway.networking.k8s.io','name':"
#define CLASS   "'kind':'GatewayClass','group':'gateway.networking.k8s.io','name':"
#define SERVICE "'kind':'Service','group':'','name':"
#define ENTRY   "'kind':'ServiceEntry','group':'networking.istio.io','name':"
    static const struct {
        const char *ns;
        const char *spec;
        const char *text; /* NULL: no condition */
    } cases[] = {
        {"shop", "{}", NULL},
        {"shop", "{'targetRefs':[]}", NULL},
        {"shop", "{'selector':{}}", NULL},
        {"shop", "{'targetRef':{" GATEWAY "'way'}}", "True Accepted bound to shop/way"},
        {"shop", "{'targetRefs':[{" GATEWAY "'gone'}]}", "False TargetNotFound not bound"},
        {"shop", "{'targetRefs':[{" SERVICE "'bound'}]}", "True Accepted bound to shop/way"},
        {"shop", "{'targetRefs':[{" SERVICE "'free'}]}",
         "False AncestorNotBound Service shop/free is not bound to a waypoint"},
        {"shop", "{'targetRefs':[{" SERVICE "'gone'}]}",
         "False TargetNotFound Service shop/gone was not found"},
        {"bank", "{'targetRefs':[{" SERVICE "'bound'}]}",
         "False TargetNotFound Service bank/bound was not found"},
        {"shop", "{'targetRefs':[{" ENTRY "'bound'}]}", "True Accepted bound to shop/way"},
        {"shop", "{'targetRefs':[{" ENTRY "'free'}]}",
         "False AncestorNotBound ServiceEntry shop/free is not bound to a waypoint"},
        {"shop", "{'targetRefs':[{" ENTRY "'gone'}]}",
         "False TargetNotFound ServiceEntry shop/gone was not found"},
        {"root", "{'targetRefs':[{" CLASS "'waypoints'}]}", "True Accepted bound to waypoints"},
        {"root", "{'targetRefs':[{" CLASS "'others'}]}",
         "False Invalid GatewayClass must use controller name `istio.io/mesh-controller` for "
         "waypoints"},
        {"root", "{'targetRefs':[{" CLASS "'gone'}]}", "False TargetNotFound not bound"},
        {"shop", "{'targetRefs':[{" CLASS "'waypoints'}]}",
         "False Invalid AuthorizationPolicy must be in the root namespace `root` when referencing "
         "a GatewayClass"},
        {"shop", "{'targetRefs':[{'kind':'Pod','name':'x'}]}", "False Invalid not bound"},
        {"shop", "{'targetRefs':[7]}", "False Invalid not bound"},
        {"shop", "{'targetRefs':[{" SERVICE "'bound'},{" GATEWAY "'way'}]}",
         "True Accepted bound to shop/way"},
        {"shop", "{'targetRefs':[{" SERVICE "'bound'},{" SERVICE "'free'},{" GATEWAY "'gone'}]}",
         "True PartiallyInvalid Invalid targetRefs: Service.core:shop/free, "
         "Gateway.gateway.networking.k8s.io:shop/gone"},
        {"shop", "{'targetRefs':[{" SERVICE "'gone'},{" ENTRY "'free'}]}",
         "False Invalid Invalid targetRefs: Service.core:shop/gone, "
         "ServiceEntry.networking.istio.io:shop/free"},
    };
    const struct sw_mesh_target_lookup lookup = {
        .service = find, .entry = find, .waypoint = find_waypoint, .class = find_class};

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        SW_ARENA_AUTO a = {0};
        struct sw_mesh_condition c = {0};
        const struct sw_json *obj =
            rig_json(&a, sw_arena_printf(&a, "{'metadata':{'namespace':'%s'},'spec':%s}",
                                         cases[i].ns, cases[i].spec));
        bool has = sw_mesh_policy_targets(&a, obj, SW_SLICE_LIT("root"), &lookup, &c);

        assert_int_equal(has, cases[i].text != NULL);
        if (!has)
            continue;
        assert_string_equal(c.type, "WaypointAccepted");
        assert_string_equal(sw_arena_printf(&a, "%s %s %.*s", c.status ? "True" : "False", c.reason,
                                            SW_SLICE_ARG(c.message)),
                            cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(conditions)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
