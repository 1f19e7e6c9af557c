#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
Drives an API server with python3-kubernetes: operations.py KUBECONFIG NAMESPACE

Prints one JSON line per operation, {"op": ..., "got": ...}. operations.mjs does the same operations with
@kubernetes/client-node, and test_control_clients.py expects the same of both.
"""
import base64
import datetime
import json
import sys
import threading
import time
import traceback

import kubernetes
from kubernetes.client.rest import ApiException

GROUP = "clients.example.com"
OPERATIONS = []


def op(function):
    OPERATIONS.append(function)
    return function


def status_of(call):
    """The HTTP status and the reason of a refusal; what worked is 200."""
    try:
        call()
    except ApiException as e:
        body = json.loads(e.body)
        return [e.status, body["reason"]]
    return [200, None]


def gone(get, seconds=60):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if status_of(get)[0] == 404:
            return True
        time.sleep(0.02)
    return False


class Client:
    def __init__(self, kubeconfig, namespace):
        self.kubeconfig, self.ns = kubeconfig, namespace
        self.api = kubernetes.config.new_client_from_config(kubeconfig)
        self.core = kubernetes.client.CoreV1Api(self.api)
        self.custom = kubernetes.client.CustomObjectsApi(self.api)

    def typed(self, content_type):
        """The library chooses a patch's type by the form of its body; this one is told."""
        api = kubernetes.config.new_client_from_config(self.kubeconfig)
        api.set_default_header("Content-Type", content_type)
        return kubernetes.client.CoreV1Api(api), kubernetes.client.CustomObjectsApi(api)

    def config_map(self, name, data=None, **meta):
        return self.core.create_namespaced_config_map(self.ns, {"metadata": {"name": name, **meta}, "data": data})

    def read(self, name):
        return self.core.read_namespaced_config_map(name, self.ns)


@op
def namespace(c):
    made = c.core.create_namespace({"metadata": {"name": c.ns, "labels": {"made": "here"}}})
    return {"phase": made.status.phase, "label": made.metadata.labels["kubernetes.io/metadata.name"] == c.ns,
            "listed": c.ns in [n.metadata.name for n in c.core.list_namespace(label_selector="made=here").items]}


@op
def create(c):
    made = c.config_map("create", {"a": "1"})
    return {"data": made.data, "uid": len(made.metadata.uid), "again": status_of(lambda: c.config_map("create")),
            "version": made.metadata.resource_version.isdigit(), "bad": status_of(lambda: c.config_map("No Name"))}


@op
def get(c):
    c.config_map("get", {"a": "1"})
    listed = [o.metadata.name for o in c.core.list_namespaced_config_map(c.ns).items]
    everywhere = [o.metadata.name for o in c.core.list_config_map_for_all_namespaces().items
                  if o.metadata.namespace == c.ns]
    return {"data": c.read("get").data, "missing": status_of(lambda: c.read("none")), "listed": "get" in listed,
            "everywhere": "get" in everywhere}


@op
def replace(c):
    made = c.config_map("replace", {"a": "1"})
    made.data = {"a": "2"}
    done = c.core.replace_namespaced_config_map("replace", c.ns, made)
    return {"data": done.data, "newer": int(done.metadata.resource_version) > int(made.metadata.resource_version),
            "stale": status_of(lambda: c.core.replace_namespaced_config_map("replace", c.ns, made))}


@op
def patch_json(c):
    c.config_map("patch-json", {"a": "1", "b": "1"})
    done = c.core.patch_namespaced_config_map("patch-json", c.ns, [
        {"op": "test", "path": "/data/a", "value": "1"}, {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "remove", "path": "/data/b"}, {"op": "add", "path": "/data/c", "value": "3"}])
    bad = [{"op": "test", "path": "/data/a", "value": "nope"}]
    return {"data": done.data, "test": status_of(lambda: c.core.patch_namespaced_config_map("patch-json", c.ns, bad))}


