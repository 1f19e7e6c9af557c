# SPDX-License-Identifier: Apache-2.0
"""What the gateway keeps, and for how long: answers nobody reads, what it knows of hosts and listeners that change."""
import http.client
import os
import select
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

import pytest
from harness import gateway as gw
from harness.wait import SLOW, until

SANITIZED = bool(os.environ.get("SPANWIRE_SANITIZED"))


def forward(cluster="c"):
    return [{"match": {"prefix": "/"}, "route": {"cluster": cluster}}]


def plain(name, port, routes, **extra):
    return gw.listener(name, port, [{"filters": [gw.hcm(routes, **extra)]}])


def get(port, path="/echo"):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=40 * SLOW)
    try:
        c.request("GET", path)
        return c.getresponse().status
    finally:
        c.close()


def page(gateway):
    return urllib.request.urlopen(f"http://127.0.0.1:{gateway.admin_port}/clusters").read().decode()


def send_until_stuck(s, data, most):
    """As much of it as the other end takes while nobody reads what it says."""
    s.setblocking(False)
    sent = 0
    while sent < most and select.select([], [s], [], 1.0 * SLOW)[1]:
        try:
            sent += s.send(data[sent % len(data):])
        except BlockingIOError:
            pass
        except ConnectionError:
            break


def test_pipelined_requests_wait_for_whoever_does_not_read(binary, tmp_path):
    """Answers are short and the requests shorter: what was not read yet bounds what is answered."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    port = gw.free_port()
    body = {"status": 200, "body": {"inline_string": "x" * 4000}}
    gate = gw.Gateway(binary, tmp_path, [plain("l", port, [{"match": {"prefix": "/"}, "direct_response": body}])],
                      workers=1)
    request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
    get(port, "/")
    before = gate.rss_kib()
    socks = []
    for _ in range(8):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(("127.0.0.1", port))
        send_until_stuck(s, request * 1000, 150_000)  # that asks for 22 MB of answers
        socks.append(s)
    grown = gate.rss_kib() - before
    assert SANITIZED or grown < 8 * 1024, grown
    # Nothing is lost for one that reads later.
    s = socks[0]
    s.setblocking(True)
    s.settimeout(40 * SLOW)
    with s, s.makefile("rb") as f:
        for _ in range(2000):
            assert f.readline() == b"HTTP/1.1 200 OK\r\n"
            while f.readline() != b"\r\n":
                pass
            assert f.read(4000) == b"x" * 4000
    for s in socks[1:]:
        s.close()
    gate.stop()


CHECK = {"timeout": "30s", "unhealthy_threshold": 1, "healthy_threshold": 1, "http_health_check": {"path": "/echo"}}


def test_what_checks_found_counts_when_the_cluster_changes(binary, tmp_path):
    """A new version of a cluster does not send requests to hosts that are known to be dead."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    alive, dead, port = gw.Origin(), gw.free_port(), gw.free_port()

    def resources(timeout, interval):
        return [plain("l", port, forward()), gw.cluster(
            "c", [dead, alive.port], health_checks=[{**CHECK, "interval": interval}],
            common_lb_config={"healthy_panic_threshold": {"value": 0}}, connect_timeout=timeout)]

    gate = gw.Gateway(binary, tmp_path, resources("5s", "0.1s"))
    flag = f"c::127.0.0.1:{dead}::health_flags::/failed_active_hc"
    until(lambda: flag in page(gate), 10, "the dead one to be found")
    gate.apply(resources("6s", "1000s"))  # its first check is not now
    until(lambda: '"6s"' in urllib.request.urlopen(
        f"http://127.0.0.1:{gate.admin_port}/config_dump").read().decode(), 10, "the new version")
    assert {get(port) for _ in range(20)} == {200}
    assert flag in page(gate)
    gate.apply([plain("l", port, forward()), gw.cluster("c", [dead, alive.port])])
    until(lambda: flag not in page(gate), 10, "a cluster without checks to forget them")
    alive.close()
    gate.stop()


class Half(gw.Origin):
    """Never well by /b, by /a when it is told so."""

    def __init__(self):
        self.asked = {"/a": 0, "/b": 0}
        self.well = False
        super().__init__()

    def _answer(self, conn, f, method, target, headers):
        if target in self.asked:
            self.asked[target] += 1
            self._send(conn, method, b"", "200" if target == "/a" and self.well else "503")
            return True
        return super()._answer(conn, f, method, target, headers)


