# SPDX-License-Identifier: Apache-2.0
"""A small town: an edge machine with a public address, clients, and homes behind NAT.

    edge     203.0.113.10    spanwire up: API, gateway, sidecar, relay
    visitor  203.0.113.20    whoever asks for a hostname
    router   203.0.113.30    masquerades 192.168.7.0/24; nothing new comes in
    home1    192.168.7.2     a device
    home2    192.168.7.3     another one

The public net is a bridge in the test's own namespace.
"""
import hashlib
import http.server
import pathlib
import re
import signal
import socketserver
import subprocess
import threading

from .netns import NetNs, _quiet, new_bridge
from .node import Process, _SANITIZER
from .sidecar import UdpEcho
from .wait import guard, until

EDGE, VISITOR, ROUTER = "203.0.113.10", "203.0.113.20", "203.0.113.30"
HOMES = {"home1": "192.168.7.2", "home2": "192.168.7.3"}
HTTP, HTTPS, API, RELAY = 8080, 8443, 6443, 3340

MASQUERADE = """
table ip town {
    chain out { type nat hook postrouting priority 100; oifname "eth0" masquerade; }
    chain in {
        type filter hook forward priority 0; policy drop;
        iifname "lan" accept
        ct state established,related accept
    }
    chain self { type filter hook input priority 0; policy accept; iifname "eth0" ct state new drop; }
}
"""


class Town:
    """The machines and the wires."""

    def __init__(self):
        self.here = NetNs("town", "/proc/self/ns/net")
        self.here.ip("link set lo up", "link add town type bridge", "link set town up")
        self.all = {}
        for name, address in (("edge", EDGE), ("visitor", VISITOR), ("router", ROUTER)):
            ns = self._add(name)
            self.here.ip(f"link add t-{name} type veth peer name eth0 netns {name}",
                         f"link set t-{name} master town up")
            ns.ip("link set eth0 up", f"addr add {address}/24 dev eth0")
        router = self.all["router"]
        router.ip(new_bridge("lan"), "link set lan up", "addr add 192.168.7.1/24 dev lan")
        router.run("nft", "-f", "-", stdin=MASQUERADE)
        for name, address in HOMES.items():
            ns = self._add(name)
            router.ip(f"link add l-{name} type veth peer name eth0 netns {name}",
                      f"link set l-{name} master lan up")
            ns.ip("link set eth0 up", f"addr add {address}/24 dev eth0",
                  "route add default via 192.168.7.1")

    def _add(self, name):
        ns = NetNs(name)
        _quiet(ns)
        self.all[name] = ns
        return ns

    def __getitem__(self, name):
        return self.all[name]

    def move(self, name, address):
        """The device gets another address, as after a change of networks."""
        ns = self.all[name]
        ns.ip("addr flush dev eth0", f"addr add {address}/24 dev eth0",
              "route add default via 192.168.7.1")

    def delete(self):
        # The kernel takes a namespace apart later: with the wires in it the next town would find their names taken.
        self.here.ip(*(f"link del t-{name}" for name in ("edge", "visitor", "router")), "link del town")
        for ns in self.all.values():
            ns.delete()


