# SPDX-License-Identifier: Apache-2.0
"""A device behind a router: what it learns of itself from the relay, and how gateways reach it then."""
import concurrent.futures
import contextlib
import datetime
import json
import os
import re
import signal
import subprocess
import time

import pytest
from harness.device import GROUP, PROXIES
from harness.nat import RELAY as PUBLIC
from harness.nat import RELAY6, World
from harness.sidecar import Answer, Sidecar
from harness.town import EDGE, HOMES, HTTP, RELAY, ROUTER, Device, Edge, Site
from harness.wait import SLOW, guard, until


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


def details(edge, name="inside"):
    for c in json.loads(edge.api(f"{GROUP}/connectors"))["items"]:
        if name in c["metadata"]["name"]:
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


def curl(ns, url):
    with ns.entered():
        return subprocess.run(["curl", "-sS", "-f", "-m", str(guard(20)), url], capture_output=True, text=True, check=True).stdout


def page(ns, d, path):
    """Of the device's status page, which only its own machine sees."""
    return curl(ns, re.findall(r"status page (http://[0-9.:]+/)", d.log())[-1] + path)


def gauge(text, name, **labels):
    """One series of metrics."""
    for line in text.splitlines():
        if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
            return float(line.rsplit(" ", 1)[1])
    raise AssertionError(f"no {name} {labels} in\n{text}")


def listed(edge, binary):
    with edge.ns.entered():
        return subprocess.run([binary, "status", "--kubeconfig", str(edge.kubeconfig)], capture_output=True, text=True,
                              check=False, timeout=guard(30)).stdout


def addresses(edge):
    return [a["address"] for a in published(edge)]


def directly(d, seen=0):
    """The gateway reaches the device without the relay, at the latest when the connection has moved."""
    until(lambda: re.search("gateway .* (connected, directly|changed to direct)", d.log()[seen:]), what=d.log()[-2000:])


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
    shown = listed(edge, binary)
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
        edge.api("-X", "DELETE", f"{PROXIES}/inside")
        assert d.wait(5) == 1 and "deleted by another client" in d.log()
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


NO_RELAY = f"""
table inet norelay {{
    chain in {{ type filter hook input priority -10; tcp dport {RELAY} drop; udp dport {{ {RELAY}, 7842 }} drop; }}
}}
"""
SIDECAR_STATS = 15042  # of 'spanwire up'


def test_the_device_opens_the_way_before_it_is_dialled(town, edge, device):
    """A gateway that comes back while nobody can reach the relay: only what the device sends lets its packets in."""
    d = device()
    until(lambda: addresses(edge) == [ROUTER, HOMES["home1"]], what=lambda: d.log()[-2000:])
    old = edge.role_pid("sidecar")
    edge.ns.run("nft", "-f", "-", stdin=NO_RELAY)
    try:
        seen = len(d.log())
        os.kill(old, signal.SIGKILL)
        until(lambda: status_of(town, "/alone") == 200, what=lambda: d.log()[-2000:] + edge.role_log("sidecar")[-2000:])
        assert edge.role_pid("sidecar") != old
        until(lambda: re.search("gateway .* connected, directly", d.log()[seen:]), what=lambda: d.log()[seen:])
        assert "through the relay" not in d.log()[seen:], d.log()[seen:]
        # What is said about the path, everywhere.
        home = town["home1"]
        until(lambda: json.loads(page(home, d, "status"))["relay"]["up"] is False, what="the relay's loss to be noticed")
        now = json.loads(page(home, d, "status"))
        (c,) = [c for c in now["connections"] if c["path"] == "direct"]
        assert c["address"].startswith(f"{EDGE}:") and c["rttUs"] > 0 and "note" not in c, now
        assert now["symmetricNat"] is False
        text = page(home, d, "")
        assert re.search(rf"<td>{re.escape(c['address'])}</td><td>(?!0\.0 )[\d.]+ ms</td>", text), text
        metrics = page(home, d, "metrics")
        assert gauge(metrics, "spanwire_connector_connections", path="direct") >= 1, metrics
        assert gauge(metrics, "spanwire_connector_connections", path="relay") == 0, metrics
        assert gauge(metrics, "spanwire_quic_rtt_microseconds", path="direct") > 0, metrics
        metrics = curl(edge.ns, f"http://127.0.0.1:{SIDECAR_STATS}/metrics")
        assert gauge(metrics, "iroh_gateway_active_paths", transport="direct") == 1, metrics
        assert gauge(metrics, "iroh_gateway_active_paths", transport="relay") == 0, metrics
        assert gauge(metrics, "spanwire_quic_rtt_microseconds", path="direct") > 0, metrics
        path = until(lambda: next((p for p in details(edge).get("paths", []) if p.get("address") == c["address"]), None))
        assert path["type"] == "Direct" and path["gateway"] == c["peer"] and "note" not in path, path
    finally:
        edge.ns.run("nft", "delete table inet norelay")


