# SPDX-License-Identifier: Apache-2.0
"""Connectors, their Leases and HTTPProxies: objects in, conditions and traffic out."""
import base64
import datetime
import hashlib
import http.client
import json
import pathlib
import re
import socket
import ssl
import subprocess
import threading
import time

import pytest
import yaml
from harness import fabric as fb
from harness import gateway as gw
from harness.keys import PROOF, Key
from harness.serve import Each, Server
from harness.wait import guard, until

KEYS = {k.id: k for k in map(Key, (1, 2, 3))}
ID, OTHER, THIRD = KEYS
LEASE = 6  # seconds: a device that renews is taken for dead when it, or we, stood still for as long


class ConnectProxy(Server):
    """Stands for the sidecar: takes CONNECT, notes whom it was for, and joins it to an origin."""

    def __init__(self, origin):
        self.origin = origin
        self.by_id = {}  # origins of single connectors
        self.seen = []
        super().__init__()

    @staticmethod
    def _copy(a, b):
        try:
            while (data := a.recv(65536)):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def _serve(self, conn):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = conn.recv(65536)
            if not piece:
                return
            head += piece
        head, _, rest = head.partition(b"\r\n\r\n")
        line, *fields = head.decode().split("\r\n")
        headers = {k.lower(): v.strip() for k, v in (f.split(":", 1) for f in fields)}
        method, target, _ = line.split()
        node = headers.get("x-iroh-endpoint-id")
        self.seen.append((method, target, node))
        try:
            up = socket.create_connection(("127.0.0.1", self.by_id.get(node, self.origin)), timeout=guard(10))
        except OSError:
            conn.sendall(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            conn.close()
            return
        conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        if rest:
            up.sendall(rest)
        threading.Thread(target=self._copy, args=(up, conn), daemon=True).start()
        self._copy(conn, up)


def key_of(name):
    """Every device has a key of its own; the laptop's is ID."""
    if name == "laptop":
        return ID
    key = Key(hashlib.sha256(name.encode()).digest())
    KEYS[key.id] = key
    return key.id


def now():
    t = datetime.datetime.now(datetime.timezone.utc)
    return t.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class World:
    def __init__(self, binary, tmp):
        self.tmp = tmp
        self.origin = gw.Origin()
        self.proxy = ConnectProxy(self.origin.port)
        self.fabric = fb.Fabric(binary, tmp, "--connector-lease", f"{LEASE}s", "--connect-proxy",
                                f"127.0.0.1:{self.proxy.port}", "--target-domain", "connect.test", "--certificate-domain", "example.test",
                                "--gateway-id", OTHER)
        self.gateway = self.fabric.start_gateway()
        self.kept, self.over = set(), threading.Event()
        self.keeper = threading.Thread(target=self._keep, daemon=True)
        self.keeper.start()

    def _keep(self):
        """Renews the Leases of devices that are to stay: what counts is when that was done."""
        c = None
        while not self.over.wait(0.7):
            for name in list(self.kept):
                try:
                    c = c or self.fabric.control.connection()  # of its own: it is another thread
                    c.request("PATCH", fb.path_of("Lease", name), json.dumps({"spec": {"renewTime": now()}}),
                              {"Content-Type": "application/merge-patch+json"})
                    c.getresponse().read()
                except (OSError, http.client.HTTPException):  # the API is being restarted
                    c = None

    def close(self):
        self.over.set()
        self.keeper.join()
        try:
            self.fabric.close()
        finally:
            self.proxy.close()
            self.origin.close()

    # --- objects ---
    def patch(self, kind, name, body, sub=""):
        status, data = self.fabric.send("PATCH", fb.path_of(kind, name) + sub, body,
                                        "application/merge-patch+json")
        assert status == 200, (status, data[:500])

    def connector(self, name, class_name="datum-connect"):
        self.fabric.apply(fb.thing("Connector", name, {"connectorClassName": class_name}))

    def details(self, name, node_id=None):
        """What a device says of itself; one without a key of ours cannot prove it."""
        node_id = node_id or key_of(name)
        self.patch("Connector", name, {"status": {"connectionDetails": {"type": "PublicKey", "publicKey": {
            "id": node_id, "discoveryMode": "DNS", "addresses": [{"address": "127.0.0.1", "port": 4433}]}}}},
            "/status")
        if node_id in KEYS:
            self.patch("Connector", name, {"metadata": {"annotations": {
                PROOF: KEYS[node_id].proof(self.fabric.get("Connector", name))}}})

    def renew(self, name, **spec):
        until(lambda: self.fabric.send("GET", fb.path_of("Lease", name))[0] == 200, 5, f"Lease {name}")
        self.patch("Lease", name, {"spec": {"renewTime": now(), **spec}})

    def stay(self, name):
        self.renew(name)
        self.kept.add(name)

    def leave(self, name):
        """The device gives its Lease back."""
        self.kept.discard(name)
        until(lambda: self.patch("Lease", name, {"spec": {"renewTime": None}}) or "renewTime" not in
              self.fabric.get("Lease", name)["spec"], 5)

    def proxy_object(self, name, endpoint, connector=None, hostnames=None, **rule):
        backend = {"endpoint": endpoint}
        if connector:
            backend["connector"] = {"name": connector}
        spec = {"rules": [{"backends": [backend], **rule}]}
        if hostnames:
            spec["hostnames"] = hostnames
        self.fabric.apply(fb.thing("HTTPProxy", name, spec))

    def gone(self, kind, name):
        return self.fabric.send("GET", fb.path_of(kind, name))[0] == 404

    def delete(self, kind, name):
        """Until it is gone: finalizers take a moment."""
        self.kept.discard(name)
        self.fabric.delete(kind, name)
        until(lambda: self.gone(kind, name), 5, f"{kind} {name} to go")

    def alive(self, name, node_id=None, labels=None, **spec):
        """A Connector that is online until it leaves."""
        self.fabric.apply(fb.thing("Connector", name, {"connectorClassName": "datum-connect", **spec}, metadata={
            "name": name, "labels": labels or {}}))
        self.details(name, node_id)
        self.stay(name)

    def condition(self, kind, name, type_):
        for c in self.fabric.get(kind, name).get("status", {}).get("conditions", []):
            if c["type"] == type_:
                return c["status"], c["reason"]
        return None

    def becomes(self, kind, name, type_, want, seconds=5):
        until(lambda: self.condition(kind, name, type_) == want, seconds,
              f"{kind} {name} {type_}={want}, last {self.condition(kind, name, type_)}")

    # --- traffic ---
    def ask(self, host, path="/echo", port=80, tls=None):
        s = socket.create_connection(("127.0.0.1", port), timeout=guard(10))
        if tls:
            s = tls.wrap_socket(s, server_hostname=host)
        with s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            with s.makefile("rb") as f:
                status = int(f.readline().split()[1])
                headers = {}
                while (line := f.readline().strip()):
                    k, v = line.decode().split(":", 1)
                    headers[k.lower()] = v.strip()
                return status, headers, f.read(int(headers.get("content-length", 0))).decode()

    def answer(self, host, **kw):
        """(status, headers, body), None each where nobody answers: a listener that is not there yet."""
        try:
            return self.ask(host, **kw)
        except (OSError, IndexError):
            return None, {}, None

    def code(self, host, **kw):
        return self.answer(host, **kw)[0]

    def counted(self, metric):
        """One of the control plane's counters went up; a Lease that ran out meanwhile counts a second time."""
        until(lambda: re.search(rf"^{re.escape(metric)} [1-9]", self.fabric.control.get("/metrics").body.decode(), re.M),
              what=metric)

    def serves(self, host, code, seconds=5):
        # Workers take a change one after the other: several answers in a row count.
        until(lambda: all(self.code(host) == code for _ in range(4)), seconds, f"{host} to be answered with {code}")


@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("connector"))
    yield w
    w.close()


