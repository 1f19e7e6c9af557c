# SPDX-License-Identifier: Apache-2.0
"""A port that another program holds, with a real Envoy as the data plane: it refuses the listener and does not try again."""
import pytest
from harness import gateway as gw
from harness.wait import GUARD, until
from test_envoy_change import EnvoyFabric
from test_ports import TRUE, conditions, get, programmed, run_status, stranger


@pytest.fixture(name="f", params=["delta", "state of the world"])
def _f(request, binary, interop_dir, tmp_path):
    kind = type("It", (EnvoyFabric,), {"delta": request.param == "delta", "envoy": interop_dir / "envoy"})
    f = kind(binary, tmp_path, "--connector", "false")
    yield f
    f.close()


def test_statuses_say_that_envoy_cannot_bind(f):
    port, other = gw.free_port(), gw.free_port()
    f.start_gateway()
    f.gateway_object("other", [("http", "HTTP", other)])
    f.programmed("other")
    with stranger(port, share=False):
        f.gateway_object("edge", [("http", "HTTP", port)])
        until(lambda: programmed(f) == [("False", "AddressInUse")] * 2, GUARD, "the statuses")
        assert "data plane 'edge'" in conditions(f)[1][2], conditions(f)
        assert programmed(f, "other") == TRUE
        assert run_status(f).returncode == 2
    until(lambda: programmed(f) == TRUE, GUARD, "the listener to be sent again")
    until(lambda: get(port) == 404, GUARD, "the port")
    until(lambda: run_status(f).returncode == 0, GUARD, "the status")
