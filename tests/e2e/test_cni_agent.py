# SPDX-License-Identifier: Apache-2.0
"""The CNI plugin called as a runtime calls it, the node agent, the node proxy and an embedded API together."""
import contextlib
import filecmp
import json
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import threading
import time

import pytest
from harness import netns, traffic, zds
from harness.cni import MODE, Rig
from harness.ports import free_port
from harness.wait import until

PORT = 8080


@pytest.fixture
def rig(mesh, binary, tmp_path):
    r = Rig(mesh, binary, tmp_path)
    yield r
    r.close()


def pods_of(node):
    return {p["info"]["name"]: p["state"] for p in node.config_dump()["workloadState"].values()}


def talks_mtls(rig, box, node, to):
    """A connection from the pod that both sides log with identities."""
    seen = len(node.access())
    rig.mesh.roundtrip(box, to)
    line = until(lambda: [x for x in node.access()[seen:] if x.get("direction") == "outbound"],
                 what="the access log")[-1]
    assert line["src.identity"] == f"spiffe://cluster.local/ns/{box.ns}/sa/{box.name}", line
    assert line["dst.identity"] == to.identity


def told(rig, box, why):
    """The pod's events say what its start waits for."""
    until(lambda: any(r == "WaitingForMesh" and why in m for r, m in rig.events(box)), what=f"the event: {why}")


def logged_by_status(rig):
    """
    What STATUS says on standard error. It succeeds: kubelets take a failure for a node without a network, and start neither
    the agent nor the node proxy there.
    """
    p = rig.call("STATUS", version="1.1.0", wait=False)
    out, err = p.communicate(timeout=60)
    assert (p.returncode, out) == (0, ""), (out, err)
    return err


# -- a pod's life ---------------------------------------------------------------------------------

def test_a_new_pod_is_in_the_mesh_when_add_returns(rig):
    rig.start()
    node = rig.proxy()
    rig.mesh.shared("node2")
    rig.mesh.echo(rig.mesh.s2)
    rig.installed()
    box = rig.pod("a1", 61)
    out = rig.add(box)
    assert out == {"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": box.path}],
                   "ips": [{"address": f"{box.ip4}/24", "interface": 0}]}
    assert box.rules() and pods_of(node) == {"a1": "Up"}
    talks_mtls(rig, box, node, rig.mesh.s2)
    rig.enabled(box)
    assert rig.call("CHECK", box) == (0, None)
    assert rig.call("STATUS") == (0, None)
    # two pods of the node, both by the plugin
    other = rig.pod("a2", 62)
    rig.add(other)
    rig.mesh.echo(other)
    rig.mesh.roundtrip(box, other)
    # the end: at once by DEL, for good by the API
    assert rig.call("DEL", other) == (0, None)
    until(lambda: pods_of(node) == {"a1": "Up"}, what="a2 to be given up")
    assert rig.call("DEL", other) == (0, None)
    assert rig.api.delete(box.path_api + "?gracePeriodSeconds=0").status in (200, 202)
    until(lambda: pods_of(node) == {}, what="a1 to be given up")


def test_a_pod_without_the_label_is_left_alone(rig):
    rig.start()
    rig.namespace("plain")
    box = rig.pod("a1", 61, namespace="plain")
    out_of = rig.pod("a2", 62, labels={MODE: "none"})
    by_label = rig.pod("a3", 63, namespace="plain", labels={MODE: "ambient"})
    for p in (box, out_of):
        rig.add(p)  # no node proxy is needed
        assert p.untouched()
        assert rig.call("CHECK", p) == (0, None)
    rig.proxy()
    rig.add(by_label)
    assert by_label.rules()


