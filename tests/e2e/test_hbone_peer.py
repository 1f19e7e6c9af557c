# SPDX-License-Identifier: Apache-2.0
"""HBONE against a foreign implementation (python3-h2) in both roles: headers, statuses, pool."""
import os
import re
import threading
import time

import pytest
from harness import traffic
from harness.hbone_peer import App, ErrorCodes, Settings
from harness.mesh import PORT
from harness.netns import hbone_syns
from harness.wait import SANITIZED, guard, stays, until
from hyperframe.frame import GoAwayFrame


@pytest.fixture
def inbound(mesh):
    """A node with an echo application behind it, seen from a foreign client."""
    mesh.node = mesh.shared("node2")
    mesh.app = mesh.echo(mesh.s2)
    mesh.authority = f"{mesh.s2.ip4}:{PORT}"
    return mesh


@pytest.fixture
def outbound(mesh):
    """A node whose destination is a foreign server."""
    mesh.node = mesh.shared("node1")
    return mesh


# -- our server side --------------------------------------------------------------------------

@pytest.mark.tsan
def test_connect_reaches_the_application(inbound):
    peer = inbound.hbone(inbound.s2)
    assert peer.alpn == "h2" and peer.tls.version() == "TLSv1.3"
    assert peer.peer_identity == inbound.s2.identity
    stream = peer.tunnel(inbound.authority)
    assert stream.status == 200
    peer.echo(stream)
    assert inbound.app.peer_ips() == {inbound.p1.ip4}, "the client's address is kept"
    peer.end(stream)
    peer.wait(lambda: stream.ended)
    line = inbound.node.wait_access(direction="inbound")[-1]
    assert line["src.identity"] == inbound.p1.identity
    assert line["bytes_sent"] == "64" and line["bytes_recv"] == "64"


def test_settings_of_the_server(inbound):
    peer = inbound.hbone(inbound.s2)
    peer.ping()
    assert peer.remote_settings[Settings.INITIAL_WINDOW_SIZE] == 4 << 20
    assert peer.remote_settings[Settings.MAX_FRAME_SIZE] == 1 << 20
    assert peer.remote_settings[Settings.MAX_HEADER_LIST_SIZE] == 65536
    assert peer.remote_settings[Settings.MAX_CONCURRENT_STREAMS] == 200
    assert int(Settings.ENABLE_CONNECT_PROTOCOL) not in peer.remote_settings
    assert peer.window_granted + 65535 == 16 << 20


def test_response_carries_baggage_of_the_destination(inbound):
    peer = inbound.hbone(inbound.s2)
    stream = peer.tunnel(inbound.authority)
    items = dict(i.split("=", 1) for i in stream.headers["baggage"].split(","))
    assert items["k8s.namespace.name"] == "default"
    assert items["k8s.deployment.name"] == "s2"
    assert items["service.name"] == "s2" and items["service.version"] == "v1"
    assert items["k8s.cluster.name"] == "Kubernetes"


def test_response_baggage_can_be_switched_off(mesh):
    mesh.shared("node2", "--response-baggage", "false")
    mesh.echo(mesh.s2)
    stream = mesh.hbone(mesh.s2).tunnel(f"{mesh.s2.ip4}:{PORT}")
    assert stream.status == 200 and "baggage" not in stream.headers


def test_ok_is_sent_only_after_the_application_answers(mesh):
    """A full backlog leaves the connect to the application pending: no 200 meanwhile."""
    mesh.shared("node2")
    listener = mesh.keep(traffic.listen(mesh.s2, (mesh.s2.ip4, 9300), backlog=0))
    mesh.connect(mesh.s2, mesh.s2, 9300)  # fills the queue
    peer = mesh.hbone(mesh.s2)
    stream = peer.connect(f"{mesh.s2.ip4}:9300")
    stays(lambda: (peer.pump(0.05), stream.status is None)[1], 0.5, "no answer yet")
    mesh.keep(listener.accept()[0])
    assert peer.wait_status(stream) == 200


