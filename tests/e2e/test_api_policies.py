# SPDX-License-Identifier: Apache-2.0
"""ValidatingAdmissionPolicies: what is refused when one is written, and which requests it refuses then."""
import json
import threading

import pytest
from harness.control import Control, find_kubectl
from harness.wait import until

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{ADMISSION}/validatingadmissionpolicies"
BINDINGS = f"{ADMISSION}/validatingadmissionpolicybindings"
MAPS = "/api/v1/namespaces/default/configmaps"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SECRET_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]}


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    directory = tmp_path_factory.mktemp("policies")
    control = Control(binary, directory, "--audit-log", str(directory / "audit"))
    yield control
    control.close()


@pytest.fixture
def api(server):
    yield server
    for path in (BINDINGS, POLICIES, MAPS):
        assert server.delete(path).status == 200


def policy(name, *validations, rules=None, constraints=None, **spec):
    return {"metadata": {"name": name}, "spec": {
        "matchConstraints": {"resourceRules": [rules or SECRET_RULE], **(constraints or {})},
        "validations": [v if isinstance(v, dict) else {"expression": v} for v in validations], **spec}}


def binding(name, of=None, actions=("Deny",), **spec):
    return {"metadata": {"name": name}, "spec": {"policyName": of or name, "validationActions": list(actions), **spec}}


def enforce(api, name, *validations, bind=None, **kw):
    made = api.post(POLICIES, policy(name, *validations, **kw))
    assert made.status == 201, made
    made = api.post(BINDINGS, binding(name, **(bind or {})))
    assert made.status == 201, made


def config(name, data=None, **meta):
    return {"metadata": {"name": name, **meta}, "data": data or {}}


def denied(answer, text, code=422, reason="Invalid"):
    assert (answer.status, answer.json["reason"]) == (code, reason), answer
    assert text in answer.message, answer
    return answer


def allowed(answer):
    assert answer.status in (200, 201), answer
    return answer


def test_a_denial_names_policy_binding_and_reason(api):
    enforce(api, "p", {"expression": "has(object.data.team)", "message": "data.team is needed"},
            bind={"of": "p"})
    answer = denied(api.post(MAPS, config("a", {"v": "1"})), "")
    text = "ValidatingAdmissionPolicy 'p' with binding 'p' denied request: data.team is needed"
    assert answer.json == {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                           "message": f'configmaps "a" is forbidden: {text}', "reason": "Invalid",
                           "details": {"name": "a", "kind": "configmaps", "causes": [{"message": text}]}, "code": 422}
    allowed(api.post(MAPS, config("a", {"team": "x"})))


@pytest.mark.parametrize("reason,code", [("Forbidden", 403), ("Unauthorized", 401), ("RequestEntityTooLarge", 413),
                                         ("Invalid", 422)])
def test_reasons_have_their_codes(api, reason, code):
    enforce(api, "p", {"expression": "false", "reason": reason})
    denied(api.post(MAPS, config("a")), "failed expression: false", code, reason)


def test_every_way_of_writing_is_asked(api):
    allowed(api.post(MAPS, config("a", {"v": "1"})))
    enforce(api, "p", {"expression": "object.data.v == oldObject.data.v", "messageExpression":
                       "'was ' + oldObject.data.v + ', is ' + object.data.v"},
            rules={**SECRET_RULE, "operations": ["UPDATE"]})
    new = config("a", {"v": "2"})
    text = "denied request: was 1, is 2"
    denied(api.put(f"{MAPS}/a", new), text)
    denied(api.patch(f"{MAPS}/a", {"data": {"v": "2"}}), text)
    denied(api.patch(f"{MAPS}/a", {"data": {"v": "2"}}, "strategic"), text)
    denied(api.patch(f"{MAPS}/a", [{"op": "replace", "path": "/data/v", "value": "2"}], "json"), text)
    apply = {"apiVersion": "v1", "kind": "ConfigMap", **new}
    denied(api.patch(f"{MAPS}/a", apply, "apply", "?fieldManager=t&force=true"), text)
    denied(api.put(f"{MAPS}/a?dryRun=All", new), text)
    assert api.get(f"{MAPS}/a").json["data"] == {"v": "1"}
    allowed(api.patch(f"{MAPS}/a", {"data": {"w": "2"}}))
    allowed(api.post(MAPS, config("b", {"v": "2"})))


