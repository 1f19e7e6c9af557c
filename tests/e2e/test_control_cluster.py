# SPDX-License-Identifier: Apache-2.0
"""
Controllers on a cluster elsewhere ('control --kubeconfig'): another 'spanwire control' is the cluster. Two replicas
serve xDS, one of them writes; when it dies the other one does.
"""
import http.client
import json
import re
import subprocess
import time
import urllib.request

import pytest
from harness import fabric as fb
from harness import gateway as gw
from harness.control import _Here
from harness.node import _SANITIZER, Process
from harness.wait import GUARD, SLOW, until

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/spanwire-gateway"


class Replica(Process):
    def __init__(self, binary, where, name, kubeconfig, *flags, addresses="127.0.0.1=127.0.0.1"):
        self.name, self.data = name, where / name
        self.xds_port, self.admin_port = gw.free_port(), gw.free_port()
        where.mkdir(parents=True, exist_ok=True)
        flags = (*(("--gateway-addresses", addresses) if addresses else ()), *flags)
        super().__init__(_Here(), [
            binary, "control", "--kubeconfig", str(kubeconfig), "--data", str(self.data), "--xds-listen",
            f"127.0.0.1:{self.xds_port}", "--admin-addr", f"127.0.0.1:{self.admin_port}", "--lease-namespace",
            "kube-system", "--identity", name, "--gateway-port-offset", "0", "--connector", "false", *flags], where / f"{name}.log")
        until(self.ready, GUARD, f"{name} to be ready")
        # What Fabric's gateways want to know of their control plane.
        self.ca = self.data / "xds-ca/root.crt"

    def ready(self):
        assert self.alive, self.log()[-3000:]
        return re.search(r"control\s+ready", self.log())

    def page(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=GUARD * SLOW) as answer:
            return answer.read().decode()

    def status(self):
        return json.loads(self.page("/debug/xds"))

    def leads(self):
        return self.alive and self.status()["controllers"]["gateway"]["leading"]

    def stop(self):
        if self.alive:
            self.signal(15)
            assert self.wait(GUARD) == 0, self.log()[-3000:]
        found = _SANITIZER.search(self.log())
        assert not found, self.log()[found.start():][:4000]


class World:
    def __init__(self, binary, tmp):
        self.binary, self.tmp = binary, tmp
        self.fabric = f = fb.Fabric(binary, tmp, "--gateway", "false", "--connector", "false")
        self.origin = gw.Origin()
        self.replicas = [Replica(binary, tmp, name, f.control.kubeconfig) for name in ("one", "two")]
        self.gateways = []
        for r in self.replicas:
            r.token = f.token
            # Their --xds-addr differ: that both may have the port has to be said.
            self.gateways.append(fb.XdsGateway(binary, tmp, r, "--port-group", "cluster"))
        self.port = gw.free_port()
        f.service("web", [self.origin.port])
        f.gateway_object("edge", [("http", "HTTP", self.port)])

    def leader(self):
        leading = [r for r in self.replicas if r.leads()]
        # The first one may have lost it between the two answers, but not have had it before and after the second's.
        assert len(leading) <= 1 or not leading[0].leads(), [r.name for r in leading]
        return leading[0] if len(leading) == 1 else None

    def lease(self, **change):
        """The lease's spec, after a change of it if one is given."""
        status, data = self.fabric.send("PATCH" if change else "GET", LEASE, {"spec": change} if change else None,
                                        "application/merge-patch+json")
        assert status == 200, data
        return json.loads(data)["spec"]

    def route(self, name):
        self.fabric.apply(fb.route(name, "edge", [fb.prefix(f"/{name}", fb.to("web"))]))

    def accepted(self, name):
        parents = self.fabric.get("HTTPRoute", name).get("status", {}).get("parents", [])
        return parents and all(c["status"] == "True" for c in parents[0]["conditions"])

    def serves(self, gateway, name):
        """Both listen on the same port: what this one knows is on its admin page."""
        return f"/{name}" in gateway.page("/config_dump")

    def ask(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=GUARD * SLOW)
        c.request("GET", path)
        answer = c.getresponse()
        answer.read()
        c.close()
        return answer.status

    def new_token(self, account):
        _, data = self.fabric.send("POST", fb.path_of("ServiceAccount", account) + "/token", {
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}})
        return json.loads(data)["status"]["token"]

    def lint(self, token, patience="60s"):
        """A client that asks the first replica, again and again when it is refused, until its patience is over."""
        flags, r = [], self.replicas[0]
        if token:
            path = self.tmp / "token"
            path.write_text(token, encoding="ascii")
            flags = ["--token-file", str(path)]
        return subprocess.run([self.binary, "xds", "lint", "--server", f"127.0.0.1:{r.xds_port}", "--ca", str(r.ca),
                               "--timeout", patience, *flags], capture_output=True, text=True, check=False,
                              timeout=90 * SLOW)

    def close(self):
        for g in self.gateways:
            g.stop()
        for r in self.replicas:
            r.stop()
        self.fabric.close()
        self.origin.close()


