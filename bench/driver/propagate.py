# SPDX-License-Identifier: Apache-2.0
"""The `propagate` suite: from an HTTPRoute written to the API until the gateway serves it."""
import http.client
import json
import os
import shutil
import socket
import ssl
import statistics
import threading
import time

from . import api
from . import procs
from .procs import LoadError

COUNTS = (1, 1000, 10_000)
AMONG = 3000
SAMPLES = 100
CHURN = 5000            # routes that change while the samples are taken
CHURN_PER_S = 200
WRITERS = 16
GROUP = "gateway.networking.k8s.io"
ROUTES = f"/apis/{GROUP}/v1/namespaces/bench/httproutes"
XDS_PORT, ORIGIN_PORT, HTTP_PORT = 9512, 9513, 9080
GIVE_UP_S = 20.0


class Client:
    """One connection to the API."""

    def __init__(self, world):
        tls = ssl.create_default_context(cafile=world.file("certificate-authority"))
        tls.load_cert_chain(world.file("client-certificate"), world.file("client-key"))
        self.c = http.client.HTTPSConnection(world.host, world.port, context=tls, timeout=30)
        self.c.connect()
        self.c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, method, path, body=None, kind="application/json"):
        self.c.request(method, path, body and json.dumps(body), {"Content-Type": kind})
        answer = self.c.getresponse()
        data = answer.read()
        return answer.status, data

    def create(self, path, body):
        status, data = self.request("POST", path, body)
        if status != 201:
            raise LoadError(f"POST {path}: {status} {data[:200]!r}")
        return data


class Probe:
    """One kept connection to the gateway; asks for one host after the other."""

    def __init__(self):
        self.s = None

    def status(self, host):
        if not self.s:
            self.s = socket.create_connection(("127.0.0.1", HTTP_PORT), timeout=5)
            self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.s.sendall(b"GET /0 HTTP/1.1\r\nHost: %s\r\n\r\n" % host.encode())
        data = b""
        while b"\r\n\r\n" not in data:
            piece = self.s.recv(65536)
            if not piece:
                raise LoadError("the gateway closed a connection")
            data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(l.split(b":")[1]) for l in lines if l.startswith(b"content-length")), 0)
        while len(body) < length:
            body += self.s.recv(65536)
        if b"connection: close" in lines:
            self.s.close()
            self.s = None
        return int(lines[0].split()[1])


def route(name, n=0):
    return {"apiVersion": f"{GROUP}/v1", "kind": "HTTPRoute",
            "metadata": {"name": name, "namespace": "bench"},
            "spec": {"parentRefs": [{"name": "bench"}], "hostnames": [f"{name}.example"],
                     "rules": [{"matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                                "backendRefs": [{"name": "origin", "port": 80}],
                                "filters": [{"type": "ResponseHeaderModifier",
                                             "responseHeaderModifier": {"set": [
                                                 {"name": "x-version", "value": str(n)}]}}]}]}}


