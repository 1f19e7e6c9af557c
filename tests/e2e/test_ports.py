# SPDX-License-Identifier: Apache-2.0
"""Ports that other programs hold: what is bound, what is refused, and who says so."""
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.wait import GUARD, SLOW, until
from test_control_cluster import Replica
from test_up import Up

NOT_READY = 500


@pytest.fixture(name="_loopback", autouse=True)
def _up():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=False)


@contextlib.contextmanager
def stranger(port, host="127.0.0.1", share=True, udp=False):
    """Another program's socket: this one's."""
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET,
                      socket.SOCK_DGRAM if udp else socket.SOCK_STREAM)
    try:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT if share else socket.SO_REUSEADDR, 1)
        s.bind((host, port))
        if not udp:
            s.listen()
        yield s
    finally:
        s.close()


def ready(gate):
    """Status and text of the readiness page."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{gate.ready_port}/healthz/ready", timeout=GUARD) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except OSError:
        return 0, ""


def get(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=GUARD * SLOW)
    try:
        c.request("GET", "/")
        return c.getresponse().status
    except OSError:
        return None
    finally:
        c.close()


def listener(name, port, status=200):
    return gw.listener(name, port, [{"filters": [gw.hcm([{
        "match": {"prefix": "/"}, "direct_response": {"status": status}}])]}])


def page(gate, path="/listeners"):
    return urllib.request.urlopen(f"http://127.0.0.1:{gate.admin_port}{path}", timeout=GUARD).read().decode()


def unbound(gate):
    text = urllib.request.urlopen(f"http://127.0.0.1:{gate.stats_port}/metrics", timeout=GUARD).read().decode()
    found = re.search(r"^spanwire_gateway_sockets_unbound\S* (\d+)", text, re.M)
    return int(found.group(1)) if found else 0


@pytest.mark.parametrize("host,share", [("127.0.0.1", False), ("127.0.0.1", True), ("0.0.0.0", True), ("::", True)])
def test_a_port_of_another_program(binary, tmp_path, host, share):
    """Whatever its socket allows: the rest serves, the gateway is not ready, and takes the port when it is free."""
    taken, fine = gw.free_port(), gw.free_port()
    with stranger(taken, host, share):
        gate = gw.Gateway(binary, tmp_path, [listener("taken", taken), listener("fine", fine)], wait=False)
        until(lambda: get(fine) == 200, GUARD, "the other listener")
        until(lambda: "listener taken" in ready(gate)[1], GUARD, "the refusal")
        assert ready(gate)[0] == NOT_READY
        until(lambda: re.search(
            rf"cannot bind '127.0.0.1:{taken}': Address already in use, held by \S+ \(pid {os.getpid()}\); will try again",
            gate.log()), GUARD, "the line about it")
        assert f"(pid {os.getpid()})" in re.search(r"^taken::.*$", page(gate), re.M).group()
        assert re.search(r"^fine::\S+$", page(gate), re.M)
        assert unbound(gate) == 2
        assert not re.search(r"gateway\s+ready", gate.log())
    until(lambda: get(taken) == 200, GUARD, "the port")
    gate.wait_ready()
    until(lambda: ready(gate)[0] == 200 and unbound(gate) == 0, GUARD, "readiness")
    assert gate.log().count("will try again") == 1, gate.log()
    gate.stop()


def test_a_port_taken_while_it_runs(binary, tmp_path):
    """A listener that comes later, on a port that is taken: readiness goes, and comes back."""
    first, later = gw.free_port(), gw.free_port()
    gate = gw.Gateway(binary, tmp_path, [listener("first", first)])
    until(lambda: ready(gate)[0] == 200, GUARD, "readiness")
    with stranger(later):
        gate.apply([listener("first", first), listener("later", later)])
        until(lambda: ready(gate)[0] == NOT_READY, GUARD, "readiness to go")
        assert get(first) == 200
    until(lambda: ready(gate)[0] == 200 and get(later) == 200, GUARD, "the port")
    gate.stop()


def test_a_program_that_joins_a_port_is_noticed(binary, tmp_path):
    port = gw.free_port()
    gate = gw.Gateway(binary, tmp_path, [listener("l", port)])
    with stranger(port):
        until(lambda: ready(gate)[0] == NOT_READY, GUARD, "the stranger to be noticed")
        until(lambda: re.search(rf"shared with .*\(pid {os.getpid()}\)", gate.log()), GUARD, "the line about it")
    until(lambda: ready(gate)[0] == 200, GUARD, "it to be gone")
    gate.stop()


@pytest.mark.parametrize("share", [False, True])
def test_a_udp_port_of_another_program(binary, tmp_path, share):
    port = gw.free_port()
    udp = {"@type": gw.TYPE + "envoy.config.listener.v3.Listener", "name": "u", "address": {"socket_address": {
        "protocol": "UDP", "address": "127.0.0.1", "port_value": port}}, "listener_filters": [{
            "name": "udp", "typed_config": {
                "@type": gw.TYPE + "envoy.extensions.filters.udp.udp_proxy.v3.UdpProxyConfig",
                "stat_prefix": "u", "cluster": "c"}}]}
    with stranger(port, "0.0.0.0", share, udp=True):
        gate = gw.Gateway(binary, tmp_path, [udp, gw.cluster("c", [port])], wait=False)
        until(lambda: f"(pid {os.getpid()})" in gate.log(), GUARD, "the refusal")
        assert ready(gate)[0] == NOT_READY
    until(lambda: ready(gate)[0] == 200, GUARD, "the port")
    gate.stop()


def test_gateways_share_only_with_their_own(binary, tmp_path):
    """Those of one configuration do, for a hand-over; another's does not, unless --port-group says so."""
    port = gw.free_port()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one = gw.Gateway(binary, tmp_path / "a", [listener("l", port)])
    two = gw.Gateway(binary, tmp_path / "a", None)
    assert "cannot bind" not in two.log()
    other = gw.Gateway(binary, tmp_path / "b", [listener("l", port)], wait=False)
    until(lambda: ready(other)[0] == NOT_READY and "held by spanwire gateway (pid" in other.log(), GUARD, "the refusal")
    one.stop()
    time.sleep(0.6 * SLOW)  # long enough for an attempt: the other one still has it
    assert ready(other)[0] == NOT_READY
    two.stop()
    until(lambda: ready(other)[0] == 200 and get(port) == 200, GUARD, "the port")
    other.stop()


