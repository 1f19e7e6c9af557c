# SPDX-License-Identifier: Apache-2.0
"""Envoy Gateway, a foreign controller, on our API; its xDS served by our gateway and by a real Envoy.

Every probe runs on both data planes, from the same resources: the answers must be the same, and be what
the objects ask for.
"""
import http.client
import json
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import time

import eg_world as eg
import pytest
from harness import gateway as gw
from harness.foreign import Probes
from harness.wait import GUARD, SLOW, until

CLIENTS = pathlib.Path(__file__).resolve().parents[2] / "e2e/clients"
GATEWAY_API = "gateway.networking.k8s.io/v1"
POLICY_API = "gateway.envoyproxy.io/v1alpha1"
HTTP, HTTPS, PASS, TCP, UDP, READY = 10080, 10443, 8443, 9000, 9001, 19003


def meta(name):
    return {"name": name, "namespace": "default"}


def service(name, *ports):
    """A Service and its EndpointSlice; ports are (name, port of the backend, appProtocol)."""
    yield {"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": {"ports": [
        {"name": n, "port": 80 + i, **({"appProtocol": app} if app else {})}
        for i, (n, _, app) in enumerate(ports)]}}
    yield {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
           "metadata": {**meta(f"{name}-1"), "labels": {"kubernetes.io/service-name": name}},
           "ports": [{"name": n, "port": p, "protocol": "TCP"} for n, p, _ in ports],
           "endpoints": [{"addresses": [eg.BACKENDS], "conditions": {"ready": True}}]}


def route(name, host, *rules, section="http", kind="HTTPRoute"):
    return {"apiVersion": GATEWAY_API, "kind": kind, "metadata": meta(name), "spec": {
        "parentRefs": [{"name": "edge", "sectionName": section}], **({"hostnames": [host]} if host else {}),
        "rules": list(rules)}}


def rule(*backends, path=None, **more):
    out = {"backendRefs": [b if isinstance(b, dict) else {"name": b, "port": 80} for b in backends], **more}
    if path:
        out["matches"] = [{"path": {"type": "PathPrefix", "value": path}}]
    return out


def header_filter(kind, **what):
    key = {"URLRewrite": "urlRewrite", "CORS": "cors"}.get(kind, kind[0].lower() + kind[1:])
    return {"type": kind, key: what}


def policy(kind, name, target, target_kind="HTTPRoute", **spec):
    return {"apiVersion": POLICY_API, "kind": kind, "metadata": meta(name), "spec": {
        "targetRefs": [{"group": "gateway.networking.k8s.io", "kind": target_kind, "name": target}], **spec}}


def pairs(**headers):
    return [{"name": k.replace("_", "-"), "value": v} for k, v in headers.items()]


