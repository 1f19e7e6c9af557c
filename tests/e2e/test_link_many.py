# SPDX-License-Identifier: Apache-2.0
"""As many Imports as a namespace may have of a site's target ports, and more: a real control plane, a real data plane, a
real peer."""
import concurrent.futures
import contextlib
import json
import os
import time

import pytest
from harness.control import cpu_s
from harness.link_control import API
from harness.sites import World
from harness.wait import SANITIZED, until
from test_link import echo
from test_link_sites import answers

MANY = int(os.environ.get("SPANWIRE_LINK_MANY", 300))
FIRST, END = 20000, 20000 + 2 * MANY  # of which one namespace gets half
IMPORTS = f"{API}/namespaces/default/imports"
SERVICES = "/api/v1/namespaces/default/services?labelSelector=clusterlink.net/import-name"
PATIENCE = 240  # seconds for a step of all Imports, on a machine that has other work
MOST_MIB = {"control": 60 + MANY * 0.06, "link": 20 + MANY * 0.01}  # more than an idle site has


@pytest.fixture
def world(topology, binary, tmp_path):
    del topology  # what it makes is not wanted, but its /run is
    w = World(binary, tmp_path)
    yield w
    w.close()


def imported(i, **spec):
    return {"apiVersion": "clusterlink.net/v1alpha1", "kind": "Import", "metadata": {"name": f"i{i}"}, "spec": {
        "port": 80, "sources": [{"peer": "siteb", "exportName": "web", "exportNamespace": "default"}], **spec}}


def post_all(control, objects):
    """Over kept connections: a handshake for each would be most of the work."""
    def post(mine):
        with contextlib.closing(control.connection()) as c:
            for o in mine:
                c.request("POST", IMPORTS, json.dumps(o), {"Content-Type": "application/json"})
                r = c.getresponse()
                said = r.read()
                assert r.status == 201, said
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        list(pool.map(post, (objects[k::4] for k in range(4))))


def states(site):
    """{name: (target port, {condition: (status, message)})} of all Imports."""
    return {o["metadata"]["name"]: (o["spec"].get("targetPort"), {
        c["type"]: (c["status"], c["message"]) for c in o.get("status", {}).get("conditions", ())})
        for o in site.control.get(IMPORTS).json["items"]}


def listening(site):
    """Target ports that the data plane listens on."""
    lines = site.ns.run("ss", "-ltnH", f"sport >= :{FIRST} and sport < :{END}").splitlines()
    return {int(line.split()[3].rpartition(":")[2]) for line in lines}


def rss_mib(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
        lines = [line.partition(":") for line in f]
    return {k: int(v.split()[0]) // 1024 for k, _, v in lines if k in ("VmRSS", "VmHWM")}


class Clock:
    """Prints what a step took: seconds of the wall, and of both processes."""

    def __init__(self, site):
        self.site = site
        self.at = self.now()

    def now(self):
        return time.monotonic(), cpu_s(self.site.control.pid), cpu_s(self.site.link.pid)

    def step(self, what):
        before, self.at = self.at, self.now()
        wall, control, link = (b - a for a, b in zip(before, self.at))
        print(f"{what}: {wall:.1f} s; processor: control {control:.1f} s, data plane {link:.1f} s; memory: control "
              f"{rss_mib(self.site.control)}, data plane {rss_mib(self.site.link)}")


def test_as_many_imports_as_a_namespace_may_have(world):
    """
    All get a lease, conditions and a listener; those that cannot have one say why and disturb none; what is left is for
    other namespaces; deleting them gives memory, ports and listeners back.
    """
    a = world.site("sitea", start=False, flags=("--link-ports", f"{FIRST}-{END - 1}", "--relaxed-sync"))
    a.start(workers=1)  # a listener each; the descriptors of a test are limited
    b = world.site("siteb")
    for s in (a, b):
        s.policy("all")
    a.peer(b)
    b.export("web", b.serve(echo))
    idle, clock = {p: rss_mib(p)["VmRSS"] for p in (a.control, a.link)}, Clock(a)
    bad = {"outside": imported("-outside", targetPort=END), "own": imported("-own", targetPort=4443)}
    post_all(a.control, [*bad.values(), *(imported(i) for i in range(MANY))])
    clock.step(f"{MANY} Imports created")

    def settled():
        found = states(a)
        return all(port and len(c) == 2 and all(s == "True" for s, _ in c.values())
                   for name, (port, c) in found.items() if not name.startswith("i-")) and found
    found = until(settled, PATIENCE, "conditions of all Imports", interval=0.5)
    clock.step("all conditions")
    until(lambda: len(listening(a)) == MANY, PATIENCE, "all listeners", interval=0.5)
    clock.step("all listen")
    good = {name: port for name, (port, _) in found.items() if not name.startswith("i-")}
    assert len(set(good.values())) == MANY
    for name in bad:
        port, conditions = found[f"i-{name}"]
        assert conditions["ImportTargetPortValid"][0] == "False", (port, conditions)
    until(lambda: answers(a, good[f"i{MANY - 1}"]), what="the last Import")
    assert answers(a, good["i0"])
    # One more is refused with the reason, and one of another namespace is not.
    post_all(a.control, [imported("-late")])
    until(lambda: states(a)["i-late"][1].get("ImportTargetPortValid") == (
        "False", f"Namespace 'default' has {MANY} target ports, its share of {2 * MANY}."), what="the refusal", interval=0.5)
    assert a.control.post("/api/v1/namespaces", {"metadata": {"name": "other"}}).status == 201
    assert a.control.post(IMPORTS.replace("default", "other"), imported("-other")).status == 201
    until(lambda: "targetPort" in a.control.get(IMPORTS.replace("default", "other")).json["items"][0]["spec"],
          what="the port of another namespace")
    assert a.control.delete(f"{IMPORTS.replace('default', 'other')}/i-other").status == 200
    clock.step("one more refused")
    for process, what in ((a.control, "control"), (a.link, "link")):
        grown = rss_mib(process)["VmHWM"] - idle[process]
        print(f"{what}: {grown} MiB more than idle, at most {MOST_MIB[what]:.0f}")
        assert SANITIZED or grown < MOST_MIB[what], what
    assert len(a.control.get(SERVICES).json["items"]) == MANY
    assert a.control.delete(IMPORTS, timeout=PATIENCE).status == 200
    until(lambda: not listening(a), PATIENCE, "no listener", interval=0.5)
    assert refused_to_connect(a, good["i0"])
    until(lambda: not a.control.get(SERVICES).json["items"], PATIENCE, "no Service", interval=0.5)
    clock.step("deleted")
    post_all(a.control, [imported("-next")])
    until(lambda: answers(a, a.imported_port("i-next")), what="a port again")
    clock.step("in use again")


def refused_to_connect(site, port):
    with pytest.raises(ConnectionRefusedError):
        site.dial(port)
    return True
