# SPDX-License-Identifier: Apache-2.0
"""Live names of other namespaces, served by whatever: a device, a tenant's Ingress or Gateway takes none of them."""
import re
import socket
import subprocess
import time

import pytest
import yaml
from harness import rights
from harness.fabric import Fabric
from harness.ports import free_port
from harness.wait import guard, until

CORE, NET = "/api/v1", "/apis/networking.k8s.io/v1"
GATEWAY, PROXIES = "/apis/gateway.networking.k8s.io/v1", "/apis/networking.datumapis.com/v1alpha"
VICTIM, EVIL = "victim.test", "evil.test"


def at(top, ns, *rest):
    return "/".join([top, "namespaces", ns, *rest])


def go_to(host):
    """Rules that answer by themselves: who serves a name is seen without a backend."""
    return [{"filters": [{"type": "RequestRedirect", "requestRedirect": {"hostname": host, "statusCode": 302}}]}]


def proxy(name, hosts, rules=None):
    return {"apiVersion": "networking.datumapis.com/v1alpha", "kind": "HTTPProxy", "metadata": {"name": name},
            "spec": {"hostnames": hosts, "rules": rules or go_to(EVIL)}}


def gateway(name, *listeners):
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": {"name": name}, "spec": {
        "gatewayClassName": "spanwire", "listeners": [
            {"name": f"l{i}", "protocol": "HTTP", "port": port, **({"hostname": host} if host else {})}
            for i, (port, host) in enumerate(listeners)]}}


def route(name, parent, hosts=(), to=VICTIM):
    return {"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": name}, "spec": {
        "parentRefs": [{"name": parent}], "hostnames": list(hosts), "rules": go_to(to)}}


def ingress(name, host, service="missing", path="/"):
    """Without its Service it answers 500: enough to see who serves the path."""
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": name}, "spec": {
        "ingressClassName": "spanwire", "rules": [{"host": host, "http": {"paths": [
            {"path": path, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}}]}}]}}


class World:
    def __init__(self, binary, tmp, *flags):
        self.fabric = Fabric(binary, tmp, "--target-domain", "connect.test", *flags)
        self.api = self.fabric.control
        for ns in ("home", "shop"):
            rights.namespace(self.api, ns)
        self.editor = rights.account(self.api, "home", "editor")
        rights.bind(self.api, "home", "editor", "edit")
        out = subprocess.run([binary, "connector", "role", "--name", "laptop", "--namespace", "home"],
                             capture_output=True, text=True, check=True).stdout
        for o in yaml.safe_load_all(out):
            top = CORE if o["kind"] == "ServiceAccount" else rights.RBAC
            assert self.api.post(at(top, "home", o["kind"].lower() + "s"), o).status in (201, 409)
        self.device = rights.Caller(self.api, rights.token_of(self.api, "home", "laptop"))
        self.make(f"{NET}/ingressclasses", {"apiVersion": "networking.k8s.io/v1", "kind": "IngressClass",
                                            "metadata": {"name": "spanwire"}, "spec": {"controller": "spanwire.dev/ingress"}})
        self.gateway = self.fabric.start_gateway()

    def make(self, path, obj, by=None):
        made = (by or self.api).post(path, obj)
        assert made.status == 201, made

    def ask_for(self, hosts, name="laptop"):
        """The device's HTTPProxy, as the device makes it."""
        done = self.device.patch(at(PROXIES, "home", "httpproxies", name) + "?fieldManager=d&force=true",
                                 proxy(name, hosts), "apply")
        assert done.status in (200, 201), done

    def reasons(self, ns, name):
        status = self.api.get(at(PROXIES, ns, "httpproxies", name)).json.get("status", {})
        return {h["hostname"]: next(c["reason"] for c in h["conditions"] if c["type"] == "Available")
                for h in status.get("hostnameStatuses", [])}

    def is_(self, ns, name, host, reason):
        until(lambda: self.reasons(ns, name).get(host) == reason, 15, lambda: (host, reason, self.reasons(ns, name)))

    def ask(self, host, path="/", port=80):
        """Where it leads, or the status."""
        try:
            s = socket.create_connection(("127.0.0.1", port), timeout=guard(10))
        except OSError:
            return None
        with s:
            s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            data = b""
            while piece := s.recv(65536):
                data += piece
        found = re.search(rb"\r\nlocation: https?://([^/:]+)", data, re.I)
        return found[1].decode() if found else int(data.split()[1]) if data else None

    def serves(self, host, what, path="/", port=80):
        until(lambda: all(self.ask(host, path, port) == what for _ in range(4)), 15,
              lambda: (host, path, port, what, self.ask(host, path, port)))

    def counted(self, metric):
        until(lambda: re.search(rf"^{re.escape(metric)} [1-9]", self.api.get("/metrics").body.decode(), re.M), 15, metric)

    def address(self, name, ns="home"):
        """What the status of an Ingress says."""
        return (self.api.get(at(NET, ns, "ingresses", name)).json.get("status") or {}).get("loadBalancer")

    def event(self, ns, name, reason):
        until(lambda: [e for e in self.api.get(at(CORE, ns, "events")).json["items"]
                       if e["involvedObject"]["name"] == name and e["reason"] == reason], 15, f"an Event {reason}")

    def close(self):
        self.fabric.close()


