# SPDX-License-Identifier: Apache-2.0
"""Pods handed to the node by a node agent: they come and go while it runs, and none disturbs another."""
import os
import socket

import pytest
from harness import traffic, zds
from harness.wait import until


@pytest.fixture
def agent(tmp_path):
    a = zds.Agent(tmp_path / "zds.sock")
    yield a
    a.close()


def start(mesh, agent, name="node1", flags=(), **kw):
    node = mesh.shared(name, "--agent-socket", agent.path, *flags, pods=kw.pop("pods", []), wait=False, **kw)
    agent.accept()
    return node


def pods_of(node):
    return {uid: p["state"] for uid, p in node.config_dump()["workloadState"].items()}


def listens(pod, port=15008):
    with pod.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def count(node, name):
    return node.metrics().sum(name)


def ready(node):
    status, body = node.ready()
    return status == 200, body


def test_a_snapshot_makes_it_ready_and_pods_are_served(mesh, agent):
    node = start(mesh, agent)
    far = mesh.shared("node2")
    assert agent.add(mesh.c1) == ""
    ok, why = ready(node)
    assert not ok and "workload proxy manager" in why
    assert agent.ask(zds.SNAPSHOT) == ""
    node.wait_ready()
    mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    line = node.wait_access(direction="outbound")[-1]
    assert line["src.identity"] == mesh.c1.identity and line["dst.identity"] == mesh.s2.identity
    assert pods_of(node) == {"uid-c1": "Up"}
    del far


def test_pods_come_and_go_while_others_talk(mesh, agent):
    node = start(mesh, agent)
    mesh.shared("node2")
    agent.snapshot(mesh.c1)
    node.wait_ready()
    mesh.echo(mesh.s2)
    mesh.echo(mesh.s1)
    kept = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(kept)
    for _ in range(20):
        assert agent.add(mesh.s1) == ""
        mesh.roundtrip(mesh.s1, mesh.s2)
        near = mesh.connect(mesh.c1, mesh.s1)
        traffic.echo_once(near)
        assert agent.delete("uid-s1") == ""
        until(lambda: traffic.ended(near), what="the connection to end")
        until(lambda: not listens(mesh.s1), what="15008 of s1 to be closed")
        traffic.echo_once(kept)
    assert pods_of(node) == {"uid-c1": "Up"}
    assert count(node, "workload_manager_proxies_started_total") == 21
    assert count(node, "workload_manager_proxies_stopped_total") == 20
    assert count(node, "workload_manager_active_proxy_count") == 1


def test_carriers_of_a_deleted_pod_are_dropped_at_once(mesh, agent):
    node = start(mesh, agent)
    mesh.shared("node2")
    agent.snapshot(mesh.c1, mesh.s1)
    node.wait_ready()
    mesh.echo(mesh.s2)
    for pod in (mesh.c1, mesh.s1):
        mesh.roundtrip(pod, mesh.s2)
    held = node.open_sockets()
    mine, other = (mesh.carriers(p, mesh.s2) & held for p in (mesh.c1, mesh.s1))
    assert mine and other
    assert agent.delete("uid-c1") == ""
    until(lambda: not node.open_sockets() & mine, what="the pooled carriers of c1 to be closed")
    assert other <= node.open_sockets(), "those of another pod stay"


def test_a_proxy_that_drains_takes_no_new_pods(mesh, agent):
    """Acknowledged, they would start redirected to ports that nothing listens on. Those it has go as before."""
    node = start(mesh, agent, flags=["--drain", "20s"])
    mesh.shared("node2")
    agent.snapshot(mesh.c1)
    node.wait_ready()
    mesh.echo(mesh.s2)
    kept = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(kept)
    node.signal(15)
    until(lambda: "draining" in node.log(), what="the drain to begin")
    assert agent.add(mesh.s1) == "the node proxy is draining"
    assert agent.add(mesh.s1) == "the node proxy is draining"
    traffic.echo_once(kept)
    assert agent.delete("uid-c1") == ""
    until(lambda: traffic.ended(kept), what="the connection to end")
    assert node.wait() == 0


