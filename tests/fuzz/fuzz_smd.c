/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structured merge: input is a JSON array [live, config, update]. Applying twice is applying once,
 * an applied configuration is contained in the result, field sets survive their encoding.
 */
#include <assert.h>

#include "base/json.h"
#include "kube/apply/managed.h"
#include "kube/apply/patch.h"
#include "kube/apply/smd.h"
#include "kube/builtin/builtin.h"
#include "kube/crd/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char schema_text[] =
    "{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":{\"a\":{"
    "\"type\":\"string\"},\"n\":{\"type\":\"integer\"},\"set\":{\"type\":\"array\","
    "\"x-kubernetes-list-type\":\"set\",\"items\":{\"type\":\"string\"}},\"atom\":{\"type\":"
    "\"array\",\"items\":{\"type\":\"string\"}},\"map\":{\"type\":\"object\","
    "\"additionalProperties\":{\"type\":\"string\"}},\"ports\":{\"type\":\"array\","
    "\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"p\",\"q\"],\"items\":{"
    "\"type\":\"object\",\"required\":[\"p\"],\"properties\":{\"p\":{\"type\":\"integer\"},\"q\":{"
    "\"type\":\"string\",\"default\":\"TCP\"},\"v\":{\"type\":\"string\"}}}},\"free\":{\"type\":"
    "\"object\",\"x-kubernetes-preserve-unknown-fields\":true}}},\"status\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true}}}";

static struct sw_schema_set set;

static void setup(void)
{
    struct sw_json *v;
    struct sw_field_errs e;
    int rc;

    if (set.root)
        return;
    sw_field_errs_init(&e, &set.arena);
    rc = sw_json_parse(&set.arena, SW_SLICE_LIT(schema_text), NULL, &v, NULL);
    assert(rc == SW_OK);
    rc = sw_schema_compile(&set, v, NULL, &e);
    assert(rc == SW_OK);
}

static void check_apply(struct sw_smd *c, const struct sw_json *live, const struct sw_json *config)
{
    struct sw_smd_result r = sw_smd_apply(c, live, config, true);
    struct sw_smd_result again;
    struct sw_fset *have, *want;

    (void)sw_smd_apply(c, live, config, false);
    if (r.status != SW_SMD_OK) {
        assert(r.message);
        return;
    }
    want = sw_smd_fieldset(c, config);
    have = sw_smd_fieldset(c, r.object);
    assert(sw_fset_empty(sw_fset_minus(c->arena, want, have)) || sw_json_find(config, "metadata"));
    assert(sw_fset_equal(want, sw_fset_decode(c->arena, sw_fset_encode(c->arena, want))));
    again = sw_smd_apply(c, r.object, config, false);
    assert(again.status == SW_SMD_OK);
    assert(sw_json_equal(r.object, again.object, SW_JSON_EQ_VALUE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SW_ARENA_AUTO a = {0};
    const struct sw_json_opts opts = {.max_nodes = 2000, .max_depth = 40};
    struct sw_smd c = {.arena = &a,
                       .metadata = sw_object_meta_schema(),
                       .api_version = SW_SLICE_LIT("g/v1"),
                       .manager = SW_SLICE_LIT("m"),
                       .now = "2026-01-01T00:00:00Z"};
    struct sw_json *v, *out;
    const struct sw_json *live, *config;
    const char *why;

    setup();
    c.schema = set.root;
    if (sw_json_parse(&a, sw_slice(data, size), &opts, &v, NULL) < 0 || sw_json_len(v) < 2 ||
        v->type != SW_JSON_ARRAY)
        return 0;
    live = sw_json_at(v, 0);
    config = sw_json_at(v, 1);
    if (!sw_json_is(live, SW_JSON_OBJECT) || !sw_json_is(config, SW_JSON_OBJECT))
        return 0;
    check_apply(&c, live, config);
    check_apply(&c, NULL, config);
    if (sw_json_is(sw_json_at(v, 2), SW_JSON_OBJECT)) {
        struct sw_json *obj = sw_json_copy(&a, sw_json_at(v, 2));

        sw_smd_update(&c, live, obj);
        assert(sw_smd_equal_but_times(&a, obj, obj));
        (void)!sw_strategic_patch(&a, sw_builtin_schema("Service"), live, obj, &out, &why);
    }
    return 0;
}
