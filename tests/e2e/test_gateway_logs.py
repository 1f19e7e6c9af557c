# SPDX-License-Identifier: Apache-2.0
"""Access logs whose reader stops: neither requests nor other logs nor the end of the process wait for it."""
import fcntl
import http.client
import os
import re
import socket
import subprocess
import threading
import time

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.wait import GUARD, SLOW, until

pytestmark = pytest.mark.tsan

LONG = "x" * 40000
LINES = 260  # more than a pipe and two queues hold


def file_log(path, text):
    return {"name": "file", "typed_config": {
        "@type": gw.TYPE + "envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": str(path),
        "log_format": {"text_format_source": {"inline_string": text + "\n"}}}}


class Logged:
    """A gateway with one log that is read by the test, when it likes, and one in a file."""

    def __init__(self, binary, tmp, path, **more):
        self.origin, self.port, self.file = gw.Origin(), gw.free_port(), tmp / "kept.log"
        logs = [file_log(path, "<%REQ(:PATH)% %REQ(X-LONG)%>"), file_log(self.file, "%REQ(:PATH)%")]
        self.gateway = gw.Gateway(binary, tmp, [
            gw.listener("l", self.port, [{"filters": [gw.hcm([
                {"match": {"prefix": "/"}, "route": {"cluster": "origin"}}], access_log=logs)]}]),
            gw.cluster("origin", [self.origin.port])], drain="300s", **more)
        self.conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD)
        self.asked = 0
        self.began = time.monotonic()

    def ask(self, n=1):
        for _ in range(n):
            self.asked += 1
            self.conn.request("GET", f"/size/{self.asked % 10}", headers={"X-Long": LONG})
            r = self.conn.getresponse()
            assert r.status == 200
            r.read()

    def kept(self):
        return self.file.read_text(encoding="utf-8").count("\n") if self.file.exists() else 0

    def lost(self):
        text = fb._fetch(f"http://127.0.0.1:{self.gateway.stats_port}/metrics")
        return int(re.search(r"^spanwire_gateway_access_log_lost_total (\d+)$", text, re.M).group(1))

    def told(self):
        """How often the log speaks of lost lines."""
        return self.gateway.log().count("is not read fast enough")

    def stalled(self):
        """The reader is away: all requests are answered, the other log has them all, losses are told."""
        self.ask(LINES)
        until(lambda: self.kept() == LINES, 5, "the other log")
        lost = until(self.lost, 5, "lost lines to be counted")
        assert 0 < lost < LINES, lost
        until(self.told, 5, "lost lines to be told of")
        assert self.told() <= 1 + (time.monotonic() - self.began) / 10, self.gateway.log()
        return lost

    def ends(self):
        """Without its reader, and long before the time for a drain is over."""
        self.conn.close()
        told = self.told()
        self.gateway.stop()
        assert self.kept() == self.asked
        assert self.told() > told  # the rest was given up
        self.origin.close()


def drain(fd, into):
    while True:
        try:
            data = os.read(fd, 1 << 20)
        except BlockingIOError:
            time.sleep(0.01)
            continue
        if not data:
            return
        into.append(data)


def test_a_pipe_that_is_not_read_holds_up_nothing(binary, tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    g = Logged(binary, tmp_path, fifo)
    try:
        g.stalled()
        g.ends()
    finally:
        os.close(fd)


def test_standard_output_that_is_not_read_holds_up_nothing(binary, tmp_path):
    fd, out = os.pipe()
    g = Logged(binary, tmp_path, "/dev/stdout", stdout=out)
    try:
        assert not fcntl.fcntl(out, fcntl.F_GETFL) & os.O_NONBLOCK  # it is shared: left as it was
        g.stalled()
        g.ends()
    finally:
        os.close(fd)
        os.close(out)


def test_a_reader_that_comes_back_gets_whole_lines(binary, tmp_path):
    """What the queue has is kept, what it had no room for is gone as a whole."""
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    fd = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    g = Logged(binary, tmp_path, fifo)
    parts = []
    reader = threading.Thread(target=drain, args=(fd, parts))
    try:
        lost = g.stalled()
        reader.start()
        until(lambda: b"".join(parts).count(b"\n") == LINES - lost, 10, "the lines that were kept")
        g.ask(3)
        g.conn.close()
        g.gateway.stop()
        reader.join(GUARD)
        lines = b"".join(parts).decode().splitlines()
        assert len(lines) == LINES - lost + 3
        for line in lines:
            assert re.fullmatch(r"</size/\d x{40000}>", line), line[:80]
        assert g.kept() == LINES + 3
    finally:
        os.close(fd)
        g.origin.close()


def opens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def test_a_log_that_is_not_read_does_not_hold_up_the_end(binary, tmp_path):
    """The program's own log, this time: standard error is a pipe that was full before it began."""
    fd, err = os.pipe()
    os.set_blocking(err, False)
    try:
        while True:
            os.write(err, b"." * 4096)
    except BlockingIOError:
        os.set_blocking(err, True)
    (tmp_path / "xds").mkdir()
    port = gw.free_port()
    g = subprocess.Popen([binary, "gateway", "--xds-dir", str(tmp_path / "xds"), "--admin-addr", f"127.0.0.1:{port}",
                          "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stderr=err)
    try:
        until(lambda: opens(port), 10, "the admin port")
        g.terminate()
        assert g.wait(GUARD * SLOW) == 0
    finally:
        g.kill()
        g.wait()
        os.close(fd)
        os.close(err)


@pytest.mark.parametrize("version, told", [("1.2", "TLSv1.2"), ("1.3", "TLSv1.3")])
@pytest.mark.parametrize("protocol", ["--http1.1", "--http2"])
def test_who_the_client_was_is_told_when_it_is_gone(binary, tmp_path, protocol, version, told):
    """Lines are written at the end of a request, when the connection may be no more."""
    port, cert = gw.free_port(), gw.make_cert(tmp_path)
    log = tmp_path / "who.log"
    text = "%DOWNSTREAM_TLS_VERSION% %DOWNSTREAM_TLS_CIPHER% %DOWNSTREAM_PEER_SUBJECT%"
    socket_ = gw.tls_socket(*cert, require_client_certificate=True)
    socket_["typed_config"]["common_tls_context"]["validation_context"] = {"trusted_ca": {"filename": cert[0]}}
    gate = gw.Gateway(binary, tmp_path, [gw.listener("l", port, [{"transport_socket": socket_, "filters": [gw.hcm(
        [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}], access_log=[file_log(log, text)])]}])])
    subprocess.run(["curl", "-sSfk", "--max-time", str(GUARD), protocol, f"--tlsv{version}", "--tls-max", version,
                    "--cert", cert[0], "--key", cert[1], f"https://127.0.0.1:{port}/"], check=True)
    gate.stop()
    what, cipher, who = log.read_text(encoding="utf-8").split()
    assert (what, who) == (told, "localhost") and cipher in ("AES-128-GCM", "AES-256-GCM", "CHACHA20-POLY1305")