FORGETS = 8  # seconds after which the router has forgotten a flow
IDLE, SILENCE = 12, 20
SILENT = f"""
table inet silent {{
    chain every {{
        type filter hook forward priority -10;
        ip saddr {HOMES["home2"]} drop
        ip daddr {HOMES["home2"]} drop
    }}
}}
"""


@contextlib.contextmanager
def cut(ns, table, rules):
    ns.run("nft", "-f", "-", stdin=rules)
    try:
        yield
    finally:
        ns.run("nft", f"delete table inet {table}")


class Reached:
    """A device of a home and a gateway's tunnels to it."""

    def __init__(self, s, ns, d, site):
        self.s, self.ns, self.d, self.site = s, ns, d, site
        self.node = json.loads(page(ns, d, "status"))["id"]

    def tunnel(self):
        t = self.s.tunnel(self.node, f"127.0.0.1:{self.site.port}")
        assert t.status == 200, t.reason
        return t

    def begin(self, tunnel, path):
        tunnel.sock.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

    def end(self, tunnel, path):
        a = Answer(tunnel.sock)
        assert a.status == 200 and a.body() == f"{self.site.name} {path} x\n".encode()

    def direct(self):
        """All its connections to the gateway."""
        return [c["path"] for c in json.loads(page(self.ns, self.d, "status"))["connections"] if c["peer"] == self.s.id] == ["direct"]


def test_connections_are_kept_while_nothing_is_sent(town, edge, binary, tmp_path):
    """
    Behind a router that forgets a flow after eight seconds, at the same time: a device that nobody asks for twelve, and one
    whose network is away for twenty while a tunnel waits for an answer and another is idle. No connection is made anew.
    """
    router = town["router"]
    with contextlib.ExitStack() as stack:
        router.sysctl(netfilter__nf_conntrack_udp_timeout=FORGETS, netfilter__nf_conntrack_udp_timeout_stream=FORGETS)
        stack.callback(router.sysctl, netfilter__nf_conntrack_udp_timeout=30, netfilter__nf_conntrack_udp_timeout_stream=120)
        s = Sidecar(binary, tmp_path / "sidecar", "--relay", f"http://{EDGE}:{RELAY}/", kubeconfig=edge.data / "roles/sidecar.kubeconfig",
                    ns=edge.ns, bind=f"{EDGE}:0")
        stack.callback(s.close)
        s.wait_ready()
        reached = []
        for home in HOMES:
            site = Site(town[home], f"kept-{home}")
            stack.callback(site.close)
            d = Device(binary, town[home], tmp_path, edge, site.name, site.port, f"{site.name}.town.example", "--no-verify",
                       "--log-level", "debug")
            stack.callback(d.stop)
            until(lambda d=d: "/  ->  http://127.0.0.1" in d.log(), what=lambda d=d: d.log()[-2000:])
            reached.append(Reached(s, town[home], d, site))
        idle, silent = reached

        def opened():
            text = curl(edge.ns, f"http://127.0.0.1:{s.stats[1]}/metrics")
            return sum(float(line.split()[-1]) for line in text.splitlines()
                       if line.startswith("iroh_gateway_iroh_connections_opened_total"))

        def unasked():
            time.sleep(IDLE)
            assert idle.direct(), idle.d.log()[-2000:]
            with cut(edge.ns, "norelay", NO_RELAY):  # the way of before or none
                t = idle.tunnel()
                idle.begin(t, "/later")
                idle.end(t, "/later")
                t.close()

        def away():
            quiet, asking = silent.tunnel(), silent.tunnel()
            for t in (quiet, asking):
                silent.begin(t, "/before")
                silent.end(t, "/before")
            with cut(router, "silent", SILENT):
                silent.begin(asking, "/during")
                time.sleep(SILENCE)
            silent.end(asking, "/during")
            silent.begin(quiet, "/after")
            silent.end(quiet, "/after")
            silent.tunnel().close()
            for t in (quiet, asking):
                t.close()
        for r in reached:
            r.tunnel().close()
            until(r.direct, what=lambda r=r: r.d.log()[-2000:])
        before, marks = opened(), [len(r.d.log()) for r in reached]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(unasked), pool.submit(away)]
        for j in jobs:
            j.result()
        until(silent.direct, what=lambda: silent.d.log()[-2000:])
        assert opened() == before, s.log()[-4000:]
        assert "through the relay" not in idle.d.log()[marks[0]:], idle.d.log()[marks[0]:]


DIRECT = 10 * SLOW  # seconds at most from a gateway's first request to a direct path, where 0.1 are usual