@pytest.fixture
def world(binary, tmp_path, request):
    w = World(binary, tmp_path, *getattr(request, "param", ()))
    yield w
    w.close()


def test_a_device_takes_no_name_that_others_serve_without_an_httpproxy(world):
    world.make(at(NET, "shop", "ingresses"), ingress("web", "ing.shop.test"))
    world.make(at(GATEWAY, "shop", "gateways"), gateway("g", (80, None), (80, "*.wild.test"), (8099, "bank.shop.test")))
    world.make(at(GATEWAY, "shop", "httproutes"), route("r", "g", ["route.shop.test", "a.wild.test"]))
    world.serves("ing.shop.test", 500)
    world.serves("route.shop.test", VICTIM)
    world.serves("a.wild.test", VICTIM)
    taken = ["ing.shop.test", "route.shop.test", "a.wild.test", "b.wild.test", "bank.shop.test"]
    world.ask_for([*taken, "own.home.test"])
    # A Gateway for all names owns none of them.
    world.is_("home", "laptop", "own.home.test", "Claimed")
    world.serves("own.home.test", EVIL)
    for host in taken:
        world.is_("home", "laptop", host, "InUse")
    world.serves("ing.shop.test", 500)
    world.serves("route.shop.test", VICTIM)
    world.serves("a.wild.test", VICTIM)
    assert world.ask("bank.shop.test", "/.well-known/acme-challenge/x") == 404
    world.counted('spanwire_connector_refusals_total{reason="HostnameInUse"}')
    # Given up, it is free.
    assert world.api.delete(at(NET, "shop", "ingresses", "web")).status == 200
    world.is_("home", "laptop", "ing.shop.test", "Claimed")


def test_what_an_httpproxy_has_claimed_stays_its_own(world):
    port, other = free_port(), free_port()
    world.make(at(PROXIES, "shop", "httpproxies"), proxy("live", ["live.shop.test"], go_to(VICTIM)))
    world.is_("shop", "live", "live.shop.test", "Claimed")
    world.serves("live.shop.test", VICTIM)
    world.make(at(GATEWAY, "home", "gateways"), gateway("g", (port, "live.shop.test"), (other, None)))
    world.make(at(GATEWAY, "home", "httproutes"), route("r", "g", ["live.shop.test", "own.home.test"], EVIL))
    world.make(at(NET, "home", "ingresses"), ingress("i", "live.shop.test", path="/steal"), by=world.editor)
    world.serves("own.home.test", EVIL, port=other)
    assert world.ask("live.shop.test", port=other) == 404
    assert world.ask("live.shop.test", port=port) in (None, 404)
    world.serves("live.shop.test", VICTIM, "/steal")
    listeners = world.api.get(at(GATEWAY, "home", "gateways", "g")).json["status"]["listeners"]
    assert {c["type"]: c["reason"] for c in listeners[0]["conditions"]}["Conflicted"] == "HostnameConflict"
    assert "shop" not in next(c["message"] for c in listeners[0]["conditions"] if c["type"] == "Conflicted").split("'")[0]
    world.event("home", "r", "HostnameInUse")
    world.is_("shop", "live", "live.shop.test", "Claimed")