def start(binary, role, ports, tmp_path, *flags):
    admin, stats, health = ports
    return subprocess.Popen([binary, role, "--admin-addr", f"127.0.0.1:{admin}", "--stats-addr", f"127.0.0.1:{stats}",
                             "--ready-addr", f"127.0.0.1:{health}", *flags], stderr=subprocess.PIPE, text=True,
                            cwd=tmp_path)


@pytest.mark.parametrize("clash", [0, 1, 2])
@pytest.mark.parametrize("role", ["node", "relay"])
def test_two_roles_do_not_share_admin_ports(binary, tmp_path, role, clash):
    """Both let a successor in; neither is the other's."""
    (tmp_path / "xds").mkdir()
    (tmp_path / "empty.yaml").write_text("{}", encoding="ascii")
    subprocess.run([binary, "cert", "ca", "--dir", str(tmp_path / "ca")], check=True, capture_output=True)

    def first_flags():
        if role == "relay":
            return "--open", "--listen", f"127.0.0.1:{gw.free_port()}"
        return "--enable-proxy=false", "--local-xds", "empty.yaml", "--local-ca", "ca"
    ours = [gw.free_port() for _ in range(3)]
    theirs = [gw.free_port() for _ in range(3)]
    theirs[clash] = ours[clash]
    first = start(binary, role, ours, tmp_path, *first_flags())
    try:
        until(lambda: _answers(ours[2]), GUARD, "the first one")
        second = start(binary, "gateway", theirs, tmp_path, "--xds-dir", str(tmp_path / "xds"))
        _, said = second.communicate(timeout=GUARD * SLOW)
        assert second.returncode == 1
        assert f"cannot bind 127.0.0.1:{ours[clash]}: Address already in use, held by spanwire {role} " \
               f"(pid {first.pid})" in said, said
        successor = start(binary, role, ours, tmp_path, *first_flags())
        time.sleep(0.5 * SLOW)
        assert successor.poll() is None, "a successor of its own kind takes over"
        successor.send_signal(signal.SIGTERM)
        successor.communicate(timeout=GUARD * SLOW)
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=GUARD * SLOW)


def _answers(port):
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


# --- what the control plane says ---

