# SPDX-License-Identifier: Apache-2.0
"""Reads, access and operations of the API: the answers of the reference, texts included."""
import base64
import json
import shutil
import ssl
import subprocess

import pytest
from harness import control
from harness.control import Control, config_map
from harness.wait import GUARD, SLOW, until

CMS = "/api/v1/namespaces/default/configmaps"
GATEWAYS = "/apis/gateway.networking.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHZ = "/apis/authorization.k8s.io/v1"
NOT_ALLOWED = "the server does not allow this method on the requested resource"


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("read2"))
    for name in ("c1", "c2", "c3"):
        assert server.post(CMS, config_map(name, {"a": name})).status == 201
    yield server
    server.close()


@pytest.fixture(scope="module")
def kubectl(api):
    control.need_kubectl()
    return api.kubectl


def create(api, path, **obj):
    answer = api.post(path, obj)
    assert answer.status == 201, answer
    return answer.json


def names(answer):
    assert answer.status == 200, answer
    return [o["metadata"]["name"] for o in answer.json["items"]]


# --- list options --------------------------------------------------------------------------

def token(**members):
    return base64.urlsafe_b64encode(json.dumps(members).encode()).decode().rstrip("=")


INVALID = "invalid continue token: continue key is not valid"


@pytest.mark.parametrize("query,message", [
    ("continue=a!c", f"{INVALID}: illegal base64 data at input byte 1"),
    ("continue=" + token(v="v9"), f"{INVALID}: server does not recognize this encoded version v9"),
    ("continue=" + token(v="meta.k8s.io/v1", rv=0, start="/a"),
     f"{INVALID}: incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
    ("continue=" + token(v="meta.k8s.io/v1", rv=1), f"{INVALID}: encoded start key empty (version meta.k8s.io/v1)"),
    ("continue=" + token(v="meta.k8s.io/v1", rv=1, start="/../x"), f"{INVALID}: /../x"),
    ("resourceVersion=5&continue=" + token(v="meta.k8s.io/v1", rv=-1, start="/a"),
     "specifying resource version is not allowed when using continue"),
    ("limit=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("timeoutSeconds=x", 'strconv.ParseInt: parsing "x": invalid syntax'),
    ("resourceVersion=x",
     'invalid resource version: resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'),
    ("watch=1&resourceVersion=x",
     'resourceVersion: Invalid value: "x": strconv.ParseUint: parsing "x": invalid syntax'),
    ("labelSelector=a+b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("fieldSelector=a", "invalid selector: 'a'; can't understand 'a'"),
])
def test_bad_list_options(api, query, message):
    answer = api.get(f"{CMS}?{query}")
    assert (answer.status, answer.message) == (400, message)


MATCH = 'ListOptions.meta.k8s.io "" is invalid: '
FORBIDDEN = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden"


@pytest.mark.parametrize("query,message", [
    ("resourceVersionMatch=Exact", f"{FORBIDDEN} unless resourceVersion is provided"),
    ("resourceVersionMatch=Exact&resourceVersion=1&continue=x", f"{FORBIDDEN} when continue is provided"),
    ("resourceVersionMatch=X&resourceVersion=1",
     'resourceVersionMatch: Unsupported value: "X": supported values: "Exact", "NotOlderThan", ""'),
    ("watch=1&resourceVersionMatch=Exact&resourceVersion=1",
     f'[{FORBIDDEN} for watch unless sendInitialEvents is provided, resourceVersionMatch: Unsupported value: "Exact": '
     'supported values: "NotOlderThan"]'),
    ("sendInitialEvents=true", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list"),
])
def test_bad_resource_version_match(api, query, message):
    answer = api.get(f"{CMS}?{query}")
    assert (answer.status, answer.message) == (422, MATCH + message)


def test_selectors_are_judged_before_versions(api):
    assert "not a known field selector" in api.get(f"{CMS}?fieldSelector=x%3D1&resourceVersion=x").message


def test_negative_limit_means_all(api):
    assert {"c1", "c2", "c3"} <= set(names(api.get(CMS + "?limit=-1")))


def test_expired_continue_goes_on_inconsistently(binary, tmp_path):
    server = Control(binary, tmp_path, "--keep-for", "1s", "--keep-events", "1")
    for i in range(4):
        server.post(CMS, config_map(f"n{i}"))
    first = server.get(CMS + "?limit=2").json
    assert first["metadata"]["remainingItemCount"] == 3

    def expired():
        server.post(CMS, config_map("churn"))
        server.delete(f"{CMS}/churn")
        answer = server.get(f"{CMS}?limit=2&continue={first['metadata']['continue']}")
        return answer if answer.status == 410 else None
    answer = until(expired, 20, "the page to expire", interval=0.2)
    assert answer.json["reason"] == "Expired"
    assert answer.message.startswith("The provided continue parameter is too old to display a consistent list result.")
    rest = server.get(f"{CMS}?continue={answer.json['metadata']['continue']}")
    assert set(names(rest)) == {"n1", "n2", "n3"}
    assert names_of(first) == ["kube-root-ca.crt", "n0"]
    server.close()


def names_of(listing):
    return [o["metadata"]["name"] for o in listing["items"]]


@pytest.mark.parametrize("path,message", [
    (CMS, '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ("/api/v1/serviceaccounts", '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    (f"{RBAC}/clusterroles", '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ("/apis/coordination.k8s.io/v1/leases",
     '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ("/api/v1/secrets", "field label not supported: x"),
    ("/api/v1/services", "field label not supported: x"),
    ("/api/v1/events", "field label not supported: x"),
    ("/apis/events.k8s.io/v1/events", "field label not supported: x"),
    ("/api/v1/namespaces", "field label not supported: x"),
    (f"{GATEWAYS}/gateways", "field label not supported: x"),
])
def test_unknown_field_selectors(api, path, message):
    answer = api.get(path + "?fieldSelector=x%3D1")
    assert (answer.status, answer.message) == (400, message)


# --- paths and methods ---------------------------------------------------------------------

@pytest.mark.parametrize("method,path,status", [
    ("OPTIONS", "/api/v1/namespaces", 405), ("FOO", CMS, 405), ("POST", CMS + "/c1", 405), ("PUT", CMS, 405),
    ("PATCH", CMS, 405), ("POST", "/api/v1/configmaps", 405), ("DELETE", "/api/v1/configmaps", 405),
    ("DELETE", "/api/v1/namespaces", 405), ("POST", "/version", 405), ("POST", "/apis", 405),
    ("GET", "/api/v1/configmaps/c1", 404), ("POST", f"{GATEWAYS}/gateways", 404), ("GET", "/api/v2/configmaps", 404),
    ("GET", "/api/v1/proxy/namespaces/default/services/x", 404), ("GET", CMS + "/c1/status", 404),
])
def test_methods(api, method, path, status):
    answer = api.request(method, path)
    assert answer.status == status, answer
    assert answer.json["details"] == {}
    if status == 405:
        assert answer.message == NOT_ALLOWED


def test_update_of_a_collection_of_custom_resources(api):
    answer = api.put(f"{GATEWAYS}/namespaces/default/gateways", {})
    assert (answer.status, answer.message) == (400, "name must be provided")


def test_unknown_methods_need_a_valid_token(api):
    answer = api.request("FOO", CMS, headers={"Authorization": "Bearer nonsense"}, context=api.context(cert=False))
    assert answer.status == 401


def test_get_ignores_watch(api):
    assert api.get(CMS + "/c1?watch=true").json["kind"] == "ConfigMap"
    assert api.get(CMS + "?watch=False").json["kind"] == "ConfigMapList"


def test_old_watch_path_of_one_object(api):
    path = "/api/v1/watch/namespaces/default/configmaps/c2?timeoutSeconds=1"
    assert [e["object"]["metadata"]["name"] for e in api.watch(path)] == ["c2"]
    answer = api.get(path + "&fieldSelector=metadata.name%3Dc1")
    assert (answer.status, answer.message) == (400, "fieldSelector metadata.name doesn't match requested name")
    kinds = {e["object"]["metadata"]["name"] for e in api.watch("/api/v1/watch/namespaces/default?timeoutSeconds=1")}
    assert kinds == {"default"}


@pytest.mark.parametrize("form,kind", [
    ("", "ConfigMap"), (";as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "PartialObjectMetadata"),
    (";as=Table;g=meta.k8s.io;v=v1", "Table")])
def test_bookmarks_come_in_the_form_asked_for(api, form, kind):
    answer = api.get(CMS + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
                     "&allowWatchBookmarks=true", headers={"Accept": "application/json" + form})
    events = [json.loads(line) for line in answer.body.splitlines()]
    assert {e["object"]["kind"] for e in events} == {kind}
    assert events[-1]["type"] == "BOOKMARK"
    assert events[-1]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"] == "true"


INITIAL = CMS + "?watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


def test_initial_events_are_not_older_than_asked_for(api):
    """A revision that has not happened yet is waited for, as a list does."""
    now = int(api.get(CMS).json["metadata"]["resourceVersion"])
    answer = api.get(f"{INITIAL}&resourceVersion={now + 1000}")
    assert (answer.status, answer.json["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")
    connection = api.connection()
    connection.request("GET", f"{INITIAL}&resourceVersion={now + 1}&fieldSelector=metadata.name%3Dlater")
    assert api.post(CMS, config_map("later")).status == 201
    answer = connection.getresponse()
    assert answer.status == 200
    event = json.loads(answer.readline())
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "later")
    connection.close()
    assert api.delete(CMS + "/later").status == 200


def test_a_watch_that_waits_for_a_revision_is_judged_when_it_begins(api):
    """Its kind is removed, or its client's right, while it waits."""
    group = {"kind": "ClusterRole", "name": "waits", "apiGroup": "rbac.authorization.k8s.io"}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    assert api.post(f"{rbac}/clusterroles", {"metadata": {"name": "waits"}, "rules": rules}).status == 201
    assert api.post(f"{rbac}/clusterrolebindings", {
        "metadata": {"name": "waits"}, "roleRef": group,
        "subjects": [{"kind": "User", "name": "waiter", "apiGroup": "rbac.authorization.k8s.io"}]}).status == 201
    now = int(api.get(CMS).json["metadata"]["resourceVersion"])
    connection = api.connection()
    connection.request("GET", f"{INITIAL}&resourceVersion={now + 1}", headers={"Impersonate-User": "waiter"})
    assert api.delete(f"{rbac}/clusterrolebindings/waits").status == 200
    assert api.delete(f"{rbac}/clusterroles/waits").status == 200
    assert connection.getresponse().status == 401
    connection.close()


@pytest.mark.parametrize("path", [CMS + "/c1?", CMS + "?", INITIAL + "&"], ids=["get", "list", "watch"])
def test_a_stop_ends_requests_that_wait_for_a_revision(binary, tmp_path, path):
    """Also those whose clients have left."""
    server = Control(binary, tmp_path / "waits", "--gateway=false")
    try:
        left = server.connection()
        left.request("GET", f"{path}resourceVersion=1000000")
        assert server.get("/healthz").status == 200
        left.close()
        assert server.get("/healthz").status == 200
        server.stop()
    finally:
        server.close()


def test_namespace_of_an_update(api):
    answer = api.put(CMS + "/c1", config_map("c1", namespace="other"))
    assert answer.message == "the namespace of the object (other) does not match the namespace on the request (default)"


# --- YAML ----------------------------------------------------------------------------------

YAML = {"Accept": "application/yaml"}
HARD = {
    "empty": "", "bool": "y", "number": "123", "float": "1.5e3", "hex": "0x1f", "date": "2026-01-01",
    "time": "2026-01-01T00:00:00Z", "clock": "12:30:45", "colon": "a: b", "url": "a:b", "hash": "a #b", "dash": "- a",
    "lead": " a", "trail": "a ", "lines": "a\nb", "lines2": "a\nb\n", "lines3": "a\nb\n\n", "lines4": "  a\nb",
    "break": "\n", "tab": "a\tb", "quote": "it's", "double": 'say "x"', "star": "*a", "brace": "{a}", "null": "null",
    "long": "word " * 60, "wide": "x" * 200, "quoted": "a: " + "word " * 60 + "end", "unicode": "h\u00e9\u2603",
    "control": "a\x01b", "underscore": "1_000", "dashes": "---", "crlf": "a\r\nb", "space-break": "a \nb", "a10": "x",
    "a2": "y", "slash": "a\\b", "version": "1.2.3", "comma": "a,b",
}


def test_answers_in_yaml(api):
    create(api, CMS, metadata={"name": "hard"}, data=HARD)
    answer = api.get(CMS + "/hard", headers=YAML)
    assert answer.headers["Content-Type"] == "application/yaml"
    import yaml
    assert yaml.safe_load(answer.body)["data"] == HARD
    back = api.request("PUT", CMS + "/hard", answer.body, headers={"Content-Type": "application/yaml", **YAML})
    assert yaml.safe_load(back.body)["data"] == HARD
    missing = api.get(CMS + "/none", headers=YAML)
    assert missing.status == 404 and yaml.safe_load(missing.body)["reason"] == "NotFound"
    assert yaml.safe_load(api.get(CMS, headers=YAML).body)["kind"] == "ConfigMapList"
    assert api.get(CMS, headers={"Accept": "application/yaml;q=0.5, application/json"}).status == 200


def test_yaml_reads_as_kubectl_prints_it(api, kubectl):
    create(api, CMS, metadata={"name": "printed"}, data=HARD)
    assert api.get(CMS + "/printed", headers=YAML).body.decode() == \
        kubectl("get", "cm", "printed", "-o", "yaml", "--show-managed-fields")
    crd = "httproutes.gateway.networking.k8s.io"
    assert api.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}", headers=YAML).body.decode() == \
        kubectl("get", "crd", crd, "-o", "yaml", "--show-managed-fields")


def test_watches_are_not_yaml(api):
    answer = api.get(CMS + "?watch=1", headers=YAML)
    assert answer.status == 406 and answer.message.endswith(
        "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch")


# --- tables --------------------------------------------------------------------------------

def table(api, path):
    answer = api.get(path, headers={"Accept": "application/json;as=Table;g=meta.k8s.io;v=v1"})
    assert answer.status == 200, answer
    heads = [c["name"] for c in answer.json["columnDefinitions"]]
    return [dict(zip(heads, row["cells"])) for row in answer.json["rows"]]


def test_tables_of_events_in_both_groups(api):
    events = "/api/v1/namespaces/default/events"
    create(api, events, metadata={"name": "one"}, reason="R", message=" two\n", type="Normal", count=3,
           involvedObject={"kind": "Service", "name": "s", "namespace": "default"},
           source={"component": "me"}, reportingInstance="i", firstTimestamp="2020-01-01T00:00:00Z")
    create(api, "/apis/events.k8s.io/v1/namespaces/default/events", metadata={"name": "two"}, reason="R", note="hi",
           type="Warning", action="A", reportingController="ctl", reportingInstance="x",
           regarding={"kind": "Node", "name": "", "namespace": "default"}, eventTime="2020-01-01T00:00:00.000000Z",
           series={"count": 5, "lastObservedTime": "2020-01-02T00:00:00.000000Z"})
    for path in (events, "/apis/events.k8s.io/v1/namespaces/default/events"):
        rows = {r["Name"]: r for r in table(api, path)}
        one, two = rows["one"], rows["two"]
        assert (one["Message"], one["Source"], one["Count"], one["Object"]) == ("two", "me, i", 3, "service/s")
        assert (two["Message"], two["Source"], two["Count"], two["Object"]) == ("hi", "ctl, x", 5, "node")
        assert one["Last Seen"] == one["First Seen"] and two["First Seen"].endswith("d")
    assert names(api.get(events + "?fieldSelector=source%3Dctl")) == ["two"]
    assert names(api.get(events + "?fieldSelector=source%3Dme")) == ["one"]


def test_tables_of_policies(api):
    admission = "/apis/admissionregistration.k8s.io/v1"
    create(api, f"{admission}/validatingadmissionpolicies", metadata={"name": "p"}, spec={
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}, "validations": [{"expression": "true"}],
        "matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
                                                "resources": ["secrets"], "resourceNames": ["no-such"]}]}})
    create(api, f"{admission}/validatingadmissionpolicybindings", metadata={"name": "b"}, spec={
        "policyName": "p", "validationActions": ["Deny"],
        "paramRef": {"name": "q", "parameterNotFoundAction": "Deny"}})
    row, = (r for r in table(api, f"{admission}/validatingadmissionpolicies") if r["Name"] == "p")
    assert (row["Validations"], row["ParamKind"]) == (1, "v1/ConfigMap")
    row, = (r for r in table(api, f"{admission}/validatingadmissionpolicybindings") if r["Name"] == "b")
    assert (row["PolicyName"], row["ParamRef"]) == ("p", "*/q")


# --- access --------------------------------------------------------------------------------

def as_user(user, *groups):
    return {"Impersonate-User": user, **({"Impersonate-Group": groups[0]} if groups else {})}


@pytest.fixture(scope="module")
def editor(api):
    """One who may write roles and holds nothing else."""
    create(api, f"{RBAC}/clusterroles", metadata={"name": "editor"}, rules=[
        {"verbs": ["create", "update", "get"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["*"]}])
    create(api, f"{RBAC}/clusterrolebindings", metadata={"name": "editor"},
           roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "editor"},
           subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ed"}])
    return as_user("ed")


GRANT = 'user "ed" (groups=["system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'


def test_missing_rights_are_named_one_by_one(api, editor):
    answer = api.post(f"{RBAC}/clusterroles", {"metadata": {"name": "x"}, "rules": [
        {"verbs": ["list", "get"], "apiGroups": [""], "resources": ["secrets", "configmaps"]},
        {"verbs": ["watch"], "apiGroups": [""], "resources": ["secrets"]},
        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["b", "a"]},
        {"verbs": ["get", "create"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"]},
        {"verbs": ["get", "post"], "nonResourceURLs": ["/version", "/x"]}]}, headers=editor)
    assert answer.status == 403
    assert answer.message == (
        'clusterroles.rbac.authorization.k8s.io "x" is forbidden: ' + GRANT +
        '{APIGroups:[""], Resources:["configmaps"], Verbs:["list" "get"]}\n'
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}\n'
        '{APIGroups:[""], Resources:["secrets"], Verbs:["list" "get" "watch"]}\n'
        '{NonResourceURLs:["/version"], Verbs:["post"]}\n'
        '{NonResourceURLs:["/x"], Verbs:["get"]}\n'
        '{NonResourceURLs:["/x"], Verbs:["post"]}')


def test_binding_needs_the_role(api, editor):
    answer = api.post(f"{RBAC}/namespaces/default/rolebindings", {
        "metadata": {"name": "x"}, "subjects": [],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "none"}}, headers=editor)
    assert (answer.status, answer.message) == (404, 'clusterroles.rbac.authorization.k8s.io "none" not found')
    assert answer.json["details"] == {"name": "none", "group": "rbac.authorization.k8s.io", "kind": "clusterroles"}


def test_refusals_name_missing_roles(api):
    for kind in ("ClusterRole", "Role"):
        create(api, f"{RBAC}/namespaces/default/rolebindings", metadata={"name": f"lost-{kind.lower()}"},
               roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "lost"},
               subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "zed"}])
    why = ('RBAC: [clusterrole.rbac.authorization.k8s.io "lost" not found, '
           'role.rbac.authorization.k8s.io "lost" not found]')
    answer = api.get(CMS, headers=as_user("zed"))
    assert answer.message == ('configmaps is forbidden: User "zed" cannot list resource "configmaps" in API group "" '
                              f'in the namespace "default": {why}')
    review = create(api, f"{AUTHZ}/subjectaccessreviews", spec={
        "user": "zed", "resourceAttributes": {"verb": "list", "resource": "configmaps", "namespace": "default"}})
    assert review["status"] == {"allowed": False, "reason": why}
    assert api.get("/api/v1/namespaces/kube-system/configmaps", headers=as_user("zed")).message.endswith('"kube-system"')


