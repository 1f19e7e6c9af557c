# SPDX-License-Identifier: Apache-2.0
"""What the gateway says when it refuses: to clients in the answer, to people in the log, each thing once."""
import json
import re
import socket
import time

import h2.config
import h2.connection
import h2.events
import pytest
from harness import gateway as gw
from harness.wait import until

HELLO = [{"match": {"prefix": "/"}, "direct_response": {"status": 200, "body": {"inline_string": "hello"}}}]


def plain(name, port, **extra):
    return gw.listener(name, port, [{"filters": [gw.hcm(HELLO, **extra)]}])


def ask(port, request=b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"):
    with socket.create_connection(("127.0.0.1", port), 5) as s:
        s.sendall(request)
        answer = b""
        while data := s.recv(65536):
            answer += data
    return answer.decode("latin-1")


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
    (g.dir / "c.json").unlink()
    until(lambda: g.log().count("a.yaml: ") >= 3)
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


def test_datagrams_from_everywhere_leave_room_for_connections(binary, tmp_path):
    """Addresses of datagrams may be false: sessions for them never take all descriptors."""
    upstream = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    upstream.bind(("127.0.0.1", 0))
    tcp, udp = gw.free_port(), gw.free_port()
    proxy = "envoy.extensions.filters.udp.udp_proxy.v3."
    route = {"name": "route", "typed_config": {"@type": gw.TYPE + proxy + "Route", "cluster": "c"}}
    datagrams = {**gw.listener("u", udp, []), "listener_filters": [{"name": "u", "typed_config": {
        "@type": gw.TYPE + proxy + "UdpProxyConfig", "stat_prefix": "u",
        "matcher": {"on_no_match": {"action": route}}}}]}
    datagrams["address"]["socket_address"]["protocol"] = "UDP"
    small = tmp_path / "small"
    small.write_text(f'#!/bin/sh\nulimit -n 300\nexec "{binary}" "$@"\n', encoding="utf-8")
    small.chmod(0o755)
    g = gw.Gateway(str(small), tmp_path,
                   [plain("l", tcp), datagrams, gw.cluster("c", [upstream.getsockname()[1]])])
    for i in range(1500):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.bind((f"127.0.{i // 250}.{i % 250 + 1}", 0))
            s.sendto(b"?", ("127.0.0.1", udp))
    until(lambda: "the oldest go" in g.log())
    assert all(serves(tcp) for _ in range(5))
    assert "Too many open files" not in g.log()
    upstream.close()
    g.stop()


def extended_connect(port, path, name="websocket"):
    """The status that the answer has, or None when the stream is reset."""
    c = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False,
                                                             normalize_outbound_headers=False))
    with socket.create_connection(("127.0.0.1", port), 5) as s:
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
    forward = [{"match": {"prefix": ""}, "route": {"cluster": "origin", "timeout": "5s"}}]
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
