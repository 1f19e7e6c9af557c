# SPDX-License-Identifier: Apache-2.0
"""The device: its objects in the API, its Lease, whom it admits and where it lets them go."""
import base64
import calendar
import datetime
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest
from harness.control import Control
from harness.device import GROUP, LEASES, Device, Edge, Web, advertise, ending
from harness.gateway import free_port
from harness.wait import SANITIZED, guard, stays, until


@pytest.fixture(scope="module")
def control(binary, tmp_path_factory):
    # A Lease is renewed after half of its time: the other half is what a device may stand still without being taken for dead.
    c = Control(binary, tmp_path_factory.mktemp("control"), "--connector-lease", "10s")
    yield c
    c.close()


@pytest.fixture(scope="module")
def quick(binary, tmp_path_factory):
    """Leases that run out soon, for those that are to."""
    c = Control(binary, tmp_path_factory.mktemp("quick"), "--connector-lease", "4s")
    yield c
    c.close()


@pytest.fixture
def device(binary, control, tmp_path, request):
    """Makes devices; all of them end with the test."""
    with ending() as note:
        yield lambda *flags, where="device", kubeconfig=None, **kw: note(
            Device(binary, tmp_path / where, kubeconfig or control.kubeconfig, *flags, **kw))


@pytest.fixture
def edge():
    with Edge() as e:
        yield e


def connector(control, name):
    return control.get(f"{GROUP}/connectors/{name}").json


def condition(obj, kind):
    return next((c for c in obj.get("status", {}).get("conditions", []) if c["type"] == kind), {})


def is_ready(control, name, status):
    """Waits until the controller says so."""
    until(lambda: condition(connector(control, name), "Ready").get("status") == status, what=f"{name}: Ready={status}")


class Ready:
    """What the controller says about a Connector, in its order: nothing is missed, however short it was true."""

    def __init__(self, control, name):
        now = connector(control, name)
        self.status = condition(now, "Ready").get("status")
        self.events = control.watch(f"{GROUP}/connectors?watch=1&fieldSelector=metadata.name%3D{name}"
                                    f"&resourceVersion={now['metadata']['resourceVersion']}", timeout=60)

    def becomes(self, status):
        for event in self.events if self.status != status else ():
            self.status = condition(event["object"], "Ready").get("status")
            if self.status == status:
                break
        assert self.status == status, "the watch ended"

    def close(self):
        self.events.close()


def get(host, port, path):
    return f"GET http://{host}:{port}{path} HTTP/1.1\r\nhost: {host}:{port}\r\n\r\n"


def test_registers_and_says_who_it_is(control, device):
    d = device("--address", "198.51.100.7:4433", "--address", "2001:db8::7", where="r")
    s = d.wait_live()
    name = s["connector"]
    c = connector(control, name)
    assert name.startswith("datum-connect-")
    assert c["spec"]["connectorClassName"] == "datum-connect"
    assert c["metadata"]["annotations"]["datum.net/device-os"] == "Linux"
    key = until(lambda: connector(control, name)["status"].get("connectionDetails"), 5)["publicKey"]
    assert key["id"] == s["id"] and key["discoveryMode"] == "DNS" and "homeRelay" not in key
    assert [a["address"] for a in key["addresses"]] == ["198.51.100.7", "127.0.0.1"]
    assert key["addresses"][0]["port"] == 4433
    def capabilities():
        return connector(control, name)["status"].get("capabilities", [])
    until(lambda: {x["type"]: x["conditions"][0]["status"] for x in capabilities()} == {
        "ConnectTCP": "True", "ConnectUDP": "True"})
    is_ready(control, name, "True")
    mode = os.stat(d.data / "connector.key")
    assert stat.S_IMODE(mode.st_mode) == 0o600 and mode.st_size == 32
    assert d.get("ready") == "ready\n"
    # Nothing is written when nothing changes but the Lease. (The controller may, of its own.)

    def ours():
        c = connector(control, name)
        return ([m for m in c["metadata"]["managedFields"] if m["manager"] == "spanwire-connector"], c["spec"],
                c["status"]["connectionDetails"], c["status"]["capabilities"])
    before = ours()
    assert before[0]
    lease = control.get(f"{LEASES}/{name}").json
    assert lease["spec"]["holderIdentity"].startswith(s["id"][:10] + "_")
    until(lambda: control.get(f"{LEASES}/{name}").json["spec"]["renewTime"] != lease["spec"]["renewTime"],
          what="a renewal")
    assert ours() == before