@pytest.mark.parametrize("headers, status", [
    ([(":method", "GET"), (":scheme", "https"), (":authority", "{a}"), (":path", "/")], 400),
    ([(":method", "POST"), (":scheme", "https"), (":authority", "{a}"), (":path", "/")], 400),
    ([(":method", "CONNECT"), (":authority", "{ip}")], 400),
    ([(":method", "CONNECT"), (":authority", "{ip}:")], 400),
    ([(":method", "CONNECT"), (":authority", "{ip}:notaport")], 400),
    ([(":method", "CONNECT"), (":authority", "{ip}:65536")], 400),
    ([(":method", "CONNECT"), (":authority", "{ip}:-1")], 400),
    ([(":method", "CONNECT"), (":authority", "s2")], 400),
    ([(":method", "CONNECT"), (":authority", "10.0.2.99:8080")], 400),
    ([(":method", "CONNECT"), (":authority", "10.0.1.3:8080")], 400),
    ([(":method", "CONNECT"), (":authority", "127.0.0.1:8080")], 400),
    ([(":method", "CONNECT"), (":authority", "[::1]:8080")], 400),
    ([(":method", "CONNECT"), (":authority", "nobody.default.svc.cluster.local:80")], 503),
    ([(":method", "CONNECT"), (":authority", "{ip}:15001")], 503),
    ([(":method", "CONNECT"), (":authority", "{ip}:15006")], 503),
    ([(":method", "CONNECT"), (":authority", "{ip}:15008")], 503),
    ([(":method", "CONNECT"), (":authority", "{ip}:9999")], 503),
])
def test_refusals(inbound, headers, status):
    """Statuses of the refused requests, and that the connection lives on after them."""
    peer = inbound.hbone(inbound.s2)
    fill = {"a": inbound.authority, "ip": inbound.s2.ip4}
    stream = peer.request([(k, v.format(**fill)) for k, v in headers])
    assert peer.wait_status(stream) == status
    peer.wait(lambda: stream.finished, what="END_STREAM of the refusal")
    good = peer.tunnel(inbound.authority)
    assert good.status == 200
    peer.echo(good)
    assert inbound.app.accepted == 1, "a refused request must not reach the application"
    inbound.node.wait_access(direction="inbound", message=None)


def test_missing_authority(inbound):
    peer = inbound.hbone(inbound.s2)
    stream = peer.request([(":method", "CONNECT")])
    peer.wait(lambda: stream.status is not None or stream.reset is not None or peer.gone)
    assert stream.status in (400, None)
    assert inbound.app.accepted == 0


def test_path_on_connect_is_a_stream_error(inbound):
    peer = inbound.hbone(inbound.s2)
    stream = peer.request([(":method", "CONNECT"), (":scheme", "https"), (":path", "/"),
                           (":authority", inbound.authority)])
    peer.wait(lambda: stream.reset is not None)
    assert stream.reset == 1, "PROTOCOL_ERROR"
    assert peer.tunnel(inbound.authority).status == 200


def test_many_streams_on_one_connection(inbound):
    peer = inbound.hbone(inbound.s2)
    streams = [peer.connect(inbound.authority) for _ in range(150)]
    for s in streams:
        assert peer.wait_status(s) == 200
    for s in streams:
        peer.send(s, b"%d" % s.id)
    for s in streams:
        assert peer.recv(s, len(b"%d" % s.id)) == b"%d" % s.id
    assert inbound.app.accepted == 150


def test_ipv6_authority(inbound):
    inbound.echo(inbound.s2, ip=inbound.s2.ip6)
    peer = inbound.hbone(inbound.s2, ip=inbound.s2.ip6)
    stream = peer.tunnel(f"[{inbound.s2.ip6}]:{PORT}")
    assert stream.status == 200
    peer.echo(stream)
    assert peer.tunnel(inbound.authority).status == 400, "reached over v6, so v4 is a mismatch"


