/* SPDX-License-Identifier: Apache-2.0 */
/* Objects and the refusals a kube-apiserver recorded for them. */
#define NIL_CAUSE                                                                                  \
    "<nil>: Invalid value: \"null\": some validation rules were not checked because the object "   \
    "was invalid; correct the existing errors to complete validation"

static const struct refusal standard_cases[] = {
    {"Gateway", "",
     "" NIL_CAUSE "\nspec.gatewayClassName: Required value\nspec.listeners: Required value"},
    {"Gateway", "gatewayClassName: x", "" NIL_CAUSE "\nspec.listeners: Required value"},
    {"Gateway", "gatewayClassName: x, listeners: []",
     "spec.listeners: Invalid value: 0: spec.listeners in body should have at least 1 items"},
    {"Gateway", "gatewayClassName: \"\", listeners: [{name: a, port: 80, protocol: HTTP}]",
     "spec.gatewayClassName: Invalid value: \"\": spec.gatewayClassName in body should be at least "
     "1 chars long"},
    {"Gateway", "gatewayClassName: x, listeners: [{name: a, protocol: HTTP}]",
     "" NIL_CAUSE "\nspec.listeners[0].port: Required value"},
    {"Gateway", "gatewayClassName: x, listeners: [{port: 80, protocol: HTTP}]",
     "" NIL_CAUSE "\nspec.listeners[0].name: Required value"},
    {"Gateway", "gatewayClassName: x, listeners: [{name: a, port: 0, protocol: HTTP}]",
     "spec.listeners[0].port: Invalid value: 0: spec.listeners[0].port in body should be greater "
     "than or equal to 1"},
    {"Gateway", "gatewayClassName: x, listeners: [{name: a, port: 65536, protocol: HTTP}]",
     "spec.listeners[0].port: Invalid value: 65536: spec.listeners[0].port in body should be less "
     "than or equal to 65535"},
    {"Gateway", "gatewayClassName: x, listeners: [{name: A_b, port: 80, protocol: HTTP}]",
     "spec.listeners[0].name: Invalid value: \"A_b\": spec.listeners[0].name in body should match "
     "'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'"},
    {"Gateway", "gatewayClassName: x, listeners: [{name: a, port: 80, protocol: \"not ok\"}]",
     "spec.listeners[0].protocol: Invalid value: \"not ok\": spec.listeners[0].protocol in body "
     "should match "
     "'^[a-zA-Z0-9]([-a-zA-Z0-9]*[a-zA-Z0-9])?$|[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]"
     "*[a-z0-9])?)*\\/[A-Za-z0-9]+$'"},
    {"Gateway",
     "gatewayClassName: x, listeners: [{name: a, port: 80, protocol: HTTP, hostname: \"bad "
     "host\"}]",
     "spec.listeners[0].hostname: Invalid value: \"bad host\": spec.listeners[0].hostname in body "
     "should match '^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'"},
    {"Gateway",
     "gatewayClassName: x, listeners: [{name: a, port: 80, protocol: HTTP, hostname: \"*\"}]",
     "spec.listeners[0].hostname: Invalid value: \"*\": spec.listeners[0].hostname in body should "
     "match '^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'"},
    {"Gateway",
     "gatewayClassName: x, listeners: [{name: a, port: 80, protocol: HTTP, allowedRoutes: "
     "{namespaces: {from: Everywhere}}}]",
     "" NIL_CAUSE "\nspec.listeners[0].allowedRoutes.namespaces.from: Unsupported value: "
     "\"Everywhere\": supported values: \"All\", \"Selector\", \"Same\""},
    {"Gateway",
     "gatewayClassName: x, listeners: [{name: a, port: 443, protocol: HTTPS, tls: "
     "{certificateRefs: [{}]}}]",
     "" NIL_CAUSE "\nspec.listeners[0].tls.certificateRefs[0].name: Required value"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: PathPrefix, value: relative}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": value must be an absolute path and "
     "start with '/' when type one of ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Exact, value: /a//b}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must not contain '//' when type "
     "one of ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: PathPrefix, value: /a/./b}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must not contain '/./' when type "
     "one of ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: PathPrefix, value: /a/../b}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must not contain '/../' when type "
     "one of ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Exact, value: /a%2fb}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must not contain '%2f' when type "
     "one of ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Exact, value: /a%2Fb}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must not contain '%2F' when type "
     "one of ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Exact, value: \"/a#b\"}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must not contain '#' when type one "
     "of ['Exact', 'PathPrefix']\nspec.rules[0].matches[0].path: Invalid value: \"object\": must "
     "only contain valid characters (matching "
     "^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$) for types ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Exact, value: /a/..}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must not end with '/..' when type "
     "one of ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Exact, value: /a/.}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must not end with '/.' when type "
     "one of ['Exact', 'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Glob, value: /a}}]}]",
     "" NIL_CAUSE "\nspec.rules[0].matches[0].path.type: Unsupported value: \"Glob\": supported "
     "values: \"Exact\", \"PathPrefix\", \"RegularExpression\""},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Exact, value: \"/a b\"}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must only contain valid characters "
     "(matching ^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$) for types ['Exact', "
     "'PathPrefix']"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: Exact, value: \"/a%zz\"}}]}]",
     "spec.rules[0].matches[0].path: Invalid value: \"object\": must only contain valid characters "
     "(matching ^(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|[%][0-9a-fA-F]{2})+$) for types ['Exact', "
     "'PathPrefix']"},
    {"HTTPRoute",
     "rules: [{matches: [{path: {value: "
     "/xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
     "xxx}}]}]",
     "" NIL_CAUSE
     "\nspec.rules[0].matches[0].path.value: Too long: may not be more than 1024 bytes"},
    {"HTTPRoute", "rules: [{matches: [{path: {type: RegularExpression, value: \"a//b(\"}}]}]", ""},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: a.example.com}}, "
     "{type: URLRewrite, urlRewrite: {hostname: a.example.com}}], }]",
     "spec.rules[0].filters: Invalid value: \"array\": May specify either "
     "httpRouteFilterRequestRedirect or httpRouteFilterRequestRewrite, but not both"},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: a.example.com}}, "
     "{type: RequestRedirect, requestRedirect: {hostname: a.example.com}}], }]",
     "spec.rules[0].filters: Invalid value: \"array\": RequestRedirect filter cannot be repeated"},
    {"HTTPRoute",
     "rules: [{filters: [{type: URLRewrite, urlRewrite: {hostname: a.example.com}}, {type: "
     "URLRewrite, urlRewrite: {hostname: a.example.com}}], }]",
     "spec.rules[0].filters: Invalid value: \"array\": URLRewrite filter cannot be repeated"},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, "
     "value: b}]}}, {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: "
     "b}]}}], }]",
     "spec.rules[0].filters: Invalid value: \"array\": RequestHeaderModifier filter cannot be "
     "repeated"},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: a.example.com}}], "
     "backendRefs: [{name: s, port: 80}]}]",
     "spec.rules[0]: Invalid value: \"object\": RequestRedirect filter must not be used together "
     "with backendRefs"},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestRedirect, requestRedirect: {path: {type: "
     "ReplacePrefixMatch, replacePrefixMatch: /x}}}], matches: [{path: {type: Exact, value: "
     "/a}}]}]",
     "spec.rules[0]: Invalid value: \"object\": When using RequestRedirect filter with "
     "path.replacePrefixMatch, exactly one PathPrefix match must be specified"},
    {"HTTPRoute",
     "rules: [{filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, "
     "replacePrefixMatch: /x}}}], matches: [{path: {value: /a}}, {path: {value: /b}}]}]",
     "spec.rules[0]: Invalid value: \"object\": When using URLRewrite filter with "
     "path.replacePrefixMatch, exactly one PathPrefix match must be specified"},
    {"HTTPRoute",
     "rules: [{backendRefs: [{name: s, port: 80, filters: [{type: RequestHeaderModifier, "
     "requestHeaderModifier: {set: [{name: a, value: b}]}}, {type: RequestHeaderModifier, "
     "requestHeaderModifier: {set: [{name: a, value: b}]}}]}]}]",
     "spec.rules[0].backendRefs[0].filters: Invalid value: \"array\": RequestHeaderModifier filter "
     "cannot be repeated"},
    {"HTTPRoute",
     "rules: [{backendRefs: [{name: s, port: 80, filters: [{type: URLRewrite, urlRewrite: {path: "
     "{type: ReplacePrefixMatch, replacePrefixMatch: /x}}}]}], matches: [{path: {type: Exact, "
     "value: /a}}]}]",
     "spec.rules[0]: Invalid value: \"object\": Within backendRefs, When using URLRewrite filter "
     "with path.replacePrefixMatch, exactly one PathPrefix match must be specified"},
    {"HTTPRoute",
     "rules: [{filters: [{type: ExtensionRef, extensionRef: {group: g.example.com, kind: K, name: "
     "ext}},{type: ExtensionRef, extensionRef: {group: g.example.com, kind: K, name: ext}},{type: "
     "ExtensionRef, extensionRef: {group: g.example.com, kind: K, name: ext}},{type: ExtensionRef, "
     "extensionRef: {group: g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: "
     "{group: g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},{type: ExtensionRef, extensionRef: {group: "
     "g.example.com, kind: K, name: ext}},], }]",
     "" NIL_CAUSE "\nspec.rules[0].filters: Too many: 17: must have at most 16 items"},
    {"HTTPRoute", "rules: [{backendRefs: [{name: s}]}]",
     "spec.rules[0].backendRefs[0]: Invalid value: \"object\": Must have port for Service "
     "reference"},
    {"HTTPRoute", "rules: [{backendRefs: [{name: s, kind: Service, group: \"\"}]}]",
     "spec.rules[0].backendRefs[0]: Invalid value: \"object\": Must have port for Service "
     "reference"},
    {"HTTPRoute", "rules: [{backendRefs: [{name: s, port: 0}]}]",
     "spec.rules[0].backendRefs[0].port: Invalid value: 0: spec.rules[0].backendRefs[0].port in "
     "body should be greater than or equal to 1"},
    {"HTTPRoute", "rules: [{backendRefs: [{name: s, port: 80, weight: -1}]}]",
     "spec.rules[0].backendRefs[0].weight: Invalid value: -1: spec.rules[0].backendRefs[0].weight "
     "in body should be greater than or equal to 0"},
    {"HTTPRoute", "rules: [{backendRefs: [{name: s, port: 80, weight: 1000001}]}]",
     "spec.rules[0].backendRefs[0].weight: Invalid value: 1000001: "
     "spec.rules[0].backendRefs[0].weight in body should be less than or equal to 1000000"},
    {"HTTPRoute", "rules: [{backendRefs: [{name: \"\", port: 80}]}]",
     "spec.rules[0].backendRefs[0].name: Invalid value: \"\": spec.rules[0].backendRefs[0].name in "
     "body should be at least 1 chars long"},
    {"HTTPRoute", "rules: [{backendRefs: [{port: 80}]}]",
     "" NIL_CAUSE "\nspec.rules[0].backendRefs[0].name: Required value"},
    {"HTTPRoute", "rules: [{backendRefs: [{name: s, kind: \"bad kind\", port: 80}]}]",
     "spec.rules[0].backendRefs[0].kind: Invalid value: \"bad kind\": "
     "spec.rules[0].backendRefs[0].kind in body should match "
     "'^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$'"},
    {"HTTPRoute",
     "rules: [{backendRefs: [{name: s, port: 80},{name: s, port: 80},{name: s, port: 80},{name: s, "
     "port: 80},{name: s, port: 80},{name: s, port: 80},{name: s, port: 80},{name: s, port: "
     "80},{name: s, port: 80},{name: s, port: 80},{name: s, port: 80},{name: s, port: 80},{name: "
     "s, port: 80},{name: s, port: 80},{name: s, port: 80},{name: s, port: 80},{name: s, port: "
     "80},]}]",
     "" NIL_CAUSE "\nspec.rules[0].backendRefs: Too many: 17: must have at most 16 items"},
    {"HTTPRoute", "rules: [{timeouts: {request: 1s, backendRequest: 2s}}]",
     "spec.rules[0].timeouts: Invalid value: \"object\": backendRequest timeout cannot be longer "
     "than request timeout"},
    {"HTTPRoute", "rules: [{timeouts: {request: 5 seconds}}]",
     "spec.rules[0].timeouts.request: Invalid value: \"5 seconds\": spec.rules[0].timeouts.request "
     "in body should match '^([0-9]{1,5}(h|m|s|ms)){1,4}$'"},
    {"HTTPRoute", "rules: [{timeouts: {request: 1.5s}}]",
     "spec.rules[0].timeouts.request: Invalid value: \"1.5s\": spec.rules[0].timeouts.request in "
     "body should match '^([0-9]{1,5}(h|m|s|ms)){1,4}$'"},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: s}}}]}]",
     "spec.rules[0].filters[0].requestMirror.backendRef: Invalid value: \"object\": Must have port "
     "for Service reference"},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: s, port: 80}, "
     "percent: 10, fraction: {numerator: 1}}}]}]",
     "spec.rules[0].filters[0].requestMirror: Invalid value: \"object\": Only one of percent or "
     "fraction may be specified in HTTPRequestMirrorFilter"},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: s, port: 80}, "
     "fraction: {numerator: 5, denominator: 4}}}]}]",
     "spec.rules[0].filters[0].requestMirror.fraction: Invalid value: \"object\": numerator must "
     "be less than or equal to denominator"},
    {"HTTPRoute",
     "rules: [{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: s, port: 80}, "
     "percent: 101}}]}]",
     "spec.rules[0].filters[0].requestMirror.percent: Invalid value: 101: "
     "spec.rules[0].filters[0].requestMirror.percent in body should be less than or equal to 100"},
    {"HTTPRoute", "rules: [{backendRefs: [{name: other, kind: Import, group: clusterlink.net}]}]",
     ""},
    {"HTTPRoute", "rules: [{matches: [{method: get}]}]",
     "" NIL_CAUSE
     "\nspec.rules[0].matches[0].method: Unsupported value: \"get\": supported values: \"GET\", "
     "\"HEAD\", \"POST\", \"PUT\", \"DELETE\", \"CONNECT\", \"OPTIONS\", \"TRACE\", \"PATCH\""},
    {"HTTPRoute", "rules: [{matches: [{headers: [{name: \"bad name\", value: v}]}]}]",
     "spec.rules[0].matches[0].headers[0].name: Invalid value: \"bad name\": "
     "spec.rules[0].matches[0].headers[0].name in body should match "
     "'^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$'"},
    {"HTTPRoute", "rules: [{matches: [{headers: [{name: a, value: \"\"}]}]}]",
     "spec.rules[0].matches[0].headers[0].value: Invalid value: \"\": "
     "spec.rules[0].matches[0].headers[0].value in body should be at least 1 chars long"},
    {"HTTPRoute", "rules: [{matches: [{headers: [{name: a}]}]}]",
     "" NIL_CAUSE "\nspec.rules[0].matches[0].headers[0].value: Required value"},
    {"HTTPRoute", "rules: [{matches: [{headers: [{name: a, value: v}, {name: a, value: w}]}]}]",
     "spec.rules[0].matches[0].headers[1]: Duplicate value: map[string]interface "
     "{}{\"name\":\"a\"}"},
    {"HTTPRoute", "rules: [{matches: [{headers: [{name: a, type: Prefix, value: v}]}]}]",
     "" NIL_CAUSE "\nspec.rules[0].matches[0].headers[0].type: Unsupported value: \"Prefix\": "
     "supported values: \"Exact\", \"RegularExpression\""},
    {"HTTPRoute", "rules: [{matches: [{queryParams: [{name: a, value: v}, {name: a, value: w}]}]}]",
     "spec.rules[0].matches[0].queryParams[1]: Duplicate value: map[string]interface "
     "{}{\"name\":\"a\"}"},
    {"HTTPRoute", "rules: [{matches: [{queryParams: [{name: \"sp ace\", value: v}]}]}]",
     "spec.rules[0].matches[0].queryParams[0].name: Invalid value: \"sp ace\": "
     "spec.rules[0].matches[0].queryParams[0].name in body should match "
     "'^[A-Za-z0-9!#$%&'*+\\-.^_\\x60|~]+$'"},
    {"HTTPRoute",
     "rules: [{matches: [{headers: [{name: h1, value: v},{name: h2, value: v},{name: h3, value: "
     "v},{name: h4, value: v},{name: h5, value: v},{name: h6, value: v},{name: h7, value: "
     "v},{name: h8, value: v},{name: h9, value: v},{name: h10, value: v},{name: h11, value: "
     "v},{name: h12, value: v},{name: h13, value: v},{name: h14, value: v},{name: h15, value: "
     "v},{name: h16, value: v},{name: h17, value: v},]}]}]",
     "" NIL_CAUSE "\nspec.rules[0].matches[0].headers: Too many: 17: must have at most 16 items"},
    {"HTTPRoute",
     "rules: [{matches: [{method: GET, headers: [{name: A, value: v}], queryParams: [{name: q, "
     "type: RegularExpression, value: \".*\"}]}]}]",
     ""},
    {"GRPCRoute", "rules: [{matches: [{method: {}}]}]",
     "spec.rules[0].matches[0].method: Invalid value: \"object\": One or both of 'service' or "
     "'method' must be specified"},
    {"GRPCRoute", "rules: [{matches: [{method: {type: Exact}}]}]",
     "spec.rules[0].matches[0].method: Invalid value: \"object\": One or both of 'service' or "
     "'method' must be specified"},
    {"GRPCRoute", "rules: [{matches: [{method: {service: \"bad service\"}}]}]",
     "spec.rules[0].matches[0].method: Invalid value: \"object\": service must only contain valid "
     "characters (matching ^(?i)\\.?[a-z_][a-z_0-9]*(\\.[a-z_][a-z_0-9]*)*$)"},
    {"GRPCRoute", "rules: [{matches: [{method: {method: \"bad/method\"}}]}]",
     "spec.rules[0].matches[0].method: Invalid value: \"object\": method must only contain valid "
     "characters (matching ^[A-Za-z_][A-Za-z_0-9]*$)"},
    {"GRPCRoute", "rules: [{matches: [{method: {type: Wild, service: a.B}}]}]",
     "" NIL_CAUSE "\nspec.rules[0].matches[0].method.type: Unsupported value: \"Wild\": supported "
     "values: \"Exact\", \"RegularExpression\""},
    {"GRPCRoute", "rules: [{filters: [{type: RequestMirror}]}]",
     "spec.rules[0].filters[0]: Invalid value: \"object\": filter.requestMirror must be specified "
     "for RequestMirror filter.type"},
    {"GRPCRoute", "rules: [{filters: [{type: URLRewrite}]}]",
     "" NIL_CAUSE
     "\nspec.rules[0].filters[0].type: Unsupported value: \"URLRewrite\": supported values: "
     "\"ResponseHeaderModifier\", \"RequestHeaderModifier\", \"RequestMirror\", \"ExtensionRef\""},
    {"GRPCRoute",
     "rules: [{filters: [{type: RequestHeaderModifier, requestHeaderModifier: {}}, {type: "
     "RequestHeaderModifier, requestHeaderModifier: {}}]}]",
     "spec.rules[0].filters: Invalid value: \"array\": RequestHeaderModifier filter cannot be "
     "repeated"},
    {"GRPCRoute", "rules: [{backendRefs: [{name: s}]}]",
     "spec.rules[0].backendRefs[0]: Invalid value: \"object\": Must have port for Service "
     "reference"},
    {"GRPCRoute", "parentRefs: [{name: g}, {name: g}]",
     "spec.parentRefs: Invalid value: \"array\": sectionName must be unique when parentRefs "
     "includes 2 or more references to the same parent"},
    {"GRPCRoute", "rules: [{matches: [{headers: [{name: a, value: b}, {name: a, value: c}]}]}]",
     "spec.rules[0].matches[0].headers[1]: Duplicate value: map[string]interface "
     "{}{\"name\":\"a\"}"},
    {"GRPCRoute",
     "rules: [{matches: "
     "[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}"
     ",{},{},{},{},{},{},{},{},{},{},{},{},]},{matches: "
     "[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}"
     ",{},{},{},{},{},{},{},{},{},{},{},{},]},{matches: "
     "[{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}"
     ",{},{},{},{},{},{},{},{},{},{},{},{},]},]",
     "spec.rules: Invalid value: \"array\": While 16 rules and 64 matches per rule are allowed, "
     "the total number of matches across all rules in a route must be less than 128"},
    {"GRPCRoute",
     "rules: [{matches: [{method: {type: RegularExpression, service: \".*\", method: "
     "\"Get.*\"}}]}]",
     ""},
    {"ReferenceGrant", "from: [], to: [{group: \"\", kind: Service}]",
     "spec.from: Invalid value: 0: spec.from in body should have at least 1 items"},
    {"ReferenceGrant",
     "from: [{group: gateway.networking.k8s.io, kind: HTTPRoute}], to: [{group: \"\", kind: "
     "Service}]",
     "spec.from[0].namespace: Required value"},
    {"ReferenceGrant",
     "from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: a}], to: [{group: "
     "\"\", kind: Service, name: s}]",
     ""},
    {"BackendTLSPolicy",
     "targetRefs: [{group: \"\", kind: Service, name: s}], validation: {hostname: a.example.com}",
     "spec.validation: Invalid value: \"object\": must specify either CACertificateRefs or "
     "WellKnownCACertificates"},
    {"BackendTLSPolicy",
     "targetRefs: [{group: \"\", kind: Service, name: s}], validation: {hostname: a.example.com, "
     "wellKnownCACertificates: System, caCertificateRefs: [{group: \"\", kind: ConfigMap, name: "
     "c}]}",
     "spec.validation: Invalid value: \"object\": must not contain both CACertificateRefs and "
     "WellKnownCACertificates"},
    {"BackendTLSPolicy",
     "targetRefs: [{group: \"\", kind: Service, name: s}, {group: \"\", kind: Service, name: s}], "
     "validation: {hostname: a.example.com, wellKnownCACertificates: System}",
     "spec.targetRefs: Invalid value: \"array\": sectionName must be unique when targetRefs "
     "includes 2 or more references to the same target"},
    {"BackendTLSPolicy",
     "targetRefs: [{group: \"\", kind: Service, name: s}], validation: {hostname: a.example.com, "
     "wellKnownCACertificates: System, subjectAltNames: [{type: URI}, {type: Hostname, uri: "
     "\"spiffe://a/b\"}]}",
     "spec.validation.subjectAltNames[0]: Invalid value: \"object\": SubjectAltName element must "
     "contain URI, if Type is set to URI\nspec.validation.subjectAltNames[1]: Invalid value: "
     "\"object\": SubjectAltName element must contain Hostname, if Type is set to "
     "Hostname\nspec.validation.subjectAltNames[1]: Invalid value: \"object\": SubjectAltName "
     "element must not contain URI, if Type is not set to URI"},
    {"BackendTLSPolicy", "targetRefs: [], validation: {wellKnownCACertificates: Other}",
     "" NIL_CAUSE
     "\nspec.targetRefs: Invalid value: 0: spec.targetRefs in body should have at least 1 "
     "items\nspec.validation.hostname: Required value\nspec.validation.wellKnownCACertificates: "
     "Invalid value: \"Other\": spec.validation.wellKnownCACertificates in body should match "
     "'^(System|([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
     "([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]))$'"},
    {"ListenerSet",
     "parentRef: {name: g}, listeners: [{name: a, port: 80, protocol: HTTP}, {name: a, port: 80, "
     "protocol: HTTP}]",
     "spec.listeners: Invalid value: \"array\": Combination of port, protocol and hostname must be "
     "unique for each listener\nspec.listeners: Invalid value: \"array\": Listener name must be "
     "unique within the Gateway\nspec.listeners[1]: Duplicate value: map[string]interface "
     "{}{\"name\":\"a\"}"},
    {"TCPRoute", "rules: [{backendRefs: [{name: s}]}]",
     "spec.rules[0].backendRefs[0]: Invalid value: \"object\": Must have port for Service "
     "reference"},
    {"UDPRoute", "rules: []",
     "spec.rules: Invalid value: 0: spec.rules in body should have at least 1 items"},
    {"TCPRoute",
     "parentRefs: [{name: g, sectionName: t}], rules: [{backendRefs: [{name: s, port: 1}]}]", ""},
};

