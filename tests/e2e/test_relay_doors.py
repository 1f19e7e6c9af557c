# SPDX-License-Identifier: Apache-2.0
"""Who may use a relay: what the control plane knows, also while it is away."""
import os
import subprocess

import pytest

from harness import netns
from harness.control import Control
from harness.relay import Client, Relay, http
from harness.wait import guard, stays, until

from test_relay import denied

UNKNOWN = "id is not known to the control plane"
CONNECTORS = "/apis/networking.datumapis.com/v1alpha1/namespaces/default/connectors"


@pytest.fixture(scope="module")
def control(topology, binary, tmp_path_factory):
    del topology
    c = Control(binary, tmp_path_factory.mktemp("control"), "--connector")
    yield c
    c.stop()


@pytest.fixture
def relay(control, binary, tmp_path):
    r = Relay(binary, tmp_path, "--kubeconfig", control.data / "roles" / "relay.kubeconfig")
    until(lambda: "control plane read" in r.said(), what="the roster")
    yield r
    assert r.stop() == 0
    assert "Sanitizer" not in r.said()


def name_device(control, name, key):
    assert control.post(CONNECTORS, {"apiVersion": "networking.datumapis.com/v1alpha1", "kind": "Connector", "metadata": {"name": name},
                                     "spec": {"connectorClassName": "datum-connect"}}).status == 201
    assert control.patch(f"{CONNECTORS}/{name}/status", {"status": {"connectionDetails": {
        "type": "PublicKey", "publicKey": {"id": key.id.hex(), "discoveryMode": "DNS", "addresses": [],
                                           "homeRelay": "http://127.0.0.1:1/"}}}}).status == 200


def name_gateway(control, key, name="gateway-door"):
    made = control.post("/api/v1/namespaces/spanwire-system/configmaps", {
        "metadata": {"name": name, "labels": {"spanwire.dev/gateway-identity": "true"}},
        "data": {"id": key.id.hex()}})
    assert made.status == 201, made


def test_devices_and_gateways_of_the_control_plane(control, relay):
    seed = os.urandom(32)
    stranger = Client(relay)
    assert denied(relay, stranger) == UNKNOWN
    # It comes before the control plane has heard of it, and gets in as soon as it has.
    early = Client(relay, seed)
    early.upgrade()
    early.answer(early.message()[1:])
    name_device(control, "door", early)
    assert early.message() == b"\x02"
    gateway = Client(relay)
    name_gateway(control, gateway)
    until(lambda: relay.metric("relay_roster", kind="gateway") == 1, what="the gateway")
    assert relay.metric("relay_roster", kind="device") == 1
    gateway.login()
    gateway.send(early.id, b"hello")
    assert early.message(6)[-5:] == b"hello"
    # The API is away: what was known stays.
    control.stop(kill=True)
    Client(relay, seed).login().close()
    stays(lambda: relay.metric("relay_roster", kind="device") == 1, 0.5)
    control.restart()
    gateway.frame(b"\x09abcdefgh")
    assert gateway.message() == b"\x0aabcdefgh"
    # One that the control plane does not know any more has to go.
    assert control.delete(f"{CONNECTORS}/door").status == 200
    assert early.close_code() == 1008
    until(lambda: relay.metric("relay_roster", kind="device") == 0, what="an empty roster")
    assert denied(relay, Client(relay, seed)) == UNKNOWN


def test_gateways_have_no_rate_limit(control, binary, tmp_path):
    r = Relay(binary, tmp_path, "--kubeconfig", control.data / "roles" / "relay.kubeconfig", "--rate-limit", 20_000)
    try:
        gateway, device = Client(r), Client(r)
        name_gateway(control, gateway, "gateway-fast")
        name_device(control, "slow", device)
        until(lambda: r.metric("relay_roster", kind="device") == 1 and
              r.metric("relay_roster", kind="gateway") >= 1, what="both")
        gateway.login()
        device.login()
        for _ in range(20):
            gateway.send(device.id, bytes(10_000))
            device.message(6)
        assert r.metric("relay_conns_rx_ratelimited") == 0
        device.send(gateway.id, bytes(10_000))
        gateway.message(6)
        device.frame(b"\x09abcdefgh")
        assert device.message() == b"\x0d\x02"
    finally:
        assert r.stop() == 0


def test_metrics_are_for_this_machine(topology, binary, tmp_path):
    """Nobody said where to serve them: on loopback, with a network beside it."""
    del topology
    ns = netns.NetNs("sw-doors")
    try:
        ns.ip("link set lo up", "addr add 198.51.100.1/32 dev lo")
        with open(tmp_path / "log", "w+", encoding="utf-8") as log, ns.entered(), \
                subprocess.Popen([binary, "relay", "--open", "--listen", "198.51.100.1:80"], stderr=log) as p:
            try:
                until(lambda: "ready" in (tmp_path / "log").read_text(), what="the relay")
                assert "relay_clients" in http("127.0.0.1", 15020, "/metrics")[1]
                with pytest.raises(ConnectionRefusedError):
                    http("198.51.100.1", 15020, "/metrics")
            finally:
                p.terminate()
                p.wait(guard(20))
    finally:
        ns.delete()
