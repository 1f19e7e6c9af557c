# SPDX-License-Identifier: Apache-2.0
"""Compressed answers: off by default, on with --gateway-gzip, and only where it is right and worth it."""
import gzip
import hashlib
import subprocess
import zlib

import pytest
from harness import fabric as fb
from harness.wait import GUARD, until

pytestmark = pytest.mark.tsan

TEXT = b"The same words again and again. " * 200
BACKEND = """
import http from 'node:http';
const text = 'The same words again and again. '.repeat(200);
const answers = {
  '/text': { 'content-type': 'text/plain; charset=utf-8', 'accept-ranges': 'bytes' },
  '/upper': { 'content-type': 'TEXT/HTML' },
  '/image': { 'content-type': 'image/png' },
  '/typeless': {},
  '/encoded': { 'content-type': 'text/plain', 'content-encoding': 'br' },
  '/fixed': { 'content-type': 'text/plain', 'cache-control': 'public, No-Transform' },
  '/strong': { 'content-type': 'text/plain', etag: '"abc"' },
  '/weak': { 'content-type': 'text/plain', etag: 'W/"abc"' },
  '/vary': { 'content-type': 'text/plain', vary: 'origin' },
  '/varied': { 'content-type': 'text/plain', vary: 'Origin, accept-encoding' },
  '/star': { 'content-type': 'text/plain', vary: '*' },
};
let waiting;
http.createServer((req, res) => {
  if (req.url === '/seen') return res.end(req.headers['accept-encoding'] ?? 'none');
  if (req.url === '/small') { res.setHeader('content-type', 'text/plain'); return res.end('tiny'); }
  if (req.url === '/empty') { res.setHeader('content-type', 'text/plain'); return res.end(); }
  if (req.url === '/part') {
    res.writeHead(206, { 'content-type': 'text/plain', 'content-range': 'bytes 0-99/6400', 'content-length': 100 });
    return res.end(text.slice(0, 100));
  }
  if (req.url === '/events') {
    res.writeHead(200, { 'content-type': 'text/plain' });
    res.write('first\\n');
    waiting = res;
    return undefined;
  }
  if (req.url === '/go') {
    waiting.end('second\\n');
    return res.end();
  }
  if (req.url === '/cut') {
    res.writeHead(200, { 'content-type': 'text/plain', 'content-length': 100000 });
    return res.write(text, () => res.destroy());
  }
  if (req.url.startsWith('/big')) {
    res.writeHead(200, { 'content-type': 'application/json' });
    let n = 0;
    const more = () => { while (n < 400) if (!res.write(String(n++).padStart(9, '0').repeat(10000))) return res.once('drain', more); res.end(); };
    return more();
  }
  res.writeHead(200, { ...answers[req.url], 'content-length': text.length });
  res.end(req.method === 'HEAD' ? undefined : text);
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });
process.stdin.on('end', () => process.exit(0)).resume();
"""