def objects(w):
    yield {"apiVersion": GATEWAY_API, "kind": "GatewayClass", "metadata": {"name": "eg"},
           "spec": {"controllerName": eg.CONTROLLER}}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": meta("secure"), "type": "kubernetes.io/tls",
           "stringData": {"tls.crt": pathlib.Path(w.cert).read_text(), "tls.key": pathlib.Path(w.key).read_text()}}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta("roots"),
           "data": {"ca.crt": pathlib.Path(w.cert).read_text()}}
    yield {"apiVersion": GATEWAY_API, "kind": "Gateway", "metadata": meta("edge"), "spec": {
        "gatewayClassName": "eg", "listeners": [
            {"name": "http", "port": 80, "protocol": "HTTP"},
            {"name": "https", "port": 443, "protocol": "HTTPS", "hostname": "secure.example",
             "tls": {"certificateRefs": [{"name": "secure"}]}},
            {"name": "pass", "port": PASS, "protocol": "TLS", "tls": {"mode": "Passthrough"}},
            {"name": "tcp", "port": TCP, "protocol": "TCP"}, {"name": "udp", "port": UDP, "protocol": "UDP"}]}}
    yield from service("web", ("http", w.a.port, None), ("grpc", w.grpc, None), ("ws", w.ws, None))
    yield from service("other", ("http", w.b.port, None))
    yield from service("checked", ("http", w.c.port, None))
    yield from service("safe", ("https", w.tls_port, None))
    yield from service("sealed", ("tls", w.tls_port, None))
    yield from service("plain", ("tcp", w.tcp_port, None))
    udp = list(service("datagrams", ("udp", w.udp_port, None)))
    udp[0]["spec"]["ports"][0]["protocol"] = udp[1]["ports"][0]["protocol"] = "UDP"
    yield from udp
    yield {"apiVersion": "v1", "kind": "Service", "metadata": meta("empty"), "spec": {"ports": [{"port": 80}]}}
    yield route("basic", "basic.example", rule("web"))
    yield route("secure", "secure.example", rule("web"), section="https")
    yield route("shape", "shape.example", rule("web", path="/shape", filters=[
        header_filter("RequestHeaderModifier", add=pairs(x_add="one"), set=pairs(x_set="two"), remove=["x-gone"]),
        header_filter("ResponseHeaderModifier", add=pairs(x_told="yes"), remove=["x-origin"])]),
        rule("web", path="/swap", filters=[header_filter("URLRewrite", hostname="new.example", path={
            "type": "ReplacePrefixMatch", "replacePrefixMatch": "/echo/swapped"})]),
        rule("web", path="/full", filters=[header_filter("URLRewrite", path={
            "type": "ReplaceFullPath", "replaceFullPath": "/echo/whole"})]),
        {"matches": [{"path": {"type": "PathPrefix", "value": "/go"}}], "filters": [header_filter(
            "RequestRedirect", scheme="https", hostname="there.example", port=8443, statusCode=301,
            path={"type": "ReplacePrefixMatch", "replacePrefixMatch": "/gone"})]})
    yield route("match", "match.example",
                rule("other", matches=[{"headers": [{"name": "x-side", "value": "b"}]}]),
                rule("other", matches=[{"queryParams": [{"name": "side", "value": "b"}]}]),
                rule("other", matches=[{"method": "PUT"}]),
                rule("other", matches=[{"path": {"type": "RegularExpression", "value": "/echo/[0-9]+/x"}}]),
                rule("other", matches=[{"path": {"type": "Exact", "value": "/echo/exact"}}]), rule("web"))
    yield route("nowhere", "nowhere.example", rule("missing"))
    yield route("empty", "empty.example", rule("empty"))
    yield route("slow", "slow.example", rule("web", timeouts={"request": "300ms"}))
    yield route("mirror", "mirror.example", rule("web", filters=[header_filter(
        "RequestMirror", backendRef={"name": "other", "port": 80})]))
    yield route("weights", "weights.example", rule({"name": "web", "port": 80, "weight": 3},
                                                   {"name": "other", "port": 80, "weight": 1}))
    yield route("cors", "cors.example", rule("web", filters=[header_filter(
        "CORS", allowOrigins=["https://app.example"], allowMethods=["GET", "PUT"], allowHeaders=["x-a"], maxAge=60,
        allowCredentials=True)]))
    yield route("retry", "retry.example", rule("web"))
    yield policy("BackendTrafficPolicy", "retry", "retry", retry={
        "numRetries": 2, "retryOn": {"httpStatusCodes": [503], "triggers": ["retriable-status-codes"]}})
    yield route("two", "two.example", rule("web", "other"))
    yield route("check", "check.example", rule("checked"))
    yield policy("BackendTrafficPolicy", "check", "check", loadBalancer={
        "type": "ConsistentHash", "consistentHash": {"type": "Headers", "headers": [{"name": "x-user"}]}},
        healthCheck={"active": {"type": "HTTP", "interval": "1s", "timeout": "1s", "http": {
            "path": "/status/200", "expectedStatuses": [200]}}},
        circuitBreaker={"maxConnections": 100, "maxPendingRequests": 100})
    yield route("safe", "safe.example", rule("safe"))
    yield {"apiVersion": GATEWAY_API, "kind": "BackendTLSPolicy", "metadata": meta("safe"), "spec": {
        "targetRefs": [{"group": "", "kind": "Service", "name": "safe"}],
        "validation": {"hostname": "secure.example", "caCertificateRefs": [
            {"group": "", "kind": "ConfigMap", "name": "roots"}]}}}
    yield {"apiVersion": POLICY_API, "kind": "Backend", "metadata": meta("by-name"), "spec": {
        "endpoints": [{"fqdn": {"hostname": "backend.test", "port": w.a.port}}]}}
    yield route("by-name", "by-name.example", rule({
        "group": "gateway.envoyproxy.io", "kind": "Backend", "name": "by-name"}))
    yield route("ask", "ask.example", rule("web"))
    yield policy("SecurityPolicy", "ask", "ask", extAuth={"http": {
        "backendRefs": [{"name": "other", "port": 80}], "path": "/status/403"}})
    yield route("sticky", "sticky.example", rule("web", "other", sessionPersistence={
        "sessionName": "place", "type": "Cookie"}))
    yield route("socket", "socket.example", rule({"name": "web", "port": 82}))
    yield route("rpc", "grpc.test", {"backendRefs": [{"name": "web", "port": 81}]}, kind="GRPCRoute")
    yield route("passing", "secure.example", {"backendRefs": [{"name": "sealed", "port": 80}]}, section="pass",
                kind="TLSRoute")
    yield route("bytes", None, {"backendRefs": [{"name": "plain", "port": 80}]}, section="tcp", kind="TCPRoute")
    yield route("datagrams", None, {"backendRefs": [{"name": "datagrams", "port": 80}]}, section="udp",
                kind="UDPRoute")