@op
def patch_merge(c):
    c.config_map("patch-merge", {"a": "1", "b": "1"})
    done = c.typed("application/merge-patch+json")[0].patch_namespaced_config_map(
        "patch-merge", c.ns, {"data": {"a": None, "c": "3"}})
    return {"data": done.data}


@op
def patch_strategic(c):
    """Lists merge by key: the second port joins the first, the third replaces it by directive."""
    c.core.create_namespaced_service(c.ns, {"metadata": {"name": "strategic"}, "spec": {
        "ports": [{"name": "a", "port": 80, "protocol": "TCP"}], "selector": {"app": "x"}}})

    def ports(patch):
        done = c.core.patch_namespaced_service("strategic", c.ns, {"spec": {"ports": patch}})
        return sorted([p.name, p.port] for p in done.spec.ports)
    return {"added": ports([{"name": "b", "port": 81, "protocol": "TCP"}]),
            "removed": ports([{"port": 80, "$patch": "delete"}])}


@op
def apply(c):
    dynamic = kubernetes.dynamic.DynamicClient(c.api)
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")

    def put(manager, value, force=None):
        # As text: this version of the library cannot send an object with this content type.
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "apply"}, "data": {"a": value}}
        return maps.server_side_apply(json.dumps(body), "apply", c.ns, force, field_manager=manager)
    first, second = put("one", "1"), put("one", "1")
    try:
        put("two", "2")
        conflict = None
    except ApiException as e:
        body = json.loads(e.body)
        conflict = [e.status, body["message"], body["details"]["causes"][0]["field"]]
    forced = put("two", "2", True)
    return {"same": first.metadata.resourceVersion == second.metadata.resourceVersion, "conflict": conflict,
            "forced": forced.to_dict()["data"],
            "managers": sorted(m.manager + "/" + m.operation for m in forced.metadata.managedFields)}


def family(c, name):
    owner = c.config_map(name)
    c.config_map(name + "-child", ownerReferences=[{
        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner.metadata.uid, "blockOwnerDeletion": True}])


@op
def delete(c):
    got = {}
    for policy in ("Background", "Foreground", "Orphan"):
        name = "delete-" + policy.lower()
        family(c, name)
        c.core.delete_namespaced_config_map(name, c.ns, propagation_policy=policy)
        owner = gone(lambda: c.read(name))
        if policy == "Orphan":
            child = c.read(name + "-child").metadata.owner_references
        else:
            child = gone(lambda: c.read(name + "-child"))
        got[policy] = [owner, child]
    got["body"] = c.config_map("delete-uid").metadata.uid is not None
    wrong = kubernetes.client.V1DeleteOptions(preconditions=kubernetes.client.V1Preconditions(uid="other"))
    got["uid"] = status_of(lambda: c.core.delete_namespaced_config_map("delete-uid", c.ns, body=wrong))
    return got


@op
def delete_collection(c):
    for i in range(4):
        c.config_map(f"collection-{i}", labels={"half": str(i % 2)})
    c.core.delete_collection_namespaced_config_map(c.ns, label_selector="half=0")
    left = c.core.list_namespaced_config_map(c.ns, label_selector="half").items
    return {"left": [o.metadata.name for o in left]}


@op
def watch(c):
    start = c.core.list_namespaced_config_map(c.ns).metadata.resource_version
    c.config_map("watch", {"n": "0"})
    for i in (1, 2):
        c.core.patch_namespaced_config_map("watch", c.ns, {"data": {"n": str(i)}})
    c.core.delete_namespaced_config_map("watch", c.ns)
    events = []
    watcher = kubernetes.watch.Watch()
    for e in watcher.stream(c.core.list_namespaced_config_map, c.ns, resource_version=start, timeout_seconds=60,
                            field_selector="metadata.name=watch"):
        events.append([e["type"], e["object"].data["n"]])
        if e["type"] == "DELETED":
            watcher.stop()
    return {"events": events}


