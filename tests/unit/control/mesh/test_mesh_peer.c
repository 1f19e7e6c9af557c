/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PeerAuthentication: all combinations of modes against what they mean, decided as nodes do on what
 * nodes get.
 */
#include "policy_rig.h"

#define PA SW_MESH_PEER_AUTHENTICATION
#define AP SW_MESH_AUTHORIZATION_POLICY

/* NONE: there is no such object, or the port is not mentioned. */
enum mode { NONE, MISSING, UNSET, DISABLE, PERMISSIVE, STRICT, MODES };

static const char *const mode_text[] = {
    "",
    "{}",
    "{'mtls':{'mode':'UNSET'}}",
    "{'mtls':{'mode':'DISABLE'}}",
    "{'mtls':{'mode':'PERMISSIVE'}}",
    "{'mtls':{'mode':'STRICT'}}",
};
static const char *const mode_name[] = {"", "", "UNSET", "DISABLE", "PERMISSIVE", "STRICT"};

enum { PORT_A = 80, PORT_B = 8080, OTHER = 9090 };

struct combination {
    enum mode mesh, space, workload, a, b;
};

/*
 * The meaning, from the innermost outwards: the first mode that says something decides; nothing
 * said allows plaintext.
 */
static bool plaintext_allowed(const struct combination *c, uint16_t port)
{
    enum mode of_port = port == PORT_A ? c->a : port == PORT_B ? c->b : NONE;
    enum mode inner_first[4] = {c->workload == NONE ? NONE : of_port, c->workload, c->space,
                                c->mesh};

    for (int i = 0; i < 4; i++) {
        if (inner_first[i] == STRICT)
            return false;
        if (inner_first[i] == PERMISSIVE || inner_first[i] == DISABLE)
            return true;
    }
    return true;
}

static const char *port_text(struct sw_arena *a, int port, enum mode m, const char *sep)
{
    if (m == NONE)
        return "";
    if (m == MISSING)
        return sw_arena_printf(a, "%s'%d':{}", sep, port);
    return sw_arena_printf(a, "%s'%d':{'mode':'%s'}", sep, port, mode_name[m]);
}

static void set_workload(struct rig *r, const struct combination *c)
{
    SW_ARENA_AUTO a = {0};
    const char *mtls = c->workload == MISSING
                           ? ""
                           : sw_arena_printf(&a, ",'mtls':{'mode':'%s'}", mode_name[c->workload]);
    const char *ports = "";

    if (c->workload == NONE) {
        rig_del(r, PA, "shop", "w");
        return;
    }
    if (c->a != NONE || c->b != NONE)
        ports = sw_arena_printf(&a, ",'portLevelMtls':{%s%s}", port_text(&a, PORT_A, c->a, ""),
                                port_text(&a, PORT_B, c->b, c->a == NONE ? "" : ","));
    rig_set(r, PA, "shop", "w",
            sw_arena_printf(&a, "{'selector':{'matchLabels':{'app':'cart'}}%s%s}", mtls, ports));
}

static void set_level(struct rig *r, const char *ns, enum mode m)
{
    if (m == NONE)
        rig_del(r, PA, ns, "default");
    else
        rig_set(r, PA, ns, "default", mode_text[m]);
}

static void check(struct rig *r, const struct combination *c)
{
    static const struct sw_spiffe somebody = {{"td", 2}, {"shop", 4}, {"x", 1}};
    static const uint16_t all[] = {PORT_A, PORT_B, OTHER};

    for (size_t i = 0; i < SW_ARRAY_LEN(all); i++) {
        struct sw_policy_request req = {.dst_port = all[i]};

        if (rig_allowed(r, "shop", "app=cart", &req) != plaintext_allowed(c, all[i]))
            fail_msg("mesh %d, namespace %d, workload %d, ports %d and %d: port %u must %s "
                     "plaintext; listed: %s",
                     c->mesh, c->space, c->workload, c->a, c->b, all[i],
                     plaintext_allowed(c, all[i]) ? "allow" : "refuse",
                     rig_keys(r, "shop", "app=cart"));
        req.src = &somebody;
        assert_true(rig_allowed(r, "shop", "app=cart", &req));
    }
}

#define EACH(m) for (m = 0; m < MODES; m++)

