# SPDX-License-Identifier: Apache-2.0
"""Versions of one CRD whose schemas differ: what the storage version does not know is not stored."""
import pytest
from harness.control import Control
from harness.wait import until

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


# --- conversion webhooks ------------------------------------------------------------------------

HOOK = {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://hook.example.com/"},
                                           "conversionReviewVersions": ["v1"]}}
WHY = ("Internal error occurred: conversion webhook for hook.example.com/v1, Kind=Hooked is not supported: "
       "this server serves only the storage version v1")


@pytest.fixture
def converted(api):
    name = "hookeds.hook.example.com"
    body = crd("v1")
    body["metadata"]["name"] = name
    body["spec"].update(group="hook.example.com", names={"plural": "hookeds", "kind": "Hooked"}, conversion=HOOK)
    made = api.post(CRDS, body)
    assert made.status == 201, made
    yield made
    api.delete(f"{CRDS}/{name}")
    until(lambda: api.get(f"{CRDS}/{name}").status == 404, 10, "the CRD to be gone")


def hooked(v, name, **spec):
    return {"apiVersion": f"hook.example.com/{v}", "kind": "Hooked", "metadata": {"name": name}, "spec": spec}


def test_what_a_conversion_webhook_would_convert_is_not_served(api, converted):
    v1, v2 = (f"/apis/hook.example.com/{v}/namespaces/default/hookeds" for v in ("v1", "v2"))
    assert "calls no conversion webhooks; requests for version v2" in converted.headers["Warning"]
    until(lambda: api.get(v1).status == 200, 10, "the CRD to be established")
    assert api.post(v1, hooked("v1", "a", both="x", old="y")).status == 201
    assert api.patch(f"{v1}/a", {"spec": {"both": "z"}}).status == 200
    for told in (api.get(v2), api.get(f"{v2}/a"), api.post(v2, hooked("v2", "b", both="x")), api.delete(f"{v2}/a"),
                 api.patch(f"{v2}/a", {"spec": {"both": "x"}}), api.put(f"{v2}/a", hooked("v2", "a", both="x")),
                 api.get(f"{v2}?watch=true")):
        assert (told.status, told.message) == (500, WHY), told
    assert api.get(f"{v1}/a").json["spec"] == {"both": "z", "old": "y", "one": "1"}
    # Objects are stored as v1: they could not be read as v2.
    body = api.get(f"{CRDS}/hookeds.hook.example.com").json
    for item in body["spec"]["versions"]:
        item["storage"] = item["name"] == "v2"
    told = api.put(f"{CRDS}/hookeds.hook.example.com", body)
    assert told.status == 422 and "objects stored as v1 would need one" in told.message, told


def test_policies_and_webhooks_do_not_see_unconverted_objects(api, converted):
    v1 = "/apis/hook.example.com/v1/namespaces/default/hookeds"
    admission = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": ["hook.example.com"], "apiVersions": ["v2"], "operations": ["*"], "resources": ["*"]}
    until(lambda: api.get(v1).status == 200, 10, "the CRD to be established")
    assert api.post(f"{admission}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": {
        "matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]}}).status == 201
    assert api.post(f"{admission}/validatingadmissionpolicybindings", {"metadata": {"name": "p"}, "spec": {
        "policyName": "p", "validationActions": ["Deny"]}}).status == 201
    told = api.post(v1, hooked("v1", "a", both="x"))
    assert told.status == 422 and "conversion webhook for hook.example.com/v1" in told.message, told
    assert api.delete(f"{admission}/validatingadmissionpolicies").status == 200
    assert api.post(f"{admission}/validatingwebhookconfigurations", {"metadata": {"name": "w"}, "webhooks": [
        {"name": "w.hook.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [rule],
         "clientConfig": {"url": "https://hook.example.com/"}}]}).status == 201
    told = api.post(v1, hooked("v1", "a", both="x"))
    assert told.status == 403 and "conversion webhook for hook.example.com/v1" in told.message, told
    assert api.delete(f"{admission}/validatingwebhookconfigurations/w").status == 200
    assert api.post(v1, hooked("v1", "a", both="x")).status == 201


def test_one_served_version_needs_no_conversion_webhook(api):
    body = crd("v1")
    body["metadata"]["name"] = "singles.single.example.com"
    body["spec"].update(group="single.example.com", names={"plural": "singles", "kind": "Single"}, conversion=HOOK)
    body["spec"]["versions"][1]["served"] = False
    made = api.post(CRDS, body)
    assert made.status == 201 and "Warning" not in made.headers, made
    path = "/apis/single.example.com/v1/namespaces/default/singles"
    until(lambda: api.get(path).status == 200, 10, "the CRD to be established")
    assert api.post(path, {"apiVersion": "single.example.com/v1", "kind": "Single", "metadata": {"name": "a"},
                           "spec": {"both": "x"}}).status == 201
    assert api.get(f"{path}/a").json["spec"] == {"both": "x", "one": "1"}
