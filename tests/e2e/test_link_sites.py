# SPDX-License-Identifier: Apache-2.0
"""Sites that are linked, all of it real: control planes, data planes, certificates, machines."""
import base64
import contextlib
import json
import os
import pathlib
import re
import socket
import ssl
import threading
import time

import pytest
from harness.link_control import Fabric, thumbprint
from harness.sites import CONTROL, LISTEN, Foreign, World
from harness.tap import Tap
from harness.wait import SANITIZED, until
from test_link import ask, bulk, echo, ends, established

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden/link-sites/ten-steps.txt"
BULK = int(os.environ.get("SPANWIRE_LINK_SITES_BULK", (64 if SANITIZED else 1024) << 20))
FLOOD = 100 if SANITIZED else 500
DEAF = {"/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources", "/healthz", "/authz/review"}


@pytest.fixture
def world(topology, binary, tmp_path):
    del topology  # what it makes is not wanted, but its /run is
    w = World(binary, tmp_path)
    yield w
    w.close()


def answers(site, port, n=0):
    """True when a connection passes."""
    with contextlib.suppress(OSError), site.dial(port, n) as s:
        return ask(s) == b"hello"
    return False


def refused(site, port, n=0):
    """True when a connection ends without a byte, False when the service answers."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError), site.dial(port, n) as s:
        return ask(s) == b""
    return True


class Pair:
    """'a' imports what 'b' exports; both allow everything."""

    def __init__(self, world, app=echo):
        self.a, self.b = world.site("sitea"), world.site("siteb")
        self.a.peer(self.b)
        for s in (self.a, self.b):
            s.policy("all")
        self.b.export("web", self.b.serve(app))
        self.port = self.a.imported("web", self.b)
        until(lambda: answers(self.a, self.port) or app is not echo, what=f"the link: {self.a.control.log()[-2000:]}")


# -- export here, import there ----------------------------------------------------------------
class Steps:
    """Writes down what passes, with what differs from run to run replaced by its sort and number."""

    def __init__(self, certificates):
        self.lines, self.known, self.certificates = [], {}, certificates

    def mask(self, text):
        for name, print_ in self.certificates.items():
            text = text.replace(print_, f"<certificate of {name}>")

        def number(found):
            sort = "grant" if '"grant"' in _claims(found.group(0)) else "token"
            return self.known.setdefault(found.group(0), f"<{sort} {len(self.known) + 1}>")
        text = re.sub(r"^([\d.]+):\d+$", r"\1:<port>", text)
        return re.sub(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", number, text)

    def hear(self, who):
        def tell(kind, fields, body):
            out = [f"{who}: {kind}"]
            out += [f"    {name}: {self.mask(value)}" for name, value in fields]
            if body:
                out.append(f"    {self.mask(body.decode())}")
            self.lines += out
        return tell


def _claims(token):
    part = token.split(".")[1]
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)).decode()


def test_the_ten_steps_in_order(world):
    """What is said between the parts while one connection is made, with all fields."""
    a, b = world.site("sitea", start=False), world.site("siteb", start=False)
    steps = Steps({s.name: thumbprint(s.fabric_dir) for s in (a, b)})

    def site_files(s, part):
        return s.site / "ca.pem", s.site / f"{part}.pem", s.site / f"{part}.key"

    def fabric_files(s):
        return tuple(s.fabric_dir / f"{part}.pem" for part in ("ca", "cert", "key"))

    def tap(*args):
        t = Tap(*args, DEAF)
        world.stack.callback(t.close)
        return t.port
    for s in (a, b):
        s.start(control=tap(s.ns, "127.0.0.1", ("127.0.0.1", CONTROL), site_files(s, "control"),
                            site_files(s, "dataplane"), "cl-controlplane",
                            steps.hear(f"{s.name}, data plane to control plane")))
        s.policy("all")
    a.peer(b, (b.ip4, tap(b.ns, b.ip4, (b.ip4, LISTEN), fabric_files(b), fabric_files(a), "siteb",
                          steps.hear("sitea to siteb"))))
    b.export("web", b.serve(echo))
    port = a.imported("web", b)
    until(lambda: answers(a, port), what="the link")
    until(lambda: len([x for x in steps.lines if x.endswith(": request")])
          == len([x for x in steps.lines if x.endswith(": answer")]), what="the end of what came before")
    steps.lines.clear()
    steps.known.clear()
    with a.dial(port) as s:
        assert ask(s) == b"hello"
        got = "\n".join(steps.lines) + "\n"
    if os.environ.get("SPANWIRE_UPDATE_GOLDEN"):
        GOLDEN.write_text(got)
    assert got == GOLDEN.read_text()


def test_bytes_pass_both_ways(world):
    """One after the other on the same sites: a big transfer, half-closes, and a server that speaks first."""
    pair = Pair(world)
    began = time.monotonic()
    sent, got = bulk(pair.a.dial(pair.port), BULK)
    assert sent == got
    print(f"{BULK >> 20} MiB each way in {time.monotonic() - began:.1f} s")
    with pair.a.dial(pair.port) as s:
        s.sendall(b"x" * 100000)
        s.shutdown(socket.SHUT_WR)
        assert len(s.makefile("rb").read()) == 100000

    def greet(conn):
        conn.sendall(b"220 ready\r\n")
        echo(conn)
    pair.b.export("mail", pair.b.serve(greet))
    port = pair.a.imported("mail", pair.b)

    def greeted():
        with contextlib.suppress(OSError), pair.a.dial(port) as s:
            return s.recv(100) == b"220 ready\r\n" and ask(s) == b"hello"
        return False
    until(greeted, what="the greeting")
    for _ in range(10):
        assert greeted()
    line = pair.a.link.wait_log(r'connection complete.*link.peer="siteb".*').group(0)
    assert 'src.workload="default/app"' in line and 'policy="default/all"' in line, line
    line = pair.b.link.wait_log(r'connection complete.*link.peer="sitea".*').group(0)
    assert 'direction="inbound"' in line and 'policy="default/all"' in line, line
    for s in (pair.a, pair.b):
        assert "Bearer" not in s.link.log() + s.control.log()


# -- policies ---------------------------------------------------------------------------------
def test_nothing_is_allowed_unless_both_sites_do(world):
    pair = Pair(world)
    for s, why in ((pair.a, "default deny"), (pair.b, "Permission denied")):
        s.drop("accesspolicies", "all")
        # The first may be refused with its token at hand, when it is judged again.
        until(lambda: refused(pair.a, pair.port) and re.search(f"connection complete.*error=.*{why}", pair.a.link.log()),
              what="the refusal and its reason")
        s.policy("all")
        until(lambda: answers(pair.a, pair.port), what="the permission")


@pytest.mark.parametrize("side", ("importer", "exporter"))
def test_a_policy_change_closes_open_connections(world, side):
    """Those it denies, and no others: two clients with labels of their own."""
    pair = Pair(world)
    pair.a.add_pod("other", pair.a.client(1))
    site = pair.a if side == "importer" else pair.b
    until(lambda: answers(pair.a, pair.port, 1), what="the other client")
    with pair.a.dial(pair.port) as one, pair.a.dial(pair.port, 1) as two:
        assert ask(one) == ask(two) == b"hello"
        site.policy("no", "deny", src={"matchLabels": {"client.clusterlink.net/labels.app": "client"}})
        assert ends(one)
        site.link.wait_log("closed due to policy change.*default/no")
        assert ask(two) == b"hello"
        assert refused(pair.a, pair.port) and answers(pair.a, pair.port, 1)
        # Of privileged policies only the deny counts, whatever a namespace allows.
        site.drop("accesspolicies", "no")
        until(lambda: answers(pair.a, pair.port), what="the permission")
        other = {"matchLabels": {"client.clusterlink.net/labels.app": "other"}}
        site.policy("never", "deny", src=other, namespace=None)
        assert ends(two)
        site.policy("please", "allow", src=other)
        assert refused(pair.a, pair.port, 1) and answers(pair.a, pair.port)


def test_a_privileged_deny_wins_over_a_privileged_allow(world):
    pair = Pair(world)
    for name, action in (("yes", "allow"), ("no", "deny")):
        pair.b.policy(name, action, namespace=None)
    until(lambda: refused(pair.a, pair.port), what="the refusal")
    pair.b.drop("privilegedaccesspolicies", "no", None)
    pair.b.policy("none", "deny")
    until(lambda: answers(pair.a, pair.port), what="the privileged permission, which no policy below it can take back")


def test_the_form_of_a_peer_is_chosen(world):
    """By an annotation of the Peer, whatever its gateway would agree on; without it both sides agree on HTTP/2."""
    pair = Pair(world)

    def gateway():
        return {c for c in established(pair.a.link.proc.pid) if c[1] == LISTEN}

    def carriers(form):
        gateways = {"gateways": [{"host": pair.b.ip4, "port": LISTEN}]}
        pair.a.put("peers", "Peer", "siteb", gateways, "clusterlink-system", annotations={"link.spanwire.dev/form": form})
        until(lambda: pair.a.link.dump()["peers"][0]["form"] == form, what=f"the form {form}")
        with contextlib.ExitStack() as stack:
            before = gateway()
            for s in [stack.enter_context(pair.a.dial(pair.port)) for _ in range(8)]:
                assert ask(s) == b"hello"
            return len(gateway() - before)
    assert carriers("auto") <= 2
    assert carriers("clusterlink") == 8
    assert carriers("spanwire") <= 2


# -- failures ---------------------------------------------------------------------------------
def test_another_site_takes_over_when_one_dies(world):
    a, b, c = world.three()
    for s in (b, c):
        def app(conn, name=s.name.encode()):
            conn.sendall(name)
            echo(conn)
        s.export("web", s.serve(app))
    name = {"peer.clusterlink.net/name": "sitea"}
    until(lambda: all(Foreign(a.fabric_dir, s).token("default", "web", **name)[0] == 200 for s in (b, c)), what="both")
    port = a.imported("web", b, c)

    def who():
        with contextlib.suppress(OSError), a.dial(port) as s:
            return s.recv(100)
        return b""
    until(lambda: who() == b"siteb", what="the first source")
    with a.dial(port) as kept:
        assert kept.recv(100) == b"siteb"
        b.crash()
        assert ends(kept)
    assert [who() for _ in range(20)] == [b"sitec"] * 20, "no connection is lost, whichever is tried first"
    until(lambda: a.metric("spanwire_link_peer_reachable", peer="siteb") == 0, what="the heartbeat to fail")
    assert who() == b"sitec"


def test_without_control_planes_open_connections_run_on(world):
    pair = Pair(world)
    with pair.a.dial(pair.port) as s:
        assert ask(s) == b"hello"
        pair.a.control.kill()
        assert refused(pair.a, pair.port)
        pair.a.link.wait_log("connection complete.*control plane unreachable")
        pair.b.control.kill()
        assert ask(s) == b"hello"
        pair.a.control.restart()
        mark = len(pair.a.control.log())
        until(lambda: refused(pair.a, pair.port) and re.search(r"connection refused.*status=503 reason=.*siteb",
                                                               pair.a.control.log()[mark:]), what="a reason")
        pair.b.control.restart()
        until(lambda: answers(pair.a, pair.port), what="the link to be back")
        assert ask(s) == b"hello"


# -- who it is --------------------------------------------------------------------------------
def test_a_site_of_another_fabric_is_nobody(world, tmp_path):
    """In both directions, and the log says why."""
    pair = Pair(world)
    c = world.site("sitec", fabric=Fabric(tmp_path / "other"))
    c.policy("all")
    c.peer(pair.b)
    c.export("web", c.serve(echo))
    port = c.imported("web", pair.b)
    until(lambda: re.search("peer 'siteb' is unreachable.*certificate", c.control.log()), what="the refusal")
    assert refused(c, port)
    pair.a.peer(c)
    back = pair.a.imported("back", c)
    until(lambda: re.search("peer 'sitec' is unreachable.*certificate", pair.a.control.log()), what="the refusal")
    assert refused(pair.a, back)
    assert pair.b.link.metrics().sum("spanwire_link_refused_total", reason="certificate") >= 1
    assert answers(pair.a, pair.port)


def test_a_peer_that_lies_about_its_name(world):
    pair = Pair(world)
    c = world.site("sitec")
    c.policy("all")
    c.export("web", c.serve(echo))
    # As a server: what should be siteb has the certificate of sitec.
    pair.a.peer(pair.b, (c.ip4, LISTEN))
    until(lambda: refused(pair.a, pair.port), what="the refusal")
    until(lambda: re.search("peer 'siteb' is unreachable", pair.a.control.log()), what="its reason")
    assert not re.search("connection (opened|complete)", c.link.log())
    # As a client: the attributes name another than the certificate.
    liar = Foreign(c.fabric_dir, pair.b)
    attributes = {"peer.clusterlink.net/name": "sitea"}
    assert liar.token("default", "web", **attributes)[0] == 403
    assert liar.token("default", "web", **{"peer.clusterlink.net/name": "sitec"})[0] == 200
    with pytest.raises((ssl.SSLError, OSError)):
        Foreign(world.fabric.peer("nameless", dns=[]), pair.b).token("default", "web")


def test_tokens_are_good_for_one_peer_one_use_and_some_seconds(world):
    pair = Pair(world)
    mine, thief = Foreign(pair.a.fabric_dir, pair.b), Foreign(world.fabric.peer("mallory"), pair.b)
    attributes = {"peer.clusterlink.net/name": "sitea", "client.clusterlink.net/namespace": "x"}

    def token():
        status, fields, body = mine.token("default", "web", **attributes)
        assert status == 200, body
        return fields["x-access-token"]

    def shown(who, t):
        s, start, _ = who.tunnel(t)
        with s:
            return int(start.split()[1]), start.endswith("200 OK") and ask(s) == b"hello"
    late, t = token(), token()
    assert shown(thief, t) == (403, False)
    assert shown(mine, t) == (200, True), "the thief has used nothing up"
    assert shown(mine, t) == (403, False)
    expires = json.loads(_claims(late))["exp"]
    until(lambda: time.time() > expires + 1, what="the token to expire")
    assert shown(mine, late) == (403, False)
    for result in ("stolen", "replayed", "expired"):
        assert pair.b.metric("spanwire_link_tokens_total", result=result) == 1, result


# -- while it runs ----------------------------------------------------------------------------
def test_certificates_of_a_fabric_are_replaced_while_it_runs(world):
    """On both sites, from the files of their control planes; a file that is no certificate changes nothing."""
    pair = Pair(world)
    with pair.a.dial(pair.port) as s:
        assert ask(s) == b"hello"
        for site in (pair.a, pair.b):
            before = thumbprint(site.fabric_dir)
            world.fabric.peer(site.name, where=site.fabric_dir)
            assert thumbprint(site.fabric_dir) != before
            site.link.wait_log("fabric certificate renewed")
            until(lambda: answers(pair.a, pair.port), what="the link with a new certificate")
            assert ask(s) == b"hello"
        (pair.b.fabric_dir / "cert.pem").write_text("rubbish")
        until(lambda: pair.b.metric("spanwire_link_fabric_reloads_total", result="error")
              or pair.b.metric("spanwire_link_fabric_reloads_total", result="failed"), what="the refusal of the file")
        assert answers(pair.a, pair.port) and ask(s) == b"hello"


def test_no_connection_is_refused_while_certificates_are_replaced(world):
    """Control plane and data plane of a site get them one after the other, and tokens are bound to them."""
    pair = Pair(world)
    done, results = threading.Event(), []

    def connect():
        while not done.is_set():
            results.append(answers(pair.a, pair.port))
    threads = [threading.Thread(target=connect) for _ in range(4)]
    for t in threads:
        t.start()
    try:
        for i in range(1, 9):
            for s in (pair.a, pair.b):
                world.fabric.peer(s.name, where=s.fabric_dir)
            until(lambda: len(re.findall("fabric certificate renewed", pair.a.link.log())) >= i, what="the renewal")
            some = len(results)
            until(lambda: len(results) > some + 20, what="connections")
    finally:
        done.set()
        for t in threads:
            t.join()
    assert all(results), f"{results.count(False)} of {len(results)} connections were refused"


def test_a_peer_that_never_answers_costs_only_its_turn(world):
    """Its port accepts and says nothing; the next source is used, and others do not wait for it."""
    pair = Pair(world)
    with pair.b.ns.entered():
        silent = socket.create_server((pair.b.ip4, 0), backlog=4096)
    world.stack.callback(silent.close)
    pair.a.peer(None, (pair.b.ip4, silent.getsockname()[1]), name="silent")
    pair.a.imports("slow", ("silent", "web"), ("siteb", "web"), scheme="static")
    port = pair.a.imported_port("slow")
    with contextlib.ExitStack() as stack:
        waiting = [stack.enter_context(pair.a.dial(port)) for _ in range(50)]
        assert answers(pair.a, pair.port), "another import is not held up"
        for s in waiting:
            assert ask(s) == b"hello"


def test_a_flood_of_connections_is_authorised_or_refused(world):
    """Each gets an answer, open ones go on, and afterwards all is as before."""
    pair = Pair(world)
    with pair.a.dial(pair.port) as kept, contextlib.ExitStack() as stack:
        assert ask(kept) == b"hello"
        flood, good = [], 0
        for _ in range(FLOOD):
            with contextlib.suppress(ConnectionResetError):  # who is refused may learn it at once
                flood.append(stack.enter_context(pair.a.dial(pair.port)))
        for s in flood:
            with contextlib.suppress(ConnectionError):
                good += ask(s) == b"hello"
        # At most 256 requests to one peer are under way; who comes while they are is told so.
        assert good >= min(FLOOD, 256), f"{good} of {FLOOD}: {pair.a.control.log()[-500:]}"
        until(lambda: pair.a.link.log().count("256 requests to peer 'siteb' are under way") >= FLOOD - good,
              what="a reason for each refusal")
        assert ask(kept) == b"hello"
    until(lambda: pair.a.link.metrics().sum("spanwire_link_connections_open") == 0, what="all to be closed")
    assert answers(pair.a, pair.port)


def test_everything_over_ipv6(world):
    """The gateway of the peer, and the service."""
    pair = Pair(world)
    pair.b.export("six", pair.b.serve(echo, host=pair.b.ip6), host=pair.b.ip6)
    pair.a.peer(pair.b, (pair.b.ip6, LISTEN))
    port = pair.a.imported("six", pair.b)
    until(lambda: answers(pair.a, port), what="the link over IPv6")
    line = pair.a.link.wait_log(r'connection complete.*dst.service="default/six".*link.peer="siteb".*').group(0)
    assert f"dst.addr=[{pair.b.ip6}]:{LISTEN}" in line, line
