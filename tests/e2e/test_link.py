# SPDX-License-Identifier: Apache-2.0
"""spanwire link: imports and exports between two of our data planes, and towards ClusterLink's wire form."""
import contextlib
import hashlib
import json
import os
import socket
import ssl
import struct
import threading
import urllib.parse

import pytest
from cryptography import x509
from harness.link import (CDS, LDS, Control, Exporter, Importer, Link, Names, cluster, fabric_context, listener,
                          read_head)
from harness.ports import free_port
from harness.serve import Each
from harness.wait import GUARD, SANITIZED, SLOW, until

BULK = int(os.environ.get("SPANWIRE_LINK_BULK", (64 if SANITIZED else 1024) << 20))
FORMS = ("spanwire", "clusterlink")


def echo(conn):
    """Sends back what comes, then the end, when the end comes."""
    with contextlib.suppress(OSError):
        while data := conn.recv(1 << 16):
            conn.sendall(data)
        if isinstance(conn, ssl.SSLSocket):
            conn.unwrap()
        else:
            conn.shutdown(socket.SHUT_WR)


def dial(port, host="127.0.0.1"):
    return socket.create_connection((host, port), GUARD * SLOW)


def ask(s, data=b"hello"):
    s.sendall(data)
    got = b""
    while len(got) < len(data):
        chunk = s.recv(1 << 16)
        if not chunk:
            return got
        got += chunk
    return got


def is_refused(port):
    """A connection to the import ends without a byte, maybe while it is made."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError), dial(port) as s:
        return s.recv(1) == b""
    return True


def ends(s):
    """True when the connection ends without a byte."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        return s.recv(1) == b""
    return True


@pytest.fixture
def stage(tmp_path, binary):
    """Parts that are closed at the end, in the opposite order."""
    with contextlib.ExitStack() as stack:
        class Stage:
            fabric = Names(tmp_path, "fabric")
            where = tmp_path

            @staticmethod
            def control(name):
                c = Control(tmp_path / name, Stage.fabric, name)
                stack.callback(c.kill)
                return c

            @staticmethod
            def link(control, **kw):
                link = Link(binary, control, **kw)
                stack.callback(link.stop, None)
                return link

            @staticmethod
            def serve(app, **kw):
                s = Each(app, **kw)
                stack.callback(s.close)
                return s

            @staticmethod
            def exporter(name, app, **kw):
                s = Exporter(Stage.fabric, name, app, **kw)
                stack.callback(s.close)
                return s
        yield Stage


class Pair:
    """Two sites: 'a' imports default/web of 'b'."""

    def __init__(self, stage, form="spanwire", app=echo, host="127.0.0.1", flags=()):
        self.service = stage.serve(app, host=host)
        self.b = stage.control("siteb")
        self.b.export("default/web", host, self.service.port)
        self.link_b = stage.link(self.b, form=form, flags=flags)
        self.a = stage.control("sitea")
        self.a.peer(self.b, [("127.0.0.1", self.link_b.port)])
        self.port = free_port()
        self.a.imported("default/web", self.port, ("siteb", "default/web"))
        self.link_a = stage.link(self.a, form=form, flags=flags)
        until(self.listens, what="the import to listen")

    def peer(self, other, gateways):
        """Another peer of site 'a', or other gateways; its data plane knows them when this returns."""
        self.a.peer(other, gateways)
        wanted = [f"{host}:{port}" for host, port in gateways]

        until(lambda: any(p["gateways"] == wanted for p in self.dump()["peers"]))

    def dump(self):
        return json.loads(self.link_a.get(self.link_a.admin_port, "/config_dump"))

    def listens(self):
        with contextlib.suppress(OSError), dial(self.port):
            return True
        return False


# -- two of ours ------------------------------------------------------------------------------
@pytest.mark.parametrize("form", FORMS)
def test_a_connection_passes_both_sites(stage, form):
    pair = Pair(stage, form)
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        s.shutdown(socket.SHUT_WR)
        assert s.recv(1) == b""
    line = pair.link_a.wait_log(r'connection complete.*link.peer="siteb".*').group(0)
    assert 'direction="outbound"' in line and 'dst.service="default/web"' in line
    if form == "spanwire":
        assert 'policy="allow-all"' in line and 'src.workload="default/client"' in line
    line = pair.link_b.wait_log(r'connection complete.*link.peer="sitea".*').group(0)
    assert 'direction="inbound"' in line
    assert "Bearer" not in pair.link_a.log() + pair.link_b.log()
    until(lambda: pair.link_a.metrics().sum("spanwire_link_connections_total", side="import", peer="siteb",
                                            result="ok") >= 1)
    assert pair.link_b.metrics().sum("spanwire_link_bytes_total", side="export", direction="received") == 5
    dump = json.loads(pair.link_a.get(pair.link_a.admin_port, "/config_dump"))
    assert dump["imports"][0]["name"] == "default/web" and dump["peers"][0]["name"] == "siteb"
    assert "PRIVATE" not in json.dumps(dump)


