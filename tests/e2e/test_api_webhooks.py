# SPDX-License-Identifier: Apache-2.0
"""Admission webhooks: asked before a write is stored, refused and changed by them, fail closed."""
import json
import socket
import threading

import pytest
from harness.control import Control, config_map
from harness.ports import free_port
from harness.wait import until
from harness.webhook import Webhook, patch

ADMIT = "/apis/admissionregistration.k8s.io/v1"
CMS = "/api/v1/namespaces/default/configmaps"
RULE = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
MARK = {"matchLabels": {"hooked": "yes"}}


@pytest.fixture(scope="module")
def api(binary, tmp_path_factory):
    directory = tmp_path_factory.mktemp("webhooks")
    server = Control(binary, directory, "--gateway=false", "--loopback-endpoints",
                     "--audit-log", str(directory / "audit"))
    yield server
    server.close()


@pytest.fixture
def hook(tmp_path):
    server = Webhook(tmp_path)
    yield server
    server.close()


@pytest.fixture
def configure(api):
    made = []

    def add(kind, name, client, **more):
        path = f"{ADMIT}/{kind.lower()}webhookconfigurations"
        webhook = {"name": f"{name}.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                   "rules": [RULE], "objectSelector": MARK, "clientConfig": client, "timeoutSeconds": 5, **more}
        answer = api.post(path, {"apiVersion": "admissionregistration.k8s.io/v1",
                                 "kind": f"{kind}WebhookConfiguration", "metadata": {"name": name},
                                 "webhooks": [webhook]})
        assert answer.status == 201, answer
        made.append(f"{path}/{name}")
    yield add
    for path in made:
        api.delete(path)


def hooked(name, data=None):
    return config_map(name, data or {"a": "b"}, labels={"hooked": "yes"})


# --- validating ------------------------------------------------------------------------------

def test_what_a_webhook_is_asked(api, hook, configure):
    configure("Validating", "v.asked", hook.client("/path"))
    assert api.post(f"{CMS}?fieldManager=me", hooked("asked")).status == 201
    asked = hook.seen[0]
    assert hook.paths == ["/path?timeout=5s"]
    assert asked["kind"] == asked["requestKind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (asked["name"], asked["namespace"], asked["operation"]) == ("asked", "default", "CREATE")
    assert asked["object"]["data"] == {"a": "b"} and asked["object"]["metadata"]["uid"]
    assert asked["oldObject"] is None and asked["dryRun"] is False
    assert asked["userInfo"]["groups"] == ["system:masters", "system:authenticated"]
    assert asked["options"]["kind"] == "CreateOptions" and asked["options"]["fieldManager"] == "me"
    assert api.patch(f"{CMS}/asked", {"data": {"c": "d"}}).status == 200
    assert hook.seen[1]["operation"] == "UPDATE" and hook.seen[1]["oldObject"]["data"] == {"a": "b"}
    assert hook.seen[1]["object"]["data"] == {"a": "b", "c": "d"}
    # Neither a deletion nor another object is its business.
    assert api.delete(f"{CMS}/asked").status == 200
    assert api.post(CMS, config_map("not-asked")).status == 201
    assert len(hook.seen) == 2


@pytest.mark.parametrize("status,code,text", [
    ({"message": "no way", "code": 418, "reason": "Teapot"}, 418, ": no way"),
    ({"reason": "Because"}, 400, ": Because"),
    ({"code": 200, "message": "odd"}, 400, ": odd"),
    (None, 400, " without explanation"),
])
def test_a_refusal(api, hook, configure, status, code, text):
    configure("Validating", "v.refuses", hook.client())
    hook.answer = lambda request: {"allowed": False, **({"status": status} if status else {})}
    told = api.post(CMS, hooked("refused"))
    assert told.status == code
    assert told.message == f'admission webhook "v.refuses.example.com" denied the request{text}'
    assert api.get(f"{CMS}/refused").status == 404


def test_warnings_and_dry_run(api, hook, configure):
    configure("Validating", "v.warns", hook.client())
    hook.answer = lambda request: {"allowed": True, "warnings": ["mind the gap"]}
    told = api.post(f"{CMS}?dryRun=All", hooked("dry"))
    assert told.status == 201 and told.headers["Warning"] == '299 - "mind the gap"'
    assert hook.seen[0]["dryRun"] is True and api.get(f"{CMS}/dry").status == 404


def test_deletions(api, hook, configure):
    configure("Validating", "v.deletes", hook.client(), rules=[{**RULE, "operations": ["DELETE"]}])
    for name in ("del-1", "del-2"):
        assert api.post(CMS, hooked(name)).status == 201
    hook.answer = lambda request: {"allowed": request["name"] != "del-2", "status": {"message": "keep it"}}
    assert api.delete(f"{CMS}/del-1").status == 200
    asked = hook.seen[0]
    assert asked["object"] is None and asked["oldObject"]["metadata"]["name"] == "del-1"
    told = api.delete(f"{CMS}?labelSelector=hooked%3Dyes")
    assert told.status == 400 and told.message.endswith("denied the request: keep it")
    assert api.get(f"{CMS}/del-2").status == 200


def test_namespaces_select(api, hook, configure):
    for name, tier in (("in-scope", "prod"), ("off-scope", "lab")):
        assert api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"tier": tier}}}).status == 201
    configure("Validating", "v.scoped", hook.client(), objectSelector={},
              namespaceSelector={"matchLabels": {"tier": "prod"}})
    for name in ("in-scope", "off-scope"):
        assert api.post(f"/api/v1/namespaces/{name}/configmaps", config_map("x")).status == 201
    assert [s["namespace"] for s in hook.seen if s["name"] == "x"] == ["in-scope"]


