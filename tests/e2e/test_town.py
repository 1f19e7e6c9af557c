# SPDX-License-Identifier: Apache-2.0
"""Devices behind NAT, exposed through an edge machine, end to end."""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading

import pytest

from harness.control import find_kubectl, needs_kubectl
from harness.node import Process
from harness.serve import Each
from harness.town import EDGE, HOMES, HTTP, HTTPS, RELAY, Device, Site, blocks, digest, resolver
from harness.wait import SANITIZED, SLOW, guard, until, working

MIB = 64 if SANITIZED else 1024
CONCURRENT = 100 if SANITIZED else 500
CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"


@pytest.fixture
def device(town, edge, binary, tmp_path):
    """Makes devices with a web server each; ends them all."""
    made = []

    def make(name, home="home1", hostname=None, site=None, *flags):
        site = site or Site(town[home], name)
        d = Device(binary, town[home], tmp_path, edge, name, site.port,
                   hostname or f"{name}.town.example", *flags)
        d.site = site
        made.append(d)
        return d

    yield make
    for d in made:
        d.site.close()
        if d.alive:
            d.stop()


def curl(town, edge, hostname, path="/", *flags, tls=False, timeout=60):
    """(status, body) as a visitor sees it."""
    port = HTTPS if tls else HTTP
    url = f"{'https' if tls else 'http'}://{hostname}:{port}{path}"
    with town["visitor"].entered():
        done = subprocess.run(
            ["curl", "-sS", "-m", str(guard(timeout)), "--resolve", f"{hostname}:{port}:{EDGE}",
             "--cacert", str(edge.data / "connect-ca/root.crt"), "-w", "\n%{http_code}", *flags, url],
            capture_output=True, check=False)
    body, _, status = done.stdout.rpartition(b"\n")
    return int(status or 0), body


def served(town, edge, d, tls=False, seconds=20):
    def ok():
        assert d.alive, f"expose ended:\n{d.log()[-3000:]}"
        status, body = curl(town, edge, d.hostname, "/hello", tls=tls)
        return status == 200 and body.startswith(d.name.encode())
    until(ok, seconds, f"{d.hostname} to be served; log:\n{d.log()[-1500:]}", interval=0.05)


def kubectl(edge, *argv, **kw):
    with edge.ns.entered():
        return subprocess.run([find_kubectl(), "--kubeconfig", str(edge.kubeconfig), *argv],
                              capture_output=True, text=True, check=False, timeout=guard(30), **kw)


class Mortal:
    """A device that is killed; its lease runs out while other tests run."""

    def __init__(self, town, edge, binary, where):
        self.site = Site(town["home2"], "mortal")
        self.again = lambda: Device(binary, town["home2"], where, edge, "mortal", self.site.port, "mortal.town.example")
        self.device = self.again()
        served(town, edge, self.device)
        self.device.kill()

    def close(self):
        self.site.close()
        if self.device.alive:
            self.device.stop()


@pytest.fixture(scope="module")
def mortal(town, edge, binary, tmp_path_factory):
    m = Mortal(town, edge, binary, tmp_path_factory.mktemp("mortal"))
    yield m
    m.close()


def test_a_device_that_has_just_died_answers_nobody(town, edge, mortal):
    status, body = curl(town, edge, mortal.device.hostname)
    assert status in (502, 503, 504), (status, body)


def test_a_device_behind_nat_is_served_over_tls(town, edge, device):
    d = device("alpha")
    served(town, edge, d)
    served(town, edge, d, tls=True)
    status, body = curl(town, edge, d.hostname, "/x?y=1", tls=True)
    assert (status, body) == (200, f"alpha /x?y=1 {d.hostname}:{HTTPS}\n".encode()) or \
        body == f"alpha /x?y=1 {d.hostname}\n".encode(), body
    status, _ = curl(town, edge, d.hostname, "/h2", "--http2", tls=True)
    assert status == 200
    # The terminal shows the requests as they come.
    until(lambda: re.search(r"GET\s+/x\?y=1\s+200", d.log()), 5, d.log()[-2000:])


