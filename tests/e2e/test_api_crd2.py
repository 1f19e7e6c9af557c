# SPDX-License-Identifier: Apache-2.0
"""Custom resources in depth: what a CRD may say, scale, embedded resources, patches, ownership."""
import json

import pytest
from harness.control import Control
from harness.wait import until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TS = "/apis/p.example.com/v1/namespaces/default/ts"
JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"

SPEC = {"type": "object", "properties": {
    "replicas": {"type": "integer", "maximum": 10},
    "emb": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
    "n": {"type": "string", "nullable": True, "default": "d"},
    "nn": {"type": "string", "default": "d"},
    "rules": {"type": "array", "items": {"type": "object", "properties": {
        "min": {"type": "integer"}, "max": {"type": "integer"}}}},
    "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name", "port"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "port": {"type": "integer", "default": 80}, "v": {"type": "string"}}}}}}


def crd(plural="ts", kind="T", group="p.example.com", spec=None, names=None, version=None, **more):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind, **(names or {})},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                                       "spec": spec or SPEC,
                                       "status": {"type": "object", "properties": {
                                           "replicas": {"type": "integer", "format": "int32"}}}}}},
                                   **(version or {})}], **more}}


SCALE = {"subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas",
                                                  "statusReplicasPath": ".status.replicas"}}}


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("crd2"))
    assert server.post(CRDS, crd(version=SCALE)).status == 201
    yield server
    server.close()


@pytest.fixture
def name(request):
    return request.node.name.replace("_", "-").replace("[", "-").replace("]", "").lower()[:60].strip("-")


def thing(name, **spec):
    return {"apiVersion": "p.example.com/v1", "kind": "T", "metadata": {"name": name}, "spec": spec}


def patch(api, path, kind, body):
    body = body if isinstance(body, str) else json.dumps(body)
    return api.request("PATCH", path, body.encode(), headers={"Content-Type": kind, "User-Agent": "probe/1"})


# --- embedded resources ------------------------------------------------------------------------

@pytest.mark.parametrize("emb, status, text", [
    ({"x": 1}, 422, "spec.emb.apiVersion: Required value: must not be empty"),
    ({"apiVersion": "a/b/c", "kind": "X"}, 422, "unexpected GroupVersion string: a/b/c"),
    ({"apiVersion": "v1", "kind": "a b"}, 422, "may have mixed case, but should otherwise match"),
    ({"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": "b c"}}}, 422, "spec.emb.metadata.labels"),
    ({"apiVersion": "v1", "kind": "X", "metadata": {"odd": 1}}, 400, 'unknown field "spec.emb.metadata.odd"'),
    ({"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": 1}}}, 400, "cannot be handled as a T"),
    ({"apiVersion": 5, "kind": "X"}, 400, "must be a string"),
])
def test_embedded_resources_are_checked(api, name, emb, status, text):
    answer = api.post(TS + "?fieldValidation=Strict", thing("embedded", emb=emb))
    assert answer.status == status and text in answer.message, answer


def test_unknown_embedded_metadata_is_dropped(api, name):
    emb = {"apiVersion": "v1", "kind": "X", "metadata": {"odd": 1, "name": "n", "creationTimestamp": None}, "data": 1}
    answer = api.post(TS + "?fieldValidation=Ignore", thing(name, emb=emb))
    assert answer.json["spec"]["emb"] == {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n"}, "data": 1}


# --- scale -----------------------------------------------------------------------------------------

def owners(obj):
    return {(m["manager"], m["operation"], m.get("subresource", "")): m["fieldsV1"]
            for m in obj["metadata"]["managedFields"]}


def test_scale_owns_the_number(api, name):
    api.post(TS, thing(name, replicas=1))
    assert patch(api, f"{TS}/{name}/scale?fieldManager=hpa", MERGE, {"spec": {"replicas": 3}}).status == 200
    obj = api.get(f"{TS}/{name}").json
    assert obj["metadata"]["generation"] == 2 and obj["spec"]["replicas"] == 3
    assert owners(obj)["hpa", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}
    assert not any("f:replicas" in o["f:spec"] for k, o in owners(obj).items() if k[0] != "hpa")
    scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name}, "spec": {"replicas": 5}}
    clash = patch(api, f"{TS}/{name}/scale?fieldManager=gitops", APPLY, scale)
    assert clash.status == 409 and 'conflict with "hpa" with subresource "scale"' in clash.message
    assert patch(api, f"{TS}/{name}/scale?fieldManager=gitops&force=true", APPLY, scale).json["spec"]["replicas"] == 5
    assert ("gitops", "Apply", "scale") in owners(api.get(f"{TS}/{name}").json)


