# SPDX-License-Identifier: Apache-2.0
"""
Requests that take long are handled beside the loop: health, Leases, small reads and watches go on meanwhile, the work
ends with its client or its deadline, and what was acknowledged stays.
"""
import http.client
import json
import select
import socket
import threading
import time

import pytest
from harness.control import config_map
from harness.tenant import Tenant, metric
from harness.wait import GUARD, SANITIZED, until

CMS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes"
JSON = {"Content-Type": "application/json"}
LARGE_PATTERN = "(?:" + "(|)" * 40 + "){1000}"
WATCHERS = 40


def crd(rule, items):
    """A kind whose objects cost what the rule costs, for each of so many items."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "v": {"type": "array", "maxItems": items, "items": {"type": "string", "maxLength": 64}}},
        "x-kubernetes-validations": [{"rule": rule, "message": "no"}]}}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "slows.trust.example.com"},
            "spec": {"group": "trust.example.com", "scope": "Namespaced",
                     "names": {"plural": "slows", "singular": "slow", "kind": "Slow", "listKind": "SlowList"},
                     "versions": [{"name": "v1", "served": True, "storage": True,
                                   "schema": {"openAPIV3Schema": schema}}]}}


SLOWS = "/apis/trust.example.com/v1/namespaces/default/slows"


def slow(name, n):
    return {"apiVersion": "trust.example.com/v1", "kind": "Slow", "metadata": {"name": name},
            "spec": {"v": [f"v{i}" for i in range(n)]}}


def serve_slows(api, rule="self.v.all(a, self.v.exists_one(b, a == b))", items=400):
    answer = api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd(rule, items))
    assert answer.status == 201, answer
    until(lambda: api.get(SLOWS).status == 200, GUARD, "the kind to be served")


def large(name, n=30000, value="v"):
    return config_map(name, {f"k{i}": value for i in range(n)})


class Meanwhile:
    """Small requests on a connection of their own, as long as the block lasts: all of them must be answered."""

    def __init__(self, api):
        self.api, self.n, self.bad, self.over = api, 0, [], False
        api.post(LEASES, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}})

    def run(self):
        c = self.api.connection()
        while not self.over:
            for method, path, body in (("GET", "/healthz", None), ("GET", "/api/v1/namespaces/default", None),
                                       ("PATCH", LEASES + "/l", json.dumps({"spec": {"holderIdentity": str(self.n)}}))):
                c.request(method, path, body, {"Content-Type": "application/merge-patch+json"})
                answer = c.getresponse()
                answer.read()
                if answer.status != 200:
                    self.bad.append((path, answer.status))
            self.n += 1
        c.close()

    def __enter__(self):
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        until(lambda: self.n, GUARD, "small requests to begin")
        return self

    def __exit__(self, *exc):
        self.over = True
        self.thread.join()


def answered_beside(api, small, body):
    """How many small requests were answered while one long one was."""
    first = small.n
    answer = api.post(ROUTES, body, headers=JSON)
    assert answer.status in (413, 422), answer
    return small.n - first


@pytest.mark.tsan
def test_small_requests_are_answered_beside_long_ones(start_api):
    """
    Counts, not times: while each of these runs, small requests are answered by the dozen. Before, the loop did one
    thing after the other, and none was.
    """
    api = start_api()
    serve_slows(api)
    body = '{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"x"},"spec":{"rules":[' + \
        ",".join(["{}"] * (900000 if not SANITIZED else 50000)) + "]}}"
    with Meanwhile(api) as small:
        for what in (lambda: api.post(ROUTES, body, headers=JSON), lambda: api.post(CMS, large("a")),
                     lambda: api.patch(CMS + "/a", {"data": {"new": "x"}}),
                     lambda: api.patch(CMS + "/b", json.dumps({**large("b"), "apiVersion": "v1"}), kind="apply",
                                       query="?fieldManager=m"),
                     lambda: api.put(CMS + "/a", large("a", value="w")),
                     lambda: api.get(CMS, headers={"Accept": "application/yaml"}),
                     lambda: api.get(CMS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}),
                     lambda: api.post(SLOWS, slow("s", 400))):
            answer = what()
            assert answer.status in (200, 201, 413, 422), answer
        assert any(answered_beside(api, small, body) > 3 for _ in range(10))  # a busy machine may starve the client itself
    assert not small.bad, small.bad[:5]
    assert metric(api, 'spanwire_api_work_total{result="done"}') >= 8
    assert api.get(CMS + "/a").json["data"]["k7"] == "w"


@pytest.mark.tsan
def test_a_watch_goes_on_beside_long_work(start_api):
    api = start_api()
    over = threading.Event()

    def keep_busy():
        i = 0
        while not over.is_set():
            api.post(CMS + "?dryRun=All", large(f"busy{i}"))
            i += 1
    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        watch = api.watch(CMS + "?watch=1&fieldSelector=metadata.name%3Dw")
        assert api.post(CMS, config_map("w", {"n": "0"})).status == 201
        assert next(watch)["type"] == "ADDED"
        for n in range(1, 20):
            assert api.patch(CMS + "/w", {"data": {"n": str(n)}}).status == 200
            assert next(watch)["object"]["data"]["n"] == str(n)
        watch.close()
    finally:
        over.set()
        busy.join()


def test_answers_are_the_same_on_both_ways(start_api):
    """An object of more than the loop takes itself obeys the same rules: conflicts, errors, warnings, dry runs."""
    api = start_api()
    pad = {f"p{i}": "x" * 50 for i in range(2000)}
    for size, data in (("small", {"a": "b"}), ("large", pad)):
        name = f"same-{size}"
        assert api.post(CMS + "?dryRun=All", config_map(name, data)).status == 201
        assert api.get(f"{CMS}/{name}").status == 404
        made = api.post(CMS, config_map(name, data))
        assert made.status == 201 and made.json["metadata"]["uid"], made
        assert api.post(CMS, config_map(name, data)).json["reason"] == "AlreadyExists"
        old = made.json
        assert api.put(f"{CMS}/{name}", {**old, "data": {**data, "n": "1"}}).status == 200
        stale = api.put(f"{CMS}/{name}", {**old, "data": data})
        assert stale.status == 409 and "object has been modified" in stale.message
        strict = api.post(CMS + "?fieldValidation=Strict", {**config_map("u", data), "oops": 1})
        assert strict.status == 400 and 'unknown field "oops"' in strict.message
        warned = api.post(CMS + "?fieldValidation=Warn", {**config_map(f"u-{size}", data), "oops": 1})
        assert warned.status == 201 and "oops" in warned.headers["Warning"]
        assert api.post(CMS, config_map("Not A Name", data)).status == 422
        assert api.post("/api/v1/namespaces/nowhere/configmaps", config_map("x", data)).status == 404
        mallory = Tenant(api, f"m-{size}", role="view")
        assert mallory.request("POST", CMS, config_map("x", data)).status == 403


def test_a_rule_that_costs_much_in_a_small_object(start_api):
    """The body is small, so it begins on the loop; what its rules cost moves it."""
    api = start_api()
    serve_slows(api)
    before = metric(api, 'spanwire_api_work_total{result="done"}')
    assert api.post(SLOWS, slow("little", 3)).status == 201
    assert metric(api, 'spanwire_api_work_total{result="done"}') == before
    answer = api.post(SLOWS, slow("much", 400))
    assert answer.status == 201, answer
    assert len(answer.json["spec"]["v"]) == 400
    assert metric(api, 'spanwire_api_work_total{result="done"}') > before


def test_large_patterns_are_compiled_beside_the_loop(start_api):
    """A CRD of some hundred bytes with large programs: when it is judged, and when its kind is first used."""
    api = start_api()
    done = 'spanwire_api_work_total{result="done"}'
    kind = crd("true", 400)
    spec = kind["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] |= {f"p{i}": {"type": "string", "pattern": LARGE_PATTERN} for i in range(4)}
    assert api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind).status == 201
    judged = metric(api, done)
    assert judged > 0
    until(lambda: api.get(SLOWS).status == 200, GUARD, "the kind to be served")
    used = metric(api, done)
    assert used > judged
    assert api.post(SLOWS, slow("little", 3)).status == 201
    assert metric(api, done) == used


INITIAL = "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"


def abandon_watches(api, path, body=None):
    """Opens watches of one user at once, and closes them all when the first of them is answered."""
    opened = [api.connection() for _ in range(WATCHERS)]
    for c in opened:
        c.connect()
    for c in opened:
        c.request("GET", path + INITIAL, body)
    readable, _, _ = select.select([c.sock for c in opened], [], [], GUARD)
    assert readable
    for c in opened:
        c.sock.close()
        c.close()


@pytest.mark.parametrize("body", [None, b"x" * 40_000], ids=["schema", "body"])
def test_watches_whose_clients_go_while_they_wait(start_api, body):
    """For the schema of their kind, or behind a body they have no use for: a watch never begins for a client that left."""
    api = start_api()
    kind = crd("true", 400)
    version = kind["spec"]["versions"][0]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] |= {f"p{i}": {"type": "string", "pattern": LARGE_PATTERN} for i in range(2)}
    kind["spec"]["versions"] += [{**version, "name": f"v{i}", "storage": False} for i in range(2, 6)]
    assert api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", kind).status == 201
    until(lambda: api.get(SLOWS).status == 200, GUARD, "the kind to be served")
    for i in range(2, 6):
        abandon_watches(api, SLOWS.replace("v1", f"v{i}"), body)
    assert api.get(SLOWS).status == 200


def test_patches_that_cost_much_in_a_small_body(start_api):
    """What they copy, or the object they change together with them, moves them beside the loop."""
    api = start_api()
    done = 'spanwire_api_work_total{result="done"}'
    assert api.post(CMS, config_map("z", {f"k{i}": "v" for i in range(1500)})).status == 201

    def patch(body, kind, query=""):
        before = metric(api, done)
        answer = api.request("PATCH", f"{CMS}/z?dryRun=All{query}", json.dumps(body), {"Content-Type": kind})
        return answer.status, metric(api, done) > before
    copy = {"op": "copy", "from": "/data", "path": "/metadata/annotations"}
    assert patch([copy], "application/json-patch+json") == (200, False)
    assert patch([copy] * 40, "application/json-patch+json") == (200, True)
    assert patch([copy] * 700, "application/json-patch+json") == (422, True)
    assert patch({"data": {"k1": "w"}}, "application/merge-patch+json") == (200, False)
    whole = {"apiVersion": "v1", "kind": "ConfigMap", "data": {f"k{i}": "w" * 8 for i in range(1500)}}
    assert len(json.dumps(whole)) < 32 << 10
    assert patch(whole, "application/apply-patch+yaml", "&fieldManager=x&force=true") == (200, True)


def test_the_deadline_is_told(start_api):
    api = start_api("--work-timeout", "1ms")
    answer = api.post(CMS, large("late"))
    assert answer.status == 504 and answer.json["reason"] == "Timeout", answer
    assert "did not complete" in answer.message
    assert api.get(CMS + "/late").status == 404
    assert metric(api, 'spanwire_api_work_total{result="timeout"}') >= 1
    until(lambda: "cancelled: not done within" in api.log(), GUARD, "a line about it")
    assert api.post(CMS, config_map("little", {"a": "b"})).status == 201


def many_objects(api, n):
    c = api.connection()
    for i in range(n):
        c.request("POST", CMS, json.dumps(config_map(f"o{i}", {"a": "x" * 100})), JSON)
        assert c.getresponse().read()
    c.close()


def test_a_client_that_goes_ends_its_work(start_api):
    api = start_api()
    many_objects(api, 1000)
    mallory = Tenant(api, "mallory", role="view")
    request = f"GET {CMS} HTTP/1.1\r\nHost: x\r\nAccept: application/yaml\r\nAuthorization: Bearer {mallory.token}\r\n\r\n"
    for _ in range(40):
        s = mallory.context.wrap_socket(socket.create_connection(("127.0.0.1", api.port)), server_hostname="127.0.0.1")
        s.sendall(request.encode())
        s.close()
    until(lambda: metric(api, "spanwire_api_work_waiting") == 0, GUARD, "the queue to be empty")
    assert metric(api, 'spanwire_api_work_total{result="client_gone"}') > 0
    assert metric(api, 'spanwire_api_work_total{result="done"}') <= 40  # not below zero, which is very much
    assert api.get(CMS).status == 200


def test_one_user_waits_behind_itself_only(start_api):
    """A hundred large lists of one user: refused above its queue, and another user's list is not behind them."""
    api = start_api()
    many_objects(api, 1500)
    mallory = Tenant(api, "mallory", role="view")
    held = mallory.unread(CMS + "?pretty=true", 100)
    try:
        until(lambda: metric(api, 'spanwire_api_work_total{result="refused"}') > 0, GUARD, "the queue to be full")
        assert len(api.get(CMS).json["items"]) >= 1500
        assert metric(api, "spanwire_api_work_waiting") > 0
    finally:
        held.close()