def test_a_proxy_that_drains_keeps_its_pods_when_the_agent_names_them_again(mesh, agent):
    node = start(mesh, agent, flags=["--drain", "20s"])
    mesh.shared("node2")
    agent.snapshot(mesh.c1)
    node.wait_ready()
    mesh.echo(mesh.s2)
    kept = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(kept)
    agent.close()
    agent.listen()
    agent.accept()
    node.signal(15)
    until(lambda: "draining" in node.log(), what="the drain to begin")
    assert agent.add(mesh.c1) == "the node proxy is draining"
    assert agent.ask(zds.SNAPSHOT) == ""
    traffic.echo_once(kept)
    assert "removed" not in node.log()
    kept.close()
    assert node.wait() == 0


def test_a_lost_agent_ends_nothing_and_its_return_reconciles(mesh, agent):
    node = start(mesh, agent)
    mesh.shared("node2")
    agent.snapshot(mesh.c1, mesh.s1)
    node.wait_ready()
    mesh.echo(mesh.s2)
    kept = mesh.connect(mesh.c1, mesh.s2)
    gone = mesh.connect(mesh.s1, mesh.s2)
    agent.close()
    until(lambda: not ready(node)[0], what="not ready without the agent")
    for conn in (kept, gone):
        traffic.echo_once(conn)
    mesh.roundtrip(mesh.c1, mesh.s2)
    agent.listen()
    agent.accept()
    # c1 is known but its namespace is not at hand; s1 is not named any more
    assert agent.ask(zds.keep("uid-c1")) == ""
    assert agent.ask(zds.keep("uid-of-nobody")) == ""
    traffic.echo_once(gone)
    assert agent.ask(zds.SNAPSHOT) == ""
    node.wait_ready()
    until(lambda: traffic.ended(gone), what="the connection to end")
    traffic.echo_once(kept)
    assert pods_of(node) == {"uid-c1": "Up"}


def test_the_same_pod_again_changes_nothing_and_a_new_sandbox_replaces_it(mesh, agent):
    node = start(mesh, agent)
    agent.snapshot(mesh.c1)
    node.wait_ready()
    mesh.echo(mesh.u2)
    kept = mesh.connect(mesh.c1, mesh.u2)
    traffic.echo_once(kept)
    assert agent.add(mesh.c1) == ""
    traffic.echo_once(kept)
    assert count(node, "workload_manager_proxies_started_total") == 1
    assert agent.ask(zds.add("uid-c1", "c1"), mesh.s1.fd) == ""  # another namespace
    until(lambda: traffic.ended(kept), what="the connection to end")
    until(lambda: listens(mesh.s1) and not listens(mesh.c1), what="the listeners to move")
    assert pods_of(node) == {"uid-c1": "Up"}


def test_a_pod_that_holds_a_port_is_left_out_and_retried(mesh, agent):
    node = start(mesh, agent)
    taken = mesh.keep(traffic.listen(mesh.s1, ("0.0.0.0", 15006)))
    assert agent.add(mesh.c1) == ""
    why = agent.add(mesh.s1)
    assert "15006" in why and "in use" in why.lower(), why
    assert agent.ask(zds.SNAPSHOT) == ""
    node.wait_ready()  # one odd pod does not keep the node from serving the others
    mesh.echo(mesh.u2)
    mesh.roundtrip(mesh.c1, mesh.u2)
    assert pods_of(node) == {"uid-c1": "Up", "uid-s1": "Pending"}
    assert count(node, "workload_manager_pending_proxy_count") == 1
    node.wait_log("cannot serve default/s1")
    taken.close()
    until(lambda: pods_of(node)["uid-s1"] == "Up", what="s1 to be served")
    assert count(node, "workload_manager_pending_proxy_count") == 0
    assert node.log().count("cannot serve default/s1") == 1, "one line for one reason"


