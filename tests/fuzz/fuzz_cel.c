/* SPDX-License-Identifier: Apache-2.0 */
/* CEL: compiling never crashes, evaluation is deterministic and stays within its cost. */
#include <assert.h>

#include "base/json.h"
#include "kube/cel/cel.h"
#include "kube/crd/schema.h"
#include "kube/schema/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char schema_text[] =
    "{\"type\":\"object\",\"properties\":{\"i\":{\"type\":\"integer\"},\"d\":{\"type\":\"number\"},"
    "\"s\":{\"type\":\"string\"},\"b\":{\"type\":\"boolean\"},\"l\":{\"type\":\"array\",\"items\":{"
    "\"type\":\"integer\"}},\"set\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"set\","
    "\"items\":"
    "{\"type\":\"string\"}},\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":"
    "\"string\"}},\"x\":{\"x-kubernetes-int-or-string\":true},\"t\":{\"type\":\"string\","
    "\"format\":"
    "\"date-time\"}}}";
static const char self_text[] = "{\"i\":5,\"d\":2.5,\"s\":\"h\\u00e9llo\",\"b\":true,\"l\":[3,1,2],"
                                "\"set\":[\"a\",\"b\"],\"m\":{"
                                "\"k\":\"v\"},\"x\":7,\"t\":\"2020-01-02T03:04:05Z\"}";

static struct sw_schema_set set;
static struct sw_json *self;

static void setup(void)
{
    struct sw_json *v;
    struct sw_field_errs e;
    int rc;

    if (self)
        return;
    sw_field_errs_init(&e, &set.arena);
    rc = sw_json_parse(&set.arena, SW_SLICE_LIT(schema_text), NULL, &v, NULL);
    assert(rc == SW_OK);
    rc = sw_schema_compile(&set, v, NULL, &e);
    assert(rc == SW_OK);
    rc = sw_json_parse(&set.arena, SW_SLICE_LIT(self_text), NULL, &self, NULL);
    assert(rc == SW_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice src = sw_slice(data, size);
    struct sw_cel *c, *stored;
    const char *why = NULL;
    struct sw_cel_result x, y;

    setup();
    if (size > 4096)
        return 0;
    if (sw_cel_compile(&a, src, set.root, 0, &c, &why) < 0) {
        assert(why);
        return 0;
    }
    assert(sw_cel_cost(c) == sw_cel_cost(c));
    /* What may be written anew may also be stored. */
    assert(sw_cel_compile(&a, src, set.root, SW_CEL_STORED, &stored, &why) == SW_OK);
    assert(sw_cel_cost(stored) == sw_cel_cost(c));
    sw_cel_free(stored);
    x = sw_cel_eval(c, &a, self, self, 20000, NULL);
    y = sw_cel_eval(c, &a, self, self, 20000, NULL);
    /* The second time an automaton is there already: only the end of the work may differ. */
    if (x.outcome != SW_CEL_COST)
        assert(x.outcome == y.outcome && x.cost == y.cost && sw_slice_eq(x.text, y.text));
    assert(x.outcome != SW_CEL_STRING);
    assert((x.cost > 20000) == (x.outcome == SW_CEL_COST));
    sw_cel_free(c);
    return 0;
}
