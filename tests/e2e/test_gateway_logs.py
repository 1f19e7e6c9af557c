# SPDX-License-Identifier: Apache-2.0
"""Access logs whose reader stops: neither requests nor other logs nor the end of the process wait for it."""
import fcntl
import http.client
import os
import re
import threading
import time

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.wait import SLOW, until

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
            gw.cluster("origin", [self.origin.port])], **more)
        self.conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        self.asked = 0

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

    def stalled(self):
        """The reader is away: all requests are answered, the other log has them all, losses are told."""
        self.ask(LINES)
        until(lambda: self.kept() == LINES, 5, "the other log")
        lost = until(self.lost, 5, "lost lines to be counted")
        assert 0 < lost < LINES, lost
        assert self.gateway.log().count("is not read fast enough") == 1, self.gateway.log()
        return lost

    def ended_soon(self):
        self.conn.close()
        began = time.monotonic()
        self.gateway.stop()
        assert time.monotonic() - began < 4 * SLOW
        assert self.kept() == self.asked
        assert self.gateway.log().count("is not read fast enough") == 2  # the rest was given up
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
        g.ended_soon()
    finally:
        os.close(fd)


def test_standard_output_that_is_not_read_holds_up_nothing(binary, tmp_path):
    fd, out = os.pipe()
    g = Logged(binary, tmp_path, "/dev/stdout", stdout=out)
    try:
        assert not fcntl.fcntl(out, fcntl.F_GETFL) & os.O_NONBLOCK  # it is shared: left as it was
        g.stalled()
        g.ended_soon()
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
        reader.join(10)
        lines = b"".join(parts).decode().splitlines()
        assert len(lines) == LINES - lost + 3
        for line in lines:
            assert re.fullmatch(r"</size/\d x{40000}>", line), line[:80]
        assert g.kept() == LINES + 3
    finally:
        os.close(fd)
        g.origin.close()
