# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the system tests.

The suite runs inside a network and mount namespace of its own: as root directly, otherwise in
an unprivileged user namespace. pytest re-executes itself there before the first test, so
nothing it makes is visible outside and all of it disappears with the process.
"""
import contextlib
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from harness import apart, certs, hang, left, netns, serve, shard  # noqa: E402
from harness.control import Control, loopback_up  # noqa: E402
from harness.device import Web  # noqa: E402
from harness.mesh import PORT, Mesh  # noqa: E402
from harness.relay import Relay  # noqa: E402
from harness.sidecar import Echo  # noqa: E402
from harness.town import Edge, Town  # noqa: E402

INNER = "SPANWIRE_E2E_INNER"
BINARY = os.path.abspath(os.environ.get("SPANWIRE_BIN", HERE.parent.parent / "build/spanwire"))

os.environ.setdefault("SPANWIRE_XDS_LISTEN", "127.0.0.1:0")  # several run at once
# Backends and devices are on this machine, and tests read admin pages: both need permission.
LENIENT = {"SPANWIRE_UPSTREAM_ALLOW": "127.0.0.0/8,::1,own", "SPANWIRE_ADMIN_AUTH": "none"}
AS_SHIPPED = {"test_readme", "test_trust_addresses", "test_trust_envoy_names", "test_trust_links", "test_up"}  # run with the real defaults
os.environ.update(LENIENT)


@contextlib.contextmanager
def real_defaults(tmp_path_factory):
    for name in LENIENT:
        os.environ.pop(name)
    # In place of /run/spanwire, which belongs to the machine.
    os.environ["SPANWIRE_ADMIN_TOKEN_FILE"] = str(tmp_path_factory.mktemp("run") / "admin.token")
    yield
    os.environ.pop("SPANWIRE_ADMIN_TOKEN_FILE")
    os.environ.update(LENIENT)


@pytest.fixture(scope="module", autouse=True)
def _defaults(request, tmp_path_factory):
    with real_defaults(tmp_path_factory) if request.module.__name__ in AS_SHIPPED else contextlib.nullcontext():
        yield


@pytest.fixture
def as_shipped(tmp_path_factory):
    """For single tests of the other modules."""
    with real_defaults(tmp_path_factory):
        yield


def pytest_configure(config):
    config.addinivalue_line("markers", "tsan: representative quick tests, run under TSan too")
    config.addinivalue_line("markers", "alone: measures time or takes all of the machine, run by itself at the end")
    if os.environ.get(INNER) == "yes":
        loopback_up()
    if os.environ.get(INNER) or config.option.collectonly:
        return
    why = apart.refused()
    if why:
        # Said again by the fixture for every test it skips.
        os.environ[INNER] = "no: " + why
        sys.stderr.write(f"\nNO SYSTEM TESTS: cannot make namespaces here: {why}\n")
        return
    argv = apart.argv()
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture:
        capture.stop_global_capturing()
    os.environ[INNER] = "yes"
    extra = [] if config.option.basetemp else ["--basetemp", _scratch()]
    os.execvp(argv[0], [*argv, *sys.orig_argv, *extra])


def _scratch():
    """A directory for this run only; pytest's own is shared between users and breaks there."""
    os.environ["SPANWIRE_E2E_SCRATCH"] = top = tempfile.mkdtemp(prefix="spanwire-e2e-")
    return os.path.join(top, "t")


def pytest_unconfigure(config):
    del config
    top = os.environ.get("SPANWIRE_E2E_SCRATCH")
    if top:
        shutil.rmtree(top, ignore_errors=True)


def pytest_runtestloop(session):
    return shard.run(session) if shard.directory() else None


def _enter():
    """Private /run/netns, and as many descriptors as we may have."""
    netns.run("mount", "-t", "tmpfs", "tmpfs", "/run")
    os.makedirs(netns.RUN_NETNS, exist_ok=True)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


@pytest.fixture(scope="session")
def binary():
    if not os.access(BINARY, os.X_OK):
        pytest.fail(f"no executable at {BINARY}: build first or set SPANWIRE_BIN")
    return BINARY


@pytest.fixture
def web():
    """What a device has behind it."""
    w = Web()
    yield w
    w.close()


@pytest.fixture(scope="module")
def file_web():
    """The same for all tests of a file."""
    w = Web()
    yield w
    w.close()


@pytest.fixture
def make_relay(topology, binary, tmp_path):
    """Starts relays; those that still run end with the test, and well."""
    del topology
    made = []

    def make(*args, **kw):
        made.append(Relay(binary, tmp_path, *args, **kw))
        return made[-1]
    yield make
    for r in made:
        running = r.p.poll() is None
        assert r.stop() == 0 or not running
        assert not re.search(r"Sanitizer|runtime error", r.said()), r.said()[-4000:]


