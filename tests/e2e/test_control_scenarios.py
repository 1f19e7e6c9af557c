# SPDX-License-Identifier: Apache-2.0
"""
kubectl scenarios whose answers were recorded from a real kube-apiserver: ours must be the same.

Intended differences: none at present. Should one be needed, it goes into DIFFERENT with the reason.
"""
import os
import re
import subprocess

import pytest
from harness import control
from harness.wait import SLOW

DIFFERENT = {}

NAMES = sorted(p.stem for p in (control.SCENARIOS / "golden").glob("*.txt"))
GATEWAY = {n for n in NAMES if n[:3] in ("110", "112", "114", "120", "122", "124", "126", "128", "130")}


@pytest.fixture(scope="module")
def outputs(binary, tmp_path_factory):
    kubectl = control.need_kubectl()
    top = tmp_path_factory.mktemp("scenarios")
    server = control.Control(binary, top / "server")
    out = top / "out"
    gateway = control.find_gateway_api()
    env = {**os.environ, "KUBECTL": kubectl, "LIMIT": str(int(300 * SLOW)),
           "GATEWAY_API": gateway or "/nonexistent"}
    done = subprocess.run(["bash", str(control.SCENARIOS / "run.sh"), str(server.kubeconfig), str(out)],
                          env=env, capture_output=True, text=True, check=False, timeout=1500 * SLOW)
    assert done.returncode == 0, done.stdout + done.stderr
    yield out
    server.close()


def lines(path):
    """The padding behind an age depends on it: '9s' is one column narrower than '10s'."""
    return re.sub("<age> +", "<age> ", path.read_text()).splitlines()


@pytest.mark.parametrize("name", NAMES)
def test_same_answers_as_the_reference(outputs, name):
    if name in GATEWAY and not control.find_gateway_api():
        pytest.skip("no copy of the Gateway API CRDs here (set GATEWAY_API)")
    if name in DIFFERENT:
        pytest.xfail(DIFFERENT[name])
    assert lines(outputs / f"{name}.txt") == lines(control.SCENARIOS / "golden" / f"{name}.txt")
