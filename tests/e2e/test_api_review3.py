# SPDX-License-Identifier: Apache-2.0
"""A third reading of the API: what decoding, lists, finalizers and old documents answer."""
import pytest
from harness import control
from harness.control import Control, config_map
from harness.wait import until

CMS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
UNRECOGNIZED = "the object provided is unrecognized (must be of type"


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("review3"))
    yield server
    server.close()


@pytest.fixture(scope="module")
def kubectl(api):
    control.need_kubectl()
    return api.kubectl


def refusal(answer, status):
    assert answer.status == status, answer
    return answer.json["message"]


def crd(group, **size):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": size}}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"gadgets.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": schema}}]}}


# --- bootstrap -------------------------------------------------------------------------------

def test_the_api_is_a_service_of_itself(api):
    path = "/api/v1/namespaces/default/services/kubernetes"
    until(lambda: api.get(path).status == 200)
    svc = api.get(path).json
    assert svc["metadata"]["labels"] == {"component": "apiserver", "provider": "kubernetes"}
    assert svc["spec"]["clusterIP"] == "10.96.0.1"
    assert svc["spec"]["ports"] == [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}]


# --- bodies ----------------------------------------------------------------------------------

@pytest.mark.parametrize("body,why", [
    (b'{"data":5', "couldn't get version/kind; json parse error: "),
    (b"", "couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"),
    (b"nonsense", "couldn't get version/kind; json parse error: "),
])
def test_a_body_that_is_no_json(api, body, why):
    message = refusal(api.request("POST", CMS, body, {"Content-Type": "application/json"}), 400)
    assert message.startswith(f"{UNRECOGNIZED} ConfigMap): {why}")


def test_a_version_that_the_kind_never_had(api):
    message = refusal(api.post(CMS, {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "x"}}), 400)
    assert message.startswith('ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap"')


@pytest.mark.parametrize("word,value", [("yes", True), ("off", False), ("Y", True)])
def test_words_of_older_yaml(api, word, value):
    name = f"yaml-{word.lower()}"
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\nimmutable: {word}\ndata: {{on: 'x'}}\n"
    answer = api.request("POST", CMS, text.encode(), {"Content-Type": "application/yaml"})
    assert answer.status == 201, answer
    assert answer.json["immutable"] is value
    assert answer.json["data"] == {"true": "x"}


def test_apply_takes_yaml_maps_in_braces(api):
    text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: braces}, data: {a: b}}"
    answer = api.request("PATCH", f"{CMS}/braces?fieldManager=m", text.encode(),
                         {"Content-Type": "application/apply-patch+yaml"})
    assert answer.status == 201, answer
    assert answer.json["data"] == {"a": "b"}