def test_a_taken_name_added_harms_no_name_that_is_served(town, edge, device, binary, tmp_path):
    """The command once more with a name of another device: it fails, and the names of before are served as before."""
    holder, works = device("holder"), device("works")
    copied = tmp_path / "copy"

    def again(where, *names):
        more = [flag for n in names[1:] for flag in ("--hostname", n)]
        return Device(binary, town["home1"], where, edge, "works", works.site.port + 1, names[0], *more)

    def refused(d):
        assert d.wait() == 1, d.log()[-2000:]
        return d.log()

    for d in (holder, works):
        served(town, edge, d)
    shutil.copytree(works.data, copied / works.data.name)
    statuses = []
    with working(1, lambda _: statuses.append(tuple(curl(town, edge, d.hostname)[0] for d in (holder, works)))):
        # While it runs, by another process that has its key.
        other = again(copied, works.hostname, holder.hostname)
        until(lambda: "waiting until it expires" in other.log(), what=lambda: other.log())
        # Another address makes the first one renew its Lease now: the other need not wait for that.
        town["home1"].ip("addr add 192.168.7.99/24 dev eth0")
        try:
            assert "in use elsewhere" in refused(other)
        finally:
            town["home1"].ip("addr del 192.168.7.99/24 dev eth0")
        n = len(statuses)
        until(lambda: len(statuses) > n + 2)
    assert set(statuses) == {(200, 200)}, f"{statuses}\n{works.log()[-3000:]}"
    works.stop()
    for names in ((works.hostname, holder.hostname), (holder.hostname,)):
        assert f"'{holder.hostname}' is claimed" in refused(again(tmp_path, *names))
        assert curl(town, edge, holder.hostname)[0] == 200
        # The Lease is given back: the answer is that of a device that is not there, at once.
        until(lambda: curl(town, edge, works.hostname)[0] == 503, what=edge.role_log("gateway")[-2000:])
        # What is left of the objects serves, without a word of the first command.
        run = Process(town["home1"], [
            binary, "connector", "run", "--name", "works", "--data", str(works.data), "--kubeconfig", str(edge.kubeconfig),
            "--relay", f"http://{EDGE}:{RELAY}/", "--admin-addr", "127.0.0.1:0"], tmp_path / "run.log")
        try:
            until(lambda: curl(town, edge, works.hostname) == (200, f"works / {works.hostname}:{HTTP}\n".encode()),
                  what=lambda: f"{run.log()[-2000:]} {curl(town, edge, works.hostname)}")
        finally:
            run.signal(signal.SIGTERM)
            run.wait()


def test_big_bodies_arrive_whole(town, edge, device):
    d = device("bulk")
    served(town, edge, d, tls=True)
    with town["visitor"].entered():
        got = subprocess.run(
            f"curl -sS -m {900 * SLOW} --resolve {d.hostname}:{HTTPS}:{EDGE} --cacert "
            f"{edge.data}/connect-ca/root.crt -w '%{{stderr}}%{{http_code}} %{{size_download}} %{{time_total}}\\n' "
            f"https://{d.hostname}:{HTTPS}/big/{MIB} | sha256sum",
            shell=True, capture_output=True, text=True, check=True)
    assert got.stdout.split()[0] == digest(MIB), (
        got.stderr, d.log()[-2000:], *(edge.role_log(r)[-2000:] for r in ("gateway", "sidecar")))


