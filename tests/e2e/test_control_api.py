# SPDX-License-Identifier: Apache-2.0
"""The API on the wire: verbs, options, errors, watches, access. No kubectl needed."""
import base64
import json
import ssl
import threading
import time

import pytest
from harness.control import Control, config_map
from harness.wait import GUARD, SLOW, until

CMS = "/api/v1/namespaces/default/configmaps"
CRD = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.test.example.com"},
    "spec": {
        "group": "test.example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{
            "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": ".spec.color"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "size": {"type": "integer", "maximum": 10}, "color": {"type": "string", "default": "blue"}}},
                "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}}}},
        }],
    },
}
THINGS = "/apis/test.example.com/v1/namespaces/default/things"


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("control"))
    answer = server.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CRD)
    assert answer.status == 201, answer
    yield server
    server.close()


def thing(name, spec=None, **meta):
    return {"apiVersion": "test.example.com/v1", "kind": "Thing", "metadata": {"name": name, **meta},
            "spec": spec or {}}


@pytest.fixture
def name(request):
    """A name nobody else uses."""
    return request.node.name.replace("_", "-").replace("[", "-").replace("]", "").lower()[:60].strip("-")


# --- transport -----------------------------------------------------------------------------

@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_both_tls_versions(api, version):
    answer = api.get("/api/v1/namespaces/default", context=api.context(versions=version))
    assert answer.status == 200


def test_http2(api):
    import h2.config
    import h2.connection
    import socket
    context = api.context()
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(socket.create_connection(("127.0.0.1", api.port)), server_hostname="127.0.0.1") as s:
        assert s.selected_alpn_protocol() == "h2"
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        c.initiate_connection()
        for stream in (1, 3, 5):
            c.send_headers(stream, [(":method", "GET"), (":path", "/api/v1/namespaces"), (":scheme", "https"),
                                    (":authority", "x")], end_stream=True)
        s.sendall(c.data_to_send())
        bodies, ended = {}, set()
        s.settimeout(GUARD * SLOW)
        while len(ended) < 3:
            for event in c.receive_data(s.recv(65536)):
                kind = type(event).__name__
                if kind == "ResponseReceived":
                    assert dict(event.headers)[b":status" if isinstance(event.headers[0][0], bytes) else ":status"] \
                        in (b"200", "200")
                if kind == "DataReceived":
                    bodies[event.stream_id] = bodies.get(event.stream_id, b"") + event.data
                    c.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if kind == "StreamEnded":
                    ended.add(event.stream_id)
            s.sendall(c.data_to_send())
        assert all(json.loads(b)["kind"] == "NamespaceList" for b in bodies.values())


def test_keep_alive_and_common_headers(api):
    c = api.connection()
    for _ in range(3):
        c.request("GET", "/api/v1/namespaces/default", headers={"Audit-Id": "my-id"})
        r = c.getresponse()
        r.read()
        assert r.headers["Audit-Id"] == "my-id"
        assert r.headers["Cache-Control"] == "no-cache, private"
        assert r.headers["Date"]
    c.close()