def test_classes_and_roles_are_there(world):
    until(lambda: world.fabric.send("GET", fb.path_of("ConnectorClass", "datum-connect"))[0] == 200)
    assert world.fabric.get("ConnectorClass", "iroh-quic-tunnel")["spec"]["controllerName"] == f"{fb.DATUM}/iroh-quic-tunnel"
    rules = world.fabric.get("ClusterRole", "spanwire-connector")["rules"]
    assert not any("secrets" in r.get("resources", []) for r in rules)


def test_life_of_a_connector(world):
    """Lease, offline, online, expired, online again; and what clients see meanwhile."""
    w = world
    w.connector("laptop")
    w.proxy_object("tunnel", "http://127.0.0.1:8080", "laptop", ["app.example.test"])
    lease = until(lambda: w.fabric.send("GET", fb.path_of("Lease", "laptop"))[0] == 200
                  and w.fabric.get("Lease", "laptop"))
    assert lease["spec"]["leaseDurationSeconds"] == LEASE
    assert lease["metadata"]["ownerReferences"][0]["kind"] == "Connector"
    w.becomes("Connector", "laptop", "Accepted", ("True", "Accepted"))
    w.becomes("Connector", "laptop", "Ready", ("False", "ConnectorNotReady"))
    until(lambda: w.fabric.get("Connector", "laptop")["status"].get("leaseRef") == {"name": "laptop"})
    w.becomes("HTTPProxy", "tunnel", "Programmed", ("True", "Programmed"))

    w.serves("app.example.test", 503)
    status, headers, body = w.ask("app.example.test")
    assert status == 503 and "the device 'laptop' is offline" in body, body
    assert headers["retry-after"] == "5" and headers["x-spanwire-reason"] == "connector-offline"

    # Alive, but nobody knows its key: nothing to dial.
    w.stay("laptop")
    w.becomes("Connector", "laptop", "Ready", ("False", "KeyNotProved"))
    assert w.code("app.example.test") == 503

    w.details("laptop")
    w.serves("app.example.test", 200)
    told = json.loads(w.ask("app.example.test")[2])
    assert told["headers"]["host"] == "app.example.test"  # connectors see the public name
    assert w.proxy.seen[-1] == ("CONNECT", "127.0.0.1:8080", ID)

    # No renewal: away after the Lease's time, and no sooner.
    w.kept.discard("laptop")
    began = time.monotonic()
    w.renew("laptop")
    w.serves("app.example.test", 503, LEASE + 5)
    assert time.monotonic() - began >= LEASE - 0.1
    w.becomes("Connector", "laptop", "Ready", ("False", "ConnectorNotReady"))

    # Back, and away, again and again.
    for _ in range(2):
        w.stay("laptop")
        w.serves("app.example.test", 200)
        w.leave("laptop")
        w.serves("app.example.test", 503)