class Behind(traffic.HandlerServer):
    """The API without TLS: its watch of a kind stands still, or its lists of the kind get no answer, when told to."""

    def __init__(self, rig, kind="namespaces"):
        self.kind = kind.encode()
        self.api, self.still, self.silent = rig.api, threading.Event(), threading.Event()
        self.context = rig.api.context()
        super().__init__(rig.mesh.topo.fabric, ("127.0.0.1", free_port()), self._pass)
        self.kubeconfig = rig.dir / "behind.kubeconfig"
        self.kubeconfig.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}], "users": [{"name": "c", "user": {}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{self.addr[1]}"}}]}))

    def _pass(self, sock, _peer):
        sock.settimeout(None)
        raw = socket.create_connection(("127.0.0.1", self.api.port))
        watch = threading.Event()
        with self.context.wrap_socket(raw, server_hostname="127.0.0.1") as up:
            def back():
                with contextlib.suppress(OSError):
                    while data := up.recv(1 << 16):
                        while watch.is_set() and self.still.is_set() and not self.stopping:
                            time.sleep(0.01)
                        sock.sendall(data)
                    sock.shutdown(socket.SHUT_RDWR)
            thread = threading.Thread(target=back, daemon=True)
            thread.start()
            with contextlib.suppress(OSError):
                while data := sock.recv(1 << 16):
                    get = re.search(rb"GET /api/v1/(namespaces/[^/?]*/)?" + self.kind + rb"\?", data)
                    if get and b"watch=" in data:
                        watch.set()
                    elif get and self.silent.is_set():
                        sock.shutdown(socket.SHUT_RDWR)
                        break
                    up.sendall(data)
                up.shutdown(socket.SHUT_RDWR)
            thread.join()


def start_behind(rig, *flags, kind="namespaces"):
    """An agent that has the API through a Behind."""
    behind = rig.mesh.keep(Behind(rig, kind))
    good, rig.api.kubeconfig = rig.api.kubeconfig, behind.kubeconfig
    rig.start(*flags)
    rig.api.kubeconfig = good
    return behind


def test_a_namespace_that_was_labelled_just_now(rig):
    """The agent's watch is behind: a pod of the namespace does not start in the clear, it waits."""
    behind = start_behind(rig, "--wait", "1s")
    rig.proxy()
    rig.namespace("late")
    rig.namespace("plain")
    rig.add(rig.pod("a0", 60, namespace="late"))
    behind.still.set()
    rig.label("/api/v1/namespaces/late", {MODE: "ambient"})
    box, other = rig.pod("a1", 61, namespace="late"), rig.pod("a2", 62, namespace="plain")
    rig.add(other)
    assert other.untouched()
    status, out = rig.call("ADD", box, timeout="3s")
    assert status != 0 and "has not seen the labels of the pod's namespace" in out["msg"], out
    told(rig, box, "has not seen the labels of the pod's namespace")
    waiting = rig.call("ADD", box, wait=False)
    behind.still.clear()
    assert rig.result(waiting)[0] == 0
    assert box.rules()


def test_a_namespace_that_the_api_does_not_tell_of(rig):
    """It may be in the mesh since the agent's watch was last heard: its pod waits until the API answers."""
    behind = start_behind(rig, "--wait", "2s")
    rig.proxy()
    rig.namespace("plain")
    behind.silent.set()
    box = rig.pod("a1", 61, namespace="plain")
    status, out = rig.call("ADD", box, timeout="4s")
    assert status != 0 and "the API does not say whether the pod's namespace is in the mesh" in out["msg"], out
    told(rig, box, "the API does not say whether the pod's namespace is in the mesh")
    waiting = rig.call("ADD", box, wait=False)
    behind.silent.clear()
    assert rig.result(waiting)[0] == 0
    assert box.untouched()


def seen(rig, box, status=0):
    """Waits until the agent has the pod from the API, and answers CHECK so."""
    until(lambda: rig.call("CHECK", box)[0] == status, what=f"the agent to see {box.name}")


def test_a_pod_whose_own_label_changed_just_now(rig):
    """The agent's watch of pods is behind: what it says of a pod's own labels lets no pod start in the clear."""
    behind = start_behind(rig, "--wait", "1s", kind="pods")
    rig.proxy()
    box, other = rig.pod("a1", 61, labels={MODE: "none"}), rig.pod("a2", 62, labels={MODE: "none"})
    seen(rig, box)
    seen(rig, other)
    behind.still.set()
    rig.label(box.path_api, {MODE: None})
    status, out = rig.call("ADD", box, timeout="3s")
    assert status != 0 and "has not seen the labels of the pod yet" in out["msg"], out
    told(rig, box, "has not seen the labels of the pod yet")
    rig.add(other)
    assert other.untouched()
    waiting = rig.call("ADD", box, wait=False)
    behind.still.clear()
    assert rig.result(waiting)[0] == 0
    assert box.rules()


def test_a_pod_that_the_api_does_not_tell_of(rig):
    """Its labels may have changed while the API was away: it waits. Excluded namespaces do not."""
    behind = start_behind(rig, "--wait", "2s", kind="pods")
    rig.proxy()
    rig.namespace("kube-system")
    box, system = rig.pod("a1", 61, labels={MODE: "none"}), rig.pod("a2", 62, namespace="kube-system")
    seen(rig, box)
    behind.silent.set()
    status, out = rig.call("ADD", box, timeout="4s")
    assert status != 0 and "the API does not say whether the pod is in the mesh" in out["msg"], out
    told(rig, box, "the API does not say whether the pod is in the mesh")
    rig.add(system, excludeNamespaces=["kube-system"])
    rig.add(system, excludeNamespaces=[])  # the agent knows, too
    assert system.untouched()
    waiting = rig.call("ADD", box, wait=False)
    behind.silent.clear()
    assert rig.result(waiting)[0] == 0
    assert box.untouched()


def test_a_namespace_that_is_gone_before_its_pods(rig):
    """The agent's watch of pods is behind: a pod that may still run does not lose its rules."""
    behind = start_behind(rig, kind="pods")
    node = rig.proxy()
    rig.namespace("short", {MODE: "ambient"})
    box = rig.pod("a1", 61, namespace="short")
    rig.add(box)
    behind.still.set()
    assert rig.api.delete(box.path_api + "?gracePeriodSeconds=0").status in (200, 202)
    assert rig.api.delete("/api/v1/namespaces/short").status in (200, 202)
    until(lambda: "the API does not show the pod's namespace" in (rig.call("CHECK", box)[1] or {}).get("msg", ""),
          what="the agent to see that the namespace is gone")
    time.sleep(0.5)
    assert box.rules() and pods_of(node) == {"a1": "Up"}
    behind.still.clear()
    until(lambda: pods_of(node) == {}, what="a1 to be given up")


def test_an_excluded_pod_starts_while_the_api_is_away(rig):
    """Before the agent has read the API at all, with a configuration that does not name the namespace."""
    rig.api.close()
    rig.start("--pod-namespace", "spanwire-system", wait=False)
    until(rig.answers, what="the agent's socket")
    for i, ns in enumerate(("kube-system", "spanwire-system")):
        box = rig.sandbox(f"a{i}", 61 + i, ns)
        rig.add(box, excludeNamespaces=[], timeout="5s")
        assert box.untouched()


def test_a_pod_made_anew_by_a_runtime_that_gives_no_uid(rig):
    """The agent's watch still has the pod before: the new one does not get its identity."""
    behind = start_behind(rig, "--wait", "1s", kind="pods")
    node = rig.proxy()
    box = rig.pod("a1", 61)
    seen(rig, box, status=1)
    behind.still.set()
    assert rig.api.delete(box.path_api + "?gracePeriodSeconds=0").status in (200, 202)
    rig.create(rig.manifest(box) | {"spec": {"nodeName": rig.node.name, "serviceAccountName": "other",
                                             "containers": [{"name": "app", "image": "app"}]}})
    box.uid = ""
    status, out = rig.call("ADD", box, timeout="3s")
    assert status != 0 and "the API shows another pod of this name" in out["msg"], out
    assert pods_of(node) == {}
    waiting = rig.call("ADD", box, wait=False)
    behind.still.clear()
    assert rig.result(waiting)[0] == 0
    assert [p["info"]["serviceAccount"] for p in node.config_dump()["workloadState"].values()] == ["other"]


def test_static_pods_have_another_uid_in_the_runtime(rig):
    """The API shows a mirror, with a uid of its own; that of the file is in its annotation."""
    rig.start()
    node = rig.proxy()
    rig.namespace("plain")
    uid = "8d19c3b8fcd8f5a7c8d1a0a9a0a1d2e3"
    for box in (rig.pod("a1", 61), rig.pod("a2", 62, namespace="plain")):
        assert rig.api.patch(box.path_api, {"metadata": {"annotations": {"kubernetes.io/config.mirror": uid}}}).status == 200
        box.uid = uid
        assert rig.call("ADD", box, timeout="3s")[0] == 0
        assert rig.call("CHECK", box)[0] == 0
        assert bool(box.rules()) == (box.name == "a1")
    assert pods_of(node) == {"a1": "Up"}


def test_static_pods_that_run_already_are_found_by_their_processes(rig):
    """Their cgroups have the uid of the file, which is a digest without dashes."""
    rig.start()
    node = rig.proxy()
    rig.namespace("late")
    box = rig.pod("a1", 61, namespace="late", ready=True)
    uid = "8d19c3b8fcd8f5a7c8d1a0a9a0a1d2e3"
    assert rig.api.patch(box.path_api, {"metadata": {"annotations": {"kubernetes.io/config.mirror": uid}}}).status == 200
    box.uid = uid
    rig.show_process(box)
    rig.label("/api/v1/namespaces/late", {MODE: "ambient"})
    rig.enabled(box)
    assert pods_of(node) == {"a1": "Up"} and box.rules()


def test_add_waits_for_the_node_proxy_with_the_reason_in_the_events(rig):
    rig.start()
    box = rig.pod("a1", 61)
    waiting = rig.call("ADD", box, wait=False)
    until(lambda: any("node proxy is not connected" in m for _, m in rig.events(box)), what="the reason")
    until(lambda: rig.annotation(box) == "pending", what="pending")
    assert waiting.poll() is None and box.rules(), "it waits, redirected"
    assert "the node proxy is not connected" in logged_by_status(rig)
    node = rig.proxy(wait=False)
    assert rig.result(waiting)[0] == 0
    node.wait_ready()
    rig.enabled(box)


def test_add_without_an_agent_fails_in_time_and_succeeds_when_it_comes(rig):
    box = rig.pod("a1", 61)
    status, out = rig.call("ADD", box, timeout="300ms")
    assert status == 1 and out["code"] == 11 and str(rig.plugin_sock) in out["msg"]
    assert out["cniVersion"] == "1.0.0"
    waiting = rig.call("ADD", box, wait=False)
    rig.start()
    rig.proxy()
    assert rig.result(waiting)[0] == 0
    assert rig.call("DEL", box, timeout="300ms")[0] == 0


def test_add_fails_with_the_reason_when_time_is_over(rig):
    rig.start("--wait", "300ms")
    box = rig.pod("a1", 61)
    status, out = rig.call("ADD", box, timeout="1s")
    assert status == 1 and out["code"] == 11 and "node proxy is not connected" in out["msg"], out


def test_a_pod_the_api_does_not_show_waits(rig):
    rig.start("--wait", "300ms")
    box = rig.pod("a1", 61)
    box.name, name = "ghost", box.name
    status, out = rig.call("ADD", box, timeout="1s")
    assert status == 1 and "does not show the pod" in out["msg"]
    told(rig, box, "the API does not show the pod on this node")
    box.name, box.uid, uid = name, "another-uid", box.uid
    status, out = rig.call("ADD", box, timeout="1s")
    assert status == 1 and "another pod of this name" in out["msg"]
    box.uid = uid
    assert box.untouched()


# -- labels ---------------------------------------------------------------------------------------

def test_pods_that_run_already_are_found_by_their_processes(rig):
    rig.start()
    node = rig.proxy()
    rig.mesh.shared("node2")
    rig.mesh.echo(rig.mesh.s2)
    rig.namespace("late")
    box = rig.pod("a1", 61, namespace="late", ready=True)
    foreign = rig.pod("a2", 62, namespace="late")
    rig.show_process(foreign, 7)
    rig.show_process(box, 8)
    rig.label("/api/v1/namespaces/late", {MODE: "ambient"})
    rig.enabled(box)
    talks_mtls(rig, box, node, rig.mesh.s2)
    assert foreign.untouched(), "it has no address yet: the plugin will bring it"
    # and out again
    rig.label("/api/v1/namespaces/late", {MODE: None})
    until(box.untouched, what="the rules to go")
    until(lambda: rig.annotation(box) is None, what="the annotation to go")
    until(lambda: pods_of(node) == {}, what="the proxy to give it up")
    rig.label(box.path_api, {MODE: "ambient"})
    rig.enabled(box)


def test_annotations_choose_the_rules(rig):
    rig.start()
    rig.proxy()
    box = rig.pod("a1", 61)
    assert rig.api.patch(box.path_api, {"metadata": {"annotations": {
        "ambient.istio.io/bypass-inbound-capture": "true", "ambient.istio.io/dns-capture": "true",
        "istio.io/reroute-virtual-interfaces": "tap0"}}}).status == 200
    until(lambda: "reroute" in json.dumps(rig.api.get(box.path_api).json), what="the annotation")
    rig.add(box)
    rules = box.run("nft", "list", "ruleset")
    assert ":15006" not in rules and ":15053" in rules and 'iifname "tap0"' in rules


# -- restarts -------------------------------------------------------------------------------------

def test_the_agent_is_killed_and_comes_back(rig):
    agent = rig.start()
    node = rig.proxy()
    rig.mesh.shared("node2")
    rig.mesh.echo(rig.mesh.s2)
    boxes = [rig.pod(f"a{i}", 60 + i) for i in range(1, 4)]
    for box in boxes:
        rig.add(box)
        rig.running(box)
        rig.enabled(box)
    kept = rig.mesh.connect(boxes[0], rig.mesh.s2)
    traffic.echo_once(kept)
    agent.kill()
    talks_mtls(rig, boxes[0], node, rig.mesh.s2)
    traffic.echo_once(kept)
    # Acknowledge at once: without rules a late acknowledgement would pass the node by and reset it.
    kept.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
    # meanwhile: rules lost, a pod deleted, a pod unlabelled
    boxes[0].run("nft", "flush", "ruleset")
    assert rig.api.delete(boxes[1].path_api + "?gracePeriodSeconds=0").status in (200, 202)
    rig.label(boxes[2].path_api, {MODE: "none"})
    rig.start()
    node.wait_ready()
    until(boxes[0].rules, what="the rules to be repaired")
    until(lambda: pods_of(node) == {"a1": "Up"}, what="only a1 to be left")
    until(boxes[2].untouched, what="the rules of a3 to go")
    until(lambda: rig.annotation(boxes[2]) is None, what="the annotation of a3 to go")
    traffic.echo_once(kept)
    talks_mtls(rig, boxes[0], node, rig.mesh.s2)


def test_a_recorded_namespace_that_is_another_pods_now(rig):
    """Some runtimes name a namespace by a process id, which another pod may have when the agent comes back."""
    agent = rig.start()
    node = rig.proxy()
    box, other = rig.pod("a1", 61), rig.pod("a2", 62, labels={MODE: "none"})
    rig.add(box)
    rig.running(box)
    rig.enabled(box)
    agent.kill()
    record = rig.dir / "run" / "pods" / box.uid
    record.write_text(record.read_text().replace(box.path, other.path))
    rig.start()
    node.wait_ready()
    until(lambda: "none of its addresses" in rig.log() or not other.untouched(), what="the agent to look at the record")
    until(lambda: ("NamespaceMissing", "no process") in [(r, m.split(": ")[-1][:10]) for r, m in rig.events(box)],
          what="the reason in the events")
    assert other.untouched()
    rig.show_process(box)
    until(lambda: "pod shop/a1 is in the mesh" in rig.log(), what="the pod to be found by its process")
    assert other.untouched()


def test_an_agent_that_is_killed_while_adds_wait(rig):
    """Redirected and not handed over yet, three ADDs of one container: the next agent goes on, and serves all of them."""
    agent = rig.start()
    box = rig.pod("a1", 61)
    assert rig.call("DEL", box) == (0, None), "without an ADD"
    waiting = [rig.call("ADD", box, wait=False) for _ in range(3)]
    until(box.rules, what="the rules")
    agent.kill()
    assert all(p.poll() is None for p in waiting)
    rig.start(wait=False)
    node = rig.proxy(wait=False)
    assert [rig.result(p)[0] for p in waiting] == [0, 0, 0]
    node.wait_ready()
    assert box.rules() and pods_of(node) == {"a1": "Up"}
    rig.add(box)
    assert pods_of(node) == {"a1": "Up"}


def test_records_of_pods_that_ended_while_no_agent_ran(rig):
    """And what an agent that was killed left of one: the run directory does not grow."""
    agent = rig.start()
    rig.proxy()
    box, kept = rig.pod("a1", 61), rig.pod("a2", 62)
    rig.add(box)
    rig.add(kept)
    records = rig.dir / "run" / "pods"
    assert {f.name for f in records.iterdir()} == {box.uid, kept.uid}
    agent.kill()
    (records / f"{box.uid}.tmp").write_text("{")
    assert rig.api.delete(box.path_api + "?gracePeriodSeconds=0").status in (200, 202)
    rig.start()
    until(lambda: {f.name for f in records.iterdir()} == {kept.uid}, what="the record to go")


def test_the_node_proxy_restarts(rig):
    rig.start()
    node = rig.proxy()
    rig.mesh.shared("node2")
    rig.mesh.echo(rig.mesh.s2)
    box = rig.pod("a1", 61)
    rig.add(box)
    node.terminate()
    node.wait()
    again = rig.proxy()
    until(lambda: pods_of(again) == {"a1": "Up"}, what="the agent to hand a1 over")
    talks_mtls(rig, box, again, rig.mesh.s2)
    # hand-over: two at a time, the newer one gets new pods, both serve
    newer = rig.proxy(offset=100)
    other = rig.pod("a2", 62)
    rig.add(other)
    assert pods_of(newer) == {"a1": "Up", "a2": "Up"} and pods_of(again) == {"a1": "Up"}
    assert rig.call("DEL", box)[0] == 0
    until(lambda: pods_of(newer) == {"a2": "Up"} and pods_of(again) == {}, what="both to hear of the end")


def test_a_sandbox_made_anew(rig):
    """The runtime replaces the sandbox; the DEL of the old one comes late."""
    rig.start()
    node = rig.proxy()
    box = rig.pod("a1", 61)
    rig.add(box)
    spare = rig.pod("a2", 62, namespace="kube-system")
    box.container, box.path, old = "c-new", spare.path, (box.container, box.path)
    rig.add(box)
    assert spare.rules() and pods_of(node) == {"a1": "Up"}
    box.container, box.path = old
    assert rig.call("DEL", box)[0] == 0
    assert pods_of(node) == {"a1": "Up"}
    # GC by a runtime that knows only the new one changes nothing; that knows none ends it
    rig.call("GC", **{"version": "1.1.0", "cni.dev/valid-attachments": [{"containerID": "c-new", "ifname": "eth0"}]})
    assert pods_of(node) == {"a1": "Up"}
    rig.call("GC", **{"version": "1.1.0", "cni.dev/valid-attachments": []})
    until(lambda: pods_of(node) == {}, what="GC to end it")


def test_rules_that_vanish_fail_check(rig):
    rig.start()
    rig.proxy()
    box = rig.pod("a1", 61)
    rig.add(box)
    assert rig.call("CHECK", box)[0] == 0
    box.run("nft", "flush", "ruleset")
    status, out = rig.call("CHECK", box)
    assert status == 1 and "rules are missing" in out["msg"]


def test_status_and_check_without_an_agent_and_before_the_api_was_read(rig):
    """What is not known is not called right: STATUS logs it, and CHECK fails for now."""
    rig.start()
    rig.proxy()
    box = rig.pod("a1", 61)
    rig.add(box)
    rig.running(box)
    rig.enabled(box)
    rig.agents[-1].kill()
    assert f"cannot connect to '{rig.plugin_sock}'" in logged_by_status(rig)
    status, out = rig.call("CHECK", box)
    assert status == 1 and out["code"] == 11 and str(rig.plugin_sock) in out["msg"], out
    rig.api.stop(kill=True)
    rig.start(wait=False)
    until(rig.answers, what="the agent")
    assert "waits for the API" in logged_by_status(rig)
    status, out = rig.call("CHECK", box)
    assert status == 1 and out["code"] == 11 and "waits for the API" in out["msg"], out
    rig.api.restart()
    until(lambda: logged_by_status(rig) == "", what="the agent to be ready")
    until(lambda: rig.call("CHECK", box) == (0, None), what="the pod to be handed over")


def test_a_pod_that_should_be_in_the_mesh_and_is_not_fails_check(rig):
    rig.start()
    rig.proxy()
    rig.namespace("late")
    box = rig.pod("a1", 61, namespace="late")
    rig.add(box)
    assert rig.call("CHECK", box) == (0, None)
    rig.label("/api/v1/namespaces/late", {MODE: "ambient"})  # it has no address in its status yet: nothing brings it in
    until(lambda: rig.call("CHECK", box)[0], what="CHECK to fail")
    status, out = rig.call("CHECK", box)
    assert status == 1 and out["code"] == 100 and "belongs to the mesh and is not redirected" in out["msg"], out
    assert box.untouched()
    box.uid, uid = "another-uid", box.uid
    status, out = rig.call("CHECK", box)
    assert status == 1 and out["code"] == 11 and "another pod of this name" in out["msg"], out
    box.uid = uid
    rig.show_process(box)
    rig.running(box)
    until(lambda: rig.call("CHECK", box) == (0, None), what="the pod to be found and redirected")


def test_check_compares_namespace_and_addresses(rig):
    rig.start()
    rig.proxy()
    box, spare = rig.pod("a1", 61), rig.pod("a2", 62, namespace="kube-system")
    rig.add(box)
    assert rig.call("CHECK", box) == (0, None)
    box.path, path = spare.path, box.path
    status, out = rig.call("CHECK", box)
    assert status == 1 and "not the network namespace that was redirected" in out["msg"], out
    box.path = path + "-gone"
    status, out = rig.call("CHECK", box)
    assert status == 1 and "-gone" in out["msg"], out
    box.path = path
    status, out = rig.call("CHECK", box, prevResult={"cniVersion": "1.0.0", "ips": [{"address": f"{spare.ip4}/24"}]})
    assert status == 1 and "none of the addresses of prevResult" in out["msg"], out
    status, out = rig.call("CHECK", box, prevResult=None)
    assert status == 1 and out["code"] == 7 and "prevResult is missing" in out["msg"], out
    assert rig.call("CHECK", box) == (0, None)


def test_an_acknowledgement_that_does_not_come_is_in_the_events(rig, proxy):
    rig.start("--wait", "2s")
    p = proxy()
    p.until_snapshot()
    box = rig.pod("a1", 61)
    call = rig.call("ADD", box, wait=False)
    assert p.next(answer=None)[0] == "add"
    told(rig, box, "the node proxy has not acknowledged the pod")
    assert call.poll() is None
    p.sock.send(zds.ACK)
    assert rig.result(call)[0] == 0


def test_more_starts_than_there_may_be(rig):
    """The rest is refused with an event, and other commands are served meanwhile."""
    rig.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2048:
        pytest.skip(f"{hard} descriptors are too few")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    box = rig.pod("a1", 61)
    body = {"Netns": box.path, "PodName": "ghost", "PodNamespace": "shop", "PodUID": "no-such-uid"}
    calls = []
    try:
        for _ in range(1024):
            calls.append(rig.post("/cmdadd", body))
        until(lambda: b"too many pods" in _answer(rig.post("/cmdadd", body)), what="the refusal")
        assert "node proxy is not connected" in logged_by_status(rig)
    finally:
        for s in calls:
            s.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    until(lambda: any("too many pods start at once" in m for _, m in rig.events_of("shop", "ghost")), what="the event")


def _answer(sock):
    """What comes within a moment."""
    with sock:
        sock.settimeout(0.5)
        with contextlib.suppress(TimeoutError):
            return sock.recv(4096)
        return b""


def test_many_pods_at_once(rig):
    rig.start()
    node = rig.proxy()
    boxes = [rig.pod(f"m{i}", 100 + i) for i in range(12)]
    calls = [rig.call("ADD", b, wait=False) for b in boxes]
    assert [rig.result(c)[0] for c in calls] == [0] * 12
    assert set(pods_of(node).values()) == {"Up"} and len(pods_of(node)) == 12


def test_more_pods_than_descriptors_by_default(rig):
    """Each pod takes one, and another while it is handed over; runtimes give 1024 where more may be had."""
    agent = rig.start(prefix=("prlimit", "--nofile=28:4096"))
    rig.proxy()
    boxes = [rig.pod(f"m{i}", 100 + i) for i in range(16)]
    for box in boxes:
        rig.add(box)
        rig.running(box)
    again = rig.proxy(offset=100)  # which is told of all of them at once
    until(lambda: len(pods_of(again)) == 16, what="a second proxy to have all pods")
    assert agent.alive and "no descriptor" not in agent.log()


def test_a_hand_over_without_descriptors_is_tried_again(rig):
    agent = rig.start()
    node = rig.proxy()
    box = rig.pod("a1", 61)
    rig.add(box)
    rig.running(box)
    rig.enabled(box)
    limits = resource.prlimit(agent.pid, resource.RLIMIT_NOFILE)
    few = 0
    while few != agent.open_fds():  # calls of the API that come to their end
        few = agent.open_fds()
        time.sleep(0.3)
    # One more, for the connection of the next proxy.
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (few + 1, limits[1]))
    newer = rig.proxy(offset=100)
    until(lambda: "waits: no descriptor to hand the pod over" in agent.log(), what="the reason in the log")
    assert "a1" not in pods_of(newer) and pods_of(node) == {"a1": "Up"}
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, limits)
    until(lambda: pods_of(newer) == {"a1": "Up"}, what="the pod to be handed over")