def test_the_same_connector_after_a_restart(control, device):
    d = device("--name", "again", where="a")
    first = d.wait_live()
    d.kill()
    d = device(where="a")  # no name: found by the key; the Lease is still fresh and is ours
    second = d.wait_live()
    assert "waiting until it expires" not in d.log()
    assert (second["connector"], second["id"]) == ("again", first["id"])
    # Ended well: offline at once, because the Lease was given back.
    is_ready(control, "again", "True")
    d.stop()
    spec = control.get(f"{LEASES}/again").json["spec"]
    assert "holderIdentity" not in spec and "renewTime" not in spec, spec
    is_ready(control, "again", "False")


def waiting_bytes(port):
    """What lies at a server's sockets and was not read."""
    out = subprocess.run(["ss", "-Htn", "state", "established", f"( sport = :{port} )"], capture_output=True, text=True,
                         check=True).stdout
    return sum(int(line.split()[0]) for line in out.splitlines())


def test_a_lease_is_given_back_while_it_is_renewed(quick, device):
    d = device("--name", "torn", where="torn", kubeconfig=quick.kubeconfig)
    d.wait_live()
    is_ready(quick, "torn", "True")
    with quick.stopped():
        until(lambda: waiting_bytes(quick.port), what="a renewal that nobody reads")
        d.signal(signal.SIGTERM)
        until(lambda: "draining" in d.log())
    assert d.wait() == 0
    is_ready(quick, "torn", "False")
    spec = quick.get(f"{LEASES}/torn").json["spec"]
    assert "holderIdentity" not in spec and "renewTime" not in spec, spec


def test_a_deleted_connector_comes_back(control, device):
    d = device("--name", "phoenix", where="p")
    d.wait_live()
    uid = connector(control, "phoenix")["metadata"]["uid"]
    assert control.delete(f"{GROUP}/connectors/phoenix").status == 200
    until(lambda: connector(control, "phoenix").get("metadata", {}).get("uid", uid) != uid, 10, "a new Connector")
    d.wait_live()


def test_one_key_serves_once(control, device, binary):
    d = device("--name", "single", where="s")
    d.wait_live()
    before = until(lambda: connector(control, "single")["status"].get("connectionDetails"), 10)
    # The same directory: at once.
    again = device(where="s2", data=d.data)
    assert again.wait() == 1
    assert "another process uses" in again.log()
    # A copy of the key: as soon as the other is seen to live.
    copy = d.dir.parent / "copied"
    shutil.copytree(d.data, copy)
    thief = device(where="s3", data=copy)
    assert thief.wait(20) == 1
    assert "in use elsewhere" in thief.log()
    assert connector(control, "single")["status"]["connectionDetails"] == before
    assert d.alive and d.status()["live"]
    # The holder dies without a word: its Lease runs out and the copy takes over.
    d.kill()
    heir = device(where="s4", data=copy)
    assert heir.wait_live(15)["connector"] == "single"


WRONG_CLOCK = """
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
    int rc = (int)syscall(SYS_clock_gettime, id, t);

    if (rc == 0 && id == CLOCK_REALTIME)
        t->tv_sec += atol(getenv("WRONG_BY"));
    return rc;
}
"""


@pytest.fixture(scope="module")
def wrong_clock(tmp_path_factory):
    """Environment of a process whose wall clock is off by so many seconds."""
    if SANITIZED or not shutil.which("cc"):
        pytest.skip("needs a compiler, and a program that can be preloaded")
    where = tmp_path_factory.mktemp("clock")
    (where / "clock.c").write_text(WRONG_CLOCK, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(where / "clock.so"), str(where / "clock.c")], check=True)
    return lambda seconds: {"LD_PRELOAD": str(where / "clock.so"), "WRONG_BY": str(seconds)}


