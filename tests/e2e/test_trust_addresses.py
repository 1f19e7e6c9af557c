# SPDX-License-Identifier: Apache-2.0
"""Addresses in disguise: no object of a tenant makes a role connect to loopback, to link-local addresses or to itself.

Everything here runs with the defaults as they are shipped (see conftest.py)."""
import contextlib
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import threading

import pytest
from harness import fabric as fb
from harness.control import Control, _Here
from harness.device import Device, Edge, Web, advertise
from harness.fabric import Fabric, prefix, route, thing, to
from harness.gateway import free_port
from harness.link import Names
from harness.node import Process
from harness.sidecar import Sidecar
from harness.wait import guard, until

fb._PATHS.setdefault("HTTPProxy", ("networking.datumapis.com/v1alpha", "httpproxies"))
DISGUISED = ["127.1", "0x7f.1", "0177.0.0.1", "0.0", "2130706433", "0x7f000001", "127.0.0.1.", "127.1.", "0",
             "169.254.43518", "0xa9fea9fe"]
LITERAL = ["127.0.0.1", "127.8.9.1", "0.0.0.0", "0.1.2.3", "169.254.169.254", "224.0.0.1", "255.255.255.255", "[::1]", "[::]",
           "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::1]", "[fe80::1]",
           "[fd00:ec2::254]", "localhost", "x.localhost"]
METADATA = "169.254.169.254"
NODE = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


@contextlib.contextmanager
def names(tmp, **known):
    """More names that the system's resolver knows."""
    extra = tmp / "hosts"
    extra.write_text(pathlib.Path("/etc/hosts").read_text(encoding="utf-8") + "".join(
        f"{address} {name}\n" for name, address in known.items()), encoding="utf-8")
    subprocess.run(["mount", "--bind", str(extra), "/etc/hosts"], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "/etc/hosts"], check=True)


@contextlib.contextmanager
def metadata_service():
    """A server at the address where clouds keep credentials; counts who came."""
    seen = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"secret")

        def log_message(self, *args):
            pass

    subprocess.run(["ip", "addr", "add", METADATA + "/32", "dev", "lo"], check=True)
    server = http.server.ThreadingHTTPServer((METADATA, 80), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield seen
    finally:
        server.shutdown()
        server.server_close()
        subprocess.run(["ip", "addr", "del", METADATA + "/32", "dev", "lo"], check=True)


class World:
    """A fabric whose API lets everything pass that it can: what is left is the data plane's own judgement."""

    def __init__(self, binary, tmp, *flags):
        self.web = Web()
        self.fabric = Fabric(binary, tmp, "--target-domain", "connect.test", *flags)
        self.port = free_port()
        self.fabric.gateway_object("edge", [("web", "HTTP", self.port)])
        self.gateway = self.fabric.start_gateway(admin_port=free_port())

    @property
    def admin(self):
        return self.gateway.admin_port

    def close(self):
        self.fabric.close()
        self.web.close()

    def ask(self, host, path="/", port=None, method="GET"):
        """Status and body; None where nobody listens yet."""
        try:
            s = socket.create_connection(("127.0.0.1", port or self.port), timeout=guard(10))
        except OSError:
            return None, ""
        with s:
            s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while piece := s.recv(65536):
                data += piece
        return int(data.split()[1]) if data else None, data.partition(b"\r\n\r\n")[2].decode(errors="replace")

    def denied(self):
        return self.gateway.metrics().sum("spanwire_upstream_denied_total")

    def condition(self, kind, name, type_):
        at = self.fabric.get(kind, name).get("status", {}).get("conditions", [])
        return next((c for c in at if c["type"] == type_), {})

    def refused_proxy(self, name, endpoint):
        """An HTTPProxy with that endpoint: its message once it was refused."""
        self.fabric.apply(thing("HTTPProxy", name, {"hostnames": [f"{name}.connect.test"], "rules": [
            {"backends": [{"endpoint": endpoint}]}]}))
        until(lambda: self.condition("HTTPProxy", name, "Accepted").get("status") == "False", 10,
              f"{endpoint} to be refused: {self.fabric.get('HTTPProxy', name).get('status')}")
        return self.condition("HTTPProxy", name, "Accepted")["message"]

    def never(self, host, paths=(("GET", "/config_dump"), ("GET", "/"), ("POST", "/quitquitquit"))):
        """The gateway answers for that host, by itself, and goes on."""
        until(lambda: self.ask(host)[0] in (500, 503), 10)
        for method, path in paths:
            status, body = self.ask(host, path, method=method)
            assert status in (500, 503), (method, path, status, body[:200])
            assert "listeners" not in body and "secret" not in body and "shutdown" not in body, body[:200]
        assert self.gateway.alive


@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("world"))
    yield w
    w.close()