def test_large_data_frames(inbound):
    """DATA frames of the advertised megabyte."""
    peer = inbound.hbone(inbound.s2)
    peer.ping()
    stream = peer.tunnel(inbound.authority)
    assert peer.h2.max_outbound_frame_size == 1 << 20
    peer.echo(stream, 4 << 20)


def test_padded_and_empty_data_frames(inbound):
    peer = inbound.hbone(inbound.s2)
    stream = peer.tunnel(inbound.authority)
    for i in range(20):
        peer.h2.send_data(stream.id, b"", pad_length=i)
        peer.h2.send_data(stream.id, b"ab", pad_length=200)
    peer.flush()
    assert peer.recv(stream, 40) == b"ab" * 20


def test_tiny_windows_of_the_client(mesh):
    """A peer that grants one byte at a time still gets every byte."""
    mesh.shared("node2")
    mesh.echo(mesh.s2, greeting=b"abcdefghij" * 30)
    peer = mesh.hbone(mesh.s2, settings={Settings.INITIAL_WINDOW_SIZE: 7}, connection_window=0)
    stream = peer.tunnel(f"{mesh.s2.ip4}:{PORT}")
    assert peer.recv(stream, 300) == b"abcdefghij" * 30


def test_pings_are_answered(inbound):
    peer = inbound.hbone(inbound.s2)
    for _ in range(5):
        peer.ping()


def test_baggage_and_forwarded_of_any_shape_are_harmless(inbound):
    peer = inbound.hbone(inbound.s2)
    for headers in (
            [("baggage", "")], [("baggage", ",,,===,,")], [("baggage", "k8s.cluster.name")],
            [("baggage", "x" * 8000)], [("forwarded", "")], [("forwarded", "for=")],
            [("forwarded", 'for="[::1]:1";host="')], [("forwarded", ";;;=;host==,")],
            [("forwarded", "host=other.example")], [("traceparent", "-" * 55)],
            [("traceparent", "00-" + "g" * 52)], [("traceparent", "x" * 55)],
            [("traceparent", "00-" + "0" * 52)], [("x-forwarded-network", "elsewhere")]):
        stream = peer.tunnel(inbound.authority, *headers)
        assert stream.status == 200, headers
        peer.echo(stream)


def test_hostname_authority(inbound):
    """svc_hostname_port: the service's own port map says where the connection goes."""
    inbound.world.service("web", ["10.96.0.9"], {80: PORT}, ["s2"])
    inbound.apply()
    peer = inbound.hbone(inbound.s2)
    stream = peer.tunnel("web.default.svc.cluster.local:80")
    assert stream.status == 200
    peer.echo(stream)
    assert peer.tunnel("web.default.svc.cluster.local:81").status == 503


def test_hostname_authority_with_named_port(inbound):
    """svc_hostname_named_port: target port 0 means the endpoint knows."""
    inbound.world.service("web", ["10.96.0.9"], {80: 0}, {"s2": {80: PORT}})
    inbound.apply()
    peer = inbound.hbone(inbound.s2)
    stream = peer.tunnel("web.default.svc.cluster.local:80")
    assert stream.status == 200
    peer.echo(stream)


def test_traceparent_is_continued(inbound):
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    peer = inbound.hbone(inbound.s2)
    stream = peer.tunnel(inbound.authority, ("traceparent", f"00-{trace}-00f067aa0ba902b7-01"))
    peer.end(stream)
    inbound.node.wait_access(direction="inbound")
    assert trace in inbound.node.log()


@pytest.mark.skipif(SANITIZED, reason="timing")
def test_node_pings_idle_connections(inbound):
    """First PING after ten seconds; a client that answers stays connected."""
    start = time.monotonic()  # before the node can have begun to wait
    peer = inbound.hbone(inbound.s2)
    stream = peer.tunnel(inbound.authority)
    peer.wait(lambda: peer.pings > 0, what="a PING of the node")
    assert time.monotonic() - start > 8
    peer.echo(stream)


# -- our client side --------------------------------------------------------------------------