@pytest.mark.parametrize("wrong", [-40, 3600])
def test_a_wrong_clock_changes_nothing(quick, device, wrong_clock, wrong):
    name = f"clock{wrong}".replace("-", "-minus-")
    d = device("--name", name, where=name, env=wrong_clock(wrong), kubeconfig=quick.kubeconfig)
    d.wait_live()
    until(lambda: re.search(r"clock is \d+ s (behind|ahead of) the API's", d.log()), 5, d.log())

    def renewed():
        return quick.get(f"{LEASES}/{name}").json["spec"]["renewTime"]
    # Renewed with the API's time, and alive for as long as it renews (a Lease is 4 s here).
    for _ in range(2):
        is_ready(quick, name, "True")
        last = renewed()
        until(lambda: renewed() != last, what="a renewal")
    # Nearer to ours than to the wrong one: how long ago it was depends on the machine.
    apart = time.time() - calendar.timegm(time.strptime(renewed()[:19], "%Y-%m-%dT%H:%M:%S"))
    assert -20 < apart < 30, (renewed(), apart)
    # Dead is dead, whatever it said last.
    d.kill()
    is_ready(quick, name, "False")


def test_a_device_that_lies_about_the_time(quick, device):
    """An older device writes its own clock's time: the API's own record of the write counts."""
    d = device("--name", "liar", where="liar", kubeconfig=quick.kubeconfig)
    d.wait_live()
    lease = quick.get(f"{LEASES}/liar").json
    d.kill()
    ready = Ready(quick, "liar")
    for year in ("2020", "2099"):
        ready.becomes("False")
        done = quick.request("PATCH", f"{LEASES}/liar", {"spec": {
            "holderIdentity": lease["spec"]["holderIdentity"], "renewTime": f"{year}-01-01T00:00:00.000000Z"}},
            headers={"Content-Type": "application/merge-patch+json"})
        assert done.status == 200, done
        ready.becomes("True")
    ready.becomes("False")
    ready.close()


def api_was_silent(log):
    """Did the API say nothing for three seconds? Then nobody can tell whose the key is, and the relay is joined."""
    at = [datetime.datetime.fromisoformat(m.group(1)) for m in re.finditer(r"^(\d{4}-\S+)Z\t", log, re.M)]
    held = re.search(r"^(\d{4}-\S+)Z\t.*waiting until it expires", log, re.M)
    return (datetime.datetime.fromisoformat(held.group(1)) - at[0]).total_seconds() >= 3