def test_the_scale_and_status_of_an_object(api, hook, configure):
    apps = {**RULE, "apiGroups": ["apps"], "resources": ["deployments/scale"]}
    configure("Validating", "v.scales", hook.client(), rules=[apps], objectSelector={})
    deployments = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "example.com/i"}]}}
    assert api.post(deployments, {"metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template}}).status == 201
    hook.answer = lambda request: {"allowed": request["object"]["spec"]["replicas"] < 5}
    assert api.patch(f"{deployments}/d/scale", {"spec": {"replicas": 3}}).status == 200
    assert hook.seen[0]["subResource"] == "scale" and hook.seen[0]["object"]["kind"] == "Scale"
    assert hook.seen[0]["object"]["apiVersion"] == "autoscaling/v1"
    assert hook.seen[0]["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert api.patch(f"{deployments}/d/scale", {"spec": {"replicas": 7}}).status == 400
    assert api.get(f"{deployments}/d").json["spec"]["replicas"] == 3


# --- mutating --------------------------------------------------------------------------------

def test_a_webhook_changes_the_object(api, hook, configure):
    configure("Mutating", "m.adds", hook.client())
    hook.answer = lambda request: patch({"op": "add", "path": "/data/added", "value": "by-webhook"})
    made = api.post(CMS, hooked("mutated"))
    assert made.status == 201 and made.json["data"] == {"a": "b", "added": "by-webhook"}
    sent = hook.seen[0]["object"]["metadata"]
    assert "uid" not in sent and "creationTimestamp" not in sent and sent["managedFields"]
    # What the webhook added belongs to nobody who sent something else.
    owned = [m["fieldsV1"]["f:data"] for m in made.json["metadata"]["managedFields"]]
    assert owned == [{".": {}, "f:a": {}}]
    hook.answer = lambda request: {"allowed": True}
    assert api.get(f"{CMS}/mutated").json["data"]["added"] == "by-webhook"


def test_required_fields_may_come_from_a_webhook(api, hook, configure):
    schema = {"type": "object", "properties": {"spec": {"type": "object", "required": ["size"],
                                                       "properties": {"size": {"type": "integer"}}}}}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    versions = [{"name": v, "served": True, "storage": v == "v1", "schema": {"openAPIV3Schema": schema}}
                for v in ("v1", "v1beta1")]
    assert api.post(crds, {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                           "metadata": {"name": "boxes.hook.example.com"},
                           "spec": {"group": "hook.example.com", "scope": "Namespaced", "versions": versions,
                                    "names": {"plural": "boxes", "kind": "Box"}}}).status == 201
    rule = {**RULE, "apiGroups": ["hook.example.com"], "resources": ["boxes"]}
    configure("Mutating", "m.fills", hook.client(), rules=[rule], objectSelector={})
    hook.answer = lambda request: patch({"op": "add", "path": "/spec/size", "value": 3})
    box = {"apiVersion": "hook.example.com/v1beta1", "kind": "Box", "metadata": {"name": "b"}, "spec": {}}
    made = api.post("/apis/hook.example.com/v1beta1/namespaces/default/boxes", box)
    assert made.status == 201 and made.json["spec"] == {"size": 3}, made
    # The rule names v1: the request of v1beta1 is equivalent, and shown as v1.
    asked = hook.seen[0]
    assert asked["kind"]["version"] == "v1" and asked["requestKind"]["version"] == "v1beta1"
    assert asked["object"]["apiVersion"] == "hook.example.com/v1"
    hook.answer = lambda request: patch({"op": "add", "path": "/spec/size", "value": "three"})
    told = api.post("/apis/hook.example.com/v1/namespaces/default/boxes",
                    {**box, "apiVersion": "hook.example.com/v1", "metadata": {"name": "bad"}})
    assert told.status == 422 and "must be of type integer" in told.message


def test_order_and_reinvocation(api, hook, configure):
    order = []

    def answer(request):
        first = "first" in hook.paths[-1]
        order.append("first" if first else "second")
        if first:
            seen = request["object"]["data"].get("second", "nothing")
            return patch({"op": "add", "path": "/data/first", "value": f"saw {seen}"})
        return patch({"op": "add", "path": "/data/second", "value": "yes"})
    hook.answer = answer
    configure("Mutating", "m.b-second", hook.client("/second"))
    configure("Mutating", "m.a-first", hook.client("/first"), reinvocationPolicy="IfNeeded")
    made = api.post(CMS, hooked("ordered"))
    assert made.status == 201 and order == ["first", "second", "first"]
    assert made.json["data"] == {"a": "b", "first": "saw yes", "second": "yes"}


def test_a_change_meanwhile_is_not_lost(api, hook, configure):
    """While a webhook thinks, another write wins: the patch is built and asked about again."""
    assert api.post(CMS, hooked("raced")).status == 201
    configure("Mutating", "m.slow", hook.client())
    entered, leave = threading.Event(), threading.Event()

    def answer(request):
        if request["userInfo"]["username"] == "bob" and not entered.is_set():
            entered.set()
            leave.wait(20)
        return {"allowed": True}
    hook.answer = answer
    result = []
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "cms"}, "rules": [rule]})
    api.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
        "metadata": {"name": "cms"}, "roleRef": {"kind": "ClusterRole", "name": "cms"},
        "subjects": [{"kind": "User", "name": "bob"}]})
    other = threading.Thread(target=lambda: result.append(
        api.patch(f"{CMS}/raced", {"data": {"slow": "1"}}, headers={"Impersonate-User": "bob"})))
    other.start()
    assert entered.wait(20)
    assert api.get("/healthz").status == 200  # nothing else waits
    assert api.patch(f"{CMS}/raced", {"data": {"fast": "1"}}).status == 200
    leave.set()
    other.join(20)
    assert result[0].status == 200 and result[0].json["data"] == {"a": "b", "slow": "1", "fast": "1"}


