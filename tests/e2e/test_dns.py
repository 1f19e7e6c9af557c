# SPDX-License-Identifier: Apache-2.0
"""The discovery DNS of `spanwire control`, asked by kdig and dig, copied and updated by Knot."""
import contextlib
import random
import re
import socket
import struct
import subprocess
import time

import pytest
from harness import dns
from harness.control import Control
from harness.dns import KEY, Knot, free_port, kdig, nsupdate
from harness.keys import without_proof
from harness.sidecar import Echo, QDevice, Sidecar
from harness.wait import guard, until

pytestmark = pytest.mark.skipif(not (dns.KNOTD and dns.KDIG and dns.DIG),
                                reason="needs knotd, kdig and dig (knot, knot-dnsutils, bind9-dnsutils)")

ZONE = "connect.example"
KEYS = {  # NodeIDs and their names, from the published vectors
    "a": ("3b6a27bcceb6a42d62a3a8d02a6f0d73653215771de243a63ac048a18b59da29",
          "8pinxxgqs41n4aididenw5apqp1urfmzdztr8jt4abrkdn435ewo"),
    "b": ("197f6b23e16c8532c6abc838facd5ea789be0c76b2920334039bfa8b3d368d61",
          "df9sse9bp1nuftim3yhxiuk6w6r5hddsskjygpydux7esxjstioo"),
}
CONNECTORS = "/apis/networking.datumapis.com/v1alpha1/namespaces/default/connectors"
RELAY = "https://relay.example.com/"


def name(key):
    return f"_iroh.{KEYS[key][1]}.{ZONE}"


class Server(Control):
    def __init__(self, binary, directory, *flags):
        self.dns = free_port()
        super().__init__(binary, directory, "--dns-zone", ZONE, "--dns-listen", f"127.0.0.1:{self.dns}", *flags)

    def dig(self, *args):
        return kdig(self.dns, *args)

    def txt(self, key):
        return self.dig(name(key), "TXT").txt()

    def serial(self):
        return int(self.dig("+short", ZONE, "SOA").text.split()[2])


def connector(api, named, key=None, addresses=(), relay=RELAY, conditions=None):
    """Makes a Connector and gives it the details of a device."""
    without_proof(api)
    if api.get(f"{CONNECTORS}/{named}").status == 404:
        made = api.post(CONNECTORS, {"apiVersion": "networking.datumapis.com/v1alpha1", "kind": "Connector",
                                     "metadata": {"name": named}, "spec": {"connectorClassName": "datum-connect"}})
        assert made.status == 201, made
    status = {}
    if key:
        details = {"id": KEYS[key][0], "addresses": [{"address": a, "port": p} for a, p in addresses]}
        if relay:
            details["homeRelay"] = relay
        status["connectionDetails"] = {"type": "PublicKey", "publicKey": details}
    if conditions:
        status["conditions"] = conditions
    if status:
        done = api.patch(f"{CONNECTORS}/{named}/status", {"status": status})
        assert done.status == 200, done


@pytest.fixture
def api(binary, tmp_path):
    server = Server(binary, tmp_path / "control", "--dns-ns", "ns1=192.0.2.1", "--dns-ns", "ns1=2001:db8::1",
                    "--dns-ns", "ns.other.example", "--dns-rate", "0")
    yield server
    server.close()


# ---- answers ----

def test_a_connector_is_published_changed_and_withdrawn(api):
    until(lambda: api.dig(ZONE, "SOA").status == "NOERROR", 10)
    first = api.serial()
    assert api.dig(name("a"), "TXT").status == "NXDOMAIN"
    connector(api, "laptop")
    assert api.dig(name("a"), "TXT").status == "NXDOMAIN"
    connector(api, "laptop", "a", [("203.0.113.7", 4433), ("2001:db8::7", 4433)])
    until(lambda: api.txt("a") == ["addr=203.0.113.7:4433", "addr=[2001:db8::7]:4433", f"relay={RELAY}"], 10)
    reply = api.dig(name("a"), "TXT")
    assert {row[1] for row in reply.answer} == {"5"} and "aa" in reply.flags and "ra" not in reply.flags
    second = api.serial()
    assert second > first
    connector(api, "laptop", "a", [("203.0.113.8", 1)], relay=None)
    api.patch(f"{CONNECTORS}/laptop/status",
              {"status": {"connectionDetails": {"publicKey": {"homeRelay": None}}}})
    until(lambda: api.txt("a") == ["addr=203.0.113.8:1"], 10)
    assert api.serial() > second
    assert api.delete(f"{CONNECTORS}/laptop").status == 200
    until(lambda: api.dig(name("a"), "TXT").status == "NXDOMAIN", 10)


