# SPDX-License-Identifier: Apache-2.0
"""
Routes that change every second beside routes that do not, certificates that rotate, gateways that join and leave the
port, and new connections at a steady rate meanwhile.
"""
import base64
import contextlib
import http.client
import json
import pathlib
import random
import re
import ssl
import time

from harness import fabric, town
from harness.node import Process
from harness.wait import until
from soak import client, http2
from soak.edge import APP_PORT, PLAIN, SECURE
from soak.tally import PATIENCE

SLOTS = 8  # routes that come and go
STEADY = 4
SURE = 4  # new connections in a row that see a change: several workers, and sometimes two gateways, answer
DRAIN = 300  # seconds; longer than any transfer


class Objects:
    """Objects in the API, from the thread that made this; one connection."""

    def __init__(self, api):
        self.api = api
        self.connection = None

    def send(self, method, path, body=None, kind="application/json"):
        """(status, object); a connection that the server closed between two requests is made again."""
        fresh = self.connection is None
        if fresh:
            self.connection = self.api.connection()
        try:
            self.connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": kind})
            answer = self.connection.getresponse()
            data = answer.read()
            if answer.will_close:
                self.close()
            return answer.status, json.loads(data)
        except (http.client.RemoteDisconnected, BrokenPipeError):
            self.close()
            if fresh:
                raise
            return self.send(method, path, body, kind)
        except BaseException:
            self.close()
            raise

    def expect(self, want, *args, **kw):
        status, data = self.send(*args, **kw)
        if status not in want:
            raise ValueError(f"{args[0]} {args[1]}: {status} {data.get('message', data)}")
        return data

    def apply(self, *objects):
        for o in objects:
            path = fabric.path_of(o["kind"], o["metadata"]["name"]) + "?fieldManager=soak&force=true"
            self.expect((200, 201), "PATCH", path, o, "application/apply-patch+yaml")

    def delete(self, kind, name):
        self.expect((200, 202), "DELETE", fabric.path_of(kind, name))

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None


def route(name, version):
    """An HTTPRoute for NAME.soak.example that marks answers with a version."""
    mark = {"type": "ResponseHeaderModifier", "responseHeaderModifier": {"set": [{"name": "x-version", "value": version}]}}
    return fabric.route(name, "soak", [fabric.prefix("/", fabric.to("origin"), filters=[mark])],
                        hosts=[f"{name}.soak.example"])


class Certificates:
    """A CA, and leaves of it for the secure listener."""

    def __init__(self, where):
        self.where = where
        self.ca = fabric.make_cert(where, "soak-ca")
        self.leaf = None

    def rotate(self, objects):
        cert, key = fabric.make_cert(self.where, "soak.example", ["*.soak.example"], ca=self.ca)
        pem = [pathlib.Path(p).read_bytes() for p in (cert, key)]
        for p in (cert, key):
            pathlib.Path(p).unlink()
        encoded = [base64.b64encode(p).decode() for p in pem]
        objects.apply(fabric.thing("Secret", "soak", type="kubernetes.io/tls",
                                   data={"tls.crt": encoded[0], "tls.key": encoded[1]}))
        return ssl.PEM_cert_to_DER_cert(pem[0].decode())


class Setting:
    """The Gateway, its certificate, the origin and the routes that stay."""

    def __init__(self, place):
        self.place = place
        self.certificates = Certificates(place.where)
        with place.visitor.entered():
            objects = Objects(place.api)
            objects.apply(fabric.thing("Service", "origin", {"ports": [{"name": "main", "port": 80, "protocol": "TCP"}]}), {
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
                "metadata": {"name": "origin-1", "labels": {"kubernetes.io/service-name": "origin"}},
                "endpoints": [{"addresses": [town.VISITOR], "conditions": {"ready": True}}],
                "ports": [{"name": "main", "port": APP_PORT, "protocol": "TCP"}]})
            self.certificates.rotate(objects)
            status, found = objects.send("GET", fabric.path_of("GatewayClass"))
            assert status == 200 and found["items"], found
            names = [c["metadata"]["name"] for c in found["items"]]
            objects.apply(fabric.thing("Gateway", "soak", {
                "gatewayClassName": "spanwire" if "spanwire" in names else names[0], "listeners": [
                    {"name": "http", "protocol": "HTTP", "port": PLAIN},
                    {"name": "https", "protocol": "HTTPS", "port": SECURE,
                     "tls": {"certificateRefs": [{"name": "soak"}]}}]}))
            objects.apply(*(route(f"steady-{i}", "steady") for i in range(STEADY)))
            objects.close()
            for i in range(STEADY):
                for secure in (False, True):
                    until(lambda s=self.site(f"steady-{i}", secure): self._serves(s), 60,
                          f"steady-{i} to be served:\n{place.edge.role_log('gateway')[-2000:]}", interval=0.1)

    @staticmethod
    def _serves(site):
        try:
            return version(site) == "steady"
        except (OSError, ValueError, http.client.HTTPException):
            return False

    def site(self, name, secure=False):
        return client.Site((town.EDGE, SECURE if secure else PLAIN), f"{name}.soak.example",
                           self.certificates.ca[0] if secure else None)


def version(site):
    """The version that a new connection gets; None: no such route."""
    c = site.connection()
    try:
        c.request("GET", "/version")
        answer = c.getresponse()
        if answer.status == 404:
            return None
        client.expect(client.read(answer).rpartition(b" ")[0], b"origin /version")
        return answer.headers["x-version"]
    finally:
        c.close()