def test_apply_that_creates_is_a_create(api):
    enforce(api, "p", "request.operation != 'CREATE' || object.metadata.name != 'a'")
    apply = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    denied(api.patch(f"{MAPS}/a", apply, "apply", "?fieldManager=t"), "failed expression")
    assert api.get(f"{MAPS}/a").status == 404


def test_deletions_and_collections_are_asked_for_each_object(api):
    for name in "abc":
        allowed(api.post(MAPS, config(name, {"keep" if name == "b" else "v": "yes"})))
    enforce(api, "p", "object == null && !has(oldObject.data.keep) && request.userInfo.username == 'kubernetes-admin'",
            rules={**SECRET_RULE, "operations": ["DELETE"]})
    denied(api.delete(f"{MAPS}/b"), "failed expression")
    denied(api.delete(MAPS + "?fieldSelector=metadata.name%3Db"), "failed expression")
    assert api.get(f"{MAPS}/b").status == 200
    denied(api.delete(f"{MAPS}/b?dryRun=All"), "failed expression")
    allowed(api.delete(f"{MAPS}/a"))
    assert api.delete(f"{BINDINGS}/p").status == 200


def test_what_exists_is_judged_before_409(api):
    allowed(api.post(MAPS, config("a")))
    enforce(api, "p", "false")
    denied(api.post(MAPS, config("a")), "failed expression")


def deployment(name, replicas):
    labels = {"app": name}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": {
                "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}


def test_subresources_match_by_name(api):
    allowed(api.post(DEPLOYMENTS, deployment("d", 1)))
    rule = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"]}
    try:
        enforce(api, "scale", "object.kind == 'Scale' && object.spec.replicas <= 3 && request.subResource == 'scale' && "
                "request.kind.kind == 'Scale' && request.resource.resource == 'deployments'",
                rules={**rule, "resources": ["deployments/scale"]})
        enforce(api, "status", "object.status.replicas < 9", rules={**rule, "resources": ["*/status"]})
        path = f"{DEPLOYMENTS}/d"
        denied(api.patch(f"{path}/scale", {"spec": {"replicas": 4}}), "ValidatingAdmissionPolicy 'scale'")
        allowed(api.patch(f"{path}/scale", {"spec": {"replicas": 3}}))
        allowed(api.patch(path, {"spec": {"replicas": 7}}))
        denied(api.patch(f"{path}/status", {"status": {"replicas": 9}}), "ValidatingAdmissionPolicy 'status'")
        allowed(api.patch(f"{path}/status", {"status": {"replicas": 8}}))
    finally:
        api.delete(BINDINGS)
        api.delete(f"{DEPLOYMENTS}/d")


def test_selectors_names_and_exclusions(api):
    for ns, labels in (("one", {"env": "prod"}), ("two", {})):
        api.post("/api/v1/namespaces", {"metadata": {"name": ns, "labels": labels}})
    enforce(api, "p", "false", constraints={
        "namespaceSelector": {"matchLabels": {"env": "prod"}},
        "objectSelector": {"matchExpressions": [{"key": "free", "operator": "DoesNotExist"}]},
        "excludeResourceRules": [{**SECRET_RULE, "resourceNames": ["spared"]}]})
    one, two = (f"/api/v1/namespaces/{n}/configmaps" for n in ("one", "two"))
    denied(api.post(one, config("a")), "failed expression")
    allowed(api.post(two, config("a")))
    allowed(api.post(one, config("b", labels={"free": ""})))
    allowed(api.post(one, config("spared")))
    # An update is matched by its old labels, too.
    denied(api.patch(f"{one}/b", {"metadata": {"labels": {"free": None}}}), "failed expression")
    for path in (one, two):
        assert api.delete(path).status == 200


