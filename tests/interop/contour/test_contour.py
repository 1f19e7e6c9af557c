# SPDX-License-Identifier: Apache-2.0
"""Contour, a foreign controller, on our API; its xDS served by our gateway and by a real Envoy, with the same answers."""
import http.client
import json
import os
import pathlib
import re
import socket
import ssl
import subprocess
import time

import pytest
from harness import gateway as gw
from harness.control import Control, _Here
from harness.envoy import Envoy
from harness.foreign import BACKENDS, Probes, backend_address
from harness.node import Process
from harness.wait import GUARD, until

HTTP, HTTPS = 18080, 18443  # free_port() gives out none so low
VOLATILE = {"date", "server", "x-request-id", "x-envoy-upstream-service-time", "x-forwarded-for", "content-length",
            "connection", "via", "x-envoy-external-address", "x-envoy-expected-rq-timeout-ms", "x-envoy-internal",
            "vary", "x-request-start"}


def meta(name):
    return {"name": name, "namespace": "default"}


def service(name, port):
    yield {"apiVersion": "v1", "kind": "Service", "metadata": meta(name), "spec": {"ports": [{"name": "http", "port": 80}]}}
    yield {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
           "metadata": {**meta(f"{name}-1"), "labels": {"kubernetes.io/service-name": name}},
           "ports": [{"name": "http", "port": port, "protocol": "TCP"}],
           "endpoints": [{"addresses": [BACKENDS], "conditions": {"ready": True}}]}


def proxy(name, *routes, **host):
    return {"apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy", "metadata": meta(name), "spec": {
        "virtualhost": {"fqdn": f"{name}.example", **host}, **({"routes": list(routes)} if routes else {})}}


def to(*services, prefix="/", **more):
    return {"conditions": [{"prefix": prefix}, *more.pop("when", [])], **more,
            "services": [s if isinstance(s, dict) else {"name": s, "port": 80} for s in services]}


def objects(w):
    yield from service("web", w.a.port)
    yield from service("other", w.b.port)
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": meta("secure"), "type": "kubernetes.io/tls",
           "stringData": {"tls.crt": pathlib.Path(w.cert).read_text(), "tls.key": pathlib.Path(w.key).read_text()}}
    yield proxy("basic", to("web"))
    yield proxy("shape", to("web", prefix="/shape", requestHeadersPolicy={
        "set": [{"name": "X-Set", "value": "two"}], "remove": ["X-Gone"]}, responseHeadersPolicy={
            "set": [{"name": "X-Told", "value": "yes"}], "remove": ["X-Origin"]}),
        to("web", prefix="/swap", pathRewritePolicy={"replacePrefix": [{"replacement": "/echo/swapped"}]}))
    yield proxy("match", to("other", when=[{"header": {"name": "x-side", "exact": "b"}}]), to("web"))
    yield proxy("weights", to({"name": "web", "port": 80, "weight": 75}, {"name": "other", "port": 80, "weight": 25}))
    yield proxy("mirror", to("web", {"name": "other", "port": 80, "mirror": True}))
    yield proxy("slow", to("web", timeoutPolicy={"response": "300ms"}))
    yield proxy("retry", to("web", retryPolicy={"count": 2, "retryOn": ["5xx"]}))
    yield proxy("cors", to("web"), corsPolicy={
        "allowOrigin": ["https://app.example"], "allowMethods": ["GET", "PUT"], "allowHeaders": ["x-a"], "maxAge": "1m",
        "allowCredentials": True})
    yield proxy("answer", {"conditions": [{"prefix": "/"}], "directResponsePolicy": {"statusCode": 418, "body": "tea"}})
    yield proxy("redirect", {"conditions": [{"prefix": "/"}], "requestRedirectPolicy": {
        "scheme": "https", "hostname": "there.example", "port": 8443, "statusCode": 301, "path": "/gone"}})
    yield proxy("hash", to("web", loadBalancerPolicy={"strategy": "RequestHash", "requestHashPolicies": [
        {"headerHashOptions": {"headerName": "X-User"}}]}))
    yield proxy("secure", to("web"), tls={"secretName": "secure"})
    yield {"apiVersion": "projectcontour.io/v1", "kind": "HTTPProxy", "metadata": meta("pass"), "spec": {
        "virtualhost": {"fqdn": "pass.example", "tls": {"passthrough": True}},
        "tcpproxy": {"services": [{"name": "sealed", "port": 80}]}}}
    yield from service("sealed", w.safe.port)
    yield {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": meta("ingress"), "spec": {"rules": [
        {"host": "ingress.example", "http": {"paths": [
            {"path": "/echo", "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
            {"path": "/b", "pathType": "Exact", "backend": {"service": {"name": "other", "port": {"number": 80}}}}]}}]}}


class TlsOrigin(gw.Origin):
    def __init__(self, cert, key):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        super().__init__()

    def _serve(self, conn):
        try:
            super()._serve(self.context.wrap_socket(conn, server_side=True))
        except OSError:
            conn.close()


