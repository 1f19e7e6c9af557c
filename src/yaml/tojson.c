/* SPDX-License-Identifier: Apache-2.0 */
/* A YAML document as JSON, for readers that work on JSON. */
#include "base/json.h"
#include "yaml/yaml.h"

enum { DEPTH_MAX = 64 };

static struct sw_json *scalar(struct sw_arena *a, const struct sw_yaml *y)
{
    switch (sw_yaml_type(y)) {
    case SW_YAML_NULL:
        return sw_json_new_null(a);
    case SW_YAML_BOOL:
        return sw_json_new_bool(a, y->text.n && (y->text.p[0] | 0x20) == 't');
    case SW_YAML_INT:
    case SW_YAML_FLOAT:
        if (sw_json_number_valid(y->text))
            return sw_json_new_number(a, y->text);
        break; /* a form that JSON has not: 0x10, .inf */
    case SW_YAML_STR:
        break;
    }
    return sw_json_new_string(a, y->text);
}

static struct sw_json *convert(struct sw_arena *a, const struct sw_yaml *y, unsigned depth)
{
    struct sw_json *v;

    if (depth > DEPTH_MAX)
        return sw_json_new_null(a);
    if (y->kind == SW_YAML_SCALAR)
        return scalar(a, y);
    v = y->kind == SW_YAML_MAP ? sw_json_new_object(a) : sw_json_new_array(a);
    SW_YAML_FOREACH (it, y) {
        if (y->kind == SW_YAML_MAP)
            sw_json_set(a, v, it->key->text, convert(a, it, depth + 1));
        else
            sw_json_push(a, v, convert(a, it, depth + 1));
    }
    return v;
}

struct sw_json *sw_yaml_to_json(struct sw_arena *a, const struct sw_yaml *y)
{
    return convert(a, y, 0);
}