def test_https_out_of_the_box(world):
    w = world
    w.becomes("HTTPProxy", "tunnel", "CertificatesReady", ("True", "AllCertificatesReady"))
    roots = w.fabric.control.data / "connect-ca" / "root.crt"
    tls = ssl.create_default_context(cafile=str(roots))
    w.renew("laptop", leaseDurationSeconds=60)  # put right again, but not during this request
    w.renew("laptop")
    canonical = w.fabric.get("HTTPProxy", "tunnel")["status"]["canonicalHostname"]
    assert canonical.endswith(".connect.test") and canonical.count("-") == 2
    until(lambda: w.code(canonical, port=443, tls=tls) in (200, 503))
    until(lambda: w.code("app.example.test", port=443, tls=tls) in (200, 503))
    until(lambda: w.fabric.get("HTTPProxy", "tunnel")["metadata"]["annotations"].get("spanwire.dev/url") ==
          f"http://{canonical}")


def test_bad_keys_are_not_passed_on(world):
    w = world
    w.connector("liar")
    w.proxy_object("liar", "http://localhost:9", "liar", ["liar.example.test"])
    w.details("liar", "zz" * 32)
    w.stay("liar")
    w.becomes("Connector", "liar", "Ready", ("False", "InvalidConnectionDetails"))
    w.serves("liar.example.test", 503)
    w.counted('spanwire_connector_refusals_total{reason="InvalidConnectionDetails"}')
    page = w.fabric.control.get("/metrics").body.decode()
    assert "spanwire_connector_certificates_total{result=\"issued\"}" in page and "spanwire_connectors_online" in page
    until(lambda: "subject=connector/default/liar" in w.fabric.control.log())
    w.details("liar", OTHER)
    w.becomes("Connector", "liar", "Ready", ("True", "ConnectorReady"))
    # While one key holds the Lease another cannot take its place.
    w.renew("liar", holderIdentity=f"{OTHER[:10]}_1")
    w.details("liar", THIRD)
    w.becomes("Connector", "liar", "Ready", ("False", "InvalidConnectionDetails"))
    w.kept.discard("liar")


def test_unknown_class(world):
    w = world
    w.connector("lost", "no-such-class")
    w.becomes("Connector", "lost", "Accepted", ("False", "ConnectorClassNotFound"))
    w.becomes("Connector", "lost", "Ready", ("False", "ConnectorNotReady"))


def test_gateways_are_named_to_connectors(world):
    w = world
    w.connector("guarded")

    def note(name):
        return w.fabric.get("Connector", "guarded")["metadata"].get("annotations", {}).get(f"spanwire.dev/{name}")

    def ids():
        return note("gateway-ids")
    until(lambda: ids() == OTHER)
    # Only addresses that devices on other machines can send to are passed on.
    addresses = "0.0.0.0:7,127.0.0.1:7,203.0.113.9:4433,nonsense,[2001:db8::9]:4433,224.0.0.1:7,203.0.113.9:0"
    config = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"id": ID, "addresses": addresses}, "metadata": {
        "name": "gateway-x", "namespace": "spanwire-system", "labels": {"spanwire.dev/gateway-identity": "true"}}}
    w.fabric.apply(config)
    until(lambda: ids() == f"{OTHER},{ID}")
    until(lambda: note("gateway-addresses") == f"{ID}=203.0.113.9:4433,[2001:db8::9]:4433")
    # From another namespace nobody gets in.
    w.fabric.apply({**config, "data": {"id": "e5" * 32}, "metadata": {
        "name": "gateway-y", "labels": {"spanwire.dev/gateway-identity": "true"}}})
    w.fabric.send("DELETE", fb.path_of("ConfigMap", "gateway-x", "spanwire-system"))
    until(lambda: ids() == OTHER and note("gateway-addresses") is None)


def test_advertisements(world):
    w = world

    def advert(port):
        return fb.thing("ConnectorAdvertisement", "ad", {"connectorRef": {"name": "shop"}, "layer4": [
            {"name": "default", "services": [{"address": "*.shop.test", "ports": [
                {"name": "p", "port": port, "protocol": "TCP"}]}]}]})
    w.fabric.apply(advert(9000))
    w.becomes("ConnectorAdvertisement", "ad", "Accepted", ("False", "ConnectorNotFound"))
    w.connector("shop")
    w.becomes("ConnectorAdvertisement", "ad", "Accepted", ("True", "Accepted"))
    owners = w.fabric.get("ConnectorAdvertisement", "ad")["metadata"]["ownerReferences"]
    assert owners[0]["kind"] == "Connector" and owners[0]["controller"]
    w.proxy_object("shop", "http://db.shop.test:9000", "shop")
    w.becomes("HTTPProxy", "shop", "AdvertisementMatched", ("True", "Advertised"))
    w.fabric.apply(advert(9001))
    w.becomes("HTTPProxy", "shop", "AdvertisementMatched", ("False", "NotAdvertised"))
    # The advertisement goes with its Connector.
    w.fabric.delete("Connector", "shop")
    until(lambda: w.fabric.send("GET", fb.path_of("ConnectorAdvertisement", "ad"))[0] == 404)