class Edge(Process):
    """'spanwire up' on the edge machine."""

    def __init__(self, binary, ns, where, *flags, address=EDGE):
        self.ns, self.data = ns, pathlib.Path(where) / "edge"
        self.address = f"[{address}]" if ":" in address else address
        super().__init__(ns, [
            binary, "up", "--data", str(self.data), "--listen", f"{self.address}:{API}", "--address", address,
            "--relay-listen", f"{self.address}:{RELAY}", "--target-domain", "town.example",
            "--log-level", "info", *flags], pathlib.Path(where) / "up.log")
        until(self._up, 30, "spanwire up")

    def _up(self):
        assert self.alive, f"up ended:\n{self.log()[-3000:]}"
        return "spanwire is up" in self.log()

    @property
    def kubeconfig(self):
        return self.data / "admin.kubeconfig"

    def api(self, *argv):
        """A request to the API with curl: its options, then the path."""
        with self.ns.entered():
            return subprocess.run(
                ["curl", "-sS", "-g", "--cacert", str(self.data / "pki/root.crt"), "-H",
                 f"Authorization: Bearer {(self.data / 'pki/admin.token').read_text().strip()}",
                 *argv[:-1], f"https://{self.address}:{API}{argv[-1]}"],
                capture_output=True, text=True, check=True, timeout=guard(20)).stdout

    def role_log(self, role):
        return (self.data / "log" / f"{role}.log").read_text(encoding="utf-8", errors="replace")

    def role_pid(self, role):
        """Of a child of ours only."""
        out = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(self._supervisor())],
                             capture_output=True, text=True, check=True).stdout
        found = [int(line.split()[0]) for line in out.splitlines()
                 if re.search(rf"spanwire {role}\b", line)]
        assert len(found) == 1, out
        return found[0]

    def _supervisor(self):
        return self.pid  # setpriv and prlimit replace themselves

    def stop(self):
        if self.alive:
            self.signal(signal.SIGTERM)
        status = self.wait(30)
        for log in (self.data / "log").glob("*.log"):
            text = log.read_text(encoding="utf-8", errors="replace")
            found = _SANITIZER.search(text)
            assert not found, f"{log.name}: {text[found.start():][:4000]}"
        assert status == 0, f"up ended with {status}:\n{self.log()[-3000:]}"


class Device(Process):
    """'spanwire expose' in a home."""

    def __init__(self, binary, ns, where, edge, name, target, hostname, *flags):
        self.name, self.hostname = name, hostname
        self.data = pathlib.Path(where) / f"device-{name}"
        super().__init__(ns, [
            binary, "expose", str(target), "--name", name, "--hostname", hostname,
            "--data", str(self.data), "--kubeconfig", str(edge.kubeconfig),
            "--relay", f"http://{edge.address}:{RELAY}/", *flags],
            pathlib.Path(where) / f"device-{name}.log")

    def stop(self, expect=0):
        if self.alive:
            self.signal(signal.SIGINT)
        status = self.wait()
        found = _SANITIZER.search(self.log())
        assert not found, f"sanitizer: {self.log()[found.start():][:4000]}"
        assert status == expect, f"expose ended with {status}:\n{self.log()[-3000:]}"


_BASE = hashlib.shake_256(b"town").digest(1 << 20)


def blocks(n):
    """n MiB whose place shows in their bytes: each begins one byte further into the pattern."""
    twice = _BASE + _BASE
    for i in range(n):
        yield twice[i % (1 << 20):][:1 << 20]


def digest(n):
    h = hashlib.sha256()
    for block in blocks(n):
        h.update(block)
    return h.hexdigest()


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 1024


class Site:
    """A web server in a home: /name, /big/MIB, /slow/SECONDS, POST /sum."""

    def __init__(self, ns, name, address="127.0.0.1"):
        self.name, self.seen = name, []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                del args

            def _say(self, body, kind="text/plain"):
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):  # noqa: N802
                site.seen.append((self.path, dict(self.headers)))
                if self.path.startswith("/big/"):
                    n = int(self.path.rsplit("/", 1)[1])
                    self.send_response(200)
                    self.send_header("Content-Length", str(n << 20))
                    self.end_headers()
                    for block in blocks(n):
                        self.wfile.write(block)
                else:
                    self._say(f"{site.name} {self.path} {self.headers['Host']}\n".encode())

            def do_POST(self):  # noqa: N802
                site.seen.append((self.path, dict(self.headers)))
                left, h = int(self.headers["Content-Length"]), hashlib.sha256()
                while left:
                    piece = self.rfile.read(min(left, 1 << 20))
                    h.update(piece)
                    left -= len(piece)
                self._say(h.hexdigest().encode())

        with ns.entered():
            self.server = _Server((address, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def resolver(ns):
    """Answers every question with its own bytes, the answer bit set."""
    with ns.entered():
        return UdpEcho(lambda q: q[:2] + bytes([q[2] | 0x80]) + q[3:])