/* One index lives through all of them, in an order that changes the innermost most often. */
static void every_combination_means_what_it_says(void **state)
{
    struct combination c = {0};
    struct rig r;
    size_t n = 0;

    (void)state;
    rig_open(&r, NULL);
    EACH(c.mesh)
    {
        set_level(&r, "istio-system", c.mesh);
        EACH(c.space)
        {
            set_level(&r, "shop", c.space);
            EACH(c.workload)
            EACH(c.a)
            EACH(c.b)
            {
                set_workload(&r, &c);
                rig_flush(&r);
                check(&r, &c);
                sw_arena_clear(&r.arena);
                n++;
            }
        }
    }
    assert_int_equal(n, MODES * MODES * MODES * MODES * MODES);
    rig_close(&r);
}

/* The same with the outermost changed last: what was converted before must follow. */
static void outer_levels_that_change_are_followed(void **state)
{
    struct combination c = {0};
    struct rig r;

    (void)state;
    rig_open(&r, NULL);
    EACH(c.workload)
    EACH(c.a)
    {
        c.b = STRICT;
        set_workload(&r, &c);
        EACH(c.space)
        {
            set_level(&r, "shop", c.space);
            EACH(c.mesh)
            {
                set_level(&r, "istio-system", c.mesh);
                rig_flush(&r);
                check(&r, &c);
                sw_arena_clear(&r.arena);
            }
        }
    }
    rig_close(&r);
}

#define STATIC    "istio-system/istio_converted_static_strict"
#define CONVERTED "shop/converted_peer_authentication_w"
#define CART      "'selector':{'matchLabels':{'app':'cart'}}"
#define MTLS(m)   "'mtls':{'mode':'" m "'}"
#define PORTS(p)  "'portLevelMtls':{" p "}"

/* Names and shapes that nodes and tools know. */
static void resources_have_the_known_shape(void **state)
{
    static const struct {
        const char *mesh;
        const char *space;
        const char *workload;
        const char *keys;
        const char *text;
    } cases[] = {
        {NULL, NULL, NULL, "", "-"},
        {"{" MTLS("STRICT") "}", NULL, NULL, STATIC, "-"},
        {"{" MTLS("STRICT") "}", "{" MTLS("PERMISSIVE") "}", NULL, "", "-"},
        {"{" MTLS("STRICT") "}", "{'selector':{}}", NULL, STATIC, "-"},
        {NULL, NULL, "{" CART "," MTLS("STRICT") "," PORTS("'80':{'mode':'DISABLE'}") "}",
         CONVERTED, "DENY SELECTOR ({ !id=* } & { !port=80 })"},
        {NULL, NULL, "{" CART "," MTLS("STRICT") "," PORTS("'80':{'mode':'STRICT'}") "}", STATIC,
         "-"},
        {NULL, NULL,
         "{" CART
         "," MTLS("PERMISSIVE") "," PORTS("'443':{'mode':'STRICT'},'80':{'mode':'STRICT'}") "}",
         CONVERTED, "DENY SELECTOR ({ !id=* port=80 }) ({ !id=* port=443 })"},
        /* the combinations that refuse too little elsewhere */
        {"{" MTLS("STRICT") "}", NULL,
         "{" CART "," MTLS("DISABLE") "," PORTS("'80':{'mode':'STRICT'}") "}", CONVERTED,
         "DENY SELECTOR ({ !id=* port=80 })"},
        {"{" MTLS("STRICT") "}", "{" MTLS("UNSET") "}",
         "{" CART "," PORTS("'80':{'mode':'PERMISSIVE'}") "}", CONVERTED,
         "DENY SELECTOR ({ !id=* } & { !port=80 })"},
        {"{" MTLS("STRICT") "}", NULL, "{" CART "," PORTS("'80':{'mode':'DISABLE'}") "}", CONVERTED,
         "DENY SELECTOR ({ !id=* } & { !port=80 })"},
        {NULL, NULL, "{" CART "," PORTS("'80':{'mode':'UNSET'}") "}", "", "-"},
        /* one port in two spellings, and a mode of the future */
        {NULL, NULL, "{" CART "," PORTS("'80':{'mode':'PERMISSIVE'},'080':{'mode':'STRICT'}") "}",
         CONVERTED, "DENY SELECTOR ({ !id=* port=80 })"},
        {"{" MTLS("STRICTER") "}", NULL, NULL, STATIC, "-"},
        {NULL, NULL, "{" CART "," PORTS("'0':{'mode':'STRICT'},'x':{'mode':'STRICT'}") "}", "",
         "-"},
    };

    (void)state;
    for (size_t i = 0; i < SW_ARRAY_LEN(cases); i++) {
        struct rig r;

        rig_open(&r, NULL);
        if (cases[i].mesh)
            rig_set(&r, PA, "istio-system", "default", cases[i].mesh);
        if (cases[i].space)
            rig_set(&r, PA, "shop", "default", cases[i].space);
        if (cases[i].workload)
            rig_set(&r, PA, "shop", "w", cases[i].workload);
        rig_flush(&r);
        assert_string_equal(rig_keys(&r, "shop", "app=cart"), cases[i].keys);
        assert_string_equal(rig_text(&r, CONVERTED), cases[i].text);
        assert_string_equal(rig_text(&r, STATIC), i == 0 ? "-" : "DENY SELECTOR ({ !id=* })");
        rig_close(&r);
    }
}

