# SPDX-License-Identifier: Apache-2.0
"""Names that lead to loopback, where the data plane is an Envoy: it gets addresses that the control plane found and
checked, never the name. The client here takes what an Envoy would; a real one is in tests/interop/envoy.

Everything here runs with the defaults as they are shipped (see conftest.py)."""
import subprocess
import urllib.error
import urllib.request

import pytest
from harness import rights as rt
from harness.device import Web
from harness.dns import Names
from harness.fabric import Fabric, thing
from harness.ports import free_port
from harness.wait import until
from harness.xds_client import CDS, EDS, Xds

GOOD, OTHER, METADATA = "203.0.113.7", "203.0.113.8", "169.254.169.254"


class World:
    def __init__(self, binary, tmp, names, *flags):
        self.names = names
        self.fabric = Fabric(binary, tmp, "--target-domain", "connect.test", *flags)
        self.fabric.gateway_object("edge", [("web", "HTTP", free_port())])
        self.streams = []

    def envoy(self, token=None):
        """A client that says nothing of looking names up."""
        x = Xds(self.fabric.xds_port, self.fabric.ca, token or self.fabric.token.read_text(encoding="ascii"), "envoy")
        x.send(CDS, ["*"])
        x.send(EDS, ["*"])
        self.streams.append(x)
        return x

    def proxy(self, name, port=80):
        self.fabric.apply(thing("HTTPProxy", name.split(".", maxsplit=1)[0], {
            "hostnames": [f"{name.split('.', maxsplit=1)[0]}.connect.test"],
            "rules": [{"backends": [{"endpoint": f"http://{name}:{port}"}]}]}))

    def lines(self, *words):
        return [line for line in self.fabric.control.log().splitlines() if all(w in line for w in words)]

    def counted(self, name):
        page = self.fabric.control.get("/metrics").body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in page.splitlines() if line.startswith(name))

    def close(self):
        for x in self.streams:
            x.close()
        self.fabric.close()


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    with Names(tmp_path_factory.mktemp("dns")) as n:
        yield n


@pytest.fixture(scope="module")
def world(binary, names, tmp_path_factory):
    w = World(binary, tmp_path_factory.mktemp("world"), names)
    yield w
    w.close()


def set_of(name, port=80):
    return f"resolved/tcp/{name}/{port}"


def members(x, name, port=80):
    """The endpoint set of a name as bytes, once there is one."""
    x.read(0.05)
    return x.have.get(EDS, {}).get(set_of(name, port))


def told(x, name, has=None, lacks=()):
    def good():
        got = members(x, name)
        return got is not None and (has is None or has.encode() in got) and not [b for b in lacks if b.encode() in got]
    until(good, what=lambda: (name, members(x, name)))
    return members(x, name)


def is_empty(got, name):
    return got.endswith(set_of(name).encode())  # no endpoints behind its name


def status_of(host):
    """What the gateway answers for a host of an HTTPProxy; None where nobody listens yet."""
    request = urllib.request.Request("http://127.0.0.1:80/", headers={"Host": host})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as e:
        return e.code
    except OSError:
        return None


def cluster(x, name):
    return next((v for n, v in x.have.get(CDS, {}).items() if n.startswith(f"dns/{name}/")), None)


def test_a_name_goes_out_as_its_address(world):
    world.names.known["good.test"] = [GOOD, OTHER]
    x = world.envoy()
    world.proxy("good.test")
    got = told(x, "good.test", GOOD)
    assert OTHER.encode() in got
    assert b"good.test" in got  # the name of the host, for Host headers
    until(lambda: cluster(x, "good.test"), what="the cluster")
    assert set_of("good.test").encode() in cluster(x, "good.test")


@pytest.mark.parametrize("name, addresses, class_", [
    ("loop.test", ["127.0.0.1"], "loopback"), ("loop6.test", ["::1"], "loopback"),
    ("meta.test", [METADATA], "link-local"), ("mapped.test", ["64:ff9b::7f00:1"], "loopback"),
    ("zero.test", ["0.0.0.0"], "unspecified")])
def test_a_name_of_a_special_address_goes_out_without_it(world, name, addresses, class_):
    world.names.known[name] = addresses
    before = world.counted("spanwire_upstream_denied_total")
    x = world.envoy()
    world.proxy(name)
    until(lambda: world.lines("egress", f"'{name}'", addresses[0], class_), what="a line that says why")
    got = told(x, name)
    assert is_empty(got, name), got
    until(lambda: world.counted("spanwire_upstream_denied_total") > before, what="the denial to be counted")
    assert addresses[0].encode() not in x.text()


def test_an_address_of_the_machine_is_not_sent(world):
    """Control's own: what listens there is not for tenants."""
    subprocess.run(["ip", "addr", "add", "10.222.0.1/32", "dev", "lo"], check=True)
    try:
        world.names.known["own.test"] = ["10.222.0.1"]
        x = world.envoy()
        world.proxy("own.test")
        until(lambda: world.lines("egress", "'own.test'", "own address"), what="a line that says why")
        told(x, "own.test", lacks=["10.222.0.1"])
    finally:
        subprocess.run(["ip", "addr", "del", "10.222.0.1/32", "dev", "lo"], check=True)


