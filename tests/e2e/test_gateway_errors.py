# SPDX-License-Identifier: Apache-2.0
"""Errors of the gateway itself: what visitors see, what the log has, and that floods of them are counted."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.wait import GUARD, SLOW, until

HTML, JSON = "text/html", "application/json"


def routes(dead):
    marked = {"filter_metadata": {"spanwire": {"reason": "connector-offline", "device": "lap<top>"}}}
    return [
        {"match": {"prefix": "/dead"}, "route": {"cluster": "dead"}},
        {"match": {"prefix": "/away"}, "metadata": marked,
         "direct_response": {"status": 503, "body": {"inline_string": "Tunnel not online"}}},
        {"match": {"prefix": "/own"}, "direct_response": {"status": 404, "body": {"inline_string": "mine"}}},
        {"match": {"prefix": "/slow"}, "route": {"cluster": "origin", "timeout": "0.3s"}},
        {"match": {"prefix": "/nowhere"}, "route": {"cluster": "missing"}},
        {"match": {"prefix": "/status"}, "route": {"cluster": "origin"}},
        {"match": {"prefix": "/close"}, "route": {"cluster": "origin"}},
    ]


class Edge:
    def __init__(self, binary, tmp, *flags, **more):
        self.origin, self.port = gw.Origin(), gw.free_port()
        with socket.socket() as s:  # bound, not listening: connections are refused
            s.bind(("127.0.0.1", 0))
            self.dead = s.getsockname()[1]
        more = {"preserve_external_request_id": True, **more}
        self.gateway = gw.Gateway(binary, tmp, [
            gw.listener("l", self.port, [{"filters": [gw.hcm(routes(self.dead), **more)]}]),
            gw.cluster("origin", [self.origin.port]), gw.cluster("dead", [self.dead])], flags=flags)

    def ask(self, path, accept=None, method="GET", **headers):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD * SLOW)
        headers = {"Host": "shop.example", **{k.replace("_", "-"): v for k, v in headers.items()}}
        c.request(method, path, headers={**headers, **({"Accept": accept} if accept is not None else {})})
        r = c.getresponse()
        r.text = r.read().decode()
        c.close()
        return r

    def failures(self):
        return [line for line in self.gateway.log().splitlines() if re.search(r"\trequest\t(request|connection) failed", line)]

    def close(self):
        self.gateway.stop()
        self.origin.close()


@pytest.fixture(scope="module")
def edge(binary, tmp_path_factory):
    e = Edge(binary, tmp_path_factory.mktemp("errors"))
    yield e
    e.close()


@pytest.fixture
def quiet(binary, tmp_path):
    """Nothing failed here before: every failure gets its line."""
    e = Edge(binary, tmp_path)
    yield e
    e.close()


@pytest.mark.parametrize("accept, form", [
    (None, "text/plain"), ("*/*", "text/plain"), ("image/png", "text/plain"), ("text/*", "text/plain"),
    ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", HTML), ("TEXT/HTML", HTML),
    (JSON, JSON), ("application/json, text/plain, */*", JSON), ("application/*", JSON),
    ("text/html;q=0.3, application/json;q=0.9", JSON), ("text/html;q=0, */*", "text/plain"),
    ("text/html;q=2, application/json;q=0.1", JSON), ('text/html;x="a,b;q=0";q=0.2, text/plain;q=0.1', HTML),
])
def test_the_form_is_what_the_client_accepts(edge, accept, form):
    r = edge.ask("/none", accept)
    assert r.status == 404 and r.getheader("content-type").split(";")[0] == form
    assert r.getheader("cache-control") == "no-store"
    assert int(r.getheader("content-length")) == len(r.text.encode())
    assert "no route matches this host and path" in r.text and r.getheader("x-request-id") in r.text
    if form == JSON:
        told = json.loads(r.text)
        assert told["status"] == 404 and told["request_id"] == r.getheader("x-request-id") and told["owner"]
    if form == HTML:
        assert r.text.startswith("<!DOCTYPE html>")
        assert not re.search(r"src=|href=|url\(|//", r.text), "pages load nothing from elsewhere"


@pytest.mark.parametrize("path, status, words, reason", [
    ("/dead/x", 503, "the backend refused the connection", "upstream_connection_failure"),
    ("/slow/3000", 504, "the backend did not answer within 300 ms", "response_timeout"),
    ("/nowhere", 503, "the backend of this route is not known", "cluster_not_found"),
    ("/close", 503, "the backend closed the connection before it answered", "upstream_reset_before_response_started"),
    ("/away", 503, "the device 'lap<top>' is offline", "connector-offline"),
    ("/none?q=1", 404, "no route matches this host and path", "route_not_found"),
])
def test_the_reason_is_said_and_logged_once(quiet, path, status, words, reason):
    edge = quiet
    r = edge.ask(path, x_request_id=f"id-of-{reason}")
    assert r.status == status and words in r.text, r.text
    assert f"Request id: id-of-{reason}" in r.text
    assert "127.0.0.1" not in r.text and str(edge.dead) not in r.text and "cluster=" not in r.text
    until(edge.failures, what="the line of the failure")
    lines = [line for line in edge.failures() if f"request_id=id-of-{reason} " in line]
    assert len(lines) == 1, edge.failures()
    for part in ("host=shop.example", "method=GET", "path=", f"status={status}", f"reason={reason}"):
        assert part in lines[0], lines[0]
    if status != 404:
        assert "\twarn\t" in lines[0]
    if path == "/away":
        assert "device=lap<top>" in lines[0]
    if path.startswith("/dead"):
        assert "cluster=dead" in lines[0] and "refused" in lines[0] and "flags=UF" in lines[0]


def test_answers_of_others_stay_as_they_are(quiet):
    edge = quiet
    for status in (404, 500, 503):
        r = edge.ask(f"/status/{status}", HTML)
        assert (r.status, r.text, r.getheader("x-origin")) == (status, "sss", "yes")
        assert r.getheader("cache-control") is None
    r = edge.ask("/own", HTML)
    assert (r.status, r.text) == (404, "mine")
    assert edge.ask("/none").status == 404
    until(edge.failures, what="a line")
    assert len(edge.failures()) == 1, edge.failures()


def test_what_a_client_sends_cannot_shape_a_page(edge):
    nasty = "<script>\"'&\\"
    page = edge.ask("/none", HTML, x_request_id=nasty).text
    assert "<script>" not in page and "&lt;script&gt;&quot;&#39;&amp;\\" in page
    assert json.loads(edge.ask("/none", JSON, x_request_id=nasty).text)["request_id"] == nasty
    page = edge.ask("/away", HTML).text
    assert "lap<top>" not in page and "lap&lt;top&gt;" in page


def test_head_has_no_body(edge):
    full = edge.ask("/none", HTML)
    head = edge.ask("/none", HTML, method="HEAD", x_request_id=full.getheader("x-request-id"))
    assert head.status == 404 and head.text == ""
    assert head.getheader("content-length") == full.getheader("content-length")


@pytest.mark.skipif(not gw.have("curl"), reason="needs curl")
def test_http2_and_grpc(edge):
    url = f"http://127.0.0.1:{edge.port}"
    run = ["curl", "-sS", "--http2-prior-knowledge", "--max-time", str(GUARD * SLOW), "-i"]
    r = subprocess.run([*run, "-H", "accept: application/json", url + "/none"], capture_output=True, text=True, check=True).stdout
    head, body = r.replace("\r", "").split("\n\n", 1)
    assert head.startswith("HTTP/2 404") and json.loads(body)["reason"] == "no route matches this host and path"
    r = subprocess.run([*run, "-H", "content-type: application/grpc", "-H", "te: trailers", "-X", "POST", url + "/none"],
                       capture_output=True, text=True, check=True).stdout
    head, body = r.replace("\r", "").split("\n\n", 1)
    assert head.startswith("HTTP/2 200") and "grpc-status: 12" in head and body == "", r


def test_pages_of_the_operator(binary, tmp_path):
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "404.html").write_text("<b>{{status}} {{reason}} {{request_id}} {{host}}</b>")
    (pages / "default.json").write_text('{"code": {{status}}, "why": "{{reason}}", "id": "{{request_id}}"}')
    (pages / "README").write_text("{{not for us}}")
    e = Edge(binary, tmp_path, "--error-pages", pages)
    try:
        assert e.ask("/none", HTML, x_request_id="<i>").text == "<b>404 no route matches this host and path &lt;i&gt; shop.example</b>"
        assert json.loads(e.ask("/dead", JSON, x_request_id='"').text) == {
            "code": 503, "why": "the backend refused the connection", "id": '"'}
        assert "503 Service Unavailable: the backend refused" in e.ask("/dead").text  # none of this form
        (pages / "default.txt").write_text("oh: {{title}}\n")
        until(lambda: e.ask("/none").text == "oh: Not Found\n", what="the new page")
        (pages / "404.txt").write_text("{{reason}} {{adress}}")
        until(lambda: "keeping the previous ones" in e.gateway.log(), what="the refusal")
        assert "404.txt" in e.gateway.log() and "unknown placeholder at byte 11" in e.gateway.log()
        assert e.ask("/none").text == "oh: Not Found\n"
        (pages / "404.txt").write_text("x" * 70000)
        os.kill(e.gateway.process.pid, signal.SIGHUP)
        until(lambda: e.gateway.log().count("keeping the previous ones") > 1, what="the refusal of a long one")
        assert e.ask("/none").text == "oh: Not Found\n"
    finally:
        e.close()


def test_bad_pages_are_refused_at_the_start(binary, tmp_path):
    (tmp_path / "503.html").write_text("{{oops}}")
    for where in (tmp_path, tmp_path / "missing"):
        r = subprocess.run([binary, "gateway", "--xds-dir", str(tmp_path), "--error-pages", str(where), "--admin-addr", "127.0.0.1:0",
                            "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"], capture_output=True, text=True, timeout=60)
        assert r.returncode and ("503.html" in r.stderr or "missing" in r.stderr), r.stderr


def test_local_reply_config_wins(binary, tmp_path):
    text = {"text_format_source": {"inline_string": "<%RESPONSE_CODE% %LOCAL_REPLY_BODY% %REQ(X-REQUEST-ID)%>"}, "content_type": "text/x-own"}
    e = Edge(binary, tmp_path, local_reply_config={"body_format": text})
    try:
        r = e.ask("/dead", HTML, x_request_id="7")
        assert (r.status, r.text, r.getheader("content-type")) == (503, "<503 upstream connect error 7>", "text/x-own")
        assert e.ask("/own", x_request_id="8").text == "<404 mine 8>"
        assert e.ask("/status/503").text == "sss"
    finally:
        e.close()


def test_a_flood_of_failures_is_counted(binary, tmp_path):
    e = Edge(binary, tmp_path)
    n = 150
    try:
        c = http.client.HTTPConnection("127.0.0.1", e.port, timeout=GUARD * SLOW)
        for _ in range(n):
            c.request("GET", "/none")
            r = c.getresponse()
            assert r.status == 404
            r.read()
        c.close()
        text = fb._fetch(f"http://127.0.0.1:{e.gateway.stats_port}/metrics")
        unlogged = int(re.search(r"^spanwire_gateway_failures_unlogged_total (\d+)$", text, re.M).group(1))
        assert unlogged
        # The log is written by a thread of its own; it has ten lines for each second that the flood took.
        until(lambda: unlogged + len(e.failures()) == n, what=lambda: f"{n} failures: {unlogged} unlogged, {len(e.failures())} lines")
    finally:
        e.close()
    told = [int(x) for x in re.findall(r"(\d+) more failures not logged", e.gateway.log())]
    assert sum(told) == unlogged, told


def raw(port, head):
    with socket.create_connection(("127.0.0.1", port), GUARD * SLOW) as s:
        s.sendall(head)
        got = b""
        while b"\r\n\r\n" not in got:
            data = s.recv(65536)
            if not data:
                break
            got += data
        return got


def test_json_access_log_of_hostile_requests(binary, tmp_path):
    out = tmp_path / "access.log"
    log = {"name": "file", "typed_config": {
        "@type": gw.TYPE + "envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": str(out)}}
    e = Edge(binary, tmp_path, "--log-format", "json", access_log=[log])
    try:
        for agent in (b"a\"b\\c", b"\xff\xfe\x80", b"\xe2\x82\xac", b"\xf0\x9f\x98", b"x" * 5000, b"tab\there"):
            got = raw(e.port, b"GET /dead/q?'& HTTP/1.1\r\nHost: h.example\r\nUser-Agent: %s\r\nConnection: close\r\n\r\n" % agent)
            assert b" 503 " in got, got
        assert e.ask("/status/200").status == 200
        until(lambda: out.exists() and out.read_bytes().count(b'"status":200') == 1, what="the access log")
    finally:
        e.close()
    lines = out.read_bytes().splitlines()
    assert len(lines) >= 6
    for line in lines:
        subprocess.run(["python3", "-m", "json.tool"], input=line, check=True, capture_output=True)
    failed = [json.loads(line) for line in lines if json.loads(line)["status"] == 503]
    assert failed and all(v["host"] == "h.example" and v["reason"] == "upstream_connection_failure" and v["flags"] == "UF"
                          and v["cluster"] == "dead" and v["request_id"] for v in failed)
    own = [json.loads(line) for line in e.gateway.log_path.read_bytes().splitlines()]
    assert any(v.get("message") == "request failed" and v["host"] == "h.example" for v in own)
