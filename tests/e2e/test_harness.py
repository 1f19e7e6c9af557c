# SPDX-License-Identifier: Apache-2.0
"""The harness checked without a node, so that a failure elsewhere is about the node."""
import os
import socket
import struct
import subprocess
import threading

import pytest
from harness import hang, left, traffic, wait
from harness.hbone_peer import (App, ErrorCodes, ForwardApp, GatewayApp, H2Peer, StreamTransport,
                                rejected)
from harness.mesh import PORT
from harness.netns import hbone_syns
from harness.wait import GUARD


def test_pods_reach_each_other_and_the_outside(mesh):
    for src, dst in ((mesh.u1, mesh.u2), (mesh.u1, mesh.p1), (mesh.topo.outside, mesh.u2)):
        servers = [mesh.echo(dst, 9000, ip=ip) for ip in (dst.ip4, dst.ip6)]
        for s in servers:
            mesh.roundtrip(src, s.addr[0], 9000)
            s.stop()


def test_a_pod_that_goes_takes_no_address_of_its_node_along(mesh):
    """The bridge of a node does not take the address of a port, which it would lose with it: see new_bridge."""
    node = mesh.topo.nodes["node1"]
    node.ip("link add low address 02:00:00:00:00:00 type veth peer name far", "link set far up",
            "link set low master pods up")
    mesh.echo(mesh.u2, 9000)
    mesh.u1.ip("neigh flush dev eth0")
    mesh.roundtrip(mesh.u1, mesh.u2, 9000)  # asks for its gateway
    node.ip("link del low")
    mesh.roundtrip(mesh.u1, mesh.u2, 9000)


def test_what_is_left_running_is_ended():
    with subprocess.Popen(["sleep", "600"]) as p:
        # Popen returns in the middle of execve(): the kernel sets the command line a moment later.
        wait.until(lambda: left.children()[p.pid] == "sleep 600")
        assert left.end(0.1) == [f"{p.pid}: sleep 600"]
    assert p.returncode == -9 and p.pid not in left.children()


def test_what_is_not_there_yet_is_waited_for():
    steps = iter([{}, {"status": None}, {"status": []}, {"status": ["ready"]}])
    assert wait.until(lambda: next(steps)["status"][0]) == "ready"
    with pytest.raises(AttributeError):  # a mistake of the test is none of these
        wait.until(lambda: None.status)


def test_what_hangs_is_ended():
    over = threading.Event()
    with pytest.raises(hang.Hung), hang.guard(0.1):
        over.wait()
    with pytest.raises(hang.Hung), hang.guard(0.1), subprocess.Popen(["sleep", "600"]) as p:
        try:
            p.wait()
        finally:
            p.kill()
    with hang.guard():  # what is in time is not disturbed
        pass


def test_captured_pod_is_redirected_in_both_directions(mesh):
    """What a proxy sees: the redirected connection with its original destination."""
    out = traffic.HoldServer(mesh.c1, ("0.0.0.0", 15001))
    inb = traffic.HoldServer(mesh.s1, ("0.0.0.0", 15006))
    mesh.keep(out)
    mesh.keep(inb)
    mesh.connect(mesh.c1, "203.0.113.9", 81)
    got = out.take()
    dst = got.getsockopt(socket.IPPROTO_IP, 80, 16)
    assert struct.unpack("!H", dst[2:4])[0] == 81
    assert socket.inet_ntoa(dst[4:8]) == "203.0.113.9"
    mesh.connect(mesh.u1, mesh.s1, 82)
    dst = inb.take().getsockopt(socket.IPPROTO_IP, 80, 16)
    assert struct.unpack("!H", dst[2:4])[0] == 82


def test_marked_and_spoofed_connections_come_back(mesh):
    """The routing half of redirection: replies to a spoofed source reach the proxy's socket."""
    server = mesh.echo(mesh.s1)
    sock = mesh.s1.socket()
    mesh.keep(sock)
    sock.settimeout(GUARD)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 1337)
    sock.setsockopt(socket.SOL_IP, 19, 1)  # IP_TRANSPARENT
    sock.bind((mesh.u2.ip4, 0))
    sock.connect((mesh.s1.ip4, PORT))
    traffic.echo_once(sock)
    assert server.peer_ips() == {mesh.u2.ip4}


def test_echo_server_keeps_half_closed_connections(mesh):
    mesh.echo(mesh.u2)
    sock = mesh.connect(mesh.u1, mesh.u2)
    sock.sendall(b"x" * 300000)
    sock.shutdown(socket.SHUT_WR)
    assert len(traffic.read_all(sock)) == 300000


def test_bulk_helpers(mesh):
    mesh.serve(mesh.u2, traffic.upload_handler, 9001)
    mesh.serve(mesh.u2, traffic.download_handler(40 << 20), 9002)
    traffic.upload(mesh.connect(mesh.u1, mesh.u2, 9001), 40 << 20)
    traffic.download(mesh.connect(mesh.u1, mesh.u2, 9002), 40 << 20)


