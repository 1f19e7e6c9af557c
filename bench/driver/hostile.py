# SPDX-License-Identifier: Apache-2.0
"""
What a hostile or merely large request costs everybody else: p99 of /healthz, a Lease renewal and a small get while each
of them runs, in ms. Ordinary scheduling on all CPUs: with real-time priorities the work would not yield to the loop.
"""
import http.client
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

from . import procs

CMS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ODD = "/apis/bench.example.com/v1/namespaces/default/odds"
ROUTES = "/apis/gateway.networking.k8s.io/v1/namespaces/default/httproutes"
ENTRIES = "/apis/networking.istio.io/v1/namespaces/default/serviceentries"
LISTED = 50_000
LEAST_S = 2.0        # an attack that is over sooner is made again
MOST_S = 20.0
WATCH_CONNS, WATCH_STREAMS = 48, 250
IDLE = 4096


class Server:
    """The API with nothing else, and a tenant in it."""

    def __init__(self, control):
        self.control, self.ctx = control, control.ctx

    def __enter__(self):
        c = self.control
        os.makedirs(c.dir, exist_ok=True)
        c.p = procs.spawn([c.ctx.binary, "control", "--data", c.dir + "/data", "--listen", f"127.0.0.1:{c.port}",
                           "--gateway=false", "--connector=false"], c.dir + ".log")
        procs.wait_accepting(c.p, "127.0.0.1", c.port, c.ready_s)
        c.settle()
        self.admin = ssl.create_default_context(cafile=c.dir + "/certificate-authority")
        self.stranger = ssl.create_default_context(cafile=c.dir + "/certificate-authority")
        self.admin.load_cert_chain(c.dir + "/client-certificate", c.dir + "/client-key")
        end = time.monotonic() + c.ready_s
        while self.call("GET", "/readyz")[0] != 200 and time.monotonic() < end:
            time.sleep(0.05)
        self.must("POST", LEASES, {"metadata": {"name": "bench"}, "spec": {"holderIdentity": "x"}})
        self.must("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "mallory"}})
        self.must("POST", RBAC + "/namespaces/default/rolebindings", {
            "metadata": {"name": "mallory"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "mallory", "namespace": "default"}]})
        made = self.must("POST", "/api/v1/namespaces/default/serviceaccounts/mallory/token", {"spec": {}})
        self.token = json.loads(made)["status"]["token"]
        return self

    def __exit__(self, *exc):
        self.control.stop()

    def call(self, method, path, body=None, headers=None, tenant=False):
        c = http.client.HTTPSConnection("127.0.0.1", self.control.port, timeout=120,
                                        context=self.stranger if tenant else self.admin)
        headers = {"Content-Type": "application/json", **(headers or {})}
        if tenant:
            headers["Authorization"] = "Bearer " + self.token
        if body is not None and not isinstance(body, str):
            body = json.dumps(body)
        try:
            c.request(method, path, body, headers)
            answer = c.getresponse()
            return answer.status, answer.read()
        finally:
            c.close()

    def must(self, method, path, body):
        status, said = self.call(method, path, body)
        if status not in (200, 201, 409):
            raise procs.LoadError(f"{method} {path}: {status} {said[:200]!r}")
        return said


# --- attacks ------------------------------------------------------------------------------

def config_map(name, n, value="v"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {f"k{i}": value for i in range(n)}}


def odd_kind(s):
    """A kind with a pattern that backtracks, and a rule that costs nearly all a rule may."""
    spec = {"type": "object", "properties": {
        "p": {"type": "array", "maxItems": 1024, "items": {
            "type": "string", "maxLength": 300, "pattern": "^([a-z0-9]+([-a-z0-9]*[a-z0-9])?)*$"}},
        "v": {"type": "array", "maxItems": 400, "items": {"type": "string", "maxLength": 64}}},
        "x-kubernetes-validations": [{"rule": "!has(self.v) || self.v.all(a, self.v.exists_one(b, a == b))"}]}
    s.must("POST", CRDS, {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "odds.bench.example.com"},
        "spec": {"group": "bench.example.com", "scope": "Namespaced",
                 "names": {"plural": "odds", "singular": "odd", "kind": "Odd", "listKind": "OddList"},
                 "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {
                     "type": "object", "properties": {"spec": spec}}}}]}})
    end = time.monotonic() + 10
    while s.call("GET", ODD)[0] != 200 and time.monotonic() < end:
        time.sleep(0.02)


def odd(**spec):
    return json.dumps({"apiVersion": "bench.example.com/v1", "kind": "Odd", "metadata": {"name": "x"}, "spec": spec})


def role(n):
    return json.dumps({"metadata": {"name": "wide"}, "rules": [{
        "apiGroups": [f"g{i}" for i in range(n)], "resources": [f"r{i}" for i in range(n)],
        "verbs": [f"v{i}" for i in range(n)]}]})


def service_entry():
    """As much as one entry may multiply to in the mesh's index: hosts x endpoints x ports; all have one address."""
    return json.dumps({
        "apiVersion": "networking.istio.io/v1", "kind": "ServiceEntry", "metadata": {"name": "wide"}, "spec": {
            "hosts": [f"h{i}.bench.example.com" for i in range(32)], "resolution": "STATIC",
            "ports": [{"number": 80 + i, "name": f"p{i}", "protocol": "TCP"} for i in range(4)],
            "endpoints": [{"address": "192.0.2.1"}] * 2048}})


def index_entry(s, body):
    """Made and deleted: the controller of the mesh indexes it, on the loop of the API."""
    status, said = s.call("POST", ENTRIES, body)
    if status != 201:
        raise procs.LoadError(f"ServiceEntry: {status} {said[:200]!r}")
    time.sleep(0.2)
    s.call("DELETE", ENTRIES + "/wide")