def test_the_binding_narrows_the_policy(api):
    enforce(api, "p", "false", bind={"matchResources": {"resourceRules": [{**SECRET_RULE, "resourceNames": ["a"]}]}})
    denied(api.post(MAPS, config("a")), "failed expression")
    allowed(api.post(MAPS, config("b")))


def test_a_policy_without_binding_does_nothing(api):
    assert api.post(POLICIES, policy("p", "false")).status == 201
    allowed(api.post(MAPS, config("a")))
    assert api.post(BINDINGS, binding("b", "p")).status == 201
    denied(api.post(MAPS, config("b")), "with binding 'b'")
    assert api.delete(f"{BINDINGS}/b").status == 200
    allowed(api.post(MAPS, config("b")))


def test_match_conditions_and_variables(api):
    enforce(api, "p", {"expression": "variables.n <= 2 && variables.twice < 100",
                       "messageExpression": "'%d entries, twice %d'.format([variables.n, variables.twice])"},
            matchConditions=[{"name": "named", "expression": "object.metadata.name.startsWith('big')"}],
            variables=[{"name": "n", "expression": "size(object.data)"},
                       {"name": "twice", "expression": "variables.n * 2"},
                       {"name": "unused", "expression": "object.spec.nothing"}])
    data = {"a": "", "b": "", "c": ""}
    denied(api.post(MAPS, config("big", data)), "denied request: 3 entries, twice 6")
    allowed(api.post(MAPS, config("small", data)))
    allowed(api.post(MAPS, config("big", {"a": ""})))


def test_parameters_by_name_selector_and_absence(api):
    for name, most, labels in (("few", "1", {"use": "x"}), ("many", "3", {"use": "x"})):
        allowed(api.post(MAPS, config(name, {"max": most}, labels=labels)))
    spec = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
    rule = {**SECRET_RULE, "resourceNames": ["a"]}
    entries = {"a": "", "b": ""}
    assert api.post(POLICIES, policy("p", "size(object.data) <= int(params.data.max)", rules=rule, **spec)).status == 201

    def bound(ref):
        assert api.delete(BINDINGS).status == 200
        assert api.post(BINDINGS, binding("p", paramRef=ref)).status == 201
        return api.post(MAPS + "?dryRun=All", config("a", entries))
    denied(bound({"name": "few", "parameterNotFoundAction": "Deny"}), "failed expression")
    allowed(bound({"name": "many", "namespace": "default", "parameterNotFoundAction": "Deny"}))
    denied(bound({"selector": {"matchLabels": {"use": "x"}}, "parameterNotFoundAction": "Deny"}), "failed expression")
    denied(bound({"name": "none", "parameterNotFoundAction": "Deny"}),
           "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction")
    allowed(bound({"name": "none", "parameterNotFoundAction": "Allow"}))


def test_a_parameter_kind_that_is_not_there(api):
    enforce(api, "p", "true", paramKind={"apiVersion": "x.example.com/v1", "kind": "Nothing"})
    denied(api.post(MAPS, config("a")), "ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
           "failed to find resource referenced by paramKind: 'x.example.com/v1, Kind=Nothing'")


def test_failures_follow_the_failure_policy(api):
    enforce(api, "p", "object.data.none == 'x'")
    denied(api.post(MAPS, config("a", {"v": "1"})), "expression 'object.data.none == 'x'' resulted in error: no such key: none")
    assert api.patch(f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}}).status == 200
    allowed(api.post(MAPS, config("a", {"v": "1"})))
    denied(api.post(MAPS, config("b", {"none": "y"})), "failed expression")


def test_costs_are_bounded(api):
    nested = "[1,2,3,4,5,6,7,8,9,0]"
    deep = "true"
    for v in "abcdefg":
        deep = f"{nested}.all({v}, {deep})"
    enforce(api, "p", deep)
    denied(api.post(MAPS, config("a")), "operation cancelled: actual cost limit exceeded")


