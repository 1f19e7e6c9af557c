# SPDX-License-Identifier: Apache-2.0
"""Two sites that meet by a code: certificates of one fabric, a Peer object on both sides, and a connection between them."""
import contextlib
import datetime
import json
import os
import signal
import socket
import time
import types

import pytest
from cryptography import x509
from harness.join import Fabric
from harness.link import Link
from harness.link_control import API, SYSTEM, Site, thumbprint
from harness.metrics import Metrics
from harness.ports import free_port
from harness.serve import Each
from harness.wait import GUARD, SLOW, until


def echo(s):
    while data := s.recv(4096):
        s.sendall(data)


class Place:
    """A site: control plane, data plane, and where others reach it."""

    def __init__(self, binary, where, stack, fabric, *flags):
        self.gateway = free_port()
        self.fabric_dir = fabric
        self.join = Fabric(binary, where, "--link-listen", "127.0.0.1:0", "--link-fabric", str(fabric),
                           "--link-ports", "1024-49151", "--link-gateway", f"127.0.0.1:{self.gateway}",
                           "--upstream-allow", "127.0.0.0/8", "--link-export-host", "127.0.0.1", *flags)
        stack.callback(self.join.close)
        self.control = self.join.control
        self.site = Site(self.control, self.control.data / "link-site", "site")
        self.link = Link(binary, types.SimpleNamespace(where=self.site.site, port=self.site.port),
                         port=self.gateway, wait=False)
        stack.callback(self.link.stop, None)

    def peer(self, name):
        return self.control.get(f"{API}/namespaces/{SYSTEM}/peers/{name}")

    def reaches(self, name):
        conditions = self.peer(name).json.get("status", {}).get("conditions", [])
        return any(c["type"] == "PeerReachable" and c["status"] == "True" for c in conditions)

    def code(self, name):
        done = self.join.token("create", "--for", "peer", "--name", name)
        [line] = done.stdout.splitlines()
        return line


@pytest.fixture
def closing():
    with contextlib.ExitStack() as stack:
        yield stack


def create(binary, where, *flags):
    Fabric.command(types.SimpleNamespace(binary=binary), "fabric", "create", "--name", "east", "--dir", str(where), *flags)


@pytest.fixture
def places(binary, tmp_path, request):
    with contextlib.ExitStack() as stack:
        flags = getattr(request, "param", ())
        create(binary, tmp_path / "fabric", *(f for f in flags if f.startswith("--ttl")))
        yield (Place(binary, tmp_path / "east", stack, tmp_path / "fabric", *(f for f in flags if not f.startswith("--ttl"))),
               Place(binary, tmp_path / "west", stack, tmp_path / "west-fabric"))


def meet(east, west):
    east.join.join(east.code("west"), west.fabric_dir, "--gateway", f"127.0.0.1:{west.gateway}", "--kubeconfig",
                   str(west.control.kubeconfig), check=True)


def imported(east, west, service):
    """Exports the service of east to west, and returns the port of its import there."""
    port = free_port()
    east.site.put("exports", "Export", "web", {"host": "127.0.0.1", "port": service.port})
    west.site.put("imports", "Import", "web", {
        "port": 80, "targetPort": port, "lbScheme": "round-robin",
        "sources": [{"peer": "east", "exportName": "web", "exportNamespace": "default"}]})
    for place in (east, west):
        place.site.policy("all")
    until(lambda: answered(port), what="an answer through both sites")
    return port


def answered(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), GUARD * SLOW) as s:
        s.sendall(b"hello")
        return s.recv(5) == b"hello"
    return False