@pytest.fixture
def start_api(binary, tmp_path):
    """Starts API servers without the other controllers; they end with the test."""
    made = []

    def start(*flags):
        made.append(Control(binary, tmp_path / f"c{len(made)}", "--gateway=false", "--connector=false", *flags))
        return made[-1]
    yield start
    for s in made:
        s.close()


@pytest.fixture
def echo():
    """What a tunnel leads to."""
    e = Echo()
    yield e
    e.close()


def capture(binary, pod):
    """Redirects a pod's traffic with the product's own command."""
    if os.environ.get("SPANWIRE_E2E_REDIRECT") == "script":
        netns.capture_by_script(pod)
    else:
        netns.run(binary, "cni", "redirect", "apply", "--netns", pod.path)


# name: (node, last byte of the address, who captures it)
PODS = {
    "c1": ("node1", 2, "shared"), "s1": ("node1", 3, "shared"),
    "u1": ("node1", 4, None), "d1": ("node1", 5, "dedicated"), "e1": ("node1", 6, "dedicated"),
    "p1": ("node1", 7, None),
    "c2": ("node2", 2, "shared"), "s2": ("node2", 3, "shared"), "t2": ("node2", 4, "shared"),
    "u2": ("node2", 5, None), "p2": ("node2", 6, None), "d2": ("node2", 7, "dedicated"),
    "w2": ("node2", 8, None), "x2": ("node2", 9, "shared"), "q2": ("node2", 10, None),
}


@pytest.fixture(scope="session")
def topology():
    """
    Two nodes with their pods and one machine outside. c*, s*, t2, x2 are captured by a shared
    node, d* and e1 by a dedicated one. u* run applications outside the mesh; p*, q2 and w2 are
    where foreign HBONE peers live.
    """
    state = os.environ.get(INNER, "no: not in a namespace")
    if state != "yes":
        pytest.skip(f"cannot make namespaces here ({state})")
    _enter()
    topo = netns.Topology()
    nodes = {n: topo.add_node(n) for n in ("node1", "node2")}
    for name, (node, host, captured) in PODS.items():
        topo.add_pod(nodes[node], name, host, captured)
    topo.add_outside()
    topo.plain_apps = {"u1", "u2"}
    yield topo
    topo.delete()


@pytest.fixture(scope="session")
def captured(topology, binary):
    for pod in topology.pods.values():
        if pod.captured:
            capture(binary, pod)
    return topology


@pytest.fixture(scope="session")
def authority(topology, binary, tmp_path_factory):
    return certs.Authority(binary, tmp_path_factory.mktemp("pki") / "ca")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    del item
    with hang.guard():
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    del item
    with hang.guard():
        yield


_failed = set()  # files with a test that failed


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """
    When the fixtures of a file are gone, nothing of it may go on: a process keeps ports, processors and memory, and a
    thread in accept() at a closed socket takes the connections of a later test's server. Not a fixture, because
    pytest takes such a one down before another that the last test of the file did not use.
    """
    with hang.guard():
        outcome = yield
    if nextitem is not None and nextitem.path == item.path:
        return
    found = [f"left by {item.path.name}, and ended now: {line}" for line in left.end()]
    found += [f"left by {item.path.name}, in accept() of a closed socket: {name}" for name in serve.waiting_at_closed()]
    if found and (item.path in _failed or outcome.excinfo):  # no wonder, but it has to be known
        item.config.pluginmanager.getplugin("terminalreporter").write_line("\n" + "\n".join(found))
    elif found:
        pytest.fail("\n".join(found), pytrace=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        _failed.add(item.path)
    env = item.funcargs.get("mesh") if hasattr(item, "funcargs") else None
    if report.failed and env is not None:
        report.sections.extend(env.report())


@pytest.fixture
def mesh(captured, authority, binary, tmp_path):
    env = Mesh(captured, authority, binary, tmp_path)
    yield env
    env.close()


@pytest.fixture
def inbound(mesh):
    """The mesh with a node in front of s2, and what HBONE needs to reach it."""
    mesh.node = mesh.shared("node2")
    mesh.app = mesh.echo(mesh.s2)
    mesh.target = (mesh.s2.ip4, 15008)
    mesh.authority = f"{mesh.s2.ip4}:{PORT}"
    return mesh


@pytest.fixture(scope="module")
def town(topology):
    """Machines and wires of their own, for a file."""
    del topology  # the namespaces are made below its private /run
    t = Town()
    yield t
    t.delete()


@pytest.fixture(scope="module")
def edge(town, binary, tmp_path_factory):
    """'spanwire up' on the edge machine of the town."""
    e = Edge(binary, town["edge"], tmp_path_factory.mktemp("edge"))
    yield e
    e.stop()