# -- probes ---------------------------------------------------------------------------------------

def probe(port):
    return {"readinessProbe": {"httpGet": {"port": port}}}


def test_probes_reach_a_pod_and_nothing_else_does(rig):
    rig.start("--probe-uid", "0")
    rig.proxy()
    box = rig.pod("a1", 61, containers=[{"name": "app", "image": "app", **probe(PORT)}])
    rig.add(box)
    rig.running(box)
    rig.mesh.world.match_policy("nobody", "Deny", sourceIps=["0.0.0.0/0"], scope="Global")
    rig.mesh.apply()
    app, other = rig.mesh.echo(box), rig.mesh.echo(box, port=9090)
    until(lambda: f"{box.ip4} . {PORT}" in rig.node.run("nft", "list", "ruleset"),
          what="the host's rules")
    rig.mesh.roundtrip(rig.node, box)
    assert app.peer_ips() == {"169.254.7.127"}
    assert rig.mesh.refused(rig.node, box, 9090) and other.peer_ips() == set(), "not a port of a probe"
    # another user of the same machine is no kubelet
    code = (f"import socket; s = socket.create_connection(('{box.ip4}', {PORT}), 10); s.sendall(b'x'); "
            "raise SystemExit(7 if s.recv(1) else 8)")
    with rig.node.entered():
        done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "python3", "-c", code],
                              capture_output=True, text=True, check=False)
    if "setpriv" in done.stderr:
        pytest.skip(f"no other user here: {done.stderr}")
    assert done.returncode != 7, done.stderr
    assert app.peer_ips() == {"169.254.7.127"}


