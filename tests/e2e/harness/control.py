# SPDX-License-Identifier: Apache-2.0
"""A running 'spanwire control' and a plain HTTPS client for it."""
import base64
import functools
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile

import h2.config
import h2.connection
import h2.events
import pytest

from .node import _SANITIZER, Process
from .ports import free_port
from .wait import GUARD, SLOW, until

HERE = pathlib.Path(__file__).resolve().parent.parent
SCENARIOS = HERE / "kube-scenarios"
CRDS = SCENARIOS / "fixtures" / "crd"


class _Here:
    """The namespace pytest itself runs in."""

    def entered(self):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        return False


class _Inside(http.client.HTTPSConnection):
    """Connects from inside a namespace."""

    def __init__(self, ns, *args, **kw):
        self.ns = ns
        super().__init__(*args, **kw)

    def connect(self):
        with self.ns.entered():
            super().connect()


def loopback_up():
    """A fresh network namespace has its loopback down."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False, capture_output=True)


@functools.lru_cache(None)
def find_kubectl():
    """The pinned kubectl beside the one on PATH where a package brings several; None: none, or older than 1.29."""
    if os.environ.get("KUBECTL"):
        return os.environ["KUBECTL"]
    kubectl = shutil.which("kubectl")
    if not kubectl:
        return None
    pinned = pathlib.Path(os.path.realpath(kubectl)).parent / "kubectl.1.33"
    kubectl = str(pinned) if os.access(pinned, os.X_OK) else kubectl
    said = subprocess.run([kubectl, "version", "--client", "-o", "json"], capture_output=True, text=True, check=False)
    minor = re.search(r'"minor": *"(\d+)', said.stdout)
    return kubectl if minor and int(minor.group(1)) >= 29 else None


NO_KUBECTL = "NO KUBECTL 1.29 OR NEWER ON THIS MACHINE (Debian 12 has none): nothing is driven with it"
needs_kubectl = pytest.mark.skipif(not find_kubectl(), reason=NO_KUBECTL)


def need_kubectl():
    """kubectl's path. For fixtures, before they start anything: all that use them are skipped without."""
    path = find_kubectl()
    if not path:
        pytest.skip(NO_KUBECTL)
    return path


def find_gateway_api():
    """The upstream CRDs, where the machine has a copy."""
    for top in (os.environ.get("GATEWAY_API"), HERE.parent.parent / "schemas/gateway-api",
                HERE.parent.parent.parent / "shared/data/gateway-api/crd/standard"):
        if top and os.path.isdir(top):
            return str(top)
    return None


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def message(self):
        return self.json.get("message", "")

    def __repr__(self):
        return f"<{self.status} {self.body[:600]!r}>"


