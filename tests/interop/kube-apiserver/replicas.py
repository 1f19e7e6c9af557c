# SPDX-License-Identifier: Apache-2.0
"""Replicas of 'spanwire control' on a cluster, and what a Service does for data planes: they reach one that lives."""
import json
import re
import selectors
import socket
import threading
import urllib.error
import urllib.request

from harness.control import _Here
from harness.node import _SANITIZER, Process
from harness.wait import GUARD, until

SECRET = "spanwire-xds"


class Replica(Process):
    def __init__(self, binary, where, name, kubeconfig, *flags):
        self.name = name
        super().__init__(_Here(), [
            binary, "control", "--kubeconfig", str(kubeconfig), "--admin-addr", "127.0.0.1:0", "--xds-listen",
            "127.0.0.1:0", "--xds-secret", SECRET, "--name", "spanwire-control.spanwire-system.svc", "--lease-namespace",
            "spanwire-system", "--identity", name, "--connector", "false", *flags], where / f"{name}.log")

    def _address(self, what):
        found = until(lambda: re.search(what, self.log()), GUARD, f"{self.name}: {what}")
        host, port = found.group(1).rsplit(":", 1)
        return host, int(port)

    @property
    def xds(self):
        return self._address(r"xDS on (\S+)")

    def page(self, path):
        """Status and text of a page."""
        host, port = self._address(r"pages on http://(\S+)")
        try:
            with urllib.request.urlopen(f"http://{host}:{port}{path}", timeout=GUARD) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def ready(self):
        assert self.alive, self.log()[-3000:]
        return self.page("/ready")[0] == 200

    def leads(self):
        return self.alive and json.loads(self.page("/debug/xds")[1])["controllers"]["gateway"]["leading"]

    def clients(self):
        return json.loads(self.page("/debug/xds")[1])["clients"]

    def stop(self):
        if self.alive:
            self.signal(15)
            assert self.wait(GUARD) == 0, self.log()[-3000:]
        found = _SANITIZER.search(self.log())
        assert not found, self.log()[found.start():][:4000]


class Service:
    """A TCP forwarder: each new connection goes to the replica that leads, else to one that lives."""

    def __init__(self, replicas):
        self.replicas = replicas
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def _accept(self):
        while True:
            try:
                client, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _choose(self):
        alive = [r for r in self.replicas if r.alive]
        try:
            return next((r for r in alive if r.leads()), alive[0] if alive else None)
        except (OSError, ValueError, AssertionError):
            return alive[0] if alive else None

    def _serve(self, client):
        with client:
            chosen = self._choose()
            if not chosen:
                return
            try:
                with socket.create_connection(chosen.xds) as server:
                    self._copy(client, server)
            except (OSError, AssertionError):
                pass

    @staticmethod
    def _copy(a, b):
        """Until one side ends: both are closed then."""
        with selectors.DefaultSelector() as s:
            s.register(a, selectors.EVENT_READ, b)
            s.register(b, selectors.EVENT_READ, a)
            while True:
                for key, _ in s.select():
                    data = key.fileobj.recv(65536)
                    if not data:
                        return
                    key.data.sendall(data)

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.socket.close()
