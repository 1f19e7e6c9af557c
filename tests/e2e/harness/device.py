# SPDX-License-Identifier: Apache-2.0
"""A device ('spanwire connector run', 'spanwire expose') and a gateway of another make that dials it."""
import contextlib
import http.server
import json
import re
import signal
import threading
import urllib.request

from .control import _Here
from .node import _SANITIZER, Process
from .quicpeer import CLIENTS, SECONDS, Peer
from .wait import GUARD, SLOW, until

GROUP = "/apis/networking.datumapis.com/v1alpha1/namespaces/default"
PROXIES = "/apis/networking.datumapis.com/v1alpha/namespaces/default/httpproxies"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@contextlib.contextmanager
def ending():
    """Yields a function that notes devices: those still running are stopped at the end, and all are judged."""
    made = []

    def note(device):
        made.append(device)
        return device
    yield note
    for d in made:
        if d.alive:
            d.stop()
        d.check()


class Device(Process):
    """Waits for nothing: the API need not be there."""

    def __init__(self, binary, directory, kubeconfig, *flags, command=("connector", "run"), data=None, env=None):
        directory.mkdir(parents=True, exist_ok=True)
        self.dir = directory
        self.data = data or directory / "key"
        log = directory / "log"
        self.mark = log.stat().st_size if log.exists() else 0  # of runs before
        super().__init__(_Here(), [binary, *command, "--kubeconfig", str(kubeconfig), "--data", str(self.data),
                                   "--admin-addr", "127.0.0.1:0", "--bind", "127.0.0.1:0", "--log-level", "debug",
                                   *flags], directory / "log", env=env)

    def log(self):
        with open(self.log_path, "rb") as f:
            f.seek(self.mark)
            return f.read().decode(errors="replace")

    @property
    def page(self):
        found = until(lambda: re.findall(r"status page (http://[0-9.:]+/)", self.log()) or not self.alive, 10,
                      "the device to start")
        assert self.alive, f"the device ended:\n{self.log()[-2000:]}"
        return found[-1]

    def get(self, path):
        with urllib.request.urlopen(self.page + path, timeout=GUARD * SLOW) as r:
            return r.read().decode()

    def status(self):
        return json.loads(self.get("status"))

    def metric(self, name):
        """The sum of a metric's values."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.get("metrics").splitlines()
                   if re.match(rf"{name}(_total)?(\{{|\s)", line))

    def wait_live(self, seconds=10):
        return until(lambda: self.status() if self.status()["live"] else None, seconds, "the device to be live")

    @property
    def id(self):
        return self.status()["id"]

    def addrs(self):
        return self.status()["addresses"]

    def stop(self, expect=0):
        self.signal(signal.SIGTERM)
        assert self.wait(20) == expect, self.log()[-2000:]

    def check(self):
        found = _SANITIZER.search(self.log())
        assert not found, f"sanitizer: {self.log()[found.start():][:4000]}"


class Edge(Peer):
    """A gateway: the real iroh speaking the tunnel protocol (clients/tunnel_gateway.mjs)."""

    def __init__(self, **options):
        super().__init__(["node", str(CLIENTS / "tunnel_gateway.mjs"), json.dumps(options)])
        self.asked = 0

    def op(self, op, **fields):
        self.tell(json.dumps({"op": op, **fields}))

    def connect(self, device, seconds=SECONDS, **more):
        self.op("connect", peer=device.id, addrs=device.addrs(), **more)
        return self.event("connected", seconds)

    def ask(self, text, seconds=SECONDS):
        """One exchange on a stream of its own: (status, whole answer)."""
        self.asked += 1
        self.op("ask", id=self.asked, text=text)
        e = self.event("answer", seconds, id=self.asked)
        return int(e["text"].split(" ")[1]) if e["text"] else 0, e

    def tunnel(self, host, port):
        """An open tunnel: its id."""
        self.asked += 1
        self.op("open", id=self.asked, text=f"CONNECT {host}:{port} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n")
        e = self.event("opened", id=self.asked)
        assert e["text"].startswith("HTTP/1.1 200 "), e
        return self.asked

    def send(self, stream, text, fin=False):
        self.op("send", id=stream, text=text, fin=fin)
        self.event("sent", id=stream)

    def recv(self, stream, until=None):
        """Bytes up to a text, or to the end."""
        self.op("recv", id=stream, until=until)
        return self.event("got", id=stream)["text"]


class Web:
    """A web server on a free loopback port: '/hello', '/big' (5 MB), echoes of POST bodies."""

    def __init__(self):
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self, body):
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                self.answer(bytes(range(256)) * 20000 if self.path == "/big" else b"hello " + self.path.encode())

            do_HEAD = do_GET

            def do_POST(self):
                self.answer(self.rfile.read(int(self.headers["Content-Length"])))

            def log_message(self, *args):
                pass

            def version_string(self):
                return "web"

            def date_time_string(self, timestamp=None):
                return "now"

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def advertise(control, name, connector, *services):
    """A ConnectorAdvertisement of (address, port[, protocol])."""
    listed = [{"address": s[0], "ports": [{"name": "p", "port": s[1], "protocol": s[2] if len(s) > 2 else "TCP"}]}
              for s in services]
    r = control.post(f"{GROUP}/connectoradvertisements", {
        "apiVersion": "networking.datumapis.com/v1alpha1", "kind": "ConnectorAdvertisement",
        "metadata": {"name": name}, "spec": {"connectorRef": {"name": connector},
                                             "layer4": [{"name": "default", "services": listed}]}})
    assert r.status == 201, r
    return r