def test_a_copy_of_the_key_stays_away_from_the_relay(binary, control, device, tmp_path):
    port = free_port()
    with open(tmp_path / "relay.log", "wb") as log:
        relay = subprocess.Popen([binary, "relay", "--open", "--listen", f"127.0.0.1:{port}", "--admin-addr", "127.0.0.1:0",
                                  "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/"
    try:
        until(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), 10, "the relay")
        d = device("--name", "copied", "--relay", url, where="original")
        d.wait_live()
        until(lambda: d.status()["relay"]["up"], 10, "the relay to be connected")
        copy = tmp_path / "copied"
        shutil.copytree(d.data, copy)
        thief = device("--relay", url, where="thief", data=copy)
        assert thief.wait(20) == 1 and "in use elsewhere" in thief.log()
        if not api_was_silent(thief.log()):
            assert f"relay {url} is connected" not in thief.log(), thief.log()
            assert d.log().count("is not connected") == 0 and d.status()["relay"]["up"]
        # The heir of a dead device joins when the Lease is its own.
        d.kill()
        heir = device("--relay", url, where="heir", data=copy)
        heir.wait_live(15)
        until(lambda: heir.status()["relay"]["up"], 5, "the relay to be connected")
        log = until(lambda: heir.log() if f"relay {url} is connected" in heir.log() else None, 5)
        assert log.index("taking it over") < log.index(f"relay {url} is connected") or api_was_silent(log), log
    finally:
        relay.terminate()
        relay.wait(guard(20))


def test_names_that_belong_to_others(control, device):
    device("--name", "taken", where="t").wait_live()
    other = device("--name", "taken", where="u")
    assert other.wait(20) == 1
    assert "belongs to another device" in other.log()
    d = device("--name", "mine", where="v")
    d.wait_live()
    d.stop()
    d = device("--name", "other-name", where="v")
    assert d.wait(20) == 1
    assert "belongs to Connector 'mine'" in d.log()


def test_only_gateways_of_the_fabric_get_in(control, device, edge, web):
    d = device("--name", "doors", "--allow", f"127.0.0.1:{web.port}", where="d")
    d.wait_live()
    edge.op("connect", peer=d.id, addrs=d.addrs())
    assert "refused" in edge.event("closed")["why"]
    until(lambda: "unknown gateway" in d.log() and edge.id in d.log(), 10)
    until(lambda: d.metric("spanwire_refusals") >= 1)
    # The control plane names it (the controller writes the annotation from such objects).
    ns = control.post("/api/v1/namespaces", {"metadata": {"name": "spanwire-system"}}).status
    assert ns in (201, 409)
    assert control.post("/api/v1/namespaces/spanwire-system/configmaps", {
        "metadata": {"name": "gateway-test", "labels": {"spanwire.dev/gateway-identity": "true"}},
        "data": {"id": edge.id}}).status == 201
    until(lambda: edge.id in d.status()["gateways"], 5, "the gateway to be admitted")
    edge.connect(d)
    status, answer = edge.ask(get("127.0.0.1", web.port, "/hello"))
    assert status == 200 and answer["text"].endswith("hello /hello")
    until(lambda: edge.id in [c["peer"] for c in d.status()["connections"]])

    def paths():
        return [p["gateway"] for p in connector(control, "doors")["status"].get("connectionDetails", {}).get("paths", [])]
    until(lambda: paths() == [edge.id], what="the gateway's path in the status")
    # And takes it back: the connection goes.
    control.delete("/api/v1/namespaces/spanwire-system/configmaps/gateway-test")
    edge.event("closed")
    until(lambda: not d.status()["connections"], 5)
    until(lambda: paths() == [], what="the path of a gateway that is gone to be taken out")


def test_only_advertised_destinations_are_reached(control, device, edge, web):
    d = device("--name", "adv", "--allow-gateway", edge.id, where="adv")
    d.wait_live()
    edge.connect(d)
    other = Web()
    try:
        connect = f"CONNECT 127.0.0.1:{web.port} HTTP/1.1\r\nhost: x\r\n\r\n"
        assert edge.ask(connect)[0] == 403
        assert edge.ask(get("127.0.0.1", web.port, "/"))[0] == 403
        advertise(control, "adv", "adv", ("127.0.0.1", web.port))
        until(lambda: d.status()["destinations"], 5)
        assert edge.ask(get("127.0.0.1", web.port, "/hello"))[0] == 200
        assert edge.ask(get("localhost", web.port, "/hello"))[0] == 200
        for host, port in (("127.0.0.1", other.port), ("127.0.0.2", web.port), ("example.com", web.port)):
            assert edge.ask(get(host, port, "/"))[0] == 403, (host, port)
        until(lambda: any("destination refused" in line and str(other.port) in line and edge.id in line
                          for line in d.log().splitlines()), 2, "the refusal in the log")
        # A tunnel that is open goes when its advertisement does.
        stream = edge.tunnel("127.0.0.1", web.port)
        edge.send(stream, "GET /a HTTP/1.1\r\nHost: pub.example\r\n\r\n")
        edge.recv(stream, "hello /a")
        control.delete(f"{GROUP}/connectoradvertisements/adv")
        until(lambda: not d.status()["destinations"], 5)
        until(lambda: "ended: not_advertised" in d.log(), 5, "the tunnel to be cut")
        assert edge.ask(connect)[0] == 403
    finally:
        other.close()


def test_requests_inside_tunnels_are_seen(device, edge, web):
    sink = socket.create_server(("127.0.0.1", 0))
    d = device("--name", "peek", "--allow-gateway", edge.id, "--allow", f"127.0.0.1:{web.port}",
               "--allow", f"127.0.0.1:{sink.getsockname()[1]}", where="pk")
    d.wait_live()
    edge.connect(d)
    stream = edge.tunnel("127.0.0.1", web.port)
    edge.send(stream, "GET /one HTTP/1.1\r\nHost: pub.example\r\n\r\n")
    edge.recv(stream, "hello /one")
    edge.send(stream, "POST /two HTTP/1.1\r\nHost: pub.example\r\nContent-Length: 4\r\n\r\nover")
    edge.recv(stream, "over")
    edge.send(stream, "GET /big HTTP/1.1\r\nHost: pub.example\r\nConnection: close\r\n\r\n", fin=True)
    big = edge.recv(stream)
    assert len(big.split("\r\n\r\n", 1)[1]) == 5_120_000
    seen = until(lambda: s if len(s := d.status()["requests"]) >= 3 else None, 5)
    assert [(r["method"], r["path"], r["status"], r["host"]) for r in reversed(seen)] == [
        ("GET", "/one", 200, "pub.example"), ("POST", "/two", 200, "pub.example"),
        ("GET", "/big", 200, "pub.example")]
    assert seen[0]["bytesOut"] == 5_120_000
    page = d.get("")
    assert "/one" in page and edge.id in page
    # What is no HTTP is listed as the tunnel it is.
    stream = edge.tunnel("127.0.0.1", sink.getsockname()[1])
    with sink.accept()[0] as s:
        s.sendall(b"SSH-2.0-x\r\n")
        assert edge.recv(stream, "\n") == "SSH-2.0-x\r\n"
    edge.send(stream, "", fin=True)
    last = until(lambda: r if (r := d.status()["requests"][0])["kind"] == "tcp" else None, 5)
    assert (last["method"], last["host"], last["bytesOut"]) == ("CONNECT", "127.0.0.1:%d" % sink.getsockname()[1], 11)
    sink.close()


def test_the_api_may_go_away(binary, device, edge, web, tmp_path):
    control = Control(binary, tmp_path / "control", "--connector-lease", "4s")
    try:
        d = device("--name", "alone", "--allow-gateway", edge.id, where="alone", kubeconfig=control.kubeconfig)
        d.wait_live()
        advertise(control, "alone", "alone", ("127.0.0.1", web.port))
        until(lambda: d.status()["destinations"], 5)
        edge.connect(d)
        stream = edge.tunnel("127.0.0.1", web.port)
        control.stop(kill=True)
        until(lambda: not d.status()["api"]["up"], 10, "the device to notice")
        until(lambda: not d.status()["live"], 10)
        # Tunnels stay, new ones open: what was learnt is in force.
        edge.send(stream, "GET /still HTTP/1.1\r\nHost: a\r\n\r\n")
        edge.recv(stream, "hello /still")
        assert edge.ask(get("127.0.0.1", web.port, "/new"))[0] == 200
        control.restart()
        d.wait_live(40)
        until(lambda: d.status()["api"]["up"])
        until(lambda: "API unreachable" in d.log() and "API reachable again" in d.log(), 10)
    finally:
        control.close()


def test_starts_without_the_api(binary, device, tmp_path):
    control = Control(binary, tmp_path / "control")
    control.stop()
    d = device("--name", "early", where="early", kubeconfig=control.kubeconfig)
    until(lambda: "API unreachable" in d.log(), 10)
    assert d.alive and not d.status()["live"]
    control.restart()
    d.wait_live(40)
    control.close()


def test_a_lost_login_keeps_tunnels(control, device, edge, web, tmp_path):
    """The account goes: 401 for every request, and the tunnels go on."""
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert control.post(accounts, {"metadata": {"name": "laptop"}}).status == 201
    assert control.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {
        "metadata": {"name": "laptop"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": "laptop", "namespace": "default"}]}).status == 201
    token = control.post(f"{accounts}/laptop/token", {
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}).json["status"]["token"]
    ca = base64.b64encode(control._secret("certificate-authority-data")).decode()
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{control.port}",
                                               "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}))
    d = device("--name", "login", "--allow-gateway", edge.id, "--allow", f"127.0.0.1:{web.port}", where="login",
               kubeconfig=config)
    d.wait_live()
    edge.connect(d)
    stream = edge.tunnel("127.0.0.1", web.port)
    control.delete(f"{accounts}/laptop")
    until(lambda: d.status()["api"]["code"] == 401, 10, "401")
    until(lambda: "refused the request (401), keeping open tunnels" in d.log(), 10)
    edge.send(stream, "GET /still HTTP/1.1\r\nHost: a\r\n\r\n")
    edge.recv(stream, "hello /still")
    assert edge.ask(get("127.0.0.1", web.port, "/new"))[0] == 200


def test_draining_lets_tunnels_finish(device, edge, web):
    d = device("--name", "drain", "--allow-gateway", edge.id, "--allow", f"127.0.0.1:{web.port}", where="drain")
    d.wait_live()
    edge.connect(d)
    stream = edge.tunnel("127.0.0.1", web.port)
    d.signal(signal.SIGTERM)
    until(lambda: "draining" in d.log(), 5)
    stays(lambda: d.alive, 0.5, "the tunnel is open")
    edge.send(stream, "GET /last HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert "hello /last" in edge.recv(stream)
    edge.send(stream, "", fin=True)
    assert d.wait(5) == 0


def test_open_is_said_aloud(device, edge, web):
    d = device("--name", "open", "--open", "--allow", f"127.0.0.1:{web.port}", where="open")
    d.wait_live()
    until(lambda: "access control disabled (--open)" in d.log(), 5)
    edge.connect(d)
    assert edge.ask(get("127.0.0.1", web.port, "/x"))[0] == 200
    assert edge.ask(get("127.0.0.1", 1, "/x"))[0] == 403


def test_addresses_follow_the_machine(control, device):
    d = device("--name", "mobile", "--bind", "0.0.0.0:0", where="mobile")
    d.wait_live()

    def published():
        key = connector(control, "mobile")["status"].get("connectionDetails", {}).get("publicKey", {})
        return [a["address"] for a in key.get("addresses", [])]
    until(published, 5)
    assert "10.9.9.9" not in published()
    subprocess.run(["ip", "addr", "add", "10.9.9.9/32", "dev", "lo"], check=True)
    try:
        until(lambda: "10.9.9.9" in published(), 6, "the new address")
        assert "127.0.0.1" not in published()
    finally:
        subprocess.run(["ip", "addr", "del", "10.9.9.9/32", "dev", "lo"], check=True)
    until(lambda: "10.9.9.9" not in published(), 6, "the address to go")
    until(lambda: "addresses of this machine changed" in d.log(), 5)
    d.wait_live()


@pytest.mark.tsan
def test_standalone_needs_no_api(binary, edge, web, tmp_path):
    d = Device(binary, tmp_path / "alone", "/does/not/exist", "--standalone", "--allow-gateway", edge.id, "--allow",
               f"127.0.0.1:{web.port}")
    try:
        assert d.get("ready") == "ready\n"
        until(lambda: re.search(r"ticket endpoint[a-z2-7]+", d.log()), 5)
        edge.connect(d)
        assert edge.ask(get("127.0.0.1", web.port, "/x"))[0] == 200
        assert edge.ask(get("127.0.0.1", 1, "/x"))[0] == 403
        d.stop()
    finally:
        d.kill()
        d.check()


def test_reached_through_a_relay(binary, control, device, web, tmp_path):
    port = free_port()
    with open(tmp_path / "relay.log", "wb") as log:
        relay = subprocess.Popen([binary, "relay", "--open", "--listen", f"127.0.0.1:{port}", "--admin-addr", "127.0.0.1:0",
                                  "--stats-addr", "127.0.0.1:0", "--ready-addr", "127.0.0.1:0"], stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}/"
    try:
        until(lambda: not socket.socket().connect_ex(("127.0.0.1", port)), 10, "the relay")
        with Edge(relay=url) as edge:
            d = device("--name", "relayed", "--relay", url, "--allow-gateway", edge.id, "--allow",
                       f"127.0.0.1:{web.port}", where="relayed")
            d.wait_live()
            until(lambda: d.status()["relay"]["up"], 10, "the relay to be connected")
            until(lambda: connector(control, "relayed")["status"].get("connectionDetails", {}).get("publicKey", {}).get(
                "homeRelay") == url, what="the relay among its details")
            edge.op("connect", peer=d.id, addrs=[], relay=url)
            edge.event("connected")
            assert edge.ask(get("127.0.0.1", web.port, "/far"))[0] == 200
    finally:
        relay.terminate()
        relay.wait(guard(20))


def test_bad_use(binary, control, tmp_path):
    def run(*argv, **kw):
        return subprocess.run([binary, "connector", *argv], capture_output=True, text=True, timeout=guard(20),
                              check=False, **kw)
    assert run().returncode == 64
    assert run("jump").returncode == 64
    assert run("run", "--nonsense").returncode == 64
    base = ("run", "--kubeconfig", str(control.kubeconfig), "--data", str(tmp_path / "k"))
    for flags, word in ((("--allow", "nonsense"), "--allow"), (("--allow-gateway", "12"), "--allow-gateway"),
                        (("--address", "here"), "--address"), (("--admin-addr", "0.0.0.0:0"), "--admin-addr")):
        r = run(*base, *flags)
        assert r.returncode == 1 and word in r.stderr, (flags, r)
    r = run("run", "--kubeconfig", str(tmp_path / "none"), "--data", str(tmp_path / "k"))
    assert r.returncode == 1 and "none" in r.stderr
    (tmp_path / "k").mkdir(exist_ok=True)
    key = tmp_path / "k" / "connector.key"
    key.write_bytes(b"x" * 32)
    key.chmod(0o644)
    r = run(*base, "--admin-addr", "127.0.0.1:0")
    assert r.returncode == 1 and "connector.key" in r.stderr


def test_the_unit_file(binary, tmp_path):
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": "", "KUBECONFIG": "/k/conf"}

    def run(*argv):
        return subprocess.run([binary, "connector", *argv], capture_output=True, text=True, env=env, cwd=tmp_path,
                              timeout=guard(20), check=False)
    printed = run("install", "--print", "--allow", "a.lan:80", "--relay=https://r.example/%41")
    assert printed.returncode == 0
    assert '" connector run "--allow" "a.lan:80" "--relay=https://r.example/%%41"\n' in printed.stdout
    assert f"WorkingDirectory={tmp_path}\n" in printed.stdout
    assert 'Environment="KUBECONFIG=/k/conf"\n' in printed.stdout
    assert not (tmp_path / ".config").exists()
    done = run("install", "--allow", "a.lan:80")
    unit = tmp_path / ".config/systemd/user/spanwire-connector.service"
    assert done.returncode == 0 and unit.exists() and "systemctl --user enable --now" in done.stdout
    if shutil.which("systemd-analyze"):
        checked = subprocess.run(["systemd-analyze", "verify", "--user", str(unit)], capture_output=True, text=True,
                                 check=False, env={**env, "XDG_RUNTIME_DIR": str(tmp_path)})
        assert not re.search(r"spanwire-connector.service:.*(Unknown|Invalid|Failed to parse)", checked.stderr), checked
    assert run("uninstall").returncode == 0 and not unit.exists()
    assert run("uninstall").returncode == 1
    assert run("install", "--unit", "../x").returncode == 1