@pytest.mark.tsan
def test_request_of_the_client(outbound):
    server = outbound.hbone_server(outbound.p2)
    sock = outbound.connect(outbound.c1, outbound.p2, 80)
    traffic.echo_once(sock)
    peer, stream = server.peers[0], server.streams[0]
    assert peer.peer_identity == outbound.c1.identity
    assert peer.tls.version() == "TLSv1.3" and peer.alpn == "h2"
    assert server.sni == [None], "SNI is never sent"
    h = stream.headers
    assert [k for k, _ in stream.raw_headers if k.startswith(":")] == [":method", ":authority"]
    assert h[":method"] == "CONNECT" and h[":authority"] == f"{outbound.p2.ip4}:80"
    sock.close()
    # As the node saw the application: redirection may have moved the port.
    src = outbound.node.wait_access(direction="outbound")[-1]["src.addr"]
    assert src.startswith(outbound.c1.ip4 + ":")
    assert h["forwarded"] == f'for="{src}"'
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", h["traceparent"])
    assert h["baggage"] == ("k8s.cluster.name=Kubernetes,k8s.namespace.name=default,"
                            "k8s.deployment.name=c1,service.name=c1,service.version=v1")
    assert "x-forwarded-network" not in h


def test_settings_of_the_client(outbound):
    server = outbound.hbone_server(outbound.p2)
    outbound.roundtrip(outbound.c1, outbound.p2, 80)
    peer = server.peers[0]
    assert peer.remote_settings[Settings.INITIAL_WINDOW_SIZE] == 4 << 20
    assert peer.remote_settings[Settings.MAX_FRAME_SIZE] == 1 << 20
    assert peer.remote_settings[Settings.MAX_HEADER_LIST_SIZE] == 16384
    assert peer.remote_settings[Settings.ENABLE_PUSH] == 0
    assert peer.window_granted + 65535 == 16 << 20


def test_locality_in_baggage(outbound):
    outbound.world.workloads["c1"]["locality"] = {"region": "r", "zone": "z", "subzone": "s"}
    outbound.apply()
    server = outbound.hbone_server(outbound.p2)
    outbound.roundtrip(outbound.c1, outbound.p2, 80)
    assert server.streams[0].headers["baggage"].endswith(
        "cloud.region=r,cloud.availability_zone=z")


def test_service_is_named_in_forwarded(outbound):
    outbound.world.service("web", ["10.96.0.9"], {80: 8080}, ["p2"])
    outbound.apply()
    server = outbound.hbone_server(outbound.p2)
    sock = outbound.connect(outbound.c1, "10.96.0.9", 80)
    traffic.echo_once(sock)
    sock.close()
    src = outbound.node.wait_access(direction="outbound")[-1]["src.addr"]
    h = server.streams[0].headers
    assert h[":authority"] == f"{outbound.p2.ip4}:8080"
    assert h["forwarded"] == f'for="{src}";host=web.default.svc.cluster.local'


@pytest.mark.parametrize("status", [400, 401, 403, 503])
def test_refused_by_the_peer(outbound, status):
    server = outbound.hbone_server(outbound.p2, App(status=status))
    assert outbound.refused(outbound.c1, outbound.p2, 80)
    line = outbound.node.wait_access(direction="outbound")[-1]
    assert line["error"] == f"http status: {status}" or f"{status}" in line["error"]
    assert server.accepted >= 1


def test_pooled_connections_share_one_tls_connection(outbound):
    server = outbound.hbone_server(outbound.p2)
    socks = [outbound.connect(outbound.c1, outbound.p2, 80 + i % 3) for i in range(40)]
    for sock in socks:
        traffic.echo_once(sock)
    workers = 2  # one HTTP/2 connection per worker is allowed
    assert 1 <= server.accepted <= workers
    assert len(server.streams) == 40
    for sock in socks:
        sock.close()
    until(lambda: all(s.ended or s.reset is not None for s in server.streams), 5)
    outbound.roundtrip(outbound.c1, outbound.p2, 80)
    assert server.accepted <= workers, "a connection whose streams ended is used again"


