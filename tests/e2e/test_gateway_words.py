# SPDX-License-Identifier: Apache-2.0
"""What the gateway says when it refuses: to clients in the answer, to people in the log, each thing once."""
import json
import re
import socket
import subprocess
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import h2.config
import h2.connection
import h2.events
import pytest
from harness import gateway as gw
from harness.metrics import Metrics
from harness.wait import GUARD, until

SAY_S = 10  # backends that are not reached are told of so often
HELLO = [{"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "hello"}}}]


def plain(name, port, **extra):
    return gw.listener(name, port, [{"filters": [gw.hcm(HELLO, **extra)]}])


def ask(port, request=b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"):
    with socket.create_connection(("127.0.0.1", port), GUARD) as s:
        s.sendall(request)
        answer = b""
        while data := s.recv(65536):
            answer += data
    return answer.decode("latin-1")


def counted(g, metric, listener, reason):
    with urllib.request.urlopen(f"http://127.0.0.1:{g.stats_port}/metrics", timeout=GUARD) as page:
        return Metrics(page.read().decode()).sum(f"spanwire_gateway_{metric}_total", listener=listener, reason=reason)


def serves(port):
    try:
        return "hello" in ask(port)
    except OSError:
        return False


@pytest.mark.parametrize("request_line, status", [(b"GET /\x01 HTTP/1.1", 400), (b"GET / HTTP/3.1", 505),
                                                  (b"GET / HTTP/1.0", 426)])
def test_refusals_of_the_parser_are_dated(binary, tmp_path, request_line, status):
    port = gw.free_port()
    g = gw.Gateway(binary, tmp_path, [plain("l", port)], workers=1)
    answer = ask(port, request_line + b"\r\nHost: a\r\n\r\n").lower()
    g.stop()
    assert answer.startswith(f"http/1.1 {status} "), answer
    assert re.search(r"\r\ndate: \w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d gmt\r\n", answer), answer
    assert ("\r\nupgrade: http/1.1\r\nconnection: upgrade, close\r\n" in answer) == (status == 426), answer
    assert "close\r\n" in answer


def test_what_is_refused_is_counted_and_told(binary, tmp_path):
    cert, key = gw.make_cert(tmp_path)
    tcp = {"name": "t", "typed_config": {
        "@type": gw.TYPE + "envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "t",
        "cluster": "empty"}}
    ports = {name: gw.free_port() for name in ("one", "two", "tls", "tcp")}
    inspector = {"name": "i", "typed_config": {
        "@type": gw.TYPE + "envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector"}}
    named = {"filter_chain_match": {"server_names": ["localhost"]}, "filters": [gw.hcm(HELLO)],
             "transport_socket": gw.tls_socket(cert, key)}
    g = gw.Gateway(binary, tmp_path, [
        plain("one", ports["one"]), plain("two", ports["two"]),
        gw.listener("tls", ports["tls"], [named], listener_filters=[inspector]),
        gw.listener("tcp", ports["tcp"], [{"filters": [tcp]}]), gw.cluster("empty", [])], workers=1)
    both = b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    broken = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\4\4\0\0\0\0\0zzzzzzzzzzzz"
    for name, sent, metric, reason, why in (
            ("one", both, "local_replies", "http1.codec_error", "Content-Length beside Transfer-Encoding"),
            ("two", broken, "connections_refused", "http2_protocol", "broken HTTP/2 frame"),
            ("tls", b"hello there", "connections_refused", "no_chain", "nothing is served for what is no TLS"),
            ("tcp", b"hello", "connections_refused", "tcp_no_host", "cluster 'empty': no usable member")):
        try:
            ask(ports[name], sent)
        except ConnectionResetError:
            pass
        until(lambda why=why, name=name: re.search(f"listener '{name}': 127.0.0.1:\\d+ refused: .*{why}", g.log()), 5,
              why)
        until(lambda m=metric, n=name, r=reason: counted(g, m, n, r) == 1, what=reason)
    g.stop()


def test_a_malformed_request_of_http2_is_told(binary, tmp_path):
    port = gw.free_port()
    g = gw.Gateway(binary, tmp_path, [plain("l", port)], workers=1)
    head = b"\x82\x86\x84\x41\x01a\x00\x01X\x01y"  # a header name with a capital
    with socket.create_connection(("127.0.0.1", port), GUARD) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" +
                  b"\0\0" + bytes([len(head)]) + b"\1\5\0\0\0\1" + head)
        until(lambda: re.search(r"listener 'l': 127.0.0.1:\d+ refused: Invalid HTTP header", g.log()), 5)
        assert serves(port)
    until(lambda: counted(g, "local_replies", "l", "http2.codec_error") == 1)
    g.stop()


def test_a_backend_that_is_not_there_is_told(binary, tmp_path):
    port, nobody = gw.free_port(), gw.free_port()
    route = [{"match": {"prefix": "/"}, "route": {"cluster": "c"}}]
    g = gw.Gateway(binary, tmp_path, [gw.listener("l", port, [{"filters": [gw.hcm(route)]}]),
                                      gw.cluster("c", [nobody])], workers=1)
    start = time.monotonic()
    assert all(" 503 " in ask(port) for _ in range(3))
    told = f"cluster 'c': cannot connect to 127.0.0.1:{nobody}: connect failed: Connection refused"
    until(lambda: told in g.log(), 5)
    assert g.log().count("cannot connect to") <= 1 + (time.monotonic() - start) // SAY_S, g.log()
    g.stop()


def test_many_backends_that_are_not_there_do_not_fill_the_log(binary, tmp_path):
    port = gw.free_port()
    route = [{"match": {"prefix": "/"}, "route": {"cluster": "c"}}]
    nobody = [{"endpoint": {"address": {"socket_address": {"address": f"127.9.9.{i}", "port_value": 9}}}}
              for i in range(1, 61)]
    cluster = gw.cluster("c", [])
    cluster["load_assignment"]["endpoints"] = [{"lb_endpoints": nobody}]
    g = gw.Gateway(binary, tmp_path, [gw.listener("l", port, [{"filters": [gw.hcm(route)]}]), cluster], workers=1)
    start = time.monotonic()
    assert all(" 503 " in ask(port) for _ in range(60))
    until(lambda: g.log().count("cannot connect to") >= 20, 5)
    time.sleep(0.1)
    assert g.log().count("cannot connect to") <= 20 * (1 + (time.monotonic() - start) // SAY_S), g.log()
    g.stop()


def read_late(port, size):
    with socket.socket() as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 18)
        s.settimeout(2 * GUARD)
        s.connect(("127.0.0.1", port))
        s.sendall(f"GET /size/{size} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
        time.sleep(2.5)  # longer than a connection lingers
        answer = bytearray()
        while data := s.recv(65536):
            answer += data
    return len(answer.split(b"\r\n\r\n", 1)[1])


def test_a_client_that_pauses_gets_all_of_the_last_answer(binary, tmp_path):
    """Some of these sizes end while the gateway still has bytes that the client does not take."""
    port, origin = gw.free_port(), gw.Origin()
    route = [{"match": {"prefix": "/"}, "route": {"cluster": "c"}}]
    g = gw.Gateway(binary, tmp_path, [gw.listener("l", port, [{"filters": [gw.hcm(route)]}]),
                                      gw.cluster("c", [origin.port])], workers=1)
    sizes = range(100_000, 4_500_000, 100_000)
    with ThreadPoolExecutor(len(sizes)) as pool:
        got = list(pool.map(lambda size: read_late(port, size), sizes))
    g.stop()
    origin.close()
    assert got == list(sizes)


def test_a_silent_control_plane_is_told(binary, tmp_path):
    """It takes the stream and says nothing, as a server of something else may."""
    log = tmp_path / "log"
    with socket.create_server(("127.0.0.1", 0)) as server, open(log, "w", encoding="utf-8") as out:
        port = server.getsockname()[1]
        own = [f"--{name}-addr=127.0.0.1:{gw.free_port()}" for name in ("admin", "stats", "ready")]
        with subprocess.Popen([binary, "gateway", "--xds-addr", f"127.0.0.1:{port}", *own], stderr=out,
                              stdout=out) as gateway:
            try:
                conn, _ = server.accept()
                conn.sendall(b"\0\0\0\4\0\0\0\0\0")  # HTTP/2, no settings
                until(lambda: f"for 5 s: is {port} its xDS port?" in log.read_text(encoding="utf-8"), 15)
                assert "is not encrypted (no --xds-ca)" in log.read_text(encoding="utf-8")
                conn.close()
            finally:
                gateway.kill()


def test_a_port_that_is_taken_is_told_once(binary, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port, free = taken.getsockname()[1], gw.free_port()
        g = gw.Gateway(binary, tmp_path, [plain("taken", port), plain("free", free)], wait=False)
        until(lambda: "will try again" in g.log())
        until(lambda: serves(free))
        time.sleep(4.5)  # two more tries
        assert g.log().count("will try again") == 1, g.log()
    until(lambda: serves(port), 8)
    g.stop()


def test_a_broken_file_leaves_the_others_and_is_told(binary, tmp_path):
    ports = [gw.free_port() for _ in range(3)]
    g = gw.Gateway(binary, tmp_path, None, wait=False)

    def write(name, text):
        new = tmp_path / "new"
        new.write_text(text, encoding="utf-8")
        new.replace(g.dir / name)

    write("c.json", json.dumps(plain("c", ports[0])))
    until(lambda: serves(ports[0]))
    write("a.yaml", "{ not: [yaml")
    write("b.yaml", json.dumps({"resources": [plain("b", ports[1]), {"@type": gw.TYPE + "no.such.Thing"}]}))
    until(lambda: "a.yaml: " in g.log() and "b.yaml: " in g.log())
    # The others are followed; nothing goes while it is not known what belongs there.
    write("d.json", json.dumps(plain("d", ports[2])))
    until(lambda: serves(ports[2]))
    assert serves(ports[0]) and not serves(ports[1])
    before = g.log().count("a.yaml: ")
    (g.dir / "c.json").unlink()
    until(lambda: g.log().count("a.yaml: ") > before)
    assert serves(ports[0])
    (g.dir / "a.yaml").unlink()
    write("b.yaml", json.dumps({"resources": [plain("b", ports[1])]}))
    until(lambda: serves(ports[1]))
    until(lambda: not serves(ports[0]))
    g.stop()


def test_a_refused_listener_is_told_once(binary, tmp_path):
    port = gw.free_port()
    bad = plain("bad", gw.free_port())
    bad["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]["virtual_hosts"][0]["routes"] = [
        {"match": {"safe_regex": {"regex": "(a)\\1"}}, "direct_response": {"status": 200}}]
    g = gw.Gateway(binary, tmp_path, [plain("good", port), bad])
    assert serves(port)
    until(lambda: "invalid escape sequence" in g.log())
    time.sleep(0.2)
    assert g.log().count("invalid escape sequence") == 1, g.log()
    g.stop()


def datagrams(name, port, cluster):
    """A listener for UDP."""
    proxy = "envoy.extensions.filters.udp.udp_proxy.v3."
    route = {"name": "route", "typed_config": {"@type": gw.TYPE + proxy + "Route", "cluster": cluster}}
    out = {**gw.listener(name, port, []), "listener_filters": [{"name": "u", "typed_config": {
        "@type": gw.TYPE + proxy + "UdpProxyConfig", "stat_prefix": "u",
        "matcher": {"on_no_match": {"action": route}}}}]}
    out["address"]["socket_address"]["protocol"] = "UDP"
    return out


def few_descriptors(binary, where):
    small = where / "small"
    small.write_text(f'#!/bin/sh\nulimit -n 300\nexec "{binary}" "$@"\n', encoding="utf-8")
    small.chmod(0o755)
    return str(small)


def from_everywhere(port, n):
    for i in range(n):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((f"127.0.{i // 250}.{i % 250 + 1}", 0))
            s.sendto(b"?", ("127.0.0.1", port))


def test_datagrams_from_everywhere_leave_room_for_connections(binary, tmp_path):
    """Addresses of datagrams may be false: sessions for them never take all descriptors."""
    upstream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    upstream.bind(("127.0.0.1", 0))
    tcp, udp = gw.free_port(), gw.free_port()
    g = gw.Gateway(few_descriptors(binary, tmp_path), tmp_path,
                   [plain("l", tcp), datagrams("u", udp, "c"), gw.cluster("c", [upstream.getsockname()[1]])])
    from_everywhere(udp, 1500)
    until(lambda: "evicting the oldest" in g.log())
    assert all(serves(tcp) for _ in range(5))
    assert "Too many open files" not in g.log()
    upstream.close()
    g.stop()


def test_a_flood_at_one_listener_leaves_others_their_sessions(binary, tmp_path):
    """Sockets are shared out by listeners: those of a quiet one are neither refused nor taken away."""
    upstream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    upstream.bind(("127.0.0.1", 0))
    upstream.settimeout(0.2)
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    loud, quiet = gw.free_port(), gw.free_port()
    g = gw.Gateway(few_descriptors(binary, tmp_path), tmp_path, [
        datagrams("loud", loud, "sink"), datagrams("quiet", quiet, "c"),
        gw.cluster("c", [upstream.getsockname()[1]]), gw.cluster("sink", [sink.getsockname()[1]])])
    clients = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(10)]

    def sources():
        """Where the datagram of each client comes from, as the host sees it."""
        seen = {}
        for i, c in enumerate(clients):
            def arrives(i=i, c=c):
                c.sendto(b"%d" % i, ("127.0.0.1", quiet))  # one may be lost: the flood is beside it
                try:
                    while True:
                        data, at = upstream.recvfrom(100)
                        seen[int(data)] = at
                        if int(data) == i:
                            return True
                except TimeoutError:
                    return False
            until(arrives, 10, f"client {i}")
        return seen
    try:
        from_everywhere(loud, 600)
        until(lambda: "listener 'loud'" in g.log() and "evicting the oldest" in g.log())
        before = sources()  # there are no free sockets: the loud one gives some
        assert len(set(before.values())) == len(clients)
        from_everywhere(loud, 600)
        assert sources() == before  # and takes none back
        assert "listener 'quiet': " not in g.log(), g.log()
    finally:
        g.stop()
        for s in (*clients, upstream, sink):
            s.close()


def extended_connect(port, path, name="websocket"):
    """The status that the answer has, or None when the stream is reset."""
    c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False,
                                                             normalize_outbound_headers=False))
    with socket.create_connection(("127.0.0.1", port), GUARD) as s:
        c.initiate_connection()
        c.send_headers(1, [(":method", "CONNECT"), (":protocol", name), (":scheme", "http"), (":path", path),
                           (":authority", "a.test")])
        s.sendall(c.data_to_send())
        while data := s.recv(65536):
            for e in c.receive_data(data):
                if isinstance(e, h2.events.ResponseReceived):
                    return dict(e.headers)[":status"]
                if isinstance(e, (h2.events.StreamReset, h2.events.ConnectionTerminated)):
                    return None
    return None


def test_a_websocket_in_a_stream_becomes_an_upgrade(binary, tmp_path):
    """Its path is looked at as that of any request, and it gets the key that HTTP/1.1 wants."""
    origin, port = gw.Origin(), gw.free_port()
    forward = [{"match": {"prefix": ""}, "route": {"cluster": "origin", "timeout": "60s"}}]
    g = gw.Gateway(binary, tmp_path, [
        gw.listener("l", port, [{"filters": [gw.hcm(forward, http2_protocol_options={"allow_connect": True})]}]),
        gw.cluster("origin", [origin.port])], workers=1)
    assert extended_connect(port, "/ws") == "200"
    head = origin.heads[-1] if isinstance(origin.heads[-1], bytes) else str(origin.heads[-1]).encode()
    assert b"ws" in head and b"sec-websocket-key" in head.lower(), head
    before = origin.requests
    for path in ("ws", "*", "/a b", "/a\r\nx: y", "/a#b", ""):
        assert extended_connect(port, path) in (None, "400"), path
    assert origin.requests == before
    g.stop()
    origin.close()
