# SPDX-License-Identifier: Apache-2.0
"""The authority that our control plane makes when it is given none, beside a real ztunnel: its verifier is not ours."""
import pytest
from istio_cases import pod_same_node, pod_v4
from istio_combos import Combo
from istio_peers import missing
from istio_world import World


def test_ztunnel_accepts_the_authority_that_our_control_plane_makes(captured, authority, binary, tmp_path_factory):
    combo = Combo("spanwire", ("spanwire", "ztunnel"), "spanwire")
    absent = missing(*combo.needs())
    if absent:
        pytest.skip(f"NOT RUN: {' and '.join(absent)} not set")
    w = World(captured, authority, binary, tmp_path_factory.mktemp("m"), combo, own_root=True)
    try:
        w.calm()
        for question in (pod_v4, pod_same_node):
            question(w)
    finally:
        w.close()
