# SPDX-License-Identifier: Apache-2.0
"""
The conformance suite of the Gateway API, replayed: upstream's manifests, our own driver. Each
test of the suite is a test here; the table of all of them is printed and written beside the
binary as conformance.txt.
"""
import json
import os
import pathlib
import subprocess

import pytest
from conformance.catalog import ENTRIES

HERE = pathlib.Path(__file__).resolve().parent
EXPECTED = 153


def find_manifests():
    """Upstream's conformance directory, where the machine has a copy."""
    for top in (os.environ.get("GATEWAY_API_CONFORMANCE"),
                HERE.parent.parent.parent / "shared/data/gateway-api/conformance"):
        if top and os.path.isdir(top):
            return top
    return None


@pytest.fixture(scope="module")
def suite(binary, tmp_path_factory, request):
    if os.environ.get("SPANWIRE_E2E_INNER") != "yes":
        pytest.skip("cannot make namespaces here, and the ports are below 1024")
    manifests = find_manifests()
    if not manifests:
        pytest.skip("no conformance manifests (GATEWAY_API_CONFORMANCE)")
    if not (HERE / "clients/node_modules/ws").is_dir():
        pytest.skip("no npm packages in tests/e2e/clients")
    from conformance.suite import Suite
    s = Suite(binary, tmp_path_factory.mktemp("conformance"), manifests)
    yield s
    table = s.table()
    (pathlib.Path(binary).parent / "conformance.txt").write_text(table, encoding="utf-8")
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print("\n" + table)
    s.close()


def test_catalogue_is_complete():
    assert len(ENTRIES) == EXPECTED


@pytest.mark.parametrize("name", ENTRIES)
def test_conformance(suite, name):
    verdict, remark = suite.run(name)
    if verdict == "skip":
        pytest.skip(remark)
    assert verdict == "pass", remark


def test_data_plane_refused_nothing(suite, binary):
    """Whatever the manifests asked for, both sides of xDS agreed on it."""
    done = subprocess.run([binary, "status", "--json", "true", "--kubeconfig", str(suite.control.kubeconfig)],
                          capture_output=True, text=True, check=False, timeout=60)
    told = json.loads(done.stdout)
    assert told["clients"], told
    assert not [c for c in told["clients"] if c["nacks"]], told
    assert sum(c["acks"] for c in told["clients"]) > 100