class Endless(Each):
    """Answers without a length: only the end of the connection says that it was all. '/cut' is cut off when it is told to."""

    def __init__(self):
        self.cut = threading.Event()
        super().__init__(self.answer)

    def answer(self, conn):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = conn.recv(4096)
            if not piece:
                return
            head += piece
        conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + bytes(100_000))
        if head.startswith(b"GET /cut"):
            self.cut.wait(guard(60))
            conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_broken_answer_is_not_a_short_one(town, edge, device, tmp_path):
    """The origin's reset passes the device, the tunnel, two Unix sockets and the gateway."""
    with town["home1"].entered():
        site = Endless()
    d = device("endless", "home1", None, site)
    got = tmp_path / "got"

    def ends(path, *flags, tls=True):
        port = HTTPS if tls else HTTP
        got.write_bytes(b"")
        site.cut.clear()
        with town["visitor"].entered():
            visitor = subprocess.Popen(
                ["curl", "-sS", "-N", "-m", str(guard(60)), "--resolve", f"{d.hostname}:{port}:{EDGE}", "--cacert",
                 str(edge.data / "connect-ca/root.crt"), "-o", str(got), *flags,
                 f"{'https' if tls else 'http'}://{d.hostname}:{port}{path}"], stderr=subprocess.DEVNULL)
        # What is cut off has begun: else it would be a failure, which is told with a status.
        until(lambda: visitor.poll() is not None or got.stat().st_size > 0)
        site.cut.set()
        return visitor.wait(guard(60)), got.stat().st_size

    until(lambda: ends("/whole") == (0, 100_000), 20, d.log()[-1500:], interval=0.1)
    for flags in (["--http2"], ["--http1.1"]):
        assert ends("/whole", *flags) == (0, 100_000)
        assert ends("/cut", *flags)[0] != 0
    assert ends("/cut", tls=False)[0] != 0


def test_uploads_arrive_whole(town, edge, device, tmp_path):
    d = device("upload")
    served(town, edge, d, tls=True)
    n = 16 if SANITIZED else 128
    with open(tmp_path / "up", "wb") as f:
        for block in blocks(n):
            f.write(block)
    status, body = curl(town, edge, d.hostname, "/sum", "--data-binary", f"@{tmp_path}/up",
                        "-H", "Expect:", tls=True, timeout=600)
    assert status == 200
    assert body.decode() == digest(n)


def test_many_requests_at_once(town, edge, device):
    d = device("many")
    served(town, edge, d)

    def one(i):
        return curl(town, edge, d.hostname, f"/n/{i}", timeout=300)

    with concurrent.futures.ThreadPoolExecutor(CONCURRENT) as pool:
        answers = list(pool.map(one, range(CONCURRENT)))
    bad = [(i, a) for i, a in enumerate(answers)
           if a[0] != 200 or not a[1].startswith(f"many /n/{i} ".encode())]
    assert not bad, (len(bad), bad[:5])


def test_two_devices_never_crossed(town, edge, device):
    one, two = device("one", "home1"), device("two", "home2")
    served(town, edge, one)
    served(town, edge, two)
    for i in range(50):
        d = (one, two)[i % 2]
        status, body = curl(town, edge, d.hostname, f"/{i}")
        assert (status, body.split()[0]) == (200, d.name.encode()), (status, body)
    assert all(f"{two.hostname}" not in str(h) for _, h in one.site.seen)


def test_the_address_changes_during_a_transfer(town, edge, device, tmp_path):
    d = device("mover")
    served(town, edge, d)
    got = tmp_path / "got"
    try:
        with town["visitor"].entered():
            job = subprocess.Popen(
                ["curl", "-sS", "--limit-rate", "40M", "-m", str(600 * SLOW), "-o", str(got), "--resolve",
                 f"{d.hostname}:{HTTP}:{EDGE}", f"http://{d.hostname}:{HTTP}/big/256"])
        until(lambda: got.exists() and got.stat().st_size > 40 << 20, what="a good part of it")
        town.move("home1", "192.168.7.77")
        assert job.wait(600 * SLOW) == 0
        with open(got, "rb") as f:
            assert hashlib.file_digest(f, "sha256").hexdigest() == digest(256)
        got.unlink()
        served(town, edge, d)
    finally:
        town.move("home1", HOMES["home1"])


def test_the_relay_is_killed_and_comes_back(town, edge, device):
    d = device("relayed")
    served(town, edge, d)
    os.kill(edge.role_pid("relay"), signal.SIGKILL)
    until(lambda: "relay was ended by signal 9" in edge.log(), 5, "the supervisor to notice")
    served(town, edge, d, seconds=30)