def whoami(api, headers):
    return api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, headers=headers)


def test_impersonation_needs_a_user(api):
    for header in ("Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes"):
        assert api.get(CMS, headers={header: "x"}).status == 500


def test_impersonated_groups(api):
    create(api, f"{RBAC}/clusterrolebindings", metadata={"name": "ask"},
           roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:basic-user"},
           subjects=[{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:unauthenticated"}])
    answer = whoami(api, as_user("a", "system:unauthenticated"))
    assert answer.json["status"]["userInfo"]["groups"] == ["system:unauthenticated"]
    assert whoami(api, as_user("a", "b")).json["status"]["userInfo"]["groups"] == ["b", "system:authenticated"]
    extra = whoami(api, {**as_user("a"), "Impersonate-Extra-Some%2fkey": "v"})
    assert extra.json["status"]["userInfo"]["extra"] == {"some/key": ["v"]}


def test_local_reviews(api):
    path = f"{AUTHZ}/namespaces/default/localsubjectaccessreviews"
    attributes = {"verb": "get", "resource": "pods"}
    ok = create(api, path, spec={"user": "a", "resourceAttributes": {**attributes, "namespace": "default"}})
    assert ok["metadata"] == {"creationTimestamp": None, "namespace": "default"}
    answer = api.post(path, {"spec": {"user": "a", "resourceAttributes": {**attributes, "namespace": "x"}}})
    assert answer.json["details"]["causes"] == [
        {"reason": "FieldValueInvalid", "message": 'Invalid value: "x": must match metadata.namespace',
         "field": "spec.resourceAttributes.namespace"}]
    answer = api.post(path, {"spec": {"user": "a", "nonResourceAttributes": {"verb": "get", "path": "/x"}}})
    assert answer.status == 422 and answer.message.endswith("disallowed on this kind of request")
    answer = api.post(path, {"metadata": {"namespace": "x"}, "spec": {"user": "a", "resourceAttributes": attributes}})
    assert answer.status == 400


def test_tokens_bound_to_objects(api):
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    create(api, accounts, metadata={"name": "robot"})
    node = create(api, "/api/v1/nodes", metadata={"name": "n1"})
    secret = create(api, "/api/v1/namespaces/default/secrets", metadata={"name": "bind"})

    def ask(**ref):
        return api.post(f"{accounts}/robot/token", {"spec": {"boundObjectRef": {"apiVersion": "v1", **ref}}})
    good = ask(kind="Node", name="n1").json
    claims = good["status"]["token"].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    assert claims["kubernetes.io"]["node"] == {"name": "n1", "uid": node["metadata"]["uid"]}
    bearer = {"Authorization": "Bearer " + good["status"]["token"]}
    assert api.get("/api", headers=bearer, context=api.context(cert=False)).status == 200
    api.delete("/api/v1/nodes/n1")
    assert api.get("/api", headers=bearer, context=api.context(cert=False)).status == 401
    assert ask(kind="Node", name="none").message == 'nodes "none" not found'
    assert ask(kind="Secret", name="none").message == 'secrets "none" not found'
    assert ask(kind="Foo", name="x").message == "cannot bind token to object of type /v1, Kind=Foo"
    assert ask(kind="Secret", name="bind", uid="other").message == (
        'Operation cannot be fulfilled on Secret "bind": the UID in the bound object reference (other) does not match '
        "the UID in record. The object might have been deleted and then recreated")
    assert ask(kind="Secret", name="bind", uid=secret["metadata"]["uid"]).status == 201
    answer = api.post(f"{accounts}/robot/token", {"metadata": {"name": "x"}})
    assert answer.message == ('TokenRequest.authentication.k8s.io "robot" is invalid: metadata.name: Invalid value: '
                              '"x": must match the service account name if specified')


# --- deletion ------------------------------------------------------------------------------

DELETE_INVALID = 'DeleteOptions.meta.k8s.io "" is invalid: '


@pytest.mark.parametrize("body,message", [
    ({"propagationPolicy": "Orphan", "orphanDependents": True},
     'propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set'),
    ({"propagationPolicy": "X"}, 'propagationPolicy: Unsupported value: "X": supported values: "Foreground", '
                                 '"Background", "Orphan", "nil"'),
    ({"dryRun": ["All", "X"]}, 'dryRun: Unsupported value: []string{"All", "X"}: supported values: "All"'),
])
def test_bad_delete_options(api, body, message):
    answer = api.delete(CMS + "/c1", body)
    assert (answer.status, answer.message) == (422, DELETE_INVALID + message)


def test_failed_precondition_names_the_kind(api):
    answer = api.delete(CMS + "/c1", {"preconditions": {"uid": "x"}})
    assert answer.status == 409 and answer.json["details"] == {"name": "c1", "kind": "ConfigMap"}
    assert api.delete(CMS + "/c1?gracePeriodSeconds=x").message == 'strconv.ParseInt: parsing "x": invalid syntax'


def test_collections_are_deleted_up_to_a_limit(api):
    for name in ("d1", "d2", "d3"):
        create(api, CMS, metadata={"name": name, "labels": {"del": "1"}})
    query = CMS + "?labelSelector=del%3D1"
    assert names(api.delete(query + "&limit=2&dryRun=All")) == ["d1", "d2"]
    assert names(api.delete(query + "&limit=2")) == ["d1", "d2"]
    assert names(api.get(query)) == ["d3"]
    assert api.delete(query + "&resourceVersionMatch=Exact").status == 422
    assert names(api.delete(query)) == ["d3"]


# --- operations ----------------------------------------------------------------------------

def test_health_checks(api):
    assert api.get("/livez?verbose").body == b"[+]ping ok\n[+]log ok\nlivez check passed\n"
    ready = api.get("/readyz?verbose&exclude=store&exclude=other").body.decode()
    assert "[+]store excluded: ok\n" in ready and "[+]bootstrap ok\n" in ready and "[+]shutdown ok\n" in ready
    assert 'warn: some health checks cannot be excluded: no matches for "other"\nreadyz check passed\n' in ready
    assert api.get("/readyz/store?verbose").body == b"ok"
    assert api.get("/livez/none").status == 404
    assert api.get("/livez/store").status == 404


def test_advertised_name_is_in_the_certificate(binary, tmp_path):
    server = Control(binary, tmp_path, "--advertise", "api.example.com:6443")
    assert "server: https://api.example.com:6443" in server.kubeconfig.read_text()
    context = server.context()
    import socket
    with socket.create_connection(("127.0.0.1", server.port)) as s, \
            context.wrap_socket(s, server_hostname="api.example.com") as t:
        assert ("DNS", "api.example.com") in t.getpeercert()["subjectAltName"]
    with pytest.raises(ssl.SSLCertVerificationError), socket.create_connection(("127.0.0.1", server.port)) as s:
        context.wrap_socket(s, server_hostname="other.example.com")
    server.close()


def test_too_many_events_are_refused(binary, tmp_path):
    done = subprocess.run([binary, "control", "--data", str(tmp_path), "--keep-events", "100001"], capture_output=True,
                          text=True, timeout=GUARD * SLOW, check=False)
    assert done.returncode == 1 and "keep-events" in done.stderr and "100000" in done.stderr


def test_root_certificate_follows_the_authority(binary, tmp_path):
    server = Control(binary, tmp_path)
    path = "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"
    old = server.get(path).json
    server.stop()
    shutil.rmtree(server.data / "pki")
    server.restart()
    root = (server.data / "pki" / "root.crt").read_text()
    until(lambda: server.get(path).json["data"]["ca.crt"] == root, 10, "the new root")
    new = server.get(path).json
    assert new["metadata"]["uid"] == old["metadata"]["uid"] and old["data"]["ca.crt"] != root
    # Nobody else's certificate stays there.
    server.patch(path, {"data": {"ca.crt": "x", "more": "y"}})
    until(lambda: server.get(path).json["data"] == {"ca.crt": root}, 10, "the root to come back")
    server.close()