def conditions(f, name="edge"):
    """The Gateway's and its first listener's Programmed."""
    status = f.get("Gateway", name).get("status", {})
    entries = status.get("listeners") or [{}]
    return tuple(next(((c["status"], c["reason"], c["message"]) for c in at.get("conditions", [])
                       if c["type"] == "Programmed"), None) for at in (status, entries[0]))


def programmed(f, name="edge"):
    return [c and c[:2] for c in conditions(f, name)]


def run_status(f, *flags):
    return subprocess.run([f.binary, "status", "--kubeconfig", str(f.control.kubeconfig), *flags],
                          capture_output=True, text=True, timeout=GUARD * SLOW, check=False)


TRUE = [("True", "Programmed")] * 2


@pytest.fixture(name="f")
def _f(binary, tmp_path):
    f = fb.Fabric(binary, tmp_path, "--connector", "false")
    yield f
    f.close()


def test_statuses_say_that_a_port_is_taken(f):
    port = gw.free_port()
    gate = f.start_gateway()
    seen = []
    with stranger(port):
        f.gateway_object("edge", [("http", "HTTP", port)])

        def told():
            seen.append(programmed(f))
            return seen[-1] == [("False", "AddressInUse")] * 2
        until(told, GUARD, "the statuses")
        assert TRUE not in seen, "served for a moment"
        for c in conditions(f):
            assert re.search(rf"data plane 'edge': cannot bind '127.0.0.1:{port}': Address already in use, held by "
                             rf"\S+ \(pid {os.getpid()}\)", c[2]), c
        bad = run_status(f)
        assert bad.returncode == 2 and "REFUSED" in bad.stdout and f"(pid {os.getpid()})" in bad.stdout, bad
        assert run_status(f, "--json").returncode == 2
        # Another Gateway is served meanwhile.
        f.gateway_object("other", [("http", "HTTP", gw.free_port())])
        f.programmed("other")
        assert programmed(f) == [("False", "AddressInUse")] * 2
    until(lambda: programmed(f) == TRUE, GUARD, "the port")
    assert get(port) == 404
    until(lambda: run_status(f).returncode == 0, GUARD, "the status")
    assert gate.log().count("will try again") == 1


def test_one_of_two_listeners(f):
    good, bad = gw.free_port(), gw.free_port()
    f.start_gateway()
    with stranger(bad):
        f.gateway_object("edge", [("good", "HTTP", good), ("bad", "HTTP", bad)])
        until(lambda: "listener 'bad'" in (conditions(f)[0] or ("", "", ""))[2], GUARD, "the message")
        assert programmed(f) == TRUE, "the Gateway serves"
        listeners = {e["name"]: {c["type"]: c for c in e["conditions"]} for e in
                     f.get("Gateway", "edge")["status"]["listeners"]}
        assert listeners["bad"]["Programmed"]["reason"] == "AddressInUse"
        assert listeners["good"]["Programmed"]["status"] == "True"
    until(lambda: conditions(f)[0] == ("True", "Programmed", ""), GUARD, "the port")


def test_no_data_plane(f):
    """Nothing serves, so nothing is said to be; a data plane that is away for a moment changes nothing."""
    f.gateway_object("edge", [("http", "HTTP", gw.free_port())])
    until(lambda: programmed(f) == [("False", "Pending")] * 2, GUARD, "the statuses")
    assert all("no data plane is connected" in c[2] for c in conditions(f))
    nobody = run_status(f)
    assert nobody.returncode == 2 and "No data plane is connected" in nobody.stdout
    gate = f.start_gateway()
    until(lambda: programmed(f) == TRUE, GUARD, "the data plane")
    before = f.get("Gateway", "edge")["metadata"]["resourceVersion"]
    gate.signal(signal.SIGKILL)
    gate.wait(GUARD)
    f.gateways.remove(gate)
    gate = f.start_gateway()
    f.gateway_object("other", [("http", "HTTP", gw.free_port())])
    f.programmed("other")
    assert f.get("Gateway", "edge")["metadata"]["resourceVersion"] == before, "its status flapped"
    gate.stop()
    f.gateways.remove(gate)
    until(lambda: programmed(f) == [("False", "Pending")] * 2, 30, "the data plane to be missed")


