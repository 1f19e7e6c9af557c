# SPDX-License-Identifier: Apache-2.0
"""
Routes of all tenants on a port are one table, which a gateway takes or refuses as a whole. One tenant goes one step
beyond every limit there is: only its own object suffers, and says why. The others' routes are served, old and new, also
by a gateway that starts after it.
"""
import http.client
import pathlib

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness import rights as rt
from harness.tenant import Tenant
from harness.wait import GUARD, SLOW, until

PORT = 8080
NET, GW, CORE = "/apis/networking.k8s.io/v1", "/apis/gateway.networking.k8s.io/v1", "/api/v1"
PROXIES = "/apis/networking.datumapis.com/v1alpha"
EVIL = "mallory"
WORDS = 18  # repetitions: a fifth of a table in 128 expressions for all hosts
PLURALS = {"Ingress": (NET, "ingresses"), "HTTPRoute": (GW, "httproutes"), "GRPCRoute": (GW, "grpcroutes"),
           "HTTPProxy": (PROXIES, "httpproxies")}


def at(kind, name=""):
    top, plural = PLURALS[kind]
    return f"{top}/namespaces/{EVIL}/{plural}" + (f"/{name}" if name else "")


def obj(kind, name, spec):
    return {"apiVersion": PLURALS[kind][0].removeprefix("/apis/"), "kind": kind, "metadata": {"name": name},
            "spec": spec}


def ingress(name, paths, host="i.evil.test", tls=None):
    backend = {"service": {"name": "none", "port": {"number": 80}}}
    rule = {"http": {"paths": [{"path": p, "pathType": "Prefix", "backend": backend} for p in paths]}}
    return obj("Ingress", name, {"ingressClassName": "spanwire", "rules": [{"host": host, **rule} if host else rule],
                                 **({"tls": [tls]} if tls else {})})


def proxy(name, matches, hosts=15):
    """128 matches in 16 rules."""
    rules = [{"matches": [matches(i * 8 + k) for k in range(8)], "backends": [{"endpoint": "http://192.0.2.9:80"}]}
             for i in range(16)]
    return obj("HTTPProxy", name, {"hostnames": [f"h{i}.{name}.test" for i in range(hosts)], "rules": rules})


def route(kind, name, rules, hosts):
    return obj(kind, name, {"parentRefs": [{"name": "edge", "namespace": "default"}], "hostnames": hosts,
                            "rules": rules})


def regexes(i):
    value = "(a|b){1,900}"
    return {"path": {"type": "RegularExpression", "value": f"/p{i}/{value}c{{1,900}}"},
            "headers": [{"type": "RegularExpression", "name": f"h{k}", "value": value + "x{1,900}"} for k in range(16)]}


def large(i):
    return {"path": {"type": "PathPrefix", "value": f"/{i}"},
            "headers": [{"name": f"h{k}", "value": "a" * 690} for k in range(16)]}


def refs(n=16, **more):
    return [{"name": f"s{i}", "port": 80, "weight": 1000000, **more} for i in range(n)]


def prefixes(n, at=0, **more):
    return [{"path": {"type": "PathPrefix", "value": f"/{at + i}"}, **more} for i in range(n)]


def modifier(n, value):
    return {"type": "RequestHeaderModifier",
            "requestHeaderModifier": {"set": [{"name": f"x-{i}", "value": value} for i in range(n)]}}