def test_pool_is_per_source_identity(outbound):
    server = outbound.hbone_server(outbound.p2)
    outbound.roundtrip(outbound.c1, outbound.p2, 80)
    outbound.roundtrip(outbound.s1, outbound.p2, 80)
    assert {p.peer_identity for p in server.peers} == {outbound.c1.identity,
                                                       outbound.s1.identity}


def test_stream_limit_of_the_peer_is_respected(mesh):
    mesh.shared("node1", "--workers", "1")
    server = mesh.hbone_server(mesh.p2, settings={Settings.MAX_CONCURRENT_STREAMS: 3})
    for _ in range(10):
        # One after the other: a limit is known once the server's SETTINGS have arrived.
        traffic.echo_once(mesh.connect(mesh.c1, mesh.p2, 80))
    open_streams = [sum(1 for s in p.streams.values() if not s.finished) for p in server.peers]
    assert max(open_streams) <= 3 and sum(open_streams) == 10
    assert len(server.live) == 4


def test_refused_stream_goes_to_another_endpoint(outbound):
    """REFUSED_STREAM says that nothing was done with it (RFC 9113, 8.7)."""
    class Busy(App):
        refusals = 0

        def request(self, peer, stream):
            self.refusals += 1
            peer.rst(stream, ErrorCodes.REFUSED_STREAM)
    busy = Busy()
    outbound.world.service("web", ["10.96.0.9"], {80: 80}, ["p2", "q2"])
    outbound.apply()
    outbound.hbone_server(outbound.p2, busy)
    outbound.hbone_server(outbound.q2)
    for i in range(64):
        if i >= 12 and busy.refusals:
            break
        outbound.roundtrip(outbound.c1, "10.96.0.9", 80)
    assert busy.refusals > 0, "the endpoint that refuses was never drawn"


def test_stream_limit_of_the_configuration(mesh):
    mesh.shared("node1", "--workers", "1", "--pool-max-streams", "4")
    server = mesh.hbone_server(mesh.p2)
    socks = [mesh.connect(mesh.c1, mesh.p2, 80) for _ in range(12)]
    for sock in socks:
        traffic.echo_once(sock)
    counts = [len(p.streams) for p in server.peers]
    assert max(counts) <= 4 and len(counts) == 3


def test_connection_at_the_limit_is_reused_after_streams_end(mesh):
    """Unlike the reference, which forgets a connection that was once full."""
    node = mesh.shared("node1", "--workers", "1", "--pool-max-streams", "2")
    server = mesh.hbone_server(mesh.p2)
    for i in range(6):
        socks = [mesh.connect(mesh.c1, mesh.p2, 80) for _ in range(2)]
        for sock in socks:
            traffic.echo_once(sock)
        for sock in socks:
            sock.close()
        # The worker says it when a stream is over, and looks at new connections afterwards.
        node.wait_access(2 * (i + 1), message="connection complete", direction="outbound")
    assert server.accepted == 1
    assert len(server.streams) == 12


def test_simultaneous_requests_make_one_dial(mesh):
    mesh.shared("node1", "--workers", "1")
    server = mesh.hbone_server(mesh.p2)
    before = hbone_syns(mesh.p2)
    socks = []
    for _ in range(50):
        sock = mesh.c1.socket()
        sock.setblocking(False)
        try:
            sock.connect((mesh.p2.ip4, 80))
        except BlockingIOError:
            pass
        socks.append(mesh.keep(sock))
    server.wait_streams(50)
    assert hbone_syns(mesh.p2) == before + 1


def test_unused_connection_is_released(mesh):
    mesh.shared("node1", "--pool-unused-release", "1s")
    server = mesh.hbone_server(mesh.p2)
    mesh.roundtrip(mesh.c1, mesh.p2, 80)
    assert len(server.peers) == 1
    until(lambda: not server.live, 5, "the idle connection to close")
    mesh.roundtrip(mesh.c1, mesh.p2, 80)
    assert server.accepted == 2


