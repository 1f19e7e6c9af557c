# SPDX-License-Identifier: Apache-2.0
"""Objects in, traffic out: 'spanwire control' and a 'spanwire gateway' that takes its xDS from it."""
import base64
import contextlib
import json
import pathlib
import re
import resource
import signal
import subprocess
import time
import urllib.request
from types import SimpleNamespace

from .control import Control, _Here
from .gateway import free_port
from .metrics import Metrics
from .node import _SANITIZER, Process
from .wait import GUARD, SANITIZED, SLOW, until

API = "gateway.networking.k8s.io/v1"
DATUM = "networking.datumapis.com"
_PATHS = {
    "Namespace": ("v1", "namespaces"), "Service": ("v1", "services"), "Secret": ("v1", "secrets"),
    "ConfigMap": ("v1", "configmaps"), "ServiceAccount": ("v1", "serviceaccounts"),
    "EndpointSlice": ("discovery.k8s.io/v1", "endpointslices"),
    "ClusterRole": ("rbac.authorization.k8s.io/v1", "clusterroles"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io/v1", "clusterrolebindings"),
    "GatewayClass": (API, "gatewayclasses"), "Gateway": (API, "gateways"),
    "HTTPRoute": (API, "httproutes"), "GRPCRoute": (API, "grpcroutes"), "TLSRoute": (API, "tlsroutes"),
    "TCPRoute": (API, "tcproutes"), "UDPRoute": (API, "udproutes"),
    "BackendTLSPolicy": (API, "backendtlspolicies"),
    "Ingress": ("networking.k8s.io/v1", "ingresses"),
    "IngressClass": ("networking.k8s.io/v1", "ingressclasses"),
    "Connector": (f"{DATUM}/v1alpha1", "connectors"),
    "ConnectorClass": (f"{DATUM}/v1alpha1", "connectorclasses"),
    "ConnectorAdvertisement": (f"{DATUM}/v1alpha1", "connectoradvertisements"),
    "HTTPProxy": (f"{DATUM}/v1alpha", "httpproxies"),
    "Lease": ("coordination.k8s.io/v1", "leases"),
}
_GLOBAL = {"Namespace", "ClusterRole", "ClusterRoleBinding", "GatewayClass", "IngressClass", "ConnectorClass"}


def path_of(kind, name="", namespace="default"):
    version, plural = _PATHS[kind]
    top = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    middle = "" if kind in _GLOBAL else f"/namespaces/{namespace}"
    return f"{top}{middle}/{plural}" + (f"/{name}" if name else "")


def thing(kind, name, spec=None, **extra):
    """An object of the default namespace."""
    out = {"apiVersion": _PATHS[kind][0], "kind": kind, "metadata": {"name": name}}
    if spec is not None:
        out["spec"] = spec
    out.update(extra)
    return out


def route(name, gateway, rules, kind="HTTPRoute", hosts=None, section=None):
    parent = {"name": gateway}
    if section:
        parent["sectionName"] = section
    spec = {"parentRefs": [parent], "rules": rules}
    if hosts:
        spec["hostnames"] = hosts
    return thing(kind, name, spec)


def to(service, port=80, weight=None):
    ref = {"name": service, "port": port}
    if weight is not None:
        ref["weight"] = weight
    return ref


def prefix(path, *backends, **extra):
    return {"matches": [{"path": {"type": "PathPrefix", "value": path}}],
            "backendRefs": list(backends), **extra}


def _fetch(url):
    with urllib.request.urlopen(url, timeout=GUARD * SLOW) as answer:
        return answer.read().decode()


class XdsGateway(Process):
    """The data plane."""

    def __init__(self, binary, where, fabric, *flags, workers=2, drain="10s", wait=True, nofile=None,
                 admin_port=None, ns=None):
        self.admin_port, self.stats_port = admin_port or free_port(), free_port()
        super().__init__(ns or _Here(), [
            binary, "gateway", "--xds-addr", f"127.0.0.1:{fabric.xds_port}", "--xds-ca", str(fabric.ca),
            "--xds-token-file", str(fabric.token), "--xds-node-id", "edge", "--workers", str(workers),
            "--admin-addr", f"127.0.0.1:{self.admin_port}", "--stats-addr", f"127.0.0.1:{self.stats_port}",
            "--ready-addr", "127.0.0.1:0", "--drain-time", drain, *flags],
            where / f"gateway-{time.monotonic_ns()}.log", nofile=nofile)
        if wait:
            self.wait_ready()

    def wait_ready(self, seconds=15):
        def ready():
            assert self.alive, f"gateway ended:\n{self.log()[-3000:]}"
            return re.search(r"gateway\s+ready", self.log())
        until(ready, seconds, "the gateway to be ready")

    def metrics(self):
        return Metrics(_fetch(f"http://127.0.0.1:{self.stats_port}/metrics"))

    def page(self, path):
        return _fetch(f"http://127.0.0.1:{self.admin_port}{path}")

    def stop(self, seconds=20):
        if self.alive:
            self.signal(signal.SIGTERM)
        status = self.wait(seconds)
        found = _SANITIZER.search(self.log())
        assert not found, f"sanitizer: {self.log()[found.start():][:4000]}"
        assert status == 0, f"gateway ended with {status}:\n{self.log()[-3000:]}"


class Fabric:
    """One control plane, and the way objects get into it."""

    def __init__(self, binary, where, *flags, addresses="127.0.0.1=127.0.0.1"):
        self.binary, self.dir = binary, pathlib.Path(where)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.xds_port = free_port()
        flags = (*(("--gateway-addresses", addresses) if addresses else ()), *flags)
        # Changes come by the thousand here; what a power failure does is tested elsewhere.
        self.control = Control(binary, self.dir / "control", "--loopback-endpoints", "--relaxed-sync",
                               "--xds-listen", f"127.0.0.1:{self.xds_port}", "--gateway-port-offset", "0", *flags,
                               port=free_port())
        self.ca, self.token = self.dir / "ca.pem", self.dir / "token"
        self.ca.write_bytes(self.control._secret("certificate-authority-data"))
        self._identity()
        self.gateways = []
        self._c = None
        self.apply(thing("GatewayClass", "spanwire", {"controllerName": "spanwire.dev/gateway"}))

    def _identity(self):
        """A service account that may read the configuration of data planes."""
        self._c = None
        self.apply(thing("ServiceAccount", "edge"))
        self.apply(thing("ClusterRole", "data-planes", rules=[{"nonResourceURLs": ["/xds"], "verbs": ["get"]}]))
        self.apply(thing("ClusterRoleBinding", "data-planes", roleRef={
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "data-planes"},
            subjects=[{"kind": "ServiceAccount", "name": "edge", "namespace": "default"}]))
        answer = self.control.post(path_of("ServiceAccount", "edge") + "/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600}})
        assert answer.status == 201, answer
        self.token.write_text(answer.json["status"]["token"], encoding="ascii")

    # --- objects ---
    def send(self, method, path, body=None, kind="application/json"):
        """A request on a connection that stays open."""
        for last in (False, True):
            try:
                if self._c is None:
                    self._c = self.control.connection()
                self._c.request(method, path, None if body is None else json.dumps(body),
                                {"Content-Type": kind})
                r = self._c.getresponse()
                data = r.read()
                return r.status, data
            except (OSError, ConnectionError):
                self._c = None
                if last:
                    raise
        return None

    def apply(self, *objects):
        for o in objects:
            meta = o["metadata"]
            path = path_of(o["kind"], meta["name"], meta.get("namespace", "default"))
            status, data = self.send("PATCH", path + "?fieldManager=test&force=true", o,
                                     "application/apply-patch+yaml")
            assert status in (200, 201), f"{o['kind']} {meta['name']}: {status} {data[:600]}"

    def get(self, kind, name):
        status, data = self.send("GET", path_of(kind, name))
        assert status == 200, (status, data[:300])
        return json.loads(data)

    def delete(self, kind, name):
        status, data = self.send("DELETE", path_of(kind, name))
        assert status in (200, 202), (status, data[:300])

    def service(self, name, endpoints, port=80, protocol="TCP", app=None):
        """A Service and the slice of its endpoints: ports on this machine, or (address, port)."""
        endpoints = [("127.0.0.1", e) if isinstance(e, int) else e for e in endpoints]
        entry = {"name": "main", "port": port, "protocol": protocol}
        if app:
            entry["appProtocol"] = app
        self.apply(thing("Service", name, {"ports": [entry]}))
        self.endpoints(name, endpoints, protocol)

    def endpoints(self, name, endpoints, protocol="TCP"):
        """One slice per endpoint port; slices of ports that are gone become empty."""
        endpoints = [("127.0.0.1", e) if isinstance(e, int) else e for e in endpoints]
        by_port = {}
        for address, number in endpoints:
            by_port.setdefault(number, []).append(address)
        known = self.__dict__.setdefault("_slices", {}).setdefault(name, set())
        known |= set(by_port)
        for number in sorted(known, key=lambda n: n not in by_port):  # make before break
            self.apply({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": f"{name}-{number}", "labels": {"kubernetes.io/service-name": name}},
                "endpoints": [{"addresses": [a], "conditions": {"ready": True}}
                              for a in by_port.get(number, [])],
                "ports": [{"name": "main", "port": number, "protocol": protocol}]})

    def secret(self, name, cert, key):
        def read(p):
            return base64.b64encode(pathlib.Path(p).read_bytes()).decode()
        self.apply(thing("Secret", name, type="kubernetes.io/tls",
                         data={"tls.crt": read(cert), "tls.key": read(key)}))

    def gateway_object(self, name, listeners):
        """Listeners are (name, protocol, port[, {more}])."""
        out = []
        for n, protocol, port, *more in listeners:
            out.append({"name": n, "protocol": protocol, "port": port, **(more[0] if more else {})})
        self.apply(thing("Gateway", name, {"gatewayClassName": "spanwire", "listeners": out}))

    def programmed(self, name):
        """Waits until every listener of a Gateway is told to be served."""
        def good():
            status = self.get("Gateway", name).get("status", {})
            at = [c for entry in status.get("listeners", []) for c in entry.get("conditions", [])]
            return status.get("listeners") and all(
                c["status"] == "True" for c in at if c["type"] in ("Programmed", "ResolvedRefs"))
        until(good, 10, f"Gateway {name} to be programmed")

    # --- the data plane ---
    def start_gateway(self, *flags, **kw):
        g = XdsGateway(self.binary, self.dir, self, *flags, **kw)
        self.gateways.append(g)
        return g

    def close(self):
        try:
            for g in self.gateways:
                if g.alive:
                    g.stop()
                found = _SANITIZER.search(g.log())
                assert not found, f"sanitizer: {g.log()[found.start():][:4000]}"
        finally:
            for g in self.gateways:
                if g.alive:
                    g.kill()
            self.control.close()


@contextlib.contextmanager
def programmed(server, binary, where, *flags):
    """A control plane, made by 'server', and a data plane: without one nothing is programmed."""
    port = free_port()
    c = server(binary, where, *flags, "--xds-listen", f"127.0.0.1:{port}")
    gateway = XdsGateway(binary, where, SimpleNamespace(
        xds_port=port, ca=c.data / "pki" / "root.crt", token=c.data / "pki" / "admin.token"), wait=False)
    yield c
    gateway.stop()
    c.close()


def make_cert(where, name, names=(), ca=None, days=30):
    """A certificate by openssl, self-signed or by ca = (cert, key); returns the paths of both."""
    where = pathlib.Path(where)
    stem = where / f"{name}-{time.monotonic_ns()}"
    cert, key = f"{stem}.crt", f"{stem}.key"
    alt = ",".join(f"DNS:{n}" for n in (name, *names)) + ",IP:127.0.0.1"
    subprocess.run(["openssl", "req", "-x509", *(["-CA", ca[0], "-CAkey", ca[1]] if ca else []),
                    "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
                    "-out", cert, "-days", str(days), "-subj", f"/CN={name}", "-addext",
                    f"subjectAltName={alt}"], check=True, capture_output=True)
    return cert, key


def nofile_limit():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def scale(n):
    """Less volume under sanitizers."""
    return max(1, n // 10) if SANITIZED else n
