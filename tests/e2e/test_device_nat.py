# SPDX-License-Identifier: Apache-2.0
"""A device behind a router: what it learns of itself from the relay, and how gateways reach it then."""
import json
import re
import subprocess

import pytest
from harness.control import find_kubectl, needs_kubectl
from harness.town import EDGE, HOMES, HTTP, ROUTER, Device, Site
from harness.wait import guard, until


@pytest.fixture(scope="module")
def where(tmp_path_factory):
    return tmp_path_factory.mktemp("device")


@pytest.fixture
def device(town, edge, binary, where):
    """Starts the device again and again, with the same key and the same web server."""
    site = Site(town["home1"], "inside")
    made = []

    def start():
        (where / "device-inside.log").unlink(missing_ok=True)  # of runs before
        d = Device(binary, town["home1"], where, edge, "inside", site.port, "inside.town.example", "--no-verify",
                   "--log-level", "debug")
        made.append(d)
        until(lambda: "http://inside.town.example" in d.log(), 15, f"the URL; log: {d.log()}")
        return d
    yield start
    site.close()
    for d in made:
        if d.alive:
            d.stop()


def kubectl(edge, *argv):
    with edge.ns.entered():
        return subprocess.run([find_kubectl(), "--kubeconfig", str(edge.kubeconfig), *argv], capture_output=True,
                              text=True, check=True, timeout=guard(30)).stdout


def details(edge):
    for c in json.loads(kubectl(edge, "get", "connectors", "-o", "json"))["items"]:
        if "inside" in c["metadata"]["name"]:
            return c.get("status", {}).get("connectionDetails", {})
    return {}


def published(edge):
    return details(edge).get("publicKey", {}).get("addresses", [])


def status_of(town, path):
    """What a visitor gets; 0 for nothing."""
    with town["visitor"].entered():
        done = subprocess.run(["curl", "-sS", "-m", str(guard(20)), "-o", "/dev/null", "-w", "%{http_code}",
                               "-H", "Connection: close", "--resolve", f"inside.town.example:{HTTP}:{EDGE}",
                               f"http://inside.town.example:{HTTP}{path}"], capture_output=True, text=True, check=False)
    return int(done.stdout)


pytestmark = needs_kubectl


def addresses(edge):
    return [a["address"] for a in published(edge)]


def directly(d, seen=0):
    """The gateway reaches the device without the relay, at the latest when the connection has moved."""
    until(lambda: re.search("gateway .* (connected, directly|is reached directly)", d.log()[seen:]), what=d.log()[-2000:])


def test_the_relay_says_what_the_router_shows(town, edge, device, binary):
    d = device()
    until(lambda: addresses(edge) == [ROUTER, HOMES["home1"]], what=d.log()[-2000:])
    # Nobody's packets come in to that address but the gateway's: the device sent to it first.
    until(lambda: status_of(town, "/first") == 200, what=d.log()[-2000:])
    directly(d)
    # Everybody who looks sees the path: the Connector's status, and who asks for all devices.
    path = until(lambda: next(iter(details(edge).get("paths", [])), None))
    assert path["type"] == "Direct" and path["address"].startswith(f"{EDGE}:"), path
    assert path["roundTripMicroseconds"] > 0 and len(path["gateway"]) == 64, path
    with edge.ns.entered():
        shown = subprocess.run([binary, "status", "--kubeconfig", str(edge.kubeconfig)], capture_output=True, text=True,
                               check=False, timeout=guard(30)).stdout
    assert re.search(rf"inside\S* +yes +{path['gateway'][:10]} +Direct +{re.escape(path['address'])} +[\d.]+ ms", shown), shown
    # Into another network: the device has another address, and so has its router.
    router, seen = town["router"], len(d.log())
    router.ip(f"addr del {ROUTER}/24 dev eth0", "addr add 203.0.113.31/24 dev eth0")
    town.move("home1", "192.168.7.77")
    try:
        until(lambda: addresses(edge) == ["203.0.113.31", "192.168.7.77"], 10, d.log()[-2000:])
        until(lambda: status_of(town, "/moved") == 200, 10, d.log()[-2000:])
        directly(d, seen)
        # Its watches moved too.
        kubectl(edge, "delete", "httpproxy", "inside")
        assert d.wait(5) == 1 and "deleted by somebody else" in d.log()
    finally:
        router.ip("addr del 203.0.113.31/24 dev eth0", f"addr add {ROUTER}/24 dev eth0")
        town.move("home1", HOMES["home1"])


FORWARD = """
insert rule ip town in ct status dnat accept
table ip forwarded {
    chain pre { type nat hook prerouting priority -100; iifname "eth0" meta l4proto udp dnat to 192.168.7.2; }
}
"""


def test_a_router_that_lets_packets_in(town, edge, device):
    """The port is kept and everybody's packets come in: gateways need no relay."""
    town["router"].run("nft", "-f", "-", stdin=FORWARD)
    try:
        d = device()
        until(lambda: addresses(edge)[:1] == [ROUTER], 5, d.log()[-2000:])
        until(lambda: status_of(town, "/direct") == 200, what=d.log()[-2000:])
        directly(d)
    finally:
        town["router"].run("nft", "delete table ip forwarded")
