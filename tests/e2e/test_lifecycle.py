# SPDX-License-Identifier: Apache-2.0
"""Start, reload, drain, hand-over, sudden death, and running out of descriptors."""
import os
import signal
import socket
import threading
import time

import pytest
from harness import traffic
from harness.mesh import PORT
from harness.netns import plugged
from harness.wait import GUARD, SANITIZED, SLOW, guard, stays, until


LONG = "20m"  # a drain that nobody waits for: whoever does fails


class Load:
    """A steady stream of new connections in a thread; every failure is kept."""

    def __init__(self, mesh, src, dst, port=PORT, threads=2):
        self.mesh, self.src, self.dst, self.port = mesh, src, dst, port
        self.done = 0
        self.errors = []
        self.stopping = threading.Event()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(threads)]
        for t in self.threads:
            t.start()

    def _run(self):
        while not self.stopping.is_set():
            try:
                self.mesh.roundtrip(self.src, self.dst, self.port)
                self.done += 1
            except (OSError, EOFError, AssertionError) as err:
                self.errors.append(f"{time.monotonic():.3f} {err!r}")

    def more(self, n=20):
        """Waits for n more good connections."""
        want = self.done + n
        until(lambda: self.done >= want or len(self.errors) > 100, 120, "load to go on")

    def stop(self):
        self.stopping.set()
        for t in self.threads:
            t.join(guard(GUARD))


# -- start and ready --------------------------------------------------------------------------

def test_readiness(mesh):
    node = mesh.shared("node1")
    assert node.ready() == (200, "ready")


def test_starts_with_little(mesh):
    node = mesh.shared("node1")
    assert _cpu_seconds(node.pid) < 1 * SLOW
    if not SANITIZED:
        assert node.rss_kb() < 32 * 1024


def test_configuration_from_the_environment(mesh):
    """The reference's names, and inline YAML."""
    mesh.world.write()
    node = mesh.shared("node1", without=("--local-xds",), env={
        "LOCAL_XDS": mesh.world.text(), "LOG_FORMAT": "json", "RUST_LOG": "debug"})
    mesh.echo(mesh.s1)
    mesh.roundtrip(mesh.c1, mesh.s1)
    node.wait_access(message="connection opened", direction="outbound")
    assert node.log().lstrip().startswith("{")


def test_flag_beats_environment(mesh):
    node = mesh.shared("node1", "--log-format", "plain", env={"LOG_FORMAT": "json"})
    assert not node.log().startswith("{")


# -- drain ------------------------------------------------------------------------------------

def test_idle_node_ends_at_once(mesh):
    for number in (signal.SIGTERM, signal.SIGINT):
        node = mesh.shared("node1", "--drain", LONG)
        node.signal(number)
        assert node.wait() == 0


def test_idle_pooled_connections_do_not_delay_the_end(mesh):
    node1, node2 = mesh.both("--drain", LONG)
    mesh.echo(mesh.s2)
    mesh.roundtrip(mesh.c1, mesh.s2)
    node2.terminate()
    node1.terminate()
    assert node1.wait() == 0 and node2.wait() == 0


@pytest.mark.tsan
@pytest.mark.parametrize("which", ["client", "server"])
def test_shutdown_drain(mesh, which):
    """ztunnel_shutdown, server_shutdown: open connections finish, new ones are not taken."""
    node1, node2 = mesh.both("--drain", LONG)
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    node = node1 if which == "client" else node2
    node.terminate()
    until(lambda: mesh.refused(mesh.c1, mesh.s2), 5, "new connections to be refused")
    for _ in range(5):
        traffic.echo_once(sock)
    assert node.alive
    sock.close()
    assert node.wait(5) == 0


def test_shutdown_forced_drain(mesh):
    node1, node2 = mesh.both("--drain", "1s")
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    start = time.monotonic()
    node1.terminate()
    until(lambda: traffic.ended(sock), what="the connection to be closed at the deadline")
    assert time.monotonic() - start >= 0.7, "before the deadline"
    assert node1.wait() == 0
    line = node1.access(direction="outbound")[-1]
    assert "connection closed due to connection drain" in line["error"]
    assert node2.alive