# --- failures --------------------------------------------------------------------------------

BROKEN = [
    (lambda r: (500, b"oops"), "HTTP status 500"),
    (lambda r: b"not json", "response is not a JSON object"),
    (lambda r: b"{}", "webhook response was absent"),
    (lambda r: {"allowed": "yes"}, "response.allowed is not a boolean"),
    (lambda r: {"uid": "other", "allowed": True}, "expected response.uid="),
    (lambda r: {"allowed": True, "patch": "W10=", "patchType": "JSONPatch"}, "may not return response.patch"),
    (lambda r: b'{"a":' * 500, "response is not a JSON object"),
    (lambda r: b" " * (9 << 20), "failed to call webhook"),
]


@pytest.mark.parametrize("answer,why", BROKEN)
def test_broken_answers_refuse(api, hook, configure, answer, why):
    configure("Validating", "v.broken", hook.client())
    hook.answer = answer
    told = api.post(CMS, hooked("broken"))
    assert told.status == 500 and why in told.message, told
    assert told.message.startswith('Internal error occurred: failed calling webhook "v.broken.example.com": ')
    assert api.get(f"{CMS}/broken").status == 404


def test_failure_policy(api, hook, configure):
    port = free_port()
    nobody = {"url": f"https://127.0.0.1:{port}/", "caBundle": hook.bundle}
    configure("Validating", "v.ignored", nobody, failurePolicy="Ignore")
    assert api.post(CMS, hooked("ignored")).status == 201
    until(lambda: "webhook 'v.ignored.example.com' of 'v.ignored' failed: " in api.log(), 10, "the log line")
    configure("Validating", "v.needed", nobody)
    told = api.post(CMS, hooked("needed"))
    assert told.status == 500 and 'failed calling webhook "v.needed.example.com"' in told.message
    metrics = api.get("/metrics").body.decode()
    assert 'apiserver_admission_webhook_failure_count{name="v.needed.example.com",type="validating"} 1' in metrics
    assert 'apiserver_admission_webhook_request_total{name="v.needed.example.com",type="validating"} 1' in metrics


