# SPDX-License-Identifier: Apache-2.0
"""The request inspector of `spanwire expose`: what it keeps, hides and sends again, in a browser and without one."""
import http.server
import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest
from harness.control import Control
from harness.device import Device, Edge
from harness.quicpeer import CLIENTS
from harness.wait import SLOW, guard, until


class Origin:
    """Remembers what it was asked; answers with what it got, and a secret."""

    def __init__(self):
        self.seen = []
        origin = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                origin.seen.append((self.command, self.path, dict(self.headers), body))
                text = b"<b>answer %d</b> to " % len(origin.seen) + body[:64]
                if self.path == "/big":
                    text = b"x" * 300000
                self.send_response(201)
                self.send_header("Content-Type", "text/html")
                self.send_header("Set-Cookie", "sid=answer-secret")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = _answer

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Inspected(Device):
    @property
    def inspector(self):
        return until(lambda: re.search(r"^Requests in detail: (http\S+)$", self.log(), re.M), 10).group(1)

    @property
    def token(self):
        return urllib.parse.parse_qs(urllib.parse.urlsplit(self.inspector).query)["token"][0]

    def ask(self, path, data=None, headers=None):
        """(status, body, headers); follows nothing."""
        class Still(urllib.request.HTTPRedirectHandler):
            def redirect_request(self, *args):
                return None
        url = urllib.parse.urljoin(self.inspector, path)
        try:
            with urllib.request.build_opener(Still).open(
                    urllib.request.Request(url, data, headers or {}), timeout=guard(20)) as r:
                return r.status, r.read().decode(), r.headers
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode(), e.headers

    def shown(self, path="/requests"):
        status, body, headers = self.ask(f"{path}?token={self.token}")
        assert status == 200, (status, body)
        assert "default-src 'none'" in headers["Content-Security-Policy"] and headers["Cache-Control"] == "no-store"
        return body

    def listed(self, path):
        """Ids of the exchanges with this path, newest first."""
        return [int(i) for i in re.findall(rf'href="/requests/(\d+)\?token=\w+">{re.escape(path)}<', self.shown())]


@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    where = tmp_path_factory.mktemp("inspect")
    control, origin, edge = Control(binary, where / "control"), Origin(), Edge()
    device = Inspected(binary, where / "device", control.kubeconfig, "--name", "seen", "--no-verify",
                       "--allow-gateway", edge.id, command=("expose", str(origin.port)))
    device.wait_live()
    until(lambda: device.status()["destinations"])
    edge.connect(device)
    device.origin, device.edge = origin, edge
    yield device
    edge.close()
    device.stop()
    device.check()
    control.close()
    origin.close()


@pytest.fixture
def edge():
    """Another gateway."""
    with Edge() as e:
        yield e


def visit(world, text, body=""):
    """As a gateway's request through a tunnel."""
    stream = world.edge.tunnel("127.0.0.1", world.origin.port)
    before = len(world.origin.seen)
    world.edge.send(stream, text.replace("\n", "\r\n") + "\r\n" + body)
    until(lambda: len(world.origin.seen) > before, 10)


def test_headers_and_bodies_are_shown_and_secrets_hidden(world):
    visit(world, "POST /hook?a=1 HTTP/1.1\nHost: pub.example\nAuthorization: Bearer top-secret\nCookie: sid=hush\n"
          "X-Api-Key: key-hush\nX-Plain: in the open <i>\nContent-Length: 13\n", '{"order": 42}')
    i = until(lambda: world.listed("/hook?a=1"), 5)[0]
    page = world.shown(f"/requests/{i}")
    assert "POST /hook?a=1" in page and "{&quot;order&quot;: 42}" in page and "in the open &lt;i&gt;" in page
    assert "Answer: 201" in page and "&lt;b&gt;answer" in page and "<b>answer" not in page
    for secret in ("top-secret", "hush", "answer-secret"):
        assert secret not in page, page
    assert "hidden, 17 bytes" in page
    # Neither has the status page, nor the JSON beside it.
    assert "top-secret" not in world.get("status") and "order" not in world.get("status")