def test_drain_from_the_environment(mesh):
    node = mesh.shared("node2", without=("--drain",),
                       env={"CONNECTION_TERMINATION_DEADLINE": "1s"})
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.u1, mesh.s2)
    traffic.echo_once(sock)
    node.terminate()
    assert node.wait() == 0
    assert "draining for at most 1000 ms" in node.log()
    until(lambda: traffic.ended(sock))


def test_second_interrupt_ends_at_once(mesh):
    node = mesh.shared("node2", "--drain", LONG)
    node.expect_status = None
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.u1, mesh.s2)
    traffic.echo_once(sock)
    node.signal(signal.SIGINT)
    until(lambda: mesh.refused(mesh.u1, mesh.s2), 5)
    assert node.alive
    node.signal(signal.SIGINT)
    node.wait(3)


def test_quit(mesh):
    node = mesh.shared("node1", "--drain", LONG)
    assert node.admin("/quitquitquit")[0] == 405, "GET must not end anything"
    stays(lambda: node.alive, 0.2)
    assert node.admin("/quitquitquit", "POST")[0] == 200
    assert node.wait(5) == 0


@pytest.mark.tsan
def test_graceful_goaway_on_drain(mesh):
    """The foreign client is told, its open stream goes on, and then the connection ends."""
    node = mesh.shared("node2", "--drain", LONG)
    mesh.echo(mesh.s2)
    peer = mesh.hbone(mesh.s2)
    stream = peer.tunnel(f"{mesh.s2.ip4}:{PORT}")
    node.terminate()
    peer.wait(lambda: peer.goaway is not None, 5, "GOAWAY")
    assert peer.goaway[0] == 0, "NO_ERROR"
    peer.echo(stream)
    peer.end(stream)
    peer.wait(lambda: stream.ended)
    until(lambda: (peer.pump(0.05), peer.gone)[1], 5, "the connection to end")
    assert node.wait(5) == 0


def test_not_ready_while_draining(mesh):
    node = mesh.shared("node2", "--drain", LONG)
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.u1, mesh.s2)
    traffic.echo_once(sock)
    node.terminate()

    def not_ready():
        try:
            return node.ready()[0] != 200
        except OSError:
            return True
    until(not_ready, 5)
    sock.close()


# -- reload -----------------------------------------------------------------------------------

@pytest.mark.tsan
def test_reload_under_load_drops_nothing(mesh):
    node1, node2 = mesh.both()
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    load = Load(mesh, mesh.c1, mesh.s2)
    try:
        for i in range(15):
            mesh.world.workload(f"extra{i}", [f"10.9.0.{i + 1}"])
            mesh.world.match_policy(f"p{i}", "Deny", destinationPorts=[i + 1])
            mesh.apply()
            traffic.echo_once(sock)
        load.more()
    finally:
        load.stop()
    assert load.errors == []
    assert load.done > 20
    for node in (node1, node2):
        assert len(node.config_dump()["policies"]) == 15
        assert node.metrics().sum("spanwire_config_reloads_total", result="ok") >= 10