def test_two_sites_meet_by_a_code(places):
    east, west = places
    until(lambda: "no certificate of a fabric" in west.control.log(), what="a control plane that waits for a fabric")
    line = east.code("west")
    done = east.join.join(line, west.fabric_dir, "--gateway", f"127.0.0.1:{west.gateway}", "--kubeconfig",
                          str(west.control.kubeconfig), check=True)
    assert "Joined as peer" in done.stdout and "Peer 'east' is written" in done.stdout
    cert = x509.load_pem_x509_certificate((west.fabric_dir / "cert.pem").read_bytes())
    sans = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert sans.get_values_for_type(x509.DNSName) == ["west"]
    assert west.peer("east").json["spec"] == {"gateways": [{"host": "127.0.0.1", "port": east.gateway}]}
    assert east.peer("west").json["spec"] == {"gateways": [{"host": "127.0.0.1", "port": west.gateway}]}
    assert json.loads((west.fabric_dir / "peer.json").read_text())["metadata"]["name"] == "east"
    until(lambda: west.reaches("east") and east.reaches("west"), what="the sites to see each other")

    # What one exports the other reaches.
    service = Each(echo)
    try:
        port = imported(east, west, service)
        done = east.join.command("status", "links", "--kubeconfig", str(west.control.kubeconfig), check=False)
        assert f"127.0.0.1:{east.gateway}" in done.stdout and "PeerReachable yes" in done.stdout, done
        assert f" {port} " in done.stdout and "ImportTargetPortValid yes" in done.stdout, done
        until(lambda: "--link-address says where it is reached" in west.control.log(), what="a hint about loopback")
        assert "write failed" not in west.control.log(), "no EndpointSlice of loopback is tried"
        done = east.join.command("status", "links", "--json", "--kubeconfig", str(east.control.kubeconfig))
        said = json.loads(done.stdout)
        assert [[o["metadata"]["name"] for o in said[k]] for k in ("peers", "imports", "exports")] == [["west"], [], ["web"]]
    finally:
        service.close()

    # Another certificate for the same key; the control plane takes it, and other gateways are told.
    before = thumbprint(west.fabric_dir)
    done = east.join.command("join", "--state", str(west.fabric_dir), "--renew", "--gateway", "127.0.0.1:1")
    assert "Renewed; the certificate is" in done.stdout
    assert thumbprint(west.fabric_dir) != before
    until(lambda: west.control.log().count("fabric certificate of 'west' in use") >= 2, what="the new certificate")
    assert east.peer("west").json["spec"]["gateways"][0]["port"] == 1


def test_five_hundred_connections_at_once(places, closing):
    """Each needs two decisions and a token of the other site: none is refused, whatever the order they arrive in."""
    east, west = places
    meet(east, west)
    service = Each(echo)
    closing.callback(service.close)
    port = imported(east, west, service)
    conns = [closing.enter_context(socket.socket()) for _ in range(500)]
    for s in conns:
        s.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            s.connect(("127.0.0.1", port))
    for i, s in enumerate(conns):
        s.settimeout(GUARD * SLOW)
        s.sendall(f"{i:05}".encode())
    for i, s in enumerate(conns):
        assert s.recv(5) == f"{i:05}".encode(), west.control.log()[-2000:] + west.link.log()[-2000:]
    # Our data planes agree on HTTP/2: all questions went over one connection.
    assert len(to_port(west.control.proc.pid, east.gateway)) == 1


def test_a_peer_deleted_while_it_is_asked(places, closing):
    """Requests under way over HTTP/2 fail at once, and the control plane goes on."""
    east, west = places
    meet(east, west)
    service = Each(echo)
    closing.callback(service.close)
    port = imported(east, west, service)
    os.kill(east.control.proc.pid, signal.SIGSTOP)
    closing.callback(os.kill, east.control.proc.pid, signal.SIGCONT)
    conns = [closing.enter_context(socket.create_connection(("127.0.0.1", port), GUARD * SLOW)) for _ in range(50)]
    west.site.drop("peers", "east", SYSTEM)
    for s in conns:
        with contextlib.suppress(ConnectionResetError):
            assert s.recv(1) == b""
    assert west.peer("east").status == 404 and west.control.proc.poll() is None


def to_port(pid, port):
    """Established connections of a process to a port of this machine."""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            inodes.add(os.readlink(f"/proc/{pid}/fd/{fd}").removeprefix("socket:[").removesuffix("]"))
    with open(f"/proc/{pid}/net/tcp", encoding="utf-8") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    return [r for r in rows if r[9] in inodes and r[3] == "01" and int(r[2].split(":")[1], 16) == port]


def expiry(place):
    text = place.control.get("/metrics").body.decode()
    return Metrics(text).sum("spanwire_certificate_expiry_seconds", identity="fabric")


@pytest.mark.parametrize("places", [("--link-peer-ttl", "15s")], indirect=True)
def test_a_certificate_is_renewed_before_it_ends(places, closing):
    """Twice, without the open connection or a new one noticing; a site that does not answer is asked again."""
    east, west = places
    meet(east, west)
    service = Each(echo)
    closing.callback(service.close)
    port = imported(east, west, service)
    first = expiry(west)
    assert first == ends_at(west.fabric_dir)
    kept = closing.enter_context(socket.create_connection(("127.0.0.1", port), GUARD * SLOW))
    lost = 0
    while time.time() < first + 5:
        kept.sendall(b"hello")
        assert kept.recv(5) == b"hello"
        lost += not answered(port)
        time.sleep(0.05)
    assert expiry(west) == ends_at(west.fabric_dir) > first
    assert west.control.log().count("renewed") >= 1
    assert lost == 0, west.control.log()[-3000:] + west.link.log()[-3000:]

    # The site that signs is not there for a while.
    state = west.fabric_dir / "machine.json"
    good = state.read_text()
    broken = json.loads(good)
    broken["joinAddress"] = f"127.0.0.1:{free_port()}"
    replace(state, json.dumps(broken))
    until(lambda: "not renewed, valid for another" in west.control.log(), what="a failed attempt")
    before = expiry(west)
    replace(state, good)
    until(lambda: expiry(west) > before, what="a later attempt")
    until(lambda: answered(port), what="a connection with the new certificate")
    counts = Metrics(west.control.get("/metrics").body.decode())
    assert counts.sum("spanwire_link_fabric_renewals_total", result="failed") >= 1
    assert counts.sum("spanwire_link_fabric_renewals_total", result="ok") >= 2


