# SPDX-License-Identifier: Apache-2.0
"""
A mesh of Istio's pieces and ours in every combination, asked the same questions: the control plane (ours, istiod), the
node proxy (ours, ztunnel, one of each), the node agent with its plugin (ours, Istio's).
"""
import pathlib

import istio_cases
import pytest
from istio_cases import CASES
from istio_combos import COMBOS
from istio_peers import missing
from istio_world import World
from peer_table import Results, same

PAGE = pathlib.Path(__file__).resolve().parents[3] / "doc/conformance/mesh.md"


@pytest.fixture(scope="module")
def results(interop_dir):
    return Results(interop_dir)


@pytest.fixture(scope="module", params=COMBOS, ids=[c.name for c in COMBOS])
def world(request, captured, authority, binary, tmp_path_factory):
    absent = missing(*request.param.needs())
    if absent:
        pytest.skip(f"NOT RUN: {' and '.join(absent)} not set")
    w = World(captured, authority, binary, tmp_path_factory.mktemp("m"), request.param)
    yield w
    w.close()


@pytest.mark.parametrize("question", CASES, ids=[c.__name__ for c in CASES])
def test_connectivity(world, results, question, request):
    request.node.funcargs["mesh"] = world.mesh  # whose logs are shown when it fails
    results.set(world.combo.name, question.__name__, "failed")
    world.calm()
    question(world)
    results.set(world.combo.name, question.__name__, "passed")


def test_the_published_table_is_what_was_seen(results):
    same(PAGE, results.seen, COMBOS, istio_cases)