def test_peers_speak_to_each_other(mesh):
    server = mesh.hbone_server(mesh.p2, App(headers=[("baggage", "a=b")], greeting=b"hi"))
    before = hbone_syns(mesh.p2)
    peer = mesh.hbone(mesh.p2)
    assert (peer.alpn, peer.peer_identity) == ("h2", mesh.p2.identity)
    stream = peer.tunnel("10.0.2.6:80", ("forwarded", 'for="1.2.3.4:5"'))
    assert stream.status == 200 and stream.headers["baggage"] == "a=b"
    assert peer.recv(stream, 2) == b"hi"
    peer.echo(stream, 3 << 20)
    peer.ping()
    peer.end(stream)
    peer.wait(lambda: stream.ended)
    seen = server.streams[0]
    assert seen.authority == "10.0.2.6:80" and seen.headers["forwarded"] == 'for="1.2.3.4:5"'
    assert server.peers[0].peer_identity == mesh.p1.identity
    assert hbone_syns(mesh.p2) == before + 1


def test_peer_reset_codes_and_refusals(mesh):
    server = mesh.hbone_server(mesh.p2)
    peer = mesh.hbone(mesh.p2)
    stream = peer.tunnel("10.0.2.6:80")
    peer.rst(stream, ErrorCodes.CONNECT_ERROR)
    server.wait(lambda: server.streams[0].reset == ErrorCodes.CONNECT_ERROR)
    server.app.status = 503
    assert peer.tunnel("10.0.2.6:80").status == 503
    assert rejected(mesh.p1, (mesh.p2.ip4, 15008), mesh.client_context(), "10.0.2.6:80") \
        is False
    from harness import certs
    assert rejected(mesh.p1, (mesh.p2.ip4, 15008), certs.client_context(mesh.ca), "10.0.2.6:80")


def test_forwarding_and_nested_peers(mesh):
    mesh.echo(mesh.u2)
    mesh.hbone_server(mesh.p2, ForwardApp(mesh.p2, lambda s: (mesh.u2.ip4, PORT)))
    peer = mesh.hbone(mesh.p2)
    stream = peer.tunnel("10.0.2.5:8080")
    peer.echo(stream, 100000)
    peer.end(stream)
    peer.wait(lambda: stream.ended)

    gateway = GatewayApp(mesh.server_context(mesh.q2.identity))
    mesh.hbone_server(mesh.w2, gateway)
    outer = mesh.hbone(mesh.w2)
    carrier = outer.tunnel("svc.example:80")
    inner = H2Peer(StreamTransport(outer, carrier), mesh.client_context(mesh.p1.identity))
    inner.open()
    inner_stream = inner.tunnel("svc.example:80")
    inner.echo(inner_stream, 200000)
    assert gateway.inner[0].peer_identity == mesh.p1.identity


def test_forged_certificates_are_good_unless_told_otherwise(mesh):
    """Otherwise the tests of bad ones would prove nothing."""
    from harness.netns import run
    good = mesh.ca.forge(["spiffe://cluster.local/ns/a/sa/b"])
    assert "OK" in run("openssl", "verify", "-CAfile", mesh.ca.root, good.crt)
    crl = mesh.dir / "crl.pem"
    crl.write_bytes(mesh.ca.crl(good.x509().serial_number))
    out = run("openssl", "verify", "-crl_check", "-CRLfile", str(crl), "-CAfile", mesh.ca.root,
              good.crt, check=False)
    assert "certificate revoked" in out


@pytest.mark.skipif(os.environ.get("SPANWIRE_E2E_REDIRECT") == "script", reason="script rules")
def test_node_binary_answers(binary):
    from harness.netns import run
    assert "spanwire" in run(binary, "version")


def test_raw_mode_of_the_peer(mesh):
    """Frames made by hand are sent as they are and the answers are seen."""
    from hpack import Encoder
    from hyperframe.frame import HeadersFrame, RstStreamFrame
    server = mesh.hbone_server(mesh.p2)
    peer = mesh.hbone(mesh.p2).go_raw()
    frame = HeadersFrame(1, Encoder().encode([(":method", "CONNECT"), (":authority", "a:1")]))
    frame.flags.add("END_HEADERS")
    peer.raw(frame.serialize())
    assert peer.wait_status(peer._stream(1)) == 200
    peer.raw(RstStreamFrame(1, error_code=2).serialize())
    server.wait(lambda: server.streams[0].reset == 2)
    peer.raw(b"\0\0\5\4\0\0\0\0\0" + b"12345")
    peer.wait(lambda: peer.goaway or peer.gone)


def test_a_table_is_shown(record_property):
    """For test_run_tests, which asks for it; other runs need not show it."""
    if os.environ.get("SHOW_A_TABLE"):
        record_property("shows", 'one <line> & "more"\nand another')


def test_a_failure_on_demand():
    """For test_run_tests: fails always, or the first time."""
    mark = os.environ.get("FAIL_A_TEST")
    if not mark:
        return
    first = mark == "always" or not os.path.exists(mark)
    if mark != "always":
        open(mark, "w", encoding="ascii").close()
    assert not first