def test_answers_of_the_zone_itself(api):
    until(lambda: api.dig(ZONE, "SOA").status == "NOERROR", 10)
    soa = api.dig(ZONE, "SOA").answer[0]
    assert soa[4].startswith(f"ns1.{ZONE}. hostmaster.{ZONE}. ") and soa[4].endswith(" 5")
    ns = api.dig(ZONE, "NS")
    assert sorted(row[4] for row in ns.answer) == [f"ns1.{ZONE}.", "ns.other.example."] or \
        sorted(row[4] for row in ns.answer) == ["ns.other.example.", f"ns1.{ZONE}."]
    assert sorted(row[4] for row in ns.additional) == ["192.0.2.1", "2001:db8::1"]
    assert api.dig(f"ns1.{ZONE}", "A").answer[0][4] == "192.0.2.1"
    assert api.dig(f"ns1.{ZONE}", "AAAA").answer[0][4] == "2001:db8::1"


def test_what_is_not_there(api):
    connector(api, "laptop", "a", [("203.0.113.7", 4433)])
    until(lambda: api.txt("a"), 10)
    z32 = KEYS["a"][1]
    for asked, kind in ((name("a"), "A"), (f"{z32}.{ZONE}", "TXT"), (f"{z32}.{ZONE}", "A"), (ZONE, "TXT")):
        reply = api.dig(asked, kind)
        assert reply.status == "NOERROR" and not reply.answer, reply
        assert reply.authority[0][3] == "SOA" and reply.authority[0][1] == "5", reply
    for asked in (f"x.{name('a')}", f"nothing.{ZONE}", f"_iroh.{KEYS['b'][1]}.{ZONE}"):
        reply = api.dig(asked, "TXT")
        assert reply.status == "NXDOMAIN" and reply.authority[0][3] == "SOA", reply
    assert api.dig("example", "SOA").status == "REFUSED"
    assert api.dig("www.elsewhere.test", "A").status == "REFUSED"
    assert api.dig("-c", "CH", "-t", "TXT", "version.bind").status == "REFUSED"
    assert api.dig(ZONE, "ANY").answer[0][3] == "SOA"


def test_case_is_kept_and_does_not_matter(api):
    connector(api, "laptop", "a", [("203.0.113.7", 4433)])
    until(lambda: api.txt("a"), 10)
    mixed = "".join(random.Random(5).choice((c.upper(), c)) for c in name("a"))
    reply = api.dig(mixed, "TXT")
    assert reply.answer and all(row[0] == mixed + "." for row in reply.answer), reply


def test_large_answers_are_truncated_and_complete_over_tcp(api):
    addresses = [(f"2001:db8:1111:2222:3333:4444:5555:{i:x}", 40000 + i) for i in range(16)]
    connector(api, "laptop", "a", addresses)
    until(lambda: len(kdig(api.dns, "+tcp", name("a"), "TXT").answer) == 17, 10)
    small = api.dig("+noedns", "+ignore", name("a"), "TXT")
    assert "tc" in small.flags and not small.answer
    middle = api.dig("+edns=0", "+bufsize=800", "+ignore", name("a"), "TXT")
    assert "tc" in middle.flags and not middle.answer
    large = api.dig("+edns=0", "+bufsize=4096", "+ignore", name("a"), "TXT")
    assert len(large.answer) == 17 or "tc" in large.flags
    assert len(api.dig("+noedns", name("a"), "TXT").answer) == 17  # kdig comes back by TCP