def test_strict_classes(world):
    w = world
    w.fabric.apply(fb.thing("ConnectorClass", "strict", {"controllerName": f"{fb.DATUM}/datum-connect"}, metadata={
        "name": "strict", "annotations": {"spanwire.dev/advertisement-policy": "Strict"}}))
    w.connector("careful", "strict")
    w.details("careful")
    w.proxy_object("careful", "http://127.0.0.1:8080", "careful", ["careful.example.test"])
    w.stay("careful")
    until(lambda: w.answer("careful.example.test")[1].get("x-spanwire-reason") == "connector-not-advertised")
    w.fabric.apply(fb.thing("ConnectorAdvertisement", "careful", {"connectorRef": {"name": "careful"}, "layer4": [
        {"name": "d", "services": [{"address": "localhost", "ports": [{"name": "p", "port": 8080, "protocol": "TCP"}]}]}]}))
    w.serves("careful.example.test", 200)
    w.kept.discard("careful")


def test_names_belong_to_the_oldest(world):
    w = world
    w.proxy_object("first", "http://10.1.2.3:80", hostnames=["mine.example.test"])
    w.becomes("HTTPProxy", "first", "Programmed", ("True", "Programmed"))
    time.sleep(1.1)  # ages have seconds
    w.proxy_object("second", "http://10.1.2.4:80", hostnames=["mine.example.test", "yours.example.test"])
    w.becomes("HTTPProxy", "second", "HostnamesInUse", ("True", "HostnameInUse"))
    status = w.fabric.get("HTTPProxy", "second")["status"]
    by_name = {h["hostname"]: {c["type"]: c["reason"] for c in h["conditions"]} for h in status["hostnameStatuses"]}
    assert by_name["mine.example.test"]["Available"] == "InUse"
    assert by_name["yours.example.test"]["Available"] == "Claimed"
    assert "mine.example.test" not in status["hostnames"]
    w.fabric.delete("HTTPProxy", "first")
    until(lambda: w.condition("HTTPProxy", "second", "HostnamesInUse") is None)
    w.fabric.delete("HTTPProxy", "second")


def test_children_follow_and_go(world):
    w = world
    w.proxy_object("shape", f"http://127.0.0.1:{w.origin.port}", "laptop", filters=[
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {
            "set": [{"name": "Host", "value": "inner.test"}, {"name": "x-a", "value": "1"}]}}])
    w.becomes("HTTPProxy", "shape", "Programmed", ("True", "Programmed"))
    rule = w.fabric.get("HTTPRoute", "shape")["spec"]["rules"][0]
    assert rule["filters"] == [
        {"type": "RequestHeaderModifier", "requestHeaderModifier": {"set": [{"name": "x-a", "value": "1"}]}},
        {"type": "URLRewrite", "urlRewrite": {"hostname": "inner.test"}}]
    assert rule["backendRefs"][0]["kind"] == "EndpointSlice"
    host = w.fabric.get("HTTPProxy", "shape")["status"]["canonicalHostname"]

    def seen():
        w.renew("laptop")
        status, _, body = w.answer(host)
        return status == 200 and json.loads(body)["headers"]
    headers = until(seen)
    assert headers["host"] == "inner.test" and headers["x-a"] == "1"
    # Filters go, the backend is another kind of place: everything follows.
    w.proxy_object("shape", "http://10.9.8.7:81")
    until(lambda: "filters" not in w.fabric.get("HTTPRoute", "shape")["spec"]["rules"][0])
    until(lambda: w.fabric.send("GET", fb.path_of("EndpointSlice", "shape-0-0"))[0] == 200
          and w.fabric.get("EndpointSlice", "shape-0-0")["addressType"] == "IPv4")
    w.fabric.delete("HTTPProxy", "shape")
    for kind, name in (("Gateway", "shape"), ("HTTPRoute", "shape"), ("EndpointSlice", "shape-0-0")):
        until(lambda: w.fabric.send("GET", fb.path_of(kind, name))[0] == 404, 5, f"{kind} to go")


def test_nobody_elses_objects_are_taken(world):
    w = world
    w.fabric.gateway_object("taken", [("http", "HTTP", 8099)])
    w.proxy_object("taken", "http://10.1.2.3:80")
    w.becomes("HTTPProxy", "taken", "Programmed", ("False", "Conflict"))
    assert w.fabric.get("Gateway", "taken")["spec"]["listeners"][0]["port"] == 8099
    w.fabric.delete("HTTPProxy", "taken")
    w.fabric.delete("Gateway", "taken")


