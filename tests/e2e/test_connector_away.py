# SPDX-License-Identifier: Apache-2.0
"""The device in bad times: started without the API, woken up, moved, behind NAT."""
import contextlib
import os
import re
import stat
import subprocess

import pytest
from harness.control import Control
from harness.device import GROUP, Device, Web, advertise, ending
from harness.sidecar import Sidecar
from harness.wait import until


@pytest.fixture
def control(binary, tmp_path):
    c = Control(binary, tmp_path / "control")
    yield c
    c.close()


@pytest.fixture
def device(binary, control, tmp_path):
    with ending() as note:
        yield lambda *flags, **kw: note(Device(binary, tmp_path / "device", control.kubeconfig, *flags, **kw))


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
        now = until(lambda: d.status() if "API unreachable" in d.log() else None, 10)
        assert (now["connector"], now["live"], now["addresses"]) == ("memory", False, at)  # the same port
        for port in (web.port, gone.port):
            a = s.request(node, port, "/after")
            assert a.status == 200 and a.body() == b"hello /after"
        assert s.request(node, 1, "/").status == 403
        held = s.tunnel(node, f"127.0.0.1:{gone.port}")
        assert held.status == 200

        # The API comes back and says less than before.
        with d.stopped():
            control.restart()
            assert control.delete(f"{GROUP}/connectoradvertisements/deleted").status == 200
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
        until(lambda: "API unreachable" in x.log(), 10)
        assert ("' ignored: " in x.log()) == bool(word) and word in x.log(), x.log()[-2000:]
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
    assert start("saved for another device key") == 0
    control.restart()


def subscribed(pid):
    """Does the kernel tell this process of changes of addresses?"""
    inodes = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            inodes.update(re.findall(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}")))
    with open(f"/proc/{pid}/net/netlink", encoding="ascii") as f:
        rows = [line.split() for line in f.readlines()[1:]]
    # sk Eth Pid Groups ... Inode; RTMGRP_IPV4_IFADDR is 0x10
    return any(row[1] == "0" and int(row[3], 16) & 0x10 and row[-1] in inodes for row in rows)


def test_an_address_is_told_by_the_kernel(control, device):
    d = device("--name", "quick", "--bind", "0.0.0.0:0")
    d.wait_live()
    assert subscribed(d.pid), "it would have to look again and again"

    def known():
        return any(a.startswith("10.9.8.7:") for a in d.status()["addresses"])
    subprocess.run(["ip", "addr", "add", "10.9.8.7/32", "dev", "lo"], check=True)
    try:
        until(known)
    finally:
        subprocess.run(["ip", "addr", "del", "10.9.8.7/32", "dev", "lo"], check=True)
    until(lambda: not known())
    until(lambda: len(re.findall("addresses of this machine changed", d.log())) == 2)