def test_edns_and_bad_questions(api):
    until(lambda: api.dig(ZONE, "SOA").status == "NOERROR", 10)
    assert "udp:1232B" in api.dig("+edns=0", ZONE, "SOA").text.replace(" ", "").replace("UDPsize:1232B", "udp:1232B")
    assert "BADVERS" in api.dig("+edns=1", ZONE, "SOA").text
    assert api.dig("+opcode=5", ZONE, "SOA").status == "NOTIMPL" or \
        "NOTIMP" in subprocess.run([dns.DIG, "@127.0.0.1", "-p", str(api.dns), "+opcode=5", ZONE, "SOA"],
                                   capture_output=True, text=True, timeout=guard(20), check=False).stdout
    done = subprocess.run([dns.DIG, "@127.0.0.1", "-p", str(api.dns), "+cookie", "+dnssec", ZONE, "NS"],
                          capture_output=True, text=True, timeout=guard(20), check=False)
    assert "status: NOERROR" in done.stdout and "flags: do" in done.stdout, done.stdout


def query(qname, qtype=16, qid=7):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in qname.split("."))
    return struct.pack(">HHHHHH", qid, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", qtype, 1)


# ---- ownership ----

def test_the_first_connector_of_a_key_owns_it(api):
    connector(api, "first", "a", [("203.0.113.1", 1)], relay=None)
    until(lambda: api.txt("a") == ["addr=203.0.113.1:1"], 10)
    time.sleep(1.1)  # creation times have whole seconds
    connector(api, "aaa-second", "a", [("203.0.113.2", 2)], relay=None)
    connector(api, "other", "b", [("203.0.113.3", 3)], relay=None)
    until(lambda: api.txt("b") == ["addr=203.0.113.3:3"], 10)
    assert api.txt("a") == ["addr=203.0.113.1:1"]
    assert api.delete(f"{CONNECTORS}/first").status == 200
    until(lambda: api.txt("a") == ["addr=203.0.113.2:2"], 10, "the second takes over")


def condition(api, named):
    conditions = api.get(f"{CONNECTORS}/{named}").json["status"].get("conditions", [])
    return next(({k: c[k] for k in ("status", "reason", "message")} for c in conditions
                 if c["type"] == "IrohDNSPublished"), None)


def test_the_condition_names_the_owner(api):
    connector(api, "first", "a", [("203.0.113.1", 1)])
    until(lambda: (condition(api, "first") or {}).get("reason") == "Owner", 10)
    time.sleep(1.1)
    connector(api, "second")
    until(lambda: (condition(api, "second") or {}).get("reason") == "Pending", 10)
    connector(api, "second", "a", [("203.0.113.2", 1)])
    until(lambda: (condition(api, "second") or {}).get("reason") == "DeferredToOwner", 10)
    assert "'default/first'" in condition(api, "second")["message"]
    assert api.delete(f"{CONNECTORS}/first").status == 200
    until(lambda: (condition(api, "second") or {}).get("status") == "True", 10)


def test_a_claim_is_given_back_before_its_connector_goes(api):
    """The finalizer, also across a restart half way; and classes of others are not published."""
    connector(api, "held", "a", [("203.0.113.1", 1)])
    until(lambda: api.txt("a") and api.get(f"{CONNECTORS}/held").json["metadata"].get("finalizers") == [
        "networking.datumapis.com/iroh-dns-cleanup"], 10)
    time.sleep(1.1)  # ages have seconds
    connector(api, "next", "a", [("203.0.113.2", 2)])
    assert api.delete(f"{CONNECTORS}/held").status in (200, 202)
    api.restart()
    until(lambda: api.get(f"{CONNECTORS}/held").status == 404, 10)
    until(lambda: api.txt("a") == ["addr=203.0.113.2:2", f"relay={RELAY}"], 10)
    classes = "/apis/networking.datumapis.com/v1alpha1/connectorclasses"
    assert api.post(classes, {"apiVersion": "networking.datumapis.com/v1alpha1", "kind": "ConnectorClass",
                              "metadata": {"name": "theirs"}, "spec": {"controllerName": "example.test/x"}}).status == 201
    assert api.patch(f"{CONNECTORS}/next", {"spec": {"connectorClassName": "theirs"}}).status == 200
    until(lambda: api.dig(name("a"), "TXT").status == "NXDOMAIN", 10)
    until(lambda: not api.get(f"{CONNECTORS}/next").json["metadata"].get("finalizers"), 10)


def test_a_sidecar_finds_a_device_by_dns(binary, tmp_path):
    device = QDevice(binary, tmp_path / "device-key")
    echo = Echo()
    server = Server(binary, tmp_path / "control", "--no-connector")
    sidecar = Sidecar(binary, tmp_path / "sidecar", "--dns-origin", ZONE, "--dns-resolver",
                      f"127.0.0.1:{server.dns}").wait_ready()
    try:
        until(lambda: server.dig(ZONE, "SOA").status == "NOERROR", 10)
        assert sidecar.tunnel(device.id, f"127.0.0.1:{echo.port}").status != 200
        host, port = device.addr.rsplit(":", 1)
        KEYS["device"] = (device.id, None)
        connector(server, "laptop", "device", [(host, int(port))], relay=None)

        def through():
            t = sidecar.tunnel(device.id, f"127.0.0.1:{echo.port}")
            if t.status != 200:
                t.close()
                return False
            t.sock.sendall(b"ping")
            return t.recv(4) == b"ping"
        until(through, 20, "found once published and the negative answer forgotten", interval=0.2)
    finally:
        sidecar.close()
        server.close()
        echo.close()
        device.close()


def test_a_stale_connector_is_withdrawn(binary, tmp_path):
    server = Server(binary, tmp_path / "control", "--no-connector", "--dns-stale", "3s")
    try:
        def ready(status, since):
            stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since))
            return [{"type": "Ready", "status": status, "reason": "Test", "message": "",
                     "lastTransitionTime": stamp}]
        connector(server, "laptop", "a", [("203.0.113.1", 1)], relay=None, conditions=ready("True", time.time() - 100))
        until(lambda: server.txt("a"), 10)
        since = int(time.time())
        connector(server, "laptop", conditions=ready("False", since))
        until(lambda: server.dig(name("a"), "TXT").status == "NXDOMAIN", 10, "withdrawn")
        assert time.time() - since >= 3, "it had three seconds to come back"
        connector(server, "laptop", conditions=ready("True", time.time()))
        until(lambda: server.txt("a"), 10, "back")
    finally:
        server.close()