def test_a_drain_answers_what_was_begun(start_api):
    api = start_api("--drain", "20s")
    answers = []

    def write(i):
        try:
            answers.append((i, api.post(CMS, large(f"d{i}")).status))
        except OSError:
            answers.append((i, None))
    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    until(lambda: metric(api, "spanwire_api_work_waiting") or len(answers) == 4, GUARD, "work to wait")
    assert api.stop() == 0
    for t in threads:
        t.join()
    api.restart(kill=False)
    for i, status in answers:
        assert status in (201, 503, None), answers
        if status == 201:
            assert api.get(f"{CMS}/d{i}").status == 200


def test_kill_in_the_middle_loses_nothing(start_api):
    api = start_api()
    done, over = [], threading.Event()

    def write(k):
        i = 0
        while not over.is_set():
            try:
                if api.post(CMS, large(f"k{k}-{i}", 3000)).status == 201:
                    done.append(f"k{k}-{i}")
            except (OSError, http.client.HTTPException):
                return
            i += 1
    threads = [threading.Thread(target=write, args=(k,)) for k in range(3)]
    for t in threads:
        t.start()
    until(lambda: len(done) > 10, GUARD, "some writes")
    api.restart(kill=True)
    over.set()
    for t in threads:
        t.join()
    for name in list(done):
        answer = api.get(f"{CMS}/{name}")
        assert answer.status == 200 and len(answer.json["data"]) == 3000, name