@pytest.mark.parametrize("places", [("--ttl=15s", "--link-peer-ttl", "1h")], indirect=True)
def test_the_site_with_the_authority_renews_its_own(places, closing):
    """For the key it has, so that one file changes."""
    east, west = places
    meet(east, west)
    service = Each(echo)
    closing.callback(service.close)
    port = imported(east, west, service)
    first, key = expiry(east), (east.fabric_dir / "key.pem").read_bytes()
    kept = closing.enter_context(socket.create_connection(("127.0.0.1", port), GUARD * SLOW))
    until(lambda: expiry(east) > first + 600, what="the certificate in use to be another")
    assert expiry(east) == ends_at(east.fabric_dir) and (east.fabric_dir / "key.pem").read_bytes() == key
    until(lambda: time.time() > first + 1, what="the first certificate to end")
    kept.sendall(b"hello")
    assert kept.recv(5) == b"hello" and answered(port)
    counts = Metrics(east.control.get("/metrics").body.decode())
    assert counts.sum("spanwire_link_fabric_renewals_total", result="ok") == 1
    assert counts.sum("spanwire_link_fabric_renewals_total", result="failed") == 0


def replace(path, text):
    (path.parent / "next").write_text(text)
    (path.parent / "next").rename(path)


def ends_at(directory):
    cert = x509.load_pem_x509_certificate((directory / "cert.pem").read_bytes())
    return cert.not_valid_after.replace(tzinfo=datetime.timezone.utc).timestamp()


def test_a_certificate_made_by_hand_is_warned_about(binary, tmp_path, closing):
    create(binary, tmp_path / "fabric", "--ttl", "9s")
    (tmp_path / "fabric/ca.key").unlink()  # as where the authority is elsewhere
    east = Place(binary, tmp_path / "east", closing, tmp_path / "fabric")
    assert expiry(east) == ends_at(tmp_path / "fabric")
    until(lambda: "was made by neither 'spanwire join' nor 'spanwire fabric create': replace it" in east.control.log(), what="a warning")


def test_names_and_gateways_are_checked(places, tmp_path):
    east, west = places
    done = east.join.join(east.code("east"), tmp_path / "a")
    assert done.returncode == 1 and "could not be signed" in done.stderr
    until(lambda: "this site's own name" in east.control.log(), what="the reason in the log")
    done = east.join.join(east.code("west"), tmp_path / "b", "--gateway", "nowhere")
    assert done.returncode == 1 and "'nowhere' is not HOST:PORT" in done.stderr
    # A Peer that somebody else wrote is not replaced.
    east.site.peer("west", 1)
    line = east.code("west")
    done = east.join.join(line, tmp_path / "c", "--gateway", "127.0.0.1:2")
    assert done.returncode == 1 and "a Peer of this name exists" in done.stderr
    assert east.peer("west").json["spec"]["gateways"][0]["port"] == 1
    # Without gateways nothing is written there; without a kubeconfig the object is in the state.
    done = east.join.join(line, tmp_path / "c", env={"KUBECONFIG": ""}, check=True)
    assert "kubectl apply -f" in done.stdout
    assert json.loads((tmp_path / "c" / "peer.json").read_text())["metadata"]["name"] == "east"
    assert west.peer("east").status == 404
    # One name is one site: policies and certificates know no more of it.
    again = east.code("west")
    done = east.join.join(again, tmp_path / "d")
    assert done.returncode == 1 and "a site of this name has joined" in done.stderr
    assert not (tmp_path / "d" / "cert.pem").exists()
    rows = east.join.token("list", "--all-namespaces").stdout.splitlines()
    [listed] = [row for row in rows if " west " in row and " from " in row]
    east.join.token("delete", listed.split()[0])
    east.join.join(again, tmp_path / "d", check=True)
    assert (tmp_path / "d" / "cert.pem").exists()