# ---- transfers ----

def test_only_secondaries_transfer(api):
    until(lambda: api.dig(ZONE, "SOA").status == "NOERROR", 10)
    reply = kdig(api.dns, ZONE, "AXFR")
    assert "REFUSED" in reply.text, reply
    until(lambda: "transfer not allowed" in api.log(), 5)


def test_a_signed_transfer(binary, tmp_path):
    (tmp_path / "key").write_text(KEY + "\n")
    server = Server(binary, tmp_path / "control", "--dns-transfer-key", str(tmp_path / "key"))
    try:
        connector(server, "laptop", "a", [("203.0.113.7", 4433)])
        until(lambda: server.txt("a"), 10)
        done = subprocess.run([dns.KDIG, "@127.0.0.1", "-p", str(server.dns), "-y", KEY, ZONE, "AXFR"],
                              capture_output=True, text=True, timeout=guard(20), check=False)
        assert name("a") in done.stdout and done.stdout.count("SOA") >= 2, done.stdout + done.stderr
        plain = kdig(server.dns, ZONE, "AXFR")
        assert "REFUSED" in plain.text
        wrong = KEY[:-8] + "AAAAAAA="
        bad = kdig(server.dns, "-y", wrong, ZONE, "AXFR")
        assert "BADSIG" in bad.text or "NOTAUTH" in bad.text, bad
        unknown = kdig(server.dns, "-y", KEY.replace("spanwire.key", "other.key"), ZONE, "SOA")
        assert "BADKEY" in unknown.text or "NOTAUTH" in unknown.text, unknown
        by_dig = subprocess.run([dns.DIG, "@127.0.0.1", "-p", str(server.dns), "-y", KEY, ZONE, "AXFR"],
                                capture_output=True, text=True, timeout=guard(20), check=False)
        assert name("a") in by_dig.stdout and "Couldn't verify" not in by_dig.stdout, by_dig.stdout
    finally:
        server.close()