def test_many_connections_share_one_carrier(stage):
    pair = Pair(stage, flags=("--workers", "1"))
    with contextlib.ExitStack() as stack:
        conns = [stack.enter_context(dial(pair.port)) for _ in range(50)]
        for s in conns:
            assert ask(s) == b"hello"
        # The client of the control plane is the other connection.
        carriers = [c for c in established(pair.link_a.process.pid) if c[1] == pair.link_b.port]
        assert len(carriers) == 1


def established(pid):
    """(local port, remote port) of the process' connections."""
    out = []
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/{pid}/fd/{fd}")
            if name.startswith("socket:["):
                inodes.add(name[8:-1])
    with open(f"/proc/{pid}/net/tcp", encoding="utf-8") as f:
        for line in f.readlines()[1:]:
            part = line.split()
            if part[3] == "01" and part[9] in inodes:
                out.append((int(part[1].split(":")[1], 16), int(part[2].split(":")[1], 16)))
    return out


def bulk(conn, size):
    """Sends random bytes over a connection, which it ends, and reads them back; both sums. No block is like another."""
    block = bytearray(os.urandom(1 << 20))
    sent, got = hashlib.sha256(), hashlib.sha256()
    with conn as s:
        def send():
            left = size
            while left:
                struct.pack_into("<Q", block, 0, left)
                piece = memoryview(block)[:min(left, len(block))]
                s.sendall(piece)
                sent.update(piece)
                left -= len(piece)
            s.shutdown(socket.SHUT_WR)
        t = threading.Thread(target=send)
        t.start()
        n = 0
        while data := s.recv(1 << 20):
            got.update(data)
            n += len(data)
        t.join()
    assert n == size
    return sent.hexdigest(), got.hexdigest()


