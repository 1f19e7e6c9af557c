# SPDX-License-Identifier: Apache-2.0
"""A gateway with resources from files, and an origin that tells what it got."""
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from .ports import free_port
from .serve import Server
from .wait import GUARD, SLOW, until

TYPE = "type.googleapis.com/"
HCM = TYPE + "envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
ROUTER = TYPE + "envoy.extensions.filters.http.router.v3.Router"
DOWNSTREAM_TLS = TYPE + "envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
UPSTREAM_TLS = TYPE + "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
HTTP_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


def address(port):
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


def hcm(routes, **extra):
    return {"name": "hcm", "typed_config": {
        "@type": HCM, "stat_prefix": "t", "use_remote_address": True,
        "route_config": {"name": "r", "virtual_hosts": [
            {"name": "all", "domains": ["*"], "routes": routes}]},
        "upgrade_configs": [{"upgrade_type": "websocket"}],
        "http_filters": [{"name": "envoy.filters.http.router", "typed_config": {"@type": ROUTER}}],
        **extra}}


def listener(name, port, chains, **extra):
    return {"@type": TYPE + "envoy.config.listener.v3.Listener", "name": name,
            "address": address(port), "filter_chains": chains, **extra}


def tls_socket(cert, key, **extra):
    return {"name": "tls", "typed_config": {"@type": DOWNSTREAM_TLS, "common_tls_context": {
        "tls_certificates": [{"certificate_chain": {"filename": cert},
                              "private_key": {"filename": key}}],
        "alpn_protocols": ["h2", "http/1.1"]}, **extra}}


def cluster(name, ports, **extra):
    return {"@type": TYPE + "envoy.config.cluster.v3.Cluster", "name": name, "type": "STATIC",
            "connect_timeout": "10s",
            "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": [
                {"endpoint": {"address": address(p)}} for p in ports]}]}, **extra}


def h2_options():
    return {"typed_extension_protocol_options": {HTTP_OPTIONS: {
        "@type": TYPE + HTTP_OPTIONS,
        "explicit_http_config": {"http2_protocol_options": {}}}}}


class Gateway:
    """The program, with its resources in one file that can be replaced."""

    def __init__(self, binary, where, resources, workers=2, wait=True, drain="5s", stdout=None, flags=()):
        self.dir = where / "xds"
        self.dir.mkdir(exist_ok=True)
        self.binary, self.workers, self.drain = binary, workers, drain
        self.log_path = where / f"gateway-{time.monotonic_ns()}.log"
        self.ready_port, self.admin_port = free_port(), free_port()
        self.stats_port = free_port()
        if resources is not None:
            self.apply(resources)
        with open(self.log_path, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [binary, "gateway", "--xds-dir", str(self.dir), "--workers", str(workers),
                 "--admin-addr", f"127.0.0.1:{self.admin_port}", "--stats-addr", f"127.0.0.1:{self.stats_port}",
                 "--ready-addr", f"127.0.0.1:{self.ready_port}", "--drain-time", drain,
                 "--log-level", "debug", *map(str, flags)], stdin=subprocess.DEVNULL, stdout=stdout or log,
                stderr=log)
        if wait:
            try:
                self.wait_ready()
            except AssertionError:
                self.process.kill()
                self.process.wait()
                raise

    def apply(self, resources):
        fresh = self.dir.parent / "resources.new"
        fresh.write_text(json.dumps({"resources": resources}), encoding="utf-8")
        os.replace(fresh, self.dir / "resources.json")

    def log(self):
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def wait_ready(self, seconds=GUARD):
        def ready():
            assert self.process.poll() is None, "gateway ended:\n" + self.log()
            return re.search(r'gateway\s+ready|"gateway","message":"ready"', self.log())
        until(ready, seconds, f"the gateway to be ready, see {self.log_path}")

    def rss_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as f:
            return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1))

    def stop(self, expect=0):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(GUARD * SLOW)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError("gateway does not end:\n" + self.log()[-3000:]) from None
        if "Sanitizer" in self.log():
            raise AssertionError(self.log())
        if expect is not None:
            assert status == expect, self.log()