class World(api.Control):
    """spanwire control, spanwire gateway and an origin; thrown away after each measurement."""

    name = "propagate"

    def __init__(self, ctx):
        super().__init__(ctx, 0)
        self.gateway = self.origin = None

    def file(self, name):
        return os.path.join(self.dir, name)

    def command(self):
        return [self.ctx.binary, "control", "--data", self.dir + "/data", "--listen",
                f"127.0.0.1:{self.port}", "--xds-listen", f"127.0.0.1:{XDS_PORT}",
                "--loopback-endpoints"]

    def start(self):
        super().start()
        self.origin = procs.spawn([self.ctx.load, "serve", "--http", f"127.0.0.1:{ORIGIN_PORT}"],
                                  None)
        self.api = Client(self)
        self.fill()
        self.start_gateway()

    def fill(self):
        c = self.api
        c.create("/api/v1/namespaces", {"metadata": {"name": "bench"}})
        c.create("/api/v1/namespaces/bench/services", {
            "metadata": {"name": "origin"}, "spec": {"ports": [{"name": "http", "port": 80}]}})
        c.create("/apis/discovery.k8s.io/v1/namespaces/bench/endpointslices", {
            "metadata": {"name": "origin-1", "labels": {"kubernetes.io/service-name": "origin"}},
            "addressType": "IPv4", "ports": [{"name": "http", "port": ORIGIN_PORT}],
            "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]})
        c.create(f"/apis/{GROUP}/v1/gatewayclasses", {
            "apiVersion": f"{GROUP}/v1", "kind": "GatewayClass", "metadata": {"name": "bench"},
            "spec": {"controllerName": "spanwire.dev/gateway"}})
        c.create(f"/apis/{GROUP}/v1/namespaces/bench/gateways", {
            "apiVersion": f"{GROUP}/v1", "kind": "Gateway", "metadata": {"name": "bench"},
            "spec": {"gatewayClassName": "bench", "listeners": [
                {"name": "http", "port": HTTP_PORT, "protocol": "HTTP"}]}})
        c.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", {
            "metadata": {"name": "bench-xds"},
            "rules": [{"nonResourceURLs": ["/xds"], "verbs": ["get"]}]})
        c.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
            "metadata": {"name": "bench-xds"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                        "name": "bench-xds"},
            "subjects": [{"kind": "ServiceAccount", "name": "gateway", "namespace": "bench"}]})
        c.create("/api/v1/namespaces/bench/serviceaccounts", {"metadata": {"name": "gateway"}})
        token = json.loads(c.create(
            "/api/v1/namespaces/bench/serviceaccounts/gateway/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}))
        with open(self.file("token"), "w", encoding="ascii") as f:
            f.write(token["status"]["token"])

    def start_gateway(self):
        argv = [self.ctx.binary, "gateway", "--xds-addr", f"127.0.0.1:{XDS_PORT}", "--xds-ca",
                self.file("certificate-authority"), "--xds-token-file", self.file("token"),
                "--workers", "1", "--admin-addr", "127.0.0.1:0", "--stats-addr", "127.0.0.1:0",
                "--ready-addr", "127.0.0.1:0", "--drain-time", "1s",
                "--upstream-allow", "127.0.0.0/8"]
        self.gateway = procs.spawn(api.place(self.ctx, argv), self.dir + ".gateway.log")
        procs.wait_accepting(self.gateway, "127.0.0.1", HTTP_PORT, 20)

    def stop(self):
        for p in (self.gateway, self.origin):
            if p:
                procs.stop(p)
        self.gateway = self.origin = None
        super().stop()

    def write_all(self, names):
        """Many routes from several clients; the names are shared out."""
        failed = []

        def some(part):
            try:
                client = Client(self)
                for name in part:
                    client.create(ROUTES, route(name))
            except (OSError, LoadError, http.client.HTTPException) as e:
                failed.append(e)

        threads = [threading.Thread(target=some, args=(names[i::WRITERS],))
                   for i in range(min(WRITERS, len(names)))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if failed:
            raise LoadError(f"writing routes: {failed[0]}")


def wait_serving(probe, host):
    """Asks until it is there. 404 means not yet; whatever else is not 200 is a wrong answer."""
    wrong = 0
    end = time.perf_counter() + GIVE_UP_S
    while True:
        status = probe.status(host)
        now = time.perf_counter()
        if status == 200:
            return now, wrong
        wrong += status != 404
        if now > end:
            raise LoadError(f"{host} still answers {status} after {GIVE_UP_S:g} s")


def apply_many(ctx, count):
    """Seconds from the first write until every one of the routes serves, and the writes' share."""
    world = World(ctx)
    try:
        world.start()
        names = [f"r{i:05}" for i in range(count)]
        probe = Probe()
        began = time.perf_counter()
        world.write_all(names)
        written = time.perf_counter()
        last, wrong = written, 0
        for name in [names[-1], *names[:: max(1, count // 500)]]:
            last, more = wait_serving(probe, name + ".example")
            wrong += more
        rss = [procs.memory_kb([p.pid])[0] / 1024 for p in (world.p, world.gateway)]
        return {"routes": count, "all_ms": (last - began) * 1e3,
                "written_ms": (written - began) * 1e3, "after_ms": (last - written) * 1e3,
                "wrong": wrong, "control_mb": rss[0], "gateway_mb": rss[1]}
    finally:
        world.stop()


class Churn:
    """Routes that change at a fixed rate, each time in something the data plane must take over."""

    def __init__(self, world, names):
        self.world, self.names = world, names
        self.over = threading.Event()
        self.done, self.error = 0, None
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            client = Client(self.world)
            began = time.perf_counter()
            while not self.over.is_set():
                name = self.names[self.done * 7919 % len(self.names)]
                status, data = client.request(
                    "PATCH", f"{ROUTES}/{name}", {"spec": route(name, self.done)["spec"]},
                    "application/merge-patch+json")
                if status != 200:
                    raise LoadError(f"PATCH: {status} {data[:200]!r}")
                self.done += 1
                time.sleep(max(0.0, began + self.done / CHURN_PER_S - time.perf_counter()))
        except (OSError, LoadError, http.client.HTTPException) as e:
            self.error = e

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.over.set()
        self.thread.join()


def percentile(values, q):
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


def one_by_one(ctx, world, tag):
    """Write acknowledged until the first 200, one new route at a time; old routes stay right."""
    probe = Probe()
    took, acks, wrong = [], [], 0
    for i in range(SAMPLES):
        name = f"{tag}{i:04}"
        before = time.perf_counter()
        world.api.create(ROUTES, route(name))
        written = time.perf_counter()
        served, more = wait_serving(probe, name + ".example")
        acks.append((written - before) * 1e3)
        took.append((served - written) * 1e3)
        wrong += more
        for other in ("r00000", f"r{i:05}", name):
            wrong += probe.status(other + ".example") != 200
        time.sleep(0.02)
    return {"p50_ms": statistics.median(took), "p99_ms": percentile(took, 0.99),
            "max_ms": max(took), "ack_p50_ms": statistics.median(acks), "wrong": wrong,
            "samples": [round(t, 3) for t in took]}


def among(ctx, out):
    world = World(ctx)
    names = [f"r{i:05}" for i in range(AMONG)]
    try:
        world.start()
        world.write_all(names)
        wait_serving(Probe(), names[-1] + ".example")
        time.sleep(2.0)  # statuses
        quiet = one_by_one(ctx, world, "n")
        out["one"] = quiet
        world.write_all([f"c{i:05}" for i in range(CHURN)])
        time.sleep(3.0)
        with Churn(world, [f"c{i:05}" for i in range(CHURN)]) as churn:
            time.sleep(0.5)
            busy = one_by_one(ctx, world, "m")
        if churn.error:
            raise LoadError(f"churn: {churn.error}")
        busy["changes"] = churn.done
        out["churn"] = busy
    finally:
        world.stop()
        shutil.rmtree(world.dir, ignore_errors=True)
    ctx.result["absolutes"]["propagate.p50_ms"] = [quiet["p50_ms"]]
    ctx.result["absolutes"]["propagate.p99_ms"] = [quiet["p99_ms"]]
    ctx.result["absolutes"]["propagate.wrong"] = [quiet["wrong"] + busy["wrong"]]
    ctx.result["absolutes"]["propagate.churn_p50_ms"] = [busy["p50_ms"]]
    ctx.result["absolutes"]["propagate.churn_p99_ms"] = [busy["p99_ms"]]


def run_propagate(ctx):
    out = ctx.result["suites"].setdefault("propagate", {"absent": {}})
    if not os.access(ctx.binary, os.X_OK):
        out["absent"]["spanwire"] = "not built"
        return
    for count in COUNTS:
        ctx.say(f"  {count} routes at once")
        out[f"apply{count}"] = apply_many(ctx, count)
    ctx.say(f"  one route at a time among {AMONG}, then while {CHURN} more change")
    among(ctx, out)
