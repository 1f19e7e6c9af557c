# SPDX-License-Identifier: Apache-2.0
"""Where data planes listen when nobody has said it: loopback with the embedded API, everywhere in a cluster."""
import re
import subprocess

from harness import fabric as fb
from harness.ports import free_port
from harness.wait import until
from test_control_cluster import Replica


def listening(port):
    out = subprocess.run(["ss", "-Hltn"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(rf"(\S+):{port}\s", out))


def bound_by(f, source, binary, where):
    """The addresses a Gateway's port is bound at by a data plane of this control plane."""
    gateway, port = fb.XdsGateway(binary, where, source), free_port()
    try:
        f.gateway_object("edge", [("http", "HTTP", port)])
        return until(lambda: listening(port), what="the listener")
    finally:
        gateway.stop()


def test_the_embedded_api_serves_on_loopback(binary, tmp_path):
    f = fb.Fabric(binary, tmp_path, "--connector", "false", addresses=None)
    try:
        assert bound_by(f, f, binary, tmp_path) == {"127.0.0.1"}
    finally:
        f.close()


def test_an_address_that_is_given_is_served(binary, tmp_path):
    f = fb.Fabric(binary, tmp_path, "--connector", "false", addresses="127.0.0.7=0.0.0.0")
    try:
        assert bound_by(f, f, binary, tmp_path) == {"0.0.0.0"}
    finally:
        f.close()


def test_in_a_cluster_every_address_is_served(binary, tmp_path):
    f = fb.Fabric(binary, tmp_path, "--gateway", "false", "--connector", "false")
    try:
        r = Replica(binary, tmp_path, "one", f.control.kubeconfig, addresses=None)
        r.token = f.token
        try:
            assert bound_by(f, r, binary, tmp_path) == {"0.0.0.0"}
        finally:
            r.stop()
    finally:
        f.close()