def test_one_check_of_several_is_enough_to_be_out(binary, tmp_path):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    origin, port = Half(), gw.free_port()
    checks = [{**CHECK, "interval": "0.05s", "http_health_check": {"path": p}} for p in origin.asked]
    gate = gw.Gateway(binary, tmp_path, [plain("l", port, forward()), gw.cluster(
        "c", [origin.port], health_checks=checks, common_lb_config={"healthy_panic_threshold": {"value": 0}})])

    def both(more):
        until(lambda: min(origin.asked.values()) > more, 10, "more checks of both kinds")
    both(2)
    assert get(port) == 503
    origin.well = True
    both(max(origin.asked.values()) + 2)
    assert get(port) == 503
    origin.close()
    gate.stop()


def test_who_was_ejected_is_back_when_nobody_ejects_any_more(binary, tmp_path):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    origin, port = gw.Origin(), gw.free_port()
    outlier = {"consecutive_5xx": 2, "base_ejection_time": "1000s", "max_ejection_percent": 100}
    panic = {"healthy_panic_threshold": {"value": 0}}
    gate = gw.Gateway(binary, tmp_path, [
        plain("l", port, forward()), gw.cluster("c", [origin.port], outlier_detection=outlier, common_lb_config=panic)],
        workers=1)
    assert [get(port, "/status/503") for _ in range(2)] == [503, 503]
    assert get(port) == 503 and "failed_outlier_check" in page(gate)
    gate.apply([plain("l", port, forward()), gw.cluster("c", [origin.port], common_lb_config=panic)])
    until(lambda: get(port) == 200, 10, "the host to be back")
    assert "failed_outlier_check" not in page(gate)
    origin.close()
    gate.stop()


def tls_listener(port, cert, status, **context):
    """Answers with a status of its own; a chain of its own configuration."""
    return gw.listener("l", port, [{
        "filters": [gw.hcm([{"match": {"prefix": "/"}, "direct_response": {"status": status}}])],
        "transport_socket": gw.tls_socket(*cert, **context)}])


def test_first_bytes_that_come_late_meet_the_rules_of_today(binary, tmp_path):
    """A connection may wait before it says anything; what it says then is not judged by what was configured before."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    port, cert = gw.free_port(), gw.make_cert(tmp_path)
    gate = gw.Gateway(binary, tmp_path, [tls_listener(port, cert, 200)], workers=1)
    context = ssl.create_default_context(cafile=cert[0])

    def ask(raw):
        with context.wrap_socket(raw, server_hostname="localhost") as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return s.makefile("rb").readline()

    def fresh():
        return socket.create_connection(("127.0.0.1", port), timeout=40 * SLOW)
    assert ask(fresh()).startswith(b"HTTP/1.1 200 ")
    silent = fresh()
    assert ask(fresh()).startswith(b"HTTP/1.1 200 ")  # the silent one was accepted before that
    gate.apply([tls_listener(port, cert, 201)])
    until(lambda: ask(fresh()).startswith(b"HTTP/1.1 201 "), 10, "the new rules")
    assert ask(silent).startswith(b"HTTP/1.1 201 ")
    silent = fresh()
    assert ask(fresh()).startswith(b"HTTP/1.1 201 ")
    gate.apply([])
    until(lambda: refused(port), 10, "the listener to be gone")
    with pytest.raises((OSError, ssl.SSLError)):
        ask(silent)
    gate.stop()


def refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return False
    except OSError:
        return True


def test_untrusted_certificates_are_not_the_same_as_none(binary, tmp_path):
    """ACCEPT_UNTRUSTED believes any certificate, require_client_certificate still wants one."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    port, cert, stranger = gw.free_port(), gw.make_cert(tmp_path), gw.make_cert(tmp_path, "stranger.test")
    listener = tls_listener(port, cert, 200, require_client_certificate=True)
    common = listener["filter_chains"][0]["transport_socket"]["typed_config"]["common_tls_context"]
    common["validation_context"] = {"trusted_ca": {"filename": cert[0]}, "trust_chain_verification": "ACCEPT_UNTRUSTED"}
    gate = gw.Gateway(binary, tmp_path, [listener])

    def curl(*args):
        return subprocess.run(["curl", "-sSk", "--max-time", "40", "-o", "/dev/null", "-w", "%{http_code}", *args,
                               f"https://127.0.0.1:{port}/"], capture_output=True, text=True, check=False).stdout
    assert curl("--cert", stranger[0], "--key", stranger[1]) == "200"
    assert curl() == "000"
    gate.stop()


