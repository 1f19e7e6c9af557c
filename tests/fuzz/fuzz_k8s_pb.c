/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf bodies: what decodes is a well-formed tree that fits the type it came from. */
#include <assert.h>

#include "base/json.h"
#include "kube/builtin/builtin.h"
#include "kube/builtin/protobuf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    SW_ARENA_AUTO a = {0};
    struct sw_slice api, kind;
    struct sw_json *v, *again;
    struct sw_err err = {0};
    const struct sw_pb_type *t;
    const char *why = NULL;
    int rc = sw_pb_decode(&a, sw_slice(data, size), &v, &err);

    if (rc < 0) {
        assert(err.msg[0]);
        return 0;
    }
    api = sw_json_str(sw_json_get(v, SW_SLICE_LIT("apiVersion")));
    kind = sw_json_str(sw_json_get(v, SW_SLICE_LIT("kind")));
    rc = sw_json_parse(&a, sw_json_text(&a, v, NULL), NULL, &again, &err);
    assert(rc == SW_OK && sw_json_equal(v, again, SW_JSON_EQ_TEXT));
    if (sw_slice_eq_str(kind, "Event") && sw_slice_eq_str(api, "events.k8s.io/v1"))
        kind = SW_SLICE_LIT("EventV1");
    t = sw_builtin_type(kind);
    assert(t);
    rc = sw_builtin_decode(&a, t->schema, v, NULL, &why);
    assert(rc == SW_OK);
    return 0;
}