/* Rules the recordings do not reach. */
static const struct refusal more_cases[] = {
    {"Gateway", "gatewayClassName: x, listeners: [{name: a, port: 80, protocol: HTTP, tls: {}}]",
     "spec.listeners: Invalid value: \"array\": tls must not be specified for protocols ['HTTP', "
     "'TCP', 'UDP']\nspec.listeners[0].tls: Invalid value: \"object\": no such key: "
     "certificateRefs evaluating rule: certificateRefs or options must be specified when mode is "
     "Terminate"},
    {"Gateway",
     "gatewayClassName: x, listeners: [{name: a, port: 443, protocol: HTTPS, tls: {mode: "
     "Passthrough}}]",
     "spec.listeners: Invalid value: \"array\": tls mode must be Terminate for protocol HTTPS"},
    {"Gateway", "gatewayClassName: x, listeners: [{name: a, port: 1, protocol: TCP, hostname: h}]",
     "spec.listeners: Invalid value: \"array\": hostname must not be specified for protocols "
     "['TCP', 'UDP']"},
    {"Gateway",
     "gatewayClassName: x, listeners: [{name: a, port: 1, protocol: TCP}, {name: b, port: 1, "
     "protocol: TCP}]",
     "spec.listeners: Invalid value: \"array\": Combination of port, protocol and hostname must "
     "be unique for each listener"},
    {"Gateway",
     "gatewayClassName: x, addresses: [{value: 1.2.3.4}, {value: 1.2.3.4}], listeners: [{name: a, "
     "port: 1, protocol: TCP}]",
     "spec.addresses: Invalid value: \"array\": IPAddress values must be unique"},
    {"Gateway",
     "gatewayClassName: x, addresses: [{type: Hostname, value: h}, {type: Hostname, value: h}], "
     "listeners: [{name: a, port: 1, protocol: TCP}]",
     "spec.addresses: Invalid value: \"array\": Hostname values must be unique"},
    {"HTTPRoute",
     "rules: [{filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, "
     "replacePrefixMatch: /x}}}]}]",
     "spec.rules[0].filters[0].urlRewrite.path: Invalid value: \"object\": replaceFullPath must "
     "be specified when type is set to 'ReplaceFullPath'\n"
     "spec.rules[0].filters[0].urlRewrite.path: Invalid value: \"object\": type must be "
     "'ReplacePrefixMatch' when replacePrefixMatch is set"},
    {"HTTPRoute", "parentRefs: [{name: g}, {name: g}]",
     "spec.parentRefs: Invalid value: \"array\": sectionName must be unique when parentRefs "
     "includes 2 or more references to the same parent"},
    {"HTTPRoute", "parentRefs: [{name: g, sectionName: a}, {name: g, sectionName: b}]", ""},
    {"HTTPRoute", "parentRefs: [{name: g, namespace: a}, {name: g, namespace: b}]", ""},
    {"HTTPRoute", "parentRefs: [{name: g, sectionName: a}, {name: g}]",
     "spec.parentRefs: Invalid value: \"array\": sectionName must be specified when parentRefs "
     "includes 2 or more references to the same parent"},
    {"TLSRoute", "hostnames: [1.2.3.4], rules: [{backendRefs: [{name: s, port: 1}]}]",
     "spec.hostnames: Invalid value: \"array\": Hostnames cannot contain an IP"},
    {"TLSRoute", "hostnames: ['*.a.example'], rules: [{backendRefs: [{name: s, port: 1}]}]", ""},
};

static const struct refusal experimental_cases[] = {
    {"XBackend",
     "type: ExternalHostname, externalHostname: {hostname: a.cluster.local}, port: {port: 80, "
     "name: p}, protocol: HTTP",
     "spec.externalHostname.hostname: Invalid value: \"string\": hostname must not be an IP "
     "address or end with .cluster.local"},
    {"XBackend",
     "type: ExternalHostname, externalHostname: {hostname: a.example}, port: {port: 80, name: "
     "Bad_}, protocol: HTTP",
     "spec.port.name: Invalid value: \"string\": Name must be a valid DNS label"},
    {"HTTPRoute",
     "rules: [{filters: [{type: CORS, cors: {allowOrigins: ['*', 'https://a.example']}}]}]",
     "spec.rules[0].filters[0].cors.allowOrigins: Invalid value: \"array\": AllowOrigins cannot "
     "contain '*' alongside other origins"},
    {"HTTPRoute", "rules: [{filters: [{type: ExternalAuth}]}]",
     "spec.rules[0].filters[0]: Invalid value: \"object\": filter.externalAuth must be specified "
     "for ExternalAuth filter.type"},
};