def probed(rig, name, host):
    """A pod of the mesh with a probe."""
    box = rig.pod(name, host, containers=[{"name": "app", "image": "app", **probe(PORT)}])
    rig.add(box)
    rig.running(box)
    return box


def test_rules_that_another_program_removes_are_repaired(rig):
    """Those of the host, without which a kubelet restarts pods whose policies name identities, and those of a pod."""
    rig.start("--probe-uid", "0", "--verify", "300ms")
    rig.proxy()
    box = probed(rig, "a1", 61)
    target = f"{box.ip4} . {PORT}"
    until(lambda: target in rig.node.run("nft", "list", "ruleset"), what="the host's rules")
    rig.node.run("nft", "delete", "table", "inet", "spanwire-probes")
    box.run("nft", "flush", "ruleset")
    until(lambda: target in rig.node.run("nft", "list", "ruleset"), what="the host's rules to be repaired")
    until(box.rules, what="the pod's rules to be repaired")


class Nft:
    """nft for an agent that starts with .prefix: refuses scripts that have the text in .refused, while there is one."""

    def __init__(self, directory):
        directory.mkdir()
        self.refused, fake, real = (directory / name for name in ("refused", "fake", "real"))
        shutil.copy(shutil.which("nft"), real)
        fake.write_text(f"""#!/bin/sh
[ "$1" = list ] && exec {real} "$@"
script=$(cat)
if [ -e {self.refused} ] && printf %s "$script" | grep -qf {self.refused}; then echo "no such luck"; exit 1; fi
printf '%s\\n' "$script" | {real} "$@"
""")
        fake.chmod(0o755)
        self.prefix = ("unshare", "-m", "--propagation", "slave", "sh", "-c",
                       f'mount --bind {fake} {shutil.which("nft")} && exec "$@"', "agent")


