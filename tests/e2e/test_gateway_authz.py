# SPDX-License-Identifier: Apache-2.0
"""ExternalAuth filters: an HTTP service and a gRPC one are asked before requests pass."""
import base64
import collections
import http.client
import http.server
import json
import pathlib
import socket
import subprocess
import threading
import time

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.wait import GUARD, until

pytestmark = pytest.mark.tsan

CLIENTS = pathlib.Path(__file__).resolve().parent / "clients"


class Guard(http.server.BaseHTTPRequestHandler):
    """What it says follows from the header authorization."""

    protocol_version = "HTTP/1.1"
    seen = []
    patience = threading.Event()  # set: who hangs does so no longer

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        Guard.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        how = self.headers.get("authorization")
        if how == "hang up":
            self.close_connection = True
            return
        if how == "hang":
            Guard.patience.wait(3 * GUARD)
            self.close_connection = True
            return
        status, headers, text = {
            "good": (200, {"X-User": "alice", "X-Other": "left behind", "X-List": "more"}, b""),
            "login": (302, {"Location": "https://login.test/", "Set-Cookie": "s=1"}, b""),
            "broken": (500, {}, b"secret trace"),
        }.get(how, (401, {"WWW-Authenticate": "Bearer", "X-Why": "no token"}, b"who are you?"))
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_POST = do_HEAD = do_OPTIONS = do_PUT = do_GET

    def log_message(self, *args):
        pass


class Grpc:
    def __init__(self):
        self.proc = subprocess.Popen(["node", str(CLIENTS / "authz.mjs")], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, text=True)
        line = self.proc.stdout.readline()
        assert line, "run tools/setup test first?"
        self.port = json.loads(line)["port"]
        self.seen = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.proc.stdout:
            self.seen.append(json.loads(line)["attributes"])

    def close(self):
        self.proc.stdin.close()
        self.proc.wait(GUARD)


def auth(protocol, service, **more):
    return {"type": "ExternalAuth", "externalAuth": {
        "protocol": protocol, "backendRef": {"name": service, "port": 80}, protocol.lower(): {}, **more}}


def rewrite(path):
    return {"type": "URLRewrite", "urlRewrite": {"path": {"type": "ReplaceFullPath", "replaceFullPath": path}}}


class World:
    def __init__(self, binary, tmp):
        self.fabric = f = fb.Fabric(binary, tmp)
        self.origin, self.grpc = gw.Origin(), Grpc()
        self.guard = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Guard)
        threading.Thread(target=self.guard.serve_forever, daemon=True).start()
        self.port = gw.free_port()
        f.service("web", [self.origin.port])
        f.service("guard", [self.guard.server_port])
        f.service("judge", [self.grpc.port])
        f.service("nobody", [gw.free_port()])
        f.service("empty", [])
        f.gateway_object("edge", [("http", "HTTP", self.port)])
        rules = [
            fb.prefix("/http", fb.to("web"), filters=[auth("HTTP", "guard", http={
                "path": "/check", "allowedHeaders": ["X-Tenant"], "allowedResponseHeaders": ["X-User"]})]),
            fb.prefix("/all", fb.to("web"), filters=[auth("HTTP", "guard")]),
            fb.prefix("/body", fb.to("web"), filters=[auth("HTTP", "guard", forwardBody={"maxSize": 100000})]),
            fb.prefix("/grpc", fb.to("web"), filters=[auth("GRPC", "judge")]),
            fb.prefix("/grpcbody", fb.to("web"), filters=[auth("GRPC", "judge", forwardBody={"maxSize": 1000},
                                                               grpc={"allowedHeaders": ["authorization"]})]),
            fb.prefix("/nobody", fb.to("web"), filters=[auth("HTTP", "nobody")]),
            fb.prefix("/empty", fb.to("web"), filters=[auth("GRPC", "empty")]),
            fb.prefix("/gone", fb.to("web"), filters=[auth("HTTP", "gone")]),
            fb.prefix("/free", fb.to("web")),
            {"matches": [{"path": {"type": "PathPrefix", "value": "/moved"}}], "filters": [
                auth("HTTP", "guard"), {"type": "RequestRedirect", "requestRedirect": {"hostname": "new.test"}}]},
            fb.prefix("/cors", fb.to("web"), filters=[
                {"type": "CORS", "cors": {"allowOrigins": ["https://a.test"]}}, auth("HTTP", "guard")]),
            fb.prefix("/half", {**fb.to("web", weight=1), "filters": [
                rewrite("/left")]},
                {**fb.to("web", weight=3), "filters": [
                    rewrite("/right"),
                    {"type": "RequestHeaderModifier", "requestHeaderModifier": {
                        "set": [{"name": "x-side", "value": "right"}]}}]}),
        ]
        f.apply(fb.route("all", "edge", rules))
        self.gateway = f.start_gateway()
        f.programmed("edge")
        # Routes and the endpoints of each service come in any order.
        for path in ("/free", "/http", "/grpc", "/half"):
            until(lambda p=path: self.ask(p, "good").status == 200, 15, f"the route of {path} and its endpoints")

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=2 * GUARD)

    def ask(self, path, authorization=None, method="GET", body=None, conn=None, **headers):
        c = conn or self.connect()
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        if authorization:
            headers["Authorization"] = authorization
        c.request(method, path, body, headers)
        r = c.getresponse()
        r.body = r.read()
        if not conn:
            c.close()
        return r

    def close(self):
        try:
            self.fabric.close()
        finally:
            Guard.patience.set()
            self.origin.close()
            self.guard.shutdown()
            self.guard.server_close()
            self.grpc.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("authz"))
    yield world
    world.close()


