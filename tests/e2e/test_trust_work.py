# SPDX-License-Identifier: Apache-2.0
"""
Requests that are small to send and were large to serve: each is refused or served for a bounded price, and the API
answers others meanwhile.
"""
import http.client
import json
import random
import threading

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.control import Control, config_map, cpu_s
from harness.metrics import Metrics
from harness.wait import GUARD, SLOW, until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
CMS = "/api/v1/namespaces/default/configmaps"
HEAVY = "(?:" + "(|)" * 40 + "){1000}"
CPU = 5 * SLOW  # seconds that one request may cost: ten times what it does, a tenth of what it did


@pytest.fixture(scope="module", name="api")
def _api(binary, tmp_path_factory):
    server = Control(binary, tmp_path_factory.mktemp("work"))
    yield server
    server.close()


def crd(kind, schema):
    plural = kind.lower() + "s"
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.work.test"},
            "spec": {"group": "work.test", "scope": "Namespaced",
                     "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                         "type": "object", "properties": {"spec": schema}}}}]}}


def install(api, kind, schema):
    """The path of the new kind's objects."""
    answer = api.post(CRDS, crd(kind, schema))
    assert answer.status == 201, answer
    path = f"/apis/work.test/v1/namespaces/default/{kind.lower()}s"
    until(lambda: api.get(path).status == 200, GUARD, path)
    return path


def thing(kind, spec, name="x"):
    return {"apiVersion": "work.test/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def priced(api, do):
    """Runs a request while others ask for /healthz; what it answered, for a bounded price."""
    stop = threading.Event()
    asked = []

    def ask():
        while not asked or not stop.wait(0.02):
            asked.append(api.get("/healthz").status)
    before = cpu_s(api.pid)
    t = threading.Thread(target=ask)
    t.start()
    try:
        answer = do()
    finally:
        stop.set()
        t.join()
    assert asked and set(asked) == {200}
    assert cpu_s(api.pid) - before < CPU, answer
    return answer


def refused(api, work):
    metrics = Metrics(api.get("/metrics").body.decode())
    return metrics.sum("spanwire_api_work_refused_total", work=work)


def hwm_mb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return int(next(line for line in f if line.startswith("VmHWM")).split()[1]) >> 10


# --- regular expressions ---

def test_values_against_a_bundled_pattern(api):
    """Too many hostnames, each of which PCRE2 went over again and again: refused for their number."""
    names = ["a" * 240 + f"-{i}-" for i in range(1024)]
    answer = priced(api, lambda: api.post(ROUTES, fb.route("many", "edge", [{}], hosts=names)))
    assert answer.status == 422 and "must have at most 16 items" in answer.message, answer


def test_values_against_a_pattern_of_a_crd(api):
    path = install(api, "Pattern", {"type": "object", "properties": {"v": {"type": "array", "items": {
        "type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}}}})
    answer = priced(api, lambda: api.post(path, thing("Pattern", {"v": ["a" * 200 + "!"] * 4096})))
    assert answer.status == 422 and "should match" in answer.message, answer.message[:300]
    answer = api.post(path, thing("Pattern", {"v": ["abcAbc"]}))
    assert answer.status == 201, answer


def test_validation_ends_with_its_budget(api):
    """Linear is still too much where a program is large: 422 says where, a line and a metric say that."""
    path = install(api, "Budget", {"type": "object", "properties": {"v": {"type": "array", "items": {
        "type": "string", "pattern": "[ab]*a[ab]{300}c"}}}})
    had = refused(api, "validation")
    text = "".join(random.Random(7).choices("ab", k=200000))
    answer = priced(api, lambda: api.post(path, thing("Budget", {"v": [text[i:] for i in range(6)]})))
    assert answer.status == 422 and "spec.v[" in answer.message, answer.message[-300:]
    assert "takes more work than is allowed" in answer.message, answer.message[-300:]
    until(lambda: refused(api, "validation") == had + 1)
    until(lambda: "its validation takes too much work" in api.log())


def test_patterns_of_a_crd_are_bounded_together(api):
    many = {f"p{i}": {"type": "string", "pattern": "\\pL{1000}"} for i in range(200)}
    answer = priced(api, lambda: api.post(CRDS, crd("Large", {"type": "object", "properties": many})))
    assert answer.status == 422 and "too large" in answer.message, answer.message[:300]


def test_cel_matches_is_bounded(api):
    schema = {"type": "object", "properties": {"v": {"type": "string", "maxLength": 100000}},
              "x-kubernetes-validations": [{"rule": "!self.v.matches('(x+x+)+y')"}]}
    path = install(api, "Cel", schema)
    answer = priced(api, lambda: api.post(path, thing("Cel", {"v": "x" * 100000})))
    assert answer.status in (201, 422), answer


def test_a_pattern_of_the_object_itself(api):
    """3 KB, of which a rule takes its expression: compiled for each value once, beside every budget."""
    schema = {"type": "object", "properties": {
        "v": {"type": "array", "maxItems": 2000, "items": {"type": "string", "maxLength": 10}},
        "p": {"type": "string", "maxLength": 200}},
        "x-kubernetes-validations": [{"rule": "self.v.all(x, x.matches(self.p))"}]}
    path = install(api, "Dynamic", schema)
    answer = priced(api, lambda: api.post(path, thing("Dynamic", {"v": [""] * 2000, "p": HEAVY})))
    assert answer.status == 201, answer.message[:300]


def test_many_patterns_of_the_object_itself(api):
    schema = {"type": "object", "properties": {
        "v": {"type": "array", "maxItems": 500, "items": {"type": "string", "maxLength": 200}}},
        "x-kubernetes-validations": [{"rule": "self.v.all(x, ''.matches(x))"}]}
    path = install(api, "Various", schema)
    had = refused(api, "validation")
    answer = priced(api, lambda: api.post(path, thing("Various", {"v": [HEAVY + "|" + str(i) for i in range(500)]})))
    assert answer.status == 422 and "out of cost budget" in answer.message, answer.message[:300]
    until(lambda: refused(api, "validation") == had + 1)
    answer = api.post(path, thing("Various", {"v": ["^a*$", "^b*$"]}))
    assert answer.status == 201, answer


def test_patterns_that_fill_what_is_kept(api):
    """Others' automata fill the memory for them; each match of one that is not kept was free of charge."""
    lists = {f"p{i}": {"type": "array", "items": {"type": "string", "pattern": HEAVY}} for i in range(8)}
    paths = [install(api, f"Heavy{i}", {"type": "object", "properties": lists}) for i in range(3)]
    for i, path in enumerate(paths):
        assert api.post(path, thing(f"Heavy{i}", {p: [""] for p in lists}, "first")).status == 201
    answer = priced(api, lambda: api.post(paths[2], thing("Heavy2", {"p7": [""] * 8000})))
    assert answer.status == 201, answer.message[:300]


# --- defaults ---

def test_empty_rules_do_not_expand(api):
    """2.7 MB of '{}', each of which would get its defaults: 857 MB and 9 s once."""
    body = json.dumps(fb.route("empty", "edge", [])).replace('"rules": []', '"rules":[' + "{}," * 900000 + "{}]")
    assert 2 << 20 < len(body) < 3 << 20
    answer = priced(api, lambda: api.post(ROUTES, body, headers={"Content-Type": "application/json"}))
    assert answer.status == 422 and "must have at most 16 items" in answer.message, answer.message[:300]
    assert hwm_mb(api.pid) < 700 * SLOW


def test_defaults_end_with_their_budget(api):
    inner = {"type": "object", "default": {}, "properties": {
        f"f{i}": {"type": "string", "default": "v" * 100} for i in range(100)}}
    path = install(api, "Default", {"type": "object", "properties": {"v": {"type": "array", "items": {
        "type": "object", "properties": {"inner": inner}}}}})
    had = refused(api, "defaults")
    answer = priced(api, lambda: api.post(path, '{"apiVersion":"work.test/v1","kind":"Default","metadata":{"name":"x"},'
                                          '"spec":{"v":[' + "{}," * 400000 + "{}]}}",
                                          headers={"Content-Type": "application/json"}))
    assert answer.status == 413 and "spec.v[" in answer.message, answer.message[:300]
    until(lambda: refused(api, "defaults") == had + 1)
    answer = api.post(path, thing("Default", {"v": [{}] * 20}))
    assert answer.status == 201 and len(answer.json["spec"]["v"][19]["inner"]) == 100, answer


def test_a_crd_whose_defaults_explode_is_refused(api):
    """Ten fields of ten fields of ten..., each with an empty default."""
    schema = {"type": "string", "default": "leaf"}
    for _ in range(7):
        schema = {"type": "object", "default": {}, "properties": {f"f{i}": schema for i in range(10)}}
        if len(json.dumps(schema)) > 200000:
            break
    flat = {"type": "string", "default": "leaf"}
    for _ in range(13):
        flat = {"type": "object", "default": {}, "properties": {"a": flat, "b": flat}}
    for bad in (schema, flat):
        answer = priced(api, lambda s=bad: api.post(CRDS, crd("Explode", s)))
        assert answer.status == 422 and "expand to too much" in answer.message, answer.message[:300]


# --- patches ---

def test_moves_of_a_large_value(api):
    """Every operation is small, and touches a large tree."""
    path = install(api, "Moved", {"type": "object", "x-kubernetes-preserve-unknown-fields": True})
    answer = api.post(path, thing("Moved", {"a": [0] * 600000}))
    assert answer.status == 201, answer.message[:300]
    ops = [{"op": "move", "from": f"/spec/{'ab'[i % 2]}", "path": f"/spec/{'ba'[i % 2]}"} for i in range(9999)]
    answer = priced(api, lambda: api.patch(f"{path}/x", ops, "json"))
    assert answer.status in (200, 413, 422), answer.message[:300]
    ops = [{"op": "test", "path": "/spec/a/0", "value": 0}] * 5000 + [{"op": "copy", "from": "/spec/a", "path": "/spec/c"}] * 4999
    answer = priced(api, lambda: api.patch(f"{path}/x", ops, "json"))
    assert answer.status in (400, 413, 422), answer.message[:300]


def test_owners_of_thousands(api):
    """Each was compared with each, and an error about one showed them all."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": f"p{i}", "uid": f"u{i}", "controller": True} for i in range(20000)]
    answer = priced(api, lambda: api.post(CMS, config_map("owned", ownerReferences=owners)))
    assert answer.status == 422 and "must have at most 1024 items" in answer.message, answer.message[:300]
    assert len(answer.body) < 1 << 20
    answer = api.post(CMS, config_map("owned", ownerReferences=[{**o, "controller": False} for o in owners[:500]] * 2))
    assert answer.status == 201 and len(answer.json["metadata"]["ownerReferences"]) == 500, answer


def test_yaml_aliases(api):
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: lol\nx0: &x0 [a,a,a,a,a,a,a,a,a,a]\n"
    text += "".join(f"x{i}: &x{i} [{','.join([f'*x{i - 1}'] * 10)}]\n" for i in range(1, 12))
    answer = priced(api, lambda: api.post(CMS, text, headers={"Content-Type": "application/yaml"}))
    assert answer.status in (400, 413), answer.message[:300]


def test_selectors_of_thousands(api):
    wide = ",".join(f"k{i} in (a,b)" for i in range(3000))
    answer = priced(api, lambda: api.get(f"{CMS}?labelSelector={wide.replace(' ', '%20')}"))
    assert answer.status in (200, 400, 414, 431), answer


# --- roles ---

@pytest.fixture(scope="module", name="writer")
def _writer(api):
    """Somebody who may write roles, and little else."""
    for path, body in (
            ("/api/v1/namespaces/default/serviceaccounts",
             {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "writer"}}),
            (ROLES, role("writer", ["rbac.authorization.k8s.io"], ["roles"], ["create", "update", "get"])),
            (BINDINGS, {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                        "metadata": {"name": "writer"},
                        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"},
                        "subjects": [{"kind": "ServiceAccount", "name": "writer", "namespace": "default"}]})):
        assert api.post(path, body).status == 201
    answer = api.post("/api/v1/namespaces/default/serviceaccounts/writer/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}})
    return {"Authorization": "Bearer " + answer.json["status"]["token"]}


def role(name, groups, resources, verbs):
    return {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": groups, "resources": resources, "verbs": verbs}]}


def words(letter, n):
    return [f"{letter}{i}" for i in range(n)]


def test_a_cube_of_rights(api, writer):
    """n groups x n resources x n verbs: n^3 rights to look for once, n = 200 took 110 s."""
    context = api.context(cert=False)
    for n in (200, 3000):
        cube = role("cube", words("g", n), words("r", n), words("v", n))
        answer = priced(api, lambda c=cube: api.post(ROLES, c, headers=writer, context=context))
        assert answer.status == 403 and "not currently held" in answer.message, answer.message[:300]
        assert len(answer.message) < 66_000 and answer.message.endswith("\n..."), answer.message[-100:]
    mine = role("mine", ["rbac.authorization.k8s.io"], ["roles"], ["get", "create"])
    assert api.post(ROLES, mine, headers=writer, context=context).status == 201


def test_roles_are_bounded(api):
    answer = priced(api, lambda: api.post(ROLES, role("wide", words("g", 5000), ["r"], ["get"])))
    assert answer.status == 422 and "rules[0].apiGroups" in answer.message, answer.message[:300]
    rules = [{"apiGroups": ["g"], "resources": ["r"], "verbs": ["get"]}] * 5000
    answer = priced(api, lambda: api.post(ROLES, {**role("long", [], [], []), "rules": rules}))
    assert answer.status == 422 and "must have at most 4096 items" in answer.message, answer.message[:300]


# --- the gateway ---

class Gate:
    def __init__(self, binary, tmp):
        self.fabric = f = fb.Fabric(binary, tmp, "--gateway-port-offset", "8000")
        self.origin = gw.Origin()
        f.service("web", [self.origin.port])
        f.gateway_object("edge", [("http", "HTTP", 80)])
        rules = [{"matches": [{"path": {"type": "RegularExpression", "value": f"/x{k}/(a+a+)+[b-{chr(99 + i)}]"},
                               "headers": []} for i in range(8)], "backendRefs": [fb.to("web")]} for k in range(2)]
        rules += [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}, "headers": [
            {"type": "RegularExpression", "name": "x-long", "value": f"(a|b|ab)*c{i}{k}"}]} for i in range(8)],
                   "backendRefs": [fb.to("web")]} for k in range(13)]
        f.apply(fb.route("regexes", "edge", rules + [fb.prefix("/", fb.to("web"))]))
        self.gateway = f.start_gateway()
        f.programmed("edge")
        until(lambda: self.ask("/echo")[0] == 200, GUARD, "the gateway to serve")

    def ask(self, path, **headers):
        c = http.client.HTTPConnection("127.0.0.1", 8080, timeout=GUARD * SLOW)
        try:
            c.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
            r = c.getresponse()
            return r.status, r.read().decode("utf-8", "replace")
        except ConnectionRefusedError:
            return None, ""
        finally:
            c.close()

    def close(self):
        try:
            self.fabric.close()
        finally:
            self.origin.close()


@pytest.fixture(scope="module", name="gate")
def _gate(binary, tmp_path_factory):
    g = Gate(binary, tmp_path_factory.mktemp("gate"))
    yield g
    g.close()


def test_a_path_against_many_patterns(gate):
    before = cpu_s(gate.gateway.pid)
    for k in range(400):
        assert gate.ask(f"/x{k % 2}/" + "a" * 4000 + "!")[0] == 200
    assert cpu_s(gate.gateway.pid) - before < CPU


def test_a_header_against_many_patterns(gate):
    """Linear, and still too much for one request: 500 with the reason, counted and logged; the next one is served."""
    before = cpu_s(gate.gateway.pid)
    assert gate.ask("/", x_long="ab" * 500)[0] == 200
    status, page = gate.ask("/", x_long="ab" * 25000, accept="text/html")
    assert status == 500 and "takes too much work" in page, page
    assert cpu_s(gate.gateway.pid) - before < CPU
    assert gate.ask("/echo")[0] == 200
    until(lambda: gate.gateway.metrics().sum("spanwire_gateway_local_replies_total", reason="route_match_limit") == 1)
    until(lambda: "route_match_limit" in gate.gateway.log())
