# SPDX-License-Identifier: Apache-2.0
"""Objects of links as an attacker writes them: no Peer and no Export leads a control plane to itself or to its machine.

Everything here runs with the defaults as they are shipped (see conftest.py)."""
import contextlib
import selectors
import socket

import pytest
from harness.control import Control
from harness.link_control import SYSTEM, Fabric, Site
from harness.wait import until
from test_trust_addresses import DISGUISED

LOOPBACK = ["127.0.0.1", "localhost", "::ffff:127.0.0.1", "::1"]


@pytest.fixture
def closing():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def make(binary, tmp_path, closing):
    fabric = Fabric(tmp_path / "fabric")

    def start(*flags):
        control = Control(binary, tmp_path / "control", "--link-listen", "127.0.0.1:0", "--link-fabric", str(fabric.peer("here")),
                          "--xds-listen", "127.0.0.1:0", *flags)
        closing.callback(control.close)
        return Site(control, control.data / "link-site", "here")
    return start


class Door:
    """A server of this machine, on both loopback addresses; counts who comes."""

    def __init__(self, closing):
        self.seen, self.poll = 0, selectors.DefaultSelector()
        first = socket.create_server(("127.0.0.1", 0))
        self.port = first.getsockname()[1]
        for s in (first, socket.create_server(("::1", self.port), family=socket.AF_INET6)):
            closing.callback(s.close)
            self.poll.register(s, selectors.EVENT_READ)

    def came(self):
        for key, _ in self.poll.select(0):
            key.fileobj.accept()[0].close()
            self.seen += 1
        return self.seen


def test_gateways_of_peers_lead_to_no_special_address(make, closing):
    """The control plane asks peers how they are, with its certificate, wherever a Peer says that they are."""
    site, door = make(), Door(closing)
    for i, host in enumerate(LOOPBACK + DISGUISED):
        site.peer(f"p{i}", door.port, host=host)
    for i in range(len(LOOPBACK)):
        path = f"/apis/clusterlink.net/v1alpha1/namespaces/{SYSTEM}/peers/p{i}"
        until(lambda p=path: [c for c in site.control.get(p).json.get("status", {}).get("conditions", [])
                              if (c["type"], c["status"]) == ("PeerReachable", "False")], what="the Peer to be unreachable")
    assert door.came() == 0
    assert "denied: loopback address" in site.control.log()


def test_peers_of_other_namespaces_do_not_count(make, closing):
    site, door, theirs = make("--upstream-allow", "127.0.0.0/8"), Door(closing), Door(closing)
    site.put("peers", "Peer", "mine", {"gateways": [{"host": "127.0.0.1", "port": theirs.port}]}, "default")
    site.peer("there", door.port)
    until(lambda: door.came() >= 3, what="heartbeats to the Peer of the system's namespace")
    assert theirs.came() == 0


def test_hosts_of_exports_are_no_addresses_in_disguise(make):
    """Even where the operator allows every host."""
    site = make("--link-export-host", "*")
    for i, host in enumerate(DISGUISED):
        site.put("exports", "Export", f"e{i}", {"host": host, "port": 15000})
    for i, host in enumerate(DISGUISED):
        path = f"/apis/clusterlink.net/v1alpha1/namespaces/default/exports/e{i}"
        [c] = until(lambda p=path: site.control.get(p).json.get("status", {}).get("conditions"), what="the Export's condition")
        assert (c["type"], c["status"]) == ("ExportValid", "False"), (host, c)