def test_a_webhook_that_never_answers(api, hook, configure):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure("Validating", "v.silent", {"url": f"https://127.0.0.1:{silent.getsockname()[1]}/",
                                             "caBundle": hook.bundle}, timeoutSeconds=1)
        told = api.post(CMS, hooked("silent"))
    assert told.status == 500 and "context deadline exceeded" in told.message


class Asked:
    """A webhook that answers when it is told to, and a write that waits for it."""

    def __init__(self, api, hook, answer, name):
        self.entered, self.leave = threading.Event(), threading.Event()
        hook.answer = lambda request: (self.entered.set(), self.leave.wait(20), answer)[2]
        self.connection = api.connection()
        self.connection.request("POST", CMS, json.dumps(hooked(name)), {"Content-Type": "application/json"})
        assert self.entered.wait(20)


GONE = [("broken", b"not json", 500, 'failed calling webhook "v.gone.example.com": received invalid webhook response'),
        ("refused", {"allowed": False}, 400, 'admission webhook "v.gone.example.com" denied the request'),
        ("patched", patch({"op": "add", "path": "/nowhere/x", "value": 1}), 500, "Internal error occurred: ")]


@pytest.mark.parametrize("kind,name,answer,code,text", [
    (kind, f"{kind.lower()}-{name}", *rest) for kind in ("Validating", "Mutating") for name, *rest in GONE])
def test_a_configuration_that_is_removed_while_its_webhook_is_asked(api, hook, configure, kind, name, answer, code, text):
    """The write is decided by the configuration it began with."""
    configure(kind, "v.gone", hook.client())
    waiting = Asked(api, hook, answer, name)
    assert api.delete(f"{ADMIT}/{kind.lower()}webhookconfigurations/v.gone").status == 200
    assert api.post(CMS, hooked(f"{name}-other")).status == 201
    line = "webhook 'v.gone.example.com' of 'v.gone' failed: "
    before = api.log().count(line)
    waiting.leave.set()
    told = waiting.connection.getresponse()
    assert (told.status, text in json.load(told)["message"]) == (code, True)
    failures = 1 if name.endswith("broken") or name == "validating-patched" else 0
    until(lambda: api.log().count(line) == before + failures, 10, "the log line")
    waiting.connection.close()