@pytest.mark.parametrize("endpoint,connector,what", [
    ("http://127.0.0.1:80", None, "loopback"),
    ("http://0.0.0.0:80", "laptop", "unspecified"),
    ("http://169.254.169.254", None, "link-local"),
    ("http://[fe80::1]:80", "laptop", "link-local"),
    ("http://bare:80", "laptop", "fully qualified"),
    ("https://10.0.0.1", None, "tls.hostname"),
])
def test_invalid_endpoints_are_explained(world, endpoint, connector, what):
    w = world
    w.proxy_object("wrong", endpoint, connector)
    try:
        w.becomes("HTTPProxy", "wrong", "Accepted", ("False", "Invalid"))
        said = [c["message"] for c in w.fabric.get("HTTPProxy", "wrong")["status"]["conditions"]
                if c["type"] == "Accepted"][0]
        assert what in said and said.startswith("spec.rules[0].backends[0].")
    finally:
        w.delete("HTTPProxy", "wrong")


def test_several_connectors_for_one_backend(world):
    """The oldest that is ready serves, or all in turn; and the condition says that there was a choice."""
    w = world
    keys = {n: key_of(n) for n in ("older", "newer")}
    origins = {k: gw.Origin() for k in keys.values()}  # told apart by who is asked: tunnels are kept
    w.proxy.by_id = {k: o.port for k, o in origins.items()}
    w.alive("older", labels={"site": "home"})
    time.sleep(1.1)  # ages have seconds
    w.alive("newer", labels={"site": "home"})

    def proxy(**notes):
        w.fabric.apply(fb.thing("HTTPProxy", "several", {"hostnames": ["several.example.test"], "rules": [{"backends": [
            {"endpoint": "http://127.0.0.1:8080", "connector": {"name": "newer"}}]}]}, metadata={
                "name": "several", "annotations": {f"spanwire.dev/{k.replace('_', '-')}": v for k, v in notes.items()}}))

    def seen():
        before = {k: o.requests for k, o in origins.items()}
        codes = {w.code("several.example.test") for _ in range(12)}
        return codes == {200} and {k for k, o in origins.items() if o.requests > before[k]}
    proxy(connector_selector="site=home")
    try:
        w.becomes("HTTPProxy", "several", "ConnectorSelection", ("False", "Ambiguous"))
        said = [c["message"] for c in w.fabric.get("HTTPProxy", "several")["status"]["conditions"]
                if c["type"] == "ConnectorSelection"][0]
        assert "'older', 'newer'" in said
        until(lambda: seen() == {keys["older"]}, LEASE + 10)
        # Away: the next one takes over, and gives back.
        w.leave("older")
        until(lambda: seen() == {keys["newer"]}, LEASE + 10)
        w.stay("older")
        until(lambda: seen() == {keys["older"]}, LEASE + 10)
        proxy(connector_selector="site=home", connector_policy="RoundRobin")
        w.becomes("HTTPProxy", "several", "ConnectorSelection", ("True", "RoundRobin"))
        until(lambda: seen() == set(keys.values()), LEASE + 10)
        w.leave("newer")
        until(lambda: seen() == {keys["older"]}, LEASE + 10)
        # One key in two Connectors: the device is where it signed last.
        w.stay("newer")
        proxy()
        until(lambda: w.condition("HTTPProxy", "several", "ConnectorSelection") is None)
        w.details("older", keys["newer"])
        w.becomes("Connector", "newer", "KeyProved", ("False", "ProvedElsewhere"))
        w.becomes("Connector", "newer", "Ready", ("False", "KeyNotProved"))
        w.serves("several.example.test", 503)
        w.details("newer")
        w.becomes("Connector", "older", "KeyProved", ("False", "ProvedElsewhere"))
        w.serves("several.example.test", 200)
    finally:
        w.proxy.by_id = {}
        for kind, name in (("HTTPProxy", "several"), ("Connector", "older"), ("Connector", "newer")):
            w.delete(kind, name)
        for o in origins.values():
            o.close()


def test_capabilities(world):
    """What a connector cannot do is not asked of it, and the condition says why."""
    w = world

    def capability(type_, status):
        w.patch("Connector", "able", {"status": {"capabilities": [{"type": type_, "conditions": [
            {"type": "Ready", "status": status, "reason": "Said", "message": "", "lastTransitionTime": now()}]}]}}, "/status")

    def spec(**tcp):
        w.patch("Connector", "able", {"spec": {"capabilities": [{"type": "ConnectTCP", "connectTCP": tcp}]}})
    w.alive("able")
    w.proxy_object("able", "http://127.0.0.1:8080", "able", ["able.example.test"])
    try:
        w.becomes("HTTPProxy", "able", "Programmed", ("True", "Programmed"))
        w.serves("able.example.test", 200)
        spec()
        until(lambda: w.fabric.get("Connector", "able")["spec"]["capabilities"][0]["connectTCP"] == {"disabled": False})
        spec(disabled=True)
        w.becomes("HTTPProxy", "able", "Programmed", ("False", "CapabilityDisabled"))
        w.serves("able.example.test", 503)
        until(lambda: w.answer("able.example.test")[1].get("x-spanwire-reason") == "connector-no-capability")
        spec(disabled=False)
        w.serves("able.example.test", 200)
        capability("ConnectTCP", "False")
        w.becomes("HTTPProxy", "able", "Programmed", ("False", "CapabilityNotReady"))
        w.serves("able.example.test", 503)
        capability("ConnectUDP", "True")
        w.becomes("HTTPProxy", "able", "Programmed", ("False", "CapabilityMissing"))
        capability("ConnectTCP", "True")
        w.serves("able.example.test", 200)
        w.becomes("HTTPProxy", "able", "Programmed", ("True", "Programmed"))
        w.counted('spanwire_connector_refusals_total{reason="CapabilityDisabled"}')
    finally:
        w.delete("HTTPProxy", "able")
        w.delete("Connector", "able")


