# SPDX-License-Identifier: Apache-2.0
"""The control plane goes and returns, in six ways, while visitors of a device ask all the time."""
import collections
import http.client
import signal
import threading
import time

import pytest
from harness import fabric as fb
from harness.control import Control
from harness.device import LEASES, Device, Web, ending
from harness.fabric import programmed
from harness.sidecar import Sidecar
from harness.wait import guard, until

LEASE = 6  # seconds; a machine with other work may hold a device up for two of them
HOST = "app.example.test"
VISITORS = 4


class World:
    """One of each: control, gateway, sidecar, device, and a web server behind it."""

    def __init__(self, binary, tmp):
        self.binary, self.tmp = binary, tmp
        self.socket = tmp / "sidecar" / "s.sock"
        self.fabric = fb.Fabric(binary, tmp, "--connector-lease", f"{LEASE}s", "--connect-proxy", str(self.socket),
                                "--target-domain", "connect.test")
        self.control = self.fabric.control
        self.gateway = self.fabric.start_gateway()
        self.sidecar = self.start_sidecar().wait_ready()
        self.web = Web()
        self.device = Device(binary, tmp / "device", self.control.kubeconfig, "--name", "laptop",
                             "--allow", f"127.0.0.1:{self.web.port}")
        self.device.wait_live()
        self.fabric.apply(fb.thing("HTTPProxy", "app", {"hostnames": [HOST], "rules": [{"backends": [{
            "endpoint": f"http://127.0.0.1:{self.web.port}", "connector": {"name": "laptop"}}]}]}))
        self.flowing = threading.Event()
        self.over = False
        self.returned = 0.0  # of control
        self.answers, self.asking = collections.deque(), 0
        self.lock = threading.Lock()
        until(lambda: self.ask()[0] == 200, what="the first answer")
        self.flowing.set()
        self.threads = [threading.Thread(target=self._visit, daemon=True) for _ in range(VISITORS)]
        for t in self.threads:
            t.start()

    def start_sidecar(self):
        return Sidecar(self.binary, self.tmp / "sidecar", kubeconfig=self.control.kubeconfig)

    def ask(self, seconds=None):
        c = http.client.HTTPConnection("127.0.0.1", 80, timeout=seconds or guard(20))
        try:
            c.request("GET", "/hello", headers={"Host": HOST})
            r = c.getresponse()
            r.read()
            return r.status, r.getheader("x-spanwire-reason")
        except (OSError, http.client.HTTPException) as e:
            return 0, repr(e)
        finally:
            c.close()

    def _visit(self):
        while not self.over:
            with self.lock:
                go = self.flowing.is_set()
                self.asking += go
            if not go:
                time.sleep(0.01)
                continue
            answer = self.ask()
            with self.lock:
                self.asking -= 1
            self.answers.append(answer)
            time.sleep(0.01)

    def hold(self):
        """Nobody asks, and nobody waits: what is restarted now was not in use."""
        with self.lock:
            self.flowing.clear()
        until(lambda: self.asking == 0)

    def good(self, n=100):
        """All answers so far, n more, and all until every Lease that was stored has run out since control returned."""
        seen = len(self.answers)
        until(lambda: len(self.answers) >= seen + n and time.monotonic() > self.returned + LEASE + 2,
              what=f"answers, last {list(self.answers)[-3:]}")
        failed = collections.Counter(a for a in list(self.answers) if a[0] != 200)
        assert not failed, f"{failed} of {len(self.answers)}\n{self.log()}"

    def log(self):
        return "\n".join(p.log()[-2500:] for p in (self.control, self.sidecar, self.device))

    def start_control(self):
        self.control.restart()
        self.returned = time.monotonic()
        self.fabric._c = None

    def ready(self):
        for c in self.fabric.get("Connector", "laptop").get("status", {}).get("conditions", []):
            if c["type"] == "Ready":
                return c["status"]
        return None

    def close(self):
        self.over = True
        self.flowing.clear()
        for t in self.threads:
            t.join(60)
        if self.device.alive:
            self.device.stop()
        self.device.check()
        self.sidecar.kill()  # it would wait for requests to a device that is gone
        self.sidecar.close()
        self.web.close()
        self.fabric.close()


@pytest.fixture(scope="module")
def world(binary, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("return"))
    yield w
    w.close()


def test_killed_and_back_at_once(world):
    world.good()
    world.control.stop(kill=True)
    world.start_control()
    world.good()


def test_stopped_and_back(world):
    assert world.control.stop() == 0
    world.start_control()
    world.good()


def test_away_for_longer_than_the_lease(world):
    world.control.stop(kill=True)
    time.sleep(LEASE + 1.5)
    world.start_control()
    assert world.ready() == "True"
    world.good()


def test_with_the_gateway(world):
    world.hold()
    world.control.stop(kill=True)
    world.gateway.stop()
    world.start_control()
    world.gateway = world.fabric.start_gateway()
    world.flowing.set()
    world.good()


def test_with_the_sidecar(world):
    """It is asked before it knows a single Connector."""
    world.hold()
    world.control.stop(kill=True)
    world.sidecar.kill()
    world.sidecar = world.start_sidecar()
    until(lambda: "listening on" in world.sidecar.log())
    world.flowing.set()
    time.sleep(1)
    world.start_control()
    world.good()


def test_devices_renew_at_once(binary, tmp_path):
    """A Lease of ten minutes is renewed after five, otherwise."""
    with programmed(Control, binary, tmp_path, "--connector-lease", "600s") as control, ending() as note:
        device = note(Device(binary, tmp_path / "device", control.kubeconfig, "--name", "patient"))
        device.wait_live()
        for kill in (False, True):
            before = control.get(f"{LEASES}/patient").json["spec"]["renewTime"]
            control.stop(kill=kill)
            control.restart()
            until(lambda: control.get(f"{LEASES}/patient").json["spec"]["renewTime"] > before, what=device.log()[-3000:])


def test_a_device_that_died_meanwhile_goes_offline(world):
    world.good()
    world.hold()
    world.control.stop(kill=True)
    world.device.signal(signal.SIGKILL)
    world.device.wait()
    world.start_control()
    until(lambda: world.ready() == "False", what=world.log())
    # What still goes to the device is not answered: it is no use to wait for that.
    until(lambda: world.ask(1) == (503, "connector-offline"), what="503 for want of the device")
    # Dead before control went: nothing makes it look alive again.
    world.control.stop()
    world.start_control()
    for _ in range(20):
        assert world.ready() == "False" and world.ask() == (503, "connector-offline")
        time.sleep(0.05)