@pytest.mark.parametrize("kind,name,answer", [
    (kind, f"{kind.lower()}-left-{name}", answer) for kind in ("Validating", "Mutating") for name, answer, *_ in GONE])
def test_a_client_that_left_while_a_webhook_is_asked(api, hook, configure, kind, name, answer):
    configure(kind, "v.left", hook.client())
    waiting = Asked(api, hook, answer, name)
    waiting.connection.close()
    until(lambda: api.get("/healthz").status == 200, 10)
    answered = api.log().count("v.left.example.com")
    waiting.leave.set()
    if name.endswith("broken"):
        until(lambda: api.log().count("v.left.example.com") > answered, 10, "the log line")
    assert api.delete(f"{ADMIT}/{kind.lower()}webhookconfigurations/v.left").status == 200
    assert api.post(CMS, hooked(f"{name}-other")).status == 201
    assert api.get(f"{CMS}/{name}").status == 404


def test_an_authority_that_is_not_the_webhooks(api, hook, configure, tmp_path):
    (tmp_path / "other").mkdir()
    other = Webhook(tmp_path / "other")
    try:
        configure("Validating", "v.stranger", {**hook.client(), "caBundle": other.bundle})
        told = api.post(CMS, hooked("stranger"))
        assert told.status == 500 and "certificate" in told.message and not hook.seen
    finally:
        other.close()


# --- services --------------------------------------------------------------------------------

def test_a_service(api, hook, configure):
    api.post("/api/v1/namespaces", {"metadata": {"name": "hooks"}})
    service = {"service": {"name": "hook", "namespace": "hooks", "path": "/svc"}, "caBundle": hook.bundle}
    configure("Validating", "v.service", service)
    assert 'service "hook" not found' in api.post(CMS, hooked("svc")).message
    services = "/api/v1/namespaces/hooks/services"
    made = api.post(services, {"metadata": {"name": "hook"}, "spec": {"ports": [{"name": "tls", "port": 443}]}})
    assert made.status == 201, made
    assert 'no endpoints available for service "hook"' in api.post(CMS, hooked("svc")).message
    made = api.post("/apis/discovery.k8s.io/v1/namespaces/hooks/endpointslices", {
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}}, "addressType": "IPv4",
        "ports": [{"name": "tls", "port": hook.port}],
        "endpoints": [{"addresses": ["127.0.0.9"], "conditions": {"ready": False}}, {"addresses": ["127.0.0.1"]}]})
    assert made.status == 201, made
    made = api.post(CMS, hooked("svc"))
    assert made.status == 201, made
    assert hook.paths == ["/svc?timeout=5s"]


# --- match conditions ------------------------------------------------------------------------

def conditions(*expressions):
    return [{"name": f"c{i}", "expression": x} for i, x in enumerate(expressions)]


def counted(api, metric, name):
    lines = [line for line in api.get("/metrics").body.decode().splitlines()
             if line.startswith(metric + "{") and f'name="{name}"' in line]
    return sum(int(line.split()[-1]) for line in lines)


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
def test_match_conditions_select(api, hook, configure, kind):
    configure(kind, f"{kind[0].lower()}.selects", hook.client(), matchConditions=conditions(
        "object.metadata.name.startsWith('yes')", "request.operation == 'CREATE' && oldObject == null",
        "request.resource.resource == 'configmaps' && request.namespace == 'default'",
        "authorizer.requestResource.check('create').allowed()", "request.options.kind == 'CreateOptions'"))
    hook.answer = lambda request: {"allowed": False}
    name = kind.lower()
    assert api.post(CMS, hooked(f"no-{name}")).status == 201
    assert api.post(CMS, hooked(f"yes-{name}")).status == 400
    assert [x["name"] for x in hook.seen] == [f"yes-{name}"]
    assert api.patch(f"{CMS}/no-{name}", {"data": {"x": "y"}}).status == 200
    assert counted(api, "apiserver_admission_match_condition_exclusions_total",
                   f"{kind[0].lower()}.selects.example.com") == 2


