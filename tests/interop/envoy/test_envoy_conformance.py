# SPDX-License-Identifier: Apache-2.0
"""
The replay of the Gateway API's conformance suite with a real Envoy as the data plane: the same
objects, the same xDS, the same requests as tests/e2e/test_conformance.py, over delta and over state of
the world.
"""
import json
import subprocess

import pytest
from conformance.catalog import ENTRIES
from harness.envoy import Envoy
from test_conformance import find_manifests


@pytest.fixture(scope="module", params=["delta", "state of the world"])
def suite(binary, interop_dir, tmp_path_factory, request):
    manifests = find_manifests()
    if not manifests:
        pytest.skip("no conformance manifests (GATEWAY_API_CONFORMANCE)")
    from conformance.suite import Suite

    def plane(binary, where, control, _xds):
        return Envoy.of_control(interop_dir / "envoy", binary, where, control, delta=request.param == "delta")

    s = Suite(binary, tmp_path_factory.mktemp("conformance"), manifests, plane)
    yield s
    table = s.table()
    (interop_dir / f"conformance, {request.param}.txt").write_text(table, encoding="utf-8")
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + table)
    s.close()


@pytest.mark.parametrize("name", ENTRIES)
def test_conformance(suite, name):
    verdict, remark = suite.run(name)
    if verdict == "skip":
        pytest.skip(remark)
    assert verdict == "pass", remark


def test_envoy_refused_nothing(suite, binary):
    assert suite.plane.rejected() == {}
    done = subprocess.run([binary, "status", "--json", "true", "--kubeconfig", str(suite.control.kubeconfig)],
                          capture_output=True, text=True, check=False, timeout=60)
    told = json.loads(done.stdout)
    assert {c["node"] for c in told["clients"]} == {"envoy"}
    assert not [c for c in told["clients"] if c["nacks"]], told