def test_only_with_the_token(world):
    visit(world, "GET /private HTTP/1.1\nHost: pub.example\n")
    i = until(lambda: world.listed("/private"), 5)[0]
    for path in ("/requests", "/requests?token=", "/requests?token=" + "0" * 32, f"/requests/{i}", "/requests/x?token=" + "0" * 32):
        assert world.ask(path)[0] == 403, path
    before = len(world.origin.seen)
    at = f"/requests/{i}/replay"
    assert world.ask(at, b"")[0] == 403
    assert world.ask(f"{at}?token={world.token}", b"")[0] == 403  # in the body, nowhere else
    good = f"token={world.token}".encode()
    assert world.ask(at, good, {"Origin": "http://evil.example"})[0] == 403
    assert world.ask(at, good, {"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert world.ask(at, good, {"Host": "evil.example"})[0] == 403
    assert world.ask(f"{at}?token={world.token}")[0] == 405
    assert world.ask("/requests/999999/replay", good)[0] == 404
    assert world.ask(f"/requests/{i}/other?token={world.token}")[0] == 404
    assert len(world.origin.seen) == before
    until(lambda: world.metric("spanwire_refusals") >= 6)
    until(lambda: "request inspector: request refused" in world.log())


def test_refusals_do_not_fill_the_log(world):
    """Everybody on this machine can ask, and any page that its user visits: a burst of lines, then ten a second. Each is counted."""
    before = world.metric("spanwire_refusals")
    for _ in range(150):
        assert world.ask("/requests")[0] == 403
        assert world.ask("/status", headers={"Host": "evil.example"})[0] == 403
    assert world.metric("spanwire_refusals") == before + 300
    for text in ("no or wrong token", "not from this machine"):
        assert 10 < world.log().count(text) < 140
    time.sleep(0.2)
    assert world.ask("/requests")[0] == world.ask("/", headers={"Host": "evil.example"})[0] == 403
    until(lambda: len(re.findall("(?:no or wrong token|not from this machine)\tsuppressed_lines=", world.log())) >= 2)


def test_a_request_is_sent_again(world):
    visit(world, "PUT /again HTTP/1.1\nHost: pub.example\nAuthorization: Bearer kept\nConnection: keep-alive, X-Hop\nX-Hop: 1\n"
          "X-Twice: a\nX-Twice: b\nTransfer-Encoding: chunked\n", "5\r\nhello\r\n0\r\n\r\n")
    i = until(lambda: world.listed("/again"), 5)[0]
    status, _, headers = world.ask(f"/requests/{i}/replay", f"token={world.token}".encode())
    assert status == 303
    method, path, fields, body = world.origin.seen[-1]
    assert (method, path, body) == ("PUT", "/again", b"hello")
    assert fields["Host"] == "pub.example" and fields["Authorization"] == "Bearer kept" and fields["Content-Length"] == "5"
    assert "X-Hop" not in fields and "Transfer-Encoding" not in fields
    page = world.ask(headers["Location"])[1]
    assert "A request sent again" in page and f"answer {len(world.origin.seen)}" in page and "Bearer kept" not in page
    assert len(world.listed("/again")) == 2
    until(lambda: re.search(r"PUT +/again +201 +[\d.]+ ms  replay", world.log()), 5)


def test_what_is_too_large_is_cut_and_not_sent_again(world):
    visit(world, "POST /large HTTP/1.1\nHost: pub.example\nContent-Length: 40000\n", "y" * 40000)
    visit(world, "GET /big HTTP/1.1\nHost: pub.example\n")
    i = until(lambda: world.listed("/large"), 5)[0]
    page = world.shown(f"/requests/{i}")
    assert "40000 bytes, of which the first 16384 are kept" in page and "too large to be kept" in page
    before = len(world.origin.seen)
    assert world.ask(f"/requests/{i}/replay", f"token={world.token}".encode())[0] == 409
    assert len(world.origin.seen) == before
    i = until(lambda: world.listed("/big"), 5)[0]
    assert "300000 bytes, of which the first 16384 are kept" in world.shown(f"/requests/{i}")
    # An answer may be cut: the request is whole.
    assert world.ask(f"/requests/{i}/replay", f"token={world.token}".encode())[0] == 303


def test_the_last_200_are_listed_and_100_kept(world):
    """As the manual page says."""
    stream = world.edge.tunnel("127.0.0.1", world.origin.port)
    for first in range(0, 210, 30):
        before = len(world.origin.seen)
        world.edge.send(stream, "".join(f"GET /many-{i} HTTP/1.1\r\nHost: pub.example\r\n\r\n" for i in range(first, first + 30)))
        world.edge.recv(stream, until=f"answer {before + 30}</b>")
    until(lambda: world.listed("/many-209"), 5)
    page = world.shown()
    assert page.count("<tr>") == 200 and ">/many-10<" in page and ">/many-9<" not in page
    assert len(re.findall(r'href="/requests/\d+', page)) == 100 and world.listed("/many-110") and not world.listed("/many-109")


def test_the_page_in_a_browser(world, tmp_path):
    """A click on 'Send again' in a real browser shows the new answer."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not browser:
        pytest.skip("NO BROWSER: install chromium to run this test")
    visit(world, "POST /clicked HTTP/1.1\nHost: pub.example\nCookie: sid=hush\nContent-Length: 4\n", "ping")
    until(lambda: world.listed("/clicked"), 5)
    before = len(world.origin.seen)
    done = subprocess.run(
        ["node", str(CLIENTS / "browser_replay.mjs"), browser, str(tmp_path / "profile"), world.inspector, "/clicked"],
        capture_output=True, text=True, timeout=180 * SLOW, check=False,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"})
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["list"] == "Last requests" and told["request"] == "POST /clicked"
    assert "ping" in told["page"] and "hush" not in told["page"] and told["bold"] == 0
    assert told["title"] == "A request sent again" and told["answer"] == "Answer: 201"
    assert f"<b>answer {before + 1}</b> to ping" in told["after"]  # shown as text
    assert len(world.origin.seen) == before + 1


def test_http2_is_named(world):
    """Its frames are not read, and whoever looks for the requests is told so."""
    stream = world.edge.tunnel("127.0.0.1", world.origin.port)
    world.edge.send(stream, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", fin=True)
    world.edge.recv(stream)
    said = "HTTP/2, not inspected"
    r = until(lambda: next((r for r in world.status()["requests"] if r.get("note") == said), None))
    assert r["kind"] == "tcp", r
    assert said in world.shown() and said in world.get("")
    until(lambda: re.search(rf"TCP .*{said}", world.log()), what=lambda: world.log()[-2000:])


def test_a_device_without_expose_is_inspected_when_asked(binary, world, edge, tmp_path):
    """Off by default; nothing is sent again, since there is no exposed service."""
    origin = world.origin
    for asked in (True, False):
        flags = "--standalone", "--allow-gateway", edge.id, "--allow", f"127.0.0.1:{origin.port}"
        d = Inspected(binary, tmp_path / f"run-{asked}", "/does/not/exist", *flags, *(["--inspect"] if asked else []))
        try:
            page = d.page
            if not asked:
                with pytest.raises(urllib.error.HTTPError):
                    d.get("requests?token=" + "0" * 32)
                assert "Requests in detail" not in d.log()
                continue
            assert d.inspector.startswith(page + "requests?token=")
            edge.connect(d)
            stream = edge.tunnel("127.0.0.1", origin.port)
            edge.send(stream, "GET /run HTTP/1.1\r\nHost: pub.example\r\n\r\n")
            i = until(lambda: d.listed("/run"))[0]
            shown = d.shown(f"/requests/{i}")
            assert "pub.example" in shown and "cannot be sent again" in shown, shown
        finally:
            d.stop()
            d.check()