def test_names_and_records(world):
    """Names come from the Gateway and stay when it does not; records of names are not ours."""
    w = world
    w.proxy_object("named", "http://10.1.2.3:80", hostnames=["named.example.test"])
    w.becomes("HTTPProxy", "named", "Programmed", ("True", "Programmed"))
    w.becomes("HTTPProxy", "named", "DNSRecordsProgrammed", ("True", "AllApplicableRecordsCreated"))
    status = w.fabric.get("HTTPProxy", "named")["status"]
    for host in status["hostnameStatuses"]:
        assert {c["type"]: c["reason"] for c in host["conditions"]}["DNSRecordProgrammed"] == "NotApplicable"
    first = w.fabric.get("Gateway", "named")
    assert {x["hostname"] for x in first["spec"]["listeners"]} == {"named.example.test", status["canonicalHostname"]}
    w.fabric.delete("Gateway", "named")

    def again():
        code, body = w.fabric.send("GET", fb.path_of("Gateway", "named"))
        gateway = json.loads(body) if code == 200 else first
        return gateway["metadata"]["uid"] != first["metadata"]["uid"] and {
            x["hostname"] for x in gateway["spec"]["listeners"]} == {"named.example.test", status["canonicalHostname"]}
    until(again)
    w.delete("HTTPProxy", "named")


def test_a_certificate_that_cannot_be_had(world):
    """Somebody's Secret is in the way: it stays as it is, and the conditions tell."""
    w = world
    w.proxy_object("blocked", "http://10.1.2.3:80", hostnames=["blocked.example.test"])
    w.becomes("HTTPProxy", "blocked", "CertificatesReady", ("True", "AllCertificatesReady"))
    secret = [x["tls"]["certificateRefs"][0]["name"] for x in w.fabric.get("Gateway", "blocked")["spec"]["listeners"]
              if x["name"] == "https-hostname-0"][0]
    w.delete("HTTPProxy", "blocked")
    until(lambda: w.gone("Secret", secret))
    w.fabric.secret(secret, *fb.make_cert(w.tmp, "theirs.test"))
    w.proxy_object("blocked", "http://10.1.2.3:80", hostnames=["blocked.example.test"])
    w.becomes("HTTPProxy", "blocked", "CertificatesReady", ("False", "CertificatesFailed"))
    hosts = {h["hostname"]: {c["type"]: c["reason"] for c in h["conditions"]}
             for h in w.fabric.get("HTTPProxy", "blocked")["status"]["hostnameStatuses"]}
    assert hosts["blocked.example.test"]["CertificateReady"] == "ProvisioningFailed"
    w.fabric.delete("Secret", secret)
    w.becomes("HTTPProxy", "blocked", "CertificatesReady", ("True", "AllCertificatesReady"), 10)
    w.delete("HTTPProxy", "blocked")


def test_the_end_of_a_proxy(world):
    """Everything that was made for it goes first, also when the controller was not there meanwhile."""
    w = world
    w.proxy_object("ending", "http://127.0.0.1:8080", "laptop", ["ending.example.test"])
    w.becomes("HTTPProxy", "ending", "Programmed", ("True", "Programmed"))
    until(lambda: w.fabric.get("HTTPProxy", "ending")["metadata"].get("finalizers") == [f"{fb.DATUM}/httpproxy-cleanup"])
    # Deleted while nobody looks: half of the work is there when the controller comes back.
    w.fabric.delete("HTTPProxy", "ending")
    w.fabric.control.restart()
    w.fabric._c = None
    children = (("Gateway", "ending"), ("HTTPRoute", "ending"), ("EndpointSlice", "ending-0-0"))
    until(lambda: w.gone("HTTPProxy", "ending") and all(w.gone(*c) for c in children), 10, "all of it to go")
    assert not [s for s in json.loads(w.fabric.send("GET", fb.path_of("Secret"))[1])["items"]
                if s["metadata"].get("labels", {}).get("spanwire.dev/httpproxy") == "ending"]


def test_routes_to_connectors(world):
    """A Connector as the backend of a route: the port's advertised address, or the device itself."""
    w = world
    port, tcp = gw.free_port(), gw.free_port()
    w.fabric.gateway_object("direct", [("http", "HTTP", port), ("tcp", "TCP", tcp)])
    ref = {"group": fb.DATUM, "kind": "Connector", "name": "laptop", "port": 8181}
    w.fabric.apply(fb.route("direct", "direct", [fb.prefix("/", ref)], section="http"),
                   fb.route("direct-tcp", "direct", [{"backendRefs": [{**ref, "port": 5432}]}], kind="TCPRoute",
                            section="tcp"))

    def good(p):
        w.renew("laptop")
        return w.code("any.test", port=p) == 200
    until(lambda: good(port))
    assert w.proxy.seen[-1] == ("CONNECT", "127.0.0.1:8181", ID)
    until(lambda: good(tcp))
    assert w.proxy.seen[-1] == ("CONNECT", "127.0.0.1:5432", ID)
    w.fabric.apply(fb.thing("ConnectorAdvertisement", "db", {"connectorRef": {"name": "laptop"}, "layer4": [
        {"name": "d", "services": [{"address": "db.lan.test", "ports": [{"name": "p", "port": 5432, "protocol": "TCP"}]}]}]}))

    def moved():
        return good(tcp) and w.proxy.seen[-1][1] == "db.lan.test:5432"
    until(moved)
    w.fabric.delete("ConnectorAdvertisement", "db")