# ---- HTTPProxies ----

@pytest.mark.tsan
def test_disguised_hosts_of_httpproxies_are_refused(world):
    for i, host in enumerate(DISGUISED):
        text = world.refused_proxy(f"disguise-{i}", f"http://{host}:{world.admin}")
        assert host in text and ("disguise" in text or "valid host" in text or "fully qualified" in text), text


def test_special_addresses_of_httpproxies_are_refused(world):
    for i, host in enumerate(LITERAL):
        text = world.refused_proxy(f"literal-{i}", f"http://{host}:{world.admin}")
        assert host in text and ("must not be" in text or "only with a connector" in text), text


def test_a_name_that_resolves_to_loopback_reaches_nothing(world, tmp_path):
    with names(tmp_path, **{"rebind.attack.test": "127.0.0.1", "rebind6.attack.test": "::1",
                            "meta.attack.test": METADATA}), metadata_service() as seen:
        for name, port in (("rebind", world.admin), ("rebind6", world.admin), ("meta", 80)):
            world.fabric.apply(thing("HTTPProxy", name, {"hostnames": [f"{name}.connect.test"], "rules": [
                {"backends": [{"endpoint": f"http://{name}.attack.test:{port}"}]}]}))
            until(lambda n=name: world.condition("HTTPProxy", n, "Programmed").get("status") == "True", 15,
                  f"{name} to be programmed")
            before = world.denied()
            until(lambda n=name: world.ask(f"{n}.connect.test", port=80)[0] == 503, 15,
                  lambda n=name: world.ask(f"{n}.connect.test", port=80))
            for method, path in (("GET", "/config_dump"), ("POST", "/quitquitquit"), ("GET", "/latest/meta-data/")):
                status, body = world.ask(f"{name}.connect.test", path, port=80, method=method)
                assert status == 503 and "secret" not in body, (status, body[:200])
            assert world.gateway.alive
            until(lambda b=before: world.denied() > b, what="the denial to be counted")
        assert not seen
    until(lambda: f"connection to 127.0.0.1:{world.admin} denied: loopback address" in world.gateway.log(),
          what="a line that says why")


# ---- Endpoints and EndpointSlices ----

def test_endpoints_at_loopback_are_not_dialled(world):
    """Accepted by an API with --loopback-endpoints; the gateway does not care."""
    f = world.fabric
    f.service("admin", [world.admin])
    f.service("web", [world.web.port])
    f.apply(route("admin", "edge", [prefix("/", to("admin"))], hosts=["admin.test"]),
            route("web", "edge", [prefix("/", to("web"))], hosts=["web.test"]))
    world.never("admin.test")
    world.never("web.test", paths=[("GET", "/hello")])


def test_an_address_of_a_local_route_is_the_machines_own(world):
    """No interface has it, the kernel delivers it here all the same; also when the route comes later."""
    inside = "10.209.3.4"
    f = world.fabric
    f.service("routed", [(inside, world.admin)])
    f.apply(route("routed", "edge", [prefix("/", to("routed"))], hosts=["routed.test"]))
    until(lambda: world.ask("routed.test")[0] == 503, 10)  # there is no way there yet
    subprocess.run(["ip", "route", "add", "local", "10.209.0.0/16", "dev", "lo"], check=True)
    try:
        server = socket.create_server((inside, world.admin))
        server.settimeout(0.2)
        until(lambda: world.ask("routed.test")[0] == 503
              and f"connection to {inside}:{world.admin} denied: own address" in world.gateway.log(), 15, "the denial")
        with contextlib.suppress(TimeoutError):
            while True:  # who came before the kernel told
                server.accept()[0].close()
        for _ in range(3):
            assert world.ask("routed.test")[0] == 503
        with pytest.raises(TimeoutError):
            server.accept()
        server.close()
    finally:
        subprocess.run(["ip", "route", "del", "local", "10.209.0.0/16", "dev", "lo"], check=True)