def test_bad_reload_keeps_the_old_configuration(mesh):
    node1, _ = mesh.both()
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    mesh.world.write("workloads: [\nnot yaml")
    node1.wait_log(r"(?i)line \d+")
    mesh.roundtrip(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    until(lambda: node1.metrics().sum("spanwire_config_reloads_total", result="failed") >= 1)
    mesh.apply()
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_reload_of_a_file_written_in_place(mesh):
    """Editors truncate and rewrite; half a file must not be taken for the whole."""
    mesh.both()
    mesh.echo(mesh.s2)
    mesh.world.revision += 1
    text = mesh.world.text()
    with open(mesh.world.path, "w", encoding="utf-8") as f:
        for i in range(0, len(text), 500):
            f.write(text[i:i + 500])
            f.flush()
    for node in mesh.nodes:
        until(lambda n=node: n.loaded(mesh.world.marker), 5)
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_workload_that_appears_later(mesh):
    """A pod whose record comes with a later configuration is served from then on."""
    record = mesh.world.workloads.pop("c1")
    mesh.both()
    mesh.echo(mesh.s2)
    result = []
    waiting = threading.Thread(target=lambda: result.append(mesh.refused(mesh.c1, mesh.s2)))
    waiting.start()
    mesh.world.workloads["c1"] = record
    mesh.apply()
    waiting.join()
    assert len(result) == 1, "neither served nor refused"
    mesh.roundtrip(mesh.c1, mesh.s2)


def test_unknown_local_workload_is_refused(mesh):
    """Five seconds of patience, then the connection ends: not passed through in the clear."""
    del mesh.world.workloads["c1"]
    node1, _ = mesh.both()
    app = mesh.echo(mesh.u2)
    start = time.monotonic()
    assert mesh.refused(mesh.c1, mesh.u2)
    assert time.monotonic() - start > 4.5, "it has to have its time"
    assert app.accepted == 0
    node1.wait_access(message="connection failed", direction="outbound")


# -- sudden death and hand-over ---------------------------------------------------------------

@pytest.mark.tsan
@pytest.mark.parametrize("victim", ["node1", "node2"])
def test_kill_and_restart(mesh, victim):
    node1, node2 = mesh.both()
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    (node1 if victim == "node1" else node2).kill()
    until(lambda: traffic.ended(sock), 5, "the connection through the dead node to end")
    if victim == "node2":
        assert mesh.refused(mesh.c1, mesh.s2)
    mesh.shared(victim)
    for _ in range(5):
        mesh.roundtrip(mesh.c1, mesh.s2)


@pytest.mark.tsan
def test_hand_over(mesh):
    """
    A second process takes the pods over (SO_REUSEPORT), the first one is told to go: no new
    connection fails meanwhile and open ones live on until the first one's deadline.
    """
    node1, old = mesh.both("--drain", LONG)
    mesh.echo(mesh.s2)
    kept = [mesh.connect(mesh.c1, mesh.s2), mesh.connect(mesh.u1, mesh.s2)]
    for sock in kept:
        traffic.echo_once(sock)
    loads = [Load(mesh, mesh.c1, mesh.s2), Load(mesh, mesh.u1, mesh.s2)]
    try:
        for load in loads:
            load.more()
        new = mesh.shared("node2", "--drain", LONG, offset=100)
        for load in loads:
            load.more(10)
        until(lambda: new.access(direction="inbound"), what="the new one to serve")
        old.terminate()
        for load in loads:
            load.more(100 if not SANITIZED else 20)
    finally:
        for load in loads:
            load.stop()
    assert [load.errors for load in loads] == [[], []]
    for sock in kept:
        traffic.echo_once(sock)
    assert old.alive, "it still has open connections"
    for sock in kept:
        sock.close()
    # The client node's idle pooled connection does not hold the old process up either.
    assert old.wait(8) == 0
    mesh.roundtrip(mesh.c1, mesh.s2)
    assert node1.alive


def test_hand_over_of_the_client_side(mesh):
    old, _ = mesh.both("--drain", LONG)
    mesh.echo(mesh.s2)
    kept = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(kept)
    load = Load(mesh, mesh.c1, mesh.s2)
    try:
        load.more()
        mesh.shared("node1", offset=100)
        load.more(10)
        old.terminate()
        load.more(100 if not SANITIZED else 20)
    finally:
        load.stop()
    assert load.errors == []
    traffic.echo_once(kept)
    kept.close()
    assert old.wait(8) == 0


def test_no_hand_over_without_port_reuse(mesh):
    mesh.shared("node2", "--port-reuse", "false")
    second = mesh.shared("node2", "--port-reuse", "false", offset=100, wait=False)
    second.expect_status = 1
    assert second.wait(8) == 1
    assert "15001" in second.log() or "address in use" in second.log().lower()


# -- descriptors ------------------------------------------------------------------------------

def test_descriptor_exhaustion(mesh):
    """Out of descriptors: says so, accepts no more, serves what it has, and recovers."""
    limit = 160
    node = mesh.shared("node2", "--workers", "1", nofile=limit)
    app = mesh.echo(mesh.s2)
    first = mesh.connect(mesh.u1, mesh.s2)
    traffic.echo_once(first)
    before = node.open_fds()
    flood = []
    for _ in range(limit):
        sock = mesh.u1.socket()
        sock.setblocking(False)
        try:
            sock.connect((mesh.s2.ip4, PORT))
        except BlockingIOError:
            pass
        flood.append(mesh.keep(sock))
    node.wait_log(r"(?i)descriptor|too many open files")
    assert node.alive
    traffic.echo_once(first)
    _rests(node, share=0.5)  # it must not spin while it waits
    for sock in flood:
        sock.close()
    until(lambda: not mesh.refused(mesh.u1, mesh.s2), what="service to come back")
    until(lambda: node.open_fds() < before + 10, what="descriptors of the others to be given back")
    for _ in range(5):
        mesh.roundtrip(mesh.u1, mesh.s2)
    traffic.echo_once(first)
    until(lambda: node.metrics().sum("spanwire_accept_pauses_total") >= 1, 5)
    assert app.accepted >= 7


def test_descriptor_exhaustion_on_the_outbound_side(mesh):
    node = mesh.shared("node1", "--workers", "1", nofile=160)
    mesh.echo(mesh.u2)
    flood = []
    for _ in range(160):
        sock = mesh.c1.socket()
        sock.setblocking(False)
        try:
            sock.connect((mesh.u2.ip4, PORT))
        except BlockingIOError:
            pass
        flood.append(mesh.keep(sock))
    node.wait_log(r"(?i)descriptor|too many open files")
    for sock in flood:
        sock.close()
    until(lambda: not mesh.refused(mesh.c1, mesh.u2), 10, "service to come back")


def _cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rests(*nodes, share):
    """
    During a second they use no more than that share of it. What they had to do before may take its time on a busy
    machine, so it may be one of several seconds: whoever spins finds none.
    """
    def used():
        return sum(_cpu_seconds(n.pid) for n in nodes)

    def quiet():
        before, since = used(), time.monotonic()
        time.sleep(1)
        return used() - before < share * (time.monotonic() - since) * SLOW
    until(quiet, what=f"a second in which no more than {share} of a processor is used")


def test_idle_node_uses_no_time(mesh):
    node1, node2 = mesh.both()
    mesh.echo(mesh.s2)
    sock = mesh.connect(mesh.c1, mesh.s2)
    traffic.echo_once(sock)
    _rests(node1, node2, share=0.1)


def test_no_descriptor_leak(mesh):
    node1, node2 = mesh.both()
    mesh.echo(mesh.s2)
    for _ in range(5):
        mesh.roundtrip(mesh.c1, mesh.s2)
        mesh.roundtrip(mesh.u1, mesh.s2)
    before = node1.open_fds(), node2.open_fds()
    for i in range(60):
        mesh.roundtrip(mesh.c1, mesh.s2)
        mesh.roundtrip(mesh.u1, mesh.s2)
        mesh.refused(mesh.c1, mesh.s2, 9999)
        if i % 3 == 0:
            with mesh.connect(mesh.c1, mesh.s2) as sock:
                sock.sendall(b"x")
                traffic.reset(sock)
    until(lambda: (node1.open_fds() <= before[0] + 4) and (node2.open_fds() <= before[1] + 4),
          5, "descriptors to be given back")


def test_pod_namespace_that_disappears(mesh):
    """A pod goes away while the node runs: the others are served as before."""
    topo = mesh.topo
    gone = topo.add_pod(topo.nodes["node2"], "gone", 99, None)
    try:
        plugged(gone)
        mesh.world.add_pod(gone, "HBONE")
        node = mesh.shared("node2", pods=[mesh.s2, gone])
        mesh.echo(mesh.s2)
        assert mesh.hbone(gone).peer_identity == gone.identity
    finally:
        del topo.pods["gone"], topo.nodes["node2"].pods["gone"]
        gone.delete()
    mesh.roundtrip(mesh.u1, mesh.s2)
    assert node.alive


def test_listener_backlog_survives_a_stopped_process(mesh):
    """SIGSTOP and SIGCONT: what queued meanwhile is served."""
    node = mesh.shared("node2")
    mesh.echo(mesh.s2)
    with node.stopped():
        # The kernel accepts for it: whoever is through is in the queue.
        socks = [mesh.connect(mesh.u1, mesh.s2) for _ in range(20)]
    for sock in socks:
        traffic.echo_once(sock)
        sock.shutdown(socket.SHUT_WR)
