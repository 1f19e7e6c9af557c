# SPDX-License-Identifier: Apache-2.0
"""
Every set of resources that our translation makes in its golden tests, and for the manifests of the
conformance suite, served one after the other to running Envoys: over delta and over state of the
world they accept all of it, and all of it gets active.
"""
import json
import os
import pathlib
import re
import subprocess

import pytest
from feed import CLUSTER, LISTENER, SECRET, Feed, read_response, secret
from harness.envoy import Envoy, bootstrap
from harness.gateway import free_port
from harness.wait import until

ROOT = pathlib.Path(__file__).resolve().parents[3]
TESTS = ("test_gateway_xds", "test_gateway_objects")


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """{name: resources}, written by the unit tests themselves."""
    build = pathlib.Path(os.environ["SPANWIRE_BUILD"])
    out = tmp_path_factory.mktemp("xds")
    env = {**os.environ, "SW_XDS_OUT": str(out), "SW_GOLDEN": str(ROOT / "tests/golden"),
           "SW_SHARED": str(ROOT.parent / "shared")}
    for name in TESTS:
        done = subprocess.run([build / "tests/unit/control" / name], env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    found = {}
    for path in sorted(out.iterdir()):
        found.setdefault(path.name.split(".")[0], {}).update(read_response(path))
    assert sum(n.startswith("golden-") for n in found) > 100 and len(found) > 140
    return found


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """A certificate with its key: those of the golden files are not real."""
    top = tmp_path_factory.mktemp("cert")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=golden", "-keyout", top / "key", "-out", top / "crt"],
                   check=True, capture_output=True)
    return (top / "crt").read_bytes(), (top / "key").read_bytes()


def usable(resources, real):
    """The same with certificates that exist."""
    chain, key = real
    return {(t, n): v if t != SECRET else
            secret(n, roots=chain) if n.startswith("ca/") else secret(n, chain, key)
            for (t, n), v in resources.items()}


@pytest.fixture(scope="module")
def feed(binary):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    # Golden files bind addresses that nobody has.
    pathlib.Path("/proc/sys/net/ipv4/ip_nonlocal_bind").write_text("1\n", encoding="ascii")
    pathlib.Path("/proc/sys/net/ipv6/ip_nonlocal_bind").write_text("1\n", encoding="ascii")
    f = Feed(binary)
    yield f
    f.close()


@pytest.fixture(scope="module", params=["delta", "state of the world"])
def envoy(request, binary, feed, interop_dir, tmp_path_factory):
    admin = free_port()
    text = bootstrap(binary, "--xds-addr", f"127.0.0.1:{feed.port}", "--admin", f"127.0.0.1:{admin}")
    if request.param != "delta":
        text = text.replace("DELTA_GRPC", "GRPC")
    e = Envoy(interop_dir / "envoy", tmp_path_factory.mktemp("envoy"), text, admin, drain_s=1)
    # The subscriptions of the one before may be there a little longer than it.
    wanted = {"1" if request.param == "delta" else "0"}
    until(lambda: {s["delta"] for s in feed.status()} == wanted, 20, "Envoy to ask for something, in its way")
    yield e
    e.stop()


def settled(feed, envoy, resources):
    """None when Envoy serves exactly these; else what is missing. A refusal fails at once."""
    refused = [s for s in feed.status() if s["nacks"] != "0"]
    assert not refused, refused
    if not all(s["synced"] == "1" and s["pending"] == "0" for s in feed.status()):
        return "not everything is acknowledged"
    told = json.loads(envoy.admin("/config_dump?resource=dynamic_listeners")).get("configs", [])
    assert not [c for c in told if "error_state" in c], told
    active = {c["name"] for c in told if "active_state" in c and "draining_state" not in c}
    wanted = {n for t, n in resources if t == LISTENER}
    if active != wanted or [c for c in told if "warming_state" in c]:
        return f"listeners {active ^ wanted}"
    told = json.loads(envoy.admin("/config_dump?resource=dynamic_active_clusters")).get("configs", [])
    active = {c["cluster"]["name"] for c in told}
    wanted = {n for t, n in resources if t == CLUSTER}
    if active != wanted or envoy.stats("cluster_manager.warming_clusters")["cluster_manager.warming_clusters"]:
        return f"clusters {active ^ wanted}"
    return None


def test_envoy_takes_every_set(cases, real, feed, envoy, interop_dir):
    for name, resources in cases.items():
        resources = usable(resources, real)
        feed.serve(resources)
        last = [None]

        def done():
            last[0] = settled(feed, envoy, resources)
            return last[0] is None
        try:
            until(done, 15, name)
        except AssertionError as e:
            raise AssertionError(f"{name}: {last[0]}: {e}\n{envoy.log()[-3000:]}") from None
    feed.serve({})
    warned = [line for line in envoy.log().splitlines()
              if re.search(r"\[(warning|error|critical)\]", line) and "unable to bind" not in line]
    (interop_dir / f"warnings-{envoy.admin_port}.txt").write_text("\n".join(warned), encoding="utf-8")
    assert envoy.rejected() == {}
    assert not [w for w in warned if "deprecated" in w.lower()], warned