def test_ipv6_targets_have_brackets(world):
    w = world
    w.proxy_object("six", "http://[::1]:8080", "laptop")
    host = until(lambda: w.fabric.get("HTTPProxy", "six").get("status", {}).get("canonicalHostname"))

    def good():
        w.renew("laptop")
        return w.code(host) == 200
    until(good)
    assert w.proxy.seen[-1] == ("CONNECT", "[::1]:8080", ID)
    w.fabric.delete("HTTPProxy", "six")


def test_tls_inside_the_tunnel(world):
    """An https endpoint behind a connector is spoken to over TLS, by its name."""
    w = world
    names, shaken = [], threading.Event()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret"
    cert, key = fb.make_cert(w.tmp, "inner.test")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    context.sni_callback = lambda s, name, c: names.append(name)

    def serve(conn):
        try:
            with context.wrap_socket(conn, server_side=True) as s:
                shaken.set()
                if s.recv(65536):
                    s.sendall(answer)
        finally:  # an error: nobody we know signed it
            shaken.set()
    server = Each(serve)
    before, w.proxy.origin = w.proxy.origin, server.port
    try:
        secure = fb.thing("HTTPProxy", "secure", {"hostnames": ["secure.example.test"], "rules": [{"backends": [
            {"endpoint": "https://127.0.0.1:8443", "connector": {"name": "laptop"}, "tls": {"hostname": "inner.test"}}]}]})
        w.fabric.apply(secure)

        def asked():
            w.renew("laptop")
            return w.code("secure.example.test") == 503 and shaken.is_set()
        until(asked)
        assert names[-1] == "inner.test"
        assert w.proxy.seen[-1] == ("CONNECT", "127.0.0.1:8443", ID)
        # A CA of one's own: first a ConfigMap that is not there, then it is.
        secure["metadata"]["annotations"] = {"spanwire.dev/backend-ca": "inner-roots"}
        w.fabric.apply(secure)
        w.becomes("HTTPProxy", "secure", "Programmed", ("False", "Pending"))
        assert "inner-roots" in [c for c in w.fabric.get("HTTPProxy", "secure")["status"]["conditions"]
                                 if c["type"] == "Programmed"][0]["message"]
        w.fabric.apply(fb.thing("ConfigMap", "inner-roots", None, data={"ca.crt": pathlib.Path(cert).read_text()}))
        w.becomes("HTTPProxy", "secure", "Programmed", ("True", "Programmed"))

        def served():
            w.renew("laptop")
            return w.answer("secure.example.test")[::2] == (200, "secret")
        until(served, 5, "an answer over TLS")
        # Another name than the certificate's is not believed.
        secure["spec"]["rules"][0]["backends"][0]["tls"]["hostname"] = "other.test"
        w.fabric.apply(secure)
        until(lambda: not served() and w.code("secure.example.test") == 503, 5, "the wrong name to be refused")
    finally:
        w.proxy.origin = before
        server.close()
        w.delete("HTTPProxy", "secure")


