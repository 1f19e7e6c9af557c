# SPDX-License-Identifier: Apache-2.0
"""Details of answers, each compared with kube-apiserver v1.36.3: patches, scale, methods, refusals, warnings."""
import pytest
from harness.control import Control, config_map

CMS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/like.example.com/v1/namespaces/default/things"
TYPE = "like.example.com/v1"


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("behaviour"), "--gateway=false")
    spec = {"type": "object", "properties": {"a": {"type": "string"}, "replicas": {"type": "integer"},
                                             "o": {"type": "object", "properties": {"x": {"type": "string"}}}}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}, "scale": scale},
               "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                   "spec": spec, "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}}}
    assert server.post(CRDS, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                              "metadata": {"name": "things.like.example.com"},
                              "spec": {"group": "like.example.com", "scope": "Namespaced", "versions": [version],
                                       "names": {"plural": "things", "kind": "Thing"}}}).status == 201
    assert server.post(THINGS, thing("t", a="x")).status == 201
    assert server.post(CMS, config_map("c", {"x": "y"})).status == 201
    yield server
    server.close()


def thing(name, **spec):
    return {"apiVersion": TYPE, "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def warned(answer):
    return [v[len('299 - "'):-1].replace('\\"', '"') for v in answer.headers.get_all("Warning") or []]


# --- strategic merge -------------------------------------------------------------------------

def test_finalizers_keep_their_order_and_no_change_is_none(api):
    assert api.post(CMS, config_map("fin", finalizers=["e.com/c", "e.com/a", "e.com/b"])).status == 201

    def step(*want, order=None, gone=None):
        before = api.get(f"{CMS}/fin").json["metadata"]
        patch = {"finalizers": list(want)} if want else {}
        if order:
            patch["$setElementOrder/finalizers"] = order
        if gone:
            patch["$deleteFromPrimitiveList/finalizers"] = gone
        told = api.patch(f"{CMS}/fin", {"metadata": patch}, "strategic")
        assert told.status == 200, told
        after = told.json["metadata"]
        return [f[-1] for f in after["finalizers"]], after["resourceVersion"] == before["resourceVersion"]
    assert step("e.com/a", "e.com/b") == (["c", "a", "b"], True)
    assert step("e.com/d") == (["d", "c", "a", "b"], False)
    assert step("e.com/d") == (["d", "c", "a", "b"], True)
    assert step(order=["e.com/b", "e.com/d"]) == (["c", "a", "b", "d"], False)
    assert step("e.com/n", order=["e.com/n", "e.com/c"], gone=["e.com/d"]) == (["n", "c", "a", "b"], False)
    api.patch(f"{CMS}/fin", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("kind,patch", [
    ("strategic", {"data": {"x": "y"}}), ("merge", {"data": {"x": "y"}}), ("strategic", None),
    ("json", [{"op": "replace", "path": "/data/x", "value": "y"}]), ("json", []), ("json", None)])
def test_a_patch_that_changes_nothing(api, kind, patch):
    before = api.get(f"{CMS}/c").json["metadata"]
    told = api.patch(f"{CMS}/c", patch, kind)
    assert told.status == 200 and told.json["metadata"] == before, told


# --- metadata and types in patches -----------------------------------------------------------

@pytest.mark.parametrize("kind", ["merge", "strategic"])
@pytest.mark.parametrize("field,value", [("uid", "11111111-2222-3333-4444-555555555555"),
                                         ("deletionTimestamp", "2001-01-01T00:00:00Z"),
                                         ("deletionGracePeriodSeconds", 5)])
def test_immutable_metadata(api, kind, field, value):
    told = api.patch(f"{CMS}/c", {"metadata": {field: value}}, kind)
    assert told.status == 422 and told.json["reason"] == "Invalid"
    assert f"metadata.{field}: Invalid value: " in told.message and told.message.endswith("field is immutable")


def test_the_uid_of_a_put_is_a_precondition(api):
    obj = config_map("c", {"x": "y"}, uid="other")
    told = api.put(f"{CMS}/c", obj)
    assert told.status == 409 and "Precondition failed: UID in precondition: other" in told.message


@pytest.mark.parametrize("patch", [{"kind": "Secret"}, {"kind": "Nope"}, {"apiVersion": "v2"}])
def test_the_type_of_a_built_in_object(api, patch):
    told = api.patch(f"{CMS}/c", patch)
    assert told.status == 422 and ' "" is invalid: patch: Invalid value: ' in told.message, told
    # A strategic patch is merged into an object that has its type already.
    assert api.patch(f"{CMS}/c", patch, "strategic").status == 200


def test_the_type_of_a_custom_object(api):
    told = api.patch(f"{THINGS}/t", {"kind": "Other"})
    assert told.status == 422 and 'kind: Invalid value: "Other": must be Thing' in told.message
    told = api.patch(f"{THINGS}/t", {"apiVersion": "like.example.com/v9"})
    assert told.status == 422 and f'apiVersion: Invalid value: "like.example.com/v9": must be {TYPE}' in told.message
    told = api.patch(f"{THINGS}/t", {"kind": None})
    assert told.status == 422 and "Object 'Kind' is missing in" in told.message
    told = api.patch(f"{THINGS}/t", {"metadata": {"resourceVersion": None}})
    assert told.status == 422 and "must be specified for an update" in told.message


def test_a_patch_without_a_name(api):
    told = api.patch(f"{CMS}/c", {"metadata": {"name": None}})
    assert told.status == 400
    assert told.message == "the name of the object (c based on URL) was undeterminable: name must be provided"


@pytest.mark.parametrize("body,why", [
    ("{}", "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
    ('"x"', "json: cannot unmarshal string into Go value of type []handlers.jsonPatchOp"),
    ("[5]", "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp"),
    ('[{"op":5,"path":"/a"}]', "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
    ("", "unexpected end of JSON input")])
def test_what_is_no_json_patch(api, body, why):
    for path in (f"{CMS}/c", f"{THINGS}/t"):
        told = api.patch(path, body, "json")
        assert told.status == 400 and told.message == f"error decoding patch: {why}", told


@pytest.mark.parametrize("op", [{"op": "test", "path": "/data/none", "value": "x"},
                                {"op": "remove", "path": "/data/none"}, {"op": "nope", "path": "/a"}])
def test_operations_that_fail(api, op):
    told = api.patch(f"{CMS}/c", [op], "json")
    assert told.status == 422 and told.message.startswith("the server rejected our request due to an error")


# --- scale -----------------------------------------------------------------------------------

def test_scale_without_replicas(api):
    path = f"{THINGS}/t/scale"
    assert api.get(path).message == ('Internal error occurred: the spec replicas field ".spec.replicas" does not exist')
    for patch in ({}, {"metadata": {"labels": {"a": "b"}}}):
        told = api.patch(path, patch)
        assert told.status == 400 and told.message == 'the spec replicas field ".spec.replicas" cannot be empty'
    told = api.patch(path, {"spec": {"replicas": 2, "foo": 1}})
    assert told.status == 200 and told.json["spec"] == {"replicas": 2}
    assert warned(told) == ['unknown field "spec.foo"']
    assert api.patch(path, {}).status == 200


# --- methods and paths -----------------------------------------------------------------------

@pytest.mark.parametrize("method,path,status", [
    ("OPTIONS", CMS, 405), ("FOO", CMS, 405), ("PUT", CMS, 405), ("POST", f"{CMS}/c", 405),
    ("POST", "/api/v1", 405), ("POST", "/version", 405), ("DELETE", "/api/v1/namespaces", 405),
    ("OPTIONS", "/foo", 404), ("POST", "/foo", 404), ("GET", f"{CMS}/c/foo", 404), ("GET", f"{CMS}/c/foo/bar", 404),
    ("GET", "/apis/nope/v1/x", 404), ("GET", "/apis/apps/v9/deployments", 404), ("GET", "/api/v1/nopes", 404),
    ("GET", "/apis/authentication.k8s.io/v1/tokenreviews/x", 404), ("POST", "/healthz", 200),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews/x", 404),
    ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", 405), ("DELETE", f"{THINGS}/t/scale", 405)])
def test_not_found_and_not_allowed(api, method, path, status):
    told = api.request(method, path, {} if method in ("PUT", "POST") else None)
    assert told.status == status, told
    if status >= 400:
        assert told.json["reason"] == {404: "NotFound", 405: "MethodNotAllowed"}[status]


# --- refusals --------------------------------------------------------------------------------

@pytest.mark.parametrize("method,path,text", [
    ("GET", CMS, 'configmaps is forbidden: User "bob" cannot list resource "configmaps"'),
    ("GET", f"{CMS}/c", 'configmaps "c" is forbidden: User "bob" cannot get resource "configmaps"'),
    ("GET", f"{CMS}?fieldSelector=metadata.name%3Dc", 'configmaps "c" is forbidden: User "bob" cannot list resource'),
    ("GET", f"{CMS}?fieldSelector=metadata.name%3Da%2Fb", 'configmaps is forbidden: User "bob" cannot list resource'),
    ("DELETE", f"{CMS}?fieldSelector=metadata.name%3Dc",
     'configmaps is forbidden: User "bob" cannot deletecollection resource "configmaps"'),
    ("GET", "/api/v1/namespaces/default/pods/p/proxy/a/b",
     'pods "p" is forbidden: User "bob" cannot get resource "pods/proxy"'),
    ("GET", f"{THINGS}/t/scale", 'things.like.example.com "t" is forbidden: User "bob" cannot get resource'
                                 ' "things/scale" in API group "like.example.com" in the namespace "default"'),
    ("OPTIONS", CMS, 'configmaps is forbidden: User "bob" cannot  resource "configmaps"'),
    ("OPTIONS", "/foo", 'forbidden: User "bob" cannot options path "/foo"')])
def test_names_in_refusals(api, method, path, text):
    told = api.request(method, path, headers={"Impersonate-User": "bob"})
    assert told.status == 403 and told.message.startswith(text), told


# --- warnings --------------------------------------------------------------------------------

def send(api, path, text, content_type="application/json", method="POST"):
    return api.request(method, path, text.encode(), {"Content-Type": content_type})


def test_order_of_warnings(api):
    built_in = '{"metadata":{"name":"w","zz":1},"zeta":1,"alpha":2,"data":{"a":"b","a":"c"},"alpha":3}'
    assert warned(send(api, f"{CMS}?dryRun=All", built_in)) == [
        'unknown field "metadata.zz"', 'unknown field "zeta"', 'unknown field "alpha"', 'duplicate field "data.a"']
    custom = ('{"apiVersion":"%s","kind":"Thing","metadata":{"name":"w","foo":1,"bar":2},"zeta":1,'
              '"spec":{"zz":1,"a":"x","aa":1,"a":"y","o":{"q":1}},"alpha":1}' % TYPE)
    assert warned(send(api, f"{THINGS}?dryRun=All", custom)) == [
        'duplicate field "spec.a"', 'unknown field "metadata.bar"', 'unknown field "metadata.foo"',
        'unknown field "alpha"', 'unknown field "spec.aa"', 'unknown field "spec.o.q"', 'unknown field "spec.zz"',
        'unknown field "zeta"']
    patch = '{"metadata":{"zz":1,"zz":2},"zeta":1,"alpha":2}'
    for kind in ("merge", "strategic-merge"):
        told = send(api, f"{CMS}/c?dryRun=All", patch, f"application/{kind}-patch+json", "PATCH")
        assert warned(told) == ['duplicate field "metadata.zz"', 'unknown field "alpha"',
                                'unknown field "metadata.zz"', 'unknown field "zeta"']
    operations = ('[{"op":"add","path":"/zeta","value":1,"foo":1},'
                  '{"op":"add","path":"/alpha","value":1,"op":"add"}]')
    told = send(api, f"{CMS}/c?dryRun=All", operations, "application/json-patch+json", "PATCH")
    assert warned(told) == ['json patch unknown field "[0].foo"', 'json patch duplicate field "[1].op"',
                            'unknown field "alpha"', 'unknown field "zeta"']


def test_owners_and_finalizers(api):
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "q", "uid": "u1"}
    obj = thing("w", zz=1)
    obj["metadata"].update(finalizers=["plain"], ownerReferences=[owner, owner])
    told = api.post(f"{THINGS}?dryRun=All", obj)
    assert told.status == 201 and told.json["metadata"]["ownerReferences"] == [owner]
    first, second, third = warned(told)
    assert first == 'unknown field "spec.zz"' and second.endswith("duplicate UID(s) observed: u1")
    assert third.startswith('metadata.finalizers: "plain": prefer a domain-qualified finalizer name')