def test_a_name_that_is_rebound_loses_its_endpoint(world):
    """The attack: a good answer for whoever checks, loopback for whoever connects."""
    world.names.known["rebind.test"] = [GOOD]
    x = world.envoy()
    world.proxy("rebind.test")
    told(x, "rebind.test", GOOD)
    world.names.known["rebind.test"] = ["127.0.0.1"]
    told(x, "rebind.test", lacks=[GOOD, "127.0.0.1"])
    world.names.known["rebind.test"] = [METADATA, OTHER]
    told(x, "rebind.test", OTHER, lacks=[METADATA])


@pytest.mark.parametrize("failure", ["SERVFAIL", "SILENT"])
def test_a_server_that_fails_takes_nothing_away(world, failure):
    name = f"{failure.lower()}.test"
    world.names.known[name] = [GOOD]
    x = world.envoy()
    world.proxy(name)
    told(x, name, GOOD)
    world.names.known[name] = failure
    asked = world.names.asked[name]
    until(lambda: world.names.asked[name] >= asked + 4, what="further questions")
    until(lambda: world.lines("egress", f"'{name}'", "cannot be resolved"), what="a line that says so")
    assert GOOD.encode() in members(x, name)
    world.names.known[name] = [OTHER]
    told(x, name, OTHER, lacks=[GOOD])


def test_a_name_that_does_not_exist_holds_up_nobody(world):
    x = world.envoy()
    world.names.known["stuck.test"] = "SILENT"
    world.names.known["after.test"] = [GOOD]
    world.proxy("nowhere.test")
    world.proxy("stuck.test")
    world.proxy("after.test")
    told(x, "after.test", GOOD)
    assert is_empty(told(x, "nowhere.test"), "nowhere.test")
    assert is_empty(told(x, "stuck.test"), "stuck.test")


def test_one_name_is_asked_for_once(world):
    """Two ports of a name are two sets and one lookup."""
    world.names.known["twice.test"] = [GOOD]
    x = world.envoy()
    world.fabric.apply(thing("HTTPProxy", "twice", {"hostnames": ["twice.connect.test"], "rules": [
        {"matches": [{"path": {"type": "PathPrefix", "value": f"/{p}"}}],
         "backends": [{"endpoint": f"http://twice.test:{p}"}]} for p in (8001, 8002)]}))
    until(lambda: members(x, "twice.test", 8001) and members(x, "twice.test", 8002), what="both sets")
    assert GOOD.encode() in members(x, "twice.test", 8001) and GOOD.encode() in members(x, "twice.test", 8002)


def test_a_set_goes_with_its_proxy(world):
    world.names.known["leaves.test"] = [GOOD]
    x = world.envoy()
    world.proxy("leaves.test")
    told(x, "leaves.test", GOOD)
    world.fabric.delete("HTTPProxy", "leaves")
    until(lambda: members(x, "leaves.test") is None and not cluster(x, "leaves.test"), what="it to go")


def test_a_data_plane_of_one_gateway_gets_addresses_too(world):
    """Its part of the configuration is made apart (views)."""
    api = world.fabric.control
    world.names.known["view.test"] = [GOOD]
    world.fabric.apply(
        thing("EndpointSlice", "view", addressType="FQDN", ports=[{"name": "p", "port": 80, "appProtocol": "http"}],
              endpoints=[{"addresses": ["view.test"]}]),
        thing("HTTPRoute", "view", {"parentRefs": [{"name": "edge"}], "hostnames": ["view.example"], "rules": [
            {"backendRefs": [{"group": "discovery.k8s.io", "kind": "EndpointSlice", "name": "view", "port": 80}]}]}))
    rt.account(api, "default", "plane")
    rt.cluster_role(api, "plane", [{"nonResourceURLs": ["/xds/default/edge"], "verbs": ["get"]}])
    rt.bind(api, "default", "plane", "plane", everywhere=True)
    x = world.envoy(rt.token_of(api, "default", "plane"))
    told(x, "view.test", GOOD)
    world.names.known["view.test"] = ["127.0.0.1"]
    told(x, "view.test", lacks=[GOOD, "127.0.0.1"])


def test_our_gateway_looks_names_up_itself(world):
    """It judges the address it connects to, which is better; control's answers are for the others."""
    web = Web()
    world.names.known["ours.test"] = ["127.0.0.1"]
    gateway = world.fabric.start_gateway("--upstream-allow", f"127.0.0.1:{web.port}")
    try:
        world.proxy("ours.test", web.port)
        until(lambda: status_of("ours.connect.test") == 200, what="an answer of the backend")
        assert "ours.test" in world.names.asked
    finally:
        gateway.stop()
        web.close()


def test_envoys_that_look_names_up_can_be_had(binary, names, tmp_path):
    """What --envoy-resolves is for, and what it gives up."""
    w = World(binary, tmp_path, names, "--envoy-resolves")
    try:
        names.known["unchecked.test"] = ["127.0.0.1"]
        x = w.envoy()
        w.proxy("unchecked.test")
        until(lambda: x.read(0.05) and cluster(x, "unchecked.test"), what="the cluster")
        assert b"resolved/tcp" not in cluster(x, "unchecked.test")
        assert b"\x10\x01" in cluster(x, "unchecked.test")  # STRICT_DNS
        assert "unchecked.test" not in names.asked
    finally:
        w.close()