@contextlib.contextmanager
def behind(w, kind, binary, tmp_path, address=PUBLIC):
    """'spanwire up' in public, and behind a router each a sidecar and a device; what is needed of them."""
    home = w[f"in-{kind}-b"]
    with contextlib.ExitStack() as stack:
        edge = Edge(binary, w["relay"], tmp_path, address=address)
        stack.callback(edge.stop)
        s = Sidecar(binary, tmp_path / "sidecar", "--relay", f"http://{edge.address}:{RELAY}/",
                    kubeconfig=edge.data / "roles/sidecar.kubeconfig", ns=w[f"in-{kind}-a"], bind="[::]:0" if edge.address[0] == "[" else "0.0.0.0:0")
        stack.callback(s.close)
        s.wait_ready()
        site = Site(home, "inside")
        stack.callback(site.close)
        d = Device(binary, home, tmp_path, edge, "inside", site.port, "inside.town.example", "--no-verify", "--log-level", "debug")
        stack.callback(d.stop)
        until(lambda: "http://inside.town.example" in d.log(), what=lambda: d.log()[-2000:])

        def ask(path):
            node = json.loads(page(home, d, "status"))["id"]
            until(lambda: s.request(node, site.port, path).status == 200, what=lambda: s.log()[-3000:])
        yield edge, s, d, ask


def direct_at(d, s):
    """When the device had a direct path to this gateway."""
    found = re.search(rf"^(\S+)Z\t.*gateway {s.id[:10]}\S* (connected, directly|changed to direct)", d.log(), re.M)
    return found and datetime.datetime.fromisoformat(found.group(1))


@pytest.mark.parametrize("family", ["IPv4", "IPv6"])
def test_a_direct_path_through_two_routers(topology, binary, tmp_path, record_property, family):
    """Of the real programs: the device learns and publishes its address, the sidecar dials through the relay, and both move."""
    del topology
    w = World(kinds=("restricted",))
    try:
        if family == "IPv6":
            for side in "ab":
                k = w.number[f"restricted-{side}"]
                w[f"in-restricted-{side}"].ip(f"addr del 10.{k}.0.2/24 dev eth0")
            shown = f"2001:db8:{w.number['restricted-b']}::2"
        else:
            shown = w.public("restricted-b")
        with behind(w, "restricted", binary, tmp_path, RELAY6 if family == "IPv6" else PUBLIC) as (edge, s, d, ask):
            until(lambda: shown in addresses(edge), what=lambda: f"{published(edge)}\n{d.log()[-2000:]}")
            began = datetime.datetime.utcnow()
            ask("/near")
            after = until(lambda: direct_at(d, s), what=lambda: f"{d.log()[-2000:]}\n{s.log()[-2000:]}") - began
            path = until(lambda: next((p for p in details(edge).get("paths", []) if p["gateway"] == s.id and p["type"] == "Direct"), None),
                         what=lambda: details(edge))
            assert path["address"].startswith("[2001:" if family == "IPv6" else w.public("restricted-a")), path
            record_property("shows", f"sidecar restricted connector restricted {family} direct after {after.total_seconds() * 1000:.0f} ms")
            assert after.total_seconds() < DIRECT
    finally:
        w.delete()


def test_symmetric_routers_on_both_sides(topology, binary, tmp_path):
    """No direct path can exist: page, status and command line say why the traffic stays on the relay."""
    del topology
    w = World(kinds=("symmetric",))
    home = w["in-symmetric-b"]
    try:
        with behind(w, "symmetric", binary, tmp_path) as (edge, s, d, ask):
            until(lambda: json.loads(page(home, d, "status"))["symmetricNat"], what="the kind of the router to be known")
            ask("/far")

            def path():
                return next((p for p in details(edge).get("paths", []) if p["gateway"] == s.id), {})
            until(lambda: path().get("note"), what=lambda: f"{details(edge)}\n{d.log()[-2000:]}")
            p = path()
            assert p["type"] == "Relay" and "address" not in p and p["roundTripMicroseconds"] > 0, p
            assert p["note"] in ("both NATs are symmetric", "our NAT is symmetric, and the peer's lets only answers in"), p
            (c,) = [c for c in json.loads(page(home, d, "status"))["connections"] if c["peer"] == s.id]
            assert c["path"] == "relay" and c["note"] == p["note"] and "address" not in c, c
            assert p["note"].replace("'", "&#39;") in page(home, d, "").replace("'", "&#39;")
            shown = listed(edge, binary)
            assert re.search(rf"inside\S* +yes +{s.id[:10]} +Relay +[\d.]+ ms +{re.escape(p['note'])}", shown), shown
            assert "staying on the relay: " in s.log()
            metrics = page(home, d, "metrics")
            assert gauge(metrics, "spanwire_connector_connections", path="relay") >= 1, metrics
            assert gauge(metrics, "spanwire_quic_rtt_microseconds", path="relay") > 0, metrics
    finally:
        w.delete()