@pytest.fixture(scope="module", name="w")
def _w(binary, tmp_path_factory):
    world = World(binary, tmp_path_factory.mktemp("cluster"))
    yield world
    world.close()


def test_one_leads_and_both_serve(w):
    first = until(w.leader, GUARD, "a leader")
    w.fabric.programmed("edge")
    w.route("a")
    until(lambda: w.accepted("a"), GUARD, "the route's status")
    for g in w.gateways:
        until(lambda g=g: w.serves(g, "a"), GUARD, "the route everywhere")
    until(lambda: w.ask("/a") == 200, GUARD, "the route of each worker")
    other = next(r for r in w.replicas if r is not first)
    wrote, lease = other.status()["controllers"]["gateway"]["writes"], w.lease()
    if lease["leaseTransitions"] == 0:  # nobody was held up for so long that the other one had to lead
        assert wrote == 0 and lease["holderIdentity"] == first.name


def test_pages(w):
    for r in w.replicas:
        until(lambda r=r: [c for c in r.status()["clients"] if c["node"] == "edge" and c["acks"]], GUARD, "an answer")
        assert "spanwire_" in r.page("/metrics")
        assert r.page("/ready")


def test_tokens_are_the_clusters(w):
    """Nobody without a token, with one that is made up, or whose owner has no right to it."""
    w.fabric.apply(fb.thing("ServiceAccount", "stranger"))
    tokens = {"no bearer token": None, "not authenticated": "abc.def.ghi", "may not get /xds": w.new_token("stranger")}
    for why, token in tokens.items():
        done = w.lint(token, "5s")
        assert done.returncode != 0, done.stdout[:500]
        assert why in done.stderr


def test_a_new_token_waits_for_its_review(w):
    """The first to come with a token is served at once, not sent away until it is known."""
    for _ in range(3):
        done = w.lint(w.new_token("edge"))
        assert done.returncode == 0, done.stderr
    log = w.replicas[0].log()
    assert "being reviewed" not in log


def test_the_other_one_takes_over(w):
    first = until(w.leader, GUARD, "a leader")
    other = next(r for r in w.replicas if r is not first)
    first.kill()
    w.lease(leaseDurationSeconds=3600)  # nobody leads until we say so
    w.route("b")
    # The survivor serves, leader or not; the status is the leader's.
    survivor = w.gateways[w.replicas.index(other)]
    until(lambda: w.serves(survivor, "b"), GUARD, "the route where the survivor serves")
    if w.lease()["holderIdentity"] == first.name:
        assert not other.leads() and not w.accepted("b")
    w.lease(leaseDurationSeconds=1)
    until(other.leads, 2 * GUARD, "the other to lead")
    until(lambda: w.accepted("b"), GUARD, "the route's status")
    # The dead one's data plane goes on with what it knows, and finds a new process in its place.
    assert w.serves(w.gateways[w.replicas.index(first)], "a")
    transitions = w.lease()["leaseTransitions"]
    w.replicas.append(Replica(w.binary, w.tmp, "three", w.fabric.control.kubeconfig))
    leader = until(w.leader, GUARD, "a leader")
    assert leader is other or w.lease()["leaseTransitions"] > transitions


def test_a_leader_that_ends_in_good_order_gives_the_lease_back(w):
    leader = until(w.leader, GUARD, "a leader")
    leader.stop()
    assert w.lease()["holderIdentity"] != leader.name
    until(w.leader, GUARD, "the next leader")


def test_two_that_do_not_know_of_each_other(binary, tmp_path):
    """An embedded API's own controller and one from elsewhere that wants another address: a dispute, not a storm."""
    f = fb.Fabric(binary, tmp_path, "--connector", "false")
    other = None
    try:
        f.start_gateway()
        f.gateway_object("edge", [("http", "HTTP", gw.free_port())])
        f.programmed("edge")
        start, before = time.monotonic(), int(f.get("Gateway", "edge")["metadata"]["resourceVersion"])
        other = Replica(binary, tmp_path, "other", f.control.kubeconfig, addresses="127.0.0.2=127.0.0.2")
        # Whoever has used up its share first sets the pace of both: the other one may stay within its own.
        until(lambda: any("write rate limit reached" in p.log() for p in (other, f.control)), GUARD, "a line about it")
        time.sleep(3)  # for a storm to grow
        after = int(f.get("Gateway", "edge")["metadata"]["resourceVersion"])
        # Twenty at once and two in a second, on both sides; leases and other objects are written too.
        assert after - before <= 100 + 8 * (time.monotonic() - start)
        told = (other.status(), f.control.get("/debug/xds").json)
        assert any(one["controllers"]["gateway"]["heldBack"] for one in told), told
    finally:
        if other:
            other.stop()
        f.close()


@pytest.mark.parametrize("flags,why", [
    (["--kubeconfig", "/nowhere/at/all"], "nowhere"),
    (["--in-cluster", "true"], "cluster"),
    ([], "--data"),
])
def test_what_is_missing_is_said(binary, flags, why):
    done = subprocess.run([binary, "control", *flags], capture_output=True, text=True, check=False,
                          timeout=GUARD * SLOW, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode != 0 and why in done.stderr, done.stderr