def hpack(name, value):
    """One header, literal and not indexed (RFC 7541 6.2.2)."""
    def text(t):
        t = t.encode()
        if len(t) < 127:
            return bytes([len(t)]) + t
        n, out = len(t) - 127, b"\x7f"
        while n >= 128:
            out, n = out + bytes([n % 128 + 128]), n // 128
        return out + bytes([n]) + t
    return b"\x00" + text(name) + text(value)


def unread_watches(s):
    """12,000 watches on HTTP/2 streams whose window is zero."""
    block = b"".join(hpack(*h) for h in ((":method", "GET"), (":scheme", "https"), (":authority", "x"),
                                         (":path", CMS + "?watch=1"), ("authorization", "Bearer " + s.token)))
    context = ssl.create_default_context(cafile=s.control.dir + "/certificate-authority")
    context.set_alpn_protocols(["h2"])
    held = []
    for _ in range(WATCH_CONNS):
        c = context.wrap_socket(socket.create_connection(("127.0.0.1", s.control.port)), server_hostname="127.0.0.1")
        out = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + struct.pack(">IBI", 6 << 8 | 4, 0, 0) + struct.pack(">HI", 4, 0)
        for i in range(WATCH_STREAMS):
            out += struct.pack(">I", len(block) << 8 | 1) + b"\x05" + struct.pack(">I", 1 + 2 * i) + block
        c.sendall(out)
        held.append(c)
    time.sleep(LEAST_S)
    for c in held:
        c.close()


def idle_connections(s):
    """4,096 connections that say nothing, and some more."""
    held = []
    for _ in range(IDLE + 200):
        try:
            held.append(socket.create_connection(("127.0.0.1", s.control.port), timeout=5))
        except OSError:
            break
    time.sleep(LEAST_S)
    for c in held:
        c.close()


def attacks(s):
    braces = json.dumps({"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
                         "metadata": {"name": "x"}, "spec": {"rules": "@"}}).replace(
                             '"@"', "[" + ",".join(["{}"] * 900_000) + "]")
    evil = ("a" * 200) + "!"
    entry = service_entry()
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    merge = {"Content-Type": "application/merge-patch+json"}
    apply = {"Content-Type": "application/apply-patch+yaml"}

    def tenant(method, path, body=None, headers=None):
        return lambda: s.call(method, path, body, headers, tenant=True)
    return {
        "regex": tenant_or_admin(s, ODD, odd(p=[evil] * 1024)),
        "cel": tenant_or_admin(s, ODD, odd(v=[f"v{i}" for i in range(400)])),
        "braces": tenant_or_admin(s, ROUTES, braces),
        "role": tenant("POST", RBAC + "/namespaces/default/roles", role(200)),
        "create": tenant("POST", CMS + "?dryRun=All", json.dumps(config_map("big", 90_000))),
        "patch": tenant("PATCH", CMS + "/large", '{"data":{"new":"%d"}}' % time.monotonic_ns(), merge),
        "apply": tenant("PATCH", CMS + "/applied?fieldManager=m&force=true",
                        json.dumps(config_map("applied", 40_000)), apply),
        "list": tenant("GET", CMS, None, {"Accept-Encoding": "gzip"}),
        "table": tenant("GET", CMS, None, table),
        "entry": lambda: index_entry(s, entry),
        "watches": lambda: unread_watches(s),
        "idle": lambda: idle_connections(s),
    }


def tenant_or_admin(s, path, body):
    """Kinds of CRDs are not in the bundled roles of tenants here: the request is what counts."""
    return lambda: s.call("POST", path, body)


def fill(s):
    s.control.load("create", "--tag", "l", "--count", LISTED, "--size", 200, "--conns", 64, deadline=120)
    s.must("POST", CMS, config_map("large", 40_000))


def measure(s, attack):
    """The attack, again and again for LEAST_S, with the probe beside it."""
    probe = subprocess.Popen([sys.executable, os.path.join(os.path.dirname(__file__), "probe.py"),
                              str(s.control.port), s.control.dir], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    time.sleep(0.3)
    begin, n = time.monotonic(), 0
    failed = []

    def run():
        nonlocal n
        while not n or time.monotonic() - begin < LEAST_S:
            try:
                attack()
            except OSError as e:
                failed.append(str(e))
            n += 1
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(MOST_S)
    took = time.monotonic() - begin
    said, _ = probe.communicate(b"", timeout=60)
    out = json.loads(said)
    out.update(times=n, took_s=round(took, 2), over=not thread.is_alive())
    return out


def run_hostile(ctx, control, out):
    ctx.note("api hostile: ordinary scheduling, all CPUs; the probe is a process of its own")
    with Server(control) as s:
        odd_kind(s)
        quiet = measure(s, lambda: time.sleep(LEAST_S))
        fill(s)
        rounds = {"quiet": [quiet]}
        for name, attack in attacks(s).items():
            ctx.say(f"  beside {name}")
            rounds[name] = [measure(s, attack)]
        for name, (r,) in rounds.items():
            kinds = ("healthz", "lease", "get")
            worst = max(r[k]["p99"] for k in kinds)
            r.update({k + "_ms": r[k]["p99"] for k in kinds}, p99_ms=worst, max_ms=max(r[k]["max"] for k in kinds),
                     probes=sum(r[k]["n"] for k in kinds))
            if name != "quiet":
                ctx.result["absolutes"][f"api.beside_{name}_ms"] = [worst]
    out["hostile"] = {"key": "p99_ms", "rounds": rounds, "connect": [], "void": []}