class World:
    def __init__(self, binary, interop, where):
        backend_address()
        self.binary, self.interop, self.where, self.xds = binary, interop, where, gw.free_port()
        self.cert, self.key = gw.make_cert(where, "secure.example")
        self.control = Control(binary, where / "control", "--relaxed-sync", "--gateway=false")
        self.a, self.b, self.safe = gw.Origin(), gw.Origin(), TlsOrigin(self.cert, self.key)
        self.control.kubectl("apply", "--server-side", "-f", str(interop / "crds.yaml"))
        self.control.kubectl("create", "namespace", "projectcontour")
        (where / "contour.yaml").write_text("disablePermitInsecure: false\n")
        self.apply(*objects(self))
        self.start()

    def start(self):
        local, log = "127.0.0.1", self.where / "contour.log"
        mark = log.stat().st_size if log.exists() else 0  # of the one before
        self.contour = Process(_Here(), [
            str(self.interop / "contour"), "serve", "--kubeconfig", str(self.control.kubeconfig), "--xds-address", local,
            "--xds-port", str(self.xds), "--insecure", "--config-path", str(self.where / "contour.yaml"), "--http-address",
            local, "--http-port", str(gw.free_port()), "--envoy-service-http-port", str(HTTP),
            "--envoy-service-https-port", str(HTTPS), "--envoy-service-http-address", local,
            "--envoy-service-https-address", local, "--stats-address", local, "--stats-port", str(gw.free_port())],
            log, env={"POD_NAMESPACE": "projectcontour"})
        until(lambda: b"started xDS server" in log.read_bytes()[mark:] or not self.contour.alive, 30, "Contour")
        assert self.contour.alive, self.contour.log()[-3000:]

    def apply(self, *what):
        self.control.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-",
                             stdin="\n---\n".join(json.dumps(o) for o in what))

    def plane(self, kind):
        return Ours(self) if kind == "spanwire" else Theirs(self)

    def close(self):
        self.contour.signal(15)
        self.contour.wait(GUARD)
        self.control.close()


class Ours(Process):
    def __init__(self, w):
        ports = [f"127.0.0.1:{gw.free_port()}" for _ in range(3)]
        super().__init__(_Here(), [
            w.binary, "gateway", "--xds-addr", f"127.0.0.1:{w.xds}", "--workers", "2", "--admin-addr", ports[0],
            "--stats-addr", ports[1], "--ready-addr", ports[2], "--drain-time", "2s", "--log-level", "debug"],
            w.where / f"gateway-{time.monotonic_ns()}.log")

    def refused(self):
        return [x for x in self.log().splitlines() if "' refused: " in x or "response for type" in x]

    def end(self):
        self.signal(15)
        assert self.wait(GUARD) == 0, self.log()[-3000:]


class Theirs(Envoy):
    def __init__(self, w):
        """With the bootstrap that Contour writes."""
        subprocess.run([str(w.interop / "contour"), "bootstrap", str(w.where / "boot.json"), "--xds-address", "127.0.0.1",
                        "--xds-port", str(w.xds)], check=True, capture_output=True)
        config, admin = json.loads((w.where / "boot.json").read_text()), gw.free_port()
        config["admin"] = {"address": {"socket_address": {"address": "127.0.0.1", "port_value": admin}}}
        super().__init__(os.path.join(os.environ["INTEROP_TOP"], "envoy/envoy"), w.where / "envoy", json.dumps(config),
                         admin, "--service-cluster", "c", "--service-node", "n")

    def refused(self):
        return list(self.rejected())

    def end(self):
        self.stop()


@pytest.fixture(scope="module")
def world(binary, interop_dir, tmp_path_factory):
    w = World(binary, interop_dir, tmp_path_factory.mktemp("contour"))
    yield w
    w.close()


def ask(host, path="/echo", method="GET", headers=None, context=None, name=None):
    port = HTTPS if context else HTTP
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD)
    try:
        if context:
            c.sock = context.wrap_socket(socket.create_connection(("127.0.0.1", port), GUARD), server_hostname=name or host)
        c.request(method, path, headers={"Host": host, **(headers or {})})
        r = c.getresponse()
        text = r.read()
        out = {"status": r.status, "headers": {k.lower(): v for k, v in r.getheaders() if k.lower() not in VOLATILE}}
        if r.status >= 400:
            for name in ("content-type", "cache-control"):  # of our page for people
                out["headers"].pop(name, None)
        try:
            seen = json.loads(text)
            out["seen"] = {**seen, "headers": {k: v for k, v in seen["headers"].items() if k not in VOLATILE}}
        except ValueError:
            out["text"] = text.decode("latin-1")[:100] if r.status in (200, 418) else ""
        return out
    finally:
        c.close()


def counted(origin, fn):
    before = origin.requests
    out = fn()
    until(lambda: origin.requests > before, what="a request")  # a mirrored one may come behind the answer
    time.sleep(0.2)  # for one too many
    return {**out, "requests": origin.requests - before}


def spread(w, n=400):
    before = w.a.requests
    codes = {ask("weights.example")["status"] for _ in range(n)}
    return {"codes": sorted(codes), "three quarters": 0.65 < (w.a.requests - before) / n < 0.85}