@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
def test_match_conditions_that_fail(api, hook, configure, kind):
    name = f"{kind[0].lower()}.errs"
    odd = "object.data.absent == 'x'"
    configure(kind, name, hook.client(), matchConditions=conditions(odd, "true"))
    told = api.post(CMS, hooked(name))
    assert (told.status, told.json["reason"]) == (403, "Forbidden")
    assert told.message == f'configmaps "{name}" is forbidden: expression \'{odd}\' resulted in error: no such key: absent'
    assert counted(api, "apiserver_admission_match_condition_evaluation_errors_total", f"{name}.example.com") == 1
    # A condition that is false excludes the request, whatever the others are.
    path = f"{ADMIT}/{kind.lower()}webhookconfigurations/{name}"
    change = api.get(path).json
    change["webhooks"][0]["matchConditions"] = conditions(odd, "false")
    assert api.put(path, change).status == 200
    assert api.post(CMS, hooked(f"{name}-false")).status == 201
    # With Ignore the webhook is not called, and the request goes on.
    change = api.get(path).json
    change["webhooks"][0].update(matchConditions=conditions(odd), failurePolicy="Ignore")
    assert api.put(path, change).status == 200
    assert api.post(CMS, hooked(f"{name}-ignored")).status == 201
    assert hook.seen == []


def test_match_conditions_cost(api, hook, configure):
    deep = "[1,2,3,4,5,6,7,8,9,0].all(a, [1,2,3,4,5,6,7,8,9,0].all(b, [1,2,3,4,5,6,7,8,9,0].all(c, " \
        "[1,2,3,4,5,6,7,8,9,0].all(d, a + b + c + d < 99))))"
    configure("Validating", "v.costs", hook.client(), matchConditions=conditions(*([deep] * 64)))
    told = api.post(CMS, hooked("costs"))
    assert told.status == 403 and "running out of cost budget" in told.message, told
    assert hook.seen == []


# --- audit annotations -----------------------------------------------------------------------

def test_audit_annotations(api, hook, configure):
    configure("Validating", "v.notes", hook.client())
    configure("Mutating", "m.notes", hook.client())
    hook.answer = lambda request: {"allowed": True, "auditAnnotations": {"seen": request["name"], "bad key": "x"}}
    assert api.post(CMS, hooked("noted")).status == 201
    hook.answer = lambda request: {"allowed": True, "auditAnnotations": {f"k{i}": "v" for i in range(50_000)}}
    assert api.post(CMS, hooked("many")).status == 201
    hook.answer = lambda request: {"allowed": False, "auditAnnotations": {"why": "n" * 600_000}}
    assert api.post(CMS, hooked("denied")).status == 400
    lines = [json.loads(line) for line in (api.dir / "audit").read_text().splitlines()]
    created, many, refused = [x for x in lines if x["method"] == "POST" and x["path"] == CMS][-3:]
    assert created["annotations"] == {"v.notes.example.com/seen": "noted", "m.notes.example.com/seen": "noted"}
    assert len(many["annotations"]) == 2 * 64
    until(lambda: "webhook 'v.notes.example.com' of 'v.notes': dropping 49936 audit annotations" in api.log())
    # Annotations that are too long do not cost the line.
    assert refused["code"] == 400 and refused["annotationsDropped"] is True and "annotations" not in refused


# --- configurations --------------------------------------------------------------------------