def test_actions_warn_and_audit(api, server):
    enforce(api, "p", {"expression": "false", "message": "no"}, bind={"actions": ["Warn", "Audit"]},
            auditAnnotations=[{"key": "who", "valueExpression": "'by ' + request.userInfo.username"},
                              {"key": "none", "valueExpression": "''"}])
    answer = allowed(api.post(MAPS, config("warned")))
    assert answer.headers["Warning"] == \
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': no\""
    lines = [json.loads(line) for line in (server.dir / "audit").read_text().splitlines()]
    notes = [x["annotations"] for x in lines if x["path"] == MAPS and "annotations" in x][-1]
    assert notes["p/who"] == "by kubernetes-admin" and "p/none" not in notes
    failure, = json.loads(notes["validation.policy.admission.k8s.io/validation_failure"])
    assert failure == {"message": "no", "policy": "p", "binding": "p", "expressionIndex": 0,
                       "validationActions": ["Warn", "Audit"]}


def test_metrics_count_what_policies_did(api):
    def counted(action):
        line = f'apiserver_validating_admission_policy_check_total{{policy="counted",enforcement_action="{action}"}} '
        return sum(int(x[len(line):]) for x in api.get("/metrics").body.decode().splitlines() if x.startswith(line))
    enforce(api, "counted", "object.metadata.name != 'no'")
    allowed(api.post(MAPS, config("yes")))
    assert counted("deny") == 0
    denied(api.post(MAPS, config("no")), "counted")
    assert (counted("deny"), counted("warn")) == (1, 0)
    allowed(api.patch(f"{BINDINGS}/counted", {"spec": {"validationActions": ["Warn", "Audit"]}}))
    allowed(api.post(MAPS, config("no")))
    assert (counted("deny"), counted("warn"), counted("audit")) == (1, 1, 1)


def test_the_request_of_a_patch_has_the_options_of_what_it_does(api):
    enforce(api, "p", "request.options.kind == request.operation.substring(0, 1) + "
                      "request.operation.substring(1).lowerAscii() + 'Options'")
    allowed(api.post(MAPS, config("a")))
    allowed(api.patch(f"{MAPS}/a", {"data": {"x": "y"}}))


