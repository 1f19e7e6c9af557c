# SPDX-License-Identifier: Apache-2.0
"""
Two sites of ClusterLink's pieces and ours in every combination, asked the same questions: the control plane (ours,
cl-controlplane) and the data plane (ours, cl-go-dataplane, cl-dataplane with Envoy) of each.
"""
import pathlib

import clusterlink_cases
import pytest
from clusterlink_cases import CASES, applies
from clusterlink_combos import COMBOS, ENVOY
from clusterlink_world import Fabric, World
from peer_table import Results, same

PAGE = pathlib.Path(__file__).resolve().parents[3] / "doc/conformance/link.md"


@pytest.fixture(scope="module")
def results(interop_dir):
    return Results(interop_dir)


@pytest.fixture(scope="module")
def fabric(interop_dir, tmp_path_factory):
    return Fabric(interop_dir, tmp_path_factory.mktemp("fabric"))


@pytest.fixture(scope="module")
def world(request, topology, binary, interop_dir, fabric, tmp_path_factory):
    if ENVOY in request.param.planes() and not (interop_dir / "envoy").exists():
        pytest.skip("NOT RUN: there is no Envoy")
    w = World(topology, binary, interop_dir, fabric, tmp_path_factory.mktemp("m"), request.param)
    yield w
    w.close()


ASKED = [pytest.param(combo, question, id=f"{combo.name}-{question.__name__}") for combo in COMBOS for question in CASES
         if applies(combo, question)]


@pytest.mark.parametrize("world, question", ASKED, indirect=["world"], scope="module")
def test_link(world, question, results, request):
    request.node.funcargs["mesh"] = world  # whose logs are shown when it fails
    results.set(world.combo.name, question.__name__, "failed")
    question(world)
    results.set(world.combo.name, question.__name__, "passed")


def test_the_published_table_is_what_was_seen(results):
    same(PAGE, results.seen, COMBOS, clusterlink_cases)