def test_rules_of_the_host_that_fail_are_tried_again(rig, tmp_path):
    nft = Nft(tmp_path / "nft")
    nft.refused.write_text("spanwire-probes")
    rig.start("--probe-uid", "0", prefix=nft.prefix)
    rig.proxy()
    box = probed(rig, "a1", 61)
    until(lambda: "cannot change the host's rules: nft refused the rules (status 1): no such luck" in rig.log(),
          what="the reason in the log")
    assert not rig.host_rules()
    nft.refused.unlink()
    until(lambda: f"{box.ip4} . {PORT}" in rig.node.run("nft", "list", "ruleset"), what="the host's rules")


def test_rules_of_a_pod_that_fail_half_way_leave_nothing(rig, tmp_path):
    """Routes are there already when nft refuses: they go again, the start fails with the reason and succeeds later."""
    nft = Nft(tmp_path / "nft")
    nft.refused.write_text("redirect to :15006")
    rig.start("--wait", "1s", prefix=nft.prefix)
    rig.proxy()
    box = rig.pod("a1", 61)
    status, out = rig.call("ADD", box, timeout="2s")
    assert status != 0 and "nft refused the rules" in out["msg"], out
    assert rig.call("DEL", box) == (0, None)
    until(box.untouched, what="nothing to be left")
    until(lambda: ("RedirectionFailed", True) in [(r, "no such luck" in m) for r, m in rig.events(box)], what="the event")
    nft.refused.unlink()
    rig.add(box)
    assert box.rules()