@needs_kubectl
def test_a_destination_not_advertised_is_refused(town, edge, device):
    d = device("strict")
    served(town, edge, d)
    other = Site(town["home1"], "secret")
    try:
        done = kubectl(edge, "get", "httpproxy", "strict", "-o", "json")
        proxy = json.loads(done.stdout)
        for rule in proxy["spec"]["rules"]:
            for backend in rule.get("backends", []):
                backend["endpoint"] = f"http://127.0.0.1:{other.port}"
        done = kubectl(edge, "replace", "-f", "-", input=json.dumps(proxy))
        assert done.returncode == 0, done.stderr

        def refused():
            status, body = curl(town, edge, d.hostname, "/peek", "-i")
            assert b"secret" not in body, body
            # The visitor learns the cause, not only that something failed.
            return status == 403 and b"x-spanwire-reason: " in body.lower()
        until(refused, 10, "the refusal")
        assert not other.seen
        until(lambda: re.search(rf"127\.0\.0\.1:{other.port}", d.log()), 5, d.log()[-2000:])
        until(lambda: re.search(r"403", edge.role_log("sidecar")), 5, edge.role_log("sidecar")[-2500:])
    finally:
        other.close()


def test_an_origin_that_is_down_is_said(town, edge, device):
    site = Site(town["home1"], "broken")
    site.close()
    d = device("broken", "home1", None, site)

    def told():
        status, body = curl(town, edge, d.hostname, "/x", "-i")
        return status == 502 and b"x-spanwire-reason: origin_unreachable" in body.lower()
    until(told, 20, "the origin's failure", interval=0.1)


@needs_kubectl
def test_the_lease_on_a_hostname_survives_ctrl_c(town, edge, device):
    d = device("stays")
    served(town, edge, d)
    d.stop()
    assert kubectl(edge, "get", "httpproxy", "stays").returncode == 0
    again = device("stays", "home1", None, d.site)
    served(town, edge, again)


@needs_kubectl
def test_rm_takes_everything_away(town, edge, device):
    d = device("brief", "home1", None, None, "--rm")
    served(town, edge, d)
    d.stop()

    def left():
        return [name for name in kubectl(edge, "get", "httpproxy,connectoradvertisement", "-o", "name").stdout.split()
                if "brief" in name]
    until(lambda: not left(), what="what has finalizers to go")