def test_an_address_that_is_dropped_is_named(world):
    """Addresses that the API accepts and that are no backends: which, and why."""
    f = world.fabric
    f.service("odd", [("239.1.2.3", 80), ("168.63.129.16", 80)])
    f.apply(route("odd", "edge", [prefix("/", to("odd"))], hosts=["odd.test"]))
    until(lambda: world.ask("odd.test")[0] in (500, 503), 10)
    for address, class_ in (("239.1.2.3", "multicast"), ("168.63.129.16", "metadata")):
        until(lambda a=address, c=class_: any(a in line and c in line and "endpointslice/" in line
                                              for line in f.control.log().splitlines()), 10, address)
    until(lambda: 'spanwire_gateway_refusals_total{reason="EndpointAddress"} 2' in f.control.get("/metrics").body.decode(), 10)


def test_services_of_webhooks_do_not_lead_to_loopback(binary, tmp_path):
    """Their endpoints are written by others than the webhook's configuration."""
    control = Control(binary, tmp_path, "--gateway=false", "--loopback-endpoints")
    server = socket.create_server(("127.0.0.1", 0))
    server.settimeout(0.5)
    try:
        assert control.post("/api/v1/namespaces/default/services", {
            "metadata": {"name": "hook"}, "spec": {"ports": [{"name": "tls", "port": 443}]}}).status == 201
        assert control.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
            "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}}, "addressType": "IPv4",
            "ports": [{"name": "tls", "port": server.getsockname()[1]}],
            "endpoints": [{"addresses": ["127.0.0.1"]}]}).status == 201
        assert control.post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {
            "metadata": {"name": "hook"}, "webhooks": [{
                "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
                "clientConfig": {"service": {"name": "hook", "namespace": "default"}},
                "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]}],
        }).status == 201
        told = control.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "x"}})
        assert told.status == 500 and "denied: loopback address" in told.message, told
        with pytest.raises(TimeoutError):
            server.accept()
    finally:
        server.close()
        control.close()


def test_the_api_refuses_special_addresses_in_endpoints(binary, tmp_path):
    """Without --loopback-endpoints, as Kubernetes does, and in forms that it does not see."""
    control = Control(binary, tmp_path)
    try:
        for i, (address, word) in enumerate((
                ("127.0.0.1", "loopback"), ("127.1.2.3", "loopback"), ("169.254.169.254", "link-local"), ("0.0.0.0", "unspecified"),
                ("0.1.2.3", "unspecified"), ("::1", "loopback"), ("fe80::1", "link-local"), ("::127.0.0.1", "loopback"),
                ("64:ff9b::169.254.169.254", "link-local"), ("2002:7f00:1::1", "loopback"))):
            six = ":" in address
            answer = control.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": f"bad-{i}"},
                "addressType": "IPv6" if six else "IPv4", "endpoints": [{"addresses": [address]}],
                "ports": [{"port": 80}]})
            assert answer.status == 422 and word in answer.message, (address, answer)
            answer = control.post("/api/v1/namespaces/default/endpoints", {
                "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": f"bad-{i}"},
                "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]})
            assert answer.status == 422 and word in answer.message, (address, answer)
        for i, host in enumerate(("127.1", "0x7f.1", "169.254.43518", "a.0177")):
            answer = control.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", {
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": f"name-{i}"},
                "addressType": "FQDN", "endpoints": [{"addresses": [host]}], "ports": [{"port": 80}]})
            assert answer.status == 422 and "disguise" in answer.message, (host, answer)
            answer = control.post("/api/v1/namespaces/default/services", {
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": f"name-{i}"},
                "spec": {"type": "ExternalName", "externalName": host}})
            assert answer.status == 422 and "disguise" in answer.message, (host, answer)
            answer = control.post("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", {
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
                "metadata": {"name": f"name-{i}"}, "webhooks": [{
                    "name": "a.b.c", "clientConfig": {"url": f"https://{host}/x"}, "sideEffects": "None",
                    "admissionReviewVersions": ["v1"]}]})
            assert answer.status == 422 and "disguise" in answer.message, (host, answer)
    finally:
        control.close()


def test_edit_does_not_write_endpoints(binary, tmp_path):
    """As upstream since CVE-2021-25740."""
    control = Control(binary, tmp_path)
    try:
        for role in ("edit", "admin"):
            rules = control.get(f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}").json["rules"]
            for rule in rules:
                if {"endpoints", "endpointslices", "*"} & set(rule.get("resources", [])):
                    assert set(rule["verbs"]) <= {"get", "list", "watch"}, (role, rule)
    finally:
        control.close()


# ---- other ways to name a backend ----

