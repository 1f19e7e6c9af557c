# SPDX-License-Identifier: Apache-2.0
"""Everything changes under load, and no request fails: routes, endpoints, certificates, the processes themselves."""
import pathlib
import random
import socket
import ssl
import subprocess
import time

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.load import Load
from harness.wait import GUARD, until, working

pytestmark = pytest.mark.tsan

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"


class Backend:
    """A process that says its name."""

    def __init__(self, name, port=0):
        self.name = name
        self.proc = subprocess.Popen(["node", str(CLIENTS / "gateway_backend.mjs"), name, str(port)],
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.proc.stdout.readline()
        assert line, f"backend {name} does not start"
        self.port = int(line)

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def close(self):
        if self.proc.poll() is None:
            self.proc.stdin.close()
            self.proc.wait(GUARD)


def connects(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class World:
    def __init__(self, binary, tmp, fabric=fb.Fabric):
        self.tmp = tmp
        self.fabric = f = fabric(binary, tmp)
        self.backends = {n: Backend(n) for n in "abc"}
        self.http, self.https = gw.free_port(), gw.free_port()
        for n, b in self.backends.items():
            f.service(n, [b.port])
        f.service("many", [b.port for b in self.backends.values()])
        self.cert = fb.make_cert(tmp, "load.test")
        f.secret("cert", *self.cert)
        f.gateway_object("edge", [("http", "HTTP", self.http), (
            "https", "HTTPS", self.https, {"tls": {"certificateRefs": [{"name": "cert"}]}})])
        f.apply(fb.route("load", "edge", self.rules(1, 1)),
                fb.route("many", "edge", [fb.prefix("/many", fb.to("many"))]))
        self.gateway = f.start_gateway()
        f.programmed("edge")
        # Routes, endpoints and the certificate come in any order, and to one worker before the other.
        until(lambda: {self.ask("/load") for _ in range(20)} == {(200, "a"), (200, "b")}, what="both of /load")
        until(lambda: {self.ask("/many") for _ in range(30)} == {(200, n) for n in "abc"}, what="all of /many")
        until(lambda: connects(self.https), what="the port for TLS")

    @staticmethod
    def rules(a, b):
        return [fb.prefix("/load", fb.to("a", weight=a), fb.to("b", weight=b))]

    def ask(self, path, host="load.test"):
        with socket.create_connection(("127.0.0.1", self.http), timeout=GUARD) as s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while (piece := s.recv(65536)):
                data += piece
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()

    def serves(self, path, want, seconds=5):
        until(lambda: self.ask(path) == want, seconds, f"{path} to be answered with {want}")

    def close(self):
        try:
            self.fabric.close()
        finally:
            for b in self.backends.values():
                b.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("change"))
    yield world
    world.close()


def one_change(w, i, alive):
    """Adds, edits, shifts weights, deletes; 'alive' has the target of each route that is there."""
    f, kind, name = w.fabric, i % 4, f"extra-{i % 40}"
    if kind == 0 or name not in alive:
        target = random.choice("abc")
        f.apply(fb.route(name, "edge", [fb.prefix(f"/extra/{i % 40}", fb.to(target))]))
        alive[name] = target
    elif kind == 1:
        target = random.choice("abc")
        f.apply(fb.route(name, "edge", [
            fb.prefix(f"/extra/{i % 40}", fb.to(target), filters=[{
                "type": "ResponseHeaderModifier", "responseHeaderModifier": {"set": [
                    {"name": "x-change", "value": str(i)}]}}]), fb.prefix(f"/more/{i}", fb.to("a"))]))
        alive[name] = target
    elif kind == 2:
        f.apply(fb.route("load", "edge", w.rules(i % 7, 1 + i % 5)))
    else:
        f.delete("HTTPRoute", name)
        del alive[name]


def test_a_thousand_route_changes_fail_no_request(w):
    n, alive = fb.scale(1000), {}
    with Load(w.http, ["/load/x", "/many", "/load/y?z=1"]) as load:
        load.more(200)
        start = time.monotonic()
        for i in range(n):
            one_change(w, i, alive)
            if i % 20 == 19:  # neither side gets far ahead of the other
                load.more(20)
        took = time.monotonic() - start
        w.fabric.apply(fb.route("last", "edge", [fb.prefix("/last", fb.to("c"))]))
        start = time.monotonic()
        w.serves("/last", (200, "c"))
        print(f"{n} changes in {took:.2f} s, the last served after {1000 * (time.monotonic() - start):.1f} ms")
        for i in range(40):
            if f"extra-{i}" in alive:
                w.serves(f"/extra/{i}", (200, alive[f"extra-{i}"]))
            else:
                until(lambda i=i: w.ask(f"/extra/{i}")[0] == 404, what=f"/extra/{i} to be gone")
        load.more(200)
    r = load.good(n)
    assert set(r["names"]) == {"a", "b", "c"}
    print(f"{r['done']} requests")


def test_a_route_moves_to_services_that_nothing_used_before(w):
    """Their endpoints are told with the route: nobody finds the new backend empty."""
    f, n = w.fabric, fb.scale(40)
    for i in range(n):
        f.service(f"moved-{i}", [w.backends["a"].port])
    # Objects of a kind are seen in their order: who knows this service and its endpoint knows those of the others.
    f.service("moved-last", [w.backends["a"].port])
    f.apply(fb.route("moving", "edge", [fb.prefix("/moving", fb.to("moved-last"))]))
    w.serves("/moving", (200, "a"))
    with Load(w.http, ["/moving"]) as load:
        load.more(100)
        for i in range(n):
            f.apply(fb.route("moving", "edge", [fb.prefix("/moving", fb.to(f"moved-{i}"))]))
            load.more(20)
    load.good(20 * n)


def test_endpoints_come_and_go(w):
    f, ports = w.fabric, [b.port for b in w.backends.values()]
    with Load(w.http, ["/many"]) as load:
        for i in range(fb.scale(100)):
            f.endpoints("many", random.sample(ports, 1 + i % 3))
        f.endpoints("many", ports[2:])
        until(lambda: all(w.ask("/many") == (200, "c") for _ in range(20)), 5, "only c to be left")
        load.more(200)
    load.good()
    f.endpoints("many", [])
    until(lambda: w.ask("/many")[0] == 503, 5, "no endpoint to be 503")
    f.endpoints("many", ports)
    w.serves("/many", (200, "a"))


def test_a_certificate_is_replaced(w):
    errors, seen = [], []
    first = ssl.create_default_context(cafile=w.cert[0])
    old = first.wrap_socket(socket.create_connection(("127.0.0.1", w.https), timeout=2 * GUARD), server_hostname="load.test")

    def ask(s):
        s.sendall(b"GET /load HTTP/1.1\r\nHost: load.test\r\n\r\n")
        data = b""
        while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < 1:
            piece = s.recv(65536)
            if not piece:
                raise OSError(f"closed after {data!r}")
            data += piece
        if not data.startswith(b"HTTP/1.1 200"):
            raise OSError(repr(data[:60]))

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def client(_):
        try:
            with socket.create_connection(("127.0.0.1", w.https), timeout=2 * GUARD) as s, \
                    context.wrap_socket(s, server_hostname="load.test") as t:
                seen.append(t.getpeercert(binary_form=True))
                for _ in range(3):
                    ask(t)
        except (OSError, ssl.SSLError) as e:
            errors.append(repr(e))

    certs = [fb.make_cert(w.tmp, "load.test") for _ in range(10)]
    with working(16, client):
        for i, cert in enumerate(certs):
            w.fabric.secret("cert", *cert)
            if i % 3 == 0:
                shown = ssl.PEM_cert_to_DER_cert(pathlib.Path(cert[0]).read_text(encoding="ascii"))
                until(lambda der=shown: der in seen, 10, f"certificate {i} to be shown")
            time.sleep(0.1)
        until(lambda: len(seen) > fb.scale(60), 20, "handshakes")
        ask(old)  # a connection of long ago goes on
    old.close()
    assert not errors, f"{len(errors)} of {len(seen)}: {errors[:5]}"
    print(f"{len(seen)} handshakes, {len(set(seen))} certificates")


def test_the_gateway_is_restarted(w):
    with Load(w.http, ["/load", "/many"]) as load:
        load.more(400)
        for _ in range(3):
            successor = w.fabric.start_gateway()
            old, w.gateway = w.gateway, successor
            load.more(100)
            old.stop()
            load.more(400)
    r = load.good(1000)
    print(f"{r['done']} requests")


def test_the_control_plane_is_killed(w):
    f = w.fabric
    with Load(w.http, ["/load", "/many"]) as load:
        load.more(200)
        f.control.kill()
        load.more(1000)
        f.control.restart()
        f.apply(fb.route("after", "edge", [fb.prefix("/after", fb.to("b"))]))
        w.serves("/after", (200, "b"), 10)
        load.more(200)
        # A gateway that starts while there is no control plane waits for it, and then serves.
        f.control.kill()
        late = f.start_gateway(wait=False)
        load.more(300)
        assert "ready" not in late.log()
        f.control.restart()
        late.wait_ready(20)
        load.more(200)
        late.stop()
    load.good(1000)
    f.delete("HTTPRoute", "after")
    until(lambda: w.ask("/after")[0] == 404, 5, "the route to go")


def test_a_killed_backend_is_retried_or_503(w):
    f = w.fabric
    doomed = Backend("doomed", gw.free_port())  # nobody else may get it while it is dead
    f.service("pair", [w.backends["a"].port, doomed.port])
    f.service("single", [doomed.port])
    rule = fb.prefix("/retry", fb.to("pair"))
    rule["retry"] = {"attempts": 3, "codes": [503], "backoff": "10ms"}
    f.apply(fb.route("killed", "edge", [rule, fb.prefix("/single", fb.to("single")), fb.prefix("/pair", fb.to("pair"))]))
    w.serves("/single", (200, "doomed"))
    until(lambda: {w.ask("/retry")[1] for _ in range(10)} == {"a", "doomed"}, 5)
    before = w.gateway.metrics()
    # As many as the retry budget allows at once (it begins at ten).
    with Load(w.http, ["/retry"], clients=8, pause=0.005) as load:
        load.more(200)
        doomed.kill()
        load.more(500)
    r = load.good()
    assert set(r["names"]) == {"a", "doomed"}
    assert w.ask("/single")[0] == 503
    got = {w.ask("/pair")[0] for _ in range(20)}
    assert got <= {200, 503} and 200 in got

    def counted():
        told = w.gateway.metrics()

        def grew(name, **labels):
            return told.sum(f"spanwire_gateway_{name}_total", **labels) > before.sum(f"spanwire_gateway_{name}_total", **labels)
        # A refused connection is failed over; a request that the kill cut is retried.
        return (grew("cluster_retries") or grew("cluster_failovers")) and grew("cluster_failures", reason="connect") and grew(
            "requests", code_class="5xx")
    until(counted, what="retries, failures and refusals to be counted")
    # It comes back where it was.
    again = Backend("doomed", doomed.port)
    try:
        w.serves("/single", (200, "doomed"))
    finally:
        again.close()
        f.delete("HTTPRoute", "killed")