def test_an_ingress_serves_nothing_under_hosts_of_others(world):
    only_api = [{"matches": [{"path": {"type": "PathPrefix", "value": "/api"}}], **go_to(VICTIM)[0]}]
    world.make(at(PROXIES, "shop", "httpproxies"), proxy("vp", ["proxy.shop.test"], only_api))
    world.make(at(GATEWAY, "shop", "gateways"), gateway("g", (80, None), (80, "*.wild.test")))
    world.make(at(GATEWAY, "shop", "httproutes"), route("r", "g", ["route.shop.test"]))
    world.serves("proxy.shop.test", VICTIM, "/api")
    world.serves("route.shop.test", VICTIM)
    canonical = world.api.get(at(PROXIES, "shop", "httpproxies", "vp")).json["status"]["canonicalHostname"]
    world.serves(canonical, VICTIM, "/api")
    for i, host in enumerate(("proxy.shop.test", "route.shop.test", "www.wild.test", canonical, "own.home.test")):
        world.make(at(NET, "home", "ingresses"), ingress(f"e{i}", host), by=world.editor)
    world.serves("own.home.test", 500)
    for host in ("proxy.shop.test", canonical):
        assert world.ask(host, "/login") == 404
        assert world.ask(host, "/api") == VICTIM
    assert world.ask("www.wild.test") == 404
    assert world.ask("route.shop.test", "/steal") == VICTIM
    world.counted('spanwire_gateway_refusals_total{reason="HostnameInUse"}')
    world.event("home", "e0", "HostnameInUse")
    until(lambda: re.search(r"refused.*subject=ingress/home/e0/host/proxy.shop.test", world.api.log()), 10)


SHARED = pytest.param(("--ingress-shared-hosts",), id="shared")


@pytest.mark.parametrize("world", [pytest.param((), id="apart"), SHARED], indirect=True)
def test_a_host_of_ingresses_is_one_namespaces(world, request):
    world.make(at(NET, "shop", "ingresses"), ingress("a", "one.test", path="/shop"))
    world.serves("one.test", 500, "/shop")
    until(lambda: world.address("a", "shop"), 10)
    world.make(at(NET, "home", "ingresses"), ingress("b", "one.test", path="/home"), by=world.editor)
    world.make(at(NET, "home", "ingresses"), ingress("c", "two.test"), by=world.editor)
    world.serves("two.test", 500)
    assert world.ask("one.test", "/home") == (500 if "shared" in request.node.callspec.id else 404)
    assert world.ask("one.test", "/shop") == 500
    until(lambda: world.address("c"), 10)
    if "shared" in request.node.callspec.id:
        until(lambda: world.address("b"), 10)
    else:
        assert not world.address("b")


# ---- records: who had a name keeps it ----

CLAIMS = "/apis/spanwire.dev/v1alpha1/claims"


def claims(world):
    return {c["spec"]["value"]: (c["spec"]["holder"]["kind"], c["spec"]["holder"]["namespace"])
            for c in world.api.get(CLAIMS).json["items"]}