# -- installing -----------------------------------------------------------------------------------

def test_the_plugin_is_installed_and_repaired(rig):
    rig.start()
    rig.installed()
    assert rig.plugins()[0] == {"type": "bridge", "bridge": "cni0"}
    exe = rig.bin / "spanwire-cni"
    plugin = pathlib.Path(rig.binary).with_name("spanwire-cni")
    assert filecmp.cmp(exe, plugin, shallow=False) and os.access(exe, os.X_OK)
    said = subprocess.run([str(exe)], input="", env={"CNI_COMMAND": "VERSION"}, capture_output=True, check=True)
    assert json.loads(said.stdout)["supportedVersions"][-1] == "1.1.0"
    # another component rewrites the list; somebody deletes the program
    rig.write_conf("10-net.conflist", {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "ptp"}]})
    exe.unlink()
    until(lambda: [p["type"] for p in rig.plugins()] == ["ptp", "spanwire-cni"], what="the list to be repaired")
    until(exe.exists, what="the program to be repaired")
    # a configuration that sorts first is the one that counts
    (rig.conf / "00-bad.conflist").write_text("{")
    rig.write_conf("05-first.conf", {"cniVersion": "0.3.1", "name": "x", "type": "macvlan"})
    until(lambda: (rig.conf / "05-first.conflist").exists(), what="the new first one to be edited")
    assert [p["type"] for p in rig.plugins("05-first.conflist")] == ["macvlan", "spanwire-cni"]
    assert not (rig.conf / "05-first.conf").exists()
    assert (rig.conf / "00-bad.conflist").read_text() == "{"