def test_the_authorizer_and_the_namespace(api):
    enforce(api, "p", "authorizer.group('').resource('secrets').namespace(request.namespace).check('get').allowed()",
            "authorizer.requestResource.check('custom').allowed() || object.metadata.name != 'special'",
            "!authorizer.serviceAccount('default', 'default').path('/metrics').check('get').allowed()",
            "namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active'")
    allowed(api.post(MAPS, config("special")))
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "maps"}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]})
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
        "metadata": {"name": "maps"}, "subjects": [{"kind": "User", "name": "ann"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"}})
    denied(api.post(MAPS, config("other"), headers={"Impersonate-User": "ann"}), "resource('secrets')")


def test_custom_resources_match_in_every_version(api):
    group, names = "pol.example.com", {"plural": "ws", "kind": "W"}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
        "type": "object", "properties": {"n": {"type": "integer"}}}}}}
    made = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
        "metadata": {"name": f"ws.{group}"}, "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [
            {"name": v, "served": True, "storage": v == "v1", "schema": schema} for v in ("v1", "v2")]}})
    assert made.status == 201, made
    rule = {"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["ws"], "scope": "Cluster"}
    try:
        enforce(api, "p", "object.spec.n < 5 && object.apiVersion == 'pol.example.com/v1' && "
                "request.kind.version == 'v1'", rules=rule)

        def post(version, n):
            return api.post(f"/apis/{group}/{version}/ws?dryRun=All", {
                "apiVersion": f"{group}/{version}", "kind": "W", "metadata": {"name": "w"}, "spec": {"n": n}})
        allowed(post("v1", 1))
        allowed(post("v2", 1))
        denied(post("v2", 5), 'ws.pol.example.com "w" is forbidden')
        assert api.patch(f"{POLICIES}/p", {"spec": {"matchConstraints": {"matchPolicy": "Exact"}}}).status == 200
        allowed(post("v2", 5))
        denied(post("v1", 5), "failed expression")
    finally:
        api.delete(BINDINGS)
        api.delete(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/ws.{group}")


def test_a_policy_does_not_bar_its_own_removal(api):
    enforce(api, "p", "false", rules={"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]})
    denied(api.post(MAPS, config("a")), "failed expression")
    assert api.patch(f"{POLICIES}/p", {"metadata": {"labels": {"a": "b"}}}).status == 200
    # The server's own work goes on: a new namespace gets its service account.
    assert api.delete(f"{BINDINGS}/p").status == 200
    allowed(api.post(MAPS, config("a")))


@pytest.mark.parametrize("change,text", [
    ({"validations": [{"expression": "object.a ++ 1"}]}, 'spec.validations[0].expression: Invalid value: "object.a ++ 1": '
     "compilation failed: ERROR: <input>:1:"),
    ({"validations": [{"expression": "nothing == 1"}]}, "undeclared reference to 'nothing'"),
    ({"validations": [{"expression": "params.x == 1"}]}, "undeclared reference to 'params'"),
    ({"validations": [{"expression": "self.x == 1"}]}, "undeclared reference to 'self'"),
    ({"validations": [{"expression": "1 + 1"}]}, 'Invalid value: "1 + 1": must evaluate to bool but got int'),
    ({"validations": [{"expression": "object.x"}]}, "must evaluate to bool but got dyn"),
    ({"validations": [{"expression": "request.nothing == ''"}]}, "undefined field 'nothing'"),
    ({"validations": [{"expression": "variables.x == 1"}]}, "undeclared reference to 'variables'"),
    ({"validations": [{"expression": "true", "messageExpression": "1"}]}, "messageExpression: Invalid value: "),
    ({"validations": [{"expression": "true", "messageExpression": "authorizer.path('/').check('get').reason()"}]},
     "undeclared reference to 'authorizer'"),
    ({"validations": [{"expression": "true", "message": "a\nb"}]}, "message must not contain line breaks"),
    ({"validations": [{"expression": "true", "reason": "Odd"}]}, 'reason: Unsupported value: "Odd"'),
    ({"validations": [{"expression": " "}]}, "spec.validations[0].expression: Required value: expression is not specified"),
    ({"validations": []}, "validations or auditAnnotations must contain at least one item"),
    ({"failurePolicy": "Odd"}, 'spec.failurePolicy: Unsupported value: "Odd": supported values: "Fail", "Ignore"'),
    ({"matchConstraints": None}, "spec.matchConstraints: Required value"),
    ({"matchConstraints": {"resourceRules": []}}, "spec.matchConstraints.resourceRules: Required value"),
    ({"matchConstraints": {"resourceRules": [{**SECRET_RULE, "operations": ["PAINT"]}]}},
     'operations[0]: Unsupported value: "PAINT"'),
    ({"matchConstraints": {"resourceRules": [{**SECRET_RULE, "apiGroups": []}]}}, "apiGroups: Required value"),
    ({"matchConstraints": {"resourceRules": [SECRET_RULE], "objectSelector": {"matchExpressions": [
        {"key": "a", "operator": "Odd"}]}}}, "not a valid selector operator"),
    ({"variables": [{"name": "a-b", "expression": "1"}]}, "name is not a valid CEL identifier"),
    ({"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]},
     "spec.variables[0].expression: Invalid value"),
    ({"matchConditions": [{"name": "a", "expression": "variables.x"}]}, "spec.matchConditions[0].expression"),
    ({"matchConditions": [{"name": "a", "expression": "true"}, {"name": "a", "expression": "true"}]},
     'spec.matchConditions[1].name: Duplicate value: "a"'),
    ({"auditAnnotations": [{"key": "k", "valueExpression": "1"}]}, "must evaluate to one of [string null_type] but got int"),
    ({"paramKind": {"kind": "ConfigMap"}}, "spec.paramKind.apiVersion: Required value"),
])
def test_policies_that_are_refused(api, change, text):
    body = policy("bad", "true")
    body["spec"].update(change)
    answer = api.post(POLICIES, body)
    assert answer.status == 422 and text in answer.message, answer


@pytest.mark.parametrize("change,text", [
    ({"validationActions": []}, "spec.validationActions: Required value: at least one validation action is required"),
    ({"validationActions": ["Odd"]}, 'Unsupported value: "Odd": supported values: "Audit", "Deny", "Warn"'),
    ({"validationActions": ["Deny", "Warn"]}, "must not contain both Deny and Warn"),
    ({"policyName": ""}, "spec.policyName: Required value"),
    ({"paramRef": {"parameterNotFoundAction": "Deny"}}, "one of name or selector must be specified"),
    ({"paramRef": {"name": "a", "selector": {}, "parameterNotFoundAction": "Deny"}}, "mutually exclusive"),
    ({"paramRef": {"name": "a"}}, "spec.paramRef.parameterNotFoundAction: Required value"),
])
def test_bindings_that_are_refused(api, change, text):
    body = binding("bad")
    body["spec"].update(change)
    answer = api.post(BINDINGS, body)
    assert answer.status == 422 and text in answer.message, answer


@pytest.mark.skipif(not find_kubectl(), reason="kubectl is not installed: policies are not tried with it")
def test_with_kubectl(api):
    text = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}
  validations:
  - {expression: "!has(object.data.replicas) || int(object.data.replicas) <= 5", message: at most 5}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Deny]}
"""
    api.kubectl("apply", "-f", "-", stdin=text)
    done = api.kubectl("create", "configmap", "k", "--from-literal=replicas=6", check=False)
    assert done.returncode == 1 and done.stderr.strip() == (
        'error: failed to create configmap: configmaps "k" is forbidden: ValidatingAdmissionPolicy \'replicas\' with '
        "binding 'replicas' denied request: at most 5"), done.stderr
    api.kubectl("create", "configmap", "k", "--from-literal=replicas=5")
    done = api.kubectl("patch", "configmap", "k", "-p", '{"data":{"replicas":"7"}}', check=False)
    assert "denied request: at most 5" in done.stderr
    done = api.kubectl("apply", "--server-side", "-f", "-", check=False, stdin=json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "s", "namespace": "default"},
         "data": {"replicas": "8"}}))
    assert "denied request: at most 5" in done.stderr


def test_the_kind_of_parameters_changes_during_an_evaluation(api):
    """Of a large object, beside the loop: one parameter after the other, while the definition is replaced."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    def versions(i):
        spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        return [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
            "type": "object", "description": str(i), "properties": {"spec": spec}}}}]
    assert api.post(definitions, {"metadata": {"name": "pars.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "versions": versions(0),
        "names": {"plural": "pars", "singular": "par", "kind": "Par", "listKind": "ParList"}}}).status == 201
    pars = "/apis/example.com/v1/namespaces/default/pars"
    for i in range(12):
        until(lambda i=i: api.post(pars, {"apiVersion": "example.com/v1", "kind": "Par", "spec": {}, "metadata": {
            "name": f"p{i}", "labels": {"a": "b"}}}).status in (201, 409), 10, "the kind")
    enforce(api, "pars", "object.data.all(a, object.data.all(b, a <= b || b <= a))",
            paramKind={"apiVersion": "example.com/v1", "kind": "Par"},
            bind={"paramRef": {"selector": {"matchLabels": {"a": "b"}}, "parameterNotFoundAction": "Deny"}})
    answers = []
    large = config("large", {f"k{i}": "x" * 3000 for i in range(250)})
    write = threading.Thread(target=lambda: answers.append(api.post(MAPS, large)))
    write.start()
    changes = 0
    while write.is_alive():
        changes += 1
        assert api.patch(f"{definitions}/pars.example.com", {"spec": {"versions": versions(changes)}}).status == 200
    write.join()
    assert changes > 1
    allowed(answers[0])
    assert api.delete(f"{definitions}/pars.example.com").status == 200