class World:
    def __init__(self, binary, tmp, *options):
        self.backend = subprocess.Popen(["node", "--input-type=module", "-e", BACKEND], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.fabric = f = fb.Fabric(binary, tmp, "--gateway-port-offset", "8000", *options)
        f.service("web", [int(self.backend.stdout.readline())])
        f.gateway_object("edge", [("http", "HTTP", 80)])
        f.apply(fb.route("all", "edge", [fb.prefix("/", fb.to("web"))]))
        self.gateway = f.start_gateway()
        f.programmed("edge")
        until(lambda: self.ask("/seen")[0] == 200, 15, "the route")

    def ask(self, path, *options, accept="gzip"):
        """Status, headers and raw body, by curl."""
        cmd = ["curl", "-sS", "-m", "60", "-D", "-", *options, f"http://127.0.0.1:8080{path}"]
        if accept is not None:
            cmd += ["-H", f"accept-encoding: {accept}"]
        out = subprocess.run(cmd, capture_output=True, timeout=90, check=False).stdout
        head, _, body = out.partition(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            headers[name.lower()] = value
        return (int(lines[0].split()[1]) if lines[0] else 0), headers, body

    def close(self):
        try:
            self.fabric.close()
        finally:
            self.backend.stdin.close()
            self.backend.wait(GUARD)


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("gzip"), "--gateway-gzip")
    yield world
    world.close()


def test_off_by_default(binary, tmp_path):
    """First in the file: it has the ports of the others."""
    world = World(binary, tmp_path)
    try:
        _, headers, body = world.ask("/text")
        assert body == TEXT and "content-encoding" not in headers and "vary" not in headers
    finally:
        world.close()


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_text_is_compressed_for_who_takes_it(w, version):
    status, headers, body = w.ask("/text", version)
    assert status == 200 and headers["content-encoding"] == "gzip" and headers["vary"] == "Accept-Encoding"
    assert "content-length" not in headers and "accept-ranges" not in headers
    assert len(body) < len(TEXT) / 10 and gzip.decompress(body) == TEXT


@pytest.mark.parametrize("accept,yes", [
    ("gzip", True), ("br, gzip;q=0.5", True), ("*", True), ("GZIP", True),
    ("gzip;q=0", False), ("br", False), ("identity", False), ("*;q=0", False), (None, False)])
def test_the_client_decides(w, accept, yes):
    _, headers, body = w.ask("/text", accept=accept)
    assert headers["vary"] == "Accept-Encoding"
    assert ("content-encoding" in headers) == yes
    assert (gzip.decompress(body) if yes else body) == TEXT
    assert ("content-length" in headers) != yes


@pytest.mark.parametrize("path", ["/image", "/typeless", "/encoded", "/fixed"])
def test_some_answers_stay_as_they_are(w, path):
    status, headers, body = w.ask(path)
    assert status == 200 and body == TEXT and headers["content-length"] == str(len(TEXT))
    assert headers.get("content-encoding") == ("br" if path == "/encoded" else None)


def test_small_partial_and_bodiless_answers_stay_as_they_are(w):
    assert w.ask("/empty")[2] == b"" and "content-encoding" not in w.ask("/empty")[1]
    status, headers, body = w.ask("/part")
    assert status == 206 and body == TEXT[:100] and "content-encoding" not in headers
    status, headers, body = w.ask("/text", "--head")
    assert status == 200 and body.strip() == b"" and "content-encoding" not in headers
    # What is made here is not compressed either.
    assert "content-encoding" not in w.ask("/%zz")[1]


def test_types_and_tags_and_vary(w):
    assert w.ask("/upper")[1]["content-encoding"] == "gzip"
    assert w.ask("/strong")[1]["etag"] == 'W/"abc"'
    assert w.ask("/strong", accept="br")[1]["etag"] == '"abc"'
    assert w.ask("/weak")[1]["etag"] == 'W/"abc"'
    assert w.ask("/vary")[1]["vary"] == "origin, Accept-Encoding"
    assert w.ask("/varied")[1]["vary"] == "Origin, accept-encoding"
    assert w.ask("/star")[1]["vary"] == "*"
    assert w.ask("/seen")[2] == b"gzip"  # the backend may compress by itself


def test_every_piece_arrives_at_once(w):
    """What the backend wrote can be read before it writes more."""
    p = subprocess.Popen(["curl", "-sSN", "-m", "90", "-H", "accept-encoding: gzip", "http://127.0.0.1:8080/events"],
                         stdout=subprocess.PIPE)
    z = zlib.decompressobj(31)
    got = b""
    while b"first\n" not in got:
        piece = p.stdout.read1(4096)
        assert piece, got
        got += z.decompress(piece)
    assert b"second" not in got
    assert w.ask("/go")[0] == 200  # only now is there more
    got += z.decompress(p.stdout.read())
    assert got == b"first\nsecond\n" and z.eof and p.wait(GUARD) == 0


@pytest.mark.parametrize("version", ["--http1.1", "--http2-prior-knowledge"])
def test_a_large_body_to_a_slow_reader(w, version):
    expect = hashlib.sha256()
    for n in range(400):
        expect.update(f"{n:09}".encode() * 10000)
    z = zlib.decompressobj(31)
    got = hashlib.sha256()
    p = subprocess.Popen(["curl", "-sS", "-m", "120", "--limit-rate", "200k", version, "-H", "accept-encoding: gzip",
                          "http://127.0.0.1:8080/big"], stdout=subprocess.PIPE)
    while piece := p.stdout.read(65536):
        while piece:
            got.update(z.decompress(piece, 1 << 20))
            piece = z.unconsumed_tail
    assert p.wait(GUARD) == 0 and z.eof
    assert got.digest() == expect.digest()
    until(lambda: w.gateway.metrics().sum("spanwire_gateway_gzip_bytes_total", direction="in") >= 36_000_000)
    assert 0 < w.gateway.metrics().sum("spanwire_gateway_gzip_bytes_total", direction="out") < 20_000_000


def test_a_backend_that_breaks_off_is_not_an_end(w):
    p = subprocess.run(["curl", "-sS", "-m", "60", "-H", "accept-encoding: gzip", "http://127.0.0.1:8080/cut"],
                       capture_output=True, timeout=90, check=False)
    assert p.returncode != 0
    z = zlib.decompressobj(31)
    z.decompress(p.stdout)
    assert not z.eof
    assert w.ask("/text")[0] == 200


def test_clients_that_leave(w):
    for _ in range(20):
        subprocess.run(["curl", "-sS", "-m", "0.2", "--limit-rate", "1k", "-o", "/dev/null", "-H",
                        "accept-encoding: gzip", "http://127.0.0.1:8080/big"], capture_output=True, check=False)
    assert w.ask("/text")[0] == 200