def test_bulk_both_ways_with_checksum(stage):
    sent, got = bulk(dial(Pair(stage).port), BULK // 2)
    assert sent == got


def test_the_server_speaks_first(stage):
    def greet(conn):
        conn.sendall(b"220 ready\r\n")
        echo(conn)
    pair = Pair(stage, app=greet)
    for _ in range(20):
        with dial(pair.port) as s:
            assert s.recv(100) == b"220 ready\r\n"
            assert ask(s) == b"hello"


def test_half_close_is_passed_on(stage):
    def count(conn):
        n = 0
        while data := conn.recv(1 << 16):
            n += len(data)
        conn.sendall(str(n).encode())
    pair = Pair(stage, app=count)
    with dial(pair.port) as s:
        s.sendall(b"x" * 100000)
        s.shutdown(socket.SHUT_WR)
        assert s.recv(100) == b"100000"


def test_ipv6_client_and_service(stage):
    pair = Pair(stage, host="::1")
    with dial(pair.port, "::1") as s:
        assert ask(s) == b"hello"
    assert any(a[0] == "egress" and a[2] == "::1" for a in pair.a.asked)


def test_an_address_of_the_machine_needs_an_option(stage):
    """The harness allows loopback; a service elsewhere on the machine is not allowed."""
    pair = Pair(stage)
    pair.b.export("default/web", "169.254.169.254", 80)
    until(lambda: "169.254.169.254" in pair.link_b.get(pair.link_b.admin_port, "/config_dump"))
    assert is_refused(pair.port)
    pair.link_b.wait_log(r"169\.254\.169\.254.*(metadata|link-local)")


# -- failures ---------------------------------------------------------------------------------
def test_a_gateway_that_fails_is_passed_over(stage):
    pair = Pair(stage)
    dead = free_port()
    pair.peer(pair.b, [("127.0.0.1", dead), ("127.0.0.1", pair.link_b.port)])
    for _ in range(10):
        with dial(pair.port) as s:
            assert ask(s) == b"hello"


def test_all_endpoints_of_a_service_are_used(stage):
    """An Export whose endpoints the control plane names: any of them, and another when one refuses."""
    def named(name):
        return lambda conn: conn.sendall(name)
    pair = Pair(stage, app=named(b"0"))
    one, two = stage.serve(named(b"1")), stage.serve(named(b"2"))
    pair.b.export("default/web", "127.0.0.1", one.port, ("127.0.0.1", two.port))
    seen = set()

    def who():
        with dial(pair.port) as s:
            return s.recv(1)
    until(lambda: seen.add(who()) or seen >= {b"1", b"2"}, what="both endpoints")
    one.close()
    assert {who() for _ in range(20)} == {b"2"}


@pytest.mark.parametrize("form", FORMS)
def test_another_source_is_asked_for(stage, form):
    """Two sources: the first one's site is not there, or refuses."""
    pair = Pair(stage, form)
    gone = stage.exporter("sitec", lambda s: None)
    gone.status = 503
    pair.peer("sitec", [("127.0.0.1", gone.port)])
    pair.a.imports["default/web"] = [("sitec", "default/web"), ("siteb", "default/web")]
    if form == "clusterlink":  # cannot say what failed: its control plane goes on by itself
        def egress(name, client, old=pair.a.egress):
            pair.a.imports["default/web"].sort(reverse=not gone.heads)
            return old(name, client)
        pair.a.egress = egress
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
    assert gone.heads
    if form == "spanwire":
        assert ("egress", "default/web", "127.0.0.1", ("sitec/default/web",)) in pair.a.asked
    # With nothing left the connection ends, and the log says why.
    pair.a.imports["default/web"] = [("sitec", "default/web")]
    assert is_refused(pair.port)
    pair.link_a.wait_log("answered the CONNECT with status 503")


@pytest.mark.parametrize("form", FORMS)
def test_without_a_control_plane_open_connections_run_on(stage, form):
    pair = Pair(stage, form)
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        pair.a.kill()
        assert is_refused(pair.port)
        pair.link_a.wait_log("control plane unreachable")
        assert ask(s, b"still here") == b"still here"
        pair.b.kill()
        assert ask(s, b"and here") == b"and here"


def test_a_silent_control_plane_holds_up_nobody_else(stage):
    pair = Pair(stage, flags=("--authorise-timeout", "300ms"))
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        pair.a.silent = True
        with contextlib.ExitStack() as stack:
            waiting = [stack.enter_context(dial(pair.port)) for _ in range(100)]  # none is answered yet
            assert ask(s, b"go on") == b"go on"
            assert all(ends(w) for w in waiting)
        pair.link_a.wait_log("control plane timed out")
        pair.a.silent = False
    with dial(pair.port) as s:
        assert ask(s) == b"hello"


def test_only_what_was_denied_counts_as_denied(stage):
    pair = Pair(stage)

    def counts(link, side):
        m = link.metrics()
        return [m.sum("spanwire_link_connections_total", side=side, result=r) for r in ("denied", "failed")]
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
    pair.a.set_deny("default/web")
    assert is_refused(pair.port)
    until(lambda: counts(pair.link_a, "import") == [1, 0])
    pair.a.set_deny()
    pair.a.imports["default/web"] = []  # the sites of all sources are down
    assert is_refused(pair.port)
    until(lambda: counts(pair.link_a, "import") == [1, 1])
    pair.a.imports["default/web"] = [("siteb", "default/web")]
    pair.b.ingress = lambda *_: (403, {"x-reason": "policy"})
    assert is_refused(pair.port)
    until(lambda: counts(pair.link_b, "export") == [1, 0])
    pair.b.ingress = lambda *_: (503, {"x-reason": "objects are not known yet"})
    assert is_refused(pair.port)
    until(lambda: counts(pair.link_b, "export") == [1, 1])


def test_a_policy_change_closes_open_connections(stage):
    pair = Pair(stage)
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        pair.a.set_deny("default/other")
        until(lambda: pair.a.reviews)
        assert ask(s) == b"hello"
        pair.a.set_deny("127.0.0.1")
        assert ends(s)
        pair.link_a.wait_log("closed due to policy change: policy denies 127.0.0.1")
        assert is_refused(pair.port)
        pair.a.set_deny()
        with dial(pair.port) as again:
            assert ask(again) == b"hello"
            pair.b.set_deny("default/web")
            assert ends(again)
            pair.link_b.wait_log("closed due to policy change: policy denies default/web")
    assert pair.link_a.metrics().sum("spanwire_link_reviews_total", result="denied") >= 1


@pytest.mark.parametrize("side", ("egress", "ingress"))
def test_a_policy_change_while_a_connection_is_decided(stage, side):
    """Allowed before the change, told after it: the connection is asked about again, as those that were open are."""
    pair = Pair(stage)
    control, link = (pair.a, pair.link_a) if side == "egress" else (pair.b, pair.link_b)
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        asked = len(control.asked)
        control.hold[f"/authz/{side}"] = threading.Event()
        with dial(pair.port) as late:
            until(lambda: len(control.asked) > asked, what="the question")
            before = control.reviews
            control.set_deny("127.0.0.1" if side == "egress" else "default/web")
            until(lambda: control.reviews > before, what="the review")
            assert ends(s)
            control.hold.pop(f"/authz/{side}").set()
            late.settimeout(GUARD * SLOW)
            assert ends(late)
    link.wait_log("(?s)closed due to policy change.*closed due to policy change")


def test_a_port_that_is_taken_blocks_nothing(stage):
    pair = Pair(stage)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, other = taken.getsockname()[1], free_port()
        pair.a.imported("default/taken", port, ("siteb", "default/web"))
        pair.a.imported("default/other", other, ("siteb", "default/web"))
        pair.link_a.wait_log(f"import 'default/taken' cannot listen on 127.0.0.1:{port}, retrying")
        until(lambda: pair.link_a.metrics().sum("spanwire_link_sockets_unbound") > 0)

        def serves(p):
            with contextlib.suppress(OSError), dial(p) as s:
                return ask(s) == b"hello"
            return False
        until(lambda: serves(other))
    until(lambda: serves(port), what="the port to be taken over")
    until(lambda: pair.link_a.metrics().sum("spanwire_link_sockets_unbound") == 0)
    pair.a.remove(LDS, "import-default/taken")

    def refused():
        try:
            dial(port).close()
        except OSError:
            return True
        return False
    until(refused)
    assert serves(pair.port)


def test_listeners_are_kept_over_updates(stage):
    pair = Pair(stage)
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        pair.a.put(LDS, "import-default/web", listener("import-default/web", pair.port))
        pair.a.put(CDS, "export-x/y", cluster("export-x/y", [("127.0.0.1", 1)]))
        pair.a.put(CDS, "remote-peer-bad name", cluster("remote-peer-bad name", [("127.0.0.1", 1)]))
        pair.link_a.wait_log("'remote-peer-bad name' rejected")
        assert ask(s) == b"hello"
    with dial(pair.port) as s:
        assert ask(s) == b"hello"


def test_certificates_are_renewed_without_cutting_links(stage):
    pair = Pair(stage)
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        pair.a.renew()
        pair.b.renew()
        pair.link_a.wait_log("fabric certificate renewed")
        pair.link_b.wait_log("fabric certificate renewed")
        for _ in range(5):
            with dial(pair.port) as late:
                assert ask(late) == b"hello"
        assert ask(s) == b"hello"


def test_a_drain_lets_connections_end(stage):
    pair = Pair(stage)
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        pair.link_a.process.terminate()

        def refused():
            try:
                dial(pair.port).close()
            except OSError:
                return True
            return False
        until(refused)
        assert ask(s) == b"hello"
    assert pair.link_a.process.wait(GUARD * SLOW) == 0


def test_a_successor_takes_the_ports_over(stage):
    pair = Pair(stage)
    second = stage.link(pair.b, port=pair.link_b.port)
    until(lambda: "ready, listening" in second.log())
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        pair.link_b.process.terminate()
        for _ in range(20):
            with dial(pair.port) as late:
                assert ask(late) == b"hello"
        assert ask(s) == b"hello"


# -- ClusterLink's wire form ------------------------------------------------------------------
@pytest.mark.parametrize("version", (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), ids=("tls1.2", "tls1.3"))
@pytest.mark.parametrize("form", FORMS)
def test_a_foreign_site_imports_from_us(stage, form, version):
    pair = Pair(stage, form)
    pair.b.labels = {"zone": "b"}
    for alpn in (None, ["http/1.1"]):
        foreign = Importer(stage.fabric, "sitex", pair.link_b.port, "siteb", version, alpn)
        status, fields, _ = foreign.request("GET", "/healthz")
        assert status == 200 and fields["clusterlinkpeerlabels"] == "eyJ6b25lIjogImIifQ=="
        before = len(pair.b.asked)
        status, fields, body = foreign.token("default", "web", **{"peer.clusterlink.net/name": "sitex"})
        assert status == 200 and body == ""
        assert fields["authorization"] == "Bearer " + fields["x-access-token"]
        # The connections that Pair waited for may still be judged.
        assert ("token", "sitex") in [a[:2] for a in pair.b.asked[before:]]
        if form == "clusterlink":
            pems = [urllib.parse.unquote(c) for c in pair.b.certificates if c]
            assert any("sitex" in x509.load_pem_x509_certificate(p.encode()).subject.rfc4514_string() for p in pems)
        s, start, rest = foreign.tunnel(fields["x-access-token"])
        with s:
            assert start == "HTTP/1.1 200 OK" and rest == b""
            assert ask(s) == b"hello"
            assert ask(s, os.urandom(100000) * 10)
            again, start, _ = foreign.tunnel(fields["x-access-token"])
            again.close()
            assert start.split()[1] == "403"
        assert foreign.token("default", "none")[0::2] == (404, "Exported service 'default/none' not found.")
        assert foreign.request("GET", "/foo")[0::2] == (400, "No handler defined for GET /foo.")
        assert foreign.request("POST", "/authz", b"{")[0] == 400
        pair.b.set_deny("default/web")
        assert foreign.token("default", "web")[0::2] == (403, "Permission denied for 'default/web'.")
        pair.b.set_deny()


@pytest.mark.parametrize("form", FORMS)
def test_requests_over_http2(stage, form):
    pair = Pair(stage, form)
    pair.b.labels = {"zone": "b"}
    foreign = Importer(stage.fabric, "sitex", pair.link_b.port, "siteb", alpn=["h2"])
    status, fields, _ = foreign.request_h2("GET", "/healthz")
    assert status == 200 and fields["clusterlinkpeerlabels"] == "eyJ6b25lIjogImIifQ=="
    good = json.dumps({"ServiceName": "web", "ServiceNamespace": "default", "SrcAttributes": {"a": "b" * 30000}})
    status, fields, body = foreign.request_h2("POST", "/authz", good.encode())
    assert status == 200 and body == "" and fields["authorization"] == "Bearer " + fields["x-access-token"]
    assert ("token", "sitex", good) in pair.b.asked
    status, _, body = foreign.request_h2("POST", "/authz", b'{"ServiceName":"none","ServiceNamespace":"default"}')
    assert (status, body) == (404, "Exported service 'default/none' not found.")
    assert foreign.request_h2("POST", "/authz", b"x" * 70000)[0] == 413
    assert foreign.request_h2("GET", "/foo")[0] == 400
    assert foreign.request_h2("CONNECT", "")[0] == 400
    assert foreign.request_h2("CONNECT", "", fields=[("authorization", "Bearer x")])[0] == 403


def test_requests_of_one_connection(stage):
    pair = Pair(stage)
    foreign = Importer(stage.fabric, "sitex", pair.link_b.port, "siteb")
    with foreign.connect() as s:
        for _ in range(3):
            assert foreign.request("GET", "/healthz", s=s)[0] == 200
            body = b'{"ServiceName":"web","ServiceNamespace":"default"}'
            assert foreign.request("POST", "/authz", body, s=s)[0] == 200


@pytest.mark.parametrize("authority", ("siteb:443", "siteb", "anything.example:1"))
def test_bytes_that_come_with_the_connect_are_kept(stage, authority):
    pair = Pair(stage)
    foreign = Importer(stage.fabric, "sitex", pair.link_b.port, "siteb")
    s, start, rest = foreign.tunnel(pair.b.mint("default/web"), b"early" * 1000, authority)
    with s:
        assert start == "HTTP/1.1 200 OK"
        while len(rest) < 5000:
            rest += s.recv(65536)
        assert rest == b"early" * 1000


def test_statuses_of_the_tunnel(stage):
    pair = Pair(stage)
    foreign = Importer(stage.fabric, "sitex", pair.link_b.port, "siteb")

    def connect(field):
        with foreign.connect() as s:
            s.sendall(f"CONNECT siteb:443 HTTP/1.1\r\nHost: siteb:443\r\n{field}\r\n".encode())
            start, fields, rest = read_head(s)
            return int(start.split()[1]), rest.decode()
    assert connect("") == (400, "Missing 'authorization' header.")
    assert connect("Authorization: bearer x\r\n") == (400, "Authorization header is not using the bearer scheme.")
    assert connect("Authorization: Bearer x\r\n")[0] == 403
    pair.b.export("default/down", "127.0.0.1", free_port())
    until(lambda: connect(f"Authorization: Bearer {pair.b.mint('default/down')}\r\n")[0] == 503)
    pair.link_b.wait_log("export 'default/down'")
    assert connect(f"Authorization: Bearer {pair.b.mint('default/none')}\r\n")[0] == 503
    pair.b.kill()
    assert connect("Authorization: Bearer x\r\n")[0] == 503


@pytest.mark.parametrize("version", (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), ids=("tls1.2", "tls1.3"))
@pytest.mark.parametrize("form", FORMS)
def test_we_import_from_a_foreign_site(stage, form, version):
    pair = Pair(stage, form)
    foreign = stage.exporter("sitex", echo, version=version)
    pair.peer("sitex", [("127.0.0.1", foreign.port)])
    pair.a.imports["default/web"] = [("sitex", "default/web")]
    for _ in range(5):
        with dial(pair.port) as s:
            assert ask(s) == b"hello"
            assert ask(s, b"x" * 1000000) == b"x" * 1000000
            s.shutdown(socket.SHUT_WR)
            assert s.recv(1) == b""
    start, fields = foreign.heads[0]
    assert start == "CONNECT sitex:443 HTTP/1.1" and fields["host"] == "sitex:443"
    assert fields["authorization"] == "Bearer for-sitex" and "x-client-ip" not in fields
    assert foreign.accepted >= 5  # a connection for each


def test_bulk_to_a_foreign_site(stage):
    pair = Pair(stage)
    foreign = stage.exporter("sitex", echo)
    pair.peer("sitex", [("127.0.0.1", foreign.port)])
    pair.a.imports["default/web"] = [("sitex", "default/web")]
    sent, got = bulk(dial(pair.port), BULK // 16)
    assert sent == got


def test_a_foreign_server_speaks_first(stage):
    pair = Pair(stage)

    def greet(s):
        s.sendall(b"220 ready\r\n")
        echo(s)
    foreign = stage.exporter("sitex", greet)
    pair.peer("sitex", [("127.0.0.1", foreign.port)])
    pair.a.imports["default/web"] = [("sitex", "default/web")]
    for _ in range(20):
        with dial(pair.port) as s:
            assert s.recv(100) == b"220 ready\r\n"


# -- who it is --------------------------------------------------------------------------------
def test_a_gateway_must_have_the_peers_name(stage):
    pair = Pair(stage)
    foreign = stage.exporter("mallory", echo)
    pair.peer("sitex", [("127.0.0.1", foreign.port)])
    pair.a.imports["default/web"] = [("sitex", "default/web")]
    assert is_refused(pair.port)
    pair.link_a.wait_log("mallory")
    assert not foreign.heads


def test_strangers_at_the_external_port(stage):
    pair = Pair(stage)
    other = Names(stage.where, "other")

    def refused(context):
        with contextlib.suppress(OSError, ssl.SSLError):
            with dial(pair.link_b.port) as raw, context.wrap_socket(raw, server_hostname="siteb") as s:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                return s.recv(100) == b""
        return True
    assert refused(fabric_context(stage.fabric, None))
    assert refused(fabric_context(stage.fabric, other.file("siteb")))
    assert refused(fabric_context(stage.fabric, stage.fabric.file("nameless", sans=[])))
    assert not refused(fabric_context(stage.fabric, stage.fabric.file("sitex")))
    assert pair.link_b.metrics().sum("spanwire_link_refused_total", reason="certificate") >= 2


def test_garbage_and_slow_heads_at_the_external_port(stage):
    pair = Pair(stage)
    with dial(pair.port) as good:
        assert ask(good) == b"hello"
        for junk in (b"\x00" * 100, os.urandom(4096), b"GET / HTTP/1.1\r\n\r\n",
                     b"\x16\x03\x01\xff\xff" + b"x" * 70000):
            with dial(pair.link_b.port) as s, contextlib.suppress(OSError):
                s.sendall(junk)
                s.shutdown(socket.SHUT_WR)
                while s.recv(65536):
                    pass
        foreign = Importer(stage.fabric, "sitex", pair.link_b.port, "siteb")
        with foreign.connect() as s:
            s.sendall(b"CONNECT siteb:443 HTTP/1.1\r\nHost: s")
            with contextlib.suppress(OSError):
                assert s.recv(100) == b""
        pair.link_b.wait_log("slow_request")
        post = b"POST /authz HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n"
        both = b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
        for head, status in ((b"X" * 20000, (400, 431, 414)), (b"GET /healthz HTTP/1.1\r\nA: " + b"b" * 20000, (431,)),
                             (post + b"x" * 70000, (413,)), (both, (400,))):
            with foreign.connect() as s:
                with contextlib.suppress(OSError):
                    s.sendall(head)
                assert int(read_head(s)[0].split()[1]) in status, head[:40]
        assert ask(good) == b"hello"


def test_limits_of_connections(stage):
    pair = Pair(stage, flags=("--max-connections", "3", "--workers", "1"))
    with contextlib.ExitStack() as stack:
        def one():
            """A connection that works: those that looked for the listener may not be gone yet."""
            with contextlib.suppress(OSError), contextlib.ExitStack() as own:
                s = own.enter_context(dial(pair.port))
                if ask(s) == b"hello":
                    stack.push(own.pop_all())
                    return s
            return None
        for _ in range(3):
            until(one)
        assert is_refused(pair.port)
    pair.link_a.wait_log("too_many_connections")


def test_tunnels_of_both_forms_count_as_connections(stage):
    """TLS connections have the same bound, for each worker: there are fewer of them than tunnels here."""
    pair = Pair(stage, flags=("--workers", "1"))
    few = stage.link(pair.b, flags=("--max-connections", "3", "--workers", "1"))
    until(lambda: pair.dump()["connections"] == 0, what="the end of the connection that looked whether it listens")
    pair.peer(pair.b, [("127.0.0.1", few.port)])
    foreign = Importer(stage.fabric, "sitex", few.port, "siteb")
    with dial(pair.port) as one, dial(pair.port) as two, dial(pair.port) as three:
        assert ask(one) == ask(two) == ask(three) == b"hello"  # streams of one connection
        s, start, rest = foreign.tunnel(pair.b.mint("default/web"))
        with s:
            assert start.split()[1] == "503" and rest == b"too many connections"
        assert foreign.request("GET", "/healthz")[0] == 200
    few.wait_log("too_many_connections: --max-connections is reached")
    assert few.metrics().sum("spanwire_link_refused_total", reason="too_many_connections") == 1

    def again():
        s, start, _ = foreign.tunnel(pair.b.mint("default/web"))
        s.close()
        return start == "HTTP/1.1 200 OK"
    until(again, what="a tunnel after the others ended")


def test_slow_bodies_at_the_external_port(stage):
    """Whatever the protocol, the body of a question has ten seconds, and nobody else waits for it."""
    pair = Pair(stage)
    foreign = Importer(stage.fabric, "sitex", pair.link_b.port, "siteb")
    with foreign.connect() as s:
        s.sendall(b"POST /authz HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\n{")
        h2 = Importer(stage.fabric, "sitex", pair.link_b.port, "siteb", alpn=["h2"])
        assert h2.request_h2("POST", "/authz", b"{", unfinished=True)[0] == 408
        assert ends(s)
    until(lambda: pair.link_b.metrics().sum("spanwire_link_refused_total", reason="slow_request") == 2)
    assert h2.request_h2("GET", "/healthz")[0] == 200


def test_a_reset_stays_a_reset(stage):
    def reset(conn):
        conn.recv(10)
        conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    pair = Pair(stage, app=reset)
    with dial(pair.port) as s:
        s.sendall(b"x")
        with pytest.raises(ConnectionResetError):
            s.recv(1)


@pytest.mark.parametrize("side", ("import", "export"))
def test_a_site_that_dies_is_no_good_end(stage, side):
    """What was open on the carrier to it is reset, logged with the reason, and counted as lost."""
    pair = Pair(stage)
    dies, stays = (pair.link_b, pair.link_a) if side == "import" else (pair.link_a, pair.link_b)
    with dial(pair.port) as s:
        assert ask(s) == b"hello"
        dies.process.kill()
        assert ends(s)
    until(lambda: stays.metrics().sum("spanwire_link_connections_total", side=side, result="lost") == 1)
    stays.wait_log("error=\"(peer closed the connection without close_notify|connection reset)")
    assert stays.metrics().sum("spanwire_link_connections_open") == 0
