/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and the refusals a kube-apiserver recorded for them. */
static const struct refusal recorded[] = {
    {"Widget", "", "spec: Required value"},
    {"Widget", "spec: {}", "spec.size: Required value"},
    {"Widget", "spec: {size: \"1\"}",
     "spec.size: Invalid value: \"string\": spec.size in body must be of type integer: \"string\""},
    {"Widget", "spec: {size: 1.5}",
     "spec.size: Invalid value: \"number\": spec.size in body must be of type integer: \"number\""},
    {"Widget", "spec: {size: 1.0}", ""},
    {"Widget", "spec: {size: 2147483648}",
     "spec.size: Invalid value: 2147483648: spec.size in body should be less than or equal to 100"},
    {"Widget", "spec: {size: true}",
     "spec.size: Invalid value: \"boolean\": spec.size in body must be of type integer: "
     "\"boolean\""},
    {"Widget", "spec: {size: 1, hosts: text}",
     "spec.hosts: Invalid value: \"string\": spec.hosts in body must be of type array: \"string\""},
    {"Widget", "spec: {size: 1, hosts: [1, null]}",
     "spec.hosts[0]: Invalid value: \"integer\": spec.hosts[0] in body must be of type string: "
     "\"integer\"\nspec.hosts[1]: Invalid value: \"null\": spec.hosts[1] in body must be of type "
     "string: \"null\""},
    {"Widget", "spec: {size: 1, enabled: \"true\"}",
     "spec.enabled: Invalid value: \"string\": spec.enabled in body must be of type boolean: "
     "\"string\""},
    {"Widget", "spec: {size: 1, limits: [a]}",
     "spec.limits: Invalid value: \"array\": spec.limits in body must be of type object: "
     "\"array\""},
    {"Widget", "spec: {size: 1, ports: [{name: a}, {port: 1}]}",
     "spec.ports[0].port: Required value\nspec.ports[1].name: Required value"},
    {"Widget", "spec: {size: 1, ports: [{name: a, port: \"1\"}]}",
     "spec.ports[0].port: Invalid value: \"string\": spec.ports[0].port in body must be of type "
     "integer: \"string\""},
    {"Widget", "spec: {color: pink, ports: [{port: 0}]}",
     "spec.color: Unsupported value: \"pink\": supported values: \"red\", \"green\", "
     "\"blue\"\nspec.ports[0].name: Required value\nspec.ports[0].port: Invalid value: 0: "
     "spec.ports[0].port in body should be greater than or equal to 1\nspec.size: Required value"},
    {"Check", "spec: [1]",
     "spec: Invalid value: \"array\": spec in body must be of type object: \"array\""},
    {"Check", "spec: text",
     "spec: Invalid value: \"string\": spec in body must be of type object: \"string\""},
    {"Check", "spec: null", "spec: Required value"},
    {"Check", "spec: {text: a}",
     "spec.text: Invalid value: \"a\": spec.text in body should be at least 2 chars long"},
    {"Check", "spec: {text: abcdefg}", "spec.text: Too long: may not be more than 6 bytes"},
    {"Check", "spec: {text: \"äöüäöü\"}", ""},
    {"Check", "spec: {few: []}",
     "spec.few: Invalid value: 0: spec.few in body should have at least 1 items"},
    {"Check", "spec: {few: [a, b, c]}", "spec.few: Too many: 3: must have at most 2 items"},
    {"Check", "spec: {unique: [a, b, a]}", "spec.unique[2]: Duplicate value: \"a\""},
    {"Check", "spec: {unique: [a, b, a, b]}",
     "spec.unique[2]: Duplicate value: \"a\"\nspec.unique[3]: Duplicate value: \"b\""},
    {"Check", "spec: {keyed: [{host: a, port: 1}, {host: a, port: 1}]}",
     "spec.keyed[1]: Duplicate value: map[string]interface {}{\"host\":\"a\", \"port\":1}"},
    {"Check", "spec: {keyed: [{port: 1}]}", "spec.keyed[0].host: Required value"},
    {"Check", "spec: {bag: {}}",
     "spec.bag: Invalid value: 0: spec.bag in body should have at least 1 properties"},
    {"Check", "spec: {bag: {a: 1, b: 2, c: 3}}",
     "spec.bag: Too many: 3: must have at most 2 items"},
    {"Check", "spec: {bag: {a: -1}}",
     "spec.bag.a: Invalid value: -1: spec.bag.a in body should be greater than or equal to 0"},
    {"Check", "spec: {bag: {a: x}}",
     "spec.bag.a: Invalid value: \"string\": spec.bag.a in body must be of type integer: "
     "\"string\""},
    {"Check", "spec: {needs: {a: x}}", "spec.needs.b: Required value"},
    {"Check", "spec: {needs: {}}", "spec.needs.a: Required value\nspec.needs.b: Required value"},
    {"Check", "spec: {needs: null}", ""},
    {"Check",
     "spec: {few: [ok], unique: [a, b], keyed: [{host: a}, {host: b}], bag: {a: 0}, text: abcdef}",
     ""},
    {"Check", "spec: {one: {}}",
     "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). "
     "Found none valid\nspec.one.p: Required value"},
    {"Check", "spec: {one: {p: x}}", ""},
    {"Check", "spec: {one: {p: x, q: z}}",
     "<nil>: Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). "
     "Found 2 valid alternatives"},
    {"Check", "spec: {any: {}}",
     "<nil>: Invalid value: \"\": \"spec.any\" must validate at least one schema "
     "(anyOf)\nspec.any.p: Required value"},
    {"Check", "spec: {any: {p: x, q: z}}", ""},
    {"Check", "spec: {both: 1}",
     "<nil>: Invalid value: \"\": \"spec.both\" must validate all the schemas (allOf)\nspec.both: "
     "Invalid value: 1: spec.both in body should be greater than or equal to 3"},
    {"Check", "spec: {never: forbidden}",
     "<nil>: Invalid value: \"\": \"spec.never\" must not validate the schema (not)"},
    {"Check", "spec: {never: fine}", ""},
    {"Check", "spec: {one: {p: 1}}",
     "spec.one.p: Invalid value: \"integer\": spec.one.p in body must be of type string: "
     "\"integer\""},
    {"Check", "spec: {one: {}, any: {}}",
     "<nil>: Invalid value: \"\": \"spec.any\" must validate at least one schema (anyOf)\n<nil>: "
     "Invalid value: \"\": \"spec.one\" must validate one and only one schema (oneOf). Found none "
     "valid\nspec.any.p: Required value\nspec.one.p: Required value"},
};