def told(answer):
    assert answer.status == 200, (answer.status, answer.body)
    return json.loads(answer.body)["headers"]


def test_http_lets_pass_and_copies_what_it_may(w):
    del Guard.seen[:]
    got = told(w.ask("/http/a?b=c", "good", Host="a.test", X_Tenant="t1", X_Own="mine", X_User="forged"))
    assert got["x-user"] == "alice" and "x-other" not in got and got["x-own"] == "mine"
    method, path, headers, body = Guard.seen[-1]
    assert (method, path, body) == ("GET", "/check/http/a?b=c", b"")
    assert headers["host"] == "a.test" and headers["x-tenant"] == "t1" and headers["content-length"] == "0"
    assert "x-own" not in headers and "x-user" not in headers


def test_http_without_a_list_copies_all_of_the_answer(w):
    got = told(w.ask("/all", "good"))
    assert (got["x-user"], got["x-other"]) == ("alice", "left behind")
    assert "content-length" not in got


def test_http_refusal_is_the_clients_answer(w):
    requests = w.origin.requests
    r = w.ask("/http")
    assert (r.status, r.body) == (401, b"who are you?")
    assert r.headers["www-authenticate"] == "Bearer" and r.headers["x-why"] == "no token"
    r = w.ask("/http", "login")
    assert (r.status, r.headers["location"], r.headers["set-cookie"]) == (302, "https://login.test/", "s=1")
    assert w.origin.requests == requests


def test_no_answer_means_no(w):
    requests = w.origin.requests
    for path, how in (("/http", "broken"), ("/http", "hang up"), ("/nobody", "good"), ("/empty", "good"),
                      ("/grpc", "fail")):
        r = w.ask(path, how)
        assert (r.status, b"secret" in r.body) == (403, False), (path, how, r.status, r.body)
    assert w.ask("/gone", "good").status == 500
    assert w.origin.requests == requests
    until(lambda: w.gateway.metrics().sum("spanwire_gateway_local_replies_total", reason="ext_authz_error") >= 5)


def test_a_service_that_hangs_is_given_up(w):
    """The refusal comes while the service still thinks, and not before it had its time."""
    start = time.monotonic()
    assert w.ask("/http", "hang").status == 403
    assert 3 < time.monotonic() - start and not Guard.patience.is_set()


def test_a_connection_goes_on_after_refusals(w):
    c = w.connect()
    for how, status in ((None, 401), ("good", 200), ("broken", 403), ("good", 200)):
        assert w.ask("/http", how, conn=c).status == status
    body = b"x" * 50000
    for how, status in ((None, 401), ("good", 200)):
        assert w.ask("/http", how, "POST", body, conn=c).status == status
    c.close()


def test_the_body_goes_to_both(w):
    del Guard.seen[:]
    body = bytes(range(256)) * 300
    r = w.ask("/body", "good", "POST", body)
    assert json.loads(r.body)["body"] == len(body)
    assert Guard.seen[-1][3] == body and Guard.seen[-1][2]["content-length"] == str(len(body))
    chunks = (b"a" * 1000 for _ in range(20))
    r = w.ask("/body", "good", "POST", chunks)
    assert json.loads(r.body)["body"] == 20000 and Guard.seen[-1][3] == b"a" * 20000
    assert w.ask("/body", "good", "POST", b"y" * 100001).status == 413


def test_a_body_that_is_not_shown_still_arrives(w):
    del Guard.seen[:]
    r = w.ask("/http", "good", "POST", b"z" * 3000000)
    assert json.loads(r.body)["body"] == 3000000
    assert Guard.seen[-1][3] == b""


def test_head_and_options(w):
    assert w.ask("/http", "good", "HEAD").status == 200
    assert w.ask("/http", None, "HEAD").status == 401
    assert w.ask("/http", "good", "OPTIONS").status == 200