def same_user(w):
    before = w.a.requests, w.b.requests
    for _ in range(10):
        ask("hash.example", headers={"X-User": "u"})
    return {"moved": sorted((w.a.requests - before[0], w.b.requests - before[1]))}


def trusting(w):
    context = ssl.create_default_context(cafile=w.cert)
    context.check_hostname = False
    return context


PROBES = Probes({
    "plain": (lambda w: ask("basic.example", "/echo/a?b=c"), lambda r: r["seen"]["target"] == "/echo/a?b=c"),
    "unknown host": (lambda w: ask("nobody.example"), lambda r: r["status"] == 404),
    "headers": (lambda w: ask("shape.example", "/shape", headers={"X-Gone": "1"}),
                lambda r: r["seen"]["headers"]["x-set"] == "two" and "x-gone" not in r["seen"]["headers"] and
                r["headers"]["x-told"] == "yes"),
    "rewrite": (lambda w: ask("shape.example", "/swap/in"), lambda r: r["seen"]["target"] == "/echo/swapped/in"),
    "match by header": (lambda w: counted(w.b, lambda: ask("match.example", headers={"X-Side": "b"})),
                        lambda r: r["requests"] == 1),
    "weights": (spread, lambda r: r == {"codes": [200], "three quarters": True}),
    "mirror": (lambda w: counted(w.b, lambda: ask("mirror.example")), lambda r: r["requests"] == 1),
    "timeout": (lambda w: ask("slow.example", "/slow/10000"), lambda r: r["status"] == 504),
    "retries": (lambda w: counted(w.a, lambda: ask("retry.example", "/status/503")),
                lambda r: r["status"] == 503 and r["requests"] == 3),
    "preflight": (lambda w: ask("cors.example", "/echo", "OPTIONS", {
        "Origin": "https://app.example", "Access-Control-Request-Method": "PUT"}),
        lambda r: r["headers"]["access-control-allow-origin"] == "https://app.example"),
    "direct answer": (lambda w: ask("answer.example"), lambda r: r["status"] == 418 and r["text"] == "tea"),
    "redirect": (lambda w: ask("redirect.example"),
                 lambda r: r["headers"]["location"] == "https://there.example:8443/gone"),
    "consistent hash": (same_user, lambda r: r["moved"] == [0, 10]),
    "TLS": (lambda w: ask("secure.example", context=trusting(w)), lambda r: r["status"] == 200),
    "misdirected": (lambda w: ask("basic.example", context=trusting(w), name="secure.example"),
                    lambda r: r["status"] == 421),
    "HTTP to HTTPS": (lambda w: ask("secure.example"), lambda r: r["status"] == 301),
    "TLS passthrough": (lambda w: ask("pass.example", context=trusting(w)), lambda r: r["status"] == 200),
    "Ingress": (lambda w: ask("ingress.example", "/echo/x"), lambda r: r["status"] == 200),
    "Ingress, exact": (lambda w: counted(w.b, lambda: ask("ingress.example", "/b")), lambda r: r["requests"] == 1),
    "Ingress, elsewhere": (lambda w: ask("ingress.example", "/x"), lambda r: r["status"] == 404),
})


def serves(w, name):
    return PROBES.holds(name, PROBES.answer(w, name))


@pytest.fixture(scope="module")
def answers(world):
    out = {}
    for kind in ("spanwire", "envoy"):
        plane = world.plane(kind)
        until(lambda p=plane: not p.alive or (PROBES.answer(world, "plain").get("status") == 200 and
                                              PROBES.answer(world, "TLS").get("status") == 200), 30, f"{kind} to serve",
              interval=0.2)
        assert plane.alive, plane.log()[-3000:]
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


def test_the_start_of_a_request_has_milliseconds(world):
    ours = world.plane("spanwire")
    until(lambda: serves(world, "plain"), 20, "the first request", interval=0.1)
    ask("basic.example")
    assert re.search(rb"(?i)x-request-start: t=\d{10}\.\d{3}\r\n", world.a.heads[-1]), world.a.heads[-1]
    ours.end()


def test_nothing_is_refused(answers):
    assert answers["spanwire", "refused"] == []
    assert answers["envoy", "refused"] == []


def test_statuses(world):
    def valid():
        got = world.control.get("/apis/projectcontour.io/v1/namespaces/default/httpproxies").json["items"]
        return all(p.get("status", {}).get("currentStatus") == "valid" for p in got) and len(got) > 10
    until(valid, 10, "valid HTTPProxies")


def test_changes_and_a_controller_that_goes(world):
    ours = world.plane("spanwire")
    until(lambda: serves(world, "plain"), 20, "the first request", interval=0.1)
    world.apply(proxy("late", to("web")))
    until(lambda: ask("late.example")["status"] == 200, 20, "a new route", interval=0.1)
    world.contour.kill()
    assert ask("late.example")["status"] == 200
    world.control.kubectl("delete", "httpproxies.projectcontour.io", "late")
    world.start()
    until(lambda: ask("late.example")["status"] == 404, 40, "the route to go", interval=0.1)
    assert serves(world, "plain") and ours.refused() == []
    ours.end()