def fits():
    """What the API's own limits let through and a table has room for."""
    names = ["a" * 63 + "." + "b" * 63 + "." + "c" * 63 + "." + "d" * 59 + ".t"]
    yield route("HTTPRoute", "long-host", [{"backendRefs": refs()}], names)
    yield route("HTTPRoute", "backends", [{"matches": prefixes(8, i * 8), "backendRefs": refs()} for i in range(16)],
                [f"b{i}.evil.test" for i in range(16)])
    yield route("HTTPRoute", "paths", [{"matches": [{"path": {"type": t, "value": "/" + "a" * 1023}}]}
                                       for t in ("Exact", "PathPrefix", "RegularExpression")], ["p.evil.test"])
    yield route("HTTPRoute", "cut", [{"matches": prefixes(1, i), "backendRefs": refs(1), "filters": [
        {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplacePrefixMatch", "replacePrefixMatch": "/"}}}]}
        for i in range(16)], [f"c{i}.evil.test" for i in range(16)])


def grpc():
    match = {"method": {"type": "RegularExpression", "service": "(a|b){1,900}", "method": "(a|b){1,900}"},
             "headers": [{"type": "RegularExpression", "name": f"h{k}", "value": "(a|b){1,900}"} for k in range(16)]}
    return route("GRPCRoute", "grpc", [{"matches": [match] * 8, "backendRefs": refs(1)} for _ in range(16)],
                 [f"g{i}.evil.test" for i in range(16)])


def modified():
    """Little to write, a lot to send: each match has all headers, for each host."""
    return route("HTTPRoute", "headers", [{"matches": prefixes(8, i * 8), "backendRefs": refs(1),
                                           "filters": [modifier(16, "v" * 4000)]} for i in range(16)],
                 [f"m{i}.evil.test" for i in range(16)])


def certified():
    return ingress("tls", [f"/{i}" for i in range(200)], host=None,
                   tls={"secretName": "cert", "hosts": [f"t{i}.evil.test" for i in range(1000)]})


# What is applied, and what its status or Event has to say; None: it is fine.
CASES = {
    "path of an Ingress": ([ingress("path", ["/" + "a" * 8192, "/" + "b" * 8192, "/ok"])], "8192 are possible"),
    "regular expressions of an HTTPProxy": ([proxy("regexes", regexes)], "too large"),
    "bytes of HTTPProxies": ([proxy(f"large{i}", large) for i in range(4)], "too large"),
    "regular expressions of a GRPCRoute": ([grpc()], "too large"),
    "headers of an HTTPRoute": ([modified()], "too large"),
    "names of an Ingress": ([certified()], "too large"),
    "percent signs of an HTTPRoute": ([route("HTTPRoute", "percent", [
        {"filters": [modifier(1, "%" * 128)], "backendRefs": refs(1)}], ["v.evil.test"])], "percent signs"),
    "within all limits": (list(fits()), None),
}


class World:
    def __init__(self, binary, tmp):
        self.fabric = f = fb.Fabric(binary, tmp, "--gateway-port-offset", "8000", "--target-domain", "connect.test")
        self.origin = gw.Origin()
        f.service("web", [self.origin.port])
        f.apply(fb.thing("IngressClass", "spanwire", {"controller": "spanwire.dev/ingress"}))
        f.apply(fb.thing("Gateway", "edge", {"gatewayClassName": "spanwire", "listeners": [
            {"name": "http", "protocol": "HTTP", "port": 80, "allowedRoutes": {"namespaces": {"from": "All"}}}]}))
        rt.cluster_role(f.control, "router", [
            {"apiGroups": ["*"], "resources": [plural for _, plural in PLURALS.values()], "verbs": ["create"]}])
        self.mallory = Tenant(f.control, "mallory", ns=EVIL, role="router")
        cert, key = (pathlib.Path(p) for p in fb.make_cert(tmp, "cert", ["*.evil.test"]))
        f.control.post(f"{CORE}/namespaces/{EVIL}/secrets", {
            "metadata": {"name": "cert"}, "type": "kubernetes.io/tls",
            "data": {"tls.crt": rt.b64(cert.read_text()), "tls.key": rt.b64(key.read_text())}})
        self.hosts = []
        self.gateway = f.start_gateway()
        f.programmed("edge")
        self.another()

    def another(self):
        """One more route of the victim, served."""
        host = f"v{len(self.hosts)}.shop.test"
        self.fabric.apply(fb.route(f"v{len(self.hosts)}", "edge", [fb.prefix("/", fb.to("web"))], hosts=[host]))
        self.hosts.append(host)
        until(lambda: self.ask(host) == 200, GUARD, f"{host} to be served: {self.refusals()}")

    def ask(self, host):
        c = http.client.HTTPConnection("127.0.0.1", PORT, timeout=GUARD * SLOW)
        try:
            c.request("GET", "/echo", headers={"Host": host})
            return c.getresponse().status
        except (ConnectionRefusedError, ConnectionResetError):
            return None
        finally:
            c.close()

    def refusals(self):
        return [x[:300] for x in self.fabric.control.log().splitlines()
                if "client refused a response" in x or "is too large" in x]

    def restart(self):
        self.gateway.stop()
        self.gateway = self.fabric.start_gateway()

    def says(self, kind, name):
        """Conditions of the object and of what was made of it, and Events about it."""
        text = []
        for k in {kind, "HTTPRoute"}:
            o = self.fabric.control.get(at(k, name))
            text.append(str(o.json.get("status")) if o.status == 200 else "")
        events = self.fabric.control.get(f"{CORE}/namespaces/{EVIL}/events").json["items"]
        text += [e["message"] for e in events if e["involvedObject"]["name"] == name]
        return "\n".join(text)

    def close(self):
        try:
            self.fabric.close()
        finally:
            self.origin.close()


@pytest.fixture(scope="module", name="world")
def _world(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("harm"))
    yield w
    w.close()


def served_as_before(world):
    world.another()
    for host in world.hosts:
        assert world.ask(host) == 200, host
    world.restart()
    for host in world.hosts:
        until(lambda h=host: world.ask(h) == 200, GUARD, f"{host} to be served by a new gateway")
    assert not world.refusals()


@pytest.mark.parametrize("case", CASES)
def test_only_the_object_beyond_a_limit_suffers(world, case):
    objects, why = CASES[case]
    for o in objects:
        answer = world.mallory.request("POST", at(o["kind"]), o)
        assert answer.status == 201, answer.message[:500]
    for o in objects:
        kind, name = o["kind"], o["metadata"]["name"]
        if why:
            until(lambda k=kind, n=name: why in world.says(k, n), GUARD, f"{kind} {name} to say '{why}'")
        elif kind == "HTTPRoute":
            until(lambda n=name: "'Accepted'" in world.says("HTTPRoute", n), GUARD, f"{name} to be looked at")
            assert "too large" not in world.says(kind, name)
    served_as_before(world)


@pytest.mark.parametrize("what", ["bytes", "words"])
def test_a_full_table_leaves_out_who_fills_it(world, what):
    """Each object is within its limit; together they are not. Those who have less in the table notice nothing."""
    def matches(i):
        if what == "bytes":
            return {**large(i), "headers": large(i)["headers"][:8]}
        return {"path": {"type": "RegularExpression", "value": f"/p{i}/(a|b){{1,{WORDS}}}"}}
    names = [f"{what}{i}" for i in range(8)]
    for name in names:
        answer = world.mallory.request("POST", at("HTTPProxy"), proxy(name, matches))
        assert answer.status == 201, answer.message[:500]
    until(lambda: any("is full" in world.says("HTTPProxy", n) for n in names), GUARD, "one of them not to fit")
    served_as_before(world)
    full = [n for n in names if "is full" in world.says("HTTPProxy", n)]
    assert full and names[0] not in full and not any("too large" in world.says("HTTPProxy", n) for n in names), full
    for n in names:
        world.fabric.control.delete(at("HTTPProxy", n))
    world.another()


def test_requests_for_an_object_beyond_its_limit_get_an_error(world):
    until(lambda: world.ask("h0.regexes.test") == 500, GUARD, "an error instead of a backend")
    assert world.gateway.page("/config_dump").count("too-large")
    assert world.gateway.metrics().sum("spanwire_gateway_hosts_invalid") == 0  # the first line held