def test_scale_refusals(api, name):
    api.post(TS, thing(name, replicas=1))
    path = f"{TS}/{name}/scale"
    assert ".spec.replicas: Invalid value: -1: should be a non-negative integer" in \
        patch(api, path, MERGE, {"spec": {"replicas": -1}}).message
    assert "spec.replicas in body should be less than or equal to 10" in \
        patch(api, path, MERGE, {"spec": {"replicas": 11}}).message
    wrong = patch(api, path, MERGE, {"spec": {"replicas": "x"}})
    assert wrong.status == 422 and "cannot unmarshal string into Go struct field ScaleSpec.spec.replicas" \
        in wrong.message
    assert patch(api, path, STRATEGIC, {}).status == 415
    body = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "other"}, "spec": {}}
    answer = api.request("PUT", path, json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    assert answer.status == 400 and "the name of the object (other) does not match the name on the URL" \
        in answer.message
    api.post(TS, thing(name + "-none"))
    none = api.get(f"{TS}/{name}-none/scale")
    assert none.status == 500 and 'the spec replicas field ".spec.replicas" does not exist' in none.message
    assert "should be a non-negative integer" in api.post(TS, thing(name + "-x", replicas=-1)).message


def test_formats_of_numbers_count_in_a_status_only(api, name):
    api.post(TS, thing(name))
    answer = patch(api, f"{TS}/{name}/status", MERGE, {"status": {"replicas": 3000000000}})
    assert 'status: Invalid value: "": Checked value must be of type integer with format int32 in replicas' \
        in answer.message


# --- patches -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("kind, body, status, text", [
    (JSON, '{"op":"x"}', 400, "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
    (JSON, "xyz", 400, "invalid character 'x' looking for beginning of value"),
    (MERGE, "[]", 400, "error decoding patch: json: cannot unmarshal array into Go value of type "
                       "map[string]interface {}"),
    (MERGE, '{"a":', 400, "error decoding patch: unexpected end of JSON input"),
    (JSON, '[{"op":"test","path":"/spec/nn","value":"z"}]', 422,
     "the server rejected our request due to an error in our request"),
    (JSON, '[{"op":"remove","path":"/spec/nope"}]', 422,
     "the server rejected our request due to an error in our request"),
    (STRATEGIC, "{}", 415, "accepted media types include: application/json-patch+json, "
                           "application/merge-patch+json, application/apply-patch+yaml"),
])
def test_bad_patches(api, kind, body, status, text):
    api.post(TS, thing("bad-patch"))
    answer = patch(api, f"{TS}/bad-patch", kind, body)
    assert answer.status == status and text in answer.message, answer


def test_a_refused_patch_shows_the_object_it_made(api, name):
    api.post(TS, thing(name))
    answer = patch(api, f"{TS}/{name}?fieldValidation=Strict", MERGE, {"spec": {"zz": 1}})
    assert answer.status == 422 and answer.message.startswith(' "" is invalid: patch: Invalid value: "{')
    assert '\\"nn\\":\\"d\\"' in answer.message and 'unknown field "spec.zz"' in answer.message
    api.post("/api/v1/namespaces/default/configmaps",
             {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}})
    path = f"/api/v1/namespaces/default/configmaps/{name}"
    wrong = patch(api, path, STRATEGIC, {"data": {"a": 1}})
    assert wrong.status == 422 and 'patch: Invalid value: "map[data:map[a:1]]"' in wrong.message


# --- apply ---------------------------------------------------------------------------------------------

def test_apply_needs_the_keys_of_lists(api, name):
    def apply(**spec):
        return patch(api, f"{TS}/{name}?fieldManager=m", APPLY, thing(name, **spec))
    assert apply(map=[{"name": "x"}]).status == 201
    missing = apply(map=[{"v": "1"}])
    assert missing.status == 500 and '.spec.map: element 0: associative list with keys has an element that omits ' \
        'key field "name" (and doesn\'t have default value)' in missing.message
    twice = apply(map=[{"name": "x"}, {"name": "x", "port": 80}])
    assert 'duplicate entries for key [name="x",port=80]' in twice.message


# --- rules -----------------------------------------------------------------------------------------------