def test_goaway_moves_new_streams_elsewhere(outbound):
    """Open streams finish on the old connection, new ones use another."""
    server = outbound.hbone_server(outbound.p2)
    old = outbound.connect(outbound.c1, outbound.p2, 80)
    traffic.echo_once(old)
    peer = server.peers[0]
    last = max(peer.streams)
    pongs = peer.pongs
    peer.call(lambda: (peer.raw(GoAwayFrame(0, last_stream_id=last).serialize()), peer.h2.ping(b"was read"),
                       peer.flush()))
    server.wait(lambda: peer.pongs > pongs, what="the GOAWAY to be read")
    for _ in range(6):
        outbound.roundtrip(outbound.c1, outbound.p2, 80)
    assert max(peer.streams) == last, "no new stream after GOAWAY"
    traffic.echo_once(old)
    assert len(server.peers) >= 2


def test_goaway_with_an_error_does_not_poison_the_pool(outbound):
    class Refuse(App):
        refused = 0

        def request(self, peer, stream):
            if not self.refused:
                self.refused += 1
                peer.raw(GoAwayFrame(0, last_stream_id=0, error_code=11).serialize())
                peer.abort()
                return
            super().request(peer, stream)
    app = Refuse()
    outbound.hbone_server(outbound.p2, app)
    outbound.refused(outbound.c1, outbound.p2, 80)
    assert app.refused == 1
    for _ in range(3):
        outbound.roundtrip(outbound.c1, outbound.p2, 80)


def test_dead_pooled_connection_is_replaced(outbound):
    server = outbound.hbone_server(outbound.p2)
    outbound.roundtrip(outbound.c1, outbound.p2, 80)
    dead = outbound.carriers(outbound.c1, outbound.p2)
    assert dead and dead <= outbound.node.open_sockets()
    for p in server.live:
        p.call(p.abort)
    until(lambda: not dead & outbound.node.open_sockets(), what="the node to see the end")
    for _ in range(4):
        outbound.roundtrip(outbound.c1, outbound.p2, 80)
    assert server.accepted > 1


def test_tiny_windows_of_the_server(outbound):
    outbound.hbone_server(outbound.p2, settings={Settings.INITIAL_WINDOW_SIZE: 11},
                          connection_window=0)
    sock = outbound.connect(outbound.c1, outbound.p2, 80)
    traffic.echo_once(sock, 500)


def test_small_frames_of_the_server(outbound):
    """A peer that takes only the minimum frame size never gets more."""
    outbound.hbone_server(outbound.p2, settings={Settings.MAX_FRAME_SIZE: 16384})
    traffic.echo_once(outbound.connect(outbound.c1, outbound.p2, 80), 2 << 20)


def test_server_that_stops_reading_blocks_only_its_own_stream(mesh):
    mesh.shared("node1", "--workers", "1")
    server = mesh.hbone_server(mesh.p2, settings={Settings.INITIAL_WINDOW_SIZE: 65535},
                               connection_window=8 << 20)
    mesh.roundtrip(mesh.c1, mesh.p2, 80)
    server.peers[0].hold_credit = lambda stream: stream.authority.endswith(":81")
    stuck = mesh.connect(mesh.c1, mesh.p2, 81)
    stuck.setblocking(False)
    pushed = 0
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        try:
            pushed += stuck.send(b"z" * 65536)
        except BlockingIOError:
            time.sleep(0.01)
    assert pushed < 64 << 20, "a stream without credit must not swallow everything"
    for _ in range(3):
        mesh.roundtrip(mesh.c1, mesh.p2, 80)
    assert server.accepted == 1


def test_bulk_through_a_foreign_server(outbound):
    outbound.hbone_server(outbound.p2)
    sock = outbound.connect(outbound.c1, outbound.p2, 80)
    sock.settimeout(guard(60))
    data = os.urandom(24 << 20)
    t = threading.Thread(target=sock.sendall, args=(data,))
    t.start()
    assert traffic.read_exact(sock, len(data)) == data
    t.join()