def test_waits_for_a_configuration(rig):
    (rig.conf / "10-net.conflist").unlink()
    rig.start()
    assert "waiting for one" in rig.log()
    rig.write_conf("10-net.conflist", {"name": "net", "plugins": [{"type": "bridge"}]})
    rig.installed()


@pytest.mark.parametrize("running", [True, False], ids=["by-agent", "without-agent"])
def test_uninstall_leaves_nothing(rig, running):
    state = rig.dir / "state"
    state.mkdir()
    (state / "mesh.state").write_text("x")
    agent = rig.start("--node-state-dir", str(state))
    node = rig.proxy()
    boxes = [rig.pod(f"a{i}", 60 + i, containers=[{"name": "app", "image": "app", **probe(PORT)}]) for i in (1, 2)]
    for box in boxes:
        rig.add(box)
        rig.running(box)
        rig.enabled(box)
    early = rig.pod("a3", 63, ready=True)  # in no record: it ran before it joined
    rig.show_process(early)
    rig.show_process(early)
    rig.enabled(early)
    boxes.append(early)
    until(rig.host_rules, what="the host's rules")
    if not running:
        agent.signal(15)
        assert agent.wait() == 0
        assert all(b.rules() for b in boxes), "an agent that ends leaves the pods in the mesh"
    argv = [rig.binary, "cni", "uninstall", "--node-name", "node1", "--plugin-socket", str(rig.plugin_sock),
            "--run-dir", str(rig.dir / "run"), "--cni-bin-dir", str(rig.bin), "--cni-conf-dir", str(rig.conf),
            "--host-netns", rig.node.path, "--host-proc", str(rig.proc), "--node-state-dir", str(state)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.stderr, rig.log()[-2000:])
    assert all(b.untouched() for b in boxes)
    assert not rig.host_rules() and not (rig.bin / "spanwire-cni").exists()
    assert [p["type"] for p in rig.plugins()] == ["bridge"]
    if running:
        assert agent.wait() == 0
        assert all(rig.annotation(b) is None for b in boxes)
        until(lambda: pods_of(node) == {}, what="the proxy to have no pods")
        assert not rig.zds.exists() and not rig.plugin_sock.exists()
    assert list((rig.dir / "run/pods").glob("*")) == [] and not state.exists()


def test_uninstall_after_an_agent_that_was_killed(rig):
    """Its sockets, and what it had begun to write, go too."""
    agent = rig.start()
    rig.installed()
    agent.kill()
    halves = [rig.conf / "10-net.conflist.0123abcd.tmp", rig.bin / ".spanwire-cni.tmp", rig.dir / "run/pods/a.tmp"]
    for f in halves:
        f.write_text("half")
    assert rig.zds.exists() and rig.plugin_sock.exists()
    argv = [rig.binary, "cni", "uninstall", "--node-name", "node1", "--plugin-socket", str(rig.plugin_sock),
            "--zds-socket", str(rig.zds), "--run-dir", str(rig.dir / "run"), "--cni-bin-dir", str(rig.bin),
            "--cni-conf-dir", str(rig.conf), "--host-netns", rig.node.path, "--host-proc", str(rig.proc)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not rig.zds.exists() and not rig.plugin_sock.exists() and not any(f.exists() for f in halves)
    assert [p["type"] for p in rig.plugins()] == ["bridge"] and list(rig.bin.iterdir()) == []


def test_a_deleted_daemonset_uninstalls(rig):
    rig.namespace("sys")
    sets = "/apis/apps/v1/namespaces/sys/daemonsets"
    app = {"app": "cni"}
    a = rig.api.post(sets, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": app}, "template": {"metadata": {"labels": app}, "spec": {
            "containers": [{"name": "agent", "image": "spanwire"}]}}}})
    assert a.status == 201, a
    flags = ("--pod-namespace", "sys", "--daemonset", "agent")
    agent = rig.start(*flags)
    rig.proxy()
    rig.installed()
    assert rig.plugins()[-1]["excludeNamespaces"] == ["kube-system", "sys"]
    box = rig.pod("a1", 61)
    rig.add(box)
    rig.running(box)
    rig.enabled(box)
    agent.signal(15)
    assert agent.wait() == 0
    assert box.rules() and rig.annotation(box) == "enabled", "an upgrade changes nothing"
    agent = rig.start(*flags)
    assert rig.api.delete(sets + "/agent").status in (200, 202)
    until(lambda: rig.api.get(sets + "/agent").status == 404, what="the DaemonSet to go")
    agent.signal(15)
    assert agent.wait() == 0
    assert box.untouched() and rig.annotation(box) is None and not rig.host_rules()
    assert [p["type"] for p in rig.plugins()] == ["bridge"] and not (rig.bin / "spanwire-cni").exists()