def test_large_lists_are_compressed(api, name):
    for i in range(3):
        assert api.post(CMS, config_map(f"{name}-{i}", {"a": "x" * 100000})).status == 201
    answer = api.get(CMS, headers={"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Encoding"] == "gzip"
    assert len(answer.body) < 100000
    for i in range(3):
        api.delete(f"{CMS}/{name}-{i}")


# --- create --------------------------------------------------------------------------------

def test_system_fields_are_ours(api, name):
    answer = api.post(CMS, config_map(name, {"a": "b"}, uid="x", creationTimestamp="2001-01-01T00:00:00Z",
                                      generation=7, selfLink="/x"))
    meta = answer.json["metadata"]
    assert answer.status == 201 and meta["uid"] != "x" and not meta["creationTimestamp"].startswith("2001")
    assert "generation" not in meta and "selfLink" not in meta and meta["resourceVersion"].isdigit()


def test_bad_json(api):
    answer = api.post(CMS, "{", headers={"Content-Type": "application/json"})
    assert answer.status == 400 and answer.json["reason"] == "BadRequest"


def test_wrong_namespace_and_version(api, name):
    assert api.post(CMS, config_map(name, namespace="other")).status == 400
    answer = api.post(CMS, {**config_map(name), "apiVersion": "v2"})
    assert answer.status == 400 and 'in version "v2" cannot be handled as a ConfigMap' in answer.message
    answer = api.post(THINGS, {**thing(name), "apiVersion": "test.example.com/v9"})
    assert answer.message == ("the API version in the data (test.example.com/v9) does not match the expected API "
                              "version (test.example.com/v1)")


@pytest.mark.parametrize("mode,status", [("Strict", 400), ("Warn", 201), ("Ignore", 201)])
def test_field_validation(api, name, mode, status):
    body = '{"apiVersion":"test.example.com/v1","kind":"Thing","metadata":{"name":"%s"},' \
           '"spec":{"size":1,"size":2,"bogus":3}}' % name
    answer = api.post(f"{THINGS}?fieldValidation={mode}", body, headers={"Content-Type": "application/json"})
    assert answer.status == status, answer
    if mode == "Strict":
        assert answer.message == ('Thing in version "v1" cannot be handled as a Thing: strict decoding error: '
                                  'duplicate field "spec.size", unknown field "spec.bogus"')
    else:
        assert answer.json["spec"] == {"size": 2, "color": "blue"}
        warnings = answer.headers.get_all("Warning") or []
        want = ['299 - "duplicate field \\"spec.size\\""', '299 - "unknown field \\"spec.bogus\\""']
        assert warnings == (want if mode == "Warn" else [])


def test_dry_run_stores_nothing(api, name):
    answer = api.post(f"{CMS}?dryRun=All", config_map(name))
    assert answer.status == 201 and "resourceVersion" not in answer.json["metadata"]
    assert api.get(f"{CMS}/{name}").status == 404


def test_generate_name(api):
    names = {api.post(CMS, {"metadata": {"generateName": "gen-"}}).json["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5 and all(n.startswith("gen-") and len(n) == 9 for n in names)


# --- update and patch ----------------------------------------------------------------------

def test_optimistic_locking(api, name):
    first = api.post(CMS, config_map(name, {"a": "1"})).json
    second = api.put(f"{CMS}/{name}", {**first, "data": {"a": "2"}})
    assert second.status == 200
    third = api.put(f"{CMS}/{name}", {**first, "data": {"a": "3"}})
    assert third.status == 409 and third.json["reason"] == "Conflict"
    assert third.message == (f'Operation cannot be fulfilled on configmaps "{name}": the object has been modified; '
                             "please apply your changes to the latest version and try again")


def test_custom_resources_need_a_version_for_put(api, name):
    assert api.post(THINGS, thing(name)).status == 201
    answer = api.put(f"{THINGS}/{name}", thing(name, {"size": 1}))
    assert answer.status == 422
    assert "metadata.resourceVersion: Invalid value: 0x0: must be specified for an update" in answer.message


def test_no_op_keeps_the_version(api, name):
    rv = api.post(CMS, config_map(name, {"a": "1"})).json["metadata"]["resourceVersion"]
    answer = api.patch(f"{CMS}/{name}", {"data": {"a": "1"}})
    assert answer.status == 200 and answer.json["metadata"]["resourceVersion"] == rv


def test_patch_with_a_version_is_conditional(api, name):
    rv = api.post(CMS, config_map(name, {"a": "1"})).json["metadata"]["resourceVersion"]
    assert api.patch(f"{CMS}/{name}", {"metadata": {"resourceVersion": rv}, "data": {"a": "2"}}).status == 200
    assert api.patch(f"{CMS}/{name}", {"metadata": {"resourceVersion": rv}, "data": {"a": "3"}}).status == 409


def test_concurrent_patches_all_land(api, name):
    api.post(CMS, config_map(name, {}))
    failures = []

    def one(i):
        answer = api.patch(f"{CMS}/{name}", {"data": {f"k{i}": str(i)}})
        if answer.status != 200:
            failures.append(answer)
    threads = [threading.Thread(target=one, args=(i,)) for i in range(24)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
    assert len(api.get(f"{CMS}/{name}").json["data"]) == 24


def test_status_and_spec_are_separate(api, name):
    made = api.post(THINGS, {**thing(name, {"size": 1}), "status": {"seen": 9}}).json
    assert "status" not in made and made["metadata"]["generation"] == 1
    done = api.patch(f"{THINGS}/{name}/status", {"status": {"seen": 2}, "spec": {"size": 5}}).json
    assert done["status"] == {"seen": 2} and done["spec"]["size"] == 1 and done["metadata"]["generation"] == 1
    done = api.patch(f"{THINGS}/{name}", {"spec": {"size": 3}, "status": {"seen": 7}}).json
    assert done["status"] == {"seen": 2} and done["metadata"]["generation"] == 2


def test_apply_creates_with_201_then_200(api, name):
    for want in (201, 200):
        answer = api.patch(f"{CMS}/{name}", config_map(name, {"a": "1"}), "apply", "?fieldManager=m")
        assert answer.status == want, answer
    entry, = answer.json["metadata"]["managedFields"]
    assert entry["manager"] == "m" and entry["operation"] == "Apply"
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}
    clash = api.patch(f"{CMS}/{name}", config_map(name, {"a": "2"}), "apply", "?fieldManager=n")
    assert clash.status == 409 and clash.message == 'Apply failed with 1 conflict: conflict with "m": .data.a'
    assert clash.json["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "m"', "field": ".data.a"}]
    assert api.patch(f"{CMS}/{name}", config_map(name, {"a": "2"}), "apply", "?fieldManager=n&force=true").status == 200


def test_apply_takes_yaml(api, name):
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  a: 'yes'\n"
    answer = api.patch(f"{CMS}/{name}", body, "apply", "?fieldManager=m")
    assert answer.status == 201 and answer.json["data"] == {"a": "yes"}


# --- lists ---------------------------------------------------------------------------------

def test_paging_at_one_revision(api):
    ns = "paging"
    api.post("/api/v1/namespaces", {"metadata": {"name": ns}})
    base = f"/api/v1/namespaces/{ns}/secrets"
    for i in range(25):
        api.post(base, {"metadata": {"name": f"s{i:02}"}})
    seen, token, revisions = [], "", set()
    while True:
        page = api.get(f"{base}?limit=10" + (f"&continue={token}" if token else "")).json
        seen += [o["metadata"]["name"] for o in page["items"]]
        revisions.add(page["metadata"]["resourceVersion"])
        api.post(base, {"metadata": {"name": f"a-late-{len(seen)}"}})
        api.delete(f"{base}/s24")
        token = page["metadata"].get("continue")
        if not token:
            break
        assert page["metadata"]["remainingItemCount"] == 25 - len(seen)
    assert seen == [f"s{i:02}" for i in range(25)] and len(revisions) == 1
    assert api.get(f"{base}?limit=5&continue=bogus").status == 400
    assert api.get(f"{base}?resourceVersionMatch=Exact").status == 422
    assert api.get(f"{base}?resourceVersion=abc").status == 400


def test_selectable_fields(api, name):
    for color in ("red", "green"):
        api.post(THINGS, thing(f"{name}-{color}", {"color": color}))
    items = api.get(f"{THINGS}?fieldSelector=spec.color%3Dred").json["items"]
    assert [o["metadata"]["name"] for o in items] == [f"{name}-red"]
    assert api.get(f"{THINGS}?fieldSelector=spec.size%3D1").message == "field label not supported: spec.size"
    assert api.get(f"{THINGS}?labelSelector=a%3D%3D%3Db").status == 400


def test_future_revision_is_a_timeout(api):
    answer = api.get(f"{CMS}?resourceVersion=999999999&resourceVersionMatch=NotOlderThan")
    assert answer.status == 504 and answer.json["reason"] == "Timeout"
    assert answer.message.startswith("Timeout: Too large resource version: 999999999, current: ")
    assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"


def test_tables(api, name):
    api.post(CMS, config_map(name, {"a": "1"}))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    table = api.get(f"{CMS}/{name}", headers={"Accept": accept}).json
    assert table["kind"] == "Table" and table["rows"][0]["cells"][:2] == [name, 1]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert api.get(f"{CMS}/none-here", headers={"Accept": accept}).json["kind"] == "Status"


# --- watch ---------------------------------------------------------------------------------

def test_watch_sees_everything_in_order(api, name):
    rv = api.get(CMS).json["metadata"]["resourceVersion"]
    watch = api.watch(f"{CMS}?watch=1&resourceVersion={rv}&timeoutSeconds=600&fieldSelector=metadata.name%3D{name}")
    api.post(CMS, config_map(name, {"n": "0"}))
    for i in range(1, 50):
        api.patch(f"{CMS}/{name}", {"data": {"n": str(i)}})
    api.delete(f"{CMS}/{name}")
    events = [next(watch) for _ in range(51)]
    watch.close()
    assert [e["type"] for e in events] == ["ADDED"] + ["MODIFIED"] * 49 + ["DELETED"]
    assert [e["object"]["data"]["n"] for e in events] == [str(i) for i in range(50)] + ["49"]
    revisions = [int(e["object"]["metadata"]["resourceVersion"]) for e in events]
    assert revisions == sorted(set(revisions))


def test_watch_with_a_label_selector(api, name):
    rv = api.get(CMS).json["metadata"]["resourceVersion"]
    watch = api.watch(f"{CMS}?watch=1&resourceVersion={rv}&timeoutSeconds=600&labelSelector=w%3D{name}")
    api.post(CMS, config_map(name))
    api.patch(f"{CMS}/{name}", {"metadata": {"labels": {"w": name}}})
    api.patch(f"{CMS}/{name}", {"data": {"a": "1"}})
    api.patch(f"{CMS}/{name}", {"metadata": {"labels": None}, "data": {"a": "2"}})
    api.delete(f"{CMS}/{name}")
    api.post(CMS, config_map(name, labels={"w": name}))
    events = [next(watch) for _ in range(4)]
    watch.close()
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    # What is no longer selected is shown as it last was.
    assert events[2]["object"]["data"] == {"a": "1"}


def test_watch_list_and_bookmarks(api, name):
    api.post(CMS, config_map(name))
    watch = api.watch(f"{CMS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
                      f"&timeoutSeconds=600&fieldSelector=metadata.name%3D{name}")
    first, second = next(watch), next(watch)
    assert first["type"] == "ADDED" and second["type"] == "BOOKMARK"
    notes = second["object"]["metadata"]["annotations"]
    assert notes["k8s.io/initial-events-end"] == "true"
    blueprint = json.loads(base64.b64decode(notes["kubernetes.io/initial-events-list-blueprint"]))
    assert blueprint["kind"] == "ConfigMapList"
    api.delete(f"{CMS}/{name}")
    assert next(watch)["type"] == "DELETED"
    watch.close()


def test_watch_ends_at_its_timeout(api):
    begin = time.monotonic()
    rv = api.get(CMS).json["metadata"]["resourceVersion"]
    assert not list(api.watch(f"{CMS}?watch=1&timeoutSeconds=1&resourceVersion={rv}"))
    assert time.monotonic() - begin > 0.8  # and before the client's patience was over


def test_crd_change_ends_its_watches(api):
    crd = json.loads(json.dumps(CRD).replace("things", "shorts").replace("Thing", "Short"))
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    assert api.post(path, crd).status == 201
    watch = api.watch("/apis/test.example.com/v1/shorts?watch=1&timeoutSeconds=600")
    assert watch.status == 200
    assert api.delete(f"{path}/shorts.test.example.com").status == 200
    assert list(watch) == []
    until(lambda: api.get(f"{path}/shorts.test.example.com").status == 404, 10)
    assert api.get("/apis/test.example.com/v1/shorts").status == 404


# --- deletion ------------------------------------------------------------------------------

def test_preconditions(api, name):
    api.post(CMS, config_map(name))
    answer = api.delete(f"{CMS}/{name}", {"preconditions": {"uid": "nope"}})
    assert answer.status == 409 and "The object might have been deleted and then recreated" in answer.message
    assert api.delete(f"{CMS}/{name}").json["status"] == "Success"


def owned(name, owner, **more):
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
           "uid": owner["metadata"]["uid"], **more}
    return config_map(name, ownerReferences=[ref])


def test_background_foreground_orphan(api, name):
    for policy in ("Background", "Foreground", "Orphan"):
        top = f"{name}-{policy.lower()}"
        owner = api.post(CMS, config_map(top)).json
        child = api.post(CMS, owned(f"{top}-c", owner, blockOwnerDeletion=True)).json
        api.post(CMS, owned(f"{top}-g", child, blockOwnerDeletion=True))
        assert api.delete(f"{CMS}/{top}", {"propagationPolicy": policy}).status == 200
        until(lambda: api.get(f"{CMS}/{top}").status == 404, 10, f"{policy}: the owner to go")
        if policy == "Orphan":
            left = api.get(f"{CMS}/{top}-c").json
            assert "ownerReferences" not in left["metadata"]
            assert api.get(f"{CMS}/{top}-g").status == 200
        else:
            until(lambda: api.get(f"{CMS}/{top}-c").status == 404, 10, f"{policy}: the child to go")
            until(lambda: api.get(f"{CMS}/{top}-g").status == 404, 10, f"{policy}: the grandchild to go")


def test_dependents_of_nobody_are_collected(api, name):
    owner = api.post(CMS, config_map(name)).json
    api.delete(f"{CMS}/{name}")
    assert api.post(CMS, owned(f"{name}-late", owner)).status == 201
    until(lambda: api.get(f"{CMS}/{name}-late").status == 404, 10)


def test_finalizers_hold(api, name):
    api.post(CMS, config_map(name, finalizers=["example.com/hold"]))
    going = api.delete(f"{CMS}/{name}").json
    assert going["metadata"]["deletionTimestamp"] and going["metadata"]["deletionGracePeriodSeconds"] == 0
    refused = api.patch(f"{CMS}/{name}", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    assert refused.status == 422
    assert api.patch(f"{CMS}/{name}", {"metadata": {"finalizers": None}}).status == 200
    assert api.get(f"{CMS}/{name}").status == 404


def test_namespace_goes_with_its_content(api):
    api.post("/api/v1/namespaces", {"metadata": {"name": "goner"}})
    base = "/api/v1/namespaces/goner"
    for i in range(20):
        assert api.post(f"{base}/configmaps", config_map(f"c{i}")).status == 201
    api.post("/apis/test.example.com/v1/namespaces/goner/things", thing("t"))
    assert api.delete(base).json["status"]["phase"] == "Terminating"
    until(lambda: api.get(base).status == 404, 15, "the namespace to go")
    assert api.get(f"{base}/configmaps").json["items"] == []
    assert api.delete("/api/v1/namespaces/default").message == \
        'namespaces "default" is forbidden: this namespace may not be deleted'


def test_default_service_account(api):
    api.post("/api/v1/namespaces", {"metadata": {"name": "fresh"}})
    until(lambda: api.get("/api/v1/namespaces/fresh/serviceaccounts/default").status == 200, 5)
    until(lambda: api.get("/api/v1/namespaces/fresh/configmaps/kube-root-ca.crt").status == 200, 5)


# --- access --------------------------------------------------------------------------------

def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_nobody_may_only_see_health_and_version(api):
    nobody = api.context(cert=False)
    for path in ("/healthz", "/livez", "/readyz", "/version"):
        assert api.get(path, context=nobody).status == 200
    answer = api.get("/api/v1/namespaces", context=nobody)
    assert answer.status == 403
    assert answer.message == ('namespaces is forbidden: User "system:anonymous" cannot list resource "namespaces" in '
                              'API group "" at the cluster scope')
    assert api.get("/livez/ping", context=nobody).status == 403
    assert api.get("/api/v1/namespaces", context=nobody, headers=bearer("nonsense")).status == 401


def test_admin_token(api):
    token = (api.data / "pki" / "admin.token").read_text().strip()
    nobody = api.context(cert=False)
    assert api.get("/api/v1/namespaces", context=nobody, headers=bearer(token)).status == 200
    assert (api.data / "pki" / "admin.token").stat().st_mode & 0o077 == 0
    assert api.kubeconfig.stat().st_mode & 0o077 == 0


def test_service_account_tokens(api, name):
    nobody = api.context(cert=False)
    base = "/api/v1/namespaces/default/serviceaccounts"
    api.post(base, {"metadata": {"name": name}})
    short = api.post(f"{base}/{name}/token", {"spec": {"expirationSeconds": 10}})
    assert short.status == 422 and "may not specify a duration less than 10 minutes" in short.message
    token = api.post(f"{base}/{name}/token", {"spec": {}}).json["status"]["token"]
    who = api.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, context=nobody, headers=bearer(token))
    assert who.json["status"]["userInfo"]["username"] == f"system:serviceaccount:default:{name}"
    head, body, sig = token.split(".")
    forged = ".".join([head, body, ("A" if sig[0] != "A" else "B") + sig[1:]])
    assert api.get("/version", context=nobody, headers=bearer(forged)).status == 401
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    assert api.get("/version", context=nobody, headers=bearer(f"{none}.{body}.")).status == 401
    other = api.post(f"{base}/{name}/token", {"spec": {"audiences": ["elsewhere"]}}).json["status"]["token"]
    assert api.get("/version", context=nobody, headers=bearer(other)).status == 401
    review = {"spec": {"token": other, "audiences": ["elsewhere"]}}
    assert api.post("/apis/authentication.k8s.io/v1/tokenreviews", review).json["status"]["authenticated"]
    api.delete(f"{base}/{name}")
    assert api.get("/version", context=nobody, headers=bearer(token)).status == 401


def test_nobody_can_grant_what_he_has_not(api, name):
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    alice = {"Impersonate-User": name}
    api.post(f"{rbac}/roles", {"metadata": {"name": name}, "rules": [
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]})
    api.post(f"{rbac}/rolebindings", {"metadata": {"name": name}, "subjects": [{"kind": "User", "name": name}],
                                      "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}})
    small = {"metadata": {"name": f"{name}-1"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}]}
    large = {"metadata": {"name": f"{name}-2"}, "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}
    assert api.post(f"{rbac}/roles", small, headers=alice).status == 201
    refused = api.post(f"{rbac}/roles", large, headers=alice)
    assert refused.status == 403 and "is attempting to grant RBAC permissions not currently held" in refused.message


def test_foreign_client_certificate_is_401(api, binary, tmp_path):
    other = Control(binary, tmp_path / "other")
    context = api.context(cert=False)
    pem = tmp_path / "c.pem"
    pem.write_bytes(other._secret("client-certificate-data") + other._secret("client-key-data"))
    context.load_cert_chain(pem)
    assert api.get("/api/v1/namespaces", context=context).status == 401
    other.close()


# --- discovery -----------------------------------------------------------------------------

V2 = ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
      "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json")


def test_aggregated_discovery(api):
    answer = api.get("/apis", headers={"Accept": V2})
    assert answer.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert "test.example.com" in [i["metadata"]["name"] for i in answer.json["items"]]
    again = api.get("/apis", headers={"Accept": V2, "If-None-Match": answer.headers["ETag"]})
    assert again.status == 304 and again.body == b""
    old = api.get("/apis", headers={"Accept": V2.split(",", 1)[1]})
    assert old.json["kind"] == "APIGroupList"


def test_openapi(api):
    root = api.get("/openapi/v3")
    url = root.json["paths"]["apis/test.example.com/v1"]["serverRelativeURL"]
    doc = api.get(url)
    assert doc.headers["Cache-Control"] == "public, immutable"
    path = doc.json["paths"]["/apis/test.example.com/v1/namespaces/{namespace}/things/{name}"]
    assert "fieldValidation" in [p["name"] for p in path["patch"]["parameters"]]
    assert api.get(url[:-3] + "000").status == 301
    assert api.get("/openapi/v3", headers={"If-None-Match": root.headers["ETag"]}).status == 304
    assert api.get("/openapi/v2").status == 200


# --- events --------------------------------------------------------------------------------

def test_events_have_two_views(api, name):
    api.post("/api/v1/namespaces/default/events", {
        "metadata": {"name": name}, "involvedObject": {"kind": "ConfigMap", "name": "x", "namespace": "default"},
        "reason": "Tested", "message": "hello", "type": "Normal", "count": 1})
    new = api.get(f"/apis/events.k8s.io/v1/namespaces/default/events/{name}").json
    assert new["note"] == "hello" and new["regarding"]["name"] == "x" and new["deprecatedCount"] == 1
    found = api.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dx").json["items"]
    assert name in [e["metadata"]["name"] for e in found]


def test_large_answers_over_http2(api, name):
    """More than fits into the buffers of a connection, with a client that reads slowly."""
    import h2.config
    import h2.connection
    import socket
    for i in range(20):
        assert api.post(CMS, config_map(f"{name}-{i}", {"a": "x" * 200000})).status == 201
    context = api.context()
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(socket.create_connection(("127.0.0.1", api.port)), server_hostname="127.0.0.1") as s:
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        c.initiate_connection()
        c.increment_flow_control_window(1 << 30)
        for stream in (1, 3):
            c.send_headers(stream, [(":method", "GET"), (":path", CMS), (":scheme", "https"), (":authority", "x")],
                           end_stream=True)
            c.increment_flow_control_window(1 << 30, stream)
        s.sendall(c.data_to_send())
        bodies, ended = {1: b"", 3: b""}, set()
        s.settimeout(GUARD * SLOW)
        while len(ended) < 2:
            for event in c.receive_data(s.recv(20000)):
                if type(event).__name__ == "DataReceived":
                    bodies[event.stream_id] += event.data
                elif type(event).__name__ == "StreamEnded":
                    ended.add(event.stream_id)
    assert all(len(json.loads(b)["items"]) >= 20 for b in bodies.values())
    for i in range(20):
        api.delete(f"{CMS}/{name}-{i}")


def test_making_by_put_or_apply_needs_create(api, name):
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    api.post(f"{rbac}/roles", {"metadata": {"name": name}, "rules": [
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update", "patch"]}]})
    api.post(f"{rbac}/rolebindings", {"metadata": {"name": name}, "subjects": [{"kind": "User", "name": name}],
                                      "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}})
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}
    bob = {"Impersonate-User": name}
    refused = api.put(f"{leases}/{name}", lease, headers=bob)
    assert refused.status == 403 and f'User "{name}" cannot create resource "leases"' in refused.message
    assert api.request("PATCH", f"{leases}/{name}?fieldManager=m", json.dumps(lease),
                       headers={**bob, "Content-Type": "application/apply-patch+yaml"}).status == 403
    assert api.put(f"{leases}/{name}", lease).status == 201


def test_an_aggregation_rule_takes_all_rights(api):
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    rules = [{"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
              "verbs": ["get", "create", "update", "patch"]}]
    assert api.post(roles, {"metadata": {"name": "role-writer"}, "rules": rules}).status == 201
    assert api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
        "metadata": {"name": "role-writer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "role-writer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
    }).status == 201
    climb = {"aggregationRule": {"clusterRoleSelectors": [
        {"matchLabels": {"kubernetes.io/bootstrapping": "rbac-defaults"}}]}}
    as_bob = {"Impersonate-User": "bob"}
    answer = api.patch(roles + "/role-writer", climb, headers=as_bob)
    assert answer.status == 403 and "aggregationRule" in answer.message, answer
    answer = api.post(roles, {"metadata": {"name": "climber"}, **climb}, headers=as_bob)
    assert answer.status == 403, answer
    assert api.patch(roles + "/role-writer", {"metadata": {"labels": {"a": "b"}}}, headers=as_bob).status == 200


def test_namespaces_are_not_served_below_one(api):
    inner = "/api/v1/namespaces/default/namespaces"
    for answer in (api.get(inner), api.get(inner + "/default"), api.get(inner + "/kube-system"),
                   api.post(inner, {"metadata": {"name": "smuggled"}}), api.delete(inner + "/default")):
        assert answer.status == 404, answer
    assert api.get("/api/v1/namespaces/smuggled").status == 404
    assert api.get("/api/v1/namespaces/default").status == 200


def test_a_bad_watch_timeout_is_refused(api):
    answer = api.get(CMS + "?watch=1&timeoutSeconds=x")
    assert answer.status == 400 and 'strconv.ParseInt: parsing "x": invalid syntax' in answer.message, answer