def test_ingresses_mirrors_and_authorisation_do_not_reach_loopback(world):
    f, web = world.fabric, world.web
    f.service("inside", [world.admin])
    f.service("mirrored", [web.port])
    f.apply(thing("IngressClass", "spanwire", {"controller": "spanwire.dev/ingress"}),
            thing("Ingress", "inside", {"ingressClassName": "spanwire", "rules": [{"host": "ingress.test", "http": {"paths": [
                {"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "inside", "port": {"number": 80}}}}]}}]}))
    until(lambda: world.ask("ingress.test", port=80)[0] in (500, 503), 15)
    assert world.ask("ingress.test", "/quitquitquit", port=80, method="POST")[0] in (500, 503)
    f.apply(route("mirror", "edge", [prefix("/", to("inside"), filters=[{"type": "RequestMirror", "requestMirror": {
        "backendRef": to("mirrored")}}])], hosts=["mirror.test"]))
    f.apply(route("authz", "edge", [prefix("/", to("mirrored"), filters=[{"type": "ExternalAuth", "externalAuth": {
        "protocol": "HTTP", "http": {}, "backendRef": to("inside")}}])], hosts=["authz.test"]))
    world.never("mirror.test")
    until(lambda: world.ask("authz.test")[0] in (403, 500, 503), 10)
    assert world.ask("authz.test", "/quitquitquit", method="POST")[0] in (403, 500, 503)
    assert world.gateway.alive


def test_an_externalname_is_no_backend(world):
    f = world.fabric
    f.apply(thing("Service", "outside", {"type": "ExternalName", "externalName": "localhost", "ports": [
        {"name": "main", "port": world.admin}]}),
        route("outside", "edge", [prefix("/", to("outside", world.admin))], hosts=["outside.test"]))
    until(lambda: world.ask("outside.test")[0] == 500, 10)


def test_udp_and_tcp_routes_do_not_reach_loopback(binary, tmp_path):
    w = World(binary, tmp_path)
    try:
        tcp, udp, inside = free_port(), free_port(), free_port()
        got = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        got.bind(("127.0.0.1", inside))
        got.settimeout(0.5)
        w.fabric.gateway_object("flat", [("tcp", "TCP", tcp), ("udp", "UDP", udp)])
        w.fabric.service("tcp-in", [w.admin])
        w.fabric.service("udp-in", [inside], protocol="UDP")
        w.fabric.apply(route("tcp", "flat", [{"backendRefs": [to("tcp-in")]}], kind="TCPRoute", section="tcp"),
                       route("udp", "flat", [{"backendRefs": [to("udp-in")]}], kind="UDPRoute", section="udp"))
        w.fabric.programmed("flat")

        def refused():
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", tcp), timeout=guard(10)) as s:
                    s.sendall(b"GET /config_dump HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert s.recv(1) == b""
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"hello", ("127.0.0.1", udp))
            return w.denied() >= 4
        until(refused, 10, "connections and datagrams to be denied")
        with pytest.raises(TimeoutError):
            got.recv(10)
        got.close()
    finally:
        w.close()


def test_the_operator_may_allow_more_and_deny_more(binary, tmp_path):
    w = World(binary, tmp_path)
    try:
        w.fabric.service("web", [w.web.port])
        w.fabric.service("admin", [w.admin])
        w.fabric.apply(route("web", "edge", [prefix("/", to("web"))], hosts=["web.test"]),
                       route("admin", "edge", [prefix("/", to("admin"))], hosts=["admin.test"]))
        until(lambda: w.ask("web.test")[0] == 503, 10)
        w.gateway.stop()
        w.gateway = w.fabric.start_gateway("--upstream-allow", "127.0.0.0/8", "--upstream-deny",
                                           f"127.0.0.1:{w.admin}", admin_port=w.admin)
        until(lambda: w.ask("web.test", "/hello") == (200, "hello /hello"), 10)
        w.never("admin.test")
    finally:
        w.close()
    done = subprocess.run([binary, "gateway", "--xds-dir", str(tmp_path), "--upstream-deny", "127.1"],
                          capture_output=True, text=True, check=False, timeout=guard(20))
    assert done.returncode != 0 and "127.1" in done.stderr, done


# ---- devices ----

def connect(host, port):
    return f"CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n"


def test_a_wildcard_of_a_device_does_not_open_loopback(binary, tmp_path):
    web = Web()
    control = Control(binary, tmp_path / "control")
    flags = ("--open", "--drain-time", "100ms", "--allow", f"*:{web.port}")
    with names(tmp_path, **{"rebind.attack.test": "127.0.0.1", "owner.test": "127.0.0.1"}), Edge() as edge:
        d = Device(binary, tmp_path / "device", control.kubeconfig, *flags, "--allow", f"owner.test:{web.port}")
        try:
            until(lambda: d.addrs(), 10, "the device to have addresses")
            edge.connect(d)
            for host in ("127.1", "0x7f.1", "0177.0.0.1", "0", "2130706433", "127.1."):
                assert edge.ask(connect(host, web.port))[0] in (400, 403), host
            for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "rebind.attack.test"):
                assert edge.ask(connect(host, web.port))[0] == 403, host
            edge.tunnel("owner.test", web.port)  # named by the owner, whatever it is
            until(lambda: "connection to 127.0.0.1" in d.log() and "denied: loopback" in d.log(), what="a line")
        finally:
            d.stop()
            d.check()
        d = Device(binary, tmp_path / "open", control.kubeconfig, *flags, "--allow", f"localhost:{web.port}")
        try:
            until(lambda: d.addrs(), 10, "the device to have addresses")
            edge.connect(d)
            for host in ("127.0.0.1", "localhost", "rebind.attack.test"):
                edge.tunnel(host, web.port)
        finally:
            d.stop()
            d.check()
    done = subprocess.run([binary, "connector", "run", "--standalone", "--open", "--data", str(tmp_path / "x"), "--allow",
                           "127.1:80"], capture_output=True, text=True, check=False, timeout=guard(20))
    assert done.returncode != 0 and "127.1" in done.stderr, done
    control.close()
    web.close()


def test_an_advertisement_does_not_open_disguised_names(binary, tmp_path):
    web = Web()
    control = Control(binary, tmp_path / "control")
    with names(tmp_path, **{"rebind.attack.test": "127.0.0.1"}), Edge() as edge:
        d = Device(binary, tmp_path / "device", control.kubeconfig, "--open", "--name", "laptop")
        try:
            d.wait_live()
            advertise(control, "bad", "laptop", ("rebind.attack.test", web.port))
            until(lambda: "1 destinations allowed" in d.log(), 10, "the advertisement")
            edge.connect(d)
            assert edge.ask(connect("rebind.attack.test", web.port))[0] == 403
        finally:
            d.stop()
            d.check()
    control.close()
    web.close()


def test_a_sidecar_passes_no_disguised_name_on(binary, tmp_path):
    s = Sidecar(binary, tmp_path / "sidecar").wait_ready()
    try:
        for host in ("127.1", "0x7f.1", "0177.0.0.1", "0"):
            answer = s.tunnel(NODE, f"{host}:80")
            assert answer.status == 400, (host, answer.status)
            assert s.request(NODE, 80, host=host).status == 400
        until(lambda: "address_in_disguise" in s.log(), what="a line that says why")
    finally:
        s.close()


def test_a_sidecar_dials_no_loopback_that_a_connector_names(binary, tmp_path):
    """The addresses of a Connector are its device's word; this one is honest, and where it must not be."""
    web = Web()
    control = Control(binary, tmp_path / "control")
    d = Device(binary, tmp_path / "device", control.kubeconfig, "--open", "--name", "here", "--allow", f"127.0.0.1:{web.port}")
    made = []
    try:
        d.wait_live()

        def tunnel(where, *flags):
            s = Sidecar(binary, tmp_path / where, "--dial-timeout", "2s", *flags, kubeconfig=control.kubeconfig)
            made.append(s)
            s.wait_ready()
            until(lambda: "1 connectors known" in s.log() or s.tunnel(d.id, f"127.0.0.1:{web.port}").status == 200)
            return s, s.tunnel(d.id, f"127.0.0.1:{web.port}").status
        s, status = tunnel("shipped")
        assert status in (502, 503, 504), status
        until(lambda: "denied: loopback address" in s.log(), what="a line that says why")
        assert s.metrics().sum("spanwire_upstream_denied_total", reason="loopback") > 0
        s, status = tunnel("allowed", "--upstream-allow", "127.0.0.0/8")
        assert status == 200, s.log()[-2000:]
    finally:
        for s in made:
            s.close()
        d.stop()
        d.check()
        control.close()
        web.close()


# ---- admin ports ----

def admin(port, path, method="GET", token=None, host="localhost"):
    with socket.create_connection(("127.0.0.1", port), timeout=guard(10)) as s:
        more = f"Authorization: Bearer {token}\r\n" if token else ""
        s.sendall(f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n".encode())
        data = b""
        while piece := s.recv(65536):
            data += piece
    return int(data.split()[1])


def test_admin_ports_ask_for_the_token(binary, world):
    path = pathlib.Path(os.environ["SPANWIRE_ADMIN_TOKEN_FILE"])
    assert path.stat().st_mode & 0o777 == 0o600
    token = path.read_text(encoding="ascii").strip()
    assert admin(world.admin, "/") == 200
    for method, page in (("GET", "/config_dump"), ("GET", "/clusters"), ("GET", "/listeners"), ("POST", "/logging?level=debug"),
                         ("POST", "/quitquitquit")):
        assert admin(world.admin, page, method) == 401, page
        assert admin(world.admin, page, method, token="0" * 64) == 401, page
        assert admin(world.admin, page, method, token=token, host="evil.test") == 403, page
    assert world.gateway.alive
    for page in ("/config_dump", "/clusters", "/listeners"):
        assert admin(world.admin, page, token=token) == 200, page
    until(lambda: world.gateway.metrics().sum("spanwire_refusals_total", reason="admin_token") >= 10)
    until(lambda: "refused: no admin token" in world.gateway.log() and "wrong admin token" in world.gateway.log())


def site_of(where):
    """What a data plane of links has of its site's authority."""
    names = Names(where, "cl-ca")
    chain, key = names.leaf("cl-dataplane")
    for name, text in (("ca.pem", names.ca.read_text()), ("dataplane.pem", chain), ("dataplane.key", key)):
        (where / name).write_text(text)
    return str(where)


def agent_of(where):
    """A node agent whose API is away."""
    for d in ("run", "bin", "net.d"):
        (where / d).mkdir()
    (where / "config").write_text(json.dumps({
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}], "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}], "current-context": "x"}))
    return ["cni", "agent", "--kubeconfig", str(where / "config"), "--node-name", "n", "--zds-socket", str(where / "run/zds"),
            "--plugin-socket", str(where / "run/plugin"), "--run-dir", str(where / "run"), "--cni-bin-dir", str(where / "bin"),
            "--cni-conf-dir", str(where / "net.d"), "--host-netns", "/proc/self/ns/net", "--pages-addr", f"127.0.0.1:{free_port()}"]


@pytest.mark.parametrize("role", ["node", "relay", "sidecar", "connector", "link", "agent"])
def test_every_role_asks_for_the_token(binary, tmp_path, role):
    port = free_port()
    at = ["--admin-addr", f"127.0.0.1:{port}"]
    rest = ["--stats-addr", f"127.0.0.1:{free_port()}", "--ready-addr", f"127.0.0.1:{free_port()}"]
    argv = {"node": ["node", "--mode", "dedicated", "--workload", "a/b/c", "--enable-proxy=false", "--local-ca", str(tmp_path / "ca"),
                     *at, *rest],
            "relay": ["relay", "--open", "--listen", f"127.0.0.1:{free_port()}", *at, *rest],
            "sidecar": ["sidecar", "--listen", str(tmp_path / "s"), "--key-file", str(tmp_path / "k"), *at, *rest],
            "link": lambda: ["link", "--control", "127.0.0.1:1", "--site", site_of(tmp_path), "--listen", f"127.0.0.1:{free_port()}",
                             *at, *rest],
            "agent": lambda: [*agent_of(tmp_path), *at],
            "connector": ["connector", "run", "--standalone", "--open", "--data", str(tmp_path / "d"), *at]}[role]
    argv = argv() if callable(argv) else argv
    if role == "node":
        subprocess.run([binary, "cert", "ca", "--dir", str(tmp_path / "ca")], check=True, capture_output=True)
    p = Process(_Here(), [binary, *argv], tmp_path / "log")
    try:
        def up():
            assert p.alive, p.log()
            with contextlib.suppress(OSError):
                return admin(port, "/") == 200
        until(up, 10, "the role to answer")
        # what it gave up when it began
        status = pathlib.Path(f"/proc/{p.pid}/status").read_text(encoding="ascii")
        assert "NoNewPrivs:\t1\n" in status and "Seccomp:\t2\n" in status
        assert admin(port, "/logging?level=debug", "POST") == 401
        assert admin(port, "/quitquitquit", "POST") == 401
        token = pathlib.Path(os.environ["SPANWIRE_ADMIN_TOKEN_FILE"]).read_text(encoding="ascii").strip()
        assert admin(port, "/logging?level=debug", "POST", token=token) == 200
        assert p.alive
    finally:
        p.signal(signal.SIGTERM)
        p.wait(20)
