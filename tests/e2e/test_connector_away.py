# SPDX-License-Identifier: Apache-2.0
"""The device in bad times: started without the API, woken up, moved, behind NAT."""
import os
import re
import signal
import stat
import subprocess
import time

import pytest
from harness.control import Control
from harness.device import GROUP, Device, Web, advertise
from harness.sidecar import Sidecar
from harness.wait import SLOW, until


@pytest.fixture
def control(binary, tmp_path):
    c = Control(binary, tmp_path / "control", "--connector-lease", "4s")
    yield c
    c.close()


@pytest.fixture
def device(binary, control, tmp_path):
    made = []

    def make(*flags, **kw):
        d = Device(binary, tmp_path / "device", control.kubeconfig, *flags, **kw)
        made.append(d)
        return d
    yield make
    for d in made:
        if d.alive:
            d.stop()
        d.check()


def name_gateway(control, gateway):
    assert control.post("/api/v1/namespaces", {"metadata": {"name": "spanwire-system"}}).status in (201, 409)
    assert control.post("/api/v1/namespaces/spanwire-system/configmaps", {
        "metadata": {"name": "gateway-test", "labels": {"spanwire.dev/gateway-identity": "true"}},
        "data": {"id": gateway}}).status == 201


def test_what_was_said_last_is_in_force_without_the_api(binary, control, device, web, tmp_path):
    s = Sidecar(binary, tmp_path / "sidecar", kubeconfig=control.kubeconfig).wait_ready()
    gone = Web()
    try:
        d = device("--name", "memory")
        d.wait_live()
        name_gateway(control, s.id)
        advertise(control, "kept", "memory", ("127.0.0.1", web.port))
        advertise(control, "deleted", "memory", ("127.0.0.1", gone.port))
        until(lambda: len(d.status()["destinations"]) == 2 and d.status()["gateways"], 5)
        node, at = d.id, d.addrs()
        until(lambda: s.request(node, web.port, "/before").status == 200, 5, s.log()[-2000:])
        file = d.data / "known"
        until(lambda: file.exists() and str(gone.port) in file.read_text() and s.id in file.read_text(), 5)
        assert stat.S_IMODE(os.stat(file).st_mode) == 0o600

        control.stop(kill=True)
        d.kill()
        d = device("--name", "memory")
        now = until(lambda: d.status() if "the API is away" in d.log() else None, 10)
        assert (now["connector"], now["live"], now["addresses"]) == ("memory", False, at)  # the same port
        began = time.monotonic()
        for port in (web.port, gone.port):
            a = s.request(node, port, "/after")
            assert a.status == 200 and a.body() == b"hello /after"
        assert time.monotonic() - began < 4 * SLOW
        assert s.request(node, 1, "/").status == 403
        held = s.tunnel(node, f"127.0.0.1:{gone.port}")
        assert held.status == 200

        # The API comes back and says less than before.
        d.signal(signal.SIGSTOP)
        control.restart()
        assert control.delete(f"{GROUP}/connectoradvertisements/deleted").status == 200
        d.signal(signal.SIGCONT)
        until(lambda: s.request(node, gone.port, "/").status == 403, 15, d.log()[-2000:], interval=0.1)
        assert s.request(node, web.port, "/").status == 200
        try:
            assert held.all() == b""
        except ConnectionError:
            pass
        until(lambda: "ended: not_advertised" in d.log(), 5)
        d.wait_live(15)
        until(lambda: str(gone.port) not in file.read_text(), 5)
    finally:
        gone.close()
        s.close()


def test_memory_that_is_not_ours_is_ignored(control, device, web):
    d = device("--name", "forgetful")
    d.wait_live()
    advertise(control, "forgetful", "forgetful", ("127.0.0.1", web.port))
    file = d.data / "known"
    until(lambda: file.exists() and str(web.port) in file.read_text(), 5)
    good = file.read_bytes()
    d.stop()
    control.stop(kill=True)

    def start(word):
        x = device("--name", "forgetful")
        until(lambda: "the API is away" in x.log(), 10)
        assert ("is ignored" in x.log()) == bool(word) and word in x.log(), x.log()[-2000:]
        n = len(x.status()["destinations"])
        if word:
            assert x.metric("spanwire_refusals") >= 1
        x.stop()
        return n
    assert start("") == 1
    for text, mode, word in ((good.replace(b'"connector"', b'"connecter"'), 0o600, "the sum is wrong"),
                             (good[:-1], 0o600, "the sum is wrong"), (b"", 0o600, "cut off"),
                             (good, 0o666, "mode 0600")):
        file.write_bytes(text)
        file.chmod(mode)
        assert start(word) == 0
        assert file.read_bytes() == text  # nobody said anything new
    file.chmod(0o600)
    file.write_bytes(good)
    (d.data / "connector.key").unlink()
    assert start("said to another key") == 0
    control.restart()


@pytest.mark.alone
def test_an_address_is_told_at_once(control, device):
    d = device("--name", "quick", "--bind", "0.0.0.0:0")
    d.wait_live()

    def seen(want):
        began = time.monotonic()
        until(lambda: any(a.startswith("10.9.8.7:") for a in d.status()["addresses"]) == want, 3, interval=0.005)
        return time.monotonic() - began
    subprocess.run(["ip", "addr", "add", "10.9.8.7/32", "dev", "lo"], check=True)
    try:
        assert seen(True) < 0.2 * SLOW
    finally:
        time.sleep(0.6)
        subprocess.run(["ip", "addr", "del", "10.9.8.7/32", "dev", "lo"], check=True)
    assert seen(False) < 0.2 * SLOW
    until(lambda: len(re.findall("addresses of this machine changed", d.log())) == 2, 2)