def test_a_listed_pod_without_a_namespace_does_not_keep_others(mesh, tmp_path):
    node = mesh.shared("node1", "--pod", "default/s1/s1=/run/netns/not-yet", pods=[mesh.c1])
    mesh.echo(mesh.u2)
    mesh.roundtrip(mesh.c1, mesh.u2)
    node.wait_log("cannot serve default/s1")
    os.symlink(mesh.s1.path, "/run/netns/not-yet")
    try:
        until(lambda: pods_of(node)[mesh.s1.workload] == "Up", what="s1 to be served")
    finally:
        os.unlink("/run/netns/not-yet")


@pytest.mark.parametrize("request_, fds", [
    (zds.add("u", "c1"), 0), (zds.add("u", "c1"), 2), (zds.delete("u"), 1), (zds.SNAPSHOT, 1),
    (zds.add("u", "a\nb"), 1), (zds.add("u", "c" * 300), 1), (zds.add("u" * 200, "c1"), 1),
    (zds.add("u", "c1", account="\x00"), 1),
], ids=["none", "two", "del", "snapshot", "control", "long", "long-uid", "nul"])
def test_bad_requests_are_refused_and_the_connection_stays(mesh, agent, request_, fds):
    node = start(mesh, agent)
    assert agent.ask(request_, *[mesh.c1.fd] * fds) != ""
    agent.snapshot(mesh.c1)
    node.wait_ready()
    assert pods_of(node) == {"uid-c1": "Up"}
    assert count(node, "spanwire_zds_refusals_total") == 1


@pytest.mark.parametrize("before, request_", [
    (True, zds.SNAPSHOT), (True, zds.keep("u")), (False, zds.put(1, zds.put(1, "u"))),
    (False, b"\xff\xff\xff"), (False, zds.put(9, b"")), (False, zds.delete("")), (False, b"\x0a\x05ab"),
], ids=["snapshot-twice", "keep-late", "no-info", "garbage", "unknown", "no-uid", "short"])
def test_protocol_errors_end_the_connection_and_no_pod(mesh, agent, before, request_):
    node = start(mesh, agent)
    agent.snapshot(mesh.c1) if before else agent.add(mesh.c1)
    fds = [mesh.c1.fd] if request_[:1] == b"\x0a" else []
    assert agent.ask(request_, *fds) != ""
    assert agent.ended()
    assert listens(mesh.c1)
    agent.accept()
    agent.snapshot(mesh.c1)
    node.wait_ready()
    assert node.alive


def test_a_packet_that_is_too_long(mesh, agent):
    start(mesh, agent)
    assert "longer" in agent.ask(zds.add("u", "c1") + b"\x7a\x00" * 600, mesh.c1.fd)
    assert agent.ended()
    agent.accept()


def test_descriptor_that_is_no_namespace(mesh, agent):
    node = start(mesh, agent)
    a, b = socket.socketpair()
    with a, b:
        assert agent.ask(zds.add("u", "c1"), a.fileno()) != ""
    assert agent.delete("u") == ""
    agent.snapshot(mesh.c1)
    node.wait_ready()
    assert pods_of(node) == {"uid-c1": "Up"}


def test_removed_pods_leave_no_descriptor(mesh, agent):
    node = start(mesh, agent)
    agent.snapshot(mesh.c1)
    node.wait_ready()
    agent.add(mesh.s1)
    agent.delete("uid-s1")
    until(lambda: not listens(mesh.s1), what="s1 to be given up")
    before = node.open_fds()
    for _ in range(20):
        # The socket that listens() asks for need not be the last that is closed; agents try again, too.
        until(lambda: agent.add(mesh.s1) == "", what="s1 to be served again")
        assert agent.delete("uid-s1") == ""
        until(lambda: not listens(mesh.s1), what="s1 to be given up")
    until(lambda: node.open_fds() <= before, what="descriptors of removed pods to be closed")