class Echo:
    """Answers datagrams."""

    def __init__(self):
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.open = True
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        self.sock.settimeout(0.2)
        while self.open:
            try:
                data, who = self.sock.recvfrom(2048)
                self.sock.sendto(data, who)
            except TimeoutError:
                pass

    def close(self):
        self.open = False
        self.thread.join()
        self.sock.close()


class Pings:
    """
    Clients of datagrams: each sends the next when it is answered, or after a fifth of a second. What is answered late
    is answered.
    """

    def __init__(self, port, clients=12):
        self.sent = {}
        self.answered = 0
        self.stopped = self.closed = False
        for _ in range(clients):
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.connect(("127.0.0.1", port))
            s.setblocking(False)
            self.sent[s] = 0
        self.due = dict.fromkeys(self.sent, 0.0)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        while not self.closed:
            for s in select.select(list(self.sent), [], [], 0.01)[0]:
                try:
                    s.recv(100)
                    self.answered += 1
                    self.due[s] = min(self.due[s], time.monotonic() + 0.02)
                except OSError:  # refused: not answered
                    pass
            for s in self.sent if not self.stopped else ():
                if time.monotonic() >= self.due[s]:
                    self.due[s] = time.monotonic() + 0.2
                    self.sent[s] += 1
                    try:
                        s.send(b"ping")
                    except OSError:
                        pass

    def stop(self):
        """No more of them; how many each client sent."""
        self.stopped = True
        time.sleep(0.1)
        return dict(self.sent)

    def close(self):
        self.closed = True
        self.thread.join()
        for s in self.sent:
            s.close()


def udp_listener(port):
    return {"@type": gw.TYPE + "envoy.config.listener.v3.Listener", "name": "u", "address": {"socket_address": {
        "protocol": "UDP", "address": "127.0.0.1", "port_value": port}}, "listener_filters": [{
            "name": "udp", "typed_config": {
                "@type": gw.TYPE + "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig",
                "stat_prefix": "u", "cluster": "c"}}]}


def test_a_udp_port_that_is_taken_is_tried_again(binary, tmp_path):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    echo, port = Echo(), gw.free_port()
    taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    taken.bind(("127.0.0.1", port))
    gate = gw.Gateway(binary, tmp_path, [udp_listener(port), gw.cluster("c", [echo.port])], wait=False)
    until(lambda: "will try again" in gate.log(), 10, "the refusal")
    taken.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", port))
        s.settimeout(1)

        def answered():
            try:
                s.send(b"ping")
                return s.recv(100)
            except OSError:
                return None
        until(answered, 10, "the port")
    gate.wait_ready()
    echo.close()
    gate.stop()


def test_datagrams_are_answered_while_another_process_takes_over(binary, tmp_path):
    """The kernel gives the old process its share until its socket is closed."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    echo, port = Echo(), gw.free_port()
    udp = udp_listener(port)
    old = gw.Gateway(binary, tmp_path, [udp, gw.cluster("c", [echo.port])], workers=1)
    pings = Pings(port)
    new = gw.Gateway(binary, tmp_path, None, workers=1)
    assert "will try again" not in new.log()
    old.stop()
    # What was under way when a socket came or went is lost once; a second of silence would be five times for half of them.
    sent = pings.stop()
    until(lambda: sum(sent.values()) - pings.answered <= len(sent), what="the answers")
    new.stop()
    pings.close()
    echo.close()


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
@pytest.mark.parametrize("action, status, arrives", [
    ("ALLOW", "200", True), ("REJECT_REQUEST", "400", None), ("DROP_HEADER", "200", False)])
def test_underscores_in_names_are_treated_as_told(binary, tmp_path, version, action, status, arrives):
    """To many a program behind us x_user is the same as x-user."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)
    origin, port = gw.Origin(), gw.free_port()
    gate = gw.Gateway(binary, tmp_path, [
        plain("l", port, forward(), common_http_protocol_options={"headers_with_underscores_action": action}),
        gw.cluster("c", [origin.port])])
    got = subprocess.run(["curl", "-sS", "--max-time", "40", version, "-H", "X_User: root", "-o", "/dev/null", "-w",
                          "%{http_code}", f"http://127.0.0.1:{port}/echo"], capture_output=True, text=True,
                         check=False).stdout
    assert got == status
    assert [b"x_user" in h.lower() for h in origin.heads] == ([] if arrives is None else [arrives])
    origin.close()
    gate.stop()