NO_WEBHOOK = {"metadata": {"name": "h"}, "webhooks": [{
    "name": "h.example.com", "clientConfig": {"url": "https://127.0.0.1:1/x"}, "sideEffects": "None",
    "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
    "matchConditions": [{"name": "no", "expression": "request.name == 'never'"}],
    "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]}]}


@pytest.mark.parametrize("way", ["a sweep", "a webhook that is not asked"])
def test_clients_that_go_while_work_asks_for_more_of_itself(start_api, way):
    """Work that goes on as another job in its own turn left that job behind with a request that was freed (AddressSanitizer)."""
    api = start_api()
    mallory = Tenant(api, "mallory", role="edit")
    maps = CMS
    if way == "a sweep":
        for i in range(60):
            api.post(maps, config_map(f"o{i}", {"a": "x" * 2000}))
        head, body = f"DELETE {maps}?labelSelector=none%3Dx", b""
    else:
        hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        assert api.post(hooks, NO_WEBHOOK).status == 201
        head, body = f"POST {maps}?dryRun=All", json.dumps(config_map("big", {f"k{i}": "v" for i in range(4000)})).encode()
    for i in range(60):
        with mallory.context.wrap_socket(socket.create_connection(("127.0.0.1", api.port)), server_hostname="127.0.0.1") as s:
            s.sendall((f"{head} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {mallory.token}\r\n"
                       f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
            time.sleep(i % 6 * (0.01 if body else 0.0003))
    assert api.get("/healthz").status == 200
    assert api.get(maps).status == 200