def cpu_s(pid):
    """
    The processor time a process has used so far: a bound on it says what the work costs, however busy the machine is
    and whoever else has to wait.
    """
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
        user, system = f.read().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Control(Process):
    """
    Its port is none of those that connections get: while it is down for a restart, a client's own end could have it.
    """

    ns = _Here()  # for those that only ask the API of another process

    def __init__(self, binary, directory, *flags, wait=True, port=None, env=None, ns=None):
        self.ns, self.dir = ns or _Here(), pathlib.Path(directory)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.data = self.dir / "data"
        self.binary, self.flags = binary, flags
        with self.ns.entered():
            loopback_up()
        super().__init__(self.ns, [binary, "control", "--data", str(self.data), "--listen",
                                   f"127.0.0.1:{port or free_port()}", *flags], self.dir / "log", env=env)
        self.mark = 0
        if wait:
            self.wait_ready()

    def wait_ready(self):
        def ready():
            assert self.alive, f"control ended:\n{self.log()[-3000:]}"
            found = re.findall(r"ready on https://127\.0\.0\.1:(\d+)", self.log())
            return found[-1] if len(found) > self.mark else None
        self.port = int(until(ready, GUARD, "control to be ready"))
        self.kubeconfig = self.data / "admin.kubeconfig"
        self._context = None
        until(lambda: self.get("/readyz").status == 200, GUARD, "readyz")

    # --- plain requests ---
    def _secret(self, key):
        text = self.kubeconfig.read_text()
        return base64.b64decode(re.search(rf"{key}: (\S+)", text).group(1))

    def context(self, cert=True, versions=None):
        context = ssl.create_default_context(cadata=self._secret("certificate-authority-data").decode())
        if versions:
            context.minimum_version = context.maximum_version = versions
        if cert:
            with tempfile.NamedTemporaryFile() as f:
                f.write(self._secret("client-certificate-data") + b"\n" + self._secret("client-key-data"))
                f.flush()
                context.load_cert_chain(f.name)
        return context

    def connection(self, context=None, timeout=GUARD):
        if context is None:
            self._context = self._context or self.context()
            context = self._context
        return _Inside(self.ns, "127.0.0.1", self.port, context=context, timeout=timeout * SLOW)

    def request(self, method, path, body=None, headers=None, context=None, timeout=GUARD):
        headers = dict(headers or {})
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        if isinstance(body, str):
            body = body.encode()
        c = self.connection(context, timeout)
        try:
            c.request(method, path, body, headers)
            r = c.getresponse()
            return Answer(r.status, r.headers, r.read())
        finally:
            c.close()

    def get(self, path, **kw):
        return self.request("GET", path, **kw)

    def post(self, path, body, **kw):
        return self.request("POST", path, body, **kw)

    def put(self, path, body, **kw):
        return self.request("PUT", path, body, **kw)

    def delete(self, path, body=None, **kw):
        return self.request("DELETE", path, body, **kw)

    def patch(self, path, body, kind="merge", query="", headers=None, **kw):
        types = {"merge": "application/merge-patch+json", "json": "application/json-patch+json",
                 "strategic": "application/strategic-merge-patch+json",
                 "apply": "application/apply-patch+yaml"}
        return self.request("PATCH", path + query, json.dumps(body) if not isinstance(body, (str, bytes)) else body,
                            headers={"Content-Type": types[kind], **(headers or {})}, **kw)

    def watch(self, path, timeout=GUARD):
        """Opens a watch; iterate over its events."""
        return Watch(self.connection(timeout=timeout), path)

    # --- kubectl ---
    def kubectl(self, *argv, stdin=None, check=True, timeout=180, env=None):
        exe = need_kubectl()
        home = self.dir / "home"
        home.mkdir(exist_ok=True)
        done = subprocess.run([exe, "--kubeconfig", str(self.kubeconfig), "--cache-dir", str(home / "cache"), *argv],
                              input=stdin, capture_output=True, text=True, timeout=timeout * SLOW, check=False,
                              env={"PATH": os.environ["PATH"], "HOME": str(home), **(env or {})})
        if check:
            assert done.returncode == 0, f"kubectl {argv}: {done.returncode}\n{done.stdout}{done.stderr}"
            return done.stdout
        return done

    def install_lab_crds(self):
        for f in sorted(CRDS.glob("*.yaml")):
            self.kubectl("apply", "--server-side", "-f", str(f))

    # --- life ---
    def restart(self, kill=True):
        self.mark = len(re.findall(r"ready on https://", self.log()))
        self.stop(kill=kill)
        env = {}
        Process.__init__(self, self.ns, [self.binary, "control", "--data", str(self.data), "--listen",
                                         f"127.0.0.1:{self.port}", *self.flags], self.dir / "log", env=env)
        self.wait_ready()

    def stop(self, kill=False):
        if not self.alive:
            return self.proc.returncode
        if kill:
            self.kill()
            return None
        self.signal(signal.SIGTERM)
        return self.wait(GUARD)

    def close(self):
        status = self.stop()
        found = _SANITIZER.search(self.log())
        assert not found, f"sanitizer: {self.log()[found.start():][:4000]}"
        assert status in (0, None), f"control ended with {status}:\n{self.log()[-3000:]}"


class Watch:
    """Lines of a watch as they come."""

    def __init__(self, connection, path):
        self.connection = connection
        connection.request("GET", path)
        self.answer = connection.getresponse()
        self.status = self.answer.status

    def __iter__(self):
        return self

    def __next__(self):
        line = self.answer.readline()
        if not line:
            raise StopIteration
        return json.loads(line)

    def close(self):
        self.connection.close()


class H2:
    """Requests on one HTTP/2 connection: what get() adds goes out with flush(), in one piece."""

    def __init__(self, api):
        context = api.context()
        context.set_alpn_protocols(["h2"])
        raw = socket.create_connection(("127.0.0.1", api.port), GUARD * SLOW)
        self.s = context.wrap_socket(raw, server_hostname="127.0.0.1")
        self.c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.heads, self.bodies, self.ended = {}, {}, set()
        self.c.initiate_connection()
        self.flush()

    def flush(self):
        self.s.sendall(self.c.data_to_send())

    def get(self, stream, path, *headers):
        self.c.send_headers(stream, [(":method", "GET"), (":path", path), (":scheme", "https"), (":authority", "x"),
                                     *headers], end_stream=True)

    def read(self, answers=0, heads=0):
        """Until so many answers are complete, or so many have begun."""
        while len(self.ended) < answers or len(self.heads) < heads:
            data = self.s.recv(65536)
            assert data, "the server has closed the connection"
            for event in self.c.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    self.heads[event.stream_id] = dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    self.bodies[event.stream_id] = self.bodies.get(event.stream_id, b"") + event.data
                    self.c.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self.ended.add(event.stream_id)
            self.flush()


def config_map(name, data=None, **meta):
    out = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **meta}}
    if data is not None:
        out["data"] = data
    return out