def widget(name, size, **meta):
    return {"apiVersion": GROUP + "/v1", "kind": "Widget", "metadata": {"name": name, **meta}, "spec": {"size": size}}


@op
def custom_objects(c):
    plural = "widgets" + c.ns
    extensions = kubernetes.client.ApiextensionsV1Api(c.api)
    schema = {"type": "object", "properties": {
        "spec": {"type": "object", "required": ["size"], "properties": {
            "size": {"type": "integer", "maximum": 10}, "color": {"type": "string", "default": "blue"}}},
        "status": {"type": "object", "properties": {"seen": {"type": "integer"}}}}}
    extensions.create_custom_resource_definition({
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": "Widget" + c.ns.upper()},
                 "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                               "schema": {"openAPIV3Schema": schema}}]}})

    def established():
        conditions = extensions.read_custom_resource_definition(f"{plural}.{GROUP}").status.conditions or []
        return any(x.type == "Established" and x.status == "True" for x in conditions)
    deadline = time.monotonic() + 60
    while not established() and time.monotonic() < deadline:
        time.sleep(0.02)

    where = (GROUP, "v1", c.ns, plural)
    body = {**widget("w", 3), "kind": "Widget" + c.ns.upper()}
    made = c.custom.create_namespaced_custom_object(*where, {**body, "status": {"seen": 9}})
    bad = {**body, "metadata": {"name": "bad"}, "spec": {"size": 11}}
    _, merge = c.typed("application/merge-patch+json")
    status = merge.patch_namespaced_custom_object_status(*where, "w", {"status": {"seen": 2}, "spec": {"size": 4}})
    spec = merge.patch_namespaced_custom_object(*where, "w", {"spec": {"size": 5}, "status": {"seen": 3}})
    replaced = c.custom.replace_namespaced_custom_object(*where, "w", {**spec, "spec": {"size": 6}})
    got = {"spec": made["spec"], "status_ignored": "status" not in made,
           "bad": status_of(lambda: c.custom.create_namespaced_custom_object(*where, bad)),
           "status": [status["spec"]["size"], status["status"]["seen"], status["metadata"]["generation"]],
           "patched": [spec["spec"]["size"], spec["status"]["seen"], spec["metadata"]["generation"]],
           "replaced": [replaced["spec"], replaced["metadata"]["generation"]],
           "listed": len(c.custom.list_namespaced_custom_object(*where)["items"])}
    c.custom.delete_namespaced_custom_object(*where, "w")
    got["deleted"] = status_of(lambda: c.custom.get_namespaced_custom_object(*where, "w"))
    extensions.delete_custom_resource_definition(f"{plural}.{GROUP}")
    got["crd"] = gone(lambda: extensions.read_custom_resource_definition(f"{plural}.{GROUP}"))
    return got


@op
def token(c):
    c.core.create_namespaced_service_account(c.ns, {"metadata": {"name": "robot"}})
    made = c.core.create_namespaced_service_account_token(
        "robot", c.ns, {"spec": {"audiences": [], "expirationSeconds": 3600}})
    review = kubernetes.client.AuthenticationV1Api(c.api).create_token_review({"spec": {"token": made.status.token}})
    robot = kubernetes.client.Configuration()
    robot.host, robot.ssl_ca_cert = c.api.configuration.host, c.api.configuration.ssl_ca_cert
    robot.api_key = {"authorization": "Bearer " + made.status.token}
    with kubernetes.client.ApiClient(robot) as api:
        refused = status_of(lambda: kubernetes.client.CoreV1Api(api).list_namespaced_secret(c.ns))
        version = kubernetes.client.VersionApi(api).get_code().major
    return {"user": review.status.user.username == f"system:serviceaccount:{c.ns}:robot", "refused": refused,
            "authenticated": review.status.authenticated, "version": version,
            "expires": made.status.expiration_timestamp > datetime.datetime.now(datetime.timezone.utc)}


@op
def access(c):
    auth = kubernetes.client.AuthorizationV1Api(c.api)
    rbac = kubernetes.client.RbacAuthorizationV1Api(c.api)
    question = {"namespace": c.ns, "verb": "get", "resource": "secrets"}

    def may(user):
        return auth.create_subject_access_review({"spec": {"user": user, "resourceAttributes": question}}).status.allowed
    me = auth.create_self_subject_access_review({"spec": {"resourceAttributes": question}}).status.allowed
    before = may("alice")
    rbac.create_namespaced_role(c.ns, {"metadata": {"name": "r"}, "rules": [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]})
    rbac.create_namespaced_role_binding(c.ns, {
        "metadata": {"name": "b"}, "subjects": [{"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}})
    rules = auth.create_self_subject_rules_review({"spec": {"namespace": c.ns}}).status.resource_rules
    return {"me": me, "before": before, "after": may("alice"), "bob": may("bob"), "rules": len(rules) > 0}


@op
def selectors(c):
    for i, color in enumerate(["red", "green", "blue", None]):
        c.config_map(f"sel-{i}", labels={"sel": "1", **({"color": color} if color else {})})

    def names(label=None, field=None):
        kw = {k: v for k, v in (("label_selector", label), ("field_selector", field)) if v}
        return [o.metadata.name for o in c.core.list_namespaced_config_map(c.ns, **kw).items]
    return {"equal": names("sel=1,color=red"), "in": names("color in (red, blue)"),
            "not": names("sel,color notin (red,green)"), "absent": names("sel,!color"),
            "field": names(None, "metadata.name=sel-2"), "both": names("color!=red,sel", "metadata.name!=sel-3"),
            "bad": status_of(lambda: names("a===b")), "bad_field": status_of(lambda: names(None, "data.a=1"))}


@op
def paging(c):
    for i in range(25):
        c.config_map(f"page-{i:02}", labels={"page": "1"})
    names, sizes, versions, token = [], [], set(), None
    while True:
        kw = {"_continue": token} if token else {}
        page = c.core.list_namespaced_config_map(c.ns, limit=10, label_selector="page", **kw)
        names += [o.metadata.name for o in page.items]
        sizes.append(len(page.items))
        versions.add(page.metadata.resource_version)
        token = page.metadata._continue
        if not token:
            break
    return {"sizes": sizes, "versions": len(versions), "all": names == [f"page-{i:02}" for i in range(25)],
            "bad": status_of(lambda: c.core.list_namespaced_config_map(c.ns, _continue="x", limit=1))}


@op
def secrets(c):
    made = c.core.create_namespaced_secret(c.ns, {"metadata": {"name": "s"}, "stringData": {"a": "hello"},
                                                  "data": {"b": base64.b64encode(b"\x00\xff").decode()}})
    bad = {"metadata": {"name": "bad"}, "data": {"a": "***"}}
    tls = {"metadata": {"name": "bad"}, "type": "kubernetes.io/tls", "data": {}}
    blob = c.core.create_namespaced_config_map(c.ns, {"metadata": {"name": "blob"}, "binaryData": {"x": "AP8="}})
    locked = c.core.create_namespaced_config_map(c.ns, {"metadata": {"name": "locked"}, "data": {"a": "1"},
                                                        "immutable": True})
    return {"type": made.type, "data": made.data, "string": made.string_data, "blob": blob.binary_data,
            "bad": status_of(lambda: c.core.create_namespaced_secret(c.ns, bad))[0],
            "tls": status_of(lambda: c.core.create_namespaced_secret(c.ns, tls)), "locked": locked.immutable,
            "change": status_of(lambda: c.core.patch_namespaced_config_map("locked", c.ns, {"data": {"a": "2"}}))}


@op
def leases(c):
    api = kubernetes.client.CoordinationV1Api(c.api)
    now = "2024-05-06T07:08:09.123456Z"
    made = api.create_namespaced_lease(c.ns, {"metadata": {"name": "l"}, "spec": {
        "holderIdentity": "me", "leaseDurationSeconds": 15, "acquireTime": now, "renewTime": now, "leaseTransitions": 0}})
    made.spec.holder_identity = "you"
    done = api.replace_namespaced_lease("l", c.ns, made)
    return {"holder": done.spec.holder_identity, "ms": int(done.spec.renew_time.timestamp() * 1000),
            "stale": status_of(lambda: api.replace_namespaced_lease("l", c.ns, made))}


@op
def events(c):
    c.core.create_namespaced_event(c.ns, {
        "metadata": {"name": "old"}, "involvedObject": {"kind": "ConfigMap", "name": "get", "namespace": c.ns},
        "reason": "Tested", "message": "hello", "type": "Normal"})
    api = kubernetes.client.EventsV1Api(c.api)
    api.create_namespaced_event(c.ns, {
        "metadata": {"name": "new"}, "eventTime": "2024-05-06T07:08:09.123456Z", "action": "Test", "reason": "Tested",
        "reportingController": "example.com/c", "reportingInstance": "c-1", "note": "hi", "type": "Warning",
        "regarding": {"kind": "ConfigMap", "name": "get", "namespace": c.ns}})
    found = c.core.list_namespaced_event(c.ns, field_selector="involvedObject.name=get,type=Warning").items
    # Not decoded: the library refuses its own type when eventTime is null, as it is in old events.
    old = json.loads(api.read_namespaced_event("old", c.ns, _preload_content=False).data)
    return {"found": [[e.metadata.name, e.message, e.reporting_component] for e in found], "note": old["note"]}


@op
def dry_run(c):
    made = c.core.create_namespaced_config_map(c.ns, {"metadata": {"name": "dry"}}, dry_run="All")
    return {"name": made.metadata.name, "stored": status_of(lambda: c.read("dry"))}


@op
def informer(c):
    """List, then watch from there, and again from where the watch ended: what an informer is made of."""
    cache, log, ready = {}, [], threading.Event()

    def run():
        listed = c.core.list_namespaced_config_map(c.ns, label_selector="informer")
        for o in listed.items:
            log.append(["add", o.metadata.name, o.data["n"]])
            cache[o.metadata.name] = o.data["n"]
        version = listed.metadata.resource_version
        ready.set()
        while ["delete", "inf-0", "3"] not in log:
            for e in kubernetes.watch.Watch().stream(
                    c.core.list_namespaced_config_map, c.ns, label_selector="informer", resource_version=version,
                    timeout_seconds=1):
                o, kind = e["object"], {"ADDED": "add", "MODIFIED": "update", "DELETED": "delete"}[e["type"]]
                log.append([kind, o.metadata.name, o.data["n"]])
                version = o.metadata.resource_version
                cache[o.metadata.name] = o.data["n"]
                if kind == "delete":
                    del cache[o.metadata.name]
    c.config_map("inf-0", {"n": "0"}, labels={"informer": "1"})
    t = threading.Thread(target=run, daemon=True)
    t.start()
    ready.wait(60)
    c.config_map("inf-1", {"n": "0"}, labels={"informer": "1"})
    for i in (1, 2, 3):
        c.core.patch_namespaced_config_map("inf-0", c.ns, {"data": {"n": str(i)}})
        time.sleep(0.5)
    c.core.delete_namespaced_config_map("inf-0", c.ns)
    t.join(60)
    return {"log": log, "cache": cache}


@op
def namespace_goes(c):
    c.core.delete_namespace(c.ns)
    return {"gone": gone(lambda: c.core.read_namespace(c.ns))}


def main():
    client = Client(sys.argv[1], sys.argv[2])
    for function in OPERATIONS:
        try:
            got = function(client)
        except Exception:  # pylint: disable=broad-except
            got = {"error": traceback.format_exc()[-2500:]}
        print(json.dumps({"op": function.__name__, "got": got}), flush=True)


if __name__ == "__main__":
    main()