@pytest.fixture
def websocket_site(town):
    """A WebSocket server of another make (npm's ws) in a home."""
    with town["home2"].entered():
        p = subprocess.Popen(["node", str(CLIENTS / "gateway_servers.mjs")], cwd=CLIENTS, text=True,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    ports = json.loads(p.stdout.readline())
    yield ports
    p.stdin.close()
    p.wait(guard(10))


def test_websocket(town, edge, binary, tmp_path, websocket_site):
    d = Device(binary, town["home2"], tmp_path, edge, "sockets", websocket_site["ws"],
               "sockets.town.example")
    try:
        until(lambda: curl(town, edge, d.hostname, "/plain", tls=True)[0] in (200, 400, 404, 426), 20, d.log())
        with town["visitor"].entered():
            done = subprocess.run(
                ["node", str(CLIENTS / "gateway_ws.mjs"), f"wss://{EDGE}:{HTTPS}",
                 str(edge.data / "connect-ca/root.crt"), d.hostname],
                cwd=CLIENTS, capture_output=True, text=True, timeout=300 * SLOW, check=False)
        got = {j["op"]: j["got"] for j in map(json.loads, done.stdout.splitlines())}
        assert got["text"][0] == "h\u00e9llo \U0001f30d", (got, done.stderr[-1000:])
        assert got["binary"] and got["large"] and got["many"] == 500
        assert got["pings"] == ["to you", "pong how are you"]
        assert got["vanish"] == 1006
    finally:
        d.stop()


@needs_kubectl
def test_a_stranger_is_refused(town, edge, device, binary, tmp_path):
    """A node that knows everything but has a key the control plane does not name: the relay does not let it in."""
    d = device("guarded")
    served(town, edge, d)
    node = json.loads(kubectl(edge, "get", "connectors", "-o", "json").stdout)["items"]
    ids = {c["metadata"]["name"]: c["status"]["connectionDetails"]["publicKey"] for c in node}
    key = next(v for k, v in ids.items() if "guarded" in k)
    stranger = Process(town["visitor"], [
        binary, "sidecar", "--listen", "127.0.0.1:15040", "--key-file", str(tmp_path / "stranger.key"),
        "--peer", f"{key['id']}=relay=http://{EDGE}:{RELAY}/", "--admin-addr", "127.0.0.1:0",
        "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"], tmp_path / "stranger.log")
    try:
        with town["visitor"].entered():
            until(lambda: subprocess.run(["curl", "-s", "http://127.0.0.1:15040/"], check=False,
                                         capture_output=True).returncode == 0, 10, stranger.log())
            done = subprocess.run(
                ["curl", "-sS", "-m", str(guard(20)), "-p", "-x", "http://127.0.0.1:15040", "--proxy-header",
                 f"x-iroh-endpoint-id: {key['id']}", f"http://127.0.0.1:{d.site.port}/secret"],
                capture_output=True, text=True, check=False)
        assert done.returncode != 0 and "guarded" not in done.stdout, done
        assert not any(path == "/secret" for path, _ in d.site.seen)
        until(lambda: "refused us: id is not known to the control plane" in stranger.log(), 5, "the relay to refuse")
    finally:
        stranger.signal(signal.SIGTERM)
        stranger.wait(15)


ADVERTISED = """
apiVersion: networking.datumapis.com/v1alpha1
kind: ConnectorAdvertisement
metadata: {name: NAME}
spec:
  connectorRef: {name: NAME}
  layer4:
  - name: default
    services: [{address: 127.0.0.1, ports: [{name: dns, port: PORT, protocol: UDP}]}]
"""


def ask_udp(edge, node, port, query):
    """(status line, answer) of CONNECT-UDP over HTTP/1.1 on the sidecar's own socket."""
    with socket.socket(socket.AF_UNIX) as c:
        c.settimeout(guard(10))
        c.connect(str(edge.data / "run/sidecar.sock"))
        c.sendall(f"GET /.well-known/masque/udp/127.0.0.1/{port}/ HTTP/1.1\r\nHost: a\r\n"
                  f"x-iroh-endpoint-id: {node}\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n"
                  "Capsule-Protocol: ?1\r\n\r\n".encode())
        got = b""
        while b"\r\n\r\n" not in got:
            piece = c.recv(4096)
            if not piece:
                break
            got += piece
        head, _, rest = got.partition(b"\r\n\r\n")
        if b" 101 " not in head:
            return head.split(b"\r\n")[0].decode(), head
        c.sendall(bytes([0, len(query) + 1, 0]) + query)
        while len(rest) < len(query) + 3:
            piece = c.recv(4096)
            assert piece, "closed instead of an answer"
            rest += piece
        return head.split(b"\r\n")[0].decode(), rest[3:]


@pytest.mark.parametrize("udp", [True, False])
@needs_kubectl
def test_a_resolver_on_the_device(town, edge, binary, tmp_path, udp):
    name = f"dns-{str(udp).lower()}"
    upstream = resolver(town["home1"])
    port = upstream.port
    d = Process(town["home1"], [
        binary, "connector", "run", "--name", name, "--data", str(tmp_path / "d"), "--kubeconfig",
        str(edge.kubeconfig), "--relay", f"http://{EDGE}:{RELAY}/", "--admin-addr", "127.0.0.1:0",
        *(["--udp"] if udp else ["--no-udp"])], tmp_path / "d.log")
    try:
        done = kubectl(edge, "apply", "-f", "-",
                       input=ADVERTISED.replace("NAME", name).replace("PORT", str(port)))
        assert done.returncode == 0, done.stderr

        def node():
            assert d.alive, d.log()
            got = kubectl(edge, "get", "connector", name, "-o", "json")
            status = json.loads(got.stdout or "{}").get("status", {})
            ready = any(c["type"] == "Ready" and c["status"] == "True"
                        for c in status.get("conditions", []))
            return ready and status["connectionDetails"]["publicKey"]["id"]
        key = until(node, 20, d.log()[-1500:])
        query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04name\x04test\x00\x00\x01\x00\x01"
        if udp:
            def answered():
                status, got = ask_udp(edge, key, port, query)
                return "101" in status and got == query[:2] + b"\x81" + query[3:]
            until(answered, 10, d.log()[-1500:], interval=0.2)
            status, _ = ask_udp(edge, key, port + 1, query)
            assert " 403 " in status, status  # not advertised
        else:
            def refused():
                status, head = ask_udp(edge, key, port, query)
                return " 403 " in status and b"udp_not_offered" in head
            until(refused, what=d.log()[-1500:], interval=0.2)
    finally:
        upstream.close()
        d.signal(signal.SIGTERM)
        assert d.wait(15) == 0, d.log()[-1500:]


UDP_ROUTE = """
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: NAME}
spec:
  gatewayClassName: spanwire
  listeners: [{name: dns, port: 5353, protocol: UDP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: NAME}
spec:
  parentRefs: [{name: NAME}]
  rules:
  - backendRefs: [{group: networking.datumapis.com, kind: Connector, name: NAME, port: PORT}]
"""


def dig(town, port, *words, tries=1):
    with town["visitor"].entered():
        return subprocess.run(["dig", f"@{EDGE}", "-p", str(port), "+time=10", f"+tries={tries}", *words],
                              capture_output=True, text=True, check=False).stdout


@needs_kubectl
def test_a_public_resolver_on_a_device_behind_nat(town, edge, binary, tmp_path):
    """dig, the gateway's UDP listener, CONNECT-UDP, the device, its resolver: and back."""
    name = "public-dns"
    upstream = resolver(town["home1"])
    port = upstream.port
    d = Process(town["home1"], [
        binary, "connector", "run", "--name", name, "--data", str(tmp_path / "d"), "--kubeconfig",
        str(edge.kubeconfig), "--relay", f"http://{EDGE}:{RELAY}/", "--admin-addr", "127.0.0.1:0",
        "--udp"], tmp_path / "d.log")
    try:
        for text in (ADVERTISED, UDP_ROUTE):
            done = kubectl(edge, "apply", "-f", "-",
                           input=text.replace("NAME", name).replace("PORT", str(port)))
            assert done.returncode == 0, done.stderr
        until(lambda: "ANSWER: 0" in dig(town, 5353, "+time=2", "name.test"), 60,
              f"{d.log()[-1500:]}\n{edge.role_log('gateway')[-1500:]}", interval=0.2)
        # Many clients at once, each with a tunnel of its own; large answers too.
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            got = list(pool.map(lambda i: dig(town, 5353, f"n{i}.test", tries=3), range(100)))
        assert all("status: NOERROR" in g for g in got), [g for g in got if "NOERROR" not in g][:2]
        with town["visitor"].entered(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as c:
            c.settimeout(guard(5))
            for n in (1400, 4000, 20):
                c.sendto(b"\1\2\3" + bytes(n), (EDGE, 5353))
                assert c.recvfrom(65536)[0] == b"\1\2\x83" + bytes(n)
        # Not advertised: the device refuses, and the gateway says so.
        done = kubectl(edge, "apply", "-f", "-",
                       input=UDP_ROUTE.replace("NAME", name).replace("PORT", str(port + 1)))
        assert done.returncode == 0, done.stderr
        until(lambda: dig(town, 5353, "+time=1", "name.test") and
              "answered 403" in edge.role_log("gateway"), 20, edge.role_log("gateway")[-1500:],
              interval=0.1)
        # The device leaves: nobody answers, nothing hangs.
        d.signal(signal.SIGTERM)
        assert d.wait(15) == 0, d.log()[-1500:]
        assert "NOERROR" not in dig(town, 5353, "+time=1", "name.test")
    finally:
        upstream.close()
        if d.alive:
            d.signal(signal.SIGTERM)
            d.wait(15)
        kubectl(edge, "delete", "gateway,udproute", name)


def test_zz_a_dead_device_gives_a_page_and_comes_back(town, edge, mortal):
    """The page is there when the lease of thirty seconds has run out."""
    def page():
        status, body = curl(town, edge, mortal.device.hostname)
        assert status in (502, 503, 504), (status, body)
        return status == 503 and b"is offline" in body
    until(page, 90, "the page of a dead device", interval=0.2)
    mortal.device = mortal.again()
    served(town, edge, mortal.device)