class Origin(Server):
    """
    An HTTP/1.1 server that reads byte by byte what the gateway sends. Paths choose what it does:
    /echo tells the request as JSON, /size/N sends N bytes, /sha counts the body, /chunked sends
    trailers, /close ends without an answer, /slow/MS waits, /hold waits for 'release', /ws is a WebSocket-like echo.
    """

    def __init__(self, **kw):
        self.connections = 0
        self.requests = 0
        self.heads = []
        self.release = threading.Event()
        self.limit = 0  # requests per connection, 0: any
        super().__init__(backlog=512, **kw)

    def _serve(self, conn):
        self.connections += 1
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        served = 0
        try:
            with conn, conn.makefile("rb", buffering=65536) as f:
                while self._one(conn, f):
                    served += 1
                    if self.limit and served >= self.limit:
                        return
        except (OSError, ValueError):
            pass

    @staticmethod
    def _body(f, headers):
        if headers.get("transfer-encoding") == "chunked":
            trailers = {}
            while True:
                size = int(f.readline().split(b";")[0], 16)
                if size == 0:
                    break
                yield f.read(size)
                f.readline()
            while (line := f.readline().strip()):
                k, v = line.decode().split(":", 1)
                trailers[k.lower()] = v.strip()
            headers[":trailers"] = trailers
        else:
            left = int(headers.get("content-length", 0))
            while left:
                piece = f.read(min(left, 65536))
                if not piece:
                    raise OSError("cut")
                left -= len(piece)
                yield piece

    def _one(self, conn, f):
        line = f.readline()
        if not line:
            return False
        method, target, _ = line.decode().split()
        raw, headers = [line], {}
        while (line := f.readline()).strip():
            raw.append(line)
            k, v = line.decode("latin-1").split(":", 1)
            k = k.lower()
            headers[k] = headers[k] + ", " + v.strip() if k in headers else v.strip()
        self.requests += 1
        self.heads.append(b"".join(raw))
        return self._answer(conn, f, method, target, headers)

    def _answer(self, conn, f, method, target, headers):
        parts = target.split("?")[0].split("/")
        if parts[1] == "close":
            return False
        if parts[1] == "ws":
            conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
                         b"Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n")
            while (data := f.read1(65536)):
                conn.sendall(data)
            conn.sendall(b"bye")
            return False
        sha, count = hashlib.sha256(), 0
        for piece in self._body(f, headers):
            sha.update(piece)
            count += len(piece)
        if parts[1] == "slow":
            time.sleep(int(parts[2]) / 1000)
        if parts[1] == "hold":
            self.release.wait(120 * SLOW)
        if parts[1] == "size":
            self._send(conn, method, pattern(int(parts[2])))
        elif parts[1] == "status":
            self._send(conn, method, b"s" * (0 if parts[2] in ("204", "304") else 3), parts[2])
        elif parts[1] == "chunked":
            conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
                         b"Trailer: x-sum\r\n\r\n5\r\nhello\r\n6;a=b\r\n world\r\n"
                         b"0\r\nx-sum: 42\r\n\r\n")
        elif parts[1] == "raw":
            conn.sendall(bytes.fromhex(parts[2]))
            return len(parts) < 4
        elif parts[1] == "sha":
            self._send(conn, method, f"{sha.hexdigest()} {count}".encode())
        else:
            told = {"method": method, "target": target, "headers": headers, "body": count}
            self._send(conn, method, json.dumps(told).encode())
        return True

    @staticmethod
    def _send(conn, method, body, status="200"):
        length = b"" if status == "204" else b"Content-Length: %d\r\n" % len(body)
        head = b"HTTP/1.1 %s X\r\n%sX-Origin: yes\r\n\r\n" % (status.encode(), length)
        conn.sendall(head if method == "HEAD" else head + body)


def pattern(n):
    block = bytes(range(256)) * 256
    return (block * (n // len(block) + 1))[:n]


def make_cert(where, name="localhost"):
    """Self-signed, made by openssl."""
    cert, key = where / f"{name}.crt", where / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "30", "-subj", f"/CN={name}", "-addext",
                    f"subjectAltName=DNS:{name},IP:127.0.0.1"], check=True, capture_output=True)
    return str(cert), str(key)


def have(program):
    return shutil.which(program) is not None