@pytest.mark.parametrize("signed", [False, True])
def test_knot_as_secondary(binary, tmp_path, signed):
    knot_port = free_port()
    flags = ["--dns-secondary", f"127.0.0.1:{knot_port}"]
    if signed:
        (tmp_path / "key").write_text(KEY)
        flags += ["--dns-transfer-key", str(tmp_path / "key")]
    server = Server(binary, tmp_path / "control", *flags)
    knot = Knot(tmp_path / "knot", ZONE, knot_port, primary=server.dns, key=signed)
    try:
        until(lambda: kdig(knot_port, ZONE, "SOA").answer, 20, "first transfer")
        connector(server, "laptop", "a", [("203.0.113.7", 4433)])
        until(lambda: len(kdig(knot_port, name("a"), "TXT").answer) == 2, 10, "told by NOTIFY")
        assert kdig(knot_port, name("a"), "TXT").txt() == server.txt("a")
        assert kdig(knot_port, f"{KEYS['a'][1]}.{ZONE}", "TXT").status == "NOERROR"
        assert server.delete(f"{CONNECTORS}/laptop").status == 200
        until(lambda: kdig(knot_port, name("a"), "TXT").status == "NXDOMAIN", 10)
        before = server.serial()
        server.restart(kill=True)
        until(lambda: server.dig(ZONE, "SOA").status == "NOERROR", 10)
        assert server.serial() > before
    finally:
        knot.close()
        server.close()


# ---- updates ----

ZONE_FILE = f"""$ORIGIN {ZONE}.
$TTL 60
@ SOA ns hostmaster 1 60 60 600 5
@ NS ns
ns A 127.0.0.1
www A 192.0.2.80
"""


def updating(binary, tmp_path, port, *flags):
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "key").write_text(f'key "spanwire.key" {{\n\talgorithm hmac-sha256;\n\tsecret "{dns.SECRET}";\n}};\n')
    return Control(binary, tmp_path / "control", "--dns-zone", ZONE, "--dns-update", f"127.0.0.1:{port}",
                   "--dns-tsig-key", str(tmp_path / "key"), *flags)


def test_knot_is_updated(binary, tmp_path):
    port = free_port()
    knot = Knot(tmp_path / "knot", ZONE, port, key=True, text=ZONE_FILE)
    server = updating(binary, tmp_path, port)
    try:
        connector(server, "laptop", "a", [("203.0.113.7", 4433)])
        until(lambda: kdig(port, name("a"), "TXT").txt() == ["addr=203.0.113.7:4433", f"relay={RELAY}"], 10)
        assert kdig(port, name("a"), "TXT").answer[0][1] == "5"
        connector(server, "laptop", "a", [("203.0.113.9", 9)])
        until(lambda: "addr=203.0.113.9:9" in kdig(port, name("a"), "TXT").txt(), 10)
        assert len(kdig(port, name("a"), "TXT").txt()) == 2
        connector(server, "phone", "b", [("203.0.113.8", 8)], relay=None)
        until(lambda: kdig(port, name("b"), "TXT").txt(), 10)
        # While we are away a connector goes: what is left over is found and withdrawn.
        flags, server.flags = server.flags, ()
        server.restart(kill=False)
        assert server.delete(f"{CONNECTORS}/phone").status == 200
        assert kdig(port, name("b"), "TXT").txt()
        server.flags = flags
        server.restart()
        until(lambda: kdig(port, name("b"), "TXT").status == "NXDOMAIN", 10, "left over")
        assert kdig(port, name("a"), "TXT").txt()
        assert kdig(port, f"www.{ZONE}", "A").answer[0][4] == "192.0.2.80"
        assert server.delete(f"{CONNECTORS}/laptop").status == 200
        until(lambda: kdig(port, name("a"), "TXT").status == "NXDOMAIN", 10)
    finally:
        server.close()
        knot.close()