# -- ZDS, by a proxy of the tests ----------------------------------------------------------------

@pytest.fixture
def proxy(rig):
    made = []

    def make(**kw):
        made.append(zds.Proxy(rig.zds, **kw))
        return made[-1]
    yield make
    for p in made:
        p.close()


def same_ns(fd, box):
    a, b = os.fstat(fd), os.stat(box.path)
    return (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)


def test_the_protocol_of_the_agent(rig, proxy):
    rig.start()
    p = proxy()
    assert p.until_snapshot() == {}
    box = rig.pod("a1", 61)
    call = rig.call("ADD", box, wait=False)
    kind, uid, who, fds = p.next()
    assert (kind, uid, who) == ("add", box.uid, ("shop", "a1", "a1")) and len(fds) == 1 and same_ns(fds[0], box)
    assert rig.result(call)[0] == 0
    # a known pod without a namespace is kept
    lost = rig.pod("a2", 62, ready=True)
    until(lambda: "pod shop/a2 waits" in rig.log(), what="the agent to look for a2")
    second = proxy()
    got = second.until_snapshot()
    assert got[box.uid][0] == "add" and got[lost.uid] == ("keep", lost.uid)
    rig.show_process(lost)
    assert second.next()[:2] == ("add", lost.uid)
    # deletions go to all
    assert rig.call("DEL", box)[0] == 0
    assert second.next() == ("del", box.uid) and p.next() == ("del", box.uid)
    # the newest goes: the other is told what it missed
    second.close()
    assert p.next()[:2] == ("add", lost.uid)


def test_nothing_is_named_before_the_api_was_read(rig, proxy):
    """A proxy that is told too few pods gives the others up: their connections would end."""
    rig.start()
    first = proxy()
    first.until_snapshot()
    box = rig.pod("a1", 61)
    call = rig.call("ADD", box, wait=False)
    first.next()
    assert rig.result(call)[0] == 0
    rig.running(box)
    rig.agents[-1].kill()
    rig.api.stop(kill=True)
    rig.start(wait=False)
    until(lambda: "retrying" in rig.log() or "unreachable" in rig.log(), what="the agent to miss the API")
    late = proxy()
    rig.api.restart()
    assert list(late.until_snapshot()) == [box.uid]


def test_a_refusal_is_retried_with_the_reason(rig, proxy):
    rig.start()
    p = proxy()
    p.until_snapshot()
    box = rig.pod("a1", 61)
    call = rig.call("ADD", box, wait=False)
    for _ in range(2):
        assert p.next(answer=zds.nack("port 15006 is taken"))[0] == "add"
    until(lambda: any("15006 is taken" in m for _, m in rig.events(box)), what="the reason in the events")
    assert p.next()[0] == "add"
    assert rig.result(call)[0] == 0


@pytest.mark.parametrize("hello", [b"", b"\x08\x02", b"\xff\xff", zds.HELLO + b"\x12\x00" * 600],
                         ids=["empty", "version", "garbage", "long"])
def test_a_bad_hello_ends_the_connection(rig, proxy, hello):
    rig.start()
    p = proxy(hello=None)
    if hello:
        p.sock.send(hello)
    else:
        p.sock.shutdown(1)
    assert p.next() is None
    assert proxy().until_snapshot() == {}


def test_unasked_packets_and_bad_answers_end_the_connection(rig, proxy):
    rig.start()
    box = rig.pod("a1", 61)
    for bad in (zds.ACK, b"\x08\x01"):
        p = proxy()
        p.until_snapshot()
        p.sock.send(bad)
        assert p.next() is None
    p = proxy()
    p.until_snapshot()
    call = rig.call("ADD", box, wait=False)
    p.next(answer=b"\xff")
    assert p.next() is None
    p = proxy()
    assert list(p.until_snapshot()) == [box.uid]
    assert rig.result(call)[0] == 0


# -- refusals -------------------------------------------------------------------------------------

def test_the_hosts_own_namespace_is_refused(mesh, binary):
    del mesh
    done = subprocess.run([binary, "cni", "redirect", "apply", "--netns", "/proc/self/ns/net"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1 and "host's own network namespace" in done.stderr
    assert "istio" not in netns.run("nft", "list", "tables")


@pytest.mark.parametrize("path, body, status", [
    ("/cmdadd", b"{", "400"), ("/cmdadd", b"[]", "400"), ("/cmdadd", b"{}", "400"),
    ("/cmdadd", b'{"Netns":"relative","PodName":"a","PodNamespace":"b"}', "400"),
    ("/cmdadd", b'{"Netns":7,"PodName":"a","PodNamespace":"b"}', "400"), ("/nothing", b"{}", "404"),
    ("/cmddel", b"{}", "200"), ("/cmdgc", b'{"ValidAttachments":7}', "400"), ("/cmdcheck", b"{}", "400"),
])
def test_the_plugins_socket_refuses_nonsense(rig, path, body, status):
    if not shutil.which("curl"):
        pytest.skip("no curl")
    rig.start()
    done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket", str(rig.plugin_sock),
                           "--data-binary", body, f"http://agent{path}"], capture_output=True, text=True, check=True)
    assert done.stdout == status
    assert oct(os.stat(rig.plugin_sock).st_mode)[-3:] == oct(os.stat(rig.zds).st_mode)[-3:] == "600"