static void the_oldest_of_a_level_counts(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL);
    rig_set_created(&r, PA, "shop", "b", "{" MTLS("STRICT") "}", "2026-01-01T00:00:00Z");
    rig_set_created(&r, PA, "shop", "a", "{" MTLS("PERMISSIVE") "}", "2026-01-02T00:00:00Z");
    assert_string_equal(rig_keys(&r, "shop", "app=cart"), STATIC);
    rig_del(&r, PA, "shop", "b");
    assert_string_equal(rig_keys(&r, "shop", "app=cart"), "");
    rig_set_created(&r, PA, "shop", "Z", "{" MTLS("STRICT") "}", "2026-01-02T00:00:00Z");
    assert_string_equal(rig_keys(&r, "shop", "app=cart"), STATIC); /* by name: Z before a */
    rig_set_created(&r, PA, "shop", "w1", "{" CART "," MTLS("PERMISSIVE") "}",
                    "2026-01-03T00:00:00Z");
    rig_set_created(&r, PA, "shop", "w2",
                    "{'selector':{'matchLabels':{'tier':'x'}}," MTLS("STRICT") "}",
                    "2026-01-02T00:00:00Z");
    assert_string_equal(rig_keys(&r, "shop", "app=cart"), "");
    assert_string_equal(rig_keys(&r, "shop", "app=cart,tier=x"), STATIC);
    assert_string_equal(rig_keys(&r, "shop", "app=cart,tier=y"), "");
    rig_close(&r);
}

static void selectors_in_the_root_namespace_are_ignored(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL);
    rig_set(&r, PA, "istio-system", "w", "{" CART "," MTLS("STRICT") "}");
    rig_flush(&r);
    assert_string_equal(rig_keys(&r, "shop", "app=cart"), "");
    assert_string_equal(rig_keys(&r, "istio-system", "app=cart"), "");
    rig_set(&r, PA, "istio-system", "m", "{" MTLS("STRICT") "}");
    assert_string_equal(rig_keys(&r, "istio-system", "app=cart"), STATIC);
    rig_close(&r);
}

static void the_static_policy_goes_with_the_last_object(void **state)
{
    struct rig r;

    (void)state;
    rig_open(&r, NULL);
    rig_set(&r, PA, "shop", "a", "{}");
    rig_set(&r, PA, "other", "b", "{}");
    rig_flush(&r);
    assert_int_equal(r.changes, 1);
    rig_del(&r, PA, "shop", "a");
    rig_flush(&r);
    assert_int_equal(r.changes, 0);
    rig_del(&r, PA, "other", "b");
    rig_flush(&r);
    assert_int_equal(r.changes, 1);
    assert_int_equal(r.resources.n, 0);
    rig_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_combination_means_what_it_says),
        cmocka_unit_test(outer_levels_that_change_are_followed),
        cmocka_unit_test(resources_have_the_known_shape),
        cmocka_unit_test(the_oldest_of_a_level_counts),
        cmocka_unit_test(selectors_in_the_root_namespace_are_ignored),
        cmocka_unit_test(the_static_policy_goes_with_the_last_object),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