def test_updates_survive_an_absent_server(binary, tmp_path):
    port = free_port()
    server = updating(binary, tmp_path, port)
    knot = None
    try:
        connector(server, "laptop", "a", [("203.0.113.7", 4433)])
        until(lambda: "again in" in server.log(), 10)
        knot = Knot(tmp_path / "knot", ZONE, port, key=True, text=ZONE_FILE)
        until(lambda: kdig(port, name("a"), "TXT").txt(), 20, "published once the server is there")
    finally:
        server.close()
        if knot:
            knot.close()


def test_a_name_of_another_publisher_is_left_alone(binary, tmp_path):
    port = free_port()
    theirs = ZONE_FILE + f'_iroh.{KEYS["a"][1]} 30 TXT "relay=https://theirs.example/"\n'
    knot = Knot(tmp_path / "knot", ZONE, port, key=True, text=theirs)
    server = updating(binary, tmp_path, port)
    try:
        connector(server, "laptop", "a", [("203.0.113.7", 4433)])
        until(lambda: "belongs to another publisher" in server.log(), 10)
        assert kdig(port, name("a"), "TXT").txt() == ["relay=https://theirs.example/"]
    finally:
        server.close()
        knot.close()


@pytest.mark.parametrize("transfer", [True, False])
def test_what_others_break_is_repaired(binary, tmp_path, transfer):
    port = free_port()
    knot = Knot(tmp_path / "knot", ZONE, port, key=True, text=ZONE_FILE, transfer=transfer)
    server = updating(binary, tmp_path, port, "--dns-resync", "700ms")
    try:
        connector(server, "laptop", "a", [("203.0.113.7", 4433)])
        until(lambda: kdig(port, name("a"), "TXT").txt(), 10)
        if transfer:
            assert "does not transfer the zone" not in server.log()
        else:
            until(lambda: "does not transfer the zone" in server.log(), 5)
        want = kdig(port, name("a"), "TXT").txt()
        nsupdate(port, ZONE, f"update delete {name('a')} TXT")
        until(lambda: kdig(port, name("a"), "TXT").txt() == want, 10, "deleted")
        nsupdate(port, ZONE, f'update add {name("a")} 5 TXT "addr=198.51.100.66:6"')
        until(lambda: kdig(port, name("a"), "TXT").txt() == want, 10, "added to")
        nsupdate(port, ZONE, f"update delete {name('a')}", f"update delete _spanwire.{KEYS['a'][1]}.{ZONE}")
        until(lambda: kdig(port, name("a"), "TXT").txt() == want, 10, "deleted with the marker")
    finally:
        server.close()
        knot.close()


def test_two_publishers_share_a_zone(binary, tmp_path):
    port = free_port()
    knot = Knot(tmp_path / "knot", ZONE, port, key=True, text=ZONE_FILE)
    one = updating(binary, tmp_path / "one", port, "--dns-resync", "700ms")
    two = updating(binary, tmp_path / "two", port, "--dns-resync", "700ms")
    try:
        connector(one, "laptop", "a", [("203.0.113.1", 1)], relay=None)
        until(lambda: kdig(port, name("a"), "TXT").txt() == ["addr=203.0.113.1:1"], 10)
        connector(two, "laptop", "a", [("203.0.113.2", 2)], relay=None)
        connector(two, "phone", "b", [("203.0.113.3", 3)], relay=None)
        until(lambda: kdig(port, name("b"), "TXT").txt() == ["addr=203.0.113.3:3"], 10)
        until(lambda: "belongs to another publisher" in two.log(), 10)
        time.sleep(1.5)
        assert kdig(port, name("a"), "TXT").txt() == ["addr=203.0.113.1:1"]
        assert kdig(port, name("b"), "TXT").txt() == ["addr=203.0.113.3:3"], "not ours, not wanted: stays"
        assert one.delete(f"{CONNECTORS}/laptop").status == 200
        until(lambda: kdig(port, name("a"), "TXT").txt() == ["addr=203.0.113.2:2"], 10, "the other takes over")
    finally:
        one.close()
        two.close()
        knot.close()