def test_a_control_plane_that_restarts_keeps_statuses(f):
    f.gateway_object("edge", [("http", "HTTP", gw.free_port())])
    f.start_gateway()
    f.programmed("edge")
    before = f.get("Gateway", "edge")["metadata"]["resourceVersion"]
    f.control.restart()
    until(lambda: run_status(f).returncode == 0, GUARD, "the data plane to be back")
    assert f.get("Gateway", "edge")["metadata"]["resourceVersion"] == before, "its status flapped"


def test_replicas_tell_each_other(binary, tmp_path):
    """A data plane at the follower counts, and so does what it cannot bind."""
    f = fb.Fabric(binary, tmp_path, "--gateway", "false", "--connector", "false")
    replicas, gate = [], None
    try:
        replicas = [Replica(binary, tmp_path, name, f.control.kubeconfig) for name in ("one", "two")]
        leader = until(lambda: next((r for r in replicas if r.leads()), None), GUARD, "a leader")
        follower = next(r for r in replicas if r is not leader)
        f.gateway_object("edge", [("http", "HTTP", gw.free_port())])
        until(lambda: programmed(f) == [("False", "Pending")] * 2, GUARD, "the statuses")
        follower.token = f.token
        gate = fb.XdsGateway(binary, tmp_path, follower)
        until(lambda: programmed(f) == TRUE, GUARD, "the follower's data plane to count")
        port = gw.free_port()
        with stranger(port):
            f.gateway_object("taken", [("http", "HTTP", port)])
            until(lambda: programmed(f, "taken") == [("False", "AddressInUse")] * 2, GUARD, "the refusal")
        until(lambda: programmed(f, "taken") == TRUE, GUARD, "the port")
        # Without the follower its data planes are not counted any more, and its Lease goes.
        follower.stop()
        until(lambda: programmed(f) == [("False", "Pending")] * 2, GUARD, "the follower to be missed")
        _, data = f.send("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector="
                                "spanwire.dev/component=data-planes")
        assert len(json.loads(data)["items"]) == 1, data
    finally:
        if gate:
            gate.stop()
        for r in replicas:
            r.stop()
        f.close()


# --- up ---

def create(u, path, obj):
    """With nothing but what `up` left in its directory."""
    tls = ssl.create_default_context(cafile=str(u.data / "pki/root.crt"))
    token = (u.data / "pki/admin.token").read_text(encoding="ascii").strip()
    ask = urllib.request.Request(f"https://127.0.0.1:{u.api}/apis/gateway.networking.k8s.io/v1{path}",
                                 json.dumps(obj).encode(), {"Authorization": f"Bearer {token}",
                                                            "Content-Type": "application/json"})
    with urllib.request.urlopen(ask, timeout=GUARD * SLOW, context=tls) as answer:
        assert answer.status == 201


def make_gateway(u, name, port):
    create(u, "/namespaces/default/gateways", {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": name},
        "spec": {"gatewayClassName": "mine", "listeners": [{"name": "http", "protocol": "HTTP", "port": port}]}})


def make_class(u):
    create(u, "/gatewayclasses", {
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "GatewayClass", "metadata": {"name": "mine"},
        "spec": {"controllerName": "spanwire.dev/gateway"}})


def test_up_ends_when_its_first_port_is_taken(topology, binary, tmp_path, as_shipped):
    """Free when it looked at the start, taken when the first Gateway wants it."""
    del topology, as_shipped
    u = Up(binary, tmp_path)
    with stranger(80 + u.offset):
        make_class(u)
        make_gateway(u, "edge", 80)
        assert u.wait(GUARD) == 1
    assert re.search(rf"listener tcp/127.0.0.1/80::127.0.0.1:{80 + u.offset} cannot bind .*Address already in use, "
                     rf"held by \S+ \(pid {os.getpid()}\)", u.log()), u.log()


def test_up_goes_on_when_a_later_port_is_taken(topology, binary, tmp_path, as_shipped):
    del topology, as_shipped
    u = Up(binary, tmp_path)
    make_class(u)
    make_gateway(u, "edge", 80)
    until(lambda: get(80 + u.offset) == 404, GUARD, "the first Gateway")
    time.sleep(1.2 * SLOW)  # up looks twice a second: it has seen that one
    later = gw.free_port()
    with stranger(later):
        make_gateway(u, "later", later)
        until(lambda: f"(pid {os.getpid()})" in u.log(), GUARD, "the line about it")
        assert u.alive and get(80 + u.offset) == 404
    until(lambda: "all listeners are bound" in u.log(), GUARD, "the port")
    u.stop()