def stays(check, seconds=1.5):
    """True all the time: long enough for several builds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert check()
        time.sleep(0.1)


def conflict(world, ns, name):
    """Reasons of Conflicted, by hostname."""
    g = world.api.get(at(GATEWAY, ns, "gateways", name)).json
    hosts = {x["name"]: x.get("hostname") for x in g["spec"]["listeners"]}
    return {hosts[x["name"]]: next(((c["status"], c["message"]) for c in x["conditions"] if c["type"] == "Conflicted"), None)
            for x in g.get("status", {}).get("listeners", [])}


def test_an_old_ingress_takes_no_host_from_a_younger(world):
    """Old and served, and changed later: its age says nothing about since when it asks."""
    world.make(at(NET, "home", "ingresses"), ingress("old", "old.home.test"), by=world.editor)
    world.serves("old.home.test", 500)
    until(lambda: world.address("old"), 10)
    time.sleep(1.1)  # ages have seconds
    world.make(at(NET, "shop", "ingresses"), ingress("young", "young.shop.test", path="/shop"))
    world.make(at(NET, "shop", "ingresses"), ingress("also", "young.shop.test", path="/also"))
    world.serves("young.shop.test", 500, "/shop")
    until(lambda: claims(world).get("young.shop.test") == ("Ingress", "shop"), 10, "the claim")
    assert claims(world)["old.home.test"] == ("Ingress", "home")
    steal = ingress("old", "young.shop.test", path="/home")
    steal["spec"]["rules"] += ingress("x", "own.home.test")["spec"]["rules"]
    assert world.editor.patch(at(NET, "home", "ingresses", "old"), {"spec": steal["spec"]}).status == 200
    world.serves("own.home.test", 500)  # it was read
    stays(lambda: world.ask("young.shop.test", "/home") == 404 and world.ask("young.shop.test", "/shop") == 500)
    world.event("home", "old", "HostnameInUse")
    until(lambda: "old.home.test" not in claims(world), 10, "what nobody names any more to be free")
    # Neither a restart nor the end of one of two Ingresses changes the owner.
    world.api.restart(kill=True)
    assert world.api.delete(at(NET, "shop", "ingresses", "young")).status == 200
    world.serves("young.shop.test", 404, "/shop")
    stays(lambda: world.ask("young.shop.test", "/home") == 404 and world.ask("young.shop.test", "/also") == 500)
    assert claims(world)["young.shop.test"] == ("Ingress", "shop")
    assert world.api.delete(at(NET, "shop", "ingresses", "also")).status == 200
    world.serves("young.shop.test", 500, "/home")
    until(lambda: claims(world).get("young.shop.test") == ("Ingress", "home"), 10, "the new owner's claim")


def test_a_later_gateway_takes_no_host_of_an_ingress(world):
    world.make(at(GATEWAY, "home", "gateways"), gateway("early", (80, "b.early.test")))
    world.make(at(GATEWAY, "home", "httproutes"), route("early", "early", to=EVIL))
    world.serves("b.early.test", EVIL)
    for i, host in enumerate(("ing.shop.test", "*.wild.test", "*.early.test")):
        world.make(at(NET, "shop", "ingresses"), ingress(f"i{i}", host))
    world.serves("ing.shop.test", 500)
    world.serves("a.wild.test", 500)
    until(lambda: {"ing.shop.test", "*.wild.test", "*.early.test"} <= set(claims(world)), 10, "claims")
    time.sleep(1.1)  # ages have seconds
    world.make(at(GATEWAY, "home", "gateways"), gateway("g", (80, "ing.shop.test"), (80, "a.wild.test"), (80, None)))
    world.make(at(GATEWAY, "home", "httproutes"), route("r", "g", to=EVIL))
    world.make(at(GATEWAY, "home", "httproutes"), route("names", "g", ["ing.shop.test", "b.wild.test", "own.home.test"], EVIL))
    world.serves("own.home.test", EVIL)
    for host in ("ing.shop.test", "a.wild.test"):
        until(lambda h=host: (conflict(world, "home", "g").get(h) or ("",))[0] == "True", 10, host)
        assert "an Ingress of another namespace" in conflict(world, "home", "g")[host][1]
    for host in ("ing.shop.test", "a.wild.test", "b.wild.test"):
        world.serves(host, 500)
    # Who had a name below a wildcard before keeps it, also when its listener changes.
    world.serves("b.early.test", EVIL)
    port = free_port()
    assert world.api.patch(at(GATEWAY, "home", "gateways", "early"), {"spec": gateway("early", (port, "b.early.test"))["spec"]}
                           ).status == 200
    world.serves("b.early.test", EVIL, port=port)
    # Given up, it is free.
    assert world.api.delete(at(NET, "shop", "ingresses", "i0")).status == 200
    world.serves("ing.shop.test", EVIL)


def test_a_more_specific_listener_takes_no_name_that_a_route_serves(world):
    """Listeners with a name beat wider ones on their socket, whosever those are."""
    port = free_port()
    world.make(at(GATEWAY, "home", "gateways"), gateway("early", (port, "b.early.test")))
    world.make(at(GATEWAY, "home", "httproutes"), route("early", "early", to=EVIL))
    world.serves("b.early.test", EVIL, port=port)
    world.make(at(GATEWAY, "shop", "gateways"), gateway("g", (port, None), (port, "*.wild.test"), (port, "*.early.test")))
    world.make(at(GATEWAY, "shop", "httproutes"), route("r", "g", ["a.cat.test", "x.wild.test", "*.cover.test", "c.early.test"]))
    world.serves("a.cat.test", VICTIM, port=port)
    world.serves("x.wild.test", VICTIM, port=port)
    until(lambda: "True" in str([c["status"] for p in world.api.get(at(GATEWAY, "shop", "httproutes", "r")).json["status"]["parents"]
                                 for c in p["conditions"] if c["type"] == "Accepted"]), 10)
    taken = ["a.cat.test", "*.cat.test", "x.wild.test", "y.cover.test", "c.early.test"]
    free = ["own.home.test", "z.wild.test", "b.cat2.test"]  # a wildcard holds what is served below it, and no more
    world.make(at(GATEWAY, "home", "gateways"), gateway("g", *((port, host) for host in taken + free)))
    world.make(at(GATEWAY, "home", "httproutes"), route("r", "g", to=EVIL))
    for host in free:
        world.serves(host, EVIL, port=port)
    for host in taken:
        until(lambda h=host: (conflict(world, "home", "g").get(h) or ("",))[0] == "True", 10, host)
        assert "another namespace" in conflict(world, "home", "g")[host][1]
        stays(lambda h=host: world.ask(h.replace("*", "a"), port=port) == VICTIM, 0.4)
    world.serves("b.early.test", EVIL, port=port)  # had before the wildcard above it came
    # A change of the route that serves the name lets nobody in who waits for it.
    assert world.api.patch(at(GATEWAY, "shop", "httproutes", "r"), {"spec": {"rules": go_to("changed.test")}}).status == 200
    world.serves("a.cat.test", "changed.test", port=port)
    stays(lambda: world.ask("a.cat.test", port=port) == "changed.test")
    assert world.api.delete(at(GATEWAY, "shop", "httproutes", "r")).status == 200
    world.serves("a.cat.test", EVIL, port=port)


def test_a_device_gets_no_name_of_the_fabric(world):
    world.make(at(PROXIES, "shop", "httpproxies"), proxy("v", [], go_to(VICTIM)))
    until(lambda: world.reasons("shop", "v"), 10)
    canonical = next(iter(world.reasons("shop", "v")))
    taken = ["connect.test", "relay.connect.test", "ns1.connect.test", "x.relay.connect.test", f"www.{canonical}"]
    world.ask_for([*taken, "laptop.connect.test"])
    world.is_("home", "laptop", "laptop.connect.test", "Claimed")
    for host in taken:
        world.is_("home", "laptop", host, "InUse")
    own = next(h for h in world.reasons("home", "laptop") if re.fullmatch(r"\w+-\w+-\w{5}\.connect\.test", h))
    world.ask_for([f"www.{own}"])
    world.is_("home", "laptop", f"www.{own}", "Claimed")
    until(lambda: {(s["metadata"].get("annotations") or {}).get("spanwire.dev/certificate-for")
                   for s in world.api.get(at(CORE, "home", "secrets")).json["items"]} >= {own, f"www.{own}"}, 15)
    for s in world.api.get(at(CORE, "home", "secrets")).json["items"]:
        assert (s["metadata"].get("annotations") or {}).get("spanwire.dev/certificate-for") not in taken


def test_names_of_one_namespace_are_its_own_affair(world):
    """What serves a name in one's own namespace is in nobody's way."""
    world.make(at(GATEWAY, "home", "gateways"), gateway("g", (80, None), (80, "*.home.test")))
    world.make(at(GATEWAY, "home", "httproutes"), route("r", "g", ["a.home.test"]))
    world.make(at(NET, "home", "ingresses"), ingress("i", "b.home.test"), by=world.editor)
    world.serves("a.home.test", VICTIM)
    world.serves("b.home.test", 500)
    world.ask_for(["a.home.test", "c.home.test"])
    world.is_("home", "laptop", "a.home.test", "Claimed")
    world.is_("home", "laptop", "c.home.test", "Claimed")
    world.serves("c.home.test", EVIL)