def test_a_wrong_key_is_said(binary, tmp_path):
    port = free_port()
    knot = Knot(tmp_path / "knot", ZONE, port, key=True, text=ZONE_FILE)
    (tmp_path / "bad").write_text(KEY.replace("spanwire.key", "wrong.key"))
    server = Control(binary, tmp_path / "control", "--dns-zone", ZONE, "--dns-update", f"127.0.0.1:{port}",
                     "--dns-tsig-key", str(tmp_path / "bad"))
    try:
        until(lambda: "BADKEY" in server.log() or "NOTAUTH" in server.log(), 10)
    finally:
        server.close()
        knot.close()


# ---- abuse ----

def alive(api):
    return api.dig(ZONE, "SOA").status == "NOERROR"


def test_garbage_is_survived(api):
    until(lambda: alive(api), 10)
    rng = random.Random(53)
    good = query(name("a"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("127.0.0.1", api.dns))
        for _ in range(3000):
            data = bytearray(good)
            for _ in range(rng.randrange(1, 6)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            s.send(bytes(data[:rng.randrange(len(data) + 1)]))
            s.send(rng.randbytes(rng.randrange(600)))
    assert until(lambda: alive(api), 10)
    for junk in (b"\0\0", b"\0\3abc", b"\xff\xff" + b"x" * 70000, b"\0\x0c" + b"\0" * 12):
        with socket.create_connection(("127.0.0.1", api.dns), timeout=guard(5)) as c:
            try:
                c.sendall(junk)
                c.shutdown(socket.SHUT_WR)
                c.settimeout(5)
                while c.recv(65536):
                    pass
            except OSError:
                pass
    assert alive(api)


def test_a_flood_is_limited_and_tcp_still_answers(binary, tmp_path):
    server = Server(binary, tmp_path / "control", "--dns-rate", "50")
    try:
        until(lambda: alive(server), 10)
        time.sleep(1.1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.connect(("127.0.0.1", server.dns))
            s.settimeout(0.3)
            full = slips = 0
            began = time.monotonic()

            def flooded():
                """Rounds: how many of the questions are taken and when they are answered is the machine's business."""
                nonlocal full, slips
                for i in range(600):
                    s.send(query(ZONE, 6, i))
                    if i % 20 == 19:
                        time.sleep(0.002)
                with contextlib.suppress(TimeoutError):
                    while True:
                        answer = s.recv(2000)
                        if answer[2] & 2:
                            slips += 1
                            assert len(answer) < 60
                        else:
                            full += 1
                return full >= 40 and slips > 50
            until(flooded, what="answers, and short ones")
            # A second's worth at once, and what came back since.
            assert full <= 50 + 50 * (time.monotonic() - began) + 1, full
        assert kdig(server.dns, "+tcp", ZONE, "SOA").status == "NOERROR"
        until(lambda: {"rate", "slip"} <= set(re.findall(r'spanwire_dns_dropped_total{reason="(\w+)"} [1-9]',
                                                         server.get("/metrics").body.decode())))
    finally:
        server.close()


def test_pipelined_and_slow_tcp_clients(api):
    until(lambda: alive(api), 10)
    message = query(ZONE, 6)
    framed = struct.pack(">H", len(message)) + message
    with socket.create_connection(("127.0.0.1", api.dns), timeout=guard(5)) as c:
        c.sendall(framed * 500)
        got = b""
        while True:
            part = c.recv(65536)
            assert part, "closed before all was answered"
            got += part
            n = at = 0
            while at + 2 <= len(got) and at + 2 + struct.unpack_from(">H", got, at)[0] <= len(got):
                at += 2 + struct.unpack_from(">H", got, at)[0]
                n += 1
            if n == 500:
                break
    idle = []

    def connect(n):
        for _ in range(n):
            idle.append(socket.create_connection(("127.0.0.1", api.dns), timeout=guard(5)))
            idle[-1].sendall(framed[:5])

    def refused():
        """One address may have 16 at a time; those that say nothing for ten seconds make room again."""
        connect(8)
        text = api.get("/metrics").body.decode()
        return re.search(r'spanwire_dns_dropped_total{reason="connections"} ([5-9]|\d\d)', text)
    try:
        connect(14)
        assert kdig(api.dns, "+tcp", ZONE, "SOA").status == "NOERROR"
        until(refused, interval=0.2)
        assert alive(api)
    finally:
        for c in idle:
            c.close()