def seen(what, check):
    """Waits until a change is seen by several new connections in a row."""
    deadline, row = time.monotonic() + PATIENCE, 0
    while row < SURE:
        row = row + 1 if check() else 0
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} not seen within {PATIENCE:.0f} s")
        if not row:
            time.sleep(0.02)


def changing(part, load, setting):
    """One change a second; the latency is the time until it is served."""
    objects, number = Objects(setting.place.api), 0
    for _ in load.pace(1):
        name, step = f"churn-{number % SLOTS}", number // SLOTS % 4  # add, change, change, remove
        want = None if step == 3 else f"v{number}"
        number += 1
        with part.operation(f"{('add', 'change', 'change', 'remove')[step]} of HTTPRoute {name}"):
            if want is None:
                objects.delete("HTTPRoute", name)
            else:
                objects.apply(route(name, want))
            site = setting.site(name)
            seen(f"version {want} of {name}", lambda s=site, w=want: version(s) == w)
    objects.close()


def rotating(part, load, setting, every):
    objects = Objects(setting.place.api)

    def shown(site):
        with site.socket() as s:
            return s.getpeercert(True)
    while not load.stop.wait(every):
        with part.operation("rotation of the certificate"):
            want = setting.certificates.rotate(objects)
            site = setting.site("steady-0", secure=True)
            seen("the new certificate", lambda s=site, w=want: shown(s) == w)
    objects.close()


def steady(part, load, setting, index, secure):
    """Requests to a route that does not change."""
    kept, n = client.KeptAlive(setting.site(f"steady-{index}", secure)), 0
    for _ in load.pace(5):
        n += 1
        with part.operation(f"GET /s/{n} of steady-{index}"):
            body = kept.get(f"/s/{n}")
            client.expect(body.rpartition(b" ")[0], b"origin /s/%d" % n)
            part.moved(len(body))
    kept.close()


def new_connections(part, load, setting, secure, rate):
    """A connection per request."""
    sites = [setting.site(f"steady-{i}", secure) for i in range(STEADY)]
    for _ in load.pace(rate):
        with part.operation("request on a new connection"):
            c = random.choice(sites).connection()
            try:
                seed, size = random.randrange(1 << 20), random.choice((10, 2000, 60000))
                body, check = client.get(c, f"/stream/{seed}/{size}/0")[1], client.Check(seed)
                check.feed(body)
                check.complete(size)
                part.moved(size)
            finally:
                c.close()


def multiplexed(part, load, setting, index):
    """Streams beside each other on a connection that is kept."""
    site = setting.site(f"steady-{index}", secure=True)
    site.tls.set_alpn_protocols(["h2"])
    connection = http2.Connection(site)
    for _ in load.pace(3):
        wanted = [(random.randrange(1 << 20), random.choice((10, 2000, 200000))) for _ in range(4)]
        with part.operation("4 streams of one HTTP/2 connection"):
            connection.streams(wanted)
            part.moved(sum(size for _, size in wanted))
    connection.close()


class Joined(Process):
    """A gateway beside that of 'up', with the same command line but for its own ports."""

    def __init__(self, binary, place, number):
        with open(f"/proc/{place.watched['gateway']}/cmdline", encoding="utf-8") as f:
            argv = [binary, *f.read().rstrip("\0").split("\0")[1:]]
        for flag, value in (("--admin-addr", "127.0.0.1:0"), ("--stats-addr", "127.0.0.1:0"),
                            ("--ready-addr", "127.0.0.1:0"), ("--drain-time", f"{DRAIN}s")):
            argv[argv.index(flag) + 1] = value
        super().__init__(place.wires["edge"], argv, place.where / f"gateway-{number}.log")

    def wait_ready(self):
        def ready():
            assert self.alive, f"gateway ended:\n{self.log()[-2000:]}"
            return re.search(r"gateway\s+ready", self.log())
        until(ready, PATIENCE, "the second gateway to be ready")


def hand_overs(part, load, setting, binary, every):
    """A second gateway joins the ports, serves, and drains while its connections go on."""
    number = 0
    while not load.stop.wait(every) and load.left() > every / 2:
        number += 1
        with part.operation("hand-over of the gateway"), contextlib.ExitStack() as stack:
            joined = Joined(binary, setting.place, number)
            stack.callback(lambda j=joined: j.alive and j.kill())
            joined.wait_ready()
            sockets = [client.WebSocket(setting.site(f"steady-{i % STEADY}", i % 2 == 0)) for i in range(12)]
            for ws in sockets:
                stack.callback(ws.close)
            load.stop.wait(min(20, every / 4))
            joined.signal(15)
            for _ in range(5):
                for ws in sockets:
                    ws.echo(500)
                load.stop.wait(0.5)
            for ws in sockets:
                ws.close()
            status = joined.wait(DRAIN + PATIENCE)
            if status != 0:
                raise ValueError(f"the gateway that drained ended with {status}: {joined.log()[-300:]}")


def start(load, setting, binary, every):
    """Begins the load of the routes."""
    ns = setting.place.visitor
    load.thread(load.part("route changes"), changing, load, setting, ns=ns)
    load.thread(load.part("certificate rotations"), rotating, load, setting, every / 3, ns=ns)
    load.thread(load.part("gateway hand-overs"), hand_overs, load, setting, binary, every, ns=ns)
    for secure in (False, True):
        kind = "TLS" if secure else "plain"
        load.thread(load.part(f"new connections, {kind}"), new_connections, load, setting, secure, 15, ns=ns)
        for i in range(STEADY):
            if secure:
                load.thread(load.part("unchanged routes, HTTP/2"), multiplexed, load, setting, i, ns=ns)
            load.thread(load.part(f"unchanged routes, {kind}"), steady, load, setting, i, secure, ns=ns)