def test_an_unchanged_value_is_warned_about(api, name):
    loose = crd("ws", "W", "w.example.com")
    assert api.post(CRDS, loose).status == 201
    path = "/apis/w.example.com/v1/namespaces/default/ws"
    body = {"apiVersion": "w.example.com/v1", "kind": "W", "metadata": {"name": name},
            "spec": {"replicas": 1, "rules": [{"min": 5, "max": 1}]}}
    assert api.post(path, body).status == 201
    items = json.loads(json.dumps(SPEC))
    items["properties"]["rules"]["items"]["x-kubernetes-validations"] = [
        {"rule": "self.min <= self.max", "messageExpression": "'%d is more than %d'.format([self.min, self.max])"}]
    change = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec", "value": items}]
    assert patch(api, CRDS + "/ws.w.example.com", JSON, change).status == 200
    # The list did not change: a warning. It did: a refusal, at once.
    kept = patch(api, f"{path}/{name}", MERGE, {"spec": {"replicas": 2}})
    assert kept.status == 200
    assert 'spec.rules[0]: Invalid value: \\"object\\": 5 is more than 1' in kept.headers["Warning"]
    worse = patch(api, f"{path}/{name}", MERGE, {"spec": {"rules": [{"min": 6, "max": 1}]}})
    assert worse.status == 422 and 'spec.rules[0]: Invalid value: "object": 6 is more than 1' in worse.message


# --- definitions -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("more, text", [
    ({"version": {"selectableFields": [{"jsonPath": ".spec.nope"}]}},
     'spec.selectableFields[0].jsonPath: Invalid value: ".spec.nope": is an invalid path: does not refer to a valid '
     "field"),
    ({"version": {"additionalPrinterColumns": [{"name": "a", "type": "odd", "jsonPath": "x"}]}},
     'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "x": must be a simple json path starting with .'),
    ({"version": {"subresources": {"scale": {"specReplicasPath": ".replicas", "statusReplicasPath": ".status.n"}}}},
     'spec.subresources.scale.specReplicasPath: Invalid value: ".replicas": should be a json path under .spec'),
    ({"version": {"storage": False}}, "status.storedVersions: Invalid value: []interface {}{}: must have at least one "
                                      "stored version"),
    ({"preserveUnknownFields": True}, "spec.preserveUnknownFields: Invalid value: true: cannot set to true"),
    ({"conversion": {"strategy": "Webhook"}}, "spec.conversion.webhookClientConfig: Required value: required when "
                                              "strategy is set to Webhook"),
    ({"group": "a.k8s.io"}, 'metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must '
                            'have approval annotation "api-approved.kubernetes.io"'),
    ({"spec": {"type": "array"}}, "spec.validation.openAPIV3Schema.properties[spec].items: Required value: must be "
                                  "specified"),
])
def test_bad_definitions(api, more, text):
    answer = api.post(CRDS, crd("bads", "Bad", **{"group": "bad.example.com", **more}))
    assert answer.status == 422 and text in answer.message, answer


def conditions(obj):
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in obj["status"]["conditions"]}


def test_names_in_use_wait_until_they_are_free(api):
    group = {"group": "names.example.com"}
    assert api.post(CRDS, crd("as", "A", names={"shortNames": ["aa"]}, **group)).status == 201
    other = api.post(CRDS, crd("bs", "B", names={"shortNames": ["aa", "b"]}, **group)).json
    assert conditions(other)["NamesAccepted"] == ("False", "ShortNamesConflict", '"aa" is already in use')
    assert conditions(other)["Established"] == ("False", "NotAccepted", "not all names are accepted")
    assert other["status"]["acceptedNames"]["kind"] == "B" and "shortNames" not in other["status"]["acceptedNames"]
    kind = api.post(CRDS, crd("cs", "A", **group)).json
    assert conditions(kind)["NamesAccepted"][1] == "ListKindConflict"
    path = "/apis/names.example.com/v1/namespaces/default/cs"
    assert api.get(path).status == 404
    api.delete(CRDS + "/as.names.example.com")
    until(lambda: conditions(api.get(CRDS + "/cs.names.example.com").json)["Established"][0] == "True", 5, "the name")
    until(lambda: api.get(path).status == 200, 5, "the kind")
    assert api.get(path).json["kind"] == "AList"


def test_community_groups_say_who_approved(api):
    body = crd("oks", "Ok", group="a.k8s.io")
    body["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.com/pull/1"}
    assert conditions(api.post(CRDS, body).json)["KubernetesAPIApprovalPolicyConformant"] == \
        ("True", "ApprovedAnnotation", "approved in https://example.com/pull/1")