def test_preflights_need_no_leave_and_refusals_have_cors_headers(w):
    r = w.ask("/cors", None, "OPTIONS", Origin="https://a.test", Access_Control_Request_Method="PUT")
    assert r.status == 200 and r.headers["access-control-allow-origin"] == "https://a.test"
    r = w.ask("/cors", None, Origin="https://a.test")
    assert r.status == 401 and r.headers["access-control-allow-origin"] == "https://a.test"


def test_redirects_are_guarded_too(w):
    assert w.ask("/moved").status == 401
    r = w.ask("/moved", "good")
    assert r.status == 302 and "new.test" in r.headers["location"]


def test_grpc_passes_and_changes_headers(w):
    del w.grpc.seen[:]
    r = w.ask("/grpc/x?q=1", "good", Host="a.test", X_Secret="s", X_List="one", X_User="forged")
    got = told(r)
    assert got["x-user"] == "alice" and "x-secret" not in got and got["x-list"] == "one, more"
    assert got["host"] == "a.test" and r.headers["x-checked"] == "yes"
    seen = until(lambda: w.grpc.seen[-1:], 5, "the question")[0]
    h = seen["request"]["http"]
    assert (h["method"], h["path"], h["host"], h["scheme"], h["protocol"]) == (
        "GET", "/grpc/x?q=1", "a.test", "http", "HTTP/1.1")
    assert h["headers"]["x-secret"] == "s" and h["headers"][":path"] == "/grpc/x?q=1"
    assert seen["source"]["address"]["socket_address"]["address"] == "127.0.0.1"
    assert seen["destination"]["address"]["socket_address"]["port_value"] == w.port
    assert abs(seen["request"]["time"]["seconds"] - time.time()) < 60
    assert w.ask("/grpc", "bare").status == 200


def test_grpc_refusals(w):
    r = w.ask("/grpc", "refuse")
    assert (r.status, r.body, r.headers["www-authenticate"]) == (401, b"who are you?", "Bearer")
    assert w.ask("/grpc", "nonsense").status == 403
    assert w.ask("/grpc").status == 403


def test_grpc_sees_the_body_and_only_the_headers_of_its_list(w):
    del w.grpc.seen[:]
    r = w.ask("/grpcbody", "good", "POST", b"\x00\xffbytes", X_Secret="s")
    assert json.loads(r.body)["body"] == 7
    h = until(lambda: w.grpc.seen[-1:], 5, "the question")[0]["request"]["http"]
    assert base64.b64decode(h["raw_body"]) == b"\x00\xffbytes"
    assert set(h["headers"]) == {"authorization", "x-envoy-auth-partial-body"}
    assert w.ask("/grpcbody", "good", "POST", b"y" * 1001).status == 413


def test_over_http2(w):
    """Many at once on one connection; with bodies where they are let in (this curl minds an early answer)."""
    for path, how, status in (("/http", "good", "200"), ("/http", "no", "401"), ("/grpc", "good", "200")):
        body = ["--data-binary", "q" * 20000] if status == "200" else []
        done = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "--parallel", "--parallel-immediate", "-o",
                               "/dev/null", "-w", "%{http_code} %{http_version}\n", "-H", f"Authorization: {how}",
                               *body, f"http://127.0.0.1:{w.port}{path}/[1-20]"],
                              capture_output=True, text=True, timeout=3 * GUARD, check=False)
        assert done.stdout.split("\n")[:-1] == [f"{status} 2"] * 20, (path, how, done.stdout, done.stderr)


def test_clients_that_leave_meanwhile(w):
    """Their questions go with them; the gateway goes on."""
    for _ in range(30):
        s = socket.create_connection(("127.0.0.1", w.port))
        s.sendall(b"GET /http HTTP/1.1\r\nHost: a\r\nAuthorization: hang\r\n\r\n")
        s.close()
        s = socket.create_connection(("127.0.0.1", w.port))
        s.sendall(b"POST /body HTTP/1.1\r\nHost: a\r\nAuthorization: good\r\nContent-Length: 5000\r\n\r\nhalf")
        s.close()
    assert w.ask("/http", "good").status == 200


def test_shares_of_backends_with_filters_of_their_own(w):
    counts = collections.Counter()
    c = w.connect()
    for _ in range(400):
        got = json.loads(w.ask("/half/x", conn=c).body)
        side = got["target"]
        assert (got["headers"].get("x-side") == "right") == (side == "/right"), got
        counts[side] += 1
    c.close()
    assert set(counts) == {"/left", "/right"} and 60 <= counts["/left"] <= 140, counts


def test_zz_refusals_are_logged_and_counted(w):
    until(lambda: "request not authorised" in w.gateway.log(), 5)
    until(lambda: w.gateway.metrics().sum("spanwire_gateway_local_replies_total", reason="ext_authz_denied") >= 5)