class TlsOrigin(gw.Origin):
    """The same backend behind TLS."""

    def __init__(self, cert, key):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        super().__init__()

    def _serve(self, conn):
        try:
            super()._serve(self.context.wrap_socket(conn, server_side=True))
        except OSError:
            conn.close()


def echo_sockets():
    """A TCP and a UDP echo; returns their ports."""
    tcp = socket.create_server(("127.0.0.1", 0))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.bind(("127.0.0.1", 0))

    def serve(conn):
        with conn:
            while data := conn.recv(65536):
                conn.sendall(b"tcp:" + data)

    def accept():
        while True:
            threading.Thread(target=serve, args=(tcp.accept()[0],), daemon=True).start()

    def answer():
        while True:
            data, peer = udp.recvfrom(65536)
            udp.sendto(b"udp:" + data, peer)
    for what in (accept, answer):
        threading.Thread(target=what, daemon=True).start()
    return tcp.getsockname()[1], udp.getsockname()[1]


class World:
    def __init__(self, binary, interop, where):
        self.binary, self.where, self.interop = binary, where, interop
        self.cert, self.key = gw.make_cert(where, "secure.example")
        self.control = eg.control_for(binary, where / "control", "--gateway=false")
        self.a, self.b, self.c = gw.Origin(), gw.Origin(), gw.Origin()
        self.safe = TlsOrigin(self.cert, self.key)
        self.tls_port = self.safe.port
        self.tcp_port, self.udp_port = echo_sockets()
        self.servers = subprocess.Popen(["node", str(CLIENTS / "gateway_servers.mjs")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        ports = json.loads(self.servers.stdout.readline())
        self.grpc, self.ws = ports["grpc"], ports["ws"]
        self.eg = eg.EnvoyGateway(interop / "envoy-gateway", where / "root", self.control, interop / "crds")
        self.objects = list(objects(self))
        eg.apply(self.control, *self.objects)

    def plane(self, kind):
        self.eg.programmed("edge")
        if kind == "spanwire":
            return eg.Ours(self.binary, self.where / "ours", self.eg, "edge")
        return eg.Theirs(os.path.join(os.environ["INTEROP_TOP"], "envoy/envoy"), self.where / "theirs", self.eg, "edge")

    def close(self):
        self.eg.signal(15)
        self.eg.wait(GUARD)
        self.servers.stdin.close()
        self.servers.wait(GUARD)
        self.control.close()


@pytest.fixture(scope="module")
def world(binary, interop_dir, tmp_path_factory):
    hosts = pathlib.Path("/etc/hosts")
    where = tmp_path_factory.mktemp("eg")
    (where / "hosts").write_text(hosts.read_text() + "127.0.0.1 backend.test\n", encoding="utf-8")
    subprocess.run(["mount", "--bind", str(where / "hosts"), str(hosts)], check=True)  # in a namespace of our own
    w = World(binary, interop_dir, where)
    yield w
    w.close()


# --- what is asked ---

# What differs by nature, or says only who answers. Ours names itself in Via, and leaves the client's address
# to X-Forwarded-For.
VOLATILE = {"date", "server", "x-request-id", "x-envoy-upstream-service-time", "x-forwarded-for", "content-length",
            "connection", "via", "x-envoy-external-address", "x-envoy-upstream-healthchecked-cluster"}


def ask(host, path, method="GET", headers=None, port=HTTP, body=None, context=None):
    """(status, headers, body) with what differs by nature left out; the backend's view as 'seen'."""
    c = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=GUARD) if context else \
        http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
    try:
        if context:
            raw = socket.create_connection(("127.0.0.1", port), GUARD)
            c.sock = context.wrap_socket(raw, server_hostname=host)
        c.request(method, path, body, {"Host": host, **(headers or {})})
        r = c.getresponse()
        text = r.read()
        out = {"status": r.status, "headers": {k.lower(): v for k, v in r.getheaders() if k.lower() not in VOLATILE}}
        if r.status >= 400:
            for name in ("content-type", "cache-control"):  # of our page for people
                out["headers"].pop(name, None)
        try:
            seen = json.loads(text)
            seen["headers"] = {k: v for k, v in seen["headers"].items() if k not in VOLATILE}
            out["seen"] = seen
        except ValueError:
            if r.status == 200 or 300 <= r.status < 400:
                out["text"] = text.decode("latin-1")[:200]
        return out
    finally:
        c.close()


def client_tls(w, alpn=None):
    context = ssl.create_default_context(cafile=w.cert)
    if alpn:
        context.set_alpn_protocols(alpn)
    return context


def counted(origin, fn, least=1):
    before = origin.requests
    out = fn()
    until(lambda: origin.requests - before >= least, what="a request")  # a mirrored one may come behind the answer
    time.sleep(0.2)  # for one too many
    return {**out, "requests": origin.requests - before}


def web_socket(_w):
    got = node("gateway_ws.mjs", f"ws://127.0.0.1:{HTTP}", "", "socket.example")
    got["greeting"].pop("via", None)
    return got


def spread(w, host, n=400):
    before = w.a.requests, w.b.requests
    codes = {ask(host, "/echo")["status"] for _ in range(n)}
    first, second = w.a.requests - before[0], w.b.requests - before[1]
    return {"codes": sorted(codes), "both": first > 0 and second > 0, "three quarters": 0.65 < first / n < 0.85,
            "sum": first + second}


def sticky(w):
    first = ask("sticky.example", "/echo")
    cookie = first["headers"].get("set-cookie", "")
    before = w.a.requests, w.b.requests
    for _ in range(10):
        ask("sticky.example", "/echo", headers={"Cookie": cookie.split(";")[0]})
    moved = sorted((w.a.requests - before[0], w.b.requests - before[1]))
    return {"cookie": cookie.split("=")[0], "moved": moved}


def tcp_echo(_w):
    with socket.create_connection(("127.0.0.1", TCP), GUARD) as s:
        s.sendall(b"hello")
        return {"got": s.recv(100).decode()}


def udp_echo(_w):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.sendto(b"hello", ("127.0.0.1", UDP))
        return {"got": s.recv(100).decode()}


def h2(w):
    done = subprocess.run(["curl", "-s", "--http2", "--cacert", w.cert, "--resolve",
                           f"secure.example:{HTTPS}:127.0.0.1", "-o", "/dev/null", "-w", "%{http_version} %{http_code}",
                           f"https://secure.example:{HTTPS}/echo"], capture_output=True, text=True, check=False)
    return {"got": done.stdout}


def node(script, *args):
    done = subprocess.run(["node", str(CLIENTS / script), *args], capture_output=True, text=True,
                          timeout=60 * SLOW, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {line["op"]: line["got"] for line in map(json.loads, done.stdout.splitlines())}


PREFLIGHT = {"Origin": "https://app.example", "Access-Control-Request-Method": "PUT",
             "Access-Control-Request-Headers": "x-a"}
# name: (what to do, what of its answer must hold)
PROBES = Probes({
    "plain": (lambda w: ask("basic.example", "/echo/a?b=c", headers={"X-One": "1"}),
              lambda r: r["status"] == 200 and r["seen"]["target"] == "/echo/a?b=c"),
    "body": (lambda w: ask("basic.example", "/sha", "POST", body=b"x" * 100000), lambda r: r["status"] == 200),
    "unknown host": (lambda w: ask("nobody.example", "/echo"), lambda r: r["status"] == 404),
    "path is normalised": (lambda w: ask("basic.example", "/echo//x/../y"),
                           lambda r: r["seen"]["target"] == "/echo/y"),
    "escaped slash": (lambda w: ask("basic.example", "/echo%2Fy"), lambda r: r["status"] == 307),
    "underscore": (lambda w: ask("basic.example", "/echo", headers={"x_y": "1"}), lambda r: r["status"] == 400),
    "no backend": (lambda w: ask("nowhere.example", "/echo"), lambda r: r["status"] == 500),
    "no endpoints": (lambda w: ask("empty.example", "/echo"), lambda r: r["status"] == 503),
    "headers": (lambda w: ask("shape.example", "/shape", headers={"X-Gone": "1", "X-Set": "old"}),
                lambda r: r["seen"]["headers"]["x-set"] == "two" and r["seen"]["headers"]["x-add"] == "one" and
                "x-gone" not in r["seen"]["headers"] and r["headers"]["x-told"] == "yes" and
                "x-origin" not in r["headers"]),
    "rewrite prefix": (lambda w: ask("shape.example", "/swap/in?q=1"),
                       lambda r: r["seen"]["target"] == "/echo/swapped/in?q=1" and
                       r["seen"]["headers"]["host"] == "new.example"),
    "rewrite whole": (lambda w: ask("shape.example", "/full/in?q=1"),
                      lambda r: r["seen"]["target"] == "/echo/whole?q=1"),
    "redirect": (lambda w: ask("shape.example", "/go/on?q=1"),
                 lambda r: r["status"] == 301 and r["headers"]["location"] ==
                 "https://there.example:8443/gone/on?q=1"),
    **{f"match by {what}": (lambda w, a=args, n=n: counted(w.b, lambda: ask("match.example", *a[0], **a[1]), n),
                            lambda r, n=n: r["status"] == 200 and r["requests"] == n)
       for what, args, n in (
           ("header", (("/echo",), {"headers": {"X-Side": "b"}}), 1), ("query", (("/echo?side=b",), {}), 1),
           ("method", (("/echo", "PUT"), {}), 1), ("regex", (("/echo/12/x",), {}), 1),
           ("exact path", (("/echo/exact",), {}), 1), ("nothing", (("/echo/exact/x",), {}), 0))},
    "timeout": (lambda w: ask("slow.example", "/slow/10000"), lambda r: r["status"] == 504),
    "mirror": (lambda w: counted(w.b, lambda: ask("mirror.example", "/echo")),
               lambda r: r["status"] == 200 and r["requests"] == 1),
    "weights": (lambda w: spread(w, "weights.example"),
                lambda r: r == {"codes": [200], "both": True, "three quarters": True, "sum": 400}),
    "preflight": (lambda w: ask("cors.example", "/echo", "OPTIONS", PREFLIGHT),
                  lambda r: r["status"] == 200 and r["headers"]["access-control-allow-origin"] ==
                  "https://app.example"),
    "cross origin": (lambda w: ask("cors.example", "/echo", headers={"Origin": "https://app.example"}),
                     lambda r: r["headers"]["access-control-allow-credentials"] == "true"),
    "other origin": (lambda w: ask("cors.example", "/echo", headers={"Origin": "https://evil.example"}),
                     lambda r: "access-control-allow-origin" not in r["headers"]),
    "retries": (lambda w: counted(w.a, lambda: ask("retry.example", "/status/503")),
                lambda r: r["status"] == 503 and r["requests"] == 3),
    "two backends": (lambda w: spread(w, "two.example"),
                     lambda r: r == {"codes": [200], "both": True, "three quarters": False, "sum": 400}),
    "consistent hash, checked": (lambda w: ask("check.example", "/echo", headers={"X-User": "u"}),
                                 lambda r: r["status"] == 200),
    "backend TLS": (lambda w: ask("safe.example", "/echo"), lambda r: r["status"] == 200),
    "backend by name": (lambda w: ask("by-name.example", "/echo"), lambda r: r["status"] == 200),
    "refused by authorisation": (lambda w: ask("ask.example", "/echo"), lambda r: r["status"] == 403),
    "sticky": (sticky, lambda r: r == {"cookie": "place", "moved": [0, 10]}),
    "TLS": (lambda w: ask("secure.example", "/echo", port=HTTPS, context=client_tls(w)),
            lambda r: r["status"] == 200 and r["seen"]["headers"]["x-forwarded-proto"] == "https"),
    "HTTP/2": (h2, lambda r: r["got"] == "2 200"),
    "TLS passthrough": (lambda w: ask("secure.example", "/echo", port=PASS, context=client_tls(w)),
                        lambda r: r["status"] == 200),
    "TCP": (tcp_echo, lambda r: r["got"] == "tcp:hello"),
    "UDP": (udp_echo, lambda r: r["got"] == "udp:hello"),
    "ready": (lambda w: ask("x", "/ready", port=READY), lambda r: r["status"] == 200),
    "gRPC": (lambda w: node("gateway_grpc.mjs", f"127.0.0.1:{HTTP}"),
             lambda r: r["unary"]["text"] == "hello" and r["upload"] == "200 4000000" and r["parallel"] == 300),
    "WebSocket": (web_socket, lambda r: r["greeting"]["host"] == "socket.example"),
})


@pytest.fixture(scope="module")
def answers(world):
    """{plane: {probe: answer}}; the planes have the ports one after the other."""
    out = {}
    for kind in ("spanwire", "envoy"):
        plane = world.plane(kind)
        until(plane.ready, 30, f"{kind} to be ready")
        out[kind] = {name: PROBES.settled(world, name) for name in PROBES}
        out[kind, "refused"] = plane.refused()
        plane.end()
    return out


@pytest.mark.parametrize("name", list(PROBES))
def test_probe(answers, name):
    ours, theirs = answers["spanwire"][name], answers["envoy"][name]
    assert PROBES.holds(name, theirs), f"Envoy: {theirs}"
    assert PROBES.holds(name, ours), f"ours: {ours}"
    assert ours == theirs


def test_nothing_is_refused(answers):
    assert answers["spanwire", "refused"] == []
    assert answers["envoy", "refused"] == []


def test_statuses(world):
    """Written by the foreign controller, through our /status."""
    def state():
        gateway = eg.status(world.control, "gateways", "edge")
        listeners = {x["name"]: x["attachedRoutes"] for x in gateway.get("listeners", [])}
        conditions = {c["type"]: c["status"] for c in gateway.get("conditions", [])}
        return conditions == {"Accepted": "True", "Programmed": "True"} and listeners.get("http", 0) > 10 and listeners.get("tcp") == 1 and listeners.get("udp") == 1
    until(state, 10, "attached routes")
    for plural, name in (("httproutes", "basic"), ("grpcroutes", "rpc"), ("tlsroutes", "passing"),
                         ("tcproutes", "bytes"), ("udproutes", "datagrams")):
        def accepted(p=plural, n=name):
            parents = eg.status(world.control, p, n).get("parents")
            return parents and {c["type"]: c["status"] for c in parents[0]["conditions"]}.get("Accepted") == "True" and parents
        assert until(accepted, 10, f"{plural}/{name}")[0]["controllerName"] == eg.CONTROLLER


def test_infrastructure(world):
    """What it applies for a Gateway: kinds of ours, and those that we only keep."""
    name, pod = world.eg.pod("edge")
    base = f"namespaces/{eg.SYSTEM}"
    for path in (f"api/v1/{base}/services/{name}", f"api/v1/{base}/configmaps/{name}",
                 f"api/v1/{base}/serviceaccounts/{name}", f"apis/apps/v1/{base}/deployments/{name}"):
        managed = until(lambda p=path: world.control.get(f"/{p}").json.get("metadata", {}).get("managedFields"), what=path)
        assert any(m["manager"] == "envoy-gateway" and m["operation"] == "Apply" for m in managed), path
    assert pod["containers"][0]["args"][:2] == ["--service-cluster", "default/edge"]


def test_changes_and_a_controller_that_goes(world):
    """New routes arrive; without its control plane the gateway goes on; a new one takes up where the old was."""
    ours = world.plane("spanwire")
    until(ours.ready, 20, "ours to be ready")
    until(lambda: PROBES.answer(world, "plain").get("status") == 200, 20, "the first request")
    eg.apply(world.control, route("late", "late.example", rule("web")))
    until(lambda: ask("late.example", "/echo")["status"] == 200, 20, "a new route")
    world.eg.signal(15)
    world.eg.wait(GUARD)
    assert ask("late.example", "/echo")["status"] == 200
    world.control.kubectl("delete", "httproute", "late")
    world.eg.start()
    until(lambda: ask("late.example", "/echo")["status"] == 404, 40, "the route to go")
    assert PROBES.answer(world, "plain")["status"] == 200
    assert ours.refused() == []
    ours.end()