@pytest.mark.parametrize("change,why", [
    ({"name": "short"}, "should be a domain with at least three segments separated by dots"),
    ({"sideEffects": "Some"}, 'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"'),
    ({"admissionReviewVersions": ["v9"]}, "must include at least one of v1, v1beta1"),
    ({"clientConfig": {}}, "exactly one of url or service is required"),
    ({"clientConfig": {"url": "http://x/"}}, "'https' is the only allowed URL scheme"),
    ({"clientConfig": {"url": "https://u:p@x/"}}, "user information is not permitted in the URL"),
    ({"timeoutSeconds": 31}, "the timeout value must be between 1 and 30 seconds"),
    ({"rules": [{**RULE, "operations": ["*", "CREATE"]}]}, "if '*' is present, must not specify other operations"),
    ({"rules": [{**RULE, "resources": []}]}, "rules[0].resources: Required value"),
    ({"rules": [{**RULE, "apiVersions": [""]}]}, "rules[0].apiVersions[0]: Required value"),
    ({"matchConditions": [{"name": "x", "expression": ""}]}, "matchConditions[0].expression: Required value"),
    ({"matchConditions": [{"expression": "true"}]}, "matchConditions[0].name: Required value"),
    ({"matchConditions": [{"name": "x y", "expression": "true"}]}, 'matchConditions[0].name: Invalid value: "x y"'),
    ({"matchConditions": [{"name": "x", "expression": "1 +"}]},
     'matchConditions[0].expression: Invalid value: "1 +": compilation failed: ERROR: <input>:1:4: Syntax error'),
    ({"matchConditions": [{"name": "x", "expression": "1"}]}, "must evaluate to bool but got int"),
    ({"matchConditions": [{"name": "x", "expression": "params.a == 1"}]}, "undeclared reference to 'params'"),
    ({"matchConditions": [{"name": f"x{i}", "expression": "true"} for i in range(65)]},
     "matchConditions: Too many: 65: must have at most 64 items"),
])
def test_configurations_that_cannot_be_enforced_are_refused(api, change, why):
    webhook = {"name": "a.b.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
               "rules": [RULE], "clientConfig": {"url": "https://x.example.com/"}, **change}
    told = api.post(f"{ADMIT}/validatingwebhookconfigurations", {"metadata": {"name": "bad"}, "webhooks": [webhook]})
    assert told.status == 422 and why in told.message, told


def test_names_of_match_conditions_are_unique(api):
    twice = [{"name": "x", "expression": "true"}] * 2
    told = api.post(f"{ADMIT}/mutatingwebhookconfigurations", {"metadata": {"name": "bad"}, "webhooks": [
        {"name": "a.b.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"], "rules": [RULE],
         "clientConfig": {"url": "https://x.example.com/"}, "matchConditions": twice}]})
    assert told.status == 422 and 'Duplicate value: ' in told.message, told


def test_nobody_is_locked_out(api, hook, configure):
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    configure("Validating", "v.wall", hook.client(), rules=[everything], objectSelector={})
    hook.answer = lambda request: {"allowed": False}
    assert api.post(CMS, config_map("walled")).status == 400
    path = f"{ADMIT}/validatingwebhookconfigurations/v.wall"
    assert api.delete(path).status == 200
    until(lambda: api.post(CMS, config_map("walled")).status == 201, 10, "the wall to be gone")


def test_a_stop_does_not_wait_for_a_webhook(binary, tmp_path, hook):
    server = Control(binary, tmp_path / "stopped", "--gateway=false")
    try:
        webhook = {"name": "v.hangs.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                   "rules": [RULE], "clientConfig": hook.client(), "timeoutSeconds": 30}
        assert server.post(f"{ADMIT}/validatingwebhookconfigurations",
                           {"metadata": {"name": "h"}, "webhooks": [webhook]}).status == 201
        entered, leave = threading.Event(), threading.Event()
        hook.answer = lambda request: (entered.set(), leave.wait(25), {"allowed": True})[2]
        answers = []

        def post():
            try:
                answers.append(server.post(CMS, config_map("hangs")).status)
            except OSError:
                answers.append("closed")
        waiting = threading.Thread(target=post)
        waiting.start()
        assert entered.wait(20)
        server.stop()
        waiting.join(20)
        assert answers in ([500], [503], ["closed"])
        leave.set()
    finally:
        server.close()
