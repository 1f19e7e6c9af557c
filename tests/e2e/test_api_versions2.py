# SPDX-License-Identifier: Apache-2.0
"""Versions of one CRD whose schemas differ: what the storage version does not know is not stored."""
import pytest
from harness.control import Control

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NAME = "things.two.example.com"
V1, V2 = (f"/apis/two.example.com/{v}/namespaces/default/things" for v in ("v1", "v2"))


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("versions2"), "--gateway=false")
    assert server.post(CRDS, crd("v1")).status == 201
    yield server
    server.close()


def version(name, storage, **fields):
    spec = {"both": {"type": "string"}, **{k: {"type": "string", **v} for k, v in fields.items()}}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}
    return {"name": name, "served": True, "storage": storage == name, "schema": {"openAPIV3Schema": schema}}


def crd(storage):
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": NAME},
            "spec": {"group": "two.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                     "versions": [version("v1", storage, old={}, one={"default": "1"}),
                                  version("v2", storage, new={}, two={"default": "2"})]}}


def thing(v, name, **spec):
    return {"apiVersion": f"two.example.com/{v}", "kind": "Thing", "metadata": {"name": name}, "spec": spec}


def test_a_field_the_storage_version_does_not_know_is_not_served(api):
    made = api.post(V2, thing("v2", "a", both="x", new="y"))
    assert made.status == 201 and made.json["spec"] == {"both": "x"}, made
    assert api.get(f"{V2}/a").json["spec"] == {"both": "x"}
    assert api.get(V2).json["items"][0]["spec"] == {"both": "x"}
    assert api.get(f"{V1}/a").json["spec"] == {"both": "x", "one": "1"}
    dry = api.post(f"{V2}?dryRun=All", thing("v2", "dry", both="x", new="y"))
    assert dry.status == 201 and dry.json["spec"] == {"both": "x"}, dry


@pytest.mark.parametrize("kind", ["merge", "apply", "put"])
def test_every_write_of_another_version(api, kind):
    name = f"w-{kind}"
    assert api.post(V1, thing("v1", name, both="x", old="o")).status == 201
    want = thing("v2", name, both="z", new="n")
    if kind == "put":
        want["metadata"]["resourceVersion"] = api.get(f"{V2}/{name}").json["metadata"]["resourceVersion"]
        told = api.put(f"{V2}/{name}", want)
    elif kind == "merge":
        told = api.patch(f"{V2}/{name}", {"spec": want["spec"]})
    else:
        told = api.request("PATCH", f"{V2}/{name}?fieldManager=m&force=true", want,
                           {"Content-Type": "application/apply-patch+yaml"})
    assert told.status == 200 and told.json["spec"] == {"both": "z"}, told
    assert api.get(f"{V1}/{name}").json["spec"] == {"both": "z", "one": "1"}


def test_an_object_keeps_the_version_it_was_stored_in(api):
    assert api.post(V1, thing("v1", "kept", both="x", old="o")).status == 201
    now = api.get(f"{CRDS}/{NAME}").json
    now["spec"]["versions"] = crd("v2")["spec"]["versions"]
    assert api.put(f"{CRDS}/{NAME}", now).status == 200
    # Stored as v1: its field is still there, until somebody writes the object as v2.
    assert api.get(f"{V1}/kept").json["spec"] == {"both": "x", "old": "o", "one": "1"}
    assert api.get(f"{V2}/kept").json["spec"] == {"both": "x"}
    assert api.patch(f"{V2}/kept", {"spec": {"new": "n"}}).json["spec"]["new"] == "n"
    assert api.get(f"{V1}/kept").json["spec"] == {"both": "x"}
    assert api.get(f"{V2}/kept").json["spec"]["new"] == "n"
    api.restart()
    assert api.get(f"{V2}/kept").json["spec"]["new"] == "n"