def test_owners_that_cannot_be_read_change_nothing(api):
    made = api.post(CMS, config_map("owners", {"a": "b"})).json
    patch = {"metadata": {"managedFields": [{"manager": "x", "operation": "Nope", "apiVersion": "v1",
                                             "fieldsType": "FieldsV1", "fieldsV1": {}}]}}
    answer = api.patch(f"{CMS}/owners", patch)
    assert answer.status == 200, answer
    assert answer.json["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


# --- built-in kinds --------------------------------------------------------------------------

def test_empty_lists_that_are_always_written_read_null(api):
    role = api.post(f"{RBAC}/namespaces/default/roles", {"metadata": {"name": "none"}, "rules": []})
    assert role.status == 201 and role.json["rules"] is None
    path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    made = api.post(path, {"metadata": {"name": "none"}, "addressType": "IPv4", "endpoints": []})
    assert made.status == 201 and made.json["endpoints"] is None and made.json["ports"] is None


def test_a_binding_without_a_role_lacks_kind_and_name_only(api):
    message = refusal(api.post(f"{RBAC}/namespaces/default/rolebindings", {"metadata": {"name": "b"}}), 422)
    assert "roleRef.apiGroup" not in message
    assert "roleRef.kind: Unsupported value" in message and "roleRef.name: Required value" in message


def test_finalizers_of_a_namespace(api):
    ns = "/api/v1/namespaces"
    bad = {"metadata": {"name": "fin"}, "spec": {"finalizers": ["bad"]}}
    assert refusal(api.post(ns, bad), 422).endswith(
        'spec.finalizers: Invalid value: "bad": name is neither a standard finalizer name nor is it fully qualified')
    bad["spec"]["finalizers"] = ["example.com/x"]
    assert api.post(ns, bad).status == 201
    assert api.delete(f"{ns}/fin").status == 200
    until(lambda: api.get(f"{ns}/fin").json["spec"] == {"finalizers": ["example.com/x"]})
    done = api.put(f"{ns}/fin/finalize", {"metadata": {"name": "fin"}, "spec": {"finalizers": []}})
    assert done.status == 200, done
    until(lambda: api.get(f"{ns}/fin").status == 404)


@pytest.mark.parametrize("ref,why", [
    ({"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"},
     "/v1, Kind=Event is disallowed from being an owner"),
    ({"apiVersion": "a/b/c", "kind": "X", "name": "e", "uid": "u"},
     'metadata.ownerReferences.apiVersion: Invalid value: "a/b/c": version must not be empty'),
])
def test_owners_that_are_refused(api, ref, why):
    cm = {"metadata": {"name": "owned", "ownerReferences": [ref]}}
    assert refusal(api.post(CMS, cm), 422).endswith(why)


# --- custom resources ------------------------------------------------------------------------

@pytest.mark.parametrize("size,why", [
    ({"type": "int"}, 'type: Unsupported value: "int": supported values: "array", "boolean", "integer", "number", '
                      '"object", "string"'),
    ({"type": "string", "pattern": "("},
     "must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`"),
    ({"type": "integer", "x-kubernetes-validations": [{"rule": "self && true"}]},
     "ERROR: <input>:1:1: expected type 'bool' but found 'int'\n | self && true\n | ^"),
    ({"type": "integer", "x-kubernetes-validations": [{"rule": "self ? true : 1"}]},
     "ERROR: <input>:1:6: found no matching overload for '_?_:_' applied to '(int, bool, int)'\n"
     " | self ? true : 1\n | .....^"),
    ({"type": "integer", "x-kubernetes-validations": [{"rule": "!self"}]},
     "ERROR: <input>:1:1: found no matching overload for '!_' applied to '(int)'\n | !self\n | ^"),
    ({"type": "string", "x-kubernetes-validations": [{"rule": "self.nope()"}]},
     "ERROR: <input>:1:10: undeclared reference to 'nope' (in container '')\n | self.nope()\n | .........^"),
])
def test_schemas_that_are_refused(api, size, why):
    message = refusal(api.post(f"{CRDS}?dryRun=All", crd("r3.example.com", **size)), 422)
    assert message.endswith(why), message


def test_integers_beyond_64_bits_are_numbers(api):
    assert api.post(CRDS, crd("big.example.com", type="integer")).status == 201
    path = "/apis/big.example.com/v1/namespaces/default/gadgets"
    until(lambda: api.get(path).status == 200)

    def send(text):
        body = '{"apiVersion":"big.example.com/v1","kind":"Gadget","metadata":{"name":"g"},"spec":{"size":%s}}' % text
        return api.request("POST", f"{path}?dryRun=All", body.encode(), {"Content-Type": "application/json"})

    assert send("9223372036854775807").status == 201
    assert refusal(send("9223372036854775808"), 422).endswith('must be of type integer: "number"')
    assert refusal(send("1e300"), 422).endswith('must be of type integer: "number"')


# --- the older OpenAPI document ---------------------------------------------------------------

def test_the_older_document_is_there_and_says_nothing(api):
    plain = api.get("/openapi/v2")
    assert plain.status == 200 and plain.json["swagger"] == "2.0"
    binary = api.request("GET", "/openapi/v2", None, {
        "Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"})
    assert binary.status == 200
    assert binary.headers["content-type"] == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def test_kubectl_applies_lists_and_names_unknown_kinds(kubectl):
    listed = '{"apiVersion":"v1","kind":"List","items":[%s]}' % ",".join(
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"l%d"}}' % i for i in (1, 2))
    done = kubectl("apply", "-f", "-", stdin=listed)
    assert done.splitlines() == ["configmap/l1 created", "configmap/l2 created"]
    done = kubectl("apply", "-f", "-", check=False,
                   stdin='{"apiVersion":"nope.example.com/v1","kind":"Nope","metadata":{"name":"a"}}')
    assert 'no matches for kind "Nope" in version "nope.example.com/v1"' in done.stderr
