# SPDX-License-Identifier: Apache-2.0
"""ClusterLink's own command line on the embedded API, and what it makes in our hands."""
import pytest
from clusterlink_world import Fabric
from harness.control import Control
from harness.link_control import API, SYSTEM
from harness.wait import until


@pytest.fixture(scope="module")
def fabric(interop_dir, tmp_path_factory):
    return Fabric(interop_dir, tmp_path_factory.mktemp("fabric"))


@pytest.fixture
def start(binary, tmp_path):
    running = []

    def begin(*flags):
        running.append(Control(binary, tmp_path / f"c{len(running)}", *flags))
        return running[-1]
    yield begin
    for c in running:
        c.close()


def in_use(control):
    until(lambda: "fabric certificate of 'east' in use" in control.log(), what="the certificate of the site")


def test_files_of_create_are_a_fabric(fabric, start, tmp_path):
    """RSA keys of 4,096 bits in PKCS#1: the site has its name from the certificate, and data planes get it."""
    where = tmp_path / "peer"
    where.mkdir()
    (where / "ca.pem").write_bytes((fabric.top() / "cert.pem").read_bytes())
    for name in ("cert.pem", "key.pem"):
        (where / name).write_bytes((fabric.top() / "east" / name).read_bytes())
    assert b"BEGIN RSA PRIVATE KEY" in (where / "key.pem").read_bytes()
    control = start("--link-listen", "127.0.0.1:0", "--link-fabric", str(where))
    in_use(control)


def test_the_manifest_of_deploy_is_applied(fabric, start):
    """`deploy peer --start none` and kubectl: twice, as people do, with nothing refused."""
    control = start("--link-listen", "127.0.0.1:0")
    control.kubectl("create", "namespace", SYSTEM, check=False)
    path = str(fabric.manifest("east"))
    control.kubectl("apply", "-f", path)
    again = control.kubectl("apply", "-f", path)
    assert "unchanged" in again and "created" not in again, again
    in_use(control)


@pytest.mark.parametrize("what", ["operator", "all"])
def test_deploy_runs_to_its_end(fabric, start, what):
    """It makes the operator's objects, all six kinds, Secrets and, for 'all', the Instance; what is there already is no error."""
    control = start("--link-listen", "127.0.0.1:0")
    control.kubectl("create", "namespace", SYSTEM, check=False)
    env = {"KUBECONFIG": str(control.kubeconfig)}
    for _ in range(2):
        fabric.cli("deploy", "peer", "--name", "east", "--start", what, env=env)
    found = control.get(f"{API}/namespaces/clusterlink-operator/instances").json["items"]
    assert [i["metadata"]["name"] for i in found] == (["cl-instance"] if what == "all" else [])
    assert control.get(f"/api/v1/namespaces/{SYSTEM}/secrets/cl-peer").status == 200
    in_use(control)