def test_what_data_planes_get_is_sound(world, binary):
    w = world
    w.renew("laptop")
    done = subprocess.run([binary, "xds", "lint", "--server", f"127.0.0.1:{w.fabric.xds_port}", "--ca", str(w.fabric.ca),
                           "--token-file", str(w.fabric.token)], capture_output=True, text=True, timeout=guard(60), check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def lint(binary, tmp, resources):
    path = tmp / "set.yaml"
    path.write_text(yaml.safe_dump({"resources": resources}))
    done = subprocess.run([binary, "xds", "lint", "--partial", str(path)], capture_output=True, text=True, timeout=guard(60),
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr


LISTENER, CLUSTER = (gw.TYPE + f"envoy.config.{k}" for k in ("listener.v3.Listener", "cluster.v3.Cluster"))


def test_envoy_gateway_can_be_patched(binary, tmp_path):
    """The bootstrap of its Envoys, and the policies that need no extension server."""
    out = subprocess.run([binary, "envoy", "patch", "--connect-proxy", "/run/sidecar.sock"], capture_output=True,
                         text=True, check=True).stdout
    proxy = yaml.safe_load(out)
    patches = {p["path"]: p["value"] for p in proxy["spec"]["bootstrap"]["jsonPatches"]}
    assert proxy["kind"] == "EnvoyProxy" and proxy["spec"]["bootstrap"]["type"] == "JSONPatch"
    assert patches["/bootstrap_extensions"][0]["name"] == "envoy.bootstrap.internal_listener"
    lint(binary, tmp_path, [{"@type": LISTENER, **patches["/static_resources/listeners/-"]},
                            {"@type": CLUSTER, **patches["/static_resources/clusters/-"]}])
    golden = pathlib.Path(__file__).resolve().parent.parent / "golden/connector/patch-policies.txt"
    policies = [block for block in golden.read_text().split("\napply ") if block.startswith("EnvoyPatchPolicy")]
    assert len(policies) == 2
    for policy in policies:
        lines = policy.split("\n")[1:]
        end = next((i for i, line in enumerate(lines) if not line.startswith("  ")), len(lines))
        for patch in yaml.safe_load("\n".join(lines[:end]))["spec"]["jsonPatches"]:
            if patch["type"] == CLUSTER:
                lint(binary, tmp_path, [{"@type": CLUSTER, **patch["operation"]["value"]}])
            else:
                lint(binary, tmp_path, [{"@type": patch["type"], "name": "r", "virtual_hosts": [
                    {"name": "v", "domains": ["*"], "routes": [patch["operation"]["value"]]}]}])


def test_an_envoy_for_one_connector(binary, tmp_path):
    """The third way: nothing but a listener that tunnels; any data plane can run it."""
    origin = gw.Origin()
    proxy = ConnectProxy(origin.port)
    port = gw.free_port()
    out = subprocess.run([binary, "envoy", "tunnel", "--connector-id", ID, "--target", "[::1]:8080", "--connect-proxy",
                          f"127.0.0.1:{proxy.port}", "--connect-http2=false", "--listen", f"127.0.0.1:{port}"],
                         capture_output=True, text=True, check=True).stdout
    parts = yaml.safe_load(out)["static_resources"]
    resources = [{"@type": LISTENER, **p} for p in parts["listeners"]] + [
        {"@type": CLUSTER, **p} for p in parts["clusters"]]
    lint(binary, tmp_path, resources)
    g = gw.Gateway(binary, tmp_path, resources)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=guard(10)) as s:
            s.sendall(b"GET /echo HTTP/1.1\r\nHost: any\r\n\r\n")
            with s.makefile("rb") as f:
                assert f.readline().startswith(b"HTTP/1.1 200")
        assert proxy.seen == [("CONNECT", "[::1]:8080", ID)]
    finally:
        g.stop()
        proxy.close()
        origin.close()


def test_restart(world):
    """A control plane that comes back finds things as they are, and a silent connector gone."""
    w = world
    before = w.fabric.get("HTTPProxy", "tunnel")
    secret = [s for s in json.loads(w.fabric.send("GET", fb.path_of("Secret"))[1])["items"]
              if s["metadata"].get("labels", {}).get("spanwire.dev/httpproxy") == "tunnel"]
    w.renew("laptop")
    w.fabric.control.restart()
    w.fabric._c = None
    w.serves("app.example.test", 503, LEASE + 5)
    w.stay("laptop")
    w.serves("app.example.test", 200)
    after = w.fabric.get("HTTPProxy", "tunnel")
    assert after["status"]["canonicalHostname"] == before["status"]["canonicalHostname"]
    names = {s["metadata"]["name"]: s["data"]["tls.crt"] for s in secret}
    again = {s["metadata"]["name"]: s["data"]["tls.crt"]
             for s in json.loads(w.fabric.send("GET", fb.path_of("Secret"))[1])["items"]
             if s["metadata"].get("labels", {}).get("spanwire.dev/httpproxy") == "tunnel"}
    assert names == again and len(names) == 2
    assert all(b"BEGIN CERTIFICATE" in base64.b64decode(c) for c in names.values())


@pytest.mark.parametrize("http2", [False, True])
def test_idle_tunnels_do_not_delay_the_end(binary, tmp_path, http2):
    """A connection to an internal listener, and so to a device, that is kept for the next request is no request."""
    port, there = gw.free_port(), gw.free_port()
    answer = [{"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "there"}}}]
    for name in ("origin", "here"):
        (tmp_path / name).mkdir()
    origin = gw.Gateway(binary, tmp_path / "origin", [gw.listener("l", there, [{"filters": [gw.hcm(answer)]}])])
    g = gw.Gateway(binary, tmp_path / "here", [
        gw.listener("http", port, [{"filters": [gw.hcm([{"match": {"prefix": "/"}, "route": {"cluster": "inside"}}])]}]),
        {"@type": LISTENER, "name": "inner", "internal_listener": {}, "filter_chains": [{"filters": [{
            "name": "tcp", "typed_config": {"@type": gw.TYPE + "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy",
                                            "stat_prefix": "t", "cluster": "origin"}}]}]},
        {"@type": CLUSTER, "name": "inside", **(gw.h2_options() if http2 else {}), "load_assignment": {
            "cluster_name": "inside", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {
                "envoy_internal_address": {"server_listener_name": "inner", "endpoint_id": "x"}}}}]}]}},
        gw.cluster("origin", [there])], drain="600s")
    try:
        for _ in range(4):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=guard(20))
            c.request("GET", "/")
            assert c.getresponse().read() == b"there"
            c.close()
        g.stop()  # has ten minutes for what is under way
    finally:
        if g.process.poll() is None:
            g.process.kill()
            g.process.wait()
        origin.stop()
